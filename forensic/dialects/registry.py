"""Which parser reads which harness, and which producer versions a parser was checked against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Final

from forensic.dialects.dialect import Dialect
from forensic.dialects.parser import Parser
from forensic.errors import NoSuchParser

__all__ = ["DIALECTS", "dialect", "parser", "unverified"]

_NAMES: Final = ("claude", "codex", "copilot", "cursor", "unknown")


class _Dialects(Mapping[str, Dialect]):
    """All dialects by name; each is brought in when it is asked for, since most commands need one."""

    def __getitem__(self, name: str) -> Dialect:
        if name not in _NAMES:
            raise KeyError(name)
        found = import_module(f"forensic.dialects.{name}").DIALECT
        assert isinstance(found, Dialect)  # noqa: S101 -- each of these packages says so itself
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


DIALECTS: Final[Mapping[str, Dialect]] = _Dialects()


def dialect(harness: str) -> Dialect:
    """The dialect of a harness; one that we do not know is read as `unknown`."""
    return DIALECTS[harness if harness in _NAMES else "unknown"]


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
