"""Other people's files: read with care, replaced whole or left alone; and what is kept of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from forensic.errors import WriteFailed
from forensic.registration import files
from forensic.registration.files import Backup, Config, Refused


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def in_a_child(check: object, *arguments: object) -> None:
    """Call something as a user who is not root; what it raises fails the test."""
    assert callable(check)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            check(*arguments)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}\n")
    path.chmod(0o644)
    return path


def test_write_keeps_the_mode(path: Path) -> None:
    """A file that others may read stays so; nothing is left beside it."""
    files.write(files.read(path), b"[]")
    assert (path.read_bytes(), mode(path), names(path.parent)) == (b"[]", 0o644, ["settings.json"])


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """What was not there is 0600, in folders that are 0700, and they are named, innermost first."""
    path = tmp_path / "a" / "b" / "hooks.json"
    config = files.read(path)
    assert config == Config(path=path, target=path, content=None)
    assert config.text is None
    assert files.missing_folders(path) == (str(path.parent), str(path.parent.parent))
    files.write(config, b"{}")
    assert (path.read_bytes(), mode(path), mode(path.parent), mode(tmp_path / "a")) == (b"{}", 0o600, 0o700, 0o700)
    assert files.missing_folders(path) == ()


def test_a_link_stays_a_link(tmp_path: Path, path: Path) -> None:
    """What a link leads to is replaced where it lies, however many links lead there."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(path)
    second.symlink_to("first")
    config = files.read(second)
    assert config.target == path
    files.write(config, b"[]")
    assert second.is_symlink()
    assert first.is_symlink()
    assert (path.read_bytes(), mode(path), path.is_symlink()) == (b"[]", 0o644, False)


def test_a_folder_that_is_a_link(tmp_path: Path) -> None:
    """A new file in a linked folder lies where the link leads."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    files.write(files.read(tmp_path / "link" / "hooks.json"), b"{}")
    assert names(tmp_path / "real") == ["hooks.json"]
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_plain_file(tmp_path: Path) -> None:
    """A link to nothing, a loop, a folder and a pipe are refused, and nobody waits for the pipe."""
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, why in [
        ("nowhere", "it is a link to what is not there"),
        ("loop", "Too many levels of symbolic links"),
        ("folder", "it is no regular file"),
        ("pipe", "it is no regular file"),
    ]:
        with pytest.raises(Refused) as caught:
            files.read(tmp_path / name)
        assert why in str(caught.value) or name == "folder"
        assert str(caught.value).endswith("; it was left as it is")
    with pytest.raises(Refused, match="Not a directory"):
        files.read(tmp_path / "pipe" / "hooks.json")


def test_what_is_no_text(path: Path) -> None:
    """Bytes that are no UTF-8 are nobody's configuration; nor is what is far too large."""
    path.write_bytes(b"{\xff}")
    with pytest.raises(Refused, match="no UTF-8"):
        _ = files.read(path).text
    with path.open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(Refused, match="17,825,792 bytes"):
        files.read(path)


def test_a_path_that_is_no_unicode(tmp_path: Path) -> None:
    """What cannot be written down in JSON is refused."""
    with pytest.raises(Refused, match="no Unicode"):
        files.read(tmp_path / "\udcff" / "hooks.json")


def test_changed_meanwhile(path: Path) -> None:
    """What was changed since it was read is not replaced, nor removed, nor is what has come or gone."""
    config = files.read(path)

    def change(content: bytes | None) -> None:
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)

    for content in (b"{ }", b"", None):
        change(content)
        with pytest.raises(Refused, match="changed just now"):
            files.write(config, b"ours")
        with pytest.raises(Refused, match="changed just now"):
            files.remove(config, ())
        assert (path.read_bytes() if path.exists() else None) == content
        assert names(path.parent) == (["settings.json"] if content is not None else [])
    absent = files.read(path)
    change(b"theirs")
    with pytest.raises(Refused, match="changed just now"):
        files.write(absent, b"ours")
    assert path.read_bytes() == b"theirs"


def test_changed_while_it_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that comes between the first byte of ours and the renaming is seen."""
    config = files.read(path)
    fsync = os.fsync

    def disturb(descriptor: int) -> None:
        fsync(descriptor)
        path.write_bytes(b"theirs")

    monkeypatch.setattr(os, "fsync", disturb)
    with pytest.raises(Refused, match="changed just now"):
        files.write(config, b"ours")
    assert (path.read_bytes(), names(path.parent)) == (b"theirs", ["settings.json"])


def test_a_full_disk(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it cannot be written, nothing of it is left, the folders neither."""

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteFailed, match="No space left on device"):
        files.write(files.read(path), b"ours")
    with pytest.raises(WriteFailed, match="No space left on device"):
        files.write(files.read(tmp_path / "a" / "b" / "hooks.json"), b"ours")
    assert (path.read_bytes(), names(tmp_path)) == (b"{}\n", ["settings.json"])


def test_read_only(path: Path) -> None:
    """A file that its owner may not write is left alone, although it could be replaced."""
    path.chmod(0o444)
    with pytest.raises(Refused, match="it is read-only"):
        files.write(files.read(path), b"ours")
    assert (path.read_bytes(), mode(path)) == (b"{}\n", 0o444)


def test_another_name(path: Path) -> None:
    """A file with a second name would part from it, so it is left alone."""
    (path.parent / "other").hardlink_to(path)
    with pytest.raises(Refused, match="it has another name"):
        files.write(files.read(path), b"ours")
    assert names(path.parent) == ["other", "settings.json"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make another user's file")
def test_somebody_elses(tmp_path: Path, path: Path) -> None:
    """What belongs to another user is not replaced, even where that could be done."""
    os.chown(path, 65534, 65534)
    with pytest.raises(Refused, match="belongs to somebody else"):
        files.write(files.read(path), b"ours")
    assert path.stat().st_uid == 65534
    assert names(tmp_path) == ["settings.json"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_without_permission(path: Path) -> None:
    """A file that cannot be read, and a folder that cannot be written, are one clear line."""

    def unreadable() -> None:
        with pytest.raises(Refused, match="Permission denied"):
            files.read(path)

    def unwritable() -> None:
        with pytest.raises(WriteFailed, match="Permission denied"):
            files.write(files.read(path.parent / "new.json"), b"ours")

    for folder in (path.parent, *path.parents[1:3]):
        folder.chmod(0o755)
    path.chmod(0)
    path.parent.chmod(0o555)
    in_a_child(unreadable)
    in_a_child(unwritable)
    path.parent.chmod(0o755)
    assert names(path.parent) == ["settings.json"]


def test_remove(tmp_path: Path) -> None:
    """A file that we made goes with the folders that we made, as far as nothing else is in them."""
    path = tmp_path / "a" / "b" / "c" / "hooks.json"
    made = files.missing_folders(path)
    files.write(files.read(path), b"{}")
    (tmp_path / "a" / "theirs").touch()
    files.remove(files.read(path), made)
    assert names(tmp_path / "a") == ["theirs"]


# --- files of ours ---------------------------------------------------------------------------------------------------


def test_put_file(tmp_path: Path) -> None:
    """A file of ours is private, replaced when it is not what it should be, and left when it is."""
    path = tmp_path / "hook.py"
    assert files.put_file(path, b"1")
    assert (path.read_bytes(), mode(path)) == (b"1", 0o600)
    before = path.stat()
    assert not files.put_file(path, b"1")
    assert path.stat() == before
    path.chmod(0o666)
    assert files.put_file(path, b"1")
    assert mode(path) == 0o600
    (tmp_path / "elsewhere").write_bytes(b"1")
    path.unlink()
    path.symlink_to("elsewhere")
    assert files.put_file(path, b"2")
    assert not path.is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == b"1"


def test_backups(tmp_path: Path) -> None:
    """A backup comes back with every byte, is private, and is found by where its configuration lies."""
    folder, target = tmp_path / "backups", tmp_path / "s\u00e9ttings.json"
    assert files.backups(folder) == []
    assert files.backup_of(folder, target) is None
    kept = Backup(path=str(target), existed=True, wrote="0" * 64, folders=("/a",), content=b"\n\xff{}\n\n")
    files.keep_backup(folder, kept)
    assert files.backup_of(folder, target) == kept
    assert files.backups(folder) == [kept]
    assert (mode(folder), [mode(path) for path in folder.iterdir()]) == (0o700, [0o600])
    assert files.backup_of(folder, tmp_path / "other.json") is None
    files.forget_backup(folder, target)
    assert names(folder) == []
    files.forget_backup(folder, target)


@pytest.mark.parametrize("content", [b"", b"{}", b"nonsense\nx", b'{"path":"/x"}\n', b"\xff"])
def test_a_broken_backup_is_none(tmp_path: Path, content: bytes) -> None:
    """What cannot be read as a backup is passed over: the text alone must do then."""
    kept = Backup(path="/x", existed=True, wrote="")
    files.keep_backup(tmp_path, kept)
    (place,) = tmp_path.iterdir()
    place.write_bytes(content)
    assert files.backup_of(tmp_path, Path("/x")) is None
    assert files.backups(tmp_path) == []


def test_is_what_we_wrote() -> None:
    """By its digest, and not when it is gone."""
    kept = Backup(path="/x", existed=True, wrote="2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")
    assert kept.is_what_we_wrote(b"x")
    assert not kept.is_what_we_wrote(b"y")
    assert not kept.is_what_we_wrote(None)
