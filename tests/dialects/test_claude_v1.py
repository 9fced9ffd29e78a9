"""Claude Code, parser version 1: one row in, exact observations out; and what must not come out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.dialects.registry import parser
from forensic.model import (
    FOLDED,
    Accounting,
    Failure,
    Keeper,
    Mended,
    Observation,
    Payload,
    Progress,
    Prompt,
    Ref,
    Row,
    SetAside,
    SideFile,
    Title,
    ToolRequest,
    Unmodelled,
    Unreadable,
)

PARSER = parser("claude", 1)
COMMON = {"uuid": "u1", "timestamp": "2026-03-01T10:00:00.250Z", "sessionId": "s1"}
AT = datetime(2026, 3, 1, 10, 0, 0, 250000, tzinfo=UTC)


def observe(body: dict[str, Any], stream: str = "main", keep: Keeper = FOLDED) -> list[Observation]:
    raw = json.dumps(body, ensure_ascii=False).encode()
    return PARSER.observe(Row(ref=Ref(stream, 1, 0), line=1, raw=raw), keep)


def plain(value: Any) -> Any:
    """Texts as their preview; provenance left out, which has tests of its own."""
    if isinstance(value, dict):
        if value.keys() == {"chars", "sha256", "preview"}:
            return value["preview"]
        return {key: plain(item) for key, item in value.items() if key not in ("at", "id", "part", "ref")}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def told(body: dict[str, Any], stream: str = "main") -> list[dict[str, Any]]:
    return [plain(msgspec.to_builtins(one)) for one in observe({**COMMON, **body}, stream)]


def assistant(*content: Any, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        key: more.pop(key) for key in ("requestId", "isApiErrorMessage", "apiErrorStatus") if key in more
    }
    return {"type": "assistant", "message": {"id": "msg_1", "model": "opus", "content": list(content), **more}, **row}


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def result(content: Any = "done", told: Any = None, *, error: bool | None = None, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    if error is not None:
        block["is_error"] = error
    return user([block], **({} if told is None else {"toolUseResult": told}), **more)


def attachment(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "attachment", "attachment": {"type": kind, **more}}


# --- provenance -------------------------------------------------------------------------------------------------------


def test_every_observation_says_where_and_when() -> None:
    """The row's own id and time, the turn it names, the message it belongs to; parts are counted."""
    body = {**COMMON, "promptId": "p1", **assistant({"type": "text", "text": "a"}, {"type": "text", "text": "b"})}
    first, second = observe(body)
    for part, seen in enumerate((first, second)):
        assert (seen.ref, seen.part, seen.at) == (Ref("main", 1, 0), part, AT)
        assert (seen.id, seen.turn, seen.step, seen.agent, seen.via) == ("u1", "p1", "msg_1", None, None)


def test_a_message_without_an_id_is_its_own_step() -> None:
    """The row's id stands in."""
    (seen,) = observe({**COMMON, **assistant({"type": "text", "text": "a"}, id=None)})
    assert seen.step == "u1"


@pytest.mark.parametrize(
    ("fields", "stream", "agent"),
    [
        ({}, "main", None),
        ({"isSidechain": False}, "main", None),
        ({"isSidechain": True}, "main", "sidechain"),
        ({"isSidechain": True, "agentId": "a1"}, "main", "a1"),
        ({"isSidechain": True}, "agent-a2", "a2"),
        ({}, "agent-acompact-7f", "acompact-7f"),
        ({"agentId": "a1"}, "agent-a2", "a1"),
        ({"agentId": ""}, "agent-", None),
        ({"agentId": 7, "isSidechain": "yes"}, "main", None),
    ],
)
def test_whose_row_it_is(fields: dict[str, Any], stream: str, agent: str | None) -> None:
    """The row's word, else the file's name, else that it stands aside."""
    (seen,) = observe({**COMMON, **fields, **assistant({"type": "text", "text": "a"})}, stream)
    assert seen.agent == agent


@pytest.mark.parametrize(
    "fields", [{"timestamp": "yesterday"}, {"timestamp": 5}, {"timestamp": "2026-03-01T10:00:00"}, {"uuid": 7}, {}]
)
def test_provenance_that_is_none_is_not_guessed(fields: dict[str, Any]) -> None:
    """No time without a zone, no id that is no text."""
    (seen,) = observe({**assistant({"type": "text", "text": "a"}), **fields})
    assert (seen.at, seen.id, seen.turn) == (None, None, None)


# --- the model --------------------------------------------------------------------------------------------------------

TEXT = {"type": "text", "text": "a"}
STEP = {"step": "msg_1"}


@pytest.mark.parametrize(
    ("block", "seen"),
    [
        (TEXT, [{"kind": "response", "text": "a"}]),
        ({"type": "thinking", "thinking": "hm", "signature": "abcd"},
         [{"kind": "thought", "text": "hm", "signature_chars": 4}]),
        ({"type": "thinking", "thinking": "", "signature": "abcd"},
         [{"kind": "thought", "opaque": True, "signature_chars": 4}]),
        ({"type": "thinking", "thinking": ""}, [{"kind": "thought", "text": ""}]),
        ({"type": "redacted_thinking", "data": "x"}, [{"kind": "thought", "opaque": True, "redacted": True}]),
        ({"type": "tool_use", "id": "t1", "name": "Grep", "input": {"pattern": "x"}},
         [{"kind": "tool_request", "name": "Grep", "input": {"pattern": "x"}, "call": "t1"}]),
        ({"type": "tool_use", "id": "t1", "name": "mcp__my_server__echo_it", "input": {}},
         [{"kind": "tool_request", "name": "mcp__my_server__echo_it", "input": {}, "call": "t1",
           "server": "my_server"}]),
        ({"type": "tool_use", "id": "t1", "name": "mcp__odd", "input": {}},
         [{"kind": "tool_request", "name": "mcp__odd", "input": {}, "call": "t1"}]),
        ({"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
         [{"kind": "tool_request", "name": "Bash", "input": {"command": "ls"}, "command": "ls"}]),
        ({"type": "tool_use", "id": "t1", "name": "PowerShell", "input": {"command": ["ls"]}},
         [{"kind": "tool_request", "name": "PowerShell", "input": {"command": ["ls"]}, "call": "t1"}]),
        ({"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}},
         [{"kind": "tool_request", "name": "Read", "input": {"file_path": "/a"}, "call": "t1", "reads": ["/a"]}]),
        ({"type": "tool_use", "id": "t1", "name": "Edit", "input": {"path": "/a"}},
         [{"kind": "tool_request", "name": "Edit", "input": {"path": "/a"}, "call": "t1", "writes": ["/a"]}]),
        ({"type": "tool_use", "id": "t1", "name": "NotebookEdit", "input": {"notebook_path": "/n"}},
         [{"kind": "tool_request", "name": "NotebookEdit", "input": {"notebook_path": "/n"}, "call": "t1",
           "writes": ["/n"]}]),
        ({"type": "tool_use", "id": "t1", "name": "Glob", "input": {"path": "/a"}},
         [{"kind": "tool_request", "name": "Glob", "input": {"path": "/a"}, "call": "t1"}]),
        ({"type": "tool_use", "id": "t1", "name": "Skill", "input": {"skill": "greet"}},
         [{"kind": "tool_request", "name": "Skill", "input": {"skill": "greet"}, "call": "t1"},
          {"kind": "skill", "name": "greet", "stage": "invoked", "call": "t1"}]),
        ({"type": "tool_use", "id": "t1", "name": "Skill", "input": {"command": "old"}},
         [{"kind": "tool_request", "name": "Skill", "input": {"command": "old"}, "call": "t1"},
          {"kind": "skill", "name": "old", "stage": "invoked", "call": "t1"}]),
        ({"type": "tool_use", "id": "t1", "name": "Skill", "input": {}},
         [{"kind": "tool_request", "name": "Skill", "input": {}, "call": "t1"}]),
        ({"type": "server_tool_use", "id": "t1", "name": "webReader", "input": '{"url":"x"}'},
         [{"kind": "tool_request", "name": "webReader", "input": '{"url":"x"}', "call": "t1"}]),
        ({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "page"}]},
         [{"kind": "tool_result", "call": "t1", "ok": True, "outcome": "ok", "text": "page"}]),
        ({"type": "fallback", "x": 1}, [{"kind": "unmodelled", "family": "block/fallback"}]),
        ({"type": "text", "text": None}, [{"kind": "unmodelled", "family": "block/text"}]),
        ({"type": "thinking"}, [{"kind": "unmodelled", "family": "block/thinking"}]),
        ({"type": "tool_use", "id": "t1", "input": {}}, [{"kind": "unmodelled", "family": "block/tool_use"}]),
        ({"type": 3}, [{"kind": "unmodelled", "family": "block/<object>"}]),
        ("bare", [{"kind": "unmodelled", "family": "block/<scalar>"}]),
    ],
)  # fmt: skip
def test_blocks_of_the_model(block: Any, seen: list[dict[str, Any]]) -> None:
    """One observation a block, in its brothers' midst; an unknown one takes none of them down."""
    expected = [{**one, **STEP} for one in seen]
    assert told(assistant(block)) == expected
    assert told(assistant(TEXT, block, TEXT)) == [
        {"kind": "response", "text": "a", **STEP}, *expected, {"kind": "response", "text": "a", **STEP},
    ]  # fmt: skip


def test_a_long_input_is_folded_and_a_long_command_measured() -> None:
    """Texts over 1,000 characters are kept by length, digest and start; whole only when asked."""
    long = "x" * 1500
    body = assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": long}})
    (seen,) = observe(body)
    assert isinstance(seen, ToolRequest)
    assert seen.command == seen.input["command"] == FOLDED.text(long)
    assert (seen.command.chars, len(seen.command.preview), seen.command.text) == (1500, 1000, None)
    (whole,) = observe(body, keep=Keeper(whole=True))
    assert isinstance(whole, ToolRequest)
    assert whole.command is not None
    assert whole.command.text == long


def test_the_server_of_a_call_is_in_its_name_only() -> None:
    """Rows name the MCP server whose result they follow, whatever tool they then call."""
    body = {
        **assistant({"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}),
        "attributionMcpServer": "demo",
        "attributionMcpTool": "echo",
    }
    assert told(body) == [{"kind": "tool_request", "name": "Edit", "input": {}, "call": "t1", **STEP}]


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ("plain", [{"kind": "response", "text": "plain", "step": "u1"}]),
        ({"content": "plain"}, [{"kind": "response", "text": "plain", "step": "u1"}]),
        ({"content": []}, [{"kind": "unmodelled", "family": "assistant"}]),
        ({"parts": [{"text": "another harness"}]}, [{"kind": "unmodelled", "family": "assistant"}]),
        (None, [{"kind": "unmodelled", "family": "assistant"}]),
        ([TEXT], [{"kind": "unmodelled", "family": "assistant"}]),
    ],
)
def test_shapes_of_a_message(message: Any, seen: list[dict[str, Any]]) -> None:
    """A text is a response; what says nothing to us is carried."""
    assert told({"type": "assistant", "message": message}) == seen


# --- what it costs ----------------------------------------------------------------------------------------------------

USAGE = {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 0}
COUNTED = {
    "message": "msg_1", "model": "opus", "input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 5000,
    "cache_write_tokens": 0,
}  # fmt: skip


def usages(body: dict[str, Any]) -> list[Any]:
    return [one.get("usage") for one in told(body)]


def test_usage_stands_on_the_first_observation_of_a_row() -> None:
    """Once, however many blocks there are."""
    body = assistant(TEXT, TEXT, TEXT, usage=USAGE, stop_reason=None)
    assert usages(body) == [COUNTED, None, None]


def test_usage_of_a_skill_call_stands_on_the_call() -> None:
    """Though one block makes two observations."""
    body = assistant({"type": "tool_use", "id": "t1", "name": "Skill", "input": {"skill": "greet"}}, usage=USAGE)
    assert usages(body) == [COUNTED, None]


def test_usage_without_a_block_has_its_own_place() -> None:
    """The tokens of an empty message were spent all the same."""
    assert told(assistant(usage=USAGE)) == [
        {"kind": "accounting", "family": "assistant.usage", "usage": COUNTED, **STEP}
    ]


def test_all_that_usage_can_say() -> None:
    """Both ids, the tiers of cache writes, thinking tokens, and whether the message was finished."""
    usage = {
        **USAGE,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
        "output_tokens_details": {"thinking_tokens": 4},
        "service_tier": "standard",
    }
    body = assistant(TEXT, usage=usage, stop_reason="end_turn", requestId=" req_1\n")
    more = {
        "request": "req_1", "cache_write_5m_tokens": 1, "cache_write_1h_tokens": 2, "reasoning_tokens": 4,
        "final": True,
    }  # fmt: skip
    assert usages(body) == [{**COUNTED, **more}]


@pytest.mark.parametrize(
    ("usage", "counts", "unusable"),
    [
        ({"input_tokens": None, "output_tokens": "12", "cache_read_input_tokens": 7},
         {"cache_read_tokens": 7}, ["input_tokens", "output_tokens"]),
        ({"input_tokens": -5, "output_tokens": 3.0}, {}, ["input_tokens", "output_tokens"]),
        ({"input_tokens": True, "output_tokens": 2**63}, {}, ["input_tokens", "output_tokens"]),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": None},
         {"input_tokens": 1, "output_tokens": 2}, ["cache_read_input_tokens"]),
        ({"input_tokens": 1, "output_tokens": 2, "cache_creation": {"ephemeral_5m_input_tokens": "x"}},
         {"input_tokens": 1, "output_tokens": 2}, ["ephemeral_5m_input_tokens"]),
        ({"input_tokens": 1, "output_tokens": 2, "cache_creation": None},
         {"input_tokens": 1, "output_tokens": 2}, None),
        ({}, {}, ["input_tokens", "output_tokens"]),
        (None, {}, ["usage"]),
        ([1], {}, ["usage"]),
    ],
)  # fmt: skip
def test_a_count_that_is_none_is_named_and_never_made_into_one(
    usage: Any, counts: dict[str, int], unusable: list[str] | None
) -> None:
    """Null, text, negative, fraction, truth, absent; the piece itself stays."""
    expected = {"message": "msg_1", "model": "opus", **counts, **({"unusable": unusable} if unusable else {})}
    assert told(assistant(TEXT, usage=usage)) == [{"kind": "response", "text": "a", "usage": expected, **STEP}]


def test_a_message_that_says_nothing_of_usage_has_none() -> None:
    """Nothing said is not nothing spent, and not something spent either: replay reports it."""
    assert usages(assistant(TEXT)) == [None]
    assert usages({"type": "assistant", "message": "plain"}) == [None]


# --- what the client says in the model's place ------------------------------------------------------------------------


def test_a_synthetic_message_is_marked_and_costs_nothing() -> None:
    """No call was made: no usage, no model."""
    assert told(assistant(TEXT, model="<synthetic>", usage=USAGE)) == [
        {"kind": "response", "text": "a", "synthetic": True, **STEP}
    ]


def test_an_api_error_is_a_failure() -> None:
    """With its status where the row tells it, and no usage when the client made the message."""
    body = assistant(TEXT, model="<synthetic>", usage=USAGE, isApiErrorMessage=True, apiErrorStatus=529)
    assert told(body) == [{"kind": "failure", "text": "a", "status": 529, **STEP}]
    body = assistant(TEXT, usage=USAGE, isApiErrorMessage=True)
    assert told(body) == [{"kind": "failure", "text": "a", "usage": COUNTED, **STEP}]
    assert told(assistant(TEXT, isApiErrorMessage=False)) == [{"kind": "response", "text": "a", **STEP}]


# --- people -----------------------------------------------------------------------------------------------------------

HUMAN = {"kind": "human"}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (user("hi"), {"text": "hi"}),
        (user([TEXT]), {"text": "a"}),
        (user([TEXT, TEXT]), {"text": "a\na"}),
        ({"type": "user", "message": "hi"}, {"text": "hi"}),
        (user("hi", origin=HUMAN, promptSource="typed"), {"text": "hi", "source": "typed"}),
        (user("hi", origin=HUMAN), {"text": "hi", "source": "human"}),
        (user("hi", promptSource="suggestion_accepted"), {"text": "hi", "source": "suggestion_accepted"}),
        (user([{"type": "image"}, TEXT, {"type": "document"}]), {"text": "a", "images": 2}),
        (user([{"type": "image"}]), {"text": "", "images": 1}),
        (user("<b>bold</b> statement"), {"text": "<b>bold</b> statement"}),
        (user("<system-reminders are odd"), {"text": "<system-reminders are odd"}),
        (user("[Request interrupted by user] again, why?"), {"text": "[Request interrupted by user] again, why?"}),
        (user("<command-name>/model</command-name>\n  <command-message>model</command-message>\n"
              "  <command-args> opus </command-args>"), {"text": "/model opus", "source": "command"}),
        (user("<command-message>ask</command-message>\n<command-name>/ask</command-name>",
              promptSource="typed"), {"text": "/ask", "source": "command"}),
        (user("<command-name>/exit</command-name>\n<command-args></command-args>"),
         {"text": "/exit", "source": "command"}),
        (user("<command-message>init is analyzing"), {"text": "<command-message>init is analyzing",
                                                       "source": "command"}),
        (user("<bash-input>ls -l</bash-input>"), {"text": "ls -l", "source": "shell"}),
        (user("<bash-input>ls -l"), {"text": "ls -l", "source": "shell"}),
    ],
)  # fmt: skip
def test_what_a_person_wrote_is_a_prompt(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """One a row, freed of what the client wrapped around a typed command."""
    assert told(body) == [{"kind": "prompt", **seen}]


@pytest.mark.parametrize(
    ("body", "source"),
    [
        (user("x", isMeta=True), "meta"),
        (user("x", isCompactSummary=True, isVisibleInTranscriptOnly=True), "compact-summary"),
        (user("x", isVisibleInTranscriptOnly=True), "compact-summary"),
        (user("x", origin={"kind": "task-notification"}), "task-notification"),
        (user("x", origin={"kind": "channel"}), "channel"),
        (user("x", promptSource="system"), "system"),
        (user(""), "empty"),
        (user([{"type": "text", "text": " \n"}]), "empty"),
        (user("<task-notification>\n<task-id>b"), "task-notification"),
        (user("<bash-notification>\n<shell-id>b"), "task-notification"),
        (user("<local-command-stdout>Bye</local-command-stdout>"), "command-output"),
        (user("<local-command-stderr>Bye</local-command-stderr>"), "command-output"),
        (user("<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>"), "command-output"),
        (user("<local-command-caveat>Caveat", isMeta=True), "meta"),
        (user("<system-reminder>\nx", isMeta=True), "reminder"),
        (user("\n <system-reminder>x"), "reminder"),
        (user("<ide_opened_file>The user"), "ide"),
        (user("<user-prompt-submit-hook>x"), "hook"),
        (user('<teammate-message teammate_id="a">x'), "teammate"),
        (user("Caveat: The messages below were generated by the user while running local commands. DO NOT"), "meta"),
        (user("This session is being continued from a previous conversation that ran out of context. The"),
         "compact-summary"),
        (user("[Request interrupted by user]"), "interrupt"),
        (user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]), "interrupt"),
        (user("[Request interrupted by user]", agentId="a1"), "interrupt"),
        (user("x", agentId="a1"), "task"),
        (user("x", agentId="a1", parentUuid=None), "task"),
        (user("x", agentId="a1", parentUuid="u0"), "message"),
        (user("x", isSidechain=True, parentUuid="u0", origin=HUMAN, promptSource="typed"), "message"),
        (user("<command-name>/model</command-name>", agentId="a1", parentUuid="u0"), "message"),
    ],
)  # fmt: skip
def test_what_nobody_wrote_there_is_no_prompt(body: dict[str, Any], source: str) -> None:
    """It is told who put it there."""
    (seen,) = told(body)
    assert (seen["kind"], seen["source"]) == ("injected", source)


def test_texts_of_one_row_are_told_apart() -> None:
    """What the client added stands by itself, the person's words make one prompt."""
    body = user(
        [
            {"type": "text", "text": "<system-reminder>\nremember"},
            {"type": "text", "text": "first"},
            {"type": "text", "text": "<ide_selection>lines"},
            {"type": "text", "text": "second"},
            {"type": "tool_reference", "tool_name": "x"},
            "bare",
        ]
    )
    assert told(body) == [
        {"kind": "unmodelled", "family": "block/tool_reference"},
        {"kind": "unmodelled", "family": "block/<scalar>"},
        {"kind": "injected", "text": "<system-reminder>\nremember", "source": "reminder"},
        {"kind": "injected", "text": "<ide_selection>lines", "source": "ide"},
        {"kind": "prompt", "text": "first\nsecond"},
    ]


def test_the_text_of_a_skill_names_its_call() -> None:
    """The client puts it before the model in answer to a tool request."""
    body = user([TEXT], isMeta=True, sourceToolUseID="toolu_1")
    assert told(body) == [{"kind": "injected", "text": "a", "source": "meta", "call": "toolu_1"}]


def test_a_picture_that_the_client_sends_is_no_prompt() -> None:
    """A document read for the model, say."""
    assert told(user([{"type": "document"}], isMeta=True)) == [{"kind": "injected", "text": "", "source": "meta"}]


@pytest.mark.parametrize("message", [None, {}, {"content": None}, {"content": []}, {"parts": [{"text": "x"}]}, 7])
def test_a_user_row_without_content_is_carried(message: Any) -> None:
    """Rows of other harnesses come in this guise."""
    assert told({"type": "user", "message": message}) == [{"kind": "unmodelled", "family": "user"}]


# --- results ----------------------------------------------------------------------------------------------------------

DENIED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg."


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (result(), {"ok": True, "outcome": "ok", "text": "done"}),
        (result(error=False), {"ok": True, "outcome": "ok", "text": "done"}),
        (result(None), {"ok": True, "outcome": "ok"}),
        (result([]), {"ok": True, "outcome": "ok"}),
        (result([TEXT, {"type": "image"}, TEXT]), {"ok": True, "outcome": "ok", "text": "a\na"}),
        (result("Exit code 127\nsh: no", "Error: Exit code 127\nsh: no", error=True),
         {"ok": False, "outcome": "error", "text": "Exit code 127\nsh: no", "exit_code": 127}),
        (result("Exit code one", error=True), {"ok": False, "outcome": "error", "text": "Exit code one"}),
        (result("Exit code 1"), {"ok": True, "outcome": "ok", "text": "Exit code 1"}),
        (result(DENIED, "User rejected tool use", error=True), {"ok": False, "outcome": "rejected", "text": DENIED}),
        (result(None, "User rejected tool use", error=True), {"ok": False, "outcome": "rejected"}),
        (result("no", toolDenialKind="user-rejected", userFeedback="ask first", error=True),
         {"ok": False, "outcome": "rejected", "text": "no", "detail": {"userFeedback": "ask first"}}),
        (result("no", toolDenialKind="permission-rule", error=True),
         {"ok": False, "outcome": "denied", "text": "no"}),
        (result("no", toolDenialKind="something-new", error=True), {"ok": False, "outcome": "denied", "text": "no"}),
        (result("[Tool call interrupted: x", toolDenialKind="interrupted", error=True),
         {"ok": False, "outcome": "interrupted", "text": "[Tool call interrupted: x"}),
        (result("[Request interrupted by user for tool use]", error=True),
         {"ok": False, "outcome": "interrupted", "text": "[Request interrupted by user for tool use]"}),
        (result("half", {"interrupted": True, "stdout": "half"}),
         {"ok": False, "outcome": "interrupted", "text": "half", "detail": {"interrupted": True}}),
        (result("ls", {"interrupted": False, "isImage": False, "stdout": "secret", "stderr": ""}, error=False),
         {"ok": True, "outcome": "ok", "text": "ls"}),
        (result("1\tx", {"type": "text", "file": {"filePath": "/a", "content": "x", "numLines": 1, "totalLines": 9}}),
         {"ok": True, "outcome": "ok", "text": "1\tx", "read": ["/a"],
          "detail": {"type": "text", "numLines": 1, "totalLines": 9}}),
        (result("ok", {"type": "create", "filePath": "/a", "content": "x", "structuredPatch": []}),
         {"ok": True, "outcome": "ok", "text": "ok", "wrote": ["/a"], "detail": {"type": "create"}}),
        (result("no", {"filePath": "/a", "structuredPatch": []}, error=True),
         {"ok": False, "outcome": "error", "text": "no"}),
        (result("plan", {"filePath": "/plan.md", "plan": "x"}), {"ok": True, "outcome": "ok", "text": "plan"}),
        (result("f", {"filenames": ["/a"], "numFiles": 0, "durationMs": 12}),
         {"ok": True, "outcome": "ok", "text": "f", "detail": {"numFiles": 0}, "duration_ms": 12}),
        (result("w", {"durationSeconds": 1.5, "query": "q", "results": ["x"]}),
         {"ok": True, "outcome": "ok", "text": "w", "detail": {"query": "q"}, "duration_ms": 1500}),
        (result("w", {"durationMs": "soon"}), {"ok": True, "outcome": "ok", "text": "w"}),
        (result("w", {"durationMs": -1}), {"ok": True, "outcome": "ok", "text": "w"}),
        (result("w", [{"type": "text", "text": "w"}]), {"ok": True, "outcome": "ok", "text": "w"}),
        (result("report", {"status": "completed", "agentId": "a1", "totalTokens": 743, "totalDurationMs": 900,
                           "content": [TEXT], "prompt": "look", "usage": USAGE}),
         {"ok": True, "outcome": "ok", "text": "report", "spawned": "a1", "duration_ms": 900,
          "detail": {"status": "completed", "totalTokens": 743}}),
    ],
)  # fmt: skip
def test_results_of_tools(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """Outcome, text, the few figures people ask for, the paths that were touched; never what the files held."""
    assert told(body) == [{"kind": "tool_result", "call": "toolu_1", **seen}]


@pytest.mark.parametrize(
    ("decision", "error", "outcome", "origin", "detail"),
    [
        ({"decision": "accept", "source": "config", "reasonType": "rule"}, False, "ok", "config",
         {"reasonType": "rule"}),
        ({"decision": "accept", "source": "user_temporary", "grantScope": "once"}, True, "error", "user_temporary",
         {"grantScope": "once"}),
        ({"decision": "reject", "source": "config"}, True, "denied", "config", None),
        ({"decision": "reject", "source": "user_reject"}, True, "rejected", "user_reject", None),
    ],
)  # fmt: skip
def test_a_decision_about_a_call_stands_before_its_result(
    decision: dict[str, Any], outcome: str, origin: str, detail: Any, *, error: bool
) -> None:
    """Who decided counts for more than the row's word for it, which says "user" where nobody was asked."""
    kind = {"toolDenialKind": "user-rejected"} if decision["decision"] == "reject" else {}
    permission, answer = told(result("x", error=error, permissionDecision=decision, **kind))
    expected = {"kind": "permission", "decision": decision["decision"], "call": "toolu_1", "origin": origin}
    assert permission == {**expected, **({"detail": detail} if detail else {})}
    assert (answer["kind"], answer["outcome"]) == ("tool_result", outcome)


def test_a_skill_is_loaded_when_its_call_succeeds() -> None:
    """And not when it does not."""
    loaded = {"success": True, "commandName": "greet"}
    assert [one["kind"] for one in told(result("x", loaded))] == ["tool_result", "skill"]
    assert told(result("x", loaded))[1] == {"kind": "skill", "name": "greet", "stage": "loaded", "call": "toolu_1"}
    assert [one["kind"] for one in told(result("x", loaded, error=True))] == ["tool_result"]


def test_parallel_results_of_one_row_keep_their_calls() -> None:
    """Each its own; a text among them is no prompt."""
    body = user(
        [
            {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
            {"type": "tool_result", "tool_use_id": 2, "content": "two"},
            {"type": "text", "text": "and a word"},
            {"type": "text", "text": "[Request interrupted by user for tool use]"},
        ]
    )
    assert [(one["kind"], one.get("call"), one.get("source")) for one in told(body)] == [
        ("tool_result", "t1", None),
        ("tool_result", None, None),
        ("injected", None, "message"),
        ("injected", None, "interrupt"),
    ]


# --- system -----------------------------------------------------------------------------------------------------------


def system(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **more}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (system("turn_duration", durationMs=51894), [{"kind": "turn_end", "duration_ms": 51894}]),
        (system("turn_duration"), [{"kind": "turn_end"}]),
        (system("compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 155000}),
         [{"kind": "compaction", "trigger": "auto", "before_tokens": 155000}]),
        (system("compact_boundary"), [{"kind": "compaction"}]),
        (system("microcompact_boundary", microcompactMetadata={"trigger": "auto", "preTokens": 9}),
         [{"kind": "compaction", "trigger": "auto", "before_tokens": 9, "micro": True}]),
        (system("api_error", error={"status": 503, "headers": {}}, retryInMs=596.2, retryAttempt=1, maxRetries=10),
         [{"kind": "failure", "text": "", "status": 503, "attempt": 1, "attempts": 10, "retry_ms": 596.2}]),
        (system("api_error", error={"cause": {"code": "ECONNRESET"}}, cause={"code": "EOTHER"}),
         [{"kind": "failure", "text": "ECONNRESET"}]),
        (system("api_error", error={}, cause={"code": "EOTHER"}), [{"kind": "failure", "text": "EOTHER"}]),
        (system("api_error", error={"error": {"error": {"type": "overloaded_error", "message": "Overloaded"}}}),
         [{"kind": "failure", "text": "Overloaded"}]),
        (system("api_error", error="broken"), [{"kind": "failure", "text": ""}]),
        (system("local_command", content="<command-name>/status</command-name>\n<command-args></command-args>"),
         [{"kind": "prompt", "text": "/status", "source": "command"}]),
        (system("local_command", content="<local-command-stdout>x</local-command-stdout>"),
         [{"kind": "injected", "text": "<local-command-stdout>x</local-command-stdout>",
           "source": "command-output"}]),
        (system("stop_hook_summary", hookInfos=[{"command": "a", "durationMs": 3}, {"command": "b"}], hookErrors=[]),
         [{"kind": "hook_run", "event": "Stop", "command": "a", "outcome": "ok", "duration_ms": 3},
          {"kind": "hook_run", "event": "Stop", "command": "b", "outcome": "ok"}]),
        (system("stop_hook_summary", hookInfos=[{"command": "a"}], hookErrors=["no such file"]),
         [{"kind": "hook_run", "event": "Stop", "command": "a", "outcome": "error", "text": "no such file"}]),
        (system("stop_hook_summary", hookInfos=[{"command": "a"}, {"command": "b"}], hookErrors=["one failed"]),
         [{"kind": "hook_run", "event": "Stop", "command": "a"},
          {"kind": "hook_run", "event": "Stop", "command": "b"},
          {"kind": "set_aside", "family": "system/stop_hook_summary", "value": {"hookErrors": ["one failed"]}}]),
        (system("stop_hook_summary", hookInfos=[{"command": "a"}], preventedContinuation=True, stopReason="todo"),
         [{"kind": "hook_run", "event": "Stop", "command": "a", "outcome": "ok"},
          {"kind": "set_aside", "family": "system/stop_hook_summary",
           "value": {"preventedContinuation": True, "stopReason": "todo"}}]),
        (system("stop_hook_summary", hookInfos=[], hookErrors=[]),
         [{"kind": "set_aside", "family": "system/stop_hook_summary"}]),
        (system("informational", content="blocked by hook"),
         [{"kind": "set_aside", "family": "system/informational", "value": "blocked by hook"}]),
        (system("model_refusal_fallback", originalModel="a", fallbackModel="b"),
         [{"kind": "set_aside", "family": "system/model_refusal_fallback",
           "value": {"originalModel": "a", "fallbackModel": "b"}}]),
        (system("chat_compression"), [{"kind": "unmodelled", "family": "system/chat_compression"}]),
        ({"type": "system", "message": {"content": "You are"}}, [{"kind": "unmodelled", "family": "system"}]),
    ],
)  # fmt: skip
def test_system_rows(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """Durations, compactions, failures, hooks; the rest is laid aside by name, or carried."""
    assert told(body) == seen


# --- attachments ------------------------------------------------------------------------------------------------------

HOOK = {"hookName": "PostToolUse:Bash", "hookEvent": "PostToolUse", "toolUseID": "toolu_1"}
RUN = {"event": "PostToolUse", "name": "PostToolUse:Bash", "call": "toolu_1"}
START = {"hookName": "SessionStart:startup", "hookEvent": "SessionStart", "toolUseID": "5d057a89"}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (attachment("hook_success", **HOOK, content="", stdout="{}\n", stderr="", exitCode=0, command="c",
                    durationMs=12),
         [{"kind": "hook_run", **RUN, "command": "c", "outcome": "ok", "exit_code": 0, "duration_ms": 12,
           "text": "{}"}]),
        (attachment("hook_success", **START, content="", stdout="", stderr="\n", exitCode=0),
         [{"kind": "hook_run", "event": "SessionStart", "name": "SessionStart:startup", "outcome": "ok",
           "exit_code": 0}]),
        (attachment("hook_non_blocking_error", **HOOK, stdout="a", stderr="b", exitCode=1),
         [{"kind": "hook_run", **RUN, "outcome": "error", "exit_code": 1, "text": "a\nb"}]),
        (attachment("hook_cancelled", **HOOK, content="gone"),
         [{"kind": "hook_run", **RUN, "outcome": "cancelled", "text": "gone"}]),
        (attachment("hook_blocking_error", **HOOK), [{"kind": "hook_run", **RUN, "outcome": "blocked"}]),
        (attachment("hook_additional_context", **HOOK, content=["a", "b"]),
         [{"kind": "injected", "text": "a\nb", "source": "hook", "call": "toolu_1"}]),
        (attachment("hook_additional_context", **START, content="a"),
         [{"kind": "injected", "text": "a", "source": "hook"}]),
        (attachment("hook_system_message", **START, content="linked"),
         [{"kind": "set_aside", "family": "attachment/hook_system_message", "value": "linked"}]),
        (attachment("prompt_snapshot", systemPrompt=["\r\nYou are", "a\r\nhelper. "]),
         [{"kind": "system_prompt", "text": "You are\n\na\nhelper.", "parts": 2}]),
        (attachment("prompt_snapshot", systemPrompt="You are"), [{"kind": "system_prompt", "text": "You are"}]),
        (attachment("prompt_snapshot"), [{"kind": "unmodelled", "family": "attachment/prompt_snapshot"}]),
        (attachment("skill_listing", content="- a: x", names=["a", "b"]),
         [{"kind": "skill", "name": "a", "stage": "available"}, {"kind": "skill", "name": "b", "stage": "available"}]),
        (attachment("skill_listing", skills=[{"name": "a"}, {"x": 1}]),
         [{"kind": "skill", "name": "a", "stage": "available"}]),
        (attachment("skill_listing", content="- a: x", skillCount=6),
         [{"kind": "set_aside", "family": "attachment/skill_listing", "value": 6}]),
        (attachment("skill_activated", skills=["a"]), [{"kind": "skill", "name": "a", "stage": "invoked"}]),
        (attachment("invoked_skills", skills=[{"name": "a", "path": "/a"}]),
         [{"kind": "skill", "name": "a", "stage": "loaded"}]),
        (attachment("dynamic_skill", skillNames=["a"]), [{"kind": "skill", "name": "a", "stage": "loaded"}]),
        (attachment("queued_command", prompt="also this", commandMode="prompt", origin=HUMAN),
         [{"kind": "prompt", "text": "also this", "source": "queued"}]),
        (attachment("queued_command", prompt=[TEXT, {"type": "image"}], commandMode="prompt"),
         [{"kind": "prompt", "text": "a", "source": "queued", "images": 1}]),
        (attachment("queued_command", prompt="ls", commandMode="bash"),
         [{"kind": "prompt", "text": "ls", "source": "shell"}]),
        (attachment("queued_command", prompt="<task-notification>", commandMode="task-notification"),
         [{"kind": "injected", "text": "<task-notification>", "source": "task-notification"}]),
        (attachment("queued_command", prompt="x", commandMode="prompt", origin={"kind": "channel"}),
         [{"kind": "injected", "text": "x", "source": "channel"}]),
        (attachment("queued_command", prompt="x", commandMode="prompt", isMeta=True),
         [{"kind": "injected", "text": "x", "source": "meta"}]),
        ({**attachment("queued_command", prompt="x", commandMode="prompt"), "agentId": "a1"},
         [{"kind": "injected", "text": "x", "source": "message", "agent": "a1"}]),
        (attachment("file", filename="/a", content={"file": {"content": "secret"}}),
         [{"kind": "set_aside", "family": "attachment/file", "value": "/a"}]),
        (attachment("auto_mode"), [{"kind": "set_aside", "family": "attachment/auto_mode"}]),
        (attachment("mcp_instructions_delta", addedNames=["x"], addedBlocks=["long"], removedNames=[]),
         [{"kind": "set_aside", "family": "attachment/mcp_instructions_delta",
           "value": {"addedNames": ["x"], "removedNames": []}}]),
        (attachment("brand_new"), [{"kind": "unmodelled", "family": "attachment/brand_new"}]),
        ({"type": "attachment"}, [{"kind": "unmodelled", "family": "attachment/<object>"}]),
        ({"type": "attachment", "attachment": ["x"]}, [{"kind": "unmodelled", "family": "attachment/<object>"}]),
    ],
)  # fmt: skip
def test_attachments(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """Hooks, the system prompt, skills, words said in between; the rest is laid aside by name, or carried."""
    assert told(body) == seen


# --- progress ---------------------------------------------------------------------------------------------------------


def progress(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "progress", "parentToolUseID": "toolu_1", "data": {"type": kind, **more}}


@pytest.mark.parametrize(
    "kind",
    ["bash_progress", "hook_progress", "mcp_progress", "query_update", "search_results_received", "waiting_for_task"],
)
def test_progress_is_a_sign_of_life(kind: str) -> None:
    """Of the call it names; what it printed stands in the result."""
    seen = {"kind": "progress", "family": f"progress/{kind}", "call": "toolu_1"}
    assert told(progress(kind, output="x", fullOutput="x")) == [seen]


def test_a_row_inside_a_progress_row_is_read_as_its_own() -> None:
    """Whose, when and which is the inner row's; who started it is the outer one's to say."""
    inner = {
        "type": "assistant", "uuid": "u9", "timestamp": "2026-03-01T10:00:01Z", "requestId": "req_1",
        **assistant({"type": "tool_use", "id": "t9", "name": "Grep", "input": {}}, TEXT, usage=USAGE),
    }  # fmt: skip
    data = {"agentId": "a1", "prompt": "look", "message": inner, "normalizedMessages": [inner]}
    started, call, text = observe({**COMMON, "promptId": "p1", **progress("agent_progress", **data)})
    assert plain(msgspec.to_builtins(started)) == {
        "kind": "subagent_start", "spawned": "a1", "call": "toolu_1", "turn": "p1", "via": "progress",
    }  # fmt: skip
    assert (started.id, started.at) == ("u1", AT)
    inside = {"agent": "a1", "via": "progress", "step": "msg_1"}
    assert plain(msgspec.to_builtins(call)) == {
        "kind": "tool_request", "name": "Grep", "input": {}, "call": "t9", "usage": {**COUNTED, "request": "req_1"},
        **inside,
    }  # fmt: skip
    assert plain(msgspec.to_builtins(text)) == {"kind": "response", "text": "a", **inside}
    assert {(one.id, one.at) for one in (call, text)} == {("u9", datetime(2026, 3, 1, 10, 0, 1, tzinfo=UTC))}


def test_the_task_of_a_subagent_is_no_prompt_there_either() -> None:
    """Neither its results' rows."""
    data = {"agentId": "a1", "message": user("look", uuid="u9")}
    assert [(one["kind"], one.get("source")) for one in told(progress("agent_progress", **data))] == [
        ("subagent_start", None), ("injected", "task"),
    ]  # fmt: skip
    data = {"agentId": "a1", "message": result("found", {"durationMs": 5})}
    assert told(progress("agent_progress", **data))[1] == {
        "kind": "tool_result", "call": "toolu_1", "ok": True, "outcome": "ok", "text": "found", "duration_ms": 5,
        "agent": "a1", "via": "progress",
    }  # fmt: skip


@pytest.mark.parametrize("inner", [None, "x", {}, {"type": "progress"}, {"type": ["user"]}, {"type": "user"}])
def test_a_subagent_is_known_even_if_its_row_is_not(inner: Any) -> None:
    """The start is told; nothing is made of the rest."""
    assert told(progress("agent_progress", agentId="a1", message=inner)) == [
        {"kind": "subagent_start", "spawned": "a1", "call": "toolu_1", "via": "progress"}
    ]


def test_agent_progress_of_nobody_is_a_sign_of_life() -> None:
    """Without an id there is no subagent to speak of."""
    assert told(progress("agent_progress", message=user("x"))) == [
        {"kind": "progress", "family": "progress/agent_progress", "call": "toolu_1"}
    ]


# --- titles, accounts, and what is laid aside -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"type": "summary", "summary": "T", "leafUuid": "l1"},
         {"kind": "title", "text": "T", "source": "summary", "leaf": "l1"}),
        ({"type": "ai-title", "aiTitle": "T"}, {"kind": "title", "text": "T", "source": "ai"}),
        ({"type": "custom-title", "customTitle": "T"}, {"kind": "title", "text": "T", "source": "custom"}),
        ({"type": "agent-name", "agentName": "T"}, {"kind": "title", "text": "T", "source": "agent"}),
        ({"type": "ai-title"}, {"kind": "unmodelled", "family": "ai-title"}),
        ({"type": "cost-state", "totalCostUSD": 0.25, "hasUnknownModelCost": False, "totalDuration": 2**70,
          "modelUsage": {"opus": {"inputTokens": 1, "costUSD": 0.25}, "odd": 7}},
         {"kind": "accounting", "family": "cost-state", "figures": {
             "totalCostUSD": 0.25, "hasUnknownModelCost": False, "totalDuration": str(2**70),
             "modelUsage.opus.inputTokens": 1, "modelUsage.opus.costUSD": 0.25}}),
        ({"type": "mode", "mode": "normal"}, {"kind": "set_aside", "family": "mode", "value": "normal"}),
        ({"type": "permission-mode", "permissionMode": "auto"},
         {"kind": "set_aside", "family": "permission-mode", "value": "auto"}),
        ({"type": "queue-operation", "operation": "enqueue", "content": "x"},
         {"kind": "set_aside", "family": "queue-operation", "value": "enqueue"}),
        ({"type": "pr-link", "prNumber": 5, "prUrl": "https://example.org/5"},
         {"kind": "set_aside", "family": "pr-link", "value": {"prNumber": 5, "prUrl": "https://example.org/5"}}),
        ({"type": "last-prompt", "lastPrompt": "secret"}, {"kind": "set_aside", "family": "last-prompt"}),
        ({"type": "file-history-snapshot", "snapshot": {}}, {"kind": "set_aside", "family": "file-history-snapshot"}),
        ({"type": "api-request-blob", "message": user("x")}, {"kind": "set_aside", "family": "api-request-blob"}),
        ({"type": "worktree-state", "worktreeSession": {"worktreeName": "wt1"}},
         {"kind": "set_aside", "family": "worktree-state", "value": {"worktreeName": "wt1"}}),
        ({"type": "brand-new"}, {"kind": "unmodelled", "family": "brand-new"}),
        ({"message": {"role": "user"}}, {"kind": "unmodelled", "family": "<object>"}),
        ({"type": ["user"]}, {"kind": "unmodelled", "family": "<object>"}),
    ],
)  # fmt: skip
def test_other_rows(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """Names for the session, the client's own account, book-keeping, and the unknown under its own name."""
    assert told(body) == [seen]


# --- side files and payloads ------------------------------------------------------------------------------------------


def filed(native_id: str, raw: bytes) -> list[dict[str, Any]]:
    file = SideFile(ref=Ref("files/0001", 1, 0), native_id=native_id, stream=None, raw=raw)
    return [plain(msgspec.to_builtins(one)) for one in PARSER.observe(file)]


JOURNAL = b"""\
{"type":"started","key":"k","agentId":"a1"}
{"type":"result","agentId":"a1"}
{"type":"started",
{"type":"started","agentId":"a2"}"""


@pytest.mark.parametrize(
    ("native_id", "raw", "seen"),
    [
        ("subagents/agent-a1.meta.json",
         b'{"agentType":"Explore","description":"look","toolUseId":"toolu_1","model":"haiku","spawnDepth":1}',
         [{"kind": "subagent_start", "spawned": "a1", "call": "toolu_1", "agent_type": "Explore",
           "description": "look", "model": "haiku"}]),
        ("subagents/workflows/wf_7/agent-a1.meta.json", b"{}",
         [{"kind": "subagent_start", "spawned": "a1", "workflow": "wf_7"}]),
        ("s1\\subagents\\agent-a1.meta.json", b'{"agentType":7}', [{"kind": "subagent_start", "spawned": "a1"}]),
        ("subagents/agent-a1.meta.json", b"[]", [{"kind": "unmodelled", "family": "subagent-meta/<list>"}]),
        ("subagents/agent-a1.meta.json", b'{"agentType":', [{"kind": "unreadable", "reason": "not JSON", "bytes": 13}]),
        ("subagents/workflows/wf_7/journal.jsonl",
         JOURNAL,
         [{"kind": "subagent_start", "spawned": "a1", "workflow": "wf_7"},
          {"kind": "subagent_start", "spawned": "a2", "workflow": "wf_7"}]),
        ("subagents/workflows/wf_7/journal.jsonl", b"\n", [{"kind": "set_aside", "family": "workflow-journal"}]),
        ("tool-results/toolu_1.txt", b"long", [{"kind": "set_aside", "family": "tool-result-file", "call": "toolu_1"}]),
        ("tool-results/b1893ac.txt", b"long", [{"kind": "set_aside", "family": "tool-result-file"}]),
        ("tool-results/toolu_1.json", b"{", [{"kind": "unreadable", "reason": "not JSON", "bytes": 1}]),
        ("notes/plan.md", b"x", [{"kind": "set_aside", "family": "side-file"}]),
    ],
)  # fmt: skip
def test_side_files(native_id: str, raw: bytes, seen: list[dict[str, Any]]) -> None:
    """Who started a subagent, which workflow it belongs to, which call a spilled result answers."""
    assert filed(native_id, raw) == seen


@pytest.mark.parametrize(
    ("raw", "argv", "family"),
    [
        (b'{"hook_event_name":"PreToolUse","tool_use_id":"toolu_1"}', ("hook.py", "Other"), "PreToolUse"),
        (b'{"session_id":"s1"}', ("hook.py", "claude", "Stop"), "Stop"),
        (b"{}", (), "<object>"),
    ],
)
def test_payloads_are_carried_by_the_name_of_their_event(raw: bytes, argv: tuple[str, ...], family: str) -> None:
    """This version reads none of them."""
    payload = Payload(ref=Ref("hooks", 1, 1), n=1, harness="claude", argv=argv, raw=raw)
    assert PARSER.observe(payload) == [Unmodelled(ref=payload.ref, family=family)]


# --- silence ----------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
CARRIED = (Unmodelled, Unreadable, SetAside, Mended)


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=6))
def test_noise_makes_nothing(body: dict[str, Any]) -> None:
    """An object that nobody ever wrote is carried, not interpreted."""
    seen = observe(body)
    assert seen
    assert all(isinstance(one, CARRIED) for one in seen)


KEYS = st.sampled_from([
    "agentId", "attachment", "attributionMcpServer", "commandMode", "compactMetadata", "content", "data", "error",
    "filePath", "hookErrors", "hookInfos", "id", "input", "interrupted", "is_error", "isApiErrorMessage", "isMeta",
    "isSidechain", "message", "model", "modelUsage", "name", "names", "origin", "permissionDecision", "prompt",
    "promptId", "requestId", "structuredPatch", "summary", "systemPrompt", "text", "thinking", "timestamp",
    "tool_use_id", "toolUseResult", "usage", "uuid",
])  # fmt: skip
rows = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["text", "tool_use", "tool_result", "<a>", "Skill"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.just("type"), inner, max_size=5),
    max_leaves=16,
)


@given(st.sampled_from(sorted(PARSER.rows)), st.dictionaries(KEYS, rows, max_size=8))
def test_known_rows_with_anything_inside_never_fail(family: str, body: dict[str, Any]) -> None:
    """Whatever shape a field has, each row says something, its parts are counted, and readers do not stumble."""
    kind, _, below = family.partition("/")
    body = {**body, "type": kind}
    if kind == "system":
        body["subtype"] = below
    elif below:
        name = "attachment" if kind == "attachment" else "data"
        inner = body.get(name)
        body[name] = {**(inner if isinstance(inner, dict) else {}), "type": below}
    seen = observe(body)
    assert [one.part for one in seen] == list(range(len(seen)))
    assert not any(isinstance(one, Unreadable) for one in seen)
    assert sum(one.usage is not None for one in seen) <= 1
    msgspec.json.encode(seen)


SPEECHLESS = [
    result("x"), result("x", error=True), assistant(TEXT), system("turn_duration", durationMs=1),
    attachment("skill_listing", names=["a"]), attachment("task_reminder", content=[]), progress("bash_progress"),
    {"type": "queue-operation", "operation": "enqueue", "content": "a prompt that comes later as a row"},
    {"type": "last-prompt", "lastPrompt": "a prompt that was a row before"},
    {"type": "summary", "summary": "T"},
    {"type": "api-request-blob", "message": user("a prompt as it was sent")},
    system("informational", content="Original prompt: x"),
]  # fmt: skip


@pytest.mark.parametrize("body", SPEECHLESS, ids=range(len(SPEECHLESS)))
def test_no_prompt_from_what_is_none(body: dict[str, Any]) -> None:
    """Prompts open turns, so there must not be one too many."""
    assert not any(isinstance(one, Prompt) for one in observe({**COMMON, **body}))


def test_no_call_from_a_result() -> None:
    """What a subagent's result says of its tokens was counted where they were spent."""
    seen = observe(result("x", {"agentId": "a1", "totalTokens": 743, "usage": USAGE}))
    assert not any(isinstance(one, ToolRequest) or one.usage is not None for one in seen)


def test_the_client_is_no_model() -> None:
    """Retries, synthetic messages and the client's own account carry no usage of a call."""
    bodies = [
        system("api_error", error={"status": 529}),
        assistant(TEXT, model="<synthetic>", usage=USAGE, isApiErrorMessage=True),
        assistant(TEXT, model="<synthetic>", usage=USAGE),
        {"type": "cost-state", "modelUsage": {"opus": {"inputTokens": 5}}},
    ]
    assert [one.usage for body in bodies for one in observe(body)] == [None] * len(bodies)


def test_book_keeping_keeps_no_text() -> None:
    """What stands elsewhere is not kept twice."""
    for kind in (
        "last-prompt",
        "api-request-blob",
        "file-history-snapshot",
        "attachment/file",
        "progress/bash_progress",
    ):
        family, _, below = kind.partition("/")
        inner = {"type": below, "content": "secret", "fullOutput": "secret"}
        body = {"type": family, "data": inner, "attachment": inner, "lastPrompt": "secret", "message": "secret"}
        seen = observe(body)
        assert all(isinstance(one, (SetAside, Progress)) for one in seen)
        assert b"secret" not in msgspec.json.encode(seen)


def test_kinds_that_this_dialect_has_no_rows_for() -> None:
    """Sessions do not begin or end in a transcript: nobody writes a row for it."""
    made = {type(one) for body in (assistant(TEXT, usage=USAGE), {"type": "ai-title", "aiTitle": "T"},
                                   system("api_error"), {"type": "cost-state"}) for one in observe(body)}  # fmt: skip
    assert made <= {Title, Failure, Accounting} | {type(observe(assistant(TEXT))[0])}
