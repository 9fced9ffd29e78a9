"""Lineage: which rows of a forked or spawned thread are another thread's history, written down again.

Such rows were done and paid for elsewhere. Where they end is told by the producer (`own_from`); else they are older
than the thread that holds them, or repeat the running totals of the parent's own stream, or came in the burst in which
a client copies them. Only the first is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from forensic.model import Observation, SessionStart, Usage

__all__ = ["Lineage", "Lines", "trace"]

_PAUSE = timedelta(seconds=1)
_SHORT_PAUSE = timedelta(milliseconds=200)
"""Copied rows follow each other within 40 ms; where nothing else speaks for a copy, a model may be just this quick."""


class Lineage(Struct):
    """Where the history of one stream comes from.

    `rule` is what told the copied rows apart: ordinal, time, match or burst; None when there are none, and "none" when
    there may be some all the same, in a total that nothing takes apart. `declared` says that the stream itself names
    its origin.
    """

    thread: str | None
    origin: str | None
    declared: bool = False
    rule: str | None = None


class Lines(Struct):
    """The lineage of every stream that tells one; `inherited` holds the positions of all copied observations."""

    by_stream: dict[str, Lineage] = field(default_factory=dict)
    inherited: frozenset[int] = frozenset()

    def rules(self) -> dict[str, int]:
        """How many streams were told apart by each rule."""
        tally: dict[str, int] = {}
        for line in self.by_stream.values():
            if line.rule is not None:
                tally[line.rule] = tally.get(line.rule, 0) + 1
        return tally


def trace(observations: Sequence[Observation], parents: Mapping[str, Sequence[Usage]] | None = None) -> Lines:
    """The lineage of all streams of one session, given in recorded order.

    `parents` are the running totals of threads outside of this session, by thread id, in their order.
    """
    lines = Lines()
    wanted = {seen.ref.stream for seen in observations if type(seen) is SessionStart}
    if not wanted:
        return lines
    streams: dict[str, list[int]] = {}
    for number, seen in enumerate(observations):
        if seen.ref.stream in wanted:
            streams.setdefault(seen.ref.stream, []).append(number)
    histories = [_History([observations[number] for number in numbers]) for numbers in streams.values()]
    totals = dict(parents or {})
    for history in histories:
        if history.own.thread is not None:
            totals.setdefault(history.own.thread, list(_totals(history.rows)))
    inherited: set[int] = set()
    for (stream, numbers), history in zip(streams.items(), histories, strict=True):
        lines.by_stream[stream] = line = history.line
        if line.origin is not None:
            line.rule, end = history.judge(totals.get(line.origin, ()))
            inherited.update(numbers[history.first : end])
    lines.inherited = frozenset(inherited)
    return lines


class _History:
    """The rows of one stream, and what its first ones say of where they come from."""

    def __init__(self, rows: Sequence[Observation]) -> None:
        self.rows = rows
        starts = [place for place, seen in enumerate(rows) if isinstance(seen, SessionStart)]
        self.own = self._start(starts[0])
        self.first = self._behind(starts[0])
        self._foreign = next((at for at in starts if self._start(at).thread not in (None, self.own.thread)), None)
        declared = self.own.forked_from or self.own.parent
        foreign = None if self._foreign is None else self._start(self._foreign).thread
        self.line = Lineage(thread=self.own.thread, origin=declared or foreign, declared=declared is not None)

    def judge(self, parent: Sequence[Usage]) -> tuple[str | None, int]:
        """The rule that told the copied rows apart, and the place behind the last of them."""
        if self.own.own_from is not None:
            end = self._ordinal(self.own.own_from)
            return ("ordinal" if end > self.first else None), end
        older = self._older()
        burst = self._burst(older)
        matched = self._matched(parent)
        if matched > self.first:
            return "match", max(matched, burst)
        if burst > older:
            return "burst", burst
        if older > self.first:
            return "time", older
        first = next(_totals(self.rows), None)
        return ("none" if self.line.declared and first is not None and first.last is None else None), self.first

    def _start(self, place: int) -> SessionStart:
        start = self.rows[place]
        assert isinstance(start, SessionStart)  # noqa: S101 -- its place was looked up as one
        return start

    def _behind(self, place: int) -> int:
        """The place behind all observations of the row at `place`."""
        ref = self.rows[place].ref
        while place < len(self.rows) and self.rows[place].ref == ref:
            place += 1
        return place

    def _ordinal(self, own_from: int) -> int:
        for place in range(self.first, len(self.rows)):
            if (self.rows[place].ordinal or 0) >= own_from:
                return place
        return len(self.rows)

    def _older(self) -> int:
        """The place behind the rows that are older than the thread that holds them."""
        place, began = self.first, self.own.at
        while began is not None and place < len(self.rows) and (at := self.rows[place].at) is not None and at < began:
            place += 1
        return place

    def _burst(self, start: int) -> int:
        """The place behind the rows copied without a pause, from `start` on.

        A spawned thread is given its task in the same burst: what follows the last copied total is its own. A fork
        waits for a person. Without a total and without the origin's own first row, which the copy begins with, nothing
        speaks for a copy.
        """
        place, last, pause = start, self.own.at, _SHORT_PAUSE
        head = self._foreign if self._foreign is not None and self._foreign <= start else None
        if head is not None:
            place, pause = max(start, self._behind(head)), _PAUSE
            last = _later(last, self.rows[head].at)
        begin = place
        while place < len(self.rows):
            at = self.rows[place].at
            if at is not None and last is not None and at - last >= pause:
                break
            last = _later(last, at)
            place += 1
        totals = [at for at in range(begin, place) if _running(self.rows[at]) is not None]
        if self.own.parent is None and (totals or head is not None):
            return place
        if totals:
            return self._behind(totals[-1])
        return begin

    def _matched(self, parent: Sequence[Usage]) -> int:
        """The place behind the last of the opening totals that repeat the parent's, in the parent's order.

        One alone may be chance: it counts when no pause came before it, as none does in a copy.
        """
        end, at, found = self.first, 0, 0
        for place in range(self.first, len(self.rows)):
            told = _running(self.rows[place])
            if told is None:
                continue
            while at < len(parent) and not _same(parent[at], told):
                at += 1
            if at == len(parent):
                break
            at += 1
            found += 1
            end = self._behind(place)
        return end if found > 1 or end <= self._unbroken() else self.first

    def _unbroken(self) -> int:
        """The place behind the opening rows that no pause of a second parts, rows older than the thread among them."""
        place = self._older()
        last = self.own.at
        while place < len(self.rows):
            at = self.rows[place].at
            if at is not None and last is not None and at - last >= _PAUSE:
                break
            last = _later(last, at)
            place += 1
        return place


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return other if one is None or (other is not None and other > one) else one


def _same(one: Usage, other: Usage) -> bool:
    return (one.input_tokens, one.cache_read_tokens, one.output_tokens, one.total_tokens, one.last) == (
        other.input_tokens,
        other.cache_read_tokens,
        other.output_tokens,
        other.total_tokens,
        other.last,
    )


def _running(seen: Observation) -> Usage | None:
    return seen.usage if seen.usage is not None and seen.usage.running is not None else None


def _totals(rows: Iterable[Observation]) -> Iterator[Usage]:
    return (told for seen in rows if (told := _running(seen)) is not None)
