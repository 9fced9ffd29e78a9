"""Sessions of Cursor, which is in no package registry: payloads and rows by hand, through our hook and recorder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from forensic.archive import Archive
from forensic.bundle import Bundle, open_bundle

__all__ = ["PROGRAM", "SESSIONS", "Cursor"]

PROGRAM: Final = "/opt/agents/cursor/cursor"
"""Who called the hook, as far as recordings tell."""
_ID: Final = "c0de0000-0000-4000-8000-000000000009"
_TURNS: Final = ("ab000000-0000-4000-8000-000000000001", "ab000000-0000-4000-8000-000000000002")
_TOKENS: Final[dict[str, Any]] = {
    "input_tokens": 2400,
    "output_tokens": 180,
    "cache_read_tokens": 1900,
    "cache_write_tokens": 300,
}


class Cursor:
    """A home in which our hooks are registered, and a client that calls them."""

    def __init__(self, home: Path) -> None:
        """Register in a new home."""
        self.home = home
        folder = home / ".cursor" / "projects" / "home-dev-demo" / "agent-transcripts" / _ID
        self.transcript = folder / f"{_ID}.jsonl"
        folder.mkdir(parents=True)
        self.given: list[bytes] = []
        """Every payload, in order."""
        self.replaced: list[bytes] = []
        """What earlier files of the transcript's name held."""
        self.environment = {
            "HOME": str(home),
            "PATH": os.defpath,
            "FORENSIC_HOME": str(home / ".forensic"),
            "CURSOR_VERSION": "3.9.1",
            "LANG": "C.UTF-8",
        }
        self.forensic("hooks", "install", "cursor", "--user", "--yes", "--no-autostart")
        registered = json.loads((home / ".cursor" / "hooks.json").read_bytes())["hooks"]
        self.commands = {event: hooks[0]["command"] for event, hooks in registered.items()}

    def forensic(self, *words: str) -> None:
        """Run our program; raises `CalledProcessError` when it does not end with 0."""
        environment = {**self.environment, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
        command = [sys.executable, "-m", "forensic", *words]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

    def hook(self, event: str, turn: int = 0, *, named: bool = True, **more: Any) -> bytes:
        """Call the registered command as Cursor would; what it answered."""
        payload = {
            "conversation_id": _ID,
            "generation_id": _TURNS[turn],
            "model": "default",
            **more,
            "hook_event_name": event,
            "cursor_version": "3.9.1",
            "workspace_roots": [str(self.home / "demo")],
            "user_email": "dev@example.invalid",
            "transcript_path": str(self.transcript) if named else None,
        }
        raw = json.dumps(payload, separators=(",", ":")).encode()
        self.given.append(raw)
        command = ["/bin/sh", "-c", self.commands[event]]
        cwd = self.home / ".cursor"
        return subprocess.run(
            command, input=raw, env=self.environment, cwd=cwd, stdout=subprocess.PIPE, check=True
        ).stdout

    def rows(self, *rows: Any) -> None:
        """Append to the transcript."""
        with self.transcript.open("ab") as out:
            out.write(b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows))

    def rewrite(self) -> None:
        """Put another file with the same rows in the transcript's place."""
        self.replaced.append(self.transcript.read_bytes())
        anew = self.transcript.with_suffix(".new")
        anew.write_bytes(self.replaced[-1])
        anew.replace(self.transcript)

    def drain(self) -> None:
        """Have a recorder read what there is, and end."""
        self.forensic("capture", "--once")

    def bundle(self) -> Bundle:
        """Seal the session and open its bundle."""
        self.forensic("seal")
        kept = Archive(self.home / ".forensic" / "archive").sessions()
        (newest,) = (one for one in kept if not one.superseded)
        return open_bundle(newest.path)


def _user(text: str, when: str) -> dict[str, Any]:
    said = f"<timestamp>Thursday, Jan 1, 2026, {when} (UTC)</timestamp>\n<user_query>\n{text}\n</user_query>"
    return {"role": "user", "message": {"content": [{"type": "text", "text": said}]}}


def _assistant(text: str, tools: Sequence[tuple[str, Any]] = ()) -> dict[str, Any]:
    said = [{"type": "text", "text": text}] if text else []
    used = [{"type": "tool_use", "name": name, "input": given} for name, given in tools]
    return {"role": "assistant", "message": {"content": [*said, *used]}}


def editor(cursor: Cursor) -> None:
    """A turn in the editor: the first payloads name no transcript, and the row of a call comes after its hooks."""
    ask = "Change 'second' to '2nd' in notes.txt and show the file."
    notes, command = str(cursor.home / "demo" / "notes.txt"), "cat notes.txt && echo checked"
    edit = {"path": notes, "old_string": "second line", "new_string": "2nd line"}
    cursor.hook("sessionStart", named=False, session_id=_ID, composer_mode="agent")
    cursor.hook("beforeSubmitPrompt", named=False, prompt=ask, composer_mode="agent", attachments=[])
    cursor.rows(_user(ask, "9:00 AM"))
    cursor.hook("beforeReadFile", file_path=notes, content="first line\nsecond line\nthird line\n", attachments=[])
    cursor.hook("afterAgentThought", text="First read the file.", duration_ms=120)
    cursor.drain()
    cursor.rows(_assistant("I will read the file first.", [("Read", {"path": notes})]))
    cursor.hook("preToolUse", tool_name="StrReplace", tool_input=edit, tool_use_id="tool_1\nfc_1")
    cursor.hook("afterFileEdit", file_path=notes, edits=[{"old_string": "second line", "new_string": "2nd line"}])
    changed = '{"status":"success"}'
    shown: dict[str, Any] = {
        "tool_name": "StrReplace",
        "tool_input": edit,
        "tool_output": changed,
        "tool_use_id": "tool_1\nfc_1",
    }
    cursor.hook("postToolUse", **shown, duration=21.5)
    cursor.rows(_assistant("", [("StrReplace", edit)]))
    cursor.drain()
    cursor.hook("beforeShellExecution", command=command, cwd=str(cursor.home / "demo"), sandbox=False)
    output = "first line\n2nd line\nthird line\nchecked\n"
    cursor.hook("afterShellExecution", command=command, output=output, duration=35.25, sandbox=False)
    cursor.rows(_assistant("", [("Shell", {"command": command, "description": "Show the file"})]))
    failed: dict[str, Any] = {"tool_name": "Read", "tool_input": {"path": "missing.txt"}, "tool_use_id": "tool_2"}
    cursor.hook("postToolUseFailure", **failed, error_message="no such file", failure_type="error", duration=2)
    cursor.hook("afterAgentResponse", text="Done: the second line now reads '2nd line'.", **_TOKENS)
    cursor.rows(_assistant("Done: the second line now reads '2nd line'."), {"type": "turn_ended", "status": "success"})
    cursor.hook("stop", status="completed", loop_count=0, **_TOKENS)
    cursor.hook("sessionEnd", session_id=_ID, reason="completed", final_status="completed", duration_ms=4000)


def resumed(cursor: Cursor) -> None:
    """The command line, resumed: it fires few events and writes its whole transcript into a new file."""
    first = [_user("Read notes.txt.", "9:00 AM"), _assistant("", [("Read", {"path": "notes.txt"})])]
    cursor.hook("sessionStart", named=False, session_id=_ID, composer_mode="agent")
    cursor.rows(*first)
    cursor.hook("preToolUse", tool_name="Read", tool_input={"path": "notes.txt"}, tool_use_id="tool_1")
    cursor.rows(_assistant("I have read it."), {"type": "turn_ended", "status": "success"})
    cursor.hook("sessionEnd", session_id=_ID, reason="completed", final_status="completed", duration_ms=900)
    cursor.drain()
    cursor.hook("sessionStart", 1, session_id=_ID, composer_mode="agent")
    cursor.rewrite()
    cursor.rows(_user("And what was in it?", "9:05 AM"))
    cursor.hook("preToolUse", 1, tool_name="Shell", tool_input={"command": "wc -l notes.txt"}, tool_use_id="tool_2")
    cursor.drain()
    cursor.rows(_assistant("", [("Shell", {"command": "wc -l notes.txt"})]), _assistant("Three lines."))
    cursor.hook("sessionEnd", 1, session_id=_ID, reason="completed", final_status="completed", duration_ms=800)


SESSIONS: Final = {"cursor/live-edit-and-run": editor, "cursor/live-resumed-and-rewritten": resumed}
"""Case and what happens in it."""
