"""``forensic list``: what is in the archive."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import structs

from forensic.archive import Archive, default_root
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.model import Finding

EXAMPLE = "  forensic list\n  forensic list --all --json"


def command(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show superseded bundles, too.")] = False,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> int:
    """Show the sessions in the archive.

    The newest capture comes last. Bundles that a newer one supersedes are left out.
    """
    broken: list[Finding] = []
    place = Archive(archive or default_root())
    shown = [bundle for bundle in place.sessions(broken.append) if everything or not bundle.superseded]
    if json:
        for bundle in shown:
            told = structs.asdict(bundle)
            # a bundle's path has the same name in the answers of all commands
            output.json_line({"bundle": told.pop("path"), **told})
    else:
        output.table(
            ("captured", "harness", "session", "rows", "size", "content", ""),
            [
                (
                    bundle.started[:16].replace("T", " "),
                    bundle.harness,
                    bundle.session,
                    f"{bundle.rows:,}",
                    output.size(bundle.size),
                    bundle.content_id[:12],
                    "superseded" if bundle.superseded else "",
                )
                for bundle in shown
            ],
            right=("rows", "size"),
        )
    for finding in broken:
        output.aside(finding.note)
    if not shown and not broken:
        output.aside(f"no session in {place.root} yet: forensic capture PATH")
    return int(bool(broken))
