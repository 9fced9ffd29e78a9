"""What ``forensic usage`` remembers can neither stop it nor change its answer, wherever the archive lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from homes import Lay
from test_cli import Cli
from test_usage_command import call, cli, lay, raw, told, work

__all__ = ["cli", "lay", "raw", "work"]

NAMES = ("told.accounts", "told.reports")


def asked(cli: Cli, work: Path, name: str) -> dict[str, Any]:
    """The answer that this file, and no other one, is looked into for."""
    if name == "told.accounts":
        (work / "told.reports").unlink(missing_ok=True)
    return told(cli("usage", "--json"))


DEEP = b"\x91" * 200_000 + b"\x90"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [DEEP, msgspec.msgpack.encode({}), b"\x00" * 32 + msgspec.msgpack.encode({})])
def test_what_somebody_put_there_is_not_believed(cli: Cli, work: Path, name: str, content: bytes) -> None:
    """However well it is formed, and however deep."""
    first = told(cli("usage", "--json"))
    (work / name).write_bytes(content)
    assert asked(cli, work, name) == first


def test_what_is_of_another_shape_is_not_believed(cli: Cli, work: Path) -> None:
    """A report of the same state without anything in it."""
    first = told(cli("usage", "--json"))
    remembered = msgspec.msgpack.decode((work / "told.reports").read_bytes()[32:])
    remembered["reports"]["session"] = {}
    (work / "told.reports").write_bytes(msgspec.msgpack.encode(remembered))
    assert told(cli("usage", "--json")) == first


@pytest.mark.parametrize("name", NAMES)
def test_one_flipped_bit_and_it_is_forgotten(cli: Cli, work: Path, name: str) -> None:
    """Wherever it is: also in a figure, which would be read as another one."""
    first = told(cli("usage", "--json"))
    whole = (work / name).read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        (work / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert asked(cli, work, name) == first
        assert (work / name).read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_is_not_waited_for(cli: Cli, work: Path, name: str) -> None:
    """Nor is a link followed, or a folder read."""
    first = told(cli("usage", "--json"))
    (work / name).unlink()
    os.mkfifo(work / name)
    assert asked(cli, work, name) == first
    kept = (work / name).rename(work / "kept")
    (work / name).symlink_to(kept)
    assert asked(cli, work, name) == first
    assert not (work / name).is_symlink()
    (work / name).unlink()
    (work / name).mkdir()
    assert asked(cli, work, name) == first


@pytest.mark.skipif(os.name == "nt", reason="no names that are no UTF-8 there")
@pytest.mark.parametrize("name", [b"nu\xff", b"nu\xc3"])
def test_a_folder_whose_name_is_no_text_is_read_and_remembered(cli: Cli, lay: Lay, tmp_path: Path, name: bytes) -> None:
    """As any other, also where something in it is damaged."""
    import zstandard

    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    lay({"p/s-1.jsonl": call("s-1", "m1", 100)}).rename(place)
    assert cli("capture", place, "--archive", place / "archive").code == 0
    for _ in range(2):
        answer = told(cli("usage", "--archive", place / "archive", "--json"))
        assert (answer["total"]["output_tokens"], answer["findings"]) == (100, [])
    assert (place / "archive" / "work" / "told.accounts").is_file()
    assert told(cli("usage", place / "p", "--json"))["total"]["output_tokens"] == 100

    torn = zstandard.compress(call("s-2", "m2", 20)) + zstandard.compress(call("s-2", "m3", 7) * 50)[:-5]
    (place / "p" / "rollout-s-2.jsonl.zst").write_bytes(torn)
    said = cli("usage", place / "p", "--json")
    assert said.code == 1
    (finding,) = (one for one in said.lines[0]["findings"] if one["problem"])
    assert "what follows is not counted" in finding["note"]
    (bundle,) = (place / "archive").rglob("*.zst")
    bundle.chmod(0o600)
    bundle.write_bytes(bundle.read_bytes()[:-9])
    said = cli("usage", "--archive", place / "archive", "--json")
    assert (said.code, len(said.lines[0]["findings"])) == (1, 1)
