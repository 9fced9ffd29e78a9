"""Recording: open a bundle, replay it, verify it. The place where bundles, dialects and replay meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from forensic.bundle import Bundle, open_bundle
from forensic.dialects.registry import parser, unverified
from forensic.errors import Damaged, NoSuchParser
from forensic.manifest import left_out
from forensic.model import FOLDED, WHOLE, Finding, Manifest, Node, Parsed, Session, SessionFrame
from forensic.renderers import document
from forensic.replay.player import digest, play
from forensic.replay.version import REPLAY_VERSION

__all__ = ["Recording", "Report", "Verdict", "judge", "open_recording"]

LARGE = 128_000_000
"""Bytes of members from which a verification builds no tree, so that its memory is bounded whatever is verified."""
Progress = Callable[[int], None]
"""Told of bytes done since the last call."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What replay gave when the bundle was sealed (``recorded.json``): docs/bundle.md.

    `title`, `started` and `ended` are there for lists, which replay nothing.
    """

    schema: int = 1
    parser: Parsed
    replay_version: int
    observations: int
    observations_sha256: str
    document_sha256: str
    rows: dict[str, int]
    decisions: dict[str, int]
    title: str | None = None
    started: datetime | None = None
    ended: datetime | None = None


class Report(Struct, frozen=True, kw_only=True):
    """The outcome of a verification. `damaged` bundles could not be read to their end."""

    bundle: str
    content_id: str
    bundle_id: str | None
    ok: bool
    damaged: bool
    findings: tuple[Finding, ...]


class Recording:
    """One recording, sealed or unpacked."""

    def __init__(self, bundle: Bundle) -> None:
        """Wrap an open bundle."""
        self.bundle = bundle

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.bundle.path

    @property
    def manifest(self) -> Manifest:
        """Its first member."""
        return self.bundle.manifest

    @property
    def content_id(self) -> str:
        """What was recorded, whoever recorded it: 64 hex digits."""
        return self.bundle.content_id

    @property
    def bundle_id(self) -> str | None:
        """This very bundle; None for an unpacked recording."""
        return self.bundle.bundle_id

    def replay(self, parser_version: int | None = None, *, whole: bool = False) -> Session:
        """The session as a parser version reads it (the newest, unless named); `whole` keeps long texts.

        Raises `Damaged` when the bundle is, `NoSuchParser` when that version does not exist.
        """
        manifest = self.manifest
        reads = parser(manifest.harness, parser_version)
        return play(
            self.bundle.timeline(),
            reads,
            harness=manifest.harness,
            session=manifest.session,
            producer=manifest.producer_versions,
            content_id=self.content_id,
            keep=WHOLE if whole else FOLDED,
            findings=_known_before(manifest),
            remarks=_remarks(manifest),
        )

    def verdict(self) -> Verdict | None:
        """What replay gave at the seal; None when the bundle was sealed without."""
        raw = self.bundle.recorded()
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=Verdict)
        except msgspec.MsgspecError as error:
            raise Damaged(path=self.path, detail=f"recorded.json: {error}") from None

    def verify(self, *, verdict: bool = True, progress: Progress | None = None) -> Report:
        """Read all data, then replay and compare with what was recorded (unless `verdict` is False)."""
        findings: list[Finding] = []
        damaged = False
        try:
            self.bundle.check(progress)
            if verdict:
                findings.extend(self._compare())
        except Damaged as error:
            damaged = True
            findings.append(Finding(kind="damaged", note=str(error), problem=True))
        return Report(
            bundle=str(self.path),
            content_id=self.content_id,
            bundle_id=self.bundle_id,
            ok=not any(finding.problem for finding in findings),
            damaged=damaged,
            findings=tuple(findings),
        )

    def _compare(self) -> Iterator[Finding]:
        recorded = self.verdict()
        if recorded is None:
            yield Finding(kind="no-verdict", note="sealed without a replay to compare with")
            return
        try:
            if self.bundle.size > LARGE:
                yield from self._compare_observations(recorded)
                return
            now = judge(self.replay(recorded.parser.version))
        except NoSuchParser as error:
            yield Finding(kind="no-parser", note=str(error), problem=True)
            return
        yield from _differing(recorded, now.parser.dialect, now.observations_sha256)
        if now.replay_version != recorded.replay_version:
            note = f"sealed with replay version {recorded.replay_version}, this is {REPLAY_VERSION}: trees may differ"
            yield Finding(kind="replay-version", note=note)
        elif now.document_sha256 != recorded.document_sha256:
            yield Finding(kind="document-differs", note="replay gives another document than at the seal", problem=True)

    def _compare_observations(self, recorded: Verdict) -> Iterator[Finding]:
        """The half of the verdict that must hold for ever, in the memory of a few frames."""
        reads = parser(self.manifest.harness, recorded.parser.version)
        _, sha256 = digest(self.bundle.timeline(), reads)
        yield from _differing(recorded, reads.dialect, sha256)
        note = f"over {LARGE // 1_000_000} MB: its observations were compared, its tree was not; replay makes one"
        yield Finding(kind="document-not-compared", note=note)


def _differing(recorded: Verdict, dialect: str, observations_sha256: str) -> Iterator[Finding]:
    if dialect != recorded.parser.dialect:
        note = f"judged at the seal by a parser of {recorded.parser.dialect}, which is not its own"
        yield Finding(kind="foreign-verdict", note=note, problem=True)
    if observations_sha256 != recorded.observations_sha256:
        note = f"parser version {recorded.parser.version} does not read it as recorded at the seal"
        yield Finding(kind="observations-differ", note=note, problem=True)


def open_recording(path: str | Path) -> Recording:
    """Open a sealed bundle or an unpacked recording; raises `NotABundle`, `NoSuchPath`, `NewerFormat`."""
    return Recording(open_bundle(Path(path)))


def judge(session: Session) -> Verdict:
    """The verdict on a replayed session."""
    return Verdict(
        parser=session.parser,
        replay_version=session.replay_version,
        observations=session.observations,
        observations_sha256=session.observations_sha256,
        document_sha256=document.write(session),
        rows=session.summary["rows"],
        decisions=_decisions(session),
        title=session.tree.seen.title if isinstance(session.tree.seen, SessionFrame) else None,
        started=session.summary["started"],
        ended=session.summary["ended"],
    )


def _decisions(session: Session) -> dict[str, int]:
    tally: Counter[str] = Counter(aside=len(session.aside))
    stack: list[Node] = [session.tree]
    while stack:
        node = stack.pop()
        tally["nodes"] += 1
        tally.update(proof.basis.value for proof in node.evidence)
        stack.extend(node.children)
    return dict(sorted(tally.items()))


def _remarks(manifest: Manifest) -> Iterator[Finding]:
    """What this very program says of the recording: its next version may say something else."""
    versions = unverified(manifest.harness, manifest.producer_versions)
    if versions:
        note = f"written by versions this parser was not checked against: {', '.join(versions)}"
        yield Finding(kind="unverified-producer", note=note)


def _known_before(manifest: Manifest) -> Iterator[Finding]:
    """What the manifest alone tells of trouble."""
    for gap in manifest.gaps:
        yield Finding(kind="gap", note=f"{gap.stream}: {gap.bytes} bytes missing at {gap.offset}: {gap.reason}")
    yield from left_out(manifest)
    for source in manifest.sources:
        if source.unread is not None:
            what = "are no whole row" if source.partial else "are a row without a line end"
            note = f"{source.stream}: the last {source.unread.bytes} bytes, from {source.unread.offset}, {what}"
            yield Finding(kind="unfinished-row" if source.partial else "unterminated-row", note=note)
    if manifest.salvaged_from is not None:
        lost = ", ".join(manifest.salvaged_from.lost) or "no member"
        yield Finding(kind="salvaged", note=f"salvaged from a damaged bundle; lost: {lost}")
