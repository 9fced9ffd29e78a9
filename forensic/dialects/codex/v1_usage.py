"""Codex, parser version 1: what it costs. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forensic.dialects.codex.v1_common import Body, base, inner, mapping, native_text, number, text_or_none
from forensic.model import Accounting, Keeper, Observation, Row, Usage

__all__ = ["token_count", "token_usage_record"]

RUNNING: Final = "thread"
"""The counter that a ``token_count`` shows: it belongs to the thread, and goes on when a thread is resumed."""

_COUNTS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)
_TYPED: Final = _COUNTS[:-1]
_NEEDED: Final = frozenset({"input_tokens", "output_tokens"})
_LIMIT: Final = 2**63


def token_count(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """What the thread cost so far, and its latest call. Without figures the row only tells of limits."""
    said = inner(body)
    info = mapping(said.get("info"))
    yield Accounting(
        **base(row, body), family="token_count", figures=keep.value(_figures(said, info)), usage=_running(info)
    )


def _running(info: Body) -> Usage | None:
    total = info.get("total_token_usage")
    if not isinstance(total, dict):
        return None
    latest = info.get("last_token_usage")
    # behind a compaction the latest "call" is an estimate of what is left of the history: a sum, and nothing used
    if not isinstance(latest, dict) or (_only_a_sum(latest) and not _only_a_sum(total)):
        latest = None
    counts, unusable = _counts(total)
    last = None if latest is None else _counts(latest)
    return Usage(
        model=text_or_none(info.get("model")),
        **counts,
        final=True,
        running=RUNNING,
        unusable=unusable,
        last=None if last is None else Usage(**last[0], unusable=last[1]),
    )


def token_usage_record(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """What one model call cost."""
    said = inner(body)
    fields = base(row, body)
    used = said.get("usage")
    response = text_or_none(said.get("response_id"))
    if response is not None and fields["turn"] is not None:
        response = f"{fields['turn']}/{response}"
    counts, unusable = _counts(used) if isinstance(used, dict) else ({}, ("usage",))
    usage = Usage(message=response, **counts, final=True, unusable=unusable)
    yield Accounting(**fields, family="token_usage_record", usage=usage)


def _only_a_sum(told: Body) -> bool:
    """Whether nothing but the total is told: some clients write zeros for what they do not know."""
    return bool(told.get("total_tokens")) and not any(told.get(key) for key in _TYPED)


def _counts(told: Body) -> tuple[Body, tuple[str, ...]]:
    """Counts of tokens by our names, and the names of those that are none.

    The client counts what came from a cache and went into one as input, too; our input is what is left.
    """
    found: dict[str, int] = {}
    unusable: list[str] = []
    sum_only = _only_a_sum(told)
    for key in _COUNTS:
        value = told.get(key)
        if type(value) is int and 0 <= value < _LIMIT:
            found[key] = value
        elif value is not None or (key in _NEEDED and not sum_only):
            unusable.append(key)
    if sum_only:
        found = {key: value for key, value in found.items() if key == "total_tokens"}
    read, written = found.get("cached_input_tokens"), found.get("cache_write_input_tokens")
    given = found.get("input_tokens")
    counts: Body = {
        "input_tokens": None if given is None else max(given - (read or 0) - (written or 0), 0),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": found.get("output_tokens"),
        "reasoning_tokens": found.get("reasoning_output_tokens"),
        "total_tokens": found.get("total_tokens"),
    }
    return counts, tuple(unusable)


def _figures(said: Body, info: Body) -> Body:
    """The size of the context, and how much of each limit is used up."""
    figures: Body = {}
    window = info.get("model_context_window")
    if window is not None:
        figures["model_context_window"] = window
    limits = mapping(said.get("rate_limits"))
    for name in ("primary", "secondary"):
        used = number(mapping(limits.get(name)).get("used_percent"))
        if used is not None:
            figures[f"rate_limits.{name}.used_percent"] = used
    if native_text(limits.get("plan_type")):
        figures["rate_limits.plan_type"] = limits["plan_type"]
    return figures
