"""What is left of a member, summed up line by line as it is found."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from forensic.model import Gap, Generation, GenerationEvidence, Payload, Ref, Row
from forensic.ustar import Defect
from forensic.wrapping import NotWrapped, PayloadSum, unwrap_payload, unwrap_row

__all__ = ["PayloadsLeft", "RowsLeft", "by_number", "by_offset", "merged", "payloads_of", "rows_of", "sound"]

Line = TypeVar("Line", Row, Payload)

_REASON: Final = "lost with a damaged part of the bundle"


class RowsLeft:
    """The rows that are left of one generation, in order, and the holes between them."""

    def __init__(self, stream: str, number: int, gaps: Iterable[Gap] = ()) -> None:
        """`gaps` are those that were there before."""
        self._stream = stream
        self._number = number
        self._known = {(gap.offset, gap.bytes): gap for gap in gaps}
        self._digest = hashlib.sha256()
        self._bytes = self.rows = self._offset = 0
        self._line = 1
        self._ended = False
        self.gaps: list[Gap] = []

    def take(self, row: Row) -> bool:
        """Whether the row can stand after those before it."""
        offset, hole = row.ref.offset, row.ref.offset - self._offset
        if self._ended or hole < 0 or row.line < self._line or (not hole and row.line != self._line):
            return False
        self._hole(offset)
        self._digest.update(row.raw + row.end)
        self._bytes += len(row.raw) + len(row.end)
        self.rows += 1
        self._offset, self._line = offset + len(row.raw) + len(row.end), row.line + 1
        self._ended = not row.end
        return True

    def end(self, offset: int) -> None:
        """The generation went on to there."""
        self._hole(offset)

    def _hole(self, offset: int) -> None:
        here, size = self._offset, offset - self._offset
        if size > 0:
            lost = Gap(stream=self._stream, generation=self._number, offset=here, bytes=size, reason=_REASON)
            self.gaps.append(self._known.get((here, size), lost))
            self._offset = offset

    def generation(self, before: Generation | None = None) -> Generation:
        """What is left, described as it was before."""
        sha256 = self._digest.hexdigest()
        if before is None:
            return Generation(bytes=self._bytes, rows=self.rows, sha256=sha256)
        return replace(before, bytes=self._bytes, rows=self.rows, sha256=sha256)


class PayloadsLeft:
    """The payloads that are left, in order."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._sum = PayloadSum()
        self._latest = 0

    def take(self, payload: Payload) -> bool:
        """Whether the payload can stand after those before it."""
        if payload.ref != Ref("hooks", 1, payload.n) or payload.n <= self._latest:
            return False
        self._latest = payload.n
        self._sum.add(payload.raw)
        return True

    def evidence(self) -> tuple[GenerationEvidence, ...]:
        """What identifies them."""
        return self._sum.evidence()


def rows_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Row]]:
    """Those of the lines that are wrapped rows, with the row of each."""
    for line in lines:
        with contextlib.suppress(NotWrapped):
            yield line, unwrap_row(line)


def payloads_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Payload]]:
    """Those of the lines that are wrapped payloads, with the payload of each."""
    for line in lines:
        with contextlib.suppress(NotWrapped):
            yield line, unwrap_payload(line)


def by_offset(found: tuple[bytes, Row]) -> int:
    """The order of rows."""
    return found[1].ref.offset


def by_number(found: tuple[bytes, Payload]) -> int:
    """The order of payloads."""
    return found[1].n


def merged(
    placed: Iterable[tuple[bytes, Line]],
    astray: Iterable[tuple[bytes, Line]],
    key: Callable[[tuple[bytes, Line]], int],
) -> Iterator[tuple[bytes, Line]]:
    """Lines whose place is known, and in between those whose place is not."""
    return heapq.merge(placed, sorted(astray, key=key), key=key)


def sound(lines: Iterable[bytes], read: Callable[[bytes], object]) -> Iterator[bytes]:
    """Those of the lines that can be read."""
    for line in lines:
        with contextlib.suppress(Defect):
            read(line.removesuffix(b"\n"))
            yield line
