"""``python -m forensic.demo``: the main job once through, on the golden recordings, in a throw-away archive.

It runs the commands that a person would type and shows them, so it proves an installation from the outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from forensic.bundle import open_bundle
from forensic.data import folder

__all__ = ["main"]

_SHOWN = Path("claude", "a-working-day")
_BESIDE = (Path("codex", "spawned-thread"), Path("copilot", "subagents-by-agent-id"), Path("cursor", "a-working-day"))
"""One of each other harness, of which the beginning is shown."""


def main() -> int:
    """Capture, verify, list, replay and count; the exit code of the first command that does not end well, else 0."""
    golden = folder("golden")
    content_id, *others = (open_bundle(golden / case).content_id[:12] for case in (_SHOWN, *_BESIDE))
    sources = sorted(map(str, golden.glob("*/*/source")))
    with tempfile.TemporaryDirectory(prefix="forensic-demo-") as home:
        for rows, shown, more in (
            (3, ("capture",), sources),
            (3, ("verify",), ()),
            (4, ("list",), ()),
            (None, ("replay", content_id), ()),
            (18, ("replay", content_id, "--format", "summary"), ()),
            *((16, ("replay", other), ()) for other in others),
            (None, ("usage", content_id, *others, "--by", "harness"), ()),
        ):
            sys.stdout.write(f"\n$ forensic {' '.join(shown)}{' golden/*/*/source' if more else ''}\n\n")
            sys.stdout.flush()
            code = _run(home, (*shown, *more), rows)
            if code:
                return code
    return 0


def _run(home: str, arguments: Sequence[str], rows: int | None) -> int:
    """Run one command of ours on the archive in `home` and show its answer, or the first rows; its exit code."""
    width = str(shutil.get_terminal_size((120, 24)).columns)
    environment = {**os.environ, "FORENSIC_HOME": home, "COLUMNS": width, "PYTHONUTF8": "1"}
    done = subprocess.run(  # noqa: S603 -- our own command line, with our own folders
        [sys.executable, "-m", "forensic", *arguments],
        env=environment if rows else {**os.environ, "FORENSIC_HOME": home},
        stdout=subprocess.PIPE if rows else None,
        stderr=subprocess.PIPE if rows else None,
        encoding="utf-8",
        check=False,
    )
    said = (done.stdout or "").splitlines(keepends=True)
    if rows and len(said) > rows and not done.returncode:
        said[rows:] = [f"... {len(said) - rows} more lines\n"]
    sys.stdout.writelines((*said, done.stderr or ""))
    sys.stdout.flush()
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
