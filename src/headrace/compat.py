"""`tf.compat`: bytes and text; kinds of numbers."""

from __future__ import annotations

from headrace.base.shapes import dimension_at_index, dimension_value

__all__ = [
    "dimension_at_index",
    "dimension_value",
]
