"""``forensic doctor``: whether sessions are really being recorded, and what to do when not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from forensic import private
from forensic.cli import output
from forensic.cli.options import AsJson
from forensic.doctor import checks
from forensic.registration.placing import Hook

EXAMPLE = "  forensic doctor\n  forensic doctor --json"

_STATES = ("fail", "warn", "ok")


def command(*, json: AsJson = False) -> int:
    """Check whether sessions are really being recorded.

    Registered hooks are run once with a test payload, which is removed again; nothing else is changed. What is wrong
    has a remedy below it. Ends with 1 when something fails.
    """
    states: Counter[str] = Counter()
    for one in checks(Hook(private.home()), Path.cwd()):
        states[one.state] += 1
        if json:
            told = {"check": one.check, "harness": one.about or None, "state": one.state}
            output.json_line({**told, "note": one.note, "remedy": one.remedy or None})
            continue
        output.line(f"{one.state:4}", f"{' '.join(filter(None, (one.check, one.about))):17}", one.note)
        if one.remedy:
            output.line("  ->", one.remedy)
    if not json:
        output.aside(output.tally(states, _STATES))
    return int(states["fail"] > 0)
