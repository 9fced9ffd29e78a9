"""Whether one bundle holds all that others hold: asked before anything is deleted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from forensic.bundle import Bundle
from forensic.model import GenerationEvidence, Manifest, Payload, Role, Row, Source

__all__ = ["missing"]

_HOOKS: Final = ("hooks", 1)
_Life = tuple[str, int]
"""A stream and one of its generations."""


def missing(bundle: Bundle, older: Mapping[str, Manifest]) -> dict[str, str]:
    """For each of the older manifests, by its key, what `bundle` does not hold of it: one reason, empty when nothing.

    A generation is held when the bundle has the same one, or one that begins with all its bytes: that is computed from
    the rows themselves. A version of a side file must be there as it was. Raises `Damaged` when the bundle is.
    """
    manifest = bundle.manifest
    if manifest.salvaged_from is not None or manifest.redaction is not None:
        return dict.fromkeys(older, "what supersedes it is not whole: it was salvaged or redacted")
    claims = {key: list(_claims(manifest, before)) for key, before in older.items()}
    lengths: dict[_Life, set[int]] = {}
    for claim in (claim for several in claims.values() for claim in several):
        for life in claim.lives:
            lengths.setdefault(life, set()).add(claim.evidence.bytes)
    beginnings = set(_beginnings(bundle, lengths)) if lengths else set()
    return {key: next(_unheld(several, beginnings), "") for key, several in claims.items()}


class _Claim:
    """One generation of an older bundle that is in none of the newer one's as it stands."""

    def __init__(self, what: str, evidence: GenerationEvidence, lives: Iterable[_Life]) -> None:
        self.what = what
        self.evidence = evidence
        self.lives = tuple(lives)


def _claims(manifest: Manifest, before: Manifest) -> Iterator[_Claim]:
    """What has to be found in the newer bundle's rows, and where it may be."""
    here = {_key(source): source for source in manifest.sources}
    for source in before.sources:
        now = here.get(_key(source))
        lives = _evidence(now) if now is not None else {}
        for evidence in _evidence(source).values():
            if evidence.bytes and evidence not in lives.values():
                longer = (life for life, other in lives.items() if other.bytes > evidence.bytes)
                name = source.native_id if source.role is Role.SIDE else source.stream
                yield _Claim(name, evidence, () if source.role is Role.SIDE else longer)
    for evidence in before.evidence.payloads:
        if evidence not in manifest.evidence.payloads:
            yield _Claim("hook payloads", evidence, (_HOOKS,))


def _key(source: Source) -> tuple[Role, str]:
    return source.role, source.native_id if source.role is Role.SIDE else source.stream


def _evidence(source: Source) -> dict[_Life, GenerationEvidence]:
    return {
        (source.stream, number): GenerationEvidence(each.bytes, each.rows, each.sha256)
        for number, each in enumerate(source.generations, start=1)
    }


def _unheld(claims: Iterable[_Claim], beginnings: set[tuple[_Life, int, str]]) -> Iterator[str]:
    for claim in claims:
        size, sha256 = claim.evidence.bytes, claim.evidence.sha256
        if not any((life, size, sha256) in beginnings for life in claim.lives):
            yield f"{claim.what}: {size} bytes of it are only in there"


def _beginnings(bundle: Bundle, lengths: Mapping[_Life, set[int]]) -> Iterator[tuple[_Life, int, str]]:
    """SHA-256 of the first so many bytes of generations, from their rows; of payloads, as evidence counts them."""
    hashes = {life: _Beginning(sorted(several)) for life, several in lengths.items()}
    for entry in bundle.timeline():
        if isinstance(entry, Row):
            life, told = (entry.ref.stream, entry.ref.generation), entry.raw + entry.end
        elif isinstance(entry, Payload):
            life, told = _HOOKS, entry.raw
        else:
            continue
        if life in hashes:
            found = hashes[life].payload(told) if life == _HOOKS else hashes[life].feed(told)
            for length, sha256 in found:
                yield life, length, sha256


class _Beginning:
    """A running hash that is read at given lengths, in rising order."""

    def __init__(self, lengths: list[int]) -> None:
        self._due = lengths[::-1]
        self._done = 0
        self._hash = hashlib.sha256()

    def feed(self, data: bytes) -> Iterator[tuple[int, str]]:
        while self._due and self._done + len(data) >= self._due[-1]:
            length = self._due.pop()
            part = data[: length - self._done]
            self._hash.update(part)
            data = data[len(part) :]
            self._done = length
            yield length, self._hash.hexdigest()
        self._hash.update(data)
        self._done += len(data)

    def payload(self, content: bytes) -> Iterator[tuple[int, str]]:
        """Payloads are told apart by their lengths, so only whole ones make a beginning."""
        self._hash.update(b"%d:%b," % (len(content), content))
        self._done += len(content)
        if self._done in self._due:
            yield self._done, self._hash.hexdigest()
