"""Counters: from what rows tell of usage to what model calls cost.

Some producers tell each call, some only a running total, some both. A running total is worth what it grew by since the
one before it, less the calls that rows in between tell of by themselves: so a call told twice counts once, and one
told by nobody but the total still counts. A total that is told again is no usage, a total that fell has begun anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forensic.model import COUNTED, Counts, Observation, SessionStart, Setting, Usage
from forensic.replay.lineage import Lineage, Lines

__all__ = ["Spent", "counts_of", "spent"]

_SUMMED = 4
_TOTAL = 7
_UNTOLD: Counts = (None,) * len(COUNTED)


class Spent(Struct):
    """What one row says that calls cost: the observation's position, the observation, the figures.

    `key` names what a running total grew by, so that its copies are recognised; usage of a call is named by its ids.
    `inherited` was spent by the thread that this one's history was taken from. Of a `covered` call the figures that its
    own row lacks stand in a total.
    """

    number: int
    observation: Observation
    usage: Usage
    key: str | None = None
    inherited: bool = False
    covered: bool = False


def counts_of(usage: Usage) -> Counts:
    """The figures of a usage as a tuple."""
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
        usage.total_tokens,
    )


def spent(
    observations: Sequence[Observation], lines: Lines, session: str, again: AbstractSet[int] = frozenset()
) -> Iterable[Spent]:
    """All usage among the observations of one session, given in recorded order; copies inside progress rows last.

    `session` names totals of streams that do not name their thread; what stands `again` in a rewritten file is passed
    over.
    """
    if not any(type(seen) is Setting or (seen.usage is not None and seen.usage.running) for seen in observations):
        # nothing to take differences of: each row speaks for itself
        return (
            Spent(number, seen, seen.usage, None, number in lines.inherited)
            for number, seen in _copies_last(observations)
            if seen.usage is not None and number not in again
        )
    found: list[Spent] = []
    streams: dict[str, _Stream] = {}
    for number, seen in _copies_last(observations):
        kind = type(seen)
        if (seen.usage is None and kind is not Setting and kind is not SessionStart) or number in again:
            continue
        name = seen.ref.stream
        stream = streams.get(name)
        if stream is None:
            stream = streams[name] = _Stream(f"{session}/{name}", lines.by_stream.get(name))
        if isinstance(seen, Setting):
            stream.set(seen)
        elif isinstance(seen, SessionStart):
            stream.start(seen)
        if seen.usage is not None:
            found.extend(stream.take(number, seen, seen.usage, inherited=number in lines.inherited))
    return found


def _copies_last(observations: Sequence[Observation]) -> Iterator[tuple[int, Observation]]:
    copies = []
    for number, seen in enumerate(observations):
        if seen.via is None or seen.usage is None:
            yield number, seen
        else:
            copies.append((number, seen))
    yield from copies


class _Counter(Struct):
    """One running total as it stood last."""

    counts: Counts | None = None
    calls: int | None = None
    units: dict[str, int | float] = {}


class _Stream:
    """What is in force in one stream, its counters, and the calls told since the last total."""

    def __init__(self, name: str, line: Lineage | None) -> None:
        self._name = name if line is None or line.thread is None else line.thread
        self._declared = line is not None and line.declared
        self._models: dict[str | None, str] = {}
        self._counters: dict[str, _Counter] = {}
        self._known: set[tuple[str, str, Counts]] = set()
        self._untotalled: dict[str, Spent] = {}

    def set(self, seen: Setting) -> None:
        """From here on calls that name no model are made by this one."""
        if seen.model is not None:
            self._models[seen.agent] = seen.model

    def start(self, seen: SessionStart) -> None:
        """Counters may begin again when a session does."""
        if seen.resets:
            self._counters.clear()
            self._untotalled.clear()

    def take(self, number: int, seen: Observation, usage: Usage, *, inherited: bool) -> Iterator[Spent]:
        """What one row's usage comes to."""
        if usage.running is not None:
            yield from self._total(number, seen, usage, usage.running, inherited=inherited)
            return
        if usage.model is None and (model := self._models.get(seen.agent)) is not None:
            usage = replace(usage, model=model)
        told = Spent(number, seen, usage, inherited=inherited)
        self._untotalled[usage.message or usage.request or f"#{number}"] = told
        yield told

    def _total(self, number: int, seen: Observation, usage: Usage, name: str, *, inherited: bool) -> Iterator[Spent]:
        """What a running total grew by beyond the calls that rows told of since the one before it."""
        now = counts_of(usage)
        counter = self._counters.setdefault(name, _Counter())
        if now == counter.counts and not self._untotalled and (usage.calls, usage.units) == (counter.calls, None):
            # told again, as half of them are
            return
        told = [one for one in self._untotalled.values() if usage.model in (None, one.usage.model)]
        grown = _UNTOLD
        if any(one is not None for one in now):
            before = self._before(counter, now, usage, inherited=inherited)
            grown = _less(_growth(now, before, usage.last), [counts_of(one.usage) for one in told])
            # calls that name no model are in the total of some model: in the first that has room for them
            nameless = [one for one in self._untotalled.values() if one.usage.model is None and one not in told]
            if nameless and sum(one.usage.output_tokens or 0 for one in nameless) <= (grown[1] or 0):
                grown = _less(grown, [counts_of(one.usage) for one in nameless])
                told += nameless
            counter.counts = now
            self._totalled(told)
        calls = _calls(usage.calls, counter.calls, len(told), more=any(grown))
        units = _units(usage.units or {}, counter.units)
        counter.calls, counter.units = usage.calls, usage.units or {}
        at = "" if seen.at is None else seen.at.isoformat()
        mark = (name, at, now)
        if seen.ref.generation > 1 and mark in self._known:
            return
        self._known.add(mark)
        if any(grown) or calls or units:
            model = usage.model or (self._models.get(seen.agent) if any(grown) else None)
            more = replace(_usage(grown), model=model, final=usage.final, calls=calls, units=units or None)
            key = f"{self._name}/{name}/{at}/{'.'.join(map(str, now))}"
            yield Spent(number, seen, replace(more, unusable=usage.unusable), key=key, inherited=inherited)

    def _before(self, counter: _Counter, now: Counts, usage: Usage, *, inherited: bool) -> Counts | None:
        """What the counter stood at; of a thread that came from another one, what it was handed."""
        if counter.counts is not None or not self._declared or inherited or usage.last is None:
            return counter.counts
        last = counts_of(usage.last)
        if any(whole is not None and part is not None and part > whole for whole, part in zip(now, last, strict=True)):
            return None
        return tuple(None if whole is None else whole - (part or 0) for whole, part in zip(now, last, strict=True))

    def _totalled(self, told: Sequence[Spent]) -> None:
        for one in told:
            one.covered = True
        gone = {id(one) for one in told}
        self._untotalled = {key: one for key, one in self._untotalled.items() if id(one) not in gone}


def _growth(now: Counts, before: Counts | None, last: Usage | None) -> Counts:
    """By how much a total grew; one that fell has begun anew, and its latest call is what is known to be new."""
    if before is None:
        return now
    if _size(now) < _size(before):
        latest = _UNTOLD if last is None else counts_of(last)
        fits = all(
            part is None or (whole is not None and part <= whole) for whole, part in zip(now, latest, strict=True)
        )
        return latest if any(latest) and fits else now
    return tuple(
        None if one is None or other is None else max(one - other, 0) for one, other in zip(now, before, strict=True)
    )


def _units(now: dict[str, int | float], before: dict[str, int | float]) -> dict[str, int | float]:
    """By how much units grew; those that fell have begun anew."""
    grown = {unit: value - before.get(unit, 0) for unit, value in now.items()}
    return {unit: more if more > 0 else now[unit] for unit, more in grown.items() if more and now[unit]}


def _usage(counts: Counts) -> Usage:
    """The usage with these figures."""
    return msgspec.convert(dict(zip(COUNTED, counts, strict=True)), Usage)


def _size(counts: Counts) -> int:
    total = counts[_TOTAL]
    return sum(one or 0 for one in counts[:_SUMMED]) if total is None else total


def _less(grown: Counts, told: Sequence[Counts]) -> Counts:
    """What is left of a growth when the calls told by themselves are taken off."""
    if not told:
        return grown
    sums = [sum(one[place] or 0 for one in told) for place in range(len(grown))]
    sums[_TOTAL] = sum(_size(one) for one in told)
    return tuple(None if one is None else max(one - gone, 0) for one, gone in zip(grown, sums, strict=True))


def _calls(now: int | None, before: int | None, told: int, *, more: bool) -> int:
    """How many calls a growth stands for besides those told by themselves."""
    if now is None:
        return int(more)
    grown = now - (before or 0)
    return max((grown if grown >= 0 else now) - told, 0)
