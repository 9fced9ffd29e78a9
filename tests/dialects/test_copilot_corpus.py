"""Copilot CLI, every parser version against real transcripts.

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

from forensic.capture.discover import find
from forensic.capture.named import record
from forensic.dialects.copilot import DIALECT
from forensic.dialects.registry import parser
from forensic.model import Mended, Ref, Row, SideFile, Title, Unmodelled, Unreadable
from forensic.recording import open_recording

PARSER = parser("copilot")


@pytest.fixture(scope="module")
def place(root: Path) -> Path:
    """Where the corpus lies."""
    corpus = root.parent / "shared" / "corpus"
    if not (corpus / "copilot").is_dir():
        pytest.skip("no shared material beside this checkout")
    return corpus


class Transcript(NamedTuple):
    """A file of the corpus; `real` says that a client wrote it."""

    path: Path
    real: bool
    rows: list[Row]


def rows_of(path: Path) -> list[Row]:
    *lines, last = path.read_bytes().split(b"\n")
    rows = [Row(ref=Ref("main", 1, number), line=number, raw=raw) for number, raw in enumerate(lines, 1)]
    return [*rows, Row(ref=Ref("main", 1, 0), line=0, raw=last, end=b"")] if last else rows


def told_of(place: Path, table: str) -> list[dict[str, str]]:
    with (place / table).open(encoding="utf-8", newline="") as lines:
        return [entry for entry in csv.DictReader(lines, delimiter="\t") if entry["harness"] == "copilot"]


@pytest.fixture(scope="module")
def corpus(place: Path) -> list[Transcript]:
    """All transcripts of the corpus."""
    entries = [entry for entry in told_of(place, "INDEX.tsv") if entry["file"].endswith(".jsonl")]
    return [
        Transcript(place / entry["file"], entry["real_session"].startswith("yes"), rows_of(place / entry["file"]))
        for entry in entries
    ]


def bodies(file: Transcript) -> Iterator[dict[str, Any]]:
    return (json.loads(row.raw) for row in file.rows)


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
    real = [file for file in corpus if file.real]
    assert (len(real), sum(len(file.rows) for file in real)) == (34, 3866)
    assert carried(real) == {}


def test_what_is_carried_of_the_rest_is_no_row_of_this_client(corpus: list[Transcript]) -> None:
    """What test authors made up, and rows of other programs."""
    assert carried([file for file in corpus if not file.real]) == {
        ("Unmodelled", "<object>"): 4,
        ("Unmodelled", "assistant.message"): 1,
        ("Unmodelled", "assistantresponse"): 1,
        ("Unmodelled", "user.message"): 1,
        ("Unmodelled", "userpromptsubmitted"): 1,
        ("Unreadable", "not JSON"): 1,
    }


def test_rows_are_counted_as_an_independent_recount_does(place: Path, corpus: list[Transcript]) -> None:
    """All rows of all files, and those of them that cannot be read."""
    counted = {
        str(file.path.relative_to(place)): (
            str(len(file.rows)),
            str(sum(isinstance(one, Unreadable) for row in file.rows for one in PARSER.observe(row))),
        )
        for file in corpus
    }
    assert counted == {row["session"]: (row["rows"], row["unreadable"]) for row in told_of(place, "expected.tsv")}


def test_the_versions_that_count_as_seen_are_those_of_real_sessions(corpus: list[Transcript]) -> None:
    """No more and no less, so that the list cannot be wishful."""
    versions = {
        body["data"]["copilotVersion"]
        for file in corpus
        if file.real
        for body in bodies(file)
        if body["type"] == "session.start"
    }
    assert versions == DIALECT.seen.keys()


def test_rows_name_the_one_before_them_and_no_parent(corpus: list[Transcript]) -> None:
    """In all but a handful of real rows, so a tree of these ids would hang parallel calls under each other."""
    chained = broken = 0
    for file in corpus:
        before = None
        for body in bodies(file) if file.real else ():
            chained += body["parentId"] == before
            broken += body["parentId"] != before
            before = body["id"]
    assert chained > 3800
    assert broken < 10


def test_every_row_says_something_and_counts_its_parts(corpus: list[Transcript]) -> None:
    """For all files, the made-up ones too."""
    for file in corpus:
        for row in file.rows:
            seen = PARSER.observe(row)
            assert [one.part for one in seen] == list(range(max(1, len(seen)))), (file.path, row.line)
            assert {one.ref for one in seen} == {row.ref}


class Spent(NamedTuple):
    """What a session cost; the input includes what a cache gave or took."""

    calls: int
    input: int
    output: int
    reasoning: int


def accounted(file: Transcript) -> Spent:
    """By the totals at its end, added up over its models."""
    (end,) = [body["data"] for body in bodies(file) if body["type"] == "session.shutdown"]
    models = end["modelMetrics"].values()
    return Spent(
        sum(model["requests"]["count"] for model in models),
        sum(model["usage"]["inputTokens"] for model in models),
        sum(model["usage"]["outputTokens"] for model in models),
        sum(model["usage"]["reasoningTokens"] for model in models),
    )


def test_usage_is_what_the_client_accounts_for(corpus: list[Transcript], tmp_path: Path) -> None:
    """In every session that ended: the totals and what each message tells are one and the same money."""
    ended = [file for file in corpus if file.real and any(b'"session.shutdown"' in row.raw for row in file.rows)]
    assert len(ended) == 29
    for number, file in enumerate(ended):
        (found,) = find([file.path])
        record(found, tmp_path / str(number))
        session = open_recording(tmp_path / str(number)).replay()
        total = {key: value or 0 for key, value in session.usage["total"].items() if key != "certainty"}
        told = total["input_tokens"] + total["cache_read_tokens"] + total["cache_write_tokens"]
        got = Spent(total["calls"], told, total["output_tokens"], total["reasoning_tokens"])
        assert got == accounted(file), file.path
        assert session.usage["certainty"]["level"] == "exact"
        assert session.findings == []


def test_usage_of_a_session_that_never_ended_is_a_bound(corpus: list[Transcript], tmp_path: Path) -> None:
    """The output of each message is told, and no more."""
    (file,) = [file for file in corpus if file.path.parts[-4:-2] == ("84", "e7f6fdba43")]
    spoken = [body["data"] for body in bodies(file) if body["type"] == "assistant.message"]
    (shortened,) = [body["data"] for body in bodies(file) if body["type"] == "session.compaction_complete"]
    (found,) = find([file.path])
    record(found, tmp_path / "made")
    usage = open_recording(tmp_path / "made").replay().usage
    assert usage["total"]["output_tokens"] == (
        sum(said["outputTokens"] for said in spoken) + shortened["compactionTokensUsed"]["outputTokens"]
    )
    assert usage["total"]["calls"] == len(spoken) + 1
    assert usage["certainty"]["level"] == "lower_bound"
    assert usage["units"] == {"nano_aiu": 1543867125000, "premium_requests": 1}


def test_every_real_workspace_has_a_title(place: Path) -> None:
    """One, made of the words in the file and of nothing else."""
    paths = sorted((place / "copilot").rglob("workspace.yaml"))
    assert len(paths) == 40
    for path in paths:
        file = SideFile(ref=Ref("files/0001", 1, 0), native_id=path.name, stream=None, raw=path.read_bytes())
        (title,) = PARSER.observe(file)
        assert isinstance(title, Title)
        assert title.source == "summary"
        written = path.read_text(encoding="utf-8")
        assert title.text.preview
        assert all(word in written for word in title.text.preview.split("\n"))
