"""The journal of a session that is being recorded: what has happened so far, one checked line each.

A line counts once it was synced, and only lines that were synced were ever acted upon; so whatever a crash has made of
the end of the file is cut off when it is read. A whole line that means nothing here is of a newer version: then nothing
is touched.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from forensic.capture.follow import Begun, Ended, Grown, write_all

__all__ = ["Context", "File", "Head", "Journal", "Line", "Refusal", "Taken", "read_lines"]

_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | os.O_APPEND
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip
_SUM: Final = 9
"""Eight hex digits of a CRC-32 and a blank stand before each line."""


class Head(Struct, frozen=True, tag="head", tag_field="k"):
    """Whose session this is, and when its recording began (Unix time and monotonic clock, nanoseconds)."""

    harness: str
    session: str
    wall: int
    mono: int
    boot: str


class Taken(Struct, frozen=True, tag="payload", tag_field="k", omit_defaults=True):
    """A payload was taken from the spool file `name`; the file of payloads now has so many bytes.

    `process` is that which ran the hook, in the boot of the machine that the name of the file begins with.
    """

    name: str
    bytes: int
    event: str = ""
    ends: bool = False
    wall: int = 0
    child: str = ""
    process: int = 0


class File(Struct, frozen=True, tag="file", tag_field="k", omit_defaults=True):
    """A file of the session: its number, where it lies, how it was found."""

    number: int
    path: str
    found_by: str
    side: bool = False
    native_id: str = ""


class Refusal(Struct, frozen=True, tag="refused", tag_field="k"):
    """A path that a payload named and that must not be read."""

    path: str
    reason: str


class Context(Struct, frozen=True, tag="context", tag_field="k"):
    """What was known of a repository when the session worked in it."""

    facts: dict[str, Any]


Line = Head | Taken | File | Refusal | Context | Begun | Grown | Ended

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Journal:
    """An open journal. `lines` are those that were there when it was opened."""

    def __init__(self, path: Path) -> None:
        """Open or make it, and cut off what a crash has left at its end. Raises `OSError`, also when it is newer."""
        self._descriptor = os.open(path, _FLAGS, 0o600)
        self.lines: Sequence[Line] = ()
        self._pending: list[bytes] = []
        try:
            self.lines, good = read_lines(path)
            if good < os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, good)
        except BaseException:
            os.close(self._descriptor)
            raise

    def add(self, lines: Iterable[Line]) -> None:
        """Have lines written with the next `commit`."""
        for line in lines:
            self._pending.append(_line(_encode(line)))

    @property
    def pending(self) -> bool:
        """Whether lines wait for a commit."""
        return bool(self._pending)

    def commit(self) -> None:
        """Write what was added, and make it last. Raises `OSError`."""
        if self._pending:
            write_all(self._descriptor, b"".join(self._pending))
            os.fsync(self._descriptor)
            self._pending.clear()

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def read_lines(path: Path) -> tuple[list[Line], int]:
    """The lines up to the first that is not whole, and how many bytes they take."""
    lines: list[Line] = []
    good = 0
    with path.open("rb") as stream:
        for text in stream:
            told = text[_SUM:-1]
            if text != _line(told):
                break
            try:
                lines.append(_decode(told))
            except msgspec.MsgspecError:
                raise OSError(errno.ENOTSUP, "a newer version of forensic recorded it", str(path)) from None
            good += len(text)
    return lines, good


def _line(told: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(told), told)
