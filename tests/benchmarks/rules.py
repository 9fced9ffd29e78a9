"""What a folder of Claude transcripts adds up to: by the rules that its readers follow, and as a floor for their time.

    python tests/benchmarks/rules.py FOLDER [--floor]

Prints `{rule: [input, output, cache]}`. The rules are told from outside, by figures alone: a rule is a program's when
it gives that program's totals to the last token on every folder tried. With `--floor` only the first rule's totals, by
the least that Python can do: find the lines that hold the word usage and decode those.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

FIELDS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
Totals = tuple[int, int, int]
"""Tokens: input that no cache gave or took, output, cache (read and written)."""


class Told(NamedTuple):
    """What one row tells of a model call; `aside` in a subagent's row, `spaced` with blanks after the colons."""

    message: str | None
    request: str | None
    at: str | None
    progress: bool
    aside: bool
    spaced: bool
    tokens: tuple[int, ...]


def rows_with_usage(raw: bytes) -> Iterator[tuple[bool, dict[str, Any]]]:
    """The rows in one line whose message tells usage: (is it a progress row's copy, the row)."""
    try:
        row = json.loads(raw)
    except ValueError:
        return
    data = row.get("data") if isinstance(row, dict) else None
    for copied, told in ((False, row), (True, data.get("message") if isinstance(data, dict) else None)):
        if not isinstance(told, dict):
            continue
        message = told.get("message")
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            yield copied, told


def tellings(folder: Path) -> Iterator[Told]:
    """All usage that the transcripts of a folder tell."""
    for path in sorted(folder.rglob("*.jsonl")):
        for raw in path.read_bytes().split(b"\n"):
            if b'"usage"' not in raw:
                continue
            for progress, row in rows_with_usage(raw):
                message = row["message"]
                tokens = tuple(count(message["usage"].get(field)) for field in FIELDS)
                names = message.get("id"), row.get("requestId"), row.get("timestamp")
                yield Told(*names, progress, row.get("isSidechain") is True, b'"usage": {' in raw, tokens)


def count(value: object) -> int:
    """A count of tokens, else none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def added(figures: Iterable[Sequence[int]]) -> Totals:
    """The sums of many figures."""
    sums = [0, 0, 0, 0]
    for one in figures:
        sums = [before + more for before, more in zip(sums, one, strict=True)]
    return sums[0], sums[1], sums[2] + sums[3]


def greatest(rows: Iterable[Told], key: Callable[[Told], object]) -> Totals:
    """Rows of one key are one call, and each of its figures is the greatest told."""
    calls: dict[object, tuple[int, ...]] = {}
    for row in rows:
        name = key(row)
        calls[name] = tuple(map(max, calls.get(name, row.tokens), row.tokens))
    return added(calls.values())


def main_first(rows: Iterable[Told], key: Callable[[Told], object]) -> Totals:
    """Rows of one key are one call, and one of them is taken whole: not a subagent's if there is another."""
    calls: dict[object, Told] = {}
    for row in rows:
        if row.spaced:
            continue
        before = calls.setdefault(key(row), row)
        if (not row.aside, sum(row.tokens)) > (not before.aside, sum(before.tokens)):
            calls[key(row)] = row
    return added(row.tokens for row in calls.values())


def by_rule(rows: Sequence[Told]) -> dict[str, Totals]:
    """The totals by every rule, the right one first."""
    own = [row for row in rows if not row.progress]
    whole = "of a call told in several files the main file's row is taken as it is, not the subagent's final one; rows "
    whole += "written with blanks after the colons are not seen"
    return {
        "Once per message id, each figure the greatest told, progress rows included": greatest(
            rows, lambda row: row.message or row.request or id(row)
        ),
        "The same without progress rows": greatest(own, lambda row: row.message or row.request or id(row)),
        "Without progress rows, and every row without a `requestId` is a call of its own": greatest(
            own, lambda row: (row.message, row.request) if row.message and row.request else id(row)
        ),
        f"With progress rows; rows without a `requestId` are one call only where their times are equal; {whole}": (
            main_first(rows, lambda row: (row.message, row.request or row.at))
        ),
        f"Once per message id without progress rows; {whole}": main_first(own, lambda row: row.message),
        "Every row added": added(row.tokens for row in rows),
    }


class Usage(msgspec.Struct):
    """The figures of a message."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class Message(msgspec.Struct):
    """A message of the model."""

    id: str | None = None
    usage: Usage | None = None


class Inner(msgspec.Struct, rename="camel"):
    """A row as a progress row copies it."""

    message: Message | None = None
    request_id: str | None = None


class Data(msgspec.Struct):
    """What a progress row carries."""

    message: Inner | None = None


class Row(Inner):
    """A row."""

    data: Data | None = None


def floor(folder: Path) -> Totals:
    """The totals by the first rule, decoding nothing but the lines that hold usage."""
    decode = msgspec.json.Decoder(Row).decode
    calls: dict[object, tuple[int, ...]] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        raw, at = path.read_bytes(), 0
        while (at := raw.find(b'"usage"', at)) >= 0:
            start, end = raw.rfind(b"\n", 0, at) + 1, raw.find(b"\n", at)
            at = len(raw) if end < 0 else end
            try:
                row = decode(raw[start:at])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            inner: Inner | None = row.data.message if row.data and row.data.message else row
            if inner is None or inner.message is None or inner.message.usage is None:
                continue
            told = inner.message.usage
            name = inner.message.id or inner.request_id or (path, start)
            tokens = msgspec.structs.astuple(told)
            before = calls.get(name)
            calls[name] = tokens if before is None else tuple(map(max, before, tokens))
    return added(calls.values())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="add up the usage in a folder of Claude transcripts by several rules")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--floor", action="store_true", help="only the first rule, as fast as Python can")
    options = parser.parse_args()
    print(json.dumps(floor(options.folder) if options.floor else by_rule(list(tellings(options.folder)))))


if __name__ == "__main__":
    main()
