"""``forensic forget``: remove a session from the archive."""

from __future__ import annotations

from typing import Annotated

import typer

from forensic.archive import Archive, default_root
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson, Yes

EXAMPLE = "  forensic forget 3f2a9c1e\n  forensic forget 3f2a9c1e-0000-4000-8000-000000000000 --yes"


def command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or the start of it.")],
    *,
    yes: Yes = False,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> None:
    """Remove one session from the archive.

    All its bundles go, for good. The transcripts that they were captured from stay where they are.
    """
    place = Archive(archive or default_root())
    bundles = place.forgettable(session)
    tell = output.aside if json else output.line
    for bundle in bundles:
        tell(bundle.harness, bundle.session, f"{bundle.rows:,} rows", output.size(bundle.size), str(bundle.path))
    if not yes:
        output.ask(f"Remove {'this bundle' if len(bundles) == 1 else f'these {len(bundles):,} bundles'} for good?")
    place.drop(bundles)
    if json:
        output.json_line(
            {
                "session": bundles[0].session,
                "harness": bundles[0].harness,
                "bundles": [bundle.path for bundle in bundles],
            }
        )
    else:
        output.line(f"forgotten: {bundles[0].session}")
