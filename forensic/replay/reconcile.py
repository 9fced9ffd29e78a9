"""Reconciler: every observation becomes a node, evidence of a node, or is laid aside. Nothing is dropped.

All of a session is known before the first piece is placed, so there is no promoting and no re-parenting: calls are
indexed as they come, results and other signs of a call join it by its id, whatever stands in between in the file, and
subagents are hung under the call that an identifier ties them to once everything has been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from forensic.model import (
    Accounting,
    Basis,
    Compaction,
    Finding,
    HookRun,
    Mended,
    Node,
    Observation,
    Outcome,
    Permission,
    Progress,
    Prompt,
    Proof,
    Ref,
    Response,
    SessionFrame,
    SetAside,
    Skill,
    StepFrame,
    SubagentStart,
    SystemPrompt,
    Thought,
    Title,
    ToolRequest,
    ToolResult,
    TurnFrame,
    Unmodelled,
    Unreadable,
)
from forensic.replay.copies import Copies
from forensic.replay.pieces import gist, kind_of, moments, ordered
from forensic.replay.subagents import PLACEHOLDER, Subagents
from forensic.replay.turns import Turns

__all__ = ["Placed", "reconcile"]


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
    steps: int
    without_usage: int
    repeated: int
    subagents: int
    rowless: int
    compactions: int
    """Those that a model made; a client may also shorten by itself."""


class _Step(Struct):
    node: Node
    agent: str | None
    turn: str | None
    by_row: bool
    pieces: dict[tuple[type[Observation], str | None], Node] | None = None


def reconcile(observations: Sequence[Observation], session: str) -> Placed:
    """Place every observation of one session, given in recorded order, copies inside progress rows included."""
    # what only placing needs is gone before the tree is finished
    return _built(observations, session).finish()


def _built(observations: Sequence[Observation], session: str) -> _House:
    house = _House(session, Copies(observations))
    late: tuple[list[int], list[int], list[int]] = ([], [], [])
    turns: dict[int, str | None] = {}
    for number, (seen, turn) in enumerate(house.turns.track(observations)):
        if seen.usage is not None:
            house.turn_of[number] = turn
            house.told.add(seen.step)
        rank = _rank(seen)
        if rank is None:
            house.place(number, seen, turn)
        else:
            late[rank].append(number)
            turns[number] = turn
    for numbers in late:
        for number in numbers:
            house.place(number, observations[number], turns[number])
    return house


def _rank(seen: Observation) -> int | None:
    """When it can be placed: at once, or behind everything that it may join."""
    if seen.via is not None:
        return 2
    if seen.agent == PLACEHOLDER:
        return 1
    return 0 if type(seen) in _JOINS else None


class _House:
    """The tree while it is being built."""

    def __init__(self, session: str, copies: Copies) -> None:
        self.session = session
        self.copies = copies
        self.turns = Turns()
        self.turn_of: dict[int, str | None] = {}
        self.before: list[Node] = []
        self.in_turn: dict[str, list[Node]] = {}
        self.subagents = Subagents(self.find)
        self.steps: dict[str, _Step] = {}
        self.told: set[str | None] = set()
        self.calls: dict[str, Node] = {}
        self.call_nodes: list[Node] = []
        self.loose_calls: dict[int, tuple[str | None, str | None]] = {}
        self.prompts: dict[tuple[str | None, str], Node] = {}
        self.number = 0
        self.compactions = 0
        self.laid_aside: list[tuple[int, Observation]] = []
        self.findings: dict[tuple[str, str], Finding] = {}
        self.titles: list[Title] = []
        self.first_prompt: Prompt | None = None

    # --- placing -----------------------------------------------------------------------------------------------------

    def place(self, number: int, seen: Observation, turn: str | None) -> None:
        """Give one observation, the `number`-th of the session, its place."""
        self.number = number
        if seen.agent is not None:
            self.subagents.of(seen.agent).seen = True
        if self.copies.is_copy(seen) and self._joins_first(seen):
            return
        handler = _HANDLERS.get(type(seen))
        if handler is not None:
            handler(self, seen, turn)
        else:
            self.own(seen, turn)

    def own(self, seen: Observation, turn: str | None) -> Node:
        """A node of its own, among the pieces of its agent's turn."""
        node = Node(seen=seen)
        self.copies.remember(seen, node)
        self._container(seen.agent, turn).append(node)
        return node

    def in_step(self, seen: Observation, turn: str | None) -> Node:
        """A node among the other pieces of its model message, wherever in the file those stand."""
        if seen.step is None:
            return self.own(seen, turn)
        step = self.step(seen, turn)
        if self._told_already(step, seen):
            return step.node
        node = Node(seen=seen)
        self.copies.remember(seen, node)
        step.node.add(node)
        if step.pieces is not None:
            step.pieces.setdefault((type(seen), gist(seen)), node)
        return node

    def step(self, seen: Observation, turn: str | None) -> _Step:
        """The step of a message, made by its first piece."""
        key = seen.step or ""
        step = self.steps.get(key)
        if step is None:
            model = seen.usage.model if seen.usage else None
            frame = StepFrame(id=key, model=model, ref=seen.ref, part=seen.part, at=seen.at)
            step = self.steps[key] = _Step(Node(seen=frame), seen.agent, turn, seen.via is None)
            self._container(seen.agent, turn).append(step.node)
        if isinstance(seen, Response) and seen.synthetic:
            self.told.add(key)
        return step

    def prove(self, node: Node, seen: Observation, basis: Basis, *agreed: str) -> None:
        """Make an observation evidence of a node."""
        node.prove(Proof(seen.ref, seen.part, kind_of(seen), basis, agreed))

    def lay_aside(self, seen: Observation, turn: str | None = None) -> None:
        """Keep an observation out of the tree."""
        self.laid_aside.append((self.number, seen))

    def find(self, kind: str, note: str, ref: Ref | None, *, problem: bool = False) -> None:
        """Report trouble; the same trouble again is counted, with the first place named."""
        known = self.findings.get((kind, note))
        count = known.count + 1 if known else 1
        self.findings[kind, note] = Finding(
            kind=kind, note=note, ref=known.ref if known else ref, problem=problem, count=count
        )

    def _container(self, agent: str | None, turn: str | None) -> list[Node]:
        if agent is not None:
            return self.subagents.of(agent).items
        return self.before if turn is None else self.in_turn.setdefault(turn, [])

    # --- copies of a row ---------------------------------------------------------------------------------------------

    def _joins_first(self, seen: Observation) -> bool:
        """Whether a copy is evidence of what the first one made; else it takes the way of every observation."""
        node = self.copies.first(seen)
        if node is not None:
            self.prove(node, seen, Basis.EXACT, "id")
            self.copies.count(seen)
            return True
        if type(seen) in _NODELESS or type(seen) in _JOINS:
            self.copies.count(seen)
            return False
        self.find("row-id-reused", "a row id stands on rows that differ; each is kept as its own", seen.ref)
        return False

    # --- what each kind becomes --------------------------------------------------------------------------------------

    def prompt(self, seen: Prompt, turn: str | None) -> None:
        """A prompt; the first one is the session's title for want of a better."""
        if self.first_prompt is None and seen.agent is None:
            self.first_prompt = seen
        self.own(seen, turn)

    def message_piece(self, seen: Observation, turn: str | None) -> None:
        """A thought or a response; a copy in a progress row yields to the row itself."""
        step = self.steps.get(seen.step or "") if seen.via is not None else None
        if step is not None and step.by_row:
            if not self._told_already(step, seen):
                self.prove(step.node, seen, Basis.EXACT, "step")
            return
        self.in_step(seen, turn)

    def _told_already(self, step: _Step, seen: Observation) -> bool:
        """Whether the message has this very piece: clients write some blocks again in a later row of the message."""
        text = gist(seen)
        if text is None or isinstance(seen, ToolRequest):
            return False
        if not step.node.children:
            return False
        if step.pieces is None:
            step.pieces = {}
            for child in step.node.children:
                if isinstance(child.seen, Observation):
                    step.pieces.setdefault((type(child.seen), gist(child.seen)), child)
        node = step.pieces.get((type(seen), text))
        if node is None or node.seen.ref == seen.ref:
            return False
        self.prove(node, seen, Basis.COMPARED, "step", "text")
        return True

    def request(self, seen: ToolRequest, turn: str | None) -> None:
        """A call; one id owns one node."""
        known = self.calls.get(seen.call) if seen.call is not None else None
        if known is not None:
            self.prove(known, seen, Basis.EXACT, "call")
            first = known.seen
            if isinstance(first, ToolRequest) and (first.name, first.input) != (seen.name, seen.input):
                self.find("call-id-reused", "one call id stands on calls that differ; the first one owns it", seen.ref)
            return
        node = self.in_step(seen, turn)
        self.call_nodes.append(node)
        if seen.step is None:
            self.loose_calls[id(node)] = (seen.agent, turn)
        if seen.call is not None:
            self.calls[seen.call] = node

    def result(self, seen: ToolResult, turn: str | None) -> None:
        """A result joins its call; the first one decides, others are evidence."""
        node = self.calls.get(seen.call) if seen.call is not None else None
        if seen.spawned is not None:
            self.subagents.link(seen.spawned, "result", seen.call)
        if node is None:
            self.own(seen, turn)
            self.find("result-without-call", "a tool result names a call that no row made", seen.ref)
            return
        self.copies.remember(seen, node)
        self.prove(node, seen, Basis.EXACT, "call")
        if node.outcome is None:
            node.outcome = _outcome(node.seen, seen)
        elif self.copies.is_copy(seen):
            self.copies.count(seen)
        else:
            self.find("second-result", "a call has more than one result; the first one is shown", seen.ref)

    def sign_of_call(self, seen: Progress | SetAside, turn: str | None) -> None:
        """Progress and spilled files prove their call and make no node."""
        node = self.calls.get(seen.call) if seen.call is not None else None
        if node is None:
            self.lay_aside(seen)
        else:
            self.prove(node, seen, Basis.EXACT, "call")

    def part_of_call(self, seen: Permission | HookRun, turn: str | None) -> None:
        """Permissions and hooks of a call stand under it."""
        node = self.calls.get(seen.call) if seen.call is not None else None
        if node is None:
            self.own(seen, turn)
            return
        child = self.copies.first(seen)
        if child is not None:
            self.prove(child, seen, Basis.EXACT, "id")
            return
        child = Node(seen=seen)
        self.copies.remember(seen, child)
        node.add(child)

    def compaction(self, seen: Compaction, turn: str | None) -> None:
        """A compaction is an event of the turn."""
        self.compactions += not seen.micro
        self.own(seen, turn)

    def skill(self, seen: Skill, turn: str | None) -> None:
        """An invoked skill proves its call; a list of available ones is no event."""
        if seen.call is not None or seen.stage == "available":
            node = self.calls.get(seen.call) if seen.call is not None else None
            if node is None:
                self.lay_aside(seen)
            else:
                self.prove(node, seen, Basis.EXACT, "call")
        else:
            self.own(seen, turn)

    def start(self, seen: SubagentStart, turn: str | None) -> None:
        """What an entry knows of a subagent."""
        self.subagents.told(seen)

    def system_prompt(self, seen: SystemPrompt, turn: str | None) -> None:
        """One node for each distinct text of an agent, however often it was sent."""
        key = (seen.agent, seen.text.sha256)
        known = self.prompts.get(key)
        if known is not None:
            self.prove(known, seen, Basis.EXACT, "text")
        else:
            self.prompts[key] = self.own(seen, turn)

    def titled(self, seen: Title, turn: str | None) -> None:
        """A title is no event; which one the session bears is told at the end."""
        self.titles.append(seen)
        self.lay_aside(seen)

    def mended(self, seen: Mended, turn: str | None) -> None:
        """A mended row is read, and reported."""
        self.lay_aside(seen)
        self.find("mended", f"a row had to be mended to read it: {seen.reason}", seen.ref)

    def unreadable(self, seen: Unreadable, turn: str | None) -> None:
        """An unreadable stretch is kept in the bundle, and reported."""
        self.lay_aside(seen)
        self.find("unreadable", f"could not be read: {seen.reason}", seen.ref)

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> Placed:
        """Hang the subagents, order the pieces, close the frames."""
        self.subagents.resolve(self.calls, self._owner_of)
        root = Node(seen=SessionFrame(id=self.session, title=self._title()))
        root.children = [*ordered(self.before), *self._turns(), *self.subagents.hang()]
        for node in self.call_nodes:
            if node.outcome is None:
                node.outcome = Outcome(outcome="no_result")
        repeated = self.copies.repeated
        if repeated:
            note = "rows that stand in the recording more than once, each counted once"
            self.findings["repeated", note] = Finding(
                kind="repeated", note=note, ref=min(repeated), count=len(repeated)
            )
        placed = Placed(
            root=root,
            aside=[seen for _, seen in sorted(self.laid_aside, key=lambda item: item[0])],
            findings=list(self.findings.values()),
            turns=self.turns,
            turn_of=self.turn_of,
            turn_of_agent=self.subagents.turns(),
            calls=self.call_nodes,
            steps=len(self.steps),
            without_usage=len(self.steps.keys() - self.told),
            repeated=len(repeated),
            subagents=len(self.subagents.known),
            compactions=self.compactions,
            rowless=sum(not agent.seen for agent in self.subagents.known.values()),
        )
        # it holds on to this house, and this house to it: without a cut only the collector would free the indexes
        del self.subagents
        return placed

    def _owner_of(self, call: Node) -> tuple[str | None, str | None]:
        """Agent and turn of a call: a message stands where its first piece does, and its calls with it."""
        name = call.seen.step if isinstance(call.seen, Observation) else None
        if name is None:
            return self.loose_calls[id(call)]
        step = self.steps[name]
        return step.agent, step.turn

    def _title(self) -> str | None:
        """The last title given to this session, a person's before a machine's; else the first prompt.

        A title that names a row of another session as its place belongs to that one.
        """
        own = [title for title in self.titles if title.leaf is None or self.copies.known(title.leaf)]
        by_hand = [title for title in own if title.source == "custom"]
        titled = by_hand or own
        if titled:
            return titled[-1].text.preview
        return None if self.first_prompt is None else self.first_prompt.text.preview

    def _turns(self) -> list[Node]:
        nodes = []
        for turn in self.turns.number():
            items = ordered(self.in_turn.pop(turn.id, []))
            times = [at for node in items for at in moments(node)]
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


def _outcome(request: Any, result: ToolResult) -> Outcome:
    word = result.outcome or ("unknown" if result.ok is None else "ok" if result.ok else "error")
    duration, measured = result.duration_ms, "reported"
    if duration is None:
        measured = "clock"
        if request.at is not None and result.at is not None and result.at >= request.at:
            duration = round((result.at - request.at).total_seconds() * 1000)
    return Outcome(
        outcome=word, duration_ms=duration, measured=measured if duration is not None else None, result=result
    )


_Handler = Callable[[_House, Any, str | None], object]
_HANDLERS: dict[type[Observation], _Handler] = {
    Prompt: _House.prompt,
    Compaction: _House.compaction,
    Thought: _House.message_piece,
    Response: _House.message_piece,
    ToolRequest: _House.request,
    ToolResult: _House.result,
    Progress: _House.sign_of_call,
    SetAside: _House.sign_of_call,
    Permission: _House.part_of_call,
    HookRun: _House.part_of_call,
    Skill: _House.skill,
    SubagentStart: _House.start,
    SystemPrompt: _House.system_prompt,
    Title: _House.titled,
    Mended: _House.mended,
    Unreadable: _House.unreadable,
    Unmodelled: _House.lay_aside,
    Accounting: _House.lay_aside,
}
_NODELESS = frozenset({Progress, SetAside, Skill, SubagentStart, Title, Mended, Unreadable, Unmodelled, Accounting})
_JOINS = frozenset({ToolResult, Progress, SetAside, Permission, HookRun, Skill})
"""Kinds that join a call by its id: placed once all calls are known."""
