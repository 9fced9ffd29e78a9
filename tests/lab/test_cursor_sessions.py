"""Sessions of Cursor by hand: hooks as they are registered, a recorder, and a bundle with everything once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lab_cursor import SESSIONS, Cursor

from forensic.model import Payload, Row

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the registered command is for sh")


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS.keys())
def test_everything_is_there_once(session: Callable[[Cursor], None], tmp_path: Path) -> None:
    """Each payload and each row of every generation is there as it was given, in order."""
    cursor = Cursor(tmp_path / "home")
    session(cursor)
    bundle = cursor.bundle()
    entries = list(bundle.timeline())
    assert [entry.raw for entry in entries if isinstance(entry, Payload)] == cursor.given
    rows: dict[int, bytes] = {}
    for entry in entries:
        if isinstance(entry, Row):
            rows[entry.ref.generation] = rows.get(entry.ref.generation, b"") + entry.raw + entry.end
    assert list(rows.values()) == [*cursor.replaced, cursor.transcript.read_bytes()]


def test_every_answer_is_the_neutral_one(tmp_path: Path) -> None:
    """Cursor takes an empty object for no opinion."""
    cursor = Cursor(tmp_path / "home")
    assert {event: cursor.hook(event) for event in cursor.commands} == dict.fromkeys(cursor.commands, b"{}\n")


def test_rows_after_a_resumption_are_bound_after_all_earlier_payloads(tmp_path: Path) -> None:
    """What was read before the first payload of a second part comes after the last of the first."""
    cursor = Cursor(tmp_path / "home")
    SESSIONS["cursor/live-resumed-and-rewritten"](cursor)
    bound = [line.after for line in cursor.bundle().bindings() if line.generation == 2]
    assert bound
    assert all(after is not None and after >= 3 for after in bound)
