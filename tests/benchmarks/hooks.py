"""Measure what a hook costs its harness, against the least that a durable write in Python can cost.

    python tests/benchmarks/hooks.py [--rounds 200] [--python PYTHON] [--payload BYTES]

All commands run in turn, round after round, so that what else the machine does disturbs all alike. Two floors, both
minimal scripts for the same interpreter with the same flags, read standard input, write it to a file, sync it, rename
it and sync the folder: the plain one is written as anybody would, the lean one avoids `os` and leaves by `_exit`. The
hook does more: it pins the transcript that the payload names, tells where it was called, and looks whether a recorder
runs, which is so here. The goal is a ratio of at most 1.3 to the plain floor, at p50 and p95.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hook_runs import PYTHON, Installed

PLAIN: Final = """
import os, sys
raw = b""
while piece := os.read(0, 65536):
    raw += piece
folder = sys.argv[1]
temporary = f"{folder}/.tmp-{os.getpid()}"
file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
os.write(file, raw)
os.fsync(file)
os.close(file)
os.rename(temporary, f"{folder}/{os.getpid()}.hook")
file = os.open(folder, os.O_RDONLY)
os.fsync(file)
os.close(file)
"""
LEAN: Final = PLAIN.replace("import os, sys", "import posix as os, sys") + "os._exit(0)\n"
PLAIN_FLOOR: Final = "floor, plain"
LEAN_FLOOR: Final = "floor, lean"


def commands(home: Path, python: str, start: Sequence[str]) -> tuple[dict[str, list[str]], Path]:
    """What is measured, by name, and the transcript that payloads name."""
    transcript = home / "projects" / "-project" / "session.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(b"{}\n")
    hook = Installed(home / "data", {"claude": [home / "projects"]}, start)
    hook.spool.mkdir(mode=0o700)
    for name in ("plain", "lean"):
        (home / name).mkdir()
    isolated = [python, "-I", "-S"]
    measured = {
        "/bin/true": ["/bin/true"],
        "sh -c exit": ["/bin/sh", "-c", "exit 0"],
        "python -c pass": [*isolated, "-c", "pass"],
        PLAIN_FLOOR: [*isolated, "-c", PLAIN, str(home / "plain")],
        LEAN_FLOOR: [*isolated, "-c", LEAN, str(home / "lean")],
        "hook": [python, *hook.command()[1:]],
        "hook, as registered": ["/bin/sh", "-c", hook.registered(python)],
    }
    return measured, transcript


def once(command: list[str], payload: bytes, environment: Mapping[str, str]) -> float:
    """Milliseconds from before the start of a command to its end."""
    read, write = os.pipe()
    os.write(write, payload)
    os.close(write)
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=[(os.POSIX_SPAWN_DUP2, read, 0)])
    _, status = os.waitpid(pid, 0)
    ended = time.perf_counter()
    os.close(read)
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return (ended - began) * 1000


def main() -> None:
    """Measure and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--python", default=PYTHON)
    arguments.add_argument("--payload", type=int, default=2000, help="bytes, about as many as harnesses send")
    options = arguments.parse_args()
    if options.payload > 65536:
        arguments.error("a payload that a pipe does not hold needs somebody to write it")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        measured, transcript = commands(home, options.python, ("/bin/false",))
        head = b'{"session_id":"x","transcript_path":"%s","rest":"' % bytes(transcript)
        payload = head + b"x" * (options.payload - len(head) - 2) + b'"}'
        spool = home / "data" / "spool"
        times: dict[str, list[float]] = {name: [] for name in measured}
        with (spool / "recorder.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for number in range(options.rounds + 5):
                for name, command in measured.items():
                    took = once(command, payload, environment)
                    if number >= 5:
                        times[name].append(took)
        stored = [path.name for path in spool.iterdir() if path.suffix == ".hook"]
        assert len(stored) == 2 * (options.rounds + 5)
        assert {path.name for path in spool.iterdir()} == {*stored, "pins", "recorder.lock"}
        assert len(list((spool / "pins").iterdir())) == 1
    version = platform.python_version() if options.python == PYTHON else options.python
    print(f"Python {version}, {options.rounds} rounds, payload of {len(payload)} bytes, ms\n")
    print(f"{'':22}{'p50':>8}{'p95':>8}{'/ plain floor':>18}{'/ lean floor':>18}")
    marks = {}
    for name, values in times.items():
        values.sort()
        marks[name] = (values[len(values) // 2], values[len(values) * 95 // 100])
    for name, (middle, high) in marks.items():
        ratios = ""
        for floor in (PLAIN_FLOOR, LEAN_FLOOR):
            both = f"{middle / marks[floor][0]:.2f}, {high / marks[floor][1]:.2f}"
            ratios += f"{both:>18}"
        print(f"{name:22}{middle:8.2f}{high:8.2f}{ratios}")


if __name__ == "__main__":
    main()
