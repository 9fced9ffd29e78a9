"""Codex, parser version 1: completed items. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from forensic.dialects.codex.v1_agents import collab_call, subagent_activity
from forensic.dialects.codex.v1_common import (
    EVENT,
    Body,
    Fields,
    aside,
    base,
    by_id,
    inner,
    joined,
    mapping,
    milliseconds,
    native_text,
    picked,
    sequence,
    span,
    text_or_none,
    texts,
)
from forensic.dialects.codex.v1_messages import asked, thoughts
from forensic.dialects.codex.v1_ran import Ran, changed, executed, mcp_answer, ran
from forensic.dialects.codex.v1_results import status_outcome
from forensic.dialects.parser import Reader
from forensic.model import Keeper, Observation, Response, Row, ToolRequest

__all__ = ["ITEMS"]

ItemReader = Callable[[Fields, Body, Body, Keeper], Iterator[Observation]]
"""(what the row's observations have in common, the item, what stands around it, keeper) -> observations."""


# --- messages and thoughts --------------------------------------------------------------------------------------------


def _user_message(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    content = [mapping(block) for block in sequence(item.get("content"))]
    pictures = sum(block.get("type") in ("image", "local_image") for block in content)
    return asked({**by_id(fields, item), "via": EVENT}, "".join(texts(content)), pictures, keep)


def _agent_message(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    yield Response(**by_id(fields, item), via=EVENT, text=keep.text("".join(texts(item.get("content")))))


def _reasoning(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    told = [*sequence(item.get("summary_text")), *sequence(item.get("raw_content"))]
    fields = {**by_id(fields, item), "via": EVENT}
    return thoughts(fields, [text for text in told if isinstance(text, str)], keep)


# --- tools ------------------------------------------------------------------------------------------------------------


def _command_execution(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    return ran(fields, executed(item, item.get("id")), keep)


def _file_change(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    return ran(fields, changed(item, item.get("id"))._replace(duration_ms=span(said)), keep)


def _mcp_tool_call(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    text, outcome = mcp_answer(item.get("result"))
    told = Ran(
        call=text_or_none(item.get("id")),
        name=native_text(item.get("tool")),
        given=item.get("arguments"),
        server=text_or_none(item.get("server")),
        text=text_or_none(mapping(item.get("error")).get("message")) or text,
        outcome=status_outcome(item.get("status")) or outcome,
        duration_ms=milliseconds(item.get("duration")),
    )
    return ran(fields, told, keep)


def _dynamic_tool_call(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    told = Ran(
        call=text_or_none(item.get("id")),
        name=native_text(item.get("tool")),
        given=item.get("arguments"),
        text=text_or_none(item.get("error")) or joined(texts(item.get("content_items"))) or None,
        outcome=status_outcome(item.get("status")),
        duration_ms=milliseconds(item.get("duration")) or span(said),
    )
    return ran(fields, told, keep)


def _image_view(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    path = text_or_none(item.get("path"))
    read = () if path is None else (path,)
    told = Ran(text_or_none(item.get("id")), "view_image", picked(item, "path"), outcome="ok", read=read)
    return ran(fields, told, keep)


def _image_generation(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    told = Ran(
        call=text_or_none(item.get("id")),
        name="image_generation",
        given=picked(item, "revised_prompt"),
        outcome=status_outcome(item.get("status")),
    )
    return ran(fields, told, keep)


def _web_search(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    call = text_or_none(item.get("id"))
    yield ToolRequest(**fields, via=EVENT, name="web_search", input=keep.value(item.get("action")), call=call)


def _sub_agent_activity(fields: Fields, item: Body, said: Body, keep: Keeper) -> Iterator[Observation]:
    return subagent_activity(fields, item, item.get("id"))


# --- the table --------------------------------------------------------------------------------------------------------

_READERS: Final[Mapping[str, ItemReader]] = {
    "AgentMessage": _agent_message,
    "CollabAgentToolCall": collab_call,
    "CommandExecution": _command_execution,
    "DynamicToolCall": _dynamic_tool_call,
    "FileChange": _file_change,
    "ImageGeneration": _image_generation,
    "ImageView": _image_view,
    "McpToolCall": _mcp_tool_call,
    "Reasoning": _reasoning,
    "SubAgentActivity": _sub_agent_activity,
    "UserMessage": _user_message,
    "WebSearch": _web_search,
}

_KEPT: Final = ("ContextCompaction", "HookPrompt", "Plan", "Sleep")
"""Items that make no node: told in other rows as well, or no more than a pause."""


def _item(family: str, read_item: ItemReader) -> Reader:
    """A reader for an item; one that says nothing new is laid aside."""
    nothing = aside(family)

    def read(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
        said = inner(body)
        seen = list(read_item(base(row, body), mapping(said.get("item")), said, keep))
        yield from seen or nothing(row, body, keep)

    return read


def _named(kind: str) -> str:
    return f"event_msg/item_completed/{kind}"


ITEMS: Final[Mapping[str, Reader]] = {
    **{_named(kind): _item(_named(kind), read) for kind, read in _READERS.items()},
    **{_named(kind): aside(_named(kind)) for kind in _KEPT},
}
