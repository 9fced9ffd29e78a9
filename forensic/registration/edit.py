"""Put our hooks into a harness's configuration and take them out again, and change nothing else of its text.

What is added is laid out so that it tells what was there before, and taking it out needs no memory: what we made has
its content on lines of its own, while what was there and empty has it right behind its bracket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from forensic.registration.clients import Client
from forensic.registration.command import Registered, recognised
from forensic.registration.jsonc import Document, Holder, Item, Node, Scalar, held, parse, repeated, value_of
from forensic.registration.layout import Layout, append, cut, indent_of, is_made, layout_of

__all__ = ["Entry", "Found", "NotOurShape", "found", "put", "taken"]

Entry = dict[str, Any]
"""An element of an event's list."""

_FILE_WAS_BLANK: Final = " "
"""What stands behind the first bracket when the file had been blank."""
_ANYTHING: Final = (None, "", "*")
"""Matchers that match everything."""


class NotOurShape(ValueError):
    """The configuration is JSON, but none that the harness or we understand; says why."""


class Found(Struct, frozen=True):
    """A hook of ours: in which event's list, at which place, what it runs, how it is written."""

    event: str
    place: tuple[int, ...]
    """Index in the event's list and, where hooks are grouped, in its group."""
    runs: Registered
    handler: Any


class _Before(Struct, frozen=True):
    """What there was before anything of ours came in."""

    root: bool
    members: frozenset[str]
    events: frozenset[str]


def found(text: str, client: Client) -> list[Found]:
    """All hooks of ours in a configuration, in its order; raises `NotJson`, `NotOurShape`."""
    hooks = _hooks(parse(text))
    return [] if hooks is None else [one for item in hooks.items for one in _ours(item, client)]


def put(text: str | None, client: Client, entries: Mapping[str, Entry], former: str | None = None) -> str:
    """The text with exactly these entries of ours, by event; None is a file that is not there.

    `former` is the text without anything of ours, if it is known. Raises `NotJson`, `NotOurShape`.
    """
    document = parse(text or "")
    hooks = _hooks(document)
    layout = layout_of(document)
    if hooks is not None:
        for event, wanted in entries.items():
            _renew(hooks, event, wanted, client)
    made = hooks is None
    if hooks is None:
        hooks = Holder("{", [])
    missing = {name: one for name, one in entries.items() if not any(_fits(hooks, name, one, client))}
    if made and missing:
        _add_hooks(document, hooks, client, layout, absent=text is None)
    outer = _indent(document)
    for event, wanted in missing.items():
        member = hooks.get(event)
        if member is not None and isinstance(member.value, Holder):
            append(member.value, Item(_node(wanted)), layout, indent_of(member, outer))
            continue
        item = Item(Scalar(""), key=json.dumps(event), colon=": ")
        indent = append(hooks, item, layout, outer, made=made)
        item.value = Holder("[", [])
        append(item.value, Item(_node(wanted)), layout, indent, made=True)
        made = False
    # only now, so that nothing is ever empty that was made for what is added
    _drop(document, hooks, client, _before(former), entries)
    return document.text


def taken(text: str, client: Client, former: str | None = None) -> str | None:
    """The text without anything of ours; None when all of the file is.

    `former` is as for `put`. Raises `NotJson`, `NotOurShape`.
    """
    document = parse(text)
    hooks = _hooks(document)
    root = document.root
    if hooks is None or not isinstance(root, Holder) or not any(_ours(item, client) for item in hooks.items):
        return text
    before = _before(former)
    was_made = is_made(hooks)
    layout = layout_of(document)
    _drop(document, hooks, client, before, {})
    made = was_made if before is None else "hooks" not in before.members
    if hooks.items or hooks.tail.strip() or not made:
        return document.text
    at = next(number for number, item in enumerate(root.items) if item.name == "hooks")
    ours = [at]
    if client.numbered and _is_number(root.items[at + 1 : at + 2], before):
        ours.append(at + 1)
    root_was_made, beginning = is_made(root), root.items[0].before
    for number in reversed(ours):
        cut(root, number, layout)
    if root.items or root.tail.strip():
        return document.text
    around = (document.before + document.after).strip()
    if not around and (root_was_made if before is None else not before.root):
        return None
    if (beginning == _FILE_WAS_BLANK and not root.tail) if before is None else not before.root:
        document.root = None
    return document.text


# --- what is there ---------------------------------------------------------------------------------------------------


def _hooks(document: Document) -> Holder | None:
    root = document.root
    if root is None:
        return None
    if not isinstance(root, Holder) or root.opener != "{":
        raise NotOurShape("it is no object")
    _refuse_repeated(root)
    member = root.get("hooks")
    if member is None:
        return None
    if not isinstance(member.value, Holder) or member.value.opener != "{":
        raise NotOurShape('"hooks" is no object')
    _refuse_repeated(member.value, below=True)
    return member.value


def _refuse_repeated(holder: Holder, *, below: bool = False) -> None:
    for name in repeated(holder):
        raise NotOurShape(f"it has {json.dumps(name)} twice")
    for item in holder.items if below else ():
        if isinstance(item.value, Holder):
            _refuse_repeated(item.value, below=True)


def _before(former: str | None) -> _Before | None:
    if former is None:
        return None
    document = parse(former)
    hooks = _hooks(document)
    members = document.root.items if isinstance(document.root, Holder) else []
    return _Before(
        root=document.root is not None,
        members=frozenset(item.name for item in members),
        events=frozenset(item.name for item in hooks.items) if hooks else frozenset(),
    )


def _ours(member: Item, client: Client) -> list[Found]:
    """All hooks of ours in one event's list."""
    if not isinstance(member.value, Holder) or member.value.opener != "[":
        return []
    return [
        Found(member.name, place, runs, handler)
        for number, element in enumerate(value_of(member.value))
        for place, handler in _handlers(number, element, client)
        if (runs := recognised(handler)) is not None
    ]


def _handlers(number: int, element: Any, client: Client) -> Iterator[tuple[tuple[int, ...], Any]]:
    if not client.grouped:
        yield (number,), element
        return
    inner = element.get("hooks") if isinstance(element, dict) else None
    for second, handler in enumerate(inner if isinstance(inner, list) else ()):
        yield (number, second), handler


def _fits(hooks: Holder, event: str, wanted: Entry, client: Client) -> Iterator[Found]:
    """Hooks of ours that are registered just as they should be."""
    member = hooks.get(event)
    if member is None:
        return
    handler = wanted["hooks"][0] if client.grouped else wanted
    for one in _ours(member, client):
        if one.handler != handler:
            continue
        group = value_of(_element(member, one))
        if not client.grouped or (group.get("matcher") in _ANYTHING and set(group) <= {"matcher", "hooks"}):
            yield one


def _element(member: Item, one: Found) -> Node:
    return held(member.value).items[one.place[0]].value


def _inner(element: Node) -> Holder:
    """The list of hooks of a group."""
    return held(next(member.value for member in held(element).items if member.name == "hooks"))


# --- what is changed -------------------------------------------------------------------------------------------------


def _renew(hooks: Holder, event: str, wanted: Entry, client: Client) -> None:
    """Write a hook of ours that is there, alone in its element, and not as it should be, anew in its place."""
    member = hooks.get(event)
    if member is None:
        return
    if not isinstance(member.value, Holder) or member.value.opener != "[":
        raise NotOurShape(f'"hooks" has {json.dumps(event)}, which is no list')
    if any(_fits(hooks, event, wanted, client)):
        return
    for one in _ours(member, client):
        element = member.value.items[one.place[0]]
        if not client.grouped or len(_inner(element.value).items) == 1:
            element.value = _node(wanted)
            return


def _drop(
    document: Document, hooks: Holder, client: Client, before: _Before | None, entries: Mapping[str, Entry]
) -> None:
    """Take out all hooks of ours but one for each of the entries."""
    layout = layout_of(document)
    for member in list(hooks.items):
        ours = _ours(member, client)
        if not ours or not isinstance(member.value, Holder):
            continue
        wanted = entries.get(member.name)
        kept = next(_fits(hooks, member.name, wanted, client), None) if wanted is not None else None
        was_made = is_made(member.value)
        places = [one.place for one in ours if kept is None or one.place != kept.place]
        for place in reversed(places):
            _take(member.value, place, layout)
        made = was_made if before is None else member.name not in before.events
        if made and wanted is None and not member.value.items and not member.value.tail.strip():
            cut(hooks, hooks.items.index(member), layout)


def _take(events: Holder, place: tuple[int, ...], layout: Layout) -> None:
    """Take one hook out of an event's list, and its group when nothing else is in it."""
    if len(place) == 1:
        cut(events, place[0], layout)
        return
    inner = _inner(events.items[place[0]].value)
    cut(inner, place[1], layout)
    if not inner.items:
        cut(events, place[0], layout)


def _add_hooks(document: Document, hooks: Holder, client: Client, layout: Layout, *, absent: bool) -> None:
    """Put the object for hooks into the root, which is made if need be; `absent` when there is no file yet."""
    item = Item(hooks, key='"hooks"', colon=": ")
    if isinstance(document.root, Holder):
        root = document.root
        append(root, item, layout, "")
    else:
        root = document.root = Holder("{", [])
        if absent:
            append(root, item, layout, "", made=True)
            document.after = layout.newline
        else:
            item.before = _FILE_WAS_BLANK
            root.items.append(item)
            document.before, document.after = "", document.before
    if client.numbered and root.get("version") is None:
        # behind the hooks, where it tells that it came with them
        append(root, Item(Scalar("1"), key='"version"', colon=": "), layout, "")


def _indent(document: Document) -> str:
    """The indentation of the line of the object for hooks."""
    member = document.root.get("hooks") if isinstance(document.root, Holder) else None
    return indent_of(member, "") if member is not None else ""


def _is_number(following: Sequence[Item], before: _Before | None) -> bool:
    """Whether what follows the hooks is the number of the format that we put there."""
    return (
        bool(following)
        and following[0].name == "version"
        and following[0].value == Scalar("1")
        and (before is None or "version" not in before.members)
    )


def _node(entry: Entry) -> Node:
    return parse(json.dumps(entry, ensure_ascii=False)).root or Scalar("null")
