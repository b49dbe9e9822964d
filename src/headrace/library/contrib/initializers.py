"""First values of weights by how many inputs and outputs they have: `tf.contrib.layers.xavier_initializer` and kin.

Called by: programs, layers.  Threads: as graph.
Source: X. Glorot, Y. Bengio, Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010;
K. He et al., Delving deep into rectifiers, ICCV 2015; tests compare with tf-slim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.ops.random.draws import random_uniform, truncated_normal

__all__ = ["variance_scaling_initializer", "xavier_initializer", "xavier_initializer_conv2d"]

_OF_TRUNCATED = 1.3
"""By how much a variance has to grow for what is left after cutting at two standard deviations."""


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = dtypes.float32
) -> Callable[..., Any]:
    """An initializer whose variance is one over the mean of inputs and outputs."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = dtypes.float32,
) -> Callable[..., Any]:
    """An initializer whose variance is factor over inputs ("FAN_IN"), outputs ("FAN_OUT") or their mean ("FAN_AVG").

    uniform: equally distributed, not normally and cut at two standard deviations.
    Raises TypeError: a type of no floats; another mode.
    """
    if not dtypes.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def initialize(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
        if not dtypes.as_dtype(dtype).is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        whole = shape if partition_info is None else partition_info.full_shape
        number = _fan([float(size) for size in whole], mode)
        if not number:
            raise ValueError(
                f"Weights of shape {list(whole)} have no variance: sizes of kernels, inputs and outputs are above 0"
            )
        if uniform:
            limit = math.sqrt(3.0 * factor / number)
            return random_uniform(shape, -limit, limit, dtype, seed=seed)
        deviation = math.sqrt(_OF_TRUNCATED * factor / number)
        return truncated_normal(shape, 0.0, deviation, dtype, seed=seed)

    return initialize


def _fan(sizes: list[float], mode: str) -> float:
    """Inputs, outputs or their mean, of weights whose last two sizes are those of one place."""
    places = math.prod(sizes[:-2])
    inputs = (sizes[-2] if len(sizes) > 1 else sizes[-1] if sizes else 1.0) * places
    outputs = (sizes[-1] if sizes else 1.0) * places
    return {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2.0}[mode]
