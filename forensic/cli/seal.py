"""``forensic seal``: seal sessions that are being recorded, without waiting for their end."""

from __future__ import annotations

from typing import Annotated

import typer

from forensic.archive import Archive, default_root
from forensic.capture.requests import Request
from forensic.cli import output
from forensic.cli.capture import Voice, recorder, served
from forensic.cli.options import ArchiveFolder, AsJson

__all__ = ["command"]

EXAMPLE = "  forensic seal\n  forensic seal 3f2a91c0"


def command(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SESSION...]", help="Ids of sessions, or how they begin; without any, all of them."),
    ] = None,
    *,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> int:
    """Seal sessions that are being recorded, as far as they are.

    One that goes on is sealed again when it has ended; the later bundle holds all of the earlier one.
    """
    voice = Voice(json=json)
    request = served(recorder(Archive(archive or default_root()), voice), Request(seal=tuple(sessions or ())), voice)
    for name in request.unknown:
        output.aside(f"no session that is being recorded is called {name}")
    if not request.outcomes and not request.unknown and not json:
        output.aside("no session is being recorded")
    if request.unknown:
        return 2
    return int(voice.problems)
