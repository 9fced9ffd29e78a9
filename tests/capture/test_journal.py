"""The journal of a session: what was committed is there again, and nothing else ever is."""

from __future__ import annotations

import errno
import json
import os
import stat
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic.capture import journal
from forensic.capture.follow import Begun, Ended, Grown
from forensic.capture.journal import Context, File, Head, Journal, Line, Refusal, Taken
from forensic.private import sync

LINES: Sequence[Line] = (
    Head("claude", "s-1", 1, 2, "0" * 32),
    File(1, "/r/s.jsonl", "payload"),
    Begun(1, 1, 2049, 7),
    Grown(1, 1, 11, 1, 5, after=0, ground="payload", wall=6, mono=7),
    Taken("0-1.hook", 100, event="Stop", ends=True, wall=9, child="c", process=4),
    Ended(1, 1, "shrank"),
    File(2, "/r/\u00e9\n\u202e.json", "walk", side=True, native_id="\U0001f600"),
    Refusal("/etc/shadow", "outside the harness roots"),
    Context({"cwd": "/p", "head": None, "deep": [{"a": 1}]}),
    Taken("0-2.hook", 200),
)


def lines_of(path: Path) -> Sequence[Line]:
    """What a journal says."""
    opened = Journal(path)
    opened.close()
    return opened.lines


def written(path: Path, lines: Sequence[Line] = LINES) -> bytes:
    """Write a journal; its bytes."""
    opened = Journal(path)
    opened.add(lines)
    opened.commit()
    opened.close()
    return path.read_bytes()


def line(told: bytes) -> bytes:
    """A line with its sum, as the format has it."""
    return f"{zlib.crc32(told):08x} ".encode() + told + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal is to lie."""
    return tmp_path / "journal"


# --- what is written -------------------------------------------------------------------------------------------------


def test_all_kinds(path: Path) -> None:
    """Every kind of line comes back as it was added, in order."""
    assert lines_of(path) == []
    written(path)
    assert lines_of(path) == list(LINES)


def test_format(path: Path) -> None:
    """A line is eight hex digits of a CRC-32, a blank, a JSON object that names its kind, and a line feed."""
    raw = written(path)
    assert raw.splitlines(keepends=True)[0] == line(
        b'{"k":"head","harness":"claude","session":"s-1","wall":1,"mono":2,"boot":"00000000000000000000000000000000"}'
    )
    assert [line(one[9:-1]) for one in raw.splitlines(keepends=True)] == raw.splitlines(keepends=True)
    kinds = "head file begun grown payload ended file refused context payload".split()  # noqa: SIM905 -- shorter
    assert [json.loads(one[9:])["k"] for one in raw.splitlines()] == kinds
    assert json.loads(raw.splitlines()[-1][9:]) == {"k": "payload", "name": "0-2.hook", "bytes": 200}


def test_private(path: Path) -> None:
    """A journal is for its owner alone, whatever the umask says."""
    before = os.umask(0)
    try:
        written(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_what_was_committed(path: Path) -> None:
    """A line that was added and not committed is not in the file, and is not there after a crash."""
    opened = Journal(path)
    opened.add(LINES[:2])
    assert (opened.pending, path.read_bytes()) == (True, b"")
    opened.commit()
    assert (opened.pending, lines_of(path)) == (False, list(LINES[:2]))
    opened.add(LINES[2:4])
    opened.close()
    assert lines_of(path) == list(LINES[:2])


def test_appended(path: Path) -> None:
    """A journal that is opened again goes on where it ended."""
    for one in LINES:
        written(path, [one])
    assert lines_of(path) == list(LINES)


def test_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit writes once and syncs after that; one of nothing does nothing."""
    calls: list[str] = []
    for name in ("write", "fsync"):
        monkeypatch.setattr(os, name, partial(noted, calls, name, getattr(os, name)))
    opened = Journal(path)
    opened.commit()
    assert calls == []
    opened.add(LINES)
    opened.commit()
    opened.commit()
    assert calls == ["write", "fsync"]
    opened.close()


def noted(calls: list[str], name: str, real: Callable[..., Any], *call: Any) -> Any:
    """Make a call, and note that it was made."""
    calls.append(name)
    return real(*call)


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that fails half-way leaves what was committed before, whatever it has written."""
    opened = Journal(path)
    opened.add(LINES[:3])
    opened.commit()

    def full(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal, "write_all", full)
    opened.add(LINES[3:5])
    with pytest.raises(OSError, match="No space left"):
        opened.commit()
    assert opened.pending
    opened.close()
    assert lines_of(path)[:3] == list(LINES[:3])
    assert lines_of(path) == list(LINES[: len(lines_of(path))])


# --- what is read ----------------------------------------------------------------------------------------------------


def test_cut_anywhere(tmp_path: Path) -> None:
    """Cut after any byte, a journal is read as so many whole lines, is cut back to these, and can be gone on with."""
    raw = written(tmp_path / "whole")
    ends = [0]
    for one in raw.splitlines(keepends=True):
        ends.append(ends[-1] + len(one))
    path = tmp_path / "cut"
    for size in range(len(raw) + 1):
        path.write_bytes(raw[:size])
        whole = max(number for number, end in enumerate(ends) if end <= size)
        assert lines_of(path) == list(LINES[:whole])
        assert path.read_bytes() == raw[: ends[whole]]
        if size % 29 == 0:
            written(path, [LINES[-1]])
            assert lines_of(path) == [*LINES[:whole], LINES[-1]]


def test_one_wrong_byte_anywhere(tmp_path: Path) -> None:
    """With any one byte changed, a journal is read up to the line that holds it, and no further."""
    raw = written(tmp_path / "whole")
    path = tmp_path / "changed"
    for at in range(len(raw)):
        spoilt = bytearray(raw)
        spoilt[at] ^= 0x20 if at % 2 else 0x01
        path.write_bytes(spoilt)
        whole = raw[:at].count(b"\n")
        assert lines_of(path) == list(LINES[:whole]), at


@settings(max_examples=60, deadline=None)
@given(tail=st.binary(max_size=200), count=st.integers(0, len(LINES)))
def test_garbage(tmp_path_factory: pytest.TempPathFactory, tail: bytes, count: int) -> None:
    """Whatever a crash has left behind the lines that were committed: they are read, and it is gone."""
    path = tmp_path_factory.mktemp("garbage") / "journal"
    raw = written(path, LINES[:count])
    path.write_bytes(raw + tail)
    assert lines_of(path) == list(LINES[:count])
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 4096,
        b"\n",
        b"00000001 \n",
        b"zzzzzzzz {}\n",
        line(b'{"k":"payload","name":"x","bytes":1}')[:-1],
        line(b'{"k":"payload","name":"x","bytes":1}').replace(b" ", b"_", 1),
        line(b'{"k":"payload","name":"x","bytes":1}')[1:],
        b"\0" + line(b'{"k":"payload","name":"x","bytes":1}'),
        line(b'{"k":"payload","name":"x","bytes":1}').replace(b"\n", b"\r\n"),
        b"\0" * 100 + b"\n" + line(b'{"k":"payload","name":"x","bytes":1}'),
    ],
)
def test_what_is_no_line(path: Path, tail: bytes) -> None:
    """Zeros, sums that do not fit, other blanks and line ends are no lines, and nothing behind them is one."""
    raw = written(path)
    path.write_bytes(raw + tail)
    assert lines_of(path) == list(LINES)
    assert path.read_bytes() == raw


def test_more_than_anybody_wrote(path: Path) -> None:
    """A key that is not known in a line of a known kind is passed over."""
    raw = written(path) + line(b'{"k":"refused","path":"/x","reason":"y","new":{"z":[1]}}')
    path.write_bytes(raw)
    assert lines_of(path) == [*LINES, Refusal("/x", "y")]
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    "told",
    [
        b'{"k":"promise","what":1}',
        b'{"k":"refused","path":1,"reason":2}',
        b'{"k":"refused","path":"/x"}',
        b'{"k":7}',
        b'{"kind":"refused"}',
        b"[1]",
        b"",
    ],
)
@pytest.mark.parametrize("where", ["first", "between", "last"])
def test_a_newer_version(path: Path, told: bytes, where: str) -> None:
    """A whole line that means nothing here is of a newer version: nothing is read, and not a byte of it is touched."""
    lines = written(path).splitlines(keepends=True)
    lines.insert({"first": 0, "between": 4, "last": len(lines)}[where], line(told))
    raw = b"".join(lines) + b"torn"
    path.write_bytes(raw)
    before = count()
    for _ in range(3):
        with pytest.raises(OSError, match="a newer version of forensic recorded it") as failed:
            Journal(path)
        assert failed.value.errno == errno.ENOTSUP
    assert path.read_bytes() == raw
    assert count() == before


def test_a_link_is_no_journal(path: Path, tmp_path: Path) -> None:
    """A journal is never written through a link."""
    (tmp_path / "victim").write_bytes(b"mine\n")
    path.symlink_to("victim")
    with pytest.raises(OSError, match=r".*") as failed:
        Journal(path)
    assert failed.value.errno == errno.ELOOP
    assert (tmp_path / "victim").read_bytes() == b"mine\n"


def test_no_folder(path: Path) -> None:
    """Where there is no folder there is no journal, and none is made."""
    with pytest.raises(FileNotFoundError):
        Journal(path / "deeper")
    assert not path.exists()


def test_descriptors(path: Path) -> None:
    """A journal that was closed holds nothing open."""
    before = count()
    written(path)
    lines_of(path)
    assert count() == before


def count() -> int:
    """How many descriptors this process holds; 0 where that cannot be told."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is synced as such, and given back also when that fails."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    sync(tmp_path)
    assert synced == [tmp_path.stat().st_ino]

    def failing(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    before = count()
    with pytest.raises(OSError, match="Input/output error"):
        sync(tmp_path)
    assert count() == before


# --- laws ------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
JSON: st.SearchStrategy[Any] = st.recursive(st.none() | st.booleans() | NUMBERS | TEXTS, st.lists, max_leaves=5)
ANY_LINE = st.one_of(
    st.builds(Head, TEXTS, TEXTS, NUMBERS, NUMBERS, TEXTS),
    st.builds(Taken, TEXTS, NUMBERS, TEXTS, st.booleans(), NUMBERS, TEXTS, NUMBERS),
    st.builds(File, NUMBERS, TEXTS, TEXTS, st.booleans(), TEXTS),
    st.builds(Refusal, TEXTS, TEXTS),
    st.builds(Context, st.dictionaries(TEXTS, JSON, max_size=3)),
    st.builds(Begun, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Grown, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.none() | NUMBERS, TEXTS, NUMBERS, NUMBERS),
    st.builds(Ended, NUMBERS, NUMBERS, TEXTS),
)


@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.lists(ANY_LINE, max_size=4), max_size=5), cut=st.floats(0, 1))
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, batches: list[list[Line]], cut: float) -> None:
    """Whatever is committed in whatever batches is read again; cut anywhere, it is a beginning of that."""
    path = tmp_path_factory.mktemp("any") / "journal"
    opened = Journal(path)
    for batch in batches:
        opened.add(batch)
        opened.commit()
    opened.close()
    whole = [one for batch in batches for one in batch]
    assert lines_of(path) == whole
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * cut)])
    found = lines_of(path)
    assert found == whole[: len(found)]
    assert len(found) == raw[: int(len(raw) * cut)].count(b"\n")
