"""Home folders of users who run agents, for tests of what is told to harnesses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forensic.harness import HARNESSES

SETTINGS = b"""{
  // mine
  "model": "opus",
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "notify"}]}
    ],
    "SessionEnd": []
  }
}
"""
"""The settings of a user of Claude Code."""


def be(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the home folder of who runs the test, whom nothing told about harnesses, with a PATH of its own."""
    for harness in HARNESSES.values():
        monkeypatch.delenv(harness.hooks.home[0] or "NOTHING", raising=False)
    user.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("USERPROFILE", str(user))
    monkeypatch.setenv("PATH", f"{user / 'bin'}{os.pathsep}{os.defpath}")


def program(user: Path, name: str, body: str) -> Path:
    """A program of that name on the user's PATH, written for sh."""
    path = user / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
