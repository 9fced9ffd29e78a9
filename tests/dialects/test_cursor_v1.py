"""Cursor, parser version 1: one row or text in, exact observations out; and what must not come out."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensic.dialects.registry import parser
from forensic.model import (
    FOLDED,
    WHOLE,
    Injected,
    Keeper,
    Mended,
    Observation,
    Payload,
    Prompt,
    Ref,
    Response,
    Row,
    SetAside,
    SideFile,
    Skill,
    Thought,
    ToolRequest,
    Unmodelled,
    Unreadable,
)

PARSER = parser("cursor", 1)
FILE = Ref("files/0001", 1, 0)


def observe(body: Any, agent: str | None = None, keep: Keeper = FOLDED) -> list[Observation]:
    raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return PARSER.observe(Row(ref=Ref("main", 1, 40), line=3, raw=raw, agent=agent), keep)


def plain(value: Any) -> Any:
    """Texts as their preview; provenance left out, which has tests of its own."""
    if isinstance(value, dict):
        if value.keys() == {"chars", "sha256", "preview"}:
            return value["preview"]
        return {key: plain(item) for key, item in value.items() if key not in ("part", "ref", "step")}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def told(body: Any, agent: str | None = None) -> list[dict[str, Any]]:
    return [plain(msgspec.to_builtins(one)) for one in observe(body, agent)]


def row(role: str, *content: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return {"role": role, "message": {"content": blocks}}


def use(name: str, given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


def query(text: str) -> str:
    return f"<user_query>\n{text}\n</user_query>"


def prompt(text: str, **more: Any) -> dict[str, Any]:
    return {"kind": "prompt", "text": text, **more}


def injected(source: str, text: str) -> dict[str, Any]:
    return {"kind": "injected", "text": text, "source": source}


def skill(name: str, path: str) -> dict[str, Any]:
    return {"kind": "skill", "name": name, "stage": "attached", "path": path}


# --- provenance -------------------------------------------------------------------------------------------------------


def test_a_row_tells_where_it_stands_and_nothing_else() -> None:
    """No time, no id, no turn, no usage: the place of a message names it; parts are counted."""
    seen = observe(row("assistant", "a", use("Read", {"path": "b"}), "c"))
    assert [type(one) for one in seen] == [Response, ToolRequest, Response]
    for part, one in enumerate(seen):
        assert (one.ref, one.part, one.step) == (Ref("main", 1, 40), part, "main:1:40")
        assert (one.at, one.id, one.turn, one.agent, one.via, one.usage, one.ordinal) == (None,) * 7


def test_a_call_has_no_id() -> None:
    """Not even when a row should bring one: what an id of this format would mean is not known."""
    (seen,) = observe(row("assistant", {**use("Read", {}), "id": "call_1"}))
    assert isinstance(seen, ToolRequest)
    assert (seen.call, seen.signature) == (None, None)


@pytest.mark.parametrize("body", [row("user", "a"), row("assistant", "a"), {"type": "turn_ended", "status": "success"}])
def test_whose_row_it_is_says_the_file(body: dict[str, Any]) -> None:
    """Rows do not; capture knows which file is a subagent's."""
    assert [one.agent for one in observe(body)] == [None]
    assert [one.agent for one in observe(body, "a1")] == ["a1"]


# --- people -----------------------------------------------------------------------------------------------------------

SPOKEN: list[tuple[str, Any, list[dict[str, Any]]]] = [
    ("plain", "What is 2+2?", [prompt("What is 2+2?")]),
    ("wrapped", query("Look at it."), [prompt("Look at it.")]),
    ("wrapped on one line", "<user_query>Look.</user_query>", [prompt("Look.")]),
    ("markup of a person's", "Is <div>\n<b>x</b>\n</div> right?", [prompt("Is <div>\n<b>x</b>\n</div> right?")]),
    ("markup first", "<rules>\nBe short.\n</rules>\nGo.", [prompt("<rules>\nBe short.\n</rules>\nGo.")]),
    ("an open tag", "<system_reminder>\nnot closed", [prompt("<system_reminder>\nnot closed")]),
    ("a tag inside a line", "say <timestamp>x</timestamp>", [prompt("say <timestamp>x</timestamp>")]),
    (
        "what stands in a query is a person's",
        query("Why <system_reminder>\nx\n</system_reminder>?"),
        [prompt("Why <system_reminder>\nx\n</system_reminder>?")],
    ),
    ("a query within", query(f"a\n{query('b')}\nc"), [prompt(f"a\n{query('b')}\nc")]),
    ("an open query within", query("what does <user_query> do?"), [prompt("what does <user_query> do?")]),
    ("two queries", f"{query('a')}\n{query('b')}", [prompt("a\nb")]),
    (
        "the prompt comes first",
        f"<timestamp>Mon</timestamp>\n{query('Go.')}\n<attached_files>\nf\n</attached_files>",
        [prompt("Go."), injected("timestamp", "Mon"), injected("attached_files", "f")],
    ),
    (
        "tags without a line between",
        "<open_and_recently_viewed_files>\nf\n</open_and_recently_viewed_files><user_query>\nGo.\n</user_query>",
        [prompt("Go."), injected("open_and_recently_viewed_files", "f")],
    ),
    (
        "beside a query all is the client's",
        f'Stage all.\n<whatever kind="x">\ny\n</whatever>\n{query("Commit.")}\nAnd push.',
        [
            prompt("Commit."),
            injected("context", "Stage all."),
            injected("whatever", "y"),
            injected("context", "And push."),
        ],
    ),
    (
        "the client's alone",
        "<user_info>\nOS\n</user_info>\n\n<git_status>\nclean\n</git_status>",
        [injected("user_info", "OS"), injected("git_status", "clean")],
    ),
    (
        "the client's before a plain text",
        "<system_reminder>\nr\n</system_reminder>\nGo.",
        [prompt("Go."), injected("system_reminder", "r")],
    ),
    (
        "a tag that only looks like the client's",
        "<rules>\nr\n</rules>\n<user_info>\nu\n</user_info>",
        [prompt("<rules>\nr\n</rules>"), injected("user_info", "u")],
    ),
    ("nothing", "", [injected("empty", "")]),
    ("blanks", " \n\t", [injected("empty", "")]),
    ("a query of nothing", query(" "), [injected("empty", "")]),
    ("line ends", "<user_query>\r\nGo.\r\n</user_query>\r\n", [prompt("Go.")]),
    ("separators of lines that are none", query("a\u2028b\u0085c"), [prompt("a\u2028b\u0085c")]),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in SPOKEN], ids=[case[0] for case in SPOKEN])
def test_what_people_say(text: str, expected: list[dict[str, Any]]) -> None:
    """A prompt is freed of its wrapper, what the client put beside it is injected under the name of its tag."""
    assert told(row("user", text)) == expected
    assert told({"role": "user", "message": {"content": text}}) == expected


def test_a_long_row_with_separators_of_lines_is_one_row() -> None:
    """Twenty-two kilobytes with raw U+2028 in them, and a carriage return of the line's end behind them."""
    text = "a\u2028b\u2029c\u0085" * 2200
    raw = json.dumps(row("user", query(text)), ensure_ascii=False).encode()
    assert len(raw) > 22_000
    for body in (raw, raw + b"\r", b"\xef\xbb\xbf" + raw):
        (seen,) = observe(body, keep=WHOLE)
        assert isinstance(seen, Prompt)
        assert seen.text.text == text


def test_the_texts_of_a_row_are_one_prompt() -> None:
    """Joined by a line feed, as they stand."""
    assert told(row("user", "a", "b")) == [prompt("a\nb")]
    assert told(row("user", "<system_reminder>\nr\n</system_reminder>", query("b"))) == [
        prompt("b"),
        injected("system_reminder", "r"),
    ]


LIST = "<image_files>\nSaved:\n1. /a/one.png\n2. /a/two.png\n</image_files>"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ((f"[Image]\n[Image]\n{LIST}\n{query('Same?')}",), [prompt("Same?", images=2)]),
        ((f"[Image]\n{query('')}",), [prompt("", images=1)]),
        ((f"{LIST}\n{query('Same?')}",), [prompt("Same?", images=2)]),
        (("[Image]\n\n[Image]\nSame?\n[Image]",), [prompt("Same?\n[Image]", images=2)]),
        (("[Image]",), [prompt("", images=1)]),
        (({"type": "image"}, {"type": "image"}, {"type": "image"}), [prompt("", images=3)]),
        (({"type": "image"}, query("Same?")), [prompt("Same?", images=1)]),
        ((f"[Image]\n{query('a [Image]')}", {"type": "image"}), [prompt("a [Image]", images=1)]),
        ((query("[Image]\nis a mark"),), [prompt("[Image]\nis a mark")]),
    ],
)
def test_pictures_are_counted_once(content: tuple[Any, ...], expected: list[dict[str, Any]]) -> None:
    """Marks, the list of files and blocks tell of the same pictures; the list stands beside the prompt."""
    seen = told(row("user", *content))
    assert [one for one in seen if one["kind"] == "prompt"] == expected
    assert {one["source"] for one in seen if one["kind"] == "injected"} <= {"image_files"}


def attached(inner: str) -> str:
    return f"<manually_attached_skills>\n{inner}\n</manually_attached_skills>"


SKILLS = [
    ("name: one\nPath: /s/one/SKILL.md", [skill("one", "/s/one/SKILL.md")]),
    ("Skill Name: one\n\nPath: C:/s/one/SKILL.md", [skill("one", "C:/s/one/SKILL.md")]),
    (
        (
            "These:\n\nSkill Name: one\nPath: /s/one\n---\nname: one\ndescription: d\n---\nPath: /elsewhere\n\n"
            "Skill Name: two\nPath: /s/two\nSKILL.md content:\n<user_query>no query</user_query>"
        ),
        [skill("one", "/s/one"), skill("two", "/s/two")],
    ),
    ("name: one", []),
    ("Path: /s/one", []),
    ("name: one\nfor the\nPath: /s/one", []),
    ("name:\nPath: /s/one", []),
    ("name: one\nPath:", []),
    ("rename: one\nPath: /s/one", []),
    ("", []),
]


@pytest.mark.parametrize(("inner", "expected"), SKILLS)
def test_every_attached_skill_is_told(inner: str, expected: list[dict[str, Any]]) -> None:
    """By the two lines of its head; what a skill's own text says makes none."""
    block = injected("manually_attached_skills", inner.strip())
    assert told(row("user", f"{attached(inner)}\n{query('/one go')}")) == [prompt("/one go"), block, *expected]
    assert told(row("user", f"{query('/one go')}\n{attached(inner)}")) == [prompt("/one go"), block, *expected]
    assert told(row("user", f"{attached(inner)}\n/one go")) == [prompt("/one go"), block, *expected]


def test_skills_are_attached_inside_their_block_and_nowhere_else() -> None:
    """The same lines of a person's are words."""
    said = "name: one\nPath: /s/one"
    assert told(row("user", query(said))) == [prompt(said)]
    assert told(row("user", said)) == [prompt(said)]
    assert told(row("assistant", said)) == [{"kind": "response", "text": said}]


CONTROL = "Briefly inform the user about the task result and go on."
NOTICE = "<system_notification>\n<task>\nkind: shell\n</task>\n</system_notification>"
TASK = "<task>\nkind: shell\n</task>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{NOTICE}\n{query(CONTROL)}", [injected("task-notification", TASK), injected("instruction", CONTROL)]),
        (f"{NOTICE}\n<user_query>{CONTROL}</user_query>", None),
        (NOTICE, [injected("task-notification", TASK)]),
        (query(CONTROL), [injected("task-notification", CONTROL)]),
        (CONTROL, [injected("task-notification", CONTROL)]),
        (f"{NOTICE}\n{query('And?')}", [prompt("And?"), injected("system_notification", TASK)]),
        (f"{NOTICE}\nAnd?", [prompt("And?"), injected("system_notification", TASK)]),
        (
            f"<timestamp>Mon</timestamp>\n{NOTICE}\n{query(CONTROL)}",
            [
                injected("task-notification", TASK),
                injected("timestamp", "Mon"),
                injected("instruction", CONTROL),
            ],
        ),
        (query(f"I said: {CONTROL}"), [prompt(f"I said: {CONTROL}")]),
    ],
)
def test_what_the_client_asks_in_a_persons_place(text: str, expected: list[dict[str, Any]] | None) -> None:
    """The end of something in the background sets the model going; nobody typed it, and it opens one turn."""
    whole = [injected("task-notification", TASK), injected("instruction", CONTROL)]
    assert told(row("user", text)) == (whole if expected is None else expected)


def test_in_a_subagent_nobody_types() -> None:
    """Its user rows are its task; what the client put beside it is told as ever."""
    mine = {"agent": "a1"}
    assert told(row("user", "Find it."), "a1") == [{**injected("task", "Find it."), **mine}]
    assert told(row("user", query(CONTROL)), "a1") == [{**injected("task", CONTROL), **mine}]
    text = "<user_info>\nu\n</user_info>\n" + query("Go.") + "\n" + attached("name: s\nPath: p")
    assert told(row("user", text), "a1") == [
        {**injected("task", "Go."), **mine},
        {**injected("user_info", "u"), **mine},
        {**injected("manually_attached_skills", "name: s\nPath: p"), **mine},
        {**skill("s", "p"), **mine},
    ]
    assert told(row("user", ""), "a1") == [{**injected("empty", ""), **mine}]


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done.", {"kind": "response", "text": "Done."}),
        ("", {"kind": "response", "text": ""}),
        ("[REDACTED]", {"kind": "thought", "opaque": True, "redacted": True}),
        ("\n[REDACTED] \n", {"kind": "thought", "opaque": True, "redacted": True}),
        ("Done.\n\n[REDACTED]", {"kind": "response", "text": "Done.\n\n[REDACTED]"}),
        ("KEY=[REDACTED]", {"kind": "response", "text": "KEY=[REDACTED]"}),
        ("[redacted]", {"kind": "response", "text": "[redacted]"}),
        (query("x"), {"kind": "response", "text": query("x")}),
    ],
)
def test_what_the_model_says(text: str, expected: dict[str, Any]) -> None:
    """A thought is redacted when nothing but its mark is left; the mark among words may stand for a secret."""
    assert told(row("assistant", text)) == [expected]
    assert told({"role": "assistant", "message": {"content": text}}) == [expected]


def request(name: str, given: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "tool_request", "name": name, **({} if given is None else {"input": given}), **more}


PATCH = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b.py\n*** Move to: c.py\n*** Delete File: d.py\n"

CALLS: list[tuple[str, Any, dict[str, Any]]] = [
    ("Shell", {"command": "ls", "working_directory": "/w"}, {"command": "ls"}),
    ("run_terminal_command_v2", {"command": "ls"}, {"command": "ls"}),
    ("Shell", {"command": 7}, {}),
    ("Read", {"path": "a.py", "offset": 1}, {"reads": ["a.py"]}),
    ("read_file_v2", {"targetFile": "a.py"}, {"reads": ["a.py"]}),
    ("Read", {"path": ""}, {}),
    ("Read", {"path": ["a.py"]}, {}),
    ("Write", {"path": "a.py", "contents": "x"}, {"writes": ["a.py"]}),
    ("StrReplace", {"path": "a.py", "old_string": "x", "new_string": "y"}, {"writes": ["a.py"]}),
    ("EditNotebook", {"target_notebook": "a.ipynb"}, {"writes": ["a.ipynb"]}),
    ("edit_file_v2", {"relativeWorkspacePath": "a.py"}, {"writes": ["a.py"]}),
    ("ApplyPatch", PATCH, {"writes": ["a.py", "b.py", "c.py"]}),
    ("ApplyPatch", {"patch": PATCH}, {}),
    ("Delete", {"path": "a.py"}, {}),
    ("Grep", {"pattern": "x", "path": "a"}, {}),
    ("Glob", {"glob_pattern": "*"}, {}),
    ("Task", {"prompt": "p", "subagent_type": "explore"}, {}),
    ("CallDynamicTool", {"namespace": "user-t", "toolName": "n"}, {"server": "user-t"}),
    ("CallMcpTool", {"server": "user-t", "toolName": "n"}, {"server": "user-t"}),
    ("CallMcpTool", {"serverName": "t", "tool_name": "n"}, {"server": "t"}),
    ("CallMcpTool", {"server_name": "t", "server": ""}, {"server": "t"}),
    ("CallMcpTool", {"server": 7}, {}),
    ("CallMcpTool", {"toolName": "n"}, {}),
    ("GetDynamicTools", {"namespace": "user-t"}, {}),
    ("GetMcpTools", {"server": "user-t"}, {}),
    ("FetchMcpResource", {"server": "user-t", "uri": "u"}, {}),
    ("mcp_t_n", {"a": 1}, {}),
    ("Brand New", {"path": "a.py", "command": "ls"}, {}),
    ("Read", None, {}),
    ("Read", "a.py", {}),
    ("Read", [1], {}),
    ("Read", 7, {}),
]


@pytest.mark.parametrize(("name", "given", "more"), CALLS)
def test_what_tools_are_asked_for(name: str, given: Any, more: dict[str, Any]) -> None:
    """Native names and inputs as they are; the server only of a call of one, paths and commands only where known."""
    assert told(row("assistant", use(name, given))) == [request(name, given, **more)]


def test_long_inputs_are_folded() -> None:
    """A document shows a preview; on demand it has the whole."""
    body = row("assistant", use("Shell", {"command": "x" * 2000}))
    (folded,) = observe(body)
    assert isinstance(folded, ToolRequest)
    assert folded.command is not None
    assert (folded.command.chars, folded.command.text, len(folded.input["command"].preview)) == (2000, None, 1000)
    (whole,) = observe(body, keep=WHOLE)
    assert isinstance(whole, ToolRequest)
    assert whole.command is not None
    assert whole.command.text == "x" * 2000


# --- other rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": "success"}, [{"kind": "turn_end", "status": "success"}]),
        ({"status": "error"}, [{"kind": "turn_end", "status": "error"}]),
        (
            {"status": "error", "error": "no answer"},
            [{"kind": "failure", "text": "no answer"}, {"kind": "turn_end", "status": "error"}],
        ),
        (
            {"status": "error", "error": {"message": "no answer", "code": 5}},
            [{"kind": "failure", "text": "no answer"}, {"kind": "turn_end", "status": "error"}],
        ),
        (
            {"status": "aborted", "error": "by hand"},
            [
                {"kind": "set_aside", "family": "turn_ended/error", "value": "by hand"},
                {"kind": "turn_end", "status": "aborted"},
            ],
        ),
        (
            {"status": "error", "error": "User aborted request"},
            [
                {"kind": "set_aside", "family": "turn_ended/error", "value": "User aborted request"},
                {"kind": "turn_end", "status": "error"},
            ],
        ),
        ({"status": "aborted", "error": " "}, [{"kind": "turn_end", "status": "aborted"}]),
        ({"status": 7, "error": 7}, [{"kind": "turn_end"}]),
        ({"status": "x" * 200}, [{"kind": "turn_end", "status": "x" * 100}]),
        ({}, [{"kind": "turn_end"}]),
    ],
)
def test_the_end_of_a_turn(body: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    """With its status in the client's word; that somebody stopped it is no failure."""
    assert told({"type": "turn_ended", **body}) == expected


def test_an_error() -> None:
    """A failure, in the client's words; without any it says nothing."""
    assert told({"type": "error", "error": "boom"}) == [{"kind": "failure", "text": "boom"}]
    assert told({"type": "error", "error": {"message": "boom"}}) == [{"kind": "failure", "text": "boom"}]
    assert told({"type": "error"}) == [{"kind": "unmodelled", "family": "error"}]
    assert told({"type": "error", "error": ""}) == [{"kind": "unmodelled", "family": "error"}]


# --- silence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "family"),
    [
        ({}, "<object>"),
        ({"message": {"content": []}}, "<object>"),
        ({"role": "system", "message": {"content": "s"}}, "role/system"),
        ({"role": 7}, "role/<object>"),
        ({"role": ["user"], "message": {"content": "s"}}, "role/<object>"),
        ({"type": "checkpoint"}, "checkpoint"),
        ({"type": "user", "message": {"role": "user", "content": "s"}}, "type/user"),
        ({"type": "assistant", "message": {"content": "s"}}, "type/assistant"),
        ({"type": None}, "<object>"),
        ({"role": "user"}, "user"),
        ({"role": "user", "message": {}}, "user"),
        ({"role": "user", "message": "s"}, "user"),
        ({"role": "user", "message": {"content": []}}, "user"),
        ({"role": "user", "message": {"content": 7}}, "user"),
        ({"role": "assistant", "message": {"content": None}}, "assistant"),
        ({"role": "assistant", "parts": [{"type": "text", "text": "s"}]}, "assistant"),
        ([], "<list>"),
        ("s", "<str>"),
        (7, "<int>"),
        (None, "<null>"),
    ],
)
def test_a_row_that_says_nothing_is_carried(body: Any, family: str) -> None:
    """Under its native name, and it makes no node."""
    assert told(body) == [{"kind": "unmodelled", "family": family}]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "t"},
        {"type": "tool_result", "content": "t"},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "tool_use"},
        {"type": "tool_use", "name": ""},
        {"type": "tool_use", "name": 7, "input": {}},
        {"type": ["text"], "text": "t"},
        {"text": "t"},
        {},
        "t",
        7,
        None,
        [],
    ],
)
def test_an_unknown_block_is_carried_and_its_brothers_live(block: Any) -> None:
    """In rows of both roles."""
    name = block.get("type") if isinstance(block, dict) else "<scalar>"
    carried = {"kind": "unmodelled", "family": f"block/{name if isinstance(name, str) else '<object>'}"}
    body: dict[str, Any] = {"role": "assistant", "message": {"content": [block]}}
    assert told(body) == [carried]
    body = {"role": "user", "message": {"content": [block, {"type": "text", "text": "Go."}]}}
    assert told(body) == [prompt("Go."), carried]
    body = {"role": "assistant", "message": {"content": [{"type": "text", "text": "a"}, block, use("Read", {})]}}
    assert [one["kind"] for one in told(body)] == ["response", "unmodelled", "tool_request"]


def test_blocks_of_one_role_mean_nothing_in_the_other() -> None:
    """People call no tools, and the model sends no pictures."""
    assert told(row("user", use("Read", {}))) == [{"kind": "unmodelled", "family": "block/tool_use"}]
    assert told(row("assistant", {"type": "image"})) == [{"kind": "unmodelled", "family": "block/image"}]


def test_hook_payloads_are_carried_under_the_name_of_their_event() -> None:
    """They are not read yet."""
    for raw, argv, family in (
        (b'{"hook_event_name":"stop"}', (), "stop"),
        (b"{}", ("hook.py", "cursor", "stop"), "stop"),
        (b"{}", (), "<object>"),
    ):
        payload = Payload(ref=Ref("hooks", 1, 1), n=1, harness="cursor", argv=argv, raw=raw)
        assert PARSER.observe(payload) == [Unmodelled(ref=payload.ref, family=family)]


def test_other_side_files_are_kept_and_not_looked_at() -> None:
    """Whatever they hold."""
    for name in ("s1.png", "txt", "s1.txt.bak"):
        file = SideFile(ref=FILE, native_id=name, stream=None, raw=b"user:\nhi\n")
        assert PARSER.observe(file) == [SetAside(ref=FILE, family="side-file")]


# --- texts ------------------------------------------------------------------------------------------------------------


def read(raw: str | bytes, stream: str | None = None, *, superseded: bool = False) -> list[Observation]:
    data = raw.encode() if isinstance(raw, str) else raw
    return PARSER.observe(SideFile(ref=FILE, native_id="s1.txt", stream=stream, raw=data, superseded=superseded))


def words(raw: str | bytes, **more: Any) -> list[dict[str, Any]]:
    return [plain(msgspec.to_builtins(one)) for one in read(raw, **more)]


def response(text: str) -> dict[str, Any]:
    return {"kind": "response", "text": text}


def thought(text: str) -> dict[str, Any]:
    return {"kind": "thought", "text": text}


def came(value: Any) -> dict[str, Any]:
    return {"kind": "set_aside", "family": "tool-result", **({} if value is None else {"value": value})}


def asked(answer: str, expected: list[dict[str, Any]]) -> None:
    """What an answer says, in each way that it may be written."""
    blank = f"user:\n{query('Go.')}\n\nassistant:\n{answer}\n\nuser:\n{query('Thanks.')}"
    assert words(blank) == [prompt("Go."), *expected, prompt("Thanks.")]
    assert words(blank.replace("\n", "\r\n")) == [prompt("Go."), *expected, prompt("Thanks.")]
    assert words("\ufeff" + blank.replace("assistant:", "A:") + "\n") == [prompt("Go."), *expected, prompt("Thanks.")]


ANSWERS = [
    ("Done.\n\nAll of it.", [response("Done.\n\nAll of it.")]),
    ("", []),
    ("[REDACTED]", [{"kind": "thought", "opaque": True, "redacted": True}]),
    (
        (
            "I look.\n[Tool call] Read\n  path: /a b.py\n  limit: 4\n[Tool call] Glob\n\n"
            "[Tool result] Read\n\n[Tool result] Glob"
        ),
        [
            response("I look."),
            request("Read", {"path": "/a b.py", "limit": "4"}, reads=["/a b.py"]),
            request("Glob", {}),
            came("Read"),
            came("Glob"),
        ],
    ),
    (
        (
            "[Tool call] StrReplace\n  path: a.md\n  old_string: # T\n\n  path: no argument\n"
            "  new_string: # U\n  other: none\n"
        ),
        [
            request(
                "StrReplace",
                {"path": "a.md", "old_string": "# T\n\n  path: no argument", "new_string": "# U\n  other: none"},
                writes=["a.md"],
            )
        ],
    ),
    (
        '[Tool call] Shell\n  command: python -c "\nprint(1)"\n  description: d',
        [request("Shell", {"command": 'python -c "\nprint(1)"', "description": "d"}, command='python -c "\nprint(1)"')],
    ),
    (
        "[Tool call] Write\n  path: a\n  contents:\n\n[Tool result] Write",
        [request("Write", {"path": "a", "contents": ""}, writes=["a"]), came("Write")],
    ),
    (
        "[Tool call] mcp_t_n\n  text: one\ntwo\n  a: 1",
        [request("mcp_t_n", "  text: one\ntwo\n  a: 1")],
    ),
    ("[Tool call] mcp_t_n\n  a: 1\n  a: 2", [request("mcp_t_n", "  a: 1\n  a: 2")]),
    ("[Tool call] Read\n  path=a.py", [request("Read", "  path=a.py")]),
    ("[Tool call] Write\nno argument", [request("Write", "no argument")]),
    (
        "[Tool result]\n  1 line\n\tmore\nIt is good.",
        [came({"name": "", "text": "1 line\n\tmore"}), response("It is good.")],
    ),
    ("[Tool result]", [came(None)]),
    ("[Thinking] Hm.\nMore.\n\nI see.\nYes.", [thought("Hm.\nMore."), response("I see.\nYes.")]),
    ("[Thinking] Hm.\n[Tool call] Glob", [thought("Hm."), request("Glob", {})]),
    ("[Thinking]\n  Hm.\n  More.\nI see.", [thought("Hm.\n  More."), response("I see.")]),
    ("[Thinking]\nHm.\n\nI see.", [thought("Hm."), response("I see.")]),
    ("[Thinking]", [{"kind": "thought", "opaque": True}]),
    ("[Tool call] of no name I know", [response("[Tool call] of no name I know")]),
    ("[Tool call]", [response("[Tool call]")]),
    ("[Tool result] was good", [response("[Tool result] was good")]),
    (" [Tool call] Read", [response("[Tool call] Read")]),
    ("See [Tool call] Read", [response("See [Tool call] Read")]),
    ("[Thinking]is a mark", [thought("is a mark")]),
    ("In YAML:\nuser:\n  name: x", [response("In YAML:\nuser:\n  name: x")]),
    ("[Image]", [response("[Image]")]),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_what_an_answer_in_a_text_says(answer: str, expected: list[dict[str, Any]]) -> None:
    """Marks at the begin of a line count, and only those; results that bring nothing are signs, not results."""
    asked(answer, expected)


def test_the_pieces_of_a_text_have_their_place() -> None:
    """All stand in the file, one part each; the line of its head names a message."""
    seen = read("\nuser:\nGo.\n\nassistant:\na\n[Tool call] Glob\n\nassistant:\nb")
    assert [(type(one), one.part, one.step) for one in seen] == [
        (Prompt, 0, None),
        (Response, 1, "files/0001:1:0/5"),
        (ToolRequest, 2, "files/0001:1:0/5"),
        (Response, 3, "files/0001:1:0/9"),
    ]
    for one in seen:
        assert (one.ref, one.at, one.id, one.turn, one.agent, one.via) == (FILE, None, None, None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user:\nhello\nassistant:\nworld", [prompt("hello"), response("world")]),
        ("user:\na\nassistant:\nb\nuser:\nc\n", [prompt("a"), response("b"), prompt("c")]),
        ("assistant:\nb", [response("b")]),
        ("A:\nb\n\nassistant:\nc", [response("b\n\nassistant:\nc")]),
        ("assistant:\nQ: why?\n\nA:\nso", [response("Q: why?\n\nA:\nso")]),
        ("user:\n" + query("a\n\nassistant:\nb") + "\n\nassistant:\nc", [prompt("a\n\nassistant:\nb"), response("c")]),
        ("user:\n<user_query>\na\n\nassistant:\nc", [prompt("<user_query>\na"), response("c")]),
        ("user:\n\nassistant:\nc", [injected("empty", ""), response("c")]),
        ("user:\na\n\nassistant:\nb\nuser:\nc\n\nuser:\nd", [prompt("a"), response("b\nuser:\nc"), prompt("d")]),
        ("user:\n[Image]\nSame?", [prompt("Same?", images=1)]),
        ("user:\n" + attached("name: s\nPath: p") + "\n" + query("/s"), None),
        ("user: \na", [{"kind": "unmodelled", "family": "transcript-text"}]),
        ("User:\na", [{"kind": "unmodelled", "family": "transcript-text"}]),
        ("To all:\n\nuser:\na", [{"kind": "unmodelled", "family": "transcript-text"}]),
        ('{"role":"user"}\n', [{"kind": "unmodelled", "family": "transcript-text"}]),
        ("\n\n", [{"kind": "unmodelled", "family": "transcript-text"}]),
        ("", [{"kind": "unmodelled", "family": "transcript-text"}]),
        ("assistant:\n\n", [{"kind": "unmodelled", "family": "transcript-text"}]),
    ],
)
def test_who_speaks_in_a_text(text: str, expected: list[dict[str, Any]] | None) -> None:
    """A head stands alone on its line, set apart where the file sets them apart, and never inside a query."""
    skills = [prompt("/s"), injected("manually_attached_skills", "name: s\nPath: p"), skill("s", "p")]
    assert words(text) == (skills if expected is None else expected)


@pytest.mark.parametrize("more", [{"stream": "main"}, {"superseded": True}, {"stream": "main", "superseded": True}])
def test_a_text_that_would_tell_things_twice_is_counted(more: dict[str, Any]) -> None:
    """Beside rows, or with a later version of itself, it makes no node."""
    text = "user:\na\n\nassistant:\n[Thinking] t\n\nb\n[Tool call] Read\n\n[Tool result] Read\n\nassistant:\nc"
    counts = {"prompts": 1, "responses": 2, "thoughts": 1, "tool_calls": 1}
    assert words(text, **more) == [{"kind": "set_aside", "family": "transcript-text", "value": counts}]
    nothing = {"prompts": 0, "responses": 0, "thoughts": 0, "tool_calls": 0}
    assert words("no transcript", **more) == [{"kind": "set_aside", "family": "transcript-text", "value": nothing}]


def test_bytes_that_are_no_text_are_replaced_and_told() -> None:
    """The rest of the file is read."""
    seen = read(b"user:\na\xff\n\nassistant:\nb\x00")
    assert [type(one) for one in seen] == [Mended, Prompt, Response]
    assert seen[0] == Mended(ref=FILE, reason="replaced-bytes")
    assert [plain(msgspec.to_builtins(one)) for one in seen[1:]] == [prompt("a\ufffd"), response("b\x00")]


@pytest.mark.slow
def test_a_long_text_is_read_in_one_pass() -> None:
    """Fifty megabytes, and the lines that would cost most if each were looked at with all the others."""
    answer = b"assistant:\n" + b"A line of an answer that is long.\n" * 200 + b"[Tool call] Read\n  path: a.py\n\n"
    unit = b"user:\n<user_query>\nGo.\n</user_query>\n\n" + answer + b"[Tool result] Read\n\n"
    times = (50 << 20) // len(unit)
    kinds = Counter(map(type, read(unit * times)))
    assert kinds == {Prompt: times, Response: times, ToolRequest: times, SetAside: times}
    for line in (b"<a>\n", b"<user_query>\n", b"</user_query>\n", b"[Image]\n", b"x <a> " * 20, b"  k: v\n"):
        assert len(read(b"user:\n" + line * (5_000_000 // len(line)))) == 1
        assert len(read(b"assistant:\n[Tool call] Write\n" + line * (5_000_000 // len(line)))) == 1


# --- noise ------------------------------------------------------------------------------------------------------------

QUIET = (SetAside, Unmodelled, Unreadable, Mended)
PIECES = [
    "user:", "assistant:", "A:", "tool:", "", " ", "\r", "[Tool call] Read", "[Tool call]", "[Tool result] Read",
    "[Tool result]", "[Thinking] t", "[Thinking]", "[Image]", "  path: a", "  a", "text", "<user_query>",
    "</user_query>", "<user_query>x</user_query>", "<system_reminder>", "</system_reminder>",
    "<manually_attached_skills>", "</manually_attached_skills>", "name: s", "Path: p", "<image_files>",
    "</image_files>", "1. a", "<system_notification>", "</system_notification>", CONTROL, "[REDACTED]", "\ufeff",
    "\u2028", "\x00",
]  # fmt: skip
LINES = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=40).map("\n".join)


@given(st.one_of(st.binary(max_size=300), LINES.map(lambda text: text.encode("utf-8", "replace"))))
def test_no_file_is_too_odd(raw: bytes) -> None:
    """Whatever stands in a text: no exception, parts in order, and no node unless it begins as these texts do."""
    seen = read(raw)
    assert not any(isinstance(one, Unreadable) for one in seen)
    assert [one.part for one in seen] == list(range(len(seen)))
    head = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").lstrip(b" \t\r\n").split(b"\n")[0]
    if head not in (b"user:", b"assistant:", b"A:"):
        assert all(isinstance(one, QUIET) for one in seen)
    (aside,) = (one for one in read(raw, "main") if not isinstance(one, Mended))
    kinds = Counter(map(type, seen))
    assert isinstance(aside, SetAside)
    assert aside.value == {
        "prompts": kinds[Prompt],
        "responses": kinds[Response],
        "thoughts": kinds[Thought],
        "tool_calls": kinds[ToolRequest],
    }


@given(LINES)
def test_no_prompt_is_too_odd(text: str) -> None:
    """One message opens one turn at most, whatever tags it holds, and no word of it is lost."""
    text = text.encode("utf-8", "replace").decode()
    seen = observe(row("user", text), keep=WHOLE)
    assert not any(isinstance(one, Unreadable) for one in seen)
    opening = [
        isinstance(one, Prompt) or (isinstance(one, Injected) and one.source == "task-notification") for one in seen
    ]
    assert sum(opening) <= 1
    assert not any(opening[1:])
    assert all(isinstance(one, (Prompt, Injected, Skill)) for one in seen)
    heard = "".join(one.text.text or one.text.preview for one in seen if isinstance(one, (Prompt, Injected)))
    for word in ("text", "name: s", "Path: p", "1. a", CONTROL):
        assert heard.count(word) == text.count(word)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["role", "type", "message", "content", "text", "name", "input", "status", "error", "server", "path", "command"]
    ), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
WORDS = st.sampled_from(["user", "assistant", "turn_ended", "error", "text", "tool_use", "image", "Read", "ApplyPatch"])


@given(
    st.dictionaries(st.sampled_from(["role", "type", "message", "status", "error"]), st.one_of(WORDS, JSON), max_size=5)
)
def test_no_row_is_too_odd(body: dict[str, Any]) -> None:
    """Rows of the right keys and the wrong values are carried or read, never an exception."""
    seen = observe(body)
    assert seen
    assert not any(isinstance(one, Unreadable) for one in seen)


@given(st.binary(max_size=200))
def test_bytes_make_no_node(raw: bytes) -> None:
    """Noise in place of a row is carried."""
    assert all(isinstance(one, QUIET) for one in observe(raw))
