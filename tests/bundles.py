"""Recordings to test with, made from bytes: what a harness wrote, and nothing that a capture would add by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
    rows = []
    for line in content.split(b"\n")[:-1]:
        rows.append((line[:-1], b"\r\n") if line.endswith(b"\r") else (line, b"\n"))
    torn = content.rpartition(b"\n")[2]
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
    return Payload(**{"ref": Ref("hooks", 1, n), "n": n, "harness": "claude", "size": len(raw), "raw": raw} | fields)


def payload_evidence(payloads: Sequence[Payload]) -> tuple[GenerationEvidence, ...]:
    """What identifies these payloads, worked out apart from the code under test."""
    if not payloads:
        return ()
    framed = b"".join(str(len(each.raw)).encode() + b":" + each.raw + b"," for each in payloads)
    size = sum(len(each.raw) for each in payloads)
    return (GenerationEvidence(size, len(payloads), hashlib.sha256(framed).hexdigest()),)


def record(
    folder: Path,
    streams: Mapping[str, bytes | Sequence[bytes]],
    *,
    sides: Sequence[Side] = (),
    payloads: Sequence[Payload] = (),
    bindings: Sequence[Binding] = (),
    context: Sequence[dict[str, Any]] = (),
    recorded: bytes | None = None,
    **fields: Any,
) -> Path:
    """Write an unpacked recording: `streams` gives the bytes of each transcript, or of each of its generations."""
    members: dict[str, bytes] = {}
    sources = []
    for stream, content in streams.items():
        contents = [content] if isinstance(content, bytes) else list(content)
        names = tuple(f"transcripts/{_count(members, 'transcripts') + n:04d}.jsonl" for n in range(1, len(contents) + 1))
        for number, (name, each) in enumerate(zip(names, contents, strict=True), start=1):
            members[name] = wrapped(stream, number, each)
        role = Role.MAIN if stream == "main" else Role.SUBAGENT
        sources.append(_source(stream, role, stream.removeprefix("agent-"), contents, names, None))
    for native_id, versions, parent in sides:
        names = tuple(f"files/{_count(members, 'files') + n:04d}" for n in range(1, len(versions) + 1))
        members.update(zip(names, versions, strict=True))
        sources.append(_source(names[0], Role.SIDE, native_id, versions, names, parent))
    members["payloads.jsonl"] = b"".join(map(wrap_payload, payloads))
    members["bindings.jsonl"] = b"".join(canonical(each) + b"\n" for each in bindings)
    members["context.jsonl"] = b"".join(canonical(each) + b"\n" for each in context)
    if recorded is not None:
        members["recorded.json"] = recorded
    known: dict[str, Any] = {"harness": "claude", "session": "5e550000", "capture": CAPTURE, "sources": tuple(sources)}
    known |= fields
    evidence = evidence_of(known["sources"], payload_evidence(payloads))
    write(folder, members | {"manifest.json": write_manifest(Manifest(format=FORMAT, evidence=evidence, **known))})
    return folder


def _count(members: Mapping[str, bytes], room: str) -> int:
    return sum(name.startswith(room) for name in members)


def _source(
    stream: str, role: Role, native_id: str, contents: Sequence[bytes], names: tuple[str, ...], parent: str | None
) -> Source:
    return Source(
        stream=stream,
        role=role,
        native_id=native_id,
        parent=parent,
        state=CaptureState.NAMED,
        members=names,
        generations=tuple(
            Generation(
                bytes=len(content),
                rows=0 if role is Role.SIDE else len(split(content)),
                sha256=hashlib.sha256(content).hexdigest(),
            )
            for content in contents
        ),
    )


def write(folder: Path, members: Mapping[str, bytes]) -> None:
    """Put members into a folder."""
    for name, data in members.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def sealed(folder: Path, streams: Mapping[str, bytes | Sequence[bytes]], **fields: Any) -> Path:
    """Record and seal; the path of the bundle, in `folder`."""
    target = folder / "bundle.zst"
    seal(record(folder / "recording", streams, **fields), target)
    return target
