"""Runs of real clients with our hooks, and a table of what was compared.

    python tests/lab/lab_table.py [--client claude,...] [--scenario a_question,...] [--way live,alone,...]

Each scenario runs without any hooks, in each way with ours, and with ours while something of us is gone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab_judge import Calm, Verdict, judge
from lab_place import CLIENTS, PACKAGES, Missing, client_folder, harness_of, install
from lab_runs import NEEDS_HOOKS, SPOILED, WAYS, Lab

SPOILED_BY: tuple[str, ...] = ("b_read_edit_bash",)
"""The scenarios that run while something of us is gone."""


def main() -> int:
    """Run what was asked for, print a table, and end with 1 when anything differed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--client", default=",".join(CLIENTS))
    parser.add_argument("--scenario", default="", help="all, unless named")
    parser.add_argument("--way", default="live,alone,end", help=", ".join(WAYS))
    parser.add_argument("--without", default=",".join(SPOILED), help="what is gone meanwhile")
    parser.add_argument("--out", type=Path, help="keep everything in this new folder")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--install", action="store_true", help="install clients that are missing, in a folder to throw away"
    )
    asked = parser.parse_args()
    names = asked.client.split(",")
    folder = asked.out or Path(tempfile.mkdtemp(prefix="forensic-lab-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lab = _lab(folder, {harness_of(name) for name in names}, may_install=asked.install)
    except Missing as missing:
        print(f"the lab cannot run: {missing}", file=sys.stderr)
        return 2
    wanted = [
        (client, scenario)
        for client in names
        for scenario in lab.scenarios(client)
        if not asked.scenario or scenario in asked.scenario.split(",")
    ]
    began = time.monotonic()

    def job(pair: tuple[str, str]) -> list[Verdict]:
        return list(_judged(lab, *pair, _words(asked.way), _words(asked.without)))

    with ThreadPoolExecutor(asked.jobs) as pool:
        verdicts = [one for each in pool.map(job, wanted) for one in each]
    bad = sum(bool(one.faults) for one in verdicts)
    print(f"{len(verdicts)} runs, {bad} with differences, {time.monotonic() - began:.0f} s")
    if asked.out is None:
        lab.clear()
    return int(bool(bad))


def _words(text: str) -> Sequence[str]:
    return [word for word in text.split(",") if word]


def _lab(folder: Path, harnesses: set[str], *, may_install: bool) -> Lab:
    try:
        client_folder(*harnesses)
    except Missing:
        if not may_install:
            raise
        install(folder / "clients", *(PACKAGES[harness] for harness in sorted(harnesses)))
        os.environ["FORENSIC_LAB_CLIENTS"] = str(folder / "clients")
    return Lab(folder, *harnesses)


def _judged(lab: Lab, client: str, scenario: str, ways: Sequence[str], without: Sequence[str]) -> Iterator[Verdict]:
    try:
        calm = Calm(lab, client, scenario)
        for way in ways:
            if way != "alone" or scenario not in NEEDS_HOOKS:
                run = lab.hooked(client, scenario, way)
                yield _shown(calm.added(judge(run, way), run))
        for what in without if scenario in SPOILED_BY else ():
            yield _shown(calm.added(Verdict(client, scenario, f"no {what}"), lab.spoiled(client, scenario, what)))
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
        yield _shown(Verdict(client, scenario, "-", faults=[f"it could not be run: {error}"]))


def _shown(one: Verdict) -> Verdict:
    state = "differs" if one.faults else "races" if one.races else "same"
    print(
        f"{one.client:10} {one.scenario:20} {one.way:10} {state:7} {one.hooks:3} hooks {one.rows:4} rows "
        f"{one.lost:2} lost files {one.bundles} bundles {one.seconds[0]:6.2f} s {one.seconds[1]:6.2f} s"
    )
    for fault in one.faults:
        print(f"    - {fault}")
    sys.stdout.flush()
    return one


if __name__ == "__main__":
    sys.exit(main())
