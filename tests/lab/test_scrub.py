"""What is told of a recording that is handed on."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from golden_extension import LIVE
from lab_scrub import KEEP, Scrubber

BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (b'{"a" : 1e0, "b":"\\u00e9\\/"}', b'{"a" : 1e0, "b":"\\u00e9\\/"}'),
        (b'{"at":"2026-03-04T05:06:08.5Z"}', b'{"at":"2026-01-01T09:00:01.5Z"}'),
        (b'{"at":1772600768000,"s":1772600768}', b'{"at":1767258001000,"s":1767258001}'),
        (b'{"n":1500000000000,"m":17726007680}', b'{"n":1500000000000,"m":17726007680}'),
        (
            b'{"id":"0a1b2c3d-0000-4111-8222-333344445555","p":"0a1b2c3d-0000-4111-8222-333344445555"}',
            b'{"id":"00000001-0000-4000-8000-000000000000","p":"00000001-0000-4000-8000-000000000000"}',
        ),
        (b'{"url":"http://127.0.0.1:40123/v1"}', b'{"url":"http://127.0.0.1:8000/v1"}'),
        (b'{"tools":[{"name":"a"},{"name":"b"}],"x":1}', b'{"tools":"[LAB: 2 entries left out]","x":1}'),
        (b'{"tools":["Read"]}', b'{"tools":["Read"]}'),
        (b'{"t":"%b"}' % (b"x" * KEEP), b'{"t":"%b"}' % (b"x" * KEEP)),
        (b'{"t":"%b"}' % (b"x" * (KEEP + 1)), b'{"t":"[LAB: 301 characters left out]"}'),
        (b'{"t":"[alpha] %b"}' % (b"x" * KEEP), b'{"t":"[alpha] %b"}' % (b"x" * KEEP)),
    ],
)
def test_a_row(row: bytes, told: bytes) -> None:
    """Ids are counted, times begin on the same day, long texts of others go; all other bytes stay."""
    assert Scrubber(BEGAN).row(row) == told


def test_a_home_is_that_of_dev() -> None:
    """Where a recording was made does not show."""
    assert Scrubber(BEGAN, "/somewhere/of/mine").text("/somewhere/of/mine/demo") == "/home/dev/demo"


def test_what_was_told_once_is_told_again() -> None:
    """The same id is the same in every row, and one that was made up is not counted again."""
    scrub = Scrubber(BEGAN)
    first = scrub.text("ffffffff-0000-4111-8222-333344445555 eeeeeeee-0000-4111-8222-333344445555")
    assert first == "00000001-0000-4000-8000-000000000000 00000002-0000-4000-8000-000000000000"
    assert scrub.text(first) == first


@pytest.mark.parametrize("case", LIVE, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_live_recordings_tell_no_real_time(case: Path) -> None:
    """Every time in them is of the day on which all of them begin."""
    text = "".join(path.read_text() for path in case.rglob("*") if path.is_file() and path.parent.name != "sessions")
    assert set(re.findall(r"\b(20\d\d-\d\d-\d\d)T\d\d:", text)) <= {"2026-01-01"}
