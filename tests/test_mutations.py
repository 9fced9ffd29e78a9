"""Rows that no client writes: whatever happens to a row, nothing is raised, lost or invented, and usage agrees.

``python tests/test_mutations.py 100000`` goes through that many rows of each dialect.
"""

from __future__ import annotations

import io
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from golden_extension import CASES
from test_corpus import assert_parts_add_up
from test_laws import placed

from forensic.accounts import Work, account
from forensic.capture.found import Found, Piece
from forensic.dialects.parser import Parser
from forensic.dialects.registry import DIALECTS, parser
from forensic.model import (
    HistoryFrame,
    Mended,
    Node,
    Observation,
    Ref,
    Role,
    Row,
    Session,
    SessionStart,
    Setting,
    Unreadable,
)
from forensic.recording import open_recording
from forensic.renderers import document
from forensic.replay.player import play
from forensic.replay.usage import figures_of, told_of, units_of

HARNESSES = [name for name in DIALECTS if name != "unknown"]
CORPUS = (Path(__file__).parent.parent.parent / "shared" / "corpus").resolve()
SESSION = 200
"""Rows that are replayed together."""
LONG = 8000
"""Rows of the corpus that are longer are left alone: what can be done to them can be done to others."""
DEEP: Any = "x"
for _ in range(60):
    DEEP = {"a": [DEEP]}
ODD: Final[list[Any]] = [
    None, True, False, 0, -1, 3, 2**53, 2**63 - 1, 2**63, 2**64, 10**40, 1.5, -0.0, 1e308, "", " ", "5",
    "\u2028", "\ud800", "\x00", "a\nb", "\u0130", "x" * 5000, "</script>", "main", "../x", "<synthetic>", "[REDACTED]",
    "user", "assistant", "event_msg", "response_item", "token_count", "<command-name>", "*** Begin Patch\n*** Update",
    [], {}, [[]], [None], [{}], {"type": None}, {"type": []}, {"text": 3}, DEEP, {"a": {"a": {"a": {"a": []}}}},
    "2026-03-01T10:00:00Z", "2026-03-01T10:00:60Z", "2026-03-01", "0000-00-00", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59", {"input_tokens": -1}, {"input_tokens": 2**63, "output_tokens": "3"},
    {"type": "text", "text": "t"}, [{"type": "tool_use", "id": 1, "name": []}],
]  # fmt: skip
NUMBERS: Final = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"1.0",
    b"007",
    b"9" * 30,
    b"9" * 5000,
    b"18446744073709551616",
)
DOUBLED: Final = "\x01doubled\x01"
SALVAGED: Final = frozenset({"joined-records", "recovered-prefix", "recovered-suffix"})


# --- mutants ----------------------------------------------------------------------------------------------------------


@cache
def originals(harness: str) -> list[Row]:
    """All rows of the golden recordings of one harness, and as many of the corpus where it is there."""
    cases = [case for case in CASES if case.parent.name == harness]
    golden = [entry for case in cases for entry in open_recording(case).bundle.timeline() if isinstance(entry, Row)]
    found = []
    for path in sorted((CORPUS / harness).rglob("*.jsonl")):
        stream = path.stem if path.stem.startswith("agent-") else "main"
        lines = (raw for raw in path.read_bytes().split(b"\n") if 0 < len(raw) < LONG)
        found += [Row(ref=Ref(stream, 1, number), line=number, raw=raw) for number, raw in enumerate(lines)]
    noise = random.Random(7)  # noqa: S311 -- noise, the same every time
    return golden + noise.sample(found, min(len(found), len(golden)))


@cache
def bodies(harness: str) -> list[Any]:
    """The values of those that are JSON."""
    found = []
    for row in originals(harness):
        try:
            found.append(json.loads(row.raw))
        except (ValueError, RecursionError):
            continue
    return found


@cache
def names(harness: str) -> list[str]:
    """All keys that they have."""
    return sorted({str(way[-1]) for body in bodies(harness) for way in ways(body) if isinstance(way[-1], str)})


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*way, step)
        if len(way) < 10:
            yield from ways(inner, (*way, step))


def mutants(harness: str, count: int, seed: int = 0) -> Iterator[Row]:
    """Rows with something done to each, stream by stream; half of the time rows that are neighbours stay so."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    rows = originals(harness)
    start = noise.randrange(len(rows)) if seed % 2 else None
    offset = 0
    chosen = [noise.choice(rows) if start is None else rows[(start + number) % len(rows)] for number in range(count)]
    streams = sorted({row.ref.stream for row in chosen} - {"main"})
    for row in (row for stream in ["main", *streams] for row in chosen if row.ref.stream == stream):
        raw = mutant(harness, row.raw, noise).replace(b"\n", b" ").removesuffix(b"\r")
        yield Row(ref=Ref(row.ref.stream, 1, offset), line=1, raw=raw, agent=row.agent)
        offset += len(raw) + 1


def mutant(harness: str, raw: bytes, noise: random.Random) -> bytes:
    """One row, changed as a value or as bytes."""
    other = noise.choice(originals(harness)).raw
    if noise.random() < 0.3:
        return spoiled(raw, other, noise)
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return spoiled(raw, other, noise)
    for _ in range(noise.choice((0, 1, 1, 2, 3, 6))):
        body = changed(harness, body, noise)
    text = json.dumps(body, ensure_ascii=noise.random() < 0.5, separators=noise.choice(((",", ":"), (", ", ": "))))
    return text.replace(json.dumps(DOUBLED)[1:-1], "").encode("utf-8", "replace")


def changed(harness: str, body: Any, noise: random.Random) -> Any:
    """A value with one of its parts dropped, renamed, doubled, wrapped, exchanged, or taken from another row."""
    found = list(ways(body))
    if not found:
        return noise.choice(ODD)
    body = json.loads(json.dumps(body))
    *way, last = noise.choice(found)
    holder = body
    for step in way:
        holder = holder[step]
    fate = noise.random()
    if fate < 0.12:
        del holder[last]
    elif fate < 0.25 and isinstance(holder, dict):
        holder[noise.choice(names(harness))] = holder.pop(last)
    elif fate < 0.32 and isinstance(holder, dict):
        holder[f"{DOUBLED}{last}"] = noise.choice(ODD)
    elif fate < 0.37:
        holder[last] = noise.choice(([holder[last]], {"x": holder[last]}))
    elif fate < 0.6:
        holder[last] = taken(noise.choice(bodies(harness)), last, noise)
    else:
        holder[last] = altered(holder[last], noise)
    return body


def taken(donor: Any, key: Any, noise: random.Random) -> Any:
    """A value of another row, that of the same key if there is one."""
    found = list(ways(donor))
    same = [way for way in found if way[-1] == key]
    if not found:
        return donor
    for step in noise.choice(same or found):
        donor = donor[step]
    return json.loads(json.dumps(donor))


def altered(value: Any, noise: random.Random) -> Any:
    """A value a little different from the one it was, or altogether."""
    if isinstance(value, str) and noise.random() < 0.4:
        at = noise.randrange(len(value) + 1)
        return value[:at] + noise.choice(("\ud800", "\u2028", "\x00", "\n", "", "Z")) + value[at + noise.randrange(3) :]
    if type(value) is int and noise.random() < 0.5:
        return noise.choice((value + 1, -value, value * 10**6, float(value % 2**50), str(value)))
    return noise.choice(ODD)


def spoiled(raw: bytes, other: bytes, noise: random.Random) -> bytes:
    """Bytes with some lost, flipped, doubled, or cut into another row."""
    at = noise.randrange(len(raw) + 1)
    found = list(re.finditer(rb"(?<=[:\[, ])\d+(?=[,\]}])", raw))
    number = noise.choice(found) if found else None
    fates = (
        raw[:at],
        raw[at:],
        raw[:at] + bytes([noise.randrange(256)]) + raw[at + 1 :],
        raw[:at] + other,
        raw + other,
        raw[:at] + raw[noise.randrange(len(raw) + 1) :],
        raw[:at] + b"\xff" + raw[at:],
        raw[:at] + b"\0" * 30 + raw[at:],
        b"\0" * 100 + raw,
        b"\xef\xbb\xbf" + raw,
        raw.replace(b":", b":" + noise.choice((b"NaN", b"[" * 140, b'"\\ud800"')) + b" ,", 1),
        raw if number is None else raw[: number.start()] + noise.choice(NUMBERS) + raw[number.end() :],
    )
    return noise.choice(fates)


# --- laws -------------------------------------------------------------------------------------------------------------


def checked(harness: str, rows: list[Row], folder: Path) -> Session:
    """Read and replay rows, and hold everything that must hold of any."""
    reads = parser(harness)
    places: Counter[Any] = Counter()
    silent: set[Ref] = set()
    for row in rows:
        seen = reads.observe(row)
        assert [one.part for one in seen] == list(range(max(1, len(seen)))), row.raw
        places.update((one.ref, one.part) for one in seen)
        assert_the_short_ways_agree(reads, row, seen)
        if says_nothing(reads, row.raw, seen):
            silent.add(row.ref)
    session = play(rows, reads, harness=harness, session="s-1")
    assert placed(session) == places
    assert session.summary["rows"]["total"] == len(rows)
    assert_nothing_is_invented(session, silent)
    out = io.BytesIO()
    document.write(session, out)
    json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert_parts_add_up(session.usage)
    assert_usage_is_told_alike(harness, rows, session, folder)
    return session


def assert_the_short_ways_agree(reads: Parser, row: Row, seen: list[Observation]) -> None:
    """Who asks for usage alone is told what the readers tell."""
    assert usage_of(reads.measure(row)) == usage_of(seen), row.raw
    if reads.meter is None or reads.meter.read is None:
        return
    try:
        told = reads.meter.read(row.raw, row.ref.stream, row.agent)
    except Exception:  # noqa: BLE001 -- whatever it is, the readers are asked then
        return
    assert ([] if told is None else [told]) == [told_of(one, one.usage) for one in seen if one.usage], row.raw


def usage_of(seen: Iterable[Observation]) -> list[Any]:
    """What observations tell of usage, and of what it depends on."""
    return [
        one if isinstance(one, SessionStart | Setting) else (one.usage, one.at, one.agent, one.id, one.via, one.ordinal)
        for one in seen
        if one.usage is not None or isinstance(one, SessionStart | Setting)
    ]


def says_nothing(reads: Parser, raw: bytes, seen: list[Observation]) -> bool:
    """Whether a row is JSON of no family that the dialect has a reader for, or no JSON and not mended either."""
    try:
        text = raw.decode("utf-8", "replace").strip("\ufeff\0 \t\r")
        body = json.loads(text, parse_int=whole, parse_constant=refuse)
    except (ValueError, RecursionError):
        return not any(isinstance(one, Mended) and one.reason in SALVAGED for one in seen)
    if not isinstance(body, dict):
        return True
    try:
        return reads.family(body) not in reads.rows
    except Exception:  # noqa: BLE001 -- then it is Unreadable
        return True


def whole(digits: str) -> int | str:
    """A number that no 64-bit reader can hold keeps its digits."""
    return digits if len(digits) > 19 else int(digits)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def assert_nothing_is_invented(session: Session, silent: set[Ref]) -> None:
    """No node out of a row that says nothing; what could not be read is nobody's node either."""
    for node in walk(session.tree):
        assert not isinstance(node.seen, Mended | Unreadable)
        # a frame of history begins with its first row, whatever that says
        assert isinstance(node.seen, HistoryFrame) or node.seen.ref not in silent, node.seen


def assert_usage_is_told_alike(harness: str, rows: list[Row], session: Session, folder: Path) -> None:
    """The rows as raw files cost what the session document says, where nothing is another thread's history."""
    pieces = []
    for stream in dict.fromkeys(row.ref.stream for row in rows):
        own = [row for row in rows if row.ref.stream == stream]
        path = folder / f"{stream}.jsonl"
        path.write_bytes(b"".join(row.raw + b"\n" for row in own))
        role = Role.MAIN if stream == "main" else Role.THREAD
        pieces.append(Piece(path=path, stream=stream, role=role, native_id=own[0].agent or stream, found_by="named"))
    found = Found(harness=harness, session="s-1", pieces=tuple(pieces))
    told = account(Work(harness=harness, session="s-1", place="", size=0, found=found))
    if told.rules or told.unsettled or told.tally.inherited or session.usage["inherited"]:
        return
    total = {name: value or 0 for name, value in session.usage["total"].items() if name != "certainty"}
    counted = {name: value or 0 for name, value in figures_of(told.tally.calls, asked=False).items()}
    assert (counted, units_of(told.tally.units)) == (total, session.usage["units"])


def walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_to_a_row(harness: str, seed: int, tmp_path: Path) -> None:
    """No exception; every observation in one place; no node out of a row that says nothing; usage told alike."""
    checked(harness, list(mutants(harness, SESSION, seed)), tmp_path)


def test_mutants_are_read_all_the_same(tmp_path: Path) -> None:
    """Most mutated rows still say something: the test above looks at more than refusals."""
    for harness in HARNESSES:
        rows = checked(harness, list(mutants(harness, SESSION, 99)), tmp_path).summary["rows"]
        assert rows["read"] > rows["total"] / 8
        assert 0 < rows["unreadable"] < rows["total"] / 2


def test_mutants_are_of_every_kind() -> None:
    """Doubled keys, numbers that are none, bad bytes, halves and pairs of rows are among them."""
    rows = [row.raw for row in mutants("codex", 4000)]
    for sign in (b"\xff", b"\0" * 30, b":NaN", b"9" * 30, b"\\ud800", b"\xef\xbb\xbf{", b"[" * 140):
        assert any(sign in raw for raw in rows), sign
    assert sum(len(re.findall(rb'"timestamp": ?"', raw)) > 1 for raw in rows) > 100
    assert any(re.search(rb'"payload": ?\{.*\}, ?"payload": ?(?!\{)', raw) for raw in rows)


def main(count: int) -> None:
    for harness in HARNESSES:
        begun, nodes = time.monotonic(), 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(count // SESSION):
                session = checked(harness, list(mutants(harness, SESSION, seed)), Path(folder))
                nodes += sum(isinstance(node.seen, Observation) for node in walk(session.tree))
        print(f"{harness}: {count // SESSION * SESSION} rows, {nodes} nodes, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main(int(sys.argv[1]))
