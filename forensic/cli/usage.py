"""``forensic usage``: what sessions cost in tokens, each model call once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Annotated, Any

import typer

from forensic import works
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.errors import Unusable
from forensic.model import Finding
from forensic.renderers.wording import one_line

EXAMPLE = (
    "  forensic usage\n  forensic usage ~/.claude/projects ~/.codex --by model\n"
    "  forensic usage --by day --timezone Europe/Berlin --json"
)


class Grouping(StrEnum):
    """What the figures are added up by."""

    session = "session"
    day = "day"
    model = "model"
    agent = "agent"
    harness = "harness"


def command(
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH|BUNDLE|ARCHIVE]...", help="Raw transcripts, bundles, archives.", show_default=False
        ),
    ] = None,
    by: Annotated[Grouping, typer.Option("--by", help="What to add up by.")] = Grouping.session,
    timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", help="Zone of the days, such as Asia/Tokyo.")
    ] = "UTC",
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> int:
    """Show what sessions cost in tokens, over everything named and each call once.

    Without a name it is the archive. Raw transcripts are read as they lie, nothing is sealed. What nothing tells is a
    dash, never a zero.
    """
    zone = _zone(timezone)
    problems: list[Finding] = []
    with output.progress("Reading", counts_bytes=True) as bar:
        told = works.told(paths or [], archive, by.value, zone, report=problems.append, bar=bar)
    told = {**told, "timezone": timezone}
    if json:
        output.json_line({"schema": 1, **told, "problems": [one.note for one in problems]})
    else:
        _table(told, by)
    for one in problems:
        output.aside(one.note)
    return int(any(one.problem for one in problems))


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise Unusable(detail=f"no time zone {name!r} is known here: name one such as Europe/Berlin") from None


_COLUMNS = (
    ("calls", "calls"),
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cache read", "cache_read_tokens"),
    ("cache write", "cache_write_tokens"),
    ("total", "total_tokens"),
)
_MARKS = {"exact": "", "inferred": "~", "lower_bound": ">", "unknown": "?"}


def _table(told: Mapping[str, Any], by: Grouping) -> None:
    groups: Sequence[Mapping[str, Any]] = told["groups"]
    names = [by.value, *(name for name, _ in _COLUMNS), ""]
    rows = [[one_line(group["name"]), *_cells(group)] for group in groups]
    shares = by in (Grouping.session, Grouping.harness) and any(group["inherited"]["calls"] for group in groups)
    if shares:
        names.insert(-1, "inherited")
        for row, group in zip(rows, groups, strict=True):
            row.insert(-1, _count(group["inherited"]["total_tokens"] or None))
    if by is Grouping.session:
        names.insert(0, "started (UTC)")
        for row, group in zip(rows, groups, strict=True):
            row.insert(0, f"{group['started']:%Y-%m-%d %H:%M}" if group["started"] else "-")
    total = ["total", *_cells(told["total"])]
    if shares:
        total.insert(-1, "")
    if by is Grouping.session:
        total.insert(0, "")
    right = [name for name, _ in _COLUMNS] + ["inherited"]
    output.table(names, [*rows, total], right=right, elastic=by.value)
    for line in _notes(told):
        output.line(line)


def _cells(group: Mapping[str, Any]) -> list[str]:
    return [*(_count(group[key]) for _, key in _COLUMNS), _MARKS[group["certainty"]["level"]]]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _notes(told: Mapping[str, Any]) -> list[str]:
    """What people must know to believe the total."""
    total, sessions = told["total"], told["sessions"]
    notes = ["", f"{sessions:,} {'session' if sessions == 1 else 'sessions'}, each call counted once"]
    if told["raw_vs_deduped"] is not None:
        notes[-1] += f"; adding up every row would give {told['raw_vs_deduped']:.2f} times as much"
    if silent := told["sessions_without_usage"]:
        notes.append(f"- {silent:,} of them tell no usage: what they cost is unknown")
    unfinished = told["unfinished"]
    if unfinished["calls"]:
        notes.append(
            f"> {unfinished['calls']:,} calls were never finalised: their {_count(unfinished['output_tokens'])} output"
            " tokens are a lower bound"
        )
    progress = told["from_progress"]
    if progress["calls"]:
        notes.append(
            f"> {progress['calls']:,} calls rest on copies in progress rows alone: {progress['share']:.1%} of the total"
        )
    others = [reason for reason in total["certainty"]["reasons"] if reason["level"] != "lower_bound"]
    notes += [f"{_MARKS[reason['level']]} {reason['count']:,}: {reason['reason']}" for reason in others]
    notes += [f"  {unit.replace('_', ' ')}: {amount:,}" for unit, amount in told["units"].items()]
    return notes
