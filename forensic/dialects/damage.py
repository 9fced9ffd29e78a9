"""Whole records out of a row that is not one JSON value.

Writers crash, and two of them write to one file: a record is cut and the next one starts on the same line, two whole
ones share a line, the last one is torn. What is read here must be certain: an object that could as well stand inside
a cut record is left alone. JSON's own grammar tells the two apart: where the cut record stops being JSON another one
has begun, and what was legal up to there was a part of it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from msgspec import Struct

from forensic.jsonio import NotJson, decode, deeper_than

__all__ = ["BLANKS", "Salvage", "salvage"]

BLANKS: Final = b"\0 \t\r"
"""What may stand around a record: NULs come from crashed appends."""

_BLANKS = re.compile("[\0 \t\r]*")
_START = re.compile(r'\{"')
_INSIDE = (",", "]", "}", ":")
_BEFORE_VALUE = (",", "[", ":")
_FAILURES = 256
"""Broken places of one row that are looked behind; each costs up to the length of the row."""


class Salvage(Struct):
    """What a broken row holds: its whole records, each with what had to be mended, and the bytes lost around them."""

    records: list[tuple[dict[str, Any], tuple[str, ...]]]
    ahead: int = 0
    behind: int = 0


def salvage(raw: bytes) -> Salvage:
    """Read the whole JSON objects of one row, in order; takes time in proportion to the row.

    An object counts when it starts the row or follows another one directly, or when it starts where the bytes before
    it stopped being JSON and reaches to the end of the row or to the next object.
    """
    text = raw.decode("utf-8", "surrogateescape")
    found = Salvage([])
    failures = _FAILURES
    at = 0
    while True:
        at = _skip(text, at)
        start, end, failures = _next(text, at, failures)
        lost = len(_bytes(text[at : len(text) if end is None else start]))
        if end is None:
            found.behind = lost
            return found
        try:
            body, notes = decode(_bytes(text[start:end]))
        except NotJson:
            found.behind = len(_bytes(text[at:]))
            return found
        found.ahead += lost
        found.records.append((body, notes))
        at = end


def _next(text: str, at: int, failures: int) -> tuple[int, int | None, int]:
    """Where the next whole object starts and ends, if there is one, and how many failures are left."""
    search = at
    broken = False  # whether the bytes just before this place have been seen to be no JSON
    while failures and (match := _START.search(text, search)):
        start = match.start()
        end, behind = _object(text, start)
        if behind is None:
            break
        if end is not None and _stands_alone(text, start, end, first=start == at, broken=broken):
            return start, end, failures
        failures -= 1
        broken = end is None
        search = behind
    return at, None, failures


def _stands_alone(text: str, start: int, end: int, *, first: bool, broken: bool) -> bool:
    after = _skip(text, end)
    follows = text[after : after + 2]
    if first:
        return not follows.startswith(_INSIDE)
    return follows in ("", '{"') and (broken or text[start - 1 : start] not in _BEFORE_VALUE)


def _object(text: str, start: int) -> tuple[int | None, int | None]:
    """Where the object at `start` ends, if it does, and where to look on; no place when it nests too deep."""
    try:
        _, stop = _READ(text, start)
        end, on = stop, stop
    except json.JSONDecodeError as error:
        # what was legal so far belongs to this object; an opening brace and quote may have passed for a part of it
        end, stop, on = None, error.pos, max(error.pos - 2, start + 1)
    except (ValueError, RecursionError):
        return None, None
    return (None, None) if deeper_than(_bytes(text[start:stop])) else (end, on)


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_READ = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse).raw_decode
"""Numbers are not looked at here: how many digits an int may have differs from one interpreter to the next."""
