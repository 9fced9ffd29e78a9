"""What is said of everything that is no prompt, no thought, no response and no call: a label and a text.

And which of it is no news: it is counted, and has no line.
"""

from __future__ import annotations

from typing import Any

from forensic.model import (
    Compaction,
    Failure,
    HookRun,
    Injected,
    Permission,
    SessionStart,
    Skill,
    SubagentStop,
    SystemPrompt,
    Text,
    TurnEnd,
)
from forensic.renderers.wording import count, one_line

__all__ = ["event", "kind", "no_news", "permission"]

_WELL = ("ok", "success", "completed")


def no_news(seen: Any) -> bool:
    """What is only counted: a hook that went well, a skill that could be used, an end as it should be."""
    match seen:
        case HookRun():
            return seen.outcome in _WELL
        case Skill():
            return seen.stage == "available"
        case TurnEnd():
            return not seen.status or seen.status in _WELL
        case SubagentStop():
            return seen.status in _WELL
        case _:
            return False


def permission(seen: Permission) -> str:
    """A decision, and whose it was."""
    return " by ".join(filter(None, (one_line(seen.decision), one_line(seen.origin))))


def event(seen: Any) -> tuple[str, str, str]:
    """Label, text and style of everything that is no prompt, thought, response or call."""
    match seen:
        case Injected():
            return one_line(seen.source) or "injected", one_line(seen.text), "aside"
        case SystemPrompt():
            return "system prompt", f"{count(seen.text.chars, 'character')}: {one_line(seen.text)}", "aside"
        case Permission():
            return "permission", permission(seen), "event"
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
        case SessionStart():
            return "session start", _beginning(seen), "aside"
        case _:
            return kind(seen), _whatever(seen), "aside"


def _beginning(seen: SessionStart) -> str:
    """How a session began, and where from."""
    source = one_line(seen.source)
    parts = [
        source if source != "start" else "",
        f"forked from {one_line(seen.forked_from)}" if seen.forked_from else "",
        f"spawned by {one_line(seen.parent)}" if seen.parent else "",
    ]
    return ", ".join(filter(None, parts))


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
