"""Running totals: what they grew by, less what is told by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from score import at, ref, replay

from forensic.model import Accounting, Observation, SessionStart, Setting, Usage

FIELDS = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "total_tokens")


def running(offset: int, input_: int | None, output: int | None, **more: Any) -> Accounting:
    """A row that tells a running total."""
    told = Usage(**{"running": "thread", "input_tokens": input_, "output_tokens": output, "final": True, **more})
    return Accounting(ref=ref(offset), family="total", at=at(offset), usage=told)


def call(offset: int, name: str, input_: int | None, output: int, **more: Any) -> Accounting:
    """A row that tells one call."""
    told = Usage(message=name, input_tokens=input_, output_tokens=output, final=True, **more)
    return Accounting(ref=ref(offset), family="call", at=at(offset), usage=told)


def total(*observations: Observation) -> tuple[int | None, ...]:
    """Calls, input, output, cache reads and all tokens of a session."""
    figures = replay(*observations).usage["total"]
    return tuple(figures[field] for field in FIELDS)


def test_a_total_is_worth_what_it_grew_by() -> None:
    """The first one all of it; one that is told again nothing."""
    told = total(running(0, 100, 10), running(1, 100, 10), running(2, 300, 15), running(3, 300, 15))
    assert told == (2, 300, 15, None, 315)


def test_a_total_that_fell_has_begun_anew() -> None:
    """Its latest call is new when the row tells it, else all of it is."""
    assert total(running(0, 100, 10), running(1, 40, 5)) == (2, 140, 15, None, 155)
    last = Usage(input_tokens=30, output_tokens=4)
    assert total(running(0, 100, 10), running(1, 40, 5, last=last)) == (2, 130, 14, None, 144)


def test_a_latest_call_larger_than_the_total_is_not_believed() -> None:
    """It cannot be a part of it."""
    last = Usage(input_tokens=500, output_tokens=4)
    assert total(running(0, 100, 10), running(1, 40, 5, last=last)) == (2, 140, 15, None, 155)


def test_calls_told_by_themselves_are_taken_off_the_total() -> None:
    """What is told twice counts once, what only the total tells still counts."""
    confirmed = (call(0, "a", 60, 6), call(1, "b", 40, 4), running(2, 100, 10))
    assert total(*confirmed) == (2, 100, 10, None, 110)
    assert total(*confirmed, running(3, 150, 12)) == (3, 150, 12, None, 162)
    assert total(call(0, "a", 60, 6), running(1, 100, 10)) == (2, 100, 10, None, 110)


def test_calls_behind_the_last_total_count_as_they_are() -> None:
    """A total that never came takes nothing away."""
    assert total(running(0, 100, 10), call(1, "a", 7, 3)) == (2, 107, 13, None, 120)


def test_a_call_told_in_part_is_made_whole_by_the_total() -> None:
    """Its output is its own, its input is in what is left; nothing is unknown then."""
    usage = replay(call(0, "a", None, 6), call(1, "b", None, 4), running(2, 100, 10, calls=2)).usage
    assert [usage["total"][field] for field in FIELDS] == [2, 100, 10, None, 110]
    assert usage["certainty"] == {"level": "exact", "reasons": []}
    alone = replay(call(0, "a", None, 6)).usage["certainty"]
    assert (alone["level"], [reason["count"] for reason in alone["reasons"]]) == ("lower_bound", [1])


def test_counters_go_on_when_a_session_is_resumed_unless_it_resets_them() -> None:
    """Only the producer knows."""
    again = SessionStart(ref=ref(1), thread="t")
    assert total(running(0, 100, 10), again, running(2, 300, 30)) == (2, 300, 30, None, 330)
    resets = SessionStart(ref=ref(1), thread="t", resets=True)
    assert total(running(0, 100, 10), resets, running(2, 300, 30)) == (2, 400, 40, None, 440)


def test_counters_of_different_names_are_different_counters() -> None:
    """As those of each model are."""
    told = replay(
        running(0, 100, 10, running="model:a", model="a"),
        running(1, 50, 5, running="model:b", model="b"),
        running(2, 130, 10, running="model:a", model="a"),
    ).usage
    assert {name: group["input_tokens"] for name, group in told["by_model"].items()} == {"a": 130, "b": 50}


def test_a_total_of_one_model_takes_off_the_calls_of_that_model() -> None:
    """And of no other."""
    told = replay(
        call(0, "x", 60, 6, model="a"),
        call(1, "y", 20, 2, model="b"),
        running(2, 100, 10, running="model:a", model="a"),
    ).usage
    assert {name: group["input_tokens"] for name, group in told["by_model"].items()} == {"a": 100, "b": 20}


def test_usage_that_names_no_model_takes_the_one_in_force() -> None:
    """Of its own agent, as it was set last."""
    told = replay(
        Setting(ref=ref(0), model="a"),
        running(1, 100, 10),
        Setting(ref=ref(2), effort="high"),
        Setting(ref=ref(3), model="other", agent="child"),
        running(4, 150, 11),
        Setting(ref=ref(5), model="b"),
        call(6, "m", 5, 1),
    ).usage
    assert {name: group["input_tokens"] for name, group in told["by_model"].items()} == {"a": 150, "b": 5}


def test_a_total_without_parts_leaves_the_parts_unknown() -> None:
    """And is a total all the same."""
    usage = replay(running(0, None, None, total_tokens=900), running(1, None, None, total_tokens=1100)).usage
    assert [usage["total"][field] for field in FIELDS] == [2, None, None, None, 1100]
    assert usage["certainty"]["level"] == "unknown"


def test_units_are_added_up_apart_and_are_no_calls() -> None:
    """They run like any total, and begin anew like any."""
    usage = replay(
        running(0, None, None, running="session", units={"nano_aiu": 5, "premium_requests": 1}, calls=0),
        running(1, None, None, running="session", units={"nano_aiu": 9, "premium_requests": 1}, calls=0),
        SessionStart(ref=ref(2), resets=True),
        running(3, None, None, running="session", units={"nano_aiu": 4, "premium_requests": 0.33}, calls=0),
    ).usage
    assert usage["units"] == {"nano_aiu": 13, "premium_requests": 1.33}
    assert (usage["total"]["calls"], usage["by_model"]) == (0, {})


def test_a_rewritten_file_tells_its_totals_again_and_they_count_once() -> None:
    """The second generation repeats the first and goes on from there."""
    again = [
        Accounting(ref=ref(0), family="total", at=at(offset), usage=running(offset, *told).usage)
        for offset, told in enumerate([(100, 10), (300, 15), (310, 16)])
    ]
    second = [Accounting(**{**fields(one), "ref": ref(offset, generation=2)}) for offset, one in enumerate(again)]
    assert total(*again[:2], *second) == (3, 310, 16, None, 326)


def fields(seen: Accounting) -> dict[str, Any]:
    """All that an observation is made of."""
    return {name: getattr(seen, name) for name in seen.__struct_fields__}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), min_size=1, max_size=12), st.data())
def test_whatever_is_told_by_itself_the_total_stands(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """Any of the calls may be told by a row of its own, any total may be told twice: the last total is the sum."""
    rows: list[Observation] = []
    spent = [0, 0]
    for number, (asked, answered) in enumerate(steps):
        spent = [spent[0] + asked, spent[1] + answered]
        if data.draw(st.booleans()):
            rows.append(call(len(rows), f"m{number}", asked, answered))
        rows.extend(running(len(rows), *spent) for _ in range(data.draw(st.integers(0, 2))))
    rows.append(running(len(rows), *spent))
    usage = replay(*rows).usage
    assert (usage["total"]["input_tokens"] or 0, usage["total"]["output_tokens"] or 0) == tuple(spent)
    assert usage["raw_vs_deduped"] in (1.0, None)
