"""``forensic prune``: drop what newer bundles hold as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from forensic.archive import Archive, Pruned, default_root
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson, Yes
from forensic.renderers.wording import count

EXAMPLE = "  forensic prune --dry-run\n  forensic prune --yes --json"


def command(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Yes = False,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> int:
    """Drop bundles that a newer one supersedes.

    Each goes only after the newer one was read to its end and found to hold all that it holds. The newest bundle of a
    session never goes.
    """
    place = Archive(archive or default_root())
    if dry_run or yes:
        return _tell(place.prune(dry_run=dry_run), json=json, future=dry_run)
    planned = list(place.prune(dry_run=True))
    if not any(one.dropped for one in planned):
        return _tell(planned, json=json, future=True)
    code = _tell(planned, json=False, future=True, ask=json)
    output.ask(f"Remove {count(sum(one.dropped for one in planned), 'superseded bundle')} for good?")
    return max(code, _tell(place.prune(), json=json, future=False))


def _tell(pruned: Iterable[Pruned], *, json: bool, future: bool, ask: bool = False) -> int:
    """One line a bundle; 1 when one has to stay."""
    kept = False
    nothing = True
    for one in pruned:
        kept |= not one.dropped
        nothing = False
        if json:
            output.json_line(
                {
                    "bundle": one.bundle.path,
                    "content_id": one.bundle.content_id,
                    "session": one.bundle.session,
                    "superseded_by": one.by,
                    "dropped": one.dropped and not future,
                    "droppable": one.dropped,
                    "reason": one.reason,
                }
            )
            continue
        word = "stays" if not one.dropped else "would go" if future else "gone"
        (output.aside if ask else output.line)(f"{word:8}", one.bundle.session, str(one.bundle.path), one.reason)
    if nothing:
        output.aside("nothing to prune: no bundle is superseded")
    return int(kept)
