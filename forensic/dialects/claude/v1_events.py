"""Claude Code, parser version 1: ``system`` and ``attachment`` rows. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from forensic.dialects.claude.v1_common import (
    TRIM,
    Body,
    aside,
    base,
    mapping,
    native_text,
    number,
    picked,
    sequence,
    text_or_none,
    whole,
)
from forensic.dialects.claude.v1_user import PICTURES, prompt_of
from forensic.dialects.parser import Aside, Reader, native
from forensic.model import (
    Compaction,
    Failure,
    HookRun,
    Injected,
    Keeper,
    Observation,
    Prompt,
    Row,
    SetAside,
    Skill,
    SystemPrompt,
    TurnEnd,
)

__all__ = ["ATTACHMENTS", "SYSTEM"]


# --- system -----------------------------------------------------------------------------------------------------------


def _turn_duration(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    yield TurnEnd(**base(row, body), duration_ms=number(body.get("durationMs")))


def _compact_boundary(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    told = mapping(body.get("compactMetadata"))
    yield Compaction(
        **base(row, body), trigger=text_or_none(told.get("trigger")), before_tokens=whole(told.get("preTokens"))
    )


def _microcompact_boundary(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    told = mapping(body.get("microcompactMetadata"))
    yield Compaction(
        **base(row, body),
        trigger=text_or_none(told.get("trigger")),
        before_tokens=whole(told.get("preTokens")),
        micro=True,
    )


def _api_error(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    error = mapping(body.get("error"))
    yield Failure(
        **base(row, body),
        text=keep.text(_why(error, mapping(body.get("cause")))),
        status=whole(error.get("status")),
        attempt=whole(body.get("retryAttempt")),
        attempts=whole(body.get("maxRetries")),
        retry_ms=number(body.get("retryInMs")),
    )


def _why(error: Body, cause: Body) -> str:
    """What the server said, else what the connection said; empty when only a status is known."""
    answered = mapping(error.get("error"))
    for told in (mapping(answered.get("error")), answered, error, mapping(error.get("cause")), cause):
        said = text_or_none(told.get("message")) or text_or_none(told.get("code"))
        if said is not None:
            return said
    return ""


def _local_command(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """A command that the client answered itself: what was typed, or what came of it."""
    text = native_text(body.get("content"))
    fields = base(row, body)
    if text.startswith("<command-name>") and fields["agent"] is None:
        yield prompt_of(fields, keep, text, "command")
    else:
        yield Injected(**fields, text=keep.text(text), source="command-output")


def _stop_hook_summary(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """The hooks that ran when the model stopped: one run each, and what cannot be told of a single one."""
    runs = [mapping(run) for run in sequence(body.get("hookInfos"))]
    errors = [native_text(error) for error in sequence(body.get("hookErrors"))]
    fields = base(row, body)
    all_failed = bool(errors) and len(errors) == len(runs)
    for order, run in enumerate(runs):
        yield HookRun(
            **fields,
            event="Stop",
            command=text_or_none(run.get("command")),
            outcome="error" if all_failed else None if errors else "ok",
            duration_ms=number(run.get("durationMs")),
            text=keep.text(errors[order]) if all_failed else None,
        )
    value: Body = {} if all_failed or not errors else {"hookErrors": errors}
    if body.get("preventedContinuation") is True:
        value.update(picked(body, "preventedContinuation", "stopReason") or {})
    if value or not runs:
        yield SetAside(**fields, family="system/stop_hook_summary", value=keep.value(value) or None)


SYSTEM: Final[Mapping[str, Reader]] = {
    "system/api_error": _api_error,
    "system/compact_boundary": _compact_boundary,
    "system/local_command": _local_command,
    "system/microcompact_boundary": _microcompact_boundary,
    "system/stop_hook_summary": _stop_hook_summary,
    "system/turn_duration": _turn_duration,
    **{
        family: aside(family, *keys)
        for family, keys in {
            "system/away_summary": ("content",),
            "system/bridge_status": ("url",),
            "system/informational": ("content",),
            "system/model_refusal_fallback": ("originalModel", "fallbackModel", "trigger", "apiRefusalCategory"),
            "system/scheduled_task_fire": ("content",),
        }.items()
    },
}


# --- attachments ------------------------------------------------------------------------------------------------------

_OF_A_CALL: Final = frozenset({
    "PermissionDenied", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreToolUse",
})  # fmt: skip
_HOOK_OUTCOMES: Final = {
    "hook_blocking_error": "blocked",
    "hook_cancelled": "cancelled",
    "hook_non_blocking_error": "error",
    "hook_success": "ok",
}


def _call_of(attached: Body) -> str | None:
    """The call that a hook ran for; hooks of other events carry an id that is no call's."""
    return text_or_none(attached.get("toolUseID")) if native_text(attached.get("hookEvent")) in _OF_A_CALL else None


def _hook_run(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    attached = body["attachment"]
    printed = "\n".join(text for key in ("stdout", "stderr") if (text := native_text(attached.get(key)).strip(TRIM)))
    said = printed or native_text(attached.get("content")).strip(TRIM)
    yield HookRun(
        **base(row, body),
        event=native_text(attached.get("hookEvent")),
        name=text_or_none(attached.get("hookName")),
        command=text_or_none(attached.get("command")),
        outcome=_HOOK_OUTCOMES[attached["type"]],
        exit_code=whole(attached.get("exitCode")),
        duration_ms=number(attached.get("durationMs")),
        text=keep.text(said) if said else None,
        call=_call_of(attached),
    )


def _hook_context(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """What a hook put before the model: a text, not another run."""
    attached = body["attachment"]
    content = attached.get("content")
    text = "\n".join(native_text(part) for part in sequence(content)) or native_text(content)
    yield Injected(**base(row, body), text=keep.text(text), source="hook", call=_call_of(attached))


def _prompt_snapshot(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    parts = body["attachment"].get("systemPrompt")
    texts = [parts] if isinstance(parts, str) else [part for part in sequence(parts) if isinstance(part, str)]
    if texts:
        whole_text = "\n\n".join(texts).replace("\r\n", "\n").strip(TRIM)
        yield SystemPrompt(**base(row, body), text=keep.text(whole_text), parts=len(texts))


def _queued_command(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """What was said while the model worked: it stands in no other row."""
    attached = body["attachment"]
    fields = base(row, body)
    text, images = _queued(attached.get("prompt"))
    source = _queued_by(attached, fields)
    if source is not None:
        yield Injected(**fields, text=keep.text(text), source=source)
    elif attached.get("commandMode") == "bash":
        yield Prompt(**fields, text=keep.text(text), source="shell")
    else:
        yield prompt_of(fields, keep, text, "queued", images)


def _queued(prompt: object) -> tuple[str, int]:
    if isinstance(prompt, str):
        return prompt, 0
    blocks = [mapping(block) for block in sequence(prompt)]
    texts = [native_text(block.get("text")) for block in blocks if block.get("type") == "text"]
    return "\n".join(texts), sum(native_text(block.get("type")) in PICTURES for block in blocks)


def _queued_by(attached: Body, fields: Body) -> str | None:
    """Who queued it when it was not the person at the main agent."""
    origin = mapping(attached.get("origin")).get("kind")
    if isinstance(origin, str) and origin != "human":
        return native(origin)
    mode = attached.get("commandMode")
    if mode not in ("bash", "prompt"):
        return native(mode)
    if attached.get("isMeta") is True:
        return "meta"
    return None if fields["agent"] is None else "message"


def _names(attached: Body, *keys: str) -> list[str]:
    """Names under the first key that has any: texts, or objects with a `name`."""
    for key in keys:
        given = attached.get(key)
        items = given if isinstance(given, list) else [given]
        names = [item if isinstance(item, str) else mapping(item).get("name") for item in items]
        found = [name for name in names if isinstance(name, str) and name]
        if found:
            return found
    return []


def _skills(stage: str) -> Reader:
    def read(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
        attached = body["attachment"]
        fields = base(row, body)
        names = _names(attached, "names", "skills", "skillNames", "skill", "name")
        for name in names:
            yield Skill(**fields, name=name, stage=stage)
        if not names:
            # older listings name their skills only inside a text for the model
            value = keep.value(attached.get("skillCount"))
            yield SetAside(**fields, family=f"attachment/{attached['type']}", value=value)

    return read


def _attached(kind: str, *keys: str) -> Aside:
    """A reader for an attachment that makes no node; what it keeps lies within the attachment."""
    family = f"attachment/{kind}"
    if not keys:
        return Aside(family, base)

    def value(body: Body) -> Any:
        attached = body["attachment"]
        return attached.get(keys[0]) if len(keys) == 1 else picked(attached, *keys)

    return Aside(family, base, value)


_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "agent_listing_delta": ("addedTypes", "removedTypes"),
    "auto_mode": (),
    "command_permissions": ("allowedTools",),
    "compact_file_reference": ("filename",),
    "companion_intro": (),
    "date": ("date",),
    "date_change": ("newDate",),
    "deferred_tools_delta": (),
    "edited_text_file": ("filename",),
    "environment": ("snapshot",),
    "file": ("filename",),
    "hook_system_message": ("content",),
    "instructions": (),
    "mcp_instructions_delta": ("addedNames", "removedNames"),
    "model": ("identity",),
    "nested_memory": ("path",),
    "opened_file_in_ide": ("filename",),
    "output_style_instructions": (),
    "plan_file_reference": ("planFilePath",),
    "plan_mode": ("planFilePath",),
    "plan_mode_exit": ("planFilePath",),
    "plan_mode_reentry": ("planFilePath",),
    "read_truncation_notice": (),
    "remote_session_change": (),
    "session_context": (),
    "task_reminder": ("itemCount",),
    "todo_reminder": ("itemCount",),
    "total_tokens_reminder": ("text",),
    "ultra_effort_enter": (),
    "ultra_effort_exit": (),
}
"""Attachments that make no node, and what is kept of each: names, never what files hold."""

ATTACHMENTS: Final[Mapping[str, Reader]] = {
    "attachment/dynamic_skill": _skills("loaded"),
    "attachment/hook_additional_context": _hook_context,
    "attachment/invoked_skills": _skills("loaded"),
    "attachment/prompt_snapshot": _prompt_snapshot,
    "attachment/queued_command": _queued_command,
    "attachment/skill_activated": _skills("invoked"),
    "attachment/skill_listing": _skills("available"),
    **{f"attachment/{kind}": _hook_run for kind in _HOOK_OUTCOMES},
    **{f"attachment/{kind}": _attached(kind, *keys) for kind, keys in _KEPT.items()},
}
