"""What must be true of a run: everything recorded once, nothing disturbed."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Final

from lab_runs import RACING, Lab, Run
from msgspec import Struct, field

from forensic.bundle import Bundle
from forensic.model import Payload, Role, Row
from forensic.recording import open_recording
from forensic.registration.clients import CLIENTS, SAFE

__all__ = ["Calm", "Verdict", "judge"]


class Verdict(Struct):
    """What was compared of a run, and every difference."""

    client: str
    scenario: str
    way: str
    hooks: int = 0
    rows: int = 0
    lost: int = 0
    """Files of transcripts that were deleted, replaced or cut meanwhile."""
    bundles: int = 0
    races: bool = False
    """Whether chance decides what is said, so that only exit codes and the project were compared."""
    seconds: tuple[float, float] = (0, 0)
    """Of the client alone: without hooks, and in this run."""
    faults: list[str] = field(default_factory=list)


def judge(run: Run, way: str) -> Verdict:
    """Compare what was recorded of a run with what happened in it."""
    found = Verdict(run.client, run.scenario, way, bundles=len(run.bundles))
    found.faults += _program(run)
    for bundle in run.bundles:
        report = open_recording(bundle.path).verify()
        found.faults += [f"{bundle.path.name}: {finding.kind}: {finding.note}" for finding in report.findings]
    if any(run.hooks()):
        _payloads(run, found)
    _rows(run, found)
    return found


def _program(run: Run) -> list[str]:
    """What our own program said that it should not have to, and what it left."""
    faults, tool = [], run.folder / "tool"
    for told in ("install", "once", "seal", "again", "status"):
        code = tool / f"{told}.rc"
        errors = (tool / f"{told}.stderr").read_bytes() if code.exists() else b"it did not run"
        if errors or code.read_text() != "0":
            said = errors or (tool / f"{told}.stdout").read_bytes()
            faults.append(f"{told}: {said.decode(errors='replace')[-600:]}")
    left = [path for name in ("*.hook", ".tmp-*", "lost/*", "pins/*") for path in (run.data / "spool").glob(name)]
    left += (run.data / "live").glob("*")
    if left:
        faults.append(f"left behind: {[str(path.relative_to(run.data)) for path in left[:5]]} ({len(left)})")
    log = run.data / "spool" / "diagnostics.log"
    if log.exists():
        faults.append(f"diagnostics: {log.read_text()[:400]}")
    modes = json.loads((tool / "modes.json").read_bytes())
    faults += [f"{path} is not private: {mode}" for path, mode in modes.items() if int(mode, 8) & 0o077]
    return faults


def _payloads(run: Run, found: Verdict) -> None:
    """Every hook that fired and that we registered, once, byte for byte; and none besides."""
    registered = {event.name for event in CLIENTS[run.harness].events if event.level == SAFE}
    # a client that was killed may have begun a hook and told it nothing
    fired = Counter((event, raw) for event, raw in run.hooks() if event in registered and raw)
    held: Counter[tuple[str, bytes]] = Counter()
    for bundle in run.bundles:
        payloads = [entry for entry in bundle.timeline() if isinstance(entry, Payload)]
        held.update((payload.argv[0], payload.raw) for payload in payloads)
        if bundle.manifest.harness != run.harness or bundle.manifest.session == "unattributed":
            found.faults.append(f"a bundle of {bundle.manifest.harness} {bundle.manifest.session}")
    found.hooks = fired.total()
    for name, differ in (("missing", fired - held), ("too many", held - fired)):
        if differ:
            events = dict(Counter(event for event, _ in differ.elements()))
            event, raw = next(iter(differ))
            found.faults.append(f"payloads {name}: {events}, such as {event} {raw[:300]!r}")


def _rows(run: Run, found: Verdict) -> None:
    """Every transcript that was ever there, to its last byte, once; and side files as they were at the end."""
    home = f"{run.told['home']}/"
    stood: dict[str, list[bytes]] = {}
    for path, content in run.transcripts():
        if path.endswith(".jsonl") and content:
            stood.setdefault(home + path, []).append(content)
    kept: dict[str, list[bytes]] = {}
    for bundle in run.bundles:
        found.faults += _unread(bundle, stood)
        for path, content in _contents(bundle):
            kept.setdefault(path, []).append(content)
    for path in sorted(stood.keys() | kept.keys()):
        copies = [copy for copy in kept.get(path, []) if copy]
        last = run.folder / "transcripts" / path.removeprefix(home)
        if path.endswith(".jsonl"):
            found.rows += sum(content.count(b"\n") for content in stood.get(path, []))
            right = sorted(copies) == sorted(stood.get(path, []))
        else:
            right = not last.is_file() or last.read_bytes() in copies
        if not right:
            sizes = sorted(map(len, stood.get(path, []))) or last.stat().st_size
            found.faults.append(f"{path}: {sizes} bytes, we have {sorted(map(len, copies))}")
    found.lost = len(list((run.folder / "tool" / "deleted").rglob("*.jsonl")))


def _unread(bundle: Bundle, stood: dict[str, list[bytes]]) -> Iterator[str]:
    """Files that were not read, or not whole; a transcript may be named and never written."""
    for source in bundle.manifest.sources:
        missed = source.state == "missed" and source.path in stood
        if missed or source.state == "refused" or source.gap or source.partial:
            yield f"{source.path}: {source.state} {source.reason} gap={source.gap}"


def _contents(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of each generation in a bundle."""
    streams: dict[tuple[str, int], list[bytes]] = {}
    for entry in bundle.timeline():
        if isinstance(entry, Row):
            streams.setdefault((entry.ref.stream, entry.ref.generation), []).append(entry.raw + entry.end)
    for source in bundle.manifest.sources:
        for number, member in enumerate(source.members, start=1):
            if source.role is Role.SIDE:
                yield source.path, bundle.member(member) or b""
            else:
                yield source.path, b"".join(streams.get((source.stream, number), []))


# --- nothing disturbed ------------------------------------------------------------------------------------------------


class Calm:
    """Runs of a scenario without hooks: more than one where a run with hooks differs, as two without may."""

    def __init__(self, lab: Lab, client: str, scenario: str, *, most: int = 4) -> None:
        """Run it once; up to `most` times when a run with hooks differs."""
        self._again = functools.partial(lab.bare, client, scenario)
        self.runs, self._most = [self._again()], most

    def added(self, verdict: Verdict, run: Run) -> Verdict:
        """The verdict, with how the run differs from every one without hooks."""
        verdict.seconds = (self.runs[0].seconds, run.seconds)
        faults = min((list(disturbed(run, bare)) for bare in self.runs), key=len)
        while faults and len(self.runs) < self._most:
            self.runs.append(self._again())
            faults = min(faults, list(disturbed(run, self.runs[-1])), key=len)
        if faults and run.scenario in RACING:
            verdict.races = True
            faults = list(_deeds(run, self.runs[0]))
        verdict.faults += faults
        return verdict


def disturbed(run: Run, bare: Run) -> Iterator[str]:
    """How what the client did, said and asked of its model differs from a run without hooks."""
    yield from _deeds(run, bare)
    yield from _words(run, bare)


def _deeds(run: Run, bare: Run) -> Iterator[str]:
    """What became of the project, how the client ended, and whether its model was told of us."""
    before, after = (one.told["project_after"] for one in (bare, run))
    if before != after:
        yield f"the project: {before} became {after}"
    told = next((text for text in run.asked() if ".forensic" in text), None)
    if told is not None:
        yield f"the model is told of our hooks: {told[:400]!r}"
    codes = [[step.get("rc") for step in one.told["steps"]] for one in (bare, run)]
    if codes[0] != codes[1]:
        yield f"exit codes {codes[0]} became {codes[1]}"


def _words(run: Run, bare: Run) -> Iterator[str]:
    """What the client asked of its model, and what it printed."""
    if run.told["model_requests"] != bare.told["model_requests"]:
        yield f"requests to the model: {bare.told['model_requests']} became {run.told['model_requests']}"
    yield from _difference("asked of the model", *(sorted(set(map(_still, one.asked()))) for one in (bare, run)))
    for number, step in enumerate(run.told["steps"]):
        for kind in ("stdout", "stderr"):
            said = [_said(one.folder / f"step{number}.{kind}") for one in (bare, run)]
            if not step.get("kill"):  # a signal cuts what was being written anywhere
                yield from _difference(f"{kind} of step {number}", *said)


def _difference(what: str, before: list[Any], now: list[Any]) -> Iterator[str]:
    """What there is of one and not of the other; in which order is a race where tools run at once."""
    counts = [Counter(json.dumps(one, sort_keys=True, ensure_ascii=False) for one in each) for each in (before, now)]
    gone, come = counts[0] - counts[1], counts[1] - counts[0]
    if gone or come:
        one, other = next(iter(gone), ""), next(iter(come), "")
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        at = max(0, same - 80)
        yield f"{what}: {gone.total()} {one[at:][:300]!r} became {come.total()} {other[at:][:300]!r}"


_VARIES: Final = [
    (re.compile(pattern), stands)
    for pattern, stands in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"\d{4}-\d\d-\d\dT\d\d[-:][-0-9:.]+Z?", "TIME"),
        (r"\"nickname\":\"[^\"]+", "NAME"),
        (r"\b[0-9a-f]{7} start\b|\b[0-9a-f]{40}\b", "COMMIT"),
        (r"\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b", "ID"),
        (r"duration_ms\W+\d+", "DURATION"),
        (r"(Pre|Post)Compact \[/usr/bin/env python3[^]]*\] completed successfully\n?", ""),  # of the lab's own hooks
        (r"127\.0\.0\.1:\d+", "SERVER"),
        (r"\b\d+(\.\d+)?m?s\b", "DURATION"),
        (r"[Ww]all.time(_seconds)?\W*[\d.e-]+", "DURATION"),
        (r"\bitem_\d+", "ITEM"),
        (r"\breq_[0-9a-f]{24}\b", "ID"),
        (r"\b0[0-9a-z]{8}-[0-9a-f]{8}\b", "ID"),
        (r"\b(a[0-9a-f]{16}|call_[\w-]+|toolu_\w+|exec-\w+|b[0-9a-z]{8})\b", "ID"),
        (r"/tmp/[\w./-]+", "TMP"),  # noqa: S108 -- where clients put what they hand to themselves
        (r"shellId: \d+", "SHELL"),
        (r"\b[Ss]ession[- ][0-9a-f]{8}\b", "ID"),
        (r"sequence \d+", "SEQUENCE"),
        (r"[Cc]hunk.(ID|id)\W*\w+", "CHUNK"),
    )
]
_MEASURED: Final = re.compile(r"(_ms|_at|_time|_seconds|[Dd]uration|Ms|timestamp|pid|nickname|chunk_id)$")
_OF_HOOKS: Final = (
    '{"type":"system","subtype":"hook_',  # Claude Code, asked for all that it does, tells of every hook at the start
    "`--dangerously-bypass-hook-trust` is enabled",  # Codex says so for each file of hooks
    "clamping SessionEnd hook timeout",  # and finds those of the lab too patient
    "clamping Interrupt hook timeout",
)


def _said(path: Path) -> list[Any]:
    """What a client said, without what differs from run to run."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    said = []
    for line in lines:
        if any(mark in line for mark in _OF_HOOKS):
            continue
        try:
            said.append(_still(json.loads(line)))
        except ValueError:
            said.append(_still(line))
    return said


def _still(value: Any) -> Any:
    if isinstance(value, str):
        if value.startswith('{"'):
            with contextlib.suppress(ValueError):
                return json.dumps(_still(json.loads(value)))
        for pattern, stands in _VARIES:
            value = pattern.sub(stands, value)
        return round(value, 6) if isinstance(value, float) else value
    if isinstance(value, list):
        calm = [_still(one) for one in value]
        return [one for before, one in pairwise([None, *calm]) if one != before or one != "UUID"]
    if isinstance(value, dict):
        return {_still(key): "MEASURED" if _MEASURED.search(key) else _still(one) for key, one in value.items()}
    return round(value, 6) if isinstance(value, float) else value
