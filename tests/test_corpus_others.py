"""Transcripts of Codex, Copilot CLI and Cursor that real people's agents wrote, and everything else of ``../shared``.

Each is captured, verified and replayed in its own dialect; the figures of ``expected.tsv`` hold where it gives any.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from golden_extension import document_of
from test_corpus import assert_parts_add_up, by_stream, refs

from forensic.accounts import Work, account
from forensic.archive import Archive
from forensic.capture.discover import find
from forensic.intake import capture
from forensic.recording import open_recording
from forensic.replay.usage import figures_of

SHARED = (Path(__file__).parent.parent.parent / "shared").resolve()
CORPUS = SHARED / "corpus"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not there")]

FIGURES = ("input", "output", "cache_read", "reasoning", "total")
LISTS = frozenset({"history.jsonl", "session_index.jsonl"})
"""Lists that Codex keeps beside its rollouts; they are no sessions."""
UNDECLARED_FORK = "rollout-2025-09-16T14-12-31-613a9a68-8816-40b2-a2d4-041ade599da6"
"""Its second row is the first one of thread 9cd28a74, written six seconds later, and 320 rows follow within 0.3 s: with
them 47 running totals up to 2,306,201, a copied history, whatever the recount says. The first own total adds to it."""


def expected() -> list[dict[str, str]]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "expected.tsv").open(encoding="utf-8", newline="") as table:
        rows = [
            row for row in csv.DictReader(table, delimiter="\t") if row["harness"] in ("codex", "copilot", "cursor")
        ]
    return [row for row in rows if Path(row["session"]).name not in LISTS]


ROWS = expected()


@pytest.mark.parametrize("row", ROWS, ids=[row["session"] for row in ROWS])
def test_a_session_gives_the_recounted_figures(row: dict[str, str], tmp_path: Path) -> None:
    """Every row accounted for, every byte kept, every sum equal; raw, sealed and replayed say the same."""
    place = CORPUS / row["session"]
    (found,) = find([place], row["harness"])
    (done,) = capture([place], Archive(tmp_path), harness=row["harness"])
    recording = open_recording(Path(done.bundle))
    assert recording.manifest.harness == row["harness"]
    assert recording.verify().ok
    session = recording.replay()
    document = document_of(session)
    timeline = list(recording.bundle.timeline())
    assert refs(session) == {entry.ref for entry in timeline}
    assert b"".join(b"".join(part) for part in by_stream(timeline)) == (place.read_bytes() if has_rows(place) else b"")
    rows = document["summary"]["rows"]
    assert rows["total"] == (int(row["rows"]) if has_rows(place) else 0)
    assert_parts_add_up(document["usage"])
    total = document["usage"]["total"]
    raw = account(Work(harness=found.harness, session=found.session, place="", size=0, found=found))
    sealed = account(Work(place="", size=0, bundle=recording.path))
    for one in (raw, sealed):
        counted = figures_of(one.tally.calls, asked=True)
        told = {name: value for name, value in total.items() if name != "certainty"}
        assert {**counted} == told or not counted["calls"]
    if row["total"] and place.stem != UNDECLARED_FORK:
        assert [total[f"{name}_tokens"] for name in FIGURES] == [int(row[name]) for name in FIGURES]


def has_rows(place: Path) -> bool:
    return place.suffix == ".jsonl"


def test_the_undeclared_fork_counts_what_is_its_own(tmp_path: Path) -> None:
    """The recount adds the copied history: 3,208,952 where 902,751 were spent."""
    (place,) = CORPUS.rglob(f"{UNDECLARED_FORK}.jsonl")
    (done,) = capture([place], Archive(tmp_path))
    usage = document_of(open_recording(Path(done.bundle)).replay())["usage"]
    assert (usage["total"]["total_tokens"], usage["inherited"]["total_tokens"]) == (902_751, 2_306_201)
    (recounted,) = (row for row in ROWS if Path(row["session"]).stem == UNDECLARED_FORK)
    assert int(recounted["total"]) == 902_751 + 2_306_201


@pytest.mark.parametrize("harness", ["codex", "copilot", "cursor", "gemini", "opencode"])
def test_everything_of_a_harness_as_one_folder(harness: str, tmp_path: Path) -> None:
    """Found by itself, sealed and verified, in its own dialect where there is one."""
    dialects: dict[str, int] = {}
    for done in capture([CORPUS / harness], Archive(tmp_path), report=lambda _: None):
        recording = open_recording(Path(done.bundle))
        assert recording.verify().ok
        dialects[recording.manifest.harness] = dialects.get(recording.manifest.harness, 0) + 1
    # unknown are files that other programs wrote in shapes of their own
    assert dialects == FOUND[harness]


FOUND = {
    "codex": {"codex": 76},
    "copilot": {"copilot": 34, "unknown": 3},
    "cursor": {"cursor": 19, "unknown": 2},
    "gemini": {"unknown": 5},
    "opencode": {"unknown": 2},
}
"""Sessions of each folder, by dialect; whole documents under the name of a row file are none."""


@pytest.mark.parametrize("client", sorted(path.name for path in (SHARED / "captures").glob("*") if path.is_dir()))
def test_every_recorded_client_is_read_in_its_dialect(client: str, tmp_path: Path) -> None:
    """All transcripts of all runs, with not one row that could not be read."""
    runs = sorted(path for path in (SHARED / "captures" / client).glob("*/transcripts") if any(path.rglob("*.jsonl")))
    for number, run in enumerate(runs):
        for done in capture([run], Archive(tmp_path / str(number)), report=lambda _: None):
            recording = open_recording(Path(done.bundle))
            assert (recording.manifest.harness[:5], recording.verify().ok) == (client[:5], True)
            rows = document_of(recording.replay())["summary"]["rows"]
            assert (run, rows["unreadable"], rows["unmodelled"]) == (run, 0, 0)
