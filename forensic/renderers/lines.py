"""What each node says on one line, and which texts get a few rows of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from forensic.model import (
    Compaction,
    Failure,
    Frame,
    HookRun,
    Injected,
    Node,
    Permission,
    Prompt,
    Response,
    Skill,
    SubagentFrame,
    SystemPrompt,
    Text,
    Thought,
    ToolRequest,
    TurnEnd,
    TurnFrame,
)
from forensic.renderers.canvas import Piece
from forensic.renderers.wording import count, one_line, short_id, words_of

__all__ = [
    "Block",
    "Line",
    "below",
    "counts",
    "kind",
    "no_news",
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
}


_WELL = ("ok", "success")


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


def turn(frame: TurnFrame, text: Text | None, tally: tuple[int, int]) -> Line:
    """The heading of a turn: when it began, its prompt, how long it took, what it took."""
    parts = [*counts(tally), *(["aborted"] if frame.aborted else [])]
    name = f"Turn {frame.number}" if frame.number is not None else f"Turn by {one_line(frame.source) or 'nobody'}"
    ends = ("\u00b7 " + " \u00b7 ".join(parts), "aside") if parts else ("", "")
    moment = f" \u00b7 {frame.at:%H:%M} \u00b7 " if frame.at else " \u00b7 "
    said = one_line(text) if frame.number is not None else words_of(text)
    return Line(0, ((name, "prompt"), (moment, "aside")), (said, "title"), (ends,), ms=_lasted(frame))


def subagent(depth: int, frame: SubagentFrame, tally: tuple[int, int]) -> Line:
    """The heading of a subagent: type, task, how long, how much."""
    name = one_line(frame.agent_type) or "subagent"
    parts = [short_id(frame.id), *counts(tally), *([] if frame.proof else ["started by no known call"])]
    ends = ("\u00b7 " + " \u00b7 ".join(parts), "aside")
    body = (_after(one_line(frame.description)), "")
    return Line(depth, (("\u25c6 ", "agent"), (name, "agent")), body, (ends,), ms=_lasted(frame), alone=True)


def counts(tally: tuple[int, int]) -> list[str]:
    """Calls and failures in words; nothing when there are none."""
    calls, failed = tally
    return [*([count(calls, "call")] if calls else []), *([f"{failed:,} failed"] if failed else [])]


def _lasted(frame: Frame) -> float | None:
    return (frame.until - frame.at).total_seconds() * 1000 if frame.at and frame.until else None


def what(depth: int, node: Node) -> Iterator[Line | Block]:
    """One node that is no frame."""
    seen = node.seen
    if isinstance(seen, ToolRequest):
        yield _call(depth, seen, node)
    elif isinstance(seen, Prompt):
        yield Block(depth, ("\u276f ", "prompt"), seen.text, "strong")
        if seen.images:
            yield Line(depth, (("  ", ""),), (f"+{count(seen.images, 'image')}", "aside"))
    elif isinstance(seen, Response):
        yield Block(depth, ("  ", ""), seen.text, "aside" if seen.synthetic else "")
    elif isinstance(seen, Thought):
        yield thought(depth, seen)
    else:
        label, text, style = _event(seen)
        yield Line(depth, (("\u00b7 ", style), (label, style)), (_after(text), "aside"))


def thought(depth: int, seen: Thought, times: int = 1) -> Line:
    """What the model thought, or that it did."""
    shown = one_line(seen.text) or word_of(seen)
    return Line(depth, (("\u25cb ", "thought"),), (shown, "thought"), times=times)


def word_of(seen: Thought) -> str:
    """What to call a thought that says nothing."""
    return "redacted thought" if seen.redacted else "opaque thought"


def _call(depth: int, seen: ToolRequest, node: Node) -> Line:
    name = one_line(seen.name)[:48]
    style = _style(seen, name)
    outcome = node.outcome
    word = outcome.outcome if outcome else "no_result"
    ends: list[Piece] = [_OUTCOMES.get(word, ("? " + one_line(word), "warn"))]
    result = outcome.result if outcome else None
    said = []
    if result is not None and word != "ok":
        if result.exit_code:
            ends.append((f"exit {result.exit_code}", "bad"))
        said.append(one_line(result.text))
    good = outcome is not None and outcome.outcome == "ok"
    # that the settings let a call pass is the rule and no news; that a person did is, or that they did not
    said.extend(
        _permission(child.seen)
        for child in node.children
        if isinstance(child.seen, Permission) and not (good and child.seen.origin == "config")
    )
    more = ("  " + "  ".join(said), "aside")
    head = (("\u25cf ", style), (name, style))
    ms = outcome.duration_ms if outcome else None
    about = outcome is not None and outcome.measured == "clock"
    body = (_after(one_line(seen.command) or _argument(seen.input)), "")
    return Line(depth, head, body, tuple(ends), more, ms, about, bool(below(node)))


def _style(seen: ToolRequest, name: str) -> str:
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
    of_a_call = isinstance(node.seen, ToolRequest)
    return [
        child
        for child in node.children
        if not (no_news(child.seen) or (of_a_call and isinstance(child.seen, Permission)))
    ]


def no_news(seen: Any) -> bool:
    """What is only counted: a hook that went well, a skill that could be used, a turn end that says nothing."""
    match seen:
        case HookRun():
            return seen.outcome in _WELL
        case Skill():
            return seen.stage == "available"
        case TurnEnd():
            return not seen.status
        case _:
            return False


def _permission(seen: Permission) -> str:
    return " by ".join(filter(None, (one_line(seen.decision), one_line(seen.origin))))


def _after(text: str) -> str:
    return f" {text}" if text else ""


def _event(seen: Any) -> tuple[str, str, str]:
    """Label, text and style of everything that is no prompt, thought, response or call."""
    match seen:
        case Injected():
            return one_line(seen.source) or "injected", one_line(seen.text), "aside"
        case SystemPrompt():
            return "system prompt", f"{count(seen.text.chars, 'character')}: {one_line(seen.text)}", "aside"
        case Permission():
            return "permission", _permission(seen), "event"
        case HookRun():
            words = (seen.event, seen.name if seen.name != seen.event else None, seen.outcome, seen.text)
            return "hook", " ".join(filter(None, map(one_line, words))), "warn"
        case Compaction():
            before = f"from {count(seen.before_tokens, 'token')}" if seen.before_tokens is not None else ""
            word = "micro-compaction" if seen.micro else "compaction"
            return word, " ".join(filter(None, (one_line(seen.trigger), before))), "event"
        case Failure():
            attempt = f"attempt {seen.attempt}" if seen.attempt is not None else ""
            attempt += f" of {seen.attempts}" if attempt and seen.attempts is not None else ""
            status = str(seen.status) if seen.status is not None else ""
            return "failure", " ".join(filter(None, (status, attempt, one_line(seen.text)))), "bad"
        case Skill():
            return "skill", f"{one_line(seen.name)} {one_line(seen.stage)}", "event"
        case _:
            return kind(seen), _whatever(seen), "aside"


def _whatever(seen: Any) -> str:
    """The first thing that an observation of any other kind says."""
    for name in ("text", "name", "status", "reason", "source", "event", "family", "spawned"):
        value = getattr(seen, name, None)
        if isinstance(value, str | Text) and value:
            return one_line(value)
    return ""


def kind(seen: Any) -> str:
    """The kind of an observation or frame in words."""
    return str(seen.__struct_config__.tag).replace("_", " ")
