"""Arithmetic progressions: Range and LinSpace.

Called by: reductions, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/sequence_ops.cc, python/ops/math_ops.py.  TF 2.21 builds linspace from
forty nodes so that it takes tensors of any shape; 1.15's single LinSpace is what is made here.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.base.traits import OF_COUNTS, PER_RECORD
from headrace.graph.convert import convert, register_tensor_conversion_function
from headrace.graph.names import name_scope
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import rank
from headrace.ops.math.casting import cast
from headrace.ops.tables import FLOATS

__all__ = ["lin_space", "linspace", "range"]


def _count(start: float, limit: float, delta: float) -> int:
    """How many numbers there are from start to before limit.  Raises ValueError."""
    if delta == 0:
        raise ValueError(f"Requires delta != 0: {delta} never reaches the limit")
    if delta > 0 and start > limit:
        raise ValueError(
            f"Requires start <= limit when delta > 0: {start}/{limit}, and delta is {delta}"
        )
    if delta < 0 and start < limit:
        raise ValueError(
            f"Requires start >= limit when delta < 0: {start}/{limit}, and delta is {delta}"
        )
    if isinstance(start, int):
        return -int((start - limit) // delta)
    count = (limit - start) / delta
    if not math.isfinite(count):
        raise ValueError(f"there is no finite number of steps of {delta} from {start} to {limit}")
    return math.ceil(abs(count))


def _numbers(*values: Any) -> list[Any]:
    """Scalars (or single elements) as Python numbers.  Raises ValueError."""
    for value, name in zip(values, ("start", "limit", "delta"), strict=True):
        if np.size(value) != 1:
            raise ValueError(f"{name} must be a scalar, but has shape {list(np.shape(value))}")
    kind = int if values[0].dtype.kind in "iu" else float
    return [kind(value.reshape(())) for value in values]


def _range_shape(c: ShapeContext) -> Shape:
    for arg in ("start", "limit", "delta"):
        c.with_rank(arg, 0)
    values = [c.value(arg) for arg in ("start", "limit", "delta")]
    if any(value is None for value in values):
        return (None,)
    return (_count(*_numbers(*values)),)


@op(
    "Range",
    inputs="start: Tidx; limit: Tidx; delta: Tidx",
    outputs="output: Tidx",
    attrs=f"Tidx: {{{FLOATS}, int8, int16, int32, int64, uint16, uint32, uint64}} = int32",
    shape=_range_shape,
    traits={PER_RECORD, OF_COUNTS},
    differentiable=False,
)
def range_op(xp: Any, start: Any, limit: Any, delta: Any) -> Any:
    """start, start + delta, … before limit; all scalars.

    Raises InvalidArgument if delta is 0 or leads away from limit.
    Source: TF 1.15 core/kernels/sequence_ops.cc
    """
    kind = start.dtype
    try:
        numbers = _numbers(start, limit, delta)
        count = _count(*numbers)
    except ValueError as error:
        raise errors.invalid_argument(str(error)) from None
    first, _, step = numbers
    if kind.kind in "iu":
        room = np.iinfo(kind)
        if room.min <= first + count * step <= room.max:
            return np.arange(first, first + count * step, step, dtype=kind)
        return np.array([first], kind) + np.arange(count).astype(kind) * np.array(step, kind)
    return np.array(first, kind) + np.arange(count).astype(kind) * np.array(step, kind)


# The wider of two types is the one later in this list.
_RANGE_TYPES = (
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.bfloat16,
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
)


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range"
) -> Tensor:
    """start, start + delta, … before limit; with one argument 0, 1, … before it.

    Without `dtype` the widest of the arguments' types.  Raises ValueError if known arguments make
    no range.
    """
    if limit is None:
        start, limit = 0, start
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        ends = [
            value if isinstance(value, Tensor) else convert(value, wanted, label)
            for value, label in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        kind = _widest(ends) if wanted is None else wanted
        made: Tensor = range_op(*[cast(end, kind) for end in ends], name=scope)
        return made


def _convert_range(
    value: builtins.range,
    dtype: dtypes.DType | None = None,
    name: str | None = None,
    as_ref: bool = False,
) -> Tensor:
    return range(value.start, value.stop, value.step, dtype, name)  # type: ignore[arg-type]


register_tensor_conversion_function(builtins.range, _convert_range)


def _widest(ends: list[Tensor]) -> dtypes.DType:
    kinds = [end.dtype.base_dtype for end in ends]
    if all(kind is kinds[0] for kind in kinds):
        return kinds[0]
    for end in ends:
        if end.dtype.base_dtype not in _RANGE_TYPES:
            raise TypeError(
                f"range needs arguments of one type, or of {', '.join(k.name for k in _RANGE_TYPES)}; "
                f"{end.name} is {end.dtype.name}"
            )
    return max(kinds, key=_RANGE_TYPES.index)


def _linspace_shape(c: ShapeContext) -> Shape:
    for arg in ("start", "stop", "num"):
        c.with_rank(arg, 0)
    num = c.value("num")
    if num is None:
        return (None,)
    if int(num) <= 0:
        raise ValueError(f"num must be > 0, but is {int(num)}")
    return (int(num),)


@op(
    "LinSpace",
    inputs="start: T; stop: T; num: Tidx",
    outputs="output: T",
    attrs=f"T: {{{FLOATS}}}; Tidx: {{int32, int64}} = int32",
    shape=_linspace_shape,
    differentiable=False,
)
def linspace_op(xp: Any, start: Any, stop: Any, num: Any) -> Any:
    """`num` numbers from start to stop, both included, at equal distances; all scalars.

    Raises InvalidArgument if num < 1 or an argument is no scalar.
    Source: TF 1.15 core/kernels/sequence_ops.cc
    """
    if start.ndim or stop.ndim or num.ndim:
        raise errors.invalid_argument(
            f"start, stop and num must be scalars, but have shapes {list(start.shape)}, "
            f"{list(stop.shape)} and {list(num.shape)}"
        )
    if num <= 0:
        raise errors.invalid_argument(f"num must be > 0, but is {num}")
    points = np.linspace(float(start), float(stop), int(num))
    return points.astype(start.dtype)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """`num` numbers from start to stop, both included, at equal distances."""
    made: Tensor = linspace_op(start, stop, num, name=name)
    return made


lin_space = linspace


def all_axes(tensor: Tensor) -> Tensor:
    """0 .. rank-1 as a vector: a constant if the rank is known statically."""
    if tensor.raw_shape is not None:
        return constant(np.arange(len(tensor.raw_shape), dtype=np.int32), dtypes.int32)
    made: Tensor = get("Range")(0, rank(tensor), 1, name="range")
    return made
