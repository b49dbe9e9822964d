"""What works along one axis, of tensors whose rank is not known: as of [before, axis, behind].

Called by: library.  Threads: as graph.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.graph.tensor import Tensor
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import rank, reshape, shape
from headrace.ops.math.reductions import reduce_prod

__all__ = ["around_axis"]


def around_axis(x: Tensor, axis: int, make: Callable[[Tensor], Tensor]) -> Tensor:
    """make(x as three dimensions) gives [before, *any, behind]: that, with *any in the place of the axis.

    An axis that is not there is an error of the step.
    """
    sizes = shape(x)
    at = axis if axis >= 0 else rank(x) + axis
    before, behind = sizes[:at], sizes[at + 1 :]
    made = make(reshape(x, stack([reduce_prod(before), sizes[at], reduce_prod(behind)])))
    return reshape(made, concat([before, shape(made)[1:-1], behind], 0))
