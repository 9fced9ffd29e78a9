"""JSON as people write it, with comments and trailing commas, kept with every byte of its layout.

A text becomes a tree that knows what stands between its values, so that `Document.text` gives the same text again, and
a change of one place changes no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

__all__ = ["Document", "Holder", "Item", "Node", "NotJson", "Scalar", "held", "parse", "repeated", "value_of"]

_BETWEEN: Final = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*[\s\S]*?\*/)*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"')
_PLAIN: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_DEEPEST: Final = 100
_BOM: Final = "\ufeff"
_CLOSERS: Final = {"{": "}", "[": "]"}


class NotJson(ValueError):
    """The text is no JSON, comments and trailing commas allowed; says where."""


class Scalar(Struct):
    """A string, number, true, false or null, as written."""

    raw: str


class Item(Struct):
    """A member or element: what stands `before` it and `after` its value, up to the comma or the end."""

    value: Scalar | Holder
    before: str = ""
    key: str | None = None
    """As written; None in a list."""
    colon: str = ""
    """The colon, with what stands around it."""
    after: str = ""
    comma: bool = False

    @property
    def name(self) -> str:
        """The key as it is meant."""
        return str(json.loads(self.key)) if self.key is not None else ""

    def write(self, out: list[str]) -> None:
        """Add the text of all this."""
        out += (self.before, self.key or "", self.colon)
        _write(self.value, out)
        out += (self.after, "," if self.comma else "")


class Holder(Struct):
    """An object or a list. `tail` stands after its last comma, or inside when it has no items."""

    opener: str
    items: list[Item]
    tail: str = ""

    def get(self, name: str) -> Item | None:
        """The member of an object that has this name."""
        return next((item for item in self.items if item.name == name), None)


Node = Scalar | Holder


class Document(Struct):
    """A whole text; without a root it has nothing but blanks and comments."""

    root: Node | None
    bom: str = ""
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """The text that it was made of, and what was changed since."""
        out = [self.bom, self.before]
        if self.root is not None:
            _write(self.root, out)
        return "".join((*out, self.after))


def parse(text: str) -> Document:
    """The tree of a text; raises `NotJson`."""
    reader = _Reader(text, len(_BOM) if text.startswith(_BOM) else 0)
    document = Document(root=None, bom=text[: reader.at], before=reader.between())
    if reader.at < len(text):
        document.root = reader.node(0)
        document.after = reader.between()
    if reader.at < len(text):
        raise reader.wrong("something stands behind the end")
    return document


def value_of(node: Node) -> Any:
    """What a node means, as Python has it; of a key that stands twice the last value."""
    if isinstance(node, Scalar):
        return json.loads(node.raw)
    if node.opener == "[":
        return [value_of(item.value) for item in node.items]
    return {item.name: value_of(item.value) for item in node.items}


def held(node: Node) -> Holder:
    """The object or list that a node is; raises `NotJson` for any other."""
    if not isinstance(node, Holder):
        raise NotJson("an object or list is missing")
    return node


def repeated(holder: Holder) -> Iterator[str]:
    """The keys of an object that stand in it more than once."""
    names = [item.name for item in holder.items]
    return (name for number, name in enumerate(names) if holder.opener == "{" and name in names[:number])


def _write(node: Node, out: list[str]) -> None:
    if isinstance(node, Scalar):
        out.append(node.raw)
        return
    out.append(node.opener)
    for item in node.items:
        item.write(out)
    out += (node.tail, _CLOSERS[node.opener])


class _Reader:
    """A place in a text that moves on."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def wrong(self, what: str) -> NotJson:
        """The error of something that is wrong here."""
        line = self.text.count("\n", 0, self.at) + 1
        return NotJson(f"line {line}: {what}")

    def between(self) -> str:
        """Blanks and comments."""
        return self.take(_BETWEEN)

    def take(self, pattern: re.Pattern[str]) -> str:
        """What of the pattern is here, which may be nothing."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def sign(self, signs: str) -> str:
        """One of these characters, if it is here."""
        sign = self.text[self.at : self.at + 1]
        if not sign or sign not in signs:
            return ""
        self.at += 1
        return sign

    def node(self, depth: int) -> Node:
        """A value."""
        if depth > _DEEPEST:
            raise self.wrong("nested too deeply")
        opener = self.sign("{[")
        if opener:
            return self.holder(opener, depth)
        raw = self.take(_STRING) or self.take(_PLAIN)
        if not raw:
            raise self.wrong("a value is missing or is none")
        return Scalar(raw)

    def holder(self, opener: str, depth: int) -> Holder:
        """An object or list behind its opening sign."""
        holder = Holder(opener, [])
        while True:
            before = self.between()
            if self.sign(_CLOSERS[opener]):
                holder.tail = before
                return holder
            item = self.item(opener, before, depth)
            holder.items.append(item)
            if not item.comma:
                if not self.sign(_CLOSERS[opener]):
                    raise self.wrong(f"a comma or {_CLOSERS[opener]} is missing")
                return holder

    def item(self, opener: str, before: str, depth: int) -> Item:
        """One member or element, with its comma."""
        key = None
        colon = ""
        if opener == "{":
            key = self.take(_STRING)
            if not key:
                raise self.wrong("a key is missing or is none")
            blank = self.between()
            if not self.sign(":"):
                raise self.wrong("a colon is missing")
            colon = f"{blank}:{self.between()}"
        value = self.node(depth + 1)
        after = self.between()
        return Item(value=value, before=before, key=key, colon=colon, after=after, comma=bool(self.sign(",")))
