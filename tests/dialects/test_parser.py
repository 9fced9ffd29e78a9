"""What every parser does with whatever it is given: the net, the numbering, broken rows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.dialects.damage import BLANKS, salvage
from forensic.dialects.parser import UNTYPED, Aside, Parser, native
from forensic.model import (
    FOLDED,
    Mended,
    Observation,
    Payload,
    Ref,
    Response,
    Row,
    SetAside,
    SideFile,
    Unmodelled,
    Unreadable,
)

REF = Ref("main", 1, 4096)
HOOK = Ref("hooks", 1, 3)
FILE = Ref("files/0001", 1, 0)


def say(entry: Any, body: dict[str, Any], keep: Any) -> Iterable[Observation]:
    for text in body["texts"]:
        yield Response(ref=entry.ref, text=keep.text(text))


def look(entry: Any, body: dict[str, Any], keep: Any) -> Iterable[Observation]:
    yield SetAside(ref=entry.ref, family="look", value=[body, len(entry.raw)])


def fields(entry: Any, body: dict[str, Any]) -> dict[str, Any]:
    return {"ref": entry.ref}


PARSER = Parser(
    dialect="test",
    version=1,
    family=lambda body: native(body.get("type")),
    rows={"say": say, "quiet": Aside("quiet", fields, lambda body: body.get("why"))},
    event=lambda payload, body: native(body.get("event") or payload.argv[-1]),
    hooks={"say": say},
    side=lambda native_id: native_id.rpartition(".")[2],
    files={"json": look, "txt": look},
)


def row(raw: bytes, end: bytes = b"\n", *, unverified: bool = False) -> Row:
    return Row(ref=REF, line=7, raw=raw, end=end, unverified=unverified)


def said(*texts: str) -> bytes:
    return json.dumps({"type": "say", "texts": list(texts)}, separators=(",", ":")).encode()


def brief(seen: list[Observation]) -> list[tuple[str, Any]]:
    """Kind and gist of each."""
    gist: list[tuple[str, Any]] = []
    for one in seen:
        match one:
            case Response(text=text):
                gist.append(("said", text.preview))
            case Mended(reason=reason, bytes=count) | Unreadable(reason=reason, bytes=count):
                gist.append((type(one).__name__, (reason, count)))
            case SetAside(family=family) | Unmodelled(family=family):
                gist.append((type(one).__name__, family))
    assert len(gist) == len(seen)
    return gist


def observe(raw: bytes, end: bytes = b"\n") -> list[tuple[str, Any]]:
    seen = PARSER.observe(row(raw, end))
    assert [one.part for one in seen] == list(range(len(seen)))
    assert {one.ref for one in seen} == {REF}
    return brief(seen)


# --- whole rows ------------------------------------------------------------------------------------------------------


def test_parts_are_numbered_in_order() -> None:
    """Whatever the reader set."""
    assert [(one.part, one.ref) for one in PARSER.observe(row(said("a", "b", "c")))] == [(0, REF), (1, REF), (2, REF)]


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (said("a"), [("said", "a")]),
        (b'{"type":"say","texts":[]}', [("Unmodelled", "say")]),
        (b'{"type":"say"}', [("Unreadable", ("say: KeyError", 14))]),
        (b'{"type":"say","texts":[1]}', [("Unreadable", ("say: AttributeError", 26))]),
        (b'{"type":"say","texts":["a",1]}', [("Unreadable", ("say: AttributeError", 30))]),
        (b'{"type":"sing"}', [("Unmodelled", "sing")]),
        (b'{"type":7}', [("Unmodelled", "<object>")]),
        (b"{}", [("Unmodelled", "<object>")]),
        (b"[1]", [("Unmodelled", "<list>")]),
        (b"null", [("Unmodelled", "<null>")]),
        (b"true", [("Unmodelled", "<bool>")]),
        (b'"x"', [("Unmodelled", "<str>")]),
        (b'{"type":"quiet"}', [("SetAside", "quiet")]),
    ],
)
def test_every_row_says_something(raw: bytes, seen: list[tuple[str, Any]]) -> None:
    """A row is read whole or not at all; what nobody reads is named; nothing is raised."""
    assert observe(raw) == seen


def test_what_is_laid_aside_keeps_what_it_is_told_to() -> None:
    """Texts in it are folded like all others."""
    (seen,) = PARSER.observe(row(b'{"type":"quiet","why":"' + b"x" * 1001 + b'"}'))
    assert isinstance(seen, SetAside)
    assert seen.value == FOLDED.text("x" * 1001)


def test_long_names_are_cut() -> None:
    """A family is a name, not a place to put a book."""
    assert native("x" * 5000) == "x" * 100
    nameless: list[object] = ["", None, 3, []]
    assert [native(name) for name in nameless] == [UNTYPED] * 4


def test_a_family_function_may_fail_too() -> None:
    """The net is around everything that looks at the row."""
    parser = PARSER.revise(2, family=lambda body: str(body["nothing"]))
    assert brief(parser.observe(row(said("a")))) == [("Unreadable", ("?: KeyError", len(said("a"))))]


def test_a_new_version_is_laid_over_the_old_one() -> None:
    """Readers that are not named stay, functions take their place, the old version stays what it was."""
    parser = PARSER.revise(2, rows={"sing": say}, family=lambda body: native(body.get("kind")))
    assert (parser.version, parser.dialect) == (2, "test")
    assert parser.rows.keys() == {"say", "quiet", "sing"}
    assert parser.hooks is PARSER.hooks
    assert PARSER.rows.keys() == {"say", "quiet"}


# --- rows that had to be mended --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b'{"type":"say","texts":["\xff"]}', [("said", "\ufffd"), ("Mended", ("replaced-bytes", 0))]),
        (b'{"type":"say","texts":["\\ud800"]}', [("said", "\ufffd"), ("Mended", ("lone-surrogate", 0))]),
        (b"\0\0\0" + said("a"), [("said", "a"), ("Mended", ("nul-run", 3))]),
        (said("a") + b"\0", [("said", "a"), ("Mended", ("nul-run", 1))]),
        (b'\0{"type":"say","texts":["\xff"]}',
         [("said", "\ufffd"), ("Mended", ("replaced-bytes", 0)), ("Mended", ("nul-run", 1))]),
        (said("a") + said("b"), [("said", "a"), ("said", "b"), ("Mended", ("joined-records", 0))]),
        (said("a") + b"\0\0" + said("b"), [("said", "a"), ("said", "b"), ("Mended", ("joined-records", 0))]),
        (b'{"type":"sa' + said("b"),
         [("said", "b"), ("Mended", ("recovered-suffix", 11)), ("Unreadable", ("cut-record", 11))]),
        (b'{"type":"say","texts":["\xe4\xbd' + said("b"),
         [("said", "b"), ("Mended", ("recovered-suffix", 26)), ("Unreadable", ("cut-record", 26))]),
        (b'{"type":"say","te' + b"\0" * 9 + said("b"),
         [("said", "b"), ("Mended", ("recovered-suffix", 26)), ("Unreadable", ("cut-record", 26))]),
        (said("a") + said("b")[:-4],
         [("said", "a"), ("Mended", ("recovered-prefix", 24)), ("Unreadable", ("cut-record", 24))]),
        (said("a") + b" and so on",
         [("said", "a"), ("Mended", ("recovered-prefix", 9)), ("Unreadable", ("cut-record", 9))]),
        (b'{"type":"sa' + said("a") + said("b"),
         [("said", "a"), ("said", "b"), ("Mended", ("joined-records", 0)), ("Mended", ("recovered-suffix", 11)),
          ("Unreadable", ("cut-record", 11))]),
        (b'{"type":"sa{"type":"say","tex' + said("b"),
         [("said", "b"), ("Mended", ("recovered-suffix", 29)), ("Unreadable", ("cut-record", 29))]),
    ],
)  # fmt: skip
def test_known_damage_is_read(raw: bytes, seen: list[tuple[str, Any]]) -> None:
    """What can be read is read, what was done about it is told, what is lost is counted."""
    assert observe(raw) == seen


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b"\xef\xbb\xbf" + said("a"), [("said", "a")]),
        (said("a") + b"\r", [("said", "a")]),
        (b" \t" + said("a") + b" ", [("said", "a")]),
        (b"\xef\xbb\xbf[1]\r", [("Unmodelled", "<list>")]),
        ('{"type":"say","texts":["\u2028\u2029\x85"]}'.encode(), [("said", "\u2028\u2029\x85")]),
        (b"", [("SetAside", "blank")]),
        (b" \t\r", [("SetAside", "blank")]),
        (b"\xef\xbb\xbf", [("SetAside", "blank")]),
    ],
)
def test_what_is_no_damage_is_not_reported(raw: bytes, seen: list[tuple[str, Any]]) -> None:
    """A byte order mark, blanks, an empty line."""
    assert observe(raw) == seen


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\0" * 50, "nul-run"),
        (b"hello", "not JSON"),
        (said("a")[:-1], "not JSON"),
        (b'{"type":"say","texts":[NaN]}', "NaN is not JSON"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "nested deeper than 128"),
        (b"[" * 1200 + b"]" * 1200, "nested deeper than 128"),
        (b'{"a":' * 100_000, "nested deeper than 128"),
    ],
)
def test_what_cannot_be_read_is_said_to_be_so(raw: bytes, reason: str) -> None:
    """In words that no Python version of ours has a say in."""
    assert observe(raw) == [("Unreadable", (reason, len(raw)))]


def test_a_torn_last_row_is_told_from_a_broken_one() -> None:
    """A row without a line end is not finished; one behind a whole record neither."""
    assert observe(said("a")[:-1], b"") == [("Unreadable", ("torn", len(said("a")) - 1))]
    assert observe(said("a") + said("b")[:9], b"") == [
        ("said", "a"), ("Mended", ("recovered-prefix", 9)), ("Unreadable", ("torn", 9)),
    ]  # fmt: skip
    assert observe(said("a"), b"") == [("said", "a")]


def test_rows_of_a_salvaged_bundle_say_so() -> None:
    """Read as ever, and marked, broken ones too."""
    seen = PARSER.observe(row(said("a"), unverified=True))
    assert brief(seen) == [("said", "a"), ("Mended", ("unverified", 0))]
    assert brief(PARSER.observe(row(b"hello", unverified=True)))[-1] == ("Mended", ("unverified", 0))


# --- nothing is made up ----------------------------------------------------------------------------------------------

NESTED = json.dumps(
    {
        "parentUuid": None,
        "type": "say",
        "message": {"content": [{"type": "say", "texts": ["inner"]}, {"type": "say", "texts": ["{", '"{', "\\"]}]},
        "data": {"message": {"type": "say", "texts": ["inner"], "usage": {"a": 1, "b": {"c": True}}}},
        "texts": ["outer"],
        "n": -12.5,
    },
    separators=(",", ":"),
).encode()


@pytest.mark.parametrize("end", [b"\n", b""])
def test_no_part_of_a_cut_record_is_taken_for_a_record(end: bytes) -> None:
    """Wherever it is cut, at either end, and at both."""
    for cut in range(1, len(NESTED)):
        assert [kind for kind, _ in observe(NESTED[:cut], end)] == ["Unreadable"]
        assert [kind for kind, _ in observe(NESTED[cut:], end)] in (["Unreadable"], ["Unmodelled"])
        for other in range(cut + 1, len(NESTED), 3):
            assert ("said", "inner") not in observe(NESTED[cut:other], end)


def test_a_whole_record_behind_a_cut_one_is_read_and_nothing_else() -> None:
    """Except where the cut one could go on with it: then it may be a part, and stays unread."""
    whole = said("whole")
    missed = []
    for cut in range(1, len(NESTED)):
        texts = [text for kind, text in observe(NESTED[:cut] + whole) if kind == "said"]
        assert texts in ([], ["whole"])
        if not texts:
            missed.append(NESTED[cut - 1 : cut])
    assert set(missed) <= {b":", b"[", b",", b"{", b"\\"}
    assert len(missed) < len(NESTED) / 6


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_whatever_stands_around_it_a_record_is_read_once_at_most(ahead: bytes, behind: bytes) -> None:
    """Noise never multiplies a record, and never raises."""
    raw = (ahead + said("whole") + behind).replace(b"\n", b"")
    assert [text for kind, text in observe(raw) if kind == "said"] in ([], ["whole"])


@given(st.binary(max_size=200).map(lambda raw: raw.replace(b"\n", b"")))
def test_noise_is_accounted_for(raw: bytes) -> None:
    """Any bytes give at least one observation, and never one that only a reader could have made."""
    assert {kind for kind, _ in observe(raw)} <= {"Unreadable", "Unmodelled", "Mended", "SetAside"}


@given(
    st.lists(st.sampled_from([said("a"), b'{"type":"sa', b"\0", b"}", b'"', b" ", b'{"x":{"type":"say"']), max_size=9)
)
def test_all_bytes_of_a_broken_row_are_in_its_sums(pieces: list[bytes]) -> None:
    """Records, what is lost ahead and what is lost behind never add up to more than the row."""
    raw = b"".join(pieces).strip(BLANKS)
    found = salvage(raw)
    records = sum(len(said("a")) for body, _ in found.records if body == {"type": "say", "texts": ["a"]})
    assert records + found.ahead + found.behind <= len(raw)
    assert found.records or (found.ahead, found.behind) == (0, len(raw))


MEGABYTE = 1_000_000
HOSTILE = {
    "openings": b'{"' * (MEGABYTE // 2),
    "unclosed-array": b"[" + b'{"a":1},' * (MEGABYTE // 8),
    "stubs-and-records": b'{"a{"b":1}' * (MEGABYTE // 10),
    "records-and-noise": b'x{"a":1}' * (MEGABYTE // 8),
    "braces-in-strings": b'{"a":["{"' + b',"{"' * (MEGABYTE // 4),
    "escapes": b'{"a":"' + b'x\\"{\\"a' * (MEGABYTE // 8),
    "surrogates": b'{"a":"' + b"\\ud800" * (MEGABYTE // 6) + b'"}',
    "no-utf-8": b'{"a":"' + b"\xff" * MEGABYTE,
    "deep-in-a-string": b'{"a":"x{"b":' + b"[" * MEGABYTE,
    "nul-islands": b"\0{" * (MEGABYTE // 2),
    "spaces": (b'{"a":1}' + b" " * 1000) * (MEGABYTE // 1007),
    "digits": b'{"a":' + b"1" * MEGABYTE,
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_no_row_costs_the_square_of_its_size(raw: bytes) -> None:
    """A megabyte of malice takes a moment; the square would take hours."""
    before = time.process_time()
    PARSER.observe(row(raw))
    assert time.process_time() - before < 5


# --- payloads and side files -----------------------------------------------------------------------------------------


def payload(raw: bytes, *argv: str) -> Payload:
    return Payload(ref=HOOK, n=3, harness="test", argv=argv, raw=raw)


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b'{"event":"say","texts":["a"]}', [("said", "a")]),
        (b'\xef\xbb\xbf{"event":"say","texts":["a"]}\r\n', [("said", "a")]),
        (b'{"event":"sing"}', [("Unmodelled", "sing")]),
        (b'{"texts":["a"]}', [("said", "a")]),
        (b"[]", [("Unmodelled", "<list>")]),
        (b"", [("Unreadable", ("empty", 0))]),
        (b"\n\0", [("Unreadable", ("empty", 2))]),
        (b"hello", [("Unreadable", ("not JSON", 5))]),
        (b'{"event":"say"}', [("Unreadable", ("say: KeyError", 15))]),
    ],
)
def test_payloads_are_read_by_their_event(raw: bytes, seen: list[tuple[str, Any]]) -> None:
    """With the same net, and the same leniency, as rows."""
    assert brief(PARSER.observe(payload(raw, "hook.py", "say"))) == seen


def side(native_id: str, raw: bytes) -> SideFile:
    return SideFile(ref=FILE, native_id=native_id, stream=None, raw=raw)


def test_a_json_side_file_is_decoded_any_other_is_handed_over() -> None:
    """By its name; nobody tries to read a long tool result as JSON."""
    (seen,) = PARSER.observe(side("a/b.json", b'\xef\xbb\xbf{"x":1}'))
    assert isinstance(seen, SetAside)
    assert seen.value == [{"x": 1}, 10]
    (seen,) = PARSER.observe(side("a/b.txt", b'{"x":1}'))
    assert isinstance(seen, SetAside)
    assert seen.value == [{}, 7]


@pytest.mark.parametrize(
    ("native_id", "raw", "seen"),
    [
        ("x.png", b"\x89PNG", ("SetAside", "png")),
        ("x.json", b"{", ("Unreadable", ("not JSON", 1))),
        ("x.json", b"[1]", ("Unmodelled", "json/<list>")),
    ],
)
def test_side_files_that_nobody_reads_are_named(native_id: str, raw: bytes, seen: tuple[str, Any]) -> None:
    """Laid aside, unreadable or unmodelled, never nothing."""
    assert brief(PARSER.observe(side(native_id, raw))) == [seen]
