"""Subagents: what is known of each, and the call that an identifier ties it to."""

from __future__ import annotations

from collections.abc import Callable

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
        for agent in self.known.values():
            if self._circular(agent.id):
                self._find("subagent-circle", "subagents that claim to have started each other", agent.first)
                del self._spawners[agent.id]

    def hang(self) -> list[Node]:
        """Put each subagent under its call; the ones that nothing ties to a call are returned."""
        loose = []
        for agent in self.known.values():
            spawner = self._spawners.get(agent.id)
            node = _node(agent, spawner)
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
        return {agent: self._turn(agent) for agent in self.known}

    def _turn(self, agent: str) -> str | None:
        spawner = self._spawners.get(agent)
        while spawner is not None:
            parent, turn = self._owner(spawner[1])
            if parent is None:
                return turn
            spawner = self._spawners.get(parent)
        return None

    def _parent(self, agent: str) -> str | None:
        spawner = self._spawners.get(agent)
        return None if spawner is None else self._owner(spawner[1])[0]

    def _circular(self, agent: str) -> bool:
        walked: set[str] = set()
        current = self._parent(agent)
        while current is not None and current != agent and current not in walked:
            walked.add(current)
            current = self._parent(current)
        return current == agent


def _node(agent: Subagent, spawner: tuple[str, Node] | None) -> Node:
    items = ordered(agent.items)
    times = [at for node in items for at in moments(node)]
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
        at=min(times, default=None),
        until=max(times, default=None),
    )
    return Node(seen=frame, evidence=agent.proofs, children=items)
