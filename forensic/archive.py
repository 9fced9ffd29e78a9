"""The archive: one folder of sealed bundles, each named for its content, none of them ever changed.

``<root>/<content_id[:2]>/<harness>-<content_id[:16]>.zst``; folders 0700, bundles 0400. What else lies there is left
alone, and links are never followed. There is no index to trust: what a bundle is, its own manifest says.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forensic import private
from forensic.bundle import Bundle, open_bundle
from forensic.errors import Ambiguous, ForensicError, NotInArchive, NotReadable, WriteFailed
from forensic.model import Finding, Manifest, utc
from forensic.superset import missing

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Archive", "Broken", "Kept", "Pruned", "default_root"]

Report = Callable[[Finding], None]

_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
_BUNDLE: Final = re.compile(r"([a-z0-9_]+)-([0-9a-f]{16})\.zst")
_APART: Final = re.compile(r"[a-z0-9_]+-[0-9a-f]{16}\.zst\.damaged-[0-9]+")
_HALF_SEALED: Final = re.compile(r"\.sealing-.+")
_TOLD: Final = re.compile(r"told\..+")
_SETTLED_NS: Final = 2_000_000_000
"""Clocks of file systems are coarse: a folder changed so lately may change again under the same time."""
_ENOUGH: Final = 8
"""Characters of a content id that name a bundle which cannot say itself what it is."""


def default_root() -> Path:
    """Where the archive is unless another is named."""
    return private.home() / "archive"


class Kept(Struct, frozen=True, kw_only=True):
    """One bundle of the archive. `size` is that of its file; `superseded` when another bundle names it so.

    `started` is when it was captured; `title`, `began` and `ended` are the session's own, as its verdict tells them.
    """

    path: Path
    content_id: str
    harness: str
    session: str
    started: str
    sealed_at: str
    sources: int
    rows: int
    size: int
    supersedes: tuple[str, ...] = ()
    superseded: bool = False
    title: str | None = None
    began: datetime | None = None
    ended: datetime | None = None


class Broken(Struct, frozen=True, kw_only=True):
    """A file that lies where a bundle would and cannot be read as one. `beginning`: what its name says of its id."""

    path: Path
    harness: str
    beginning: str
    size: int


class _Told(Struct, frozen=True):
    """What a verdict tells of its session; the rest of it only verify needs."""

    title: str | None = None
    started: str | None = None
    ended: str | None = None


class Pruned(Struct, frozen=True, kw_only=True):
    """What became of one superseded bundle: dropped, or kept because something is only in there."""

    bundle: Kept
    by: str
    dropped: bool
    reason: str = ""


class Archive:
    """One archive folder; it need not exist yet."""

    def __init__(self, root: Path, *, verdicts: bool = False) -> None:
        """Nothing is read or made before it is needed; with `verdicts` each bundle's is read, too."""
        self.root = root
        self._verdicts = verdicts
        self._known: dict[Path, Kept] = {}
        self._listed: dict[Path, tuple[int, list[Path]]] = {}
        self._swept = False

    def path_of(self, harness: str, content_id: str) -> Path:
        """Where the bundle with this content is, or would be."""
        return self.root / content_id[:2] / f"{harness}-{content_id[:16]}.zst"

    def memory(self, name: str) -> Path:
        """A file in which what bundles told is remembered; nothing depends on it."""
        return self.root / "work" / f"told.{name}"

    def files(self) -> Iterator[Path]:
        """All files that lie where a bundle would and are named like one, in the order of their paths, unopened."""
        return self._paths()

    def bundles(self, report: Report = lambda _: None) -> Iterator[Kept]:
        """All bundles in the order of their paths, read as far as their manifests.

        One that cannot be read is told to `report` and left out. `superseded` is not known yet: see `sessions`.
        """
        for path in self._paths():
            known = self._known.get(path)
            if known is None:
                try:
                    known = _kept(open_bundle(path), verdict=self._verdicts)
                except (ForensicError, OSError) as error:
                    report(Finding(kind="unreadable-bundle", note=_note(path, error), problem=True))
                    continue
                if path != self.path_of(known.harness, known.content_id):
                    report(Finding(kind="misnamed-bundle", note=f"{path}: its content has another name", problem=True))
                    continue
                self._known[path] = known
            yield known

    def sessions(self, report: Report = lambda _: None) -> list[Kept]:
        """All bundles, superseded ones marked, in the order in which their captures began."""
        bundles = list(self.bundles(report))
        for path in self._apart():
            note = f"{path}: damaged and set apart: salvage reads what is left of it, forget removes it"
            report(Finding(kind="damaged-bundle", note=note, problem=True))
        old = {content_id for bundle in bundles for content_id in bundle.supersedes}
        marked = [replace(bundle, superseded=bundle.content_id in old) for bundle in bundles]
        return sorted(marked, key=lambda bundle: (bundle.started, bundle.content_id))

    def newest(self, harness: str, session: str, accept: Callable[[Manifest], bool] = lambda _: True) -> Bundle | None:
        """The newest bundle of a session that none supersedes and that `accept` takes for it; None without."""
        same = [bundle for bundle in self.bundles() if (bundle.harness, bundle.session) == (harness, session)]
        old = {content_id for bundle in same for content_id in bundle.supersedes}
        for bundle in sorted(same, key=lambda one: (one.started, one.content_id), reverse=True):
            if bundle.content_id not in old:
                with contextlib.suppress(ForensicError, OSError):
                    opened = open_bundle(bundle.path)
                    if accept(opened.manifest):
                        return opened
        return None

    def named(self, name: str) -> Path:
        """The one bundle whose content id, or the newest of the session whose id, is this or begins so.

        A whole id wins over the beginnings of others; when no bundle that can be read fits, a `broken` one may.
        Raises `NotInArchive`, and `Ambiguous` when there are several.
        """
        sessions = self.sessions() if name else []
        exact = [one for one in sessions if one.content_id == name or (one.session == name and not one.superseded)]
        fitting = exact or [
            one
            for one in sessions
            if one.content_id.startswith(name) or (one.session.startswith(name) and not one.superseded)
        ]
        broken = None if fitting else self.broken(name)
        if broken is not None:
            return broken.path
        return self._only(name, fitting, lambda bundle: bundle.content_id[:16]).path

    def broken(self, name: str) -> Broken | None:
        """The one file that cannot be read as a bundle and whose name begins with this much of a content id.

        `name` has at least 8 characters, lest a careless one means it. Raises `Ambiguous` when there are several.
        """
        readable = {bundle.path for bundle in self.bundles()}
        fitting = []
        for path in (*self._paths(), *self._apart()):
            harness, beginning = _name(path)
            if len(name) >= _ENOUGH and path not in readable and beginning[: len(name)] == name[: len(beginning)]:
                size = path.stat().st_size
                fitting.append(Broken(path=path, harness=harness, beginning=beginning, size=size))
        if len(fitting) > 1:
            raise Ambiguous(name=name, count=len(fitting), known=_some(str(one.path) for one in fitting))
        return fitting[0] if fitting else None

    def forgettable(self, session: str) -> list[Kept]:
        """All bundles of the session with this id, or the only one whose id begins so; raises as `named` does."""
        fitting = _of_session(self.sessions(), session)
        one_each = {(bundle.harness, bundle.session): bundle for bundle in fitting}
        self._only(session, list(one_each.values()), lambda bundle: f"{bundle.harness} {bundle.session}")
        return fitting

    def apart(self, bundles: Sequence[Kept]) -> list[Path]:
        """Files that were set apart as damaged and are of the same session as these bundles, as far as can be told."""
        ids = {(bundle.harness, bundle.content_id[:16]) for bundle in bundles}
        sessions = {(bundle.harness, bundle.session) for bundle in bundles}
        found = []
        for path in self._apart():
            told = None
            with contextlib.suppress(ForensicError, OSError):
                manifest = open_bundle(path).manifest
                told = (manifest.harness, manifest.session)
            if _name(path) in ids or told in sessions:
                found.append(path)
        return found

    def set_apart(self, bundle: Path) -> Path:
        """Give a damaged bundle another name, so that its session can be sealed anew. Raises `WriteFailed`."""
        number = 1
        while (apart := bundle.with_name(f"{bundle.name}.damaged-{number}")).exists():
            number += 1
        try:
            bundle.rename(apart)
            _sync(bundle.parent)
        except OSError as error:
            raise WriteFailed(path=apart, detail=error.strerror or type(error).__name__) from None
        self._known.pop(bundle, None)
        return apart

    def drop(self, bundles: Iterable[Path]) -> None:
        """Delete bundles for good, and what is remembered of any. Raises `WriteFailed`."""
        for remembered in _entries(self.root / "work", _TOLD, stat.S_ISREG):
            with contextlib.suppress(OSError):
                remembered.unlink()
        for path in bundles:
            try:
                path.unlink(missing_ok=True)
                _sync(path.parent)
            except OSError as error:
                raise WriteFailed(path=path, detail=error.strerror or type(error).__name__) from None
            self._known.pop(path, None)

    def prune(self, *, dry_run: bool = False, report: Report = lambda _: None) -> Iterator[Pruned]:
        """Drop superseded bundles, each only when all it holds was found in the newest bundle that supersedes it.

        That one is read to its end first, whole and strictly. What is dropped with `dry_run` stays where it is.
        """
        bundles = self.sessions(report)
        for newest in bundles:
            if newest.superseded or not newest.supersedes:
                continue
            older = _ancestors(newest, bundles)
            reasons = _missing(newest, older)
            for bundle in older:
                reason = reasons[bundle.content_id]
                if not reason and not dry_run:
                    self.drop([bundle.path])
                yield Pruned(bundle=bundle, by=newest.content_id, dropped=not reason, reason=reason)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A fresh private folder for one capture, gone afterwards; those of processes that died are removed, too.

        Raises `WriteFailed`.
        """
        folder = self._work()
        try:
            _sweep(folder)
            name, lock = _claim(folder)
        except OSError as error:
            raise WriteFailed(path=self.root, detail=error.strerror or type(error).__name__) from None
        try:
            yield folder / name
        finally:
            _abandon(folder, name)
            os.close(lock)

    @contextlib.contextmanager
    def sealing(self) -> Iterator[None]:
        """Hold the archive while a bundle is sealed into it, so that each knows which one it supersedes."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        folder = self._work()
        try:
            descriptor = os.open(folder / "sealing.lock", flags, 0o600)
        except OSError as error:
            raise WriteFailed(path=self.root, detail=error.strerror or type(error).__name__) from None
        try:
            _lock(descriptor)
            self._sweep_half_sealed()
            yield
        finally:
            os.close(descriptor)

    def _work(self) -> Path:
        if not self.root.exists():
            private.folder(self.root)
        return private.folder(self.root / "work")

    def _sweep_half_sealed(self) -> None:
        """Once: what processes that died while they sealed have left. Only who holds the lock seals."""
        if not self._swept:
            self._swept = True
            for folder in _entries(self.root, _FOLDER, stat.S_ISDIR):
                for path in _entries(folder, _HALF_SEALED, stat.S_ISREG):
                    with contextlib.suppress(OSError):
                        path.unlink()

    def _apart(self) -> list[Path]:
        return [
            path
            for folder in _entries(self.root, _FOLDER, stat.S_ISDIR)
            for path in _entries(folder, _APART, stat.S_ISREG)
        ]

    def _paths(self) -> Iterator[Path]:
        try:
            os.scandir(self.root).close()
        except FileNotFoundError:
            return
        except OSError as error:
            raise NotReadable(path=self.root, detail=error.strerror or type(error).__name__) from None
        for folder in _entries(self.root, _FOLDER, stat.S_ISDIR):
            yield from self._bundles_in(folder)

    def _bundles_in(self, folder: Path) -> list[Path]:
        """Bundles of one folder; one that had settled when it was listed, and is unchanged, is not listed again."""
        changed, now = folder.stat().st_mtime_ns, time.time_ns()
        known = self._listed.get(folder)
        if known is not None and known[0] == changed:
            return known[1]
        paths = [path for path in _entries(folder, _BUNDLE, stat.S_ISREG) if _name(path)[1].startswith(folder.name)]
        if now - changed >= _SETTLED_NS:
            self._listed[folder] = (changed, paths)
        return paths

    def _only(self, name: str, fitting: Sequence[Kept], say: Callable[[Kept], str]) -> Kept:
        if not fitting:
            raise NotInArchive(archive=self.root, name=name)
        if len(fitting) > 1:
            raise Ambiguous(name=name, count=len(fitting), known=_some(map(say, fitting)))
        return fitting[0]


def _entries(folder: Path, names: re.Pattern[str], kind: Callable[[int], bool]) -> list[Path]:
    """What lies in a folder under such a name and is of that kind itself, not by way of a link."""
    try:
        with os.scandir(folder) as entries:
            fitting = [entry for entry in entries if names.fullmatch(entry.name)]
            return sorted(Path(entry.path) for entry in fitting if kind(entry.stat(follow_symlinks=False).st_mode))
    except OSError:
        return []


def _name(path: Path) -> tuple[str, str]:
    """Harness and beginning of the content id, as the name of a bundle tells them, set apart or not."""
    harness, _, beginning = path.name.partition(".")[0].rpartition("-")
    return harness, beginning


def _some(names: Iterable[str]) -> str:
    known = sorted(names)
    return ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")


def _kept(bundle: Bundle, *, verdict: bool) -> Kept:
    manifest = bundle.manifest
    told = _told(bundle) if verdict else _Told()
    return Kept(
        path=bundle.path,
        content_id=bundle.content_id,
        harness=manifest.harness,
        session=manifest.session,
        started=manifest.capture.started,
        sealed_at=manifest.capture.sealed_at,
        sources=len(manifest.sources),
        rows=sum(generation.rows for source in manifest.sources for generation in source.generations),
        size=bundle.path.stat().st_size,
        supersedes=manifest.supersedes,
        title=told.title,
        began=utc(told.started),
        ended=utc(told.ended),
    )


def _told(bundle: Bundle) -> _Told:
    """Nothing where there is no verdict, or none that can be read: a list is not the place to say so."""
    with contextlib.suppress(ForensicError, OSError, msgspec.MsgspecError):
        raw = bundle.recorded()
        return _Told() if raw is None else msgspec.json.decode(raw, type=_Told)
    return _Told()


def _note(path: Path, error: Exception) -> str:
    return str(error) if isinstance(error, ForensicError) else f"{path}: {error}"


def _of_session(bundles: Iterable[Kept], session: str) -> list[Kept]:
    known = list(bundles)
    exact = [bundle for bundle in known if bundle.session == session]
    return exact or [bundle for bundle in known if session and bundle.session.startswith(session)]


def _ancestors(newest: Kept, bundles: Sequence[Kept]) -> list[Kept]:
    """All that a bundle supersedes, directly or not, oldest first: dropped in that order, no chain ever breaks."""
    by_id = {bundle.content_id: bundle for bundle in bundles}
    found: dict[str, Kept] = {}
    pending = list(newest.supersedes)
    while pending:
        bundle = by_id.get(pending.pop())
        if bundle is not None and bundle.content_id not in found and bundle is not newest:
            found[bundle.content_id] = bundle
            pending.extend(bundle.supersedes)
    return sorted(found.values(), key=lambda bundle: (bundle.started, bundle.content_id))


def _missing(newest: Kept, older: Sequence[Kept]) -> dict[str, str]:
    """For each older bundle why it must stay; an empty reason when the newest holds all of it."""
    try:
        bundle = open_bundle(newest.path)
        bundle.check()
        return missing(bundle, {one.content_id: open_bundle(one.path).manifest for one in older})
    except (ForensicError, OSError) as error:
        return dict.fromkeys((one.content_id for one in older), _note(newest.path, error))


def _sync(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(folder: Path) -> tuple[str, int]:
    """Make a work folder; its lock file is held as long as the descriptor is open, and no longer than we live."""
    while True:
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        lock = folder / f"{name}.lock"
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        # somebody who sweeps may have got hold of it first and have taken it away
        if _try_lock(descriptor) and lock.exists():
            (folder / name).mkdir(mode=0o700)
            return name, descriptor
        os.close(descriptor)


def _abandon(folder: Path, name: str) -> None:
    with contextlib.suppress(OSError):
        if (folder / name).exists():
            shutil.rmtree(folder / name)
        (folder / f"{name}.lock").unlink()


def _sweep(folder: Path) -> None:
    """Remove work folders whose lock nobody holds, or has; a lock is made before its folder and goes after it."""
    for orphan in _entries(folder, re.compile(r"[0-9]+-[0-9a-f]{8}"), stat.S_ISDIR):
        if not orphan.with_name(f"{orphan.name}.lock").exists():
            shutil.rmtree(orphan, ignore_errors=True)
    for lock in _entries(folder, re.compile(r"[0-9]+-[0-9a-f]{8}\.lock"), stat.S_ISREG):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
            try:
                if _try_lock(descriptor):
                    _abandon(folder, lock.name.removesuffix(".lock"))
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        while not _try_lock(descriptor):
            time.sleep(0.05)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
