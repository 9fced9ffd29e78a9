"""Copies: rows that stand in a recording more than once, told by their own ids.

A row of its own comes before any copy inside another row, wherever the two stand; among equals the first counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from forensic.model import Injected, Node, Observation, Prompt, Ref
from forensic.replay.pieces import gist

__all__ = ["Copies"]

_KIN: dict[type[Observation], type[Observation]] = {Prompt: Injected, Injected: Prompt}
"""A text in the user's role may be one thing in the main stream and another in a subagent's copy of it."""


class Copies:
    """Which rows are copies, of what, and which node the first one made."""

    def __init__(self, observations: Iterable[Observation]) -> None:
        """Find out where each row id stands first, and which stand more than once."""
        self.repeated: set[Ref] = set()
        self._first: dict[str, Ref] = {}
        self._copied: set[str] = set()
        self._made: dict[tuple[str, type[Observation], str | None], Node] = {}
        inside = []
        for seen in observations:
            if seen.id is not None:
                if seen.via is None:
                    self._know(seen.id, seen.ref)
                else:
                    inside.append(seen)
        for seen in inside:
            self._know(seen.id or "", seen.ref)

    def _know(self, row: str, ref: Ref) -> None:
        first = self._first.setdefault(row, ref)
        if first is not ref and first != ref:
            self._copied.add(row)

    def known(self, row: str) -> bool:
        """Whether a row with this id stands in the recording."""
        return row in self._first

    def is_copy(self, seen: Observation) -> bool:
        """Whether the row stands somewhere before."""
        return seen.id is not None and seen.id in self._copied and self._first[seen.id] != seen.ref

    def remember(self, seen: Observation, node: Node) -> None:
        """Note what became of an observation, if its row stands more than once."""
        if seen.id is not None and seen.id in self._copied:
            self._made.setdefault((seen.id, type(seen), gist(seen)), node)

    def first(self, seen: Observation) -> Node | None:
        """The node that says the same, made of another copy of the row."""
        row, kind, what = seen.id or "", type(seen), gist(seen)
        node = self._made.get((row, kind, what)) or self._made.get((row, _KIN.get(kind, kind), what))
        return None if node is None or node.seen.ref == seen.ref else node

    def count(self, seen: Observation) -> None:
        """Count a row that stood in the recording before; a copy inside another row is no row."""
        if seen.via is None:
            self.repeated.add(seen.ref)
