"""Repeat a harness's folder of the public corpus to a size.

    python tests/benchmarks/repeat.py CORPUS TO [--megabytes 400] [--same | --years]

The same bytes on every machine. Every id of every copy (of sessions, rows, messages, requests, calls) is made that
copy's own, wherever it stands as a whole string and in the names of files, so that nothing of two copies merges; the
first copy keeps its ids. With `--years` the times of each copy lie a year before those of the one before it, for
formats that have no ids for model calls and readers that tell them apart by their time. With `--same` nothing is
rewritten, and all copies but one merge away. The copies lie as the harness lays its files: no hidden folders, one
folder a project, subagents below their session; no two files have the same name, unless they have one in the corpus
that is a session's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

UUID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SHAPED: Final = re.compile(UUID.pattern + rb"|(?:msg|req|toolu|call|resp|rs|fc|ctc|ws)_[0-9A-Za-z_-]{8,80}")
YEAR: Final = re.compile(rb'(?<="timestamp":")20\d\d(?=-)')
NAMED: Final = re.compile(rb'"(?:uuid|sessionId|session_id|requestId)"\s*:\s*"([!#-\[\]-~]{4,80})"')
HIDDEN: Final = (".claude", ".codex", "projects", "sessions")
BELOW: Final = ("subagents", "tool-results")


def place(file: Path, copy: int) -> Path:
    """Where a file of the corpus lies in a copy."""
    parts = [part for part in file.parts if part not in HIDDEN]
    at = next((number - 1 for number, part in enumerate(parts) if part in BELOW), len(parts) - 1)
    project = "-".join([f"{copy:02d}", *parts[:at]])
    if at == len(parts) - 1 and not UUID.search(os.fsencode(file.name)):
        return Path(project, f"{project}-{file.name}")
    return Path(project, *parts[at:])


def shifted(native: bytes, copy: int) -> bytes:
    """An id as it is in a copy: of the same shape, and of no other copy."""
    if UUID.fullmatch(native):
        return b"%08x" % (int(native[:8], 16) ^ copy * 0x10001) + native[8:]
    return native + b"-c%02d" % copy if copy else native


def odd(raw: bytes) -> Iterator[bytes]:
    """Ids that do not look like ids: their keys tell that they are."""
    yield from NAMED.findall(raw)
    for row in raw.split(b"\n"):
        if b'"usage"' in row:
            try:
                message = json.loads(row)["message"]
                yield str(message["id"]).encode()
            except (ValueError, LookupError, TypeError):
                continue


def repeat(corpus: Path, to: Path, size: int, *, distinct: bool, years: bool) -> int:
    """Copy the corpus until its transcripts have `size` bytes: how many copies there are."""
    files = {path: path.read_bytes() for path in sorted(corpus.rglob("*")) if path.is_file()}
    rows = [raw for path, raw in files.items() if path.suffix == ".jsonl"]
    copies = -(-size // sum(map(len, rows)))
    found = {one for raw in rows for one in odd(raw) if len(one) > 3 and not SHAPED.fullmatch(one)}
    shapes = re.compile(rb'"(' + b"|".join([SHAPED.pattern, *map(re.escape, sorted(found, reverse=True))]) + rb')(?=")')
    pieces = {path: shapes.split(raw) if path.suffix == ".jsonl" else [raw] for path, raw in files.items()}
    natives = set(chain.from_iterable(split[1::2] for split in pieces.values()))
    new = [{one: shifted(one, copy if distinct else 0) for one in natives} for copy in range(copies)]
    assert not distinct or len({one for ids in new for one in ids.values()}) == copies * len(natives)
    for copy, ids in enumerate(new):
        for path, split in pieces.items():
            target = to / renamed(place(path.relative_to(corpus), copy), ids)
            assert not target.exists(), target
            target.parent.mkdir(parents=True, exist_ok=True)
            raw = b"".join(b'"' + ids[piece] if number % 2 else piece for number, piece in enumerate(split))
            target.write_bytes(earlier(raw, copy) if years else raw)
    return copies


def renamed(file: Path, ids: dict[bytes, bytes]) -> Path:
    """The path of a copied file: ids in it are those of its copy."""
    return Path(os.fsdecode(UUID.sub(lambda found: ids.get(found[0], found[0]), os.fsencode(file))))


def earlier(raw: bytes, years: int) -> bytes:
    """Rows that were written some years before."""
    return YEAR.sub(lambda found: b"%04d" % (int(found[0]) - years), raw)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="repeat a folder of the public corpus to a size")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("--megabytes", type=float, default=400.0)
    parser.add_argument("--same", action="store_true", help="leave all ids as they are")
    parser.add_argument("--years", action="store_true", help="move the times of each copy back by another year")
    options = parser.parse_args()
    size = int(options.megabytes * 1e6)
    print(repeat(options.corpus, options.to, size, distinct=not options.same, years=options.years))


if __name__ == "__main__":
    main()
