"""Fixtures of the capture tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from homes import Lay


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Writes files, given by their paths below a fresh folder, and gives that folder."""

    def write(files: Mapping[str, bytes]) -> Path:
        root = tmp_path / "home"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return root.resolve()

    return write


@pytest.fixture
def open_umask() -> Iterator[None]:
    """An umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)
