"""``forensic salvage``: what is left of a damaged bundle, as a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "  forensic salvage broken.zst -o saved.zst"


def command(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle that verify calls damaged.")],
    *,
    out: Annotated[Path, typer.Option("-o", metavar="OUT", help="The bundle to make; it must not exist.")],
) -> None:
    """Make a bundle of what is left of a damaged one.

    BUNDLE itself stays as it is. Rows of damaged members are taken along where they are whole, marked as unverified.
    """
    from forensic.bundle import salvage

    salvage(bundle, out)
