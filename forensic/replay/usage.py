"""Usage aggregator: what the model calls of one session cost in tokens, and how sure that is.

One slot a model call. A row names its call by message id, else by request id; a request id that later shows up with a
message id folds into it; a row with neither counts by itself, its copies with it. Within a slot each field keeps its
largest value, because early rows of a reply carry a partial count. Copies in other files and in progress rows fall into
the same slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import intern
from typing import Any

from msgspec import Struct

from forensic.model import Observation, Usage
from forensic.replay.subagents import PLACEHOLDER

__all__ = ["FIELDS", "UNATTRIBUTED", "UNDATED", "Seen", "aggregate"]

FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)
_RATIO_FIELDS = FIELDS[:4]
UNDATED = "undated"
UNATTRIBUTED = "unattributed"
MAIN = "main"

_NO_STOP = "no stop reason on the last row of the message: the count may be a placeholder"
_NO_ID = "rows without message id and request id, counted one by one"
_UNUSABLE = "usage that is no count of tokens"
_MORE = "the producer's own account is larger: model calls that no row tells of"
_IDLESS = ("row", "number")
_COMPLETE: Mapping[str, int] = {}


class Seen(Struct):
    """One observation that carries usage, with the turn it was placed in."""

    observation: Observation
    turn: str | None


_NOTHING: tuple[int | None, ...] = (None,) * len(FIELDS)


class _Slot(Struct):
    counts: tuple[int | None, ...]
    model: str | None = None
    day: str | None = None
    agent: str | None = None
    turn: str | None = None
    final: bool = False
    by_row: bool = False
    idless: bool = False
    unusable: bool = False


def aggregate(seen: Iterable[Seen], missing: Mapping[str, int] | None = None, told: int = 0) -> dict[str, Any]:
    """The usage section of the session document (docs/replay.md).

    `missing` counts, by reason, what may have been paid for and tells nothing: then a total is no more than a bound.
    So it is when the producer itself `told` of more output tokens than the rows do.
    """
    slots, raw, idless, unusable = _slots(seen)
    if told > sum(slot.counts[1] or 0 for slot in slots):
        missing = {**(missing or {}), _MORE: 1}
    total = _group(slots, {reason: count for reason, count in (missing or {}).items() if count})
    own = [slot for slot in slots if not slot.by_row]
    return {
        "total": total,
        "by_model": _by(slots, lambda slot: slot.model or "unknown"),
        "by_agent": _by(slots, lambda slot: slot.agent or MAIN),
        "by_turn": _by(slots, lambda slot: slot.turn or UNATTRIBUTED),
        "by_day": dict(sorted(_by(slots, lambda slot: slot.day or UNDATED).items())),
        "certainty": total["certainty"],
        "raw_vs_deduped": _ratio(raw, slots),
        "from_progress": _group(own),
        "idless_records": idless,
        "unusable_records": unusable,
    }


def _slots(seen: Iterable[Seen]) -> tuple[list[_Slot], int, int, int]:
    slots: dict[tuple[str, str], _Slot] = {}
    message_of: dict[str, str] = {}
    rows: set[str] = set()
    raw = idless = unusable = 0
    for item in seen:
        usage = item.observation.usage
        if usage is None:
            continue
        row = item.observation.id
        key = _key(usage, message_of, slots, ("row", row) if row else ("number", f"{idless}"))
        unusable += bool(usage.unusable)
        slot = slots.get(key)
        if slot is None:
            slot = slots[key] = _Slot(_NOTHING, idless=key[0] in _IDLESS)
            idless += slot.idless
        raw += _take(slot, item, usage, copied=row in rows)
        if row is not None:
            rows.add(row)
    return list(slots.values()), raw, idless, unusable


def _key(
    usage: Usage, message_of: dict[str, str], slots: dict[tuple[str, str], _Slot], own: tuple[str, str]
) -> tuple[str, str]:
    request = usage.request
    if usage.message:
        key = ("message", usage.message)
        if request and message_of.setdefault(request, usage.message) == usage.message:
            orphan = slots.pop(("request", request), None)
            if orphan is not None:
                _fold(slots.setdefault(key, orphan), orphan)
        return key
    if request:
        return ("message", message_of[request]) if request in message_of else ("request", request)
    return own


def _fold(slot: _Slot, other: _Slot) -> None:
    slot.counts = _largest(slot.counts, other.counts)
    slot.model = slot.model or other.model
    slot.day = slot.day or other.day
    slot.turn = slot.turn or other.turn
    slot.by_row |= other.by_row
    slot.unusable |= other.unusable


def _take(slot: _Slot, item: Seen, usage: Usage, *, copied: bool) -> int:
    """Let one row speak in its slot; its own four token figures added up, for the ratio of raw to counted."""
    row = item.observation
    figures = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
    )
    if slot.counts != figures:
        slot.counts = _largest(slot.counts, figures)
    slot.unusable |= bool(usage.unusable)
    slot.model = slot.model or usage.model
    if slot.day is None and row.at is not None:
        slot.day = intern(row.at.date().isoformat())
    if slot.agent is None or (slot.agent == PLACEHOLDER and row.agent):
        slot.agent = row.agent or MAIN
    slot.turn = slot.turn or item.turn
    if not copied and (row.via is None or not slot.by_row):
        slot.final = usage.final
    slot.by_row |= row.via is None
    return (figures[0] or 0) + (figures[1] or 0) + (figures[2] or 0) + (figures[3] or 0)


def _largest(mine: tuple[int | None, ...], theirs: tuple[int | None, ...]) -> tuple[int | None, ...]:
    if mine is _NOTHING:
        return theirs
    return tuple(
        one if other is None or (one is not None and one >= other) else other
        for one, other in zip(mine, theirs, strict=True)
    )


def _by(slots: list[_Slot], name: Callable[[_Slot], str]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[_Slot]] = {}
    for slot in slots:
        groups.setdefault(name(slot), []).append(slot)
    return {key: _group(members) for key, members in groups.items()}


def _group(slots: list[_Slot], missing: Mapping[str, int] = _COMPLETE) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for number, field in enumerate(FIELDS):
        known = [count for slot in slots if (count := slot.counts[number]) is not None]
        # nothing said is unknown; nothing asked is zero
        counts[field] = sum(known) if known or not (slots or missing) else None
    counts["calls"] = len(slots)
    counts["certainty"] = _certainty(slots, missing)
    return counts


def _certainty(slots: list[_Slot], missing: Mapping[str, int]) -> dict[str, Any]:
    tallies = (
        ("lower_bound", _NO_STOP, sum(not slot.final and not slot.unusable for slot in slots)),
        ("inferred", _NO_ID, sum(slot.idless for slot in slots)),
        ("unknown", _UNUSABLE, sum(slot.unusable for slot in slots)),
        *(("unknown", reason, count) for reason, count in missing.items()),
    )
    reasons = [{"level": level, "reason": reason, "count": count} for level, reason, count in tallies if count]
    return {"level": _level({str(reason["level"]) for reason in reasons}, slots), "reasons": reasons}


def _level(levels: set[str], slots: list[_Slot]) -> str:
    if "unknown" in levels and not any(count is not None for slot in slots for count in slot.counts[:2]):
        return "unknown"
    if levels & {"unknown", "lower_bound"}:
        return "lower_bound"
    return "inferred" if levels else "exact"


def _ratio(raw: int, slots: list[_Slot]) -> float | None:
    counted = sum(count or 0 for slot in slots for count in slot.counts[: len(_RATIO_FIELDS)])
    return round(raw / counted, 4) if raw and counted else None
