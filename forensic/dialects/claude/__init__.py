"""Claude Code: its parser versions and the producer versions they were checked against."""

from __future__ import annotations

from typing import Final

from forensic.dialects.claude import v1
from forensic.dialects.dialect import Dialect

__all__ = ["DIALECT"]

_SEEN: Final = (
    "1.0.17 1.0.73 1.0.89 1.0.96 1.0.98 1.0.119 1.0.120 "
    "2.0.5 2.0.9 2.0.60 2.0.64 2.0.74 2.0.76 "
    "2.1.1 2.1.2 2.1.3 2.1.4 2.1.5 2.1.6 2.1.7 2.1.9 2.1.11 2.1.12 2.1.14 2.1.15 2.1.16 2.1.17 2.1.19 2.1.20 2.1.21 "
    "2.1.22 2.1.23 2.1.29 2.1.30 2.1.32 2.1.33 2.1.34 2.1.36 2.1.37 2.1.38 2.1.39 2.1.41 2.1.44 2.1.45 2.1.47 2.1.49 "
    "2.1.50 2.1.59 2.1.62 2.1.63 2.1.78 2.1.85 2.1.86 2.1.87 2.1.88 2.1.89 2.1.90 2.1.91 2.1.92 2.1.96 2.1.112 "
    "2.1.178 2.1.181 2.1.183 2.1.217 2.1.218 2.1.219"
)
"""Versions that wrote real sessions of which nothing was left unread: tests/dialects/test_claude_corpus.py."""

DIALECT: Final = Dialect(
    name="claude",
    versions={1: v1.PARSER},
    verified={"2.1.197": 1, "2.1.332": 1},
    seen=dict.fromkeys(_SEEN.split(" "), 1),
)
