"""Going through folders that nobody promised: links resolved, every real file once, no loop, no failure."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from forensic.model import Finding

__all__ = ["Identity", "Report", "identity", "shown", "tree", "walk"]

Report = Callable[[Finding], None]
"""Told of trouble that stops nothing."""

Identity = tuple[int, int]
"""Device and inode of a file."""

_OURS: Final = frozenset({"files", "transcripts"})
_ROWS: Final = (".jsonl", ".jsonl.zst")
_PSEUDO: Final = frozenset({"/dev", "/proc", "/sys"})


def shown(path: Path) -> str:
    """A path as text that any encoder takes; bytes that are no UTF-8 become question marks."""
    return str(path).encode("utf-8", "replace").decode()


def identity(path: Path | str) -> Identity | None:
    """Device and inode of what a path leads to; None when it leads nowhere."""
    try:
        status = os.stat(path)  # noqa: PTH116 -- of strings, too
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def walk(root: Path, report: Report) -> Iterator[Path]:
    """The resolved paths of all files below a resolved folder that may be transcripts, in the order of their names.

    Those are ``.jsonl`` files, plain or compressed, and the texts in a folder ``agent-transcripts``.

    Links to files and folders are followed, but not to a folder that holds `root` itself: behind such a link lies
    everything that the caller chose not to name. A file or folder that is reached twice counts once. The rows of an
    unpacked recording are no transcript: they were captured already.
    """
    visited: set[Identity] = set()
    # plain strings: folders are many, and a path object takes longer to make than a folder to list
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        seen = identity(folder)
        if seen in visited or folder in _PSEUDO:
            continue
        if seen is not None:
            visited.add(seen)
        below: list[str] = []
        for entry in _not_ours(_entries(folder, report)):
            folderish = _is_folder(entry)
            if not folderish and not _may_be_transcript(folder, entry.name):
                continue
            target = _resolved(entry)
            if folderish:
                if not entry.is_symlink() or not root.is_relative_to(target):
                    below.append(target)
            elif (found := _regular(target)) is not None and found not in visited:
                visited.add(found)
                yield Path(target)
        pending.extend(reversed(below))


def _may_be_transcript(folder: str, name: str) -> bool:
    return name.endswith(_ROWS) or (name.endswith(".txt") and "agent-transcripts" in Path(folder).parts[-2:])


def tree(folder: Path, report: Report) -> Iterator[Path]:
    """All regular files below a folder, in the order of their names; links are reported, never followed.

    Whoever may write there could otherwise have any file of this computer carried away in a recording.
    """
    pending = [str(folder)]
    while pending:
        below: list[str] = []
        for entry in _entries(pending.pop(), report):
            if entry.is_symlink():
                report(Finding(kind="link-refused", note=f"{shown(Path(entry.path))} is a link and was left out"))
            elif _is_folder(entry):
                below.append(entry.path)
            elif _regular(entry.path) is not None:
                yield Path(entry.path)
        pending.extend(reversed(below))


def _entries(folder: str, report: Report) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        note = f"cannot look into {shown(Path(folder))}: {error.strerror or type(error).__name__}"
        report(Finding(kind="unreadable-folder", note=note, problem=True))
        return []


def _not_ours(entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    if not {"payloads.jsonl", "transcripts"} <= {entry.name for entry in entries}:
        return entries
    return [entry for entry in entries if entry.name not in _OURS and not entry.name.endswith(".jsonl")]


def _resolved(entry: os.DirEntry[str]) -> str:
    """Where an entry really is; a link that leads nowhere stays what it is, which is no file and no folder."""
    if entry.is_symlink():
        with contextlib.suppress(OSError, ValueError):
            return os.path.realpath(entry.path, strict=True)
    return entry.path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _regular(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
