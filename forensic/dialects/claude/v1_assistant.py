"""Claude Code, parser version 1: what the model says, and what that costs. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from forensic.dialects.claude.v1_common import (
    TRIM,
    Body,
    base,
    mapping,
    native_text,
    sequence,
    text_or_none,
    whole,
)
from forensic.dialects.claude.v1_results import beside, tool_result
from forensic.dialects.parser import native
from forensic.model import (
    Accounting,
    Failure,
    Keeper,
    Observation,
    Response,
    Row,
    Skill,
    Thought,
    ToolRequest,
    ToolResult,
    Unmodelled,
    Usage,
)

__all__ = ["BLOCKS", "assistant", "blocks_of", "read_assistant", "read_block"]

BlockReader = Callable[[Body, Body, Keeper], Iterable[Observation]]


def assistant(row: Row, body: Body, keep: Keeper) -> list[Observation]:
    """A row of a model message: one observation a block, the usage on the first."""
    return read_assistant(base(row, body), body, keep)


def read_assistant(fields: Body, body: Body, keep: Keeper) -> list[Observation]:
    """The observations of a model message, given what all of them have in common."""
    message = body.get("message")
    if isinstance(message, str):
        message = {"content": message}
    elif not isinstance(message, dict):
        return []
    fields["step"] = text_or_none(message.get("id")) or fields["id"]
    synthetic = message.get("model") == "<synthetic>"
    usage = None if synthetic else _usage(message, body)
    if usage is not None:
        fields["usage"] = usage
    blocks = blocks_of(message.get("content"))
    if body.get("isApiErrorMessage") is True:
        text = "\n".join(native_text(mapping(block).get("text")) for block in blocks)
        return [Failure(**fields, text=keep.text(text), status=whole(body.get("apiErrorStatus")))]
    seen: list[Observation] = []
    for block in blocks:
        if synthetic and mapping(block).get("type") == "text":
            seen.append(Response(**fields, text=keep.text(native_text(block.get("text"))), synthetic=True))
        else:
            seen.extend(read_block(fields, block, keep, BLOCKS))
        fields.pop("usage", None)
    if not seen and usage is not None:
        seen.append(Accounting(**fields, family="assistant.usage"))
    return seen


def blocks_of(content: object) -> list[Any]:
    """The blocks of a message; a plain text is one."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else sequence(content)


def read_block(fields: Body, block: object, keep: Keeper, table: Mapping[str, BlockReader]) -> Iterable[Observation]:
    """What one block says; one that says nothing to us is unmodelled, its brothers live."""
    if not isinstance(block, dict):
        return (Unmodelled(**fields, family="block/<scalar>"),)
    name = block.get("type")
    reader = table.get(name) if isinstance(name, str) else None
    seen = reader(fields, block, keep) if reader else ()
    return seen or (Unmodelled(**fields, family=f"block/{native(name)}"),)


def _response(fields: Body, block: Body, keep: Keeper) -> Iterable[Observation]:
    text = block.get("text")
    return (Response(**fields, text=keep.text(text)),) if isinstance(text, str) else ()


def _thought(fields: Body, block: Body, keep: Keeper) -> Iterable[Observation]:
    text = block.get("thinking")
    if not isinstance(text, str):
        return ()
    signature = len(native_text(block.get("signature")))
    if text or not signature:
        return (Thought(**fields, text=keep.text(text), signature_chars=signature),)
    return (Thought(**fields, opaque=True, signature_chars=signature),)


def _redacted_thought(fields: Body, block: Body, keep: Keeper) -> Iterable[Observation]:
    return (Thought(**fields, opaque=True, redacted=True),)


_PATHS = ("file_path", "path")
_READS: Final = {"Read": _PATHS, "NotebookRead": ("notebook_path",)}
_WRITES: Final = {"Write": _PATHS, "Edit": _PATHS, "MultiEdit": _PATHS, "NotebookEdit": ("notebook_path",)}
_SHELLS: Final = frozenset({"Bash", "PowerShell"})


def _tool_use(fields: Body, block: Body, keep: Keeper) -> Iterable[Observation]:
    name = block.get("name")
    if not isinstance(name, str):
        return ()
    given = block.get("input")
    said = mapping(given)
    call = text_or_none(block.get("id"))
    command = said.get("command") if name in _SHELLS else None
    request = ToolRequest(
        **fields,
        name=text_or_none(name) or "",
        input=keep.value(given),
        call=call,
        server=_server(name),
        reads=_paths(said, _READS[name]) if name in _READS else (),
        writes=_paths(said, _WRITES[name]) if name in _WRITES else (),
        command=keep.text(command) if isinstance(command, str) else None,
    )
    if name != "Skill":
        return (request,)
    skill = text_or_none(said.get("skill")) or text_or_none(said.get("command"))
    if skill is None:
        return (request,)
    fields.pop("usage", None)
    return (request, Skill(**fields, name=skill, stage="invoked", call=call))


def _server(name: str) -> str | None:
    # attributionMcpServer is no help: it names the server whose result the row follows, on calls of other tools too
    parts = name.split("__", 2)
    return parts[1] if parts[0] == "mcp" and len(parts) == 3 else None


def _paths(said: Body, keys: tuple[str, ...]) -> tuple[str, ...]:
    for key in keys:
        path = said.get(key)
        if isinstance(path, str) and path:
            return (path,)
    return ()


def _answer(fields: Body, block: Body, keep: Keeper) -> Iterable[Observation]:
    """The result of a tool that the model's own server ran: it stands in the reply."""
    return tool_result(fields, block, beside({}, keep), keep)


def _server_answer(fields: Body, block: Body, keep: Keeper) -> Iterable[Observation]:
    """The result of a server tool in its own block: a list of results, one result, or an error with its code."""
    content = block.get("content")
    told = mapping(content)
    failed = native_text(told.get("type")).endswith("_error")
    if failed:
        detail = {"error_code": keep.value(told.get("error_code"))}
    else:
        detail = {"results": len(content) if isinstance(content, list) else 1}
    call = text_or_none(block.get("tool_use_id"))
    yield ToolResult(**fields, call=call, ok=not failed, outcome="error" if failed else "ok", detail=detail)


BLOCKS: Final[Mapping[str, BlockReader]] = {
    "bash_code_execution_tool_result": _server_answer,
    "code_execution_tool_result": _server_answer,
    "redacted_thinking": _redacted_thought,
    "server_tool_use": _tool_use,
    "text": _response,
    "text_editor_code_execution_tool_result": _server_answer,
    "thinking": _thought,
    "tool_result": _answer,
    "tool_use": _tool_use,
    "web_fetch_tool_result": _server_answer,
    "web_search_tool_result": _server_answer,
}


# --- its accounting ---------------------------------------------------------------------------------------------------


_COUNTS: Final = (
    ("input_tokens", "input_tokens"),
    ("output_tokens", "output_tokens"),
    ("cache_read_input_tokens", "cache_read_tokens"),
    ("cache_creation_input_tokens", "cache_write_tokens"),
)
_INNER_COUNTS: Final = {
    "cache_creation": (
        ("ephemeral_5m_input_tokens", "cache_write_5m_tokens"),
        ("ephemeral_1h_input_tokens", "cache_write_1h_tokens"),
    ),
    "output_tokens_details": (("thinking_tokens", "reasoning_tokens"),),
}
_NEEDED: Final = frozenset({"input_tokens", "output_tokens"})
_LIMIT: Final = 2**63


def _usage(message: Body, body: Body) -> Usage | None:
    """What a message says of its tokens; None when it says nothing at all."""
    if "usage" not in message:
        return None
    said = message["usage"]
    request = body.get("requestId")
    unusable: list[str] = [] if isinstance(said, dict) else ["usage"]
    counts = _counts(said, unusable) if isinstance(said, dict) else {}
    return Usage(
        message=text_or_none(message.get("id")),
        request=text_or_none(request.strip(TRIM)) if isinstance(request, str) else None,
        model=text_or_none(message.get("model")),
        **counts,
        final=isinstance(message.get("stop_reason"), str),
        unusable=tuple(unusable),
    )


def _counts(said: Body, unusable: list[str]) -> Body:
    """Counts of tokens by our names; what is none is named in `unusable`, never made into one."""
    counts: Body = {}
    _count(said, _COUNTS, counts, unusable)
    for name, keys in _INNER_COUNTS.items():
        holder = said.get(name)
        if isinstance(holder, dict):
            _count(holder, keys, counts, unusable)
    return counts


def _count(holder: Body, keys: tuple[tuple[str, str], ...], counts: Body, unusable: list[str]) -> None:
    for key, name in keys:
        value = holder.get(key)
        if type(value) is int and 0 <= value < _LIMIT:
            counts[name] = value
        elif key in holder or key in _NEEDED:
            unusable.append(key)
