"""Which rows of a forked or spawned thread are another thread's history."""

from __future__ import annotations

from typing import Any

import pytest
from score import at, outline, ref, replay, text

from forensic.model import (
    Accounting,
    Observation,
    Prompt,
    Response,
    SessionStart,
    Setting,
    ToolRequest,
    ToolResult,
    Usage,
)
from forensic.replay.lineage import Snapshot, snapshots, trace

FORK: dict[str, Any] = {"thread": "fork", "forked_from": "origin"}
CHILD: dict[str, Any] = {"thread": "child", "parent": "origin"}


def start(second: float = 0, *, offset: int = 0, **more: Any) -> SessionStart:
    """The first row of a thread."""
    return SessionStart(ref=ref(offset), at=at(second), **more)


def total(offset: int, second: float, figure: int, **more: Any) -> Accounting:
    """A running total: as many tokens read as `figure` says, a tenth as many written."""
    told = Usage(input_tokens=figure, output_tokens=figure // 10, running="thread", final=True, **more)
    return Accounting(ref=ref(offset), at=at(second), family="total", usage=told)


def said(offset: int, second: float, words: str) -> Response:
    """An answer."""
    return Response(ref=ref(offset), at=at(second), text=text(words))


def told(*totals: tuple[float, int]) -> list[Snapshot]:
    """What the running total of another thread told, and when."""
    return list(snapshots(total(0, second, figure) for second, figure in totals))


def inherited(*rows: Observation, **parents: list[Snapshot]) -> tuple[str | None, list[int]]:
    """The rule, and the offsets of the copied rows."""
    lines = trace(rows, parents)
    (line,) = lines.by_stream.values()
    return line.rule, sorted(rows[number].ref.offset for number in lines.inherited)


def test_a_thread_of_its_own_inherits_nothing() -> None:
    """However fast it is, and whatever it says of its own resumption."""
    rows = (start(thread="a"), total(1, 0.01, 10), start(0.02, offset=2, thread="a"), total(3, 0.03, 20))
    assert inherited(*rows) == (None, [])
    assert trace([said(0, 0, "no start")]).by_stream == {}


def test_the_producers_own_boundary_decides() -> None:
    """By the ordinals of its rows; 0 says that nothing was taken along, however much it looks like it."""
    rows = [
        total(
            1,
            0.1,
            10,
        ),
        total(2, 0.2, 20),
        total(3, 9, 30),
    ]
    numbered = [Accounting(**{**fields(one), "ordinal": one.ref.offset}) for one in rows]
    assert inherited(start(**FORK, own_from=3, ordinal=0), *numbered) == ("ordinal", [1, 2])
    assert inherited(start(**FORK, own_from=0, ordinal=0), *numbered) == (None, [])


def test_a_boundary_by_ordinals_says_nothing_where_no_row_has_one() -> None:
    """Then the other rules decide, as if none were told."""
    rows = (total(1, 0.01, 10), total(2, 0.02, 20), total(3, 9, 30))
    assert inherited(start(**FORK, own_from=3), *rows) == ("burst", [1, 2])
    assert inherited(start(**CHILD, own_from=2), total(1, 9, 10, last=Usage(input_tokens=10))) == (None, [])


def test_a_boundary_that_a_copied_first_row_contradicts_is_none() -> None:
    """A format may say by default that nothing was taken along; the other thread's own first row says that it was."""
    rows = [start(0.01, offset=1, thread="origin"), total(2, 0.02, 10), total(3, 0.03, 20), total(4, 9, 30)]
    numbered = [type(one)(**{**fields(one), "ordinal": one.ref.offset}) for one in rows]
    assert inherited(start(**CHILD, own_from=0, ordinal=0), *numbered) == ("burst", [1, 2, 3])
    far = [*numbered[1:], start(20, offset=5, thread="origin", ordinal=5)]
    assert inherited(start(**CHILD, own_from=0, ordinal=0), *far) == (None, [])


def test_a_thread_that_names_itself_came_from_nowhere() -> None:
    """As its own fork, or as its own child."""
    for own in (start(thread="a", forked_from="a"), start(thread="a", parent="a")):
        assert inherited(own, total(1, 0.01, 10), total(2, 0.02, 20)) == (None, [])
    assert inherited(start(thread="a", forked_from="a", parent="b"), total(1, 0.01, 10)) == ("burst", [1])


def fields(seen: Observation) -> dict[str, Any]:
    """All that an observation is made of."""
    return {name: getattr(seen, name) for name in seen.__struct_fields__}


def test_rows_older_than_their_thread_are_copies() -> None:
    """They kept their own times."""
    rows = (start(60, **CHILD), said(1, 3, "old"), total(2, 4, 10), said(3, 61, "own"), total(4, 70, 15))
    assert inherited(*rows) == ("time", [1, 2])


def test_a_burst_is_a_copy_when_it_holds_totals() -> None:
    """A model needs longer; what a spawned thread is told behind the last total is its own task."""
    rows = [start(**CHILD), total(1, 0.01, 10), total(2, 0.02, 20), Prompt(ref=ref(3), at=at(0.03), text=text("do"))]
    assert inherited(*rows, total(4, 5, 25)) == ("burst", [1, 2])
    fork = [start(**FORK), *rows[1:], total(4, 5, 25)]
    assert inherited(*fork) == ("burst", [1, 2, 3])


def test_a_burst_without_totals_is_a_thread_that_begins() -> None:
    """Its instructions and its task come just as fast."""
    rows = (start(**CHILD), said(1, 0.01, "context"), Prompt(ref=ref(2), at=at(0.02), text=text("do")), total(3, 4, 10))
    assert inherited(*rows) == ("none", [])


def test_a_quick_first_answer_is_no_burst() -> None:
    """Two fifths of a second are more than copied rows are apart."""
    last = Usage(input_tokens=10, output_tokens=1)
    assert inherited(start(**CHILD), said(1, 0.4, "hm"), total(2, 0.8, 10, last=last)) == (None, [])


def test_the_origins_own_first_row_begins_a_copy() -> None:
    """Even where no row names an origin; then a pause must be a second long to end it."""
    rows = (
        start(thread="b"),
        start(6, offset=1, thread="a"),
        said(2, 6.5, "old"),
        total(3, 6.9, 10),
        said(4, 9, "own"),
        total(5, 11, 25),
    )
    assert inherited(*rows) == ("burst", [1, 2, 3])


def test_another_threads_first_row_far_inside_says_nothing() -> None:
    """A copy begins where the stream does."""
    rows = (start(**CHILD), total(1, 30, 10), start(60, offset=2, thread="origin"))
    assert inherited(*rows) == ("none", [])


def test_totals_that_repeat_the_parents_are_copies() -> None:
    """Whatever their times are; the first that differs is the thread's own."""
    parent = told((0, 10), (0, 20), (0, 30))
    rows = (start(**FORK), total(1, 20, 10), said(2, 25, "old"), total(3, 40, 20), total(4, 60, 26))
    assert inherited(*rows, origin=parent) == ("match", [1, 2, 3])
    assert inherited(*rows) == ("none", [])


def test_one_total_that_equals_the_parents_may_be_chance() -> None:
    """A thread that gets the same first answer as its parent after a pause was answered itself."""
    parent = told((0, 10), (0, 30))
    assert inherited(start(**CHILD), total(1, 9, 10), total(2, 20, 17), origin=parent)[1] == []
    assert inherited(start(**CHILD), total(1, 0.5, 10), total(2, 20, 17), origin=parent) == ("match", [1])


def test_what_the_parent_told_after_a_thread_began_is_no_history_of_it() -> None:
    """Both may reach the same total, the parent later."""
    rows = (start(100, **FORK), total(1, 100.01, 10), total(2, 100.02, 20), total(3, 108, 35))
    assert inherited(*rows, origin=told((1, 10), (2, 20), (300, 35))) == ("match", [1, 2])
    assert inherited(*rows, origin=told((1, 10), (2, 20), (99, 35))) == ("match", [1, 2])
    copied = (start(0, thread="b"), start(60, offset=1, thread="origin"), total(2, 60.1, 10), total(3, 70, 30))
    assert inherited(*copied, origin=told((5, 10), (65, 30))) == ("match", [1, 2])


def test_a_spawned_thread_that_begins_as_its_parent_did_was_answered_itself() -> None:
    """However many totals agree by chance, with pauses between them; a copied first row, or a burst, is no chance."""
    parent, own = told((1, 10), (2, 20), (3, 30)), [total(2, 55, 10), total(3, 60, 20), total(4, 65, 30)]
    assert inherited(start(50, **CHILD), *own, origin=parent) == ("none", [])
    head = start(50.01, offset=1, thread="origin")
    assert inherited(start(50, **CHILD), head, *own, origin=parent) == ("match", [1, 2, 3, 4])
    burst = [total(1, 50.4, 10), total(2, 50.8, 20)]
    assert inherited(start(50, **CHILD), *burst, total(3, 60, 37), origin=parent) == ("match", [1, 2])
    long = told((1, 10), (2, 20), (3, 30), (4, 40))
    assert inherited(start(50, **CHILD), *burst, total(3, 55, 30), total(4, 60, 40), origin=long)[1] == [1, 2, 3, 4]
    assert inherited(start(50, **CHILD), *burst, total(3, 55, 30), total(4, 60, 47), origin=long)[1] == [1, 2]


def test_a_burst_takes_a_copy_no_further_than_to_a_total_that_the_parent_never_told() -> None:
    """A quick model goes on at once; the parent's own totals may stand there twice."""
    rows = (start(50, **CHILD), start(50.01, offset=1, thread="origin"), total(2, 50.02, 10), total(3, 50.03, 20))
    again, own = total(4, 50.04, 20), total(5, 50.5, 27)
    parent = told((1, 10), (2, 20))
    assert inherited(*rows, again, own, origin=parent) == ("match", [1, 2, 3, 4])
    assert inherited(*rows, again, own) == ("burst", [1, 2, 3, 4, 5])
    rest = said(4, 50.04, "the parent's last words")
    fork = (start(50, **FORK), *rows[1:])
    assert inherited(*fork, rest, total(5, 60, 27), origin=parent) == ("match", [1, 2, 3, 4])


def test_what_was_inherited_costs_nothing_here_and_is_told_beside() -> None:
    """The counter goes on from the parent's total, or begins anew: both are seen."""
    copied = (start(**FORK), total(1, 0.01, 100), total(2, 0.02, 300))
    on = replay(*copied, total(3, 60, 350)).usage
    assert (on["total"]["input_tokens"], on["inherited"]["input_tokens"]) == (50, 300)
    assert on["certainty"]["level"] == "inferred"
    anew = replay(*copied, total(3, 60, 40), total(4, 70, 70)).usage
    assert (anew["total"]["input_tokens"], anew["inherited"]["input_tokens"]) == (70, 300)


@pytest.mark.parametrize(("figure", "last", "own"), [(1000, 30, 30), (1000, None, 1000)])
def test_a_counter_handed_on_without_history_begins_at_what_it_was_handed(
    figure: int, last: int | None, own: int
) -> None:
    """The latest call tells; where no row does, the total is taken for the thread's own and called inferred."""
    latest = None if last is None else Usage(input_tokens=last, output_tokens=last // 10)
    usage = replay(start(**CHILD), total(1, 30, figure, last=latest)).usage
    assert usage["total"]["input_tokens"] == own
    assert usage["certainty"]["level"] == ("exact" if last is not None else "inferred")


def test_history_stands_apart_and_counts_nowhere() -> None:
    """Its calls, prompts and models are the other thread's; so is its title."""
    session = replay(
        start(**FORK),
        Prompt(ref=ref(1), at=at(0.01), text=text("the old question")),
        ToolRequest(ref=ref(2), at=at(0.02), name="Run", call="c1"),
        ToolResult(ref=ref(3), at=at(0.03), call="c1", ok=True),
        Setting(ref=ref(4), at=at(0.03), model="m-old"),
        total(5, 0.04, 100),
        Prompt(ref=ref(6), at=at(30), text=text("the new question")),
        ToolRequest(ref=ref(7), at=at(31), name="Run", call="c1"),
        total(8, 40, 150),
    )
    assert outline(session.tree) == [
        "session s-1",
        "  session_start",
        "  history origin",
        "    prompt the old question",
        "    tool_request Run",
        "    tool_result c1",
        "  turn derived-1",
        "    prompt the new question",
        "    tool_request Run = no_result",
    ]
    summary = session.summary
    assert (summary["turns"], summary["prompts"], summary["tool_calls"]) == (1, 1, 1)
    assert getattr(session.tree.seen, "title", None) == "the new question"
    assert [(finding.kind, finding.count) for finding in session.findings] == [("inherited-history", 5)]
    assert session.usage["by_model"].keys() == {"m-old"}
