"""What runs inside of the lab's scratch home, as its user: `lab_inside.py prepare`, `watch` and `after`.

The lab starts the first before a client and the last after it. Between them the second holds every transcript open, so
that what is deleted is still there to compare with. (The lab makes hard links; a transcript with a second name is not
read.) Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HOME = Path(os.environ["HOME"])
OUT = Path(os.environ["LAB_OUT"])
DATA = HOME / ".forensic"
PROGRAM = os.environ["LAB_PROGRAM"]
"""The Python of an installation of forensic."""
OPTIONS = os.environ.get("LAB_INSTALL", "").split()
HARNESS = {"codexjs": "codex", "copilotoai": "copilot"}.get(os.environ["LAB_CLIENT"], os.environ["LAB_CLIENT"])
ROOTS = {
    "claude": (".claude/projects",),
    "codex": (".codex/sessions", ".codex/archived_sessions"),
    "copilot": (".copilot/session-state",),
}
PATIENCE = 120
LONGEST = 600
"""Seconds after which nobody will tell a watcher to stop any more."""
NONSENSE = "import sys\nprint('deny')\nprint('no', file=sys.stderr)\nsys.exit(2)\n"
"""A hook that refuses whatever it is asked."""


def forensic(*words: str, told: str, program: str = PROGRAM) -> None:
    """Run our program, and keep what it says and how it ended."""
    environment = os.environ | {"FORENSIC_HOME": str(DATA)}
    done = subprocess.run(
        [program, "-m", "forensic", *words], env=environment, capture_output=True, timeout=PATIENCE, check=False
    )
    (OUT / f"{told}.stdout").write_bytes(done.stdout)
    (OUT / f"{told}.stderr").write_bytes(done.stderr)
    (OUT / f"{told}.rc").write_text(str(done.returncode))


def background(word: str) -> int:
    """Start a job of this file; its process."""
    job = subprocess.Popen(
        [sys.executable, __file__, word],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return job.pid


def prepare() -> None:
    """Register our hooks beside whatever the lab has registered."""
    # on another file system the lab's own hard links fail, and are not needed
    (HOME / ".lab" / "kept").symlink_to(os.environ["LAB_ASIDE"])
    (OUT / "deleted").mkdir()
    forensic("hooks", "install", HARNESS, "--user", "--yes", *OPTIONS, told="install")
    if os.environ["LAB_CLIENT"] == "copilotoai" and os.environ.get("LAB_BESIDE_RECORDER"):
        second_recorder()
    jobs = [background(word) for word in ("watch", *os.environ.get("LAB_MEANWHILE", "").split())]
    (OUT / "jobs").write_text(" ".join(map(str, jobs)))
    wait_until((OUT / "watching").exists, 10)


def second_recorder() -> None:
    """Have the lab's recorder see events under the names that we use, too: they decide how a payload is spelt."""
    ours = json.loads((HOME / ".copilot/hooks/forensic.json").read_text())
    recorder = HOME / ".lab" / "recorder.py"
    for event, handlers in ours["hooks"].items():
        for handler in handlers:
            handler.pop("powershell", None)
            handler["bash"] = f"/usr/bin/env python3 -I -S {recorder} copilotoai {event}"
    (HOME / ".copilot/hooks/lab-again.json").write_text(json.dumps(ours))


def spoil() -> None:
    """Install from a Python of this home, then take away what LAB_SPOIL says: hooks stay registered."""
    base, environment = HOME / ".lab" / "base" / "bin" / "python3", HOME / ".lab" / "environment"
    base.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), base)
    library = Path(PROGRAM).parent.parent / "lib"
    subprocess.run([base, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = (environment / "lib").glob("python*/site-packages")
    (site / "program.pth").write_text(f"{next(library.glob('python*'))}/site-packages\n")
    forensic(
        "hooks", "install", HARNESS, "--user", "--yes", told="install", program=str(environment / "bin" / "python")
    )
    {
        "package": lambda: shutil.rmtree(environment),
        "python": lambda: lose_python(environment, base.parent.parent),
        "folder": lambda: shutil.rmtree(DATA),
        "parts": lose_parts,
        "sense": lambda: (DATA / "hook" / "hook.py").write_text(NONSENSE),
        "room": lose_room,
        "guard": lose_guard,
    }[os.environ["LAB_SPOIL"]]()


def lose_python(*folders: Path) -> None:
    """Leave neither our package nor what would run it."""
    for folder in folders:
        shutil.rmtree(folder)


def lose_parts() -> None:
    """Leave of the hook only the file that is run."""
    for part in (DATA / "hook").iterdir():
        if part.name != "hook.py":
            shutil.rmtree(part) if part.is_dir() else part.unlink()


def lose_room() -> None:
    """Let the spool be no folder, where none can be made."""
    shutil.rmtree(DATA / "spool", ignore_errors=True)
    (DATA / "spool").write_bytes(b"")


def lose_guard() -> None:
    """Let Copilot run a program that is gone, without what makes that harmless."""
    registered = HOME / ".copilot/hooks/forensic.json"
    hooks = json.loads(registered.read_text())
    for handlers in hooks["hooks"].values():
        for handler in handlers:
            handler["bash"] = "/gone/python -I -S /gone/hook.py"
    registered.write_text(json.dumps(hooks))


def watch() -> None:
    """Hold transcripts open until told to stop, then keep those that lost their name or were cut."""
    held: dict[tuple[int, int], tuple[Path, int, bytes]] = {}
    roots = [HOME / root for root in ROOTS[HARNESS]]
    until = time.monotonic() + LONGEST
    (OUT / "watching").touch()
    while True:
        ends = (OUT / "stop").exists() or time.monotonic() > until
        for root in roots:
            for folder, _, names in os.walk(root):
                for name in names:
                    hold(Path(folder, name), held)
        if ends:
            break
        time.sleep(0.01)
    for (dev, ino), (path, descriptor, _) in held.items():
        try:
            there = path.stat()
            if (there.st_dev, there.st_ino) == (dev, ino):
                continue
        except OSError:
            pass
        keep(path, ino, os.pread(descriptor, os.fstat(descriptor).st_size, 0))


def hold(path: Path, held: dict[tuple[int, int], tuple[Path, int, bytes]]) -> None:
    """Open a file that is new; keep the last bytes of one that was cut."""
    try:
        there = path.stat()
        key = there.st_dev, there.st_ino
        if key not in held:
            held[key] = path, os.open(path, os.O_RDONLY), b""
        if path.suffix == ".jsonl":
            first, descriptor, last = held[key]
            if there.st_size < len(last):
                keep(first, there.st_ino, last)
                last = b""
            if there.st_size > len(last):
                last += os.pread(descriptor, there.st_size - len(last), len(last))
            held[key] = first, descriptor, last
    except OSError:
        pass


def keep(path: Path, ino: int, content: bytes) -> None:
    """Put aside what a file held."""
    number = len(list((OUT / "deleted").iterdir()))
    place = OUT / "deleted" / f"{number}-{ino}" / path.relative_to(HOME)
    place.parent.mkdir(parents=True)
    place.write_bytes(content)


def impatient() -> None:
    """Drain and seal again and again, so that sessions are sealed in the midst of everything."""
    while not (OUT / "stop").exists():
        forensic("seal", "--json", told="impatient")
        time.sleep(0.2)


def murderous() -> None:
    """Kill every recorder soon after it began."""
    wait = 0.05
    killed = 0
    while not (OUT / "stop").exists():
        killed += end_recorders(signal.SIGKILL)
        (OUT / "killed").write_text(str(killed))
        time.sleep(wait)
        wait = 0.05 + wait * 7.77 % 0.5


def end_recorders(how: signal.Signals) -> int:
    """Send a signal to all recorders; how many there were."""
    found = recorders()
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
    return len(found)


def wait_until(done: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.02)


def recorders() -> list[int]:
    """Recorders of this scratch home: other runs have homes of the same name, in namespaces of their own."""
    ours = Path("/proc/self/ns/mnt").readlink()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"--idle-exit" in words and (entry / "ns/mnt").readlink() == ours:
                environment = (entry / "environ").read_bytes().split(b"\0")
                if f"FORENSIC_HOME={DATA}".encode() in environment:
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def after() -> None:
    """Have everything sealed, end whatever still runs, and hand over what there is."""
    (OUT / "stop").touch()
    jobs = [Path("/proc", pid) for pid in (OUT / "jobs").read_text().split()]
    wait_until(lambda: not any(job.exists() for job in jobs), PATIENCE)
    (OUT / "running").write_text(str(len(recorders())))
    forensic("capture", "--once", "--json", told="once")
    forensic("seal", "--json", told="seal")
    forensic("capture", "--once", "--json", told="again")
    forensic("hooks", "status", HARNESS, "--user", told="status")
    end_recorders(signal.SIGTERM)
    wait_until(lambda: not recorders(), 10)
    (OUT / "modes.json").write_text(json.dumps(modes(DATA)))
    shutil.copytree(DATA, OUT / "data", symlinks=True)


def modes(folder: Path) -> dict[str, str]:
    """The permissions of everything in a folder."""
    found = {}
    for base, _, names in os.walk(folder):
        for path in (Path(base), *(Path(base, name) for name in names)):
            found[str(path.relative_to(folder))] = oct(path.lstat().st_mode & 0o7777)
    return found


if __name__ == "__main__":
    jobs = (prepare, spoil, watch, after, impatient, murderous)
    {job.__name__: job for job in jobs}[sys.argv[1]]()
