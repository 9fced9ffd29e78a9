"""Following one file that somebody else is writing, and keeping a copy of every byte that it ever held when looked at.

A file has generations: a new one begins when another file stands in its place, when it became shorter, or when bytes
that were read already are not what they were. Of each generation there is a copy, byte for byte, which only grows; it
is also what an offset is compared with, so that nothing has to be believed after a restart.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from forensic.capture.guard import Gone, Refused

__all__ = ["Begun", "Ended", "Follower", "Grown", "Open", "Step", "Versions", "read_at", "write_all"]

Open = Callable[[], int]
"""Opens the file by its guarded name. Raises `Refused`, `Gone`, `OSError`."""

_CHUNK: Final = 1 << 20
_HEAD: Final = 4096
_FOOT: Final = 64
_LARGEST_SIDE: Final = 1 << 30
_MOST_FORMER: Final = 4
"""So many files that others took the place of are held open: whoever writes one may not have noticed."""
_SETTLED_NS: Final = 100_000_000
"""A side file that was written less than so long ago may be half a file yet."""
_COPY: Final = (
    os.O_RDWR | os.O_CREAT | os.O_APPEND
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip


class Begun(Struct, frozen=True, tag="begun", tag_field="k", omit_defaults=True):
    """A generation of file number `file` began."""

    file: int
    generation: int
    dev: int
    ino: int


class Grown(Struct, frozen=True, tag="grown", tag_field="k", omit_defaults=True):
    """Its copy now has so many bytes and line feeds."""

    file: int
    generation: int
    bytes: int
    rows: int
    mtime_ns: int
    after: int | None = None
    ground: str = ""
    wall: int = 0
    mono: int = 0


class Ended(Struct, frozen=True, tag="ended", tag_field="k", omit_defaults=True):
    """It ended: ``replaced``, ``shrank`` or ``rewritten``."""

    file: int
    generation: int
    by: str


Step = Begun | Grown | Ended


class _Life(Struct):
    """One generation as far as it was read."""

    dev: int
    ino: int
    bytes: int = 0
    rows: int = 0
    mtime_ns: int = 0
    ended_by: str = ""


def read_at(descriptor: int, offset: int, most: int) -> bytes:
    """Up to so many bytes at an offset."""
    if sys.platform == "win32":
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, most)
    return os.pread(descriptor, most, offset)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything; a write may take less than it was given."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class _Copies:
    """The generations of one file and their copies, in a folder of ours."""

    def __init__(self, number: int, path: str, folder: Path) -> None:
        """File `number`, which lies at `path`; the copies will lie in `folder`."""
        self.number = number
        self.path = path
        self.lives: list[_Life] = []
        self._folder = folder
        self._copy = -1
        self._dirty: set[int] = set()

    def copy_of(self, generation: int) -> Path:
        """Where the copy of a generation lies."""
        return self._folder / f"{self.number:04d}-{generation}"

    def restore(self, steps: Iterable[Step]) -> None:
        """Take up what a journal says; what a copy holds beyond it was never acknowledged, and goes."""
        for step in steps:
            if isinstance(step, Begun):
                self.lives.append(_Life(step.dev, step.ino))
            elif isinstance(step, Grown):
                life = self.lives[step.generation - 1]
                life.bytes, life.rows, life.mtime_ns = step.bytes, step.rows, step.mtime_ns
            else:
                self.lives[step.generation - 1].ended_by = step.by
        for generation, life in enumerate(self.lives, start=1):
            self._fit(self.copy_of(generation), life)

    @staticmethod
    def _fit(path: Path, life: _Life) -> None:
        descriptor = os.open(path, _COPY, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size < life.bytes:
                # somebody took it away: what is not there is not made up
                at = life.rows = 0
                while data := read_at(descriptor, at, _CHUNK):
                    life.rows += data.count(b"\n")
                    at += len(data)
                life.bytes = at
            elif size > life.bytes:
                os.ftruncate(descriptor, life.bytes)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Make what was copied last through a loss of power."""
        for descriptor in self._dirty:
            os.fsync(descriptor)
        self._dirty.clear()

    def close(self) -> None:
        """Give all descriptors back."""
        self._dirty.clear()
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _new_copy(self) -> None:
        if self._copy >= 0:
            if self._copy in self._dirty:
                os.fsync(self._copy)
                self._dirty.discard(self._copy)
            os.close(self._copy)
            self._copy = -1
        path = self.copy_of(len(self.lives))
        self._copy = os.open(path, _COPY, 0o600)
        # what a step that was never acknowledged has left there
        os.ftruncate(self._copy, self.lives[-1].bytes)

    def _append(self, data: bytes) -> None:
        if self._copy < 0:
            self._new_copy()
        self._dirty.add(self._copy)
        write_all(self._copy, data)

    def _grown(self, generation: int = 0) -> Grown:
        """Of the last generation, if none is named."""
        life = self.lives[generation - 1]
        return Grown(self.number, generation or len(self.lives), life.bytes, life.rows, life.mtime_ns)


class Follower(_Copies):
    """A transcript: rows are appended to it."""

    def __init__(self, number: int, path: str, folder: Path, opener: Open) -> None:
        """Nothing is opened before the first drain. `refused` says why the file must not be read, if so."""
        super().__init__(number, path, folder)
        self.refused: str | None = None
        self.gone = False
        self._open = opener
        self._file = -1
        self._seen: tuple[int, int] | None = None
        self._head = b""
        self._foot = b""
        self._rejected: tuple[int, int, int, int] | None = None
        self._former: dict[int, int] = {}

    @property
    def followed(self) -> bool:
        """Whether a file is held open."""
        return self._file >= 0

    def drain(self, *, whole: bool = False, held: bool = False) -> list[Step]:
        """Copy what is new, and say what happened; with `whole`, all that was read before is compared, too.

        With `held` only what is open already is looked at. Raises `OSError` when the copy cannot be written.
        """
        steps = self._take_former()
        steps += self._take(whole=whole) if self._file >= 0 else []
        if held:
            return steps
        try:
            status = os.lstat(self.path)
        except (OSError, ValueError):
            self.gone = True
            return steps
        self.gone = False
        if self._file >= 0 and self._is_held(status):
            return steps
        mark = (status.st_dev, status.st_ino, status.st_nlink, stat.S_IFMT(status.st_mode))
        if mark == self._rejected:
            return steps
        try:
            descriptor = self._open()
        except Gone:
            self.gone = True
        except Refused as error:
            self.refused, self._rejected = str(error), mark
        except OSError as error:
            self.refused = f"cannot be opened: {error.strerror or type(error).__name__}"
        else:
            self.refused = self._rejected = None
            # between the drain and now its last rows may have come
            steps += self._take(whole=False) if self._file >= 0 else []
            steps += self.offer(descriptor)
        return steps

    def offer(self, descriptor: int) -> list[Step]:
        """Follow a file from now on: the same one as before a restart, or a new generation. Takes the descriptor."""
        status = os.fstat(descriptor)
        steps: list[Step] = []
        if self.lives and not self.lives[-1].ended_by:
            life = self.lives[-1]
            if (life.dev, life.ino) == (status.st_dev, status.st_ino):
                self._hold(descriptor)
                self._remember(self._copied(0, _HEAD), self._copied(max(0, life.bytes - _FOOT), _FOOT))
                return self._take(whole=True)
            steps.append(self._end("replaced"))
            if self._file >= 0:
                self.keep(len(self.lives), self._file)
                self._file = -1
        self._hold(descriptor)
        for generation in list(self._former):
            # it has a name again, and begins as another generation
            if (self.lives[generation - 1].dev, self.lives[generation - 1].ino) == (status.st_dev, status.st_ino):
                os.close(self._former.pop(generation))
        steps.append(self._begin(status))
        return steps + self._take(whole=False)

    def keep(self, generation: int, descriptor: int) -> None:
        """Go on reading a file that another one took the place of, if it did not come back. Takes the descriptor."""
        life = self.lives[generation - 1]
        if any((later.dev, later.ino) == (life.dev, life.ino) for later in self.lives[generation:]):
            os.close(descriptor)
            return
        while len(self._former) >= _MOST_FORMER:
            os.close(self._former.pop(min(self._former)))
        self._former[generation] = descriptor

    def knows(self, dev: int, ino: int) -> bool:
        """Whether some generation is that file."""
        return any((life.dev, life.ino) == (dev, ino) for life in self.lives)

    def close(self) -> None:
        """Give all descriptors back."""
        super().close()
        for descriptor in self._former.values():
            os.close(descriptor)
        self._former.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._seen = None

    def _is_held(self, status: os.stat_result) -> bool:
        life = self.lives[-1]
        return (life.dev, life.ino) == (status.st_dev, status.st_ino)

    def _hold(self, descriptor: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = descriptor
        self._seen = None

    def _remember(self, head: bytes, foot: bytes) -> None:
        self._head, self._foot = head, foot

    def _begin(self, status: os.stat_result) -> Begun:
        self.lives.append(_Life(status.st_dev, status.st_ino))
        self._remember(b"", b"")
        self._new_copy()
        return Begun(self.number, len(self.lives), status.st_dev, status.st_ino)

    def _end(self, by: str) -> Ended:
        self.lives[-1].ended_by = by
        return Ended(self.number, len(self.lives), by)

    def _take(self, *, whole: bool) -> list[Step]:
        """What the open file holds that the copy does not."""
        status = os.fstat(self._file)
        seen = (status.st_size, status.st_mtime_ns)
        if seen == self._seen and not whole:
            return []
        steps: list[Step] = []
        life = self.lives[-1]
        by = ""
        if status.st_size < life.bytes:
            by = "shrank"
        elif self._differs(whole=whole or status.st_size == life.bytes):
            by = "rewritten"
        if by:
            steps += [self._end(by), self._begin(status)]
            life = self.lives[-1]
        before = life.bytes
        self._copy_until(status.st_size)
        life.mtime_ns = status.st_mtime_ns
        self._seen = seen
        if life.bytes > before:
            steps.append(self._grown())
        return steps

    def _take_former(self) -> list[Step]:
        """What was added to files that have lost their name to others; of these only growth is told."""
        steps: list[Step] = []
        for generation, descriptor in list(self._former.items()):
            life = self.lives[generation - 1]
            status = os.fstat(descriptor)
            if status.st_size <= life.bytes:
                continue
            copy = os.open(self.copy_of(generation), _COPY, 0o600)
            try:
                # what a step that was never acknowledged has left there
                os.ftruncate(copy, life.bytes)
                at = max(0, life.bytes - _FOOT)
                if read_at(copy, at, life.bytes - at) != read_at(descriptor, at, life.bytes - at):
                    os.close(self._former.pop(generation))
                    continue
                while life.bytes < status.st_size:
                    data = read_at(descriptor, life.bytes, min(_CHUNK, status.st_size - life.bytes))
                    if not data:
                        break
                    write_all(copy, data)
                    life.bytes += len(data)
                    life.rows += data.count(b"\n")
                os.fsync(copy)
            finally:
                os.close(copy)
            life.mtime_ns = status.st_mtime_ns
            steps.append(self._grown(generation))
        return steps

    def _copy_until(self, size: int) -> None:
        life = self.lives[-1]
        while life.bytes < size:
            data = read_at(self._file, life.bytes, min(_CHUNK, size - life.bytes))
            if not data:
                return
            self._append(data)
            life.bytes += len(data)
            life.rows += data.count(b"\n")
            self._head = (self._head + data[: _HEAD - len(self._head)]) if len(self._head) < _HEAD else self._head
            self._foot = (self._foot + data[-_FOOT:])[-_FOOT:]

    def _differs(self, *, whole: bool) -> bool:
        """Whether bytes that were read are not what they were."""
        length = self.lives[-1].bytes
        if read_at(self._file, 0, len(self._head)) != self._head:
            return True
        if read_at(self._file, length - len(self._foot), len(self._foot)) != self._foot:
            return True
        at = len(self._head)
        while whole and at < length - len(self._foot):
            size = min(_CHUNK, length - at)
            data = read_at(self._file, at, size)
            if not data or data != self._copied(at, len(data)):
                return True
            at += len(data)
        return False

    def _copied(self, offset: int, most: int) -> bytes:
        if self._copy < 0:
            self._new_copy()
        return read_at(self._copy, offset, min(most, self.lives[-1].bytes - offset))


class Versions(_Copies):
    """A side file: it is written anew each time, and each version that it had when looked at is kept."""

    def __init__(self, number: int, path: str, folder: Path, opener: Open) -> None:
        """Nothing is opened before the first drain."""
        super().__init__(number, path, folder)
        self.refused: str | None = None
        self._open = opener
        self._seen: tuple[int, int, int] | None = None

    def drain(self, now: int, *, whole: bool = False) -> list[Step]:
        """Keep the version that is there, unless it is the last one; `whole` waits for nothing. `now` is Unix time."""
        try:
            status = os.lstat(self.path)
        except (OSError, ValueError):
            return []
        seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        if seen == self._seen or (not whole and 0 <= now - status.st_mtime_ns < _SETTLED_NS):
            return []
        try:
            descriptor = self._open()
        except Gone:
            return []
        except Refused as error:
            self.refused = str(error)
            return []
        except OSError as error:
            self.refused = f"cannot be opened: {error.strerror or type(error).__name__}"
            return []
        self.refused = None
        try:
            return self._take(descriptor, seen)
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int, seen: tuple[int, int, int]) -> list[Step]:
        status = os.fstat(descriptor)
        if status.st_size > _LARGEST_SIDE:
            self.refused = "more than 1 GiB in one piece, which no bundle holds"
            self._seen = seen
            return []
        if self.lives and self._is_same(descriptor, status.st_size):
            self._seen = seen
            return []
        self.lives.append(_Life(status.st_dev, status.st_ino, mtime_ns=status.st_mtime_ns))
        self._new_copy()
        life = self.lives[-1]
        while life.bytes < status.st_size:
            data = read_at(descriptor, life.bytes, min(_CHUNK, status.st_size - life.bytes))
            if not data:
                break
            self._append(data)
            life.bytes += len(data)
        self._seen = seen
        return [Begun(self.number, len(self.lives), status.st_dev, status.st_ino), self._grown()]

    def _is_same(self, descriptor: int, size: int) -> bool:
        life = self.lives[-1]
        if life.bytes != size:
            return False
        with self.copy_of(len(self.lives)).open("rb") as copy:
            at = 0
            while data := copy.read(_CHUNK):
                if data != read_at(descriptor, at, len(data)):
                    return False
                at += len(data)
        return True
