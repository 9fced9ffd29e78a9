"""Rows of a file that somebody else writes."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic.capture.tail import Tail, TailRow, open_regular, prefix_sha256
from forensic.errors import NoSuchPath, NotReadable, NotRegular


def rows_of(path: Path, chunk: int = 1 << 20) -> list[TailRow]:
    with Tail(path, chunk=chunk) as tail:
        return list(tail.lines())


def test_rows_end_at_line_feeds_and_nowhere_else(tmp_path: Path) -> None:
    """U+0085, U+2028, form feeds and lone carriage returns stay inside their row."""
    path = tmp_path / "t.jsonl"
    content = '{"a":"x\u2028y\x85"}\x0c\rz\n\n{"b":1}\r\n\r\nrest\r'.encode()
    path.write_bytes(content)
    first = '{"a":"x\u2028y\x85"}\x0c\rz'.encode()
    at = len(first) + 1
    assert rows_of(path) == [
        (0, 1, first, b"\n"),
        (at, 2, b"", b"\n"),
        (at + 1, 3, b'{"b":1}', b"\r\n"),
        (at + 10, 4, b"", b"\r\n"),
        (at + 12, 5, b"rest\r", b""),
    ]


def test_what_a_pass_leaves_behind(tmp_path: Path) -> None:
    """Rows, bytes read, digest and the unterminated last row are known after the pass."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo\nthr")
    with Tail(path, chunk=2) as tail:
        assert [piece for _, piece in tail.blocks()] == [b"one\n", b"two\n", b"thr"]
        assert (tail.rows, tail.read, tail.size, tail.unread) == (3, 11, 11, (8, 3))
        assert tail.sha256 == hashlib.sha256(b"one\ntwo\nthr").hexdigest()
        assert tail.changed() is None
        status = path.stat()
        assert (tail.dev, tail.ino, tail.mtime_ns) == (status.st_dev, status.st_ino, status.st_mtime_ns)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    """Nothing is yielded, nothing is unread."""
    path = tmp_path / "t.jsonl"
    path.touch()
    with Tail(path) as tail:
        assert list(tail.lines()) == []
        assert (tail.rows, tail.read, tail.unread, tail.changed()) == (0, 0, None, None)


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"{}", b"\0", b"\xff", b"bcdefg"]), max_size=60),
    chunk=st.integers(1, 9),
)
def test_rows_put_together_are_the_file(
    pieces: list[bytes], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the bytes and however they come, raw and end of all rows are the file, at offsets that follow."""
    content = b"".join(pieces)
    path = tmp_path_factory.getbasetemp() / "law.jsonl"
    path.write_bytes(content)
    rows = rows_of(path, chunk)
    assert b"".join(row.raw + row.end for row in rows) == content
    assert [content[row.offset : row.offset + len(row.raw)] for row in rows] == [row.raw for row in rows]
    assert [row.line for row in rows] == list(range(1, len(rows) + 1))
    assert all(row.end for row in rows[:-1])
    assert not any(b"\n" in row.raw for row in rows)
    assert rows == rows_of(path)


def test_what_is_appended_meanwhile_is_left_for_later(tmp_path: Path) -> None:
    """The size counts that the file had when it was opened, and growth is no change."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntw")
    with Tail(path) as tail:
        with path.open("ab") as more:
            more.write(b"o\nthree\n")
        assert [row.raw for row in tail.lines()] == [b"one", b"tw"]
        assert (tail.read, tail.changed()) == (6, None)


def test_a_file_that_shrinks_meanwhile_is_told(tmp_path: Path) -> None:
    """What could be read is kept, and the missing part can be computed."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 99 + b"\n")
    with Tail(path, chunk=100) as tail:
        blocks = tail.blocks()
        assert next(blocks) == (0, b"x" * 99 + b"\n")
        os.truncate(path, 150)
        assert list(blocks) == [(100, b"y" * 50)]
        assert (tail.size - tail.read, tail.changed()) == (50, "shrank")


def test_a_file_rewritten_in_place_meanwhile_is_told(tmp_path: Path) -> None:
    """Same size, other bytes: the first 4 KiB and the last 64 bytes are compared when the time stamp moved."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo\n")
    with Tail(path) as tail:
        list(tail.lines())
        path.write_bytes(b"one\nTWO\n")
        os.utime(path, ns=(1, tail.mtime_ns + 5))
        assert tail.changed() == "rewritten"


def test_a_touched_file_is_unchanged(tmp_path: Path) -> None:
    """A new time stamp alone is no change."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\n")
    with Tail(path) as tail:
        list(tail.lines())
        os.utime(path, ns=(1, tail.mtime_ns + 5))
        assert tail.changed() is None


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """Pipes, devices, sockets, folders and links are refused at once, before an open could block or do something."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", tmp_path, Path("/dev/null")):
        with pytest.raises(NotRegular) as caught:
            open_regular(path)
        assert str(caught.value) == (
            f"{path} is neither a regular file nor a folder: name a transcript file, or a folder that holds some"
        )
    listener.close()


def test_a_missing_or_forbidden_file_is_one_clear_line(tmp_path: Path) -> None:
    """The message names the path and the reason."""
    with pytest.raises(NoSuchPath, match=r"^no such file or folder: "):
        open_regular(tmp_path / "nothing")
    with pytest.raises(NotReadable, match=r"^cannot read .*: no valid path$"):
        open_regular(Path("a\0b"))


def test_the_digest_of_a_beginning(tmp_path: Path) -> None:
    """Exactly the first bytes count; a shorter file has no such beginning."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo\n")
    assert prefix_sha256(path, 4) == hashlib.sha256(b"one\n").hexdigest()
    assert prefix_sha256(path, 0) == hashlib.sha256(b"").hexdigest()
    assert prefix_sha256(path, 8) == hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert prefix_sha256(path, 9) is None
