"""Runs of real clients: without hooks, with ours, and with ours after something of us was taken away."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lab_place import Missing, Program, client_folder, harness_of, is_isolated, lab

from forensic.archive import Archive
from forensic.bundle import Bundle, open_bundle

__all__ = ["NEEDS_HOOKS", "RACING", "SPOILED", "WAYS", "Lab", "Run"]

WAYS: Final[dict[str, dict[str, str]]] = {
    "end": {"LAB_INSTALL": "--no-autostart"},
    "live": {},
    "alone": {},
    "quiet": {"LAB_INSTALL": "--no-autostart"},
    "impatient": {"LAB_MEANWHILE": "impatient"},
    "murderous": {"LAB_MEANWHILE": "murderous"},
}
"""How a scenario is recorded: all of it at the end; by a recorder that hooks start; the same without anybody else's
hooks, with and without that recorder; sealed in the midst again and again; its recorders killed in the midst."""
SPOILED: Final = ("package", "python", "folder", "parts", "sense", "room")
"""What is gone while hooks stay registered: the package; its Python too; the hook's folder; all of that but its first
file; hook.py refuses everything; the spool is no folder. (`guard`, for Copilot alone: what keeps a missing program from
being an error. Then the client must be disturbed.)"""
NEEDS_HOOKS: Final = ("r_worktree_hooked", "x_crossload")
"""Scenarios about hooks of the lab: without ours they run with those."""
RACING: Final = ("f_subagent",)
"""Scenarios of agents that run at once: what comes when is chance, and so is what they are told."""
LIMIT: Final = 400
_DRIVER: Final = Path(__file__).with_name("lab_driver.py")
_ROOTS: Final = {
    "claude": (".claude/projects",),
    "codex": (".codex/sessions", ".codex/archived_sessions"),
    "copilot": (".copilot/session-state",),
}


class Run:
    """What one run has left in a folder."""

    def __init__(self, client: str, scenario: str, folder: Path) -> None:
        """Read it from the folder that the lab made."""
        self.client, self.scenario, self.folder = client, scenario, folder
        self.harness = harness_of(client)
        self.told: dict[str, Any] = json.loads((folder / "run.json").read_bytes())

    @property
    def seconds(self) -> float:
        """How long the client itself ran."""
        return sum(float(step.get("seconds", 0)) for step in self.told["steps"])

    @property
    def data(self) -> Path:
        """Our data folder as it was at the end."""
        return self.folder / "tool" / "data"

    def hooks(self) -> Iterator[tuple[str, bytes]]:
        """What an independent recorder got: event and payload, in order."""
        for path in sorted((self.folder / "hooks").glob("*.json")):
            if not path.name.endswith(".meta.json"):
                yield path.name.removesuffix(".json").split("-", 2)[2], path.read_bytes()

    def transcripts(self) -> Iterator[tuple[str, bytes]]:
        """Every file that ever stood where transcripts lie: its path below the home, and its last bytes."""
        for root in (self.folder / "transcripts", *sorted((self.folder / "tool" / "deleted").glob("*"))):
            for path in sorted(root.rglob("*")):
                relative = path.relative_to(root).as_posix()
                if path.is_file() and relative.startswith(_ROOTS[self.harness]):
                    yield relative, path.read_bytes()

    def asked(self) -> set[str]:
        """Every text that stood in a request to the model: prompts, results of tools, what the client adds."""
        found: set[str] = set()
        for path in sorted((self.folder / "bodies").glob("*")):
            found |= set(_texts(json.loads(path.read_bytes())))
        return found

    @cached_property
    def bundles(self) -> list[Bundle]:
        """The newest bundle of each session."""
        kept = Archive(self.data / "archive").sessions(lambda finding: print("!", finding))
        return [open_bundle(one.path) for one in kept if not one.superseded]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for one in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from _texts(one)


class Lab:
    """The lab, its clients and our program, ready to run."""

    def __init__(self, folder: Path, *harnesses: str) -> None:
        """Everything that runs leave goes into the folder. Raises `Missing` when a client of these is."""
        self.place, self.clients, self.folder = lab(), client_folder(*harnesses), folder
        folder.chmod(0o755)
        if is_isolated() and not all(above.stat().st_mode & 1 for above in folder.resolve().parents):
            raise Missing(f"another user cannot enter {folder}")
        (folder / "program").mkdir()
        self.program = Program(folder / "program")

    def scenarios(self, client: str) -> list[str]:
        """The names of all scenarios of a client."""
        listed = self._driver("--list").stdout
        found = []
        for line in listed.splitlines():
            name, _, about = line.partition(" ")
            only = about.strip().partition(" only)")[0].removeprefix("(")
            if " only)" not in about or only == client:
                found.append(name)
        return found

    def bare(self, client: str, scenario: str) -> Run:
        """A run without any hooks of ours."""
        place = Path(tempfile.mkdtemp(prefix="bare-", dir=self.folder)).name
        return self._run(place, client, scenario, *(() if scenario in NEEDS_HOOKS else ("--no-hooks",)))

    def hooked(self, client: str, scenario: str, way: str) -> Run:
        """A run with our hooks, beside those of the lab but for the ways `alone` and `quiet`."""
        alone = way in ("alone", "quiet")
        variables = {"LAB_ASIDE": self._aside(), **WAYS[way], **({} if alone else {"LAB_BESIDE_RECORDER": "1"})}
        after = ("--after-command", self.program.command("after", variables))
        return self._run(way, client, scenario, *self._before("prepare", variables, alone=alone), *after)

    def commanded(self, client: str, scenario: str, command: str) -> Run:
        """A run in which every event that the lab knows runs this command, which may hold ``{lab}``."""
        place = Path(tempfile.mkdtemp(prefix="command-", dir=self.folder)).name
        return self._run(place, client, scenario, "--hook-command", command)

    def spoiled(self, client: str, scenario: str, what: str) -> Run:
        """A run with our hooks registered, and something of us gone."""
        before = self._before("spoil", {"LAB_SPOIL": what}, alone=True)
        return self._run(f"no-{what}", client, scenario, *before)

    def _before(self, job: str, variables: dict[str, str], *, alone: bool) -> tuple[str, ...]:
        return *(("--no-hooks",) if alone else ()), "--prepare-command", self.program.command(job, variables)

    def _aside(self) -> str:
        aside = Path(tempfile.mkdtemp(prefix="aside-", dir=self.folder))
        aside.chmod(0o777)
        return str(aside)

    def _run(self, way: str, client: str, scenario: str, *options: str) -> Run:
        out = self.folder / way
        words = ["--clients", str(self.clients), "--out", str(out), "--bodies"]
        words += ["--client", client, "--scenario", scenario, *options]
        if not is_isolated():
            words.append("--no-isolate")
        done = self._driver(*words)
        found = list(out.glob(f"{client}-[0-9]*/{scenario}"))
        if len(found) != 1 or "LAB ERROR" in done.stdout:
            raise RuntimeError(f"{client} {scenario}: {done.stdout[-500:]} {done.stderr[-500:]}")
        return Run(client, scenario, found[0])

    def _driver(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(_DRIVER), str(self.place), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)

    def clear(self) -> None:
        """Remove what was left by runs."""
        shutil.rmtree(self.folder)
