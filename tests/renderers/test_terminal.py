"""What a person sees of a session: in order, a line each, and never anything that a transcript could smuggle in."""

from __future__ import annotations

import io
import re
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from renderers.sessions import (
    REF,
    START,
    call,
    everything,
    evil,
    forked,
    node,
    ran,
    session,
    step,
    text,
    turn,
    untimed,
    usage,
)
from rich.cells import cell_len
from rich.console import Console

from forensic.model import (
    WHOLE,
    Finding,
    HookRun,
    Injected,
    Node,
    Observation,
    Outcome,
    Permission,
    Prompt,
    Response,
    Session,
    SetAside,
    Skill,
    SubagentFrame,
    Text,
    Thought,
    ToolRequest,
    TurnEnd,
    TurnFrame,
)
from forensic.renderers import terminal
from forensic.renderers.wording import clean, count, duration, figure, one_line, short_id, span, words_of

TREE = """\
Fix the parser
claude 2.1.269 (and 1 earlier version) · session 3f2a9c1e-1111-4222-833…
2026-05-01 12:00:00 → 12:01:45 UTC · 1m 45s · content 9fe1c29fe1c2 ·
parser claude 1
· system prompt 26 characters: You are an agent. Be kind.

Turn 1 · 12:01 · Fix the parser  45.0s · 7 calls · 1 failed
│ ○ I should look first
│   I will look.
│   - item 0
│   - item 1
│   … +10 lines
│ ● Read a.py ×2  400ms ✓
│ ● Bash pytest -q && ls  312ms ✗ exit 1  it went as it went and so on
│ ● mcp__gh__search items: 2 items  312ms ⊘ denied  it went as it went…
│ ● Grep foo.* … no result
│ ● Task Explore the code  1m 20s ✓  allow by user
│ │ ◆ Explore Explore the code  1m 20s · a1b2c3d4 · 1 call
│ │ │ · task Look at all files
│ │ │ ● Glob **/*.py  3ms ✓
│ · skill pdf invoked
│ · compaction auto from 155,000 tokens
│ · failure 529 attempt 1 of 10 Overloaded

Turn by task-notification · 12:00 · a task is done  45.0s · aborted
│ ❯ and
│   now
│   +2 images
◆ subagent · zz · 1 call · 1 failed · started by no known call
│ ● Read x  312ms ✗ exit 1  it went as it went and so on

· unreadable: could not be read: torn ×3  main:1:0
! damaged: x
laid aside: progress 12, opaque thought 2, hook run success 1,
            unmodelled weird 1
2 turns and 1 by task-notification · 8 calls · 2 failed ·
tokens 1,234,567 input, 2,345 output
"""

SUMMARY = """\
session      3f2a9c1e-1111-4222-8333-abcdefabcdef
harness      claude 2.1.260 2.1.269
content      9fe1c29fe1c2
models       large
time         2026-05-01 12:00:00 → 12:03:00 UTC · 3m 00s, busy -
turns        2 (3 steps, 1 subagent)
tool calls   12, 1 failed, 1 refused, 2 unanswered
messages     3 responses, 1 thought
trouble      0 API errors, 1 retried
compactions  1
rows         100 (90 read, 10 set aside, 3 repeated)

Tokens
         calls        input   output  cache read  cache write  reasoning
  total     12  ≥ 1,234,567  ≥ 2,345         ≥ 0            -          -
  lower bound: rows without a stop reason (2)
  rows add up to 2.1234 times these totals: copies are counted once

Tools
  tool  calls  failed  refused  unanswered  time
  Read      9       0        0           2  -
  Bash      3       1        1           0  3.2s

Commands
  pytest -q

Files written
  a [red].py

Files read
"""

FORKED = """\
Another one.
claude 2.1.269 (and 1 earlier version) · session 3f2a9c1e-1111-4222-833…
2026-05-01 12:00:00 → 12:01:45 UTC · 1m 45s · content 9fe1c29fe1c2 ·
parser claude 1
· session start cli, forked from 0b
◇ history of 0b · 1 prompt, 1 response, 2 calls · told apart by burst

Turn 1 · 12:01 · Another one.  45.0s · 3 calls · 5 more run · 1 failed
│ ● exec await both();  312ms ✓
│ │ ● exec_command cat a.txt  2ms ✓
│ │ ● exec_command cat b.txt  2ms ✗ exit 1  not there
│ │ ● apply_patch b.txt  2ms ✓
│ │ ● echo joined  2ms ✓
│ ● apply_patch a.txt, b.txt  312ms ✓
│ ● web_search x -
│ ● user_shell git status  2ms ✓
◆ Ada · 0d · started by no known call
│ · session start subagent, spawned by 0c
│ · subagent stop errored
· session start
· session end routine

2 turns · 3 calls · 5 more run · 1 failed ·
tokens 1,234,567 input, 2,345 output
"""

HISTORY = """◇ history of 0b · 1 prompt, 1 response, 2 calls · told apart by burst
│ · session start cli
│ ❯ Name a colour.
│ ● shell ls
│ · tool result a.txt
│ ● shell pwd
│   Blue.

Turn 1"""

UNTIMED = """untitled session
claude · session 3f2a9c1e-1111-4222-8333-abcdefabcdef
content 9fe1c29fe1c2 · parser claude 1

Turn 1 · 1 call
│ ❯ +2 images
│ ● Read a.py -

1 turn · 1 call · tokens unknown
"""

UNTIMED_SUMMARY = """session      3f2a9c1e-1111-4222-8333-abcdefabcdef
harness      claude
content      9fe1c29fe1c2
models       -
time         -
turns        1
tool calls   1, 1 with no outcome told
messages     3 responses, 1 thought
trouble      0 API errors, 0 retried
compactions  0
rows         100 (90 read, 10 set aside, 3 repeated)

Tokens
  unknown: formats that tell no usage (1)

Tools
  tool  calls
  Read      1
"""

FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2065-\u206f\ud800-\udfff\U000e0000-\U000e0fff]"
)


def drawn(what: Session, *, width: int = 72, form: str = "tree", encoding: str = "utf-8", whole: bool = False) -> str:
    raw = io.BytesIO()
    page = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(file=page, width=width)
    if form == "tree":
        terminal.tree(what, console, whole=whole)
    else:
        terminal.summary(what, console)
    page.flush()
    return raw.getvalue().decode(encoding)


def test_tree() -> None:
    """Every kind of node has its line, runs of the same line are counted, and texts are folded."""
    assert drawn(everything()) == TREE


def test_summary() -> None:
    """Figures that are a lower bound say so, unknown ones are a dash, and a long list says how much is left out."""
    shown = drawn(session(level="lower_bound"), width=90, form="summary")
    assert shown.startswith(SUMMARY)
    assert shown.endswith("  src/24.py\n  … and 5 more\n\nSkills\n  skill  seen as\n  pdf    available, invoked\n")


def test_history_is_one_line() -> None:
    """What came along from another thread is counted in one line, and nowhere else; asked for, it is told as it was."""
    assert drawn(forked()) == FORKED
    assert HISTORY in drawn(forked(), whole=True)


def test_calls_without_a_request() -> None:
    """A tool that ran inside of a call has its line below it, as a call has, and its decision behind it."""
    allowed = node(Permission(ref=REF, decision="allow", origin="user"))
    nested = ran("echo", {"text": "x"}, server="demo")
    nested.children = (allowed,)
    shown = drawn(session(turn(1, call("exec", "go()", "ok", nested))))
    assert shown.split("\n")[5:9] == [
        "Turn 1 · 12:01  45.0s · 1 call · 1 more run",
        "│ ● exec go()  312ms ✓",
        "│ │ ● echo x  2ms ✓  allow by user",
        "",
    ]


def test_a_format_that_tells_little() -> None:
    """Without times, results and usage no time, no result and no figure is shown: no row of dashes and no zero."""
    assert drawn(untimed()) == UNTIMED
    assert drawn(untimed(), form="summary") == UNTIMED_SUMMARY


def test_usage_in_part() -> None:
    """A total that says nothing of its parts, figures that nobody is sure of, what is not counted, other units."""
    made = forked()
    made.usage["total"] = {**usage("unknown", total=1500), "calls": 2}
    made.usage["certainty"] = made.usage["total"]["certainty"]
    made.usage["raw_vs_deduped"] = 1.0
    made.usage["units"] = {"nano_aiu": 1250000, "premium_requests": 0.33}
    made.usage["by_model"] = {"large": usage("unknown", input=5), "small": usage("inferred", output=0)}
    shown = drawn(made, width=80, form="summary")
    assert shown[shown.index("\nTokens") : shown.index("\nTools")] == (
        "\nTokens\n"
        "  unknown: rows without a stop reason (2)\n"
        "  ? 1,500 tokens in all\n"
        "  inherited, and not counted above: 1 call, 1,000 input, 40 output, 8,000\n"
        "    cache read\n"
        "  in the producer's own units: 1,250,000 nano aiu, 0.33 premium requests\n"
        "\nBy model\n"
        "  model  calls  input  output  cache read  cache write  reasoning\n"
        "  large     12    ? 5       -           -            -          -\n"
        "  small     12      -     ~ 0           -            -          -\n"
    )
    assert drawn(made).endswith("\n2 turns · 3 calls · 5 more run · 1 failed · tokens ? 1,500 total\n")


def test_nothing_inherited() -> None:
    """A thread that took no usage along says nothing of it."""
    made = forked()
    made.usage["inherited"] = {**usage(), "calls": 0}
    assert "inherited" not in drawn(made, form="summary")


def test_bound_for_an_unknown_reason() -> None:
    """Where the level is not that of any reason, it stands before them."""
    made = session()
    made.usage["certainty"]["level"] = "lower_bound"
    made.usage["certainty"]["reasons"] = [{"level": "unknown", "reason": "compactions", "count": 1}]
    assert "\n  lower bound\n  unknown: compactions (1)\n" in drawn(made, form="summary")


def test_runs_and_what_ended_them() -> None:
    """An exit code other than 0 is told of a call that came back well, too."""
    made = call("bash", {"command": "exit 3"}, "ok")
    assert made.outcome is not None
    assert made.outcome.result is not None
    made.outcome = structs.replace(made.outcome, result=structs.replace(made.outcome.result, exit_code=3))
    assert "│ ● bash exit 3  312ms ✓ exit 3\n" in drawn(session(turn(1, made)))


def test_a_request_is_no_decision() -> None:
    """Once somebody has decided, that somebody was asked is no news."""
    asked = node(Permission(ref=REF, decision="requested"))
    decided = node(Permission(ref=REF, decision="approved", origin="human"))
    shown = drawn(session(turn(1, call("A", {}, "ok", asked, decided), call("B", {}, "ok", asked))))
    assert shown.split("\n")[6:8] == ["│ ● A  312ms ✓  approved by human", "│ ● B  312ms ✓  requested"]


def test_usage_by_one_name_is_not_repeated() -> None:
    """A group that has the total alone is left out, but for a model that is not named above."""
    made = session()
    assert "By " not in drawn(made, width=90, form="summary")
    made.summary["models"] = ["large", "small"]
    shown = drawn(made, width=90, form="summary")
    assert "By model" in shown
    assert "By agent" not in shown
    assert "By day" not in shown


@pytest.mark.parametrize("form", ["tree", "summary"])
def test_same_output(form: str) -> None:
    """The same session gives the same output at the same width."""
    assert drawn(everything(), form=form) == drawn(everything(), form=form)


@pytest.mark.parametrize("form", ["tree", "summary"])
@pytest.mark.parametrize("width", [20, 33, 72, 200])
def test_width(form: str, width: int) -> None:
    """No line is wider than the terminal, wide characters counted as two cells, and none ends in a blank."""
    for words in ("日本語の文章がここにある" * 20, "word " * 200, "e\u0301" * 100, "👩\u200d💻" * 40):
        lines = drawn(evil(words), form=form, width=width).split("\n")
        assert max(map(cell_len, lines)) <= width
        assert [line for line in lines if line.endswith(" ")] == []


@pytest.mark.parametrize("form", ["tree", "summary"])
@given(words=st.text(min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_nothing_is_smuggled_in(form: str, words: str) -> None:
    """Whatever a transcript says, no control, escape, direction or invisible tag character reaches the terminal."""
    safe = words.encode("utf-8", "replace").decode()
    assert FORBIDDEN.findall(drawn(evil(safe + "\x1b]0;x\x07\x9b2J\u202e"), form=form).replace("\n", "")) == []


@pytest.mark.parametrize("form", ["tree", "summary"])
def test_markup_is_text(form: str) -> None:
    """Brackets that mean colours to rich, and emoji codes, are shown as they stand."""
    shown = drawn(evil("[red]x[/red] :smile: [link=a]b"), form=form, width=120)
    assert "[red]x[/red] :smile: [link=a]b" in shown


def test_plain_terminal() -> None:
    """Where the encoding knows no marks, others take their place, and what it cannot show is a question mark."""
    shown = drawn(session(turn(1, step(call("Read", {"path": "日本"}, "error")))), encoding="ascii")
    assert (
        "Turn 1 - 12:01  45.0s - 1 call - 1 failed\n| * Read ??  312ms x exit 1  it went as it went and so on\n"
        in shown
    )


def test_latin_terminal() -> None:
    """An encoding that has some of it shows that much."""
    assert "| * Read caf\xe9 ?  312ms +\n" in drawn(
        session(turn(1, step(call("Read", {"path": "caf\xe9 \u65e5"})))), encoding="latin-1"
    )


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR leaves weight and slant, and no colour; without it there are colours."""
    out = io.StringIO()
    terminal.tree(everything(), Console(file=out, width=72, force_terminal=True, color_system="truecolor"))
    assert "\x1b[1;36mTurn 1\x1b[0m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    terminal.tree(everything(), Console(file=out, width=72, force_terminal=True, color_system="truecolor"))
    assert "\x1b[1mTurn 1\x1b[0m" in out.getvalue()
    assert re.findall(r"\x1b\[[0-9;]*[34][0-9][0-9;]*m", out.getvalue()) == []


def test_whole() -> None:
    """Asked for whole texts, none is folded and blank rows stay."""
    long = WHOLE.text("one\n\n" + "two three " * 200)
    shown = drawn(session(turn(1, node(Response(ref=REF, text=long)))), whole=True)
    assert "│   one\n│\n│   two three" in shown
    assert shown.count("three") == 200


def test_folded_preview() -> None:
    """Of a text whose end is not at hand the characters that are not shown are counted."""
    folded = Text(chars=5000, sha256="", preview="a b c")
    assert "│   a b c\n│   … +4,995 characters\n" in drawn(session(turn(1, node(Response(ref=REF, text=folded)))))


def test_short_prompt_is_told_once() -> None:
    """A prompt that its heading shows whole is not repeated below it; a longer one is."""
    short = drawn(session(turn(1, node(Prompt(ref=REF, text=text("do it"))))))
    fitting = drawn(session(turn(1, node(Prompt(ref=REF, text=text("do it " * 8))))))
    long = drawn(session(turn(1, node(Prompt(ref=REF, text=text("do it " * 10))))))
    assert fitting.count("do it") == 8
    assert short.count("do it") == 1
    assert "\n│ ❯ do it do it" in long


def test_runs_end() -> None:
    """Only neighbours that say the same are counted together, and never calls that something stands under."""
    child = node(Thought(ref=REF, text=text("x")))
    shown = drawn(session(turn(1, call("A", {}), call("B", {}), call("A", {}), call("A", {}, "ok", child))))
    assert "×" not in shown
    assert shown.count("● A") == 3


def test_decisions_and_ends() -> None:
    """The decision on a call stands behind the call, one without a call by itself; a bare end of a turn nowhere.

    That the settings let a call pass that came back well is no news.
    """
    silent = node(Permission(ref=REF, decision="allow", origin="config"))
    shown = drawn(session(turn(1, call("A", {}, "ok", silent), call("B", {}, "denied", silent))))
    assert "allow" not in shown.split("\n")[6]
    assert shown.split("\n")[7].endswith("allow by config")
    allowed = node(Permission(ref=REF, decision="allow", origin="user"))
    shown = drawn(session(turn(1, call("A", {}, "ok", allowed), allowed, node(TurnEnd(ref=REF, duration_ms=3)))))
    assert shown.split("\n")[6:9] == ["│ ● A  312ms ✓  allow by user", "│ · permission allow by user", ""]
    assert "turn end aborted" in drawn(session(turn(1, node(TurnEnd(ref=REF, status="aborted")))))


def test_turns_have_their_numbers() -> None:
    """Usage by turn names a turn as the tree does, and by its id when no person opened it."""
    made = session(turn(1), turn(None))
    made.usage["by_turn"] = {"p1": made.usage["total"], "pNone": made.usage["total"]}
    shown = drawn(made, width=90, form="summary")
    assert "\n  turn 1     12  1,234,567" in shown
    assert "\n  pNone      12  1,234,567" in shown


def test_thoughts_that_say_nothing_are_counted() -> None:
    """Wherever they stand in a step; a step of nothing else has one line, which says how many there were."""
    silent = node(Thought(ref=REF, opaque=True))
    said = node(Thought(ref=REF, text=text("hm")))
    redacted = node(Thought(ref=REF, redacted=True))
    mixed = [step(silent, call("A", {}), silent, said, silent), step(call("B", {}), redacted)]
    shown = drawn(session(turn(1, *mixed, step(silent, silent))))
    assert shown.split("\n")[6:12] == [
        "│ ● A  312ms ✓",
        "│ ○ hm",
        "│ ● B  312ms ✓",
        "│ ○ opaque thought ×2",
        "",
        "laid aside: opaque thought 3, redacted thought 1",
    ]


def test_thoughts_without_a_step() -> None:
    """Where there are no steps it is the same in a turn; a thought beside nothing but its prompt has no line either."""
    silent = node(Thought(ref=REF, opaque=True))
    asked = node(Prompt(ref=REF, text=text("x")))
    shown = drawn(
        session(turn(1, asked, silent, call("A", {}), silent), turn(2, silent, silent), turn(3, asked, silent))
    )
    assert shown.split("\n")[5:15] == [
        "Turn 1 · 12:01 · x  45.0s · 1 call",
        "│ ● A  312ms ✓",
        "",
        "Turn 2 · 12:02  45.0s",
        "│ ○ opaque thought ×2",
        "",
        "Turn 3 · 12:03 · x  45.0s",
        "",
        "laid aside: opaque thought 3",
        "2 turns · 1 call · tokens 1,234,567 input, 2,345 output",
    ]


def test_what_is_no_news_is_counted() -> None:
    """Hooks that went well and skills that nobody used have no line, not below a call either; trouble has, in words."""
    well = node(HookRun(ref=REF, event="Stop", outcome="ok"))
    blocked = node(HookRun(ref=REF, event="PreToolUse", name="PreToolUse:Bash", outcome="blocked", text=text("not so")))
    unknown = node(HookRun(ref=REF, event="Stop"))
    skill = node(Skill(ref=REF, name="pdf", stage="available"))
    shown = drawn(
        session(well, turn(1, call("A", {}, "ok", well), call("A", {}), well, blocked, unknown, skill, skill)),
        width=100,
    )
    assert shown.split("\n")[3:10] == [
        "",
        "Turn 1 · 12:01  45.0s · 2 calls",
        "│ ● A ×2  624ms ✓",
        "│ · hook PreToolUse PreToolUse:Bash blocked not so",
        "│ · hook Stop",
        "",
        "laid aside: hook run ok 3, skill 2",
    ]


def test_skills_that_were_not_used_are_counted() -> None:
    """The summary names what was invoked, loaded or attached; of the rest there are so many more."""
    made = session()
    made.summary["skills"] = {"a": ["available"], "b": ["available", "loaded"], "c": ["attached"], "d": ["available"]}
    skills = "\nSkills\n  skill  seen as\n  b      available, loaded\n  c      attached\n  2 more available\n"
    assert drawn(made, form="summary").endswith(skills)
    made.summary["skills"] = {"a": ["available"]}
    assert drawn(made, form="summary").endswith("\nSkills\n  1 available\n")
    made.summary["skills"] = {}
    assert "Skills" not in drawn(made, form="summary")


def test_findings_are_told_whole() -> None:
    """On as many rows as they take, in the summary as below the tree, and so is what was laid aside."""
    words = " ".join(f"word{number}" for number in range(30))
    finding = Finding(kind="torn", note=words, ref=REF, count=2, problem=True)
    aside: list[Observation] = [SetAside(ref=REF, family=f"family-{number}") for number in range(20)]
    made = session(findings=[finding], aside=aside)
    for form in ("tree", "summary"):
        shown = " ".join(drawn(made, form=form).split())
        assert f"! torn: {words} ×2 main:1:0" in shown
        assert "…" not in shown.partition("! torn")[2]
    lines = drawn(made).split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("laid aside: family-0 1, "))
    assert lines[first + 1].startswith(" " * 12 + "family-")
    assert "family-9 1" in " ".join(lines[first:])


def test_turns_that_nobody_opened_are_told_apart() -> None:
    """Tree and summary count the same turns, those of the summary, and name who opened the others."""
    made = session(turn(1), turn(None, source="task-notification"), turn(None), turn(None))
    made.summary["turns"] = 1
    assert "\n1 turn and 2 by nobody, 1 by task-notification · tokens" in drawn(made, width=100)
    assert "\nturns        1 and 2 by nobody, 1 by task-notification (3 steps, 1 subagent)\n" in drawn(
        made, width=100, form="summary"
    )


def test_machine_made_headings() -> None:
    """Of a text in tags the heading shows the words; a person's own tags stay; without a time there is none."""
    told = "<task-notification>\n<task-id>a1</task-id>\n<summary>Watch is done</summary>\n</task-notification>"
    machine = turn(None, node(Injected(ref=REF, text=text(told), source="task-notification")), source="x")
    person = Node(seen=TurnFrame(id="p", number=1), children=[node(Prompt(ref=REF, text=text("<b>x</b> y z")))])
    shown = drawn(session(machine, person), width=100)
    assert "\nTurn by x · 12:00 · Watch is done  45.0s\n" in shown
    assert "\nTurn 1 · <b>x</b> y z\n" in shown


def test_words_of_a_machine() -> None:
    """The first words in tags, else what is left without the tags; a text without any is left alone."""
    assert words_of("<a><id>1</id><s>two words</s><r>more words</r></a>") == "two words"
    assert words_of("<a><id>1</id>\n<s>done</s></a> so") == "1 done so"
    assert words_of("a <b>c d</b>") == "a <b>c d</b>"
    assert words_of(None) == ""


def test_deep_session() -> None:
    """Subagents nested a thousand deep neither exhaust the stack nor run off the line."""
    deep = call("Read", {"path": "x"})
    for number in range(1000):
        frame = SubagentFrame(id=str(number), at=START, proof="result")
        deep = Node(
            seen=ToolRequest(ref=REF, name="Task"), outcome=Outcome(outcome="ok"), children=(node(frame, deep),)
        )
    lines = drawn(session(turn(1, deep)), width=80).split("\n")
    assert len(lines) == 2010
    assert max(map(cell_len, lines)) <= 80


@pytest.mark.slow
def test_large_session_streams() -> None:
    """A large session is printed as it is walked: the first lines are out long before the last are made."""
    many = session(*list(everything().tree.children) * 400)
    times: list[float] = []

    class Page(io.StringIO):
        def write(self, written: str) -> int:
            times.append(perf_counter())
            return len(written)

    terminal.tree(many, Console(file=Page(), width=72))
    assert len(times) > 20


def test_clean() -> None:
    """Escape sequences go without a trace, other controls leave a mark, line feeds stay."""
    assert (
        clean("\x1b[31mred\x1b[0m \x1b]0;title\x07a\r\nb\tc\x00d\u202ee\u200bf\u2028g") == "red a\nb c\ufffdd\ufffdef g"
    )
    assert clean("plain") == "plain"


def test_one_line() -> None:
    """A text of any shape fits one line; nothing is an empty one."""
    assert one_line(" a\n\n  b\tc ") == "a b c"
    assert one_line(text("x\ny")) == "x y"
    assert one_line(None) == ""


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, ""),
        (-1, ""),
        (0, "0ms"),
        (999.4, "999ms"),
        (999.6, "1.0s"),
        (59_940, "59.9s"),
        (59_960, "1m 00s"),
        (3_599_400, "59m 59s"),
        (3_599_600, "1h 00m"),
        (90_061_000, "1d 01h"),
    ],
)
def test_duration(milliseconds: float | None, shown: str) -> None:
    """Durations have two figures, whatever their size, and do not jump at the borders."""
    assert duration(milliseconds) == shown


def test_figures() -> None:
    """Numbers carry their certainty and their noun."""
    assert figure(1234) == "1,234"
    assert figure(None, "lower_bound") == "-"
    assert figure(5, "lower_bound") == "≥ 5"
    assert figure(5, "inferred") == "~ 5"
    assert figure(5, "unknown") == "? 5"
    assert figure(1.5) == "1.5"
    assert duration(5, about=True) == "~5ms"
    assert count(1, "call") == "1 call"
    assert count(1200, "reply", "replies") == "1,200 replies"
    assert short_id("a" * 64) == "a" * 12
    assert span(None, None) == ""
    assert span(START, START) == "2026-05-01 12:00:00 UTC"
