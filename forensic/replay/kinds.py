"""Kinds: what the reconciler knows of each kind of observation before it looks at any."""

from __future__ import annotations

from forensic.model import (
    Accounting,
    HookRun,
    Mended,
    Observation,
    Permission,
    Progress,
    Response,
    SetAside,
    Setting,
    Skill,
    SubagentStart,
    Thought,
    Title,
    ToolRequest,
    ToolResult,
    Unmodelled,
    Unreadable,
)
from forensic.replay.subagents import PLACEHOLDER

__all__ = ["JOINS", "NODELESS", "SPOKEN", "rank_of"]

SPOKEN = frozenset({Thought, Response, ToolRequest})
"""What only a model says, so that somebody paid for it."""
NODELESS = frozenset(
    {Progress, SetAside, Skill, SubagentStart, Title, Mended, Unreadable, Unmodelled, Accounting, Setting}
)
JOINS = frozenset({ToolResult, Progress, SetAside, Permission, HookRun, Skill})
"""Kinds that join a call by its id: placed once all calls are known."""


def rank_of(seen: Observation) -> int | None:
    """When it can be placed: at once, or behind everything that it may join."""
    if seen.via is not None:
        return 2
    if seen.agent == PLACEHOLDER:
        return 1
    if type(seen) is Skill and seen.call is None:
        return None
    return 0 if type(seen) in JOINS else None
