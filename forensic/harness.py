"""What capture may know of each harness: a table, no code.

Capture understands no row. To give a transcript its identity it looks for a few top-level keys by name, nothing
more; everything else about a harness lives in its dialect.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["HARNESSES", "UNKNOWN", "Harness"]


class Harness(Struct, frozen=True, kw_only=True):
    """How the rows of one harness name their session, their producer and their working folder (top-level keys)."""

    name: str
    title: str
    session_keys: tuple[str, ...] = ()
    version_keys: tuple[str, ...] = ()
    cwd_keys: tuple[str, ...] = ()
    row_types: frozenset[str] = frozenset()
    """Values of a row's ``type``: a quarter of a file's rows must have one of them."""
    own_types: frozenset[str] = frozenset()
    """Those of them that nobody else writes: one such row and the file is taken for this harness's."""
    row_keys: frozenset[str] = frozenset()
    """Keys that stand beside a ``type`` here and in no other harness's rows: with one of them any type will do."""


UNKNOWN = Harness(name="unknown", title="unknown")

_CLAUDE_OWN = frozenset(
    {
        "agent-name",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "bridge-session",
        "cost-state",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "frame-link",
        "last-prompt",
        "permission-mode",
        "pr-link",
        "queue-operation",
        "session-id",
        "worktree-state",
    }
)

HARNESSES: dict[str, Harness] = {
    "claude": Harness(
        name="claude",
        title="Claude Code",
        session_keys=("sessionId",),
        version_keys=("version",),
        cwd_keys=("cwd",),
        row_types=_CLAUDE_OWN
        | {"assistant", "attachment", "mode", "progress", "relocated", "summary", "system", "user"},
        own_types=_CLAUDE_OWN,
        row_keys=frozenset({"isSidechain", "leafUuid", "parentUuid", "requestId", "sessionId", "uuid"}),
    ),
    "unknown": UNKNOWN,
}
