"""A session on a terminal: `tree` tells it in order, `summary` adds it up.

One line a call, long texts folded, runs of the same line counted. The walk keeps its own stack and prints as it goes,
so neither depth nor length of a session matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from forensic.model import (
    Execution,
    HistoryFrame,
    Injected,
    Node,
    Prompt,
    Session,
    SessionFrame,
    StepFrame,
    SubagentFrame,
    SubagentStop,
    Thought,
    ToolRequest,
    TurnEnd,
    TurnFrame,
)
from forensic.renderers.canvas import Canvas, Piece, wrap
from forensic.renderers.events import kind, no_news
from forensic.renderers.lines import (
    Block,
    Line,
    Tally,
    below,
    counts,
    history,
    opening_text,
    subagent,
    thought,
    turn,
    what,
    word_of,
)
from forensic.renderers.tables import findings, summary, turns
from forensic.renderers.wording import clean, count, duration, figure, one_line, short_id, span

__all__ = ["summary", "tree"]

_ASIDE = "laid aside: "
_HOLDERS = (TurnFrame, StepFrame, SubagentFrame)
"""What holds thoughts; where no row names its reply there are no steps."""
_FOLD = 3
"""Rows of a text that are shown."""


def tree(session: Session, console: Console, *, whole: bool = False) -> None:
    """Print a session in order: turns, steps, calls, subagents; then what was found and laid aside.

    Unless `whole`, texts are folded to a few rows, and the history of other threads to a line. The same session gives
    the same output at the same width.
    """
    canvas = Canvas(console)
    _header(session, canvas)
    tally = _tally(session.tree)
    waiting: Line | None = None
    for item in _walk(session.tree, tally, canvas, whole=whole):
        if isinstance(item, Line) and waiting is not None and not item.alone and item[:5] == waiting[:5]:
            waiting = waiting._replace(
                ms=_sum(waiting.ms, item.ms), about=waiting.about or item.about, times=waiting.times + item.times
            )
            continue
        if waiting is not None:
            _print(canvas, waiting)
        waiting = None
        if isinstance(item, Line):
            waiting = item
        elif isinstance(item, Block):
            _block(canvas, item, whole=whole)
        else:
            canvas.blank()
    if waiting is not None:
        _print(canvas, waiting)
    _footer(session, canvas, tally[id(session.tree)])
    canvas.flush()


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


def _print(canvas: Canvas, line: Line) -> None:
    canvas.line(line.depth, list(line.head), line.body, _tail(line), line.more)


def _tail(line: Line) -> list[Piece]:
    """What stands right behind a line's own words: how often, how long, how it ended."""
    tail: list[Piece] = []
    if line.times > 1:
        tail.append((f" \u00d7{line.times:,}", "strong"))
    if shown := duration(line.ms, about=line.about):
        tail.append((f"  {shown}", "aside"))
    tail.extend((f" {text}", style) for text, style in line.ends if text)
    return tail


def _block(canvas: Canvas, block: Block, *, whole: bool) -> None:
    text = block.text
    body = text.preview if text.text is None else text.text
    rows = list(wrap(clean(body).strip("\n "), canvas.room(block.depth) - 2))
    if not whole:
        rows = list(filter(None, rows))
    shown = rows if whole or len(rows) <= _FOLD + 1 else rows[:_FOLD]
    canvas.block(block.depth, block.mark, shown, block.style)
    hidden = text.chars - len(body)
    if hidden > 0:
        hidden += sum(len(row) for row in rows[len(shown) :])
        canvas.block(block.depth, ("  ", ""), [f"\u2026 +{count(hidden, 'character')}"], "aside")
    elif len(shown) < len(rows):
        canvas.block(block.depth, ("  ", ""), [f"\u2026 +{count(len(rows) - len(shown), 'line')}"], "aside")


# --- the walk --------------------------------------------------------------------------------------------------------


def _tally(root: Node) -> dict[int, Tally]:
    """For each node, by identity: the calls at or below it. What was done in another thread is none of them."""
    order: list[tuple[Node, int | None]] = [(root, None)]
    for node, _ in order:
        if not isinstance(node.seen, HistoryFrame):
            order.extend((child, id(node)) for child in node.children)
    tally: dict[int, Tally] = {}
    for node, parent in reversed(order):
        held = tally.get(id(node), Tally())
        asked, ran = isinstance(node.seen, ToolRequest), isinstance(node.seen, Execution)
        if asked or ran:
            failed = node.outcome is not None and node.outcome.outcome == "error"
            held = held.plus(Tally(int(asked), int(ran), int(failed)))
        tally[id(node)] = held
        if parent is not None:
            tally[parent] = tally.get(parent, Tally()).plus(held)
    return tally


def _walk(root: Node, tally: dict[int, Tally], canvas: Canvas, *, whole: bool) -> Iterator[Line | Block | None]:
    """Everything below the root in order; None asks for an empty line."""
    stack: list[tuple[int, Iterator[Node]]] = [(0, iter(below(root)))]
    while stack:
        depth, nodes = stack[-1]
        node = next(nodes, None)
        if node is None:
            stack.pop()
            continue
        seen, children = node.seen, below(node)
        inner = depth if isinstance(seen, StepFrame) else depth + 1
        unsaid: list[Thought] = []
        if isinstance(seen, _HOLDERS):
            unsaid, children = _unsaid(children)
        only = bool(unsaid and not children)
        if isinstance(seen, TurnFrame):
            opening = _opening(node, seen)
            yield None
            heading = turn(seen, opening_text(opening), tally[id(node)])
            yield heading
            if opening is not None and _told(opening.seen, heading, canvas):
                children = [child for child in children if child is not opening]
        elif isinstance(seen, HistoryFrame):
            yield history(depth, node, seen)
            children = children if whole else []
        else:
            yield from _said(depth, node, tally)
        if only:
            yield thought(inner, unsaid[0], len(unsaid))
        if children:
            stack.append((inner, iter(children)))


def _said(depth: int, node: Node, tally: dict[int, Tally]) -> Iterator[Line | Block]:
    """What a node says of itself; a step says nothing."""
    if isinstance(node.seen, SubagentFrame):
        yield subagent(depth, node.seen, tally[id(node)])
    elif not isinstance(node.seen, StepFrame):
        yield from what(depth, node)


def _unsaid(children: Sequence[Node]) -> tuple[list[Thought], list[Node]]:
    """The thoughts that say nothing, which have a line only when nothing stands beside them; and all else."""
    unsaid: list[Thought] = []
    rest: list[Node] = []
    for child in children:
        if isinstance(child.seen, Thought) and not one_line(child.seen.text):
            unsaid.append(child.seen)
        else:
            rest.append(child)
    return unsaid, rest


def _opening(turn: Node, frame: TurnFrame) -> Node | None:
    """The prompt of a turn; of one that nobody opened, the text that set it going."""
    kind = Prompt if frame.number is not None else Prompt | Injected
    return next((child for child in turn.children if isinstance(child.seen, kind)), None)


def _told(seen: object, heading: Line, canvas: Canvas) -> bool:
    """Whether the heading of a turn has room for all that its opening says."""
    if not isinstance(seen, Prompt):
        return True
    if seen.images or seen.text.chars > canvas.width or "\n" in seen.text.preview.strip():
        return False
    return canvas.fits([*heading.head, heading.body, *_tail(heading)])


# --- before and after ------------------------------------------------------------------------------------------------


def _header(session: Session, canvas: Canvas) -> None:
    frame = session.tree.seen
    title = one_line(frame.title) if isinstance(frame, SessionFrame) else ""
    canvas.line(0, [], (title or "untitled session", "title"))
    producer = " ".join([one_line(session.harness), *map(one_line, session.producer[-1:])])
    more = f" (and {count(len(session.producer) - 1, 'earlier version')})" if len(session.producer) > 1 else ""
    canvas.line(0, [(f"{producer}{more} \u00b7 session ", "aside")], (one_line(session.session), "aside"))
    parts = [f"content {short_id(session.content_id)}", f"parser {session.parser.dialect} {session.parser.version}"]
    times = _times(session.tree)
    _together(canvas, ("", ""), " \u00b7 ", [*([times] if times else []), *parts], "aside")


def _times(root: Node) -> str:
    moments = [at for child in root.children for at in (child.seen.at, getattr(child.seen, "until", None)) if at]
    return span(min(moments), max(moments)) if moments else ""


def _footer(session: Session, canvas: Canvas, calls: Tally) -> None:
    canvas.blank()
    findings(canvas, (*session.remarks, *session.findings))
    tally = Counter((kind(seen), getattr(seen, "family", "")) for seen in session.aside)
    tally.update(_counted_only(session.tree))
    if tally:
        shown = sorted((-number, _aside(*key)) for key, number in tally.items())
        _together(canvas, (_ASIDE, "aside"), ", ", [f"{name} {-number:,}" for number, name in shown], "aside")
    parts = [turns(session, "turn"), *counts(calls), f"tokens {_tokens(session.usage['total'])}"]
    _together(canvas, ("", ""), " \u00b7 ", parts, "strong")


def _tokens(total: dict[str, Any]) -> str:
    """Input and output; the total alone where nothing says what it is made of."""
    level = str(total["certainty"]["level"])
    if total["input_tokens"] is None and total["output_tokens"] is None:
        whole = total["total_tokens"]
        return "unknown" if whole is None else f"{figure(whole, level)} total"
    return ", ".join(f"{figure(total[f'{name}_tokens'], level)} {name}" for name in ("input", "output"))


def _together(canvas: Canvas, mark: Piece, between: str, parts: Sequence[str], style: str) -> None:
    """Parts on as many rows as they take, none of them torn apart that fits a row."""
    text = between.join(part.replace(" ", "\u00a0") for part in parts)
    rows = wrap(text, canvas.room(0) - len(mark[0]))
    canvas.block(0, mark, [row.replace("\u00a0", " ").rstrip(" ") for row in rows], style)


def _counted_only(root: Node) -> Iterator[tuple[str, str]]:
    """What the tree shows no line of, each by its kind; an end as it should be is not even counted."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node.seen, HistoryFrame):
            continue
        pending.extend(node.children)
        if isinstance(node.seen, _HOLDERS):
            unsaid, rest = _unsaid(below(node))
            yield from ((word_of(one), "") for one in unsaid if rest)
        if no_news(node.seen) and not isinstance(node.seen, TurnEnd | SubagentStop):
            yield f"{kind(node.seen)} {getattr(node.seen, 'outcome', '') or ''}".rstrip(), ""


def _aside(word: str, family: str) -> str:
    name = one_line(family)
    return name if name and word == "set aside" else " ".join(filter(None, (word, name)))
