"""Hooks as they are installed, run as harnesses run them, and what they leave in the spool."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

HOOKS: Final = Path(__file__).parent.parent / "hooks"
PYTHON: Final = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
ALONE: Final = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
NAME: Final = re.compile(r"([0-9a-f]{32})-([0-9]{20})-([0-9]+)-([0-9]+)-([0-9a-f]{8})\.hook")
KEYS: Final = (
    "v harness argv boot mono wall pid ppid parent_exe cwd env kept saw bytes cut stored".split()  # noqa: SIM905 -- shorter
)


class Spooled(NamedTuple):
    """One payload file: its name, its first line, and the bytes behind it."""

    name: str
    header: dict[str, Any]
    raw: bytes


def parse(path: Path) -> Spooled:
    """Read a payload file as docs/spool.md says; asserts that nothing of it is torn."""
    line, feed, raw = path.read_bytes().partition(b"\n")
    assert feed == b"\n"
    header = json.loads(line.decode("utf-8", "strict"))
    assert list(header) == KEYS
    assert header["stored"] == len(raw)
    parts = NAME.fullmatch(path.name)
    assert parts is not None
    assert parts.groups()[:4] == (header["boot"], f"{header['mono']:020d}", str(header["wall"]), str(header["pid"]))
    return Spooled(path.name, header, raw)


class Installed:
    """A data folder with the hook in it."""

    def __init__(
        self, home: Path, roots: Mapping[str, Sequence[Path]] | None = None, start: Sequence[str] = ()
    ) -> None:
        self.home, self.spool, self.folder = home, home / "spool", home / "hook"
        self.folder.mkdir(mode=0o700, parents=True)
        for path in HOOKS.glob("*.py"):
            shutil.copy2(path, self.folder)
        folders = {harness: tuple(map(str, places)) for harness, places in (roots or {}).items()}
        baked = f"HOME = {str(home)!r}\nROOTS = {folders!r}\nSTART = {tuple(start)!r}\n"
        (self.folder / "baked.py").write_text(baked, encoding="utf-8")

    def command(self, harness: str = "claude", *events: str) -> list[str]:
        """The hook's command, without the shell around it."""
        return [PYTHON, "-I", "-S", str(self.folder / "hook.py"), harness, *(events or ("PreToolUse",))]

    def registered(self, python: str = PYTHON, tail: str = "exit 0") -> str:
        """The hook's command as a harness has it, for sh."""
        program, script = shlex.quote(python), shlex.quote(str(self.folder / "hook.py"))
        return f"[ -x {program} ] && {program} -I -S {script} claude PreToolUse >/dev/null 2>&1; {tail}"

    def run(self, payload: bytes = b"{}", command: Sequence[str | bytes] | None = None, **more: Any) -> None:
        """Run the hook as a harness does; asserts that it succeeds in silence."""
        silent(command or self.command(), payload, **more)

    def payloads(self) -> list[Spooled]:
        """All payloads in the order of their names; asserts that whatever else lies there is known."""
        if not self.spool.is_dir():
            return []
        names = sorted(path.name for path in self.spool.iterdir())
        known = {"pins", "recorder.lock", "recorder.start", "diagnostics.log"}
        assert [name for name in names if not NAME.fullmatch(name) and name not in known] == []
        return [parse(self.spool / name) for name in names if name not in known]

    def payload(self) -> Spooled:
        """The one payload that is there."""
        (one,) = self.payloads()
        return one

    def pins(self) -> dict[str, bytes]:
        """The contents of all pins."""
        folder = self.spool / "pins"
        return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}

    def diagnostics(self) -> list[str]:
        """The lines of diagnostics.log, without time and pid."""
        path = self.spool / "diagnostics.log"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        assert all(re.fullmatch(r"[0-9]+ [0-9]+ [^\x00-\x1f]+", line) for line in lines)
        return [line.split(" ", 2)[2] for line in lines]


def silent(command: Sequence[str | bytes], payload: bytes, **more: Any) -> None:
    """Run a command; asserts that its exit code is 0 and that it prints nothing."""
    options: dict[str, Any] = {"input": payload, "capture_output": True, "env": ALONE, "timeout": 60} | more
    done = subprocess.run(command, check=False, **options)
    assert (done.returncode, done.stdout or b"", done.stderr or b"") == (0, b"", b"")


def body(name: str = "spooling") -> Any:
    """A part of the hook, imported anew into this process, so that tests may change it."""
    path = HOOKS / f"{name}.py"
    module = ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), path, "exec"), module.__dict__)  # noqa: S102 -- an import would leave a __pycache__
    return module


@contextmanager
def standard_input(payload: bytes, *, end: bool = True) -> Iterator[None]:
    """Let standard input of this process be a pipe that holds a payload, and whose end comes or does not."""
    before, alarm = os.dup(0), signal.getsignal(signal.SIGALRM)
    read, write = os.pipe()
    os.write(write, payload)
    if end:
        os.close(write)
    os.dup2(read, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        signal.signal(signal.SIGALRM, alarm)
        for descriptor in (before, read) if end else (before, read, write):
            os.close(descriptor)
