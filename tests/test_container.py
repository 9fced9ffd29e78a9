"""The container: canonical tar in frames, a seal, a seek table."""

from __future__ import annotations

import hashlib
import io
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from forensic import container, ustar, zstd
from forensic.container import Writer, read, read_range, read_table
from forensic.ustar import Defect, Limits, extent, header, valid_name

NAMES = st.sampled_from(
    ["a.jsonl", "bindings.jsonl", "files/0001", "files/0002", "recorded.json", "transcripts/0001.jsonl", "z"]
)
ROWS = st.lists(st.binary(max_size=300).map(lambda row: row.replace(b"\n", b"") + b"\n"), max_size=30).map(b"".join)


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> int:
    """Frames of 4 KiB, so that a few rows fill many."""
    monkeypatch.setattr(container, "FRAME", 4096)
    monkeypatch.setattr(ustar, "FRAME", 4096)
    return 4096


def packed(members: Mapping[str, bytes], chunk: int = 1 << 20) -> bytes:
    """A container with a small manifest and these members, handed over in chunks."""
    out = io.BytesIO()
    contents = {"manifest.json": b"{}\n"} | dict(sorted(members.items()))
    with Writer(out) as writer:
        for name, data in contents.items():
            writer.add(name, len(data), [data[at : at + chunk] for at in range(0, len(data), chunk)])
        writer.finish()
    return out.getvalue()


def unpacked(data: bytes, limits: Limits = ustar.LIMITS, *, threads: bool = False) -> dict[str, bytes]:
    """The members of a container, strictly read, their digests compared."""
    found: dict[str, bytes] = {}
    with ThreadPoolExecutor(1) as pool:
        for pieces in read(io.BytesIO(data), limits, pool if threads else None):
            for piece in pieces:
                assert len(found.setdefault(piece.member, b"")) == piece.start
                found[piece.member] += piece.data
                if piece.digest is not None:
                    assert len(found[piece.member]) == piece.size
                    assert piece.digest == hashlib.sha256(found[piece.member]).hexdigest()
    return found


def frames(data: bytes) -> list[bytes]:
    """The contents of the data frames, by way of the seek table."""
    stored, _ = read_table(io.BytesIO(data))
    return [zstd.decompress(data[here:there]) for here, there in pairwise(stored[:-1])]


def test_what_is_written_is_read() -> None:
    """A member comes back with its bytes, also an empty one and one of many frames."""
    members = {"a.jsonl": b"{}\n" * 5, "empty": b"", "files/0001": bytes(range(256)) * 40_000}
    assert unpacked(packed(members)) == {"manifest.json": b"{}\n"} | members


@given(members=st.dictionaries(NAMES, ROWS | st.binary(max_size=2000), max_size=6), chunk=st.integers(1, 4000))
def test_written_and_read_in_small_frames(members: dict[str, bytes], chunk: int) -> None:
    """Whatever the members, they come back, with a thread and without, and chunks leave no trace in the bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(container, "FRAME", 4096)
        patch.setattr(ustar, "FRAME", 4096)
        data = packed(members, chunk)
        assert data == packed(members)
        assert unpacked(data) == unpacked(data, threads=True) == {"manifest.json": b"{}\n"} | members
        contents = frames(data)
    whole = b"".join(contents)
    assert max(map(len, contents)) <= 4096
    assert whole.endswith(bytes(1024))
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        assert [entry.name for entry in tar] == ["manifest.json", *sorted(members)]


def test_frames_end_at_row_ends(small_frames: int) -> None:
    """Rows stay whole, the manifest and the verdict are alone, and no frame is left half empty without need."""
    row = b"x" * 999 + b"\n"
    contents = frames(packed({"a.jsonl": row * 20, "recorded.json": b"{}\n", "z.jsonl": row * 3}))
    assert [len(content) for content in contents] == [1024, 3512, 4000, 4000, 4000, 4000, 1480, 1024, 3584, 1024]
    assert contents[0].startswith(b"manifest.json\0")
    assert contents[-3].startswith(b"recorded.json\0")
    assert all(content.endswith(b"\n") for content in contents[1:5])
    assert small_frames >= max(map(len, contents))


def test_a_long_row_fills_frames_of_its_own(small_frames: int) -> None:
    """Rows before and after it do not share its frames; its header does."""
    long = b"y" * 10_000 + b"\n"
    contents = frames(packed({"a.jsonl": b"x\n" + long + b"z\n"}))
    assert [len(content) for content in contents[1:]] == [514, 4096, 4096, 1809, 2 + 235 + 1024]
    assert contents[2] == b"y" * small_frames
    first = frames(packed({"a.jsonl": long}))
    assert first[1].startswith(b"a.jsonl\0")
    assert len(first[1]) == small_frames


def test_other_members_are_cut_where_frames_are_full(small_frames: int) -> None:
    """A side file is whole in its frame, or else in full frames."""
    contents = frames(packed({"files/0001": b"s" * 3000, "files/0002": b"b" * 9000}))
    assert [len(content) for content in contents[1:]] == [3584, 4096, 4096, 2560]
    assert small_frames == 4096


def test_bytes_do_not_depend_on_chunks() -> None:
    """However a member is handed over, the file is the same."""
    members = {"a.jsonl": b"".join(b"%d\n" % n for n in range(3000)), "files/0001": bytes(5000)}
    assert packed(members) == packed(members, 1) == packed(members, 777)


def test_a_member_of_another_size_is_refused() -> None:
    """A file that grows or shrinks while it is packed is noticed."""
    with Writer(io.BytesIO()) as writer, pytest.raises(Defect, match="changed while it was packed"):
        writer.add("a", 3, [b"ab"])
    with Writer(io.BytesIO()) as writer, pytest.raises(Defect, match="changed while it was packed"):
        writer.add("a.jsonl", 3, [b"ab\n\n"])


def test_a_name_that_cannot_be_is_refused() -> None:
    """What the reader would refuse is not written."""
    with Writer(io.BytesIO()) as writer, pytest.raises(Defect, match="cannot be a member"):
        writer.add("../a", 0, [])


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True),
        ("transcripts/0001.jsonl", True),
        ("a/b/c/d", True),
        ("0._-", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("/".join(["a" * 24] * 4), True),
        ("/".join(["a" * 25] * 4), False),
        ("a/b/c/d/e", False),
        ("", False),
        ("A", False),
        (".a", False),
        ("-a", False),
        ("a/", False),
        ("/a", False),
        ("a//b", False),
        ("..", False),
        ("a/../b", False),
        ("a\\b", False),
        ("a:b", False),
        ("a b", False),
        ("a\n", False),
        ("\u00e9", False),
        ("\u0661", False),
        ("con", False),
        ("a/nul.txt", False),
        ("com1/a", False),
        ("lpt9.tar.gz", False),
        ("console", True),
        ("com10", True),
    ],
)
def test_names(name: str, valid: bool) -> None:  # noqa: FBT001 -- a column of the table above
    """Names are few, plain, short, and harmless on every system."""
    assert valid_name(name) is valid


def test_headers_are_those_of_tar() -> None:
    """The header is the ustar header that Python's own tar writes for such a file."""
    info = tarfile.TarInfo("transcripts/0001.jsonl")
    info.size, info.mode = 123_456, 0o644
    ours, pythons = header("transcripts/0001.jsonl", 123_456), info.tobuf(tarfile.USTAR_FORMAT)
    assert (ours[:148], ours[156:329], ours[345:]) == (pythons[:148], pythons[156:329], pythons[345:])
    # the device numbers of a file are left to the writer: ours are zeros in digits, as GNU tar's are
    assert ours[329:345] == b"0000000\0" * 2
    assert tarfile.TarInfo.frombuf(ours, "ascii", "strict").size == 123_456
    assert extent(0) == 512
    assert extent(1) == extent(512) == 1024


def test_the_seal_covers_every_byte_before_it() -> None:
    """Forty bytes: a magic, and the SHA-256 of everything up to there."""
    data = packed({"a": b"x"})
    at = data.index(b"FRSEAL1\0") - 8
    assert data[at : at + 8] == b"\x5b\x2a\x4d\x18" + struct.pack("<I", 40)
    assert data[at + 16 : at + 48] == hashlib.sha256(data[:at]).digest()


def test_the_seek_table_is_official() -> None:
    """It counts every frame before it, the seal among them as one without content, and ends the file."""
    data = packed({"a": b"x" * 100})
    at = data.index(b"FRSEAL1\0") - 8
    table = data[at + 48 :]
    count, flags, magic = struct.unpack("<IBI", table[-9:])
    assert (count, flags, magic) == (3, 0, 0x8F92EAB1)
    assert table[:8] == b"\x5e\x2a\x4d\x18" + struct.pack("<I", len(table) - 8)
    pairs = [struct.unpack("<II", table[8 + 8 * n : 16 + 8 * n]) for n in range(count)]
    assert pairs[-1] == (48, 0)
    assert sum(stored for stored, _ in pairs) == at + 48
    assert [content for _, content in pairs] == [1024, 1024 + 1024, 0]


def test_looking_up_reads_what_streaming_reads(small_frames: int) -> None:
    """Any stretch of the tar can be had by the seek table."""
    data = packed({"a.jsonl": b"".join(b"%d\n" % n for n in range(5000)), "recorded.json": b"{}"})
    whole = b"".join(frames(data))
    for start, size in ((0, 10), (1000, small_frames), (4000, 9000), (len(whole) - 5, 5), (7, 0)):
        assert read_range(io.BytesIO(data), start, size) == whole[start : start + size]
    with pytest.raises(Defect, match="the seek table ends before its archive"):
        read_range(io.BytesIO(data), len(whole) - 5, 6)


@pytest.mark.parametrize("cut", [1, 5, 9, 20, 60])
def test_looking_up_needs_a_seek_table(cut: int) -> None:
    """Without it nothing is guessed."""
    data = packed({"a": b"x"})
    with pytest.raises(Defect, match="no usable seek table"):
        read_table(io.BytesIO(data[:-cut]))


def test_limits_are_judged_before_anything_is_read() -> None:
    """Members, frames and bytes beyond the limits are refused where the first of them stands."""
    data = packed({"a.jsonl": b"x\n", "b": b"y", "c": b"z"})
    defect = refused(data, Limits(members=3))
    assert (str(defect), defect.kind) == (f"frame 2 at byte {defect.at}: more than 3 members", "limit")
    assert refused(data, Limits(frames=1)).reason == "larger than any bundle may be"
    assert refused(data, Limits(total=2000)).kind == "limit"
    assert refused(data, Limits(manifest=2)).reason == "a manifest of 3 bytes, more than 2"
    assert unpacked(data, Limits(members=4, frames=2, total=1024 + 3 * 1024 + 1024, manifest=3)).keys() >= {"a.jsonl"}


def refused(data: bytes, limits: Limits = ustar.LIMITS) -> Defect:
    """What is wrong."""
    with pytest.raises(Defect) as caught:
        unpacked(data, limits)
    return caught.value


def test_damage_further_on_waits_for_what_is_before_it(small_frames: int) -> None:
    """A reader that is ahead hands out every sound frame before it tells of a damaged one."""
    data = bytearray(packed({"a.jsonl": (b"x" * 999 + b"\n") * 40}))
    stored, _ = read_table(io.BytesIO(data))
    data[stored[6] - 1] ^= 1
    with ThreadPoolExecutor(1) as pool:
        pieces = read(io.BytesIO(data), pool=pool)
        assert [next(pieces)[0].frame for _ in range(5)] == [1, 2, 3, 4, 5]
        with pytest.raises(Defect) as caught:
            next(pieces)
    assert (caught.value.frame, caught.value.at) == (6, stored[5])
    assert small_frames == 4096


def tool(name: str) -> str:
    """A stock tool, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A container of several frames in a file."""
    path = tmp_path / "bundle.zst"
    path.write_bytes(
        packed({"a.jsonl": b'{"n":1}\n' * 900_000, "files/0001": bytes(5 << 20), "recorded.json": b"{}\n"})
    )
    return path


def run(*command: str | Path) -> Sequence[str]:
    """The lines that a tool prints, when it is content."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_stock_tar_lists_it(stock: Path) -> None:
    """GNU tar and bsdtar show all members, in order, without our help."""
    tool("zstd")
    expected = ["manifest.json", "a.jsonl", "files/0001", "recorded.json"]
    assert run(tool("tar"), "--zstd", "-tf", stock) == expected


def test_stock_zstd_tests_it(stock: Path) -> None:
    """The compressor's own tool finds every checksum right, and unpacks the same tar."""
    run(tool("zstd"), "-t", stock)
    done = subprocess.run([tool("zstd"), "-dc", stock], check=True, capture_output=True)
    assert done.stdout == b"".join(frames(stock.read_bytes()))


def test_a_frame_is_what_one_call_gives() -> None:
    """Frames come from one call each, with size and checksum, so that equal content gives equal bytes."""
    content = b"evidence " * 1000
    stored = zstd.compress(content)
    assert stored == zstandard.ZstdCompressor(level=9, write_checksum=True, write_content_size=True).compress(content)
    assert zstd.header(stored) == (9000, 9000, 0, True)
    assert zstd.decompress(stored) == content
    with pytest.raises(zstd.NotZstd):
        zstd.decompress(stored + stored)
    with pytest.raises(zstd.NotZstd):
        zstd.header(b"\x28\xb5\x2f\xfd")
    with pytest.raises(zstd.NotZstd):
        zstd.header_length(b"")
