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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from forensic.bundle import Bundle, open_bundle
from forensic.errors import Ambiguous, ForensicError, NotInArchive, WriteFailed
from forensic.model import Finding, Manifest
from forensic.superset import missing

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Archive", "Kept", "Pruned", "default_root"]

Report = Callable[[Finding], None]

_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
_BUNDLE: Final = re.compile(r"([a-z0-9_]+)-([0-9a-f]{16})\.zst")


def default_root() -> Path:
    """Where the archive is unless another is named: below ``FORENSIC_HOME``, else with the user's own data."""
    home = os.environ.get("FORENSIC_HOME")
    if home:
        return Path(home) / "archive"
    import platformdirs  # noqa: PLC0415 -- 29 ms that most commands need not spend

    return platformdirs.user_data_path("forensic") / "archive"


class Kept(Struct, frozen=True, kw_only=True):
    """One bundle of the archive. `size` is that of its file; `superseded` when another bundle names it so."""

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


class Pruned(Struct, frozen=True, kw_only=True):
    """What became of one superseded bundle: dropped, or kept because something is only in there."""

    bundle: Kept
    by: str
    dropped: bool
    reason: str = ""


class Archive:
    """One archive folder; it need not exist yet."""

    def __init__(self, root: Path) -> None:
        """Nothing is read or made before it is needed."""
        self.root = root
        self._known: dict[Path, Kept] = {}

    def path_of(self, harness: str, content_id: str) -> Path:
        """Where the bundle with this content is, or would be."""
        return self.root / content_id[:2] / f"{harness}-{content_id[:16]}.zst"

    def bundles(self, report: Report = lambda _: None) -> Iterator[Kept]:
        """All bundles in the order of their paths, read as far as their manifests.

        One that cannot be read is told to `report` and left out. `superseded` is not known yet: see `sessions`.
        """
        for path in self._paths():
            known = self._known.get(path)
            if known is None:
                try:
                    known = _kept(open_bundle(path))
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
        old = {content_id for bundle in bundles for content_id in bundle.supersedes}
        marked = [replace(bundle, superseded=bundle.content_id in old) for bundle in bundles]
        return sorted(marked, key=lambda bundle: (bundle.started, bundle.content_id))

    def newest(self, harness: str, session: str, accept: Callable[[Manifest], bool] = lambda _: True) -> Bundle | None:
        """The newest bundle of a session that none supersedes and that `accept` takes for it; None without."""
        for bundle in reversed(self.sessions()):
            if (bundle.harness, bundle.session, bundle.superseded) == (harness, session, False):
                with contextlib.suppress(ForensicError, OSError):
                    opened = open_bundle(bundle.path)
                    if accept(opened.manifest):
                        return opened
        return None

    def named(self, name: str) -> Path:
        """The one bundle whose content id, or the newest of the session whose id, begins so.

        Raises `NotInArchive`, and `Ambiguous` when there are several.
        """
        sessions = self.sessions()
        fitting = [bundle for bundle in sessions if name and bundle.content_id.startswith(name)]
        if not fitting:
            fitting = [bundle for bundle in _of_session(sessions, name) if not bundle.superseded]
        return self._only(name, fitting, lambda bundle: bundle.content_id[:16]).path

    def forgettable(self, session: str) -> list[Kept]:
        """All bundles of the session with this id, or the only one whose id begins so; raises as `named` does."""
        fitting = _of_session(self.sessions(), session)
        one_each = {(bundle.harness, bundle.session): bundle for bundle in fitting}
        self._only(session, list(one_each.values()), lambda bundle: f"{bundle.harness} {bundle.session}")
        return fitting

    def drop(self, bundles: Iterable[Kept]) -> None:
        """Delete bundles for good. Raises `WriteFailed`."""
        for bundle in bundles:
            try:
                bundle.path.unlink(missing_ok=True)
                _sync(bundle.path.parent)
            except OSError as error:
                raise WriteFailed(path=bundle.path, detail=error.strerror or type(error).__name__) from None
            self._known.pop(bundle.path, None)

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
                    self.drop([bundle])
                yield Pruned(bundle=bundle, by=newest.content_id, dropped=not reason, reason=reason)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A fresh private folder for one capture, gone afterwards; those of processes that died are removed, too.

        Raises `WriteFailed`.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self.root / "work"
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
            _sweep(folder)
            name, lock = _claim(folder)
        except OSError as error:
            raise WriteFailed(path=self.root, detail=error.strerror or type(error).__name__) from None
        try:
            yield folder / name
        finally:
            _abandon(folder, name)
            os.close(lock)

    def _paths(self) -> Iterator[Path]:
        for folder in _entries(self.root, _FOLDER, stat.S_ISDIR):
            for path in _entries(folder, _BUNDLE, stat.S_ISREG):
                match = _BUNDLE.fullmatch(path.name)
                if match is not None and match[2].startswith(folder.name):
                    yield path

    def _only(self, name: str, fitting: Sequence[Kept], say: Callable[[Kept], str]) -> Kept:
        if not fitting:
            raise NotInArchive(archive=self.root, name=name)
        if len(fitting) > 1:
            known = ", ".join(sorted(map(say, fitting))[:5]) + (", ..." if len(fitting) > 5 else "")
            raise Ambiguous(name=name, count=len(fitting), known=known)
        return fitting[0]


def _entries(folder: Path, names: re.Pattern[str], kind: Callable[[int], bool]) -> list[Path]:
    """What lies in a folder under such a name and is of that kind itself, not by way of a link."""
    try:
        with os.scandir(folder) as entries:
            fitting = [entry for entry in entries if names.fullmatch(entry.name)]
            return sorted(Path(entry.path) for entry in fitting if kind(entry.stat(follow_symlinks=False).st_mode))
    except OSError:
        return []


def _kept(bundle: Bundle) -> Kept:
    manifest = bundle.manifest
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
    )


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
    """Remove work folders whose lock nobody holds."""
    for lock in _entries(folder, re.compile(r"[0-9]+-[0-9a-f]{8}\.lock"), stat.S_ISREG):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
            try:
                if _try_lock(descriptor):
                    _abandon(folder, lock.name.removesuffix(".lock"))
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
