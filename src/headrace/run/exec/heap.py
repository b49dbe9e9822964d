"""How much memory the C library keeps of what arrays have given back.

glibc takes arrays above a limit from the system and gives them back at once, and trims its heap by twice that limit.
Both grow with the largest array that was freed, up to 32 MB and 64 MB.  Until then a step whose arrays are a few
megabytes each gets fresh pages for most of them, and every page is a fault: some 5,000 a step and a quarter of its time
in a training step of 25 arrays of 8 MB.  So the limits are put where one array of 32 MB would put them, by freeing one
that nobody has written to.  Who has set glibc's limits (`MALLOC_TRIM_THRESHOLD_`, mallopt) keeps what is set.
Called by: run.exec.kernel.  Threads: any.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

_LARGEST: Final = (32 << 20) - (
    64 << 10
)  # bytes: with what malloc adds it is below glibc's own limit


@cache
def keep_freed_memory() -> None:
    """From now on up to 64 MB of freed memory stay the process's own; nothing where another malloc is in use."""
    np.empty(_LARGEST, np.uint8)
