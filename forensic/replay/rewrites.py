"""Rewrites: rows without an id of their own that a later generation of their file says again.

A client that writes its whole file anew repeats what stood there before. Rows with ids are recognised by them; of the
others as many are repeats as stood, byte for byte the same, in an earlier generation.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from msgspec import Struct, field

from forensic.model import Row

__all__ = ["Rewrites"]

_DIGEST = 16


class _Stream(Struct):
    """How often each row stands in a generation of one stream, and the most it did in one before."""

    generation: int
    now: Counter[bytes] = field(default_factory=Counter)
    before: Counter[bytes] = field(default_factory=Counter)


class Rewrites:
    """Which rows were there before, told row by row in recorded order."""

    def __init__(self) -> None:
        """Nothing was there before."""
        self._streams: dict[str, _Stream] = {}

    def again(self, row: Row) -> bool:
        """Whether this row, which has no id, is a repeat."""
        generation = row.ref.generation
        stream = self._streams.get(row.ref.stream)
        if stream is None:
            stream = self._streams[row.ref.stream] = _Stream(generation)
        if generation != stream.generation:
            for name, count in stream.now.items():
                stream.before[name] = max(count, stream.before[name])
            stream.generation, stream.now = generation, Counter()
        name = blake2b(row.raw, digest_size=_DIGEST).digest()
        stream.now[name] += 1
        return generation > 1 and stream.now[name] <= stream.before[name]
