"""Sealing beside the loop: each session by a child process of its own, so that no hook waits for a large one."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from forensic.capture.found import Found
from forensic.capture.requests import Key, Outcome
from forensic.errors import ForensicError

__all__ = ["Sealer", "Sealings"]

_MOST: Final = 2
"""Children at a time."""

Sealer = Callable[[Found], bytes]
"""Seals a session; what it has to say of it, for whoever asked. Raises `ForensicError`."""


class _Child(Struct):
    """A process, the pipe on which it will say what came of it, and what it has said."""

    pid: int
    pipe: int
    said: bytearray


class Sealings:
    """The sessions that are being sealed."""

    def __init__(self, seal: Sealer, *, fork: bool, shed: Callable[[], None] = lambda: None) -> None:
        """Without `fork` a session is sealed at once; `shed` lets go, in a child, of what only its parent may hold."""
        self._seal = seal
        self._fork = fork
        self._shed = shed
        self._children: dict[Key, _Child] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._children

    def __len__(self) -> int:
        return len(self._children)

    @property
    def keys(self) -> set[Key]:
        """Which sessions."""
        return set(self._children)

    @property
    def full(self) -> bool:
        """Whether another one has to wait."""
        return len(self._children) >= _MOST

    def begin(self, found: Found) -> Outcome | None:
        """Seal a session; its outcome if that is known at once, as it is when no process can be made for it."""
        if not self._fork:
            return self._sealed(found)
        for stream in (sys.stdout, sys.stderr):
            # what waits there would be written by both
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        pipe: tuple[int, ...] = ()
        try:
            pipe = os.pipe()
            pid = os.fork()
        except OSError as error:
            for descriptor in pipe:
                os.close(descriptor)
            told = f"no process for it: {error.strerror or type(error).__name__}"
            return Outcome(harness=found.harness, session=found.session, error=told, exit_code=70)
        reader, writer = pipe
        if pid == 0:
            self._labour(found, reader, writer)
        os.close(writer)
        os.set_blocking(reader, False)
        self._children[found.harness, found.session] = _Child(pid, reader, bytearray())
        return None

    def reap(self) -> Iterator[Outcome]:
        """The outcomes of those that are done."""
        for key, child in list(self._children.items()):
            while True:
                try:
                    data = os.read(child.pipe, 1 << 16)
                except BlockingIOError:
                    break
                child.said += data
                if not data:
                    self._forget(key)
                    yield self._outcome(key, bytes(child.said))
                    break

    def close(self) -> None:
        """End all children; what they were at is done again by the next recorder."""
        for key, child in list(self._children.items()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
            self._forget(key)

    def _forget(self, key: Key) -> None:
        child = self._children.pop(key)
        os.close(child.pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.pid, 0)

    def _outcome(self, key: Key, said: bytes) -> Outcome:
        try:
            outcome = msgspec.msgpack.decode(said, type=Outcome)
        except (msgspec.MsgspecError, RecursionError):
            outcome = None
        if outcome is None or (outcome.harness, outcome.session) != key:
            error = "the process that sealed it was ended"
            return Outcome(harness=key[0], session=key[1], error=error, exit_code=70)
        return outcome

    def _labour(self, found: Found, reader: int, writer: int) -> NoReturn:
        """A child's life; it ends here, whatever happens."""
        try:
            # while a child holds it, too, a write into the pipe of a recorder that has died would wait for ever
            for descriptor in (reader, *(child.pipe for child in self._children.values())):
                os.close(descriptor)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, _stop)
            self._shed()
            with os.fdopen(writer, "wb") as out:
                out.write(msgspec.msgpack.encode(self._sealed(found)))
        finally:
            os._exit(0)

    def _sealed(self, found: Found) -> Outcome:
        try:
            return Outcome(harness=found.harness, session=found.session, sealed=self._seal(found))
        except ForensicError as error:
            told, code = str(error), error.exit_code
        except Exception as error:  # noqa: BLE001 -- the evidence is kept, and the recorder goes on
            told, code = f"{type(error).__name__}: {error}", 70
        return Outcome(harness=found.harness, session=found.session, error=told, exit_code=code)


def _stop(_number: int, _frame: object) -> NoReturn:
    """Unwind, so that the working folder is removed on the way out."""
    raise SystemExit(1)
