"""What a dialect is: its parser versions, and the producers they were checked against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from forensic.dialects.parser import Parser

__all__ = ["NOTHING", "Dialect"]

NOTHING: Final[Mapping[str, int]] = {}


class Dialect(NamedTuple):
    """`versions` by number; `seen` and `verified`: producer version -> the parser version it was checked with.

    A producer is verified when its rows were compared with what the model is known to have said, seen when real
    sessions of it were read without a rest.
    """

    name: str
    versions: Mapping[int, Parser]
    verified: Mapping[str, int] = NOTHING
    seen: Mapping[str, int] = NOTHING

    @property
    def newest(self) -> int:
        """The number of the newest parser version."""
        return max(self.versions)
