"""``forensic salvage``: what is left of a damaged bundle, as a new one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from forensic.cli import naming, output
from forensic.cli.options import AsJson
from forensic.renderers.wording import count
from forensic.salvage import salvage

EXAMPLE = "  forensic salvage broken.zst -o saved.zst"


def command(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", parser=naming.path, help="A bundle that verify calls damaged.")
    ],
    *,
    out: Annotated[
        Path, typer.Option("-o", metavar="OUT", parser=naming.path, help="The bundle to make; it must not exist.")
    ],
    json: AsJson = False,
) -> int:
    """Make a bundle of what is left of a damaged one.

    BUNDLE itself stays as it is. Rows of damaged members are taken along where they are whole, marked as unverified.
    The exit code is 1 when anything is unverified or lost.
    """
    saved = salvage(bundle, out)
    if json:
        output.json_line({"bundle": out, **structs.asdict(saved)})
    else:
        output.line("salvaged", count(saved.rows, "row"), count(saved.payloads, "payload"), str(out))
        for word, members in (("unverified", saved.unverified), ("lost", saved.lost)):
            _name(word, members)
    return int(bool(saved.unverified or saved.lost))


def _name(word: str, members: Sequence[str]) -> None:
    for member in members:
        output.line("  !", f"{word}: {member}")
