"""Ends of a recorder at any of its calls, and what a loss of power may take with it.

A child process has its calls that change the disk counted, and ends at the one that it is told to, without a word and
without clean-up. Before it ends it does to the disk what the loss of power would: bytes that were not synced are cut,
halved or zeroed; names that were made, moved or taken away since their folder was synced are as before, or as after.
"""

from __future__ import annotations

import os
import random
import re
import stat
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

KILLED: Final = 77
"""Exit code of a child that came to its last call."""
LOSSES: Final = ("nothing", "bytes", "names", "everything", "some", "others")
"""What goes with the process: nothing (it was killed alone), contents, names, both, a choice of both."""

_real: Final = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}


class _Change(NamedTuple):
    """A change of names in one folder that was not synced yet, and how to take it back."""

    folders: tuple[tuple[int, int], ...]
    undo: Callable[[], None]


class Disk:
    """Stands in for calls of `os` in a child process: counts them, remembers what is not synced, and ends it."""

    def __init__(self, home: Path, last: int, loss: str, seed: int = 0, forget: str = "") -> None:
        """End at call number `last`, counted from 1; what lies below `home` now lies there for sure.

        Syncs of paths that fit the pattern `forget` do nothing.
        """
        self._home = str(home)
        self._forget = forget
        self._grave = home.with_name("grave")
        self._last = last
        self._loss = loss
        self._random = random.Random(seed * 1_000_003 + last)  # noqa: S311 -- the same each time is what is wanted
        self.calls = 0
        self._pending: list[_Change] = []
        self._synced: dict[tuple[int, int], int] = {}
        self._buried = 0
        self._paused = False

    @contextmanager
    def others(self) -> Iterator[None]:
        """Meanwhile somebody else is at work: nothing of it is counted, and all of it lasts."""
        self._paused = True
        yield
        self._paused = False
        for path in self._files():
            if path.suffix == ".hook":
                self._settle(path)

    def _settle(self, path: Path) -> None:
        status = path.lstat()
        self._synced[status.st_dev, status.st_ino] = status.st_size

    def install(self) -> None:
        """From now on; there is no way back."""
        self._grave.mkdir(exist_ok=True)
        for path in self._files():
            self._settle(path)
        for name in ("open", "write", "fsync", "mkdir", "rmdir", "unlink", "rename", "replace", "link", "ftruncate"):
            setattr(os, name, self._counted(name))
        os.remove = os.unlink

    def _counted(self, name: str) -> Callable[..., Any]:
        ours, real = getattr(self, name), _real[name]

        def call(*given: Any, **more: Any) -> Any:
            return (real if self._paused else ours)(*given, **more)

        return call

    # --- calls --------------------------------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        where = self._path(path, dir_fd)
        if not flags & os.O_CREAT or not self._mine(where) or os.path.lexists(where):
            return _real["open"](path, flags, mode, dir_fd=dir_fd)  # type: ignore[no-any-return]  # it is that of os
        self._call()
        descriptor: int = _real["open"](path, flags, mode, dir_fd=dir_fd)
        self._made(where)
        return descriptor

    def write(self, descriptor: int, data: Any) -> int:
        if not self._mine(self._path("", descriptor)):
            return _real["write"](descriptor, data)  # type: ignore[no-any-return]  # it is that of os
        self._call(lambda: _real["write"](descriptor, memoryview(data)[: len(data) // 2]))
        return _real["write"](descriptor, data)  # type: ignore[no-any-return]  # it is that of os

    def ftruncate(self, descriptor: int, length: int) -> None:
        self._call()
        _real["ftruncate"](descriptor, length)

    def fsync(self, descriptor: int) -> None:
        self._call()
        # this disk loses what it is told to lose, so there is nothing to wait for
        if self._forget and re.fullmatch(self._forget, os.path.relpath(self._path("", descriptor), self._home)):
            return
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            self._pending = [change for change in self._pending if key not in change.folders]
        else:
            self._synced[key] = status.st_size

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        where = self._path(path, dir_fd)
        self._call()
        _real["mkdir"](path, mode, dir_fd=dir_fd)
        self._made(where)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        where = self._path(path, dir_fd)
        self._call()
        _real["rmdir"](path, dir_fd=dir_fd)

        def undo() -> None:
            _real["mkdir"](where, 0o700)

        self._note(undo, where)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        where = self._path(path, dir_fd)
        self._call()
        if not self._mine(where) or "/pins/" in where:
            # pins are links to files of others, whose number counts, and nobody syncs them
            _real["unlink"](path, dir_fd=dir_fd)
            return
        grave = self._bury(where)
        self._note(lambda: self._restore(grave, where), where)

    def rename(self, old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        before, after = self._path(old, src_dir_fd), self._path(new, dst_dir_fd)
        self._call()
        there = self._bury(after) if os.path.lexists(after) else ""
        _real["rename"](before, after)

        def undo() -> None:
            if os.path.lexists(after):
                _real["rename"](after, before)
            self._restore(there, after)

        self._note(undo, before, after)

    replace = rename

    def link(self, old: Any, new: Any, **more: Any) -> None:
        self._call()
        _real["link"](old, new, **more)
        self._made(self._path(new, None))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _call(self, half: Callable[[], object] = lambda: None) -> None:
        self.calls += 1
        if self.calls == self._last:
            if self._loss in {"some", "others"}:
                half()
            self._end()

    def _end(self) -> NoReturn:
        try:
            if self._loss != "nothing":
                self._lose()
        finally:
            os._exit(KILLED)

    def _lose(self) -> None:
        whole = {"bytes": (True, False), "names": (False, True), "everything": (True, True)}.get(self._loss)
        for path in self._files():
            status = path.lstat()
            synced = self._synced.get((status.st_dev, status.st_ino), 0)
            if synced < status.st_size and (whole[0] if whole else self._random.random() < 0.5):
                self._cut(path, synced, status.st_size)
        for change in reversed(self._pending):
            if whole[1] if whole else self._random.random() < 0.5:
                try:
                    change.undo()
                except OSError:
                    continue  # it lay in a folder that is gone by now

    def _cut(self, path: Path, synced: int, size: int) -> None:
        """Bytes that were not synced: gone, half there, or there as zeros."""
        kind = self._random.randrange(3) if self._loss in {"some", "others"} else 0
        _real["truncate"](path, synced + (size - synced) // 2 if kind == 1 else synced)
        if kind == 2:
            _real["truncate"](path, size)

    # --- names --------------------------------------------------------------------------------------------------------

    def _path(self, path: Any, descriptor: int | None) -> str:
        folder = "" if descriptor is None else os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 -- a text
        return os.path.join(folder, os.fspath(path)) if path else folder  # noqa: PTH118 -- a text

    def _mine(self, path: str) -> bool:
        return path.startswith(f"{self._home}/")

    def _files(self) -> list[Path]:
        return [path for path in Path(self._home).rglob("*") if path.is_file() and "pins" not in path.parts]

    def _made(self, path: str) -> None:
        def undo() -> None:
            self._bury(path)

        self._note(undo, path)

    def _note(self, undo: Callable[[], None], *paths: str) -> None:
        folders = []
        for path in paths:
            status = os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120 -- a text
            folders.append((status.st_dev, status.st_ino))
        self._pending.append(_Change(tuple(folders), undo))

    def _bury(self, path: str) -> str:
        self._buried += 1
        grave = str(self._grave / f"{os.getpid()}-{self._buried}")
        _real["rename"](path, grave)
        return grave

    @staticmethod
    def _restore(grave: str, path: str) -> None:
        if grave:
            _real["rename"](grave, path)


def run(
    work: Callable[[Disk], object], home: Path, last: int = 0, loss: str = "nothing", seed: int = 0, forget: str = ""
) -> int:
    """Do something in a child that ends at call `last`; how many calls it made, or 0 when it came to that end.

    Raises `AssertionError` when it came to another one.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            disk = Disk(home, last, loss, seed, forget)
            disk.install()
            work(disk)
            _real["write"](writer, str(disk.calls).encode())
            code = 0
        except BaseException:  # noqa: BLE001 -- this is the end of the process
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        said = told.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, KILLED}, f"it ended with {code} at call {last}, {loss}"
    return int(said) if code == 0 else 0
