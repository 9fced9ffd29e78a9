"""Codex, every parser version against real rollouts. Needs the shared material beside the checkout; skipped without."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from forensic.dialects.codex import DIALECT
from forensic.dialects.registry import parser
from forensic.model import (
    Mended,
    Node,
    Prompt,
    Ref,
    Response,
    Row,
    Session,
    Thought,
    Unmodelled,
    Unreadable,
)
from forensic.replay.player import play

PARSER = parser("codex")


@pytest.fixture(scope="module")
def shared(root: Path) -> Path:
    """Where the shared material lies."""
    place = root.parent / "shared"
    if not (place / "corpus" / "codex").is_dir():
        pytest.skip("no shared material beside this checkout")
    return place


class Rollout(NamedTuple):
    """A file of the corpus: `real` as its index says (yes, no)."""

    name: str
    real: bool
    rows: list[Row]


def rows_of(path: Path) -> list[Row]:
    *lines, last = path.read_bytes().split(b"\n")
    rows = [Row(ref=Ref("main", 1, number), line=number, raw=raw) for number, raw in enumerate(lines, 1)]
    return [*rows, Row(ref=Ref("main", 1, 0), line=0, raw=last, end=b"")] if last else rows


@pytest.fixture(scope="module")
def corpus(shared: Path) -> list[Rollout]:
    """All rollouts of the corpus."""
    with (shared / "corpus" / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        entries = [
            entry
            for entry in csv.DictReader(index, delimiter="\t")
            if entry["harness"] == "codex" and entry["kind"].startswith("rollout")
        ]
    return [
        Rollout(entry["file"], entry["real_session"].startswith("yes"), rows_of(shared / "corpus" / entry["file"]))
        for entry in entries
    ]


def carried(rows: list[Row]) -> Counter[tuple[str, str]]:
    """What was not read: (kind of observation, family or reason)."""
    seen = (one for row in rows for one in PARSER.observe(row))
    return Counter(
        (type(one).__name__, one.family if isinstance(one, Unmodelled) else one.reason)
        for one in seen
        if isinstance(one, (Unmodelled, Unreadable, Mended))
    )


def test_every_row_of_every_real_rollout_is_read(corpus: list[Rollout]) -> None:
    """Nothing unreadable, nothing mended, nothing unmodelled."""
    real = [row for file in corpus if file.real for row in file.rows]
    assert len(real) > 7_000
    assert carried(real) == {}


def test_what_is_carried_of_the_rest_was_never_written_by_this_client(corpus: list[Rollout]) -> None:
    """What test authors made up: a chat of another API, an event that there is not."""
    assert carried([row for file in corpus if not file.real for row in file.rows]) == {
        ("Unmodelled", "response_item/message"): 4,
        ("Unmodelled", "block/reasoning"): 1,
        ("Unmodelled", "event_msg/tool_call"): 1,
    }


def test_every_row_of_the_rivals_fixtures_is_read(shared: Path) -> None:
    """Forks, spawned threads, totals alone."""
    paths = [path for folder in ("codex", "codex-fork") for path in (shared / "fixtures" / folder).glob("*.jsonl")]
    rows = [row for path in paths for row in rows_of(path)]
    assert len(rows) > 40
    assert carried(rows) == {}


def test_the_versions_that_count_as_seen_are_those_of_real_rollouts(corpus: list[Rollout]) -> None:
    """No more and no less, so that the list cannot be wishful."""
    versions = {
        str(body["payload"]["cli_version"])
        for file in corpus
        if file.real
        for row in file.rows
        if (body := json.loads(row.raw)).get("type") == "session_meta"
    }
    assert versions == DIALECT.seen.keys()


def test_every_row_says_something_and_counts_its_parts(corpus: list[Rollout]) -> None:
    """For all files, those that test authors made up too."""
    for file in corpus:
        for row in file.rows:
            seen = PARSER.observe(row)
            assert [one.part for one in seen] == list(range(max(1, len(seen)))), (file.name, row.line)
            assert {one.ref for one in seen} == {row.ref}


def test_the_meter_skips_no_usage(corpus: list[Rollout]) -> None:
    """Rows without any of its words say nothing of usage, models or beginnings."""
    assert PARSER.meter is not None
    for file in corpus:
        for row in file.rows:
            if not any(needle in row.raw for needle in PARSER.meter.needles):
                assert list(PARSER.measure(row)) == [], (file.name, row.line)


# --- replayed ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sessions(corpus: list[Rollout]) -> list[tuple[Rollout, Session]]:
    """Every rollout of the corpus, replayed by itself."""
    return [(file, play(file.rows, PARSER, harness="codex", session=file.name)) for file in corpus]


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def test_what_is_told_twice_stands_once(sessions: list[tuple[Rollout, Session]]) -> None:
    """Every event of a message or a thought finds the item that it tells of again."""
    found = 0
    for file, session in sessions:
        if file.real and not any(finding.kind == "inherited-history" for finding in session.findings):
            for node in nodes(session.tree):
                assert not (isinstance(node.seen, (Prompt, Response, Thought)) and node.seen.via), file.name
                found += any(proof.kind in ("prompt", "response", "thought") for proof in node.evidence)
    assert found > 700


FORKED = "rollout-2025-09-16T14-12-31-613a9a68-8816-40b2-a2d4-041ade599da6.jsonl"
"""It begins with 321 rows of another thread: its session, its totals, in a fifth of a second."""


def test_totals_are_those_of_the_recount(shared: Path, sessions: list[tuple[Rollout, Session]]) -> None:
    """Of every rollout that spent anything and inherited nothing."""
    with (shared / "corpus" / "expected.tsv").open(encoding="utf-8", newline="") as expected:
        recount = {entry["session"]: entry for entry in csv.DictReader(expected, delimiter="\t")}
    compared = 0
    for file, session in sessions:
        entry, total = recount[file.name], session.usage["total"]
        assert int(entry["rows"]) == len(file.rows)
        if entry["total"] and not file.name.endswith(FORKED):
            told = [entry[key] for key in ("input", "output", "cache_read", "reasoning", "total")]
            names = ("input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "total_tokens")
            assert [str(total[name]) for name in names] == told, file.name
            compared += 1
    assert compared > 15


def test_the_first_rows_of_the_forked_one_are_another_threads(sessions: list[tuple[Rollout, Session]]) -> None:
    """The recount has them as its own."""
    (session,) = (session for file, session in sessions if file.name.endswith(FORKED))
    (finding,) = session.findings
    assert (finding.kind, session.usage["total"]["total_tokens"]) == ("inherited-history", 902_751)
