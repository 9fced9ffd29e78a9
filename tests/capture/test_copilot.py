"""Which files are a session of Copilot CLI, and what belongs to one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from homes import Lay

from forensic.capture.discover import Found, find
from forensic.model import Finding, Role

S = ".copilot/session-state"
Shape = tuple[str, str, list[tuple[str, str, str]]]


def event(family: str, number: int = 1, **data: object) -> bytes:
    """One row as the client writes it, with its line feed."""
    row = {"type": family, "data": data, "id": f"e{number}", "timestamp": "2026-03-01T10:00:00Z", "parentId": None}
    return json.dumps(row).encode() + b"\n"


def begun(session: str) -> bytes:
    return event("session.start", sessionId=session, copilotVersion="1.0.102", producer="copilot-agent", version=1)


def shape(found: Found, root: Path) -> Shape:
    """Harness, session, and for each piece its name, how it was found, and where it lies."""
    pieces = [
        (piece.stream or piece.native_id, piece.found_by, piece.path.relative_to(root).as_posix().removeprefix(S + "/"))
        for piece in found.pieces
    ]
    return found.harness, found.session, pieces


def shapes(root: Path, *names: str) -> list[Shape]:
    return [shape(found, root) for found in find([root / name for name in names] or [root])]


WHOLE = {
    f"{S}/s1/events.jsonl": begun("s1"),
    f"{S}/s1/workspace.yaml": b"id: s1\n",
    f"{S}/s1/plan.md": b"1. look\n",
    f"{S}/s1/checkpoints/index.md": b"| 1 |\n",
    f"{S}/s1/files/rows.jsonl": event("user.message", content="a file of the agent's, no transcript"),
    f"{S}/s1/rewind-file-snapshots/backups/9a": b"before",
}
PIECES = [
    ("checkpoints/index.md", "folder", "s1/checkpoints/index.md"),
    ("files/rows.jsonl", "folder", "s1/files/rows.jsonl"),
    ("plan.md", "folder", "s1/plan.md"),
    ("rewind-file-snapshots/backups/9a", "folder", "s1/rewind-file-snapshots/backups/9a"),
    ("workspace.yaml", "folder", "s1/workspace.yaml"),
]


def test_a_session_with_everything_in_its_folder(lay: Lay) -> None:
    """One stream, for subagents too, and side files by their path below the folder."""
    root = lay(WHOLE)
    assert shapes(root) == [("copilot", "s1", [("main", "walk", "s1/events.jsonl"), *PIECES])]
    (found,) = find([root])
    assert [(piece.role, piece.parent) for piece in found.pieces] == [(Role.MAIN, None), *[(Role.SIDE, None)] * 5]


def test_a_named_transcript_brings_its_folder(lay: Lay) -> None:
    """As it does when the folder is named."""
    root = lay(WHOLE)
    named = [("copilot", "s1", [("main", "named", "s1/events.jsonl"), *PIECES])]
    assert shapes(root, f"{S}/s1/events.jsonl") == named
    assert shapes(root, f"{S}/s1")[0][2][1:] == PIECES
    assert shapes(root, f"{S}/s1/events.jsonl", f"{S}/s1") == named


@pytest.mark.parametrize(
    "name",
    [
        "session.db", "session.db-wal", "session.db-shm", "a.db-journal", "x.sqlite", "x.sqlite-wal", "y.sqlite3",
        "inuse.1234.hold", ".fork.lock",
    ],
)  # fmt: skip
def test_stores_and_marks_of_a_running_client_are_left_out(lay: Lay, name: str) -> None:
    """A database copied while it is open is torn; a lock proves nothing afterwards."""
    root = lay({f"{S}/s1/events.jsonl": begun("s1"), f"{S}/s1/{name}": b"x", f"{S}/s1/files/{name}": b"x"})
    assert shapes(root) == [("copilot", "s1", [("main", "walk", "s1/events.jsonl")])]
    told: list[Finding] = []
    find([root], report=told.append)
    assert told == []


@pytest.mark.parametrize(
    "start", [b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"]
)
def test_a_database_is_one_whatever_it_is_called(lay: Lay, start: bytes) -> None:
    """Its first bytes say so; a text that only speaks of one is a text."""
    home = f"{S}/s1/files"
    root = lay({f"{S}/s1/events.jsonl": begun("s1"), f"{home}/kept": start + b"\1" * 100, f"{home}/a": b"a " + start})
    told: list[Finding] = []
    (found,) = find([root], report=told.append)
    assert [piece.native_id for piece in found.pieces[1:]] == ["files/a"]
    assert told == [Finding(kind="left-out", note=f"{root / home / 'kept'} is a database: left out")]


@pytest.mark.parametrize(
    "name", ["id_rsa", ".env", "noext", "plan.md/key", "files", "workspace.yaml.orig", "sub/plan.md"]
)
def test_what_is_no_part_of_a_session_is_left_out_and_told(lay: Lay, name: str) -> None:
    """Somebody put it there, and it may be a secret."""
    root = lay({f"{S}/s1/events.jsonl": begun("s1"), f"{S}/s1/{name}": b"x", f"{S}/s1/research/a/b.md": b"x"})
    told: list[Finding] = []
    (found,) = find([root], report=told.append)
    assert [piece.native_id for piece in found.pieces[1:]] == ["research/a/b.md"]
    note = f"{root / S / 's1' / name} is no known part of a session: left out"
    assert told == [Finding(kind="left-out", note=note)]


def test_rows_that_name_no_session_leave_it_to_the_folder(lay: Lay) -> None:
    """A transcript that lost its first rows is still that session's."""
    root = lay({f"{S}/s1/events.jsonl": event("assistant.turn_start", turnId="0"), f"{S}/s1/plan.md": b"x"})
    assert [(found[1], len(found[2])) for found in shapes(root)] == [("s1", 2)]


def test_a_copy_of_a_session_may_lie_anywhere(lay: Lay) -> None:
    """A folder of its id is its own; in any other only what describes the workspace is, if anything says so."""
    extra = {"notes.txt": b"private", "workspace.yaml": b"id: s1\n", "checkpoints/index.md": b"x", "plan.md": b"mine"}
    for home, taken in {
        "backup/s1": ["checkpoints/index.md", "plan.md", "workspace.yaml"],
        "backup/monday": ["checkpoints/index.md", "workspace.yaml"],
    }.items():
        root = lay({f"{home}/events.jsonl": begun("s1"), **{f"{home}/{name}": raw for name, raw in extra.items()}})
        (found,) = find([root / home])
        assert [piece.native_id for piece in found.pieces[1:]] == taken
    root = lay({"demo/events.jsonl": begun("s1"), "demo/plan.md": b"mine", "demo/checkpoints/a.md": b"mine"})
    (found,) = find([root / "demo"])
    assert [piece.native_id for piece in found.pieces] == ["s1"]


def test_transcripts_of_other_names_are_sessions_of_their_own(lay: Lay) -> None:
    """Those of the old layout, and copies that other programs made; what lies beside them is not theirs."""
    root = lay(
        {
            f"{S}/s2.jsonl": begun("s2"),
            f"{S}/s3/full.jsonl": begun("s3"),
            f"{S}/s3/workspace.yaml": b"id: s3\n",
            "tests/cut.events.jsonl": event("assistant.turn_start", turnId="0"),
        }
    )
    assert [(harness, session, len(pieces)) for harness, session, pieces in shapes(root)] == [
        ("copilot", "s2", 1), ("copilot", "s3", 1), ("copilot", "cut.events", 1),
    ]  # fmt: skip


def test_links_are_told_of_and_not_followed(lay: Lay) -> None:
    """Whoever may write there could have any file carried away."""
    root = lay({**WHOLE, "secret": b"key"})
    for name in ("files/link", "workspace.yaml", "checkpoints"):
        place = root / S / "s1" / name
        target = root / "elsewhere"
        target.mkdir(exist_ok=True)
        if place.is_dir():
            (place / "index.md").unlink()
            place.rmdir()
            place.symlink_to(target)
        else:
            place.unlink(missing_ok=True)
            place.symlink_to(root / "secret")
    told: list[Finding] = []
    (found,) = find([root / S], report=told.append)
    assert [piece.native_id for piece in found.pieces[1:]] == [
        "files/rows.jsonl", "plan.md", "rewind-file-snapshots/backups/9a",
    ]  # fmt: skip
    assert [finding.kind for finding in told] == ["link-refused"] * 3
    (root / S / "s1").rename(root / "other")
    (found,) = find([root / "other" / "events.jsonl"])
    assert len(found.pieces) == 1


@pytest.mark.skipif(os.name == "nt", reason="no names that are no UTF-8 there")
def test_names_that_look_the_same_are_told_apart(lay: Lay) -> None:
    """Bytes that are no UTF-8 become question marks."""
    root = lay({f"{S}/s1/events.jsonl": begun("s1")})
    (root / S / "s1" / "files").mkdir()
    for odd in (b"\xfe", b"\xff"):
        Path(os.fsdecode(os.fsencode(root / S / "s1" / "files") + b"/" + odd)).write_bytes(b"x")
    (found,) = find([root])
    assert [piece.native_id for piece in found.pieces[1:]] == ["files/?", "files/?.2"]


def test_a_session_inside_another_ones_files_is_no_session(lay: Lay) -> None:
    """An agent may copy transcripts; it does not run them."""
    root = lay({**WHOLE, f"{S}/s1/files/s9/events.jsonl": begun("s9")})
    (found,) = find([root])
    assert (found.session, len(found.pieces)) == ("s1", 7)


def test_files_of_others_are_left_to_others(lay: Lay) -> None:
    """A name alone does not make a transcript, nor does a folder."""
    claude = b'{"type":"user","sessionId":"c1","uuid":"u1","message":{"content":"hi"}}\n'
    root = lay({f"{S}/s1/events.jsonl": claude, f"{S}/s2/events.jsonl": b"", f"{S}/s2/workspace.yaml": b"id: s2\n"})
    assert [(found[0], found[1]) for found in shapes(root)] == [("claude", "c1")]
