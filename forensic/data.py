"""The folders that travel with the code: ``golden`` (recordings) and ``hooks``.

In a wheel they lie in the package, in a checkout at the top of the repository; nobody else needs to know that.
"""

from __future__ import annotations

from pathlib import Path

from forensic.errors import Unusable

__all__ = ["folder"]

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `name` ("golden" or "hooks") of this installation; raises `Unusable` when it is not there."""
    for place in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise Unusable(detail=f"this installation of forensic has no {name} folder: install it again")
