"""`make golden-from-lab`: golden recordings out of our own live capture of real clients.

    python tests/lab/lab_golden.py [--only claude/live-read-edit-run] [--force]

Writes `golden/<harness>/live-<case>/`: what the bundle held, unpacked, with nothing of the machine in it. A recording
that is there is left as it is, unless forced to: a released one is never made again.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from golden_extension import GOLDEN, NOBODY
from lab_cursor import PROGRAM, SESSIONS, Cursor
from lab_place import Missing, harness_of
from lab_runs import Lab
from lab_scrub import Scrubber
from msgspec.structs import replace

from forensic.bundle import Bundle, evidence_of, open_bundle, write_manifest
from forensic.jsonio import canonical
from forensic.model import GenerationEvidence, Manifest, Payload, Role, Row, SideFile, Source
from forensic.wrapping import PayloadSum, wrap_payload, wrap_row

__all__ = ["neutral_copy"]

CASES: Final = {
    "claude/live-read-edit-run": ("claude", "b_read_edit_bash"),
    "claude/live-helper-in-the-foreground": ("claude", "p_foreground_agent"),
    "claude/live-transcript-deleted": ("claude", "transcript_deleted"),
    "codex/live-read-edit-run": ("codex", "b_read_edit_bash"),
    "codex/live-resumed-in-a-javascript-cell": ("codexjs", "i_resume"),
    "codex/live-transcript-deleted": ("codex", "transcript_deleted"),
    "copilot/live-read-edit-run": ("copilot", "b_read_edit_bash"),
    "copilot/live-helpers": ("copilot", "f_subagent"),
    "copilot/live-refused": ("copilotoai", "e_denied"),
}
"""Case, client and scenario. Those of Cursor come from payloads that were written by hand: lab_cursor.py."""


def neutral_copy(bundle: Bundle, target: Path, *, home: str = "", program: str = "") -> None:
    """Unpack a bundle into a new folder, without anything of the machine that it was recorded on.

    `home` is told as that of the user dev, `program` as what called the hooks, where these are given.
    """
    target.mkdir(parents=True)
    _Copy(bundle, target, home, program).write()


class _Copy:
    def __init__(self, bundle: Bundle, target: Path, home: str, program: str) -> None:
        entries = list(bundle.timeline())
        self.bundle, self.target = bundle, target
        self.payloads = [entry for entry in entries if isinstance(entry, Payload)]
        self.rows = [entry for entry in entries if isinstance(entry, Row)]
        self.sides = [entry for entry in entries if isinstance(entry, SideFile)]
        self.scrub = Scrubber(datetime.fromtimestamp(self.payloads[0].wall // 10**9, UTC), home)
        self.program = program
        self.first = self.payloads[0].mono
        self.numbers: dict[tuple[str, int], int] = {}

    def write(self) -> None:
        """Everything in the order in which ids are to be counted: session, payloads, rows, side files."""
        manifest = self.bundle.manifest
        session = self.scrub.text(manifest.session)
        evidence = self._payloads()
        sources = tuple(self._source(source) for source in manifest.sources)
        for name, lines in (("bindings", self._bindings()), ("context", self._context())):
            (self.target / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        neutral = Manifest(
            format=manifest.format,
            evidence=evidence_of(sources, evidence),
            harness=manifest.harness,
            session=session,
            producer_versions=manifest.producer_versions,
            sources=sources,
            capture=NOBODY,
            gaps=manifest.gaps,
        )
        (self.target / "manifest.json").write_bytes(write_manifest(neutral))
        open_bundle(self.target).check()

    def _number(self, kind: str, value: int) -> int:
        """The n-th of its kind, 0 where there is none."""
        known = [key for key in self.numbers if key[0] == kind]
        return self.numbers.setdefault((kind, value), len(known) + 1) if value else 0

    def _payloads(self) -> tuple[GenerationEvidence, ...]:
        total, lines = PayloadSum(), []
        for payload in self.payloads:
            raw = self.scrub.row(payload.raw)
            total.add(raw)
            saw = tuple(
                replace(
                    one,
                    path=self.scrub.text(one.path),
                    dev=min(one.dev, 1),
                    ino=self._number("file", one.ino),
                )
                for one in payload.saw
            )
            neutral = replace(
                payload,
                boot=f"{1:032x}",
                mono=payload.mono - self.first + 10**9,
                wall=payload.wall + self.scrub.nanoseconds,
                pid=self._number("process", payload.pid),
                ppid=self._number("process", payload.ppid),
                parent_exe=self.program or payload.parent_exe,
                cwd=self.scrub.text(payload.cwd),
                kept={name: self.scrub.text(value) for name, value in payload.kept.items()},
                saw=saw,
                size=len(raw),
                raw=raw,
            )
            lines.append(wrap_payload(neutral))
        (self.target / "payloads.jsonl").write_bytes(b"".join(lines))
        return total.evidence()

    def _source(self, source: Source) -> Source:
        contents = self._sides(source) if source.role is Role.SIDE else self._streams(source)
        generations = []
        for generation, member, (content, rows, kept) in zip(source.generations, source.members, contents, strict=True):
            path = self.target / member
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(kept)
            digest = hashlib.sha256(content).hexdigest()
            neutral = replace(generation, bytes=len(content), rows=rows, sha256=digest, dev=0, ino=0, mtime_ns=0)
            generations.append(neutral)
        return replace(
            source,
            native_id=self.scrub.text(source.native_id),
            stream=self.scrub.text(source.stream),
            parent=None if source.parent is None else self.scrub.text(source.parent),
            path=self.scrub.text(source.path),
            generations=tuple(generations),
        )

    def _streams(self, source: Source) -> Iterator[tuple[bytes, int, bytes]]:
        """Content, rows and member of each generation of a stream."""
        for number in range(1, len(source.generations) + 1):
            contents, lines, offset = [], [], 0
            for row in self.rows:
                if (row.ref.stream, row.ref.generation) == (source.stream, number):
                    raw = self.scrub.row(row.raw)
                    ref = replace(row.ref, stream=self.scrub.text(source.stream), offset=offset)
                    lines.append(wrap_row(ref, row.line, raw, row.end))
                    contents.append(raw + row.end)
                    offset += len(contents[-1])
            yield b"".join(contents), len(lines), b"".join(lines)

    def _sides(self, source: Source) -> Iterator[tuple[bytes, int, bytes]]:
        for member in source.members:
            content = self.scrub.side(self.bundle.member(member) or b"")
            yield content, 0, content

    def _bindings(self) -> Iterator[bytes]:
        for line in self.bundle.bindings():
            wall, mono = line.wall + self.scrub.nanoseconds, line.mono - self.first + 10**9
            yield canonical(replace(line, stream=self.scrub.text(line.stream), wall=wall, mono=mono))

    def _context(self) -> Iterator[bytes]:
        for known in self.bundle.context():
            yield self.scrub.text(canonical(known).decode()).encode()


def main() -> int:
    """Record what is wanted and not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=[*CASES, *SESSIONS], help="a case, in place of all")
    parser.add_argument("--into", type=Path, default=GOLDEN, help="another folder than golden/")
    parser.add_argument("--force", action="store_true", help="record also those that are there")
    asked = parser.parse_args()
    wanted = [name for name in asked.only or [*CASES, *SESSIONS] if asked.force or not (asked.into / name).exists()]
    with tempfile.TemporaryDirectory(prefix="forensic-lab-") as folder:
        for name in wanted:
            if name in SESSIONS:
                home = Path(folder).resolve() / name.replace("/", "-")
                SESSIONS[name](cursor := Cursor(home))
                _put(cursor.bundle(), asked.into / name, home=str(home), program=PROGRAM)
        try:
            lab = Lab(Path(folder), *{harness_of(CASES[name][0]) for name in wanted if name in CASES})
        except Missing as missing:
            print(f"the lab cannot run: {missing}", file=sys.stderr)
            return 2
        for name in wanted:
            if name in CASES:
                (bundle,) = lab.hooked(*CASES[name], "alone").bundles
                _put(bundle, asked.into / name)
    return 0


def _put(bundle: Bundle, target: Path, **told: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    neutral_copy(bundle, target, **told)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target.parent.name}/{target.name}: {size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
