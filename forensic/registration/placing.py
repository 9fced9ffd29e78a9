"""The hook's own folder in forensic's home: what harnesses run, at the same place in every version of ours."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import py_compile
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from forensic import data, private
from forensic.errors import WriteFailed
from forensic.harness import HARNESSES
from forensic.registration.clients import Client
from forensic.registration.files import put_file

if sys.platform != "win32":
    import fcntl

__all__ = ["Hook", "own_folder", "roots_of"]

_ROOTS: Final = "roots.json"
_BAKED: Final = "baked.py"
_RECORDER: Final = ("-m", "forensic", "capture", "--idle-exit", "600")


def own_folder(client: Client) -> Path:
    """A harness's own folder, as its variable of the environment or the home folder says."""
    variable, folder = HARNESSES[client.name].hooks.home
    named = os.environ.get(variable) if variable else None
    return Path(os.path.abspath(named)) if named else Path.home() / folder  # noqa: PTH100 -- a link in it is meant, and stays


def roots_of(client: Client) -> tuple[str, ...]:
    """Where the transcripts of a harness lie: as named, and where that leads."""
    named = [str(own_folder(client) / name) for name in HARNESSES[client.name].hooks.roots]
    return tuple(dict.fromkeys(each for one in named for each in (one, os.path.realpath(one))))


class Hook:
    """The folder ``hook`` of one home of forensic; it need not exist yet."""

    def __init__(self, place: Path) -> None:
        """Nothing is read or made before it is needed."""
        self.home = place
        self.folder = place / "hook"
        self.script = self.folder / "hook.py"
        self.backups = self.folder / "backups"

    def roots(self) -> dict[str, tuple[str, ...]]:
        """The roots of each harness that were ever registered here."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.folder / _ROOTS).read_bytes(), type=dict[str, tuple[str, ...]])
        return {}

    def is_current(self) -> bool:
        """Whether all that is run is there and is that of this version."""
        with contextlib.suppress(OSError):
            same = all((self.folder / name).read_bytes() == content for name, content in _sources().items())
            return same and (self.folder / _BAKED).is_file()
        return False

    def recorder(self) -> str | None:
        """The program that the hook starts as the recorder when none runs; None when it starts none."""
        with contextlib.suppress(OSError, ValueError, SyntaxError, IndexError, TypeError):
            for line in (self.folder / _BAKED).read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition(" = ")
                if name == "START":
                    return str(ast.literal_eval(value)[0])
        return None

    def place(self, clients: Iterable[Client], *, autostart: bool) -> bool:
        """Put everything in its place for these harnesses; whether anything had to be changed. Raises `WriteFailed`."""
        roots = self.roots()
        for client in clients:
            roots[client.name] = tuple(dict.fromkeys((*roots.get(client.name, ()), *roots_of(client))))
        private.folder(self.home)
        private.folder(self.folder)
        changed = put_file(self.folder / _ROOTS, _roots_text(roots))
        # what hook.py brings in must be there before it
        sources = dict(
            sorted({**_sources(), _BAKED: self._baked(roots, autostart=autostart)}.items(), key=_script_last)
        )
        for name, content in sources.items():
            changed |= put_file(self.folder / name, content)
        try:
            for old in self.folder.glob("*.py"):
                if old.name not in sources:
                    old.unlink()
            self._compile(name for name in sources if name != self.script.name)
        except (OSError, py_compile.PyCompileError) as error:
            raise WriteFailed(path=self.folder, detail=str(error)) from None
        return changed

    def remove(self) -> None:
        """Remove what is run; the roots stay, as what was recorded still needs them. Raises `WriteFailed`."""
        try:
            for path in self.folder.glob("*.py"):
                path.unlink()
            for folder in (self.folder / "__pycache__", self.backups):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise WriteFailed(path=self.folder, detail=error.strerror or type(error).__name__) from None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one change registrations at a time; the others wait. Raises `WriteFailed`."""
        private.folder(self.home)
        private.folder(self.folder)
        if sys.platform == "win32":
            yield  # no folder can be locked there, and that a configuration changed meanwhile is seen all the same
            return
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WriteFailed(path=self.folder, detail=error.strerror or type(error).__name__) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _baked(self, roots: Mapping[str, tuple[str, ...]], *, autostart: bool) -> bytes:
        start = (sys.executable, *_RECORDER) if autostart else ()
        return (
            f'"""What the hook has to know; made when it was registered."""\n\n'
            f"HOME = {str(self.home)!a}\nROOTS = {dict(roots)!a}\nSTART = {start!a}\n"
        ).encode()

    def _compile(self, names: Iterable[str]) -> None:
        """Spare the first hook the work; the interpreter that will run it is that below this one."""
        cache = private.folder(self.folder / "__pycache__")
        for name in names:
            source = self.folder / name
            compiled = cache / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
            if not _is_compiled(source, compiled):
                py_compile.compile(str(source), cfile=str(compiled), doraise=True, optimize=0)
                with compiled.open("rb") as file:
                    os.fsync(file.fileno())
        private.sync(cache)


def _sources() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.folder("hooks").glob("*.py")}


def _script_last(named: tuple[str, bytes]) -> tuple[bool, str]:
    return named[0] == "hook.py", named[0]


def _roots_text(roots: Mapping[str, tuple[str, ...]]) -> bytes:
    named = {name: [one for one in folders if _is_unicode(one)] for name, folders in sorted(roots.items())}
    return msgspec.json.format(msgspec.json.encode(named)) + b"\n"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def _is_compiled(source: Path, compiled: Path) -> bool:
    """Whether the interpreter would take the compiled file for this source."""
    with contextlib.suppress(OSError):
        head = compiled.read_bytes()[:16]
        there = source.stat()
        told = (int(there.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (there.st_size & 0xFFFFFFFF).to_bytes(
            4, "little"
        )
        return head == importlib.util.MAGIC_NUMBER + bytes(4) + told
    return False
