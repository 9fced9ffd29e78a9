"""Cursor, parser version 1: reads agent transcripts, rows and the older texts; hook payloads are not read yet.

What is read, laid aside and not available: docs/dialects/cursor.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from forensic.dialects.cursor.v1_common import TRIM, Body, base, blocks_of, mapping, text_or_none
from forensic.dialects.cursor.v1_text import transcript_text
from forensic.dialects.cursor.v1_tools import tool_request
from forensic.dialects.cursor.v1_user import spoken
from forensic.dialects.cursor.v1_words import said
from forensic.dialects.parser import UNTYPED, Meter, Parser, Reader, native
from forensic.model import Failure, Keeper, Observation, Payload, Row, SetAside, TurnEnd, Unmodelled

__all__ = ["PARSER"]


# --- which family -----------------------------------------------------------------------------------------------------

_ROLES: Final = ("assistant", "user")


def _family(body: Body) -> str:
    """The role of a message, else the type of the row; a type that is named like a role is something else."""
    role, told = body.get("role"), body.get("type")
    if isinstance(role, str) and role in _ROLES:
        return role
    if "type" in body:
        name = native(told)
        return f"type/{name}" if name in _ROLES else name
    return f"role/{native(role)}" if "role" in body else UNTYPED


def _event(payload: Payload, body: Body) -> str:
    """The event as the payload names it, else as it was registered."""
    told = native(body.get("hook_event_name"))
    return native(payload.argv[-1]) if told == UNTYPED and payload.argv else told


def _side(native_id: str) -> str:
    return "transcript-text" if native_id.endswith(".txt") else "side-file"


# --- messages ---------------------------------------------------------------------------------------------------------


def _user(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A message of the user role: its texts together, its pictures counted."""
    fields = base(row, body)
    texts: list[str] = []
    pictures = 0
    odd: list[object] = []
    for block in blocks_of(body):
        kind = text_or_none(mapping(block).get("type"))
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind == "image":
            pictures += 1
        else:
            odd.append(block)
    if texts or pictures:
        yield from spoken(fields, "\n".join(texts), keep, pictures)
    for block in odd:
        yield _unmodelled(fields, block)


def _assistant(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A message of the model: one observation a block. The format gives it no id, so its place names it."""
    fields = {**base(row, body), "step": str(row.ref)}
    for block in blocks_of(body):
        kind = text_or_none(mapping(block).get("type"))
        if kind == "text" and isinstance(block.get("text"), str):
            yield said(fields, block["text"], keep)
        elif kind == "tool_use" and (name := text_or_none(block.get("name"))):
            yield tool_request(fields, name, block.get("input"), keep)
        else:
            yield _unmodelled(fields, block)


def _unmodelled(fields: Body, block: Any) -> Unmodelled:
    name = native(block.get("type")) if isinstance(block, dict) else "<scalar>"
    return Unmodelled(**fields, family=f"block/{name}")


# --- other rows -------------------------------------------------------------------------------------------------------

_STOPPED: Final = frozenset({"aborted", "canceled", "cancelled", "interrupted"})
_STOPPED_BY: Final = "User aborted"
"""Ends that a person wished for: what the client says of such a one is its reason and no failure."""


def _turn_ended(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """The end of a turn, after what went wrong in it."""
    fields = base(row, body)
    status = text_or_none(body.get("status"))
    why = _why(body)
    if why is not None and (status in _STOPPED or why.startswith(_STOPPED_BY)):
        yield SetAside(**fields, family="turn_ended/error", value=keep.value(why))
    elif why is not None:
        yield Failure(**fields, text=keep.text(why))
    yield TurnEnd(**fields, status=None if status is None else native(status))


def _error(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    why = _why(body)
    return () if why is None else (Failure(**base(row, body), text=keep.text(why)),)


def _why(body: Body) -> str | None:
    error = body.get("error")
    why = text_or_none(error) or text_or_none(mapping(error).get("message"))
    return why if why and why.strip(TRIM) else None


# --- the tables -------------------------------------------------------------------------------------------------------

_ROWS: Final[Mapping[str, Reader]] = {
    "assistant": _assistant,
    "error": _error,
    "turn_ended": _turn_ended,
    "user": _user,
}

PARSER: Final = Parser(
    dialect="cursor",
    version=1,
    family=_family,
    rows=_ROWS,
    event=_event,
    hooks={},
    side=_side,
    files={"transcript-text": transcript_text},
    blocks={"assistant": ("text", "tool_use"), "user": ("image", "text")},
    # nothing that Cursor writes down tells what a call cost
    meter=Meter(needles=()),
)
