"""Copilot CLI, parser version 1: what becomes of the session, its subagents and hooks. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from forensic.dialects.copilot.v1_common import (
    Body,
    DataReader,
    flat,
    mapping,
    native_text,
    picked,
    sequence,
    text_or_none,
    whole,
)
from forensic.dialects.copilot.v1_usage import accounts, call_cost
from forensic.model import (
    Accounting,
    Compaction,
    Failure,
    HookRun,
    Injected,
    Keeper,
    Observation,
    SessionStart,
    SetAside,
    Setting,
    Skill,
    SubagentStart,
    SubagentStop,
)

__all__ = [
    "abort",
    "compaction",
    "error",
    "hook_end",
    "hook_start",
    "resumed",
    "setting",
    "shutdown",
    "skill_invoked",
    "started",
    "subagent_ended",
    "subagent_started",
    "truncation",
]


# --- beginning and end ------------------------------------------------------------------------------------------------


def started(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The session began."""
    yield SessionStart(**fields, source="start", thread=text_or_none(data.get("sessionId")))
    yield from _chosen(fields, data, "selectedModel")


def resumed(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The session began again, and with it its totals, in the client's older versions.

    Newer ones take them up where they stood. No row says which it is, but those that do so measure the file as well.
    """
    thread = text_or_none(data.get("sessionId"))
    yield SessionStart(**fields, source="resume", thread=thread, resets="eventsFileSizeBytes" not in data)
    yield from _chosen(fields, data, "selectedModel")


def _chosen(fields: Body, data: Body, key: str, value: Any = None) -> Iterator[Observation]:
    model, effort = text_or_none(data.get(key)), text_or_none(data.get("reasoningEffort"))
    if model is not None or effort is not None or value is not None:
        yield Setting(**fields, model=model, effort=effort, value=value)


def setting(key: str, *others: str) -> DataReader:
    """A reader for what is in force from here on: a model under `key`, and `others` that are worth keeping."""

    def read(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
        return _chosen(fields, data, key, keep.value(picked(data, *others)))

    return read


def shutdown(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The session ended, with the client's account of it."""
    yield from accounts(fields, data, keep)
    reason = data.get("errorReason")
    if isinstance(reason, str):
        yield Failure(**fields, text=keep.text(reason))


def error(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A model call failed, or the client did."""
    text = data.get("message")
    if isinstance(text, str):
        yield Failure(**fields, text=keep.text(text), status=whole(data.get("statusCode")))


def abort(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The model was stopped."""
    return (Injected(**fields, text=keep.text(native_text(data.get("reason"))), source="interrupt"),)


# --- the conversation made shorter ------------------------------------------------------------------------------------

_TEXTS: Final = ("checkpointPath", "customInstructions", "error", "requestId", "serviceRequestId", "summaryContent")


def compaction(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The conversation was replaced by a summary: what that did, what it cost, the summary itself."""
    usage = call_cost(data)
    if data.get("success") is False:
        text = keep.text(native_text(data.get("error")))
        yield Failure(**fields, text=text, status=whole(data.get("statusCode")), usage=usage)
    else:
        yield Compaction(
            **fields,
            trigger=text_or_none(data.get("trigger")),
            before_tokens=whole(data.get("preCompactionTokens")),
            usage=usage,
        )
    figures = flat({key: value for key, value in data.items() if key not in _TEXTS})
    yield Accounting(**fields, family="session.compaction_complete", figures=keep.value(figures))
    summary = data.get("summaryContent")
    if isinstance(summary, str):
        yield Injected(**fields, text=keep.text(summary), source="compact-summary")


def truncation(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The client left out the oldest messages, and asked no model about it."""
    trigger = text_or_none(data.get("performedBy"))
    yield Compaction(
        **fields, trigger=trigger, before_tokens=whole(data.get("preTruncationTokensInMessages")), micro=True
    )
    yield Accounting(**fields, family="session.truncation", figures=keep.value(flat(data)))


# --- subagents and skills ---------------------------------------------------------------------------------------------

_DESCRIBED: Final = 200
_SPENT: Final = ("totalToolCalls", "totalTokens", "durationMs")


def subagent_started(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A subagent began; its row bears its own id, but it is told of by the agent that started it."""
    call = text_or_none(data.get("toolCallId"))
    spawned = fields["agent"] or call
    if spawned is None:
        return
    description = text_or_none(data.get("agentDescription"))
    fields["agent"] = None
    yield SubagentStart(
        **fields,
        spawned=spawned,
        call=call,
        agent_type=text_or_none(data.get("agentType")) or text_or_none(data.get("agentName")),
        description=None if description is None else description[:_DESCRIBED],
        model=text_or_none(data.get("model")),
    )


def subagent_ended(status: str) -> DataReader:
    """A reader for the end of a subagent."""

    def read(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
        spawned = fields["agent"] or text_or_none(data.get("toolCallId"))
        if spawned is None:
            return
        fields["agent"] = spawned
        yield SubagentStop(**fields, spawned=spawned, status="cancelled" if data.get("cancelled") is True else status)
        figures = picked(data, *_SPENT)
        if figures is not None:
            yield Accounting(**fields, family=f"subagent.{status}", figures=keep.value(figures))
        text = data.get("error")
        if isinstance(text, str):
            yield Failure(**fields, text=keep.text(text))

    return read


def skill_invoked(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A skill was invoked, by a person or by a call of the tool ``skill``, and its text put before the model."""
    name = text_or_none(data.get("name"))
    if name is None:
        return
    yield Skill(**fields, name=name, stage="invoked")
    text = data.get("content")
    if isinstance(text, str):
        yield Injected(**fields, text=keep.text(text), source="skill")


# --- hooks ------------------------------------------------------------------------------------------------------------


def hook_start(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A hook is run: its end tells how that went, its start which calls it is about."""
    given = mapping(data.get("input"))
    about = [mapping(call).get("id") for call in sequence(given.get("toolCalls"))] or [given.get("toolCallId")]
    value = keep.value(picked(data, "hookType", "hookInvocationId"))
    return [SetAside(**fields, family="hook.start", call=text_or_none(call), value=value) for call in about]


def hook_end(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A hook ran."""
    event = text_or_none(data.get("hookType"))
    if event is None:
        return
    wrong, put = mapping(data.get("error")), mapping(data.get("output"))
    success = data.get("success")
    refused = put.get("permissionDecision") == "deny" or put.get("decision") == "block"
    text = wrong.get("message", put.get("permissionDecisionReason", put.get("reason")))
    yield HookRun(
        **fields,
        event=event,
        name=text_or_none(wrong.get("source")),
        outcome="blocked"
        if refused
        else {True: "ok", False: "error"}.get(success)
        if isinstance(success, bool)
        else None,
        text=keep.text(text) if isinstance(text, str) else None,
    )
