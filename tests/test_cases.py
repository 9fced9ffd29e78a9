"""Public bug reports, each a small input with the right value: ``../shared/cases``, one function a case.

A function lays the case's figures beside those of the replayed session, under the case's own names. What belongs to
later parts of the program (cost) is left out by name; figures over several sessions, in other time zones and of Codex
are in test_usage_cases.py, those of what is recorded live in test_recorder_cases.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_extension import document_of

from forensic.archive import Archive
from forensic.bundle import open_bundle
from forensic.cli import main
from forensic.dialects.registry import parser
from forensic.intake import capture
from forensic.model import Mended, Observation, Row, Unreadable
from forensic.recording import Recording, open_recording

CASES = Path(__file__).parent.parent.parent / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases is not there")

Figures = dict[str, Any]
FIRST = "11111111-1111-4111-8111-111111111111"
SECOND = "22222222-2222-4222-8222-222222222222"


class Case:
    """One case, captured, verified and replayed."""

    def __init__(self, name: str, archive: Path) -> None:
        folder = CASES / name
        self.expected: Figures = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        self.expected.pop("note", None)
        self.source = folder / "input"
        done = list(capture([self.source], Archive(archive)))
        self.recordings: dict[str, Recording] = {one.session: open_recording(Path(one.bundle)) for one in done}
        assert [found for one in self.recordings.values() for found in one.verify().findings if found.problem] == []
        self.documents = {name: document_of(one.replay()) for name, one in self.recordings.items()}

    @property
    def recording(self) -> Recording:
        (one,) = self.recordings.values()
        return one

    @property
    def document(self) -> Figures:
        (one,) = self.documents.values()
        return one

    @property
    def usage(self) -> Figures:
        usage: Figures = self.document["usage"]
        return usage

    @property
    def summary(self) -> Figures:
        summary: Figures = self.document["summary"]
        return summary

    @property
    def observations(self) -> list[Observation]:
        reads = parser("claude")
        return [seen for entry in self.recording.bundle.timeline() for seen in reads.observe(entry)]

    def nodes(self, kind: str) -> list[Figures]:
        return [node for node in walk(self.document["tree"]) if node["kind"] == kind]


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """The case that a test is named for: ``test_01_...`` is ``01-...``."""
    name = request.node.name.removeprefix("test_").replace("_", "-")
    return Case(name, tmp_path)


def walk(node: Figures) -> Iterator[Figures]:
    yield node
    for child in node["children"]:
        yield from walk(child)


def tokens(group: Figures) -> dict[str, int]:
    """The four figures of a case, by the names of the session document."""
    names = ("input", "output", "cache_read", "cache_write")
    return {name: group[f"{name}_tokens"] for name in names}


def distinct_rows(case: Case) -> int:
    """Rows read, each native row counted once however often and wherever it stands."""
    return len({seen.id for seen in case.observations if seen.id is not None and seen.via is None})


def stubs(case: Case) -> list[Unreadable]:
    """Stretches of rows that nothing could be read from."""
    return [seen for seen in case.observations if isinstance(seen, Unreadable)]


def raw_bytes_kept(case: Case) -> bool:
    """Whether the main file can be put together again, byte for byte, from the sealed rows."""
    (file,) = case.source.rglob(f"{FIRST}.jsonl")
    rows = (entry for entry in case.recording.bundle.timeline() if isinstance(entry, Row))
    return b"".join(row.raw + row.end for row in rows) == file.read_bytes()


def test_01_streaming_partial_output(case: Case) -> None:
    """The rows of one reply are one call: the largest figure of each field, once."""
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "raw_vs_deduped": round(case.usage["raw_vs_deduped"], 3),
        "totals": tokens(case.usage["total"]),
    }


def test_02_block_rows_repeat_usage(case: Case) -> None:
    """Each block has its row, each row repeats the usage: usage counts once, every call is kept."""
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "tool_calls": case.summary["tool_calls"],
        "totals": tokens(case.usage["total"]),
    }


def test_03_resume_copies_history(case: Case) -> None:
    """Each session of a resumed pair is right by itself; one map over both is in test_usage_cases.py."""
    first, second = (case.documents[name]["usage"]["total"] for name in (FIRST, SECOND))
    own = {name: case.expected["by_session"][name]["own"] for name in (FIRST, SECOND)}
    copied = case.expected["by_session"][SECOND]["inherited"]
    assert tokens(first) == own[FIRST]
    assert tokens(second) == {name: own[SECOND][name] + copied[name] for name in copied}


def test_05_subagent_files_two_depths(case: Case) -> None:
    """Subagent files count at both depths, each for itself and in the total; what the parent repeats does not."""
    frames = {node["id"]: node for node in case.nodes("subagent")}
    agents = case.usage["by_agent"]
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "main_only": tokens(agents["main"]),
        "session_total_includes_subagents": len(agents) == 3,
        "subagents": {
            "aaa111": {"agent_type": frames["aaa111"]["agent_type"], "totals": tokens(agents["aaa111"])},
            "bbb222": {
                "agent_type": frames["bbb222"].get("agent_type", "unknown"),
                "totals": tokens(agents["bbb222"]),
                "workflow": frames["bbb222"]["workflow"],
            },
        },
        "totals": tokens(case.usage["total"]),
    }
    assert (frames["aaa111"]["call"], frames["aaa111"]["proof"]) == ("toolu_t1", "side-file")
    assert "call" not in frames["bbb222"]


def test_06_subagent_inline_and_file(case: Case) -> None:
    """A subagent that stands in the main file and in its own counts once, and is one node."""
    assert case.expected == {"api_calls": case.usage["total"]["calls"], "totals": tokens(case.usage["total"])}
    assert [node["id"] for node in case.nodes("subagent")] == ["aaa111"]
    assert case.summary["turns"] == 1


def test_08_agent_progress_only_trace(case: Case) -> None:
    """A subagent that only progress rows tell of counts once, and the total says how much rests on them."""
    total, nested = tokens(case.usage["total"]), tokens(case.usage["from_progress"])
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "assistant_rows_only": {name: total[name] - nested[name] for name in total},
        "from_progress_rows": {"api_calls": case.usage["from_progress"]["calls"], "totals": nested},
        "totals": total,
    }
    assert [(node["id"], node["call"], node["proof"]) for node in case.nodes("subagent")] == [
        ("aaa111", "toolu_t1", "result")
    ]


def test_09_agent_progress_and_file(case: Case) -> None:
    """A progress row joins the slot of the subagent's own file and adds nothing."""
    nested = case.usage["from_progress"]
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "from_progress_rows": {"api_calls": nested["calls"], "totals": tokens(nested)},
        "totals": tokens(case.usage["total"]),
    }


def test_10_requestid_fallback(case: Case) -> None:
    """A row without message id is known by its request, and joins the message that the request turns out to be."""
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "idless_records": case.usage["idless_records"],
        "totals": tokens(case.usage["total"]),
    }


def test_12_synthetic_model(case: Case) -> None:
    """The client's own error text is an error: no call, no model."""
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "api_errors": case.summary["api_errors"],
        "models": case.summary["models"],
        "totals": tokens(case.usage["total"]),
        "unpriced_models": [name for name in case.usage["by_model"] if name == "<synthetic>"],
    }


def test_14_cache_write_1h_price(case: Case) -> None:
    """The total of cache writes holds its two parts, and is not their sum on top. The price is not this part's work."""
    total = case.usage["total"]
    assert case.expected["totals"] == tokens(total)
    assert total["cache_write_5m_tokens"] + total["cache_write_1h_tokens"] == total["cache_write_tokens"]
    assert total["cache_write_1h_tokens"] > 0


def test_15_day_boundary(case: Case) -> None:
    """The first row of a reply sets its day, and the days add up. Days of other zones are in test_usage_cases.py."""
    days = {day: tokens(group) for day, group in case.usage["by_day"].items()}
    assert {"UTC": days, "totals": tokens(case.usage["total"])} == {
        "UTC": case.expected["days"]["UTC"],
        "totals": case.expected["totals"],
    }
    names = case.expected["totals"]
    assert {name: sum(day[name] for day in days.values()) for name in names} == case.expected["totals"]


def test_16_unknown_model_price(case: Case) -> None:
    """A model that no price list knows is counted like any other. The price is not this part's work."""
    assert case.expected["totals"] == tokens(case.usage["total"])
    assert sorted(case.usage["by_model"]) == sorted(case.expected["cost_usd"])


def test_18_usage_odd_types(case: Case) -> None:
    """Counts that are none cost neither the row nor the run, and are never made into numbers in silence."""
    rows = case.summary["rows"]
    assert case.expected == {
        "no_crash": True,
        "rows_malformed": rows["unreadable"],
        "rows_read": rows["total"] - rows["blank"] - rows["unreadable"],
        "usage_unusable": case.usage["unusable_records"],
    }
    assert case.usage["total"]["input_tokens"] is None
    assert case.usage["certainty"]["level"] in {"lower_bound", "unknown"}


def test_19_message_id_without_requestid(case: Case) -> None:
    """The message id alone is a key: rows of other gateways merge too, trailing zeros do not win."""
    assert case.expected == {
        "api_calls": case.usage["total"]["calls"],
        "raw_vs_deduped": case.usage["raw_vs_deduped"],
        "totals": tokens(case.usage["total"]),
    }


def test_22_codex_subagent_replay(case: Case) -> None:
    """A spawned thread is a subagent of the session that spawned it, under its nickname, and no session."""
    (frame,) = case.nodes("subagent")
    told = {"nickname": frame["agent_type"], "parent": case.recording.manifest.session, "role": None}
    assert case.expected["subagents"] == {frame["id"]: told}
    assert [node["id"] for node in case.nodes("history")] == [case.recording.manifest.session]


def test_30_nul_run_line(case: Case) -> None:
    """A run of NULs costs nothing behind it; it is mended and kept."""
    assert case.expected == {
        "raw_bytes_kept": raw_bytes_kept(case),
        "rows_ok": distinct_rows(case),
        "rows_repaired": case.summary["rows"]["mended"],
        "totals": tokens(case.usage["total"]),
    }


def test_31_spliced_record(case: Case) -> None:
    """Behind a cut record the next whole one is read; the stub is told of, and its usage stays unknown."""
    lost = stubs(case)
    assert case.expected == {
        "raw_bytes_kept": raw_bytes_kept(case),
        "recovered_suffix": sum(
            isinstance(one, Mended) and one.reason == "recovered-suffix" for one in case.observations
        ),
        "rows_malformed": len(lost),
        "rows_ok": distinct_rows(case),
        "totals": tokens(case.usage["total"]),
        "truncated_row_usage": "unknown" if [one.usage for one in lost] == [None] else "counted",
    }
    assert case.usage["certainty"]["level"] == "lower_bound"


def test_32_missing_newline(case: Case) -> None:
    """Two whole records on one line are both read."""
    assert case.expected == {
        "rows_ok": distinct_rows(case),
        "rows_repaired": case.summary["rows"]["mended"],
        "totals": tokens(case.usage["total"]),
    }


def test_34_u2028_inside_string(case: Case) -> None:
    """Only a line feed ends a row."""
    assert case.expected == {
        "rows_malformed": case.summary["rows"]["unreadable"],
        "rows_ok": distinct_rows(case),
        "totals": tokens(case.usage["total"]),
    }
    assert case.summary["rows"]["total"] == case.expected["rows_ok"]


def test_35_torn_tail(case: Case) -> None:
    """A last row that is not finished is told of as such, with where it begins and how long it is."""
    (main,) = (source for source in case.recording.manifest.sources if source.stream == "main")
    assert main.unread is not None
    assert case.expected == {
        "rows_ok": distinct_rows(case),
        "tail": {"bytes": main.unread.bytes, "offset": main.unread.offset, "state": "incomplete"},
        "totals": tokens(case.usage["total"]),
    }
    assert raw_bytes_kept(case)
    assert "unfinished-row" in [finding["kind"] for finding in case.document["findings"]]


def test_37_invalid_utf8_byte(case: Case) -> None:
    """A byte that is no UTF-8 is replaced in its own row, and only there; the bundle keeps it."""
    mended = [one.reason for one in case.observations if isinstance(one, Mended)]
    assert case.expected == {
        "decoded_with_replacement": mended.count("replaced-bytes"),
        "raw_bytes_kept": raw_bytes_kept(case),
        "rows_ok": distinct_rows(case),
        "totals": tokens(case.usage["total"]),
    }
    assert [node["text"]["preview"] for node in case.nodes("prompt")] == ["go", "latin \ufffd byte"]


def test_38_crlf_bom_file(case: Case) -> None:
    """A byte order mark and CR LF are no damage, and stand in the bundle as on disk."""
    assert case.expected == {
        "rows_malformed": case.summary["rows"]["unreadable"],
        "rows_ok": distinct_rows(case),
        "totals": tokens(case.usage["total"]),
    }
    assert raw_bytes_kept(case)
    assert [finding["kind"] for finding in case.document["findings"] if finding.get("problem")] == []


def test_61_ansi_bidi_controls(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """What a transcript would do to a terminal comes out as text in every form that people read; the bytes stay."""
    forbidden = [
        chr(int(code, 16)) for key in ("terminal_bytes_forbidden", "bidi_forbidden") for code in case.expected[key]
    ]
    forms = [("replay", case.recording.path, "--format", form) for form in ("tree", "summary", "bindings")]
    for arguments in (*forms, ("usage", case.source), ("usage", case.source, "--by", "model")):
        assert main([*map(str, arguments)]) == 0
        out = capsys.readouterr().out
        assert [sign for sign in forbidden if sign in out] == []
    assert raw_bytes_kept(case)


def test_70_compaction_boundary(case: Case) -> None:
    """A compaction hides nothing that was before it, and its summary is nobody's prompt."""
    tree = case.document["tree"]
    in_tree = {tuple(node["ref"]) for node in walk(tree) if "ref" in node}
    assert case.expected == {
        "compactions": case.summary["compactions"],
        "reachable_rows": len(in_tree),
        "roots": [node["kind"] for node in walk(tree)].count("session"),
        "turns": case.summary["turns"],
        "user_prompts": [node["text"]["preview"] for node in case.nodes("prompt")],
    }


def test_71_second_compact_reappends(case: Case) -> None:
    """Rows that a second compaction writes again are one node each, and counted as repeats."""
    assert case.expected == {
        "compactions": case.summary["compactions"],
        "repeated_rows": case.summary["rows"]["repeated"],
        "totals": tokens(case.usage["total"]),
        "turns": case.summary["turns"],
        "unique_rows": distinct_rows(case),
    }
    assert [node["text"]["preview"] for node in case.nodes("prompt")] == ["one", "two"]


LATER = {
    "50": "nothing is redacted yet",
    **dict.fromkeys(("60", "80"), "there is no page yet"),
    "90": "Cursor's database is not read yet",
}
"""Cases of parts that are not built yet."""


def test_every_case_has_its_function() -> None:
    """Here, in test_usage_cases.py or in test_recorder_cases.py, or it is said why not."""
    there = {path.name for path in CASES.iterdir() if path.is_dir()}
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    usage, recorder = (
        (Path(__file__).parent / f"test_{name}_cases.py").read_text(encoding="utf-8") for name in ("usage", "recorder")
    )
    tested |= {name.replace("_", "-") for name in re.findall(r"^def test_(\d\w+)\(", recorder, re.MULTILINE)}
    left = {name for name in there - tested if f'"{name[:2]}"' not in usage}
    assert {name[:2] for name in left} == LATER.keys()
    assert len(there & tested) >= 22


def test_cases_are_read_where_they_lie(tmp_path: Path) -> None:
    """Capturing a case twice stores it once, and leaves the case as it was."""
    source = CASES / "05-subagent-files-two-depths" / "input"
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    first, second = ([*capture([source], Archive(tmp_path))] for _ in range(2))
    assert [one.state for one in first + second] == ["sealed", "unchanged"]
    assert first[0].bundle == second[0].bundle
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before
    assert open_bundle(Path(first[0].bundle)).content_id == first[0].content_id
