"""Golden recordings and hooks are found wherever forensic is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensic import data
from forensic.errors import Unusable


def test_checkout(root: Path) -> None:
    """In a checkout they lie at the top."""
    assert data.folder("golden") == root / "golden"
    assert data.folder("hooks") == root / "hooks"


def test_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wheel they lie in the package, and win over what may lie beside it."""
    (tmp_path / "forensic" / "_data" / "golden").mkdir(parents=True)
    (tmp_path / "golden").mkdir()
    monkeypatch.setattr(data, "_PACKAGE", tmp_path / "forensic")
    assert data.folder("golden") == tmp_path / "forensic" / "_data" / "golden"


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without them says so in one line."""
    monkeypatch.setattr(data, "_PACKAGE", tmp_path / "forensic")
    with pytest.raises(Unusable, match="has no hooks folder: install it again"):
        data.folder("hooks")
