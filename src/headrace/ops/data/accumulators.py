"""Conditional accumulators: gradients of many workers add up until one take gets their mean.

Both generations of handles stand side by side; at run time either is the accumulator itself.
Called by: training.sync_replicas, programs.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/data_flow_ops.cc, python/ops/data_flow_ops.py; node names checked against
the oracle; rules of waiting in run.state.accumulators
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import (
    HANDLE,
    MAY_WAIT,
    NONE,
    STATEFUL,
    SUMS_GRADIENTS,
    TAKES_GRADIENTS,
    UPDATES,
    Traits,
)
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, scalar, unknown, vector
from headrace.graph.tensor import Tensor
from headrace.ops.math.casting import cast
from headrace.run.exec.kernel import KernelContext
from headrace.run.pending import Pending
from headrace.run.state.accumulators import DenseAccumulator, SparseAccumulator

__all__ = ["ConditionalAccumulator", "ConditionalAccumulatorBase", "SparseConditionalAccumulator"]

_DTYPE = (
    "dtype: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}"
)
_MAKE = (
    _DTYPE + "; shape: shape; container: string = ''; shared_name: string = ''; "
    "reduction_type: {'MEAN', 'SUM'} = 'MEAN'"
)
_made: dict[str, Any] = {
    "attrs": _MAKE,
    "shape": vector(2),
    "traits": {STATEFUL, HANDLE, SUMS_GRADIENTS},
    "differentiable": False,
}


def _dense(
    ctx: KernelContext,
    *,
    dtype: DType,
    shape: TensorShape,
    container: bytes,
    shared_name: bytes,
    reduction_type: bytes,
) -> DenseAccumulator:
    """The accumulator; nodes of one container and shared_name share it."""
    mean = reduction_type == b"MEAN"
    return ctx.private_resource(
        DenseAccumulator,
        lambda: DenseAccumulator(ctx.node.name, dtype, shape._raw, mean),
        container,
        shared_name,
    )


conditional_accumulator_op = op("ConditionalAccumulator", outputs="handle: Ref(string)", **_made)(
    _dense
)
resource_conditional_accumulator_op = op(
    "ResourceConditionalAccumulator", outputs="handle: resource", **_made
)(_dense)


@op("SparseConditionalAccumulator", outputs="handle: Ref(string)", **_made)
def sparse_conditional_accumulator_op(
    ctx: KernelContext,
    *,
    dtype: DType,
    shape: TensorShape,
    container: bytes,
    shared_name: bytes,
    reduction_type: bytes,
) -> SparseAccumulator:
    """The accumulator of slices; nodes of one container and shared_name share it."""
    mean = reduction_type == b"MEAN"
    return ctx.private_resource(
        SparseAccumulator,
        lambda: SparseAccumulator(ctx.node.name, dtype, shape._raw, mean),
        container,
        shared_name,
    )


def _accumulator_of(handle: Any, *kinds: type[DenseAccumulator | SparseAccumulator]) -> Any:
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, kinds):
        raise errors.invalid_argument(
            f"an operation on a {' or '.join(kind.__name__ for kind in kinds)} was given a "
            f"{type(handle).__name__}"
        )
    return handle


def _scalar(what: str, value: Any) -> int:
    if value.ndim:
        raise errors.invalid_argument(f"{what} must be a scalar, and has shape {list(value.shape)}")
    return int(value)


def _num_accumulated(xp: Any, handle: Any) -> Any:
    """How many gradients are there."""
    found = _accumulator_of(handle, DenseAccumulator, SparseAccumulator)
    return np.int32(found.num_accumulated())


def _set_global_step(xp: Any, handle: Any, new_global_step: Any) -> None:
    """Drop gradients older than new_global_step [] from now on."""
    found = _accumulator_of(handle, DenseAccumulator, SparseAccumulator)
    found.set_global_step(_scalar("new_global_step", new_global_step))


def _apply_gradient(ctx: KernelContext, handle: Any, local_step: Any, gradient: Any) -> None:
    """Add a gradient that was computed at local_step [].  Raises InvalidArgument (type, shape)."""
    found = _accumulator_of(handle, DenseAccumulator)
    found.apply(gradient, _scalar("local_step", local_step), ctx.step.owner)


def _check_taken(found: Any, dtype: DType) -> None:
    if found.dtype != dtype:
        raise errors.invalid_argument(
            f"{found} accumulates {found.dtype.name}, and the take expects {dtype.name}"
        )


def _take_gradient(
    ctx: KernelContext, handle: Any, num_required: Any, *, dtype: DType
) -> Pending[Any]:
    """The sum or mean of all gradients, waiting for num_required [] of them."""
    found = _accumulator_of(handle, DenseAccumulator)
    _check_taken(found, dtype)
    pending: Pending[Any] = found.take(_scalar("num_required", num_required), ctx.step.owner)
    return pending


def _wants_a_scalar(c: ShapeContext) -> Shape | list[Shape]:
    c.with_rank("num_required", 0)
    return unknown(c)


def _user(
    name: str, kernel: Any, more: str = "", traits: Traits = NONE, **block: Any
) -> tuple[OpSpec, OpSpec]:
    """Both generations of an op on an accumulator."""
    block["differentiable"] = False
    inputs = "handle: Ref(string)" + more, "handle: resource" + more
    old = op(name, inputs=inputs[0], traits=traits, **block)(kernel)
    new = op("Resource" + name, inputs=inputs[1], traits={STATEFUL, *traits}, **block)(kernel)
    return old, new


num_accumulated_op, resource_num_accumulated_op = _user(
    "AccumulatorNumAccumulated", _num_accumulated, outputs="num_accumulated: int32", shape=scalar
)
set_global_step_op, resource_set_global_step_op = _user(
    "AccumulatorSetGlobalStep", _set_global_step, "; new_global_step: int64"
)
apply_gradient_op, resource_apply_gradient_op = _user(
    "AccumulatorApplyGradient",
    _apply_gradient,
    "; local_step: int64; gradient: dtype",
    attrs=_DTYPE,
    traits={UPDATES},
)
take_gradient_op, resource_take_gradient_op = _user(
    "AccumulatorTakeGradient",
    _take_gradient,
    "; num_required: int32",
    outputs="average: dtype",
    attrs=_DTYPE,
    shape=_wants_a_scalar,
    traits={MAY_WAIT, TAKES_GRADIENTS},
)


@op(
    "SparseAccumulatorApplyGradient",
    inputs="handle: Ref(string); local_step: int64; gradient_indices: int64; gradient_values: dtype; "
    "gradient_shape: int64",
    attrs=_DTYPE + "; has_known_shape: bool",
    traits={UPDATES},
    differentiable=False,
)
def sparse_apply_gradient_op(
    ctx: KernelContext,
    handle: Any,
    local_step: Any,
    indices: Any,
    values: Any,
    shape: Any,
    *,
    has_known_shape: bool,
) -> None:
    """Add gradient_values [n, ...] at gradient_indices [n] of axis 0; local_step [].

    gradient_shape [rank], of the whole, counts with has_known_shape.
    Raises InvalidArgument (types, shapes, an index beyond the shape).
    """
    whole = tuple(shape.tolist()) if has_known_shape else None
    found = _accumulator_of(handle, SparseAccumulator)
    found.apply(indices, values, whole, _scalar("local_step", local_step), ctx.step.owner)


@op(
    "SparseAccumulatorTakeGradient",
    inputs="handle: Ref(string); num_required: int32",
    outputs="indices: int64; values: dtype; shape: int64",
    attrs=_DTYPE,
    shape=_wants_a_scalar,
    traits={MAY_WAIT, TAKES_GRADIENTS},
    differentiable=False,
)
def sparse_take_gradient_op(
    ctx: KernelContext, handle: Any, num_required: Any, *, dtype: DType
) -> Pending[Any]:
    """The sum or mean of all gradients, waiting for num_required [] of them: indices [n],
    values [n, ...] and the shape [rank] of the whole, -1 where it is not known.
    """
    found = _accumulator_of(handle, SparseAccumulator)
    _check_taken(found, dtype)
    pending: Pending[Any] = found.take(_scalar("num_required", num_required), ctx.step.owner)
    return pending


class ConditionalAccumulatorBase:
    """An accumulator behind a handle; the subclasses make one."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = dtypes.as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rpartition("/")[2]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """Name of the node that gives the handle."""
        return self._accumulator_ref.op.name

    @property
    def dtype(self) -> DType:
        """Of what is accumulated."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """int32 []: how many gradients are there."""
        spec = resource_num_accumulated_op if self._is_resource else num_accumulated_op
        count: Tensor = spec(self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")
        return count

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Drop gradients of earlier steps from now on."""
        spec = resource_set_global_step_op if self._is_resource else set_global_step_op
        done: Operation = spec(self._accumulator_ref, _step(new_global_step), name=name)
        return done

    @property
    def _is_resource(self) -> bool:
        return self._accumulator_ref.dtype == dtypes.resource


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Of dense gradients."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """Gradients of `dtype` and `shape`, as far as it is known; reduction_type MEAN or SUM.

        shared_name: sessions of one server that use it share the accumulator.
        """
        handle = resource_conditional_accumulator_op(
            dtype=dtype,
            shape=TensorShape(shape),
            shared_name=shared_name or "",
            name=name,
            reduction_type=reduction_type,
        )
        super().__init__(dtype, shape, handle)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """Add a gradient computed at `local_step`; one of an earlier step than the
        accumulator's is dropped.  Raises ValueError (shape, type).
        """
        grad = convert(grad, self._dtype)
        grad.get_shape().assert_is_compatible_with(self._shape)
        applied: Operation = resource_apply_gradient_op(
            self._accumulator_ref, _step(local_step), grad, name=name
        )
        return applied

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """The mean (or sum) of all gradients, which are then gone; the step counts up.

        Running it blocks until there are `num_required`; InvalidArgumentError below 1.
        """
        taken: Tensor = resource_take_gradient_op(
            self._accumulator_ref, num_required, dtype=self._dtype, name=name
        )
        taken.set_shape(self._shape)
        return taken


class SparseAccumulatorTakeGradient(NamedTuple):
    """A sparse gradient, with the shape of the whole, -1 where it is not known."""

    indices: Tensor
    values: Tensor
    shape: Tensor


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Of gradients by index."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        """As ConditionalAccumulator; the mean of an index is over the gradients that have it."""
        handle = sparse_conditional_accumulator_op(
            dtype=dtype,
            shape=TensorShape(shape),
            shared_name=shared_name or "",
            name=name,
            reduction_type=reduction_type,
        )
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        """Add a gradient computed at `local_step`."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """Add `grad_values` [n, ...] at the sorted `grad_indices` [n] of axis 0.

        grad_shape: of the whole, if it is known.  InvalidArgumentError for what does not fit.
        """
        step = _step(local_step)
        applied: Operation = sparse_apply_gradient_op(
            self._accumulator_ref,
            step,
            cast(grad_indices, dtypes.int64),
            grad_values,
            cast([] if grad_shape is None else grad_shape, dtypes.int64),
            has_known_shape=grad_shape is not None,
            name=name,
        )
        return applied

    def take_grad(
        self, num_required: Any, name: str | None = None
    ) -> SparseAccumulatorTakeGradient:
        """The mean (or sum) of all gradients; see ConditionalAccumulator."""
        taken = sparse_take_gradient_op(
            self._accumulator_ref, num_required, dtype=self._dtype, name=name
        )
        return SparseAccumulatorTakeGradient(*taken)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """As take_grad."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)


def _step(value: Any) -> Tensor:
    """An int64 tensor."""
    step: Tensor = cast(convert(value), dtypes.int64)
    return step
