"""assign, assign_add, scatter_update, …: changing variables, as functions.

`ref` is a `tf.Variable` or a reference tensor (`x._ref()`, another assignment's result).  Each
returns the reference after the change (of a resource variable, the variable as it is then), so that changes can be
chained, or fetched for the value.
Called by: variables.Variable's methods, programs.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.graph.registry import OpSpec
from headrace.ops import state
from headrace.ops.state import is_resource_variable

__all__ = [
    "assign",
    "assign_add",
    "assign_sub",
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
