"""What discovery hands on: a file that may be a transcript, a file of a session, a session."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from forensic.capture.sniff import Sniffed
from forensic.capture.tail import PACKED
from forensic.model import Finding, Role

__all__ = ["Candidate", "Found", "Piece", "stem"]


def stem(path: Path) -> Path:
    """The path of a transcript without the endings that say how it is written."""
    bare = path.name.removesuffix(PACKED)
    return path.with_name(bare) if bare not in ("", path.name) else path.with_suffix("")


class Candidate(Struct, frozen=True, kw_only=True):
    """A file that may be a transcript.

    `root` is the folder in whose walk it was met, None when the caller named the file itself; a `lent` one was only
    looked at because it may belong to a named main file, and counts for nothing else.
    """

    path: Path
    root: Path | None
    sniffed: Sniffed
    lent: bool = False

    @property
    def found_by(self) -> str:
        """The word for it in a manifest."""
        return "named" if self.root is None else "walk"


class Piece(Struct, frozen=True, kw_only=True):
    """One file of a session: `path` holds no link any more; a side file has no stream name before it is recorded."""

    path: Path
    stream: str
    role: Role
    native_id: str
    parent: str | None = None
    found_by: str


class Found(Struct, frozen=True, kw_only=True):
    """One session: its main file first (unless only subagents were found), then threads, subagents, side files.

    `forked_from` is the native id of the session whose history it took along.
    """

    harness: str
    session: str
    pieces: tuple[Piece, ...]
    findings: tuple[Finding, ...] = ()
    forked_from: str | None = None

    @property
    def main(self) -> Piece | None:
        """The main file."""
        return next((piece for piece in self.pieces if piece.role is Role.MAIN), None)

    @property
    def place(self) -> Path:
        """The file that stands for the session when people talk about it."""
        return self.pieces[0].path
