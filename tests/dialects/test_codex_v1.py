"""Codex, parser version 1: one row in, exact observations out; and what must not come out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from forensic.dialects.registry import parser
from forensic.model import (
    FOLDED,
    Keeper,
    Observation,
    Payload,
    Ref,
    Row,
    SetAside,
    ToolRequest,
    ToolResult,
    Unmodelled,
    Unreadable,
)

PARSER = parser("codex", 1)
AT = datetime(2026, 3, 1, 10, 0, 0, 250000, tzinfo=UTC)
STAMP = "2026-03-01T10:00:00.250Z"


def observe(body: dict[str, Any], agent: str | None = None, keep: Keeper = FOLDED) -> list[Observation]:
    raw = json.dumps(body, ensure_ascii=False).encode()
    return PARSER.observe(Row(ref=Ref("main", 1, 0), line=1, raw=raw, agent=agent), keep)


def plain(value: Any) -> Any:
    """Texts as their preview; provenance left out, which has tests of its own."""
    if isinstance(value, dict):
        if value.keys() == {"chars", "sha256", "preview"}:
            return value["preview"]
        return {key: plain(item) for key, item in value.items() if key not in ("at", "part", "ref")}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def told(body: dict[str, Any], agent: str | None = None) -> list[dict[str, Any]]:
    return [plain(msgspec.to_builtins(one)) for one in observe({"timestamp": STAMP, **body}, agent)]


def item(kind: str, /, **more: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind, **more}}


def event(kind: str, /, **more: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind, **more}}


def completed(kind: str, around: dict[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    return event("item_completed", item={"type": kind, **more}, **(around or {}))


def message(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return item("message", role=role, content=list(content), **more)


def said(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def answered(output: Any) -> dict[str, Any]:
    return item("function_call_output", call_id="c1", output=output)


# --- provenance -------------------------------------------------------------------------------------------------------

ANSWER = {"type": "output_text", "text": "a"}
STAMPED = {"internal_chat_message_metadata_passthrough": {"turn_id": "t1"}}


def test_every_observation_says_where_and_when() -> None:
    """Time and number of the row, its turn, the item's id within the turn; parts are counted."""
    body = {**message("developer", said("<tools>\n</tools>"), said("b"), id="m1", **STAMPED), "ordinal": 7}
    first, second = observe({"timestamp": STAMP, **body})
    for part, seen in enumerate((first, second)):
        assert (seen.ref, seen.part, seen.at, seen.ordinal) == (Ref("main", 1, 0), part, AT, 7)
        assert (seen.id, seen.turn, seen.step, seen.agent, seen.via) == ("t1/m1", "t1", None, None, None)


def test_whose_row_it_is_says_the_recording() -> None:
    """Rows do not name their thread: all that stands in a spawned thread's file is that thread's."""
    rows = (
        message("assistant", ANSWER),
        event("agent_message", message="a"),
        event("task_started", turn_id="t1"),
        {"type": "turn_context", "payload": {"model": "m"}},
        {"type": "session_meta", "payload": {"id": "child", "base_instructions": {"text": "x"}}},
        {"type": "token_usage_record", "payload": {"usage": {}}},
        completed("CommandExecution", id="exec-1", status="completed"),
    )
    assert {seen.agent for body in rows for seen in observe(body, "child")} == {"child"}
    assert {seen.agent for body in rows for seen in observe(body)} == {None}


@pytest.mark.parametrize(
    ("payload", "turn", "own"),
    [
        ({"id": "m1", "turn_id": "t1"}, "t1", "t1/m1"),
        ({"id": "m1"}, None, "m1"),
        ({"id": "", "turn_id": "t1"}, "t1", None),
        ({"id": None, **STAMPED}, "t1", None),
        ({"id": 7, "turn_id": 7}, None, None),
    ],
)
def test_ids_that_are_none_are_not_guessed(payload: dict[str, Any], turn: str | None, own: str | None) -> None:
    """An id counts within its turn, for a server may give out the same ones again in the next."""
    (seen,) = observe(message("assistant", ANSWER, **payload))
    assert (seen.turn, seen.id) == (turn, own)


@pytest.mark.parametrize("stamp", ["yesterday", 5, "2026-03-01T10:00:00", None])
def test_a_time_without_a_zone_is_none(stamp: Any) -> None:
    """Never a guess, and no ordinal that is not a whole number."""
    (seen,) = observe({**message("assistant", ANSWER), "timestamp": stamp, "ordinal": "7"})
    assert (seen.at, seen.ordinal) == (None, None)


# --- how a session begins ---------------------------------------------------------------------------------------------

SPAWN = {"subagent": {"thread_spawn": {"parent_thread_id": "p1", "agent_nickname": "Ada", "agent_role": None}}}


def meta(**payload: Any) -> dict[str, Any]:
    return {"type": "session_meta", "payload": payload}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"id": "s1", "timestamp": STAMP, "instructions": None, "git": {}}, [{"thread": "s1"}]),
        (meta(id="s1", source="cli"), [{"source": "cli", "thread": "s1"}]),
        (meta(id="s1", source=SPAWN), [{"source": "subagent", "thread": "s1", "parent": "p1"}]),
        (meta(id="s1", source={}, parent_thread_id="p2"), [{"thread": "s1", "parent": "p2"}]),
        (meta(id="s1", forked_from_id="f1"), [{"thread": "s1", "forked_from": "f1"}]),
        (meta(id="s1", history_mode="legacy"), [{"thread": "s1"}]),
        (meta(id="s1", history_mode="paginated"), [{"thread": "s1", "own_from": 0}]),
        (meta(id="s1", history_mode="paginated", parent_thread_id="p1"),
         [{"thread": "s1", "parent": "p1", "own_from": 0}]),
        (meta(id="s1", history_mode="paginated", forked_from_id="f1"), [{"thread": "s1", "forked_from": "f1"}]),
        (meta(id="s1", history_mode="paginated", history_base={}), [{"thread": "s1"}]),
        (meta(id="s1", history_mode="paginated", history_base={"end_ordinal_exclusive": 9}),
         [{"thread": "s1", "own_from": 9}]),
        (meta(id="s1", forked_from_id="f1", forked_from_ordinal_exclusive=4),
         [{"thread": "s1", "forked_from": "f1", "own_from": 4}]),
        (meta(id="s1", forked_from_id="f1", subagent_history_start_ordinal=3, forked_from_ordinal_exclusive=4),
         [{"thread": "s1", "forked_from": "f1", "own_from": 3}]),
        (meta(id="s1", subagent_history_start_ordinal=-1), [{"thread": "s1"}]),
        (meta(), [{}]),
    ],
)  # fmt: skip
def test_what_began(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """Its id, whose child it is, whose history it took along and where that ends, as far as the row says."""
    assert told(body) == [{"kind": "session_start", **one} for one in seen]


@pytest.mark.parametrize(
    "body",
    [
        {"id": "s1", "timestamp": STAMP, "git": {}},
        {"id": 1, "timestamp": STAMP, "instructions": None},
    ],
)
def test_a_row_without_a_type_that_is_no_header_begins_no_session(body: dict[str, Any]) -> None:
    """A header has three keys, and its session is sniffed and its usage found by all of them: fewer are none."""
    assert told(body) == [{"kind": "unmodelled", "family": "<object>"}]


@pytest.mark.parametrize(
    ("payload", "start"),
    [
        ({"source": SPAWN}, {"agent_type": "Ada"}),
        ({"agent_role": "reader", "agent_nickname": "Ada"}, {"agent_type": "reader", "description": "Ada"}),
        ({"agent_path": "/root/ada", "agent_nickname": "Ada"}, {"agent_type": "Ada", "description": "/root/ada"}),
        ({"model": "small"}, {"model": "small"}),
    ],
)
def test_a_spawned_thread_says_what_it_is(payload: dict[str, Any], start: dict[str, Any]) -> None:
    """Only in its own file, and only of itself."""
    row = meta(id="s1", **payload)
    kinds = [one["kind"] for one in told(row)]
    assert kinds == ["session_start"]
    assert told(row, "s2")[1:] == []
    assert told(row, "s1")[1:] == [{"kind": "subagent_start", "agent": "s1", "spawned": "s1", **start}]


@pytest.mark.parametrize(
    ("payload", "texts"),
    [
        ({"base_instructions": {"text": "be brief"}}, ["be brief"]),
        ({"base_instructions": "be brief"}, ["be brief"]),
        ({"instructions": "be kind"}, ["be kind"]),
        ({"base_instructions": {"text": "be brief"}, "instructions": "be kind"}, ["be brief", "be kind"]),
        ({"base_instructions": None, "instructions": ""}, []),
        ({"base_instructions": {"text": 7}}, []),
    ],
)
def test_the_instructions_at_the_beginning(payload: dict[str, Any], texts: list[str]) -> None:
    """Those of the client, in old versions those of the person, too."""
    assert told(meta(id="s1", **payload))[1:] == [{"kind": "system_prompt", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"type": "turn_context", "payload": {"turn_id": "t1", "model": "m", "effort": "high", "summary": "auto"}},
         {"turn": "t1", "model": "m", "effort": "high"}),
        ({"type": "turn_context", "payload": {"model": "m", "approval_policy": "never", "cwd": "/demo",
                                              "sandbox_policy": {"mode": "read-only"}}},
         {"model": "m", "value": {"approval_policy": "never", "cwd": "/demo", "sandbox": "read-only"}}),
        ({"type": "turn_context", "payload": {"sandbox_policy": {"type": "disabled"}, "personality": None}},
         {"value": {"sandbox": "disabled"}}),
        ({"type": "turn_context", "payload": {"collaboration_mode": {
            "mode": "plan", "settings": {"model": "m", "reasoning_effort": "low"}}}},
         {"model": "m", "effort": "low", "value": {"mode": "plan"}}),
        (event("thread_settings_applied", thread_settings={"model": "m", "reasoning_effort": "low",
                                                           "service_tier": "fast"}),
         {"model": "m", "effort": "low", "value": {"service_tier": "fast"}}),
        (event("thread_settings_applied"), {}),
    ],
)  # fmt: skip
def test_what_is_in_force(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """Model, effort, and what it may do; no texts."""
    assert told(body) == [{"kind": "setting", **seen}]


# --- messages ---------------------------------------------------------------------------------------------------------

IDE = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nfix it\n"


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ([said("hi")], [{"kind": "prompt", "text": "hi"}]),
        ([said("a"), said("b")], [{"kind": "prompt", "text": "ab"}]),
        ([said("see"), {"type": "input_image", "image_url": "data:"}],
         [{"kind": "prompt", "text": "see", "images": 1}]),
        ([said("<image name=[Image #1]>"), {"type": "input_image"}, said("</image>"), said("see")],
         [{"kind": "prompt", "text": "see", "images": 1}]),
        ([said("<image name=x>")], [{"kind": "prompt", "text": "<image name=x>"}]),
        ([{"type": "input_image"}], [{"kind": "prompt", "text": "", "images": 1}]),
        ([said(" \n")], [{"kind": "injected", "text": " \n", "source": "empty"}]),
        ([said(IDE)], [{"kind": "prompt", "text": "fix it", "source": "ide"},
                       {"kind": "injected", "text": "# Context from my IDE setup:\n\n## Active file: a.py",
                        "source": "ide"}]),
        ([said("## My request for Codex:\nfix it")], [{"kind": "prompt", "text": "fix it", "source": "ide"}]),
        ([said("# Context from my IDE setup:\nnothing")],
         [{"kind": "prompt", "text": "# Context from my IDE setup:\nnothing"}]),
        ([said("quote ## My request for Codex: end")],
         [{"kind": "prompt", "text": "quote ## My request for Codex: end"}]),
        ([said("<environment_context>\n</environment_context>")],
         [{"kind": "injected", "text": "<environment_context>\n</environment_context>", "source": "environment"}]),
        ([said("<environment_context> is what?")], [{"kind": "prompt", "text": "<environment_context> is what?"}]),
        ([said("<div></div>")], [{"kind": "prompt", "text": "<div></div>"}]),
        ([said("<turn_aborted>\nx\n</turn_aborted>")],
         [{"kind": "injected", "text": "<turn_aborted>\nx\n</turn_aborted>", "source": "interrupt"}]),
        ([said("# AGENTS.md instructions for /demo\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"), said("hi")],
         [{"kind": "injected", "source": "agents-md",
           "text": "# AGENTS.md instructions for /demo\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"},
          {"kind": "prompt", "text": "hi"}]),
        ([said("<user_instructions>x</user_instructions>")],
         [{"kind": "injected", "text": "<user_instructions>x</user_instructions>", "source": "agents-md"}]),
        ([said("<user_shell_command>ls</user_shell_command>")],
         [{"kind": "injected", "text": "<user_shell_command>ls</user_shell_command>", "source": "shell"}]),
        ([said('<hook_prompt hook_run_id="h1">go on</hook_prompt>')],
         [{"kind": "injected", "text": '<hook_prompt hook_run_id="h1">go on</hook_prompt>', "source": "hook"}]),
        ([said("<skill>\n<name>greet</name>\n</skill>")],
         [{"kind": "injected", "text": "<skill>\n<name>greet</name>\n</skill>", "source": "skill"},
          {"kind": "skill", "name": "greet", "stage": "loaded"}]),
        ([said("<skill>nameless</skill>")],
         [{"kind": "injected", "text": "<skill>nameless</skill>", "source": "skill"}]),
        ([{"type": "input_audio"}, said("hi")],
         [{"kind": "unmodelled", "family": "block/input_audio"}, {"kind": "prompt", "text": "hi"}]),
        (["bare"], [{"kind": "unmodelled", "family": "block/<scalar>"}]),
        ([{"type": "input_text", "text": None}], [{"kind": "unmodelled", "family": "block/input_text"}]),
        ([], [{"kind": "unmodelled", "family": "response_item/message"}]),
    ],
)  # fmt: skip
def test_the_user_role(content: list[Any], seen: list[dict[str, Any]]) -> None:
    """What a person wrote is a prompt; what the client wrote is told by the tag that it closes."""
    assert told(message("user", *content)) == seen


def test_in_a_spawned_thread_no_person_asks() -> None:
    """What stands in the user's role there is what the thread that spawned it said."""
    (seen,) = told(message("user", said("count the files")), "child")
    assert seen == {"kind": "injected", "agent": "child", "text": "count the files", "source": "task"}
    (seen,) = told(event("user_message", message="count the files"), "child")
    assert seen == {
        "kind": "injected", "agent": "child", "via": "event", "text": "count the files", "source": "task",
    }  # fmt: skip


def kinds(*told: Any, provenance: tuple[str, ...] = ()) -> dict[str, Any]:
    inside: dict[str, Any] = {"content_item_kinds": list(told)}
    if provenance:
        inside["content_item_metadata"] = [{"provenance": {"type": one}} for one in provenance]
    return {"internal_chat_message_metadata_passthrough": inside}


@pytest.mark.parametrize(
    ("more", "sources"),
    [
        (kinds("user.text", "user.text"), [None]),
        (kinds("agents_md.instructions", "environments.environment_context"), ["agents-md", "environment"]),
        (kinds("generic.turn_aborted", "multi_agent.subagent_notification"), ["interrupt", "subagent-notification"]),
        (kinds("weather.report", "user.text"), ["weather.report", None]),
        (kinds("unknown"), [None]),
        (kinds(), [None]),
        (kinds(provenance=("harness", "user")), ["harness", None]),
        (kinds("user.text", provenance=("harness", "harness")), ["harness", None]),
    ],
)
def test_newer_versions_say_what_the_parts_are(more: dict[str, Any], sources: list[str | None]) -> None:
    """Their word for a part counts before its text; a word that nobody knows is the source itself."""
    assert [one.get("source") for one in told(message("user", said("a"), said("b"), **more))] == sources


@pytest.mark.parametrize(
    ("role", "content", "more", "seen"),
    [
        ("developer", said("x"), {}, {"kind": "injected", "text": "x", "source": "developer"}),
        ("system", said("x"), {}, {"kind": "injected", "text": "x", "source": "system"}),
        ("developer", said("<permissions instructions>\nx</permissions instructions>"), {},
         {"kind": "injected", "text": "<permissions instructions>\nx</permissions instructions>",
          "source": "permissions"}),
        ("developer", said("x"), kinds("host_skills.instructions"),
         {"kind": "injected", "text": "x", "source": "skills"}),
        ("developer", said("x"), kinds("model.base_instructions"), {"kind": "system_prompt", "text": "x"}),
        ("assistant", ANSWER, {}, {"kind": "response", "text": "a"}),
        ("assistant", {"type": "refusal", "refusal": "no"}, {}, {"kind": "response", "text": "no"}),
        ("assistant", {"type": "reasoning", "text": "hm"}, {}, {"kind": "unmodelled", "family": "block/reasoning"}),
        ("function", said("x"), {}, {"kind": "unmodelled", "family": "response_item/message"}),
    ],
)  # fmt: skip
def test_the_other_roles(role: str, content: dict[str, Any], more: dict[str, Any], seen: dict[str, Any]) -> None:
    """Instructions one by one, the model's answer as a whole; a role that nobody knows is carried."""
    assert told(message(role, content, **more)) == [seen]


def test_an_answer_is_one_however_many_blocks_it_has() -> None:
    """As the event that tells it again has it; a plain text will do, too."""
    assert told(message("assistant", ANSWER, ANSWER)) == [{"kind": "response", "text": "aa"}]
    assert told(item("message", role="assistant", content="plain")) == [{"kind": "response", "text": "plain"}]
    assert told(item("message", role="assistant", content=None)) == [
        {"kind": "unmodelled", "family": "response_item/message"}
    ]


@pytest.mark.parametrize(
    ("payload", "seen"),
    [
        ({"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
          "encrypted_content": "xyz"},
         [{"kind": "thought", "text": "a", "signature_chars": 3}, {"kind": "thought", "text": "b"}]),
        ({"summary": [], "content": None, "encrypted_content": "xyz"},
         [{"kind": "thought", "opaque": True, "signature_chars": 3}]),
        ({"summary": [], "content": [{"type": "reasoning_text", "text": "raw"}], "encrypted_content": None},
         [{"kind": "thought", "text": "raw"}]),
        ({"summary": [], "content": None}, [{"kind": "set_aside", "family": "response_item/reasoning"}]),
    ],
)  # fmt: skip
def test_thoughts(payload: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """One a text; an opaque one only when nothing else is left of it."""
    assert told(item("reasoning", **payload)) == seen


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (item("agent_message", author="/root", recipient="/root/a", content=[
            said("Task:\n"), {"type": "encrypted_content", "encrypted_content": "xyz"}]),
         [{"kind": "injected", "text": "Task:\n", "source": "agent-message"}]),
        (item("agent_message", content=[{"type": "input_image"}]),
         [{"kind": "unmodelled", "family": "block/input_image"},
          {"kind": "injected", "text": "", "source": "agent-message"}]),
        ({"type": "inter_agent_communication", "payload": {"author": "/root", "content": "done"}},
         [{"kind": "injected", "text": "done", "source": "agent-message"}]),
        ({"type": "inter_agent_communication", "payload": {"encrypted_content": "xyz"}},
         [{"kind": "unmodelled", "family": "inter_agent_communication"}]),
        ({"type": "inter_agent_communication_metadata", "payload": {"trigger_turn": True}},
         [{"kind": "set_aside", "family": "inter_agent_communication_metadata", "value": True}]),
    ],
)  # fmt: skip
def test_agents_among_themselves(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """What another agent wrote, and nothing of what is encrypted."""
    assert told(body) == seen


# --- calls ------------------------------------------------------------------------------------------------------------

PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n*** Move to: c\n*** Delete File: d\n*** End Patch"


def call(name: str, given: Any, **more: Any) -> dict[str, Any]:
    return item("function_call", name=name, arguments=json.dumps(given), call_id="c1", **more)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (call("exec_command", {"cmd": "ls", "workdir": "/demo"}),
         {"name": "exec_command", "input": {"cmd": "ls", "workdir": "/demo"}, "call": "c1", "command": "ls"}),
        (call("shell", {"command": ["bash", "-lc", "ls | wc"]}),
         {"name": "shell", "input": {"command": ["bash", "-lc", "ls | wc"]}, "call": "c1", "command": "ls | wc"}),
        (call("shell", {"command": ["ls", "-l", "a", "b"]}),
         {"name": "shell", "input": {"command": ["ls", "-l", "a", "b"]}, "call": "c1", "command": "ls -l a b"}),
        (call("shell_command", {"command": "ls"}),
         {"name": "shell_command", "input": {"command": "ls"}, "call": "c1", "command": "ls"}),
        (call("shell", {"command": []}), {"name": "shell", "input": {"command": []}, "call": "c1"}),
        (call("shell", "oops"), {"name": "shell", "input": "oops", "call": "c1"}),
        (call("shell", {"command": ["apply_patch", PATCH]}),
         {"name": "shell", "input": {"command": ["apply_patch", PATCH]}, "call": "c1",
          "command": f"apply_patch {PATCH}", "writes": ["a", "b", "c", "d"]}),
        (call("apply_patch", {"input": PATCH}),
         {"name": "apply_patch", "input": {"input": PATCH}, "call": "c1", "writes": ["a", "b", "c", "d"]}),
        (item("custom_tool_call", name="apply_patch", input=PATCH, call_id="c1"),
         {"name": "apply_patch", "input": PATCH, "call": "c1", "writes": ["a", "b", "c", "d"]}),
        (item("custom_tool_call", name="exec", input="{}", call_id="c1", namespace="functions"),
         {"name": "exec", "input": "{}", "call": "c1"}),
        (item("custom_tool_call", name="exec", arguments="{}", call_id="c1"),
         {"name": "exec", "input": {}, "call": "c1"}),
        (call("view_image", {"path": "/a.png"}),
         {"name": "view_image", "input": {"path": "/a.png"}, "call": "c1", "reads": ["/a.png"]}),
        (call("echo", {}, namespace="mcp__demo"), {"name": "echo", "input": {}, "call": "c1", "server": "demo"}),
        (call("fetch", {}, namespace="mcp__apps__hub"),
         {"name": "fetch", "input": {}, "call": "c1", "server": "apps"}),
        (call("mcp__demo__echo", {}), {"name": "mcp__demo__echo", "input": {}, "call": "c1", "server": "demo"}),
        (call("mcp__odd", {}), {"name": "mcp__odd", "input": {}, "call": "c1"}),
        (call("spawn_agent", {}, namespace="collaboration"), {"name": "spawn_agent", "input": {}, "call": "c1"}),
        (item("function_call", name="f", arguments="{broken", call_id="c1"),
         {"name": "f", "input": "{broken", "call": "c1"}),
        (item("function_call", name="f", arguments="{}"), {"name": "f", "input": {}}),
        (item("local_shell_call", id="l1", action={"type": "exec", "command": ["ls"]}),
         {"id": "l1", "name": "local_shell", "input": {"command": ["ls"]}, "call": "l1", "command": "ls"}),
        (item("local_shell_call", id="l1", call_id="c1", action={"type": "exec", "command": ["ls"]}),
         {"id": "l1", "name": "local_shell", "input": {"command": ["ls"]}, "call": "c1", "command": "ls"}),
        (item("web_search_call", status="completed", action={"type": "search", "query": "q"}),
         {"name": "web_search", "input": {"type": "search", "query": "q"}}),
        (item("tool_search_call", call_id="c1", arguments={"query": "q"}),
         {"name": "tool_search", "input": {"query": "q"}, "call": "c1"}),
    ],
)  # fmt: skip
def test_calls(body: dict[str, Any], seen: dict[str, Any]) -> None:
    """The name as the model wrote it, the input opened, the command, the files, the server of an MCP tool."""
    assert told(body) == [{"kind": "tool_request", **seen}]


def test_calls_that_the_server_answers_itself() -> None:
    """The item tells how it ended, when it has an id that a result could be told for."""
    search = item("web_search_call", id="w1", status="completed", action={"type": "search"})
    assert told(search) == [
        {"kind": "tool_request", "id": "w1", "name": "web_search", "input": {"type": "search"}, "call": "w1"},
        {"kind": "tool_result", "id": "w1", "call": "w1", "ok": True, "outcome": "ok"},
    ]
    picture = item("image_generation_call", id="i1", status="failed", revised_prompt="a cat", result="base64")
    assert told(picture) == [
        {"kind": "tool_request", "id": "i1", "name": "image_generation", "input": {"revised_prompt": "a cat"},
         "call": "i1"},
        {"kind": "tool_result", "id": "i1", "call": "i1", "ok": False, "outcome": "error"},
    ]  # fmt: skip
    assert len(told(item("web_search_call", id="w1", status="in_progress"))) == 1


def test_a_nameless_call_is_carried() -> None:
    """A call without a name is no call."""
    assert told(item("function_call", arguments="{}")) == [
        {"kind": "unmodelled", "family": "response_item/function_call"}
    ]


def test_a_long_patch_is_folded_and_its_files_known() -> None:
    """Texts over 1,000 characters are kept by length, digest and start; whole only when asked."""
    long = PATCH.replace("+x", "+" + "x" * 1500)
    body = item("custom_tool_call", name="apply_patch", input=long, call_id="c1")
    (seen,) = observe(body)
    assert isinstance(seen, ToolRequest)
    assert (seen.input, seen.writes) == (FOLDED.text(long), ("a", "b", "c", "d"))
    (whole,) = observe(body, keep=Keeper(whole=True))
    assert isinstance(whole, ToolRequest)
    assert whole.input.text == long


# --- results ----------------------------------------------------------------------------------------------------------


def boxed(output: str, code: Any = 0, seconds: Any = 0.2) -> str:
    return json.dumps({"output": output, "metadata": {"exit_code": code, "duration_seconds": seconds}})


HEAD = "Chunk ID: 1a2b3c\nWall time: 0.0512 seconds\n"


@pytest.mark.parametrize(
    ("output", "outcome", "exit_code", "duration"),
    [
        (boxed("x"), "ok", 0, 200.0),
        (boxed("x", 2), "error", 2, 200.0),
        (boxed("x", "2", -1), None, None, None),
        ("Exit code: 0\nWall time: 1.5 seconds\nTotal output lines: 9\nOutput:\nx", "ok", 0, 1500.0),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\n", "error", 1, 0.0),
        (f"{HEAD}Process exited with code 3\nOriginal token count: 3\nOutput:\nx", "error", 3, 51.2),
        (f"{HEAD}Process exited with code -1\nOutput:\nx", "error", -1, 51.2),
        (f"{HEAD}Process running with session ID 7\nOutput:\nx", None, None, 51.2),
        (f"Command: bash -lc 'a\nExit code: 9\n'\n{HEAD}Process exited with code 0\nOutput:\nx", "ok", 0, 51.2),
        (f"{HEAD}Process exited with code 0\nOutput:\nExit code: 9", "ok", 0, 51.2),
        ("x\nExit code: 9", None, None, None),
        ("x\nExit code: 9\nOutput:\ny", None, None, None),
        ("Wall time: 1.5 seconds\naborted by user", "interrupted", None, 1500.0),
        ("aborted by user after 1.5s", "interrupted", None, 1500.0),
        ("aborted by user", "interrupted", None, None),
        ("exec command rejected by user", "rejected", None, None),
        ("patch rejected: outside of the project", "denied", None, None),
        ("Plan updated", "ok", None, None),
        ("attached local image path", "ok", None, None),
        ("unsupported call: f", "error", None, None),
        ("failed to parse function arguments: x", "error", None, None),
        ("apply_patch verification failed: x", "error", None, None),
        ("failed in sandbox X with execution error: sandbox denied exec error, exit code: 101, stdout: a", "error",
         101, None),
        ("Wall time: 0.5 seconds\nOutput:\nwhat a server said", None, None, 500.0),
        ("Wall time: 1.2.3 seconds\nOutput:\nx", None, None, None),
        ("who knows", None, None, None),
        ("", None, None, None),
    ],
)  # fmt: skip
def test_what_a_text_says_of_its_call(
    output: str, outcome: str | None, exit_code: int | None, duration: float | None
) -> None:
    """Exit code and time of its head, never of what the command printed; an outcome only where it is told."""
    (seen,) = observe(answered(output))
    assert isinstance(seen, ToolResult)
    assert (seen.outcome, seen.exit_code, seen.duration_ms) == (outcome, exit_code, duration)
    assert (seen.ok, seen.call) == (None if outcome is None else outcome == "ok", "c1")


CELL = "Script completed\nWall time 0.2 seconds\nOutput:\n"


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        (boxed("x"), {"text": "x", "ok": True, "outcome": "ok", "exit_code": 0, "duration_ms": 200.0}),
        ({"output": "x", "metadata": {"exit_code": 1}}, {"text": "x", "ok": False, "outcome": "error", "exit_code": 1}),
        ({"content": "x", "success": False}, {"text": "x", "ok": False, "outcome": "error"}),
        ({"content": "x", "success": True}, {"text": "x", "ok": True, "outcome": "ok"}),
        ({"content": "x"}, {"text": "x"}),
        ({"matches": [1]}, {"detail": {"matches": [1]}}),
        ('{"matches": [1]}', {"text": '{"matches": [1]}'}),
        ("{broken", {"text": "{broken"}),
        ("[1]", {"text": "[1]"}),
        ('{"agent_id":"a1","nickname":"Ada"}',
         {"text": '{"agent_id":"a1","nickname":"Ada"}', "ok": True, "outcome": "ok", "spawned": "a1"}),
        ('{"agent_id":"a1"}', {"text": '{"agent_id":"a1"}'}),
        ('{"task_name":"/root/a"}', {"text": '{"task_name":"/root/a"}', "ok": True, "outcome": "ok"}),
        ([said("Wall time: 0.5 seconds\nOutput:"), said("echo")],
         {"text": "Wall time: 0.5 seconds\nOutput:\necho", "duration_ms": 500.0}),
        ([said(CELL), said("{}")],
         {"text": f"{CELL}{{}}", "ok": True, "outcome": "ok", "duration_ms": 200.0}),
        ([said("Script failed\nWall time 0.1 seconds\nOutput:\n"), said("oops")],
         {"text": "Script failed\nWall time 0.1 seconds\nOutput:\noops", "ok": False, "outcome": "error",
          "duration_ms": 100.0}),
        ([said("see"), {"type": "input_image", "image_url": "data:"}],
         {"text": "see", "detail": {"input_image": 1}}),
        ([{"type": "input_image"}], {"detail": {"input_image": 1}}),
        ([], {}),
    ],
)  # fmt: skip
def test_shapes_of_an_output(output: Any, seen: dict[str, Any]) -> None:
    """A text, a text around JSON, blocks, an object; the text as the model saw it."""
    assert told(answered(output)) == [{"kind": "tool_result", "call": "c1", **seen}]


@pytest.mark.parametrize("output", [None, 7, True])
def test_an_output_that_is_none_is_carried(output: Any) -> None:
    """No result is made of it."""
    assert told(answered(output)) == [{"kind": "unmodelled", "family": "response_item/function_call_output"}]


def test_a_search_for_tools_answers_with_names() -> None:
    """Names of functions, not of the spaces around them, and no descriptions."""
    tools = [
        {
            "type": "namespace",
            "name": "mcp__demo",
            "tools": [{"name": "echo", "description": "long"}, {"name": "boom"}],
        },
        {"type": "function", "name": "plain"},
    ]
    body = item("tool_search_output", call_id="c1", status="completed", tools=tools)
    assert told(body) == [
        {
            "kind": "tool_result",
            "call": "c1",
            "ok": True,
            "outcome": "ok",
            "detail": {"tools": ["echo", "boom", "plain"]},
        }
    ]


# --- events -----------------------------------------------------------------------------------------------------------

AGAIN = {"via": "event"}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (event("user_message", message="hi", images=["data:"], local_images=["/a.png"]),
         [{"kind": "prompt", "text": "hi", "images": 2, **AGAIN}]),
        (event("user_message", message=IDE, images=None),
         [{"kind": "prompt", "text": "fix it", "source": "ide", **AGAIN},
          {"kind": "injected", "text": "# Context from my IDE setup:\n\n## Active file: a.py", "source": "ide",
           **AGAIN}]),
        (event("user_message"), [{"kind": "unmodelled", "family": "event_msg/user_message"}]),
        (event("agent_message", message="a", phase="commentary"), [{"kind": "response", "text": "a", **AGAIN}]),
        (event("agent_message"), [{"kind": "unmodelled", "family": "event_msg/agent_message"}]),
        (event("agent_reasoning", text="hm"), [{"kind": "thought", "text": "hm", **AGAIN}]),
        (event("agent_reasoning_raw_content", text="hm"), [{"kind": "thought", "text": "hm", **AGAIN}]),
        (event("agent_reasoning"), [{"kind": "unmodelled", "family": "event_msg/agent_reasoning"}]),
        (completed("UserMessage", {"turn_id": "t1"}, id="u1", content=[
            {"type": "text", "text": "hi"}, {"type": "image"}, {"type": "local_image"}]),
         [{"kind": "prompt", "turn": "t1", "id": "t1/u1", "text": "hi", "images": 2, **AGAIN}]),
        (completed("AgentMessage", {"turn_id": "t1"}, id="m1", content=[{"type": "Text", "text": "a"}]),
         [{"kind": "response", "turn": "t1", "id": "t1/m1", "text": "a", **AGAIN}]),
        (completed("Reasoning", id="r1", summary_text=["a", "b"], raw_content=["c"]),
         [{"kind": "thought", "id": "r1", "text": text, **AGAIN} for text in "abc"]),
        (completed("Reasoning", id="r1", summary_text=[], raw_content=[]),
         [{"kind": "set_aside", "family": "event_msg/item_completed/Reasoning"}]),
    ],
)  # fmt: skip
def test_what_is_told_again(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """The same observation as the item's, marked as an event."""
    assert told(body) == seen


RUN: dict[str, Any] = {
    "command": ["/bin/bash", "-lc", "cat a"], "cwd": "/demo", "parsed_cmd": [{"type": "read", "path": "a"}],
    "aggregated_output": "x\n", "exit_code": 0, "duration": {"secs": 1, "nanos": 500_000_000},
}  # fmt: skip
CAME = {"text": "x\n", "exit_code": 0, "duration_ms": 1500.0}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (event("exec_command_end", call_id="c1", status="completed", **RUN),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "read": ["a"], **CAME, **AGAIN}]),
        (event("exec_command_end", call_id="c1", status="failed", **{**RUN, "exit_code": 1}),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "error", **CAME, "exit_code": 1, **AGAIN}]),
        (event("exec_command_end", call_id="c1", status="declined", stdout="y"),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "denied", "text": "y", **AGAIN}]),
        (event("exec_command_end", call_id="c1", status="in_progress", duration={"secs": -1, "nanos": 0}),
         [{"kind": "tool_result", "call": "c1", **AGAIN}]),
        (event("exec_command_end", call_id="c1", exit_code=3),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "error", "exit_code": 3, **AGAIN}]),
        (event("exec_command_end", call_id="c1", exit_code=0, status="odd"),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "exit_code": 0, **AGAIN}]),
        (event("exec_command_end", call_id="c1", exit_code="3"),
         [{"kind": "tool_result", "call": "c1", **AGAIN}]),
        (event("exec_command_end", call_id="u1", status="completed", source="user_shell", command="ls"),
         [{"kind": "execution", "name": "user_shell", "input": {"command": "ls"}, "call": "u1", "command": "ls"},
          {"kind": "tool_result", "call": "u1", "ok": True, "outcome": "ok"}]),
        (completed("CommandExecution", id="c1", status="completed", **RUN),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "read": ["a"], **CAME, **AGAIN}]),
        (completed("CommandExecution", id="exec-1", status="completed", **RUN),
         [{"kind": "execution", "name": "exec_command", "input": {"command": RUN["command"], "cwd": "/demo"},
           "call": "exec-1", "command": "cat a", "reads": ["a"]},
          {"kind": "tool_result", "call": "exec-1", "ok": True, "outcome": "ok", "read": ["a"], **CAME}]),
        (event("patch_apply_end", call_id="c1", success=True, stdout="done\n", stderr="",
               changes={"a": {"type": "update", "move_path": "b"}}),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "text": "done\n", "wrote": ["a", "b"],
           **AGAIN}]),
        (event("patch_apply_end", call_id="c1", success=False, stderr="no", changes={"a": {}}),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "error", "text": "no", **AGAIN}]),
        (completed("FileChange", {"started_at_ms": 1000, "completed_at_ms": 1004}, id="exec-1", status="completed",
                   changes={"a": {"type": "add", "content": "secret"}}),
         [{"kind": "execution", "name": "apply_patch", "input": {"changes": {"a": "add"}}, "call": "exec-1",
           "writes": ["a"]},
          {"kind": "tool_result", "call": "exec-1", "ok": True, "outcome": "ok", "duration_ms": 4, "wrote": ["a"]}]),
        (event("mcp_tool_call_end", call_id="c1", invocation={"server": "demo", "tool": "echo", "arguments": {}},
               duration={"secs": 0, "nanos": 1_000_000}, result={"Ok": {"content": [{"type": "text", "text": "x"}]}}),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "text": "x", "duration_ms": 1.0,
           **AGAIN}]),
        (event("mcp_tool_call_end", call_id="c1", result={"Ok": {"content": [], "isError": True}}),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "error", **AGAIN}]),
        (event("mcp_tool_call_end", call_id="c1", result={"Err": "gone"}),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "error", "text": "gone", **AGAIN}]),
        (event("mcp_tool_call_end", call_id="c1"), [{"kind": "tool_result", "call": "c1", **AGAIN}]),
        (completed("McpToolCall", id="exec-1", server="demo", tool="boom", arguments={"a": 1}, status="failed",
                   error={"message": "no"}),
         [{"kind": "execution", "name": "boom", "input": {"a": 1}, "call": "exec-1", "server": "demo"},
          {"kind": "tool_result", "call": "exec-1", "ok": False, "outcome": "error", "text": "no"}]),
        (completed("DynamicToolCall", id="c1", tool="t", status="completed",
                   content_items=[{"type": "input_text", "text": "x"}]),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "text": "x", **AGAIN}]),
        (completed("ImageView", id="exec-1", path="/a.png"),
         [{"kind": "execution", "name": "view_image", "input": {"path": "/a.png"}, "call": "exec-1",
           "reads": ["/a.png"]},
          {"kind": "tool_result", "call": "exec-1", "ok": True, "outcome": "ok", "read": ["/a.png"]}]),
        (event("view_image_tool_call", call_id="c1", path="/a.png"),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "read": ["/a.png"], **AGAIN}]),
        (completed("ImageGeneration", id="i1", status="completed", result="base64"),
         [{"kind": "tool_result", "call": "i1", "ok": True, "outcome": "ok", **AGAIN}]),
        (event("web_search_end", call_id="w1", query="q", action={"type": "search", "query": "q"}),
         [{"kind": "tool_request", "name": "web_search", "input": {"type": "search", "query": "q"}, "call": "w1",
           **AGAIN}]),
        (completed("WebSearch", id="w1", query="q", action={"type": "search"}),
         [{"kind": "tool_request", "name": "web_search", "input": {"type": "search"}, "call": "w1", **AGAIN}]),
    ],
)  # fmt: skip
def test_tools_that_ran(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """A call of the model's is told again; what ran inside a cell or by hand is a call of its own."""
    assert told(body) == seen


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (completed("CollabAgentToolCall", {"started_at_ms": 5, "completed_at_ms": 25}, id="c1", tool="spawn_agent",
                   status="completed", receiver_thread_ids=["a1"], model="m",
                   receiver_agents=[{"thread_id": "a1", "agent_nickname": "Ada", "agent_role": "reader"}]),
         [{"kind": "subagent_start", "spawned": "a1", "call": "c1", "agent_type": "reader", "description": "Ada",
           "model": "m"},
          {"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", "duration_ms": 20, "spawned": "a1",
           **AGAIN}]),
        (completed("CollabAgentToolCall", id="c1", tool="wait", status="completed", receiver_thread_ids=["a1"]),
         [{"kind": "tool_result", "call": "c1", "ok": True, "outcome": "ok", **AGAIN}]),
        (completed("CollabAgentToolCall", id="c1", tool="spawn_agent", status="failed", receiver_thread_ids=[]),
         [{"kind": "tool_result", "call": "c1", "ok": False, "outcome": "error", **AGAIN}]),
        (event("collab_agent_spawn_end", call_id="c1", new_thread_id="a1", new_agent_nickname="Ada", model="m"),
         [{"kind": "subagent_start", "spawned": "a1", "call": "c1", "agent_type": "Ada", "model": "m"},
          {"kind": "tool_result", "call": "c1", "spawned": "a1", **AGAIN}]),
        (completed("SubAgentActivity", id="c1", kind="started", agent_thread_id="a1", agent_path="/root/a", model="m"),
         [{"kind": "subagent_start", "spawned": "a1", "call": "c1", "description": "/root/a", "model": "m"}]),
        (completed("SubAgentActivity", id="subagent-completed-t1", kind="completed", agent_thread_id="a1"),
         [{"kind": "subagent_stop", "spawned": "a1", "status": "completed"}]),
        (event("sub_agent_activity", event_id="c1", kind="started", agent_thread_id="a1"),
         [{"kind": "subagent_start", "spawned": "a1", "call": "c1"}]),
        (completed("SubAgentActivity", id="x", kind="interacted", agent_thread_id="a1"),
         [{"kind": "set_aside", "family": "event_msg/item_completed/SubAgentActivity"}]),
        (completed("SubAgentActivity", id="x", kind="started"),
         [{"kind": "set_aside", "family": "event_msg/item_completed/SubAgentActivity"}]),
    ],
)  # fmt: skip
def test_agents_that_start_and_end(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """Which call started which thread, and the end of one that is told."""
    assert told(body) == seen


REFUSED = json.dumps({"type": "error", "error": {"message": "too long", "code": 400}})


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (event("task_complete", turn_id="t1", duration_ms=5, last_agent_message="a"),
         [{"kind": "turn_end", "turn": "t1", "duration_ms": 5, "status": "completed"}]),
        (event("turn_complete"), [{"kind": "turn_end", "status": "completed"}]),
        (event("task_complete", error={"message": REFUSED, "codex_error_info": "other"}),
         [{"kind": "failure", "text": "too long", "status": 400}, {"kind": "turn_end", "status": "failed"}]),
        (event("turn_aborted", turn_id="t1", reason="interrupted", duration_ms=7),
         [{"kind": "turn_end", "turn": "t1", "duration_ms": 7, "status": "interrupted"}]),
        (event("turn_aborted"), [{"kind": "turn_end"}]),
        (event("error", message="gone", codex_error_info={"response_stream_disconnected": {"http_status_code": 503}}),
         [{"kind": "failure", "text": "gone", "status": 503}]),
        (event("stream_error", message="{odd"), [{"kind": "failure", "text": "{odd"}]),
        (event("error"), [{"kind": "failure", "text": ""}]),
        (event("thread_name_updated", thread_name="A walk"),
         [{"kind": "title", "text": "A walk", "source": "thread-name"}]),
        (event("thread_name_updated", thread_name=None),
         [{"kind": "unmodelled", "family": "event_msg/thread_name_updated"}]),
        ({"type": "compacted", "payload": {"message": "so far", "replacement_history": [{"type": "message"}]}},
         [{"kind": "compaction"}, {"kind": "injected", "text": "so far", "source": "compact-summary"}]),
        ({"type": "compacted", "payload": {"message": ""}}, [{"kind": "compaction"}]),
    ],
)  # fmt: skip
def test_turns_failures_titles_compactions(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """What ended and how; nothing of a message that stands elsewhere, nothing of a replaced history."""
    assert told(body) == seen


@pytest.mark.parametrize(
    ("body", "family", "value"),
    [
        (event("task_started", turn_id="t1"), "event_msg/task_started", None),
        (event("context_compacted"), "event_msg/context_compacted", None),
        (event("warning", message="slow"), "event_msg/warning", "slow"),
        (event("thread_rolled_back", num_turns=2), "event_msg/thread_rolled_back", 2),
        (event("model_reroute", from_model="a", to_model="b", x=1), "event_msg/model_reroute",
         {"from_model": "a", "to_model": "b"}),
        (completed("ContextCompaction", id="x"), "event_msg/item_completed/ContextCompaction", None),
        (item("ghost_snapshot", ghost_commit={"id": "x"}), "response_item/ghost_snapshot", None),
        (item("additional_tools", tools=[]), "response_item/additional_tools", None),
        (item("compaction", encrypted_content="xyz"), "response_item/compaction", None),
        ({"type": "world_state", "payload": {"full": True, "state": {"a": 1}}}, "world_state", True),
        ({"record_type": "state"}, "state", None),
    ],
)  # fmt: skip
def test_what_makes_no_node(body: dict[str, Any], family: str, value: Any) -> None:
    """Known, laid aside, with what is short and telling."""
    (seen,) = observe(body)
    assert isinstance(seen, SetAside)
    assert (seen.family, seen.value) == (family, value)


@pytest.mark.parametrize(
    ("body", "family"),
    [
        ({"type": "weather"}, "weather"),
        (item("crystal_ball_call"), "response_item/crystal_ball_call"),
        (event("tool_call", name="x"), "event_msg/tool_call"),
        (completed("Dream", id="x"), "event_msg/item_completed/Dream"),
        (event("item_completed"), "event_msg/item_completed/<object>"),
        ({"type": "response_item"}, "response_item/<object>"),
        ({"type": "event_msg", "payload": []}, "event_msg/<object>"),
        ({"id": "x"}, "<object>"),
        ({"timestamp": STAMP, "id": 7}, "<object>"),
        ({}, "<object>"),
        ({"record_type": "mood"}, "mood"),
    ],
)
def test_what_is_unknown_is_carried_by_its_name(body: dict[str, Any], family: str) -> None:
    """Nothing is made of a row that says nothing to this parser."""
    assert observe(body) == [Unmodelled(ref=Ref("main", 1, 0), family=family)]


def test_a_reader_that_is_surprised_costs_no_evidence() -> None:
    """The row is unreadable under its name, and nothing else is told of it."""
    (seen,) = observe(completed("CollabAgentToolCall", id="c1", tool=["a"], receiver_agents=[[]]))
    assert isinstance(seen, ToolResult)
    (seen,) = observe(event("patch_apply_end", call_id="c1", status="completed", changes={"a": {"type": "add"}}))
    assert isinstance(seen, ToolResult)
    (seen,) = PARSER.observe(Row(ref=Ref("main", 1, 0), line=1, raw=b'{"type":'))
    assert isinstance(seen, Unreadable)


# --- the oldest files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"type": "message", "id": None, "role": "user", "content": [said("hi")]}, [{"kind": "prompt", "text": "hi"}]),
        ({"type": "message", "id": None, "role": "assistant", "content": [ANSWER]},
         [{"kind": "response", "text": "a"}]),
        ({"type": "reasoning", "id": "", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
         [{"kind": "thought", "text": "hm"}]),
        ({"type": "function_call", "id": None, "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
         [{"kind": "tool_request", "name": "shell", "input": {"command": ["ls"]}, "call": "c1", "command": "ls"}]),
        ({"type": "function_call_output", "call_id": "c1", "output": boxed("x")},
         [{"kind": "tool_result", "call": "c1", "text": "x", "ok": True, "outcome": "ok", "exit_code": 0,
           "duration_ms": 200.0}]),
        ({"type": "local_shell_call", "call_id": "c1", "action": {"command": ["ls"]}},
         [{"kind": "tool_request", "name": "local_shell", "input": {"command": ["ls"]}, "call": "c1",
           "command": "ls"}]),
    ],
)  # fmt: skip
def test_items_without_an_envelope(body: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """The same as with one; such rows have no time."""
    assert [plain(msgspec.to_builtins(one)) for one in observe(body)] == seen
    assert {one.at for one in observe(body)} == {None}


# --- what it costs ----------------------------------------------------------------------------------------------------

COUNTS: dict[str, Any] = {
    "input_tokens": 1000, "cached_input_tokens": 600, "cache_write_input_tokens": 100, "output_tokens": 50,
    "reasoning_output_tokens": 20, "total_tokens": 1050,
}  # fmt: skip
COUNTED = {
    "input_tokens": 300, "cache_read_tokens": 600, "cache_write_tokens": 100, "output_tokens": 50,
    "reasoning_tokens": 20, "total_tokens": 1050,
}  # fmt: skip
TOTAL = {"final": True, "running": "thread"}
BARE = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 7}


@pytest.mark.parametrize(
    ("info", "usage"),
    [
        ({"total_token_usage": COUNTS}, {**COUNTED, **TOTAL}),
        ({"total_token_usage": COUNTS, "last_token_usage": COUNTS, "model": "m"},
         {**COUNTED, **TOTAL, "model": "m", "last": COUNTED}),
        ({"total_token_usage": {"input_tokens": 10, "output_tokens": 2}},
         {"input_tokens": 10, "output_tokens": 2, **TOTAL}),
        ({"total_token_usage": {"input_tokens": 10, "cached_input_tokens": 30, "output_tokens": 2}},
         {"input_tokens": 0, "cache_read_tokens": 30, "output_tokens": 2, **TOTAL}),
        ({"total_token_usage": {"total_tokens": 7}}, {"total_tokens": 7, **TOTAL}),
        ({"total_token_usage": BARE, "last_token_usage": BARE},
         {"total_tokens": 7, "last": {"total_tokens": 7}, **TOTAL}),
        ({"total_token_usage": COUNTS, "last_token_usage": BARE}, {**COUNTED, **TOTAL}),
        ({"total_token_usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}},
         {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, **TOTAL}),
        ({"total_token_usage": {"input_tokens": -1, "output_tokens": True, "cached_input_tokens": "5"}},
         {"unusable": ["input_tokens", "cached_input_tokens", "output_tokens"], **TOTAL}),
        ({"total_token_usage": {}}, {"unusable": ["input_tokens", "output_tokens"], **TOTAL}),
        ({"total_token_usage": 7}, None),
        ({"last_token_usage": COUNTS}, None),
        (None, None),
    ],
)  # fmt: skip
def test_running_totals(info: Any, usage: dict[str, Any] | None) -> None:
    """Input is what no cache gave or took; a sum alone stays a sum, absence is not zero; an estimate is no call."""
    (seen,) = told(event("token_count", info=info))
    assert seen == {
        "kind": "accounting", "family": "token_count", **({} if usage is None else {"usage": usage}),
    }  # fmt: skip


def test_limits_and_the_size_of_the_context_are_figures() -> None:
    """By their own names, without the times of the limits."""
    limits = {"primary": {"used_percent": 12.5, "resets_at": 1}, "secondary": None, "plan_type": "pro"}
    (seen,) = told(event("token_count", info={"model_context_window": 1000}, rate_limits=limits))
    assert seen["figures"] == {
        "model_context_window": 1000, "rate_limits.primary.used_percent": 12.5, "rate_limits.plan_type": "pro",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        ({"turn_id": "t1", "response_id": "r1", "usage": COUNTS, "thread_token_usage": {"input_tokens": 9000}},
         {"message": "t1/r1", **COUNTED, "final": True}),
        ({"response_id": "r1", "usage": COUNTS}, {"message": "r1", **COUNTED, "final": True}),
        ({"usage": COUNTS}, {**COUNTED, "final": True}),
        ({"response_id": "r1"}, {"message": "r1", "final": True, "unusable": ["usage"]}),
    ],
)  # fmt: skip
def test_what_one_call_cost(payload: dict[str, Any], usage: dict[str, Any]) -> None:
    """The figures of the call itself, under the id of the reply; the totals beside them are told elsewhere."""
    (seen,) = told({"type": "token_usage_record", "payload": payload})
    assert seen.pop("turn", None) == payload.get("turn_id")
    assert seen == {"kind": "accounting", "family": "token_usage_record", "usage": usage}


@pytest.mark.parametrize(
    "body",
    [
        message("assistant", ANSWER),
        event("task_complete", duration_ms=5),
        {"type": "compacted", "payload": {"message": "", "latest_token_usage_record": {"usage": COUNTS}}},
        {"type": "turn_context", "payload": {"model": "m"}},
    ],
)
def test_nothing_else_tells_of_tokens(body: dict[str, Any]) -> None:
    """A record that stands in another row again is not counted again."""
    assert {seen.usage for seen in observe(body)} == {None}


def test_the_meter_misses_no_row_that_tells_of_usage() -> None:
    """Rows without any of its words say nothing of models, beginnings or tokens."""
    assert PARSER.meter is not None
    for body in (
        event("token_count", info={"total_token_usage": COUNTS}),
        event("thread_settings_applied", thread_settings={"model": "m"}),
        meta(id="s1"),
        {"id": "s1", "timestamp": STAMP, "instructions": None},
        {"type": "turn_context", "payload": {}},
        {"type": "token_usage_record", "payload": {"usage": COUNTS}},
    ):
        raw = json.dumps(body).encode()
        assert any(needle in raw for needle in PARSER.meter.needles)
        assert list(PARSER.measure(Row(ref=Ref("main", 1, 0), line=1, raw=raw))) != []


# --- payloads and side files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "argv", "family"),
    [
        ({"hook_event_name": "Stop"}, (), "Stop"),
        ({}, ("SessionStart",), "SessionStart"),
        ({}, (), "<object>"),
    ],
)
def test_payloads_are_carried_under_their_event(body: dict[str, Any], argv: tuple[str, ...], family: str) -> None:
    """Not read in this version."""
    raw = json.dumps(body).encode()
    payload = Payload(ref=Ref("hooks", 1, 0), n=0, harness="codex", argv=argv, raw=raw)
    assert PARSER.observe(payload) == [Unmodelled(ref=payload.ref, family=family)]


def test_texts_with_half_a_character_are_read() -> None:
    """Arguments inside of a text are mended as rows are."""
    body = item("function_call", name="f", arguments=r'{"a":"\ud83d"}')
    (seen,) = PARSER.observe(Row(ref=Ref("main", 1, 0), line=1, raw=json.dumps(body).encode()))
    assert isinstance(seen, ToolRequest)
    assert seen.input == {"a": "\N{REPLACEMENT CHARACTER}"}
