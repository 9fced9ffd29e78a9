"""Producer versions and working folders, picked out of rows without reading them.

A search over raw bytes finds what may be such a key; only a value that was not seen before is looked at closely, by
decoding the top level of its row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Raw

from forensic.capture.sniff import at_path, text_of, top_level
from forensic.harness import Harness

__all__ = ["FOLDERS", "VERSIONS", "Keys"]

VERSIONS: Final = 64
"""At most so many versions of a producer are noted."""
FOLDERS: Final = 16
"""At most so many working folders are noted."""
_VALUE: Final = re.compile(rb'[ \t]*:[ \t]*("(?:[^"\\\n]|\\.){0,4096}")')


class Keys:
    """What the rows of one session say of their producer: `versions` and `folders`, in the order first seen."""

    def __init__(self, harness: Harness, versions: tuple[str, ...] = ()) -> None:
        """Look for the keys that the table names; `versions` are those known already."""
        self.versions = list(versions)
        self.folders: list[str] = []
        self._wanted = [_Wanted(path, self.versions, VERSIONS) for path in harness.version_keys]
        self._wanted += [_Wanted(path, self.folders, FOLDERS) for path in harness.cwd_keys]

    def scan(self, block: bytes) -> None:
        """Look through a run of whole rows."""
        for wanted in self._wanted:
            wanted.scan(block)


class _Wanted:
    """One key, and the values that rows give it."""

    def __init__(self, path: tuple[str, ...], values: list[str], most: int) -> None:
        self._path = path
        self._values = values
        self._most = most
        self._token = f'"{path[-1]}"'.encode()
        self._known: set[bytes] = set()
        self._latest = b"\n"
        """What stood behind the key when it last had a new value: nearly every row repeats it."""

    def scan(self, block: bytes) -> None:
        end = -1
        value: bytes | None = None
        for at in self._places(block):
            if block.startswith(self._latest, at):
                continue
            match = _VALUE.match(block, at)
            if match is None or match[1] in self._known:
                continue
            if at >= end:
                # each row is looked at once, however often it seems to hold the key
                begin = block.rfind(b"\n", 0, at) + 1
                end = block.find(b"\n", at)
                end = len(block) if end < 0 else end
                value = self._value(block[begin:end])
            if match[1] == value:
                self._note(match[1])
                self._latest = match[0]

    def _places(self, block: bytes) -> Iterator[int]:
        """Where the key may have ended; found so, it is twice as fast as by a pattern."""
        token = self._token
        at = block.find(token) if len(self._values) < self._most else -1
        while at >= 0:
            at += len(token)
            yield at
            at = block.find(token, at)

    def _value(self, row: bytes) -> bytes | None:
        keys = top_level(row)
        found = None if keys is None else at_path(keys, self._path)
        return None if found is None else bytes(found)

    def _note(self, value: bytes) -> None:
        self._known.add(value)
        text = text_of(Raw(value))
        if text and text not in self._values and len(self._values) < self._most:
            self._values.append(text)
