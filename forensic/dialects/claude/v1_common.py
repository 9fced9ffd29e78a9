"""Claude Code, parser version 1: what all readers share. Part of v1: frozen with it."""

from __future__ import annotations

from sys import intern
from typing import Any, Final

from forensic.dialects.parser import Aside
from forensic.model import Row, utc

__all__ = ["TRIM", "aside", "base", "mapping", "native_text", "number", "picked", "sequence", "text_or_none", "whole"]

TRIM: Final = " \t\r\n"
"""What is trimmed; a bare strip() would ask the Unicode database of the day."""

_SHORT: Final = 64

Body = dict[str, Any]


def base(row: Row, body: Body) -> Body:
    """The fields that every observation of a row has."""
    get = body.get
    turn = get("promptId")
    own = get("uuid")
    agent = text_or_none(get("agentId")) or _agent(row.ref.stream, body)
    return {
        "ref": row.ref,
        "at": utc(get("timestamp")),
        "turn": text_or_none(turn),
        "agent": agent,
        "id": own if isinstance(own, str) and own else None,
    }


def _agent(stream: str, body: Body) -> str | None:
    if stream.startswith("agent-"):
        return text_or_none(stream[6:])
    return "sidechain" if body.get("isSidechain") is True else None


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


def picked(body: Body, *keys: str) -> Body | None:
    """Those of the keys that the object has; None when it has none of them."""
    return {key: body[key] for key in keys if key in body} or None


def aside(family: str, *keys: str) -> Aside:
    """A reader for a row that makes no node: it keeps the value of one key, or an object of several."""
    if not keys:
        return Aside(family, base)
    if len(keys) == 1:
        return Aside(family, base, lambda body: body.get(keys[0]))
    return Aside(family, base, lambda body: picked(body, *keys))
