"""Openings: the calls that rows tell of and no total so far, and how a total finds those that it has counted.

A session may hold ten thousand of them while as many totals come that have counted none. So no total looks through all
that wait: it takes them from the front, asks by figures whether it is worth while to go on, and finds the ones that
name no model down a tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

from msgspec import Struct

from forensic.model import COUNTED, Counts, Observation, Usage
from forensic.replay.growth import COMPARED

__all__ = ["Open", "Openings", "Spent"]

_OUTPUT = COUNTED.index("output_tokens")
_FEW = 16
_TAKEN = 2**64
"""More output than any call has: at the place of one that waits no longer."""


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


class Open(Struct, eq=False):
    """A call that waits: its number among all that ever did, the largest of each figure, the rows that tell of it.

    `place` is where it stands among those that name no model.
    """

    number: int
    name: str
    counts: Counts
    model: str | None
    rows: list[Spent]
    waits: bool = True
    place: int = -1


class Openings:
    """The calls that wait, in the order in which they were first told of."""

    def __init__(self) -> None:
        """None waits."""
        self._named: dict[str, Open] = {}
        self._all = _Line(None)
        self._lines: dict[str, _Line] = {}
        self._modelless = _Modelless()
        self._count = 0

    def __bool__(self) -> bool:
        """Whether any call waits."""
        return bool(self._named)

    def get(self, name: str) -> Open | None:
        """The call of a name, if it waits."""
        return self._named.get(name)

    def add(self, name: str, counts: Counts, model: str | None, row: Spent) -> Open:
        """A call that is told of for the first time."""
        one = self._named[name] = Open(self._count, name, counts, model, [row])
        self._count += 1
        self._all.join(one)
        self._joins(one)
        self._counted(one, 1)
        return one

    def learn(self, one: Open, counts: Counts, model: str | None) -> None:
        """What is known of a waiting call that is told of again."""
        if (counts, model) == (one.counts, one.model):
            return
        self._counted(one, -1)
        if one.model is None:
            self._modelless.drop(one)
        moved = model != one.model
        one.counts, one.model = counts, model
        if moved or model is None:
            self._joins(one)
        self._counted(one, 1)

    def close(self, one: Open) -> None:
        """A call that waits no longer."""
        if one.waits:
            self._counted(one, -1)
            if one.model is None:
                self._modelless.drop(one)
            one.waits = False
            del self._named[one.name]

    def first(self, model: str | None) -> Open | None:
        """The first one of a model, or of all."""
        line = self._line(model)
        return None if line is None else line.first()

    def nothings(self, model: str | None, whole: Counts) -> bool:
        """Whether one of a model, or of all, has nothing of any figure that `whole` tells."""
        line = self._line(model)
        return line is not None and line.nothings(whole)

    def modelless(self, output: int) -> Open | None:
        """The first one that names no model and has no more output than that."""
        return self._modelless.first(output)

    def few_modelless(self, most: int) -> list[Open] | None:
        """All that name no model; None when they are more than `most`."""
        return list(self._modelless) if self._modelless.count <= most else None

    def _line(self, model: str | None) -> _Line | None:
        return self._all if model is None else self._lines.get(model)

    def _joins(self, one: Open) -> None:
        if one.model is None:
            self._modelless.put(one)
        else:
            self._lines.setdefault(one.model, _Line(one.model)).join(one)

    def _counted(self, one: Open, by: int) -> None:
        kind = _kind(one.counts)
        self._all.kinds[kind] += by
        if one.model is not None:
            self._lines[one.model].kinds[kind] += by


class _Line:
    """The waiting calls of one model, or of all, by their numbers, and how many there are of each kind."""

    def __init__(self, model: str | None) -> None:
        self.kinds: Counter[int] = Counter()
        self._model = model
        self._calls: list[tuple[int, Open]] = []

    def join(self, one: Open) -> None:
        heappush(self._calls, (one.number, one))

    def first(self) -> Open | None:
        # those that were taken from further behind go once they are in front
        calls = self._calls
        while calls:
            one = calls[0][1]
            if one.waits and self._model in (None, one.model):
                return one
            heappop(calls)
        return None

    def nothings(self, whole: Counts) -> bool:
        told = sum(1 << bit for bit, place in enumerate(COMPARED) if whole[place] is not None)
        return any(count and not kind & told for kind, count in self.kinds.items())


def _kind(counts: Counts) -> int:
    """Which figures of a call are more than nothing."""
    return sum(1 << bit for bit, place in enumerate(COMPARED) if counts[place])


class _Modelless:
    """The waiting calls that name no model, under a tree of the least output below each of its nodes."""

    def __init__(self) -> None:
        self.count = 0
        self._calls: list[Open] = []
        self._size = _FEW
        self._least = [_TAKEN] * (2 * _FEW)

    def __iter__(self) -> Iterator[Open]:
        nodes = [1]
        while nodes:
            node = nodes.pop()
            if self._least[node] == _TAKEN:
                continue
            if node < self._size:
                nodes += (2 * node + 1, 2 * node)
            else:
                yield self._calls[node - self._size]

    def put(self, one: Open) -> None:
        if one.place < 0:
            if len(self._calls) == self._size:
                self._make_room()
            one.place = len(self._calls)
            self._calls.append(one)
        self.count += 1
        self._set(one.place, one.counts[_OUTPUT] or 0)

    def drop(self, one: Open) -> None:
        self.count -= 1
        self._set(one.place, _TAKEN)

    def first(self, output: int) -> Open | None:
        least, node = self._least, 1
        if least[node] > output:
            return None
        while node < self._size:
            node *= 2
            node += least[node] > output
        return self._calls[node - self._size]

    def _set(self, place: int, output: int) -> None:
        least, node = self._least, self._size + place
        least[node] = output
        while node > 1:
            node //= 2
            least[node] = min(least[2 * node], least[2 * node + 1])

    def _make_room(self) -> None:
        """Leave those behind that wait no longer, and make room for as many again as do."""
        self._calls = list(self)
        self._size = _FEW
        while self._size < 2 * len(self._calls):
            self._size *= 2
        outputs = [one.counts[_OUTPUT] or 0 for one in self._calls]
        self._least = [*[_TAKEN] * self._size, *outputs, *[_TAKEN] * (self._size - len(outputs))]
        for place, one in enumerate(self._calls):
            one.place = place
        for node in range(self._size - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])
