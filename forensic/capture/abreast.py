"""Waiting for a disk in several places at once: syncs that are asked for together are done together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

__all__ = ["abreast"]

_MOST: Final = 8


def abreast(works: Sequence[Callable[[], None]]) -> list[Exception | None]:
    """Do all of it, and say what each came to; no thread is left, for the caller may fork."""
    if len(works) < 2:
        return [_done(work) for work in works]
    with ThreadPoolExecutor(min(_MOST, len(works))) as threads:
        return list(threads.map(_done, works))


def _done(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 -- whoever asked decides what it means
        return error
    return None
