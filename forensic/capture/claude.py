"""Where Claude Code keeps what belongs to one session.

``X.jsonl`` is a main file and the folder ``X`` beside it is the session's own: subagents in ``X/subagents``, those of
a workflow one folder deeper, spilled results in ``X/tool-results``. Older clients laid subagents flat beside the main
files; such a file tells its session in its rows and nowhere else.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from forensic.capture.found import Candidate, Found, Piece, stem
from forensic.capture.tail import PACKED
from forensic.capture.walk import Report, shown, tree
from forensic.model import Finding, Role

__all__ = ["HARNESS", "assemble", "home_of", "siblings"]

HARNESS: Final = "claude"

_AGENT: Final = re.compile(r"agent-(.+)\.jsonl(?:\.zst)?")
_META: Final = re.compile(r"(agent-.+)\.meta\.json")
_OWN_FOLDERS: Final = ("subagents", "tool-results")
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 80


def siblings(folder: Path) -> Iterator[Path]:
    """Files of a folder that are named like subagents of the old flat layout."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        if _AGENT.fullmatch(path.name) and not path.is_symlink() and path.is_file():
            yield path


def home_of(path: Path) -> Path | None:
    """The session folder that a file lies in, told by a folder ``subagents`` close above it; None outside of any."""
    folders = path.parts[:-1]
    if "subagents" not in folders[-3:]:
        return None
    return Path(*folders[: len(folders) - 1 - folders[::-1].index("subagents")])


class _Group(Struct):
    """A session while its files are being gathered."""

    session: str
    anchor: Path
    main: Candidate | None = None
    agents: dict[Path, str] = {}
    """Path of each subagent file and the word for how it was found."""
    sides: set[Path] = set()


def assemble(candidates: Iterable[Candidate], report: Report) -> tuple[list[Found], set[Path]]:
    """The sessions among the candidates, and the paths of all candidates that they account for."""
    pool = list(candidates)
    agents = [file for file in pool if _is_agent(file)]
    beside = {(agent.path.parent, agent.sniffed.session) for agent in agents}
    groups = [_with_home(file, report) for file in pool if not file.lent and _is_main(file, beside)]
    inside = {path for group in groups for path in (*group.agents, *group.sides)}
    groups = [group for group in groups if group.main is None or group.main.path not in inside]
    groups.extend(_place([file for file in agents if file.path not in inside], groups, report))
    taken = {file.path for file in agents}
    for group in groups:
        taken.update(group.agents, group.sides)
        if group.main is not None:
            taken.add(group.main.path)
    return [_found(group) for group in groups], taken


def _is_agent(file: Candidate) -> bool:
    return file.sniffed.harness == HARNESS and _AGENT.fullmatch(file.path.name) is not None


def _is_main(file: Candidate, beside: Container[tuple[Path, str | None]]) -> bool:
    if _AGENT.fullmatch(file.path.name) is not None:
        return False
    if file.sniffed.rows == "objects":
        return file.sniffed.harness == HARNESS
    return file.sniffed.rows == "none" and file.path.suffix == ".jsonl" and _has_agents(file.path, beside)


def _has_agents(main: Path, beside: Container[tuple[Path, str | None]]) -> bool:
    """Whether an empty file is a main file all the same: some have subagents before their first row."""
    return _is_folder(main.with_suffix("") / "subagents") or (main.parent, main.stem) in beside


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _with_home(file: Candidate, report: Report) -> _Group:
    home = stem(file.path)
    group = _Group(session=file.sniffed.session or shown(Path(home.name)), anchor=home, main=file)
    if file.path.name.endswith((".jsonl", PACKED)) and _is_folder(home):
        _take_home(group, whole=group.session == home.name, report=report)
    return group


def _take_home(group: _Group, *, whole: bool, report: Report) -> None:
    """Everything in a session's folder; only the two known folders when it merely has the name of the main file."""
    folders = [group.anchor] if whole else [group.anchor / name for name in _OWN_FOLDERS]
    for folder in folders:
        if not _is_folder(folder):
            continue
        for path in tree(folder, report):
            if _AGENT.fullmatch(path.name) and home_of(path) == group.anchor:
                group.agents[path] = "folder"
            else:
                group.sides.add(path)


def _place(agents: Sequence[Candidate], groups: Sequence[_Group], report: Report) -> list[_Group]:
    """Give flat subagents to their main files, and make sessions of those that have none."""
    orphans: dict[tuple[Path, str], list[Candidate]] = defaultdict(list)
    names = _named_homes(agents)
    mains: dict[str, list[_Group]] = defaultdict(list)
    for group in groups:
        mains[group.session].append(group)
    for agent in agents:
        home = home_of(agent.path)
        session = agent.sniffed.session or (names.get(home) if home else None) or shown(Path(stem(agent.path).name))
        host = _host(mains.get(session, []), agent.path.parent)
        if host is not None:
            host.agents[agent.path] = "session id"
            meta = agent.path.with_name(f"{stem(agent.path).name}.meta.json")
            if home is not None and agent.root is not None and not meta.is_symlink() and meta.is_file():
                host.sides.add(meta)
        elif home is not None and _is_closed(main := home.with_name(home.name + ".jsonl")):
            note = f"{shown(agent.path)} belongs to {shown(main)}, which cannot be read: left out"
            report(Finding(kind="unreadable-file", note=note, problem=True))
        elif not agent.lent:
            orphans[home or agent.path.parent, session].append(agent)
    return [_orphaned(anchor, session, files, report) for (anchor, session), files in orphans.items()]


def _is_closed(path: Path) -> bool:
    return path.is_file() and not os.access(path, os.R_OK)


def _named_homes(agents: Sequence[Candidate]) -> dict[Path, str]:
    """For each session folder without a main file the session that its first subagent names, or the folder's name."""
    names: dict[Path, str] = {}
    for agent in agents:
        home = home_of(agent.path)
        if home is not None and agent.sniffed.session is not None:
            names.setdefault(home, agent.sniffed.session)
    for agent in agents:
        home = home_of(agent.path)
        if home is not None:
            names.setdefault(home, shown(Path(home.name)))
    return names


def _host(same: Sequence[_Group], folder: Path) -> _Group | None:
    """Which of several main files of one session a subagent belongs to: the one beside it, or the only one."""
    near = [group for group in same if group.anchor.parent == folder]
    return next((chosen[0] for chosen in (near, same) if len(chosen) == 1), None)


def _orphaned(anchor: Path, session: str, agents: Sequence[Candidate], report: Report) -> _Group:
    group = _Group(session=session, anchor=anchor, agents={agent.path: agent.found_by for agent in agents})
    root = agents[0].root
    if home_of(agents[0].path) is None or root is None:
        return group
    if anchor.is_relative_to(root):
        _take_home(group, whole=True, report=report)
        return group
    for folder in sorted({path.parent for path in group.agents}):
        group.sides.update(path for path in tree(folder, report) if path not in group.agents)
    return group


def _found(group: _Group) -> Found:
    pieces: list[Piece] = []
    if group.main is not None:
        main = group.main
        pieces.append(
            Piece(path=main.path, stream="main", role=Role.MAIN, native_id=group.session, found_by=main.found_by)
        )
    parent = "main" if pieces else None
    streams: dict[Path, str] = {}
    unique = _unique()
    for path in sorted(group.agents, key=lambda path: (path.name, _below(group.anchor, path))):
        native = shown(Path(stem(path).name)).removeprefix("agent-")
        stream = streams[path] = unique("agent-" + _ODD.sub("_", native)[:_LONGEST])
        pieces.append(
            Piece(
                path=path,
                stream=stream,
                role=Role.SUBAGENT,
                native_id=native,
                parent=parent,
                found_by=group.agents[path],
            )
        )
    unique = _unique()
    for path in sorted(group.sides, key=lambda path: _below(group.anchor, path)):
        meta = _META.fullmatch(path.name)
        written = [path.with_name(meta[1] + ending) for ending in (".jsonl", PACKED)] if meta else []
        owner = next((streams[agent] for agent in written if agent in streams), None)
        pieces.append(
            Piece(
                path=path,
                stream="",
                role=Role.SIDE,
                native_id=unique(_below(group.anchor, path)),
                parent=owner,
                found_by="folder",
            )
        )
    return Found(harness=HARNESS, session=group.session, pieces=tuple(pieces))


def _below(anchor: Path, path: Path) -> str:
    """A path as it stands below the session's folder, the same on every computer."""
    try:
        return shown(path.relative_to(anchor)).replace("\\", "/")
    except ValueError:
        return shown(Path(path.name))


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
