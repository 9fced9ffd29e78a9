"""The wheel: it holds all that belongs to it, and its demo runs in an environment that has nothing else."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    place = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place], cwd=root, check=True)
    (made,) = place.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a clean environment with the wheel and its pinned requirements."""
    place = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    clean = place / "bin" / "python"
    install: list[str | Path] = [clean, "-m", "pip", "install", "--disable-pip-version-check", "-qq"]
    pins = root / "requirements" / "lock.txt"
    done = subprocess.run(
        [*install, "--require-hashes", "-r", pins], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        if "hash" in done.stderr.lower():
            pytest.fail(done.stderr)
        pytest.skip(f"the package registry is not reachable: {done.stderr.strip().splitlines()[-1]}")
    subprocess.run([*install, "--no-deps", wheel], check=True)
    return clean


def test_contents(root: Path, wheel: Path) -> None:
    """Golden recordings and hooks are in it, byte for byte, and so are the help text and the licence."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    for name in ("golden", "hooks"):
        there = {
            f"forensic/_data/{name}/{path.relative_to(root / name).as_posix()}": path.read_bytes()
            for path in (root / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert there
        assert {path: held.get(path) for path in there} == there
    assert held["forensic/cli/help.txt"].startswith(b"Usage: forensic ")
    assert "forensic/py.typed" in held
    assert [name for name in held if name.endswith("/licenses/LICENSE")] != []
    assert [name for name in held if name.startswith(("tests", "docs"))] == []


def test_demo(python: Path, tmp_path: Path) -> None:
    """What `make demo` shows from a checkout, the wheel shows without one."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FORENSIC_HOME")}
    done = subprocess.run(
        [python, "-I", "-m", "forensic.demo"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nok         " in done.stdout
    assert "\nTurn 1 \u00b7 " in done.stdout
    assert "\nTokens\n" in done.stdout


def test_program(python: Path, tmp_path: Path) -> None:
    """The console script is there, and so are the folders that travel with the code."""
    program = python.parent / "forensic"
    done = subprocess.run([program, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("forensic ")
    code = "from forensic.data import folder; print(folder('hooks') / 'README.md'); print(folder('golden'))"
    found = subprocess.run([python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    hooks, golden = map(Path, found.stdout.splitlines())
    assert hooks.read_text(encoding="utf-8").startswith("# Hooks")
    assert python.parent.parent in golden.parents
