"""The registered command: right for every path, harmless when what it runs is gone, and known again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from forensic.errors import Unusable
from forensic.registration.clients import CLIENTS, Client
from forensic.registration.command import (
    Registered,
    base_interpreter,
    entry,
    handler,
    posix,
    powershell,
    recognised,
    windows,
)

NAMES = [
    "plain",
    "with blank",
    "it's",
    'a "quote"',
    "$HOME `id`",
    "back\\slash",
    "a;b&c|d",
    "\u00fcml\u00e4ut \u65e5",
    "-n",
    "a\nb",
]

PROBE = """import os, sys
with open(os.environ["PROBE"], "w", encoding="utf-8") as out:
    out.write(repr((sys.argv, sys.stdin.read(), sys.flags.isolated)))
print("heard by nobody")
"""

needs_sh = pytest.mark.skipif(not Path("/bin/sh").exists(), reason="there is no sh")


def run(command: str, probe: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        input=b"payload",
        capture_output=True,
        check=False,
        env={"PROBE": str(probe), "PATH": os.defpath},
    )


@needs_sh
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("harness", list(CLIENTS))
def test_sh_runs_it(tmp_path: Path, harness: str, name: str) -> None:
    """Whatever the path, sh hands the hook its two words and its payload, and hears what the harness wants to hear."""
    folder = tmp_path / name / "hook"
    folder.mkdir(parents=True)
    script = folder / "hook.py"
    script.write_text(PROBE, encoding="utf-8")
    interpreter = tmp_path / name / "python"
    interpreter.symlink_to(base_interpreter())
    command = posix(str(interpreter), str(script), harness, "PreToolUse")
    done = run(command, tmp_path / "probe")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n" if harness == "cursor" else b"", b"")
    assert (tmp_path / "probe").read_text(encoding="utf-8") == repr(
        ([str(script), harness, "PreToolUse"], "payload", 1)
    )
    assert recognised({"command": command}) == Registered(str(interpreter), str(script), harness, "PreToolUse")


@needs_sh
@pytest.mark.parametrize("harness", list(CLIENTS))
@pytest.mark.parametrize("gone", ["interpreter", "hook", "both", "crash"])
def test_what_is_gone_does_no_harm(tmp_path: Path, harness: str, gone: str) -> None:
    """Without its interpreter, without its hook, or when the hook breaks, it is as silent and ends as well."""
    script = tmp_path / "hook" / "hook.py"
    if gone == "crash":
        script.parent.mkdir()
        script.write_text("raise SystemExit(2)", encoding="utf-8")
    python = base_interpreter() if gone in ("hook", "crash") else str(tmp_path / "python")
    done = run(posix(python, str(script), harness, "preToolUse"), tmp_path / "probe")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n" if harness == "cursor" else b"", b"")


def test_the_string_for_sh() -> None:
    """The string itself is a contract: Codex trusts it by its digest."""
    assert posix("/usr/bin/python3.11", "/home/u/forensic/hook/hook.py", "claude", "Stop") == (
        "[ -x /usr/bin/python3.11 ] && "
        "/usr/bin/python3.11 -I -S /home/u/forensic/hook/hook.py claude Stop >/dev/null 2>&1; exit 0"
    )
    assert posix("/p", "/a b/hook/hook.py", "cursor", "stop") == (
        "[ -x /p ] && /p -I -S '/a b/hook/hook.py' cursor stop >/dev/null 2>&1; echo '{}'"
    )


def test_the_string_for_windows() -> None:
    """The same for cmd.exe, which has no way to quote some signs, and for PowerShell, which has."""
    python, script = r"C:\Program Files\Python\python.exe", r"C:\Users\u v\forensic\hook\hook.py"
    command = windows(python, script, "claude", "Stop")
    assert command == (
        r'cmd.exe /d /c if exist "C:\Program Files\Python\python.exe" "C:\Program Files\Python\python.exe" -I -S '
        r'"C:\Users\u v\forensic\hook\hook.py" claude Stop >nul 2>nul & exit /b 0'
    )
    assert recognised({"command": command}) == Registered(python, script, "claude", "Stop")
    assert windows(python, script, "cursor", "stop").endswith(">nul 2>nul & echo {}")
    for sign in '"%!\n':
        with pytest.raises(Unusable, match="cannot be given a path"):
            windows(python, script + sign, "claude", "Stop")
    assert powershell("/a'b/python", "/a'b/hook/hook.py", "copilot", "preToolUse") == (
        "if (Test-Path -LiteralPath '/a''b/python') "
        "{ & '/a''b/python' -I -S '/a''b/hook/hook.py' copilot preToolUse *> $null }; exit 0"
    )


def test_no_unicode_is_refused() -> None:
    """A path that JSON could not hold is not registered."""
    with pytest.raises(Unusable, match="no Unicode"):
        handler(CLIENTS["claude"], CLIENTS["claude"].events[0], "/p", "/\udcff/hook/hook.py")


@pytest.mark.parametrize("client", CLIENTS.values(), ids=str)
def test_each_harness_gets_its_shape(client: Client) -> None:
    """Every event has the shape its harness wants, a timeout of its own, and is known again."""
    for event in client.events:
        made = entry(client, event, "/p", "/h/hook/hook.py")
        inner = made["hooks"][0] if client.grouped else made
        assert list(made) == ["hooks"] or not client.grouped
        assert inner == handler(client, event, "/p", "/h/hook/hook.py")
        assert 0 < inner[client.timeout] <= 10
        assert inner.get("type", "command") == "command"
        assert recognised(inner) == Registered("/p", "/h/hook/hook.py", client.name, event.name)
        assert json.loads(json.dumps(made)) == made


def test_the_shapes() -> None:
    """One entry of each harness, to the letter."""
    run = "[ -x /p ] && /p -I -S /h/hook/hook.py {} >/dev/null 2>&1; exit 0".format
    made = {name: entry(client, client.events[6], "/p", "/h/hook/hook.py") for name, client in CLIENTS.items()}
    claude = {"type": "command", "command": run("claude UserPromptExpansion"), "timeout": 10}
    assert made["claude"] == {"hooks": [claude]}
    codex = {"type": "command", "command": run("codex SessionEnd"), "timeout": 3}
    assert made["codex"] == {"hooks": [codex]}
    assert made["copilot"] == {
        "type": "command",
        "bash": run("copilot postToolUse"),
        "powershell": powershell("/p", "/h/hook/hook.py", "copilot", "postToolUse"),
        "timeoutSec": 10,
    }
    assert made["cursor"] == {
        "command": run("cursor subagentStop").replace("exit 0", "echo '{}'"),
        "timeout": 10,
    }


def test_the_interpreter_is_the_one_below() -> None:
    """It is none of a virtual environment, which goes when the environment goes."""
    python = base_interpreter()
    assert os.path.realpath(python) == python
    assert os.access(python, os.X_OK)
    code = "import sys; print(sys.prefix == sys.base_prefix)"
    done = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "x",
        {},
        {"command": None},
        {"command": "python -I -S hook.py claude Stop"},
        {"command": "python -I -S /x/hook/hook.py.bak claude Stop"},
        {"command": "python -I -S /x/hook/hook.py"},
        {"command": "python -I -S /x/hook/hook.py claude"},
        {"command": "python -S -I /x/hook/hook.py claude Stop"},
        {"command": "python -I -S /x/hook/hook.py 'not a name' Stop"},
        {"command": "echo 'unclosed -I -S /x/hook/hook.py claude Stop"},
    ],
)
def test_others_are_not_recognised(value: object) -> None:
    """What does not run a hook of ours is somebody else's."""
    assert recognised(value) is None


def test_ours_with_more_around_it() -> None:
    """A command of ours that somebody changed is still ours, to be put right or taken out."""
    command = f"sleep 1; {posix('/p', '/h/hook/hook.py', 'claude', 'Stop')} # mine"
    assert recognised({"command": command}) == Registered("/p", "/h/hook/hook.py", "claude", "Stop")
    assert recognised({"command": f"sh -c {shlex.quote(command)}"}) is None
