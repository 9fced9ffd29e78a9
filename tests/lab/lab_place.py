"""What a run with real clients needs: the lab, the clients from npm, and our program where another user can run it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["CLIENTS", "PACKAGES", "Missing", "Program", "client_folder", "harness_of", "install", "is_isolated", "lab"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = {
    "claude": "@anthropic-ai/claude-code@2.1.332",
    "codex": "@openai/codex@0.171.0",
    "copilot": "@github/copilot@1.0.102",
}
"""The clients that the lab's scenarios were written for; they change what they write from version to version."""
CLIENTS: Final = {
    "claude": "claude",
    "codex": "codex",
    "codexjs": "codex",
    "copilot": "copilot",
    "copilotoai": "copilot",
}
"""The lab's clients, and which harness each is: two of them are the same program with another model."""
_PATIENCE: Final = 600


class Missing(Exception):
    """Something is not there that the lab needs; the argument says what."""


def harness_of(client: str) -> str:
    """Which of our harnesses a client of the lab is."""
    return CLIENTS[client]


def lab() -> Path:
    """The folder of the lab: FORENSIC_LAB, else beside this checkout. Raises `Missing`."""
    place = Path(os.environ.get("FORENSIC_LAB") or ROOT.parent / "shared" / "lab").resolve()
    if not (place / "run_lab.py").is_file():
        raise Missing("the lab is not there: FORENSIC_LAB says where")
    if not sys.platform.startswith("linux"):
        raise Missing("the lab needs Linux")
    for program in ("node", "git"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not there")
    return place


def client_folder(*harnesses: str) -> Path:
    """Where npm has installed these: FORENSIC_LAB_CLIENTS, else `clients` in the lab. Raises `Missing`."""
    place = Path(os.environ.get("FORENSIC_LAB_CLIENTS") or lab() / "clients").resolve()
    for harness in harnesses:
        package = PACKAGES[harness].rpartition("@")[0]
        if not (place / "node_modules" / package / "package.json").is_file():
            raise Missing(f"{package} is not installed: FORENSIC_LAB_CLIENTS says where")
    return place


def install(place: Path, *packages: str) -> None:
    """Have npm install clients into a folder. Raises `Missing`."""
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("npm is not there")
    command = [npm, "i", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place), *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"npm took more than {_PATIENCE} s") from None
    if done.returncode:
        raise Missing(f"npm cannot install the clients: {(done.stderr.strip().splitlines() or ['?'])[-1]}")


def is_isolated() -> bool:
    """Whether each run gets a network, a home and a user of its own."""
    return os.geteuid() == 0 and bool(shutil.which("unshare")) and bool(shutil.which("ip"))


class Program:
    """A copy of this checkout, with what it depends on, in an environment that every user can run."""

    def __init__(self, folder: Path) -> None:
        """Make it in a folder that everybody can enter. Raises `Missing`."""
        self.folder = folder
        self.interpreter = _interpreter()
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([self.interpreter, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        _copy_dependencies(site)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "forensic", site / "forensic", ignore=ignored)
        shutil.copytree(ROOT / "hooks", site / "forensic" / "_data" / "hooks", ignore=ignored)
        shutil.copyfile(Path(__file__).with_name("lab_inside.py"), folder / "lab_inside.py")
        # its user may not write what Python would cache
        cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run([self.python, "-m", "compileall", "-qq", site], check=True, env=cached)
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)

    def command(self, job: str, variables: dict[str, str]) -> str:
        """The line for the shell that does a job of lab_inside.py."""
        words = [f"{name}='{value}'" for name, value in {"LAB_PROGRAM": str(self.python), **variables}.items()]
        return " ".join(["env", *words, self.interpreter, "-I", str(self.folder / "lab_inside.py"), job])


def _interpreter() -> str:
    """An interpreter of our version that the user of the lab can run. Raises `Missing`."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (getattr(sys, "_base_executable", sys.executable), f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        real = Path(path).resolve()
        if real.exists() and (not is_isolated() or all(folder.stat().st_mode & 1 for folder in real.parents)):
            return str(real)
    raise Missing(f"no {version} that other users can run")


def _copy_dependencies(site: Path) -> None:
    wanted, seen = ["forensic"], set[str]()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another system, or version of Python
        needed = [one for one in found.requires or () if "extra ==" not in one]
        wanted += [re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0] for one in needed]
        for file in found.files or ():
            if name != "forensic" and ".." not in file.parts and file.suffix != ".pyc":
                target = site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(str(file.locate())), target)
