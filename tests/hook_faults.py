"""The hook under strace: which system calls it makes once it is up, and what it leaves when one of them goes wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hook_runs import ALONE, NAME, PYTHON, Installed, parse

CALL: Final = re.compile(r"^(\w+)\((.*)\)\s+= (-?\w+)")
FIRST: Final = "umask"
"""The first system call of the hook's own; what comes before is the interpreter."""


class Call(NamedTuple):
    """A system call: its name, how many of that name there were with it, arguments and result as strace shows them."""

    name: str
    number: int
    arguments: str
    result: str


class Outcome(NamedTuple):
    """What a run came to: exit code (negative for a signal), output, calls, and what lies in the spool."""

    code: int
    output: bytes
    calls: list[Call]
    stored: list[bytes]
    torn: list[str]
    temporary: list[str]

    @property
    def acknowledged(self) -> bool:
        """Whether the payload got its name and the folder was synced after that."""
        named = [n for n, call in enumerate(self.calls) if call.name == "renameat" and call.result == "0"]
        return bool(named) and any(c.name == "fsync" and c.result == "0" for c in self.calls[named[-1] :])


def require() -> str:
    """The path of strace; skips the test where there is none or where it may not trace."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    inject = ["-e", "trace=getppid", "-e", "inject=getppid:error=EPERM:when=1"]
    if subprocess.run(
        [strace, *inject, "-o", "/dev/null", PYTHON, "-c", "pass"], check=False, capture_output=True
    ).returncode:
        pytest.skip("strace may not trace here")
    return strace


class Bench:
    """A data folder to be copied for each run: every run finds the same, with its parts compiled."""

    def __init__(self, place: Path, payload: bytes, prepared: Installed) -> None:
        self.strace, self.place, self.payload, self.prepared = require(), place, payload, prepared

    def run(self, name: str, inject: Sequence[str] = ()) -> Outcome:
        """Run the hook in a fresh copy `name` of the data folder, with an injection of strace."""
        home = self.place / name
        shutil.copytree(self.prepared.home, home)
        log = self.place / f"{name}.log"
        options = [word for one in inject for word in ("-e", f"inject={one}")]
        command = [self.strace, "-qq", "-o", str(log), *options, *self.prepared.command()]
        command[command.index(str(self.prepared.folder / "hook.py"))] = str(home / "hook" / "hook.py")
        done = subprocess.run(
            command, input=self.payload, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ALONE, check=False
        )
        outcome = look(home / "spool", self.payload, done.returncode, done.stdout, calls_in(log))
        shutil.rmtree(home)
        return outcome


def calls_in(log: Path) -> list[Call]:
    """The calls that a log of strace tells, from `FIRST` on."""
    seen: Counter[str] = Counter()
    calls: list[Call] = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        name = line.partition("(")[0]
        if not name.isidentifier():
            continue
        seen[name] += 1
        if calls or name == FIRST:
            whole = CALL.match(line)
            calls.append(Call(name, seen[name], whole[2] if whole else "", whole[3] if whole else "?"))
    return calls


def look(spool: Path, payload: bytes, code: int, output: bytes, calls: list[Call]) -> Outcome:
    """What lies in a spool: payloads that are whole, names of those that are not, names of temporary files."""
    names = sorted(path.name for path in spool.iterdir()) if spool.is_dir() else []
    stored: list[bytes] = []
    torn: list[str] = []
    for name in names:
        if name.endswith(".hook"):
            try:
                assert NAME.fullmatch(name)
                stored.append(parse(spool / name).raw)
                assert stored[-1] == payload
            except (AssertionError, ValueError):
                torn.append(name)
    return Outcome(code, output, calls, stored, torn, [name for name in names if name.startswith(".tmp-")])


def points(calls: Sequence[Call], names: Sequence[str] | None = None) -> list[Call]:
    """The calls at which something can be made to go wrong, all or those with some names."""
    return [call for call in calls if call.name != "exit_group" and (names is None or call.name in names)]
