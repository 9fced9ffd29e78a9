"""What capture may know of each harness: a table, no code.

Capture understands no row. To give a transcript its identity it looks for a few keys by name, nothing more; everything
else about a harness lives in its dialect.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["HARNESSES", "UNKNOWN", "Harness", "Hooks", "Identity"]


class Identity(Struct, frozen=True, kw_only=True):
    """Where a row names its session: at `path`, in rows of that `type` (None: any) that have all the keys `beside`."""

    path: tuple[str, ...]
    type: str | None = None
    beside: frozenset[str] = frozenset()


class Hooks(Struct, frozen=True, kw_only=True):
    """What capture looks for in the hook payloads of one harness: names of keys at their top, nothing more.

    `session` names the session, `parent` the one that a child agent belongs to, `child` that child; of several keys
    the first that is there counts. Rows are drained before an event of `boundaries` is recorded; one of `ends` is a
    session's last for all that can be known. `events` is the file below a folder of the session's name in a root, for
    a harness that does not always name it. `signs` are keys that no other harness's payloads have, `marks` are
    variables that only its environment has.
    """

    session: tuple[str, ...] = ("session_id",)
    parent: tuple[str, ...] = ()
    child: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ("transcript_path", "agent_transcript_path")
    event: str = "hook_event_name"
    ends: frozenset[str] = frozenset({"SessionEnd"})
    boundaries: frozenset[str] = frozenset({"SessionEnd", "Stop", "StopFailure", "SubagentStop", "PreCompact"})
    endings: tuple[str, ...] = (".jsonl",)
    events: str = ""
    signs: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    home: tuple[str, str] = ("", "")
    """The variable that names the folder of the harness, and the folder below the user's own that it is by default."""
    roots: tuple[str, ...] = ()
    """Where transcripts lie below that folder."""


class Harness(Struct, frozen=True, kw_only=True):
    """How the rows of one harness name their session, their producer and their working folder (paths of keys)."""

    name: str
    title: str
    identities: tuple[Identity, ...] = ()
    version_keys: tuple[tuple[str, ...], ...] = ()
    cwd_keys: tuple[tuple[str, ...], ...] = ()
    row_types: frozenset[str] = frozenset()
    """Values of a row's ``type``: a quarter of a file's rows must have one of them."""
    own_types: frozenset[str] = frozenset()
    """Those of them that nobody else writes: one such row and the file is taken for this harness's."""
    row_keys: frozenset[str] = frozenset()
    """Keys that stand beside a ``type`` here and in no other harness's rows: with one of them any type will do."""
    shapes: tuple[frozenset[str], ...] = ()
    """Sets of keys that only this harness's rows have together, whatever their type."""
    hooks: Hooks = Hooks()


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

_CODEX_HEADER = frozenset({"id", "instructions", "timestamp"})
"""The first row of rollouts that had no envelope yet."""

HARNESSES: dict[str, Harness] = {
    "claude": Harness(
        name="claude",
        title="Claude Code",
        identities=(Identity(path=("sessionId",)),),
        version_keys=(("version",),),
        cwd_keys=(("cwd",),),
        row_types=_CLAUDE_OWN
        | {"assistant", "attachment", "mode", "progress", "relocated", "summary", "system", "user"},
        own_types=_CLAUDE_OWN,
        row_keys=frozenset({"isSidechain", "leafUuid", "parentUuid", "requestId", "sessionId", "uuid"}),
        hooks=Hooks(home=("CLAUDE_CONFIG_DIR", ".claude"), roots=("projects",), marks=frozenset({"CLAUDECODE"})),
    ),
    "codex": Harness(
        name="codex",
        title="Codex",
        identities=(
            Identity(path=("payload", "id"), type="session_meta"),
            Identity(path=("id",), beside=_CODEX_HEADER),
        ),
        version_keys=(("payload", "cli_version"),),
        cwd_keys=(("payload", "cwd"),),
        row_types=frozenset(
            {
                "custom_tool_call",
                "custom_tool_call_output",
                "function_call",
                "function_call_output",
                "local_shell_call",
                "message",
                "reasoning",
                "web_search_call",
            }
        ),
        shapes=(frozenset({"payload", "timestamp", "type"}), _CODEX_HEADER, frozenset({"record_type"})),
        hooks=Hooks(
            home=("CODEX_HOME", ".codex"),
            roots=("sessions", "archived_sessions"),
            boundaries=frozenset({"SessionEnd", "Stop", "SubagentStop", "Interrupt", "PreCompact"}),
            signs=frozenset({"turn_id"}),
        ),
    ),
    "copilot": Harness(
        name="copilot",
        title="Copilot CLI",
        identities=(
            Identity(path=("data", "sessionId"), type="session.start"),
            Identity(path=("data", "sessionId"), type="session.resume"),
        ),
        version_keys=(("data", "copilotVersion"),),
        cwd_keys=(("data", "context", "cwd"),),
        shapes=(frozenset({"data", "id", "parentId", "timestamp", "type"}),),
        hooks=Hooks(
            session=("sessionId", "session_id"),
            parent=("parentAgentId", "parent_agent_id"),
            child=("agentId", "agent_id"),
            transcripts=("transcriptPath", "transcript_path", "agentTranscriptPath", "agent_transcript_path"),
            ends=frozenset({"sessionEnd", "SessionEnd"}),
            boundaries=frozenset({"sessionEnd", "SessionEnd", "agentStop", "Stop", "subagentStop", "SubagentStop"}),
            events="events.jsonl",
            marks=frozenset({"COPILOT_CLI"}),
            home=("COPILOT_HOME", ".copilot"),
            roots=("session-state",),
        ),
    ),
    "cursor": Harness(
        name="cursor",
        title="Cursor",
        row_types=frozenset({"turn_ended"}),
        shapes=(frozenset({"message", "role"}),),
        hooks=Hooks(
            session=("conversation_id", "session_id"),
            parent=("parent_conversation_id",),
            ends=frozenset({"sessionEnd"}),
            boundaries=frozenset({"sessionEnd", "stop", "subagentStop", "preCompact"}),
            endings=(".jsonl", ".txt"),
            signs=frozenset({"conversation_id", "cursor_version"}),
            home=("", ".cursor"),
            roots=("projects",),
        ),
    ),
    "unknown": UNKNOWN,
}
