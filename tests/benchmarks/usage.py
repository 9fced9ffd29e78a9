"""Measure ``forensic usage`` beside ccusage, aiburn and transcripto, and print the tables of docs/performance.md.

    npm install --prefix RIVALS ccusage@20.0.24          # 20.0.26 has no Linux program on npm
    python -m venv RIVALS && RIVALS/bin/pip install aiburn==0.4.5 transcripto==0.3.1
    python tests/benchmarks/usage.py --rivals RIVALS [--megabytes 400] [--runs 5] [--work FOLDER] [--update]

Needs the shared corpus beside the checkout. It is repeated to the size asked for: once with every id of every copy made
its own, so that nothing merges, and once as it stands, so that all copies but one merge away. Whole processes are
measured, start-up included, all programs in turn and round after round after one round to warm up, because only ratios
of one run travel between machines. Peak memory comes from a run of its own that looks at all processes of the program.
A rival that is not found is left out. Nothing is written outside of the work folder, and nothing is asked of a network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

HERE: Final = Path(__file__).resolve()
ROOT: Final = HERE.parent.parent.parent
REPEAT: Final = HERE.with_name("repeat.py")
RULES: Final = HERE.with_name("rules.py")
PAGE: Final = ROOT / "docs" / "performance.md"
START: Final = "<!-- from here: what tests/benchmarks/usage.py --update measured -->\n"
END: Final = "<!-- to here -->\n"
CEILING: Final = "ccusage"
"""Whose time is the measure of the others."""
Totals = tuple[int, int, int]
"""Tokens: input that no cache gave or took, output, cache (read and written)."""


# --- the programs -----------------------------------------------------------------------------------------------------


class Program(NamedTuple):
    """A program as it is run on a folder; `fresh` when nothing that an earlier run left may help it."""

    name: str
    command: Sequence[str]
    totals: Callable[[Any], Totals]
    fresh: bool = True
    variables: dict[str, str] = {}  # noqa: RUF012 -- never written to
    codes: tuple[int, ...] = (0,)


def of_ccusage(told: Any) -> Totals:
    """Totals as ccusage tells them."""
    sums = told["totals"]
    return sums["inputTokens"], sums["outputTokens"], sums["cacheReadTokens"] + sums["cacheCreationTokens"]


def of_aiburn(told: Any) -> Totals:
    """Totals as aiburn tells them: a row a day, or `null` where it found nothing."""
    days = told["groups"]
    return sum(day["input"] for day in days), sum(day["output"] for day in days), sum(day["cache"] for day in days)


def of_transcripto(told: Any) -> Totals:
    """Totals as transcripto tells them."""
    sums = defaultdict(int, told["tokens"])
    cache = sums["cache_read"] + sums["cache_write_5m"] + sums["cache_write_1h"]
    return sums["input"], sums["output"], cache


def of_forensic(told: Any) -> Totals:
    """Totals as forensic tells them; what it does not know is left out."""
    sums = {name: figure or 0 for name, figure in told["total"].items() if name.endswith("_tokens")}
    return sums["input_tokens"], sums["output_tokens"], sums["cache_read_tokens"] + sums["cache_write_tokens"]


def programs(harness: str, folder: Path, archive: Path, rivals: Path | None) -> Iterator[Program]:
    """All programs, on one folder of transcripts."""
    yield ours("forensic, raw files", folder)
    yield from others(harness, folder, rivals)
    if archive.exists():
        yield ours("forensic, sealed bundles", archive)
        yield ours("forensic, archive unchanged", archive, fresh=False)


def ours(name: str, place: Path, *, fresh: bool = True) -> Program:
    """This project's command. It exits with 1 where it found problems; the corpus has some on purpose."""
    command = (sys.executable, "-m", "forensic", "usage", str(place), "--json")
    return Program(name, command, of_forensic, fresh, {"PYTHONPATH": str(ROOT)}, (0, 1))


def others(harness: str, folder: Path, rivals: Path | None) -> Iterator[Program]:
    """The rivals that are there, and the floor."""
    places = [rivals.resolve() / "node_modules" / ".bin", rivals.resolve() / "bin"] if rivals else []
    where = os.pathsep.join(map(str, places)) or None
    theirs = {"CLAUDE_CONFIG_DIR": str(folder.parent), "CODEX_HOME": str(folder.parent)}
    if found := shutil.which("ccusage", path=where):
        for report in ("daily", "session"):
            name = "ccusage" if report == "daily" else "ccusage, its session report"
            yield Program(name, (found, harness, report, "--json", "--offline"), of_ccusage, variables=theirs)
    if found := shutil.which("aiburn", path=where):
        yield Program("aiburn", (found, "daily", f"--{harness}", "--json"), of_aiburn, variables=theirs)
    if found := shutil.which("transcripto", path=where):
        days = ("cost", "--days", "0", "--root", str(folder), "--json")
        yield Program("transcripto", (found, *days), of_transcripto, variables=theirs)
    if harness == "claude":
        floor = (sys.executable, str(RULES), str(folder), "--floor")
        yield Program("byte filter and msgspec (floor)", floor, tuple)


# --- measuring --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One run of a program: seconds, processor seconds, and the peak memory of its processes in MB where watched."""

    wall: float
    cpu: float
    peaks: list[float]


class Told(NamedTuple):
    """What was measured of a program, and what it told."""

    runs: list[Run]
    peaks: list[float]
    totals: Totals


class Bench:
    """A work folder in which programs run, with everything that they could know of each other kept apart."""

    def __init__(self, work: Path, archive: Path) -> None:
        """Run in `work`; `archive` is what a fresh run finds as it is now."""
        self.state = work / "state"
        self.out = work / "out.json"
        self.archive = archive
        self.sealed = set(archive.parent.rglob("*"))

    def environment(self, program: Program) -> dict[str, str]:
        """The variables of a run: the rivals' and our own folders in the work folder, nothing else of the user's."""
        homes = ("HOME", "FORENSIC_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
        mine = {name: str(self.state / name.lower()) for name in homes}
        return {"PATH": os.environ["PATH"], "TZ": "UTC", "LC_ALL": "C.UTF-8", **mine, **program.variables}

    def forget(self) -> None:
        """Remove what earlier runs left: in the homes, in the archive and beside it."""
        shutil.rmtree(self.state, ignore_errors=True)
        for path in sorted(set(self.archive.parent.rglob("*")) - self.sealed, reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    def run(self, program: Program, *, watch: bool = False) -> Run:
        """Run a program to its end; `watch` its memory, which costs it time."""
        if program.fresh:
            self.forget()
        (self.state / "home").mkdir(parents=True, exist_ok=True)
        with self.out.open("wb") as out:
            started = time.perf_counter()
            child = subprocess.Popen(
                program.command, stdout=out, stderr=subprocess.DEVNULL, env=self.environment(program), cwd=self.state
            )
            peaks = watched(child.pid) if watch else []
            _, status, used = os.wait4(child.pid, 0)
            wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode in program.codes, (program.name, child.returncode)
        return Run(wall, used.ru_utime + used.ru_stime, peaks)

    def totals(self, program: Program) -> Totals:
        """What the last run told."""
        input_, output, cache = program.totals(json.loads(self.out.read_bytes()))
        return input_, output, cache


def watched(pid: int) -> list[float]:
    """Peak memory of a process and of all that descend from it, in MB, looked at until it ends (Linux only)."""
    peaks: dict[int, int] = {}
    while True:
        for one in family(pid):
            try:
                told = Path(f"/proc/{one}/status").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue
            if high := re.search(r"VmHWM:\s+(\d+)", told):
                peaks[one] = int(high[1])
            elif one == pid:
                return [peak * 1024 / 1e6 for peak in peaks.values()]
        time.sleep(0.001)


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for task in Path("/proc").glob(f"{pid}/task/*/children"):
        try:
            children = task.read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def measure(bench: Bench, chosen: Sequence[Program], rounds: int) -> dict[str, Told]:
    """Every program in turn, round after round after one to warm up; last of all the memory of each."""
    runs: dict[str, list[Run]] = {program.name: [] for program in chosen}
    for number in range(rounds + 1):
        for program in chosen:
            one = bench.run(program)
            if number:
                runs[program.name].append(one)
    return {
        program.name: Told(runs[program.name], bench.run(program, watch=True).peaks, bench.totals(program))
        for program in chosen
    }


# --- the tables -------------------------------------------------------------------------------------------------------


class Workload(NamedTuple):
    """One folder of transcripts to be measured on."""

    title: str
    harness: str
    way: tuple[str, ...] = ()
    sealed: bool = False


WORKLOADS: Final = (
    Workload("Claude, every copy a session of its own", "claude", sealed=True),
    Workload("Claude, all copies the same sessions", "claude", ("--same",)),
    Workload("Codex, every copy a session of its own", "codex", ("--years",)),
)
HOMES: Final = {"claude": "projects", "codex": "sessions"}


def child(*arguments: str) -> Any:
    """Run a file beside this one: what grows large must not be in the process that starts the programs."""
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def tables(workload: Workload, corpus: Path, options: argparse.Namespace, work: Path) -> Iterator[str]:
    """One workload: times and totals."""
    folder, archive = work / HOMES[workload.harness], work / "sealed" / "archive"
    size = "--megabytes", str(options.megabytes)
    copies = child(str(REPEAT), str(corpus / workload.harness), str(folder), *size, *workload.way)
    files = list(folder.rglob("*.jsonl"))
    yield f"### {workload.title}"
    yield ""
    yield f"{sum(path.stat().st_size for path in files) / 1e6:.0f} MB in {len(files):,} files, {copies} copies."
    yield ""
    if workload.sealed and not options.only_rivals:
        seal = [sys.executable, "-m", "forensic", "capture", str(folder), "--archive", str(archive), "--json"]
        subprocess.run(seal, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    chosen = list(programs(workload.harness, folder, archive, options.rivals))
    if options.only_rivals:
        chosen = [program for program in chosen if not program.name.startswith("forensic")]
    told = measure(Bench(work, archive), chosen, options.runs)
    yield from times(told)
    rules = child(str(RULES), str(folder)) if workload.harness == "claude" else {}
    yield from sums(told, rules)


def times(told: dict[str, Told]) -> Iterator[str]:
    """The table of times and memory."""
    against = [run.wall for run in told[CEILING].runs] if CEILING in told else []
    yield f"| program | wall s | best s | x {CEILING} | best x best | cpu s | peak MB, largest | all processes |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, one in told.items():
        walls = [run.wall for run in one.runs]
        ratios = [f"{how(walls) / how(against):.2f}" if against else "" for how in (median, min)]
        cpu = median(run.cpu for run in one.runs)
        figures = f"{median(walls):.2f}", f"{min(walls):.2f}", *ratios, f"{cpu:.2f}", f"{max(one.peaks):.0f}"
        yield f"| {name} | {' | '.join(figures)} | {sum(one.peaks):.0f} |"
    yield ""


def sums(told: dict[str, Told], rules: dict[str, list[int]]) -> Iterator[str]:
    """The table of totals, and by which rule each comes out to the last token."""
    yield "| program | input | output | cache | all |" + (" rule |" if rules else "")
    yield "|---|---:|---:|---:|---:|" + ("---|" if rules else "")
    for name, one in told.items():
        found = [f" {number}" for number, rule in enumerate(rules, 1) if rules[rule] == list(one.totals)]
        cells = " | ".join(f"{figure:,}" for figure in (*one.totals, sum(one.totals)))
        yield f"| {name} | {cells} |" + (f"{', '.join(found) or ' none'} |" if rules else "")
    yield ""
    for number, (rule, figures) in enumerate(rules.items(), 1):
        yield f"{number}. {rule}: {sum(figures):,}"
    if rules:
        yield ""


def report(options: argparse.Namespace) -> Iterator[str]:
    """Measure all workloads: the lines of their tables."""
    for workload in WORKLOADS:
        with tempfile.TemporaryDirectory(dir=options.work) as work:
            yield from tables(workload, options.corpus, options, Path(work).resolve())


def update(lines: Iterable[str]) -> None:
    """Write the tables between their marks in the page."""
    before, start, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    assert start + end == START + END, f"{PAGE} has no place for them"
    PAGE.write_text(f"{before}{start}\n{''.join(lines)}{end}{after}", encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="measure forensic usage beside its rivals")
    parser.add_argument("--megabytes", type=float, default=400.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpus")
    parser.add_argument("--rivals", type=Path, help="where they are installed, else they are looked for in PATH")
    parser.add_argument("--work", type=Path, help="a folder for the repeated corpus, else a temporary one")
    parser.add_argument("--only-rivals", action="store_true", help="leave forensic itself out")
    parser.add_argument("--update", action="store_true", help="write the tables into docs/performance.md too")
    options = parser.parse_args()
    lines = []
    for line in report(options):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if options.update:
        update(lines)


if __name__ == "__main__":
    main()
