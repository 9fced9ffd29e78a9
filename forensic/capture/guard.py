"""Opening a path that a hook payload named: it may lead anywhere, and what is read is later handed on to others.

Only a regular file of the user's own, reached without any link, below one of the folders in which its harness keeps
transcripts, is opened. It is opened once and then read by its descriptor; no name is ever believed twice.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from forensic.capture import windows
from forensic.harness import HARNESSES

__all__ = ["Gone", "Refused", "Roots", "open_guarded", "open_pin", "pin_name", "roots_of", "usable"]

_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_LONGEST: Final = 4096
_NO_WAY: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENXIO, errno.EISDIR})
"""What a call says of a name that leads to the wrong thing; anything else may be better the next time."""


class Refused(Exception):
    """The file must not be read; the argument says why in a few words."""


class Gone(Exception):
    """There is no file of that name."""


class Roots:
    """The folders below which transcripts of a harness may be read, as they were given and as they really are."""

    def __init__(self, folders: Iterable[str]) -> None:
        """Of a folder that is a link itself, where it leads is looked up once, now."""
        roots: dict[str, str] = {}
        for folder in folders:
            real = os.path.realpath(folder)
            roots[os.path.normpath(folder)] = real
            roots[real] = real
        # of two roots the inner one counts: it may be a link, which no way from the outer one goes through
        self._roots = dict(sorted(roots.items(), key=lambda root: -len(root[0])))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._roots.values()))

    def split(self, path: str) -> tuple[str, list[str]]:
        """The real root that a path lies below, and the names that lead there from it. Raises `Refused`."""
        try:
            # only what can be written down can be opened again after a restart
            if b"\0" in path.encode():
                raise Refused("a name with NUL in it")
        except UnicodeEncodeError:
            raise Refused("a name that is no UTF-8") from None
        for given, real in self._roots.items():
            below = path[len(given) :]
            if path.startswith(given) and below[:1] in {os.sep, os.altsep}:
                parts = Path(below[1:]).parts
                if parts and not Path(below[1:]).is_absolute() and ".." not in parts:
                    return real, list(parts)
        raise Refused("outside the harness roots")


def roots_of(home: Path, environment: Mapping[str, str]) -> dict[str, Roots]:
    """Where transcripts of each harness may be read: as usual, by its own variable, and as was baked at install."""
    try:
        baked = msgspec.json.decode((home / "hook" / "roots.json").read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.MsgspecError):
        baked = {}
    found = {}
    for name, harness in HARNESSES.items():
        variable, usual = harness.hooks.home
        bases = [environment[variable]] if environment.get(variable) else []
        if usual:
            bases.append(str(Path.home() / usual))
        folders = [str(Path(base, below)) for base in bases for below in harness.hooks.roots]
        found[name] = Roots([*folders, *baked.get(name, [])])
    return found


def usable(path: str, roots: Roots, endings: Sequence[str]) -> Path:
    """The path that a text names, if it may be looked at at all; without any system call. Raises `Refused`."""
    if len(path) > _LONGEST:
        raise Refused("a path of more than 4,096 characters")
    if "\0" in path or not Path(path).is_absolute():
        raise Refused("no absolute path")
    if path.startswith(("\\\\", "//")):
        # opening \\server\share would tell that server who asks
        raise Refused("a path to another computer")
    root, names = roots.split(path)
    if not path.endswith(tuple(endings)):
        raise Refused("not named like a transcript")
    return Path(root, *names)


def open_guarded(path: str, roots: Roots, linked: Callable[[int, int], bool] = lambda _dev, _ino: False) -> int:
    """A descriptor of the file at a path. Raises `Refused`, `Gone`, and `OSError` for trouble that may pass.

    `linked` tells of a device and inode whether a link of our own to it exists, so that two links are not one too many.
    """
    root, names = roots.split(path)
    if sys.platform == "win32":
        return _shared(Path(root, *names))
    try:
        folder = os.open(root, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Gone(path) from error
    try:
        for name in names[:-1]:
            below = _below(folder, name)
            os.close(folder)
            folder = below
        return _file(folder, names[-1], linked)
    finally:
        os.close(folder)


def _shared(path: Path) -> int:
    """Windows has no walk by descriptors: a link anywhere shows as another real path."""
    try:
        real = Path(os.path.realpath(path))
        if real != path or not stat.S_ISREG(path.lstat().st_mode):
            raise Refused("a link in its path, or not a regular file")
        return windows.open_shared(str(path))
    except FileNotFoundError:
        raise Gone(path) from None


def _below(folder: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY | _NO_LINK, dir_fd=folder)
    except FileNotFoundError:
        raise Gone(name) from None
    except OSError as error:
        if error.errno not in _NO_WAY:
            raise
        raise Refused(f"a link or no folder in its path: {error.strerror}") from None


def _file(folder: int, name: str, linked: Callable[[int, int], bool]) -> int:
    try:
        # opening alone does things to a device, so it is looked at first
        _judge(os.stat(name, dir_fd=folder, follow_symlinks=False), linked)
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise Gone(name) from None
    except OSError as error:
        if error.errno not in _NO_WAY:
            raise
        raise Refused(f"cannot be opened: {error.strerror or type(error).__name__}") from None
    try:
        _judge(os.fstat(descriptor), linked)
    except Refused:
        os.close(descriptor)
        raise
    return descriptor


def _judge(status: os.stat_result, linked: Callable[[int, int], bool]) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise Refused("a link")
    if not stat.S_ISREG(status.st_mode):
        raise Refused("not a regular file")
    if not _is_ours(status):
        raise Refused("a file of another user")
    if status.st_nlink > 1 and not (status.st_nlink == 2 and linked(status.st_dev, status.st_ino)):
        raise Refused("a file with another name besides")


def pin_name(dev: int, ino: int) -> str:
    """What the hook calls the link that it makes to a file."""
    return f"{dev}-{ino}"


def open_pin(pins: Path, dev: int, ino: int) -> int:
    """A descriptor of a pinned file, which may have no other name any more. Raises `Gone`, `Refused`, `OSError`."""
    if sys.platform == "win32":
        return _shared(pins / pin_name(dev, ino))
    try:
        descriptor = os.open(pins / pin_name(dev, ino), _FILE)
    except FileNotFoundError as error:
        raise Gone(pin_name(dev, ino)) from error
    except OSError as error:
        if error.errno not in _NO_WAY:
            raise
        raise Refused("no pin of a file") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) != (dev, ino) or not _is_ours(status):
        os.close(descriptor)
        raise Refused("a pin of another file")
    return descriptor


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()
