"""Recorders that die: whatever takes one, wherever it was, the next one goes on, and nothing is lost or there twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from recorder_disks import LOSSES, Disk, run
from recorder_runs import AT_ONCE, Stage, append, numbered, raws, sides, texts, until

from forensic.capture.locks import Lock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file is written")

WALL: Final = 1_700_000_000_000_000_000


class Play:
    """A session in acts. Each changes files and ends with a payload; between two a recorder may go a round.

    With `patient` the harness waits for the recorder, so that rows may be cut off that it has seen.
    """

    def __init__(self, place: Path, *, patient: bool) -> None:
        self.stage = Stage(place)
        self.progress = place / "progress"
        self.patient = patient
        self.main = self.stage.transcript()
        self.agent = self.main.with_suffix("") / "subagents" / "agent-a1.jsonl"
        self.meta = self.agent.with_suffix(".meta.json")
        self.acts: Sequence[Callable[[], dict[str, Any]]] = (
            self.begin, self.write, self.delegate, self.rewrite, self.forget, self.end, self.again
        )  # fmt: skip

    def begin(self) -> dict[str, Any]:
        return {"event": "SessionStart", "path": self.main}

    def write(self) -> dict[str, Any]:
        append(self.main, numbered(1, 2))
        return {"event": "PreToolUse", "path": self.main}

    def delegate(self) -> dict[str, Any]:
        append(self.main, numbered(3, 3) + b'{"half":')
        append(self.agent, numbered(1, 2, agentId="a1"))
        append(self.meta, b"{}")
        os.utime(self.meta, (1_600_000_000, 1_600_000_000))
        return {"event": "SubagentStop", "path": self.agent}

    def rewrite(self) -> dict[str, Any]:
        if self.patient:
            os.truncate(self.main, 0)
            append(self.main, numbered(10, 10))
        else:
            append(self.main.with_name("new"), numbered(10, 10))
            self.main.with_name("new").replace(self.main)
        return {"event": "Stop", "path": self.main}

    def forget(self) -> dict[str, Any]:
        append(self.main, numbered(11, 11))
        self.agent.unlink()
        return {"event": "PostToolUse", "path": self.main}

    def end(self) -> dict[str, Any]:
        self.main.unlink()
        return {"event": "SessionEnd", "path": self.main}

    def again(self) -> dict[str, Any]:
        append(self.main, numbered(20, 20))
        return {"event": "SessionEnd", "path": self.main}

    def act(self, number: int) -> None:
        """Act number so much, counted from 0, with its payload."""
        told = self.acts[number]()
        head = {"mono": 1000 + number, "wall": WALL + number}
        self.stage.hook(**told, head=head, number=number)

    def perform(self, disk: Disk | None = None, first: int = 0) -> None:
        """All acts from one on, with a recorder beside; how many have begun is written down."""
        with self.stage.recorder(AT_ONCE) as recording:
            recording.step()
            for number in range(first, len(self.acts)):
                if disk is None:
                    self.act(number)
                else:
                    with disk.others():
                        with self.progress.open("ab") as out:
                            out.write(b".")
                        self.act(number)
                recording.step()
            recording.step()

    def go_on(self) -> None:
        """After the end of a recorder, let another one finish, and compare what it sealed with what was there."""
        begun = self.progress.stat().st_size if self.progress.exists() else 0
        if not self.patient:
            for number in range(begun, len(self.acts)):
                self.act(number)
            begun = len(self.acts)
        self.perform(first=begun)
        # working folders of the dead go with the next seal, of which there may be none
        for _ in range(8):
            if self.stage.waiting() or self.stage.recording():
                self.stage.record(rounds=8)
        assert (self.stage.waiting(), self.stage.recording()) == ([], []), self.stage.warned
        self.check()

    def check(self) -> None:
        """Every payload once, in order; every row once, in its generation."""
        bundle = self.stage.newest()
        assert [raw.rpartition(b": ")[2] for raw in raws(bundle)] == [b"%d}" % n for n in range(len(self.acts))]
        found = texts(bundle)
        assert found.pop(("agent-a1", 1)) == numbered(1, 2, agentId="a1")
        assert [found[key] for key in sorted(found)] == [
            numbered(1, 3) + b'{"half":', numbered(10, 11), numbered(20, 20)
        ]  # fmt: skip
        assert sides(bundle) == {"subagents/agent-a1.meta.json": [b"{}"]}


THOROUGH: Final = bool(os.environ.get("FORENSIC_THOROUGH"))
"""Try everything, which takes many minutes."""
KILLS: Final = int(os.environ.get("FORENSIC_KILLS", "10"))
MEMORY: Final = Path("/dev/shm")  # noqa: S108 -- a folder of our own is made in it


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of files come and go."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=MEMORY, prefix="forensic-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced for real: the loss of power is played."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module", params=[True, False], ids=["patient", "impatient"])
def patient(request: pytest.FixtureRequest) -> bool:
    """Whether the harness waits for the recorder that comes after."""
    return bool(request.param)


@pytest.fixture(scope="module")
def length(tmp_path_factory: pytest.TempPathFactory, patient: bool) -> int:  # noqa: FBT001 -- a fixture
    """How many calls a recorder makes in the whole play."""
    play = Play(tmp_path_factory.mktemp("whole"), patient=patient)
    calls = run(play.perform, play.stage.home)
    play.check()
    assert calls > 100
    return calls


def survives(place: Path, last: int, loss: str, *, patient: bool, seed: int = 0, forget: str = "") -> None:
    """End a recorder at one call with one kind of loss, and let another go on."""
    place.mkdir()
    play = Play(place, patient=patient)
    run(play.perform, play.stage.home, last, loss, seed, forget)
    try:
        play.go_on()
    except BaseException as error:
        error.add_note(f"ended at call {last}, lost {loss}, patient {patient}, seed {seed}")
        raise
    shutil.rmtree(place)


def test_ended_at_any_call(place: Path, length: int, patient: bool) -> None:  # noqa: FBT001 -- a fixture
    """Killed, or the power lost with all kinds of losses, before each call that changes the disk."""
    for last in range(1, length + 1):
        for number, loss in enumerate(LOSSES):
            if THOROUGH or (last + number) % (3 if patient else 6) == 0:
                survives(place / f"{last}-{loss}", last, loss, patient=patient)


@pytest.mark.skipif(not THOROUGH, reason="FORENSIC_THOROUGH is not set")
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_losses(place: Path, length: int, patient: bool, seed: int) -> None:  # noqa: FBT001 -- a fixture
    """The same with other choices of what is lost."""
    for last in range(1, length + 1):
        survives(place / str(last), last, "some", patient=patient, seed=seed)


NEEDED: Final = {
    r"live/\w+/payloads\.jsonl": ("bytes", 18),
    r"live/\w+/journal": ("bytes", 19),
    r"live/\w+/copies/\d+-1": ("bytes", 48),
    r"live/\w+/copies": ("names", 47),
    r"live|live/\w+": ("names", 49),
    r"archive/\w\w/\.sealing-\w+": ("bytes", 108),
    r"archive/\w\w": ("names", 120),
    r"archive": ("names", 120),
}
"""Syncs, by the paths that they are of: a loss that each protects from, and a call before which it does not show."""


@pytest.mark.parametrize("forget", NEEDED)
def test_each_sync_is_needed(place: Path, forget: str) -> None:
    """Without any one of its syncs something is lost at some call: the model sees what it looks for."""
    loss, first = NEEDED[forget]
    for last in range(first, 200):
        try:
            survives(place / str(last), last, loss, patient=True, forget=forget)
        except (AssertionError, ValueError):
            return
    pytest.fail("nothing was lost")


# --- real processes ---------------------------------------------------------------------------------------------------


class Harness:
    """Sessions that write rows and run hooks at random, and a note of all that they did."""

    def __init__(self, stage: Stage, seed: int, sessions: int) -> None:
        self.stage = stage
        self.random = random.Random(seed)  # noqa: S311 -- the same each time is what is wanted
        self.sessions = [f"{n:08x}-1111-4111-8111-111111111111" for n in range(sessions)]
        self.lives: dict[str, list[bytes]] = {session: [b""] for session in self.sessions}
        self.sent: dict[str, list[bytes]] = {session: [] for session in self.sessions}
        self.rows = 0

    def act(self) -> None:
        """One thing that one session does, and its payload."""
        session = self.random.choice(self.sessions)
        path = self.stage.transcript(session)
        kind = self.random.random()
        self.append(session)
        if kind < 0.03 and path.exists():
            # a hook has made a pin before, so nothing of the file that goes may be lost
            self.hook(session, "Stop")
            self.append(session)
            self.lives[session].append(b"")
            new = path.with_name("new")
            append(new, self.write(session))
            new.replace(path)
        self.hook(session, "SessionEnd" if kind > 0.93 else "PostToolUse")

    def append(self, session: str) -> None:
        append(self.stage.transcript(session), self.write(session))

    def write(self, session: str) -> bytes:
        count = self.random.choice((0, 1, 1, 2, 30))
        rows = numbered(self.rows + 1, self.rows + count, session, pad="x" * self.random.choice((0, 100, 20_000)))
        self.rows += count
        self.lives[session][-1] += rows
        return rows

    def hook(self, session: str, event: str) -> None:
        # as if there were pauses between payloads: what comes after an end is a session that goes on
        wall = WALL + len(self.stage.sent) * 3_000_000_000
        path = self.stage.transcript(session)
        pad = "y" * self.random.choice((0, 0, 1000, 100_000))
        sent = self.stage.hook(event, path, session=session, n=len(self.stage.sent), pad=pad, head={"wall": wall})
        self.sent[session].append(sent.raw)

    def end(self) -> None:
        for session in self.sessions:
            self.hook(session, "SessionEnd")

    def check(self) -> None:
        """Every payload once and byte for byte, every row once, of every session."""
        for session in self.sessions:
            bundle = self.stage.newest(session)
            assert raws(bundle) == self.sent[session]
            wanted = [life for life in self.lives[session] if life]
            assert [life for _, life in sorted(texts(bundle).items())] == wanted


def kill_many(stage: Stage, kills: int, seed: int = 0, sessions: int = 6) -> Harness:
    """Kill so many recorders while sessions go on, then let one finish."""
    harness = Harness(stage, seed, sessions)
    for number in range(kills):
        process = stage.process("capture")
        # some die before they are up, most at work, some while they seal
        pause = harness.random.uniform(0.0, 0.5) + (0.3 if number % 4 else 0.0)
        until(lambda process=process: is_up(stage) or process.poll() is not None)  # type: ignore[misc]  # a loop's own
        end = time.monotonic() + pause
        while time.monotonic() < end:
            harness.act()
            time.sleep(harness.random.choice((0.0, 0.001, 0.02)))
        process.kill()
        out, errors = process.communicate()
        assert (process.returncode, errors) == (-signal.SIGKILL, b""), out
    harness.end()
    until(lambda: (stage.run("capture", "--once"), stage.is_clean())[1], seconds=120)
    return harness


def is_up(stage: Stage) -> bool:
    """Whether a recorder holds the lock."""
    return Lock(stage.spool / "recorder.lock").held()


def test_killed_at_random(place: Path) -> None:
    """Recorders that are killed while payloads and rows arrive: what the last one seals is all that there was."""
    kill_many(Stage(place), KILLS).check()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        done = kill_many(Stage(Path(folder)), count, seed=int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        done.check()
        payloads = sum(map(len, done.sent.values()))
        seconds = time.monotonic() - begun
        print(f"{count} kills, {payloads} payloads, {done.rows} rows, {seconds:.0f} s: nothing lost, nothing twice")
