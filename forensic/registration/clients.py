"""What is known of the four harnesses' hooks: a table, no code. docs/hooks.md gives the reasons, event by event."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

__all__ = ["ALL", "CLIENTS", "NEVER", "SAFE", "Client", "Event", "Level"]

Level = Literal["safe", "all", "never"]
SAFE: Final = "safe"
"""Registered unless something else is asked for."""
ALL: Final = "all"
"""Registered with ``--events all``."""
NEVER: Final = "never"
"""Not registered, as a silent hook would change what the harness does, or hear nothing."""

_VERIFIED_CLAUDE: Final = (2, 1, 197)
"""The oldest Claude Code that was seen to run with all of these names in its settings."""


class Event(Struct, frozen=True):
    """An event of a harness. `timeout` is in seconds; `since` the first version that surely takes the name."""

    name: str
    level: Level = SAFE
    timeout: int = 10
    since: tuple[int, ...] = ()


class Client(Struct, frozen=True, kw_only=True):
    """Where one harness is told about hooks, and how."""

    name: str
    program: str
    """What a person types to start it."""
    user: tuple[str, ...]
    """The configuration of the user, below its own folder."""
    project: tuple[str, ...]
    """The configuration of a project, below the project."""
    grouped: bool
    """Whether a hook stands in a list of hooks inside an element of its event's list."""
    numbered: bool
    """Whether the configuration says its ``version``, which is 1."""
    command: str = "command"
    timeout: str = "timeout"
    """The keys of a hook."""
    events: tuple[Event, ...]


def _claude(*names: str, level: Level = SAFE) -> tuple[Event, ...]:
    return tuple(Event(name, level, since=_VERIFIED_CLAUDE) for name in names)


CLIENTS: Final[dict[str, Client]] = {
    "claude": Client(
        name="claude",
        program="claude",
        user=("settings.json",),
        project=(".claude", "settings.json"),
        grouped=True,
        numbered=False,
        events=(
            Event("PreToolUse"),
            Event("PostToolUse"),
            *_claude("PostToolUseFailure", "PostToolBatch"),
            Event("Notification"),
            Event("UserPromptSubmit"),
            *_claude("UserPromptExpansion"),
            Event("SessionStart"),
            Event("SessionEnd"),
            Event("Stop"),
            *_claude("StopFailure", "SubagentStart"),
            Event("SubagentStop"),
            Event("PreCompact", ALL),
            *_claude("PostCompact", level=ALL),
            *_claude("PreModelSwitch", "PostModelSwitch", "PermissionRequest", "PermissionDenied"),
            *_claude("Setup", "TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange", "InstructionsLoaded"),
            *_claude("CwdChanged", "DirectoryAdded", "PreSkillShellCommand"),
            *_claude("Elicitation", "ElicitationResult", "MessageDisplay", level=ALL),
            *_claude("FileChanged", "WorktreeCreate", "WorktreeRemove", level=NEVER),
        ),
    ),
    "codex": Client(
        name="codex",
        program="codex",
        user=("hooks.json",),
        project=(".codex", "hooks.json"),
        grouped=True,
        numbered=False,
        events=(
            Event("PreToolUse"),
            Event("PermissionRequest"),
            Event("PostToolUse"),
            Event("PreCompact"),
            Event("PostCompact"),
            Event("SessionStart"),
            Event("SessionEnd", timeout=3),
            Event("UserPromptSubmit"),
            Event("SubagentStart"),
            Event("SubagentStop"),
            Event("Stop"),
            Event("Interrupt", timeout=3),
            Event("PreModelRequest"),
            Event("PostModelRequest"),
        ),
    ),
    "copilot": Client(
        name="copilot",
        program="copilot",
        user=("hooks", "forensic.json"),
        project=(".github", "hooks", "forensic.json"),
        grouped=False,
        numbered=True,
        command="bash",
        timeout="timeoutSec",
        events=(
            Event("sessionStart"),
            Event("sessionEnd"),
            Event("userPromptSubmitted"),
            Event("userPromptTransformed"),
            Event("preToolUse"),
            Event("preMcpToolCall"),
            Event("postToolUse"),
            Event("postToolUseFailure"),
            Event("permissionRequest"),
            Event("notification"),
            Event("agentStop"),
            Event("subagentStart"),
            Event("subagentStop"),
            Event("errorOccurred"),
            Event("preCompact"),
        ),
    ),
    "cursor": Client(
        name="cursor",
        program="cursor-agent",
        user=("hooks.json",),
        project=(".cursor", "hooks.json"),
        grouped=False,
        numbered=True,
        events=(
            Event("sessionStart"),
            Event("sessionEnd"),
            Event("preToolUse"),
            Event("postToolUse"),
            Event("postToolUseFailure"),
            Event("subagentStart"),
            Event("subagentStop"),
            Event("beforeShellExecution"),
            Event("afterShellExecution"),
            Event("beforeMCPExecution"),
            Event("afterMCPExecution"),
            Event("beforeReadFile"),
            Event("afterFileEdit"),
            Event("beforeSubmitPrompt"),
            Event("preCompact"),
            Event("stop"),
            Event("afterAgentResponse"),
            Event("afterAgentThought"),
            Event("beforeTabFileRead", ALL),
            Event("afterTabFileEdit", ALL),
            Event("workspaceOpen", ALL),
        ),
    ),
}
