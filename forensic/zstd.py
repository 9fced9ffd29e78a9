"""Every call of the compressor: one frame in, one frame out. The back end may change here, and nowhere else.

What the library does not do for us: one call decompresses one frame only and says nothing of the rest, and a limit on
the output is ignored when the frame names its size. So callers ask `header` first, and hand over exactly one frame, or,
of a frame that others wrote, one block after the other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import zstandard

__all__ = [
    "BLOCK",
    "MAGIC",
    "SPOILT",
    "Blocks",
    "Header",
    "NotZstd",
    "compress",
    "decompress",
    "header",
    "header_length",
]

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LEVEL: Final = 3
"""docs/decisions/0002-frames.md: four times as fast as level 9, for a tenth more bytes."""

BLOCK: Final = 1 << 17
"""No block holds more, packed or unpacked."""

SPOILT: Final = "data do not match their checksum, or are malformed"


class NotZstd(ValueError):
    """The bytes are not the zstd frame they should be."""


class Header(NamedTuple):
    """What a frame says of itself. Sizes are bytes; `content` is None when the frame does not name it."""

    content: int | None
    window: int
    dictionary: int
    checksum: bool


def compress(content: bytes) -> bytes:
    """One frame with its content size and checksum. A context of its own, so that equal content gives equal bytes."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True).compress(content)


def header_length(first: bytes) -> int:
    """Bytes of the frame header that starts with these five. Raises `NotZstd`."""
    try:
        return zstandard.frame_header_size(first)
    except zstandard.ZstdError:
        raise NotZstd("malformed frame header") from None


def header(head: bytes) -> Header:
    """The header of a frame, given its bytes. Raises `NotZstd`."""
    try:
        found = zstandard.get_frame_parameters(head)
    except zstandard.ZstdError:
        raise NotZstd("malformed frame header") from None
    content = None if found.content_size == zstandard.CONTENTSIZE_UNKNOWN else found.content_size
    return Header(content, found.window_size, found.dict_id, found.has_checksum)


def decompress(frame: bytes) -> bytes:
    """The content of exactly one whole frame whose header the caller has judged. Raises `NotZstd`."""
    try:
        return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError:
        raise NotZstd(SPOILT) from None


class Blocks:
    """A frame of any size, fed in parts: its header, its blocks one by one, its checksum if it has one."""

    def __init__(self, window: int) -> None:
        """Refuse a frame that needs a window of more bytes."""
        self._frame = zstandard.ZstdDecompressor(max_window_size=window).decompressobj()

    def feed(self, part: bytes) -> bytes:
        """The content of one part, `BLOCK` bytes at most. Raises `NotZstd`, and is of no use after that."""
        try:
            return self._frame.decompress(part)
        except zstandard.ZstdError:
            raise NotZstd(SPOILT) from None
