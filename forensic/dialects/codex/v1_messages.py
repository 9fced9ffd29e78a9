"""Codex, parser version 1: what people, the model and the client say. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from forensic.dialects.codex.v1_common import (
    TRIM,
    Body,
    Fields,
    base,
    by_id,
    inner,
    mapping,
    native_text,
    sequence,
    text_or_none,
)
from forensic.dialects.parser import native
from forensic.model import (
    Injected,
    Keeper,
    Observation,
    Prompt,
    Response,
    Row,
    SetAside,
    Skill,
    SystemPrompt,
    Thought,
    Unmodelled,
)

__all__ = ["CONTENT", "agent_message", "asked", "message", "reasoning", "thoughts"]

_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_PICTURES: Final = frozenset({"image", "input_image", "local_image"})
CONTENT: Final = tuple(sorted(_TEXTS | _PICTURES | {"encrypted_content", "refusal"}))
"""What readers know inside messages."""

_PERSON: Final = "user"
_BASE: Final = "model.base_instructions"

_BY_KIND: Final = {
    "agents_md.instructions": "agents-md",
    "collaboration_mode.instructions": "collaboration-mode",
    "environments.environment_context": "environment",
    "generic.turn_aborted": "interrupt",
    "host_skills.instructions": "skills",
    "multi_agent.mode_instructions": "multi-agent",
    "multi_agent.role_instructions": "multi-agent",
    "multi_agent.subagent_notification": "subagent-notification",
    "permissions.instructions": "permissions",
    "tools.deferred_namespaces": "tools",
    "user.text": _PERSON,
}
"""What newer versions call the parts of a message; other kinds are their own source."""

_BY_TAG: Final = {
    "apps_instructions": "apps",
    "codex_internal_context": "internal",
    "collaboration_mode": "collaboration-mode",
    "environment_context": "environment",
    "goal_context": "goal",
    "hook_prompt": "hook",
    "model_switch": "model-switch",
    "multi_agent_mode": "multi-agent",
    "permissions": "permissions",
    "personality_spec": "personality",
    "plugins_instructions": "plugins",
    "recommended_plugins": "plugins",
    "skill": "skill",
    "skills_instructions": "skills",
    "subagent_notification": "subagent-notification",
    "tools": "tools",
    "turn_aborted": "interrupt",
    "user_instructions": "agents-md",
    "user_shell_command": "shell",
}
"""Texts that the client wrote, by the tag around them."""

_AGENTS_MD: Final = "# AGENTS.md instructions for "
_IDE: Final = "# Context from my IDE setup:"
_REQUEST: Final = "## My request for Codex:"


# --- messages ---------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """One text of a message and what the message tells of its origin."""

    text: str
    kind: str | None
    by: str | None


def message(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """A message of the conversation, by who is said to speak."""
    said = inner(body)
    role = said.get("role")
    fields = by_id(base(row, body), said)
    parts, pictures, unknown = _parts(said)
    yield from (Unmodelled(**fields, family=f"block/{kind}") for kind in unknown)
    if role == "assistant":
        text = "".join(part.text for part in parts)
        if parts:
            yield Response(**fields, text=keep.text(text))
    elif role == "user":
        yield from _user(fields, parts, pictures, keep)
    elif role in ("developer", "system"):
        for part in parts:
            yield from _instruction(fields, part, str(role), keep)


def _parts(said: Body) -> tuple[list[_Part], int, list[str]]:
    """The texts of a message, the number of its pictures, and the blocks that nobody knows."""
    content = said.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else sequence(content)
    told = mapping(said.get("internal_chat_message_metadata_passthrough"))
    kinds, origins = sequence(told.get("content_item_kinds")), sequence(told.get("content_item_metadata"))
    parts: list[_Part] = []
    unknown: list[str] = []
    pictures = 0
    for place, block in enumerate(blocks):
        kind = text_or_none(mapping(block).get("type"))
        text = block.get("refusal" if kind == "refusal" else "text") if isinstance(block, dict) else None
        if kind in _PICTURES:
            pictures += 1
        elif (kind in _TEXTS or kind == "refusal") and isinstance(text, str):
            origin = mapping(mapping(_at(origins, place)).get("provenance")).get("type")
            parts.append(_Part(text, text_or_none(_at(kinds, place)), text_or_none(origin)))
        else:
            unknown.append(native(kind) if isinstance(block, dict) else "<scalar>")
    if pictures:
        parts = [part for part in parts if not _frames_a_picture(part.text)]
    return parts, pictures, unknown


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _frames_a_picture(text: str) -> bool:
    """Whether a text only stands around a picture."""
    bare = text.strip(TRIM)
    return bare == "</image>" or (bare.startswith("<image") and bare.find(">") == len(bare) - 1)


def _user(fields: Fields, parts: Iterable[_Part], pictures: int, keep: Keeper) -> Iterator[Observation]:
    """Texts of the user role: those that the client wrote one by one, what a person wrote as one prompt."""
    own: list[str] = []
    for part in parts:
        source = _source(part)
        if source == _PERSON:
            own.append(part.text)
        else:
            yield from _injected(fields, part.text, source, keep)
    if own or pictures:
        yield from asked(fields, "".join(own), pictures, keep)


def asked(fields: Fields, text: str, pictures: int, keep: Keeper) -> Iterator[Observation]:
    """What a person asked, or, in a spawned thread, what the thread that spawned it did.

    An editor writes what is open in it ahead of what was typed.
    """
    if fields["agent"] is not None:
        yield Injected(**fields, text=keep.text(text), source="task")
        return
    source, around = None, ""
    if text.lstrip(TRIM).startswith((_IDE, _REQUEST)) and _REQUEST in text:
        around, _, text = (part.strip(TRIM) for part in text.partition(_REQUEST))
        source = "ide"
    if text.strip(TRIM) or pictures:
        yield Prompt(**fields, text=keep.text(text), source=source, images=pictures)
    else:
        yield Injected(**fields, text=keep.text(text), source="empty")
    # behind the prompt, so that both stand in its turn
    if around:
        yield Injected(**fields, text=keep.text(around), source="ide")


def _injected(fields: Fields, text: str, source: str, keep: Keeper) -> Iterator[Observation]:
    yield Injected(**fields, text=keep.text(text), source=source)
    if source == "skill":
        name = text.partition("<name>")[2].partition("</name>")[0].strip(TRIM)
        if name:
            yield Skill(**fields, name=name, stage="loaded")


def _instruction(fields: Fields, part: _Part, role: str, keep: Keeper) -> Iterator[Observation]:
    """A text of the developer role is a part of the client's instructions, or news that the client tells the model."""
    if part.kind == _BASE:
        yield SystemPrompt(**fields, text=keep.text(part.text))
        return
    source = _source(part)
    yield from _injected(fields, part.text, role if source == _PERSON else source, keep)


def _source(part: _Part) -> str:
    """Who wrote a text: what the message says of it, else what the text itself does."""
    if part.kind is not None and part.kind != "unknown":
        return _BY_KIND.get(part.kind) or native(part.kind)
    bare = part.text.strip(TRIM)
    if bare.startswith(_AGENTS_MD):
        return "agents-md"
    if bare.startswith("<"):
        tag = bare[1:].partition(">")[0][:60]
        name = tag.partition(" ")[0]
        if bare.endswith((f"</{tag}>", f"</{name}>")):
            return _BY_TAG.get(name, _PERSON)
    return _PERSON if part.by in (None, "user") else native(part.by)


# --- the model's thoughts ---------------------------------------------------------------------------------------------


def reasoning(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """The model's reasoning: summaries, the raw text, or only what nobody but its server can read."""
    said = inner(body)
    fields = by_id(base(row, body), said)
    told = [*_texts(said.get("summary")), *_texts(said.get("content"))]
    sealed = len(native_text(said.get("encrypted_content")))
    if told or sealed:
        return thoughts(fields, told, keep, sealed=sealed)
    return iter((SetAside(**fields, family="response_item/reasoning"),))


def _texts(blocks: object) -> list[str]:
    found = [mapping(block).get("text") for block in sequence(blocks)]
    return [text for text in found if isinstance(text, str)]


def thoughts(fields: Fields, told: Iterable[str], keep: Keeper, *, sealed: int = 0) -> Iterator[Observation]:
    """One thought a text; an opaque one when only `sealed` characters are left."""
    opaque = True
    for text in told:
        yield Thought(**fields, text=keep.text(text), signature_chars=sealed if opaque else 0)
        opaque = False
    if opaque and sealed:
        yield Thought(**fields, opaque=True, signature_chars=sealed)


# --- agents among themselves ------------------------------------------------------------------------------------------


def agent_message(row: Row, body: Body, keep: Keeper) -> Iterator[Observation]:
    """What another agent wrote to this one, as far as it is not encrypted."""
    said = inner(body)
    fields = by_id(base(row, body), said)
    parts: list[str] = []
    for block in sequence(said.get("content")):
        kind = native(mapping(block).get("type"))
        if kind in _TEXTS:
            parts.append(native_text(block.get("text")))
        elif kind != "encrypted_content":
            yield Unmodelled(**fields, family=f"block/{kind}")
    yield Injected(**fields, text=keep.text("".join(parts)), source="agent-message")
