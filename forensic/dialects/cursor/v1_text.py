"""Cursor, parser version 1: transcripts of the older kind, which are one text. Part of v1: frozen with it.

``user:`` and ``assistant:`` stand alone on a line above what was said, ``[Thinking]``, ``[Tool call] NAME`` and
``[Tool result] NAME`` begin a line, arguments stand below their call. Nothing is escaped: a message that holds such a
line reads as if the client had written it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from forensic.dialects.cursor.v1_common import TRIM, Body
from forensic.dialects.cursor.v1_tools import tool_request
from forensic.dialects.cursor.v1_user import QUERY, spoken
from forensic.dialects.cursor.v1_words import said
from forensic.model import (
    Keeper,
    Mended,
    Observation,
    Prompt,
    Response,
    SetAside,
    SideFile,
    Thought,
    ToolRequest,
)

__all__ = ["transcript_text"]

_FAMILY: Final = "transcript-text"
_BOM: Final = "\ufeff"


def transcript_text(file: SideFile, body: Body, keep: Keeper) -> Iterator[Observation]:
    """The conversation of one text; only what it holds, counted, where it is not the one to be read.

    Beside rows of the same session it tells the same conversation in other words, and an earlier version of it tells
    less than the later one: read as well, they would make everything happen twice.
    """
    try:
        text = file.raw.decode()
    except UnicodeDecodeError:
        text = file.raw.decode("utf-8", "replace")
        yield Mended(ref=file.ref, reason="replaced-bytes")
    lines = text.removeprefix(_BOM).replace("\r\n", "\n").split("\n")
    seen = (one for section in _sections(lines) for one in _read(file, section, keep))
    if file.stream is None and not file.superseded:
        yield from seen
    else:
        yield SetAside(ref=file.ref, family=_FAMILY, value=_counted(seen))


def _counted(seen: Iterator[Observation]) -> dict[str, int]:
    kinds = Counter(map(type, seen))
    names = {"prompts": Prompt, "responses": Response, "thoughts": Thought, "tool_calls": ToolRequest}
    return {name: kinds[kind] for name, kind in names.items()}


# --- who speaks -------------------------------------------------------------------------------------------------------

_ROLES: Final = {"user:": "user", "assistant:": "assistant", "A:": "assistant"}
_OPEN, _CLOSE = f"<{QUERY}>", f"</{QUERY}>"


class _Section(Struct):
    """What one side said; `line` is the number of its head, from 1."""

    role: str
    line: int
    lines: list[str]


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    """A text that does not begin with a head is no transcript, and gives none."""
    heads = _Heads(lines)
    section: _Section | None = None
    for number, line in enumerate(lines, 1):
        if heads.is_head(number, line):
            if section is not None:
                yield section
            section = _Section(_ROLES[line], number, [])
        elif section is not None:
            section.lines.append(line)
        elif line.strip(TRIM):
            return
    if section is not None:
        yield section


class _Heads:
    """Which lines are heads.

    A head inside a marked query is a person's. The second head of a file tells how it is written: if it has a blank
    line before it, so has every other one; and a file that says ``assistant:`` does not say ``A:``.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._last = max((number for number, line in enumerate(lines, 1) if _CLOSE in line), default=0)
        self._role = ""
        self._apart: bool | None = None
        self._answers = ""
        self._quoted = False

    def is_head(self, number: int, line: str) -> bool:
        """Whether a line is a head; lines are asked for one by one, in order."""
        if self._role == "user" and not self._names(line):
            self._quoted = self._quotes(number, line)
        role = _ROLES.get(line)
        if role is None or self._quoted or not self._names(line):
            return False
        apart = number == 1 or not self._lines[number - 2].strip(TRIM)
        if self._apart is None and self._role:
            self._apart = apart
        if self._role and self._apart and not apart:
            return False
        self._role = role
        if role == "assistant":
            self._answers = line
        return True

    def _names(self, line: str) -> bool:
        return line in _ROLES and (_ROLES[line] == "user" or self._answers in ("", line))

    def _quotes(self, number: int, line: str) -> bool:
        opened, closed = line.rfind(_OPEN), line.rfind(_CLOSE)
        if opened < 0 and closed < 0:
            return self._quoted
        return opened > closed and number < self._last


# --- what is said -----------------------------------------------------------------------------------------------------

_MARK: Final = re.compile(r"\[(?:(Thinking)\](.*)|(Tool call)\] ([!-~]+)|(Tool result)\](?: ([!-~]+))?) *")


class _Part(Struct):
    """A stretch of an answer: a text, a thought, a call with its arguments, the sign that a result came."""

    kind: str
    head: str
    lines: list[str]


def _read(file: SideFile, section: _Section, keep: Keeper) -> Iterator[Observation]:
    fields: Body = {"ref": file.ref, "agent": None}
    if section.role == "user":
        yield from spoken(fields, "\n".join(section.lines), keep)
        return
    fields["step"] = f"{file.ref}/{section.line}"
    for part in _parts(section.lines):
        text = "\n".join(part.lines).strip(TRIM)
        if part.kind == "Tool call":
            yield tool_request(fields, part.head, _arguments(part.head, part.lines), keep)
        elif part.kind == "Tool result":
            value = {"name": part.head, "text": text} if text else part.head or None
            yield SetAside(ref=file.ref, family="tool-result", value=keep.value(value))
        elif part.kind == "Thinking":
            text = f"{part.head}\n{text}".strip(TRIM)
            yield Thought(**fields, text=keep.text(text)) if text else Thought(**fields, opaque=True)
        elif text:
            yield said(fields, text, keep)


def _parts(lines: Sequence[str]) -> Iterator[_Part]:
    part = _Part("", "", [])
    for line in lines:
        mark = _MARK.fullmatch(line) if line.startswith("[T") else None
        if mark is not None:
            yield part
            part = _Part(mark[1] or mark[3] or mark[5], (mark[2] or mark[4] or mark[6] or "").strip(TRIM), [])
        elif _ends(part, line):
            yield part
            part = _Part("", "", [line])
        else:
            part.lines.append(line)
    yield part


def _ends(part: _Part, line: str) -> bool:
    """Whether what a mark began is over: arguments go on to the next mark, the others end where text begins again.

    A thought goes on to a blank line, an indented one as long as lines are indented.
    """
    if part.kind == "Thinking":
        indented = not part.head and bool(part.lines) and part.lines[0].startswith((" ", "\t"))
        return not line.startswith((" ", "\t")) if indented else not line.strip(TRIM)
    return part.kind == "Tool result" and line.strip(TRIM) != "" and not line.startswith((" ", "\t"))


# --- arguments --------------------------------------------------------------------------------------------------------

_ARGUMENT: Final = re.compile(r"  ([A-Za-z_-][A-Za-z0-9_-]*): ?(.*)", re.DOTALL)
_FREE: Final = {
    "Shell": frozenset({"block_until_ms", "command", "description", "is_background", "timeout", "working_directory"}),
    "StrReplace": frozenset({"new_string", "old_string", "path", "replace_all"}),
    "Write": frozenset({"contents", "path"}),
}
"""Tools whose arguments may run over many lines, and the names those have: no other line begins a new one."""


def _arguments(name: str, lines: Sequence[str]) -> dict[str, str] | str:
    """Arguments by name where it is clear which line belongs to which, else all of them as they stand.

    Of what type a value was is not told: all are texts.
    """
    free = _FREE.get(name)
    last = max((number for number, line in enumerate(lines, 1) if line.strip(TRIM)), default=0)
    given: dict[str, list[str]] = {}
    value: list[str] | None = None
    for line in lines[:last]:
        match = _ARGUMENT.fullmatch(line)
        if match and match[1] not in given and (free is None or match[1] in free):
            value = given[match[1]] = [match[2]]
        elif value is None or free is None:
            return "\n".join(lines[:last])
        else:
            value.append(line)
    return {key: "\n".join(parts) for key, parts in given.items()}
