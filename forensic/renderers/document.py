"""The session document: canonical JSON, written piece by piece so that a large tree is never one string.

docs/replay.md specifies it. Keys stand in the documented order, objects without white space, absent fields at their
default; the same session gives the same bytes on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

import msgspec

from forensic.model import Node, Observation, Session, SubagentFrame, TurnFrame

__all__ = ["Sink", "bindings", "chunks", "write"]

_FLUSH = 256 * 1024
_encoder = msgspec.json.Encoder()


class Sink(Protocol):
    """Where a document goes."""

    def write(self, data: bytes, /) -> object:
        """Take the next bytes."""


def write(session: Session, out: Sink | None = None) -> str:
    """Write the document of a session and one line feed; the SHA-256 (hex) of the document without the line feed.

    Without `out` only the digest is made.
    """
    digest = hashlib.sha256()
    for chunk in chunks(session):
        digest.update(chunk)
        if out is not None:
            out.write(chunk)
    if out is not None:
        out.write(b"\n")
    return digest.hexdigest()


def chunks(session: Session) -> Iterator[bytes]:
    """The bytes of the document, in pieces of a quarter megabyte or so."""
    head = {
        "schema": session.SCHEMA,
        "harness": session.harness,
        "session": session.session,
        "producer": {"versions": session.producer},
        "parser_version": session.parser.version,
        "replay_version": session.replay_version,
        "content_id": session.content_id,
    }
    buffer = bytearray(_encoder.encode(head)[:-1])
    for piece in chain(_map("usage", session.usage), _map("summary", session.summary), _tree(session.tree)):
        buffer += piece
        if len(buffer) >= _FLUSH:
            yield bytes(buffer)
            buffer.clear()
    buffer += b',"aside":['
    for number, seen in enumerate(session.aside):
        buffer += b"," if number else b""
        buffer += _encoder.encode(seen)
        if len(buffer) >= _FLUSH:
            yield bytes(buffer)
            buffer.clear()
    buffer += b'],"findings":' + _encoder.encode(session.findings) + b"}"
    yield bytes(buffer)


def _map(name: str, fields: dict[str, Any]) -> Iterator[bytes]:
    """A map of the head, field by field, and long ones item by item."""
    yield b',"%b":{' % name.encode()
    for number, (key, value) in enumerate(fields.items()):
        yield b"%b%b:" % (b"," if number else b"", _encoder.encode(key))
        if isinstance(value, list):
            yield b"["
            for place, item in enumerate(value):
                yield (b"," if place else b"") + _encoder.encode(item)
            yield b"]"
        else:
            yield _encoder.encode(value)
    yield b"}"


def _tree(root: Node) -> Iterator[bytes]:
    """Every node from the root down, without recursion: a recording decides how deep agents nest."""
    yield b',"tree":'
    stack: list[Iterator[Node]] = [iter((root,))]
    first = True
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            if stack:
                yield b"]}"
            first = False
            continue
        yield b"" if first else b","
        yield _encoder.encode(node.seen)[:-1]
        if node.outcome is not None:
            yield b',"outcome":' + _encoder.encode(node.outcome)
        yield b',"evidence":' + _encoder.encode(node.evidence) + b',"children":['
        stack.append(iter(node.children))
        first = True


def bindings(session: Session) -> Iterator[bytes]:
    """One JSON line for each observation: where it went, on what basis, what agreed, what else was near."""
    stack: list[tuple[Node, str | None, str | None]] = [(session.tree, None, None)]
    while stack:
        node, turn, agent = stack.pop()
        owner = _owner(node)
        if isinstance(node.seen, TurnFrame):
            turn = node.seen.id
        elif isinstance(node.seen, SubagentFrame):
            agent = node.seen.id
        place = {"owner": owner, "turn": turn, "agent": agent}
        if isinstance(node.seen, Observation):
            kind = str(node.seen.__struct_config__.tag)
            yield _line({"ref": node.seen.ref, "part": node.seen.part, "kind": kind, "place": "node", **place})
        for proof in node.evidence:
            told = {"ref": proof.ref, "part": proof.part, "kind": proof.kind, "place": "evidence", **place}
            yield _line({**told, "basis": proof.basis, "agreed": proof.agreed, "rejected": proof.rejected})
        stack.extend((child, turn, agent) for child in reversed(node.children))
    for seen in session.aside:
        kind = str(seen.__struct_config__.tag)
        yield _line({"ref": seen.ref, "part": seen.part, "kind": kind, "place": "aside"})


def _owner(node: Node) -> dict[str, object]:
    kind = str(node.seen.__struct_config__.tag)
    name = getattr(node.seen, "call", None) if isinstance(node.seen, Observation) else getattr(node.seen, "id", None)
    return {"kind": kind, "ref": node.seen.ref, "part": node.seen.part, "id": name}


def _line(value: dict[str, object]) -> bytes:
    return _encoder.encode(value) + b"\n"
