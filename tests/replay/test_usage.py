"""What model calls cost, and how sure that is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from score import at, ref, replay, text, usage

from forensic.model import Accounting, Compaction, Finding, Prompt, Response, Session, SubagentStart, Unreadable, Usage
from forensic.replay.usage import FIELDS


def row(offset: int, told: Usage | None, *, stream: str = "main", **more: Any) -> Accounting:
    """A row that tells nothing but usage."""
    return Accounting(ref=ref(offset, stream), family="f", usage=told, **more)


def reasons(group: dict[str, Any]) -> list[tuple[str, int]]:
    """A certainty's level and the counts behind it."""
    return [(reason["level"], reason["count"]) for reason in group["certainty"]["reasons"]]


def test_rows_of_one_message_are_one_call_with_the_largest_of_each_field() -> None:
    """Neither the first nor the last nor the sum."""
    session = replay(
        row(0, usage("m", 3, input_tokens=10, final=False)),
        row(1, usage("m", 159, input_tokens=10, final=False)),
        row(2, usage("m", 9, input_tokens=0)),
    )
    total = session.usage["total"]
    assert (total["calls"], total["input_tokens"], total["output_tokens"]) == (1, 10, 159)
    assert session.usage["raw_vs_deduped"] == round((10 + 3 + 10 + 159 + 9) / 169, 4)
    assert total["certainty"] == {"level": "exact", "reasons": []}


def test_a_request_id_stands_in_for_a_missing_message_id() -> None:
    """And folds into the message it shows up with, before or after."""
    session = replay(
        row(0, usage(None, 5, request="r1")),
        row(1, usage("m1", 33, request="r1")),
        row(2, usage(None, 7, request="r1")),
        row(3, usage(None, 40, request="r2")),
    )
    assert session.usage["total"]["output_tokens"] == 73
    assert session.usage["total"]["calls"] == 2
    assert session.usage["idless_records"] == 0


def test_two_messages_under_one_request_stay_two() -> None:
    """A request id never joins what message ids keep apart."""
    session = replay(row(0, usage("m1", 5, request="r")), row(1, usage("m2", 6, request="r")))
    assert (session.usage["total"]["calls"], session.usage["total"]["output_tokens"]) == (2, 11)


def test_rows_without_any_id_count_one_by_one_and_are_named() -> None:
    """They may be copies: inferred."""
    session = replay(row(0, usage(None, 5)), row(1, usage(None, 5)))
    assert session.usage["total"]["output_tokens"] == 10
    assert session.usage["idless_records"] == 2
    assert session.usage["certainty"]["level"] == "inferred"
    assert reasons(session.usage) == [("inferred", 2)]


def test_copies_of_a_row_without_any_id_of_its_call_count_once() -> None:
    """The row's own id tells a copy."""
    session = replay(
        row(0, usage(None, 5), id="u1"),
        row(1, usage(None, 5), id="u1"),
        row(0, usage(None, 5), stream="agent-copy", agent="copy", id="u1"),
        row(2, usage(None, 7), id="u2"),
        row(3, usage(None, 1)),
        row(4, usage(None, 1), id="2"),
    )
    assert (session.usage["total"]["output_tokens"], session.usage["total"]["calls"]) == (14, 4)
    assert session.usage["idless_records"] == 4


def test_a_copy_of_an_early_row_does_not_unfinish_a_message() -> None:
    """History written again stands behind the row with the stop reason."""
    session = replay(
        row(0, usage("m", 1, final=False), id="u1"),
        row(1, usage("m", 9), id="u2"),
        row(2, usage("m", 1, final=False), id="u1"),
    )
    assert session.usage["total"]["certainty"]["level"] == "exact"


def test_what_is_known_to_be_missing_makes_a_total_a_bound() -> None:
    """A gap, or a subagent of whom nothing was found, may have been paid for."""
    gap = Finding(kind="gap", note="bytes missing")
    told = (row(0, usage("m", 5)), SubagentStart(ref=ref(1), spawned="a1"))
    session = replay(*told, findings=[gap])
    assert session.usage["total"]["output_tokens"] == 5
    assert session.usage["certainty"]["level"] == "lower_bound"
    assert [(reason["reason"], reason["count"]) for reason in session.usage["certainty"]["reasons"]] == [
        ("subagents of whom no row was found", 1),
        ("gaps in the recording", 1),
    ]


def test_calls_that_the_transcript_proves_and_does_not_tell_make_a_bound() -> None:
    """A compaction is made by a model call of its own; a producer's larger account tells of more."""
    compacted = replay(row(0, usage("m", 5)), Compaction(ref=ref(1)), Compaction(ref=ref(2), micro=True))
    assert compacted.usage["certainty"]["level"] == "lower_bound"
    assert reasons(compacted.usage) == [("unknown", 1)]
    larger = replay(row(0, usage("m", 5)), Accounting(ref=ref(1), family="own", output_tokens=6))
    assert larger.usage["certainty"]["level"] == "lower_bound"
    equal = replay(row(0, usage("m", 5)), Accounting(ref=ref(1), family="own", output_tokens=5))
    assert equal.usage["certainty"] == {"level": "exact", "reasons": []}


def test_a_message_whose_last_row_has_no_stop_reason_is_a_lower_bound() -> None:
    """Decided for each message, by its last row."""
    session = replay(
        row(0, usage("m1", 5)),
        row(1, usage("m1", 5, final=False)),
        row(2, usage("m2", 5, final=False)),
        row(3, usage("m2", 50)),
    )
    assert session.usage["certainty"]["level"] == "lower_bound"
    assert reasons(session.usage) == [("lower_bound", 1)]


def test_what_nothing_tells_is_null_and_what_nobody_asked_is_zero() -> None:
    """Unknown is never 0."""
    told = replay(row(0, usage("m", 5))).usage["total"]
    assert (told["output_tokens"], told["cache_read_tokens"], told["reasoning_tokens"]) == (5, None, None)
    nothing = replay(Prompt(ref=ref(0), text=text("hi"))).usage
    assert {nothing["total"][field] for field in FIELDS} == {0}
    assert nothing["certainty"] == {"level": "exact", "reasons": []}
    assert nothing["raw_vs_deduped"] is None


def test_messages_without_any_usage_leave_the_total_unknown() -> None:
    """A reply was paid for, and nothing says how much."""
    session = replay(Response(ref=ref(0), step="m1", text=text("hi")))
    assert session.usage["total"]["output_tokens"] is None
    assert session.usage["certainty"]["level"] == "unknown"
    assert reasons(session.usage) == [("unknown", 1)]


def test_a_stretch_that_could_not_be_read_may_have_told_more() -> None:
    """What was counted is then a lower bound; with nothing counted nothing is known."""
    stub = Unreadable(ref=ref(9), reason="cut-record")
    session = replay(row(0, usage("m1", 5)), stub)
    assert session.usage["total"]["output_tokens"] == 5
    assert session.usage["certainty"]["level"] == "lower_bound"
    assert reasons(session.usage) == [("unknown", 1)]
    assert replay(stub).usage["total"]["output_tokens"] is None


def test_a_synthetic_reply_was_not_paid_for() -> None:
    """The client's own words are no model call."""
    session = replay(Response(ref=ref(0), step="m1", text=text("error"), synthetic=True))
    assert session.usage["certainty"]["level"] == "exact"
    assert session.usage["total"]["calls"] == 0


def test_usage_that_is_no_count_is_named_and_leaves_a_lower_bound() -> None:
    """The usable fields count."""
    session = replay(row(0, usage("m1", 5)), row(1, usage("m2", None, unusable=("output_tokens",))))
    assert session.usage["total"]["output_tokens"] == 5
    assert session.usage["unusable_records"] == 1
    assert session.usage["certainty"]["level"] == "lower_bound"
    assert reasons(session.usage) == [("unknown", 1)]


def test_copies_in_progress_rows_join_the_message_and_count_only_where_nothing_else_does() -> None:
    """And what rests on them is told apart."""
    session = replay(
        row(0, usage("m1", 4, final=False), agent="a", via="progress"),
        row(1, usage("m2", 7), agent="a", via="progress"),
        row(0, usage("m1", 9), stream="agent-a", agent="a"),
    )
    assert session.usage["total"]["output_tokens"] == 16
    assert session.usage["from_progress"]["calls"] == 1
    assert session.usage["from_progress"]["output_tokens"] == 7
    assert session.usage["certainty"]["level"] == "exact"


def test_a_message_belongs_to_the_day_of_its_first_row_and_to_a_named_agent() -> None:
    """Days are UTC; a placeholder agent yields to a named one."""
    session = replay(
        row(0, usage("m1", 4), agent="sidechain", at=at(0)),
        row(0, usage("m1", 4), stream="agent-a", agent="a", at=at(3000)),
        row(1, usage("m2", 1)),
    )
    assert {day: group["output_tokens"] for day, group in session.usage["by_day"].items()} == {
        "2026-03-01": 4,
        "undated": 1,
    }
    assert {agent: group["output_tokens"] for agent, group in session.usage["by_agent"].items()} == {
        "a": 4,
        "main": 1,
    }


ids = st.sampled_from(["m1", "m2", None])
tokens = st.one_of(st.none(), st.integers(0, 50))


@given(
    st.lists(
        st.builds(
            usage,
            ids,
            tokens,
            request=st.sampled_from(["r1", "r2", None]),
            input_tokens=tokens,
            model=st.sampled_from(["x", "y", None]),
            final=st.booleans(),
        ),
        max_size=12,
    ),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_every_grouping_adds_up_to_the_total(told: list[Usage], data: st.DataObject) -> None:
    """Field by field, whatever the ids do."""
    session: Session = replay(
        *(
            row(
                number,
                one,
                agent=data.draw(st.sampled_from([None, "a", "sidechain"])),
                via=data.draw(st.sampled_from([None, "progress"])),
                at=data.draw(st.sampled_from([None, at(1)])),
            )
            for number, one in enumerate(told)
        )
    )
    total = session.usage["total"]
    for grouping in ("by_model", "by_agent", "by_turn", "by_day"):
        groups = session.usage[grouping].values()
        for field in (*FIELDS, "calls"):
            assert sum(group[field] or 0 for group in groups) == (total[field] or 0), (grouping, field)
