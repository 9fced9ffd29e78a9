"""How a harness's registration stands: which events, whether they run what they should, whether it is trusted."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from forensic.registration import files
from forensic.registration.clients import SAFE, Client
from forensic.registration.command import base_interpreter, handler
from forensic.registration.edit import Found
from forensic.registration.files import Refused
from forensic.registration.jsonc import parse, value_of
from forensic.registration.placing import Hook, own_folder
from forensic.registration.registering import Scope, chosen, ours_in

__all__ = ["Standing", "advice", "standing", "trusted"]

_OFF: Final = '"disableAllHooks" is true there, so no hook runs'

State = Literal["installed", "outdated", "absent", "refused"]


class Standing(Struct, frozen=True, kw_only=True):
    """How one configuration stands. `trusted`: how many of our hooks Codex runs; None of other harnesses."""

    client: Client
    scope: Scope
    path: Path
    state: State
    events: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()
    trusted: int | None = None
    switched_off: bool = False
    """Whether the configuration says that no hook is to run."""


def standing(hook: Hook, client: Client, scope: Scope, path: Path) -> Standing:
    """How a configuration stands; one that cannot be read is `refused`."""
    try:
        config = files.read(path)
        ours = ours_in(config, client)
    except Refused as error:
        return Standing(client=client, scope=scope, path=path, state="refused", notes=(str(error),))
    if not ours:
        return Standing(client=client, scope=scope, path=path, state="absent")
    wrong = list(_wrong(hook, client, ours))
    count = trusted(client, path, ours)
    off = _is_switched_off(config.text or "")
    notes = [*wrong, *_untrusted(count, len(ours)), *([_OFF] if off else [])]
    return Standing(
        client=client,
        scope=scope,
        path=path,
        state="outdated" if wrong else "installed",
        events=tuple(dict.fromkeys(one.event for one in ours)),
        notes=(*notes, *advice(client, scope)),
        found=tuple(ours),
        trusted=count,
        switched_off=off,
    )


def advice(client: Client, scope: Scope) -> Iterator[str]:
    """What somebody should know who registers our hooks there."""
    if client.name == "claude" and scope == "user":
        yield "VS Code and Cursor may run these hooks as well; the recorder tells such payloads apart"
    if client.name == "claude" and scope == "project":
        yield "Copilot CLI, VS Code and Cursor may run a project's .claude/settings.json as well"
    if client.name == "cursor":
        yield "Cursor passes over the whole file when it does not know one event's name, without a word"
    if scope == "project":
        yield "the file names paths of this machine: it does not belong into the repository"


def _wrong(hook: Hook, client: Client, ours: list[Found]) -> Iterator[str]:
    """What is not as it would be if it were registered now."""
    again = f"run: forensic hooks install {client.name}"
    python, script = base_interpreter(), str(hook.script)
    scripts = {one.runs.hook for one in ours}
    for other in sorted(scripts - {script}):
        yield f"it runs the hook of another home, {other}; {again}"
    if script in scripts and not hook.is_current():
        yield f"the hook {script} is missing or not of this version; {again}"
    recorder = hook.recorder() if script in scripts else None
    if recorder is not None and not os.access(recorder, os.X_OK):
        yield f"the recorder cannot be started, as {recorder} is gone; {again}"
    for gone in sorted({one.runs.python for one in ours if not os.access(one.runs.python, os.X_OK)}):
        yield f"its interpreter {gone} is gone, so nothing is recorded; {again}"
    known = {event.name: event for event in client.events}
    written = [one.event for one in ours if one.runs.hook == script and os.access(one.runs.python, os.X_OK)]
    good = {
        one.event
        for one in ours
        if one.event in known and one.handler == handler(client, known[one.event], python, script)
    }
    if strange := sorted(set(written) - good):
        yield f"not as this version would register it: {', '.join(strange)}; {again}"
    there = {one.event for one in ours}
    lacking = [event.name for event in chosen(client, SAFE, None) if not event.since and event.name not in there]
    if lacking:
        yield f"not registered: {', '.join(lacking)}; {again}"
    if len(ours) > len(there):
        yield f"some events are registered twice; {again}"


def trusted(client: Client, path: Path, ours: Iterable[Found]) -> int | None:
    """How many of these hooks Codex has been told to trust, and not to leave out; None of other harnesses.

    Only whether there is a hash is looked at, not which.
    """
    if client.name != "codex":
        return None
    try:
        with (own_folder(client) / "config.toml").open("rb") as file:
            state = tomllib.load(file)["hooks"]["state"]
        entries = {str(key).lower().replace("_", ""): one for key, one in state.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0
    places = {str(path), os.path.realpath(path)}
    keys = ([f"{place}:{one.event}:{':'.join(map(str, one.place))}" for place in places] for one in ours)
    return sum(any(_is_trusted(entries.get(key.lower().replace("_", ""))) for key in alike) for alike in keys)


def _is_trusted(entry: Any) -> bool:
    return isinstance(entry, dict) and bool(entry.get("trusted_hash")) and entry.get("enabled", True) is not False


def _untrusted(count: int | None, total: int) -> Iterator[str]:
    if count is not None and count < total:
        yield (
            f"Codex runs {count} of these {total} hooks: it asks for the others when it is started in a terminal "
            "(Trust all and continue), or with /hooks"
        )


def _is_switched_off(text: str) -> bool:
    root = parse(text).root
    settings = value_of(root) if root is not None else None
    return isinstance(settings, dict) and settings.get("disableAllHooks") is True
