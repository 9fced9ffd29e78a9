"""The number of the meaning of a replay."""

from __future__ import annotations

from typing import Final

__all__ = ["REPLAY_VERSION"]

REPLAY_VERSION: Final = 3
"""Raised with every change of meaning in turns, reconcile, usage or summary."""
