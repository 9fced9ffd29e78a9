"""Subagents that start subagents: circles, turns and times, against what a walk from each of them would say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from score import at, ref

from forensic.model import Node, Ref, SubagentFrame, SubagentStart, ToolRequest
from forensic.replay.calls import Calls
from forensic.replay.subagents import Subagents

Parents = dict[str, str | None]
"""Of each subagent, in the order in which they are told of, the agent that started it: None is the main one."""


@st.composite
def families(draw: st.DrawFn) -> Parents:
    names = draw(st.permutations([f"{number}" for number in range(draw(st.integers(1, 9)))]))
    return {name: draw(st.sampled_from([None, *names])) for name in names}


def second(agent: str) -> int:
    return 1 + 7 * int(agent) % 13


class Family:
    """Subagents of which each has one piece of its own, a call for each that it has started, and all hung."""

    def __init__(self, parents: Parents) -> None:
        self.circles: list[Ref | None] = []
        self.calls: list[Node] = []
        self.subagents = Subagents(self.find)
        calls = Calls()
        self.owner: dict[int, tuple[str | None, str | None]] = {}
        for number, (agent, parent) in enumerate(parents.items()):
            started = SubagentStart(ref=ref(number), spawned=agent, call=f"c{agent}", agent=parent)
            self.subagents.told(started, number)
            self.subagents.of(agent).items.append(Node(seen=ToolRequest(ref=ref(0), name="x", at=at(second(agent)))))
        for agent, parent in parents.items():
            node = Node(seen=ToolRequest(ref=ref(0), name="task", call=f"c{agent}", agent=parent))
            calls.add(f"c{agent}", 0, parent, node)
            self.owner[id(node)] = (parent, f"turn of {agent}" if parent is None else None)
            if parent is not None:
                self.subagents.of(parent).items.append(node)
            self.calls.append(node)
        self.subagents.resolve(calls, lambda call: self.owner[id(call)])
        self.turns = self.subagents.turns()
        self.loose = [node.seen.id for node in self.subagents.hang() if isinstance(node.seen, SubagentFrame)]

    def find(self, kind: str, _: str, place: Ref | None) -> None:
        if kind == "subagent-circle":
            self.circles.append(place)


def walked(parents: Parents) -> tuple[Parents, list[str]]:
    """The same without circles, of each of which the first that is told of is cut loose; and those."""
    left, loose = dict(parents), []
    for agent in parents:
        current, way = left[agent], set[str]()
        while current is not None and current != agent and current not in way:
            way.add(current)
            current = left[current]
        if current == agent:
            left[agent] = None
            loose.append(agent)
    return left, loose


@given(families())
def test_of_each_circle_the_first_is_cut_loose(parents: Parents) -> None:
    """And reported where it is told of; all others stay where they are."""
    family = Family(parents)
    _, loose = walked(parents)
    order = list(parents)
    assert family.circles == [ref(order.index(agent)) for agent in loose]
    assert family.loose == loose


@given(families())
def test_a_subagent_belongs_to_the_turn_of_the_first_call_above_it(parents: Parents) -> None:
    """One below a circle that was cut belongs to none."""
    left, loose = walked(parents)

    def turn(agent: str) -> str | None:
        above = left[agent]
        return turn(above) if above is not None else None if agent in loose else f"turn of {agent}"

    assert Family(parents).turns == {agent: turn(agent) for agent in parents}


@given(families())
def test_the_time_of_a_subagent_is_that_of_all_that_hung_below_it_by_then(parents: Parents) -> None:
    """What is hung later below one of its own is that one's, whoever else it could be said of."""
    left, loose = walked(parents)
    order = list(parents)

    def seconds(agent: str, by: int) -> list[int]:
        below = [child for child in order[:by] if left[child] == agent]
        return [second(agent), *(one for child in below for one in seconds(child, by))]

    children = [child.seen for call in Family(parents).calls for child in call.children]
    frames = {frame.id: frame for frame in children if isinstance(frame, SubagentFrame)}
    for agent, frame in frames.items():
        told = seconds(agent, order.index(agent))
        assert (frame.at, frame.until) == (at(min(told)), at(max(told)))
    assert frames.keys() == parents.keys() - set(loose)
