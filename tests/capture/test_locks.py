"""The lock of the recorder: one at a time, and none that outlives who held it."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forensic.capture.locks import Lock
from forensic.errors import Busy, WriteFailed

HOLD = """
import os, sys
from pathlib import Path
from forensic.capture.locks import Lock

lock = Lock(Path(sys.argv[1]))
lock.take()
if sys.argv[2:] == ["fork"] and os.fork():
    os._exit(0)
if sys.argv[2:] == ["release"]:
    if not (child := os.fork()):
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
print("taken", flush=True)
sys.stdin.read()
"""
"""Takes a lock, says so, and holds it to the end of its input; with `fork` a child does, whose parent is gone, and with
`release` its parent, when a child has let it go."""


@contextmanager
def holder(path: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds a lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"taken\n"
        yield process
        process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a lock is to lie."""
    return tmp_path / "recorder.lock"


def descriptors() -> int:
    """How many this process holds; 0 where that cannot be told."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_taken_and_let_go(path: Path) -> None:
    """A lock is held from its taking to its release, and can be taken again."""
    lock, other = Lock(path), Lock(path)
    for _ in range(3):
        assert not other.held()
        lock.take()
        assert other.held()
        lock.release()
    assert not other.held()


def test_one_at_a_time(path: Path) -> None:
    """Whoever comes second is told who is in the way, and disturbs nothing."""
    first, second = Lock(path), Lock(path)
    first.take()
    before = descriptors()
    with pytest.raises(Busy, match=r"another recorder is running .*recorder\.lock is locked"):
        second.take()
    assert descriptors() == before
    second.release()
    assert second.held()
    first.release()
    second.take()
    second.release()


def test_taken_twice_by_one(path: Path) -> None:
    """Who has it cannot take it again, and does not lose it by trying, or by asking."""
    lock = Lock(path)
    lock.take()
    with pytest.raises(Busy):
        lock.take()
    assert lock.held()
    assert Lock(path).held()
    lock.release()
    assert not Lock(path).held()


def test_two_processes(path: Path) -> None:
    """A lock that another process holds is held here, for as long as that process lives."""
    with holder(path) as other:
        assert Lock(path).held()
        with pytest.raises(Busy):
            Lock(path).take()
        assert other.stdin is not None
        other.stdin.close()
        other.wait()
        assert not Lock(path).held()
        lock = Lock(path)
        lock.take()
        lock.release()


def test_of_the_dead(path: Path) -> None:
    """A killed process leaves the file of its lock and nothing that anybody would wait for."""
    with holder(path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert path.exists()
        assert not Lock(path).held()
        lock = Lock(path)
        lock.take()
        assert lock.held()
        lock.release()


def test_a_child_that_outlives_its_parent(path: Path) -> None:
    """What was forked holds a lock to its own end, unless it lets it go, which takes nothing from its parent."""
    with holder(path, "fork") as other:
        other.wait()
        assert Lock(path).held()
        with pytest.raises(Busy):
            Lock(path).take()
        assert other.stdin is not None
        other.stdin.close()
        # the end of its output is that of the last who holds it
        assert other.stdout is not None
        assert other.stdout.read() == b""
        lock = Lock(path)
        lock.take()
        lock.release()


def test_a_child_that_lets_go(path: Path) -> None:
    """A child that lets a lock go lets go of its own share alone."""
    with holder(path, "release") as other:
        assert Lock(path).held()
        other.kill()
        other.wait()
        assert not Lock(path).held()


def test_while_a_hook_looks(path: Path) -> None:
    """A hook holds it for a moment when it looks: that moment is waited for."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    timer = threading.Timer(0.1, os.close, [descriptor])
    timer.start()
    lock = Lock(path)
    lock.take()
    timer.join()
    assert Lock(path).held()
    lock.release()


def test_looking_takes_nothing(path: Path) -> None:
    """Looking makes no file, keeps nobody out, and two may look at once."""
    before = descriptors()
    assert not Lock(path).held()
    assert not path.exists()
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    assert not Lock(path).held()
    os.close(descriptor)
    assert descriptors() == before


def test_private(path: Path) -> None:
    """The file of a lock is for its owner alone, and what stands in it stays."""
    lock = Lock(path)
    lock.take()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lock.release()
    path.write_bytes(b"x")
    lock.take()
    lock.release()
    assert path.read_bytes() == b"x"


def test_where_no_lock_can_lie(path: Path) -> None:
    """Without a folder, or through a link, no lock is taken, and that is said."""
    with pytest.raises(WriteFailed, match=r"cannot write .*: No such file or directory"):
        Lock(path / "deeper").take()
    path.symlink_to("elsewhere")
    with pytest.raises(WriteFailed):
        Lock(path).take()
    assert not Lock(path).held()
    assert not (path.parent / "elsewhere").exists()


def test_released_twice(path: Path) -> None:
    """Letting go of nothing is nothing; above all no descriptor of somebody else's is closed."""
    lock = Lock(path)
    lock.release()
    lock.take()
    lock.release()
    other = os.open(path, os.O_RDONLY)
    lock.release()
    os.fstat(other)
    os.close(other)


def test_not_handed_on(path: Path) -> None:
    """A program that is started while a lock is held does not hold it."""
    lock = Lock(path)
    lock.take()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        lock.release()
        assert not Lock(path).held()
        other.kill()
