"""Which files are sessions, and what belongs together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from homes import Lay, row

from forensic.capture.discover import Found, Piece, find
from forensic.errors import NoSession, NoSuchPath, NotReadable, NotRegular, UnknownHarness
from forensic.model import Finding, Role

SHARED = (Path(__file__).parents[3] / "shared").resolve()
P = ".claude/projects/-home-dev-demo"
AGENT = row("s1", isSidechain=True, agentId="a1")


def shape(found: Found, root: Path) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Harness, session, and for each piece its stream (or native id), how it was found, and where it lies."""
    pieces = [
        (piece.stream or piece.native_id, piece.found_by, piece.path.relative_to(root).as_posix().removeprefix(P + "/"))
        for piece in found.pieces
    ]
    return found.harness, found.session, pieces


def shapes(root: Path, *names: str) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    return [shape(found, root) for found in find([root / name for name in names] or [root])]


def test_a_session_with_everything_that_belongs_to_it(lay: Lay) -> None:
    """Main file, subagents at both depths, their meta files, spilled results, the journal of a workflow."""
    root = lay(
        {
            f"{P}/s1.jsonl": row("s1", "queue-operation") + row("s1"),
            f"{P}/s1/subagents/agent-a1.jsonl": AGENT,
            f"{P}/s1/subagents/agent-a1.meta.json": b'{"agentType":"Explore"}',
            f"{P}/s1/subagents/workflows/wf_1/agent-b2.jsonl": AGENT,
            f"{P}/s1/subagents/workflows/wf_1/journal.jsonl": b'{"type":"started","agentId":"b2"}\n',
            f"{P}/s1/tool-results/toolu_1.txt": b"long output",
            f"{P}/s1/note": b"whatever",
        }
    )
    assert shapes(root) == [
        (
            "claude",
            "s1",
            [
                ("main", "walk", "s1.jsonl"),
                ("agent-a1", "folder", "s1/subagents/agent-a1.jsonl"),
                ("agent-b2", "folder", "s1/subagents/workflows/wf_1/agent-b2.jsonl"),
                ("note", "folder", "s1/note"),
                ("subagents/agent-a1.meta.json", "folder", "s1/subagents/agent-a1.meta.json"),
                ("subagents/workflows/wf_1/journal.jsonl", "folder", "s1/subagents/workflows/wf_1/journal.jsonl"),
                ("tool-results/toolu_1.txt", "folder", "s1/tool-results/toolu_1.txt"),
            ],
        )
    ]
    (found,) = find([root])
    assert [(piece.role, piece.native_id, piece.parent) for piece in found.pieces] == [
        (Role.MAIN, "s1", None),
        (Role.SUBAGENT, "a1", "main"),
        (Role.SUBAGENT, "b2", "main"),
        (Role.SIDE, "note", None),
        (Role.SIDE, "subagents/agent-a1.meta.json", "agent-a1"),
        (Role.SIDE, "subagents/workflows/wf_1/journal.jsonl", None),
        (Role.SIDE, "tool-results/toolu_1.txt", None),
    ]
    named = shapes(root, f"{P}/s1.jsonl")
    assert named[0][2] == [("main", "named", "s1.jsonl"), *shapes(root)[0][2][1:]]


def test_flat_subagents_go_to_the_session_their_rows_name(lay: Lay) -> None:
    """The old layout: beside the main file, tied to it by nothing but the session id."""
    root = lay(
        {
            f"{P}/one.jsonl": row("s1"),
            f"{P}/two.jsonl": row("s2"),
            f"{P}/agent-06d3f2e0.jsonl": AGENT,
            f"{P}/agent-16d3f2e0.jsonl": row("s2", isSidechain=True),
            f"{P}/agent-26d3f2e0.jsonl": row("s3", isSidechain=True),
            f"{P}/agent-36d3f2e0.jsonl": row("s3", isSidechain=True),
        }
    )
    assert shapes(root) == [
        (
            "claude",
            "s3",
            [
                ("agent-26d3f2e0", "walk", "agent-26d3f2e0.jsonl"),
                ("agent-36d3f2e0", "walk", "agent-36d3f2e0.jsonl"),
            ],
        ),
        ("claude", "s1", [("main", "walk", "one.jsonl"), ("agent-06d3f2e0", "session id", "agent-06d3f2e0.jsonl")]),
        ("claude", "s2", [("main", "walk", "two.jsonl"), ("agent-16d3f2e0", "session id", "agent-16d3f2e0.jsonl")]),
    ]


def test_a_named_main_file_brings_its_flat_subagents_and_no_others(lay: Lay) -> None:
    """What lies beside a named file is looked at, but only its own session's files are taken."""
    root = lay(
        {
            f"{P}/one.jsonl": row("s1"),
            f"{P}/agent-06d3f2e0.jsonl": AGENT,
            f"{P}/agent-26d3f2e0.jsonl": row("s3", isSidechain=True),
        }
    )
    assert shapes(root, f"{P}/one.jsonl") == [
        ("claude", "s1", [("main", "named", "one.jsonl"), ("agent-06d3f2e0", "session id", "agent-06d3f2e0.jsonl")])
    ]


def test_a_named_subagent_file_is_just_that_file(lay: Lay) -> None:
    """Neither the main file nor its meta file comes with it, flat or nested."""
    root = lay(
        {
            f"{P}/s1.jsonl": row("s1"),
            f"{P}/agent-06d3f2e0.jsonl": AGENT,
            f"{P}/s1/subagents/agent-a1.jsonl": AGENT,
            f"{P}/s1/subagents/agent-a1.meta.json": b"{}",
        }
    )
    assert shapes(root, f"{P}/agent-06d3f2e0.jsonl") == [
        ("claude", "s1", [("agent-06d3f2e0", "named", "agent-06d3f2e0.jsonl")])
    ]
    assert shapes(root, f"{P}/s1/subagents/agent-a1.jsonl") == [
        ("claude", "s1", [("agent-a1", "named", "s1/subagents/agent-a1.jsonl")])
    ]


def test_files_named_one_by_one_still_belong_together(lay: Lay) -> None:
    """As a shell writes out ``*.jsonl``: one session, every file once, and one path given twice changes nothing."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/agent-06d3f2e0.jsonl": AGENT})
    assert shapes(root, f"{P}/agent-06d3f2e0.jsonl", f"{P}/s1.jsonl", f"{P}/s1.jsonl", P) == [
        ("claude", "s1", [("main", "named", "s1.jsonl"), ("agent-06d3f2e0", "session id", "agent-06d3f2e0.jsonl")])
    ]


def test_subagents_whose_main_file_is_gone_are_a_session(lay: Lay) -> None:
    """With all that their session's folder holds; their rows name the session."""
    root = lay(
        {
            f"{P}/gone/subagents/agent-a1.jsonl": AGENT,
            f"{P}/gone/subagents/agent-a1.meta.json": b"{}",
            f"{P}/gone/tool-results/x.txt": b"x",
        }
    )
    expected = [
        ("agent-a1", "walk", "gone/subagents/agent-a1.jsonl"),
        ("subagents/agent-a1.meta.json", "folder", "gone/subagents/agent-a1.meta.json"),
        ("tool-results/x.txt", "folder", "gone/tool-results/x.txt"),
    ]
    assert [found[2] for found in shapes(root)] == [[(expected[0][0], "folder", expected[0][2]), *expected[1:]]]
    below = shapes(root, f"{P}/gone/subagents")
    assert below == [("claude", "s1", expected[:2])]


def test_rows_name_the_session_not_the_file(lay: Lay) -> None:
    """The first top-level key counts: no nested one, none in a string; without any the file's own name stands."""
    root = lay(
        {
            "a.jsonl": row(None, "user", uuid="u", message={"sessionId": "no"}, text='"sessionId":"no"') + row("yes"),
            "b.jsonl": row(None, "file-history-snapshot"),
            "c.jsonl": row(None, "file-history-snapshot") * 300 + row("late") + row(None, "summary") * 900,
            "d.jsonl": row(None, "summary", sessionId=7, leafUuid="x") + row("str"),
        }
    )
    assert [(found.session, found.place.name) for found in find([root])] == [
        ("yes", "a.jsonl"), ("b", "b.jsonl"), ("c", "c.jsonl"), ("str", "d.jsonl"),
    ]  # fmt: skip
    (root / "c.jsonl").write_bytes(row(None, "file-history-snapshot", pad="x" * 500) * 300 + row("late"))
    assert [found.session for found in find([root / "c.jsonl"])] == ["late"]


def test_damaged_rows_do_not_hide_a_session(lay: Lay) -> None:
    """A byte order mark, CR LF, a run of NULs, a torn first row, bad UTF-8, a row nested 2,000 deep."""
    root = lay(
        {
            "bom.jsonl": b"\xef\xbb\xbf" + row("s1").replace(b"\n", b"\r\n"),
            "nul.jsonl": bytes(4096) + b"\n" + row("s2"),
            "torn.jsonl": b'{"type":"user","sess\n' + row("s3"),
            "utf8.jsonl": row("s4").replace(b'"user"', b'"user","x":"\xff"'),
            "deep.jsonl": b'{"type":"user","sessionId":"no","m":' + b"[" * 2000 + b"]" * 2000 + b"}\n" + row("s5"),
        }
    )
    assert {found.place.stem: (found.harness, found.session) for found in find([root])} == {
        "bom": ("claude", "s1"), "nul": ("claude", "s2"), "torn": ("claude", "s3"), "utf8": ("claude", "s4"),
        "deep": ("claude", "s5"),
    }  # fmt: skip


def test_a_first_row_of_megabytes_is_read_to_its_end(lay: Lay) -> None:
    """Nothing can be told of the first mebibyte alone when it holds no whole row."""
    root = lay({"a.jsonl": row("s1", text="x" * (3 << 20)) + row("s1")})
    assert [(found.harness, found.session) for found in find([root])] == [("claude", "s1")]


def test_lists_and_other_files_are_no_sessions(lay: Lay) -> None:
    """History lists, indexes, journals, meta files, logs, empty files and text are passed over in a walk."""
    root = lay(
        {
            ".claude/history.jsonl": b'{"display":"hi","sessionId":"s1"}\n',
            ".claude/sessions-index.json": b"{}",
            ".codex/session_index.jsonl": b'{"id":"x"}\n',
            f"{P}/empty.jsonl": b"",
            f"{P}/x/subagents/workflows/wf_1/journal.jsonl": b'{"type":"started"}\n',
            f"{P}/text.jsonl": b"no json\n[1]\n",
            "hooks.log": row("s1"),
            "a.json": row("s1"),
        }
    )
    told: list[Finding] = []
    with pytest.raises(NoSession) as caught:
        find([root], report=told.append)
    assert str(caught.value) == (
        f"no agent session found in {root}: name a transcript file, or a folder that holds some"
    )
    note = f"{root}/{P}/text.jsonl holds no row that is a JSON object and was left out"
    assert told == [Finding(kind="no-transcript", note=note)]


def test_a_compressed_file_of_which_nothing_can_be_read_is_a_problem(lay: Lay) -> None:
    """A session is missing, and nobody knows which; a file of other rows is none, compressed or not."""
    packed = zstandard.compress(row("s1") * 99)
    root = lay({"a.jsonl.zst": packed[:20], "b.jsonl.zst": zstandard.compress(b"[1]\n"), "c.jsonl": row("s2")})
    told: list[Finding] = []
    assert [found.session for found in find([root], report=told.append)] == ["s2"]
    assert [(finding.kind, finding.problem, finding.note.partition(": ")[0]) for finding in told] == [
        ("unreadable-file", True, f"{root}/a.jsonl.zst"),
        ("no-transcript", False, f"{root}/b.jsonl.zst holds no row that is a JSON object and was left out"),
    ]


def test_rows_of_no_known_harness_are_kept_as_unknown(lay: Lay) -> None:
    """One session a file in a walk; a file that is not called .jsonl only when it is named."""
    root = lay(
        {
            "notes/session-7.jsonl": b'{"role":"user","text":"hi"}\n',
            "gemini.jsonl": b'{"sessionId":"g","kind":"main"}\n' + b'{"type":"user","id":"1"}\n{"type":"gemini"}\n' * 9,
            "torn.jsonl": b'{"type":"us',
            "some.txt": b"user: hello\n",
        }
    )
    assert [(found.harness, found.session) for found in find([root])] == [
        ("unknown", "gemini"), ("unknown", "session-7"), ("unknown", "torn"),
    ]  # fmt: skip
    assert [(found.harness, found.session, found.pieces[0].stream) for found in find([root / "some.txt"])] == [
        ("unknown", "some", "main")
    ]


def test_an_empty_file_is_captured_when_named(lay: Lay) -> None:
    """It says nothing of its harness."""
    root = lay({"empty.jsonl": b""})
    assert [(found.harness, found.session) for found in find([root / "empty.jsonl"])] == [("unknown", "empty")]


def test_an_empty_main_file_of_subagents_is_their_main_file(lay: Lay) -> None:
    """Both layouts: a folder of its own, or flat files that name it."""
    root = lay(
        {
            f"{P}/e1.jsonl": b"",
            f"{P}/e1/subagents/agent-a1.jsonl": row("e1", isSidechain=True),
            f"{P}/e2.jsonl": b"",
            f"{P}/agent-06d3f2e0.jsonl": row("e2", isSidechain=True),
        }
    )
    assert [[piece.path.name for piece in found.pieces] for found in find([root])] == [
        ["e1.jsonl", "agent-a1.jsonl"], ["e2.jsonl", "agent-06d3f2e0.jsonl"],
    ]  # fmt: skip


def test_a_named_harness_is_taken_at_its_word(lay: Lay) -> None:
    """Whatever the rows look like; an unknown name is refused with the known ones."""
    root = lay({"x.jsonl": b'{"a":1}\n', "agent-x.jsonl": b'{"b":1}\n'})
    assert [(found.harness, found.session) for found in find([root], "claude")] == [
        ("claude", "agent-x"), ("claude", "x"),
    ]  # fmt: skip
    assert [(found.harness, found.session) for found in find([root], "unknown")] == [
        ("unknown", "agent-x"), ("unknown", "x"),
    ]  # fmt: skip
    with pytest.raises(UnknownHarness, match=r"^unknown harness 'emacs': known are .*claude.*unknown"):
        find([root], "emacs")


def test_one_session_in_two_places_is_kept_apart_and_said(lay: Lay) -> None:
    """Nothing tells which of them is the real one."""
    root = lay({"a/s1.jsonl": row("s1"), "b/s1.jsonl": row("s1"), "b/s2.jsonl": row("s2")})
    found = find([root])
    assert [(each.session, [finding.note for finding in each.findings]) for each in found] == [
        ("s1", [f"session s1 also stands in {root}/b/s1.jsonl: kept apart"]),
        ("s1", [f"session s1 also stands in {root}/a/s1.jsonl: kept apart"]),
        ("s2", []),
    ]


def test_a_flat_subagent_of_a_session_in_two_places_goes_to_the_one_beside_it(lay: Lay) -> None:
    """And to nobody when both are elsewhere."""
    root = lay({
        "a/s1.jsonl": row("s1"), "b/s1.jsonl": row("s1"), "b/agent-06d3f2e0.jsonl": AGENT, "c/agent-1.jsonl": AGENT,
    })  # fmt: skip
    assert [[piece.path.relative_to(root).as_posix() for piece in found.pieces] for found in find([root])] == [
        ["a/s1.jsonl"], ["b/s1.jsonl", "b/agent-06d3f2e0.jsonl"], ["c/agent-1.jsonl"],
    ]  # fmt: skip


def test_links_are_resolved_and_a_real_file_counts_once(lay: Lay) -> None:
    """Links to files and folders, and a second name of the same file; the real path is what is found."""
    root = lay({"real/s1.jsonl": row("s1"), "real/s2.jsonl": row("s2")})
    walked = root / "walked"
    walked.mkdir()
    (walked / "folder").symlink_to(root / "real")
    (walked / "file.jsonl").symlink_to(root / "real/s1.jsonl")
    os.link(root / "real/s2.jsonl", walked / "second-name.jsonl")
    found = find([walked, root / "real", walked / "file.jsonl"])
    assert sorted(each.session for each in found) == ["s1", "s2"]
    assert next(each for each in found if each.session == "s1").place == root / "real/s1.jsonl"


def test_subagents_of_a_main_file_that_is_a_link(lay: Lay) -> None:
    """The main file really lies elsewhere; the session id ties its subagents to it, and their meta files come along."""
    root = lay(
        {
            "big-disk/s1.jsonl": row("s1"),
            f"{P}/s1/subagents/agent-a1.jsonl": AGENT,
            f"{P}/s1/subagents/agent-a1.meta.json": b"{}",
        }
    )
    (root / P / "s1.jsonl").symlink_to(root / "big-disk/s1.jsonl")
    (found,) = find([root / P])
    assert [(piece.path.relative_to(root).as_posix(), piece.native_id, piece.parent) for piece in found.pieces] == [
        ("big-disk/s1.jsonl", "s1", None),
        (f"{P}/s1/subagents/agent-a1.jsonl", "a1", "main"),
        (f"{P}/s1/subagents/agent-a1.meta.json", "agent-a1.meta.json", "agent-a1"),
    ]


def test_loops_and_links_upwards_end(lay: Lay) -> None:
    """A link to itself, to its own folder, to one above what was named: nothing outside is looked at."""
    root = lay({"outside.jsonl": row("no"), "walked/in/s1.jsonl": row("s1")})
    walked = root / "walked"
    (walked / "self").symlink_to(walked / "self")
    (walked / "in/loop").symlink_to(walked / "in")
    (walked / "up").symlink_to(root)
    (walked / "dangling.jsonl").symlink_to(root / "nothing")
    assert [found.place for found in find([walked])] == [walked / "in/s1.jsonl"]


def test_links_in_a_session_folder_are_refused(lay: Lay) -> None:
    """Whoever writes there must not be able to have another file carried away."""
    root = lay({f"{P}/s1.jsonl": row("s1"), f"{P}/s1/tool-results/a.txt": b"a", "secret/id_ed25519": b"key"})
    (root / P / "s1/tool-results/b.txt").symlink_to(root / "secret/id_ed25519")
    (root / P / "s1/more").symlink_to(root / "secret")
    told: list[Finding] = []
    (found,) = find([root], report=told.append)
    assert [piece.native_id for piece in found.pieces] == ["s1", "tool-results/a.txt"]
    assert [finding.note.removeprefix(f"{root}/{P}/s1/") for finding in told] == [
        "more is a link and was left out", "tool-results/b.txt is a link and was left out",
    ]  # fmt: skip


def test_an_unpacked_recording_holds_no_transcripts(lay: Lay) -> None:
    """Its rows were captured already; what lies beside them is looked at as ever."""
    wrapped = b'{"ref":["main",1,0],"line":1,"row":{"type":"user","sessionId":"s1"}}\n'
    root = lay({
        "case/manifest.json": b"{}", "case/payloads.jsonl": b"", "case/bindings.jsonl": b'{"stream":"main"}\n',
        "case/context.jsonl": b"{}\n", "case/transcripts/0001.jsonl": wrapped, "case/files/0001": b"{}",
        "case/source/s1.jsonl": row("s1"),
    })  # fmt: skip
    assert [found.place for found in find([root])] == [root / "case/source/s1.jsonl"]


def test_a_folder_that_happens_to_have_the_name_is_not_swept_up(lay: Lay) -> None:
    """Only the two known folders are taken when the session is called otherwise than its file."""
    root = lay({"notes.jsonl": row("s1"), "notes/diary.txt": b"x", "notes/tool-results/t.txt": b"t"})
    assert shapes(root, "notes.jsonl")[0][2] == [
        ("main", "named", "notes.jsonl"), ("tool-results/t.txt", "folder", "notes/tool-results/t.txt"),
    ]  # fmt: skip


def test_pipes_and_other_files_of_no_rows(lay: Lay) -> None:
    """Passed over on the way, refused when named."""
    root = lay({"s1.jsonl": row("s1")})
    os.mkfifo(root / "pipe.jsonl")
    assert [found.session for found in find([root])] == ["s1"]
    with pytest.raises(NotRegular):
        find([root / "pipe.jsonl"])
    with pytest.raises(NoSuchPath, match=r"^no such file or folder: .*/nothing$"):
        find([root, root / "nothing"])
    (root / "self").symlink_to(root / "self")
    with pytest.raises(NotReadable):
        find([root / "self"])


def test_unreadable_folders_are_told_and_passed_over(lay: Lay, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sessions beside them are found; a named file that cannot be read is an error."""
    root = lay({"a/s1.jsonl": row("s1"), "b/s2.jsonl": row("s2"), "c/s3.jsonl": row("s3")})
    refuse(monkeypatch, "scandir", root / "b")
    refuse(monkeypatch, "open", root / "c/s3.jsonl")
    told: list[Finding] = []
    assert [found.session for found in find([root], report=told.append)] == ["s1"]
    assert told == [
        Finding(kind="unreadable-folder", note=f"cannot look into {root}/b: Permission denied", problem=True),
        Finding(kind="unreadable-file", note=f"cannot read {root}/c/s3.jsonl: Permission denied", problem=True),
    ]
    with pytest.raises(NotReadable, match=r"Permission denied$"):
        find([root / "c/s3.jsonl"])


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, refused: Path) -> None:
    """Tests may run as root, whom no permission stops."""
    real: Callable[..., object] = getattr(os, name)

    def call(path: object, *rest: object, **more: object) -> object:
        if str(path) == str(refused):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)

    monkeypatch.setattr(os, name, call)


def test_two_subagents_of_one_name_get_two_streams(lay: Lay) -> None:
    """Odd characters are replaced in the stream's name only; the native id stays as it is."""
    root = lay(
        {
            f"{P}/s1.jsonl": row("s1"),
            f"{P}/s1/subagents/agent-x.jsonl": AGENT,
            f"{P}/s1/subagents/workflows/w/agent-x.jsonl": AGENT,
            f"{P}/s1/subagents/agent-a b\u00e9.jsonl": AGENT,
        }
    )
    (found,) = find([root])
    assert [(piece.stream, piece.native_id) for piece in found.pieces[1:]] == [
        ("agent-a_b_", "a b\u00e9"), ("agent-x", "x"), ("agent-x.2", "x"),
    ]  # fmt: skip


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
def test_every_session_of_the_corpus_is_found() -> None:
    """All rows of the recount but one: ``history.jsonl`` is a list of prompts and no session."""
    corpus = SHARED / "corpus"
    found = find([corpus / "claude"])
    streams = {piece.path: each.harness for each in found for piece in each.pieces if piece.role is not Role.SIDE}
    rows = [line.split("\t") for line in (corpus / "expected.tsv").read_text("utf-8").splitlines()]
    expected = [corpus / f"{row[2]}.jsonl" for row in rows if row[:2] == ["claude", "session"]]
    assert len(expected) == 131
    left_out = [path for path in expected if streams.get(path) != "claude"]
    assert left_out == [corpus / "claude/cd07/.claude/history.jsonl"]
    assert len(streams) == sum(len([p for p in each.pieces if p.role is not Role.SIDE]) for each in found)


def test_pieces_are_plain_values() -> None:
    """Two equal ones are equal."""
    piece = Piece(path=Path("/a"), stream="main", role=Role.MAIN, native_id="s", found_by="walk")
    assert Found(harness="claude", session="s", pieces=(piece,)).main == piece


def test_subagents_of_a_main_file_that_cannot_be_read_are_left_out(lay: Lay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone they would be a second session of that id; what is missing is a problem."""
    root = lay({"p/s1.jsonl": row("s1"), "p/s1/subagents/agent-a1.jsonl": row("s1", agentId="a1")})
    main = root / "p/s1.jsonl"
    refuse(monkeypatch, "open", main)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != main and real(path, mode))
    told: list[Finding] = []
    with pytest.raises(NoSession):
        find([root], report=told.append)
    assert [(finding.kind, finding.problem) for finding in told] == [("unreadable-file", True)] * 2
