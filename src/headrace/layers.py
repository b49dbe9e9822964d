"""`tf.layers`: layers that own their variables."""

from __future__ import annotations

from headrace.ops.layers import dense, dropout, flatten

__all__ = [
    "dense",
    "dropout",
    "flatten",
]
