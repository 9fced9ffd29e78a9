"""Cursor: its parser versions and the producer versions they were checked against."""

from __future__ import annotations

from typing import Final

from forensic.dialects.cursor import v1
from forensic.dialects.dialect import Dialect

__all__ = ["DIALECT"]

DIALECT: Final = Dialect(name="cursor", versions={1: v1.PARSER})
