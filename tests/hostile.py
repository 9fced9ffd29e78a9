"""Archives that no sealer makes. Each is wrong in one way only: all else, seal and seek table too, is as it must be.

`CASES` maps the name of a case to the bytes of such a file, the whole message of its refusal, and how soon it comes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import zstandard
from bundles import lines, members, payload

from forensic.jsonio import canonical

SEAL_HEAD = b"\x5b\x2a\x4d\x18" + struct.pack("<I", 40) + b"FRSEAL1\0"
END = bytes(1024)
ROWS = lines(b'{"type":"user","n":1}', b'{"type":"user","n":2}', b"no JSON", b'{"type":"user","n":4}')


class Case(NamedTuple):
    """What to refuse, and how. `late` cases are refused by `check` alone, the others by whatever reads that far."""

    build: Callable[[], bytes]
    message: str
    error: str = "Damaged"
    late: bool = False


CASES: dict[str, Case] = {}


def hostile(message: str, error: str = "Damaged", *, late: bool = False) -> Callable[[Callable[[], bytes]], None]:
    """Register a case under the name of its builder."""

    def register(build: Callable[[], bytes]) -> None:
        CASES[build.__name__] = Case(build, message, error, late)

    return register


# --- the parts of an honest bundle -----------------------------------------------------------------------------------


def honest() -> dict[str, bytes]:
    """The members of the recording that every case starts from."""
    return members(
        {"main": ROWS},
        payloads=[payload(1, b'{"hook":1}'), payload(2, b'{"hook":2}\n')],
        context=[{"cwd": "/home/dev/demo"}],
        recorded=b"{}\n",
    )


def listed(contents: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """The same members with a manifest that lists them; `changes` are laid over the fields of the manifest."""
    table = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for name, data in contents.items()
        if name != "manifest.json"
    }
    value = msgspec.json.decode(contents["manifest.json"]) | {"members": table} | changes
    return contents | {"manifest.json": canonical(value) + b"\n"}


def manifest_of(contents: dict[str, bytes]) -> Any:
    """The manifest as a plain value."""
    return msgspec.json.decode(contents["manifest.json"])


def content_id(contents: dict[str, bytes]) -> str:
    """The content id of these members."""
    return hashlib.sha256(canonical(manifest_of(contents)["evidence"])).hexdigest()


def entry(name: bytes | str, data: bytes = b"", kind: bytes = b"0", **fields: bytes) -> bytes:
    """Tar header, data and padding; `fields` are written over what an honest header has."""
    name = name.encode() if isinstance(name, str) else name
    places = {"mode": 100, "uid": 108, "gid": 116, "size": 124, "mtime": 136, "link": 157, "magic": 257, "prefix": 345}
    head = bytearray(512)
    head[: len(name)] = name
    honest_fields = {
        "mode": b"0000644\0",
        "uid": b"0000000\0",
        "gid": b"0000000\0",
        "size": b"%011o\0" % len(data),
        "mtime": b"00000000000\0",
        "magic": b"ustar\00000",
    }
    for field, value in (honest_fields | fields).items():
        if field != "checksum":
            head[places[field] : places[field] + len(value)] = value
    head[156:157] = kind
    head[329:345] = b"0000000\0" * 2
    head[148:156] = b" " * 8
    head[148:156] = fields.get("checksum", b"%06o\0 " % sum(head))
    return bytes(head) + data + bytes(-len(data) % 512)


def frame(content: bytes, **parameters: Any) -> bytes:
    """One zstd frame."""
    known: dict[str, Any] = {"level": 9, "write_checksum": True, "write_content_size": True}
    return zstandard.ZstdCompressor(**(known | parameters)).compress(content)


def made_frame(blocks: Iterable[bytes], *, descriptor: int, sizes: bytes, checksum: bytes = bytes(4)) -> bytes:
    """A frame put together by hand: its descriptor, what follows it in the header, its blocks."""
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + sizes + b"".join(blocks) + checksum


def table_of(entries: Iterable[tuple[int, int]]) -> bytes:
    """A seek table."""
    pairs = b"".join(struct.pack("<II", *each) for each in entries)
    return (
        b"\x5e\x2a\x4d\x18"
        + struct.pack("<I", len(pairs) + 9)
        + pairs
        + struct.pack("<IBI", len(pairs) // 8, 0, 0x8F92EAB1)
    )


def file_of(frames: Sequence[tuple[bytes, int]], *, between: bytes = b"", table: bytes | None = None) -> bytes:
    """Frames with the size of what they hold, sealed, with a seek table; `between` goes between seal and table."""
    body = b"".join(stored for stored, _ in frames)
    seal = SEAL_HEAD + hashlib.sha256(body).digest()
    entries = [*((len(stored), size) for stored, size in frames), (len(seal), 0)]
    return body + seal + between + (table_of(entries) if table is None else table)


def packed(*contents: bytes) -> bytes:
    """A file of these contents, each in a frame of its own."""
    return file_of([(frame(content), len(content)) for content in contents])


def tar_of(contents: dict[str, bytes]) -> list[bytes]:
    """The contents of the frames of a small bundle: alone what must be alone, all else together."""
    names = sorted(name for name in contents if name not in {"manifest.json", "recorded.json"})
    before = [entry(name, contents[name]) for name in names if name < "recorded.json"]
    after = [entry(name, contents[name]) for name in names if name > "recorded.json"]
    recorded = [entry("recorded.json", contents["recorded.json"])] if "recorded.json" in contents else []
    return [entry("manifest.json", contents["manifest.json"]), b"".join(before), *recorded, b"".join(after) + END]


def bundle_of(contents: dict[str, bytes]) -> bytes:
    """The members as they are, in a file that is as it must be."""
    return packed(*filter(None, tar_of(contents)))


def with_last(extra: bytes, contents: dict[str, bytes] | None = None) -> bytes:
    """An honest bundle with something more before the end of its archive."""
    *frames, last = tar_of(contents or listed(honest()))
    return packed(*frames, last.removesuffix(END) + extra + END)


def with_members(**changes: bytes | None) -> bytes:
    """A bundle whose members differ from what its manifest lists: names have ``_`` for ``/``, None takes one out."""
    contents = listed(honest())
    for name, data in changes.items():
        contents.pop(name, None)
        if data is not None:
            contents[name] = data
    return bundle_of(contents)


def rows_replaced(data: bytes, **generation: Any) -> bytes:
    """A bundle whose transcript is this, and whose manifest lists it so; `generation` is laid over its evidence."""
    contents = honest() | {"transcripts/0001.jsonl": data}
    value = manifest_of(contents)
    value["sources"][0]["generations"][0] |= generation
    value["evidence"]["streams"][0]["generations"][0] |= generation
    return bundle_of(listed(contents, sources=value["sources"], evidence=value["evidence"]))


def same_rows(data: bytes, rows: int, untouched: bytes) -> bytes:
    """A bundle whose transcript is this, and whose evidence says that it amounts to these rows."""
    sha256 = hashlib.sha256(untouched).hexdigest()
    return rows_replaced(data, rows=rows, bytes=len(untouched), sha256=sha256)


# --- names and kinds of entries --------------------------------------------------------------------------------------


@hostile("frame 4 at byte N: the name '../evil' is not allowed")
def path_traversal() -> bytes:
    return with_last(entry("../evil", b"x"))


@hostile("frame 4 at byte N: the name 'transcripts/../../evil' is not allowed")
def path_traversal_inside() -> bytes:
    return with_last(entry("transcripts/../../evil", b"x"))


@hostile("frame 4 at byte N: the name '/etc/passwd' is not allowed")
def absolute_path() -> bytes:
    return with_last(entry("/etc/passwd", b"x"))


@hostile("frame 4 at byte N: the name 'c:evil' is not allowed")
def drive_letter() -> bytes:
    return with_last(entry("c:evil", b"x"))


@hostile("frame 4 at byte N: the name 'x\\\\..\\\\evil' is not allowed")
def backslash() -> bytes:
    return with_last(entry("x\\..\\evil", b"x"))


@hostile("frame 4 at byte N: the name 'x/con.jsonl' is not allowed")
def reserved_name() -> bytes:
    return with_last(entry("x/con.jsonl", b"x"))


@hostile("frame 4 at byte N: the name 'x\\x1b[2Jy' is not allowed")
def escape_code_in_name() -> bytes:
    return with_last(entry("x\x1b[2Jy", b"x"))


@hostile("frame 4 at byte N: the name 'x\\xc3\\xa9' is not allowed")
def name_beyond_ascii() -> bytes:
    return with_last(entry("x\u00e9", b"x"))


@hostile("frame 4 at byte N: the name 'transcripts/0002.JSONL' is not allowed")
def capital_letters() -> bytes:
    return with_last(entry("transcripts/0002.JSONL", b"x"))


@hostile("frame 4 at byte N: the name 'x/a/b/c/d' is not allowed")
def too_deep() -> bytes:
    return with_last(entry("x/a/b/c/d", b"x"))


@hostile("frame 4 at byte N: the name 'x\\x00y' is not allowed")
def name_after_its_end() -> bytes:
    return with_last(entry(b"x\0y", b"x"))


@hostile("frame 4 at byte N: an entry of type '2': only plain files may be in a bundle")
def symbolic_link_to_write_through() -> bytes:
    return with_last(entry("transcripts/x", kind=b"2", link=b"/tmp") + entry("transcripts/x/evil", b"x"))


@hostile("frame 4 at byte N: an entry of type '1': only plain files may be in a bundle")
def hard_link() -> bytes:
    return with_last(entry("x", kind=b"1", link=b"manifest.json"))


@hostile("frame 4 at byte N: an entry of type '3': only plain files may be in a bundle")
def character_device() -> bytes:
    return with_last(entry("x", kind=b"3"))


@hostile("frame 4 at byte N: an entry of type '4': only plain files may be in a bundle")
def block_device() -> bytes:
    return with_last(entry("x", kind=b"4"))


@hostile("frame 4 at byte N: an entry of type '5': only plain files may be in a bundle")
def folder() -> bytes:
    return with_last(entry("x/", kind=b"5"))


@hostile("frame 4 at byte N: an entry of type '6': only plain files may be in a bundle")
def named_pipe() -> bytes:
    return with_last(entry("x", kind=b"6"))


@hostile("frame 4 at byte N: an entry of type '\\x00': only plain files may be in a bundle")
def old_style_file() -> bytes:
    return with_last(entry("x", b"x", kind=b"\0"))


@hostile("frame 4 at byte N: an entry of type 'x': only plain files may be in a bundle")
def extended_path() -> bytes:
    return with_last(entry("paxheader", b"16 path=../evil\n", kind=b"x") + entry("x", b"x"))


@hostile("frame 4 at byte N: an entry of type 'g': only plain files may be in a bundle")
def extended_size() -> bytes:
    return with_last(entry("paxheader", b"13 size=1024\n", kind=b"g") + entry("x", entry("y", b"hidden")))


@hostile("frame 4 at byte N: an entry of type 'L': only plain files may be in a bundle")
def long_name() -> bytes:
    return with_last(entry("././@LongLink", b"../evil\0", kind=b"L") + entry("x", b"x"))


@hostile("frame 4 at byte N: an entry of type 'S': only plain files may be in a bundle")
def sparse_file() -> bytes:
    return with_last(entry("x", b"x", kind=b"S"))


# --- other ways to write a header ------------------------------------------------------------------------------------


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def set_user_id() -> bytes:
    return with_last(entry("x", b"x", mode=b"0004755\0"))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def an_owner() -> bytes:
    return with_last(entry("x", b"x", uid=b"0001750\0"))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def a_time() -> bytes:
    return with_last(entry("x", b"x", mtime=b"14000000000\0"))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def a_prefix() -> bytes:
    return with_last(entry("x", b"x", prefix=b"../.."))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def gnu_magic() -> bytes:
    return with_last(entry("x", b"x", magic=b"ustar  \0"))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def binary_size() -> bytes:
    return with_last(entry("x", b"x", size=b"\x80" + bytes(10) + b"\x01"))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def negative_size() -> bytes:
    return with_last(entry("x", b"x", size=b"-0000000001\0"))


@hostile("frame 4 at byte N: the tar header of x is not the canonical one")
def wrong_header_checksum() -> bytes:
    return with_last(entry("x", b"x", checksum=b"000000\0 "))


@hostile("transcripts/0001.jsonl, frame 4 at byte N: padding that is not zero")
def hidden_in_padding() -> bytes:
    *frames, last = tar_of(listed(honest()))
    return packed(*frames, last[: -len(END) - 6] + b"secret" + END)


# --- order, beginning and end ----------------------------------------------------------------------------------------


@hostile("frame 4 at byte N: transcripts/0001.jsonl does not come after transcripts/0001.jsonl in byte order")
def the_same_name_twice() -> bytes:
    return with_last(entry("transcripts/0001.jsonl", b"x"))


@hostile("frame 4 at byte N: another.json does not come after transcripts/0001.jsonl in byte order")
def names_out_of_order() -> bytes:
    return with_last(entry("another.json", b"x"))


@hostile("frame 4 at byte N: manifest.json stands twice")
def a_second_manifest() -> bytes:
    return with_last(entry("manifest.json", b"{}"))


@hostile("frame 1 at byte N: its first member is not manifest.json", error="NotABundle")
def manifest_not_first() -> bytes:
    return packed(entry("a.json", b"x"), *tar_of(listed(honest())))


@hostile("frame 1 at byte N: manifest.json shares its frame with another member")
def manifest_not_alone() -> bytes:
    first, second, *rest = tar_of(listed(honest()))
    return packed(first + second, *rest)


@hostile("frame 2 at byte N: recorded.json shares its frame with another member")
def verdict_not_alone() -> bytes:
    first, second, third, *rest = tar_of(listed(honest()))
    return packed(first, second + third, *rest)


@hostile("frame 3 at byte N: recorded.json shares its frame with another member")
def verdict_followed_in_its_frame() -> bytes:
    first, second, third, last = tar_of(listed(honest()))
    return packed(first, second, third + last)


@hostile("at byte N: the file ends before its archive does")
def no_end_of_archive() -> bytes:
    *frames, last = tar_of(listed(honest()))
    body = [(frame(content), len(content)) for content in (*frames, last.removesuffix(END))]
    return b"".join(stored for stored, _ in body)


@hostile("at byte N: something else stands between the frames")
def sealed_before_the_end_of_archive() -> bytes:
    *frames, last = tar_of(listed(honest()))
    return packed(*frames, last.removesuffix(END))


@hostile("frame 4 at byte N: an archive that does not end with exactly 1024 zero bytes")
def half_an_end() -> bytes:
    *frames, last = tar_of(listed(honest()))
    return packed(*frames, last[:-512])


@hostile("frame 4 at byte N: an archive that does not end with exactly 1024 zero bytes")
def an_end_of_ten_kilobytes() -> bytes:
    return with_last(bytes(8192))


@hostile("frame 4 at byte N: an archive that does not end with exactly 1024 zero bytes")
def hidden_after_the_end() -> bytes:
    return with_last(END + entry("x", b"hidden"))


@hostile("frame 5 at byte N: bytes after the end of the archive")
def hidden_in_a_frame_after_the_end() -> bytes:
    return packed(*tar_of(listed(honest())), entry("x", b"hidden"))


@hostile("frame 4 at byte N: a tar header is cut")
def cut_header() -> bytes:
    *frames, last = tar_of(listed(honest()))
    return packed(*frames, last[:100], last[100:])


@hostile("transcripts/0001.jsonl, frame 4 at byte N: a frame that ends inside a row or file without being full")
def cut_row() -> bytes:
    *frames, last = tar_of(listed(honest()))
    return packed(*frames, last[:530], last[530:])


# --- frames ----------------------------------------------------------------------------------------------------------


@hostile("bindings.jsonl, frame 2 at byte N: data do not match their checksum, or are malformed")
def wrong_frame_checksum() -> bytes:
    first, second, *rest = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    broken = second[0][:-1] + bytes([second[0][-1] ^ 1])
    return file_of([first, (broken, second[1]), *rest])


@hostile("frame 2 at byte N: a frame without a checksum")
def no_frame_checksum() -> bytes:
    first, second, *rest = tar_of(listed(honest()))
    frames = [frame(first), frame(second, write_checksum=False), *map(frame, rest)]
    return file_of(list(zip(frames, map(len, (first, second, *rest)), strict=True)))


@hostile("frame 2 at byte N: a frame that does not name its content size")
def no_content_size() -> bytes:
    first, second, *rest = tar_of(listed(honest()))
    frames = [frame(first), frame(second, write_content_size=False), *map(frame, rest)]
    return file_of(list(zip(frames, map(len, (first, second, *rest)), strict=True)))


@hostile("frame 2 at byte N: a frame without content")
def empty_frame() -> bytes:
    first, *rest = tar_of(listed(honest()))
    return packed(first, b"", *rest)


@hostile("frame 2 at byte N: a frame that needs a dictionary")
def frame_with_a_dictionary() -> bytes:
    first, *rest = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    strange = made_frame([b"\x09\0\0x"], descriptor=0x25, sizes=b"\x07\x01")
    return file_of([first, (strange, 1), *rest])


def second_frame(strange: bytes, size: int) -> bytes:
    """A bundle whose second frame is this."""
    first, *rest = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    return file_of([first, (strange, size & 0xFFFFFFFF), *rest])


@hostile("frame 2 at byte N: a frame of 1073741824 bytes, more than 4 MiB", error="TooLarge")
def one_gibibyte_of_zeros() -> bytes:
    count = 8192
    blocks = [((131072 << 3) | 2 | (n == count - 1)).to_bytes(3, "little") + b"\0" for n in range(count)]
    return second_frame(made_frame(blocks, descriptor=0x84, sizes=b"\x60" + struct.pack("<I", 1 << 30)), 1 << 30)


@hostile("frame 2 at byte N: a frame of 4611686018427387904 bytes, more than 4 MiB", error="TooLarge")
def forged_size() -> bytes:
    return second_frame(made_frame([b"\x09\0\0x"], descriptor=0xC4, sizes=b"\x60" + struct.pack("<Q", 1 << 62)), 1)


@hostile("frame 2 at byte N: a frame that needs a window of 2147483648 bytes, more than 8 MiB", error="TooLarge")
def two_gibibytes_of_window() -> bytes:
    return second_frame(made_frame([b"\x09\0\0x"], descriptor=0x84, sizes=b"\xa8" + struct.pack("<I", 1)), 1)


@hostile("frame 2 at byte N: a frame longer than its content can need", error="TooLarge")
def thousands_of_empty_blocks() -> bytes:
    return second_frame(made_frame([bytes(3)] * 20_000 + [b"\x09\0\0x"], descriptor=0x24, sizes=b"\x01"), 1)


@hostile("frame 2 at byte N: a block of a reserved type")
def reserved_block() -> bytes:
    return second_frame(made_frame([b"\x0f\0\0x"], descriptor=0x24, sizes=b"\x01"), 1)


@hostile("frame 2 at byte N: malformed frame header")
def reserved_bit_in_frame_header() -> bytes:
    return second_frame(made_frame([b"\x09\0\0x"], descriptor=0x2C, sizes=b"\x01"), 1)


# --- seal and seek table ---------------------------------------------------------------------------------------------


def honest_file() -> bytes:
    """The honest bundle."""
    return bundle_of(listed(honest()))


def parts_of(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Frames, seal and seek table of a bundle."""
    at = data.index(SEAL_HEAD)
    return data[:at], data[at : at + 48], data[at + 48 :]


@hostile("at byte N: something else stands between the frames")
def hidden_in_a_skippable_frame() -> bytes:
    frames = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    hidden = b"\x50\x2a\x4d\x18" + struct.pack("<I", 6) + b"hidden"
    return file_of([*frames[:2], (hidden, 0), *frames[2:]])


@hostile("at byte N: something else stands where the seal should be")
def hidden_before_the_seal() -> bytes:
    frames = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    hidden = b"\x50\x2a\x4d\x18" + struct.pack("<I", 6) + b"hidden"
    return file_of([*frames, (hidden, 0)])


@hostile("at byte N: the seek table does not match the frames")
def hidden_after_the_seal() -> bytes:
    frames, seal, table = parts_of(honest_file())
    return frames + seal + b"\x50\x2a\x4d\x18" + struct.pack("<I", 6) + b"hidden" + table


@hostile("at byte N: bytes after the seek table")
def hidden_after_the_seek_table() -> bytes:
    return honest_file() + b"hidden"


@hostile("at byte N: bytes after the seek table")
def two_bundles_in_one_file() -> bytes:
    return honest_file() + honest_file()


@hostile("at byte N: the seek table does not match the frames")
def lying_seek_table() -> bytes:
    frames = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    entries = [(len(stored), size + 512) for stored, size in frames]
    return file_of(frames, table=table_of([*entries, (48, 0)]))


@hostile("at byte N: the seek table does not match the frames")
def seek_table_without_the_seal() -> bytes:
    frames = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    return file_of(frames, table=table_of((len(stored), size) for stored, size in frames))


@hostile("at byte N: no seek table after the seal")
def no_seek_table() -> bytes:
    frames, seal, _ = parts_of(honest_file())
    return frames + seal


@hostile("at byte N: the file ends inside its seek table")
def half_a_seek_table() -> bytes:
    return honest_file()[:-4]


@hostile("at byte N: the file ends before its seal")
def no_seal() -> bytes:
    return parts_of(honest_file())[0]


@hostile("at byte N: something else stands where the seal should be")
def seek_table_instead_of_seal() -> bytes:
    frames, _, table = parts_of(honest_file())
    return frames + table


@hostile("at byte N: the file ends inside its seal")
def half_a_seal() -> bytes:
    frames, seal, _ = parts_of(honest_file())
    return frames + seal[:20]


@hostile("at byte N: the seal does not match the bytes before it")
def seal_of_another_bundle() -> bytes:
    frames, seal, table = parts_of(honest_file())
    return frames + seal[:16] + bytes(32) + table


@hostile("at byte N: a malformed seal")
def seal_of_another_kind() -> bytes:
    frames, seal, table = parts_of(honest_file())
    return frames + seal.replace(b"FRSEAL1", b"FRSEAL9") + table


@hostile("at byte N: the seal does not match the bytes before it")
def frame_written_another_way() -> bytes:
    """The same content, compressed otherwise: nobody can tell by the members."""
    frames = [(frame(content), len(content)) for content in tar_of(listed(honest()))]
    other = [(frame(content, level=1), len(content)) for content in tar_of(listed(honest()))]
    seal = parts_of(file_of(frames))[1]
    body, _, table = parts_of(file_of(other))
    return body + seal + table


# --- members and manifest --------------------------------------------------------------------------------------------


@hostile("transcripts/0001.jsonl, frame 4 at byte N: it does not match its SHA-256 in the manifest")
def another_row() -> bytes:
    contents = listed(honest())
    data = contents["transcripts/0001.jsonl"].replace(b'"n":1', b'"n":9')
    return bundle_of(contents | {"transcripts/0001.jsonl": data})


@hostile("recorded.json, frame 3 at byte N: it does not match its SHA-256 in the manifest")
def another_verdict() -> bytes:
    return with_members(**{"recorded.json": b"[]\n"})


@hostile("context.jsonl: it is in the manifest, but not in the archive")
def a_missing_member() -> bytes:
    return with_members(**{"context.jsonl": None})


@hostile("transcripts/0001.jsonl: it is in the manifest, but not in the archive")
def the_last_member_missing() -> bytes:
    return with_members(**{"transcripts/0001.jsonl": None})


@hostile("zebra, frame 4 at byte N: it is not in the manifest")
def an_extra_member() -> bytes:
    return with_members(zebra=b"stripes")


@hostile("context.jsonl, frame 2 at byte N: 0 bytes, the manifest says 25")
def another_size() -> bytes:
    return with_members(**{"context.jsonl": b""})


@hostile("manifest.json: not written canonically")
def manifest_with_blanks() -> bytes:
    contents = listed(honest())
    return bundle_of(contents | {"manifest.json": contents["manifest.json"].replace(b":1,", b": 1,", 1)})


@hostile("manifest.json: not written canonically")
def manifest_with_a_key_twice() -> bytes:
    contents = listed(honest())
    twice = contents["manifest.json"].replace(b'"harness":"claude"', b'"harness":"codex","harness":"claude"')
    return bundle_of(contents | {"manifest.json": twice})


@hostile("manifest.json: its evidence has fields that format 1 does not have")
def evidence_with_another_field() -> bytes:
    contents = listed(honest())
    return bundle_of(listed(contents, evidence=manifest_of(contents)["evidence"] | {"salt": 1}))


@hostile("manifest.json: bundle format 2, this version reads up to 1", error="NewerFormat")
def newer_format() -> bytes:
    return bundle_of(listed(honest(), format=2, sources="another shape"))


@hostile("manifest.json: it requires 'time travel', which this version does not know", error="NewerFormat")
def unknown_requirement() -> bytes:
    return bundle_of(listed(honest(), requires=["time travel"]))


@hostile("manifest.json: there is no bundle format 0")
def format_nought() -> bytes:
    return bundle_of(listed(honest(), format=0))


@hostile("frame 1 at byte N: a manifest of 33554433 bytes, more than 33554432", error="TooLarge")
def manifest_of_32_mebibytes() -> bytes:
    return packed(entry("manifest.json", bytes((32 << 20) + 1))[: 4 << 20])


@hostile("manifest.json: a manifest of more than 2000000 values", error="TooLarge")
def manifest_of_many_values() -> bytes:
    contents = honest()
    manifest = contents["manifest.json"].removesuffix(b"}\n") + b',"zeros":[' + b"[]," * 2_000_000 + b"0]}\n"
    first = entry("manifest.json", manifest)
    return packed(*(first[at : at + (4 << 20)] for at in range(0, len(first), 4 << 20)))


@hostile("manifest.json: its evidence is not that of its sources")
def evidence_of_another_session() -> bytes:
    contents = listed(honest())
    evidence = manifest_of(contents)["evidence"]
    evidence["streams"][0]["native_id"] = "another"
    return bundle_of(listed(contents, evidence=evidence))


def with_sources(change: Callable[[Any], None]) -> bytes:
    """A bundle whose sources were changed, and whose evidence follows them."""
    contents = listed(honest())
    sources = manifest_of(contents)["sources"]
    change(sources)
    streams = [
        {
            "generations": [{key: each[key] for key in ("bytes", "rows", "sha256")} for each in one["generations"]],
            "native_id": one["native_id"],
            "role": one["role"],
            "stream": one["stream"],
        }
        for one in sources
        if one.get("generations")
    ]
    evidence = manifest_of(contents)["evidence"] | {"streams": streams}
    return bundle_of(listed(contents, sources=sources, evidence=evidence))


@hostile("manifest.json: transcripts/0001.jsonl belongs to no source")
def transcript_without_a_source() -> bytes:
    return with_sources(lambda sources: sources.clear())


@hostile("manifest.json: 'main' has 1 generations, but 2 members")
def one_member_too_many() -> bytes:
    return with_sources(lambda sources: sources[0]["members"].append("transcripts/0002.jsonl"))


@hostile("manifest.json: 'payloads.jsonl' is no name for a member of 'main'")
def member_of_another_room() -> bytes:
    return with_sources(lambda sources: sources[0].update(members=["payloads.jsonl"]))


@hostile("manifest.json: '../../evil' is no name for a member of 'main'")
def path_in_the_manifest() -> bytes:
    return with_sources(lambda sources: sources[0].update(members=["../../evil"]))


@hostile("manifest.json: transcripts/0009.jsonl is not in its table of members")
def member_that_is_not_listed() -> bytes:
    return with_sources(lambda sources: sources[0].update(members=["transcripts/0009.jsonl"]))


@hostile("manifest.json: the stream 'hooks' stands twice, or is not free")
def stream_of_that_name_is_taken() -> bytes:
    return with_sources(lambda sources: sources[0].update(stream="hooks"))


@hostile("manifest.json: 'transcripts/0001.jsonl' is not in the order of the sources")
def one_member_for_two_sources() -> bytes:
    return with_sources(lambda sources: sources.append(sources[0] | {"stream": "agent-x"}))


@hostile("manifest.json: 'main' is its own parent")
def its_own_parent() -> bytes:
    return with_sources(lambda sources: sources[0].update(parent="main"))


def with_gap(**gap: int) -> bytes:
    """A bundle that claims a gap in its transcript."""
    claimed = {"stream": "main", "generation": 1, "offset": 0, "bytes": 1, "reason": "lost", **gap}
    return bundle_of(listed(honest(), gaps=[claimed]))


@hostile("manifest.json: a gap of -5 bytes at 0 of 'main' cannot be")
def gap_of_less_than_nothing() -> bytes:
    return with_gap(bytes=-5)


@hostile("manifest.json: a gap of 4611686018427387904 bytes at 4611686018427387904 of 'main' cannot be")
def gap_beyond_every_file() -> bytes:
    return with_gap(offset=2**62, bytes=2**62)


@hostile("manifest.json: it cannot supersede '../..'")
def supersedes_a_path() -> bytes:
    return bundle_of(listed(honest(), supersedes=["../.."]))


@hostile(f"manifest.json: it cannot supersede '{content_id(honest())}'")
def supersedes_itself() -> bytes:
    return bundle_of(listed(honest(), supersedes=[content_id(honest())]))


# --- lines -----------------------------------------------------------------------------------------------------------

FORGED = b'{"ref":["main",1,0],"line":1,"row":{"a":1},"ref":["main",1,4096],"line":7}\n'


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: not the canonical wrapping of its row", late=True)
def forged_wrapper() -> bytes:
    return same_rows(FORGED, 1, lines(b'{"a":1},"ref":["main",1,4096],"line":7'))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: not the canonical wrapping of its row")
def row_as_text_that_is_json() -> bytes:
    return same_rows(b'{"ref":["main",1,0],"line":1,"text":"{\\"a\\":1}"}\n', 1, lines(b'{"a":1}'))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: not the canonical wrapping of its row")
def row_in_base64_that_is_text() -> bytes:
    return same_rows(b'{"ref":["main",1,0],"line":1,"base64":"aGVsbG8="}\n', 1, lines(b"hello"))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: not the canonical wrapping of its row")
def blanks_around_a_row() -> bytes:
    return same_rows(b'{"ref":["main",1,0],"line":1,"row": {"a":1}}\n', 1, lines(b'{"a":1}'))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: not the canonical wrapping of its row", late=True)
def row_nested_too_deep() -> bytes:
    deep = b'{"a":' * 129 + b"1" + b"}" * 129
    return same_rows(b'{"ref":["main",1,0],"line":1,"row":' + deep + b"}\n", 1, lines(deep))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: not the canonical wrapping of its row", late=True)
def row_that_is_not_utf8() -> bytes:
    raw = b'{"a":"\xff"}'
    return same_rows(b'{"ref":["main",1,0],"line":1,"row":' + raw + b"}\n", 1, lines(raw))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: no wrapped row")
def another_line() -> bytes:
    return same_rows(b"hello\n", 1, lines(b"hello"))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: offset 5 where 0 is due")
def row_out_of_place() -> bytes:
    return same_rows(b'{"ref":["main",1,5],"line":1,"row":{}}\n', 1, lines(b"{}"))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: line 2 where 1 is due")
def row_with_another_number() -> bytes:
    return same_rows(b'{"ref":["main",1,0],"line":2,"row":{}}\n', 1, lines(b"{}"))


@hostile("transcripts/0001.jsonl, row 1, frame 4 at byte N: a row of 'other', generation 1")
def row_of_another_stream() -> bytes:
    return same_rows(b'{"ref":["other",1,0],"line":1,"row":{}}\n', 1, lines(b"{}"))


@hostile("transcripts/0001.jsonl, row 2, frame 4 at byte N: a row follows one without a line end")
def row_after_an_open_end() -> bytes:
    first, second = b'{"ref":["main",1,0],"line":1,"end":"","row":{}}\n', b'{"ref":["main",1,2],"line":2,"row":{}}\n'
    return same_rows(first + second, 2, lines(b"{}{}"))


@hostile("transcripts/0001.jsonl, row 2, frame 4 at byte N: the last line has no line feed")
def line_without_its_end() -> bytes:
    return same_rows(b'{"ref":["main",1,0],"line":1,"row":{}}\n{"ref":', 1, lines(b"{}"))


@hostile(
    "transcripts/0001.jsonl, frame 4 at byte N: 1 entries, 3 bytes, SHA-256 ca3d163bab055381; "
    "the manifest says 1 entries, 3 bytes, SHA-256 0000000000000000",
    late=True,
)
def evidence_of_other_rows() -> bytes:
    data = b'{"ref":["main",1,0],"line":1,"row":{}}\n'
    return rows_replaced(data, rows=1, bytes=3, sha256="0" * 64)


def with_payloads(data: bytes, count: int, contents: Sequence[bytes]) -> bytes:
    """A bundle whose payloads are these lines, and whose evidence is that of these contents."""
    sha256 = hashlib.sha256(b"".join(b"%d:%b," % (len(each), each) for each in contents)).hexdigest()
    counted = {"bytes": sum(map(len, contents)), "rows": count, "sha256": sha256}
    made = honest() | {"payloads.jsonl": data}
    return bundle_of(listed(made, evidence=manifest_of(made)["evidence"] | {"payloads": [counted]}))


def payload_line(n: int, **fields: Any) -> bytes:
    """A wrapped payload that holds ``{}``, with other fields than it should have."""
    return canonical_line({"ref": ["hooks", 1, n], "n": n, "harness": "claude", "bytes": 2, "payload": {}} | fields)


def canonical_line(value: dict[str, Any]) -> bytes:
    """A line in the order of its keys."""
    return msgspec.json.encode(value) + b"\n"


@hostile("payloads.jsonl, row 2, frame 2 at byte N: payload 1 follows payload 1")
def payload_number_twice() -> bytes:
    return with_payloads(payload_line(1) * 2, 2, [b"{}", b"{}"])


@hostile("payloads.jsonl, row 1, frame 2 at byte N: payload 1 calls itself 'main:1:0'")
def payload_of_another_stream() -> bytes:
    return with_payloads(payload_line(1, ref=["main", 1, 0]), 1, [b"{}"])


@hostile("payloads.jsonl, row 1, frame 2 at byte N: 2 bytes where the hook read 3")
def payload_cut_in_silence() -> bytes:
    return with_payloads(payload_line(1, bytes=3), 1, [b"{}"])


@hostile("payloads.jsonl, row 1, frame 2 at byte N: not the canonical wrapping of its payload")
def payload_with_another_field() -> bytes:
    return with_payloads(payload_line(1, password="x"), 1, [b"{}"])  # noqa: S106 -- the name of a field, no secret


@hostile(
    "payloads.jsonl, frame 2 at byte N: 1 entries, 2 bytes, SHA-256 9ceb6a079746a67d; "
    "the manifest says 1 entries, 2 bytes, SHA-256 0e7f33510ad454d2",
    late=True,
)
def evidence_of_other_payloads() -> bytes:
    return with_payloads(payload_line(1), 1, [b"[]"])


@hostile(
    "bindings.jsonl, row 1, frame 2 at byte N: a binding of 'agent-x', generation 1, which is not there", late=True
)
def binding_of_no_stream() -> bytes:
    line = b'{"generation":1,"ground":"named","rows":[0,1],"stream":"agent-x"}\n'
    return bundle_of(listed(honest() | {"bindings.jsonl": line}))


@hostile("bindings.jsonl, row 1, frame 2 at byte N: a binding of row 999 of 'main', which is not there", late=True)
def binding_of_no_row() -> bytes:
    line = b'{"generation":1,"ground":"named","rows":[0,999],"stream":"main"}\n'
    return bundle_of(listed(honest() | {"bindings.jsonl": line}))


@hostile("context.jsonl, frame 2 at byte N: more than 10000 lines", error="TooLarge", late=True)
def a_flood_of_notes() -> bytes:
    return bundle_of(listed(honest() | {"context.jsonl": b'{"cwd":"/a"}\n' * 10_001}))


@hostile("bindings.jsonl, row 1, frame 2 at byte N: no canonical binding", late=True)
def binding_with_blanks() -> bytes:
    contents = honest() | {"bindings.jsonl": b'{"ground": "named","rows":[0,1],"stream":"main","generation":1}\n'}
    return bundle_of(listed(contents))


@hostile("context.jsonl, row 1, frame 2 at byte N: a line of 90011 bytes, more than 65536", late=True)
def context_of_many_values() -> bytes:
    return bundle_of(listed(honest() | {"context.jsonl": b'{"cwd":[' + b"[]," * 30_000 + b"0]}\n"}))


@hostile("context.jsonl, row 1, frame 2 at byte N: no canonical object", late=True)
def context_with_blanks() -> bytes:
    return bundle_of(listed(honest() | {"context.jsonl": b'{"cwd": "/"}\n'}))
