"""Running totals of Codex and Copilot CLI in whole transcripts, read raw: what a client wrote, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forensic.accounts import Work, accounts, settled
from forensic.capture.discover import find
from forensic.replay.ledger import report, settle

Body = dict[str, Any]
Told = Callable[..., Body]
PARENT, CHILD = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """The usage of transcripts, given by their names below a folder."""

    def report_on(by: str = "session", **files: Sequence[Body]) -> Body:
        for name, rows in files.items():
            place = tmp_path / PLACES[name]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        works = [
            Work(harness=found.harness, session=found.session, place=str(found.place), size=0, found=found)
            for found in find([tmp_path])
        ]
        return report(settle(settled(works, accounts(works))), by)

    return report_on


PLACES = {
    "codex": f"sessions/2026/03/01/rollout-2026-03-01T10-00-00-{PARENT}.jsonl",
    "child": f"sessions/2026/03/01/rollout-2026-03-01T10-01-00-{CHILD}.jsonl",
    "copilot": "session-state/cop-1/events.jsonl",
}


def at(second: float) -> str:
    """A moment as clients write it."""
    whole, rest = divmod(round(second * 1000), 1000)
    return f"2026-03-01T10:{whole // 60:02}:{whole % 60:02}.{rest:03}Z"


# --- Codex ------------------------------------------------------------------------------------------------------------


def counts(given: int | None, cached: int, made: int | None, total: int | None = 0) -> Body:
    """Figures by the client's names; the sum of them is told unless it is None."""
    whole = (given or 0) + (made or 0) if total is not None else None
    named = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": made, "total_tokens": whole}
    return {name: value for name, value in named.items() if name != "total_tokens" or value is not None}


def plus(one: Body, other: Body) -> Body:
    """The sum of two."""
    return {name: one[name] + other[name] for name in one}


A, B, C = counts(1000, 0, 100), counts(1100, 1000, 50), counts(1300, 1100, 70)
AB = plus(A, B)
ABC = plus(AB, C)


def meta(second: float, thread: str = PARENT, **more: Any) -> Body:
    """The first row of a thread."""
    return {
        "timestamp": at(second),
        "type": "session_meta",
        "payload": {"id": thread, "cli_version": "0.100.0", **more},
    }


def total(second: float, whole: Body, last: Body | None = None, **more: Any) -> Body:
    """A row that tells the running total."""
    info = {"total_token_usage": whole, **({"last_token_usage": last} if last else {})}
    return {"timestamp": at(second), "type": "event_msg", "payload": {"type": "token_count", "info": info}, **more}


def record(second: float, used: Body, name: str) -> Body:
    """A row that tells one call."""
    payload = {"turn_id": "t1", "response_id": name, "usage": used}
    return {"timestamp": at(second), "type": "token_usage_record", "payload": payload}


def again(rows: Sequence[Body], second: float) -> list[Body]:
    """Rows as a client copies them: stamped anew, two milliseconds apart."""
    return [{**row, "timestamp": at(second + place * 0.002)} for place, row in enumerate(rows)]


FIGURES = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "total_tokens")


def figures(usage: Body) -> list[Any]:
    """Calls, input, output, cache reads, all tokens, and how sure that is."""
    return [*(usage["total"][name] for name in FIGURES), usage["total"]["certainty"]["level"]]


LEFT_OUT = [
    total(1, counts(1000, 0, 100)),
    total(2, counts(None, 0, 150, None)),
    total(3, counts(2000, 0, 200)),
]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (LEFT_OUT, [3, 2000, 200, 0, 2200, "lower_bound"]),
        ([total(1, A, A), total(2, {**AB, "input_tokens": -5}, B), total(3, ABC, C)],
         [3, 1300, 220, 2100, 3620, "lower_bound"]),
        ([total(1, A, A), record(2, A, "r1")], [1, 1000, 100, 0, 1100, "exact"]),
        ([total(1, A, A), record(2, A, "r1"), total(3, AB, B), record(4, B, "r2")],
         [2, 1100, 150, 1000, 2250, "exact"]),
        ([total(1, AB, B), record(2, A, "r1"), record(3, B, "r2")], [2, 1100, 150, 1000, 2250, "exact"]),
        ([total(1, AB, B), record(2, A, "r1"), total(3, AB, B)], [2, 1100, 150, 1000, 2250, "exact"]),
        ([record(1, A, "r1"), total(2, A, A), record(3, B, "r2"), total(4, A, A), total(5, AB, B)],
         [2, 1100, 150, 1000, 2250, "exact"]),
        ([record(1, A, "r1"), total(2, A, A), record(3, A, "r2")], [2, 2000, 200, 0, 2200, "exact"]),
        ([total(1, A, A), total(2, AB, B), meta(50), total(60, counts(5000, 0, 500), counts(5000, 0, 500))],
         [3, 6100, 650, 1000, 7750, "exact"]),
    ],
)  # fmt: skip
def test_a_thread(told: Told, rows: list[Body], wanted: list[Any]) -> None:
    """Figures left out, records behind their totals, counters that began anew at a higher value."""
    assert figures(told(codex=[meta(0), *rows])) == wanted


OWN = counts(1500, 1300, 80)
HISTORY = [meta(0), total(1, A, A), total(6, AB, B), total(11, ABC, C)]
SPAWN = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}}
FORK = {"forked_from_id": PARENT}


def test_a_parent_that_goes_on_gives_a_fork_no_history(told: Told) -> None:
    """It reaches at 300 s what the fork reached at 108 s: two calls, both paid for."""
    parent = [*HISTORY, total(300, plus(ABC, OWN), OWN)]
    child = [meta(100, CHILD, **FORK), *again(HISTORY, 100.01), total(108, plus(ABC, OWN), OWN)]
    usage = told(codex=parent, child=child)
    assert usage["total"]["total_tokens"] == 6780
    assert {group["name"]: group["total_tokens"] for group in usage["groups"]} == {PARENT: 5200, CHILD: 1580}


@pytest.mark.parametrize(("calls", "wanted"), [([A, B], 3620 + 2250), ([A, B, C], 2 * 3620)])
def test_a_spawned_thread_may_begin_as_its_parent_did(told: Told, calls: list[Body], wanted: int) -> None:
    """With a counter of its own, and pauses in between, as a model makes them; found together or apart."""
    sums = [calls[0], *(ABC if place else AB for place in range(len(calls) - 1))]
    own = [total(53 + 5 * place, whole, last) for place, (whole, last) in enumerate(zip(sums, calls, strict=True))]
    usage = told("agent", codex=HISTORY, child=[meta(50, CHILD, **SPAWN), *own])
    assert {group["name"]: group["total_tokens"] for group in usage["groups"]} == {"main": 3620, CHILD: wanted - 3620}
    assert usage["total"]["certainty"]["level"] == "exact"


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ({**SPAWN, "subagent_history_start_ordinal": 5}, "inferred"),
        ({**SPAWN, "history_mode": "paginated"}, "inferred"),
        (SPAWN, "inferred"),
    ],
)
def test_a_boundary_that_cannot_be_believed_leaves_it_to_the_others(told: Told, more: Body, level: str) -> None:
    """No row is numbered, or the parent's own first row stands where nothing should have been taken along."""
    copied = again(HISTORY, 100.01)
    if "history_mode" in more:
        copied = [{**row, "ordinal": place} for place, row in enumerate(copied, 1)]
    child = [meta(100, CHILD, **more), *copied, total(110, plus(ABC, OWN), OWN)]
    usage = told(codex=HISTORY, child=child)
    assert (usage["total"]["total_tokens"], usage["total"]["certainty"]["level"]) == (5200, level)


def test_a_thread_that_names_itself_has_no_origin(told: Told) -> None:
    """All of it is its own, however quick its first rows are."""
    rows = [meta(0, forked_from_id=PARENT), total(0.01, A, A), total(0.02, AB, B)]
    assert figures(told(codex=rows)) == [2, 1100, 150, 1000, 2250, "exact"]


# --- Copilot CLI ------------------------------------------------------------------------------------------------------


def event(second: float, kind: str, data: Body) -> Body:
    """One row."""
    return {"type": kind, "data": data, "id": f"e{kind}{second}", "timestamp": at(second), "parentId": None}


def begin() -> Body:
    """The first row."""
    return event(
        0, "session.start", {"sessionId": "cop-1", "version": 1, "copilotVersion": "1.0.1", "startTime": at(0)}
    )


def metrics(calls: int | None, given: int, made: int) -> Body:
    """Figures of one model; calls may be left out."""
    requests = {} if calls is None else {"count": calls}
    return {"requests": requests, "usage": {"inputTokens": given, "outputTokens": made}}


def shutdown(second: float, models: Body, nano: int | None = None, premium: int | None = None) -> Body:
    """The end of a session."""
    units = {"totalNanoAiu": nano, "totalPremiumRequests": premium}
    return event(second, "session.shutdown", {"modelMetrics": models, **units})


def used(second: float, call: str, given: int, made: int) -> Body:
    """A row that tells one call."""
    figures = {"apiCallId": call, "model": "m", "inputTokens": given, "outputTokens": made}
    return event(second, "session.usage_record", {"usage": figures})


def test_every_model_of_a_shutdown_is_final(told: Told) -> None:
    """However many there are."""
    models = {name: metrics(1, 1000, 100) for name in ("m", "n", "o")}
    usage = told("model", copilot=[begin(), shutdown(9, models)])
    assert figures(usage) == [3, 3000, 300, None, 3300, "exact"]
    assert usage["unfinished"]["calls"] == 0


def test_a_unit_left_out_of_one_checkpoint_is_not_billed_again(told: Told) -> None:
    """The next one that tells it says what it came to."""
    marks = [{"totalNanoAiu": 10, "totalPremiumRequests": 3}, {"totalNanoAiu": 20}]
    rows = [event(at, "session.usage_checkpoint", mark) for at, mark in enumerate(marks, 1)]
    usage = told(copilot=[begin(), *rows, shutdown(9, {}, 30, 3)])
    assert usage["units"] == {"nano_aiu": 30, "premium_requests": 3}


def test_calls_left_out_of_one_shutdown_are_not_counted_again(told: Told) -> None:
    """The next one that tells them says how many there were."""
    ends = [shutdown(9 * at, {"m": metrics(calls, 100 * at, 10 * at)}) for at, calls in ((1, 2), (2, None), (3, 4))]
    assert figures(told(copilot=[begin(), *ends])) == [4, 300, 30, None, 330, "exact"]


def test_a_record_behind_its_shutdown_is_in_it(told: Told) -> None:
    """One that is none of the shutdown's, in a session that was resumed, is not."""
    rows = [begin(), shutdown(9, {"m": metrics(1, 1000, 100)}), used(9.1, "A", 1000, 100)]
    assert figures(told(copilot=rows)) == [1, 1000, 100, None, 1100, "exact"]
    resumed = event(20, "session.resume", {"sessionId": "cop-1", "resumeTime": at(20), "eventsFileSizeBytes": 5})
    rows = [*rows[:2], resumed, used(21, "B", 1000, 100)]
    assert figures(told(copilot=rows)) == [2, 2000, 200, None, 2200, "exact"]
