"""Claude Code, parser version 1: what tools answered. Part of v1: frozen with it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from forensic.dialects.claude.v1_common import Body, mapping, native_text, number, text_or_none
from forensic.model import Keeper, Observation, Permission, Skill, ToolResult

__all__ = ["DETAILS", "Beside", "beside", "tool_result"]

DETAILS: Final = frozenset({
    "agentType", "annotations", "answers", "appliedLimit", "backgroundTaskId", "bytes", "code", "codeText",
    "commandName", "edit_mode", "fileCount", "gitOperation", "interrupted", "isAsync", "isImage", "matches", "message",
    "mode", "numFiles", "numLines", "operation", "outputFile", "query", "replaceAll", "resolvedModel", "resultCount",
    "retrieval_status", "returnCodeInterpretation", "shell_id", "staleRecovered", "status", "statusChange", "success",
    "taskId", "task_id", "task_type", "totalTokens", "totalToolUseCount", "total_deferred_tools", "truncated", "type",
    "updatedFields", "url", "userModified",
})  # fmt: skip
"""What a structured result keeps: what people ask for, not what the files held; the text stands beside it."""

_FILE_DETAILS: Final = ("numLines", "startLine", "totalLines")

_REJECTIONS: Final = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
    "User rejected tool use",
)
_INTERRUPTIONS: Final = ("[Request interrupted by user", "[Tool call interrupted")
_DENIALS: Final = {"interrupted": "interrupted", "permission-rule": "denied", "user-rejected": "rejected"}


class Beside(NamedTuple):
    """What a row says beside the blocks of its message: of each result in it the same, so it is read once."""

    body: Body
    structured: Body
    decision: Body
    detail: Any
    why: Any


def beside(body: Body, keep: Keeper) -> Beside:
    """What stands beside the results of a row."""
    structured, decision = mapping(body.get("toolUseResult")), mapping(body.get("permissionDecision"))
    why = {key: value for key, value in decision.items() if key not in ("decision", "source")}
    return Beside(body, structured, decision, _detail(structured, body, keep), keep.value(why) or None)


def tool_result(fields: Body, block: Body, row: Beside, keep: Keeper) -> list[Observation]:
    """One result, and the decision and the skill that its row tells of."""
    body, structured, decision = row.body, row.structured, row.decision
    call = text_or_none(block.get("tool_use_id"))
    text = _text(block.get("content"))
    outcome = _outcome(block, body, structured, text or native_text(body.get("toolUseResult")), decision)
    seen: list[Observation] = []
    verdict = decision.get("decision")
    if isinstance(verdict, str):
        origin = text_or_none(decision.get("source"))
        seen.append(Permission(**fields, decision=verdict, call=call, origin=origin, detail=row.why))
    good = outcome == "ok"
    seen.append(
        ToolResult(
            **fields,
            call=call,
            ok=good,
            outcome=outcome,
            text=None if text is None else keep.text(text),
            detail=row.detail,
            duration_ms=_duration(structured),
            exit_code=_exit_code(text) if outcome == "error" and text else None,
            spawned=text_or_none(structured.get("agentId")),
            read=_read(structured) if good else (),
            wrote=_wrote(structured) if good else (),
        )
    )
    skill = structured.get("commandName")
    if good and isinstance(skill, str) and structured.get("success") is True:
        seen.append(Skill(**fields, name=skill, stage="loaded", call=call))
    return seen


def _text(content: object) -> str | None:
    """The text parts of a result, joined by line feeds; None when it has none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(parts) if parts else None


def _outcome(block: Body, body: Body, structured: Body, text: str, decision: Body) -> str:
    if structured.get("interrupted") is True:
        return "interrupted"
    if block.get("is_error") is not True:
        return "ok"
    if decision.get("decision") == "reject" and not native_text(decision.get("source")).startswith("user"):
        # the row calls it "user-rejected" even where nobody was asked
        return "denied"
    kind = body.get("toolDenialKind")
    if isinstance(kind, str):
        return _DENIALS.get(kind, "denied")
    if text.startswith(_REJECTIONS):
        return "rejected"
    return "interrupted" if text.startswith(_INTERRUPTIONS) else "error"


def _detail(structured: Body, body: Body, keep: Keeper) -> Any:
    detail = {
        key: value for key, value in structured.items() if value is not None and value is not False and key in DETAILS
    }
    file = structured.get("file")
    if isinstance(file, dict):
        detail.update((key, file[key]) for key in _FILE_DETAILS if key in file)
    said = body.get("userFeedback")
    if isinstance(said, str):
        detail["userFeedback"] = said
    return keep.value(detail) if detail else None


def _duration(structured: Body) -> float | None:
    """How long the tool itself says it took, in milliseconds."""
    for key in ("durationMs", "totalDurationMs"):
        if key in structured:
            return number(structured[key])
    seconds = number(structured.get("durationSeconds"))
    return None if seconds is None else seconds * 1000


def _exit_code(text: str) -> int | None:
    """The exit code that a shell's error starts with."""
    if not text.startswith("Exit code "):
        return None
    digits = text[10:22].partition("\n")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _read(structured: Body) -> tuple[str, ...]:
    path = text_or_none(mapping(structured.get("file")).get("filePath"))
    return () if path is None else (path,)


def _wrote(structured: Body) -> tuple[str, ...]:
    path = text_or_none(structured.get("filePath")) if "structuredPatch" in structured else None
    return () if path is None else (path,)
