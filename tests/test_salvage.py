"""Salvage: what is sound comes back, what is doubtful says so, and nothing wrong passes for right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from bundles import Side, lines, payload, record, sealed, write
from hostile import CASES, bundle_of, honest, listed
from msgspec.structs import replace

from forensic import container, ustar
from forensic.bundle import open_bundle, seal
from forensic.container import read_table
from forensic.errors import AlreadyThere, Damaged, ForensicError, NewerFormat, NoSuchPath, NotABundle
from forensic.jsonio import canonical
from forensic.model import Binding, CaptureState, Gap, Ground, Payload, Row, SideFile
from forensic.salvage import Salvage, salvage


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of 4 KiB, so that a small bundle has many."""
    monkeypatch.setattr(container, "FRAME", 4096)
    monkeypatch.setattr(ustar, "FRAME", 4096)


def raws(count: int, seed: int) -> list[bytes]:
    """Rows that do not compress away, some of them no JSON."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    rows = [canonical({"n": n, "text": noise.randbytes(noise.randrange(10, 120)).hex()}) for n in range(count)]
    rows[3], rows[7] = b"no JSON", b"\xff\xfe"
    return rows


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A bundle of some fifty frames, with something in every room."""
    noise = random.Random(5)  # noqa: S311 -- noise, the same every time
    long = canonical({"long": noise.randbytes(5000).hex()})
    main = lines(*raws(300, 1), long, *raws(40, 2)) + b'{"torn":'
    walls = [noise.randrange(1 << 60) for _ in range(100)]
    return sealed(
        tmp_path / "original",
        {"main": [main, lines(*raws(60, 3))], "agent-x": lines(*raws(90, 4))},
        sides=[Side("x.meta.json", [b'{"x":1}', noise.randbytes(9000)], "agent-x"), Side("notes", [b"n" * 100])],
        payloads=[payload(n, canonical({"hook": noise.randbytes(60).hex()})) for n in range(1, 80)],
        bindings=[
            Binding(stream="main", generation=1, rows=(n, n + 1), ground=Ground.POLL, wall=wall)
            for n, wall in enumerate(walls)
        ],
        context=[{"cwd": "/home/dev/demo"}],
        recorded=b"{}\n",
        supersedes=("0" * 64,),
        producer_versions=("2.1.0",),
    )


def frames_of(path: Path) -> list[tuple[int, int]]:
    """Where each data frame begins and ends in the file."""
    with path.open("rb") as stream:
        return list(pairwise(read_table(stream)[0][:-1]))


def rows_by_frame(path: Path) -> dict[int, set[tuple[str, int, int]]]:
    """Which rows end in which frame, counted from 0; a row that needs several frames is in all of them."""
    found: dict[int, set[tuple[str, int, int]]] = {}
    bundle = open_bundle(path)
    rows = iter([entry for entry in bundle.timeline() if isinstance(entry, Row)])
    with path.open("rb") as stream:
        begun: list[int] = []
        for pieces in container.read(stream):
            for piece in pieces:
                if piece.member.startswith("transcripts/"):
                    here = piece.frame - 1
                    for _ in range(piece.data.count(b"\n")):
                        row = next(rows)
                        for frame in (*begun, here):
                            found.setdefault(frame, set()).add((row.ref.stream, row.ref.generation, row.ref.offset))
                        begun = []
                    if piece.data and not piece.data.endswith(b"\n"):
                        begun.append(here)
    return found


def damaged(path: Path, target: Path, places: Sequence[int]) -> Path:
    """A copy with one bit changed at each of these places."""
    data = bytearray(path.read_bytes())
    for at in places:
        data[at] ^= 1 << at % 8
    target.write_bytes(data)
    return target


def truth(path: Path) -> dict[tuple[str, int, int], bytes]:
    """Every row of a bundle, by its place."""
    rows = (entry for entry in open_bundle(path).timeline() if isinstance(entry, Row))
    return {(row.ref.stream, row.ref.generation, row.ref.offset): row.raw + row.end for row in rows}


def judge(original: Path, result: Path, must: set[tuple[str, int, int]]) -> None:
    """The result is a valid bundle, has all rows that it must have, and nothing that was not in the original."""
    bundle = open_bundle(result)
    bundle.check()
    whole = list(open_bundle(original).timeline())
    rows = {(row.ref.stream, row.ref.generation, row.ref.offset): row for row in whole if isinstance(row, Row)}
    hooks = {entry.n: entry for entry in whole if isinstance(entry, Payload)}
    contents = {entry.raw for entry in whole if isinstance(entry, SideFile)}
    seen = set()
    for entry in bundle.timeline():
        if isinstance(entry, Row):
            place = (entry.ref.stream, entry.ref.generation, entry.ref.offset)
            assert replace(entry, unverified=False) == rows[place]
            seen.add(place)
        elif isinstance(entry, Payload):
            assert entry == hooks[entry.n]
        else:
            assert entry.raw in contents
    assert must <= seen
    salvaged = bundle.manifest.salvaged_from
    assert salvaged is not None
    assert bundle.recorded() is None


def test_a_sound_bundle_comes_back_whole(original: Path, tmp_path: Path) -> None:
    """Nothing is lost or doubtful; it has the same content id, says where it is from, and carries no verdict."""
    report = salvage(original, tmp_path / "out.zst")
    before, after = open_bundle(original), open_bundle(tmp_path / "out.zst")
    assert after.content_id == before.content_id == report.content_id
    assert list(after.timeline()) == list(before.timeline())
    assert [*after.bindings()] == [*before.bindings()]
    assert [*after.context()] == [*before.context()]
    assert after.recorded() is None
    salvaged = after.manifest.salvaged_from
    assert salvaged is not None
    assert (salvaged.content_id, salvaged.bundle_id) == (before.content_id, before.bundle_id)
    assert (salvaged.lost, salvaged.unverified, after.manifest.supersedes) == ((), (), ())
    assert after.manifest.producer_versions == ("2.1.0",)
    assert after.manifest.capture == before.manifest.capture
    assert report == Salvage(
        content_id=before.content_id,
        bundle_id=str(after.bundle_id),
        verified=tuple(sorted(before.manifest.members.keys() - {"recorded.json"})),
        unverified=(),
        lost=(),
        rows=492,
        payloads=79,
    )
    assert (tmp_path / "out.zst").stat().st_mode & 0o777 == 0o400
    assert sorted(each.name for each in tmp_path.iterdir()) == ["original", "out.zst"]


def test_one_damaged_frame_costs_its_rows_only(original: Path, tmp_path: Path) -> None:
    """All other rows are back; the member is named, its rows say so, the hole is told with its size."""
    where = rows_by_frame(original)
    frames = frames_of(original)
    frame = next(n for n in sorted(where) if all(ref[:2] == ("main", 1) for ref in where[n]) and n > min(where) + 2)
    broken = damaged(original, tmp_path / "broken.zst", [frames[frame][0] + 60])
    report = salvage(broken, tmp_path / "out.zst")
    everything = set.union(*where.values())
    judge(original, tmp_path / "out.zst", everything - where[frame])
    after = open_bundle(tmp_path / "out.zst")
    assert (report.unverified, report.lost) == (("transcripts/0001.jsonl",), ())
    assert report.rows == len(everything) - len(where[frame])
    doubtful = {row.ref.stream for row in after.timeline() if isinstance(row, Row) and row.unverified}
    assert doubtful == {"main"}
    start = min(offset for _, _, offset in where[frame])
    end = min(ref[2] for ref in everything - where[frame] if ref[:2] == ("main", 1) and ref[2] > start)
    reason = "lost with a damaged part of the bundle"
    assert after.manifest.gaps == (Gap(stream="main", generation=1, offset=start, bytes=end - start, reason=reason),)
    main = after.manifest.sources[0]
    assert (main.gap, main.state) == (True, CaptureState.NAMED)
    assert main.generations[1] == open_bundle(original).manifest.sources[0].generations[1]


def test_a_row_of_many_frames_needs_them_all(original: Path, tmp_path: Path) -> None:
    """Damage in the middle of a long row takes that row and no other."""
    where = rows_by_frame(original)
    frames = frames_of(original)
    long = next(n for n in sorted(where) if n + 1 in where and where[n] == where[n + 1])
    broken = damaged(original, tmp_path / "broken.zst", [frames[long + 1][0] + 100])
    report = salvage(broken, tmp_path / "out.zst")
    judge(original, tmp_path / "out.zst", set.union(*where.values()) - where[long])
    assert report.rows == 491


@pytest.mark.parametrize("seed", range(40))
def test_random_damage(seed: int, original: Path, tmp_path: Path) -> None:
    """Wherever bits change, every row of an undamaged frame is back, and not one wrong byte."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    frames = frames_of(original)
    size = original.stat().st_size
    places = [noise.randrange(size) for _ in range(noise.randrange(1, 9))]
    hit = {n for n, (start, end) in enumerate(frames) if any(start <= at < end for at in places)}
    broken = damaged(original, tmp_path / "broken.zst", places)
    salvage(broken, tmp_path / "out.zst")
    where = rows_by_frame(original)
    lost = set.union(set(), *(where.get(n, set()) for n in hit))
    judge(original, tmp_path / "out.zst", set.union(*where.values()) - lost)


@pytest.mark.parametrize("seed", range(12))
def test_random_stretches(seed: int, original: Path, tmp_path: Path) -> None:
    """Bytes overwritten, cut out or put in between: the rows of frames that are untouched come back."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    frames = frames_of(original)
    data = original.read_bytes()
    start = noise.randrange(frames[1][0], len(data) - 3000)
    end = start + noise.randrange(1, 3000)
    filling = [b"", bytes(end - start), noise.randbytes(end - start), noise.randbytes(77)][seed % 4]
    write(tmp_path, {"broken.zst": data[:start] + filling + data[end:]})
    salvage(tmp_path / "broken.zst", tmp_path / "out.zst")
    where = rows_by_frame(original)
    hit = {n for n, (here, there) in enumerate(frames) if here < end and there > start}
    lost = set.union(set(), *(where.get(n, set()) for n in hit))
    judge(original, tmp_path / "out.zst", set.union(*where.values()) - lost)


@pytest.mark.parametrize("part", range(1, 20))
def test_truncation(part: int, original: Path, tmp_path: Path) -> None:
    """Everything before the cut comes back."""
    frames = frames_of(original)
    data = original.read_bytes()
    size = frames[0][1] + (len(data) - frames[0][1]) * part // 20
    write(tmp_path, {"broken.zst": data[:size]})
    salvage(tmp_path / "broken.zst", tmp_path / "out.zst")
    where = rows_by_frame(original)
    kept = [where[n] for n, (_, end) in enumerate(frames) if end <= size and n in where]
    long = set.union(set(), *(where[n] for n in where if frames[n][1] > size))
    judge(original, tmp_path / "out.zst", set.union(set(), *kept) - long)


def without_table(data: bytes) -> bytes:
    """A bundle whose seek table is unreadable."""
    return data[:-9] + bytes(9)


@pytest.mark.parametrize("places", [[5], [1], [5, 1], [12, 30, 31], [3, 20, 40]])
def test_broken_frame_headers_without_a_seek_table(places: list[int], original: Path, tmp_path: Path) -> None:
    """Frames are found again by their magic; rows between two such places tell themselves where they belong."""
    frames = frames_of(original)
    data = bytearray(without_table(original.read_bytes()))
    for frame in places:
        data[frames[frame][0]] ^= 0xFF
    write(tmp_path, {"broken.zst": bytes(data)})
    report = salvage(tmp_path / "broken.zst", tmp_path / "out.zst")
    where = rows_by_frame(original)
    touched: set[str] = set()
    with original.open("rb") as stream:
        for number, pieces in enumerate(container.read(stream)):
            touched |= {piece.member for piece in pieces if number in places}
    whole = open_bundle(original).manifest.members.keys() - touched - {"recorded.json"}
    assert set(report.verified) == (set() if "manifest.json" in touched else whole)
    lost = set.union(set(), *(where.get(n, set()) for n in places))
    must = set.union(*where.values()) - lost
    between = {ref for n, refs in where.items() if min(places) < n < max(places) for ref in refs}
    spanning = {ref for n, refs in where.items() if n + 1 in where for ref in refs & where[n + 1]}
    judge(original, tmp_path / "out.zst", must - (between & spanning))


def test_a_table_that_lies_about_contents(original: Path, tmp_path: Path) -> None:
    """What frames say of themselves goes before what the seek table says of them."""
    data = bytearray(original.read_bytes())
    count = len(frames_of(original)) + 1
    data[len(data) - 9 - 8 * (count - 10) + 4] ^= 1
    write(tmp_path, {"broken.zst": bytes(data)})
    report = salvage(tmp_path / "broken.zst", tmp_path / "out.zst")
    assert (report.unverified, report.lost, report.rows) == ((), (), 492)


@pytest.mark.parametrize("table", [True, False])
def test_without_its_manifest(table: bool, original: Path, tmp_path: Path) -> None:  # noqa: FBT001 -- a parameter
    """Rows and payloads say themselves what they are; everything is doubtful, and what it was called is lost."""
    data = bytearray(original.read_bytes())
    data[60] ^= 1
    write(tmp_path, {"broken.zst": bytes(data) if table else without_table(bytes(data))})
    report = salvage(tmp_path / "broken.zst", tmp_path / "out.zst")
    judge(original, tmp_path / "out.zst", set(truth(original)))
    bundle = open_bundle(tmp_path / "out.zst")
    assert (bundle.manifest.harness, bundle.manifest.session) == ("unknown", "")
    assert report.lost == ("manifest.json",)
    assert report.verified == ()
    assert (report.rows, report.payloads) == (492, 79)
    assert all(row.unverified for row in bundle.timeline() if isinstance(row, Row))
    assert len([entry for entry in bundle.timeline() if isinstance(entry, SideFile)]) == 3
    assert [source.stream for source in bundle.manifest.sources][:2] == ["main", "agent-x"]
    salvaged = bundle.manifest.salvaged_from
    assert salvaged is not None
    assert (salvaged.content_id, salvaged.bundle_id) == ("", "")


@pytest.mark.parametrize("seed", range(12))
def test_without_its_manifest_and_more(seed: int, original: Path, tmp_path: Path) -> None:
    """The same with other frames gone as well."""
    noise = random.Random(seed)  # noqa: S311 -- noise, the same every time
    frames = frames_of(original)
    hit = {0, *(noise.randrange(len(frames)) for _ in range(4))}
    places = [noise.randrange(*frames[n]) for n in hit]
    broken = damaged(original, tmp_path / "broken.zst", places)
    if seed % 2:
        broken.write_bytes(without_table(broken.read_bytes()))
    salvage(broken, tmp_path / "out.zst")
    where = rows_by_frame(original)
    lost = set.union(*(where.get(n, set()) for n in hit))
    spanning = {ref for n, refs in where.items() if n + 1 in where for ref in refs & where[n + 1]}
    judge(original, tmp_path / "out.zst", set.union(*where.values()) - lost - spanning)


def test_lost_members_are_named(original: Path, tmp_path: Path) -> None:
    """A side file with damage is gone, for half of it is worth nothing; its other version stays."""
    frames = frames_of(original)
    hit: list[int] = []
    with original.open("rb") as stream:
        for pieces in container.read(stream):
            hit += [piece.frame - 1 for piece in pieces if piece.member == "files/0002"]
    broken = damaged(original, tmp_path / "broken.zst", [frames[hit[1]][0] + 50])
    report = salvage(broken, tmp_path / "out.zst")
    after = open_bundle(tmp_path / "out.zst")
    assert report.lost == ("files/0002",)
    side = next(source for source in after.manifest.sources if source.native_id == "x.meta.json")
    assert (side.stream, side.members, side.gap) == ("files/0001", ("files/0001",), True)
    assert [entry.native_id for entry in after.timeline() if isinstance(entry, SideFile)] == ["x.meta.json", "notes"]


def test_a_source_of_which_nothing_is_left(tmp_path: Path) -> None:
    """It stays in the manifest, as lost."""
    noise = random.Random(6)  # noqa: S311 -- noise, the same every time
    path = sealed(tmp_path / "original", {"main": lines(b"{}")}, sides=[Side("big", [noise.randbytes(9000)])])
    frames = frames_of(path)
    broken = damaged(path, tmp_path / "broken.zst", [frames[2][0] + 50, frames[-1][0] + 20])
    with pytest.raises(Damaged, match="nothing can be recovered: no row and no file of it is whole"):
        salvage(broken, tmp_path / "out.zst")
    broken = damaged(path, tmp_path / "broken.zst", [frames[2][0] + 50])
    salvage(broken, tmp_path / "out.zst")
    source = open_bundle(tmp_path / "out.zst").manifest.sources[1]
    assert (source.state, source.generations, source.members) == (CaptureState.LOST, (), ())


def test_a_transcript_of_which_nothing_is_left(tmp_path: Path) -> None:
    """Its generation stays, empty, so that the numbers of the others do not move."""
    noise = random.Random(6)  # noqa: S311 -- noise, the same every time
    row = canonical({"x": noise.randbytes(3000).hex()})
    path = sealed(tmp_path / "original", {"main": [lines(row), lines(b'{"second":1}')]})
    frames = frames_of(path)
    broken = damaged(path, tmp_path / "broken.zst", [frames[2][0] + 50])
    report = salvage(broken, tmp_path / "out.zst")
    after = open_bundle(tmp_path / "out.zst")
    assert report.lost == ("transcripts/0001.jsonl",)
    assert [str(row.ref) for row in after.timeline() if isinstance(row, Row)] == ["main:2:0"]
    assert [generation.rows for generation in after.manifest.sources[0].generations] == [0, 1]
    assert [(gap.generation, gap.offset, gap.bytes) for gap in after.manifest.gaps] == [(1, 0, len(row) + 1)]


def test_doubt_stays(original: Path, tmp_path: Path) -> None:
    """A salvaged bundle that is salvaged again keeps saying what was doubtful and what was lost."""
    where = rows_by_frame(original)
    frames = frames_of(original)
    first = damaged(original, tmp_path / "first.zst", [frames[max(where)][0] + 50])
    once = salvage(first, tmp_path / "once.zst")
    assert once.unverified
    again = salvage(tmp_path / "once.zst", tmp_path / "again.zst")
    assert (again.unverified, again.lost, again.rows) == (once.unverified, once.lost, once.rows)
    assert [*open_bundle(tmp_path / "again.zst").timeline()] == [*open_bundle(tmp_path / "once.zst").timeline()]


def test_a_bundle_inside_a_bundle(tmp_path: Path) -> None:
    """A side file that is itself a bundle gives no rows, whatever happens to the frame it stands in."""
    inner = sealed(tmp_path / "inner", {"main": lines(*raws(200, 9))}).read_bytes()
    path = sealed(tmp_path / "outer", {"main": lines(*raws(20, 1))}, sides=[Side("inner.zst", [inner])])
    where = truth(path)
    for frame in range(1, len(frames_of(path))):
        start, end = frames_of(path)[frame]
        broken = damaged(path, tmp_path / "broken.zst", [start + (end - start) // 2])
        target = tmp_path / f"{frame}.zst"
        try:
            salvage(broken, target)
        except Damaged:
            continue
        got = truth(target)
        assert got.items() <= where.items()


def test_gaps_of_the_recording_stay(tmp_path: Path) -> None:
    """What was missing from the first is told as it was, also when more is missing now."""
    folder = record(tmp_path / "recording", {"main": lines(*raws(200, 1))})
    rows = (folder / "transcripts/0001.jsonl").read_bytes().splitlines(keepends=True)
    bundle = open_bundle(folder)
    lost = [entry for entry in bundle.timeline() if isinstance(entry, Row)][10]
    size = len(lost.raw) + 1
    del rows[10]
    kept = [entry for entry in bundle.timeline() if isinstance(entry, Row) and entry != lost]
    content = lines(*(row.raw for row in kept))
    other = open_bundle(record(tmp_path / "other", {"main": content})).manifest
    known = Gap(stream="main", generation=1, offset=lost.ref.offset, bytes=size, reason="the file shrank")
    write(folder, {"transcripts/0001.jsonl": b"".join(rows), "manifest.json": canonical(replace(other, gaps=(known,)))})
    path = tmp_path / "bundle.zst"
    seal(folder, path)
    frames = frames_of(path)
    salvage(damaged(path, tmp_path / "broken.zst", [frames[-2][0] + 50]), tmp_path / "out.zst")
    judge(path, tmp_path / "out.zst", set())
    assert [gap.reason for gap in open_bundle(tmp_path / "out.zst").manifest.gaps] == [
        "the file shrank",
        "lost with a damaged part of the bundle",
    ]


def test_what_cannot_be_salvaged(original: Path, tmp_path: Path) -> None:
    """No file, no bundle, nothing sound in it, a newer one, a name that is taken: one clear refusal each."""
    target = tmp_path / "out.zst"
    with pytest.raises(NoSuchPath):
        salvage(tmp_path / "nothing", target)
    with pytest.raises(NotABundle, match="a folder: salvage works on sealed bundles"):
        salvage(tmp_path, target)
    for data in (b"", b"hello" * 1000, original.read_bytes()[:300], b"\x28\xb5\x2f\xfd" * 500):
        write(tmp_path, {"file": data})
        with pytest.raises(Damaged, match="nothing can be recovered"):
            salvage(tmp_path / "file", target)
    write(tmp_path, {"file": bundle_of(listed(honest(), format=2))})
    with pytest.raises(NewerFormat):
        salvage(tmp_path / "file", target)
    write(tmp_path, {"out.zst": b"something else"})
    with pytest.raises(ForensicError):
        salvage(original, target)
    sealed(tmp_path / "taken", {"main": lines(b"{}")})
    with pytest.raises(AlreadyThere):
        salvage(original, tmp_path / "taken" / "bundle.zst")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "original", "out.zst", "taken"]


QUICK = sorted(CASES.keys() - {"one_gibibyte_of_zeros", "manifest_of_32_mebibytes", "manifest_of_many_values"})


@pytest.mark.parametrize("name", QUICK)
def test_hostile_archives(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in it, the outcome is a valid bundle or a refusal, and no file anywhere else."""
    monkeypatch.undo()
    write(tmp_path, {"file": CASES[name].build()})
    try:
        salvage(tmp_path / "file", tmp_path / "out.zst")
    except ForensicError:
        assert [each.name for each in tmp_path.iterdir()] == ["file"]
        return
    open_bundle(tmp_path / "out.zst").check()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "out.zst"]
