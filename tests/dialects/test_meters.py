"""The short way to usage says exactly what the readers say, and rows without a needle say nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_extension import CASES

from forensic.dialects.registry import DIALECTS, parser
from forensic.model import Observation, Ref, Row, SessionStart, Setting, Told
from forensic.recording import open_recording
from forensic.replay.usage import told_of

CORPUS = (Path(__file__).parents[3] / "shared" / "corpus").resolve()
METERED = [name for name in DIALECTS if parser(name).meter is not None]
SHORT = [name for name in METERED if getattr(parser(name).meter, "read", None) is not None]


def rows(harness: str) -> Iterator[Row]:
    """Rows of the golden recordings of one harness, and of the corpus where it is there."""
    for case in CASES:
        if case.parent.name == harness:
            yield from (entry for entry in open_recording(case).bundle.timeline() if isinstance(entry, Row))
    for path in sorted((CORPUS / harness).rglob("*.jsonl")):
        stream = path.stem if path.stem.startswith("agent-") else "main"
        for number, raw in enumerate(path.read_bytes().split(b"\n")):
            if raw:
                yield Row(ref=Ref(stream, 1, number), line=number + 1, raw=raw)


def long_way(harness: str, row: Row) -> list[Told]:
    return [told_of(seen, seen.usage) for seen in parser(harness).observe(row) if seen.usage is not None]


def short_way(harness: str, row: Row) -> list[Told] | None:
    """What the short way says; None when it leaves the row to the readers."""
    meter = parser(harness).meter
    assert meter is not None
    assert meter.read is not None
    try:
        told = meter.read(row.raw, row.ref.stream, row.agent)
    except Exception:  # noqa: BLE001 -- whatever it is, the readers are asked then
        return None
    return [] if told is None else [told]


@pytest.mark.parametrize("harness", METERED)
def test_a_row_without_a_needle_says_nothing_of_usage(harness: str) -> None:
    """Neither a figure, nor a model in force, nor the beginning of a session."""
    reads = parser(harness)
    assert reads.meter is not None
    for row in rows(harness):
        if not any(needle in row.raw for needle in reads.meter.needles):
            seen = reads.observe(row)
            assert [one for one in seen if one.usage is not None or isinstance(one, SessionStart | Setting)] == []


@pytest.mark.parametrize("harness", SHORT)
def test_the_short_way_says_what_the_readers_say(harness: str) -> None:
    """Of every real row; and hardly any is left to the readers."""
    left = counted = 0
    for row in rows(harness):
        told = short_way(harness, row)
        if told is None:
            left += 1
            continue
        counted += len(told)
        assert told == long_way(harness, row), row.ref
    assert counted > 50
    assert left < counted


VALUES: list[Any] = [
    None, True, False, 0, -1, 3, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63) - 1, 10**30, 1.0, 1e3, "", "x", " req_1 ",
    "<synthetic>", "5", [], {}, [1], {"input_tokens": 1}, {"input_tokens": 1, "output_tokens": 2},
    "2026-03-01T10:00:00Z", "2026-03-01T10:00:00.5+02:00", "2026-03-01 10:00", "2026-03-01T10:00:60Z",
    "agent_progress", "assistant", "progress", "sidechain", {"a": {"b": 1}},
]  # fmt: skip


def mutated(body: Any, noise: random.Random) -> Any:
    """A value with one of its parts changed, dropped or put elsewhere."""
    if isinstance(body, dict) and body:
        key = noise.choice(sorted(body))
        changed = dict(body)
        fate = noise.random()
        if fate < 0.1:
            del changed[key]
        elif fate < 0.15:
            changed[noise.choice(["usage", "message", "type", "uuid", "data", "x"])] = changed.pop(key)
        else:
            changed[key] = mutated(body[key], noise)
        return changed
    if isinstance(body, list) and body and noise.random() < 0.7:
        at = noise.randrange(len(body))
        return [*body[:at], mutated(body[at], noise), *body[at + 1 :]]
    return noise.choice(VALUES)


def spoiled(raw: bytes, noise: random.Random) -> bytes:
    """Bytes with something done to them that no JSON library would do."""
    at = noise.randrange(len(raw))
    fate = noise.randrange(7)
    if fate == 0:
        return raw[:at]
    if fate == 1:
        return raw[:at] + bytes([noise.randrange(256)]) + raw[at + 1 :]
    if fate == 2:
        return raw.replace(b'"output_tokens":', b'"output_tokens":7,"output_tokens":', 1)
    if fate == 3:
        return raw.replace(b'"content":', b'"content":' + b"[" * 127 + b"]" * 127 + b',"content":', 1)
    if fate == 4:
        return raw.replace(b'"usage"', b'"\\u0075sage"', 1) + b' {"usage":1}'
    if fate == 5:
        return with_bad_bytes(raw)
    return b"\xef\xbb\xbf" + raw + b"\r"


def with_bad_bytes(raw: bytes) -> bytes:
    """The same row with a text beside all others that is no UTF-8: then big numbers are read as their digits."""
    return raw.replace(b"{", b'{"beside":"\xff",', 1)


@pytest.mark.parametrize("harness", SHORT)
@pytest.mark.parametrize("seed", range(8))
def test_the_short_way_agrees_on_rows_that_nobody_writes(harness: str, seed: int) -> None:
    """Where it answers at all: types changed, keys dropped, doubled or moved, bytes lost."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    golden = [row for row in rows(harness) if b'"usage"' in row.raw][:400]
    answered = 0
    for _ in range(1000):
        row = noise.choice(golden)
        try:
            body = json.loads(row.raw)
        except (ValueError, RecursionError):
            continue
        for _ in range(noise.randrange(4)):
            body = mutated(body, noise)
        raw = json.dumps(body, separators=(",", ":"), ensure_ascii=noise.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
        if noise.random() < 0.4:
            raw = spoiled(raw, noise)
        changed = Row(ref=row.ref, line=row.line, raw=raw, agent=row.agent)
        told = short_way(harness, changed)
        if told is not None:
            answered += 1
            assert told == long_way(harness, changed), raw
    assert answered > 300


def replaced(body: Any, depth: int = 5) -> Iterator[Any]:
    """A value as often as it has parts, each time with another part replaced by an odd value."""
    if isinstance(body, dict) and depth:
        for key in body:
            yield from ({**body, key: odd} for odd in VALUES)
            yield from ({**body, key: part} for part in replaced(body[key], depth - 1))


@pytest.mark.parametrize("harness", METERED)
@pytest.mark.parametrize("spoil", [bytes, with_bad_bytes], ids=["as it is", "beside bad bytes"])
def test_the_short_way_agrees_on_every_odd_value(harness: str, spoil: Callable[[bytes], bytes]) -> None:
    """In every place of some rows, of which one tells a call inside a progress row."""
    reads = parser(harness)
    assert reads.meter is not None
    shapes: dict[tuple[Any, ...], Row] = {}
    for row in rows(harness):
        if any(needle in row.raw for needle in reads.meter.needles) and len(row.raw) < 4000:
            try:
                body = json.loads(row.raw)
            except (ValueError, RecursionError):
                continue
            within = [body[key].get("type") for key in ("data", "payload") if isinstance(body.get(key), dict)]
            shapes.setdefault((body.get("type"), *within), row)
    for row in shapes.values():
        for body in replaced(json.loads(row.raw)):
            raw = spoil(json.dumps(body, separators=(",", ":")).encode())
            changed = Row(ref=row.ref, line=row.line, raw=raw, agent=row.agent)
            if harness in SHORT and (told := short_way(harness, changed)) is not None:
                assert told == long_way(harness, changed), raw
            short, long = reads.measure(changed), reads.observe(changed)
            assert (usage_of(short), kept(short)) == (usage_of(long), kept(long)), raw


@pytest.mark.parametrize("harness", METERED)
@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_lost_its_needle_says_nothing_of_usage(harness: str, seed: int) -> None:
    """Whatever else of it is as it was: what rows are found by is what they are known by."""
    reads, noise = parser(harness), random.Random(seed)  # noqa: S311 -- noise, the same every time
    assert reads.meter is not None
    needles = reads.meter.needles
    holding = [row for row in rows(harness) if any(needle in row.raw for needle in needles)][:400]
    for row in holding:
        try:
            body = json.loads(row.raw)
        except (ValueError, RecursionError):
            continue
        for _ in range(8):
            raw = json.dumps(mutated(body, noise), separators=(",", ":")).encode()
            if not any(needle in raw for needle in needles):
                seen = reads.observe(Row(ref=row.ref, line=row.line, raw=raw, agent=row.agent))
                assert (usage_of(seen), kept(seen)) == ([], []), raw


def usage_of(seen: Iterable[Observation]) -> list[tuple[Any, ...]]:
    """What observations tell of usage, and where they stand."""
    return [
        (one.usage, one.at, one.turn, one.agent, one.id, one.via, one.ordinal) for one in seen if one.usage is not None
    ]


def kept(seen: Iterable[Observation]) -> list[Observation]:
    """What usage depends on besides."""
    return [one for one in seen if isinstance(one, SessionStart | Setting)]


@pytest.mark.parametrize("harness", METERED)
def test_measuring_a_row_says_what_observing_it_says(harness: str) -> None:
    """Of usage, of models in force and of beginnings; by every dialect, of every row that holds a needle."""
    reads = parser(harness)
    assert reads.meter is not None
    for row in rows(harness):
        if any(needle in row.raw for needle in reads.meter.needles):
            short, long = reads.measure(row), reads.observe(row)
            assert (usage_of(short), kept(short)) == (usage_of(long), kept(long)), row.ref


@pytest.mark.parametrize("harness", [name for name in METERED if name not in SHORT])
@pytest.mark.parametrize("seed", range(4))
def test_measuring_rows_that_nobody_writes(harness: str, seed: int) -> None:
    """The same of mutated ones."""
    reads, noise = parser(harness), random.Random(seed)  # noqa: S311 -- noise, the same every time
    assert reads.meter is not None
    needles = reads.meter.needles
    holding = [row for row in rows(harness) if any(needle in row.raw for needle in needles)][:400]
    for _ in range(800 if holding else 0):
        row = noise.choice(holding)
        try:
            body = json.loads(row.raw)
        except (ValueError, RecursionError):
            continue
        for _ in range(noise.randrange(4)):
            body = mutated(body, noise)
        raw = json.dumps(body, separators=(",", ":")).encode()
        changed = Row(ref=row.ref, line=row.line, raw=spoiled(raw, noise) if noise.random() < 0.3 else raw)
        short, long = reads.measure(changed), reads.observe(changed)
        assert (usage_of(short), kept(short)) == (usage_of(long), kept(long)), changed.raw
