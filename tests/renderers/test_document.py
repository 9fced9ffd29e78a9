"""The session document: canonical, streamed, whole."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, datetime
from pathlib import Path

from forensic import model
from forensic.model import (
    FOLDED,
    Basis,
    Finding,
    Node,
    Observation,
    Outcome,
    Parsed,
    Proof,
    Ref,
    Response,
    Session,
    SessionFrame,
    StepFrame,
    ToolRequest,
    ToolResult,
    Unmodelled,
)
from forensic.renderers import document


def session(tree: Node) -> Session:
    """A session around a tree."""
    return Session(
        harness="h",
        session="s",
        producer=("1.0",),
        parser=Parsed("h", 3),
        replay_version=1,
        content_id="ab",
        usage={"total": {"calls": 0}},
        summary={"turns": 0},
        tree=tree,
        aside=[Unmodelled(ref=Ref("main", 1, 9), family="x"), Unmodelled(ref=Ref("main", 1, 10), family="y")],
        findings=[Finding(kind="k", note="n")],
    )


def small() -> Node:
    """A step with a call and a reply."""
    call = ToolRequest(ref=Ref("main", 1, 0), name="T", call="c", at=datetime(2026, 1, 1, tzinfo=UTC))
    result = ToolResult(ref=Ref("main", 1, 5), call="c", ok=True)
    step = Node(
        seen=StepFrame(id="m", ref=Ref("main", 1, 0)),
        children=[
            Node(
                seen=call,
                outcome=Outcome(outcome="ok", duration_ms=1, measured="clock", result=result),
                evidence=[Proof(Ref("main", 1, 5), 0, "tool_result", Basis.EXACT, ("call",))],
            ),
            Node(seen=Response(ref=Ref("main", 1, 7), text=FOLDED.text("hi"))),
        ],
    )
    return Node(seen=SessionFrame(id="s"), children=[step])


def written(given: Session) -> bytes:
    """The document as written."""
    out = io.BytesIO()
    document.write(given, out)
    return out.getvalue()


def test_the_document_has_its_keys_in_the_documented_order() -> None:
    """Top-level keys are a promise."""
    assert list(json.loads(written(session(small())))) == [
        "schema",
        "harness",
        "session",
        "producer",
        "parser_version",
        "replay_version",
        "content_id",
        "usage",
        "summary",
        "tree",
        "aside",
        "findings",
    ]


def test_a_tree_is_written_as_nested_nodes() -> None:
    """Kind, place and time first, then evidence and children, always there."""
    tree = json.loads(written(session(small())))["tree"]
    assert tree["kind"] == "session"
    step = tree["children"][0]
    assert (step["kind"], step["ref"], step["evidence"]) == ("step", ["main", 1, 0], [])
    call, reply = step["children"]
    assert call["at"] == "2026-01-01T00:00:00Z"
    assert call["outcome"]["result"] == {"kind": "tool_result", "ref": ["main", 1, 5], "call": "c", "ok": True}
    assert call["evidence"] == [
        {"ref": ["main", 1, 5], "part": 0, "kind": "tool_result", "basis": "exact", "agreed": ["call"]}
    ]
    assert (call["children"], reply["children"]) == ([], [])
    assert reply["text"]["preview"] == "hi"


def test_the_digest_is_that_of_the_document_without_its_line_feed() -> None:
    """With or without a place to write to."""
    given = session(small())
    raw = written(given)
    assert raw.endswith(b"}\n")
    assert document.write(given) == hashlib.sha256(raw[:-1]).hexdigest()


def test_a_very_deep_tree_is_written_without_recursion() -> None:
    """A recording decides how deep agents nest; the writer does not care."""
    tree = Node(seen=SessionFrame(id="s"))
    inner = tree
    for _ in range(5000):
        child = Node(seen=StepFrame(id="m"))
        inner.add(child)
        inner = child
    assert written(session(tree)).count(b'"kind":"step"') == 5000


def test_bindings_name_a_place_for_every_observation() -> None:
    """Nodes, evidence and what was laid aside, one line each."""
    lines = [json.loads(line) for line in document.bindings(session(small()))]
    assert [(line["kind"], line["place"]) for line in lines] == [
        ("tool_request", "node"),
        ("tool_result", "evidence"),
        ("response", "node"),
        ("unmodelled", "aside"),
        ("unmodelled", "aside"),
    ]
    assert lines[1]["owner"] == {"kind": "tool_request", "ref": ["main", 1, 0], "part": 0, "id": "c"}
    assert (lines[1]["basis"], lines[1]["agreed"]) == ("exact", ["call"])


def test_every_kind_and_field_stands_on_the_page(root: Path) -> None:
    """docs/replay.md is where a reader of documents looks."""
    page = (root / "docs" / "replay.md").read_text(encoding="utf-8")
    kinds = [
        kind
        for kind in vars(model).values()
        if isinstance(kind, type) and issubclass(kind, Observation) and kind is not Observation
    ]
    words = {str(kind.__struct_config__.tag) for kind in kinds} | {
        name for kind in kinds for name in kind.__struct_fields__
    }
    assert [word for word in sorted(words) if f"`{word}`" not in page and word not in {"part", "ref", "at"}] == []
    assert len(kinds) > 20
