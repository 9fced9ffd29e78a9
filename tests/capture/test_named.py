"""One session on disk becomes an unpacked recording, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from homes import Lay, put_payloads, row
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic import __version__
from forensic.bundle import Bundle, open_bundle, seal
from forensic.capture import tail
from forensic.capture.discover import Found, find
from forensic.capture.keys import Keys
from forensic.capture.named import follows, record, unchanged
from forensic.errors import NotReadable, WriteFailed
from forensic.harness import HARNESSES
from forensic.jsonio import canonical
from forensic.model import Binding, CaptureState, Finding, Gap, Ground, Manifest, Payload, Role, Row, SideFile, Unread

SHARED = (Path(__file__).parents[3] / "shared").resolve()
P = ".claude/projects/-home-dev-demo"
SEOUL = timezone(timedelta(hours=9), "KST")
BEGAN = datetime(2026, 5, 1, 21, 30, 0, 250, SEOUL)
WALL = 1777638600000250000


def clock() -> datetime:
    return BEGAN + timedelta(seconds=2)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def take(found: Found, directory: Path, previous: Bundle | None = None) -> Bundle:
    record(found, directory, previous, started=BEGAN, now=clock)
    bundle = open_bundle(directory)
    bundle.check()
    return bundle


def content(bundle: Bundle) -> dict[tuple[str, int], bytes]:
    """The bytes of every generation, put together again."""
    parts: dict[tuple[str, int], list[bytes]] = {}
    for entry in bundle.timeline():
        raw = entry.raw + entry.end if isinstance(entry, Row) else entry.raw
        parts.setdefault((entry.ref.stream, entry.ref.generation), []).append(raw)
    return {key: b"".join(several) for key, several in parts.items()}


def brief(bundle: Bundle) -> list[tuple[str, str, list[tuple[int, int, str]]]]:
    """Stream (side files: native id), state, and bytes, rows and end of each generation."""
    return [
        (
            source.native_id if source.role is Role.SIDE else source.stream,
            source.state.value,
            [(each.bytes, each.rows, each.ended_by) for each in source.generations],
        )
        for source in bundle.manifest.sources
    ]


def test_the_manifest_of_a_session(lay: Lay, tmp_path: Path) -> None:
    """Every field, exactly; and the file holds what was returned."""
    main = row("s1", version="2.1.0", cwd="/nowhere") + row("s1", version="2.1.1") + b'{"torn'
    agent = row("s1", isSidechain=True, version="2.0.9")
    root = lay(
        {
            f"{P}/s1.jsonl": main,
            f"{P}/s1/subagents/agent-a1.jsonl": agent,
            f"{P}/s1/subagents/agent-a1.meta.json": b"{}",
            f"{P}/s1/tool-results/t.txt": b"long",
        }
    )
    out = tmp_path / "out"
    (found,) = find([root])
    manifest = record(found, out, started=BEGAN, now=clock)
    assert (out / "manifest.json").read_bytes() == canonical(manifest) + b"\n"
    assert msgspec.json.decode((out / "manifest.json").read_bytes(), type=Manifest) == manifest
    paths = {
        "main": root / P / "s1.jsonl",
        "agent-a1": root / P / "s1/subagents/agent-a1.jsonl",
        "files/0001": root / P / "s1/subagents/agent-a1.meta.json",
        "files/0002": root / P / "s1/tool-results/t.txt",
    }
    assert [
        (each.stream, each.role.value, each.native_id, each.parent, each.found_by, each.members)
        for each in manifest.sources
    ] == [
        ("main", "main", "s1", None, "walk", ("transcripts/0001.jsonl",)),
        ("agent-a1", "subagent", "a1", "main", "folder", ("transcripts/0002.jsonl",)),
        ("files/0001", "side", "subagents/agent-a1.meta.json", "agent-a1", "folder", ("files/0001",)),
        ("files/0002", "side", "tool-results/t.txt", None, "folder", ("files/0002",)),
    ]
    for source in manifest.sources:
        status = paths[source.stream].stat()
        (generation,) = source.generations
        assert source.path == str(paths[source.stream])
        assert (generation.dev, generation.ino, generation.mtime_ns, generation.ended_by) == (
            status.st_dev, status.st_ino, status.st_mtime_ns, "",
        )  # fmt: skip
    assert [(each.state, each.encoding, each.gap) for each in manifest.sources] == [
        (CaptureState.NAMED, "plain", False)
    ] * 4
    assert [(each.unread, each.partial) for each in manifest.sources] == [
        (Unread(len(main) - 6, 6), True), (None, False), (None, False), (None, False),
    ]  # fmt: skip
    assert json.loads(canonical(manifest.evidence)) == {
        "payloads": [],
        "streams": [
            {"generations": [{"bytes": len(main), "rows": 3, "sha256": sha(main)}],
             "native_id": "s1", "role": "main", "stream": "main"},
            {"generations": [{"bytes": len(agent), "rows": 1, "sha256": sha(agent)}],
             "native_id": "a1", "role": "subagent", "stream": "agent-a1"},
            {"generations": [{"bytes": 2, "rows": 0, "sha256": sha(b"{}")}],
             "native_id": "subagents/agent-a1.meta.json", "role": "side", "stream": "files/0001"},
            {"generations": [{"bytes": 4, "rows": 0, "sha256": sha(b"long")}],
             "native_id": "tool-results/t.txt", "role": "side", "stream": "files/0002"},
        ],
    }  # fmt: skip
    assert (manifest.format, manifest.requires, manifest.members) == (1, (), {})
    assert (manifest.harness, manifest.session) == ("claude", "s1")
    assert manifest.producer_versions == ("2.1.0", "2.1.1", "2.0.9")
    assert (manifest.gaps, manifest.supersedes, manifest.forked_from) == ((), (), None)
    capture = manifest.capture
    assert (capture.recorder, capture.zone, capture.utc_offset) == (f"forensic {__version__}", "KST", 32400)
    assert (capture.started, capture.sealed_at) == ("2026-05-01T12:30:00.000250Z", "2026-05-01T12:30:02.000250Z")


def test_the_timeline_and_bindings_of_a_session(lay: Lay, tmp_path: Path) -> None:
    """Rows, side files with their streams, no payload, and one binding for each generation with rows."""
    root = lay(
        {
            f"{P}/s1.jsonl": row("s1") + b"\r\n",
            f"{P}/s1/subagents/agent-a1.jsonl": b"",
            f"{P}/s1/subagents/agent-a1.meta.json": b"{}\n",
        }
    )
    bundle = take(find([root])[0], tmp_path / "out")
    entries = list(bundle.timeline())
    assert [type(entry) for entry in entries] == [SideFile, Row, Row]
    side, first, blank = entries
    assert isinstance(side, SideFile)
    assert (side.native_id, side.stream, side.raw) == ("subagents/agent-a1.meta.json", "agent-a1", b"{}\n")
    assert isinstance(first, Row)
    assert isinstance(blank, Row)
    assert (str(first.ref), first.line, first.raw + first.end) == ("main:1:0", 1, row("s1"))
    assert (str(blank.ref), blank.line, blank.raw, blank.end) == (f"main:1:{len(row('s1'))}", 2, b"", b"\r\n")
    assert list(bundle.bindings()) == [
        Binding(stream="main", generation=1, rows=(0, 2), ground=Ground.NAMED, wall=WALL)
    ]
    assert (tmp_path / "out/payloads.jsonl").read_bytes() == b""


def test_everything_written_is_private(lay: Lay, tmp_path: Path, open_umask: None) -> None:
    """0600 and 0700, also where the umask takes nothing away."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/s1/tool-results/t.txt": b"x"})
    out = tmp_path / "out"
    take(find([root])[0], out)
    modes = {path.relative_to(out).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*")}
    assert modes == {
        "bindings.jsonl": 0o600, "context.jsonl": 0o600, "manifest.json": 0o600, "payloads.jsonl": 0o600,
        "files": 0o700, "files/0001": 0o600, "transcripts": 0o700, "transcripts/0001.jsonl": 0o600,
    }  # fmt: skip
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def test_nothing_is_overwritten(lay: Lay, tmp_path: Path) -> None:
    """A directory that was recorded into before is refused, whole."""
    root = lay({"s1.jsonl": row("s1")})
    (found,) = find([root])
    take(found, tmp_path / "out")
    before = (tmp_path / "out/manifest.json").read_bytes()
    with pytest.raises(WriteFailed, match="File exists"):
        record(found, tmp_path / "out")
    assert (tmp_path / "out/manifest.json").read_bytes() == before


@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\n", b"\r\n", row("s1"), b'{"a":1},"ref":[9]}\n', b"\xef\xbb\xbf{}\n", b'{"t":"\xe2\x80\xa8"}\n',
                     bytes(64) + b"\n", b'{"a":' * 200 + b"1" + b"}" * 200 + b"\n", b'{"x":"\\ud800"}\n']),
), max_size=30))  # fmt: skip
def test_any_bytes_come_back(pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Recorded, read back strictly: rows put together are the file, and its digest is the evidence's."""
    folder = tmp_path_factory.mktemp("law")
    path = folder / "x.jsonl"
    path.write_bytes(b"".join(pieces))
    bundle = take(find([path])[0], folder / "out")
    assert content(bundle).get(("main", 1), b"") == path.read_bytes()
    (generation,) = bundle.manifest.evidence.streams[0].generations
    assert (generation.bytes, generation.sha256) == (path.stat().st_size, sha(path.read_bytes()))
    assert generation.rows == sum(isinstance(entry, Row) for entry in bundle.timeline())


@pytest.mark.parametrize("last", [b'{"a":1}', b"\xef\xbb\xbf{}", b"[" * 200 + b"]" * 200 + b"{}", b"7"])
def test_a_whole_last_row_without_line_feed_is_not_partial(last: bytes, tmp_path: Path) -> None:
    """It is unread all the same: the next capture may find it longer."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(last)
    (source,) = take(find([path])[0], tmp_path / "out").manifest.sources
    assert (source.unread, source.partial) == (Unread(0, len(last)), False)


@pytest.mark.parametrize("last", [b'{"a":', b'{"a":1}{', b"   ", bytes(9), b'{"a":' * 200])
def test_a_torn_last_row_is_partial(last: bytes, tmp_path: Path) -> None:
    """Half an object, one and a half, blanks, NULs, and one that nests too deep to tell."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n" + last)
    (source,) = take(find([path])[0], tmp_path / "out").manifest.sources
    assert (source.unread, source.partial) == (Unread(3, len(last)), True)


def test_versions_and_folders_are_top_level_keys_only(lay: Lay, tmp_path: Path) -> None:
    """Not in a nested object, not in a string, not a number; each once, in the order first seen."""
    nested = {"version": "9.9.9", "cwd": "/nested"}
    root = lay(
        {
            "s1.jsonl": row("s1", message=nested, text='"version":"8.8.8"', version="2.1.0")
            + row("s1", version=3)
            + row("s1", result=nested, version="2.1.0")
            + b'{"sessionId":"s1", "version" : "2.1.2" ,"type":"user"}\r\n'
            + b'{"version":"torn'
            + b"\n"
            + row("s1", version="2.1.\u00e9"),
        }
    )
    assert take(find([root])[0], tmp_path / "out").manifest.producer_versions == ("2.1.0", "2.1.2", "2.1.\u00e9")


def test_only_so_many_versions_and_folders_are_noted(lay: Lay, tmp_path: Path) -> None:
    """Whatever a hostile transcript holds, the manifest stays small."""
    rows = (row("s1", version=str(n), cwd=str(tmp_path), noise=[{"version": "x"}] * 50) for n in range(99))
    root = lay({"s1.jsonl": b"".join(rows)})
    bundle = take(find([root])[0], tmp_path / "out")
    assert bundle.manifest.producer_versions == tuple(map(str, range(64)))
    keys = Keys(HARNESSES["claude"])
    keys.scan(b"".join(row("s1", cwd=f"/{n}") for n in range(99)))
    assert keys.folders == [f"/{n}" for n in range(16)]


def test_the_repository_of_the_working_folder_is_noted(lay: Lay, tmp_path: Path) -> None:
    """One line for each folder that is there, none for one that is gone."""
    root = lay({"repo/.git/HEAD": b"ref: refs/heads/main\n", "repo/.git/refs/heads/main": b"1" * 40 + b"\n"})
    (root / "repo/sub").mkdir()
    session = row("s1", cwd=str(root / "repo/sub")) * 2 + row("s1", cwd=str(root / "gone")) + row("s1", cwd="relative")
    (root / "s1.jsonl").write_bytes(session)
    bundle = take(find([root / "s1.jsonl"])[0], tmp_path / "out")
    assert list(bundle.context()) == [
        {"cwd": f"{root}/repo/sub", "top": f"{root}/repo", "head": "refs/heads/main", "commit": "1" * 40}
    ]


def test_a_session_that_grew_supersedes(lay: Lay, tmp_path: Path) -> None:
    """One generation goes on, also through a last row that was unfinished; the earlier bundle is named."""
    root = lay({f"{P}/s1.jsonl": row("s1") + b'{"ty'})
    main = root / P / "s1.jsonl"
    first = take(find([root])[0], tmp_path / "1")
    main.write_bytes(main.read_bytes() + b'pe":"user"}\n' + row("s1"))
    (root / P / "s1/subagents").mkdir(parents=True)
    (root / P / "s1/subagents/agent-a1.jsonl").write_bytes(row("s1"))
    second = take(find([root])[0], tmp_path / "2", first)
    assert content(second) == {("main", 1): main.read_bytes(), ("agent-a1", 1): row("s1")}
    assert brief(second) == [
        ("main", "named", [(main.stat().st_size, 3, "")]), ("agent-a1", "named", [(len(row("s1")), 1, "")]),
    ]  # fmt: skip
    assert second.manifest.supersedes == (first.content_id,)
    assert [(each.stream, each.rows) for each in second.bindings()] == [
        ("main", (0, 2)), ("main", (2, 3)), ("agent-a1", (0, 1)),
    ]  # fmt: skip


def test_an_unchanged_session_has_the_same_content_id(lay: Lay, tmp_path: Path) -> None:
    """With or without the earlier bundle, at another time, after a touch, in another folder; nothing is superseded."""
    files = {f"{P}/s1.jsonl": row("s1"), f"{P}/s1/tool-results/t.txt": b"x", f"{P}/agent-1234567.jsonl": row("s1")}
    root = lay(files)
    first = take(find([root])[0], tmp_path / "1")
    os.utime(root / P / "s1.jsonl")
    second = take(find([root])[0], tmp_path / "2", first)
    (root / ".claude").rename(root / "elsewhere")
    third = take(find([root])[0], tmp_path / "3", first)
    fourth = take(find([root])[0], tmp_path / "4")
    assert {each.content_id for each in (second, third, fourth)} == {first.content_id}
    assert [each.manifest.supersedes for each in (second, third, fourth)] == [(), (), ()]


@pytest.mark.parametrize("new", [row("s1", n=2), row("s1", n=1)[:5], b"", row("s1", n=2) * 9, row("s1", n=3)])
def test_a_rewritten_file_is_a_new_generation(new: bytes, lay: Lay, tmp_path: Path) -> None:
    """Shorter, cut, empty, longer or of equal length: what was recorded before stays beside it."""
    old = row("s1", n=1) + row("s1", n=1, text="x" * 20)
    root = lay({f"{P}/s1.jsonl": old})
    (found,) = find([root])
    first = take(found, tmp_path / "1")
    (root / P / "s1.jsonl").write_bytes(new)
    second = take(found, tmp_path / "2", first)
    expected = {("main", 1): old} | ({("main", 2): new} if new else {})
    assert content(second) == expected
    (source,) = second.manifest.sources
    assert [(each.bytes, each.sha256, each.ended_by) for each in source.generations] == [
        (len(old), sha(old), "rewritten"), (len(new), sha(new), ""),
    ]  # fmt: skip
    assert source.members == ("transcripts/0001.jsonl", "transcripts/0002.jsonl")
    assert second.manifest.supersedes == (first.content_id,)
    assert [(each.generation, each.rows) for each in second.bindings()] == [
        (1, (0, 2)), *([(2, (0, new.count(b"\n") or 1))] if new else []),
    ]  # fmt: skip


def test_generations_go_on_from_the_last_one(lay: Lay, tmp_path: Path) -> None:
    """Rewritten, grown, rewritten again: three lives, each with all its bytes."""
    root = lay({"s1.jsonl": row("s1", n=1)})
    (found,) = find([root])
    bundle = take(found, tmp_path / "0")
    for number, new in enumerate([row("s1", n=2), row("s1", n=2) * 2, row("s1", n=3), row("s1", n=3)], start=1):
        (root / "s1.jsonl").write_bytes(new)
        bundle = take(found, tmp_path / str(number), bundle)
    assert content(bundle) == {
        ("main", 1): row("s1", n=1), ("main", 2): row("s1", n=2) * 2, ("main", 3): row("s1", n=3),
    }  # fmt: skip
    assert bundle.manifest.supersedes == ()


def test_what_is_gone_from_disk_is_carried_over(lay: Lay, tmp_path: Path) -> None:
    """Subagents and side files that were deleted stay in every later bundle, marked lost, and can come back."""
    files = {
        f"{P}/s1/subagents/agent-a1.jsonl": row("s1", n=1) + b"torn",
        f"{P}/s1/subagents/agent-a1.meta.json": b"{}",
        f"{P}/s1/tool-results/t.txt": b"long",
    }
    root = lay({f"{P}/s1.jsonl": row("s1"), **files})
    first = take(find([root])[0], tmp_path / "1")
    for name in files:
        (root / name).unlink()
    (root / P / "s1/tool-results/u.txt").write_bytes(b"new")
    second = take(find([root])[0], tmp_path / "2", first)
    assert brief(second) == [
        ("main", "named", [(len(row("s1")), 1, "")]),
        ("agent-a1", "lost", [(len(row("s1", n=1)) + 4, 2, "")]),
        ("subagents/agent-a1.meta.json", "lost", [(2, 0, "")]),
        ("tool-results/t.txt", "lost", [(4, 0, "")]),
        ("tool-results/u.txt", "named", [(3, 0, "")]),
    ]
    agent = second.manifest.sources[1]
    assert (agent.unread, agent.partial) == (Unread(len(row("s1", n=1)), 4), True)
    assert content(second) == content(first) | {("files/0003", 1): b"new"}
    third = take(find([root])[0], tmp_path / "3", second)
    assert third.content_id == second.content_id
    lay(files)
    fourth = take(find([root])[0], tmp_path / "4", third)
    assert [source.state for source in fourth.manifest.sources] == [CaptureState.NAMED] * 5
    assert fourth.content_id == third.content_id


def test_each_version_of_a_side_file_is_kept(lay: Lay, tmp_path: Path) -> None:
    """Also when the new one only adds to the old one; numbers follow the order of names and versions."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/s1/b.json": b"1", f"{P}/s1/c.json": b"c"})
    bundle = take(find([root])[0], tmp_path / "0")
    for number, new in enumerate([b"12", b"2", b"2"], start=1):
        (root / P / "s1/b.json").write_bytes(new)
        bundle = take(find([root])[0], tmp_path / str(number), bundle)
    (root / P / "s1/a.json").write_bytes(b"a")
    bundle = take(find([root])[0], tmp_path / "9", bundle)
    assert [(each.native_id, each.members) for each in bundle.manifest.sources[1:]] == [
        ("a.json", ("files/0001",)),
        ("b.json", ("files/0002", "files/0003", "files/0004")),
        ("c.json", ("files/0005",)),
    ]
    assert content(bundle) == {
        ("main", 1): row("s1"), ("files/0001", 1): b"a", ("files/0005", 1): b"c",
        ("files/0002", 1): b"1", ("files/0002", 2): b"12", ("files/0002", 3): b"2",
    }  # fmt: skip


def test_a_main_file_that_is_gone_is_carried_over_while_its_subagents_remain(lay: Lay, tmp_path: Path) -> None:
    """The session is still found by them."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/s1/subagents/agent-a1.jsonl": row("s1")})
    first = take(find([root])[0], tmp_path / "1")
    (root / P / "s1.jsonl").unlink()
    second = take(find([root])[0], tmp_path / "2", first)
    assert [(each[0], each[1]) for each in brief(second)] == [("main", "lost"), ("agent-a1", "named")]
    assert (second.content_id, second.manifest.supersedes) == (first.content_id, ())


def test_another_copy_of_a_session_is_not_taken_for_a_later_state(lay: Lay, tmp_path: Path) -> None:
    """Neither a different file of the same id, nor a subagent file named alone, nor another session."""
    root = lay({
        "a/s1.jsonl": row("s1", n=1), "b/s1.jsonl": row("s1", n=2), "c/s1.jsonl": row("s1", n=1) * 2,
        "a/s1/subagents/agent-a1.jsonl": row("s1"), "d/s2.jsonl": row("s2"),
    })  # fmt: skip
    first = take(find([root / "a"])[0], tmp_path / "1")
    alone = find([root / "a/s1/subagents/agent-a1.jsonl"])[0]
    following = [follows(find([root / name])[0], first.manifest) for name in ("a", "b", "c", "d")]
    assert (following, follows(alone, first.manifest)) == ([True, False, True, False], False)
    second = take(find([root / "b"])[0], tmp_path / "2", first)
    assert content(second) == {("main", 1): row("s1", n=2)}
    assert second.manifest.supersedes == ()


def test_whether_anything_is_new(lay: Lay, tmp_path: Path) -> None:
    """One byte more, another byte, a new file, a file that cannot be read: yes. A touch, a lost file: no."""
    files = {f"{P}/s1.jsonl": row("s1"), f"{P}/s1/a.json": b"a", f"{P}/s1/b.json": b"b"}
    root = lay(files)
    manifest = take(find([root])[0], tmp_path / "1").manifest

    def told(name: str, content: bytes | None) -> bool:
        path = root / P / name
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        answer = unchanged(find([root])[0], manifest)
        path.unlink(missing_ok=True)
        lay(files)
        return answer

    assert [told("s1.jsonl", row("s1")), told("s1/a.json", None)] == [True, True]
    changes = [("s1.jsonl", row("s1") + b"x"), ("s1.jsonl", row("s1")[:-1] + b"x"), ("s1/a.json", b"aa"),
               ("s1/c.json", b""), ("agent-1234567.jsonl", row("s1"))]  # fmt: skip
    assert [told(*change) for change in changes] == [False] * 5
    found = find([root])[0]
    (root / P / "s1/a.json").unlink()
    assert not unchanged(found, manifest)


def test_nothing_is_built_on_a_redacted_or_salvaged_bundle(lay: Lay, tmp_path: Path) -> None:
    """Those are not the evidence, or not all of it."""
    root = lay({"s1.jsonl": row("s1")})
    (found,) = find([root])
    manifest = take(found, tmp_path / "1").manifest
    for field, value in (
        ("redaction", {"of": "x", "policy": "p", "rules": "r", "counts": {}}),
        ("salvaged_from", {"content_id": "c", "bundle_id": "b"}),
    ):
        changed = msgspec.convert(msgspec.to_builtins(manifest) | {field: value}, Manifest)
        assert not follows(found, changed)


def test_payloads_of_an_earlier_bundle_stay(lay: Lay, tmp_path: Path) -> None:
    """They are evidence that no file on disk has."""
    root = lay({"s1.jsonl": row("s1")})
    (found,) = find([root])
    take(found, tmp_path / "1")
    put_payloads(tmp_path / "1", [b"{}"])
    first = open_bundle(tmp_path / "1")
    first.check()
    (root / "s1.jsonl").write_bytes(row("s1") * 2)
    second = take(found, tmp_path / "2", first)
    assert (tmp_path / "2/payloads.jsonl").read_bytes() == (tmp_path / "1/payloads.jsonl").read_bytes()
    assert second.manifest.evidence.payloads == first.manifest.evidence.payloads
    assert sum(isinstance(entry, Payload) for entry in second.timeline()) == 1


def test_a_damaged_earlier_bundle_does_not_stop_a_capture(lay: Lay, tmp_path: Path) -> None:
    """New evidence is recorded without it, and that is said."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/s1/subagents/agent-a1.jsonl": row("s1")})
    take(find([root])[0], tmp_path / "1")
    seal(tmp_path / "1", tmp_path / "old.zst")
    damaged = bytearray((tmp_path / "old.zst").read_bytes())
    damaged[-200] ^= 1
    (tmp_path / "old.zst").chmod(0o600)
    (tmp_path / "old.zst").write_bytes(damaged)
    (root / P / "s1/subagents/agent-a1.jsonl").unlink()
    told: list[Finding] = []
    manifest = record(find([root])[0], tmp_path / "2", open_bundle(tmp_path / "old.zst"), report=told.append)
    assert [(finding.kind, finding.problem) for finding in told] == [("previous-damaged", True)]
    assert [source.stream for source in manifest.sources] == ["main"]
    assert manifest.supersedes == ()
    open_bundle(tmp_path / "2").check()


def test_a_file_that_shrinks_while_it_is_read_leaves_a_gap(
    lay: Lay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is kept; what is missing is counted, in the manifest and in a finding."""
    root = lay({"s1.jsonl": row("s1") * 10})
    path = root / "s1.jsonl"
    size = path.stat().st_size
    real = tail.Tail.chunks

    def shrinking(self: tail.Tail) -> Iterator[bytes]:
        os.truncate(path, 100)
        yield from real(self)
        path.write_bytes(row("s1") * 10)

    (found,) = find([path])
    monkeypatch.setattr(tail.Tail, "chunks", shrinking)
    told: list[Finding] = []
    manifest = record(found, tmp_path / "out", started=BEGAN, now=clock, report=told.append)
    reason = "the file shrank while it was read"
    gap = Gap(stream="main", generation=1, offset=100, bytes=size - 100, reason=reason)
    assert manifest.gaps == (gap,)
    (source,) = manifest.sources
    assert (source.gap, source.partial, source.generations[0].bytes) == (True, True, 100)
    note = f"{path} shrank while it was read; {size - 100} bytes of it are missing"
    assert told == [Finding(kind="changed-while-read", note=note, problem=True)]
    open_bundle(tmp_path / "out").check()


def test_a_file_that_changes_while_it_is_read_is_read_again(
    lay: Lay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it holds still there is nothing to tell."""
    root = lay({"s1.jsonl": row("s1", n=1)})
    path = root / "s1.jsonl"
    (found,) = find([path])
    answers = iter(["rewritten", "rewritten", None])
    monkeypatch.setattr(tail.Tail, "changed", lambda _: next(answers))
    told: list[Finding] = []
    record(found, tmp_path / "out", report=told.append)
    assert (told, list(answers)) == ([], [])
    assert content(open_bundle(tmp_path / "out")) == {("main", 1): row("s1", n=1)}


def test_files_that_vanish_before_they_are_read(lay: Lay, tmp_path: Path) -> None:
    """One of several is noted as missed; nothing at all is an error."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/s1/subagents/agent-a1.jsonl": row("s1")})
    (found,) = find([root])
    (root / P / "s1/subagents/agent-a1.jsonl").unlink()
    told: list[Finding] = []
    manifest = record(found, tmp_path / "1", report=told.append)
    assert [(each.stream, each.state.value, each.generations, each.members) for each in manifest.sources[1:]] == [
        ("agent-a1", "missed", (), ())
    ]
    assert len(manifest.evidence.streams) == 1
    assert [finding.kind for finding in told] == ["unreadable-file"]
    bundle = open_bundle(tmp_path / "1")
    bundle.check()
    (root / P / "s1.jsonl").unlink()
    with pytest.raises(NotReadable, match=r"nothing of this session can be read$"):
        record(found, tmp_path / "2")
    (root / P / "s1.jsonl").write_bytes(row("s1"))
    (root / P / "s1/subagents/agent-a1.jsonl").write_bytes(row("s1"))
    assert [each[1:] for each in brief(take(found, tmp_path / "3", bundle))] == [
        ("named", [(len(row("s1")), 1, "")])
    ] * 2


def test_a_folder_that_cannot_be_written_is_one_clear_line(lay: Lay, tmp_path: Path) -> None:
    """Named with the reason."""
    root = lay({"s1.jsonl": row("s1")})
    (tmp_path / "file").touch()
    message = r"^cannot write .*/file/out: Not a directory; nothing was left half-written$"
    with pytest.raises(WriteFailed, match=message):
        record(find([root])[0], tmp_path / "file/out")


def test_the_growing_file_of_case_85(tmp_path: Path) -> None:
    """Appended, rewritten, replaced by as many bytes, renamed away, deleted, made again: no byte is ever lost."""
    path = tmp_path / "t.jsonl"
    texts = [b'{"n":1}\n{"n":2}\n', b'{"n":3,"s":"', 'é你"}\n'.encode()]
    seen: list[bytes] = []
    bundle: Bundle | None = None
    steps: list[tuple[str, bytes]] = [("append", text) for text in texts]
    steps += [("write", b'{"n":4}\n'), ("append", b'{"n":5}\n'), ("write", b'{"n":6}\n{"n":7}\n')]
    steps += [("recreate", b'{"n":8}\n'), ("recreate", b'{"n":9}\n')]
    for number, (step, text) in enumerate(steps):
        if step == "recreate":
            path.unlink()
        if step == "append" and path.exists():
            seen[-1] += text
        else:
            seen.append(text)
        path.write_bytes(seen[-1])
        bundle = take(find([path])[0], tmp_path / str(number), bundle)
        assert list(content(bundle).values()) == seen
    assert len(seen) == 5


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
@pytest.mark.parametrize(
    "case",
    ["30-nul-run-line", "31-spliced-record", "32-missing-newline", "34-u2028-inside-string", "35-torn-tail",
     "37-invalid-utf8-byte", "38-crlf-bom-file"],
)  # fmt: skip
def test_damaged_transcripts_are_kept_byte_for_byte(case: str, tmp_path: Path) -> None:
    """Every fault of the shared cases survives."""
    (found,) = find([SHARED / "cases" / case / "input"])
    path = found.pieces[0].path
    bundle = take(found, tmp_path / "out")
    assert content(bundle) == {("main", 1): path.read_bytes()}
    assert bundle.manifest.session == "11111111-1111-4111-8111-111111111111"
