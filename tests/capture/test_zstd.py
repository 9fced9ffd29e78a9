"""Compressed transcripts: what is in them is recorded, as if it had never been compressed."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from homes import Lay, row
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic.archive import Archive
from forensic.bundle import Bundle, open_bundle
from forensic.capture import frames
from forensic.capture.discover import find
from forensic.capture.frames import Frames
from forensic.capture.named import record, unchanged
from forensic.capture.tail import Tail, prefix_sha256
from forensic.errors import NoSession
from forensic.intake import capture
from forensic.model import Finding, Gap, Row, Unread
from forensic.recording import open_recording

BEGAN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
TORN = "it ends inside a frame"
SPOILT = "data do not match their checksum, or are malformed"
NO_FRAME = "something else stands where a frame should begin"
META = row(None, "session_meta", timestamp="2026-05-01T12:00:00Z", payload={"id": "t1", "cli_version": "0.171.0"})
NOISE = hashlib.shake_128(b"noise").digest(300_000).replace(b"\n", b"")
ITEM = row(None, "response_item", timestamp="2026-05-01T12:00:01Z", payload={"type": "message", "n": 1})


def pack(*contents: bytes, checksum: bool = True, **more: Any) -> bytes:
    """One frame for each content."""
    return b"".join(zstandard.ZstdCompressor(write_checksum=checksum, **more).compress(each) for each in contents)


def take(path: Path, directory: Path, previous: Bundle | None = None) -> tuple[Bundle, list[Finding]]:
    """The recording of the one session at a path, read back strictly, and what was told meanwhile."""
    told: list[Finding] = []
    (found,) = find([path], report=told.append)
    record(found, directory, previous, started=BEGAN, now=lambda: BEGAN, report=told.append)
    bundle = open_bundle(directory)
    bundle.check()
    return bundle, told


def content(bundle: Bundle) -> bytes:
    return b"".join(entry.raw + entry.end for entry in bundle.timeline() if isinstance(entry, Row))


def unpacked(packed: bytes, size: int = 1 << 20) -> tuple[bytes, str | None, int]:
    """What is in a file that is read in pieces of such a size, why no more of it, and how far it was read."""
    pieces = (packed[at : at + size] for at in range(0, len(packed), size))
    reader = Frames(pieces)
    return b"".join(reader.chunks()), reader.damage, reader.taken


def test_a_compressed_file_is_recorded_as_what_is_in_it(tmp_path: Path) -> None:
    """Offsets, counts and digest are those of the content; the file's own are its place and its time."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META, ITEM[:9], ITEM[9:] + b'{"torn'))
    bundle, told = take(path, tmp_path / "out")
    whole = META + ITEM + b'{"torn'
    (source,) = bundle.manifest.sources
    status = path.stat()
    (generation,) = source.generations
    assert (source.encoding, source.gap, source.partial, source.path) == ("zstd", False, True, str(path))
    assert source.unread == Unread(len(META + ITEM), 6)
    assert (generation.bytes, generation.rows, generation.sha256) == (len(whole), 3, hashlib.sha256(whole).hexdigest())
    assert (generation.dev, generation.ino, generation.mtime_ns) == (status.st_dev, status.st_ino, status.st_mtime_ns)
    rows = [entry for entry in bundle.timeline() if isinstance(entry, Row)]
    assert [(str(entry.ref), entry.line) for entry in rows] == [
        ("main:1:0", 1), (f"main:1:{len(META)}", 2), (f"main:1:{len(META + ITEM)}", 3),
    ]  # fmt: skip
    assert (bundle.manifest.harness, bundle.manifest.session) == ("codex", "t1")
    assert bundle.manifest.producer_versions == ("0.171.0",)
    assert (bundle.manifest.gaps, told) == ((), [])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.one_of(
        st.sampled_from([META, ITEM, row("s1"), b"\n", b"\r\n", b'{"a":1', b"\xff\xfe\n", bytes(300_000), b"[]\n"]),
        st.binary(max_size=50),
    ), max_size=12),
    frames=st.lists(st.tuples(st.integers(0, 9999), st.sampled_from([1, 3, 19]), st.booleans(), st.booleans())),
)  # fmt: skip
def test_a_file_and_its_compressed_form_give_the_same_recording(
    rows: list[bytes], frames: list[tuple[int, int, bool, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the rows, and wherever frames begin: same harness and session, content id, rows at the same places."""
    folder = tmp_path_factory.mktemp("law")
    whole = b"".join(rows)
    cuts = sorted(at % (len(whole) + 1) for at, *_ in frames)
    ways = [(3, True, False), *((level, checksum, extra) for _, level, checksum, extra in frames)]
    packed = b"".join(
        (b"\x5a\x2a\x4d\x18\x03\0\0\0abc" if extra else b"")
        + pack(whole[begin:end], level=level, checksum=checksum, write_content_size=not extra)
        for begin, end, (level, checksum, extra) in zip([0, *cuts], [*cuts, len(whole)], ways, strict=True)
    )
    (folder / "x.jsonl").write_bytes(whole)
    (folder / "x.jsonl.zst").write_bytes(packed)
    told: list[tuple[object, ...]] = []
    for name in ("x.jsonl", "x.jsonl.zst"):
        (found,) = find([folder / name])
        record(found, folder / f"{name}.out", started=BEGAN, now=lambda: BEGAN)
        bundle = open_bundle(folder / f"{name}.out")
        bundle.check()
        (source,) = bundle.manifest.sources
        told.append(
            (bundle.manifest.harness, bundle.manifest.session, bundle.content_id, list(bundle.timeline()),
             source.unread, source.partial, source.gap, bundle.manifest.gaps, bundle.manifest.producer_versions)
        )  # fmt: skip
    assert told[0] == told[1]
    assert content(open_bundle(folder / "x.jsonl.zst.out")) == whole


def test_every_beginning_of_a_compressed_file_gives_a_beginning_of_its_content() -> None:
    """Cut anywhere it is torn, unless it is cut between frames; what was read before stays."""
    contents = [META, ITEM * 3, NOISE]
    packed = pack(*contents)
    ends = [len(pack(*contents[:count])) for count in range(4)]
    whole = b"".join(contents)
    longest = 0
    cuts = [*range(ends[2] + 60), *range(ends[2] + 60, len(packed), 997), *range(len(packed) - 9, len(packed) + 1)]
    for cut in cuts:
        found, damage, taken = unpacked(packed[:cut], size=4096)
        assert whole.startswith(found)
        assert (damage, taken) == (None, cut) if cut in ends else (damage == TORN and taken <= cut)
        assert len(found) >= longest
        longest = len(found)
    assert longest == len(whole)
    assert len(unpacked(packed[: ends[2] + 131_072 + 60])[0]) == len(META + ITEM * 3) + 131_072


@settings(max_examples=300, deadline=None)
@given(
    flips=st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 7)), min_size=1, max_size=3), checksum=st.booleans()
)
def test_flipped_bits_are_never_passed_over(flips: list[tuple[int, int]], *, checksum: bool) -> None:
    """Nothing is raised; with a checksum in each frame the content is whole, or the damage is told."""
    contents = [META, ITEM * 40, b'{"n":%d}\n' * 50 % tuple(range(50))]
    packed = bytearray(pack(*contents, checksum=checksum))
    for at, bit in flips:
        packed[at % len(packed)] ^= 1 << bit
    found, damage, taken = unpacked(bytes(packed), size=64)
    assert taken <= len(packed)
    if checksum:
        assert damage is not None or found == b"".join(contents)


@settings(max_examples=300, deadline=None)
@given(noise=st.binary(max_size=300), magic=st.booleans())
def test_any_bytes_are_read_without_an_exception(noise: bytes, *, magic: bool) -> None:
    """Noise is no frame, and noise behind a frame's magic is a malformed one."""
    whole = (b"\x28\xb5\x2f\xfd" if magic else b"") + noise
    found, damage, taken = unpacked(whole)
    assert found == b"" or magic
    assert taken == len(whole) or (damage is not None and taken < len(whole))


def test_a_torn_file_is_partial_and_what_is_missing_is_told(tmp_path: Path) -> None:
    """Its rows up to the tear are recorded, a gap follows them, and replay says so, too."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META) + pack(ITEM)[:-3])
    bundle, told = take(path, tmp_path / "out")
    (source,) = bundle.manifest.sources
    assert (content(bundle), source.gap, source.partial) == (META + ITEM, True, False)
    reason = f"the compressed file cannot be unpacked any further: {TORN}; counted as compressed"
    assert bundle.manifest.gaps == (
        Gap(stream="main", generation=1, offset=len(META + ITEM), bytes=1, reason=reason),
    )  # fmt: skip
    note = f"{path} cannot be unpacked beyond the first {len(META + ITEM)} bytes of content: {TORN}"
    assert told == [Finding(kind="not-unpacked", note=note, problem=True)]
    assert [(each.kind, each.note) for each in open_recording(tmp_path / "out").replay().findings] == [
        ("gap", f"main: 1 bytes missing at {len(META + ITEM)}: {reason}")
    ]


def test_a_file_that_is_torn_within_a_row_keeps_its_beginning(tmp_path: Path) -> None:
    """Block by block; an earlier gap stays with its generation."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META) + pack(ITEM)[:-3])
    first, _ = take(path, tmp_path / "1")
    path.write_bytes(pack(META) + pack(NOISE)[:140_000])
    bundle, told = take(path, tmp_path / "2", first)
    (source,) = bundle.manifest.sources
    assert [each.bytes for each in source.generations] == [len(META + ITEM), len(META) + 131_072]
    # of the torn frame its header and its first block were read: 9 and 3 + 131,072 bytes
    assert [(gap.generation, gap.bytes) for gap in bundle.manifest.gaps] == [(1, 1), (2, 140_000 - 131_084)]
    assert (source.partial, source.gap, source.unread) == (True, True, Unread(len(META), 131_072))
    assert [finding.kind for finding in told] == ["not-unpacked"]


def test_a_torn_file_that_is_finished_later_goes_on(tmp_path: Path) -> None:
    """The same generation, without its gap; as long as nothing changes, its damage is told at every capture."""
    path = tmp_path / "x.jsonl.zst"
    whole = pack(META, ITEM)
    path.write_bytes(whole[:-2])
    archive = Archive(tmp_path / "archive")
    told = [next(capture([path], archive)) for _ in range(2)]
    assert [(each.state, [finding.kind for finding in each.findings]) for each in told] == [
        ("sealed", ["not-unpacked"]), ("unchanged", ["not-unpacked"]),
    ]  # fmt: skip
    path.write_bytes(whole + pack(ITEM))
    last = next(capture([path], archive))
    assert (last.state, last.findings, last.rows) == ("superseding", (), 3)
    manifest = open_bundle(Path(last.bundle)).manifest
    assert (manifest.gaps, manifest.sources[0].gap, len(manifest.sources[0].generations)) == ((), False, 1)


@pytest.mark.parametrize(
    ("packed", "kept", "damage"),
    [
        (pack(META) + b"noise", META, NO_FRAME),
        (pack(META) + b"\x28\xb5", META, TORN),
        (pack(META) + pack(ITEM)[:-1] + b"?", META + ITEM, SPOILT),
        (pack(META) + b"\x28\xb5\x2f\xfd\x08\xff", META, "malformed frame header"),
        (pack(META) + b"\x28\xb5\x2f\xfd\x00\xf8", META, "malformed frame header"),
        (pack(META) + b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0", META,
         f"a frame needs a window of {1 << 31} bytes, more than 128 MiB"),
        (pack(META) + b"\x28\xb5\x2f\xfd\x00\x88\x08\0\0{", META + b"{", TORN),
        (pack(META) + b"\x28\xb5\x2f\xfd\x21\x07\x05\0\0\0", META, "a frame needs a dictionary"),
        (pack(META) + b"\x28\xb5\x2f\xfd\x20\x05\x07\0\0", META, SPOILT),
        (pack(META) + b"\x28\xb5\x2f\xfd\x20\x05\x01\0\x20", META, SPOILT),
        (pack(META) + b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + bytes(99), META, TORN),
        (b"noise", b"", NO_FRAME),
    ],
)  # fmt: skip
def test_what_cannot_be_unpacked_ends_the_reading(packed: bytes, kept: bytes, damage: str, tmp_path: Path) -> None:
    """Noise, a wrong checksum, malformed headers and blocks, huge windows, dictionaries, a skip beyond the end."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(packed)
    bundle, told = take(path, tmp_path / "out")
    assert content(bundle) == kept
    assert [(finding.kind, finding.note.partition(": ")[2]) for finding in told] == [("not-unpacked", damage)]
    (gap,) = bundle.manifest.gaps
    assert (gap.offset, gap.bytes >= 1, bundle.manifest.sources[0].gap) == (len(kept), True, True)


def test_a_file_of_damage_alone_is_told_in_a_walk(tmp_path: Path) -> None:
    """It holds no row that could be read, and is no session; that there may have been one is a problem."""
    (tmp_path / "x.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    told: list[Finding] = []
    with pytest.raises(NoSession):
        find([tmp_path], report=told.append)
    assert [(finding.kind, finding.problem) for finding in told] == [("unreadable-file", True)]


@pytest.mark.parametrize("fill", [b"\0", b"\n"])
def test_a_bomb_stays_small(fill: bytes) -> None:
    """A gigabyte out of 32 kilobytes, one row or as many rows as bytes: it ends early, in little memory."""
    block = b"\x02\x00\x10" + fill  # 128 KiB of one byte
    bomb = b"\x28\xb5\x2f\xfd\x00\x58" + block * 8191 + b"\x03\x00\x10" + fill
    assert len(zstandard.ZstdDecompressor().decompressobj().decompress(bomb[: 6 + 4 * 9])) == 9 << 17
    tracemalloc.start()
    reader = Frames(iter([bomb]))
    given = sum(map(len, reader.chunks()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert given == 1 << 26
    assert (reader.damage, peak < 1 << 20) == ("it unpacks to more than 1000 times its size", True)


def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    """60 MB of rows: no more than a few blocks are held."""
    path = tmp_path / "x.jsonl.zst"
    rows = (row(None, "event_msg", n=1, text="x" * 900) * 1000)[:-1] + b"\n"
    with path.open("wb") as out, zstandard.ZstdCompressor(level=1).stream_writer(out) as packer:
        for _ in range(60):
            packer.write(rows)
    with Tail(path, unpack=True) as tail:
        tracemalloc.start()
        total = sum(len(block) for _, block in tail.blocks())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (total, tail.rows, tail.damage, peak < 4 << 20) == (60 * len(rows), 60_000, None, True)


def test_a_row_that_no_bundle_holds_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of a wrapped line; rows up to it are read."""
    monkeypatch.setattr(frames, "_ROW", 300_000)
    path = tmp_path / "x.jsonl.zst"
    long = b'{"x":"' + b"y" * 290_000 + b'"}\n'
    path.write_bytes(pack(META + long * 3 + b"z" * 500_000))
    bundle, told = take(path, tmp_path / "out")
    whole = META + long * 3 + b"z" * 500_000
    assert whole.startswith(content(bundle))
    assert len(META + long * 3) < len(content(bundle)) <= len(META + long * 3) + 300_000
    assert [finding.note.partition(": ")[2] for finding in told] == ["a row of more than 300000 bytes"]


def test_a_compressed_file_that_grew_supersedes(tmp_path: Path) -> None:
    """A frame was appended: one generation goes on, and only its new rows are bound anew."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META, ITEM + b'{"ty'))
    first, _ = take(path, tmp_path / "1")
    with path.open("ab") as more:
        more.write(pack(b'pe":"x"}\n' + ITEM))
    second, told = take(path, tmp_path / "2", first)
    assert content(second) == META + ITEM + b'{"type":"x"}\n' + ITEM
    assert [each.rows for each in second.manifest.sources[0].generations] == [4]
    assert (second.manifest.supersedes, told) == ((first.content_id,), [])
    assert [each.rows for each in second.bindings()] == [(0, 3), (3, 4)]


def test_a_compressed_file_that_was_rewritten_is_a_new_generation(tmp_path: Path) -> None:
    """Nothing of the earlier one is lost."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META, ITEM))
    first, _ = take(path, tmp_path / "1")
    path.write_bytes(pack(META + META))
    second, _ = take(path, tmp_path / "2", first)
    assert [each.bytes for each in second.manifest.sources[0].generations] == [len(META + ITEM), 2 * len(META)]


@pytest.mark.parametrize("back", [False, True])
def test_compressing_between_two_captures_changes_nothing(tmp_path: Path, *, back: bool) -> None:
    """And neither does unpacking: no new bundle; what is appended afterwards supersedes."""
    plain, packed = tmp_path / "sessions/x.jsonl", tmp_path / "sessions/x.jsonl.zst"
    plain.parent.mkdir()
    forms = [(plain, META + ITEM), (packed, pack(META, ITEM, level=19))]
    (before, old), (after, new) = reversed(forms) if back else forms
    archive = Archive(tmp_path / "archive")
    before.write_bytes(old)
    first = next(capture([tmp_path / "sessions"], archive))
    manifest = open_bundle(Path(first.bundle)).manifest
    before.unlink()
    after.write_bytes(new)
    assert unchanged(find([after])[0], manifest)
    second = next(capture([tmp_path / "sessions"], archive))
    assert (second.state, second.bundle, len(list(archive.bundles()))) == ("unchanged", first.bundle, 1)
    with after.open("ab") as more:
        more.write(ITEM if back else pack(ITEM))
    third = next(capture([tmp_path / "sessions"], archive))
    assert (third.state, third.supersedes, third.rows) == ("superseding", (first.content_id,), 3)


def test_a_file_of_another_packing_is_unchanged(tmp_path: Path) -> None:
    """Only what is in it counts; another byte of the same length does."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META, ITEM))
    bundle, _ = take(path, tmp_path / "1")
    answers = []
    for new in (pack(META + ITEM, level=19), pack(META + ITEM[:-2] + b"?\n"), pack(META), pack(META, ITEM) + b"?"):
        path.write_bytes(new)
        answers.append(unchanged(find([path])[0], bundle.manifest))
    assert answers == [True, False, False, False]


def test_the_digest_of_a_beginning_is_that_of_the_content(tmp_path: Path) -> None:
    """Unless the file is asked for as it stands."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(b"one\n", b"two\n"))
    assert prefix_sha256(path, 6, unpack=True) == hashlib.sha256(b"one\ntw").hexdigest()
    assert prefix_sha256(path, 8, unpack=True) == hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert prefix_sha256(path, 0, unpack=True) == hashlib.sha256(b"").hexdigest()
    assert prefix_sha256(path, 9, unpack=True) is None
    assert prefix_sha256(path, 4) == hashlib.sha256(b"\x28\xb5\x2f\xfd").hexdigest()


def test_plain_rows_under_such_a_name_are_plain_rows(tmp_path: Path) -> None:
    """With a byte order mark or blanks before them, too; an empty file is an empty one."""
    path = tmp_path / "x.jsonl.zst"
    for number, content_ in enumerate((META + ITEM, b"\xef\xbb\xbf" + META, b" \n" + META, b"")):
        path.write_bytes(content_)
        bundle, told = take(path, tmp_path / str(number))
        assert (content(bundle), bundle.manifest.sources[0].encoding, told) == (content_, "plain", [])


def test_only_transcripts_are_unpacked(lay: Lay, tmp_path: Path) -> None:
    """A side file is kept as it is, and so is a file that is not called ``.jsonl.zst``."""
    packed = pack(b"{}\n")
    root = lay({"s1.jsonl": row("s1"), "s1/tool-results/x.jsonl.zst": packed, "other.zst": packed})
    bundle, _ = take(root / "s1.jsonl", tmp_path / "out")
    assert [(each.native_id, each.encoding) for each in bundle.manifest.sources] == [
        ("s1", "plain"), ("tool-results/x.jsonl.zst", "plain"),
    ]  # fmt: skip
    assert [entry.raw for entry in bundle.timeline() if not isinstance(entry, Row)] == [packed]
    assert content(take(root / "other.zst", tmp_path / "2")[0]) == packed


def test_transcripts_of_other_harnesses_may_be_compressed(lay: Lay, tmp_path: Path) -> None:
    """A session with its subagents and their meta files; the file's own name stands where no row names a session."""
    root = lay(
        {
            "p/s1.jsonl.zst": pack(row("s1")),
            "p/s1/subagents/agent-a1.jsonl.zst": pack(row("s1", isSidechain=True)),
            "p/s1/subagents/agent-a1.meta.json": b"{}",
            "p/agent-b2.jsonl.zst": pack(row("s1", isSidechain=True)),
            "q/f.jsonl.zst": pack(row(None, "file-history-snapshot")),
            "q/notes.jsonl.zst": pack(b'{"role":"user"}\n'),
        }
    )
    found = find([root])
    assert [(each.harness, each.session) for each in found] == [("claude", "s1"), ("claude", "f"), ("unknown", "notes")]
    assert [(piece.stream, piece.native_id, piece.parent) for piece in found[0].pieces] == [
        ("main", "s1", None), ("agent-a1", "a1", "main"), ("agent-b2", "b2", "main"),
        ("", "subagents/agent-a1.meta.json", "agent-a1"),
    ]  # fmt: skip
    manifest = record(found[0], tmp_path / "out")
    assert [each.encoding for each in manifest.sources] == ["zstd", "zstd", "zstd", "plain"]


def test_lists_are_no_sessions_when_compressed(lay: Lay) -> None:
    """Nor when a harness is named, unless the file itself is."""
    root = lay(
        {
            ".codex/history.jsonl": b'{"session_id":"t1","ts":1,"text":"hi"}\n',
            ".codex/history.jsonl.zst": pack(b'{"session_id":"t1","ts":1,"text":"hi"}\n'),
            ".codex/session_index.jsonl.zst": pack(b'{"id":"t1","thread_name":"x"}\n'),
            ".codex/sessions/rollout-1.jsonl.zst": pack(META),
        }
    )
    for harness in (None, "codex"):
        assert [each.session for each in find([root], harness)] == ["t1"]
    assert [each.session for each in find([root / ".codex/history.jsonl"], "codex")] == ["history"]


def test_a_first_row_of_megabytes_is_unpacked_to_its_end(tmp_path: Path) -> None:
    """And a session that is named late is found, as in a plain file."""
    noise = row(None, "response_item", timestamp="t", payload={"pad": NOISE[:400].hex()})
    (tmp_path / "a.jsonl.zst").write_bytes(pack(META[:-3] + b',"pad":"' + b"x" * (3 << 20) + b'"}}\n'))
    (tmp_path / "b.jsonl.zst").write_bytes(pack(noise * 200 + META.replace(b"t1", b"t2")))
    (tmp_path / "c.jsonl.zst").write_bytes(pack(noise * 2))
    assert [(each.harness, each.session) for each in find([tmp_path])] == [
        ("codex", "t1"), ("codex", "t2"), ("codex", "c"),
    ]  # fmt: skip


def test_a_compressed_file_that_shrinks_while_it_is_read_leaves_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told as the change that it is, once."""
    path = tmp_path / "x.jsonl.zst"
    packed = pack(META, NOISE[:5000] + b"\n")
    path.write_bytes(packed)
    (found,) = find([path])
    real = Tail.chunks

    def shrinking(self: Tail) -> Iterator[bytes]:
        os.truncate(path, len(pack(META)) + 5)
        yield from real(self)
        path.write_bytes(packed)

    monkeypatch.setattr(Tail, "chunks", shrinking)
    told: list[Finding] = []
    manifest = record(found, tmp_path / "out", report=told.append)
    left = len(packed) - len(pack(META))
    reason = "the file shrank while it was read"
    assert manifest.gaps == (Gap(stream="main", generation=1, offset=len(META), bytes=left, reason=reason),)
    note = f"{path} shrank while it was read; {left} bytes of it are missing"
    assert told == [Finding(kind="changed-while-read", note=note, problem=True)]


def test_what_is_appended_while_a_compressed_file_is_read_is_left_for_later(tmp_path: Path) -> None:
    """The size counts that the file had when it was opened."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pack(META))
    with Tail(path, unpack=True) as tail:
        with path.open("ab") as more:
            more.write(pack(ITEM))
        assert [entry.raw + entry.end for entry in tail.lines()] == [META]
        assert (tail.changed(), tail.damage, tail.missing) == (None, None, 0)
