"""A replay-first forensic archive for transcripts of AI coding agents.

``open`` gives a `Recording` of a bundle, its ``replay()`` a `Session`, and ``render`` writes that out. A name is
imported when it is first asked for, so that ``import forensic`` costs next to nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forensic.errors import ForensicError as ForensicError
    from forensic.model import Finding as Finding
    from forensic.model import Manifest as Manifest
    from forensic.model import Node as Node
    from forensic.model import Observation as Observation
    from forensic.model import Ref as Ref
    from forensic.model import Session as Session
    from forensic.recording import Recording as Recording
    from forensic.recording import open_recording as open
    from forensic.renderers import render as render

__version__ = "0.1.0"

__all__ = [
    "Finding",
    "ForensicError",
    "Manifest",
    "Node",
    "Observation",
    "Recording",
    "Ref",
    "Session",
    "open",
    "render",
]

_HOME = {
    "Finding": ("forensic.model", "Finding"),
    "ForensicError": ("forensic.errors", "ForensicError"),
    "Manifest": ("forensic.model", "Manifest"),
    "Node": ("forensic.model", "Node"),
    "Observation": ("forensic.model", "Observation"),
    "Recording": ("forensic.recording", "Recording"),
    "Ref": ("forensic.model", "Ref"),
    "Session": ("forensic.model", "Session"),
    "open": ("forensic.recording", "open_recording"),
    "render": ("forensic.renderers", "render"),
}


def __getattr__(name: str) -> object:
    try:
        module, attribute = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'forensic' has no attribute {name!r}") from None
    from importlib import import_module  # noqa: PLC0415 -- only when something is asked for

    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
