"""Codex, parser version 1: reads rollouts of every age; hook payloads are not read yet.

Producers seen: `forensic.dialects.codex`. What is read, laid aside and not available: docs/dialects/codex.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forensic.dialects.codex.v1_calls import (
    call,
    image_generation_call,
    local_shell_call,
    tool_search_call,
    web_search_call,
)
from forensic.dialects.codex.v1_common import Body, aside, mapping
from forensic.dialects.codex.v1_events import EVENTS
from forensic.dialects.codex.v1_messages import CONTENT, agent_message, message, reasoning
from forensic.dialects.codex.v1_meter import METER
from forensic.dialects.codex.v1_results import output, tool_search_output
from forensic.dialects.codex.v1_session import SESSION
from forensic.dialects.codex.v1_usage import token_usage_record
from forensic.dialects.parser import UNTYPED, Parser, Reader, native
from forensic.model import Payload

__all__ = ["PARSER"]


# --- which family -----------------------------------------------------------------------------------------------------

_HEADER: Final = frozenset({"id", "instructions", "timestamp"})
"""What every header has, and what it is known by: a row without a type that lacks one of them begins no session."""


def _family(body: Body) -> str:
    """The row's type, with that of what is inside; the oldest rows have no envelope, their first no type."""
    name = native(body.get("type"))
    if name in ("response_item", "event_msg"):
        said = mapping(body.get("payload"))
        kind = native(said.get("type"))
        if kind == "item_completed":
            return f"{name}/{kind}/{native(mapping(said.get('item')).get('type'))}"
        return f"{name}/{kind}"
    if name != UNTYPED:
        return name
    if "record_type" in body:
        return native(body["record_type"])
    return "header" if isinstance(body.get("id"), str) and body.keys() >= _HEADER else name


def _event(payload: Payload, body: Body) -> str:
    """The event as the payload names it, else as it was registered."""
    told = native(body.get("hook_event_name"))
    return native(payload.argv[-1]) if told == UNTYPED and payload.argv else told


def _side(native_id: str) -> str:
    return "side-file"


# --- the tables -------------------------------------------------------------------------------------------------------

_ITEMS: Final[Mapping[str, Any]] = {
    "agent_message": agent_message,
    "custom_tool_call": call,
    "custom_tool_call_output": output,
    "function_call": call,
    "function_call_output": output,
    "image_generation_call": image_generation_call,
    "local_shell_call": local_shell_call,
    "message": message,
    "reasoning": reasoning,
    "tool_search_call": tool_search_call,
    "tool_search_output": tool_search_output,
    "web_search_call": web_search_call,
}

_KEPT: Final = ("additional_tools", "compaction", "compaction_summary", "context_compaction", "ghost_snapshot")
"""Items that make no node: what tools there are, what is left of a history, a snapshot of the working tree."""

_BARE: Final = (
    "custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output", "local_shell_call",
    "message", "reasoning",
)  # fmt: skip
"""Items that stand without an envelope in files from before 0.34."""

_ROWS: Final[Mapping[str, Reader]] = {
    **SESSION,
    **EVENTS,
    **{kind: _ITEMS[kind] for kind in _BARE},
    **{f"response_item/{kind}": read for kind, read in _ITEMS.items()},
    **{f"response_item/{kind}": aside(f"response_item/{kind}") for kind in _KEPT},
    "token_usage_record": token_usage_record,
}

PARSER: Final = Parser(
    dialect="codex",
    version=1,
    family=_family,
    rows=_ROWS,
    event=_event,
    hooks={},
    side=_side,
    files={},
    blocks={"message": CONTENT},
    meter=METER,
)
