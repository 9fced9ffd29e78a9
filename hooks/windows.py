"""What Windows does in ways of its own. Written from its documentation."""

# ruff: noqa: INP001 -- a folder of scripts is no package
# ruff: noqa: S101, E402 -- so that type checkers leave out the rest elsewhere
# ruff: noqa: S606 -- the recorder's command is ours

import sys

assert sys.platform == "win32"

import msvcrt
import os


def on_drive(path: bytes) -> bytes:
    """A path with backslashes, on a drive; anything else becomes one that lies below no folder for transcripts.

    A share is not looked at, as its server would be asked for leave, nor is a device or a stream of a file.
    """
    path = path.replace(b"/", b"\\")
    if path[:1] == b"\\" and path[2:4] == b":\\":
        path = path[1:]  # as Cursor writes it: /c:/folder
    names = path[3:].split(b"\\")
    if path[1:3] != b":\\" or b":" in path[2:] or any(name[-1:] in (b".", b" ") for name in names):
        return b""
    return path


def below(path: bytes, root: bytes) -> bool:
    """Whether a path begins with that of a folder, which ends in a separator: capitals do not matter."""
    return path[: len(root)].lower() == root.replace(b"/", b"\\").lower()


def lock(file: int) -> None:
    """Lock the first byte of a file until it is closed; raises OSError when somebody else has."""
    msvcrt.locking(file, msvcrt.LK_NBLCK, 1)


def detach(command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Run a program that has nothing of this one; raises OSError."""
    null = os.open("nul", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.chdir("\\")
    os.spawnve(os.P_DETACH, command[0], [f'"{part}"' for part in command], environment)
