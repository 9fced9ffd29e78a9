"""The laws of the house, for every golden recording and for noise."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from golden_extension import CASES, GOLDEN, IDS, document_of
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forensic.bundle import open_bundle, seal
from forensic.dialects.registry import parser
from forensic.model import Entry, HistoryFrame, Node, Observation, Ref, Row, Session, ToolRequest
from forensic.recording import open_recording
from forensic.renderers import document
from forensic.replay.player import play

golden = pytest.mark.parametrize("case", CASES, ids=IDS)
Place = tuple[Ref, int]


def nodes_of(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def kinds_of(session: Session) -> Counter[str]:
    """How many nodes of each kind there are, but for those of other threads' history."""
    others = {
        id(one) for node in nodes_of(session.tree) if isinstance(node.seen, HistoryFrame) for one in nodes_of(node)
    }
    return Counter(str(node.seen.__struct_config__.tag) for node in nodes_of(session.tree) if id(node) not in others)


def placed(session: Session) -> Counter[Place]:
    """Where each observation stands: as a node, as a result, as evidence, or aside."""
    places: Counter[Place] = Counter((seen.ref, seen.part) for seen in session.aside)
    for node in nodes_of(session.tree):
        if isinstance(node.seen, Observation):
            places[node.seen.ref, node.seen.part] += 1
        places.update({(proof.ref, proof.part) for proof in node.evidence})
        if node.outcome is not None and node.outcome.result is not None:
            result = node.outcome.result
            places[result.ref, result.part] += (result.ref, result.part) not in {(p.ref, p.part) for p in node.evidence}
    return places


def written(session: Session) -> bytes:
    out = io.BytesIO()
    document.write(session, out)
    return out.getvalue()


def replayed(entries: list[Entry], harness: str = "claude") -> Session:
    return play(entries, parser(harness), harness=harness, session="s")


def rows(lines: list[bytes], stream: str = "main") -> list[Entry]:
    """Rows as capture would hand them over."""
    made: list[Entry] = []
    offset = 0
    for number, raw in enumerate(lines):
        made.append(Row(ref=Ref(stream, 1, offset), line=number, raw=raw))
        offset += len(raw) + 1
    return made


def json_rows(case: Path) -> Iterator[bytes]:
    """The rows of a golden recording that are JSON objects as they stand."""
    for entry in open_recording(case).bundle.timeline():
        if isinstance(entry, Row) and entry.raw.startswith(b"{"):
            with contextlib.suppress(ValueError, RecursionError):
                json.loads(entry.raw)
                yield entry.raw


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*way, step)
        if len(way) < 8:
            yield from ways(inner, (*way, step))


# --- 1: determinism --------------------------------------------------------------------------------------------------


@golden
def test_two_replays_give_the_same_bytes(case: Path) -> None:
    """Replaying twice in one process gives one document, one digest of observations, one list of bindings."""
    first, second = (open_recording(case).replay() for _ in range(2))
    assert written(first) == written(second)
    assert first.observations_sha256 == second.observations_sha256 != ""
    assert list(document.bindings(first)) == list(document.bindings(second))


# --- 2: conservation -------------------------------------------------------------------------------------------------


@golden
def test_every_entry_is_accounted_for(case: Path) -> None:
    """The entries of the timeline are those of tree and aside together, none lost and none invented."""
    recording = open_recording(case)
    entries = {entry.ref for entry in recording.bundle.timeline()}
    assert {ref for ref, _ in placed(recording.replay())} == entries


@golden
def test_every_observation_has_one_place(case: Path) -> None:
    """Each observation stands once: as a node, as what came of a node, as evidence of one, or aside."""
    recording = open_recording(case)
    reads = parser(recording.manifest.harness)
    seen = Counter((one.ref, one.part) for entry in recording.bundle.timeline() for one in reads.observe(entry))
    assert placed(recording.replay()) == seen


@golden
def test_rows_in_are_rows_counted(case: Path) -> None:
    """The summary counts every row once, in exactly one class."""
    recording = open_recording(case)
    counted = recording.replay().summary["rows"]
    there = sum(isinstance(entry, Row) for entry in recording.bundle.timeline())
    classes = ("read", "set_aside", "unmodelled", "unreadable", "blank")
    assert counted["total"] == there == sum(counted[name] for name in classes)


@golden
def test_bindings_tell_of_every_observation(case: Path) -> None:
    """The bindings format prints one line for every observation, and names the same places."""
    session = open_recording(case).replay()
    lines = [json.loads(line) for line in document.bindings(session)]
    assert {(tuple(line["ref"]), line["part"]) for line in lines} == {
        ((ref.stream, ref.generation, ref.offset), part) for ref, part in placed(session)
    }


# --- 3: one call, one owner ------------------------------------------------------------------------------------------


@golden
def test_one_call_has_one_owner(case: Path) -> None:
    """No call id owns two nodes, and the summary counts each call once."""
    session = open_recording(case).replay()
    requests = [node.seen for node in nodes_of(session.tree) if isinstance(node.seen, ToolRequest)]
    owned = Counter(request.call for request in requests if request.call is not None)
    assert [call for call, count in owned.items() if count > 1] == []
    assert session.summary["tool_calls"] == len(requests)


@golden
def test_the_summary_counts_what_the_tree_shows(case: Path) -> None:
    """Prompts, thoughts and responses are counted as nodes: a copy of a row is no second one."""
    session = open_recording(case).replay()
    shown = kinds_of(session)
    kinds = {"prompts": "prompt", "thoughts": "thought", "responses": "response", "steps": "step"}
    assert {name: session.summary[name] for name in kinds} == {name: shown[kind] for name, kind in kinds.items()}


@golden
def test_repeating_every_row_changes_no_count(case: Path) -> None:
    """A session whose rows all stand there twice has the same nodes, calls and totals; the repeats are named.

    Rows with ids may be anywhere, rows without any are recognised when their file was written anew.
    """
    recording = open_recording(case)
    entries = list(recording.bundle.timeline())
    once = replayed(entries, recording.manifest.harness)
    further = copy if recording.manifest.harness in IDENTIFIED else rewritten
    again = [further(entry) for entry in entries if isinstance(entry, Row)]
    twice = replayed([*entries, *again], recording.manifest.harness)
    figures = ("turns", "prompts", "thoughts", "responses", "tool_calls", "failures", "subagents", "steps")
    assert [twice.summary[name] for name in figures] == [once.summary[name] for name in figures]
    assert kinds_of(twice) == kinds_of(once)
    identified = further is rewritten or any(b'"uuid"' in one.raw or b'"parentId"' in one.raw for one in again)
    if not once.usage["idless_records"]:
        counts = [name for name in once.usage["total"] if name != "certainty"]
        assert [twice.usage["total"][name] for name in counts] == [once.usage["total"][name] for name in counts]
    assert (twice.summary["rows"]["repeated"] > 0) == (identified and bool(again))


IDENTIFIED = {"claude", "copilot", "unknown"}
"""Harnesses whose rows have ids."""


def rewritten(entry: Row) -> Row:
    """The same row in a generation of its file that comes after all there are."""
    return replace(entry, ref=Ref(entry.ref.stream, entry.ref.generation + 10, entry.ref.offset))


def copy(entry: Row) -> Row:
    """The same row, further down in the same file."""
    ref = Ref(entry.ref.stream, entry.ref.generation, entry.ref.offset + 10**9)
    return Row(ref=ref, line=entry.line + 10**6, raw=entry.raw, end=entry.end)


# --- 4: silence ------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ODD_ROWS = st.fixed_dictionaries(
    {"type": VALUES.filter(lambda kind: not isinstance(kind, str)) | st.text(max_size=12).map("x-".__add__)},
    optional={"message": VALUES, "data": VALUES, "attachment": VALUES, "uuid": VALUES, "timestamp": VALUES},
)
NOISE = st.lists(
    st.binary(max_size=60).filter(lambda raw: b"\n" not in raw)
    | (VALUES | ODD_ROWS).map(lambda value: json.dumps(value).encode()),
    max_size=12,
)


@given(noise=NOISE)
@settings(max_examples=150, deadline=None)
def test_noise_never_makes_a_node(noise: list[bytes]) -> None:
    """Rows of no known family neither raise nor appear in the tree, and each of them is accounted for."""
    session = replayed(rows(noise))
    assert session.tree.children == []
    assert session.summary["rows"]["total"] == len(noise)
    assert {ref for ref, _ in placed(session)} == {row.ref for row in rows(noise)}
    assert (session.summary["turns"], session.summary["tool_calls"], session.usage["total"]["calls"]) == (0, 0, 0)


KNOWN_ROWS = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "progress", "attachment", "summary", "queue-operation"])},
    optional={
        "subtype": VALUES | st.sampled_from(["compact_boundary", "turn_duration", "api_error"]),
        "message": VALUES | st.fixed_dictionaries({}, optional={"id": VALUES, "content": VALUES, "usage": VALUES}),
        "data": VALUES | st.fixed_dictionaries({"type": st.just("agent_progress"), "message": VALUES}),
        "attachment": VALUES | st.fixed_dictionaries({"type": st.just("skill_listing"), "names": VALUES}),
        "uuid": VALUES,
        "timestamp": VALUES,
        "toolUseResult": VALUES,
        "agentId": VALUES,
        "isSidechain": VALUES,
        "requestId": VALUES,
    },
)


@given(bodies=st.lists(KNOWN_ROWS, max_size=8))
@settings(max_examples=150, deadline=None)
def test_malformed_rows_of_known_families_never_raise(bodies: list[dict[str, Any]]) -> None:
    """Known families with values of any shape are read, laid aside or unreadable: never an exception, never a loss."""
    lines = [json.dumps(body).encode() for body in bodies]
    session = replayed(rows(lines))
    assert {ref for ref, _ in placed(session)} == {row.ref for row in rows(lines)}
    written(session)


GOLDEN_ROWS = [body for case in CASES for row in json_rows(case) if (body := json.loads(row))]
JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    {},
    [None],
    [{}],
    {"a": 1},
    {"type": "text"},
    "sidechain",
    "<command-name>",
]


@given(chosen=st.lists(st.sampled_from(GOLDEN_ROWS), min_size=1, max_size=6), data=st.data())
@settings(max_examples=200, deadline=None)
def test_rows_with_one_odd_value_never_raise(chosen: list[Any], data: st.DataObject) -> None:
    """Golden rows with one value exchanged for one of another kind: nothing raises, nothing is lost or doubled."""
    lines = []
    for body in chosen:
        changed = json.loads(json.dumps(body))
        *way, last = data.draw(st.sampled_from(list(ways(body))))
        place = changed
        for step in way:
            place = place[step]
        place[last] = data.draw(st.sampled_from(JUNK))
        lines.append(json.dumps(changed).encode())
    session = replayed(rows(lines))
    reads = parser("claude")
    assert placed(session) == Counter((one.ref, one.part) for row in rows(lines) for one in reads.observe(row))
    written(session)


@given(noise=NOISE, at=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_noise_between_rows_leaves_the_tree_alone(noise: list[bytes], at: int) -> None:
    """Noise anywhere in a real session changes neither its tree nor a figure of its usage, at most its certainty."""
    entries = list(open_recording(GOLDEN / "claude/parallel-calls-split-rows").bundle.timeline())
    clean = document_of(replayed(entries))
    at = min(at, len(entries))
    noisy = document_of(replayed([*entries[:at], *rows(noise, "noise"), *entries[at:]]))
    assert noisy["tree"] == clean["tree"]
    assert figures_of(noisy["usage"]) == figures_of(clean["usage"])
    assert noisy["usage"]["certainty"]["level"] in {"exact", "lower_bound"}


def figures_of(usage: Any) -> Any:
    """Usage without what is said of its certainty."""
    if not isinstance(usage, dict):
        return usage
    return {name: figures_of(value) for name, value in usage.items() if name != "certainty"}


@given(cut=st.integers(0, 40))
@settings(max_examples=41, deadline=None)
def test_every_beginning_of_a_session_replays(cut: int) -> None:
    """A session that is still being written replays at every row: live is replay of what is there so far."""
    entries = list(open_recording(GOLDEN / "claude/denied-and-interrupted").bundle.timeline())[:cut]
    session = replayed(entries)
    assert {ref for ref, _ in placed(session)} == {entry.ref for entry in entries}


# --- 6: seal, open, seal ---------------------------------------------------------------------------------------------


@golden
def test_seal_open_seal_keeps_the_content(case: Path, tmp_path: Path) -> None:
    """A recording sealed, unpacked with stock tools and sealed again has one content id and one document."""
    first = tmp_path / "first.zst"
    second = tmp_path / "second.zst"
    bundle_id = seal(copied(case, tmp_path / "made"), first)
    assert seal(unpacked(first, tmp_path / "unpacked"), second) == bundle_id
    assert first.read_bytes() == second.read_bytes()
    assert open_bundle(first).content_id == open_bundle(second).content_id == open_bundle(case).content_id
    assert written(open_recording(second).replay()) == written(open_recording(case).replay())


def copied(case: Path, target: Path) -> Path:
    """The recording alone, without what stands beside it."""
    for path in sorted(case.rglob("*")):
        inside = path.relative_to(case)
        if path.is_file() and inside.parts[0] not in {"source", "sessions"}:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            (target / inside).write_bytes(path.read_bytes())
    return target


def unpacked(bundle: Path, target: Path) -> Path:
    """A bundle unpacked by zstd and tar as they come, its list of members taken out again."""
    with bundle.open("rb") as packed:
        raw = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            (target / member.name).parent.mkdir(parents=True, exist_ok=True)
            (target / member.name).write_bytes(content.read())
    manifest = json.loads((target / "manifest.json").read_bytes())
    manifest["members"] = {}
    text = json.dumps(manifest, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    (target / "manifest.json").write_bytes(text.encode() + b"\n")
    return target
