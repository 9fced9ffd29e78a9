"""The tar inside a bundle: strict, canonical ustar, of plain files only (docs/bundle.md section 3).

Every header must be the one that can be made again from name and size. That one comparison refuses links, devices,
extensions, other owners, and every size written in another way.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import Final, NamedTuple

__all__ = [
    "END",
    "FRAME",
    "LIMITS",
    "Defect",
    "Limits",
    "Piece",
    "Sum",
    "Tar",
    "alone",
    "extent",
    "header",
    "padding",
    "parse_header",
    "valid_name",
]

FRAME: Final = 4 << 20
"""Most bytes of tar that one frame holds."""
END: Final = bytes(1024)
_BLOCK: Final = 512
_LARGE: Final = 1 << 16
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}(?:/[a-z0-9][a-z0-9._-]{0,62}){0,3}")
_RESERVED: Final = re.compile(r"(?:^|/)(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[./]|$)")
_OWNER: Final = b"0000644\0" + b"0000000\0" * 2
_TIME: Final = b"00000000000\0"
_AFTER: Final = b"0" + bytes(100) + b"ustar\0" + b"00" + bytes(64) + b"0000000\0" * 2 + bytes(167)


class Limits(NamedTuple):
    """What a reader accepts, in bytes but for `members` and `frames`. `values` are a manifest's commas and brackets."""

    manifest: int = 32 << 20
    values: int = 2_000_000
    total: int = 16 << 30
    members: int = 200_000
    frames: int = 65_536
    window: int = 8 << 20


LIMITS: Final = Limits()


class Defect(Exception):
    """The file is not as it must be. `kind` is damaged, limit, foreign (no bundle at all) or newer (than we are)."""

    def __init__(  # noqa: PLR0913 -- what is wrong, and all that may be known of where
        self,
        reason: str,
        *,
        member: str = "",
        row: int | None = None,
        frame: int | None = None,
        at: int | None = None,
        kind: str = "damaged",
    ) -> None:
        """`row` and `frame` count from 1; `at` is the offset of the frame in the file."""
        super().__init__(reason)
        self.reason = reason
        self.member = member
        self.row = row
        self.frame = frame
        self.at = at
        self.kind = kind

    def __str__(self) -> str:
        row = None if self.row is None else f"row {self.row}"
        frame = f"frame {self.frame}" if self.frame else ""
        byte = "" if self.at is None else f"at byte {self.at}"
        place = ", ".join(filter(None, (self.member, row, f"{frame} {byte}".strip())))
        return f"{place}: {self.reason}" if place else self.reason


class Sum:
    """A SHA-256 whose large pieces are summed up by another thread, in their order, when there is one."""

    def __init__(self, pool: Executor | None) -> None:
        """`pool` must have one thread only: that is what keeps the order."""
        self._digest = hashlib.sha256()
        self._pool = pool
        self._waiting: deque[Future[None]] = deque()

    def update(self, data: bytes) -> None:
        """Add a piece; not more than two are ever waiting."""
        if self._pool is None or (len(data) < _LARGE and not self._waiting):
            self._digest.update(data)
            return
        self._waiting.append(self._pool.submit(self._digest.update, data))
        while len(self._waiting) > 2:
            self._waiting.popleft().result()

    def hexdigest(self) -> str:
        """The sum of all pieces."""
        while self._waiting:
            self._waiting.popleft().result()
        return self._digest.hexdigest()


class Piece(NamedTuple):
    """A stretch of one member, as long as the frame it stands in allows. The last one carries the member's SHA-256."""

    member: str
    size: int
    start: int
    data: bytes
    frame: int
    at: int
    digest: str | None


def valid_name(name: str) -> bool:
    """Whether a member may bear this name: docs/bundle.md section 3."""
    return len(name) <= 100 and _NAME.fullmatch(name) is not None and _RESERVED.search(name) is None


def header(name: str, size: int) -> bytes:
    """The 512 bytes of tar before a member: the only ones that name and size can have."""
    before = b"%b%b%011o\0%b" % (name.encode("ascii").ljust(100, b"\0"), _OWNER, size, _TIME)
    checksum = sum(before) + 8 * ord(" ") + sum(_AFTER)
    return b"%b%06o\0 %b" % (before, checksum, _AFTER)


def padding(size: int) -> int:
    """Zero bytes that fill up the last block of a member."""
    return -size % _BLOCK


def extent(size: int) -> int:
    """Bytes of tar that a member of `size` bytes takes."""
    return _BLOCK + size + padding(size)


def alone(name: str) -> bool:
    """Whether a member shares its frames with no other."""
    return name in {"manifest.json", "recorded.json"}


class Tar:
    """The tar inside, one frame's content after the other."""

    def __init__(self, limits: Limits, pool: Executor | None = None) -> None:
        """Nothing read yet; `member` is the name of the last member begun, `ended` whether the end has come."""
        self._limits = limits
        self._pool = pool
        self._count = 0
        self._previous = ""
        self._size = self._left = self._pad = 0
        self._inside = False
        self._digest = Sum(pool)
        self.member = ""
        self.ended = False

    def feed(self, frame: int, at: int, content: bytes) -> list[Piece]:
        """The pieces of members in one frame. Raises `Defect`."""
        try:
            return list(self._pieces(frame, at, content))
        except Defect as defect:
            member = self.member if self._inside else ""
            raise Defect(defect.reason, member=member, frame=frame, at=at, kind=defect.kind) from None

    def _pieces(self, frame: int, at: int, content: bytes) -> Iterator[Piece]:
        here = 0
        view = memoryview(content)
        while here < len(content):
            if not self._inside:
                here = self._begin(content, here)
                if self._is_empty():
                    yield self._piece(b"", frame, at)
            elif self._left:
                data = content[here : here + self._left]  # no copy when it is the whole content
                here += len(data)
                yield self._piece(data, frame, at)
            else:
                pad = view[here : here + self._pad]
                if any(pad):
                    raise Defect("padding that is not zero")
                here += len(pad)
                self._pad -= len(pad)
            self._inside = self._inside and bool(self._left or self._pad)
        if self._inside and len(content) != FRAME and not self._row_end(content):
            raise Defect("a frame that ends inside a row or file without being full")

    def _is_empty(self) -> bool:
        return self._inside and not self._size

    def _row_end(self, content: bytes) -> bool:
        whole_pad = self._pad == padding(self._size)
        return self.member.endswith(".jsonl") and whole_pad and content.endswith(b"\n")

    def _piece(self, data: bytes, frame: int, at: int) -> Piece:
        start = self._size - self._left
        self._left -= len(data)
        self._digest.update(data)
        digest = None if self._left else self._digest.hexdigest()
        return Piece(self.member, self._size, start, data, frame, at, digest)

    def _begin(self, content: bytes, here: int) -> int:
        """Read the header, or the end, at `here`; the position after it."""
        if here and alone(self.member):
            raise Defect(f"{self.member} shares its frame with another member")
        if content[here] == 0:
            if self.ended or content[here:] != END:
                raise Defect("an archive that does not end with exactly 1024 zero bytes")
            self.ended = True
            return len(content)
        if self.ended:
            raise Defect("bytes after the end of the archive")
        name, size = parse_header(content[here : here + _BLOCK])
        self._admit(name, size, here)
        self.member = self._previous = name
        self._size = self._left = size
        self._pad = padding(size)
        self._inside = True
        self._digest = Sum(self._pool)
        return here + _BLOCK

    def _admit(self, name: str, size: int, here: int) -> None:
        self._count += 1
        if self._count == 1 and name != "manifest.json":
            raise Defect("its first member is not manifest.json", kind="foreign")
        if self._count > self._limits.members:
            raise Defect(f"more than {self._limits.members} members", kind="limit")
        if self._count == 1 and size > self._limits.manifest:
            raise Defect(f"a manifest of {size} bytes, more than {self._limits.manifest}", kind="limit")
        if self._count > 1 and name == "manifest.json":
            raise Defect("manifest.json stands twice")
        if self._count > 2 and name <= self._previous:
            raise Defect(f"{name} does not come after {self._previous} in byte order")
        if here and alone(name):
            raise Defect(f"{name} shares its frame with another member")


def parse_header(block: bytes) -> tuple[str, int]:
    """Name and size in a tar header. Raises `Defect` unless it is the header those two must have."""
    if len(block) < _BLOCK:
        raise Defect("a tar header is cut")
    if block[156:157] != b"0":
        raise Defect(f"an entry of type {block[156:157].decode('latin-1')!a}: only plain files may be in a bundle")
    name = block[:100].rstrip(b"\0").decode("latin-1")
    if not valid_name(name):
        raise Defect(f"the name {name!a} is not allowed")
    digits = block[124:135]
    if not digits.isdigit() or b"8" in digits or b"9" in digits or header(name, size := int(digits, 8)) != block:
        raise Defect(f"the tar header of {name} is not the canonical one")
    return name, size
