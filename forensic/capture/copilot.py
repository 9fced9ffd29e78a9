"""Where Copilot CLI keeps what belongs to one session.

``session-state/<id>/events.jsonl`` is the transcript, of the subagents too, and beside it lies what the workspace is,
checkpoints, plans, files the agent made, copies of files from before it changed them. Whatever else lies there was put
there by somebody, and may be a secret. Older clients wrote ``session-state/<id>.jsonl`` and nothing beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from forensic.capture.found import Candidate, Found, Piece
from forensic.capture.walk import Report, shown, tree
from forensic.model import Finding, Role

__all__ = ["HARNESS", "assemble"]

HARNESS: Final = "copilot"

_EVENTS: Final = "events.jsonl"
_HOMES: Final = "session-state"
_WORKSPACE: Final = "workspace.yaml"
_CHECKPOINTS: Final = "checkpoints"
_WITH: Final = ("", "-wal", "-shm", "-journal")
_PARTS: Final = frozenset({_WORKSPACE, "plan.md"})
_FOLDERS: Final = frozenset({_CHECKPOINTS, "files", "research", "rewind-file-snapshots"})
"""What the client, and the agent by its rules, writes in a session's folder."""

_STORES: Final = tuple(f"*.{kind}{part}" for kind in ("db", "sqlite", "sqlite3") for part in _WITH)
_NO_EVIDENCE: Final = ("*.lock", "*.hold", *_STORES)
"""Marks of a running client, and databases: copied while they are open they come out torn."""
_MAGIC: Final = (b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
"""How a database begins, its log of writes, its journal."""


def assemble(candidates: Iterable[Candidate], report: Report) -> tuple[list[Found], set[Path]]:
    """The sessions among the candidates, and the paths of all candidates that they account for."""
    sessions = {file.path: _found(file, report) for file in candidates if _is_main(file)}
    sides = {piece.path for found in sessions.values() for piece in found.pieces if piece.role is Role.SIDE}
    return [found for path, found in sessions.items() if path not in sides], sides | sessions.keys()


def _is_main(file: Candidate) -> bool:
    named = file.path.name == _EVENTS and not file.lent
    return named and file.sniffed.harness == HARNESS and file.sniffed.rows == "objects"


def _found(file: Candidate, report: Report) -> Found:
    home = file.path.parent
    session = file.sniffed.session or shown(Path(home.name))
    pieces = [Piece(path=file.path, stream="main", role=Role.MAIN, native_id=session, found_by=file.found_by)]
    taken: dict[str, int] = {}
    for path in sorted(_beside(file.path, session, report), key=lambda path: _below(home, path)):
        name = _below(home, path)
        # names that are no UTF-8 may look the same
        taken[name] = number = taken.get(name, 0) + 1
        native = name if number == 1 else f"{name}.{number}"
        pieces.append(Piece(path=path, stream="", role=Role.SIDE, native_id=native, found_by="folder"))
    return Found(harness=HARNESS, session=session, pieces=tuple(pieces))


def _beside(events: Path, session: str, report: Report) -> Iterator[Path]:
    """The side files: of a session's own folder all that is a part of it; where it only seems one, less."""
    home = events.parent
    if home.name == session or home.parent.name == _HOMES:
        for path in tree(home, report):
            if path == events or any(fnmatchcase(path.name, mark) for mark in _NO_EVIDENCE):
                continue
            below = path.relative_to(home).parts
            if below[0] not in (_FOLDERS if len(below) > 1 else _PARTS):
                report(_left_out(path, "is no known part of a session"))
            elif _is_store(path):
                report(_left_out(path, "is a database"))
            else:
                yield path
    elif _is_there(home / _WORKSPACE):
        yield home / _WORKSPACE
        if not (home / _CHECKPOINTS).is_symlink() and (home / _CHECKPOINTS).is_dir():
            yield from tree(home / _CHECKPOINTS, report)


def _left_out(path: Path, why: str) -> Finding:
    return Finding(kind="left-out", note=f"{shown(path)} {why}: left out")


def _is_store(path: Path) -> bool:
    """Whether a file begins as a database does, whatever it is called; one that cannot be read is told of later."""
    with contextlib.suppress(OSError), path.open("rb") as start:
        return start.read(16).startswith(_MAGIC)
    return False


def _is_there(path: Path) -> bool:
    return not path.is_symlink() and path.is_file()


def _below(home: Path, path: Path) -> str:
    """A path as it stands below the session's folder, the same on every computer."""
    return shown(path.relative_to(home)).replace("\\", "/")
