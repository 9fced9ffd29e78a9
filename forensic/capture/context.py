"""Which commit a session worked on: read from ``.git`` as files, without ever running git.

The folder comes out of a transcript, so it may lead anywhere: only small regular files are opened, and nothing of
them is kept that does not look exactly like a reference name or an object id.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from forensic.capture.tail import Tail
from forensic.capture.walk import shown
from forensic.errors import ForensicError

__all__ = ["repository"]

_SMALL: Final = 4096
_PACKED: Final = 32 << 20
_UPWARDS: Final = 64
_CHAIN: Final = 5
_OBJECT: Final = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE: Final = re.compile(rb"refs(?:/[^\x00-\x20\x7f~^:?*\[\\/]+)+")


def repository(cwd: str) -> dict[str, Any] | None:
    """What is known of the repository around a folder; None when the folder is not there (any more).

    ``cwd`` is the folder itself; ``top`` is the repository's top folder, ``head`` the reference that HEAD names (absent
    when it is detached), ``commit`` the object id that it stands for (absent before the first commit).
    """
    try:
        return _around(cwd)
    except (OSError, ValueError):
        return None


def _around(cwd: str) -> dict[str, Any] | None:
    folder = Path(cwd)
    # a name such as \\server\share would tell that server who asks
    if not folder.is_absolute() or cwd.startswith("\\\\") or not folder.is_dir():
        return None
    facts: dict[str, Any] = {"cwd": cwd}
    for top in (folder, *folder.parents)[:_UPWARDS]:
        control = _control(top / ".git")
        head = None if control is None else _line(control / "HEAD")
        if control is not None and head is not None:
            return facts | {"top": shown(top)} | _head(control, head)
    return facts


def _control(entry: Path) -> Path | None:
    """The folder that holds HEAD: ``.git`` itself, or the one that a file ``.git`` names (worktrees, submodules)."""
    if entry.is_dir():
        return entry
    line = _line(entry)
    if line is None or not line.startswith(b"gitdir: "):
        return None
    return entry.parent / os.fsdecode(line.removeprefix(b"gitdir: "))


def _head(control: Path, line: bytes) -> dict[str, Any]:
    if _OBJECT.fullmatch(line):
        return {"commit": line.decode()}
    reference = _reference(line)
    if reference is None:
        return {}
    facts = {"head": reference.decode("utf-8", "replace")}
    commit = _commit(control, reference)
    return facts if commit is None else facts | {"commit": commit.decode()}


def _reference(line: bytes) -> bytes | None:
    name = line.removeprefix(b"ref: ")
    # refs/heads/.invalid is what HEAD says where references are kept in another form
    if name == line or not _REFERENCE.fullmatch(name) or b".." in name or b"/." in name:
        return None
    return name


def _commit(control: Path, reference: bytes) -> bytes | None:
    common = _line(control / "commondir")
    stores = [control] if common is None else [control, control / os.fsdecode(common)]
    for _ in range(_CHAIN):
        line = next(filter(None, (_line(store / os.fsdecode(reference)) for store in stores)), None)
        if line is None:
            return _packed(stores[-1], reference)
        if _OBJECT.fullmatch(line):
            return line
        following = _reference(line)
        if following is None:
            return None
        reference = following
    return None


def _packed(store: Path, reference: bytes) -> bytes | None:
    try:
        with Tail(store / "packed-refs", most=_PACKED) as tail:
            for row in tail.lines():
                commit, _, name = row.raw.partition(b" ")
                if name == reference and _OBJECT.fullmatch(commit):
                    return commit
    except (ForensicError, OSError, ValueError):
        pass
    return None


def _line(path: Path) -> bytes | None:
    """The only line of a small file, None when there is no such file."""
    try:
        with Tail(path, most=_SMALL) as tail:
            return next((row.raw.rstrip() for row in tail.lines()), None)
    except (ForensicError, OSError, ValueError):
        return None
