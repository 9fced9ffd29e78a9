"""Which turn each observation belongs to."""

from __future__ import annotations

from score import at, ref, replay, text

from forensic.model import Injected, Observation, Prompt, Response, Session, TurnFrame


def turns(session: Session) -> list[tuple[str, int | None, str | None, int]]:
    """Turns as id, number, source and pieces."""
    return [
        (frame.id, frame.number, frame.source, len(node.children))
        for node in session.tree.children
        if isinstance(frame := node.seen, TurnFrame)
    ]


def test_a_native_turn_id_is_carried_forward() -> None:
    """Rows after the prompt do not name their turn."""
    session = replay(
        Prompt(ref=ref(0), text=text("a"), turn="p1", source="typed"),
        Response(ref=ref(1), text=text("b")),
        Prompt(ref=ref(2), text=text("c"), turn="p2"),
        Response(ref=ref(3), text=text("d")),
    )
    assert turns(session) == [("p1", 1, "typed", 2), ("p2", 2, None, 2)]


def test_a_prompt_without_id_opens_a_derived_turn() -> None:
    """Derived turns are counted by themselves."""
    session = replay(Prompt(ref=ref(0), text=text("a")), Prompt(ref=ref(1), text=text("b")))
    assert turns(session) == [("derived-1", 1, None, 1), ("derived-2", 2, None, 1)]


def test_two_prompts_with_one_turn_id_are_one_turn() -> None:
    """A command and its expansion share the id."""
    session = replay(Prompt(ref=ref(0), text=text("/x"), turn="p1"), Prompt(ref=ref(1), text=text("y"), turn="p1"))
    assert turns(session) == [("p1", 1, None, 2)]
    assert session.summary["turns"] == 1


def test_a_prompt_queued_into_a_running_turn_opens_none() -> None:
    """It was delivered in the middle of it."""
    session = replay(Prompt(ref=ref(0), text=text("a")), Prompt(ref=ref(1), text=text("also"), source="queued"))
    assert turns(session) == [("derived-1", 1, None, 2)]


def test_what_precedes_every_prompt_is_in_no_turn() -> None:
    """Nothing is moved into a turn it did not belong to."""
    session = replay(Response(ref=ref(0), text=text("hello")))
    assert turns(session) == []
    assert session.summary["turns"] == 0


def test_a_machines_prompt_opens_a_turn_without_number() -> None:
    """A background task's notification sets the model going, and no person asked."""
    session = replay(
        Prompt(ref=ref(0), text=text("a")),
        Injected(ref=ref(1), text=text("done"), source="task-notification"),
        Response(ref=ref(2), text=text("ok")),
        Prompt(ref=ref(3), text=text("b")),
    )
    assert turns(session) == [
        ("derived-1", 1, None, 1),
        ("derived-2", None, "task-notification", 2),
        ("derived-3", 2, None, 1),
    ]
    assert session.summary["turns"] == 2


def test_other_injected_texts_open_nothing() -> None:
    """A summary, a reminder or a command's output is not a prompt."""
    session = replay(
        Prompt(ref=ref(0), text=text("a")),
        *(Injected(ref=ref(n), text=text("x"), source=s) for n, s in enumerate(("meta", "compact-summary"), 1)),
    )
    assert turns(session) == [("derived-1", 1, None, 3)]


def test_an_interruption_aborts_the_turn_it_stands_in() -> None:
    """Only that one."""
    session = replay(
        Prompt(ref=ref(0), text=text("a")),
        Injected(ref=ref(1), text=text("stop"), source="interrupt"),
        Prompt(ref=ref(2), text=text("b")),
    )
    assert [node.seen.aborted for node in session.tree.children] == [True, False]  # type: ignore[union-attr]  # these are turns
    assert session.summary["aborted_turns"] == 1


def test_history_written_again_does_not_go_back_to_its_turn() -> None:
    """Rows after a copied prompt belong to the turn that was open."""
    session = replay(
        Prompt(ref=ref(0), id="u1", text=text("a"), turn="p1"),
        Prompt(ref=ref(1), id="u2", text=text("b"), turn="p2"),
        Prompt(ref=ref(2), id="u1", text=text("a"), turn="p1"),
        Response(ref=ref(3), text=text("c")),
    )
    assert turns(session) == [("p1", 1, None, 1), ("p2", 2, None, 2)]


def test_a_turn_spans_its_pieces() -> None:
    """From the first time to the last, results included; the time between turns is not busy."""
    session = replay(
        Prompt(ref=ref(0), text=text("a"), at=at(0)),
        Response(ref=ref(1), text=text("b"), at=at(4)),
        Prompt(ref=ref(2), text=text("c"), at=at(60)),
        Response(ref=ref(3), text=text("d"), at=at(61.5)),
    )
    assert [(node.seen.at, node.seen.until) for node in session.tree.children] == [  # type: ignore[union-attr]  # these are turns
        (at(0), at(4)),
        (at(60), at(61.5)),
    ]
    assert (session.summary["wall_ms"], session.summary["busy_ms"]) == (61500, 5500)


def test_subagents_have_no_turns() -> None:
    """A task text in a subagent opens nothing."""
    observations: tuple[Observation, ...] = (Prompt(ref=ref(0, "agent-a"), agent="a", text=text("x")),)
    assert turns(replay(*observations)) == []
