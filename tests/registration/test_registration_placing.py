"""The hook's own folder: the same place for ever, complete, private, and gone when nobody needs it."""

from __future__ import annotations

import json
import os
import runpy
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from users import be

from forensic import data
from forensic.errors import WriteFailed
from forensic.private import home
from forensic.registration.clients import CLIENTS
from forensic.registration.command import base_interpreter, posix
from forensic.registration.placing import Hook, own_folder, roots_of

CLAUDE, CODEX, CURSOR = CLIENTS["claude"], CLIENTS["codex"], CLIENTS["cursor"]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of a user with nothing in it."""
    place = tmp_path / "user"
    be(place, monkeypatch)
    return place


@pytest.fixture
def hook(home: Path, user: Path) -> Hook:
    return Hook(home)


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The home is absolute, as a hook runs in the folders of others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORENSIC_HOME", "here/../there")
    assert home() == tmp_path / "there"
    monkeypatch.setenv("FORENSIC_HOME", "")
    assert home().is_absolute()
    assert home().name == "forensic"


def test_own_folders(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A harness's own folder is the one that its variable names, or lies in the home folder."""
    assert [own_folder(client) for client in CLIENTS.values()] == [
        user / name for name in (".claude", ".codex", ".copilot", ".cursor")
    ]
    monkeypatch.setenv("CODEX_HOME", str(user / "elsewhere"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "")
    assert own_folder(CODEX) == user / "elsewhere"
    assert own_folder(CLAUDE) == user / ".claude"


def test_roots(user: Path) -> None:
    """Roots are told as they are named and as where they lead."""
    (user / "disk").mkdir()
    (user / ".codex").symlink_to("disk")
    assert roots_of(CODEX) == (
        str(user / ".codex" / "sessions"),
        str(user / "disk" / "sessions"),
        str(user / ".codex" / "archived_sessions"),
        str(user / "disk" / "archived_sessions"),
    )
    assert roots_of(CURSOR) == (str(user / ".cursor" / "projects"),)


def test_what_is_placed(hook: Hook, user: Path) -> None:
    """All of the hook is there, private, compiled, and knows its home, its roots and its recorder."""
    assert not hook.is_current()
    assert hook.place([CLAUDE], autostart=True)
    assert hook.is_current()
    sources = {path.name: path.read_bytes() for path in data.folder("hooks").glob("*.py")}
    assert {name: (hook.folder / name).read_bytes() for name in sources} == sources
    assert modes(hook.folder) == {0o600}
    assert stat.S_IMODE((hook.folder / "__pycache__").stat().st_mode) == 0o700
    compiled = {path.name.split(".")[0] for path in (hook.folder / "__pycache__").iterdir()}
    assert compiled == {name.removesuffix(".py") for name in sources if name != "hook.py"} | {"baked"}
    baked = runpy.run_path(str(hook.folder / "baked.py"))
    assert baked["HOME"] == str(hook.home)
    assert baked["ROOTS"] == {"claude": (str(user / ".claude" / "projects"),)}
    assert baked["START"] == (sys.executable, "-m", "forensic", "capture", "--idle-exit", "600")
    assert hook.recorder() == sys.executable
    assert json.loads((hook.folder / "roots.json").read_bytes()) == {"claude": [str(user / ".claude" / "projects")]}


def test_a_second_time(hook: Hook) -> None:
    """Nothing is touched that is as it should be, and compiled files are those that the interpreter takes."""
    hook.place([CLAUDE], autostart=True)
    before = {path: path.stat() for path in hook.folder.rglob("*")}
    assert not hook.place([CLAUDE], autostart=True)
    code = f"import sys; sys.path.insert(0, {str(hook.folder)!r}); import baked"
    subprocess.run([base_interpreter(), "-I", "-S", "-c", code], check=True)
    files = [path for path in before if path.is_file()]
    assert {path: path.stat().st_mtime_ns for path in files} == {path: before[path].st_mtime_ns for path in files}


def test_roots_are_added(hook: Hook, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots of earlier registrations stay: of other harnesses, and of the same one when it lay elsewhere."""
    hook.place([CLAUDE, CODEX], autostart=False)
    assert runpy.run_path(str(hook.folder / "baked.py"))["START"] == ()
    assert hook.recorder() is None
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(user / "other"))
    assert hook.place([CLAUDE], autostart=False)
    expected = {
        "claude": (str(user / ".claude" / "projects"), str(user / "other" / "projects")),
        "codex": roots_of(CODEX),
    }
    assert hook.roots() == expected
    assert runpy.run_path(str(hook.folder / "baked.py"))["ROOTS"] == expected


@pytest.mark.parametrize("content", [b"", b"[]", b'{"claude": [1]}', b"\xff"])
def test_broken_roots(hook: Hook, content: bytes) -> None:
    """Roots that cannot be read are made anew."""
    hook.place([CLAUDE], autostart=True)
    (hook.folder / "roots.json").write_bytes(content)
    assert hook.roots() == {}
    hook.place([CLAUDE], autostart=True)
    assert hook.roots() == {"claude": roots_of(CLAUDE)}


def test_another_version(hook: Hook) -> None:
    """What another version left behind goes, and what it wrote otherwise is replaced."""
    hook.place([CLAUDE], autostart=True)
    (hook.folder / "older.py").write_text("old", encoding="utf-8")
    hook.script.write_text("old", encoding="utf-8")
    assert not hook.is_current()
    assert hook.place([CLAUDE], autostart=True)
    assert hook.is_current()
    assert not (hook.folder / "older.py").exists()


def test_removed(hook: Hook) -> None:
    """What is run goes; roots stay, and so does the rest of the home."""
    hook.place([CLAUDE], autostart=True)
    (hook.home / "spool").mkdir()
    hook.remove()
    assert [path.name for path in hook.folder.iterdir()] == ["roots.json"]
    assert sorted(path.name for path in hook.home.iterdir()) == ["hook", "spool"]
    hook.remove()


def test_odd_paths(tmp_path: Path, user: Path) -> None:
    """A home with blanks, quotes and letters of other alphabets is written down so that it is read again."""
    odd = Hook(tmp_path / 'it\'s "my" h\u00f6me \u65e5 \\n')
    odd.place([CLAUDE], autostart=True)
    assert runpy.run_path(str(odd.folder / "baked.py"))["HOME"] == str(odd.home)


def test_the_installed_hook_runs(hook: Hook, tmp_path: Path) -> None:
    """The command that is registered puts the payload into the spool of this home, byte for byte."""
    hook.place([CLAUDE], autostart=False)
    command = posix(base_interpreter(), str(hook.script), "claude", "Stop")
    payload = b'{"session_id": "5e55", "hook_event_name": "Stop"}\n'
    done = subprocess.run(["/bin/sh", "-c", command], input=payload, capture_output=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (b"", b"")
    (spooled,) = (hook.home / "spool").glob("*.hook")
    head, _, body = spooled.read_bytes().partition(b"\n")
    assert (json.loads(head)["harness"], json.loads(head)["argv"], body) == ("claude", ["Stop"], payload)


def test_a_full_disk(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is one clear error, and no half of a file is left."""

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteFailed, match="No space left on device"):
        hook.place([CLAUDE], autostart=True)
    assert list(hook.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_one_at_a_time(hook: Hook) -> None:
    """A second one that wants to change registrations waits for the first."""
    order: list[str] = []
    began = threading.Event()

    def second() -> None:
        began.set()
        with Hook(hook.home).exclusive():
            order.append("second")

    thread = threading.Thread(target=second)
    with hook.exclusive():
        thread.start()
        began.wait()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
