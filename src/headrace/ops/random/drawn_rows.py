"""Numbers drawn at random for many elements at once.

Without seeds they are drawn as one array; with seeds each element gets those that it would get by itself, many of them
in one call.

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
from headrace.ops.image.sampling import sampled_rows

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_NUMBERS: Final = 1 << 14
"""That are made in one call; more take no less time each."""
_FILLERS: Final = {
    "RandomStandardNormal": random_streams.normal,
    "RandomUniform": random_streams.uniform,
    "TruncatedNormal": random_streams.truncated_normal,
}
_WHOLE: Final = "RandomUniformInt"
_PARTS: Final = frozenset({"SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2"})


def is_drawn(op: Operation) -> bool:
    """Whether `draw_rows` may be asked."""
    return op.type in _FILLERS or op.type in _PARTS or op.type == _WHOLE


def draw_rows(op: Operation, rows: Sequence[bool]) -> Callable[..., Any] | None:
    """(stream, count, *inputs of the node) -> what it draws of its stream for `count` elements, along axis 0; of an op
    with several outputs a sequence of them.

    rows: which of the inputs vary, and have an element along axis 0.  None: the shape varies.  Of a
    stream with seeds an element after the other takes as many blocks.
    What is made raises InvalidArgument and ValueError where the kernel does for one of the elements.
    """
    if op.type in _PARTS:
        return sampled_rows(op, rows)
    if rows[0]:
        return None
    kind = op.outputs[0].dtype.np

    def numbers(stream: Stream, count: int, shape: Array) -> Array:
        sizes, size = _sizes(shape)
        fill = _FILLERS[op.type]
        if not stream.seeded:
            return fill(stream, count * size, kind).reshape(count, *sizes)
        if not size:
            return np.empty((count, *sizes), kind)
        drawn = [fill(stream, size, kind, each.stop - each.start) for each in _runs(count, size)]
        return np.concatenate(drawn).reshape(count, *sizes)

    def whole_numbers(stream: Stream, count: int, shape: Array, *limits: Any) -> Array:
        sizes, size = _sizes(shape)
        if any(limit.ndim != varies for limit, varies in zip(limits, rows[1:], strict=True)):
            raise errors.invalid_argument("minval and maxval must be 0-D")
        low, high = limits
        if size and not (low < high).all():
            raise errors.invalid_argument("Need minval < maxval")
        draw = random_streams.uniform_int
        if not size:
            return np.empty((count, *sizes), kind)
        if stream.seeded:
            lows, highs = [np.broadcast_to(each, count).astype(np.int64) for each in limits]
            drawn = [
                draw(stream, size, lows[each], highs[each], kind, each.stop - each.start)
                for each in _runs(count, size)
            ]
            return np.concatenate(drawn).reshape(count, *sizes)
        if any(rows):
            low, high = [each.reshape(-1, *[1] * len(sizes)) for each in limits]
            return stream.numpy.integers(low, high, (count, *sizes), kind)
        return draw(stream, count * size, int(low), int(high), kind).reshape(count, *sizes)

    return whole_numbers if op.type == _WHOLE else numbers


def _sizes(shape: Array) -> tuple[tuple[int, ...], int]:
    """Those that a vector says, and how many elements that makes.  Raises InvalidArgument."""
    sizes = checked_sizes(shape, "shape")
    return sizes, shape_rules.num_elements(sizes) or 0


def _runs(count: int, size: int) -> list[slice]:
    """The elements, as many at a time as make `_NUMBERS`."""
    some = max(_NUMBERS // max(size, 1), 1)
    return [slice(at, min(at + some, count)) for at in range(0, count, some)]
