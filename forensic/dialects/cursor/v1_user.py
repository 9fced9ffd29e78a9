"""Cursor, parser version 1: what people say, and what the client puts around it. Part of v1: frozen with it.

A message of the user role is one text in which the client's own pieces stand in tags, and what a person wrote in one
of its own, ``user_query``. Nothing is escaped: a person who writes such a tag cannot be told from the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from forensic.dialects.cursor.v1_common import TRIM, Body
from forensic.model import Injected, Keeper, Observation, Prompt, Skill

__all__ = ["QUERY", "spoken"]

QUERY: Final = "user_query"
_SKILLS: Final = "manually_attached_skills"
_IMAGES: Final = "image_files"
_NOTIFICATION: Final = "system_notification"

_CLIENT: Final = frozenset({
    "additional_data", "agent_skills", "agent_transcripts", "attached_files", "available_subagent_models",
    "available_subagent_types", "cursor_commands", "custom_instructions", "dynamic_tools", "git_status",
    "hooks_context", _IMAGES, _SKILLS, "mcp_file_system", "mcp_meta_tool_servers", "mcp_meta_tools",
    "open_and_recently_viewed_files", "plugin_info", "project_layout", "system-reminder", _NOTIFICATION,
    "system_reminder", "timestamp", "user_info", "user_rules",
})  # fmt: skip
"""Tags that are the client's even where no ``user_query`` stands beside them; people do not write such."""

_CONTROL: Final = (
    "Briefly inform the user about the task result",
    "The beginning of the above subagent result is already visible to the user",
)
"""What the client asks in a person's place when something in the background has ended."""

_TAG: Final = re.compile(r"<(/?)([a-z][a-z0-9_-]{1,60})(?: [^<>\n]{0,200})?>")
_LISTED: Final = re.compile(r"^[0-9]+\. ", re.MULTILINE)
_MARK: Final = "[Image]"


def spoken(fields: Body, text: str, keep: Keeper, pictures: int = 0) -> Iterator[Observation]:
    """What one message of the user role says.

    What opens a turn comes first, wherever it stands in the text: all that the client attached belongs to that turn.
    """
    pieces = _pieces(text)
    asked = any(piece.tag == QUERY for piece in pieces)
    whose = QUERY if asked else ""
    own = "\n".join(piece.text.strip("\r\n") for piece in pieces if piece.tag == whose)
    client = [piece for piece in pieces if piece.tag != whose]
    marks = sum(_marked_anywhere(piece.text)[0] for piece in client if not piece.tag)
    if not asked:
        marks, own = _marked_before(own)
    images = max(pictures, marks, sum(len(_LISTED.findall(piece.text)) for piece in client if piece.tag == _IMAGES))
    own = own.strip(TRIM)
    notice = next((piece for piece in client if piece.tag == _NOTIFICATION), None)
    first = _opener(fields, keep, _Said(own, images, asked or not client), notice)
    if first is not None:
        yield first.seen
    for piece in client:
        if first is None or piece is not first.used:
            yield from _attached(fields, keep, piece)
    if first is not None and first.used is not None and own:
        yield Injected(**fields, text=keep.text(own), source="instruction")


class _Piece(NamedTuple):
    """A stretch of a message: what is inside a tag, or, with no tag, what is in none."""

    tag: str
    text: str


class _Said(NamedTuple):
    """What a person may have said; `expected` when the message would say nothing else."""

    text: str
    images: int
    expected: bool


class _Opener(NamedTuple):
    """What a message opens its turn with, and the piece it was made of when that is the client's own."""

    seen: Observation
    used: _Piece | None = None


def _opener(fields: Body, keep: Keeper, said: _Said, notice: _Piece | None) -> _Opener | None:
    text = keep.text(said.text)
    if fields["agent"] is not None:
        if said.text:
            return _Opener(Injected(**fields, text=text, source="task"))
    elif notice is not None and (said.text.startswith(_CONTROL) or not (said.text or said.images)):
        told = keep.text(notice.text.strip(TRIM))
        return _Opener(Injected(**fields, text=told, source="task-notification"), notice)
    elif said.text.startswith(_CONTROL):
        return _Opener(Injected(**fields, text=text, source="task-notification"))
    elif said.text or said.images:
        return _Opener(Prompt(**fields, text=text, images=said.images))
    return _Opener(Injected(**fields, text=text, source="empty")) if said.expected else None


def _attached(fields: Body, keep: Keeper, piece: _Piece) -> Iterator[Observation]:
    """What the client put beside a person's words."""
    text = piece.text if piece.tag else _marked_anywhere(piece.text)[1]
    text = text.strip(TRIM)
    if text or piece.tag:
        yield Injected(**fields, text=keep.text(text), source=piece.tag or "context")
    if piece.tag == _SKILLS:
        for name, path in _skills(text):
            yield Skill(**fields, name=name, stage="attached", path=path)


def _skills(text: str) -> Iterator[tuple[str, str]]:
    """Name and path of each attached skill.

    A head is a line that names it and, next, one with its path; the skill's own text follows and may name things too.
    """
    name = ""
    for line in text.split("\n"):
        key, colon, value = line.strip(TRIM).partition(":")
        value = value.strip(TRIM)
        if colon and name and value and key in ("Path", "path"):
            yield name, value
        elif not key and not colon:
            continue  # a blank line between the two
        name = value if colon and key in ("Skill Name", "Name", "name") else ""


# --- pictures ---------------------------------------------------------------------------------------------------------


def _marked_anywhere(text: str) -> tuple[int, str]:
    """Marks in what the client wrote, and the rest."""
    lines = text.split("\n")
    rest = [line for line in lines if line.strip(TRIM) != _MARK]
    return len(lines) - len(rest), "\n".join(rest)


def _marked_before(text: str) -> tuple[int, str]:
    """Marks before the first word, and the rest: behind it they may be a person's."""
    lines = text.split("\n")
    words = next((number for number, line in enumerate(lines) if line.strip(TRIM) not in ("", _MARK)), len(lines))
    marks = sum(line.strip(TRIM) == _MARK for line in lines[:words])
    return marks, "\n".join(lines[words:])


# --- tags -------------------------------------------------------------------------------------------------------------


class _Span(NamedTuple):
    tag: str
    start: int
    end: int
    inner: tuple[int, int]


def _pieces(text: str) -> list[_Piece]:
    """A message taken apart at the tags that are the client's; the order is that of the text."""
    spans = list(_spans(text))
    tags = {span.tag for span in spans}
    if QUERY not in tags:
        spans = [span for span in spans if span.tag in _CLIENT]
    pieces: list[_Piece] = []
    at = 0
    for span in spans:
        pieces += _bare(text[at : span.start])
        pieces.append(_Piece(span.tag, text[slice(*span.inner)]))
        at = span.end
    return pieces + _bare(text[at:])


def _bare(text: str) -> list[_Piece]:
    return [_Piece("", text)] if text.strip(TRIM) else []


def _spans(text: str) -> Iterator[_Span]:
    """The outermost tags that begin a line, or stand right behind another, and are closed."""
    tokens = list(_TAG.finditer(text))
    closed = _closed(tokens)
    at = 0
    for token in tokens:
        start = token.start()
        if start < at or token[1] or token.start() not in closed or not _at_border(text, at, start):
            continue
        close = closed[start]
        yield _Span(token[2], start, close.end(), (token.end(), close.start()))
        at = close.end()


def _closed(tokens: Sequence[re.Match[str]]) -> dict[int, re.Match[str]]:
    """Which tag closes the one that begins at an offset: its own, else the last one of that name behind it."""
    found: dict[int, re.Match[str]] = {}
    waiting: dict[str, list[int]] = {}
    last: dict[str, re.Match[str]] = {}
    for token in tokens:
        if not token[1]:
            waiting.setdefault(token[2], []).append(token.start())
            continue
        last[token[2]] = token
        if waiting.get(token[2]):
            found[waiting[token[2]].pop()] = token
    for name, starts in waiting.items():
        found.update({start: last[name] for start in starts if name in last and last[name].start() > start})
    return found


def _at_border(text: str, at: int, start: int) -> bool:
    while start > at and text[start - 1] in " \t\r":
        start -= 1
    return start == at or text[start - 1] == "\n"
