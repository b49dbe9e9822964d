"""Barrier: components of tuples that come separately are put together by key.

Handles are string references; at run time the `run.state.barrier.Barrier` itself.
Called by: programs (as data_flow_ops.Barrier).  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/data_flow_ops.cc, python/ops/data_flow_ops.py; rules in run.state.barrier
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import HANDLE, MAY_WAIT, STATEFUL
from headrace.graph.const_value import constant_value
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar, vector
from headrace.graph.tensor import Tensor
from headrace.ops.data.queues import _shape_list, _type_list
from headrace.run.exec.kernel import KernelContext
from headrace.run.pending import Pending
from headrace.run.state.barrier import Barrier as Shared
from headrace.run.state.barrier import BarrierSpec

__all__ = ["Barrier"]

_USE: dict[str, Any] = {"differentiable": False}


@op(
    "Barrier",
    outputs="handle: Ref(string)",
    attrs="component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; "
    "container: string = ''; shared_name: string = ''",
    shape=vector(2),
    traits={STATEFUL, HANDLE},
    **_USE,
)
def barrier_op(
    ctx: KernelContext,
    *,
    component_types: list[DType],
    shapes: list[TensorShape],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Shared:
    """The barrier; nodes of one container and shared_name share it.

    Raises InvalidArgument when it exists and differs from what is asked for.
    """
    spec = BarrierSpec.make(component_types, [shape._raw for shape in shapes], capacity)
    found = ctx.private_resource(
        Shared, lambda: Shared(ctx.node.name, spec), container, shared_name
    )
    if found is not ctx.memo.get("checked"):
        found.check_shared_with(spec)
        ctx.memo["checked"] = found
    return found


def _barrier_of(handle: Any) -> Shared:
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, Shared):
        raise errors.invalid_argument(
            f"a barrier operation was given a {type(handle).__name__} instead of a barrier's handle"
        )
    return handle


def _inserted(c: ShapeContext) -> list[Shape]:
    keys, values = c.with_rank("keys", 1), c.with_rank_at_least("values", 1)
    if keys and values and None not in (keys[0], values[0]) and keys[0] != values[0]:
        raise ValueError(f"there are {keys[0]} keys for {values[0]} values")
    return []


@op(
    "BarrierInsertMany",
    inputs="handle: Ref(string); keys: string; values: T",
    attrs="T: type; component_index: int",
    shape=_inserted,
    **_USE,
)
def barrier_insert_many_op(
    xp: Any, handle: Any, keys: Any, values: Any, *, component_index: int
) -> None:
    """Give component component_index of the tuples of keys [n]: values [n, ...].

    Raises InvalidArgument (types, shapes, a component that is there), Cancelled (closed).
    """
    _barrier_of(handle).insert_many(component_index, keys, values)


GIVES_REST: Final = "_headrace_gives_rest"
"""The attr of a take whose step completes tuples for the next ones; see `Barrier.take_many` in `run.state.barrier`."""


def _taken(c: ShapeContext) -> list[Shape]:
    c.with_rank("num_elements", 0)
    count = c.value("num_elements")
    if count is not None and count < 0:
        raise ValueError(f"num_elements must be >= 0, but is {int(count)}")
    return [None] * c.num_outputs


@op(
    "BarrierTakeMany",
    inputs="handle: Ref(string); num_elements: int32",
    outputs="indices: int64; keys: string; values: component_types",
    attrs="component_types: list(type) >= 1; allow_small_batch: bool = false; "
    "wait_for_incomplete: bool = false; timeout_ms: int = -1",
    shape=_taken,
    traits={MAY_WAIT},
    **_USE,
)
def barrier_take_many_op(
    ctx: KernelContext,
    handle: Any,
    num_elements: Any,
    *,
    component_types: list[DType],
    allow_small_batch: bool,
    timeout_ms: int,
) -> Pending[Any]:
    """Remove num_elements [] ready tuples: indices [n], keys [n], each component [n, ...]; waits.

    wait_for_incomplete changes nothing, as in TensorFlow.
    Raises OutOfRange (closed with too few), InvalidArgument.
    """
    if timeout_ms != -1:
        raise errors.invalid_argument(
            f"timeout_ms={timeout_ms} is not supported on barriers; set timeout_in_ms in the "
            "RunOptions of the step"
        )
    if num_elements.ndim:
        raise errors.invalid_argument(
            f"num_elements must be a scalar, and has shape {list(num_elements.shape)}"
        )
    barrier = _barrier_of(handle)
    have = barrier.spec.types
    if have != tuple(component_types):
        raise errors.invalid_argument(
            f"{barrier} holds ({', '.join(t.name for t in have)}), and the take expects "
            f"({', '.join(t.name for t in component_types)})"
        )
    rest = bool(ctx.node.attrs.get(GIVES_REST, False))
    return barrier.take_many(int(num_elements), allow_small_batch, rest)


@op(
    "BarrierClose",
    inputs="handle: Ref(string)",
    attrs="cancel_pending_enqueues: bool = false",
    **_USE,
)
def barrier_close_op(xp: Any, handle: Any, *, cancel_pending_enqueues: bool) -> None:
    """Take no new keys.  Raises Cancelled (closed already)."""
    _barrier_of(handle).close(cancel_pending_enqueues)


@op("BarrierReadySize", inputs="handle: Ref(string)", outputs="size: int32", shape=scalar, **_USE)
def barrier_ready_size_op(xp: Any, handle: Any) -> Any:
    """How many tuples are ready."""
    return np.int32(_barrier_of(handle).ready_size())


@op(
    "BarrierIncompleteSize",
    inputs="handle: Ref(string)",
    outputs="size: int32",
    shape=scalar,
    **_USE,
)
def barrier_incomplete_size_op(xp: Any, handle: Any) -> Any:
    """How many tuples lack components."""
    return np.int32(_barrier_of(handle).incomplete_size())


class BarrierTakeMany(NamedTuple):
    """What a take gives: keys and when they came, and a tensor for each component."""

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class Barrier:
    """A barrier behind a handle."""

    def __init__(
        self,
        types: Any,
        shapes: Any = None,
        shared_name: str | None = None,
        name: str = "barrier",
    ) -> None:
        """Tuples of components of `types` and `shapes` (scalars if not given).

        shared_name: sessions of one server that use it share the barrier.  Raises ValueError.
        """
        self._types = _type_list(types)
        known = _shape_list(shapes, self._types)
        self._shapes = [TensorShape(None)] * len(self._types) if known is None else known
        self._barrier_ref: Tensor = barrier_op(
            component_types=self._types,
            shapes=self._shapes,
            shared_name=shared_name or "",
            name=name,
        )
        self._name = self._barrier_ref.op.name.rpartition("/")[2]

    @property
    def barrier_ref(self) -> Tensor:
        """The handle."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """Name of the node that makes it."""
        return self._barrier_ref.op.name

    def insert_many(
        self, component_index: int, keys: Any, values: Any, name: str | None = None
    ) -> Operation:
        """Give one component of the tuples of `keys`, string [n]: `values` [n, ...].

        CancelledError once it is closed (for new keys); InvalidArgumentError for what is there.
        """
        added: Operation = barrier_insert_many_op(
            self._barrier_ref,
            keys,
            values,
            component_index=component_index,
            name=name or f"{self._name}_BarrierInsertMany",
        )
        return added

    def take_many(
        self,
        num_elements: Any,
        allow_small_batch: bool = False,
        timeout: int | None = None,
        name: str | None = None,
    ) -> BarrierTakeMany:
        """Remove tuples that are complete: (indices [n], keys [n], [component [n, ...], ...]).

        Running it blocks until there are `num_elements`; OutOfRangeError when it is closed with
        fewer, with `allow_small_batch` with none.  Raises ValueError (a timeout).
        """
        if timeout is not None:
            raise ValueError(
                "take_many takes no timeout; set timeout_in_ms in the RunOptions of the step"
            )
        indices, keys, values = barrier_take_many_op(
            self._barrier_ref,
            num_elements,
            component_types=self._types,
            allow_small_batch=allow_small_batch,
            name=name or f"{self._name}_BarrierTakeMany",
        )
        size = None
        if not allow_small_batch:
            size = constant_value(indices.op.inputs[1])
        count = TensorShape([None if size is None else int(size)])
        indices.set_shape(count)
        keys.set_shape(count)
        for tensor, shape in zip(values, self._shapes, strict=True):
            tensor.set_shape(count.concatenate(shape))
        return BarrierTakeMany(indices, keys, values)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Take no new keys; cancelling, drop the incomplete tuples and take nothing."""
        closed: Operation = barrier_close_op(
            self._barrier_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_BarrierClose",
        )
        return closed

    def ready_size(self, name: str | None = None) -> Tensor:
        """int32 []: how many tuples are complete."""
        size: Tensor = barrier_ready_size_op(
            self._barrier_ref, name=name or f"{self._name}_BarrierReadySize"
        )
        return size

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """int32 []: how many tuples lack components."""
        size: Tensor = barrier_incomplete_size_op(
            self._barrier_ref, name=name or f"{self._name}_BarrierIncompleteSize"
        )
        return size
