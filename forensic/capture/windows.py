"""Opening a file on Windows so that whoever writes it may still rename or delete it.

``os.open`` there shares neither: a recorder that followed a transcript would be in its harness's way.
"""

from __future__ import annotations

import os
import sys

__all__ = ["open_shared"]

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _GENERIC_READ = 0x80000000
    _SHARE_ALL = 0x1 | 0x2 | 0x4
    _OPEN_EXISTING = 3
    _OPEN_REPARSE_POINT = 0x00200000
    _INVALID = ctypes.c_void_p(-1).value

    _create = ctypes.WinDLL("kernel32", use_last_error=True).CreateFileW
    _create.restype = wintypes.HANDLE

    def open_shared(path: str) -> int:
        """A descriptor of a file that everybody else may go on using. Raises `OSError`."""
        handle = _create(path, _GENERIC_READ, _SHARE_ALL, None, _OPEN_EXISTING, _OPEN_REPARSE_POINT, None)
        if handle == _INVALID:
            raise ctypes.WinError(ctypes.get_last_error())
        return msvcrt.open_osfhandle(handle, os.O_RDONLY)

else:

    def open_shared(path: str) -> int:
        """A descriptor of a file; elsewhere every open file is shared."""
        return os.open(path, os.O_RDONLY)
