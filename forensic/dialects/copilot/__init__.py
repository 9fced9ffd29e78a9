"""Copilot CLI: its parser versions and the producer versions they were checked against."""

from __future__ import annotations

from typing import Final

from forensic.dialects.copilot import v1
from forensic.dialects.dialect import Dialect

__all__ = ["DIALECT"]

_SEEN: Final = "0.0.354 1.0.27 1.0.64 1.0.64-1 1.0.64-3 1.0.68 1.0.74"
"""Versions that wrote real sessions of which nothing was left unread: tests/dialects/test_copilot_corpus.py."""

DIALECT: Final = Dialect(
    name="copilot",
    versions={1: v1.PARSER},
    verified={"1.0.102": 1},
    seen=dict.fromkeys(_SEEN.split(" "), 1),
)
