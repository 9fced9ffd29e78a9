"""How commands speak: JSON lines for programs, clean lines for people, progress on standard error."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import typer

from forensic.errors import Unusable, WriteFailed
from forensic.model import Finding
from forensic.renderers.wording import escaped, one_line

__all__ = [
    "Bar",
    "aside",
    "ask",
    "findings",
    "json_line",
    "line",
    "new_file",
    "progress",
    "size",
    "table",
    "tally",
    "width",
]

_REDRAW = 0.1
"""Seconds from one picture of a progress bar to the next."""
_PAGE = 120
"""Columns of a page that is no terminal."""


_ZSTD = b"\x28\xb5\x2f\xfd"


def line(*parts: str) -> None:
    """One line of cleaned parts, two blanks apart."""
    print(_line(parts))


def aside(*parts: str) -> None:
    """The same on standard error: what is no answer."""
    print(_line(parts), file=sys.stderr)


def _line(parts: Sequence[str]) -> str:
    return "  ".join(part if part.isprintable() else one_line(part) for part in parts).rstrip()


def json_line(value: object) -> None:
    """One JSON object on one line, written at once."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    print(escaped(text) if sys.stdout.isatty() else text, flush=True)


def table(names: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), elastic: str = "") -> None:
    """Rows of clean cells under their names, some columns flush right; nothing when there are none.

    The `elastic` column takes what the others leave of the width, but never less than 8 cells.
    """
    if not rows:
        return
    cells = [names, *rows]
    widths = [max(map(_cells, column)) for column in zip(*cells, strict=True)]
    if elastic:
        number = names.index(elastic)
        widths[number] = min(widths[number], max(widths[number] - (sum(widths) + 2 * len(widths) - 2 - width()), 8))
    for row in cells:
        padded = (_padded(cell, size, right=name in right) for name, cell, size in zip(names, row, widths, strict=True))
        print("  ".join(padded).rstrip())


def width() -> int:
    """Columns that a line of a table has: those of the terminal, or of a page where there is none."""
    if "COLUMNS" not in os.environ and not sys.stdout.isatty():
        return _PAGE
    return shutil.get_terminal_size().columns


def _padded(cell: str, size: int, *, right: bool) -> str:
    if _cells(cell) > size:
        while cell and _cells(cell) > size - 1:
            cell = cell[:-1]
        cell = cell.rstrip() + "\u2026"
    blanks = " " * (size - _cells(cell))
    return blanks + cell if right else cell + blanks


def _cells(text: str) -> int:
    """Cells of a terminal that a clean text takes; rich knows better, and takes a fifth of a second to say so."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else not unicodedata.combining(each) for each in text)


def tally(counted: Mapping[str, int], order: Sequence[str]) -> str:
    """How often each word was said, those that were not left out."""
    return ", ".join(f"{counted[word]:,} {word}" for word in order if counted[word])


def size(count: int) -> str:
    """Bytes as people say them."""
    if count < 1000:
        return f"{count} B"
    scaled = float(count)
    for unit in ("kB", "MB", "GB"):
        scaled /= 1000
        if scaled < 999.95:
            return f"{scaled:.1f} {unit}"
    return f"{scaled / 1000:.1f} TB"


def ask(question: str) -> None:
    """Go on only when a person says yes; raises `Unusable` where there is nobody to ask, `typer.Exit` on a no."""
    if not sys.stdin.isatty():
        raise Unusable(detail="nobody is there to ask: give --yes to go ahead")
    if not typer.confirm(question, err=True):
        aside("nothing was removed")
        raise typer.Exit


def findings(found: Sequence[Finding], about: str = "") -> None:
    """Findings below the line that says what they are `about`; problems are marked."""
    for one in found:
        times = f" (x{one.count})" if one.count > 1 else ""
        where = f" at {one.ref}" if one.ref else ""
        line("  !" if one.problem else "  -", f"{one.kind}: {one.note.removeprefix(f'{about}: ')}{where}{times}")


def _replaceable(path: Path) -> None:
    """Raises `Unusable` for what not even --force replaces: no regular file, or somebody's evidence."""
    if path.is_symlink() or not path.is_file():
        raise Unusable(detail=f"{path} is no regular file, and is not replaced")
    with path.open("rb") as there:
        if there.read(4) == _ZSTD or path.suffix == ".zst":
            raise Unusable(detail=f"{path} may be a bundle, and is not replaced")


class Bar:
    """Progress that nobody watches."""

    def total(self, amount: int) -> None:
        """Tell how much there is to do."""

    def step(self, amount: float = 1) -> None:
        """Tell that some of it is done."""


@contextmanager
def progress(what: str, *, counts_bytes: bool = False) -> Iterator[Bar]:
    """A progress bar on standard error when that is a terminal; it goes away when it is done."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich import progress as bars
    from rich.console import Console

    amount = bars.DownloadColumn() if counts_bytes else bars.MofNCompleteColumn()
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), amount, bars.TimeRemainingColumn())
    # what goes to a file or a pipe must not take the way over the terminal
    shares = sys.stdout.isatty()
    # no thread that draws: work may be shared among forked processes, which threads do not survive
    with bars.Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=shares,
        redirect_stderr=False,
        auto_refresh=False,
    ) as shown:
        task = shown.add_task(what, total=None)
        drawn = 0.0

        class Seen(Bar):
            def total(self, amount: int) -> None:
                shown.update(task, total=amount, refresh=True)

            def step(self, amount: float = 1) -> None:
                nonlocal drawn
                now = time.monotonic()
                shown.update(task, advance=amount, refresh=now - drawn > _REDRAW)
                drawn = now if now - drawn > _REDRAW else drawn

        yield Seen()


def new_file(path: Path, write: Callable[[BinaryIO], None], *, force: bool = False) -> None:
    """Write a private file whole or not at all.

    Raises `Unusable` when it exists and `force` is not given, `WriteFailed` when it cannot be written.
    """
    there = Unusable(detail=f"{path} exists already: name another file, or replace it with --force")
    if os.path.lexists(path):
        if not force:
            raise there
        _replaceable(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
    except OSError as error:
        raise WriteFailed(path=path, detail=error.strerror) from None
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        if force:
            written.replace(path)
        else:
            path.hardlink_to(written)
    except FileExistsError:
        raise there from None
    except OSError as error:
        raise WriteFailed(path=path, detail=error.strerror) from None
    finally:
        written.unlink(missing_ok=True)
