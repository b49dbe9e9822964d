"""assign, assign_add, scatter_update, …: changing variables, as functions.

`ref` is a `tf.Variable` or a reference tensor (`x._ref()`, another assignment's result).  Each
returns the reference after the change (of a resource variable, the variable as it is then), so that changes can be
chained, or fetched for the value.
Called by: variables.Variable's methods, programs.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import OpSpec
from headrace.ops.array.constants import ones_like
from headrace.ops.array.joining import concat
from headrace.ops.array.ranges import range_op
from headrace.ops.array.shapes import expand_dims, reshape, shape
from headrace.ops.math.casting import cast
from headrace.ops.state import references as state
from headrace.ops.state.references import is_resource_variable

__all__ = [
    "assign",
    "assign_add",
    "assign_sub",
    "batch_scatter_update",
    "count_up_to",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
]


def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """ref = value.  The shapes must agree unless validate_shape is False."""
    if is_resource_variable(ref):
        return ref.assign(value, name=name)
    attrs: dict[str, Any] = {}
    if validate_shape is not None:
        attrs["validate_shape"] = validate_shape
    return _call(state.assign_op, (ref, value), use_locking, name, attrs)


def assign_add(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """ref += value, of the variable's shape."""
    if is_resource_variable(ref):
        return ref.assign_add(value)  # without the name, as in TensorFlow
    return _call(state.assign_add_op, (ref, value), use_locking, name)


def assign_sub(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """ref -= value, of the variable's shape."""
    if is_resource_variable(ref):
        return ref.assign_sub(value)
    return _call(state.assign_sub_op, (ref, value), use_locking, name)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Any:
    """The scalar's value, which is then raised by one.  A step raises OutOfRange at `limit`."""
    if is_resource_variable(ref):
        return ref.count_up_to(limit)
    return state.count_up_to_op(ref, limit=limit, name=name)


def _call(
    spec: OpSpec,
    inputs: tuple[Any, ...],
    use_locking: bool | None,
    name: str | None,
    attrs: dict[str, Any] | None = None,
) -> Any:
    ref = inputs[0]
    if is_resource_variable(ref):
        return ref._scattered(spec.name, *inputs[1:], name)
    attrs = attrs or {}
    if use_locking is not None:
        attrs["use_locking"] = use_locking
    return spec(*inputs, name=name, **attrs)


def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """ref[indices] = updates; updates: indices.shape + ref.shape[1:], or a scalar."""
    return _call(state.scatter_update_op, (ref, indices, updates), use_locking, name)


def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref[indices] += updates; duplicates add up."""
    return _call(state.scatter_add_op, (ref, indices, updates), use_locking, name)


def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref[indices] -= updates; duplicates add up."""
    return _call(state.scatter_sub_op, (ref, indices, updates), use_locking, name)


def scatter_mul(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref[indices] *= updates; duplicates multiply up."""
    return _call(state.scatter_mul_op, (ref, indices, updates), use_locking, name)


def scatter_div(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref[indices] /= updates, one after the other where indices repeat."""
    return _call(state.scatter_div_op, (ref, indices, updates), use_locking, name)


def scatter_min(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref[indices] = min(ref[indices], updates)."""
    return _call(state.scatter_min_op, (ref, indices, updates), use_locking, name)


def scatter_max(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref[indices] = max(ref[indices], updates)."""
    return _call(state.scatter_max_op, (ref, indices, updates), use_locking, name)


def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """ref at coordinates indices[..., :] = updates."""
    return _call(state.scatter_nd_update_op, (ref, indices, updates), use_locking, name)


def scatter_nd_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref at coordinates indices[..., :] += updates."""
    return _call(state.scatter_nd_add_op, (ref, indices, updates), use_locking, name)


def scatter_nd_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref at coordinates indices[..., :] -= updates."""
    return _call(state.scatter_nd_sub_op, (ref, indices, updates), use_locking, name)


def scatter_nd_min(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref at coordinates indices[..., :] = min(ref there, updates)."""
    return _call(state.scatter_nd_min_op, (ref, indices, updates), use_locking, name)


def scatter_nd_max(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """ref at coordinates indices[..., :] = max(ref there, updates)."""
    return _call(state.scatter_nd_max_op, (ref, indices, updates), use_locking, name)


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """ref[b, indices[b]] = updates[b] for every position b of the leading dimensions.

    indices [B.., n], updates [B.., n, ...], ref [B.., m, ...].  Raises ValueError if the rank of indices is unknown.
    """
    with name_scope(name):
        positions = convert(indices, name="indices")
        sizes = shape(positions)
        rank = positions.shape.ndims
        if rank is None:
            raise ValueError(f"batch_scatter_update needs to know the rank of {positions.name}")
        last = expand_dims(positions, axis=-1)
        axes = []
        for axis in range(rank - 1):
            size = sizes[axis]
            count: list[Any] = [1] * (rank + 1)
            count[axis] = size
            numbers = cast(reshape(range_op(0, size, 1), count), last.dtype.base_dtype)
            axes.append(numbers * ones_like(last))
        where = concat([*axes, last], axis=-1)
        return scatter_nd_update(ref, where, updates, use_locking=use_locking)
