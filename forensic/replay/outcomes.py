"""Outcomes: how a call ended, put together from all that tells of it."""

from __future__ import annotations

from msgspec.structs import replace

from forensic.model import Execution, Frame, Observation, Outcome, ToolRequest, ToolResult

__all__ = ["filled", "outcome_of", "unanswered"]


def filled(first: ToolResult | None, event: ToolResult) -> ToolResult:
    """A result with what only the event beside it tells."""
    if first is None:
        return event
    word = first.outcome if first.outcome not in (None, "unknown") else event.outcome
    return replace(
        first,
        ok=event.ok if first.ok is None else first.ok,
        outcome=word,
        duration_ms=event.duration_ms if first.duration_ms is None else first.duration_ms,
        exit_code=event.exit_code if first.exit_code is None else first.exit_code,
        spawned=first.spawned or event.spawned,
        read=first.read or event.read,
        wrote=first.wrote or event.wrote,
    )


def outcome_of(request: Observation | Frame, result: ToolResult) -> Outcome:
    """The outcome that a result gives its call, timed by the producer, else by the clock from `request` on."""
    word = result.outcome or ("unknown" if result.ok is None else "ok" if result.ok else "error")
    duration, measured = result.duration_ms, "reported"
    if duration is None:
        measured = "clock"
        if request.at is not None and result.at is not None and result.at >= request.at:
            duration = round((result.at - request.at).total_seconds() * 1000)
    return Outcome(
        outcome=word, duration_ms=duration, measured=measured if duration is not None else None, result=result
    )


def unanswered(call: Observation | Frame) -> Outcome:
    """The outcome of a call that nothing answers: in a format without ids nothing could."""
    idless = isinstance(call, ToolRequest | Execution) and call.call is None
    return Outcome(outcome="not_told" if idless else "no_result")
