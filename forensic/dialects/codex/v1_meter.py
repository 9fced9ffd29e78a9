"""Codex, parser version 1: the short way to running totals, by the readers' own rules. Part of v1: frozen with it.

Nine of ten rows that matter to usage are ``token_count`` events, nearly all of one shape; whatever has another one
raises and is left to the readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from forensic.dialects.codex.v1_common import text_or_none, whole
from forensic.dialects.codex.v1_usage import RUNNING
from forensic.dialects.parser import Meter
from forensic.jsonio import deeper_than
from forensic.model import Accounting, Observation, Row, SetAside, Usage, utc

__all__ = ["METER"]

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Counts(Struct, gc=False):
    input_tokens: _Count
    output_tokens: _Count
    cached_input_tokens: _Count | None = None
    cache_write_input_tokens: _Count | None = None
    reasoning_output_tokens: _Count | None = None
    total_tokens: _Count | None = None


class _Info(Struct, gc=False):
    total_token_usage: _Counts
    last_token_usage: _Counts | None = None
    model: str | None = None


class _Payload(Struct, gc=False):
    type: Any = None
    turn_id: str | None = None
    internal_chat_message_metadata_passthrough: Raw | UnsetType = UNSET
    info: _Info | None = None


class _Row(Struct, gc=False):
    payload: _Payload
    type: Any = None
    timestamp: datetime | None = None
    ordinal: Any = None


_decode: Final = msgspec.json.Decoder(_Row).decode


def _slim(row: Row) -> Sequence[Observation]:
    """What `token_count` says of usage. Raises for any other row, and when the row is not as it expects it."""
    if deeper_than(row.raw):
        raise ValueError("nests too deep")
    body = _decode(row.raw)
    said = body.payload
    if body.type != "event_msg" or said.type != "token_count":
        raise ValueError("another event")
    if said.internal_chat_message_metadata_passthrough is not UNSET:
        raise ValueError("with a turn of its own")
    if said.info is None:
        return ()
    at, last = body.timestamp, said.info.last_token_usage
    return (
        Accounting(
            ref=row.ref,
            at=at if at is None or at.tzinfo is UTC else utc(at.isoformat()),
            turn=text_or_none(said.turn_id),
            agent=row.agent,
            ordinal=whole(body.ordinal),
            family="token_count",
            usage=Usage(
                model=text_or_none(said.info.model),
                **_counts(said.info.total_token_usage),
                final=True,
                running=RUNNING,
                last=None if last is None or _only_a_sum(last) else Usage(**_counts(last)),
            ),
        ),
    )


def _only_a_sum(told: _Counts) -> bool:
    parts = (told.input_tokens, told.output_tokens, told.cached_input_tokens)
    return bool(told.total_tokens) and not any((*parts, told.cache_write_input_tokens, told.reasoning_output_tokens))


def _counts(told: _Counts) -> dict[str, Any]:
    if _only_a_sum(told):
        raise ValueError("a total alone")
    read, written = told.cached_input_tokens, told.cache_write_input_tokens
    return {
        "input_tokens": max(told.input_tokens - (read or 0) - (written or 0), 0),
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": told.output_tokens,
        "reasoning_tokens": told.reasoning_output_tokens,
        "total_tokens": told.total_tokens,
    }


class _Moment(Struct, gc=False):
    timestamp: Any = None
    ordinal: Any = None


_moment: Final = msgspec.json.Decoder(_Moment).decode


def _clock(row: Row) -> Observation:
    """When a row was written, and its number; nothing else is read of it."""
    if deeper_than(row.raw):
        raise ValueError("nests too deep")
    body = _moment(row.raw)
    return SetAside(
        ref=row.ref, at=utc(body.timestamp), agent=row.agent, ordinal=whole(body.ordinal), family="not read"
    )


METER: Final = Meter(
    needles=(
        b'"instructions"',
        b'"session_meta"',
        b'"thread_settings_applied"',
        b'"token_count"',
        b'"token_usage_record"',
        b'"turn_context"',
    ),
    slim=_slim,
    clock=_clock,
)
