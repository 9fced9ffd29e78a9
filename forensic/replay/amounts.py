"""Amounts: sums of what producers bill in units of their own, in whole numbers and fractions of any size."""

from __future__ import annotations

import contextlib
import math

__all__ = ["plus"]


def plus(one: float, other: float) -> int | float:
    """The sum of two amounts; one that no float can hold as the whole number that it is."""
    with contextlib.suppress(OverflowError):
        if math.isfinite(total := one + other):
            return total
    return int(one) + int(other)
