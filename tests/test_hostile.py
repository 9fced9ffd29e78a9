"""Every archive of `hostile` is refused, each for the reason that it was made for."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from hostile import CASES, bundle_of, honest, listed

import forensic.errors
from forensic.bundle import open_bundle
from forensic.errors import Damaged, ForensicError, NewerFormat

AT = re.compile(r"at byte \d+")


def refusal(path: Path, *, strict: bool) -> ForensicError | None:
    """What a reader says of a file, None when it finds nothing wrong."""
    try:
        bundle = open_bundle(path)
        if strict:
            bundle.check()
        else:
            list(bundle.timeline())
    except (Damaged, NewerFormat) as error:
        return error
    return None


def test_there_are_enough() -> None:
    """The catalogue does not shrink unnoticed."""
    assert len(CASES) >= 100


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, tmp_path: Path) -> None:
    """The strict reader refuses it, says why in one exact line, and allocates little; so does the timeline."""
    case = CASES[name]
    path = tmp_path / "bundle.zst"
    path.write_bytes(case.build())
    tracemalloc.start()
    found = refusal(path, strict=True)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    kind = getattr(forensic.errors, case.error)
    assert (type(found), AT.sub("at byte N", str(found.fields["detail"]))) == (kind, case.message)
    assert str(found) == str(kind(path=path, detail=found.fields["detail"]))
    assert "\n" not in str(found)
    assert most < 32 << 20
    if not case.late:
        again = refusal(path, strict=False)
        assert again is not None
        assert str(again) == str(found)


def test_the_honest_one_is_accepted(tmp_path: Path) -> None:
    """What the cases start from has nothing wrong, or they would prove nothing."""
    path = tmp_path / "bundle.zst"
    path.write_bytes(bundle_of(listed(honest())))
    assert refusal(path, strict=True) is None
    assert len(list(open_bundle(path).timeline())) == 6
