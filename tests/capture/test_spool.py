"""The spool as its reader sees it: what hooks have left is taken whole, in order, and nothing else is touched."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hook_runs import Installed
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic import private
from forensic.capture.spool import Newer, Spool, boot_id, is_alive
from forensic.errors import WriteFailed
from forensic.model import Payload, Ref, Saw

BOOT = "0123456789abcdef" * 2
NOBODY = 65534
HEAD: Mapping[str, Any] = {
    "v": 1,
    "harness": "claude",
    "argv": ["Stop"],
    "boot": BOOT,
    "mono": 7,
    "wall": 8,
    "pid": 9,
    "ppid": 10,
    "parent_exe": "/bin/x",
    "cwd": "/p",
    "env": ["A", "B"],
    "kept": {"CODEX_HOME": "/c", "AI_AGENT": "1"},
    "saw": [["/r/s.jsonl", 1, 2, 3], ["/r/t.jsonl", 0, 0, -1]],
    "bytes": 2,
    "cut": False,
    "stored": 2,
}


def name_of(boot: str = BOOT, mono: int = 7, wall: int = 8, pid: int = 9, rand: str = "00000000") -> str:
    """The name of a payload file."""
    return f"{boot}-{mono:020d}-{wall}-{pid}-{rand}.hook"


def file_of(raw: bytes = b"{}", **more: Any) -> bytes:
    """A payload file."""
    return json.dumps({**HEAD, "bytes": len(raw), "stored": len(raw), **more}).encode() + b"\n" + raw


class Laid(Spool):
    """A spool and what to put into it."""

    def put(self, name: str, content: bytes | None = None) -> str:
        """Put a file there, a payload unless told otherwise; its name."""
        (self.folder / name).write_bytes(file_of() if content is None else content)
        return name

    def temporary(self, pid: int, content: bytes | None = None, *, age: float = 0, rand: str = "abcdef01") -> str:
        """Put a temporary file there that was written so many seconds ago; its name."""
        name = self.put(f".tmp-{pid}-{rand}", content)
        at = time.time() - age
        os.utime(self.folder / name, (at, at))
        return name

    def pin(self, path: Path) -> Path:
        """Pin a file, as hooks do."""
        status = path.stat()
        pin = self.pins / f"{status.st_dev}-{status.st_ino}"
        self.pins.mkdir(exist_ok=True)
        os.link(path, pin)
        return pin

    def there(self) -> list[str]:
        """All that is in it."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@pytest.fixture
def spool(tmp_path: Path) -> Laid:
    """An empty spool."""
    one = Laid(tmp_path / "spool")
    one.prepare()
    return one


@pytest.fixture
def dead() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


# --- names -----------------------------------------------------------------------------------------------------------


def test_private_folder(spool: Laid) -> None:
    """The folder is for its owner alone, and making it again changes nothing."""
    spool.put("x")
    spool.prepare()
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    assert spool.there() == ["x"]


def test_no_folder(tmp_path: Path) -> None:
    """Without a folder there is nothing, and none is made by looking."""
    spool = Spool(tmp_path / "none")
    assert (spool.names(), list(spool.requests()), spool.adopt(0.0), spool.changed(0.0)) == ([], [], [], False)
    spool.sweep((), 0.0)
    spool.remove(name_of())
    spool.unpin(1, 2)
    assert not spool.is_pinned(1, 2)
    assert not (tmp_path / "none").exists()


def test_order_within_a_boot(spool: Laid) -> None:
    """Within a boot the monotonic clock orders, whatever the wall clock was set to."""
    names = [
        name_of(mono=2, wall=900),
        name_of(mono=9, wall=1),
        name_of(mono=10, wall=500),
        name_of(mono=10, wall=500, rand="00000001"),
        name_of(mono=99_999_999_999_999_999_999, wall=0),
    ]
    for name in reversed(names):
        spool.put(name)
    assert spool.names() == names


def test_order_over_boots(spool: Laid) -> None:
    """Boots are ordered by the earliest wall clock time in them, and are not mixed."""
    early, late, same = "f" * 32, "0" * 32, "1" * 32
    names = [
        name_of(early, mono=50, wall=100),
        name_of(early, mono=60, wall=5000),
        name_of(late, mono=1, wall=3000),
        name_of(late, mono=2, wall=200),
        name_of(same, mono=1, wall=200),
    ]
    for name in reversed(names):
        spool.put(name)
    assert spool.names() == names


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 30), st.integers(0, 3)),
        unique=True,
        max_size=12,
    )
)
def test_order_is_one(tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, int, int, int]]) -> None:
    """Whatever lies there: all of it is named once, each boot in one run, in which time does not go back."""
    spool = Laid(tmp_path_factory.mktemp("order"))
    names = {spool.put(name_of(boot * 32, mono, wall, rand=f"{rand:08x}")) for boot, mono, wall, rand in parts}
    found = spool.names()
    assert (set(found), len(found)) == (names, len(names))
    boots = [name[:32] for name in found]
    runs = [boot for number, boot in enumerate(boots) if boots[number - 1 : number] != [boot]]
    assert len(runs) == len(set(runs))
    walls = {boot: min(int(name.split("-")[2]) for name in found if name.startswith(boot)) for boot in runs}
    assert [walls[boot] for boot in runs] == sorted(walls.values())
    for boot in runs:
        monos = [name[33:53] for name in found if name.startswith(boot)]
        assert monos == sorted(monos)


FOREIGN = [
    "x.hook",
    name_of().removesuffix(".hook"),
    name_of() + ".bak",
    name_of() + "\n",
    "\n" + name_of(),
    name_of().upper(),
    name_of(boot="0" * 31),
    name_of(boot="0" * 33),
    name_of(boot="g" * 32),
    name_of(rand="0000000"),
    name_of(rand="0000000G"),
    name_of(pid=-1),
    name_of().replace("-0000", "-000", 1),
    BOOT + "-" + "\u0660" * 20 + "-1-1-00000000.hook",
    "." + name_of(),
    ".tmp-1-abcdef0",
    ".tmp-1-abcdef01.hook",
    ".tmp--1-abcdef01",
    ".tmp-\u0661-abcdef01",
    "tmp-1-abcdef01",
    "recorder.lock",
    "recorder.start",
    "diagnostics.log",
    "0123456789abcdef.answer",
    "0123456789abcde.request",
    ".0123456789abcdef.request",
    ".DS_Store",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_names(spool: Laid, name: str) -> None:
    """A name that is not exactly as written down is not taken, moved or removed, whatever the file holds."""
    spool.put(name)
    os.utime(spool.folder / name, (0, 0))
    assert spool.names() == []
    assert list(spool.requests()) == []
    assert spool.adopt(time.time()) == []
    spool.sweep((), time.time() + 1000)
    assert spool.there() == [name]


def make_folder(path: Path) -> None:
    path.mkdir()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name[:100])


def make_link(path: Path) -> None:
    (path.parent.parent / "elsewhere").write_bytes(file_of())
    path.symlink_to("../elsewhere")


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


KINDS = [make_folder, make_fifo, make_socket, make_link, make_dangling]


@pytest.mark.skipif(sys.platform == "win32", reason="files of these kinds")
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", [name_of(), ".tmp-0-abcdef01", "0123456789abcdef.request"])
def test_no_regular_files(
    spool: Laid, make: Callable[[Path], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no regular file is nothing of a hook's, however it is called: nobody waits on it, and it stays."""
    monkeypatch.chdir(spool.folder)
    make(spool.folder / name)
    before = descriptors()
    assert spool.names() == []
    assert list(spool.requests()) == []
    assert spool.adopt(time.time() + 1000) == []
    for _ in range(3):
        with pytest.raises(OSError, match=r".*"):
            spool.read(name)
    assert descriptors() == before
    assert spool.there() == [name]


def descriptors() -> int:
    """How many this process holds; 0 where that cannot be told."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


# --- reading ---------------------------------------------------------------------------------------------------------


def test_read(spool: Laid) -> None:
    """All that the first line says is in the payload, and behind it the bytes as they came."""
    raw = b'{"a":\n1}\0\xff'
    name = spool.put(name_of(), file_of(raw))
    assert spool.read(name) == (
        name,
        Payload(
            ref=Ref("hooks", 1, 0),
            n=0,
            harness="claude",
            argv=("Stop",),
            boot=BOOT,
            mono=7,
            wall=8,
            pid=9,
            ppid=10,
            parent_exe="/bin/x",
            cwd="/p",
            env=("A", "B"),
            kept={"AI_AGENT": "1", "CODEX_HOME": "/c"},
            saw=(Saw("/r/s.jsonl", 1, 2, 3), Saw("/r/t.jsonl", 0, 0, -1)),
            size=len(raw),
            cut=False,
            raw=raw,
        ),
    )


def test_reading_leaves_it_there(spool: Laid) -> None:
    """Reading changes nothing: a payload goes when it was recorded, and only then."""
    name = spool.put(name_of())
    for _ in range(2):
        assert spool.read(name) is not None
    assert spool.names() == [name]
    spool.remove(name)
    assert spool.names() == []
    spool.remove(name)
    with pytest.raises(FileNotFoundError):
        spool.read(name)


def test_what_a_hook_writes(tmp_path: Path) -> None:
    """What the hook writes is what the spool reads, to the byte."""
    transcript = tmp_path / "root" / "s.jsonl"
    transcript.parent.mkdir()
    transcript.write_bytes(b"x\n")
    installed = Installed(tmp_path / "data", {"claude": [tmp_path / "root"]})
    raw = json.dumps({"transcript_path": str(transcript), "odd": "\u00e9\n"}).encode() + b"\n\n\0\xff"
    installed.run(raw)
    installed.run(b"")
    spool = Spool(installed.spool)
    first, second = (spool.read(name) for name in spool.names())
    assert first is not None
    assert second is not None
    status = transcript.stat()
    told = first.payload
    assert (told.raw, told.size, told.cut, told.harness, told.argv) == (raw, len(raw), False, "claude", ("PreToolUse",))
    assert told.saw == (Saw(str(transcript), status.st_dev, status.st_ino, 2),)
    assert (told.boot, told.mono < second.payload.mono) == (boot_id() or told.boot, True)
    assert (second.payload.raw, second.payload.size) == (b"", 0)
    assert spool.is_pinned(status.st_dev, status.st_ino)
    assert not spool.is_pinned(status.st_dev, status.st_ino + 1)


def test_cut(spool: Laid) -> None:
    """Of a payload that was cut it is told how much there was; a hook that says so of a whole one is not believed."""
    name = spool.put(name_of(), file_of(b"{}", cut=True, bytes=100))
    spooled = spool.read(name)
    assert spooled is not None
    assert (spooled.payload.cut, spooled.payload.size, spooled.payload.raw) == (True, 100, b"{}")
    for told in ({"cut": False, "bytes": 100}, {"cut": True, "bytes": 2}):
        spool.put(name, file_of(b"{}", **told))
        spooled = spool.read(name)
        assert spooled is not None
        assert (spooled.payload.cut, spooled.payload.size) == (False, 2)


def test_unknown_keys(spool: Laid) -> None:
    """A key that is not known is passed over, and all but three may be missing."""
    name = spool.put(name_of(), file_of(new={"a": [1]}))
    spooled = spool.read(name)
    assert spooled is not None
    assert spooled.payload.harness == "claude"
    spool.put(name, b'{"v":1,"harness":"x","stored":0}\n')
    spooled = spool.read(name)
    assert spooled is not None
    assert (spooled.payload.harness, spooled.payload.raw, spooled.payload.argv) == ("x", b"", ())


WHOLE = file_of(b'{"session_id":"s"}')
NOT_WHOLE = {
    "empty": b"",
    "no line feed": WHOLE.partition(b"\n")[0],
    "none, and nothing stored": b'{"v":1,"harness":"x","stored":0}',
    "a byte short": WHOLE[:-1],
    "a byte too many": WHOLE + b"x",
    "no JSON": b"{" + WHOLE,
    "no object": b"[1]\n",
    "no v": WHOLE.replace(b'"v": 1, ', b""),
    "v 0": WHOLE.replace(b'"v": 1', b'"v": 0'),
    "v of text": WHOLE.replace(b'"v": 1', b'"v": "1"'),
    "v true": WHOLE.replace(b'"v": 1', b'"v": true'),
    "stored of text": WHOLE.replace(b'"stored": 18', b'"stored": "18"'),
    "stored below zero": WHOLE.replace(b'"stored": 18', b'"stored": -18'),
    "harness of a number": WHOLE.replace(b'"claude"', b"7"),
    "saw of threes": WHOLE.replace(b'"/r/s.jsonl", 1, 2, 3', b'"/r/s.jsonl", 1, 2'),
    "a wrong byte": WHOLE.replace(b"/p", b"/\xff"),
    "zeros": b"\0" * 4096,
    "zeros at its end": WHOLE[:-9] + b"\0" * 9 + b"\0" * 100,
    "deep": b'{"v":1,"harness":"x","stored":0,"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "another's first line": b"#!/bin/sh\n" + WHOLE,
}


@pytest.mark.parametrize("content", NOT_WHOLE.values(), ids=NOT_WHOLE)
def test_not_whole(spool: Laid, content: bytes) -> None:
    """What is not whole is told as such and not believed; it can be put aside, and is then kept as it is."""
    name = spool.put(name_of(), content)
    assert spool.read(name) is None
    assert spool.names() == [name]
    spool.set_aside(name)
    assert spool.names() == []
    assert spool.there() == ["lost", f"lost/{name}"]
    assert (spool.folder / "lost" / name).read_bytes() == content
    assert stat.S_IMODE((spool.folder / "lost").stat().st_mode) == 0o700


def test_cut_at_every_byte(spool: Laid) -> None:
    """No beginning of a payload file is taken for a whole one."""
    for size in range(len(WHOLE)):
        assert spool.read(spool.put(name_of(), WHOLE[:size])) is None


NEWER = {
    "v 2": WHOLE.replace(b'"v": 1', b'"v": 2'),
    "much newer": WHOLE.replace(b'"v": 1', b'"v": 99999999999999999999999'),
    "of another shape": b'{"harness":7,"saw":{"a":1},"v":2}\nwhatever',
    "without all else": b'{"v":2}\n',
}


@pytest.mark.parametrize("content", NEWER.values(), ids=NEWER)
def test_newer(spool: Laid, dead: int, content: bytes) -> None:
    """A payload of a newer hook is left where it is, whatever its shape; so is one under a temporary name."""
    name = spool.put(name_of(), content)
    temporary = spool.temporary(dead, content, age=1000)
    with pytest.raises(Newer):
        spool.read(name)
    assert spool.adopt(time.time()) == []
    assert spool.there() == sorted([name, temporary])
    assert [(spool.folder / one).read_bytes() for one in (name, temporary)] == [content, content]


def test_a_newer_one_that_is_torn(spool: Laid) -> None:
    """A first line without its end is torn, whatever version it says."""
    assert spool.read(spool.put(name_of(), b'{"v":2,"harness":"x"}')) is None


def test_of_another_user(spool: Laid) -> None:
    """A payload of somebody else is not read, and stays for whom it is."""
    name = spool.put(name_of())
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(spool.folder / name, NOBODY, NOBODY)
    with pytest.raises(PermissionError):
        spool.read(name)
    assert spool.there() == [name]


def test_large(spool: Laid) -> None:
    """A payload of 64 MiB is one like any other."""
    raw = b'{"a":"' + b"x" * ((64 << 20) - 8) + b'"}'
    spooled = spool.read(spool.put(name_of(), file_of(raw)))
    assert spooled is not None
    assert (spooled.payload.size, spooled.payload.raw == raw) == (64 << 20, True)


# --- what dead hooks have left ---------------------------------------------------------------------------------------


def test_adopt_a_whole_one(spool: Laid, dead: int) -> None:
    """A whole payload whose hook died before renaming it gets the name that it would have had."""
    spool.temporary(dead, WHOLE)
    assert spool.adopt(time.time()) == []
    assert spool.there() == [name_of(rand="abcdef01")]
    spooled = spool.read(name_of(rand="abcdef01"))
    assert spooled is not None
    assert spooled.payload.raw == b'{"session_id":"s"}'


@pytest.mark.parametrize("content", [*NOT_WHOLE.values()], ids=[*NOT_WHOLE])
def test_adopt_a_torn_one(spool: Laid, dead: int, content: bytes) -> None:
    """What a hook had written when it died is put aside, as it is, and told."""
    name = spool.temporary(dead, content)
    assert spool.adopt(time.time()) == [name]
    assert spool.there() == ["lost", f"lost/{name[1:]}"]
    assert (spool.folder / "lost" / name[1:]).read_bytes() == content
    assert spool.adopt(time.time()) == []


@pytest.mark.parametrize("content", [WHOLE, WHOLE[:-1], b""])
def test_never_of_the_living(spool: Laid, content: bytes) -> None:
    """A temporary file whose process lives is left alone for a minute; after that the number is another's."""
    name = spool.temporary(os.getpid(), content, age=59)
    assert spool.adopt(time.time()) == []
    assert spool.there() == [name]
    assert spool.adopt(time.time() - 10_000) == []
    assert spool.there() == [name]
    torn = spool.adopt(time.time() + 2)
    assert torn == ([] if content == WHOLE else [name])
    assert spool.there() != [name]


@pytest.mark.skipif(sys.platform == "win32", reason="there every process is taken to live")
def test_of_a_hook_that_dies(spool: Laid) -> None:
    """What a living hook writes is left to it until it dies."""
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hook:
        assert hook.stdout is not None
        hook.stdout.readline()
        name = spool.temporary(hook.pid, WHOLE)
        assert spool.adopt(time.time()) == []
        assert spool.there() == [name]
        hook.kill()
        hook.wait()
        assert spool.adopt(time.time()) == []
    assert spool.there() == [name_of(rand="abcdef01")]


@pytest.mark.parametrize(
    "told",
    [
        {"boot": "../../outside"},
        {"boot": "/x"},
        {"boot": ""},
        {"boot": "A" * 32},
        {"mono": -1},
        {"wall": -1},
        {"pid": -9},
        {"mono": 10**20},
    ],
    ids=str,
)
def test_a_first_line_makes_no_path(spool: Laid, dead: int, told: dict[str, Any]) -> None:
    """A first line of which no name can be made leads nowhere: the file is put aside."""
    name = spool.temporary(dead, file_of(**told))
    assert spool.adopt(time.time()) == [name]
    assert spool.there() == ["lost", f"lost/{name[1:]}"]
    assert sorted(path.name for path in spool.folder.parent.iterdir()) == ["spool"]


@pytest.mark.parametrize("pid", ["99999999999999999999", "4294967296", "0"])
def test_numbers_that_are_no_process(spool: Laid, pid: str) -> None:
    """A number that no process can have is that of a dead one; 0 is nobody's, and waits its minute."""
    name = f".tmp-{pid}-abcdef01"
    spool.put(name, WHOLE)
    os.utime(spool.folder / name, (time.time() - 100,) * 2)
    assert spool.adopt(time.time()) == []
    assert spool.there() == [name_of(rand="abcdef01")]


def test_adopt_without_room(spool: Laid, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be put aside now stays, stops nobody, and is put aside the next time."""
    whole, torn = spool.temporary(dead, WHOLE, rand="ffffffff"), spool.temporary(dead, b"", rand="00000000")

    def full(path: Path) -> Path:
        raise WriteFailed(path=path, detail="No space left on device")

    monkeypatch.setattr(private, "folder", full)
    assert spool.adopt(time.time()) == []
    assert spool.there() == sorted([torn, name_of(rand="ffffffff")])
    monkeypatch.undo()
    assert spool.adopt(time.time()) == [torn]
    assert whole not in spool.there()


def test_alive(dead: int) -> None:
    """Whether a process lives, also one of somebody else's."""
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(dead)
    assert not is_alive(1 << 40)


def test_alive_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not be signalled is there."""

    def forbidden(_pid: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "kill", forbidden)
    assert is_alive(1)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no boot has a name of its own")
def test_boot() -> None:
    """The boot is told as hooks tell it: 32 hex digits."""
    boot = boot_id()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").replace("-", "").strip()
    assert len(boot) == 32


def test_no_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the boot has no name it is empty, and like no other."""

    def failing(*_: object, **__: object) -> str:
        raise FileNotFoundError(errno.ENOENT, "none")

    monkeypatch.setattr(Path, "read_text", failing)
    assert boot_id() == ""


# --- pins ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pinned(spool: Laid, tmp_path: Path) -> Path:
    """A transcript with a pin."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"x\n")
    spool.pin(path)
    return path


def held(*paths: Path) -> set[tuple[int, int]]:
    """Device and inode of files."""
    return {(path.stat().st_dev, path.stat().st_ino) for path in paths}


def test_sweep(spool: Laid, pinned: Path, tmp_path: Path) -> None:
    """A pin that nobody needs goes after a minute; the file itself and everything else in the folder stay."""
    other = tmp_path / "t.jsonl"
    other.write_bytes(b"y\n")
    kept = spool.pin(other)
    (spool.pins / "readme").write_bytes(b"")
    (spool.pins / "1-2x").write_bytes(b"")
    spool.sweep(held(other), time.time() + 61)
    assert sorted(path.name for path in spool.pins.iterdir()) == sorted([kept.name, "readme", "1-2x"])
    assert (pinned.read_bytes(), pinned.stat().st_nlink) == (b"x\n", 1)


def test_never_a_pin_in_use(spool: Laid, pinned: Path) -> None:
    """A pin that a session holds is kept, however old it is, also when it is the last name of its file."""
    identity = held(pinned)
    pinned.unlink()
    for _ in range(3):
        spool.sweep(identity, time.time() + 1_000_000)
    assert [path.read_bytes() for path in spool.pins.iterdir()] == [b"x\n"]
    spool.sweep(set(), time.time() + 1_000_000)
    assert list(spool.pins.iterdir()) == []


@pytest.mark.parametrize("waiting", [name_of(), ".tmp-1-abcdef01"])
def test_never_while_a_payload_waits(spool: Laid, pinned: Path, waiting: str) -> None:
    """While a payload waits, or is being written, no pin goes: it may be one that it names."""
    spool.put(waiting)
    spool.sweep((), time.time() + 1_000_000)
    assert spool.is_pinned(*next(iter(held(pinned))))
    spool.remove(waiting)
    spool.sweep((), time.time() + 1_000_000)
    assert not spool.is_pinned(*next(iter(held(pinned))))


def test_never_a_new_pin(spool: Laid, pinned: Path) -> None:
    """A pin that was made within the last minute is kept: the payload that needs it is about to come."""
    spool.sweep((), time.time() + 55)
    spool.sweep((), time.time() - 1_000_000)
    assert spool.is_pinned(*next(iter(held(pinned))))


def test_answers_that_nobody_waits_for(spool: Laid) -> None:
    """An answer is dropped a minute after it was given, whoever asked; requests and what is no answer stay."""
    names = [f"{'a' * 16}.answer", f".{'b' * 16}.answer", f"{'c' * 16}.request", "x.answer"]
    for name in names:
        (spool.folder / name).write_bytes(b"")
    spool.sweep_answers(time.time() + 55)
    assert {path.name for path in spool.folder.iterdir()} >= set(names)
    spool.sweep_answers(time.time() + 65)
    assert {path.name for path in spool.folder.iterdir()} & set(names) == set(names[2:])


def test_unpin(spool: Laid, pinned: Path) -> None:
    """A pin that is not needed any more is removed, once, and no other."""
    (dev, ino) = next(iter(held(pinned)))
    spool.unpin(dev, ino + 1)
    assert spool.is_pinned(dev, ino)
    spool.unpin(dev, ino)
    spool.unpin(dev, ino)
    assert not spool.is_pinned(dev, ino)
    assert pinned.read_bytes() == b"x\n"


# --- whether something came ------------------------------------------------------------------------------------------


@contextmanager
def coarse(spool: Spool, at: float) -> Iterator[None]:
    """A folder whose clock stands still, as a coarse one does within a tick."""
    yield
    os.utime(spool.folder, (at, at))


def test_changed(spool: Laid) -> None:
    """The first look says yes, the next ones no, until something comes, or goes."""
    hour_ago = time.time() - 3600
    with coarse(spool, hour_ago):
        pass
    assert [spool.changed(now) for now in (0.0, 0.1, 0.99)] == [True, False, False]
    name = spool.put(name_of())
    assert spool.changed(0.995)
    with coarse(spool, hour_ago - 1):
        spool.remove(name)
    assert [spool.changed(now) for now in (1.0, 1.1)] == [True, False]


def test_changed_within_a_tick(spool: Laid) -> None:
    """What comes within the same tick of a coarse clock is noticed within a second, although nothing shows it."""
    at = time.time() - 3600
    with coarse(spool, at):
        spool.put(name_of())
    assert spool.changed(10.0)
    with coarse(spool, at):
        spool.put(name_of(mono=8))
    assert [spool.changed(now) for now in (10.5, 10.999)] == [False, False]
    assert spool.changed(11.0)
    assert [spool.changed(now) for now in (11.5, 11.999)] == [False, False]
    assert spool.changed(12.0)


def test_changed_just_now(spool: Laid) -> None:
    """While the folder's last change is younger than a tick, or of the future, every look says yes."""
    with coarse(spool, time.time() + 1000):
        pass
    assert [spool.changed(now) for now in (0.0, 0.01, 0.02)] == [True, True, True]


def test_nothing_is_overlooked(spool: Laid) -> None:
    """Looking whenever `changed` says so, one sees each of a thousand payloads that come as fast as they can."""
    count = 1000
    writer = threading.Thread(target=lambda: [spool.put(name_of(mono=number)) for number in range(count)])
    writer.start()
    seen: set[str] = set()
    until = time.monotonic() + 30
    while len(seen) < count and time.monotonic() < until:
        if spool.changed(0.0):  # this clock stands: nothing is seen for the second alone
            seen.update(spool.names())
    writer.join()
    assert len(seen) == count


def test_recheck(spool: Laid) -> None:
    """A look can be asked for."""
    with coarse(spool, time.time() - 3600):
        pass
    assert [spool.changed(0.0), spool.changed(0.1)] == [True, False]
    spool.recheck()
    assert [spool.changed(0.2), spool.changed(0.3)] == [True, False]


# --- requests --------------------------------------------------------------------------------------------------------


def test_asked_and_answered(spool: Laid) -> None:
    """A request comes to whoever answers, the answer to whoever asked, and nothing is left of either."""

    def recorder() -> None:
        for _ in range(1000):
            for name, text in spool.requests():
                spool.answer(name, b"heard " + text)
                return
            time.sleep(0.005)

    thread = threading.Thread(target=recorder)
    thread.start()
    assert spool.ask(b'{"seal":["s"]}', lambda: True, patience=20) == b'heard {"seal":["s"]}'
    thread.join()
    assert spool.there() == []


def test_a_request_lies_there_whole(spool: Laid) -> None:
    """A request that waits is a private file, and its answer another."""
    seen: list[tuple[str, bytes, int]] = []

    def alive() -> bool:
        for name, text in spool.requests():
            seen.append((name, text, stat.S_IMODE((spool.folder / name).stat().st_mode)))
            spool.answer(name, b"")
        assert len(spool.there()) == 1
        return True

    assert spool.ask(b"x", alive, patience=20) == b""
    ((name, text, mode),) = seen
    assert (text, mode, len(name)) == (b"x", 0o600, len("0123456789abcdef.request"))
    assert spool.there() == []


def test_nobody_there(spool: Laid) -> None:
    """Without a recorder, or with one that does not answer in time, there is no answer, and nothing is left."""
    assert spool.ask(b"x", lambda: False, patience=20) is None
    assert spool.there() == []
    assert spool.ask(b"x", lambda: True, patience=0.05) is None
    assert spool.there() == []


def test_nobody_asks_any_more(spool: Laid) -> None:
    """An answer to one who has given up is not written."""
    spool.answer("0123456789abcdef.request", b"late")
    assert spool.there() == []


def test_an_interrupted_question(spool: Laid) -> None:
    """Whoever is interrupted while waiting leaves nothing."""

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spool.ask(b"x", interrupted, patience=20)
    assert spool.there() == []


def test_requests_beside_payloads(spool: Laid) -> None:
    """Requests are no payloads, and payloads are no requests."""
    spool.put("0123456789abcdef.request", b"x")
    spool.put("fedcba9876543210.request", b"y")
    name = spool.put(name_of())
    assert spool.names() == [name]
    assert list(spool.requests()) == [("0123456789abcdef.request", b"x"), ("fedcba9876543210.request", b"y")]
