"""What the pieces of a tree have in common: their kind, their gist, their times, their order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from forensic import model
from forensic.model import Frame, Node, Observation, SubagentFrame, Text

__all__ = ["gist", "kind_of", "moments", "ordered"]

_EPOCH = datetime(1, 1, 1, tzinfo=UTC)
_KINDS = [kind for kind in vars(model).values() if isinstance(kind, type) and issubclass(kind, Observation)]
_CALLED = frozenset(kind for kind in _KINDS if "call" in kind.__struct_fields__)
_TEXTED = frozenset(kind for kind in _KINDS if "text" in kind.__struct_fields__)


def kind_of(seen: Observation | Frame) -> str:
    """The word for what it is, as documents spell it."""
    return str(seen.__struct_config__.tag)


def gist(seen: Observation) -> str | None:
    """What makes an observation the same as another of its kind: the call it is about, else its text."""
    kind = type(seen)
    if kind in _CALLED:
        call: str | None = seen.call  # type: ignore[attr-defined]  # that kind has it
        if call is not None:
            return call
    if kind in _TEXTED:
        text: Text | None = seen.text  # type: ignore[attr-defined]  # that kind has it
        return None if text is None else text.sha256
    return None


def moments(node: Node) -> Iterator[datetime]:
    """Every time in a piece: its own, its result's, its pieces'; those of a subagent below it are that one's."""
    stack = [node]
    while stack:
        piece = stack.pop()
        if isinstance(piece.seen, SubagentFrame):
            continue
        if piece.seen.at is not None:
            yield piece.seen.at
        if piece.outcome is not None and piece.outcome.result is not None and piece.outcome.result.at is not None:
            yield piece.outcome.result.at
        stack.extend(piece.children)


def ordered(items: list[Node]) -> list[Node]:
    """Pieces by the producer's clock; one without a time keeps its place behind the piece before it."""
    keys: list[datetime] = []
    last = _EPOCH
    for node in items:
        last = node.seen.at or last
        keys.append(last)
    if all(one <= other for one, other in pairwise(keys)):
        return items
    return [items[number] for number in sorted(range(len(items)), key=keys.__getitem__)]
