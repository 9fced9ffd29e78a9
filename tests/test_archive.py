"""The archive: where bundles are, which is the newest, what may be dropped."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import put_payloads, row
from msgspec.structs import replace

from forensic import archive as archives
from forensic.archive import Archive, Broken, Kept, Pruned, default_root
from forensic.bundle import Bundle, open_bundle, seal
from forensic.capture.discover import find
from forensic.capture.named import record
from forensic.errors import Ambiguous, NotInArchive, WriteFailed
from forensic.model import Finding, Redaction, Salvaged
from forensic.superset import missing

BEGAN = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


class Home:
    """A folder of transcripts and an archive; each capture is an hour after the one before."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.source.mkdir()
        self.archive = Archive(folder / "archive")
        self.captures = 0

    def write(self, files: Mapping[str, bytes | None]) -> None:
        for name, content in files.items():
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)

    def capture(self, name: str = "s1.jsonl", previous: Bundle | None = None) -> Path:
        """Seal the session of one file; continues `previous` when given."""
        self.captures += 1
        moment = BEGAN + timedelta(hours=self.captures)
        (found,) = find([self.source / name])
        with self.archive.workspace() as directory:
            record(found, directory, previous, started=moment, now=lambda: moment)
            recording = open_bundle(directory)
            target = self.archive.path_of(found.harness, recording.content_id)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            seal(directory, target)
        return target

    def grow(self, *states: Mapping[str, bytes | None]) -> list[Path]:
        """Capture one state after the other, each continuing the one before."""
        paths: list[Path] = []
        for state in states:
            self.write(state)
            paths.append(self.capture(previous=open_bundle(paths[-1]) if paths else None))
        return paths


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home of its own."""
    return Home(tmp_path)


def outcome(pruned: list[Pruned]) -> list[tuple[Path, bool, str]]:
    return [(one.bundle.path, one.dropped, one.reason) for one in pruned]


def test_where_the_archive_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """FORENSIC_HOME moves it; without, it is with the user's own data."""
    monkeypatch.setenv("FORENSIC_HOME", str(tmp_path / "elsewhere"))
    assert default_root() == tmp_path / "elsewhere/archive"
    monkeypatch.delenv("FORENSIC_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_root().parts[-2:] == ("forensic", "archive")


def test_importing_it_needs_no_platformdirs() -> None:
    """It is slow to import and only needed where FORENSIC_HOME is not set."""
    program = "import sys, forensic.archive; print('platformdirs' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert result.stdout == "False\n"


def test_where_a_bundle_is_and_what_is_told_of_it(place: Home) -> None:
    """Folder and name come from the content; the folder is 0700, the bundle 0400."""
    place.write({"s1.jsonl": row("s1") * 2, "s1/tool-results/t.txt": b"x"})
    path = place.capture()
    content_id = open_bundle(path).content_id
    assert path == place.archive.root / content_id[:2] / f"claude-{content_id[:16]}.zst"
    assert list(place.archive.bundles()) == [
        Kept(
            path=path, content_id=content_id, harness="claude", session="s1", started="2026-05-01T13:30:00.000000Z",
            sealed_at="2026-05-01T13:30:00.000000Z", sources=2, rows=2, size=path.stat().st_size,
        )
    ]  # fmt: skip
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, place.archive.root)]
    assert modes == [0o400, 0o700, 0o700]


def test_an_archive_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """Reading makes nothing."""
    archive = Archive(tmp_path / "none")
    assert (list(archive.bundles()), archive.sessions(), list(archive.prune())) == ([], [], [])
    assert archive.newest("claude", "s1") is None
    assert not archive.root.exists()


def test_what_is_no_bundle_is_left_alone(place: Home, tmp_path: Path) -> None:
    """Other names, links to bundles and to folders are passed over; damaged and renamed bundles are reported."""
    place.write({"s1.jsonl": row("s1")})
    path = place.capture()
    root = place.archive.root
    (root / "notes.txt").touch()
    (path.parent / "x.zst").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / path.name).write_bytes(path.read_bytes())
    free = "00" if path.parent.name != "00" else "01"
    (root / free).symlink_to(elsewhere)
    (path.parent / f"claude-{path.parent.name}{'0' * 14}.zst").symlink_to(path)
    assert [each.path for each in place.archive.bundles()] == [path]
    damaged = root / "ff" / f"claude-ff{'0' * 14}.zst"
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(b"x")
    renamed = root / "fe" / f"claude-fe{'0' * 14}.zst"
    renamed.parent.mkdir(exist_ok=True)
    renamed.write_bytes(path.read_bytes())
    told: list[Finding] = []
    assert [each.path for each in place.archive.bundles(told.append)] == [path]
    assert [(each.kind, each.problem) for each in told] == [("misnamed-bundle", True), ("unreadable-bundle", True)]
    assert told[0].note == f"{renamed}: its content has another name"
    assert told[1].note.startswith(f"{damaged}: not a forensic bundle: ")


def test_listing_reads_only_the_first_frame(place: Home) -> None:
    """Damage further on does not hide a bundle from the list."""
    place.write({"s1.jsonl": row("s1", text="x" * 4000)})
    path = place.capture()
    content = bytearray(path.read_bytes())
    content[-300] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    assert [each.path for each in place.archive.bundles()] == [path]


def test_the_newest_bundle_of_a_session(place: Home) -> None:
    """Not a superseded one, not another session's, and only one that the caller takes for it."""
    first, second = place.grow({"s1.jsonl": row("s1")}, {"s1.jsonl": row("s1") * 2})
    place.write({"s2.jsonl": row("s2"), "copy/s1.jsonl": row("s1", n=5)})
    other = place.capture("s2.jsonl")
    copy = place.capture("copy/s1.jsonl")
    newest = place.archive.newest("claude", "s1")
    assert newest is not None
    assert newest.path == copy
    accepted = place.archive.newest("claude", "s1", lambda manifest: manifest.sources[0].generations[0].rows == 2)
    assert accepted is not None
    assert accepted.path == second
    assert place.archive.newest("claude", "s1", lambda _: False) is None
    assert place.archive.newest("codex", "s1") is None
    assert [(each.path, each.superseded) for each in place.archive.sessions()] == [
        (first, True), (second, False), (other, False), (copy, False),
    ]  # fmt: skip


def test_a_bundle_by_the_beginning_of_its_id(place: Home) -> None:
    """Of the content, or of the session; none and several are refused in one line."""
    first, second = place.grow({"s1.jsonl": row("s1")}, {"s1.jsonl": row("s1") * 2})
    place.write({"s23.jsonl": row("s23")})
    third = place.capture("s23.jsonl")
    archive = place.archive
    assert archive.named(open_bundle(first).content_id[:20]) == first
    assert (archive.named("s1"), archive.named("s2")) == (second, third)
    with pytest.raises(Ambiguous) as caught:
        archive.named("s")
    known = ", ".join(sorted(open_bundle(path).content_id[:16] for path in (second, third)))
    assert str(caught.value) == f"'s' could be any of 2: {known}; give more of the id"
    for name in ("t", ""):
        with pytest.raises(NotInArchive) as refused:
            archive.named(name)
        assert str(refused.value) == f"{archive.root} holds nothing that {name!r} is the id of, or the beginning of one"


def test_ids_of_two_kinds_are_not_mixed_up(place: Home) -> None:
    """What begins a content id and another bundle's session id names neither; a whole id always wins."""
    place.write({"s1.jsonl": row("s1")})
    first = place.capture()
    content_id = open_bundle(first).content_id
    start = content_id[:6]
    place.write({f"{start}.jsonl": row(start), f"{start}00.jsonl": row(f"{start}00")})
    second = place.capture(f"{start}00.jsonl")
    archive = place.archive
    with pytest.raises(Ambiguous, match=f"^'{start}' could be any of 2: "):
        archive.named(start)
    assert (archive.named(content_id), archive.named(content_id[:9])) == (first, first)
    assert archive.named(f"{start}00") == second
    third = place.capture(f"{start}.jsonl")
    assert archive.named(start) == third


def test_an_unreadable_bundle_is_named_by_its_file_name(place: Home) -> None:
    """By 8 characters or more, when no bundle that can be read fits; not by fewer, and never instead of a good one."""
    place.write({"s1.jsonl": row("s1")})
    good = place.capture()
    archive, content_id = place.archive, open_bundle(good).content_id
    bad = archive.path_of("claude", "ff00ff00" * 8)
    bad.parent.mkdir()
    bad.write_bytes(b"nonsense")
    expected = Broken(path=bad, harness="claude", beginning="ff00ff00ff00ff00", size=8)
    for name in ("ff00ff00", "ff00ff00f", "ff00ff00" * 8):
        assert (archive.broken(name), archive.named(name)) == (expected, bad)
    assert [archive.broken(name) for name in ("", "ff00ff0", "ff00ff01", "ff00ff00ff00ff01", content_id)] == [None] * 5
    for name in ("ff00ff0", "ff00ff01"):
        with pytest.raises(NotInArchive):
            archive.named(name)
    other = archive.path_of("codex", "ff00ff00" * 8)
    other.write_bytes(b"nonsense")
    with pytest.raises(Ambiguous) as caught:
        archive.named("ff00ff00")
    assert str(caught.value) == f"'ff00ff00' could be any of 2: {bad}, {other}; give more of the id"
    place.write({"t.jsonl": row("ff00ff00aa")})
    session = place.capture("t.jsonl")
    assert archive.named("ff00ff00") == session


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        (None, (None, None, None)),
        (
            b'{"title":"Fix it","started":"2026-05-01T12:00:00Z","ended":"2026-05-01T14:00:00+01:00","schema":1}',
            ("Fix it", BEGAN.replace(minute=0), BEGAN.replace(hour=13, minute=0)),
        ),
        (b'{"schema":1}', (None, None, None)),
        (b'{"title":"x","started":"2026-05-01T12:00:00","ended":"soon"}', ("x", None, None)),
        (b'{"title":["x"]}', (None, None, None)),
        (b'{"title":', (None, None, None)),
    ],
)
def test_what_a_verdict_tells_of_its_session(
    place: Home, tmp_path: Path, recorded: bytes | None, told: tuple[object, ...]
) -> None:
    """Title and times when verdicts are asked for; nothing, and no trouble, where there is none that can be read."""
    place.write({"s1.jsonl": row("s1")})
    (found,) = find([place.source])
    record(found, tmp_path / "made")
    if recorded is not None:
        (tmp_path / "made" / "recorded.json").write_bytes(recorded)
    target = place.archive.path_of("claude", open_bundle(tmp_path / "made").content_id)
    target.parent.mkdir(parents=True)
    seal(tmp_path / "made", target)
    (kept,) = Archive(place.archive.root, verdicts=True).bundles()
    assert (kept.title, kept.began, kept.ended) == told
    (kept,) = place.archive.bundles()
    assert (kept.title, kept.began, kept.ended) == (None, None, None)


def test_every_folder_that_is_made_is_private(tmp_path: Path) -> None:
    """Whatever the umask; what was there before stays as it is."""
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    before = os.umask(0)
    try:
        with Archive(there / "data" / "forensic" / "archive").workspace() as folder:
            made = [folder, *folder.parents][:5]
            assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o700] * 5
            assert made[-1] == there / "data"
        assert stat.S_IMODE(there.stat().st_mode) == 0o755
    finally:
        os.umask(before)


def test_prune_drops_what_the_newest_holds(place: Home) -> None:
    """A chain of three that only grew: the newest stays; a dry run tells the same and drops nothing."""
    one, two, three = place.grow(
        {"s1.jsonl": row("s1") + b'{"to', "s1/a.json": b"1"},
        {"s1.jsonl": row("s1") + b'{"torn":1}\n', "s1/subagents/agent-a1.jsonl": row("s1")},
        {"s1.jsonl": row("s1") + b'{"torn":1}\n' + row("s1"), "s1/a.json": b"2", "s1/b.json": b"b"},
    )
    expected = [(one, True, ""), (two, True, "")]
    assert outcome(list(place.archive.prune(dry_run=True))) == expected
    assert [path.exists() for path in (one, two, three)] == [True, True, True]
    pruned = list(place.archive.prune())
    assert outcome(pruned) == expected
    assert {each.by for each in pruned} == {open_bundle(three).content_id}
    assert [path.exists() for path in (one, two, three)] == [False, False, True]
    assert outcome(list(place.archive.prune())) == []
    open_bundle(three).check()


def test_prune_finds_rewritten_and_deleted_files_in_the_newest(place: Home) -> None:
    """They were carried over, so nothing is lost with the older bundle."""
    one, two, _ = place.grow(
        {"s1.jsonl": row("s1", n=1), "s1/subagents/agent-a1.jsonl": row("s1"), "s1/t.txt": b"t"},
        {"s1.jsonl": row("s1", n=2), "s1/subagents/agent-a1.jsonl": None, "s1/t.txt": None},
        {"s1.jsonl": row("s1", n=2) * 3},
    )
    assert outcome(list(place.archive.prune())) == [(one, True, ""), (two, True, "")]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ({"s1.jsonl": row("s1", n=1)}, {"s1.jsonl": row("s1", n=2) * 2}, f"main: {len(row('s1', n=1))} bytes"),
        ({"s1.jsonl": row("s1") * 2}, {"s1.jsonl": row("s1")}, f"main: {2 * len(row('s1'))} bytes"),
        ({"s1.jsonl": row("s1"), "s1/t.txt": b"old"}, {"s1/t.txt": b"older"}, "t.txt: 3 bytes"),
        ({"s1.jsonl": row("s1"), "s1/t.txt": b"old"}, {"s1/t.txt": None}, "t.txt: 3 bytes"),
        (
            {"s1.jsonl": row("s1"), "s1/subagents/agent-a1.jsonl": b"{}\n"},
            {"s1/subagents/agent-a1.jsonl": b"{ }\n{}\n"},
            "agent-a1: 3 bytes",
        ),
    ],
)
def test_prune_keeps_what_is_nowhere_else(
    old: dict[str, bytes | None],
    new: dict[str, bytes | None],
    reason: str,
    place: Home,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bundle may claim to supersede another; only what it really holds counts."""
    place.write(old)
    first = place.capture()
    place.write(new)
    second = place.capture()
    claim(place.archive, second, first, monkeypatch)
    assert outcome(list(place.archive.prune())) == [(first, False, f"{reason} of it are only in there")]
    assert first.exists()


def claim(archive: Archive, newer: Path, older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the archive believe that one bundle supersedes another."""
    real = archive.sessions
    content_id = open_bundle(older).content_id

    def sessions(report: Callable[[Finding], None] = lambda _: None) -> list[Kept]:
        known = [replace(each, superseded=each.path == older) for each in real(report)]
        return [replace(each, supersedes=(content_id,)) if each.path == newer else each for each in known]

    monkeypatch.setattr(archive, "sessions", sessions)


def test_payloads_count_as_well(place: Home, tmp_path: Path) -> None:
    """Those of the older bundle must be the first ones of the newer, unless they are the same."""
    place.write({"s1.jsonl": row("s1")})
    (found,) = find([place.source])
    recordings: list[Bundle] = []
    for number, contents in enumerate([[b"{}"], [b"{}", b"[]"], [b"{", b"}"], [b"{}[]"]]):
        record(found, tmp_path / str(number))
        put_payloads(tmp_path / str(number), contents)
        recordings.append(open_bundle(tmp_path / str(number)))
        recordings[-1].check()
    one, two, cut, joined = recordings
    held = {"one": one.manifest}
    only = {"one": "hook payloads: 2 bytes of it are only in there"}
    assert [missing(each, held) for each in (one, two, cut, joined)] == [{"one": ""}, {"one": ""}, only, only]


def test_nothing_is_dropped_for_the_sake_of_a_salvaged_or_redacted_bundle(place: Home) -> None:
    """They are not whole."""
    place.write({"s1.jsonl": row("s1")})
    bundle = open_bundle(place.capture())
    manifest = bundle.manifest
    assert missing(bundle, {"a": manifest}) == {"a": ""}
    for more in (
        {"redaction": Redaction(of="x", policy="p", rules="r", counts={})},
        {"salvaged_from": Salvaged(content_id="c", bundle_id="b")},
    ):
        bundle.manifest = replace(manifest, **more)
        assert missing(bundle, {"a": manifest}) == {"a": "what supersedes it is not whole: it was salvaged or redacted"}


def test_prune_trusts_no_damaged_bundle(place: Home) -> None:
    """The newest is read to its end before anything older goes."""
    one, two = place.grow({"s1.jsonl": row("s1", text="x" * 4000)}, {"s1.jsonl": row("s1", text="x" * 4000) * 2})
    content = bytearray(two.read_bytes())
    content[-300] ^= 1
    two.chmod(0o600)
    two.write_bytes(content)
    ((bundle, dropped, reason),) = outcome(list(place.archive.prune()))
    assert (bundle, dropped, one.exists()) == (one, False, True)
    assert reason.startswith(f"{two}: damaged: ")


def test_forget_tells_what_goes_and_drops_it(place: Home) -> None:
    """All bundles of one session, older ones included; others stay."""
    first, second = place.grow({"s1.jsonl": row("s1")}, {"s1.jsonl": row("s1") * 2})
    place.write({"t1.jsonl": row("t1"), "t12.jsonl": row("t12")})
    others = [place.capture("t1.jsonl"), place.capture("t12.jsonl")]
    going = place.archive.forgettable("s")
    assert [each.path for each in going] == [first, second]
    assert [each.path for each in place.archive.forgettable("t1")] == [others[0]]
    with pytest.raises(Ambiguous) as caught:
        place.archive.forgettable("t")
    assert str(caught.value) == "'t' could be any of 2: claude t1, claude t12; give more of the id"
    place.archive.drop([each.path for each in going])
    place.archive.drop([each.path for each in going])
    assert [each.path for each in place.archive.sessions()] == others
    with pytest.raises(NotInArchive):
        place.archive.forgettable("s1")


def test_dropping_syncs_the_folder(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle that was dropped does not come back after a crash; a failure is one clear line."""
    place.write({"s1.jsonl": row("s1")})
    path = place.capture()
    synced: list[Path] = []
    monkeypatch.setattr(archives, "_sync", synced.append)
    place.archive.drop([path])
    assert (synced, path.exists()) == ([path.parent], False)
    path = place.capture()

    def fail(folder: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(archives, "_sync", fail)
    with pytest.raises(WriteFailed, match=r"Input/output error; nothing was left half-written$"):
        place.archive.drop([path])


def test_a_workspace_is_private_and_goes_away(tmp_path: Path) -> None:
    """Also when the capture fails, and two at once do not meet."""
    archive = Archive(tmp_path / "archive")
    before = os.umask(0)
    try:
        with archive.workspace() as one, archive.workspace() as two:
            assert one != two
            (one / "x").mkdir()
            (one / "x/y").touch()
            modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (archive.root, one.parent, one, two)]
            assert modes == [0o700] * 4
            locks = list(one.parent.glob("*.lock"))
            assert [stat.S_IMODE(lock.stat().st_mode) for lock in locks] == [0o600] * 2
    finally:
        os.umask(before)
    with pytest.raises(KeyError), archive.workspace():
        raise KeyError
    assert list((archive.root / "work").iterdir()) == []


def test_the_workspace_of_a_dead_process_is_swept(tmp_path: Path) -> None:
    """Killed in the middle of a capture: the next one removes what it left, but nothing of the living."""
    program = (
        "import sys, time; from pathlib import Path; from forensic.archive import Archive\n"
        "with Archive(Path(sys.argv[1])).workspace() as folder:\n"
        "    (folder / 'half').touch(); print(folder, flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with Archive(tmp_path).workspace() as mine:
            assert (left.exists(), mine.exists()) == (True, True)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (left / "half").exists()
    with Archive(tmp_path).workspace() as mine:
        assert sorted(path.name for path in mine.parent.iterdir()) == [mine.name, f"{mine.name}.lock"]


def test_an_archive_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    """Named with the reason."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(WriteFailed, match=r"^cannot write .*/file/archive: Not a directory; nothing was left half-wr"),
        Archive(tmp_path / "file/archive").workspace(),
    ):
        pass


def test_a_folder_that_changes_within_one_tick_of_its_clock_is_listed_again(tmp_path: Path) -> None:
    """A listing made before the folder had settled is never believed later, however much time has passed."""
    folder = tmp_path / "aa"
    folder.mkdir()
    archive = Archive(tmp_path)
    assert list(archive._paths()) == []
    seen = folder.stat()
    (folder / f"claude-aa{'0' * 14}.zst").touch()
    os.utime(folder, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert [path.name for path in archive._paths()] == [f"claude-aa{'0' * 14}.zst"]
    old = seen.st_mtime_ns - 10**10
    os.utime(folder, ns=(old, old))
    assert len(list(archive._paths())) == 1
    assert archive._listed[folder][0] == old
