"""Codex, parser version 1: what all readers share. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

from forensic.dialects.parser import Aside
from forensic.jsonio import NotJson, decode
from forensic.model import Row, utc

__all__ = [
    "EVENT",
    "TRIM",
    "Body",
    "Fields",
    "aside",
    "base",
    "by_id",
    "inner",
    "joined",
    "mapping",
    "milliseconds",
    "native_text",
    "number",
    "opened",
    "picked",
    "sequence",
    "span",
    "text_or_none",
    "texts",
    "whole",
]

EVENT: Final = "event"
"""`via` of what the client tells a second time."""

TRIM: Final = " \t\r\n"
"""What is trimmed; a bare strip() would ask the Unicode database of the day."""

_SHORT: Final = 64
_LIMIT: Final = 2**63

Body = dict[str, Any]
Fields = dict[str, Any]
"""What all observations of a row have in common."""


def inner(body: Body) -> Body:
    """What a row says: its payload; old rows have no envelope around it."""
    payload = body.get("payload")
    return payload if isinstance(payload, dict) else body


def base(row: Row, body: Body) -> Fields:
    """The fields that every observation of a row has."""
    said = inner(body)
    turn = text_or_none(said.get("turn_id")) or text_or_none(
        mapping(said.get("internal_chat_message_metadata_passthrough")).get("turn_id")
    )
    return {
        "ref": row.ref,
        "at": utc(body.get("timestamp")),
        "turn": turn,
        "agent": row.agent,
        "ordinal": whole(body.get("ordinal")),
    }


def by_id(fields: Fields, item: Body) -> Fields:
    """The fields with the id of an item; within its turn, for a server may give out the same ids again in the next."""
    own = text_or_none(item.get("id"))
    if own is not None:
        turn = fields["turn"]
        fields["id"] = own if turn is None else f"{turn}/{own}"
    return fields


def text_or_none(value: object) -> str | None:
    """A text that is not empty, else None."""
    if not isinstance(value, str) or not value:
        return None
    # ids, names and models stand on many rows: one string for all of them
    return intern(value) if len(value) <= _SHORT else value


def native_text(value: object) -> str:
    """A text, else the empty one."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> Body:
    """An object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """A list, else an empty one."""
    return value if isinstance(value, list) else []


def number(value: object) -> float | None:
    """A number that is not negative, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 <= value < _LIMIT else None


def whole(value: object) -> int | None:
    """A whole number, else None."""
    return value if type(value) is int and -_LIMIT <= value < _LIMIT else None


def texts(blocks: object) -> list[str]:
    """The texts of a list of blocks."""
    return [native_text(mapping(block).get("text")) for block in sequence(blocks) if mapping(block).get("text")]


def joined(parts: Iterable[str]) -> str:
    """Texts one under the other."""
    whole_text = ""
    for part in parts:
        whole_text += part if not whole_text or whole_text.endswith("\n") else f"\n{part}"
    return whole_text


def opened(given: object) -> Any:
    """A JSON value that was handed over as text; the text itself when it is none."""
    if not isinstance(given, str):
        return given
    try:
        return decode(given.encode())[0]
    except NotJson:
        return given


def milliseconds(duration: object) -> float | None:
    """A duration of the client, ``{secs, nanos}``, in milliseconds."""
    told = mapping(duration)
    seconds, nanos = number(told.get("secs")), number(told.get("nanos"))
    if seconds is None or nanos is None:
        return None
    return round(seconds * 1000 + nanos / 1_000_000, 3)


def span(said: Body) -> float | None:
    """How long an item took, by when the client says it began and was done."""
    begun, done = whole(said.get("started_at_ms")), whole(said.get("completed_at_ms"))
    return None if begun is None or done is None or done < begun else done - begun


def picked(body: Mapping[str, Any], *keys: str) -> Body | None:
    """Those of the keys that the object has; None when it has none of them."""
    return {key: body[key] for key in keys if key in body} or None


def aside(family: str, *keys: str) -> Aside:
    """A reader for a row that makes no node: it keeps the value of one key, or an object of several."""
    if not keys:
        return Aside(family, base)
    if len(keys) == 1:
        return Aside(family, base, lambda body: inner(body).get(keys[0]))
    return Aside(family, base, lambda body: picked(inner(body), *keys))
