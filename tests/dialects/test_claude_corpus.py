"""Claude Code, every parser version against real transcripts, and against what a scripted model is known to have said.

Needs the shared material beside the checkout; skipped without it.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forensic.dialects.claude import DIALECT
from forensic.dialects.registry import parser
from forensic.model import Mended, Observation, Ref, Response, Row, Thought, Unmodelled, Unreadable

PARSER = parser("claude")
CLIENTS = ("2.1.197", "2.1.332")


@pytest.fixture(scope="module")
def shared(root: Path) -> Path:
    """Where the shared material lies."""
    place = root.parent / "shared"
    if not (place / "corpus" / "claude").is_dir():
        pytest.skip("no shared material beside this checkout")
    return place


class Transcript(NamedTuple):
    """A file of the corpus: `real` as its index says (yes, no, suspect)."""

    name: str
    real: str
    rows: list[Row]


def rows_of(path: Path) -> list[Row]:
    stream = path.stem if path.name.startswith("agent-") else "main"
    *lines, last = path.read_bytes().split(b"\n")
    rows = [Row(ref=Ref(stream, 1, number), line=number, raw=raw) for number, raw in enumerate(lines, 1)]
    return [*rows, Row(ref=Ref(stream, 1, 0), line=0, raw=last, end=b"")] if last else rows


@pytest.fixture(scope="module")
def corpus(shared: Path) -> list[Transcript]:
    """All transcripts of the corpus that are one row a line."""
    with (shared / "corpus" / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        entries = [
            entry
            for entry in csv.DictReader(index, delimiter="\t")
            if entry["harness"] == "claude" and "transcript" in entry["kind"] and entry["file"].endswith(".jsonl")
        ]
    return [
        Transcript(entry["file"], entry["real_session"].split(" ")[0], rows_of(shared / "corpus" / entry["file"]))
        for entry in entries
    ]


def carried(transcripts: list[Transcript]) -> Counter[tuple[str, str]]:
    """What was not read of them: (kind of observation, family or reason)."""
    seen = (one for file in transcripts for row in file.rows for one in PARSER.observe(row))
    return Counter(
        (type(one).__name__, one.family if isinstance(one, Unmodelled) else one.reason)
        for one in seen
        if isinstance(one, (Unmodelled, Unreadable, Mended))
    )


def test_every_row_of_every_real_session_is_read(corpus: list[Transcript]) -> None:
    """Nothing unreadable, nothing mended, nothing unmodelled."""
    real = [file for file in corpus if file.real == "yes"]
    assert sum(len(file.rows) for file in real) > 10_000
    assert carried(real) == {}


def test_what_is_carried_of_the_rest_is_no_row_of_this_client(corpus: list[Transcript]) -> None:
    """Other harnesses' rows in its guise, and what test authors broke on purpose."""
    assert carried([file for file in corpus if file.real != "yes"]) == {
        ("Unmodelled", "tool"): 24,
        ("Unmodelled", "tool_result"): 8,
        ("Unmodelled", "assistant"): 8,
        ("Unmodelled", "user"): 8,
        ("Unmodelled", "system/attribution_snapshot"): 2,
        ("Unmodelled", "system/chat_compression"): 1,
        ("Unmodelled", "system/slash_command"): 1,
        ("Unmodelled", "system/ui_telemetry"): 1,
        ("Unmodelled", "system"): 1,
        ("Unmodelled", "block/<scalar>"): 1,
        ("Unmodelled", "<int>"): 1,
        ("Unmodelled", "<list>"): 1,
        ("Unmodelled", "<object>"): 1,
        ("Unmodelled", "<str>"): 1,
        ("Unreadable", "not JSON"): 1,
    }


def test_the_versions_that_count_as_seen_are_those_of_real_sessions(corpus: list[Transcript]) -> None:
    """No more and no less, so that the list cannot be wishful."""
    versions = {
        str(body["version"])
        for file in corpus
        if file.real == "yes"
        for row in file.rows
        if isinstance(body := json.loads(row.raw), dict) and "version" in body
    }
    assert versions == DIALECT.seen.keys()
    assert set(CLIENTS) == DIALECT.verified.keys()


def test_every_row_says_something_and_counts_its_parts(corpus: list[Transcript]) -> None:
    """For all files, the broken ones too."""
    for file in corpus:
        for row in file.rows:
            seen = PARSER.observe(row)
            assert [one.part for one in seen] == list(range(max(1, len(seen)))), (file.name, row.line)
            assert {one.ref for one in seen} == {row.ref}


def test_real_records_survive_a_cut_one_before_them(corpus: list[Transcript]) -> None:
    """Whatever row is cut, wherever: behind it the whole record is read as ever, or, rarely, nothing is."""
    rows = [row for file in corpus if file.real == "yes" for row in file.rows if 300 < len(row.raw) < 3000]
    missed = 0
    for number in range(0, len(rows) - 1, 3):
        cut, whole = rows[number].raw, rows[number + 1]
        spliced = Row(ref=whole.ref, line=whole.line, raw=cut[: 1 + number * 7919 % (len(cut) - 1)] + whole.raw)
        seen = PARSER.observe(spliced)
        missed += len(seen) == 1 and isinstance(seen[0], Unreadable)
        assert len(seen) == 1 or seen[:-2] == PARSER.observe(whole)
        assert isinstance(seen[-1], Unreadable)
    assert missed < len(rows) / 3 / 20


class Captured(NamedTuple):
    """One run of a real client: what it was told, and what its transcripts say."""

    served: list[dict[str, Any]]
    seen: list[Observation]


def captured(shared: Path, client: str) -> Iterator[Captured]:
    for served in sorted((shared / "captures" / f"claude-{client}").glob("*/served.jsonl")):
        paths = sorted(path for path in (served.parent / "transcripts").rglob("*.jsonl") if ".claude" in path.parts)
        seen = [one for path in paths for row in rows_of(path) for one in PARSER.observe(row)]
        said = [json.loads(line) for line in served.read_bytes().split(b"\n") if line.strip()]
        # what the client asks for a summary or a title, and what was cut or refused on the wire, leaves no message
        answered = {one.usage.request for one in seen if one.usage}
        missing = [one for one in said if one["request_id"] not in answered]
        assert all(
            one["why"] in ("schema", "summary") or "error" in one["served"] or served.parent.name == "k_midstream"
            for one in missing
        ), served
        yield Captured([one for one in said if one["request_id"] in answered], seen)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_model_said_is_found(shared: Path, client: str) -> None:
    """Every thought, every answer and every count of tokens, once, in every run; nothing unread."""
    runs = list(captured(shared, client))
    assert sum(len(run.served) for run in runs) > 50
    for run in runs:
        assert not any(isinstance(one, (Unmodelled, Unreadable, Mended)) for one in run.seen)
        counts = {
            one.usage.request: (
                one.usage.input_tokens, one.usage.output_tokens, one.usage.cache_read_tokens,
                one.usage.cache_write_tokens,
            )
            for one in run.seen
            if one.usage
        }  # fmt: skip
        thoughts = Counter(one.text.preview for one in run.seen if isinstance(one, Thought) and one.text)
        answers = Counter(one.text.preview for one in run.seen if isinstance(one, Response) and not one.synthetic)
        for reply in run.served:
            said = reply["served"]
            tokens = tuple(reply["usage"][key] for key in ("input", "output", "cache_read", "cache_write"))
            assert counts.pop(str(reply["request_id"])) == tokens
            thoughts.subtract([said["thinking"]] if "thinking" in said else [])
            answers.subtract([said["text"]] if "text" in said else [])
        assert counts == {}
        assert set(thoughts.values()) | set(answers.values()) <= {0}
