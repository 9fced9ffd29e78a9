"""Paths that payloads name: what may be read is read, and nothing else is so much as opened."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.capture import guard, windows
from forensic.capture.guard import Gone, Refused, Roots, open_guarded, open_pin, pin_name, roots_of, usable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there a path is not walked by descriptors")

CONTENT = b'{"type":"user"}\n'
NOBODY = 65534


class Place:
    """A root with a transcript in it, and a folder outside with another one."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "projects"
        self.folder = self.root / "-demo"
        self.transcript = self.folder / "s.jsonl"
        self.outside = folder / "outside"
        self.secret = self.outside / "secret.jsonl"
        self.folder.mkdir(parents=True)
        self.outside.mkdir()
        self.transcript.write_bytes(CONTENT)
        self.secret.write_bytes(b"secret\n")
        self.roots = Roots([str(self.root)])

    def read(self, path: Path | str, linked: Callable[[int, int], bool] = lambda _dev, _ino: False) -> bytes:
        """What is at a path, opened as capture opens it; asserts that nothing stays open if it is refused."""
        before = descriptors()
        try:
            descriptor = open_guarded(str(path), self.roots, linked)
        except BaseException:
            assert descriptors() == before
            raise
        try:
            return os.read(descriptor, 1 << 16)
        finally:
            os.close(descriptor)

    def reason(self, path: Path | str, linked: Callable[[int, int], bool] = lambda _dev, _ino: False) -> str:
        """Why a path is refused."""
        with pytest.raises(Refused) as refused:
            self.read(path, linked)
        return str(refused.value)


def descriptors() -> set[str]:
    """What this process holds open, as far as the system tells."""
    folder = Path("/proc/self/fd")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A root, a transcript, a secret."""
    return Place(tmp_path.resolve())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every name that is opened from here on, as the call was given it."""
    names: list[str] = []
    real = os.open

    def noted(path: Any, flags: int, *more: Any, **rest: Any) -> int:
        names.append(os.fspath(path))
        return real(path, flags, *more, **rest)

    monkeypatch.setattr(os, "open", noted)
    return names


# --- what may be read ------------------------------------------------------------------------------------------------


def test_transcript(place: Place) -> None:
    """A regular file of one's own, below a root, with one name, is read."""
    assert place.read(place.transcript) == CONTENT


def test_at_once_below_the_root(place: Place) -> None:
    """A file needs no folder between it and the root."""
    (place.root / "s.jsonl").write_bytes(b"here\n")
    assert place.read(place.root / "s.jsonl") == b"here\n"


def test_forty_folders_down(place: Place) -> None:
    """A deep path is walked folder by folder, and each of them is given back."""
    deep = place.root.joinpath(*["d"] * 40)
    deep.mkdir(parents=True)
    (deep / "s.jsonl").write_bytes(b"deep\n")
    before = descriptors()
    assert place.read(deep / "s.jsonl") == b"deep\n"
    assert descriptors() == before


def test_dots_and_slashes(place: Place) -> None:
    """A path may say `.` and double a slash between names; that leads nowhere else."""
    assert place.read(f"{place.root}/./-demo//./s.jsonl") == CONTENT
    assert usable(f"{place.root}/./-demo//s.jsonl", place.roots, [".jsonl"]) == place.transcript


def test_the_descriptor_is_for_reading_alone(place: Place) -> None:
    """What comes back cannot be written to, blocks nobody, and is not handed on to other programs."""
    descriptor = open_guarded(str(place.transcript), place.roots)
    try:
        with pytest.raises(OSError, match=r".*") as failed:
            os.write(descriptor, b"x")
        assert failed.value.errno == errno.EBADF
        assert not os.get_inheritable(descriptor)
        assert not os.get_blocking(descriptor)
    finally:
        os.close(descriptor)
    assert place.transcript.read_bytes() == CONTENT


def test_nothing_there(place: Place) -> None:
    """A file that is not there, a folder that is not there and a root that is not there are gone, and not refused."""
    for path in (place.folder / "other.jsonl", place.root / "none" / "s.jsonl"):
        with pytest.raises(Gone):
            place.read(path)
    with pytest.raises(Gone):
        open_guarded(str(place.root / "none" / "s.jsonl"), Roots([str(place.root / "none")]))


# --- links -----------------------------------------------------------------------------------------------------------


def test_a_link_as_file(place: Place, opened: list[str]) -> None:
    """A link is refused wherever it leads, also to a file below the same root, and is not opened."""
    for number, target in enumerate((place.secret, place.transcript, Path("s.jsonl"), Path("/etc/shadow"))):
        link = place.folder / f"{number}.jsonl"
        link.symlink_to(target)
        assert place.reason(link) == "a link"
        assert link.name not in opened


def test_a_dangling_link(place: Place) -> None:
    """A link to nowhere is a link, and not a file that is gone: it would be followed once there is something."""
    (place.folder / "l.jsonl").symlink_to("nowhere")
    assert place.reason(place.folder / "l.jsonl") == "a link"


def test_a_link_in_the_way(place: Place) -> None:
    """A folder that is a link is not gone through, at the first name or a later one, to outside or inside."""
    (place.root / "out").symlink_to(place.outside)
    (place.root / "in").symlink_to(place.folder)
    (place.folder / "deep").symlink_to(place.outside)
    for path in (place.root / "out" / "secret.jsonl", place.root / "in" / "s.jsonl", place.folder / "deep" / "s.jsonl"):
        assert place.reason(path).startswith("a link or no folder in its path")


def test_a_file_in_the_way(place: Place) -> None:
    """A file where a folder should be is refused."""
    assert place.reason(place.transcript / "s.jsonl") == "a link or no folder in its path: Not a directory"


def test_a_fifo_in_the_way(place: Place) -> None:
    """A FIFO where a folder should be is refused at once."""
    os.mkfifo(place.root / "pipe")
    assert place.reason(place.root / "pipe" / "s.jsonl") == "a link or no folder in its path: Not a directory"


# --- what is no regular file -----------------------------------------------------------------------------------------


def test_a_fifo(place: Place, opened: list[str]) -> None:
    """A FIFO that nobody writes to is refused at once: whoever waited would wait for ever. It is not even opened."""
    os.mkfifo(place.folder / "f.jsonl")
    assert place.reason(place.folder / "f.jsonl") == "not a regular file"
    assert "f.jsonl" not in opened


def test_a_folder(place: Place, opened: list[str]) -> None:
    """A folder that is named like a transcript is refused."""
    (place.folder / "d.jsonl").mkdir()
    assert place.reason(place.folder / "d.jsonl") == "not a regular file"
    assert "d.jsonl" not in opened


def test_a_socket(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is refused."""
    monkeypatch.chdir(place.folder)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s.sock.jsonl")
    assert place.reason(place.folder / "s.sock.jsonl") == "not a regular file"


def test_a_device(place: Place, opened: list[str]) -> None:
    """A device is refused without being opened, which alone may do things to it."""
    try:
        os.mknod(place.folder / "n.jsonl", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except OSError:
        pytest.skip("only root makes devices")
    assert place.reason(place.folder / "n.jsonl") == "not a regular file"
    assert "n.jsonl" not in opened


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev")
def test_devices_below_a_root() -> None:
    """Even below a root that somebody set to `/dev`, no device is read."""
    for name in ("zero", "null", "tty"):
        if Path("/dev", name).exists():
            with pytest.raises(Refused, match="not a regular file"):
                open_guarded(f"/dev/{name}", Roots(["/dev"]))


# --- other names, other owners ---------------------------------------------------------------------------------------


def test_another_name(place: Place, opened: list[str]) -> None:
    """A file with two names may be anybody's secret with a second name in here: it is refused, from either side."""
    os.link(place.secret, place.folder / "h.jsonl")
    asked: list[tuple[int, int]] = []

    def linked(dev: int, ino: int) -> bool:
        asked.append((dev, ino))
        return False

    assert place.reason(place.folder / "h.jsonl", linked) == "a file with another name besides"
    status = place.secret.stat()
    assert asked == [(status.st_dev, status.st_ino)]
    assert "h.jsonl" not in opened


def test_our_own_other_name(place: Place, tmp_path: Path) -> None:
    """With a pin of ours a file has two names, and is read; with a third one it is refused."""
    os.link(place.transcript, tmp_path / "pin")
    assert place.read(place.transcript, lambda _dev, _ino: True) == CONTENT
    os.link(place.transcript, tmp_path / "third")
    assert place.reason(place.transcript, lambda _dev, _ino: True) == "a file with another name besides"


def test_a_pin_of_another_file_does_not_count(place: Place, tmp_path: Path) -> None:
    """It is asked for the pin of this very file."""
    os.link(place.transcript, tmp_path / "pin")
    other = place.secret.stat()
    reason = place.reason(place.transcript, lambda dev, ino: (dev, ino) == (other.st_dev, other.st_ino))
    assert reason == "a file with another name besides"


def test_another_owner(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of somebody else is refused, even by one who may read everything."""
    if os.geteuid() == 0:
        os.chown(place.transcript, NOBODY, NOBODY)
    else:
        monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    assert place.reason(place.transcript) == "a file of another user"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become another user")
def test_without_permission(place: Place) -> None:
    """A file or folder that may not be read now may be read later: that is no verdict on it."""
    for path in (place.root, place.folder, place.transcript):
        os.chown(path, NOBODY, NOBODY)
    place.transcript.chmod(0)
    program = (
        "import os, sys; from forensic.capture.guard import *\n"
        "roots = Roots([sys.argv[1]])\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "for path in sys.argv[2:]:\n"
        "    try: print(os.read(open_guarded(path, roots), 100))\n"
        "    except Exception as error: print(type(error).__name__)\n"
    )
    for folder in place.root.parents:
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 1:
            folder.chmod(0o711)
    closed = place.root / "closed"
    closed.mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-c", program, str(place.root), str(place.transcript), str(closed / "s.jsonl")],
        capture_output=True, text=True, check=True, cwd="/",
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert done.stdout.split() == ["PermissionError", "PermissionError"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM, errno.EACCES])
@pytest.mark.parametrize("which", ["projects", "-demo", "s.jsonl"])
def test_trouble_that_passes(place: Place, monkeypatch: pytest.MonkeyPatch, which: str, code: int) -> None:
    """Too many open files, or a disk that does not answer, condemn no transcript: the trouble itself is raised."""
    real = os.open

    def failing(path: Any, *more: Any, **rest: Any) -> int:
        if os.fspath(path).endswith(which):
            raise OSError(code, os.strerror(code))
        return real(path, *more, **rest)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match=r".*") as failed:
        place.read(place.transcript)
    assert failed.value.errno == code
    monkeypatch.undo()
    assert place.read(place.transcript) == CONTENT


# --- where a path may lead -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/passwd.jsonl",
        "/proc/self/environ",
        "{root}",
        "{root}/",
        "{root}-more/s.jsonl",
        "{root}/../outside/secret.jsonl",
        "{root}/-demo/../../outside/secret.jsonl",
        "{root}/-demo/..",
        "{root}/../projects/-demo/s.jsonl",
        "{root}//etc/shadow",
        "{outside}/secret.jsonl",
        "/",
    ],
)
def test_outside(place: Place, path: str, opened: list[str]) -> None:
    """What does not lie below a root, name by name, is refused without a look at it; `..` always is."""
    told = path.format(root=place.root, outside=place.outside)
    for refuse in (lambda: usable(told, place.roots, [""]), lambda: open_guarded(told, place.roots)):
        with pytest.raises(Refused, match="outside the harness roots"):
            refuse()
    assert opened == []


@pytest.mark.parametrize("path", ["", "s.jsonl", "-demo/s.jsonl", "./s.jsonl", "~/s.jsonl", "C:\\s.jsonl", "file:///s"])
def test_relative(place: Place, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is refused, whatever the working folder is."""
    monkeypatch.chdir(place.folder)
    with pytest.raises(Refused, match="no absolute path"):
        usable(path, place.roots, [""])
    with pytest.raises(Refused, match="outside the harness roots"):
        open_guarded(path, place.roots)


def test_nul(place: Place, opened: list[str]) -> None:
    """A path with NUL is refused: below it another name would be opened."""
    path = f"{place.transcript}\0.jsonl"
    with pytest.raises(Refused, match="no absolute path"):
        usable(path, place.roots, [".jsonl"])
    with pytest.raises(Refused, match="a name with NUL in it"):
        open_guarded(path, place.roots)
    assert opened == []


@pytest.mark.parametrize("code", [0xD800, 0xDCFF, 0xDFFF])
def test_surrogates(place: Place, code: int) -> None:
    """A path that is no text is refused, also where such a file lies: no journal could name it."""
    path = f"{place.folder}/{chr(code)}.jsonl"
    with contextlib.suppress(UnicodeEncodeError):
        Path(path).write_bytes(CONTENT)
    for refuse in (lambda: usable(path, place.roots, [".jsonl"]), lambda: open_guarded(path, place.roots)):
        with pytest.raises(Refused, match="a name that is no UTF-8"):
            refuse()


def test_beyond_ascii(place: Place) -> None:
    """Any other text is a name."""
    path = place.folder / "gr\u00fc\u00dfe \U0001f600 \u202e\n.jsonl"
    path.write_bytes(b"odd\n")
    assert usable(str(path), place.roots, [".jsonl"]) == path
    assert place.read(path) == b"odd\n"


def test_length(place: Place) -> None:
    """A path of 4,096 characters is looked for, a longer one is not; a name that no system takes is refused."""
    most = f"{place.root}/" + "d/" * 4096
    longest = most[: 4096 - len("s.jsonl")] + "s.jsonl"
    assert usable(longest, place.roots, [".jsonl"]).name.endswith("s.jsonl")
    for extra in (1, 5000 - 4096, 5000):
        with pytest.raises(Refused, match=r"a path of more than 4,096 characters"):
            usable("/" + "d" * extra + longest, place.roots, [".jsonl"])
    assert place.reason(f"{place.folder}/{'n' * 300}.jsonl") == "cannot be opened: File name too long"
    assert place.reason(f"{place.root}/{'n' * 5000}/s.jsonl").endswith("File name too long")


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("s.jsonl", True),
        (".jsonl", True),
        ("s.txt", False),
        ("s.json", False),
        ("s.jsonl.zst", False),
        ("s.JSONL", False),
        ("s.jsonl ", False),
        ("id_ed25519", False),
        ("s.jsonl/", False),
    ],
)
def test_endings(place: Place, name: str, *, fits: bool) -> None:
    """Only what ends like a transcript is one; Cursor's may end in .txt."""
    path = f"{place.folder}/{name}"
    if fits:
        assert usable(path, place.roots, [".jsonl"]) == Path(path)
    else:
        with pytest.raises(Refused, match="not named like a transcript"):
            usable(path, place.roots, [".jsonl"])
    if name == "s.txt":
        assert usable(path, place.roots, [".jsonl", ".txt"]) == Path(path)


@pytest.mark.parametrize("path", ["//server/share/s.jsonl", "\\\\server\\share\\s.jsonl", "\\\\.\\PhysicalDrive0"])
def test_other_computers(path: str) -> None:
    """A path to a share is refused before anything could ask that computer."""
    with pytest.raises(Refused, match=r"a path to another computer|no absolute path"):
        usable(path, Roots(["/"]), [""])


# --- roots -----------------------------------------------------------------------------------------------------------


def test_a_root_that_is_a_link(place: Place, tmp_path: Path) -> None:
    """A root may be a link itself: where it led when it was looked up is where it leads, by either name."""
    link = tmp_path.resolve() / "link"
    link.symlink_to(place.root)
    roots = Roots([str(link)])
    assert list(roots) == [str(place.root)]
    assert usable(str(link / "-demo" / "s.jsonl"), roots, [".jsonl"]) == place.transcript
    for root in (link, place.root):
        os.close(open_guarded(str(root / "-demo" / "s.jsonl"), roots))
    link.unlink()
    link.symlink_to(place.outside)
    with pytest.raises(Gone):
        open_guarded(str(link / "secret.jsonl"), roots)
    os.close(open_guarded(str(link / "-demo" / "s.jsonl"), roots))


def test_a_link_above_a_root(place: Place, tmp_path: Path) -> None:
    """Links above a root are of the user's making, and followed."""
    (tmp_path / "home").symlink_to(place.root.parent)
    roots = Roots([str(tmp_path / "home" / "projects")])
    os.close(open_guarded(str(tmp_path / "home" / "projects" / "-demo" / "s.jsonl"), roots))
    os.close(open_guarded(str(place.transcript), roots))


def test_a_root_in_a_root(place: Place) -> None:
    """Of two roots of which one lies in the other, and is a link, the inner one rules, in whatever order they came."""
    inner = place.root / "inner"
    inner.symlink_to(place.outside)
    for order in ([str(place.root), str(inner)], [str(inner), str(place.root)]):
        roots = Roots(order)
        assert usable(str(inner / "secret.jsonl"), roots, [".jsonl"]) == place.secret
        os.close(open_guarded(str(inner / "secret.jsonl"), roots))
        os.close(open_guarded(str(place.transcript), roots))
        (place.root / "other").symlink_to(place.outside)
        with pytest.raises(Refused):
            open_guarded(str(place.root / "other" / "secret.jsonl"), roots)
        (place.root / "other").unlink()


def test_a_plain_root_in_a_root(place: Place) -> None:
    """Where the inner one is a folder like any other, nothing changes."""
    roots = Roots([str(place.root), str(place.folder)])
    assert usable(str(place.transcript), roots, [".jsonl"]) == place.transcript
    assert sorted(roots) == sorted([str(place.root), str(place.folder)])


def test_roots_are_normal(place: Place) -> None:
    """A root that is told with dots, slashes at its end or twice is the same root."""
    roots = Roots([f"{place.root}/", f"{place.folder}/../", f"{place.root}/."])
    assert list(roots) == [str(place.root)]
    os.close(open_guarded(str(place.transcript), roots))


def test_no_roots(place: Place) -> None:
    """Without roots everything is outside."""
    with pytest.raises(Refused, match="outside the harness roots"):
        open_guarded(str(place.transcript), Roots([]))


def test_roots_of_harnesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roots of a harness: by its variable, as usual below the home folder, and as was baked at install."""
    user, home = tmp_path.resolve() / "u", tmp_path.resolve() / "data"
    monkeypatch.setenv("HOME", str(user))
    (home / "hook").mkdir(parents=True)
    (home / "hook" / "roots.json").write_text('{"claude": ["/baked/projects"], "other": ["/"], "codex": []}')
    found = roots_of(home, {"CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "", "COPILOT_HOME": str(user / ".copilot")})
    assert {name: sorted(roots) for name, roots in found.items()} == {
        "claude": ["/baked/projects", f"{user}/.claude/projects"],
        "codex": sorted(["/c/archived_sessions", "/c/sessions"])
        + sorted([f"{user}/.codex/archived_sessions", f"{user}/.codex/sessions"]),
        "copilot": [f"{user}/.copilot/session-state"],
        "cursor": [f"{user}/.cursor/projects"],
        "unknown": [],
    }


@pytest.mark.parametrize("baked", [None, b"", b"{", b"[]", b'{"claude": "/"}', b'{"claude": [1]}', b"\xff"])
def test_spoilt_roots_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baked: bytes | None) -> None:
    """Without a sound roots.json the usual roots are there, and no others."""
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    (tmp_path / "hook").mkdir()
    if baked is not None:
        (tmp_path / "hook" / "roots.json").write_bytes(baked)
    assert list(roots_of(tmp_path, {})["claude"]) == [f"{tmp_path.resolve()}/.claude/projects"]


# --- swapped between the look and the opening ------------------------------------------------------------------------


def swapping(monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], None]) -> None:
    """Have something happen at the last moment before a name is opened."""
    real = os.open

    def late(path: Any, *more: Any, **rest: Any) -> int:
        if os.fspath(path) == name:
            monkeypatch.setattr(os, "open", real)
            swap()
        return real(path, *more, **rest)

    monkeypatch.setattr(os, "open", late)


def to_link(place: Place) -> None:
    place.transcript.symlink_to(place.secret)


def to_hard_link(place: Place) -> None:
    os.link(place.secret, place.transcript)


def to_fifo(place: Place) -> None:
    os.mkfifo(place.transcript)


def to_folder(place: Place) -> None:
    place.transcript.mkdir()


def to_socket(place: Place) -> None:
    os.chdir(place.folder)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s.jsonl")


SWAPS: dict[Callable[[Place], None], str] = {
    to_link: "cannot be opened: Too many levels of symbolic links",
    to_hard_link: "a file with another name besides",
    to_fifo: "not a regular file",
    to_folder: "not a regular file",
    to_socket: "cannot be opened: No such device or address",
}


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_swapped(place: Place, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Place], None]) -> None:
    """A file that becomes something else between the look and the opening is refused, at once, and closed."""
    monkeypatch.chdir(place.folder)

    def swapped() -> None:
        place.transcript.unlink()
        swap(place)

    swapping(monkeypatch, "s.jsonl", swapped)
    reason = place.reason(place.transcript)
    assert reason == SWAPS[swap] or sys.platform != "linux"


def test_swapped_owner(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner counts of what was opened, not of what was looked at."""
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    swapping(monkeypatch, "s.jsonl", lambda: os.chown(place.transcript, NOBODY, NOBODY))
    assert place.reason(place.transcript) == "a file of another user"


def test_swapped_for_another_transcript(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another regular file of one's own in its place is as good: the descriptor tells which it is."""

    def swap() -> None:
        (place.folder / "new").write_bytes(b"new\n")
        (place.folder / "new").replace(place.transcript)

    swapping(monkeypatch, "s.jsonl", swap)
    assert place.read(place.transcript) == b"new\n"


def test_swapped_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes at the last moment is gone."""
    swapping(monkeypatch, "s.jsonl", place.transcript.unlink)
    with pytest.raises(Gone):
        place.read(place.transcript)


def test_a_folder_swapped_for_a_link(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that becomes a link to elsewhere before it is opened is not gone through."""
    (place.outside / "s.jsonl").write_bytes(b"secret\n")

    def swap() -> None:
        place.folder.rename(place.root / "away")
        place.folder.symlink_to(place.outside)

    swapping(monkeypatch, "-demo", swap)
    assert place.reason(place.transcript).startswith("a link or no folder in its path")


def test_a_folder_swapped_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that becomes a link after it was opened does not matter any more: the way goes on from what it was."""
    (place.outside / "s.jsonl").write_bytes(b"secret\n")

    def swap() -> None:
        place.folder.rename(place.root / "away")
        place.folder.symlink_to(place.outside)

    swapping(monkeypatch, "s.jsonl", swap)
    assert place.read(place.transcript) == CONTENT


# --- pins ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pins(place: Place, tmp_path: Path) -> Iterator[Path]:
    """A folder of pins with that of the transcript in it, whose first name has gone."""
    folder = tmp_path / "pins"
    folder.mkdir()
    os.link(place.transcript, folder / pin_name(*identity(place.transcript)))
    before = descriptors()
    yield folder
    assert descriptors() == before


def identity(path: Path) -> tuple[int, int]:
    """Device and inode."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def test_a_pin(place: Place, pins: Path) -> None:
    """A pinned file can be read under its pin, with and without its first name."""
    dev, ino = identity(place.transcript)
    assert [path.name for path in pins.iterdir()] == [f"{dev}-{ino}"]
    for _ in range(2):
        descriptor = open_pin(pins, dev, ino)
        assert os.read(descriptor, 100) == CONTENT
        os.close(descriptor)
        place.transcript.unlink(missing_ok=True)


def test_no_pin(place: Place, pins: Path) -> None:
    """Without a pin there is nothing to read, also where there is no folder of pins."""
    dev, ino = identity(place.secret)
    for folder in (pins, pins / "none"):
        with pytest.raises(Gone):
            open_pin(folder, dev, ino)


def put_other(place: Place, pin: Path) -> None:
    os.link(place.secret, pin)


def put_copy(_place: Place, pin: Path) -> None:
    pin.write_bytes(CONTENT)


def put_link(place: Place, pin: Path) -> None:
    pin.symlink_to(place.transcript)


def put_fifo(_place: Place, pin: Path) -> None:
    os.mkfifo(pin)


def put_folder(_place: Place, pin: Path) -> None:
    pin.mkdir()


@pytest.mark.parametrize("put", [put_other, put_copy, put_link, put_fifo, put_folder], ids=lambda put: put.__name__)
def test_false_pins(place: Place, pins: Path, put: Callable[[Place, Path], None]) -> None:
    """A pin that is not what its name says is not read, and nothing waits on it."""
    dev, ino = identity(place.transcript)
    pin = pins / pin_name(dev, ino)
    pin.unlink()
    put(place, pin)
    with pytest.raises((Refused, Gone)):
        open_pin(pins, dev, ino)


def test_a_pin_for_which_there_is_no_room(place: Place, pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That no file can be opened now is no word about the pin: it may be read the next time."""

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    dev, ino = identity(place.transcript)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", full)
        with pytest.raises(OSError, match="Too many open files"):
            open_pin(pins, dev, ino)
    os.close(open_pin(pins, dev, ino))


def test_a_pin_that_was_given_away(place: Place, pins: Path) -> None:
    """A pinned file that is another user's by now is not read."""
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    dev, ino = identity(place.transcript)
    os.chown(place.transcript, NOBODY, NOBODY)
    with pytest.raises(Refused, match="a pin of another file"):
        open_pin(pins, dev, ino)


# --- laws ------------------------------------------------------------------------------------------------------------


@given(told=st.text(st.sampled_from("./\\ab\0~:\ud800\u00e9"), max_size=40), below=st.booleans())
def test_no_path_leads_out(told: str, *, below: bool) -> None:
    """Whatever a path says: it is refused, or it is the root and plain names below it."""
    roots = Roots(["/none/such/root"])
    path = f"/none/such/root/{told}" if below else told
    try:
        found = usable(path, roots, [""])
    except Refused:
        return
    assert found.parts[:4] == ("/", "none", "such", "root")
    assert len(found.parts) > 4
    assert not {"..", ".", ""} & set(found.parts)
    assert "\0" not in str(found)
    with pytest.raises(Gone):
        open_guarded(path, roots)


def test_shared(place: Place) -> None:
    """Where every open file is shared, opening one shared is opening it."""
    descriptor = windows.open_shared(str(place.transcript))
    assert os.read(descriptor, 100) == CONTENT
    os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        windows.open_shared(str(place.root / "none"))


def test_all_that_is_offered() -> None:
    """What the module is for is told."""
    assert set(guard.__all__) == {
        "Gone", "Refused", "Roots", "open_guarded", "open_pin", "pin_name", "roots_of", "usable",
    }  # fmt: skip
