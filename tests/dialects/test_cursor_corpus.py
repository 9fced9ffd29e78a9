"""Cursor, every parser version against real transcripts and against what other programs take for such.

Needs the shared material beside the checkout; skipped without it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from forensic.archive import Archive
from forensic.capture.discover import find
from forensic.dialects.registry import parser
from forensic.intake import capture
from forensic.model import (
    Failure,
    Injected,
    Mended,
    Observation,
    Prompt,
    Ref,
    Response,
    Row,
    SetAside,
    SideFile,
    Skill,
    Thought,
    ToolRequest,
    TurnEnd,
    Unmodelled,
    Unreadable,
)
from forensic.recording import open_recording

PARSER = parser("cursor")


@pytest.fixture(scope="module")
def shared(root: Path) -> Path:
    """Where the shared material lies."""
    place = root.parent / "shared"
    if not (place / "corpus" / "cursor").is_dir():
        pytest.skip("no shared material beside this checkout")
    return place


class Transcript(NamedTuple):
    """A file, whether a real session wrote it, and what is seen in it."""

    name: str
    real: bool
    seen: list[Observation]


def seen_in(path: Path) -> list[Observation]:
    raw = path.read_bytes()
    if path.suffix == ".txt":
        return PARSER.observe(SideFile(ref=Ref("files/0001", 1, 0), native_id=path.name, stream=None, raw=raw))
    *lines, last = raw.split(b"\n")
    rows = [Row(ref=Ref("main", 1, number), line=number, raw=line) for number, line in enumerate(lines, 1)]
    rows += [Row(ref=Ref("main", 1, 0), line=0, raw=last, end=b"")] * bool(last)
    return [one for row in rows for one in PARSER.observe(row)]


def entries(shared: Path) -> Iterator[dict[str, str]]:
    with (shared / "corpus" / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        for entry in csv.DictReader(index, delimiter="\t"):
            if entry["harness"] == "cursor" and "transcript" in entry["kind"]:
                yield entry


@pytest.fixture(scope="module")
def corpus(shared: Path) -> list[Transcript]:
    """All agent transcripts of the corpus."""
    return [
        Transcript(entry["file"], entry["real_session"] == "yes", seen_in(shared / "corpus" / entry["file"]))
        for entry in entries(shared)
    ]


def told(seen: list[Observation]) -> Counter[tuple[str, str | None]]:
    """What was seen, by kind, and by source or family where it has one."""
    return Counter(
        (type(one).__name__, one.source if isinstance(one, Injected) else getattr(one, "family", None)) for one in seen
    )


def test_every_row_and_text_of_every_real_session_is_read(corpus: list[Transcript]) -> None:
    """Nothing unreadable, nothing mended, nothing unmodelled."""
    real = [file for file in corpus if file.real]
    assert [file.name.endswith(".txt") for file in real].count(True) == 8
    assert len(real) == 9
    assert not [one for file in real for one in file.seen if isinstance(one, (Unreadable, Mended, Unmodelled))]


def test_what_the_real_rows_hold(corpus: list[Transcript]) -> None:
    """Every block of the one long session, counted by other means: see corpus-stats."""
    (rows,) = (file for file in corpus if file.real and file.name.endswith(".jsonl"))
    assert told(rows.seen) == {
        ("Prompt", None): 79,
        ("Response", None): 273,
        ("Thought", None): 114,
        ("ToolRequest", None): 655,
        ("Injected", "image_files"): 14,
        ("Injected", "context"): 7,
    }
    calls = [one for one in rows.seen if isinstance(one, ToolRequest)]
    named = Counter(one.name for one in calls)
    assert (named["Shell"], named["Read"], named["Write"], named["StrReplace"]) == (169, 145, 120, 133)
    assert sum(one.command is not None for one in calls) == 169
    assert sum(len(one.reads) for one in calls) == 145
    assert sum(len(one.writes) for one in calls) == 253
    assert {one.server for one in calls} == {None}
    assert all(one.opaque and one.redacted for one in rows.seen if isinstance(one, Thought))
    assert sum(one.images for one in rows.seen if isinstance(one, Prompt)) == 16
    assert not any("user_query" in one.text.preview for one in rows.seen if isinstance(one, Prompt))


def test_what_the_real_texts_hold(corpus: list[Transcript]) -> None:
    """Every head and every mark at the begin of a line, counted by other means."""
    texts = [file for file in corpus if file.name.endswith(".txt")]
    seen = [one for file in texts for one in file.seen]
    assert told(seen) == {
        ("Prompt", None): 74,
        ("Response", None): 124,
        ("ToolRequest", None): 342,
        ("SetAside", "tool-result"): 342,
        ("Injected", "image_files"): 5,
        ("Injected", "attached_files"): 1,
        ("Injected", "agent_skills"): 1,
    }
    for file in texts:
        calls = Counter(one.name for one in file.seen if isinstance(one, ToolRequest))
        results = Counter(one.value for one in file.seen if isinstance(one, SetAside))
        assert calls == results, file.name
    calls = Counter(one.name for one in seen if isinstance(one, ToolRequest))
    assert (calls["Read"], calls["StrReplace"], calls["Write"], calls["Shell"]) == (90, 84, 39, 18)
    given = [one.input for one in seen if isinstance(one, ToolRequest)]
    assert all(isinstance(one, dict) for one in given)
    assert {tuple(one) for one in given if isinstance(one, dict) and "old_string" in one} == {
        ("path", "old_string", "new_string")
    }
    assert sum(one.images for one in seen if isinstance(one, Prompt)) == 10


def test_what_is_carried_of_the_rest_is_no_row_of_this_client(corpus: list[Transcript]) -> None:
    """Files of another format that test authors filed under this name."""
    carried = told([one for file in corpus if not file.real for one in file.seen if isinstance(one, Unmodelled)])
    assert carried == {
        ("Unmodelled", "assistant"): 1,
        ("Unmodelled", "tool"): 2,
        ("Unmodelled", "type/assistant"): 2,
        ("Unmodelled", "type/user"): 2,
    }


def test_every_file_of_the_corpus_replays_with_its_rows_accounted_for(shared: Path, tmp_path: Path) -> None:
    """Captured, verified, replayed in this dialect: as many rows as were counted elsewhere, none unreadable."""
    with (shared / "corpus" / "expected.tsv").open(encoding="utf-8", newline="") as table:
        expected = [row for row in csv.DictReader(table, delimiter="\t") if row["harness"] == "cursor"]
    assert len(expected) == 13
    for number, row in enumerate(expected):
        (done,) = capture([shared / "corpus" / row["session"]], Archive(tmp_path / str(number)), harness="cursor")
        recording = open_recording(Path(done.bundle))
        assert recording.verify().ok
        rows = recording.replay().summary["rows"]
        assert (rows["total"], rows["unreadable"]) == (int(row["rows"]), int(row["unreadable"])), row["session"]


def test_the_folder_of_a_real_client_is_eight_sessions_of_one_text_each(shared: Path, tmp_path: Path) -> None:
    """Captured as it lies; what the tree shows is what was counted, no token is claimed, nothing is found wrong."""
    home = shared / "corpus" / "cursor" / "ud04"
    assert len(find([home])) == 8
    sessions = []
    for done in capture([home], Archive(tmp_path)):
        recording = open_recording(Path(done.bundle))
        assert recording.verify().ok
        sessions.append(recording.replay())
    assert sum(session.summary["turns"] for session in sessions) == 74
    assert sum(session.summary["tool_calls"] for session in sessions) == 342
    assert sum(session.summary["responses"] for session in sessions) == 124
    assert {session.usage["total"]["output_tokens"] for session in sessions} == {None}
    assert {session.usage["certainty"]["level"] for session in sessions} == {"unknown"}
    assert [finding for session in sessions for finding in session.findings] == []


FIXTURES = [
    ("codeburn/1031d227-0c67-4e17-8954-0b6e2b3322f0.jsonl", {Prompt: 1, Response: 1}),
    ("cursor-history/transcripts/empty.jsonl", {}),
    ("cursor-history/transcripts/error-line.jsonl", {Prompt: 1, Failure: 1, Thought: 1}),
    ("cursor-history/transcripts/error-only.jsonl", {Failure: 1}),
    ("cursor-history/transcripts/multi-parts.jsonl", {Response: 1, ToolRequest: 2}),
    ("cursor-history/transcripts/user-only.jsonl", {Prompt: 1}),
    ("cursor-history/transcripts/with-tools.jsonl", {Prompt: 1, Response: 1, ToolRequest: 1}),
]


@pytest.mark.parametrize(("name", "expected"), FIXTURES)
def test_what_other_programs_test_with(shared: Path, name: str, expected: dict[type[Observation], int]) -> None:
    """Small files of the rivals' own suites."""
    assert Counter(map(type, seen_in(shared / "fixtures" / "cursor" / name))) == expected


def test_harnessspys_sample(shared: Path) -> None:
    """Native names kept, the skill attached with its path, the command as typed, a dynamic call with its server."""
    (path,) = (shared / "fixtures" / "harnessspy" / "Cursor").glob("*.jsonl")
    seen = seen_in(path)
    (prompt,) = (one for one in seen if isinstance(one, Prompt))
    assert prompt.text.preview == "/demo-skill analyze the repo"
    assert [(one.name, one.stage, one.path) for one in seen if isinstance(one, Skill)] == [
        ("demo-skill", "attached", "C:/skills/demo-skill/SKILL.md")
    ]
    assert [(one.name, one.server, one.reads, one.writes) for one in seen if isinstance(one, ToolRequest)] == [
        ("Read", None, ("C:/Repo/src/App.cs",), ()),
        ("Glob", None, (), ()),
        ("GetDynamicTools", None, (), ()),
        ("CallDynamicTool", "user-pstacks", (), ()),
        ("StrReplace", None, (), ("C:/Repo/src/App.cs",)),
        ("TodoWrite", None, (), ()),
    ]
    assert [one.status for one in seen if isinstance(one, TurnEnd)] == ["success"]
    assert {one.source for one in seen if isinstance(one, Injected)} == {"timestamp", "manually_attached_skills"}
