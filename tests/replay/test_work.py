"""The work of a replay grows with its rows, and not with their square, however unlike a real session they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from score import ref
from work import grows_with_the_rows, work

from forensic.dialects.registry import parser
from forensic.model import Accounting, Observation, Ref, Row, SessionStart, Usage
from forensic.replay.counters import spent
from forensic.replay.lineage import Lines
from forensic.replay.player import play

MUCH = 10**9


def test_what_grows_with_the_square_is_told_from_what_does_not() -> None:
    """The measure itself: one loop in another one, and one behind another one."""
    rows = [Row(ref=ref(0), line=1, raw=b"{}")]
    reads = parser("claude")

    def square(all_rows: Sequence[int]) -> None:
        for _ in all_rows:
            for _ in all_rows:
                reads.tells_usage  # noqa: B018 -- a few bytecodes of ours

    def line(all_rows: Sequence[int]) -> None:
        for _ in all_rows:
            reads.observe(rows[0])

    assert not grows_with_the_rows(range, square)
    assert grows_with_the_rows(range, line)
    assert work(lambda: None) == 0


# --- counters ---------------------------------------------------------------------------------------------------------


def total(offset: int, input_: int, output: int, name: str = "thread", **more: Any) -> Accounting:
    told = Usage(running=name, input_tokens=input_, output_tokens=output, final=True, **more)
    return Accounting(ref=ref(offset), family="total", usage=told)


def call(offset: int, input_: int | None, output: int, name: str = "", **more: Any) -> Accounting:
    told = Usage(message=name or f"m{offset}", input_tokens=input_, output_tokens=output, final=True, **more)
    return Accounting(ref=ref(offset), family="call", usage=told)


def no_model_and_no_room(rows: int) -> list[Observation]:
    """Calls without a model, and as many totals that name one each and have no room for any of them."""
    pairs = ((call(2 * at, None, 9000), total(2 * at + 1, 10 * at, at, model=f"m{at}")) for at in range(rows))
    return [one for pair in pairs for one in pair]


def no_room_but_for_the_last(rows: int) -> list[Observation]:
    """The same, but for one call behind all others each time."""
    great = [call(at, 5, MUCH) for at in range(rows)]
    pairs = ((call(MUCH + at, 5, 1), total(0, 5 * at + 5, at + 1, model=f"m{at}")) for at in range(rows))
    return [*great, *(one for pair in pairs for one in pair)]


def lagging(rows: int) -> list[Observation]:
    """All calls, then a total for each of them."""
    return [*(call(at, 10, 1) for at in range(rows)), *(total(at, 10 * at + 10, at + 1) for at in range(rows))]


def lagging_of_a_model(rows: int) -> list[Observation]:
    """The same of one model."""
    told = [total(at, 10 * at + 10, at + 1, model="a") for at in range(rows)]
    return [*(call(at, 10, 1, model="a") for at in range(rows)), *told]


def told_again(rows: int) -> list[Observation]:
    """One total, told again behind each of many calls."""
    pairs = ((call(at, 10, 1), total(at, 5, 5)) for at in range(rows))
    return [total(0, 5, 5), *(one for pair in pairs for one in pair)]


def another_model(rows: int) -> list[Observation]:
    """Calls of a model that no total ever names."""
    pairs = ((call(at, 10, 1, model="q"), total(at, 5 * at, 5 * at, model=f"m{at}")) for at in range(rows))
    return [one for pair in pairs for one in pair]


def many_counters(rows: int) -> list[Observation]:
    """Counters of as many models, all of which have room for calls that name none."""
    told = [total(at, MUCH, MUCH, f"model:{at}", model=f"{at}") for at in range(rows)]
    return [*told, *(call(at, 10, 1) for at in range(rows))]


def behind_one_total(rows: int) -> list[Observation]:
    """Calls behind a total that has room for all of them."""
    return [total(0, MUCH, MUCH), *(call(at, 10, 1) for at in range(rows))]


def units_only(rows: int) -> list[Observation]:
    """Calls, and totals that tell no tokens."""
    units = (Usage(running="session", calls=0, units={"nano": at}, final=True) for at in range(rows))
    pairs = ((call(at, None, 5), Accounting(ref=ref(at), family="u", usage=told)) for at, told in enumerate(units))
    return [total(0, MUCH, MUCH, "model:m", model="m"), *(one for pair in pairs for one in pair)]


def begun_again(rows: int) -> list[Observation]:
    """Counters of many models in a session that is resumed as often."""
    told = [total(at, 10, 10, f"model:{at}", model=f"{at}") for at in range(rows)]
    return [*told, *(SessionStart(ref=ref(at)) for at in range(rows))]


def models_told_late(rows: int) -> list[Observation]:
    """Calls that name their model only in a second row, when their totals are long told."""
    pairs = ((call(MUCH, 5, MUCH, f"m{at}", model="z"), total(0, 5 * at, at, model=f"n{at}")) for at in range(rows))
    return [*(call(at, 5, MUCH) for at in range(rows)), *(one for pair in pairs for one in pair)]


COUNTERS = [
    another_model, begun_again, behind_one_total, lagging, lagging_of_a_model, many_counters, models_told_late,
    no_model_and_no_room, no_room_but_for_the_last, told_again, units_only,
]  # fmt: skip


@pytest.mark.parametrize("make", COUNTERS, ids=lambda make: make.__name__)
def test_counters_take_work_in_proportion(make: Callable[[int], list[Observation]]) -> None:
    """Whatever waits for a total, and whatever total comes."""
    assert grows_with_the_rows(make, lambda rows: list(spent(rows, Lines(), "s")))


# --- whole sessions ---------------------------------------------------------------------------------------------------

Told = Iterator[tuple[str, dict[str, Any]]]
"""Stream and body of each row."""


def moment(number: int) -> str:
    return f"2026-03-01T10:{number // 60 % 60:02}:{number % 60:02}Z"


def item(stream: str, number: int, **payload: Any) -> tuple[str, dict[str, Any]]:
    return stream, {"type": "response_item", "timestamp": moment(number), "payload": payload}


def event(stream: str, number: int, **payload: Any) -> tuple[str, dict[str, Any]]:
    return stream, {"type": "event_msg", "timestamp": moment(number), "payload": payload}


def asked(stream: str, number: int, name: str) -> tuple[str, dict[str, Any]]:
    return item(stream, number, type="function_call", name="shell", arguments=f'{{"n":{number}}}', call_id=name)


def answered(stream: str, number: int, name: str) -> tuple[str, dict[str, Any]]:
    return item(stream, number, type="function_call_output", call_id=name, output="x")


def codex_one_id(rows: int) -> Told:
    """Every call has the same id."""
    for at in range(rows):
        yield asked("main", at, "call_0")
        yield answered("main", at, "call_0")


def codex_one_id_answered_late(rows: int) -> Told:
    """The same, and all answers come behind all calls."""
    yield from (asked("main", at, "call_0") for at in range(rows))
    yield from (answered("main", at, "call_0") for at in range(rows))


def codex_one_id_of_many_threads(rows: int) -> Told:
    """The same, each in a thread of its own."""
    yield from (asked(f"thread-{at}", at, "call_0") for at in range(rows))
    yield from (answered(f"thread-{at}", at, "call_0") for at in range(rows))


def codex_told_twice(rows: int) -> Told:
    """The same answer many times, then the events of all of them."""
    text = [{"type": "output_text", "text": "x"}]
    yield from (item("main", at, type="message", role="assistant", content=text) for at in range(rows))
    yield from (event("main", at, type="agent_message", message="x") for at in range(rows))


def codex_streams_in_turn(rows: int) -> Told:
    """Two files that are written to by turns."""
    for at in range(rows):
        for stream in ("main", "thread-a"):
            yield item(stream, at, type="message", role="assistant", content=[{"type": "text", "text": f"x{at}"}])


def codex_nested(rows: int) -> Told:
    """Each thread spawns the next."""
    for at in range(rows):
        stream = f"thread-{at}" if at else "main"
        yield asked(stream, at, f"c{at}")
        yield event(stream, at, type="collab_agent_spawn_end", call_id=f"c{at}", new_thread_id=f"{at + 1}")


def codex_nested_from_the_end(rows: int) -> Told:
    """The same, the deepest first."""
    pairs = list(codex_nested(rows))
    for at in range(len(pairs) - 2, -1, -2):
        yield from pairs[at : at + 2]


def codex_one_agent_named_again(rows: int) -> Told:
    """One row that names an agent many times, and says much of it."""
    of_it = {"thread_id": "a", **{f"k{at}": at for at in range(rows)}}
    started = {"type": "CollabAgentToolCall", "tool": "spawnAgent", "id": "c", "receiver_thread_ids": ["a"] * rows}
    yield event("main", 0, type="item_completed", item={**started, "receiver_agents": [of_it]})


def copilot_checkpoints(rows: int) -> Told:
    """A message and a checkpoint that has units only, many times, behind an account of all calls so far."""
    metrics = {"m": {"requests": {"count": 9}, "usage": {"inputTokens": MUCH, "outputTokens": MUCH}}}
    yield "main", {"type": "session.shutdown", "id": "s", "data": {"modelMetrics": metrics}}
    for at in range(rows):
        said = {"messageId": f"m{at}", "content": "x", "outputTokens": 5}
        yield "main", {"type": "assistant.message", "id": f"a{at}", "timestamp": moment(at), "data": said}
        yield "main", {"type": "session.usage_checkpoint", "id": f"c{at}", "data": {"totalNanoAiu": at + 1}}


def claude_blocks(rows: int) -> Told:
    """One message in many rows."""
    for at in range(rows):
        said = {"id": "m", "content": [{"type": "text", "text": f"x{at}"}], "usage": {"input_tokens": 1}}
        yield "main", {"type": "assistant", "uuid": f"u{at}", "timestamp": moment(at), "message": said}


def claude_one_row_id(rows: int) -> Told:
    """Rows that all have the same id and differ."""
    for _, body in claude_blocks(rows):
        yield "main", {**body, "uuid": "u"}


def claude_results_in_one_row(rows: int) -> Told:
    """One row with many results, and beside them much that is said of each."""
    results = [{"type": "tool_result", "tool_use_id": f"t{at}", "content": "x"} for at in range(rows)]
    much = list(range(rows))
    told = {"toolUseResult": {"matches": much}, "permissionDecision": {"decision": "accept", "why": much}}
    yield "main", {"type": "user", "uuid": "u", "message": {"content": results}, **told}


SESSIONS = [
    claude_blocks, claude_one_row_id, claude_results_in_one_row, codex_nested, codex_nested_from_the_end,
    codex_one_agent_named_again, codex_one_id, codex_one_id_answered_late, codex_one_id_of_many_threads,
    codex_streams_in_turn, codex_told_twice, copilot_checkpoints,
]  # fmt: skip


def rows_of(told: Told) -> list[Row]:
    return [
        Row(
            ref=Ref(stream, 1, number),
            line=number + 1,
            raw=json.dumps(body).encode(),
            agent=stream.removeprefix("thread-") if stream.startswith("thread-") else None,
        )
        for number, (stream, body) in enumerate(told)
    ]


@pytest.mark.parametrize("make", SESSIONS, ids=lambda make: make.__name__)
def test_replay_takes_work_in_proportion(make: Callable[[int], Told]) -> None:
    """Whatever the rows have in common."""
    harness = make.__name__.partition("_")[0]
    assert grows_with_the_rows(
        lambda rows: rows_of(make(rows)), lambda rows: play(rows, parser(harness), harness=harness, session="s")
    )
