"""Unknown harness, parser version 1: names what there is and reads none of it."""

from __future__ import annotations

from typing import Any, Final

from forensic.dialects.parser import Parser, native
from forensic.model import Payload

__all__ = ["PARSER"]


def _family(body: dict[str, Any]) -> str:
    return native(body.get("type"))


def _event(payload: Payload, body: dict[str, Any]) -> str:
    """The event as it was registered, else as the payload names it."""
    return native(payload.argv[-1] if payload.argv else body.get("hook_event_name"))


def _side(native_id: str) -> str:
    return "side-file"


PARSER: Final = Parser(
    dialect="unknown", version=1, family=_family, rows={}, event=_event, hooks={}, side=_side, files={}
)
