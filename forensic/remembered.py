"""Remembered: what the bundles of an archive told the last time it was asked, and the answers given then.

It lies beside the bundles, under a digest, and anybody may delete it at any time: what is missing, damaged, of another
version or of another shape is read anew, and what cannot be written down is done without.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict, TypeVar, cast

import msgspec
from msgspec import Struct

from forensic import __version__, private
from forensic.archive import Archive
from forensic.dialects.registry import dialect
from forensic.model import Finding
from forensic.replay.ledger import Account
from forensic.replay.version import REPLAY_VERSION

__all__ = ["Answers", "Memory", "spelled"]

FORMAT: Final = 3
"""Raised when accounts are written down in another way."""
_SUM: Final = 32
"""Bytes of the digest before what is remembered."""

_Kind = TypeVar("_Kind")


def spelled(path: Path) -> str:
    """A path as text that any encoder takes; bytes that are no UTF-8 are spelled out, so that no two look the same."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# --- what bundles told ------------------------------------------------------------------------------------------------


class _Facts(Struct, kw_only=True):
    """What one bundle file told when it was read. `reader` is everything that decides what it tells."""

    size: int
    mtime_ns: int
    reader: str
    account: Account

    def still(self, status: os.stat_result) -> bool:
        """Whether the file is the same, and would be read in the same way."""
        same = (self.size, self.mtime_ns) == (status.st_size, status.st_mtime_ns)
        return same and self.reader == _reader(self.account.harness)


def _reader(harness: str) -> str:
    return f"forensic {__version__}, replay {REPLAY_VERSION}, {harness} {dialect(harness).newest}, accounts {FORMAT}"


class Memory:
    """What the bundles of one archive told the last time, by the name of each: it says what the bundle holds."""

    def __init__(self, archive: Archive) -> None:
        """Look it up."""
        self._archive = archive
        self._there: dict[str, os.stat_result] = {}
        self._told = _recalled(archive.memory("accounts"), dict[str, _Facts]) or {}

    def bundles(self, report: Callable[[Finding], None]) -> Iterator[tuple[Path, int, Account | None]]:
        """All bundles, their sizes in bytes, and what is known of each; those that are not there are reported."""
        for path in self._archive.files():
            try:
                status = self._there[path.name] = path.stat()
            except OSError as error:
                note = f"{spelled(path)}: {error.strerror}"
                report(Finding(kind="unreadable-bundle", note=note, problem=True))
                continue
            known = self._told.get(path.name)
            yield path, status.st_size, known.account if known is not None and known.still(status) else None

    def keep(self, told: dict[str, Account]) -> None:
        """Write down what there is now; an archive that nobody may write to is read anew each time."""
        now = {
            name: _Facts(
                size=self._there[name].st_size,
                mtime_ns=self._there[name].st_mtime_ns,
                reader=_reader(one.harness),
                account=one,
            )
            for name, one in told.items()
            if not one.problems
        }
        if self._knows(now) or _remember(self._archive.memory("accounts"), now):
            return
        fitting = {name: facts for name, facts in now.items() if _fits(facts)}
        if fitting.keys() != now.keys() and not self._knows(fitting):
            _remember(self._archive.memory("accounts"), fitting)

    def _knows(self, now: dict[str, _Facts]) -> bool:
        return now.keys() == self._told.keys() and all(now[name].account is self._told[name].account for name in now)


def _fits(facts: _Facts) -> bool:
    """Whether it can be written down at all: a figure of more than 64 bits cannot."""
    try:
        msgspec.msgpack.encode(facts)
    except OverflowError:
        return False
    return True


# --- answers ----------------------------------------------------------------------------------------------------------


class _Figures(TypedDict):
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_5m_tokens: int | None
    cache_write_1h_tokens: int | None
    reasoning_tokens: int | None
    total_tokens: int | None
    calls: int


class _Reason(TypedDict):
    level: str
    reason: str
    count: int


class _Certainty(TypedDict):
    level: str
    reasons: list[_Reason]


class _Total(_Figures):
    certainty: _Certainty


class _Group(_Total):
    name: str
    harness: NotRequired[str]
    started: NotRequired[datetime | None]
    inherited: NotRequired[_Figures]
    units: dict[str, int | float]
    sessions: int


class _Share(_Figures):
    share: float | None


class _Answer(TypedDict):
    """The shape of an answer: docs/cli.md says what the keys are."""

    by: str
    groups: list[_Group]
    total: _Total
    units: dict[str, int | float]
    sessions: int
    sessions_without_usage: int
    raw_vs_deduped: float | None
    unfinished: _Figures
    from_progress: _Share
    unusable_records: int
    idless_records: int


class _Told(Struct, kw_only=True):
    """Answers on an archive as it was at `state`; `readers` are what decided them, by harness."""

    state: str
    readers: dict[str, str]
    reports: dict[str, _Answer] = {}


class Answers:
    """What was told last of one archive, or of none."""

    def __init__(self, archive: Archive | None, by: str) -> None:
        """Look at the archive as it is now."""
        self._archive = archive
        self._by = by
        self._state = "" if archive is None else _state(archive)
        self._told: _Told | None = None

    def last(self) -> dict[str, Any] | None:
        """The answer on the archive as it is now, if it was made before by what would make it today."""
        if self._archive is None:
            return None
        told = _recalled(self._archive.memory("reports"), _Told)
        if told is None or told.state != self._state:
            return None
        if any(_reader(name) != known for name, known in told.readers.items()):
            return None
        self._told = told
        answer = told.reports.get(self._by)
        return None if answer is None else dict(answer)

    def keep(self, answer: dict[str, Any], harnesses: AbstractSet[str]) -> None:
        """Remember an answer, beside those on the same state."""
        if self._archive is None or _state(self._archive) != self._state:
            return
        told = self._told or _Told(state=self._state, readers={name: _reader(name) for name in sorted(harnesses)})
        told.reports[self._by] = cast("_Answer", answer)
        _remember(self._archive.memory("reports"), told)


def _state(archive: Archive) -> str:
    """What an archive holds, told by the names, sizes and times of its bundles: none of them is ever changed."""
    digest = blake2b(digest_size=16)
    for path in archive.files():
        with contextlib.suppress(OSError):
            status = path.stat()
            digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


# --- files ------------------------------------------------------------------------------------------------------------


def _recalled(path: Path, kind: type[_Kind]) -> _Kind | None:
    """What was remembered in a file, if it is still what was written there."""
    try:
        told = private.contents(path)
        if told[:_SUM] != blake2b(told[_SUM:], digest_size=_SUM).digest():
            return None
        return msgspec.msgpack.decode(memoryview(told)[_SUM:], type=kind)
    except Exception:  # noqa: BLE001 -- nothing that lies there may stop the command, which can do without
        return None


def _remember(path: Path, value: object) -> bool:
    """Write it down: private, with a digest before it, whole or not at all. False where that cannot be done."""
    try:
        told = msgspec.msgpack.encode(value)
        descriptor, name = tempfile.mkstemp(prefix="told.new-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(blake2b(told, digest_size=_SUM).digest())
                out.write(told)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except Exception:  # noqa: BLE001 -- what is not remembered is read again the next time
        return False
    return True
