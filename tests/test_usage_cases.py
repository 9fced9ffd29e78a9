"""Public reports about figures over several sessions, and about Codex: ``../shared/cases`` and ``../shared/fixtures``.

Each is read raw, as ``forensic usage`` reads it, and sealed and replayed, as a session document tells it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from golden_extension import document_of

from forensic.accounts import Work, accounts, settled
from forensic.archive import Archive
from forensic.capture.discover import find
from forensic.intake import capture
from forensic.recording import open_recording
from forensic.replay.ledger import Ledger, report, settle

SHARED = Path(__file__).parent.parent.parent / "shared"
CASES, FIXTURES = SHARED / "cases", SHARED / "fixtures"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases is not there")

CODEX = {
    "input_uncached": "input_tokens",
    "cache_read": "cache_read_tokens",
    "output": "output_tokens",
    "reasoning_in_output": "reasoning_tokens",
    "total": "total_tokens",
}
CLAUDE = {"input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_tokens"}
CLAUDE["cache_write"] = "cache_write_tokens"
Figures = dict[str, Any]


def ledger(*places: Path) -> Ledger:
    """All sessions below these places, put together."""
    works = [
        Work(harness=found.harness, session=found.session, place=str(found.place), size=0, found=found)
        for found in find(places)
    ]
    return settle(settled(works, accounts(works)))


def figures(group: Figures, names: dict[str, str]) -> Figures:
    """The figures of a group by the names of a case."""
    return {name: group[field] for name, field in names.items()}


def by_session(told: Ledger, names: dict[str, str]) -> dict[str, Figures]:
    """The same for each session."""
    return {group["name"]: figures(group, names) for group in report(told, "session")["groups"]}


def documents(source: Path, archive: Path) -> dict[str, Figures]:
    """Usage of each session when it is captured, verified and replayed."""
    told = {}
    for done in capture([source], Archive(archive)):
        recording = open_recording(Path(done.bundle))
        assert recording.verify().ok
        told[done.session] = document_of(recording.replay())["usage"]
    return told


def of_case(name: str) -> tuple[Path, Figures]:
    """The input of a case and what it expects."""
    (folder,) = CASES.glob(f"{name}-*")
    return folder / "input", json.loads((folder / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["20", "24", "26", "28"])
def test_one_codex_session(name: str, tmp_path: Path) -> None:
    """Repeated snapshots, jumps, compressed rollouts, and what is not told: unknown, never zero."""
    source, expected = of_case(name)
    wanted = {field: CODEX[field] for field in expected["codex"]}
    told = ledger(source)
    assert figures(report(told, "harness")["total"], wanted) == expected["codex"]
    (usage,) = documents(source, tmp_path).values()
    assert figures(usage["total"], wanted) == expected["codex"]
    assert usage["total"]["calls"] == expected.get("api_calls", usage["total"]["calls"])
    assert len(told.accounts) == expected.get("sessions", 1)


def test_21_a_fork_owns_what_exceeds_its_parent(tmp_path: Path) -> None:
    """By the parent's own totals where both are there; alone, by the burst in which the history was copied."""
    source, expected = of_case("21")
    told = ledger(source)
    assert by_session(told, CODEX) == expected["by_session"]
    total = report(told, "day")["total"]
    assert (figures(total, CODEX), total["calls"]) == (expected["codex"], expected["api_calls"])
    alone = documents(source, tmp_path)
    assert {name: figures(usage["total"], CODEX) for name, usage in alone.items()} == expected["by_session"]
    fork = alone["019a0000-0000-7000-8000-000000000002"]
    assert fork["inherited"]["total_tokens"] == 2750
    assert [reason["reason"][-5:] for reason in fork["certainty"]["reasons"]] == ["burst"]


def test_22_a_spawned_thread_is_a_stream_of_its_root(tmp_path: Path) -> None:
    """Both together cost what the two cost, and the copied history nothing."""
    source, expected = of_case("22")
    told = report(ledger(source), "agent")
    root, child = (f"019a0000-0000-7000-8000-00000000000{number}" for number in (1, 3))
    assert figures(told["total"], CODEX) == expected["codex"]
    by_agent = {group["name"]: figures(group, CODEX) for group in told["groups"]}
    assert by_agent == {"main": expected["by_session"][root], child: expected["by_session"][child]}
    (usage,) = documents(source, tmp_path).values()
    assert {name: figures(group, CODEX) for name, group in usage["by_agent"].items()} == by_agent
    (file,) = source.rglob(f"*{child}.jsonl")
    assert by_session(ledger(file), CODEX) == {child: expected["by_session"][child]}


def test_03_a_resumed_session_inherits_what_it_repeats() -> None:
    """Each message once; what the second file repeats is shown and added to nothing."""
    source, expected = of_case("03")
    told = report(ledger(source), "session")
    assert figures(told["total"], CLAUDE) == expected["totals"]
    assert told["total"]["calls"] == expected["api_calls"]
    nothing = dict.fromkeys(CLAUDE, 0)
    for group in told["groups"]:
        wanted = expected["by_session"][group["name"]]
        assert figures(group, CLAUDE) == wanted["own"]
        assert figures(group["inherited"], CLAUDE) == wanted.get("inherited", nothing)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Tokyo"])
def test_15_days_are_those_of_the_zone(zone: str) -> None:
    """The first row of a message sets its day."""
    source, expected = of_case("15")
    told = report(ledger(source), "day", ZoneInfo(zone))
    assert {group["name"]: figures(group, CLAUDE) for group in told["groups"]} == expected["days"][zone]
    assert figures(told["total"], CLAUDE) == expected["totals"]


def forks() -> dict[str, Figures]:
    path = FIXTURES / "codex-fork" / "expected.json"
    told: dict[str, Figures] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: figures for name, figures in told.items() if name.endswith(".jsonl")}


@pytest.mark.parametrize("name", sorted(forks()))
def test_each_way_a_fork_counts(name: str) -> None:
    """A counter that begins anew, one that goes on, one with a boundary; each file by itself."""
    expected = {key.removeprefix("own_"): value for key, value in forks()[name].items()}
    total = report(ledger(FIXTURES / "codex-fork" / name), "session")["total"]
    assert total["input_tokens"] + total["cache_read_tokens"] == expected["input_inclusive"]
    assert (total["cache_read_tokens"], total["output_tokens"]) == (expected["cached"], expected["output"])


@pytest.mark.parametrize(
    ("name", "total", "level"),
    [
        ("session-vscode", [7831431, 405204992, 1140106, 424565, 414176529], "exact"),
        ("session-desktop-total-only", [None, None, None, None, 249567], "unknown"),
        ("subagent-depth-1", [123572, 1313920, 9490, 492, 1446982], "inferred"),
        ("subagent-depth-2", [133714, 1611520, 9614, 803, 1754848], "inferred"),
        ("qualification-child", [None, None, None, None, None], "unknown"),
        ("ccusage-session-alpha", [2750, 750, 425, 275, 4200], "exact"),
    ],
)
def test_codex_fixtures(name: str, total: list[int | None], level: str) -> None:
    """Figures of real rollouts, re-typed by others; a later session_meta of a parent changes nothing."""
    told = report(ledger(FIXTURES / "codex" / f"{name}.jsonl"), "session")["total"]
    assert ([told[field] for field in CODEX.values()], told["certainty"]["level"]) == (total, level)
