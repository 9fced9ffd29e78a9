"""Bundles: open one, read its timeline, check all of it, seal a recording into one (docs/bundle.md).

Opening reads the manifest alone. Whatever reads more is strict as it goes and raises `Damaged` at the point of damage.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

from forensic.container import Writer
from forensic.errors import (
    AlreadyThere,
    Damaged,
    NewerFormat,
    NoSuchPath,
    NotABundle,
    NotReadable,
    TooLarge,
    WriteFailed,
)
from forensic.manifest import (
    FORMAT,
    MANIFEST,
    content_id_of,
    evidence_of,
    examine,
    is_room,
    read_manifest,
    with_members,
    write_manifest,
)
from forensic.model import Binding, Entry, Manifest
from forensic.reading import Reading, read_binding, read_object
from forensic.storage import Folder, SealedFile, place
from forensic.ustar import Defect

__all__ = [
    "FORMAT",
    "Bundle",
    "content_id_of",
    "evidence_of",
    "open_bundle",
    "seal",
    "write_manifest",
]

Progress = Callable[[int], None]
"""Told of bytes done since the last call, out of `Bundle.size`."""

_SMALL: Final = 1 << 18
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class Bundle:
    """One recording: its manifest at hand, everything else read when asked for.

    `bundle_id` is None for an unpacked recording without a table of members; `unknown` names the members that this
    version gives no meaning (they are hashed and left aside); `size` is the bytes of all members but the manifest.
    """

    def __init__(self, path: Path, storage: SealedFile | Folder, raw: bytes) -> None:
        """Raises `Defect`."""
        self.path = path
        self.sealed = isinstance(storage, SealedFile)
        self.manifest: Manifest = read_manifest(raw, sealed=self.sealed)
        self.content_id = content_id_of(self.manifest.evidence)
        members = self.manifest.members
        self.bundle_id = hashlib.sha256(raw).hexdigest() if members or self.sealed else None
        self._storage = storage
        self._raw = raw

    @property
    def unknown(self) -> tuple[str, ...]:
        """Members that have no meaning here, in byte order."""
        return tuple(sorted(name for name in self.manifest.members if not is_room(name)))

    @property
    def size(self) -> int:
        """Bytes of all members, as the table of members gives them."""
        return sum(member.size for member in self.manifest.members.values())

    def timeline(self, needles: tuple[bytes, ...] | None = None) -> Iterator[Entry]:
        """Side files, then payloads, then rows stream by stream in the order of the manifest.

        Checks structure, sizes, checksums, hashes, seal and seek table on the way; raises `Damaged` at the place of
        damage, or at the end. That every row is canonically wrapped, and amounts to the evidence, only `check` tells.
        With `needles`, of the rows only those that hold one of them.
        """
        for entries in self._read(strict=False, needles=needles):
            yield from entries

    def check(self, progress: Progress | None = None) -> None:
        """Read everything and believe nothing. Raises `Damaged`, naming member, row and frame."""
        for _ in self._read(strict=True, progress=progress):
            pass

    def bindings(self) -> Iterator[Binding]:
        """Which rows were read after which payload. Raises `Damaged`."""
        with _readable(self.path):
            yield from map(read_binding, self._lines("bindings.jsonl"))

    def context(self) -> Iterator[dict[str, Any]]:
        """What was known of the repositories around the session's working folders. Raises `Damaged`."""
        with _readable(self.path):
            yield from map(read_object, self._lines("context.jsonl"))

    def recorded(self) -> bytes | None:
        """The verdict at the seal, ``recorded.json`` as it stands; None without. Raises `Damaged`."""
        return self.member("recorded.json")

    def member(self, name: str) -> bytes | None:
        """All bytes of one member, compared with its hash; None when there is none of that name. Raises `Damaged`."""
        members = self.manifest.members
        with _readable(self.path):
            if isinstance(self._storage, Folder):
                return self._storage.member(name, members)
            return self._storage.member(name, len(self._raw), members)

    def _lines(self, name: str) -> list[bytes]:
        return (self.member(name) or b"").split(b"\n")[:-1]

    def _read(
        self, *, strict: bool, progress: Progress | None = None, needles: tuple[bytes, ...] | None = None
    ) -> Iterator[list[Entry]]:
        # who looks for needles reads many bundles, by as many processes as there is room for
        alone = needles is None
        with _readable(self.path), _aid(self.path) if alone else contextlib.nullcontext() as pool:
            examine(self.manifest)
            reading = Reading(self.manifest, self._raw if self.sealed else b"", strict=strict, needles=needles)
            storage, listed = self._storage, self.manifest.members
            pieces = storage.pieces(pool) if isinstance(storage, SealedFile) else storage.pieces(listed, pool)
            for entries, done in reading.entries(pieces):
                if progress is not None:
                    progress(done)
                yield entries


@contextlib.contextmanager
def _aid(path: Path) -> Iterator[Executor | None]:
    """A thread for what needs no interpreter, where there is enough to do for it."""
    if path.is_file() and path.stat().st_size < _SMALL:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever is wrong with the recording at `path`, told as the error that it is to a user."""
    try:
        yield
    except Defect as defect:
        kinds = {"limit": TooLarge, "foreign": NotABundle, "newer": NewerFormat}
        raise kinds.get(defect.kind, Damaged)(path=path, detail=str(defect)) from None


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """The same, where nothing is written, so that a refusal of the system is about reading."""
    try:
        with _told(path):
            yield
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except OSError as error:
        raise NotReadable(path=path, detail=error.strerror or type(error).__name__) from None


def open_bundle(path: Path) -> Bundle:
    """A sealed bundle, or an unpacked recording directory. Only its manifest is read.

    Raises `NoSuchPath`, `NotReadable`, `NotABundle`, `NewerFormat`, `Damaged`.
    """
    with _readable(path):
        storage = place(path)
        return Bundle(path, storage, storage.manifest())


def seal(directory: Path, target: Path) -> str:
    """Pack an unpacked recording into the sealed bundle `target`; its bundle id.

    Written beside `target`, read back strictly, then published under its name without replacing anything, mode 0400.
    A target that holds the same content already is a success, and left as it is. Raises `AlreadyThere` when it holds
    something else, `Damaged` when the recording is not sound, `WriteFailed`; nothing half-written is ever left.
    """
    recording = open_bundle(directory)
    if recording.sealed:
        raise NotABundle(path=directory, detail="it is sealed already")
    try:
        if target.exists():
            return _present(target, recording.content_id)
        descriptor, name = tempfile.mkstemp(prefix=".sealing-", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                _pack(recording, out)
                out.flush()
                os.fsync(out.fileno())
            bundle_id = _read_back(temporary, recording)
            return bundle_id if _publish(temporary, target) else _present(target, recording.content_id)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise WriteFailed(path=target, detail=error.strerror or type(error).__name__) from None


def _pack(recording: Bundle, out: BinaryIO) -> None:
    listed = recording.manifest.members
    folder = Folder(recording.path)
    with _told(recording.path), Writer(out) as writer:
        files = folder.files(listed)
        members = {file.name: file.member() for file in files}
        if listed and members != listed:
            differing = sorted(name for name in listed.keys() | members if listed.get(name) != members.get(name))
            raise Defect("it is not as the manifest lists it", member=differing[0])
        raw = with_members(folder.manifest(), members)
        writer.add(MANIFEST, len(raw), [raw])
        for file in files:
            writer.add(file.name, members[file.name].size, file.chunks())
        writer.finish()


def _read_back(temporary: Path, recording: Bundle) -> str:
    try:
        sealed = open_bundle(temporary)
        sealed.check()
    except Damaged as error:
        raise type(error)(path=recording.path, detail=error.fields["detail"]) from None
    if sealed.content_id != recording.content_id or sealed.bundle_id is None:
        raise Damaged(path=recording.path, detail="it changed while it was sealed")
    return sealed.bundle_id


def _publish(temporary: Path, target: Path) -> bool:
    """Give the finished file its name. False when that name is taken."""
    if os.name == "nt":
        return _rename(temporary, target)
    temporary.chmod(0o400)
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists() or not _rename(temporary, target):
            return False
    _sync(target.parent)
    return True


def _rename(temporary: Path, target: Path) -> bool:
    try:
        temporary.rename(target)
    except FileExistsError:
        return False
    target.chmod(0o400)
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _present(target: Path, content_id: str) -> str:
    """The id of the bundle that is at `target`, when it is sound and holds this content."""
    try:
        present = open_bundle(target)
    except (NotABundle, NoSuchPath):  # a file of another kind, or a link to nothing
        raise AlreadyThere(path=target) from None
    if present.content_id != content_id or not present.sealed or present.bundle_id is None:
        raise AlreadyThere(path=target)
    present.check()
    return present.bundle_id
