"""Sealing in child processes: whatever becomes of them, what is known of it is known, and nothing is left of them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.capture.found import Found
from forensic.capture.requests import Outcome
from forensic.capture.sealing import Sealer, Sealings
from forensic.errors import WriteFailed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes can be forked here")

ENDED = "the process that sealed it was ended"


def found(session: str = "s") -> Found:
    """A session to be sealed."""
    return Found(harness="claude", session=session, pieces=())


def ended(session: str = "s") -> Outcome:
    """What is told of a session whose sealing nobody knows the end of."""
    return Outcome(harness="claude", session=session, error=ENDED, exit_code=70)


def outcomes(sealings: Sealings, count: int = 1) -> list[Outcome]:
    """Wait until so many are done."""
    told: list[Outcome] = []
    until = time.monotonic() + 60
    while len(told) < count and time.monotonic() < until:
        told += sealings.reap()
        time.sleep(0.002)
    assert len(told) == count
    return told


class Gate:
    """Something that children wait for."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.begun, self.tell = os.pipe()

    def wait(self) -> None:
        """In a child: say that it has begun, and wait; not for ever, whatever becomes of the test."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        os.write(self.tell, b"x")
        os.read(self.reader, 1)

    def started(self, count: int = 1) -> None:
        """Wait until so many children have begun."""
        for _ in range(count):
            os.read(self.begun, 1)

    def open(self, count: int = 1) -> None:
        """Let so many of them go on."""
        os.write(self.writer, b"x" * count)

    def close(self) -> None:
        for descriptor in (self.reader, self.writer, self.begun, self.tell):
            os.close(descriptor)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A closed one."""
    one = Gate()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a child or a descriptor."""
    before = descriptors()
    yield
    assert children() == []
    assert descriptors() == before


def descriptors() -> int:
    """How many this process holds; 0 where that cannot be told."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def children() -> list[int]:
    """Children of this process that have ended and were not asked after."""
    try:
        return [os.waitpid(-1, os.WNOHANG)[0]]
    except ChildProcessError:
        return []


def run(seal: Sealer, session: str = "s") -> Outcome:
    """What comes of sealing one session in a process of its own."""
    sealings = Sealings(seal, fork=True)
    assert sealings.begin(found(session)) is None
    (outcome,) = outcomes(sealings)
    assert (len(sealings), sealings.keys) == (0, set())
    return outcome


# --- what comes of it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fork", [False, True])
def test_sealed(fork: bool) -> None:  # noqa: FBT001 -- pytest hands it over by name
    """What the sealer has to say comes back, whichever process it ran in."""
    sealings = Sealings(lambda one: one.session.encode() + b"\0\xff", fork=fork)
    told = sealings.begin(found("\u00e9/../x"))
    expected = Outcome(harness="claude", session="\u00e9/../x", sealed=b"\xc3\xa9/../x\0\xff")
    assert told == (None if fork else expected)
    assert len(sealings) == int(fork)
    if fork:
        assert outcomes(sealings) == [expected]


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """What a sealer does to its process is not done to the recorder's."""

    def seal(_found: Found) -> bytes:
        os.chdir(tmp_path)
        os.environ["FORENSIC_TEST"] = "x"
        return str(os.getpid()).encode()

    before = Path.cwd()
    outcome = run(seal)
    assert int(outcome.sealed) != os.getpid()
    assert (Path.cwd(), "FORENSIC_TEST" in os.environ) == (before, False)


def test_a_long_story() -> None:
    """What is told may be larger than what a pipe holds: it is read as it comes, and is whole."""
    told = bytes(range(256)) * (5 << 12)
    assert run(lambda _: told).sealed == told


def test_shed() -> None:
    """A child lets go of what only its parent may hold before it begins; its parent does not."""
    shed: list[int] = []

    def seal(_found: Found) -> bytes:
        return repr([pid == os.getpid() for pid in shed]).encode()

    for fork, told in ((True, b"[True]"), (False, b"[]")):
        sealings = Sealings(seal, fork=fork, shed=lambda: shed.append(os.getpid()))
        outcome = sealings.begin(found()) or outcomes(sealings)[0]
        assert (outcome.sealed, shed) == (told, [])


@pytest.mark.parametrize("fork", [False, True])
def test_errors(fork: bool) -> None:  # noqa: FBT001 -- pytest hands it over by name
    """An error of ours is told in its words and with its code, any other by its name and with 70."""

    def ours(_found: Found) -> NoReturn:
        raise WriteFailed(path="/a", detail="No space left on device")

    def other(_found: Found) -> NoReturn:
        raise ZeroDivisionError("by nothing")

    for seal, error, code in (
        (ours, "cannot write /a: No space left on device; nothing was left half-written", 5),
        (other, "ZeroDivisionError: by nothing", 70),
    ):
        sealings = Sealings(seal, fork=fork)
        told = sealings.begin(found()) or outcomes(sealings)[0]
        assert told == Outcome(harness="claude", session="s", error=error, exit_code=code)


def quit_at_once(_found: Found) -> NoReturn:
    os._exit(0)


def kill_itself(_found: Found) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def crash(_found: Found) -> NoReturn:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def leave(_found: Found) -> NoReturn:
    raise SystemExit(0)


def interrupt(_found: Found) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("seal", [quit_at_once, kill_itself, crash, leave, interrupt])
def test_ended(seal: Sealer, capfd: pytest.CaptureFixture[str]) -> None:
    """A process that ends before it has told is told to have ended: that is no success, and no end of the recorder."""
    assert run(seal) == ended()
    assert capfd.readouterr() == ("", "")


def test_killed_from_outside(gate: Gate) -> None:
    """A sealer that somebody kills is noticed, and the session can be sealed again."""

    def seal(_found: Found) -> bytes:
        gate.wait()
        return b"done"

    sealings = Sealings(seal, fork=True)
    sealings.begin(found())
    gate.started()
    os.kill(sealings._children["claude", "s"].pid, signal.SIGKILL)
    assert outcomes(sealings) == [ended()]
    sealings.begin(found())
    gate.open()
    assert outcomes(sealings) == [Outcome(harness="claude", session="s", sealed=b"done")]


def test_a_recorder_that_dies(tmp_path: Path) -> None:
    """A sealer whose recorder has died finishes its work, and complains to nobody."""
    program = """
import os, sys, time
from pathlib import Path
from forensic.capture.found import Found
from forensic.capture.sealing import Sealings

def seal(found):
    while os.getppid() == parent:
        time.sleep(0.005)
    Path(sys.argv[1]).write_text("sealed")
    return b"x" * (1 << 20)

parent = os.getpid()
Sealings(seal, fork=True).begin(Found(harness="claude", session="s", pieces=()))
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "done")], capture_output=True, check=True, timeout=60
    )
    # the output ends with the last process that holds it
    assert (done.stdout, done.stderr) == (b"", b"")
    assert (tmp_path / "done").read_text() == "sealed"


def test_nothing_is_printed_twice() -> None:
    """What waits to be printed is printed once, and not by the child too."""
    program = """
import sys
from forensic.capture.found import Found
from forensic.capture.sealing import Sealings

def seal(found):
    sys.stdout.flush()
    return b""

sys.stdout.write("one ")
sealings = Sealings(seal, fork=True)
sealings.begin(Found(harness="claude", session="s", pieces=()))
while not list(sealings.reap()):
    pass
print("two")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"one two\n", b"")


def test_nowhere_to_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed, broken or missing standard streams keep nothing from being sealed."""

    class Broken:
        def flush(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    class Closed:
        def flush(self) -> None:
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stdout", Broken())
    monkeypatch.setattr(sys, "stderr", Closed())
    assert run(lambda _: b"done").sealed == b"done"
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run(lambda _: b"done").sealed == b"done"


# --- how many --------------------------------------------------------------------------------------------------------


def test_two_at_a_time(gate: Gate) -> None:
    """Two are sealed beside each other; that a third must wait is told, and which ones they are."""

    def seal(one: Found) -> bytes:
        gate.wait()
        return one.session.encode()

    sealings = Sealings(seal, fork=True)
    assert (sealings.full, len(sealings), sealings.keys) == (False, 0, set())
    sealings.begin(found("a"))
    assert (sealings.full, len(sealings), sealings.keys) == (False, 1, {("claude", "a")})
    sealings.begin(found("b"))
    assert (sealings.full, len(sealings)) == (True, 2)
    assert sealings.keys == {("claude", "a"), ("claude", "b")}
    assert [("claude", one) in sealings for one in "abc"] == [True, True, False]
    gate.started(2)
    for _ in range(3):
        assert list(sealings.reap()) == []
    gate.open()
    (first,) = outcomes(sealings)
    assert (sealings.full, len(sealings)) == (False, 1)
    sealings.begin(found("c"))
    assert sealings.full
    gate.started()
    gate.open(2)
    told = [first, *outcomes(sealings, 2)]
    assert {one.session: one.sealed for one in told} == {"a": b"a", "b": b"b", "c": b"c"}
    assert len(sealings) == 0


def test_each_its_own() -> None:
    """Many sessions after each other, some failing, some dying: each has the outcome that is its own."""

    def seal(one: Found) -> bytes:
        number = int(one.session)
        if number % 3 == 1:
            raise ValueError(one.session)
        if number % 3 == 2:
            os._exit(1)
        return one.session.encode()

    sealings = Sealings(seal, fork=True)
    told: list[Outcome] = []
    for number in range(12):
        while sealings.full:
            told += sealings.reap()
        sealings.begin(found(str(number)))
    told += outcomes(sealings, 12 - len(told))
    assert {one.session: (one.sealed, one.error) for one in told} == {
        str(number): [(str(number).encode(), ""), (b"", f"ValueError: {number}"), (b"", ENDED)][number % 3]
        for number in range(12)
    }


# --- trouble ---------------------------------------------------------------------------------------------------------


def failing(code: int) -> Callable[[], Any]:
    """A call that fails."""

    def fail() -> NoReturn:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(("call", "code"), [("fork", errno.EAGAIN), ("fork", errno.ENOMEM), ("pipe", errno.EMFILE)])
def test_no_process(monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    """When no process can be made that is the outcome; nothing is held open, and the next one may succeed."""
    sealings = Sealings(lambda _: b"done", fork=True)
    before = descriptors()
    monkeypatch.setattr(os, call, failing(code))
    told = sealings.begin(found())
    assert told == Outcome(harness="claude", session="s", error=f"no process for it: {os.strerror(code)}", exit_code=70)
    assert (len(sealings), list(sealings.reap()), descriptors()) == (0, [], before)
    monkeypatch.undo()
    assert sealings.begin(found()) is None
    assert outcomes(sealings)[0].sealed == b"done"


def test_garbled() -> None:
    """What is only a part of an outcome, or one of another session, is none."""
    sealings = Sealings(lambda _: b"", fork=True)
    whole = msgspec.msgpack.encode(Outcome(harness="claude", session="s", sealed=b"x" * 300))
    assert sealings._outcome(("claude", "s"), whole).sealed == b"x" * 300
    for size in range(len(whole)):
        assert sealings._outcome(("claude", "s"), whole[:size]) == ended()
    assert sealings._outcome(("claude", "t"), whole) == ended("t")
    assert sealings._outcome(("codex", "s"), whole).error == ENDED
    assert sealings._outcome(("claude", "s"), b"\x81\xa1x" + b"\x91" * 100_000) == ended()


@given(st.binary(max_size=60))
def test_any_bytes(said: bytes) -> None:
    """Whatever a child has said, it is an outcome of its session."""
    told = Sealings(lambda _: b"", fork=True)._outcome(("claude", "s"), said)
    assert told == ended()


# --- the end ---------------------------------------------------------------------------------------------------------


def test_closed(gate: Gate, tmp_path: Path) -> None:
    """At the end all children are ended, and clear up behind themselves first."""

    def seal(one: Found) -> bytes:
        folder = tmp_path / one.session
        folder.mkdir()
        try:
            gate.wait()
        finally:
            folder.rmdir()
        return b"done"

    sealings = Sealings(seal, fork=True)
    sealings.begin(found("a"))
    sealings.begin(found("b"))
    gate.started(2)
    assert len(list(tmp_path.iterdir())) == 2
    sealings.close()
    assert list(tmp_path.iterdir()) == []
    assert (len(sealings), list(sealings.reap())) == (0, [])
    sealings.close()


def test_closed_after_the_end(gate: Gate) -> None:
    """A child that has ended meanwhile, or was killed, is in nobody's way at the end."""

    def seal(_found: Found) -> bytes:
        gate.wait()
        return b"done"

    sealings = Sealings(seal, fork=True)
    sealings.begin(found("a"))
    sealings.begin(found("b"))
    gate.started(2)
    os.kill(sealings._children["claude", "a"].pid, signal.SIGKILL)
    # until it is dead it may take what is meant for the other one
    os.waitid(os.P_PID, sealings._children["claude", "a"].pid, os.WEXITED | os.WNOWAIT)
    gate.open()
    os.waitpid(sealings._children["claude", "b"].pid, 0)
    sealings.close()
    assert len(sealings) == 0


def test_not_interrupted(gate: Gate) -> None:
    """An interrupt from the terminal, which comes to all, ends the recorder's loop, and not what is being sealed."""

    def seal(_found: Found) -> bytes:
        gate.wait()
        return b"done"

    sealings = Sealings(seal, fork=True)
    sealings.begin(found())
    gate.started()
    os.kill(sealings._children["claude", "s"].pid, signal.SIGINT)
    gate.open()
    assert outcomes(sealings)[0].sealed == b"done"
