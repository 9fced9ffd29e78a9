"""The command that a harness runs: made here, and known again here, nowhere else.

It is harmless when the interpreter or the hook is gone, says nothing but what the harness needs to hear of a hook that
does nothing, and always ends well.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import Any, Final

from msgspec import Struct

from forensic.errors import Unusable
from forensic.registration.clients import Client, Event

__all__ = ["Registered", "base_interpreter", "entry", "handler", "posix", "powershell", "recognised", "windows"]

_HOOK: Final = re.compile(r"[/\\]hook[/\\]hook\.py")
_NAME: Final = re.compile(r"[A-Za-z]+")
_ANSWERS: Final = frozenset({"cursor"})
"""Harnesses that want to hear an empty object; all others want nothing."""


class Registered(Struct, frozen=True):
    """What a command of ours runs."""

    python: str
    hook: str
    harness: str
    event: str


def base_interpreter() -> str:
    """The interpreter below any virtual environment: it outlives this installation, and needs no site packages."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def posix(python: str, hook: str, harness: str, event: str) -> str:
    """One string for sh."""
    interpreter, script = shlex.quote(python), shlex.quote(hook)
    end = "echo '{}'" if harness in _ANSWERS else "exit 0"
    return f"[ -x {interpreter} ] && {interpreter} -I -S {script} {harness} {event} >/dev/null 2>&1; {end}"


def windows(python: str, hook: str, harness: str, event: str) -> str:
    """One string for Windows; raises `Unusable` for paths that cmd.exe would change."""
    if set(python + hook) & set('"%!\r\n'):
        raise Unusable(detail=f"cmd.exe cannot be given a path with quotes, % or !: {python}, {hook}")
    end = "echo {}" if harness in _ANSWERS else "exit /b 0"
    return f'cmd.exe /d /c if exist "{python}" "{python}" -I -S "{hook}" {harness} {event} >nul 2>nul & {end}'


def powershell(python: str, hook: str, harness: str, event: str) -> str:
    """One string for PowerShell, which Copilot CLI uses on Windows."""
    interpreter, script = (f"'{path.replace(chr(39), chr(39) * 2)}'" for path in (python, hook))
    run = f"& {interpreter} -I -S {script} {harness} {event} *> $null"
    return f"if (Test-Path -LiteralPath {interpreter}) {{ {run} }}; exit 0"


def handler(client: Client, event: Event, python: str, hook: str) -> dict[str, Any]:
    """What says the command, as the harness wants it; raises `Unusable` when a path is no text."""
    try:
        (python + hook).encode()
    except UnicodeEncodeError:
        raise Unusable(detail=f"a path that is no Unicode cannot be registered: {python!r}, {hook!r}") from None
    make = windows if sys.platform == "win32" else posix
    made: dict[str, Any] = {} if client.name == "cursor" else {"type": "command"}
    made[client.command] = (posix if client.command == "bash" else make)(python, hook, client.name, event.name)
    if client.command == "bash":
        made["powershell"] = powershell(python, hook, client.name, event.name)
    return made | {client.timeout: event.timeout}


def entry(client: Client, event: Event, python: str, hook: str) -> dict[str, Any]:
    """The element of an event's list."""
    made = handler(client, event, python, hook)
    return {"hooks": [made]} if client.grouped else made


def recognised(value: Any) -> Registered | None:
    """What a hook of a harness's configuration runs, if it runs a hook of ours, whichever home it was installed for."""
    if not isinstance(value, dict):
        return None
    for key in ("command", "bash", "powershell"):
        found = _parts(value.get(key))
        if found is not None:
            return found
    return None


def _parts(command: Any) -> Registered | None:
    if not isinstance(command, str) or not _HOOK.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for at in range(1, len(words) - 4):
        hook, harness, event = words[at + 2 : at + 5]
        if words[at : at + 2] == ["-I", "-S"] and _HOOK.search(hook) and _HOOK.split(hook)[-1] == "":
            event = event.rstrip(";")
            if _NAME.fullmatch(harness) and _NAME.fullmatch(event):
                return Registered(words[at - 1], hook, harness, event)
    return None
