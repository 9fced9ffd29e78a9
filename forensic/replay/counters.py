"""Counters: from what rows tell of usage to what model calls cost.

Some producers tell each call, some only a running total, some both. A running total is worth what it grew by since the
one before it, less the calls that rows around it tell of by themselves: so a call told twice counts once, and one told
by nobody but the total still counts. A total that is told again is no usage, a total that fell has begun anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from forensic.model import COUNTED, Counts, Observation, Ref, SessionStart, Setting, Usage
from forensic.replay.growth import UNTOLD, Total, exceeds, largest, less, same, wanting
from forensic.replay.lineage import Lineage, Lines

__all__ = ["Spent", "counts_of", "spent"]

_OUTPUT = COUNTED.index("output_tokens")


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


class _Open(Struct):
    """A call that rows tell of and no total so far: the rows, and the largest of each figure."""

    name: str
    counts: Counts
    model: str | None
    rows: list[Spent]


class _Grown(Struct):
    """What the latest total grew by and no row of a call told so far, for rows that stand behind it."""

    spent: Spent
    left: Counts
    last: Counts | None


class _Counter(Struct):
    """A running total, its latest growth, and those that lack figures which a later row may tell."""

    total: Total = field(default_factory=Total)
    grown: _Grown | None = None
    wanting: list[Spent] = field(default_factory=list)

    def grew(self, spent: Spent, grown: Counts, last: Counts | None) -> None:
        """Note what was spent since the row before."""
        self.grown = _Grown(spent, grown, last) if any(grown) else None
        if wanting(grown):
            self.wanting.append(spent)

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
        self._open: dict[str, _Open] = {}
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
        for counter in self._counters.values():
            counter.grown = None
        if seen.resets:
            self._counters.clear()
            self._open.clear()

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
        counts, known = counts_of(told.usage), self._open.get(name)
        if known is None:
            known = self._open[name] = _Open(name, counts, told.usage.model, [told])
        else:
            known.counts = largest(known.counts, counts)
            known.model = known.model or told.usage.model
            known.rows.append(told)
        for counter in self._counters.values():
            grown = counter.grown
            if grown is not None and _together(grown, known) and self._behind(grown, known):
                counter.grown = None

    def _behind(self, grown: _Grown, call: _Open) -> bool:
        """Take a call that stands behind its total for what it is; whether there is no room there for more."""
        if grown.last is not None and same([call.counts], grown.last) and not exceeds(call.counts, grown.left):
            self._late(grown, [call])
        waiting = [one for one in self._open.values() if _together(grown, one)]
        if same([one.counts for one in waiting], grown.left):
            self._late(grown, waiting)
        return any(exceeds(one.counts, grown.left) for one in waiting)

    def _late(self, grown: _Grown, calls: Sequence[_Open]) -> None:
        """Let rows behind a total tell of calls that it has counted: they have names, so they are what counts."""
        usage = grown.spent.usage
        grown.left = less(grown.left, [one.counts for one in calls])
        rest = any(grown.left)
        left = max((1 if usage.calls is None else usage.calls) - len(calls), int(rest))
        figures = _usage(grown.left if rest or left else UNTOLD)
        grown.spent.usage = replace(figures, model=usage.model, final=usage.final, calls=left, units=usage.units)
        self._totalled(calls)

    def _totalled(self, calls: Sequence[_Open]) -> None:
        for one in calls:
            for row in one.rows:
                row.covered = True
        self._close(calls)

    def _close(self, calls: Iterable[_Open]) -> None:
        for one in calls:
            self._told.add(one.name)
            del self._open[one.name]

    # --- totals ------------------------------------------------------------------------------------------------------

    def _total(self, number: int, seen: Observation, usage: Usage, name: str, *, inherited: bool) -> Iterator[Spent]:
        """What a running total grew by beyond the calls that rows told of since the one before it."""
        now = counts_of(usage)
        counter = self._counters.setdefault(name, _Counter())
        total = counter.total
        if now == total.told and not self._open and (usage.calls, usage.units) == (total.calls, None):
            # told again, as half of them are
            return
        told: list[_Open] = []
        grown, last = UNTOLD, None if usage.last is None else counts_of(usage.last)
        if any(one is not None for one in now):
            grown, anew = total.grow(now, usage.calls, last, self._handed(now, last, inherited=inherited))
            counter.complete(grown, anew=anew)
            told = self._part_of(grown, usage.model, counter.grown)
            grown = less(grown, [one.counts for one in told])
            self._totalled(told)
        calls = total.count(usage.calls, len(told), more=any(grown))
        units = total.bill(usage.units) if usage.units else None
        at = "" if seen.at is None else seen.at.isoformat()
        mark = (name, at, now)
        if seen.ref.generation > 1 and mark in self._known:
            counter.grown = None
            return
        self._known.add(mark)
        if any(grown) or calls or units:
            model = usage.model or (self._models.get(seen.agent) if any(grown) else None)
            more = replace(_usage(grown), model=model, final=usage.final, calls=calls, units=units or None)
            key = f"{self._name}/{name}/{at}/{'.'.join(map(str, now))}"
            spent = Spent(number, seen, replace(more, unusable=usage.unusable), key=key, inherited=inherited)
            if any(one is not None for one in grown):
                counter.grew(spent, grown, last)
            yield spent

    def _handed(self, now: Counts, last: Counts | None, *, inherited: bool) -> Counts | None:
        """What the counter of a thread that came from another one stood at before its first call."""
        if not self._declared or inherited or last is None or exceeds(last, now):
            return None
        return tuple(None if whole is None else whole - (part or 0) for whole, part in zip(now, last, strict=True))

    def _part_of(self, grown: Counts, model: str | None, before: _Grown | None) -> list[_Open]:
        """The open calls that a total has counted; what only the growth `before` has room for was counted there.

        A total may also lag behind: when calls are all of what it grew by, those after them are in a later one. Those
        before them are in none, as the last ones of a client that was killed.
        """
        taken: list[_Open] = []
        others: list[_Open] = []
        passed = 0
        rest = grown
        for one in [one for one in self._open.values() if model in (None, one.model)]:
            if not exceeds(one.counts, rest):
                taken.append(one)
                passed = len(others)
                rest = less(rest, [one.counts])
            elif before is not None and _together(before, one) and not exceeds(one.counts, before.left):
                self._late(before, [one])
            else:
                others.append(one)
        if any(rest):
            taken += others
            rest = less(rest, [one.counts for one in others])
        else:
            self._close(others[:passed])
        if model is not None:
            # calls that name no model are in the total of some model: in the first that has room for them
            for one in [one for one in self._open.values() if one.model is None]:
                if (one.counts[_OUTPUT] or 0) <= (rest[_OUTPUT] or 0):
                    taken.append(one)
                    rest = less(rest, [one.counts])
        return taken


def _together(grown: _Grown, call: _Open) -> bool:
    """Whether a call may be one of those that a total grew by."""
    spent, row = grown.spent, call.rows[0]
    models = {spent.usage.model, call.model} - {None}
    return spent.inherited == row.inherited and len(models) < 2


def _usage(counts: Counts) -> Usage:
    """The usage with these figures."""
    return msgspec.convert(dict(zip(COUNTED, counts, strict=True)), Usage)
