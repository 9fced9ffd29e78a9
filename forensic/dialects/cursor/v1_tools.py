"""Cursor, parser version 1: which tool was asked for what. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from forensic.dialects.cursor.v1_common import Body, mapping, text_or_none
from forensic.model import Keeper, ToolRequest

__all__ = ["tool_request"]

_SHELLS: Final = frozenset({"Shell", "run_terminal_cmd", "run_terminal_command", "run_terminal_command_v2"})
_READS: Final = frozenset({"Read", "ReadFile", "read_file", "read_file_v2"})
_WRITES: Final = frozenset(
    {"EditNotebook", "StrReplace", "Write", "edit_file", "edit_file_v2", "search_replace", "write"}
)
_PATHS: Final = ("path", "file_path", "target_file", "targetFile", "target_notebook", "relativeWorkspacePath")
_MCP_CALLS: Final = frozenset({"CallDynamicTool", "CallMcpTool"})
"""Calls through one tool, whatever the server. Listing what servers offer (``GetDynamicTools``) is none."""
_SERVERS: Final = ("namespace", "server", "serverName", "server_name")
_PATCHED: Final = ("*** Add File: ", "*** Update File: ", "*** Move to: ")


def tool_request(fields: Body, name: str, given: object, keep: Keeper) -> ToolRequest:
    """A request. No row gives it an id, so it has none."""
    said = mapping(given)
    command = said.get("command") if name in _SHELLS else None
    return ToolRequest(
        **fields,
        name=name,
        input=keep.value(given),
        server=_first(said, _SERVERS) if name in _MCP_CALLS else None,
        reads=_paths(said) if name in _READS else (),
        writes=_paths(said) if name in _WRITES else tuple(_patched(given)) if name == "ApplyPatch" else (),
        command=keep.text(command) if isinstance(command, str) else None,
    )


def _first(said: Body, keys: tuple[str, ...]) -> str | None:
    return next((told for key in keys if (told := text_or_none(said.get(key)))), None)


def _paths(said: Body) -> tuple[str, ...]:
    path = _first(said, _PATHS)
    return () if path is None else (path,)


def _patched(given: Any) -> Iterator[str]:
    """The files that a patch names as its own; what it deletes is not written."""
    for line in (given if isinstance(given, str) else "").split("\n"):
        if line.startswith(_PATCHED):
            yield line.partition(": ")[2].rstrip("\r")
