"""Configurations of harnesses as files that are somebody else's: read with care, replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from forensic import private
from forensic.errors import Unusable, WriteFailed

__all__ = [
    "Backup",
    "Config",
    "Refused",
    "backup_of",
    "backups",
    "forget_backup",
    "keep_backup",
    "missing_folders",
    "put_file",
    "read",
    "remove",
    "write",
]

_LARGEST: Final = 16 << 20
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Refused(Unusable):
    """{path}: {detail}; it was left as it is"""  # noqa: D400 -- a message, as in forensic.errors


class Config(Struct, frozen=True, kw_only=True):
    """A configuration as it was read: `path` as named, `target` behind its links, None for `content` without a file."""

    path: Path
    target: Path
    content: bytes | None
    mode: int = 0o600

    @property
    def text(self) -> str | None:
        """Its text; raises `Refused` when it is none."""
        try:
            return None if self.content is None else self.content.decode()
        except UnicodeDecodeError:
            raise Refused(path=self.path, detail="it is no UTF-8") from None


class Backup(Struct, frozen=True, kw_only=True):
    """What a configuration was before us. `wrote` is the SHA-256 of what we made of it, `folders` those we made."""

    path: str
    existed: bool
    wrote: str
    folders: tuple[str, ...] = ()
    content: bytes = b""

    def is_what_we_wrote(self, content: bytes | None) -> bool:
        """Whether nobody has touched the configuration since."""
        return content is not None and hashlib.sha256(content).hexdigest() == self.wrote


def read(path: Path) -> Config:
    """A configuration, which need not be there; raises `Refused` when it cannot be read or is no plain file."""
    if not _is_unicode(path):
        raise Refused(path=path, detail="its path is no Unicode")
    try:
        target = Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        if path.is_symlink():
            raise Refused(path=path, detail="it is a link to what is not there") from None
        return Config(path=path, target=Path(os.path.realpath(path.parent)) / path.name, content=None)
    except OSError as error:
        raise Refused(path=path, detail=_said(error)) from None
    try:
        descriptor = os.open(target, _READ)
        with os.fdopen(descriptor, "rb") as file:
            there = os.fstat(descriptor)
            if not stat.S_ISREG(there.st_mode):
                raise Refused(path=path, detail="it is no regular file")
            if there.st_size > _LARGEST:
                raise Refused(path=path, detail=f"it has {there.st_size:,} bytes")
            return Config(path=path, target=target, content=file.read(), mode=stat.S_IMODE(there.st_mode))
    except OSError as error:
        raise Refused(path=path, detail=_said(error)) from None


def missing_folders(path: Path) -> tuple[str, ...]:
    """The folders that must be made before a file can be, innermost first."""
    return tuple(map(str, takewhile(lambda each: not each.exists(), path.parents)))


def write(config: Config, content: bytes) -> None:
    """Replace a configuration by other content.

    Raises `Refused` when it is not ours to write or has changed since it was read, `WriteFailed`.
    """
    _allowed(config)
    made = missing_folders(config.target)
    temporary = None
    done = False
    try:
        if made:
            private.folder(config.target.parent)
        descriptor, name = tempfile.mkstemp(prefix=f".{config.target.name[:64]}.", dir=config.target.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            temporary.chmod(config.mode)
            os.fsync(descriptor)
        if read(config.path) != config:
            raise Refused(path=config.path, detail="it was changed just now: try again")
        temporary.replace(config.target)
        done = True
        private.sync(config.target.parent)
    except OSError as error:
        raise WriteFailed(path=config.path, detail=_said(error)) from None
    finally:
        if not done:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
            _remove_folders(made)


def remove(config: Config, folders: tuple[str, ...]) -> None:
    """Remove a configuration that we made, and those of these folders that are empty then; raises as `write` does."""
    _allowed(config)
    if read(config.path) != config:
        raise Refused(path=config.path, detail="it was changed just now: try again")
    try:
        config.target.unlink()
        private.sync(config.target.parent)
    except OSError as error:
        raise WriteFailed(path=config.path, detail=_said(error)) from None
    _remove_folders(folders)


def put_file(path: Path, content: bytes) -> bool:
    """Make a private file of ours have this content; False when it has it already. Raises `WriteFailed`."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == content and not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o600:
            return False
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with private.create(temporary) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        private.sync(path.parent)
    except OSError as error:
        raise WriteFailed(path=path, detail=_said(error)) from None
    finally:
        temporary.unlink(missing_ok=True)
    return True


# --- backups ---------------------------------------------------------------------------------------------------------


def backups(folder: Path) -> list[Backup]:
    """All that are kept, but those that cannot be read."""
    found = (_backup(path) for path in sorted(folder.glob("*"))) if folder.is_dir() else ()
    return [one for one in found if one is not None]


def keep_backup(folder: Path, backup: Backup) -> None:
    """Keep a backup in place of the one that its path had; raises `WriteFailed`."""
    told = msgspec.structs.replace(backup, content=b"")
    private.folder(folder)
    put_file(_place(folder, backup.path), msgspec.json.encode(told) + b"\n" + backup.content)


def forget_backup(folder: Path, target: Path) -> None:
    """Remove the backup of a configuration, if there is one; raises `WriteFailed`."""
    try:
        _place(folder, str(target)).unlink(missing_ok=True)
    except OSError as error:
        raise WriteFailed(path=folder, detail=_said(error)) from None


def backup_of(folder: Path, target: Path) -> Backup | None:
    """The backup of a configuration."""
    return _backup(_place(folder, str(target)))


def _place(folder: Path, path: str) -> Path:
    return folder / hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _backup(path: Path) -> Backup | None:
    try:
        told, found, content = path.read_bytes().partition(b"\n")
        backup = msgspec.json.decode(told, type=Backup)
    except (OSError, msgspec.MsgspecError):
        return None
    return msgspec.structs.replace(backup, content=content) if found else None


# --- what is ours to write -------------------------------------------------------------------------------------------


def _allowed(config: Config) -> None:
    """Raises `Refused` when a configuration is not ours, or not to be written."""
    try:
        there = config.target.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(path=config.path, detail=_said(error)) from None
    if hasattr(os, "geteuid") and there.st_uid != os.geteuid():
        raise Refused(path=config.path, detail="it belongs to somebody else")
    if not there.st_mode & stat.S_IWUSR or not os.access(config.target, os.W_OK):
        raise Refused(path=config.path, detail="it is read-only")
    if there.st_nlink > 1:
        raise Refused(path=config.path, detail="it has another name, from which it would part")


def _remove_folders(folders: tuple[str, ...]) -> None:
    """Remove what is empty of these, innermost first."""
    for one in folders:
        try:
            Path(one).rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES):
                raise WriteFailed(path=one, detail=_said(error)) from None


def _is_unicode(path: Path) -> bool:
    try:
        os.path.realpath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _said(error: OSError) -> str:
    return error.strerror or type(error).__name__
