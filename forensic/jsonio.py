"""Reading JSON that nobody promised, and writing JSON that must never vary.

`decode` gives the same answer on every Python: msgspec first, the standard library where msgspec is stricter than
the JavaScript programs that wrote the rows (lone surrogates, bad UTF-8), and a nesting limit counted on the bytes,
because decoders disagree about how deep is too deep (997, 1498, 9999).
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

__all__ = ["MAX_DEPTH", "NotJson", "canonical", "decode", "deeper_than"]

MAX_DEPTH = 128
"""Deepest nesting that is decoded; deeper rows are carried, never interpreted."""

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'{}[]"'))
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TOO_DEEP = "nested deeper than 128"
_INT64 = range(-(2**63), 2**64)
_encoder = msgspec.json.Encoder(order="sorted")


class NotJson(ValueError):
    """The bytes are not one JSON value; the argument says why in a few words."""


def canonical(value: object) -> bytes:
    """One JSON text for one value: UTF-8, keys sorted by code point, no white space, no insignificant escapes."""
    return _encoder.encode(value)


def deeper_than(raw: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether the brackets of `raw` nest deeper than `limit`, brackets inside strings not counted."""
    if raw.count(b"{") + raw.count(b"[") <= limit:
        return False
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    depth = 0
    for byte in b"".join(bare.translate(None, _NOT_STRUCTURE).split(b'"')[::2]):
        if byte in b"{[":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def decode(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """The value of one JSON text, and what had to be mended to read it.

    The notes are a subset of ``("replaced-bytes", "lone-surrogate")``. Raises `NotJson`.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        if deeper_than(raw):
            raise NotJson(_TOO_DEEP) from None
        return _decode_leniently(raw)
    # most brackets of a long row stand inside its texts: the value tells sooner than the bytes
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _nests_deeper(value):
        raise NotJson(_TOO_DEEP)
    return value, ()


def _nests_deeper(value: Any) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True


def _decode_leniently(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    notes: list[str] = []
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        notes.append("replaced-bytes")
    try:
        value = json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise NotJson(_reason(error)) from None
    if "\\u" in text and _has_surrogate(value):
        value = _without_surrogates(value)
        notes.append("lone-surrogate")
    return value, tuple(notes)


def _reason(error: Exception) -> str:
    # the decoder's own words and places differ from one Python to the next
    return str(error) if isinstance(error, NotJson) else "not JSON"


def _refuse(constant: str) -> NoReturn:
    raise NotJson(f"{constant} is not JSON")


def _integer(digits: str) -> int | str:
    # a number no 64-bit reader can hold keeps its digits: interpreter limits on int() differ
    if len(digits) <= 20 and (number := int(digits)) in _INT64:
        return number
    return digits


def _number(digits: str) -> float | str:
    number = float(digits)
    return digits if number in (float("inf"), float("-inf")) else number


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return _LONE_SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_has_surrogate(key) or _has_surrogate(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_surrogate, value))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value
