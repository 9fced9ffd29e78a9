"""Which call an id names where thousands of calls have it, against a list that is looked through."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from score import ref

from forensic.model import Node, Outcome, ToolRequest
from forensic.replay.calls import Calls

AGENTS = st.sampled_from([None, "a", "b"])
INPUTS: list[Any] = [1, 1.0, True, "1", [1], [True], {"a": [1]}, {"a": [1.0]}, {}, [], None]
"""What Python takes for the same is the same here."""


def request(agent: str | None, given_: Any, via: str | None = None) -> ToolRequest:
    return ToolRequest(ref=ref(0), agent=agent, name="tool", input=given_, call="0", via=via)


class Plain:
    """All calls of one id, in the order in which they were noted."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, str | None, Node]] = []

    def of(self, agent: str | None) -> list[tuple[int, Node]]:
        return [(number, node) for number, of, node in self.calls if of == agent]

    def others(self, agent: str | None) -> list[Node]:
        return [node for _, of, node in self.calls if of != agent]

    def before(self, number: int, agent: str | None) -> Node | None:
        own = self.of(agent)
        return next((node for at, node in reversed(own) if at < number), own[0][1] if own else None)

    def open(self, number: int, agent: str | None) -> Node | None:
        waiting = (node for at, node in reversed(self.of(agent)) if at < number and node.outcome is None)
        return next(waiting, None) or self.before(number, agent)

    def anybodys(self, number: int, agent: str | None) -> Node | None:
        return self.before(number, agent) or next(iter(self.others(agent)), None)

    def again(self, seen: ToolRequest, number: int) -> Node | None:
        known = self.before(number, seen.agent)
        if known is not None and seen.via is not None:
            return known
        mine = [node for _, node in reversed(self.of(seen.agent))]
        return next((node for node in (*mine, *self.others(seen.agent)) if asks(node) == (seen.name, seen.input)), None)


def asks(node: Node) -> tuple[str, Any]:
    assert isinstance(node.seen, ToolRequest)
    return node.seen.name, node.seen.input


@given(st.data())
def test_every_question_has_the_answer_of_a_list(data: st.DataObject) -> None:
    """Whatever was noted and answered before; places rise in each of several runs."""
    calls, plain = Calls(), Plain()
    for _ in range(data.draw(st.integers(1, 3))):
        for number in sorted(data.draw(st.sets(st.integers(0, 40), max_size=12))):
            agent, given_ = data.draw(AGENTS), data.draw(st.sampled_from(INPUTS))
            seen = request(agent, given_, data.draw(st.sampled_from([None, None, "event"])))
            assert calls.again(seen, number) is plain.again(seen, number)
            node = Node(seen=seen)
            calls.add("0", number, agent, node)
            plain.calls.append((number, agent, node))
            place, whose = data.draw(st.integers(0, 41)), data.draw(AGENTS)
            for ask in ("before", "open", "anybodys"):
                assert getattr(calls, ask)("0", place, whose) is getattr(plain, ask)(place, whose)
            answered = calls.open("0", place, whose)
            if answered is not None and answered.outcome is None and data.draw(st.booleans()):
                answered.outcome = Outcome(outcome="ok")
    assert calls.before("1", 0, None) is None
    assert calls.open(None, 0, None) is None


def test_a_call_that_is_named_once_more_is_one_call() -> None:
    """The same node under the same id, once or among others."""
    calls = Calls()
    first, other = Node(seen=request(None, 1)), Node(seen=request(None, 2))
    calls.add("0", 1, None, first)
    calls.add("0", 2, None, first)
    assert calls.before("0", 9, None) is first
    calls.add("0", 3, None, other)
    calls.add("0", 4, None, first)
    assert [calls.before("0", at, None) for at in (2, 4, 5)] == [first, other, first]
