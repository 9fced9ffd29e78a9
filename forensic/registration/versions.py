"""Which version of a harness a person would start."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from forensic.registration.clients import Client

__all__ = ["numbers", "version_of"]

_PATIENCE: Final = 5.0
"""Seconds."""
_VERSION: Final = re.compile(r"\d+(?:\.\d+){1,3}[-\w.]*")
_QUIET: Final = {"DISABLE_AUTOUPDATER": "1", "COPILOT_AUTO_UPDATE": "false", "NO_COLOR": "1"}
_ELSEWHERE: Final = {"claude": (".local/bin/claude", ".claude/local/claude")}
"""Where installers put a program without telling PATH, below the home folder."""


def version_of(client: Client) -> str | None:
    """What the program says of its version; None when it is not there, or does not say it in time."""
    program = _program(client)
    if program is None:
        return None
    found = _VERSION.search(_answer([program, "--version"]))
    return found[0].rstrip(".") if found else None


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _program(client: Client) -> str | None:
    found = shutil.which(client.program)
    places = (Path.home() / place for place in _ELSEWHERE.get(client.name, ()))
    return found or next((str(place) for place in places if os.access(place, os.X_OK)), None)


def _answer(command: list[str]) -> str:
    """What a program says, "" when it takes too long; nothing of it is left running."""
    try:
        process = subprocess.Popen(  # noqa: S603 -- the program that the person would start, and nothing from outside
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_QUIET},
            start_new_session=True,
        )
    except OSError:
        return ""
    with process:
        try:
            return process.communicate(timeout=_PATIENCE)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            return ""
        finally:
            if process.poll() is None:
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
