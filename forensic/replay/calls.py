"""Calls: which call an id names at a place of the recording.

Ids should name one call. Some models number their calls from nought in every answer, and every thread of theirs does
the same: then an id names the call that stands last before the place, among those of the same agent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import Any

from msgspec import Struct

from forensic.model import Execution, Node, ToolRequest

__all__ = ["Calls"]


class _Entry(Struct):
    """A call of an agent, and its place."""

    number: int
    agent: str | None
    node: Node


class Calls:
    """All calls that have an id, in recorded order."""

    def __init__(self) -> None:
        """None are known."""
        self._known: dict[str, _Entry | _Namesakes] = {}

    def add(self, call: str, number: int, agent: str | None, node: Node) -> None:
        """Note a call, or that an agent names a known one once more."""
        entry = _Entry(number, agent, node)
        known = self._known.setdefault(call, entry)
        if isinstance(known, _Namesakes):
            known.add(entry)
        elif known is not entry and (known.node is not node or known.agent != agent):
            self._known[call] = namesakes = _Namesakes()
            namesakes.add(known)
            namesakes.add(entry)

    def again(self, seen: ToolRequest | Execution, number: int) -> Node | None:
        """The call that a row tells of again: the id is the same, and so is all that was asked.

        What copies a row, or tells that what was asked for ran, may word it differently.
        """
        entries = None if seen.call is None else self._known.get(seen.call)
        if entries is None:
            return None
        known = self.before(seen.call, number, seen.agent)
        if known is not None and (seen.via is not None or type(known.seen) is not type(seen)):
            return known
        if isinstance(entries, _Namesakes):
            return entries.asking(seen.name, seen.input, seen.agent)
        return entries.node if _asked(entries.node) == (seen.name, seen.input) else None

    def before(self, call: str | None, number: int, agent: str | None) -> Node | None:
        """The last call of this id before a place; where all are behind it, the first."""
        entries = None if call is None else self._known.get(call)
        if isinstance(entries, _Namesakes):
            return entries.before(number, agent)
        return None if entries is None or entries.agent != agent else entries.node

    def open(self, call: str | None, number: int, agent: str | None) -> Node | None:
        """The same, but one that nothing has answered goes before the others."""
        entries = None if call is None else self._known.get(call)
        waiting = entries.open(number, agent) if isinstance(entries, _Namesakes) else None
        return waiting or self.before(call, number, agent)

    def anybodys(self, call: str, number: int, agent: str | None) -> Node | None:
        """The same as `before`, of another agent when its own has none: who tells of a call need not have made it."""
        entries = self._known.get(call)
        if isinstance(entries, _Namesakes):
            return entries.before(number, agent) or entries.anothers(agent)
        return None if entries is None else entries.node


class _Namesakes:
    """The calls of one id, which may be thousands: none of these questions looks at all of them."""

    def __init__(self) -> None:
        self._of: dict[str | None, _Own] = {}
        self._asking: dict[Hashable, dict[str | None, tuple[_Entry, _Entry]]] = {}
        """By what was asked and by agent, the first call and the last."""

    def add(self, entry: _Entry) -> None:
        self._of.setdefault(entry.agent, _Own()).add(entry)
        if (asked := _asked(entry.node)) is not None:
            ends = self._asking.setdefault(_frozen(asked), {})
            ends[entry.agent] = (ends.get(entry.agent, (entry,))[0], entry)

    def asking(self, name: str, given: Any, agent: str | None) -> Node | None:
        """The agent's last call that asks just this; else the first of another agent."""
        ends = self._asking.get(_frozen((name, given)), {})
        if agent in ends:
            return ends[agent][1].node
        return next((first.node for first, _ in ends.values()), None)

    def before(self, number: int, agent: str | None) -> Node | None:
        own = self._of.get(agent)
        return None if own is None else own.before(number)

    def open(self, number: int, agent: str | None) -> Node | None:
        own = self._of.get(agent)
        return None if own is None else own.open(number)

    def anothers(self, agent: str | None) -> Node | None:
        """The first call of another agent."""
        return next((own.first for other, own in self._of.items() if other != agent), None)


class _Own:
    """The calls of one id and one agent, as they were noted: of a few runs, in each of which places rise."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._nodes: list[Node] = []
        self._runs: list[int] = []
        """Where each begins."""
        self._left: list[int] = []
        """For each call the next one to the left that may still be open."""

    @property
    def first(self) -> Node:
        return self._nodes[0]

    def add(self, entry: _Entry) -> None:
        place = len(self._nodes)
        if not place or entry.number < self._numbers[-1]:
            self._runs.append(place)
        self._numbers.append(entry.number)
        self._nodes.append(entry.node)
        self._left.append(place - 1)

    def before(self, number: int) -> Node:
        return next((self._nodes[last] for start, last in self._before(number) if last >= start), self.first)

    def open(self, number: int) -> Node | None:
        for start, last in self._before(number):
            place = self._unanswered(start, last)
            if place >= start:
                return self._nodes[place]
        return None

    def _before(self, number: int) -> Iterator[tuple[int, int]]:
        """Of each run, the last first, where it begins and its last place before a number."""
        stop = len(self._nodes)
        for start in reversed(self._runs):
            yield start, bisect_left(self._numbers, number, start, stop) - 1
            stop = start

    def _unanswered(self, start: int, place: int) -> int:
        """The last from `place` back to `start` that nothing has answered."""
        passed = []
        while place >= start and self._nodes[place].outcome is not None:
            passed.append(place)
            place = self._left[place]
        # what is answered stays so
        for one in passed:
            self._left[one] = place
        return place


def _asked(node: Node) -> tuple[str, object] | None:
    return (node.seen.name, node.seen.input) if isinstance(node.seen, ToolRequest | Execution) else None


def _frozen(value: Any) -> Hashable:
    """A value as one that can be looked up: equal to another's exactly where the two values are equal."""
    if isinstance(value, dict):
        return frozenset((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    leaf: Hashable = value
    return leaf
