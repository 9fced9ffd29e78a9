"""Pauses: how long what met trouble is left alone."""

from __future__ import annotations

from forensic.capture.pauses import Pauses

ONE, OTHER = ("claude", "s"), ("codex", "s")


def test_nobody_waits() -> None:
    """Who met no trouble is not left alone, and to end what did not begin is no error."""
    pauses = Pauses()
    assert not pauses.wait(ONE, 0.0)
    pauses.end(ONE)
    assert set(pauses.keys) == set()


def test_longer_each_time() -> None:
    """A pause is twice the last one, and two minutes at most; it is over at its very end, and known until a success."""
    pauses = Pauses()
    lengths = []
    now = 100.0
    for _ in range(8):
        pauses.begin(ONE, now)
        start = now
        while pauses.wait(ONE, now):
            now += 1.0
        lengths.append(now - start)
        assert set(pauses.keys) == {ONE}
    assert lengths == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 120.0, 120.0]


def test_each_for_itself() -> None:
    """Sessions are told apart by harness and id, and a success lets the next pause be short again."""
    pauses = Pauses()
    pauses.begin(ONE, 0.0)
    pauses.begin(ONE, 0.0)
    assert (pauses.wait(ONE, 3.9), pauses.wait(OTHER, 3.9)) == (True, False)
    pauses.end(ONE)
    pauses.begin(ONE, 10.0)
    assert (pauses.wait(ONE, 11.9), pauses.wait(ONE, 12.0)) == (True, False)
