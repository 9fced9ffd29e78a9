"""Works: what ``forensic usage`` was asked to read, and what an archive told the last time it was read.

An argument is an archive, a bundle (or an unpacked recording), the beginning of an id in the archive, or raw
transcripts. All raw ones are looked through together, as a capture does.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from forensic import __version__
from forensic.accounts import Work, accounts, settled
from forensic.archive import Archive, default_root
from forensic.bundle import Bundle, open_bundle
from forensic.capture.discover import find
from forensic.capture.found import Found
from forensic.dialects.registry import dialect
from forensic.errors import ForensicError, NoSuchPath, Unusable
from forensic.model import Finding, Role
from forensic.replay.ledger import Account
from forensic.replay.version import REPLAY_VERSION

__all__ = ["Bar", "gather"]

Report = Callable[[Finding], None]

FORMAT: Final = 1
"""Raised when accounts are written down in another way."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class Bar(Protocol):
    """Somebody who is told of progress, in bytes."""

    def total(self, amount: int) -> None:
        """How much there is to do."""

    def step(self, amount: float = 1) -> None:
        """Some of it is done."""


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
            tasks.bundle(open_bundle(Archive(home).named(name)))
        elif _is_archive(path):
            tasks.archive(Archive(path))
        elif _is_recording(path):
            tasks.bundle(open_bundle(path))
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
            Work(harness=found.harness, session=found.session, place=str(found.place), size=size, found=found)
        )

    def bundle(self, bundle: Bundle) -> None:
        """One recording."""
        self._works.append(_work(bundle))

    def archive(self, archive: Archive) -> None:
        """All bundles of an archive that no other one supersedes."""
        memory = _Memory(archive)
        places: dict[str, int] = {}
        for name, facts in memory.bundles(self._report):
            places[name] = len(self._works)
            if facts.account is not None:
                self._known[len(self._works)] = facts.account
            self._works.append(facts.work)
        self._memories.append((memory, places))

    def run(self, bar: Bar) -> list[Account]:
        """Read what is not known, remember what archives tell, and put all together."""
        open_ = [number for number in range(len(self._works)) if number not in self._known]
        bar.total(sum(self._works[number].size for number in open_))
        read = accounts([self._works[number] for number in open_], bar.step)
        self._known.update(zip(open_, read, strict=True))
        for memory, places in self._memories:
            memory.keep({name: self._known[number] for name, number in places.items()})
        found = settled(self._works, [self._known[number] for number in range(len(self._works))])
        for one in found:
            for problem in one.problems:
                self._report(Finding(kind="unreadable-session", note=problem, problem=True))
        return found


def _work(bundle: Bundle) -> Work:
    manifest = bundle.manifest
    size = sum(generation.bytes for source in manifest.sources for generation in source.generations)
    return Work(
        harness=manifest.harness, session=manifest.session, place=str(bundle.path), size=size, bundle=bundle.path
    )


class _Facts(Struct, kw_only=True):
    """What is known of one bundle file: of what it is, and of what it told; None until it is read."""

    size: int
    mtime_ns: int
    content_id: str
    supersedes: tuple[str, ...]
    harness: str
    session: str
    bytes: int
    reader: str
    """Everything that decides what a bundle tells."""
    path: str = ""
    account: Account | None = None

    def still(self, status: os.stat_result) -> bool:
        """Whether the file is the same, and would be read in the same way."""
        same = (self.size, self.mtime_ns) == (status.st_size, status.st_mtime_ns)
        return same and self.reader == _reader(self.harness)

    @property
    def work(self) -> Work:
        """How to read it."""
        return Work(
            harness=self.harness, session=self.session, place=self.path, size=self.bytes, bundle=Path(self.path)
        )


def _reader(harness: str) -> str:
    return f"forensic {__version__}, replay {REPLAY_VERSION}, {harness} {dialect(harness).newest}, accounts {FORMAT}"


class _Memory:
    """What the bundles of one archive told the last time, by the name of each: it says what the bundle holds."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._told: dict[str, _Facts] = {}
        self._now: dict[str, _Facts] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self._told = msgspec.msgpack.decode(archive.usage.read_bytes(), type=dict[str, _Facts])

    def bundles(self, report: Report) -> Iterator[tuple[str, _Facts]]:
        """All bundles that count, by name; those that cannot be read are reported."""
        for path in self._archive.files():
            try:
                status = path.stat()
                known = self._told.get(path.name)
                if known is None or not known.still(status):
                    known = _facts(open_bundle(path), status)
            except (ForensicError, OSError) as error:
                note = str(error) if isinstance(error, ForensicError) else f"{path}: {error}"
                report(Finding(kind="unreadable-bundle", note=note, problem=True))
                continue
            known.path = str(path)
            self._now[path.name] = known
        old = {content_id for facts in self._now.values() for content_id in facts.supersedes}
        for name, facts in self._now.items():
            if facts.content_id not in old:
                yield name, facts

    def keep(self, told: dict[str, Account]) -> None:
        """Write down what there is now; an archive that nobody may write to is read anew each time."""
        same = self._now.keys() == self._told.keys() and all(self._now[name] is self._told[name] for name in self._now)
        for name, one in told.items():
            facts = self._now[name]
            if facts.account is None and not one.problems:
                facts.account, same = one, False
        if same:
            return
        with contextlib.suppress(OSError):
            _write(self._archive.usage, self._now)


def _facts(bundle: Bundle, status: os.stat_result) -> _Facts:
    work = _work(bundle)
    return _Facts(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        content_id=bundle.content_id,
        supersedes=bundle.manifest.supersedes,
        harness=work.harness,
        session=work.session,
        bytes=work.size,
        reader=_reader(work.harness),
    )


def _write(path: Path, value: object) -> None:
    """Private, and whole or not at all."""
    descriptor, name = tempfile.mkstemp(prefix=".usage-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(msgspec.msgpack.encode(value))
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
