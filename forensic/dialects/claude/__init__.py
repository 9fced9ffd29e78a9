"""Claude Code: its parser versions and the producer versions they were checked against."""

from __future__ import annotations

from typing import Final

from forensic.dialects.claude import v1
from forensic.dialects.dialect import Dialect

__all__ = ["DIALECT"]

DIALECT: Final = Dialect(name="claude", versions={1: v1.PARSER}, verified={}, seen={})
