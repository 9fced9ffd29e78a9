"""Rows of nobody we know: every one is carried under its own name, and none is interpreted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.dialects.claude import DIALECT as CLAUDE
from forensic.dialects.registry import DIALECTS, dialect, parser, unverified
from forensic.errors import NoSuchParser
from forensic.model import Mended, Payload, Ref, Row, SetAside, SideFile, Unmodelled, Unreadable

PARSER = parser("unknown")
REF = Ref("main", 1, 0)


def brief(raw: bytes, end: bytes = b"\n") -> list[tuple[type, Any]]:
    seen = PARSER.observe(Row(ref=REF, line=1, raw=raw, end=end))
    return [(type(one), getattr(one, "family", None) or getattr(one, "reason", None)) for one in seen]


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b'{"type":"user","message":{"role":"user","content":"hi"}}', [(Unmodelled, "user")]),
        (b'{"role":"user"}', [(Unmodelled, "<object>")]),
        (b'{"type":null}', [(Unmodelled, "<object>")]),
        (b"[]", [(Unmodelled, "<list>")]),
        (b"1.5", [(Unmodelled, "<float>")]),
        (b"", [(SetAside, "blank")]),
        (b"plain text", [(Unreadable, "not JSON")]),
        (b'{"type":"a"}{"type":"b"}', [(Unmodelled, "a"), (Unmodelled, "b"), (Mended, "joined-records")]),
    ],
)
def test_rows_are_named_and_not_read(raw: bytes, seen: list[tuple[type, Any]]) -> None:
    """By their type where they have one, else by their shape."""
    assert brief(raw) == seen


@given(st.binary(max_size=100))
def test_nothing_is_ever_made_of_them(raw: bytes) -> None:
    """Whatever the bytes are."""
    kinds = {kind for kind, _ in brief(raw.replace(b"\n", b""))}
    assert kinds
    assert kinds <= {Unmodelled, Unreadable, SetAside, Mended}


def test_side_files_are_laid_aside() -> None:
    """Without being opened."""
    file = SideFile(ref=Ref("files/0001", 1, 0), native_id="x.json", stream=None, raw=b"{")
    assert PARSER.observe(file) == [SetAside(ref=file.ref, family="side-file")]


@pytest.mark.parametrize(
    ("argv", "raw", "family"),
    [
        (("hook.py", "/spool", "odd", "PreToolUse"), b"{}", "PreToolUse"),
        ((), b'{"hook_event_name":"Stop"}', "Stop"),
        ((), b"{}", "<object>"),
    ],
)
def test_payloads_are_named_by_their_event(argv: tuple[str, ...], raw: bytes, family: str) -> None:
    """As it was registered, else as the payload says."""
    payload = Payload(ref=Ref("hooks", 1, 1), n=1, harness="unknown", argv=argv, raw=raw)
    assert PARSER.observe(payload) == [Unmodelled(ref=payload.ref, family=family)]


# --- the registry ----------------------------------------------------------------------------------------------------


def test_the_newest_parser_is_the_one_you_get() -> None:
    """Unless a version is named."""
    assert parser("claude") is CLAUDE.versions[max(CLAUDE.versions)]
    assert parser("claude", 1) is CLAUDE.versions[1]
    assert {(name, number, one.dialect, one.version) for name, known in DIALECTS.items()
            for number, one in known.versions.items()} == {
        (name, number, name, number) for name, known in DIALECTS.items() for number in known.versions
    }  # fmt: skip


def test_a_harness_without_a_dialect_is_read_as_unknown() -> None:
    """Its rows were captured all the same."""
    assert dialect("something-else") is DIALECTS["unknown"]
    assert parser("something-else") is PARSER


@pytest.mark.parametrize("version", [0, 2, 99, -1])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    """With the ones there are."""
    with pytest.raises(NoSuchParser, match=f"the dialect unknown has no parser version {version}: there are 1"):
        parser("unknown", version)


def test_producers_that_nobody_checked_are_named() -> None:
    """In the order they were given; nobody is expected to have checked the unknown."""
    assert unverified("claude", ("2.1.332", "9.9.9", "2.1.219", "9.9.8")) == ("9.9.9", "9.9.8")
    assert unverified("claude", ()) == ()
    assert unverified("unknown", ("9.9.9",)) == ()
