"""Echoes: things that a producer tells twice, as an item and as an event beside it, without an id in common.

The two have kind, agent, turn and text in common; of several such pairs the first item goes with the first event, the
second with the second.
"""

from __future__ import annotations

from collections import deque

import msgspec

from forensic.model import Injected, Node, Observation, Prompt, Response, Thought, ToolRequest
from forensic.replay.pieces import gist

__all__ = ["Echoes"]

_KINDS: dict[type[Observation], str] = {Prompt: "said", Injected: "said", Response: "response", Thought: "thought"}
"""Kinds that are told twice; a text in the user's role may be taken for one thing here and another there."""

_Mark = tuple[str, str | None, str | None, str | bytes | None]

_encode = msgspec.json.Encoder(order="deterministic").encode


class Echoes:
    """Nodes that an event may tell of again, in the order of their items."""

    def __init__(self, *, expected: bool = True) -> None:
        """Start with none; where no event is `expected`, none is remembered either."""
        self._expected = expected
        self._waiting: dict[_Mark, deque[Node]] = {}

    def remember(self, seen: Observation, turn: str | None, node: Node) -> None:
        """Note the node of an item."""
        if self._expected and seen.via is None and (mark := _mark(seen, turn)) is not None:
            self._waiting.setdefault(mark, deque()).append(node)

    def match(self, seen: Observation, turn: str | None) -> Node | None:
        """The node of the item that this event tells of, each only once."""
        waiting = self._waiting.get(_mark(seen, turn) or ("", None, None, None))
        return waiting.popleft() if waiting else None


def _mark(seen: Observation, turn: str | None) -> _Mark | None:
    if isinstance(seen, ToolRequest):
        # an item whose call has an id is joined by that
        asked = None if seen.call is not None and seen.via is None else _encode((seen.name, seen.input))
        return None if asked is None else ("request", seen.agent, turn, asked)
    kind = _KINDS.get(type(seen))
    return None if kind is None else (kind, seen.agent, turn, gist(seen))
