"""The hook in the eyes of a harness: silent and successful, whatever it gets or is broken; and what it writes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hook_runs import ALONE, PYTHON, Installed, body, silent, standard_input

CASES = Path(__file__).parent.parent.parent / "shared" / "cases"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells it on Linux only")
CASED = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/cases is not there")
NOBODY = 65534

PAYLOADS = {
    "empty": b"",
    "line feed": b"\n",
    "object": b'{"session_id":"1","hook_event_name":"Stop"}',
    "with line feeds": b'{\n "a": 1\n}\r\n\r\n',
    "byte order mark": b'\xef\xbb\xbf\xef\xbb\xbf{"a":1}',
    "utf-16": '{"a":"\u00e4"}'.encode("utf-16-le"),
    "every byte": bytes(range(256)) * 3,
    "nul": b"\0" * 5000,
    "looks like a first line": b'{"v":1,"stored":0}\n{"v":1}\n',
    "more than a pipe holds": b"0123456789abcdef" * (1 << 16) + b"end",
}


@pytest.fixture
def hook(tmp_path: Path) -> Installed:
    """An installed hook."""
    return Installed(tmp_path / "data")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that another user can reach, too."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # where pytest's own folders are closed to others
        place = Path(name)
        place.chmod(0o755)
        yield place


def boot() -> str:
    """The boot id as names have it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")


# --- what is written --------------------------------------------------------------------------------------------------


@LINUX
def test_first_line(hook: Installed, tmp_path: Path) -> None:
    """The first line says when, where, by whom and with which arguments the hook was called."""
    environment = ALONE | {"SECRET": "s3cr3t", "CODEX_HOME": "/c", "AI_AGENT": 'a"\\\n\u00e4', "HOME": "/home/u"}
    before = (time.monotonic_ns(), time.time_ns())
    process = subprocess.Popen(
        hook.command("codex", "Stop", "x y"), stdin=subprocess.PIPE, cwd=tmp_path, env=environment
    )
    process.communicate(b"{} ")
    after = (time.monotonic_ns(), time.time_ns())
    header = hook.payload().header
    assert before[0] < header.pop("mono") < after[0]
    assert before[1] < header.pop("wall") < after[1]
    assert header == {
        "v": 1,
        "harness": "codex",
        "argv": ["Stop", "x y"],
        "boot": boot(),
        "pid": process.pid,
        "ppid": os.getpid(),
        "parent_exe": str(Path("/proc/self/exe").readlink()),
        "cwd": str(tmp_path),
        "env": sorted(environment),
        "kept": {"AI_AGENT": 'a"\\\n\u00e4', "CODEX_HOME": "/c"},
        "saw": [],
        "bytes": 3,
        "cut": False,
        "stored": 3,
    }


def test_values_stay_out(hook: Installed) -> None:
    """Of the environment nothing but names is written, and a few values that tell which harness it was."""
    kept = ["AI_AGENT", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CONFIG_DIR", "CODEX_HOME"]
    kept += ["COPILOT_CLI_BINARY_VERSION", "COPILOT_HOME", "CURSOR_VERSION"]
    others = ["ANTHROPIC_API_KEY", "CLAUDE_CODE_MESSAGING_TOKEN", "AI_AGENT_KEY", "PATH_", "ai_agent"]
    hook.run(env=ALONE | {name: f"value of {name}" for name in kept + others})
    one = hook.payload()
    assert one.header["kept"] == {name: f"value of {name}" for name in kept}
    assert one.header["env"] == sorted([*ALONE, *kept, *others])
    assert [name for name in others if f"value of {name}".encode() in (hook.spool / one.name).read_bytes()] == []


@LINUX
def test_shells_are_passed_over(hook: Installed) -> None:
    """The parent is the program that called the hook, not the shells between them."""
    hook.run(command=["sh", "-c", f"sh -c 'sh -c \"$0\"; exit 0' {json.dumps(hook.registered())}; exit 0"])
    assert hook.payload().header["ppid"] == os.getpid()


@LINUX
def test_names_that_are_no_text(hook: Installed, tmp_path: Path) -> None:
    """Names of the system that are no UTF-8, or hold what JSON does not allow, are written as JSON all the same."""
    folder = os.fsencode(tmp_path) + b'/\xff"\\\n\x7f\xc3\xa4'
    os.mkdir(folder)  # noqa: PTH102 -- a path of bytes
    hook.run(
        command=[*hook.command(), b"\xfe\x01"], cwd=folder, env={b"N\xfd": b"", b"AI_AGENT": b"\xfc", b"LANG": b"C"}
    )
    header = hook.payload().header
    assert header["cwd"] == f"{tmp_path}/" + '\\xff"\\\n\x7f\u00e4'
    assert header["argv"] == ["PreToolUse", "\\xfe\x01"]
    assert header["kept"] == {"AI_AGENT": "\\xfc"}
    assert {"N\\xfd", "AI_AGENT", "LANG"} <= set(header["env"])


def test_without_arguments(hook: Installed) -> None:
    """A hook that was registered without arguments keeps the payload of a harness that is unknown."""
    hook.run(b"x", command=hook.command()[:4])
    assert (hook.payload().header["harness"], hook.payload().header["argv"], hook.payload().raw) == (
        "unknown",
        [],
        b"x",
    )


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_bytes(hook: Installed, payload: bytes) -> None:
    """What came on standard input is stored byte for byte, whatever it is, and nobody complains."""
    hook.run(payload)
    one = hook.payload()
    assert one.raw == payload
    assert (one.header["bytes"], one.header["stored"], one.header["cut"]) == (len(payload), len(payload), False)
    assert hook.diagnostics() == []


@CASED
def test_bytes_of_cases(hook: Installed) -> None:
    """Payloads that broke hooks of others are stored byte for byte."""
    files = sorted((CASES / "40-hook-bom" / "input").iterdir())
    lines = (CASES / "41-hook-stdout-contract" / "input" / "payloads.jsonl").read_bytes().splitlines(keepends=True)
    payloads = [path.read_bytes() for path in files] + lines
    assert len(payloads) >= 15
    for payload in payloads:
        hook.run(payload)
    assert [one.raw for one in hook.payloads()] == payloads


def test_names_sort(hook: Installed) -> None:
    """Payloads sort by name in the order in which hooks began."""
    for number in range(12):
        hook.run(b"%d" % number)
    assert [one.raw for one in hook.payloads()] == [b"%d" % number for number in range(12)]


def test_modes(hook: Installed, tmp_path: Path) -> None:
    """All that a hook makes is for its user alone, whatever the umask is."""
    transcript = tmp_path / "root" / "t.jsonl"
    transcript.parent.mkdir()
    transcript.touch()
    other = Installed(tmp_path / "other", {"claude": [transcript.parent]})
    silent(["sh", "-c", f"umask 0; {other.registered()}"], b'{"transcript_path":"%s"}' % bytes(transcript))
    silent(["sh", "-c", f"umask 0; {other.registered()}"], b'{"transcript_path":"relative"}')
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in other.spool.rglob("*") if path.parent.name != "pins"}
    assert len(modes) == 4
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (other.spool, other.spool / "pins")} == {0o700}
    cache = other.folder / "__pycache__"
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o600}
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


# --- standard files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_files(hook: Installed, closed: str) -> None:
    """Standard files that are closed are no reason to fail, and do not end up in anything."""
    command = " ".join(f"'{word}'" for word in hook.command())
    silent(["sh", "-c", f"exec {command} {closed}"], b"{}")
    assert hook.payload().raw == (b"" if "<" in closed else b"{}")
    assert [line.split(":")[0] for line in hook.diagnostics()] == ["standard input after 0 bytes"] * ("<" in closed)


def test_folder_as_input(hook: Installed, tmp_path: Path) -> None:
    """With a folder as standard input Python does not start; the command that is registered hides that as well."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        hook.run(command=["sh", "-c", hook.registered()], input=None, stdin=descriptor)
    finally:
        os.close(descriptor)
    assert hook.payloads() == []


def test_terminal_as_input(hook: Installed) -> None:
    """A terminal is not read, as that would wait for somebody to type, or stop a process in the background."""
    ours, theirs = os.openpty()
    try:
        hook.run(input=None, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert hook.payload().raw == b""
    assert hook.diagnostics() == ["standard input is a terminal: not read"]


def test_file_as_input(hook: Installed, tmp_path: Path) -> None:
    """A file is as good as a pipe."""
    (tmp_path / "payload").write_bytes(b"{}\n")
    with (tmp_path / "payload").open("rb") as file:
        hook.run(input=None, stdin=file)
    assert hook.payload().raw == b"{}\n"


def in_process(tmp_path: Path, payload: bytes, *, end: bool = True, **constants: Any) -> Installed:
    """Run the body in this process with other constants."""
    hook, module = Installed(tmp_path / "data"), body()
    for name, value in constants.items():
        assert hasattr(module, name)
        setattr(module, name, value)
    with standard_input(payload, end=end):
        module.run(str(hook.spool), ["claude", "Stop"], {})
    return hook


@pytest.mark.parametrize("length", [999, 1000, 1001, 2500])
def test_cut(tmp_path: Path, length: int) -> None:
    """Of a payload beyond the cap the beginning is stored, and all of it counted."""
    payload = bytes(number % 251 for number in range(length))
    one = in_process(tmp_path, payload, CAP=1000, CHUNK=300).payload()
    assert one.raw == payload[:1000]
    assert (one.header["bytes"], one.header["stored"], one.header["cut"]) == (length, min(length, 1000), length > 1000)


def test_no_end(tmp_path: Path) -> None:
    """Standard input whose end does not come is stored as far as it came, and no timer is left behind."""
    hook = in_process(tmp_path, b'{"half":', end=False, PATIENCE=0.05)
    assert hook.payload().raw == b'{"half":'
    assert hook.payload().header["cut"] is False
    assert hook.diagnostics() == ["standard input did not end within 0.05 s"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_first_alarm_missed(tmp_path: Path) -> None:
    """A first signal that comes before the read, and so does not interrupt it, is not the only one."""
    module, trouble = body(), list[str]()
    with standard_input(b"", end=False):
        module.PATIENCE = 0.2
        module.limit(trouble)
        handler = signal.getsignal(signal.SIGALRM)
        assert callable(handler)
        calls: list[int] = []

        def first_is_missed(number: int, frame: object) -> None:
            calls.append(number)
            if len(calls) > 1:
                handler(number, None)

        signal.signal(signal.SIGALRM, first_is_missed)
        assert os.read(0, 10) == b""
    assert len(calls) == 2
    assert trouble == ["standard input did not end within 0.2 s"]


@LINUX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_interrupted(hook: Installed, number: int) -> None:
    """Ctrl-C and a closed terminal, which reach hooks as well as their harness, cost no payload."""
    process = subprocess.Popen(hook.command(), stdin=subprocess.PIPE, env=ALONE)
    bit = 1 << (number - 1)
    for _ in range(1000):
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        if int(status.split("SigIgn:")[1].split()[0], 16) & bit:
            break
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(b"what is said last")
    assert process.returncode == 0
    assert hook.payload().raw == b"what is said last"


# --- what may be broken -----------------------------------------------------------------------------------------------


def test_spool_is_a_file(hook: Installed) -> None:
    """Where no spool can be, the harness does not notice."""
    hook.spool.write_bytes(b"")
    hook.run()
    assert hook.spool.read_bytes() == b""


def test_folder_gone(hook: Installed) -> None:
    """What stands in the settings of a harness is harmless when everything else has been removed."""
    command = hook.registered()
    silent(["sh", "-c", command], b"{}")
    assert hook.payload().raw == b"{}"
    shutil.rmtree(hook.home)
    silent(["sh", "-c", command], b"{}")
    silent(["sh", "-c", hook.registered(python="/no/python")], b"{}")
    assert not hook.home.exists()


def test_awkward_home(tmp_path: Path) -> None:
    """A path that a shell would take apart is quoted, and an answer that a harness needs is the only output."""
    hook = Installed(tmp_path / "a 'b' $HOME \"c\" \u00e4")
    command = ["sh", "-c", hook.registered(tail="echo '{}'")]
    done = subprocess.run(command, input=b"x", capture_output=True, check=True, env=ALONE)
    assert (done.stdout, done.stderr) == (b"{}\n", b"")
    assert hook.payload().raw == b"x"


def test_parts_missing(hook: Installed) -> None:
    """A body that is not there, or no Python, is not noticed."""
    (hook.folder / "spooling.py").write_bytes(b"this is no python\n")
    hook.run()
    (hook.folder / "spooling.py").unlink()
    hook.run()
    assert hook.payloads() == []


@pytest.mark.parametrize("content", [None, b"", b"ROOTS = (", b"ROOTS, HOME, START = 1, 2, 0\n", b"import nothing\n"])
def test_baked_missing(hook: Installed, content: bytes | None) -> None:
    """Without what was baked, or with nonsense, payloads are written all the same."""
    (hook.folder / "baked.py").unlink()
    if content is not None:
        (hook.folder / "baked.py").write_bytes(content)
    hook.run(b'{"transcript_path":"/x/y.jsonl"}')
    assert hook.payload().raw == b'{"transcript_path":"/x/y.jsonl"}'
    assert hook.pins() == {}


def test_cache_unwritable(hook: Installed) -> None:
    """Where compiled parts cannot be kept, all works without."""
    (hook.folder / "__pycache__").write_bytes(b"")
    hook.run()
    assert hook.payload().raw == b"{}"


@pytest.mark.parametrize("damage", ["emptied", "cut", "zeroed", "of another version"])
def test_cache_torn(hook: Installed, damage: str) -> None:
    """Compiled parts that a crash has torn are passed over."""
    hook.run(b"first")
    caches = sorted((hook.folder / "__pycache__").iterdir())
    assert [path.name.split(".")[0] for path in caches] == ["baked", "spooling"]
    for path in caches:
        whole = path.read_bytes()
        torn = {
            "emptied": b"",
            "cut": whole[: len(whole) // 2],
            "zeroed": whole[:16] + bytes(len(whole) - 16),
            "of another version": b"\x01\x02\r\n" + whole[4:],
        }
        path.write_bytes(torn[damage])
    hook.run(b"second")
    assert [one.raw for one in hook.payloads()] == [b"first", b"second"]


def test_cache_stale(hook: Installed) -> None:
    """A part that was replaced is taken, not what was compiled of the one before."""
    hook.run(b"first")
    path = hook.folder / "spooling.py"
    path.write_bytes(path.read_bytes().replace(b'"v":1', b'"v":2'))
    hook.run(b"second")
    assert [json.loads(path.read_bytes().split(b"\n")[0])["v"] for path in sorted(hook.spool.iterdir())] == [1, 2]


UNPRIVILEGED = f"""
import posix, sys
if posix.getuid() == 0:
    posix.setgroups([]); posix.setgid({NOBODY}); posix.setuid({NOBODY})
del sys.argv[0]
__file__ = sys.argv[0]
exec(compile(open(__file__).read(), __file__, "exec"))
"""


@pytest.mark.parametrize("readonly", [True, False])
def test_spool_readonly(public: Path, *, readonly: bool) -> None:
    """A spool in which its user may not write loses the payload, and nobody notices."""
    hook = Installed(public / "data")
    hook.spool.mkdir(mode=0o700)
    if os.getuid() == 0:
        for path in (public, *public.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    hook.spool.chmod(0o500 if readonly else 0o700)
    hook.run(command=[PYTHON, "-I", "-S", "-c", UNPRIVILEGED, str(hook.folder / "hook.py"), "claude", "Stop"])
    hook.spool.chmod(0o700)
    assert [one.raw for one in hook.payloads()] == ([] if readonly else [b"{}"])


def test_clock_and_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the boot is made from its minute, and the parent is the parent."""
    module = body()

    def missing(*_: object) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(module, "read", missing)
    assert module.boot_id(7_000_000_000, 60_000_000_000 * 0xABC + 8_000_000_000) == f"{0xABC:032x}"
    assert module.boot_id(0, -1) == "f" * 32
    monkeypatch.setattr(module.os, "readlink", missing)
    assert module.parent() == (os.getppid(), b"")


def test_diagnostics_are_bounded(tmp_path: Path) -> None:
    """diagnostics.log holds lines without control characters and never grows beyond its limit."""
    module = body()
    (tmp_path / "spool").mkdir()
    place = module.Place(str(tmp_path / "spool"), [])
    log = tmp_path / "spool" / "diagnostics.log"
    sizes = []
    for number in range(200):
        place.note(number, [f"{number}\n\x1b\x00" + "x" * 2000])
        sizes.append(log.stat().st_size)
    assert max(sizes) <= module.DIAGNOSTICS
    assert max(sizes) > module.DIAGNOSTICS - 1100
    assert log.read_bytes().splitlines()[-1].startswith(b"199 %d 199\\u000a\\u001b\\u0000xxx" % os.getpid())
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")
    place.note(1, ["x"])
    assert not (tmp_path / "elsewhere").exists()
