"""Make one large invented Claude Code session, the same bytes on every machine.

    python -m tests.benchmarks.generate FOLDER [--megabytes 100]

Row sizes follow the quantiles measured over the public transcripts in ``../shared/corpus`` (mean 2.6 kB), with the
tail drawn out to 2 MB as rows of that size are known from real sessions. The mix of rows, the split of messages over
rows, parallel calls, progress rows and subagent files follow them too; the words are invented.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import Any, Final

SESSION: Final = "be7c0000-0000-4000-8000-000000000001"
PROJECT: Final = ".claude/projects/-home-dev-bench"
MODELS: Final = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-4-5-20251001")
START_S: Final = 1_772_442_000

# (share of rows, bytes of content): between two points the logarithm of the size is interpolated
RESULT: Final = ((0.0, 20), (0.1, 60), (0.5, 800), (0.9, 4800), (0.99, 23_000), (0.9994, 100_000), (1.0, 2_000_000))
THOUGHT: Final = ((0.0, 20), (0.1, 120), (0.5, 700), (0.9, 4200), (0.99, 16_000), (1.0, 50_000))
SPOKEN: Final = ((0.0, 20), (0.1, 90), (0.5, 420), (0.9, 1600), (0.99, 6500), (1.0, 10_000))
INPUT: Final = ((0.0, 20), (0.1, 60), (0.5, 260), (0.9, 1500), (0.99, 9000), (1.0, 30_000))
PROMPT: Final = ((0.0, 10), (0.5, 160), (0.9, 600), (0.99, 20_000), (1.0, 300_000))
OUTPUT: Final = ((0.0, 0.5), (0.5, 60), (0.9, 600), (1.0, 2000))

LINES: Final = (
    "ledger cents total report parse check field value index entry branch merge window cursor buffer stream frame seal",
    "digest offset handle render layout column border margin colour signal timer retry queue worker thread event hook",
    "token model prompt answer result error failure success measure sample median bucket storage archive bundle member",
)
STEMS: Final = tuple(word for line in LINES for word in line.split(" "))
JOINTS: Final = (" ", " ", " ", " ", "_", ".", "(", ") ", ", ", ": ", " = ", '"', "\n", "\n    ", "\n\t", "/", "-> ")
WIDE: Final = (*JOINTS, " \u2192 ", " \u2014 ", "\n\u2713 ")
WIDE_SHARE: Final = 0.22
"""Share of long texts that hold a character beyond Latin-1: such a text takes two bytes a character in memory."""


class Words:
    """Text that compresses about as real tool output does: words, joints, numbers, now and then a digest."""

    def __init__(self, random: Random) -> None:
        """Draw from `random`."""
        self._random = random

    def text(self, length: float) -> str:
        """Invented text of about `length` characters."""
        random = self._random.random
        joints = WIDE if random() < WIDE_SHARE else JOINTS
        parts: list[str] = []
        left = length
        while left > 0:
            dice = random()
            if dice < 0.80:
                part = STEMS[int(random() * len(STEMS))]
            elif dice < 0.90:
                part = str(int(random() * 10_000))
            elif dice < 0.97:
                part = STEMS[int(random() * len(STEMS))].capitalize()
            else:
                part = f"{int(random() * 2**48):012x}"
            joint = joints[int(random() * len(joints))]
            parts.append(part)
            parts.append(joint)
            left -= len(part) + len(joint)
        return "".join(parts)

    def sized(self, quantiles: tuple[tuple[float, float], ...]) -> str:
        """Text of a length drawn from a table of quantiles."""
        dice = self._random.random()
        at = bisect_right(quantiles, (dice, float("inf"))) - 1
        (low, small), (high, large) = quantiles[at], quantiles[min(at + 1, len(quantiles) - 1)]
        share = 0.0 if high == low else (dice - low) / (high - low)
        return self.text(small * (large / small) ** share)


class Session:
    """The files of one session while they grow."""

    def __init__(self, folder: Path, target: int, seed: int = 7) -> None:
        """Write below `folder` until about `target` bytes are written."""
        self.random = Random(seed)  # noqa: S311 -- invented text, and the same on every machine
        self.words = Words(self.random)
        self.folder = folder / PROJECT
        self.target = target
        self.written = 0
        self.rows = 0
        self.count = 0
        self.clock_ms = START_S * 1000

    def number(self) -> int:
        """The next number of this session: ids are made of them."""
        self.count += 1
        return self.count

    def stamp(self) -> str:
        """The time of the next row, RFC 3339."""
        self.clock_ms += 40 + int(self.random.random() * 4000)
        seconds, milliseconds = divmod(self.clock_ms, 1000)
        days, rest = divmod(seconds - START_S, 86_400)
        hours, rest = divmod(rest, 3600)
        minutes, second = divmod(rest, 60)
        # 28 days a month: a calendar good enough for invented time, and free of any library
        month, day = divmod(days, 28)
        return f"2026-{3 + month % 9:02d}-{1 + day:02d}T{hours:02d}:{minutes:02d}:{second:02d}.{milliseconds:03d}Z"

    def write(self) -> None:
        """Write the whole session."""
        path = self.folder / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            main = Writer(self, out, None)
            while self.written < self.target:
                main.turn()


class Writer:
    """Rows of one file: the main one, or a subagent's."""

    def __init__(self, session: Session, out: Any, agent: str | None) -> None:
        """Append rows of `agent` (None is the main one) to `out`."""
        self.session = session
        self.out = out
        self.agent = agent
        self.parent: str | None = None
        self.prompt_id = ""

    def put(self, body: dict[str, Any]) -> None:
        """Append one row as it is."""
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self.out.write(raw)
        self.session.written += len(raw)
        self.session.rows += 1

    def row(self, body: dict[str, Any]) -> str:
        """Append one row in the envelope that every row of a conversation has."""
        native = f"{self.session.number():08x}-0000-4000-8000-00000000be7c"
        head: dict[str, Any] = {"parentUuid": self.parent, "isSidechain": self.agent is not None}
        if self.agent:
            head["agentId"] = self.agent
        self.put(
            {
                **head,
                **body,
                "uuid": native,
                "timestamp": self.session.stamp(),
                "userType": "external",
                "entrypoint": "cli",
                "cwd": "/home/dev/bench",
                "sessionId": SESSION,
                "version": "2.1.332",
                "gitBranch": "main",
            }
        )
        self.parent = native
        return native

    def turn(self) -> None:
        """One prompt and all that comes of it."""
        session = self.session
        self.prompt_id = f"{session.number():08x}-1111-4111-8111-00000000be7c"
        self.user(session.words.sized(PROMPT))
        backups = {STEMS[int(session.random.random() * len(STEMS))]: {"version": 1} for _ in range(8)}
        kept = {"messageId": self.parent, "snapshot": {"trackedFileBackups": backups}}
        self.put({"type": "file-history-snapshot", **kept})
        for _ in range(2 + int(session.random.random() * 14)):
            self.step()
            if session.written >= session.target:
                return
        self.message([{"type": "text", "text": session.words.sized(SPOKEN)}], stop="end_turn")
        took = 1000 + int(session.random.random() * 90_000)
        self.row({"type": "system", "subtype": "turn_duration", "durationMs": took})
        self.small()

    def small(self) -> None:
        """The small rows that clients write between turns."""
        words = self.session.words
        self.put({"type": "ai-title", "aiTitle": words.text(30), "sessionId": SESSION})
        self.put({"type": "mode", "mode": "normal", "sessionId": SESSION})
        self.put({"type": "permission-mode", "permissionMode": "default", "sessionId": SESSION})
        self.put({"type": "last-prompt", "lastPrompt": words.text(120), "sessionId": SESSION})

    def step(self) -> None:
        """One model message, its calls and their results."""
        session = self.session
        dice = session.random.random
        blocks: list[dict[str, Any]] = []
        if dice() < 0.45:
            signature = f"{int(dice() * 2**256):064x}" * 4
            blocks.append({"type": "thinking", "thinking": session.words.sized(THOUGHT), "signature": signature})
        if dice() < 0.4:
            blocks.append({"type": "text", "text": session.words.sized(SPOKEN)})
        calls = [f"toolu_{session.number():08x}" for _ in range(3 if dice() < 0.06 else 2 if dice() < 0.1 else 1)]
        blocks.extend(self.call(call) for call in calls)
        self.message(blocks)
        for call in calls:
            if self.agent is None and dice() < 0.012:
                self.subagent(call)
            elif dice() < 0.12:
                self.progress(call)
            if dice() < 0.08:
                self.hook(call)
            self.result(call)

    def call(self, call: str) -> dict[str, Any]:
        """One tool_use block."""
        session = self.session
        dice = session.random.random()
        if dice < 0.45:
            asked: dict[str, Any] = {"command": session.words.sized(INPUT), "description": session.words.text(30)}
            return {"type": "tool_use", "id": call, "name": "Bash", "input": asked}
        path = f"/home/dev/bench/{STEMS[session.number() % len(STEMS)]}.py"
        if dice < 0.75:
            return {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": path}}
        asked = {"file_path": path, "old_string": session.words.sized(INPUT), "new_string": session.words.sized(INPUT)}
        return {"type": "tool_use", "id": call, "name": "Edit", "input": asked}

    def message(self, blocks: list[dict[str, Any]], stop: str = "tool_use") -> None:
        """One row a block: the same id and usage on each, the output count growing to its final value."""
        session = self.session
        dice = session.random.random
        native = f"msg_{session.number():012x}"
        model = MODELS[2] if self.agent else MODELS[int(dice() * 2)]
        output = 10 + int(dice() * 900)
        usage = {
            "input_tokens": 1 + int(dice() * 40),
            "cache_creation_input_tokens": int(dice() * 4000),
            "cache_read_input_tokens": int(dice() * 150_000),
            "service_tier": "standard",
        }
        for index, block in enumerate(blocks):
            last = index == len(blocks) - 1
            self.row(
                {
                    "message": {
                        "id": native,
                        "type": "message",
                        "role": "assistant",
                        "model": model,
                        "content": [block],
                        "stop_reason": stop if last else None,
                        "stop_sequence": None,
                        "usage": {**usage, "output_tokens": output if last else 3},
                    },
                    "requestId": native.replace("msg_", "req_"),
                    "type": "assistant",
                }
            )

    def user(self, content: object, **more: object) -> None:
        """One user row."""
        message = {"role": "user", "content": content}
        self.row({"promptId": self.prompt_id, "type": "user", "message": message, **more})

    def result(self, call: str) -> None:
        """The result of one call: text, and the structured copy that real rows carry too."""
        session = self.session
        text = session.words.sized(RESULT)
        failed = session.random.random() < 0.05
        block = {"tool_use_id": call, "type": "tool_result", "content": text, "is_error": failed}
        kept: object = f"Error: {text[:200]}" if failed else {"stdout": text, "stderr": "", "interrupted": False}
        if session.random.random() < 0.35:
            kept = {"stdout": text[:400], "stderr": "", "interrupted": False}
        self.user([block], toolUseResult=kept)

    def progress(self, call: str) -> None:
        """Signs of life of a running call."""
        session = self.session
        for second in range(1, 2 + int(session.random.random() * 6)):
            output = session.words.sized(OUTPUT)
            data = {"type": "bash_progress", "output": output, "fullOutput": output, "elapsedTimeSeconds": second}
            sign = f"bash-progress-{second}"
            self.row({"type": "progress", "data": data, "toolUseID": sign, "parentToolUseID": call})

    def hook(self, call: str) -> None:
        """A hook of the user's own that ran beside a call."""
        attachment = {
            "type": "hook_success",
            "hookName": "PostToolUse:Bash",
            "toolUseID": call,
            "hookEvent": "PostToolUse",
            "content": "",
            "stdout": self.session.words.sized(OUTPUT),
            "stderr": "",
            "exitCode": 0,
            "command": "scripts/check.sh",
            "durationMs": 40,
        }
        self.row({"attachment": attachment, "type": "attachment"})

    def subagent(self, call: str) -> None:
        """A subagent file of its own, and the meta file that ties it to its call."""
        session = self.session
        agent = f"a{session.number():016x}"
        folder = session.folder / SESSION / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        meta = {"agentType": "Explore", "description": session.words.text(30), "toolUseId": call, "spawnDepth": 1}
        (folder / f"agent-{agent}.meta.json").write_text(json.dumps(meta), encoding="utf-8", newline="\n")
        with (folder / f"agent-{agent}.jsonl").open("wb") as out:
            helper = Writer(session, out, agent)
            helper.prompt_id = self.prompt_id
            helper.user(session.words.sized(PROMPT))
            for _ in range(5 + int(session.random.random() * 30)):
                helper.step()
            helper.message([{"type": "text", "text": session.words.sized(SPOKEN)}], stop="end_turn")


def generate(folder: Path, megabytes: float) -> Session:
    """Write a session of about `megabytes` (10^6 bytes) below `folder`, which plays the home folder."""
    session = Session(folder, int(megabytes * 1e6))
    session.write()
    return session


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="write one large invented Claude Code session")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=float, default=100.0)
    options = parser.parse_args()
    session = generate(options.folder, options.megabytes)
    mean = session.written / session.rows
    print(f"{session.rows} rows, {session.written} bytes, mean {mean:.0f} bytes a row")


if __name__ == "__main__":
    main()
