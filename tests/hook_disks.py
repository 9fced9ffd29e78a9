"""A model of what a crash leaves: the calls that the hook made, and every disk that they allow.

The model is harsher than any file system. Bytes that were not synced may be there, partly there, zeros, or missing. A
name that was made, taken away or changed since its folder was synced may be as before or as after, each on its own. A
folder that was made and whose name was not synced may be missing with all that is in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

Names = dict[str, int]
Disk = dict[str, bytes]
"""What lies in the spool after a crash: contents by names."""
HERE: Final = "spool/"


class Op(NamedTuple):
    """One change: write bytes to a file, sync it, name or unname a path, settle the names in a folder."""

    what: str
    path: str
    inode: int = 0
    content: bytes = b""


class Recording:
    """Stands in for the body's `os`: passes all calls on, and notes those that change the disk."""

    def __init__(self, module: Any, *, forget: Sequence[str] = (), most: int = 1 << 30) -> None:
        self.real, self.forget, self.most = module.os, forget, most
        self.ops: list[Op] = []
        self.files: dict[int, str] = {}
        self.inodes: dict[int, int] = {}
        module.os = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        file: int = self.real.open(path, flags, mode, dir_fd=dir_fd)
        if dir_fd is not None:
            path = HERE + path
        elif path.endswith("/spool"):
            path = HERE
        elif path.endswith("/spool/.."):
            path = ""
        self.files[file] = path
        if flags & os.O_CREAT:
            inode = self.inodes[file] = os.fstat(file).st_ino
            self.ops.append(Op("name", path, inode))
        return file

    def close(self, file: int) -> None:
        self.real.close(file)
        self.inodes.pop(file, None)

    def write(self, file: int, content: memoryview | bytes) -> int:
        done: int = self.real.write(file, content[: self.most])
        self.ops.append(Op("write", "", self.inodes[file], bytes(content[:done])))
        return done

    def fsync(self, file: int) -> None:
        if file in self.inodes:
            if "file" not in self.forget:
                self.real.fsync(file)
                self.ops.append(Op("sync", "", self.inodes[file]))
        elif self.files[file] not in self.forget:
            self.real.fsync(file)
            self.ops.append(Op("settle", self.files[file]))

    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self.real.mkdir(path, mode, dir_fd=dir_fd)
        self.ops.append(Op("name", HERE if dir_fd is None else f"{HERE}{path}/", -1))

    def replace(self, old: str, new: str, **more: Any) -> None:
        inode = os.lstat(old, dir_fd=more["src_dir_fd"]).st_ino
        self.real.replace(old, new, **more)
        self.ops += [Op("name", HERE + new, inode), Op("unname", HERE + old)]

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        self.real.unlink(path, dir_fd=dir_fd)
        self.ops.append(Op("unname", HERE + path))


def contents(written: bytes, synced: bytes) -> Iterator[bytes]:
    """What may stand in a file of which a part was synced."""
    rest = len(written) - len(synced)
    yield written
    if rest:
        yield synced
        yield synced + bytes(rest)
        for part in {1, rest // 2, rest - 1}:
            yield written[: len(synced) + part]
            yield written[: len(synced) + part] + bytes(rest - part)


class Model:
    """The disk in the making: what was done to it, and what of that is sure to last."""

    def __init__(self, names: Names) -> None:
        """Begin with names that have been there for long."""
        self.now, self.sure = dict(names), dict(names)
        self.written: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}

    def apply(self, op: Op) -> None:
        """Do one change."""
        if op.what == "write":
            self.written[op.inode] = self.written.get(op.inode, b"") + op.content
        elif op.what == "sync":
            self.synced[op.inode] = self.written.get(op.inode, b"")
        elif op.what == "name":
            self.now[op.path] = op.inode
        elif op.what == "unname":
            self.now.pop(op.path, None)
        else:
            inside = {path for path in self.now | self.sure if above(path) == op.path}
            self.sure = {path: inode for path, inode in self.sure.items() if path not in inside}
            self.sure |= {path: inode for path, inode in self.now.items() if path in inside}

    def disks(self) -> Iterator[Disk]:
        """Every disk that a crash may leave at this moment."""
        paths = sorted(self.now | self.sure)
        for inodes in product(*({self.now.get(path), self.sure.get(path)} for path in paths)):
            there = {path: inode for path, inode in zip(paths, inodes, strict=True) if inode is not None}
            there = {path: inode for path, inode in there.items() if above(path) in ("", *there)}
            files = [(path, inode) for path, inode in there.items() if not path.endswith("/")]
            held = sorted({inode for _, inode in files})
            choices = (contents(self.written.get(inode, b""), self.synced.get(inode, b"")) for inode in held)
            for chosen in product(*choices):
                what = dict(zip(held, chosen, strict=True))
                yield {path.removeprefix(HERE): what[inode] for path, inode in files}


def above(path: str) -> str:
    """The folder that holds a path; folders end in a slash, and the topmost one is empty."""
    return path.rstrip("/").rpartition("/")[0] + "/" if "/" in path.rstrip("/") else ""
