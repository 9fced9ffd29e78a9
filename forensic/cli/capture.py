"""``forensic capture``: seal what lies at the named paths."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from forensic.archive import Archive, default_root
from forensic.cli import naming, output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.intake import capture
from forensic.model import Finding
from forensic.renderers.wording import count

_STATES = ("sealed", "superseding", "unchanged", "failed")

EXAMPLE = "  forensic capture ~/.claude/projects\n  forensic capture session.jsonl --json"


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", parser=naming.path, help="Transcripts, or folders that hold some."),
    ],
    *,
    harness: Annotated[
        str | None, typer.Option("--harness", metavar="NAME", help="Take them for this harness's, do not guess.")
    ] = None,
    archive: ArchiveFolder = None,
    no_verdict: Annotated[
        bool, typer.Option("--no-verdict", help="Seal without the replay that verify compares with.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Seal sessions into the archive, one bundle each.

    PATH is a transcript, or a folder: then every session below it. A session that is in the archive already is left
    alone; one that has grown since is sealed whole again.
    """
    place = Archive(archive or default_root())
    strays: list[Finding] = []
    states: Counter[str] = Counter()
    problems = False
    with output.progress("capturing") as bar:
        for one in capture(
            paths, place, harness=harness, verdict=not no_verdict, found=bar.total, report=strays.append
        ):
            bar.step()
            states[one.state] += 1
            problems |= any(finding.problem for finding in one.findings)
            if json:
                output.json_line(one)
                continue
            done = (count(one.rows, "row"), one.content_id[:12]) if one.bundle else ()
            output.line(f"{one.state:11}", one.harness, one.session, *done)
            output.findings(one.findings)
    if states.total() > 1 and not json:
        output.aside(f"{count(states.total(), 'session')}: {output.tally(states, _STATES)}")
    for stray in strays:
        output.aside(f"{stray.kind}: {stray.note}")
    return int(problems or any(stray.problem for stray in strays))
