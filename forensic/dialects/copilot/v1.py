"""Copilot CLI, parser version 1: reads ``events.jsonl`` and what the session is called; hook payloads not yet.

Producers seen: `forensic.dialects.copilot`. What is read, laid aside and not available: docs/dialects/copilot.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forensic.dialects.copilot.v1_common import Body, DataReader, aside, of_data
from forensic.dialects.copilot.v1_files import side, workspace
from forensic.dialects.copilot.v1_messages import (
    assistant_message,
    assistant_reasoning,
    system_message,
    system_notification,
    user_message,
)
from forensic.dialects.copilot.v1_session import (
    abort,
    compaction,
    error,
    hook_end,
    hook_start,
    resumed,
    setting,
    shutdown,
    skill_invoked,
    started,
    subagent_ended,
    subagent_started,
    truncation,
)
from forensic.dialects.copilot.v1_tools import (
    execution,
    permission_completed,
    permission_requested,
    tool_result,
    user_requested,
)
from forensic.dialects.copilot.v1_usage import model_call, usage_checkpoint, usage_record
from forensic.dialects.parser import UNTYPED, Parser, Reader, native
from forensic.model import Payload

__all__ = ["PARSER"]


def _family(body: Body) -> str:
    return native(body.get("type"))


def _event(payload: Payload, body: Body) -> str:
    """The event as the payload names it, which few do, else as it was registered."""
    told = native(body.get("hook_event_name"))
    return native(payload.argv[-1]) if told == UNTYPED and payload.argv else told


_MODELLED: Final[Mapping[str, DataReader]] = {
    "abort": abort,
    "assistant.message": assistant_message,
    "assistant.reasoning": assistant_reasoning,
    "hook.end": hook_end,
    "hook.start": hook_start,
    "model.model_call_success": model_call,
    "permission.completed": permission_completed,
    "permission.denied": permission_completed,
    "permission.requested": permission_requested,
    "session.compaction_complete": compaction,
    "session.error": error,
    "session.mode_changed": setting("model", "newMode", "previousMode"),
    "session.model_change": setting(
        "newModel", "previousModel", "previousReasoningEffort", "contextTier", "source", "cause"
    ),
    "session.permissions_changed": setting(
        "model", "mode", "previousMode", "allowAllPermissions", "allowAllPermissionMode"
    ),
    "session.resume": resumed,
    "session.shutdown": shutdown,
    "session.start": started,
    "session.truncation": truncation,
    "session.usage_checkpoint": usage_checkpoint,
    "session.usage_record": usage_record,
    "skill.invoked": skill_invoked,
    "subagent.completed": subagent_ended("completed"),
    "subagent.configured": setting("model", "multiTurn"),
    "subagent.failed": subagent_ended("failed"),
    "subagent.started": subagent_started,
    "system.message": system_message,
    "system.notification": system_notification,
    "tool.execution_complete": tool_result,
    "tool.execution_start": execution,
    "tool.user_requested": user_requested,
    "user.message": user_message,
}

_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "assistant.turn_end": (),
    "assistant.turn_start": (),
    "model.message": (),
    "model.messages_snapshot": (),
    "model.model_call_started": (),
    "model.response": (),
    "model.turn_ended": (),
    "model.turn_started": (),
    "session.auto_mode_resolved": (),
    "session.autopilot_objective_changed": ("operation", "status"),
    "session.binary_asset": ("assetId", "byteLength", "mimeType"),
    "session.compaction_start": ("trigger", "model", "currentTokens", "tokenLimit"),
    "session.context_changed": ("cwd", "gitRoot", "branch", "headCommit"),
    "session.context_cleared": ("messagesCleared",),
    "session.handoff": ("sourceType", "remoteSessionId"),
    "session.info": ("infoType", "message"),
    "session.mode_notice_delivered": ("mode",),
    "session.plan_changed": ("operation",),
    "session.remote_steerable_changed": ("remoteSteerable",),
    "session.schedule_cancelled": ("id",),
    "session.schedule_created": ("id", "prompt"),
    "session.schedule_rearmed": ("id", "nextRunAt"),
    "session.session_limits_changed": ("sessionLimits",),
    "session.task_complete": ("outcome", "success", "summary"),
    "session.warning": ("warningType", "message"),
    "session.workspace_file_changed": ("operation", "path"),
    "skill.context_delivered_ref": ("source", "contentId"),
    "subagent.deselected": (),
    "subagent.selected": ("agentName",),
    "tool_search.activated": ("strategy", "toolNames"),
}
"""Rows that make no node, and what is kept of each."""

_ROWS: Final[Mapping[str, Reader]] = {
    **{family: of_data(reader) for family, reader in _MODELLED.items()},
    **{family: aside(family, *keys) for family, keys in _KEPT.items()},
}

PARSER: Final = Parser(
    dialect="copilot",
    version=1,
    family=_family,
    rows=_ROWS,
    event=_event,
    hooks={},
    side=side,
    files={"workspace": workspace},
    blocks={},
)
