"""The container: a canonical tar in zstd frames, a seal, a seek table (docs/bundle.md sections 2 to 4).

Bytes only: what the members mean is `forensic.bundle`'s business. The reader is strict, streams, and believes nothing:
it finds the end of every frame itself, and no size that a file claims is allocated before it has been judged.
"""

from __future__ import annotations

import bisect
import hashlib
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import accumulate, chain
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

from forensic import zstd
from forensic.ustar import END, FRAME, LIMITS, Defect, Limits, Piece, Tar, alone, extent, header, padding, valid_name

__all__ = ["SEAL", "Stored", "Writer", "read", "read_frame", "read_range", "read_table", "seek_table"]

SEAL_MAGIC: Final = b"\x5b\x2a\x4d\x18"
TABLE_MAGIC: Final = b"\x5e\x2a\x4d\x18"
SEAL: Final = SEAL_MAGIC + struct.pack("<I", 40) + b"FRSEAL1\0"
_SEALED: Final = len(SEAL) + 32
_FOOTER: Final = struct.Struct("<IBI")
_SEEKABLE: Final = 0x8F92EAB1
AIM: Final = 1 << 20
"""Bytes of tar at which the writer ends a frame: a reader holds a few frames at a time, and damage costs one."""
_STORED_LIMIT: Final = FRAME + FRAME // 256 + 64
"""No frame of 4 MiB that a compressor wrote is longer."""
_BLOCKS_LIMIT: Final = 1 << 14
"""Nor has it more blocks."""


class Stored(NamedTuple):
    """One data frame as it stands in the file: its number from 1, its offset, its bytes, the size of its content."""

    number: int
    at: int
    data: bytes
    size: int

    def content(self) -> bytes:
        """What it holds. Raises `Defect`."""
        try:
            return zstd.decompress(self.data)
        except zstd.NotZstd as error:
            raise Defect(str(error), frame=self.number, at=self.at) from None


# --- writing ---------------------------------------------------------------------------------------------------------


class Writer:
    """Writes a container: members in byte order of their names, the manifest first. Use it as a context manager.

    Equal members give equal bytes, however they are cut into chunks. Two frames are compressed at a time.
    """

    def __init__(self, out: BinaryIO) -> None:
        """Write to `out`, from where it stands."""
        self._out = out
        self._pool = ThreadPoolExecutor(2)
        self._waiting: deque[tuple[int, Future[bytes]]] = deque()
        self._digest = hashlib.sha256()
        self._entries: list[tuple[int, int]] = []
        self._buffer: list[bytes] = []
        self._fill = 0
        self._aim = min(AIM, FRAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        """One member. Raises `Defect` when the chunks do not add up to `size`, and on a name that cannot be."""
        if not valid_name(name) or size >= 8 << 30:
            raise Defect(f"{name!a} cannot be a member", member=name, kind="limit")
        if alone(name):
            self._flush()
        exact = _exactly(name, size, chunks)
        if name.endswith(".jsonl"):
            self._rows(header(name, size), exact, bytes(padding(size)))
        else:
            self._whole(header(name, size), exact, bytes(padding(size)), extent(size))
        if alone(name):
            self._flush()

    def finish(self) -> None:
        """The end of the archive, the seal, the seek table."""
        self._put(END)
        self._flush()
        self._drain(0)
        seal = SEAL + self._digest.digest()
        self._out.write(seal)
        self._entries.append((len(seal), 0))
        self._out.write(seek_table(self._entries))

    def _rows(self, head: bytes, chunks: Iterable[bytes], pad: bytes) -> None:
        """Cut at row ends only; the header stays with the first row."""
        lead = head
        held: list[bytes] = []
        for chunk in chunks:
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                held.append(chunk)
                continue
            rows = b"".join([*held, chunk[:cut]])
            held = [chunk[cut:]] if cut < len(chunk) else []
            at = 0
            if lead:
                at = rows.find(b"\n") + 1
                self._put(lead + rows[:at])
                lead = b""
            self._fit(rows, at)
        self._put(lead + b"".join(held) + pad)

    def _fit(self, rows: bytes, at: int) -> None:
        while at < len(rows):
            room = max(self._aim - self._fill, 0)
            cut = rows.rfind(b"\n", at, at + room) + 1
            if not cut:
                cut = rows.find(b"\n", at) + 1
            self._put(rows[at:cut])
            at = cut

    def _whole(self, head: bytes, chunks: Iterable[bytes], pad: bytes, size: int) -> None:
        """Not cut at all, or when it fills more than a frame, cut where frames are full."""
        if size <= FRAME:
            self._put(b"".join([head, *chunks, pad]))
            return
        self._flush()
        for run in chain([head], chunks, [pad]):
            self._fill_up(run)

    def _put(self, run: bytes) -> None:
        """Bytes that stay together, unless no frame can hold them: then they fill frames of their own."""
        if self._fill + len(run) > self._aim:
            self._flush()
        self._fill_up(run)
        if self._fill >= self._aim or len(run) > FRAME:
            self._flush()

    def _fill_up(self, run: bytes) -> None:
        at = 0
        while at < len(run):
            part = run[at : at + FRAME - self._fill]
            self._buffer.append(part)
            self._fill += len(part)
            at += len(part)
            if self._fill == FRAME:
                self._flush()

    def _flush(self) -> None:
        if not self._fill:
            return
        content = b"".join(self._buffer)
        self._buffer, self._fill = [], 0
        self._waiting.append((len(content), self._pool.submit(zstd.compress, content)))
        self._drain(2)

    def _drain(self, most: int) -> None:
        while len(self._waiting) > most:
            size, future = self._waiting.popleft()
            stored = future.result()
            self._out.write(stored)
            self._digest.update(stored)
            self._entries.append((len(stored), size))


def _exactly(name: str, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    left = size
    for chunk in chunks:
        left -= len(chunk)
        yield chunk
        if left < 0:
            break
    if left:
        raise Defect("changed while it was packed", member=name)


def seek_table(entries: Iterable[tuple[int, int]]) -> bytes:
    """The seek table for frames of (stored, content) bytes: zstd's seekable format, without checksums."""
    pairs = b"".join(struct.pack("<II", *entry) for entry in entries)
    footer = _FOOTER.pack(len(pairs) // 8, 0, _SEEKABLE)
    return TABLE_MAGIC + struct.pack("<I", len(pairs) + len(footer)) + pairs + footer


# --- reading ---------------------------------------------------------------------------------------------------------


def read(stream: BinaryIO, limits: Limits = LIMITS, pool: Executor | None = None) -> Iterator[list[Piece]]:
    """The members of a container, frame by frame, from its first byte to its last. Raises `Defect`.

    Only when the iterator ends has everything been checked: structure, checksums, seal, seek table, end of file.
    A `pool` of one thread takes over what needs no interpreter, two frames ahead.
    """
    walk = _Walk(stream, limits)
    tar = Tar(limits, pool)
    for stored, content in _contents(walk.frames(), pool):
        yield tar.feed(stored.number, stored.at, content)
    walk.finish(tar)


def _contents(frames: Iterator[Stored], pool: Executor | None) -> Iterator[tuple[Stored, bytes]]:
    """Frames and their contents. What is wrong further on waits until all before it was handed out."""
    if pool is None:
        for stored in frames:
            yield stored, stored.content()
        return
    waiting: deque[tuple[Stored, Future[bytes]]] = deque()
    fault: Defect | None = None
    more = True
    while more or waiting:
        while more and len(waiting) < 3:
            try:
                stored = next(frames)
            except StopIteration:
                more = False
            except Defect as defect:
                more, fault = False, defect
            else:
                waiting.append((stored, pool.submit(stored.content)))
        if waiting:
            stored, content = waiting.popleft()
            yield stored, content.result()
    if fault is not None:
        raise fault


class _Walk:
    """The frames of a file in their order, and what must follow them."""

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._digest = hashlib.sha256()
        self._entries: list[tuple[int, int]] = []
        self._total = 0
        self._at = 0
        self._first = b""

    def frames(self) -> Iterator[Stored]:
        """All data frames; what stands after them is left to `finish`."""
        while (first := self._stream.read(5))[:4] == zstd.MAGIC:
            stored = read_frame(self._stream, first, len(self._entries) + 1, self._at, self._limits)
            self._total += stored.size
            if self._total > self._limits.total or stored.number > self._limits.frames:
                raise Defect("larger than any bundle may be", frame=stored.number, at=self._at, kind="limit")
            self._digest.update(stored.data)
            self._entries.append((len(stored.data), stored.size))
            self._at += len(stored.data)
            yield stored
        self._first = first

    def finish(self, tar: Tar) -> None:
        """The end of the archive, the seal, the seek table, the end of the file. Raises `Defect`."""
        at, first = self._at, self._first
        if not self._entries:
            raise Defect("it does not begin with a zstd frame", kind="foreign")
        if not tar.ended:
            reason = "something else stands between the frames" if first else "the file ends before its archive does"
            raise Defect(reason, at=at)
        if not first:
            raise Defect("the file ends before its seal", at=at)
        seal = first + self._stream.read(_SEALED - len(first))
        if seal[:4] != SEAL_MAGIC[: len(seal)]:
            raise Defect("something else stands where the seal should be", at=at)
        if len(seal) < _SEALED:
            raise Defect("the file ends inside its seal", at=at)
        if seal[: len(SEAL)] != SEAL:
            raise Defect("a malformed seal", at=at)
        if seal[len(SEAL) :] != self._digest.digest():
            raise Defect("the seal does not match the bytes before it", at=at)
        self._finish_table(seek_table([*self._entries, (len(seal), 0)]), at + len(seal))

    def _finish_table(self, table: bytes, at: int) -> None:
        found = self._stream.read(len(table) + 1)
        if found == table:
            return
        if not found:
            raise Defect("no seek table after the seal", at=at)
        if found[: len(table)] == table:
            raise Defect("bytes after the seek table", at=at + len(table))
        if found == table[: len(found)]:
            raise Defect("the file ends inside its seek table", at=at)
        raise Defect("the seek table does not match the frames", at=at)


def read_frame(stream: BinaryIO, first: bytes, number: int, at: int, limits: Limits = LIMITS) -> Stored:
    """The frame whose first five bytes have just been read. Its header is judged before its data are read."""

    def take(count: int) -> bytes:
        data = stream.read(count)
        if len(data) != count:
            raise Defect("the file ends inside a frame", frame=number, at=at)
        return data

    if len(first) < 5:
        take(5)
    if first[:4] != zstd.MAGIC:
        raise Defect("something else stands where a frame should begin", frame=number, at=at)
    try:
        head = first + take(zstd.header_length(first) - 5)
        size = _judge(zstd.header(head), limits)
    except zstd.NotZstd as error:
        raise Defect(str(error), frame=number, at=at) from None
    except Defect as defect:
        raise Defect(defect.reason, frame=number, at=at, kind=defect.kind) from None
    data = bytearray(head)
    room, blocks = _STORED_LIMIT, _BLOCKS_LIMIT
    last = False
    while not last:
        mark = take(3)
        value = int.from_bytes(mark, "little")
        last, kind, length = bool(value & 1), value >> 1 & 3, value >> 3
        if kind == 3:
            raise Defect("a block of a reserved type", frame=number, at=at)
        length = 1 if kind == 1 else length
        room, blocks = room - 3 - length, blocks - 1
        if room < 0 or blocks < 0:
            raise Defect("a frame longer than its content can need", frame=number, at=at, kind="limit")
        data += mark
        data += take(length)
    data += take(4)
    return Stored(number, at, bytes(data), size)


def _judge(says: zstd.Header, limits: Limits) -> int:
    if says.content is None:
        raise Defect("a frame that does not name its content size")
    if says.content > FRAME:
        raise Defect(f"a frame of {says.content} bytes, more than 4 MiB", kind="limit")
    if says.window > limits.window:
        raise Defect(f"a frame that needs a window of {says.window} bytes, more than 8 MiB", kind="limit")
    if not says.content:
        raise Defect("a frame without content")
    if not says.checksum:
        raise Defect("a frame without a checksum")
    if says.dictionary:
        raise Defect("a frame that needs a dictionary")
    return says.content


# --- looking up ------------------------------------------------------------------------------------------------------


def read_table(stream: BinaryIO, limits: Limits = LIMITS) -> tuple[list[int], list[int]]:
    """Where each frame starts in the file and in the tar, and at last where the frames end. Raises `Defect`.

    What it says is taken from the end of the file and only has been compared with the file's size.
    """
    end = stream.seek(0, 2)
    stream.seek(max(0, end - _FOOTER.size))
    footer = stream.read(_FOOTER.size)
    if len(footer) == _FOOTER.size:
        count, flags, magic = _FOOTER.unpack(footer)
        size = 8 + 8 * count + _FOOTER.size
        if magic == _SEEKABLE and not flags and size <= end and count <= limits.frames + 1:
            stream.seek(end - size)
            raw = stream.read(size)
            numbers = struct.unpack_from(f"<{2 * count}I", raw, 8)
            stored, content = [0, *accumulate(numbers[::2])], [0, *accumulate(numbers[1::2])]
            if raw[:8] == TABLE_MAGIC + struct.pack("<I", size - 8) and stored[-1] == end - size:
                return stored, content
    raise Defect("no usable seek table at the end of the file", at=end)


def read_range(stream: BinaryIO, start: int, size: int, limits: Limits = LIMITS) -> bytes:
    """A stretch of the tar by way of the seek table: as certain as a frame's checksum, no more. Raises `Defect`."""
    stored, content = read_table(stream, limits)
    parts: list[bytes] = []
    index = bisect.bisect_right(content, start) - 1
    here = content[index] if index < len(content) else start
    while here < start + size:
        if index + 2 >= len(content):  # the last entry is the seal's
            raise Defect("the seek table ends before its archive")
        stream.seek(stored[index])
        frame = read_frame(stream, stream.read(5), index + 1, stored[index], limits)
        if frame.size != content[index + 1] - here:
            raise Defect("the seek table does not match the frames", frame=index + 1, at=stored[index])
        parts.append(frame.content())
        index, here = index + 1, here + frame.size
    skip = start - (here - sum(map(len, parts)))
    return b"".join(parts)[skip : skip + size]
