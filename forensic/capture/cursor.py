"""Where Cursor keeps what belongs to one session.

In a folder ``agent-transcripts`` a session has a folder of its own, ``X/X.jsonl`` with its subagents in
``X/subagents``, or, of an older kind, lies there flat: ``X.jsonl``, ``X.txt``, or both. The text tells the same
conversation in another form and is a side file; it may be all that there is of a session. No row names its session:
the files' names do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from forensic.capture.found import Candidate, Found, Piece, stem
from forensic.capture.sniff import sniff
from forensic.capture.tail import Tail
from forensic.capture.walk import Report, shown, tree
from forensic.errors import ForensicError
from forensic.harness import UNKNOWN
from forensic.model import Role

__all__ = ["HARNESS", "assemble"]

HARNESS: Final = "cursor"

_FOLDER: Final = "agent-transcripts"
_AGENTS: Final = "subagents"
_ROWS: Final = ".jsonl"
_TEXT: Final = ".txt"
_HEADS: Final = frozenset({b"user:", b"assistant:", b"A:"})
_ENOUGH: Final = 4096
_BOM: Final = b"\xef\xbb\xbf"
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 80


class _Home(NamedTuple):
    """The folder that holds transcripts, and the name of one session in it."""

    folder: Path
    session: str

    @property
    def rows(self) -> tuple[Path, Path]:
        """Where its rows may lie, the newer place first."""
        return self.folder / self.session / (self.session + _ROWS), self.folder / (self.session + _ROWS)

    @property
    def texts(self) -> tuple[Path, Path]:
        """Where the older text of it may lie."""
        return self.folder / (self.session + _TEXT), self.folder / self.session / (self.session + _TEXT)

    @property
    def agents(self) -> Path:
        """Where its subagents lie."""
        return self.folder / self.session / _AGENTS


class _Group(Struct):
    """A session while its files are being gathered: path of each, and the word for how it was found."""

    home: _Home
    mains: dict[Path, str] = {}
    agents: dict[Path, str] = {}
    texts: dict[Path, str] = {}


def assemble(candidates: Iterable[Candidate], report: Report) -> tuple[list[Found], set[Path]]:
    """The sessions among the candidates, and the paths of all candidates that they account for."""
    groups: dict[_Home, _Group] = {}
    for file in candidates:
        kind = None if file.lent else _kind(file)
        if kind is not None:
            home = _home(file.path)
            files = getattr(groups.setdefault(home, _Group(home=home)), kind)
            files[file.path] = file.found_by
    for group in groups.values():
        _complete(group, report)
    taken = {path for group in groups.values() for path in (*group.mains, *group.agents, *group.texts)}
    return [found for group in groups.values() for found in _found(group)], taken


def _home(path: Path) -> _Home:
    folder = path.parent
    if _is_agent(path):
        while folder.name != _AGENTS:
            folder = folder.parent
        return _Home(folder.parent.parent, folder.parent.name)
    session = stem(path).name
    return _Home(folder.parent if session == folder.name else folder, session)


def _is_agent(path: Path) -> bool:
    """Whether a file lies in a session's folder of subagents, at most one folder deeper."""
    return _AGENTS in path.parts[2:][-3:-1]


def _kind(file: Candidate) -> str | None:
    """What a file is to its session, if it is Cursor's."""
    path = file.path
    ours = file.sniffed.harness == HARNESS
    if path.suffix == _TEXT and (ours or _FOLDER in path.parts[-3:-1]) and _reads_like_one(path):
        return "texts"
    if file.sniffed.rows != "objects":
        return None
    # a session that only failed, or of which only ends were written, has no row that shows whose it is: its place does
    placed = path.suffix == _ROWS and file.sniffed.harness == UNKNOWN.name and _home(path).folder.name == _FOLDER
    if not ours and not placed:
        return None
    return "agents" if _is_agent(path) else "mains"


def _reads_like_one(path: Path) -> bool:
    """Whether a text begins as these do: who speaks stands alone on the first line that is not blank."""
    try:
        with Tail(path, most=_ENOUGH) as tail:
            begin = b"".join(tail.chunks())
    except ForensicError:
        return False
    return begin.removeprefix(_BOM).lstrip(b" \t\r\n").partition(b"\n")[0].rstrip(b"\r") in _HEADS


def _complete(group: _Group, report: Report) -> None:
    """Take along what lies beside a file that was named: the whole session belongs together."""
    if not group.mains and group.texts:
        # how a text is to be read depends on whether rows stand beside it
        rows = next(filter(_has_rows, group.home.rows), None)
        if rows is not None:
            group.mains[rows] = "folder"
    if group.mains:
        for path in group.home.texts:
            if path not in group.texts and _is_file(path) and _reads_like_one(path):
                group.texts[path] = "folder"
        if _is_folder(group.home.agents):
            for path in tree(group.home.agents, report):
                if path.suffix == _ROWS:
                    group.agents[path] = "folder"


def _has_rows(path: Path) -> bool:
    try:
        return _is_file(path) and sniff(path, HARNESS).rows == "objects"
    except ForensicError:
        return False


def _is_file(path: Path) -> bool:
    return not path.is_symlink() and path.is_file()


def _is_folder(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir()


def _found(group: _Group) -> Iterator[Found]:
    """The session; a second file with rows of the same name is one more, and nothing tells which is the real one."""
    session = shown(Path(group.home.session))
    mains = [
        Piece(path=path, stream="main", role=Role.MAIN, native_id=session, found_by=group.mains[path])
        for path in sorted(group.mains, key=lambda path: (path != group.home.rows[0], path))
    ]
    beside = (*_agents(group, "main" if mains else None), *_texts(group, "main" if mains else None))
    yield Found(harness=HARNESS, session=session, pieces=(*mains[:1], *beside))
    for other in mains[1:]:
        yield Found(harness=HARNESS, session=session, pieces=(other,))


def _agents(group: _Group, parent: str | None) -> Iterator[Piece]:
    stream, native = _unique(), _unique()
    for path in sorted(group.agents, key=lambda path: (path.name, path)):
        name = native(shown(Path(stem(path).name)))
        yield Piece(
            path=path,
            stream=stream("agent-" + _ODD.sub("_", name)[:_LONGEST]),
            role=Role.SUBAGENT,
            native_id=name,
            parent=parent,
            found_by=group.agents[path],
        )


def _texts(group: _Group, parent: str | None) -> Iterator[Piece]:
    for path in sorted(group.texts):
        name = shown(path.relative_to(group.home.folder)).replace("\\", "/")
        yield Piece(path=path, stream="", role=Role.SIDE, native_id=name, parent=parent, found_by=group.texts[path])


def _unique() -> Callable[[str], str]:
    seen: set[str] = set()

    def name(wanted: str) -> str:
        given, number = wanted, 1
        while given in seen:
            number += 1
            given = f"{wanted}.{number}"
        seen.add(given)
        return given

    return name
