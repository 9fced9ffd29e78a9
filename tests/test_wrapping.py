"""Wrapped lines: whatever the bytes of a row or payload, they come back, and there is one line for them only."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from bundles import payload
from hypothesis import example, given
from hypothesis import strategies as st

from forensic import wrapping
from forensic.model import Payload, Ref, Row, Saw
from forensic.wrapping import (
    LineReader,
    NotWrapped,
    PayloadReader,
    RowReader,
    unwrap_payload,
    unwrap_row,
    wrap_payload,
    wrap_row,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, max_size=5).map(json.dumps).map(str.encode)
TEXTS = st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass"))
RAWS = (st.binary(max_size=200) | OBJECTS | TEXTS).map(lambda raw: raw.replace(b"\n", b""))
WHOLE = st.tuples(RAWS.filter(lambda raw: not raw.endswith(b"\r")), st.sampled_from([b"\n", b"\r\n"]))
ENDS = st.sampled_from([b"\n", b"\r\n", b""])
MAIN = Ref("main", 1, 4096)


def body(raw: bytes, end: bytes = b"\n") -> str:
    """How the content of a row is written: its key."""
    line = wrap_row(MAIN, 12, raw, end)
    assert unwrap_row(line) == Row(ref=MAIN, line=12, raw=raw, end=end)
    keys: set[str] = json.loads(line.decode("utf-8", "replace"), strict=False).keys() - {"ref", "line", "end"}
    return keys.pop()


def test_a_row_stands_in_its_line_as_it_is() -> None:
    """The provider's bytes are a slice of the line, blanks and the order of keys included."""
    raw = b'{ "b" : 1e5,\t"a":[ {"x":"\\u00e9"} ] }'
    assert wrap_row(MAIN, 12, raw, b"\n") == b'{"ref":["main",1,4096],"line":12,"row":' + raw + b"}\n"


def test_other_line_ends_are_told() -> None:
    """A row without line feed, and one with CR LF, say so; the usual end says nothing."""
    assert wrap_row(MAIN, 1, b"{}", b"") == b'{"ref":["main",1,4096],"line":1,"end":"","row":{}}\n'
    assert wrap_row(MAIN, 1, b"{}", b"\r\n") == b'{"ref":["main",1,4096],"line":1,"end":"\\r\\n","row":{}}\n'


def test_the_cr_of_a_cr_lf_is_no_part_of_the_row() -> None:
    """However the caller cut it, the same bytes give the same line."""
    assert wrap_row(MAIN, 1, b"{}\r", b"\n") == wrap_row(MAIN, 1, b"{}", b"\r\n")
    assert unwrap_row(wrap_row(MAIN, 1, b"{}\r", b"")).raw == b"{}\r"


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"a":1,"a":2}',
        b'{"a":"\xe2\x80\xa8\x7f\xc2\x85"}',
        b'{"a":1e400,"b":123456789012345678901234567890}',
        b'{"a":"\\ud83d\\ude00"}',
        b'{"a":' * 128 + b"1" + b"}" * 128,
        b'{"a":"' + b"[" * 500 + b'"}',
        b'{"text":"\\u0000"}',
    ],
    ids=[
        "empty",
        "key twice",
        "U+2028 DEL NEL",
        "large numbers",
        "surrogates",
        "128 deep",
        "brackets in text",
        "NUL",
    ],
)
def test_json_objects_are_embedded(raw: bytes) -> None:
    """Everything that is one JSON object by its grammar, whatever a decoder may think of its values."""
    assert body(raw) == "row"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" {}",
        b"{} ",
        b"[1]",
        b"1",
        b'{"a":1}}',
        b'{"a":1},"ref":["main",1,0]',
        b'{"a":1},{"b":2}',
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":1,}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\q"}',
        b'{"a":' * 129 + b"1" + b"}" * 129,
        b'\xef\xbb\xbf{"a":1}',
        b'{"torn":"',
    ],
)
def test_other_text_is_a_string(raw: bytes) -> None:
    """No JSON object, or one that some decoder refuses or reads as something else: then it is text."""
    assert body(raw) == "text"


@pytest.mark.parametrize(
    "raw", [b"\xff", b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b"\0" * 40, b"{}\xc3", b'{"a":"\xc0\xaf"}']
)
def test_bytes_that_are_no_text_are_coded(raw: bytes) -> None:
    """What is not UTF-8, or much longer as a string, is base64."""
    assert body(raw) == "base64"


def test_the_shorter_of_text_and_base64() -> None:
    """A few control characters do not make a text unreadable; as soon as base64 is shorter it is taken."""
    keys = [body(b"\x01" * count + b"x" * 20) for count in range(5)]
    assert keys == ["text", "text", "text", "base64", "base64"]
    assert base64.b64encode(b"\x01" * 3 + b"x" * 20) in wrap_row(MAIN, 1, b"\x01" * 3 + b"x" * 20, b"\n")


@given(raw=RAWS, end=ENDS, offset=st.integers(0, 2**40), line=st.integers(1, 2**31))
@example(raw=b"\r", end=b"\n", offset=0, line=1)
@example(raw=b"{}\r\r", end=b"\n", offset=0, line=1)
def test_every_row_comes_back(raw: bytes, end: bytes, offset: int, line: int) -> None:
    """Wrapping and unwrapping gives the same bytes, ref and line; wrapping that again gives the same line."""
    ref = Ref('agent-\u00e9"', 2, offset)
    wrapped = wrap_row(ref, line, raw, end)
    row = unwrap_row(wrapped)
    assert (row.raw + row.end, row.ref, row.line) == (raw + end, ref, line)
    assert wrap_row(row.ref, row.line, row.raw, row.end) == wrapped
    assert wrapped.count(b"\n") == 1


@given(data=st.binary(max_size=80) | st.text(max_size=60).map(str.encode))
def test_noise_is_no_wrapped_row(data: bytes) -> None:
    """Anything else is refused, and with nothing but `NotWrapped`."""
    for unwrap in (unwrap_row, unwrap_payload):
        with pytest.raises(NotWrapped):
            unwrap(data)


@given(raw=RAWS, end=ENDS, at=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_changed_line_is_another_row_or_none(raw: bytes, end: bytes, at: int, byte: int) -> None:
    """What is accepted is exactly what wrapping gives, so no two lines mean the same row."""
    line = bytearray(wrap_row(MAIN, 12, raw, end))
    line[at % len(line)] = byte
    try:
        row = unwrap_row(bytes(line))
    except NotWrapped:
        return
    assert wrap_row(row.ref, row.line, row.raw, row.end) == line


@pytest.mark.parametrize(
    "line",
    [
        b'{"ref":["main",1,0],"line":1,"row":{}}',
        b'{"line":1,"ref":["main",1,0],"row":{}}\n',
        b'{"ref":["main",1,0],"line":1,"row":{},"row":{}}\n',
        b'{"ref":["main",1,0],"line":1,"row":{},"text":""}\n',
        b'{"ref":["main",1,0],"line":1,"row":{}, "x":1}\n',
        b'{"ref":["main",1,0],"line":1,"end":"\\n","row":{}}\n',
        b'{"ref":["main",1,0],"line":1,"end":"\\r","row":{}}\n',
        b'{"ref":["main",1,0],"line":0,"row":{}}\n',
        b'{"ref":["main",0,0],"line":1,"row":{}}\n',
        b'{"ref":["main",1,-1],"line":1,"row":{}}\n',
        b'{"ref":["main",1,0.0],"line":1,"row":{}}\n',
        b'{"ref":["main",1],"line":1,"row":{}}\n',
        b'{"ref":["main",1,0],"line":1}\n',
        b'{"ref":["main",1,0],"line":1,"text":"\\u0078"}\n',
        b'{"ref":["main",1,0],"line":1,"base64":"eA"}\n',
        b'{"ref":["main",1,0],"line":1,"base64":"/x=="}\n',
        b'{"ref":["main",1,0],"line":1,"row":null}\n',
        b'{"ref":["main",1,0],"line":1,"text":"a\\nb"}\n',
    ],
)
def test_other_ways_to_write_a_row_are_refused(line: bytes) -> None:
    """Order, blanks, keys twice or beside, numbers out of range, escapes, padding: there is one form."""
    with pytest.raises(NotWrapped):
        unwrap_row(line)


@pytest.mark.parametrize(("raw", "end"), [(b"a\nb", b"\n"), (b"a", b"\r"), (b"a", b"\n\n")])
def test_rows_end_at_line_feeds(raw: bytes, end: bytes) -> None:
    """What cannot be one row is not wrapped as one."""
    with pytest.raises(ValueError, match="a row holds no line feed"):
        wrap_row(MAIN, 1, raw, end)


def test_a_whole_envelope() -> None:
    """All fields of an envelope, in their order, then the content as it came."""
    whole = Payload(
        ref=Ref("hooks", 1, 3),
        n=3,
        harness="claude",
        argv=("hook.py", "PreToolUse"),
        boot="b00",
        mono=5,
        wall=6,
        pid=7,
        ppid=8,
        parent_exe="/usr/bin/node",
        cwd="/home/dev/demo",
        env=("HOME", "PATH"),
        kept={"CODEX_HOME": "/y", "CLAUDE_CODE_ENTRYPOINT": "cli"},
        saw=(Saw("/t.jsonl", 1, 2, 3), Saw("/none", 0, 0, -1)),
        size=100,
        cut=True,
        raw=b'{"tool":"Bash"}\n',
    )
    line = wrap_payload(whole)
    assert line == (
        b'{"ref":["hooks",1,3],"n":3,"harness":"claude","argv":["hook.py","PreToolUse"],"boot":"b00","mono":5,"wall":6,'
        b'"pid":7,"ppid":8,"parent_exe":"/usr/bin/node","cwd":"/home/dev/demo","env":["HOME","PATH"],'
        b'"kept":{"CLAUDE_CODE_ENTRYPOINT":"cli","CODEX_HOME":"/y"},'
        b'"saw":[{"path":"/t.jsonl","dev":1,"ino":2,"size":3},{"path":"/none","dev":0,"ino":0,"size":-1}],'
        b'"bytes":100,"cut":true,"end":"\\n","payload":{"tool":"Bash"}}\n'
    )
    assert unwrap_payload(line) == whole


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        (b"{}", b'"payload":{}}'),
        (b"{}\n", b'"end":"\\n","payload":{}}'),
        (b"{}\r\n", b'"end":"\\r\\n","payload":{}}'),
        (b"{}\n\n", b'"end":"\\n","text":"{}\\n"}'),
        (b'{\n"a":1}', b'"text":"{\\n\\"a\\":1}"}'),
        (b"", b'"text":""}'),
        (b"\n", b'"end":"\\n","text":""}'),
        (b"\xef\xbb\xbf{}", b'"text":"\xef\xbb\xbf{}"}'),
        (b"\xff", b'"base64":"/w=="}'),
    ],
)
def test_the_content_of_a_payload_is_untouched(raw: bytes, written: bytes) -> None:
    """An object is embedded with its line end told apart; what spans lines, or is no JSON, becomes a string."""
    line = wrap_payload(payload(1, raw))
    assert line.endswith(written + b"\n")
    assert unwrap_payload(line).raw == raw


@given(raw=st.binary(max_size=100) | RAWS | RAWS.map(lambda raw: raw + b"\n"), wall=st.integers(0, 2**62))
def test_every_payload_comes_back(raw: bytes, wall: int) -> None:
    """Whatever a hook was given."""
    whole = payload(9, raw, wall=wall)
    assert unwrap_payload(wrap_payload(whole)) == whole


def transcript(rows: list[tuple[bytes, bytes]]) -> bytes:
    """A member that holds these rows."""
    out, offset = [], 0
    for line, (raw, end) in enumerate(rows, 1):
        out.append(wrap_row(Ref("main", 1, offset), line, raw, end))
        offset += len(raw) + len(end)
    return b"".join(out)


@pytest.mark.parametrize("strict", [True, False])
@given(rows=st.lists(WHOLE, max_size=12), cut=st.integers(1, 200))
def test_reading_rows_in_pieces(strict: bool, rows: list[tuple[bytes, bytes]], cut: int) -> None:  # noqa: FBT001 -- a parameter
    """However a member is cut, the reader gives what unwrapping each line gives."""
    data = transcript(rows)
    reader = RowReader("main", 1, strict=strict)
    found = [row for at in range(0, len(data), cut) for row in reader.read(data[at : at + cut])]
    reader.finish()
    assert found == [unwrap_row(line + b"\n") for line in data.split(b"\n")[:-1]]
    assert [(row.raw, row.end) for row in found] == rows
    assert reader.rows == len(rows)


def test_holes_are_those_that_are_known() -> None:
    """Rows may leave out what the manifest lists as missing, and nothing else."""
    data = wrap_row(Ref("main", 1, 0), 1, b"{}", b"\n") + wrap_row(Ref("main", 1, 50), 9, b"{}", b"\n")
    with pytest.raises(NotWrapped, match="offset 50 where 3 is due"):
        RowReader("main", 1).read(data)
    with pytest.raises(NotWrapped, match="offset 50 where 3 is due"):
        RowReader("main", 1, gaps={3: 46}).read(data)
    rows = RowReader("main", 1, gaps={3: 47}, unverified=True).read(data)
    assert [(row.ref.offset, row.line, row.unverified) for row in rows] == [(0, 1, True), (50, 9, True)]
    with pytest.raises(NotWrapped, match="line 1 where 2 is due"):
        RowReader("main", 1, gaps={3: 47}).read(data.replace(b'"line":9', b'"line":1'))


def test_what_was_read_before_a_fault_is_counted() -> None:
    """So that the row of a fault can be named."""
    reader = RowReader("main", 1)
    good = transcript([(b"{}", b"\n"), (b"[]", b"\n")])
    with pytest.raises(NotWrapped):
        reader.read(good + b"{}\n")
    assert reader.rows == 2
    payloads = PayloadReader()
    with pytest.raises(NotWrapped):
        payloads.read(wrap_payload(payload(1, b"{}")) + b"{}\n")
    assert payloads.rows == 1


def test_a_line_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without end is not held without end."""
    monkeypatch.setattr(wrapping, "LINE_LIMIT", 100)
    reader = LineReader()
    assert reader.whole(b"x" * 60) == b""
    assert reader.holds
    with pytest.raises(NotWrapped, match="a line beyond 1 GiB"):
        reader.whole(b"x" * 60)


def test_a_row_of_twenty_megabytes() -> None:
    """Rows of any size come back."""
    raw = b'{"image":"' + b"A" * (20 << 20) + b'"}'
    line = wrap_row(MAIN, 12, raw, b"\n")
    assert unwrap_row(line).raw == raw
    reader = RowReader("main", 1, gaps={0: 4096})
    assert [
        row.raw == raw for at in range(0, len(line), 4 << 20) for row in reader.read(line[at : at + (4 << 20)])
    ] == [True]


def test_the_examples_of_the_documentation(root: Path) -> None:
    """What docs/bundle.md shows is what is written and read, and its rows follow from each other."""
    text = (root / "docs" / "bundle.md").read_text(encoding="utf-8")
    shown = [line.encode() + b"\n" for line in text.splitlines() if line.startswith('{"ref":')]
    reader = RowReader("main", 1, gaps={0: 4096})
    rows = reader.read(b"".join(shown))
    assert [(row.raw, row.end) for row in rows] == [
        (b'{"type":"user", "x":1}', b"\n"),
        (b"not JSON", b"\r\n"),
        (b"\xff", b""),
    ]
