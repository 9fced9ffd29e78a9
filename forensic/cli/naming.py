"""How people name what a command works on: a path, or the beginning of an id."""

from __future__ import annotations

from pathlib import Path

from forensic.archive import Archive, default_root
from forensic.errors import Unusable

__all__ = ["bundle_path", "path"]


def path(text: str) -> Path:
    """A path as it was typed; raises `Unusable` for none, which would be the working folder."""
    if not text:
        raise Unusable(detail="an empty name names nothing")
    return Path(text)


def bundle_path(name: str, archive: Path | None) -> Path:
    """The path that was named, or that of the one bundle in the archive whose id is this or begins so.

    Raises `Unusable`, `NotInArchive`, `Ambiguous`.
    """
    named = path(name)
    if named.exists() or "/" in name or "." in name:
        return named
    return Archive(archive or default_root()).named(name)
