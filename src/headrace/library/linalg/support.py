"""What several operators need: shapes, batches that broadcast, checks.

Called by: library.linalg.  Threads: as graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.tensor import Tensor
from headrace.ops.array.broadcast import (
    broadcast_dynamic_shape,
    broadcast_static_shape,
    broadcast_to,
)
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.array.shapes import squeeze
from headrace.ops.flow.checks import assert_equal, assert_none_equal
from headrace.ops.math.casting import imag
from headrace.ops.math.magnitudes import abs as modulus

__all__: list[str] = []

FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def check_kind(x: Tensor, name: str) -> None:
    """Raises TypeError unless x is of floats or complex numbers."""
    if x.dtype.base_dtype not in FLOATS:
        listed = ", ".join(f"tf.{each.name}" for each in FLOATS)
        raise TypeError(f"Argument `{name}` must have dtype in [{listed}]. Received: {x.dtype!r}.")


def check_rank(x: Tensor, least: int, name: str) -> None:
    """Raises ValueError if x is known to have fewer dimensions."""
    if x.shape.ndims is not None and x.shape.ndims < least:
        raise ValueError(
            f"Argument {name} must have at least {least} dimension{'s'[: least - 1]}.  Found: {x}"
        )


def without_last(x: Any) -> Any:
    """x [..., 1] without its last dimension."""
    return squeeze(x, axis=-1)


def batch_solution(function: Callable[[Any, Any], Any], matrix: Any, rhs: Any) -> Any:
    """function(matrix, rhs), for one whose batches must be the same: the two are broadcast before."""
    return function(*with_same_batches(matrix, rhs))


def with_same_batches(*matrices: Any) -> Sequence[Any]:
    """Matrices [..., m, n], each stretched to the batch shape that theirs have together."""
    known = [each.shape[:-2] for each in matrices]
    if all(each.is_fully_defined() for each in known):
        if len({tuple(each.as_list()) for each in known}) == 1:
            return matrices
        static = known[0]
        for each in known[1:]:
            static = broadcast_static_shape(static, each)
        batch: Any = static.as_list()
    else:
        batch = sizes_of(matrices[0])[:-2]
        for each in matrices[1:]:
            batch = broadcast_dynamic_shape(batch, sizes_of(each)[:-2])
    return [broadcast_to(each, concat([batch, sizes_of(each)[-2:]], 0)) for each in matrices]


def joint_batch(shapes: Sequence[TensorShape]) -> TensorShape:
    """The batch shape that operators have together."""
    found = shapes[0]
    for each in shapes[1:]:
        found = broadcast_static_shape(found, each)
    return found


def joint_batch_sizes(operators: Sequence[Any]) -> Any:
    """The same, [b] int32."""
    found = operators[0].batch_shape_tensor()
    for each in operators[1:]:
        found = broadcast_dynamic_shape(found, each.batch_shape_tensor())
    return found


def assert_no_zeros(x: Any, message: str) -> Any:
    """An operation that fails where an element is 0."""
    size = modulus(x)
    return assert_none_equal(size, 0.0 * size, message=message)


def assert_zero_imaginary(x: Any, message: str) -> Any:
    """An operation that fails where an imaginary part is not 0."""
    part = imag(x)
    return assert_equal(part, 0.0 * part, message=message)
