"""Files that nobody but their owner may read, whatever the umask says."""

from __future__ import annotations

import errno
import os
import stat
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Final

from forensic.errors import WriteFailed

__all__ = ["contents", "create", "folder", "home", "sync"]

_FLAGS: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_READING: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_BUFFER: Final = 1 << 20


def home() -> Path:
    """Where forensic keeps all that it keeps: what ``FORENSIC_HOME`` names, else a folder of the user's own data."""
    named = os.environ.get("FORENSIC_HOME")
    if named:
        return Path(os.path.abspath(named))  # noqa: PTH100 -- a link in it is meant, and stays
    import platformdirs  # noqa: PLC0415 -- 29 ms that most commands need not spend

    return platformdirs.user_data_path("forensic")


def create(path: Path) -> BinaryIO:
    """A new file, 0600 from its first moment, open for writing; raises `WriteFailed`, also when it exists already."""
    try:
        descriptor = os.open(path, _FLAGS, 0o600)
        path.chmod(0o600)
    except OSError as error:
        raise WriteFailed(path=path, detail=error.strerror or type(error).__name__) from None
    return os.fdopen(descriptor, "wb", buffering=_BUFFER)


def contents(path: Path) -> bytes:
    """All of a file that is a regular one of ours; any other is refused with an `OSError`, and none is waited for."""
    descriptor = os.open(path, _READING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
            raise PermissionError(errno.EACCES, "no regular file of ours", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def sync(folder: Path) -> None:
    """Make the names in a folder last through a loss of power. Raises `OSError`."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folder(path: Path) -> Path:
    """A folder, 0700, made if need be with those above it, which are 0700 then, too; raises `WriteFailed`."""
    try:
        for one in reversed(list(takewhile(lambda each: not each.exists(), (path, *path.parents)))):
            one.mkdir(mode=0o700, exist_ok=True)
            one.chmod(0o700)
            sync(one.parent)
        path.chmod(0o700)
    except OSError as error:
        raise WriteFailed(path=path, detail=error.strerror or type(error).__name__) from None
    return path
