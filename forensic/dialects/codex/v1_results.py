"""Codex, parser version 1: what tools answered. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from forensic.dialects.codex.v1_common import (
    Body,
    Fields,
    base,
    by_id,
    inner,
    joined,
    mapping,
    native_text,
    number,
    opened,
    sequence,
    text_or_none,
    whole,
)
from forensic.dialects.parser import native
from forensic.model import Keeper, Observation, Row, ToolResult

__all__ = ["code_outcome", "output", "status_outcome", "tool_search_output"]

_LONG: Final = 12
_HEAD: Final = 64
"""Characters of a line in which a figure is looked for."""

_HEADS: Final = ("Chunk ID: ", "Command: ", "Exit code: ", "Script ", "Wall time")
"""How a text begins that the client wrote a head for."""

_WALLS: Final = ("Wall time: ", "Wall time ")
_EXITS: Final = ("Process exited with code ", "Exit code: ")
_SANDBOX: Final = "failed in sandbox "

_DONE: Final = (
    "Plan updated",
    "Script completed\n",
    "Success. Updated the following files:",
    "attached local image path",
)
_REJECTED: Final = ("exec command rejected by user", "patch rejected by user", "rejected by user")
_DENIED: Final = ("exec command rejected: ", "patch rejected: ", "rejected: ")
_FAILED: Final = (
    "Script failed\n",
    "apply_patch verification failed",
    "error: ",
    "exec_command failed",
    "execution error: ",
    "failed in sandbox ",
    "failed to ",
    "unsupported call: ",
    "unsupported custom tool call: ",
    "write_stdin failed",
)
_STARTS: Final = (
    *((start, "ok") for start in _DONE),
    *((start, "rejected") for start in _REJECTED),
    *((start, "denied") for start in _DENIED),
    *((start, "error") for start in _FAILED),
)
"""How the client's own answers begin. Of any other text nobody knows whether it is good news."""

_STATUS: Final[Mapping[str, str]] = {
    "completed": "ok",
    "declined": "denied",
    "failed": "error",
    "interrupted": "interrupted",
}


class _Answer(NamedTuple):
    """What an output says, whatever shape it has."""

    text: str | None = None
    detail: Any = None
    exit_code: int | None = None
    duration_ms: float | None = None
    outcome: str | None = None
    spawned: str | None = None


def output(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """The result of a call: a text, a text around a JSON value, a list of blocks, or an object."""
    said = inner(body)
    fields = by_id(base(row, body), said)
    told = said.get("output")
    if isinstance(told, str):
        answer = _of_text(told)
    elif isinstance(told, list):
        answer = _of_blocks(told)
    elif isinstance(told, dict):
        answer = _of_object(told)
    else:
        return
    yield _result(fields, answer, text_or_none(said.get("call_id")), keep)


def _result(fields: Fields, answer: _Answer, call: str | None, keep: Keeper) -> ToolResult:
    return ToolResult(
        **fields,
        call=call,
        ok=None if answer.outcome is None else answer.outcome == "ok",
        outcome=answer.outcome,
        text=None if answer.text is None else keep.text(answer.text),
        detail=None if answer.detail is None else keep.value(answer.detail),
        duration_ms=answer.duration_ms,
        exit_code=answer.exit_code,
        spawned=answer.spawned,
    )


def _of_text(told: str) -> _Answer:
    if told.startswith("{"):
        value = opened(told)
        if isinstance(value, dict):
            return _of_json(told, value)
    return _read(told)


def _of_json(told: str, value: Body) -> _Answer:
    """An object handed over as text: a command's output with its figures, or what an agent tool answers."""
    if isinstance(value.get("output"), str) and isinstance(value.get("metadata"), dict):
        return _of_object(value)
    spawned = text_or_none(value.get("agent_id")) if "nickname" in value else None
    started = spawned is not None or value.keys() == {"task_name"}
    return _Answer(told, outcome="ok" if started else None, spawned=spawned)


def _of_object(value: Body) -> _Answer:
    figures = mapping(value.get("metadata"))
    text = value.get("output", value.get("content"))
    if not isinstance(text, str):
        return _Answer(detail=value, outcome=_good(value.get("success")))
    seconds = number(figures.get("duration_seconds"))
    code = whole(figures.get("exit_code"))
    read = _read(text) if code is None else _Answer(text, exit_code=code, outcome=code_outcome(code))
    return read._replace(
        duration_ms=read.duration_ms if seconds is None else _ms(seconds),
        outcome=_good(value.get("success")) or read.outcome,
    )


def _of_blocks(blocks: list[Any]) -> _Answer:
    parts = [native_text(mapping(block).get("text")) for block in blocks if isinstance(mapping(block).get("text"), str)]
    others: dict[str, int] = {}
    for block in blocks:
        if not isinstance(mapping(block).get("text"), str):
            kind = native(mapping(block).get("type"))
            others[kind] = others.get(kind, 0) + 1
    read = _read(joined(parts)) if parts else _Answer()
    return read._replace(detail=others or None)


def _read(text: str) -> _Answer:
    """What the client wrote at the head of a text: how long it took, the exit code, whether it went well."""
    lines: list[str] = []
    if text.startswith(_HEADS):
        head, marker, _ = text.partition("\nOutput:")
        lines = head.split("\n") if marker else text[: _HEAD * 2].split("\n")[:2]
    # a command may stand above these lines, with lines of its own that look like them: the last ones count
    code = _whole(_figure(lines, _EXITS))
    if code is None and text.startswith(_SANDBOX):
        code = _whole(text.partition("exit code: ")[2][:_HEAD])
    seconds = _figure(lines, _WALLS)
    if text.startswith("aborted by user") or (len(lines) == 2 and lines[1] == "aborted by user"):
        outcome: str | None = "interrupted"
        seconds = seconds or text.partition("aborted by user after ")[2][:_HEAD].partition("s")[0]
    else:
        outcome = next((word for start, word in _STARTS if text.startswith(start)), None)
        if code is not None and outcome is None:
            outcome = code_outcome(code)
    return _Answer(text, exit_code=code, duration_ms=_seconds(seconds), outcome=outcome)


def _figure(lines: list[str], starts: tuple[str, ...]) -> str:
    """The first word behind one of these starts, in the last line that has one."""
    for line in reversed(lines):
        for start in starts:
            if line.startswith(start):
                return line[len(start) : len(start) + _HEAD].partition(" ")[0]
    return ""


def _whole(word: str) -> int | None:
    digits = word.partition(",")[0]
    bare = digits.removeprefix("-")
    return int(digits) if bare.isascii() and bare.isdigit() and len(bare) < _LONG else None


def _seconds(word: str) -> float | None:
    """Seconds as the client writes them, in milliseconds."""
    if not word or any(letter not in "0123456789." for letter in word) or word.count(".") > 1 or word == ".":
        return None
    return _ms(float(word))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def code_outcome(code: int) -> str:
    """The outcome that the exit code of a command stands for."""
    return "ok" if code == 0 else "error"


def _good(told: object) -> str | None:
    if not isinstance(told, bool):
        return None
    return "ok" if told else "error"


def status_outcome(status: object) -> str | None:
    """The outcome that a status of the client's stands for."""
    return _STATUS.get(status) if isinstance(status, str) else None


def tool_search_output(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """Which tools a search for tools found: their names."""
    said = inner(body)
    names: list[str] = []
    for tool in sequence(said.get("tools")):
        within = sequence(mapping(tool).get("tools"))
        names.extend(name for one in within or [tool] if (name := text_or_none(mapping(one).get("name"))))
    outcome = status_outcome(said.get("status"))
    yield ToolResult(
        **by_id(base(row, body), said),
        call=text_or_none(said.get("call_id")),
        ok=None if outcome is None else outcome == "ok",
        outcome=outcome,
        detail=keep.value({"tools": names}),
    )
