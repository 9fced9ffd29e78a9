"""Measure capture, verification and replay against floors, and print the tables of docs/performance.md.

    python tests/benchmarks/bench.py [--megabytes 100] [--rounds 3] [--corpus ../shared/corpus/claude] [--update]

Each operation runs in a process of its own for its wall time, processor time and peak memory; afterwards all of them
run again in one process, round after round beside their floors, because only ratios of one run travel between
machines. Of several rounds the fastest counts, as the one that other programs disturbed least. Garbage collection
stays as Python sets it. The floors are: the plain msgspec decode of the same rows (no containers, no digests, each
value dropped at once), and strict reading of the bundle (every digest checked, every row unwrapped, nothing
interpreted).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve()
ROOT: Final = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT))

PAGE: Final = ROOT / "docs" / "performance.md"
MARK: Final = "<!-- from here on: what tests/benchmarks/bench.py --update measured -->\n"
MEGA: Final = 1e6
Figures = dict[str, Any]


def sources(home: Path) -> list[Path]:
    """The transcripts below a folder."""
    return sorted(home.rglob("*.jsonl"))


def bundles(archive: Path) -> list[Path]:
    """The sealed bundles of an archive."""
    return sorted(archive.rglob("*.zst"))


# --- the operations: (home, archive) -> bytes of transcript that went through -----------------------------------------


def decode(home: Path, archive: Path) -> None:
    """Floor: decode every row that is JSON, and drop it."""
    import msgspec

    decoder = msgspec.json.Decoder()
    for path in sources(home):
        for row in path.read_bytes().split(b"\n"):
            try:
                decoder.decode(row)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue


def read(home: Path, archive: Path) -> None:
    """Floor: read every bundle strictly to its end."""
    from forensic.bundle import open_bundle

    for path in bundles(archive):
        for _ in open_bundle(path).timeline():
            pass


def observe(home: Path, archive: Path) -> None:
    """Read strictly and let the parser see every entry."""
    from forensic.bundle import open_bundle
    from forensic.dialects.registry import parser

    for path in bundles(archive):
        bundle = open_bundle(path)
        reads = parser(bundle.manifest.harness)
        for entry in bundle.timeline():
            reads.observe(entry)


def capture(home: Path, archive: Path, *, verdict: bool = False) -> None:
    """Capture and seal everything below `home`."""
    from forensic.archive import Archive
    from forensic.intake import capture as capture_all

    for _ in capture_all([home], Archive(archive), verdict=verdict):
        pass


def capture_with_verdict(home: Path, archive: Path) -> None:
    """Capture, replay once for the verdict, and seal."""
    capture(home, archive, verdict=True)


def verify(home: Path, archive: Path, *, verdict: bool = False) -> None:
    """Read all data and check every digest."""
    from forensic.recording import open_recording

    for path in bundles(archive):
        report = open_recording(path).verify(verdict=verdict)
        assert report.ok, report


def verify_with_verdict(home: Path, archive: Path) -> None:
    """Read all data, replay, and compare with what was recorded."""
    verify(home, archive, verdict=True)


def replay_json(home: Path, archive: Path) -> None:
    """Replay and write the session document to a file."""
    from forensic.recording import open_recording
    from forensic.renderers import document

    with tempfile.TemporaryFile() as out:
        for path in bundles(archive):
            document.write(open_recording(path).replay(), out)


def replay_summary(home: Path, archive: Path) -> None:
    """Replay and print the summary."""
    from rich.console import Console

    from forensic.recording import open_recording
    from forensic.renderers import terminal

    console = Console(file=io.StringIO(), width=120)
    for path in bundles(archive):
        terminal.summary(open_recording(path).replay(), console)


OPERATIONS: Final[dict[str, Callable[[Path, Path], None]]] = {
    "decode rows (floor)": decode,
    "capture": capture,
    "capture, with verdict": capture_with_verdict,
    "read strictly (floor)": read,
    "verify": verify,
    "verify, with verdict": verify_with_verdict,
    "observe": observe,
    "replay json": replay_json,
    "replay summary": replay_summary,
}
IN_ROUNDS: Final = (
    "decode rows (floor)",
    "read strictly (floor)",
    "verify",
    "observe",
    "replay json",
    "replay summary",
)
WRITES: Final = ("capture", "capture, with verdict")


# --- in the child ----------------------------------------------------------------------------------------------------


def once(name: str, home: Path, archive: Path) -> Figures:
    """Run one operation: seconds, processor seconds, peak memory of this process in MB."""
    import forensic.intake  # noqa: F401 -- imports are not what is measured here

    wall, processor = time.perf_counter(), time.process_time()
    OPERATIONS[name](home, archive)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {"wall": wall, "cpu": processor, "peak": peak()}


def peak() -> float:
    """Largest resident size of this process so far, in MB; what its parent held does not count where /proc tells."""
    told = Path("/proc/self/status")
    if told.exists():
        line = next(line for line in told.read_text(encoding="ascii", errors="replace").splitlines() if "VmHWM" in line)
        return int(line.split()[1]) * 1024 / MEGA
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGA


def in_rounds(home: Path, archive: Path, rounds: int) -> Figures:
    """Run the reading operations beside their floors: seconds of each, round by round."""
    import forensic.intake  # noqa: F401 -- as above

    told: dict[str, list[float]] = {name: [] for name in IN_ROUNDS}
    for _ in range(rounds):
        for name in IN_ROUNDS:
            before = time.perf_counter()
            OPERATIONS[name](home, archive)
            told[name].append(time.perf_counter() - before)
    return told


# --- in the parent ---------------------------------------------------------------------------------------------------


def child(*arguments: str) -> Figures:
    """Run this file again for one measurement."""
    command = [sys.executable, str(HERE), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    told: Figures = json.loads(done.stdout)
    return told


def archive_of(work: Path) -> Path:
    """The archive that the reading operations read: the first one captured with its verdicts."""
    return work / WRITES[-1] / "0"


def measure(home: Path, work: Path, rounds: int) -> tuple[dict[str, Figures], Figures]:
    """All operations alone, then the reading ones in rounds."""
    alone: dict[str, Figures] = {}
    archive = archive_of(work)
    for name in OPERATIONS:
        runs = []
        for number in range(rounds):
            target = work / name / str(number) if name in WRITES else archive
            runs.append(child("--child", name, str(home), str(target)))
        alone[name] = {figure: min(run[figure] for run in runs) for figure in ("wall", "cpu")}
        alone[name]["peak"] = max(run["peak"] for run in runs)
    return alone, child("--rounds-child", str(home), str(archive), str(rounds))


def table(title: str, home: Path, work: Path, rounds: int) -> Iterator[str]:
    """One workload as a markdown table."""
    size = sum(path.stat().st_size for path in sources(home)) / MEGA
    rows = sum(path.read_bytes().count(b"\n") for path in sources(home))
    alone, beside = measure(home, work, rounds)
    sealed = bundles(archive_of(work))
    packed = sum(path.stat().st_size for path in sealed) / MEGA
    yield f"### {title}"
    yield ""
    yield f"{size:.1f} MB in {rows:,} rows, {len(sealed)} sessions, {packed:.1f} MB sealed."
    yield ""
    yield "| operation | wall s | cpu s | MB/s | peak MB | peak / size | x decode | x strict reading |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, figures in alone.items():
        speed, share = size / figures["wall"], figures["peak"] / size
        against = " | ".join(ratio(beside, name, floor) for floor in ("decode rows (floor)", "read strictly (floor)"))
        yield (
            f"| {name} | {figures['wall']:.2f} | {figures['cpu']:.2f} | {speed:.0f} | {figures['peak']:.0f} "
            f"| {share:.2f} | {against} |"
        )
    yield ""


def ratio(beside: Figures, name: str, floor: str) -> str:
    """An operation's time in times of a floor's, each at its fastest."""
    return f"{min(beside[name]) / min(beside[floor]):.2f}" if name in beside else ""


def machine() -> str:
    """What the figures depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    libraries = ", ".join(f"{name} {version(name)}" for name in ("msgspec", "zstandard", "rich"))
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB; "
        f"{platform.python_implementation()} {platform.python_version()}; {libraries}"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="measure capture, verification and replay")
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus" / "claude")
    parser.add_argument("--update", action="store_true", help="write the tables into docs/performance.md too")
    parser.add_argument("--child", nargs=3, metavar=("OPERATION", "HOME", "ARCHIVE"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds-child", nargs=3, metavar=("HOME", "ARCHIVE", "ROUNDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, home, archive = options.child
        print(json.dumps(once(name, Path(home), Path(archive))))
    elif options.rounds_child:
        home, archive, rounds = options.rounds_child
        print(json.dumps(in_rounds(Path(home), Path(archive), int(rounds))))
    else:
        lines = []
        for line in report(options.megabytes, options.rounds, options.corpus):
            print(line, flush=True)
            lines.append(f"{line}\n")
        if options.update:
            kept = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
            PAGE.write_text(f"{kept}{MARK}\n{''.join(lines).rstrip()}\n", encoding="utf-8")


def report(megabytes: float, rounds: int, corpus: Path) -> Iterator[str]:
    """Measure both workloads: the lines of their tables."""
    yield machine()
    yield ""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        generate = [sys.executable, str(HERE.with_name("generate.py")), str(home), "--megabytes", str(megabytes)]
        subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
        yield from table(f"One generated session of {megabytes:.0f} MB", home, Path(folder) / "one", rounds)
        if corpus.is_dir():
            yield from table("The Claude sessions of the public corpus", corpus, Path(folder) / "many", rounds)


if __name__ == "__main__":
    main()
