"""The manifest as bytes, its two identities, and whether it agrees with itself (docs/bundle.md section 6)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from forensic.jsonio import canonical
from forensic.model import UNREAD, Evidence, Finding, GenerationEvidence, Manifest, Member, Role, Source, StreamEvidence
from forensic.ustar import LIMITS, Defect

__all__ = [
    "FORMAT",
    "MANIFEST",
    "Owners",
    "content_id_of",
    "evidence_of",
    "examine",
    "is_room",
    "left_out",
    "owners_of",
    "read_manifest",
    "with_members",
    "write_manifest",
]

FORMAT: Final = 1
"""The format this version writes, and the newest it reads."""

MANIFEST: Final = "manifest.json"
_TRANSCRIPT: Final = re.compile(r"transcripts/[0-9]{4,}\.jsonl")
_SIDE: Final = re.compile(r"files/[0-9]{4,}")
_SINGLE: Final = frozenset({"bindings.jsonl", "context.jsonl", "payloads.jsonl", "recorded.json"})
_UNDERSTOOD: Final[frozenset[str]] = frozenset()
"""What a manifest may require of us: nothing yet."""

Owners = dict[str, tuple[Source, int]]
"""Which source a member belongs to, and which of its generations (from 1) it is."""


class _Frontispiece(Struct):
    """The two fields that every format will have, read before anything else."""

    format: int
    requires: tuple[str, ...] = ()


class _Slices(Struct):
    evidence: Raw


def read_manifest(raw: bytes, *, sealed: bool) -> Manifest:
    """The manifest of a bundle. A sealed one must be canonical to the byte. Unknown fields are left aside.

    Raises `Defect`; kind newer when it says itself that this version cannot read it.
    """
    if len(raw) > LIMITS.manifest:
        raise Defect(f"a manifest of {len(raw)} bytes, more than {LIMITS.manifest}", member=MANIFEST, kind="limit")
    if sum(map(raw.count, b",[{")) > LIMITS.values:
        # a value may take twenty times the memory of its text
        raise Defect(f"a manifest of more than {LIMITS.values} values", member=MANIFEST, kind="limit")
    try:
        _can_read(msgspec.json.decode(raw, type=_Frontispiece))
        manifest = msgspec.json.decode(raw, type=Manifest)
        if sealed and write_manifest(manifest) != raw:
            _judge_unknown(raw, manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Defect(f"not a manifest: {error}", member=MANIFEST) from None
    return manifest


def _judge_unknown(raw: bytes, manifest: Manifest) -> None:
    """A manifest with fields that this version does not know must be canonical with them."""
    if canonical(msgspec.json.decode(raw)) + b"\n" != raw:
        raise Defect("not written canonically", member=MANIFEST)
    if bytes(msgspec.json.decode(raw, type=_Slices).evidence) != canonical(manifest.evidence):
        raise Defect("its evidence has fields that format 1 does not have", member=MANIFEST)


def _can_read(front: _Frontispiece) -> None:
    if front.format > FORMAT:
        raise Defect(f"bundle format {front.format}, this version reads up to {FORMAT}", member=MANIFEST, kind="newer")
    if front.format < 1:
        raise Defect(f"there is no bundle format {front.format}", member=MANIFEST)
    for name in front.requires:
        if name not in _UNDERSTOOD:
            raise Defect(f"it requires {name!a}, which this version does not know", member=MANIFEST, kind="newer")


def write_manifest(manifest: Manifest) -> bytes:
    """The bytes of ``manifest.json``."""
    return canonical(manifest) + b"\n"


def with_members(raw: bytes, members: dict[str, Member]) -> bytes:
    """The bytes of a manifest with its table of members filled in and every field of it kept, known or not."""
    value: dict[str, Any] = msgspec.json.decode(raw)
    return canonical(value | {"members": members}) + b"\n"


def content_id_of(evidence: Evidence) -> str:
    """SHA-256 of the canonical JSON of a manifest's ``evidence``: what was recorded, whoever recorded it."""
    return hashlib.sha256(canonical(evidence)).hexdigest()


def evidence_of(sources: Iterable[Source], payloads: tuple[GenerationEvidence, ...] = ()) -> Evidence:
    """The evidence that sources and payloads amount to; a source of which nothing was read is none."""
    return Evidence(tuple(map(_stream_evidence, filter(_has_generations, sources))), payloads)


def _has_generations(source: Source) -> bool:
    return bool(source.generations)


def _stream_evidence(source: Source) -> StreamEvidence:
    generations = tuple(GenerationEvidence(each.bytes, each.rows, each.sha256) for each in source.generations)
    return StreamEvidence(source.stream, source.role, source.native_id, generations)


def is_room(name: str) -> bool:
    """Whether format 1 gives a member of this name a meaning."""
    return name in _SINGLE or _belongs(name)


def _belongs(name: str) -> bool:
    return _TRANSCRIPT.fullmatch(name) is not None or _SIDE.fullmatch(name) is not None


def owners_of(manifest: Manifest) -> Owners:
    """The members that hold sources."""
    return {
        name: (source, number)
        for source in manifest.sources
        for number, name in enumerate(source.members, start=1)
    }  # fmt: skip


_ID: Final = re.compile("[0-9a-f]{64}")


def examine(manifest: Manifest) -> None:
    """Whether the manifest agrees with itself. Raises `Defect`.

    Its table of members is judged only when it has one: an unpacked recording may be without.
    """
    for reason in _disagreements(manifest):
        raise Defect(reason, member=MANIFEST)


def _disagreements(manifest: Manifest) -> Iterator[str]:
    evidence = manifest.evidence
    if evidence != evidence_of(manifest.sources, evidence.payloads):
        yield "its evidence is not that of its sources"
    if len(evidence.payloads) > 1 or any(not counted.rows for counted in evidence.payloads):
        yield "its payloads are counted more than once, or there are none"
    streams: set[str] = {"hooks"}
    latest: dict[str, str] = {}
    for source in manifest.sources:
        if source.stream in streams:
            yield f"the stream {source.stream!a} stands twice, or is not free"
        streams.add(source.stream)
        yield from _misnamed(source)
        for name in source.members:
            folder = name.partition("/")[0]
            if name <= latest.get(folder, ""):
                yield f"{name!a} is not in the order of the sources"
            latest[folder] = name
        if source.parent == source.stream:
            yield f"{source.stream!a} is its own parent"
    yield from _unbelievable(manifest)
    yield from _misplaced(manifest)


def _unbelievable(manifest: Manifest) -> Iterator[str]:
    """Claims that cannot be true, whatever the members hold."""
    ends: dict[tuple[str, int], int] = {}
    for gap in manifest.gaps:
        place = (gap.stream, gap.generation)
        if gap.bytes < 1 or gap.offset < ends.get(place, 0) or gap.offset + gap.bytes >= 1 << 63:
            yield f"a gap of {gap.bytes} bytes at {gap.offset} of {gap.stream!a} cannot be"
        ends[place] = gap.offset + gap.bytes
    own = content_id_of(manifest.evidence)
    for older in manifest.supersedes:
        if not _ID.fullmatch(older) or older == own:
            yield f"it cannot supersede {older!a:.80}"


def _misnamed(source: Source) -> Iterator[str]:
    side = source.role is Role.SIDE
    if len(source.members) != len(source.generations):
        yield f"{source.stream!a} has {len(source.generations)} generations, but {len(source.members)} members"
    for name in source.members:
        if not (_SIDE if side else _TRANSCRIPT).fullmatch(name):
            yield f"{name!a} is no name for a member of {source.stream!a}"
    if side and source.stream != (source.members[0] if source.members else source.stream):
        yield f"{source.stream!a} is not named for its first member"
    if not side and source.stream.startswith("files/"):
        yield f"{source.stream!a} is a name for side files"


def _misplaced(manifest: Manifest) -> Iterator[str]:
    owners, table = owners_of(manifest), manifest.members
    if not table:
        return
    for name, (source, number) in owners.items():
        if name not in table:
            yield f"{name} is not in its table of members"
        elif source.role is Role.SIDE:
            generation = source.generations[number - 1]
            if table[name] != Member(generation.bytes, generation.sha256):
                yield f"{name} is not what its source says it is"
    for name in table:
        if _belongs(name) and name not in owners:
            yield f"{name} belongs to no source"


def left_out(manifest: Manifest) -> Iterator[Finding]:
    """What somebody named and nothing was read of, with the reason."""
    for source in manifest.sources:
        if source.state in UNREAD:
            why = source.reason or "it was gone before it could be read"
            yield Finding(kind=source.state.value, note=f"{source.path or source.native_id} is not in here: {why}")
