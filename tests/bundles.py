"""Recordings to test with, made from bytes: what a harness wrote, and nothing that a capture would add by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from forensic.bundle import FORMAT, evidence_of, seal, write_manifest
from forensic.jsonio import canonical
from forensic.model import (
    Binding,
    Capture,
    CaptureState,
    Generation,
    GenerationEvidence,
    Manifest,
    Payload,
    Ref,
    Role,
    Source,
)
from forensic.wrapping import wrap_payload, wrap_row

CAPTURE = Capture(
    recorder="forensic test",
    python="3.11.0",
    platform="linux x86_64",
    zone="UTC",
    utc_offset=0,
    started="2026-01-02T03:04:05.000000Z",
    sealed_at="2026-01-02T03:04:06.000000Z",
)


class Side(NamedTuple):
    """A side file: its native id, its versions, the stream it belongs to."""

    native_id: str
    versions: Sequence[bytes]
    parent: str | None = "main"


def lines(*raws: bytes) -> bytes:
    """A transcript of these rows."""
    return b"".join(raw + b"\n" for raw in raws)


def split(content: bytes) -> list[tuple[bytes, bytes]]:
    """The rows of a transcript: bytes and end of each."""
    *whole, torn = content.split(b"\n")
    rows = [(line[:-1], b"\r\n") if line.endswith(b"\r") else (line, b"\n") for line in whole]
    return [*rows, (torn, b"")] if torn else rows


def wrapped(stream: str, generation: int, content: bytes) -> bytes:
    """The member that holds this transcript."""
    out = []
    offset = 0
    for line, (raw, end) in enumerate(split(content), start=1):
        out.append(wrap_row(Ref(stream, generation, offset), line, raw, end))
        offset += len(raw) + len(end)
    return b"".join(out)


def payload(n: int, raw: bytes, **fields: Any) -> Payload:
    """A hook payload with the least of an envelope."""
    plain = Payload(ref=Ref("hooks", 1, n), n=n, harness="claude", size=len(raw), raw=raw)
    return replace(plain, **fields)


def payload_evidence(payloads: Sequence[Payload]) -> tuple[GenerationEvidence, ...]:
    """What identifies these payloads, worked out apart from the code under test."""
    if not payloads:
        return ()
    framed = b"".join(str(len(each.raw)).encode() + b":" + each.raw + b"," for each in payloads)
    size = sum(len(each.raw) for each in payloads)
    return (GenerationEvidence(size, len(payloads), hashlib.sha256(framed).hexdigest()),)


def members(
    streams: Mapping[str, bytes | Sequence[bytes]],
    *,
    sides: Sequence[Side] = (),
    payloads: Sequence[Payload] = (),
    bindings: Sequence[Binding] = (),
    context: Sequence[dict[str, Any]] = (),
    recorded: bytes | None = None,
    **fields: Any,
) -> dict[str, bytes]:
    """All members of an unpacked recording: `streams` gives the bytes of each transcript, or of each generation."""
    made: dict[str, bytes] = {}
    sources = []
    transcripts, files = count(1), count(1)
    for stream, content in streams.items():
        contents = [content] if isinstance(content, bytes) else content
        names = tuple(f"transcripts/{next(transcripts):04d}.jsonl" for _ in contents)
        made |= {name: wrapped(stream, n, each) for n, (name, each) in enumerate(zip(names, contents, strict=True), 1)}
        role = Role.MAIN if stream == "main" else Role.SUBAGENT
        source = Source(stream=stream, role=role, native_id=stream.removeprefix("agent-"), state=CaptureState.NAMED)
        sources.append(replace(source, members=names, generations=tuple(map(_generation, contents))))
    for native_id, versions, parent in sides:
        names = tuple(f"files/{next(files):04d}" for _ in versions)
        made |= dict(zip(names, versions, strict=True))
        source = Source(stream=names[0], role=Role.SIDE, native_id=native_id, state=CaptureState.NAMED, parent=parent)
        generations = tuple(replace(_generation(version), rows=0) for version in versions)
        sources.append(replace(source, members=names, generations=generations))
    made["payloads.jsonl"] = b"".join(map(wrap_payload, payloads))
    made["bindings.jsonl"] = b"".join(canonical(each) + b"\n" for each in bindings)
    made["context.jsonl"] = b"".join(canonical(each) + b"\n" for each in context)
    if recorded is not None:
        made["recorded.json"] = recorded
    known: dict[str, Any] = {"harness": "claude", "session": "5e550000", "capture": CAPTURE, "sources": tuple(sources)}
    known |= fields
    evidence = evidence_of(known["sources"], payload_evidence(payloads))
    return made | {"manifest.json": write_manifest(Manifest(format=FORMAT, evidence=evidence, **known))}


def _generation(content: bytes) -> Generation:
    return Generation(bytes=len(content), rows=len(split(content)), sha256=hashlib.sha256(content).hexdigest())


def record(folder: Path, streams: Mapping[str, bytes | Sequence[bytes]], **more: Any) -> Path:
    """Write an unpacked recording into a folder; see `members`."""
    write(folder, members(streams, **more))
    return folder


def write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Put members into a folder."""
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def sealed(folder: Path, streams: Mapping[str, bytes | Sequence[bytes]], **fields: Any) -> Path:
    """Record and seal; the path of the bundle, in `folder`."""
    target = folder / "bundle.zst"
    seal(record(folder / "recording", streams, **fields), target)
    return target
