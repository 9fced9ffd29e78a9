"""What capture takes out of payloads: of all that real clients were seen to send, and of what nobody should send."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.capture.live import folder_of
from forensic.capture.payloads import Facts, facts_of, local_path
from forensic.model import Payload, Ref

CLIENTS: Final = {
    "claude-2.1.197": "claude",
    "claude-2.1.332": "claude",
    "codex-0.171.0": "codex",
    "codexjs-0.171.0": "codex",
    "copilot-1.0.102": "copilot",
    "copilotoai-1.0.102": "copilot",
}
ENDS: Final = {
    "claude-2.1.197": 22,
    "claude-2.1.332": 23,
    "codex-0.171.0": 17,
    "codexjs-0.171.0": 17,
    "copilot-1.0.102": 18,
    "copilotoai-1.0.102": 16,
}
"""How many sessions were told to have ended."""
COUNTS: Final = {
    "claude-2.1.197": 251,
    "claude-2.1.332": 280,
    "codex-0.171.0": 234,
    "codexjs-0.171.0": 238,
    "copilot-1.0.102": 198,
    "copilotoai-1.0.102": 136,
}
CROSS: Final = "crossload-project-"
"""How the event begins of a hook that was registered with Claude Code, and that Copilot ran."""
MIB: Final = 1 << 20


def payload(raw: bytes | Mapping[str, Any], harness: str = "claude", event: str = "Stop", **more: Any) -> Payload:
    """A payload as the spool hands it on."""
    content = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    fields = {"argv": (event,) if event else ()} | more
    return Payload(ref=Ref("hooks", 1, 1), n=1, harness=harness, size=len(content), raw=content, **fields)


class Recorded(NamedTuple):
    """A payload that a real client has sent."""

    client: str
    scenario: str
    payload: Payload
    keys: dict[str, Any]
    found: bool
    """Whether a transcript that it names was there."""

    @property
    def facts(self) -> Facts:
        """What is taken out of it."""
        return facts_of(self.payload)


@pytest.fixture(scope="module")
def captures(root: Path) -> Path:
    """Where recorded payloads lie."""
    place = root.parent / "shared" / "captures"
    if not place.is_dir():
        pytest.skip("no shared material beside this checkout")
    return place


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, captures: Path) -> str:
    """One client of one version."""
    if not (captures / request.param).is_dir():
        pytest.skip(f"no captures of {request.param}")
    return str(request.param)


@pytest.fixture(scope="module")
def recorded(captures: Path, client: str) -> list[Recorded]:
    """All that a client was seen to send, in order."""
    found = []
    for path in sorted((captures / client).glob("*/hooks/*.meta.json")):
        meta = json.loads(path.read_bytes())
        raw = path.with_name(path.name.replace(".meta.json", ".json")).read_bytes()
        event = meta["argv"][2]
        told = payload(
            raw,
            "claude" if event.startswith(CROSS) else CLIENTS[client],
            event.removeprefix(CROSS),
            env=tuple(meta["env_names"]),
            kept={key: value for key, value in meta["env_shown"].items() if key == "CLAUDE_CODE_SESSION_ID"},
            ppid=meta["ppid"],
            cwd=meta["cwd"],
        )
        there = any(one.get("exists") for key, one in meta["paths"].items() if "transcript" in key.lower())
        found.append(Recorded(client, path.parent.parent.name, told, json.loads(raw), there))
    return found


# --- what clients send -----------------------------------------------------------------------------------------------


def test_all_are_there(client: str, recorded: list[Recorded]) -> None:
    """No recorded payload is left out of what follows."""
    assert len(recorded) == COUNTS[client]


def test_whose(client: str, recorded: list[Recorded]) -> None:
    """Each payload is its client's, also those of hooks that were registered with another."""
    assert {one.facts.harness for one in recorded} == {CLIENTS[client]}


def test_events(recorded: list[Recorded]) -> None:
    """The event is the one that was registered, which the payload names itself where it names one."""
    for one in recorded:
        assert one.facts.event == one.payload.argv[0]
        assert one.keys.get("hook_event_name", one.facts.event).lower() == one.facts.event.lower()


def test_a_payload_alone(recorded: list[Recorded]) -> None:
    """Without a registered event the payload's own name counts; some clients give none."""
    for one in recorded:
        told = payload(one.payload.raw, one.payload.harness, "", env=one.payload.env)
        assert facts_of(told).event == one.keys.get("hook_event_name", "")


def test_sessions(captures: Path, client: str, recorded: list[Recorded]) -> None:
    """A payload is of a session that has a main transcript; children are of the session that started them."""
    for scenario in {one.scenario for one in recorded}:
        mains = main_transcripts(captures / client / scenario / "transcripts")
        sessions = {one.facts.session for one in recorded if one.scenario == scenario}
        assert None not in sessions
        # some sessions ended before anything of them was written
        written = {one.facts.session for one in recorded if one.scenario == scenario and one.found}
        assert written <= mains <= sessions


def main_transcripts(place: Path) -> set[str]:
    """The native ids of sessions whose main transcripts lie below a folder, by what the layout of each client says."""
    found = {path.stem for path in place.glob(".claude/projects/*/*.jsonl")}
    found |= {path.parent.name for path in place.glob(".copilot/session-state/*/events.jsonl")}
    for path in place.glob(".codex/sessions/**/*.jsonl"):
        with path.open("rb") as rows:
            told = json.loads(rows.readline())["payload"]
        if "parent_thread_id" not in told:
            found.add(told["id"])
    return found


def test_children(recorded: list[Recorded]) -> None:
    """A child is told where its own session id is not its parent's, and then its parent is the session."""
    told = Counter((one.facts.child is not None) for one in recorded)
    parents = [one for one in recorded if {"parentAgentId", "parent_agent_id"} & one.keys.keys()]
    assert told[True] == len(parents)
    for one in parents:
        facts = one.facts
        parent = one.keys.get("parentAgentId") or one.keys.get("parent_agent_id")
        child = one.keys.get("agentId") or one.keys.get("agent_id")
        assert (facts.session, facts.parent, facts.child) == (parent, parent, child)
        assert child != parent
    for one in recorded:
        if one not in parents:
            assert (one.facts.parent, one.facts.session) == (None, one.keys.get("sessionId") or one.keys["session_id"])


def test_children_by_count(client: str, recorded: list[Recorded]) -> None:
    """Only Copilot has sessions of its own for children, three in each version."""
    children = {one.facts.child for one in recorded if one.facts.child}
    assert len(children) == (3 if CLIENTS[client] == "copilot" else 0)


def test_paths(recorded: list[Recorded]) -> None:
    """The transcripts are those that the payload names, its own before that of a child."""
    order = ("transcript_path", "transcriptPath", "agent_transcript_path", "agentTranscriptPath")
    for one in recorded:
        named = [one.keys[key] for key in order if one.keys.get(key)]
        assert one.facts.paths == tuple(dict.fromkeys(named))
        assert all(path.endswith(".jsonl") for path in one.facts.paths)
    assert any(one.facts.paths for one in recorded)


def test_a_child_of_claude_or_codex_names_two(client: str, recorded: list[Recorded]) -> None:
    """When a child stops, its transcript and its parent's are named."""
    stops = [one for one in recorded if one.facts.event == "SubagentStop"]
    expected = 1 if CLIENTS[client] == "copilot" else 2
    assert {len(one.facts.paths) for one in stops} <= {expected}


def test_ends(client: str, recorded: list[Recorded]) -> None:
    """A session ends with its last payload but for those that run beside it, and no child's end is one."""
    ends = [one for one in recorded if one.facts.ends]
    assert len(ends) == ENDS[client]
    assert {one.facts.event.lower() for one in ends} == {"sessionend"}
    assert [one for one in ends if one.facts.child] == []
    last: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for one in recorded:
        last[one.scenario, one.facts.session].append(one.facts.event)
    starts = {"sessionstart", "precompact", "postcompact", "instructionsloaded", "sessionend"}
    for events in last.values():
        for place, event in enumerate(events[:-1]):
            if event.lower() == "sessionend":
                assert events[place + 1].lower() in starts, events


def test_boundaries(recorded: list[Recorded]) -> None:
    """Where something ends, rows are read first: at every end of a turn, of a child and of a session."""
    boundaries = {one.facts.event for one in recorded if one.facts.boundary}
    seen = {one.facts.event for one in recorded}
    must = {event for event in seen if re.fullmatch(r"(?i)stop|(session|subagent)(end|stop)|agentstop", event)}
    assert must <= boundaries
    assert not {"PreToolUse", "preToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"} & boundaries
    assert all(one.facts.boundary for one in recorded if one.facts.ends)


def test_working_folders(recorded: list[Recorded]) -> None:
    """The working folder is the payload's, which is that of the session."""
    assert all(one.facts.cwd == one.keys["cwd"] for one in recorded)


def test_under_another_registration(client: str, recorded: list[Recorded]) -> None:
    """Run by a client that has a mark of its own, a hook of Claude Code's or nobody's tells that client's payloads."""
    for one in recorded:
        for registered in ("claude", "unknown", "something-new"):
            facts = facts_of(payload(one.payload.raw, registered, "", env=one.payload.env, kept=one.payload.kept))
            if CLIENTS[client] != "codex" or "turn_id" in one.keys:
                assert facts.harness == CLIENTS[client]
                assert facts.session == one.facts.session


def test_started_by_another(recorded: list[Recorded], client: str) -> None:
    """An agent that was started by another one, and inherits its mark, is still itself."""
    for one in recorded:
        env = (*one.payload.env, "CLAUDECODE", "COPILOT_CLI")
        told = payload(one.payload.raw, CLIENTS[client], one.payload.argv[0], env=env, kept={}, cwd=one.payload.cwd)
        assert facts_of(told) == one.facts


def test_cut_anywhere(recorded: list[Recorded]) -> None:
    """A payload of which the end is missing tells what its envelope tells, and its event; it names no session."""
    for one in recorded[::25]:
        told = payload(one.payload.raw[: len(one.payload.raw) // 2], "claude", "Stop", cwd="/p", kept={})
        assert facts_of(told) == Facts(harness="claude", session=None, event="Stop", cwd="/p", boundary=True)


def test_the_end_of_a_child() -> None:
    """A child that tells its own end does not end the session that it belongs to; one told by its parent does."""
    told = {"sessionId": "c", "agentId": "c", "parentAgentId": "p"}
    facts = facts_of(payload(told, "copilot", "sessionEnd"))
    assert (facts.session, facts.child, facts.ends, facts.boundary) == ("p", "c", False, True)
    facts = facts_of(payload({**told, "sessionId": "p"}, "copilot", "sessionEnd"))
    assert (facts.session, facts.child, facts.ends) == ("p", "c", True)


# --- what documents say of Cursor ------------------------------------------------------------------------------------

CURSOR: Final[Mapping[str, Any]] = {
    "conversation_id": "c-1",
    "generation_id": "g",
    "hook_event_name": "sessionEnd",
    "cursor_version": "1",
    "workspace_roots": ["/p"],
    "session_id": "c-1",
    "transcript_path": "/home/u/.cursor/projects/p/agent-transcripts/c-1/c-1.jsonl",
}


def test_cursor() -> None:
    """Cursor names its session twice, and its transcript or null."""
    facts = facts_of(payload(CURSOR, "cursor", "sessionEnd", cwd="/home/u/.cursor"))
    assert facts == Facts(
        harness="cursor",
        session="c-1",
        event="sessionEnd",
        paths=("/home/u/.cursor/projects/p/agent-transcripts/c-1/c-1.jsonl",),
        cwd="/home/u/.cursor",
        ends=True,
        boundary=True,
    )
    assert facts_of(payload({**CURSOR, "transcript_path": None}, "cursor", "sessionEnd")).paths == ()


def test_cursor_children() -> None:
    """A child that Cursor starts belongs to the conversation that it was started in."""
    facts = facts_of(payload({**CURSOR, "parent_conversation_id": "c-0"}, "cursor", "subagentStart"))
    assert (facts.session, facts.parent, facts.child, facts.ends) == ("c-0", "c-0", None, False)


def test_cursor_runs_hooks_of_claude() -> None:
    """Under Claude Code's registration Cursor's payload is Cursor's, and so is its event."""
    facts = facts_of(payload(CURSOR, "claude", "SessionEnd", env=("CLAUDECODE",)))
    assert (facts.harness, facts.event, facts.session, facts.ends) == ("cursor", "sessionEnd", "c-1", True)


def test_vs_code_runs_hooks_of_claude() -> None:
    """A client that is known by its shape alone, and not ours, is nobody's, rather than Claude Code."""
    told = {"hookEventName": "Stop", "sessionId": "v", "timestamp": "t", "session_id": "w"}
    facts = facts_of(payload(told, "claude", "Stop"))
    assert (facts.harness, facts.event, facts.session) == ("unknown", "Stop", "w")


def test_codex_as_a_tool_of_claude() -> None:
    """Codex that Claude Code started inherits its environment; where it names no turn it is Codex all the same."""
    told = {"session_id": "x", "hook_event_name": "SessionEnd", "transcript_path": "/home/u/.codex/sessions/x.jsonl"}
    facts = facts_of(payload(told, "codex", "SessionEnd", env=("CLAUDECODE",), kept={"CLAUDE_CODE_SESSION_ID": "c"}))
    assert (facts.harness, facts.session, facts.ends) == ("codex", "x", True)


def test_a_turn_of_claude() -> None:
    """Claude Code has turns, too: only with a transcript of Codex's is it Codex."""
    told = {"session_id": "x", "turn_id": "t", "transcript_path": "/home/u/.claude/projects/p/x.jsonl"}
    assert facts_of(payload(told, "claude", "MessageDisplay")).harness == "claude"
    told["transcript_path"] = "C:\\Users\\u\\.codex\\sessions\\x.jsonl"
    assert facts_of(payload(told, "claude", "MessageDisplay")).harness == "codex"


# --- what nobody should send -----------------------------------------------------------------------------------------

NOTHING: Final = Facts(harness="claude", session=None, event="Stop", boundary=True)
"""What is known of a payload that cannot be read."""

UNREADABLE: Final = {
    "nothing": b"",
    "blanks": b" \n\t ",
    "no JSON": b"not json",
    "half": b'{"session_id":"s"',
    "two": b'{"session_id":"s"}{"session_id":"t"}',
    "an array": b'[{"session_id":"s"}]',
    "a string": b'"session_id"',
    "null": b"null",
    "a wrong byte in a key": b'{"session\xff_id":"s",}',
    "NUL": b"\0" * 100,
    "deep": b'{"session_id":"s","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000,
    "a BOM alone": b"\xef\xbb\xbf",
    "half a UTF-16 BOM": b"\xff",
    "UTF-16 of nothing": b"\xff\xfe",
    "half a character": b"\xff\xfe{",
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable(raw: bytes) -> None:
    """Of a payload that is no JSON object only what the envelope says is known, and nothing is guessed."""
    assert facts_of(payload(raw)) == NOTHING
    assert facts_of(payload(raw, kept={"CLAUDE_CODE_SESSION_ID": "k"})).session == "k"
    assert facts_of(payload(raw, "codex", kept={"CLAUDE_CODE_SESSION_ID": "k"})).session is None


@pytest.mark.parametrize(
    "raw",
    [
        b'\xef\xbb\xbf{"session_id":"s"}',
        b"\xef\xbb\xbf" * 100_000 + b'{"session_id":"s"}',
        '\ufeff{"session_id":"s"}'.encode("utf-16-le"),
        '\ufeff{"session_id":"s"}'.encode("utf-16-be"),
        '\ufeff\ufeff{"session_id":"s"}'.encode("utf-16-le"),
        b' \r\n\t{"session_id" : "s"} \n',
        b'{"session\\u005fid":"s"}',
        b'{"a":"\xff","session_id":"s"}',
        b'{"a":1e999,"b":' + b"9" * 5000 + b',"session_id":"s"}',
        b'{"a":"cut \\ud83d","session_id":"s"}',
        b'{"a":"\\uDE00\\uD83D","b":["\\\\\\ud800","\\ud83d\\ude00\\ud83d"],"\\udfff":0,"session_id":"s"}',
        b'{"session_id":"t","session_id":7,"session_id":"s"}',
        b'{"session_id":"\\u0073"}',
    ],
)
def test_odd_but_readable(raw: bytes) -> None:
    """Marks at the beginning, escapes, other encodings, what no decoder takes beside: the session is found."""
    assert facts_of(payload(raw)) == Facts(harness="claude", session="s", event="Stop", boundary=True)


@pytest.mark.parametrize("value", [None, True, 7, 1.5, [], ["s"], {}, {"a": "s"}, ""])
def test_no_string(value: object) -> None:
    """A session, path, event or folder that is no text, or an empty one, is none."""
    told = {"session_id": value, "transcript_path": value, "cwd": value, "hook_event_name": value}
    assert facts_of(payload(told)) == NOTHING
    assert facts_of(payload(told, event="")) == Facts(harness="claude", session=None, event="")


def test_the_first_that_is_one() -> None:
    """Of several keys that may name a session the first that names one counts."""
    assert facts_of(payload({"sessionId": "", "session_id": "s"}, "copilot")).session == "s"
    assert facts_of(payload({"sessionId": 7, "session_id": "s"}, "copilot")).session == "s"
    assert facts_of(payload({"sessionId": "a", "session_id": "s"}, "copilot")).session == "a"


HOSTILE: Final = ["../../x", "/etc/passwd", "a\0b", ".", "..", "x" * 100_000, "\x1b[2J\u202e\n", "CON", " ", "\u00e9"]


@pytest.mark.parametrize("session", HOSTILE, ids=lambda session: ascii(session)[:20])
def test_a_session_is_no_path(tmp_path: Path, session: str) -> None:
    """Any text is taken for the id that it is told to be; it is no part of a path, and two of them share no folder."""
    found = facts_of(payload({"session_id": session})).session
    assert found == session
    folder = folder_of(tmp_path, "claude", session)
    assert folder.parent == tmp_path
    assert re.fullmatch(r"[0-9a-f]{32}", folder.name)
    others = {folder_of(tmp_path, harness, one) for one in HOSTILE for harness in ("claude", "codex")}
    assert len(others) == 2 * len(HOSTILE)


def test_a_session_that_is_no_text() -> None:
    """What is no UTF-8 can be written down nowhere, and is none; half a character is a mark in its place."""
    assert facts_of(payload(b'{"session_id":"a\\ud800"}')).session == "a\ufffd"
    assert facts_of(payload(b'{"session_id":"\xff"}')).session is None


LARGEST: Final[Mapping[str, Callable[[], bytes]]] = {
    "long text": lambda: b'{"session_id":"s","a":"' + b"x" * (64 * MIB - 25) + b'"}',
    "no JSON": lambda: b"x" * (64 * MIB),
    "one key": lambda: b"{" + b'"session_id":"s",' * (64 * MIB // 17 - 1) + b'"session_id":"s"}',
    "many keys": lambda: b"{" + b",".join(b'"%x":0' % key for key in range(2 * MIB)) + b',"session_id":"s"}',
    "marks": lambda: b"\xef\xbb\xbf" * (64 * MIB // 3),
    "deep": lambda: b"[" * (64 * MIB),
    "long list": lambda: b'{"session_id":"s","a":[' + b"0," * (31 * MIB) + b"0]}",
    "halves": lambda: b'{"session_id":"s","a":"' + b"\\ud800" * MIB + b'"}',
}
"""Payloads about as large as a hook stores them, of whatever costs a reader most."""


@pytest.mark.parametrize("make", LARGEST.values(), ids=LARGEST)
def test_the_largest(make: Callable[[], bytes]) -> None:
    """The largest payload that a hook stores, of whatever it is, is looked through, and its session found."""
    raw = make()
    assert len(raw) <= 64 * MIB
    assert facts_of(payload(raw)).session == ("s" if b"session_id" in raw[:40] + raw[-40:] else None)


def test_keys_that_nobody_looks_for_cost_nothing() -> None:
    """A million keys at the top take no memory beside the payload itself."""
    told = payload(b"{" + b",".join(b'"%x":0' % key for key in range(1_000_000)) + b',"session_id":"s"}')
    tracemalloc.start()
    try:
        assert facts_of(told).session == "s"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_many_paths() -> None:
    """So many transcripts as there are keys for are named, each once."""
    keys = ("transcript_path", "agent_transcript_path", "transcriptPath", "agentTranscriptPath")
    told = {key: f"/{number}.jsonl" for number, key in enumerate(keys)}
    assert facts_of(payload(told)).paths == ("/0.jsonl", "/1.jsonl")
    assert facts_of(payload(told, "copilot")).paths == ("/2.jsonl", "/0.jsonl", "/3.jsonl", "/1.jsonl")
    assert facts_of(payload(dict.fromkeys(keys, "/s.jsonl"), "copilot")).paths == ("/s.jsonl",)


@given(
    st.dictionaries(
        st.sampled_from(["session_id", "sessionId", "turn_id", "agentId", "parentAgentId", "cwd", "transcript_path",
                         "hook_event_name", "hookEventName", "conversation_id", "cursor_version"]),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
    ),
    st.sampled_from(["claude", "codex", "copilot", "cursor", "unknown", "other"]),
    st.sets(st.sampled_from(["CLAUDECODE", "COPILOT_CLI", "HOME"])),
)  # fmt: skip
def test_any_keys(told: dict[str, Any], registered: str, env: set[str]) -> None:
    """Whatever the keys hold: what is told is text out of the payload, of a harness that is known."""
    facts = facts_of(payload(told, registered, "Stop", env=tuple(sorted(env))))
    texts = {value for value in told.values() if isinstance(value, str)}
    assert facts.harness in {"claude", "codex", "copilot", "cursor", "unknown"}
    assert {facts.session, facts.child, facts.parent, facts.cwd, *facts.paths} - {None} <= texts
    assert facts.event in texts | {"Stop"}
    assert facts.child is None or facts.parent == facts.session


@given(st.binary(max_size=60))
def test_any_bytes(raw: bytes) -> None:
    """Whatever comes, no payload is an error."""
    assert facts_of(payload(raw)).event == "Stop"


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "here", "on_windows"),
    [
        ("/home/u/s.jsonl", "/home/u/s.jsonl", "\\home\\u\\s.jsonl"),
        ("file:///home/u/a%20b.jsonl", "/home/u/a b.jsonl", "\\home\\u\\a b.jsonl"),
        ("FILE:///home/u/s.jsonl", "/home/u/s.jsonl", "\\home\\u\\s.jsonl"),
        ("file://localhost/home/u/s.jsonl", "/home/u/s.jsonl", "\\home\\u\\s.jsonl"),
        ("file://server/share/s.jsonl", "//server/share/s.jsonl", "\\\\server\\share\\s.jsonl"),
        ("file:///a%00b", "/a\0b", "\\a\0b"),
        ("/c:/Users/u/s.jsonl", "/c:/Users/u/s.jsonl", "C:\\Users\\u\\s.jsonl"),
        ("file:///c:/Users/u/s.jsonl", "/c:/Users/u/s.jsonl", "C:\\Users\\u\\s.jsonl"),
        ("c:\\Users\\u\\s.jsonl", "c:\\Users\\u\\s.jsonl", "C:\\Users\\u\\s.jsonl"),
        ("relative/s.jsonl", "relative/s.jsonl", "relative\\s.jsonl"),
        ("file://", "//", "\\\\"),
        ("~other/s.jsonl", "~other/s.jsonl", "~other\\s.jsonl"),
        ("", None, None),
    ],
)
def test_paths_of_this_computer(named: str, here: str | None, on_windows: str | None) -> None:
    """URLs, drives and slashes become what the system calls them; what else is odd stays odd, and is refused later."""
    assert local_path(named, windows=False) == here
    assert local_path(named, windows=True) == on_windows


def test_a_path_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde is the user's folder, and nobody else's."""
    monkeypatch.setenv("HOME", "/home/u")
    assert local_path("~/s.jsonl", windows=False) == "/home/u/s.jsonl"
    assert local_path("~", windows=False) == "/home/u"
    assert local_path("~root/s.jsonl", windows=False) == "~root/s.jsonl"
