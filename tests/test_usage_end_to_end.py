"""``forensic usage`` end to end: page and JSON agree, nothing is written unsaid, damage takes nothing along."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from test_cli import Cli
from test_usage_command import call, told

from forensic.bundle import Bundle, open_bundle
from forensic.replay.ledger import GROUPINGS

HARNESSES = ("claude", "codex", "copilot", "cursor")
COLUMNS = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """On a terminal wide enough for all columns."""
    monkeypatch.setenv("COLUMNS", "240")
    return Cli(capsys)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Two sessions of two calls each, of which nothing is shared."""
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "s-1.jsonl").write_bytes(call("s-1", "m1", 100) + call("s-1", "m2", 20, 2))
    (folder / "s-2.jsonl").write_bytes(call("s-2", "m3", 7, 3, "m-2") + call("s-2", "m4", 1, 3, "m-2"))
    return folder


@pytest.fixture
def archive(cli: Cli, raw: Path, home: Path) -> Path:
    """The archive of both, that was asked once by session."""
    assert cli("capture", raw).code == 0
    assert told(cli("usage", "--json"))["total"]["output_tokens"] == 128
    return home / "archive"


def content(*folders: Path) -> dict[str, tuple[int, str]]:
    """All that lies below folders: when it was changed, and what it is."""
    paths = sorted(path for folder in folders for path in folder.rglob("*"))
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in paths
    }


def bundle_of(archive: Path, session: str) -> Path:
    """The bundle of a session, which may be written to from now on."""
    (found,) = (
        path
        for path in archive.rglob("*.zst")
        if f'"session":"{session}"'.encode()
        in zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read(10**5)
    )
    found.chmod(0o600)
    return found


SUM = 32
"""Bytes of the digest before what is remembered."""


def recalled(path: Path) -> dict[str, Any]:
    """What is remembered in a file."""
    found: dict[str, Any] = msgspec.msgpack.decode(path.read_bytes()[SUM:])
    return found


def remember(path: Path, content: bytes) -> None:
    """Put it where it will be believed, as far as a digest can make it so."""
    path.write_bytes(hashlib.blake2b(content, digest_size=SUM).digest() + content)


def forget_what_was_told(archive: Path) -> None:
    for path in (archive / "work").glob("told.*"):
        path.unlink()


# --- page and JSON ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia", "America/St_Johns"])
@pytest.mark.parametrize("by", GROUPINGS)
def test_the_page_tells_the_figures_of_the_object(cli: Cli, root: Path, by: str, zone: str) -> None:
    """All golden recordings: a row for each group that tells something, in the same order, figure by figure."""
    places = [root / "golden" / name for name in HARNESSES]
    options = ("--by", by, "--timezone", zone)
    answer = told(cli("usage", *places, *options, "--json"))
    said = cli("usage", *places, *options)
    assert (said.code, answer["timezone"], answer["by"]) == (0, zone, by)
    shown = [group for group in answer["groups"] if by != "session" or group["calls"] or group["inherited"]["calls"]]
    head, *rows = said.out.split("\n\n")[0].splitlines()
    assert len(rows) == len(shown) + 1
    for group, row in zip([*shown, answer["total"]], rows, strict=True):
        unknown = group["certainty"]["level"] == "unknown"
        figures = [
            "-" if group[name] is None or (name == "calls" and not group[name] and unknown) else f"{group[name]:,}"
            for name in COLUMNS
        ]
        end = head.index("  calls") + len("  calls")
        start = len(row[:end].rstrip()) - len(row[:end].split()[-1])
        assert row[start:].split()[:6] == figures, row


@pytest.mark.parametrize("by", GROUPINGS)
def test_every_grouping_adds_up_to_one_total(cli: Cli, root: Path, by: str) -> None:
    """The same total whatever it is made of, and every call and every unit in one group."""
    places = [root / "golden" / name for name in HARNESSES]
    whole = told(cli("usage", *places, "--json"))
    answer = told(cli("usage", *places, "--by", by, "--json"))
    assert answer["total"] == whole["total"]
    for name in COLUMNS:
        assert sum(group[name] or 0 for group in answer["groups"]) == whole["total"][name] > 0
    if by in {"session", "day", "harness"}:
        for unit, amount in whole["units"].items():
            assert sum(group["units"].get(unit, 0) for group in answer["groups"]) == pytest.approx(amount)


def test_two_harnesses_may_use_one_id(cli: Cli, tmp_path: Path) -> None:
    """Two sessions, two groups."""
    events = tmp_path / ".copilot" / "session-state" / "s-1" / "events.jsonl"
    events.parent.mkdir(parents=True)
    said = {"messageId": "z1", "content": "hi", "toolRequests": [], "outputTokens": 7, "model": "m-2"}
    at = "2026-03-01T00:00:00.000Z"
    start = {"sessionId": "s-1", "version": 1, "producer": "copilot-agent", "startTime": at}
    bodies = [("session.start", start, None), ("assistant.message", said, "e0")]
    events.write_bytes(
        b"".join(
            json.dumps({"type": kind, "data": data, "id": f"e{n}", "parentId": parent, "timestamp": at}).encode()
            + b"\n"
            for n, (kind, data, parent) in enumerate(bodies)
        )
    )
    (tmp_path / "s-1.jsonl").write_bytes(call("s-1", "m1", 100))
    answer = told(cli("usage", tmp_path, "--json"))
    assert answer["sessions"] == 2
    assert sorted((group["harness"], group["output_tokens"]) for group in answer["groups"]) == [
        ("claude", 100),
        ("copilot", 7),
    ]
    rows = cli("usage", tmp_path).out.splitlines()[1:3]
    assert sorted(row.split()[2:5] for row in rows) == [["claude/s-1", "1", "10"], ["copilot/s-1", "1", "-"]]


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", GROUPINGS)
def test_nothing_is_written_for_anything_but_a_whole_archive(
    cli: Cli, root: Path, home: Path, tmp_path: Path, by: str
) -> None:
    """Raw files of every harness, compressed ones, recordings, bundles, ids: all lies there as it lay."""
    for name in HARNESSES:
        shutil.copytree(root / "golden" / name, tmp_path / name)
    for path in sorted((tmp_path / "codex").rglob("rollout-*.jsonl"))[:3]:
        Path(f"{path}.zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
        path.unlink()
    assert cli("capture", tmp_path / "cursor").code == 0
    assert cli("capture", root / "golden" / "claude" / "a-working-day" / "source").code == 0
    bundles = sorted((home / "archive").rglob("*.zst"))
    before = content(tmp_path, home)
    answer = told(cli("usage", *(tmp_path / name for name in HARNESSES), *bundles, "5e550000", "--by", by, "--json"))
    assert answer["total"]["calls"] > 50
    assert content(tmp_path, home) == before


def test_days_of_another_zone_are_not_those_that_are_remembered(cli: Cli, archive: Path) -> None:
    """An archive that was asked in UTC is asked in Tokyo, and in UTC again."""
    days = ["2026-03-01", "2026-03-02", "2026-03-03"]
    later = ["2026-03-02", "2026-03-03", "2026-03-04"]
    remembered = archive / "work" / "told.reports"
    for zone, wanted in (("UTC", days), ("Asia/Tokyo", later), ("UTC", days), ("Etc/UTC", days)):
        answer = told(cli("usage", "--by", "day", "--timezone", zone, "--json"))
        assert ([group["name"] for group in answer["groups"]], answer["timezone"]) == (wanted, zone)
    assert list(recalled(remembered)["reports"]) == ["session", "day"]


def test_an_archive_without_a_place_to_remember_answers_all_the_same(cli: Cli, archive: Path) -> None:
    """And makes none."""
    first = told(cli("usage", "--json"))
    shutil.rmtree(archive / "work")
    before = content(archive)
    assert told(cli("usage", "--json")) == first
    assert content(archive) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_an_archive_that_is_read_only_answers_all_the_same(cli: Cli, archive: Path) -> None:
    """Its folders may be read and nothing more."""
    first = told(cli("usage", "--json"))
    forget_what_was_told(archive)
    folders = [archive, *(path for path in archive.rglob("*") if path.is_dir())]
    before = content(archive)
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert told(cli("usage", "--json")) == first
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert content(archive).keys() == before.keys()


def test_a_name_given_twice_changes_no_figure(cli: Cli, archive: Path, raw: Path) -> None:
    """A file beside its folder, an archive beside its bundles and beside itself, all beside what they were made of."""
    wanted = told(cli("usage", "--json"))
    for places in (
        [raw, raw / "s-1.jsonl", raw],
        [archive, archive],
        [archive, *sorted(archive.rglob("*.zst"))],
        [archive, raw, "s-1"],
    ):
        answer = told(cli("usage", *places, "--json"))
        assert answer == wanted


# --- what is remembered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["told.accounts", "told.reports"])
def test_what_is_remembered_in_part_is_read_anew(cli: Cli, archive: Path, name: str) -> None:
    """However much of its end was lost; it is put right by the way."""
    first = cli("usage", "--json")
    path = archive / "work" / name
    whole = path.read_bytes()
    for size in {*range(0, len(whole), len(whole) // 50), len(whole) - 1}:
        forget_what_was_told(archive)
        path.write_bytes(whole[:size])
        assert cli("usage", "--json") == first
        assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["told.accounts", "told.reports"])
def test_a_folder_where_something_should_be_remembered_is_left_alone(cli: Cli, archive: Path, name: str) -> None:
    """The answer is right, and nothing half written is left behind."""
    first = cli("usage", "--json")
    forget_what_was_told(archive)
    (archive / "work" / name).mkdir()
    assert cli("usage", "--json") == first == cli("usage", "--json")
    assert [path.name for path in (archive / "work").glob("told.new-*")] == []
    assert (archive / "work" / name).is_dir()


@pytest.mark.parametrize("command", [("forget", "s-1", "--yes"), ("prune", "--yes")], ids=["forget", "prune"])
def test_what_a_killed_run_left_half_written_goes_too(
    cli: Cli, archive: Path, raw: Path, command: tuple[str, ...]
) -> None:
    """Together with all that is remembered."""
    with (raw / "s-1.jsonl").open("ab") as out:
        out.write(call("s-1", "m9", 5, 4))
    assert cli("capture", raw).code == 0
    (archive / "work" / "told.new-x1y2").write_bytes(b"s-1")
    assert cli(*command).code == 0
    assert list((archive / "work").glob("told.*")) == []


def test_a_grown_archive_reads_only_what_is_new(
    cli: Cli, archive: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And answers as an archive that remembers nothing."""
    (raw / "s-3.jsonl").write_bytes(call("s-3", "m5", 1000))
    assert cli("capture", raw / "s-3.jsonl").code == 0
    opened: list[str] = []

    def opens(path: Path) -> Bundle:
        opened.append(path.name)
        return open_bundle(path)

    monkeypatch.setattr("forensic.accounts.open_bundle", opens)
    answer = told(cli("usage", "--json"))
    assert answer["total"]["output_tokens"] == 1128
    assert set(opened) == {bundle_of(archive, "s-3").name}
    forget_what_was_told(archive)
    assert told(cli("usage", "--json")) == answer


@pytest.mark.parametrize("name", ["reports", "accounts"])
def test_something_deep_where_something_is_remembered_is_read_anew(cli: Cli, archive: Path, name: str) -> None:
    """With the digest that it should have, or without."""
    first = cli("usage", "--json")
    deep = b"\x83\xa5state\xa1x\xa7readers\x80\xa7reports\x81\xa1x" + b"\x81\xa1a" * 5000 + b"\xc0"
    for write in (Path.write_bytes, remember):
        forget_what_was_told(archive)
        write(archive / "work" / f"told.{name}", deep)
        assert cli("usage", "--json") == first


@pytest.mark.parametrize("key", ["", "by", "groups", "total", "sessions", "from_progress"])
def test_a_report_that_lacks_something_is_made_anew(cli: Cli, archive: Path, key: str) -> None:
    """It has the state, the readers and the digest of today, and not all of the keys."""
    first = cli("usage")
    path = archive / "work" / "told.reports"
    told = recalled(path)
    told["reports"]["session"] = {name: value for name, value in told["reports"]["session"].items() if key not in name}
    assert key in ("", *recalled(path)["reports"]["session"])
    remember(path, msgspec.msgpack.encode(told))
    assert cli("usage") == first


@pytest.mark.parametrize(("name", "old", "new"), [("reports", b"s-1", b"s-9"), ("accounts", b"m-2", b"m-6")])
def test_a_flipped_bit_in_what_is_remembered_shows_in_no_answer(
    cli: Cli, archive: Path, name: str, old: bytes, new: bytes
) -> None:
    """Names here; figures change as quietly."""
    first = [cli("usage", "--by", by, "--json") for by in ("session", "model")]
    path = archive / "work" / f"told.{name}"
    whole = path.read_bytes()
    assert old in whole
    forget_what_was_told(archive)
    path.write_bytes(whole.replace(old, new, 1))
    assert [cli("usage", "--by", by, "--json") for by in ("session", "model")] == first


# --- damage -----------------------------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "something else": lambda _: b"garbage\n",
    "four bytes": lambda data: data[:4],
    "half": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-10],
    "a flipped bit near the start": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_bundle_in_an_archive_takes_no_other_along(
    cli: Cli, archive: Path, damage: Callable[[bytes], bytes]
) -> None:
    """It is named, the exit code is 1, the other session counts, and what is mended is whole again."""
    first = cli("usage", "--json")
    bundle = bundle_of(archive, "s-2")
    data = bundle.read_bytes()
    bundle.write_bytes(damage(data))
    for _ in range(2):
        said = cli("usage", "--json")
        assert (said.code, said.err.count("\n"), said.err.startswith(f"{bundle}: ")) == (1, 1, True)
        (answer,) = said.lines
        (counted,) = (group for group in answer["groups"] if group["name"] == "s-1")
        assert (counted["calls"], counted["output_tokens"]) == (2, 120)
        assert [finding["problem"] for finding in answer["findings"]] == [True]
    bundle.write_bytes(data)
    assert cli("usage", "--json") == first


def test_a_torn_rollout_takes_no_other_along(cli: Cli, root: Path, raw: Path) -> None:
    """It is named, the exit code is 1, and what it holds up to there counts beside the others."""
    (source,) = (root / "golden" / "codex" / "repeated-token-counts" / "source").rglob("*.jsonl")
    begun = told(cli("usage", source, "--json"))["total"]["output_tokens"]
    packed = zstandard.ZstdCompressor().compress(source.read_bytes())
    torn = raw / f"{source.name}.zst"
    torn.write_bytes(packed + zstandard.ZstdCompressor().compress(source.read_bytes() * 20)[:-7])
    said = cli("usage", raw, "--json")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"{torn}: ")
    assert said.lines[0]["sessions"] == 3
    assert said.lines[0]["total"]["output_tokens"] == 128 + begun
    page = cli("usage", raw)
    assert (page.code, page.err) == (1, said.err)


def test_hostile_names_come_out_clean_wherever_they_are_told(cli: Cli, tmp_path: Path) -> None:
    """Sessions, models, files: each one cell of one row, no control, no change of direction; whole in JSON."""
    session, model = "s\x1b]0;owned\x07\r\n\u202e\x9b31m", "m\x1b[2J\n\u2066total  9,999\u2028"
    (tmp_path / "a.jsonl").write_bytes(call(session, "m1", 5, model=model))
    (tmp_path / "rollout-\x1b[31m\nx.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(b"{}\n" * 9)[:-3])
    for by, name in (("session", session), ("model", model)):
        said = cli("usage", tmp_path, "--by", by)
        text = said.out + said.err
        assert sorted({char for char in text if not char.isprintable()} - {"\n"}) == []
        head, _, rest = said.out.partition("\n")
        assert "calls" in head
        assert len(rest.split("\n\n")[0].splitlines()) == 2
        assert len(said.err.splitlines()) <= 1
        # a line separator is no end of a line of JSON, as it is one for str.splitlines
        assert json.loads(cli("usage", tmp_path, "--by", by, "--json").out)["groups"][0]["name"] == name


@pytest.mark.parametrize(
    "damage", [DAMAGES["four bytes"], DAMAGES["a flipped bit near the start"]], ids=["cut", "flipped"]
)
def test_a_damaged_bundle_that_was_named_takes_no_other_along(
    cli: Cli, archive: Path, damage: Callable[[bytes], bytes]
) -> None:
    """In an archive it ends with 1 and the others count; so does a bundle whose later frames are damaged."""
    other, bundle = (bundle_of(archive, session) for session in ("s-1", "s-2"))
    bundle.write_bytes(damage(bundle.read_bytes()))
    said = cli("usage", other, bundle, "--json")
    assert (said.code, str(bundle) in said.err) == (1, True)
    assert said.lines[0]["total"]["output_tokens"] == 120


@pytest.mark.parametrize("damage", [DAMAGES["empty"], DAMAGES["something else"]], ids=["empty", "else"])
def test_a_bundle_that_was_overwritten_is_no_session(cli: Cli, archive: Path, damage: Callable[[bytes], bytes]) -> None:
    """What verify calls no bundle is not read as a transcript."""
    other, bundle = (bundle_of(archive, session) for session in ("s-1", "s-2"))
    bundle.write_bytes(damage(bundle.read_bytes()))
    said = cli("usage", other, bundle, "--json")
    assert (said.code, str(bundle) in said.err) == (1, True)
    assert said.lines[0]["sessions"] == 1


def test_a_bundle_in_the_place_of_another_is_a_problem(cli: Cli, archive: Path) -> None:
    """A session is missing from the total, and list ends with 1."""
    place = bundle_of(archive, "s-2")
    shutil.copyfile(bundle_of(archive, "s-1"), place)
    assert cli("list").code == 1
    for _ in range(2):
        said = cli("usage", "--json")
        assert (said.code, said.lines[0]["total"]["output_tokens"]) == (1, 120)
        assert said.err == f"{place}: its content has another name\n"
