"""Works: what ``forensic usage`` was asked to read, all of it together.

An argument is an archive, a bundle (or an unpacked recording), the beginning of an id in the archive, or raw
transcripts. All raw ones are looked through together, as a capture does.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Final, Protocol

from forensic.accounts import Work, accounts, settled
from forensic.archive import Archive, default_root
from forensic.capture.discover import find
from forensic.capture.found import Found
from forensic.capture.tail import PACKED
from forensic.errors import NoSession, NoSuchPath, Unusable
from forensic.model import Finding, Role
from forensic.remembered import Answers, Memory, spelled
from forensic.replay import ledger
from forensic.replay.ledger import Account

__all__ = ["Bar", "gather", "told"]

Report = Callable[[Finding], None]

_UNPACKED: Final = 8
"""About so many bytes a byte of a bundle holds."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


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
    answers = Answers(_only_archive(names, archive), by) if zone is UTC else None
    known = None if answers is None else answers.last()
    if known is not None:
        return known
    troubles: list[Finding] = []
    with _uncollected():
        found = gather(names, archive, troubles.append, bar)
        made = ledger.report(ledger.settle(found), by, zone)
    for trouble in troubles:
        report(trouble)
    if answers is not None and not troubles:
        answers.keep(made, {one.harness for one in found})
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
            tasks.bundle(path)
        else:
            raw.append(path)
    if not names:
        tasks.archive(Archive(home))
    for found in _found(raw, report):
        tasks.raw(found)
    return tasks.run(bar)


def _found(raw: Sequence[Path], report: Report) -> list[Found]:
    """The sessions of raw files. That there is none is an error, unless what was found instead is told as a problem."""
    met: list[Finding] = []
    try:
        return find(raw, report=met.append) if raw else []
    except NoSession:
        if not any(finding.problem for finding in met):
            raise
        return []
    finally:
        for finding in met:
            report(finding)


def _is_archive(path: Path) -> bool:
    """Whether a folder holds bundles as an archive does."""
    return path.is_dir() and next(Archive(path).files(), None) is not None


def _is_recording(path: Path) -> bool:
    """Whether it is a bundle, sealed or unpacked, and no compressed transcript; by its name, whatever became of it."""
    if path.is_dir():
        return (path / "manifest.json").is_file() and (path / "transcripts").is_dir()
    if not path.is_file() or path.name.endswith(PACKED):
        return False
    if path.suffix == ".zst":
        return True
    with contextlib.suppress(OSError), path.open("rb") as start:
        return start.read(4) == _ZSTD
    return False


class _Tasks:
    """What is to be read, and what is known already."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._works: list[Work] = []
        self._known: dict[int, Account] = {}
        self._memories: list[tuple[Archive, Memory, dict[str, int]]] = []

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
            Work(harness=found.harness, session=found.session, place=spelled(found.place), size=size, found=found)
        )

    def bundle(self, path: Path) -> None:
        """One recording."""
        self._works.append(Work(place=spelled(path), size=_size(path), bundle=path))

    def archive(self, archive: Archive) -> None:
        """All bundles of an archive."""
        memory = Memory(archive)
        places: dict[str, int] = {}
        for path, size, known in memory.bundles(self._report):
            number = places[path.name] = len(self._works)
            if known is not None:
                self._known[number] = known
            self._works.append(Work(place=spelled(path), size=size * _UNPACKED, bundle=path))
        self._memories.append((archive, memory, places))

    def run(self, bar: Bar) -> list[Account]:
        """Read what is not known, remember what archives tell, and put all together.

        Of the bundles of an archive those count that no other one supersedes.
        """
        left = [number for number in range(len(self._works)) if number not in self._known]
        bar.total(sum(self._works[number].size for number in left))
        read = accounts([self._works[number] for number in left], bar.step)
        self._known.update(zip(left, read, strict=True))
        left_out: set[int] = set()
        for archive, memory, places in self._memories:
            strays = {name for name, number in places.items() if self._strays(archive, number)}
            told = {name: self._known[number] for name, number in places.items() if name not in strays}
            memory.keep(told)
            old = {content_id for one in told.values() for content_id in one.supersedes}
            left_out.update(places[name] for name in strays)
            left_out.update(places[name] for name, one in told.items() if one.content_id in old)
        counted = [number for number in range(len(self._works)) if number not in left_out]
        found = settled([self._works[number] for number in counted], [self._known[number] for number in counted])
        for one in found:
            for problem in one.problems:
                self._report(Finding(kind="unreadable-session", note=problem, problem=True))
        # a bundle that could not even be opened is nobody's account
        return [one for one in found if one.harness]

    def _strays(self, archive: Archive, number: int) -> bool:
        """Whether a bundle lies where another one would: that one is missing, and this one counts where it belongs."""
        told, path = self._known[number], self._works[number].bundle
        if path is None or not told.content_id or path == archive.path_of(told.harness, told.content_id):
            return False
        note = f"{spelled(path)}: its content has another name"
        self._report(Finding(kind="misnamed-bundle", note=note, problem=True))
        return True


def _size(path: Path) -> int:
    """About how many bytes there are to read at a path."""
    with contextlib.suppress(OSError):
        return path.stat().st_size * _UNPACKED
    return 0
