"""The summary of a session: what it did and what it cost, in tables. No figure is shown without its certainty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console

from forensic.model import Finding, Session, TurnFrame
from forensic.renderers.canvas import Canvas, wrap
from forensic.renderers.wording import count, duration, figure, one_line, short_id, span

__all__ = ["findings", "summary", "turns"]

_UNUSED = ["available"]
_OUTCOMES = (
    ("nested_calls", "more run"),
    ("failures", "failed"),
    ("refused", "refused"),
    ("interrupted", "interrupted"),
    ("unanswered", "unanswered"),
    ("not_told", "with no outcome told"),
)
_LONGEST = 25
"""Rows of a table that are shown; the document has them all."""

_TOKENS = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cache read", "cache_read_tokens"),
    ("cache write", "cache_write_tokens"),
    ("reasoning", "reasoning_tokens"),
)
_GROUPS = (("model", "by_model"), ("agent", "by_agent"), ("turn", "by_turn"), ("day", "by_day"))
_TOOLS = ("tool", "calls", "failed", "refused", "unanswered", "time")


def summary(session: Session, console: Console) -> None:
    """Print the totals of a session, its usage by model, agent, turn and day, its tools, files and findings."""
    canvas = Canvas(console)
    told = session.summary
    for name, value in _overview(session, told):
        canvas.block(0, (f"{name:<12} ", "aside"), list(wrap(value, canvas.room(0) - 13)), "")
    _usage(session, canvas)
    _table(canvas, "Tools", *_telling(_TOOLS, _tools(told["tools"])))
    for title, texts in (
        ("Commands", told["commands"]),
        ("Files written", told["files_written"]),
        ("Files read", told["files_read"]),
    ):
        _table(canvas, title, ("",), [(one_line(text),) for text in texts])
    _skills(canvas, told["skills"])
    if session.remarks or session.findings:
        canvas.blank()
        canvas.line(0, [("Findings", "strong")])
        findings(canvas, (*session.remarks, *session.findings), indent="  ")
    canvas.flush()


def findings(canvas: Canvas, found: Iterable[Finding], *, indent: str = "") -> None:
    """Each finding whole, on as many rows as it takes; problems are marked."""
    for one in found:
        times = f" \u00d7{one.count:,}" if one.count > 1 else ""
        where = f"  {one_line(str(one.ref))}" if one.ref else ""
        mark = (f"{indent}! ", "bad") if one.problem else (f"{indent}\u00b7 ", "warn")
        room = canvas.room(0) - len(mark[0])
        canvas.block(0, mark, list(wrap(f"{one_line(one.kind)}: {one_line(one.note)}{times}{where}", room)), "")


def turns(session: Session, noun: str = "") -> str:
    """How many turns people opened, as the summary counts them, and how many something else did."""
    frames = (node.seen for node in session.tree.children)
    others = Counter(frame.source or "" for frame in frames if isinstance(frame, TurnFrame) and frame.number is None)
    opened: int = session.summary["turns"]
    rest = ", ".join(f"{number:,} by {one_line(source) or 'nobody'}" for source, number in sorted(others.items()))
    return " and ".join(filter(None, [count(opened, noun) if noun else f"{opened:,}", rest]))


def _skills(canvas: Canvas, skills: dict[str, list[str]]) -> None:
    """Those that were used; of those that only could have been, how many."""
    used = [(one_line(name), ", ".join(map(one_line, stages))) for name, stages in skills.items() if stages != _UNUSED]
    _table(canvas, "Skills", ("skill", "seen as"), used)
    more = len(skills) - len(used)
    if more:
        if not used:
            canvas.blank()
            canvas.line(0, [("Skills", "strong")])
        canvas.line(0, [(f"  {more:,} {'more ' if used else ''}available", "aside")])


def _table(canvas: Canvas, title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table under its title; none when there is nothing to show, cut when there is too much."""
    if not rows:
        return
    canvas.blank()
    canvas.line(0, [(title, "strong")])
    canvas.table(names, rows[:_LONGEST])
    if len(rows) > _LONGEST:
        canvas.line(0, [(f"  \u2026 and {len(rows) - _LONGEST:,} more", "aside")])


def _telling(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A table without its columns in which no row says anything; name and number stay."""
    kept = [place for place in range(len(names)) if place < 2 or any(row[place] not in ("0", "-") for row in rows)]
    return tuple(names[place] for place in kept), [tuple(row[place] for place in kept) for row in rows]


def _turn_names(session: Session) -> dict[str, str]:
    """What people call the turns that they opened."""
    frames = (node.seen for node in session.tree.children)
    return {frame.id: f"turn {frame.number}" for frame in frames if isinstance(frame, TurnFrame) and frame.number}


def _overview(session: Session, told: dict[str, Any]) -> list[tuple[str, str]]:
    rows = told["rows"]
    set_apart = [f"{rows[name]:,} {name.replace('_', ' ')}" for name in rows if name != "total" and rows[name]]
    outcomes = [f"{told[name]:,} {word}" for name, word in _OUTCOMES if told[name]]
    steps = [count(told[name], name[:-1]) for name in ("steps", "subagents") if told[name]]
    return [
        ("session", one_line(session.session)),
        ("harness", " ".join(map(one_line, (session.harness, *session.producer)))),
        ("content", short_id(session.content_id)),
        ("models", ", ".join(map(one_line, told["models"])) or "-"),
        ("time", _time(told)),
        ("turns", turns(session) + (f" ({', '.join(steps)})" if steps else "")),
        ("tool calls", ", ".join([f"{told['tool_calls']:,}", *outcomes])),
        ("messages", f"{count(told['responses'], 'response')}, {count(told['thoughts'], 'thought')}"),
        ("trouble", f"{count(told['api_errors'], 'API error')}, {told['retries']:,} retried"),
        ("compactions", f"{told['compactions']:,}"),
        ("rows", f"{rows['total']:,}" + (f" ({', '.join(set_apart)})" if set_apart else "")),
    ]


def _time(told: dict[str, Any]) -> str:
    if told["started"] is None:
        return "-"
    return f"{span(told['started'], told['ended'])}, busy {duration(told['busy_ms']) or '-'}"


# --- usage ------------------------------------------------------------------------------------------------------------


def _usage(session: Session, canvas: Canvas) -> None:
    """Figures where there are any, each with the mark of its certainty; and why a total is no more than it is."""
    usage = session.usage
    figures = ("calls", *(name for name, _ in _TOKENS))
    rows = [_figures("total", usage["total"])] if any(usage["total"][field] is not None for _, field in _TOKENS) else []
    canvas.blank()
    canvas.line(0, [("Tokens", "strong")])
    if rows:
        canvas.table(("", *figures), rows)
    for line in _notes(usage):
        for number, row in enumerate(wrap(line, canvas.room(0) - 4)):
            canvas.line(0, [("    " if number else "  ", "")], (row, "aside"))
    named = _turn_names(session) if len(usage["by_turn"]) > 1 else {}
    for name, key in _GROUPS:
        # a single group is the total again, and the model is named above
        if len(usage[key]) > 1 or (key == "by_model" and [*usage[key]] != session.summary["models"]):
            groups = [_figures(named.get(label, label), group) for label, group in usage[key].items()]
            _table(canvas, f"By {name}", (name, *figures), groups)


def _figures(name: str, group: dict[str, Any]) -> tuple[str, ...]:
    level = str(group["certainty"]["level"])
    return (one_line(name), f"{group['calls']:,}", *(figure(group[field], level) for _, field in _TOKENS))


def _notes(usage: dict[str, Any]) -> Iterator[str]:
    """How sure the total is and why, and what stands beside it."""
    total, certainty, inherited = usage["total"], usage["certainty"], usage["inherited"]
    if certainty["level"] not in (reason["level"] for reason in certainty["reasons"]):
        yield _level(certainty["level"])
    for reason in certainty["reasons"]:
        yield f"{_level(reason['level'])}: {one_line(reason['reason'])} ({reason['count']:,})"
    if total["total_tokens"] is not None and total["input_tokens"] is None and total["output_tokens"] is None:
        yield f"{figure(total['total_tokens'], str(certainty['level']))} tokens in all"
    if usage["raw_vs_deduped"] not in (None, 1.0):
        yield f"rows add up to {usage['raw_vs_deduped']:.4f} times these totals: copies are counted once"
    if usage["from_progress"]["calls"]:
        yield f"{count(usage['from_progress']['calls'], 'call')} known from progress rows only"
    if inherited and inherited["calls"]:
        told = [f"{figure(inherited[field])} {name}" for name, field in _TOKENS if inherited[field]]
        yield f"inherited, and not counted above: {', '.join([count(inherited['calls'], 'call'), *told])}"
    if usage["units"]:
        told = [f"{figure(amount)} {one_line(name).replace('_', ' ')}" for name, amount in usage["units"].items()]
        yield f"in the producer's own units: {', '.join(told)}"


def _level(level: Any) -> str:
    return str(level).replace("_", " ")


def _tools(tools: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    ranked = sorted(tools.items(), key=lambda item: (-item[1]["calls"], item[0]))
    return [
        (
            one_line(name),
            f"{tool['calls']:,}",
            f"{tool['failures']:,}",
            f"{tool['refused']:,}",
            f"{tool['unanswered']:,}",
            duration(tool["duration_ms"]) or "-",
        )
        for name, tool in ranked
    ]
