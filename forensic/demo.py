"""``python -m forensic.demo``: the main job once through, on the golden recordings, in a throw-away archive.

It runs the commands that a person would type and shows them, so it proves an installation from the outside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from forensic.data import folder

__all__ = ["main"]

_SHOWN = Path("claude", "a-working-day", "source")


def main() -> int:
    """Capture, verify, list and replay; the exit code of the first command that does not end well, else 0."""
    golden = folder("golden")
    with tempfile.TemporaryDirectory(prefix="forensic-demo-") as home:
        steps = (
            ("capture", *sorted(map(str, golden.glob("*/*/source")))),
            ("verify", home),
            ("list",),
            ("replay", _bundle(home, golden / _SHOWN)),
            ("replay", _bundle(home, golden / _SHOWN), "--format", "summary"),
        )
        for step in steps:
            shown = " ".join(step[:3]) + (" ..." if len(step) > 4 else "")
            sys.stdout.write(f"\n$ forensic {shown}\n\n")
            sys.stdout.flush()
            code = _run(home, *step).returncode
            if code:
                return code
    return 0


def _bundle(home: str, source: Path) -> str:
    """The content id of what is in a folder, as capture tells it to programs."""
    told: dict[str, str] = json.loads(_run(home, "capture", str(source), "--json", stdout=subprocess.PIPE).stdout)
    return told["content_id"][:12]


def _run(home: str, *arguments: str, stdout: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run one command of ours on the archive in `home`."""
    return subprocess.run(  # noqa: S603 -- our own command line, with our own folders
        [sys.executable, "-m", "forensic", *arguments],
        env={**os.environ, "FORENSIC_HOME": home},
        stdout=stdout,
        check=False,
    )


if __name__ == "__main__":
    raise SystemExit(main())
