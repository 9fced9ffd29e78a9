"""Codex, parser version 1: ``event_msg`` rows. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from forensic.dialects.codex.v1_agents import spawn_end, subagent_activity
from forensic.dialects.codex.v1_common import (
    EVENT,
    Body,
    Fields,
    aside,
    base,
    inner,
    mapping,
    milliseconds,
    native_text,
    number,
    opened,
    sequence,
    text_or_none,
    whole,
)
from forensic.dialects.codex.v1_items import ITEMS
from forensic.dialects.codex.v1_messages import asked
from forensic.dialects.codex.v1_ran import Ran, changed, executed, mcp_answer, ran
from forensic.dialects.codex.v1_session import setting
from forensic.dialects.codex.v1_usage import token_count
from forensic.dialects.parser import Reader
from forensic.model import (
    Failure,
    Keeper,
    Observation,
    Response,
    Row,
    Setting,
    Thought,
    Title,
    ToolRequest,
    TurnEnd,
)

__all__ = ["EVENTS"]


# --- messages, told again ---------------------------------------------------------------------------------------------


def _user_message(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    text = said.get("message")
    if isinstance(text, str):
        pictures = len(sequence(said.get("images"))) + len(sequence(said.get("local_images")))
        yield from asked({**base(row, body), "via": EVENT}, text, pictures, keep)


def _agent_message(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    text = inner(body).get("message")
    if isinstance(text, str):
        yield Response(**base(row, body), via=EVENT, text=keep.text(text))


def _agent_reasoning(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    text = inner(body).get("text")
    if isinstance(text, str):
        yield Thought(**base(row, body), via=EVENT, text=keep.text(text))


# --- tools, told again ------------------------------------------------------------------------------------------------


def _exec_command_end(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    return ran(base(row, body), executed(said, said.get("call_id")), keep)


def _patch_apply_end(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    return ran(base(row, body), changed(said, said.get("call_id")), keep)


def _mcp_tool_call_end(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    asked_for = mapping(said.get("invocation"))
    text, outcome = mcp_answer(said.get("result"))
    told = Ran(
        call=text_or_none(said.get("call_id")),
        name=native_text(asked_for.get("tool")),
        given=asked_for.get("arguments"),
        server=text_or_none(asked_for.get("server")),
        text=text,
        outcome=outcome,
        duration_ms=milliseconds(said.get("duration")),
    )
    return ran(base(row, body), told, keep)


def _web_search_end(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A search of the model's own server; the call itself does not always have an id that could join the two."""
    said = inner(body)
    call = text_or_none(said.get("call_id"))
    yield ToolRequest(**base(row, body), via=EVENT, name="web_search", input=keep.value(said.get("action")), call=call)


def _view_image_tool_call(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    path = text_or_none(said.get("path"))
    told = Ran(
        call=text_or_none(said.get("call_id")),
        name="view_image",
        given={"path": path},
        outcome="ok",
        read=() if path is None else (path,),
    )
    return ran(base(row, body), told, keep)


def _sub_agent_activity(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    return subagent_activity(base(row, body), said, said.get("event_id"))


# --- turns and failures -----------------------------------------------------------------------------------------------


def _task_complete(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    fields = base(row, body)
    error = mapping(said.get("error"))
    if error:
        yield _failed(fields, error, keep)
    status = "failed" if error else "completed"
    yield TurnEnd(**fields, duration_ms=number(said.get("duration_ms")), status=status)


def _turn_aborted(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    said = inner(body)
    status = text_or_none(said.get("reason"))
    yield TurnEnd(**base(row, body), duration_ms=number(said.get("duration_ms")), status=status)


def _error(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    yield _failed(base(row, body), inner(body), keep)


def _failed(fields: Fields, error: Body, keep: Keeper) -> Failure:
    """What went wrong: the client wraps what the server said, sometimes as JSON."""
    text = native_text(error.get("message"))
    said = opened(text) if text.startswith("{") else None
    answered = mapping(mapping(said).get("error")) or mapping(said)
    status = whole(answered.get("status")) or whole(answered.get("code")) or _status(error.get("codex_error_info"))
    return Failure(**fields, text=keep.text(text_or_none(answered.get("message")) or text), status=status)


def _status(info: object) -> int | None:
    """The status that an error of the connection names: ``{"<kind>": {"http_status_code": ...}}``."""
    for told in mapping(info).values():
        status = whole(mapping(told).get("http_status_code"))
        if status is not None:
            return status
    return None


# --- the rest ---------------------------------------------------------------------------------------------------------


def _thread_settings(row: Row, body: Body, keep: Keeper) -> Iterator[Setting]:
    yield setting(base(row, body), mapping(inner(body).get("thread_settings")), keep)


def _thread_name(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    name = inner(body).get("thread_name")
    if isinstance(name, str) and name:
        yield Title(**base(row, body), text=keep.text(name), source="thread-name")


_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "agent_reasoning_section_break": (),
    "background_event": ("message",),
    "collab_agent_interaction_end": ("receiver_thread_id",),
    "collab_close_end": ("receiver_thread_id",),
    "collab_resume_end": ("receiver_thread_id",),
    "collab_waiting_end": (),
    "context_compacted": (),
    "deprecation_notice": ("summary",),
    "dynamic_tool_call_request": ("tool",),
    "dynamic_tool_call_response": ("tool", "success"),
    "entered_review_mode": ("user_facing_hint",),
    "exited_review_mode": (),
    "guardian_assessment": ("status",),
    "guardian_warning": ("message",),
    "image_generation_end": ("status",),
    "model_reroute": ("from_model", "to_model", "reason"),
    "plan_update": (),
    "shutdown_complete": (),
    "task_started": (),
    "thread_goal_updated": (),
    "thread_rolled_back": ("num_turns",),
    "turn_diff": (),
    "turn_started": (),
    "undo_completed": ("success",),
    "warning": ("message",),
}
"""Events that make no node, and what is kept of each."""

_READERS: Final[Mapping[str, Any]] = {
    "agent_message": _agent_message,
    "agent_reasoning": _agent_reasoning,
    "agent_reasoning_raw_content": _agent_reasoning,
    "collab_agent_spawn_end": spawn_end,
    "error": _error,
    "exec_command_end": _exec_command_end,
    "mcp_tool_call_end": _mcp_tool_call_end,
    "patch_apply_end": _patch_apply_end,
    "stream_error": _error,
    "sub_agent_activity": _sub_agent_activity,
    "task_complete": _task_complete,
    "thread_name_updated": _thread_name,
    "thread_settings_applied": _thread_settings,
    "token_count": token_count,
    "turn_aborted": _turn_aborted,
    "turn_complete": _task_complete,
    "user_message": _user_message,
    "view_image_tool_call": _view_image_tool_call,
    "web_search_end": _web_search_end,
}

EVENTS: Final[Mapping[str, Reader]] = {
    **{f"event_msg/{kind}": read for kind, read in _READERS.items()},
    **{f"event_msg/{kind}": aside(f"event_msg/{kind}", *keys) for kind, keys in _KEPT.items()},
    **ITEMS,
}
