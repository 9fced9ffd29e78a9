"""Intake: every session below the named paths, recorded, judged by replay, and sealed into the archive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from msgspec import Struct

from forensic.archive import Archive
from forensic.bundle import Bundle, content_id_of, open_bundle, seal
from forensic.capture.discover import Found, find
from forensic.capture.named import follows, record, unchanged
from forensic.errors import Damaged, ForensicError, NewerFormat, WriteFailed
from forensic.jsonio import canonical
from forensic.model import Finding, Manifest
from forensic.recording import Verdict, judge, open_recording

__all__ = ["Captured", "capture"]


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
    while True:
        captured = _capture_after(_latest(found, archive), found, archive, verdict=verdict)
        if captured is not None:
            return captured


def _latest(found: Found, archive: Archive) -> Bundle | None:
    return archive.newest(found.harness, found.session, lambda manifest: follows(found, manifest))


def _capture_after(previous: Bundle | None, found: Found, archive: Archive, *, verdict: bool) -> Captured | None:
    """Capture a session that stands in the archive so far; None when somebody else sealed more of it meanwhile."""
    findings: list[Finding] = list(found.findings)
    if previous is not None and unchanged(found, previous.manifest) and not _spoilt(previous.path, previous.content_id):
        return _captured(previous.path, previous.content_id, previous.manifest, "unchanged", findings)
    with archive.workspace() as directory:
        manifest = record(found, directory, previous, report=findings.append)
        content_id = content_id_of(manifest.evidence)
        if verdict and not archive.path_of(found.harness, content_id).exists():
            findings.extend(_record_verdict(directory))
        with archive.sealing():
            latest = _latest(found, archive)
            if (latest and latest.content_id) != (previous and previous.content_id):
                return None
            return _seal(directory, archive.path_of(found.harness, content_id), content_id, manifest, findings)


def _seal(directory: Path, target: Path, content_id: str, manifest: Manifest, findings: list[Finding]) -> Captured:
    if target.exists():
        spoilt = _spoilt(target, content_id)
        if spoilt is None:
            return _captured(target, content_id, manifest, "unchanged", findings)
        findings.append(_set_apart(target, spoilt))
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    seal(directory, target)
    state = "superseding" if manifest.supersedes else "sealed"
    return _captured(target, content_id, manifest, state, findings)


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
        findings=tuple(findings),
    )


def _spoilt(target: Path, content_id: str) -> str | None:
    """Why the file of that name is not the sound bundle that it should be; None when it is."""
    try:
        bundle = open_bundle(target)
        bundle.check()
    except (Damaged, NewerFormat) as error:
        return str(error)
    return None if bundle.content_id == content_id else f"{target}: it holds {bundle.content_id[:16]}"


def _set_apart(target: Path, reason: str) -> Finding:
    """Give a spoilt bundle another name, so that the session can be sealed anew; raises `WriteFailed`."""
    for number in count(1):
        apart = target.with_name(f"{target.name}.damaged-{number}")
        if not apart.exists():
            break
    try:
        target.rename(apart)
    except OSError as error:
        raise WriteFailed(path=apart, detail=error.strerror or type(error).__name__) from None
    note = f"a bundle of this session was damaged ({reason}); it is now {apart.name}, and the session is sealed anew"
    return Finding(kind="damaged-before", note=note, problem=True)


def _record_verdict(directory: Path) -> tuple[Finding, ...]:
    """Replay the recording and write what came of it; a parser's failure must not cost the evidence."""
    try:
        recorded: Verdict = judge(open_recording(directory).replay())
    except (Damaged, NewerFormat):
        raise
    except Exception as error:  # noqa: BLE001 -- sealed without a verdict, and said so
        note = f"replay failed ({type(error).__name__}: {error}); sealed without a verdict"
        return (Finding(kind="no-verdict", note=note, problem=True),)
    target = directory / "recorded.json"
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    target.touch(mode=0o600)
    target.write_bytes(canonical(recorded) + b"\n")
    return ()
