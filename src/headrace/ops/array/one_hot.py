"""One-hot vectors of indices.

Called by: losses, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/one_hot_op.cc, python/ops/array_ops.py), GraphDefs as 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import PER_RECORD
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant

__all__ = ["one_hot"]

Array = np.ndarray[Any, Any]
_LARGE = 1 << 13
"""Elements from which it takes less time to put on_value where it belongs than to compare each place."""


def _one_hot_shape(c: ShapeContext) -> Shape:
    indices, depth, axis = c.shape("indices"), c.size_value("depth"), c.attr("axis")
    if axis < -1:
        raise ValueError(f"axis must be >= -1, not {axis}")
    if indices is None:
        return None
    at = len(indices) if axis == -1 else min(axis, len(indices))  # one too far: the step says so
    return (*indices[:at], depth, *indices[at:])


@op(
    "OneHot",
    inputs="indices: TI; depth: int32; on_value: T; off_value: T",
    outputs="output: T",
    attrs="axis: int = -1; T: type; TI: {uint8, int8, int32, int64} = int64",
    shape=_one_hot_shape,
    traits={PER_RECORD},
    differentiable=False,
)
def one_hot_op(
    xp: Any, indices: Any, depth: Any, on_value: Any, off_value: Any, *, axis: int
) -> Any:
    """on_value at each index along a new axis of size depth, off_value elsewhere.

    An index out of range has no on_value.  Raises InvalidArgument on a negative depth or an axis
    out of range.
    """
    count = np.ndim(indices)
    if not -1 <= axis <= count:
        raise errors.invalid_argument(
            f"Expected axis to be -1 or between [0, {count + 1}), and it is {axis}"
        )
    for value, what in ((depth, "depth"), (on_value, "on_value"), (off_value, "off_value")):
        if np.ndim(value):
            raise errors.invalid_argument(
                f"{what} must be a scalar, but got: {text(np.shape(value))}"
            )
    if depth < 0:
        raise errors.invalid_argument(f"depth must be non-negative, got: {int(depth)}")
    places = np.asarray(indices)
    if places.size * int(depth) >= _LARGE:
        out = _with_few_put(places, int(depth), on_value, off_value)
    else:
        out = _compared(places, int(depth), on_value, off_value)
    return out if axis in (-1, count) else np.moveaxis(out, -1, axis).copy()


def _compared(places: Array, depth: int, on_value: Any, off_value: Any) -> Any:
    hot = places[..., np.newaxis] == np.arange(depth)
    kind = on_value.dtype.kind
    if (
        kind in "fiub"
        and on_value == 1
        and off_value == 0
        and not (kind == "f" and np.signbit(off_value))
    ):
        return hot.astype(on_value.dtype)
    if kind in "fiub":
        return np.where(hot, on_value, off_value)
    out = np.empty(hot.shape, on_value.dtype)
    out[...] = off_value
    out[hot] = on_value
    return out


def _with_few_put(places: Array, depth: int, on_value: Any, off_value: Any) -> Any:
    """As `_compared`: only those that are on_value are looked at one by one."""
    flat = places.reshape(-1).astype(np.int64, copy=False)
    out = np.empty((len(flat), depth), on_value.dtype)
    out[...] = off_value
    inside = (flat >= 0) & (flat < depth)
    rows = np.arange(len(flat))
    if not inside.all():
        rows, flat = rows[inside], flat[inside]
    out[rows, flat] = on_value
    return out.reshape(*places.shape, depth)


def _unlike(kinds: Any, what: str, kind: Any, wanted: Any, given: bool) -> str:
    first = next(name for name, value in kinds.items() if value is not None)
    if given:
        return f"dtype {kind} of {what} does not match dtype parameter {wanted}; tf.cast converts"
    return f"dtype {wanted} of {first} does not match dtype {kind} of {what}; tf.cast converts"


@of_ragged_by("headrace.ops.array.ragged_shaping")
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """on_value (1) at each of `indices` along a new `axis` (the last) of size `depth`, off_value (0) elsewhere.

    Raises TypeError if the types of on_value, off_value and dtype differ.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    given = [value for value in (on_value, off_value) if isinstance(value, Tensor)]
    with name_scope(name, "one_hot", [indices, depth, *given]) as scope:
        if on_value is not None:
            on_value = convert(on_value, preferred_dtype=wanted)
        if off_value is not None:
            off_value = convert(off_value, preferred_dtype=wanted)
        kinds = {"on_value": on_value, "off_value": off_value}
        for what, value in kinds.items():
            if value is not None:
                kind = value.dtype.base_dtype
                if wanted is not None and kind is not wanted:
                    raise TypeError(_unlike(kinds, what, kind, wanted, dtype is not None))
                wanted = kind
        wanted = dtypes.float32 if wanted is None else wanted
        on_value = constant(1, wanted, name="on_value") if on_value is None else on_value
        off_value = constant(0, wanted, name="off_value") if off_value is None else off_value
        made: Tensor = one_hot_op(
            indices, depth, on_value, off_value, axis=-1 if axis is None else axis, name=scope
        )
        return made
