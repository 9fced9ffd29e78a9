"""`forensic hooks` from the outside: what it says, what it does to configurations, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from users import SETTINGS, be, program

from forensic.cli import main
from forensic.harness import HARNESSES
from forensic.registration import files
from forensic.registration.clients import CLIENTS, Client
from forensic.registration.edit import found
from forensic.registration.registering import Scope, config_path


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs `forensic hooks` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Said:
        self._capsys.readouterr()
        code = main(["hooks", *arguments])
        return Said(code, *self._capsys.readouterr())


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of a user who has set something up, a project to be in, and a Claude Code of the newest kind."""
    place = tmp_path / "user"
    be(place, monkeypatch)
    (place / ".claude").mkdir()
    (place / ".claude" / "settings.json").write_bytes(SETTINGS)
    (place / "project").mkdir()
    monkeypatch.chdir(place / "project")
    program(place, "claude", "echo '2.1.332 (Claude Code)'")
    return place


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """All that is below a folder: mode, and content or where a link leads."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.lstat().st_mode),
            str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder",
        )
        for path in folder.rglob("*")
    }


def config(client: Client, scope: Scope = "user") -> Path:
    return config_path(client, scope, Path.cwd())


# --- install and uninstall -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("backups", [True, False])
def test_there_and_back(cli: Cli, user: Path, home: Path, scope: Scope, *, backups: bool) -> None:
    """Installed everywhere and taken out again everything is as it was, with and without its backups."""
    before = snapshot(user)
    said = cli("install", "all", f"--{scope}", "--yes", "--json")
    assert (said.code, said.err) == (0, "")
    assert [(one["harness"], one["scope"], one["state"]) for one in said.lines] == [
        (name, scope, "installed") for name in CLIENTS
    ]
    assert [len(one["events"]) for one in said.lines] == [26, 14, 15, 18]
    for client in CLIENTS.values():
        text = config(client, scope).read_text(encoding="utf-8")
        registered = {one.event for one in found(text, client)}
        assert registered == {event.name for event in client.events if event.level == "safe"}
        assert {one.runs.hook for one in found(text, client)} == {str(home / "hook" / "hook.py")}
    after = snapshot(user)
    assert cli("install", "all", f"--{scope}", "--yes").code == 0
    assert snapshot(user) == after
    if not backups:
        shutil.rmtree(home / "hook" / "backups")
    said = cli("uninstall", "all", f"--{scope}", "--yes", "--json")
    assert (said.code, said.err) == (0, "")
    assert {one["state"] for one in said.lines} == {"removed"}
    left = snapshot(user)
    if not backups:
        # nothing tells any more who made the folders: they stay, and only they
        assert {name: value for name, value in left.items() if name in before} == before
        assert {value for name, value in left.items() if name not in before} == {(0o700, "folder")}
    else:
        assert left == before
    assert [path.name for path in (home / "hook").iterdir()] == ["roots.json"]


def test_new_files_are_private(cli: Cli, user: Path) -> None:
    """A configuration that was not there is 0600 in a folder that is 0700; one that was there keeps its mode."""
    (user / ".claude" / "settings.json").chmod(0o640)
    cli("install", "claude", "codex", "--yes")
    there = snapshot(user)
    assert there[".codex"] == (0o700, "folder")
    assert there[".codex/hooks.json"][0] == 0o600
    assert there[".claude/settings.json"][0] == 0o640


def test_changed_between(cli: Cli, user: Path, home: Path) -> None:
    """What somebody wrote after us stays, when our hooks go and their backup tells no longer what was there."""
    cli("install", "claude", "--yes")
    path = user / ".claude" / "settings.json"
    changed = path.read_bytes().replace(b'"opus"', b'"sonnet", "new": [1]')
    path.write_bytes(changed)
    cli("install", "claude", "--yes", "--events", "all")
    assert cli("uninstall", "claude", "--yes").code == 0
    assert path.read_bytes() == SETTINGS.replace(b'"opus"', b'"sonnet", "new": [1]')
    assert not (home / "hook" / "backups").exists()


def test_written_anew_by_the_harness(cli: Cli, user: Path) -> None:
    """A harness that writes its settings in its own layout leaves nothing of ours behind, and loses nothing by us."""
    path = user / ".claude" / "settings.json"
    path.write_bytes(SETTINGS.replace(b"  // mine\n", b""))
    value = json.loads(path.read_bytes())
    cli("install", "claude", "--yes")
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=4), encoding="utf-8")
    assert cli("install", "claude", "--yes", "--json").lines[0]["state"] == "unchanged"
    cli("uninstall", "claude", "--yes")
    assert json.loads(path.read_bytes()) == value


def test_a_file_of_ours_that_somebody_used(cli: Cli, user: Path) -> None:
    """A file that we made and somebody else wrote into stays, without what is ours."""
    cli("install", "cursor", "--yes")
    path = user / ".cursor" / "hooks.json"
    value = json.loads(path.read_bytes())
    value["hooks"]["stop"].append({"command": "theirs"})
    path.write_text(json.dumps(value), encoding="utf-8")
    cli("uninstall", "cursor", "--yes")
    assert json.loads(path.read_bytes())["hooks"] == {"stop": [{"command": "theirs"}]}


def test_a_link_is_followed(cli: Cli, user: Path) -> None:
    """Settings that are a link into a folder of dot files are edited there."""
    real = user / "dotfiles" / "claude.json"
    real.parent.mkdir()
    path = user / ".claude" / "settings.json"
    path.rename(real)
    path.symlink_to(real)
    before = snapshot(user)
    cli("install", "claude", "--yes")
    assert path.is_symlink()
    assert found(real.read_text(encoding="utf-8"), CLIENTS["claude"]) != []
    cli("uninstall", "claude", "--yes")
    assert snapshot(user) == before


def test_variables_name_the_folders(cli: Cli, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a harness was told to keep its files, there it is told about the hook."""
    for name in CLIENTS:
        if HARNESSES[name].hooks.home[0]:
            monkeypatch.setenv(HARNESSES[name].hooks.home[0], str(user / "moved" / name))
    cli("install", "claude", "codex", "copilot", "--yes")
    made = {str(path.relative_to(user / "moved")) for path in (user / "moved").rglob("*.json")}
    assert made == {"claude/settings.json", "codex/hooks.json", "copilot/hooks/forensic.json"}
    assert (user / ".claude" / "settings.json").read_bytes() == SETTINGS


def test_other_events(cli: Cli, user: Path) -> None:
    """More events, or fewer, change what is ours and nothing else."""
    path = user / ".claude" / "settings.json"
    cli("install", "claude", "--yes")
    safe = path.read_bytes()
    said = cli("install", "claude", "--yes", "--events", "all", "--json")
    assert said.lines[0]["state"] == "installed"
    assert set(said.lines[0]["events"]) >= {"MessageDisplay", "Elicitation"}
    assert set(said.lines[0]["events"]) & {"WorktreeCreate", "WorktreeRemove", "FileChanged"} == set()
    assert path.read_bytes() != safe
    cli("install", "claude", "--yes")
    assert path.read_bytes() == safe


def test_another_home(cli: Cli, user: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registration of another home is replaced, and taken out as well."""
    cli("install", "claude", "codex", "--yes")
    monkeypatch.setenv("FORENSIC_HOME", str(user / "other home"))
    said = cli("install", "claude", "--yes", "--json")
    assert f"it takes the place of the hook {home / 'hook' / 'hook.py'}" in said.lines[0]["notes"]
    assert said.lines[0]["state"] == "installed"
    said = cli("uninstall", "claude", "codex", "--yes", "--json")
    assert [one["state"] for one in said.lines] == ["removed", "removed"]
    assert (user / ".claude" / "settings.json").read_bytes() == SETTINGS
    assert not (user / "other home" / "hook" / "hook.py").exists()
    assert (home / "hook" / "hook.py").exists()


def test_the_hook_stays_as_long_as_it_is_needed(cli: Cli, home: Path) -> None:
    """What is run goes with the last registration, whichever project that was in; spool and archive never do."""
    (home / "spool").mkdir()
    (home / "archive").mkdir()
    cli("install", "claude", "--yes")
    cli("install", "claude", "codex", "--project", "--yes")
    script = home / "hook" / "hook.py"
    cli("uninstall", "claude", "--yes")
    assert script.exists()
    cli("uninstall", "claude", "--project", "--yes")
    assert script.exists()
    cli("uninstall", "codex", "--project", "--yes")
    assert not script.exists()
    assert sorted(path.name for path in home.iterdir()) == ["archive", "hook", "spool"]


def test_nothing_to_take_out(cli: Cli, user: Path, home: Path) -> None:
    """Where nothing is registered nothing happens, and nobody is asked."""
    before = snapshot(user)
    said = cli("uninstall", "all", "--json")
    assert said.code == 0
    assert [one["state"] for one in said.lines] == ["absent"] * 4
    assert (snapshot(user), list(home.iterdir())) == (before, [])


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"hooks": ', "it is no JSON: line 1: a value is missing or is none"),
        (b'{"hooks": null}', 'it is not understood: "hooks" is no object'),
        (b'{"a": 1, "a": 2}', 'it is not understood: it has "a" twice'),
        (b"\xff\xfe{\x00}\x00", "it is no UTF-8"),
    ],
)
def test_what_is_not_understood_is_left_alone(cli: Cli, user: Path, content: bytes, why: str) -> None:
    """It is said in one line, the file stays as it is, and the other harnesses get their hooks."""
    path = user / ".claude" / "settings.json"
    path.write_bytes(content)
    said = cli("install", "claude", "codex", "--yes", "--json")
    assert said.code == 2
    assert [one["state"] for one in said.lines] == ["refused", "installed"]
    assert said.lines[0]["notes"] == [f"{path}: {why}; it was left as it is"]
    assert path.read_bytes() == content
    assert cli("uninstall", "claude", "--yes").code == 2
    assert cli("status", "claude").code == 1
    assert path.read_bytes() == content


def test_only_refused(cli: Cli, user: Path, home: Path) -> None:
    """When nothing is left to be done, nothing is made."""
    path = user / ".claude" / "settings.json"
    path.chmod(0o400)
    said = cli("install", "claude", "--yes")
    assert said.code == 2
    assert said.out == (
        f"refused    claude   user     {path}  0 events\n  - {path}: it is read-only; it was left as it is\n"
    )
    assert path.read_bytes() == SETTINGS
    assert [path.name for path in home.iterdir()] == ["hook"]
    assert files.backups(home / "hook" / "backups") == []


def test_changed_just_now(cli: Cli, user: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change between reading and writing is not lost, and no backup says that we wrote what we did not."""
    path = user / ".claude" / "settings.json"
    keep = files.keep_backup

    def disturbed(*arguments: Any) -> None:
        keep(*arguments)
        path.write_bytes(b'{"theirs": 1}')

    monkeypatch.setattr(files, "keep_backup", disturbed)
    said = cli("install", "claude", "--yes")
    assert said.code == 2
    assert "it was changed just now: try again" in said.out
    assert path.read_bytes() == b'{"theirs": 1}'
    assert files.backups(home / "hook" / "backups") == []


def test_wrong_usage(cli: Cli) -> None:
    """An unknown harness or word is said, and nothing else happens."""
    said = cli("install", "claude", "gemini", "--yes")
    assert (said.code, said.err) == (
        2,
        "forensic: unknown harness 'gemini': known are claude, codex, copilot, cursor, all\n",
    )
    assert cli("install", "--yes").code == 2
    assert cli("remove").err == "forensic: no such command 'remove' (see forensic hooks --help)\n"
    assert cli("install", "claude", "--events", "some").code == 2


# --- asking ----------------------------------------------------------------------------------------------------------


def test_nobody_to_ask(cli: Cli, user: Path, home: Path) -> None:
    """Without a terminal nothing is changed without --yes."""
    before = snapshot(user)
    said = cli("install", "all")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "forensic: nobody is there to ask: give --yes to go ahead, or --dry-run to see what would change\n"
    )
    assert (snapshot(user), list(home.iterdir())) == (before, [])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("answer", "state"), [("y", "installed"), ("n", "")])
def test_a_person_is_asked(user: Path, answer: str, state: str) -> None:
    """A person sees what would change, and decides."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "forensic", "hooks", "install", "claude"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, env=environment, cwd=user)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    assert '+    "PreToolUse": [\n' in done.stderr
    assert "Register these hooks? [y/N]" in done.stderr
    assert done.stdout.strip().split("  ")[0] == state
    changed = (user / ".claude" / "settings.json").read_bytes() != SETTINGS
    assert changed == (answer == "y")
    assert ("nothing was changed" in done.stderr) == (answer == "n")


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_dry_run(cli: Cli, user: Path, home: Path, action: str) -> None:
    """A dry run shows what would change, says so, and changes nothing."""
    if action == "uninstall":
        cli("install", "claude", "codex", "--yes")
    before, kept = snapshot(user), snapshot(home)
    said = cli(action, "claude", "codex", "--dry-run")
    assert said.code == 0
    path = user / ".codex" / "hooks.json"
    first, second = ("/dev/null", path) if action == "install" else (path, "/dev/null")
    assert f"--- {first}\n+++ {second}\n" in said.out
    state = "installed" if action == "install" else "removed"
    assert f"\nwould be {state}  claude " in said.out
    told = cli(action, "claude", "--dry-run", "--json").lines
    assert told[0]["diff"].startswith(f"--- {user / '.claude' / 'settings.json'}\n+++ ")
    assert told[0]["state"] == state
    assert (snapshot(user), snapshot(home)) == (before, kept)


# --- versions, advice, status ----------------------------------------------------------------------------------------

TRUST = "it asks for the others when it is started in a terminal (Trust all and continue), or with /hooks"
OLD = {
    "PreToolUse",
    "PostToolUse",
    "Notification",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "PreCompact",
}


def test_an_old_claude(cli: Cli, user: Path) -> None:
    """A version that passes over all settings for one unknown event gets only those that it surely knows."""
    program(user, "claude", "echo '2.1.85 (Claude Code)'")
    said = cli("install", "claude", "--yes", "--json", "--events", "all")
    assert set(said.lines[0]["events"]) == OLD
    (note,) = (one for one in said.lines[0]["notes"] if one.startswith("left out"))
    assert "Claude Code 2.1.85 may not know PostToolUseFailure, PostToolBatch" in note
    assert cli("status", "claude").code == 0
    program(user, "claude", "echo '2.2.0'")
    said = cli("install", "claude", "--yes", "--json")
    assert len(said.lines[0]["events"]) == 26
    assert [one for one in said.lines[0]["notes"] if "left out" in one] == []


@pytest.mark.parametrize("body", ["", "echo no number", "exit 3", "exec sleep 60"])
def test_a_claude_that_does_not_say(cli: Cli, user: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its version cannot be told, all are registered, and what that may mean is said."""
    monkeypatch.setattr("forensic.registration.versions._PATIENCE", 0.2)
    program(user, "claude", body)
    said = cli("install", "claude", "--yes", "--json")
    assert len(said.lines[0]["events"]) == 26
    assert said.lines[0]["notes"][0].startswith("no claude was found to ask for its version")


def test_advice(cli: Cli) -> None:
    """What a person should know about each harness is said in one line each."""
    said = cli("install", "all", "--yes", "--json")
    notes = {one["harness"]: one["notes"] for one in said.lines}
    assert notes == {
        "claude": ["VS Code and Cursor may run these hooks as well; the recorder tells such payloads apart"],
        "codex": [
            f"Codex runs 0 of these 14 hooks: {TRUST}",
        ],
        "copilot": [],
        "cursor": ["Cursor passes over the whole file when it does not know one event's name, without a word"],
    }
    said = cli("install", "all", "--project", "--yes", "--json")
    ours = "the file names paths of this machine: it does not belong into the repository"
    assert [one["notes"][-1] for one in said.lines] == [ours] * 4
    assert "Copilot CLI" in said.lines[0]["notes"][0]


def test_status(cli: Cli, user: Path, home: Path) -> None:
    """Status tells where hooks are, and is good only when all that were named are up to date."""
    assert cli("status").code == 1
    assert [one["state"] for one in cli("status", "--json").lines] == ["absent"] * 4
    assert list(home.iterdir()) == []
    cli("install", "claude", "--yes")
    assert cli("status", "claude").code == 0
    assert cli("status").code == 1
    cli("install", "codex", "--project", "--yes")
    said = cli("status", "codex", "--json")
    assert said.code == 0
    assert [(one["scope"], one["state"], len(one["events"])) for one in said.lines] == [
        ("user", "absent", 0),
        ("project", "installed", 14),
    ]
    assert cli("status", "codex", "--user").code == 1
    assert cli("status", "codex", "--project").code == 0
    text = cli("status", "claude").out
    assert text.startswith(f"installed  claude   user     {user / '.claude' / 'settings.json'}  26 events\n")


def test_status_in_the_home_folder(cli: Cli, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the project's configuration is the user's, it is told once."""
    monkeypatch.chdir(user)
    cli("install", "claude", "--yes")
    assert [one["scope"] for one in cli("status", "claude", "--json").lines] == ["user"]


def test_what_is_out_of_date(cli: Cli, user: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook, an interpreter, a command or an event that is not as it should be is told, with what to do."""
    path = user / ".cursor" / "hooks.json"

    def told() -> list[str]:
        said = cli("status", "cursor", "--json")
        assert (said.code, said.lines[0]["state"]) == (1, "outdated")
        notes = [note for note in said.lines[0]["notes"] if "Cursor passes" not in note]
        assert all(note.endswith("; run: forensic hooks install cursor") for note in notes)
        return [note.partition("; run: ")[0] for note in notes]

    cli("install", "cursor", "--yes")
    good = path.read_text(encoding="utf-8")
    script = home / "hook" / "hook.py"
    kept = script.read_bytes()
    script.unlink()
    assert told() == [f"the hook {script} is missing or not of this version"]
    script.write_bytes(kept)
    baked = home / "hook" / "baked.py"
    start = baked.read_text(encoding="utf-8")
    baked.write_text(start.replace(repr(sys.executable), "'/gone/venv/bin/python'"), encoding="utf-8")
    assert told() == ["the recorder cannot be started, as /gone/venv/bin/python is gone"]
    for broken in ("START = nonsense\n", "START = (\n", "START = 1\n", ""):
        baked.write_text(broken, encoding="utf-8")
        assert cli("status", "cursor").code == 0
    baked.write_text(start, encoding="utf-8")
    value = json.loads(good)
    value["hooks"]["stop"][0]["timeout"] = 99
    del value["hooks"]["preCompact"]
    value["hooks"]["sessionEnd"] *= 2
    path.write_text(json.dumps(value), encoding="utf-8")
    assert told() == [
        "not as this version would register it: stop",
        "not registered: preCompact",
        "some events are registered twice",
    ]
    python = json.loads(good)["hooks"]["stop"][0]["command"].split()[2]
    path.write_text(good.replace(python, "/gone/python3.9"), encoding="utf-8")
    assert told() == ["its interpreter /gone/python3.9 is gone, so nothing is recorded"]
    path.write_text(good.replace(str(script), "/other/hook/hook.py"), encoding="utf-8")
    assert told() == ["it runs the hook of another home, /other/hook/hook.py"]
    cli("install", "cursor", "--yes")
    assert path.read_text(encoding="utf-8") == good
    assert cli("status", "cursor").code == 0


def test_codex_trust(cli: Cli, user: Path) -> None:
    """How many of our hooks Codex has been told to trust is read from its own configuration."""
    hooks = user / ".codex" / "hooks.json"
    hooks.parent.mkdir()
    hooks.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}}', encoding="utf-8")
    cli("install", "codex", "--yes")

    def trust(*keys: str, more: str = "") -> str:
        lines = (f'[hooks.state."{hooks}:{key}"]\ntrusted_hash = "sha256:00"\n{more}' for key in keys)
        (user / ".codex" / "config.toml").write_text("\n".join(lines), encoding="utf-8")
        said = cli("status", "codex", "--json")
        assert said.code == 0
        return " ".join(said.lines[0]["notes"])

    assert trust().startswith("Codex runs 0 of these 14 hooks")
    # the first place of Stop is somebody else's
    assert trust("stop:0:0").startswith("Codex runs 0 of these 14 hooks")
    assert trust("stop:1:0", "pre_tool_use:0:0").startswith("Codex runs 2 of these 14 hooks")
    assert trust("stop:1:0", more="enabled = false\n").startswith("Codex runs 0 of these 14 hooks")
    names = [name for name in (event.name for event in CLIENTS["codex"].events) if name != "Stop"]
    snakes = ["".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)[1:] for name in names]
    assert trust("stop:1:0", *(f"{name}:0:0" for name in snakes)) == ""
    (user / ".codex" / "config.toml").write_text("[broken", encoding="utf-8")
    assert cli("status", "codex", "--json").lines[0]["notes"][0].startswith("Codex runs 0")


def test_switched_off(cli: Cli, user: Path) -> None:
    """Hooks that are switched off as a whole are told."""
    path = user / ".claude" / "settings.json"
    path.write_bytes(SETTINGS.replace(b'"model"', b'"disableAllHooks": true, "model"'))
    said = cli("install", "claude", "--yes")
    assert '\n  - "disableAllHooks" is true there, so no hook runs\n' in said.out


def test_what_is_shown_is_clean(cli: Cli, user: Path) -> None:
    """A configuration cannot steer the terminal of who looks at what would change."""
    path = user / ".claude" / "settings.json"
    path.write_bytes(b'{"x": "\xc2\x9b31m\xe2\x80\xae", "hooks": {}}')
    said = cli("install", "claude", "--dry-run")
    assert said.code == 0
    assert [sign for sign in said.out if not sign.isprintable() and sign != "\n"] == []
