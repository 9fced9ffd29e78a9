"""Rows that no client writes: whatever happens to a row, nothing is raised, lost or invented.

``python tests/test_mutations.py 100000`` goes through that many rows of each dialect.
"""

from __future__ import annotations

import io
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_extension import CASES
from test_laws import placed

from forensic.dialects.registry import DIALECTS, parser
from forensic.model import Node, Observation, Ref, Row, Session
from forensic.recording import open_recording
from forensic.renderers import document
from forensic.replay.player import play

HARNESSES = [name for name in DIALECTS if name != "unknown"]
SESSION = 200
"""Rows that are replayed together."""
ODD: list[Any] = [
    None, True, 0, -1, 2**63, 10**40, 1.5, -0.0, "", " ",
    "\u2028", "\ud800", "\x00", "x" * 5000, "</script>", "main", "../x",
    [], {}, [[]], [None], {"type": None}, {"text": 3}, "2026-03-01T10:00:00Z", "0000-00-00", {"input_tokens": -1},
    {"type": "text", "text": "t"}, [{"type": "tool_use", "id": 1, "name": []}], {"a": {"a": {"a": {"a": []}}}},
]  # fmt: skip


def originals(harness: str) -> list[Row]:
    """All rows of the golden recordings of one harness."""
    cases = [case for case in CASES if case.parent.name == harness]
    return [entry for case in cases for entry in open_recording(case).bundle.timeline() if isinstance(entry, Row)]


def mutants(harness: str, count: int, seed: int = 0) -> Iterator[Row]:
    """Rows with something done to each, on the lines of a file."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    rows = originals(harness)
    offset = 0
    for number in range(count):
        row = noise.choice(rows)
        raw = mutant(row.raw, noise.choice(rows).raw, noise)
        yield Row(ref=Ref(row.ref.stream, 1, offset), line=number + 1, raw=raw, agent=row.agent)
        offset += len(raw) + 1


def mutant(raw: bytes, other: bytes, noise: random.Random) -> bytes:
    """One row, changed as a value or as bytes."""
    if noise.random() < 0.2:
        return spoiled(raw, other, noise).replace(b"\n", b" ")
    try:
        body, donor = json.loads(raw), json.loads(other)
    except (ValueError, RecursionError):
        return spoiled(raw, other, noise).replace(b"\n", b" ")
    for _ in range(noise.randrange(1, 5)):
        body = changed(body, donor, noise)
    return json.dumps(body, ensure_ascii=noise.random() < 0.5).encode("utf-8", "surrogatepass")


def changed(body: Any, donor: Any, noise: random.Random) -> Any:
    """A value with one part dropped, renamed, replaced, or taken from another row."""
    if isinstance(body, dict) and body:
        key = noise.choice(sorted(body))
        fate = noise.random()
        if fate < 0.1:
            return {name: value for name, value in body.items() if name != key}
        if fate < 0.2:
            return {noise.choice(["type", "id", "x", "payload", "data", "role"]) if name == key else name: value for name, value in body.items()}  # fmt: skip  # noqa: E501 -- one thought
        if fate < 0.35 and isinstance(donor, dict) and donor:
            return {**body, key: donor[noise.choice(sorted(donor))]}
        inner = donor.get(key) if isinstance(donor, dict) else None
        return {**body, key: changed(body[key], inner, noise)}
    if isinstance(body, list) and body and noise.random() < 0.8:
        at = noise.randrange(len(body))
        return [*body[:at], changed(body[at], donor, noise), *body[at + noise.randrange(2) :]]
    return noise.choice(ODD)


def spoiled(raw: bytes, other: bytes, noise: random.Random) -> bytes:
    """Bytes with some lost, flipped, doubled, or cut into another row."""
    at = noise.randrange(len(raw) + 1)
    fate = noise.randrange(7)
    if fate == 0:
        return raw[:at]
    if fate == 1:
        return raw[at:]
    if fate == 2:
        return raw[:at] + bytes([noise.randrange(256)]) + raw[at + 1 :]
    if fate == 3:
        return raw[:at] + other
    if fate == 4:
        return raw + other
    if fate == 5:
        return b"\0" * 100 + raw
    return raw.replace(b":", b":" + noise.choice([b"NaN", b"1e999", b"[" * 140, b'"\\ud800"', b"9" * 50]) + b" ,", 1)


def checked(harness: str, rows: list[Row]) -> Session:
    """Read and replay rows, and hold everything that must hold of any."""
    reads = parser(harness)
    places: dict[Any, int] = {}
    known: set[Ref] = set()
    for row in rows:
        seen = reads.observe(row)
        assert seen, row.raw
        assert [one.part for one in seen] == list(range(len(seen)))
        places.update({(one.ref, one.part): 1 for one in seen})
        if not is_unknown(harness, row.raw):
            known.add(row.ref)
    session = play(rows, reads, harness=harness, session="s-1")
    assert dict(placed(session)) == places
    document.write(session, io.BytesIO())
    assert session.summary["rows"]["total"] == len(rows)
    for node in walk(session.tree):
        assert not isinstance(node.seen, Observation) or node.seen.ref in known, node.seen
    return session


def is_unknown(harness: str, raw: bytes) -> bool:
    """Whether a row is JSON of no family that the dialect has a reader for; other JSON, or none, says so itself."""
    reads = parser(harness)
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    if not isinstance(body, dict):
        return True
    try:
        return reads.family(body) not in reads.rows
    except Exception:  # noqa: BLE001 -- then it is Unreadable
        return True


def walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_to_a_row(harness: str, seed: int) -> None:
    """No exception; every observation in one place; no node out of a row of no known family."""
    rows = list(mutants(harness, 2 * SESSION, seed))
    for first in range(0, len(rows), SESSION):
        checked(harness, rows[first : first + SESSION])


def test_mutants_are_read_all_the_same() -> None:
    """Most mutated rows still say something: the test above looks at more than refusals."""
    for harness in HARNESSES:
        rows = checked(harness, list(mutants(harness, SESSION, 99))).summary["rows"]
        assert rows["read"] > rows["total"] / 8


def main(count: int) -> None:
    for harness in HARNESSES:
        begun, nodes = time.monotonic(), 0
        for seed in range(count // SESSION):
            session = checked(harness, list(mutants(harness, SESSION, seed)))
            nodes += sum(isinstance(node.seen, Observation) for node in walk(session.tree))
        print(f"{harness}: {count // SESSION * SESSION} rows, {nodes} nodes, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main(int(sys.argv[1]))
