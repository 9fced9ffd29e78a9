"""From the members of a recording to its entries, every claim of the manifest compared on the way."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from forensic.jsonio import canonical
from forensic.manifest import MANIFEST, is_room, owners_of
from forensic.model import (
    Binding,
    Entry,
    GenerationEvidence,
    Manifest,
    Member,
    Ref,
    Role,
    SideFile,
    Source,
)
from forensic.ustar import Defect, Piece
from forensic.wrapping import LINE_LIMIT, LineReader, NotWrapped, PayloadReader, RowReader
from forensic.zstd import SPOILT

__all__ = ["Reading", "read_binding", "read_object"]

_NOTE_LIMIT: Final = 1 << 16
"""Longest line of bindings and context in bytes."""
_binding = msgspec.json.Decoder(Binding).decode


def read_binding(line: bytes) -> Binding:
    """One line of ``bindings.jsonl`` without its line feed. Raises `Defect`."""
    _judge_length(line, "bindings.jsonl")
    try:
        binding = _binding(line)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Defect(f"no binding: {error}", member="bindings.jsonl") from None
    if canonical(binding) != line or not 0 <= binding.rows[0] <= binding.rows[1]:
        raise Defect("no canonical binding", member="bindings.jsonl")
    return binding


def read_object(line: bytes) -> dict[str, Any]:
    """One line of ``context.jsonl`` without its line feed. Raises `Defect`."""
    _judge_length(line, "context.jsonl")
    try:
        value = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Defect(f"no object: {error}", member="context.jsonl") from None
    if canonical(value) != line:
        raise Defect("no canonical object", member="context.jsonl")
    return value


def _judge_length(line: bytes, member: str) -> None:
    if len(line) > _NOTE_LIMIT:
        raise Defect(f"a line of {len(line)} bytes, more than {_NOTE_LIMIT}", member=member, kind="limit")


class _Aside:
    """A member that makes no entries. Its bytes have been hashed, and that is all."""

    def __init__(self, lines: LineReader | None = None) -> None:
        self.lines = lines or LineReader()

    def feed(self, data: bytes) -> list[Entry]:
        """The entries that end in `data`, the next piece of the member."""
        del data
        return []

    def end(self, piece: Piece) -> list[Entry]:
        """What follows the last piece."""
        del piece
        self.lines.finish()
        return []


class _SideFile(_Aside):
    """A side file, whole."""

    def __init__(self, source: Source, number: int) -> None:
        super().__init__()
        self._source = source
        self._number = number
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[Entry]:
        self._parts.append(data)
        return []

    def end(self, piece: Piece) -> list[Entry]:
        del piece
        source = self._source
        ref = Ref(source.stream, self._number, 0)
        return [
            SideFile(
                ref=ref,
                native_id=source.native_id,
                stream=source.parent,
                raw=b"".join(self._parts),
                superseded=self._number < len(source.generations),
            )
        ]


def _agent(source: Source) -> str | None:
    """Whose rows a source holds, if not the main agent's; without its own id, what its stream is named for."""
    return (source.native_id or source.stream.partition("-")[2] or None) if source.role in _AGENTS else None


class _Lines(_Aside):
    """A member of lines that make no entries, each looked at."""

    def __init__(self, look: Callable[[bytes], object], most: int) -> None:
        super().__init__(LineReader())
        self._look = look
        self._most = most

    def feed(self, data: bytes) -> list[Entry]:
        try:
            for line in self.lines.whole(data).split(b"\n")[:-1]:
                self._look(line)
                self.lines.rows += 1
        except Defect as defect:
            raise NotWrapped(defect.reason) from None
        if self.lines.rows > self._most:
            raise Defect(f"more than {self._most} lines", kind="limit")
        return []


class _Entries(_Aside):
    """Rows or payloads, taken as they come."""

    def __init__(self, lines: RowReader | PayloadReader) -> None:
        super().__init__(lines)
        self._read: Callable[[bytes], Sequence[Entry]] = lines.read

    def feed(self, data: bytes) -> list[Entry]:
        return list(self._read(data))


class _Some(_Aside):
    """Rows that hold one of some needles."""

    def __init__(self, rows: RowReader, needles: tuple[bytes, ...]) -> None:
        super().__init__(rows)
        self._rows = rows
        self._needles = needles

    def feed(self, data: bytes) -> list[Entry]:
        return list(self._rows.pick(data, self._needles))


class _Counted(_Aside):
    """Rows or payloads that make no entries, but are added up and compared with the evidence of the manifest."""

    def __init__(self, lines: LineReader, evidence: GenerationEvidence) -> None:
        super().__init__(lines)
        self._evidence = evidence
        self._digest = hashlib.sha256()
        self._bytes = 0

    def end(self, piece: Piece) -> list[Entry]:
        super().end(piece)
        found = GenerationEvidence(self._bytes, self.lines.rows, self._digest.hexdigest())
        if found != self._evidence:
            raise Defect(f"{_told(found)}; the manifest says {_told(self._evidence)}")
        return []


class _CountedRows(_Counted):
    """What is added up of a row are its bytes and its end."""

    def __init__(self, rows: RowReader, evidence: GenerationEvidence) -> None:
        super().__init__(rows, evidence)
        self._rows = rows

    def feed(self, data: bytes) -> list[Entry]:
        self._bytes += self._rows.add_up(data, self._digest)
        return []


class _CountedPayloads(_Counted):
    """What is added up of a payload is the length of its content, a colon, the content, a comma."""

    def __init__(self, payloads: PayloadReader, evidence: GenerationEvidence) -> None:
        super().__init__(payloads, evidence)
        self._payloads = payloads

    def feed(self, data: bytes) -> list[Entry]:
        for payload in self._payloads.read(data):
            size = len(payload.raw)
            self._digest.update(b"%d:%b," % (size, payload.raw))
            self._bytes += size
        return []


def _told(evidence: GenerationEvidence) -> str:
    return f"{evidence.rows} entries, {evidence.bytes} bytes, SHA-256 {evidence.sha256[:16]}"


class Reading:
    """One pass over the members of a recording."""

    def __init__(
        self, manifest: Manifest, raw: bytes, *, strict: bool, needles: tuple[bytes, ...] | None = None
    ) -> None:
        """`raw` are the bytes of the manifest as it was opened; none for a folder, whose pieces hold no manifest.

        With `needles` only rows that hold one of them are read.
        """
        self._needles = needles
        self._manifest = manifest
        self._raw = raw
        self._strict = strict
        self._owners = owners_of(manifest)
        self._streams = {source.stream: source for source in manifest.sources}
        self._due = deque(sorted(manifest.members))
        self._missing = dict.fromkeys(self._owners) | dict.fromkeys(
            ["payloads.jsonl"] * bool(manifest.evidence.payloads)
        )
        self._member = _Aside()
        self._open = ""

    def entries(self, pieces: Iterable[Piece]) -> Iterator[tuple[list[Entry], int]]:
        """The entries of each piece, and its bytes. Raises `Defect`."""
        piece: Piece | None = None
        try:
            for piece in pieces:
                yield self._take(piece), 0 if piece.member == MANIFEST else len(piece.data)
            self._finish()
        except NotWrapped as error:
            raise self._placed(Defect(str(error), row=self._member.lines.rows + 1), piece) from None
        except Defect as defect:
            raise self._placed(defect, piece) from None

    def _take(self, piece: Piece) -> list[Entry]:
        if not piece.start:
            self._open = piece.member
            self._member = self._begin(piece)
        entries = self._member.feed(piece.data)
        if piece.digest is not None:
            self._compare(piece.member, Member(piece.size, piece.digest))
            entries += self._member.end(piece)
            self._open = ""
        return entries

    def _begin(self, piece: Piece) -> _Aside:
        name = piece.member
        if name == MANIFEST:
            return _Aside()
        self._missing.pop(name, None)
        table = self._manifest.members
        if table:
            due = self._due.popleft() if self._due else ""
            if name not in table:
                raise Defect("it is not in the manifest")
            if name != due:
                raise Defect("it is in the manifest, but not in the archive", member=due)
            if piece.size != table[name].size:
                raise Defect(f"{piece.size} bytes, the manifest says {table[name].size}")
        return self._reader(name, piece.size)

    def _reader(self, name: str, size: int) -> _Aside:
        strict, evidence = self._strict, self._manifest.evidence
        if name in self._owners:
            return self._source(name, size)
        if name == "payloads.jsonl":
            counted = evidence.payloads[0] if evidence.payloads else _NOTHING
            return _CountedPayloads(PayloadReader(), counted) if strict else _Entries(PayloadReader())
        if strict and name in _CHECKED:
            looks = {"bindings.jsonl": (self._binding, _MOST_BINDINGS), "context.jsonl": (read_object, _MOST_NOTES)}
            return _Lines(*looks[name])
        if name.startswith(("transcripts/", "files/")) and is_room(name):
            raise Defect("it belongs to no source")
        return _Aside()

    def _binding(self, line: bytes) -> None:
        binding = read_binding(line)
        if self._manifest.salvaged_from is not None:
            return  # the drains are told as they were, the rows may be gone
        source = self._streams.get(binding.stream)
        if source is None or not 1 <= binding.generation <= len(source.generations):
            raise Defect(f"a binding of {binding.stream!a:.80}, generation {binding.generation}, which is not there")
        if binding.rows[1] > source.generations[binding.generation - 1].rows:
            raise Defect(f"a binding of row {binding.rows[1]} of {binding.stream!a:.80}, which is not there")

    def _source(self, name: str, size: int) -> _Aside:
        source, number = self._owners[name]
        if source.role is Role.SIDE:
            if size > LINE_LIMIT:
                raise Defect(f"{size} bytes are more than is read at once", kind="limit")
            return _Aside() if self._strict else _SideFile(source, number)
        salvaged = self._manifest.salvaged_from
        rows = RowReader(
            source.stream,
            number,
            gaps={
                gap.offset: gap.bytes
                for gap in self._manifest.gaps
                if (gap.stream, gap.generation) == (source.stream, number)
            },
            unverified=salvaged is not None and name in salvaged.unverified,
            strict=self._strict,
            agent=_agent(source),
        )
        generation = source.generations[number - 1]
        evidence = GenerationEvidence(generation.bytes, generation.rows, generation.sha256)
        if self._strict:
            return _CountedRows(rows, evidence)
        return _Entries(rows) if self._needles is None else _Some(rows, self._needles)

    def _compare(self, name: str, found: Member) -> None:
        if name == MANIFEST:
            if found != Member(len(self._raw), hashlib.sha256(self._raw).hexdigest()):
                raise Defect("it is not what it was when the bundle was opened")
        elif self._manifest.members:
            if found != self._manifest.members[name]:
                raise Defect("it does not match its SHA-256 in the manifest")
        elif name in self._owners and self._owners[name][0].role is Role.SIDE:
            source, number = self._owners[name]
            generation = source.generations[number - 1]
            if found != Member(generation.bytes, generation.sha256):
                raise Defect("it is not what its source says it is")

    def _finish(self) -> None:
        for name in (*self._due, *self._missing):
            raise Defect("it is in the manifest, but not in the archive", member=name)

    def _placed(self, defect: Defect, piece: Piece | None) -> Defect:
        """Say where it is, as far as is known."""
        member, row, frame, at = defect.member or self._open, defect.row, defect.frame, defect.at
        if frame is not None and not member and self._due and defect.reason == SPOILT:
            member = self._due[0]  # what the frame begins with
        elif frame is not None and member == self._open and member.endswith(".jsonl"):
            row = self._member.lines.rows + 1  # a frame is damaged: this is the first row in it
        if frame is None and at is None and piece is not None and piece.frame and member == piece.member:
            frame, at = piece.frame, piece.at
        return Defect(defect.reason, member=member, row=row, frame=frame, at=at, kind=defect.kind)


_AGENTS: Final = (Role.SUBAGENT, Role.THREAD)
_NOTHING: Final = GenerationEvidence(0, 0, hashlib.sha256().hexdigest())
_CHECKED: Final = frozenset({"bindings.jsonl", "context.jsonl"})
_MOST_BINDINGS: Final = 10_000_000
_MOST_NOTES: Final = 10_000
"""A session is about a few repositories, at two moments each: more is an attempt to keep a reader busy."""
