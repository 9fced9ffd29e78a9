"""``forensic hooks``: tell harnesses about our hook, take that back, say how it stands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from forensic import private
from forensic.cli import output
from forensic.cli.options import AsJson, Yes
from forensic.errors import ForensicError, UnknownHarness, Unusable
from forensic.harness import HARNESSES
from forensic.registration.clients import CLIENTS, Client, Level
from forensic.registration.placing import Hook
from forensic.registration.registering import (
    Plan,
    Scope,
    carry_out,
    chosen,
    config_path,
    installing,
    is_needed,
    uninstalling,
)
from forensic.registration.standing import advice, standing
from forensic.registration.versions import version_of
from forensic.renderers.wording import clean, count

EXAMPLE = "  forensic hooks install claude codex\n  forensic hooks status\n  forensic hooks uninstall all --dry-run"

command = typer.Typer(
    help="Have harnesses tell forensic what they do.\n\nInstalling edits a harness's own configuration, and nothing in "
    "it but what is ours; uninstalling takes that out again, to the byte.",
    rich_markup_mode=None,
)

Harnesses = Annotated[
    list[str], typer.Argument(metavar="HARNESS...", help="claude, codex, copilot or cursor; several of them, or all.")
]
Where = Annotated[
    bool, typer.Option("--project/--user", help="In the configuration of the project in this folder, or of the user.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]

_LEFT_OUT = (
    "left out, as {title} {version} may not know {events} and would then pass over its whole settings file; "
    "install again when it is newer"
)
_UNASKED = (
    "no {program} was found to ask for its version: one that is too old to know all of these events passes over its "
    "whole settings file, and says so when it starts"
)


@command.command(epilog="Example:\n\n\b\n  forensic hooks install claude codex\n  forensic hooks install all --dry-run")
def install(
    harnesses: Harnesses,
    *,
    project: Where = False,
    events: Annotated[
        Literal["safe", "all"],
        typer.Option("--events", help="All: also those that fire very often, or that few versions know."),
    ] = "safe",
    dry_run: DryRun = False,
    yes: Yes = False,
    no_autostart: Annotated[bool, typer.Option("--no-autostart", help="No hook starts the recorder.")] = False,
    json: AsJson = False,
) -> int:
    """Register the hook with harnesses.

    It shows what would change, and asks. Done twice it changes nothing the second time.
    """
    hook = Hook(private.home())
    told = _Told(json=json, dry_run=dry_run)
    notes: dict[str, list[str]] = {}

    def plan(client: Client, scope: Scope, path: Path) -> Plan:
        version = version_of(client) if any(event.since for event in client.events) else None
        registered = chosen(client, events, version)
        notes[client.name] = _of_version(client, events, version)
        return installing(hook, client, scope, path, registered)

    plans = _plans(harnesses, plan, told, project=project)
    if not dry_run:
        _ask(plans, "Register these hooks?", yes=yes)
        if plans:
            with hook.exclusive():
                hook.place((one.client for one in plans), autostart=not no_autostart)
                plans = _carried_out(plans, hook, told)
    for one in plans:
        there = standing(hook, one.client, one.scope, one.config.path)
        known = there.notes if not dry_run else advice(one.client, one.scope)
        told.plan(one, [*one.notes, *notes[one.client.name], *known])
    return told.code


@command.command(
    epilog="Example:\n\n\b\n  forensic hooks uninstall claude\n  forensic hooks uninstall all --yes --json"
)
def uninstall(
    harnesses: Harnesses,
    *,
    project: Where = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: AsJson = False,
) -> int:
    """Take the hook out of harnesses' configurations.

    Everything else in them stays as it is. What was recorded stays, too.
    """
    hook = Hook(private.home())
    told = _Told(json=json, dry_run=dry_run)
    plans = _plans(
        harnesses, lambda client, scope, path: uninstalling(hook, client, scope, path), told, project=project
    )
    if not dry_run:
        _ask(plans, "Remove these hooks?", yes=yes)
        if any(one.changes or one.earlier for one in plans):
            with hook.exclusive():
                plans = _carried_out(plans, hook, told)
                if not is_needed(hook, Path.cwd()):
                    hook.remove()
    for one in plans:
        told.plan(one, one.notes)
    return told.code


@command.command(epilog="Example:\n\n\b\n  forensic hooks status\n  forensic hooks status codex --json")
def status(
    harnesses: Annotated[
        list[str] | None, typer.Argument(metavar="[HARNESS]...", help="Of these; of all four when none is named.")
    ] = None,
    *,
    project: Annotated[
        bool | None, typer.Option("--project/--user", help="Only there; in both when neither is given.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Say where the hook is registered.

    And whether that is as it should be: it ends with 1 unless it is registered and up to date with all that were named.
    """
    hook = Hook(private.home())
    told = _Told(json=json)
    good = True
    for client in _named(harnesses or ["all"]):
        paths: dict[Scope, Path] = {scope: config_path(client, scope, Path.cwd()) for scope in ("user", "project")}
        if project is not None:
            del paths["user" if project else "project"]
        elif os.path.realpath(paths["user"]) == os.path.realpath(paths["project"]):
            del paths["project"]
        there = [standing(hook, client, scope, path) for scope, path in paths.items()]
        good &= {one.state for one in there} <= {"installed", "absent"} and any(one.found for one in there)
        for one in there:
            if one.state != "absent" or one is there[0]:
                told.one(client, one.scope, one.path, state=one.state, events=one.events, notes=one.notes)
    return int(not good)


class _Told:
    """What was said, and the exit code that it leads to."""

    def __init__(self, *, json: bool, dry_run: bool = False) -> None:
        self.json = json
        self.dry_run = dry_run
        self.code = 0

    def plan(self, plan: Plan, notes: Sequence[str]) -> None:
        """What became of a configuration, or would."""
        if self.dry_run and not self.json:
            _show(plan, aside=False)
        more = {"diff": plan.diff} if self.dry_run else {}
        path, state = plan.config.path, plan.state
        self.one(plan.client, plan.scope, path, state=state, events=plan.events, notes=notes, **more)

    def refused(self, client: Client, scope: Scope, path: Path, error: ForensicError) -> None:
        """A configuration that stays as it is."""
        self.code = max(self.code, error.exit_code)
        self.one(client, scope, path, state="refused", notes=[str(error)])

    def one(
        self,
        client: Client,
        scope: Scope,
        path: Path,
        *,
        state: str,
        events: Sequence[str] = (),
        notes: Sequence[str] = (),
        **more: object,
    ) -> None:
        """One line, its notes below it, or one object."""
        if self.json:
            told = {"harness": client.name, "scope": scope, "path": path, "state": state}
            output.json_line({**told, "events": events, "notes": notes, **more})
            return
        word = f"would be {state}" if self.dry_run and state in ("installed", "removed") else state
        output.line(f"{word:9}", f"{client.name:7}", f"{scope:7}", str(path), count(len(events), "event"))
        for note in notes:
            output.line(f"  - {note}")


def _named(names: Sequence[str]) -> list[Client]:
    """The harnesses that are meant, each once, in the order of the table."""
    for name in names:
        if name not in CLIENTS and name != "all":
            raise UnknownHarness(name=name, known=", ".join((*CLIENTS, "all")))
    return [client for client in CLIENTS.values() if client.name in names or "all" in names]


def _plans(
    names: Sequence[str], make: Callable[[Client, Scope, Path], Plan], told: _Told, *, project: bool
) -> list[Plan]:
    """A plan for each harness; what cannot be planned is told."""
    scope: Scope = "project" if project else "user"
    plans = []
    for client in _named(names):
        path = config_path(client, scope, Path.cwd())
        try:
            plans.append(make(client, scope, path))
        except ForensicError as error:
            told.refused(client, scope, path, error)
    return plans


def _carried_out(plans: Sequence[Plan], hook: Hook, told: _Told) -> list[Plan]:
    """Those that went well; the others are told."""
    done = []
    for plan in plans:
        try:
            carry_out(plan, hook)
        except ForensicError as error:
            told.refused(plan.client, plan.scope, plan.config.path, error)
        else:
            done.append(plan)
    return done


def _ask(plans: Sequence[Plan], question: str, *, yes: bool) -> None:
    """Show what would change, and go on only when a person says yes."""
    changing = [plan for plan in plans if plan.changes]
    if yes or not changing:
        return
    if not sys.stdin.isatty():
        raise Unusable(detail="nobody is there to ask: give --yes to go ahead, or --dry-run to see what would change")
    for plan in changing:
        _show(plan, aside=True)
    if not typer.confirm(question, err=True):
        output.aside("nothing was changed")
        raise typer.Exit


def _show(plan: Plan, *, aside: bool) -> None:
    for line in plan.diff.splitlines():
        print(clean(line), file=sys.stderr if aside else sys.stdout)


def _of_version(client: Client, level: Level, version: str | None) -> list[str]:
    """What the version of a harness means for the events."""
    wanted, known = chosen(client, level, None), chosen(client, level, version)
    if not any(event.since for event in wanted):
        return []
    if version is None:
        return [_UNASKED.format(program=client.program)]
    left = ", ".join(event.name for event in wanted if event not in known)
    return [_LEFT_OUT.format(title=HARNESSES[client.name].title, version=version, events=left)] if left else []
