"""What capture takes out of a hook payload: whose it is, which session, which transcripts; by key names alone."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct

from forensic.capture.sniff import text_of
from forensic.harness import HARNESSES, UNKNOWN, Harness
from forensic.model import Payload

__all__ = ["UNATTRIBUTED", "Facts", "facts_of", "local_path"]

UNATTRIBUTED: Final = "unattributed"
"""The session of payloads that name none, and whose process named none either."""

_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_MARKS: Final = re.compile(rb"(?:\xef\xbb\xbf)*+")
_LONE: Final = re.compile(
    rb"(\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A half of a character, as JavaScript writes where a text was cut within one; other escapes are the group."""
_MANY: Final = 16
_DRIVE: Final = re.compile(r"/?([A-Za-z]):[/\\]")
_ABSENT: Final = Raw()
_WANTED: Final = sorted(
    {"cwd", "hookEventName"}.union(
        *({hooks.event, *hooks.session, *hooks.parent, *hooks.child, *hooks.transcripts, *hooks.signs}
          for hooks in (harness.hooks for harness in HARNESSES.values()))
    )
)  # fmt: skip
_Top = msgspec.defstruct("_Top", [(name, Raw, _ABSENT) for name in _WANTED])
"""Only what is looked for: a payload may have millions of keys."""
_keys = msgspec.json.Decoder(_Top).decode


class Facts(Struct, frozen=True, kw_only=True):
    """What is known of one payload. `paths` are as they were named, made paths of this computer, in order."""

    harness: str
    session: str | None
    event: str
    child: str | None = None
    parent: str | None = None
    paths: tuple[str, ...] = ()
    cwd: str | None = None
    ends: bool = False
    boundary: bool = False


def facts_of(payload: Payload) -> Facts:
    """What a payload tells; of one that cannot be read, what its envelope tells."""
    keys = _top(payload.raw)
    harness = _harness(payload, keys)
    hooks = harness.hooks
    registered = payload.argv[0] if payload.argv else ""
    # a payload may come under another harness's registration; the name within it is then its own
    event = (text_of(keys.get(hooks.event)) or registered) if payload.harness != harness.name else ""
    event = event or registered or text_of(keys.get(hooks.event)) or ""
    own = _first(keys, hooks.session)
    parent = _first(keys, hooks.parent)
    child = _first(keys, hooks.child)
    kept = payload.kept.get("CLAUDE_CODE_SESSION_ID") if harness.name == "claude" else None
    named = (text_of(keys.get(key)) for key in hooks.transcripts)
    return Facts(
        harness=harness.name,
        session=parent or own or kept,
        event=event,
        child=child if parent else None,
        parent=parent,
        paths=tuple(dict.fromkeys(path for path in map(local_path, filter(None, named)) if path))[:_MANY],
        cwd=text_of(keys.get("cwd")) or payload.cwd or None,
        ends=event in hooks.ends and not (parent and child and own == child),
        boundary=event in hooks.boundaries,
    )


def local_path(path: str, *, windows: bool = os.name == "nt") -> str | None:
    """A path as it was named, as this system says it: no ``file:`` URL, no ``~``, on Windows no ``/c:/``."""
    if path.lower().startswith("file://"):
        rest = path[len("file://") :]
        rest = rest.removeprefix("localhost")
        path = unquote(rest if rest.startswith("/") else "//" + rest)
    if path.startswith("~/") or path == "~":
        path = os.path.expanduser(path)  # noqa: PTH111 -- a text, not a path yet
    if windows and (drive := _DRIVE.match(path)):
        path = f"{drive[1].upper()}:\\" + path[drive.end() :]
    if windows:
        path = path.replace("/", "\\")
    return path or None


def _top(raw: bytes) -> dict[str, Raw]:
    """The top-level keys of a payload that are looked for; none where it is no JSON object."""
    if raw.startswith(_BOMS):
        raw = raw.decode("utf-16", "replace").encode("utf-8", "replace")
    marks = _MARKS.match(raw)
    start = marks.end() if marks else 0
    try:
        top = _read(memoryview(raw)[start:])
        if top is None and b"\\ud" in raw.lower():
            top = _read(_LONE.sub(lambda escape: escape[1] or rb"\ufffd", raw[start:]))
    except RecursionError:
        return {}
    return {name: value for name in _WANTED if (value := getattr(top, name, _ABSENT)) is not _ABSENT}


def _read(raw: bytes | memoryview) -> Struct | None:
    try:
        return _keys(raw)
    except msgspec.MsgspecError:
        return None


def _first(keys: dict[str, Raw], names: tuple[str, ...]) -> str | None:
    return next(filter(None, (text_of(keys.get(name)) for name in names)), None)


def _harness(payload: Payload, keys: dict[str, Raw]) -> Harness:
    """Who really ran the hook: some clients run hooks that were registered with another."""
    for harness in HARNESSES.values():
        if harness.hooks.signs & keys.keys() and _is_named(harness, keys):
            return harness
    registered = HARNESSES.get(payload.harness, UNKNOWN)
    if "hookEventName" in keys:
        return UNKNOWN
    if registered is not UNKNOWN and not registered.hooks.marks:
        # a mark of another's is that of who started it: one agent may run another one as a tool
        return registered
    marked = [harness for harness in HARNESSES.values() if not harness.hooks.marks.isdisjoint(payload.env)]
    return marked[0] if len(marked) == 1 else registered


def _is_named(harness: Harness, keys: dict[str, Raw]) -> bool:
    """Codex and Claude Code both may have a `turn_id`: then the folder of the transcript tells."""
    folder = harness.hooks.home[1]
    if harness.name != "codex":
        return True
    named = _first(keys, harness.hooks.transcripts)
    return named is not None and f"{folder}/" in named.replace("\\", "/")
