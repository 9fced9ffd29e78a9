"""Hooks start the recorder: one, when none runs, apart from the harness, and nobody waits for it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_runs import ALONE, PYTHON, Installed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process has")

RECORDER = """
import os, sys, time
out, go = sys.argv[1:]
while go and not os.path.exists(go):
    time.sleep(0.01)
status = open("/proc/self/status").read()
told = {
    "sid": os.getsid(0) == os.getpid(), "cwd": os.getcwd(),
    "files": sorted((int(name), os.readlink(f"/proc/self/fd/{name}")) for name in os.listdir("/proc/self/fd")
                    if os.path.exists(f"/proc/self/fd/{name}")),
    "environment": open("/proc/self/environ").read().split("\\0")[:-1],
    "ignored": int(status.split("SigIgn:")[1].split()[0], 16) & 3,
    "umask": status.split("Umask:")[1].split()[0],
}
line = (repr(told) + "\\n").encode()
file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(file, line)
"""


class Starting(Installed):
    """An installed hook whose recorder is a script that notes how it was started, once a file `go` is there."""

    def __init__(self, place: Path, go: str = "") -> None:
        self.out = place / "out"
        script = place / "recorder.py"
        script.write_text(RECORDER, encoding="utf-8")
        super().__init__(place / "data", start=(PYTHON, "-I", str(script), str(self.out), go))

    def started(self, count: int) -> list[str]:
        """What recorders noted, once so many have, and a moment later no more have."""
        for _ in range(1000):
            if len(self.notes()) >= count:
                break
            time.sleep(0.01)
        time.sleep(0.2)
        return self.notes()

    def notes(self) -> list[str]:
        return self.out.read_text(encoding="utf-8").splitlines() if self.out.exists() else []


@pytest.fixture
def starting(tmp_path: Path) -> Starting:
    """An installed hook that starts a recorder."""
    return Starting(tmp_path)


def test_apart(tmp_path: Path) -> None:
    """The recorder has a session of its own, no file of the harness, and of its environment what it needs."""
    go = tmp_path / "go"
    starting = Starting(tmp_path, str(go))
    read, write = os.pipe()
    os.set_inheritable(write, True)  # noqa: FBT003 -- a file that a harness forgot to close
    environment = ALONE | {"HOME": "/h", "TZ": "X", "API_KEY": "secret", "FORENSIC_HOME": "/else", "PYTHONPATH": "/x"}
    starting.run(env=environment, pass_fds=(write,))  # which ends although the recorder waits
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
    assert starting.notes() == []
    go.touch()
    (line,) = starting.started(1)
    told: dict[str, Any] = eval(line)  # noqa: S307 -- the repr of a dict that is made above
    assert told["files"] == [(0, "/dev/null"), (1, "/dev/null"), (2, "/dev/null")]
    expected = ALONE | {"HOME": "/h", "TZ": "X", "FORENSIC_HOME": str(starting.home)}
    assert sorted(told["environment"]) == sorted(f"{name}={value}" for name, value in expected.items())
    assert (told["sid"], told["cwd"], told["ignored"], told["umask"]) == (True, "/", 0, "0077")
    assert starting.payload().raw == b"{}"


@pytest.mark.parametrize("closed", ["<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_files(starting: Starting, closed: str) -> None:
    """The recorder has three standard files even if the hook had none."""
    command = " ".join(f"'{word}'" for word in starting.command())
    starting.run(command=["sh", "-c", f"exec {command} {closed}"])
    (line,) = starting.started(1)
    assert "'files': [(0, '/dev/null'), (1, '/dev/null'), (2, '/dev/null')]" in line


def test_many_at_once(starting: Starting) -> None:
    """Of twenty hooks at once one starts a recorder, and all write their payloads."""
    part = starting.folder / "starting.py"
    part.write_text(part.read_text(encoding="utf-8").replace("PAUSE = 1_000", "PAUSE = 1_000_000"), encoding="utf-8")
    hooks = [subprocess.Popen(starting.command(), stdin=subprocess.PIPE, env=ALONE) for _ in range(20)]
    for hook in hooks:
        assert hook.stdin is not None
        hook.stdin.close()
    assert [hook.wait() for hook in hooks] == [0] * 20
    assert len(starting.started(1)) == 1
    assert len(starting.payloads()) == 20


def test_once_a_second(starting: Starting) -> None:
    """For a second after a start nobody starts another one; then one does, even if the clock was set back."""
    starting.run()
    assert len(starting.started(1)) == 1
    stamp, now = starting.spool / "recorder.start", time.time_ns
    for count, ago in enumerate((1, -3600), start=2):
        os.utime(stamp, ns=(0, now() - ago * 1_000_000_000))
        starting.run()
        assert len(starting.started(count)) == count
        assert 0 <= now() - stamp.stat().st_mtime_ns < 60_000_000_000
    os.utime(stamp, ns=(0, now() + 500_000_000))
    starting.run()
    assert len(starting.started(3)) == 3


def test_one_looks_already(starting: Starting) -> None:
    """A hook that finds another one about to start a recorder leaves it to that one."""
    starting.run()
    assert len(starting.started(1)) == 1
    stamp = starting.spool / "recorder.start"
    os.utime(stamp, ns=(0, 0))
    with stamp.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        starting.run()
    assert len(starting.started(1)) == 1
    assert stamp.stat().st_mtime_ns == 0


def test_running(starting: Starting) -> None:
    """While somebody holds the recorder's lock none is started; a lock file that nobody holds means nothing."""
    starting.spool.mkdir()
    with (starting.spool / "recorder.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        starting.run()
        assert starting.started(0) == []
        assert not (starting.spool / "recorder.start").exists()
    starting.run()
    assert len(starting.started(1)) == 1
    assert len(starting.payloads()) == 2


def no_program(starting: Starting) -> None:
    baked = starting.folder / "baked.py"
    baked.write_text(f"HOME = {str(starting.home)!r}\nROOTS = {{}}\nSTART = ('/no/program',)\n", encoding="utf-8")


def lock_is_a_folder(starting: Starting) -> None:
    (starting.spool / "recorder.lock").mkdir(parents=True)


def stamp_is_a_folder(starting: Starting) -> None:
    (starting.spool / "recorder.start").mkdir(parents=True)


def lock_is_a_link(starting: Starting) -> None:
    starting.spool.mkdir()
    (starting.spool / "recorder.lock").symlink_to(starting.home / "elsewhere")


def no_part(starting: Starting) -> None:
    (starting.folder / "starting.py").unlink()


@pytest.mark.parametrize("broken", [no_program, lock_is_a_folder, stamp_is_a_folder, lock_is_a_link, no_part])
def test_broken(starting: Starting, broken: Callable[[Starting], None]) -> None:
    """A recorder that cannot be started costs no payload, and the harness does not notice."""
    broken(starting)
    starting.run()
    assert starting.started(0) == []
    assert [path.name[-5:] for path in starting.spool.iterdir() if path.name.endswith(".hook")] == [".hook"]


def test_not_wanted(tmp_path: Path) -> None:
    """An installation without a start command starts nothing."""
    hook = Installed(tmp_path / "data")
    hook.run(json.dumps({}).encode())
    assert [path.name for path in hook.spool.iterdir()] == [hook.payload().name]
