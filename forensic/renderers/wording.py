"""Words and figures as a terminal shows them. What a transcript says is never trusted: every text passes `clean`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from forensic.model import Text

__all__ = ["clean", "count", "duration", "figure", "one_line", "short_id", "span", "words_of"]

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
"""Terminal escape sequences, which programs leave in their output in good faith: taken out without a trace."""

_BLANK = re.compile("[\t\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
_UNSEEN = re.compile("[\u00ad\u034f\u200b-\u200d\u2060-\u2064\ufeff]+")
_UNSAFE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u061c\u180e\u200e\u200f\u202a-\u202e\u2065-\u206f\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
"""Controls, text direction overrides and invisible tags: each one is shown as a replacement character."""

_TAGGED = re.compile(r"<([A-Za-z][A-Za-z0-9_-]{0,63})>([^<>]*)</\1>")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9_-]{0,63}>")

_MARKS = {"lower_bound": "\u2265 ", "inferred": "~ ", "unknown": "? "}


_STEERING = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def escaped(text: str) -> str:
    """JSON text with everything that could steer a terminal written as an escape; it means the same."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def clean(text: str) -> str:
    """The text with nothing in it that could move a cursor, turn a line around or hide; line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return _UNSAFE.sub("\ufffd", _UNSEEN.sub("", _BLANK.sub(" ", text)))


def one_line(text: str | Text | None) -> str:
    """The text on one line, blanks folded; of a `Text` its preview."""
    if text is None:
        return ""
    if isinstance(text, Text):
        text = text.preview
    return " ".join(part for part in clean(text).replace("\n", " ").split(" ") if part)


def words_of(text: str | Text | None) -> str:
    """The words of a text that a machine made, on one line.

    Of one in tags: the first content of a tag that has more than one word, else all of it without the tags.
    """
    shown = one_line(text)
    if not _TAG.match(shown):
        return shown
    contents = (one_line(match[2]) for match in _TAGGED.finditer(shown))
    return next((content for content in contents if " " in content), one_line(_TAG.sub(" ", shown)))


def short_id(text: str) -> str:
    """Enough of a digest or of a native id to find the whole."""
    safe = one_line(text)
    return safe if len(safe) <= 12 else safe[:12]


def duration(milliseconds: float | None, *, about: bool = False) -> str:
    """``340ms``, ``3.2s``, ``2m 05s``, ``1h 02m``, ``3d 04h``; empty when unknown; ``~`` when clocks were compared."""
    if milliseconds is None or milliseconds < 0:
        return ""
    sign = "~" if about else ""
    if milliseconds < 999.5:
        return f"{sign}{milliseconds:.0f}ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{sign}{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{sign}{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{sign}{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{sign}{days}d {hours:02d}h"


def span(start: datetime | None, end: datetime | None) -> str:
    """A stretch of time in UTC, the date told once, and how long it is."""
    if start is None:
        return ""
    text = f"{start:%Y-%m-%d %H:%M:%S}"
    if end is not None and end != start:
        text += f" \u2192 {end:%H:%M:%S}" if end.date() == start.date() else f" \u2192 {end:%Y-%m-%d %H:%M:%S}"
    text += " UTC"
    if end is not None and end > start:
        text += f" \u00b7 {duration((end - start).total_seconds() * 1000)}"
    return text


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``1 call``, ``1,204 calls``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def figure(value: Any, level: str = "exact") -> str:
    """A number as a table shows it; one that is not known is ``-``, one that is not sure carries its mark."""
    if value is None:
        return "-"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4f}".rstrip("0").rstrip(".")
    return _MARKS.get(level, "") + shown
