"""The real hook, killed at every system call, and with every call of its own failing: never a torn payload."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hook_faults import Bench, Outcome, points
from hook_runs import ALONE, PYTHON, Installed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="strace and the names of calls are of Linux"),
]

ERRORS = ("ENOSPC", "EIO", "EDQUOT", "EACCES", "EINTR")
OURS = ("openat", "write", "fsync", "close", "renameat", "linkat", "mkdir", "mkdirat", "ftruncate", "unlinkat")
LEAST = {"openat": 6, "write": 2, "fsync": 2, "close": 3, "renameat": 1, "linkat": 1}
"""How many calls there must be at least, or the test has gone blind."""


@pytest.fixture(params=["first run", "later run"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """A hook that names a transcript, with its parts compiled; in the first run there is no spool yet."""
    transcript = tmp_path / "root" / "folder" / "session.jsonl"
    transcript.parent.mkdir(parents=True)
    payload = b'{"transcript_path":"%s","rest":"%s"}\n' % (bytes(transcript), b"0123456789abcdef" * 6000)
    prepared = Installed(tmp_path / "data", {"claude": [tmp_path / "root"]})
    prepared.run(b"")
    shutil.rmtree(prepared.spool)
    if request.param == "later run":
        (prepared.spool / "pins").mkdir(parents=True)
    transcript.touch()
    return Bench(tmp_path, payload, prepared)


def all_of(bench: Bench, jobs: list[tuple[str, str]]) -> dict[str, Outcome]:
    """The outcomes of many injections, a few at a time."""

    def one(job: tuple[int, tuple[str, str]]) -> tuple[str, Outcome]:
        number, (name, inject) = job
        return name, bench.run(f"run-{number}", [inject])

    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        return dict(pool.map(one, enumerate(jobs)))


def test_killed_anywhere(bench: Bench) -> None:
    """Killed at any call, the hook leaves a whole payload or none, and once its folder was synced a whole one."""
    calls = bench.run("whole").calls
    jobs = [(f"{call.name} {call.number}", f"{call.name}:signal=KILL:when={call.number}") for call in points(calls)]
    assert len(jobs) > 60
    outcomes = all_of(bench, jobs)
    assert {name: one.torn for name, one in outcomes.items() if one.torn} == {}
    assert [name for name, one in outcomes.items() if one.acknowledged and not one.stored] == []
    assert [name for name, one in outcomes.items() if one.output] == []
    killed = [one for one in outcomes.values() if one.code != 0]
    assert len(killed) > len(jobs) * 0.9
    assert {len(one.stored) for one in killed} == {0, 1}
    assert {len(one.temporary) for one in killed} == {0, 1}
    assert max(len(one.stored) + len(one.temporary) for one in killed) == 1


def test_failing_calls(bench: Bench) -> None:
    """Whichever call fails, and how: the harness sees success and silence, and what was stored is whole."""
    calls = bench.run("whole").calls
    counts = {name: sum(call.name == name for call in calls) for name in LEAST}
    assert [name for name, least in LEAST.items() if counts[name] < least] == []
    jobs = [
        (f"{call.name} {call.number} {error}", f"{call.name}:error={error}:when={call.number}")
        for call in points(calls, OURS)
        for error in ERRORS
    ]
    outcomes = all_of(bench, jobs)
    assert {name: (one.code, one.output) for name, one in outcomes.items() if (one.code, one.output) != (0, b"")} == {}
    assert {name: one.torn for name, one in outcomes.items() if one.torn} == {}
    assert [name for name, one in outcomes.items() if one.acknowledged and not one.stored] == []
    assert [name for name, one in outcomes.items() if one.temporary] == []
    # a call that was interrupted is made again, or does not matter; that of mkdir never is
    lost = [name for name, one in outcomes.items() if name.endswith("EINTR") and not one.stored]
    assert [name for name in lost if not name.startswith("mkdir")] == []


def test_full_for_good(bench: Bench) -> None:
    """With a disk that stays full, whichever call notices first, nothing is left and nobody is told."""
    for call in ("write", "fsync", "renameat", "mkdir"):
        outcome = bench.run(f"full-{call}", [f"{call}:error=ENOSPC"])
        assert (outcome.code, outcome.output, outcome.torn, outcome.temporary) == (0, b"", [], [])
        if call != "mkdir":
            assert outcome.stored == []


def test_nothing_named_is_opened(bench: Bench) -> None:
    """No call but look, link and look again has the path of the transcript in it."""
    calls = bench.run("whole").calls
    told = [call.name for call in calls if "session.jsonl" in call.arguments and call.name not in ("read", "write")]
    assert "linkat" in told
    assert set(told) == {"linkat", "newfstatat"}


# --- a disk that is full, and files that may not grow -----------------------------------------------------------------

LIMITED = """
import os, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("limit", [0, 1, 300, 1000, 4096, 70_000, 99_999])
def test_files_may_not_grow(tmp_path: Path, limit: int) -> None:
    """Where a file may hold only some of the bytes, the write is short and then fails: nothing is left of it."""
    hook = Installed(tmp_path / "data")
    hook.run(b"small")
    command = [PYTHON, "-I", "-S", "-c", LIMITED, str(limit), *hook.command()]
    hook.run(bytes(100_000), command=command)
    assert [one.raw for one in hook.payloads()] == [b"small"]
    if limit >= 300:  # below there is no room for the line either
        assert hook.diagnostics() == [f"a payload of 100000 bytes: OSError({errno.EFBIG}, 'File too large')"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Mounts a file system of 64 KiB at a folder."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    mounted: list[Path] = []

    def mount(place: Path) -> None:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(place)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("file systems may not be mounted here")
        mounted.append(place)

    yield mount
    for place in mounted:
        subprocess.run([shutil.which("umount") or "", str(place)], check=True)


def test_disk_full(tmp_path: Path, small_disk: Callable[[Path], None]) -> None:
    """On a full disk what was stored stays whole, what does not fit leaves nothing, and new room is used."""
    hook = Installed(tmp_path / "data")
    hook.spool.mkdir(mode=0o700)
    small_disk(hook.spool)
    payload = os.urandom(5000)
    for _ in range(16):
        hook.run(payload)
    stored = hook.payloads()
    assert 4 < len(stored) < 14
    assert {one.raw for one in stored} == {payload}
    for one in stored[:3]:
        (hook.spool / one.name).unlink()
    hook.run(payload)
    assert len(hook.payloads()) == len(stored) - 2


def test_killed_by_its_harness(tmp_path: Path) -> None:
    """A hook that is ended while it waits leaves no trace."""
    hook = Installed(tmp_path / "data")
    process = subprocess.Popen(hook.command(), stdin=subprocess.PIPE, env=ALONE)
    process.terminate()
    assert process.wait() != 0
    assert process.stdin is not None
    process.stdin.close()
    assert hook.payloads() == []
