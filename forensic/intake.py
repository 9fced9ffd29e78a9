"""Intake: every session below the named paths, recorded, judged by replay, and sealed into the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from forensic import private
from forensic.archive import Archive
from forensic.bundle import Bundle, content_id_of, open_bundle, seal
from forensic.capture.discover import Found, find
from forensic.capture.named import follows, record, unchanged
from forensic.errors import Damaged, ForensicError, NewerFormat, WriteFailed
from forensic.jsonio import canonical
from forensic.manifest import left_out
from forensic.model import Finding, Manifest
from forensic.recording import judge, open_recording

__all__ = ["Captured", "capture", "seal_live"]


class Captured(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One session after its capture. `state` is sealed, superseding, unchanged or failed."""

    bundle: str
    content_id: str
    harness: str
    session: str
    rows: int
    state: str
    supersedes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def capture(  # noqa: PLR0913 -- all but two are asked for by name
    paths: Sequence[Path],
    archive: Archive,
    *,
    harness: str | None = None,
    verdict: bool = True,
    found: Callable[[int], None] | None = None,
    report: Callable[[Finding], None] = lambda _: None,
) -> Iterator[Captured]:
    """Seal every session below the named paths.

    `found` is told how many there are before the first is done, `report` of trouble that belongs to no session. Of
    several sessions, one that cannot be captured does not stop the others; a full disk does (`WriteFailed`).
    """
    sessions = find(paths, harness, report=report)
    if found is not None:
        found(len(sessions))
    for session in sessions:
        try:
            yield _capture(session, archive, verdict=verdict)
        except WriteFailed:
            raise
        except ForensicError as error:
            if len(sessions) == 1:
                raise
            yield _failed(session, error)


def _capture(found: Found, archive: Archive, *, verdict: bool) -> Captured:
    findings: list[Finding] = []
    while True:
        captured = _capture_after(_latest(found, archive), found, archive, findings, verdict=verdict)
        if captured is not None:
            return captured


def seal_live(found: Found, archive: Archive, *, verdict: bool = True) -> Captured:
    """Seal a session that was recorded while it ran. Raises `WriteFailed`, and `ForensicError` when it cannot be."""
    return _capture(found, archive, verdict=verdict)


def _latest(found: Found, archive: Archive) -> Bundle | None:
    return archive.newest(found.harness, found.session, lambda manifest: follows(found, manifest))


def _capture_after(
    previous: Bundle | None, found: Found, archive: Archive, apart: list[Finding], *, verdict: bool
) -> Captured | None:
    """Capture a session that stands in the archive so far.

    None when it must be begun again: somebody else sealed more of it meanwhile, or what there was is damaged and was
    set apart (told in `apart`), so that the bundle before it is the one to go on from.
    """
    findings = [*found.findings, *apart]
    if previous is not None:
        if _set_apart(archive, previous.path, previous.content_id, apart):
            return None
        if found.live is None and unchanged(found, previous.manifest):
            return _captured(previous.path, previous.content_id, previous.manifest, "unchanged", findings)
    with archive.workspace() as directory:
        manifest = record(found, directory, previous, report=findings.append)
        content_id = content_id_of(manifest.evidence)
        target = archive.path_of(found.harness, content_id)
        if target.exists():
            if _set_apart(archive, target, content_id, apart):
                return None
            return _captured(target, content_id, manifest, "unchanged", findings)
        if verdict:
            findings.extend(_record_verdict(directory))
        with archive.sealing():
            latest = _latest(found, archive)
            if (latest and latest.content_id) != (previous and previous.content_id):
                return None
            private.folder(target.parent)
            seal(directory, target)
        return _captured(target, content_id, manifest, "superseding" if manifest.supersedes else "sealed", findings)


def _set_apart(archive: Archive, bundle: Path, content_id: str, apart: list[Finding]) -> bool:
    """Whether the bundle is not what it should be, and now has another name."""
    if bundle.exists() and _spoilt(bundle, content_id) is None:
        return False
    with archive.sealing():
        # once more, with nobody else at work on it
        spoilt = _spoilt(bundle, content_id) if bundle.exists() else None
        if spoilt is None:
            return not bundle.exists()
        name = archive.set_apart(bundle).name
    note = f"a bundle of this session was damaged ({spoilt}); it is now {name}, and the session is sealed anew"
    apart.append(Finding(kind="damaged-before", note=note, problem=True))
    return True


def _failed(found: Found, error: ForensicError) -> Captured:
    return Captured(
        bundle="",
        content_id="",
        harness=found.harness,
        session=found.session,
        rows=0,
        state="failed",
        findings=(Finding(kind="not-captured", note=str(error), problem=True),),
    )


def _captured(bundle: Path, content_id: str, manifest: Manifest, state: str, findings: list[Finding]) -> Captured:
    return Captured(
        bundle=str(bundle),
        content_id=content_id,
        harness=manifest.harness,
        session=manifest.session,
        rows=sum(generation.rows for source in manifest.sources for generation in source.generations),
        state=state,
        supersedes=manifest.supersedes if state == "superseding" else (),
        findings=(*findings, *left_out(manifest)),
    )


def _spoilt(target: Path, content_id: str) -> str | None:
    """Why the file of that name is not the sound bundle that it should be; None when it is."""
    try:
        bundle = open_bundle(target)
        bundle.check()
    except (Damaged, NewerFormat) as error:
        return str(error)
    return None if bundle.content_id == content_id else f"{target}: it holds {bundle.content_id[:16]}"


def _record_verdict(directory: Path) -> tuple[Finding, ...]:
    """Replay the recording and write what came of it; a parser's failure must not cost the evidence."""
    try:
        recorded = judge(open_recording(directory).replay())
    except (Damaged, NewerFormat):
        raise
    except Exception as error:  # noqa: BLE001 -- sealed without a verdict, and said so
        note = f"replay failed ({type(error).__name__}: {error}); sealed without a verdict"
        return (Finding(kind="no-verdict", note=note, problem=True),)
    with private.create(directory / "recorded.json") as out:
        out.write(canonical(recorded) + b"\n")
    return ()
