"""``forensic usage``: what sessions cost in tokens, each model call once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Annotated, Any

import typer

from forensic import works
from forensic.archive import default_root
from forensic.cli import output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.errors import Unusable
from forensic.model import Finding
from forensic.renderers.wording import count, figure, one_line

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
    found: list[Finding] = []
    with output.progress("Reading", counts_bytes=True) as bar:
        told = works.told(paths or [], archive, by.value, zone, report=found.append, bar=bar)
    told = {**told, "timezone": timezone}
    if json:
        output.json_line({"schema": 1, **told, "findings": found})
    elif told["sessions"]:
        _table(told, by)
    elif not found:
        output.aside(f"no session in {archive or default_root()} yet: forensic capture PATH")
    for one in found:
        output.aside(one.note)
    return int(any(one.problem for one in found))


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
_STARTED, _DATE = "started (UTC)", "date (UTC)"
_INHERITED = "inherited"
_RIGHT = (*(name for name, _ in _COLUMNS), _INHERITED)
_EXPENDABLE = ("cache write", _INHERITED, "cache read", _DATE)
"""Columns that give way where there is no room for all, the first one first."""
_FIGURES = ("calls", "input", "output")
_MARKS = {"exact": "", "inferred": "~", "lower_bound": ">", "unknown": "?"}
_SHORT = 8
"""Characters of an id that are shown at least."""
_NAME = 18
"""Cells that a name has before columns give way."""

Columns = dict[str, list[str]]


def _table(told: Mapping[str, Any], by: Grouping) -> None:
    groups = [group for group in told["groups"] if _is_listed(group, by)]
    columns, missing = _fitting(_columns(groups, told["total"], by), by.value)
    if by is Grouping.session:
        ids = _ids(groups, [one_line(group["name"]) for group in groups])
        columns[by.value] = _told_apart(columns[by.value], ids, _room(columns, by.value))
    output.table([*columns], [*zip(*columns.values(), strict=True)], right=_RIGHT, elastic=by.value)
    for line in _notes(told, [group for group in told["groups"] if not _is_listed(group, by)]):
        output.line(line)
    if missing:
        output.line(f"  no room for: {', '.join(missing)}")


def _is_listed(group: Mapping[str, Any], by: Grouping) -> bool:
    """Whether a group has a row of its own: of many sessions not those that tell nothing at all."""
    return by is not Grouping.session or bool(group["calls"] or group["inherited"]["calls"] or group["units"])


def _columns(groups: Sequence[Mapping[str, Any]], total: Mapping[str, Any], by: Grouping) -> Columns:
    """The cells of each column, those of the total last."""
    columns = {by.value: [*_names(groups, by), "total"]}
    if by is Grouping.session and groups:
        # not by strftime: it does not write the first years with four digits everywhere
        started = [group["started"].isoformat(" ")[:16] if group["started"] else "-" for group in groups]
        columns = {_STARTED: [*started, "total"], by.value: [*columns[by.value][:-1], ""]}
    for name, field in _COLUMNS:
        columns[name] = [_figure(group, field) for group in (*groups, total)]
    if any("inherited" in group and group["inherited"]["calls"] for group in groups):
        columns[_INHERITED] = [*(_count(group["inherited"]["total_tokens"] or None) for group in groups), ""]
    marks = [_MARKS[group["certainty"]["level"]] for group in (*groups, total)]
    return {**columns, "": marks} if any(marks) else columns


def _names(groups: Sequence[Mapping[str, Any]], by: Grouping) -> list[str]:
    """The names of the groups; of a session's as much as tells them apart, for some ids begin with a time."""
    names = [one_line(group["name"]) for group in groups]
    if by is not Grouping.session:
        return names
    longest = max(map(len, names), default=0)
    different = len(set(names))
    enough = (size for size in range(_SHORT, longest) if len({name[:size] for name in names}) == different)
    size = next(enough, longest)
    return _ids(groups, [name[:size] for name in names])


def _ids(groups: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """The ids of sessions, or what is shown of them, with the harness before each that several of them use."""
    uses = Counter(names)
    return [f"{group['harness']}/{name}" if uses[name] > 1 else name for group, name in zip(groups, names, strict=True)]


def _figure(group: Mapping[str, Any], field: str) -> str:
    """A figure, or a dash; nobody counted calls where nothing tells of any."""
    untold = field == "calls" and not group[field] and group["certainty"]["level"] == "unknown"
    return "-" if untold else _count(group[field])


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _fitting(columns: Columns, key: str) -> tuple[Columns, list[str]]:
    """As many of the columns as there is room for, and the names of the others."""
    missing: list[str] = []
    if _width(columns, key) > output.width():
        columns = {
            _DATE if name == _STARTED else name: [cell[:10] for cell in cells] if name == _STARTED else cells
            for name, cells in columns.items()
        }
    # a part of a date is none
    for name in (*_EXPENDABLE, *(_FIGURES if key == Grouping.day else ())):
        if name in columns and _width(columns, key) > output.width():
            last = columns.pop(name)[-1]
            if name == _DATE:
                columns[key][-1] = last
            missing.append(name)
    return columns, missing


def _width(columns: Columns, key: str) -> int:
    return output.width() - _room(columns, key) + min(max(map(len, (key, *columns[key]))), _NAME)


def _room(columns: Columns, key: str) -> int:
    """The cells that all other columns leave to one."""
    others = [max(map(len, (name, *cells))) for name, cells in columns.items() if name != key]
    return output.width() - sum(others) - 2 * len(others)


def _told_apart(cells: list[str], ids: Sequence[str], room: int) -> list[str]:
    """Cells of ids that differ where there is no room for them: cut in their middle, if their ends tell them apart."""
    room = max(room, _SHORT)
    if max(map(len, cells), default=0) <= room:
        return cells
    for end in range(1, room - 1):
        cut = [name if len(name) <= room else f"{name[: room - 1 - end]}\u2026{name[-end:]}" for name in ids]
        if len(set(cut)) == len(set(ids)):
            return [*cut, *cells[len(cut) :]]
    return cells


def _notes(told: Mapping[str, Any], unlisted: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What people must know to believe the total. `unlisted` are sessions without a row."""
    quiet = sum(group["certainty"]["level"] != "unknown" for group in unlisted)
    yield ""
    ratio = told["raw_vs_deduped"]
    more = "" if ratio is None or f"{ratio:.2f}" == "1.00" else f"; all rows together tell {ratio:.2f} times as much"
    yield f"{count(told['sessions'], 'session')}, each call counted once{more}"
    if untold := told["sessions_without_usage"]:
        listed = ", not listed," if len(unlisted) > quiet else ""
        verb = "tells" if untold == 1 else "tell"
        yield f"? {count(untold, 'session')}{listed} {verb} no usage: what it cost is unknown"
    if quiet:
        yield f"  {count(quiet, 'session')}, not listed, asked nothing of a model"
    unfinished, progress = told["unfinished"], told["from_progress"]
    if unfinished["calls"]:
        tokens = "" if unfinished["output_tokens"] is None else f": {unfinished['output_tokens']:,} output or more"
        yield f"> {count(unfinished['calls'], 'call was', 'calls were')} never finalised{tokens}"
    for reason in told["total"]["certainty"]["reasons"]:
        if reason["level"] != "lower_bound":
            yield f"{_MARKS[reason['level']]} {reason['reason']} ({reason['count']:,})"
    if told["total"]["certainty"]["level"] == "lower_bound" and not unfinished["calls"]:
        yield "> so the total is a lower bound"
    if progress["calls"]:
        share = "" if progress["share"] is None else f": {progress['share']:.1%} of the total"
        yield f"  {count(progress['calls'], 'call')} known from progress rows only{share}"
    for unit, amount in told["units"].items():
        yield f"  {figure(amount)} {one_line(unit).replace('_', ' ')}"
