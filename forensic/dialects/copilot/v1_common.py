"""Copilot CLI, parser version 1: what all readers share. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import intern
from typing import Any, Final

from forensic.dialects.parser import Aside, Reader
from forensic.model import Keeper, Observation, Row, utc

__all__ = [
    "TRIM",
    "Body",
    "DataReader",
    "aside",
    "base",
    "flat",
    "mapping",
    "native_text",
    "number",
    "of_data",
    "picked",
    "sequence",
    "text_or_none",
    "whole",
]

TRIM: Final = " \t\r\n"
"""What is trimmed; a bare strip() would ask the Unicode database of the day."""

_SHORT: Final = 64
_REPAIRED: Final = "resume"
"""In place of an interaction's id: what a resumed client writes about calls that were cut off before it."""

Body = dict[str, Any]
DataReader = Callable[[Body, Body, Keeper], Iterable[Observation]]
"""(fields that every observation of the row has, the row's ``data``, keeper) -> observations."""


def base(row: Row, body: Body) -> Body:
    """The fields that every observation of a row has. `parentId` names the row before, so it tells nothing."""
    data = mapping(body.get("data"))
    turn = text_or_none(data.get("interactionId"))
    return {
        "ref": row.ref,
        "at": utc(body.get("timestamp")),
        "turn": None if turn == _REPAIRED else turn,
        "agent": text_or_none(body.get("agentId")) or text_or_none(data.get("parentToolCallId")) or row.agent,
        "id": text_or_none(body.get("id")),
    }


def of_data(read: DataReader) -> Reader:
    """A reader of rows for a reader of their data; a row without any says nothing to us."""

    def reader(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
        data = body.get("data")
        return read(base(row, body), data, keep) if isinstance(data, dict) else ()

    return reader


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
    return value if value >= 0 else None


def whole(value: object) -> int | None:
    """A whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def picked(data: Body, *keys: str) -> Body | None:
    """Those of the keys that the object has; None when it has none of them."""
    return {key: data[key] for key in keys if key in data} or None


def flat(figures: Body, prefix: str = "") -> Body:
    """An object of objects as one, its keys joined by full stops."""
    found: Body = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def aside(family: str, *keys: str) -> Aside:
    """A reader for a row that makes no node: it keeps the value of one key of its data, or an object of several."""
    if not keys:
        return Aside(family, base)
    if len(keys) == 1:
        return Aside(family, base, lambda body: mapping(body.get("data")).get(keys[0]))
    return Aside(family, base, lambda body: picked(mapping(body.get("data")), *keys))
