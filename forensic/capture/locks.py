"""Locks that the kernel drops with the process that holds them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from forensic.errors import Busy, WriteFailed

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Lock"]

_PATIENCE: Final = 0.5
"""Seconds: hooks hold the lock for a moment when they look whether anybody holds it."""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Lock:
    """The lock of a file."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before it is taken."""
        self._path = path
        self._descriptor = -1

    def take(self) -> None:
        """Take it. Raises `Busy` when somebody has it, `WriteFailed`."""
        if self._descriptor >= 0:
            raise Busy(path=self._path)
        try:
            self._descriptor = os.open(self._path, _FLAGS, 0o600)
        except OSError as error:
            raise WriteFailed(path=self._path, detail=error.strerror or type(error).__name__) from None
        until = time.monotonic() + _PATIENCE
        while not self._try(exclusive=True):
            if time.monotonic() > until:
                self.release()
                raise Busy(path=self._path)
            time.sleep(0.01)

    def held(self) -> bool:
        """Whether anybody has it now."""
        if self._descriptor >= 0:
            return True
        try:
            self._descriptor = os.open(self._path, _FLAGS & ~os.O_CREAT)
        except OSError:
            return False
        try:
            return not self._try(exclusive=False)
        finally:
            self.release()

    def release(self) -> None:
        """Let it go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _try(self, *, exclusive: bool) -> bool:
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
