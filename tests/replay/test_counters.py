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


def figures(usage: dict[str, Any]) -> tuple[int | None, ...]:
    """The same of a usage section."""
    return tuple(usage["total"][field] for field in FIELDS)


def test_a_field_that_a_row_leaves_out_is_compared_with_what_was_known_of_it() -> None:
    """What a row does not tell is in the next one that does: nothing fell, nothing is lost, and all is told."""
    rows = (
        running(0, 1000, 100, total_tokens=1100),
        running(1, None, 150),
        running(2, 2000, 200, total_tokens=2200),
    )
    usage = replay(*rows).usage
    assert (figures(usage), usage["certainty"]["level"]) == ((3, 2000, 200, None, 2200), "exact")
    usage = replay(*rows[:2]).usage
    assert (figures(usage), usage["certainty"]["level"]) == ((2, 1000, 150, None, 1150), "lower_bound")
    assert total(running(0, 10, 5), running(1, 30, None), running(2, 40, 9)) == (3, 40, 9, None, 49)


def test_a_count_that_is_none_is_made_good_by_the_next_row() -> None:
    """The record stays unusable, the figures are whole."""
    bad = running(1, None, 20, unusable=("input_tokens",))
    usage = replay(running(0, 100, 10), bad, running(2, 300, 30)).usage
    assert figures(usage) == (3, 300, 30, None, 330)
    assert usage["unusable_records"] == 1


def test_a_total_without_parts_is_made_good_by_one_with_them() -> None:
    """A counter begins at nothing, so its first parts are of all calls."""
    usage = replay(
        running(0, None, None, total_tokens=900),
        running(1, None, None, total_tokens=1100),
        running(2, 2000, 200, total_tokens=2200),
    ).usage
    assert (figures(usage), usage["certainty"]["level"]) == ((3, 2000, 200, None, 2200), "exact")


def test_what_was_left_out_before_a_total_began_anew_is_lost() -> None:
    """Nobody tells of it any more, so the sum is a bound."""
    usage = replay(running(0, 100, 10), running(1, None, 30), running(2, 20, 2)).usage
    assert (figures(usage), usage["certainty"]["level"]) == ((3, 120, 32, None, 152), "lower_bound")


def test_a_latest_call_larger_than_the_growth_proves_that_a_total_began_anew() -> None:
    """Though the new total is larger than the old one; a total that is told again proves nothing."""
    last = Usage(input_tokens=5000, output_tokens=500)
    rows = (running(0, 2000, 250), SessionStart(ref=ref(1), thread="t"), running(2, 5000, 500, last=last))
    assert total(*rows) == (2, 7000, 750, None, 7750)
    assert total(*rows, running(3, 5000, 500, last=last)) == (2, 7000, 750, None, 7750)
    part = Usage(input_tokens=3000, output_tokens=250)
    assert total(running(0, 2000, 250), running(1, 5000, 500, last=part)) == (2, 5000, 500, None, 5500)


def test_calls_that_are_counted_begin_anew_with_their_total() -> None:
    """One that fell tells of its own calls; a row that leaves them out takes none away."""
    assert total(running(0, 100, 10, calls=2), running(1, 40, 5, calls=2)) == (4, 140, 15, None, 155)
    told = (running(0, 100, 10, calls=2), running(1, 200, 20), running(2, 300, 30, calls=4))
    assert total(*told) == (4, 300, 30, None, 330)


def test_a_unit_that_a_row_leaves_out_is_not_billed_again() -> None:
    """The next row that tells it says what it came to; where one unit fell, all have begun anew."""

    def units(*told: dict[str, int | float]) -> dict[str, int | float]:
        rows = (running(at, None, None, running="s", units=one, calls=0) for at, one in enumerate(told))
        found: dict[str, int | float] = replay(*rows).usage["units"]
        return found

    assert units({"nano": 10, "premium": 3}, {"nano": 20}, {"nano": 30, "premium": 3}) == {"nano": 30, "premium": 3}
    assert units({"nano": 10, "premium": 3}, {"nano": 4}, {"nano": 6, "premium": 3}) == {"nano": 16, "premium": 6}
    assert units({"nano": 10}, {"nano": 10}) == {"nano": 10}


def test_a_call_told_behind_its_own_total_counts_once() -> None:
    """By the latest call of the row, or by all that the total grew by; also when the total is told again."""
    one, two = Usage(input_tokens=10, output_tokens=1), Usage(input_tokens=20, output_tokens=3)
    a, b = call(1, "a", 10, 1), call(3, "b", 20, 3)
    assert total(running(0, 10, 1, last=one), a) == (1, 10, 1, None, 11)
    assert total(running(0, 10, 1, last=one), a, running(2, 30, 4, last=two), b) == (2, 30, 4, None, 34)
    assert total(running(0, 10, 1), a, running(2, 30, 4), b) == (2, 30, 4, None, 34)
    assert total(running(0, 30, 4, last=two), a, b) == (2, 30, 4, None, 34)
    assert total(running(0, 30, 4), a, b) == (2, 30, 4, None, 34)
    assert total(running(0, 30, 4, last=two), a, running(2, 30, 4, last=two)) == (2, 30, 4, None, 34)
    usage = replay(running(0, 30, 4, last=two, calls=2), b).usage
    assert (figures(usage), usage["certainty"]["level"]) == ((2, 30, 4, None, 34), "exact")


def test_a_call_told_behind_the_total_of_another_is_its_own() -> None:
    """Equal figures alone are not enough: the total must have room for it, and be of its model and session."""
    one = Usage(input_tokens=10, output_tokens=1)
    assert total(call(0, "a", 10, 1), running(1, 10, 1, last=one), call(2, "b", 10, 1)) == (2, 20, 2, None, 22)
    assert total(running(0, 10, 1, last=one), call(1, "a", 9, 1)) == (2, 19, 2, None, 21)
    again = SessionStart(ref=ref(1), thread="t")
    assert total(running(0, 10, 1, last=one), again, call(2, "a", 10, 1)) == (2, 20, 2, None, 22)
    other = running(0, 10, 1, running="model:m", model="m")
    assert total(other, call(1, "a", 10, 1, model="n")) == (2, 20, 2, None, 22)
    assert total(other, call(1, "a", 10, 1, model="m")) == (1, 10, 1, None, 11)


def test_a_call_behind_two_totals_is_taken_off_the_first() -> None:
    """Though both have it as their latest call: it names no model, and waits for nothing any more."""
    last = Usage(input_tokens=10, output_tokens=1)
    totals = [running(at, 30, 3, running=f"model:{name}", model=name, last=last) for at, name in enumerate("ab")]
    usage = replay(*totals, call(2, "x", 10, 1)).usage
    assert {name: group["input_tokens"] for name, group in usage["by_model"].items()} == {
        "a": 20,
        "b": 30,
        "unknown": 10,
    }


def test_so_many_calls_may_stand_behind_their_total_and_no_more() -> None:
    """No row is compared with more than that: beyond it all are calls of their own."""

    def calls(number: int) -> int | None:
        rows = (call(at, f"c{at}", 10, 1) for at in range(1, number + 1))
        return total(running(0, 10 * number, number), *rows)[1]

    assert [calls(number) for number in (1, 2, 32)] == [10, 20, 320]
    assert calls(33) == 660


def test_so_many_totals_may_wait_for_calls_behind_them_and_no_more() -> None:
    """The oldest is given up first."""
    totals = [running(at, at + 9, 1, running=f"model:{at}", model=f"{at}") for at in range(33)]
    told = sum(at + 9 for at in range(33))
    assert total(*totals, call(40, "x", 41, 1))[1] == told
    assert total(*totals, call(40, "x", 10, 1))[1] == told
    assert total(*totals, call(40, "x", 9, 1, model="0"))[1] == told + 9


def test_a_total_that_lags_behind_its_calls_takes_off_those_it_has_counted() -> None:
    """What stands between two rows of one total is in a later one."""
    a, b = call(0, "a", 10, 1), call(2, "b", 20, 3)
    assert total(a, running(1, 10, 1), b, running(3, 10, 1), running(4, 30, 4)) == (2, 30, 4, None, 34)
    assert total(a, b, running(3, 10, 1), running(4, 30, 4)) == (2, 30, 4, None, 34)


def test_a_call_that_no_total_ever_counted_takes_nothing_off_a_later_one() -> None:
    """A client that was killed goes on from the last total that it wrote."""
    killed = (running(0, 10, 1), call(1, "a", 50, 9), SessionStart(ref=ref(2), thread="t"))
    assert total(*killed, call(3, "b", 20, 3), running(4, 30, 4)) == (3, 80, 13, None, 93)
    assert total(*killed, call(3, "b", 20, 3), running(4, 30, 4), running(5, 90, 20)) == (4, 140, 29, None, 169)


def test_rows_of_one_call_are_one_call_to_its_total() -> None:
    """Each may tell another part of it."""
    rows = (call(0, "a", 10, 1), call(1, "a", None, 1), running(2, 10, 1, calls=1))
    assert total(*rows) == (1, 10, 1, None, 11)


def test_a_row_that_stands_twice_moves_no_counter() -> None:
    """Its id says so; rows of one id that tell different totals are different rows."""
    rows = [call(0, "a", 10, 1), running(1, 10, 1), call(2, "b", 20, 3), running(3, 30, 4)]
    named = [Accounting(**{**fields(row), "id": f"r{at}"}) for at, row in enumerate(rows)]
    twice = [Accounting(**{**fields(row), "ref": ref(row.ref.offset + 9)}) for row in named]
    assert total(*named, *twice) == (2, 30, 4, None, 34)
    other = Accounting(**{**fields(running(9, 50, 5)), "id": "r3"})
    assert total(*named, other) == (3, 50, 5, None, 55)


def test_all_totals_of_one_row_are_final() -> None:
    """A row may tell of several models."""
    rows = [running(0, 10, 1, running=f"model:{name}", model=name, calls=1) for name in "ab"]
    named = [Accounting(**{**fields(row), "id": "r", "part": part}) for part, row in enumerate(rows)]
    usage = replay(*named).usage
    assert (figures(usage), usage["certainty"]) == ((2, 20, 2, None, 22), {"level": "exact", "reasons": []})


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


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), min_size=1, max_size=12), st.data())
def test_wherever_a_call_is_told_the_total_stands(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """Before its total, behind it or nowhere; the total may be told twice, and leave out its sum or its input."""
    rows: list[Observation] = []
    spent = [0, 0]
    for number, (asked, answered) in enumerate(steps):
        spent = [spent[0] + asked, spent[1] + answered]
        record = call(0, f"m{number}", asked, answered)
        last = Usage(input_tokens=asked, output_tokens=answered)
        place = data.draw(st.sampled_from(["before", "behind", "nowhere"]))
        whole = sum(spent) if data.draw(st.booleans()) else None
        told = running(0, spent[0], spent[1], total_tokens=whole, last=last)
        if place == "nowhere" and data.draw(st.booleans()):
            told = running(0, None, spent[1])
        order = [told] * data.draw(st.integers(1, 2))
        order = [record, *order] if place == "before" else [*order, record] if place == "behind" else order
        rows.extend(Accounting(**{**fields(row), "ref": ref(len(rows) + at)}) for at, row in enumerate(order))
    rows.append(running(len(rows), *spent, total_tokens=sum(spent)))
    usage = replay(*rows).usage["total"]
    assert [usage[name] or 0 for name in ("input_tokens", "output_tokens", "total_tokens")] == [*spent, sum(spent)]
