"""The editor of configurations: what it puts in comes out again to the byte, and nothing else is ever touched."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensic.registration.clients import CLIENTS, Client
from forensic.registration.command import entry
from forensic.registration.edit import Entry, NotOurShape, found, put, taken
from forensic.registration.jsonc import NotJson, parse, value_of

PYTHON, HOOK = "/usr/bin/python3.11", "/home/somebody/my data/forensic/hook/hook.py"
CLAUDE, CURSOR = CLIENTS["claude"], CLIENTS["cursor"]

clients = st.sampled_from(list(CLIENTS.values()))


def entries(client: Client, *names: str, hook: str = HOOK) -> dict[str, Entry]:
    """What is to be registered: these events, or all that are safe."""
    events = [event for event in client.events if (event.name in names if names else event.level == "safe")]
    return {event.name: entry(client, event, PYTHON, hook) for event in events}


def some(client: Client, first: int, last: int | None = None) -> dict[str, Entry]:
    return dict(list(entries(client).items())[first:last])


# --- texts of any layout ---------------------------------------------------------------------------------------------

BLANK = st.text(" \t\n", max_size=3)
COMMENT = st.one_of(
    st.text('ab "{[,:*/', max_size=6).map(lambda text: f"//{text}\n"),
    st.text('ab "{[,:\n', max_size=6).map(lambda text: f"/*{text}*/"),
)


class Layouts:
    """Draws what stands between the parts of a text, in one of several manners."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.manner = draw(st.sampled_from(["none", "blanks", "comments", "indented", "json"]))
        self.line_end = draw(st.sampled_from(["\n", "\r\n"]))
        self.step = draw(st.sampled_from(["  ", "    ", "\t", ""]))

    def between(self) -> str:
        if self.manner in ("none", "json", "indented"):
            return ""
        blanks = str(self.draw(BLANK))
        if self.manner == "comments" and self.draw(st.booleans()):
            return blanks + str(self.draw(COMMENT)) + str(self.draw(BLANK))
        return blanks

    def text(self, value: Any, depth: int = 0) -> str:
        if isinstance(value, dict | list):
            return self.held(value, depth)
        return json.dumps(value, ensure_ascii=self.draw(st.booleans()))

    def held(self, value: dict[str, Any] | list[Any], depth: int) -> str:
        brackets = "{}" if isinstance(value, dict) else "[]"
        line = "\n" + self.step * (depth + 1) if self.manner == "indented" else ""
        parts = []
        for one in value.items() if isinstance(value, dict) else value:
            named = f"{json.dumps(one[0])}{self.between()}:{self.colon()}" if isinstance(value, dict) else ""
            inner = self.text(one[1] if isinstance(value, dict) else one, depth + 1)
            parts.append(f"{self.between()}{line}{named}{inner}{self.between()}")
        last = self.manner == "comments" and parts and self.draw(st.booleans())
        comma = ", " if self.manner == "json" else ","
        end = "\n" + self.step * depth if line and parts else ""
        return brackets[0] + comma.join(parts) + ("," if last else "") + self.between() + end + brackets[1]

    def colon(self) -> str:
        return " " if self.manner in ("json", "indented") else self.between()


KEYS = st.one_of(
    st.sampled_from(["version", "model", "env", "$schema"]), st.text(max_size=4).filter(lambda s: s != "hooks")
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just("http://x /* no */ // no"))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def hooks_of(draw: Callable[[Any], Any], client: Client) -> dict[str, Any]:
    """The hooks of somebody else."""
    handlers = st.fixed_dictionaries(
        {"type": st.just("command"), client.command: st.sampled_from(["true", 'run "it"'])}
    )
    groups = st.fixed_dictionaries(
        {"hooks": st.lists(handlers, max_size=2)}, optional={"matcher": st.sampled_from(["", "*", "Bash"])}
    )
    names = st.sampled_from([*(event.name for event in client.events[:6]), "Unheard"])
    return dict(draw(st.dictionaries(names, st.lists(groups if client.grouped else handlers, max_size=2), max_size=4)))


@st.composite
def configurations(draw: Callable[[Any], Any]) -> tuple[Client, str | None, Any]:
    """A harness, the text of its configuration in any layout (or none), and what it means."""
    client = draw(clients)
    kind = draw(st.sampled_from(["absent", "blank", "plain", "plain", "plain", "plain"]))
    if kind == "absent":
        return client, None, None
    layouts = Layouts(draw)
    mark = draw(st.sampled_from(["", "\ufeff"]))
    if kind == "blank":
        return client, mark + layouts.between(), None
    value = dict(draw(st.dictionaries(KEYS, VALUES, max_size=3)))
    if draw(st.booleans()):
        value["hooks"] = draw(hooks_of(client))
    names = draw(st.permutations(list(value)))
    value = {name: value[name] for name in names}
    end = draw(st.sampled_from(["", "\n", " \n\n"]))
    text = f"{layouts.between()}{layouts.text(value)}{layouts.between()}{end}"
    return client, mark + text.replace("\n", layouts.line_end), value


def with_ours(client: Client, value: Any, wanted: dict[str, Entry]) -> Any:
    """What a configuration should mean when our entries are in it."""
    after = copy.deepcopy(value) if value is not None else {}
    if "hooks" not in after and client.numbered:
        after.setdefault("version", 1)
    hooks = after.setdefault("hooks", {})
    for event, one in wanted.items():
        hooks.setdefault(event, []).append(one)
    return after


def meant(text: str) -> Any:
    root = parse(text).root
    assert root is not None
    return value_of(root)


@given(configurations())
@settings(max_examples=120, deadline=None)
def test_any_text_is_read(one: tuple[Client, str | None, Any]) -> None:
    """A text is read as what it means, and written again as it was."""
    _, text, value = one
    document = parse(text or "")
    assert document.text == (text or "")
    assert (value_of(document.root) if document.root is not None else None) == value


@given(configurations(), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_put_and_taken(one: tuple[Client, str | None, Any], count: int) -> None:
    """What is put in means what was there and ours; taken out it is the text that it was, with no memory of it."""
    client, text, value = one
    wanted = some(client, 0, count)
    made = put(text, client, wanted)
    assert meant(made) == with_ours(client, value, wanted)
    assert taken(made, client) == text
    assert put(made, client, wanted) == made


@given(configurations(), st.integers(0, 4), st.integers(5, 9))
@settings(max_examples=120, deadline=None)
def test_other_events(one: tuple[Client, str | None, Any], first: int, last: int) -> None:
    """Other events in place of the first ones, those of another home among them, and still all goes away again."""
    client, text, value = one
    wanted = some(client, first, last)
    before = put(text, client, entries(client, *some(client, 0, 5), hook="/elsewhere/hook/hook.py"))
    made = put(before, client, wanted)
    assert {event.event for event in found(made, client)} == set(wanted)
    assert {event.runs.hook for event in found(made, client)} == {HOOK}
    after, expected = meant(made), with_ours(client, value, wanted)
    assert {name: after["hooks"][name] for name in wanted} == {name: expected["hooks"][name] for name in wanted}
    assert taken(made, client) == text
    assert taken(made, client, text) in (text, None)


@given(configurations(), st.integers(1, 4), st.sampled_from([None, 2]))
@settings(max_examples=120, deadline=None)
def test_written_anew(one: tuple[Client, str | None, Any], count: int, indent: int | None) -> None:
    """When the harness has written the file anew in its own layout, memory still tells which empty lists were there."""
    client, text, value = one
    if not isinstance(value, dict):
        return
    anew = json.dumps(meant(put(text, client, some(client, 0, count))), indent=indent)
    left = taken(anew, client, text)
    assert left is not None
    assert json.loads(left) == value
    guessed = taken(anew, client)
    assert guessed is None or not found(guessed, client)


@given(configurations(), st.integers(1, 4), st.data())
@settings(max_examples=120, deadline=None)
def test_changed_meanwhile(one: tuple[Client, str | None, Any], count: int, data: st.DataObject) -> None:
    """What somebody added between our hooks, before and behind them is all that is left."""
    client, text, value = one
    wanted = some(client, 0, count)
    value = meant(put(text, client, wanted))
    theirs = {"hooks": [{"command": "theirs"}]} if client.grouped else {client.command: "theirs"}
    value["added"] = [1]
    expected = copy.deepcopy(value)
    for event, ours in wanted.items():
        members, left = value["hooks"][event], expected["hooks"][event]
        members.remove(ours)
        left.remove(ours)
        at = data.draw(st.integers(0, len(members)))
        if client.grouped and data.draw(st.booleans()):
            both = data.draw(st.permutations([*ours["hooks"], {"command": "theirs"}]))
            members.insert(at, {"hooks": both})
        else:
            members[at:at] = data.draw(st.permutations([ours, theirs]))
        left.insert(at, theirs)
    text_left = taken(Layouts(data.draw).text(value), client)
    assert text_left is not None
    assert meant(text_left) == expected


# --- what people have ------------------------------------------------------------------------------------------------

PEOPLE = """{
    // mine
    "model": "opus", /* the best */
    "hooks": {
        "Stop": [
            // tells me
            {"hooks": [{"type": "command", "command": "notify"}]} // loud
        ],
        "PreToolUse": [],
    },
    "env": {}
}
"""


def test_comments_stay_where_they_are() -> None:
    """A comment beside an element stays beside it, and ours follows on a line of its own, indented alike."""
    made = put(PEOPLE, CLAUDE, entries(CLAUDE, "Stop", "PreToolUse", "SessionEnd"))
    lines = made.splitlines()
    at = lines.index("            // tells me")
    assert lines[at + 1] == '            {"hooks": [{"type": "command", "command": "notify"}]}, // loud'
    assert lines[at + 2].startswith('            {"hooks": [{"type": "command", "command": "[ -x ')
    assert lines[at + 3 : at + 5] == ["        ],", lines[at + 4]]
    assert lines[at + 4].startswith('        "PreToolUse": [{"hooks": [')
    assert lines[at + 5] == '        "SessionEnd": ['
    assert taken(made, CLAUDE) == PEOPLE


@pytest.mark.parametrize(
    "text",
    [
        '{"version":null// \n}',
        '{"a": 1 // b \t\n// c\n}',
        '{"a": 1, // b\n}',
        '{"a": 1 /* b */}',
        '{"a": 1 /* b\n */ // c\n}',
        "{ // b\n}",
        '{"hooks": {"PreToolUse": [// b \n]}}// c',
        '{"hooks": {// b\n}}',
        '{"hooks": {"PreToolUse": [{} // b\n, // c\n]}}',
    ],
)
def test_comments_at_the_ends(text: str) -> None:
    """A comment that runs to the end of its line swallows nothing of ours, nor the bracket behind us."""
    for count in (1, 3):
        made = put(text, CLAUDE, some(CLAUDE, 0, count))
        assert len(found(made, CLAUDE)) == count
        assert taken(made, CLAUDE) == text


def test_what_is_left_closes() -> None:
    """When ours goes from between a comment and a bracket, the bracket does not become a part of the comment."""
    ours = json.dumps(entries(CLAUDE, "Stop")["Stop"])
    left = taken(f'{{"hooks": {{"Stop": [{{}}, // mine\n  {ours}]}}}}', CLAUDE)
    assert left == '{"hooks": {"Stop": [{} // mine\n]}}'
    left = taken(f'{{"hooks": {{"Stop": [// mine\n  {ours}]}}}}', CLAUDE)
    assert left == '{"hooks": {"Stop": [// mine\n]}}'


def test_crlf_and_tabs() -> None:
    """The line ends and the indentation of a file are used for what is put in."""
    text = '\ufeff{\r\n\t"hooks": {\r\n\t\t"Stop": []\r\n\t}\r\n}'
    made = put(text, CLAUDE, entries(CLAUDE, "SessionEnd"))
    assert made.startswith('\ufeff{\r\n\t"hooks": {\r\n\t\t"Stop": [],\r\n\t\t"SessionEnd": [\r\n\t\t\t{"hooks"')
    assert "\n" not in made.replace("\r\n", "")
    assert taken(made, CLAUDE) == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (None, '{\n  "hooks": {\n    "stop": [\n      OURS\n    ]\n  },\n  "version": 1\n}\n'),
        ("", '{ "hooks": {\n  "stop": [\n    OURS\n  ]\n}, "version": 1}'),
        ("{}\n", '{"hooks": {\n  "stop": [\n    OURS\n  ]\n}, "version": 1}\n'),
        ('{"version": 1, "hooks": {}}', '{"version": 1, "hooks": {"stop": [\n  OURS\n]}}'),
        ('{"version":1,"hooks":{"stop":[]}}', '{"version":1,"hooks":{"stop":[OURS]}}'),
        ('{"version":1,"hooks":{"stop":[{}]}}', '{"version":1,"hooks":{"stop":[{}, OURS]}}'),
    ],
)
def test_layout(text: str | None, made: str) -> None:
    """What is there decides how what is added is laid out."""
    ours = entries(CURSOR, "stop")
    result = put(text, CURSOR, ours)
    assert result.replace(json.dumps(ours["stop"]), "OURS") == made
    assert taken(result, CURSOR) == text


def test_a_stale_hook_is_written_anew_in_its_place() -> None:
    """Codex trusts by place: a hook that changes keeps the place that it has."""
    codex = CLIENTS["codex"]
    text = put('{"hooks": {"Stop": [{"hooks": []}]}}', codex, entries(codex, "Stop", hook="/old/hook/hook.py"))
    text = text.replace("]}]}}", ']}, {"hooks": [1]}]}}')
    made = put(text, codex, entries(codex, "Stop"))
    assert [one.place for one in found(made, codex)] == [(1, 0)]
    assert made == text.replace("/old/hook/hook.py", f"'{HOOK}'")


def test_one_of_several_is_kept() -> None:
    """Of hooks of ours that are there twice one stays."""
    ours = entries(CLAUDE, "Stop")["Stop"]
    text = json.dumps({"hooks": {"Stop": [ours, {"matcher": "x", "hooks": ours["hooks"] * 2}, ours]}}, indent=1)
    made = put(text, CLAUDE, {"Stop": ours})
    assert meant(made) == {"hooks": {"Stop": [ours]}}


def test_a_matcher_that_matches_everything_is_none() -> None:
    """Somebody's own star changes nothing, while a matcher of a tool would leave events out."""
    ours = entries(CLAUDE, "Stop")["Stop"]
    star, tool = ({"hooks": {"Stop": [{"matcher": matcher, **ours}]}} for matcher in ("*", "Bash"))
    assert put(json.dumps(star), CLAUDE, {"Stop": ours}) == json.dumps(star)
    assert meant(put(json.dumps(tool), CLAUDE, {"Stop": ours})) == {"hooks": {"Stop": [ours]}}


def test_nothing_of_others_is_ours() -> None:
    """Commands that only look like ours a little are left alone."""
    others = [
        "/usr/bin/python3 /home/somebody/hook/hook.py claude Stop",
        "/usr/bin/python3 -I -S /home/somebody/hooks/hook.py claude Stop",
        "/usr/bin/python3 -I -S /home/somebody/hook/hook.pyc claude Stop",
        "echo '/hook/hook.py claude Stop",
        "",
    ]
    hooks = [{"hooks": [{"type": "command", "command": command}]} for command in others]
    more: list[Any] = [None, 1, "x", [], {}, {"hooks": None}, {"hooks": [None, 1, {"command": 1}]}]
    text = json.dumps({"hooks": {"Stop": [*hooks, *more], "Strange": {"a": 1}, "None": None}})
    assert found(text, CLAUDE) == []
    assert taken(text, CLAUDE) == text
    assert taken(put(text, CLAUDE, entries(CLAUDE, "Stop")), CLAUDE) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "it is no object"),
        ("3", "it is no object"),
        ('{"hooks": null}', '"hooks" is no object'),
        ('{"hooks": []}', '"hooks" is no object'),
        ('{"hooks": {"Stop": {}}}', '"hooks" has "Stop", which is no list'),
        ('{"hooks": {"Stop": null}}', '"hooks" has "Stop", which is no list'),
        ('{"a": 1, "a": 2}', 'it has "a" twice'),
        ('{"hooks": {}, "h\\u006foks": {}}', 'it has "hooks" twice'),
        ('{"hooks": {"Stop": [], "Stop": []}}', 'it has "Stop" twice'),
        ('{"hooks": {"Stop": [{"hooks": [], "hooks": []}]}}', 'it has "hooks" twice'),
    ],
)
def test_what_is_not_understood(text: str, why: str) -> None:
    """A shape that nobody documented is not edited."""
    with pytest.raises(NotOurShape) as caught:
        put(text, CLAUDE, entries(CLAUDE, "Stop"))
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1: a key is missing or is none"),
        ('{"a"}', "line 1: a colon is missing"),
        ('{"a":}', "line 1: a value is missing or is none"),
        ('{"a": 1\n"b": 2}', "line 2: a comma or } is missing"),
        ("{'a': 1}", "line 1: a key is missing or is none"),
        ("{a: 1}", "line 1: a key is missing or is none"),
        ('{"a": 01}', "line 1: a comma or } is missing"),
        ('{"a": "\n"}', "line 1: a value is missing or is none"),
        ('{"a": "\\x"}', "line 1: a value is missing or is none"),
        ('{"a": NaN}', "line 1: a value is missing or is none"),
        ("{,}", "line 1: a key is missing or is none"),
        ('{"a": [1,,2]}', "line 1: a value is missing or is none"),
        ("{} {}", "line 1: something stands behind the end"),
        ("{} /*", "line 1: something stands behind the end"),
        ("\n\n<<<<<<< HEAD\n{}", "line 3: a value is missing or is none"),
        ("\x00", "line 1: a value is missing or is none"),
        ("[" * 1000, "line 1: nested too deeply"),
    ],
)
def test_what_is_no_json(text: str, why: str) -> None:
    """What is no JSON is refused with its line, and not repaired."""
    with pytest.raises(NotJson) as caught:
        put(text, CLAUDE, entries(CLAUDE, "Stop"))
    assert str(caught.value) == why
    with pytest.raises(NotJson):
        taken(text, CLAUDE)
