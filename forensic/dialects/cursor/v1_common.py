"""Cursor, parser version 1: what all readers share. Part of v1: frozen with it."""

from __future__ import annotations

from typing import Any, Final

from forensic.model import Row

__all__ = ["TRIM", "Body", "base", "blocks_of", "mapping", "text_or_none"]

TRIM: Final = " \t\r\n"
"""What is trimmed; a bare strip() would ask the Unicode database of the day."""

Body = dict[str, Any]


def base(row: Row, body: Body) -> Body:
    """The fields that every observation of a row has: where it stands and in whose file. A row tells nothing else."""
    return {"ref": row.ref, "agent": row.agent}


def blocks_of(body: Body) -> list[Any]:
    """The blocks of a row's message; a plain text is one."""
    content = mapping(body.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def mapping(value: object) -> Body:
    """An object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_or_none(value: object) -> str | None:
    """A text that is not empty, else None."""
    return value if isinstance(value, str) and value else None
