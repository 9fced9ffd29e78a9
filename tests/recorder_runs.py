"""A stage for the recorder: a user's home folder, a data folder, and payload files as hooks leave them in the spool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from forensic.archive import Archive
from forensic.bundle import Bundle, open_bundle
from forensic.capture import live, recorder
from forensic.capture.found import Found
from forensic.capture.guard import Roots
from forensic.capture.recorder import Recorder, Settings
from forensic.capture.requests import Outcome
from forensic.capture.spool import boot_id
from forensic.cli import main
from forensic.harness import HARNESSES
from forensic.intake import Captured, seal_live
from forensic.model import Payload, Row, SideFile, Source
from forensic.recording import open_recording

SESSION: Final = "5e550000-1111-4111-8111-111111111111"
BOOT: Final = boot_id() or "0" * 32
NEVER: Final = 1e9
QUICK: Final = """
import sys
from forensic.capture import recorder
from forensic.cli import main
real = recorder.Settings
recorder.Settings = lambda: real(grace=float(sys.argv[1]))
sys.exit(main(sys.argv[2:]))
"""
"""The command line, but with a grace that is given before it."""
AT_ONCE: Final = Settings(grace=0.0, abandoned=NEVER, idle=NEVER, tick=0.0, active=NEVER)
"""Sessions are looked at in every round, and sealed in the round in which they end."""


class Clock:
    """A clock that stands still but when told to go on, in place of that of the recorder."""

    def __init__(self) -> None:
        self.now = 1000.0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        """Have the recorder go by it; Unix time stays what it is."""
        fake = SimpleNamespace(
            monotonic=lambda: self.now,
            monotonic_ns=lambda: int(self.now * 1e9),
            time=time.time,
            time_ns=time.time_ns,
            sleep=self.go,
        )
        for module in (recorder, live):
            monkeypatch.setattr(module, "time", fake)
        return self

    def go(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Sent(NamedTuple):
    """A payload as it was put into the spool."""

    name: str
    raw: bytes


class Stage:
    """Where a recorder plays."""

    def __init__(self, place: Path) -> None:
        self.place = place.resolve()
        self.user, self.home = self.place / "user", self.place / "data"
        self.spool, self.live = self.home / "spool", self.home / "live"
        self.pins = self.spool / "pins"
        for folder in (self.user, self.home, self.spool, self.pins):
            folder.mkdir(mode=0o700)
        self.roots = {
            name: Roots([str(self.user / harness.hooks.home[1] / below) for below in harness.hooks.roots])
            for name, harness in HARNESSES.items()
        }
        self.told: list[Captured] = []
        self.warned: list[str] = []
        self.sent: list[Sent] = []
        self.grace = 0.1
        """Seconds: that of processes."""
        self._mono = time.monotonic_ns()

    # --- what harnesses do --------------------------------------------------------------------------------------------

    def transcript(self, session: str = SESSION, harness: str = "claude", name: str = "") -> Path:
        """Where a harness would write a session's main transcript; its folder is there afterwards."""
        below = {
            "claude": f".claude/projects/-x/{session}.jsonl",
            "codex": f".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{session}.jsonl",
            "copilot": f".copilot/session-state/{session}/events.jsonl",
            "cursor": f".cursor/projects/x/agent-transcripts/{session}.jsonl",
        }[harness]
        path = self.user / below
        path = path.with_name(name) if name else path
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def hook(
        self,
        event: str = "PreToolUse",
        path: Path | str | None = None,
        *,
        session: str | None = SESSION,
        harness: str = "claude",
        raw: bytes | None = None,
        pin: bool = True,
        head: dict[str, Any] | None = None,
        **keys: Any,
    ) -> Sent:
        """Leave a payload in the spool as the hook does: pins, then a temporary file, its sync, its name."""
        if raw is None:
            told: dict[str, Any] = {} if session is None else {"session_id": session}
            told |= {} if path is None else {"transcript_path": str(path)}
            raw = json.dumps(told | keys, ensure_ascii=False).encode("utf-8", "surrogatepass")
        saw = [self._saw(Path(path), pin=pin)] if path is not None else []
        self._mono += 1000
        wall = time.time_ns()
        top = {
            "v": 1, "harness": harness, "argv": [event], "boot": BOOT, "mono": self._mono, "wall": wall, "pid": 7,
            "ppid": os.getpid(), "parent_exe": "", "cwd": "", "env": [], "kept": {}, "saw": saw,
            "bytes": len(raw), "cut": False, "stored": len(raw),
        } | (head or {})  # fmt: skip
        name = f"{top['boot']}-{top['mono']:020d}-{top['wall']}-{top['pid']}-{len(self.sent):08x}.hook"
        temporary = self.spool / f".tmp-{os.getpid()}-{len(self.sent):08x}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, json.dumps(top, ensure_ascii=False).encode() + b"\n")
            os.write(descriptor, raw)
        finally:
            os.close(descriptor)
        temporary.replace(self.spool / name)
        self.sent.append(Sent(name, raw))
        return self.sent[-1]

    def _saw(self, path: Path, *, pin: bool) -> list[Any]:
        try:
            status = path.lstat()
        except (OSError, ValueError):
            return [str(path), 0, 0, -1]
        if pin:
            link = self.pins / f"{status.st_dev}-{status.st_ino}"
            if not link.exists() and path.is_relative_to(self.user) and path.is_file():
                os.link(path, link, follow_symlinks=False)
        return [str(path), status.st_dev, status.st_ino, status.st_size]

    # --- the recorder -------------------------------------------------------------------------------------------------

    def recorder(self, settings: Settings = AT_ONCE, *, fork: bool = False, seal: Any = None) -> Recorder:
        """A recorder of this data folder. By default it seals by itself, and without a verdict."""
        return Recorder(
            self.home,
            self.roots,
            seal or self.seal,
            settings=settings,
            tell=self._tell,
            warn=self.warned.append,
            fork=fork,
        )

    def seal(self, found: Found) -> bytes:
        """Seal as the command does, but without a verdict."""
        return msgspec.json.encode(seal_live(found, Archive(self.home / "archive"), verdict=False))

    def _tell(self, outcome: Outcome) -> None:
        self.told.append(msgspec.json.decode(outcome.sealed, type=Captured))

    def record(self, settings: Settings = AT_ONCE, rounds: int = 4, **more: Any) -> None:
        """Have a new recorder go so many rounds."""
        with self.recorder(settings, **more) as recording:
            for _ in range(rounds):
                recording.step()

    def command(self, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
        """Run the command line in this process, for this user."""
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)
        return main([*arguments])

    def process(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """Run the command line as a process of its own, for this user."""
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        options |= {"env": self.environment(), "cwd": "/"} | more
        return subprocess.Popen([sys.executable, "-c", QUICK, str(self.grace), *arguments], **options)

    def run(self, *arguments: str, **more: Any) -> tuple[int, str, str]:
        """Run the command line as a process, to its end: exit code, output, errors."""
        process = self.process(*arguments, **more)
        out, errors = process.communicate(timeout=60)
        return process.returncode, out.decode(), errors.decode()

    def environment(self) -> dict[str, str]:
        """That of the user."""
        root = str(Path(__file__).parent.parent)
        path = os.environ.get("PATH", os.defpath)
        return {
            "PATH": path, "HOME": str(self.user), "USERPROFILE": str(self.user), "LANG": "C.UTF-8",
            "FORENSIC_HOME": str(self.home), "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    # --- what came of it ----------------------------------------------------------------------------------------------

    def bundles(self) -> list[Bundle]:
        """All bundles, each checked to its end, oldest first; asserts that none is damaged or half there."""
        root = self.home / "archive"
        found = [open_bundle(path) for path in root.glob("??/*.zst")]
        # what a process that was killed has left beside goes with the next seal
        odd = [path.name for path in root.glob("??/*") if path.suffix != ".zst"]
        assert [name for name in odd if not name.startswith(".sealing-")] == []
        for bundle in found:
            bundle.check()
        return sorted(found, key=lambda bundle: (bundle.manifest.capture.sealed_at, bundle.content_id))

    def newest(self, session: str = SESSION) -> Bundle:
        """The one bundle of a session that no other supersedes; verified as `forensic verify` does."""
        bundles = [bundle for bundle in self.bundles() if bundle.manifest.session == session]
        old = {content_id for bundle in bundles for content_id in bundle.manifest.supersedes}
        (newest,) = [bundle for bundle in bundles if bundle.content_id not in old]
        report = open_recording(newest.path).verify()
        assert [finding for finding in report.findings if finding.problem] == []
        return newest

    def waiting(self) -> list[str]:
        """The payload files that still lie in the spool."""
        return sorted(path.name for path in self.spool.glob("*.hook"))

    def recording(self) -> list[str]:
        """The folders of sessions that are being recorded."""
        return sorted(path.name for path in self.live.iterdir()) if self.live.is_dir() else []

    def is_clean(self) -> bool:
        """Whether nothing waits, nothing is being recorded, and no working folder is left."""
        left = [path for path in (self.home / "archive" / "work").glob("*") if path.is_dir()]
        return (self.waiting(), self.recording(), left) == ([], [], [])


def raws(bundle: Bundle) -> list[bytes]:
    """All payloads of a bundle, in their order, byte for byte."""
    return [entry.raw for entry in bundle.timeline() if isinstance(entry, Payload)]


def texts(bundle: Bundle) -> dict[tuple[str, int], bytes]:
    """Every generation of every transcript, put together again from its rows."""
    found: dict[tuple[str, int], bytes] = {}
    for entry in bundle.timeline():
        if isinstance(entry, Row):
            key = (entry.ref.stream, entry.ref.generation)
            assert len(found.get(key, b"")) == entry.ref.offset
            found[key] = found.get(key, b"") + entry.raw + entry.end
    return found


def sides(bundle: Bundle) -> dict[str, list[bytes]]:
    """Every version of every side file, by native ids."""
    found: dict[str, list[bytes]] = {}
    for entry in bundle.timeline():
        if isinstance(entry, SideFile):
            found.setdefault(entry.native_id, []).append(entry.raw)
    return found


def source(bundle: Bundle, stream: str = "main") -> Source:
    """What the manifest says of one stream."""
    (one,) = [one for one in bundle.manifest.sources if one.stream == stream]
    return one


def modes(folder: Path) -> Iterator[tuple[str, int]]:
    """Every path below a folder, and the folder, with its permissions."""
    for path in (folder, *sorted(folder.rglob("*"))):
        yield path.relative_to(folder).as_posix(), path.lstat().st_mode & 0o7777


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something is so, and no longer than a test may take."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


def numbered(first: int, last: int, session: str = SESSION, **keys: object) -> bytes:
    """Rows of Claude Code with these numbers, both included."""
    return b"".join(
        json.dumps({"type": "user", "sessionId": session, "uuid": f"u{n}", "n": n} | keys).encode() + b"\n"
        for n in range(first, last + 1)
    )


def append(path: Path, data: bytes) -> None:
    """Add bytes to a file, made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as out:
        out.write(data)
