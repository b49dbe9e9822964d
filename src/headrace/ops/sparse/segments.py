"""Sparse segments: reductions of chosen rows of a table, as embedding lookups need them.

Called by: embeddings, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/segment_reduction_ops.cc).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_scalar
from headrace.ops._kernels.sparse_keys import is_counting
from headrace.ops.array.shapes import shape
from headrace.ops.math.segments import checked_ids, means, reduced

__all__ = ["sparse_segment_mean", "sparse_segment_sqrt_n", "sparse_segment_sum"]

_FLOATS = "{bfloat16, half, float, double}"
_INDICES = "Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32"

Reduce = Callable[[Any, Any, Any, int], Any]
"""Of data, at indices, by ids, a number of segments."""


def _check_rows(indices: Any, count: int) -> None:
    bad = (indices < 0) | (indices >= count)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise errors.invalid_argument(
            f"Bad: indices[{at}] == {int(indices[at])} out of range [0, {count})"
        )


def _rows(data: Any, indices: Any) -> Any:
    _check_rows(indices, len(data))
    return data.take(indices, axis=0)


def _checked(data: Any, indices: Any, ids: Any) -> int:
    if np.ndim(data) < 1 or np.ndim(indices) != 1:
        raise errors.invalid_argument(
            f"indices must be a vector and data of rank 1 or more, but their shapes are {list(np.shape(indices))} and "
            f"{list(np.shape(data))}"
        )
    return checked_ids(indices, ids, "and indices should have same size")


def _one_each(data: Any, indices: Any, ids: Any) -> bool:
    """Whether each segment is one row, which then is its sum and its mean."""
    if data.ndim < 1 or indices.ndim != 1 or ids.shape != indices.shape:
        return False
    return is_counting(ids, len(ids))


def _shape(c: ShapeContext) -> Shape:
    data, count = c.with_rank_at_least("data", 1), None
    shape_rules.merge(c.with_rank("indices", 1), c.with_rank("segment_ids", 1))
    if len(c.op.inputs) == 4:
        c.with_rank("num_segments", 0)
        known = c.value("num_segments")
        count = None if known is None else int(known)
    return None if data is None else (count, *data[1:])


def _sums(data: Any, indices: Any, ids: Any, count: int) -> Any:
    return reduced(np.add, data, ids, count, 0, indices)


def _means(data: Any, indices: Any, ids: Any, count: int) -> Any:
    return means(data, ids, count, indices=indices)


def _root_means(data: Any, indices: Any, ids: Any, count: int) -> Any:
    return means(data, ids, count, 0.5, indices)


def _family(name: str, types: str, reduce: Reduce, what: str) -> tuple[OpSpec, OpSpec]:
    def kernel(xp: Any, data: Any, indices: Any, segment_ids: Any) -> Any:
        if _one_each(data, indices, segment_ids):
            return _rows(data, indices)
        count = _checked(data, indices, segment_ids)
        _check_rows(indices, len(data))
        return reduce(data, indices, segment_ids, count)

    def kernel_with_count(
        xp: Any, data: Any, indices: Any, segment_ids: Any, num_segments: Any
    ) -> Any:
        count, wanted = (
            _checked(data, indices, segment_ids),
            checked_scalar(num_segments, "num_segments"),
        )
        if wanted < 0:
            raise errors.invalid_argument(f"num_segments must be >= 0, not {wanted}")
        if count > wanted:
            raise errors.invalid_argument(
                f"segment ids must be < num_segments, {wanted}, but one is {count - 1}"
            )
        _check_rows(indices, len(data))
        return reduce(data, indices, segment_ids, wanted)

    kernel.__doc__ = f"""The {what} of the rows of data at the indices whose segment id is i, as row i.

    data [m, ...]; indices [n]; segment_ids [n], not falling.  out [last id + 1, ...].
    Raises InvalidArgument on an index out of range or ids that fall.
    """
    kernel_with_count.__doc__ = (
        f"{name} with the number of rows of the output as an input.  Raises as {name}."
    )
    plain = op(
        name,
        inputs="data: T; indices: Tidx; segment_ids: Tsegmentids",
        outputs="output: T",
        attrs=f"T: {types}; {_INDICES}; sparse_gradient: bool = false",
        shape=_shape,
    )(kernel)
    counted = op(
        f"{name}WithNumSegments",
        inputs="data: T; indices: Tidx; segment_ids: Tsegmentids; num_segments: Tnumsegments",
        outputs="output: T",
        attrs=f"T: {types}; Tidx: {{int32, int64}} = int32; Tnumsegments: {{int32, int64}} = int32; "
        "Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false",
        shape=_shape,
    )(kernel_with_count)
    return plain, counted


def _grad_shape(c: ShapeContext) -> Shape:
    whole, rows = c.with_rank_at_least("grad", 1), c.value("output_dim0")
    shape_rules.merge(c.with_rank("indices", 1), c.with_rank("segment_ids", 1))
    c.with_rank("output_dim0", 0)
    return None if whole is None else (None if rows is None else int(rows), *whole[1:])


def sums_by_number(parts: Any, numbers: Any, count: int) -> Any:
    """out[i] = the sum of the rows of parts whose number is i, [count, ...]."""
    if parts.size > _FEW_ADDED or parts.dtype.char not in "fd":
        return reduced(np.add, parts, numbers, count, 0)
    out = np.zeros((count, *parts.shape[1:]), parts.dtype)
    if not out.size or not len(numbers):
        return out
    width = out.size // count
    places = numbers.astype(np.intp, copy=False)
    out[places] = -0.0  # to which anything is added as it is
    if width > 1:
        places = (places[:, np.newaxis] * width + np.arange(width)).reshape(-1)
    np.add.at(out.reshape(-1), places, parts.reshape(-1))
    return out


_FEW_ADDED: Final = 1 << 12  # elements that are added one by one


def _gradient_op(name: str, power: float, what: str) -> OpSpec:
    def kernel(xp: Any, grad: Any, indices: Any, segment_ids: Any, output_dim0: Any) -> Any:
        count = _checked(grad, indices, segment_ids)
        if count > len(grad):
            raise errors.invalid_argument(
                f"segment id {count - 1} is out of range [0, {len(grad)})"
            )
        rows = checked_scalar(output_dim0, "output_dim0")
        if rows < 0:
            raise errors.invalid_argument(f"output_dim0 must be >= 0, not {rows}")
        _check_rows(indices, rows)
        once = count == len(segment_ids) and is_counting(segment_ids, count)
        parts = grad[:count] if once else grad.take(segment_ids, axis=0)
        if power and not once:
            numbers = np.bincount(segment_ids, minlength=count)[segment_ids] ** power
            parts = parts / numbers.reshape(-1, *[1] * (parts.ndim - 1)).astype(parts.dtype)
        return sums_by_number(parts.astype(grad.dtype, copy=False), indices, rows)

    kernel.__doc__ = f"""The gradient of {what} with respect to data.

    grad: the output's shape; output_dim0 []: data's rows.  out [output_dim0, ...].
    Raises InvalidArgument on an index or id out of range.
    """
    return op(
        name,
        inputs="grad: T; indices: Tidx; segment_ids: Tsegmentids; output_dim0: int32",
        outputs="output: T",
        attrs=f"T: {_FLOATS}; {_INDICES}",
        shape=_grad_shape,
    )(kernel)


_SUM, _SUM_COUNTED = _family("SparseSegmentSum", "realnumbertype", _sums, "sum")
_MEAN, _MEAN_COUNTED = _family("SparseSegmentMean", _FLOATS, _means, "mean")
_SQRT_N, _SQRT_N_COUNTED = _family(
    "SparseSegmentSqrtN", _FLOATS, _root_means, "sum, over the square root of the number,"
)
_GRADIENTS = {
    name: _gradient_op(f"{name}Grad", power, name)
    for name, power in (
        ("SparseSegmentSum", 0.0),
        ("SparseSegmentMean", 1.0),
        ("SparseSegmentSqrtN", 0.5),
    )
}


def _gradient(op: Operation, dout: Tensor) -> tuple[Tensor | None, ...]:
    data, indices, ids = op.inputs[:3]
    spec = _GRADIENTS[op.type.removesuffix("WithNumSegments")]
    made: Tensor = spec(dout, indices, ids, shape(data)[0])
    return (made, *[None] * (len(op.inputs) - 1))


for _spec in (_SUM, _SUM_COUNTED, _MEAN, _MEAN_COUNTED, _SQRT_N, _SQRT_N_COUNTED):
    _spec.gradient(_gradient)


def _call(
    plain: OpSpec, counted: OpSpec, data: Any, indices: Any, ids: Any, name: str | None, count: Any
) -> Tensor:
    made: Tensor
    if count is None:
        made = plain(data, indices, ids, name=name)
    else:
        made = counted(data, indices, ids, count, name=name)
    return made


def sparse_segment_sum(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """The sum of the rows of `data` at the `indices` whose segment id is i, as row i."""
    return _call(_SUM, _SUM_COUNTED, data, indices, segment_ids, name, num_segments)


def sparse_segment_mean(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """The mean of the rows of `data` at the `indices` whose segment id is i, as row i."""
    return _call(_MEAN, _MEAN_COUNTED, data, indices, segment_ids, name, num_segments)


def sparse_segment_sqrt_n(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """The sum of the rows of `data` at the `indices` whose id is i, over the square root of their number."""
    return _call(_SQRT_N, _SQRT_N_COUNTED, data, indices, segment_ids, name, num_segments)
