"""Try an installed hook: run the very command that the harness would run, and see the payload come."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from forensic.registration.edit import Found

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Trial", "is_recorded", "median_of", "start_time", "try_hook"]

_PATIENCE: Final = 10.0
"""Seconds until the command must have ended; the payload lies there before that."""
_TRIES: Final = 5
_SESSION: Final = "forensic-doctor"
_LOOK: Final = 0.0005
_LONGEST: Final = 1 << 16


class Trial(Struct, frozen=True):
    """How it went: `trouble` is empty when the payload came. `seconds` is how long the command took."""

    trouble: str
    seconds: float = 0.0


def try_hook(one: Found, event: str) -> Trial:
    """Run the command of a registered hook with another event; what it leaves in the spool is removed again.

    The payload names no transcript. It is tried more than once, as a recorder that runs may be faster than we are.
    """
    trial = Trial("")
    for _ in range(_TRIES):
        watch = _Watch(Path(one.runs.hook).parent.parent / "spool")
        trial = _once(one, event, watch)
        if trial.trouble or watch.seen:
            return trial
    return Trial("it ran, and no payload came into the spool", trial.seconds)


def _once(one: Found, event: str, watch: _Watch) -> Trial:
    before, _, after = command_of(one).rpartition(f" {one.runs.harness} {one.runs.event} ")
    payload = f'{{"session_id":"{_SESSION}","hook_event_name":"{event}","token":"{watch.token.decode()}"}}\n'
    began = time.perf_counter()
    try:
        said = _run(f"{before} {one.runs.harness} {event} {after}", payload.encode(), watch)
    except OSError as error:
        return Trial(f"the command cannot be run: {error.strerror}")
    seconds = time.perf_counter() - began
    watch.look()
    if said is None:
        return Trial(f"the command did not end within {_PATIENCE:.0f} s", seconds)
    code, output = said
    if code or output.strip() not in (b"", b"{}"):
        shown = output[:80].decode(errors="replace")
        return Trial(f"the command should be silent and end with 0: it ended with {code} and said {shown!r}", seconds)
    trouble = "" if watch.seen else watch.trouble()
    return Trial(f"the hook could not do its work: {trouble}" if trouble else "", seconds)


def command_of(one: Found) -> str:
    """The command of a hook, as this system's shell would be given it."""
    handler = one.handler
    keys = ("powershell", "command") if sys.platform == "win32" else ("bash", "command")
    return next(str(handler[key]) for key in keys if isinstance(handler.get(key), str))


def is_recorded(spool: Path) -> bool:
    """Whether a recorder holds its lock on a spool; raises OSError when that cannot be told."""
    try:
        descriptor = os.open(spool / "recorder.lock", os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return False
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(descriptor)
    return False


def start_time(python: str) -> float:
    """Seconds that an interpreter takes to do nothing; raises OSError, `subprocess.SubprocessError`."""
    began = time.perf_counter()
    command = [python, "-I", "-S", "-c", "pass"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE)  # noqa: S603 -- a registered one
    return time.perf_counter() - began


def median_of(times: list[float]) -> float:
    """The one in the middle; there must be one."""
    return sorted(times)[len(times) // 2]


class _Watch:
    """Looks for one payload in a spool."""

    def __init__(self, spool: Path) -> None:
        self.token = secrets.token_hex(8).encode()
        self.seen = False
        self._spool = spool
        self._known = set(self._names())
        self._log = spool / "diagnostics.log"
        self._logged = self._size()

    def look(self) -> None:
        """See whether it is there, and remove it; nothing else is touched."""
        for name in self._names():
            if name in self._known or not name.endswith(".hook"):
                continue
            path = self._spool / name
            try:
                if path.stat().st_size < _LONGEST and self.token in path.read_bytes():
                    self.seen = True
                    path.unlink(missing_ok=True)
            except OSError:
                continue
            self._known.add(name)

    def trouble(self) -> str:
        """What the hook wrote into its log meanwhile, "" if nothing."""
        if self._size() == self._logged:
            return ""
        try:
            return self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-1]
        except (OSError, IndexError):
            return ""

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._spool)  # noqa: PTH208 -- names are enough, and it is called all the time
        except OSError:
            return []

    def _size(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0


def _run(command: str, payload: bytes, watch: _Watch) -> tuple[int, bytes] | None:
    """Run a command in the shell of this system and watch; its exit code and output, None when it does not end."""
    with subprocess.Popen(  # noqa: S603 -- what the harness runs, too
        command if sys.platform == "win32" else ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            if process.stdin is not None:
                process.stdin.write(payload)
                process.stdin.close()
        except BrokenPipeError:
            pass
        end = time.monotonic() + _PATIENCE
        while process.poll() is None:
            if time.monotonic() > end:
                process.kill()
                return None
            watch.look()
            time.sleep(_LOOK)
        return process.returncode, _said(process)


def _said(process: subprocess.Popen[bytes]) -> bytes:
    """What a process has said, without waiting for others who may hold its output open."""
    if process.stdout is None:
        return b""
    if sys.platform != "win32":
        os.set_blocking(process.stdout.fileno(), False)
    try:
        return os.read(process.stdout.fileno(), _LONGEST)
    except BlockingIOError:
        return b""
