"""Every word of the house: what was recorded (top), what was read out of it (middle), what is made of it (bottom).

All values are plain and immutable in spirit; structs that hold only leaves are left out of garbage collection
(``gc=False``), which is safe because none of them can be part of a cycle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct, field

# --- what was recorded -----------------------------------------------------------------------------------------------


class Ref(Struct, frozen=True, order=True, array_like=True, gc=False):
    """Where a piece of evidence stands: stream, generation, byte offset of the row. Shown as ``main:1:4096``.

    Hook payloads are stream ``hooks`` with the payload's number as offset; side files are stream ``files/NNNN``.
    """

    stream: str
    generation: int
    offset: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.generation}:{self.offset}"


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One hook payload, untouched, in the envelope of docs/bundle.md. Times are nanoseconds."""

    ref: Ref
    n: int
    harness: str
    argv: tuple[str, ...] = ()
    boot: str = ""
    mono: int = 0
    wall: int = 0
    pid: int = 0
    ppid: int = 0
    parent_exe: str = ""
    cwd: str = ""
    env: tuple[str, ...] = ()
    kept: dict[str, str] = {}
    saw: tuple[Saw, ...] = ()
    size: int = field(default=0, name="bytes")
    cut: bool = False
    raw: bytes = b""


class Saw(Struct, frozen=True, gc=False):
    """A transcript as the hook saw it when it ran; `size` is -1 when it was not there."""

    path: str
    dev: int
    ino: int
    size: int


class Row(Struct, frozen=True, kw_only=True, gc=False):
    """One transcript row: the provider's bytes without its line end, which is ``end`` (LF, CR LF or nothing).

    `agent` is the native id of the transcript that it stands in when that is not the session's main one.
    """

    ref: Ref
    line: int
    raw: bytes
    end: bytes = b"\n"
    unverified: bool = False
    agent: str | None = None


class SideFile(Struct, frozen=True, kw_only=True, gc=False):
    """One version of a file that is no row stream: ``.meta.json``, a spilled tool result, a workspace description.

    `stream` is the one it belongs to, None when it stands alone; `superseded` says that a later version follows.
    """

    ref: Ref
    native_id: str
    stream: str | None
    raw: bytes
    superseded: bool = False


Entry = Payload | Row | SideFile
"""What a timeline is made of."""


class Ground(StrEnum):
    """Why rows were read at that moment."""

    PAYLOAD = "payload"
    POLL = "poll"
    BOUNDARY = "boundary"
    NAMED = "named"


class Binding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One drain: rows ``[rows[0], rows[1])`` of a generation, counted from 0, were read after payload `after`."""

    stream: str
    generation: int
    rows: tuple[int, int]
    after: int | None = None
    ground: Ground
    wall: int = 0
    mono: int = 0


class CaptureState(StrEnum):
    """How a source came into the recording."""

    NAMED = "named"
    LIVE = "live"
    BACKFILLED = "backfilled"
    MISSED = "missed"
    REFUSED = "refused"
    LOST = "lost"


UNREAD: Final = frozenset({CaptureState.MISSED, CaptureState.REFUSED})
"""States of sources that somebody named and of which nothing was read."""


class Role(StrEnum):
    """What a source is to its session."""

    MAIN = "main"
    SUBAGENT = "subagent"
    THREAD = "thread"
    SIDE = "side"


class Unread(Struct, frozen=True):
    """Bytes at the end of a source that are no finished row."""

    offset: int
    bytes: int


class Generation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One life of a file: from its creation, or from the moment it was found changed, to the next such moment."""

    bytes: int
    rows: int
    sha256: str
    dev: int = 0
    ino: int = 0
    mtime_ns: int = 0
    ended_by: str = ""


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transcript or side file. `members` name its bytes in the bundle, one a generation.

    `reason` says why there are none, where that is known.
    """

    stream: str
    role: Role
    native_id: str
    path: str = ""
    parent: str | None = None
    found_by: str = ""
    state: CaptureState
    encoding: str = "plain"
    generations: tuple[Generation, ...] = ()
    members: tuple[str, ...] = ()
    unread: Unread | None = None
    partial: bool = False
    gap: bool = False
    reason: str = ""


class Gap(Struct, frozen=True, kw_only=True):
    """Evidence known to be missing."""

    stream: str
    generation: int
    offset: int
    bytes: int
    reason: str


class GenerationEvidence(Struct, frozen=True):
    """What identifies one generation of a stream, or one version of a side file (then `rows` is 0)."""

    bytes: int
    rows: int
    sha256: str


class StreamEvidence(Struct, frozen=True):
    """What identifies one source, whoever captured it, wherever it lay."""

    stream: str
    role: Role
    native_id: str
    generations: tuple[GenerationEvidence, ...]


class Evidence(Struct, frozen=True):
    """The part of a manifest that the content id is made of: no time, no path, no version of ours."""

    streams: tuple[StreamEvidence, ...] = ()
    payloads: tuple[GenerationEvidence, ...] = ()


class Capture(Struct, frozen=True, kw_only=True):
    """Which program recorded, where and when. Times are RFC 3339 UTC; `utc_offset` is seconds."""

    recorder: str
    python: str
    platform: str
    zone: str
    utc_offset: int
    started: str
    sealed_at: str


class Redaction(Struct, frozen=True, kw_only=True):
    """What a redacted bundle says of itself: `of` is keyed by its owner, so nobody else can test a guess."""

    of: str
    policy: str
    rules: str
    counts: dict[str, int]


class Member(Struct, frozen=True):
    """Size in bytes and SHA-256 of one member."""

    size: int
    sha256: str


class Salvaged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a salvaged bundle came from and what did not come along."""

    content_id: str
    bundle_id: str
    lost: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()


class Manifest(Struct, frozen=True, kw_only=True):
    """The first member of every bundle; docs/bundle.md describes each field."""

    format: int
    requires: tuple[str, ...] = ()
    evidence: Evidence
    harness: str
    session: str
    producer_versions: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    capture: Capture
    gaps: tuple[Gap, ...] = ()
    supersedes: tuple[str, ...] = ()
    forked_from: str | None = None
    redaction: Redaction | None = None
    salvaged_from: Salvaged | None = None
    members: dict[str, Member] = {}


# --- what was read out of it -----------------------------------------------------------------------------------------

PREVIEW = 1000
"""Characters of a text that a document shows."""


class Text(Struct, frozen=True, omit_defaults=True, gc=False):
    """A text as a document holds it: length in code points, SHA-256 of its UTF-8, its first 1,000 characters.

    `text` is the whole of a longer one, filled only on ``--full``.
    """

    chars: int
    sha256: str
    preview: str
    text: str | None = None


class Keeper:
    """How texts are kept: folded (the default) or whole. Readers make every text through one."""

    __slots__ = ("_whole",)

    def __init__(self, *, whole: bool = False) -> None:
        """Fold texts over 1,000 characters, or keep them `whole` beside their preview."""
        self._whole = whole

    def text(self, text: str) -> Text:
        """The kept form of one text; it must hold no lone surrogate."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        length = len(text)
        if length <= PREVIEW:
            return Text(length, digest, text)
        return Text(length, digest, text[:PREVIEW], text if self._whole else None)

    def value(self, value: Any) -> Any:
        """The kept form of a JSON value: strings over 1,000 characters become `Text`, numbers no reader holds text."""
        if isinstance(value, str):
            return value if len(value) <= PREVIEW else self.text(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return str(value)
        return value


FOLDED: Final = Keeper()
WHOLE: Final = Keeper(whole=True)


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one row says about one model call. A count that is not a count of tokens is None and named in `unusable`.

    `input_tokens` are those that no cache gave or took; reasoning is a part of `output_tokens`; `total_tokens` is there
    for producers that tell a sum and not what it is made of. `units` are what the producer bills in besides tokens, by
    its own names. `calls` is how many model calls the figures cover, None for the one that the row tells of.

    With `running` the figures are no call's: they count everything since the counter of that name began in this stream
    (or began again, at a `SessionStart` that `resets`), and `last` is what its latest call added, if the row tells.
    """

    message: str | None = None
    request: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    final: bool = False
    unusable: tuple[str, ...] = ()
    total_tokens: int | None = None
    units: dict[str, int | float] | None = None
    calls: int | None = None
    running: str | None = None
    last: Usage | None = None


COUNTED: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "total_tokens",
)
Counts = tuple[int | None, ...]
"""The figures of one usage, in the order of `COUNTED`."""


class Told(Struct, gc=False):
    """What one row says of one call's usage, and nothing else of the row: its own id is `row`, the call's `message`."""

    message: str | None
    request: str | None
    model: str | None
    counts: Counts
    final: bool
    unusable: bool
    at: datetime | None
    agent: str | None
    row: str | None
    via: str | None


def _kind(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


class Observation(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=_kind, gc=False):
    """One thing seen in one entry, with its provenance.

    `ref` and `part` say where (a row yields parts 0, 1, ...); `at` is the producer's own time, UTC; `turn` and `agent`
    are native ids (no agent = the main one); `id` is the row's native id, equal in every copy of the row; `step` is
    the id of the model message that the piece belongs to; `via` is "progress" when the piece is a copy inside another
    row, and "event" when the producer tells of a thing a second time, as an event beside the item itself; `usage`
    stands on one observation a row, unless the row tells of several models; `ordinal` is the producer's own number of
    the row.
    """

    ref: Ref
    part: int = 0
    at: datetime | None = None
    turn: str | None = None
    agent: str | None = None
    id: str | None = None
    step: str | None = None
    via: str | None = None
    usage: Usage | None = None
    ordinal: int | None = None


class Prompt(Observation, frozen=True, kw_only=True):
    """What a person asked; opens a turn. `source` says how it came in (typed, queued, sdk, command, ...)."""

    text: Text
    source: str | None = None
    images: int = 0


class Injected(Observation, frozen=True, kw_only=True):
    """A user-role text that no person wrote there: `source` names what made it (meta, task-notification, ...)."""

    text: Text
    source: str
    call: str | None = None


class Thought(Observation, frozen=True, kw_only=True):
    """The model's reasoning; opaque when only a signature or an encrypted block is left of it."""

    text: Text | None = None
    opaque: bool = False
    redacted: bool = False
    signature_chars: int = 0


class Response(Observation, frozen=True, kw_only=True):
    """Text that the model addressed to the user."""

    text: Text
    synthetic: bool = False


class SystemPrompt(Observation, frozen=True, kw_only=True):
    """The instructions the client gave the model."""

    text: Text
    parts: int = 1


class ToolRequest(Observation, frozen=True, kw_only=True):
    """The model asked for a tool. `server` is the MCP server when the tool is one of its own.

    `reads`, `writes` (paths) and `command` (a shell's) say what the input asks for, as the dialect understands it.
    """

    name: str
    input: Any = None
    call: str | None = None
    server: str | None = None
    signature: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    command: Text | None = None


class Execution(Observation, frozen=True, kw_only=True):
    """A tool ran, told by the client; joins its request, or owns the call when the model made none of that id.

    `within` is the call inside which it ran, when the producer names it.
    """

    name: str
    input: Any = None
    call: str | None = None
    signature: str | None = None
    server: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    command: Text | None = None
    within: str | None = None


class ToolResult(Observation, frozen=True, kw_only=True):
    """What came back. `outcome` is ok, error, rejected, denied, interrupted or None (not told)."""

    call: str | None = None
    ok: bool | None = None
    outcome: str | None = None
    text: Text | None = None
    detail: Any = None
    duration_ms: float | None = None
    exit_code: int | None = None
    spawned: str | None = None
    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


class Progress(Observation, frozen=True, kw_only=True):
    """A sign of life of a running call."""

    family: str
    call: str | None = None


class Permission(Observation, frozen=True, kw_only=True):
    """A decision about a call: `decision` as the producer words it, `origin` who or what decided."""

    decision: str
    call: str | None = None
    origin: str | None = None
    detail: Any = None


class Skill(Observation, frozen=True, kw_only=True):
    """A skill by name; `stage` is available, attached, invoked or loaded; `path` is its file, when that is told."""

    name: str
    stage: str
    call: str | None = None
    path: str | None = None


class SubagentStart(Observation, frozen=True, kw_only=True):
    """A subagent, as far as this entry knows it: `spawned` is its native id, `call` the call that started it."""

    spawned: str
    call: str | None = None
    agent_type: str | None = None
    description: str | None = None
    workflow: str | None = None
    model: str | None = None


class SubagentStop(Observation, frozen=True, kw_only=True):
    """A subagent ended."""

    spawned: str
    status: str | None = None


class SessionStart(Observation, frozen=True, kw_only=True):
    """The session began, or began again.

    `thread` is the native id of what began; `parent` the thread that spawned it, `forked_from` the one whose history it
    took along. `own_from` is the ordinal of its first own row when the producer says where that history ends (0: it
    took none along). `resets` says that the producer's running counters begin again here.
    """

    source: str | None = None
    thread: str | None = None
    parent: str | None = None
    forked_from: str | None = None
    own_from: int | None = None
    resets: bool = False


class SessionEnd(Observation, frozen=True, kw_only=True):
    """The session ended."""

    reason: str | None = None


class TurnEnd(Observation, frozen=True, kw_only=True):
    """A turn ended, with what the producer measured."""

    duration_ms: float | None = None
    status: str | None = None


class Compaction(Observation, frozen=True, kw_only=True):
    """The conversation was shortened. `before_tokens` is the producer's own figure."""

    trigger: str | None = None
    before_tokens: int | None = None
    micro: bool = False


class Failure(Observation, frozen=True, kw_only=True):
    """A model call, or the client itself, failed; `attempt` of `attempts` when the producer retries."""

    text: Text
    status: int | None = None
    attempt: int | None = None
    attempts: int | None = None
    retry_ms: float | None = None


class HookRun(Observation, frozen=True, kw_only=True):
    """The client ran somebody's hook."""

    event: str
    name: str | None = None
    command: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    duration_ms: float | None = None
    text: Text | None = None
    call: str | None = None


class Title(Observation, frozen=True, kw_only=True):
    """A name for the session; `source` is who gave it."""

    text: Text
    source: str
    leaf: str | None = None


class Accounting(Observation, frozen=True, kw_only=True):
    """Figures that the producer keeps itself, by its own names; `output_tokens` are those of the session so far."""

    family: str
    figures: dict[str, Any] = {}
    output_tokens: int | None = None


class Setting(Observation, frozen=True, kw_only=True):
    """What is in force for this agent from here on, as far as the row tells: which model, with how much effort."""

    model: str | None = None
    effort: str | None = None
    value: Any = None


class SetAside(Observation, frozen=True, kw_only=True):
    """An entry of a known family that deliberately makes no node."""

    family: str
    call: str | None = None
    value: Any = None


class Mended(Observation, frozen=True, kw_only=True):
    """Something in the row had to be mended to read it; its other parts stand beside this one."""

    reason: str
    bytes: int = 0


class Unmodelled(Observation, frozen=True, kw_only=True):
    """A row, block or payload that says nothing to this parser: carried, never guessed."""

    family: str


class Unreadable(Observation, frozen=True, kw_only=True):
    """An entry, or a stretch of it, that could not be read; nothing is lost, it stands in the bundle."""

    reason: str
    bytes: int = 0


# --- what is made of it ----------------------------------------------------------------------------------------------


class Basis(StrEnum):
    """How surely evidence belongs to its node."""

    EXACT = "exact"
    COMPARED = "compared"
    DERIVED = "derived"


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Trouble, as a value. `problem` findings make a command end with 1, others inform."""

    kind: str
    note: str
    ref: Ref | None = None
    problem: bool = False
    count: int = 1


class Proof(Struct, frozen=True, omit_defaults=True):
    """One observation that belongs to a node, why, and what else was near."""

    ref: Ref
    part: int
    kind: str
    basis: Basis
    agreed: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


class Frame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=_kind):
    """A node that stands for no single observation; `ref` and `at` are those of its first piece."""

    ref: Ref | None = None
    part: int = 0
    at: datetime | None = None
    until: datetime | None = None


class SessionFrame(Frame, frozen=True, kw_only=True, tag="session"):
    """The root of every tree."""

    id: str
    title: str | None = None


class HistoryFrame(Frame, frozen=True, kw_only=True, tag="history"):
    """What a forked or spawned thread took along of another one's history; `rule` is what told it apart."""

    id: str
    rule: str


class TurnFrame(Frame, frozen=True, kw_only=True, tag="turn"):
    """All that one prompt led to, up to the next. `number` counts from 1; None when no person opened it."""

    id: str
    number: int | None = None
    source: str | None = None
    aborted: bool = False


class StepFrame(Frame, frozen=True, kw_only=True, tag="step"):
    """All pieces of one model message."""

    id: str
    model: str | None = None


class SubagentFrame(Frame, frozen=True, kw_only=True, tag="subagent"):
    """Everything one subagent did. `proof` names the identifier that ties it to its call, None when nothing does."""

    id: str
    agent_type: str | None = None
    description: str | None = None
    workflow: str | None = None
    call: str | None = None
    proof: str | None = None


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a call ended: the result, its outcome word and its duration with who measured it (reported or clock)."""

    outcome: str
    duration_ms: float | None = None
    measured: str | None = None
    result: ToolResult | None = None


class Node(Struct, kw_only=True):
    """A node of the tree: what it is, what proves it, what came of it."""

    seen: Observation | Frame
    outcome: Outcome | None = None
    evidence: Sequence[Proof] = ()
    children: Sequence[Node] = ()

    def prove(self, proof: Proof) -> None:
        """Add a piece of evidence."""
        # most nodes never have any: one shared empty tuple spares a large session two lists a node
        if not self.evidence:
            self.evidence = (proof,)
        elif isinstance(self.evidence, list):
            self.evidence.append(proof)
        else:
            self.evidence = [*self.evidence, proof]

    def add(self, child: Node) -> None:
        """Add a node below this one, as the last."""
        if isinstance(self.children, list):
            self.children.append(child)
        else:
            self.children = [*self.children, child]


class Parsed(Struct, frozen=True):
    """Which parser read the session."""

    dialect: str
    version: int


class Session(Struct, kw_only=True):
    """One replayed session; `forensic.renderers.document` writes it, docs/replay.md specifies the result.

    `remarks` are what the replaying program has to say; they are shown, and stand in no document.
    """

    SCHEMA: ClassVar[int] = 1
    harness: str
    session: str
    producer: tuple[str, ...]
    parser: Parsed
    replay_version: int
    content_id: str
    usage: Any
    summary: Any
    tree: Node
    aside: list[Observation]
    findings: list[Finding]
    remarks: list[Finding] = field(default_factory=list)
    observations: int = 0
    observations_sha256: str = ""


def utc(text: object) -> datetime | None:
    """A time as RFC 3339 with its zone, as UTC to the microsecond; None for anything else, never a guess."""
    if not isinstance(text, str):
        return None
    try:
        moment = msgspec.convert(text, datetime)
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        return None
