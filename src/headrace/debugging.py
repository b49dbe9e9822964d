"""`tf.debugging`: checks in the graph."""

from __future__ import annotations

from headrace.ops.asserts import Assert
from headrace.ops.elementwise import is_finite, is_inf, is_nan

__all__ = [
    "Assert",
    "is_finite",
    "is_inf",
    "is_nan",
]
