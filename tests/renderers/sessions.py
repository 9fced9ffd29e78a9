"""A session made by hand that has one of everything a terminal shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from forensic.model import (
    FOLDED,
    Compaction,
    Execution,
    Failure,
    Finding,
    HistoryFrame,
    HookRun,
    Injected,
    Node,
    Observation,
    Outcome,
    Parsed,
    Permission,
    Prompt,
    Ref,
    Response,
    Session,
    SessionEnd,
    SessionFrame,
    SessionStart,
    SetAside,
    Setting,
    Skill,
    StepFrame,
    SubagentFrame,
    SubagentStop,
    SystemPrompt,
    Text,
    Thought,
    ToolRequest,
    ToolResult,
    TurnEnd,
    TurnFrame,
    Unmodelled,
)

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
REF = Ref("main", 1, 0)


def text(words: str) -> Text:
    return FOLDED.text(words)


def node(seen: Any, *children: Node, outcome: Outcome | None = None) -> Node:
    return Node(seen=seen, outcome=outcome, children=children)


def call(name: str, given: Any, word: str = "ok", *children: Node, ms: float | None = 312.0, **more: Any) -> Node:
    result = None
    if word != "no_result":
        result = ToolResult(
            ref=REF, text=text("it went as it went\nand so on"), exit_code=1 if word == "error" else None
        )
    outcome = Outcome(outcome=word, duration_ms=ms, measured=None if ms is None else "reported", result=result)
    return node(ToolRequest(ref=REF, name=name, input=given, **more), *children, outcome=outcome)


def turn(number: int | None, *children: Node, source: str | None = None, aborted: bool = False) -> Node:
    at = START + timedelta(minutes=number or 0)
    until = at + timedelta(seconds=45)
    return node(
        TurnFrame(id=f"p{number}", number=number, source=source, aborted=aborted, at=at, until=until), *children
    )


def step(*children: Node) -> Node:
    return node(StepFrame(id="m1"), *children)


def usage(level: str = "exact", **counts: int | None) -> dict[str, Any]:
    fields = ("input", "output", "cache_read", "cache_write", "cache_write_5m", "cache_write_1h", "reasoning", "total")
    figures = {f"{field}_tokens": counts.get(field) for field in fields}
    reasons = [] if level == "exact" else [{"level": level, "reason": "rows without a stop reason", "count": 2}]
    return {**figures, "calls": 12, "certainty": {"level": level, "reasons": reasons}}


def session(*children: Node, title: str | None = "Fix the parser", level: str = "exact", **fields: Any) -> Session:
    total = usage(level, input=1234567, output=2345, cache_read=0)
    return Session(
        harness="claude",
        session="3f2a9c1e-1111-4222-8333-abcdefabcdef",
        producer=("2.1.260", "2.1.269"),
        parser=Parsed("claude", 1),
        replay_version=1,
        content_id="9fe1c2" * 10 + "abcd",
        usage={
            "total": total,
            "by_model": {"large": total},
            "by_agent": {"main": total},
            "by_turn": {"p1": total},
            "by_day": {"2026-05-01": total},
            "certainty": total["certainty"],
            "raw_vs_deduped": 2.1234,
            "from_progress": {**total, "calls": 0},
            "inherited": None,
            "units": {},
            "idless_records": 0,
            "unusable_records": 0,
        },
        summary=summary(),
        tree=node(SessionFrame(id="3f2a9c1e-1111-4222-8333-abcdefabcdef", title=title), *children),
        aside=fields.pop("aside", []),
        findings=fields.pop("findings", []),
    )


def summary() -> dict[str, Any]:
    return {
        "turns": 2,
        "aborted_turns": 0,
        "steps": 3,
        "tool_calls": 12,
        "nested_calls": 0,
        "failures": 1,
        "refused": 1,
        "interrupted": 0,
        "unanswered": 2,
        "not_told": 0,
        "rows": {
            "total": 100,
            "read": 90,
            "set_aside": 10,
            "unmodelled": 0,
            "unreadable": 0,
            "blank": 0,
            "mended": 0,
            "repeated": 3,
        },
        "started": START,
        "ended": START + timedelta(minutes=3),
        "wall_ms": 180000,
        "busy_ms": None,
        "tools": {
            "Bash": {"calls": 3, "failures": 1, "refused": 1, "unanswered": 0, "duration_ms": 3210.0},
            "Read": {"calls": 9, "failures": 0, "refused": 0, "unanswered": 2, "duration_ms": None},
        },
        "retries": 1,
        "api_errors": 0,
        "files_read": [f"src/{number}.py" for number in range(30)],
        "files_written": ["a [red].py"],
        "commands": [text("pytest -q\x1b[2J")],
        "skills": {"pdf": ["available", "invoked"]},
        "compactions": 1,
        "subagents": 1,
        "prompts": 2,
        "thoughts": 1,
        "responses": 3,
        "models": ["large"],
    }


def everything() -> Session:
    """A turn with each kind of line, and a second one that nobody typed."""
    subagent = node(
        SubagentFrame(
            id="a1b2c3d4",
            agent_type="Explore",
            description="Explore the code",
            proof="side-file",
            at=START,
            until=START + timedelta(seconds=80),
        ),
        node(Injected(ref=REF, text=text("Look at all files"), source="task")),
        call("Glob", {"pattern": "**/*.py"}, ms=3),
    )
    loose = node(SubagentFrame(id="zz"), call("Read", {"file_path": "x"}, "error"))
    return session(
        node(SystemPrompt(ref=REF, text=text("You are an agent.\nBe kind."))),
        turn(
            1,
            node(Prompt(ref=REF, text=text("Fix the parser"))),
            step(
                node(Thought(ref=REF, text=text("I should look\nfirst"))),
                node(Thought(ref=REF, opaque=True)),
                node(Thought(ref=REF, opaque=True)),
                node(Response(ref=REF, text=text("I will look.\n\n" + "\n".join(f"- item {n}" for n in range(12))))),
                call("Read", {"file_path": "a.py", "limit": 3}),
                call("Read", {"file_path": "a.py", "limit": 3}, ms=88.0),
                call(
                    "Bash", {"description": "test", "command": "pytest -q"}, "error", command=text("pytest -q\n&& ls")
                ),
                call("mcp__gh__search", {"n": 1, "items": [1, 2]}, "denied", server="gh"),
                call("Grep", {"pattern": "foo.*", "path": "src"}, "no_result", ms=None),
                call(
                    "Task",
                    {"prompt": "x" * 3000, "description": "Explore the code"},
                    "ok",
                    node(Permission(ref=REF, decision="allow", origin="user")),
                    subagent,
                    ms=80000.0,
                ),
            ),
            node(Skill(ref=REF, name="pdf", stage="invoked")),
            node(HookRun(ref=REF, event="PreToolUse", name="PreToolUse", outcome="success")),
            node(Compaction(ref=REF, trigger="auto", before_tokens=155000)),
            node(Failure(ref=REF, text=text("Overloaded"), status=529, attempt=1, attempts=10)),
        ),
        turn(
            None,
            node(Injected(ref=REF, text=text("a task is done"), source="task-notification")),
            node(Prompt(ref=REF, text=text("and\nnow"), images=2)),
            source="task-notification",
            aborted=True,
        ),
        loose,
        aside=[SetAside(ref=REF, family="progress")] * 12 + [Unmodelled(ref=REF, family="weird")],
        findings=[
            Finding(kind="unreadable", note="could not be read: torn", ref=REF, count=3),
            Finding(kind="damaged", note="x", problem=True),
        ],
    )


def ran(name: str, given: Any, word: str = "ok", **more: Any) -> Node:
    """A tool that ran without a request of the model's."""
    result = ToolResult(ref=REF, text=text("not there"), exit_code=1 if word == "error" else None)
    outcome = Outcome(outcome=word, duration_ms=2.0, measured="reported", result=result)
    return node(Execution(ref=REF, name=name, input=given, **more), outcome=outcome)


def forked() -> Session:
    """A thread that took along another one's history, and a call inside of which tools ran."""
    copied = (
        node(SessionStart(ref=REF, source="cli", thread="0b")),
        node(Prompt(ref=REF, text=text("Name a colour."))),
        node(ToolRequest(ref=REF, name="shell", input={"command": "ls"})),
        node(ToolResult(ref=REF, text=text("a.txt"))),
        node(ToolRequest(ref=REF, name="shell", input={"command": "pwd"})),
        node(Response(ref=REF, text=text("Blue."))),
        node(TurnEnd(ref=REF, status="completed")),
    )
    made = session(
        node(SessionStart(ref=REF, source="cli", thread="0c", forked_from="0b")),
        node(HistoryFrame(id="0b", rule="burst", at=START), *copied),
        turn(
            1,
            node(Prompt(ref=REF, text=text("Another one."))),
            call(
                "exec",
                "await both();",
                "ok",
                ran("exec_command", {}, command=text("cat a.txt")),
                ran("exec_command", {}, "error", command=text("cat b.txt")),
                ran("apply_patch", {"changes": {"b.txt": "add"}}, writes=("b.txt",)),
                ran("echo", {"text": "joined"}, server="demo"),
            ),
            call("apply_patch", "*** Begin Patch", writes=("a.txt", "b.txt")),
            node(
                ToolRequest(ref=REF, name="web_search", input={"query": "x"}),
                outcome=Outcome(outcome="not_told"),
            ),
            ran("user_shell", {}, command=text("git status")),
            node(SubagentStop(ref=REF, spawned="0d", status="completed")),
            node(TurnEnd(ref=REF, status="completed")),
        ),
        node(
            SubagentFrame(id="0d", agent_type="Ada", description="Ada"),
            node(SessionStart(ref=REF, source="subagent", thread="0d", parent="0c")),
            node(SubagentStop(ref=REF, spawned="0d", status="errored")),
        ),
        node(SessionStart(ref=REF, source="start")),
        node(SessionEnd(ref=REF, reason="routine")),
        title="Another one.",
    )
    made.usage["inherited"] = {**usage(input=1000, output=40, cache_read=8000), "calls": 1}
    return made


def untimed() -> Session:
    """A session of a format that tells no times, no results and no usage."""
    asked = ToolRequest(ref=REF, name="Read", input={"path": "a.py"})
    opened = TurnFrame(id="derived-1", number=1)
    told = (node(Prompt(ref=REF, text=text(""), images=2)), node(asked, outcome=Outcome(outcome="not_told")))
    made = session(node(opened, *told, node(TurnEnd(ref=REF, status="success"))), title=None)
    nothing: dict[str, Any] = {**usage("unknown"), "calls": 0}
    nothing["certainty"]["reasons"] = [{"level": "unknown", "reason": "formats that tell no usage", "count": 1}]
    made.producer = ()
    made.usage |= {"total": nothing, "certainty": nothing["certainty"], "raw_vs_deduped": None}
    made.usage |= {f"by_{name}": {} for name in ("model", "agent", "turn", "day")}
    made.summary |= {"turns": 1, "steps": 0, "tool_calls": 1, "failures": 0, "refused": 0, "unanswered": 0}
    made.summary |= {"not_told": 1, "subagents": 0, "retries": 0, "compactions": 0, "models": [], "skills": {}}
    made.summary |= {"started": None, "ended": None, "wall_ms": None, "busy_ms": None, "commands": []}
    made.summary |= {"files_read": [], "files_written": []}
    made.summary["tools"] = {"Read": {"calls": 1, "failures": 0, "refused": 0, "unanswered": 0, "duration_ms": None}}
    return made


def evil(words: str) -> Session:
    """The same words in every place that a transcript can put words in."""
    kinds: list[Observation] = [
        Prompt(ref=REF, text=text(words)),
        Injected(ref=REF, text=text(words), source=words),
        Thought(ref=REF, text=text(words)),
        Response(ref=REF, text=text(words)),
        SystemPrompt(ref=REF, text=text(words)),
        Permission(ref=REF, decision=words, origin=words),
        HookRun(ref=REF, event=words, name=words, outcome=words),
        Compaction(ref=REF, trigger=words),
        Failure(ref=REF, text=text(words)),
        Skill(ref=REF, name=words, stage=words),
        Unmodelled(ref=REF, family=words),
        SessionStart(ref=REF, source=words, thread=words, parent=words, forked_from=words),
        SessionEnd(ref=REF, reason=words),
        TurnEnd(ref=REF, status=words),
        SubagentStop(ref=REF, spawned=words, status=words),
        Setting(ref=REF, model=words, effort=words),
    ]
    frame = SubagentFrame(id=words, agent_type=words, description=words)
    made = session(
        turn(None, *(node(kind) for kind in kinds), call(words, {words: words}, words), source=words),
        node(HistoryFrame(id=words, rule=words), *(node(kind) for kind in kinds)),
        call(words, words, words, ran(words, {words: words}, words, writes=(words,)), writes=(words, words)),
        node(frame),
        title=words,
        aside=[SetAside(ref=REF, family=words)],
        findings=[Finding(kind=words, note=words, ref=Ref(words, 1, 1))],
    )
    made.harness = made.session = made.content_id = words
    made.producer = (words,)
    made.usage["units"] = {words: 1}
    made.usage["by_model"] = {words: made.usage["total"]}
    made.usage["by_agent"] = {"main": made.usage["total"], words: made.usage["total"]}
    made.summary["tools"] = {words: made.summary["tools"]["Bash"]}
    made.summary["commands"] = [text(words)]
    made.summary["files_read"] = made.summary["files_written"] = made.summary["models"] = [words]
    made.summary["skills"] = {words: [words]}
    return made
