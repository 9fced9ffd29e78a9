"""Copilot CLI, parser version 1: the files beside a transcript. Part of v1: frozen with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from forensic.dialects.copilot.v1_common import Body
from forensic.jsonio import NotJson, decode
from forensic.model import Keeper, Observation, SetAside, SideFile, Title

__all__ = ["side", "workspace"]

_KINDS: Final = {
    "checkpoints": "checkpoint",
    "files": "session-file",
    "research": "session-file",
    "rewind-file-snapshots": "file-snapshot",
}
_NAMES: Final = {"plan.md": "plan", "workspace.yaml": "workspace"}


def side(native_id: str) -> str:
    """What a side file is, by its path below the session's folder."""
    folder, inside, _ = native_id.replace("\\", "/").partition("/")
    return _KINDS.get(folder, "side-file") if inside else _NAMES.get(folder, "side-file")


def workspace(file: SideFile, body: Body, keep: Keeper) -> Iterable[Observation]:
    """What the session is called: by a person, by the client, or after a summary in older versions."""
    lines = file.raw.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    summary, name = _value(lines, "summary"), _value(lines, "name")
    by_hand = _value(lines, "user_named") == "true"
    if summary:
        yield Title(ref=file.ref, text=keep.text(summary), source="summary")
    if name:
        yield Title(ref=file.ref, text=keep.text(name), source="custom" if by_hand else "name")
    if not summary and not name:
        yield SetAside(ref=file.ref, family="workspace")


def _value(lines: Sequence[str], key: str) -> str | None:
    """The text of a key at the top of a YAML document: plain, quoted on one line, or a block; None for all else."""
    for number, line in enumerate(lines):
        if line.startswith(f"{key}:"):
            told = line[len(key) + 1 :].strip(" ")
            if told[:1] in ("|", ">"):
                return _block(lines[number + 1 :], folded=told.startswith(">"))
            return _scalar(told)
    return None


def _scalar(told: str) -> str | None:
    if told.startswith("'"):
        return told[1:-1].replace("''", "'") if told.endswith("'") and len(told) > 1 else None
    if told.startswith('"'):
        try:
            value = decode(told.encode())[0]
        except NotJson:
            return None
        return value if isinstance(value, str) else None
    return None if told.startswith(("[", "{", "&", "*", "!", "#")) else told


def _block(lines: Sequence[str], *, folded: bool) -> str:
    """The lines that are indented, freed of that; folded ones are one text where nothing stands between them."""
    taken: list[str] = []
    for line in lines:
        if line and not line.startswith(" "):
            break
        taken.append(line)
    depth = next((len(line) - len(line.lstrip(" ")) for line in taken if line.strip(" ")), 0)
    text = "\n".join(line[depth:] for line in taken).strip("\n")
    if not folded:
        return text
    return "\n".join(part.replace("\n", " ") for part in text.split("\n\n"))
