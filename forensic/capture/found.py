"""What discovery hands on: a file that may be a transcript, a file of a session, a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from forensic.capture.sniff import Sniffed
from forensic.capture.tail import PACKED
from forensic.model import CaptureState, Finding, Ground, Role

__all__ = ["Candidate", "Drain", "Found", "Life", "Live", "Piece", "stem"]


def stem(path: Path) -> Path:
    """The path of a transcript without the endings that say how it is written."""
    bare = path.name.removesuffix(PACKED)
    return path.with_name(bare) if bare not in ("", path.name) else path.with_suffix("")


class Candidate(Struct, frozen=True, kw_only=True):
    """A file that may be a transcript.

    `root` is the folder in whose walk it was met, None when the caller named the file itself; a `lent` one was only
    looked at because it may belong to a named main file, and counts for nothing else. Where `copy` is given, its bytes
    are there, and what lies at `path` may be gone.
    """

    path: Path
    root: Path | None
    sniffed: Sniffed
    lent: bool = False
    copy: Path | None = None

    @property
    def rows(self) -> Path:
        """Where its rows can be read."""
        return self.copy or self.path

    @property
    def found_by(self) -> str:
        """The word for it in a manifest."""
        return "named" if self.root is None else "walk"


class Life(Struct, frozen=True, kw_only=True):
    """One generation of a file that was followed: a copy of its bytes, and what the file was."""

    copy: Path
    dev: int
    ino: int
    mtime_ns: int
    ended_by: str = ""


class Drain(Struct, frozen=True, kw_only=True):
    """Rows `[rows[0], rows[1])` of a generation, counted from 1, were read when `after` payloads had been recorded."""

    generation: int
    rows: tuple[int, int]
    after: int
    ground: Ground
    wall: int
    mono: int


class Piece(Struct, frozen=True, kw_only=True):
    """One file of a session: `path` holds no link any more; a side file has no stream name before it is recorded.

    Of one that was followed there are `lives` and `drains`; `reason` says why there are none.
    """

    path: Path
    stream: str
    role: Role
    native_id: str
    parent: str | None = None
    found_by: str
    state: CaptureState = CaptureState.NAMED
    reason: str = ""
    lives: tuple[Life, ...] = ()
    drains: tuple[Drain, ...] = ()


class Live(Struct, frozen=True, kw_only=True):
    """What was recorded of a session while it ran, besides its files: payloads, wrapped, numbered from 1 in a file.

    `wall` is when the recording began (Unix time, nanoseconds), `context` what was known of repositories then.
    """

    payloads: Path
    wall: int
    context: tuple[dict[str, Any], ...] = ()


class Found(Struct, frozen=True, kw_only=True):
    """One session: its main file first (unless only subagents were found), then threads, subagents, side files.

    `forked_from` is the native id of the session whose history it took along. `live` is there when it was followed;
    then its pieces are what was kept of them, and nothing is read from where they lay.
    """

    harness: str
    session: str
    pieces: tuple[Piece, ...]
    findings: tuple[Finding, ...] = ()
    forked_from: str | None = None
    live: Live | None = None

    @property
    def main(self) -> Piece | None:
        """The main file."""
        return next((piece for piece in self.pieces if piece.role is Role.MAIN), None)

    @property
    def place(self) -> Path:
        """The file that stands for the session when people talk about it."""
        return self.pieces[0].path
