"""One session while it runs: its payloads, the files it writes, and a journal from which it can be taken up again."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from forensic import private
from forensic.capture.assembly import Followed, assembled, pieces_of
from forensic.capture.context import repository
from forensic.capture.follow import Begun, Ended, Follower, Grown, Step, Versions, write_all
from forensic.capture.found import Found, Live
from forensic.capture.guard import Gone, Refused, Roots, open_guarded, open_pin, usable
from forensic.capture.journal import Context, File, Head, Journal, Refusal, Taken, read_lines
from forensic.capture.payloads import Facts
from forensic.capture.spool import Spool, is_alive
from forensic.harness import HARNESSES
from forensic.model import Ground, Payload, Ref, Role
from forensic.wrapping import wrap_payload

__all__ = ["LiveSession", "folder_of"]

_REFUSALS: Final = 64
"""So many refused paths are told of one session."""
_SHOWN: Final = 1000
_FOLDERS: Final = 16
_LOOK: Final = 0.25
"""Seconds from one look for new files of a session to the next, but where something ends."""
_RACE_NS: Final = 2_000_000_000
"""Hooks of one moment run side by side: what comes so shortly after a session's end was before it."""
_PAYLOADS: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_APPEND
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip


def folder_of(live: Path, harness: str, session: str) -> Path:
    """Where a session is recorded: no id of a harness is ever a part of a path."""
    return live / hashlib.sha256(f"{harness}\0{session}".encode("utf-8", "replace")).hexdigest()[:32]


class LiveSession:
    """A session that is being recorded. Times are those of the monotonic clock, in seconds, but where said."""

    def __init__(self, folder: Path, roots: Roots, spool: Spool, head: Head | None = None) -> None:
        """Begin one, or take one up that was left (without `head`). Raises `OSError`, `ValueError` for no session."""
        self.folder = folder
        self._roots = roots
        self._spool = spool
        private.folder(folder / "copies")
        self._journal = Journal(folder / "journal")
        self._payload_file = os.open(folder / "payloads.jsonl", _PAYLOADS, 0o600)
        self._payload_bytes = 0
        self._payloads_dirty = self._names_dirty = False
        self._files: dict[str, Followed] = {}
        self._refused: dict[str, str] = {}
        self._context: list[dict[str, Any]] = []
        self._looked = 0.0
        self.names: set[str] = set()
        self.payloads = 0
        self.ended: float | None = None
        self._ended_at = 0
        self._process = ("", 0)
        self.changed = time.monotonic()
        self.polled = 0.0
        self.children: set[str] = set()
        try:
            self.head = self._begin(head)
            self._restore()
        except BaseException:
            self.close()
            raise

    def _begin(self, head: Head | None) -> Head:
        first = next(iter(self._journal.lines), head)
        if not isinstance(first, Head):
            raise ValueError(f"{self.folder} holds no session")  # noqa: TRY004 -- no wrong type: an empty journal
        if not self._journal.lines:
            self._journal.add([first])
            self._names_dirty = True
        return first

    @staticmethod
    def head_of(folder: Path) -> Head | None:
        """Whose session lies in a folder; None when none does that was ever kept.

        Raises `OSError`, and `ValueError` when one may have been kept and its journal does not say so any more.
        """
        if not folder.is_dir():
            raise NotADirectoryError(folder)
        path = folder / "journal"
        if not path.exists():
            return None
        first = next(iter(read_lines(path)[0]), None)
        if isinstance(first, Head):
            return first
        payloads = folder / "payloads.jsonl"
        if path.stat().st_size and payloads.exists() and payloads.stat().st_size:
            raise ValueError("its journal is damaged")
        return None

    @property
    def harness(self) -> str:
        """Whose session it is."""
        return self.head.harness

    @property
    def session(self) -> str:
        """Its native id."""
        return self.head.session

    @property
    def rows(self) -> int:
        """Rows read so far, of all files."""
        return sum(life.rows for known in self._files.values() for life in known.file.lives)

    @property
    def refusals(self) -> Mapping[str, str]:
        """Paths that were not read, and why."""
        found = dict(self._refused)
        for path, known in self._files.items():
            if known.file.refused is not None:
                found[path] = known.file.refused
        return found

    # --- taking up ---------------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        steps: dict[int, list[Step]] = {}
        known: dict[int, Followed] = {}
        for line in self._journal.lines:
            if isinstance(line, File):
                known[line.number] = self._register(line)
            elif isinstance(line, Begun | Grown | Ended):
                steps.setdefault(line.file, []).append(line)
            elif isinstance(line, Taken):
                self.names.add(line.name)
                self.payloads += 1
                self._payload_bytes = line.bytes
                self._end(line)
                if line.child:
                    self.children.add(line.child)
            elif isinstance(line, Refusal):
                self._refused[line.path] = line.reason
            elif isinstance(line, Context):
                self._context.append(line.facts)
        os.ftruncate(self._payload_file, self._payload_bytes)
        for number, one in known.items():
            self._revive(one, steps.get(number, []))

    def _revive(self, known: Followed, steps: list[Step]) -> None:
        """Copies as the journal says, and what was being read, still to be had by a pin, held open again."""
        known.file.restore(steps)
        for step in steps:
            if isinstance(step, Grown):
                known.note(step)
        file = known.file
        if not isinstance(file, Follower):
            return
        for generation, life in enumerate(list(file.lives), start=1):
            if life.ended_by not in {"", "replaced"}:
                continue
            try:
                descriptor = open_pin(self._spool.pins, life.dev, life.ino)
            except (Gone, Refused):
                continue
            if life.ended_by:
                file.keep(generation, descriptor)
            else:
                self._add(known, file.offer(descriptor), Ground.POLL)

    # --- payloads ----------------------------------------------------------------------------------------------------

    def take(self, name: str, payload: Payload, facts: Facts) -> None:
        """Record a payload: before it whatever stands in its session's files by now. Raises `OSError`."""
        if name in self.names:
            return
        there = dict(filter(None, (self._reveal(path, payload) for path in facts.paths)))
        self._expect()
        self.look(now=facts.boundary)
        self._drain(Ground.BOUNDARY if facts.boundary else Ground.PAYLOAD, there=there)
        self._repository(facts.cwd)
        self.payloads += 1
        number = self.payloads
        line = wrap_payload(replace(payload, ref=Ref("hooks", 1, number), n=number))
        self._payloads_dirty = True
        write_all(self._payload_file, line)
        self._payload_bytes += len(line)
        self.names.add(name)
        if facts.child is not None:
            self.children.add(facts.child)
        taken = Taken(
            name=name,
            bytes=self._payload_bytes,
            event=facts.event,
            ends=facts.ends,
            wall=payload.wall,
            child=facts.child or "",
            process=payload.ppid,
        )
        self._journal.add([taken])
        self.changed = time.monotonic()
        self._end(taken)

    def _end(self, taken: Taken) -> None:
        """Whether the session has ended, with this payload or before."""
        self._process = (taken.name.partition("-")[0], taken.process)
        if taken.ends:
            self.ended, self._ended_at = time.monotonic(), taken.wall
        elif self.ended is not None and taken.wall - self._ended_at > _RACE_NS:
            self.ended = None

    def is_abandoned(self, boot: str) -> bool:
        """Whether the process that ran its last hook is gone, as far as can be told; `boot` is that of the machine."""
        then, process = self._process
        if not boot or not then or process <= 1:
            return False
        return then != boot or not is_alive(process)

    def _reveal(self, path: str, payload: Payload) -> tuple[str, bool] | None:
        """Follow a file that a payload names, also one that is only to be had by its pin any more.

        Its path, and whether what was there when the hook ran is there now. If not, what is there now is left to later
        payloads, which may know of others in between, and to the next look.
        """
        try:
            real = usable(path, self._roots, HARNESSES[self.harness].hooks.endings)
        except Refused as error:
            self._refuse(path, str(error))
            return None
        known = self._follow(str(real), "payload")
        file = known.file
        there = not file.lives
        for saw in payload.saw:
            if saw.path == path and isinstance(file, Follower):
                there = saw.size >= 0 and self._is_there(known, file, saw.dev, saw.ino)
        return str(real), there

    def _is_there(self, known: Followed, file: Follower, dev: int, ino: int) -> bool:
        """Whether a file has its name still; if not it is taken in now."""
        try:
            status = os.lstat(file.path)
            if (status.st_dev, status.st_ino) == (dev, ino):
                return True
        except (OSError, ValueError):
            pass
        if not file.knows(dev, ino):
            try:
                descriptor = open_pin(self._spool.pins, dev, ino)
            except (Gone, Refused):
                return False
            # what was written to the one that is held goes before it
            self._add(known, [*file.drain(held=True), *file.offer(descriptor)], Ground.PAYLOAD)
        return False

    def _refuse(self, path: str, reason: str) -> None:
        told = path if len(path) <= _SHOWN else path[:_SHOWN] + "\u2026"
        told = told.encode("utf-8", "replace").decode()
        if told not in self._refused and len(self._refused) < _REFUSALS:
            self._refused[told] = reason
            self._journal.add([Refusal(told, reason)])

    def _repository(self, cwd: str | None) -> None:
        if cwd is None or len(self._context) >= _FOLDERS or any(facts.get("cwd") == cwd for facts in self._context):
            return
        facts = repository(cwd)
        if facts is not None:
            self._context.append(facts)
            self._journal.add([Context(facts)])

    # --- files -------------------------------------------------------------------------------------------------------

    def _follow(self, path: str, found_by: str, *, side: bool = False, native_id: str = "") -> Followed:
        known = self._files.get(path)
        if known is None:
            line = File(len(self._files) + 1, path, found_by, side, native_id)
            self._journal.add([line])
            known = self._register(line)
        return known

    def _register(self, line: File) -> Followed:
        opener = partial(open_guarded, line.path, self._roots, self._spool.is_pinned)
        make = Versions if line.side else Follower
        known = Followed(line, make(line.number, line.path, self.folder / "copies", opener))
        self._files[line.path] = known
        return known

    def _expect(self) -> None:
        """Of a harness that does not always name its transcript, look where it would be."""
        events = HARNESSES[self.harness].hooks.events
        if not events or self._files:
            return
        for root in self._roots:
            try:
                # the name is that of the folder that was found, not what a payload says
                found = [home / events for home in Path(root).iterdir() if home.name == self.session]
            except OSError:
                continue
            for path in found:
                if path.exists():
                    self._follow(str(path), "session id")

    def look(self, *, now: bool = False) -> None:
        """Look for files that belong to the session and that no payload has named yet."""
        moment = time.monotonic()
        if not now and moment - self._looked < _LOOK:
            return
        self._looked = moment
        self._expect()
        found = self._assembled()
        if found is None:
            return
        for piece in found.pieces:
            try:
                self._roots.split(str(piece.path))
            except Refused:
                continue
            self._follow(str(piece.path), piece.found_by, side=piece.role is Role.SIDE, native_id=piece.native_id)

    def drain(self, ground: Ground, *, whole: bool = False) -> bool:
        """Copy what is new in all files; whether anything was. Raises `OSError` when it cannot be kept."""
        return self._drain(ground, whole=whole)

    def _drain(self, ground: Ground, *, whole: bool = False, there: Mapping[str, bool] | None = None) -> bool:
        """The same; with `there`, what took the place of a file is opened only where that says so, or nothing was."""
        any_new = False
        for path, known in list(self._files.items()):
            file = known.file
            if isinstance(file, Versions):
                steps = file.drain(time.time_ns(), whole=whole)
            else:
                held = there is not None and not there.get(path, not file.lives)
                steps = file.drain(whole=whole, held=held)
            self._add(known, steps, ground)
            any_new |= bool(steps)
        if any_new:
            self.changed = time.monotonic()
        return any_new

    def _add(self, known: Followed, steps: Iterable[Step], ground: Ground) -> None:
        for step in steps:
            if isinstance(step, Grown):
                step = replace(  # noqa: PLW2901 -- the same step, with its circumstances
                    step, after=self.payloads, ground=ground, wall=time.time_ns(), mono=time.monotonic_ns()
                )
                known.note(step)
            self._names_dirty |= isinstance(step, Begun)
            self._journal.add([step])

    # --- keeping -----------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Make everything so far last. Raises `OSError`; then this session must be left and taken up again."""
        self.prepare()
        self.conclude()

    @property
    def pending(self) -> bool:
        """Whether there is anything to commit."""
        return self._journal.pending

    def prepare(self) -> None:
        """The first half of a commit: make last what the journal will vouch for. Raises as `commit`."""
        if not self._journal.pending:
            return
        if self._payloads_dirty:
            os.fsync(self._payload_file)
            self._payloads_dirty = False
        for known in self._files.values():
            known.file.sync()
        if self._names_dirty:
            for folder in (self.folder / "copies", self.folder, self.folder.parent):
                private.sync(folder)
            self._names_dirty = False

    def conclude(self) -> None:
        """The second half. Raises as `commit`."""
        self._journal.commit()

    def close(self) -> None:
        """Give all descriptors back; what was not committed is gone."""
        for known in self._files.values():
            known.file.close()
        os.close(self._payload_file)
        self._journal.close()

    # --- handing on --------------------------------------------------------------------------------------------------

    def settle(self) -> Found:
        """Read everything to its end once more, keep it, and say what the session is. Raises `OSError`."""
        self.look(now=True)
        self.drain(Ground.BOUNDARY, whole=True)
        self.look(now=True)
        self.drain(Ground.BOUNDARY, whole=True)
        self.commit()
        return self.found()

    def found(self) -> Found:
        """The session as capture hands sessions on: every piece with its lives."""
        whole = self._assembled()
        live = Live(payloads=self.folder / "payloads.jsonl", wall=self.head.wall, context=tuple(self._context))
        return Found(
            harness=self.harness,
            session=self.session,
            pieces=tuple(pieces_of(self._files, self._refused, whole, self.session)),
            findings=whole.findings if whole is not None else (),
            forked_from=whole.forked_from if whole is not None else None,
            live=live,
        )

    def pins(self) -> list[tuple[int, int]]:
        """Device and inode of everything that was read."""
        return [(life.dev, life.ino) for known in self._files.values() for life in known.file.lives]

    def _assembled(self) -> Found | None:
        return assembled(self._files.values(), self.harness, self.session)
