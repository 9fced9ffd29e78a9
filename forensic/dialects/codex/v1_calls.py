"""Codex, parser version 1: what the model asks for. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from forensic.dialects.codex.v1_common import (
    Body,
    Fields,
    base,
    by_id,
    inner,
    mapping,
    native_text,
    opened,
    picked,
    sequence,
    text_or_none,
)
from forensic.dialects.codex.v1_results import status_outcome
from forensic.model import Keeper, Observation, Row, ToolRequest, ToolResult

__all__ = ["call", "command_of", "image_generation_call", "local_shell_call", "tool_search_call", "web_search_call"]

_COMMANDS: Final[Mapping[str, str]] = {
    "container.exec": "command",
    "exec_command": "cmd",
    "local_shell": "command",
    "shell": "command",
    "shell_command": "command",
}
"""Shells, and where in their input the command stands."""

_READS: Final[Mapping[str, tuple[str, ...]]] = {"read_file": ("file_path", "path"), "view_image": ("path",)}


class Asked(NamedTuple):
    """What a call names: the tool, its input, its own id, the MCP server of the tool."""

    name: str
    given: Any
    call: str | None = None
    server: str | None = None


_PATCH: Final = "*** Begin Patch"
_PATCH_MARKS: Final = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def call(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A call of a function, or of a tool that takes free text."""
    said = inner(body)
    name = text_or_none(said.get("name"))
    if name is not None:
        given = said["input"] if "input" in said else opened(said.get("arguments"))
        server = _server(name, native_text(said.get("namespace")))
        asked = Asked(name, given, text_or_none(said.get("call_id")), server)
        yield request(by_id(base(row, body), said), asked, keep)


def local_shell_call(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A call of the shell that the model's own server knows."""
    said = inner(body)
    given = picked(mapping(said.get("action")), "command", "working_directory", "timeout_ms")
    yield request(by_id(base(row, body), said), Asked("local_shell", given, _own(said)), keep)


def tool_search_call(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A search for tools."""
    said = inner(body)
    yield request(by_id(base(row, body), said), Asked("tool_search", said.get("arguments"), _own(said)), keep)


def web_search_call(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A search that the model's own server made; what it found is told nowhere. Older ones have no id."""
    said = inner(body)
    return _by_the_server(by_id(base(row, body), said), "web_search", said.get("action"), said, keep)


def image_generation_call(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A picture that the model's own server made."""
    said = inner(body)
    fields = by_id(base(row, body), said)
    return _by_the_server(fields, "image_generation", picked(said, "revised_prompt"), said, keep)


def _by_the_server(fields: Fields, name: str, given: Any, said: Body, keep: Keeper) -> Iterator[Observation]:
    """A call and how it ended, in one item."""
    own = _own(said)
    yield request(fields, Asked(name, given, own), keep)
    outcome = status_outcome(said.get("status"))
    if own is not None and outcome is not None:
        yield ToolResult(**fields, call=own, ok=outcome == "ok", outcome=outcome)


def _own(said: Body) -> str | None:
    """The id of a call that may have only its item's."""
    return text_or_none(said.get("call_id")) or text_or_none(said.get("id"))


def request(fields: Fields, asked: Asked, keep: Keeper) -> ToolRequest:
    """A request, with what its input asks for."""
    name, given = asked.name, asked.given
    said = mapping(given)
    told = command_of(said.get(_COMMANDS[name])) if name in _COMMANDS else None
    return ToolRequest(
        **fields,
        name=name,
        input=keep.value(given),
        call=asked.call,
        server=asked.server,
        reads=tuple(path for key in _READS.get(name, ()) if (path := text_or_none(said.get(key)))),
        writes=_written(name, given, told),
        command=None if told is None else keep.text(told),
    )


def command_of(given: object) -> str | None:
    """The command line of a shell: the script where a shell is told to run one, else the words."""
    if isinstance(given, str):
        return given
    words = [native_text(word) for word in sequence(given)]
    if len(words) == 3 and words[1] in ("-c", "-lc", "-Command"):
        return words[2]
    return " ".join(words) if words else None


def _written(name: str, given: Any, told: str | None) -> tuple[str, ...]:
    """What a patch would change, whether it is a tool's input or a command's."""
    if name == "apply_patch":
        return _patched(given if isinstance(given, str) else native_text(mapping(given).get("input")))
    return _patched(told) if told is not None and told.startswith("apply_patch") else ()


def _patched(text: str) -> tuple[str, ...]:
    """The files that a patch names, each once."""
    if _PATCH not in text:
        return ()
    found = (line.removeprefix(mark) for line in text.split("\n") for mark in _PATCH_MARKS if line.startswith(mark))
    return tuple(dict.fromkeys(path.rstrip("\r") for path in found))


def _server(name: str, namespace: str) -> str | None:
    """The MCP server of a tool, out of its namespace or its name: ``mcp__server`` or ``mcp__server__tool``."""
    for told in (namespace, name if name.count("__") > 1 else ""):
        if told.startswith("mcp__"):
            return told[5:].partition("__")[0] or None
    return None
