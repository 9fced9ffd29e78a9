"""``forensic usage`` from the outside: what it reads, what it remembers, what it says when something is wrong."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from homes import Lay
from test_cli import Cli, Said

from forensic import accounts as accounting
from forensic.accounts import Work, account, accounts
from forensic.capture.discover import find
from forensic.replay.ledger import GROUPINGS

GOLDEN = ("claude/a-working-day", "codex/spawned-thread", "copilot/two-resumes", "cursor/a-working-day")
FIGURES = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def call(session: str, message: str, output: int, day: int = 1, model: str = "m-1") -> bytes:
    """A row of one finished call, as Claude Code writes it."""
    usage = {"input_tokens": 10, "output_tokens": output}
    said = {"id": message, "model": model, "stop_reason": "end_turn", "usage": usage, "content": []}
    row = {"type": "assistant", "sessionId": session, "uuid": f"{session}-{message}", "message": said}
    return json.dumps({**row, "timestamp": f"2026-03-{day:02}T23:30:00Z"}).encode() + b"\n"


@pytest.fixture
def raw(lay: Lay) -> Path:
    """Two sessions; the second repeats the first and goes on."""
    first = call("s-1", "m1", 100) + call("s-1", "m2", 20, 2)
    return lay({"p/s-1.jsonl": first, "p/s-2.jsonl": first.replace(b"s-1", b"s-2") + call("s-2", "m3", 7, 3, "m-2")})


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Writes files below a fresh folder."""

    def write(files: Any) -> Path:
        for name, data in files.items():
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return tmp_path / "raw"

    return write


def told(said: Said) -> dict[str, Any]:
    """The one JSON object of an answer that went well."""
    (one,) = said.lines
    assert said.code == 0, said.err
    return one


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("by", GROUPINGS)
def test_the_groups_add_up_whatever_they_are(cli: Cli, root: Path, by: str) -> None:
    """All harnesses together, raw."""
    places = [root / "golden" / case.partition("/")[0] for case in GOLDEN]
    answer = told(cli("usage", *places, "--by", by, "--json"))
    assert (answer["by"], answer["timezone"], answer["schema"]) == (by, "UTC", 1)
    for figure in FIGURES:
        assert sum(group[figure] or 0 for group in answer["groups"]) == answer["total"][figure]
    assert answer["total"]["calls"] > 50


def test_a_call_that_two_files_hold_counts_once(cli: Cli, raw: Path) -> None:
    """The first session owns it; the second inherited it, on the page too."""
    answer = told(cli("usage", raw, "--json"))
    assert [(group["name"], group["output_tokens"]) for group in answer["groups"]] == [("s-1", 120), ("s-2", 7)]
    assert [group["inherited"]["output_tokens"] for group in answer["groups"]] == [0, 120]
    assert answer["total"]["output_tokens"] == 127
    page = cli("usage", raw).out.splitlines()
    assert [line.split()[-2:] for line in page if line.startswith("2026-03")] == [["140", "-"], ["17", "140"]]


def test_days_are_those_of_the_zone_that_was_asked_for(cli: Cli, raw: Path) -> None:
    """Half past eleven in the evening is tomorrow in Tokyo."""
    here = told(cli("usage", raw, "--by", "day", "--json"))["groups"]
    there = told(cli("usage", raw, "--by", "day", "--timezone", "Asia/Tokyo", "--json"))["groups"]
    assert [group["name"] for group in here] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert [group["name"] for group in there] == ["2026-03-02", "2026-03-03", "2026-03-04"]
    assert [group["output_tokens"] for group in here] == [group["output_tokens"] for group in there]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--timezone", "Mars/Olympus"], "no time zone 'Mars/Olympus' is known here"),
        (["--timezone", "../../etc/passwd"], "no time zone '../../etc/passwd' is known here"),
        (["nowhere/at/all"], "no such file or folder: nowhere/at/all"),
        ([""], "an empty name names nothing"),
        (["--by", "cent"], "is not one of 'session', 'day', 'model', 'agent', 'harness'"),
        (["ffffffff"], "holds nothing that 'ffffffff' is the id of"),
    ],
)
def test_wrong_usage_ends_in_one_line(cli: Cli, arguments: list[str], message: str) -> None:
    """And with 2."""
    said = cli("usage", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert message in said.err


def test_nothing_is_written_for_raw_files(cli: Cli, raw: Path, home: Path) -> None:
    """Neither beside them nor in the archive's place."""
    before = tree(raw.parent)
    told(cli("usage", raw, "--json"))
    assert (tree(raw.parent), list(home.iterdir())) == (before, [])


def test_raw_sealed_unpacked_and_named_are_the_same(cli: Cli, root: Path, raw: Path, home: Path) -> None:
    """An archive, its bundles one by one, the recording of a golden case, an id: one answer each."""
    wanted = told(cli("usage", raw, "--json"))["groups"]
    assert cli("capture", raw).code == 0
    bundles = sorted((home / "archive").rglob("*.zst"))
    for places in ([], [home / "archive"], bundles, ["s-1", "s-2"], [raw, home / "archive"]):
        assert told(cli("usage", *places, "--json"))["groups"] == wanted
    case = root / "golden" / "claude" / "a-working-day"
    assert told(cli("usage", case, "--json"))["groups"] == told(cli("usage", case / "source", "--json"))["groups"]


# --- what is remembered -----------------------------------------------------------------------------------------------


@pytest.fixture
def work(cli: Cli, raw: Path, home: Path) -> Path:
    """Where the archive of both sessions remembers, after it was asked once."""
    assert cli("capture", raw).code == 0
    told(cli("usage", "--json"))
    return home / "archive" / "work"


def test_what_is_remembered_is_private_and_gives_the_same_answer(cli: Cli, work: Path) -> None:
    """Nothing is read again, and nothing is different."""
    remembered = sorted(work.glob("told.*"))
    assert [path.name for path in remembered] == ["told.accounts", "told.reports"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in remembered] == [0o600, 0o600]
    first = told(cli("usage", "--json"))
    for bundle in work.parent.rglob("*.zst"):
        hidden = bundle.read_bytes(), bundle.stat()
        bundle.chmod(0o600)
        bundle.write_bytes(b"x" * hidden[1].st_size)
        os.utime(bundle, ns=(hidden[1].st_atime_ns, hidden[1].st_mtime_ns))
    assert told(cli("usage", "--json")) == first
    assert told(cli("usage", "--by", "model", "--json"))["total"] == first["total"]


@pytest.mark.parametrize("name", ["told.accounts", "told.reports"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80", b"\x85\xa5state\xa1x"])
def test_what_is_remembered_badly_is_read_anew(cli: Cli, work: Path, name: str, content: bytes) -> None:
    """Whatever lies there instead, and is put right by the way."""
    first = told(cli("usage", "--json"))
    (work / name).write_bytes(content)
    assert told(cli("usage", "--json")) == first
    assert told(cli("usage", "--by", "day", "--json"))["total"] == first["total"]


def test_an_archive_that_grew_is_told_as_it_is_now(cli: Cli, raw: Path, work: Path) -> None:
    """A session that went on supersedes its earlier bundle, and is not counted beside it."""
    with (raw / "p" / "s-2.jsonl").open("ab") as out:
        out.write(call("s-2", "m4", 1000, 4))
    assert cli("capture", raw).code == 0
    assert len(list(work.parent.rglob("*.zst"))) == 3
    answer = told(cli("usage", "--json"))
    assert (answer["sessions"], answer["total"]["output_tokens"]) == (2, 1127)


def test_another_bundle_under_a_name_is_read(cli: Cli, work: Path, raw: Path, tmp_path: Path) -> None:
    """Its size and time are not those that are remembered."""
    assert cli("capture", raw / "p" / "s-1.jsonl", "--archive", tmp_path / "other").code == 0
    (other,) = (tmp_path / "other").rglob("*.zst")
    (mine,) = (path for path in work.parent.rglob("*.zst") if path.name == other.name)
    mine.unlink()
    shutil.copyfile(other, mine)
    os.utime(mine, ns=(1, 1))
    assert told(cli("usage", "--json"))["total"]["output_tokens"] == 127


def test_what_is_forgotten_is_remembered_nowhere(cli: Cli, work: Path) -> None:
    """Neither its figures nor its name."""
    assert b"s-1" in (work / "told.accounts").read_bytes()
    assert cli("forget", "s-1", "--yes").code == 0
    assert list(work.glob("told.*")) == []
    answer = told(cli("usage", "--json"))
    assert [group["name"] for group in answer["groups"]] == ["s-2"]
    assert b"s-1" not in (work / "told.accounts").read_bytes()


def test_an_archive_nobody_may_write_to_answers_all_the_same(
    cli: Cli, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read anew each time."""
    first = told(cli("usage", "--json"))
    for path in work.glob("told.*"):
        path.unlink()

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("forensic.remembered.tempfile.mkstemp", refuse)
    assert told(cli("usage", "--json")) == first
    assert list(work.glob("told.*")) == []


# --- trouble ----------------------------------------------------------------------------------------------------------


def test_a_damaged_bundle_is_named_and_the_others_count(cli: Cli, work: Path) -> None:
    """Exit code 1; and nothing of the answer is remembered as if it were whole."""
    for path in work.glob("told.*"):
        path.unlink()
    bundle = max(work.parent.rglob("*.zst"), key=lambda path: path.stat().st_size)
    bundle.chmod(0o600)
    data = bytearray(bundle.read_bytes())
    data[-200] ^= 1
    bundle.write_bytes(data)
    said = cli("usage", "--json")
    assert (said.code, str(bundle) in said.err) == (1, True)
    (answer,) = said.lines
    assert [finding["problem"] for finding in answer["findings"]] == [True]
    assert not (work / "told.reports").exists()


def test_a_torn_compressed_rollout_is_named_and_what_it_holds_counts(cli: Cli, root: Path, tmp_path: Path) -> None:
    """What was unpacked before the damage is told."""
    import zstandard

    (source,) = (root / "golden" / "codex" / "repeated-token-counts" / "source").rglob("*.jsonl")
    whole = told(cli("usage", source, "--json"))["total"]["total_tokens"]
    packer = zstandard.ZstdCompressor()
    lines = source.read_bytes().splitlines(keepends=True)
    packed = packer.compress(b"".join(lines[:-1])) + packer.compress(lines[-1] * 50)[:-5]
    torn = tmp_path / f"{source.name}.zst"
    torn.write_bytes(packed)
    said = cli("usage", torn, "--json")
    assert (said.code, str(torn) in said.err) == (1, True)
    assert 0 < said.lines[0]["total"]["total_tokens"] <= whole


def test_names_that_would_write_on_the_terminal_come_out_clean(cli: Cli, lay: Lay) -> None:
    """Neither an escape sequence nor a line of its own."""
    model = "evil\x1b[31m\nmodel\u202e"
    place = lay({"s.jsonl": call("s\x1b]0;x\x07", "m1", 5, model=model)})
    for by in ("model", "session"):
        out = cli("usage", place, "--by", by).out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)
        assert len([line for line in out.splitlines() if "m1" in line or "evil" in line or "s" in line]) >= 1


def test_a_session_that_tells_nothing_is_a_dash(cli: Cli, root: Path) -> None:
    """Not a zero, and it is said that it is unknown."""
    place = root / "golden" / "cursor" / "a-working-day" / "source"
    said = cli("usage", place)
    row = next(line for line in said.out.splitlines() if line.startswith("total"))
    assert row.split() == ["total", "-", "-", "-", "-", "-", "-", "?"]
    assert told(cli("usage", place, "--json"))["total"]["total_tokens"] is None


# --- several processes ------------------------------------------------------------------------------------------------


def works(root: Path) -> list[Work]:
    return [
        Work(harness=found.harness, session=found.session, place=str(found.place), size=60_000_000, found=found)
        for found in find([root / "golden" / name for name in ("claude", "codex", "copilot", "cursor")])
    ]


def test_several_processes_find_what_one_finds(root: Path) -> None:
    """And all is told of, once."""
    done: list[int] = []
    todo = works(root)
    assert accounts(todo, done.append, jobs=3) == accounts(todo, jobs=1)
    assert sum(done) == 60_000_000 * len(todo)


@pytest.mark.parametrize("fate", [lambda: os.kill(os.getpid(), 9), lambda: os._exit(0), lambda: 1 / 0])
def test_what_a_process_leaves_undone_is_done_here(
    root: Path, monkeypatch: pytest.MonkeyPatch, fate: Callable[[], object]
) -> None:
    """However it ended; and none of them is left behind."""
    todo, here = works(root)[:12], os.getpid()
    wanted = accounts(todo, jobs=1)

    def dies(one: Work) -> Any:
        if os.getpid() != here and one is todo[5]:
            fate()
        return account(one)

    monkeypatch.setattr(accounting, "account", dies)
    assert accounts(todo, jobs=2) == wanted
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
