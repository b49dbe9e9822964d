"""Training ops: one step of an optimizer on a reference variable and its slots, in place.

A dense update runs over blocks that stay in the cache, so that its temporaries are small and reused
from block to block; every variable it touches is locked for the whole of it.  A sparse update
changes the rows that `indices` names; a row named twice is updated twice, in order.
Called by: training's optimizers, programs that name these ops.
Threads: any step's thread; locks of several variables are taken in one global order.
Source: TF 1.15 core/ops/training_ops.cc and core/kernels/training_ops.cc, for the formulas
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape
from headrace.graph.registry import ShapeFn, op
from headrace.graph.shape_fns import ShapeContext
from headrace.run.variable import Variable

__all__: list[str] = []

Array = np.ndarray[Any, Any]

_T = (
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; "
)
_LOCKING = "use_locking: bool = false"
_BLOCK = (
    65536  # elements; measured: 16 to 64 thousand are best, a whole 1 MB array 1.4 times slower
)


# -- what the updates share -------------------------------------------------------------------


class _Locked:
    """Holds the locks of several variables; the same variable may come twice."""

    __slots__ = ("_held",)

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._held = sorted(set(variables), key=id)

    def __enter__(self) -> None:
        for variable in self._held:
            variable.lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for variable in self._held:
            variable.lock.release()


def _arrays(variables: Sequence[Variable], grad: Any) -> list[Array]:
    """The arrays of variables that must have the shape of `grad`; their locks are held."""
    found = []
    for variable in variables:
        array = variable.require()
        if array.shape != grad.shape:
            raise errors.invalid_argument(
                f"variable {variable.name} has shape {shapes.text(array.shape)}, and the gradient "
                f"{shapes.text(grad.shape)}; they must be equal"
            )
        found.append(array)
    return found


def _scalars(**values: Any) -> None:
    for name, value in values.items():
        if value.ndim:
            raise errors.invalid_argument(
                f"{name} must be a scalar, and has shape {shapes.text(value.shape)}"
            )


def _blocks(*arrays: Any) -> Iterator[list[Array]]:
    """Views of a block of each array, block by block; never of rank 0.  The last is only read."""
    *targets, source = arrays
    if source.ndim and (
        source.size <= _BLOCK or not all(target.flags.c_contiguous for target in targets)
    ):
        yield [*targets, source]
        return
    flat = [target.reshape(-1) for target in targets]
    flat.append(np.ascontiguousarray(source).reshape(-1))
    for start in range(0, source.size, _BLOCK):
        yield [array[start : start + _BLOCK] for array in flat]


def _checked_rows(var: Variable, slots: Sequence[Variable], grad: Any, indices: Any) -> list[Array]:
    """The arrays, once `indices` are known to be rows of them and `grad` to fit those rows."""
    arrays = [variable.require() for variable in (var, *slots)]
    shape = arrays[0].shape
    for slot, array in zip(slots, arrays[1:], strict=True):
        if array.shape != shape:
            raise errors.invalid_argument(
                f"variable {var.name} has shape {shapes.text(shape)}, and its slot {slot.name} "
                f"{shapes.text(array.shape)}; they must be equal"
            )
    if not shape or indices.ndim != 1:
        raise errors.invalid_argument(
            f"a sparse update needs a variable of rank 1 or more and a vector of indices, not "
            f"{shapes.text(shape)} and {shapes.text(indices.shape)}"
        )
    wanted = (indices.shape[0], *shape[1:])
    if grad.shape != wanted:
        raise errors.invalid_argument(
            f"{indices.shape[0]} indices into {var.name} of shape {shapes.text(shape)} need a "
            f"gradient of shape {shapes.text(wanted)}, not {shapes.text(grad.shape)}"
        )
    bad = np.flatnonzero((indices < 0) | (indices >= shape[0]))
    if bad.size:
        at = int(bad[0])
        raise errors.invalid_argument(
            f"index {int(indices[at])} at offset {at} in indices is out of range: "
            f"{var.name} has {shape[0]} rows"
        )
    return arrays


def _passes(indices: Array) -> Iterator[Any]:
    """Selections of `indices` without repetition in any of them, in order of occurrence."""
    if np.unique(indices).size == indices.size:
        yield slice(None)
    else:
        for at in range(indices.size):
            yield slice(at, at + 1)


def _update_shape(equal: Sequence[str], scalars: Sequence[str], rows: str = "") -> ShapeFn:
    """Shape function: inputs `equal` have one shape, which is the output's; `scalars` have none.

    With `rows`, that input has the same shape but for its first dimension.
    """

    def shape(c: ShapeContext) -> Shape:
        found: Shape = None
        for name in equal:
            found = shapes.merge(found, c.shape(name))
        for name in scalars:
            c.with_rank(name, 0)
        if rows:
            grad, (count,) = c.shape(rows), c.with_rank("indices", 1) or (None,)
            if found is not None and grad is not None:
                shapes.merge(grad, (count, *found[1:]))
        return found

    return shape


# -- gradient descent -------------------------------------------------------------------------


@op(
    "ApplyGradientDescent",
    inputs="var: Ref(T); alpha: T; delta: T",
    outputs="out: Ref(T)",
    attrs=_T + _LOCKING,
    shape=_update_shape(["var", "delta"], ["alpha"]),
)
def apply_gradient_descent(xp: Any, var: Variable, alpha: Any, delta: Any) -> Variable:
    """var -= alpha * delta."""
    _scalars(alpha=alpha)
    with var.lock:
        (array,) = _arrays([var], delta)
        scratch = None
        for target, step in _blocks(array, delta):
            scratch = np.multiply(step, alpha, out=_room(scratch, target))
            np.subtract(target, scratch, out=target)
    return var


def _room(scratch: Array | None, like: Array, which: int = 0) -> Array:
    """`scratch` cut to the size of `like`, or made on first use."""
    if scratch is None:
        return _thread_room(like, which)
    return scratch if scratch.shape == like.shape else scratch[: like.shape[0]]


class _Rooms(threading.local):
    """Scratch buffers by dtype and number, for each thread: fresh pages for every update cost as much as the update."""

    def __init__(self) -> None:
        self.kept: dict[tuple[np.dtype[Any], int], Array] = {}


_rooms = _Rooms()


def _thread_room(like: Array, which: int) -> Array:
    """An array of the shape and dtype of `like`, valid until this thread asks for `which` again."""
    if like.size > _BLOCK:
        return np.empty_like(like)
    room = _rooms.kept.get((like.dtype, which))
    if room is None:
        room = _rooms.kept[like.dtype, which] = np.empty(_BLOCK, like.dtype)
    return room[: like.size].reshape(like.shape)


# -- momentum ---------------------------------------------------------------------------------


def _momentum(
    var: Array, accum: Array, lr: Any, grad: Array, momentum: Any, use_nesterov: bool
) -> None:
    np.multiply(accum, momentum, out=accum)
    np.add(accum, grad, out=accum)
    if use_nesterov:
        step = np.multiply(accum, momentum)
        np.add(step, grad, out=step)
        np.multiply(step, lr, out=step)
    else:
        step = np.multiply(accum, lr)
    np.subtract(var, step, out=var)


@op(
    "ApplyMomentum",
    inputs="var: Ref(T); accum: Ref(T); lr: T; grad: T; momentum: T",
    outputs="out: Ref(T)",
    attrs=_T + _LOCKING + "; use_nesterov: bool = false",
    shape=_update_shape(["var", "accum", "grad"], ["lr", "momentum"]),
)
def apply_momentum(
    xp: Any,
    var: Variable,
    accum: Variable,
    lr: Any,
    grad: Any,
    momentum: Any,
    *,
    use_nesterov: bool,
) -> Variable:
    """accum = momentum * accum + grad; var -= lr * accum (Nesterov: looking one step ahead)."""
    _scalars(lr=lr, momentum=momentum)
    with _Locked((var, accum)):
        for v, a, g in _blocks(*_arrays([var, accum], grad), grad):
            _momentum(v, a, lr, g, momentum, use_nesterov)
    return var


@op(
    "SparseApplyMomentum",
    inputs="var: Ref(T); accum: Ref(T); lr: T; grad: T; indices: Tindices; momentum: T",
    outputs="out: Ref(T)",
    attrs=_T + "Tindices: {int32, int64}; " + _LOCKING + "; use_nesterov: bool = false",
    shape=_update_shape(["var", "accum"], ["lr", "momentum"], rows="grad"),
)
def sparse_apply_momentum(
    xp: Any,
    var: Variable,
    accum: Variable,
    lr: Any,
    grad: Any,
    indices: Any,
    momentum: Any,
    *,
    use_nesterov: bool,
) -> Variable:
    """ApplyMomentum on the rows that `indices` names; other rows do not move."""
    _scalars(lr=lr, momentum=momentum)
    with _Locked((var, accum)):
        values, slots = _checked_rows(var, [accum], grad, indices)
        for part in _passes(indices):
            rows = indices[part]
            v, a = values[rows], slots[rows]
            _momentum(v, a, lr, grad[part], momentum, use_nesterov)
            values[rows], slots[rows] = v, a
    return var


# -- Adagrad ----------------------------------------------------------------------------------


def _adagrad(
    var: Array, accum: Array, lr: Any, grad: Array, update_slots: bool, epsilon: Any = None
) -> None:
    if update_slots:
        np.add(accum, np.multiply(grad, grad), out=accum)
    root = np.sqrt(accum)
    if epsilon is not None:
        np.add(root, epsilon, out=root)
    step = np.multiply(grad, lr)
    np.divide(step, root, out=step)
    np.subtract(var, step, out=var)


_SLOTS = "; update_slots: bool = true"


@op(
    "ApplyAdagrad",
    inputs="var: Ref(T); accum: Ref(T); lr: T; grad: T",
    outputs="out: Ref(T)",
    attrs=_T + _LOCKING + _SLOTS,
    shape=_update_shape(["var", "accum", "grad"], ["lr"]),
)
def apply_adagrad(
    xp: Any, var: Variable, accum: Variable, lr: Any, grad: Any, *, update_slots: bool
) -> Variable:
    """accum += grad^2; var -= lr * grad / sqrt(accum)."""
    _scalars(lr=lr)
    with _Locked((var, accum)):
        for v, a, g in _blocks(*_arrays([var, accum], grad), grad):
            _adagrad(v, a, lr, g, update_slots)
    return var


@op(
    "ApplyAdagradV2",
    inputs="var: Ref(T); accum: Ref(T); lr: T; epsilon: T; grad: T",
    outputs="out: Ref(T)",
    attrs=_T + _LOCKING + _SLOTS,
    shape=_update_shape(["var", "accum", "grad"], ["lr", "epsilon"]),
)
def apply_adagrad_v2(
    xp: Any,
    var: Variable,
    accum: Variable,
    lr: Any,
    epsilon: Any,
    grad: Any,
    *,
    update_slots: bool,
) -> Variable:
    """accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)."""
    _scalars(lr=lr, epsilon=epsilon)
    with _Locked((var, accum)):
        for v, a, g in _blocks(*_arrays([var, accum], grad), grad):
            _adagrad(v, a, lr, g, update_slots, epsilon)
    return var


def _sparse_adagrad(
    var: Variable,
    accum: Variable,
    lr: Any,
    grad: Any,
    indices: Any,
    update_slots: bool,
    epsilon: Any = None,
) -> Variable:
    with _Locked((var, accum)):
        values, slots = _checked_rows(var, [accum], grad, indices)
        for part in _passes(indices):
            rows = indices[part]
            v, a = values[rows], slots[rows]
            _adagrad(v, a, lr, grad[part], update_slots, epsilon)
            values[rows], slots[rows] = v, a
    return var


@op(
    "SparseApplyAdagrad",
    inputs="var: Ref(T); accum: Ref(T); lr: T; grad: T; indices: Tindices",
    outputs="out: Ref(T)",
    attrs=_T + "Tindices: {int32, int64}; " + _LOCKING + _SLOTS,
    shape=_update_shape(["var", "accum"], ["lr"], rows="grad"),
)
def sparse_apply_adagrad(
    xp: Any, var: Variable, accum: Variable, lr: Any, grad: Any, indices: Any, *, update_slots: bool
) -> Variable:
    """ApplyAdagrad on the rows that `indices` names."""
    _scalars(lr=lr)
    return _sparse_adagrad(var, accum, lr, grad, indices, update_slots)


@op(
    "SparseApplyAdagradV2",
    inputs="var: Ref(T); accum: Ref(T); lr: T; epsilon: T; grad: T; indices: Tindices",
    outputs="out: Ref(T)",
    attrs=_T + "Tindices: {int32, int64}; " + _LOCKING + _SLOTS,
    shape=_update_shape(["var", "accum"], ["lr", "epsilon"], rows="grad"),
)
def sparse_apply_adagrad_v2(
    xp: Any,
    var: Variable,
    accum: Variable,
    lr: Any,
    epsilon: Any,
    grad: Any,
    indices: Any,
    *,
    update_slots: bool,
) -> Variable:
    """ApplyAdagradV2 on the rows that `indices` names."""
    _scalars(lr=lr, epsilon=epsilon)
    return _sparse_adagrad(var, accum, lr, grad, indices, update_slots, epsilon)


# -- Adam -------------------------------------------------------------------------------------


@op(
    "ApplyAdam",
    inputs="var: Ref(T); m: Ref(T); v: Ref(T); beta1_power: T; beta2_power: T; lr: T; beta1: T; "
    "beta2: T; epsilon: T; grad: T",
    outputs="out: Ref(T)",
    attrs=_T + _LOCKING + "; use_nesterov: bool = false",
    shape=_update_shape(
        ["var", "m", "v", "grad"],
        ["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"],
    ),
)
def apply_adam(
    xp: Any,
    var: Variable,
    m: Variable,
    v: Variable,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    *,
    use_nesterov: bool,
) -> Variable:
    """One step of Adam.

    rate = lr * sqrt(1 - beta2_power) / (1 - beta1_power); m and v move towards grad and grad^2 by
    1 - beta1 and 1 - beta2; var -= rate * m / (sqrt(v) + epsilon).
    """
    _scalars(
        beta1_power=beta1_power, beta2_power=beta2_power, lr=lr, beta1=beta1, beta2=beta2,
        epsilon=epsilon,
    )  # fmt: skip
    one = var.dtype.np.type(1)
    rest1, rest2 = one - beta1, one - beta2
    rate = lr * np.sqrt(one - beta2_power) / (one - beta1_power)
    with _Locked((var, m, v)):
        scratch = root = None
        for var_, m_, v_, g in _blocks(*_arrays([var, m, v], grad), grad):
            scratch, root = _room(scratch, m_), _room(root, m_, which=1)
            np.subtract(g, m_, out=scratch)
            np.multiply(scratch, rest1, out=scratch)
            np.add(m_, scratch, out=m_)
            np.multiply(g, g, out=scratch)
            np.subtract(scratch, v_, out=scratch)
            np.multiply(scratch, rest2, out=scratch)
            np.add(v_, scratch, out=v_)
            np.sqrt(v_, out=root)
            np.add(root, epsilon, out=root)
            if use_nesterov:
                np.multiply(m_, beta1, out=scratch)
                np.add(scratch, g * rest1, out=scratch)
                np.multiply(scratch, rate, out=scratch)
            else:
                np.multiply(m_, rate, out=scratch)
            np.divide(scratch, root, out=scratch)
            np.subtract(var_, scratch, out=var_)
    return var
