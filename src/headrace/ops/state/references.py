"""State ops on reference variables: make, assign, update in place, scatter, count.

A `Ref(T)` input is the `run.state.variable.Variable` itself; a kernel updates it under its lock and hands
it on.  Updates of one variable by several steps are therefore whole, whatever `use_locking` says.
Called by: library.variables.variables, optimizers, programs that name these ops.
Threads: kernels run in any step's thread; the variable's lock orders them.
Source: TF 1.15 core/ops/state_ops.cc, core/kernels/{variable_ops,assign_op,scatter_op,scatter_nd_op,
count_up_to_op}.cc; behaviour checked against the oracle
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from headrace.base import dtypes, errors, shapes
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import (
    ALLOWS_UNINITIALIZED,
    ASSIGNS,
    AT_ONCE,
    HANDLE,
    NEVER_FOLDED,
    STATEFUL,
    UPDATES,
    VARIABLE,
)
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, check_scattered, from_attr, scalar
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.places import all_below
from headrace.ops._kernels.row_changes import divide_at, in_place, put_at
from headrace.ops._kernels.scattering import rows_at
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.on_device import made_at
from headrace.run.state.variable import NUMBERS, PYTHON_NUMBERS, State, Variable
from headrace.run.uninterrupted import changes

__all__: list[str] = []

Array = np.ndarray[Any, Any]
Ref = TypeVar("Ref", bound=State)
_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "qint16, quint16, uint16, complex128, half, uint32, uint64}"
)
_REALS = "{half, bfloat16, float, double, int32, int64}"


def is_resource_variable(value: Any) -> bool:
    """Whether `value`, given for a variable, is one behind a handle."""
    handle = getattr(value, "handle", None)
    return isinstance(handle, Tensor) and handle.dtype is dtypes.resource


# -- making -----------------------------------------------------------------------------------


def _variable_kernel(
    ctx: KernelContext,
    *,
    shape: TensorShape,
    dtype: dtypes.DType,
    container: bytes,
    shared_name: bytes,
) -> Variable:
    found = ctx.resource(
        Variable,
        lambda: made_at(Variable, ctx.node.device, ctx.node.name, dtype, shape._raw),
        container,
        shared_name,
    )
    if found.dtype != dtype:
        raise errors.invalid_argument(
            f"variable {found.name} in container {found.container!r} holds {found.dtype.name}, "
            f"and this node wants {dtype.name}; give one of them another name or container"
        )
    return found


def _legacy_shape(c: ShapeContext) -> Shape:
    raw: Shape = c.attr("shape")._raw
    return raw or None  # the old op writes "unknown" as a scalar


_VARIABLE: dict[str, Any] = {
    "outputs": "ref: Ref(dtype)",
    "attrs": "shape: shape; dtype: type; container: string = ''; shared_name: string = ''",
    "traits": {VARIABLE, AT_ONCE, STATEFUL, HANDLE},
    "differentiable": False,
}
variable_v2 = op("VariableV2", shape=from_attr("shape"), **_VARIABLE)(_variable_kernel)


@op("Variable", shape=_legacy_shape, **_VARIABLE)
def variable_v1(
    ctx: KernelContext,
    *,
    shape: TensorShape,
    dtype: dtypes.DType,
    container: bytes,
    shared_name: bytes,
) -> Variable:
    """The old spelling of VariableV2, where a scalar shape means an unknown one."""
    known = shape if shape._raw else TensorShape(None)
    return _variable_kernel(
        ctx, shape=known, dtype=dtype, container=container, shared_name=shared_name
    )


@op(
    "IsVariableInitialized",
    inputs="ref: Ref(dtype)",
    outputs="is_initialized: bool",
    attrs="dtype: type",
    shape=scalar,
    traits={ALLOWS_UNINITIALIZED, NEVER_FOLDED},
    differentiable=False,
)
def is_variable_initialized_op(xp: Any, ref: Variable) -> np.bool_:
    """Whether the variable has been assigned."""
    return np.bool_(ref.held() is not None)


# -- assigning --------------------------------------------------------------------------------


def _assign_shape(c: ShapeContext) -> Shape:
    value = c.shape("value")
    return shapes.merge(c.shape("ref"), value) if c.attr("validate_shape") else value


@op(
    "Assign",
    inputs="ref: Ref(T); value: T",
    outputs="output_ref: Ref(T)",
    attrs="T: type; validate_shape: bool = true; use_locking: bool = true",
    shape=_assign_shape,
    traits={ASSIGNS, UPDATES, ALLOWS_UNINITIALIZED, NEVER_FOLDED},
    differentiable=False,
)
def assign_op(xp: Any, ref: Variable, value: Array, *, validate_shape: bool) -> Variable:
    """ref = value.  Raises InvalidArgument if the shapes differ and validate_shape is true."""
    ref.assign(value, validate_shape)
    return ref


@assign_op.unread
def _(xp: Any, ref: Variable, value: Any, *, validate_shape: bool) -> Variable:
    ref.assign_unread(value, validate_shape)
    return ref


def _merged_with_ref(c: ShapeContext) -> Shape:
    return shapes.merge(c.shape("ref"), c.shape("value"))


@changes
def update(
    ref: Ref, value: Any, ufunc: Callable[..., Any], what: str, of_scalars: Callable[..., Any]
) -> Ref:
    """ref = ufunc(ref, value), in place if nobody reads it; gives `ref`.  Raises InvalidArgument, FailedPrecondition.

    value: of a scalar whose `number` is there it may be a Python number.
    of_scalars: the same of two Python numbers; a ufunc takes several times as long.
    """
    with ref.lock:
        if value.__class__ is float or value.__class__ is int:
            _update_number(ref, value, ufunc, what, of_scalars)
            return ref
        array = ref.require()
        if array.shape != value.shape:
            raise ref.unlike_update(what, array.shape, value.shape)
        if not array.ndim and array.dtype.kind in NUMBERS:
            _update_number(ref, value.item(), ufunc, what, of_scalars)
        else:
            ref.rewrite(partial(_of_two, ufunc, value))
    return ref


def _of_two(ufunc: Callable[..., Any], value: Any, before: Array, after: Array) -> None:
    ufunc(before, value, out=after)


def _update_number(
    ref: Ref, value: Any, ufunc: Callable[..., Any], what: str, of_scalars: Callable[..., Any]
) -> None:
    """As `update`, of a scalar by a Python number; the variable's lock is held."""
    number = ref.as_number()
    if number is not None:
        try:
            # Of float32 too: the exact sum, rounded to 53 bits and then to 24, is the exact sum rounded to 24.
            number[()] = of_scalars(number[()], value)
            ref.updates += 1
            return
        except ValueError:  # an integer that is too large
            pass
    array = ref.writable()
    if array.ndim:
        raise ref.unlike_update(what, array.shape, ())
    ufunc(array, array.dtype.type(value), out=array)


@changes
def by_constant(
    operand: Any, ufunc: Callable[..., Any], what: str, of_scalars: Callable[..., Any]
) -> Callable[[Ref, Any], Ref] | None:
    """As `update` by a number that is the same in every step, for a kernel; None: `operand` is none, or not known.

    One function: for each that it would call, changing a number takes a fifth longer.
    """
    if operand is None or operand.ndim or operand.dtype.char not in PYTHON_NUMBERS:
        return None
    more = operand.item()

    def kernel(ref: Ref, value: Any) -> Ref:
        with ref.lock:
            number = ref.number
            if (
                number is not None
                and not ref._readers
                and ref.buffer is None
                and ref._lent() is None
            ):
                try:
                    number[()] = of_scalars(number[()], more)
                except ValueError:  # an integer that is too large
                    pass
                else:
                    ref.updates += 1
                    return ref
        return update(ref, value, ufunc, what, of_scalars)

    return kernel


_ADD_TO: dict[str, Any] = {
    "inputs": "ref: Ref(T); value: T",
    "outputs": "output_ref: Ref(T)",
    "attrs": f"T: {_NUMBERS}; use_locking: bool = false",
    "shape": _merged_with_ref,
    "traits": {ASSIGNS, UPDATES, NEVER_FOLDED},
    "differentiable": False,
}


@op("AssignAdd", **_ADD_TO)
def assign_add_op(xp: Any, ref: Variable, value: Array) -> Variable:
    """ref += value, shapes equal.  Raises FailedPrecondition, InvalidArgument."""
    return update(ref, value, np.add, "assign_add", operator.add)


assign_add_op.into(np.add)


@assign_add_op.knowing
def _(op: Operation, known: Sequence[Any]) -> Callable[..., Any] | None:
    return by_constant(known[1], np.add, "assign_add", operator.add)


@op("AssignSub", **_ADD_TO)
def assign_sub_op(xp: Any, ref: Variable, value: Array) -> Variable:
    """ref -= value, shapes equal.  Raises FailedPrecondition, InvalidArgument."""
    return update(ref, value, np.subtract, "assign_sub", operator.sub)


assign_sub_op.into(np.subtract)


@assign_sub_op.knowing
def _(op: Operation, known: Sequence[Any]) -> Callable[..., Any] | None:
    return by_constant(known[1], np.subtract, "assign_sub", operator.sub)


# -- scattering rows --------------------------------------------------------------------------


def _scatter_shape(c: ShapeContext) -> Shape:
    ref, indices, updates = c.shape("ref"), c.shape("indices"), c.shape("updates")
    if updates != () and ref is not None and indices is not None:
        if not ref:
            raise ValueError("a scalar variable has no rows to scatter into")
        shapes.merge(updates, indices + ref[1:])
    return ref


def _rows(ref: State, array: Array, indices: Array, updates: Array) -> None:
    """Check a scatter of `updates` into rows `indices` of `array`."""
    if array.ndim < 1:
        raise errors.invalid_argument(
            f"variable {ref.name} is a scalar and has no rows to scatter into"
        )
    wanted = indices.shape + array.shape[1:]
    if updates.ndim and updates.shape != wanted:
        raise errors.invalid_argument(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
            f"{shapes.text(updates.shape)}: they should have {shapes.text(wanted)}, or be a scalar"
        )
    if not all_below(indices, array.shape[0]):
        bad = (indices < 0) | (indices >= array.shape[0])
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise errors.invalid_argument(
            f"indices{list(at) if at else ''} = {indices[at]} is not in [0, {array.shape[0]}), "
            f"the rows of variable {ref.name}"
        )


@changes
def scatter(ref: Ref, indices: Array, updates: Array, apply: Callable[..., None]) -> Ref:
    """Apply `updates` to the rows at `indices`; gives `ref`.  Raises InvalidArgument, FailedPrecondition."""
    indices, updates = np.asarray(indices), np.asarray(updates)
    with ref.lock:
        array = ref.writable(sparse=True)
        _rows(ref, array, indices, updates)
        if indices.size:
            apply(array, indices, updates)
    return ref


# TensorFlow says of the others that no gradient passes; of these it says nothing, so asking fails.
_GRADIENT_UNASKED = frozenset({"ScatterUpdate", "ScatterMin", "ScatterMax"})


def _define_scatter(name: str, apply: Callable[..., None], attrs: str, says: str) -> Any:
    def kernel(xp: Any, ref: Variable, indices: Array, updates: Array) -> Variable:
        return scatter(ref, indices, updates, apply)

    kernel.__doc__ = (
        f"{says}; updates: indices.shape + ref.shape[1:] or a scalar; duplicates all count.\n\n"
        "    Raises InvalidArgument on a bad index or shape."
    )
    return op(
        name,
        inputs="ref: Ref(T); indices: Tindices; updates: T",
        outputs="output_ref: Ref(T)",
        attrs=attrs,
        shape=_scatter_shape,
        traits={UPDATES, NEVER_FOLDED},
        differentiable=name in _GRADIENT_UNASKED,
    )(kernel)


def _attrs(types: str, locking: str = "false") -> str:
    return f"T: {types}; Tindices: {{int32, int64}}; use_locking: bool = {locking}"


scatter_update_op = _define_scatter(
    "ScatterUpdate",
    put_at,
    _attrs("type", "true"),
    "ref[indices] = updates, the last duplicate wins",
)
scatter_add_op = _define_scatter(
    "ScatterAdd", in_place(np.add), _attrs(_NUMBERS), "ref[indices] += updates"
)
scatter_sub_op = _define_scatter(
    "ScatterSub", in_place(np.subtract), _attrs(_NUMBERS), "ref[indices] -= updates"
)
scatter_mul_op = _define_scatter(
    "ScatterMul", in_place(np.multiply), _attrs(_NUMBERS), "ref[indices] *= updates"
)
scatter_div_op = _define_scatter(
    "ScatterDiv", divide_at, _attrs(_NUMBERS), "ref[indices] /= updates"
)
scatter_min_op = _define_scatter(
    "ScatterMin", in_place(np.minimum), _attrs(_REALS), "ref[indices] = min(ref[indices], updates)"
)
scatter_max_op = _define_scatter(
    "ScatterMax", in_place(np.maximum), _attrs(_REALS), "ref[indices] = max(ref[indices], updates)"
)


# -- scattering slices at coordinates ---------------------------------------------------------


def _scatter_nd_shape(c: ShapeContext) -> Shape:
    ref, updates = c.shape("ref"), c.shape("updates")
    indices = c.with_rank_at_least("indices", 1)
    check_scattered(ref, indices, updates)
    return ref


@changes
def scatter_nd(ref: Ref, indices: Array, updates: Array, apply: Callable[..., None]) -> Ref:
    """Apply `updates` at coordinates indices[..., :]; gives `ref`.

    Raises InvalidArgument, FailedPrecondition.
    """
    indices, updates = np.asarray(indices), np.asarray(updates)
    with ref.lock:
        array = ref.writable(sparse=True)
        if indices.ndim == 1 and indices.size:
            indices = indices[:, None]  # each is a coordinate of its own
        coordinates = _coordinates(ref, array, indices, updates)
        if indices.ndim and indices.shape[-1] == 0:
            times = math.prod(indices.shape[:-1])
            for update in updates.reshape((times, *array.shape)):
                apply(array, (), update)
        elif updates.size:
            whole, where = (
                rows_at(array, coordinates) if array.flags.c_contiguous else (array, coordinates)
            )
            apply(whole, where, updates)
    return ref


def _depth(indices: Array) -> int:
    return indices.shape[-1] if indices.ndim else 0


def _coordinates(ref: State, array: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
    if not array.ndim or indices.ndim < 1 or indices.shape[-1] > array.ndim:
        raise errors.invalid_argument(
            f"Dimensions [{_depth(indices)},{array.ndim}) of input[shape={shapes.text(array.shape)}] must match "
            f"dimensions [{_depth(indices)},{updates.ndim}) of updates[shape={shapes.text(updates.shape)}]: indices of "
            f"shape {shapes.text(indices.shape)} do not address variable {ref.name}; their last dimension is the "
            "number of axes"
        )
    depth = indices.shape[-1]
    wanted = indices.shape[:-1] + array.shape[depth:]
    if updates.shape != wanted:
        raise errors.invalid_argument(
            f"updates must have shape indices.shape[:-1] + ref.shape[{depth}:] = "
            f"{shapes.text(wanted)}, not {shapes.text(updates.shape)}"
        )
    bad = np.any((indices < 0) | (indices >= np.array(array.shape[:depth], np.int64)), axis=-1)
    if np.any(bad):
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise errors.invalid_argument(
            f"indices{list(at) if at else ''} = {indices[at].tolist()} does not index into shape "
            f"{shapes.text(array.shape)}, that of variable {ref.name}"
        )
    return tuple(indices[..., axis] for axis in range(depth))


def _define_scatter_nd(name: str, apply: Callable[..., None], attrs: str, says: str) -> Any:
    def kernel(xp: Any, ref: Variable, indices: Array, updates: Array) -> Variable:
        return scatter_nd(ref, indices, updates, apply)

    kernel.__doc__ = (
        f"{says} at coordinates indices[..., :]; updates: indices.shape[:-1] + the rest.\n\n"
        "    Raises InvalidArgument on a bad index or shape."
    )
    return op(
        name,
        inputs="ref: Ref(T); indices: Tindices; updates: T",
        outputs="output_ref: Ref(T)",
        attrs=f"{attrs}; bad_indices_policy: string = ''",
        shape=_scatter_nd_shape,
        traits={NEVER_FOLDED},
        differentiable=False,
    )(kernel)


scatter_nd_update_op = _define_scatter_nd(
    "ScatterNdUpdate", put_at, _attrs("type", "true"), "Assign updates"
)
scatter_nd_add_op = _define_scatter_nd(
    "ScatterNdAdd", in_place(np.add), _attrs(_NUMBERS), "Add updates"
)
scatter_nd_sub_op = _define_scatter_nd(
    "ScatterNdSub", in_place(np.subtract), _attrs(_NUMBERS), "Subtract updates"
)
scatter_nd_min_op = _define_scatter_nd(
    "ScatterNdMin", in_place(np.minimum), _attrs(_NUMBERS), "Take the minimum with updates"
)
scatter_nd_max_op = _define_scatter_nd(
    "ScatterNdMax", in_place(np.maximum), _attrs(_NUMBERS), "Take the maximum with updates"
)


# -- counting ---------------------------------------------------------------------------------


@op(
    "CountUpTo",
    inputs="ref: Ref(T)",
    outputs="output: T",
    attrs="limit: int; T: {int32, int64}",
    shape=lambda c: c.with_rank("ref", 0),
    traits={NEVER_FOLDED},
    differentiable=False,
)
def count_up_to_op(xp: Any, ref: Variable, *, limit: int) -> Any:
    """The scalar's value before it is raised by one.

    Raises OutOfRange at the limit, InvalidArgument unless it is a scalar.
    """
    return count_up(ref, limit)


@changes
def count_up(ref: State, limit: int) -> Any:
    """As CountUpTo, for either kind of variable."""
    with ref.lock:
        array = ref.writable()
        if array.ndim:
            raise errors.invalid_argument(
                f"count_up_to needs a scalar, and variable {ref.name} has shape {shapes.text(array.shape)}"
            )
        before = array[()]
        if before >= limit:
            raise errors.out_of_range(
                f"Reached limit of {limit}: that is where variable {ref.name} counts to"
            )
        array[()] = before + 1
    return before
