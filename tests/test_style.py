"""The style of the house, checked where everything is checked: lint, format, types, and a sentence for each test."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, tool: str, *arguments: str) -> None:
    """Run a tool over the checkout; what it has to say is the failure."""
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint(root: Path) -> None:
    """Every rule of ruff holds, but those that pyproject.toml leaves out with a reason."""
    run(root, "ruff", "check", "--output-format", "concise", ".")


def test_format(root: Path) -> None:
    """There is one way to lay out code, and nobody has to discuss it."""
    run(root, "ruff", "format", "--check", ".")


@pytest.mark.slow
def test_types(root: Path) -> None:
    """Everything is typed, strictly, tests included."""
    run(root, "mypy")


def test_every_test_has_a_sentence(root: Path) -> None:
    """The docstring of a test is a sentence that says what must hold."""
    wrong = [
        f"{path.relative_to(root)}:{node.lineno} {node.name}"
        for path in sorted((root / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not (ast.get_docstring(node) or "").endswith(".")
    ]
    assert wrong == []


def test_every_exception_has_a_reason(root: Path) -> None:
    """A rule that is switched off, in the configuration or on a line, is switched off for a reason that is told."""
    wrong = [
        f"{path.relative_to(root)}:{number}"
        for folder in ("forensic", "tests")
        for path in sorted((root / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"# noqa(?!.* -- )|# type: ignore\[[^\]]*\](?!  # )", line)
    ]
    assert wrong == []


def test_short_modules(root: Path) -> None:
    """A module that has outgrown its room is noticed."""
    lines = {path: len(path.read_bytes().splitlines()) for path in (root / "forensic").rglob("*.py")}
    assert {path.name for path, count in lines.items() if count > 500} <= {"model.py"}
