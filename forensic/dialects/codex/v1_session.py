"""Codex, parser version 1: how a session begins, what is in force in it. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from forensic.dialects.codex.v1_agents import inter_agent, subagent
from forensic.dialects.codex.v1_common import Body, Fields, aside, base, inner, mapping, picked, text_or_none, whole
from forensic.dialects.parser import Reader
from forensic.model import (
    Compaction,
    Injected,
    Keeper,
    Observation,
    Row,
    SessionStart,
    Setting,
    SystemPrompt,
)

__all__ = ["SESSION", "setting"]


def _header(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """The first row of the oldest files; all that names their session."""
    fields = base(row, body)
    yield SessionStart(**fields, thread=text_or_none(body.get("id")))
    yield from _instructions(fields, body, keep)


def _session_meta(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    fields = base(row, body)
    thread = text_or_none(said.get("id"))
    spawn = _spawn(said)
    yield SessionStart(
        **fields,
        source=_source(said.get("source")),
        thread=thread,
        parent=text_or_none(said.get("parent_thread_id")) or text_or_none(spawn.get("parent_thread_id")),
        forked_from=text_or_none(said.get("forked_from_id")),
        own_from=_own_from(said),
    )
    if thread is not None and thread == row.agent:
        yield subagent(fields, thread, {**spawn, **said})
    yield from _instructions(fields, said, keep)


def _spawn(said: Body) -> Body:
    return mapping(mapping(mapping(said.get("source")).get("subagent")).get("thread_spawn"))


def _source(told: object) -> str | None:
    """Who opened the session; a source that is an object names itself by its key."""
    if isinstance(told, dict):
        return text_or_none(next(iter(told), None))
    return text_or_none(told)


def _own_from(said: Body) -> int | None:
    """The ordinal of the first row that is this thread's own.

    A thread may copy its parent's rows, or name the place in the parent's file where its own history goes on: its first
    row then has the ordinal behind that place. Where rows are numbered and neither is told, nothing was taken along.
    """
    base_of_history = said.get("history_base")
    for told in (
        said.get("subagent_history_start_ordinal"),
        mapping(base_of_history).get("end_ordinal_exclusive"),
        said.get("forked_from_ordinal_exclusive"),
    ):
        ordinal = whole(told)
        if ordinal is not None and ordinal >= 0:
            return ordinal
    alone = said.get("forked_from_id") is None and base_of_history is None
    return 0 if alone and said.get("history_mode") == "paginated" else None


def _instructions(fields: Fields, said: Body, keep: Keeper) -> Iterator[Observation]:
    for told in (said.get("base_instructions"), said.get("instructions")):
        text = told if isinstance(told, str) else mapping(told).get("text")
        if isinstance(text, str) and text:
            yield SystemPrompt(**fields, text=keep.text(text))


# --- what is in force -------------------------------------------------------------------------------------------------


def _turn_context(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    yield setting(base(row, body), inner(body), keep)


def setting(fields: Fields, said: Body, keep: Keeper) -> Setting:
    """Which model, with how much effort, and what it may do."""
    mode = mapping(said.get("collaboration_mode"))
    chosen = mapping(mode.get("settings"))
    value: Body = picked(said, "approval_policy", "cwd", "personality", "service_tier") or {}
    sandbox = mapping(said.get("sandbox_policy"))
    value.update({"sandbox": sandbox.get("type", sandbox.get("mode")), "mode": mode.get("mode")})
    value = {key: told for key, told in value.items() if told is not None}
    return Setting(
        **fields,
        model=text_or_none(said.get("model")) or text_or_none(chosen.get("model")),
        effort=next(
            (
                text_or_none(told)
                for told in (said.get("effort"), said.get("reasoning_effort"), chosen.get("reasoning_effort"))
                if told
            ),
            None,
        ),
        value=keep.value(value) or None,
    )


# --- compaction -------------------------------------------------------------------------------------------------------


def _compacted(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """The history was replaced; what it was replaced by stands in the row and is not read again."""
    fields = base(row, body)
    yield Compaction(**fields)
    summary = text_or_none(inner(body).get("message"))
    if summary is not None:
        yield Injected(**fields, text=keep.text(summary), source="compact-summary")


SESSION: Final[Mapping[str, Reader]] = {
    "compacted": _compacted,
    "header": _header,
    "inter_agent_communication": inter_agent,
    "inter_agent_communication_metadata": aside("inter_agent_communication_metadata", "trigger_turn"),
    "session_meta": _session_meta,
    "state": aside("state"),
    "turn_context": _turn_context,
    "world_state": aside("world_state", "full"),
}
