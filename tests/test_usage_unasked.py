"""What nobody asked for costs nothing, and what nobody tells is unknown: for ``forensic usage`` and in documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from golden_extension import document_of
from test_cli import Cli
from test_usage_command import call, cli, told

from forensic.capture.discover import find
from forensic.capture.named import record
from forensic.recording import open_recording

__all__ = ["cli"]

Body = dict[str, Any]
FIGURES = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens")
NAME = "5e550000-0000-4000-8000-0000000000aa"
AT = "2026-03-01T00:00:00.000Z"


def written(path: Path, rows: Iterable[Body]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def claude(folder: Path, *rows: Body) -> Path:
    """A session of Claude Code with these rows."""
    common = {"sessionId": NAME, "timestamp": AT, "version": "2.1.332"}
    return written(folder / f"{NAME}.jsonl", ({"uuid": f"u{n}", **common, **row} for n, row in enumerate(rows)))


def copilot(folder: Path, *events: tuple[str, Body]) -> Path:
    """A session of Copilot CLI with these events behind its beginning."""
    start = {"sessionId": NAME, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.1", "startTime": AT}
    bodies = [("session.start", start), *events]
    rows = [
        {"type": kind, "data": data, "id": f"e{n}", "parentId": f"e{n - 1}" if n else None, "timestamp": AT}
        for n, (kind, data) in enumerate(bodies)
    ]
    return written(folder / ".copilot" / "session-state" / NAME / "events.jsonl", rows)


def codex(folder: Path, *items: tuple[str, Body]) -> Path:
    """A thread of Codex with these items behind its beginning."""
    meta = {"id": NAME, "timestamp": AT, "cli_version": "0.150.0", "source": "cli", "cwd": "/"}
    rows = [{"timestamp": AT, "type": kind, "payload": said} for kind, said in (("session_meta", meta), *items)]
    return written(folder / f"rollout-2026-03-01T00-00-00-{NAME}.jsonl", rows)


def torn(path: Path) -> Path:
    """The same transcript, with half a row at its end."""
    with path.open("a", encoding="utf-8") as out:
        out.write('{"type":"assist')
    return path


def bill(nano: float, premium: float = 0) -> tuple[str, Body]:
    """The end of a session of Copilot CLI that names no model."""
    return "session.shutdown", {"modelMetrics": {}, "totalNanoAiu": nano, "totalPremiumRequests": premium}


ASKED = {"type": "user", "message": {"role": "user", "content": "hi"}}
ANSWERED = {
    "type": "assistant",
    "message": {"id": "m1", "model": "m-1", "content": [{"type": "text", "text": "hello"}]},
}
PROMPT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
SHORTENED = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}}

QUIET = {
    "claude, a prompt": lambda folder: claude(folder, ASKED),
    "claude, a title": lambda folder: claude(folder, {"type": "summary", "summary": "s", "leafUuid": "x"}),
    "copilot, a beginning": copilot,
    "copilot, a prompt": lambda folder: copilot(folder, ("user.message", {"content": "hi"})),
    "copilot, a bill of nothing": lambda folder: copilot(folder, bill(0)),
    "codex, a beginning": codex,
    "codex, a prompt": lambda folder: codex(folder, ("response_item", PROMPT)),
}
UNKNOWN = {
    "claude, an answer": lambda folder: claude(folder, ASKED, ANSWERED),
    "claude, a torn row": lambda folder: torn(claude(folder, ASKED)),
    "claude, a compaction": lambda folder: claude(folder, ASKED, SHORTENED),
    "copilot, an answer": lambda folder: copilot(
        folder, ("assistant.message", {"messageId": "z", "content": "hello", "toolRequests": []})
    ),
    "copilot, a bill": lambda folder: copilot(folder, bill(10, 1)),
    "codex, an answer that only an event tells": lambda folder: codex(
        folder, ("event_msg", {"type": "agent_message", "message": "hello"})
    ),
    "cursor": lambda folder: written(
        folder / ".cursor" / "projects" / "p" / "agent-transcripts" / NAME / f"{NAME}.jsonl",
        [{"role": "user", "message": {"content": [{"type": "text", "text": "hi"}]}}],
    ),
    "nobody's": lambda folder: written(folder / "x.jsonl", [{"a": 1}]),
}


def usage_of(source: Path, folder: Path) -> Body:
    """The usage section of its document."""
    (found,) = find([source])
    record(found, folder)
    usage: Body = document_of(open_recording(folder).replay())["usage"]
    return usage


@pytest.mark.parametrize("make", QUIET.values(), ids=QUIET)
def test_where_no_model_was_asked_nothing_was_spent(cli: Cli, tmp_path: Path, make: Any) -> None:
    """Zero, exactly, whoever tells it: raw, sealed, remembered, the document."""
    source = make(tmp_path / "raw")
    assert cli("capture", source).code == 0
    document = usage_of(source, tmp_path / "made")["total"]
    for places in ([source], [], []):
        answer = told(cli("usage", *places, "--json"))
        (group,) = answer["groups"]
        for one in (group, answer["total"], document):
            assert [one[figure] for figure in FIGURES] == [0] * len(FIGURES)
            assert one["certainty"] == {"level": "exact", "reasons": []}
        assert (answer["sessions"], answer["sessions_without_usage"]) == (1, 0)
    page = cli("usage").out.splitlines()
    assert page[1:2] + page[3:] == [
        "total        0      0       0           0            0      0",
        "1 session, each call counted once",
        "  1 session, not listed, asked nothing of a model",
    ]


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_where_a_model_may_have_been_asked_nobody_knows(cli: Cli, tmp_path: Path, make: Any) -> None:
    """A dash, and that it is unknown."""
    source = make(tmp_path / "raw")
    assert cli("capture", source).code == 0
    document = usage_of(source, tmp_path / "made")["total"]
    for places in ([source], []):
        answer = told(cli("usage", *places, "--json"))
        (group,) = answer["groups"]
        for one in (group, answer["total"], document):
            assert [one[figure] for figure in FIGURES] == [0, *[None] * (len(FIGURES) - 1)]
            assert one["certainty"]["level"] == "unknown"
        assert (answer["sessions"], answer["sessions_without_usage"]) == (1, 1)
    assert "tells no usage: what it cost is unknown" in cli("usage").out


def test_one_of_each_is_told_apart(cli: Cli, tmp_path: Path) -> None:
    """By the notes; a total of a session that asked nothing and one that nobody knows is unknown."""
    places = [claude(tmp_path / "a", ASKED), copilot(tmp_path / "b", *[("assistant.message", {"content": "x"})])]
    page = cli("usage", *places).out.splitlines()
    assert page[1].split() == ["total", "-", "-", "-", "-", "-", "-", "?"]
    assert page[3:] == [
        "2 sessions, each call counted once",
        "? 1 session, not listed, tells no usage: what it cost is unknown",
        "  1 session, not listed, asked nothing of a model",
    ]
    by = told(cli("usage", *places, "--by", "harness", "--json"))["groups"]
    assert [(group["name"], group["total_tokens"]) for group in by] == [("claude", 0), ("copilot", None)]


def test_a_session_whose_calls_are_all_anothers_has_cost_nothing(cli: Cli, tmp_path: Path) -> None:
    """Its own cost is zero, and it is no session that tells no usage."""
    rows = call("s-1", "m1", 100) + call("s-1", "m2", 20, 2)
    (tmp_path / "s-1.jsonl").write_bytes(rows)
    (tmp_path / "s-2.jsonl").write_bytes(rows.replace(b"s-1", b"s-2"))
    answer = told(cli("usage", tmp_path, "--json"))
    owner, heir = answer["groups"]
    assert [group["calls"] for group in (owner, owner["inherited"], heir, heir["inherited"])] == [2, 0, 0, 2]
    assert [heir[figure] for figure in FIGURES] == [0] * len(FIGURES)
    assert heir["certainty"] == {"level": "exact", "reasons": []}
    assert answer["sessions_without_usage"] == 0
    row = cli("usage", tmp_path).out.splitlines()[2]
    assert row.split()[-7:] == ["0", "0", "0", "0", "0", "0", "140"]


def test_a_fork_that_never_went_on_has_cost_nothing(cli: Cli, root: Path, tmp_path: Path) -> None:
    """All that it tells of is history; how that was told apart makes its zero as sure as it is."""
    (source,) = (root / "golden" / "codex" / "fork-with-copied-history" / "source").rglob("*.jsonl")
    rows = source.read_bytes().splitlines(keepends=True)
    end = next(number for number, row in enumerate(rows) if b'"task_complete"' in row) + 1
    fork = tmp_path / source.name
    fork.write_bytes(b"".join(rows[:end]))
    (group,) = told(cli("usage", fork, "--json"))["groups"]
    document = usage_of(fork, tmp_path / "made")
    assert (group["calls"], group["total_tokens"], group["certainty"]["level"]) == (0, 0, "inferred")
    assert {name: group[name] for name in (*FIGURES, "certainty")} == {
        name: document["total"][name] for name in (*FIGURES, "certainty")
    }
    assert group["inherited"]["total_tokens"] == document["inherited"]["total_tokens"] == 9040
    row = cli("usage", fork).out.splitlines()[1]
    assert row.split()[-8:] == ["0", "0", "0", "0", "0", "0", "9,040", "~"]


def test_units_that_no_float_can_hold_are_told_all_the_same(cli: Cli, tmp_path: Path) -> None:
    """As whole numbers, on the page and in JSON: neither infinite nor nothing."""
    huge = 3 * int(1.7e308)
    for number in range(3):
        path = copilot(tmp_path / str(number), bill(1.7e308, 0.5))
        text = path.read_text(encoding="utf-8").replace(NAME, f"{NAME[:-1]}{number}")
        written(path.parent.with_name(f"{NAME[:-1]}{number}") / path.name, map(json.loads, text.splitlines()))
        path.unlink()
    assert told(cli("usage", tmp_path, "--json"))["units"] == {"nano_aiu": huge, "premium_requests": 1.5}
    assert f"  {huge:,} nano aiu" in cli("usage", tmp_path).out.splitlines()


@pytest.mark.parametrize(
    ("marks", "billed"),
    [((1.5, 10**400), 10**400), ((10**400, 10**400 + 1), 10**400 + 1), ((10**400, 2.0), 10**400 + 2)],
)
def test_units_that_no_float_can_hold_grow_as_others_do(
    tmp_path: Path, marks: tuple[float, float], billed: int
) -> None:
    """Where they fell they have begun anew."""
    marked = (("session.usage_checkpoint", {"totalNanoAiu": mark}) for mark in marks)
    assert usage_of(copilot(tmp_path / "raw", *marked), tmp_path / "made")["units"] == {"nano_aiu": billed}
