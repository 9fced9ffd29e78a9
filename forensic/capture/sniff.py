"""Whose transcript is this, and which session: answered from the first rows, by key names alone.

Not more than 64 rows or a mebibyte are looked at, and rows that cannot be read (torn, spliced, NUL runs, nested too
deep) are passed over. Only for a known harness whose first rows name no session is the rest of the file searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from forensic.capture.tail import Tail, TailRow
from forensic.harness import HARNESSES, UNKNOWN, Harness
from forensic.jsonio import deeper_than

__all__ = ["Sniffed", "at_path", "naming_row", "sniff", "text_of", "top_level"]

_ROWS: Final = 64
_ENOUGH: Final = 16
_PLENTY: Final = 4
"""So many rows decide when all of them fit one harness alone."""
_PREFIX: Final = 1 << 20
_LONG_PREFIX: Final = 1 << 26
_CHUNK: Final = 1 << 14
_LATE: Final = 1 << 16
"""A file of more bytes may name its session behind the rows that are looked at."""
_BOM: Final = b"\xef\xbb\xbf"
_KNOWN: Final = tuple(harness for harness in HARNESSES.values() if harness is not UNKNOWN)

_top_level = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)


class Sniffed(Struct, frozen=True, gc=False):
    """What the first rows say.

    `rows` is ``none`` (an empty file), ``objects`` (at least one row is a JSON object, or begins like one), or
    ``other``; `session` is what the rows name, None when they name none. `damage` says why no more of a compressed file
    could be unpacked.
    """

    harness: str
    session: str | None
    rows: str
    damage: str | None = None


def top_level(raw: bytes) -> dict[str, Raw] | None:
    """The top-level keys of a row, their values undecoded; None when it is no JSON object that can be read."""
    if not raw.startswith((b"{", b" ", b"\t", _BOM)) or deeper_than(raw):
        return None
    try:
        return _top_level.decode(raw.removeprefix(_BOM))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def text_of(value: Raw | None) -> str | None:
    """The string that a top-level value is; None when it is absent or anything else."""
    if value is None:
        return None
    try:
        return _text.decode(value)
    except (msgspec.DecodeError, ValueError):
        return None


def at_path(keys: dict[str, Raw], path: Sequence[str]) -> Raw | None:
    """The undecoded value that a path of keys leads to; None when there is none."""
    *folders, name = path
    for folder in folders:
        value = keys.get(folder)
        try:
            keys = {} if value is None else _top_level.decode(value)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
    return keys.get(name)


def sniff(path: Path, harness: str | None = None) -> Sniffed:
    """Look at the first rows of a file; a named `harness` is taken at its word. Raises as `open_regular` does."""
    with Tail(path, most=_PREFIX, chunk=_CHUNK, unpack=True, digest=False) as tail:
        taken = _Impression(harness).look(row for row in tail.lines() if row.end or not tail.longer_than(_PREFIX))
        if not tail.read and tail.damage is None:
            return Sniffed(harness or UNKNOWN.name, None, "none")
        more = not taken.seen and tail.longer_than(_PREFIX)
    if more:
        with Tail(path, most=_LONG_PREFIX, unpack=True, digest=False) as tail:
            taken = _Impression(harness).look(tail.lines())
    name = taken.harness
    session = taken.session(name)
    if session is None and name != UNKNOWN.name and tail.longer_than(_LATE):
        named = naming_row(path, HARNESSES[name])
        session = None if named is None else named[0]
    return Sniffed(name, session, "objects" if taken.objects else "other", tail.damage)


class _Impression:
    """Tallies over the rows seen so far."""

    def __init__(self, forced: str | None) -> None:
        self._forced = forced
        self._candidates = _KNOWN if forced is None else (HARNESSES[forced],)
        self._hits = dict.fromkeys((harness.name for harness in _KNOWN), 0)
        self._sure: set[str] = set()
        self._sessions: dict[str, str] = {}
        self._read = 0
        self.seen = 0
        self.objects = 0

    def look(self, rows: Iterable[TailRow]) -> _Impression:
        """Go through rows until enough is known."""
        for row in rows:
            self.seen += 1
            self._row(row.raw)
            if self.seen >= _PLENTY and (self.seen >= _ROWS or self._decided()):
                break
        return self

    def _row(self, raw: bytes) -> None:
        keys = top_level(raw)
        if keys is None:
            # a row that was torn off or never finished begins like one all the same
            self.objects += raw.removeprefix(_BOM).startswith(b'{"')
            return
        self.objects += 1
        self._read += 1
        family = text_of(keys.get("type"))
        for harness in self._candidates:
            if family in harness.row_types:
                self._hits[harness.name] += 1
                if family in harness.own_types or not harness.row_keys.isdisjoint(keys):
                    self._sure.add(harness.name)
            elif any(shape <= keys.keys() for shape in harness.shapes):
                self._hits[harness.name] += 1
                self._sure.add(harness.name)
            if harness.name not in self._sessions and (session := _session(harness, keys, family)):
                self._sessions[harness.name] = session

    def _decided(self) -> bool:
        """Whether more rows would change nothing, as far as anybody can tell."""
        name = self.harness
        if name not in self._sessions:
            return False
        alone = self._read >= _PLENTY and self._hits.get(name) == self._read == sum(self._hits.values())
        return alone or self.seen >= _ENOUGH

    @property
    def harness(self) -> str:
        """The harness that these rows are taken for."""
        if self._forced is not None:
            return self._forced
        fitting = [name for name, hits in self._hits.items() if name in self._sure and hits * 4 >= self._read]
        return max(fitting, key=self._hits.__getitem__, default=UNKNOWN.name)

    def session(self, harness: str) -> str | None:
        """The session that they name, read as that harness's."""
        return self._sessions.get(harness)


def _session(harness: Harness, keys: dict[str, Raw], family: str | None) -> str | None:
    """The session that one row names."""
    for identity in harness.identities:
        if identity.type in (None, family) and identity.beside <= keys.keys():
            session = text_of(at_path(keys, identity.path))
            if session:
                return session
    return None


def naming_row(path: Path, harness: Harness) -> tuple[str, dict[str, Raw]] | None:
    """The session that the first row to name one names, and the keys of that row; raises as `open_regular` does."""
    needles = tuple(f'"{identity.path[-1]}"'.encode() for identity in harness.identities)
    with Tail(path, chunk=_CHUNK, unpack=True) as tail:
        for row in tail.lines():
            if any(needle in row.raw for needle in needles) and (keys := top_level(row.raw)) is not None:
                session = _session(harness, keys, text_of(keys.get("type")))
                if session:
                    return session, keys
    return None
