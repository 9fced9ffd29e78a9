"""The command line from the outside: what it answers, what it says when something is wrong, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from homes import row

from forensic.capture.discover import Found
from forensic.capture.named import record
from forensic.cli import main
from forensic.cli.app import COMMANDS, EXIT_CODES
from forensic.errors import NotReadable

SESSION = "5e550000-0000-4000-8000-000000000001"


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
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Said:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Said(code, *self._capsys.readouterr())


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def source(root: Path) -> Path:
    """A whole small session, as it lies below a home folder."""
    return root / "golden" / "claude" / "a-working-day" / "source"


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """A transcript that can be appended to."""
    path = tmp_path / "projects" / "demo" / "aaaa0000-0000-4000-8000-000000000001.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(prompt(1))
    return path


def prompt(number: int, text: str = "hello", session: str = "aaaa0000-0000-4000-8000-000000000001") -> bytes:
    message = {"role": "user", "content": text}
    return row(session, "user", uuid=f"u{number}", message=message, version="2.1.332", timestamp="2026-03-02T08:00:00Z")


def sealed(cli: Cli, path: Path) -> Path:
    """Capture one session; its bundle."""
    said = cli("capture", path, "--json")
    assert said.code == 0
    return Path(said.lines[0]["bundle"])


def ask(*arguments: str, answer: str) -> subprocess.CompletedProcess[str]:
    """A command that has a person to ask, who answers so."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "forensic", *arguments]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(ours)
    os.close(theirs)
    return done


def run(*arguments: str | Path, code: str = "", **more: str) -> subprocess.Popen[bytes]:
    """A command in a process of its own."""
    start = ["-m", "forensic"] if not code else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *start, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **more},
    )


# --- help and usage --------------------------------------------------------------------------------------------------


def test_help(cli: Cli) -> None:
    """Without a command there is help, which names every command and every exit code."""
    said = cli()
    assert said == cli("--help") == cli("-h")
    assert said.code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in said.out] == []
    assert [line for line in EXIT_CODES.replace("\b\n", "").splitlines() if line not in said.out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(cli: Cli, command: str) -> None:
    """Every command's help has an example of itself and no word about the machinery."""
    said = cli(command, "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: forensic {command}")
    assert f"Example:\n\n    forensic {command}" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_version(cli: Cli) -> None:
    """The version is that of the package, however it is asked for."""
    from forensic import __version__

    assert cli("--version") == (0, f"forensic {__version__}\n", "")
    assert cli("--version", "list") == (0, f"forensic {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["capture", "--foo"], "no such option: --foo (see forensic capture --help)"),
        (["--foo"], "no such option: --foo (see forensic --help)"),
        (["capture", "--harness", "codex"], "--harness is for named paths: hooks say themselves whose they are"),
        (["captur"], "no such command 'captur'. Did you mean 'capture'? (see forensic --help)"),
        (["replay", "x", "--format"], "option '--format' requires an argument (see forensic --help)"),
        (["replay", "x", "--format", "xml"], "unknown format 'xml': known are tree, summary, json, bindings"),
        (["replay", "x", "--parser-version", "one"], "invalid value for '--parser-version': 'one' is not a valid"),
        (["capture", "/nowhere/at/all"], "no such file or folder: /nowhere/at/all"),
        (
            ["capture", ".", "--harness", "emacs"],
            "unknown harness 'emacs': known are claude, codex, copilot, cursor, unknown",
        ),
        (["replay", "/nowhere.zst"], "no such file or folder: /nowhere.zst"),
        (["verify", "/nowhere.zst"], "no such file or folder: /nowhere.zst"),
        (["forget", "nobody"], "archive holds nothing that 'nobody' is the id of"),
        (["verify", "nobody"], "archive holds nothing that 'nobody' is the id of"),
        (["capture", ""], "an empty name names nothing"),
        (["replay", ""], "an empty name names nothing"),
        (["replay", "x", "-o", ""], "an empty name names nothing"),
        (["verify", ""], "an empty name names nothing"),
        (["salvage", "", "-o", "x"], "an empty name names nothing"),
        (["forget", "", "--yes"], "an empty name names nothing"),
        (["list", "--archive", ""], "an empty name names nothing"),
        (["replay", "nobody"], "archive holds nothing that 'nobody' is the id of"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], message: str) -> None:
    """Wrong usage is one line on standard error, nothing on standard output, and 2."""
    said = cli(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("forensic: ")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_folder_without_a_session(cli: Cli, tmp_path: Path, home: Path) -> None:
    """A folder with no session in it, or no bundle, says so."""
    said = cli("capture", tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"forensic: no agent session found in {tmp_path}")
    assert cli("verify", tmp_path) == (2, "", f"forensic: no bundle found in {tmp_path}\n")
    assert cli("verify") == (2, "", f"forensic: no bundle found in {home}/archive\n")


# --- capture, list, replay, verify -----------------------------------------------------------------------------------


def test_capture(cli: Cli, source: Path, home: Path) -> None:
    """A session is sealed once, privately, into FORENSIC_HOME, and says what it is."""
    said = cli("capture", source, "--json")
    (told,) = said.lines
    assert (said.code, said.err) == (0, "")
    assert list(told)[:6] == ["bundle", "content_id", "harness", "session", "rows", "state"]
    assert (told["harness"], told["session"], told["rows"], told["state"]) == ("claude", SESSION, 64, "sealed")
    bundle = Path(told["bundle"])
    assert bundle.is_relative_to(home)
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o400
    assert cli("capture", source, "--json").lines[0] == {**told, "state": "unchanged"}
    line = f"unchanged    claude  {SESSION}  64 rows  {told['content_id'][:12]}\n"
    assert cli("capture", source) == (0, line, "")


def test_capture_of_several(cli: Cli, growing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line each, without paths; how many of each kind closes them, on standard error; one that failed is 1."""
    other = growing.with_name("bbbb0000-0000-4000-8000-000000000001.jsonl")
    other.write_bytes(prompt(1, session=other.stem))
    sealed(cli, growing)
    first, second = (told["content_id"][:12] for told in cli("capture", growing.parent, "--json").lines)
    shown = "".join(
        f"unchanged    claude  {path.stem}  1 row  {content_id}\n"
        for path, content_id in ((growing, first), (other, second))
    )
    assert cli("capture", growing.parent) == (0, shown, "2 sessions: 2 unchanged\n")
    growing.write_bytes(growing.read_bytes() + prompt(2))

    def broken(found: Found, *arguments: Any, **more: Any) -> Any:
        if found.session == other.stem:
            raise NotReadable(path=other, detail="Input/output error")
        return record(found, *arguments, **more)

    other.write_bytes(other.read_bytes() + prompt(2, session=other.stem))
    monkeypatch.setattr("forensic.intake.record", broken)
    said = cli("capture", growing.parent)
    newer = cli("list", "--json").lines[-1]["content_id"][:12]
    assert (said.code, said.err) == (1, "2 sessions: 1 superseding, 1 failed\n")
    assert said.out.splitlines() == [
        f"superseding  claude  {growing.stem}  2 rows  {newer}",
        f"failed       claude  {other.stem}",
        f"  !  not-captured: cannot read {other}: Input/output error",
    ]
    assert cli("capture", growing.parent, "--json").err == ""


def test_capture_into_another_archive(cli: Cli, source: Path, tmp_path: Path, home: Path) -> None:
    """--archive takes the place of FORENSIC_HOME, for every command that has it."""
    other = tmp_path / "other"
    told = cli("capture", source, "--archive", other, "--json").lines[0]
    assert Path(told["bundle"]).is_relative_to(other)
    assert list(home.iterdir()) == []
    assert cli("list", "--archive", other, "--json").lines[0]["session"] == SESSION
    assert cli("replay", SESSION, "--archive", other, "--format", "json").code == 0
    assert cli("list").out == ""


def test_capture_without_verdict(cli: Cli, source: Path) -> None:
    """A bundle sealed without a verdict verifies, and says that there was none."""
    cli("capture", source, "--no-verdict")
    told = cli("verify", os.environ["FORENSIC_HOME"], "--json").lines[0]
    assert told["ok"] is True
    assert [finding["kind"] for finding in told["findings"]] == ["no-verdict"]
    said = cli("verify")
    assert said.code == 0
    assert said.out.endswith("  -  no-verdict: sealed without a replay to compare with\n")
    assert cli("list").out.splitlines()[1].split()[:4] == ["-", "claude", "-", "64"]


def test_list(cli: Cli, growing: Path) -> None:
    """Sessions are listed once each, superseded bundles only when asked for."""
    sealed(cli, growing)
    growing.write_bytes(growing.read_bytes() + prompt(2))
    newer = sealed(cli, growing)
    (told,) = cli("list", "--json").lines
    assert (told["bundle"], told["rows"], told["superseded"]) == (str(newer), 2, False)
    assert [told["superseded"] for told in cli("list", "--all", "--json").lines] == [True, False]
    shown = cli("list", "--all").out.splitlines()
    assert shown[0].split() == ["started", "(UTC)", "harness", "title", "rows", "size", "content", "session"]
    assert ["superseded" in line for line in shown] == [False, True, False]


def test_list_tells_what_happened_when(cli: Cli, growing: Path, source: Path) -> None:
    """The session that began last comes last, whenever it was captured; JSON has its times and its title, too."""
    growing.write_bytes(prompt(1, "what is this").replace(b"2026-03-02", b"2026-03-03"))
    sealed(cli, growing)
    sealed(cli, source)
    first, last = cli("list", "--json").lines
    assert list(first) == [
        "bundle", "content_id", "harness", "session", "started", "sealed_at", "sources", "rows", "size", "supersedes",
        "superseded", "title", "began", "ended",
    ]  # fmt: skip
    assert (first["title"], first["began"][:19], first["ended"][:19]) == (
        "Report total off by a cent",
        "2026-03-02T08:58:04",
        "2026-03-02T09:04:52",
    )
    assert last["session"] == growing.stem
    head, one, other = cli("list").out.splitlines()
    assert one.startswith("2026-03-02 08:58  claude   Report total off by a cent    64  ")
    assert one.endswith(f"  {first['content_id'][:12]}  {SESSION}")
    assert other.startswith("2026-03-03 08:00  claude   ")
    assert head.index("title") == one.index("Report")


@pytest.mark.parametrize(
    ("columns", "title", "session"),
    [
        (60, "Report\u2026", None),
        (80, "Report total off by a ce\u2026", None),
        (90, "Report total off by a ce\u2026", SESSION[:8]),
        (200, "Report total off by a cent", SESSION),
    ],
)
def test_list_fits(
    cli: Cli, source: Path, monkeypatch: pytest.MonkeyPatch, columns: int, title: str, session: str | None
) -> None:
    """The title takes what the width leaves; the session's id is cut, and at last left out, in favour of it."""
    sealed(cli, source)
    monkeypatch.setenv("COLUMNS", str(columns))
    head, line = cli("list").out.splitlines()
    assert max(len(head), len(line)) <= max(columns, 66)
    assert line[head.index("title") :].startswith(f"{title}  ")
    assert (line.split()[-1] if head.endswith("session") else None) == session


def test_list_of_wide_and_evil_titles(cli: Cli, growing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide characters take two cells, combining ones none, and controls do not get out."""
    monkeypatch.setenv("COLUMNS", "80")
    growing.write_bytes(prompt(1, "\u65e5\u672c\u8a9e" * 9 + "\x1b[2J"))
    sealed(cli, growing)
    said = cli("list").out
    assert "\x1b" not in said
    head, line = said.splitlines()
    title = line[27:].split("  ")[0]
    assert title == "\u65e5\u672c\u8a9e" * 4 + "\u2026"
    assert line.index("  1  ") + len(title) - 1 == head.index("rows") + 1


def test_list_of_nothing(cli: Cli, home: Path) -> None:
    """An empty archive is no error; what to do next stands on standard error."""
    said = cli("list")
    assert (said.code, said.out) == (0, "")
    assert said.err == f"no session in {home}/archive yet: forensic capture PATH, or forensic hooks install\n"


def test_list_tells_of_sessions_being_recorded(cli: Cli, home: Path) -> None:
    """What is not sealed yet is not listed, but nobody has to think that it was lost; an empty folder is no session."""
    for name in ("a", "b"):
        (home / "live" / name).mkdir(parents=True)
    (home / "live" / "a" / "journal").touch()
    said = cli("list")
    assert (said.code, said.out) == (0, "")
    assert said.err == "1 session being recorded and not sealed yet: forensic seal\n"
    assert cli("list", "--json").out == ""


def test_list_with_a_broken_bundle(cli: Cli, source: Path) -> None:
    """A bundle that cannot be read is named, and does not hide the others."""
    bundle = sealed(cli, source)
    broken = bundle.parent.parent / "ff" / "claude-ffffffffffffffff.zst"
    broken.parent.mkdir()
    broken.write_bytes(b"nonsense")
    said = cli("list")
    assert said.code == 1
    assert SESSION in said.out
    assert str(broken) in said.err


@pytest.mark.parametrize("name", ["session", "content", "path", "unpacked"])
def test_replay(cli: Cli, source: Path, name: str) -> None:
    """A bundle is named by its path or by the beginning of an id; an unpacked recording is as good."""
    bundle = sealed(cli, source)
    content = cli("list", "--json").lines[0]["content_id"]
    names = {"session": SESSION[:8], "content": content[:10], "path": str(bundle), "unpacked": str(source.parent)}
    said = cli("replay", names[name])
    assert (said.code, said.err) == (0, "")
    assert "\nTurn 1 \u00b7 " in said.out
    assert f"content {content[:12]}" in said.out


def test_replay_forms(cli: Cli, source: Path) -> None:
    """Each form is what it says: a page for people, one document, one line for each observation."""
    sealed(cli, source)
    document = json.loads(cli("replay", SESSION, "--format", "json").out)
    assert document["session"] == SESSION
    assert cli("replay", SESSION, "--format", "summary").out.startswith(f"session      {SESSION}\n")
    assert {line["place"] for line in cli("replay", SESSION, "--format", "bindings").lines} == {
        "node",
        "evidence",
        "aside",
    }


def test_replay_into_a_file(cli: Cli, source: Path, tmp_path: Path) -> None:
    """-o writes the same bytes into a private file, and replaces nothing unless it is told to."""
    sealed(cli, source)
    out = tmp_path / "session.json"
    assert cli("replay", SESSION, "--format", "json", "-o", out) == (0, "", "")
    assert out.read_text(encoding="utf-8") == cli("replay", SESSION, "--format", "json").out
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.write_bytes(b"mine")
    said = cli("replay", SESSION, "-o", out)
    assert (said.code, said.out) == (2, "")
    assert said.err == f"forensic: {out} exists already: name another file, or replace it with --force\n"
    assert out.read_bytes() == b"mine"
    assert cli("replay", SESSION, "-o", out, "--force") == (0, "", "")
    assert "Turn 1" in out.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]


def test_replay_into_nowhere(cli: Cli, source: Path, tmp_path: Path) -> None:
    """A file that cannot be written is 5, and leaves nothing behind."""
    sealed(cli, source)
    said = cli("replay", SESSION, "-o", tmp_path / "no" / "such" / "folder")
    assert (said.code, said.out) == (5, "")
    assert said.err.endswith("nothing was left half-written\n")
    assert list(tmp_path.iterdir()) == []


def test_no_such_parser(cli: Cli, source: Path) -> None:
    """A parser version that there is not is wrong usage."""
    sealed(cli, source)
    said = cli("replay", SESSION, "--parser-version", "99")
    assert (said.code, said.out) == (2, "")
    assert "no parser version 99" in said.err


def test_full(cli: Cli, growing: Path) -> None:
    """--full shows a long text whole, where else its beginning stands."""
    growing.write_bytes(prompt(1, "word " * 400))
    sealed(cli, growing)
    assert cli("replay", "aaaa", "--full").out.count("word") > 400
    assert cli("replay", "aaaa").out.count("word") < 150


def test_verify(cli: Cli, source: Path, growing: Path, home: Path) -> None:
    """Good bundles are good: one, several, or a whole archive."""
    bundles = sorted([sealed(cli, source), sealed(cli, growing)])
    said = cli("verify", *bundles, "--json")
    assert said.code == 0
    assert [list(told) for told in said.lines] == [
        ["bundle", "content_id", "bundle_id", "ok", "damaged", "findings"]
    ] * 2
    assert [told["ok"] for told in said.lines] == [True, True]
    shown = "".join(f"ok         {bundle}\n" for bundle in bundles)
    assert cli("verify", home) == cli("verify") == (0, shown, "2 bundles: 2 ok\n")
    assert cli("verify", source.parent).code == 0


def test_verify_damage(cli: Cli, source: Path, tmp_path: Path) -> None:
    """A flipped bit is found and placed; a good bundle beside it is still called good; the worst decides."""
    bundle = sealed(cli, source)
    raw = bytearray(bundle.read_bytes())
    raw[len(raw) // 2] ^= 1
    bad = tmp_path / "bad.zst"
    bad.write_bytes(raw)
    said = cli("verify", bad, bundle)
    assert said.code == 3
    assert said.out.splitlines()[0] == f"damaged    {bad}"
    assert said.out.splitlines()[-1] == f"ok         {bundle}"
    (told, _) = cli("verify", bad, bundle, "--json").lines
    assert (told["ok"], told["damaged"]) == (False, True)


def test_verify_by_id(cli: Cli, source: Path, tmp_path: Path) -> None:
    """Bundles are named as for replay, in another archive, too; one that cannot be read by its file's name."""
    other = tmp_path / "other"
    told = cli("capture", source, "--archive", other, "--json").lines[0]
    shown = f"ok         {told['bundle']}\n"
    for name in (SESSION, SESSION[:8], told["content_id"][:6], told["content_id"], told["bundle"]):
        assert cli("verify", name, "--archive", other) == (0, shown, "")
    assert cli("verify", "--archive", other, "--no-verdict") == (0, shown, "")
    assert cli("verify", SESSION).code == 2
    broken = other / "ff" / "claude-ffffffffffffffff.zst"
    broken.parent.mkdir()
    broken.write_bytes(b"nonsense")
    said = cli("verify", "ffffffff", "--archive", other)
    assert said.code == 3
    assert said.out.startswith(f"no bundle  {broken}\n  !  no-bundle: ")
    assert cli("verify", "--archive", other).err == "2 bundles: 1 ok, 1 no bundle\n"
    assert cli("replay", "ffffffff", "--archive", other).code == 3


@pytest.mark.parametrize("command", ["replay", "verify"])
def test_foreign_file(cli: Cli, growing: Path, command: str) -> None:
    """What is no bundle is said to be none, and a transcript is told from nonsense."""
    said = cli(command, growing)
    assert said.code == 3
    assert "not a forensic bundle: it looks like a transcript: capture it first" in said.out + said.err


def test_newer_format(cli: Cli, source: Path, tmp_path: Path) -> None:
    """A bundle of a later format is refused with a word that helps."""
    newer = tmp_path / "newer"
    newer.mkdir()
    for path in source.parent.glob("*.json*"):
        (newer / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((newer / "manifest.json").read_bytes())
    (newer / "manifest.json").write_text(json.dumps({**manifest, "format": 99}, sort_keys=True, separators=(",", ":")))
    for command in ("replay", "verify"):
        said = cli(command, newer)
        assert said.code == 4
        assert "please update forensic" in said.out + said.err


# --- salvage, prune, forget ------------------------------------------------------------------------------------------


def test_salvage(cli: Cli, source: Path, tmp_path: Path) -> None:
    """What is left becomes a bundle that verifies; the damaged one stays, and nothing is written over."""
    bundle = sealed(cli, source)
    raw = bytearray(bundle.read_bytes())
    raw[-200] ^= 1
    bad, out = tmp_path / "bad.zst", tmp_path / "saved.zst"
    bad.write_bytes(raw)
    assert cli("verify", bad).code == 3
    said = cli("salvage", bad, "-o", out, "--json")
    (told,) = said.lines
    assert list(told) == [
        "bundle", "content_id", "bundle_id", "verified", "unverified", "lost", "rows", "payloads",
    ]  # fmt: skip
    assert said.code == int(bool(told["unverified"] or told["lost"]))
    assert cli("verify", out).code == 0
    assert bad.read_bytes() == raw
    before = out.stat()
    (tmp_path / "mine").write_bytes(b"mine")
    for there in (out, tmp_path / "mine"):
        refused = cli("salvage", bad, "-o", there)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"forensic: {there} exists already")
    assert out.stat() == before
    assert (tmp_path / "mine").read_bytes() == b"mine"
    shown = cli("salvage", bad, "-o", tmp_path / "again.zst").out.splitlines()
    assert shown == [
        f"salvaged  0 rows  0 payloads  {tmp_path}/again.zst",
        *(f"  !  lost: {name}" for name in told["lost"]),
    ]


def test_prune(cli: Cli, growing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Superseded bundles go, after a question; a dry run only says so; where nobody can answer nothing happens."""
    older = sealed(cli, growing)
    growing.write_bytes(growing.read_bytes() + prompt(2))
    newer = sealed(cli, growing)
    assert cli("prune", "--dry-run").out.startswith("would go")
    said = cli("prune")
    assert (said.code, said.err) == (2, "forensic: nobody is there to ask: give --yes to go ahead\n")
    assert older.exists()
    (told,) = cli("prune", "--yes", "--json").lines
    assert (told["bundle"], told["dropped"], told["reason"]) == (str(older), True, "")
    assert (older.exists(), newer.exists()) == (False, True)
    for arguments in ([], ["--yes"], ["--dry-run"]):
        assert cli("prune", *arguments) == (0, "", "nothing to prune: no bundle is superseded\n")


def test_forget(cli: Cli, growing: Path, source: Path) -> None:
    """Every bundle of the session goes and no other; the transcript stays."""
    sealed(cli, growing)
    growing.write_bytes(growing.read_bytes() + prompt(2))
    sealed(cli, growing)
    kept = sealed(cli, source)
    refused = cli("forget", "aaaa")
    assert refused.code == 2
    assert [line.split("  ")[2] for line in refused.out.splitlines()] == ["1 row", "2 rows"]
    assert len(cli("list", "--all", "--json").lines) == 3
    (told,) = cli("forget", "aaaa", "--yes", "--json").lines
    assert told["session"] == growing.stem
    assert len(told["bundles"]) == 2
    assert [line["bundle"] for line in cli("list", "--all", "--json").lines] == [str(kept)]
    assert growing.exists()


def test_forget_what_cannot_be_read(cli: Cli, growing: Path) -> None:
    """It is named by the beginning of its file's id, 8 characters at least, and nothing else goes."""
    good = sealed(cli, growing)
    broken = good.parent.parent / "ff" / "claude-ff00ff00ff00ff00.zst"
    broken.parent.mkdir()
    broken.write_bytes(b"nonsense")
    assert cli("forget", "ff00ff0", "--yes").code == 2
    refused = cli("forget", "ff00ff00")
    assert (refused.code, broken.exists()) == (2, True)
    assert refused.out == f"claude  ff00ff00ff00ff00\u2026  8 B  {broken}\n"
    done = ask("forget", "ff00ff00", answer="n")
    question = "This bundle cannot be read; nobody can tell which session it holds. Remove it for good? [y/N]"
    assert question in done.stderr
    assert broken.exists()
    (told,) = cli("forget", "ff00ff00", "--yes", "--json").lines
    assert told == {"session": None, "harness": "claude", "bundles": [str(broken)]}
    assert (broken.exists(), good.exists()) == (False, True)


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 1), ("", 1)])
def test_forget_asks(cli: Cli, growing: Path, answer: str, left: int) -> None:
    """On a terminal a person is asked, and only a yes counts."""
    sealed(cli, growing)
    done = ask("forget", "aaaa", answer=answer)
    assert done.returncode == 0
    assert "Remove this bundle for good? [y/N]" in done.stderr
    assert len(cli("list", "--json").lines) == left


# --- how it ends -----------------------------------------------------------------------------------------------------


def test_names_are_cleaned(cli: Cli, tmp_path: Path) -> None:
    """A file name with controls in it reaches the terminal without them, in answers as in errors."""
    evil = "\x1b]0;x\x07a\x9b\u202eb\n"
    said = cli("capture", tmp_path / evil)
    assert said.err == f"forensic: no such file or folder: {tmp_path}/a\ufffd\ufffdb\n"
    path = tmp_path / f"{evil}.jsonl"
    path.write_bytes(prompt(1, session="x\x1b[2J\u202ey"))
    said = cli("capture", path)
    assert said.code == 0
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out


def test_a_bug_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is one line that asks for a report, 70, and a traceback only on request."""

    def broken(_arguments: list[str]) -> int:
        raise ValueError("a\nb\x1b[31m")

    monkeypatch.setattr("forensic.cli._answer", broken)
    line = "forensic: this is a bug, please report it (ValueError: a b); FORENSIC_DEBUG=1 shows where\n"
    assert cli("list") == (70, "", line)
    monkeypatch.setenv("FORENSIC_DEBUG", "1")
    said = cli("list")
    assert said.err.startswith("Traceback (most recent call last):")
    assert said.err.endswith(line)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (FileNotFoundError(2, "No such file or directory", "/x"), 2, "/x: no such file or directory"),
        (PermissionError(13, "Permission denied", "/x"), 2, "/x: permission denied"),
        (OSError(28, "No space left on device", "/x"), 5, "/x: no space left on device"),
        (OSError(30, "Read-only file system"), 5, "read-only file system"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_of_the_machine(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    """The system's own errors are one line with the path they are about."""

    def broken(_arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr("forensic.cli._answer", broken)
    assert cli("list") == (code, "", f"forensic: {message}\n")


def test_reader_goes_away(cli: Cli, growing: Path) -> None:
    """A reader that has seen enough ends the command quietly."""
    growing.write_bytes(b"".join(prompt(number, f"prompt {number}") for number in range(3000)))
    sealed(cli, growing)
    process = run("replay", "aaaa")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 141


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt(home: Path, source: Path, number: signal.Signals, code: int) -> None:
    """Interrupted in the middle of a capture, it leaves neither a bundle nor a working folder, nor a traceback."""
    slow = (
        "import sys, time, forensic.recording as r\n"
        "def judge(_session):\n    print('here', flush=True)\n    time.sleep(30)\n"
        "r.judge = judge\n"
        "from forensic.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    process = run("capture", source, code=slow)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    assert err == (b"forensic: interrupted\n" if code == 130 else b"")
    assert [path.name for path in home.rglob("*") if path.is_file()] == []
    assert list((home / "archive" / "work").iterdir()) == []


def test_narrow_encoding(cli: Cli, growing: Path) -> None:
    """A terminal that knows ASCII alone gets ASCII, not an error."""
    growing.write_bytes(prompt(1, "\u65e5\u672c caf\u00e9"))
    sealed(cli, growing)
    process = run("replay", "aaaa", PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert b"Turn 1 - 08:00 - ?? caf?" in out


def test_progress_on_a_terminal(source: Path) -> None:
    """On a terminal there is a bar while it works, and the answer still goes to standard output alone."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def watch() -> None:
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:
                return
            if not chunk:
                return
            seen.append(chunk)

    watcher = threading.Thread(target=watch)
    watcher.start()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "forensic", "capture", str(source), "--json"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
        check=False,
    )
    os.close(theirs)
    watcher.join(10)
    os.close(ours)
    assert done.returncode == 0
    assert json.loads(done.stdout)["state"] == "sealed"
    assert b"capturing" in b"".join(seen)


def test_module(root: Path) -> None:
    """`python -m forensic` is the same program."""
    process = run("--version")
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out[:9]) == (0, b"forensic ")


# --- places that are no files, terminals that are no pages -----------------------------------------------------------


def test_force_replaces_no_bundle_and_nothing_special(cli: Cli, source: Path, tmp_path: Path) -> None:
    """Evidence and devices stay what they are, whoever asks."""
    bundle = sealed(cli, source)
    before = bundle.read_bytes()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for there, why in ((bundle, "may be a bundle"), (fifo, "is no regular file")):
        said = cli("replay", bundle, "-o", there, "--force")
        assert (said.code, said.err) == (2, f"forensic: {there} {why}, and is not replaced\n")
    assert bundle.read_bytes() == before
    assert fifo.is_fifo()


@pytest.mark.parametrize("arguments", [["--help"], ["list"]])
def test_closed_standard_output(home: Path, arguments: list[str]) -> None:
    """One line, and the code for what cannot be written."""
    command = f"exec {sys.executable} -m forensic {' '.join(arguments)} >&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (5, "forensic: standard output is closed: there is nowhere to write\n")


@pytest.mark.parametrize("columns", ["0", "-5", "x", "1"])
def test_nonsense_for_a_width(cli: Cli, source: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """The tree is there all the same."""
    monkeypatch.setenv("COLUMNS", columns)
    said = cli("replay", sealed(cli, source))
    assert said.code == 0
    assert "Turn 1" in said.out


def test_json_cannot_steer_a_terminal(growing: Path, home: Path) -> None:
    """On a terminal what could is written as escapes, elsewhere the bytes are those of the document."""
    growing.write_bytes(prompt(1, "a\u009b2Jb\u202ec\u2028d"))
    assert main(["capture", str(growing)]) == 0
    command = [sys.executable, "-m", "forensic", "replay", "aaaa", "--format", "json"]
    plain = subprocess.run(command, capture_output=True, check=True).stdout
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs) as shown:
        os.close(theirs)
        told = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            told += piece
        assert shown.wait() == 0
    os.close(ours)
    assert "\u009b" in plain.decode()
    assert not set("\u009b\u202e\u2028") & set(told.decode())
    assert json.loads(told) == json.loads(plain)


def test_verify_goes_on_behind_a_name_that_is_none(cli: Cli, source: Path) -> None:
    """The others are verified; the highest code counts."""
    bundle = sealed(cli, source)
    said = cli("verify", bundle, "nope", bundle)
    assert [line.split("  ")[0].strip() for line in said.out.splitlines() if not line.startswith(" ")] == [
        "ok", "not found", "ok",
    ]  # fmt: skip
    assert said.code == 2


def test_an_archive_that_is_none(cli: Cli, growing: Path) -> None:
    """A file in its place is told, not taken for an empty archive."""
    said = cli("list", "--archive", growing)
    assert (said.code, said.err) == (2, f"forensic: cannot read {growing}: Not a directory\n")
