"""Put an item into an object or list and take it out again, so that the second undoes the first to the byte."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from forensic.registration.jsonc import Document, Holder, Item

__all__ = ["Layout", "append", "cut", "indent_of", "is_made", "layout_of"]

_SAME_LINE: Final = re.compile(r"(?:[ \t]*/\*[^\r\n]*?\*/)*(?:[ \t]*//[^\r\n]*)?")
"""Comments that belong to what stands before them in the same line."""
_OPEN: Final = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*[\r\n]|/\*[\s\S]*?\*/)*//[^\r\n]*\Z")
"""Blanks and comments that end in a comment to which what comes next would belong."""
_COMMENTS: Final = re.compile(r"(?:[ \t\r\n]*(?://[^\r\n]*|/\*[\s\S]*?\*/))*")
"""All up to the end of the last comment."""
_NEWLINE: Final = re.compile(r"\r\n|\n|\r")
_LAST_LINE: Final = re.compile(r"[\r\n]([ \t]*)\Z")
_BLANKS: Final = " \t\r\n"


class Layout(Struct, frozen=True):
    """How a text is laid out: its line end, and one step of indentation."""

    newline: str = "\n"
    step: str = "  "

    def line(self, indent: str) -> str:
        """What begins a line."""
        return self.newline + indent


def layout_of(document: Document) -> Layout:
    """The layout of a text, as its first lines tell it."""
    newline = _NEWLINE.search(document.text)
    items = document.root.items if isinstance(document.root, Holder) else []
    indented = (_LAST_LINE.search(item.before) for item in items)
    step = next((found[1] for found in indented if found is not None and found[1]), "  ")
    return Layout(newline[0] if newline else "\n", step)


def is_made(holder: Holder) -> bool:
    """Whether a holder looks as if it was made with its first item: with nothing but a new line before that."""
    before = holder.items[0].before if holder.items else ""
    return _LAST_LINE.search(before) is not None and not before.strip(_BLANKS)


def indent_of(item: Item, outer: str) -> str:
    """The indentation of the line in which an item begins; `outer` is that of what holds it."""
    found = _LAST_LINE.search(item.before)
    return found[1] if found else outer


def append(holder: Holder, item: Item, layout: Layout, outer: str, *, made: bool = False) -> str:
    """Put an item last; gives the indentation of its line.

    `outer` is the indentation of what holds it, `made` says that the holder is new and ours, too.
    """
    if not holder.items:
        item.before, item.after = (layout.line(outer + layout.step), layout.line(outer)) if made else ("", holder.tail)
        holder.tail = ""
    else:
        last = holder.items[-1]
        between = holder.tail if last.comma else last.after
        beside = _beginning(_SAME_LINE, between)
        item.before = beside + _separator(holder, beside, layout, outer)
        item.comma = last.comma
        if last.comma:
            holder.tail = between[len(beside) :]
        else:
            item.after = between[len(beside) :]
            last.after = ""
        last.comma = True
    holder.items.append(item)
    return indent_of(item, outer)


def cut(holder: Holder, at: int, layout: Layout) -> None:
    """Take an item out, with the blanks before it; comments around it stay."""
    item = holder.items.pop(at)
    kept = _beginning(_COMMENTS, item.before)
    if at == len(holder.items):
        rest = _joined(kept, item.after, layout)
        if item.comma or not holder.items:
            holder.tail = _closed(_joined(rest, holder.tail, layout), layout)
        else:
            last = holder.items[-1]
            last.comma = False
            last.after = _closed(_joined(last.after, rest, layout), layout)
        return
    following = holder.items[at]
    if at == 0 and not (item.before + item.after + following.before).strip(_BLANKS):
        # what is first now tells of its holder what the other told
        following.before = item.before
        return
    after = item.after if item.after.strip(_BLANKS) else ""
    following.before = _closed(_joined(_joined(kept, after, layout), following.before, layout), layout)


def _beginning(pattern: re.Pattern[str], text: str) -> str:
    """What a text begins with, which may be nothing."""
    found = pattern.match(text)
    return found[0] if found else ""


def _separator(holder: Holder, beside: str, layout: Layout, outer: str) -> str:
    """Blanks before a new last item: those before the one that was last."""
    before = holder.items[-1].before
    blanks = before[len(_beginning(_COMMENTS, before)) :]
    line = _LAST_LINE.search(blanks)
    if line:
        return layout.line(line[1])
    if _OPEN.match(beside):
        return layout.line(outer + layout.step)
    return blanks if len(holder.items) > 1 else " "


def _joined(first: str, second: str, layout: Layout) -> str:
    """Two pieces of blanks and comments, of which the first may not swallow the second."""
    return (first if second[:1] in ("", "\r", "\n") else _closed(first, layout)) + second


def _closed(text: str, layout: Layout) -> str:
    """Blanks and comments behind which anything may stand."""
    return text + layout.newline if _OPEN.match(text) else text
