"""Measure start-up with pyperf: what the program costs before it does anything.

    python tests/benchmarks/start.py --quiet -o /tmp/start.json && python -m pyperf stats /tmp/start.json

The bounds are ratios to the first line: ``forensic --help`` at most 7, ``import forensic`` at most 1.2.
"""

from __future__ import annotations

import sys

import pyperf  # type: ignore[import-untyped]  # it ships no types

COMMANDS = {
    "bare": ["-c", "pass"],
    "import forensic": ["-c", "import forensic"],
    "forensic --help": ["-m", "forensic", "--help"],
    "forensic list": ["-m", "forensic", "list"],
    "forensic replay --help": ["-m", "forensic", "replay", "--help"],
}


def main() -> None:
    """Each command in fresh processes, as pyperf sees fit."""
    runner = pyperf.Runner(processes=5, values=5)
    for name, arguments in COMMANDS.items():
        runner.bench_command(name, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
