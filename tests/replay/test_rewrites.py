"""Rows without ids in a file that was written anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forensic.model import Ref, Row
from forensic.replay.rewrites import Rewrites


def again(*rows: tuple[str, int, bytes]) -> list[bool]:
    """Which of the rows, given by stream, generation and bytes, are repeats."""
    rewrites = Rewrites()
    return [rewrites.again(Row(ref=Ref(stream, generation, 0), line=1, raw=raw)) for stream, generation, raw in rows]


def test_as_many_repeats_as_stood_there_before() -> None:
    """What was said twice may be repeated twice; a third time it is new."""
    first = [("main", 1, b"a"), ("main", 1, b"a"), ("main", 1, b"b")]
    second = [("main", 2, b"a"), ("main", 2, b"a"), ("main", 2, b"a"), ("main", 2, b"c"), ("main", 2, b"b")]
    assert again(*first, *second) == [False, False, False, True, True, False, False, True]


def test_a_row_comes_back_after_a_generation_without_it() -> None:
    """It was there before all the same."""
    assert again(("main", 1, b"a"), ("main", 2, b"b"), ("main", 3, b"a")) == [False, False, True]


def test_other_streams_are_other_files() -> None:
    """The same words there are no repeat."""
    assert again(("main", 1, b"a"), ("agent-1", 1, b"a"), ("agent-1", 2, b"a")) == [False, False, True]


def test_files_that_are_written_by_turns_are_told_apart() -> None:
    """Rows of another file in between change nothing: what stood there once is a repeat once."""
    rows = [("main", 1, b"a"), ("main", 1, b"b"), ("main", 2, b"a"), ("main", 2, b"a"), ("main", 2, b"b")]
    turns = [row for pair in zip(rows, [("agent-1", 1, b"x")] * len(rows), strict=True) for row in pair]
    assert again(*turns)[::2] == again(*rows) == [False, False, True, False, True]


@given(st.lists(st.binary(max_size=2), max_size=20), st.lists(st.binary(max_size=2), max_size=20))
def test_a_generation_that_only_adds_repeats_all_of_the_one_before(before: list[bytes], more: list[bytes]) -> None:
    """And nothing of what it adds, as far as that is new."""
    rows = [("main", 1, raw) for raw in before] + [("main", 2, raw) for raw in (*before, *more)]
    told = again(*rows)
    assert told[len(before) : 2 * len(before)] == [True] * len(before)
    assert sum(told) == len(before)
