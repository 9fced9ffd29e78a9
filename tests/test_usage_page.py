"""The page of ``forensic usage``: which rows and columns there are, and what the notes below them say."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from forensic.cli import main

Page = Callable[..., list[str]]


@pytest.fixture
def page(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Page:
    """What the command prints of golden recordings at some width; nothing on standard error."""
    assert home.exists()
    monkeypatch.chdir(root)

    def shown(cases: Sequence[str], *options: str, width: int = 100) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        capfd.readouterr()
        assert main(["usage", *(f"golden/{case}" for case in cases), *options]) == 0
        said = capfd.readouterr()
        assert said.err == ""
        return said.out.split("\n")[:-1]

    return shown


THREE = ("claude/a-working-day", "codex/fork-with-copied-history", "cursor/a-working-day")


def test_sessions(page: Page) -> None:
    """A row for each session that tells usage, what it inherited, and the marks; one that tells nothing is counted."""
    assert page(THREE, width=90) == [
        "date (UTC)  session   calls  input  output  cache read  cache write    total  inherited",
        "2026-03-02  5e550000     17  2,793   1,663     187,109       21,479  213,044          -",
        "2026-05-12  0198c0de      1    100      20       9,000            -    9,120      9,040  ~",
        "total                    18  2,893   1,683     196,109       21,479  222,164             ~",
        "",
        "3 sessions, each call counted once; all rows together tell 1.64 times as much",
        "? 1 session, not listed, tells no usage: what it cost is unknown",
        "~ history of another thread, told apart by: burst (1)",
    ]


def test_harnesses(page: Page) -> None:
    """By harness each has its row, and what tells nothing has dashes and no zero, calls included."""
    assert page(THREE, "--by", "harness") == [
        "harness  calls  input  output  cache read  cache write    total  inherited",
        "claude      17  2,793   1,663     187,109       21,479  213,044          -",
        "codex        1    100      20       9,000            -    9,120      9,040  ~",
        "cursor       -      -       -           -            -        -          -  ?",
        "total       18  2,893   1,683     196,109       21,479  222,164             ~",
        "",
        "3 sessions, each call counted once; all rows together tell 1.64 times as much",
        "? 1 session tells no usage: what it cost is unknown",
        "~ history of another thread, told apart by: burst (1)",
    ]


def test_nothing_told(page: Page) -> None:
    """Of sessions that tell no usage the total is unknown."""
    assert page(["cursor/a-working-day"]) == [
        "session  calls  input  output  cache read  cache write  total",
        "total        -      -       -           -            -      -  ?",
        "",
        "1 session, each call counted once",
        "? 1 session, not listed, tells no usage: what it cost is unknown",
    ]


def test_no_inherited_column(page: Page) -> None:
    """Without anything inherited there is no column for it, and units have their lines."""
    assert page(["copilot/a-whole-session"]) == [
        "started (UTC)     session   calls  input  output  cache read  cache write   total",
        "2026-03-02 09:00  4b1f0c52      4  1,340     165      12,920        4,520  18,945",
        "total                           4  1,340     165      12,920        4,520  18,945",
        "",
        "1 session, each call counted once",
        "  1,250,000 nano aiu",
        "  1 premium requests",
    ]


def test_bounds(page: Page) -> None:
    """A total that is a bound says why, and that it is one."""
    assert page(["copilot/units-from-checkpoints-only"], "--by", "model")[4:] == [
        "1 session, each call counted once",
        "? calls of which no row tells all figures (2)",
        "> so the total is a lower bound",
        "  1,543,867,125,000 nano aiu",
        "  1 premium requests",
    ]
    assert page(["claude/usage-placeholder-lower-bound"], "--by", "model")[5:] == [
        "1 session, each call counted once; all rows together tell 1.39 times as much",
        "> 1 call was never finalised: 1 output or more",
        "~ rows without message id and request id, counted one by one (2)",
        "? usage that is no count of tokens (2)",
    ]
    assert page(["claude/subagent-from-progress-only"])[-1] == (
        "  1 call known from progress rows only: 20.5% of the total"
    )


def test_narrow(page: Page) -> None:
    """Where there is no room columns give way, the last note names them, and what is left still lines up."""
    assert page(THREE[:2], width=60)[-1] == "  no room for: cache write, inherited, cache read"
    shown = page(THREE[:2], width=48)
    assert max(map(len, shown[:4])) <= 48
    assert shown[0] == "session   calls  input  output    total"
    assert shown[3] == "total        18  2,893   1,683  222,164  ~"
    assert shown[-1] == "  no room for: cache write, inherited, cache read, date (UTC)"


def test_narrow_days(page: Page) -> None:
    """A date is never cut: where its table does not fit, figures give way, the total last."""
    shown = page(["copilot/a-whole-session"], "--by", "day", width=40)
    assert shown[:3] == [
        "day         calls  input  output   total",
        "2026-03-02      4  1,340     165  18,945",
        "total           4  1,340     165  18,945",
    ]
    assert shown[-1] == "  no room for: cache write, cache read"
    shown = page(["copilot/a-whole-session"], "--by", "day", width=22)
    assert shown[:2] == ["day          total", "2026-03-02  18,945"]
    assert shown[-1] == "  no room for: cache write, cache read, calls, input, output"


def test_narrow_names_that_begin_alike(page: Page) -> None:
    """Ids that there is no room for are cut in the middle when their ends tell them apart."""
    shown = page(["codex/javascript-cell", "codex/compaction"], width=48)
    assert [line.split()[0] for line in shown[1:3]] == ["0198c0de-0000-7\u20264", "0198c0de-0000-7\u20266"]
    assert max(map(len, shown[:4])) <= 48


def test_names_that_begin_alike(page: Page) -> None:
    """Of a session's id as much is shown as tells it apart, as far as there is room."""
    shown = page(["codex/javascript-cell", "codex/compaction"], width=120)
    assert [line.split()[2] for line in shown[1:3]] == [f"0198c0de-0000-7000-8000-00000000000{end}" for end in "46"]


def test_json(page: Page) -> None:
    """One object with the keys of docs/cli.md; findings stand in it as they do in other commands' answers."""
    (line,) = page(THREE, "--json", "--timezone", "Asia/Tokyo")
    told = json.loads(line)
    assert sorted(told) == [
        "by",
        "findings",
        "from_progress",
        "groups",
        "idless_records",
        "raw_vs_deduped",
        "schema",
        "sessions",
        "sessions_without_usage",
        "timezone",
        "total",
        "unfinished",
        "units",
        "unusable_records",
    ]
    assert (told["schema"], told["by"], told["timezone"], told["findings"]) == (1, "session", "Asia/Tokyo", [])
    assert [sorted(set(group) - set(told["total"])) for group in told["groups"]] == [
        ["harness", "inherited", "name", "sessions", "started", "units"]
    ] * 3


def test_empty_archive(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An archive without a session has no table: what to do stands on standard error."""
    assert main(["usage"]) == 0
    assert capfd.readouterr() == ("", f"no session in {home / 'archive'} yet: forensic capture PATH\n")
