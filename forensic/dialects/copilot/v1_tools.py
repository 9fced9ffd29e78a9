"""Copilot CLI, parser version 1: tools asked for, run and answered, and who allowed it. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from forensic.dialects.copilot.v1_common import (
    TRIM,
    Body,
    mapping,
    native_text,
    number,
    picked,
    sequence,
    text_or_none,
    whole,
)
from forensic.dialects.parser import native
from forensic.jsonio import NotJson, decode
from forensic.model import Execution, Keeper, Observation, Permission, ToolRequest, ToolResult, Unmodelled

__all__ = ["execution", "permission_completed", "permission_requested", "request", "tool_result", "user_requested"]


# --- what is asked for ------------------------------------------------------------------------------------------------

_READERS: Final = frozenset({"view"})
_WRITERS: Final = frozenset({"create", "edit"})
_SHELLS: Final = frozenset({"bash", "local_shell", "powershell", "shell"})
_PATCH: Final = "apply_patch"
_PATCHED: Final = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def request(fields: Body, block: object, keep: Keeper) -> Observation:
    """One tool that the model asked for; what is none is unmodelled, its brothers live."""
    asked = mapping(block)
    name = text_or_none(asked.get("name"))
    if name is None:
        return Unmodelled(**fields, family=f"toolRequests/{native(asked.get('type'))}")
    return ToolRequest(**fields, **_meant(name, asked, keep))


def execution(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The client runs a tool; which one is called `name` in some versions."""
    name = text_or_none(data.get("toolName")) or text_or_none(data.get("name"))
    return () if name is None else (Execution(**fields, **_meant(name, data, keep)),)


def user_requested(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A tool that a person asked for: no message of the model has the call."""
    return execution(fields, data, keep)


def _meant(name: str, asked: Body, keep: Keeper) -> Body:
    """A call as far as this dialect understands it."""
    given = asked.get("arguments")
    command = mapping(given).get("command") if name in _SHELLS else None
    return {
        "name": name,
        "input": keep.value(given),
        "call": text_or_none(asked.get("toolCallId")),
        "server": text_or_none(asked.get("mcpServerName")),
        "reads": _path(given) if name in _READERS else (),
        "writes": _path(given) if name in _WRITERS else tuple(_patched(given)) if name == _PATCH else (),
        "command": keep.text(command) if isinstance(command, str) else None,
    }


def _path(given: object) -> tuple[str, ...]:
    path = text_or_none(mapping(given).get("path"))
    return () if path is None else (path,)


def _patched(given: object) -> Iterator[str]:
    """The paths in the headers of a patch, each once."""
    patch = given if isinstance(given, str) else native_text(mapping(given).get("input"))
    found: set[str] = set()
    for line in patch.split("\n"):
        for header in _PATCHED:
            path = line[len(header) :].strip(TRIM) if line.startswith(header) else ""
            if path and path not in found:
                found.add(path)
                yield path


# --- what came of it --------------------------------------------------------------------------------------------------

_DENIALS: Final = {
    "aborted": "interrupted",
    "cancelled": "interrupted",
    "denied": "denied",
    "interrupted": "interrupted",
    "rejected": "rejected",
}
"""Codes of errors that are none of the tool's own; any other is one."""

_DETAILS: Final = (
    "agent_id", "agent_type", "execution_mode", "executionMode", "failure_category", "failure_stage", "file_count",
    "files_found", "is_timeout", "largeOutputOriginalSizeBytes", "linesAdded", "linesRemoved", "matches_found",
    "mcp_result_content_bytes", "numberOfToolCallsMadeByAgent", "resolved_model", "resultLength", "result_token_count",
    "rowsReturned", "sandboxApplied", "shell_error_category", "shell_status",
)  # fmt: skip
"""What is kept of a tool's telemetry: what people ask for, not what the files held; the text stands beside it."""

_OF_SHELLS: Final = ("customTimeout", "executionMode", "shell_status")


def tool_result(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """What a tool gave back. A command that ended with an error is a result like any other: its exit code tells."""
    success = data.get("success")
    ok = success if isinstance(success, bool) else None
    text = _text(data, ok=ok)
    yield ToolResult(
        **fields,
        call=text_or_none(data.get("toolCallId")),
        ok=ok,
        outcome=_outcome(data, ok=ok),
        text=None if text is None else keep.text(text),
        detail=_detail(data, keep),
        duration_ms=number(data.get("durationMs")),
        exit_code=_exit_code(data, text),
        wrote=_wrote(data) if ok else (),
    )


def _outcome(data: Body, *, ok: bool | None) -> str | None:
    if ok:
        return "ok"
    code = text_or_none(mapping(data.get("error")).get("code")) or text_or_none(data.get("status")) or ""
    return _DENIALS.get(code, "error" if ok is False else None)


def _text(data: Body, *, ok: bool | None) -> str | None:
    error, result = data.get("error"), data.get("result")
    message = error if isinstance(error, str) else mapping(error).get("message")
    content = result if isinstance(result, str) else mapping(result).get("content")
    told = (content, message) if ok else (message, content)
    return next((text for text in told if isinstance(text, str)), None)


def _telemetry(data: Body, *parts: str) -> Body:
    told = mapping(data.get("toolTelemetry"))
    return {key: value for part in parts for key, value in mapping(told.get(part)).items()}


def _detail(data: Body, keep: Keeper) -> Any:
    detail = picked(_telemetry(data, "restrictedProperties", "properties", "metrics"), *_DETAILS) or {}
    code = text_or_none(mapping(data.get("error")).get("code"))
    if code is not None:
        detail["code"] = code
    return keep.value(detail) if detail else None


def _exit_code(data: Body, text: str | None) -> int | None:
    """As the client tells it; older ones only write it below what a shell printed."""
    told = whole(mapping(data.get("shellExecution")).get("exitCode"))
    if told is not None or not text or not picked(_telemetry(data, "properties"), *_OF_SHELLS):
        return told
    last = text.rstrip(TRIM).rpartition("\n")[2]
    digits = last.rpartition(" exit code ")[2].removesuffix(">") if last.startswith("<") else ""
    known = digits.isascii() and digits.isdigit() and len(digits) < len("1000000000000")
    return int(digits) if known else None


def _wrote(data: Body) -> tuple[str, ...]:
    """The paths that were changed: named as such, else those of a tool that counted the lines it changed."""
    edits = [text_or_none(mapping(edit).get("path")) for edit in sequence(data.get("fileEdits"))]
    if not edits and "linesAdded" in _telemetry(data, "metrics"):
        edits = [text_or_none(path) for path in _paths(_telemetry(data, "properties", "restrictedProperties"))]
    return tuple(path for path in edits if path is not None)


def _paths(told: Body) -> list[Any]:
    try:
        return sequence(decode(native_text(told.get("filePaths")).encode())[0])
    except NotJson:
        return []


# --- who allowed it ---------------------------------------------------------------------------------------------------

_ASKED: Final = (
    "kind", "intention", "fullCommandText", "path", "fileName", "url", "serverName", "toolName", "warning",
)  # fmt: skip


def permission_requested(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """Somebody is asked to allow a call."""
    asked = mapping(data.get("permissionRequest"))
    detail = (picked(asked, *_ASKED) or {}) | (picked(data, "permissionMode", "resolvedByHook") or {})
    call = text_or_none(asked.get("toolCallId")) or text_or_none(data.get("toolCallId"))
    yield Permission(**fields, decision="requested", call=call, detail=keep.value(detail) or None)


def permission_completed(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """What was decided, in the client's words."""
    result = mapping(data.get("result"))
    decision = text_or_none(result.get("kind")) or text_or_none(data.get("status"))
    if decision is None:
        return
    detail = {key: value for key, value in result.items() if key != "kind"}
    yield Permission(
        **fields,
        decision=decision,
        call=text_or_none(data.get("toolCallId")),
        origin=text_or_none(data.get("decisionSource")),
        detail=keep.value(detail) or None,
    )
