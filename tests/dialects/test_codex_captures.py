"""Codex, parser version 1 against what a scripted model is known to have said.

Two clients of one version: one calls its tools directly, one runs them inside a JavaScript cell. Needs the shared
material beside the checkout; skipped without it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forensic.dialects.codex import DIALECT
from forensic.dialects.registry import parser
from forensic.model import (
    Execution,
    Failure,
    Mended,
    Node,
    Observation,
    Ref,
    Response,
    Row,
    Session,
    SubagentFrame,
    Thought,
    ToolRequest,
    TurnFrame,
    Unmodelled,
    Unreadable,
)
from forensic.replay.player import play

PARSER = parser("codex")
VERSION = "0.171.0"
CLIENTS = ("codex", "codexjs")
CUT = "k_midstream"
"""The client was killed while the answer came: nothing of it was written."""
ASIDE = ("codexjs", "m_interactive")
"""The terminal client asks for something on the side, which no transcript tells: the shorter one of two requests."""


@pytest.fixture(scope="module")
def shared(root: Path) -> Path:
    """Where the shared material lies."""
    place = root.parent / "shared"
    if not (place / "captures" / f"codex-{VERSION}").is_dir():
        pytest.skip("no shared material beside this checkout")
    return place


class Run(NamedTuple):
    """One run of a real client: what it was told, what its rollouts say, and the session they make."""

    name: str
    served: list[dict[str, Any]]
    seen: list[Observation]
    session: Session
    nodes: list[Node]


def rollout(path: Path) -> list[Row]:
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    head = json.loads(lines[0])["payload"]
    agent = head["id"] if "parent_thread_id" in head else None
    stream = agent or "main"
    return [Row(ref=Ref(stream, 1, number), line=number, raw=raw, agent=agent) for number, raw in enumerate(lines, 1)]


def nodes_of(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes_of(child)


def runs(shared: Path, client: str) -> Iterator[Run]:
    for served in sorted((shared / "captures" / f"{client}-{VERSION}").glob("*/served.jsonl")):
        name = served.parent.name
        rows = [row for path in sorted((served.parent / "transcripts").rglob("rollout-*")) for row in rollout(path)]
        said = [json.loads(line) for line in served.read_bytes().split(b"\n") if line.strip()]
        told = [one for one in said if "error" not in one["served"] and name != CUT]
        if (client, name) == ASIDE:
            longest = {one["key"]: max(other["bytes"] for other in told if other["key"] == one["key"]) for one in told}
            told = [one for one in told if one["bytes"] == longest[one["key"]]]
        session = play(rows, PARSER, harness="codex", session=name)
        seen = [one for row in rows for one in PARSER.observe(row)]
        yield Run(name, told, seen, session, list(nodes_of(session.tree)))


def test_the_version_counts_as_verified() -> None:
    """Because of what stands here."""
    assert DIALECT.verified == {VERSION: 1}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_model_said_is_found_once(shared: Path, client: str) -> None:
    """Every thought and every answer is one node, however often the client tells it; nothing is left unread."""
    found = list(runs(shared, client))
    assert sum(len(run.served) for run in found) > 40
    for run in found:
        assert not any(isinstance(one, (Unmodelled, Unreadable, Mended)) for one in run.seen)
        assert run.session.findings == []
        thoughts = Counter(
            node.seen.text.preview for node in run.nodes if isinstance(node.seen, Thought) and node.seen.text
        )
        answers = Counter(node.seen.text.preview for node in run.nodes if isinstance(node.seen, Response))
        served = [one["served"] for one in run.served]
        assert thoughts == Counter(one["thinking"] for one in served if "thinking" in one), run.name
        assert answers == Counter(one["text"] for one in served if "text" in one), run.name


def asked(served: dict[str, Any]) -> int:
    """How many calls a reply has: the capture left out the calls themselves and kept their number."""
    left_out = served.get("tools", "0 0")
    return int(left_out.split(" ")[1])


@pytest.mark.parametrize("client", CLIENTS)
def test_every_call_is_found_once_and_has_an_end(shared: Path, client: str) -> None:
    """Only the one that was running when its client was killed has none; all that ran in a cell stands in one."""
    for run in runs(shared, client):
        calls = [node for node in run.nodes if isinstance(node.seen, ToolRequest)]
        assert len(calls) == sum(asked(one["served"]) for one in run.served), run.name
        open_calls = [node for node in calls if node.outcome is None or node.outcome.outcome == "no_result"]
        assert len(open_calls) == (1 if run.name == "k_killed" else 0), run.name
        ran = [node for node in run.nodes if isinstance(node.seen, Execution)]
        assert all(node.outcome is not None and node.outcome.result is not None for node in ran)
        assert bool(ran) <= (client == "codexjs")


@pytest.mark.parametrize("client", CLIENTS)
def test_every_count_of_tokens_is_found_once(shared: Path, client: str) -> None:
    """Call by call under the id of the reply, and all together; the wire has no word for what went into a cache."""
    for run in runs(shared, client):
        counts = [one.usage for one in run.seen if one.usage is not None and one.usage.running is None]
        told = Counter(
            (
                (usage.message or "").rpartition("_")[2],
                (usage.input_tokens or 0) + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0),
                usage.cache_read_tokens,
                usage.output_tokens,
                usage.reasoning_tokens,
            )
            for usage in counts
        )
        assert told == Counter(
            (
                one["key"],
                sum(one["usage"][key] for key in ("input", "cache_read", "cache_write")),
                one["usage"]["cache_read"],
                one["usage"]["output"],
                one["usage"]["reasoning"],
            )
            for one in run.served
        ), run.name
        assert len({usage.message for usage in counts}) == len(counts)
        total = run.session.usage["total"]
        assert total["calls"] == len(run.served)
        assert total["output_tokens"] == sum(one["usage"]["output"] for one in run.served)
        assert total["total_tokens"] == sum(
            one["usage"][key] for one in run.served for key in ("input", "cache_read", "cache_write", "output")
        ), run.name


OUTCOMES = {
    "codex": {
        "d_failing": ["error", "error", "error", "error"],
        "e_denied": ["error"],
        "g_mcp": ["ok", "error"],
        "k_interrupted": ["interrupted"],
    },
    "codexjs": {
        "d_failing": ["ok", "error", "ok", "error", "ok", "error"],
        "e_denied": ["ok"],
        "g_mcp": ["ok", "ok", "ok", "error"],
        "k_interrupted": ["interrupted", "error"],
    },
}
"""How calls ended, and below a cell what ran in it; a cell in which a tool failed ran to its end all the same."""


@pytest.mark.parametrize("client", CLIENTS)
def test_how_calls_ended(shared: Path, client: str) -> None:
    """What the model is told in words only, the client tells in figures: an MCP tool's failure, an exit code."""
    found = {
        run.name: [node.outcome.outcome for node in run.nodes if node.outcome is not None]
        for run in runs(shared, client)
        if run.name in OUTCOMES[client]
    }
    assert found == OUTCOMES[client]


@pytest.mark.parametrize("client", CLIENTS)
def test_spawned_threads_hang_under_the_calls_that_started_them(shared: Path, client: str) -> None:
    """By the client's own ids, with all that they did."""
    (run,) = (run for run in runs(shared, client) if run.name == "f_subagent")
    spawned = {
        child.seen.id: node.seen.name
        for node in run.nodes
        if isinstance(node.seen, ToolRequest)
        for child in node.children
        if isinstance(child.seen, SubagentFrame)
    }
    assert list(spawned.values()) == ["spawn_agent"] * 3
    assert spawned.keys() == {one.agent for one in run.seen if one.agent is not None}


@pytest.mark.parametrize("client", CLIENTS)
def test_turns_are_those_of_the_client(shared: Path, client: str) -> None:
    """One a prompt; the one that a person broke off is marked, the one that the server refused has its failure."""
    turns = {
        run.name: [node.seen for node in run.nodes if isinstance(node.seen, TurnFrame)] for run in runs(shared, client)
    }
    assert [turn.aborted for turn in turns["k_interrupted"]] == [True]
    assert [(turn.number, turn.aborted) for turn in turns["i_resume"]] == [(1, False), (2, False)]
    assert [turn.number for turn in turns["j_compact"]] == [1, 2, 3]
    (refused,) = (run for run in runs(shared, client) if run.name == "l_api_error")
    (failure,) = (one for one in refused.seen if isinstance(one, Failure))
    assert (failure.text.preview, failure.status) == ("scripted refusal", 400)
