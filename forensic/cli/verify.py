"""``forensic verify``: prove that bundles are what they were when they were sealed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from forensic.archive import default_root
from forensic.cli import naming, output
from forensic.cli.options import ArchiveFolder, AsJson
from forensic.errors import Damaged, ForensicError, NewerFormat, NoSuchPath, NotABundle, Unusable
from forensic.model import Finding
from forensic.recording import Report, open_recording
from forensic.renderers.wording import count

_REFUSALS = ((NotABundle, "no bundle"), (Damaged, "damaged"), (NewerFormat, "newer"), (Unusable, "not found"))
_WORDS = ("ok", "differs", "damaged", "no bundle", "newer", "not found")

EXAMPLE = "  forensic verify\n  forensic verify 9fe1c2\n  forensic verify session.zst --no-verdict --json"


def command(
    bundles: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BUNDLE]...", help="Bundles, folders that hold some, or starts of content or session ids."
        ),
    ] = None,
    *,
    no_verdict: Annotated[bool, typer.Option("--no-verdict", help="Do not replay and compare.")] = False,
    archive: ArchiveFolder = None,
    json: AsJson = False,
) -> int:
    """Prove that bundles are as they were sealed.

    Every byte of each BUNDLE is read and checked; then it is replayed and compared with what replay gave at the seal.
    Without any, the whole archive is verified. The exit code is the highest that any of them earns.
    """
    paths = list(_below(bundles, archive)) if bundles else list(_inside(archive or default_root()))
    words: Counter[str] = Counter()
    worst = 0
    with output.progress("verifying", counts_bytes=True) as bar:
        bar.total(sum(path.stat().st_size for path in paths if isinstance(path, Path) and path.is_file()))
        for path in paths:
            word, report, code = _verify(path, verdict=not no_verdict, bar=bar)
            worst = max(worst, code)
            words[word] += 1
            if json:
                output.json_line(report)
                continue
            output.line(f"{word:9}", report.bundle)
            output.findings(report.findings, about=report.bundle)
    if len(paths) > 1 and not json:
        output.aside(f"{count(len(paths), 'bundle')}: {output.tally(words, _WORDS)}")
    return worst


def _verify(path: Path | Unnamed, *, verdict: bool, bar: output.Bar) -> tuple[str, Report, int]:
    """The outcome in a word, the report, the exit code it earns."""
    try:
        if isinstance(path, Unnamed):
            raise path.error
        recording = open_recording(path)
        report = recording.verify(verdict=verdict, progress=_scaled(path, recording.bundle.size, bar))
    except ForensicError as error:
        word = next((word for kind, word in _REFUSALS if isinstance(error, kind)), None)
        if word is None:
            raise
        finding = Finding(kind=word.replace(" ", "-"), note=str(error), problem=True)
        damaged = isinstance(error, Damaged)
        name = path.name if isinstance(path, Unnamed) else str(path)
        report = Report(bundle=name, content_id="", bundle_id=None, ok=False, damaged=damaged, findings=(finding,))
        return word, report, error.exit_code
    if report.damaged:
        return "damaged", report, Damaged.exit_code
    return ("ok", report, 0) if report.ok else ("differs", report, 1)


def _scaled(path: Path, size: int, bar: output.Bar) -> Callable[[int], None]:
    """Progress in bytes of the file, which are known beforehand, instead of bytes of its members."""
    share = path.stat().st_size / size if path.is_file() and size else 0
    return lambda done: bar.step(done * share)


class Unnamed(NamedTuple):
    """A name that names no bundle, and why."""

    name: str
    error: Unusable


def _below(names: Sequence[str], archive: Path | None) -> Iterator[Path | Unnamed]:
    """Bundles as they are named, or all that lie below a named folder, in order of their names."""
    for name in names:
        try:
            path = naming.bundle_path(name, archive)
            if not path.exists():
                raise NoSuchPath(path=path)
            if path.is_dir() and not (path / "manifest.json").exists():
                yield from _inside(path)
            else:
                yield path
        except Unusable as error:
            if len(names) == 1:
                raise
            yield Unnamed(name, error)


def _inside(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.zst"))
    if not found:
        raise Unusable(detail=f"no bundle found in {folder}")
    return found
