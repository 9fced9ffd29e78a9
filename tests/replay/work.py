"""Work, counted: how many bytecodes of `forensic` something runs. No clock, so the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import forensic

__all__ = ["grows_with_the_rows", "work"]

_OURS = str(Path(forensic.__file__).parent)
_SIZE = 96


def work(do: Callable[[], object]) -> int:
    """The bytecodes that `do` runs in modules of ours, what they call elsewhere not counted."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            if not frame.f_code.co_filename.startswith(_OURS):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return count


def grows_with_the_rows(make: Callable[[int], Sequence[Any]], do: Callable[[Sequence[Any]], object]) -> bool:
    """Whether four times as many rows take about four times the work, and not sixteen times."""
    few, many = make(_SIZE), make(4 * _SIZE)
    do(make(_SIZE))  # what is made once is made now
    return work(lambda: do(many)) < 6 * work(lambda: do(few))
