"""Codex, parser version 1: tools that ran, as the client tells of them. Part of v1: frozen with it.

Nearly all of it is told elsewhere as well; what ran inside a JavaScript cell, or was typed as a shell command by a
person, is told here alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from forensic.dialects.codex.v1_calls import command_of
from forensic.dialects.codex.v1_common import (
    EVENT,
    Body,
    Fields,
    joined,
    mapping,
    milliseconds,
    native_text,
    picked,
    sequence,
    text_or_none,
    texts,
    whole,
)
from forensic.dialects.codex.v1_results import code_outcome, status_outcome
from forensic.model import Execution, Keeper, Observation, ToolResult

__all__ = ["Ran", "changed", "executed", "mcp_answer", "ran"]

_INSIDE: Final = "exec-"
"""How the id of a call begins that the model never made: it ran inside a JavaScript cell."""

_BY_HAND: Final = "user_shell"


class Ran(NamedTuple):
    """A tool that ran: what it was given, what came of it. `by_hand` is what a person ran."""

    call: str | None
    name: str
    given: Any = None
    server: str | None = None
    command: str | None = None
    text: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    duration_ms: float | None = None
    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
    spawned: str | None = None
    by_hand: bool = False


def ran(fields: Fields, told: Ran, keep: Keeper) -> Iterator[Observation]:
    """The result of a call of the model's, told again; or a call that nobody else tells of, with its result."""
    if told.by_hand or (told.call or "").startswith(_INSIDE):
        yield Execution(
            **fields,
            name=told.name,
            input=keep.value(told.given),
            call=told.call,
            server=told.server,
            reads=told.read,
            writes=told.wrote,
            command=None if told.command is None else keep.text(told.command),
        )
    else:
        fields = {**fields, "via": EVENT}
    good = told.outcome == "ok"
    yield ToolResult(
        **fields,
        call=told.call,
        ok=None if told.outcome is None else good,
        outcome=told.outcome,
        text=None if told.text is None else keep.text(told.text),
        exit_code=told.exit_code,
        duration_ms=told.duration_ms,
        spawned=told.spawned,
        read=told.read if good else (),
        wrote=told.wrote if good else (),
    )


def executed(said: Body, call: object) -> Ran:
    """A command that ran."""
    by_hand = said.get("source") == _BY_HAND
    code, outcome = whole(said.get("exit_code")), status_outcome(said.get("status"))
    printed = [said[key] for key in ("aggregated_output", "stdout") if isinstance(said.get(key), str)]
    return Ran(
        call=text_or_none(call),
        name=_BY_HAND if by_hand else "exec_command",
        given=picked(said, "command", "cwd"),
        command=command_of(said.get("command")),
        text=printed[0] if printed else None,
        outcome=code_outcome(code) if outcome is None and code is not None else outcome,
        exit_code=code,
        duration_ms=milliseconds(said.get("duration")),
        read=_read_paths(said.get("parsed_cmd")),
        by_hand=by_hand,
    )


def _read_paths(parsed: object) -> tuple[str, ...]:
    """The files that a command reads, as the client understands it."""
    told = [mapping(one) for one in sequence(parsed)]
    paths = [text_or_none(one.get("path")) for one in told if one.get("type") == "read"]
    return tuple(dict.fromkeys(path for path in paths if path is not None))


def changed(said: Body, call: object) -> Ran:
    """A patch that was applied, or was not. What it changed in a file is not kept."""
    changes = {path: mapping(change) for path, change in mapping(said.get("changes")).items()}
    paths = [*changes, *(text_or_none(change.get("move_path")) for change in changes.values())]
    outcome = status_outcome(said.get("status"))
    if outcome is None and isinstance(said.get("success"), bool):
        outcome = "ok" if said["success"] else "error"
    return Ran(
        call=text_or_none(call),
        name="apply_patch",
        given={"changes": {path: change.get("type") for path, change in changes.items()}},
        text=joined(part for key in ("stdout", "stderr") if (part := native_text(said.get(key)))) or None,
        outcome=outcome,
        wrote=tuple(dict.fromkeys(path for path in paths if path)),
    )


def mcp_answer(result: object) -> tuple[str | None, str | None]:
    """Text and outcome of what an MCP server answered; events wrap it as ``{"Ok": ...}`` or ``{"Err": text}``."""
    told = mapping(result)
    if "Err" in told:
        return text_or_none(told["Err"]), "error"
    answer = mapping(told.get("Ok", told))
    if not answer:
        return None, None
    failed = answer.get("isError") is True or answer.get("is_error") is True
    return "\n".join(texts(answer.get("content"))) or None, "error" if failed else "ok"
