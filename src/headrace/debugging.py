"""`tf.debugging`: checks in the graph."""

from __future__ import annotations

from headrace.ops.elementwise import is_finite, is_inf, is_nan

__all__ = [
    "is_finite",
    "is_inf",
    "is_nan",
]
