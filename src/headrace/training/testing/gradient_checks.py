"""Jacobians by backpropagation and by differences, for tests of gradients.

Called by: programs.  Threads: as sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.gradients import gradients
from headrace.graph.graph import Graph
from headrace.graph.scopes import get_default_session
from headrace.ops.array.constants import constant

__all__ = ["compute_gradient", "compute_gradient_error"]

_Array = np.ndarray[Any, Any]


def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:
    """The Jacobian of y with respect to x, by backpropagation and by central differences, in the default session.

    x, y: tensors of floats or complex numbers of these shapes; for a list of x, x_shape and x_init_value are lists too.
    x_init_value: where; random numbers if None.  delta: how far an element is moved, to both sides.  init_targets:
    operations that are run before.  extra_feed_dict: fed in every step.
    Returns a pair of arrays (elements of x, elements of y), a list of pairs for a list; a complex element is two rows,
    or columns: its real part and its imaginary part.
    Raises ValueError (no default session), TypeError (y is of integers), AssertionError (x is, or has another shape, or
    y does not depend on it), what the steps do.
    """
    if isinstance(x, list):
        starts = x_init_value if isinstance(x_init_value, list) else [x_init_value] * len(x)
        several = list(zip(x, x_shape, starts, strict=True))
    else:
        several = [(x, x_shape, x_init_value)]
    _check_has_gradients("y", y, TypeError)
    _initialize(init_targets)
    fed = dict(extra_feed_dict or {})
    starting = [_start(each, shape, value) for each, shape, value in several]
    for (each, *_), value in zip(several, starting, strict=True):
        fed[each] = value
    found = [
        (
            _by_backpropagation(each, y, y_shape, value, fed),
            _by_differences(each, y, y_shape, value, delta, fed),
        )
        for (each, *_), value in zip(several, starting, strict=True)
    ]
    return found if isinstance(x, list) else found[0]


def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> float:
    """The greatest difference between the two Jacobians of `compute_gradient`; 0 if x or y has no elements."""
    found = compute_gradient(
        x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict
    )
    pairs: Sequence[tuple[_Array, _Array]] = found if isinstance(found, list) else [found]
    return max((float(np.abs(a - b).max()) if a.size else 0.0 for a, b in pairs), default=0.0)


def _session() -> Any:
    session = get_default_session()
    if session is None:
        raise ValueError(
            "There is no default session: compute gradients inside `with tf.Session():`, or `self.session()` in a test"
        )
    return session


def _initialize(targets: Any) -> None:
    if targets is not None:
        listed = targets if isinstance(targets, Iterable) else [targets]
        _session().run(list(listed))


def _start(x: Any, shape: Any, value: Any) -> _Array:
    """The point: what is given, or random numbers, of x's type."""
    dtype = x.dtype.base_dtype
    _check_has_gradients("x", x, AssertionError)
    sizes = [int(size) for size in shape]
    if value is None:
        value = np.random.random_sample(sizes)
        if dtype.is_complex:
            value = value + 1j * np.random.random_sample(sizes)
    found = np.array(value, dtype.as_numpy_dtype)
    if list(found.shape) != sizes:
        raise AssertionError(f"x_shape = {sizes}, init_data shape = {list(found.shape)}")
    return found


def _check_has_gradients(what: str, tensor: Any, error: type[Exception]) -> None:
    dtype = tensor.dtype.base_dtype
    if not (dtype.is_floating or dtype.is_complex):
        raise error(
            f"Don't support type {dtype.name} for {what}: {tensor.name} has to be of floats or complex numbers"
        )


def _parts(array: _Array) -> _Array:
    """The elements in a row, complex ones as two."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def _count(shape: Any, dtype: dtypes.DType) -> int:
    return int(np.prod([int(size) for size in shape], dtype=np.int64)) * (1 + dtype.is_complex)


def _by_backpropagation(
    x: Any, y: Any, y_shape: Any, value: _Array, fed: Mapping[Any, Any]
) -> _Array:
    """Column by column: what a one in each element of dy makes of dx."""
    dtype = y.dtype.base_dtype
    graph: Graph = y.graph
    with graph.as_default():
        seed = np.zeros([int(size) for size in y_shape], dtype.as_numpy_dtype)
        dy = constant(seed, dtype)
        (dx,) = gradients(y, x, grad_ys=dy)
    if dx is None:
        raise AssertionError(f"dx = None: {y.name} does not depend on {x.name}")
    session, rows = _session(), _count(value.shape, x.dtype.base_dtype)
    found = np.zeros((rows, _count(y_shape, dtype)), _parts(value).dtype)
    for column in range(found.shape[1]):
        parts = _parts(seed.copy())
        parts[column] = 1
        given = parts.view(seed.dtype).reshape(seed.shape)
        found[:, column] = _parts(_dense(session.run(dx, {**fed, dy: given}), value))
    return found


def _dense(gradient: Any, value: _Array) -> _Array:
    """The gradient as an array: rows of IndexedSlices are added up."""
    if not hasattr(gradient, "indices"):
        return np.asarray(gradient)
    found = np.zeros_like(value)
    np.add.at(found, gradient.indices, gradient.values)
    return found


def _by_differences(
    x: Any, y: Any, y_shape: Any, value: _Array, delta: float, fed: Mapping[Any, Any]
) -> _Array:
    """Row by row: the slope of y where one element of x is moved to both sides."""
    session, columns = _session(), _count(y_shape, y.dtype.base_dtype)
    moved = value.copy()
    parts = _parts(moved)  # of the same memory
    found = np.zeros((parts.size, columns), parts.dtype)
    for row in range(parts.size):
        here = parts[row]
        sides = []
        for step in (delta, -delta):
            parts[row] = here + np.asarray(step, parts.dtype)
            sides.append(_parts(np.asarray(session.run(y, {**fed, x: moved}))))
        parts[row] = here
        slope = (sides[0].astype(np.float64) - sides[1].astype(np.float64)) / (2 * delta)
        found[row] = slope.astype(parts.dtype)
    return found
