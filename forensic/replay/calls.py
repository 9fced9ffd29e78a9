"""Calls: which call an id names at a place of the recording.

Ids should name one call. Some models number their calls from nought in every answer, and every thread of theirs does
the same: then an id names the call that stands last before the place, among those of the same agent.
"""

from __future__ import annotations

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
        self._known: dict[str, _Entry | list[_Entry]] = {}

    def add(self, call: str, number: int, agent: str | None, node: Node) -> None:
        """Note a call, or that an agent names a known one once more."""
        entry = _Entry(number, agent, node)
        known = self._known.setdefault(call, entry)
        if isinstance(known, list):
            known.append(entry)
        elif known is not entry and (known.node is not node or known.agent != agent):
            self._known[call] = [known, entry]

    def again(self, seen: ToolRequest | Execution, number: int) -> Node | None:
        """The call that a row tells of again: the id is the same, and so is all that was asked.

        What copies a row, or tells that what was asked for ran, may word it differently.
        """
        if seen.call is None or seen.call not in self._known:
            return None
        mine, others = self._of(seen.call, seen.agent)
        known = self.before(seen.call, number, seen.agent)
        if known is not None and (seen.via is not None or type(known.seen) is not type(seen)):
            return known
        asked = (seen.name, seen.input)
        return next((entry.node for entry in (*reversed(mine), *others) if _asked(entry.node) == asked), None)

    def before(self, call: str | None, number: int, agent: str | None) -> Node | None:
        """The last call of this id before a place; where all are behind it, the first."""
        entries = self._of(call, agent)[0] if call is not None else []
        return next((entry.node for entry in reversed(entries) if entry.number < number), _first(entries))

    def open(self, call: str | None, number: int, agent: str | None) -> Node | None:
        """The same, but one that nothing has answered goes before the others."""
        entries = self._of(call, agent)[0] if call is not None else []
        waiting = (entry.node for entry in reversed(entries) if entry.number < number and entry.node.outcome is None)
        return next(waiting, None) or self.before(call, number, agent)

    def anybodys(self, call: str, number: int, agent: str | None) -> Node | None:
        """The same as `before`, of another agent when its own has none: who tells of a call need not have made it."""
        mine, others = self._of(call, agent)
        return self.before(call, number, agent) if mine else _first(others)

    def _of(self, call: str, agent: str | None) -> tuple[list[_Entry], list[_Entry]]:
        """What an id names for one agent, and for others."""
        known = self._known.get(call, ())
        entries = [known] if isinstance(known, _Entry) else known
        return [one for one in entries if one.agent == agent], [one for one in entries if one.agent != agent]


def _first(entries: list[_Entry]) -> Node | None:
    return entries[0].node if entries else None


def _asked(node: Node) -> tuple[str, object] | None:
    return (node.seen.name, node.seen.input) if isinstance(node.seen, ToolRequest | Execution) else None
