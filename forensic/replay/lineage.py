"""Lineage: which rows of a forked or spawned thread are another thread's history, written down again.

Such rows were done and paid for elsewhere. Where they end is told by the producer (`own_from`); else they are older
than the thread that holds them, or repeat the running totals of the parent's own stream, or came in the burst in which
a client copies them. Only the first is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct, field

from forensic.model import Observation, Ref, SessionStart, Usage

__all__ = ["Lineage", "Lines", "Snapshot", "snapshots", "trace"]

_PAUSE = timedelta(seconds=1)
_SHORT_PAUSE = timedelta(milliseconds=200)
"""Copied rows follow each other within 40 ms; where nothing else speaks for a copy, a model may be just this quick."""

_NO_STAMPS: Final[Mapping[Ref, Observation]] = MappingProxyType({})


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


class Snapshot(Struct, frozen=True, array_like=True):
    """What a running total told, and when."""

    at: datetime | None
    usage: Usage


class Lines(Struct):
    """The lineage of every stream that tells one; `inherited` holds the positions of all copied observations."""

    by_stream: dict[str, Lineage] = field(default_factory=dict)
    inherited: frozenset[int] = frozenset()

    def told_apart(self, session: str = "") -> dict[str, str]:
        """The rule by which each thread's history was told apart; one without a name goes by session and stream."""
        return {
            line.thread or f"{session}/{stream}": line.rule
            for stream, line in self.by_stream.items()
            if line.rule is not None
        }

    def rules(self) -> dict[str, int]:
        """How many threads were told apart by each rule."""
        return Counter(self.told_apart().values())


def trace(
    observations: Sequence[Observation],
    parents: Mapping[str, Sequence[Snapshot]] | None = None,
    stamps: Mapping[Ref, Observation] = _NO_STAMPS,
) -> Lines:
    """The lineage of all streams of one session, given in recorded order.

    `parents` are the running totals of threads outside of this session, by thread id, in their order. `stamps` say when
    rows were written, and with which number, of which the observations do not.
    """
    lines = Lines()
    wanted = {seen.ref.stream for seen in observations if type(seen) is SessionStart}
    if not wanted:
        return lines
    streams: dict[str, list[int]] = {}
    for number, seen in enumerate(observations):
        if seen.ref.stream in wanted:
            streams.setdefault(seen.ref.stream, []).append(number)
    histories = [_History([observations[number] for number in numbers], stamps) for numbers in streams.values()]
    totals = dict(parents or {})
    for history in histories:
        if history.own.thread is not None:
            totals.setdefault(history.own.thread, list(snapshots(history.rows)))
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

    def __init__(self, rows: Sequence[Observation], stamps: Mapping[Ref, Observation]) -> None:
        self.rows = rows
        self._stamps = stamps
        starts = [place for place, seen in enumerate(rows) if isinstance(seen, SessionStart)]
        self.own = self._start(starts[0])
        self.first = self._behind(starts[0])
        thread = self.own.thread
        self._foreign = next((at for at in starts if self._start(at).thread not in (None, thread)), None)
        # what names itself as its origin names none
        self._forked = self.own.forked_from if self.own.forked_from != thread else None
        self._spawned = self.own.parent is not None and self.own.parent != thread
        declared = self._forked or (self.own.parent if self._spawned else None)
        foreign = None if self._foreign is None else self._start(self._foreign).thread
        self.line = Lineage(thread=thread, origin=declared or foreign, declared=declared is not None)

    def judge(self, parent: Sequence[Snapshot]) -> tuple[str | None, int]:
        """The rule that told the copied rows apart, and the place behind the last of them."""
        older = self._older()
        if self.own.own_from is not None and self._numbered(older):
            end = self._ordinal(self.own.own_from)
            return ("ordinal" if end > self.first else None), end
        burst = self._burst(older)
        told = self._before(parent, older)
        matched = self._matched(told, older)
        if matched > self.first:
            return "match", self._reach(matched, burst, frozenset(told))
        if burst > older:
            return "burst", burst
        if older > self.first:
            return "time", older
        first = next(snapshots(self.rows), None)
        untold = self.line.declared and first is not None and first.usage.last is None
        return ("none" if untold else None), self.first

    @cached_property
    def _moments(self) -> list[_Moment]:
        """The moment of each observation: what one part of a row does not tell another one, or a stamp, may."""
        found: list[_Moment] = []
        for ref, parts in groupby(self.rows, key=lambda seen: seen.ref):
            told = list(parts)
            known = [*told, self._stamps[ref]] if ref in self._stamps else told
            at = next((one.at for one in known if one.at is not None), None)
            ordinal = next((one.ordinal for one in known if one.ordinal is not None), None)
            found.extend(_Moment(one.at or at, ordinal if one.ordinal is None else one.ordinal) for one in told)
        return found

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

    def _numbered(self, older: int) -> bool:
        """Whether the producer's own boundary can be believed: rows are numbered, and none that it denies stands there.

        Where it says that nothing was taken along, and the copy of another thread's first row says otherwise, it is
        a default of the format and no boundary.
        """
        if self.own.own_from == 0 and self._head(older) is not None:
            return False
        return any(self._moments[place].ordinal is not None for place in range(self.first, len(self.rows)))

    def _ordinal(self, own_from: int) -> int:
        for place in range(self.first, len(self.rows)):
            if (self._moments[place].ordinal or 0) >= own_from:
                return place
        return len(self.rows)

    def _head(self, start: int) -> int | None:
        """The place of the origin's own first row, if a copy that goes on at `start` begins with it."""
        return self._foreign if self._foreign is not None and self._foreign <= start else None

    def _older(self) -> int:
        """The place behind the rows that are older than the thread that holds them."""
        place, began = self.first, self.own.at
        while began is not None and place < len(self.rows) and (at := self._moments[place].at) and at < began:
            place += 1
        return place

    def _burst(self, start: int) -> int:
        """The place behind the rows copied without a pause, from `start` on.

        A spawned thread is given its task in the same burst: what follows the last copied total is its own. A fork
        waits for a person. Without a total and without the origin's own first row, which the copy begins with, nothing
        speaks for a copy.
        """
        head = self._head(start)
        begin = start if head is None else max(start, self._behind(head))
        end = self._unbroken(begin, head, _SHORT_PAUSE if head is None else _PAUSE)
        totals = [at for at in range(begin, end) if _running(self.rows[at]) is not None]
        if not self._spawned and (totals or head is not None):
            return end
        if totals:
            return self._behind(totals[-1])
        return begin

    def _unbroken(self, place: int, head: int | None, pause: timedelta) -> int:
        """The place behind the rows from `place` on that no pause parts from the thread's first one, or the `head`."""
        last = self.own.at if head is None else _later(self.own.at, self.rows[head].at)
        while place < len(self.rows):
            at = self._moments[place].at
            if at is not None and last is not None and at - last >= pause:
                break
            last = _later(last, at)
            place += 1
        return place

    def _before(self, parent: Sequence[Snapshot], older: int) -> list[_Figures]:
        """What the parent told before this thread began: what it told later is no history of it."""
        head = self._head(older)
        began = self.own.at if head is None else _later(self.own.at, self.rows[head].at)
        return [_figures(one.usage) for one in parent if began is None or one.at is None or one.at <= began]

    def _matched(self, told: Sequence[_Figures], older: int) -> int:
        """The place behind the last of the opening totals that repeat the parent's, in the parent's order.

        Those that no pause came before are copies. Behind a pause one alone may be chance; and all may be in a spawned
        thread, which gets a task and not a history, unless a copy of the parent's first row or of earlier totals says
        that it got one.
        """
        head = self._head(older)
        begin = older if head is None else max(older, self._behind(head))
        quick, quickly, slowly, at, slow = self._unbroken(begin, head, _PAUSE), self.first, self.first, 0, 0
        for place in range(self.first, len(self.rows)):
            mine = _running(self.rows[place])
            if mine is None:
                continue
            figures = _figures(mine)
            while at < len(told) and told[at] != figures:
                at += 1
            if at == len(told):
                break
            at += 1
            if place < quick:
                quickly = self._behind(place)
            else:
                slow += 1
                slowly = self._behind(place)
        given = head is not None or not self._spawned or quickly > self.first
        return slowly if slow > 1 and given else quickly

    def _reach(self, matched: int, burst: int, told: frozenset[_Figures]) -> int:
        """How far a copy goes behind its last matched total: as far as the burst, but to no total of the thread's own.

        A total that the parent did not tell is one, and a model may be as quick as that.
        """
        for place in range(matched, burst):
            running = _running(self.rows[place])
            if running is None:
                continue
            if _figures(running) not in told:
                return matched
            matched = self._behind(place)
        return max(matched, burst)


class _Moment(NamedTuple):
    """When a row was written, and its number, as far as it tells."""

    at: datetime | None
    ordinal: int | None


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return other if one is None or (other is not None and other > one) else one


_Figures = tuple[object, ...]


def _figures(told: Usage) -> _Figures:
    """What must be equal in two totals that are copies."""
    own = (told.input_tokens, told.cache_read_tokens, told.output_tokens, told.total_tokens)
    return own if told.last is None else (*own, *_figures(told.last))


def _running(seen: Observation) -> Usage | None:
    return seen.usage if seen.usage is not None and seen.usage.running is not None else None


def snapshots(rows: Iterable[Observation]) -> Iterator[Snapshot]:
    """What running totals tell, row by row."""
    return (Snapshot(seen.at, told) for seen in rows if (told := _running(seen)) is not None)
