"""Start the recorder: at most once a second over all hooks, and so that no harness waits for it."""

# ruff: noqa: INP001, SLF001 -- a folder of scripts is no package, and _exit is documented

import sys
import time

if sys.platform == "win32":
    import os

    import windows
else:
    import _signal as signal  # type: ignore[import-not-found]  # it has no stub
    import fcntl
    import posix as os

PAUSE = 1_000_000_000
"""Nanoseconds between two starts."""
TAKEN_ALONG = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_DATA_HOME",
    "SYSTEMROOT",
    "LOCALAPPDATA",
)
"""What the recorder gets of the harness's environment, in which there are keys to services."""
GUARDS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"))
HIGHEST = 1 << 16
"""The first descriptor that is not closed."""


def start(spool: str, home: str, command: tuple[str, ...]) -> None:
    """Run `command` as the recorder of the data folder `home`, unless one was just started; raises OSError."""
    if not our_turn(spool + "/recorder.start"):
        return
    if sys.platform == "win32":
        environment = {name: os.environ[name] for name in TAKEN_ALONG if name in os.environ}
        windows.detach(command, environment | {"FORENSIC_HOME": home})
    elif os.fork() == 0:
        try:
            become(command, home)
        finally:
            os._exit(127)


def our_turn(name: str) -> bool:
    """Whether it is for this hook to start a recorder, which the file's time then tells; raises OSError."""
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | GUARDS, 0o600))
    except FileExistsError:
        pass
    else:
        return True
    file = os.open(name, os.O_RDWR | GUARDS)
    try:
        if sys.platform == "win32":
            windows.lock(file)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        now = time.time_ns()
        if abs(now - os.fstat(file).st_mtime_ns) < PAUSE:  # one that lies far ahead was made before the clock was set
            return False
        os.utime(name, ns=(now, now))
    except (BlockingIOError, PermissionError):
        return False
    finally:
        os.close(file)
    return True


if sys.platform != "win32":

    def become(command: tuple[str, ...], home: str) -> None:
        """Turn this process into a program that has nothing of the harness, in a session of its own; raises OSError."""
        os.setsid()
        os.chdir("/")
        null = os.open("/dev/null", os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
            os.set_inheritable(standard, True)  # noqa: FBT003 -- dup2 leaves it as it was when there is nothing to do
        os.closerange(3, HIGHEST)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        names = {name.encode() for name in TAKEN_ALONG}
        environment = {name: value for name, value in os.environ.items() if name in names}
        environment[b"FORENSIC_HOME"] = home.encode(sys.getfilesystemencoding(), "surrogateescape")
        os.execve(command[0], command, environment)
