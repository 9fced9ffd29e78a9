"""Which parser reads which harness, and which producer versions a parser was checked against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from forensic.dialects import claude, unknown
from forensic.dialects.dialect import Dialect
from forensic.dialects.parser import Parser
from forensic.errors import NoSuchParser

__all__ = ["DIALECTS", "dialect", "parser", "unverified"]

DIALECTS: Final[Mapping[str, Dialect]] = {one.name: one for one in (claude.DIALECT, unknown.DIALECT)}


def dialect(harness: str) -> Dialect:
    """The dialect of a harness; one that we do not know is read as `unknown`."""
    return DIALECTS.get(harness, unknown.DIALECT)


def parser(harness: str, version: int | None = None) -> Parser:
    """The parser of a harness: the newest version unless one is named. Raises `NoSuchParser`."""
    known = dialect(harness)
    found = known.versions.get(known.newest if version is None else version)
    if found is None:
        numbers = ", ".join(str(number) for number in sorted(known.versions))
        raise NoSuchParser(dialect=known.name, version=version, known=numbers)
    return found


def unverified(harness: str, producers: Iterable[str]) -> tuple[str, ...]:
    """Those of the producer versions that no parser of this harness was checked against."""
    known = dialect(harness)
    if not known.seen and not known.verified:
        return ()
    return tuple(producer for producer in producers if producer not in known.seen and producer not in known.verified)
