"""When what met trouble is tried again: after a pause that doubles each time, up to two minutes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from forensic.capture.requests import Key

__all__ = ["Pauses"]

_FIRST: Final = 2.0
_LAST: Final = 120.0


class Pauses:
    """Sessions that wait. Times are those of the monotonic clock, in seconds."""

    def __init__(self) -> None:
        """None waits."""
        self._known: dict[Key, tuple[float, float]] = {}
        """When a session is tried again, and how long the pause before that is."""

    @property
    def keys(self) -> AbstractSet[Key]:
        """Sessions that met trouble, and no success since."""
        return self._known.keys()

    def begin(self, key: Key, now: float) -> None:
        """Leave a session alone, longer than the last time."""
        pause = min(_LAST, self._known[key][1] * 2) if key in self._known else _FIRST
        self._known[key] = (now + pause, pause)

    def wait(self, key: Key, now: float) -> bool:
        """Whether a session is left alone for now."""
        return key in self._known and now < self._known[key][0]

    def end(self, key: Key) -> None:
        """Forget what trouble there was."""
        self._known.pop(key, None)
