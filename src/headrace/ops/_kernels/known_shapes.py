"""Kernels of reshapes whose shape or dimension is a constant, which is looked at when the plan is made.

Called by: ops.array.shapes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__: list[str] = []

Kernel = Callable[[Any, Any], Any]


def reshaping(shape: Any, otherwise: Kernel) -> Kernel | None:
    """The kernel for this shape, None for one that it is not for.  otherwise: what says what is wrong with a tensor."""
    if shape is None or shape.ndim != 1:
        return None
    wanted = tuple(shape.tolist())
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        return None

    def reshaped(tensor: Any, shape: Any) -> Any:
        try:
            return tensor.reshape(wanted)
        except ValueError:
            return otherwise(tensor, shape)

    return reshaped


def expanding(dim: Any, otherwise: Kernel) -> Kernel | None:
    """The kernel for a dimension, None for one that is counted from the end.  otherwise: as for `reshaping`."""
    if dim is None or np.size(dim) != 1 or (at := int(np.reshape(dim, ()))) < 0:
        return None

    def expanded(value: Any, dim: Any) -> Any:
        shape = value.shape
        if at > len(shape):
            return otherwise(value, dim)
        return value.reshape((*shape[:at], 1, *shape[at:]))

    return expanded
