"""The census: what each parser reads, which producers it was checked with, what the golden recordings are.

``manifests/<dialect>.json`` is committed and never read at run time. A change shows in one diff what a parser newly
understands, and that no golden recording was edited. Write them again with::

    pytest tests/test_manifests.py --snapshot-update
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from golden_extension import CASES

from forensic.dialects.dialect import Dialect
from forensic.dialects.parser import Aside, Parser, Reader
from forensic.dialects.registry import DIALECTS
from forensic.recording import open_recording

MANIFESTS = Path(__file__).resolve().parent.parent / "manifests"


def census(dialect: Dialect) -> dict[str, Any]:
    """All that a manifest says of one dialect."""
    return {
        "dialect": dialect.name,
        "parsers": {str(number): _parser(dialect, one) for number, one in sorted(dialect.versions.items())},
        "golden": {case.name: _recording(case, dialect) for case in CASES if case.parent.name == dialect.name},
    }


def _parser(dialect: Dialect, parser: Parser) -> dict[str, Any]:
    return {
        "producers": {
            "seen": _checked(dialect.seen, parser.version),
            "verified": _checked(dialect.verified, parser.version),
        },
        "rows": _sorted_out(parser.rows),
        "blocks": {name: list(blocks) for name, blocks in sorted(parser.blocks.items())},
        "files": _sorted_out(parser.files),
        "hooks": _sorted_out(parser.hooks),
    }


def _checked(producers: Mapping[str, int], version: int) -> list[str]:
    return [producer for producer, checked in producers.items() if checked == version]


def _sorted_out(table: Mapping[str, Reader]) -> dict[str, list[str]]:
    aside = {family for family, reader in table.items() if isinstance(reader, Aside)}
    return {"modelled": sorted(table.keys() - aside), "set_aside": sorted(aside)}


def _recording(case: Path, dialect: Dialect) -> dict[str, Any]:
    recording = open_recording(case)
    read = {str(number): recording.replay(number).observations_sha256 for number in sorted(dialect.versions)}
    return {"content_id": recording.content_id, "observations_sha256": read}


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_the_census_is_up_to_date(name: str, pytestconfig: pytest.Config) -> None:
    """What is committed is what the code says of itself."""
    path = MANIFESTS / f"{name}.json"
    text = json.dumps(census(DIALECTS[name]), indent=1, ensure_ascii=False) + "\n"
    if pytestconfig.getoption("update_snapshots", default=False):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_there_is_no_census_of_nothing() -> None:
    """One manifest a dialect, and one page."""
    assert sorted(path.stem for path in MANIFESTS.iterdir()) == sorted(DIALECTS)
    assert {path.stem for path in (MANIFESTS.parent / "docs" / "dialects").glob("*.md")} >= DIALECTS.keys()


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_family_is_told_of_on_the_page_of_its_dialect(name: str) -> None:
    """The page says of each row, block and side file what becomes of it."""
    page = (MANIFESTS.parent / "docs" / "dialects" / f"{name}.md").read_text(encoding="utf-8")
    known: set[str] = set()
    for parser in DIALECTS[name].versions.values():
        known.update(parser.rows, parser.files, parser.hooks)
        known.update(block for blocks in parser.blocks.values() for block in blocks)
    assert sorted(family for family in known if f"`{family.rpartition('/')[2]}`" not in page) == []


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_checked_producer_names_a_parser_that_there_is(name: str) -> None:
    """Otherwise nobody can replay as it was checked."""
    known = DIALECTS[name]
    assert {*known.seen.values(), *known.verified.values()} <= known.versions.keys()
