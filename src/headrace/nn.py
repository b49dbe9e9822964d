"""`tf.nn`: neural networks."""

from __future__ import annotations

from headrace.ops.__init__ import softmax

__all__ = [
    "softmax",
]
