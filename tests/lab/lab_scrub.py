"""What is told of a recording that is handed on: nothing of the machine, and none of the vendors' own long texts.

Bytes that need no change are left as they are: strings are replaced where they stand in a row; it is not written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["BASE", "Scrubber"]

BASE: Final = datetime(2026, 1, 1, 9, tzinfo=UTC)
"""When every recording begins."""
KEEP: Final = 300
"""The longest text, in characters, that may be somebody else's."""
_OURS: Final = re.compile(
    r"^\s*\[(alpha|beta|gamma|sub-\w+)\]|first line\\nsecond line|\*\*\* Begin Patch"
    r"|<task-notification>|^const all = await"
)
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LISTS: Final = re.compile(r'"(?:tools|tool_definitions|toolDefinitions)":(?=\[\{)')
_UUID: Final = re.compile(r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")
_IDS: Final = {
    _UUID: lambda number: f"{number:08x}-0000-4000-8000-000000000000",
    re.compile(r"\b(a[0-9a-f]{16})\b"): lambda number: f"a{number:016x}",
    re.compile(r"\b(req_[0-9a-f]{24})\b"): lambda number: f"req_{number:024x}",
    re.compile(r"\b(0[0-9a-z]{8}-[0-9a-f]{8})\b"): lambda number: f"0lab00000-{number:08x}",
    re.compile(r"\b([0-9a-f]{40})\b"): lambda number: f"{number:040x}",
    re.compile(r'(?<="chunk_id":")([0-9a-f]{6})\b'): lambda number: f"{number:06x}",
    re.compile(r'(?<=\\"chunk_id\\":\\")([0-9a-f]{6})\b'): lambda number: f"{number:06x}",
    re.compile(r"(?<=Chunk ID: )([0-9a-f]{6})\b"): lambda number: f"{number:06x}",
}
"""What is made up anew in every run, and what stands for the n-th of each kind."""
_STANDS: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8000"),
    (re.compile(r"/tmp/cc-socks/\d+"), "/tmp/cc-socks/1"),  # noqa: S108 -- named, not used
    (re.compile(r"(?i)linux \d+\.\d+[\w.+-]*"), "Linux 6.1.0"),
    (re.compile(r"\b\d+\.\d+\.\d+-\d+-(?:amd64|generic|cloud\w*)\b"), "6.1.0"),
)


class Scrubber:
    """Makes one recording neutral; the same id, or time, becomes the same everywhere in it."""

    def __init__(self, began: datetime, home: str = "") -> None:
        """The recording began at this time; `home` is where the user's files lay, where that tells of a machine."""
        self._home = home
        self._shift = BASE - began.replace(microsecond=0)
        self._began = began
        self._ids: dict[re.Pattern[str], dict[str, str]] = {pattern: {} for pattern in _IDS}
        day = f"{began:%Y-%m-%d}"
        stamp = f"({day})T(\\d\\d)([-:])(\\d\\d)[-:](\\d\\d)"
        self._times = (
            (re.compile(stamp), self._stamp),
            (re.compile(f"\\b{began:%Y/%m/%d}\\b"), lambda _: f"{BASE:%Y/%m/%d}"),
            (re.compile(f"\\b{day}\\b"), lambda _: f"{BASE:%Y-%m-%d}"),
            (re.compile(rf"\b({int(began.timestamp()) // 100_000}\d{{5}})(\d{{3}})?(?=[\D])"), self._epoch),
        )

    @property
    def nanoseconds(self) -> int:
        """What is added to times of the wall clock."""
        return int(self._shift.total_seconds()) * 1_000_000_000

    def row(self, raw: bytes) -> bytes:
        """A row of JSON, or the content of a payload."""
        text = _without_lists(raw.decode())
        return self.text(_STRING.sub(_shortened, text)).encode()

    def side(self, raw: bytes) -> bytes:
        """A side file: JSON, or a text that stays when it is short."""
        text = raw.decode()
        if text.startswith("{"):
            return self.row(raw)
        return self.text(text if len(text) <= 4 * KEEP else _left_out(text)).encode()

    def text(self, text: str) -> str:
        """Any text: ids, times and whatever tells of a machine."""
        if self._home:
            text = text.replace(self._home, "/home/dev")
        for pattern, made in _IDS.items():
            text = pattern.sub(self._id(pattern, made), text)
        for pattern, stamped in self._times:
            text = pattern.sub(stamped, text)
        for pattern, stands in _STANDS:
            text = pattern.sub(stands, text)
        return text

    def _id(self, pattern: re.Pattern[str], made: Callable[[int], str]) -> Callable[[re.Match[str]], str]:
        known = self._ids[pattern]

        def stands(found: re.Match[str]) -> str:
            if found[1] in known.values():
                return found[1]
            return known.setdefault(found[1], made(len(known) + 1))

        return stands

    def _stamp(self, found: re.Match[str]) -> str:
        day, hour, mark, minute, second = found.groups()
        then = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second}+00:00") + self._shift
        return f"{then:%Y-%m-%dT%H{mark}%M{mark}%S}"

    def _epoch(self, found: re.Match[str]) -> str:
        seconds = int(found[1])
        if abs(datetime.fromtimestamp(seconds, UTC) - self._began) > timedelta(days=1):
            return found[0]
        return f"{seconds + int(self._shift.total_seconds())}{found[2] or ''}"


def _without_lists(text: str) -> str:
    """A row without the descriptions of tools."""
    pieces, at = [], 0
    for found in _LISTS.finditer(text):
        if found.start() >= at:
            listed, end = json.JSONDecoder().raw_decode(text, found.end())
            pieces += [text[at : found.end()], f'"[LAB: {len(listed)} entries left out]"']
            at = end
    return "".join([*pieces, text[at:]])


def _shortened(found: re.Match[str]) -> str:
    text = found[1]
    return found[0] if len(text) <= KEEP or (_OURS.search(text) and len(text) < 4000) else f'"{_left_out(text)}"'


def _left_out(text: str) -> str:
    return f"[LAB: {len(text)} characters left out]"
