"""Which rollouts are one session: copies, threads and what they come from, forks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pytest
import zstandard
from homes import Lay

from forensic.archive import Archive
from forensic.bundle import open_bundle
from forensic.capture.discover import Found, find
from forensic.capture.named import record
from forensic.intake import capture
from forensic.model import Finding, Manifest, Role, Row

SHARED = (Path(__file__).parents[3] / "shared").resolve()
CORPUS = SHARED / "corpus"
DAY = ".codex/sessions/2026/05/01"
OLD = ".codex/archived_sessions"


def meta(thread: str, parent: str | None = None, *, nested: bool = False, **more: object) -> bytes:
    """The first row of a rollout; a parent stands in one of two places."""
    payload: dict[str, object] = {"id": thread, "cwd": "/nowhere/demo", "cli_version": "0.171.0", "source": "cli"}
    if parent is not None and nested:
        payload["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    elif parent is not None:
        payload["parent_thread_id"] = parent
    return line("session_meta", **payload | more)


def line(family: str = "event_msg", **payload: object) -> bytes:
    row = {"timestamp": "2026-05-01T12:00:00.000Z", "type": family, "payload": payload}
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def pack(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


Shape = tuple[str, list[tuple[str, str, str | None, str]], list[tuple[str, str]]]


def shape(found: Found, root: Path) -> Shape:
    """Session; stream, native id, parent and place of each piece; its findings, with places below the root."""
    pieces = [
        (piece.stream, piece.native_id, piece.parent, piece.path.relative_to(root).as_posix()) for piece in found.pieces
    ]
    findings = [(finding.kind, finding.note.replace(f"{root}/", "")) for finding in found.findings]
    return found.session, pieces, findings


def shapes(root: Path, *names: str) -> list[Shape]:
    told: list[Finding] = []
    found = find([root / name for name in names] or [root], report=told.append)
    assert told == []
    assert {each.harness for each in found} == {"codex"}
    assert not any(finding.problem for each in found for finding in each.findings)
    return [shape(each, root) for each in found]


def alone(thread: str, place: str, *findings: tuple[str, str]) -> Shape:
    return thread, [("main", thread, None, place)], list(findings)


# --- copies ----------------------------------------------------------------------------------------------------------

ACTIVE, PACKED = f"{DAY}/rollout-1-t1.jsonl", f"{DAY}/rollout-1-t1.jsonl.zst"
ARCHIVED, ARCHIVED_PACKED = f"{OLD}/rollout-1-t1.jsonl", f"{OLD}/rollout-1-t1.jsonl.zst"
BEST = [ACTIVE, PACKED, ARCHIVED, ARCHIVED_PACKED]


@pytest.mark.parametrize(("kept", "other"), [(a, b) for a in BEST for b in BEST if BEST.index(a) < BEST.index(b)])
def test_of_equal_copies_the_active_plain_one_is_recorded(kept: str, other: str, lay: Lay) -> None:
    """Active before archived, plain before compressed; the other is left out, and that is said."""
    whole = meta("t1") + line(n=1)
    root = lay({name: pack(whole) if name.endswith("zst") else whole for name in (kept, other)})
    told = ("copy-left-out", f"{other} holds the same as {kept}: left out")
    assert shapes(root) == [alone("t1", kept, told)]
    assert shapes(root, other, kept) == [alone("t1", kept, told)]


@pytest.mark.parametrize(("longer", "shorter"), list(permutations(BEST, 2)))
def test_a_copy_that_goes_on_is_recorded(longer: str, shorter: str, lay: Lay) -> None:
    """Wherever it lies and however it is written; the other one is its beginning, cut within a row or not."""
    contents = {longer: meta("t1") + line(n=1) + line(n=2), shorter: meta("t1") + line(n=1)[:-9]}
    root = lay({name: pack(content) if name.endswith("zst") else content for name, content in contents.items()})
    told = ("copy-left-out", f"{shorter} holds the beginning of {longer}: left out")
    assert shapes(root) == [alone("t1", longer, told)]


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in BEST for b in BEST if a < b])
def test_copies_that_differ_are_kept_apart(one: str, other: str, lay: Lay) -> None:
    """Each is a session; nothing tells which is the real one."""
    contents = {one: meta("t1") + line(n=1), other: meta("t1") + line(n=2) + line(n=3)}
    root = lay({name: pack(content) if name.endswith("zst") else content for name, content in contents.items()})
    first, second = sorted((one, other), key=Path)
    assert shapes(root) == [
        alone("t1", first, ("same-session", f"session t1 also stands in {second}: kept apart")),
        alone("t1", second, ("same-session", f"session t1 also stands in {first}: kept apart")),
    ]


def test_several_copies_of_which_one_differs(lay: Lay) -> None:
    """Each copy goes to the one that begins with it."""
    whole = meta("t1") + line(n=1)
    root = lay(
        {ACTIVE: whole, PACKED: pack(whole), ARCHIVED: whole[:-3], "backup/t1.jsonl": meta("t1") + line(n=2) + line()}
    )
    assert shapes(root) == [
        alone(
            "t1",
            ACTIVE,
            ("copy-left-out", f"{PACKED} holds the same as {ACTIVE}: left out"),
            ("copy-left-out", f"{ARCHIVED} holds the beginning of {ACTIVE}: left out"),
            ("same-session", "session t1 also stands in backup/t1.jsonl: kept apart"),
        ),
        alone("t1", "backup/t1.jsonl", ("same-session", f"session t1 also stands in {ACTIVE}: kept apart")),
    ]


def test_a_damaged_twin_gives_way_to_the_whole_one(lay: Lay) -> None:
    """A packing that was broken off holds a beginning of the plain file."""
    whole = meta("t1") + line(n=1)
    root = lay({ACTIVE: whole, PACKED: pack(whole[:-20]) + pack(whole[-20:])[:-4]})
    told = ("copy-left-out", f"{PACKED} holds the beginning of {ACTIVE}: left out")
    assert shapes(root) == [alone("t1", ACTIVE, told)]


def test_of_equal_copies_the_undamaged_one_is_recorded(lay: Lay) -> None:
    """Even though the other one is the active one, of which nothing but its last bytes are torn."""
    whole = meta("t1") + line(n=1)
    root = lay({PACKED: pack(whole) + b"\x28", ARCHIVED: whole})
    told = ("copy-left-out", f"{PACKED} holds the same as {ARCHIVED}: left out")
    assert shapes(root) == [alone("t1", ARCHIVED, told)]


def test_twins_that_name_no_thread_are_one_session_all_the_same(lay: Lay) -> None:
    """In one folder, under one name; elsewhere the name says nothing."""
    whole = line("turn_context", model="m") + line(n=1)
    root = lay({"a/x.jsonl": whole, "a/x.jsonl.zst": pack(whole), "b/x.jsonl": whole})
    assert shapes(root) == [
        alone(
            "x",
            "a/x.jsonl",
            ("copy-left-out", "a/x.jsonl.zst holds the same as a/x.jsonl: left out"),
            ("same-session", "session x also stands in b/x.jsonl: kept apart"),
        ),
        alone("x", "b/x.jsonl", ("same-session", "session x also stands in a/x.jsonl: kept apart")),
    ]


def test_one_named_file_is_that_file_alone(lay: Lay) -> None:
    """Neither its twin nor its threads come with it; a thread alone says what it comes from."""
    root = lay({ACTIVE: meta("t1"), PACKED: pack(meta("t1")), f"{DAY}/rollout-2-t2.jsonl": meta("t2", "t1")})
    assert shapes(root, PACKED) == [alone("t1", PACKED)]
    missing = ("parent-missing", "thread t2 comes from t1, which is not here: a session of its own")
    assert shapes(root, f"{DAY}/rollout-2-t2.jsonl") == [alone("t2", f"{DAY}/rollout-2-t2.jsonl", missing)]
    assert [each[0] for each in shapes(root, ACTIVE, f"{DAY}/rollout-2-t2.jsonl")] == ["t1"]


def test_archiving_and_compressing_between_captures_changes_nothing(lay: Lay, tmp_path: Path) -> None:
    """The session stays the one it was, wherever its rollout goes; what is resumed later supersedes."""
    root = lay({ACTIVE: meta("t1") + line(n=1)})
    archive = Archive(tmp_path / "archive")
    states = [next(capture([root], archive)).state]
    for before, after in ((ACTIVE, ARCHIVED), (ARCHIVED, ARCHIVED_PACKED), (ARCHIVED_PACKED, ACTIVE)):
        content = meta("t1") + line(n=1)
        lay({after: pack(content) if after.endswith("zst") else content})
        states.append(next(capture([root], archive)).state)
        (root / before).unlink()
        states.append(next(capture([root], archive)).state)
    assert states == ["sealed", *["unchanged"] * 6]
    assert len(list(archive.bundles())) == 1
    with (root / ACTIVE).open("ab") as more:
        more.write(line(n=2))
    assert next(capture([root], archive)).state == "superseding"


# --- threads ---------------------------------------------------------------------------------------------------------


def family() -> dict[str, bytes]:
    """A root, two threads it spawned, one that the second of these spawned, lying on several days and compressed."""
    return {
        f"{DAY}/rollout-1-r.jsonl": meta("r") + line(n=1),
        f"{DAY}/rollout-2-b.jsonl": meta("b", "r") + line(n=2),
        ".codex/sessions/2026/05/02/3.jsonl.zst": pack(meta("c", "b", nested=True, session_id="r") + line(n=3)),
        f"{OLD}/rollout-4-a.jsonl": meta("a", "r", nested=True, forked_from_id="r") + meta("r") + line(n=4),
    }


def test_spawned_threads_are_streams_of_their_root(lay: Lay, tmp_path: Path) -> None:
    """Two deep, in the order of their ids, each below the stream of the thread that spawned it: the whole manifest."""
    root = lay(family())
    (found,) = find([root])
    assert shape(found, root) == (
        "r",
        [
            ("main", "r", None, f"{DAY}/rollout-1-r.jsonl"),
            ("thread-a", "a", "main", f"{OLD}/rollout-4-a.jsonl"),
            ("thread-b", "b", "main", f"{DAY}/rollout-2-b.jsonl"),
            ("thread-c", "c", "thread-b", ".codex/sessions/2026/05/02/3.jsonl.zst"),
        ],
        [],
    )
    manifest = record(found, tmp_path / "out")
    assert [
        (each.stream, each.role, each.native_id, each.parent, each.found_by, each.encoding, each.members)
        for each in manifest.sources
    ] == [
        ("main", Role.MAIN, "r", None, "walk", "plain", ("transcripts/0001.jsonl",)),
        ("thread-a", Role.THREAD, "a", "main", "walk", "plain", ("transcripts/0002.jsonl",)),
        ("thread-b", Role.THREAD, "b", "main", "walk", "plain", ("transcripts/0003.jsonl",)),
        ("thread-c", Role.THREAD, "c", "thread-b", "walk", "zstd", ("transcripts/0004.jsonl",)),
    ]
    assert (manifest.harness, manifest.session, manifest.forked_from) == ("codex", "r", None)
    assert manifest.producer_versions == ("0.171.0",)
    bundle = open_bundle(tmp_path / "out")
    bundle.check()
    agents = [(entry.ref.stream, entry.agent) for entry in bundle.timeline() if isinstance(entry, Row)]
    assert list(dict.fromkeys(agents)) == [("main", None), ("thread-a", "a"), ("thread-b", "b"), ("thread-c", "c")]


def test_the_order_in_which_files_are_named_changes_nothing(lay: Lay) -> None:
    """The same session from every order of the same files."""
    root = lay(family())
    paths = sorted(root.rglob("*.jsonl*"))
    expected = [shape(each, root) for each in find(paths)]
    for order in permutations(paths):
        assert [shape(each, root) for each in find(order)] == expected


def test_a_thread_whose_parent_is_not_there_is_a_session_of_its_own(lay: Lay) -> None:
    """And so is every thread below it: each names the one that is missing."""
    root = lay({
        "1.jsonl": meta("a", "gone"), "2.jsonl": meta("b", "a"), "3.jsonl": meta("c", "b", nested=True),
        "4.jsonl": meta("r"), "5.jsonl": meta("d", "r"),
    })  # fmt: skip
    end = ", which is not here: a session of its own"
    assert shapes(root) == [
        alone("a", "1.jsonl", ("parent-missing", f"thread a comes from gone{end}")),
        alone("b", "2.jsonl", ("parent-missing", f"thread b comes from gone by way of a{end}")),
        alone("c", "3.jsonl", ("parent-missing", f"thread c comes from gone by way of a{end}")),
        ("r", [("main", "r", None, "4.jsonl"), ("thread-d", "d", "main", "5.jsonl")], []),
    ]


def test_threads_in_a_circle_are_sessions_of_their_own(lay: Lay) -> None:
    """Two that name each other, one that names itself, one that leads into a circle."""
    root = lay({
        "1.jsonl": meta("a", "b"), "2.jsonl": meta("b", "a"), "3.jsonl": meta("c", "c"), "4.jsonl": meta("d", "a"),
    })  # fmt: skip
    end = ", and that in a circle: a session of its own"
    assert shapes(root) == [
        alone("a", "1.jsonl", ("parent-circle", f"thread a comes from b{end}")),
        alone("b", "2.jsonl", ("parent-circle", f"thread b comes from a{end}")),
        alone("c", "3.jsonl", ("parent-circle", f"thread c comes from c{end}")),
        alone("d", "4.jsonl", ("parent-circle", f"thread d comes from a{end}")),
    ]


def test_a_long_line_of_threads_ends_well(lay: Lay) -> None:
    """Two thousand generations, each of the same root; without the root, each alone."""
    files = {f"{n:04}.jsonl": meta(f"t{n:04}", f"t{n - 1:04}" if n else None) for n in range(2000)}
    root = lay(files)
    (found,) = find([root])
    assert [(piece.native_id, piece.parent) for piece in found.pieces][-1] == ("t1999", "thread-t1998")
    assert len(found.pieces) == 2000
    (root / "0000.jsonl").unlink()
    assert len(find([root])) == 1999


def test_copies_of_a_thread(lay: Lay) -> None:
    """An equal one is left out; one that differs is kept apart, and what comes from it stays with the first."""
    root = lay(
        {
            "r.jsonl": meta("r"),
            "a1.jsonl": meta("a", "r") + line(n=1) * 2,
            "a2.jsonl.zst": pack(meta("a", "r") + line(n=1) * 2),
            "a3.jsonl": meta("a", "r") + line(n=2),
            "b.jsonl": meta("b", "a"),
        }
    )
    assert shapes(root) == [
        alone("a", "a3.jsonl", ("same-session", "thread a also stands in a1.jsonl: kept apart")),
        (
            "r",
            [
                ("main", "r", None, "r.jsonl"),
                ("thread-a", "a", "main", "a1.jsonl"),
                ("thread-b", "b", "thread-a", "b.jsonl"),
            ],
            [("copy-left-out", "a2.jsonl.zst holds the same as a1.jsonl: left out")],
        ),
    ]


def test_of_two_roots_of_one_id_a_thread_goes_to_the_one_in_its_home(lay: Lay) -> None:
    """Active or archived there; from elsewhere to the longer one."""
    root = lay(
        {
            "one/sessions/2026/r.jsonl": meta("r") + line(n=1) * 2,
            "two/sessions/2026/r.jsonl": meta("r") + line(n=2),
            "two/archived_sessions/a.jsonl": meta("a", "r"),
            "three/b.jsonl": meta("b", "r"),
        }
    )
    assert [(each[0], [piece[0] for piece in each[1]]) for each in shapes(root)] == [
        ("r", ["main", "thread-b"]), ("r", ["main", "thread-a"]),
    ]  # fmt: skip


def test_only_the_first_row_that_names_a_thread_counts(lay: Lay) -> None:
    """The parent's own, copied below it, makes no second session; the client's session id is nobody's."""
    root = lay({
        "1.jsonl": line(n=0) + meta("a", session_id="zzz") + meta("b", "r"), "2.jsonl": meta("c", "a") + meta("a"),
    })  # fmt: skip
    assert [(each[0], [piece[1] for piece in each[1]]) for each in shapes(root)] == [("a", ["a", "c"])]


@pytest.mark.parametrize(
    "more",
    [
        {"parent_thread_id": ""}, {"parent_thread_id": None}, {"parent_thread_id": 7}, {"source": "vscode"},
        {"source": {"subagent": "review"}}, {"source": {"subagent": {"thread_spawn": []}}},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": None}}}}, {"forked_from_id": ""},
    ],
)  # fmt: skip
def test_what_is_no_parent(more: Mapping[str, object], lay: Lay) -> None:
    """Anything but a name in one of the two places: a session without a word."""
    root = lay({"1.jsonl": line("session_meta", id="a", **more)})
    assert shapes(root) == [alone("a", "1.jsonl")]
    assert find([root])[0].forked_from is None


def test_odd_thread_ids_get_plain_streams(lay: Lay, tmp_path: Path) -> None:
    """Each its own; the native id stays as it is."""
    ids = ["a b", "a/b", "x" * 200, "\u00e9"]
    root = lay({"r.jsonl": meta("r")} | {f"{n}.jsonl": meta(each, "r") for n, each in enumerate(ids)})
    (found,) = find([root])
    assert [(piece.stream, piece.native_id) for piece in found.pieces[1:]] == [
        ("thread-a_b", "a b"), ("thread-a_b.2", "a/b"), ("thread-" + "x" * 80, "x" * 200), ("thread-_", "\u00e9"),
    ]  # fmt: skip
    record(found, tmp_path / "out")
    open_bundle(tmp_path / "out").check()


def test_a_thread_that_is_spawned_later_supersedes(lay: Lay, tmp_path: Path) -> None:
    """And one that is gone is carried over."""
    root = lay({f"{DAY}/r.jsonl": meta("r"), f"{DAY}/a.jsonl": meta("a", "r")})
    archive = Archive(tmp_path / "archive")
    first = next(capture([root], archive))
    (root / DAY / "a.jsonl").unlink()
    lay({f"{DAY}/b.jsonl.zst": pack(meta("b", "a"))})
    told = {each.session: each for each in capture([root], archive)}
    assert {name: (each.state, [one.kind for one in each.findings]) for name, each in told.items()} == {
        "r": ("unchanged", []), "b": ("sealed", ["parent-missing"]),
    }  # fmt: skip
    lay({f"{DAY}/a.jsonl": meta("a", "r") + line(n=1)})
    last = next(capture([root], archive))
    assert (last.session, last.state, last.supersedes, last.rows) == ("r", "superseding", (first.content_id,), 4)


# --- forks -----------------------------------------------------------------------------------------------------------


def test_a_fork_is_a_session_of_its_own(lay: Lay, tmp_path: Path) -> None:
    """It names the one whose history it took along, be that there or not; so does a thread that lost its root."""
    root = lay(
        {
            "1.jsonl": meta("r") + line(n=1),
            "2.jsonl": meta("f", forked_from_id="r") + meta("r") + line(n=1),
            "3.jsonl": meta("g", "gone", forked_from_id="gone"),
            "4.jsonl": meta("a", "f", forked_from_id="f"),
        }
    )
    found = find([root])
    assert [(each.session, each.forked_from, [piece.native_id for piece in each.pieces]) for each in found] == [
        ("r", None, ["r"]), ("f", "r", ["f", "a"]), ("g", "gone", ["g"]),
    ]  # fmt: skip
    assert [record(each, tmp_path / each.session).forked_from for each in found] == [None, "r", "gone"]


def test_a_fork_of_old_is_named_by_its_first_row(lay: Lay) -> None:
    """It says nowhere that it is one."""
    root = lay({"2.jsonl": meta("f") + meta("r") + line(n=1)})
    assert shapes(root) == [alone("f", "2.jsonl")]
    assert find([root])[0].forked_from is None


def test_a_fork_stays_one_in_later_bundles(lay: Lay, tmp_path: Path) -> None:
    """Also when the rows no longer say so."""
    root = lay({"2.jsonl": meta("f", forked_from_id="r")})
    first: Manifest = record(find([root])[0], tmp_path / "1")
    (root / "2.jsonl").write_bytes(meta("f"))
    second = record(find([root])[0], tmp_path / "2", open_bundle(tmp_path / "1"))
    assert (first.forked_from, second.forked_from) == ("r", "r")


# --- what real ones look like ----------------------------------------------------------------------------------------


def test_rollouts_without_an_envelope(lay: Lay) -> None:
    """The header may be all there is; rows stand bare below it."""
    header = b'{"id":"o1","timestamp":"2025-08-21T06:29:22Z","instructions":null,"git":{}}\n'
    root = lay(
        {
            "rollout-2025-08-21T06-29-22-o1.jsonl": header,
            "rollout-2025-08-22T06-29-22-o2.jsonl": header.replace(b"o1", b"o2") + b'{"record_type":"state"}\n'
            b'{"type":"message","id":"no","role":"user","content":[]}\n{"type":"function_call","call_id":"c"}\n',
        }
    )
    assert [(each.harness, each.session) for each in find([root])] == [("codex", "o1"), ("codex", "o2")]


def rollouts() -> dict[str, int]:
    """All transcripts of the corpus and the number of their rows; lists are none."""
    rows = [each.split("\t") for each in (CORPUS / "expected.tsv").read_text("utf-8").splitlines()]
    names = {each[2]: int(each[4]) for each in rows if each[0] == "codex"}
    lists = ("/history.jsonl", "/session_index.jsonl")
    return {name: count for name, count in names.items() if not name.endswith(lists)}


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
def test_every_rollout_of_the_corpus_is_captured(tmp_path: Path) -> None:
    """Each file alone, with all its rows, compressed as well: same session, same content."""
    expected = rollouts()
    assert len(expected) == 78
    for number, (name, count) in enumerate(expected.items()):
        path = CORPUS / name
        packed = tmp_path / str(number) / f"{path.name}.zst"
        packed.parent.mkdir()
        packed.write_bytes(pack(path.read_bytes()))
        told = []
        for way, each in (("plain", path), ("zstd", packed)):
            (found,) = find([each])
            manifest = record(found, packed.parent / way)
            (source,) = manifest.sources
            assert (manifest.harness, source.encoding, source.generations[0].rows) == ("codex", way, count)
            told.append((manifest.session, manifest.evidence))
        assert told[0] == told[1]
        assert told[0][0] in path.name or "rollout-20" not in path.name or "/tests/" in name


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
def test_the_corpus_as_a_whole() -> None:
    """One session a thread: two states of one are the beginning of a third, and nine threads lost their parents."""
    found = find([CORPUS / "codex"])
    assert {each.harness for each in found} == {"codex"}
    kinds = [finding.kind for each in found for finding in each.findings]
    assert (len(found), kinds.count("copy-left-out"), kinds.count("parent-missing"), kinds.count("same-session")) == (
        76, 2, 9, 2,
    )  # fmt: skip
    assert len(kinds) == 13


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("fixtures/codex", {
            "ccusage-session-alpha": 1, "00000000-0000-7000-8000-0000000000c2": 1,
            "00000000-0000-7000-8000-000000000004": 1, "00000000-0000-7000-8000-000000000001": 3,
        }),
        ("cases/20-codex-repeated-snapshot", {"019a0000-0000-7000-8000-000000000001": 1}),
        ("cases/21-codex-fork-replay",
         {"019a0000-0000-7000-8000-000000000001": 1, "019a0000-0000-7000-8000-000000000002": 1}),
        ("cases/22-codex-subagent-replay", {"019a0000-0000-7000-8000-000000000001": 2}),
        ("cases/24-codex-cumulative-jump", {"019a0000-0000-7000-8000-000000000001": 1}),
        ("cases/26-codex-zst-rollout", {"019a0000-0000-7000-8000-000000000001": 1}),
        ("cases/28-codex-null-info-and-total-only", {"019a0000-0000-7000-8000-000000000001": 1}),
        ("captures/codex-0.171.0/f_subagent/transcripts", {"01a22d84-2ce0-70d1-ab03-0ce2239d77a6": 4}),
    ],
)  # fmt: skip
def test_sessions_of_shared_files(place: str, expected: dict[str, int]) -> None:
    """Each with the number of its streams."""
    found = find([SHARED / place])
    assert {each.session: len(each.pieces) for each in found} == expected
    assert {each.harness for each in found} == {"codex"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
def test_forks_of_shared_files() -> None:
    """One tells what it was forked from; two hand-made files share a name and are kept apart."""
    found = find([SHARED / "fixtures/codex-fork"])
    assert [(each.session, each.forked_from) for each in found] == [
        ("subagent-abc", None), ("child-1", "parent-1"), ("subagent-abc", None), ("parent", None),
    ]  # fmt: skip
    assert [each.forked_from for each in find([SHARED / "cases/21-codex-fork-replay"])] == [
        None, "019a0000-0000-7000-8000-000000000001",
    ]  # fmt: skip
