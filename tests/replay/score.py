"""Short hands for tests of replay: observations by keyword, and a parser that hands them through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forensic.model import FOLDED, Entry, Finding, Keeper, Node, Observation, Ref, Session, Usage, utc
from forensic.replay.player import play

text = FOLDED.text


def ref(offset: int, stream: str = "main", generation: int = 1) -> Ref:
    """A place in a stream, in its first generation unless another is named."""
    return Ref(stream, generation, offset)


def at(second: float) -> Any:
    """A moment of one fixed day."""
    return utc(f"2026-03-01T10:{int(second) // 60:02}:{second % 60:06.3f}Z")


def usage(message: str | None, output: int | None = None, **more: Any) -> Usage:
    """Usage of a finished message of one model, which was asked nothing new."""
    return Usage(
        **{"input_tokens": 0, "message": message, "output_tokens": output, "final": True, "model": "m-1", **more}
    )


class Given:
    """A parser whose entries are its observations."""

    dialect = "given"
    version = 1
    tells_usage = True

    def observe(self, entry: Entry, keep: Keeper = FOLDED) -> list[Observation]:
        """Hand the entry through."""
        del keep
        return [entry]  # type: ignore[list-item]  # this parser takes them for entries


def replay(*observations: Observation, findings: Iterable[Finding] = ()) -> Session:
    """The session of observations given in recorded order, with what is known beforehand."""
    return play(observations, Given(), harness="given", session="s-1", content_id="c", findings=findings)  # type: ignore[arg-type]  # this parser takes them for entries


def outline(node: Node, depth: int = 0) -> list[str]:
    """The tree as indented lines: kind and what names the node."""
    seen = node.seen
    name = next(
        (
            str(value)
            for field in ("name", "id", "call", "source", "family")
            if not isinstance(seen, Observation) or field != "id"
            if (value := getattr(seen, field, None)) is not None
        ),
        "",
    )
    said = getattr(seen, "text", None)
    line = " ".join(filter(None, (str(seen.__struct_config__.tag), name, said.preview if said else "")))
    outcome = f" = {node.outcome.outcome}" if node.outcome else ""
    proofs = f" +{len(node.evidence)}" if node.evidence else ""
    lines = ["  " * depth + line + outcome + proofs]
    for child in node.children:
        lines.extend(outline(child, depth + 1))
    return lines
