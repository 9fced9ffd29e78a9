"""Codex, parser version 1: agents that start, talk to and end other agents. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator

from forensic.dialects.codex.v1_common import (
    Body,
    Fields,
    base,
    inner,
    mapping,
    native_text,
    picked,
    sequence,
    span,
    text_or_none,
)
from forensic.dialects.codex.v1_ran import Ran, ran
from forensic.dialects.codex.v1_results import status_outcome
from forensic.model import Injected, Keeper, Observation, Row, SubagentStart, SubagentStop

__all__ = ["collab_call", "inter_agent", "spawn_end", "subagent", "subagent_activity"]

_ENDS = ("completed", "failed", "interrupted")
_TOLD = ("agent_nickname", "agent_path", "agent_role", "model")
"""What is read of an agent."""


def subagent(fields: Fields, spawned: str, told: Body, call: str | None = None) -> SubagentStart:
    """What is told of an agent; its nickname stands in for a role that it does not have."""
    role, nickname = text_or_none(told.get("agent_role")), text_or_none(told.get("agent_nickname"))
    return SubagentStart(
        **fields,
        spawned=spawned,
        call=call,
        agent_type=role or nickname,
        description=text_or_none(told.get("agent_path")) or (nickname if role else None),
        model=text_or_none(told.get("model")),
    )


def collab_call(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    """A call to or about other agents; the one that started an agent says which."""
    call = text_or_none(item.get("id"))
    started: list[str] = []
    if item.get("tool") in ("spawn_agent", "spawnAgent"):
        started.extend(agent for one in sequence(item.get("receiver_thread_ids")) if (agent := text_or_none(one)))
    agents = {text_or_none(mapping(one).get("thread_id")): one for one in sequence(item.get("receiver_agents"))}
    for spawned in started:
        # no more than that: a row may name one agent a thousand times, and say a thousand things of it
        about = picked(mapping(agents.get(spawned)), *_TOLD) or {}
        yield subagent(fields, spawned, {"model": item.get("model"), **about}, call)
    told = Ran(
        call=call,
        name=native_text(item.get("tool")),
        given=picked(item, "prompt"),
        outcome=status_outcome(item.get("status")),
        duration_ms=span(said),
        spawned=started[0] if len(started) == 1 else None,
    )
    yield from ran(fields, told, keep)


def spawn_end(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A call that started an agent, as an event of its own."""
    said = inner(body)
    fields = base(row, body)
    call, spawned = text_or_none(said.get("call_id")), text_or_none(said.get("new_thread_id"))
    if spawned is not None:
        told = {key.removeprefix("new_"): value for key, value in said.items()}
        yield subagent(fields, spawned, told, call)
    yield from ran(fields, Ran(call=call, name="spawn_agent", spawned=spawned), keep)


def subagent_activity(fields: Fields, told: Body, own: object) -> Iterator[Observation]:
    """An agent began or ended; the id of a beginning, `own`, is that of the call."""
    spawned, kind = text_or_none(told.get("agent_thread_id")), told.get("kind")
    if spawned is not None and kind == "started":
        yield subagent(fields, spawned, told, text_or_none(own))
    elif spawned is not None and kind in _ENDS:
        yield SubagentStop(**fields, spawned=spawned, status=str(kind))


def inter_agent(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """What one agent wrote to another, in a row of its own."""
    text = inner(body).get("content")
    if isinstance(text, str):
        yield Injected(**base(row, body), text=keep.text(text), source="agent-message")
