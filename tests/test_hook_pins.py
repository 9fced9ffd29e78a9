"""Transcripts that a payload names: pinned when they are ours, and left alone when they are anything else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hook_runs import Installed, body, standard_input

CASES = Path(__file__).parent.parent.parent / "shared" / "cases"
CONTENT = b'{"type":"user"}\n'


class Laid(Installed):
    """An installed hook, a folder for transcripts, and a transcript in it."""

    def __init__(self, place: Path) -> None:
        self.root = place / "home" / ".claude" / "projects"
        self.transcript = self.root / "-project" / "session.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.transcript.write_bytes(CONTENT)
        super().__init__(place / "data", {"claude": [self.root], "cursor": [place / "home" / ".cursor"]})

    def say(self, path: Path | str, key: str = "transcript_path") -> list[Any]:
        """Run the hook with a payload that names a path; what the payload's first line says about it."""
        self.run(json.dumps({key: str(path)}).encode())
        saw: list[Any] = self.payloads()[-1].header["saw"]
        return saw


@pytest.fixture
def laid(tmp_path: Path) -> Laid:
    """An installed hook with a transcript."""
    return Laid(tmp_path)


def told(path: Path) -> list[Any]:
    """What a payload should say about a path."""
    there = path.lstat()
    return [str(path), there.st_dev, there.st_ino, there.st_size]


def pin_of(path: Path) -> str:
    """The name of a file's pin."""
    return f"{path.lstat().st_dev}-{path.lstat().st_ino}"


def test_deleted_a_moment_later(laid: Laid) -> None:
    """A transcript that is deleted after the hook is still there, whole, and so is what was added meanwhile."""
    expected, name = told(laid.transcript), pin_of(laid.transcript)
    assert laid.say(laid.transcript) == [expected]
    with laid.transcript.open("ab") as file:
        file.write(b"more\n")
    laid.transcript.unlink()
    assert laid.pins() == {name: CONTENT + b"more\n"}
    assert laid.diagnostics() == []


def test_second_payload(laid: Laid) -> None:
    """A transcript is pinned once, however often it is named."""
    for _ in range(3):
        assert laid.say(laid.transcript) == [told(laid.transcript)]
    assert laid.pins() == {pin_of(laid.transcript): CONTENT}
    assert laid.transcript.stat().st_nlink == 2
    assert laid.diagnostics() == []


def test_replaced(laid: Laid) -> None:
    """A transcript that was replaced is another file, and both are kept."""
    first = pin_of(laid.transcript)
    laid.say(laid.transcript)
    (laid.root / "new").write_bytes(b"new\n")
    (laid.root / "new").rename(laid.transcript)
    assert laid.say(laid.transcript) == [told(laid.transcript)]
    assert laid.pins() == {first: CONTENT, pin_of(laid.transcript): b"new\n"}


def test_not_there(laid: Laid) -> None:
    """A transcript that is not there yet is told as such, which is nothing to complain about."""
    missing, deep = laid.root / "-project" / "later.jsonl", laid.root / "no" / "folder" / "x.jsonl"
    assert laid.say(missing) == [[str(missing), 0, 0, -1]]
    assert laid.say(deep) == [[str(deep), 0, 0, -1]]
    assert laid.pins() == {}
    assert laid.diagnostics() == []


@pytest.mark.parametrize("key", ["transcript_path", "agent_transcript_path", "transcriptPath", "agentTranscriptPath"])
def test_keys(laid: Laid, key: str) -> None:
    """Each key by which a harness names a transcript is known, at any depth, with any white space."""
    for payload in (b'{"%s":"%s"}', b'[{"x": {"%s"\r\n\t : \n"%s"'):
        laid.run(payload % (key.encode(), bytes(laid.transcript)))
        assert laid.payloads()[-1].header["saw"] == [told(laid.transcript)]
    assert list(laid.pins()) == [pin_of(laid.transcript)]


def test_several(laid: Laid) -> None:
    """A payload may name two transcripts: both are pinned, each once, and there is an end to it."""
    others = [laid.root / f"{number}.jsonl" for number in range(10)]
    for path in others:
        path.touch()
    named = [("agent_transcript_path", laid.transcript), *(("transcript_path", path) for path in [*others, *others])]
    payload = ",".join(f'"{key}":"{path}"' for key, path in named)
    laid.run(payload.encode())
    assert laid.payload().header["saw"] == [told(path) for path in others[:8]]
    assert sorted(laid.pins()) == sorted(pin_of(path) for path in others[:8])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (rb'"/a\/b"', b"/a/b"),
        (rb'"C:\\a\\b"', rb"C:\a\b"),
        (rb'"\\\\/x"', rb"\\/x"),
        (rb'"\\\/x"', rb"\/x"),
        (b'"\xc3\xa4\xff"', b"\xc3\xa4\xff"),
        (b'"' + b"x" * 4096 + b'"', b"x" * 4096),
        (b'"' + b"\\\\" * 4096 + b'"', b"\\" * 4096),
        (b'"' + b"x" * 4097 + b'"', None),
        (b'"' + b"x" * 1_000_000 + b'"', None),
        (rb'"/a\u0041"', None),
        (rb'"/a\"b"', None),
        (rb'"/a\nb"', None),
        (b'"no end', None),
        (b'""', None),
        (b"null", None),
        (b"7", None),
        (b"", None),
    ],
)
def test_strings(text: bytes, path: bytes | None) -> None:
    """A path is what stands in the string, or is given up; nothing is made up."""
    module = body()
    assert module.paths_in(b'{"transcript_path":' + text) == ([] if path is None else [path])
    assert module.paths_in(b'{"transcript_path"' + text) == []


def test_many_keys() -> None:
    """A payload with a million keys is looked at in part."""
    module = body()
    payload = b'"transcript_path"' * 1_000_000 + b',"transcriptPath":"/a"'
    assert module.paths_in(payload) == [b"/a"]


def other_harness(laid: Laid) -> Path:
    path = laid.root.parent.parent / ".cursor" / "p" / "t.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return path


def linked_root(laid: Laid) -> Path:
    place = laid.root.rename(laid.root.with_name("elsewhere"))
    laid.root.symlink_to(place, target_is_directory=True)
    return laid.transcript


def doubled_separators(laid: Laid) -> Path | str:
    return str(laid.transcript).replace("-project/", "-project//.//")


@pytest.mark.parametrize("make", [other_harness, linked_root, doubled_separators])
def test_allowed(laid: Laid, make: Callable[[Laid], Path | str]) -> None:
    """Folders of another harness are as good, the folder itself may be a link, and odd spelling is no lie."""
    path = make(laid)
    assert laid.say(path) == [[str(path), *told(Path(path))[1:]]]
    assert laid.pins() == {pin_of(Path(path)): CONTENT}


def fifo(laid: Laid) -> Path | str:
    os.mkfifo(laid.root / "x.jsonl")
    return laid.root / "x.jsonl"


def folder(laid: Laid) -> Path | str:
    (laid.root / "x.jsonl").mkdir()
    return laid.root / "x.jsonl"


def link(laid: Laid) -> Path | str:
    secret = laid.home / "id.jsonl"
    secret.write_bytes(b"secret")
    (laid.root / "x.jsonl").symlink_to(secret)
    return laid.root / "x.jsonl"


def link_inside(laid: Laid) -> Path | str:
    (laid.root / "x.jsonl").symlink_to(laid.transcript)
    return laid.root / "x.jsonl"


def dangling(laid: Laid) -> Path | str:
    (laid.root / "x.jsonl").symlink_to(laid.root / "nothing")
    return laid.root / "x.jsonl"


def hard_link(laid: Laid) -> Path | str:
    secret = laid.root.parent / "secret"
    secret.write_bytes(b"secret")
    (laid.root / "x.jsonl").hardlink_to(secret)
    return laid.root / "x.jsonl"


def two_hard_links(laid: Laid) -> Path | str:
    hard_link(laid)
    path = laid.root / "y.jsonl"
    path.hardlink_to(laid.root / "x.jsonl")
    return path


def socket(laid: Laid) -> Path | str:
    import socket as sockets

    here = Path.cwd()
    os.chdir(laid.root)
    with sockets.socket(sockets.AF_UNIX) as one:
        one.bind("x.jsonl")
    os.chdir(here)
    return laid.root / "x.jsonl"


def of_another_user(laid: Laid) -> Path | str:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    path = laid.root / "x.jsonl"
    path.touch()
    os.chown(path, 65534, 65534)
    return path


@pytest.mark.parametrize(
    "make", [fifo, folder, link, link_inside, dangling, hard_link, two_hard_links, socket, of_another_user]
)
def test_refused(laid: Laid, make: Callable[[Laid], Path | str]) -> None:
    """What lies where transcripts do and is none gets no pin; the payload says what it is, as a link is itself."""
    path = make(laid)
    links = Path(path).lstat().st_nlink
    assert laid.say(path) == [told(Path(path))]
    assert laid.pins() == {}
    assert Path(path).lstat().st_nlink == links
    assert [line.startswith("no pin of b'") for line in laid.diagnostics()] == [True]


def linked_folder(laid: Laid) -> Path | str:
    (laid.home / "secrets").mkdir()
    (laid.home / "secrets" / "x.jsonl").touch()
    (laid.root / "in").symlink_to(laid.home / "secrets", target_is_directory=True)
    return laid.root / "in" / "x.jsonl"


def dots(laid: Laid) -> Path | str:
    (laid.root.parent / "x.jsonl").touch()
    return f"{laid.root}/../x.jsonl"


def dots_inside(laid: Laid) -> Path | str:
    return f"{laid.root}/-project/../-project/session.jsonl"


def outside(laid: Laid) -> Path | str:
    return shutil.copy(laid.transcript, laid.root.parent)


def beside(laid: Laid) -> Path | str:
    place = laid.root.with_name("projects-2")
    place.mkdir()
    return shutil.copy(laid.transcript, place)


def suffix(laid: Laid) -> Path | str:
    return shutil.copy(laid.transcript, laid.transcript.with_suffix(".txt"))


def below_a_file(laid: Laid) -> Path | str:
    return laid.transcript / "x.jsonl"


def no_file_name(laid: Laid) -> Path | str:
    return f"{laid.transcript}/"


NAMED = {
    "relative": "-project/session.jsonl",
    "home": "~/.claude/projects/-project/session.jsonl",
    "proc": "/proc/self/environ",
    "proc as a transcript": "/proc/self/cwd/session.jsonl",
    "device": "/dev/zero",
    "shadow": "/etc/shadow",
    "share": "//server/share/session.jsonl",
    "drive": "/c:/Users/u/session.jsonl",
    "url": "file:///etc/passwd.jsonl",
    "root": "/",
    "long": "/" + "x/" * 2000 + "y.jsonl",
}


@pytest.mark.parametrize(
    "make",
    [
        linked_folder,
        dots,
        dots_inside,
        outside,
        beside,
        suffix,
        below_a_file,
        no_file_name,
        *(pytest.param(lambda _, path=path: path, id=name) for name, path in NAMED.items()),
    ],
)
def test_not_looked_at(laid: Laid, make: Callable[[Laid], Path | str]) -> None:
    """What lies elsewhere, or is reached by a detour, is neither pinned nor looked at."""
    path = make(laid)
    assert laid.say(path) == [[str(path), 0, 0, -1]]
    assert laid.pins() == {}
    assert len(laid.diagnostics()) == 1


def test_raw_nul(laid: Laid) -> None:
    """A NUL in a path is no way to have a shorter one looked at."""
    laid.run(b'{"transcript_path":"%s\0.jsonl"}' % bytes(laid.transcript))
    assert laid.payload().header["saw"] == [[f"{laid.transcript}\0.jsonl", 0, 0, -1]]
    assert laid.pins() == {}


def test_without_roots(tmp_path: Path, laid: Laid) -> None:
    """A hook that was told no folders pins nothing."""
    hook = Installed(tmp_path / "other")
    hook.run(json.dumps({"transcript_path": str(laid.transcript)}).encode())
    assert hook.payload().header["saw"] == [[str(laid.transcript), 0, 0, -1]]
    assert hook.pins() == {}


@pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases is not there")
def test_case_outside_of_the_roots(laid: Laid) -> None:
    """The payload of a public report, which names a private key, pins nothing."""
    payload = (CASES / "48-hook-path-outside-roots" / "input" / "payload.json").read_bytes()
    laid.run(payload)
    assert laid.payload().raw == payload
    assert laid.payload().header["saw"] == [["/home/dev/.ssh/id_ed25519", 0, 0, -1]]
    assert laid.pins() == {}


# --- races and faults, in this process --------------------------------------------------------------------------------


class Shim:
    """The body's `os`, in which some calls do something else."""

    def __init__(self, module: Any, **calls: Any) -> None:
        self.real = module.os
        self.__dict__.update(calls)
        module.os = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def run_with(laid: Laid, module: Any) -> None:
    """Run the body in this process with a payload that names the transcript."""
    with standard_input(json.dumps({"transcript_path": str(laid.transcript)}).encode()):
        module.run(str(laid.spool), ["claude", "Stop"], {"claude": (str(laid.root),)})


@pytest.mark.parametrize("how", ["file", "link", "link with the same inode", "folder"])
def test_replaced_after_the_look(laid: Laid, how: str) -> None:
    """What takes the transcript's place between look and link does not stay pinned."""
    module = body()
    secret = laid.home / "secret"
    secret.mkdir()
    (secret / "session.jsonl").write_bytes(b"secret")
    new = laid.root / "new"

    def replace() -> None:
        if how == "folder":
            laid.transcript.parent.rename(new)
            laid.transcript.parent.symlink_to(secret, target_is_directory=True)
        elif how == "link with the same inode":  # which is what ext4 gives to the next file in a folder
            laid.transcript.unlink()
            laid.transcript.symlink_to(secret / "session.jsonl")
        else:
            new.symlink_to(secret / "session.jsonl") if how == "link" else new.touch()
            new.rename(laid.transcript)

    def link(path: bytes, name: str, **more: Any) -> None:
        if not list(secret.glob("done")):
            (secret / "done").touch()
            replace()
        os.link(path, name, **more)

    Shim(module, link=link)
    run_with(laid, module)
    assert laid.pins() == {}
    assert laid.diagnostics() == [f"no pin of {bytes(laid.transcript)!r}: it was replaced meanwhile"]
    assert laid.payload().raw


def test_gone_after_the_look(laid: Laid) -> None:
    """A transcript that vanishes between look and link is told in diagnostics.log."""
    module = body()

    def link(path: bytes, name: str, **more: Any) -> None:
        laid.transcript.unlink(missing_ok=True)
        os.link(path, name, **more)

    Shim(module, link=link)
    run_with(laid, module)
    assert laid.pins() == {}
    assert [line.split(": ", 1)[1][:10] for line in laid.diagnostics()] == ["[Errno 2] "]


def test_two_at_once(laid: Laid) -> None:
    """Another hook that pins the same transcript between look and link is no trouble."""
    module = body()

    def link(path: bytes, name: str, **more: Any) -> None:
        laid.run(json.dumps({"transcript_path": str(laid.transcript)}).encode())
        os.link(path, name, **more)

    Shim(module, link=link)
    run_with(laid, module)
    assert laid.pins() == {pin_of(laid.transcript): CONTENT}
    assert len(laid.payloads()) == 2
    assert laid.diagnostics() == []


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSPC, errno.EACCES])
def test_no_links(laid: Laid, number: int) -> None:
    """Where there can be no pin the payload is written all the same, and diagnostics.log tells why."""
    module = body()

    def link(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    Shim(module, link=link)
    run_with(laid, module)
    assert laid.payload().header["saw"] == [told(laid.transcript)]
    assert laid.pins() == {}
    assert laid.diagnostics() == [f"no pin of {bytes(laid.transcript)!r}: [Errno {number}] {os.strerror(number)}"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    memory = Path("/dev/shm")  # noqa: S108 -- the other file system that most machines have
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    with tempfile.TemporaryDirectory(dir=memory) as place:
        yield Path(place)


def test_another_file_system(tmp_path: Path, elsewhere: Path) -> None:
    """A transcript on another file system is named and not pinned."""
    (elsewhere / "t.jsonl").write_bytes(CONTENT)
    hook = Installed(tmp_path / "data", {"codex": [elsewhere]})
    hook.run(json.dumps({"transcript_path": f"{elsewhere}/t.jsonl"}).encode())
    assert hook.payload().header["saw"] == [told(elsewhere / "t.jsonl")]
    assert hook.pins() == {}
    assert len(hook.diagnostics()) == 1


def test_whatever_goes_wrong(laid: Laid) -> None:
    """An error that nobody thought of costs the pin, not the payload."""
    module = body()

    def look_and_pin(*_: Any) -> None:
        raise RecursionError

    module.look_and_pin = look_and_pin
    run_with(laid, module)
    assert laid.payload().header["saw"] == []
    assert laid.diagnostics() == ["looking for transcripts: RecursionError()"]
