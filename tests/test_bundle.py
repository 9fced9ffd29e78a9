"""Bundles: what is sealed is what was recorded, and nothing that was changed afterwards passes for it."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import pytest
import zstandard
from bundles import Side, lines, members, payload, payload_evidence, record, sealed, write
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forensic import bundle as rooms
from forensic import container, ustar
from forensic.bundle import Bundle, content_id_of, evidence_of, open_bundle, seal
from forensic.errors import (
    AlreadyThere,
    Damaged,
    ForensicError,
    NewerFormat,
    NoSuchPath,
    NotABundle,
    TooLarge,
    WriteFailed,
)
from forensic.jsonio import canonical
from forensic.model import (
    Binding,
    CaptureState,
    Entry,
    Gap,
    Generation,
    Ground,
    Manifest,
    Payload,
    Redaction,
    Ref,
    Role,
    Row,
    Salvaged,
    SideFile,
    Source,
    Unread,
)

ROWS = lines(b'{"type":"user","n":1}', b"no JSON", b"", b'{"n":2}\r') + b'{"torn":'
AGENT = lines(b'{"agent":1}', b'{"agent":2}')


def full(folder: Path, **fields: Any) -> Path:
    """A sealed bundle with something in every room."""
    return sealed(
        folder,
        {"main": [ROWS, AGENT], "agent-a1": AGENT},
        sides=[Side("a1.meta.json", [b'{"x":1}', b'{"x":2}'], "agent-a1"), Side("notes.txt", [b""])],
        payloads=[payload(1, b'{"hook":1}\n'), payload(5, b"\xff")],
        bindings=[Binding(stream="main", generation=1, rows=(0, 5), after=1, ground=Ground.PAYLOAD)],
        context=[{"cwd": "/home/dev/demo", "head": "refs/heads/main"}],
        recorded=b'{"schema":1}\n',
        **fields,
    )


def content_of(path: Path) -> dict[str, bytes]:
    """All members of a bundle, by other means than ours."""
    reader = zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True)
    with tarfile.open(fileobj=io.BytesIO(reader.read())) as tar:
        return {entry.name: cast("IO[bytes]", tar.extractfile(entry)).read() for entry in tar}


def test_the_timeline_is_what_was_recorded(tmp_path: Path) -> None:
    """Side files, then payloads, then rows, stream by stream; refs, ends and bytes as they were."""
    bundle = open_bundle(full(tmp_path))
    expected: list[Entry] = [
        SideFile(
            ref=Ref("files/0001", 1, 0), native_id="a1.meta.json", stream="agent-a1", raw=b'{"x":1}', superseded=True
        ),
        SideFile(ref=Ref("files/0001", 2, 0), native_id="a1.meta.json", stream="agent-a1", raw=b'{"x":2}'),
        SideFile(ref=Ref("files/0003", 1, 0), native_id="notes.txt", stream="main", raw=b""),
        payload(1, b'{"hook":1}\n'),
        payload(5, b"\xff"),
        Row(ref=Ref("main", 1, 0), line=1, raw=b'{"type":"user","n":1}'),
        Row(ref=Ref("main", 1, 22), line=2, raw=b"no JSON"),
        Row(ref=Ref("main", 1, 30), line=3, raw=b""),
        Row(ref=Ref("main", 1, 31), line=4, raw=b'{"n":2}', end=b"\r\n"),
        Row(ref=Ref("main", 1, 40), line=5, raw=b'{"torn":', end=b""),
        Row(ref=Ref("main", 2, 0), line=1, raw=b'{"agent":1}'),
        Row(ref=Ref("main", 2, 12), line=2, raw=b'{"agent":2}'),
        Row(ref=Ref("agent-a1", 1, 0), line=1, raw=b'{"agent":1}', agent="a1"),
        Row(ref=Ref("agent-a1", 1, 12), line=2, raw=b'{"agent":2}', agent="a1"),
    ]
    assert list(bundle.timeline()) == expected
    assert list(open_bundle(tmp_path / "recording").timeline()) == expected
    assert [*bundle.bindings()] == [Binding(stream="main", generation=1, rows=(0, 5), after=1, ground=Ground.PAYLOAD)]
    assert [*bundle.context()] == [{"cwd": "/home/dev/demo", "head": "refs/heads/main"}]
    assert bundle.recorded() == b'{"schema":1}\n'
    bundle.check()


def test_an_unpacked_recording_reads_the_same(tmp_path: Path) -> None:
    """A folder has no bundle id, else all is as in the sealed bundle."""
    path = full(tmp_path)
    folder = open_bundle(tmp_path / "recording")
    folder.check()
    assert (folder.sealed, folder.bundle_id, folder.size) == (False, None, 0)
    assert folder.content_id == open_bundle(path).content_id
    assert [*folder.bindings()] == [*open_bundle(path).bindings()]
    assert [*folder.context()] == [*open_bundle(path).context()]
    assert folder.recorded() == b'{"schema":1}\n'


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    """A recording needs no payloads, bindings, context, verdict or side files."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    for name in ("payloads.jsonl", "bindings.jsonl", "context.jsonl"):
        (folder / name).unlink()
    seal(folder, tmp_path / "bundle.zst")
    for bundle in (open_bundle(folder), open_bundle(tmp_path / "bundle.zst")):
        bundle.check()
        assert ([*bundle.bindings()], [*bundle.context()], bundle.recorded()) == ([], [], None)
        assert len([*bundle.timeline()]) == 2


def test_the_two_ids(tmp_path: Path) -> None:
    """The content id is of the evidence alone, the bundle id of the whole manifest."""
    bundle = open_bundle(full(tmp_path))
    contents = content_of(bundle.path)
    assert bundle.bundle_id == hashlib.sha256(contents["manifest.json"]).hexdigest()
    evidence = msgspec.json.decode(contents["manifest.json"])["evidence"]
    plain = msgspec.json.encode(evidence, order="sorted")
    assert bundle.content_id == hashlib.sha256(plain).hexdigest() == content_id_of(bundle.manifest.evidence)
    assert plain in contents["manifest.json"]
    assert [stream["stream"] for stream in evidence["streams"]] == ["main", "agent-a1", "files/0001", "files/0003"]
    assert evidence["streams"][0]["generations"][0] == {
        "bytes": len(ROWS),
        "rows": 5,
        "sha256": hashlib.sha256(ROWS).hexdigest(),
    }
    framed = b'11:{"hook":1}\n,1:\xff,'
    assert evidence["payloads"] == [{"bytes": 12, "rows": 2, "sha256": hashlib.sha256(framed).hexdigest()}]


def test_the_content_id_tells_content_alone(tmp_path: Path) -> None:
    """Another time, path or verdict is another bundle of the same content; another byte is other content."""
    first = open_bundle(sealed(tmp_path / "a", {"main": AGENT}))
    later = replace(first.manifest.capture, sealed_at="2027-01-01T00:00:00.000000Z")
    second = open_bundle(sealed(tmp_path / "b", {"main": AGENT}, capture=later, recorded=b"{}\n"))
    third = open_bundle(sealed(tmp_path / "c", {"main": AGENT[:-2] + b" \n"}))
    assert first.content_id == second.content_id != third.content_id
    assert len({first.bundle_id, second.bundle_id, third.bundle_id}) == 3


def test_the_manifest_lists_every_other_member(tmp_path: Path) -> None:
    """Size and SHA-256 of each, and they are what stock tools find in the file."""
    bundle = open_bundle(full(tmp_path))
    contents = content_of(bundle.path)
    manifest = contents.pop("manifest.json")
    assert list(contents) == sorted(contents)
    found = {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()}
    assert {name: (each.size, each.sha256) for name, each in bundle.manifest.members.items()} == found
    assert bundle.size == sum(map(len, contents.values()))
    assert manifest == canonical(msgspec.json.decode(manifest)) + b"\n"


def everything() -> dict[str, Any]:
    """Every field of a manifest that has a default, filled."""
    return {
        "producer_versions": ("2.1.0", "2.1.1"),
        "gaps": (Gap(stream="main", generation=1, offset=3, bytes=4, reason="the file shrank"),),
        "supersedes": ("0" * 64, "1" * 64),
        "forked_from": "2" * 64,
        "redaction": Redaction(of="3" * 64, policy="public", rules="4" * 64, counts={"email": 2}),
        "salvaged_from": Salvaged(
            content_id="5" * 64, bundle_id="6" * 64, lost=("files/0009",), unverified=("transcripts/0001.jsonl",)
        ),
    }


def test_every_optional_field_comes_back(tmp_path: Path) -> None:
    """What later versions fill in is in the format from the first: it is kept, and changes no content id."""
    fields = everything()
    bundle = open_bundle(sealed(tmp_path, {"main": AGENT}, **fields))
    plain = open_bundle(sealed(tmp_path / "plain", {"main": AGENT}))
    assert {name: getattr(bundle.manifest, name) for name in fields} == fields
    assert set(Manifest.__struct_fields__) - fields.keys() == {
        "format", "requires", "evidence", "harness", "session", "sources", "capture", "members"
    }  # fmt: skip
    assert bundle.content_id == plain.content_id
    assert [row.unverified for row in bundle.timeline() if isinstance(row, Row)] == [True, True]
    bundle.check()


def test_every_field_of_a_source_comes_back(tmp_path: Path) -> None:
    """Sources of which nothing was captured are told, and are no evidence."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    manifest = open_bundle(folder).manifest
    main = replace(
        manifest.sources[0],
        path="/home/dev/t.jsonl", parent="agent-b2", found_by="hook", state=CaptureState.LIVE, encoding="zstd",
        unread=Unread(12, 3), partial=True, gap=True,
        generations=(replace(manifest.sources[0].generations[0], dev=1, ino=2, mtime_ns=3, ended_by="replaced"),),
    )  # fmt: skip
    missed = Source(stream="agent-b2", role=Role.SUBAGENT, native_id="b2", state=CaptureState.MISSED)
    refused = Source(stream="files/0001", role=Role.SIDE, native_id="x", state=CaptureState.REFUSED)
    write(folder, {"manifest.json": canonical(replace(manifest, sources=(main, missed, refused)))})
    seal(folder, tmp_path / "bundle.zst")
    bundle = open_bundle(tmp_path / "bundle.zst")
    bundle.check()
    assert bundle.manifest.sources == (main, missed, refused)
    assert bundle.manifest.evidence == manifest.evidence == evidence_of((main, missed, refused))


def test_unknown_fields_and_members_are_kept_and_left_aside(tmp_path: Path) -> None:
    """A newer writer may add both without telling: they are hashed, listed, carried along, and mean nothing here."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    seal(folder, tmp_path / "plain.zst")
    value = msgspec.json.decode((folder / "manifest.json").read_bytes())
    write(folder, {"stores/0001.jsonl": b"whatever", "transcripts/index": b"\0\1\2"})
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del contents["manifest.json"]
    table = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in contents.items()}
    value |= {"mood": ["good"], "members": table}
    write(folder, {"manifest.json": msgspec.json.encode(value)})
    seal(folder, tmp_path / "bundle.zst")
    bundle = open_bundle(tmp_path / "bundle.zst")
    bundle.check()
    assert bundle.unknown == ("stores/0001.jsonl", "transcripts/index")
    assert [bundle.member(name) for name in bundle.unknown] == [b"whatever", b"\0\1\2"]
    assert list(bundle.timeline()) == list(open_bundle(tmp_path / "plain.zst").timeline())
    assert msgspec.json.decode(content_of(bundle.path)["manifest.json"])["mood"] == ["good"]
    assert bundle.content_id == open_bundle(tmp_path / "plain.zst").content_id


def test_seal_open_seal(tmp_path: Path) -> None:
    """What is unpacked from a bundle by any tool seals to the same bytes."""
    path = full(tmp_path, **everything() | {"salvaged_from": None, "gaps": ()})
    write(tmp_path / "again", content_of(path))
    bundle_id = seal(tmp_path / "again", tmp_path / "again.zst")
    assert (tmp_path / "again.zst").read_bytes() == path.read_bytes()
    assert bundle_id == open_bundle(path).bundle_id == open_bundle(tmp_path / "again").bundle_id


CONTENT = st.lists(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9)).map(canonical) | st.binary(max_size=30),
    max_size=8,
).map(b"\n".join)


@settings(max_examples=40)
@given(
    main=st.lists(CONTENT, min_size=1, max_size=3),
    agent=CONTENT,
    side=st.lists(st.binary(max_size=50), max_size=2),
    hooks=st.lists(st.binary(max_size=40), max_size=3),
)
def test_whatever_is_recorded_comes_back(
    tmp_path_factory: pytest.TempPathFactory, main: list[bytes], agent: bytes, side: list[bytes], hooks: list[bytes]
) -> None:
    """Any bytes in any room: the same from folder and bundle, and the provider's files can be made again."""
    folder = tmp_path_factory.mktemp("whatever")
    payloads = [payload(n, raw) for n, raw in enumerate(hooks, 1)]
    sides = [Side("side", side)] if side else []
    path = sealed(folder, {"main": main, "agent-x": agent}, sides=sides, payloads=payloads)
    entries = list(open_bundle(path).timeline())
    assert entries == list(open_bundle(folder / "recording").timeline())
    for stream, number, content in (*(("main", n, each) for n, each in enumerate(main, 1)), ("agent-x", 1, agent)):
        rows = [row for row in entries if isinstance(row, Row) and row.ref == Ref(stream, number, row.ref.offset)]
        assert b"".join(row.raw + row.end for row in rows) == content
    assert [entry.raw for entry in entries if isinstance(entry, SideFile)] == side
    assert [entry for entry in entries if isinstance(entry, Payload)] == payloads
    open_bundle(path).check()
    assert open_bundle(path).manifest.evidence.payloads == payload_evidence(payloads)


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small bundle that has a verdict, a payload, a side file and a transcript."""
    folder = tmp_path_factory.mktemp("small")
    rows, sides, payloads = lines(b'{"n":1}', b"two"), [Side("x", [b"{}"])], [payload(1, b"{}")]
    path = sealed(folder, {"main": rows}, sides=sides, payloads=payloads, recorded=b"{}\n")
    return path.read_bytes()


def accepted(path: Path) -> bool:
    """Whether nothing is wrong with a file."""
    try:
        open_bundle(path).check()
    except (Damaged, NewerFormat):
        return False
    return True


def test_every_flipped_bit_is_noticed(small: bytes, tmp_path: Path) -> None:
    """There is no bit in a bundle that can be changed: not in a frame, its header, the seal, the seek table."""
    path = tmp_path / "bundle.zst"
    path.write_bytes(small)
    survivors = []
    with path.open("r+b", buffering=0) as out:
        for at, byte in enumerate(small):
            for bit in range(8):
                os.pwrite(out.fileno(), bytes([byte ^ 1 << bit]), at)
                if accepted(path):
                    survivors.append((at, bit))
            os.pwrite(out.fileno(), bytes([byte]), at)
    assert survivors == []
    assert accepted(path)


def test_every_truncation_is_noticed(small: bytes, tmp_path: Path) -> None:
    """A file that ends early is refused wherever it ends."""
    path = tmp_path / "bundle.zst"
    path.write_bytes(small)
    for size in reversed(range(len(small))):
        os.truncate(path, size)
        assert not accepted(path), size


def test_the_timeline_notices_as_well(small: bytes, tmp_path: Path) -> None:
    """Reading entries refuses what checking refuses, for flips all over the file."""
    path = tmp_path / "bundle.zst"
    for at in range(0, len(small), 7):
        path.write_bytes(small[:at] + bytes([small[at] ^ 1 << at % 8]) + small[at + 1 :])
        with pytest.raises((Damaged, NewerFormat)):
            list(open_bundle(path).timeline())


def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int = 400) -> Path:
    """A bundle of many frames of 4 KiB."""
    monkeypatch.setattr(container, "FRAME", 4096)
    monkeypatch.setattr(ustar, "FRAME", 4096)
    noise = random.Random(7)  # noqa: S311 -- noise, the same every time
    raws = [canonical({"n": n, "text": noise.randbytes(40).hex()}) for n in range(rows)]
    return sealed(tmp_path, {"main": lines(*raws), "agent-x": lines(*raws[:50])}, recorded=b"{}\n")


def test_damage_is_named_with_member_row_and_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row that cannot be had is named, with the frame and where that begins in the file."""
    path = many(tmp_path, monkeypatch)
    with path.open("rb") as stream:
        stored, _ = container.read_table(stream)
    counts = {}
    with path.open("rb") as stream:
        for pieces in container.read(stream):
            for piece in pieces:
                counts[piece.frame] = (piece.member, piece.data.count(b"\n"))
    rows_before = sum(
        count for frame, (member, count) in counts.items() if frame < 9 and member.startswith("transcripts")
    )
    data = bytearray(path.read_bytes())
    data[stored[8] + 40] ^= 0x10
    path.chmod(0o600)
    path.write_bytes(data)
    with pytest.raises(Damaged) as caught:
        open_bundle(path).check()
    assert str(caught.value) == (
        f"{path}: damaged: transcripts/0001.jsonl, row {rows_before + 1}, frame 9 at byte {stored[8]}: "
        "data do not match their checksum, or are malformed"
    )
    with pytest.raises(Damaged) as again:
        list(open_bundle(path).timeline())
    assert str(again.value) == str(caught.value)


def test_a_timeline_gives_everything_before_the_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of sound frames come before the refusal, so a reader knows how far it came."""
    path = many(tmp_path, monkeypatch)
    whole = list(open_bundle(path).timeline())
    data = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(data[: len(data) // 2])
    seen: list[Entry] = []

    def drain() -> None:
        for entry in open_bundle(path).timeline():
            seen.append(entry)  # noqa: PERF402 -- what came before the refusal is looked at

    with pytest.raises(Damaged, match="the file ends inside a frame"):
        drain()
    assert 100 < len(seen) < len(whole)
    assert seen == whole[: len(seen)]


def test_a_timeline_can_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has seen enough goes; no thread and no file stays behind."""
    monkeypatch.setattr(rooms, "_SMALL", 0)
    path = many(tmp_path, monkeypatch)
    before = threading.active_count()
    timeline = open_bundle(path).timeline()
    next(timeline)
    del timeline
    assert threading.active_count() == before


def test_threads_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are read with a second thread: the same entries, the same refusals."""
    path = many(tmp_path, monkeypatch)
    plain = list(open_bundle(path).timeline())
    monkeypatch.setattr(rooms, "_SMALL", 0)
    assert list(open_bundle(path).timeline()) == plain
    open_bundle(path).check()
    damaged = tmp_path / "damaged.zst"
    data = path.read_bytes()
    for at in range(100, len(data), 997):
        damaged.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((Damaged, NewerFormat)):
            open_bundle(damaged).check()


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is told adds up to the size of the bundle."""
    path = many(tmp_path, monkeypatch)
    told: list[int] = []
    open_bundle(path).check(told.append)
    assert sum(told) == open_bundle(path).size
    assert len(told) > 20


# --- what is no bundle -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"\x1f\x8b\x08\0", "it is gzip"),
        (b"PK\x03\x04rest", "it is a zip archive"),
        (b"BZh9", "it is bzip2"),
        (b"\xfd7zXZ\0", "it is xz"),
        (b"SQLite format 3\0", "it is a SQLite database"),
        (b'{"type":"user"}\n', "it looks like a transcript: capture it first (forensic capture PATH)"),
        (b'\xef\xbb\xbf{"type":"user"}\n', "it looks like a transcript: capture it first (forensic capture PATH)"),
        (b"manifest.json" + bytes(600), "it is a tar without compression: a bundle is used as it was sealed"),
        (b"hello", "it does not begin as one does"),
        (b"\x28\xb5", "it does not begin as one does"),
    ],
)
def test_other_files(data: bytes, reason: str, tmp_path: Path) -> None:
    """What lies there instead is said, with what to do about it where that is known."""
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(NotABundle) as caught:
        open_bundle(path)
    assert str(caught.value) == f"{path}: not a forensic bundle: {reason}"


def test_other_archives_of_zstd(tmp_path: Path) -> None:
    """A zstd file that holds something else is no bundle either."""
    path = tmp_path / "file"
    path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(ustar.header("a.txt", 0) + bytes(1024)))
    with pytest.raises(NotABundle, match="its first member is not manifest"):
        open_bundle(path)


def test_folders_and_devices(tmp_path: Path) -> None:
    """A folder without a manifest, a pipe, and nothing at all."""
    with pytest.raises(NotABundle, match="a folder without manifest"):
        open_bundle(tmp_path)
    with pytest.raises(NoSuchPath):
        open_bundle(tmp_path / "nothing")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(NotABundle, match="it is neither a file nor a folder"):
        open_bundle(pipe)


def test_a_newer_folder_is_told_as_newer(tmp_path: Path) -> None:
    """Format and requirements are looked at before anything else of the manifest."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    write(folder, {"manifest.json": b'{"format":2,"sources":"new"}'})
    with pytest.raises(NewerFormat) as caught:
        open_bundle(folder)
    assert str(caught.value) == (
        f"{folder}: made by a newer version: manifest.json: bundle format 2, this version reads up to 1; "
        "please update forensic"
    )
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b"null", b'{"format":"1"}', b'{"format":1}', b"[" * 100_000, b"\xff"]
)
def test_a_broken_manifest(raw: bytes, tmp_path: Path) -> None:
    """Whatever stands in its place is one clear refusal."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    write(folder, {"manifest.json": raw})
    with pytest.raises(Damaged, match="not a manifest: "):
        open_bundle(folder)


def test_opening_reads_the_manifest_only(small: bytes, tmp_path: Path) -> None:
    """Everything behind the first frame may be missing: it is noticed by whoever needs it."""
    path = tmp_path / "bundle.zst"
    path.write_bytes(small[: len(small) * 3 // 4])
    bundle = open_bundle(path)
    assert bundle.manifest.session == "5e550000"
    with pytest.raises(Damaged, match="no usable seek table"):
        bundle.recorded()
    with pytest.raises(Damaged):
        bundle.check()


def test_large_members_are_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up is held in memory, so it has a limit; the timeline has another."""
    path = sealed(tmp_path, {"main": AGENT}, recorded=b"x" * 100)
    monkeypatch.setattr("forensic.storage._LOOKUP_LIMIT", 99)
    with pytest.raises(TooLarge, match="100 bytes are more than is looked up at once"):
        open_bundle(path).recorded()
    open_bundle(path).check()


def test_looking_up_compares_with_the_hash(small: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is looked up is what the manifest says, or refused."""
    path = tmp_path / "bundle.zst"
    path.write_bytes(small)
    bundle = open_bundle(path)
    assert bundle.member("recorded.json") == b"{}\n"
    assert bundle.member("files/0001") == b"{}"
    assert bundle.member("nothing") is None
    assert bundle.member("../../etc/passwd") is None
    monkeypatch.setattr("forensic.storage.read_range", lambda *_: b"[]\n")
    with pytest.raises(Damaged, match="does not match its SHA-256 in the manifest"):
        bundle.recorded()


# --- sealing ---------------------------------------------------------------------------------------------------------


def test_a_sealed_bundle_is_read_only(tmp_path: Path) -> None:
    """Mode 0400, and nothing else lies beside it."""
    path = sealed(tmp_path, {"main": AGENT})
    assert path.stat().st_mode & 0o777 == 0o400
    assert path.stat().st_nlink == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bundle.zst", "recording"]


def test_sealing_twice_is_a_success(tmp_path: Path) -> None:
    """The same content under the same name is there already, and is left as it is."""
    path = sealed(tmp_path, {"main": AGENT})
    before = path.stat()
    assert seal(tmp_path / "recording", path) == open_bundle(path).bundle_id
    again = record(tmp_path / "again", {"main": AGENT}, recorded=b"{}\n")
    assert seal(again, path) == open_bundle(path).bundle_id
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_other_content_is_not_replaced(tmp_path: Path) -> None:
    """A name that is taken by anything else is refused, and what lies there stays."""
    path = sealed(tmp_path, {"main": AGENT})
    before = path.read_bytes()
    other = record(tmp_path / "other", {"main": ROWS})
    with pytest.raises(AlreadyThere):
        seal(other, path)
    assert path.read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    folder = record(tmp_path / "folder", {"main": ROWS})
    for taken in (folder, folder / "payloads.jsonl", tmp_path / "link"):
        with pytest.raises(AlreadyThere):
            seal(other, taken)


def test_damaged_content_of_that_name_is_told(tmp_path: Path) -> None:
    """A bundle with the right manifest that is damaged behind it does not pass for the same content."""
    path = sealed(tmp_path, {"main": AGENT})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    with pytest.raises(Damaged):
        seal(tmp_path / "recording", path)


def test_two_sealers_at_once(tmp_path: Path) -> None:
    """Both succeed, one bundle stands there, nothing else."""
    record(tmp_path / "recording", {"main": AGENT * 100})
    target = tmp_path / "bundle.zst"
    barrier = threading.Barrier(2)

    def run() -> str:
        barrier.wait()
        return seal(tmp_path / "recording", target)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(run), pool.submit(run)
    assert first.result() == second.result() == open_bundle(target).bundle_id
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bundle.zst", "recording"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_where_there_are_no_hard_links(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On such a file system the finished file is renamed."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    path = sealed(tmp_path, {"main": AGENT})
    open_bundle(path).check()
    assert path.stat().st_mode & 0o777 == 0o400
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bundle.zst", "recording"]


CALLS = ["tempfile.mkstemp", "os.fsync", "os.link", "forensic.container.Writer.finish", "pathlib.Path.chmod"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES])
def test_when_writing_fails(call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk and its like: one clear line, nothing half-written, the recording as it was."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    folder = record(tmp_path / "recording", {"main": AGENT})
    target = tmp_path / "bundle.zst"
    monkeypatch.setattr(call, fail)
    with pytest.raises(WriteFailed) as caught:
        seal(folder, target)
    assert str(caught.value) == f"cannot write {target}: {os.strerror(code)}; nothing was left half-written"
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["recording"]
    assert seal(folder, target)


def test_a_folder_to_write_into_that_is_not_there(tmp_path: Path) -> None:
    """It is told, and not made."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    with pytest.raises(WriteFailed, match="No such file or directory"):
        seal(folder, tmp_path / "nowhere" / "bundle.zst")
    assert not (tmp_path / "nowhere").exists()


def test_an_interrupted_seal_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the user has had enough."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    folder = record(tmp_path / "recording", {"main": AGENT})
    monkeypatch.setattr(container.Writer, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        seal(folder, tmp_path / "bundle.zst")
    assert [each.name for each in tmp_path.iterdir()] == ["recording"]


def spoil_row(folder: Path) -> None:
    data = (folder / "transcripts/0001.jsonl").read_bytes()
    write(folder, {"transcripts/0001.jsonl": data.replace(b'"agent":1', b'"agent":9')})


def spoil_count(folder: Path) -> None:
    manifest = open_bundle(folder).manifest
    source = manifest.sources[0]
    generation: Generation = replace(source.generations[0], rows=3)
    sources = (replace(source, generations=(generation,)),)
    write(folder, {"manifest.json": canonical(replace(manifest, sources=sources, evidence=evidence_of(sources)))})


def link_transcript(folder: Path) -> None:
    path = folder / "transcripts/0001.jsonl"
    path.rename(folder / "elsewhere.jsonl")
    path.symlink_to(folder / "elsewhere.jsonl")


def link_room(folder: Path) -> None:
    (folder / "transcripts").rename(folder / "elsewhere")
    (folder / "transcripts").symlink_to(folder / "elsewhere")


def link_manifest(folder: Path) -> None:
    (folder / "manifest.json").rename(folder / "elsewhere")
    (folder / "manifest.json").symlink_to(folder / "elsewhere")


def pipe_member(folder: Path) -> None:
    os.mkfifo(folder / "transcripts/0002.jsonl")


def extra_transcript(folder: Path) -> None:
    write(folder, {"transcripts/0002.jsonl": b""})


def no_transcript(folder: Path) -> None:
    (folder / "transcripts/0001.jsonl").unlink()


def torn_line(folder: Path) -> None:
    with (folder / "transcripts/0001.jsonl").open("ab") as out:
        out.write(b'{"ref":')


UNSOUND = [
    (spoil_row, r"transcripts/0001\.jsonl.*: 2 entries, 24 bytes, SHA-256 \w+; the manifest says 2 entries"),
    (spoil_count, r"transcripts/0001\.jsonl.*: 2 entries, 24 bytes, SHA-256 \w+; the manifest says 3 entries"),
    (link_transcript, r"transcripts/0001\.jsonl: it is a link, or no plain file"),
    (link_room, r"transcripts: it is a link, or no plain file"),
    (link_manifest, r"manifest\.json: it is a link, or no plain file"),
    (pipe_member, r"transcripts/0002\.jsonl: it is a link, or no plain file"),
    (extra_transcript, r"transcripts/0002\.jsonl.* belongs to no source"),
    (
        no_transcript,
        r"transcripts/0001\.jsonl.* is (in the manifest, but not|not in its table)",
    ),
    (torn_line, r"transcripts/0001\.jsonl, row 3.*: the last line has no line feed"),
]


@pytest.mark.parametrize(("spoil", "reason"), UNSOUND)
def test_an_unsound_recording_is_not_sealed(spoil: Callable[[Path], None], reason: str, tmp_path: Path) -> None:
    """Reading it back finds what is wrong before the bundle has a name; checking the folder finds it too."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    spoil(folder)
    with pytest.raises(Damaged, match=reason):
        seal(folder, tmp_path / "bundle.zst")
    with pytest.raises(Damaged, match=reason):
        open_bundle(folder).check()
    assert [each.name for each in tmp_path.iterdir()] == ["recording"]


def test_a_table_that_is_given_must_be_right(tmp_path: Path) -> None:
    """An unpacked bundle that was edited is not sealed again as if nothing had been."""
    path = sealed(tmp_path, {"main": AGENT}, context=[{"cwd": "/a"}])
    write(tmp_path / "again", content_of(path))
    write(tmp_path / "again", {"context.jsonl": b'{"cwd":"/b"}\n'})
    with pytest.raises(Damaged, match="it is not as the manifest lists it"):
        seal(tmp_path / "again", tmp_path / "again.zst")
    with pytest.raises(Damaged, match="it does not match its SHA-256 in the manifest"):
        open_bundle(tmp_path / "again").check()


def test_other_things_may_lie_beside(tmp_path: Path) -> None:
    """A recording kept for people has its sources and sessions beside it: they are no members."""
    folder = record(tmp_path / "recording", {"main": AGENT})
    plain = seal(folder, tmp_path / "plain.zst")
    write(
        folder,
        {"source/notes/a b.jsonl": b"{}\n", "sessions/parser-1.json": b"{}", "README": b"x", "files/.DS_Store": b"x"},
    )
    (folder / "source" / "link").symlink_to("/etc")
    assert seal(folder, tmp_path / "bundle.zst") == plain
    open_bundle(folder).check()


def test_a_sealed_bundle_is_not_sealed_again(tmp_path: Path) -> None:
    """What is to be sealed is a folder."""
    path = sealed(tmp_path, {"main": AGENT})
    with pytest.raises(NotABundle, match="it is sealed already"):
        seal(path, tmp_path / "other.zst")


PROGRAM = """
import re, sys
from pathlib import Path
from forensic.bundle import open_bundle
open_bundle(Path(sys.argv[1])).check()
print(re.search("VmHWM:\\s*([0-9]+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_bundle(tmp_path: Path) -> None:
    """A process that verifies 200 MB stays below 150 MB."""
    row = canonical({"text": "words that are the same " * 100})
    path = sealed(tmp_path, {"main": lines(row) * 90_000})
    assert open_bundle(path).size > 200_000_000
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], check=True, capture_output=True, text=True)
    assert int(done.stdout) * 1024 < 150_000_000


def test_only_errors_of_ours_escape(small: bytes, tmp_path: Path) -> None:
    """Noise in place of any stretch of the file is refused as damage, never with a crash."""
    noise = random.Random(11)  # noqa: S311 -- noise, the same every time
    path = tmp_path / "bundle.zst"
    for _ in range(300):
        at = noise.randrange(len(small))
        data = small[:at] + noise.randbytes(noise.randrange(1, 60)) + small[at + noise.randrange(60) :]
        path.write_bytes(data)
        with pytest.raises(ForensicError):
            Bundle.check(open_bundle(path))


def test_members_makes_what_the_manifest_says() -> None:
    """The helper of these tests is itself right about evidence."""
    made = members({"main": ROWS})
    manifest = msgspec.json.decode(made["manifest.json"], type=Manifest)
    assert manifest.evidence == evidence_of(manifest.sources)
