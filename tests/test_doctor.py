"""`forensic doctor`: it sees what is wrong, says what to do, and leaves everything as it is."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from users import SETTINGS, be, program

from forensic import doctor
from forensic.cli import main
from forensic.registration.clients import CLIENTS
from forensic.registration.command import base_interpreter
from forensic.registration.edit import Found, found
from forensic.registration.trying import is_recorded, try_hook

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands are tried in sh")


class Told(NamedTuple):
    """What the doctor found."""

    code: int
    checks: list[dict[str, Any]]

    def of(self, check: str, harness: str | None = None) -> list[tuple[str, str, str | None]]:
        """State, note and remedy of each check of that name."""
        return [
            (one["state"], one["note"], one["remedy"])
            for one in self.checks
            if (one["check"], one["harness"]) == (check, harness)
        ]

    def bad(self) -> set[str]:
        """The names of all that are not good; how long starts take is the machine's business."""
        return {one["check"] for one in self.checks if one["state"] != "ok"} - {"start"}


class Doctor:
    """Asks the doctor, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self) -> Told:
        self._capsys.readouterr()
        code = main(["doctor", "--json"])
        said = self._capsys.readouterr()
        assert said.err == ""
        return Told(code, [json.loads(line) for line in said.out.splitlines()])


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(capsys)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user of Claude Code, in a project."""
    place = tmp_path / "user"
    be(place, monkeypatch)
    (place / ".claude").mkdir()
    (place / ".claude" / "settings.json").write_bytes(SETTINGS)
    (place / "project").mkdir()
    monkeypatch.chdir(place / "project")
    program(place, "claude", "echo '2.1.332 (Claude Code)'")
    return place


def install(*arguments: str) -> None:
    assert main(["hooks", "install", *arguments, "--yes", "--no-autostart"]) == 0


def first(path: Path, harness: str = "claude") -> Found:
    return found(path.read_text(encoding="utf-8"), CLIENTS[harness])[0]


def snapshot(*folders: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (stat.S_IMODE(path.lstat().st_mode), path.read_bytes() if path.is_file() else b"")
        for folder in folders
        for path in folder.rglob("*")
        if path.name != "spool"
    }


# --- all in all ------------------------------------------------------------------------------------------------------


def test_all_is_well(ask: Doctor, user: Path, home: Path) -> None:
    """With a hook that fires everything is good but that nobody takes payloads, and nothing is left behind."""
    install("claude")
    before = snapshot(user, home)
    told = ask()
    assert told.code == 0
    assert told.bad() == {"recorder"}
    assert told.of("hooks", "claude") == [("ok", f"26 events, {user / '.claude' / 'settings.json'}", None)]
    assert told.of("firing", "claude") == [("ok", "a test payload came through the registered command", None)]
    assert told.of("version", "claude") == [("ok", "2.1.332: the parser was checked against it", None)]
    assert told.of("recorder") == [
        ("warn", "none runs, and no hook starts one: payloads wait in the spool", "forensic capture")
    ]
    assert told.of("backlog") == [("ok", "0 sessions being recorded, 0 payloads waiting", None)]
    assert snapshot(user, home) == before
    assert list((home / "spool").iterdir()) == []
    assert stat.S_IMODE((home / "spool").stat().st_mode) == 0o700


def test_nothing_is_there(ask: Doctor, user: Path, home: Path) -> None:
    """Where no harness is, there is nothing to do but to install, and nothing is made."""
    (user / "bin" / "claude").unlink()
    told = ask()
    assert told.code == 0
    assert told.of("hooks") == [
        ("warn", "no harness is known here, and no hook is registered", "forensic hooks install HARNESS")
    ]
    assert told.bad() == {"hooks"}
    assert list(home.iterdir()) == []


def test_for_people(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a check, its remedy below it, and how many of each at the end."""
    assert main(["doctor"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        "warn  hooks claude       not registered, so nothing of Claude Code is recorded as it goes on\n"
        "  ->  forensic hooks install claude\n"
    )
    assert said.err == "1 warn, 9 ok\n"


def test_one_of_each_check_stands_alone(ask: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that cannot be made is told, and the others are made."""

    def fail(_path: object) -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", fail)
    told = ask()
    assert told.code == 1
    assert told.of("space") == [("fail", "this cannot be looked at: [Errno 5] Input/output error", None)]
    assert told.of("diagnostics") != []


# --- hooks -----------------------------------------------------------------------------------------------------------


def test_outdated_and_refused(ask: Doctor, user: Path, home: Path) -> None:
    """A hook that is gone, and a configuration that nobody can read, are failures with a remedy."""
    install("claude", "codex", "--project")
    (home / "hook" / "hook.py").unlink()
    (user / "project" / ".codex" / "hooks.json").write_text("{", encoding="utf-8")
    told = ask()
    assert told.code == 1
    path = user / "project" / ".claude" / "settings.json"
    assert told.of("hooks", "claude") == [
        (
            "fail",
            f"{path}: the hook {home / 'hook' / 'hook.py'} is missing or not of this version",
            "forensic hooks install claude --project",
        )
    ]
    assert told.of("firing", "claude") == [
        ("fail", "it ran, and no payload came into the spool", "forensic hooks install claude --project")
    ]
    ((state, note, remedy),) = told.of("hooks", "codex")
    assert (state, remedy) == ("fail", "put that file right, then install again")
    assert "it is no JSON" in note


def test_trust_and_switch(ask: Doctor, user: Path) -> None:
    """Hooks that Codex does not trust do not run, nor do those of settings that switch all hooks off."""
    settings = user / ".claude" / "settings.json"
    settings.write_bytes(SETTINGS.replace(b'"model"', b'"disableAllHooks": true, "model"'))
    install("claude", "codex")
    told = ask()
    assert told.code == 1
    path = user / ".codex" / "hooks.json"
    assert told.of("trust", "codex") == [
        (
            "fail",
            f"Codex trusts 0 of 14 hooks of {path}",
            "start codex in a terminal and trust them, or use /hooks there",
        )
    ]
    assert ("fail", f"{settings} says disableAllHooks", "take that out") in told.of("hooks", "claude")
    keys = [f"{path}:{one.event}:0:0" for one in found(path.read_text(encoding="utf-8"), CLIENTS["codex"])]
    lines = [f'[hooks.state."{key}"]\ntrusted_hash = "sha256:00"\n' for key in keys]
    (user / ".codex" / "config.toml").write_text("".join(lines), encoding="utf-8")
    assert ask().of("trust", "codex") == [("ok", f"Codex trusts all 14 hooks of {path}", None)]


def test_twice(ask: Doctor) -> None:
    """Hooks of the user and of the project are told, as payloads may come twice."""
    install("claude")
    install("claude", "--project")
    told = ask()
    note = "registered for the user and for the project: each payload may come twice"
    assert ("warn", note, "forensic hooks uninstall claude --project") in told.of("hooks", "claude")
    assert [state for state, _, _ in told.of("firing", "claude")] == ["ok", "ok"]


# --- firing ----------------------------------------------------------------------------------------------------------


def test_every_harness_fires(ask: Doctor) -> None:
    """The command of each harness brings a payload, Cursor's with its answer."""
    install("all")
    told = ask()
    assert [told.of("firing", name)[0][0] for name in CLIENTS] == ["ok"] * 4


def test_only_its_own_payload_is_removed(user: Path, home: Path) -> None:
    """Payloads of others that come meanwhile stay, and the test payload names no transcript."""
    install("claude")
    spool = home / "spool"
    spool.mkdir(mode=0o700)
    real = home / "hook" / "hook.py"
    body = real.read_text(encoding="utf-8")
    other = spool / f"{'0' * 32}-{1:020}-1-1-{'0' * 8}.hook"
    seen = home / "seen"
    lines = f"open({str(other)!r}, 'w').write('theirs')\n"
    lines += f"import os, sys\nraw = os.read(0, 65536)\nopen({str(seen)!r}, 'wb').write(raw)\n"
    lines += "ours, theirs = os.pipe()\nos.write(theirs, raw)\nos.close(theirs)\nos.dup2(ours, 0)\n"
    real.write_text(lines + body, encoding="utf-8")
    trial = try_hook(first(user / ".claude" / "settings.json"), "ForensicDoctor")
    assert trial.trouble == ""
    assert [path.name for path in spool.iterdir()] == [other.name]
    told = json.loads(seen.read_bytes())
    assert sorted(told) == ["hook_event_name", "session_id", "token"]
    assert (told["hook_event_name"], told["session_id"]) == ("ForensicDoctor", "forensic-doctor")


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        (
            ("; exit 0", "; echo hello; exit 3"),
            "the command should be silent and end with 0: it ended with 3 and said 'hello\\n'",
        ),
        (("exit 0", "exit 1"), "the command should be silent and end with 0: it ended with 1 and said ''"),
        (("-I -S", "-c 1 -I -S"), "it ran, and no payload came into the spool"),
    ],
)
def test_what_a_command_does_wrong(user: Path, change: tuple[str, str], trouble: str) -> None:
    """A command that speaks, that fails, or that does nothing is seen through."""
    install("claude")
    path = user / ".claude" / "settings.json"
    path.write_text(path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert try_hook(first(path), "ForensicDoctor").trouble == trouble


def test_a_hook_that_hangs(user: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever."""
    monkeypatch.setattr("forensic.registration.trying._PATIENCE", 0.3)
    install("claude")
    (home / "hook" / "hook.py").write_text("import time\ntime.sleep(2)\n", encoding="utf-8")
    trial = try_hook(first(user / ".claude" / "settings.json"), "ForensicDoctor")
    assert trial.trouble == "the command did not end within 0 s"


def test_a_spool_that_cannot_be(ask: Doctor, home: Path) -> None:
    """Where the spool should be and something else is, the hook fails in silence, and the doctor does not."""
    install("claude")
    (home / "spool").write_text("", encoding="utf-8")
    told = ask()
    assert told.code == 1
    assert told.of("firing", "claude")[0][0] == "fail"
    assert told.of("spool") == [("fail", f"{home / 'spool'} is no folder", "move it away")]


# --- the recorder ----------------------------------------------------------------------------------------------------

HOLD = """
import fcntl, os, time
with open(os.environ["FORENSIC_HOME"] + "/spool/recorder.lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    time.sleep(float({seconds}))
"""


def stand_in(user: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Register hooks that start this code as their recorder."""
    script = user / "recorder.py"
    script.write_text(code, encoding="utf-8")
    monkeypatch.setattr(sys, "executable", str(program(user, "recorder", f"exec {base_interpreter()} {script}")))
    assert main(["hooks", "install", "claude", "--yes"]) == 0


def test_the_hook_starts_the_recorder(ask: Doctor, user: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that the test payload started is seen to run."""
    stand_in(user, monkeypatch, HOLD.format(seconds=6))
    told = ask()
    assert told.of("recorder") == [("ok", "it runs", None)]
    assert is_recorded(home / "spool")
    assert told.bad() == set()


def test_the_hook_cannot_start_the_recorder(ask: Doctor, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that does not come up is a failure."""
    monkeypatch.setattr(doctor, "_STARTING", 0.2)
    stand_in(user, monkeypatch, "")
    told = ask()
    assert told.code == 1
    assert told.of("recorder") == [
        ("fail", "none runs, and the hook could not start one", "forensic capture, to see why")
    ]


def test_the_lock(home: Path) -> None:
    """Only a lock that somebody holds means that somebody records, and looking does not take it."""
    spool = home / "spool"
    spool.mkdir()
    assert not is_recorded(spool)
    environment = {"FORENSIC_HOME": str(home)}
    holder = subprocess.Popen([sys.executable, "-c", HOLD.format(seconds=30)], env=environment)
    try:
        until = time.monotonic() + 20
        while not is_recorded(spool) and time.monotonic() < until:
            time.sleep(0.01)
        assert is_recorded(spool)
        assert is_recorded(spool)
    finally:
        holder.kill()
        holder.wait()
    assert not is_recorded(spool)


# --- versions and retention ------------------------------------------------------------------------------------------


def test_versions(ask: Doctor, user: Path) -> None:
    """A version that is too old for our events fails; one that nobody checked, or that has more, is told."""
    install("claude")
    program(user, "claude", "echo '2.1.85 (Claude Code)'")
    told = ask()
    assert told.code == 1
    ((state, note, remedy), (second, _, _)) = told.of("version", "claude")
    assert (state, second) == ("fail", "ok")
    assert note.startswith("2.1.85 may not know ConfigChange, CwdChanged, ")
    assert remedy == "update Claude Code, or forensic hooks install claude"
    install("claude")
    program(user, "claude", "echo 9.9.9")
    told = ask()
    assert told.code == 0
    assert told.of("version", "claude") == [
        ("warn", "9.9.9 has 18 events more than are registered", "forensic hooks install claude"),
        (
            "ok",
            "9.9.9: the parser was not checked against it; everything is kept, and what it does not know says so",
            None,
        ),
    ]


@pytest.mark.parametrize(
    ("setting", "age", "expected"),
    [
        ("", None, ("ok", "Claude Code deletes transcripts after 30 days")),
        ("", 10, ("ok", "Claude Code deletes transcripts after 30 days; the oldest goes in 19 days")),
        ("", 26, ("warn", "Claude Code deletes transcripts after 30 days; the oldest goes in 3 days")),
        ("", 40, ("warn", "Claude Code deletes transcripts after 30 days; the oldest goes when it starts next")),
        (
            '"cleanupPeriodDays": 365,',
            40,
            ("ok", "Claude Code deletes transcripts after 365 days; the oldest goes in 324 days"),
        ),
        ('"cleanupPeriodDays": 0,', 40, ("warn", "cleanupPeriodDays is 0: no transcript may be kept")),
        ('"cleanupPeriodDays": "x",', None, ("ok", "Claude Code deletes transcripts after 30 days")),
    ],
)
def test_retention(ask: Doctor, user: Path, setting: str, age: int | None, expected: tuple[str, str]) -> None:
    """When transcripts will be deleted follows from the settings and the oldest of them."""
    (user / ".claude" / "settings.json").write_text(f'{{// mine\n{setting} "a": 1}}', encoding="utf-8")
    if age is not None:
        path = user / ".claude" / "projects" / "p" / "s.jsonl"
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, times=(time.time() - age * 86400 - 60,) * 2)
    ((state, note, _),) = ask().of("retention", "claude")
    assert (state, note) == expected


# --- folders, space, backlog -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spool", "live", "archive"])
def test_folders(ask: Doctor, home: Path, name: str) -> None:
    """A folder that others may look into, or that cannot be written, fails with what to do."""
    path = home / name
    assert ask().of(name) == [("ok", f"{path} is not there yet", None)]
    path.mkdir(mode=0o700)
    assert ask().of(name) == [("ok", f"{path} is private and can be written", None)]
    path.chmod(0o750)
    told = ask()
    assert (told.code, told.of(name)) == (
        1,
        [("fail", f"{path} is open to others: its mode is 0750", f"chmod 700 {path}")],
    )
    path.chmod(0o500)
    assert ask().of(name) == [("fail", f"{path} cannot be written: its mode is 0500", f"chmod 700 {path}")]
    path.chmod(0o700)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        assert ask().of(name)[0][:2] == ("fail", f"{path} belongs to somebody else")


def test_space(ask: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little room is a warning, where the home is or will be."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 999_999_999}))
    told = ask()
    assert told.code == 0
    assert told.of("space")[0][:2] == ("warn", f"1.0 GB are free at {home}")


def test_backlog(ask: Doctor, home: Path) -> None:
    """Payloads that wait for long, sessions that are recorded and files that are no payloads are counted."""
    spool = home / "spool"
    (spool / "lost").mkdir(parents=True, mode=0o700)
    (spool / "recorder.lock").touch()
    (home / "live" / ("a" * 32)).mkdir(parents=True)
    now = time.time_ns()

    def wait(seconds: int, number: int) -> None:
        (spool / f"{'0' * 32}-{number:020}-{now - seconds * 10**9}-1-{'0' * 8}.hook").touch()

    wait(5, 1)
    assert ask().of("backlog") == [("ok", "1 session being recorded, 1 payload waiting", None)]
    wait(7200, 2)
    (spool / "lost" / "x").touch()
    first, second = ask().of("backlog")
    assert (first[0], first[2]) == ("warn", "forensic capture --once")
    assert first[1].startswith("1 session being recorded, 2 payloads waiting, the oldest for 2h 00m")
    assert second[1] == f"1 file in {spool / 'lost'} could not be read as payloads"


def test_diagnostics(ask: Doctor, home: Path) -> None:
    """What hooks could not do lately is told, cleaned; what is long ago is no warning any more."""
    spool = home / "spool"
    spool.mkdir(mode=0o700)
    log = spool / "diagnostics.log"
    log.write_bytes(b"1 2 first\n1796000000000000000 77 no pin of b'/x': \x1b[31mnot absolute\xff\n")
    ((state, note, remedy),) = ask().of("diagnostics")
    assert (state, remedy) == ("warn", f"read {log}, and delete it when it is settled")
    assert note.startswith("2 lines of trouble, the last ")
    assert note.endswith("ago: no pin of b'/x': \x1b[31mnot absolute\ufffd")
    os.utime(log, times=(time.time() - 2 * 86400,) * 2)
    assert ask().of("diagnostics")[0][0] == "ok"


def test_what_is_shown_is_clean(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands in a log cannot steer the terminal of who reads the doctor's answer."""
    (home / "spool").mkdir(mode=0o700)
    (home / "spool" / "diagnostics.log").write_bytes(b"1 2 \x1b[31mred\xc2\x9bx\n")
    assert main(["doctor"]) == 0
    said = capsys.readouterr()
    assert [sign for sign in said.out if not sign.isprintable() and sign != "\n"] == []
