"""Recording one session that lies on disk: every byte of it, into an unpacked recording directory.

With the session's earlier bundle at hand the new recording holds all that the earlier one held: what is gone from disk
is carried over, and what was rewritten stands beside its earlier form as an earlier generation.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec.structs import replace

from forensic import __version__, private
from forensic.bundle import Bundle
from forensic.capture.carry import carry
from forensic.capture.context import repository
from forensic.capture.found import Drain, Found, Piece
from forensic.capture.keys import Keys
from forensic.capture.plan import Plan, follows, make_plan, unchanged
from forensic.capture.tail import Tail
from forensic.capture.walk import Report, shown
from forensic.errors import Damaged, WriteFailed
from forensic.harness import HARNESSES
from forensic.jsonio import NotJson, canonical, decode, deeper_than
from forensic.manifest import FORMAT, content_id_of, evidence_of
from forensic.model import (
    Binding,
    Capture,
    CaptureState,
    Finding,
    Gap,
    Generation,
    GenerationEvidence,
    Ground,
    Manifest,
    Payload,
    Ref,
    Role,
    Source,
    Unread,
)
from forensic.wrapping import PayloadSum, read_payloads, wrap_payload, wrap_row

__all__ = ["Clock", "follows", "record", "unchanged"]

Clock = Callable[[], datetime]
"""Gives the time now, with its zone."""

_ATTEMPTS: Final = 3
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def local_now() -> datetime:
    """The time now, in the zone of this computer."""
    return datetime.now().astimezone()


def record(  # noqa: PLR0913 -- what to record, where to, and three things that tests set
    found: Found,
    directory: Path,
    previous: Bundle | None = None,
    *,
    started: datetime | None = None,
    now: Clock = local_now,
    report: Report = lambda _: None,
) -> Manifest:
    """Record one session and return its manifest, which is in the directory too (its table of members is empty).

    `previous` is the bundle to continue; it is left aside when it does not belong to these files (see `follows`) or
    cannot be read. `started` is when the capture began, by default the moment of the call. Raises `NoSuchPath` and
    `NotReadable` when nothing of the session can be read any more, `WriteFailed` when the directory cannot be written.
    """
    if started is None and found.live is not None:
        started = (_EPOCH + timedelta(microseconds=found.live.wall // 1000)).astimezone()
    started = started or now()
    if previous is not None and not follows(found, previous.manifest):
        previous = None
    try:
        return _Recorder(found, directory, previous, started, report).run(now)
    except Damaged as error:
        # new evidence must not wait for the repair of an old bundle
        report(Finding(kind="previous-damaged", note=f"recorded without the earlier bundle: {error}", problem=True))
        _clear(directory)
        return _Recorder(found, directory, None, started, report).run(now)


def _clear(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


class _Recorder:
    """The recording of one session, from plan to manifest."""

    def __init__(
        self, found: Found, directory: Path, previous: Bundle | None, started: datetime, report: Report
    ) -> None:
        self._found = found
        self._directory = directory
        self._previous = previous
        self._before = previous.manifest if previous is not None else None
        self._started = started
        self._report = report
        self._keys = Keys(HARNESSES[found.harness], self._before.producer_versions if self._before else ())
        self._gaps: list[Gap] = []
        self._numbers: list[int] = []
        """The number that each payload which was recorded live has in the end."""
        self._carried = 0
        self._drained: dict[tuple[str, int], tuple[Drain, ...]] = {}

    def run(self, now: Clock) -> Manifest:
        """Write everything; the manifest comes last."""
        plans = make_plan(self._found, self._before, self._report)
        try:
            for folder in (self._directory, self._directory / "transcripts", self._directory / "files"):
                private.folder(folder)
            private.create(self._directory / "payloads.jsonl").close()
            self._carry(plans)
            payloads = self._payloads()
            sources = tuple(map(self._source, plans))
            self._write("bindings.jsonl", self._bindings(sources))
            self._write("context.jsonl", self._context())
            manifest = self._manifest(sources, payloads, now)
            self._write("manifest.json", [manifest])
        except OSError as error:
            raise WriteFailed(path=self._directory, detail=error.strerror or type(error).__name__) from None
        return manifest

    def _carry(self, plans: list[Plan]) -> None:
        if self._previous is not None:
            wanted = {
                (plan.before.stream, generation): member
                for plan in plans
                for generation, member in enumerate(plan.members[: plan.kept], start=1)
            }
            carry(self._previous, self._directory, wanted)

    def _payloads(self) -> tuple[GenerationEvidence, ...]:
        """Add the payloads that were recorded live to those that were carried over; all of them as evidence counts."""
        live = self._found.live
        if live is None:
            return self._before.evidence.payloads if self._before is not None else ()
        total = PayloadSum()
        earlier: dict[bytes, int] = {}
        path = self._directory / "payloads.jsonl"
        for payload in read_payloads(path):
            total.add(payload.raw)
            earlier[_envelope(payload)] = payload.n
        latest = max(earlier.values(), default=0)
        with path.open("ab") as out:
            for payload in read_payloads(live.payloads):
                number = earlier.get(_envelope(payload))
                if number is None:
                    number = latest = latest + 1
                    total.add(payload.raw)
                    out.write(wrap_payload(replace(payload, n=number, ref=Ref("hooks", 1, number))))
                self._numbers.append(number)
        self._carried = self._numbers[0] - 1 if self._numbers else latest
        return total.evidence()

    def _source(self, plan: Plan) -> Source:
        before = plan.before
        generations = before.generations[: plan.kept]
        self._gaps.extend(
            replace(gap, stream=plan.stream)
            for gap in (self._before.gaps if self._before else ())
            if gap.stream == before.stream and gap.generation <= plan.kept
        )
        if plan.piece is not None:
            if generations and plan.kept == len(before.generations):
                generations = (*generations[:-1], replace(generations[-1], ended_by="rewritten"))
            read = self._copied if plan.piece.lives else self._read
            return read(plan, plan.piece, generations)
        if self._found.live is not None and before.state in (CaptureState.REFUSED, CaptureState.MISSED):
            return replace(before, stream=plan.stream, members=plan.members)
        there = Path(before.path).exists()
        state = CaptureState.MISSED if not generations else before.state if there else CaptureState.LOST
        return replace(before, stream=plan.stream, state=state, generations=generations, members=plan.members)

    def _read(self, plan: Plan, piece: Piece, generations: tuple[Generation, ...]) -> Source:
        number = len(generations) + 1
        copy = _copy_bytes if piece.role is Role.SIDE else self._wrap_rows
        for attempt in range(1, _ATTEMPTS + 1):
            target = self._directory / plan.members[-1]
            with Tail(piece.path, unpack=piece.role is not Role.SIDE) as tail, private.create(target) as out:
                last = copy(tail, out, plan.stream, number)
                changed = tail.changed()
            if changed is None or attempt == _ATTEMPTS:
                break
            target.unlink()
        reason = self._trouble(tail, changed)
        if tail.missing:
            self._gaps.append(
                Gap(stream=plan.stream, generation=number, offset=tail.read, bytes=tail.missing, reason=reason)
            )
        generation = Generation(
            bytes=tail.read, rows=tail.rows, sha256=tail.sha256, dev=tail.dev, ino=tail.ino, mtime_ns=tail.mtime_ns
        )
        return Source(
            stream=plan.stream,
            role=piece.role,
            native_id=piece.native_id,
            path=shown(piece.path),
            parent=piece.parent,
            found_by=piece.found_by,
            state=CaptureState.NAMED,
            encoding=tail.encoding,
            generations=(*generations, generation),
            members=plan.members,
            unread=None if tail.unread is None else Unread(*tail.unread),
            partial=tail.unread is not None and not _is_whole(last),
            gap=tail.missing > 0,
        )

    def _copied(self, plan: Plan, piece: Piece, generations: tuple[Generation, ...]) -> Source:
        """A file that was followed: its generations are read from their copies, which nobody else writes."""
        copy = _copy_bytes if piece.role is Role.SIDE else self._wrap_rows
        last: bytes = b""
        unread: Unread | None = None
        for number, life in enumerate(piece.lives, start=len(generations) + 1):
            target = self._directory / plan.members[number - 1]
            with Tail(life.copy) as tail, private.create(target) as out:
                last = copy(tail, out, plan.stream, number)
            generation = Generation(
                bytes=tail.read,
                rows=tail.rows,
                sha256=tail.sha256,
                dev=life.dev,
                ino=life.ino,
                mtime_ns=life.mtime_ns,
                ended_by=life.ended_by,
            )
            generations = (*generations, generation)
            unread = None if tail.unread is None else Unread(*tail.unread)
            mine = (drain for drain in piece.drains if drain.generation == number - plan.kept)
            self._drained[plan.stream, number] = tuple(mine)
        return Source(
            stream=plan.stream,
            role=piece.role,
            native_id=piece.native_id,
            path=shown(piece.path),
            parent=piece.parent,
            found_by=piece.found_by,
            state=piece.state,
            generations=generations,
            members=plan.members,
            unread=unread,
            partial=unread is not None and not _is_whole(last),
            reason=piece.reason,
        )

    def _trouble(self, tail: Tail, changed: str | None) -> str:
        """Say why bytes of a file are missing, if they are; the reason for their gap."""
        if changed is not None:
            note = f"{shown(tail.path)} {changed} while it was read; {tail.missing} bytes of it are missing"
            self._report(Finding(kind="changed-while-read", note=note, problem=True))
            return f"the file {changed} while it was read"
        if tail.damage is not None:
            note = f"{shown(tail.path)} cannot be unpacked beyond the first {tail.read} bytes of content: {tail.damage}"
            self._report(Finding(kind="not-unpacked", note=note, problem=True))
        return f"the compressed file cannot be unpacked any further: {tail.damage}; counted as compressed"

    def _wrap_rows(self, tail: Tail, out: BinaryIO, stream: str, generation: int) -> bytes:
        """Write the rows of a file, wrapped; gives the last of them."""
        line = 0
        raw = b""
        for start, block in tail.blocks():
            self._keys.scan(block)
            offset = start
            rows = block.split(b"\n")
            rest = rows.pop()
            wrapped = []
            for raw in rows:
                line += 1
                wrapped.append(wrap_row(Ref(stream, generation, offset), line, raw))
                offset += len(raw) + 1
            if rest:
                raw = rest
                wrapped.append(wrap_row(Ref(stream, generation, offset), line + 1, raw, b""))
            out.writelines(wrapped)
        return raw

    def _bindings(self, sources: tuple[Source, ...]) -> Iterator[Binding]:
        """Earlier bindings, then those of each drain, then one for all rows of a generation that none of them bound."""
        bound: dict[tuple[str, int], int] = {}
        for binding in self._previous.bindings() if self._previous is not None else ():
            key = (binding.stream, binding.generation)
            bound[key] = max(bound.get(key, 0), binding.rows[1])
            yield binding
        wall = (self._started - _EPOCH) // timedelta(microseconds=1) * 1000
        for source in sources:
            for number, generation in enumerate(source.generations, start=1):
                first = bound.get((source.stream, number), 0)
                drains = self._drained.get((source.stream, number), ())
                for drain in drains:
                    # a row without an end is the last one, and no line feed counted it
                    end = generation.rows if drain is drains[-1] else drain.rows[1]
                    rows = (max(first, drain.rows[0]), end)
                    if rows[0] < rows[1]:
                        first = end
                        yield Binding(
                            stream=source.stream,
                            generation=number,
                            rows=rows,
                            after=self._after(drain.after),
                            ground=drain.ground,
                            wall=drain.wall,
                            mono=drain.mono,
                        )
                if first < generation.rows:
                    rows = (first, generation.rows)
                    ground = Ground.NAMED if self._found.live is None else Ground.BOUNDARY
                    yield Binding(stream=source.stream, generation=number, rows=rows, ground=ground, wall=wall)

    def _after(self, recorded: int) -> int | None:
        """The number of the last payload before rows that were read when so many had been recorded live."""
        if recorded == 0:
            return self._carried or None
        return self._numbers[recorded - 1] if recorded <= len(self._numbers) else None

    def _context(self) -> Iterator[dict[str, Any]]:
        """What was known of working folders before, then what is known now and differs from it."""
        known: dict[str, dict[str, Any]] = {}
        for facts in self._previous.context() if self._previous is not None else ():
            known[facts.get("cwd", "")] = facts
            yield facts
        live = self._found.live.context if self._found.live is not None else ()
        for facts in live:
            if facts != known.get(facts["cwd"]):
                known[facts["cwd"]] = facts
                yield facts
        for folder in dict.fromkeys((*self._keys.folders, *(facts["cwd"] for facts in live))):
            found = repository(folder)
            if found is not None and found != known.get(folder):
                yield found

    def _manifest(self, sources: tuple[Source, ...], payloads: tuple[GenerationEvidence, ...], now: Clock) -> Manifest:
        before = self._before
        evidence = evidence_of(sources, payloads)
        earlier = self._previous.content_id if self._previous is not None else None
        return Manifest(
            format=FORMAT,
            evidence=evidence,
            harness=self._found.harness,
            session=self._found.session,
            producer_versions=tuple(self._keys.versions),
            sources=sources,
            capture=_capture(self._started, now()),
            gaps=tuple(self._gaps),
            supersedes=() if earlier in (None, content_id_of(evidence)) else (str(earlier),),
            forked_from=self._found.forked_from or (before.forked_from if before is not None else None),
        )

    def _write(self, name: str, values: Iterable[object]) -> None:
        with private.create(self._directory / name) as out:
            out.writelines(canonical(value) + b"\n" for value in values)


def _copy_bytes(tail: Tail, out: BinaryIO, stream: str, generation: int) -> bytes:  # noqa: ARG001 -- as _wrap_rows
    out.writelines(tail.chunks())
    return b""


def _envelope(payload: Payload) -> bytes:
    """What makes a payload the same one, whatever its number."""
    return hashlib.sha256(wrap_payload(replace(payload, n=0, ref=Ref("hooks", 1, 0)))).digest()


def _is_whole(row: bytes) -> bool:
    """Whether a row without its line feed is whole JSON all the same."""
    row = row.removeprefix(b"\xef\xbb\xbf")
    if deeper_than(row):
        return row.rstrip().endswith(b"}")
    try:
        decode(row)
    except NotJson:
        return False
    return True


def _capture(started: datetime, ended: datetime) -> Capture:
    offset = started.utcoffset()
    return Capture(
        recorder=f"forensic {__version__}",
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        zone=started.tzname() or "",
        utc_offset=0 if offset is None else int(offset.total_seconds()),
        started=_rfc3339(started),
        sealed_at=_rfc3339(ended),
    )


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
