"""Whether sessions are really being recorded: each thing that must hold for it, looked at, and what to do when not.

Nothing is changed. All that is written is a test payload, by the hook itself, and it is removed again; the hook may
start the recorder, as it does for every payload.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from forensic.capture.spool import TEST_EVENT
from forensic.dialects.registry import dialect
from forensic.errors import ForensicError
from forensic.harness import HARNESSES
from forensic.registration.clients import CLIENTS, SAFE, Client
from forensic.registration.jsonc import parse, value_of
from forensic.registration.placing import Hook, own_folder
from forensic.registration.registering import Scope, chosen, config_path
from forensic.registration.standing import Standing, standing
from forensic.registration.trying import Trial, is_recorded, median_of, start_time, try_hook
from forensic.registration.versions import numbers, version_of
from forensic.renderers.wording import count, duration

__all__ = ["Check", "State", "checks"]

State = Literal["ok", "warn", "fail"]

_RUNS: Final = 5
_SLOW: Final = 0.1
"""Seconds of one hook that a person would notice over a session."""
_SCARCE: Final = 1_000_000_000
"""Bytes of free space below which one should know."""
_WAITING: Final = 60.0
"""Seconds after which a payload should have been taken."""
_STARTING: Final = 3.0
"""Seconds that a recorder may take to start."""
_DAY: Final = 86400.0
_PAYLOAD: Final = re.compile(r"[0-9a-f]{32}-[0-9]{20}-([0-9]+)-[0-9]+-[0-9a-f]{8}\.hook")
_LIVE: Final = re.compile(r"[0-9a-f]{32}")
_SOON: Final = 7
"""Days before which transcripts should be captured that will be deleted."""
_KEPT_DAYS: Final = 30
"""Days that Claude Code keeps transcripts when its settings do not say."""


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `about` is a harness's name, or empty. `remedy` is empty when nothing is to do."""

    check: str
    state: State
    note: str
    about: str = ""
    remedy: str = ""


class _Seen(Struct, frozen=True):
    """What there is of one harness."""

    client: Client
    version: str | None
    standings: tuple[Standing, ...]

    @property
    def registered(self) -> tuple[Standing, ...]:
        """Where our hook is."""
        return tuple(one for one in self.standings if one.found)


def checks(hook: Hook, project: Path) -> Iterator[Check]:
    """All checks, each when it was made; what cannot be looked at is a check that failed."""
    seen = [_seen(hook, client, project) for client in CLIENTS.values()]
    there = [one for one in seen if one.version is not None or one.registered or _is_refused(one)]
    if not there:
        yield _warn("hooks", "no harness is known here, and no hook is registered", "forensic hooks install HARNESS")
    times: list[float] = []
    for one in there:
        name = one.client.name
        yield from _careful("hooks", name, _hooks(one))
        yield from _careful("firing", name, _firing(one, times))
        yield from _careful("version", name, _version(one))
        yield from _careful("retention", name, _retention(one))
    registered = [each for one in there for each in one.registered]
    yield from _careful("start", "", _start(registered, times))
    yield from _careful("recorder", "", _recorder(hook, needed=bool(registered)))
    for name in ("spool", "live", "archive"):
        yield from _careful(name, "", _folder(name, hook.home / name))
    yield from _careful("space", "", _space(hook.home))
    yield from _careful("backlog", "", _backlog(hook.home))
    yield from _careful("diagnostics", "", _diagnostics(hook.home / "spool" / "diagnostics.log"))


def _careful(check: str, about: str, found: Iterator[Check]) -> Iterator[Check]:
    """The checks that are made, as far as they can be."""
    try:
        yield from found
    except (OSError, ForensicError, subprocess.SubprocessError) as error:
        yield _fail(check, f"this cannot be looked at: {error}", "", about)


def _ok(check: str, note: str, about: str = "") -> Check:
    return Check(check=check, about=about, state="ok", note=note)


def _warn(check: str, note: str, remedy: str, about: str = "") -> Check:
    return Check(check=check, about=about, state="warn", note=note, remedy=remedy)


def _fail(check: str, note: str, remedy: str, about: str = "") -> Check:
    return Check(check=check, about=about, state="fail", note=note, remedy=remedy)


# --- of each harness -------------------------------------------------------------------------------------------------


def _seen(hook: Hook, client: Client, project: Path) -> _Seen:
    scopes: tuple[Scope, ...] = ("user", "project")
    paths = {scope: config_path(client, scope, project) for scope in scopes}
    if os.path.realpath(paths["user"]) == os.path.realpath(paths["project"]):
        del paths["project"]
    standings = (standing(hook, client, scope, path) for scope, path in paths.items())
    return _Seen(client, version_of(client), tuple(standings))


def _is_refused(one: _Seen) -> bool:
    return any(each.state == "refused" for each in one.standings)


def _hooks(one: _Seen) -> Iterator[Check]:
    """Whether hooks are registered, as they should be, trusted and not switched off."""
    name = one.client.name
    install = f"forensic hooks install {name}"
    for each in one.standings:
        if each.state == "refused":
            yield _fail("hooks", each.notes[0], "put that file right, then install again", name)
        elif each.state == "outdated":
            notes = "; ".join(note.partition("; run: ")[0] for note in each.notes if "; run: " in note)
            yield _fail("hooks", f"{each.path}: {notes}", _with_scope(install, each), name)
        elif each.state == "installed":
            yield _ok("hooks", f"{len(each.events)} events, {each.path}", name)
        if each.switched_off:
            yield _fail("hooks", f"{each.path} says disableAllHooks", "take that out", name)
        if each.trusted is not None and each.trusted < len(each.found):
            note = f"Codex trusts {each.trusted} of {len(each.found)} hooks of {each.path}"
            yield _fail("trust", note, "start codex in a terminal and trust them, or use /hooks there", name)
        elif each.trusted is not None and each.found:
            yield _ok("trust", f"Codex trusts all {len(each.found)} hooks of {each.path}", name)
    if not one.registered and not _is_refused(one):
        yield _warn("hooks", f"not registered, so nothing of {_title(one)} is recorded as it goes on", install, name)
    elif len(one.registered) > 1:
        note = "registered for the user and for the project: each payload may come twice"
        yield _warn("hooks", note, f"forensic hooks uninstall {name} --project", name)


def _with_scope(command: str, each: Standing) -> str:
    return f"{command} --project" if each.scope == "project" else command


def _title(one: _Seen) -> str:
    return HARNESSES[one.client.name].title


def _firing(one: _Seen, times: list[float]) -> Iterator[Check]:
    """Whether the registered command puts a payload into the spool."""
    name = one.client.name
    for each in one.registered:
        trial = try_hook(each.found[0], TEST_EVENT)
        if trial.trouble:
            yield _fail("firing", trial.trouble, _with_scope(f"forensic hooks install {name}", each), name)
            continue
        times.extend(_again(each, _RUNS - len(times), trial))
        yield _ok("firing", "a test payload came through the registered command", name)


def _again(each: Standing, count: int, first: Trial) -> list[float]:
    """How long each of several runs took."""
    runs = (try_hook(each.found[0], TEST_EVENT) for _ in range(count - 1))
    return [first.seconds, *(one.seconds for one in runs)] if count > 0 else []


def _version(one: _Seen) -> Iterator[Check]:
    """Whether this version of the harness knows our events, and whether our parser was checked against it."""
    name = one.client.name
    version = one.version
    if version is None:
        yield _ok("version", f"{one.client.program} is not on PATH, or does not say its version", name)
        return
    since = {event.name: event.since for event in one.client.events}
    registered = {event for each in one.registered for event in each.events}
    unknown = sorted(event for event in registered if since.get(event, ()) > numbers(version))
    install = f"forensic hooks install {name}"
    if unknown:
        note = f"{version} may not know {', '.join(unknown)}, and then passes over its whole settings file"
        yield _fail("version", note, f"update {_title(one)}, or {install}", name)
    more = [event.name for event in chosen(one.client, SAFE, version) if event.name not in registered]
    if registered and more and any(event.since for event in one.client.events):
        yield _warn("version", f"{version} has {len(more)} events more than are registered", install, name)
    known = dialect(name)
    if version in known.verified or version in known.seen:
        yield _ok("version", f"{version}: the parser was checked against it", name)
    else:
        note = (
            f"{version}: the parser was not checked against it; everything is kept, and what it does not know says so"
        )
        yield _ok("version", note, name)


def _retention(one: _Seen) -> Iterator[Check]:
    """When the harness will delete transcripts of its own accord."""
    name = one.client.name
    if name != "claude":
        yield _ok("retention", f"{_title(one)} is not known to delete transcripts", name)
        return
    days = _cleanup_days(own_folder(one.client) / "settings.json")
    if days <= 0:
        yield _warn("retention", f"cleanupPeriodDays is {days}: no transcript may be kept", "raise it", name)
        return
    folder = own_folder(one.client).joinpath(*HARNESSES[name].hooks.roots)
    oldest = min((path.stat().st_mtime for path in folder.glob("*/*.jsonl")), default=None)
    note = f"Claude Code deletes transcripts after {days} days"
    if oldest is None:
        yield _ok("retention", note, name)
        return
    left = int((oldest + days * _DAY - time.time()) // _DAY)
    note += f"; the oldest goes {f'in {left} days' if left > 0 else 'when it starts next'}"
    yield (
        _warn("retention", note, f"forensic capture {folder}, or raise cleanupPeriodDays", name)
        if left < 7
        else _ok("retention", note, name)
    )


def _cleanup_days(path: Path) -> int:
    try:
        root = parse(path.read_text(encoding="utf-8")).root
        settings = value_of(root) if root is not None else None
    except (OSError, ValueError):
        return _KEPT_DAYS
    days = settings.get("cleanupPeriodDays") if isinstance(settings, dict) else None
    return int(days) if isinstance(days, int | float) else _KEPT_DAYS


# --- of the machine --------------------------------------------------------------------------------------------------


def _start(registered: list[Standing], times: list[float]) -> Iterator[Check]:
    """How long a harness waits for each hook."""
    if not registered or not times:
        return
    bare = median_of([start_time(registered[0].found[0].runs.python) for _ in range(_RUNS)])
    took = median_of(times)
    note = f"a hook takes {took * 1000:.0f} ms, its interpreter alone {bare * 1000:.0f} ms"
    if took > _SLOW:
        yield _warn("start", note, "a harness waits for each hook: look for what slows the start of programs")
    else:
        yield _ok("start", note)


def _recorder(hook: Hook, *, needed: bool) -> Iterator[Check]:
    """Whether somebody takes what hooks leave."""
    starts = needed and hook.recorder() is not None
    spool = hook.home / "spool"
    end = time.monotonic() + (_STARTING if starts else 0)
    while not (runs := is_recorded(spool)) and time.monotonic() < end:
        time.sleep(0.05)
    if runs:
        yield _ok("recorder", "it runs")
    elif starts:
        yield _fail("recorder", "none runs, and the hook could not start one", "forensic capture, to see why")
    elif needed:
        yield _warn("recorder", "none runs, and no hook starts one: payloads wait in the spool", "forensic capture")
    else:
        yield _ok("recorder", "none runs, and none is needed")


def _folder(name: str, path: Path) -> Iterator[Check]:
    """Whether a folder is there, ours alone and to be written."""
    try:
        there = path.stat()
    except FileNotFoundError:
        yield _ok(name, f"{path} is not there yet")
        return
    mode = stat.S_IMODE(there.st_mode)
    ours = not hasattr(os, "geteuid") or there.st_uid == os.geteuid()
    if not stat.S_ISDIR(there.st_mode):
        yield _fail(name, f"{path} is no folder", "move it away")
    elif not ours:
        yield _fail(name, f"{path} belongs to somebody else", "give it back to yourself with chown")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK) or mode & 0o700 != 0o700:
        yield _fail(name, f"{path} cannot be written: its mode is {mode:04o}", f"chmod 700 {path}")
    elif mode & 0o077:
        yield _fail(name, f"{path} is open to others: its mode is {mode:04o}", f"chmod 700 {path}")
    else:
        yield _ok(name, f"{path} is private and can be written")


def _space(home: Path) -> Iterator[Check]:
    """Whether there is room for what will come."""
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    note = f"{free / 1_000_000_000:,.1f} GB are free at {place}"
    if free < _SCARCE:
        yield _warn("space", note, "make room: payloads are lost when the disk is full")
    else:
        yield _ok("space", note)


def _backlog(home: Path) -> Iterator[Check]:
    """What is being recorded, what waits for it, and what was set aside."""
    written = [int(match[1]) for match in map(_PAYLOAD.fullmatch, _names(home / "spool")) if match]
    live = sum(_LIVE.fullmatch(name) is not None for name in _names(home / "live"))
    lost = len(_names(home / "spool" / "lost"))
    age = (time.time_ns() - min(written)) / 1e9 if written else 0.0
    note = f"{count(live, 'session')} being recorded, {count(len(written), 'payload')} waiting"
    if age > _WAITING:
        yield _warn("backlog", f"{note}, the oldest for {_ago(age)}", "forensic capture --once")
    else:
        yield _ok("backlog", note)
    if lost:
        note = f"{count(lost, 'file')} in {home / 'spool' / 'lost'} could not be read as payloads"
        yield _warn("backlog", note, "they are kept for you to look at, and may be deleted")


def _diagnostics(log: Path) -> Iterator[Check]:
    """What hooks could not do lately."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        age = time.time() - log.stat().st_mtime
    except FileNotFoundError:
        lines, age = [], 0.0
    if not lines:
        yield _ok("diagnostics", "no hook met with trouble")
        return
    note = f"{count(len(lines), 'line')} of trouble, the last {_ago(age)} ago: {' '.join(lines[-1].split(' ')[2:])}"
    if age < _DAY:
        yield _warn("diagnostics", note, f"read {log}, and delete it when it is settled")
    else:
        yield _ok("diagnostics", note)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


def _ago(seconds: float) -> str:
    return duration(max(seconds, 0.0) * 1000)
