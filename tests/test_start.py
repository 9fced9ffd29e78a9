"""How much a start brings in: sets of modules, which are the same on a busy machine, instead of times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forensic.cli import main

OURS_FOR_HELP = {"forensic", "forensic.cli"}

PROBE = """
import json, sys
before = set(sys.modules)
{code}
sys.stdout.flush()
print("\\n" + json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)
"""


def brought_in(code: str, home: Path) -> set[str]:
    """Modules that are there after `code` and were not before, in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(code=code)],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "FORENSIC_HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def command(*arguments: str) -> str:
    return f"from forensic.cli import main; main({list(arguments)!r})"


def third_party(modules: set[str]) -> set[str]:
    """Top-level names that are neither ours nor the standard library's."""
    return {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"forensic"}


def test_import(home: Path) -> None:
    """Importing the package brings in the package and nothing else."""
    assert brought_in("import forensic", home) <= {"forensic", "__future__"}


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("--version",)])
def test_help(home: Path, arguments: tuple[str, ...]) -> None:
    """Help and version are answered by two small modules of ours."""
    assert brought_in(command(*arguments), home) <= {"__future__", *OURS_FOR_HELP}


def test_help_is_what_typer_renders(root: Path) -> None:
    """The committed text is what typer makes of the application: `make help-text` renews it."""
    done = subprocess.run(
        [sys.executable, "-m", "forensic.cli.app", "--help"], cwd=root, capture_output=True, check=True, text=True
    )
    assert (root / "forensic" / "cli" / "help.txt").read_text(encoding="utf-8") == done.stdout


def test_help_fits(root: Path) -> None:
    """The help text fits a terminal of 80 columns."""
    lines = (root / "forensic" / "cli" / "help.txt").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 80


def test_list(root: Path, home: Path) -> None:
    """Listing reads manifests and verdicts: no parser, no replay, no renderer of sessions, no rich, no pydantic."""
    assert main(["capture", str(root / "golden" / "claude" / "a-working-day" / "source")]) == 0
    modules = brought_in(command("list"), home)
    assert {"typer", "msgspec"} <= third_party(modules)
    assert third_party(modules).isdisjoint({"rich", "pydantic", "pygments"})
    for absent in ("dialects", "replay", "recording", "capture", "renderers.terminal", "renderers.document"):
        assert [name for name in modules if name.startswith(f"forensic.{absent}")] == []


def test_verify_without_terminal(home: Path) -> None:
    """A command that draws nothing leaves rich alone."""
    assert "rich" not in third_party(brought_in(command("verify", "nowhere"), home))


def test_face(home: Path) -> None:
    """A name of the face brings in what it needs and no more."""
    modules = brought_in("import forensic; forensic.Session", home)
    assert {name for name in modules if name.startswith("forensic.")} == {"forensic.model"}


def test_face_is_whole() -> None:
    """Every name of the face can be had, and only those."""
    import forensic

    for name in forensic.__all__:
        assert getattr(forensic, name) is not None
    assert set(forensic.__all__) <= set(dir(forensic))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = forensic.nonsense
