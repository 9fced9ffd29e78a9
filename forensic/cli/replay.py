"""``forensic replay``: tell a session again from its bundle."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from forensic.cli import naming, output
from forensic.cli.options import ArchiveFolder
from forensic.errors import Unusable
from forensic.recording import open_recording
from forensic.renderers import FORMS, render

EXAMPLE = "  forensic replay 9fe1c2\n  forensic replay session.zst --format json -o session.json"


def command(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="A bundle, or the start of its content or session id.")
    ],
    *,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="tree, summary, json or bindings.")] = "tree",
    parser_version: Annotated[
        int | None, typer.Option("--parser-version", metavar="N", help="Read it as this version of the parser does.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show long texts whole, and all that other threads left.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", parser=naming.path, help="Write to a new private file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let -o replace a file that exists.")] = False,
    archive: ArchiveFolder = None,
) -> None:
    """Tell a session again from its bundle.

    As a tree of turns, calls and subagents; as a summary of totals; as the session document in JSON; or as bindings,
    a JSON line for each thing seen in the transcripts.
    """
    if form not in FORMS:
        raise Unusable(detail=f"unknown format {form!r}: known are {', '.join(FORMS)}")
    session = open_recording(naming.bundle_path(bundle, archive)).replay(parser_version, whole=full)
    if out is None:
        render(session, form, whole=full)
    else:
        output.new_file(out, partial(render, session, form, whole=full), force=force)
