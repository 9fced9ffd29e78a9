"""``forensic list``: what is in the archive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from msgspec import structs

from forensic import private
from forensic.archive import Archive, Kept, default_root
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.model import Finding, utc
from forensic.renderers.wording import count, one_line

EXAMPLE = "  forensic list\n  forensic list --all --json"

_TITLE = 500
"""Characters of a title that are looked at."""
_ROOM = 20
"""Cells of a title that the id of its session must leave to it."""
_SHORT = 8
"""Characters that make most session ids unique."""


def command(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show superseded bundles, too.")] = False,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> int:
    """Show the sessions in the archive.

    The newest session comes last. Bundles that a newer one supersedes are left out. What a terminal has no room for,
    --json tells.
    """
    broken: list[Finding] = []
    place = Archive(archive or default_root(), verdicts=True)
    shown = [bundle for bundle in place.sessions(broken.append) if everything or not bundle.superseded]
    # of a session without a verdict only the capture is known
    shown.sort(key=lambda bundle: bundle.began or utc(bundle.started) or datetime.min.replace(tzinfo=UTC))
    if json:
        for bundle in shown:
            told = structs.asdict(bundle)
            # a bundle's path has the same name in the answers of all commands
            output.json_line({"bundle": told.pop("path"), **told})
    else:
        _table(shown)
    for finding in broken:
        output.aside(finding.note)
    running = sum(1 for _ in (private.home() / "live").glob("*/journal")) if archive is None else 0
    if running:
        output.aside(f"{count(running, 'session')} being recorded and not sealed yet: forensic seal")
    elif not shown and not broken:
        output.aside(f"no session in {place.root} yet: forensic capture PATH, or forensic hooks install")
    return int(bool(broken))


def _table(shown: Sequence[Kept]) -> None:
    names = ["started (UTC)", "harness", "title", "rows", "size", "content"]
    rows = [
        [
            f"{bundle.began:%Y-%m-%d %H:%M}" if bundle.began else "-",
            one_line(bundle.harness),
            one_line((bundle.title or "")[:_TITLE]) or "-",
            f"{bundle.rows:,}",
            output.size(bundle.size),
            bundle.content_id[:12],
        ]
        for bundle in shown
    ]
    if any(bundle.superseded for bundle in shown):
        names.append("")
        for row, bundle in zip(rows, shown, strict=True):
            row.append("superseded" if bundle.superseded else "")
    ids = [one_line(bundle.session) for bundle in shown]
    room = output.width() - sum(
        2 + max(map(len, column)) for column in zip(names, *rows, strict=True) if column[0] != "title"
    )
    for length in (max(map(len, ids), default=0), _SHORT):
        if room - max(length, len("session")) - 2 >= _ROOM:
            names.append("session")
            for row, one in zip(rows, ids, strict=True):
                row.append(one[:length])
            break
    output.table(names, rows, right=("rows", "size"), elastic="title")
