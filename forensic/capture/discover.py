"""Finding sessions: which files are transcripts and which belong together.

A file is one session; a folder is every session below it. The rows decide whose a transcript is and which session it
tells; no project folder's name is read.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from forensic.capture import claude, codex, copilot, cursor
from forensic.capture.found import Candidate, Found, Piece, stem
from forensic.capture.sniff import Sniffed, sniff
from forensic.capture.walk import Identity, Report, identity, shown, walk
from forensic.crew import helped
from forensic.errors import ForensicError, NoSession, NoSuchPath, NotReadable, NotRegular, UnknownHarness
from forensic.harness import HARNESSES, UNKNOWN
from forensic.model import Finding, Role

__all__ = ["Found", "Piece", "assemble", "find"]

_NOT_TRANSCRIPTS: Final = frozenset({"history.jsonl", "session_index.jsonl", "sessions-index.jsonl"})
"""Lists that harnesses keep beside their transcripts."""
_MANY: Final = 200
"""Files that are worth another process."""
_MOST_JOBS: Final = 8


_decode: Final = msgspec.msgpack.Decoder(Sniffed | str).decode


def find(paths: Sequence[Path | str], harness: str | None = None, *, report: Report = lambda _: None) -> list[Found]:
    """All sessions below the named paths, in the order of their main files' paths.

    A file or folder that cannot be read is told to `report` when it was met on the way; when the caller named it,
    `NoSuchPath`, `NotReadable` or `NotRegular` is raised. `NoSession` when nothing is found, `UnknownHarness` when
    there is none of that name.
    """
    if harness is not None and harness not in HARNESSES:
        raise UnknownHarness(name=harness, known=", ".join(sorted(HARNESSES)))
    search = _Search(harness, report)
    for path in paths:
        search.add(Path(path))
    found = search.sessions()
    if not found:
        raise NoSession(path=", ".join(shown(Path(path)) for path in paths))
    return found


class _Met(NamedTuple):
    """A file that was met below `root` and not looked at yet."""

    path: Path
    root: Path
    lent: bool


class _Search:
    """Files gathered from all named paths, then put together."""

    def __init__(self, harness: str | None, report: Report) -> None:
        self._harness = harness
        self._report = report
        self._files: dict[Identity, Candidate] = {}
        self._met: dict[Identity, _Met] = {}
        self._beside: set[Path] = set()

    def add(self, path: Path) -> None:
        """Take in a named file, or everything below a named folder."""
        try:
            real = Path(os.path.realpath(path, strict=True))
            mode = real.stat().st_mode
        except FileNotFoundError:
            raise NoSuchPath(path=shown(path)) from None
        except (OSError, ValueError) as error:
            raise NotReadable(path=shown(path), detail=getattr(error, "strerror", None) or error) from None
        if stat.S_ISDIR(mode):
            for below in walk(real, self._report):
                self._take(below, real)
        elif stat.S_ISREG(mode):
            self._take(real, None)
            self._look_beside(real.parent)
        else:
            raise NotRegular(path=shown(path))

    def _look_beside(self, folder: Path) -> None:
        if folder not in self._beside:
            self._beside.add(folder)
            for path in claude.siblings(folder):
                self._take(path, folder, lent=True)

    def _take(self, path: Path, root: Path | None, *, lent: bool = False) -> None:
        key = identity(path)
        if key is None or (root is not None and self._harness is not None and _is_listing(path)):
            return
        known = self._files.get(key) or self._met.get(key)
        if isinstance(known, Candidate):
            if root is None or (known.lent and not lent):
                self._files[key] = replace(known, root=root, lent=False)
        elif root is None:
            self._files[key] = Candidate(path=path, root=None, sniffed=sniff(path, self._harness))
            self._met.pop(key, None)
        elif known is None or (known.lent and not lent):
            self._met[key] = _Met(path, root, lent)

    def _look(self) -> None:
        """Sniff at all files that were met; by several processes when they are many."""
        met = list(self._met.items())
        told: dict[int, Sniffed | str] = {}
        jobs = min(os.cpu_count() or 1, _MOST_JOBS, len(met) // _MANY)
        if jobs > 1 and hasattr(os, "fork"):
            shares = [range(first, len(met), jobs) for first in range(jobs)]
            with helped(shares, lambda at: self._sniffed(met[at][1].path)) as results:
                told.update((number, _decode(result)) for number, result in results)
        for number, (key, one) in enumerate(met):
            sniffed = told[number] if number in told else self._sniffed(one.path)
            if isinstance(sniffed, str):
                self._report(Finding(kind="unreadable-file", note=sniffed, problem=True))
            else:
                self._files[key] = Candidate(path=one.path, root=one.root, sniffed=sniffed, lent=one.lent)
        self._met.clear()

    def _sniffed(self, path: Path) -> Sniffed | str:
        """What the first rows say, or why they cannot be read."""
        try:
            return sniff(path, self._harness)
        except ForensicError as error:
            return str(error)

    def sessions(self) -> list[Found]:
        """Put the files together."""
        self._look()
        candidates = sorted(self._files.values(), key=lambda file: file.path)
        found, taken = assemble(candidates, self._harness, self._report)
        found.extend(_alone(file) for file in candidates if file.path not in taken and self._counts(file))
        return sorted(_told_apart(found), key=lambda session: session.place)

    def _counts(self, file: Candidate) -> bool:
        """Whether a file that no layout accounts for is a session of its own."""
        if file.lent or file.root is None:
            return not file.lent
        if file.sniffed.rows == "other" and file.sniffed.damage is not None:
            note = f"{shown(file.path)}: {file.sniffed.damage}; no row of it can be read, and it was left out"
            self._report(Finding(kind="unreadable-file", note=note, problem=True))
        elif file.sniffed.rows == "other":
            note = f"{shown(file.path)} holds no row that is a JSON object and was left out"
            self._report(Finding(kind="no-transcript", note=note))
        if file.sniffed.rows != "objects":
            return False
        return file.sniffed.harness != UNKNOWN.name or not _is_listing(file.path)


def assemble(candidates: Sequence[Candidate], harness: str | None, report: Report) -> tuple[list[Found], set[Path]]:
    """The sessions that files amount to, of one harness or of all, and the paths of the files that they account for."""
    found: list[Found] = []
    taken: set[Path] = set()
    for layout in (claude, codex, copilot, cursor):
        if harness in (None, layout.HARNESS):
            sessions, accounted = layout.assemble(candidates, report)
            found += sessions
            taken |= accounted
    return found, taken


def _is_listing(path: Path) -> bool:
    if path.name == "journal.jsonl":
        return claude.home_of(path) is not None
    return path.name.removesuffix(".zst") in _NOT_TRANSCRIPTS


def _alone(file: Candidate) -> Found:
    session = file.sniffed.session or shown(Path(stem(file.path).name))
    main = Piece(path=file.path, stream="main", role=Role.MAIN, native_id=session, found_by=file.found_by)
    return Found(harness=file.sniffed.harness, session=session, pieces=(main,))


def _told_apart(found: Iterable[Found]) -> Iterator[Found]:
    """Say it of sessions that stand in several places: nothing tells which is the real one, so none is dropped."""
    places: dict[tuple[str, str], list[Path]] = defaultdict(list)
    sessions = list(found)
    for session in sessions:
        places[session.harness, session.session].append(session.place)
    for session in sessions:
        others = [place for place in places[session.harness, session.session] if place != session.place]
        if not others or session.harness == UNKNOWN.name:
            yield session
            continue
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        note = f"session {session.session} also stands in {shown(min(others))}{more}: kept apart"
        yield replace(session, findings=(*session.findings, Finding(kind="same-session", note=note)))
