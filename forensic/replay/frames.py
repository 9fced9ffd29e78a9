"""Frames: what the finished tree is made of besides its pieces, and the result that it is handed on in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from forensic.model import Finding, Node, Observation, Prompt, SessionEnd, SessionStart, StepFrame, Title, TurnFrame
from forensic.replay.copies import Copies
from forensic.replay.pieces import moments, ordered
from forensic.replay.turns import Turn, Turns

__all__ = ["Placed", "Step", "name_models", "title_of", "turn_nodes"]


class Placed(Struct):
    """The reconciler's result: the tree, what was laid aside, trouble, and the indexes that usage and summary need."""

    root: Node
    aside: list[Observation]
    findings: list[Finding]
    turns: Turns
    turn_of: dict[int, str | None]
    """Turn of each observation that carries usage, by its position in the session."""
    turn_of_agent: dict[str, str | None]
    """Turn of the call that started each subagent."""
    calls: list[Node]
    executions: list[Node]
    """Tools that ran inside a call of the model's, each told by the client alone."""
    steps: int
    without_usage: int
    repeated: int
    subagents: int
    rowless: int
    compactions: list[str]
    """The stream of each that a model made and that tells no usage; a client may also shorten by itself."""


class Step(Struct):
    """One model message while its pieces are being found."""

    node: Node
    agent: str | None
    turn: str | None
    by_row: bool
    pieces: dict[tuple[type[Observation], str | None], Node] | None = None


def name_models(steps: Mapping[str, Step], models: Mapping[str, str]) -> None:
    """Give each message the model that its usage names, wherever that was told."""
    for name, step in steps.items():
        frame = step.node.seen
        if isinstance(frame, StepFrame) and frame.model is None and name in models:
            step.node.seen = replace(frame, model=models[name])


def title_of(titles: Iterable[Title], copies: Copies, first: Prompt | None) -> str | None:
    """The last title given to this session, a person's before a machine's; else the first prompt.

    A title that names a row of another session as its place belongs to that one.
    """
    own = [title for title in titles if title.leaf is None or copies.known(title.leaf)]
    by_hand = [title for title in own if title.source == "custom"]
    titled = by_hand or own
    if titled:
        return titled[-1].text.preview
    return None if first is None else first.text.preview


def turn_nodes(turns: Iterable[Turn], items_of: dict[str, list[Node]]) -> list[Node]:
    """A node for each turn, with its pieces by the clock; `items_of` is emptied."""
    nodes = []
    for turn in turns:
        items = ordered(items_of.pop(turn.id, []))
        # a session may begin again or be closed long after the turn that it follows
        times = [at for node in items if not isinstance(node.seen, SessionStart | SessionEnd) for at in moments(node)]
        frame = TurnFrame(
            id=turn.id,
            number=turn.number,
            source=turn.source,
            aborted=turn.aborted,
            ref=items[0].seen.ref if items else None,
            part=items[0].seen.part if items else 0,
            at=min(times, default=None),
            until=max(times, default=None),
        )
        nodes.append(Node(seen=frame, children=items))
    return nodes
