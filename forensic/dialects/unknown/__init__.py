"""Rows of nobody we know: carried, never guessed."""

from __future__ import annotations

from typing import Final

from forensic.dialects.dialect import Dialect
from forensic.dialects.unknown import v1

__all__ = ["DIALECT"]

DIALECT: Final = Dialect(name="unknown", versions={1: v1.PARSER})
