"""Numbers drawn at random for many elements at once, of nodes without seeds: they are others each time.

Called by: plan.rules.batching_rules.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.graph.graph import Operation
from headrace.ops._kernels import random_streams
from headrace.ops._kernels.random_streams import Stream
from headrace.ops.array.constants import checked_sizes

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_FILLERS: Final = {
    "RandomStandardNormal": random_streams.normal,
    "RandomUniform": random_streams.uniform,
    "TruncatedNormal": random_streams.truncated_normal,
}


def draw_rows(op: Operation, rows: Sequence[bool]) -> Callable[..., Array] | None:
    """(count, *inputs of the node) -> what it draws for `count` elements, along axis 0.

    rows: which of the inputs vary, and have an element along axis 0.  None: of another op, the shape varies, or the node
    has seeds.  What is made raises InvalidArgument and ValueError where the kernel does for one of the elements.
    """
    whole = op.type == "RandomUniformInt"
    if rows[0] or not (whole or op.type in _FILLERS) or op.attrs["seed"] or op.attrs["seed2"]:
        return None
    stream, kind = Stream(0, 0), op.outputs[0].dtype.np

    def numbers(count: int, shape: Array) -> Array:
        sizes = (count, *checked_sizes(shape, "shape"))
        made: Array = _FILLERS[op.type](stream, shape_rules.num_elements(sizes) or 0, kind)
        return made.reshape(sizes)

    def whole_numbers(count: int, shape: Array, *limits: Any) -> Array:
        sizes = (count, *checked_sizes(shape, "shape"))
        if any(limit.ndim != varies for limit, varies in zip(limits, rows[1:], strict=True)):
            raise errors.invalid_argument("minval and maxval must be 0-D")
        if any(rows):
            limits = tuple([limit.reshape(-1, *[1] * len(shape)) for limit in limits])
            return stream.numpy.integers(*limits, sizes, kind)
        low, high = map(int, limits)
        if low >= high:
            raise errors.invalid_argument(f"Need minval < maxval, got {low} >= {high}")
        size = shape_rules.num_elements(sizes) or 0
        return random_streams.uniform_int(stream, size, low, high, kind).reshape(sizes)

    return whole_numbers if whole else numbers
