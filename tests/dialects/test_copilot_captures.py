"""Copilot CLI, every parser version against what a scripted model is known to have said.

Needs the shared material beside the checkout; skipped without it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forensic.capture.discover import find
from forensic.capture.named import record
from forensic.dialects.copilot import DIALECT
from forensic.dialects.registry import parser
from forensic.model import (
    Accounting,
    Injected,
    Mended,
    Node,
    Observation,
    Ref,
    Response,
    Row,
    Session,
    Thought,
    ToolRequest,
    ToolResult,
    Unmodelled,
    Unreadable,
    Usage,
)
from forensic.recording import open_recording

PARSER = parser("copilot")
CLIENTS = ("copilot-1.0.102", "copilotoai-1.0.102")
Tokens = tuple[int | None, int | None, int | None, int | None]


class Captured(NamedTuple):
    """One run of a real client: what it was served and what its transcript, one file, says."""

    scenario: str
    served: list[dict[str, Any]]
    events: Path
    seen: list[Observation]


@pytest.fixture(scope="module")
def captures(root: Path) -> dict[str, list[Captured]]:
    """All runs of each client."""
    place = root.parent / "shared" / "captures"
    if not (place / CLIENTS[0]).is_dir():
        pytest.skip("no shared material beside this checkout")
    return {client: [captured(run) for run in sorted((place / client).iterdir())] for client in CLIENTS}


def captured(run: Path) -> Captured:
    (events,) = (run / "transcripts").rglob("events.jsonl")
    rows = [
        Row(ref=Ref("main", 1, number), line=number, raw=raw)
        for number, raw in enumerate(events.read_bytes().split(b"\n"), 1)
        if raw
    ]
    said = [json.loads(line) for line in (run / "served.jsonl").read_bytes().split(b"\n") if line.strip()]
    answered = [one for one in said if "error" not in one["served"] and run.name != "k_midstream"]
    return Captured(run.name, answered, events, [one for row in rows for one in PARSER.observe(row)])


def truth(reply: dict[str, Any]) -> Tokens:
    """What a reply cost, as its wire could say it: one of the two has no word for tokens written to a cache."""
    told = reply["usage"]
    written = told["cache_write"] if reply["format"] == "anthropic" else 0
    return told["input"] + told["cache_write"] - written, told["output"], told["cache_read"], written


def tokens(usage: Usage) -> Tokens:
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def totals(told: list[Tokens]) -> list[int]:
    return [sum(one[place] or 0 for one in told) for place in range(4)]


def test_the_client_counts_as_verified() -> None:
    """It is the one whose runs are compared here."""
    assert set(DIALECT.verified) == {client.rpartition("-")[2] for client in CLIENTS}


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_left_unread(captures: dict[str, list[Captured]], client: str) -> None:
    """In no run of either client."""
    assert len(captures[client]) > 12
    for run in captures[client]:
        assert not any(isinstance(one, (Unmodelled, Unreadable, Mended)) for one in run.seen)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_thought_and_every_answer_is_told_once(captures: dict[str, list[Captured]], client: str) -> None:
    """The summaries that compactions asked for among them."""
    assert sum(len(run.served) for run in captures[client]) > 35
    for run in captures[client]:
        thoughts = Counter(one.text.preview for one in run.seen if isinstance(one, Thought) and one.text)
        answers = Counter(
            one.text.preview
            for one in run.seen
            if isinstance(one, Response) or (isinstance(one, Injected) and one.source == "compact-summary")
        )
        thoughts.subtract(reply["served"]["thinking"] for reply in run.served if "thinking" in reply["served"])
        answers.subtract(reply["served"]["text"] for reply in run.served if "text" in reply["served"])
        assert set(thoughts.values()) | set(answers.values()) <= {0}, run.scenario


@pytest.mark.parametrize("client", CLIENTS)
def test_every_call_costs_what_it_was_served_at(captures: dict[str, list[Captured]], client: str) -> None:
    """Once: what two rows tell of one call bears the same names and the same figures."""
    for run in captures[client]:
        costs: dict[str, Tokens] = {}
        for usage in (one.usage for one in run.seen if one.usage and one.usage.running is None):
            name = (usage.message or "").partition("_")[2]
            same = [key for key, reply in ((reply["key"], reply) for reply in run.served)
                    if key == name or reply["request_id"] == usage.request]  # fmt: skip
            assert len(same) == 1, run.scenario
            assert costs.setdefault(same[0], tokens(usage)) == tokens(usage)
        assert costs == {reply["key"]: truth(reply) for reply in run.served}, run.scenario


@pytest.mark.parametrize("client", CLIENTS)
def test_the_totals_at_the_end_are_the_sum_of_the_calls(captures: dict[str, list[Captured]], client: str) -> None:
    """Of all calls since the session first began, whatever was resumed; what a compaction cost is in none of them."""
    for run in captures[client]:
        running = [one.usage for one in run.seen if isinstance(one, Accounting) and one.usage and one.usage.running]
        models = [usage for usage in running if usage.running != "session"]
        calls = [reply for reply in run.served if reply["why"] != "summary"]
        last = {usage.running: usage for usage in models}
        assert totals([tokens(usage) for usage in last.values()]) == totals([truth(reply) for reply in calls])
        assert sum(usage.calls or 0 for usage in last.values()) == len(calls)
        assert {usage.calls for usage in running if usage.running == "session"} <= {0}


@pytest.mark.parametrize("client", CLIENTS)
def test_every_call_of_a_tool_is_told_with_its_result(captures: dict[str, list[Captured]], client: str) -> None:
    """As many as were served, each result naming a call; only what an interruption cut off has none."""
    for run in captures[client]:
        asked = [one.call for one in run.seen if isinstance(one, ToolRequest)]
        # the tools that were served are counted, their texts are left out of the captures
        served = sum(int(str(reply["served"].get("tools", "[LAB: 0 ")).split(" ")[1]) for reply in run.served)
        assert len(set(asked)) == len(asked) == served, run.scenario
        answered = {one.call for one in run.seen if isinstance(one, ToolResult)}
        assert answered <= set(asked)
        assert len(set(asked) - answered) == (run.scenario in ("k_interrupted", "m_interactive"))


def nodes(root: Node) -> list[Observation]:
    seen = [root.seen] if isinstance(root.seen, Observation) else []
    return [*seen, *(one for child in root.children for one in nodes(child))]


def replayed(run: Captured, directory: Path) -> Session:
    (found,) = find([run.events])
    record(found, directory)
    return open_recording(directory).replay()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_replayed_session_tells_it_all_once(captures: dict[str, list[Captured]], client: str, tmp_path: Path) -> None:
    """Recorded and replayed: every thought, answer and call is one node, and the usage is exactly what was served."""
    for run in captures[client]:
        session = replayed(run, tmp_path / run.scenario)
        seen = nodes(session.tree)
        told = Counter(one.text.preview for one in seen if isinstance(one, (Thought, Response)) and one.text)
        said = [reply["served"] for reply in run.served if reply["why"] != "summary"]
        assert told == Counter(one[key] for one in said for key in ("thinking", "text") if key in one), run.scenario
        served = sum(int(str(one.get("tools", "[LAB: 0 ")).split(" ")[1]) for one in said)
        assert sum(isinstance(one, ToolRequest) for one in seen) == served
        total = session.usage["total"]
        assert [total[f"{name}_tokens"] or 0 for name in ("input", "output", "cache_read", "cache_write")] == totals(
            [truth(reply) for reply in run.served]
        ), run.scenario
        assert total["calls"] == len(run.served)
