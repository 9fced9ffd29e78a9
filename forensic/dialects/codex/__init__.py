"""Codex: its parser versions and the producer versions they were checked against."""

from __future__ import annotations

from typing import Final

from forensic.dialects.codex import v1
from forensic.dialects.dialect import Dialect

__all__ = ["DIALECT"]

_SEEN: Final = (
    "0.36.0 0.39.0 0.53.0 0.55.0 0.63.0 0.70.0-alpha.4 0.72.0 0.92.0 "
    "0.106.0 0.115.0-alpha.11 0.115.0-alpha.27 0.118.0 0.140.0 0.142.1 0.142.2"
)
"""Versions that wrote real sessions of which nothing was left unread: tests/dialects/test_codex_corpus.py.

The oldest files name no version.
"""

DIALECT: Final = Dialect(
    name="codex",
    versions={1: v1.PARSER},
    verified={"0.171.0": 1},
    seen=dict.fromkeys(_SEEN.split(" "), 1),
)
