"""Reconciler: every observation becomes a node, evidence of a node, or is laid aside. Nothing is dropped.

All of a session is known before the first piece is placed, so there is no promoting and no re-parenting: calls are
indexed as they come, results and other signs of a call join it by its id, whatever stands in between in the file, and
subagents are hung under the call that an identifier ties them to once everything has been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from forensic.model import (
    Accounting,
    Basis,
    Compaction,
    Execution,
    Finding,
    HookRun,
    Mended,
    Node,
    Observation,
    Permission,
    Progress,
    Prompt,
    Proof,
    Ref,
    Response,
    SessionFrame,
    SetAside,
    Setting,
    Skill,
    StepFrame,
    SubagentStart,
    SystemPrompt,
    Thought,
    Title,
    ToolRequest,
    ToolResult,
    Unmodelled,
    Unreadable,
)
from forensic.replay.calls import Calls
from forensic.replay.copies import Copies
from forensic.replay.echoes import Echoes
from forensic.replay.frames import Placed, Step, name_models, title_of, turn_nodes
from forensic.replay.history import History
from forensic.replay.kinds import JOINS, NODELESS, SPOKEN, rank_of
from forensic.replay.lineage import Lines
from forensic.replay.outcomes import filled, outcome_of, unanswered
from forensic.replay.pieces import gist, kind_of, ordered
from forensic.replay.subagents import Subagents
from forensic.replay.turns import Turns

__all__ = ["Placed", "reconcile"]


def reconcile(
    observations: Sequence[Observation],
    session: str,
    lines: Lines | None = None,
    again: AbstractSet[int] = frozenset(),
) -> Placed:
    """Place every observation of one session, given in recorded order, copies inside progress rows included.

    `lines` tells which of them repeat the history of another thread, `again` which stood in an earlier generation.
    """
    # what only placing needs is gone before the tree is finished
    return _built(observations, session, lines or Lines(), again).finish()


def _built(observations: Sequence[Observation], session: str, lines: Lines, again: AbstractSet[int]) -> _House:
    inherited = lines.inherited
    own = (seen for number, seen in enumerate(observations) if number not in inherited and number not in again)
    house = _House(session, Copies(own), Echoes(expected=any(seen.via == "event" for seen in observations)))
    late: tuple[list[int], list[int], list[int]] = ([], [], [])
    turns: dict[int, str | None] = {}
    for number, seen in enumerate(observations):
        if number in inherited:
            house.inherit(number, seen, lines)
            continue
        if number in again:
            house.repeat(number, seen)
            continue
        turn = house.turns.turn_of(seen)
        house.note(number, seen, turn)
        rank = rank_of(seen)
        if rank is None:
            house.place(number, seen, turn)
        else:
            late[rank].append(number)
            turns[number] = turn
    for numbers in late:
        for number in numbers:
            house.place(number, observations[number], turns[number])
    return house


class _House:
    """The tree while it is being built."""

    def __init__(self, session: str, copies: Copies, echoes: Echoes) -> None:
        self.session = session
        self.copies = copies
        self.echoes = echoes
        self.histories: dict[str, History] = {}
        self.turns = Turns()
        self.turn_of: dict[int, str | None] = {}
        self.before: list[Node] = []
        self.in_turn: dict[str, list[Node]] = {}
        self.subagents = Subagents(self.find)
        self.steps: dict[str, Step] = {}
        self.told: set[str | None] = set()
        self.models: dict[str, str] = {}
        self.calls = Calls()
        self.call_nodes: list[Node] = []
        self.loose_calls: dict[int, tuple[str | None, str | None]] = {}
        self.executions: list[Node] = []
        self.begun: dict[int, Execution] = {}
        self.running: dict[str | None, dict[str | None, Node]] = {}
        """Calls of each agent that no row has answered so far."""
        self.stepless = self.retold = 0
        self.prompts: dict[tuple[str | None, str], Node] = {}
        self.number = 0
        self.compactions: list[str] = []
        self.laid_aside: list[tuple[int, Observation]] = []
        self.findings: dict[tuple[str, str], Finding] = {}
        self.titles: list[Title] = []
        self.first_prompt: Prompt | None = None

    def note(self, number: int, seen: Observation, turn: str | None) -> None:
        """Take down what counts for others before anything is placed."""
        if seen.via is None and type(seen) is ToolResult:
            self.running.get(seen.agent, {}).pop(seen.call, None)
        if seen.usage is not None:
            self.turn_of[number] = turn
            self.told.add(seen.step)
            if seen.usage.model is not None and seen.step is not None:
                self.models.setdefault(seen.step, seen.usage.model)
        elif seen.step is None and type(seen) in SPOKEN:
            self.stepless += seen.via is None
            self.retold += seen.via == "event"

    # --- placing -----------------------------------------------------------------------------------------------------

    def place(self, number: int, seen: Observation, turn: str | None) -> None:
        """Give one observation, the `number`-th of the session, its place."""
        self.number = number
        if seen.agent is not None:
            self.subagents.of(seen.agent).seen = True
        if self.copies.is_copy(seen) and self._joins_first(seen):
            return
        if seen.via == "event" and (node := self.echoes.match(seen, turn)) is not None:
            self.copies.remember(seen, node)
            self.prove(node, seen, Basis.COMPARED, "turn", "text")
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
        self.echoes.remember(seen, turn, node)
        self._container(seen.agent, turn).append(node)
        return node

    def inherit(self, number: int, seen: Observation, lines: Lines) -> None:
        """A piece of another thread's history stands as it was written, joined with nothing and counted nowhere."""
        self.number = number
        line = lines.by_stream[seen.ref.stream]
        history = self.histories.get(seen.ref.stream)
        if history is None:
            history = self.histories[seen.ref.stream] = History(line, seen)
            (self.before if seen.agent is None else self.subagents.of(seen.agent).items).append(history.node)
        if type(seen) in NODELESS:
            self.lay_aside(seen)
        else:
            history.add(seen)
        if seen.part == 0:
            note = f"rows that repeat the history of {line.origin}, told apart by {line.rule}"
            self.find("inherited-history", note, seen.ref)

    def repeat(self, number: int, seen: Observation) -> None:
        """A piece of a row that stood there before the file was written anew."""
        self.number = number
        self.lay_aside(seen)
        self.copies.count(seen)

    def in_step(self, seen: Observation, turn: str | None) -> Node:
        """A node among the other pieces of its model message, wherever in the file those stand."""
        if seen.step is None:
            return self.own(seen, turn)
        step = self.step(seen, turn)
        if self._told_already(step, seen):
            return step.node
        node = Node(seen=seen)
        self.copies.remember(seen, node)
        self.echoes.remember(seen, turn, node)
        step.node.add(node)
        if step.pieces is not None:
            step.pieces.setdefault((type(seen), gist(seen)), node)
        return node

    def step(self, seen: Observation, turn: str | None) -> Step:
        """The step of a message, made by its first piece."""
        key = seen.step or ""
        step = self.steps.get(key)
        if step is None:
            model = seen.usage.model if seen.usage else None
            frame = StepFrame(id=key, model=model, ref=seen.ref, part=seen.part, at=seen.at)
            step = self.steps[key] = Step(Node(seen=frame), seen.agent, turn, seen.via is None)
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
        if type(seen) in NODELESS or type(seen) in JOINS:
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

    def _told_already(self, step: Step, seen: Observation) -> bool:
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
        """A call; what is asked again under its id is evidence of it, and what else bears the id is another call."""
        known = self.calls.again(seen, self.number)
        if known is not None:
            self.prove(known, seen, Basis.EXACT, "call")
            self.calls.add(seen.call or "", self.number, seen.agent, known)
            return
        self._reused(seen)
        node = self.in_step(seen, turn)
        self.call_nodes.append(node)
        if seen.step is None:
            self.loose_calls[id(node)] = (seen.agent, turn)
        if seen.call is not None:
            self.calls.add(seen.call, self.number, seen.agent, node)
            self.running.setdefault(seen.agent, {})[seen.call] = node

    def _reused(self, seen: ToolRequest | Execution) -> None:
        if seen.call is not None and self.calls.anybodys(seen.call, self.number, seen.agent) is not None:
            note = "one call id stands on calls that differ; a result is of the last before it"
            self.find("call-id-reused", note, seen.ref)

    def execution(self, seen: Execution, turn: str | None) -> None:
        """A tool that ran is evidence of the call that asked for it; inside of another call it owns itself."""
        known = self.calls.again(seen, self.number)
        if known is not None:
            self.prove(known, seen, Basis.EXACT, "call")
            self.begun.setdefault(id(known), seen)
            return
        self._reused(seen)
        around = self.calls.before(seen.within, self.number, seen.agent)
        running = self.running.get(seen.agent, {})
        if around is None and len(running) == 1:
            around = next(iter(running.values()))
        if around is None:
            node = self.own(seen, turn)
        else:
            node = Node(seen=seen)
            self.copies.remember(seen, node)
            around.add(node)
        self.executions.append(node)
        self.loose_calls[id(node)] = (seen.agent, turn)
        if seen.call is not None:
            self.calls.add(seen.call, self.number, seen.agent, node)

    def result(self, seen: ToolResult, turn: str | None) -> None:
        """A result joins its call; the first one decides, others are evidence."""
        find = self.calls.open if seen.via is None else self.calls.before
        node = find(seen.call, self.number, seen.agent)
        if seen.spawned is not None:
            self.subagents.link(seen.spawned, "result", seen, self.number)
        if node is None:
            self.own(seen, turn)
            self.find("result-without-call", "a tool result names a call that no row made", seen.ref)
            return
        self.copies.remember(seen, node)
        self.prove(node, seen, Basis.EXACT, "call")
        begun = self.begun.get(id(node), node.seen)
        if node.outcome is None:
            node.outcome = outcome_of(begun, seen)
        elif seen.via == "event":
            node.outcome = outcome_of(begun, filled(node.outcome.result, seen))
        elif self.copies.is_copy(seen):
            self.copies.count(seen)
        else:
            self.find("second-result", "a call has more than one result; the first one is shown", seen.ref)

    def sign_of_call(self, seen: Progress | SetAside, turn: str | None) -> None:
        """Progress and spilled files prove their call and make no node."""
        node = self.calls.before(seen.call, self.number, seen.agent)
        if node is None:
            self.lay_aside(seen)
        else:
            self.prove(node, seen, Basis.EXACT, "call")

    def part_of_call(self, seen: Permission | HookRun, turn: str | None) -> None:
        """Permissions and hooks of a call stand under it."""
        node = self.calls.before(seen.call, self.number, seen.agent)
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
        if not seen.micro and seen.usage is None:
            self.compactions.append(seen.ref.stream)
        self.own(seen, turn)

    def skill(self, seen: Skill, turn: str | None) -> None:
        """An invoked skill proves its call; a list of available ones is no event."""
        if seen.call is not None or seen.stage == "available":
            node = self.calls.before(seen.call, self.number, seen.agent)
            if node is None:
                self.lay_aside(seen)
            else:
                self.prove(node, seen, Basis.EXACT, "call")
        else:
            self.own(seen, turn)

    def start(self, seen: SubagentStart, turn: str | None) -> None:
        """What an entry knows of a subagent."""
        self.subagents.told(seen, self.number)

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
        for history in self.histories.values():
            history.finish()
        self.subagents.resolve(self.calls, self._owner_of)
        root = Node(seen=SessionFrame(id=self.session, title=title_of(self.titles, self.copies, self.first_prompt)))
        root.children = [*ordered(self.before), *turn_nodes(self.turns.number(), self.in_turn), *self.subagents.hang()]
        for node in (*self.call_nodes, *self.executions):
            if node.outcome is None:
                node.outcome = unanswered(node.seen)
        name_models(self.steps, self.models)
        repeated = self.copies.repeated
        if repeated:
            note = "rows that stand in the recording more than once, each counted once"
            self.findings["repeated", note] = Finding(
                kind="repeated", note=note, ref=min(repeated), count=len(repeated)
            )
        # events tell of messages again; where they alone tell of any it is by them that a model spoke
        stepless = 0 if self.turn_of else self.stepless or self.retold
        placed = Placed(
            root=root,
            aside=[seen for _, seen in sorted(self.laid_aside, key=lambda item: item[0])],
            findings=list(self.findings.values()),
            turns=self.turns,
            turn_of=self.turn_of,
            turn_of_agent=self.subagents.turns(),
            calls=self.call_nodes,
            executions=self.executions,
            steps=len(self.steps),
            without_usage=len(self.steps.keys() - self.told) + stepless,
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


_Handler = Callable[[_House, Any, str | None], object]
_HANDLERS: dict[type[Observation], _Handler] = {
    Prompt: _House.prompt,
    Compaction: _House.compaction,
    Thought: _House.message_piece,
    Response: _House.message_piece,
    ToolRequest: _House.request,
    Execution: _House.execution,
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
    Setting: _House.lay_aside,
}
