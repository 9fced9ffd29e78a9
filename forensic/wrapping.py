"""Wrapped lines: how rows and hook payloads stand in a bundle with their bytes unchanged (docs/bundle.md section 5).

A row that is a JSON object is embedded as it stands, so that any JSON tool reads the line and the provider's bytes
are a slice of it. Everything else becomes a string. Each row has exactly one wrapped form; another is refused.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from forensic.jsonio import MAX_DEPTH, deeper_than
from forensic.model import GenerationEvidence, Payload, Ref, Row

__all__ = [
    "LINE_LIMIT",
    "LineReader",
    "NotWrapped",
    "PayloadReader",
    "PayloadSum",
    "RowReader",
    "read_payloads",
    "unwrap_payload",
    "unwrap_row",
    "wrap_payload",
    "wrap_row",
]

LINE_LIMIT: Final = 1 << 30
"""Longest wrapped line in bytes: more than a JavaScript string can hold, so no known writer reaches it."""

_LF: Final = b"\n"
_CRLF: Final = b"\r\n"
_skip = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


class Digest(Protocol):
    """What bytes are added up with."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""


class NotWrapped(ValueError):
    """The line is not the one wrapped form of a row or payload; the argument says why in a few words."""


class _Body(Struct, kw_only=True):
    end: str | UnsetType = UNSET
    row: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class _RowLine(_Body, kw_only=True):
    ref: Ref
    line: int


_row_line = msgspec.json.Decoder(_RowLine).decode
_body_line = msgspec.json.Decoder(_Body).decode
_payload_line = msgspec.json.Decoder(Payload).decode


def wrap_row(ref: Ref, line: int, raw: bytes, end: bytes = _LF) -> bytes:
    """One wrapped line with its line feed. `end` is LF, CR LF or nothing; the CR of a CR LF never stays in `raw`.

    Raises `ValueError` when `raw` holds a line feed or `end` is none of the three.
    """
    if _LF in raw or end not in {_LF, _CRLF, b""}:
        raise ValueError("a row holds no line feed and ends with LF, CR LF or nothing")
    if end == _LF and raw.endswith(b"\r"):
        raw, end = raw[:-1], _CRLF
    mark = b"" if end == _LF else b'"end":"",' if not end else b'"end":"\\r\\n",'
    return b'%b%d],"line":%d,%b%b}\n' % (_head(ref.stream, ref.generation), ref.offset, line, mark, _body(b"row", raw))


def unwrap_row(line: bytes) -> Row:
    """The row of one wrapped line. Raises `NotWrapped` unless `line` is exactly what `wrap_row` makes of that row."""
    try:
        found = _row_line(line)
        end = _LF if found.end is UNSET else found.end.encode()
        row = Row(ref=found.ref, line=found.line, raw=_content(found, found.row), end=end)
        again = wrap_row(row.ref, row.line, row.raw, end)
    except (ValueError, RecursionError):  # of msgspec, of base64, of UTF-8, and what wrap_row refuses
        raise NotWrapped("no wrapped row") from None
    if again != line or min(row.ref.generation, row.line) < 1 or row.ref.offset < 0:
        raise NotWrapped("not the canonical wrapping of its row")
    return row


def wrap_payload(payload: Payload) -> bytes:
    """One wrapped line with its line feed: the envelope, then the untouched content."""
    raw, mark = payload.raw, b""
    for end, sign in ((_CRLF, b'"end":"\\r\\n",'), (_LF, b'"end":"\\n",')):
        if raw.endswith(end):
            raw, mark = raw[: -len(end)], sign
            break
    return b"%b,%b%b}\n" % (_encode(replace(payload, raw=b""))[:-1], mark, _body(b"payload", raw))


def unwrap_payload(line: bytes) -> Payload:
    """The payload of one wrapped line. Raises `NotWrapped` unless `line` is what `wrap_payload` makes of it."""
    try:
        found = _body_line(line)
        end = b"" if found.end is UNSET else found.end.encode()
        payload = replace(_payload_line(line), raw=_content(found, found.payload) + end)
        again = wrap_payload(payload)
    except (ValueError, RecursionError):
        raise NotWrapped("no wrapped payload") from None
    if again != line:
        raise NotWrapped("not the canonical wrapping of its payload")
    return payload


@functools.lru_cache(maxsize=256)
def _head(stream: str, generation: int) -> bytes:
    return b'{"ref":[%b,%d,' % (_encode(stream), generation)


def _content(found: _Body, embedded: Raw | UnsetType) -> bytes:
    if embedded is not UNSET:
        return bytes(embedded)
    if found.text is not UNSET:
        return found.text.encode()
    if found.base64 is not UNSET:
        return base64.b64decode(found.base64, validate=True)
    raise NotWrapped("a line without content")


def _body(key: bytes, raw: bytes) -> bytes:
    if _embeds(raw):
        return b'"%b":%b' % (key, raw)
    coded = b'"base64":"%b"' % base64.b64encode(raw)
    try:
        text = b'"text":%b' % _encode(raw.decode())
    except UnicodeDecodeError:
        return coded
    return coded if len(coded) < len(text) else text


def _embeds(raw: bytes) -> bool:
    """Whether a row may stand in its line as it is: docs/bundle.md section 5."""
    return raw.startswith(b"{") and raw.endswith(b"}") and _LF not in raw and _is_sound(raw)


def _is_sound(raw: bytes) -> bool:
    """Whether what begins and ends with a brace is one JSON object, in UTF-8, not nested too deep."""
    if not raw.isascii() and not _is_utf8(raw):
        return False
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and deeper_than(raw):
        return False
    try:
        _skip(raw)  # the grammar of RFC 8259 with paired surrogates, numbers of any size
    except msgspec.DecodeError:
        return False
    return True


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


class LineReader:
    """The lines of a member, fed in pieces cut anywhere. `rows` counts those that were read without fault."""

    def __init__(self) -> None:
        """Nothing read yet."""
        self.rows = 0
        self._held: list[bytes] = []
        self._bytes = 0

    @property
    def holds(self) -> bool:
        """Whether the beginning of a line waits for its end."""
        return bool(self._held)

    def whole(self, data: bytes) -> bytes:
        """All whole lines that end in `data`, and what was held of them before; the rest is held. `NotWrapped`."""
        cut = data.rfind(b"\n") + 1
        whole = b"".join([*self._held, data[:cut]]) if self._held and cut else data[:cut]
        if cut:
            self._held, self._bytes = [], 0
        if cut < len(data):
            self._held.append(data[cut:])
            self._bytes += len(data) - cut
            if self._bytes > LINE_LIMIT:
                raise NotWrapped("a line beyond 1 GiB")
        return whole

    def finish(self) -> None:
        """Nothing may be left over. Raises `NotWrapped`."""
        if self._held:
            raise NotWrapped("the last line has no line feed")


class RowReader(LineReader):
    """The rows of one generation. Refs and line numbers must follow from each other.

    With `strict`, every line must be the canonical wrapping of its row. Without, a line whose beginning and end are
    as they must be is taken for one: which bytes are the row's is exactly as certain, and reading twice as fast.
    """

    def __init__(  # noqa: PLR0913 -- what a row needs to know, by name
        self,
        stream: str,
        generation: int,
        *,
        gaps: dict[int, int] | None = None,
        unverified: bool = False,
        strict: bool = True,
        agent: str | None = None,
    ) -> None:
        """`gaps` maps the offset of each stretch known to be missing to its length; `agent` is whose rows they are."""
        super().__init__()
        self._stream = stream
        self._generation = generation
        self._gaps = gaps or {}
        self._unverified = unverified
        self._strict = strict
        self._agent = agent
        self._ended = False
        self._offset = 0
        self._line = 1

    def read(self, data: bytes) -> list[Row]:
        """The rows that end in `data`. Raises `NotWrapped`."""
        stream, number, unverified, agent = self._stream, self._generation, self._unverified, self._agent
        return [
            Row(ref=Ref(stream, number, offset), line=line, raw=raw, end=end, unverified=unverified, agent=agent)
            for offset, line, raw, end in self._split(self.whole(data))
        ]

    def pick(self, data: bytes, needles: tuple[bytes, ...]) -> Iterator[Row]:
        """Those of the rows that end in `data` and hold one of the needles. Raises `NotWrapped`."""
        stream, number, unverified, agent = self._stream, self._generation, self._unverified, self._agent
        for offset, line, raw, end in self._split(self.whole(data)):
            for needle in needles:
                if needle in raw:
                    ref = Ref(stream, number, offset)
                    yield Row(ref=ref, line=line, raw=raw, end=end, unverified=unverified, agent=agent)
                    break

    def add_up(self, data: bytes, digest: Digest) -> int:
        """Add the provider's own bytes of these rows, each with its end, to a digest; their number. As `read` raises.

        Row by row, since each large one gives way to a thread that waits for the interpreter.
        """
        size = 0
        update = digest.update
        for _, _, raw, end in self._split(self.whole(data)):
            row = raw + end
            update(row)
            size += len(row)
        return size

    def _split(self, lines: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
        """The inner loop: a row that is as usual is a slice between a beginning that is foreseen and two braces."""
        beginning, strict = _head(self._stream, self._generation), self._strict
        at = 0
        while at < len(lines):
            offset, line = self._offset, self._line
            stop = lines.find(b"\n", at)
            head = b'%b%d],"line":%d,"row":{' % (beginning, offset, line)
            start = at + len(head) - 1
            raw = lines[start : stop - 1]
            usual = lines.startswith(head, at) and lines.endswith(b"}}", start, stop)
            if usual and not self._ended and (not strict or _is_sound(raw)):
                self._offset, self._line = offset + len(raw) + 1, line + 1
                yield offset, line, raw, _LF
            else:
                row = self._unusual(lines[at : stop + 1])
                yield row.ref.offset, row.line, row.raw, row.end
            self.rows += 1
            at = stop + 1

    def _unusual(self, line: bytes) -> Row:
        """A line with another end, a row as text, the first row after a gap, or no such line at all."""
        if self._ended:
            raise NotWrapped("a row follows one without a line end")
        row = unwrap_row(line)
        if (row.ref.stream, row.ref.generation) != (self._stream, self._generation):
            raise NotWrapped(f"a row of {row.ref.stream!a}, generation {row.ref.generation}")
        due = self._offset
        if row.ref.offset != due + self._gaps.get(due, 0):
            raise NotWrapped(f"offset {row.ref.offset} where {due} is due")
        if row.line != self._line and (row.line < self._line or due not in self._gaps):
            raise NotWrapped(f"line {row.line} where {self._line} is due")
        self._offset, self._line = row.ref.offset + len(row.raw) + len(row.end), row.line + 1
        self._ended = not row.end
        return row


class PayloadReader(LineReader):
    """Hook payloads, in the order of their numbers."""

    def __init__(self) -> None:
        """Nothing read yet."""
        super().__init__()
        self._latest = 0

    def read(self, data: bytes) -> list[Payload]:
        """The payloads that end in `data`. Raises `NotWrapped`."""
        found: list[Payload] = []
        try:
            for line in self.whole(data).split(_LF)[:-1]:
                found.append(self._payload(line))  # noqa: PERF401 -- when one cannot be read, its number must be known
        finally:
            self.rows += len(found)
        return found

    def _payload(self, line: bytes) -> Payload:
        payload = unwrap_payload(line + _LF)
        size = len(payload.raw)
        if payload.ref != Ref("hooks", 1, payload.n):
            raise NotWrapped(f"payload {payload.n} calls itself {str(payload.ref)!a:.99}")
        if payload.n <= self._latest:
            raise NotWrapped(f"payload {payload.n} follows payload {self._latest}")
        if payload.size != size and not (payload.cut and payload.size > size):
            raise NotWrapped(f"{size} bytes where the hook read {payload.size}")
        self._latest = payload.n
        return payload


class PayloadSum:
    """The contents of payloads, added up as evidence counts them (docs/bundle.md section 6)."""

    def __init__(self) -> None:
        """None yet."""
        self._bytes = 0
        self._count = 0
        self._digest = hashlib.sha256()

    def add(self, raw: bytes) -> None:
        """Add the content of one."""
        self._bytes += len(raw)
        self._count += 1
        self._digest.update(b"%d:%b," % (len(raw), raw))

    def evidence(self) -> tuple[GenerationEvidence, ...]:
        """What they amount to; nothing where there are none."""
        return (GenerationEvidence(self._bytes, self._count, self._digest.hexdigest()),) if self._count else ()


def read_payloads(path: Path) -> Iterator[Payload]:
    """The wrapped payloads of a file, one at a time. Raises `NotWrapped`, `OSError`."""
    with path.open("rb") as stream:
        for line in stream:
            yield unwrap_payload(line)
