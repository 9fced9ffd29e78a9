"""The body of the hook: one payload from standard input into the spool, on the disk before the harness goes on.

docs/spool.md is the authority for what is written. Nothing is parsed: the bytes are evidence, and whether they are JSON
is the reader's business. A payload is not to be trusted either: nothing that it names is opened, and what lies outside
of the folders for transcripts is not even looked at.

All that happens in every run stands in this one file, as a harness waits while it is imported. `posix` and `_signal`
are what `os` and `signal` wrap: they are there already and cost nothing.
"""

# ruff: noqa: BLE001, S110, SIM105, PLC0415 -- no failure may disturb the harness, and imports cost time
# ruff: noqa: INP001 -- a folder of scripts is no package

import sys
import time

if sys.platform == "win32":
    import os

    import windows

    SEPARATOR = b"\\"
else:
    import _signal as signal  # type: ignore[import-not-found]  # it has no stub
    import posix as os

    SEPARATOR = b"/"

CAP = 64 << 20
"""Bytes of a payload that are stored; what comes beyond is counted."""
PATIENCE = 5.0
"""Seconds to wait for the end of standard input."""
AGAIN = 0.1
"""Seconds until that is told again."""
DIAGNOSTICS = 64 << 10
"""Bytes of diagnostics.log, after which it begins anew."""
CHUNK = 1 << 16
WAITS = (0.01, 0.05, 0.2)
"""Seconds between tries to rename: a virus scanner may hold a new file for a moment."""

KEYS = (b'"transcript_path"', b'"agent_transcript_path"', b'"transcriptPath"', b'"agentTranscriptPath"')
LONGEST = 4096
"""Bytes of a path."""
MOST = 8
"""Paths of one payload."""
TRIES = 32
"""Places of one key: a payload may hold it a million times."""

KEPT = (
    "AI_AGENT",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_CLI_BINARY_VERSION",
    "COPILOT_HOME",
    "CURSOR_VERSION",
)
"""The variables whose values are told; of all others only the name is, as values hold secrets."""
SHELLS = frozenset((b"ash", b"bash", b"busybox", b"dash", b"fish", b"ksh", b"mksh", b"sh", b"zsh"))
ANCESTORS = 8
"""Processes that are looked at for one that is no shell."""

TYPE, FOLDER, REGULAR = 0o170000, 0o040000, 0o100000
REPARSE_POINT = 0x400
MINUTE = 60_000_000_000
BLANKS = b" \t\r\n"
ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {34: '\\"', 92: "\\\\"}

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND
GUARDS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"))

Seen = tuple[bytes, int, int, int]
"""Path as named, device, inode, size; 0, 0, -1 when it is not there or was not looked at."""
Roots = dict[str, tuple[str, ...]]
"""The folders of each harness below which transcripts lie."""


class Refused(Exception):
    """What is named may not be pinned, and why."""


def main() -> None:
    """All that the hook does."""
    if sys.platform != "win32":
        # Ctrl-C and a closed terminal are meant for the harness, and what it says then is wanted most
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    spool = __file__[: -len("/spooling.py")] + "/../spool"
    try:
        import baked  # type: ignore[import-not-found]  # written when the hook is installed

        home, roots, start = baked.HOME, baked.ROOTS, baked.START
    except Exception:
        home, roots, start = "", {}, ()
    run(spool, sys.argv[1:], roots)
    if start and not running(spool):
        import starting

        starting.start(spool, home, start)


def run(spool: str, argv: list[str], roots: Roots) -> None:
    """Take the payload, pin what it names, write it down; `argv` is harness, event; raises OSError without a spool."""
    mono, wall = time.monotonic_ns(), time.time_ns()
    trouble: list[str] = []
    raw, came = take(trouble)
    place = Place(spool, trouble)
    saw: list[Seen] = []
    try:
        saw = look_and_pin(raw, roots, place, trouble)
    except Exception as error:
        trouble.append(f"looking for transcripts: {error!r}")
    try:
        boot, rand, pid = boot_id(mono, wall), os.urandom(4).hex(), os.getpid()
        line = first_line(argv, (boot, mono, wall), saw, came, len(raw))
        place.put(f"{boot}-{mono:020d}-{wall}-{pid}-{rand}.hook", f".tmp-{pid}-{rand}", line, raw)
    except Exception as error:
        trouble.append(f"a payload of {came} bytes: {error!r}")
    if trouble:
        place.note(wall, trouble)


# --- standard input ---------------------------------------------------------------------------------------------------


def take(trouble: list[str]) -> tuple[bytes, int]:
    """The first `CAP` bytes of standard input, and how many came in all; adds to `trouble`."""
    kept = bytearray()
    came = 0
    try:
        if os.isatty(0):  # reading would stop a process in the background
            trouble.append("standard input is a terminal: not read")
            return b"", 0
        if sys.platform != "win32":
            limit(trouble)
        while piece := os.read(0, CHUNK):
            came += len(piece)
            kept += piece[: max(0, CAP - len(kept))]
    except Exception as error:
        trouble.append(f"standard input after {came} bytes: {error!r}")
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, 0)
    return bytes(kept), came


if sys.platform != "win32":

    def limit(trouble: list[str]) -> None:
        """Let standard input end after `PATIENCE`, and so the read that waits for more of it; adds to `trouble`.

        `select` would have to be loaded, which is a twentieth of the whole run. On Windows pipes cannot be waited for:
        there the harness's own limit is the only one.
        """

        def end(*_: object) -> None:
            null = os.open("/dev/null", os.O_RDONLY | GUARDS)
            os.dup2(null, 0)
            os.close(null)
            signal.setitimer(signal.ITIMER_REAL, 0)
            trouble.append(f"standard input did not end within {PATIENCE} s")

        signal.signal(signal.SIGALRM, end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
        # and again, as the first signal may come just before a read and not interrupt it
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, AGAIN)


# --- the spool --------------------------------------------------------------------------------------------------------


class Place:
    """The spool: an open folder, so that all happens in the same one, or a prefix of paths where none can be opened."""

    def __init__(self, path: str, trouble: list[str]) -> None:
        """Open the spool, which is made if need be; adds to `trouble`; raises OSError."""
        self.folder: int | None = None
        self.prefix = ""
        if sys.platform == "win32":
            self.prefix = path + "/"
            make(path)
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self.folder = os.open(path, flags)
        except FileNotFoundError:
            make(path)
            self.folder = os.open(path, flags)
            try:
                above = os.open(path + "/..", flags)
                os.fsync(above)
                close(above)
            except OSError as error:
                trouble.append(f"the spool is new, and may not outlive a loss of power: {error!r}")

    def put(self, name: str, temporary: str, *pieces: bytes) -> None:
        """Write a file that is complete and on the disk before it bears its name; raises OSError."""
        temporary, name = self.prefix + temporary, self.prefix + name
        file = os.open(temporary, NEW | GUARDS, 0o600, dir_fd=self.folder)
        try:
            write(file, pieces)
            self.rename(temporary, name)
        except BaseException:
            os.unlink(temporary, dir_fd=self.folder)
            raise
        if self.folder is not None:
            os.fsync(self.folder)

    def rename(self, temporary: str, name: str) -> None:
        """Give a file its name, in more than one try; raises OSError."""
        for wait in WAITS:
            try:
                os.replace(temporary, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            except (PermissionError, InterruptedError):
                time.sleep(wait)
            else:
                return
        os.replace(temporary, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def note(self, wall: int, trouble: list[str]) -> None:
        """Add to diagnostics.log what could not be done, a line each; where this fails, too, nobody is told."""
        lines = "".join(f"{wall} {os.getpid()} {escaped(said)[:1000]}\n" for said in trouble).encode()
        try:
            name = self.prefix + "diagnostics.log"
            file = os.open(name, LOG | GUARDS, 0o600, dir_fd=self.folder)
            if os.fstat(file).st_size + len(lines) > DIAGNOSTICS:
                os.ftruncate(file, 0)
            os.write(file, lines)
        except Exception:
            pass

    def lstat(self, name: str) -> os.stat_result | None:
        """What lies in the spool under a name, None when nothing does; raises OSError."""
        try:
            return os.lstat(self.prefix + name, dir_fd=self.folder)
        except FileNotFoundError:
            return None

    def link(self, path: bytes, name: str) -> bool:
        """Give a file a second name in the spool's folder pins; False when that is taken; raises OSError."""
        for again in (True, False):
            try:
                if sys.platform == "win32":
                    os.link(path, self.prefix + name)
                else:
                    os.link(path, name, dst_dir_fd=self.folder, follow_symlinks=False)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if not again:
                    raise
                make(self.prefix + "pins", self.folder)
            else:
                return True
        return False


def make(path: str, folder: int | None = None) -> None:
    """A folder for us alone, unless there is one; raises OSError."""
    try:
        os.mkdir(path, 0o700, dir_fd=folder)
    except FileExistsError:
        pass


def write(file: int, pieces: tuple[bytes, ...]) -> None:
    """Write all pieces, however few bytes the system takes at once, sync and close; raises OSError."""
    try:
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        close(file)


def close(file: int) -> None:
    """Close a file; what can go wrong is of no interest, as all that was written has been synced."""
    try:
        os.close(file)
    except OSError:
        pass


def running(spool: str) -> bool:
    """Whether somebody holds the recorder's lock; raises OSError when that cannot be told."""
    try:
        file = os.open(spool + "/recorder.lock", os.O_RDWR | GUARDS)
    except FileNotFoundError:
        return False
    try:
        return not free(file)
    finally:
        close(file)


def free(file: int) -> bool:
    """Whether nobody has locked a file; locks it until it is closed, as shared as the system allows."""
    try:
        if sys.platform == "win32":
            windows.lock(file)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


# --- transcripts ------------------------------------------------------------------------------------------------------


def look_and_pin(raw: bytes, roots: Roots, place: Place, trouble: list[str]) -> list[Seen]:
    """What is there of each transcript that a payload names; pins those that may be pinned, adds to `trouble`."""
    saw: list[Seen] = []
    for named in paths_in(raw):
        seen: Seen = (named, 0, 0, -1)
        try:
            path = plain(named)
            there = look(path, root_of(path, roots))
            if there is not None:
                seen = (named, there.st_dev, there.st_ino, there.st_size)
                pin(path, there, place)
        except (Refused, OSError, ValueError) as error:
            trouble.append(f"no pin of {named[:300]!r}: {error}")
        saw.append(seen)
    return saw


def paths_in(raw: bytes) -> list[bytes]:
    """The strings behind the keys for transcripts, each once, at most `MOST`."""
    found: list[bytes] = []
    for key in KEYS:
        at = raw.find(key)
        for _ in range(TRIES):
            if at < 0 or len(found) == MOST:
                break
            at += len(key)
            path = string(raw[at : at + 2 * LONGEST + 64])
            if path and path not in found:
                found.append(path)
            at = raw.find(key, at)
    return found


def string(rest: bytes) -> bytes:
    r"""The JSON string behind a colon, b"" when there is none, or one with other escapes than \\ and \/."""
    rest = rest.lstrip(BLANKS)
    value = rest[1:].lstrip(BLANKS)
    if rest[:1] != b":" or value[:1] != b'"':
        return b""
    inside, end, _ = value[1:].partition(b'"')
    parts = [part.replace(b"\\/", b"/") for part in inside.split(b"\\\\")]
    path = b"\\".join(parts)
    return path if end and len(path) <= LONGEST and not any(b"\\" in part for part in parts) else b""


def plain(path: bytes) -> bytes:
    """An absolute path without detours, as the system writes it; raises `Refused`."""
    if sys.platform == "win32":
        path = windows.on_drive(path)
    if not path.startswith(SEPARATOR) and sys.platform != "win32":
        raise Refused("not absolute")
    if b"\0" in path or b".." in path.split(SEPARATOR):
        raise Refused("not a plain path")
    return path


def root_of(path: bytes, roots: Roots) -> bytes:
    """The folder below which a transcript lies, whichever harness it is of; raises `Refused`."""
    for harness, folders in roots.items():
        if path.endswith((b".jsonl", b".txt") if harness == "cursor" else b".jsonl"):
            for folder in folders:
                root = folder.rstrip("/").encode(sys.getfilesystemencoding(), "surrogateescape") + SEPARATOR
                if path.startswith(root) or (sys.platform == "win32" and windows.below(path, root)):
                    return path[: len(root)]
    raise Refused("not a transcript below a folder for transcripts")


def look(path: bytes, root: bytes) -> os.stat_result | None:
    """What lies there, None when nothing does; raises `Refused` when a link is on the way below `root`, OSError."""
    at = len(root)
    try:
        while (at := path.find(SEPARATOR, at)) >= 0:
            there = os.lstat(path[:at])
            if there.st_mode & TYPE != FOLDER or getattr(there, "st_file_attributes", 0) & REPARSE_POINT:
                raise Refused("what should be a folder is none")
            at += 1
        return os.lstat(path)
    except FileNotFoundError:
        return None


def pin(path: bytes, there: os.stat_result, place: Place) -> None:
    """Make a hard link to what was looked at and to nothing else; raises `Refused`, OSError."""
    if there.st_mode & TYPE != REGULAR:
        raise Refused("not a regular file")
    if sys.platform != "win32" and there.st_uid != os.getuid():
        raise Refused("a file of another user")
    if there.st_nlink > 2:
        raise Refused(f"a file with {there.st_nlink} names")
    name = f"pins/{there.st_dev}-{there.st_ino}"
    made = there.st_nlink == 1 and place.link(path, name)
    held = place.lstat(name)
    if held is None or identity(held) != identity(there):
        if made:
            os.unlink(place.prefix + name, dir_fd=place.folder)
        raise Refused("it was replaced meanwhile" if made else "a file with a name that is not ours")


def identity(there: os.stat_result) -> tuple[int, int, int, int]:
    """What stays the same for as long as a file lives; inodes alone do not tell, as the next file may get the same."""
    return there.st_dev, there.st_ino, there.st_mode & TYPE, there.st_uid


# --- the first line ---------------------------------------------------------------------------------------------------


def first_line(argv: list[str], moment: tuple[str, int, int], saw: list[Seen], came: int, stored: int) -> bytes:
    """Where, when and by whom the hook was called, as a line of JSON; `came` and `stored` are counts of bytes."""
    boot, mono, wall = moment
    try:
        cwd = os.getcwdb()
    except OSError:
        cwd = b""
    ppid, program = parent()
    variables = {text(name): value for name, value in os.environ.items()}
    kept = ",".join(f"{quoted(name)}:{quoted(variables[name])}" for name in KEPT if name in variables)
    looks = ",".join(f"[{quoted(path)},{dev},{ino},{size}]" for path, dev, ino, size in saw)
    return (
        f'{{"v":1,"harness":{quoted(argv[0] if argv else "unknown")},"argv":[{listed(argv[1:])}],"boot":"{boot}",'
        f'"mono":{mono},"wall":{wall},"pid":{os.getpid()},"ppid":{ppid},"parent_exe":{quoted(program)},'
        f'"cwd":{quoted(cwd)},"env":[{listed(sorted(variables))}],"kept":{{{kept}}},"saw":[{looks}],'
        f'"bytes":{came},"cut":{"true" if came > stored else "false"},"stored":{stored}}}\n'
    ).encode()


def boot_id(mono: int, wall: int) -> str:
    """32 hex digits that stay the same for as long as monotonic times can be compared."""
    try:
        boot = read("/proc/sys/kernel/random/boot_id").strip().replace(b"-", b"").decode("ascii")
        if len(boot) == 32 and int(boot, 16):
            return boot
    except (OSError, ValueError):
        pass
    return f"{(wall - mono) // MINUTE % (1 << 128):032x}"


def parent() -> tuple[int, bytes]:
    """Process id and program of the nearest ancestor that is no shell, else the parent's; b"" where it is not told."""
    first = pid = os.getppid()
    programs: list[bytes] = []
    try:
        for _ in range(ANCESTORS):
            programs.append(os.readlink(b"/proc/%d/exe" % pid))
            if programs[-1].rpartition(b"/")[2].removesuffix(b" (deleted)") not in SHELLS:
                return pid, programs[-1]
            # pid (name) state ppid ...: the name may hold anything, a parenthesis too
            pid = int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return first, programs[0] if programs else b""


def read(path: str) -> bytes:
    """The beginning of a file of the system's; raises OSError."""
    file = os.open(path, os.O_RDONLY | GUARDS)
    try:
        return os.read(file, 4096)
    finally:
        close(file)


def listed(values: list[str]) -> str:
    """Strings of JSON with commas between them."""
    return ",".join(map(quoted, values))


def quoted(value: str | bytes) -> str:
    """A string of JSON."""
    return f'"{escaped(text(value))}"'


def escaped(value: str) -> str:
    """A text without what may not stand between the quotes of JSON."""
    return value.translate(ESCAPES)


def text(value: str | bytes) -> str:
    r"""What the system names in bytes, as text: a byte that is no UTF-8 becomes \xNN, a lone surrogate \uNNNN."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode()
