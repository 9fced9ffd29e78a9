"""Where a recording lies: one sealed file, or a folder. Both give the same pieces in the same order."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from forensic.container import read, read_range
from forensic.manifest import MANIFEST, is_room
from forensic.model import Member
from forensic.ustar import FRAME, LIMITS, Defect, Piece, Sum, extent, valid_name
from forensic.zstd import MAGIC

__all__ = ["Folder", "SealedFile", "StoredFile", "place"]

_CHUNK: Final = 1 << 20
_LOOKUP_LIMIT: Final = 64 << 20
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip
_STRANGERS: Final = (
    (b"\x1f\x8b", "it is gzip"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"BZh", "it is bzip2"),
    (b"\xfd7zXZ", "it is xz"),
    (b"SQLite format 3\0", "it is a SQLite database"),
    (b"{", "it looks like a transcript: capture it first (forensic capture PATH)"),
    (b"\xef\xbb\xbf{", "it looks like a transcript: capture it first (forensic capture PATH)"),
    (b"manifest.json\0", "it is a tar without compression: a bundle is used as it was sealed"),
)


class StoredFile(NamedTuple):
    """One member of an unpacked recording: its name, where it is, its bytes."""

    name: str
    path: Path
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Its data."""
        with self.open() as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk

    def open(self) -> BinaryIO:
        """Open it, never through a link."""
        return os.fdopen(os.open(self.path, _FLAGS), "rb")

    def member(self) -> Member:
        """Its size and SHA-256."""
        digest = hashlib.sha256()
        size = 0
        for chunk in self.chunks():
            digest.update(chunk)
            size += len(chunk)
        return Member(size, digest.hexdigest())


class SealedFile:
    """A sealed bundle."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened yet."""
        self._path = path

    def manifest(self) -> bytes:
        """The first member; nothing after it is read."""
        parts: list[bytes] = []
        with self._path.open("rb") as stream:
            self._sniff(stream)
            for pieces in read(stream):
                parts += [piece.data for piece in pieces]
                if pieces[-1].digest:
                    break
        return b"".join(parts)

    def pieces(self, pool: Executor | None = None) -> Iterator[Piece]:
        """All members, strictly read: see `forensic.container.read`."""
        buffer = min(_CHUNK, max(512, self._path.stat().st_size))
        with self._path.open("rb", buffering=buffer) as stream:
            for pieces in read(stream, pool=pool):
                yield from pieces

    def member(self, name: str, manifest_size: int, members: dict[str, Member]) -> bytes | None:
        """One member by way of the seek table, compared with its SHA-256; None when there is none of that name."""
        if name not in members:
            return None
        start = extent(manifest_size) + sum(extent(members[other].size) for other in members if other < name)
        wanted = members[name]
        if wanted.size > _LOOKUP_LIMIT:
            raise Defect(f"{wanted.size} bytes are more than is looked up at once", member=name, kind="limit")
        with self._path.open("rb") as stream:
            data = read_range(stream, start + 512, wanted.size)
        if hashlib.sha256(data).hexdigest() != wanted.sha256:
            raise Defect("does not match its SHA-256 in the manifest", member=name)
        return data

    def _sniff(self, stream: BinaryIO) -> None:
        first = stream.read(16)
        stream.seek(0)
        if first.startswith(MAGIC):
            return
        reason = next((said for magic, said in _STRANGERS if first.startswith(magic)), "it does not begin as one does")
        raise Defect(reason if first else "it is empty", kind="foreign")


class Folder:
    """An unpacked recording. Only what lies there is opened; a name in the manifest is compared, never followed."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self._path = path

    def manifest(self) -> bytes:
        """The bytes of its manifest."""
        files = list(self._files(self._path, {MANIFEST}, 1))
        if not files:
            raise Defect(
                "a folder without manifest.json; sessions in it are captured by: forensic capture", kind="foreign"
            )
        if files[0].size > LIMITS.manifest:
            raise Defect(f"a manifest of {files[0].size} bytes", member=MANIFEST, kind="limit")
        return b"".join(files[0].chunks())

    def files(self, listed: Collection[str] = ()) -> list[StoredFile]:
        """Its members in byte order, without the manifest: those that format 1 knows, and those `listed`.

        Raises `Defect` for a link, or anything else that is no plain file, among them. Other things may lie beside.
        """
        tops = {name.partition("/")[0] for name in listed} - {MANIFEST}
        tops |= {"bindings.jsonl", "context.jsonl", "payloads.jsonl", "recorded.json", "transcripts", "files"}
        known = [file for file in self._files(self._path, tops, 4) if is_room(file.name) or file.name in listed]
        return sorted(known)

    def pieces(self, listed: Collection[str], pool: Executor | None = None) -> Iterator[Piece]:
        """All members but the manifest, in the order of a bundle."""
        for file in self.files(listed):
            digest = Sum(pool)
            start = 0
            with file.open() as stream:
                while True:
                    data = stream.read(min(FRAME, file.size - start))
                    digest.update(data)
                    last = start + len(data) == file.size
                    yield Piece(file.name, file.size, start, data, 0, 0, digest.hexdigest() if last else None)
                    start += len(data)
                    if last:
                        break
                    if not data:
                        raise Defect("it became shorter while it was read", member=file.name)

    def member(self, name: str, listed: Collection[str] = ()) -> bytes | None:
        """One member, None when there is none of that name."""
        return next((b"".join(file.chunks()) for file in self.files(listed) if file.name == name), None)

    def _files(self, folder: Path, tops: Iterable[str], depth: int, before: str = "") -> Iterator[StoredFile]:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = before + entry.name
                if before == "" and entry.name not in tops:
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and depth > 1:
                    yield from self._files(folder / entry.name, (), depth - 1, name + "/")
                elif not stat.S_ISREG(status.st_mode):
                    raise Defect("it is a link, or no plain file", member=name)
                elif valid_name(name):
                    yield StoredFile(name, folder / entry.name, status.st_size)


def place(path: Path) -> SealedFile | Folder:
    """What lies at a path, as yet unread. Raises `Defect` when it is neither file nor folder, `OSError`."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return Folder(path)
    if not stat.S_ISREG(status.st_mode):
        raise Defect("it is neither a file nor a folder", kind="foreign")
    return SealedFile(path)
