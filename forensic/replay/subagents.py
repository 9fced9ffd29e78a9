"""Subagents: what is known of each, and the call that an identifier ties it to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct, field

from forensic.model import Basis, Node, Proof, Ref, SubagentFrame, SubagentStart, ToolRequest, ToolResult
from forensic.replay.calls import Calls
from forensic.replay.pieces import kind_of, moments, ordered

__all__ = ["PLACEHOLDER", "Subagent", "Subagents"]

PLACEHOLDER = "sidechain"
"""Agent of rows that only say they are a subagent's; they yield to the subagent's own file."""

_GROUNDS = ("side-file", "row", "result", "progress")
"""What ties a subagent to a call, most trusted first."""

Owner = Callable[[Node], tuple[str | None, str | None]]
Find = Callable[[str, str, Ref | None], None]
_Span = tuple[datetime | None, datetime | None]


class Link(Struct, frozen=True):
    """The call that an entry ties a subagent to: its id, where the entry stands, and whose it is."""

    call: str
    number: int
    agent: str | None


class Subagent(Struct):
    """A subagent while it is being found: its pieces, the calls that entries tie it to, what proves it."""

    id: str
    items: list[Node] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    agent_type: str | None = None
    description: str | None = None
    workflow: str | None = None
    proofs: list[Proof] = field(default_factory=list)
    seen: bool = False

    @property
    def first(self) -> Ref | None:
        """Where it is first told of."""
        return self.proofs[0].ref if self.proofs else None


class Subagents:
    """All subagents of a session, in the order they were first told of."""

    def __init__(self, find: Find) -> None:
        """Report trouble to `find`."""
        self.known: dict[str, Subagent] = {}
        self._find = find
        self._spawners: dict[str, tuple[str, Node]] = {}
        self._owner: Owner = lambda _: (None, None)

    def of(self, agent: str) -> Subagent:
        """A subagent by its native id."""
        return self.known.get(agent) or self.known.setdefault(agent, Subagent(agent))

    def told(self, seen: SubagentStart, number: int) -> None:
        """Take what one entry, the `number`-th of the session, knows of a subagent."""
        agent = self.of(seen.spawned)
        agent.agent_type = agent.agent_type or seen.agent_type
        agent.description = agent.description or seen.description
        agent.workflow = agent.workflow or seen.workflow
        agent.proofs.append(Proof(seen.ref, seen.part, kind_of(seen), Basis.EXACT, ("agent",)))
        beside = seen.ref.stream.startswith("files/")
        self.link(seen.spawned, "progress" if seen.via else "side-file" if beside else "row", seen, number)

    def link(self, spawned: str, ground: str, seen: SubagentStart | ToolResult, number: int) -> None:
        """Note which call an entry ties a subagent to."""
        agent = self.of(spawned)
        if seen.call is not None:
            agent.links.setdefault(ground, Link(seen.call, number, seen.agent))

    def resolve(self, calls: Calls, owner: Owner) -> None:
        """Decide which call started each subagent; break circles. `owner` tells a call's agent and turn."""
        self._owner = owner
        for agent in self.known.values():
            named = [(ground, agent.links[ground]) for ground in _GROUNDS if ground in agent.links]
            if len({link.call for _, link in named}) > 1:
                self._find("subagent-claimed-twice", "records tie one subagent to different calls", agent.first)
            for ground, link in named:
                call = calls.anybodys(link.call, link.number, link.agent)
                if call is not None:
                    self._spawners[agent.id] = (ground, call)
                    break
        circular = self._circular()
        for agent in self.known.values():
            if agent.id in circular:
                self._find("subagent-circle", "subagents that claim to have started each other", agent.first)
                del self._spawners[agent.id]

    def hang(self) -> list[Node]:
        """Put each subagent under its call; the ones that nothing ties to a call are returned."""
        loose = []
        spans = _Spans({agent: self._parent(agent) for agent in self.known})
        for agent in self.known.values():
            spawner = self._spawners.get(agent.id)
            items = ordered(agent.items)
            times = [at for item in items for at in moments(item)]
            own = min(times, default=None), max(times, default=None)
            node = _node(agent, items, spawner, spans.add(agent.id, own))
            if spawner is not None:
                spawner[1].add(node)
            else:
                loose.append(node)
                if agent.seen:
                    self._find("subagent-unlinked", "nothing ties a subagent to its call", node.seen.ref)
            if not agent.seen:
                self._find("subagent-without-rows", "a subagent is named but no row of it was found", node.seen.ref)
        return loose

    def turns(self) -> dict[str, str | None]:
        """For each subagent the turn of the call that started it, through the subagents in between."""
        turns: dict[str, str | None] = {}
        for agent in self.known:
            way: list[str] = []
            current: str | None = agent
            turn: str | None = None
            while current is not None and current not in turns:
                way.append(current)
                spawner = self._spawners.get(current)
                current, turn = (None, None) if spawner is None else self._owner(spawner[1])
            turns.update(dict.fromkeys(way, turn if current is None else turns[current]))
        return {agent: turns[agent] for agent in self.known}

    def _parent(self, agent: str) -> str | None:
        spawner = self._spawners.get(agent)
        return None if spawner is None else self._owner(spawner[1])[0]

    def _circular(self) -> set[str]:
        """Of each circle the subagent that was first told of."""
        told = {agent: number for number, agent in enumerate(self.known)}
        found: set[str] = set()
        walked: set[str] = set()
        for agent in self.known:
            way: dict[str, None] = {}
            current: str | None = agent
            while current is not None and current not in walked:
                walked.add(current)
                way[current] = None
                current = self._parent(current)
            if current in way:
                circle = list(way)
                found.add(min(circle[circle.index(current) :], key=lambda one: told[one]))
        return found


class _Spans:
    """From when until when something happened in each subagent, and in those that hang below it by then.

    What hangs together has one span, kept with the highest: so none is looked through again for each above it.
    """

    def __init__(self, parents: Mapping[str, str | None]) -> None:
        self._parents = parents
        self._children: dict[str | None, list[str]] = {}
        for agent, parent in parents.items():
            self._children.setdefault(parent, []).append(agent)
        self._above: dict[str, str] = {}
        self._spans: dict[str, _Span] = {}

    def add(self, agent: str, own: _Span) -> _Span:
        """The span of the next one, given that of its own pieces."""
        self._spans[agent] = own
        for child in self._children.get(agent, ()):
            if child in self._spans:
                self._join(child, agent)
        span = self._spans[agent]
        parent = self._parents[agent]
        if parent is not None and parent in self._spans:
            self._join(agent, parent)
        return span

    def _join(self, lower: str, upper: str) -> None:
        top = self._top(upper)
        spans = self._spans[lower], self._spans[top]
        begun, ended = ([at for at in ends if at is not None] for ends in zip(*spans, strict=True))
        self._above[lower] = top
        self._spans[top] = min(begun, default=None), max(ended, default=None)

    def _top(self, agent: str) -> str:
        way = []
        while (above := self._above.get(agent)) is not None:
            way.append(agent)
            agent = above
        self._above.update(dict.fromkeys(way, agent))
        return agent


def _node(agent: Subagent, items: list[Node], spawner: tuple[str, Node] | None, span: _Span) -> Node:
    request = spawner[1].seen if spawner else None
    frame = SubagentFrame(
        id=agent.id,
        agent_type=agent.agent_type,
        description=agent.description,
        workflow=agent.workflow,
        call=request.call if isinstance(request, ToolRequest) else None,
        proof=spawner[0] if spawner else None,
        ref=items[0].seen.ref if items else agent.first,
        part=items[0].seen.part if items else 0,
        at=span[0],
        until=span[1],
    )
    return Node(seen=frame, evidence=agent.proofs, children=items)
