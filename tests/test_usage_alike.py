"""What ``forensic usage`` tells is what the session documents tell, however and wherever the rows are read.

The command from the outside is in test_usage_command.py, its page in test_usage_page.py, the public reports in
test_usage_cases.py, mutated rows in test_mutations.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from golden_extension import FROM_SOURCES, document_of
from test_cli import Cli, Said

from forensic.accounts import Work, account
from forensic.bundle import Bundle, open_bundle
from forensic.capture.discover import find
from forensic.capture.found import Found
from forensic.capture.named import record
from forensic.recording import open_recording
from forensic.replay.ledger import Account, report, settle
from forensic.replay.usage import units_of

CORPUS = (Path(__file__).parent.parent.parent / "shared" / "corpus").resolve()
FIGURES = (
    "calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "reasoning_tokens", "total_tokens",
)  # fmt: skip
Figures = dict[str, Any]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def told(said: Said) -> Figures:
    """The one JSON object of an answer that went well."""
    assert said.code == 0, said.err
    (one,) = said.lines
    return one


# --- raw, sealed, replayed --------------------------------------------------------------------------------------------


def assert_told_alike(found: Found, recording: Path) -> None:
    """The files of a session, the recording made of them, and its document tell the same."""
    raw = account(Work(harness=found.harness, session=found.session, place="", size=0, found=found))
    sealed = account(Work(place="", size=0, bundle=recording))
    sealed.content_id = raw.content_id
    assert raw == sealed
    usage = document_of(open_recording(recording).replay())["usage"]
    for by in ("model", "agent", "day"):
        assert groups(raw, by) == {
            name: figures(group) for name, group in usage[f"by_{by}"].items() if any(figures(group).values())
        }
    told = report(settle([raw]), "session")
    assert told["total"] | {"certainty": None} == usage["total"] | {"certainty": None}
    if not raw.tally.calls:
        assert told["total"]["certainty"]["level"] == usage["total"]["certainty"]["level"]
    (group,) = told["groups"]
    inherited = usage["inherited"] or dict.fromkeys(FIGURES)
    assert (figures(group["inherited"]), group["units"]) == (figures(inherited), usage["units"])
    assert units_of(sealed.tally.units) == usage["units"]
    assert (raw.tally.idless, raw.tally.unusable) == (usage["idless_records"], usage["unusable_records"])


def figures(group: Figures) -> dict[str, int]:
    """The figures of a group; what nobody told is nothing here."""
    return {name: group[name] or 0 for name in FIGURES}


def groups(one: Account, by: str) -> dict[str, dict[str, int]]:
    """The figures of each group that has some."""
    told = {group["name"]: figures(group) for group in report(settle([one]), by)["groups"]}
    return {name: group for name, group in told.items() if any(group.values())}


@pytest.mark.parametrize("case", FROM_SOURCES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden_recordings_are_told_alike(case: Path) -> None:
    """By model, agent and day; with what was inherited and what is billed in other units."""
    (found,) = find([case / "source"])
    assert_told_alike(found, case)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not there")
@pytest.mark.parametrize(("harness", "sessions"), [("claude", 80), ("codex", 70), ("copilot", 30), ("cursor", 20)])
def test_real_sessions_are_told_alike(harness: str, sessions: int, tmp_path: Path) -> None:
    """Every session of the corpus, put together as a capture does it."""
    everything = find([CORPUS / harness])
    for number, found in enumerate(everything):
        record(found, tmp_path / str(number))
        assert_told_alike(found, tmp_path / str(number))
    assert len(everything) > sessions


# --- the same answer --------------------------------------------------------------------------------------------------


@pytest.fixture
def places(cli: Cli, root: Path, home: Path, tmp_path: Path) -> list[Path | str]:
    """Something of every kind that can be named: raw files, a recording, a bundle, an archive, an id."""
    golden = root / "golden"
    for case, archive in (("claude/odd-json", home / "archive"), ("codex/spawned-thread", tmp_path / "other")):
        assert cli("capture", golden / case / "source", "--archive", archive).code == 0
    return [
        golden / "claude" / "a-working-day" / "source",
        golden / "codex" / "repeated-token-counts",
        golden / "sealed" / "copilot-format-1.zst",
        tmp_path / "other",
        "5e550000",
    ]


def test_all_kinds_of_places_together(cli: Cli, places: list[Path | str], root: Path) -> None:
    """The sum of what each of them tells by itself; the archive and a golden case of the same session are one."""
    alone = [told(cli("usage", place, "--json")) for place in places]
    answer = told(cli("usage", *places, "--json"))
    for name in ("calls", "output_tokens", "total_tokens"):
        assert answer["total"][name] == sum(one["total"][name] for one in alone) > 0
    assert answer["sessions"] == len(answer["groups"]) == 5
    again = told(cli("usage", *places, root / "golden" / "codex" / "spawned-thread" / "source", "--json"))
    assert (again["groups"], again["units"]) == (answer["groups"], answer["units"])


CHILD = "import sys; from forensic.cli import main; sys.exit(main(sys.argv[1:]))"


def test_order_hash_seed_and_zone_show_in_no_answer(cli: Cli, places: list[Path | str], root: Path) -> None:
    """Byte for byte."""
    wanted = cli("usage", *places, "--by", "model", "--json").out
    assert cli("usage", *reversed(places), "--by", "model", "--json").out == wanted
    arguments = ["usage", *map(str, places), "--by", "model", "--json"]
    for seed, zone, locale in (("0", "Asia/Kolkata", "C"), ("1", "UTC", "tr_TR.UTF-8")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale, "PYTHONPATH": str(root)}
        done = subprocess.run([sys.executable, "-c", CHILD, *arguments], env=env, capture_output=True, check=True)
        assert done.stdout.decode() == wanted


@pytest.mark.parametrize("archives", [(("a",), ("b",)), (("b",), ("a",)), (("a", "b"),)], ids=["ab", "ba", "one"])
def test_a_fork_and_its_origin_meet_wherever_they_lie(
    cli: Cli, root: Path, tmp_path: Path, archives: tuple[tuple[str, ...], ...]
) -> None:
    """Raw beside sealed, in two archives or in one, asked for once or again."""
    files = fork(root, tmp_path / "raw")
    wanted = told(cli("usage", *files.values(), "--json"))["groups"]
    assert [(group["total_tokens"], group["inherited"]["total_tokens"]) for group in wanted] == [
        (9040, 0),
        (9120, 9040),
    ]
    assert [reason["reason"][-5:] for reason in wanted[1]["certainty"]["reasons"]] == ["match"]
    for number, names in enumerate(archives):
        for name in names:
            assert cli("capture", files[name], "--archive", tmp_path / str(number)).code == 0
    sealed = [tmp_path / str(number) for number in range(len(archives))]
    others = [path for name, path in files.items() if name not in archives[0]]
    for places in (sealed, sealed, [*sealed[:1], *others]):
        assert told(cli("usage", *places, "--json"))["groups"] == wanted


def fork(root: Path, folder: Path) -> dict[str, Path]:
    """A golden fork, and the rollout of its origin: the rows that it copied, up to the first total."""
    (child,) = (root / "golden" / "codex" / "fork-with-copied-history" / "source").rglob("*.jsonl")
    rows = child.read_bytes().splitlines(keepends=True)
    end = next(number for number, row in enumerate(rows) if b'"token_count"' in row)
    folder.mkdir()
    files = {
        "a": folder / "rollout-2026-05-11T08-00-00-0198c0de-0000-7000-8000-00000000000b.jsonl",
        "b": folder / child.name,
    }
    # the origin was told in its own time, before the fork began
    files["a"].write_bytes(b"".join(rows[1 : end + 1]).replace(b"2026-05-12T09", b"2026-05-11T08"))
    files["b"].write_bytes(b"".join(rows))
    return files


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_what_another_version_remembered_is_read_anew(
    cli: Cli, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the accounts and of the reports, and whatever that version knew besides."""
    assert cli("capture", root / "golden" / "claude" / "odd-json" / "source").code == 0
    wanted = told(cli("usage", "--json"))
    remembered = [home / "archive" / "work" / name for name in ("told.accounts", "told.reports")]
    before = [path.read_bytes() for path in remembered]
    opened: list[Path] = []

    def opens(path: Path) -> Bundle:
        opened.append(path)
        return open_bundle(path)

    monkeypatch.setattr("forensic.accounts.open_bundle", opens)
    assert (told(cli("usage", "--json")), opened) == (wanted, [])
    monkeypatch.setattr("forensic.remembered.__version__", "99.0")
    assert (told(cli("usage", "--json")), bool(opened)) == (wanted, True)
    assert all(path.read_bytes() != old for path, old in zip(remembered, before, strict=True))
    opened.clear()
    assert (told(cli("usage", "--json")), opened) == (wanted, [])


def test_what_is_pruned_is_remembered_nowhere(cli: Cli, root: Path, home: Path, tmp_path: Path) -> None:
    """The older bundle of a session that went on."""
    (source,) = (root / "golden" / "claude" / "odd-json" / "source").rglob("*.jsonl")
    growing = tmp_path / source.name
    lines = source.read_bytes().splitlines(keepends=True)
    for rows in (lines[:-1], lines):
        growing.write_bytes(b"".join(rows))
        assert cli("capture", growing).code == 0
    wanted = told(cli("usage", "--json"))
    work = home / "archive" / "work"
    bundles = sorted(path.name.encode() for path in (home / "archive").rglob("*.zst"))
    assert [name in (work / "told.accounts").read_bytes() for name in bundles] == [True, True]
    assert cli("prune", "--yes").code == 0
    assert list(work.glob("told.*")) == []
    assert told(cli("usage", "--json")) == wanted
    (left,) = (path.name.encode() for path in (home / "archive").rglob("*.zst"))
    assert [name in (work / "told.accounts").read_bytes() for name in bundles] == [name == left for name in bundles]


# --- history ----------------------------------------------------------------------------------------------------------

CHILD_THREAD, ORIGIN_THREAD = (f"0198c0de-0000-7000-8000-00000000000{digit}" for digit in "de")


def rollout(folder: Path, between: Figures, **more: Any) -> Path:
    """A fork that copied one total within a burst, with a row of some kind in the middle of it; numbered from 0."""

    def total(second: str, whole: int, last: int) -> Figures:
        counts = [{"input_tokens": count, "output_tokens": 0, "total_tokens": count} for count in (whole, last)]
        info = {"total_token_usage": counts[0], "last_token_usage": counts[1]}
        return {"timestamp": second, "type": "event_msg", "payload": {"type": "token_count", "info": info}}

    started = "2026-05-12T10:00:00.000Z"
    meta = {"id": CHILD_THREAD, "forked_from_id": ORIGIN_THREAD, "timestamp": started, "cli_version": "0.150.0"}
    rows: list[Figures] = [
        {"timestamp": started, "type": "session_meta", "payload": meta | more},
        {"timestamp": "2026-05-12T10:00:00.150Z"} | between,
        total("2026-05-12T10:00:00.300Z", 1000, 1000),
        total("2026-05-12T10:05:00.000Z", 1100, 100),
    ]
    folder.mkdir()
    path = folder / f"rollout-2026-05-12T10-00-00-{CHILD_THREAD}.jsonl"
    path.write_text("".join(json.dumps({"ordinal": n} | row) + "\n" for n, row in enumerate(rows)), encoding="utf-8")
    return path


SAID: Figures = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Name a colour."}]}
BETWEEN: dict[str, Figures] = {
    "one of its items": {"type": "response_item", "payload": SAID},
    "an unknown one": {"type": "a_new_kind_of_item", "payload": SAID},
    "one that cannot be read": {"type": "response_item", "payload": {**SAID, "content": {"type": 1}}},
    "one that is mended": {"type": "response_item", "payload": SAID, "note": "\ud800"},
    "one without a time": {"type": "a_new_kind_of_item", "timestamp": None},
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
@pytest.mark.parametrize("own_from", [None, 1, 2], ids=["burst", "all", "behind"])
def test_a_row_in_a_burst_has_its_time_whatever_it_is(between: Figures, own_from: int | None, tmp_path: Path) -> None:
    """What a fork inherited is the same in its document and for ``forensic usage``; its number, too."""
    more = {} if own_from is None else {"forked_from_ordinal_exclusive": own_from}
    (found,) = find([rollout(tmp_path / "raw", between, **more)])
    record(found, tmp_path / "made")
    assert_told_alike(found, tmp_path / "made")
    usage = document_of(open_recording(tmp_path / "made").replay())["usage"]
    timed = between.get("timestamp", "") is not None
    copied = 1000 if own_from is None and timed else 0
    assert (usage["inherited"] or {"input_tokens": 0})["input_tokens"] == copied


# --- figures and days -------------------------------------------------------------------------------------------------


def called(folder: Path, *counts: int, at: str = "2026-03-01T10:00:00Z") -> Path:
    """A session of finished calls that took in so many tokens."""
    path = folder / "5e550000-0000-4000-8000-0000000000aa.jsonl"
    rows = [
        {
            "type": "assistant",
            "sessionId": path.stem,
            "uuid": f"u{number}",
            "timestamp": at,
            "message": {
                "id": f"m{number}",
                "model": "m-1",
                "stop_reason": "end_turn",
                "content": [],
                "usage": {"input_tokens": count, "output_tokens": 0},
            },
        }
        for number, count in enumerate(counts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("at", "zone"), [("9999-12-31T23:59:59Z", "Asia/Tokyo"), ("0001-01-01T00:00:00Z", "America/New_York")]
)
def test_the_first_and_the_last_day_of_the_calendar_have_a_name_in_every_zone(
    cli: Cli, tmp_path: Path, at: str, zone: str
) -> None:
    """Whatever it is; the call counts."""
    source = called(tmp_path, 1, at=at)
    answer = told(cli("usage", source, "--by", "day", "--timezone", zone, "--json"))
    assert answer["total"]["calls"] == sum(group["calls"] for group in answer["groups"]) == 1
    assert [group["name"] for group in answer["groups"]] == [at[:10]]
    assert cli("usage", source).out.splitlines()[1].startswith(f"{at[:10]} {at[11:16]}  ")


def test_an_archive_with_impossible_figures_is_told_like_the_files(cli: Cli, tmp_path: Path) -> None:
    """One transcript must not take the figures of all others away."""
    source = called(tmp_path, *[2**63 - 1] * 3)
    wanted = told(cli("usage", source, "--json"))
    assert wanted["total"]["input_tokens"] == 3 * (2**63 - 1)
    assert cli("capture", source).code == 0
    assert [told(cli("usage", "--json")) for _ in range(2)] == [wanted, wanted]


def test_what_cannot_be_remembered_takes_nothing_else_along(
    cli: Cli, root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other bundle is not read again."""
    for source in (called(tmp_path, *[2**63 - 1] * 3), root / "golden" / "claude" / "odd-json" / "source"):
        assert cli("capture", source).code == 0
    wanted = told(cli("usage", "--json"))
    remembered = home / "archive" / "work" / "told.accounts"
    before = remembered.read_bytes()
    opened: set[Path] = set()

    def opens(path: Path) -> Bundle:
        opened.add(path)
        return open_bundle(path)

    monkeypatch.setattr("forensic.accounts.open_bundle", opens)
    assert told(cli("usage", "--json")) == wanted
    assert (len(opened), remembered.read_bytes()) == (1, before)


# --- torn, silent, named twice ----------------------------------------------------------------------------------------


def torn(root: Path, folder: Path) -> Path:
    """A compressed rollout of which not one row can be unpacked."""
    (source,) = (root / "golden" / "codex" / "javascript-cell" / "source").rglob("*.jsonl")
    packed = zstandard.ZstdCompressor().compress(source.read_bytes())
    path = folder / f"{source.name}.zst"
    path.write_bytes(packed[: len(packed) // 2])
    return path


def test_a_rollout_torn_in_its_first_frame_is_a_problem(cli: Cli, root: Path, tmp_path: Path) -> None:
    """The others count, and the exit code is 1: a whole session is missing from the total."""
    path = torn(root, tmp_path)
    other = called(tmp_path, 7)
    for places in ([tmp_path], [path, other]):
        said = cli("usage", *places, "--json")
        assert said.lines[0]["total"]["input_tokens"] == 7
        assert path.name in said.err
        assert said.code == 1


def test_a_folder_of_nothing_but_a_torn_rollout_stops_nothing(cli: Cli, root: Path, tmp_path: Path) -> None:
    """What was named beside it counts; a folder in which nothing is torn and nothing found is an error."""
    (tmp_path / "torn").mkdir()
    (tmp_path / "empty").mkdir()
    path = torn(root, tmp_path / "torn")
    case = root / "golden" / "claude" / "odd-json"
    wanted = told(cli("usage", case, "--json"))["total"]
    said = cli("usage", case, tmp_path / "torn", "--json")
    assert (said.code, said.lines[0]["total"], path.name in said.err) == (1, wanted, True)
    assert cli("usage", case, tmp_path / "empty").code == 2


def test_a_session_that_one_of_its_places_tells_of_is_not_silent(cli: Cli, tmp_path: Path) -> None:
    """It was sealed before its first call, and has gone on."""
    prompt = {"type": "user", "sessionId": "5e550000-0000-4000-8000-0000000000aa", "uuid": "u", "message": {}}
    source = called(tmp_path)
    source.write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    assert cli("capture", source, "--archive", tmp_path / "archive").code == 0
    with source.open("ab") as out:
        (tmp_path / "more").mkdir()
        out.write(called(tmp_path / "more", 7).read_bytes())
    answer = told(cli("usage", source, tmp_path / "archive", "--json"))
    assert (answer["sessions"], answer["total"]["input_tokens"]) == (1, 7)
    assert answer["sessions_without_usage"] == 0


def test_a_thread_that_is_named_twice_is_one_thread(cli: Cli, root: Path) -> None:
    """In what is said of certainty, too."""
    case = root / "golden" / "codex" / "fork-with-copied-history"
    wanted = told(cli("usage", case, "--json"))
    assert told(cli("usage", case, case / "source", "--json")) == wanted


def test_records_of_a_session_that_went_on_count_once(cli: Cli, root: Path, tmp_path: Path) -> None:
    """Those that name no call and those that are no count, sealed when it was young, and as it is now."""
    (source,) = (root / "golden" / "claude" / "usage-placeholder-lower-bound" / "source").rglob("*.jsonl")
    wanted = told(cli("usage", source, "--json"))
    assert (wanted["idless_records"], wanted["unusable_records"], wanted["raw_vs_deduped"]) == (2, 2, 1.3857)
    young = tmp_path / source.name
    lines = source.read_bytes().splitlines(keepends=True)
    for size in range(1, len(lines), 3):
        young.write_bytes(b"".join(lines[:size]))
        assert told(cli("usage", source, young, "--json")) == wanted
