"""Claude Code, parser version 1: reads transcripts and their side files; hook payloads are not read yet.

Producers seen: `forensic.dialects.claude`. What is read, laid aside and not available: docs/dialects/claude.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from forensic.dialects.claude.v1_assistant import BLOCKS, assistant, read_assistant
from forensic.dialects.claude.v1_common import Body, aside, base, mapping, text_or_none, whole
from forensic.dialects.claude.v1_events import ATTACHMENTS, SYSTEM
from forensic.dialects.claude.v1_meter import METER
from forensic.dialects.claude.v1_user import USER_BLOCKS, read_user, user
from forensic.dialects.parser import UNTYPED, Aside, Parser, Reader, native
from forensic.jsonio import NotJson, decode
from forensic.model import (
    Accounting,
    Keeper,
    Observation,
    Payload,
    Progress,
    Row,
    SetAside,
    SideFile,
    SubagentStart,
    Title,
    utc,
)

__all__ = ["PARSER"]


# --- which family -----------------------------------------------------------------------------------------------------


def _family(body: Body) -> str:
    """The row's type, with the subtype where rows of one type are quite different things."""
    told = body.get("type")
    if told in ("assistant", "user"):
        return str(told)
    name = native(told)
    if name == "system":
        return f"system/{native(body['subtype'])}" if "subtype" in body else name
    if name == "attachment":
        return f"attachment/{native(mapping(body.get('attachment')).get('type'))}"
    if name == "progress":
        return f"progress/{native(mapping(body.get('data')).get('type'))}"
    return name


def _event(payload: Payload, body: Body) -> str:
    """The event as the payload names it, else as it was registered."""
    told = native(body.get("hook_event_name"))
    return native(payload.argv[-1]) if told == UNTYPED and payload.argv else told


def _side(native_id: str) -> str:
    """What a side file is, by its path below the session's folder."""
    *folders, name = native_id.replace("\\", "/").split("/")
    if name.startswith("agent-") and name.endswith(".meta.json"):
        return "subagent-meta"
    if "tool-results" in folders:
        return "tool-result-file"
    return "workflow-journal" if name == "journal.jsonl" else "side-file"


# --- progress ---------------------------------------------------------------------------------------------------------


def _progress(family: str) -> Reader:
    def read(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
        return (Progress(**base(row, body), family=family, call=text_or_none(body.get("parentToolUseID"))),)

    return read


def _agent_progress(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """A subagent's row inside a row of its parent: who started it, then what the inner row says."""
    data = body["data"]
    call = text_or_none(body.get("parentToolUseID"))
    agent = text_or_none(data.get("agentId"))
    outer = base(row, body)
    if agent is None:
        yield Progress(**outer, family="progress/agent_progress", call=call)
        return
    yield SubagentStart(**outer, spawned=agent, call=call, via="progress")
    inner = data.get("message")
    if not isinstance(inner, dict):
        return
    reader = _NESTED.get(native(inner.get("type")))
    if reader is not None:
        fields = {
            "ref": row.ref,
            "at": utc(inner.get("timestamp")),
            "turn": text_or_none(inner.get("promptId")),
            "agent": agent,
            "id": text_or_none(inner.get("uuid")),
            "via": "progress",
        }
        yield from reader(fields, inner, keep)


_NESTED: Final[Mapping[str, Any]] = {"assistant": read_assistant, "user": read_user}


# --- titles and accounts ----------------------------------------------------------------------------------------------


def _title(source: str, key: str) -> Reader:
    def read(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
        text = body.get(key)
        if isinstance(text, str):
            leaf = text_or_none(body.get("leafUuid"))
            yield Title(**base(row, body), text=keep.text(text), source=source, leaf=leaf)

    return read


def _cost_state(row: Row, body: Body, keep: Keeper) -> Iterable[Observation]:
    """The client's own account of the session so far, models flattened."""
    figures: Body = {}
    spent: list[int] = []
    for key, value in body.items():
        if key == "modelUsage":
            for model, counts in mapping(value).items():
                figures.update({f"modelUsage.{model}.{name}": count for name, count in mapping(counts).items()})
                if (tokens := whole(mapping(counts).get("outputTokens"))) is not None:
                    spent.append(tokens)
        elif key not in ("sessionId", "timestamp", "type", "uuid"):
            figures[key] = value
    yield Accounting(
        **base(row, body), family="cost-state", figures=keep.value(figures), output_tokens=sum(spent) if spent else None
    )


# --- side files -------------------------------------------------------------------------------------------------------


def _subagent_meta(file: SideFile, body: Body, keep: Keeper) -> Iterable[Observation]:
    folders, name = _path(file)
    yield SubagentStart(
        ref=file.ref,
        spawned=name.removeprefix("agent-").removesuffix(".meta.json"),
        call=text_or_none(body.get("toolUseId")),
        agent_type=text_or_none(body.get("agentType")),
        description=text_or_none(body.get("description")),
        model=text_or_none(body.get("model")),
        workflow=_workflow(folders),
    )


def _workflow_journal(file: SideFile, body: Body, keep: Keeper) -> Iterable[Observation]:
    """Which subagents belong to a workflow; one without a .meta.json is told of nowhere else."""
    workflow = _workflow(_path(file)[0])
    found = False
    for line in file.raw.split(b"\n"):
        try:
            told = mapping(decode(line)[0])
        except NotJson:
            continue
        agent = text_or_none(told.get("agentId"))
        if agent is not None and told.get("type") == "started":
            found = True
            yield SubagentStart(ref=file.ref, spawned=agent, workflow=workflow)
    if not found:
        yield SetAside(ref=file.ref, family="workflow-journal")


def _spilled(file: SideFile, body: Body) -> Body:
    """Which call a result that was too long for its row answers: the file is named for it, or for something else."""
    stem = _path(file)[1].partition(".")[0]
    return {"ref": file.ref, "call": stem if stem.startswith(_CALL_IDS) else None}


_CALL_IDS: Final = ("call_", "srvtoolu_", "toolu_", "tooluse_")


def _path(file: SideFile) -> tuple[list[str], str]:
    *folders, name = file.native_id.replace("\\", "/").split("/")
    return folders, name


def _workflow(folders: list[str]) -> str | None:
    return folders[-1] if folders and folders[-1].startswith("wf_") else None


# --- the tables -------------------------------------------------------------------------------------------------------

_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "api-request": (),
    "api-request-blob": (),
    "api-request-shape": (),
    "artifact-autoreact-ledger": (),
    "artifact-comment-monitor": (),
    "atis-latch": (),
    "bridge-session": (),
    "file-history-delta": ("trackingPath",),
    "file-history-snapshot": (),
    "fork-context-ref": (),
    "frame-link": ("frameUrl", "path", "title"),
    "last-prompt": (),
    "mode": ("mode",),
    "permission-mode": ("permissionMode",),
    "pr-link": ("prNumber", "prRepository", "prUrl"),
    "queue-operation": ("operation",),
    "relocated": (),
    "session-id": (),
    "tools-used": ("tools",),
    "worktree-state": ("worktreeSession",),
}
"""Rows that make no node, and what is kept of each."""

_PROGRESS: Final = (
    "bash_progress",
    "hook_progress",
    "mcp_progress",
    "query_update",
    "search_results_received",
    "waiting_for_task",
)

_ROWS: Final[Mapping[str, Reader]] = {
    "agent-name": _title("agent", "agentName"),
    "ai-title": _title("ai", "aiTitle"),
    "assistant": assistant,
    "cost-state": _cost_state,
    "custom-title": _title("custom", "customTitle"),
    "progress/agent_progress": _agent_progress,
    "summary": _title("summary", "summary"),
    "user": user,
    **ATTACHMENTS,
    **SYSTEM,
    **{f"progress/{kind}": _progress(f"progress/{kind}") for kind in _PROGRESS},
    **{family: aside(family, *keys) for family, keys in _KEPT.items()},
}

PARSER: Final = Parser(
    dialect="claude",
    version=1,
    family=_family,
    rows=_ROWS,
    event=_event,
    hooks={},
    side=_side,
    files={
        "subagent-meta": _subagent_meta,
        "tool-result-file": Aside("tool-result-file", _spilled),
        "workflow-journal": _workflow_journal,
    },
    blocks={"assistant": tuple(sorted(BLOCKS)), "user": USER_BLOCKS},
    meter=METER,
)
