"""Reading a file that somebody else is writing: its rows, exactly as they stand, split at 0x0A and nowhere else.

The size is taken once, when the file is opened, and nothing beyond it is read: what a harness appends meanwhile is
left to the next capture, and a recording never holds half of an append.

Of a compressed file the rows are those of what is in it: offsets, counts and digests know nothing of the packing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from forensic.capture.frames import Frames
from forensic.errors import NoSuchPath, NotReadable, NotRegular

__all__ = ["CHUNK", "PACKED", "Tail", "TailRow", "open_regular", "prefix_sha256", "split_rows"]

CHUNK: Final = 1 << 20
PACKED: Final = ".jsonl.zst"
"""How the names of compressed transcripts end."""
_HEAD: Final = 4096
_FOOT: Final = 64
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class TailRow(NamedTuple):
    """One row: its byte offset, its number from 1, its bytes, and its end: LF, CR LF or nothing."""

    offset: int
    line: int
    raw: bytes
    end: bytes


def open_regular(path: Path) -> int:
    """A descriptor of a regular file whose path holds no link any more (the caller resolved it).

    Raises `NotRegular` for a pipe, device, socket, folder or link, `NoSuchPath` and `NotReadable`. Nothing but a
    regular file is ever opened, since opening alone does things to a device, and a pipe would block for ever.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise NotRegular(path=path)
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except (OSError, ValueError) as error:
        raise NotReadable(path=path, detail=_reason(error)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(path=path)
    return descriptor


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "no valid path"


class Tail:
    """One pass over one generation of a file, from its first byte to the size it had when it was opened.

    `sha256`, `rows`, `read` and `unread` (offset and length of an unterminated last row) are complete when the
    iterator that `blocks` or `lines` returned has ended. `read` stays below `size` when the file shrank meanwhile.

    With `unpack`, a compressed transcript is read as what is in it, and its `encoding` is ``zstd``: then `size` and
    `whole` are bytes of the file, all others of the content, and `damage` says why not all of it could be unpacked.
    """

    def __init__(
        self,
        path: Path,
        *,
        most: int | None = None,
        chunk: int = CHUNK,
        unpack: bool = False,
        digest: bool = True,
    ) -> None:
        """Open the file; with `most`, not more than so many bytes of it count. Raises as `open_regular` does.

        Without `digest` there is no `sha256` and no count of `rows`, and reading takes half as long.
        """
        self.path = path
        self._descriptor = open_regular(path)
        status = os.fstat(self._descriptor)
        self.dev, self.ino, self.mtime_ns = status.st_dev, status.st_ino, status.st_mtime_ns
        self.whole = status.st_size
        self.size = status.st_size
        self.rows = 0
        self.read = 0
        self.unread: tuple[int, int] | None = None
        self._most = most
        self._chunk = chunk
        self._hashes = digest
        self._taken = 0
        self._short = False
        self._digest = hashlib.sha256()
        self._head = b""
        self._foot = b""
        self._frames = Frames(self._stored()) if unpack and self._is_packed() else None
        if most is not None and self._frames is None:
            self.size = min(most, self.whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def sha256(self) -> str:
        """Of all bytes read so far, in hex."""
        return self._digest.hexdigest()

    @property
    def encoding(self) -> str:
        """How the content stands in the file: ``plain`` or ``zstd``."""
        return "plain" if self._frames is None else "zstd"

    @property
    def damage(self) -> str | None:
        """Why a compressed file was not unpacked to its end; None as long as nothing is wrong with it."""
        return None if self._frames is None else self._frames.damage

    @property
    def missing(self) -> int:
        """Bytes of the file that could not be read; at least one when something is known to follow."""
        if self._frames is None:
            return self.size - self.read
        return 0 if self._frames.damage is None else max(1, self.size - self._frames.taken)

    def longer_than(self, length: int) -> bool:
        """Whether there are more bytes than so many, apart from any `most`."""
        if self._frames is None:
            return self.whole > length
        if self.read > length:
            return True
        with Tail(self.path, most=length + 1, unpack=True) as again:
            return sum(map(len, again.chunks())) > length

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they come, not more than a chunk at a time."""
        for data in self._stored() if self._frames is None else self._unpacked(self._frames):
            if self._hashes:
                self._digest.update(data)
            self.read += len(data)
            yield data

    def _is_packed(self) -> bool:
        """By its name; but plain rows under such a name are plain rows."""
        if not self.path.name.endswith(PACKED):
            return False
        try:
            first = os.read(self._descriptor, _HEAD)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
        except OSError as error:
            self.close()
            raise NotReadable(path=self.path, detail=_reason(error)) from None
        return bool(first) and not first.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")

    def _stored(self) -> Iterator[bytes]:
        """The bytes of the file."""
        while self._taken < self.size:
            try:
                data = os.read(self._descriptor, min(self._chunk, self.size - self._taken))
            except OSError as error:
                raise NotReadable(path=self.path, detail=_reason(error)) from None
            if not data:
                self._short = True
                return
            self._taken += len(data)
            if len(self._head) < _HEAD:
                self._head = (self._head + data)[:_HEAD]
            self._foot = (self._foot + data[-_FOOT:])[-_FOOT:]
            yield data

    def _unpacked(self, frames: Frames) -> Iterator[bytes]:
        if self._most is None:
            yield from frames.chunks()
            return
        left = self._most
        for data in frames.chunks() if left else ():
            yield data[:left]
            left -= min(left, len(data))
            if not left:
                return

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Runs of whole rows with the offset of each; only the last may end without a line feed."""
        offset = 0
        held: list[bytes] = []
        for data in self.chunks():
            cut = data.rfind(b"\n") + 1
            if not cut:
                held.append(data)
                continue
            held.append(data[:cut])
            block = b"".join(held)
            held = [data[cut:]] if cut < len(data) else []
            if self._hashes:
                self.rows += block.count(b"\n")
            yield offset, block
            offset += len(block)
        if held:
            block = b"".join(held)
            self.rows += 1
            self.unread = (offset, len(block))
            yield offset, block

    def lines(self) -> Iterator[TailRow]:
        """Every row of the file; blank ones and an unterminated last one are rows too."""
        line = 1
        for offset, block in self.blocks():
            for row in split_rows(offset, line, block):
                yield row
            line = row.line + 1

    def changed(self) -> str | None:
        """What befell the bytes read while they were read: ``shrank``, ``rewritten``, or None; appending is neither."""
        status = os.fstat(self._descriptor)
        if self._short or status.st_size < self.size:
            return "shrank"
        if (status.st_size, status.st_mtime_ns) == (self.whole, self.mtime_ns) or not self._taken:
            return None
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        head = os.read(self._descriptor, len(self._head))
        os.lseek(self._descriptor, self._taken - len(self._foot), os.SEEK_SET)
        foot = os.read(self._descriptor, len(self._foot))
        return None if (head, foot) == (self._head, self._foot) else "rewritten"


def split_rows(offset: int, line: int, block: bytes) -> Iterator[TailRow]:
    """The rows of one block that starts at `offset` with row number `line`."""
    pieces = block.split(b"\n")
    last = pieces.pop()
    for raw in pieces:
        length = len(raw) + 1
        if raw.endswith(b"\r"):
            yield TailRow(offset, line, raw[:-1], b"\r\n")
        else:
            yield TailRow(offset, line, raw, b"\n")
        offset += length
        line += 1
    if last:
        yield TailRow(offset, line, last, b"")


def prefix_sha256(path: Path, length: int, *, unpack: bool = False) -> str | None:
    """SHA-256 of the first `length` bytes of a file, in hex; None when it is shorter. Raises as `open_regular`.

    With `unpack`, of what is in it.
    """
    with Tail(path, most=length, unpack=unpack) as tail:
        if tail.encoding == "plain" and tail.size < length:
            return None
        for _ in tail.chunks():
            pass
        return tail.sha256 if tail.read == length else None
