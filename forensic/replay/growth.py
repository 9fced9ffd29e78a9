"""Growth: what one running total grew by since its row before, field by field.

A row may leave a field out, or tell one that is no count: the next row that tells it says what both came to. So each
field is compared with what was known of it last, and not with what the row before happened to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from forensic.model import COUNTED, Counts
from forensic.replay.amounts import plus

__all__ = ["COMPARED", "UNTOLD", "Total", "exceeds", "largest", "less", "same", "wanting"]

_SUMMED = 4
_TOTAL = COUNTED.index("total_tokens")
_INPUT, _OUTPUT = COUNTED.index("input_tokens"), COUNTED.index("output_tokens")
COMPARED = (*range(_SUMMED), _TOTAL)
"""What a part may not have more of than its whole."""
UNTOLD: Counts = (None,) * len(COUNTED)
_NOTHING: Counts = (0,) * len(COUNTED)


class Total(Struct):
    """One running total: `told` is what its latest row says, `known` what was told of each field last.

    `sum` is the producer's own sum as it was told last; that of `known` also counts what grew in rows that tell none.
    Likewise `calls` is as told last, and `counted` how many were counted.
    """

    told: Counts | None = None
    known: Counts | None = None
    sum: int | None = None
    calls: int | None = None
    counted: int = 0
    units: dict[str, int | float] = {}

    def grow(self, now: Counts, calls: int | None, last: Counts | None, handed: Counts | None) -> tuple[Counts, bool]:
        """What a row adds, and whether the total began anew with it.

        Of a total that fell, or grew by less than its `last` call, that call is what is known to be new, else all of
        it. The first row of a thread that came from another one counts from what it was `handed`.
        """
        before = self.known or handed or _NOTHING
        grown = _minus(now, before)
        fell = self.known is not None and (self._fell(now) or (calls is not None and calls < (self.calls or 0)))
        anew = fell or (self.known is not None and any(grown) and last is not None and exceeds(last, grown))
        if anew:
            grown = last if last is not None and any(last) and _holds(now, last) else now
            before, self.sum, self.calls, self.counted = _NOTHING, None, None, 0
        self._learn(now, before, grown)
        return grown, anew

    def _fell(self, now: Counts) -> bool:
        """Whether the total is less than it was: by the producer's own sum, else by the fields told both times."""
        whole = now[_TOTAL]
        if whole is not None and self.sum is not None:
            return whole < self.sum
        pairs = zip(now[:_SUMMED], (self.known or UNTOLD)[:_SUMMED], strict=True)
        return sum(one - other for one, other in pairs if one is not None and other is not None) < 0

    def _learn(self, now: Counts, before: Counts, grown: Counts) -> None:
        known = [other if one is None else one for one, other in zip(now, before, strict=True)]
        whole = before[_TOTAL]
        if now[_TOTAL] is None and whole is not None:
            # what the fields grew by is counted, and in the next sum that is told
            known[_TOTAL] = whole + sum(one or 0 for one in grown[:_SUMMED])
        self.told, self.known, self.sum = now, tuple(known), now[_TOTAL] if now[_TOTAL] is not None else self.sum

    def count(self, calls: int | None, told: int, *, more: bool) -> int:
        """How many calls a row adds besides those `told` by themselves; some say no more than that there is `more`."""
        if calls is None:
            self.counted += int(more) + told
            return int(more)
        grown = max(calls - self.counted, 0)
        self.calls = self.counted = calls
        return max(grown - told, 0)

    def bill(self, units: Mapping[str, int | float]) -> dict[str, int | float]:
        """By how much units grew; where one fell, all have begun anew."""
        if any(value < self.units.get(unit, 0) for unit, value in units.items()):
            self.units = {}
        grown = {unit: plus(value, -self.units.get(unit, 0)) for unit, value in units.items()}
        self.units = {**self.units, **units}
        return {unit: more for unit, more in grown.items() if more}


def wanting(counts: Counts) -> bool:
    """Whether something is not told that a call must tell."""
    return counts[_INPUT] is None or counts[_OUTPUT] is None


def less(grown: Counts, told: Iterable[Counts]) -> Counts:
    """What is left of a growth when the calls told by themselves are taken off."""
    for one in told:
        gone = (*one[:_TOTAL], size(one))
        grown = tuple(
            [None if left is None else max(left - (off or 0), 0) for left, off in zip(grown, gone, strict=True)]
        )
    return grown


def largest(mine: Counts, theirs: Counts) -> Counts:
    """The larger of each figure; one that is not told is none."""
    return tuple(
        one if other is None or (one is not None and one >= other) else other
        for one, other in zip(mine, theirs, strict=True)
    )


def size(counts: Counts) -> int:
    """All tokens: as told, else the sum of the four that they are made of."""
    total = counts[_TOTAL]
    return sum(one or 0 for one in counts[:_SUMMED]) if total is None else total


def same(told: Sequence[Counts], grown: Counts) -> bool:
    """Whether calls that are told whole are all of a growth, and it is something."""
    if not told or wanting(grown) or any(wanting(one) for one in told):
        return False
    sums = [sum(one[place] or 0 for one in told) for place in range(_SUMMED)]
    return any(sums) and sums == [one or 0 for one in grown[:_SUMMED]]


def exceeds(call: Counts, whole: Counts) -> bool:
    """Whether a call has more of anything than a whole, so that it is no part of it."""
    for place in COMPARED:
        part, all_of_it = call[place], whole[place]
        if part is not None and all_of_it is not None and part > all_of_it:
            return True
    return False


def _holds(whole: Counts, call: Counts) -> bool:
    """Whether a whole tells everything that a call does, and no less of it."""
    pairs = zip(call, whole, strict=True)
    return all(part is None or (all_of_it is not None and part <= all_of_it) for part, all_of_it in pairs)


def _minus(now: Counts, before: Counts) -> Counts:
    return tuple(
        [None if one is None or other is None else max(one - other, 0) for one, other in zip(now, before, strict=True)]
    )
