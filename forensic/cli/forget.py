"""``forensic forget``: remove a session from the archive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from forensic.archive import Archive, Kept, default_root
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson, Yes
from forensic.errors import NotInArchive, Unusable
from forensic.renderers.wording import count

EXAMPLE = "  forensic forget 3f2a9c1e\n  forensic forget 3f2a9c1e-0000-4000-8000-000000000000 --yes"


def command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or the start of it.")],
    *,
    yes: Yes = False,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> None:
    """Remove one session from the archive.

    All its bundles go, for good. The transcripts that they were captured from stay where they are. A bundle that can
    no longer be read is named by the first 8 or more characters of its content id, as they stand in its file name.
    """
    if not session:
        raise Unusable(detail="an empty name names nothing")
    place = Archive(archive or default_root())
    tell = output.aside if json else output.line
    try:
        bundles = place.forgettable(session)
    except NotInArchive:
        broken = place.broken(session)
        if broken is None:
            raise
        tell(broken.harness, f"{broken.beginning}\u2026", output.size(broken.size), str(broken.path))
        question = "This bundle cannot be read; nobody can tell which session it holds. Remove it for good?"
        _forget(place, [broken.path], question, yes=yes)
        _tell(None, broken.harness, [broken.path], json=json)
        return
    apart = place.apart(bundles)
    for bundle in bundles:
        size = output.size(bundle.size)
        tell(bundle.harness, bundle.session, count(bundle.rows, "row"), size, str(bundle.path))
    for path in apart:
        tell(bundles[0].harness, "damaged", output.size(path.stat().st_size), str(path))
    paths = [*_paths(bundles), *apart]
    question = f"Remove {'this bundle' if len(paths) == 1 else f'these {len(paths):,} bundles'} for good?"
    _forget(place, paths, question, yes=yes)
    _tell(bundles[0].session, bundles[0].harness, paths, json=json)


def _paths(bundles: Sequence[Kept]) -> list[Path]:
    return [bundle.path for bundle in bundles]


def _forget(place: Archive, paths: Sequence[Path], question: str, *, yes: bool) -> None:
    if not yes:
        output.ask(question)
    place.drop(paths)


def _tell(session: str | None, harness: str, paths: Sequence[Path], *, json: bool) -> None:
    if json:
        output.json_line({"session": session, "harness": harness, "bundles": paths})
    else:
        output.line(f"forgotten: {session or paths[0].name}")
