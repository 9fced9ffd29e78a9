"""Home folders for tests, laid out from rows made here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from forensic.jsonio import canonical
from forensic.model import Evidence, GenerationEvidence, Manifest, Payload, Ref
from forensic.wrapping import wrap_payload

Lay = Callable[[Mapping[str, bytes]], Path]
"""Writes files, given by their paths below a fresh folder, and gives that folder."""


def row(session: str | None = None, family: str = "user", **more: object) -> bytes:
    """One row as a harness writes it, with its line feed."""
    keys = {"type": family} | ({} if session is None else {"sessionId": session}) | more
    return json.dumps(keys, separators=(",", ":")).encode() + b"\n"


def put_payloads(directory: Path, contents: Sequence[bytes]) -> None:
    """Give an unpacked recording hook payloads."""
    payloads = [
        Payload(ref=Ref("hooks", 1, n), n=n, harness="claude", size=len(content), raw=content)
        for n, content in enumerate(contents, start=1)
    ]
    (directory / "payloads.jsonl").write_bytes(b"".join(map(wrap_payload, payloads)))
    told = b"".join(b"%d:%b," % (len(content), content) for content in contents)
    counted = GenerationEvidence(sum(map(len, contents)), len(contents), hashlib.sha256(told).hexdigest())
    manifest = msgspec.json.decode((directory / "manifest.json").read_bytes(), type=Manifest)
    changed = replace(manifest, evidence=Evidence(manifest.evidence.streams, (counted,)))
    (directory / "manifest.json").write_bytes(canonical(changed) + b"\n")
