"""Where observations go: nodes, evidence, aside."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from score import at, outline, ref, replay, text, usage

from forensic.model import (
    Basis,
    Compaction,
    Execution,
    HookRun,
    Injected,
    Mended,
    Node,
    Observation,
    Permission,
    Progress,
    Prompt,
    Response,
    Session,
    SetAside,
    Skill,
    SubagentStart,
    SystemPrompt,
    Thought,
    Title,
    ToolRequest,
    ToolResult,
    Unmodelled,
    Unreadable,
)


def request(offset: int, call: str, step: str = "m1", **more: object) -> ToolRequest:
    """A call in a message."""
    return ToolRequest(**{"ref": ref(offset), "name": "Run", "call": call, "step": step, **more})  # type: ignore[arg-type]  # fields by name


def kinds(session: Session) -> list[tuple[str, int]]:
    """Findings as kind and count."""
    return [(finding.kind, finding.count) for finding in session.findings]


def test_pieces_of_one_message_stand_together_though_rows_come_between() -> None:
    """A result between two rows of a message does not close the step."""
    session = replay(
        Prompt(ref=ref(0), text=text("go")),
        Thought(ref=ref(1), step="m1", text=text("hm")),
        request(2, "c1"),
        ToolResult(ref=ref(3), call="c1", ok=True),
        request(4, "c2"),
        ToolResult(ref=ref(5), call="c2", ok=False),
        Response(ref=ref(6), step="m2", text=text("done")),
    )
    assert outline(session.tree) == [
        "session s-1",
        "  turn derived-1",
        "    prompt go",
        "    step m1",
        "      thought hm",
        "      tool_request Run = ok +1",
        "      tool_request Run = error +1",
        "    step m2",
        "      response done",
    ]
    assert session.findings == []


def test_a_result_before_its_call_still_joins_it() -> None:
    """File order is not causal order."""
    session = replay(ToolResult(ref=ref(0), call="c1", ok=True), request(1, "c1"))
    assert outline(session.tree) == ["session s-1", "  step m1", "    tool_request Run = ok +1"]


def test_one_call_id_owns_one_node() -> None:
    """A second request with the same id is evidence of the first."""
    session = replay(request(0, "c1"), request(1, "c1", step="m2"))
    assert outline(session.tree) == ["session s-1", "  step m1", "    tool_request Run = no_result +1"]
    assert session.summary["tool_calls"] == 1
    assert kinds(session) == []


def test_a_call_id_that_names_two_tools_is_reported() -> None:
    """Each is a call of its own; so is one with another input."""
    session = replay(request(0, "c1"), request(1, "c1", name="Other"), request(2, "c1", step="m2", input={"a": 1}))
    assert kinds(session) == [("call-id-reused", 2)]
    assert session.summary["tool_calls"] == 3


def test_what_names_an_id_that_was_used_twice_is_of_the_call_before_it() -> None:
    """Of a call that waits for its result, if one does; the same call told again waits for nothing more."""
    again = request(4, "c1", step="m3")
    session = replay(
        request(0, "c1", at=at(0)),
        ToolResult(ref=ref(1), call="c1", ok=True, at=at(1)),
        request(2, "c1", step="m2", input={"a": 1}, at=at(2)),
        Permission(ref=ref(3), call="c1", decision="allow"),
        again,
        ToolResult(ref=ref(5), call="c1", ok=False, at=at(5)),
        ToolResult(ref=ref(6), via="event", call="c1", exit_code=3, at=at(6)),
    )
    assert outline(session.tree) == [
        "session s-1",
        "  step m1",
        "    tool_request Run = ok +3",
        "  step m2",
        "    tool_request Run = error +1",
        "      permission c1",
    ]
    assert kinds(session) == [("call-id-reused", 1)]
    waiting = replay(
        request(0, "c1"),
        request(1, "c1", input={"a": 1}),
        ToolResult(ref=ref(2), call="c1", ok=True),
        ToolResult(ref=ref(3), call="c1", ok=False),
    )
    assert outline(waiting.tree)[2:] == ["    tool_request Run = error +1", "    tool_request Run = ok +1"]


def test_agents_may_name_their_calls_alike() -> None:
    """Each has its own; the very same call is one, whoever tells of it, and a result that answers no call is told."""
    child = {"agent": "a", "step": "m2"}
    session = replay(
        request(0, "c0", input={"do": "make"}),
        request(0, "c0", input={"do": "ls"}, **child, ref=ref(0, "agent-a")),
        ToolResult(ref=ref(1, "agent-a"), agent="a", call="c0", ok=False),
        ToolResult(ref=ref(1), call="c0", ok=True),
    )
    assert outline(session.tree) == [
        "session s-1",
        "  step m1",
        "    tool_request Run = ok +1",
        "  subagent a",
        "    step m2",
        "      tool_request Run = error +1",
    ]
    assert kinds(session)[0] == ("call-id-reused", 1)
    same = replay(
        request(0, "c0", input={"do": "make"}),
        request(0, "c0", input={"do": "make"}, **child, ref=ref(0, "agent-a")),
        ToolResult(ref=ref(1, "agent-a"), agent="a", call="c0", ok=True),
    )
    assert outline(same.tree)[1:3] == ["  step m1", "    tool_request Run = ok +2"]
    stray = replay(request(0, "c0"), ToolResult(ref=ref(1, "agent-a"), agent="a", call="c0", ok=True))
    assert ("result-without-call", 1) in kinds(stray)
    assert outline(stray.tree)[2] == "    tool_request Run = no_result"


def test_a_subagent_hangs_under_the_call_that_started_it_though_its_id_was_used_before() -> None:
    """The place of the entry tells which call is meant."""
    session = replay(
        request(0, "c1"),
        ToolResult(ref=ref(1), call="c1", ok=True),
        request(2, "c1", step="m2", input={"a": 1}),
        SubagentStart(ref=ref(3), call="c1", spawned="a"),
        Response(ref=ref(0, "agent-a"), agent="a", text=text("done")),
    )
    assert outline(session.tree)[3:] == [
        "  step m2",
        "    tool_request Run = no_result",
        "      subagent a +1",
        "        response done",
    ]


def test_what_ran_without_a_request_is_known_by_its_id_and_what_it_was_given() -> None:
    """One that was given something else is another."""
    ran = [Execution(ref=ref(at), name="run", call="x1", input=one) for at, one in enumerate(("ls", "ls", "pwd"))]
    session = replay(*ran, ToolResult(ref=ref(3), call="x1", ok=True))
    assert outline(session.tree)[1:] == ["  execution run = no_result +1", "  execution run = ok +1"]
    assert kinds(session) == [("call-id-reused", 1)]


def test_a_prompt_that_a_subagent_copies_is_the_same_text() -> None:
    """There it is read as its task; the row id and the text tell."""
    session = replay(
        Prompt(ref=ref(0), id="u1", text=text("one")),
        Injected(ref=ref(0, "agent-copy"), agent="copy", id="u1", text=text("one"), source="task"),
    )
    assert kinds(session) == [("subagent-unlinked", 1), ("repeated", 1)]
    assert outline(session.tree)[1:3] == ["  turn derived-1", "    prompt one +1"]


def test_calls_without_id_never_share_a_node() -> None:
    """Nothing is guessed from equal names."""
    session = replay(
        ToolRequest(ref=ref(0), name="Run", step="m1"),
        ToolRequest(ref=ref(1), name="Run", step="m1"),
        ToolResult(ref=ref(2), ok=True),
    )
    assert session.summary["tool_calls"] == 2
    assert (session.summary["unanswered"], session.summary["not_told"]) == (0, 2)
    assert kinds(session) == [("result-without-call", 1)]


def test_the_duration_of_a_call_is_the_producers_else_the_clocks() -> None:
    """Reported beats measured; a result before its request measures nothing."""
    session = replay(
        request(0, "c1", at=at(1)),
        request(1, "c2", at=at(1)),
        request(2, "c3", at=at(9)),
        ToolResult(ref=ref(3), call="c1", ok=True, at=at(3)),
        ToolResult(ref=ref(4), call="c2", ok=True, at=at(3), duration_ms=7),
        ToolResult(ref=ref(5), call="c3", ok=True, at=at(3)),
    )
    told = {
        node.seen.call: (node.outcome.duration_ms, node.outcome.measured)  # type: ignore[union-attr]  # calls and frames
        for step in session.tree.children
        for node in step.children
    }
    assert told == {"c1": (2000, "clock"), "c2": (7, "reported"), "c3": (None, None)}


def test_a_row_that_stands_twice_is_one_node_and_counted() -> None:
    """Copies of a row, in the same stream or another, are exact evidence of the first."""
    session = replay(
        Prompt(ref=ref(0), id="u1", text=text("one")),
        Response(ref=ref(1), id="u2", step="m1", text=text("yes")),
        Prompt(ref=ref(2), id="u1", text=text("one")),
        Response(ref=ref(0, "agent-copy"), agent="copy", id="u2", step="m1", text=text("yes")),
    )
    assert session.summary["turns"] == 1
    assert session.summary["rows"]["repeated"] == 2
    assert ("repeated", 2) in kinds(session)
    turn = session.tree.children[0]
    assert [proof.basis for proof in turn.children[0].evidence] == [Basis.EXACT]


def test_a_row_id_on_rows_that_differ_hides_neither() -> None:
    """A reused id is reported and both texts are nodes."""
    session = replay(
        Response(ref=ref(0), id="u1", step="m1", text=text("a")),
        Response(ref=ref(1), id="u1", step="m2", text=text("b")),
    )
    assert [line.strip() for line in outline(session.tree)][1:] == ["step m1", "response a", "step m2", "response b"]
    assert kinds(session) == [("row-id-reused", 1)]


def test_a_block_written_again_in_its_message_is_compared_evidence() -> None:
    """Streaming clients repeat a block under a new row id."""
    session = replay(
        Response(ref=ref(0), id="u1", step="m1", text=text("same")),
        Response(ref=ref(1), id="u2", step="m1", text=text("same")),
        Thought(ref=ref(2), id="u3", step="m1", opaque=True),
        Thought(ref=ref(3), id="u4", step="m1", opaque=True),
    )
    step = session.tree.children[0]
    assert [str(child.seen.__struct_config__.tag) for child in step.children] == ["response", "thought", "thought"]
    assert [(proof.basis, proof.agreed) for proof in step.children[0].evidence] == [(Basis.COMPARED, ("step", "text"))]


def test_two_equal_blocks_of_one_row_stay_two() -> None:
    """A row's own blocks are never folded into each other."""
    session = replay(
        Response(ref=ref(0), part=0, step="m1", text=text("same")),
        Response(ref=ref(0), part=1, step="m1", text=text("same")),
    )
    assert len(session.tree.children[0].children) == 2


def test_signs_of_a_call_prove_it_and_make_no_node() -> None:
    """Progress, spilled files and invoked skills are evidence; without a call they are aside."""
    session = replay(
        request(0, "c1"),
        Progress(ref=ref(1), family="beat", call="c1"),
        SetAside(ref=ref(2), family="spill", call="c1"),
        Skill(ref=ref(3), name="greet", stage="invoked", call="c1"),
        Progress(ref=ref(4), family="beat", call="c9"),
        Skill(ref=ref(5), name="greet", stage="available"),
    )
    assert outline(session.tree)[2:] == ["    tool_request Run = no_result +3"]
    assert [seen.ref.offset for seen in session.aside] == [4, 5]
    assert session.summary["skills"] == {"greet": ["invoked", "available"]}


def test_permissions_and_hooks_stand_under_their_call() -> None:
    """They are events, so they are nodes; without a known call they stand in the turn."""
    session = replay(
        request(0, "c1"),
        Permission(ref=ref(1), decision="accept", call="c1"),
        HookRun(ref=ref(2), event="After", call="c9"),
    )
    assert outline(session.tree) == [
        "session s-1",
        "  step m1",
        "    tool_request Run = no_result",
        "      permission c1",
        "  hook_run c9",
    ]


def test_the_unknown_makes_no_node() -> None:
    """What says nothing to the parser is laid aside, whole."""
    session = replay(
        Unmodelled(ref=ref(0), family="new"),
        SetAside(ref=ref(1), family="mode"),
        Unreadable(ref=ref(2), reason="torn"),
        Mended(ref=ref(3), reason="nul-run"),
        Title(ref=ref(4), text=text("t"), source="machine"),
    )
    assert session.tree.children == []
    assert [seen.ref.offset for seen in session.aside] == [0, 1, 2, 3, 4]
    assert kinds(session) == [("unreadable", 1), ("mended", 1)]


def test_a_system_prompt_sent_again_is_one_node() -> None:
    """Equal texts are evidence of the first."""
    session = replay(*(SystemPrompt(ref=ref(number), text=text("be brief")) for number in range(3)))
    assert outline(session.tree) == ["session s-1", "  system_prompt be brief +2"]


def test_pieces_of_a_turn_are_ordered_by_the_producers_clock() -> None:
    """A piece without a time stays behind the one before it."""
    session = replay(
        Prompt(ref=ref(0), text=text("go"), at=at(0)),
        Response(ref=ref(1), step="m2", text=text("late"), at=at(9)),
        Compaction(ref=ref(2)),
        Response(ref=ref(3), step="m1", text=text("early"), at=at(5)),
    )
    assert [line.strip() for line in outline(session.tree)][2:] == [
        "prompt go",
        "step m1",
        "response early",
        "step m2",
        "response late",
        "compaction",
    ]


def test_a_persons_title_beats_the_machines_and_one_of_another_session_is_none() -> None:
    """The last of the best kind counts; a title that names an unknown row belongs elsewhere."""
    session = replay(
        Prompt(ref=ref(0), id="u1", text=text("first words")),
        Title(ref=ref(1), text=text("mine"), source="custom"),
        Title(ref=ref(2), text=text("machine"), source="ai"),
        Title(ref=ref(3), text=text("foreign"), source="summary", leaf="elsewhere"),
    )
    assert session.tree.seen.title == "mine"  # type: ignore[union-attr]  # calls and frames
    assert replay(Prompt(ref=ref(0), text=text("first words"))).tree.seen.title == "first words"  # type: ignore[union-attr]  # calls and frames


def subagent_rows(agent: str = "a1", via: str | None = None, first: int = 0) -> tuple[Observation, ...]:
    """What a small subagent writes."""
    stream = f"agent-{agent}"
    return (
        Injected(ref=ref(first, stream), agent=agent, text=text("look"), source="task", via=via),
        Response(ref=ref(first + 1, stream), agent=agent, step=f"{agent}-m", text=text("seen"), via=via),
    )


def test_a_subagent_hangs_under_the_call_that_a_side_file_names() -> None:
    """The side file's word beats the result's."""
    session = replay(
        SubagentStart(ref=ref(0, "files/0001"), spawned="a1", call="c1", agent_type="Explore"),
        request(0, "c1"),
        request(1, "c2"),
        ToolResult(ref=ref(2), call="c2", ok=True, spawned="a1"),
        *subagent_rows(),
    )
    assert outline(session.tree) == [
        "session s-1",
        "  step m1",
        "    tool_request Run = no_result",
        "      subagent a1 +1",
        "        injected task look",
        "        step a1-m",
        "          response seen",
        "    tool_request Run = ok +1",
    ]
    assert kinds(session) == [("subagent-claimed-twice", 1)]


def test_a_subagent_that_nothing_ties_hangs_under_the_session() -> None:
    """No name, time or order is taken for a link."""
    session = replay(request(0, "c1", name="Agent"), *subagent_rows())
    assert outline(session.tree)[3] == "  subagent a1"
    assert kinds(session) == [("subagent-unlinked", 1)]


def test_a_subagent_known_only_by_name_is_a_node_without_pieces() -> None:
    """Its absence is evidence too."""
    session = replay(request(0, "c1"), ToolResult(ref=ref(1), call="c1", ok=True, spawned="a1"))
    assert outline(session.tree)[-1] == "      subagent a1"
    assert kinds(session) == [("subagent-without-rows", 1)]


def test_progress_copies_stand_in_for_a_lost_file_and_yield_to_a_found_one() -> None:
    """The same copies make the subagent when its file is gone, and nothing twice when it is not."""
    copies = (
        SubagentStart(ref=ref(5), spawned="a1", call="c1", via="progress"),
        Response(ref=ref(5), part=1, agent="a1", step="a1-m", text=text("seen"), via="progress"),
        Response(ref=ref(6), part=1, agent="a1", step="a1-m", text=text("seen"), via="progress"),
    )
    lost = replay(request(0, "c1"), *copies)
    assert outline(lost.tree)[2:] == [
        "    tool_request Run = no_result",
        "      subagent a1 +1",
        "        step a1-m",
        "          response seen +1",
    ]
    found = replay(request(0, "c1"), *copies, *subagent_rows())
    assert outline(found.tree)[2:] == [
        "    tool_request Run = no_result",
        "      subagent a1 +1",
        "        injected task look",
        "        step a1-m",
        "          response seen +2",
    ]
    assert found.summary["rows"]["repeated"] == 0


def test_inline_sidechain_rows_yield_to_the_subagents_own_file() -> None:
    """An older client writes the same message in both places."""
    session = replay(
        request(0, "c1"),
        Response(ref=ref(1), agent="sidechain", step="a1-m", text=text("seen")),
        *subagent_rows(),
    )
    assert session.summary["responses"] == 1
    assert "          response seen +1" not in outline(session.tree)
    assert [line for line in outline(session.tree) if "response" in line] == ["      response seen +1"]


def test_subagents_that_started_each_other_are_cut_loose() -> None:
    """A circle in hostile data ends as a finding, not as an endless tree."""
    session = replay(
        ToolRequest(ref=ref(0, "agent-a"), agent="a", name="Agent", call="ca", step="ma"),
        ToolRequest(ref=ref(0, "agent-b"), agent="b", name="Agent", call="cb", step="mb"),
        SubagentStart(ref=ref(0, "files/0001"), spawned="a", call="cb"),
        SubagentStart(ref=ref(0, "files/0002"), spawned="b", call="ca"),
    )
    assert ("subagent-circle", 1) in kinds(session)
    assert session.summary["tool_calls"] == 2
    assert len(outline(session.tree)) == 7


def test_usage_of_a_subagent_belongs_to_the_turn_of_its_call() -> None:
    """Through any number of subagents in between."""
    session = replay(
        Prompt(ref=ref(0), text=text("go")),
        request(1, "c1"),
        SubagentStart(ref=ref(0, "files/0001"), spawned="a", call="c1"),
        SubagentStart(ref=ref(0, "files/0002"), spawned="b", call="c2"),
        request(0, "c2", step="ma", agent="a", ref=ref(0, "agent-a")),
        Response(ref=ref(0, "agent-b"), agent="b", step="mb", text=text("x"), usage=usage("mb", 5)),
    )
    assert {turn: group["output_tokens"] for turn, group in session.usage["by_turn"].items()} == {"derived-1": 5}
    assert list(session.usage["by_agent"]) == ["b"]


def places(session: Session) -> list[tuple[str, int]]:
    """Every (ref, part) of the tree, its evidence and what was laid aside."""
    found = [(str(seen.ref), seen.part) for seen in session.aside]
    stack: list[Node] = [session.tree]
    while stack:
        node = stack.pop()
        if isinstance(node.seen, Observation):
            found.append((str(node.seen.ref), node.seen.part))
        found.extend((str(proof.ref), proof.part) for proof in node.evidence)
        stack.extend(node.children)
    return found


names = st.sampled_from(["x", "y", "z", None])
agents = st.sampled_from([None, None, "a", "b", "sidechain"])
vias = st.sampled_from([None, None, "progress"])


@st.composite
def anything(draw: st.DrawFn) -> list[Observation]:
    """Observations with colliding ids, in any order."""
    made: list[Observation] = []
    for number in range(draw(st.integers(0, 12))):
        base: dict[str, Any] = {
            "ref": ref(number),
            "agent": draw(agents),
            "id": draw(names),
            "step": draw(names),
            "via": draw(vias),
            "turn": draw(names),
        }
        call = draw(names)
        words = text(draw(st.sampled_from(["p", "q"])))
        made.append(
            draw(
                st.sampled_from(
                    [
                        Prompt(**base, text=words),
                        Injected(**base, text=words, source="task-notification"),
                        Thought(**base, opaque=True),
                        Response(**base, text=words),
                        ToolRequest(**base, name="T", call=call),
                        ToolResult(**base, call=call, ok=True, spawned=draw(st.sampled_from([None, "a", "b"]))),
                        Progress(**base, family="f", call=call),
                        Permission(**base, decision="d", call=call),
                        Skill(**base, name="s", stage="loaded", call=call),
                        SubagentStart(**base, spawned=draw(st.sampled_from(["a", "b"])), call=call),
                        Unmodelled(**base, family="u"),
                        SetAside(**base, family="v", call=call),
                        SystemPrompt(**base, text=words),
                    ]
                )
            )
        )
    return made


@given(anything())
@settings(max_examples=400, deadline=None)
def test_every_observation_is_in_exactly_one_place(observations: list[Observation]) -> None:
    """Nothing vanishes and nothing is shown twice, whatever collides."""
    session = replay(*observations)
    assert sorted(places(session)) == sorted((str(seen.ref), seen.part) for seen in observations)


@given(anything())
@settings(max_examples=200, deadline=None)
def test_no_call_id_owns_two_nodes(observations: list[Observation]) -> None:
    """One call, one owner."""
    session = replay(*observations)
    owners = []
    stack = [session.tree]
    while stack:
        node = stack.pop()
        if isinstance(node.seen, ToolRequest) and node.seen.call is not None:
            owners.append(node.seen.call)
        stack.extend(node.children)
    assert len(owners) == len(set(owners))
