"""Claude Code, parser version 1: the short way to usage, by the readers' own rules. Part of v1: frozen with it.

Only what usage needs of a row is decoded, and only rows that are as they should be are read here: whatever has another
type than expected raises, and the readers decide what to make of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from sys import intern
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from forensic.dialects.claude.v1_common import TRIM, text_or_none
from forensic.dialects.parser import Meter
from forensic.jsonio import deeper_than
from forensic.model import Told, utc

__all__ = ["METER"]

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


_ABSENT: Final = -1
"""No count: a key that is not there, where null would be a count that is none."""


class _Creation(Struct, gc=False):
    ephemeral_5m_input_tokens: _Count = _ABSENT
    ephemeral_1h_input_tokens: _Count = _ABSENT


class _Details(Struct, gc=False):
    thinking_tokens: _Count = _ABSENT


class _Usage(Struct, gc=False):
    input_tokens: _Count
    output_tokens: _Count
    cache_read_input_tokens: _Count = _ABSENT
    cache_creation_input_tokens: _Count = _ABSENT
    cache_creation: _Creation | None = None
    output_tokens_details: _Details | None = None


class _Message(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | UnsetType = UNSET


class _Inner(Struct, gc=False):
    """A subagent's row inside a progress row."""

    type: Any = None
    uuid: str | None = None
    timestamp: datetime | None = None
    requestId: str | None = None  # noqa: N815 -- the producer's name
    message: _Message | None = None


class _Data(Struct, gc=False):
    type: Any = None
    agentId: str | None = None  # noqa: N815 -- the producer's name
    message: _Inner | None = None


class _Row(Struct, gc=False):
    type: Any = None
    uuid: str | None = None
    timestamp: datetime | None = None
    agentId: str | None = None  # noqa: N815 -- the producer's name
    isSidechain: Any = None  # noqa: N815 -- the producer's name
    requestId: str | None = None  # noqa: N815 -- the producer's name
    message: _Message | None = None
    data: _Data | None = None


_decode: Final = msgspec.json.Decoder(_Row).decode


def _read(raw: bytes, stream: str, _agent: str | None) -> Told | None:
    """What `assistant` and `agent_progress` say of usage. Raises when the row is not as they expect it."""
    if deeper_than(raw):
        raise ValueError("nests too deep")
    body = _decode(raw)
    if body.type == "assistant":
        agent = text_or_none(body.agentId)
        if agent is None:
            if stream.startswith("agent-"):
                agent = text_or_none(stream[6:])
            elif body.isSidechain is True:
                agent = "sidechain"
        return _told(body, agent, None)
    data = body.data
    if body.type != "progress" or data is None or data.type != "agent_progress":
        return None
    agent, inner = text_or_none(data.agentId), data.message
    if agent is None or inner is None or inner.type != "assistant":
        return None
    return _told(inner, agent, "progress")


def _told(body: _Row | _Inner, agent: str | None, via: str | None) -> Told | None:
    message = body.message
    if message is None or message.model == "<synthetic>":
        return None
    said, request = message.usage, body.requestId
    if said is UNSET:
        return None
    creation, details = said.cache_creation, said.output_tokens_details
    read, write = said.cache_read_input_tokens, said.cache_creation_input_tokens
    counts = (
        said.input_tokens,
        said.output_tokens,
        None if read < 0 else read,
        None if write < 0 else write,
        None if creation is None else _count(creation.ephemeral_5m_input_tokens),
        None if creation is None else _count(creation.ephemeral_1h_input_tokens),
        None if details is None else _count(details.thinking_tokens),
        None,
    )
    at = body.timestamp
    return Told(
        message=message.id or None,
        request=(request.strip(TRIM) or None) if request else None,
        model=intern(message.model) if message.model else None,
        counts=counts,
        final=message.stop_reason is not None,
        unusable=False,
        # times are in UTC or not worth a short way
        at=at if at is None or at.tzinfo is UTC else utc(at.isoformat()),
        agent=agent,
        row=body.uuid or None,
        via=via,
    )


def _count(value: int) -> int | None:
    return None if value < 0 else value


METER: Final = Meter((b'"usage"',), _read)
