"""The golden recordings hold: capture makes them again, replay reads them as it did."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from golden_extension import (
    CASES,
    FROM_SOURCES,
    GOLDEN,
    IDS,
    LIVE,
    MADE,
    SessionExtension,
    document_of,
    laid_out,
    record_source,
)

from forensic.dialects.registry import DIALECTS
from forensic.model import Payload
from forensic.recording import open_recording

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

VERSIONS = [
    pytest.param(case, version, id=f"{name}-parser-{version}")
    for case, name in zip(CASES, IDS, strict=True)
    for version in sorted(DIALECTS[case.parent.name].versions)
]


def named(case: Path) -> str:
    """What a case is called."""
    return case.relative_to(GOLDEN).as_posix()


def files_of(directory: Path) -> dict[str, bytes]:
    """What capture made in a case, by name."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for made in MADE
        for path in [directory / made, *sorted((directory / made).rglob("*"))]
        if path.is_file()
    }


def put(made: dict[str, bytes], case: Path) -> None:
    """Replace the recording of a case."""
    for name in MADE:
        shutil.rmtree(case / name, ignore_errors=True)
        (case / name).unlink(missing_ok=True)
    for name, data in made.items():
        (case / name).parent.mkdir(exist_ok=True)
        (case / name).write_bytes(data)


@pytest.mark.parametrize("case", FROM_SOURCES, ids=named)
def test_capture_makes_the_recording_again(case: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Capturing `source/` gives the recording beside it, byte for byte."""
    record_source(case, tmp_path / "made")
    made = files_of(tmp_path / "made")
    if pytestconfig.getoption("update_snapshots") and files_of(case) != made:
        put(made, case)
    assert files_of(case) == made


@pytest.mark.parametrize("case", LIVE, ids=named)
def test_a_live_recording_is_sound(case: Path) -> None:
    """What was recorded while a client ran holds payloads, what was read between them, and no damage."""
    bundle = open_recording(case).bundle
    bundle.check()
    payloads = [entry.n for entry in bundle.timeline() if isinstance(entry, Payload)]
    assert payloads == list(range(1, len(payloads) + 1))
    assert payloads
    assert {line.after or 0 for line in bundle.bindings()} <= {0, *payloads}
    assert len({line.after for line in bundle.bindings()}) > 1


@pytest.mark.parametrize(("case", "version"), VERSIONS)
def test_replay_gives_the_golden_session(case: Path, version: int, snapshot: SnapshotAssertion) -> None:
    """Each parser version reads the recording as its golden session says."""
    session = open_recording(case).replay(version)
    name = f"{case.relative_to(GOLDEN).as_posix()}/sessions/parser-{version}"
    assert laid_out(document_of(session)) == snapshot(name=name, extension_class=SessionExtension)


FINDINGS = {
    "claude/deep-row": {"result-without-call", "unreadable"},
    "claude/flat-agent-old-layout": {"subagent-unlinked"},
    "claude/half-written-row": {"unfinished-row", "unreadable"},
    "claude/joined-and-spliced-rows": {"mended", "unreadable"},
    "claude/live-transcript-deleted": {"repeated"},
    "claude/nul-run-and-bom": {"mended", "unreadable"},
    "claude/odd-json": {"mended", "unreadable"},
    "claude/second-compaction-repeats-rows": {"repeated"},
    "claude/u2028-and-lone-surrogate": {"mended"},
    "claude/unterminated-last-row": {"unterminated-row"},
    "claude/workflow-subagent": {"subagent-unlinked"},
    "codex/fork-with-copied-history": {"inherited-history"},
    "copilot/torn-tail": {"unfinished-row", "unreadable"},
    "cursor/crlf-u2028-and-no-last-line-end": {"unterminated-row"},
    "cursor/live-resumed-and-rewritten": {"repeated"},
    "cursor/subagent-file": {"subagent-unlinked"},
    "cursor/unknown-rows-and-blocks": {"unreadable"},
    "unknown/another-tool": {"unreadable"},
}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_findings_are_told_where_there_is_trouble_and_nowhere_else(case: Path) -> None:
    """A recording with nothing wrong in it has no finding, however peculiar it is."""
    session = open_recording(case).replay()
    expected = FINDINGS.get(case.relative_to(GOLDEN).as_posix(), set())
    assert {finding.kind for finding in session.findings} == expected


def test_no_orphans() -> None:
    """Every file below golden/ belongs to a case: to its source, its recording, or a parser version there is."""
    known = {GOLDEN / "README.md", *(GOLDEN / "sealed").glob("*.zst")}  # those are held by test_sealed.py
    for case in CASES:
        known.update(path for name in ("source", *MADE) for path in (case / name, *(case / name).rglob("*")))
        known.update(case / f"sessions/parser-{version}.json" for version in DIALECTS[case.parent.name].versions)
    assert sorted(path for path in GOLDEN.rglob("*") if path.is_file() and path not in known) == []


def test_there_is_a_case_for_every_peculiarity() -> None:
    """The recordings that the format and the dialect were built for are all there."""
    assert {
        "claude/a-working-day",
        "claude/compaction-and-summary",
        "claude/deep-row",
        "claude/denied-and-interrupted",
        "claude/flat-agent-old-layout",
        "claude/half-written-row",
        "claude/hook-attachments",
        "claude/joined-and-spliced-rows",
        "claude/live-helper-in-the-foreground",
        "claude/live-read-edit-run",
        "claude/live-transcript-deleted",
        "claude/mcp-and-server-tools",
        "claude/nul-run-and-bom",
        "claude/odd-json",
        "claude/opaque-thinking",
        "claude/parallel-calls-split-rows",
        "claude/resumed-and-task-notification",
        "claude/second-compaction-repeats-rows",
        "claude/slash-command-and-skill",
        "claude/spilled-tool-result",
        "claude/subagent-file-and-progress",
        "claude/subagent-from-progress-only",
        "claude/subagent-linked-by-meta",
        "claude/subagent-linked-by-result",
        "claude/synthetic-and-api-error",
        "claude/times-go-back",
        "claude/titles-only",
        "claude/two-tools-one-row",
        "claude/u2028-and-lone-surrogate",
        "claude/unicode-scripts",
        "claude/unknown-family-and-block",
        "claude/unterminated-last-row",
        "claude/usage-placeholder-lower-bound",
        "claude/workflow-subagent",
        "codex/aborted-turns",
        "codex/compaction",
        "codex/editor-context-pictures-and-skills",
        "codex/failed-and-patched-commands",
        "codex/fork-that-names-its-history",
        "codex/fork-with-copied-history",
        "codex/javascript-cell",
        "codex/live-read-edit-run",
        "codex/live-resumed-in-a-javascript-cell",
        "codex/live-transcript-deleted",
        "codex/old-unversioned",
        "codex/paginated-with-ordinals",
        "codex/repeated-token-counts",
        "codex/spawned-thread",
        "codex/total-only-and-null-info",
        "codex/two-session-metas",
        "codex/unknown-families",
        "copilot/a-skill-and-a-mode",
        "copilot/a-whole-session",
        "copilot/aborted-and-killed",
        "copilot/compaction-with-its-own-call",
        "copilot/counters-go-on-after-a-resume",
        "copilot/counters-restart-at-each-resume",
        "copilot/flat-file-of-the-first-versions",
        "copilot/hooks-that-run-fail-and-block",
        "copilot/live-helpers",
        "copilot/live-read-edit-run",
        "copilot/live-refused",
        "copilot/output-tokens-and-shutdown",
        "copilot/own-key-and-a-model-that-is-none",
        "copilot/parallel-calls-chained-by-parent-id",
        "copilot/permissions-asked-and-denied",
        "copilot/subagents-by-agent-id",
        "copilot/thoughts-readable-sealed-and-told-ahead",
        "copilot/tools-that-fail",
        "copilot/torn-tail",
        "copilot/units-from-checkpoints-only",
        "copilot/unknown-rows-and-requests",
        "cursor/a-working-day",
        "cursor/attached-skills",
        "cursor/background-task-ends",
        "cursor/crlf-u2028-and-no-last-line-end",
        "cursor/dynamic-mcp-calls",
        "cursor/failed-and-aborted-turns",
        "cursor/flat-rows-and-text",
        "cursor/live-edit-and-run",
        "cursor/live-resumed-and-rewritten",
        "cursor/pictures-and-attachments",
        "cursor/redacted-thoughts",
        "cursor/subagent-file",
        "cursor/text-alone",
        "cursor/text-only-period",
        "cursor/unknown-rows-and-blocks",
        "unknown/another-tool",
    } == set(IDS)


def test_nothing_of_this_machine_is_published() -> None:
    """Recordings name no folder of the machine that made them, and no person."""
    here = str(GOLDEN.parent.resolve()).encode()
    home = str(Path.home()).encode()
    told = [path for path in GOLDEN.rglob("*") if path.is_file() and here in path.read_bytes()]
    told += [path for path in GOLDEN.rglob("manifest.json") if home != b"/" and home in path.read_bytes()]
    assert told == []
