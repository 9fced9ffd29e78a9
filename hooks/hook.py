"""What a harness runs, as `python -I -S hook.py HARNESS EVENT`: its payload goes into the spool, silently.

This file is compiled in each run and therefore short; what it imports is compiled once. Whatever happens, nothing is
written to the standard files and the exit code is 0.
"""

# ruff: noqa: INP001, SLF001 -- a folder of scripts is no package, and _exit is documented
# ruff: noqa: BLE001, S110 -- a hook that fails must not be noticed

import sys

try:
    if sys.platform == "win32":
        import os
    else:
        import posix as os  # what `os` wraps, and nothing has to be read for it
    os.umask(0o077)
    sys.path.insert(0, __file__[: -len("/hook.py")])
    try:
        from spooling import main
    except Exception:
        # Python does not sync what it writes to __pycache__, so a crash can tear it: without a tag nobody looks there
        sys.implementation.cache_tag = None  # type: ignore[assignment]  # None is documented to switch the cache off
        from spooling import main
    main()
except BaseException:
    pass
finally:
    os._exit(0)  # taking the interpreter down in order would be a fifth of the whole run
