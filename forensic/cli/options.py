"""Options and arguments that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forensic.cli.naming import path

__all__ = ["ArchiveFolder", "AsJson", "Yes"]

ArchiveFolder = Annotated[
    Path | None,
    typer.Option(
        "--archive", metavar="DIR", parser=path, help="The archive to use instead of the one in FORENSIC_HOME."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
