"""The typer application: what all commands share, and the list of them.

``python -m forensic.cli.app --help > forensic/cli/help.txt`` renews the text that ``forensic --help`` shows.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from forensic import __version__
from forensic.errors import Unusable

__all__ = ["COMMANDS", "EXIT_CODES", "application", "run"]

EXIT_CODES = """Exit codes:

\b
  0    good
  1    problems were found
  2    wrong usage, or nothing there to work on
  3    damaged, or no bundle at all
  4    made by a newer version
  5    cannot write
  70   a bug of this program
  130  interrupted

FORENSIC_HOME names the folder that holds the archive.
"""

COMMANDS = ("capture", "seal", "list", "usage", "replay", "verify", "salvage", "prune", "forget", "hooks", "doctor")
"""Each is the module of the same name: its ``command``, a function or an application of its own, its ``EXAMPLE``."""


def application(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The application with these commands; one that is run alone does not wait for the modules of the others."""
    app = typer.Typer(
        name="forensic",
        epilog=EXIT_CODES,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 80},
    )
    app.callback()(_root)
    for name in names:
        module = import_module(f"forensic.cli.{name}")
        example = f"Example:\n\n\b\n{module.EXAMPLE}"
        if isinstance(module.command, typer.Typer):
            app.add_typer(module.command, name=name, epilog=example)
        else:
            app.command(name, epilog=example)(module.command)
    return app


def _root(*, version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """A replay-first archive for transcripts of AI coding agents.

    Capture seals each session into one file that never changes; replay tells it again from that file alone.
    """
    if version:
        print(f"forensic {__version__}")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Run one command; its exit code. Wrong usage raises `Unusable`."""
    before = signal.signal(signal.SIGTERM, _stop)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app = application(arguments[:1] if arguments[:1] in ([name] for name in COMMANDS) else COMMANDS)
        entry = get_command(app)
        # not entry.main(), which ends the program itself when it is interrupted or a pipe breaks
        with entry.make_context("forensic", list(arguments)) as context:
            code = entry.invoke(context)
    except typer.Exit as end:
        code = end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        at = getattr(error, "ctx", None)
        path = at.command_path if at is not None else "forensic"
        detail = error.format_message().strip().rstrip(".").replace("\n", " ")
        raise Unusable(detail=f"{detail[:1].lower()}{detail[1:]} (see {path} --help)") from None
    finally:
        signal.signal(signal.SIGTERM, before)
    return code if isinstance(code, int) else 0


def _stop(_number: int, _frame: object) -> NoReturn:
    """Unwind on SIGTERM, so that working folders are removed on the way out."""
    raise SystemExit(143)


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
