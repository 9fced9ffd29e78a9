"""The golden recordings as tests see them: where they are, how they are made, where their sessions stand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import json as msgjson
from msgspec.structs import replace
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from forensic.capture.discover import find
from forensic.capture.named import record
from forensic.jsonio import canonical
from forensic.model import Binding, Capture, Manifest, Session, Source
from forensic.renderers import document

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation
    from syrupy.types import SnapshotIndex

GOLDEN: Final = Path(__file__).parent.parent / "golden"
FROM_SOURCES: Final = sorted(path.parent for path in GOLDEN.glob("*/*/source"))
LIVE: Final = sorted(path.parent for path in GOLDEN.glob("*/live-*/manifest.json"))
"""Recordings of real clients while they ran: lab/lab_golden.py makes them, and nothing makes them again."""
CASES: Final = sorted([*FROM_SOURCES, *LIVE])
IDS: Final = [f"{case.parent.name}/{case.name}" for case in CASES]
MADE: Final = ("manifest.json", "payloads.jsonl", "bindings.jsonl", "context.jsonl", "transcripts", "files")
"""What capture makes in a case; ``source`` and ``sessions`` stand beside it."""

_MIDNIGHT = "2026-01-01T00:00:00Z"
NOBODY = Capture(
    recorder="forensic", python="", platform="", zone="UTC", utc_offset=0, started=_MIDNIGHT, sealed_at=_MIDNIGHT
)


class SessionExtension(SingleFileSnapshotExtension):
    """One session a file, beside its recording: ``snapshot(name="claude/<case>/sessions/parser-1")``.

    syrupy neither reports nor removes files here (most of what lies around them is evidence): test_golden does.
    """

    _write_mode = WriteMode.TEXT
    file_extension = "json"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:  # noqa: ARG003 -- syrupy's shape
        return str(GOLDEN)

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:  # noqa: ARG003 -- as above
        return str(index)

    @classmethod
    def matches_test_location(cls, **_: object) -> bool:
        return True

    def owns_snapshot_collection(self, **_: object) -> bool:
        return False


def document_of(session: Session) -> dict[str, Any]:
    """The session document, decoded."""
    out = io.BytesIO()
    document.write(session, out)
    decoded: dict[str, Any] = json.loads(out.getvalue())
    return decoded


def laid_out(decoded: dict[str, Any]) -> str:
    """A session document as people read it: its own order of keys, one value a line."""
    return json.dumps(decoded, ensure_ascii=False, indent=1) + "\n"


def record_source(case: Path, directory: Path) -> None:
    """Capture `case/source` into `directory` and make neutral what depends on the machine."""
    source = case / "source"
    (found,) = find([source], None)
    record(found, directory)
    path = directory / "manifest.json"
    manifest = msgjson.decode(path.read_bytes(), type=Manifest)
    path.write_bytes(canonical(_neutral(manifest, source)) + b"\n")
    _timeless(directory / "bindings.jsonl")


def _neutral(manifest: Manifest, source: Path) -> Manifest:
    return replace(manifest, capture=NOBODY, sources=tuple(_placed(one, source) for one in manifest.sources))


def _placed(one: Source, source: Path) -> Source:
    path = Path(one.path).relative_to(source.resolve()).as_posix() if one.path else ""
    unborn = tuple(replace(life, dev=0, ino=0, mtime_ns=0) for life in one.generations)
    return replace(one, path=path, generations=unborn)


def _timeless(path: Path) -> None:
    lines = [msgjson.decode(line, type=Binding) for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(canonical(replace(line, wall=0, mono=0)) + b"\n" for line in lines))
