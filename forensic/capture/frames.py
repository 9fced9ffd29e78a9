"""What is in a zstd file that somebody else writes: frame after frame and block after block, as far as it is sound.

A block unpacks to 128 KiB at most, so memory is bounded by that and by the window, whatever the file claims. The end of
every frame is found here and not by the library, which takes a torn file for a finished one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forensic import zstd
from forensic.wrapping import LINE_LIMIT

__all__ = ["WINDOW", "Frames"]

WINDOW: Final = 1 << 27
"""Largest window of a frame in bytes: what zstd itself accepts unless it is told otherwise."""
_ROW: Final = LINE_LIMIT // 4 * 3 - (1 << 20)
"""Longest row in bytes, but for a block: however it must be wrapped, its line stays below the limit."""
_FREE: Final = 1 << 26
"""So many bytes may come out of next to nothing, ..."""
_RATIO: Final = 1000
"""... more only out of at least a thousandth of them: transcripts that repeat themselves reach a few hundred."""
_SKIPPED: Final = 0x184D2A5
"""What a frame begins with that only carries something along, but for its last four bits."""
_TORN: Final = "it ends inside a frame"


class _Damage(Exception):
    """Where the reading ends; the argument says why."""


class Frames:
    """One pass over the frames of a file, given as pieces cut anywhere.

    `taken` counts the bytes of the file whose content was handed out. When the pass ends before the file does,
    `damage` says why; nothing behind that place is read.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """Nothing is read yet."""
        self.taken = 0
        self.damage: str | None = None
        self._pieces = pieces
        self._held = b""
        self._at = 0
        self._passed = 0
        """Bytes of the file before `_held`."""
        self._given = 0
        self._row = 0
        """Bytes since the last line feed."""

    def chunks(self) -> Iterator[bytes]:
        """The content, a block at a time."""
        try:
            while self._fill(1):
                yield from self._frame(self._take(4))
                self.taken = self._passed + self._at
        except _Damage as damage:
            self.damage = str(damage)
        except zstd.NotZstd as error:
            self.damage = str(error)

    def _frame(self, magic: bytes) -> Iterator[bytes]:
        if int.from_bytes(magic, "little") >> 4 == _SKIPPED:
            self._skip(int.from_bytes(self._take(4), "little"))
            return
        if magic != zstd.MAGIC:
            raise _Damage("something else stands where a frame should begin")
        head = magic + self._take(1)
        head += self._take(zstd.header_length(head) - len(head))
        says = zstd.header(head)
        if says.window > WINDOW:
            raise _Damage(f"a frame needs a window of {says.window} bytes, more than 128 MiB")
        if says.dictionary:
            raise _Damage("a frame needs a dictionary")
        blocks = zstd.Blocks(WINDOW)
        blocks.feed(head)
        last = False
        while not last:
            mark = self._take(3)
            value = int.from_bytes(mark, "little")
            last, kind, length = bool(value & 1), value >> 1 & 3, value >> 3
            if kind == 3 or length > zstd.BLOCK:
                raise _Damage(zstd.SPOILT)
            content = blocks.feed(mark + self._take(1 if kind == 1 else length))
            if content:
                self._judge(content)
                yield content
            self.taken = self._passed + self._at
        if says.checksum:
            blocks.feed(self._take(4))

    def _judge(self, content: bytes) -> None:
        """Whether content may be handed out, by its size alone."""
        self._given += len(content)
        if self._given > _FREE and self._given > _RATIO * (self._passed + self._at):
            raise _Damage(f"it unpacks to more than {_RATIO} times its size")
        end = content.rfind(b"\n")
        self._row = self._row + len(content) if end < 0 else len(content) - end - 1
        if self._row > _ROW:
            raise _Damage(f"a row of more than {_ROW} bytes")

    def _fill(self, count: int) -> bool:
        """Whether so many bytes more are there."""
        while len(self._held) - self._at < count:
            piece = next(self._pieces, b"")
            if not piece:
                return False
            self._passed += self._at
            self._held, self._at = self._held[self._at :] + piece, 0
        return True

    def _take(self, count: int) -> bytes:
        if not self._fill(count):
            raise _Damage(_TORN)
        self._at += count
        return self._held[self._at - count : self._at]

    def _skip(self, count: int) -> None:
        while count:
            part = min(count, zstd.BLOCK)
            self._take(part)
            count -= part
