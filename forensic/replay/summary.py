"""Summary builder: what one session came to, in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from forensic.model import (
    Compaction,
    Execution,
    Failure,
    HistoryFrame,
    Mended,
    Node,
    Observation,
    Outcome,
    Prompt,
    Response,
    Row,
    SetAside,
    Skill,
    Text,
    Thought,
    ToolRequest,
    TurnFrame,
    Unmodelled,
    Unreadable,
)
from forensic.replay.frames import Placed

__all__ = ["RowCount", "summarize"]

_REFUSED = ("rejected", "denied")


class RowCount:
    """Accounts for every row: each falls into exactly one of read, set aside, unmodelled, unreadable, blank."""

    def __init__(self) -> None:
        """Start at zero."""
        self.total = 0
        self.classes: Counter[str] = Counter()
        self.mended = 0
        self.untold = 0
        """Unmodelled rows that speak of usage or tokens."""

    def count(self, row: Row, seen: list[Observation]) -> None:
        """Count one row by what it yielded."""
        self.total += 1
        kinds = {type(one) for one in seen}
        if Mended in kinds:
            self.mended += 1
            kinds.discard(Mended)
        name = _class_of(kinds, seen)
        self.classes[name] += 1
        if name == "unmodelled" and (b"usage" in row.raw or b"token" in row.raw):
            self.untold += 1

    def figures(self, repeated: int) -> dict[str, int]:
        """The ``rows`` of a summary; `mended` and `repeated` rows are among the others."""
        names = ("read", "set_aside", "unmodelled", "unreadable", "blank")
        return {
            "total": self.total,
            **{name: self.classes[name] for name in names},
            "mended": self.mended,
            "repeated": repeated,
        }


def _class_of(kinds: set[type[Observation]], seen: list[Observation]) -> str:
    if kinds == {SetAside}:
        blank = all(isinstance(one, SetAside) and one.family == "blank" for one in seen)
        return "blank" if blank else "set_aside"
    if kinds == {Unmodelled}:
        return "unmodelled"
    if kinds <= {Unreadable}:
        return "unreadable"
    return "read"


def summarize(observations: list[Observation], placed: Placed, rows: RowCount, models: Iterable[str]) -> dict[str, Any]:
    """The summary section of the session document (docs/replay.md)."""
    turns = [turn for turn in placed.turns.known.values() if turn.prompted]
    nodes = list(_nodes(placed.root))
    ran = [*placed.calls, *placed.executions]
    kinds = Counter(map(type, nodes))
    first, last = _span(observations)
    failures = [one for one in nodes if isinstance(one, Failure)]
    outcomes = Counter(_outcome(node).outcome for node in ran)
    return {
        "turns": len(turns),
        "aborted_turns": sum(turn.aborted for turn in turns),
        "steps": placed.steps,
        "tool_calls": len(placed.calls),
        "nested_calls": len(placed.executions),
        "failures": outcomes["error"],
        "refused": sum(outcomes[word] for word in _REFUSED),
        "interrupted": outcomes["interrupted"],
        "unanswered": outcomes["no_result"],
        "not_told": outcomes["not_told"],
        "rows": rows.figures(placed.repeated),
        "started": first,
        "ended": last,
        "wall_ms": _milliseconds(first, last),
        "busy_ms": _busy(placed.root),
        "tools": _tools(ran),
        "retries": sum(one.attempt is not None for one in failures),
        "api_errors": sum(one.attempt is None for one in failures),
        "files_read": _files(ran, wrote=False),
        "files_written": _files(ran, wrote=True),
        "commands": list(_commands(ran)),
        "skills": _skills(observations),
        "compactions": kinds[Compaction],
        "subagents": placed.subagents,
        "prompts": kinds[Prompt],
        "thoughts": kinds[Thought],
        "responses": kinds[Response],
        "models": sorted(models),
    }


def _nodes(root: Node) -> Iterator[Observation]:
    """Everything that stands in the tree; copies do not, and the history of other threads is theirs."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node.seen, HistoryFrame):
            continue
        if isinstance(node.seen, Observation):
            yield node.seen
        stack.extend(node.children)


def _outcome(node: Node) -> Outcome:
    return node.outcome or Outcome(outcome="no_result")


def _request(node: Node) -> ToolRequest | Execution:
    assert isinstance(node.seen, ToolRequest | Execution)  # noqa: S101 -- only these own calls
    return node.seen


def _span(observations: list[Observation]) -> tuple[datetime | None, datetime | None]:
    moments = [one.at for one in observations if one.at is not None]
    return (min(moments), max(moments)) if moments else (None, None)


def _milliseconds(first: datetime | None, last: datetime | None) -> int | None:
    return None if first is None or last is None else round((last - first).total_seconds() * 1000)


def _busy(root: Node) -> int | None:
    """Milliseconds covered by at least one turn: the time between turns is the person's."""
    spans = sorted(
        (frame.at, frame.until)
        for node in root.children
        if isinstance(frame := node.seen, TurnFrame) and frame.at is not None and frame.until is not None
    )
    if not spans:
        return None
    covered = 0.0
    end: datetime | None = None
    for start, until in spans:
        begin = start if end is None or start > end else end
        if until > begin:
            covered += (until - begin).total_seconds()
        end = until if end is None or until > end else end
    return round(covered * 1000)


def _tools(calls: list[Node]) -> dict[str, dict[str, Any]]:
    tools: dict[str, dict[str, Any]] = {}
    for node in calls:
        outcome = _outcome(node)
        tool = tools.setdefault(
            _request(node).name, {"calls": 0, "failures": 0, "refused": 0, "unanswered": 0, "duration_ms": None}
        )
        tool["calls"] += 1
        tool["failures"] += outcome.outcome == "error"
        tool["refused"] += outcome.outcome in _REFUSED
        tool["unanswered"] += outcome.outcome == "no_result"
        if outcome.duration_ms is not None:
            tool["duration_ms"] = (tool["duration_ms"] or 0) + outcome.duration_ms
    return dict(sorted(tools.items()))


def _files(calls: list[Node], *, wrote: bool) -> list[str]:
    """Distinct paths of calls that came back well, in the order of the calls."""
    paths: dict[str, None] = {}
    for node in calls:
        outcome = _outcome(node)
        if outcome.outcome != "ok":
            continue
        request = _request(node)
        told = () if outcome.result is None else outcome.result.wrote if wrote else outcome.result.read
        paths.update(dict.fromkeys(told or (request.writes if wrote else request.reads)))
    return list(paths)


def _commands(calls: list[Node]) -> Iterator[Text]:
    """Distinct shell commands, in the order of the calls."""
    known: set[str] = set()
    for node in calls:
        command = _request(node).command
        if command is not None and command.sha256 not in known:
            known.add(command.sha256)
            yield command


def _skills(observations: list[Observation]) -> dict[str, list[str]]:
    skills: dict[str, dict[str, None]] = {}
    for one in observations:
        if isinstance(one, Skill):
            skills.setdefault(one.name, {})[one.stage] = None
    return {name: list(stages) for name, stages in sorted(skills.items())}
