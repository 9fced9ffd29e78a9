"""``forensic capture``: seal what lies at the named paths, or without one record sessions while they run."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from forensic import private
from forensic.archive import Archive, default_root
from forensic.capture.guard import roots_of
from forensic.capture.recorder import Recorder, Settings
from forensic.capture.requests import Outcome, Request, ask
from forensic.cli import naming, output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.errors import Busy, Unusable
from forensic.intake import Captured, capture, seal_live
from forensic.model import Finding
from forensic.renderers.wording import count

if sys.platform != "win32":
    import resource

__all__ = ["Voice", "command", "recorder", "served", "show"]

_STATES = ("sealed", "superseding", "unchanged", "failed")
_FILES = 8192
_PATIENCE = 600.0
"""Seconds that another recorder is given to answer."""

EXAMPLE = (
    "  forensic capture ~/.claude/projects\n"
    "  forensic capture session.jsonl --json\n"
    "  forensic capture          records sessions while they run, until Ctrl-C\n"
    "  forensic capture --once   records what hooks have told, and ends"
)


def command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH...]", parser=naming.path, help="Transcripts, or folders that hold some."),
    ] = None,
    *,
    harness: Annotated[
        str | None, typer.Option("--harness", metavar="NAME", help="Take them for this harness's, do not guess.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Without PATH: seal the sessions that have ended, and end, too.")
    ] = False,
    idle_exit: Annotated[
        float | None,
        typer.Option("--idle-exit", metavar="SECONDS", help="Without PATH: end when nothing happened for so long."),
    ] = None,
    archive: ArchiveFolder = None,
    no_verdict: Annotated[
        bool, typer.Option("--no-verdict", help="Seal without the replay that verify compares with.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Seal sessions into the archive, one bundle each.

    PATH is a transcript, or a folder: then every session below it. A session that is in the archive already is left
    alone; one that has grown since is sealed whole again.

    Without PATH it records sessions while they run, as the hooks tell of them (forensic hooks install), and seals each
    one when it has ended.
    """
    place = Archive(archive or default_root())
    if not paths:
        if harness is not None:
            raise Unusable(detail="--harness is for named paths: hooks say themselves whose they are")
        return _follow(place, once=once, idle_exit=idle_exit, verdict=not no_verdict, json=json)
    if once or idle_exit is not None:
        raise Unusable(detail="--once and --idle-exit are for recording without PATH")
    strays: list[Finding] = []
    states: Counter[str] = Counter()
    problems = False
    with output.progress("capturing") as bar:
        for one in capture(
            paths, place, harness=harness, verdict=not no_verdict, found=bar.total, report=strays.append
        ):
            bar.step()
            states[one.state] += 1
            problems |= show(one, json=json)
    if states.total() > 1 and not json:
        output.aside(f"{count(states.total(), 'session')}: {output.tally(states, _STATES)}")
    for stray in strays:
        output.aside(f"{stray.kind}: {stray.note}")
    return int(problems or any(stray.problem for stray in strays))


def show(one: Captured, *, json: bool) -> bool:
    """Say what became of one session; whether there was a problem."""
    if json:
        output.json_line(one)
    else:
        done = (count(one.rows, "row"), one.content_id[:12]) if one.bundle else ()
        output.line(f"{one.state:11}", one.harness, one.session, *done)
        output.findings(one.findings)
    return any(finding.problem for finding in one.findings)


class Voice:
    """What a recorder says to whoever runs it; a status line on a terminal."""

    def __init__(self, *, json: bool) -> None:
        """Nothing said yet; with `json` results are JSON lines."""
        self.problems = False
        self._json = json
        self._drawn = 0.0
        self._terminal = sys.stderr.isatty()

    def tell(self, outcome: Outcome) -> None:
        """A session was sealed."""
        self.wipe()
        self.problems |= show(msgspec.json.decode(outcome.sealed, type=Captured), json=self._json)
        sys.stdout.flush()

    def warn(self, message: str) -> None:
        """Something went wrong that the recorder will try again, or has put aside."""
        self.wipe()
        self.problems = True
        output.aside(f"! {message}")

    def status(self, recorder: Recorder) -> None:
        """How many sessions are being recorded; on a terminal only, twice a second at most."""
        now = time.monotonic()
        if not self._terminal or now - self._drawn < 0.5:
            return
        self._drawn = now
        rows = sum(session.rows for session in recorder.sessions.values())
        told = f"recording {count(len(recorder.sessions), 'session')}: {count(recorder.payloads, 'hook payload')}"
        print(f"\r{told}, {count(rows, 'row')}\x1b[K", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Take the status line away."""
        if self._terminal and self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def recorder(archive: Archive, voice: Voice, *, verdict: bool = True, settings: Settings | None = None) -> Recorder:
    """The recorder of the data folder, which seals into an archive."""
    home = private.home()
    _hold_many_files()
    return Recorder(
        home,
        roots_of(home, os.environ),
        lambda found: msgspec.json.encode(seal_live(found, archive, verdict=verdict)),
        settings=settings,
        tell=voice.tell,
        warn=voice.warn,
    )


def _hold_many_files() -> None:
    """Each file that is followed is held open, and so is its copy: the usual 1,024 would do for few agents."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):
            if 0 <= soft < _FILES:
                wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _follow(archive: Archive, *, once: bool, idle_exit: float | None, verdict: bool, json: bool) -> int:
    voice = Voice(json=json)
    recording = recorder(archive, voice, verdict=verdict)
    if once:
        return _once(recording, voice)
    with recording:
        try:

            def ends() -> bool:
                voice.status(recording)
                return idle_exit is not None and recording.quiet > idle_exit

            recording.run(ends)
        finally:
            voice.wipe()
    return 0


def _once(recording: Recorder, voice: Voice) -> int:
    served(recording, Request(), voice)
    return int(voice.problems)


def served(recording: Recorder, request: Request, voice: Voice) -> Request:
    """Have a request served by the recorder that runs, or else be that recorder for so long."""
    while True:
        try:
            with recording:
                return recording.finish(request)
        except Busy:
            answer = ask(recording.spool, request, recording.running, patience=_PATIENCE)
        if answer is not None:
            for outcome in answer.outcomes:
                if outcome.error:
                    voice.warn(f"cannot seal {outcome.harness} {outcome.session}: {outcome.error}")
                else:
                    voice.tell(outcome)
            return answer
