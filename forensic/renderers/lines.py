"""What each node says on one line, and which texts get a few rows of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from forensic.model import (
    Execution,
    Frame,
    HistoryFrame,
    Injected,
    Node,
    Permission,
    Prompt,
    Response,
    SubagentFrame,
    Text,
    Thought,
    ToolRequest,
    TurnFrame,
)
from forensic.renderers.canvas import Piece
from forensic.renderers.events import event, no_news, permission
from forensic.renderers.wording import count, one_line, short_id, words_of

__all__ = [
    "Block",
    "Line",
    "Tally",
    "below",
    "counts",
    "history",
    "opening_text",
    "subagent",
    "thought",
    "turn",
    "what",
    "word_of",
]

_TELLING = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "path",
    "query",
    "url",
    "description",
    "skill",
    "subject",
    "prompt",
)
"""Arguments that tell most about a call, first come first shown."""

_KINDS = (
    ("agent", ("agent", "task")),
    ("write", ("write", "edit", "patch", "replace", "create", "delete")),
    ("web", ("web", "fetch", "http", "browse")),
    ("search", ("grep", "glob", "search", "find")),
    ("run", ("bash", "shell", "exec", "terminal", "command", "kill")),
    ("read", ("read", "view", "list", "open")),
)
"""Style of a tool by a word in its name; no producer's own list of tools."""

_OUTCOMES = {
    "ok": ("\u2713", "good"),
    "error": ("\u2717", "bad"),
    "rejected": ("\u2298 rejected", "warn"),
    "denied": ("\u2298 denied", "warn"),
    "interrupted": ("\u2298 interrupted", "warn"),
    "no_result": ("\u2026 no result", "warn"),
    # what no row of the format can tell is no news at each call
    "not_told": ("-", "aside"),
}
_ASKED = "requested"
"""What stands for a decision until there is one."""


class Tally(NamedTuple):
    """What stands at or below a node: `calls` of the model, tools that `ran` without one, how many of both `failed`."""

    calls: int = 0
    ran: int = 0
    failed: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(self.calls + other.calls, self.ran + other.ran, self.failed + other.failed)


class Line(NamedTuple):
    """One line to be: equal ones that follow each other are printed once, but those that must stand `alone`.

    `times` says how many things of the same kind this line stands for already.
    """

    depth: int
    head: tuple[Piece, ...]
    body: Piece = ("", "")
    ends: tuple[Piece, ...] = ()
    more: Piece = ("", "")
    ms: float | None = None
    about: bool = False
    alone: bool = False
    times: int = 1


class Block(NamedTuple):
    """A text of several rows to be."""

    depth: int
    mark: Piece
    text: Text
    style: str


def opening_text(node: Node | None) -> Text | None:
    """The text of the prompt, or of what took its place, that opens a turn."""
    return node.seen.text if node is not None and isinstance(node.seen, Prompt | Injected) else None


def turn(frame: TurnFrame, text: Text | None, tally: Tally) -> Line:
    """The heading of a turn: when it began, its prompt, how long it took, what it took."""
    parts = [*counts(tally), *(["aborted"] if frame.aborted else [])]
    name = f"Turn {frame.number}" if frame.number is not None else f"Turn by {one_line(frame.source) or 'nobody'}"
    ends = ("\u00b7 " + " \u00b7 ".join(parts), "aside") if parts else ("", "")
    said = one_line(text) if frame.number is not None else words_of(text)
    moment = (f" \u00b7 {frame.at:%H:%M}" if frame.at else "") + (" \u00b7 " if said else "")
    return Line(0, ((name, "prompt"), (moment, "aside")), (said, "title"), (ends,), ms=_lasted(frame))


def subagent(depth: int, frame: SubagentFrame, tally: Tally) -> Line:
    """The heading of a subagent: type, task, how long, how much."""
    name = one_line(frame.agent_type) or "subagent"
    parts = [short_id(frame.id), *counts(tally), *([] if frame.proof else ["started by no known call"])]
    ends = ("\u00b7 " + " \u00b7 ".join(parts), "aside")
    task = one_line(frame.description)
    body = (_after(task if task != name else ""), "")
    return Line(depth, (("\u25c6 ", "agent"), (name, "agent")), body, (ends,), ms=_lasted(frame), alone=True)


def history(depth: int, node: Node, frame: HistoryFrame) -> Line:
    """The heading of what came along from another thread: from which, what it is, and what told it apart."""
    kinds = Counter(type(child.seen) for child in node.children)
    shown = ((Prompt, "prompt"), (Response, "response"), (ToolRequest, "call"))
    held = ", ".join(count(kinds[kind], name) for kind, name in shown if kinds[kind])
    ends = "\u00b7 " + " \u00b7 ".join(filter(None, (held, f"told apart by {one_line(frame.rule)}")))
    head: tuple[Piece, ...] = (("\u25c7 ", "aside"), ("history of", "aside"))
    return Line(depth, head, (_after(one_line(frame.id) or "another thread"), "aside"), ((ends, "aside"),))


def counts(tally: Tally) -> list[str]:
    """Calls, what else ran, and failures in words; nothing when there are none."""
    words = (count(tally.calls, "call"), f"{tally.ran:,} more run", f"{tally.failed:,} failed")
    return [word for number, word in zip(tally, words, strict=True) if number]


def _lasted(frame: Frame) -> float | None:
    return (frame.until - frame.at).total_seconds() * 1000 if frame.at and frame.until else None


def what(depth: int, node: Node) -> Iterator[Line | Block]:
    """One node that is no frame."""
    seen = node.seen
    if isinstance(seen, ToolRequest | Execution):
        yield _call(depth, seen, node)
    elif isinstance(seen, Prompt):
        mark = ("\u276f ", "prompt")
        if one_line(seen.text) or not seen.images:
            yield Block(depth, mark, seen.text, "strong")
            mark = ("  ", "")
        if seen.images:
            yield Line(depth, (mark,), (f"+{count(seen.images, 'image')}", "aside"))
    elif isinstance(seen, Response):
        yield Block(depth, ("  ", ""), seen.text, "aside" if seen.synthetic else "")
    elif isinstance(seen, Thought):
        yield thought(depth, seen)
    else:
        label, text, style = event(seen)
        yield Line(depth, (("\u00b7 ", style), (label, style)), (_after(text), "aside"))


def thought(depth: int, seen: Thought, times: int = 1) -> Line:
    """What the model thought, or that it did."""
    shown = one_line(seen.text) or word_of(seen)
    return Line(depth, (("\u25cb ", "thought"),), (shown, "thought"), times=times)


def word_of(seen: Thought) -> str:
    """What to call a thought that says nothing."""
    return "redacted thought" if seen.redacted else "opaque thought"


def _call(depth: int, seen: ToolRequest | Execution, node: Node) -> Line:
    name = one_line(seen.name)[:48]
    style = _style(seen, name)
    outcome = node.outcome
    # in the history of another thread a call is joined with nothing
    word = outcome.outcome if outcome else ""
    ends: list[Piece] = [_OUTCOMES.get(word, ("? " + one_line(word), "warn"))] if word else []
    result = outcome.result if outcome else None
    said = []
    if result is not None:
        if result.exit_code:
            ends.append((f"exit {result.exit_code}", "warn" if word == "ok" else "bad"))
        if word != "ok":
            said.append(one_line(result.text))
    said.extend(_decisions(node, good=word == "ok"))
    more = ("  " + "  ".join(said) if any(said) else "", "aside")
    head = (("\u25cf ", style), (name, style))
    ms = outcome.duration_ms if outcome else None
    about = outcome is not None and outcome.measured == "clock"
    return Line(depth, head, (_after(_about(seen)), ""), tuple(ends), more, ms, about, bool(below(node)))


def _decisions(node: Node, *, good: bool) -> list[str]:
    """What was decided on a call. That the settings let it pass is the rule and no news."""
    told = [child.seen for child in node.children if isinstance(child.seen, Permission)]
    decided = [seen for seen in told if seen.decision != _ASKED] or told
    return [permission(seen) for seen in decided if not (good and seen.origin == "config")]


def _about(seen: ToolRequest | Execution) -> str:
    """What a call is about: its command, else the files of a patch, else the argument that tells most."""
    paths = ", ".join(map(one_line, seen.writes or seen.reads))
    if paths and isinstance(seen.input, str | Text) and seen.command is None:
        return paths
    return one_line(seen.command) or _argument(seen.input) or paths


def _style(seen: ToolRequest | Execution, name: str) -> str:
    if seen.server:
        return "mcp"
    if seen.command or seen.writes:
        return "run" if seen.command else "write"
    lowered = name.lower()
    return next((style for style, words in _KINDS if any(word in lowered for word in words)), "other")


def _argument(given: Any) -> str:
    """The one argument that tells most about a call."""
    if isinstance(given, str | Text):
        return one_line(given)
    if not isinstance(given, dict):
        return ""
    for value in (*(given.get(name) for name in _TELLING), *given.values()):
        if isinstance(value, str | Text) and (shown := one_line(value)):
            return shown
    for name, value in given.items():
        if isinstance(value, list) and value:
            return f"{one_line(name)}: {count(len(value), 'item')}"
    return ""


def below(node: Node) -> list[Node]:
    """Children that have lines of their own: the decision on a call stands behind the call, what is no news nowhere."""
    of_a_call = isinstance(node.seen, ToolRequest | Execution)
    return [
        child
        for child in node.children
        if not (no_news(child.seen) or (of_a_call and isinstance(child.seen, Permission)))
    ]


def _after(text: str) -> str:
    return f" {text}" if text else ""
