"""Accounts: what sessions tell of usage, read from raw files, bundles and archives, and from nothing else twice.

Most bytes of a transcript say nothing of usage: rows are looked for by the needles of their dialect and only those
found are decoded. Large inputs are shared out among processes. What a bundle of an archive tells is remembered beside
the archive by the bundle's content; that file may be deleted at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forensic.bundle import open_bundle
from forensic.capture.found import Found, Piece
from forensic.capture.tail import Tail
from forensic.crew import helped, shared
from forensic.dialects.parser import Parser
from forensic.dialects.registry import parser
from forensic.errors import ForensicError
from forensic.model import UNREAD, Observation, Ref, Response, Role, Row, SessionStart, Told
from forensic.replay.counters import spent
from forensic.replay.kinds import SPOKEN
from forensic.replay.ledger import Account
from forensic.replay.lineage import Lines, Snapshot, snapshots, trace
from forensic.replay.player import play
from forensic.replay.rewrites import Rewrites
from forensic.replay.usage import Tally, tally, tally_told, told_of

__all__ = ["Work", "account", "accounts", "settled"]

_AGENTS: Final = (Role.SUBAGENT, Role.THREAD)
_SHARED: Final = 48_000_000
"""Bytes from which another process is worth its start."""
_MOST: Final = 8
_CHUNK: Final = 1 << 16
"""Bytes read at a time: what was read is still near when it is searched."""
_CR: Final = 13

Step = Callable[[int], None]
Parents = dict[str, list[Snapshot]] | None
Short = Callable[[bytes, str, str | None], Told | None]

_decode: Final = msgspec.msgpack.Decoder(Account).decode


class Work(Struct, frozen=True, kw_only=True):
    """One session to read: raw files, or a recording at `bundle`, which says itself whose it is.

    `size` is how many bytes that is about.
    """

    harness: str = ""
    session: str = ""
    place: str
    size: int
    found: Found | None = None
    bundle: Path | None = None


def account(work: Work, parents: Parents = None) -> Account:
    """What one session tells. `parents` are running totals of threads that it may have taken its history from.

    A file that cannot be read is a problem of the account, and what the others tell stands.
    """
    if work.bundle is not None:
        return _sealed(work, work.bundle, parents)
    return _read(work, parents)


def _sealed(work: Work, path: Path, parents: Parents) -> Account:
    try:
        bundle = open_bundle(path)
    except (ForensicError, OSError) as error:
        problem = str(error) if isinstance(error, ForensicError) else f"{path}: {error}"
        return Account("", "", work.place, Tally([], [], []), problems=[_plain(problem)])
    manifest = bundle.manifest
    found = _read(replace(work, harness=manifest.harness, session=manifest.session), parents)
    found.content_id, found.supersedes = bundle.content_id, list(manifest.supersedes)
    return found


def _read(work: Work, parents: Parents) -> Account:
    reads = parser(work.harness)
    problems: list[str] = []
    if reads.meter is not None and reads.meter.read is not None:
        found = tally_told(_told(work, reads, reads.meter.read, problems))
        return _heard(Account(work.harness, work.session, work.place, found, problems=problems), work, reads)
    needles = None if reads.meter is None else reads.meter.needles
    seen = _seen(_rows(work, needles, problems), reads.measure)
    lines = trace(seen)
    if any(line.origin is not None for line in lines.by_stream.values()):
        # where history ends shows only in the times of all rows
        problems.clear()
        seen = _seen(_rows(work, None, problems), reads.time)
        lines = trace(seen, parents)
    found = tally(spent(seen, lines, work.session))
    made = Account(
        harness=work.harness,
        session=work.session,
        place=work.place,
        tally=found,
        origin=_origin(lines),
        rules=lines.told_apart(work.session),
        totals=_totals(seen, lines),
        unsettled=_unsettled(lines),
        problems=problems,
    )
    return _heard(made, work, reads)


def _heard(made: Account, work: Work, reads: Parser) -> Account:
    """The account, and where it has no call whether a model was asked at all: that only the other rows tell."""
    if not made.tally.calls and not made.problems and reads.rows and reads.tells_usage:
        made.quiet = not _spoke(work, reads) and _known(work, reads)
    return made


def _spoke(work: Work, reads: Parser) -> bool:
    """Whether a model spoke in a session that took nothing along: it is unknown then what that cost."""
    for row in _rows(work, None, []):
        for seen in reads.observe(row):
            if type(seen) in SPOKEN and not (isinstance(seen, Response) and seen.synthetic):
                return True
            if isinstance(seen, SessionStart) and (seen.parent or seen.forked_from):
                return False
    return False


def _known(work: Work, reads: Parser) -> bool:
    """Whether the session's document knows what it cost."""
    if work.bundle is not None:
        manifest = open_bundle(work.bundle).manifest
        if manifest.gaps or any(source.state in UNREAD for source in manifest.sources):
            return False
    problems: list[str] = []
    session = play(_rows(work, None, problems), reads, harness=work.harness, session=work.session)
    return not problems and session.usage["total"]["certainty"]["level"] != "unknown"


def _told(work: Work, reads: Parser, read: Short, problems: list[str]) -> Iterator[Told]:
    """What the rows tell by the short way; of rows that it does not know, what their readers tell."""
    rewrites = Rewrites()
    for row in _rows(work, reads.meter.needles if reads.meter is not None else None, problems):
        try:
            one = read(row.raw, row.ref.stream, row.agent)
        except Exception:  # noqa: BLE001 -- the short way is for rows as they should be; the readers know all
            told = [told_of(seen, seen.usage) for seen in reads.measure(row) if seen.usage is not None]
            if told and (told[0].row is not None or not rewrites.again(row)):
                yield from told
            continue
        if one is not None and (one.row is not None or not rewrites.again(row)):
            yield one


def _seen(rows: Iterable[Row], read: Callable[[Row], Sequence[Observation]]) -> list[Observation]:
    """What the rows tell; those of a rewritten file that stood there before tell nothing new."""
    found: list[Observation] = []
    rewrites = Rewrites()
    for row in rows:
        told = read(row)
        # a raw file has one generation, in which nothing is a repeat
        if told and (row.line == 0 or told[0].id is not None or not rewrites.again(row)):
            found += told
    return found


def _origin(lines: Lines) -> str | None:
    """The thread outside of this session that its main stream names as its origin."""
    main = lines.by_stream.get("main")
    return main.origin if main is not None and main.declared else None


def _totals(seen: Sequence[Observation], lines: Lines) -> dict[str, list[Snapshot]]:
    """The running totals of each thread that has a name."""
    streams: dict[str, list[Observation]] = {}
    for one in seen:
        streams.setdefault(one.ref.stream, []).append(one)
    totals: dict[str, list[Snapshot]] = {}
    for stream, rows in streams.items():
        line = lines.by_stream.get(stream)
        if line is not None and line.thread is not None and (told := list(snapshots(rows))):
            totals.setdefault(line.thread, []).extend(told)
    return totals


def _unsettled(lines: Lines) -> list[str]:
    here = {line.thread for line in lines.by_stream.values()}
    return sorted(
        {
            line.origin
            for line in lines.by_stream.values()
            if line.origin is not None and line.origin not in here and line.rule != "ordinal"
        }
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def _rows(work: Work, needles: tuple[bytes, ...] | None, problems: list[str]) -> Iterator[Row]:
    """The rows of a session that hold one of the needles; all of them without any."""
    if needles == ():
        return
    if work.bundle is not None:
        try:
            yield from (entry for entry in open_bundle(work.bundle).timeline(needles) if type(entry) is Row)
        except ForensicError as error:
            problems.append(_plain(str(error)))
        return
    for piece in work.found.pieces if work.found is not None else ():
        if piece.role is not Role.SIDE:
            try:
                yield from _raw(piece, needles, problems)
            except ForensicError as error:
                problems.append(_plain(str(error)))


def _raw(piece: Piece, needles: tuple[bytes, ...] | None, problems: list[str]) -> Iterator[Row]:
    agent = piece.native_id if piece.role in _AGENTS else None
    stream = piece.stream
    with Tail(piece.path, unpack=True, digest=False, chunk=_CHUNK) as tail:
        for offset, block in tail.blocks():
            for begin, end in _spans(block, needles):
                raw = block[begin : end - (block[end - 1] == _CR)]
                yield Row(ref=Ref(stream, 1, offset + begin), line=0, raw=raw, agent=agent)
        if tail.damage is not None:
            problems.append(_plain(f"{piece.path}: {tail.damage}; what follows is not counted"))


def _plain(problem: str) -> str:
    """A text that any encoder takes; bytes of a path that are no UTF-8 become question marks."""
    return problem.encode("utf-8", "replace").decode()


def _spans(block: bytes, needles: tuple[bytes, ...] | None) -> Iterator[tuple[int, int]]:
    """Where the rows of a block begin and end that hold a needle; without needles, all that are not empty."""
    if needles is None:
        needles = (b"",)
    if len(needles) == 1:
        (needle,) = needles
        at, size = block.find(needle), len(block)
        while 0 <= at < size:
            end = block.find(b"\n", at)
            end = size if end < 0 else end
            begin = block.rfind(b"\n", 0, at) + 1
            if begin < end:
                yield begin, end
            at = block.find(needle, end + 1)
        return
    nexts = {needle: block.find(needle) for needle in needles}
    while True:
        at = min((place for place in nexts.values() if place >= 0), default=-1)
        if at < 0:
            return
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        yield block.rfind(b"\n", 0, at) + 1, end
        for needle, place in nexts.items():
            if 0 <= place < end:
                nexts[needle] = block.find(needle, end)


# --- all of them ------------------------------------------------------------------------------------------------------


def accounts(works: Sequence[Work], step: Step = lambda _: None, jobs: int | None = None) -> list[Account]:
    """The accounts of all sessions, in their order. `step` is told of bytes done, `jobs` bounds the processes."""
    size = sum(work.size for work in works)
    wanted = min(jobs or os.cpu_count() or 1, _MOST, len(works), max(1, size // _SHARED))
    if wanted > 1 and hasattr(os, "fork"):
        return _together(works, wanted, step)
    found = []
    for work in works:
        found.append(account(work))
        step(work.size)
    return found


def settled(works: Sequence[Work], found: Sequence[Account]) -> list[Account]:
    """Read those again whose threads came from threads of other sessions, now that the totals of these are known."""
    wanted = {origin for one in found for origin in one.unsettled}
    known = {thread: totals for one in found for thread, totals in one.totals.items() if thread in wanted}
    return [
        account(work, known) if any(origin in known for origin in one.unsettled) else one
        for work, one in zip(works, found, strict=True)
    ]


def _together(works: Sequence[Work], jobs: int, step: Step) -> list[Account]:
    """The same by several processes; what one of them leaves undone is done here."""
    shares = shared([work.size for work in works], jobs)
    done: dict[int, Account] = {}
    with helped(shares, lambda number: account(works[number])) as results:
        for number, told in results:
            done[number] = _decode(told)
            step(works[number].size)
    for number, work in enumerate(works):
        if number not in done:
            done[number] = account(work)
            step(work.size)
    return [done[number] for number in range(len(works))]
