"""Rewrites: rows without an id of their own that a later generation of their file says again.

A client that writes its whole file anew repeats what stood there before. Rows with ids are recognised by them; of the
others as many are repeats as stood, byte for byte the same, in an earlier generation.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from forensic.model import Row

__all__ = ["Rewrites"]

_DIGEST = 16


class Rewrites:
    """Which rows were there before, told row by row in recorded order."""

    def __init__(self) -> None:
        """Nothing was there before."""
        self._before: dict[str, Counter[bytes]] = {}
        self._now: Counter[bytes] = Counter()
        self._at = ("", 0)

    def again(self, row: Row) -> bool:
        """Whether this row, which has no id, is a repeat."""
        stream, generation = row.ref.stream, row.ref.generation
        if (stream, generation) != self._at:
            was, _ = self._at
            self._before[was] = self._before.get(was, Counter()) | self._now
            self._now = Counter()
            self._at = (stream, generation)
        name = blake2b(row.raw, digest_size=_DIGEST).digest()
        self._now[name] += 1
        return generation > 1 and self._now[name] <= self._before.get(stream, Counter())[name]
