"""The recorder as a whole: what hooks and harnesses leave becomes sealed bundles, and nothing is lost on the way."""

from __future__ import annotations

import errno
import json
import os
import sys
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_extension import document_of
from recorder_runs import NEVER, SESSION, Clock, Stage, append, modes, numbered, raws, sides, source, texts

from forensic.accounts import Work, accounts
from forensic.archive import Archive
from forensic.bundle import Bundle
from forensic.capture.live import LiveSession
from forensic.capture.recorder import Recorder, Settings
from forensic.capture.requests import Request
from forensic.errors import Busy, WriteFailed
from forensic.intake import capture
from forensic.model import CaptureState, Finding, Ground, Role
from forensic.recording import open_recording

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pins and modes are those of POSIX")

OTHER = "0a11ce00-2222-4222-8222-222222222222"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A fresh stage."""
    return Stage(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time for the recorder that passes when it is told to."""
    return Clock().install(monkeypatch)


def grounds(bundle: Bundle) -> list[tuple[str, int, tuple[int, int], int | None, Ground]]:
    """When rows were read: stream, generation, rows, after which payload, why."""
    return [(one.stream, one.generation, one.rows, one.after, one.ground) for one in bundle.bindings()]


# --- one session ------------------------------------------------------------------------------------------------------


def test_a_session_from_beginning_to_end(stage: Stage, clock: Clock) -> None:
    """Payloads and rows as they come, each row bound to the payload before it, sealed when nothing comes any more."""
    path = stage.transcript()
    with stage.recorder(Settings()) as recording:
        stage.hook("SessionStart", path)
        recording.step()
        append(path, numbered(1, 2))
        stage.hook("UserPromptSubmit", path)
        recording.step()
        append(path, numbered(3, 5))
        clock.go(0.05)
        recording.step()
        append(path, numbered(6, 6))
        stage.hook("SessionEnd", path, reason="exit")
        recording.step()
        assert (stage.waiting(), stage.told) == ([], [])
        clock.go(1.0)
        append(path, numbered(7, 7))
        recording.step()
        clock.go(1.9)
        recording.step()
        assert stage.told == []
        clock.go(0.2)
        recording.step()
        assert not recording.sessions
    (told,) = stage.told
    assert (told.state, told.harness, told.session, told.rows, told.findings) == ("sealed", "claude", SESSION, 7, ())
    bundle = stage.newest()
    assert raws(bundle) == [sent.raw for sent in stage.sent]
    assert texts(bundle) == {("main", 1): path.read_bytes()}
    assert grounds(bundle) == [
        ("main", 1, (0, 2), 1, Ground.PAYLOAD),
        ("main", 1, (2, 5), 2, Ground.POLL),
        ("main", 1, (5, 6), 2, Ground.BOUNDARY),
        ("main", 1, (6, 7), 3, Ground.POLL),
    ]
    main = source(bundle)
    assert (main.state, main.role, main.native_id, main.path) == (CaptureState.LIVE, Role.MAIN, SESSION, str(path))
    assert (main.partial, main.gap, main.reason, bundle.manifest.gaps) == (False, False, "", ())
    assert stage.is_clean()
    assert (list(stage.pins.iterdir()), stage.warned) == ([], [])


def test_nothing_to_record(stage: Stage) -> None:
    """Without payloads there is no session, no bundle and no word."""
    append(stage.transcript(), numbered(1, 3))
    stage.record()
    assert (stage.bundles(), stage.recording(), stage.warned, stage.told) == ([], [], [], [])


def test_rows_that_stood_there_before(stage: Stage) -> None:
    """A transcript that was there long before the first payload is read from its beginning, and that is told."""
    path = stage.transcript()
    append(path, numbered(1, 4))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    stage.hook("SessionEnd", path)
    stage.record()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): path.read_bytes()}
    assert source(bundle).state is CaptureState.BACKFILLED
    assert grounds(bundle) == [("main", 1, (0, 4), None, Ground.BOUNDARY)]


def test_an_unfinished_row(stage: Stage) -> None:
    """While it grows it waits; at the end it is kept, and told to be no whole row."""
    path = stage.transcript()
    append(path, numbered(1, 1) + b'{"type":"us')
    stage.hook("PreToolUse", path)
    stage.record()
    stage.hook("SessionEnd", path)
    stage.record()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): path.read_bytes()}
    main = source(bundle)
    assert main.partial
    assert main.unread is not None
    assert (main.unread.offset, main.unread.bytes) == (len(numbered(1, 1)), len(b'{"type":"us'))


def test_many_sessions_at_once(stage: Stage) -> None:
    """Interleaved payloads each go to their own session, whatever the harness."""
    ids = [f"{n:08x}-1111-4111-8111-111111111111" for n in range(12)]
    wanted: dict[str, list[bytes]] = {one: [] for one in ids}
    with stage.recorder() as recording:
        for turn in range(3):
            for one in ids:
                append(stage.transcript(one), numbered(turn, turn, one))
                event = "SessionEnd" if turn == 2 else "PostToolUse"
                wanted[one].append(stage.hook(event, stage.transcript(one), session=one, turn=turn).raw)
            recording.step()
        recording.step()
    for one in ids:
        bundle = stage.newest(one)
        assert raws(bundle) == wanted[one]
        assert texts(bundle) == {("main", 1): stage.transcript(one).read_bytes()}
    assert stage.is_clean()


def test_rows_before_the_payload_that_revealed_them(stage: Stage) -> None:
    """What stands in the files when a payload is taken is recorded before it, also what a later one of a batch sees."""
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("UserPromptSubmit", path)
    stage.hook("PreToolUse", path)
    with stage.recorder(Settings(grace=NEVER)) as recording:
        recording.step()
        append(path, numbered(3, 3))
        stage.hook("SessionEnd", path)
        recording.step()
        recording.finish(Request(seal=()))
    assert [(rows, after) for _, _, rows, after, _ in grounds(stage.newest())] == [((0, 2), None), ((2, 3), 2)]


def test_payloads_in_the_order_in_which_hooks_began(stage: Stage) -> None:
    """The names in the spool say so, whichever came to lie there first."""
    second = stage.hook("PreToolUse", n=2, head={"mono": 2000})
    first = stage.hook("UserPromptSubmit", n=1, head={"mono": 1000})
    last = stage.hook("SessionEnd", n=3, head={"mono": 3000})
    stage.record()
    assert raws(stage.newest()) == [first.raw, second.raw, last.raw]


@pytest.mark.parametrize("raw", [b"", b"\xef\xbb\xbf", b"not json", b'{"session_id":', b"\x00\xff" * 9, b"[" * 9000])
def test_payloads_that_are_no_json(stage: Stage, raw: bytes) -> None:
    """They are kept as they came, with the session of the process that ran the hook."""
    stage.hook("UserPromptSubmit")
    odd = stage.hook("PreToolUse", raw=raw)
    stage.hook("SessionEnd")
    stage.record()
    assert raws(stage.newest())[1] == odd.raw
    assert len(stage.bundles()) == 1


# --- when a session has ended -----------------------------------------------------------------------------------------


def test_rows_that_keep_coming_put_off_the_seal(stage: Stage, clock: Clock) -> None:
    """Grace begins anew with every row."""
    path = stage.transcript()
    stage.hook("SessionEnd", path)
    with stage.recorder(Settings(grace=2.0)) as recording:
        for n in range(1, 6):
            recording.step()
            clock.go(1.5)
            append(path, numbered(n, n))
        recording.step()
        assert (stage.told, len(recording.sessions)) == ([], 1)
        clock.go(2.5)
        recording.step()
        assert len(stage.told) == 1
    assert texts(stage.newest()) == {("main", 1): numbered(1, 5)}


def test_a_session_that_goes_on_after_its_end(stage: Stage, clock: Clock) -> None:
    """A payload that is clearly later than the end, as after a resume, takes the end back."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    end = stage.hook("SessionEnd", path)
    wall = int(end.name.split("-")[2])
    with stage.recorder(Settings(grace=2.0)) as recording:
        recording.step()
        stage.hook("SessionStart", path, head={"wall": wall + 3_000_000_000})
        recording.step()
        clock.go(60.0)
        recording.step()
        assert (stage.told, len(recording.sessions)) == ([], 1)
        stage.hook("SessionEnd", path, head={"wall": wall + 4_000_000_000})
        recording.step()
        clock.go(2.5)
        recording.step()
    assert len(raws(stage.newest())) == 3
    assert len(stage.bundles()) == 1


def test_hooks_that_race_with_the_end(stage: Stage, clock: Clock) -> None:
    """One that began with the last one, and came after it, does not keep the session open."""
    end = stage.hook("SessionEnd")
    stage.hook("Stop", head={"wall": int(end.name.split("-")[2]) + 1_000_000_000})
    with stage.recorder(Settings(grace=2.0)) as recording:
        recording.step()
        clock.go(2.5)
        recording.step()
    assert len(raws(stage.newest())) == 2


def gone() -> int:
    """The number of a process that is no more."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


@pytest.mark.parametrize("fate", ["its process is gone", "the machine was started anew"])
def test_a_session_that_was_abandoned(stage: Stage, clock: Clock, fate: str) -> None:
    """Without an end it is sealed once nothing comes and whoever ran its hooks is gone."""
    head = {"ppid": gone()} if fate == "its process is gone" else {"boot": "f" * 32}
    append(stage.transcript(), numbered(1, 2))
    stage.hook("PreToolUse", stage.transcript(), head=head)
    with stage.recorder(Settings(abandoned=15.0)) as recording:
        recording.step()
        clock.go(14.0)
        recording.step()
        assert stage.told == []
        clock.go(2.0)
        recording.step()
    assert texts(stage.newest()) == {("main", 1): numbered(1, 2)}


def test_a_session_that_only_waits(stage: Stage, clock: Clock) -> None:
    """As long as its process lives it is not abandoned; it is idle after an hour, and not sooner."""
    stage.hook("PreToolUse")
    with stage.recorder(Settings(abandoned=15.0, idle=3600.0)) as recording:
        recording.step()
        clock.go(3599.0)
        recording.step()
        assert stage.told == []
        clock.go(2.0)
        recording.step()
        assert [one.state for one in stage.told] == ["sealed"]


def test_an_idle_session_that_goes_on(stage: Stage, clock: Clock) -> None:
    """What comes after it was sealed for idleness makes a second bundle, which holds all."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("PreToolUse", path)
    with stage.recorder(Settings(idle=10.0)) as recording:
        recording.step()
        clock.go(11.0)
        recording.step()
        append(path, numbered(2, 2))
        stage.hook("SessionEnd", path)
        recording.step()
        clock.go(3.0)
        recording.step()
    first, second = stage.bundles()
    assert second.manifest.supersedes == (first.content_id,)
    assert texts(stage.newest()) == {("main", 1): numbered(1, 2)}
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]


def test_a_late_payload(stage: Stage) -> None:
    """After the seal the session is sealed again, whole, and the second bundle says which one it follows."""
    path = stage.transcript()
    append(path, numbered(1, 3))
    stage.hook("SessionEnd", path)
    stage.record()
    stage.hook("Stop", path, late=True)
    stage.record(Settings(grace=NEVER, idle=0.0, tick=0.0))
    first, second = stage.bundles()
    assert [one.state for one in stage.told] == ["sealed", "superseding"]
    assert second.manifest.supersedes == (first.content_id,)
    assert raws(second) == [sent.raw for sent in stage.sent]
    assert texts(second) == texts(first) == {("main", 1): numbered(1, 3)}
    assert stage.newest().content_id == second.content_id
    assert [*grounds(second)] == [*grounds(first)]


def test_late_rows(stage: Stage) -> None:
    """Rows that came after the seal are in the next bundle, behind the others, in the same generation."""
    path = stage.transcript()
    append(path, numbered(1, 3))
    stage.hook("SessionEnd", path)
    stage.record()
    append(path, numbered(4, 4))
    stage.hook("SessionEnd", path)
    stage.record()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): numbered(1, 4)}
    assert [rows for _, _, rows, _, _ in grounds(bundle)] == [(0, 3), (3, 4)]


def test_a_late_payload_of_a_transcript_that_is_gone(stage: Stage) -> None:
    """What the first bundle has of it is in the second one, too."""
    path = stage.transcript()
    append(path, numbered(1, 3))
    stage.hook("SessionEnd", path)
    stage.record()
    path.unlink()
    stage.hook("SessionEnd", path)
    stage.record()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): numbered(1, 3)}
    assert len(raws(bundle)) == 2


def test_rows_that_come_while_it_is_sealed(stage: Stage) -> None:
    """What was not in the bundle yet is not dropped with the recording: it is sealed once more."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("SessionEnd", path)

    def seal(found: Any) -> bytes:
        sealed = stage.seal(found)
        if not stage.told:
            append(path, numbered(2, 2))
        return sealed

    stage.record(seal=seal)
    assert [one.state for one in stage.told] == ["sealed", "superseding"]
    assert texts(stage.newest()) == {("main", 1): numbered(1, 2)}
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]
    assert stage.is_clean()


def test_a_payload_that_comes_while_it_is_sealed(stage: Stage) -> None:
    """It waits in the spool, and is in the next bundle."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("SessionEnd", path)

    def seal(found: Any) -> bytes:
        if len(stage.sent) == 1:
            stage.hook("SessionEnd", path, late=True)
        return stage.seal(found)

    stage.record(seal=seal, rounds=6)
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]
    assert texts(stage.newest()) == {("main", 1): numbered(1, 1)}
    assert stage.is_clean()


# --- what becomes of files --------------------------------------------------------------------------------------------


def test_a_transcript_deleted_before_the_recorder_came(stage: Stage) -> None:
    """The pin that the hook made holds its bytes."""
    path = stage.transcript()
    append(path, numbered(1, 3))
    stage.hook("PreToolUse", path)
    path.unlink()
    stage.hook("SessionEnd", path)
    stage.record()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): numbered(1, 3)}
    (generation,) = source(bundle).generations
    assert generation.ended_by == "deleted"
    assert list(stage.pins.iterdir()) == []


def test_a_transcript_deleted_while_it_was_followed(stage: Stage) -> None:
    """The open file is read to its end, also what was written after its name had gone."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("PreToolUse", path)
    with stage.recorder() as recording:
        recording.step()
        with path.open("ab") as out:
            path.unlink()
            out.write(numbered(2, 2))
        stage.hook("SessionEnd", path)
        recording.step()
        recording.step()
    assert texts(stage.newest()) == {("main", 1): numbered(1, 2)}


def test_a_transcript_that_never_was(stage: Stage) -> None:
    """It is told to be missed; the payloads are sealed."""
    stage.hook("SessionStart", stage.transcript())
    stage.hook("SessionEnd", stage.transcript())
    stage.record()
    bundle = stage.newest()
    main = source(bundle)
    assert (main.state, main.generations, main.path) == (CaptureState.MISSED, (), str(stage.transcript()))
    assert (len(raws(bundle)), texts(bundle)) == (2, {})


def truncated(path: Path) -> None:
    os.truncate(path, 0)
    append(path, numbered(10, 10))


def rewritten(path: Path) -> None:
    path.write_bytes(numbered(10, 20))


def replaced(path: Path) -> None:
    path.with_name("new").write_bytes(numbered(10, 10))
    path.with_name("new").replace(path)


def recreated(path: Path) -> None:
    path.unlink()
    path.write_bytes(numbered(10, 20))


@pytest.mark.parametrize(
    ("change", "ends"),
    [(truncated, {"shrank"}), (rewritten, {"rewritten"}), (replaced, {"replaced"}), (recreated, {"replaced"})],
)
def test_generations(stage: Stage, change: Callable[[Path], None], ends: set[str]) -> None:
    """A file that was cut, rewritten or replaced begins a new generation; the one before stays as it was."""
    path = stage.transcript()
    append(path, numbered(1, 3))
    stage.hook("PreToolUse", path)
    with stage.recorder() as recording:
        recording.step()
        change(path)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        stage.hook("SessionEnd", path)
        recording.step()
        recording.step()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): numbered(1, 3), ("main", 2): path.read_bytes()}
    assert [one.ended_by for one in source(bundle).generations] == [*ends, ""]


def test_a_generation_that_only_pins_have(stage: Stage) -> None:
    """Replaced twice before the recorder came: each file that some payload named is there, in order."""
    path = stage.transcript()
    for n in (1, 2, 3):
        path.with_name("new").write_bytes(numbered(10 * n, 10 * n + n))
        path.with_name("new").replace(path)
        stage.hook("SessionEnd" if n == 3 else "Stop", path)
    stage.record()
    assert texts(stage.newest()) == {("main", n): numbered(10 * n, 10 * n + n) for n in (1, 2, 3)}


def test_last_rows_of_a_file_that_was_replaced_twice(stage: Stage) -> None:
    """What came after the last look at the first file is there, although another one is known by then."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("PreToolUse", path)
    with stage.recorder() as recording:
        recording.step()
        append(path, numbered(2, 2))
        for n in (10, 20):
            path.with_name("new").write_bytes(numbered(n, n))
            path.with_name("new").replace(path)
            stage.hook("SessionEnd", path)
        recording.step()
        recording.step()
    assert [*texts(stage.newest()).values()] == [numbered(1, 2), numbered(10, 10), numbered(20, 20)]


def test_generations_that_were_sealed_once_are_not_doubled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that died behind the seal is followed by one that has all of them still, and more."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("PreToolUse", path)
    stage.record()
    rewritten(path)
    stage.hook("SessionEnd", path)
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "_drop", lambda *_: None)
        stage.record(rounds=2)
    append(path, numbered(21, 21))
    stage.hook("SessionEnd", path)
    stage.record()
    assert stage.warned == []
    assert [one.state for one in stage.told] == ["sealed", "superseding"]
    assert texts(stage.newest()) == {("main", 1): numbered(1, 1), ("main", 2): numbered(10, 21)}
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]


def test_a_recorder_that_comes_later_goes_on(stage: Stage) -> None:
    """Each time with a new one: nothing is read twice, and changes in between begin new generations."""
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("SessionStart", path)
    stage.record()
    append(path, numbered(3, 3))
    stage.record()
    rewritten(path)
    stage.record()
    path.unlink()
    stage.hook("SessionEnd", path, pin=False)
    stage.record()
    assert texts(stage.newest()) == {("main", 1): numbered(1, 3), ("main", 2): numbered(10, 20)}
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]
    assert stage.is_clean()


# --- files that must not be read --------------------------------------------------------------------------------------


def link(place: Path, path: Path) -> None:
    path.symlink_to(place / "secret.jsonl")


def hard_link(place: Path, path: Path) -> None:
    os.link(place / "secret.jsonl", path)


def linked_folder(place: Path, path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(place)


def other_name(place: Path, path: Path) -> None:
    path.write_bytes((place / "secret.jsonl").read_bytes())


HOSTILE: dict[str, tuple[str, str, Callable[[Path, Path], None] | None]] = {
    "elsewhere": ("{place}/secret.jsonl", "outside the harness roots", None),
    "relative": ("projects/x.jsonl", "no absolute path", None),
    "dots": ("{root}/../../../secret.jsonl", "outside the harness roots", None),
    "a share": (r"\\server\share\x.jsonl", "no absolute path", None),
    "a share with slashes": ("//server/share/x.jsonl", "a path to another computer", None),
    "/proc": ("/proc/self/environ", "outside the harness roots", None),
    "a device": ("/dev/zero", "outside the harness roots", None),
    "a long path": ("{root}/" + "a" * 5000 + ".jsonl", "a path of more than 4,096 characters", None),
    "NUL": ("{root}/a\0b.jsonl", "no absolute path", None),
    "no transcript": ("{root}/-y/settings.json", "not named like a transcript", other_name),
    "a link": ("{root}/-y/x.jsonl", "a link", link),
    "a hard link": ("{root}/-y/x.jsonl", "a file with another name besides", hard_link),
    "a pipe": ("{root}/-y/x.jsonl", "not a regular file", lambda _, path: os.mkfifo(path)),
    "a folder": ("{root}/-y/x.jsonl", "not a regular file", lambda _, path: path.mkdir()),
    "a linked folder": (
        "{root}/-y/secret.jsonl", "a link or no folder in its path: Not a directory", linked_folder,
    ),
}  # fmt: skip
"""Paths below the user's home or elsewhere, why they must not be read, and what is to be made there."""


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_must_not_be_read(stage: Stage, kind: str) -> None:
    """It is in the manifest with the reason, none of its bytes are anywhere, and its payload is as it came."""
    (stage.place / "secret.jsonl").write_bytes(b"SECRET\n")
    path, reason, make = HOSTILE[kind]
    path = path.format(place=stage.place, root=stage.user / ".claude" / "projects")
    if make is not None:
        Path(path).parent.mkdir(parents=True)
        make(stage.place, Path(path))
    stage.hook("PreToolUse", path, pin=False)
    stage.hook("SessionEnd", stage.transcript())
    stage.record()
    bundle = stage.newest()
    told = {one.path: (one.state, one.reason) for one in bundle.manifest.sources if one.reason}
    shown = path.replace("\0", "\ufffd")
    assert told == {shown if len(path) <= 1000 else shown[:1000] + "…": (CaptureState.REFUSED, reason)}
    assert texts(bundle) == {}
    assert raws(bundle) == [sent.raw for sent in stage.sent]
    assert all(b"SECRET" not in (bundle.member(name) or b"") for name in bundle.manifest.members)


def test_a_refused_path_hides_no_other(stage: Stage) -> None:
    """Beside a hundred of them the session's own file is read; not all of them are told."""
    path = stage.transcript()
    append(path, numbered(1, 2))
    for n in range(100):
        stage.hook("PreToolUse", f"/etc/{n}.jsonl", pin=False)
    stage.hook("SessionEnd", path)
    stage.record()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): path.read_bytes()}
    assert sum(one.state is CaptureState.REFUSED for one in bundle.manifest.sources) == 64
    assert len(raws(bundle)) == 101


def test_a_path_swapped_for_a_link(stage: Stage) -> None:
    """What is read later is not what the name now leads to."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("PreToolUse", path)
    secret = stage.place / "secret"
    secret.write_bytes(b"SECRET\n")
    with stage.recorder() as recording:
        recording.step()
        path.unlink()
        path.symlink_to(secret)
        stage.hook("SessionEnd", path, pin=False)
        recording.step()
        recording.step()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): numbered(1, 1)}
    assert source(bundle).reason == "a link"


HOSTILE_IDS = (
    "../../../etc",
    "/etc/passwd",
    "a\0b",
    "..",
    ".",
    "x" * 100_000,
    "\ud800",
    "a/b\\c",
    "\x1b[2J",
    "con",
    "é你",
)


@pytest.mark.parametrize("session", HOSTILE_IDS, ids=range(len(HOSTILE_IDS)))
def test_hostile_session_ids(stage: Stage, session: str) -> None:
    """None is ever a part of a path; the session is recorded under it all the same."""
    before = {path for path in stage.place.rglob("*") if stage.home not in path.parents}
    stage.hook("PreToolUse", session=session)
    stage.hook("SessionEnd", session=session)
    stage.record(Settings(grace=0.0, idle=0.0, tick=0.0))
    (bundle,) = stage.bundles()
    assert raws(bundle) == [sent.raw for sent in stage.sent]
    # half a surrogate is no text: the payload is that of its process
    assert bundle.manifest.session == (session if session != "\ud800" else "unattributed")
    assert {path for path in stage.place.rglob("*") if stage.home not in path.parents} == before
    assert open_recording(bundle.path).verify().ok
    assert stage.is_clean()


# --- whose payload it is ----------------------------------------------------------------------------------------------


def test_payloads_of_nobody(stage: Stage) -> None:
    """One that names no session, of a process that never named one, is kept as unattributed."""
    sent = stage.hook("Notification", session=None, head={"ppid": 4_000_000})
    stage.record(Settings(idle=0.0, tick=0.0))
    bundle = stage.newest("unattributed")
    assert (bundle.manifest.harness, raws(bundle), bundle.manifest.sources) == ("claude", [sent.raw], ())


def test_a_kept_session_id(stage: Stage) -> None:
    """Claude Code tells it in its environment, also where the payload cannot be read."""
    head = {"kept": {"CLAUDE_CODE_SESSION_ID": SESSION}}
    sent = stage.hook("SessionEnd", session=None, raw=b"\xff", head=head)
    stage.record()
    assert raws(stage.newest()) == [sent.raw]


def test_subagents_of_claude(stage: Stage) -> None:
    """Named by no payload or by its stop, with what lies beside: each version of its description, and tool results."""
    path = stage.transcript()
    folder = path.with_suffix("") / "subagents"
    append(path, numbered(1, 1))
    stage.hook("SubagentStart", path, agent_id="aaa111")
    with stage.recorder() as recording:
        recording.step()
        agent, quiet = folder / "agent-aaa111.jsonl", folder / "agent-bbb222.jsonl"
        append(agent, numbered(1, 2, agentId="aaa111", isSidechain=True))
        append(quiet, numbered(5, 6, agentId="bbb222", isSidechain=True))
        meta = agent.with_suffix(".meta.json")
        append(meta, b'{"agentType":"Explore"}')
        os.utime(meta, (1_700_000_000, 1_700_000_000))
        stage.hook("SubagentStop", path, agent_id="aaa111", agent_transcript_path=str(agent))
        recording.step()
        append(agent, numbered(3, 3, agentId="aaa111", isSidechain=True))
        meta.write_bytes(b'{"agentType":"Explore","finished":true}')
        stage.hook("SessionEnd", path)
        recording.step()
        recording.step()
    bundle = stage.newest()
    assert texts(bundle) == {
        ("main", 1): path.read_bytes(),
        ("agent-aaa111", 1): agent.read_bytes(),
        ("agent-bbb222", 1): quiet.read_bytes(),
    }
    assert list(sides(bundle).values()) == [[b'{"agentType":"Explore"}', meta.read_bytes()]]
    agents = {one.stream: (one.role, one.native_id, one.parent) for one in bundle.manifest.sources if one.stream}
    assert agents["agent-aaa111"] == (Role.SUBAGENT, "aaa111", "main")
    assert len(stage.bundles()) == 1


def meta_row(session: str, **more: object) -> bytes:
    """The first row of a thread of Codex."""
    payload = {"id": session, "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/x", "cli_version": "0.171.0"} | more
    return (
        json.dumps({"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": payload}).encode()
        + b"\n"
    )


def test_threads_of_codex(stage: Stage) -> None:
    """A child's payloads come under its parent's session with the child's file: one session, two streams."""
    path, child = (stage.transcript(one, "codex") for one in (SESSION, OTHER))
    append(path, meta_row(SESSION))
    source_of = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}
    append(child, meta_row(OTHER, source=source_of))
    stage.hook("SessionStart", path, harness="codex", turn_id="t1")
    stage.hook("SubagentStart", child, harness="codex", turn_id="t2")
    stage.hook("SubagentStop", path, harness="codex", turn_id="t2", agent_transcript_path=str(child))
    stage.hook("SessionEnd", path, harness="codex")
    stage.record()
    (bundle,) = stage.bundles()
    assert (bundle.manifest.harness, bundle.manifest.session) == ("codex", SESSION)
    assert len(raws(bundle)) == 4
    assert sorted(texts(bundle).values()) == sorted([path.read_bytes(), child.read_bytes()])
    assert texts(bundle)["main", 1] == path.read_bytes()
    assert sorted((one.role, one.native_id) for one in bundle.manifest.sources) == [
        (Role.MAIN, SESSION),
        (Role.THREAD, OTHER),
    ]


def start_row(session: str) -> bytes:
    """The first row of Copilot CLI."""
    return (
        b'{"type":"session.start","data":{"sessionId":"%s","copilotVersion":"1.0.102"},"id":"e1",'
        b'"timestamp":"2026-01-02T03:04:05Z","parentId":null}\n' % session.encode()
    )


def test_the_place_of_copilot(stage: Stage) -> None:
    """Its payloads name no transcript: it is looked for where the session's folder is, also when that comes late."""
    stage.hook("sessionStart", session=None, harness="copilot", sessionId=SESSION)
    with stage.recorder() as recording:
        recording.step()
        path = stage.transcript(harness="copilot")
        append(path, start_row(SESSION))
        stage.hook("preToolUse", session=None, harness="copilot", sessionId=SESSION)
        recording.step()
        append(path, start_row(SESSION).replace(b"session.start", b"session.shutdown"))
        stage.hook("sessionEnd", session=None, harness="copilot", sessionId=SESSION)
        recording.step()
        recording.step()
    bundle = stage.newest()
    assert texts(bundle) == {("main", 1): path.read_bytes()}
    assert source(bundle).found_by == "session id"
    assert len(raws(bundle)) == 3


@pytest.mark.parametrize("session", ["..", ".", "", "../session-state", "*"])
def test_the_place_of_copilot_is_no_path(stage: Stage, session: str) -> None:
    """The folder must be called what the session is called; nothing is made out of an id."""
    append(stage.transcript(harness="copilot"), start_row(SESSION))
    append(stage.transcript(harness="copilot").parents[1] / "events.jsonl", b"SECRET\n")
    stage.hook("sessionEnd", session=None, harness="copilot", sessionId=session)
    stage.record(Settings(grace=0.0, idle=0.0, tick=0.0))
    (bundle,) = stage.bundles()
    assert texts(bundle) == {}


def test_children_of_copilot(stage: Stage) -> None:
    """Hooks inside a child carry its own id as the session's, and are the parent's all the same."""
    append(stage.transcript(harness="copilot"), start_row(SESSION))
    told: dict[str, Any] = {"session": None, "harness": "copilot"}
    stage.hook("subagentStart", **told, sessionId=SESSION, agentId=OTHER, parentAgentId=SESSION)
    stage.hook("preToolUse", **told, sessionId=OTHER, agentId=OTHER, parentAgentId=SESSION)
    stage.hook("agentStop", **told, sessionId=OTHER)
    with stage.recorder() as recording:
        recording.step()
    stage.hook("postToolUse", **told, sessionId=OTHER)
    stage.hook("sessionEnd", **told, sessionId=SESSION)
    stage.record()
    (bundle,) = stage.bundles()
    assert bundle.manifest.session == SESSION
    assert raws(bundle) == [sent.raw for sent in stage.sent]


# --- files in the spool that are no payloads of ours ------------------------------------------------------------------


def test_a_payload_of_a_newer_hook(stage: Stage) -> None:
    """It stays where it is, for a newer recorder, and is told of once; others are recorded."""
    newer = stage.hook("Stop", head={"v": 2})
    stage.hook("SessionEnd")
    stage.record(rounds=8)
    assert stage.waiting() == [newer.name]
    assert stage.warned == ["the spool holds payloads of a newer hook: please update forensic"]
    assert raws(stage.newest()) == [stage.sent[1].raw]


def test_a_payload_that_is_not_whole(stage: Stage) -> None:
    """It is put aside, neither believed nor deleted, and told of."""
    torn = stage.hook("Stop", head={"stored": 10_000})
    stage.hook("SessionEnd")
    stage.record()
    assert (stage.spool / "lost" / torn.name).read_bytes().endswith(torn.raw)
    assert stage.warned == [f"{torn.name} is no whole payload and was put into spool/lost"]
    assert raws(stage.newest()) == [stage.sent[1].raw]


def test_what_a_dead_hook_left(stage: Stage) -> None:
    """A whole payload that lacks its name is taken, half a one is set aside, that of a living hook is left."""
    whole, half = stage.hook("SessionEnd"), stage.hook("Stop")
    dead = gone()
    (stage.spool / whole.name).replace(stage.spool / f".tmp-{dead}-{0:08x}")
    content = (stage.spool / half.name).read_bytes()
    (stage.spool / half.name).unlink()
    (stage.spool / f".tmp-{dead}-{1:08x}").write_bytes(content[:-3])
    alive = stage.spool / f".tmp-{os.getpid()}-{2:08x}"
    alive.write_bytes(content[:-3])
    stage.record()
    assert raws(stage.newest()) == [whole.raw]
    assert (stage.spool / "lost" / f"tmp-{dead}-{1:08x}").read_bytes() == content[:-3]
    assert alive.exists()


def test_a_payload_of_a_doctor(stage: Stage) -> None:
    """It is evidence of nothing."""
    stage.hook("ForensicDoctor")
    stage.record()
    assert (stage.waiting(), stage.bundles(), stage.recording()) == ([], [], [])


# --- trouble ----------------------------------------------------------------------------------------------------------


class Full:
    """A disk that is full for a while, for everything below a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, code: int = errno.ENOSPC) -> None:
        self.full = True
        write = os.write

        def fails(descriptor: int, data: Any) -> int:
            if self.full and Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(folder):
                raise OSError(code, os.strerror(code))
            return write(descriptor, data)

        monkeypatch.setattr(os, "write", fails)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file is written")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk(stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Payloads stay in the spool, one line says so, and when there is room again all is sealed, once."""
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("PreToolUse", path)
    with stage.recorder() as recording:
        recording.step()
        disk = Full(monkeypatch, stage.live, code)
        append(path, numbered(3, 4))
        waiting = [stage.hook("PostToolUse", path, n=n).name for n in range(3)]
        waiting.append(stage.hook("SessionEnd", path).name)
        for _ in range(100):
            recording.step()
            clock.go(1.0)
        assert stage.waiting() == waiting
        (warning,) = stage.warned
        assert warning.startswith(
            f"cannot record claude {SESSION}: {os.strerror(code)}; its payloads stay in the spool"
        )
        assert stage.told == []
        disk.full = False
        for _ in range(130):
            recording.step()
            clock.go(1.0)
        assert not recording.sessions
    bundle = stage.newest()
    assert raws(bundle) == [sent.raw for sent in stage.sent]
    assert texts(bundle) == {("main", 1): path.read_bytes()}
    assert stage.is_clean()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file is written")
def test_a_full_disk_and_a_file_that_goes(stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pin is kept as long as the bytes are nowhere else."""
    disk = Full(monkeypatch, stage.live)
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("PreToolUse", path)
    path.unlink()
    stage.hook("SessionEnd", path)
    with stage.recorder() as recording:
        for _ in range(200):
            recording.step()
            clock.go(1.0)
        disk.full = False
        for _ in range(130):
            recording.step()
            clock.go(1.0)
    assert texts(stage.newest()) == {("main", 1): numbered(1, 2)}


def test_an_archive_that_cannot_be_written(stage: Stage, clock: Clock) -> None:
    """The recording is kept and tried again, ever more rarely, with one line; then it is sealed, once."""
    archive = stage.home / "archive"
    archive.write_bytes(b"no folder")
    path = stage.transcript()
    append(path, numbered(1, 2))
    stage.hook("SessionEnd", path)
    tried: list[float] = []

    def seal(found: Any) -> bytes:
        tried.append(clock.now)
        return stage.seal(found)

    with stage.recorder(seal=seal) as recording:
        for _ in range(300):
            recording.step()
            clock.go(1.0)
        pauses = [round(after - before) for before, after in pairwise(tried)]
        assert pauses == [2, 4, 8, 16, 32, 64, 120]
        (warning,) = stage.warned
        assert warning.startswith(f"cannot seal claude {SESSION}: cannot read ")
        assert warning.endswith("it is kept, and tried again")
        assert (stage.waiting(), len(stage.recording())) == ([], 1)
        archive.unlink()
        stage.hook("SessionEnd", path)
        for _ in range(130):
            recording.step()
            clock.go(1.0)
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]
    assert [one.state for one in stage.told] == ["sealed"]
    assert stage.is_clean()


def test_trouble_with_one_session_is_none_of_others(stage: Stage) -> None:
    """Others are recorded and sealed meanwhile."""
    for one in (SESSION, OTHER):
        append(stage.transcript(one), numbered(1, 2, one))
        stage.hook("SessionEnd", stage.transcript(one), session=one)

    def seal(found: Any) -> bytes:
        if found.session == SESSION:
            raise WriteFailed(path="/somewhere", detail="No space left on device")
        return stage.seal(found)

    stage.record(seal=seal)
    assert texts(stage.newest(OTHER)) == {("main", 1): numbered(1, 2, OTHER)}
    assert len(stage.bundles()) == len(stage.recording()) == 1
    stage.record()
    assert texts(stage.newest()) == {("main", 1): numbered(1, 2)}


def test_a_session_that_breaks_the_recorder(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong with one, others are recorded, and its payloads stay where they are."""
    take = LiveSession.take

    def breaks(session: LiveSession, *given: Any) -> None:
        if session.session == SESSION:
            raise ZeroDivisionError("never mind")
        take(session, *given)

    stage.hook("SessionEnd")
    stage.hook("SessionEnd", session=OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(LiveSession, "take", breaks)
        stage.record()
    assert len(stage.warned) == 1
    assert stage.warned[0].startswith(f"cannot record claude {SESSION}: ZeroDivisionError: never mind; ")
    assert [bundle.manifest.session for bundle in stage.bundles()] == [OTHER]
    stage.record()
    assert raws(stage.newest()) == [stage.sent[0].raw]


def test_a_request_for_what_cannot_be_recorded(stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a seal is answered, though the disk stays full."""
    stage.hook("SessionEnd")
    with stage.recorder(Settings(grace=1.0)) as recording:
        recording.step()
        monkeypatch.setattr(os, "fsync", full)
        append(stage.transcript(), numbered(1, 1))
        stage.hook("SessionEnd", stage.transcript())
        for request in (Request(), Request(seal=(SESSION,)), Request(seal=())):
            assert recording.finish(request).done
    assert stage.bundles() == []


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_round_that_fails(stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trouble that belongs to no session is told once, and the recorder goes on."""
    stage.hook("SessionEnd")
    with stage.recorder(Settings(grace=0.0)) as recording, monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda _: full(0))
        until = clock.now + 5.0
        recording.run(lambda: clock.now > until)
        patch.undo()
        recording.finish(Request())
    assert stage.warned == ["cannot go on: No space left on device; it is tried again"]
    assert len(stage.bundles()) == 1


def test_a_sealer_that_breaks(stage: Stage) -> None:
    """Whatever it raises, also in a child, the recording stays, and the next recorder seals it."""
    stage.hook("SessionEnd")

    def breaks(_: Any) -> bytes:
        raise ZeroDivisionError("never mind")

    stage.record(seal=breaks)
    with stage.recorder(seal=breaks, fork=True) as recording:
        recording.finish(Request())
    told = f"cannot seal claude {SESSION}: ZeroDivisionError: never mind; it is kept, and tried again"
    assert stage.warned == [told, told]
    stage.record()
    assert len(stage.bundles()) == 1


def test_a_spool_that_cannot_be_emptied(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads that cannot be removed are recorded once all the same, and the recorder goes on."""
    unlink = Path.unlink
    stuck = [True]

    def refuses(path: Path, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 -- as pathlib has it
        if stuck and path.suffix == ".hook":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuses)
    stage.hook("PreToolUse")
    stage.hook("SessionEnd")
    stage.record()
    stuck.clear()
    stage.record()
    assert raws(stage.newest()) == [sent.raw for sent in stage.sent]
    assert stage.is_clean()


def test_a_journal_of_a_newer_version(stage: Stage) -> None:
    """The session is left as it is, and told of; others are recorded."""
    stage.hook("PreToolUse")
    stage.record()
    (folder,) = stage.recording()
    journal = stage.live / folder / "journal"
    line = b'{"k":"future"}'
    journal.write_bytes(journal.read_bytes() + b"%08x %b\n" % (zlib.crc32(line), line))
    before = journal.read_bytes()
    stage.hook("SessionEnd", session=OTHER)
    stage.record()
    assert len(raws(stage.newest(OTHER))) == 1
    assert journal.read_bytes() == before
    assert len(stage.warned) == 1


def test_a_damaged_journal(stage: Stage) -> None:
    """What there is of a session is put aside when its journal does not say whose it is, and the session goes on."""
    stage.hook("PreToolUse")
    stage.record()
    (folder,) = stage.recording()
    journal = stage.live / folder / "journal"
    damaged = bytes([journal.read_bytes()[0] ^ 1]) + journal.read_bytes()[1:]
    journal.write_bytes(damaged)
    stage.hook("SessionEnd")
    stage.record()
    assert raws(stage.newest()) == [stage.sent[1].raw]
    (aside,) = (stage.home / "lost").iterdir()
    assert (aside / "journal").read_bytes() == damaged
    assert stage.sent[0].raw in (aside / "payloads.jsonl").read_bytes()
    assert len(stage.warned) == 1
    assert stage.warned[0].endswith(f"its journal is damaged; what there is of the session is {aside}")


def test_pins_of_a_session_that_waits(stage: Stage, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a session cannot be recorded no pin goes, however long it takes: it may need one yet."""
    path = stage.transcript()
    append(path, numbered(1, 1))
    stage.hook("PreToolUse", path)
    swept: list[object] = []

    def failing(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with stage.recorder() as recording:
        recording.step()
        monkeypatch.setattr(recording.spool, "sweep", lambda held, _now: swept.append(held))
        with monkeypatch.context() as broken:
            broken.setattr(LiveSession, "drain", failing)
            for _ in range(3):
                clock.go(61.0)
                recording.step()
                assert list(recording.sessions) == []
        assert len(swept) <= 1
        waiting = len(swept)
        clock.go(200.0)
        recording.step()
        clock.go(61.0)
        recording.step()
        assert len(swept) == waiting + 1
        assert swept[-1] == {(path.stat().st_dev, path.stat().st_ino)}


@pytest.mark.parametrize(
    ("path", "kind", "why"),
    [
        ("missing", "missed", "it was gone before it could be read"),
        ("/etc/passwd", "refused", "outside the harness roots"),
    ],
)
def test_what_was_not_read_is_no_zero(stage: Stage, path: str, kind: str, why: str) -> None:
    """A transcript that was missed or refused is told at the seal and in the document; the cost is unknown."""
    named = str(stage.transcript()) if path == "missing" else path
    stage.hook("SessionStart", named)
    stage.hook("SessionEnd", named)
    stage.record()
    wanted = Finding(kind=kind, note=f"{named} is not in here: {why}")
    assert wanted in stage.told[-1].findings
    session = open_recording(stage.newest().path).replay()
    assert wanted in session.findings
    assert session.usage["total"]["certainty"]["level"] == "unknown"
    (told,) = accounts([Work(harness="claude", place=named, size=0, bundle=stage.newest().path)])
    assert not told.quiet


def test_a_folder_without_a_journal(stage: Stage) -> None:
    """What a crash has left of a session that was sealed, or of one that had no payload yet, goes; a file stays."""
    (stage.live / ("0" * 32) / "copies").mkdir(parents=True)
    (stage.live / "note").write_bytes(b"mine")
    stage.record()
    assert stage.recording() == ["note"]
    assert stage.warned == []


def test_what_a_dead_sealer_left(stage: Stage) -> None:
    """A working folder goes with the next seal, also when only the name of its lock was lost."""
    orphan = stage.home / "archive" / "work" / f"{gone()}-01234567"
    orphan.mkdir(parents=True)
    (orphan / "payloads.jsonl").write_bytes(b"half")
    stage.hook("SessionEnd")
    stage.record()
    assert stage.is_clean()
    assert not orphan.exists()


# --- one recorder at a time -------------------------------------------------------------------------------------------


def test_two_recorders(stage: Stage) -> None:
    """The second says that one is enough, and has touched nothing."""
    stage.hook("SessionEnd")
    with stage.recorder():
        before = sorted(path for path in stage.home.rglob("*"))
        with pytest.raises(Busy) as error, stage.recorder():
            pytest.fail("there are two")
        assert str(error.value).endswith("it records already; one is enough")
        assert sorted(path for path in stage.home.rglob("*")) == before
    stage.record()
    assert len(stage.bundles()) == 1


def test_the_lock_goes_with_the_recorder(stage: Stage) -> None:
    """Whoever comes next finds it free."""
    for _ in range(3):
        with stage.recorder() as recording:
            assert recording.running()
        assert not recording.running()


def test_how_long_nothing_happened(stage: Stage, clock: Clock) -> None:
    """A session that is open counts as something, also one that waits for a disk with room."""
    with stage.recorder() as recording:
        recording.step()
        clock.go(5.0)
        assert recording.quiet == 5.0
        stage.hook("PreToolUse")
        recording.step()
        clock.go(5.0)
        assert recording.quiet == 0.0


# --- what lies on disk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_modes(stage: Stage, umask: int) -> None:
    """Folders 0700, files 0600, bundles 0400, whatever the umask is."""
    path = stage.transcript()
    folder = path.with_suffix("") / "subagents"
    append(path, numbered(1, 2))
    append(folder / "agent-a1.jsonl", numbered(1, 2, agentId="a1"))
    append(folder / "agent-a1.meta.json", b"{}")
    stage.hook("PreToolUse", path)
    stage.hook("Stop", head={"stored": 10_000})
    (stage.home / "spool").chmod(0o755)
    before = os.umask(umask)
    try:
        stage.record()
        stage.hook("SessionEnd", session=OTHER)
        stage.record()
    finally:
        os.umask(before)
    for name, mode in modes(stage.home):
        if (stage.home / name).stat().st_nlink > 1 and "pins" in name and not (stage.home / name).is_dir():
            continue  # the harness's own file
        wanted = 0o700 if (stage.home / name).is_dir() else 0o400 if name.endswith(".zst") else 0o600
        assert (name, oct(mode)) == (name, oct(wanted))
    assert len(stage.recording()) == len(stage.bundles()) == 1


def test_no_descriptor_is_left_open(stage: Stage) -> None:
    """Neither of files nor of folders, however a session came to its end."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("what is open cannot be told here")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- how many there are
    for n in range(3):
        path = stage.transcript()
        append(path, numbered(n, n))
        stage.hook("SessionEnd" if n else "Stop", path)
        stage.record()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 -- how many there are


# --- the same as by name ----------------------------------------------------------------------------------------------


LIKE_NAMED = (
    "claude/a-working-day", "claude/subagent-file-and-progress", "claude/parallel-calls-split-rows",
    "claude/half-written-row", "codex/spawned-thread", "codex/javascript-cell", "copilot/a-whole-session",
    "copilot/torn-tail", "cursor/a-working-day", "cursor/subagent-file", "cursor/text-alone",
)  # fmt: skip


@pytest.mark.parametrize("case", LIKE_NAMED)
def test_live_is_like_named(stage: Stage, root: Path, case: str) -> None:
    """A session that was recorded while it grew replays to the same tree as one that is captured afterwards."""
    harness = case.partition("/")[0]
    sources = root / "golden" / case / "source"
    files = {path.relative_to(sources): path.read_bytes() for path in sorted(sources.rglob("*")) if path.is_file()}
    main = next(path for path in files if path.suffix in {".jsonl", ".txt"} and "subagents" not in path.parts)
    session = msgspec.json.decode((root / "golden" / case / "manifest.json").read_bytes())["session"]
    key = {"copilot": "sessionId", "cursor": "conversation_id"}.get(harness, "session_id")
    told: dict[str, Any] = {"session": None, "harness": harness, key: session}
    with stage.recorder() as recording:
        stage.hook("SessionStart", stage.user / main, **told)
        recording.step()
        for part in range(4):
            for path, content in files.items():
                append(stage.user / path, content[len(content) * part // 4 : len(content) * (part + 1) // 4])
            recording.step()
        for path in files:
            os.utime(stage.user / path, (1_700_000_000, 1_700_000_000))
        named = [stage.user / path for path in files if path.suffix == main.suffix]
        for path in named:
            stage.hook("SubagentStop", path, **told)
        stage.hook("sessionEnd" if harness in {"copilot", "cursor"} else "SessionEnd", stage.user / main, **told)
        recording.step()
        recording.step()
    assert stage.warned == []
    (live,) = stage.told
    afterwards = {one.session: one for one in capture([stage.user], Archive(stage.place / "named"))}
    assert [*afterwards] == [live.session] == [session]
    trees = [document_of(open_recording(Path(one.bundle)).replay()) for one in (live, afterwards[session])]
    assert bare(trees[0]["tree"]) == bare(trees[1]["tree"])
    assert trees[0]["usage"] == trees[1]["usage"]
    assert [*texts(stage.newest(session)).values()] == [
        *texts(open_recording(Path(afterwards[session].bundle)).bundle).values()
    ]


def bare(node: dict[str, Any]) -> dict[str, Any]:
    """A node without what only hooks tell."""
    kept = {name: value for name, value in node.items() if name not in {"evidence", "children"}}
    kept["evidence"] = [one for one in node.get("evidence", []) if "hooks" not in str(one)]
    kept["children"] = [bare(child) for child in node["children"] if "hooks" not in str(child.get("ref"))]
    return kept
