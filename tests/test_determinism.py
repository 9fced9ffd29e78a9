"""The same recording gives the same bytes: over processes, hash seeds, time zones, locales and Pythons."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from golden_extension import CASES, GOLDEN, IDS

from forensic.bundle import seal
from forensic.recording import open_recording
from forensic.renderers import document

ROOT: Final = GOLDEN.parent
VERSIONS: Final = ("3.11", "3.12", "3.13")
LOCK: Final = ROOT / "requirements" / "lock.txt"

Digests = dict[str, list[str]]

CHILD: Final = """
import hashlib, io, json, sys
from pathlib import Path
from forensic.recording import open_recording
from forensic.renderers import document
told = {}
for path in sys.argv[1:]:
    session = open_recording(Path(path)).replay()
    out = io.BytesIO()
    document.write(session, out)
    lines = hashlib.sha256(b"".join(document.bindings(session))).hexdigest()
    told[path] = [session.observations_sha256, hashlib.sha256(out.getvalue()).hexdigest(), lines]
json.dump(told, sys.stdout)
"""


def replayed_by(python: str, paths: list[Path], **environment: str) -> Digests:
    """What another process makes of some recordings: digests of observations, document and bindings."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([python, "-c", CHILD, *map(str, paths)], env=env, capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    told: Digests = json.loads(done.stdout)
    return told


@cache
def replayed_here() -> Digests:
    """What this process makes of the golden recordings."""
    told: Digests = {}
    for case in CASES:
        session = open_recording(case).replay()
        whole = b"".join(document.chunks(session)) + b"\n"
        lines = hashlib.sha256(b"".join(document.bindings(session))).hexdigest()
        told[str(case)] = [session.observations_sha256, hashlib.sha256(whole).hexdigest(), lines]
    return told


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "1", "TZ": "Asia/Kolkata", "LC_ALL": "POSIX"},
        {"PYTHONHASHSEED": "random", "TZ": "Asia/Kolkata", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "random", "TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "2", "TZ": "UTC", "LC_ALL": "tr_TR.UTF-8", "PYTHONOPTIMIZE": "2"},
    ],
    ids=lambda environment: "-".join(environment.values()).replace("/", "."),
)
def test_another_process_gives_the_same_bytes(environment: dict[str, str]) -> None:
    """Neither hash seed, time zone, locale nor optimisation shows in a replay."""
    assert replayed_by(sys.executable, CASES, **environment) == replayed_here()


def test_the_hard_inputs_are_among_them() -> None:
    """A row 1,200 deep and text in scripts that no older Python knows are replayed above."""
    deep = b"".join(path.read_bytes() for path in (GOLDEN / "claude/deep-row/source").rglob("*.jsonl"))
    scripts = b"".join(path.read_bytes() for path in (GOLDEN / "claude/unicode-scripts/source").rglob("*.jsonl"))
    assert b"[" * 1200 in deep
    assert all(script in scripts.decode() for script in ("\U0001e4d0", "\U00010d50", "\U000105c0", "\U0001ccf0"))
    assert {"claude/deep-row", "claude/unicode-scripts"} <= set(IDS)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_another_python_gives_the_same_bytes(version: str, pytestconfig: pytest.Config) -> None:
    """Every supported Python replays the recordings to the same bytes."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("that is this Python")
    python = prepared(version, pytestconfig)
    assert replayed_by(python, CASES, PYTHONHASHSEED="random") == replayed_here()


def prepared(version: str, config: pytest.Config) -> str:
    """A Python of that version with the locked packages, made once; skips the test where that cannot be."""
    base = interpreter(version)
    if base is None:
        pytest.skip(f"no Python {version} on this machine")
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    assert config.cache is not None
    home = Path(config.cache.mkdir(f"python-{version}-{lock}"))
    python = home / "bin" / "python"
    if (home / "ready").exists() and python.exists():
        return str(python)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    for command in ([base, "-m", "venv", "--clear", str(home)], [*install, "-r", str(LOCK)]):
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot set up Python {version}: {done.stderr.decode()[-200:].strip()}")
    (home / "ready").touch()
    return str(python)


def interpreter(version: str) -> str | None:
    """The newest working Python of a version, on the path or among those of pyenv."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"), reverse=True)
    for candidate in (shutil.which(f"python{version}"), *map(str, kept)):
        if candidate is None:
            continue
        ask = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(ask, capture_output=True, check=False, cwd=Path.home())
        if done.stdout.decode().strip() == version:
            return candidate
    return None


def test_sealed_recordings_give_the_same_bytes(tmp_path: Path) -> None:
    """A sealed bundle replays like the folder it was made of, in another process too."""
    sealed: dict[str, Path] = {}
    for case in CASES:
        made = tmp_path / case.parent.name / case.name
        shutil.copytree(case, made, ignore=shutil.ignore_patterns("source", "sessions"), copy_function=shutil.copyfile)
        seal(made, bundle := made.with_suffix(".zst"))
        sealed[str(case)] = bundle
    told = replayed_by(sys.executable, list(sealed.values()), PYTHONHASHSEED="3")
    assert {case: told[str(bundle)] for case, bundle in sealed.items()} == replayed_here()
