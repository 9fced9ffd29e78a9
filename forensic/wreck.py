"""What is left of a damaged bundle: which frames are sound, where in the tar they belong, what stands in the others.

A frame whose checksum holds has its bytes as they were written. So the question is only which frames there are, and
what of them belongs together; nothing here mends anything.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from forensic import zstd
from forensic.container import SEAL, Stored, read_frame, read_table
from forensic.manifest import MANIFEST, examine, read_manifest
from forensic.model import Manifest
from forensic.ustar import END, Defect, extent, padding, parse_header
from forensic.wrapping import LineReader, NotWrapped

__all__ = ["Scrap", "Wreck"]

_CHUNK: Final = 1 << 20
_BLOCK: Final = 512
_WRAPPED: Final = b'{"ref":['
_MAGIC: Final = b"ustar\x0000"


class _Segment(NamedTuple):
    """A stretch of the file: a frame, or what should be one. `size` is what it holds, None when nobody knows."""

    at: int
    length: int
    size: int | None
    sound: bool


class Scrap(NamedTuple):
    """Something that was found without the help of a manifest: a line, or the next chunk of a side file.

    `member` is its member as far as a tar header told it, `whole` the size of that member; `last` is set on the last
    chunk of a side file.
    """

    member: str
    data: bytes
    whole: int = 0
    last: bool = False


class Wreck:
    """A damaged bundle, open for reading. `manifest` is None when it is lost; else `raw` are its bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        """Look at all of the file once. Raises `Defect` when the manifest is there and newer than we are."""
        self._stream = stream
        self._cached = (-1, b"")
        self._segments, anchored = _by_table(stream) or _by_scan(stream)
        self.manifest, self.raw = self._read_manifest()
        layout = _layout(self.manifest, len(self.raw))
        self._starts = _place(self._segments, layout.get(""), anchored=anchored)
        if self.manifest is not None:
            self._recognise(layout)
        starts = zip(self._starts, self._segments, strict=True)
        self._placed = [(here, segment) for here, segment in starts if here is not None and segment.sound]

    def _recognise(self, layout: dict[str, int]) -> None:
        """Place what has no place yet by the tar headers in it, where all of them are where they should be."""
        for run in _runs(self._segments, self._starts):
            found: dict[int, str] = {}
            length = 0
            for index in run:
                content = self._content(self._segments[index])
                found.update((length + at, name) for at, name in _headers(content))
                length += len(content)
            for at, name in found.items():
                start = layout.get(name, -1) - at
                due = {
                    here - start: other for other, here in layout.items() if start <= here <= start + length - _BLOCK
                }
                if start > 0 and due == {here: other for here, other in found.items() if here in due}:
                    for index in run:
                        self._starts[index] = start
                        start += self._segments[index].size or 0
                    break

    @property
    def sound(self) -> int:
        """How many frames are sound."""
        return sum(segment.sound for segment in self._segments)

    def pieces(self, start: int, size: int) -> Iterator[tuple[int, bytes]]:
        """What there is of a stretch of the tar: (position in the stretch, data), in order."""
        first = bisect.bisect_right(self._placed, start, key=_start_of) - 1
        for here, segment in self._placed[max(0, first) :]:
            if here >= start + size:
                return
            data = self._content(segment)[max(0, start - here) : start + size - here]
            if data:
                yield max(0, here - start), data

    def scraps(self, *, everything: bool = False) -> Iterator[Scrap]:
        """What stands in sound frames that have no place in the tar; in all sound frames when `everything` is asked."""
        scanner = _Scanner()
        after = -1
        for segment, here in zip(self._segments, self._starts, strict=True):
            if segment.sound and (everything or here is None):
                if segment.at != after:
                    scanner.lose()
                yield from scanner.feed(self._content(segment))
                after = segment.at + segment.length

    def _content(self, segment: _Segment) -> bytes:
        if self._cached[0] != segment.at:
            stored = _frame(self._stream, segment.at)
            self._cached = (segment.at, b"" if stored is None else stored.content())
        return self._cached[1]

    def _read_manifest(self) -> tuple[Manifest | None, bytes]:
        parts: list[bytes] = []
        size = _BLOCK
        after = 0
        for segment in self._segments:
            if not segment.sound or segment.at != after:
                break
            parts.append(self._content(segment))
            after += segment.length
            try:
                name, size = parse_header(parts[0][:_BLOCK])
            except Defect:
                break
            if name != MANIFEST or sum(map(len, parts)) >= _BLOCK + size:
                break
        raw = b"".join(parts)[_BLOCK : _BLOCK + size]
        try:
            manifest = read_manifest(raw, sealed=True)
            examine(manifest)
        except Defect as defect:
            if defect.kind == "newer":
                raise
            return None, b""
        return manifest, raw


def _layout(manifest: Manifest | None, size: int) -> dict[str, int]:
    """Where in the tar the header of each member is, and under no name where the frames end; empty without manifest."""
    if manifest is None:
        return {}
    layout = {}
    here = extent(size)
    for name in sorted(manifest.members):
        layout[name] = here
        here += extent(manifest.members[name].size)
    return layout | {"": here + len(END)}


def _runs(segments: list[_Segment], starts: list[int | None]) -> Iterator[list[int]]:
    """Sound frames that follow each other and have no place, by their numbers."""
    run: list[int] = []
    for index, (segment, start) in enumerate(zip(segments, starts, strict=True)):
        if segment.sound and start is None:
            run.append(index)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _headers(content: bytes) -> Iterator[tuple[int, str]]:
    """What looks like a header of ours, and where."""
    at = content.find(_MAGIC)
    while at >= 0:
        with contextlib.suppress(Defect):
            yield at - 257, parse_header(content[max(0, at - 257) : at + 255])[0]
        at = content.find(_MAGIC, at + 1)


def _start_of(placed: tuple[int, _Segment]) -> int:
    return placed[0]


def _frame(stream: BinaryIO, at: int) -> Stored | None:
    """The frame at a position whose blocks lead to an end, sound or not."""
    stream.seek(at)
    first = stream.read(5)
    if first[:4] != zstd.MAGIC:
        return None
    try:
        return read_frame(stream, first, 0, at)
    except Defect:
        return None


def _is_sound(stored: Stored) -> bool:
    try:
        stored.content()
    except Defect:
        return False
    return True


def _by_table(stream: BinaryIO) -> tuple[list[_Segment], bool] | None:
    """By the seek table, which alone tells frames from what looks like frames inside a damaged one."""
    try:
        stored, content = read_table(stream)
    except Defect:
        return None
    segments: list[_Segment] = []
    for index in range(len(stored) - 2):
        at, length = stored[index], stored[index + 1] - stored[index]
        found = _frame(stream, at)
        if found is not None and len(found.data) == length and _is_sound(found):
            segments.append(_Segment(at, length, found.size, sound=True))
        else:
            segments.append(_Segment(at, length, content[index + 1] - content[index], sound=False))
    return (segments, True) if any(segment.sound for segment in segments) else None


def _by_scan(stream: BinaryIO) -> tuple[list[_Segment], bool]:
    """By the magic numbers of frames. Whether the last of them is followed by the seal is told beside."""
    end = stream.seek(0, 2)
    segments: list[_Segment] = []
    anchored = False
    at = 0
    while at < end:
        segment = _segment(stream, at, end)
        if segment is None:
            anchored = anchored or (_peek(stream, at, len(SEAL)) == SEAL and bool(segments) and segments[-1].sound)
            following = _find(stream, at + 1, end)
            if anchored:
                at = following
                continue
            segment = _Segment(at, following - at, None, sound=False)
        anchored = False
        segments.append(segment)
        at += segment.length
    return segments, anchored


def _segment(stream: BinaryIO, at: int, end: int) -> _Segment | None:
    found = _frame(stream, at)
    if found is None:
        return None
    after = at + len(found.data)
    if _is_sound(found):
        return _Segment(at, len(found.data), found.size, sound=True)
    follows = _peek(stream, after, len(SEAL))
    if after == end or follows[:4] == zstd.MAGIC or follows == SEAL:
        return _Segment(at, len(found.data), found.size, sound=False)
    return None


def _peek(stream: BinaryIO, at: int, count: int) -> bytes:
    stream.seek(at)
    return stream.read(count)


def _find(stream: BinaryIO, at: int, end: int) -> int:
    """Where the next frame may begin."""
    while at < end:
        chunk = _peek(stream, at, _CHUNK)
        found = chunk.find(zstd.MAGIC)
        if found >= 0:
            return at + found
        at += max(1, len(chunk) - 3)
    return end


def _place(segments: list[_Segment], total: int | None, *, anchored: bool) -> list[int | None]:
    """Where in the tar each segment starts: counted from its beginning, then from its end; None in between."""
    sizes = [segment.size for segment in segments]
    if total is not None and (None in sizes or sum(size or 0 for size in sizes) != total):
        # what a damaged frame says of its size may be the damage
        sizes = [segment.size if segment.sound else None for segment in segments]
    starts: list[int | None] = [None] * len(sizes)
    here = 0
    for index, size in enumerate(sizes):
        starts[index] = here
        if size is None:
            break
        here += size
    if total is not None and anchored:
        here = total
        for index in reversed(range(len(sizes))):
            size = sizes[index]
            if size is None or starts[index] is not None:
                break
            here -= size
            starts[index] = here
    return starts


class _Scanner:
    """Reads tar from the middle: it knows where it is after a header, and in wrapped lines after a cut between rows."""

    def __init__(self) -> None:
        self.lose()

    def lose(self) -> None:
        """What comes next does not follow what came before."""
        self._member = ""
        self._size = self._left = self._pad = 0
        self._lines = LineReader()

    def feed(self, content: bytes) -> Iterator[Scrap]:
        """What is in the content of one frame."""
        at = 0
        while at < len(content):
            if self._left or self._pad:
                data = content[at : at + self._left]
                self._left -= len(data)
                yield from self._scraps(data, last=not self._left)
                at += len(data)
                pad = min(self._pad, len(content) - at) if not self._left else 0
                self._pad -= pad
                at += pad
            elif self._begin(content[at : at + _BLOCK]):
                at += _BLOCK
            elif at == 0 and (content.startswith(_WRAPPED) or self._lines.holds):
                self._member = ""
                at = (content + b"\0").find(b"\0")
                yield from self._scraps(content[:at], last=False)
                at = len(content) - len(content[at:].lstrip(b"\0"))
            else:
                return

    def _begin(self, block: bytes) -> bool:
        try:
            self._member, self._size = parse_header(block)
        except Defect:
            return False
        self._left = self._size
        self._pad = padding(self._left)
        self._lines = LineReader()
        return True

    def _scraps(self, data: bytes, *, last: bool) -> Iterator[Scrap]:
        if self._member.startswith("files/"):
            yield Scrap(self._member, data, self._size, last)
        elif not self._member or self._member.endswith(".jsonl"):
            with contextlib.suppress(NotWrapped):
                for line in self._lines.whole(data).split(b"\n")[:-1]:
                    yield Scrap(self._member, line + b"\n")
