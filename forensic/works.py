"""Works: what ``forensic usage`` was asked to read, and what an archive told the last time it was read.

An argument is an archive, a bundle (or an unpacked recording), the beginning of an id in the archive, or raw
transcripts. All raw ones are looked through together, as a capture does.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, tzinfo
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from forensic import __version__, private
from forensic.accounts import Work, accounts, settled
from forensic.archive import Archive, default_root
from forensic.bundle import open_bundle
from forensic.capture.discover import find
from forensic.capture.found import Found
from forensic.dialects.registry import dialect
from forensic.errors import NoSuchPath, Unusable
from forensic.model import Finding, Role
from forensic.replay import ledger
from forensic.replay.ledger import Account
from forensic.replay.version import REPLAY_VERSION

__all__ = ["Bar", "gather", "told"]

Report = Callable[[Finding], None]

FORMAT: Final = 2
"""Raised when accounts are written down in another way."""
_UNPACKED: Final = 8
"""About so many bytes a byte of a bundle holds."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SUM: Final = 32
"""Bytes of the digest before what is remembered."""

_Kind = TypeVar("_Kind")


class Bar(Protocol):
    """Somebody who is told of progress, in bytes."""

    def total(self, amount: int) -> None:
        """How much there is to do."""

    def step(self, amount: float = 1) -> None:
        """Some of it is done."""


def told(  # noqa: PLR0913 -- what the command was asked, by name
    names: Sequence[str], archive: Path | None, by: str, zone: tzinfo, *, report: Report, bar: Bar
) -> dict[str, Any]:
    """The report of `forensic.replay.ledger` on all sessions below the named places; raises as `gather` does.

    Of an archive in which nothing changed since it was asked for the same it is the report of then.
    """
    last = _Last(_only_archive(names, archive), by) if zone is UTC else None
    known = None if last is None else last.report()
    if known is not None:
        return known
    troubles: list[Finding] = []
    with _uncollected():
        found = gather(names, archive, troubles.append, bar)
        made = ledger.report(ledger.settle(found), by, zone)
    for trouble in troubles:
        report(trouble)
    if last is not None and not troubles:
        last.keep(made, {one.harness for one in found})
    return made


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of circles: none are made, and looking for some takes one part in twenty."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _only_archive(names: Sequence[str], archive: Path | None) -> Archive | None:
    """The archive that is meant, when nothing else is."""
    if not names:
        return Archive(archive or default_root())
    path = Path(names[0])
    return Archive(path) if len(names) == 1 and names[0] and path.is_dir() and _is_archive(path) else None


def gather(names: Sequence[str], archive: Path | None, report: Report, bar: Bar) -> list[Account]:
    """The accounts of all sessions below the named places; of the archive when none is named.

    `archive` is the one in which ids are looked up. Trouble is told to `report`. Raises `NoSuchPath`, `NoSession`,
    `NotInArchive`, `Ambiguous`, `Unusable`.
    """
    home = archive or default_root()
    tasks = _Tasks(report)
    raw: list[Path] = []
    for name in names:
        if not name:
            raise Unusable(detail="an empty name names nothing")
        path = Path(name)
        if not path.exists():
            if "/" in name or "." in name:
                raise NoSuchPath(path=path)
            tasks.bundle(Archive(home).named(name))
        elif _is_archive(path):
            tasks.archive(Archive(path))
        elif _is_recording(path):
            open_bundle(path)
            tasks.bundle(path)
        else:
            raw.append(path)
    if not names:
        tasks.archive(Archive(home))
    if raw:
        for found in find(raw, report=report):
            tasks.raw(found)
    return tasks.run(bar)


def _is_archive(path: Path) -> bool:
    """Whether a folder holds bundles as an archive does."""
    return path.is_dir() and next(Archive(path).files(), None) is not None


def _is_recording(path: Path) -> bool:
    """Whether it is a bundle, sealed or unpacked, and no compressed transcript."""
    if path.is_dir():
        return (path / "manifest.json").is_file() and (path / "transcripts").is_dir()
    if not path.is_file() or path.name.endswith(".jsonl.zst"):
        return False
    with contextlib.suppress(OSError), path.open("rb") as start:
        return start.read(4) == _ZSTD
    return False


class _Tasks:
    """What is to be read, and what is known already."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._works: list[Work] = []
        self._known: dict[int, Account] = {}
        self._memories: list[tuple[_Memory, dict[str, int]]] = []

    def raw(self, found: Found) -> None:
        """Files as they lie."""
        for finding in found.findings:
            if finding.kind != "same-session":  # here every call counts once, wherever it stands
                self._report(finding)
        size = 0
        for piece in found.pieces:
            if piece.role is not Role.SIDE:
                with contextlib.suppress(OSError):
                    size += piece.path.stat().st_size
        self._works.append(
            Work(harness=found.harness, session=found.session, place=_spelled(found.place), size=size, found=found)
        )

    def bundle(self, path: Path) -> None:
        """One recording."""
        self._works.append(Work(place=_spelled(path), size=_size(path), bundle=path))

    def archive(self, archive: Archive) -> None:
        """All bundles of an archive."""
        memory = _Memory(archive)
        places: dict[str, int] = {}
        for path, size, known in memory.bundles(self._report):
            number = places[path.name] = len(self._works)
            if known is not None:
                self._known[number] = known
            self._works.append(Work(place=_spelled(path), size=size * _UNPACKED, bundle=path))
        self._memories.append((memory, places))

    def run(self, bar: Bar) -> list[Account]:
        """Read what is not known, remember what archives tell, and put all together.

        Of the bundles of an archive those count that no other one supersedes.
        """
        left = [number for number in range(len(self._works)) if number not in self._known]
        bar.total(sum(self._works[number].size for number in left))
        read = accounts([self._works[number] for number in left], bar.step)
        self._known.update(zip(left, read, strict=True))
        superseded: set[int] = set()
        for memory, places in self._memories:
            told = {name: self._known[number] for name, number in places.items()}
            memory.keep(told)
            old = {content_id for one in told.values() for content_id in one.supersedes}
            superseded.update(number for name, number in places.items() if told[name].content_id in old)
        counted = [number for number in range(len(self._works)) if number not in superseded]
        found = settled([self._works[number] for number in counted], [self._known[number] for number in counted])
        for one in found:
            for problem in one.problems:
                self._report(Finding(kind="unreadable-session", note=problem, problem=True))
        # a bundle that could not even be opened is nobody's account
        return [one for one in found if one.harness]


def _spelled(path: Path) -> str:
    """A path as text that any encoder takes; bytes that are no UTF-8 are spelled out, so that no two look the same."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _size(path: Path) -> int:
    """About how many bytes there are to read at a path."""
    with contextlib.suppress(OSError):
        return path.stat().st_size * _UNPACKED
    return 0


class _Facts(Struct, kw_only=True):
    """What one bundle file told when it was read. `reader` is everything that decides what it tells."""

    size: int
    mtime_ns: int
    reader: str
    account: Account

    def still(self, status: os.stat_result) -> bool:
        """Whether the file is the same, and would be read in the same way."""
        same = (self.size, self.mtime_ns) == (status.st_size, status.st_mtime_ns)
        return same and self.reader == _reader(self.account.harness)


def _reader(harness: str) -> str:
    return f"forensic {__version__}, replay {REPLAY_VERSION}, {harness} {dialect(harness).newest}, accounts {FORMAT}"


class _Memory:
    """What the bundles of one archive told the last time, by the name of each: it says what the bundle holds."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._told: dict[str, _Facts] = {}
        self._there: dict[str, os.stat_result] = {}
        self._told = _recalled(archive.memory("accounts"), dict[str, _Facts]) or {}

    def bundles(self, report: Report) -> Iterator[tuple[Path, int, Account | None]]:
        """All bundles, their sizes in bytes, and what is known of each; those that are not there are reported."""
        for path in self._archive.files():
            try:
                status = self._there[path.name] = path.stat()
            except OSError as error:
                note = f"{_spelled(path)}: {error.strerror}"
                report(Finding(kind="unreadable-bundle", note=note, problem=True))
                continue
            known = self._told.get(path.name)
            yield path, status.st_size, known.account if known is not None and known.still(status) else None

    def keep(self, told: dict[str, Account]) -> None:
        """Write down what there is now; an archive that nobody may write to is read anew each time."""
        now = {
            name: _Facts(
                size=self._there[name].st_size,
                mtime_ns=self._there[name].st_mtime_ns,
                reader=_reader(one.harness),
                account=one,
            )
            for name, one in told.items()
            if not one.problems
        }
        if now.keys() == self._told.keys() and all(now[name].account is self._told[name].account for name in now):
            return
        _remember(self._archive.memory("accounts"), now)


class _Told(Struct, kw_only=True):
    """Reports on an archive as it was at `state`; `readers` are what decided them, by harness."""

    state: str
    readers: dict[str, str]
    reports: dict[str, dict[str, Any]] = {}


class _Last:
    """What was told last of one archive."""

    def __init__(self, archive: Archive | None, by: str) -> None:
        self._archive = archive
        self._by = by
        self._state = "" if archive is None else _state(archive)
        self._told: _Told | None = None

    def report(self) -> dict[str, Any] | None:
        """The report on the archive as it is now, if it was made before by what would make it today."""
        if self._archive is None:
            return None
        told = _recalled(self._archive.memory("reports"), _Told)
        if told is None or told.state != self._state:
            return None
        if any(_reader(name) != known for name, known in told.readers.items()):
            return None
        self._told = told
        return told.reports.get(self._by)

    def keep(self, report: dict[str, Any], harnesses: AbstractSet[str]) -> None:
        """Remember a report, beside those on the same state."""
        if self._archive is None or _state(self._archive) != self._state:
            return
        told = self._told or _Told(state=self._state, readers={name: _reader(name) for name in sorted(harnesses)})
        told.reports[self._by] = report
        _remember(self._archive.memory("reports"), told)


def _state(archive: Archive) -> str:
    """What an archive holds, told by the names, sizes and times of its bundles: none of them is ever changed."""
    digest = blake2b(digest_size=16)
    for path in archive.files():
        with contextlib.suppress(OSError):
            status = path.stat()
            digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _recalled(path: Path, kind: type[_Kind]) -> _Kind | None:
    """What was remembered in a file, if it is still what was written there."""
    try:
        told = private.contents(path)
        if told[:_SUM] != blake2b(told[_SUM:], digest_size=_SUM).digest():
            return None
        return msgspec.msgpack.decode(memoryview(told)[_SUM:], type=kind)
    except Exception:  # noqa: BLE001 -- nothing that lies there may stop the command, which can do without
        return None


def _remember(path: Path, value: object) -> None:
    """Write it down: private, with a digest before it, whole or not at all; where that cannot be done, do without."""
    try:
        told = msgspec.msgpack.encode(value)
        descriptor, name = tempfile.mkstemp(prefix="told.new-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(blake2b(told, digest_size=_SUM).digest())
                out.write(told)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except Exception:  # noqa: BLE001 -- what is not remembered is read again the next time
        return
