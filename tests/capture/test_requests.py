"""What is asked of a recorder that runs comes to it, and what it answers comes back."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.capture.requests import Outcome, Request, answer, ask, asked
from forensic.capture.spool import Spool

OUTCOMES = (
    Outcome(harness="claude", session="s", sealed=b"\0\xff"),
    Outcome(harness="codex", session="\u00e9\n../x", error="no room", exit_code=5),
)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A spool."""
    one = Spool(tmp_path / "spool")
    one.prepare()
    return one


def serve(spool: Spool, count: int, heard: list[Request]) -> None:
    """Answer so many requests as a recorder does."""
    for _ in range(2000):
        for name, text in spool.requests():
            request = asked(text)
            request.outcomes, request.unknown = list(OUTCOMES), request.seal or ()
            heard.append(request)
            spool.answer(name, answer(request))
        if len(heard) >= count:
            return
        threading.Event().wait(0.005)


def test_there_and_back(spool: Spool) -> None:
    """What is asked is heard as it was asked; what came of it is told as it was, and nothing is awaited any more."""
    heard: list[Request] = []
    thread = threading.Thread(target=serve, args=(spool, 1, heard))
    thread.start()
    told = ask(spool, Request(seal=("ab", "\u00e9")), lambda: True, patience=20)
    thread.join()
    assert [request.seal for request in heard] == [("ab", "\u00e9")]
    assert told == Request(seal=("ab", "\u00e9"), started=True, outcomes=list(OUTCOMES), unknown=("ab", "\u00e9"))
    assert told is not None
    assert told.done
    assert list(spool.folder.iterdir()) == []


def test_everybody_gets_his_own(spool: Spool) -> None:
    """Many who ask at once are each told what came of what they asked."""
    heard: list[Request] = []
    told: dict[int, Request | None] = {}

    def one(number: int) -> None:
        told[number] = ask(spool, Request(seal=(f"s-{number}",)), lambda: True, patience=20)

    threads = [threading.Thread(target=serve, args=(spool, 8, heard))]
    threads += [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = {number: request.unknown for number, request in told.items() if request is not None}
    assert answers == {number: (f"s-{number}",) for number in range(8)}
    assert len(heard) == 8
    assert list(spool.folder.iterdir()) == []


def test_nobody_answers(spool: Spool) -> None:
    """Without a recorder that runs there is no answer, and the question is taken back."""
    assert ask(spool, Request(), lambda: False, patience=20) is None
    assert ask(spool, Request(), lambda: True, patience=0.05) is None
    assert list(spool.folder.iterdir()) == []


@pytest.mark.parametrize("said", [b"", b"{}", b"\xff", b"\x81", msgspec.msgpack.encode({"outcomes": 7, "unknown": ()})])
def test_an_answer_that_is_none(spool: Spool, said: bytes) -> None:
    """An answer that is not understood is as good as none."""

    def alive() -> bool:
        for name, _ in spool.requests():
            spool.answer(name, said)
        return True

    assert ask(spool, Request(), alive, patience=20) is None
    assert list(spool.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "seal"),
    [
        (b'{"seal":["a","b"]}', ("a", "b")),
        (b'{"seal":[]}', ()),
        (b'{"seal":null}', None),
        (b"{}", None),
        (b'{"seal":["a"],"new":{"x":[1]}}', ("a",)),
    ],
)
def test_heard(text: bytes, seal: tuple[str, ...] | None) -> None:
    """A list of sessions, an empty one for all, none for those that have ended; what else is asked is passed over."""
    request = asked(text)
    assert (request.seal, request.started, request.done) == (seal, False, False)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b'{"seal":"a"}', b'{"seal":[1]}', b'{"seal":["\xff"]}', b'{"seal":["\\ud800"]}',
     b'{"x":' + b"[" * 100_000, b"\0" * 100],
)  # fmt: skip
def test_not_understood(text: bytes) -> None:
    """What is no request asks for nothing, and is done: nothing is sealed, and whoever asked is told so."""
    request = asked(text)
    assert (request.seal, request.done, request.outcomes, request.unknown) == ((), True, [], ())
    assert msgspec.msgpack.decode(answer(request)) == {"outcomes": [], "unknown": []}


@given(st.binary(max_size=40))
def test_any_bytes(text: bytes) -> None:
    """Whatever lies there under the name of a request, it is no error."""
    assert asked(text).awaited == set()


def test_done() -> None:
    """A request is done when it was begun and nothing is awaited."""
    request = Request()
    assert not request.done
    request.started = True
    request.awaited.add(("claude", "s"))
    assert not request.done
    request.awaited.clear()
    assert request.done
