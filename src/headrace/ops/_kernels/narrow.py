"""Half and bfloat16, which most kernels compute in float32 and round once.

Called by: kernels.  Threads: any.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__: list[str] = []

_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def single(x: Any) -> Any:
    """Half and bfloat16 as float32, everything else as it is."""
    return x.astype(np.float32) if x.dtype in _NARROW else x
