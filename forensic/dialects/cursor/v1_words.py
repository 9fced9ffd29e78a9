"""Cursor, parser version 1: what the model says. Part of v1: frozen with it."""

from __future__ import annotations

from typing import Final

from forensic.dialects.cursor.v1_common import TRIM, Body
from forensic.model import Keeper, Response, Thought

__all__ = ["said"]

_REDACTED: Final = "[REDACTED]"
"""What the client leaves of a thought. The same mark among other words may stand for a secret: that stays a text."""


def said(fields: Body, text: str, keep: Keeper) -> Response | Thought:
    """A text of the model, or the place of a thought that is not told."""
    if text.strip(TRIM) == _REDACTED:
        return Thought(**fields, opaque=True, redacted=True)
    return Response(**fields, text=keep.text(text))
