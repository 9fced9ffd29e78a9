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
from typing import Final

from msgspec.structs import replace

from forensic.capture import claude
from forensic.capture.found import Candidate, Found, Piece
from forensic.capture.sniff import sniff
from forensic.capture.walk import Identity, Report, identity, shown, walk
from forensic.errors import ForensicError, NoSession, NoSuchPath, NotReadable, NotRegular, UnknownHarness
from forensic.harness import HARNESSES, UNKNOWN
from forensic.model import Finding, Role

__all__ = ["Found", "Piece", "find"]

_NOT_TRANSCRIPTS: Final = frozenset({"history.jsonl", "session_index.jsonl", "sessions-index.jsonl"})
"""Lists that harnesses keep beside their transcripts."""


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


class _Search:
    """Files gathered from all named paths, then put together."""

    def __init__(self, harness: str | None, report: Report) -> None:
        self._harness = harness
        self._report = report
        self._files: dict[Identity, Candidate] = {}
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
        if key is None:
            return
        known = self._files.get(key)
        if known is not None:
            if root is None or (known.lent and not lent):
                self._files[key] = replace(known, root=root, lent=False)
            return
        try:
            self._files[key] = Candidate(path=path, root=root, sniffed=sniff(path, self._harness), lent=lent)
        except ForensicError as error:
            if root is None:
                raise
            self._report(Finding(kind="unreadable-file", note=str(error), problem=True))

    def sessions(self) -> list[Found]:
        """Put the files together."""
        candidates = sorted(self._files.values(), key=lambda file: file.path)
        found: list[Found] = []
        taken: set[Path] = set()
        if self._harness in (None, claude.HARNESS):
            found, taken = claude.assemble(candidates, self._report)
        found.extend(_alone(file) for file in candidates if file.path not in taken and self._counts(file))
        return sorted(_told_apart(found), key=lambda session: session.place)

    def _counts(self, file: Candidate) -> bool:
        """Whether a file that no layout accounts for is a session of its own."""
        if file.lent or file.root is None:
            return not file.lent
        if file.sniffed.rows == "other":
            note = f"{shown(file.path)} holds no row that is a JSON object and was left out"
            self._report(Finding(kind="no-transcript", note=note))
        if file.sniffed.rows != "objects":
            return False
        return file.sniffed.harness != UNKNOWN.name or not _is_listing(file.path)


def _is_listing(path: Path) -> bool:
    if path.name == "journal.jsonl":
        return claude.home_of(path) is not None
    return path.name in _NOT_TRANSCRIPTS


def _alone(file: Candidate) -> Found:
    session = file.sniffed.session or shown(Path(file.path.stem))
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
