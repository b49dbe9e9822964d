"""CRC-32C of large contents, while other threads of the process go on.

google_crc32c holds the interpreter's lock while it computes.  The C library that it brings has the same function, and
called through ctypes it leaves the lock to others; where that cannot be found, pieces keep the lock a little at a time.
Called by: codec.tensor_bundle, run.checkpoints.  Threads: any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Buffer = bytes | np.ndarray[Any, np.dtype[np.uint8]]
"""Bytes, or an array of them, which is as good for files and checksums."""

_PIECE_BYTES: Final = 1 << 20
_SMALL_BYTES: Final = 1 << 14
"""What is looked at sooner than the lock changes hands."""


def crc32c(content: Buffer, crc: int = 0) -> int:
    """The CRC-32C of what had `crc` and `content` behind it."""
    from google_crc32c import extend  # takes its time to load

    size = len(content)
    if size > _SMALL_BYTES:
        unlocked = _unlocked()
        view = np.frombuffer(content, np.uint8)
        if unlocked is not None:
            return unlocked(crc, view.ctypes.data, size)
        for at in range(0, size, _PIECE_BYTES):
            crc = extend(crc, view[at : at + _PIECE_BYTES])
        return crc
    found: int = extend(crc, content)
    return found


@functools.cache
def _unlocked() -> Callable[[int, int, int], int] | None:
    """(crc, address, size) -> crc: the library's function, which leaves the lock to others; None without one."""
    import ctypes

    try:
        from google_crc32c import _crc32c  # a symbol is looked for in what the module links to, too

        function = ctypes.CDLL(_crc32c.__file__).crc32c_extend
    except (ImportError, OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    function.argtypes = (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
    return function
