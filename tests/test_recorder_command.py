"""Recording by command: ``forensic capture`` without a path, and ``forensic seal``, as people and hooks run them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hook_runs import Installed
from recorder_runs import QUICK, SESSION, Stage, append, numbered, raws, texts, until

from forensic.capture import recorder
from forensic.capture.recorder import Settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pins and signals are those of POSIX")

OTHER = "0a11ce00-2222-4222-8222-222222222222"
GONE = 0x7FFFFFFF
"""A process that cannot be."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A fresh stage."""
    return Stage(tmp_path)


@contextmanager
def recording(stage: Stage, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A recorder that runs beside, and is ended afterwards if it has not ended."""
    process = stage.process("capture", *arguments)
    try:
        until(lambda: locked(stage) or process.poll() is not None)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def locked(stage: Stage) -> bool:
    """Whether somebody holds the lock, as hooks find out."""
    try:
        with (stage.spool / "recorder.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


# --- once -------------------------------------------------------------------------------------------------------------


def test_once(stage: Stage) -> None:
    """What has ended is sealed, with the grace for late rows; what goes on is kept for the next recorder."""
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("SessionEnd", path)
    stage.hook("PreToolUse", session=OTHER)
    code, out, errors = stage.run("capture", "--once")
    bundle = stage.newest()
    assert (code, errors) == (0, "")
    assert out == f"sealed       claude  {SESSION}  2 rows  {bundle.content_id[:12]}\n"
    assert texts(bundle) == {("main", 1): numbered(1, 2)}
    assert bundle.recorded() is not None
    assert (stage.waiting(), len(stage.recording())) == ([], 1)
    assert stage.run("verify", bundle.content_id)[0] == 0


def test_once_with_nothing_there(stage: Stage) -> None:
    """Nothing to do is done in silence."""
    assert stage.run("capture", "--once") == (0, "", "")


def test_once_without_a_data_folder(stage: Stage) -> None:
    """It is made, and private."""
    environment = stage.environment() | {"FORENSIC_HOME": str(stage.place / "new" / "data")}
    assert stage.run("capture", "--once", env=environment) == (0, "", "")
    assert oct((stage.place / "new" / "data").stat().st_mode & 0o777) == "0o700"


def test_once_of_a_session_whose_process_is_gone(stage: Stage) -> None:
    """Nobody has to wait for it to be abandoned."""
    stage.hook("PreToolUse", head={"ppid": GONE})
    code, out, errors = stage.run("capture", "--once", "--no-verdict", "--json")
    told = json.loads(out)
    assert (code, errors, told["state"], told["session"]) == (0, "", "sealed", SESSION)
    assert stage.newest().recorded() is None


def test_once_with_an_archive_that_cannot_be_written(stage: Stage) -> None:
    """One line says so, the exit code too, and the recording is kept; the next one seals it."""
    (stage.home / "archive").write_bytes(b"no folder")
    stage.hook("SessionEnd")
    code, out, errors = stage.run("capture", "--once")
    assert (code, out) == (1, "")
    assert errors.count("\n") == 1
    assert errors.endswith("it is kept, and tried again\n")
    assert len(stage.recording()) == 1
    (stage.home / "archive").unlink()
    assert stage.run("capture", "--once")[::2] == (0, "")
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child must become somebody else")
@pytest.mark.parametrize("closed", ["spool", "live", "archive"])
def test_folders_that_must_not_be_written(
    stage: Stage, closed: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Our own ones are opened again; of an archive it is said, in one line, and the recording is kept."""
    monkeypatch.setattr(recorder, "Settings", lambda: Settings(grace=0.0))
    append(stage.transcript(), numbered(1, 1))
    # somebody else may not be able to read our Python: all that is imported on the way is imported before
    stage.hook("SessionEnd", stage.transcript())
    assert stage.command("capture", "--once", monkeypatch=monkeypatch) == 0
    shutil.rmtree(stage.live)
    shutil.rmtree(stage.home / "archive")
    capfd.readouterr()
    for folder in ("live", "archive"):
        (stage.home / folder).mkdir()
    stage.hook("SessionEnd", stage.transcript())
    (stage.home / closed).chmod(0o500)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            become_nobody(stage.place)
            code = stage.command("capture", "--once", monkeypatch=monkeypatch)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    out, errors = capfd.readouterr()
    assert stage.waiting() == []
    if closed != "archive":
        assert (code, errors, out.split()[0]) == (0, "", "sealed")
        return
    told = f"cannot write {stage.home / 'archive' / 'work'}: Permission denied; nothing was left half-written"
    assert (code, out, errors) == (1, "", f"! cannot seal claude {SESSION}: {told}; it is kept, and tried again\n")
    assert len(stage.recording()) == 1


def become_nobody(place: Path) -> None:
    """Root may write anywhere: give a place to somebody else, and be that one."""
    if os.geteuid() != 0:
        return
    for path in place.parents:
        if path.stat().st_mode & 0o777 == 0o700:
            path.chmod(0o711)
    for path in (place, *place.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


# --- following --------------------------------------------------------------------------------------------------------


def test_following(stage: Stage) -> None:
    """It records while hooks come, seals what has ended, and an interrupt ends it with all kept."""
    path = stage.transcript()
    with recording(stage) as process:
        for n in range(1, 4):
            append(path, numbered(n, n))
            stage.hook("PreToolUse", path, n=n)
            until(lambda: stage.waiting() == [])
        stage.hook("SessionEnd", path)
        until(lambda: stage.recording() == [])
        stage.hook("PreToolUse", session=OTHER)
        until(lambda: stage.waiting() == [])
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, b"forensic: interrupted\n")
    assert out.decode().split()[:5] == ["sealed", "claude", SESSION, "3", "rows"]
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent[:-1]]
    assert texts(stage.newest()) == {("main", 1): numbered(1, 3)}
    assert not locked(stage)
    assert len(stage.recording()) == 1


def test_a_hook_starts_what_it_needs(stage: Stage) -> None:
    """The real hook, the real recorder, and no word of either."""
    installed = Installed(
        stage.home,
        {"claude": [stage.user / ".claude" / "projects"]},
        (sys.executable, "-m", "forensic", "capture", "--idle-exit", "0.5"),
    )
    path = stage.transcript()
    append(path, numbered(1, 2))
    payload = json.dumps({"session_id": SESSION, "transcript_path": str(path)}).encode()
    environment = stage.environment() | {"PYTHONPATH": ""}
    installed.run(payload, installed.command("claude", "SessionEnd"), env=environment)
    if not (Path(sys.prefix) / "pyvenv.cfg").exists():
        pytest.skip("it is installed for nobody")
    until(lambda: stage.is_clean() and (stage.home / "archive").is_dir() and not locked(stage))
    assert raws(stage.newest()) == [payload]
    assert texts(stage.newest()) == {("main", 1): path.read_bytes()}
    assert installed.pins() == {}


def test_idle_exit(stage: Stage) -> None:
    """It ends when nothing happened for so long, but not while a session is open."""
    with recording(stage, "--idle-exit", "0.2") as process:
        out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (0, b"", b"")
    stage.hook("PreToolUse")
    with recording(stage, "--idle-exit", "0.2") as process:
        until(lambda: stage.waiting() == [])
        time.sleep(1.0)
        assert process.poll() is None
        stage.hook("SessionEnd")
        assert process.wait(timeout=30) == 0
    assert len(raws(stage.newest())) == 2


def test_terminated(stage: Stage) -> None:
    """A polite end leaves no working folder and no lock."""
    stage.hook("PreToolUse")
    with recording(stage) as process:
        until(lambda: stage.waiting() == [])
        process.terminate()
        assert process.wait(timeout=30) == 143
    assert not locked(stage)
    assert stage.run("capture", "--once") == (0, "", "")


def test_many_files(stage: Stage) -> None:
    """More files are followed than a process usually may hold."""
    for n in range(40):
        folder = stage.transcript().with_suffix("") / "subagents"
        append(folder / f"agent-{n:x}.jsonl", numbered(n, n, agentId=f"{n:x}"))
    append(stage.transcript(), numbered(100, 100))
    stage.hook("SessionEnd", stage.transcript())
    few = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (64, r.getrlimit(r.RLIMIT_NOFILE)[1]))\n"
    command = [sys.executable, "-c", few + QUICK, "0.1", "capture", "--once"]
    done = subprocess.run(command, env=stage.environment(), capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(texts(stage.newest())) == 41


# --- two --------------------------------------------------------------------------------------------------------------


def test_a_second_recorder(stage: Stage) -> None:
    """It ends with one clear line; the first one goes on."""
    with recording(stage) as process:
        code, out, errors = stage.run("capture")
        assert (code, out) == (2, "")
        assert errors == (
            f"forensic: another recorder is running ({stage.spool / 'recorder.lock'} is locked): "
            "it records already; one is enough\n"
        )
        assert process.poll() is None
        stage.hook("SessionEnd")
        until(stage.is_clean)
    assert len(stage.bundles()) == 1


def test_two_that_start_at_once(stage: Stage) -> None:
    """One wins, the other says so, whichever it is."""
    stage.hook("SessionEnd")
    both = [stage.process("capture") for _ in range(2)]
    try:
        until(lambda: any(one.poll() is not None for one in both))
        until(lambda: (stage.home / "archive").is_dir() and stage.is_clean())
        codes = [one.poll() for one in both]
    finally:
        for one in both:
            one.kill()
            one.communicate()
    assert sorted(codes, key=str) == [2, None]
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]


def test_hooks_that_look_at_the_lock(stage: Stage) -> None:
    """They hold it for a moment; a recorder that starts meanwhile is not put off."""
    with (stage.spool / "recorder.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        process = stage.process("capture", "--once")
        time.sleep(0.3)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert process.wait(timeout=30) == 0
        process.communicate()


def test_once_beside_a_recorder(stage: Stage) -> None:
    """The one that runs does it, and the one who asked says what came of it."""
    stage.grace = 3.0
    with recording(stage):
        stage.hook("SessionEnd")
        code, out, errors = stage.run("capture", "--once")
        assert (code, errors) == (0, "")
        assert out.split()[:3] == ["sealed", "claude", SESSION]
        stage.hook("SessionEnd", session=OTHER)
        until(stage.is_clean)
    assert len(stage.bundles()) == 2
    assert sorted(path.name for path in stage.spool.iterdir()) == ["pins", "recorder.lock"]


# --- seal -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a recorder"])
def test_seal(stage: Stage, *, beside: bool) -> None:
    """Sessions that go on are sealed as far as they are, and recorded further."""
    stage.grace = 5.0
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("PreToolUse", path)
    stage.hook("PreToolUse", session=OTHER)

    def seals(*arguments: str) -> tuple[int, str, str]:
        return stage.run("seal", *arguments)

    with recording(stage) if beside else pytest.MonkeyPatch.context() as process:
        assert seals("nothing") == (2, "", "no session that is being recorded is called nothing\n")
        code, out, errors = seals(SESSION[:8])
        assert (code, errors) == (0, "")
        assert out.split()[:3] == ["sealed", "claude", SESSION]
        assert [bundle.manifest.session for bundle in stage.bundles()] == [SESSION]
        append(path, numbered(3, 3))
        stage.hook("SessionEnd", path)
        code, out, errors = seals("--json")
        assert (code, errors) == (0, "")
        told = {one["session"]: one["state"] for one in map(json.loads, out.splitlines())}
        assert told == {SESSION: "superseding", OTHER: "sealed"}
        assert beside is (isinstance(process, subprocess.Popen) and process.poll() is None)
    assert texts(stage.newest()) == {("main", 1): numbered(1, 3)}
    assert len(raws(stage.newest())) == 2


def test_seal_with_nothing_there(stage: Stage) -> None:
    """It says so."""
    assert stage.run("seal") == (0, "", "no session is being recorded\n")
    assert stage.run("seal", "--json") == (0, "", "")


@pytest.mark.parametrize("request_", [b"", b"\xff", b"[" * 100_000, b"{}", b'{"seal":7}'])
def test_requests_that_make_no_sense(stage: Stage, request_: bytes) -> None:
    """They are answered, or left, and hurt nobody."""
    stage.hook("SessionEnd")
    with recording(stage):
        (stage.spool / f"{0:016x}.request").write_bytes(request_)
        until(stage.is_clean)
        until(lambda: not (stage.spool / f"{0:016x}.request").exists())
        assert locked(stage)
    assert len(stage.bundles()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["capture", "--harness", "claude"], "--harness is for named paths: hooks say themselves whose they are"),
        (["capture", "x", "--once"], "--once and --idle-exit are for recording without PATH"),
        (["capture", "x", "--idle-exit", "1"], "--once and --idle-exit are for recording without PATH"),
    ],
)
def test_options_that_do_not_go_together(stage: Stage, arguments: list[str], told: str) -> None:
    """One line, and nothing is done."""
    code, out, errors = stage.run(*arguments)
    assert (code, out, errors) == (2, "", f"forensic: {told}\n")
