"""Crews: whatever becomes of a child, what it handed back is whole, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic import accounts as accounting
from forensic.accounts import Work, account, accounts
from forensic.capture.discover import find
from forensic.crew import crew, helped, shared

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="crews are forked")

PIPE: Final = 1 << 16
"""Bytes that a pipe holds, at most, before who writes into it has to wait."""
DESCRIPTORS: Final = Path("/proc/self/fd")

_decode = msgspec.msgpack.decode


def descriptors() -> set[str]:
    """The open files of this process; none where that cannot be told."""
    if not DESCRIPTORS.is_dir():
        return set()
    # one of them is the listing itself
    return {name for name in os.listdir(DESCRIPTORS) if (DESCRIPTORS / name).exists()}  # noqa: PTH208 -- names are enough


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """No child is left, running or dead, and no file is open that was not."""
    before = descriptors()
    yield
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert descriptors() == before


def done(shares: Sequence[Sequence[int]], work: Callable[[int], Any]) -> list[tuple[int, Any]]:
    """All that a crew hands back, by number."""
    with crew(shares, work) as results:
        return sorted((number, _decode(result)) for number, result in results)


# --- shares -----------------------------------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(0, 10**9), max_size=40), jobs=st.integers(1, 8))
def test_shares_hold_each_work_once(sizes: list[int], jobs: int) -> None:
    """As many shares as jobs; none lost, none doubled; the largest share exceeds the least by no more than one work."""
    shares = shared(sizes, jobs)
    assert len(shares) == jobs
    assert sorted(number for share in shares for number in share) == list(range(len(sizes)))
    loads = [sum(sizes[number] + 1 for number in share) for share in shares]
    assert max(loads) - min(loads) <= max(sizes, default=0) + 1


def test_shares_are_the_same_every_time() -> None:
    """The largest first, each to whom has least; of equals the first."""
    assert shared([5, 100, 5, 60, 50], 2) == [[1, 0, 2], [3, 4]]
    assert shared([], 3) == [[], [], []]
    assert shared([0, 0, 0], 2) == [[0, 2], [1]]


# --- results ----------------------------------------------------------------------------------------------------------


@given(
    shares=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=6), max_size=4),
    size=st.sampled_from([0, 1, 100, PIPE - 9, PIPE, 3 * PIPE]),
)
@settings(max_examples=40, deadline=None)
def test_everything_comes_back_as_it_was_made(shares: list[list[int]], size: int) -> None:
    """Whatever the shares: empty, none at all, two with the same work; results of no size, and of more than a pipe."""
    wanted = sorted((number, [number, b"x" * size]) for share in shares for number in share)
    assert done(shares, lambda number: [number, b"x" * size]) == wanted


def test_results_larger_than_a_pipe() -> None:
    """Children that have to wait for their reader, all at once, and results between that fit into one head."""
    sizes = [5_000_000, 0, PIPE, 3, 1_000_000, 0, PIPE - 8, 7]
    shares = [[0, 1, 2], [3, 4], [5, 6, 7]]
    assert done(shares, lambda number: b"%d" % number * sizes[number]) == [
        (number, b"%d" % number * size) for number, size in enumerate(sizes)
    ]


def test_a_child_keeps_the_order_of_its_share() -> None:
    """One after another, however they were shared out."""
    with crew([[3, 1, 2], [9]], lambda number: number) as results:
        assert [number for number, _ in results if number != 9] == [3, 1, 2]


def test_work_is_done_elsewhere() -> None:
    """Each share in a process of its own, none of them this one, and what they change stays with them."""
    seen: list[int] = []

    def work(number: int) -> list[int]:
        seen.append(number)
        return [os.getpid(), len(seen)]

    told = [told for _, told in done([[0, 1], [2]], work)]
    assert len({process for process, _ in told} | {os.getpid()}) == 3
    assert [count for _, count in told] == [1, 2, 1]
    assert seen == []


# --- children that end badly ------------------------------------------------------------------------------------------

FATES: dict[str, Callable[[], Any]] = {
    "raises": lambda: 1 / 0,
    "exits": lambda: exec("raise SystemExit(3)"),  # noqa: S102 -- an expression that raises it
    "is interrupted": lambda: exec("raise KeyboardInterrupt"),  # noqa: S102 -- an expression that raises it
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is gone": lambda: os._exit(0),
    "cannot be written": object,
    "is too large a number": lambda: 2**70,
}


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
def test_a_child_that_ends_badly_loses_only_what_it_had_not_handed_back(fate: Callable[[], Any]) -> None:
    """The other's results are all there; of its own those before, each of them whole; nothing after."""

    def work(number: int) -> Any:
        return fate() if number == 2 else [number, "y" * (PIPE + number)]

    results = done([[0, 1, 2, 3], [4, 5]], work)
    assert [told for _, told in results] == [[number, "y" * (PIPE + number)] for number, _ in results]
    numbers = [number for number, _ in results]
    assert numbers[-2:] == [4, 5]
    assert numbers[:-2] == list(range(len(numbers) - 2))
    assert len(numbers) <= 4


def test_a_child_killed_while_it_writes_hands_back_no_half() -> None:
    """Its head has told of more than will come."""
    with crew([[0], [1]], lambda number: [os.getpid(), b"z" * (50 * PIPE if number == 0 else 1)]) as results:
        # the first one fills its pipe and waits, while the second is through
        told = next(results)
        assert told[0] == 1
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        if not children.is_file():
            pytest.skip("whose child is whose cannot be told here")
        for child in map(int, children.read_text(encoding="ascii").split()):
            os.kill(child, signal.SIGKILL)
        assert list(results) == []


def test_who_stops_listening_waits_for_nobody() -> None:
    """Children that still have hours to go are ended, whether the reader raises or just leaves."""

    def work(number: int) -> int:
        if number:
            time.sleep(3600)
        return number

    begun = time.monotonic()
    with crew([[1], [2, 3]], work):
        pass
    with pytest.raises(LookupError), crew([[1], [2, 3]], work):
        raise LookupError
    assert time.monotonic() - begun < 60


def no_second_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on one child can be made, and no other."""
    fork, made = os.fork, [0]

    def forks() -> int:
        if made:
            made.pop()
            return fork()
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", forks)


def test_where_no_child_can_be_made_those_that_were_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the error is told."""
    no_second_child(monkeypatch)
    with pytest.raises(BlockingIOError), crew([[0], [1]], lambda _: time.sleep(3600)):
        pytest.fail("there is no crew")


def test_where_no_child_can_be_made_no_pipe_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither end of it."""
    if not descriptors():
        pytest.skip("what is open cannot be told here")
    no_second_child(monkeypatch)
    before = descriptors()
    with pytest.raises(BlockingIOError), crew([[0], [1]], lambda _: time.sleep(3600)):
        pytest.fail("there is no crew")
    assert descriptors() == before


def test_who_can_do_without_is_told_of_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no results then, also of those that could be made; what goes wrong later is told as ever."""
    with helped([[0], [1]], lambda number: number) as results:
        assert sorted(number for number, _ in results) == [0, 1]
    with pytest.raises(OSError, match="mine"), helped([[0], [1]], lambda _: time.sleep(3600)):
        raise OSError("mine")
    no_second_child(monkeypatch)
    with helped([[0], [1]], lambda _: time.sleep(3600)) as results:
        assert list(results) == []


def test_an_interrupt_is_for_the_caller() -> None:
    """Children of a terminal get it too, and go on until they are ended."""

    def work(number: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return number

    assert done([[0, 1], [2]], work) == [(0, 0), (1, 1), (2, 2)]


# --- the caller -------------------------------------------------------------------------------------------------------


def works(root: Path) -> list[Work]:
    return [
        Work(harness=found.harness, session=found.session, place=str(found.place), size=60_000_000, found=found)
        for found in find([root / "golden" / name for name in ("claude", "codex")])
    ][:9]


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
def test_the_caller_does_the_rest(root: Path, monkeypatch: pytest.MonkeyPatch, fate: Callable[[], Any]) -> None:
    """Every child ends badly in the middle of its share, and no account is missing or out of place."""
    todo, here = works(root), os.getpid()
    wanted = [account(one) for one in todo]
    calls: list[Work] = []

    def ends(one: Work) -> Any:
        if os.getpid() != here:
            calls.append(one)
            return fate() if len(calls) == 2 else account(one)
        return account(one)

    monkeypatch.setattr(accounting, "account", ends)
    assert accounts(todo, jobs=3) == wanted


def test_the_caller_does_all_where_no_child_can_be_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More processes are for speed; a user who may have no more of them is answered all the same."""
    todo = works(root)
    wanted = [account(one) for one in todo]
    steps: list[int] = []
    no_second_child(monkeypatch)
    assert accounts(todo, steps.append, jobs=3) == wanted
    assert steps == [60_000_000] * len(todo)


def test_what_raises_in_a_child_raises_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trouble that is the work's own is met in the open, and not lost with a child."""

    def raises(_: Work) -> Any:
        raise LookupError

    monkeypatch.setattr(accounting, "account", raises)
    with pytest.raises(LookupError):
        accounts(works(root), jobs=2)


def test_progress_is_told_of_each_work_once(root: Path) -> None:
    """By a thread that waits for nothing else, and adding up to all there is."""
    todo = works(root)
    steps: list[tuple[int, int]] = []
    accounts(todo, lambda size: steps.append((size, threading.get_ident())), jobs=2)
    assert steps == [(60_000_000, threading.get_ident())] * len(todo)
