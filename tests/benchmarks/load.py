"""Put a recorder under load: many sessions, hundreds of hook payloads a second, transcripts that grow with them.

    python tests/benchmarks/load.py [--seconds 60] [--sessions 50] [--rate 500]

A generator writes payload files straight into the spool, as hooks do but for the sync, with a row or more in the
transcript before each. A recorder of its own, `forensic capture`, takes them. Latency is the time from the moment a
payload has its name to the moment its name is gone, which is after its journal was synced; it is looked at every few
milliseconds, so it is told too long rather than too short. CPU is that of the recorder while payloads come, without
the children that seal, which work afterwards. At the end all sessions end, and what is in the bundles is compared with
what was sent. The goals: none lost, less than one core, p95 at most 50 ms, and memory that does not grow with time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from recorder_runs import Stage, append, numbered, raws, texts, until

from forensic.capture.locks import Lock

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_LOOK: Final = 0.004


class Watch(threading.Thread):
    """Looks when payload files go."""

    def __init__(self, spool: Path) -> None:
        super().__init__(daemon=True)
        self.sent: dict[str, float] = {}
        self.took: list[float] = []
        self.over = False
        self._spool = str(spool)

    def run(self) -> None:
        while not self.over:
            # what was sent before the listing and is not in it has been taken
            known = list(self.sent)
            with os.scandir(self._spool) as entries:
                there = {entry.name for entry in entries}
            now = time.monotonic()
            self.took += [now - self.sent.pop(name) for name in known if name not in there]
            time.sleep(_LOOK)


def cpu(pid: int) -> tuple[float, float]:
    """Seconds that a process has worked, and its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    own, children = (int(fields[at]) + int(fields[at + 1]) for at in (11, 13))
    return own / _TICKS, children / _TICKS


def memory(pid: int, key: str) -> float:
    """Mebibytes of a process: ``VmRSS`` now, ``VmHWM`` at most."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return 0.0


class Load:
    """Sessions at work."""

    def __init__(self, stage: Stage, sessions: int) -> None:
        self.stage = stage
        self.random = random.Random(0)  # noqa: S311 -- the same each time is what is wanted
        self.ids = [f"{n:08x}-1111-4111-8111-111111111111" for n in range(sessions)]
        self.sent: dict[str, list[bytes]] = {one: [] for one in self.ids}
        self.watch = Watch(stage.spool)
        self.rows = 0

    def hook(self, session: str, event: str = "PostToolUse") -> None:
        """Rows, and then a payload."""
        path = self.stage.transcript(session)
        count = self.random.choice((1, 1, 1, 2, 4))
        append(path, numbered(self.rows + 1, self.rows + count, session, text="x" * self.random.randrange(2000)))
        self.rows += count
        keys: dict[str, Any] = {"tool_use_id": f"t{self.rows}", "tool_response": "y" * self.random.randrange(2000)}
        sent = self.stage.hook(event, path, session=session, **keys)
        self.sent[session].append(sent.raw)
        self.watch.sent[sent.name] = time.monotonic()

    def run(self, seconds: float, rate: float) -> float:
        """Work for so long; payloads a second that it came to."""
        begun = time.monotonic()
        number = 0
        while (now := time.monotonic() - begun) < seconds:
            while number < now * rate:
                self.hook(self.ids[number % len(self.ids)])
                number += 1
            time.sleep(0.001)
        return number / (time.monotonic() - begun)

    def lost(self) -> tuple[int, int]:
        """Payloads and transcripts that the bundles do not hold as they were."""
        payloads = files = 0
        for session in self.ids:
            bundle = self.stage.newest(session)
            payloads += sum((Counter(self.sent[session]) - Counter(raws(bundle))).values())
            files += texts(bundle) != {("main", 1): self.stage.transcript(session).read_bytes()}
        return payloads, files


def measure(place: Path, seconds: float, sessions: int, rate: float) -> dict[str, str]:
    """Run everything; the figures by their names."""
    stage = Stage(place)
    load = Load(stage, sessions)
    process = subprocess.Popen(
        [sys.executable, "-m", "forensic", "capture"],
        env=stage.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until(Lock(stage.spool / "recorder.lock").held)
        load.watch.start()
        load.run(2.0, rate)  # files are opened, folders made
        until(lambda: not load.watch.sent)
        load.watch.took.clear()
        early, before = memory(process.pid, "VmRSS"), cpu(process.pid)
        begun = time.monotonic()
        reached = load.run(seconds, rate)
        late, after = memory(process.pid, "VmRSS"), cpu(process.pid)
        spent = time.monotonic() - begun
        until(lambda: not load.watch.sent)
        took = sorted(load.watch.took)
        ends = time.monotonic()
        for session in load.ids:
            load.hook(session, "SessionEnd")
        until(lambda: not stage.waiting() and not stage.recording(), seconds=600)
        sealing = time.monotonic() - ends
        at_most, children = memory(process.pid, "VmHWM"), cpu(process.pid)[1]
    finally:
        load.watch.over = True
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1].decode()
    payloads, files = load.lost()
    sent = sum(map(len, load.sent.values()))
    return {
        "payloads": f"{sent} in {sessions} sessions, {reached:.0f} a second",
        "rows": str(load.rows),
        "payloads lost": str(payloads),
        "transcripts that differ": str(files),
        "latency p50": f"{took[len(took) // 2] * 1000:.1f} ms",
        "latency p95": f"{took[len(took) * 95 // 100] * 1000:.1f} ms",
        "latency max": f"{took[-1] * 1000:.1f} ms",
        "CPU of the recorder": f"{(after[0] - before[0]) / spent:.2f} cores",
        "memory after 2 s": f"{early:.0f} MiB",
        f"memory after {seconds + 2:.0f} s": f"{late:.0f} MiB",
        "memory at most": f"{at_most:.0f} MiB",
        "sealing all": f"{sealing:.1f} s, CPU {children:.1f} s",
        "it said": errors.strip().splitlines()[0] if errors.strip() != "forensic: interrupted" else "nothing",
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.seconds, options.sessions, options.rate)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:26} {figure}")


if __name__ == "__main__":
    main()
