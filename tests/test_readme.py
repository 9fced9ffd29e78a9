"""The tour in the README is what really happens."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensic.cli import main

TOUR = "/tmp/tour"  # noqa: S108 -- only a name in the README, nothing is written there
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?!:)|\d+\.\d [kM]B")
"""When a bundle was captured, and its size, which depends on the paths and versions that its manifest names."""


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands of the README with what it shows of their answers."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for told in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = told.partition("\n")
            yield command, shown.splitlines()


def export(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables that the README sets, but for the folder of its program: ours runs in this process."""
    for word in shlex.split(command)[1:]:
        name, _, value = word.partition("=")
        if name != "PATH":
            monkeypatch.setenv(name, value)


def answer(command: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What a command says when it is run, less what varies."""
    words = shlex.split(command)
    capfd.readouterr()
    if words[0] == "forensic":
        assert main(words[1:]) == 0
        said = capfd.readouterr().out
    else:
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [VARIES.sub("", line) for line in said.splitlines()]


def test_tour(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Each line that the README shows comes out of the command above it, in that order."""
    monkeypatch.chdir(root)
    monkeypatch.delenv("FORENSIC_HOME")
    monkeypatch.delenv("COLUMNS", raising=False)
    played = 0
    for command, shown in blocks((root / "README.md").read_text(encoding="utf-8")):
        if command.startswith("make ") or (command.startswith("tar ") and shutil.which("zstd") is None):
            continue
        if command.startswith("export "):
            export(command.replace(TOUR, str(home)), monkeypatch)
            continue
        if command.startswith("forensic "):
            # a command that would go to the archive of whoever runs the tests is not run at all
            assert os.environ.get("FORENSIC_HOME") == str(home)
        said = iter(answer(command.replace(TOUR, str(home)), capfd))
        for line in shown:
            wanted = VARIES.sub("", line.replace(TOUR, str(home)))
            assert wanted == "..." or wanted in said, f"$ {command}\n{line}"
        played += 1
    assert os.environ["COLUMNS"] == "88"
    assert played >= 8


def test_demo(root: Path) -> None:
    """The demo shows each command on what the ones before it left, on a few screens, and ends well."""
    done = subprocess.run([sys.executable, "-m", "forensic.demo"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) < 180
    assert lines[1] == "$ forensic capture golden/*/*/source"
    assert lines[3].startswith("sealed ")
    sessions = len(list((root / "golden").glob("*/*/source")))
    assert f"{sessions} sessions: {sessions} sealed" in lines
    assert f"{sessions} bundles: {sessions} ok" in lines
    assert "Tokens" in lines
    producers = [line.split()[0] for line in lines if " · session " in line and " session start" not in line]
    assert producers == ["claude", "codex", "copilot", "cursor"]
    assert [line.split()[0] for line in lines[-9:-3]] == ["harness", "claude", "codex", "copilot", "cursor", "total"]
    assert lines[-3:] == [
        "",
        "4 sessions, each call counted once; all rows together tell 1.58 times as much",
        "? 1 session tells no usage: what it cost is unknown",
    ]
    assert [line for line in lines if line.startswith("unchanged")] == []


def test_two_commands(root: Path) -> None:
    """The two commands that set everything up are targets of the Makefile, and CI runs the second one as it stands."""
    text = (root / "README.md").read_text(encoding="utf-8")
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for command in ("demo", "test"):
        assert f"$ make {command} " in text
        assert f"\n{command}: " in makefile
    assert "\nmake test\n" in (root / ".ci" / "run").read_text(encoding="utf-8")


def test_links(root: Path) -> None:
    """No page links to a file that is not there."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "golden").glob("*.md")]
    broken = [
        f"{page.relative_to(root)}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []
