"""The score: entries in, one session out. No file, no clock, no environment, no chance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec
from msgspec.structs import force_setattr

from forensic.model import (
    FOLDED,
    UNREAD,
    Accounting,
    Entry,
    Finding,
    Keeper,
    Observation,
    Parsed,
    Ref,
    Row,
    Session,
    SessionStart,
    Unmodelled,
    Unreadable,
    Usage,
)
from forensic.replay.counters import Spent, spent
from forensic.replay.frames import Placed
from forensic.replay.lineage import trace
from forensic.replay.reconcile import reconcile
from forensic.replay.rewrites import Rewrites
from forensic.replay.summary import RowCount, summarize
from forensic.replay.usage import aggregate, tally
from forensic.replay.version import REPLAY_VERSION

__all__ = ["Reads", "digest", "play"]

_BATCH = 1024
_UNTIMED = frozenset({Unmodelled, Unreadable})
"""What carries nothing of its row, not even when that was written: a burst or an order of rows asks for it."""


class Reads(Protocol):
    """All that a player asks of a parser."""

    @property
    def dialect(self) -> str:
        """The dialect's name."""

    @property
    def version(self) -> int:
        """The parser's version."""

    @property
    def tells_usage(self) -> bool:
        """Whether the format has any place for usage."""

    def observe(self, entry: Entry, keep: Keeper = FOLDED) -> list[Observation]:
        """All that one entry says; never empty, never an exception."""

    def time(self, row: Row) -> Sequence[Observation]:
        """At least when a row was written, if it says so."""


class _Digest:
    """The SHA-256 over one JSON line an observation, a batch at a time."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._encode = msgspec.json.Encoder().encode_lines
        self._held: list[Observation] = []
        self.count = 0

    def add(self, seen: list[Observation]) -> None:
        """The observations of the next entry."""
        self.count += len(seen)
        self._held += seen
        if len(self._held) >= _BATCH:
            self._hash.update(self._encode(self._held))
            self._held = []

    def hexdigest(self) -> str:
        """The digest of all so far."""
        self._hash.update(self._encode(self._held))
        self._held = []
        return self._hash.hexdigest()


def digest(entries: Iterable[Entry], parser: Reads) -> tuple[int, str]:
    """How many observations a parser makes, and their digest: all of a verdict that needs no tree and no memory."""
    made = _Digest()
    for entry in entries:
        made.add(parser.observe(entry))
    return made.count, made.hexdigest()


def play(  # noqa: PLR0913 -- what stands in the head of a session document, by name
    entries: Iterable[Entry],
    parser: Reads,
    *,
    harness: str,
    session: str,
    producer: tuple[str, ...] = (),
    content_id: str = "",
    keep: Keeper = FOLDED,
    findings: Iterable[Finding] = (),
    remarks: Iterable[Finding] = (),
) -> Session:
    """Replay one session.

    `findings` are known beforehand (about the manifest, say) and stand first; `remarks` go along for people to read and
    into no document. The digest over all observations is made only of folded ones, so that it depends on bundle and
    parser alone.
    """
    rows = RowCount()
    observations: list[Observation] = []
    made = _Digest()
    usage_before: Usage | None = None
    rewrites, again = Rewrites(), set[int]()
    begun: set[str] = set()
    stamps: dict[Ref, Observation] = {}
    for entry in entries:
        seen = parser.observe(entry, keep)
        if type(entry) is Row:
            rows.count(entry, seen)
            if type(seen[0]) is SessionStart:
                begun.add(entry.ref.stream)
            elif type(seen[0]) in _UNTIMED and entry.ref.stream in begun:
                stamps[entry.ref] = parser.time(entry)[0]
            if seen[0].id is None and rewrites.again(entry):
                again.update(range(len(observations), len(observations) + len(seen)))
        for one in seen:
            if one.usage is not None:
                # rows of one message repeat their usage: one value for all of them
                if one.usage == usage_before:
                    force_setattr(one, "usage", usage_before)
                usage_before = one.usage
        observations.extend(seen)
        made.add(seen)
    lines = trace(observations, stamps=stamps)
    placed = reconcile(observations, session, lines, again)
    known = list(findings)
    missing = {
        "model messages without any usage": placed.without_usage,
        "stretches that could not be read": sum(type(one) is Unreadable for one in placed.aside),
        "rows that this parser has no reading for": rows.untold if rows.classes["read"] else rows.classes["unmodelled"],
        "subagents of whom no row was found": placed.rowless,
        "compactions, whose own model call is in no row": _uncounted(observations, placed),
        "formats that tell no usage": not parser.tells_usage,
        "gaps in the recording": sum(finding.kind == "gap" for finding in known),
        "transcripts that could not be read": sum(finding.kind in UNREAD for finding in known),
    }
    told = max((one.output_tokens or 0 for one in placed.aside if isinstance(one, Accounting)), default=0)
    costs = spent(observations, lines, session, again)
    usage = aggregate(tally(costs, _turn_in(placed)), missing, told, lines.rules())
    return Session(
        harness=harness,
        session=session,
        producer=producer,
        parser=Parsed(parser.dialect, parser.version),
        replay_version=REPLAY_VERSION,
        content_id=content_id,
        usage=usage,
        summary=summarize(
            _own(observations, lines.inherited | again),
            placed,
            rows,
            (name for name in usage["by_model"] if name != "unknown"),
        ),
        tree=placed.root,
        aside=placed.aside,
        findings=[*known, *placed.findings],
        remarks=list(remarks),
        observations=len(observations),
        observations_sha256=made.hexdigest() if keep is FOLDED else "",
    )


def _uncounted(observations: list[Observation], placed: Placed) -> int:
    """Compactions in streams without a running total, which would have counted their calls."""
    if not placed.compactions:
        return 0
    totals = {
        seen.ref.stream
        for seen in observations
        if seen.usage is not None and seen.usage.running is not None and seen.usage.output_tokens is not None
    }
    return sum(stream not in totals for stream in placed.compactions)


def _own(observations: list[Observation], others: AbstractSet[int]) -> list[Observation]:
    """All but what was said elsewhere or before."""
    if not others:
        return observations
    return [seen for number, seen in enumerate(observations) if number not in others]


def _turn_in(placed: Placed) -> Callable[[Spent], str | None]:
    """Which turn what was spent belongs to: its own, or that of the call that started its subagent."""

    def turn(item: Spent) -> str | None:
        return placed.turn_of.get(item.number) or placed.turn_of_agent.get(item.observation.agent or "")

    return turn
