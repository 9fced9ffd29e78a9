"""One session while it runs: what it has taken is kept, and taken up again as it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from recorder_runs import SESSION, Stage, append, numbered

from forensic.capture.found import Found
from forensic.capture.journal import Head
from forensic.capture.live import LiveSession, folder_of
from forensic.capture.payloads import facts_of
from forensic.capture.spool import Spool
from forensic.model import CaptureState, Ground, Payload, Role
from forensic.wrapping import read_payloads

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pins are those of POSIX")

BOOT = "b" * 32


class Scene:
    """A session of Claude Code, its recording, and payloads for it."""

    def __init__(self, place: Path) -> None:
        self.stage = Stage(place)
        self.spool = Spool(self.stage.spool)
        self.folder = folder_of(self.stage.live, "claude", SESSION)
        self.path = self.stage.transcript()
        self.session = self.open(Head("claude", SESSION, 5, 6, BOOT))

    def open(self, head: Head | None = None) -> LiveSession:
        """Begin the recording, or take it up."""
        self.session = LiveSession(self.folder, self.stage.roots["claude"], self.spool, head)
        return self.session

    def again(self) -> LiveSession:
        """As after the end of a process."""
        self.session.close()
        return self.open()

    def take(self, event: str = "PreToolUse", path: Path | None = None, **keys: Any) -> str:
        """Have the session take a payload; the name of its file."""
        sent = self.stage.hook(event, path, **keys)
        spooled = self.spool.read(sent.name)
        assert spooled is not None
        self.session.take(sent.name, spooled.payload, facts_of(spooled.payload))
        return sent.name

    def payloads(self) -> list[Payload]:
        """What the file of payloads holds."""
        return list(read_payloads(self.folder / "payloads.jsonl"))


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    """A session that has begun."""
    one = Scene(tmp_path)
    yield one
    one.session.close()


def shape(found: Found) -> list[tuple[Any, ...]]:
    """The pieces of a session, without what is told of when they were read."""
    return [
        (
            piece.stream,
            piece.role,
            piece.native_id,
            piece.state,
            piece.reason,
            [life.copy.read_bytes() for life in piece.lives],
        )
        for piece in found.pieces
    ]


def test_folders_do_not_depend_on_ids(tmp_path: Path) -> None:
    """Any id gives a name of 32 hex digits; other ids, and other harnesses, give other ones."""
    ids = ["", "..", "/", "a", "A", "x" * 10_000, "\ud800", "\0"]
    names = {folder_of(tmp_path, harness, one).name for harness in ("claude", "codex") for one in ids}
    assert len(names) == 2 * len(ids)
    assert all(len(name) == 32 and set(name) <= set("0123456789abcdef") for name in names)


def test_a_payload_is_taken_once(scene: Scene) -> None:
    """By the name of its file, also after a restart."""
    name = scene.take()
    spooled = scene.spool.read(name)
    assert spooled is not None
    scene.session.take(name, spooled.payload, facts_of(spooled.payload))
    scene.session.commit()
    scene.again().take(name, spooled.payload, facts_of(spooled.payload))
    scene.session.commit()
    assert [(one.n, one.ref.offset, one.raw) for one in scene.payloads()] == [(1, 1, spooled.payload.raw)]
    assert scene.session.names == {name}


def test_what_was_not_committed_is_gone(scene: Scene) -> None:
    """A payload without its line in the journal is cut off, and may come again under the same number."""
    scene.take(n=1)
    scene.session.commit()
    lost = scene.take(n=2)
    assert len(scene.payloads()) == 2
    assert len(scene.again().names) == 1
    assert len(scene.payloads()) == 1
    spooled = scene.spool.read(lost)
    assert spooled is not None
    scene.session.take(lost, spooled.payload, facts_of(spooled.payload))
    scene.session.commit()
    assert [one.n for one in scene.payloads()] == [1, 2]


def test_a_payload_file_that_was_torn(scene: Scene) -> None:
    """What stands behind the last payload that the journal knows goes."""
    scene.take()
    scene.session.commit()
    before = (scene.folder / "payloads.jsonl").read_bytes()
    append(scene.folder / "payloads.jsonl", b'{"half')
    scene.again()
    assert (scene.folder / "payloads.jsonl").read_bytes() == before


def test_taken_up_as_it_was(scene: Scene) -> None:
    """Payloads, rows, refusals, children, folders: the same session before and after."""
    append(scene.path, numbered(1, 2))
    append(scene.path.with_suffix("") / "subagents" / "agent-a1.jsonl", numbered(1, 1, agentId="a1"))
    scene.take("SubagentStop", scene.path)
    scene.take("PreToolUse", Path("/etc/passwd.jsonl"))
    before = shape(scene.session.settle())
    assert [piece[:4] for piece in before] == [
        ("main", Role.MAIN, SESSION, CaptureState.LIVE),
        ("agent-a1", Role.SUBAGENT, "a1", CaptureState.LIVE),
        ("refused-1", Role.SIDE, "/etc/passwd.jsonl", CaptureState.REFUSED),
    ]
    bound = [(piece.stream, piece.drains) for piece in scene.session.found().pieces]
    again = scene.again()
    assert (again.harness, again.session, again.payloads, again.rows) == ("claude", SESSION, 2, 3)
    assert again.refusals == {"/etc/passwd.jsonl": "outside the harness roots"}
    assert shape(again.settle()) == before
    assert [(piece.stream, piece.drains) for piece in again.found().pieces] == bound


def test_taken_up_by_its_pin(scene: Scene) -> None:
    """A file that is gone is read on by the pin that a hook made."""
    append(scene.path, numbered(1, 1))
    scene.take(path=scene.path)
    scene.session.commit()
    scene.session.close()
    append(scene.path, numbered(2, 2))
    scene.path.unlink()
    (piece,) = scene.open().settle().pieces
    assert [(life.copy.read_bytes(), life.ended_by) for life in piece.lives] == [(numbered(1, 2), "deleted")]


def test_a_file_written_while_nobody_looked_is_not_live(scene: Scene) -> None:
    """Rows that stood there for longer than a moment were not read as they came."""
    append(scene.path, numbered(1, 1))
    os.utime(scene.path, (1_700_000_000, 1_700_000_000))
    scene.take(path=scene.path)
    (piece,) = scene.session.settle().pieces
    assert piece.state is CaptureState.BACKFILLED


def test_nothing_is_committed_without_need(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in which nothing happened costs no sync."""
    scene.take(path=scene.path)
    scene.session.commit()
    assert not scene.session.pending
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("it was synced"))
    for _ in range(3):
        scene.session.look(now=True)
        assert not scene.session.drain(Ground.POLL)
        scene.session.commit()


def test_the_journal_comes_last(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it vouches for was synced before it."""
    append(scene.path, numbered(1, 1))
    scene.take(path=scene.path)
    names: list[str] = []
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("which file is synced cannot be told here")
    monkeypatch.setattr(os, "fsync", lambda file: names.append(Path(f"/proc/self/fd/{file}").readlink().name))
    scene.session.commit()
    assert names == ["payloads.jsonl", "0001-1", "copies", scene.folder.name, "live", "journal"]


@pytest.mark.parametrize(
    ("wall", "ended"), [(0, True), (1_000_000_000, True), (2_500_000_000, False), (-5_000_000_000, True)]
)
def test_an_end_and_what_comes_after(scene: Scene, wall: int, *, ended: bool) -> None:
    """Only a payload that is later by more than a race takes an end back; after a restart it is the same."""
    base = 1_700_000_000_000_000_000
    scene.take("SessionEnd", head={"wall": base})
    scene.take("PreToolUse", head={"wall": base + wall})
    scene.session.commit()
    assert (scene.session.ended is not None) is ended
    assert (scene.again().ended is not None) is ended


@pytest.mark.parametrize("boot", ["", BOOT, "c" * 32])
@pytest.mark.parametrize("process", [0, 1, os.getpid(), 0x7FFFFFFF])
def test_abandoned(scene: Scene, boot: str, process: int) -> None:
    """Its process is gone, or the machine was started anew; where neither can be told it is not."""
    scene.take(head={"ppid": process, "boot": BOOT})
    told = process > 1 and boot != "" and (boot != BOOT or process == 0x7FFFFFFF)
    assert scene.session.is_abandoned(boot) is told


def test_refusals_are_bounded(scene: Scene) -> None:
    """Neither many nor long paths fill a manifest; each is told once."""
    scene.take(path=Path("/" + "a" * 9000 + ".jsonl"))
    for number in range(80):
        scene.take(path=Path(f"/etc/{number}.jsonl"))
        scene.take(path=Path("/etc/0.jsonl"))
    scene.session.commit()
    lengths = [len(path) for path in scene.session.refusals]
    assert (len(lengths), max(lengths)) == (64, 1001)
    before = scene.session.refusals
    assert scene.again().refusals == before
    assert len(scene.payloads()) == 161


def test_head_of(scene: Scene, tmp_path: Path) -> None:
    """Whose session a folder holds; none where nothing was kept, and an error where there is no folder."""
    assert LiveSession.head_of(scene.folder) is None
    scene.take()
    scene.session.commit()
    assert LiveSession.head_of(scene.folder) == Head("claude", SESSION, 5, 6, BOOT)
    (tmp_path / "empty").mkdir()
    assert LiveSession.head_of(tmp_path / "empty") is None
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        LiveSession.head_of(tmp_path / "file")


def test_no_session(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that holds none is none without a head; whatever fails, nothing is left open."""
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir())) if folder.is_dir() else 0
    with pytest.raises(ValueError, match="holds no session"):
        LiveSession(tmp_path / "new", scene.stage.roots["claude"], scene.spool)
    scene.take()
    scene.session.commit()
    monkeypatch.setattr(os, "ftruncate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        LiveSession(scene.folder, scene.stage.roots["claude"], scene.spool)
    assert (len(list(folder.iterdir())) if folder.is_dir() else 0) == before


def test_working_folders_are_told_once(scene: Scene) -> None:
    """Of a repository, where the session began to be in it."""
    repository = scene.stage.place / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    for _ in range(3):
        scene.take(cwd=str(repository))
    told = scene.session.settle().live
    assert told is not None
    assert [facts["cwd"] for facts in told.context] == [str(repository)]
    told = scene.again().found().live
    assert told is not None
    assert [facts["cwd"] for facts in told.context] == [str(repository)]
