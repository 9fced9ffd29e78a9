"""Measure what our hooks cost real clients: the extra time of a tool call, beside hooks that do nothing.

    python tests/benchmarks/lab.py [--client claude,codex,copilot] [--rounds 5]

Needs what `make lab` needs. Each round runs a session of twenty small tool calls without hooks, with `/bin/true` and
with a silent shell script as hooks of every event, and with ours; in turn, so that what else the machine does disturbs
all alike. Ours start a recorder, which runs meanwhile; `ours, alone` is without one.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))

from lab_place import Missing, harness_of
from lab_runs import Lab, Run

SCENARIO: Final = "s_many_calls"
CALLS: Final = 20
NONE: Final = "no hooks"
SILENT: Final = {"/bin/true": "/bin/true {event}", "sh, silent": "{lab}/variants/silent.sh {client} {event}"}
OURS: Final = {"ours": "alone", "ours, alone": "quiet"}


def run(lab: Lab, client: str, kind: str) -> Run:
    """One session with hooks of this kind."""
    if kind == NONE:
        return lab.bare(client, SCENARIO)
    if kind in SILENT:
        return lab.commanded(client, SCENARIO, SILENT[kind])
    return lab.hooked(client, SCENARIO, OURS[kind])


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--client", default="claude,codex,copilot")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    clients = asked.client.split(",")
    kinds = (NONE, *SILENT, *OURS)
    seconds: dict[tuple[str, str], list[float]] = {(client, kind): [] for client in clients for kind in kinds}
    calls: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="forensic-lab-") as place:
        try:
            lab = Lab(Path(place), *map(harness_of, clients))
        except Missing as missing:
            print(f"the lab cannot run: {missing}", file=sys.stderr)
            return 2
        for _ in range(asked.rounds):
            for (client, kind), times in seconds.items():
                done = run(lab, client, kind)
                times.append(done.seconds)
                if kind in OURS:
                    calls[client] = sum(bundle.manifest.evidence.payloads[0].rows for bundle in done.bundles)
    print(f"Python {platform.python_version()}, {platform.system()}; medians of {asked.rounds}, {CALLS} calls a run\n")
    print("| client | hooks | s a run | ms more a tool call | lowest to highest s |\n|---|---|---:|---:|---|")
    for (client, kind), times in seconds.items():
        took = statistics.median(times)
        more = (took - statistics.median(seconds[client, NONE])) / CALLS * 1000
        shown = f"{kind} ({calls[client]} calls)" if kind in OURS else kind
        print(f"| {client} | {shown} | {took:.2f} | {more:.1f} | {min(times):.2f} to {max(times):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
