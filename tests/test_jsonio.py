"""Reading JSON that nobody promised, and writing JSON that never varies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.jsonio import NotJson, canonical, decode, deeper_than

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_json_writes_is_read_back_without_notes(value: Any) -> None:
    """Both ways of writing text, escaped and plain."""
    for ascii_only in (True, False):
        raw = json.dumps(value, ensure_ascii=ascii_only).encode()
        assert decode(raw) == (value, ())


@given(values)
def test_canonical_json_is_one_text_for_one_value(value: Any) -> None:
    """Order of insertion does not show, and the text means the value."""
    raw = canonical(value)
    assert json.loads(raw) == value
    shuffled = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert canonical(shuffled) == raw


@pytest.mark.parametrize(
    ("raw", "value", "notes"),
    [
        (b'{"a":"\\ud83d"}', {"a": "\ufffd"}, ("lone-surrogate",)),
        (b'{"\\udc00":["x\\ud800y"]}', {"\ufffd": ["x\ufffdy"]}, ("lone-surrogate",)),
        (b'{"a":"\xff"}', {"a": "\ufffd"}, ("replaced-bytes",)),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}, ()),
        (b'{"a":1e400}', {"a": "1e400"}, ()),
        (
            b'{"a":"\\ud83d","b":123456789012345678901234567890}',
            {"a": "\ufffd", "b": "1234567890" * 3},
            ("lone-surrogate",),
        ),
        (b'{"a":' + b"9" * 5000 + b"}", {"a": "9" * 5000}, ()),
        (b'{"a":1,"a":2}', {"a": 2}, ()),
    ],
)
def test_what_javascript_writes_and_strict_readers_refuse_is_read(
    raw: bytes, value: object, notes: tuple[str, ...]
) -> None:
    """With a note where something was replaced."""
    assert decode(raw) == (value, notes)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"a":1}x', b'{"a":NaN}', b'{"a":Infinity}', b"\xef\xbb\xbf{}", b'{"a":1}{"b":2}', b"nul"]
)
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    """One exception, whatever decoder noticed."""
    with pytest.raises(NotJson):
        decode(raw)


@pytest.mark.parametrize(
    ("raw", "deep"),
    [
        (b"[" * 128 + b"]" * 128, False),
        (b"[" * 129 + b"]" * 129, True),
        (b'{"a":' * 129 + b"1" + b"}" * 129, True),
        (b'{"a":"' + b"[" * 500 + b'"}', False),
        (b'{"a":"\\"' + b"{" * 500 + b'\\\\"}', False),
        (b"[" + b"[]," * 500 + b"1]", False),
        (b'{"a":"\\\\"' + b',"b":' + b"[" * 130, True),
    ],
)
def test_depth_is_counted_on_brackets_outside_strings(raw: bytes, *, deep: bool) -> None:
    """The same on every Python, before any decoder sees the row."""
    assert deeper_than(raw) is deep


def test_a_deep_row_is_refused_before_it_is_decoded() -> None:
    """Decoders disagree about 1,200 levels; this one does not."""
    with pytest.raises(NotJson, match="nested deeper than 128"):
        decode(b'{"a":' + b"[" * 1200 + b"]" * 1200 + b"}")
