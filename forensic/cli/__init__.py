"""The front door, and the one net under it: whatever happens ends in one line and an exit code (docs/cli.md).

What needs no command is answered at once from ``help.txt``; only a command brings typer and its own modules in.
"""

import os
import sys

__all__ = ["main"]

_HELP = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120 -- pathlib costs as much as all else
_NO_SPACE = ("ENOSPC", "EDQUOT", "EROFS", "EFBIG", "EIO")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line (``sys.argv`` unless given) and return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    # a stream that was closed before we began is None
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 -- as above, and for the whole run
    if sys.stdout is None:
        return _say("standard output is closed: there is nowhere to write", 5)
    try:
        code = _answer(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:
        # the reader has gone; what is still buffered has nowhere to go either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001 -- nobody who runs a command is to see a traceback
        return _explain(error)
    return code


def _answer(given: list[str]) -> int:
    if given in ([], ["--help"], ["-h"]):
        with open(_HELP, encoding="utf-8") as text:  # noqa: PTH123 -- as above
            sys.stdout.write(text.read())
        return 0
    if given == ["--version"]:
        from forensic import __version__

        sys.stdout.write(f"forensic {__version__}\n")
        return 0
    from forensic.cli.app import run

    return run(given)


def _explain(error: Exception) -> int:
    from forensic.errors import ForensicError

    if os.environ.get("FORENSIC_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, ForensicError):
        return _say(str(error), error.exit_code)
    if isinstance(error, OSError) and error.strerror:
        import errno

        where = f"{error.filename}: " if error.filename is not None else ""
        cannot_write = errno.errorcode.get(error.errno or 0) in _NO_SPACE
        return _say(f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}", 5 if cannot_write else 2)
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _say(f"this is a bug, please report it ({told}); FORENSIC_DEBUG=1 shows where", 70)


def _say(message: str, code: int) -> int:
    from forensic.renderers.wording import one_line

    sys.stderr.write(f"forensic: {one_line(message)}\n")
    return code
