"""What a parser is: two tables of readers, and the one soft net.

A reader gets one entry and its decoded body and yields observations; it is strict, short, and may raise. Only
`Parser.observe` catches. Every entry yields at least one observation, so nothing vanishes: what no reader knows is
`Unmodelled` under its native name, what cannot be read is `Unreadable`, what had to be mended says so (`Mended`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from forensic.dialects.damage import BLANKS, Salvage, salvage
from forensic.jsonio import NotJson, decode
from forensic.model import (
    FOLDED,
    Entry,
    Keeper,
    Mended,
    Observation,
    Payload,
    Row,
    SessionStart,
    SetAside,
    Setting,
    SideFile,
    Told,
    Unmodelled,
    Unreadable,
)

__all__ = ["UNTYPED", "Aside", "Meter", "Parser", "Reader", "native"]

Reader = Callable[[Any, dict[str, Any], Keeper], Iterable[Observation]]
"""(entry, decoded body, keeper) -> observations with ``ref`` set; ``part`` is numbered by `Parser.observe`.

The body of a side file whose name does not end in ``.json`` is empty: its reader looks at the raw bytes.
"""

UNTYPED: Final = "<object>"
"""Family of an object that does not say what it is."""

_METERED: Final = frozenset({SessionStart, Setting})
_BOM = b"\xef\xbb\xbf"
_NAME_LIMIT = 100


def native(name: object) -> str:
    """A producer's name for a kind of thing, as a family: cut at 100 characters, `UNTYPED` when it is no text."""
    return name[:_NAME_LIMIT] if isinstance(name, str) and name else UNTYPED


class Aside(Struct, frozen=True):
    """A reader for what is known and deliberately makes no node.

    `base` gives the fields that every observation of the row has; `value` picks what is worth keeping of it, if
    anything is.
    """

    family: str
    base: Callable[[Any, dict[str, Any]], dict[str, Any]]
    value: Callable[[dict[str, Any]], Any] | None = None

    def __call__(self, entry: Any, body: dict[str, Any], keep: Keeper) -> Iterable[Observation]:
        """One `SetAside`."""
        value = None if self.value is None else keep.value(self.value(body))
        return (SetAside(**self.base(entry, body), family=self.family, value=value),)


class Meter(NamedTuple):
    """How usage is told from rows that say nothing of it, for who wants nothing else.

    A row without any of the `needles` says nothing. `read` is a short way to what the row's readers would say of usage,
    for dialects whose rows tell at most one call and no running total: (raw row, stream, agent of the stream) -> what
    the row tells, None for nothing. `slim` is one for all other dialects: row -> those observations that tell of usage.
    `clock` gives a stand-in for a row that only says when it was written. Each may raise, and then the readers are
    asked.
    """

    needles: tuple[bytes, ...]
    read: Callable[[bytes, str, str | None], Told | None] | None = None
    slim: Callable[[Row], Sequence[Observation]] | None = None
    clock: Callable[[Row], Observation] | None = None


class Parser(NamedTuple):
    """One version of one dialect. `family` names a decoded row, `event` a decoded payload, `side` a side file.

    `blocks` lists what readers know inside rows, for the census. Without a `meter` every row may tell of usage.
    """

    dialect: str
    version: int
    family: Callable[[dict[str, Any]], str]
    rows: Mapping[str, Reader]
    event: Callable[[Payload, dict[str, Any]], str]
    hooks: Mapping[str, Reader]
    side: Callable[[str], str]
    files: Mapping[str, Reader]
    blocks: Mapping[str, tuple[str, ...]] = {}
    meter: Meter | None = None

    def revise(self, version: int, **tables: Any) -> Parser:
        """The next version: tables given are laid over the ones there are, functions given take their place."""
        merged: dict[str, Any] = {
            name: {**getattr(self, name), **value} if isinstance(value, Mapping) else value
            for name, value in tables.items()
        }
        return self._replace(version=version, **merged)

    def observe(self, entry: Entry, keep: Keeper = FOLDED) -> list[Observation]:
        """All that one entry says, in order; never empty, never an exception."""
        if isinstance(entry, Row):
            seen = self._row(entry, keep)
        elif isinstance(entry, SideFile):
            seen = self._file(entry, keep)
        else:
            seen = self._payload(entry, keep)
        if len(seen) > 1:
            return [one if one.part == part else replace(one, part=part) for part, one in enumerate(seen)]
        return seen

    @property
    def tells_usage(self) -> bool:
        """Whether the format has any place for it."""
        return self.meter is None or self.meter.needles != ()

    def measure(self, row: Row) -> Sequence[Observation]:
        """What `observe` says of usage, and of what it depends on: models in force, beginnings of sessions."""
        if self.meter is not None and self.meter.slim is not None:
            try:
                return self.meter.slim(row)
            except Exception:  # noqa: BLE001, S110 -- the short way is for rows as they should be; the readers know all
                pass
        return [one for one in self.observe(row) if one.usage is not None or type(one) in _METERED]

    def time(self, row: Row) -> Sequence[Observation]:
        """What `measure` says, and of a row that says nothing of usage at least when it was written."""
        if self.meter is None or self.meter.clock is None:
            return self.observe(row)
        told = self.measure(row) if any(needle in row.raw for needle in self.meter.needles) else ()
        try:
            return told or (self.meter.clock(row),)
        except Exception:  # noqa: BLE001 -- as above
            return self.observe(row)

    def _row(self, row: Row, keep: Keeper) -> list[Observation]:
        try:
            body, notes = decode(row.raw)
        except NotJson as error:
            seen = self._mend(row, str(error), keep)
        else:
            seen = self._value(row, body, keep)
            if notes:
                seen.extend(_noted(row, notes))
        if row.unverified:
            seen.append(Mended(ref=row.ref, reason="unverified"))
        return seen

    def _value(self, row: Row, body: Any, keep: Keeper) -> list[Observation]:
        if isinstance(body, dict):
            return self._read(row, self.family, self.rows, body, keep)
        return [Unmodelled(ref=row.ref, family=_shape(body))]

    def _read(
        self,
        entry: Entry,
        family: Callable[[dict[str, Any]], str],
        table: Mapping[str, Reader],
        body: dict[str, Any],
        keep: Keeper,
    ) -> list[Observation]:
        name = "?"
        try:
            name = family(body)
            reader = table.get(name)
            seen = list(reader(entry, body, keep)) if reader else []
        except Exception as error:  # noqa: BLE001 -- the one soft net: a reader's surprise must not cost the evidence
            return [Unreadable(ref=entry.ref, reason=f"{name}: {type(error).__name__}", bytes=len(entry.raw))]
        return seen or [Unmodelled(ref=entry.ref, family=name)]

    def _file(self, entry: SideFile, keep: Keeper) -> list[Observation]:
        name = self.side(entry.native_id)
        reader = self.files.get(name)
        if reader is None:
            return [SetAside(ref=entry.ref, family=name)]
        try:
            body = decode(entry.raw.removeprefix(_BOM))[0] if entry.native_id.endswith(".json") else {}
        except NotJson as error:
            return [Unreadable(ref=entry.ref, reason=str(error), bytes=len(entry.raw))]
        if not isinstance(body, dict):
            return [Unmodelled(ref=entry.ref, family=f"{name}/{_shape(body)}")]
        return self._read(entry, lambda _: name, self.files, body, keep)

    def _payload(self, entry: Payload, keep: Keeper) -> list[Observation]:
        raw = entry.raw.removeprefix(_BOM).strip(BLANKS + b"\n")
        try:
            body, _ = decode(raw)
        except NotJson as error:
            return [Unreadable(ref=entry.ref, reason=str(error) if raw else "empty", bytes=len(entry.raw))]
        if not isinstance(body, dict):
            return [Unmodelled(ref=entry.ref, family=_shape(body))]
        return self._read(entry, lambda known: self.event(entry, known), self.hooks, body, keep)

    def _mend(self, row: Row, reason: str, keep: Keeper) -> list[Observation]:
        """Read what can be read of a row that is not one JSON value.

        Known damage of real writers: a byte order mark, a run of NULs before the record, two whole records on one
        line, a cut record with the next whole one behind it, a cut last line.
        """
        bare = row.raw.removeprefix(_BOM).strip(BLANKS)
        if not bare:
            nuls = row.raw.count(0)
            return [Unreadable(ref=row.ref, reason="nul-run", bytes=nuls) if nuls else _blank(row)]
        seen: list[Observation] = []
        try:
            found = Salvage([decode(bare)])
        except NotJson:
            found = salvage(bare)
        for body, notes in found.records:
            seen.extend(self._value(row, body, keep))
            seen.extend(_noted(row, notes))
        if not seen:
            return [Unreadable(ref=row.ref, reason=reason if row.end else "torn", bytes=len(row.raw))]
        seen.extend(_marks(row, bare, found))
        return seen


def _blank(row: Row) -> Observation:
    return SetAside(ref=row.ref, family="blank")


def _noted(row: Row, notes: Iterable[str]) -> Iterable[Observation]:
    return [Mended(ref=row.ref, reason=note) for note in notes]


def _marks(row: Row, bare: bytes, found: Salvage) -> Iterable[Observation]:
    """What was done to a broken row, and what of it stays unread."""
    nuls = row.raw.count(0) - bare.count(0)
    if nuls:
        yield Mended(ref=row.ref, reason="nul-run", bytes=nuls)
    if len(found.records) > 1:
        yield Mended(ref=row.ref, reason="joined-records")
    if found.ahead:
        yield Mended(ref=row.ref, reason="recovered-suffix", bytes=found.ahead)
        yield Unreadable(ref=row.ref, reason="cut-record", bytes=found.ahead)
    if found.behind:
        yield Mended(ref=row.ref, reason="recovered-prefix", bytes=found.behind)
        yield Unreadable(ref=row.ref, reason="cut-record" if row.end else "torn", bytes=found.behind)


def _shape(body: object) -> str:
    return f"<{type(body).__name__}>" if body is not None else "<null>"
