"""The few things that stop the program.

A class's docstring is its message (``str.format`` fields are the keyword arguments of the constructor) and its
``exit_code`` is what the command line returns. Everything else that goes wrong is a `forensic.model.Finding`.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlreadyThere",
    "Ambiguous",
    "Busy",
    "Damaged",
    "ForensicError",
    "Mismatch",
    "NewerFormat",
    "NoSession",
    "NoSuchParser",
    "NoSuchPath",
    "NotABundle",
    "NotInArchive",
    "NotReadable",
    "NotRegular",
    "TooLarge",
    "UnknownHarness",
    "Unusable",
    "WriteFailed",
]


class ForensicError(Exception):
    """{detail}"""

    exit_code: ClassVar[int] = 1

    def __init__(self, **fields: object) -> None:
        """Keep the fields and make the one-line message from the class docstring."""
        self.fields = fields
        template = " ".join((type(self).__doc__ or "").split())
        # python -OO drops docstrings: then the name of the error and its fields must do
        told = template.format(**fields) if template else _plainly(type(self).__name__, fields)
        super().__init__(told)


def _plainly(name: str, fields: dict[str, object]) -> str:
    return f"{name}: " + ", ".join(f"{field} {value}" for field, value in fields.items())


class Unusable(ForensicError):
    """{detail}"""

    exit_code = 2


class NoSuchPath(Unusable):
    """no such file or folder: {path}"""


class NotRegular(Unusable):
    """{path} is neither a regular file nor a folder: name a transcript file, or a folder that holds some"""


class NotReadable(Unusable):
    """cannot read {path}: {detail}"""


class NoSession(Unusable):
    """no agent session found in {path}: name a transcript file, or a folder that holds some"""


class UnknownHarness(Unusable):
    """unknown harness {name!r}: known are {known}"""


class NoSuchParser(Unusable):
    """the dialect {dialect} has no parser version {version}: there are {known}"""


class NotInArchive(Unusable):
    """{archive} holds nothing that {name!r} is the id of, or the beginning of one"""


class Ambiguous(Unusable):
    """{name!r} could be any of {count}: {known}; give more of the id"""


class Busy(Unusable):
    """another recorder is running ({path} is locked): it records already; one is enough"""


class AlreadyThere(Unusable):
    """{path} exists already and is not overwritten: name another output file"""


class Damaged(ForensicError):
    """{path}: damaged: {detail}"""

    exit_code = 3


class NotABundle(Damaged):
    """{path}: not a forensic bundle: {detail}"""


class TooLarge(Damaged):
    """{path}: refused before reading: {detail}"""


class NewerFormat(ForensicError):
    """{path}: made by a newer version: {detail}; please update forensic"""

    exit_code = 4


class WriteFailed(ForensicError):
    """cannot write {path}: {detail}; nothing was left half-written"""

    exit_code = 5


class Mismatch(ForensicError):
    """{path}: {detail}"""

    exit_code = 1
