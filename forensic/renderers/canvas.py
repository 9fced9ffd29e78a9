"""Line by line onto a terminal: one line never wraps, never exceeds the width, and is never parsed as markup.

Lines are made of rich segments directly and printed in batches, so a session of any size streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

__all__ = ["Canvas", "Page", "Piece", "wrap"]

Piece = tuple[str, str]
"""A clean text and the name of its style."""

_NOTHING: Final = ("", "")
_STYLES: Final = {
    name: Style.parse(definition)
    for name, definition in {
        "": "none",
        "agent": "green",
        "aside": "dim",
        "bad": "bold red",
        "event": "yellow",
        "good": "green",
        "mcp": "bright_blue",
        "other": "default",
        "prompt": "bold cyan",
        "read": "blue",
        "rule": "bright_black",
        "run": "magenta",
        "search": "blue",
        "strong": "bold",
        "thought": "dim italic",
        "title": "bold",
        "warn": "yellow",
        "web": "cyan",
        "write": "yellow",
    }.items()
}
_PLAIN: Final = str.maketrans(
    {
        "\u00b7": "-",
        "\u00d7": "x",
        "\u2026": "...",
        "\u2192": "->",
        "\u2265": ">=",
        "\u2298": "!",
        "\u2502": "|",
        "\u25cf": "*",
        "\u25c6": "#",
        "\u25c7": "#",
        "\u25cb": "o",
        "\u276f": ">",
        "\u2713": "+",
        "\u2717": "x",
        "\ufffd": "?",
    }
)
"""Our own marks where the terminal cannot show them."""
_BATCH = 256
_DEEPEST = 16
"""Levels that are indented; deeper ones stand below the last of them."""


class Page(Console):
    """A console that tells its caller when the reader has gone, instead of ending the program."""

    def on_broken_pipe(self) -> None:
        """Called by rich while it handles the error."""
        raise  # noqa: PLE0704 -- the BrokenPipeError that is being handled


class Canvas:
    """What `terminal` and `tables` draw on."""

    def __init__(self, console: Console) -> None:
        """Take width, encoding and colours from the console."""
        self._console = console
        self._lines: list[Segment] = []
        self._count = 0
        self._encoding = None if console.encoding.startswith("utf") else console.encoding
        self._more = "\u2026" if self._encoding is None else "..."
        self.width = max(console.width, 20)

    def line(
        self,
        depth: int,
        head: list[Piece],
        body: Piece = _NOTHING,
        tail: list[Piece] | None = None,
        more: Piece = _NOTHING,
    ) -> None:
        """One line: `head`, then as much of `body` as fits, then `tail` right behind it; `more` if there is room."""
        first, last = self._shown(head), self._shown(tail or [])
        rest = self.width - self._indent(depth) - sum(map(_cells, (*first, *last)))
        middle = [(self._cut(text, max(rest, 8)), style) for text, style in self._shown([body])]
        self._put(depth, [*first, *middle, *last, *self._shown([more])])

    def block(self, depth: int, mark: Piece, rows: list[str], style: str) -> None:
        """Several rows that hang on one mark."""
        blank = (" " * _cells(mark), "")
        for number, row in enumerate(rows):
            self._put(depth, self._shown([blank if number else mark, (row, style)]))

    def table(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows of cells under their names, figures to the right; the widest column of words gives way."""
        cells = [[text for text, _ in self._shown([(cell, "") for cell in row])] for row in (names, *rows)]
        columns = list(zip(*cells, strict=True))
        widths = [max(_cells((cell, "")) for cell in column) for column in columns]
        right = [number > 0 and all(_is_figure(cell) for cell in column[1:]) for number, column in enumerate(columns)]
        excess = 2 + sum(widths) + 2 * (len(widths) - 1) - self.width
        if excess > 0:
            widest = max(range(len(widths)), key=lambda number: (not right[number], widths[number]))
            widths[widest] = max(widths[widest] - excess, 8)
        for number, row in enumerate(cells):
            shown = [
                self._padded(cell, width, right=flush) for cell, width, flush in zip(row, widths, right, strict=True)
            ]
            if number or any(names):
                self._put(0, [("  " + "  ".join(shown).rstrip(" "), "" if number else "aside")])

    def room(self, depth: int) -> int:
        """Cells that a line at this depth has to itself."""
        return max(self.width - self._indent(depth), 12)

    def fits(self, pieces: list[Piece]) -> bool:
        """Whether these fit one line that is not indented."""
        return sum(map(_cells, self._shown(pieces))) <= self.width

    def blank(self) -> None:
        """An empty line."""
        self._put(0, [])

    def flush(self) -> None:
        """Print what has been collected."""
        if self._lines:
            self._console.print(Segments(self._lines), end="", crop=False)
        self._lines = []
        self._count = 0

    def _indent(self, depth: int) -> int:
        return 2 * min(depth, _DEEPEST, self.width // 8)

    def _put(self, depth: int, pieces: list[Piece]) -> None:
        left = self.width
        made: list[Piece] = []
        for text, style in (*self._shown([("\u2502 " * (self._indent(depth) // 2), "rule")]), *pieces):
            shown = self._cut(text, left)
            left -= _cells((shown, style))
            made.append((shown, style))
            if shown != text:
                break
        while made and not made[-1][0].strip(" "):
            made.pop()
        if made:
            text, style = made[-1]
            made[-1] = text.rstrip(" "), style
        self._lines.extend(Segment(text, _STYLES[style]) for text, style in made)
        self._lines.append(Segment("\n"))
        self._count += 1
        if self._count >= _BATCH:
            self.flush()

    def _shown(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces as the terminal's encoding can show them."""
        if self._encoding is None:
            return pieces
        return [
            (
                text
                if text.isascii()
                else text.translate(_PLAIN).encode(self._encoding, "replace").decode(self._encoding),
                style,
            )
            for text, style in pieces
        ]

    def _cut(self, text: str, width: int) -> str:
        if _fitting(text, 0, width) == len(text):
            return text
        return (text[: _fitting(text, 0, width - len(self._more))].rstrip(" ") + self._more)[: max(width, 0)]

    def _padded(self, text: str, width: int, *, right: bool) -> str:
        shown = self._cut(text, width)
        blanks = " " * (width - _cells((shown, "")))
        return blanks + shown if right else shown + blanks


def _is_figure(cell: str) -> bool:
    return cell in ("-", "") or (cell[-1:].isdigit() and not cell.lstrip("~?>=\u2265 ").strip("0123456789,."))


def wrap(text: str, width: int) -> Iterator[str]:
    """The text in rows of at most `width` cells, broken at blanks where there are any."""
    for line in text.split("\n"):
        start = 0
        while (end := start + _fitting(line, start, width)) < len(line):
            blank = line.rfind(" ", start + width // 3, end + 1)
            yield line[start : blank if blank > start else end].rstrip(" ")
            start = blank + 1 if blank > start else max(end, start + 1)
        yield line[start:].rstrip(" ")


def _cells(piece: Piece) -> int:
    return len(piece[0]) if piece[0].isascii() else cell_len(piece[0])


def _fitting(text: str, start: int, width: int) -> int:
    """How many characters from `start` on fit in so many cells; a heap of zero-width ones ends sometime."""
    if text[start : start + width + 1].isascii():
        return max(min(width, len(text) - start), 0)
    cells = 0
    for number, character in enumerate(text[start : start + 4 * width]):
        cells += get_character_cell_size(character)
        if cells > width:
            return number
    return min(len(text) - start, 4 * width)
