"""Ops on resource variables: handles, and what is read of and written to what they stand for.

A handle is the `run.state.variable.ResourceVariable` itself as long as it stays on its task (run.state.handles
translates it elsewhere).  What ReadVariableOp gives is a value: no later update changes it.  The dtype and shape of the
variable behind a handle are those of the node that makes the handle, found by going back to it: see `behind`.
Called by: library.variables.resource_variables, ops.state.resource_scatter, ops.resource_training_ops, optimizers.
Threads: kernels run in any step's thread; the variable's lock orders them.
Source: TF 1.15 core/ops/resource_variable_ops.cc, core/kernels/resource_variable_ops.cc; classes of errors and
gradients checked against the oracle
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import (
    ALIASES,
    AT_ONCE,
    HANDLE,
    READS_HANDLE,
    READS_VARIABLE,
    STATEFUL,
    UPDATES,
    VAR_HANDLE,
)
from headrace.graph.flow_nodes import variable_shape
from headrace.graph.graph import Operation
from headrace.graph.handles import behind
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.registry import ShapeFn, op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.ops.array.gathering import check_indices, gather_nd_op, gather_v2_op, scatter_nd
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, reshape, size, squeeze
from headrace.ops.array.slicing import strided_slice_assign_op
from headrace.ops.state import references as state
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.on_device import made_at
from headrace.run.state.resources import Resource
from headrace.run.state.variable import ResourceVariable

__all__: list[str] = []

# -- what is known of a handle ----------------------------------------------------------------


def held(c: ShapeContext, arg: int | str = 0, attr: str = "dtype") -> Shape:
    """The shape of the variable behind input `arg`.

    Raises ValueError if it is not of the dtype that `attr` says.
    """
    known = behind(c.op.inputs[c.index(arg)])
    if known is None:
        return None
    dtype, shape = known
    wanted = c.attr(attr)
    if dtype is not wanted:
        raise ValueError(f"the variable holds {dtype.name}, and this node works on {wanted.name}")
    return shape


def _held_alike(arg: str) -> ShapeFn:
    """No output; input `arg` must fit the variable."""

    def shape(c: ShapeContext) -> list[Shape]:
        shapes.merge(held(c), c.shape(arg))
        return []

    return shape


def variable_behind(resource: Any, dtype: DType | None = None) -> ResourceVariable:
    """What the handle at hand stands for.  Raises InvalidArgument unless it is a variable, and of `dtype`."""
    if isinstance(resource, np.ndarray) and resource.size == 1 and resource.dtype.hasobject:
        resource = resource.item()  # one that a queue has kept
    if not isinstance(resource, ResourceVariable):
        if isinstance(resource, Resource):
            kind = type(resource).__name__
            raise errors.invalid_argument(f"{kind} {resource.label!r} is not a variable")
        raise errors.invalid_argument(f"{resource!r:.200} is not the handle of a variable")
    if dtype is not None and resource.dtype is not dtype:
        raise errors.invalid_argument(
            f"variable {resource.name} in container {resource.container!r} holds {resource.dtype.name}, "
            f"and this node works on {dtype.name}; give one of them another name or container"
        )
    return resource


def existing(resource: Any, dtype: DType | None = None) -> ResourceVariable:
    """As `variable_behind`, for what TensorFlow refuses with NotFound before the first assignment."""
    variable = variable_behind(resource, dtype)
    if variable.held() is None:
        raise errors.not_found(
            f"Could not find resource: {variable.container}/{variable.name}. {variable.uninitialized().message}"
        )
    return variable


# -- making and asking ------------------------------------------------------------------------


def _made(
    ctx: KernelContext, container: bytes, shared_name: bytes, dtype: DType, shape: TensorShape
) -> ResourceVariable:
    name = shared_name.decode()
    found = ctx.runtime.resources.lookup_or_create(
        container.decode(),
        name,
        ResourceVariable,
        lambda: made_at(ResourceVariable, ctx.node.device, name, dtype, shape._raw),
    )
    if found.held() is None:
        found.dtype = dtype  # whoever assigns first says what it holds
    return found


@op(
    "VarHandleOp",
    outputs="resource: resource",
    attrs="container: string = ''; shared_name: string = ''; debug_name: string = ''; dtype: type; shape: shape; "
    "allowed_devices: list(string) = []",
    shape=scalar,
    traits={AT_ONCE, VAR_HANDLE, STATEFUL, HANDLE},
    differentiable=False,
)
def var_handle_op(
    ctx: KernelContext, *, container: bytes, shared_name: bytes, dtype: DType, shape: TensorShape
) -> ResourceVariable:
    """The handle of the variable `shared_name`; nodes without one all mean the same, as in TensorFlow."""
    return _made(ctx, container, shared_name, dtype, shape)


@op(
    "_VarHandlesOp",
    outputs="resources: N * resource",
    attrs="containers: list(string); shared_names: list(string); N: int >= 0; dtypes: list(type); shapes: list(shape)",
    shape=scalar,
    traits={STATEFUL},
    differentiable=False,
)
def var_handles_op(
    ctx: KernelContext,
    *,
    containers: Sequence[bytes],
    shared_names: Sequence[bytes],
    dtypes: Sequence[DType],
    shapes: Sequence[TensorShape],
) -> list[ResourceVariable]:
    """Several VarHandleOps at once, as TensorFlow's optimizer writes them."""
    rows = zip(containers, shared_names, dtypes, shapes, strict=True)
    return [_made(ctx, *row) for row in rows]


@op(
    "VarIsInitializedOp",
    inputs="resource: resource",
    outputs="is_initialized: bool",
    shape=scalar,
    traits={STATEFUL},
    differentiable=False,
)
def var_is_initialized_op(xp: Any, resource: Any) -> np.bool_:
    """Whether the variable has been assigned."""
    return np.bool_(variable_behind(resource).held() is not None)


def _shape_of_shape(c: ShapeContext) -> Shape:
    known = behind(c.op.inputs[0])
    return (None,) if known is None or known[1] is None else (len(known[1]),)


@op(
    "VariableShape",
    inputs="input: resource",
    outputs="output: out_type",
    attrs="out_type: {int32, int64} = int32",
    shape=_shape_of_shape,
    traits={READS_HANDLE, STATEFUL},
    differentiable=False,
)
def variable_shape_op(xp: Any, input: Any, *, out_type: DType) -> Any:
    """The variable's shape.  Raises NotFound before the first assignment."""
    variable = existing(input)
    held = variable.held()
    if held is None:  # any more
        raise variable.uninitialized()
    return np.array(held.shape, out_type.np)


@op(
    "DestroyResourceOp",
    inputs="resource: resource",
    attrs="ignore_lookup_error: bool = true",
    traits={STATEFUL},
    differentiable=False,
)
def destroy_resource_op(ctx: KernelContext, resource: Any, *, ignore_lookup_error: bool) -> None:
    """Forget the resource.  Raises NotFound, unless told to ignore it, if there is none."""
    if isinstance(resource, ResourceVariable):
        if resource.held() is None and not ignore_lookup_error:
            raise errors.not_found(
                f"container {resource.container!r} has no variable named {resource.name!r}"
            )
        resource.reset()
        return
    if not isinstance(resource, Resource):
        raise errors.invalid_argument(f"{resource!r:.200} is not a handle of this task")
    if not ctx.runtime.resources.forget(resource) and not ignore_lookup_error:
        kind = type(resource).__name__
        raise errors.not_found(
            f"container {resource.container!r} has no {kind} named {resource.label!r} any more"
        )


# -- reading ----------------------------------------------------------------------------------


@op(
    "ReadVariableOp",
    inputs="resource: resource",
    outputs="value: dtype",
    attrs="dtype: type",
    shape=lambda c: held(c),
    traits={READS_HANDLE, AT_ONCE, STATEFUL, ALIASES, READS_VARIABLE},
)
def read_variable_op(xp: Any, resource: Any, *, dtype: DType) -> Any:
    """The variable's value, which later updates do not change.

    Raises FailedPrecondition before the first assignment, InvalidArgument.
    """
    return variable_behind(resource, dtype).read()


@read_variable_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return dout


def _read_shapes(c: ShapeContext) -> list[Shape]:
    known = [behind(tensor) for tensor in c.op.inputs]
    return [None if each is None else each[1] for each in known]


@op(
    "_ReadVariablesOp",
    inputs="resources: N * resource",
    outputs="values: dtypes",
    attrs="N: int >= 0; dtypes: list(type) >= 1",
    shape=_read_shapes,
    traits={READS_HANDLE, STATEFUL, ALIASES},
    differentiable=False,
)
def read_variables_op(xp: Any, *resources: Any, dtypes: Sequence[DType]) -> list[Any]:
    """Several ReadVariableOps at once, as TensorFlow's optimizer writes them."""
    pairs = zip(resources, dtypes, strict=True)
    return [variable_behind(resource, dtype).read() for resource, dtype in pairs]


# -- writing ----------------------------------------------------------------------------------


@op(
    "AssignVariableOp",
    inputs="resource: resource; value: dtype",
    attrs="dtype: type; validate_shape: bool = false",
    shape=_held_alike("value"),
    traits={UPDATES, STATEFUL},
    differentiable=False,
)
def assign_variable_op(
    xp: Any, resource: Any, value: Any, *, dtype: DType, validate_shape: bool
) -> None:
    """variable = value.  Raises InvalidArgument if the shape changes though validate_shape is true."""
    variable_behind(resource, dtype).assign(value, validate_shape)


@assign_variable_op.unread
def _(xp: Any, resource: Any, value: Any, *, dtype: DType, validate_shape: bool) -> None:
    variable_behind(resource, dtype).assign_unread(value, validate_shape)


def _adding(name: str, ufunc: np.ufunc, of_scalars: Callable[..., Any], sign: str) -> Any:
    def kernel(xp: Any, resource: Any, value: Any, *, dtype: DType) -> None:
        state.update(existing(resource, dtype), value, ufunc, name, of_scalars)

    kernel.__doc__ = f"variable {sign}= value, shapes equal.  Raises NotFound, InvalidArgument."
    made = op(
        name,
        inputs="resource: resource; value: dtype",
        attrs="dtype: type",
        shape=_held_alike("value"),
        traits={UPDATES, STATEFUL},
        differentiable=False,
    )(kernel)
    made.into(ufunc)

    @made.knowing
    def _(node: Operation, known: Sequence[Any]) -> Callable[[Any, Any], None] | None:
        change = state.by_constant(known[1], ufunc, name, of_scalars)
        if change is None:
            return None
        dtype = node.attrs["dtype"]

        def by_constant(resource: Any, value: Any) -> None:
            change(existing(resource, dtype), value)

        return by_constant

    return made


assign_add_variable_op = _adding("AssignAddVariableOp", np.add, operator.add, "+")
assign_sub_variable_op = _adding("AssignSubVariableOp", np.subtract, operator.sub, "-")


@op(
    "ResourceCountUpTo",
    inputs="resource: resource",
    outputs="output: T",
    attrs="limit: int; T: {int32, int64}",
    shape=lambda c: shapes.merge(held(c, attr="T"), ()),
    traits={STATEFUL},
    differentiable=False,
)
def resource_count_up_to_op(xp: Any, resource: Any, *, limit: int, T: DType) -> Any:
    """The scalar's value before it is raised by one.

    Raises OutOfRange at the limit, InvalidArgument unless it is a scalar.
    """
    return state.count_up(existing(resource, T), limit)


_STRIDED = (
    "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; "
    "shrink_axis_mask: int = 0"
)


def _slice_target(c: ShapeContext) -> list[Shape]:
    held(c, attr="T")
    return []


@op(
    "ResourceStridedSliceAssign",
    inputs="ref: resource; begin: Index; end: Index; strides: Index; value: T",
    attrs=f"T: type; Index: {{int32, int64}}; {_STRIDED}",
    shape=_slice_target,
    traits={UPDATES, STATEFUL},
    differentiable=False,
)
def resource_strided_slice_assign_op(
    xp: Any,
    ref: Any,
    begin: Any,
    end: Any,
    strides: Any,
    value: Any,
    *,
    T: DType,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> None:
    """variable[...] = value.  Raises InvalidArgument if value does not broadcast to the slice, NotFound."""
    assert strided_slice_assign_op.kernel is not None
    strided_slice_assign_op.kernel(
        xp,
        existing(ref, T),
        begin,
        end,
        strides,
        value,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
    )


# -- gathering --------------------------------------------------------------------------------


def _gathered(c: ShapeContext) -> Shape:
    whole, indices = held(c), c.shape("indices")
    batch_dims: int = c.attr("batch_dims")
    if batch_dims < 0:
        raise ValueError(f"batch_dims is negative ({batch_dims}): it must be 0 or more")
    if whole is not None and len(whole) <= batch_dims:
        raise ValueError(f"a gather needs a rank above {batch_dims}, and has {text(whole)}")
    if whole is None or indices is None:
        return None
    shapes.merge(whole[:batch_dims], indices[:batch_dims])
    return indices + whole[batch_dims + 1 :]


@op(
    "ResourceGather",
    inputs="resource: resource; indices: Tindices",
    outputs="output: dtype",
    attrs="batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: {int32, int64}",
    shape=_gathered,
    traits={READS_HANDLE, UPDATES, STATEFUL},
)
def resource_gather_op(
    xp: Any, resource: Any, indices: Any, *, batch_dims: int, dtype: DType
) -> Any:
    """The rows at indices, of one moment; the first batch_dims dimensions go in step.

    Raises InvalidArgument on an index out of range, NotFound.
    """
    variable = existing(resource, dtype)
    kernel = gather_v2_op.kernel
    assert kernel is not None
    with variable.lock:
        params = variable.require()
        if params.ndim > batch_dims >= 0 and not params.size:
            check_indices(np.asarray(indices), params.shape[batch_dims])
        return kernel(xp, params, indices, np.int32(batch_dims), batch_dims=batch_dims)


@resource_gather_op.gradient
def _(op: Operation, dout: Any) -> tuple[IndexedSlices, None]:
    handle, indices = op.inputs
    whole = variable_shape(handle)
    count = expand_dims(size(indices), 0)
    rows = concat([count, whole[1:]], 0)
    return IndexedSlices(reshape(dout, rows), reshape(indices, count), whole), None


def _gathered_at(c: ShapeContext) -> Shape:
    whole, indices = held(c), c.with_rank_at_least("indices", 1)
    if whole is None or indices is None or indices[-1] is None:
        return None
    if indices[-1] > len(whole):
        raise ValueError(f"indices of depth {indices[-1]} cannot index a variable {text(whole)}")
    return indices[:-1] + whole[indices[-1] :]


@op(
    "ResourceGatherNd",
    inputs="resource: resource; indices: Tindices",
    outputs="output: dtype",
    attrs="dtype: type; Tindices: {int32, int64}",
    shape=_gathered_at,
    traits={READS_HANDLE, STATEFUL},
)
def resource_gather_nd_op(xp: Any, resource: Any, indices: Any, *, dtype: DType) -> Any:
    """The slices at the coordinates in the last dimension of indices, of one moment.

    Raises InvalidArgument on a coordinate out of range, NotFound.
    """
    variable = existing(resource, dtype)
    kernel = gather_nd_op.kernel
    assert kernel is not None
    with variable.lock:
        return kernel(xp, variable.require(), indices, bad_indices_policy=b"")


@resource_gather_nd_op.gradient
def _(op: Operation, dout: Any) -> tuple[Any, None]:
    handle, indices = op.inputs
    whole = variable_shape_op(handle, out_type=indices.dtype.base_dtype)
    raw = indices.raw_shape
    if raw is not None and len(raw) == 2 and raw[-1] == 1:
        return IndexedSlices(dout, squeeze(indices, axis=-1), whole), None
    return scatter_nd(indices, dout, whole), None
