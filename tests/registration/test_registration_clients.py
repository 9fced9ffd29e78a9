"""The table of harnesses: what is registered is what docs/hooks.md says, and nothing that would change an agent."""

from __future__ import annotations

import re
from pathlib import Path

from forensic.harness import HARNESSES
from forensic.registration.clients import CLIENTS

ROW = re.compile(r"^\| `(\w+)` \| (safe|all|never) \| (\d+|-) \| \S.* \|$", re.MULTILINE)


def test_the_page_is_the_table(root: Path) -> None:
    """Every event stands in docs/hooks.md with its level and its timeout, and no other."""
    text = (root / "docs" / "hooks.md").read_text(encoding="utf-8")
    for client in CLIENTS.values():
        section = text.split(f"\n### {HARNESSES[client.name].title}\n")[1].split("\n## ")[0].split("\n### ")[0]
        told = [(name, level, timeout) for name, level, timeout in ROW.findall(section)]
        table = [
            (event.name, event.level, "-" if event.level == "never" else str(event.timeout)) for event in client.events
        ]
        assert sorted(told) == sorted(table)


def test_how_many() -> None:
    """All events that are known of each harness are in the table, each once."""
    names = {name: [event.name for event in client.events] for name, client in CLIENTS.items()}
    assert {name: len(set(events)) for name, events in names.items()} == {
        "claude": 34,
        "codex": 14,
        "copilot": 15,
        "cursor": 21,
    }
    assert all(len(set(events)) == len(events) for events in names.values())


def test_what_is_never_registered() -> None:
    """Events of which the harness wants an answer, or whose hook needs to be told what to wait for."""
    never = {event.name for client in CLIENTS.values() for event in client.events if event.level == "never"}
    assert never == {"WorktreeCreate", "WorktreeRemove", "FileChanged"}


def test_codex_is_not_made_to_wait() -> None:
    """Where Codex cuts every hook off after three seconds, ours does not ask for more."""
    short = {event.name for event in CLIENTS["codex"].events if event.timeout <= 3}
    assert short == {"SessionEnd", "Interrupt"}
