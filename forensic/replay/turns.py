"""Turn tracker: which turn of the main agent each observation belongs to.

A native turn id on the observation decides. Without one the last turn seen is carried forward, in recorded order,
because rows of a turn name it once at best. A prompt without an id opens a derived turn. Subagents have no turns of
their own; what they did belongs to the turn of the call that started them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from forensic.model import Injected, Observation, Prompt, Ref

__all__ = ["MACHINE_PROMPTS", "Turn", "Turns"]

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
        self._rows: dict[str, Ref] = {}

    def track(self, observations: Iterable[Observation]) -> Iterator[tuple[Observation, str | None]]:
        """Each observation with the id of its turn; None for subagents and for what precedes every turn."""
        for seen in observations:
            yield seen, self._turn(seen) if seen.agent is None else self._foreign(seen)

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
        elif opens and not (isinstance(seen, Prompt) and seen.source == "queued" and self._current is not None):
            self._derived += 1
            self._enter(f"derived-{self._derived}")
        if self._current is not None and opens:
            turn = self.known[self._current]
            if isinstance(seen, Prompt):
                turn.source = turn.source if turn.prompted else seen.source
                turn.prompted = True
            elif not turn.prompted and isinstance(seen, Injected):
                turn.source = seen.source
        if isinstance(seen, Injected) and seen.source == "interrupt" and self._current is not None:
            self.known[self._current].aborted = True
        return self._current

    def _stood_before(self, seen: Observation) -> bool:
        """Whether it is a copy of an earlier row: a client that writes history again does not go back to it."""
        return seen.id is not None and self._rows.setdefault(seen.id, seen.ref) != seen.ref

    def _enter(self, turn: str) -> None:
        if turn not in self.known:
            self.known[turn] = Turn(turn)
        self._current = turn

    def _foreign(self, seen: Observation) -> str | None:
        return seen.turn if seen.turn in self.known else None
