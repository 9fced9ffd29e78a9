"""What can be asked of a recorder that runs, by a file in its spool, and what it answers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct, field

from forensic.capture.spool import Spool

__all__ = ["Key", "Outcome", "Request", "answer", "ask", "asked"]

Key = tuple[str, str]
"""Harness and session."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of one session: what the sealer said, or why it could not be sealed."""

    harness: str
    session: str
    sealed: bytes = b""
    error: str = ""
    exit_code: int = 0


class Request(Struct, kw_only=True):
    """Something asked of a recorder: seal these sessions (ids, or how they begin; none: all), or all that have ended.

    `awaited` are the sessions that are not sealed yet, `outcomes` what became of the others; `unknown` fit no session.
    """

    seal: tuple[str, ...] | None = None
    started: bool = False
    awaited: set[Key] = field(default_factory=set)
    outcomes: list[Outcome] = field(default_factory=list)
    unknown: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether nothing is awaited any more."""
        return self.started and not self.awaited


class _Asked(Struct):
    """A request as it lies in the spool."""

    seal: tuple[str, ...] | None = None


class _Answer(Struct, frozen=True):
    outcomes: tuple[Outcome, ...]
    unknown: tuple[str, ...]


def ask(spool: Spool, request: Request, alive: Callable[[], bool], *, patience: float) -> Request | None:
    """Have the recorder that runs serve a request; None when there is none any more, or none that is understood."""
    answer = spool.ask(msgspec.json.encode(_Asked(request.seal)), alive, patience=patience)
    if answer is None:
        return None
    try:
        told = msgspec.msgpack.decode(answer, type=_Answer)
    except msgspec.MsgspecError:
        return None
    return Request(seal=request.seal, started=True, outcomes=list(told.outcomes), unknown=told.unknown)


def asked(text: bytes) -> Request:
    """The request that a file holds; one that asks for nothing where it holds none."""
    try:
        return Request(seal=msgspec.json.decode(text, type=_Asked).seal)
    except (msgspec.MsgspecError, RecursionError):
        return Request(seal=(), started=True)


def answer(request: Request) -> bytes:
    """What is answered to a request that is done."""
    return msgspec.msgpack.encode(_Answer(tuple(request.outcomes), request.unknown))
