"""What to do about each file of a session: read it, or take what an earlier bundle has of it, or both."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

from msgspec import Struct

from forensic.capture.found import Found, Piece
from forensic.capture.tail import Tail, prefix_sha256
from forensic.capture.walk import Report, shown
from forensic.errors import ForensicError, NotReadable
from forensic.model import Finding, Generation, Manifest, Role, Source
from forensic.wrapping import LINE_LIMIT

__all__ = ["Plan", "follows", "make_plan", "unchanged"]

_ORDER: Final = (Role.MAIN, Role.THREAD, Role.SUBAGENT, Role.SIDE)


def follows(found: Found, manifest: Manifest) -> bool:
    """Whether files are a later state of what a manifest describes.

    So it is when the main file lies where it lay, or begins with all the bytes that were recorded of it. Where a side
    has no main file, any other file in common decides, and a recorded main file must be gone.
    """
    if (found.harness, found.session) != (manifest.harness, manifest.session):
        return False
    if manifest.redaction is not None or manifest.salvaged_from is not None:
        # not the evidence itself, or not all of it: nothing may be built upon it
        return False
    main = found.main
    if main is None and found.live is not None:
        # its hooks alone say which session it is
        return True
    before = next((source for source in manifest.sources if source.role is Role.MAIN), None)
    if main is not None and before is not None:
        path = main.lives[-1].copy if main.lives else main.path
        return shown(main.path) == before.path or _begins_with(path, before)
    if before is not None and Path(before.path).exists():
        return False
    here = {shown(piece.path) for piece in found.pieces}
    return any(source.path in here for source in manifest.sources)


def unchanged(found: Found, manifest: Manifest) -> bool:
    """Whether a manifest that the files follow describes them as they are: recording them would give nothing new.

    Told by size and digest, so it costs one pass over the files and nothing else.
    """
    recorded = {_key(source): source for source in manifest.sources}
    return follows(found, manifest) and all(_is_as(piece, recorded.get(_key(piece))) for piece in found.pieces)


def _is_as(piece: Piece, before: Source | None) -> bool:
    if before is None or not before.generations:
        return False
    last = before.generations[-1]
    try:
        with Tail(piece.path, most=last.bytes + 1, unpack=piece.role is not Role.SIDE) as tail:
            if tail.encoding == "plain" and tail.whole != last.bytes:
                return False
            for _ in tail.chunks():
                pass
            # a damaged file is recorded again, so that its damage is told again
            return (tail.read, tail.sha256, tail.damage) == (last.bytes, last.sha256, None)
    except ForensicError:
        return False


def _begins_with(path: Path, before: Source) -> bool:
    last = before.generations[-1] if before.generations else None
    try:
        return last is not None and last.bytes > 0 and prefix_sha256(path, last.bytes, unpack=True) == last.sha256
    except ForensicError:
        return False


class Plan(Struct):
    """One source of the recording to be: what is on disk, what the earlier bundle has of it, what to do about it."""

    piece: Piece | None
    before: Source
    """As the earlier bundle describes it; without generations when it has none."""
    kept: int
    """So many generations are carried over from the earlier bundle; the piece is read as the next one."""
    stream: str = ""
    members: tuple[str, ...] = ()

    @property
    def generations(self) -> int:
        """How many it will have."""
        if self.piece is not None and self.piece.lives:
            return self.kept + len(self.piece.lives)
        return self.kept + (self.piece is not None)


def make_plan(found: Found, before: Manifest | None, report: Report) -> list[Plan]:
    """A plan for every file found and every source that the earlier bundle has, in the order of the manifest.

    That order and the names of members depend on nothing but what there is. A file that cannot be read is told to
    `report` and stays without generations, unless the earlier bundle has some; raises `NotReadable` when none is left.
    """
    recorded = {_key(source): source for source in before.sources} if before is not None else {}
    plans: list[Plan] = []
    for piece in found.pieces:
        source = recorded.pop(_key(piece), None) or _unrecorded(piece)
        if found.live is not None and not piece.lives:
            # what was followed is read from its copies alone, and of this there is none
            plans.append(Plan(None, source, len(source.generations)))
            continue
        try:
            plans.append(Plan(piece, source, _kept(piece, source)))
        except ForensicError as error:
            report(Finding(kind="unreadable-file", note=str(error), problem=True))
            plans.append(Plan(None, source, len(source.generations)))
    plans.extend(Plan(None, source, len(source.generations)) for source in recorded.values())
    if found.live is None and not any(plan.generations for plan in plans):
        raise NotReadable(path=shown(found.place), detail="nothing of this session can be read")
    return _numbered(plans)


def _unrecorded(piece: Piece) -> Source:
    return Source(
        stream=piece.stream,
        role=piece.role,
        native_id=piece.native_id,
        path=shown(piece.path),
        parent=piece.parent,
        found_by=piece.found_by,
        state=piece.state,
        reason=piece.reason,
    )


def _key(source: Piece | Source) -> tuple[Role, str]:
    """What a file and its earlier recording have in common."""
    return source.role, source.native_id if source.role is Role.SIDE else source.stream


def _kept(piece: Piece, before: Source) -> int:
    """How many recorded generations the file on disk does not hold. Raises when it cannot be opened."""
    paths = [life.copy for life in piece.lives] or [piece.path]
    sizes = [_size(path) for path in paths]
    if piece.role is Role.SIDE and max(sizes) > LINE_LIMIT:
        raise NotReadable(path=shown(piece.path), detail="more than 1 GiB in one piece, which no bundle holds")
    count = len(before.generations)
    # what was sealed once and goes on has all of its generations still; what is read anew begins with the last one
    for kept in range(max(0, count - len(paths)), count):
        lives = zip(paths, sizes, before.generations[kept:], strict=False)
        if all(
            _holds(path, size, one, whole=piece.role is Role.SIDE or number < count, side=piece.role is Role.SIDE)
            for number, (path, size, one) in enumerate(lives, start=kept + 1)
        ):
            return kept
    return count


def _size(path: Path) -> int:
    with Tail(path) as tail:
        return tail.size


def _holds(path: Path, size: int, before: Generation, *, whole: bool, side: bool) -> bool:
    """Whether a file begins with a recorded generation, or with `whole` is it."""
    if whole and size > before.bytes:
        return False
    return prefix_sha256(path, before.bytes, unpack=not side) == before.sha256


def _numbered(plans: list[Plan]) -> list[Plan]:
    """In the order of the manifest, which depends on nothing but what was found, and with the names of members."""
    plans.sort(key=lambda plan: (_ORDER.index(plan.before.role), _key(plan.before)[1]))
    width = max(4, len(str(sum(plan.generations for plan in plans))))
    rows, files = itertools.count(1), itertools.count(1)
    for plan in plans:
        generations = range(plan.generations)
        if plan.before.role is Role.SIDE:
            plan.members = tuple(f"files/{next(files):0{width}d}" for _ in generations)
            plan.stream = plan.members[0] if plan.members else plan.before.native_id
        else:
            plan.members = tuple(f"transcripts/{next(rows):0{width}d}.jsonl" for _ in generations)
            plan.stream = plan.before.stream
    return plans
