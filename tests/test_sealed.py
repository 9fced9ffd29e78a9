"""Sealed bundles of every released format and dialect: they open, verify and replay for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from forensic.recording import open_recording
from forensic.replay.version import REPLAY_VERSION

FROZEN = {
    "claude-format-1.zst": "9562515381e61f8ff93afaf22be2226247f9a64ad7ec353103ef39c4bc93f722",
    "codex-format-1.zst": "b5e9fe1061c08888b3f894f6cc40bed1ce973b21722022cfa92682957b1b0227",
    "copilot-format-1.zst": "6859e72a6a8c98f7cf84429a159774f2c2a0b09ac1a7b227601f77fd0991be58",
    "cursor-format-1.zst": "98de1e23bc7cbb36fdea75accd66226986ab6236171cba85ebb06afc35bc644b",
    "unknown-format-1.zst": "05768dee03f2bd395f41d3d30ff6a7e4f00a84065a8160e2c16d614b5e27f37c",
}
"""Each file with its SHA-256: a sealed bundle is never changed, these least of all."""


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_a_frozen_bundle_is_what_it_was_and_still_verifies(root: Path, name: str) -> None:
    """Its bytes, its verdict, its tree."""
    path = root / "golden" / "sealed" / name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == FROZEN[name]
    recording = open_recording(path)
    assert recording.manifest.format == 1
    report, verdict = recording.verify(), recording.verdict()
    assert verdict is not None
    # what was observed holds for ever; of a tree made by other rules verify says that they were others
    older = ["replay-version"] if verdict.replay_version != REPLAY_VERSION else []
    assert (report.ok, [finding.kind for finding in report.findings]) == (True, older)
    assert recording.replay().observations > 0


def test_no_frozen_bundle_is_forgotten(root: Path) -> None:
    """The folder holds these and no others."""
    assert sorted(path.name for path in (root / "golden" / "sealed").glob("*.zst")) == sorted(FROZEN)
