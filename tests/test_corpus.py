"""Transcripts that real people's agents wrote: ``../shared/corpus``, every Claude session of it.

``expected.tsv`` is an independent recount. Its rules differ from ours where its README says so, and each difference
is worked out here from the rows themselves, not waved through:

* `calls` counts ``<synthetic>`` messages as well;
* an unknown count is 0 there and unknown (null) here;
* `tool_calls` leaves out the calls that only progress rows tell of, and those that the model's own server ran;
* `unreadable` also counts rows that are JSON but no object.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_extension import document_of

from forensic.archive import Archive
from forensic.intake import capture
from forensic.model import Node, Observation, Row, Session, ToolRequest, Unmodelled, Unreadable
from forensic.recording import open_recording

CORPUS = (Path(__file__).parent.parent.parent / "shared" / "corpus").resolve()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not there")]

FIELDS = {"input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_tokens"}
FIELDS["cache_write"] = "cache_write_tokens"
SUMMED = (*FIELDS.values(), "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens", "calls")
Figures = dict[str, Any]


def expected() -> list[dict[str, str]]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "expected.tsv").open(encoding="utf-8", newline="") as table:
        return [row for row in csv.DictReader(table, delimiter="\t") if row["harness"] == "claude"]


ROWS = expected()
BY_FILE = {CORPUS / f"{row['session']}.jsonl": row for row in ROWS}
COUNTED = ("rows", "unreadable", "calls", "idless", *FIELDS, "total", "tool_calls")


@pytest.mark.parametrize("row", ROWS, ids=[row["session"].removeprefix("claude/") for row in ROWS])
def test_session_gives_the_recounted_figures(row: dict[str, str], tmp_path: Path) -> None:
    """Captured, verified with its verdict, replayed: every row accounted for, every figure as recounted."""
    main = CORPUS / f"{row['session']}.jsonl"
    (done,) = capture([main], Archive(tmp_path), harness="claude")
    recording = open_recording(Path(done.bundle))
    report = recording.verify()
    assert (report.ok, [finding.note for finding in report.findings]) == (True, [])
    session = recording.replay()
    document = document_of(session)
    files = [Path(source.path) for source in recording.manifest.sources if source.role != "side"]
    assert recounted(files) == told(session, document, files)
    timeline = list(recording.bundle.timeline())
    assert refs(session) == {entry.ref for entry in timeline}
    streams = [b"".join(part) for part in by_stream(timeline)]
    assert sorted(streams) == sorted(file.read_bytes() for file in files if file.stat().st_size)
    assert_parts_add_up(document["usage"])


def recounted(files: list[Path]) -> Figures:
    """The figures of the table for the files of one session.

    A flat subagent file of the old layout is a row of its own there; here it belongs to the session that it names.
    """
    rows = [BY_FILE[file] for file in files if file in BY_FILE]
    return {name: sum(int(row[name]) for row in rows) for name in ("files", *COUNTED)}


def told(session: Session, document: Figures, files: list[Path]) -> Figures:
    """Our figures, by the names of the table."""
    rows, usage = document["summary"]["rows"], document["usage"]
    figures = {name: usage["total"][field] or 0 for name, field in FIELDS.items()}
    return {
        "files": len(files),
        "rows": rows["total"],
        "unreadable": sum(isinstance(seen, Unreadable) or is_no_object(seen) for seen in session.aside),
        "calls": usage["total"]["calls"] + len(synthetic(files)),
        "idless": usage["idless_records"],
        **figures,
        "total": sum(figures.values()),
        "tool_calls": len(own_calls(session)) - len(served(files)),
    }


def is_no_object(seen: Observation) -> bool:
    return isinstance(seen, Unmodelled) and seen.family.startswith("<") and seen.family != "<object>"


def own_calls(session: Session) -> list[ToolRequest]:
    """Calls that rows of their own tell of."""
    seen = (node.seen for node in walk(session.tree))
    return [one for one in seen if isinstance(one, ToolRequest) and one.via is None]


def messages(files: list[Path], word: bytes) -> Iterator[Figures]:
    """Model messages of rows that hold a word."""
    for line in (line for file in files for line in file.read_bytes().split(b"\n") if word in line):
        body = json.loads(line)
        if body.get("type") == "assistant":
            yield body["message"]


def synthetic(files: list[Path]) -> set[str]:
    """Ids of messages that the client itself wrote and gave a usage of zero."""
    return {one["id"] for one in messages(files, b"<synthetic>") if one.get("model") == "<synthetic>"}


def served(files: list[Path]) -> set[str]:
    """Ids of calls that the model's own server ran."""
    blocks = (block for one in messages(files, b'"server_tool_use","id"') for block in one["content"])
    return {block["id"] for block in blocks if block["type"] == "server_tool_use"}


def walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


def refs(session: Session) -> set[Any]:
    found = {seen.ref for seen in session.aside}
    for node in walk(session.tree):
        found.update(proof.ref for proof in node.evidence)
        if isinstance(node.seen, Observation):
            found.add(node.seen.ref)
        if node.outcome is not None and node.outcome.result is not None:
            found.add(node.outcome.result.ref)
    return found


def by_stream(timeline: list[Any]) -> Iterator[list[bytes]]:
    """The bytes of every transcript, put together again from its rows."""
    streams: dict[str, list[bytes]] = {}
    for entry in timeline:
        if isinstance(entry, Row):
            streams.setdefault(entry.ref.stream, []).append(entry.raw + entry.end)
    yield from streams.values()


def assert_parts_add_up(usage: Figures) -> None:
    """Each way of cutting the total adds up to it; an unknown part is no zero but adds nothing."""
    for cut in ("by_model", "by_agent", "by_turn", "by_day"):
        for field in SUMMED:
            parts = [group[field] for group in usage[cut].values()]
            assert (cut, field, sum(part or 0 for part in parts)) == (cut, field, usage["total"][field] or 0)
            assert not parts or (usage["total"][field] is None) == all(part is None for part in parts)


def test_the_whole_corpus_as_one_folder(tmp_path: Path) -> None:
    """Found by itself, sealed session by session: no transcript is left behind and none is taken twice."""
    seen: list[Path] = []
    archive = Archive(tmp_path)
    for done in capture([CORPUS / "claude"], archive, verdict=False):
        sources = open_recording(Path(done.bundle)).manifest.sources
        if done.state != "unchanged":
            seen.extend(Path(source.path) for source in sources if source.role != "side")
    there = {path.resolve() for path in (CORPUS / "claude").rglob("*.jsonl") if path.stat().st_size}
    # the client's list of typed prompts is no session; whoever names it gets it all the same
    assert [path.name for path in sorted(there - set(seen))] == ["history.jsonl"]
    assert len(seen) == len(set(seen))
