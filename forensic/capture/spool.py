"""The spool: payload files that hooks leave, one each, and what a recorder does with them (docs/spool.md).

Nothing in a payload decides a name here, and a file goes only when what it held was recorded elsewhere to last.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, field

from forensic import private
from forensic.errors import WriteFailed
from forensic.model import Payload, Ref, Saw

__all__ = ["TEST_EVENT", "Newer", "Spool", "Spooled", "boot_id", "is_alive"]

TEST_EVENT: Final = "ForensicDoctor"
"""The event of a payload by which a doctor tries a hook; it is evidence of nothing."""

_NAME: Final = re.compile(r"([0-9a-f]{32})-([0-9]{20})-([0-9]+)-[0-9]+-[0-9a-f]{8}\.hook")
_TEMPORARY: Final = re.compile(r"\.tmp-([0-9]+)-([0-9a-f]{8})")
_PIN: Final = re.compile(r"([0-9]+)-([0-9]+)")
_REQUEST: Final = re.compile(r"[0-9a-f]{16}\.request")
_TICK_NS: Final = 20_000_000
_ANSWER: Final = re.compile(r"\.?[0-9a-f]{16}\.answer")
_STALE: Final = 60.0
"""Seconds after which the process that has the number of a temporary file's is taken for another."""


class Newer(Exception):
    """The payload file was written by a newer hook."""


class _Saw(Struct, array_like=True, frozen=True):
    path: str
    dev: int
    ino: int
    size: int


class _Head(Struct, frozen=True):
    """The first line of a payload file."""

    v: int
    harness: str
    stored: int
    argv: tuple[str, ...] = ()
    boot: str = ""
    mono: int = 0
    wall: int = 0
    pid: int = 0
    ppid: int = 0
    parent_exe: str = ""
    cwd: str = ""
    env: tuple[str, ...] = ()
    kept: dict[str, str] = {}
    saw: tuple[_Saw, ...] = ()
    size: int = field(default=0, name="bytes")
    cut: bool = False


class _Version(Struct, frozen=True):
    """As much of the first line as a newer hook may be trusted to write."""

    v: int


_head = msgspec.json.Decoder(_Head).decode
_version = msgspec.json.Decoder(_Version).decode


class Spooled(NamedTuple):
    """A payload file and what is in it; the payload has no number yet."""

    name: str
    payload: Payload


class Spool:
    """The spool folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is made before it is needed."""
        self.folder = folder
        self.pins = folder / "pins"
        self._name = str(folder)
        self._seen: tuple[int, float] | None = None

    def prepare(self) -> None:
        """Make the folder; raises `WriteFailed`."""
        private.folder(self.folder)

    def changed(self, now: float) -> bool:
        """Whether something may have come since the last call; once a second it is looked at in any case."""
        try:
            at = os.stat(self._name).st_mtime_ns  # noqa: PTH116 -- fifty times a second
        except OSError:
            return False
        if self._seen is not None and self._seen[0] == at and now - self._seen[1] < 1.0:
            return False
        # clocks of file systems are coarse: what comes in the same tick shows no other time
        self._seen = (at, now) if time.time_ns() - at > _TICK_NS else None
        return True

    def recheck(self) -> None:
        """Have `changed` say so the next time."""
        self._seen = None

    def names(self) -> list[str]:
        """The payload files, oldest first: by boot, and within one by its monotonic clock."""
        found = [match for match in map(_NAME.fullmatch, self._listed()) if match is not None]
        boots: dict[str, int] = {}
        for match in found:
            boots[match[1]] = min(boots.get(match[1], int(match[3])), int(match[3]))
        found.sort(key=lambda match: (boots[match[1]], match[1], match[2], match[0]))
        return [match[0] for match in found]

    def read(self, name: str) -> Spooled | None:
        """One payload; None when the file holds no whole one. Raises `Newer`, `OSError` (also for no file of ours)."""
        head, feed, raw = private.contents(self.folder / name).partition(b"\n")
        try:
            if _version(head).v > 1 and feed:
                raise Newer(name)
            told = _head(head)
        except (msgspec.MsgspecError, RecursionError):
            return None
        if told.v < 1 or not feed or told.stored != len(raw):
            return None
        payload = Payload(
            ref=Ref("hooks", 1, 0),
            n=0,
            harness=told.harness,
            argv=told.argv,
            boot=told.boot,
            mono=told.mono,
            wall=told.wall,
            pid=told.pid,
            ppid=told.ppid,
            parent_exe=told.parent_exe,
            cwd=told.cwd,
            env=told.env,
            kept=dict(sorted(told.kept.items())),
            saw=tuple(Saw(one.path, one.dev, one.ino, one.size) for one in told.saw),
            size=told.size if told.cut else len(raw),
            cut=told.cut and told.size > len(raw),
            raw=raw,
        )
        return Spooled(name, payload)

    def remove(self, name: str) -> None:
        """Drop a payload file that was recorded."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / name).unlink()

    def sync(self) -> None:
        """Make it last that payload files are gone. Raises `OSError`."""
        private.sync(self.folder)

    def set_aside(self, name: str) -> None:
        """Put a file that is no whole payload where nobody takes it for one; it is kept."""
        private.folder(self.folder / "lost")
        (self.folder / name).replace(self.folder / "lost" / name.lstrip("."))

    def adopt(self, now: float) -> list[str]:
        """Finish what dead hooks have left: a whole payload gets its name, a torn one is set aside; names of those."""
        torn = []
        for name in self._listed():
            match = _TEMPORARY.fullmatch(name)
            if match is None:
                continue
            with contextlib.suppress(OSError, WriteFailed, Newer):
                if is_alive(int(match[1])) and now - (self.folder / name).stat().st_mtime < _STALE:
                    continue
                spooled = self.read(name)
                whole = None
                if spooled is not None:
                    one = spooled.payload
                    whole = _NAME.fullmatch(f"{one.boot}-{one.mono:020d}-{one.wall}-{one.pid}-{match[2]}.hook")
                if whole is None:
                    self.set_aside(name)
                    torn.append(name)
                else:
                    (self.folder / name).replace(self.folder / whole[0])
        return torn

    def is_pinned(self, dev: int, ino: int) -> bool:
        """Whether a hook keeps a link to that file."""
        return (self.pins / f"{dev}-{ino}").exists()

    def sweep(self, held: Container[tuple[int, int]], now: float) -> None:
        """Drop links that nobody needs: no session holds the file, and no payload waits that may name it."""
        if any(_NAME.fullmatch(name) or _TEMPORARY.fullmatch(name) for name in self._listed()):
            return
        for path in self.pins.iterdir() if self.pins.is_dir() else ():
            match = _PIN.fullmatch(path.name)
            with contextlib.suppress(OSError):
                if match and (int(match[1]), int(match[2])) not in held and now - path.lstat().st_ctime > _STALE:
                    path.unlink()

    def sweep_answers(self, now: float) -> None:
        """Drop answers whose asker has died."""
        for name in self._listed():
            if _ANSWER.fullmatch(name):
                path = self.folder / name
                with contextlib.suppress(OSError):
                    if now - path.lstat().st_mtime > _STALE:
                        path.unlink()

    def unpin(self, dev: int, ino: int) -> None:
        """Drop that link."""
        with contextlib.suppress(OSError):
            (self.pins / f"{dev}-{ino}").unlink()

    # --- requests ---------------------------------------------------------------------------------------------------

    def ask(self, request: bytes, alive: Callable[[], bool], *, patience: float) -> bytes | None:
        """Hand a request to the recorder that runs and wait for its answer; None when there is none any more."""
        name = f"{secrets.token_hex(8)}.request"
        with private.create(self.folder / f".{name}") as out:
            out.write(request)
        (self.folder / f".{name}").replace(self.folder / name)
        answer = self.folder / name.replace(".request", ".answer")
        until = time.monotonic() + patience
        try:
            while time.monotonic() < until:
                if answer.exists():
                    return answer.read_bytes()
                if not alive():
                    return None
                time.sleep(0.02)
            return None
        finally:
            for path in (self.folder / name, answer):
                path.unlink(missing_ok=True)

    def requests(self) -> Iterator[tuple[str, bytes]]:
        """Requests that wait, and what they say."""
        for name in self._listed():
            if _REQUEST.fullmatch(name):
                with contextlib.suppress(OSError):
                    yield name, (self.folder / name).read_bytes()

    def answer(self, name: str, answer: bytes) -> None:
        """Answer a request, unless whoever asked has given up."""
        if not (self.folder / name).exists():
            return
        bare = name.replace(".request", ".answer")
        with private.create(self.folder / f".{bare}") as out:
            out.write(answer)
        (self.folder / f".{bare}").replace(self.folder / bare)
        (self.folder / name).unlink(missing_ok=True)

    def _listed(self) -> list[str]:
        """The files; what is no regular one is nothing of a hook's."""
        try:
            with os.scandir(self._name) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except FileNotFoundError:
            return []


def is_alive(pid: int) -> bool:
    """Whether a process of that number runs; where that cannot be told without harm, it is taken to."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def boot_id() -> str:
    """What hooks call this boot of the machine; empty where that cannot be told for sure."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")
    except (OSError, ValueError):
        return ""
