"""Copilot CLI, parser version 1: what people, the model and the client say. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from forensic.dialects.copilot.v1_common import TRIM, Body, mapping, native_text, sequence, text_or_none
from forensic.dialects.copilot.v1_tools import request
from forensic.dialects.copilot.v1_usage import message_cost
from forensic.dialects.parser import native
from forensic.model import (
    Accounting,
    Injected,
    Keeper,
    Observation,
    Prompt,
    Response,
    SetAside,
    SystemPrompt,
    Thought,
)

__all__ = ["assistant_message", "assistant_reasoning", "system_message", "system_notification", "user_message"]


# --- people, and what speaks in their place ---------------------------------------------------------------------------

_PICTURES: Final = (".gif", ".jpeg", ".jpg", ".png", ".webp", ".GIF", ".JPEG", ".JPG", ".PNG", ".WEBP")


def user_message(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A text of the user's role; what the client made of it for the model is no second one."""
    text = data.get("content")
    if not isinstance(text, str):
        return ()
    attached = sequence(data.get("attachments"))
    source = _source(fields, data)
    if source is None and (attached or text.strip(TRIM)):
        delivery = text_or_none(data.get("delivery"))
        told = None if delivery == "idle" else delivery
        images = sum(map(_is_picture, attached))
        return (Prompt(**fields, text=keep.text(text), source=told, images=images),)
    made = native_text(data.get("transformedContent"))
    if source is not None and made and not text:
        # announced here, and told again by a row of its own
        return (Injected(**fields, text=keep.text(made), source=source, via="event"),)
    return (Injected(**fields, text=keep.text(text), source=source or "empty"),)


def _source(fields: Body, data: Body) -> str | None:
    """Who is behind a text of the user's role; None is a person."""
    told = text_or_none(data.get("source"))
    if data.get("isAutopilotContinuation") is True:
        return "autopilot"
    by_agent = told is not None and told.startswith("agent-")
    if fields["agent"] is not None:
        return "task" if by_agent or told is None else native(told)
    if told is None or told == "user":
        return None
    return "agent" if by_agent else "skill" if told.startswith("skill-") else native(told)


def _is_picture(attachment: object) -> bool:
    told = mapping(attachment)
    kind = told.get("mimeType")
    if isinstance(kind, str):
        return kind.startswith("image/")
    return told.get("type") == "image" or native_text(told.get("path")).endswith(_PICTURES)


def system_message(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """The instructions that the model got."""
    text = data.get("content")
    return (SystemPrompt(**fields, text=keep.text(text)),) if isinstance(text, str) else ()


def system_notification(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """What the client tells the model on its own: the end of something in the background, mostly."""
    text = data.get("content")
    source = native(mapping(data.get("kind")).get("type"))
    return (Injected(**fields, text=keep.text(text), source=source),) if isinstance(text, str) else ()


# --- the model --------------------------------------------------------------------------------------------------------


def assistant_message(fields: Body, data: Body, keep: Keeper) -> list[Observation]:
    """A message of the model: a thought, a response, the tools it asks for; what the call cost on the first."""
    # a reply may come in several messages: all of them name its call
    call = text_or_none(data.get("apiCallId")) or text_or_none(data.get("messageId")) or fields["id"]
    fields["step"] = call
    usage = message_cost(data, call)
    if usage is not None:
        fields["usage"] = usage
    seen: list[Observation] = []
    for piece in _pieces(fields, data, keep):
        seen.append(piece)
        fields.pop("usage", None)
    if not seen and usage is not None:
        return [Accounting(**fields, family="assistant.message")]
    if not seen and isinstance(data.get("content"), str):
        return [SetAside(**fields, family="assistant.message")]
    return seen


def _pieces(fields: Body, data: Body, keep: Keeper) -> Iterator[Observation]:
    yield from _thought(fields, data, keep)
    content = data.get("content")
    if isinstance(content, str) and content:
        yield Response(**fields, text=keep.text(content))
    for block in sequence(data.get("toolRequests")):
        yield request(fields, block, keep)


def _thought(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """One thought a message: in words when there are any, else sealed."""
    seal = len(native_text(data.get("encryptedContent")) or native_text(data.get("reasoningOpaque")))
    text = text_or_none(data.get("reasoningText"))
    if text is not None:
        yield Thought(**fields, text=keep.text(text), signature_chars=seal)
    elif seal:
        yield Thought(**fields, opaque=True, signature_chars=seal)


def assistant_reasoning(fields: Body, data: Body, keep: Keeper) -> Iterable[Observation]:
    """A thought told ahead of its message, which tells it again."""
    for key in ("content", "text", "reasoningText"):
        text = text_or_none(data.get(key))
        if text is not None:
            return (Thought(**fields, text=keep.text(text), via="event"),)
    return _thought({**fields, "via": "event"}, data, keep)
