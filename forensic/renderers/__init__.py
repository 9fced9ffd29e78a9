"""What a replayed session looks like. One function, a table of forms; each form imports what it needs when asked."""

from __future__ import annotations

import io
import shutil
import sys
from typing import BinaryIO

from forensic.errors import Unusable
from forensic.model import Session

__all__ = ["FORMS", "render"]

FORMS = ("tree", "summary", "json", "bindings")
_PAGE = 120
"""Columns of a page that is no terminal."""


def render(session: Session, form: str = "tree", out: BinaryIO | None = None, *, whole: bool = False) -> None:
    """Write one form of a session to `out`, or to standard output when none is given.

    ``tree`` and ``summary`` are for people, with colours on a terminal only; ``json`` is the session document and
    ``bindings`` one JSON line a transcript row. `whole` shows long texts unfolded where the session holds them.
    Raises `Unusable` for any other form.
    """
    if form == "json":
        from forensic.renderers import document  # noqa: PLC0415 -- a form costs nothing until it is asked for

        document.write(session, out or _standard_output())
    elif form == "bindings":
        from forensic.renderers import document  # noqa: PLC0415 -- as above

        sink = out or _standard_output()
        for line in document.bindings(session):
            sink.write(line)
    elif form in FORMS:
        _show(session, form, out, whole=whole)
    else:
        raise Unusable(detail=f"unknown form {form!r}: known are {', '.join(FORMS)}")


class _Screen:
    """A terminal as a place for JSON: what could steer it is escaped, which JSON allows anywhere in a text."""

    def write(self, data: bytes, /) -> object:
        """Write the text of `data`, whole characters."""
        from forensic.renderers.wording import escaped  # noqa: PLC0415 -- as above

        return sys.stdout.write(escaped(data.decode()))


def _standard_output() -> BinaryIO | _Screen:
    return _Screen() if sys.stdout.isatty() else sys.stdout.buffer


def _show(session: Session, form: str, out: BinaryIO | None, *, whole: bool) -> None:
    from forensic.renderers import terminal  # noqa: PLC0415 -- as above
    from forensic.renderers.canvas import Page  # noqa: PLC0415 -- as above

    page = None if out is None else io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
    if page is not None:
        console = Page(file=page, no_color=True, width=_PAGE)
    else:
        # a terminal's own width, or a sensible COLUMNS; zero and nonsense are none
        console = Page(width=shutil.get_terminal_size((_PAGE, 24)).columns)
    if form == "tree":
        terminal.tree(session, console, whole=whole)
    else:
        terminal.summary(session, console)
    if page is not None:
        page.detach()
