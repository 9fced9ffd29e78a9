"""The recorder: one loop that takes payloads out of the spool, follows what they name, and has sessions sealed.

It understands nothing. Whatever happens to it, at any moment, the next one goes on from what lies on disk: a payload
leaves the spool when a journal holds it, and a journal goes when a sealed bundle holds all of it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from forensic import private
from forensic.capture.abreast import abreast
from forensic.capture.guard import Roots
from forensic.capture.journal import Head
from forensic.capture.live import LiveSession, folder_of
from forensic.capture.locks import Lock
from forensic.capture.pauses import Pauses
from forensic.capture.payloads import UNATTRIBUTED, Facts, facts_of
from forensic.capture.requests import Key, Outcome, Request, answer, asked
from forensic.capture.sealing import Sealer, Sealings
from forensic.capture.spool import TEST_EVENT, Newer, Spool, boot_id
from forensic.errors import ForensicError, WriteFailed
from forensic.model import Ground, Payload

__all__ = ["Recorder", "Settings"]

_BATCH: Final = 64
"""Payloads that are made to last together."""
_PROCESSES: Final = 4096
_ADOPT: Final = 5.0
"""Seconds from one look for what dead hooks left to the next."""

_SWEEP: Final = 60.0
"""Seconds from one look for pins that nobody needs to the next."""


class Settings(Struct, frozen=True, kw_only=True):
    """Seconds: rows may come so long after a session's end (`grace`).

    Without an end it is taken for ended when its process is gone and it was quiet for so long (`abandoned`), or when
    there was no sign of life for longer still (`idle`).
    """

    grace: float = 2.0
    abandoned: float = 15.0
    idle: float = 3600.0
    tick: float = 0.02
    active: float = 5.0
    """A session with news so lately is looked at with every tick, others more and more rarely."""


class Recorder:
    """One recorder; only one of a data folder runs at a time (`with` holds the lock)."""

    def __init__(  # noqa: PLR0913 -- all but three are asked for by name
        self,
        home: Path,
        roots: Mapping[str, Roots],
        seal: Sealer,
        *,
        settings: Settings | None = None,
        tell: Callable[[Outcome], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
        fork: bool = hasattr(os, "fork"),
    ) -> None:
        """`tell` hears of sealed sessions, `warn` of trouble, once of each; without `fork` the loop seals itself."""
        self.home = home
        self.spool = Spool(home / "spool")
        self.sessions: dict[Key, LiveSession] = {}
        self._live = home / "live"
        self._roots = roots
        self._settings = settings or Settings()
        self._tell = tell
        self._warn = warn
        self._lock = Lock(home / "spool" / "recorder.lock")
        # a child that outlives the recorder must not keep the next one from its work
        self._sealing = Sealings(seal, fork=fork, shed=self._lock.release)
        self._waiting: set[Key] = set()
        """Sessions of which payloads wait in the spool until they are sealed, or can be recorded again."""
        self._pauses = Pauses()
        self._forced: set[Key] = set()
        self._children: dict[Key, str] = {}
        self._processes: dict[tuple[str, int], Key] = {}
        self._requests: dict[str, Request] = {}
        self._left: set[str] = set()
        """Files of the spool that are left to a newer recorder."""
        self._untaken = False
        """Whether folders of sessions are left that are not known: their pins must stay."""
        self._warned: set[str] = set()
        self._adopted = 0.0
        self._swept = 0.0
        self._boot = boot_id()
        self._last = time.monotonic()
        self.payloads = 0

    # --- life --------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Take the lock and go on from what lies on disk. Raises `Busy` when another runs, `WriteFailed`."""
        private.folder(self._live)
        self.spool.prepare()
        self._lock.take()
        for folder in sorted(path for path in self._live.iterdir() if path.is_dir()):
            self._take_up(folder)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave everything as the next recorder can find it."""
        self._sealing.close()
        for session in self.sessions.values():
            session.close()
        self._lock.release()

    def _take_up(self, folder: Path) -> None:
        try:
            # the roots follow from whose session it is, which only its journal says
            head = LiveSession.head_of(folder)
            if head is None:
                shutil.rmtree(folder)
                return
        except ValueError as error:
            self._set_aside(folder, error)
            return
        except OSError as error:
            self._leave(folder, error)
            return
        key = (head.harness, head.session)
        try:
            self._open(key, folder, None)
        except OSError as error:
            self._fail(key, error)
        except Exception as error:  # noqa: BLE001 -- other sessions must not suffer from this one
            self._leave(folder, error)

    def _leave(self, folder: Path, error: Exception) -> None:
        self._untaken = True
        self._warn_once(f"{folder}: {_told(error)}; the session there is left as it is")

    def _set_aside(self, folder: Path, error: Exception) -> None:
        """Keep what cannot be taken up out of the way of a session that goes on in its place."""
        place = private.folder(self.home / "lost") / f"{folder.name}-{time.time_ns()}"
        try:
            folder.rename(place)
        except OSError as trouble:
            self._leave(folder, trouble)
        else:
            self._warn_once(f"{folder}: {error}; what there is of the session is {place}")

    def _open(self, key: Key, folder: Path, head: Head | None) -> LiveSession:
        session = LiveSession(folder, self._roots[key[0]], self.spool, head)
        self.sessions[key] = session
        self._children.update(((key[0], child), key[1]) for child in session.children)
        return session

    def running(self) -> bool:
        """Whether some recorder of this data folder runs."""
        return Lock(self.home / "spool" / "recorder.lock").held()

    @property
    def quiet(self) -> float:
        """Seconds since anything happened; 0 while sessions are open or being sealed."""
        if self.sessions or self._sealing or self._waiting:
            self._last = time.monotonic()
        return time.monotonic() - self._last

    def run(self, until: Callable[[], bool]) -> None:
        """Go round until `until` says so, which is asked after every round."""
        while True:
            try:
                busy = self.step()
            except BrokenPipeError:
                # nobody hears any more what it has to tell
                raise
            except OSError as error:
                # what was not done is still there to be done
                self._warn_once(f"cannot go on: {_told(error)}; it is tried again")
                busy = False
                time.sleep(1.0)
            if until():
                return
            if not busy:
                time.sleep(self._settings.tick)

    def finish(self, request: Request) -> Request:
        """Go round until a request is served."""
        self._requests[""] = request
        self.run(lambda: request.done)
        del self._requests[""]
        return request

    # --- one round ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One round; whether there may be more to do at once."""
        now = time.monotonic()
        changed = self.spool.changed(now)
        busy = changed and self._claim()
        if now - self._adopted > _ADOPT:
            self._adopted = now
            for name in self.spool.adopt(time.time()):
                self._warn_once(
                    f"a payload was cut off when its hook died; what there is of it is spool/lost/{name[1:]}"
                )
        if now - self._swept > _SWEEP and not busy:
            self._swept = now
            self._sweep(time.time())
        self._poll(now)
        self._reap()
        if changed:
            self._hear()
        if self._requests:
            self._serve()
        self._seal_due(now)
        return busy

    def _sweep(self, now: float) -> None:
        self.spool.sweep_answers(now)
        # a session that is not open now may still need its pins
        if not self._untaken and self._pauses.keys <= self.sessions.keys():
            self.spool.sweep({pin for session in self.sessions.values() for pin in session.pins()}, now)

    def _claim(self) -> bool:
        """Take what is in the spool; whether anything was."""
        self._waiting.clear()
        taken: list[tuple[str, Key]] = []
        any_taken = False
        for name in self.spool.names():
            key = None if name in self._left else self._claim_one(name)
            if key is not None:
                taken.append((name, key))
            if len(taken) >= _BATCH:
                any_taken |= self._keep(taken)
        return self._keep(taken) or any_taken

    def _claim_one(self, name: str) -> Key | None:
        """Record one payload; None when it stays in the spool, or is gone from it."""
        try:
            spooled = self.spool.read(name)
            if spooled is None:
                self.spool.set_aside(name)
                self._warn_once(f"{name} is no whole payload and was put into spool/lost")
                return None
        except Newer:
            self._left.add(name)
            self._warn_once("the spool holds payloads of a newer hook: please update forensic")
            return None
        except FileNotFoundError:
            return None
        except (OSError, WriteFailed) as error:
            self._warn_once(f"cannot take payloads: {error}")
            return None
        if spooled.payload.argv[:1] == (TEST_EVENT,):
            self._remove(name)
            return None
        facts = facts_of(spooled.payload)
        key = self._key(spooled.payload, facts)
        if key in self._sealing or (key not in self.sessions and self._pauses.wait(key, time.monotonic())):
            self._waiting.add(key)
            return None
        try:
            self._session(key, spooled.payload).take(name, spooled.payload, facts)
        except Exception as error:  # noqa: BLE001 -- other sessions must not suffer from this one
            self._fail(key, error)
            return None
        if facts.child is not None:
            self._children[key[0], facts.child] = key[1]
        self.payloads += 1
        return key

    def _key(self, payload: Payload, facts: Facts) -> Key:
        process = (payload.boot, payload.ppid)
        if facts.session is None:
            return self._processes.get(process, (facts.harness, UNATTRIBUTED))
        session = facts.session
        for _ in range(8):
            above = self._children.get((facts.harness, session))
            if above is None or above == session:
                break
            session = above
        if len(self._processes) >= _PROCESSES:
            self._processes.clear()
        self._processes[process] = (facts.harness, session)
        return facts.harness, session

    def _session(self, key: Key, payload: Payload) -> LiveSession:
        session = self.sessions.get(key)
        if session is None:
            head = Head(*key, wall=payload.wall or time.time_ns(), mono=payload.mono, boot=payload.boot)
            session = self._open(key, folder_of(self._live, *key), head)
        return session

    def _keep(self, taken: list[tuple[str, Key]]) -> bool:
        """Make what was taken last, and only then clear the spool of it."""
        self._commit(key for _, key in taken)
        kept = [name for name, key in taken if key in self.sessions]
        gone = [self._remove(name) for name in kept]
        taken.clear()
        return any(gone)

    def _remove(self, name: str) -> bool:
        """Clear the spool of a payload; while that cannot be done its session remembers that it was taken."""
        try:
            self.spool.remove(name)
        except OSError as error:
            self._warn_once(f"cannot remove payloads from the spool: {_told(error)}; it is tried again")
            return False
        return True

    def _commit(self, keys: Iterable[Key]) -> None:
        """Make what these sessions have taken last."""
        due = {key: self.sessions[key] for key in keys if key in self.sessions and self.sessions[key].pending}
        for half in (LiveSession.prepare, LiveSession.conclude):
            errors = abreast([partial(half, session) for session in due.values()])
            for key, error in zip(list(due), errors, strict=True):
                if error is not None:
                    del due[key]
                    self._fail(key, error)

    def _poll(self, now: float) -> None:
        for key in sorted(self._pauses.keys - self.sessions.keys()):
            if not self._pauses.wait(key, now):
                self._try_again(key)
        for key, session in list(self.sessions.items()):
            if key in self._sealing or now - session.polled < self._pause(now - session.changed):
                continue
            session.polled = now
            try:
                session.look()
                session.drain(Ground.POLL)
            except Exception as error:  # noqa: BLE001 -- other sessions must not suffer from this one
                self._fail(key, error)
        self._commit(set(self.sessions) - self._sealing.keys)

    def _pause(self, quiet: float) -> float:
        """Seconds between two looks at a session that was quiet so long."""
        if quiet < self._settings.active:
            return self._settings.tick
        return 0.25 if quiet < 12 * self._settings.active else 1.0

    # --- trouble -----------------------------------------------------------------------------------------------------

    def _fail(self, key: Key, error: Exception) -> None:
        """Leave a session that cannot be recorded now; what it has committed is taken up when it is tried again."""
        session = self.sessions.pop(key, None)
        if session is not None:
            session.close()
        self._pauses.begin(key, time.monotonic())
        told = _told(error)
        self._warn_once(
            f"cannot record {key[0]} {key[1]}: {told}; its payloads stay in the spool, and it is tried again"
        )
        self._forced.discard(key)
        self._report(Outcome(harness=key[0], session=key[1], error=told, exit_code=5))

    def _try_again(self, key: Key) -> None:
        folder = folder_of(self._live, *key)
        try:
            if folder.exists():
                self._open(key, folder, None)
            else:
                self._pauses.end(key)
        except Exception as error:  # noqa: BLE001 -- other sessions must not suffer from this one
            self._fail(key, error)
        self.spool.recheck()

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._warn(message)

    # --- sealing -----------------------------------------------------------------------------------------------------

    def _seal_due(self, now: float) -> None:
        for key, session in list(self.sessions.items()):
            if key in self._sealing or self._sealing.full:
                continue
            if self._pauses.wait(key, now) and key not in self._forced:
                continue
            if key in self._forced or self._is_due(session, now):
                self._begin_sealing(key, session)

    def _is_due(self, session: LiveSession, now: float) -> bool:
        quiet = now - session.changed
        if session.ended is not None:
            return quiet >= self._settings.grace
        if quiet >= self._settings.abandoned and session.is_abandoned(self._boot):
            return True
        return quiet >= self._settings.idle

    def _begin_sealing(self, key: Key, session: LiveSession) -> None:
        self._forced.discard(key)
        try:
            found = session.settle()
        except Exception as error:  # noqa: BLE001 -- other sessions must not suffer from this one
            self._fail(key, error)
            return
        outcome = self._sealing.begin(found)
        if outcome is not None:
            self._end_sealing(key, outcome)

    def _reap(self) -> None:
        for outcome in self._sealing.reap():
            self._end_sealing((outcome.harness, outcome.session), outcome)

    def _end_sealing(self, key: Key, outcome: Outcome) -> None:
        self.spool.recheck()
        if outcome.error:
            self._pauses.begin(key, time.monotonic())
            self._warn_once(f"cannot seal {key[0]} {key[1]}: {outcome.error}; it is kept, and tried again")
        else:
            self._tell(outcome)
            try:
                self._drop(key)
            except OSError as error:
                self._fail(key, error)
        self._report(outcome)

    def _report(self, outcome: Outcome) -> None:
        """Tell whoever waits for a session what became of it."""
        key = (outcome.harness, outcome.session)
        for request in self._requests.values():
            if key in request.awaited:
                request.awaited.discard(key)
                request.outcomes.append(outcome)

    def _drop(self, key: Key) -> None:
        """Let go of a session that a bundle holds; unless it went on meanwhile, and is not whole in there."""
        session = self.sessions[key]
        if session.drain(Ground.POLL):
            session.commit()
            return
        names = self.spool.names()
        if not session.names.isdisjoint(names):
            # without its journal nobody would know that they were taken
            self._pauses.begin(key, time.monotonic())
            return
        self.spool.sync()
        del self.sessions[key]
        self._pauses.end(key)
        held = {pin for other in self.sessions.values() for pin in other.pins()}
        session.close()
        # the journal first: without it, what is left of the folder is nothing
        (session.folder / "journal").unlink(missing_ok=True)
        private.sync(session.folder)
        shutil.rmtree(session.folder, ignore_errors=True)
        if not names:
            for dev, ino in session.pins():
                if (dev, ino) not in held:
                    self.spool.unpin(dev, ino)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        for name, text in self.spool.requests():
            if name not in self._requests:
                self._requests[name] = asked(text)

    def _serve(self) -> None:
        for name, request in list(self._requests.items()):
            if not request.started:
                # what came before the request counts for it
                self._claim()
                self._start(request)
            if name and request.done:
                del self._requests[name]
                try:
                    self.spool.answer(name, answer(request))
                except (OSError, WriteFailed) as error:
                    self._warn_once(f"cannot answer who asked: {_told(error)}")

    def _start(self, request: Request) -> None:
        request.started = True
        if request.seal is None:
            for session in self.sessions.values():
                if session.is_abandoned(self._boot):
                    session.ended = session.changed
            request.awaited |= {key for key, session in self.sessions.items() if session.ended is not None}
            request.awaited |= self._sealing.keys
            return
        wanted = {name: [key for key in self.sessions if key[1].startswith(name)] for name in request.seal or ("",)}
        request.unknown = tuple(name for name, keys in wanted.items() if name and not keys)
        for keys in wanted.values():
            request.awaited.update(keys)
        self._forced |= request.awaited - self._sealing.keys


def _told(error: Exception) -> str:
    """An error in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) if isinstance(error, ForensicError) else f"{type(error).__name__}: {error}"
