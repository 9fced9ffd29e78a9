"""Copilot CLI, parser version 1: what calls cost, and the client's own accounts. Part of v1: frozen with it.

The client's input tokens include those that a cache gave or took; ours do not, so both are taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from forensic.dialects.copilot.v1_common import Body, flat, mapping, number, picked, sequence, text_or_none
from forensic.model import Accounting, Keeper, Observation, SessionEnd, Usage

__all__ = ["accounts", "call_cost", "message_cost", "model_call", "usage_checkpoint", "usage_record"]

_LIMIT: Final = 2**63
_INPUT: Final = "input_tokens"
_CACHES: Final = ("cache_read_tokens", "cache_write_tokens")
_NAMES: Final = {
    "inputTokens": _INPUT,
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
}
_BILLED: Final = {"input": _INPUT, "cache_read": "cache_read_tokens", "cache_write": "cache_write_tokens"}
_UNITS: Final = {"totalNanoAiu": "nano_aiu", "totalPremiumRequests": "premium_requests"}


# --- tokens -----------------------------------------------------------------------------------------------------------


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _LIMIT


def _counts(said: Body, names: Mapping[str, str], unusable: list[str]) -> Body:
    """Counts of tokens by our names; what is none is named in `unusable`, what is not there is not told."""
    counts: Body = {}
    for key, name in names.items():
        if _is_count(said.get(key)):
            counts[name] = said[key]
        elif said.get(key) is not None:
            unusable.append(key)
    return counts


def _figures(said: Body, billed: object = None) -> Body:
    """The token fields of a usage: as the bill itemises the input when it does, else the input less its caches."""
    unusable: list[str] = []
    counts = _counts(said, _NAMES, unusable)
    told = counts.get(_INPUT)
    if told is not None:
        items = _items(billed)
        if items.keys() == set(_BILLED.values()) and sum(items.values()) == told:
            counts.update(items)
        else:
            counts[_INPUT] = max(told - sum(counts.get(cache, 0) for cache in _CACHES), 0)
    return {**counts, "unusable": tuple(unusable), "final": True}


def _items(billed: object) -> dict[str, int]:
    """The input as it was billed; the client does not always know what went to a cache, the bill does.

    Either a list of ``{tokenType, tokenCount}`` or an object of ``{tokenCount}`` by type. What was not billed is 0.
    """
    if isinstance(billed, dict):
        told = {kind: mapping(item).get("tokenCount") for kind, item in billed.items()}
    else:
        items = [mapping(item) for item in sequence(billed)]
        told = {text_or_none(item.get("tokenType")) or "": item.get("tokenCount") for item in items}
    unusable: list[str] = []
    counts = _counts(told, _BILLED, unusable)
    return {} if not told or unusable else dict.fromkeys(_BILLED.values(), 0) | counts


# --- one call ---------------------------------------------------------------------------------------------------------


def message_cost(data: Body, call: str | None) -> Usage | None:
    """What a message says of its call: its output in most versions, nothing where a record of usage does."""
    said = (picked(data, "outputTokens") or {}) | (picked(mapping(data.get("usage")), *_NAMES) or {})
    if not said:
        return None
    return Usage(
        message=call,
        request=text_or_none(data.get("requestId")),
        model=text_or_none(data.get("model")),
        **_figures(said),
    )


def call_cost(data: Body) -> Usage | None:
    """What a compaction says of the call that it made.

    A call has no other name here than its request; without one it could not be told from what `model_call` counts.
    """
    said = data.get("compactionTokensUsed")
    request = text_or_none(data.get("requestId"))
    if not isinstance(said, dict) or request is None:
        return None
    billed = mapping(said.get("copilotUsage")).get("tokenDetails")
    return Usage(request=request, model=text_or_none(said.get("model")), **_figures(said, billed))


def usage_record(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """One model call, with all that the client measured."""
    said = data.get("usage")
    if not isinstance(said, dict):
        return
    call = text_or_none(said.get("apiCallId"))
    usage = Usage(
        message=call,
        request=text_or_none(said.get("providerCallId")),
        model=text_or_none(said.get("model")),
        **_figures(said, mapping(said.get("copilotUsage")).get("tokenDetails")),
    )
    others = flat({key: value for key, value in said.items() if key not in ("apiCallId", "model", *_NAMES)})
    fields["step"] = call
    yield Accounting(**fields, family="session.usage_record", figures=keep.value(others), usage=usage)


_WIRE: Final = {"prompt_tokens": _INPUT, "completion_tokens": "output_tokens"}
_WIRE_READ: Final = {"cached_tokens": "cache_read_tokens", "cache_creation_tokens": "cache_write_tokens"}
_WIRE_MADE: Final = {"reasoning_tokens": "reasoning_tokens"}
_CALL_FIGURES: Final = ("modelCallDurationMs", "ttftMs", "outputTtftMs", "interTokenLatencyMs", "reasoningEffort")


def model_call(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A model call as it went over the wire, told of calls that make no message: those of a compaction."""
    made, said = mapping(data.get("modelCall")), data.get("responseUsage")
    usage = None
    if isinstance(said, dict):
        unusable: list[str] = []
        counts = _counts(said, _WIRE, unusable)
        counts |= _counts(mapping(said.get("prompt_tokens_details")), _WIRE_READ, unusable)
        counts |= _counts(mapping(said.get("completion_tokens_details")), _WIRE_MADE, unusable)
        if _INPUT in counts:
            counts[_INPUT] = max(counts[_INPUT] - sum(counts.get(cache, 0) for cache in _CACHES), 0)
        usage = Usage(
            message=text_or_none(made.get("api_id")),
            request=text_or_none(data.get("requestId")) or text_or_none(made.get("request_id")),
            model=text_or_none(made.get("model")),
            unusable=tuple(unusable),
            final=True,
            **counts,
        )
    figures = keep.value(picked(data, *_CALL_FIGURES) or {})
    yield Accounting(**fields, family="model.model_call_success", figures=figures, usage=usage)


# --- totals -----------------------------------------------------------------------------------------------------------


def usage_checkpoint(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """What the session was billed so far, in the producer's own units."""
    figures = keep.value(picked(data, *_UNITS) or {})
    yield Accounting(**fields, family="session.usage_checkpoint", figures=figures, usage=_units(data))


def _units(data: Body) -> Usage | None:
    units: dict[str, int | float] = {
        name: amount for key, name in _UNITS.items() if (amount := number(data.get(key))) is not None
    }
    return Usage(running="session", units=units, calls=0, final=True) if units else None


_SESSION_FIGURES: Final = (
    "totalNanoAiu",
    "totalPremiumRequests",
    "totalApiDurationMs",
    "sessionStartTime",
    "eventsFileSizeBytes",
    "codeChanges",
    "tokenDetails",
    "agentMetrics",
    "currentModel",
    "currentTokens",
    "systemTokens",
    "conversationTokens",
    "toolDefinitionsTokens",
)
_SNAPSHOT_FIGURES: Final = ("totalUserRequests", "totalPremiumRequestCost", "aiCreditsStatus")


def accounts(fields: Body, data: Body, keep: Keeper) -> Iterator[Observation]:
    """The end of a session, its totals for each model, and what is the session's as a whole."""
    yield SessionEnd(**fields, reason=text_or_none(data.get("shutdownType")))
    snapshot = mapping(data.get("accountingSnapshot"))
    for model, told in mapping(data.get("modelMetrics") or snapshot.get("modelMetrics")).items():
        metrics = mapping(told)
        usage = Usage(
            running=f"model:{model}",
            model=text_or_none(model),
            calls=_requests(metrics),
            **_figures(mapping(metrics.get("usage")), metrics.get("tokenDetails")),
        )
        yield Accounting(**fields, family="session.shutdown", figures=keep.value(flat(metrics)), usage=usage)
    figures: dict[str, Any] = {
        **flat(picked(data, *_SESSION_FIGURES) or {}),
        **(picked(snapshot, *_SNAPSHOT_FIGURES) or {}),
    }
    yield Accounting(**fields, family="session.shutdown", figures=keep.value(figures), usage=_units(data))


def _requests(metrics: Body) -> int | None:
    count = mapping(metrics.get("requests")).get("count")
    return count if _is_count(count) else None
