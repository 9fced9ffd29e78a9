"""Counters: from what rows tell of usage to what model calls cost.

Some producers tell each call, some only a running total, some both. A running total is worth what it grew by since the
one before it, less the calls that rows around it tell of by themselves: so a call told twice counts once, and one told
by nobody but the total still counts. A total that is told again is no usage, a total that fell has begun anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from forensic.model import COUNTED, Counts, Observation, Ref, SessionStart, Setting, Usage
from forensic.replay.growth import UNTOLD, Total, exceeds, largest, less, same, wanting
from forensic.replay.lineage import Lineage, Lines
from forensic.replay.openings import Open, Openings, Spent

__all__ = ["Spent", "counts_of", "spent"]

_OUTPUT = COUNTED.index("output_tokens")
_BEHIND: Final = 32
"""So many calls may stand behind the total that counted them, and so many totals may wait for such calls, at a time:
real files have one or two. No row is compared with more."""


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
        copy = stream.copies(seen)
        if isinstance(seen, Setting):
            stream.set(seen)
        elif isinstance(seen, SessionStart) and not copy:
            stream.start(seen)
        if seen.usage is not None:
            found.extend(stream.take(number, seen, seen.usage, inherited=number in lines.inherited, copy=copy))
    return found


def _copies_last(observations: Sequence[Observation]) -> Iterator[tuple[int, Observation]]:
    copies = []
    for number, seen in enumerate(observations):
        if seen.via is None or seen.usage is None:
            yield number, seen
        else:
            copies.append((number, seen))
    yield from copies


class _Grown(Struct):
    """What the latest total grew by and no row of a call told so far, and the calls that may be rows behind it.

    `order` is that of its counter.
    """

    spent: Spent
    left: Counts
    last: Counts | None
    order: int
    behind: list[Open]


class _Counter(Struct):
    """A running total, and what it grew by without figures that a later row may tell. `order` is that of the first."""

    order: int
    total: Total = field(default_factory=Total)
    wanting: list[Spent] = field(default_factory=list)

    def complete(self, grown: Counts, *, anew: bool) -> None:
        """Call what earlier rows left out covered by one that tells it; what a total that began anew forgot is lost."""
        if anew:
            self.wanting.clear()
        elif not wanting(grown):
            for spent in self.wanting:
                spent.covered = True
            self.wanting.clear()


class _Stream:
    """What is in force in one stream, its counters, and the calls that no total has told of."""

    def __init__(self, name: str, line: Lineage | None) -> None:
        self._name = name if line is None or line.thread is None else line.thread
        self._declared = line is not None and line.declared
        self._models: dict[str | None, str] = {}
        self._counters: dict[str, _Counter] = {}
        self._known: set[tuple[str, str, Counts]] = set()
        self._rows: dict[tuple[object, ...], Ref] = {}
        self._grown: dict[str, _Grown] = {}
        self._open = Openings()
        self._told: set[str] = set()

    def copies(self, seen: Observation) -> bool:
        """Whether a row stood here before, by its id and by what it says of usage."""
        if seen.id is None:
            return False
        told = seen.usage
        units = () if told is None else (told.running, counts_of(told), told.calls, *(told.units or {}).items())
        return self._rows.setdefault((seen.id, type(seen), *units), seen.ref) != seen.ref

    def set(self, seen: Setting) -> None:
        """From here on calls that name no model are made by this one."""
        if seen.model is not None:
            self._models[seen.agent] = seen.model

    def start(self, seen: SessionStart) -> None:
        """Counters may begin again when a session does; the calls that come then are in no total before."""
        self._grown.clear()
        if seen.resets:
            self._counters.clear()
            self._open = Openings()

    def take(
        self, number: int, seen: Observation, usage: Usage, *, inherited: bool, copy: bool = False
    ) -> Iterator[Spent]:
        """What one row's usage comes to; the copy of one moves no counter."""
        if usage.running is not None:
            if not copy:
                yield from self._total(number, seen, usage, usage.running, inherited=inherited)
            return
        if usage.model is None and (model := self._models.get(seen.agent)) is not None:
            usage = replace(usage, model=model)
        told = Spent(number, seen, usage, inherited=inherited)
        if not copy:
            self._call(usage.message or usage.request or f"#{number}", told)
        yield told

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call(self, name: str, told: Spent) -> None:
        """Wait for the total that covers a call, unless one before it does."""
        if name in self._told:
            return
        counts, model, known = counts_of(told.usage), told.usage.model, self._open.get(name)
        if known is None:
            known = self._open.add(name, counts, model, told)
        else:
            known.rows.append(told)
            self._open.learn(known, largest(known.counts, counts), known.model or model)
        for counter, grown in sorted(self._grown.items(), key=lambda item: item[1].order):
            if _together(grown, known) and self._behind(grown, known):
                del self._grown[counter]

    def _behind(self, grown: _Grown, call: Open) -> bool:
        """Take a call that stands behind its total for what it is; whether there is no room there for more."""
        alone = call.waits and grown.last is not None and same([call.counts], grown.last)
        if alone and not exceeds(call.counts, grown.left):
            self._late(grown, [call])
        waiting = [one for one in grown.behind if one is not call and one.waits and _together(grown, one)]
        if call.waits:
            waiting.append(call)
        grown.behind = waiting
        if len(waiting) > _BEHIND:
            return True
        if same([one.counts for one in waiting], grown.left):
            self._late(grown, waiting)
        return any(exceeds(one.counts, grown.left) for one in waiting)

    def _late(self, grown: _Grown, calls: Sequence[Open]) -> None:
        """Let rows behind a total tell of calls that it has counted: they have names, so they are what counts."""
        usage = grown.spent.usage
        grown.left = less(grown.left, [one.counts for one in calls])
        rest = any(grown.left)
        left = max((1 if usage.calls is None else usage.calls) - len(calls), int(rest))
        figures = _usage(grown.left if rest or left else UNTOLD)
        grown.spent.usage = replace(figures, model=usage.model, final=usage.final, calls=left, units=usage.units)
        self._totalled(calls)

    def _totalled(self, calls: Iterable[Open]) -> None:
        for one in calls:
            for row in one.rows:
                row.covered = True
            self._close(one)

    def _close(self, one: Open) -> None:
        self._told.add(one.name)
        self._open.close(one)

    # --- totals ------------------------------------------------------------------------------------------------------

    def _total(self, number: int, seen: Observation, usage: Usage, name: str, *, inherited: bool) -> Iterator[Spent]:
        """What a running total grew by beyond the calls that rows told of since the one before it."""
        now = counts_of(usage)
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = _Counter(len(self._counters))
        total = counter.total
        if now == total.told and not self._open and (usage.calls, usage.units) == (total.calls, None):
            # told again, as half of them are
            return
        told: list[Open] = []
        grown, last = UNTOLD, None if usage.last is None else counts_of(usage.last)
        if any(one is not None for one in now):
            grown, anew = total.grow(now, usage.calls, last, self._handed(now, last, inherited=inherited))
            counter.complete(grown, anew=anew)
            told = self._part_of(grown, usage.model, self._grown.get(name))
            grown = less(grown, [one.counts for one in told])
            self._totalled(told)
        calls = total.count(usage.calls, len(told), more=any(grown))
        units = total.bill(usage.units) if usage.units else None
        at = "" if seen.at is None else seen.at.isoformat()
        mark = (name, at, now)
        if seen.ref.generation > 1 and mark in self._known:
            self._grown.pop(name, None)
            return
        self._known.add(mark)
        if any(grown) or calls or units:
            model = usage.model or (self._models.get(seen.agent) if any(grown) else None)
            more = replace(_usage(grown), model=model, final=usage.final, calls=calls, units=units or None)
            key = f"{self._name}/{name}/{at}/{'.'.join(map(str, now))}"
            spent = Spent(number, seen, replace(more, unusable=usage.unusable), key=key, inherited=inherited)
            if any(one is not None for one in grown):
                self._grew(name, spent, grown, last)
            yield spent

    def _grew(self, name: str, spent: Spent, grown: Counts, last: Counts | None) -> None:
        """Note what was spent since the row before."""
        counter = self._counters[name]
        if wanting(grown):
            counter.wanting.append(spent)
        behind = self._open.few_modelless(_BEHIND) if any(grown) else None
        if behind is None:
            self._grown.pop(name, None)
            return
        # an open call that names no model, and has no room in this total, may be one of several behind it
        self._grown[name] = _Grown(spent, grown, last, counter.order, behind)
        if len(self._grown) > _BEHIND:
            del self._grown[next(iter(self._grown))]

    def _handed(self, now: Counts, last: Counts | None, *, inherited: bool) -> Counts | None:
        """What the counter of a thread that came from another one stood at before its first call."""
        if not self._declared or inherited or last is None or exceeds(last, now):
            return None
        return tuple(None if whole is None else whole - (part or 0) for whole, part in zip(now, last, strict=True))

    def _part_of(self, grown: Counts, model: str | None, before: _Grown | None) -> list[Open]:
        """The open calls that a total has counted; what only the growth `before` has room for was counted there.

        A total may also lag behind: when calls are all of what it grew by, those after them are in a later one. Those
        before them are in none, as the last ones of a client that was killed.
        """
        taken: list[Open] = []
        others: list[Open] = []
        rest = grown
        # a call of nothing is a part of whatever there is
        while (one := self._open.first(model)) and (any(rest) or self._open.nothings(model, rest)):
            if not exceeds(one.counts, rest):
                taken.append(one)
                rest = less(rest, [one.counts])
            elif before is not None and _fits(before, one):
                self._late(before, [one])
            else:
                others.append(one)
            self._close(one)
        if any(rest):
            taken += others
            rest = less(rest, [one.counts for one in others])
        for one in sorted(before.behind, key=lambda one: one.number) if before else ():
            if before and one.waits and model in (None, one.model) and _fits(before, one):
                self._late(before, [one])
        if model is not None:
            # calls that name no model are in the total of some model: in the first that has room for them
            while one := self._open.modelless(rest[_OUTPUT] or 0):
                taken.append(one)
                rest = less(rest, [one.counts])
                self._close(one)
        return taken


def _together(grown: _Grown, call: Open) -> bool:
    """Whether a call may be one of those that a total grew by."""
    spent, row = grown.spent, call.rows[0]
    models = {spent.usage.model, call.model} - {None}
    return spent.inherited == row.inherited and len(models) < 2


def _fits(grown: _Grown, call: Open) -> bool:
    """Whether a call may be one of those, and there is room for it."""
    return _together(grown, call) and not exceeds(call.counts, grown.left)


def _usage(counts: Counts) -> Usage:
    """The usage with these figures."""
    return msgspec.convert(dict(zip(COUNTED, counts, strict=True)), Usage)
