"""The files of a session that is being recorded, as what capture hands on: pieces of a session, with their lives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from forensic.capture.discover import assemble
from forensic.capture.follow import Follower, Grown, Versions
from forensic.capture.found import Candidate, Drain, Found, Life, Piece
from forensic.capture.journal import File
from forensic.capture.sniff import Sniffed, sniff
from forensic.errors import ForensicError
from forensic.model import CaptureState, Finding, Ground, Role

__all__ = ["Followed", "assembled", "pieces_of"]

_LATE_NS: Final = 5_000_000_000
"""Rows that were written longer before they were read were not read as the file grew."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")


class Followed(Struct):
    """A file of a session, and what its first rows say."""

    line: File
    file: Follower | Versions
    sniffed: Sniffed | None = None
    looked: int = -1
    drains: list[Drain] = []
    first: Grown | None = None

    def note(self, step: Grown) -> None:
        """Remember when, and on what ground, rows were read."""
        self.first = self.first or step
        # a file that lost its name to another one may go on being written
        before = next((drain.rows[1] for drain in reversed(self.drains) if drain.generation == step.generation), 0)
        if step.rows > before:
            self.drains.append(
                Drain(
                    generation=step.generation,
                    rows=(before, step.rows),
                    after=step.after or 0,
                    ground=Ground(step.ground),
                    wall=step.wall,
                    mono=step.mono,
                )
            )

    @property
    def state(self) -> CaptureState:
        """Whether its rows were read as it grew, later, or not at all."""
        if not self.file.lives:
            return CaptureState.MISSED if self.file.refused is None else CaptureState.REFUSED
        late = self.first is not None and self.first.wall - self.first.mtime_ns > _LATE_NS
        return CaptureState.BACKFILLED if late else CaptureState.LIVE

    def lives(self) -> Iterable[Life]:
        """One for each generation, with the copy of its rows."""
        file = self.file
        for generation, life in enumerate(file.lives, start=1):
            last = generation == len(file.lives)
            gone = "deleted" if last and isinstance(file, Follower) and file.gone else ""
            yield Life(
                copy=file.copy_of(generation),
                dev=life.dev,
                ino=life.ino,
                mtime_ns=life.mtime_ns,
                ended_by=life.ended_by or gone,
            )

    def candidate(self, harness: str) -> Candidate | None:
        """The file as the search for sessions takes it; None when nothing can be said of it yet."""
        file = self.file
        if not isinstance(file, Follower) or not file.lives:
            return None
        copy, size = file.copy_of(len(file.lives)), file.lives[-1].bytes
        # the first rows decide; a file that names its session at last is looked at once more
        if self.sniffed is None or (self.sniffed.session is None and self.looked != size):
            try:
                self.sniffed, self.looked = sniff(copy, harness if size else None), size
            except ForensicError:
                return None
        return Candidate(path=Path(file.path), root=None, sniffed=self.sniffed, copy=copy)


def assembled(files: Iterable[Followed], harness: str, session: str) -> Found | None:
    """What the layout of the harness makes of the files; those that it gives to other sessions become threads."""
    candidates = [file for known in files if (file := known.candidate(harness)) is not None]
    notes: list[Finding] = []
    found, _ = assemble(sorted(candidates, key=lambda file: file.path), harness, notes.append)
    if not found:
        return None
    chosen = next((one for one in found if one.session == session), found[0])
    taken = {piece.path for piece in chosen.pieces}
    others = [piece for one in found if one is not chosen for piece in one.pieces if piece.path not in taken]
    if not others:
        return chosen
    threads = [
        replace(piece, role=Role.THREAD, stream=f"thread-{_ODD.sub('_', piece.native_id)[:80]}")
        if piece.role is Role.MAIN
        else piece
        for piece in others
    ]
    return replace(chosen, pieces=(*chosen.pieces, *threads))


def pieces_of(
    files: Mapping[str, Followed], refused: Mapping[str, str], whole: Found | None, session: str
) -> list[Piece]:
    """Every file as a piece of the session, also those that no layout knows and those that were not read.

    `files` and `refused` go by paths, the latter to reasons; `whole` is what `assembled` made of the files.
    """
    roles = {str(piece.path): piece for piece in whole.pieces} if whole is not None else {}
    return list(_told_apart([*_followed(files, roles, session), *_refused(refused)]))


def _followed(files: Mapping[str, Followed], roles: Mapping[str, Piece], session: str) -> Iterable[Piece]:
    has_main = any(piece.role is Role.MAIN for piece in roles.values())
    for path, known in files.items():
        piece = roles.get(path)
        if piece is None:
            if known.line.side and not known.file.lives:
                continue
            piece = _guessed(known, session, main=not has_main)
            has_main |= piece.role is Role.MAIN
        lives = tuple(known.lives())
        if not lives and piece.role is Role.SIDE:
            continue
        yield replace(
            piece,
            found_by=known.line.found_by,
            lives=lives,
            # a text that is followed like rows has none
            drains=() if piece.role is Role.SIDE else tuple(known.drains),
            state=known.state,
            reason=known.file.refused or "",
        )


def _refused(refused: Mapping[str, str]) -> Iterable[Piece]:
    for number, (path, reason) in enumerate(refused.items(), start=1):
        yield Piece(
            path=Path(path.replace("\0", "\ufffd")),
            stream=f"refused-{number}",
            role=Role.SIDE,
            native_id=path,
            found_by="payload",
            state=CaptureState.REFUSED,
            reason=reason,
        )


def _guessed(known: Followed, session: str, *, main: bool) -> Piece:
    """A file that no layout knows what to do with: the first is the main one, others are agents."""
    path = Path(known.line.path)
    if known.line.side:
        return Piece(path=path, stream="", role=Role.SIDE, native_id=known.line.native_id, found_by=known.line.found_by)
    stem = path.stem.removeprefix("agent-").encode("utf-8", "replace").decode()
    if main and not path.stem.startswith("agent-"):
        return Piece(path=path, stream="main", role=Role.MAIN, native_id=session, found_by="payload")
    stream = "agent-" + _ODD.sub("_", stem)[:80]
    return Piece(path=path, stream=stream, role=Role.SUBAGENT, native_id=stem, parent=None, found_by="payload")


def _told_apart(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Give streams of the same name different ones, and only one main file."""
    taken: set[str] = set()
    for piece in pieces:
        stream, number = piece.stream, 1
        while stream and stream in taken:
            number += 1
            stream = f"{piece.stream}.{number}"
        taken.add(stream)
        role = Role.THREAD if piece.role is Role.MAIN and stream != "main" else piece.role
        yield replace(piece, stream=stream, role=role)
