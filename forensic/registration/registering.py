"""Look at one configuration of one harness, say what would become of it, and make it so."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct

from forensic.errors import ForensicError
from forensic.registration import files
from forensic.registration.clients import ALL, CLIENTS, SAFE, Client, Event, Level
from forensic.registration.command import base_interpreter, entry
from forensic.registration.edit import Found, NotOurShape, found, put, taken
from forensic.registration.files import Backup, Config, Refused
from forensic.registration.jsonc import NotJson
from forensic.registration.placing import Hook, own_folder
from forensic.registration.versions import numbers

__all__ = [
    "Plan",
    "Scope",
    "carry_out",
    "chosen",
    "config_path",
    "installing",
    "is_needed",
    "understood",
    "uninstalling",
]

Scope = Literal["user", "project"]
_Made = TypeVar("_Made")


class Plan(Struct, frozen=True, kw_only=True):
    """What would become of one configuration: `after` is its content then, None when there is no file then."""

    client: Client
    scope: Scope
    config: Config
    state: Literal["installed", "unchanged", "removed", "absent"]
    after: bytes | None
    events: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    earlier: Backup | None = None
    backup: Backup | None = None
    """The backup that there is, and the one that there is to be."""

    @property
    def changes(self) -> bool:
        """Whether the configuration changes."""
        return self.after != self.config.content

    @property
    def diff(self) -> str:
        """What changes, as a unified diff; empty when nothing does."""
        contents = (self.config.content, self.after)
        before, after = ("/dev/null" if content is None else str(self.config.target) for content in contents)
        first, second = ((content or b"").decode(errors="replace").splitlines() for content in contents)
        return "\n".join(difflib.unified_diff(first, second, before, after, lineterm="", n=2))


def config_path(client: Client, scope: Scope, project: Path) -> Path:
    """Where a harness is told about hooks, for the user or for a project."""
    return own_folder(client).joinpath(*client.user) if scope == "user" else project.joinpath(*client.project)


def chosen(client: Client, level: Level, version: str | None) -> list[Event]:
    """The events to register; those that this version of the harness may not know are left out."""
    levels = (SAFE, ALL) if level == ALL else (SAFE,)
    events = (event for event in client.events if event.level in levels)
    return [event for event in events if version is None or numbers(version) >= event.since]


def installing(hook: Hook, client: Client, scope: Scope, path: Path, events: list[Event]) -> Plan:
    """What would become of a configuration with these events registered; raises `Refused`."""
    config = files.read(path)
    text = config.text
    python, script = base_interpreter(), str(hook.script)
    entries = {event.name: entry(client, event, python, script) for event in events}
    earlier = files.backup_of(hook.backups, config.target)
    before, known = _before(config, client, earlier)
    after = understood(path, lambda: put(text, client, entries, known)).encode()
    backup = Backup(
        path=str(config.target),
        existed=before is not None,
        wrote=hashlib.sha256(after).hexdigest(),
        folders=_folders(config, earlier),
        content=before or b"",
    )
    return Plan(
        client=client,
        scope=scope,
        config=config,
        state="unchanged" if after == config.content else "installed",
        after=after,
        events=tuple(entries),
        notes=tuple(_replaced(config, client, hook)),
        earlier=earlier,
        backup=backup,
    )


def uninstalling(hook: Hook, client: Client, scope: Scope, path: Path) -> Plan:
    """What would become of a configuration with nothing of ours in it; raises `Refused`."""
    config = files.read(path)
    ours = ours_in(config, client)
    earlier = files.backup_of(hook.backups, config.target)
    before, _ = _before(config, client, earlier) if ours else (config.content, None)
    if before is None and config.path.is_symlink():
        before = b"{}\n"
    return Plan(
        client=client,
        scope=scope,
        config=config,
        state="removed" if ours else "absent",
        after=before,
        events=tuple(dict.fromkeys(one.event for one in ours)),
        earlier=earlier,
    )


def carry_out(plan: Plan, hook: Hook) -> None:
    """Make it so, the backup first; raises `Refused` when the configuration has changed meanwhile, `WriteFailed`."""
    if plan.backup is not None and plan.backup != plan.earlier:
        files.keep_backup(hook.backups, plan.backup)
    if plan.changes:
        with _undone(plan, hook):
            if plan.after is None:
                files.remove(plan.config, plan.earlier.folders if plan.earlier is not None else ())
            else:
                files.write(plan.config, plan.after)
    if plan.backup is None and plan.earlier is not None:
        files.forget_backup(hook.backups, plan.config.target)


def is_needed(hook: Hook, project: Path) -> bool:
    """Whether any registration of this hook is known or found; so it is also where one cannot be read."""
    if files.backups(hook.backups):
        return True
    for client in CLIENTS.values():
        for scope in ("user", "project"):
            try:
                ours = ours_in(files.read(config_path(client, scope, project)), client)
            except Refused:
                return True
            if any(one.runs.hook == str(hook.script) for one in ours):
                return True
    return False


def ours_in(config: Config, client: Client) -> list[Found]:
    """All hooks of ours in a configuration; raises `Refused`."""
    text = config.text
    return [] if text is None else understood(config.path, lambda: found(text, client))


def understood(path: Path, make: Callable[[], _Made]) -> _Made:
    """What is made of a configuration; raises `Refused` when it cannot be understood."""
    try:
        return make()
    except NotJson as error:
        raise Refused(path=path, detail=f"it is no JSON: {error}") from None
    except NotOurShape as error:
        raise Refused(path=path, detail=f"it is not understood: {error}") from None


def _before(config: Config, client: Client, earlier: Backup | None) -> tuple[bytes | None, str | None]:
    """A configuration without anything of ours, None when there was no file; and its text if a backup tells it."""
    text = config.text
    known = earlier.content.decode(errors="replace") if earlier is not None else None
    if earlier is not None and earlier.is_what_we_wrote(config.content):
        return earlier.content if earlier.existed else None, known
    if text is None:
        return None, None
    left = understood(config.path, lambda: taken(text, client, known))
    if left is not None:
        return left.encode(), known
    return earlier.content if earlier is not None and earlier.existed else None, known


def _folders(config: Config, earlier: Backup | None) -> tuple[str, ...]:
    """The folders that are ours to remove when they are empty."""
    made = earlier.folders if earlier is not None else ()
    return tuple(dict.fromkeys((*files.missing_folders(config.target), *made)))


def _replaced(config: Config, client: Client, hook: Hook) -> Iterator[str]:
    for script in sorted({one.runs.hook for one in ours_in(config, client)} - {str(hook.script)}):
        yield f"it takes the place of the hook {script}"


@contextmanager
def _undone(plan: Plan, hook: Hook) -> Iterator[None]:
    """Keep the backup that there was when the configuration could not be changed."""
    try:
        yield
    except ForensicError:
        if plan.earlier is not None:
            files.keep_backup(hook.backups, plan.earlier)
        elif plan.backup is not None:
            files.forget_backup(hook.backups, plan.config.target)
        raise
