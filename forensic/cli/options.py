"""Options and arguments that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["ArchiveFolder", "AsJson", "NoVerdict", "Yes"]

ArchiveFolder = Annotated[
    Path | None,
    typer.Option("--archive", metavar="DIR", help="The archive to use instead of the one in FORENSIC_HOME."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
NoVerdict = Annotated[bool, typer.Option("--no-verdict", help="Leave out the replay that is compared later.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
