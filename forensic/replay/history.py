"""History: what a thread took along of another one's, shown as it was written."""

from __future__ import annotations

from forensic.model import Basis, HistoryFrame, Node, Observation, Proof
from forensic.replay.echoes import Echoes
from forensic.replay.lineage import Lineage
from forensic.replay.pieces import kind_of

__all__ = ["History"]


class History:
    """The copied rows of one stream, under a frame of their own: `node`."""

    def __init__(self, line: Lineage, first: Observation) -> None:
        """Begin with the first of them."""
        frame = HistoryFrame(id=line.origin or "", rule=line.rule or "", ref=first.ref, part=first.part, at=first.at)
        self.node = Node(seen=frame)
        self._echoes = Echoes()
        self._events: list[Observation] = []

    def add(self, seen: Observation) -> None:
        """The next piece."""
        if seen.via == "event":
            self._events.append(seen)
            return
        node = Node(seen=seen)
        self._echoes.remember(seen, None, node)
        self.node.add(node)

    def finish(self) -> None:
        """Make events that tell of an item again evidence of it, wherever the two stand; others are pieces too."""
        for seen in self._events:
            known = self._echoes.match(seen, None)
            if known is None:
                self.node.add(Node(seen=seen))
            else:
                known.prove(Proof(seen.ref, seen.part, kind_of(seen), Basis.COMPARED, ("text",)))
