"""Usage aggregator: what the model calls of one session cost in tokens, and how sure that is.

One `Call` a model call. A row names its call by message id, else by request id; a request id that later shows up with a
message id folds into it; a row with neither counts by itself, its copies with it. Within a call each figure keeps its
largest value, because early rows of a reply carry a partial count. Copies in other files and in progress rows fall into
the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from forensic.model import COUNTED, Counts, Observation, Told, Usage
from forensic.replay.amounts import plus
from forensic.replay.counters import Spent, counts_of
from forensic.replay.growth import largest
from forensic.replay.subagents import PLACEHOLDER

__all__ = [
    "FIELDS",
    "HISTORY",
    "MAIN",
    "UNATTRIBUTED",
    "UNDATED",
    "Call",
    "Key",
    "Tally",
    "Units",
    "aggregate",
    "billed",
    "certainty_of",
    "figures_of",
    "fold",
    "ratio",
    "tally",
    "tally_told",
    "told_of",
    "total_of",
    "units_of",
]

FIELDS = COUNTED
_TOTAL = FIELDS.index("total_tokens")
UNDATED = "undated"
UNATTRIBUTED = "unattributed"
MAIN = "main"

_NO_STOP = "no stop reason on the last row of the message: the count may be a placeholder"
_NO_ID = "rows without message id and request id, counted one by one"
_UNUSABLE = "usage that is no count of tokens"
_TOTAL_ONLY = "totals that do not say what they are made of"
_PARTIAL = "calls of which no row tells all figures"
_BILLED = "units were billed, and no row tells of a call"
_MORE = "the producer's own account is larger: model calls that no row tells of"
HISTORY = "history of another thread, told apart by: "
_IDLESS = ("row", "number")
_COMPLETE: Mapping[str, int] = {}

Key = tuple[str, str]
"""What names a call: message, request, counter, row or number, and the name."""


class Call(Struct, array_like=True):
    """One model call, or (with `calls`) what is known of several together; `at` is when it was first told of.

    `by_row` says that rows of its own tell of it, and not only copies inside progress rows.
    """

    key: Key
    counts: Counts
    model: str | None = None
    at: datetime | None = None
    agent: str | None = None
    turn: str | None = None
    calls: int = 1
    final: bool = False
    by_row: bool = False
    unusable: bool = False
    covered: bool = False
    request: str | None = None

    @property
    def idless(self) -> bool:
        """Whether no row names the call."""
        return self.key[0] in _IDLESS


class Units(Struct, frozen=True, array_like=True):
    """What was billed in the producer's own units, and when that was told."""

    at: datetime | None
    units: dict[str, int | float]


class Tally(Struct, array_like=True):
    """All usage of one session: its calls, those of the history that it took along, units; `raw` adds up every row."""

    calls: list[Call]
    inherited: list[Call]
    units: list[Units]
    raw: int = 0
    idless: int = 0
    unusable: int = 0


def tally(seen: Iterable[Spent], turn_of: Callable[[Spent], str | None] = lambda _: None) -> Tally:
    """Put together what rows tell of calls, given in recorded order, copies inside progress rows last."""
    own, inherited = _Calls(), _Calls()
    units: list[Units] = []
    for item in seen:
        usage = item.usage
        if usage.units and not item.inherited:
            units.append(Units(item.observation.at, usage.units))
        told = told_of(item.observation, usage)
        if usage.calls == 0 and not any(one is not None for one in told.counts):
            continue
        call = (inherited if item.inherited else own).take(told, item.key)
        call.covered |= item.covered
        call.turn = call.turn or turn_of(item)
        if usage.calls is not None:
            call.calls = usage.calls
    return own.tally(list(inherited.calls.values()), units)


def tally_told(told: Iterable[Told]) -> Tally:
    """The same of rows that tell calls and nothing else, copies inside progress rows put last."""
    own, copies = _Calls(), []
    for one in told:
        if one.via is None:
            own.take(one)
        else:
            copies.append(one)
    for one in copies:
        own.take(one)
    return own.tally([], [])


def told_of(seen: Observation, usage: Usage) -> Told:
    """What an observation says of a call's usage."""
    return Told(
        usage.message,
        usage.request,
        usage.model,
        counts_of(usage),
        usage.final,
        bool(usage.unusable),
        seen.at,
        seen.agent,
        seen.id,
        seen.via,
    )


def aggregate(
    found: Tally, missing: Mapping[str, int] | None = None, told: int = 0, rules: Mapping[str, int] = _COMPLETE
) -> dict[str, Any]:
    """The usage section of the session document (docs/replay.md).

    `missing` counts, by reason, what may have been paid for and tells nothing: then a total is no more than a bound.
    So it is when the producer itself `told` of more output tokens than the rows do. `rules` counts the threads whose
    history was told apart by each rule.
    """
    calls = found.calls
    if told > sum(call.counts[1] or 0 for call in calls):
        missing = {**(missing or {}), _MORE: 1}
    if not calls and billed(found.units):
        missing = {**(missing or {}), _BILLED: 1}
    unknown = {reason: count for reason, count in (missing or {}).items() if count}
    inferred = {HISTORY + rule: count for rule, count in rules.items() if rule != "ordinal"}
    total = _group(calls, unknown, inferred)
    return {
        "total": total,
        "by_model": _by(calls, lambda call: call.model or "unknown"),
        "by_agent": _by(calls, lambda call: call.agent or MAIN),
        "by_turn": _by(calls, lambda call: call.turn or UNATTRIBUTED),
        "by_day": dict(sorted(_by(calls, _day).items())),
        "certainty": total["certainty"],
        "raw_vs_deduped": ratio(found.raw, calls),
        "from_progress": _group([call for call in calls if not call.by_row]),
        "inherited": _group(found.inherited) if found.inherited or rules else None,
        "units": units_of(found.units),
        "idless_records": found.idless,
        "unusable_records": found.unusable,
    }


def units_of(told: Iterable[Units]) -> dict[str, int | float]:
    """The producer's own units, added up by name."""
    sums: dict[str, int | float] = {}
    for one in told:
        for name, amount in one.units.items():
            sums[name] = plus(sums.get(name, 0), amount)
    return dict(sorted(sums.items()))


def billed(told: Iterable[Units]) -> bool:
    """Whether a producer has billed anything in its own units."""
    return any(amount > 0 for one in told for amount in one.units.values())


class _Calls:
    """Calls as they are being put together."""

    def __init__(self) -> None:
        self.calls: dict[Key, Call] = {}
        self.raw = self.idless = self.unusable = 0
        self._message_of: dict[str, str] = {}
        self._rows: set[str | tuple[str, str]] = set()

    def tally(self, inherited: list[Call], units: list[Units]) -> Tally:
        """All of it."""
        return Tally(list(self.calls.values()), inherited, units, self.raw, self.idless, self.unusable)

    def take(self, told: Told, counter: str | None = None) -> Call:
        """Let one row speak of its call; a running total names what it grew by in `counter`."""
        row = told.row
        key = self._key(told, row) if counter is None else ("counter", counter)
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = Call(
                key, told.counts, told.model, told.at, told.agent or MAIN, request=told.request
            )
            self.idless += key[0] in _IDLESS
        elif call.counts != told.counts:
            call.counts = largest(call.counts, told.counts)
        if told.unusable:
            self.unusable += 1
            call.unusable = True
        _complete(call, told)
        # one row may tell of several counters, and of no more than one call
        mark = row if row is None or counter is None else (row, counter)
        if told.via is None:
            if mark not in self._rows:
                call.final = told.final
            call.by_row = True
        elif not call.by_row and mark not in self._rows:
            call.final = told.final
        if mark is not None:
            self._rows.add(mark)
        counts = told.counts
        self.raw += (counts[0] or 0) + (counts[1] or 0) + (counts[2] or 0) + (counts[3] or 0)
        return call

    def _key(self, usage: Told, row: str | None) -> Key:
        request, message_of = usage.request, self._message_of
        if usage.message:
            key = ("message", usage.message)
            if request and message_of.setdefault(request, usage.message) == usage.message:
                orphan = self.calls.pop(("request", request), None)
                if orphan is not None:
                    orphan.key = key
                    fold(self.calls.setdefault(key, orphan), orphan)
            return key
        if request:
            return ("message", message_of[request]) if request in message_of else ("request", request)
        return ("row", row) if row else ("number", f"{self.idless}")


def fold(call: Call, other: Call) -> None:
    """Let what is known of one call speak of another one that it turns out to be."""
    call.counts = largest(call.counts, other.counts)
    call.model = call.model or other.model
    call.at = call.at or other.at
    call.turn = call.turn or other.turn
    call.by_row |= other.by_row
    call.unusable |= other.unusable


def _complete(call: Call, told: Told) -> None:
    """Take from a row what no earlier one told."""
    if call.model is None:
        call.model = told.model
    if call.at is None:
        call.at = told.at
    if call.request is None:
        call.request = told.request
    if told.agent is not None and call.agent == PLACEHOLDER:
        call.agent = told.agent


def total_of(counts: Counts) -> int | None:
    """All tokens of a call: as told, else the sum of the four that it is made of; None when nothing is told."""
    total = counts[_TOTAL]
    if total is not None:
        return total
    one, two, three, four = counts[0], counts[1], counts[2], counts[3]
    if one is None and two is None and three is None and four is None:
        return None
    return (one or 0) + (two or 0) + (three or 0) + (four or 0)


def _day(call: Call) -> str:
    return UNDATED if call.at is None else call.at.date().isoformat()


def _by(calls: Iterable[Call], name: Callable[[Call], str]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(name(call), []).append(call)
    return {key: _group(members) for key, members in groups.items()}


def _group(
    calls: Sequence[Call], missing: Mapping[str, int] = _COMPLETE, inferred: Mapping[str, int] = _COMPLETE
) -> dict[str, Any]:
    certainty = certainty_of(calls, missing, inferred)
    # nothing said is unknown; nothing asked is zero
    return {**figures_of(calls, asked=bool(calls or missing)), "certainty": certainty}


def figures_of(calls: Sequence[Call], *, asked: bool) -> dict[str, int | None]:
    """The sums of all known figures; where none is known, None if anybody was `asked`, else 0."""
    sums: dict[str, int | None] = dict.fromkeys(FIELDS, None if asked else 0)
    columns = [*zip(*(call.counts for call in calls), strict=True)]
    if columns:
        columns[_TOTAL] = tuple(total_of(call.counts) for call in calls)
    for field, column in zip(FIELDS, columns, strict=False):
        known = [count for count in column if count is not None]
        if known:
            sums[field] = sum(known)
    sums["calls"] = sum(call.calls for call in calls)
    return sums


def certainty_of(
    calls: Iterable[Call], missing: Mapping[str, int] = _COMPLETE, inferred: Mapping[str, int] = _COMPLETE
) -> dict[str, Any]:
    """How sure the figures are: a level, and the reasons with their counts."""
    no_stop = no_id = unusable = total_only = partial = 0
    known = False
    for call in calls:
        counts = call.counts
        told = counts[0] is not None and counts[1] is not None
        if told and call.final and not call.unusable and not call.idless:
            known = True
            continue
        known = known or counts[0] is not None or counts[1] is not None
        no_stop += not call.final and not call.unusable
        no_id += call.idless
        if call.unusable:
            unusable += 1
        elif not told:
            only = counts[_TOTAL] is not None and counts[0] is None and counts[1] is None
            total_only += only and not call.covered
            partial += not only and not call.covered and call.calls > 0
    tallies = (
        ("lower_bound", _NO_STOP, no_stop),
        ("inferred", _NO_ID, no_id),
        *(("inferred", reason, count) for reason, count in inferred.items()),
        ("unknown", _UNUSABLE, unusable),
        ("unknown", _TOTAL_ONLY, total_only),
        ("unknown", _PARTIAL, partial),
        *(("unknown", reason, count) for reason, count in missing.items()),
    )
    reasons = [{"level": level, "reason": reason, "count": count} for level, reason, count in tallies if count]
    return {"level": _level({str(reason["level"]) for reason in reasons}, known=known), "reasons": reasons}


def _level(levels: set[str], *, known: bool) -> str:
    if "unknown" in levels and not known:
        return "unknown"
    if levels & {"unknown", "lower_bound"}:
        return "lower_bound"
    return "inferred" if levels else "exact"


def ratio(raw: int, calls: Iterable[Call]) -> float | None:
    """How much more a sum over all rows would be than what the calls cost; None when there is nothing."""
    counted = 0
    for call in calls:
        counts = call.counts
        counted += (counts[0] or 0) + (counts[1] or 0) + (counts[2] or 0) + (counts[3] or 0)
    return round(raw / counted, 4) if raw and counted else None
