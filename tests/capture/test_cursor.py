"""Which files are Cursor's sessions, what belongs together, and that a session of one text is a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zstandard
from homes import Lay

from forensic.archive import Archive
from forensic.capture.discover import find
from forensic.capture.found import Found
from forensic.intake import capture
from forensic.model import Prompt, Response, Role, Session, ToolRequest
from forensic.recording import open_recording

P = ".cursor/projects/home-dev-demo/agent-transcripts"
USER = b'{"role":"user","message":{"content":[{"type":"text","text":"Go."}]}}\n'
END = b'{"type":"turn_ended","status":"success"}\n'
TEXT = b"user:\n<user_query>\nGo.\n</user_query>\n\nassistant:\nDone."


def shape(found: Found, root: Path) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Harness, session, and for each piece its stream (or native id), how it was found, and where it lies."""
    pieces = [
        (piece.stream or piece.native_id, piece.found_by, piece.path.relative_to(root).as_posix().removeprefix(P + "/"))
        for piece in found.pieces
    ]
    return found.harness, found.session, pieces


def shapes(root: Path, *names: str, harness: str | None = None) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    return [shape(found, root) for found in find([root / name for name in names] or [root], harness)]


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_a_session_in_a_folder_of_its_own(lay: Lay) -> None:
    """Its rows, its subagents; other files of the folder are left alone."""
    root = lay(
        {
            f"{P}/s1/s1.jsonl": USER + END,
            f"{P}/s1/subagents/a1.jsonl": USER,
            f"{P}/s1/subagents/b 2.jsonl": USER,
            f"{P}/s1/subagents/deeper/c3.jsonl": USER,
            f"{P}/s1/subagents/note.md": b"n",
            f"{P}/s1/other.md": b"n",
        }
    )
    beside = [
        ("agent-a1", "folder", "s1/subagents/a1.jsonl"),
        ("agent-b_2", "folder", "s1/subagents/b 2.jsonl"),
        ("agent-c3", "folder", "s1/subagents/deeper/c3.jsonl"),
    ]
    assert shapes(root) == [("cursor", "s1", [("main", "walk", "s1/s1.jsonl"), *beside])]
    assert shapes(root, f"{P}/s1/s1.jsonl") == [("cursor", "s1", [("main", "named", "s1/s1.jsonl"), *beside])]
    (found,) = find([root])
    assert [(piece.role, piece.native_id, piece.parent) for piece in found.pieces] == [
        (Role.MAIN, "s1", None),
        (Role.SUBAGENT, "a1", "main"),
        (Role.SUBAGENT, "b 2", "main"),
        (Role.SUBAGENT, "c3", "main"),
    ]


def test_flat_files_of_one_name_are_one_session(lay: Lay) -> None:
    """Rows and text beside each other; the text is a side file of the rows, whichever of the two was named."""
    root = lay({f"{P}/s1.jsonl": USER, f"{P}/s1.txt": TEXT, f"{P}/s2.jsonl": USER, f"{P}/s3.txt": TEXT})
    assert shapes(root) == [
        ("cursor", "s1", [("main", "walk", "s1.jsonl"), ("s1.txt", "walk", "s1.txt")]),
        ("cursor", "s2", [("main", "walk", "s2.jsonl")]),
        ("cursor", "s3", [("s3.txt", "walk", "s3.txt")]),
    ]
    assert shapes(root, f"{P}/s1.jsonl")[0][2] == [("main", "named", "s1.jsonl"), ("s1.txt", "folder", "s1.txt")]
    assert shapes(root, f"{P}/s1.txt")[0][2] == [("main", "folder", "s1.jsonl"), ("s1.txt", "named", "s1.txt")]
    (both, _, text) = find([root])
    assert [(piece.role, piece.parent) for piece in both.pieces] == [(Role.MAIN, None), (Role.SIDE, "main")]
    assert [(piece.role, piece.parent) for piece in text.pieces] == [(Role.SIDE, None)]
    assert (text.main, text.place) == (None, root / P / "s3.txt")


def test_a_text_may_lie_in_the_folder_too(lay: Lay) -> None:
    """Beside the rows or above them; each is its session's."""
    root = lay({f"{P}/s1/s1.jsonl": USER, f"{P}/s1/s1.txt": TEXT, f"{P}/s1.txt": TEXT, f"{P}/s2/s2.txt": TEXT})
    assert shapes(root) == [
        (
            "cursor",
            "s1",
            [("main", "walk", "s1/s1.jsonl"), ("s1/s1.txt", "walk", "s1/s1.txt"), ("s1.txt", "walk", "s1.txt")],
        ),
        ("cursor", "s2", [("s2/s2.txt", "walk", "s2/s2.txt")]),
    ]


def test_rows_at_both_places_are_kept_apart(lay: Lay) -> None:
    """Nothing tells which is the real one: what belongs to the session goes with the newer place, and it is said."""
    root = lay({f"{P}/s1.jsonl": USER, f"{P}/s1/s1.jsonl": USER + END, f"{P}/s1/subagents/a1.jsonl": USER})
    assert shapes(root) == [
        ("cursor", "s1", [("main", "walk", "s1/s1.jsonl"), ("agent-a1", "folder", "s1/subagents/a1.jsonl")]),
        ("cursor", "s1", [("main", "walk", "s1.jsonl")]),
    ]
    assert [[finding.kind for finding in found.findings] for found in find([root])] == [["same-session"]] * 2


def test_subagents_without_their_session(lay: Lay) -> None:
    """The folder's name is the session's; so it is for one that was named alone."""
    root = lay({f"{P}/s1/subagents/a1.jsonl": USER, f"{P}/s1/subagents/b2.jsonl": USER})
    both = [("agent-a1", "walk", "s1/subagents/a1.jsonl"), ("agent-b2", "walk", "s1/subagents/b2.jsonl")]
    assert shapes(root) == [("cursor", "s1", both)]
    named = [("agent-a1", "named", "s1/subagents/a1.jsonl")]
    assert shapes(root, f"{P}/s1/subagents/a1.jsonl") == [("cursor", "s1", named)]
    (found,) = find([root])
    assert {piece.parent for piece in found.pieces} == {None}


def test_names_of_streams_are_told_apart(lay: Lay) -> None:
    """Two subagents of one name, or of names that differ only in odd letters."""
    root = lay(
        {
            f"{P}/s1/s1.jsonl": USER,
            f"{P}/s1/subagents/a b.jsonl": USER,
            f"{P}/s1/subagents/a+b.jsonl": USER,
            f"{P}/s1/subagents/x/a+b.jsonl": USER,
        }
    )
    (found,) = find([root])
    assert [(piece.stream, piece.native_id) for piece in found.pieces[1:]] == [
        ("agent-a_b", "a b"),
        ("agent-a_b.2", "a+b"),
        ("agent-a_b.2.2", "a+b.2"),
    ]


def test_projects_are_kept_apart(lay: Lay) -> None:
    """One id in two projects is two sessions; what a project's folder is called is not asked."""
    other = ".cursor/projects/1700000000000/agent-transcripts"
    root = lay({f"{P}/s1.txt": TEXT, f"{other}/s1.txt": TEXT, f"{other}/s1/subagents/a1.jsonl": USER})
    assert [(found.session, len(found.pieces)) for found in find([root])] == [("s1", 2), ("s1", 1)]


def test_files_elsewhere_are_sessions_by_their_rows(lay: Lay) -> None:
    """A transcript that was copied away is one all the same, and the folder of its name goes with it."""
    root = lay({"x/one.jsonl": USER, "x/two/two.jsonl": USER, "x/two/subagents/a1.jsonl": USER, "x/one.txt": TEXT})
    assert shapes(root, "x") == [
        ("cursor", "one", [("main", "walk", "x/one.jsonl"), ("one.txt", "folder", "x/one.txt")]),
        ("cursor", "two", [("main", "walk", "x/two/two.jsonl"), ("agent-a1", "folder", "x/two/subagents/a1.jsonl")]),
    ]


def test_a_compressed_file_is_named_without_its_endings(lay: Lay) -> None:
    """Somebody may have packed old sessions."""
    root = lay({f"{P}/s1/s1.jsonl.zst": zstandard.compress(USER + END)})
    assert shapes(root) == [("cursor", "s1", [("main", "walk", "s1/s1.jsonl.zst")])]


def test_what_no_row_shows_the_place_does(lay: Lay) -> None:
    """A session that only failed, or of which only ends were written, is this client's where it lies."""
    error = b'{"type":"error","error":"no answer"}\n'
    root = lay(
        {f"{P}/s1/s1.jsonl": END, f"{P}/s2.jsonl": error, f"{P}/s3/subagents/a1.jsonl": error, "x/y.jsonl": error}
    )
    assert [(found.harness, found.session) for found in find([root])] == [
        ("cursor", "s1"),
        ("cursor", "s2"),
        ("cursor", "s3"),
        ("unknown", "y"),
    ]


def test_an_empty_file_has_no_rows(lay: Lay) -> None:
    """Before the first row a text beside it is all there is."""
    root = lay({f"{P}/s1.jsonl": b"", f"{P}/s1.txt": TEXT, f"{P}/s2/s2.jsonl": b""})
    assert shapes(root) == [("cursor", "s1", [("s1.txt", "walk", "s1.txt")])]
    assert shapes(root, f"{P}/s1.txt") == [("cursor", "s1", [("s1.txt", "named", "s1.txt")])]


# --- which texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        b"\xef\xbb\xbf" + TEXT,
        b"\r\n\r\n" + TEXT.replace(b"\n", b"\r\n"),
        b"assistant:\nhello",
        b"A:\nhello",
        b"user:",
        b"user:\n" + b'{"role":"user","message":{}}\n' * 3,
        b"user:\n" + b"x" * 100_000,
    ],
)
def test_a_text_is_known_by_its_first_line(lay: Lay, text: bytes) -> None:
    """In the folder of transcripts by itself, anywhere else when the harness was named."""
    root = lay({f"{P}/s1.txt": text, "x/s2.txt": text})
    assert shapes(root / P) == [("cursor", "s1", [("s1.txt", "walk", "s1.txt")])]
    assert shapes(root, "x/s2.txt", harness="cursor") == [("cursor", "s2", [("s2.txt", "named", "x/s2.txt")])]
    assert [found.harness for found in find([root / "x/s2.txt"])] == ["cursor" if b"role" in text else "unknown"]


@pytest.mark.parametrize(
    "text",
    [b"", b"\n\n", b"notes", b"User:\nhello", b"user: hello", b" user:x\n", b"\n" * 5000 + TEXT, b"\x00user:\n"],
)
def test_another_text_is_no_session(lay: Lay, text: bytes) -> None:
    """Though it lies in the folder of transcripts, and beside rows."""
    root = lay({f"{P}/s1.txt": text, f"{P}/s1.jsonl": USER, f"{P}/s2.txt": text})
    assert shapes(root) == [("cursor", "s1", [("main", "walk", "s1.jsonl")])]


def test_rows_in_a_text_are_rows(lay: Lay) -> None:
    """The ending does not decide: a file of rows that is called a text is read as rows."""
    root = lay({f"{P}/s1.txt": USER + END})
    assert shapes(root) == [("cursor", "s1", [("main", "walk", "s1.txt")])]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_text_that_cannot_be_opened_is_told(lay: Lay) -> None:
    """It is no session, and the others are found."""
    root = lay({f"{P}/s1.txt": TEXT, f"{P}/s2.txt": TEXT})
    (root / P / "s1.txt").chmod(0)
    findings: list[str] = []
    assert [one.session for one in find([root], report=lambda finding: findings.append(finding.kind))] == ["s2"]
    assert findings == ["unreadable-file"]


def test_links_are_not_carried_away(lay: Lay) -> None:
    """What a session's folder only points at stays where it is."""
    root = lay({f"{P}/s1/s1.jsonl": USER, "secret.jsonl": USER, "secret.txt": TEXT, f"{P}/s2/s2.jsonl": USER})
    (root / P / "s1/subagents").mkdir()
    (root / P / "s1/subagents/a1.jsonl").symlink_to(root / "secret.jsonl")
    (root / P / "s1/s1.txt").symlink_to(root / "secret.txt")
    (root / P / "s2/subagents").symlink_to(root / P / "s1/subagents")
    findings: list[str] = []
    found = find([root / P / "s1/s1.jsonl", root / P / "s2/s2.jsonl"], report=lambda one: findings.append(one.kind))
    assert [len(one.pieces) for one in found] == [1, 1]
    assert findings == ["link-refused"]


# --- a session of one text --------------------------------------------------------------------------------------------


def take(root: Path, archive: Path) -> tuple[str, Session]:
    """Capture what lies there, verify it, and replay it."""
    (done,) = capture([root], Archive(archive))
    assert done.findings == ()
    recording = open_recording(Path(done.bundle))
    report = recording.verify()
    assert (report.ok, report.findings) == (True, ())
    return done.state, recording.replay()


def heard(session: Session) -> list[tuple[str, str]]:
    """Kind and words of what stands in the turns, in order."""
    said = []
    stack = list(reversed(session.tree.children))
    while stack:
        node = stack.pop()
        stack.extend(reversed(node.children))
        if isinstance(node.seen, (Prompt, Response)):
            said.append((type(node.seen).__name__, node.seen.text.preview))
        elif isinstance(node.seen, ToolRequest):
            said.append(("ToolRequest", node.seen.name))
    return said


def test_a_session_of_one_text_is_captured_verified_listed_and_replayed(lay: Lay, tmp_path: Path) -> None:
    """It has no rows, and everything else that a session has; capturing it again gives nothing new."""
    root = lay({f"{P}/s1.txt": TEXT})
    state, session = take(root, tmp_path / "archive")
    assert (state, session.harness, session.session) == ("sealed", "cursor", "s1")
    assert heard(session) == [("Prompt", "Go."), ("Response", "Done.")]
    assert (session.summary["turns"], session.summary["rows"]["total"], session.findings) == (1, 0, [])
    assert session.usage["total"]["output_tokens"] is None
    assert take(root, tmp_path / "archive")[0] == "unchanged"
    listed = Archive(tmp_path / "archive", verdicts=True).sessions()
    assert [(one.harness, one.session, one.title, one.rows) for one in listed] == [("cursor", "s1", "Go.", 0)]


def test_a_text_that_grew_is_read_once(lay: Lay, tmp_path: Path) -> None:
    """The later version stands for both; the earlier is kept, and counted."""
    root = lay({f"{P}/s1.txt": TEXT})
    take(root, tmp_path / "archive")
    lay({f"{P}/s1.txt": TEXT + b"\n[Tool call] Glob\n\n[Tool result] Glob\n\nassistant:\nAll of it."})
    state, session = take(root, tmp_path / "archive")
    assert state == "superseding"
    assert heard(session) == [
        ("Prompt", "Go."),
        ("Response", "Done."),
        ("ToolRequest", "Glob"),
        ("Response", "All of it."),
    ]
    counted = {"prompts": 1, "responses": 1, "thoughts": 0, "tool_calls": 0}
    assert [getattr(one, "value", None) for one in session.aside] == [counted, "Glob"]
    assert take(root, tmp_path / "archive")[0] == "unchanged"


def test_rows_beside_a_text_tell_it_once(lay: Lay, tmp_path: Path) -> None:
    """The rows are the session; the text is kept beside them, and counted."""
    root = lay({f"{P}/s1.jsonl": USER, f"{P}/s1.txt": TEXT})
    _, session = take(root, tmp_path / "archive")
    assert heard(session) == [("Prompt", "Go.")]
    counted = {"prompts": 1, "responses": 1, "thoughts": 0, "tool_calls": 0}
    assert [getattr(one, "value", None) for one in session.aside] == [counted]


def test_rows_that_come_later_take_the_place_of_the_text(lay: Lay, tmp_path: Path) -> None:
    """A session that was known by its text alone goes on as rows."""
    root = lay({f"{P}/s1.txt": TEXT})
    take(root, tmp_path / "archive")
    lay({f"{P}/s1.jsonl": USER})
    state, session = take(root, tmp_path / "archive")
    assert state == "superseding"
    assert heard(session) == [("Prompt", "Go.")]


def test_a_session_that_grows_is_one(lay: Lay, tmp_path: Path) -> None:
    """Rows that were added, a subagent that came: the bundle before is superseded."""
    root = lay({f"{P}/s1/s1.jsonl": USER})
    take(root, tmp_path / "archive")
    lay({f"{P}/s1/s1.jsonl": USER + END, f"{P}/s1/subagents/a1.jsonl": USER})
    state, session = take(root, tmp_path / "archive")
    assert (state, session.summary["turns"], session.summary["subagents"]) == ("superseding", 1, 1)
