"""Copying out of an earlier bundle what the disk no longer has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from forensic import private
from forensic.bundle import Bundle
from forensic.model import Entry, Payload, Row
from forensic.wrapping import wrap_payload, wrap_row

__all__ = ["carry"]


def carry(previous: Bundle, directory: Path, wanted: Mapping[tuple[str, int], str]) -> None:
    """Write all payloads of a bundle, and those generations of its sources that `wanted` gives a member name.

    One pass over the bundle, strict as it goes: raises `Damaged`.
    """
    for member in wanted.values():
        private.create(directory / member).close()
    if not wanted and not previous.manifest.evidence.payloads:
        return
    copy = _Copy(directory, wanted)
    try:
        for entry in previous.timeline():
            copy.add(entry)
    finally:
        copy.close()


class _Copy:
    """The one member that is being written."""

    def __init__(self, directory: Path, wanted: Mapping[tuple[str, int], str]) -> None:
        self._directory = directory
        self._wanted = wanted
        self._member = ""
        self._out: BinaryIO | None = None

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Payload):
            self._open("payloads.jsonl").write(wrap_payload(entry))
            return
        member = self._wanted.get((entry.ref.stream, entry.ref.generation))
        if member is None:
            return
        out = self._open(member)
        out.write(wrap_row(entry.ref, entry.line, entry.raw, entry.end) if isinstance(entry, Row) else entry.raw)

    def _open(self, member: str) -> BinaryIO:
        if self._out is None or member != self._member:
            self.close()
            self._member, self._out = member, (self._directory / member).open("ab")
        return self._out

    def close(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None
