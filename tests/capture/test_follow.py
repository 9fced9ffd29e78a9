"""Files that somebody else writes: every byte that was there when looked at is kept once, in its generation."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from msgspec import Struct

from forensic.capture import follow
from forensic.capture.follow import Begun, Ended, Follower, Grown, Step, Versions, read_at
from forensic.capture.guard import Gone, Roots, open_guarded, open_pin, pin_name
from forensic.capture.journal import Journal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there an open file is neither deleted nor replaced")

MEBI = 1 << 20
SECOND = 1_000_000_000


class Bench:
    """A transcript that may come to lie below a root, a folder for copies, and whoever follows the one into the other.

    Times of files are set, so that nothing depends on how coarse those of the file system are.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.copies = folder / "copies"
        self.pins = folder / "pins"
        for one in (self.root, self.copies, self.pins):
            one.mkdir()
        self.path = self.root / "s.jsonl"
        self.steps: list[Step] = []
        self.ticks = itertools.count(1_700_000_000)
        self.follower = self.new()

    def open(self) -> int:
        """Open the transcript as capture does."""
        return open_guarded(
            str(self.path), Roots([str(self.root)]), lambda dev, ino: (self.pins / pin_name(dev, ino)).exists()
        )

    def new(self) -> Follower:
        """Somebody who follows, and has not begun to."""
        return Follower(1, str(self.path), self.copies, self.open)

    def again(self) -> Follower:
        """As after the end of a process: all that is left are copies, and what the steps said."""
        self.follower.close()
        self.follower = self.new()
        self.follower.restore(self.steps)
        return self.follower

    def drain(self, *, whole: bool = False) -> list[tuple[Any, ...]]:
        """Drain; what happened, without file number and time, as tuples that begin with the kind."""
        steps = self.follower.drain(whole=whole)
        self.follower.sync()
        self.steps += steps
        return [short(step) for step in steps]

    def write(self, data: bytes, path: Path | None = None) -> None:
        """Append to the transcript."""
        with (path or self.path).open("ab") as out:
            out.write(data)
        self.touch(path)

    def put(self, data: bytes) -> None:
        """Write the transcript anew in place: the same file with other bytes."""
        with self.path.open("r+b") as out:
            out.truncate(0)
            out.write(data)
        self.touch()

    def replace(self, data: bytes) -> None:
        """Put another file in the place of the transcript."""
        other = self.root / "other"
        other.write_bytes(data)
        os.utime(other, ns=(next(self.ticks) * SECOND,) * 2)
        other.replace(self.path)

    def touch(self, path: Path | None = None) -> None:
        """Give the transcript a time that it never had."""
        os.utime(path or self.path, ns=(next(self.ticks) * SECOND,) * 2)

    def pin(self) -> None:
        """Pin the transcript, as hooks do."""
        os.link(self.path, self.pins / pin_name(*self.identity()))

    def identity(self) -> tuple[int, int]:
        """Device and inode of the transcript."""
        status = self.path.stat()
        return status.st_dev, status.st_ino

    def kept(self) -> list[bytes]:
        """The copies, by generations; asserts that there are no others."""
        names = [f"0001-{generation}" for generation in range(1, len(self.follower.lives) + 1)]
        assert sorted(path.name for path in self.copies.iterdir()) == sorted(names)
        return [(self.copies / name).read_bytes() for name in names]

    def ends(self) -> list[str]:
        """Why each generation ended."""
        return [life.ended_by for life in self.follower.lives]


def short(step: Step) -> tuple[Any, ...]:
    """A step without what is told of it elsewhere."""
    assert step.file == 1
    if isinstance(step, Begun):
        return "begun", step.generation
    if isinstance(step, Grown):
        return "grown", step.generation, step.bytes, step.rows
    return "ended", step.generation, step.by


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A transcript that does not exist yet."""
    one = Bench(tmp_path)
    yield one
    one.follower.close()


# --- one thing after another -----------------------------------------------------------------------------------------


def test_nothing_there(bench: Bench) -> None:
    """A transcript that is not there yet is no trouble and no generation; it is only not there."""
    assert bench.drain() == []
    assert (bench.follower.gone, bench.follower.refused, bench.follower.followed) == (True, None, False)
    assert bench.kept() == []


def test_growth(bench: Bench) -> None:
    """What is appended is copied as it comes, cut anywhere, also within a character, and told in bytes and rows."""
    bench.write(b'{"a":1}\n{"b":')
    assert bench.drain() == [("begun", 1), ("grown", 1, 13, 1)]
    assert bench.drain() == []
    bench.write('"\u00e9'.encode()[:2])
    assert bench.drain() == [("grown", 1, 15, 1)]
    bench.write('"\u00e9"}\n\n'.encode()[2:])
    assert bench.drain() == [("grown", 1, 20, 3)]
    assert bench.kept() == ['{"a":1}\n{"b":"\u00e9"}\n\n'.encode()]
    assert (bench.follower.gone, bench.ends()) == (False, [""])


def test_what_a_step_says(bench: Bench) -> None:
    """Steps tell which file, its device and inode, and when it was written."""
    bench.write(b"x\n")
    os.utime(bench.path, ns=(5, 123_456_789))
    dev, ino = bench.identity()
    bench.drain()
    assert bench.steps == [Begun(1, 1, dev, ino), Grown(1, 1, 2, 1, 123_456_789)]


def test_an_empty_file(bench: Bench) -> None:
    """An empty file is a generation with nothing in it."""
    bench.write(b"")
    assert bench.drain() == [("begun", 1)]
    assert bench.drain(whole=True) == []
    assert bench.kept() == [b""]


def test_copies_are_private(bench: Bench) -> None:
    """A copy is for its owner alone."""
    bench.write(b"x\n")
    bench.drain()
    assert (bench.copies / "0001-1").stat().st_mode & 0o777 == 0o600


def test_shrank(bench: Bench) -> None:
    """A file that became shorter is a new generation, from its first byte on; what it held before stays."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    os.truncate(bench.path, 4)
    assert bench.drain() == [("ended", 1, "shrank"), ("begun", 2), ("grown", 2, 4, 1)]
    os.truncate(bench.path, 0)
    assert bench.drain() == [("ended", 2, "shrank"), ("begun", 3)]
    bench.write(b"three\n")
    assert bench.drain() == [("grown", 3, 6, 1)]
    assert bench.kept() == [b"one\ntwo\n", b"one\n", b"three\n"]
    assert bench.ends() == ["shrank", "shrank", ""]


def test_truncated_and_grown_beyond(bench: Bench) -> None:
    """A file that was emptied and is larger by now than it was is told from one that only grew."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    bench.put(b"three\nfour\nfive\n")
    assert bench.drain() == [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 16, 3)]
    assert bench.kept() == [b"one\ntwo\n", b"three\nfour\nfive\n"]


def test_rewritten_to_the_byte(bench: Bench) -> None:
    """A file of the same size with other bytes is a new generation; with the same bytes it is not."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    bench.put(b"one\ntwo\n")
    assert bench.drain() == []
    bench.put(b"one\ntoo\n")
    assert bench.drain() == [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 8, 2)]


@pytest.mark.parametrize("at", [0, 4095, 4096, 9000, 4096 + MEBI - 1, 4096 + MEBI, 3 * MEBI - 64, 3 * MEBI - 1])
def test_one_byte_changed(bench: Bench, at: int) -> None:
    """One other byte anywhere in a large file of the same size is noticed."""
    bench.write(b"0123456789abcde\n" * (3 * MEBI // 16))
    bench.drain()
    with bench.path.open("r+b") as out:
        out.seek(at)
        out.write(b"#")
    bench.touch()
    assert bench.drain() == [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 3 * MEBI, bench.steps[-1].rows)]  # type: ignore[union-attr]  # the last step is growth
    first, second = bench.kept()
    assert [place for place in (at - 1, at, at + 1) if first[place : place + 1] != second[place : place + 1]] == [at]


def test_changed_far_from_both_ends_while_it_grew(bench: Bench) -> None:
    """A byte that changed in the midst while rows came is found when everything is compared."""
    bench.write(b"0123456789abcde\n" * 1000)
    bench.drain()
    with bench.path.open("r+b") as out:
        out.seek(8000)
        out.write(b"#")
    bench.write(b"more\n")
    assert bench.drain() == [("grown", 1, 16_005, 1001)]
    assert bench.drain(whole=True) == [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 16_005, 1001)]
    assert bench.kept()[1] == bench.path.read_bytes()


@pytest.mark.parametrize("at", [100, 4095, 9000 - 40])
def test_changed_at_either_end_while_it_grew(bench: Bench, at: int) -> None:
    """The first 4 KiB and the last 64 bytes are compared at every look, also when they came in small pieces."""
    row = b"0123456789abcde\n"
    bench.write(row)
    bench.drain()
    bench.write((row * 600)[:8950])
    bench.drain()
    for _ in range(34):
        bench.write(b"x")
        bench.drain()
    with bench.path.open("r+b") as out:
        out.seek(at)
        out.write(b"#")
    bench.write(b"more\n")
    assert bench.drain()[:2] == [("ended", 1, "rewritten"), ("begun", 2)]
    assert bench.kept()[1] == bench.path.read_bytes()


def test_rewritten_without_a_trace(bench: Bench) -> None:
    """What changed neither size nor time is found when everything is compared."""
    bench.write(b"one\n")
    bench.drain()
    time = bench.path.stat().st_mtime_ns
    bench.path.write_bytes(b"two\n")
    os.utime(bench.path, ns=(time, time))
    assert bench.drain() == []
    assert bench.drain(whole=True) == [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 4, 1)]


def test_replaced(bench: Bench) -> None:
    """Another file of the same name is a new generation, whatever it holds; the last rows of the first are not lost."""
    bench.write(b"one\n")
    bench.drain()
    bench.write(b"late\n")
    bench.replace(b"one\nlate\nmore\n")
    assert bench.drain() == [
        ("grown", 1, 9, 2),
        ("ended", 1, "replaced"),
        ("begun", 2),
        ("grown", 2, 14, 3),
    ]
    assert bench.kept() == [b"one\nlate\n", b"one\nlate\nmore\n"]


def test_replaced_at_the_last_moment(bench: Bench) -> None:
    """Rows that come to the old file after it was read, and before the new one is opened, are not lost."""
    bench.write(b"one\n")
    bench.drain()
    with bench.path.open("ab") as writer:
        bench.replace(b"new\n")

        def late() -> int:
            writer.write(b"late\n")
            writer.flush()
            return bench.open()

        bench.follower._open = late
        assert bench.drain() == [("grown", 1, 9, 2), ("ended", 1, "replaced"), ("begun", 2), ("grown", 2, 4, 1)]
    assert bench.kept() == [b"one\nlate\n", b"new\n"]


def test_replaced_under_its_writer(bench: Bench) -> None:
    """Who holds a file open may not notice that another took its name: what is added to the former is kept with it."""
    bench.write(b"one\n")
    bench.drain()
    with bench.path.open("ab") as writer:
        bench.replace(b"new\n")
        bench.drain()
        writer.write(b"two\nthr")
        writer.flush()
        assert bench.drain() == [("grown", 1, 11, 2)]
        writer.write(b"ee\n")
        writer.flush()
        assert bench.drain(whole=True) == [("grown", 1, 14, 3)]
        assert bench.drain() == []
        assert bench.kept() == [b"one\ntwo\nthree\n", b"new\n"]


def test_a_former_file_changed(bench: Bench) -> None:
    """Only growth is told of a file without a name: one that is not what it was, or got shorter, is left as it was."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    with bench.path.open("rb+") as writer:
        bench.replace(b"new\n")
        bench.drain()
        writer.truncate(4)
        assert bench.drain() == []
        writer.write(b"ONE\nTWO\nmore\n")
        writer.flush()
        assert bench.drain() == []
        writer.write(b"and more\n")
        writer.flush()
        assert bench.drain() == []
    assert bench.kept() == [b"one\ntwo\n", b"new\n"]


def test_a_former_file_with_its_name_again(bench: Bench, tmp_path: Path) -> None:
    """A file that gets its name back is a generation of its own, and grows in that one alone."""
    bench.write(b"one\n")
    bench.drain()
    aside = tmp_path / "aside"
    bench.path.rename(aside)
    bench.replace(b"new\n")
    bench.drain()
    aside.rename(bench.path)
    bench.drain()
    bench.write(b"two\n")
    bench.drain()
    assert bench.kept() == [b"one\n", b"new\n", b"one\ntwo\n"]


def test_deleted(bench: Bench) -> None:
    """A file that was deleted is read on to whatever its writer still writes; no generation ends with the name."""
    bench.write(b"one\n")
    bench.drain()
    with bench.path.open("ab") as writer:
        bench.path.unlink()
        writer.write(b"two\n")
        writer.flush()
        assert bench.drain() == [("grown", 1, 8, 2)]
        assert bench.follower.gone
        writer.write(b"three\n")
    assert bench.drain(whole=True) == [("grown", 1, 14, 3)]
    assert bench.kept() == [b"one\ntwo\nthree\n"]
    assert bench.ends() == [""]


def test_deleted_and_made_anew(bench: Bench) -> None:
    """A file that was deleted and made anew is a new one: while the old one is held its inode is not used again."""
    bench.write(b"one\n")
    bench.drain()
    old = bench.identity()
    bench.path.unlink()
    bench.write(b"one\n")
    assert bench.identity() != old
    assert bench.drain() == [("ended", 1, "replaced"), ("begun", 2), ("grown", 2, 4, 1)]
    assert not bench.follower.gone


def test_moved(bench: Bench) -> None:
    """A file that was moved away is still read, until another one takes its place."""
    bench.write(b"one\n")
    bench.drain()
    moved = bench.root / "moved"
    bench.path.rename(moved)
    bench.write(b"two\n", moved)
    assert bench.drain() == [("grown", 1, 8, 2)]
    assert bench.follower.gone
    moved.rename(bench.path)
    assert (bench.drain(), int(bench.follower.gone)) == ([], 0)
    bench.path.rename(moved)
    bench.write(b"new\n")
    bench.write(b"last\n", moved)
    assert bench.drain() == [("grown", 1, 13, 3), ("ended", 1, "replaced"), ("begun", 2), ("grown", 2, 4, 1)]


def test_moved_away_and_back_meanwhile(bench: Bench) -> None:
    """A file that is back in its place by the time it is opened is the same one still, and is not copied twice."""
    bench.write(b"one\n")
    bench.drain()
    moved = bench.root / "moved"
    bench.path.rename(moved)
    bench.write(b"other\n")

    def late() -> int:
        moved.replace(bench.path)
        return bench.open()

    bench.follower._open = late
    assert bench.drain() == []
    bench.write(b"two\n")
    assert bench.drain() == [("grown", 1, 8, 2)]
    assert bench.kept() == [b"one\ntwo\n"]


# --- what must not be read -------------------------------------------------------------------------------------------


def test_refused(bench: Bench) -> None:
    """What must not be read is asked for once and then left alone, until something else stands there."""
    asked: list[int] = []

    def opener() -> int:
        asked.append(1)
        return bench.open()

    bench.follower._open = opener
    (bench.root / "secret").write_bytes(b"secret\n")
    bench.path.symlink_to("secret")
    for _ in range(3):
        assert bench.drain() == []
    assert (len(asked), bench.follower.refused) == (1, "a link")
    bench.path.unlink()
    bench.write(b"mine\n")
    assert bench.drain() == [("begun", 1), ("grown", 1, 5, 1)]
    assert (bench.follower.refused or "", bench.kept()) == ("", [b"mine\n"])


def test_refused_once_followed(bench: Bench) -> None:
    """A link in the place of a followed file is not followed; the file itself still is."""
    bench.write(b"one\n")
    bench.drain()
    moved = bench.root / "moved"
    bench.path.rename(moved)
    bench.path.symlink_to("moved")
    bench.write(b"two\n", moved)
    assert bench.drain() == [("grown", 1, 8, 2)]
    assert bench.follower.refused == "a link"
    os.mkfifo(bench.root / "pipe")
    (bench.root / "pipe").replace(bench.path)
    bench.write(b"three\n", moved)
    assert bench.drain() == [("grown", 1, 14, 3)]
    assert bench.follower.refused == "not a regular file"


def test_a_second_name(bench: Bench, tmp_path: Path) -> None:
    """A file with a second name is refused until that is gone."""
    bench.write(b"one\n")
    os.link(bench.path, tmp_path / "second")
    assert bench.drain() == []
    assert bench.follower.refused == "a file with another name besides"
    (tmp_path / "second").unlink()
    assert bench.drain() == [("begun", 1), ("grown", 1, 4, 1)]


def test_trouble_that_passes(bench: Bench) -> None:
    """A file that cannot be opened for the moment is tried again each time; meanwhile it is told why."""
    bench.write(b"one\n")

    def failing() -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    bench.follower._open = failing
    for _ in range(2):
        assert bench.drain() == []
        assert bench.follower.refused == "cannot be opened: Too many open files"
    bench.follower._open = bench.open
    assert bench.drain() == [("begun", 1), ("grown", 1, 4, 1)]
    assert bench.follower.refused is None


def test_gone_at_the_last_moment(bench: Bench) -> None:
    """A file that goes between the look and the opening was not there."""
    bench.write(b"one\n")

    def gone() -> int:
        raise Gone(str(bench.path))

    bench.follower._open = gone
    assert bench.drain() == []
    assert (bench.follower.gone, bench.follower.refused) == (True, None)


def test_a_name_that_is_none(bench: Bench) -> None:
    """A path that no call takes is a file that is not there."""
    follower = Follower(2, f"{bench.root}/\0.jsonl", bench.copies, bench.open)
    assert follower.drain() == []
    assert follower.gone


# --- after a restart -------------------------------------------------------------------------------------------------


def test_taken_up(bench: Bench) -> None:
    """Whoever takes up what was left reads on where it ended, and nothing twice."""
    bench.write(b"one\ntw")
    bench.drain()
    bench.write(b"o\n")
    bench.again()
    assert bench.drain() == [("grown", 1, 8, 2)]
    bench.again()
    assert bench.drain() == []
    assert bench.drain(whole=True) == []
    assert bench.kept() == [b"one\ntwo\n"]


def test_taken_up_changed_and_grown(bench: Bench) -> None:
    """What is taken up again is compared as a whole: nobody saw what became of it."""
    bench.write(b"0123456789abcde\n" * 1000)
    bench.drain()
    bench.follower.close()
    with bench.path.open("r+b") as out:
        out.seek(8000)
        out.write(b"#")
    bench.write(b"more\n")
    bench.again()
    assert bench.drain() == [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 16_005, 1001)]


def test_taken_up_what_was_never_acknowledged(bench: Bench) -> None:
    """What was copied and never acknowledged is cut off and copied again; such a generation is begun anew."""
    bench.write(b"one\n")
    bench.drain()
    bench.write(b"two\n")
    bench.follower.drain()
    bench.put(b"3\n")
    bench.follower.drain()
    assert (bench.copies / "0001-2").read_bytes() == b"3\n"
    bench.again()
    assert (bench.copies / "0001-1").read_bytes() == b"one\n"
    assert bench.drain() == [("ended", 1, "shrank"), ("begun", 2), ("grown", 2, 2, 1)]
    assert bench.kept() == [b"one\n", b"3\n"]


def test_a_longer_copy_of_a_generation_that_never_was(bench: Bench) -> None:
    """Nothing of a copy that was never acknowledged gets into that of the generation which is begun in its place."""
    bench.write(b"one\n")
    bench.drain()
    (bench.copies / "0001-2").write_bytes(b"much longer than what comes\n")
    bench.again()
    bench.replace(b"new\n")
    bench.drain()
    assert bench.kept() == [b"one\n", b"new\n"]


@pytest.mark.parametrize("content", [b"one\ntwo\n", b"two\none\n", b"one\ntwo\nmore\n", b"o\n", b""])
def test_replaced_while_nobody_ran(bench: Bench, content: bytes) -> None:
    """Another file that came meanwhile, and has another inode, is a new generation, whatever it holds."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    bench.follower.close()
    bench.replace(content)
    bench.again()
    expected = [("ended", 1, "replaced"), ("begun", 2), ("grown", 2, len(content), content.count(b"\n"))]
    assert bench.drain() == expected[: 3 if content else 2]
    assert bench.kept() == [b"one\ntwo\n", content]


@pytest.mark.parametrize(
    ("content", "steps"),
    [
        (b"one\ntwo\n", []),
        (b"one\ntwo\nmore\n", [("grown", 1, 13, 3)]),
        (b"two\none\n", [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 8, 2)]),
        (b"two\none\nmore\n", [("ended", 1, "rewritten"), ("begun", 2), ("grown", 2, 13, 3)]),
        (b"one\n", [("ended", 1, "shrank"), ("begun", 2), ("grown", 2, 4, 1)]),
        (b"", [("ended", 1, "shrank"), ("begun", 2)]),
    ],
)
def test_the_same_inode_again(bench: Bench, content: bytes, steps: list[tuple[Any, ...]]) -> None:
    """A new file may have the inode of the old one that nobody held: then its bytes tell, against the copy."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    bench.follower.close()
    bench.put(content)
    bench.again()
    assert bench.drain() == steps
    assert bench.kept() == ([b"one\ntwo\n", content] if len(steps) > 1 else [content])


def test_deleted_while_nobody_ran(bench: Bench) -> None:
    """What is gone when its recording is taken up again is gone; what was copied stays."""
    bench.write(b"one\n")
    bench.drain()
    bench.follower.close()
    bench.path.unlink()
    bench.again()
    assert bench.drain(whole=True) == []
    assert (bench.follower.gone, bench.kept(), bench.ends()) == (True, [b"one\n"], [""])


def test_pinned_and_deleted_while_nobody_ran(bench: Bench) -> None:
    """A pin has kept what was deleted meanwhile: it is read to its end, and then what stands in its place."""
    bench.write(b"one\n")
    bench.drain()
    bench.pin()
    dev, ino = bench.identity()
    bench.write(b"two\n")
    bench.follower.close()
    bench.path.unlink()
    bench.write(b"new\n")
    follower = bench.again()
    steps = follower.offer(open_pin(bench.pins, dev, ino))
    assert [short(step) for step in steps] == [("grown", 1, 8, 2)]
    assert bench.drain() == [("ended", 1, "replaced"), ("begun", 2), ("grown", 2, 4, 1)]
    assert bench.kept() == [b"one\ntwo\n", b"new\n"]


def test_a_copy_that_somebody_took_away(bench: Bench) -> None:
    """Of a copy that became shorter or went there is what there is: nothing is made up, and the rest is read again."""
    bench.write(b"one\ntwo\nthree\n")
    bench.drain()
    os.truncate(bench.copies / "0001-1", 6)
    follower = bench.again()
    assert (follower.lives[0].bytes, follower.lives[0].rows) == (6, 1)
    assert (bench.copies / "0001-1").read_bytes() == b"one\ntw"
    assert bench.drain() == [("grown", 1, 14, 3)]
    (bench.copies / "0001-1").unlink()
    assert (bench.again().lives[0].bytes, (bench.copies / "0001-1").read_bytes()) == (0, b"")
    assert bench.drain() == [("grown", 1, 14, 3)]
    assert bench.kept() == [b"one\ntwo\nthree\n"]


def test_no_link_among_copies(bench: Bench, tmp_path: Path) -> None:
    """A copy is never written through a link."""
    (tmp_path / "victim").write_bytes(b"mine\n")
    (bench.copies / "0001-1").symlink_to(tmp_path / "victim")
    bench.write(b"one\n")
    with pytest.raises(OSError, match=r".*") as failed:
        bench.follower.drain()
    assert failed.value.errno == errno.ELOOP
    assert (tmp_path / "victim").read_bytes() == b"mine\n"


def test_a_full_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that cannot be written is trouble of its own; once there is room all of it is there, and once."""
    bench.write(b"one\n")
    bench.drain()
    bench.write(b"two\nthree\n")

    def full(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(follow, "write_all", full)
    with pytest.raises(OSError, match="No space left"):
        bench.follower.drain()
    monkeypatch.undo()
    bench.again()
    assert bench.drain() == [("grown", 1, 14, 3)]
    assert bench.kept() == [b"one\ntwo\nthree\n"]


def test_writes_that_take_less(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write may take less than it was given: the rest follows."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:7])))
    bench.path.write_bytes(bytes(range(256)) * 10)
    bench.drain()
    assert bench.kept() == [bytes(range(256)) * 10]


def test_truncated_while_it_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that becomes shorter between the look and the reading ends the reading; the next look sorts it out."""
    bench.write(b"one\ntwo\n")
    bench.drain()
    bench.write(b"three\n")

    def late(descriptor: int, offset: int, most: int) -> bytes:
        if offset == 8:
            os.truncate(bench.path, 4)
            bench.touch()
        return read_at(descriptor, offset, most)

    monkeypatch.setattr(follow, "read_at", late)
    assert bench.drain() == []
    monkeypatch.undo()
    assert bench.drain() == [("ended", 1, "shrank"), ("begun", 2), ("grown", 2, 4, 1)]


def test_grows_while_it_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while a file is read is for the next time; a writer that never stops holds nobody up."""
    bench.write(b"one\n")

    def late(descriptor: int, offset: int, most: int) -> bytes:
        bench.write(b"more\n")
        return read_at(descriptor, offset, most)

    monkeypatch.setattr(follow, "read_at", late)
    assert bench.drain() == [("begun", 1), ("grown", 1, 4, 1)]
    monkeypatch.undo()
    assert bench.drain() == [("grown", 1, bench.path.stat().st_size, bench.path.read_bytes().count(b"\n"))]
    assert bench.kept() == [bench.path.read_bytes()]


def test_synced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every copy that grew is synced before anything is acknowledged, also one whose generation has ended since."""
    synced: list[int] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    bench.write(b"one\n")
    bench.follower.drain()
    bench.replace(b"two\n")
    bench.follower.drain()
    bench.follower.sync()
    assert synced == [(bench.copies / name).stat().st_ino for name in ("0001-1", "0001-2")]
    bench.follower.sync()
    assert len(synced) == 2


def test_descriptors_are_given_back(bench: Bench) -> None:
    """However often a file is replaced, two descriptors and four of former files are held, and none at the end."""
    before = open_descriptors()
    for number in range(20):
        bench.replace(b"%d\n" % number)
        bench.drain()
        bench.drain(whole=True)
    assert len(bench.kept()) == 20
    if before:
        assert open_descriptors() - before <= 2 + 4
    bench.follower.close()
    bench.follower.close()
    assert open_descriptors() == before
    assert not bench.follower.followed


def open_descriptors() -> int:
    """How many this process holds; 0 where that cannot be told."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_known(bench: Bench) -> None:
    """It is known which files were generations of this one."""
    bench.write(b"one\n")
    first = bench.identity()
    bench.drain()
    bench.replace(b"two\n")
    second = bench.identity()
    assert [bench.follower.knows(*one) for one in (first, second)] == [True, False]
    bench.drain()
    assert [bench.follower.knows(*one) for one in (first, second, (0, 0))] == [True, True, False]


# --- any order of anything -------------------------------------------------------------------------------------------


class File(Struct):
    """A file as its writer knows it: what is in it, when it was written, which it is, and a way to write to it."""

    content: bytearray
    mtime: int
    identity: tuple[int, int]
    writer: int


class Generation(NamedTuple):
    """What must have been kept: of which file, which bytes, why it ended."""

    identity: tuple[int, int]
    content: bytes
    by: str


class World(RuleBasedStateMachine):
    """A harness that does anything with its transcript, and a recorder that looks now and then, and dies now and then.

    `due` are the generations that must have been kept. What is compared at each look follows from what was promised:
    size and time first; then all bytes, or when the file grew those at its beginning and before the place read to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="follow-"))
        self.bench = Bench(self.place)
        self.journal = Journal(self.place / "journal")
        self.now = itertools.count(1_700_000_000)
        self.number = 0
        self.rest = b""
        self.here: File | None = None
        self.aside: list[tuple[Path, File]] = []
        self.nameless: list[File] = []
        self.pinned: dict[tuple[int, int], File] = {}
        self.held: File | None = None
        self.former: dict[int, File] = {}
        self.seen: tuple[int, int] | None = None
        self.due: list[Generation] = []
        self.kept: list[Generation] = []
        self.looked_at: list[bytes] = []
        self.looked_at_for_good: list[bytes] = []
        self.written = 0
        self.real_write = follow.write_all
        follow.write_all = self.count

    def teardown(self) -> None:
        follow.write_all = self.real_write
        self.bench.follower.close()
        self.journal.close()
        for file in self.files():
            os.close(file.writer)
        shutil.rmtree(self.place)

    def count(self, descriptor: int, data: bytes) -> None:
        self.written += len(data)
        self.real_write(descriptor, data)

    def files(self) -> list[File]:
        """All that somebody may still write to."""
        here = [] if self.here is None else [self.here]
        return [*here, *(file for _, file in self.aside), *self.nameless]

    # --- the writer ---

    def rows(self, count: int) -> bytes:
        """The next so many bytes of an endless transcript, no row of which is like another."""
        while len(self.rest) < count:
            self.number += 1
            text = "\u00e9\u4e2d\U0001f600"[self.number % 3] * (self.number % 40)
            self.rest += f'{{"n":{self.number},"t":"{text}"}}\n'.encode()
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def settle(self, file: File, *, silent: bool = False) -> None:
        """Set the time of a file that was written, or, for a change without a trace, that which it had."""
        if not silent:
            file.mtime = next(self.now) * SECOND
        os.utime(file.writer, ns=(file.mtime, file.mtime))

    def made(self, path: Path, content: bytes) -> File:
        path.write_bytes(content)
        writer = os.open(path, os.O_RDWR)
        status = os.fstat(writer)
        file = File(bytearray(content), 0, (status.st_dev, status.st_ino), writer)
        self.settle(file)
        return file

    @rule(which=st.integers(0, 9), count=st.integers(1, 90) | st.sampled_from([2000, 5000, 9000]))
    def append(self, which: int, count: int) -> None:
        """Rows come, cut anywhere, to the transcript or to one that was deleted or moved away."""
        files = self.files()
        if files:
            file = files[which % len(files)]
            data = self.rows(count)
            os.pwrite(file.writer, data, len(file.content))
            file.content += data
            self.settle(file)

    @precondition(lambda self: self.here is not None)
    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        """It becomes shorter."""
        assert self.here is not None
        size = int(len(self.here.content) * part)
        del self.here.content[size:]
        os.ftruncate(self.here.writer, size)
        self.settle(self.here)

    @precondition(lambda self: self.here is not None)
    @rule(part=st.sampled_from([0.0, 0.3, 0.99]), more=st.integers(1, 6000))
    def regrow(self, part: float, more: int) -> None:
        """It becomes shorter and then larger than it was, before anybody looks."""
        assert self.here is not None
        before = len(self.here.content)
        self.truncate(part)
        data = self.rows(before - len(self.here.content) + more)
        os.pwrite(self.here.writer, data, len(self.here.content))
        self.here.content += data
        self.settle(self.here)

    @precondition(lambda self: self.here is not None and self.here.content)
    @rule(part=st.floats(0, 0.999), count=st.integers(1, 100), silent=st.booleans())
    def rewrite(self, part: float, count: int, *, silent: bool) -> None:
        """Bytes in it change while its size stays, and, if silent, its time."""
        assert self.here is not None
        at = int(len(self.here.content) * part)
        data = bytes(byte ^ 0x55 for byte in self.here.content[at : at + count])
        self.here.content[at : at + count] = data
        os.pwrite(self.here.writer, data, at)
        self.settle(self.here, silent=silent)

    @precondition(lambda self: self.here is None)
    @rule(count=st.sampled_from([0, 1, 50, 7000]))
    def create(self, count: int) -> None:
        """It is made, for the first time or anew."""
        self.here = self.made(self.bench.path, self.rows(count))

    @precondition(lambda self: self.here is not None)
    @rule(count=st.sampled_from([0, 50, 7000]), same=st.booleans())
    def replace(self, count: int, *, same: bool) -> None:
        """Another file takes its place, with the same beginning or another one."""
        assert self.here is not None
        other = self.bench.root / "other"
        file = self.made(other, (bytes(self.here.content) if same else b"") + self.rows(count))
        other.replace(self.bench.path)
        self.nameless.append(self.here)
        self.here = file

    @precondition(lambda self: self.here is not None)
    @rule()
    def delete(self) -> None:
        """It is deleted; whoever writes to it may go on."""
        assert self.here is not None
        self.bench.path.unlink()
        self.nameless.append(self.here)
        self.here = None

    @precondition(lambda self: self.nameless)
    @rule()
    def let_go(self) -> None:
        """Nobody writes any more to what was deleted: its inode may be used again, unless it is held or pinned."""
        for file in self.nameless:
            os.close(file.writer)
        self.nameless.clear()

    @precondition(lambda self: self.here is not None)
    @rule()
    def move(self) -> None:
        """It is moved away."""
        assert self.here is not None
        path = self.bench.root / f"aside-{len(self.aside)}-{next(self.now)}"
        self.bench.path.rename(path)
        self.aside.append((path, self.here))
        self.here = None

    @precondition(lambda self: self.aside)
    @rule()
    def move_back(self) -> None:
        """What was moved away comes back, in the place of whatever stands there."""
        path, file = self.aside.pop(0)
        if self.here is not None:
            self.nameless.append(self.here)
        path.replace(self.bench.path)
        self.here = file

    @precondition(lambda self: self.here is not None and self.here.identity not in self.pinned)
    @rule()
    def pin(self) -> None:
        """A hook pins it."""
        assert self.here is not None
        self.bench.pin()
        self.pinned[self.here.identity] = self.here

    # --- what must come of it ---

    def look(self, *, whole: bool) -> list[tuple[Any, ...]]:
        """The steps that a look must give."""
        steps = self.take_former()
        steps += [] if self.held is None else self.take(whole=whole)
        if self.here is None or self.held is self.here:
            return steps
        if self.held is not None:
            steps += self.take(whole=False)
        return steps + self.offer(self.here)

    def offer(self, file: File) -> list[tuple[Any, ...]]:
        steps: list[tuple[Any, ...]] = []
        before, self.held, self.seen = self.held, file, None
        if self.due and not self.due[-1].by:
            if self.due[-1].identity == file.identity:
                return self.take(whole=True)
            steps.append(self.end("replaced"))
            if before is not None:
                self.keep(len(self.due), before)
        self.former = {number: one for number, one in self.former.items() if one.identity != file.identity}
        steps.append(self.begin(file))
        return steps + self.take(whole=False)

    def keep(self, number: int, file: File) -> None:
        """What another file took the place of is read on, four such ones at most, unless it came back."""
        if all(later.identity != file.identity for later in self.due[number:]):
            while len(self.former) >= 4:
                del self.former[min(self.former)]
            self.former[number] = file

    def take_former(self) -> list[tuple[Any, ...]]:
        steps: list[tuple[Any, ...]] = []
        for number, file in list(self.former.items()):
            have, now = self.due[number - 1].content, bytes(file.content)
            if len(now) <= len(have):
                continue
            if now[: len(have)][-64:] != have[-64:]:
                del self.former[number]
                continue
            kept = have + now[len(have) :]
            self.due[number - 1] = self.due[number - 1]._replace(content=kept)
            steps.append(("grown", number, len(kept), kept.count(b"\n")))
        return steps

    def take(self, *, whole: bool) -> list[tuple[Any, ...]]:
        file = self.held
        assert file is not None
        seen, self.seen = self.seen, (len(file.content), file.mtime)
        if seen == self.seen and not whole:
            return []
        steps: list[tuple[Any, ...]] = []
        have, now = self.due[-1].content, bytes(file.content)
        if len(now) < len(have):
            steps += [self.end("shrank"), self.begin(file)]
        elif differs(have, now, whole=whole or len(now) == len(have)):
            steps += [self.end("rewritten"), self.begin(file)]
        have = self.due[-1].content
        if len(now) > len(have):
            kept = have + now[len(have) :]
            self.due[-1] = self.due[-1]._replace(content=kept)
            steps.append(("grown", len(self.due), len(kept), kept.count(b"\n")))
        return steps

    def begin(self, file: File) -> tuple[Any, ...]:
        self.due.append(Generation(file.identity, b"", ""))
        return "begun", len(self.due)

    def end(self, by: str) -> tuple[Any, ...]:
        self.due[-1] = self.due[-1]._replace(by=by)
        return "ended", len(self.due), by

    # --- the recorder ---

    @initialize()
    def begin_with_something(self) -> None:
        self.create(50)

    @rule(whole=st.booleans(), keep=st.booleans())
    def drain(self, *, whole: bool, keep: bool) -> None:
        """The recorder looks, and makes what it saw last, or not yet."""
        if whole and self.here is not None:
            self.looked_at.append(bytes(self.here.content))
        self.recorded(lambda: self.bench.follower.drain(whole=whole), partial(self.look, whole=whole), keep=keep)
        assert self.bench.follower.gone == (self.here is None)
        assert self.bench.follower.refused is None
        if whole and self.here is not None:
            assert self.bench.follower.copy_of(len(self.due)).read_bytes() == self.here.content

    @rule()
    def restart(self) -> None:
        """The recorder dies; the next one takes up what its journal says, and what is pinned."""
        self.bench.follower.close()
        self.journal.close()
        self.journal = Journal(self.place / "journal")
        self.bench.follower = follower = self.bench.new()
        follower.restore(line for line in self.journal.lines if isinstance(line, Begun | Grown | Ended))
        self.due, self.looked_at = list(self.kept), list(self.looked_at_for_good)
        self.held, self.seen, self.former = None, None, {}
        self.check()
        for number, one in enumerate(list(self.due), start=1):
            file = self.pinned.get(one.identity)
            if one.by not in {"", "replaced"} or file is None:
                continue
            descriptor = open_pin(self.bench.pins, *one.identity)
            if one.by:
                follower.keep(number, descriptor)
                self.keep(number, file)
            else:
                self.recorded(partial(follower.offer, descriptor), partial(self.offer, file), keep=False)

    def recorded(
        self, act: Callable[[], list[Step]], expect: Callable[[], list[tuple[Any, ...]]], *, keep: bool
    ) -> None:
        """Do something, and compare what happened with what must have."""
        before = {number: len(one.content) for number, one in enumerate(self.due)}
        self.written = 0
        steps = act()
        assert [short(step) for step in steps] == expect()
        grown = sum(len(one.content) - before.get(number, 0) for number, one in enumerate(self.due))
        assert self.written == grown, "something was copied twice"
        self.journal.add(steps)
        if keep:
            self.bench.follower.sync()
            self.journal.commit()
            self.kept, self.looked_at_for_good = list(self.due), list(self.looked_at)
        self.check()

    def check(self) -> None:
        """What was kept is what must have been, byte for byte."""
        lives = self.bench.follower.lives
        copies = [(self.bench.copies / f"0001-{number}").read_bytes() for number in range(1, len(lives) + 1)]
        assert copies == [one.content for one in self.due]
        told = [(life.dev, life.ino, life.bytes, life.rows, life.ended_by) for life in lives]
        assert told == [(*one.identity, len(one.content), one.content.count(b"\n"), one.by) for one in self.due]
        # whatever stood there when all of it was looked at is the beginning of some generation, for good
        assert [one for one in self.looked_at if not any(copy.startswith(one) for copy in copies)] == []
        for then, now in zip(self.kept, self.due, strict=False):
            assert now.content.startswith(then.content)
            assert then.by in {"", now.by}


def differs(have: bytes, now: bytes, *, whole: bool) -> bool:
    """Whether bytes that were read are seen to have changed, all of them looked at, or those at both ends."""
    if whole:
        return not now.startswith(have)
    foot = max(0, len(have) - 64)
    return now[:4096][: len(have)] != have[:4096] or now[foot : len(have)] != have[foot:]


def test_any_order() -> None:
    """Whatever a writer does and whenever the recorder looks or dies: every byte is kept once, where it belongs."""
    run_state_machine_as_test(
        World,
        settings=settings(
            max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


# --- side files ------------------------------------------------------------------------------------------------------


class Side:
    """A side file and whoever keeps its versions."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.copies = folder / "copies"
        self.root.mkdir()
        self.copies.mkdir()
        self.path = self.root / "s.meta.json"
        self.steps: list[Step] = []
        self.versions = self.new()

    def new(self) -> Versions:
        return Versions(1, str(self.path), self.copies, lambda: open_guarded(str(self.path), Roots([str(self.root)])))

    def again(self) -> None:
        """As after the end of a process."""
        self.versions.close()
        self.versions = self.new()
        self.versions.restore(self.steps)

    def put(self, content: bytes, at: int, *, in_place: bool = False) -> None:
        """Write it at a time in seconds."""
        target = self.path if in_place else self.root / "new"
        target.write_bytes(content)
        os.utime(target, ns=(at * SECOND, at * SECOND))
        target.replace(self.path)

    def drain(self, now: float, *, whole: bool = False) -> list[tuple[Any, ...]]:
        steps = self.versions.drain(int(now * SECOND), whole=whole)
        self.versions.sync()
        self.steps += steps
        return [short(step) for step in steps]

    def kept(self) -> list[bytes]:
        names = [f"0001-{number}" for number in range(1, len(self.versions.lives) + 1)]
        assert sorted(path.name for path in self.copies.iterdir()) == sorted(names)
        return [(self.copies / name).read_bytes() for name in names]


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    """A side file that does not exist yet."""
    one = Side(tmp_path)
    yield one
    one.versions.close()


def test_versions(side: Side) -> None:
    """Each version of a side file is kept once, as a generation; a version that comes back is kept again."""
    assert side.drain(100) == []
    side.put(b'{"a":1}', 100)
    assert side.drain(101) == [("begun", 1), ("grown", 1, 7, 0)]
    assert side.drain(102, whole=True) == []
    side.put(b'{"a":1}', 103)
    assert side.drain(104) == []
    for at, content in ((105, b'{"a":2}'), (106, b""), (107, b'{"a":1}')):
        side.put(content, at, in_place=True)
        assert len(side.drain(at + 1)) == 2
        assert side.drain(at + 1) == []
    assert side.kept() == [b'{"a":1}', b'{"a":2}', b"", b'{"a":1}']
    assert {life.ended_by for life in side.versions.lives} == {""}


def test_versions_settle(side: Side) -> None:
    """A side file that was written less than 100 ms ago may be half a one: it is left until then, or a last look."""
    side.put(b"{", 100)
    assert side.drain(100) == []
    assert side.drain(100.0999) == []
    assert side.drain(100.1) == [("begun", 1), ("grown", 1, 1, 0)]
    side.put(b'{"a":', 101, in_place=True)
    assert side.drain(101.05) == []
    side.put(b'{"a":1}', 102, in_place=True)
    assert side.drain(102, whole=True) == [("begun", 2), ("grown", 2, 7, 0)]
    assert side.kept() == [b"{", b'{"a":1}']


def test_versions_left_alone(side: Side) -> None:
    """What has neither another inode nor size nor time is not opened; what was opened is closed."""
    opened: list[int] = []
    before = open_descriptors()
    real = side.versions._open

    def noted() -> int:
        opened.append(1)
        return real()

    side.versions._open = noted
    side.put(b"1", 100)
    for _ in range(3):
        side.drain(101)
    side.put(b"1", 102)
    for _ in range(3):
        side.drain(103)
    assert len(opened) == 2
    side.versions.close()
    assert open_descriptors() == before
    status = side.path.stat()
    begun, grown = side.steps
    assert isinstance(begun, Begun)
    assert isinstance(grown, Grown)
    assert (begun.dev, grown.mtime_ns, side.versions.lives[0].ino) == (status.st_dev, 100 * SECOND, begun.ino)


def test_versions_of_the_future(side: Side) -> None:
    """A side file whose time lies ahead of the clock is kept at once: it may be years until it has settled."""
    side.put(b"{}", 4_000_000_000)
    assert side.drain(100) == [("begun", 1), ("grown", 1, 2, 0)]


def test_versions_gone(side: Side) -> None:
    """A side file that goes leaves its versions, and may come back."""
    side.put(b"1", 100)
    side.drain(101)
    side.path.unlink()
    assert side.drain(102, whole=True) == []
    side.put(b"1", 103)
    assert side.drain(104) == []
    assert side.kept() == [b"1"]


def test_versions_taken_up(side: Side) -> None:
    """After a restart no version is kept twice, one that was not acknowledged is kept again, and numbers go on."""
    side.put(b"1", 100)
    side.drain(101)
    side.put(b"2", 102)
    side.versions.drain(103 * SECOND)
    side.again()
    assert side.drain(104) == [("begun", 2), ("grown", 2, 1, 0)]
    side.again()
    assert side.drain(105, whole=True) == []
    side.put(b"3", 106)
    assert side.drain(107) == [("begun", 3), ("grown", 3, 1, 0)]
    assert side.kept() == [b"1", b"2", b"3"]


def test_versions_of_one_size(side: Side) -> None:
    """Versions of equal size differ when a byte anywhere does, also beyond the first mebibyte."""
    content = bytearray(b"0123456789abcdef" * (2 * MEBI // 16))
    for number, at in enumerate((0, 5000, MEBI, 2 * MEBI - 1), start=1):
        content[at] = 1
        side.put(bytes(content), 100 + number)
        assert side.drain(200) == [("begun", number), ("grown", number, 2 * MEBI, 0)]
    assert side.kept()[-1] == content


def test_versions_refused(side: Side) -> None:
    """A link is no side file, and is told as such until a file stands there."""
    (side.root / "secret").write_bytes(b"secret")
    side.path.symlink_to("secret")
    assert side.drain(4_000_000_000) == []
    assert side.versions.refused == "a link"
    side.path.unlink()
    side.put(b"mine", 100)
    assert side.drain(101) == [("begun", 1), ("grown", 1, 4, 0)]
    assert (side.versions.refused or "", side.kept()) == ("", [b"mine"])


def test_versions_that_cannot_be_opened(side: Side) -> None:
    """Trouble that passes is told, and forgotten when it has passed."""
    side.put(b"1", 100)

    def failing() -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    side.versions._open = failing
    assert side.drain(101) == []
    assert side.versions.refused == "cannot be opened: Permission denied"
    side.versions._open = side.new()._open
    assert side.drain(102) == [("begun", 1), ("grown", 1, 1, 0)]
    assert side.versions.refused is None


def test_versions_too_large(side: Side) -> None:
    """A side file beyond a gibibyte is not copied, and says why; once it is smaller it is."""
    side.put(b"", 100)
    os.truncate(side.path, 1024 * MEBI + 1)
    assert side.drain(4_000_000_000) == []
    assert side.versions.refused == "more than 1 GiB in one piece, which no bundle holds"
    assert side.drain(4_000_000_000) == []
    assert side.kept() == []
    side.put(b"1", 101)
    assert side.drain(102) == [("begun", 1), ("grown", 1, 1, 0)]
    assert side.versions.refused is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"", b"a", b"b", b"ab", b"ba"]),
            st.booleans(),
            st.sampled_from(["nothing", "look", "look", "look whole", "restart", "crash"]),
        ),
        max_size=12,
    )
)
def test_versions_in_any_order(history: list[tuple[bytes, bool, str]]) -> None:
    """Whatever is written and whenever it is looked at: what was seen is kept, if it differs from what was before."""
    with tempfile.TemporaryDirectory() as folder:
        side = Side(Path(folder))
        due: list[bytes] = []
        for number, (content, in_place, then) in enumerate(history):
            side.put(content, 100 + 2 * number, in_place=in_place)
            if then == "nothing":
                continue
            if then == "restart":
                side.again()
            if then == "crash":
                side.versions.drain((101 + 2 * number) * SECOND)
                side.again()
            if due[-1:] != [content]:
                due.append(content)
            side.drain(101 + 2 * number, whole=then == "look whole")
            assert side.kept() == due
        side.versions.close()


# --- memory ----------------------------------------------------------------------------------------------------------

LARGE: Final = 1024 * MEBI
MEASURED: Final = """
import resource, sys
from pathlib import Path
from forensic.capture.follow import Follower, Versions
from forensic.capture.guard import Roots, open_guarded

kind, root, copies = sys.argv[1:]
path = root + "/s.jsonl"
opener = lambda: open_guarded(path, Roots([root]))
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "linux" else 1 << 20)
before = most()
if kind == "versions":
    file = Versions(1, path, Path(copies), opener)
    steps = file.drain(1 << 62, whole=True)
    assert file.drain(1 << 62, whole=True) == []
else:
    file = Follower(1, path, Path(copies), opener)
    steps = file.drain()
    assert file.drain(whole=True) == []
    file.close()
    file = Follower(1, path, Path(copies), opener)
    file.restore(steps)
    assert file.drain() == []
print(file.lives[-1].bytes, file.lives[-1].rows, most() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rows"), [("follower", 3), ("versions", 0)])
def test_a_gibibyte(tmp_path: Path, kind: str, rows: int) -> None:
    """A gibibyte is copied, compared and taken up again in a few mebibytes of memory."""
    if shutil.disk_usage(tmp_path).free < 3 * LARGE:
        pytest.skip("no room for two gibibytes")
    root, copies = tmp_path / "root", tmp_path / "copies"
    root.mkdir()
    copies.mkdir()
    with (root / "s.jsonl").open("wb") as out:
        for at in (0, LARGE // 2, LARGE - 1):
            out.seek(at)
            out.write(b"\n")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, kind, str(root.resolve()), str(copies)],
        capture_output=True,
        text=True,
        check=True,
    )
    size, lines, grown = map(int, done.stdout.split())
    assert (size, lines) == (LARGE, rows)
    assert grown < 24
    for path in (root / "s.jsonl", copies / "0001-1"):
        path.unlink()
