"""Gradients that are 0 where what comes back is 0.

Called by: kernels of gradients.  Threads: any.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def zero_where(dy: Any, made: Any) -> Any:
    """`made` of dy, but 0 where dy is, whatever it was multiplied with."""
    total = made.sum()  # shows whether something is no number
    return made if total == total else np.where(dy == 0, made.dtype.type(0), made)
