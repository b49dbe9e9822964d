"""`tf.layers`: layers that own their variables."""

from __future__ import annotations

from headrace.ops.image_layers import (
    average_pooling2d,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    max_pooling2d,
)
from headrace.ops.layers import dense, dropout, flatten

__all__ = [
    "average_pooling2d",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "dense",
    "dropout",
    "flatten",
    "max_pooling2d",
]
