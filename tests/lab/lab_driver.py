"""The lab's own runner, with scenarios of ours: `lab_driver.py LAB ...` takes what the lab's `run_lab.py` takes.

A process of its own: it starts itself again in new namespaces, as the lab does.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

_USAGE = {"input": 900, "output": 70, "cache_read": 0, "cache_write": 4100, "reasoning": 25}
_FIND = "find ~/.claude/projects ~/.codex/sessions ~/.copilot/session-state -name '*.jsonl'"


def _between(about: str, command: str) -> dict[str, Any]:
    """A session in which a tool does something to the transcripts while the client writes them."""
    turns: list[dict[str, Any]] = [
        {"ops": [("bash", one)], "usage": _USAGE} for one in ("echo one", command, "echo two")
    ]
    return {
        "about": about,
        "steps": [{"prompt": "[alpha] Do three things."}],
        "threads": {"alpha": [*turns, {"thinking": "That was it.", "text": "All three are done.", "usage": _USAGE}]},
    }


OURS = {
    "transcript_deleted": _between(
        "the transcripts vanish while a tool runs", f"{_FIND} -delete 2>/dev/null; echo deleted"
    ),
    "transcript_replaced": _between(
        "another file takes the place of each transcript",
        f'{_FIND} 2>/dev/null | while read -r f; do cp -p "$f" "$f.new" && mv "$f.new" "$f"; done; echo replaced',
    ),
    "transcript_emptied": _between(
        "the transcripts are cut to nothing in place",
        f'{_FIND} 2>/dev/null | while read -r f; do : > "$f"; done; echo emptied',
    ),
}


def main() -> int:
    """Run the lab, and say how it ended."""
    _, place, *words = sys.argv
    if "LAB_ISOLATED" not in os.environ:
        os.environ["LAB_PLACE"] = place
    else:  # started again by the lab, with what the first had but the place
        place, words = os.environ["LAB_PLACE"], sys.argv[1:]
    sys.path.insert(0, place)
    lab, scenarios, adapters = map(importlib.import_module, ("run_lab", "scenarios", "adapters"))
    scenarios.SCENARIOS.update(OURS)
    adapters.Codex.argv = _trusting(adapters.Codex.argv)
    lab.__file__ = __file__
    sys.argv = [__file__, *words]
    ended: int = lab.main()
    return ended


def _trusting(argv: Any) -> Any:
    """Codex runs new hooks only when told to, and says that it was told: always, so that runs can be compared."""

    def trusts(self: Any, ctx: Any, step: Any) -> list[str]:
        words: list[str] = argv(self, ctx, step)
        flag = "--dangerously-bypass-hook-trust"
        return words if flag in words else [*words[:-1], flag, words[-1]]

    return trusts


if __name__ == "__main__":
    sys.exit(main())
