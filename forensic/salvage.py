"""Salvage: a new, valid bundle out of what a damaged one still holds (docs/bundle.md section 9).

A member whose hash holds comes along whole. Of a damaged one every line comes along that is whole and canonically
wrapped, and the member is named in ``salvaged_from.unverified``, so that every row of it says so when it is read.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from forensic.bundle import FORMAT, Bundle, content_id_of, evidence_of, open_bundle, seal, write_manifest
from forensic.errors import AlreadyThere, Damaged, NewerFormat, NoSuchPath, NotABundle, NotReadable, WriteFailed
from forensic.manifest import MANIFEST, is_room, owners_of
from forensic.model import (
    Capture,
    CaptureState,
    Gap,
    Generation,
    Manifest,
    Member,
    Role,
    Salvaged,
    Source,
)
from forensic.reading import read_binding, read_object
from forensic.remains import PayloadsLeft, RowsLeft, by_number, by_offset, merged, payloads_of, rows_of, sound
from forensic.ustar import Defect, extent, valid_name
from forensic.wrapping import LineReader
from forensic.wreck import Scrap, Wreck

__all__ = ["Salvage", "salvage"]


_MOST_GENERATIONS: Final = 1000
"""A number that a row claims of itself is not believed beyond this."""
_NOWHERE: Final = Capture(
    recorder="forensic salvage", python="", platform="", zone="", utc_offset=0, started="", sealed_at=""
)


class Salvage(Struct, frozen=True, kw_only=True):
    """What came of it: members whole, members in part, members lost; rows and payloads in the new bundle."""

    content_id: str
    bundle_id: str
    verified: tuple[str, ...]
    unverified: tuple[str, ...]
    lost: tuple[str, ...]
    rows: int
    payloads: int


def salvage(source: Path, target: Path) -> Salvage:
    """Make a new bundle at `target` of what is sound in the damaged bundle `source`, which is only read.

    Raises `NoSuchPath`, `NotReadable`, `NotABundle` and `Damaged` (nothing can be recovered), `NewerFormat`, and what
    `forensic.bundle.seal` raises.
    """
    if source.is_dir():
        raise NotABundle(path=source, detail="a folder: salvage works on sealed bundles")
    if source.exists() and not source.is_file():
        raise NotABundle(path=source, detail="no regular file")
    if target.exists():
        raise AlreadyThere(path=target)
    try:
        stream = source.open("rb")
    except FileNotFoundError:
        raise NoSuchPath(path=source) from None
    except OSError as error:
        raise NotReadable(path=source, detail=error.strerror or type(error).__name__) from None
    with stream:
        try:
            wreck = Wreck(stream)
        except Defect as defect:
            raise NewerFormat(path=source, detail=str(defect)) from None
        if not wreck.sound:
            raise Damaged(path=source, detail="nothing can be recovered: no part of it is sound")
        return _assemble(source, wreck, target)


def _assemble(source: Path, wreck: Wreck, target: Path) -> Salvage:
    try:
        directory = Path(tempfile.mkdtemp(prefix=".salvaging-", dir=target.parent))
    except OSError as error:
        raise WriteFailed(path=target, detail=error.strerror or type(error).__name__) from None
    try:
        for room in ("transcripts", "files"):
            (directory / room).mkdir(mode=0o700)
        manifest = wreck.manifest
        found = _Lost(wreck, directory).recover() if manifest is None else _Known(wreck, manifest, directory).recover()
        _judge(source, found)
        with _create(directory / MANIFEST) as out:
            out.write(write_manifest(found))
        seal(directory, target)
    except Damaged as error:
        raise Damaged(path=source, detail=error.fields["detail"]) from None
    except OSError as error:
        raise WriteFailed(path=target, detail=error.strerror or type(error).__name__) from None
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return _report(open_bundle(target))


def _judge(source: Path, found: Manifest) -> None:
    left = any(each.bytes for stream in found.evidence.streams for each in stream.generations)
    if not left and not found.evidence.payloads:
        raise Damaged(path=source, detail="nothing can be recovered: no row and no file of it is whole")


def _report(bundle: Bundle) -> Salvage:
    manifest = bundle.manifest
    salvaged = manifest.salvaged_from or Salvaged(content_id="", bundle_id="")
    return Salvage(
        content_id=bundle.content_id,
        bundle_id=str(bundle.bundle_id),
        verified=tuple(sorted(manifest.members.keys() - {*salvaged.unverified, *salvaged.lost})),
        unverified=salvaged.unverified,
        lost=salvaged.lost,
        rows=sum(each.rows for stream in manifest.evidence.streams for each in stream.generations),
        payloads=sum(counted.rows for counted in manifest.evidence.payloads),
    )


def _create(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600), "wb")


class _Known:
    """Recovery by a manifest that is sound: it tells where every member stands and what it must be."""

    def __init__(self, wreck: Wreck, manifest: Manifest, directory: Path) -> None:
        self._wreck = wreck
        self._manifest = manifest
        self._directory = directory
        self._owners = owners_of(manifest)
        self._rows: dict[str, RowsLeft] = {}
        self._payloads = manifest.evidence.payloads
        self._unverified: list[str] = []
        self._lost: list[str] = []
        self._astray: list[bytes] = [scrap.data for scrap in wreck.scraps()]

    def recover(self) -> Manifest:
        """Write what is left; the manifest of it."""
        manifest = self._manifest
        start = extent(len(self._wreck.raw))
        for name in sorted(manifest.members):
            member = manifest.members[name]
            if name != "recorded.json" and not (_is_ours(name) and self._copy(name, start, member)):
                self._pick(name, start, member.size)
            start += extent(member.size)
        sources = tuple(map(self._source, manifest.sources))
        earlier = manifest.salvaged_from or Salvaged(content_id="", bundle_id="")
        gaps = [gap for gap in manifest.gaps if not self._is_counted_anew(gap)]
        return replace(
            manifest,
            evidence=evidence_of(sources, self._payloads),
            sources=sources,
            gaps=(*gaps, *(gap for rows in self._rows.values() for gap in rows.gaps)),
            supersedes=(),
            salvaged_from=Salvaged(
                content_id=content_id_of(manifest.evidence),
                bundle_id=hashlib.sha256(self._wreck.raw).hexdigest(),
                lost=tuple(sorted({*earlier.lost, *self._lost})),
                unverified=tuple(sorted({*earlier.unverified, *self._unverified} - set(self._lost))),
            ),
            members={},
        )

    def _copy(self, name: str, start: int, member: Member) -> bool:
        """Write the member as it stands. False when it is not all there, or not what the manifest says."""
        digest = hashlib.sha256()
        size = 0
        with _create(self._directory / name) as out:
            for offset, data in self._wreck.pieces(start + 512, member.size):
                if offset == size:
                    out.write(data)
                    digest.update(data)
                    size += len(data)
        return size == member.size and digest.hexdigest() == member.sha256

    def _pick(self, name: str, start: int, size: int) -> None:
        """Write the lines of a damaged member that are whole."""
        written = 0
        if _is_ours(name):
            path = self._directory / name
            path.unlink()
            if name.endswith(".jsonl"):
                with _create(path) as out:
                    for line in self._lines(name, start + 512, size):
                        out.write(line)
                        written += 1
        (self._unverified if written else self._lost).append(name)

    def _lines(self, name: str, start: int, size: int) -> Iterator[bytes]:
        lines = self._whole_lines(start, size)
        if name in self._owners:
            source, number = self._owners[name]
            return self._sound_rows(name, source, number, lines)
        if name == "payloads.jsonl":
            return self._sound_payloads(lines)
        return sound(lines, read_binding if name == "bindings.jsonl" else read_object)

    def _whole_lines(self, start: int, size: int) -> Iterator[bytes]:
        reader, due = LineReader(), 0
        for offset, data in self._wreck.pieces(start, size):
            if offset != due:
                reader = LineReader()
            due = offset + len(data)
            yield from (line + b"\n" for line in reader.whole(data).split(b"\n")[:-1])

    def _sound_rows(self, name: str, source: Source, number: int, lines: Iterator[bytes]) -> Iterator[bytes]:
        generation = source.generations[number - 1]
        gaps = [gap for gap in self._manifest.gaps if (gap.stream, gap.generation) == (source.stream, number)]
        rows = self._rows[name] = RowsLeft(source.stream, number, gaps)
        for line, row in merged(rows_of(lines), rows_of(self._astray), by_offset):
            if (row.ref.stream, row.ref.generation) == (source.stream, number) and rows.take(row):
                yield line
        rows.end(generation.bytes + sum(gap.bytes for gap in gaps))

    def _sound_payloads(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        payloads = PayloadsLeft()
        for line, payload in merged(payloads_of(lines), payloads_of(self._astray), by_number):
            if payloads.take(payload):
                yield line
        self._payloads = payloads.evidence()

    def _source(self, source: Source) -> Source:
        left: list[tuple[str, Generation]] = []
        for name, generation in zip(source.members, source.generations, strict=True):
            rows = self._rows.get(name)
            if rows is not None:
                left.append((name, rows.generation(generation)))
            elif name not in self._lost:
                left.append((name, generation))
        names, generations = tuple(name for name, _ in left), tuple(generation for _, generation in left)
        if generations == source.generations:
            return source
        gone = not any(generation.bytes for generation in generations)
        stream = names[0] if names and source.role is Role.SIDE else source.stream
        state = CaptureState.LOST if gone else source.state
        return replace(
            source, stream=stream, members=names, generations=generations, state=state, unread=None, gap=True
        )

    def _is_counted_anew(self, gap: Gap) -> bool:
        return any(
            self._owners[name][0].stream == gap.stream and self._owners[name][1] == gap.generation
            for name in self._rows
        )


def _is_ours(name: str) -> bool:
    """Whether a name is one of those that this version gives: no other name is written, be it as harmless as it may."""
    return valid_name(name) and is_room(name)


class _Lost:
    """Recovery without a manifest: rows and payloads say themselves what they are, side files only that they were."""

    def __init__(self, wreck: Wreck, directory: Path) -> None:
        self._wreck = wreck
        self._directory = directory
        self._streams: dict[str, dict[int, tuple[RowsLeft, Path]]] = {}
        self._count = 0
        self._payloads = PayloadsLeft()
        self._sides: list[Generation] = []
        self._side: tuple[str, list[bytes]] = ("", [])
        self._open: tuple[Path, BinaryIO] | None = None

    def recover(self) -> Manifest:
        """Write what is left; a manifest of it that claims nothing more."""
        try:
            for scrap in self._wreck.scraps(everything=True):
                if scrap.member.startswith("files/"):
                    self._take_side(scrap)
                else:
                    self._take_line(scrap.data)
        finally:
            self._close()
        sources = (*self._row_sources(), *self._side_sources())
        payloads = self._payloads.evidence()
        rooms = [name for source in sources for name in source.members] + ["payloads.jsonl"] * bool(payloads)
        return Manifest(
            format=FORMAT,
            evidence=evidence_of(sources, payloads),
            harness="unknown",
            session="",
            sources=sources,
            capture=_NOWHERE,
            gaps=tuple(gap for found in self._streams.values() for rows, _ in found.values() for gap in rows.gaps),
            salvaged_from=Salvaged(content_id="", bundle_id="", lost=(MANIFEST,), unverified=tuple(sorted(rooms))),
        )

    def _take_side(self, scrap: Scrap) -> None:
        name, parts = self._side
        if name != scrap.member:
            parts = []
        parts.append(scrap.data)
        self._side = ("", []) if scrap.last else (scrap.member, parts)
        if scrap.last and scrap.whole == sum(map(len, parts)):
            content = b"".join(parts)
            self._sides.append(Generation(bytes=len(content), rows=0, sha256=hashlib.sha256(content).hexdigest()))
            with _create(self._directory / f"files/{len(self._sides):06d}") as out:
                out.write(content)

    def _take_line(self, line: bytes) -> None:
        for _, row in rows_of([line]):
            stream, number = row.ref.stream, row.ref.generation
            if stream != "hooks" and not stream.startswith("files/") and number <= _MOST_GENERATIONS:
                rows, path = self._generation(stream, number)
                if rows.take(row):
                    self._append(path, line)
            return
        for _, payload in payloads_of([line]):
            if self._payloads.take(payload):
                self._append(self._directory / "payloads.jsonl", line)

    def _generation(self, stream: str, number: int) -> tuple[RowsLeft, Path]:
        found = self._streams.setdefault(stream, {})
        if number not in found:
            self._count += 1
            found[number] = (RowsLeft(stream, number), self._directory / f"rows-{self._count}")
        return found[number]

    def _append(self, path: Path, line: bytes) -> None:
        if self._open is None or self._open[0] != path:
            self._close()
            self._open = (path, os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb"))
        self._open[1].write(line)

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _row_sources(self) -> Iterator[Source]:
        count = itertools.count(1)
        for stream, found in self._streams.items():
            names = []
            generations = []
            for number in range(1, max(found) + 1):
                rows, scratch = self._generation(stream, number)
                names.append(f"transcripts/{next(count):06d}.jsonl")
                generations.append(rows.generation())
                if rows.rows:
                    scratch.rename(self._directory / names[-1])
                else:
                    _create(self._directory / names[-1]).close()
            yield Source(
                stream=stream,
                role=Role.MAIN if stream == "main" else Role.SUBAGENT,
                native_id="",
                found_by="salvage",
                state=CaptureState.LOST,
                generations=tuple(generations),
                members=tuple(names),
                gap=True,
            )

    def _side_sources(self) -> Iterator[Source]:
        for number, generation in enumerate(self._sides, start=1):
            name = f"files/{number:06d}"
            yield Source(
                stream=name,
                role=Role.SIDE,
                native_id="",
                found_by="salvage",
                state=CaptureState.LOST,
                generations=(generation,),
                members=(name,),
            )
