"""Every disk that a loss of power could leave: none has half a payload, and none lacks one that was acknowledged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hook_disks import HERE, Disk, Model, Recording
from hook_runs import NAME, Installed, body, standard_input


class Verdict(NamedTuple):
    """How many disks there are, and how many of them are bad: half a payload; without one that must be there."""

    disks: int
    torn: int
    lost: int
    whole: int


def whole(content: bytes, payload: bytes) -> bool:
    """Whether a file is a payload file with just this payload."""
    line, _, raw = content.partition(b"\n")
    try:
        header = json.loads(line)
    except ValueError:
        return False
    return raw == payload and isinstance(header, dict) and header.get("stored") == len(raw)


def judge(tmp_path: Path, payload: bytes, *, first: bool, forget: Sequence[str] = (), most: int = 1 << 30) -> Verdict:
    """Run the hook once, and look at all disks after each of its calls."""
    hook, module = Installed(tmp_path / "data"), body()
    if not first:
        hook.spool.mkdir()
    recording = Recording(module, forget=forget, most=most)
    with standard_input(payload):
        module.run(str(hook.spool), ["claude", "Stop"], {})
    assert hook.payload().raw == payload
    model = Model({} if first else {HERE: -1})
    seen: list[tuple[bool, Disk]] = [(False, disk) for disk in model.disks()]
    for number, op in enumerate(recording.ops, start=1):
        model.apply(op)
        acknowledged = number == len(recording.ops)
        seen += [(acknowledged, disk) for disk in model.disks()]
    named = [(done, [content for name, content in disk.items() if NAME.fullmatch(name)]) for done, disk in seen]
    return Verdict(
        disks=len(seen),
        torn=sum(not all(whole(content, payload) for content in contents) for _, contents in named),
        lost=sum(done and not any(whole(content, payload) for content in contents) for done, contents in named),
        whole=sum(any(whole(content, payload) for content in contents) for _, contents in named),
    )


@pytest.mark.parametrize("first", [True, False], ids=["first run", "later run"])
@pytest.mark.parametrize("most", [1 << 30, 700], ids=["whole writes", "short writes"])
@pytest.mark.parametrize("payload", [b"", b"{}", b"0123456789" * 300], ids=["empty", "small", "larger"])
def test_no_disk_is_bad(tmp_path: Path, payload: bytes, most: int, *, first: bool) -> None:
    """Whatever a crash leaves is no payload or a whole one, and a whole one once the hook has come to its end."""
    verdict = judge(tmp_path, payload, first=first, most=most)
    assert (verdict.torn, verdict.lost) == (0, 0)
    assert verdict.disks > 20
    assert 0 < verdict.whole < verdict.disks


@pytest.mark.parametrize(
    ("forget", "first", "torn", "lost"),
    [
        ("file", False, True, True),
        (HERE, False, False, True),
        ("", True, False, True),
        ("", False, False, False),
    ],
    ids=["the file", "the spool", "the folder of a new spool", "the folder of an old spool"],
)
def test_each_sync_is_needed(tmp_path: Path, forget: str, *, first: bool, torn: bool, lost: bool) -> None:
    """Without any one of its syncs there are bad disks: the model sees what it looks for."""
    verdict = judge(tmp_path, b"0123456789" * 300, first=first, forget=[forget])
    assert (verdict.torn > 0, verdict.lost > 0) == (torn, lost)
