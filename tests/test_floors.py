"""Imports go down or stay in their room: who may know whom is a table, and this is where it is enforced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "forensic"

FLOORS = {
    "errors": 10,
    "private": 11,
    "harness": 10,
    "jsonio": 10,
    "model": 10,
    "data": 11,
    "ustar": 11,
    "wrapping": 11,
    "zstd": 11,
    "container": 12,
    "manifest": 12,
    "reading": 13,
    "remains": 13,
    "storage": 13,
    "wreck": 13,
    "bundle": 20,
    "compare": 20,
    "dialects": 20,
    "renderers": 20,
    "capture": 30,
    "replay": 30,
    "registration": 30,
    "salvage": 30,
    "superset": 30,
    "crew": 11,
    "archive": 40,
    "recording": 41,
    "intake": 42,
    "accounts": 43,
    "doctor": 43,
    "remembered": 44,
    "works": 45,
    "cli": 50,
    "demo": 50,
}
"""A room is a module or a package. The tens are the floors, the ones are steps on them; imports go strictly down."""

FACE = {"", "__main__"}
"""The package itself and ``python -m forensic``: doors, which are no rooms."""

NEVERS = [
    ("capture", "dialects", "an unknown dialect must still be captured"),
    ("capture", "replay", "parsing may not cost evidence"),
    ("replay", "bundle", "the playing wing touches no file"),
    ("dialects", "bundle", "the playing wing touches no file"),
    ("replay", "renderers", "a session does not know what it looks like"),
    ("renderers", "bundle", "what is drawn comes from the model alone"),
    ("renderers", "dialects", "no renderer knows a producer"),
]

PURE = ("dialects", "replay")
WORLDLY = {"os", "pathlib", "time", "random", "secrets", "socket", "subprocess", "tempfile", "locale", "zoneinfo"}
"""What a pure function has no use for."""

FEWEST_ARROWS = 30
"""Fewer and this file has gone blind."""


class Arrow(NamedTuple):
    """One import: where it stands, from which room, to which module."""

    where: str
    room: str
    module: str


def room_of(module: str) -> str:
    """The room of a module of ours: ``forensic.capture.tail`` is in ``capture``."""
    return [*module.split("."), ""][1]


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every module that is imported, wherever in the file, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            package = (PACKAGE.parent / (node.module or "").replace(".", "/")).is_dir()
            yield from ((node.lineno, name if package else node.module or "") for name in whole)


@cache
def arrows() -> list[Arrow]:
    """All imports of the package, ours and others'."""
    found: list[Arrow] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        room = relative.parts[0].removesuffix(".py") if relative.name != "__init__.py" or relative.parent.parts else ""
        tree = ast.parse(path.read_bytes(), str(path))
        found.extend(Arrow(f"{relative}:{line}", room, module) for line, module in imports(tree))
    return found


def ours() -> list[Arrow]:
    """Imports between different rooms."""
    return [
        arrow
        for arrow in arrows()
        if arrow.module.split(".")[0] == "forensic" and room_of(arrow.module) not in (arrow.room, "__version__")
    ]


def test_every_room_has_a_floor() -> None:
    """A new room is given its floor on purpose."""
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms - FLOORS.keys() - {"__init__", "__main__", "__pycache__", "_data"} == set()


def test_there_are_arrows() -> None:
    """The test sees what it judges."""
    assert len({(arrow.room, room_of(arrow.module)) for arrow in ours()}) >= FEWEST_ARROWS


def test_imports_go_down() -> None:
    """No room imports from a higher floor, or from another room on its own step."""
    wrong = [
        arrow
        for arrow in ours()
        if arrow.room not in FACE and FLOORS.get(room_of(arrow.module), 99) >= FLOORS.get(arrow.room, 99)
    ]
    assert wrong == []


@pytest.mark.parametrize(("room", "other", "because"), NEVERS)
def test_never(room: str, other: str, because: str) -> None:
    """What would be allowed by floor, or tempting, and must not be all the same."""
    assert [arrow for arrow in ours() if arrow.room == room and room_of(arrow.module) == other] == [], because


def test_replay_knows_no_producer() -> None:
    """Replay sees parsers, never the dialect of one producer."""
    assert [
        arrow
        for arrow in ours()
        if arrow.room == "replay"
        and arrow.module.startswith("forensic.dialects.")
        and not arrow.module.startswith("forensic.dialects.parser")
    ] == []


def test_renderers_know_the_model_only() -> None:
    """What is drawn is a session, so a renderer needs its words and nothing else of ours."""
    known = {room_of(arrow.module) for arrow in ours() if arrow.room == "renderers"}
    assert known <= {"model", "errors", "jsonio"}


def test_nothing_goes_out_by_a_door() -> None:
    """Nobody imports the command line, the demo or the hooks."""
    doors = {"cli", "demo", "__main__"}
    assert [arrow for arrow in ours() if room_of(arrow.module) in doors and arrow.room not in FACE] == []
    assert [arrow for arrow in arrows() if arrow.module.split(".")[0] in ("hooks", "tests")] == []


@pytest.mark.parametrize("room", PURE)
def test_pure(room: str) -> None:
    """Parsers and replay import nothing that could tell them where, when or by whom they are run."""
    assert [arrow for arrow in arrows() if arrow.room == room and arrow.module.split(".")[0] in WORLDLY] == []


def test_hooks_stand_apart() -> None:
    """What runs inside a harness imports the standard library alone, and nothing of ours."""
    for path in (PACKAGE.parent / "hooks").rglob("*.py"):
        assert [name for _, name in imports(ast.parse(path.read_bytes())) if name.split(".")[0] == "forensic"] == []
