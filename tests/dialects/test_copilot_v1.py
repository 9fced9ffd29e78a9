"""Copilot CLI, parser version 1: one row in, exact observations out; and what must not come out."""

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
    Keeper,
    Mended,
    Observation,
    Payload,
    Ref,
    Row,
    SetAside,
    SideFile,
    ToolRequest,
    Unmodelled,
    Unreadable,
)

PARSER = parser("copilot", 1)
COMMON = {"id": "e1", "timestamp": "2026-03-01T10:00:00.250Z", "parentId": "e0"}
AT = datetime(2026, 3, 1, 10, 0, 0, 250000, tzinfo=UTC)


def observe(body: dict[str, Any], keep: Keeper = FOLDED, agent: str | None = None) -> list[Observation]:
    raw = json.dumps(body, ensure_ascii=False).encode()
    return PARSER.observe(Row(ref=Ref("main", 1, 0), line=1, raw=raw, agent=agent), keep)


def plain(value: Any) -> Any:
    """Texts as their preview; provenance left out, which has tests of its own."""
    if isinstance(value, dict):
        if value.keys() == {"chars", "sha256", "preview"}:
            return value["preview"]
        return {key: plain(item) for key, item in value.items() if key not in ("at", "id", "part", "ref")}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def event(family: str, /, **data: Any) -> dict[str, Any]:
    return {"type": family, "data": data, **COMMON}


def told(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [plain(msgspec.to_builtins(one)) for one in observe(body)]


def message(**data: Any) -> dict[str, Any]:
    return event("assistant.message", **{"messageId": "m1", "content": "", "toolRequests": [], **data})


# --- provenance -------------------------------------------------------------------------------------------------------


def test_every_observation_says_where_and_when() -> None:
    """The row's own id and time, the interaction it is part of, the call that made it; parts are counted."""
    asked = [{"toolCallId": "t1", "name": "view"}, {"toolCallId": "t2", "name": "view"}]
    body = message(interactionId="i1", apiCallId="a1", turnId="0", toolRequests=asked)
    first, second = observe(body)
    for part, seen in enumerate((first, second)):
        assert (seen.ref, seen.part, seen.at) == (Ref("main", 1, 0), part, AT)
        assert (seen.id, seen.turn, seen.step, seen.agent, seen.via) == ("e1", "i1", "a1", None, None)


@pytest.mark.parametrize(
    ("data", "step"), [({"apiCallId": "a1"}, "a1"), ({}, "m1"), ({"messageId": None}, "e1"), ({"apiCallId": 7}, "m1")]
)
def test_pieces_of_one_call_are_one_step(data: dict[str, Any], step: str) -> None:
    """All messages of a call name it; older versions name the message only."""
    (seen,) = observe(message(content="a", **data))
    assert seen.step == step


@pytest.mark.parametrize(
    ("body", "row_agent", "agent"),
    [
        ({}, None, None),
        ({"agentId": "x"}, None, "x"),
        ({"agentId": ""}, None, None),
        ({"agentId": 7}, None, None),
        ({"data": {"content": "a", "parentToolCallId": "t1"}}, None, "t1"),
        ({"agentId": "x", "data": {"content": "a", "parentToolCallId": "t1"}}, None, "x"),
        ({}, "y", "y"),
        ({"agentId": "x"}, "y", "x"),
    ],
)
def test_whose_row_it_is(body: dict[str, Any], row_agent: str | None, agent: str | None) -> None:
    """The row's word, else the call that started its agent, else the transcript that it stands in."""
    (seen,) = observe({**message(content="a"), **body}, agent=row_agent)
    assert seen.agent == agent


def test_what_a_resumed_client_repairs_is_no_interaction_of_its_own() -> None:
    """The word that stands in place of an id opens no turn."""
    (seen,) = observe(event("tool.execution_complete", toolCallId="t1", interactionId="resume", success=False))
    assert seen.turn is None


@pytest.mark.parametrize(
    ("fields", "at", "native"),
    [
        ({"timestamp": 1}, None, "e1"),
        ({"timestamp": "2026-03-01T10:00:00"}, None, "e1"),
        ({"id": 7}, AT, None),
        ({"id": ""}, AT, None),
    ],
)
def test_provenance_that_is_none_is_not_guessed(
    fields: dict[str, Any], at: datetime | None, native: str | None
) -> None:
    """No time without a zone and none of bare numbers, no id that is no text."""
    (seen,) = observe({**message(content="a", interactionId=5), **fields})
    assert (seen.at, seen.id, seen.turn) == (at, native, None)


# --- people, and what speaks in their place ---------------------------------------------------------------------------


def user(content: Any, **data: Any) -> dict[str, Any]:
    return event("user.message", content=content, **data)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (user("hi"), {"text": "hi"}),
        (user("hi", transformedContent="<now/>\n\nhi", delivery="idle", interactionId="i1"),
         {"text": "hi", "turn": "i1"}),
        (user("hi", delivery="queued"), {"text": "hi", "source": "queued"}),
        (user("hi", delivery="steering", source="user"), {"text": "hi", "source": "steering"}),
        (user("<b>bold</b>"), {"text": "<b>bold</b>"}),
        (user("see", attachments=[{"type": "blob", "mimeType": "image/png"}, {"type": "file", "path": "/a.py"},
                                  {"type": "file", "path": "/b.PNG"}, {"type": "image"}, "bare"]),
         {"text": "see", "images": 3}),
        (user("", attachments=[{"type": "file", "path": "/a.pdf", "mimeType": "application/pdf"}]), {"text": ""}),
    ],
)  # fmt: skip
def test_what_a_person_wrote_is_a_prompt(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """One a row; what the client made of it for the model is no second one."""
    assert told(body) == [{"kind": "prompt", **seen}]


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (user(" \n"), {"text": " \n", "source": "empty"}),
        (user("", attachments=[]), {"text": "", "source": "empty"}),
        (user("x", source="system"), {"text": "x", "source": "system"}),
        (user("", source="system", delivery="steering", transformedContent="x"),
         {"text": "x", "source": "system", "via": "event"}),
        (user("", source="system"), {"text": "", "source": "system"}),
        (user("x", source="skill-greet"), {"text": "x", "source": "skill"}),
        (user("x", source="agent-9"), {"text": "x", "source": "agent"}),
        (user("x", isAutopilotContinuation=True), {"text": "x", "source": "autopilot"}),
        ({**user("x", source="agent-9", delivery="idle"), "agentId": "a"},
         {"text": "x", "source": "task", "agent": "a"}),
        ({**user("x"), "agentId": "a"}, {"text": "x", "source": "task", "agent": "a"}),
        ({**user("x", source="system"), "agentId": "a"}, {"text": "x", "source": "system", "agent": "a"}),
        (event("system.notification", content="done", kind={"type": "shell_completed", "exitCode": 0}),
         {"text": "done", "source": "shell_completed"}),
        (event("system.notification", content="done"), {"text": "done", "source": "<object>"}),
        (event("abort", reason="user_initiated"), {"text": "user_initiated", "source": "interrupt"}),
        (event("abort"), {"text": "", "source": "interrupt"}),
    ],
)  # fmt: skip
def test_what_nobody_wrote_there_is_no_prompt(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """It is told who put it there; what a row of its own tells again is marked."""
    assert told(body) == [{"kind": "injected", **seen}]


def test_the_instructions_are_a_system_prompt() -> None:
    """Whole, with the interaction that they were sent for."""
    body = event("system.message", role="system", content="You are", interactionId="i1", metadata={"variables": {}})
    assert told(body) == [{"kind": "system_prompt", "text": "You are", "turn": "i1"}]


# --- the model --------------------------------------------------------------------------------------------------------

STEP = {"step": "m1"}


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"content": "a"}, [{"kind": "response", "text": "a"}]),
        ({"content": "a", "phase": "commentary"}, [{"kind": "response", "text": "a"}]),
        ({"reasoningText": "hm", "reasoningOpaque": "abcd"}, [{"kind": "thought", "text": "hm", "signature_chars": 4}]),
        ({"reasoningText": "hm"}, [{"kind": "thought", "text": "hm"}]),
        ({"reasoningOpaque": "rs_1", "encryptedContent": "abcdef"},
         [{"kind": "thought", "opaque": True, "signature_chars": 6}]),
        ({"reasoningOpaque": "abcd"}, [{"kind": "thought", "opaque": True, "signature_chars": 4}]),
        ({"content": "a", "reasoningText": "hm", "reasoningBlocks": {"blocks": [{"thinking": "hm"}]}},
         [{"kind": "thought", "text": "hm"}, {"kind": "response", "text": "a"}]),
        ({"content": "a", "toolRequests": [{"toolCallId": "t1", "name": "glob", "arguments": {"pattern": "*"},
                                            "type": "function", "intentionSummary": "look"}]},
         [{"kind": "response", "text": "a"},
          {"kind": "tool_request", "name": "glob", "input": {"pattern": "*"}, "call": "t1"}]),
        ({"toolRequests": [{"name": 5, "type": "function"}, "bare", {"name": "glob"}]},
         [{"kind": "unmodelled", "family": "toolRequests/function"},
          {"kind": "unmodelled", "family": "toolRequests/<object>"}, {"kind": "tool_request", "name": "glob"}]),
        ({}, [{"kind": "set_aside", "family": "assistant.message"}]),
    ],
)  # fmt: skip
def test_a_message_is_a_thought_a_response_and_requests(data: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """In this order; one thought, in words when there are any."""
    assert told(message(**data)) == [{**one, **STEP} for one in seen]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"content": "hm", "reasoningId": "r1"}, {"text": "hm"}),
        ({"text": "hm"}, {"text": "hm"}),
        ({"reasoningText": "hm", "reasoningOpaque": "ab"}, {"text": "hm"}),
        ({"reasoningOpaque": "abcd"}, {"opaque": True, "signature_chars": 4}),
    ],
)
def test_a_thought_told_ahead_is_a_second_telling(data: dict[str, Any], seen: dict[str, Any]) -> None:
    """Its message tells it again."""
    assert told(event("assistant.reasoning", **data)) == [{"kind": "thought", "via": "event", **seen}]


def test_a_long_input_is_folded_and_a_long_command_measured() -> None:
    """Texts over 1,000 characters are kept by length, digest and start; whole only when asked."""
    long = "x" * 1500
    body = message(toolRequests=[{"toolCallId": "t1", "name": "bash", "arguments": {"command": long}}])
    (seen,) = observe(body)
    assert isinstance(seen, ToolRequest)
    assert seen.command == seen.input["command"] == FOLDED.text(long)
    (whole,) = observe(body, keep=Keeper(whole=True))
    assert isinstance(whole, ToolRequest)
    assert whole.command is not None
    assert whole.command.text == long


# --- tools ------------------------------------------------------------------------------------------------------------

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n*** Add File: b.txt\n*** Update File: a.txt\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("view", {"path": "/a", "view_range": [1, 2]}, {"reads": ["/a"]}),
        ("view", {"path": ["/a"]}, {}),
        ("create", {"path": "/a", "file_text": "x"}, {"writes": ["/a"]}),
        ("edit", {"path": "/a", "old_str": "x", "new_str": "y"}, {"writes": ["/a"]}),
        ("apply_patch", PATCH, {"writes": ["a.txt", "b.txt"]}),
        ("apply_patch", {"input": "*** Delete File: a.txt\r\n*** Move to: c.txt"}, {"writes": ["a.txt", "c.txt"]}),
        ("apply_patch", {"input": 5}, {}),
        ("bash", {"command": "ls", "description": "look"}, {"command": "ls"}),
        ("powershell", {"command": "dir"}, {"command": "dir"}),
        ("bash", {"command": ["ls"]}, {}),
        ("write_bash", {"input": "y", "shellId": "0"}, {}),
        ("grep", {"pattern": "x", "path": "/a"}, {}),
        ("skill", {"skill": "greet"}, {}),
    ],
)  # fmt: skip
def test_what_a_call_means(name: str, given: Any, meant: dict[str, Any]) -> None:
    """The same for what the model asks for, what the client runs and what a person runs by hand."""
    asked = {"toolCallId": "t1", "arguments": given}
    seen = {"name": name, "input": given, "call": "t1", **meant}
    assert told(message(toolRequests=[{"name": name, **asked}])) == [{"kind": "tool_request", **seen, **STEP}]
    assert told(event("tool.execution_start", toolName=name, **asked)) == [{"kind": "execution", **seen}]
    assert told(event("tool.execution_start", name=name, **asked)) == [{"kind": "execution", **seen}]
    assert told(event("tool.user_requested", toolName=name, **asked)) == [{"kind": "execution", **seen}]


def test_the_server_of_a_call_is_named_beside_it() -> None:
    """The flattened name cannot be split: both halves may hold hyphens."""
    asked = {"toolCallId": "t1", "name": "a-b-c", "arguments": {}, "mcpServerName": "a-b", "mcpToolName": "c"}
    seen = {"name": "a-b-c", "input": {}, "call": "t1", "server": "a-b"}
    assert told(message(toolRequests=[asked])) == [{"kind": "tool_request", **seen, **STEP}]
    assert told(event("tool.execution_start", **asked, toolName="a-b-c")) == [{"kind": "execution", **seen}]


SHELL = {"properties": {"customTimeout": "false"}, "metrics": {}}
GOOD = {"ok": True, "outcome": "ok"}
BAD = {"ok": False, "outcome": "error"}


def content(text: str) -> dict[str, Any]:
    return {"content": text, "detailedContent": "for the screen"}


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"success": True, "result": content("x")}, {**GOOD, "text": "x"}),
        ({"success": True, "result": "x", "durationMs": 25}, {**GOOD, "text": "x", "duration_ms": 25}),
        ({"success": True, "result": content("x"), "durationMs": -1}, {**GOOD, "text": "x"}),
        ({"success": True}, GOOD),
        ({"success": False, "error": {"message": "no", "code": "failure"}},
         {**BAD, "text": "no", "detail": {"code": "failure"}}),
        ({"success": False, "error": "no"}, {**BAD, "text": "no"}),
        ({"success": False, "result": content("x")}, {**BAD, "text": "x"}),
        ({"success": False, "error": {"message": "no", "code": "denied"}},
         {"ok": False, "outcome": "denied", "text": "no", "detail": {"code": "denied"}}),
        ({"success": False, "error": {"message": "no", "code": "rejected"}},
         {"ok": False, "outcome": "rejected", "text": "no", "detail": {"code": "rejected"}}),
        ({"success": False, "error": {"message": "cut", "code": "interrupted"}},
         {"ok": False, "outcome": "interrupted", "text": "cut", "detail": {"code": "interrupted"}}),
        ({"success": False, "status": "cancelled"}, {"ok": False, "outcome": "interrupted"}),
        ({"status": "cancelled"}, {"outcome": "interrupted"}),
        ({"success": "yes", "result": content("x")}, {"text": "x"}),
        ({}, {}),
    ],
)  # fmt: skip
def test_results(data: dict[str, Any], seen: dict[str, Any]) -> None:
    """What came back and how it ended, in the client's words; what it does not tell is not told."""
    assert told(event("tool.execution_complete", toolCallId="t1", **data)) == [
        {"kind": "tool_result", "call": "t1", **seen}
    ]


@pytest.mark.parametrize(
    ("text", "more", "code"),
    [
        ("out\n<shellId: 0 completed with exit code 3>", {"shellExecution": {"exitCode": 3}}, 3),
        ("out\n<shellId: 0 completed with exit code 9>", {"shellExecution": {"exitCode": 3}}, 3),
        ("out\n<shellId: name completed with exit code 3>\n", {"toolTelemetry": SHELL}, 3),
        ("out\n<exited with exit code 127>", {"toolTelemetry": SHELL}, 127),
        ("out\n<command with id: 4 exited with exit code 0>", {"toolTelemetry": SHELL}, 0),
        ("out\n<shellId: 0 completed with exit code 3>", {}, None),
        ("out\n<exited with exit code 3> or so", {"toolTelemetry": SHELL}, None),
        ("out, exit code 3>", {"toolTelemetry": SHELL}, None),
        ("<exited with exit code \u0663>", {"toolTelemetry": SHELL}, None),
        ("<exited with exit code 99999999999999999999>", {"toolTelemetry": SHELL}, None),
        ("", {"toolTelemetry": SHELL}, None),
        ("out", {"shellExecution": {"exitCode": True}, "toolTelemetry": SHELL}, None),
    ],
)
def test_the_exit_code_of_a_command(text: str, more: dict[str, Any], code: int | None) -> None:
    """As told, else as an older client wrote it below what the shell printed; a file that ends so has none."""
    (seen,) = told(event("tool.execution_complete", toolCallId="t1", success=True, result=content(text), **more))
    assert (seen.get("exit_code"), seen["outcome"]) == (code, "ok")


LINES = {"linesAdded": 1, "linesRemoved": 0}


@pytest.mark.parametrize(
    ("data", "wrote"),
    [
        ({"success": True, "fileEdits": [{"path": "/a", "kind": "edit"}, {"kind": "edit"}, "x"]}, ["/a"]),
        ({"success": True, "toolTelemetry": {"metrics": LINES, "restrictedProperties": {"filePaths": '["/a","/b"]'}}},
         ["/a", "/b"]),
        ({"success": True, "toolTelemetry": {"metrics": LINES, "properties": {"filePaths": '["/a"]'}}}, ["/a"]),
        ({"success": True, "toolTelemetry": {"metrics": LINES, "properties": {"filePaths": "[/a"}}}, None),
        ({"success": True, "toolTelemetry": {"metrics": LINES, "properties": {"filePaths": '{"a":1}'}}}, None),
        ({"success": True, "toolTelemetry": {"metrics": {}, "properties": {"filePaths": '["/a"]'}}}, None),
        ({"success": False, "fileEdits": [{"path": "/a"}]}, None),
    ],
)  # fmt: skip
def test_what_was_written(data: dict[str, Any], wrote: list[str] | None) -> None:
    """The paths that the client names, of tools that change files and did."""
    (seen,) = told(event("tool.execution_complete", toolCallId="t1", **data))
    assert seen.get("wrote") == wrote


def test_of_a_tools_telemetry_the_figures_are_kept() -> None:
    """What people ask for; no text of the file."""
    telemetry = {
        "properties": {"command": "edit", "codeBlocks": "[...]", "executionMode": "sync"},
        "metrics": {"linesAdded": 2, "context_token_limit": 128000.0},
        "restrictedProperties": {"filePaths": "[]", "agent_id": "a1"},
    }
    (seen,) = told(event("tool.execution_complete", toolCallId="t1", success=True, toolTelemetry=telemetry))
    assert seen["detail"] == {"agent_id": "a1", "executionMode": "sync", "linesAdded": 2}


REQUEST = {"kind": "shell", "toolCallId": "t1", "fullCommandText": "ls", "commands": [{"identifier": "ls"}]}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (event("permission.requested", requestId="p1", permissionRequest=REQUEST, permissionMode="manual"),
         {"decision": "requested", "call": "t1",
          "detail": {"kind": "shell", "fullCommandText": "ls", "permissionMode": "manual"}}),
        (event("permission.requested", toolCallId="t1"), {"decision": "requested", "call": "t1"}),
        (event("permission.completed", requestId="p1", toolCallId="t1", result={"kind": "approved"},
               decisionSource="human_response"), {"decision": "approved", "call": "t1", "origin": "human_response"}),
        (event("permission.completed", toolCallId="t1", result={"kind": "cancelled", "reason": "aborted"}),
         {"decision": "cancelled", "call": "t1", "detail": {"reason": "aborted"}}),
        (event("permission.denied", toolCallId="t1", status="denied"), {"decision": "denied", "call": "t1"}),
    ],
)  # fmt: skip
def test_permissions(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """Asked for and decided, in the client's words."""
    assert told(body) == [{"kind": "permission", **seen}]


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_a_message_costs_its_output() -> None:
    """Once, whatever the message holds; its input is told nowhere, which is no fault of the row."""
    body = message(
        content="a", reasoningText="hm", apiCallId="a1", requestId="r1", model="opus", outputTokens=7,
        toolRequests=[{"name": "glob"}],
    )  # fmt: skip
    usage = {"message": "a1", "request": "r1", "model": "opus", "output_tokens": 7, "final": True}
    assert [one.get("usage") for one in told(body)] == [usage, None, None]


def test_a_message_without_pieces_costs_all_the_same() -> None:
    """Its tokens have their own place."""
    usage = {"message": "m1", "output_tokens": 0, "final": True}
    assert told(message(outputTokens=0)) == [
        {"kind": "accounting", "family": "assistant.message", "usage": usage, **STEP}
    ]


def test_a_message_that_says_nothing_of_tokens_has_no_usage() -> None:
    """Newer versions tell of it in a row of its own: two tellings would be one too many."""
    assert [one.get("usage") for one in told(message(content="a", model="opus", apiCallId="a1"))] == [None]
    assert [one.get("usage") for one in told(message(content="a", usage={"cost": 1}))] == [None]


def test_a_message_may_tell_all_of_its_usage() -> None:
    """As an object; the input is freed of what a cache gave."""
    (seen,) = told(message(content="a", usage={"inputTokens": 100, "cacheReadTokens": 60, "outputTokens": 15}))
    assert seen["usage"] == {
        "message": "m1", "input_tokens": 40, "cache_read_tokens": 60, "output_tokens": 15, "final": True,
    }  # fmt: skip


RECORD = {
    "model": "opus", "inputTokens": 5000, "outputTokens": 70, "cacheReadTokens": 600, "cacheWriteTokens": 4100,
    "reasoningTokens": 25, "apiCallId": "a1", "providerCallId": "r1", "cost": 0.0, "duration": 20, "isByok": True,
    "accounting": {"sequence": 1, "usageId": "a1"}, "toolCounts": {"view": 1},
}  # fmt: skip


def test_a_record_of_usage_tells_all_of_one_call() -> None:
    """By the name that its message bears too; the client's other figures by its own names."""
    assert told({**event("session.usage_record", usage=RECORD), "agentId": "x"}) == [
        {
            "kind": "accounting",
            "family": "session.usage_record",
            "agent": "x",
            "step": "a1",
            "figures": {
                "providerCallId": "r1", "cost": 0.0, "duration": 20, "isByok": True, "accounting.sequence": 1,
                "accounting.usageId": "a1", "toolCounts.view": 1,
            },
            "usage": {
                "message": "a1", "request": "r1", "model": "opus", "input_tokens": 300, "output_tokens": 70,
                "cache_read_tokens": 600, "cache_write_tokens": 4100, "reasoning_tokens": 25, "final": True,
            },
        }
    ]  # fmt: skip


def cost(**said: Any) -> dict[str, Any]:
    (seen,) = told(event("session.usage_record", usage=said))
    usage: dict[str, Any] = seen["usage"]
    return usage


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ({"inputTokens": 10, "outputTokens": 3}, {"input_tokens": 10, "output_tokens": 3}),
        ({"inputTokens": 10, "cacheReadTokens": 8, "cacheWriteTokens": 5},
         {"input_tokens": 0, "cache_read_tokens": 8, "cache_write_tokens": 5}),
        ({"cacheReadTokens": 8}, {"cache_read_tokens": 8}),
        ({"inputTokens": None, "outputTokens": 3}, {"output_tokens": 3}),
        ({"inputTokens": "10", "outputTokens": -3}, {"unusable": ["inputTokens", "outputTokens"]}),
        ({"inputTokens": True, "outputTokens": 3.0}, {"unusable": ["inputTokens", "outputTokens"]}),
        ({"inputTokens": 2**63, "reasoningTokens": 1}, {"reasoning_tokens": 1, "unusable": ["inputTokens"]}),
        ({"inputTokens": 10, "cacheReadTokens": "8"}, {"input_tokens": 10, "unusable": ["cacheReadTokens"]}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_count_that_is_none_is_named_and_never_made_into_one(said: dict[str, Any], counts: dict[str, Any]) -> None:
    """Text, negative, fraction, truth; what is not told is no such thing."""
    assert cost(**said) == {**counts, "final": True}


def bill(**tokens: Any) -> dict[str, Any]:
    return {"tokenDetails": [{"tokenType": kind, "tokenCount": count} for kind, count in tokens.items()]}


@pytest.mark.parametrize(
    ("details", "counts"),
    [
        (bill(input=2, cache_read=300, cache_write=698, output=9), (2, 300, 698)),
        (bill(input=1, cache_read=300, cache_write=698), (700, 300, 0)),
        (bill(input=1000), (1000, 0, 0)),
        (bill(input=2, cache_read=300, cache_write="698"), (700, 300, 0)),
        ({"tokenDetails": []}, (700, 300, 0)),
        ({"tokenDetails": ["x"]}, (700, 300, 0)),
        (None, (700, 300, 0)),
    ],
)
def test_the_bill_knows_better_what_went_to_a_cache(details: Any, counts: tuple[int, int, int]) -> None:
    """Where it itemises all of the input; a bill that does not add up is left aside."""
    usage = cost(inputTokens=1000, outputTokens=9, cacheReadTokens=300, cacheWriteTokens=0, copilotUsage=details)
    assert (usage["input_tokens"], usage["cache_read_tokens"], usage["cache_write_tokens"]) == counts


def test_a_call_over_the_wire_tells_its_usage() -> None:
    """Of calls that make no message, by the names that the wire has for them."""
    body = event(
        "model.model_call_success", modelCall={"model": "opus", "api_id": "a1", "request_id": "r1"}, requestId="r1",
        modelCallDurationMs=7, requestMessages="[...]",
        responseUsage={
            "prompt_tokens": 6500, "completion_tokens": 80, "total_tokens": 6580,
            "prompt_tokens_details": {"cached_tokens": 5000, "cache_creation_tokens": 300},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    )  # fmt: skip
    usage = {
        "message": "a1", "request": "r1", "model": "opus", "input_tokens": 1200, "output_tokens": 80,
        "cache_read_tokens": 5000, "cache_write_tokens": 300, "reasoning_tokens": 3, "final": True,
    }  # fmt: skip
    assert told(body) == [
        {
            "kind": "accounting",
            "family": "model.model_call_success",
            "figures": {"modelCallDurationMs": 7},
            "usage": usage,
        }
    ]
    assert "usage" not in told(event("model.model_call_success", modelCall={"api_id": "a1"}))[0]


def test_a_checkpoint_tells_of_units_and_of_no_call() -> None:
    """A total of the session so far, in what the producer bills in."""
    body = event("session.usage_checkpoint", totalNanoAiu=75, totalPremiumRequests=0.33, modelCacheState=[])
    figures = {"totalNanoAiu": 75, "totalPremiumRequests": 0.33}
    usage = {"running": "session", "units": {"nano_aiu": 75, "premium_requests": 0.33}, "calls": 0, "final": True}
    seen = {"kind": "accounting", "family": "session.usage_checkpoint"}
    assert told(body) == [{**seen, "figures": figures, "usage": usage}]
    assert told(event("session.usage_checkpoint", totalNanoAiu="75")) == [{**seen, "figures": {"totalNanoAiu": "75"}}]


METRICS = {
    "requests": {"count": 4, "cost": 1},
    "usage": {"inputTokens": 18440, "outputTokens": 205, "cacheReadTokens": 12300, "cacheWriteTokens": 4880},
    "totalNanoAiu": 7,
}
TOTAL = {
    "running": "model:opus", "model": "opus", "calls": 4, "input_tokens": 1260, "output_tokens": 205,
    "cache_read_tokens": 12300, "cache_write_tokens": 4880, "final": True,
}  # fmt: skip


def test_the_end_of_a_session_accounts_for_it() -> None:
    """One total a model and one of the units, which are told of no model a second time."""
    body = event(
        "session.shutdown", shutdownType="routine", totalPremiumRequests=1, totalNanoAiu=7, totalApiDurationMs=49,
        codeChanges={"linesAdded": 1, "filesModified": ["/a"]}, modelMetrics={"opus": METRICS, "haiku": None},
        agentMetrics={"main": {"totalApiDurationMs": 49}}, accountingSnapshot={"totalUserRequests": 2},
        providerModelMetrics=[{}],
    )  # fmt: skip
    seen = {"kind": "accounting", "family": "session.shutdown"}
    assert told(body) == [
        {"kind": "session_end", "reason": "routine"},
        {
            **seen,
            "figures": {
                "requests.count": 4, "requests.cost": 1, "usage.inputTokens": 18440, "usage.outputTokens": 205,
                "usage.cacheReadTokens": 12300, "usage.cacheWriteTokens": 4880, "totalNanoAiu": 7,
            },
            "usage": TOTAL,
        },
        {**seen, "usage": {"running": "model:haiku", "model": "haiku", "final": True}},
        {
            **seen,
            "figures": {
                "totalNanoAiu": 7, "totalPremiumRequests": 1, "totalApiDurationMs": 49, "codeChanges.linesAdded": 1,
                "codeChanges.filesModified": ["/a"], "agentMetrics.main.totalApiDurationMs": 49,
                "totalUserRequests": 2,
            },
            "usage": {"running": "session", "units": {"nano_aiu": 7, "premium_requests": 1}, "calls": 0, "final": True},
        },
    ]  # fmt: skip


def test_an_account_may_stand_in_the_snapshot_alone() -> None:
    """Where the client writes the totals to restore them from."""
    body = event("session.shutdown", accountingSnapshot={"modelMetrics": {"opus": METRICS}})
    assert [one.get("usage") for one in told(body)] == [None, TOTAL, None]
    billed = {**METRICS, "tokenDetails": {"input": {"tokenCount": 40}, "cache_read": {"tokenCount": 18400}}}
    (_, seen, _) = told(event("session.shutdown", modelMetrics={"opus": billed}))
    assert seen["usage"] == {**TOTAL, "input_tokens": 40, "cache_read_tokens": 18400, "cache_write_tokens": 0}


def test_a_session_that_crashed_says_why() -> None:
    """Beside its end."""
    assert [one["kind"] for one in told(event("session.shutdown", shutdownType="error", errorReason="out of it"))] == [
        "session_end", "accounting", "failure",
    ]  # fmt: skip


# --- the session ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (event("session.start", sessionId="s1", copilotVersion="1.0.102"),
         [{"kind": "session_start", "source": "start", "thread": "s1"}]),
        (event("session.start", sessionId="s1", selectedModel="opus", reasoningEffort="high"),
         [{"kind": "session_start", "source": "start", "thread": "s1"},
          {"kind": "setting", "model": "opus", "effort": "high"}]),
        (event("session.resume", eventCount=5, selectedModel="opus", eventsFileSizeBytes=900),
         [{"kind": "session_start", "source": "resume"}, {"kind": "setting", "model": "opus"}]),
        (event("session.resume", sessionId="s1", eventCount=5),
         [{"kind": "session_start", "source": "resume", "thread": "s1", "resets": True}]),
        (event("session.model_change", newModel="opus", previousModel="haiku", reasoningEffort="low", source="startup"),
         [{"kind": "setting", "model": "opus", "effort": "low",
           "value": {"previousModel": "haiku", "source": "startup"}}]),
        (event("session.mode_changed", newMode="plan", previousMode="interactive"),
         [{"kind": "setting", "value": {"newMode": "plan", "previousMode": "interactive"}}]),
        (event("session.permissions_changed", allowAllPermissions=True, previousAllowAllPermissions=False),
         [{"kind": "setting", "value": {"allowAllPermissions": True}}]),
        ({**event("subagent.configured", model="opus", reasoningEffort="low", multiTurn=True), "agentId": "x"},
         [{"kind": "setting", "model": "opus", "effort": "low", "value": {"multiTurn": True}, "agent": "x"}]),
        (event("session.error", errorType="query", message="504", statusCode=504, stack="at"),
         [{"kind": "failure", "text": "504", "status": 504}]),
        (event("session.error", message="no", statusCode="504"), [{"kind": "failure", "text": "no"}]),
        (event("skill.invoked", name="greet", path="/s", trigger="agent-invoked"),
         [{"kind": "skill", "name": "greet", "stage": "invoked"}]),
        (event("skill.invoked", name="greet", content="# greet"),
         [{"kind": "skill", "name": "greet", "stage": "invoked"},
          {"kind": "injected", "text": "# greet", "source": "skill"}]),
        (event("session.truncation", performedBy="BasicTruncator", preTruncationTokensInMessages=900),
         [{"kind": "compaction", "trigger": "BasicTruncator", "before_tokens": 900, "micro": True},
          {"kind": "accounting", "family": "session.truncation",
           "figures": {"performedBy": "BasicTruncator", "preTruncationTokensInMessages": 900}}]),
    ],
)  # fmt: skip
def test_what_becomes_of_the_session(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """Beginnings, settings, failures, skills."""
    assert told(body) == seen


SPENT = {"model": "opus", "inputTokens": 6500, "outputTokens": 80, "cacheReadTokens": 5000, "cacheWriteTokens": 300}


def test_a_compaction_is_told_with_its_cost_and_its_summary() -> None:
    """Three parts of one row; figures by the client's names, no text among them."""
    body = event(
        "session.compaction_complete", success=True, trigger="manual", preCompactionTokens=900, postCompactionTokens=90,
        compactionTokensUsed=SPENT, requestId="r1", summaryContent="what was said", checkpointPath="/c",
    )  # fmt: skip
    usage = {
        "request": "r1", "model": "opus", "input_tokens": 1200, "output_tokens": 80, "cache_read_tokens": 5000,
        "cache_write_tokens": 300, "final": True,
    }  # fmt: skip
    figures = {f"compactionTokensUsed.{key}": value for key, value in SPENT.items()}
    assert told(body) == [
        {"kind": "compaction", "trigger": "manual", "before_tokens": 900, "usage": usage},
        {
            "kind": "accounting",
            "family": "session.compaction_complete",
            "figures": {
                "success": True, "trigger": "manual", "preCompactionTokens": 900, "postCompactionTokens": 90, **figures,
            },
        },
        {"kind": "injected", "text": "what was said", "source": "compact-summary"},
    ]  # fmt: skip


def test_a_compaction_without_a_request_leaves_its_cost_to_the_call() -> None:
    """Nothing would tell it from the row of the call itself: it would count twice."""
    (seen, _) = told(event("session.compaction_complete", success=True, compactionTokensUsed=SPENT))
    assert seen == {"kind": "compaction"}


def test_a_compaction_that_failed_is_a_failure() -> None:
    """The conversation is as long as before, and the call was paid for."""
    body = event("session.compaction_complete", success=False, error="no", compactionTokensUsed=SPENT, requestId="r1")
    (seen, _) = told(body)
    assert (seen["kind"], seen["text"], seen["usage"]["output_tokens"]) == ("failure", "no", 80)


STARTED = {"toolCallId": "t1", "agentName": "helper", "agentDisplayName": "one", "agentDescription": "Look around"}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({**event("subagent.started", **STARTED, model="opus", agentType="explore"), "agentId": "x"},
         [{"kind": "subagent_start", "spawned": "x", "call": "t1", "agent_type": "explore",
           "description": "Look around", "model": "opus"}]),
        (event("subagent.started", **STARTED),
         [{"kind": "subagent_start", "spawned": "t1", "call": "t1", "agent_type": "helper",
           "description": "Look around"}]),
        (event("subagent.started", agentName="helper"), [{"kind": "unmodelled", "family": "subagent.started"}]),
        ({**event("subagent.completed", toolCallId="t1", totalTokens=9, durationMs=5), "agentId": "x"},
         [{"kind": "subagent_stop", "spawned": "x", "status": "completed", "agent": "x"},
          {"kind": "accounting", "family": "subagent.completed", "figures": {"totalTokens": 9, "durationMs": 5},
           "agent": "x"}]),
        ({**event("subagent.completed", toolCallId="t1", cancelled=True), "agentId": "x"},
         [{"kind": "subagent_stop", "spawned": "x", "status": "cancelled", "agent": "x"}]),
        (event("subagent.failed", toolCallId="t1", error="no"),
         [{"kind": "subagent_stop", "spawned": "t1", "status": "failed", "agent": "t1"},
          {"kind": "failure", "text": "no", "agent": "t1"}]),
        (event("subagent.completed"), [{"kind": "unmodelled", "family": "subagent.completed"}]),
    ],
)  # fmt: skip
def test_subagents(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """By their own id and by the call that started them; a start is no row of the subagent's own."""
    assert told(body) == seen


def test_a_long_description_is_cut() -> None:
    """Some are the whole instructions of an agent."""
    (seen,) = told(event("subagent.started", toolCallId="t1", agentDescription="x" * 900))
    assert seen["description"] == "x" * 200


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"success": True}, {"outcome": "ok"}),
        ({"success": True, "output": {}}, {"outcome": "ok"}),
        ({"success": False, "error": {"message": "no", "source": "repo settings"}},
         {"outcome": "error", "name": "repo settings", "text": "no"}),
        ({"success": True, "output": {"permissionDecision": "deny", "permissionDecisionReason": "no"}},
         {"outcome": "blocked", "text": "no"}),
        ({"success": True, "output": {"decision": "block", "reason": "no"}}, {"outcome": "blocked", "text": "no"}),
        ({"success": "yes"}, {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_hook_ran_when_it_ended(data: dict[str, Any], seen: dict[str, Any]) -> None:
    """One run a hook, told by its end."""
    body = event("hook.end", hookInvocationId="h1", hookType="preToolUse", **data)
    assert told(body) == [{"kind": "hook_run", "event": "preToolUse", **seen}]


HOOK = {"hookInvocationId": "h1", "hookType": "preToolUse"}


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({"toolCalls": [{"id": "t1", "name": "bash"}, {"id": "t2"}]}, ["t1", "t2"]),
        ({"toolCallId": "t1", "serverName": "demo"}, ["t1"]),
        ({"prompt": "hi"}, [None]),
        ({"toolCalls": "x"}, [None]),
        ({"toolCalls": ["x"]}, [None]),
        (None, [None]),
    ],
)
def test_the_start_of_a_hook_says_which_calls_it_is_about(given: Any, calls: list[str | None]) -> None:
    """It makes no run of its own, and nothing of what it was handed."""
    seen = {"kind": "set_aside", "family": "hook.start", "value": {"hookType": "preToolUse", "hookInvocationId": "h1"}}
    assert told(event("hook.start", **HOOK, input=given)) == [
        seen if call is None else {**seen, "call": call} for call in calls
    ]


# --- what is laid aside -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "data", "value"),
    [
        ("assistant.turn_start", {"turnId": "0"}, None),
        ("assistant.turn_end", {"turnId": "0"}, None),
        ("model.message", {"message": {"content": "secret"}}, None),
        ("model.messages_snapshot", {"messages": [{"content": "secret"}]}, None),
        ("model.model_call_started", {"model": "opus"}, None),
        ("model.response", {"response": {"content": "secret"}}, None),
        ("model.turn_started", {"turn": 0}, None),
        ("model.turn_ended", {"turn": 0}, None),
        ("session.binary_asset", {"assetId": "sha256:1", "data": "c2VjcmV0"}, {"assetId": "sha256:1"}),
        ("session.compaction_start", {"trigger": "manual", "systemTokens": 5}, {"trigger": "manual"}),
        ("session.context_changed", {"cwd": "/demo", "repository": "x"}, {"cwd": "/demo"}),
        ("session.info", {"infoType": "mcp", "message": "connected"}, {"infoType": "mcp", "message": "connected"}),
        ("session.plan_changed", {"operation": "create"}, "create"),
        ("session.task_complete", {"success": True, "summary": "done"}, {"success": True, "summary": "done"}),
        ("session.warning", {"warningType": "x", "message": "y"}, {"warningType": "x", "message": "y"}),
        ("session.workspace_file_changed", {"operation": "create", "path": "a"}, {"operation": "create", "path": "a"}),
        ("skill.context_delivered_ref", {"source": "skill-a", "contentId": "sha256:1", "prefix": "<"},
         {"source": "skill-a", "contentId": "sha256:1"}),
    ],
)  # fmt: skip
def test_rows_that_make_no_node(family: str, data: dict[str, Any], value: Any) -> None:
    """Known, and laid aside with what is short and telling."""
    expected = {"kind": "set_aside", "family": family, **({} if value is None else {"value": value})}
    assert told(event(family, **data)) == [expected]


@pytest.mark.parametrize(
    ("body", "family"),
    [
        ({"type": "brand.new", "data": {"a": 1}}, "brand.new"),
        ({"type": "brand.new"}, "brand.new"),
        ({"role": "user", "content": "another's"}, "<object>"),
        ({"type": ["user.message"], "data": {}}, "<object>"),
        ({"type": "user.message", "prompt": "another's"}, "user.message"),
        ({"type": "user.message", "data": "hi"}, "user.message"),
        (user(5), "user.message"),
        (event("assistant.message"), "assistant.message"),
        (event("assistant.message", content=5, toolRequests="x"), "assistant.message"),
        (event("assistant.reasoning", content=5), "assistant.reasoning"),
        (event("tool.execution_start", toolCallId="t1"), "tool.execution_start"),
        (event("system.message", role="system"), "system.message"),
        (event("system.notification", kind={}), "system.notification"),
        (event("session.usage_record", usage=5), "session.usage_record"),
        (event("session.error", errorType="query"), "session.error"),
        (event("session.model_change", newModel=5), "session.model_change"),
        (event("skill.invoked", path="/s"), "skill.invoked"),
        (event("hook.end", success=True), "hook.end"),
        (event("permission.completed", result={"approval": {"kind": "mcp"}}), "permission.completed"),
    ],
)
def test_what_says_nothing_to_us_is_carried_by_name(body: dict[str, Any], family: str) -> None:
    """No node is invented for it."""
    (seen,) = observe({**COMMON, **body})
    assert (type(seen), getattr(seen, "family", None)) == (Unmodelled, family)


# --- side files -------------------------------------------------------------------------------------------------------


def beside(native_id: str, raw: bytes = b"") -> list[dict[str, Any]]:
    file = SideFile(ref=Ref("files/0001", 1, 0), native_id=native_id, stream=None, raw=raw)
    return [plain(msgspec.to_builtins(one)) for one in PARSER.observe(file)]


@pytest.mark.parametrize(
    ("yaml", "titles"),
    [
        (b"id: s1\nname: Tidy up\nuser_named: false\n", [("name", "Tidy up")]),
        (b"name: Tidy up\r\nuser_named: true\r\n", [("custom", "Tidy up")]),
        (b"name: '[a] it''s done'\n", [("name", "[a] it's done")]),
        (b'name: "two\\nlines"\n', [("name", "two\nlines")]),
        (b"summary: |-\n  first\n    deeper\n\n  last\nname: x\n",
         [("summary", "first\n  deeper\n\nlast"), ("name", "x")]),
        (b"summary: >-\n  one\n  two\n\n  three\nother: y\n", [("summary", "one two\nthree")]),
        (b"summary: |-\n", []),
        (b"name: 'cut\n", []),
        (b'name: "cut\n', []),
        (b"name: [a]\nsummary: {}\n", []),
        (b"name:\n", []),
        (b"  name: inner\nname_of: x\n", []),
        (b"name: caf\xc3\xa9 \xff\n", [("name", "caf\u00e9 \ufffd")]),
        (b"", []),
    ],
)  # fmt: skip
def test_what_a_session_is_called(yaml: bytes, titles: list[tuple[str, str]]) -> None:
    """By the file that describes its workspace; what is no plain text there is no title."""
    seen = [{"kind": "title", "text": text, "source": source} for source, text in titles]
    assert beside("workspace.yaml", yaml) == (seen or [{"kind": "set_aside", "family": "workspace"}])


@pytest.mark.parametrize(
    ("native_id", "family"),
    [
        ("checkpoints/index.md", "checkpoint"),
        ("checkpoints/001-tidy.md", "checkpoint"),
        ("plan.md", "plan"),
        ("files/a/b.json", "session-file"),
        ("research/workspace.yaml", "session-file"),
        ("rewind-file-snapshots/index.json", "file-snapshot"),
        ("rewind-file-snapshots/backups/9a", "file-snapshot"),
        ("vscode.metadata.json", "side-file"),
        ("checkpoints", "side-file"),
    ],
)
def test_other_side_files_are_set_aside(native_id: str, family: str) -> None:
    """Whatever is in them."""
    assert beside(native_id, b"\xff{") == [{"kind": "set_aside", "family": family}]


# --- hook payloads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "argv", "family"),
    [
        (b'{"sessionId":"s1"}', ("hook", "preToolUse"), "preToolUse"),
        (b'{"hook_event_name":"Stop"}', ("hook", "agentStop"), "Stop"),
        (b'{"sessionId":"s1"}', (), "<object>"),
    ],
)
def test_payloads_are_carried_under_the_name_of_their_event(raw: bytes, argv: tuple[str, ...], family: str) -> None:
    """Most payloads do not name it: then it is the one that the hook was registered for."""
    (seen,) = PARSER.observe(Payload(ref=Ref("hooks", 1, 1), n=1, harness="copilot", argv=argv, raw=raw))
    assert (type(seen), getattr(seen, "family", None)) == (Unmodelled, family)


# --- silence ----------------------------------------------------------------------------------------------------------

SILENT = (Unmodelled, Unreadable, Mended, SetAside)


@pytest.mark.parametrize("family", sorted(PARSER.rows))
@pytest.mark.parametrize("data", [None, [], "x", 5])
def test_a_row_without_data_makes_no_node(family: str, data: Any) -> None:
    """Whatever stands in its place."""
    assert all(isinstance(one, SILENT) for one in observe({"type": family, "data": data, **COMMON}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([
    "accountingSnapshot", "apiCallId", "attachments", "compactionTokensUsed", "content", "error", "fileEdits", "input",
    "kind", "messageId", "modelMetrics", "outputTokens", "reasoningText", "requestId", "result", "shellExecution",
    "success", "toolRequests", "toolTelemetry", "usage",
])  # fmt: skip


@given(st.sampled_from(sorted(PARSER.rows)), st.dictionaries(KEYS, JSON, max_size=6))
def test_no_row_is_a_surprise(family: str, data: dict[str, Any]) -> None:
    """Known families with anything inside: something is said, nothing raised, no more than the row holds."""
    seen = observe({"type": family, "data": data, **COMMON})
    assert seen
    assert [one.part for one in seen] == list(range(len(seen)))
    assert not any(isinstance(one, Unreadable) for one in seen)
