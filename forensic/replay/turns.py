"""Turn tracker: which turn of the main agent each observation belongs to.

A native turn id on the observation decides. Without one the last turn seen is carried forward, in recorded order,
because rows of a turn name it once at best. A prompt without an id opens a derived turn. Subagents have no turns of
their own; what they did belongs to the turn of the call that started them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from forensic.model import Injected, Observation, Prompt, Ref, TurnEnd

__all__ = ["ABORTED", "MACHINE_PROMPTS", "Turn", "Turns"]

ABORTED = frozenset({"aborted", "cancelled", "interrupted"})
"""How a turn ended that was broken off."""

MACHINE_PROMPTS = frozenset({"task-notification"})
"""Injected texts that set the model going as a prompt does, though nobody typed them."""


class Turn(Struct):
    """One turn as it is being found: `number` counts the turns that a person opened, from 1."""

    id: str
    source: str | None = None
    prompted: bool = False
    number: int | None = None
    aborted: bool = False


class Turns:
    """All turns of a session, in the order they were first seen."""

    def __init__(self) -> None:
        """Start with none: what comes before the first prompt belongs to no turn."""
        self.known: dict[str, Turn] = {}
        self._current: str | None = None
        self._derived = 0
        self._waiting = False
        """Whether the current turn was begun by its id, and what it was begun for has not come yet."""
        self._unpaired: set[tuple[str, bool]] = set()
        """Prompts of the current turn that were told once, item or event, and may be told the other way yet."""
        self._rows: dict[str, Ref] = {}

    def track(self, observations: Iterable[Observation]) -> Iterator[tuple[Observation, str | None]]:
        """Each observation with the id of its turn; None for subagents and for what precedes every turn."""
        for seen in observations:
            yield seen, self.turn_of(seen)

    def turn_of(self, seen: Observation) -> str | None:
        """The turn of the next observation."""
        return self._turn(seen) if seen.agent is None else self._foreign(seen)

    def number(self) -> list[Turn]:
        """Give the turns that a person opened their numbers; all turns, in order."""
        count = 0
        for turn in self.known.values():
            if turn.prompted:
                count += 1
                turn.number = count
        return list(self.known.values())

    def _turn(self, seen: Observation) -> str | None:
        opens = isinstance(seen, Prompt) or (isinstance(seen, Injected) and seen.source in MACHINE_PROMPTS)
        if (opens or seen.turn is not None) and self._stood_before(seen):
            return self._current
        if seen.turn is not None:
            self._enter(seen.turn)
        elif opens and not self._joins(seen):
            self._derived += 1
            self._enter(f"derived-{self._derived}")
        if opens or isinstance(seen, TurnEnd):
            self._waiting = False
        if self._current is not None and opens:
            turn = self.known[self._current]
            if isinstance(seen, Prompt):
                self._pair(seen)
                turn.source = turn.source if turn.prompted else seen.source
                turn.prompted = True
            elif not turn.prompted and isinstance(seen, Injected):
                turn.source = seen.source
        broken_off = (isinstance(seen, Injected) and seen.source == "interrupt") or (
            isinstance(seen, TurnEnd) and seen.status in ABORTED
        )
        if broken_off and self._current is not None:
            self.known[self._current].aborted = True
        return self._current

    def _joins(self, seen: Observation) -> bool:
        """Whether it belongs to the turn that runs: queued into it, told a second time, or what it was begun for."""
        if self._current is None or not isinstance(seen, Prompt):
            return False
        told = (seen.text.sha256, seen.via != "event") in self._unpaired
        return told or seen.source == "queued" or self._waiting

    def _pair(self, seen: Prompt) -> None:
        event, text = seen.via == "event", seen.text.sha256
        if (text, not event) in self._unpaired:
            self._unpaired.discard((text, not event))
        else:
            self._unpaired.add((text, event))

    def _stood_before(self, seen: Observation) -> bool:
        """Whether it is a copy of an earlier row: a client that writes history again does not go back to it."""
        return seen.id is not None and self._rows.setdefault(seen.id, seen.ref) != seen.ref

    def _enter(self, turn: str) -> None:
        if turn != self._current:
            self._unpaired.clear()
        if turn not in self.known:
            self.known[turn] = Turn(turn)
            self._waiting = True
        self._current = turn

    def _foreign(self, seen: Observation) -> str | None:
        return seen.turn if seen.turn in self.known else None
