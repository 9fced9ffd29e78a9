"""Where Codex keeps what belongs to one session: every thread has a rollout of its own, wherever it lies.

The first row that names a thread says whose the file is, which thread spawned it and whose history it took along; rows
further down may be copies of another thread's. A week-old rollout is compressed, an archived one moved, so the same one
may lie in several places.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from forensic.capture.found import Candidate, Found, Piece, stem
from forensic.capture.sniff import at_path, naming_row, text_of
from forensic.capture.tail import PACKED, Tail, prefix_sha256
from forensic.capture.walk import Report, shown
from forensic.errors import ForensicError
from forensic.harness import HARNESSES
from forensic.model import Finding, Role

__all__ = ["HARNESS", "assemble"]

HARNESS: Final = "codex"

_ARCHIVED: Final = "archived_sessions"
_FOLDERS: Final = ("sessions", _ARCHIVED)
_PARENTS: Final = (
    ("payload", "parent_thread_id"),
    ("payload", "source", "subagent", "thread_spawn", "parent_thread_id"),
)
_FORKED: Final = ("payload", "forked_from_id")
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 80


class _Thread(Struct, eq=False):
    """One rollout that is recorded; `left_out` are files that hold nothing more."""

    file: Candidate
    id: str
    parent: str | None = None
    forked_from: str | None = None
    left_out: list[Finding] = []


class _Copy(Struct):
    """One of several files of one thread: the bytes of its content, their digest, and whether there should be more."""

    file: Candidate
    size: int
    sha256: str
    damaged: bool


def assemble(candidates: Iterable[Candidate], report: Report) -> tuple[list[Found], set[Path]]:  # noqa: ARG001 -- as others
    """The sessions among the candidates, and the paths of all candidates that they account for."""
    same: dict[str, list[Candidate]] = defaultdict(list)
    for file in filter(_is_rollout, candidates):
        # where no row names a thread, a compressed file still belongs to the plain one beside it
        same[file.sniffed.session or str(stem(file.path))].append(file)
    threads: list[_Thread] = []
    taken: set[Path] = set()
    for copies in same.values():
        # what cannot be read any more is a session of its own, and recording it will say so
        with contextlib.suppress(ForensicError):
            threads += list(_threads(copies))
            taken.update(file.path for file in copies)
    return list(_sessions(sorted(threads, key=lambda thread: thread.id))), taken


def _is_rollout(file: Candidate) -> bool:
    return file.sniffed.harness == HARNESS and file.sniffed.rows == "objects" and not file.lent


# --- copies ----------------------------------------------------------------------------------------------------------


def _threads(copies: Sequence[Candidate]) -> Iterator[_Thread]:
    """The files of one thread that none of the others begins with."""
    if len(copies) == 1:
        yield _thread(copies[0])
        return
    kept: list[tuple[_Copy, _Thread]] = []
    for copy in sorted(map(_weighed, copies), key=_preference):
        for longer, thread in kept:
            if prefix_sha256(longer.file.rows, copy.size, unpack=True) == copy.sha256:
                thread.left_out.append(_left_out(copy, longer))
                break
        else:
            kept.append((copy, _thread(copy.file)))
    yield from (thread for _, thread in kept)


def _weighed(file: Candidate) -> _Copy:
    with Tail(file.rows, unpack=True) as tail:
        for _ in tail.chunks():
            pass
        return _Copy(file, tail.read, tail.sha256, tail.damage is not None)


def _preference(copy: _Copy) -> tuple[int, bool, bool, bool, Path]:
    """The longest first; of equal ones the whole one, then the active one, then the plain one."""
    path = copy.file.path
    return -copy.size, copy.damaged, _ARCHIVED in path.parts[:-1], path.name.endswith(PACKED), path


def _left_out(copy: _Copy, kept: _Copy) -> Finding:
    what = "the same as" if copy.size == kept.size else "the beginning of"
    return Finding(kind="copy-left-out", note=f"{shown(copy.file.path)} holds {what} {shown(kept.file.path)}: left out")


def _thread(file: Candidate) -> _Thread:
    named = naming_row(file.rows, HARNESSES[HARNESS]) if file.sniffed.session is not None else None
    if named is None:
        return _Thread(file, file.sniffed.session or shown(Path(stem(file.path).name)))
    session, keys = named
    parent = next(filter(None, (text_of(at_path(keys, path)) for path in _PARENTS)), None)
    return _Thread(file, session, parent, text_of(at_path(keys, _FORKED)) or None)


# --- families --------------------------------------------------------------------------------------------------------


def _sessions(threads: Sequence[_Thread]) -> Iterator[Found]:
    """Each root with all that come from it; each thread that leads to no root alone."""
    families: dict[Path, list[_Thread]] = {}
    kin = _Kin(threads)
    for thread in threads:
        if (root := kin.root(thread)) is None:
            yield _found(thread, (), [kin.rootless(thread)])
        else:
            families.setdefault(root.file.path, []).append(thread)
    for path, family in families.items():
        root = next(thread for thread in family if thread.file.path == path)
        members: dict[str, _Thread] = {root.id: root}
        for thread in family:
            other = members.setdefault(thread.id, thread)
            if other is not thread:
                note = f"thread {thread.id} also stands in {shown(other.file.path)}: kept apart"
                yield _found(thread, (), [Finding(kind="same-session", note=note)])
        yield _found(root, [thread for thread in members.values() if thread is not root], [])


class _Kin:
    """Who comes from whom, by the parents that threads name."""

    def __init__(self, threads: Iterable[_Thread]) -> None:
        self._copies: dict[str, list[_Thread]] = defaultdict(list)
        for thread in threads:
            self._copies[thread.id].append(thread)
        self._ends: dict[Path, _Thread] = {}

    def root(self, thread: _Thread) -> _Thread | None:
        """The thread that nobody spawned and that this one comes from; None when one between is not here."""
        end = self._end(thread)
        return end if end.parent is None else None

    def rootless(self, thread: _Thread) -> Finding:
        """Why there is no root."""
        end = self._end(thread)
        if self._parent(end) is not None:
            note = f"thread {thread.id} comes from {thread.parent}, and that in a circle: a session of its own"
            return Finding(kind="parent-circle", note=note)
        way = "" if end is thread else f" by way of {end.id}"
        note = f"thread {thread.id} comes from {end.parent}{way}, which is not here: a session of its own"
        return Finding(kind="parent-missing", note=note)

    def _end(self, thread: _Thread) -> _Thread:
        """The last one on the way from parent to parent: a root, one whose parent is not here, one of a circle."""
        way = {thread.file.path: thread}
        end = thread
        while (known := self._ends.get(end.file.path)) is None:
            parent = self._parent(end)
            if parent is None or parent.file.path in way:
                known = end
                break
            way[parent.file.path] = end = parent
        self._ends.update(dict.fromkeys(way, known))
        return known

    def _parent(self, thread: _Thread) -> _Thread | None:
        """Of several copies of a parent the one that lies with its child."""
        copies = self._copies.get(thread.parent or "", [])
        home = _home(thread.file.path)
        return next((copy for copy in copies if _home(copy.file.path) == home), copies[0] if copies else None)


def _home(path: Path) -> Path:
    """The folder of Codex that a rollout lies in."""
    return next((folder.parent for folder in path.parents if folder.name in _FOLDERS), path.parent)


def _found(root: _Thread, others: Sequence[_Thread], findings: Sequence[Finding]) -> Found:
    streams = _streams(root, others)
    threads = [
        Piece(
            path=thread.file.path,
            stream=streams[thread.id],
            role=Role.THREAD,
            native_id=thread.id,
            parent=streams[thread.parent or ""],
            found_by=thread.file.found_by,
        )
        for thread in others
    ]
    main = Piece(path=root.file.path, stream="main", role=Role.MAIN, native_id=root.id, found_by=root.file.found_by)
    return Found(
        harness=HARNESS,
        session=root.id,
        pieces=(main, *threads),
        findings=(*findings, *(finding for thread in (root, *others) for finding in thread.left_out)),
        forked_from=root.forked_from,
    )


def _streams(root: _Thread, others: Sequence[_Thread]) -> dict[str, str]:
    """A stream for each thread id, which is its name as far as letters go."""
    streams = {root.id: "main"}
    given = {"main"}
    for thread in others:
        wanted = stream = "thread-" + _ODD.sub("_", thread.id)[:_LONGEST]
        number = 1
        while stream in given:
            number += 1
            stream = f"{wanted}.{number}"
        given.add(stream)
        streams[thread.id] = stream
    return streams
