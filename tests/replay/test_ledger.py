"""Many sessions together: each call once, each with one owner."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from score import at

from forensic.replay.ledger import GROUPINGS, Account, report, settle
from forensic.replay.usage import Call, Tally, Units

FIELDS = ("calls", "input_tokens", "output_tokens", "total_tokens")


def call(name: str, output: int | None, second: float = 0, **more: Any) -> Call:
    """A finished call that asked nothing new."""
    counts = (0, output, None, None, None, None, None, None)
    return Call(
        **{
            "key": ("message", name),
            "counts": counts,
            "model": "m-1",
            "at": at(second),
            "final": True,
            "by_row": True,
            **more,
        }
    )


def account(session: str, *calls: Call, harness: str = "given", **more: Any) -> Account:
    """A session that holds these calls."""
    tally = Tally(list(calls), more.pop("inherited", []), more.pop("units", []), raw=more.pop("raw", 0))
    return Account(harness, session, session, tally, **more)


def figures(*accounts: Account, by: str = "session") -> dict[str, list[int | None]]:
    """Calls, input, output and all tokens of each group."""
    told = report(settle(accounts), by)
    return {group["name"]: [group[field] for field in FIELDS] for group in told["groups"]}


def test_a_call_in_two_sessions_belongs_to_the_one_that_ended_with_it() -> None:
    """A resumed session writes all of it down again and goes on: that is inherited, and added to nothing."""
    first = account("a", call("m1", 10), call("m2", 20, 1))
    second = account("b", call("m1", 10), call("m2", 20, 1), call("m3", 5, 60))
    for order in ((first, second), (second, first)):
        told = report(settle(order), "session")
        assert [(group["name"], group["output_tokens"]) for group in told["groups"]] == [("a", 30), ("b", 5)]
        assert [group["inherited"]["output_tokens"] for group in told["groups"]] == [0, 30]
        assert (told["total"]["calls"], told["total"]["output_tokens"], told["sessions"]) == (3, 35, 2)


def test_of_two_sessions_that_both_go_on_the_one_that_did_first_is_the_owner() -> None:
    """Unless it says itself where it comes from."""
    early, late = account("z", call("m", 10), call("z1", 1, 5)), account("a", call("m", 10), call("a1", 2, 9))
    assert figures(early, late) == {"z": [2, 0, 11, 11], "a": [1, 0, 2, 2]}
    early.origin = "a"
    assert figures(early, late) == {"z": [1, 0, 1, 1], "a": [2, 0, 12, 12]}


def test_a_call_keeps_the_largest_of_what_sessions_say_of_it() -> None:
    """One of them may have been written down before the answer was finished."""
    early = account("a", call("m", 3, final=False))
    told = report(settle([early, account("b", call("m", 40), call("n", 1, 9))]), "session")
    assert told["total"]["output_tokens"] == 41
    assert (told["unfinished"]["calls"], told["total"]["certainty"]["level"]) == (0, "exact")
    assert early.tally.calls[0].counts[1] == 3


def test_rows_that_nothing_names_are_one_when_they_say_the_same_under_one_number() -> None:
    """Two files of one session in different places: a copy is counted once, and what differs is no copy."""

    def nameless(place: str, *outputs: int) -> Account:
        calls = [call("", one, number, key=("number", f"{number}")) for number, one in enumerate(outputs)]
        return Account("given", "s", place, Tally(calls, [], []))

    assert figures(nameless("p", 100), nameless("q", 700)) == {"s": [2, 0, 800, 800]}
    assert figures(nameless("p", 100, 7), nameless("q", 100, 7, 5)) == {"s": [3, 0, 112, 112]}


def test_a_request_finds_its_message_in_another_session() -> None:
    """As it does within one."""
    named = account("a", call("m", 40, request="r"))
    orphan = account("b", call("r", 12, key=("request", "r")), call("n", 1, 9))
    assert figures(named, orphan) == {"a": [1, 0, 40, 40], "b": [1, 0, 1, 1]}


def test_calls_without_a_name_are_one_session_s_own() -> None:
    """The same session met in two places is one session."""
    nameless = call("0", 7, key=("number", "0"))
    assert figures(account("a", nameless), account("b", nameless)) == {"a": [1, 0, 7, 7], "b": [1, 0, 7, 7]}
    assert figures(account("a", nameless), account("a", nameless)) == {"a": [1, 0, 7, 7]}


def test_the_same_name_in_two_harnesses_is_two_calls() -> None:
    """Nobody promised otherwise."""
    told = figures(account("a", call("m", 7)), account("b", call("m", 7), harness="other"), by="harness")
    assert told == {"given": [1, 0, 7, 7], "other": [1, 0, 7, 7]}


def test_days_are_those_of_the_zone() -> None:
    """Of the first row that tells of the call; one without any time is undated."""
    told = settle([account("a", call("m", 1), call("n", 2, at=None))])
    assert [group["name"] for group in report(told, "day", UTC)["groups"]] == ["2026-03-01", "undated"]
    west = timezone(timedelta(hours=-11))
    assert [group["name"] for group in report(told, "day", west)["groups"]] == ["2026-02-28", "undated"]


def test_what_nothing_tells_is_unknown_and_not_zero() -> None:
    """A session without usage is counted as one."""
    told = report(settle([account("a"), account("b", call("m", 5))]), "session")
    silent, other = told["groups"]
    assert (silent["output_tokens"], silent["certainty"]["level"], other["output_tokens"]) == (None, "unknown", 5)
    assert (told["sessions"], told["sessions_without_usage"], told["total"]["output_tokens"]) == (2, 1, 5)


def test_what_rests_on_progress_rows_and_what_was_never_finished_is_told() -> None:
    """With its share, so that a reader can leave it out."""
    told = report(
        settle([account("a", call("m", 29), call("p", 10, by_row=False), call("u", 1, final=False), raw=80)]),
        "model",
    )
    assert (told["from_progress"]["calls"], told["from_progress"]["share"]) == (1, 0.25)
    assert (told["unfinished"]["calls"], told["unfinished"]["output_tokens"]) == (1, 1)
    assert told["raw_vs_deduped"] == 2.0


def test_units_stand_beside_the_tokens() -> None:
    """By session, day and harness; which model they are for is not told."""
    accounts = [account("a", call("m", 1), units=[Units(at(0), {"nano_aiu": 5}), Units(at(1), {"nano_aiu": 2})])]
    for by in ("session", "day", "harness"):
        assert [group["units"] for group in report(settle(accounts), by)["groups"]] == [{"nano_aiu": 7}]
    assert report(settle(accounts), "model")["groups"][0]["units"] == {}
    assert report(settle(accounts), "model")["units"] == {"nano_aiu": 7}
    assert report(settle([*accounts, *accounts]), "session")["units"] == {"nano_aiu": 7}


def test_history_told_by_the_producer_is_inherited_as_well() -> None:
    """Beside what other sessions own."""
    told = report(settle([account("a", call("m", 1), inherited=[call("old", 99)], rules={"t": "burst"})]), "session")
    (group,) = told["groups"]
    assert (group["output_tokens"], group["inherited"]["output_tokens"]) == (1, 99)
    both = account("a", call("m", 1), inherited=[call("old", 99)])
    assert report(settle([both, both]), "session")["groups"][0]["inherited"]["output_tokens"] == 99
    assert group["certainty"]["level"] == "inferred"


@given(st.data())
def test_the_groups_of_every_grouping_add_up_to_the_total(data: st.DataObject) -> None:
    """Whatever sessions share, and in whatever order they are given."""
    names = st.sampled_from("abcde")
    some = st.lists(
        st.builds(
            call,
            names,
            st.none() | st.integers(0, 9),
            st.integers(0, 200_000),
            model=st.sampled_from(["m-1", "m-2", None]),
            agent=st.sampled_from(["x", None]),
            at=st.sampled_from([at(0), at(3000), None]),
        ),
        max_size=6,
        unique_by=lambda one: one.key,
    )
    accounts = [
        account(name, *calls, harness=data.draw(st.sampled_from(["h", "i"])))
        for name, calls in data.draw(st.dictionaries(names, some)).items()
    ]
    shuffled = data.draw(st.permutations(accounts))
    for by in GROUPINGS:
        told, other = report(settle(accounts), by), report(settle(shuffled), by)
        assert told == other
        for field in FIELDS:
            assert sum(group[field] or 0 for group in told["groups"]) == (told["total"][field] or 0)
