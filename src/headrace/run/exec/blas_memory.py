"""The memory that OpenBLAS copies the factors of a product to, on large pages.

Each call that multiplies takes one of OpenBLAS's buffers of 32 MB, and copies a few hundred kilobytes of both factors
to its beginning, which are then read many times over from the processor's second cache.  That cache is told apart by
physical addresses: where the pages of 4 KB that a buffer happens to get crowd a few of its sets, as the system's free
pages may once they are used up in some order, a product takes up to three times as long, for as long as the process
lives.  A page of 2 MB fills all sets alike.
Called by: run.exec.blas.  Threads: any; what another thread multiplies in at the moment is left as it is.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from headrace.run.exec.processors import processors

# Bytes; where a buffer is smaller, what comes after it is advised as well, and none the worse.
_BUFFER: Final = 32 << 20
_BEGUN: Final = 2 << 20  # bytes that may have small pages already: less than any build's buffer
_DONTNEED, _HUGEPAGE = 4, 14  # advice, as Linux numbers it
_MOST: Final = 32  # buffers; every build has 50


def use_large_pages(library: Any) -> int:
    """Advise it for as many buffers as there are processors; for how many the system took the advice.

    library: what OpenBLAS's functions are asked for; if it tells nobody its memory, or the system has no large pages,
    nothing happens.
    """
    if sys.platform != "linux" or not hasattr(library, "blas_memory_alloc"):
        return 0
    import ctypes  # for the few programs that ask

    take, give_back = library.blas_memory_alloc, library.blas_memory_free
    take.argtypes, take.restype = [ctypes.c_int], ctypes.c_void_p
    give_back.argtypes, give_back.restype = [ctypes.c_void_p], None
    advise = ctypes.PyDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    buffers: list[int] = []
    advised = 0
    try:
        for _ in range(min(processors(), _MOST)):
            buffer = take(0)
            if buffer is None:
                break
            buffers.append(buffer)
            if advise(buffer, _BUFFER, _HUGEPAGE) == 0:
                advised += 1
                advise(buffer, _BEGUN, _DONTNEED)
    finally:
        for each in buffers:
            give_back(each)
    return advised
