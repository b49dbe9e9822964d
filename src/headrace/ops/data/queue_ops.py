"""Queue ops: make a queue, put elements in, take them out, close it.

Both generations stand side by side: handles of the first are string references, of the second
resources; at run time either is the `run.queues.queue.Queue` itself.  An operation that has to wait
returns its Pending, so that the step goes on with what does not depend on it.
Called by: ops.data.queues (the Python classes), programs that name these ops.
Threads: any step's thread.
Source: TF 1.15 core/ops/data_flow_ops.cc, core/kernels/queue_ops.cc; rules of waiting in run.queues.queue
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import (
    DEQUEUES,
    ENQUEUES,
    ENQUEUES_ONE,
    HANDLE,
    KEEPS_INPUTS,
    MAKES_QUEUE,
    MAY_WAIT,
    NONE,
    STATEFUL,
    Traits,
)
from headrace.graph.registry import OpSpec, Prompt, op
from headrace.graph.shape_fns import ShapeContext, scalar, unknown, vector
from headrace.run.exec.close_reasons import close_reason_of
from headrace.run.exec.kernel import KernelContext
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.padding import PaddingFIFOQueue
from headrace.run.queues.priority import PriorityQueue, priority_spec
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec
from headrace.run.state.resources import Resource

__all__: list[str] = []

Kernel = Callable[..., Any]


# -- making -----------------------------------------------------------------------------------


def _open(
    ctx: KernelContext, kind: type[Queue], spec: QueueSpec, container: bytes, name: bytes
) -> Queue:
    """The queue of this node, made at its first run; checked against `spec` if it was there."""
    found = ctx.private_resource(Queue, lambda: kind(ctx.node.name, spec), container, name)
    if found is not ctx.memo.get("checked"):
        found.check_shared_with(kind, spec)
        ctx.memo["checked"] = found
    return found


def _fifo(
    ctx: KernelContext,
    *,
    component_types: list[dtypes.DType],
    shapes: list[TensorShape],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """The queue; nodes of one container and shared_name share it.

    Raises InvalidArgument when it exists and differs from what is asked for.
    """
    spec = QueueSpec.make(component_types, [shape._raw for shape in shapes], capacity)
    return _open(ctx, FIFOQueue, spec, container, shared_name)


def _shuffle(
    ctx: KernelContext,
    *,
    component_types: list[dtypes.DType],
    shapes: list[TensorShape],
    capacity: int,
    min_after_dequeue: int,
    seed: int,
    seed2: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """The queue; see FIFOQueue.  Elements leave in random order."""
    raw = [shape._raw for shape in shapes]
    spec = QueueSpec.make(component_types, raw, capacity, min_after_dequeue, seed, seed2)
    return _open(ctx, RandomShuffleQueue, spec, container, shared_name)


def _padding(
    ctx: KernelContext,
    *,
    component_types: list[dtypes.DType],
    shapes: list[TensorShape],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """The queue; see FIFOQueue.  Sizes may vary; batches are padded."""
    raw = [shape._raw for shape in shapes]
    spec = QueueSpec.make(component_types, raw, capacity, sizes_vary=True)
    return _open(ctx, PaddingFIFOQueue, spec, container, shared_name)


def _priority(
    ctx: KernelContext,
    *,
    component_types: list[dtypes.DType],
    shapes: list[TensorShape],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """The queue; see FIFOQueue.  An element's first component is its priority, int64 []."""
    spec = priority_spec(component_types, [shape._raw for shape in shapes], capacity)
    return _open(ctx, PriorityQueue, spec, container, shared_name)


_COMPONENTS = (
    "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; "
)
_SHARED = "container: string = ''; shared_name: string = ''"
_SHUFFLED = "min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0; "
_HANDLE_V1 = vector(2)


def _maker(name: str, kernel: Kernel, attrs: str) -> tuple[OpSpec, OpSpec]:
    """Both generations of an op that makes a resource."""
    old = op(
        name,
        outputs="handle: Ref(string)",
        attrs=attrs,
        shape=_HANDLE_V1,
        traits={STATEFUL, HANDLE, MAKES_QUEUE},
        differentiable=False,
    )(kernel)
    new = op(
        name + "V2",
        outputs="handle: resource",
        attrs=attrs,
        shape=scalar,
        traits={STATEFUL, HANDLE, MAKES_QUEUE},
        differentiable=False,
    )(kernel)
    return old, new


fifo_queue, fifo_queue_v2 = _maker("FIFOQueue", _fifo, _COMPONENTS + _SHARED)
random_shuffle_queue, random_shuffle_queue_v2 = _maker(
    "RandomShuffleQueue", _shuffle, _COMPONENTS + _SHUFFLED + _SHARED
)
padding_fifo_queue, padding_fifo_queue_v2 = _maker(
    "PaddingFIFOQueue", _padding, _COMPONENTS + _SHARED
)
priority_queue, priority_queue_v2 = _maker(
    "PriorityQueue",
    _priority,
    "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; capacity: int = -1; "
    + _SHARED,
)


# -- using ------------------------------------------------------------------------------------


def queue_of(handle: Any) -> Queue:
    """The queue behind a handle.  Raises InvalidArgument."""
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, Queue):
        raise errors.invalid_argument(
            f"a queue operation was given a {type(handle).__name__} instead of a queue's handle"
        )
    return handle


def _no_timeout(timeout_ms: int) -> None:
    if timeout_ms != -1:
        raise errors.invalid_argument(
            f"timeout_ms={timeout_ms} is not supported on queue operations; "
            "set timeout_in_ms in the RunOptions of the step, or operation_timeout_in_ms in the "
            "ConfigProto"
        )


def _checked(queue: Queue, wanted: tuple[dtypes.DType, ...]) -> None:
    """Raise InvalidArgument unless the queue holds elements of the types that a dequeue declares."""
    have = queue.spec.component_types
    if have != wanted:
        raise errors.invalid_argument(
            f"{queue} holds ({', '.join(t.name for t in have)}), and the dequeue expects "
            f"({', '.join(t.name for t in wanted)})"
        )


def _enqueue(xp: Any, handle: Any, *components: Any, timeout_ms: int) -> Pending[None]:
    """Add one element, waiting for room.

    Raises InvalidArgument (types, shapes), Cancelled (closed).
    """
    _no_timeout(timeout_ms)
    queue = queue_of(handle)
    if dtypes.resource in queue.spec.component_types:
        components = tuple([_as_array(value) for value in components])
    return queue.enqueue(components)


def _as_array(value: Any) -> Any:
    """A handle as a scalar array; anything else is itself."""
    if not isinstance(value, Resource):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


def _enqueue_many(xp: Any, handle: Any, *components: Any, timeout_ms: int) -> Pending[None]:
    """Add the elements along dimension 0, as room comes."""
    _no_timeout(timeout_ms)
    return queue_of(handle).enqueue_many(components)


def _dequeue(
    xp: Any, handle: Any, *, component_types: list[dtypes.DType], timeout_ms: int
) -> Pending[Any]:
    """Remove one element, waiting for one.

    Raises OutOfRange (closed and empty), InvalidArgument (types).
    """
    _no_timeout(timeout_ms)
    queue = queue_of(handle)
    _checked(queue, tuple(component_types))
    return queue.dequeue()


def _count(n: Any) -> int:
    if n.ndim:
        raise errors.invalid_argument(f"n must be a scalar, and has shape {list(n.shape)}")
    return int(n)


def _batch(kind: str) -> Kernel:
    def dequeue_batch(
        xp: Any, handle: Any, n: Any, *, component_types: list[dtypes.DType], timeout_ms: int
    ) -> Pending[Any]:
        """Remove n elements, stacked along a new dimension 0, waiting for so many.

        Raises OutOfRange (closed with fewer; dequeue_up_to only if empty), InvalidArgument.
        """
        _no_timeout(timeout_ms)
        queue = queue_of(handle)
        _checked(queue, tuple(component_types))
        operation: Callable[[int], Pending[Any]] = getattr(queue, kind)
        return operation(_count(n))

    return dequeue_batch


# The same for one node, which give what is there at once without a Pending.  What they leave to the kernels above is
# the queue's to refuse, or not ordinary.


def _prompt_enqueue(attrs: dict[str, Any], owned: tuple[bool, ...]) -> Kernel:
    timeout_ms = attrs["timeout_ms"]
    if timeout_ms != -1 or dtypes.resource in attrs["Tcomponents"]:
        return partial(_enqueue, np, timeout_ms=timeout_ms)

    def enqueue(handle: Any, *components: Any) -> Any:
        queue = handle if isinstance(handle, Queue) else queue_of(handle)
        return () if queue.enqueue_now(components) else queue.enqueue(components)

    return enqueue


def _prompt_enqueue_many(attrs: dict[str, Any], owned: tuple[bool, ...]) -> Kernel:
    timeout_ms, owned = attrs["timeout_ms"], owned[1:] if any(owned) else ()
    if timeout_ms != -1:
        return partial(_enqueue_many, np, timeout_ms=timeout_ms)

    def enqueue_many(handle: Any, *components: Any) -> Any:
        queue = handle if isinstance(handle, Queue) else queue_of(handle)
        if queue.enqueue_many_now(components, owned):
            return ()
        return queue.enqueue_many(components, owned)

    return enqueue_many


def _prompt_dequeue(attrs: dict[str, Any], owned: tuple[bool, ...]) -> Kernel:
    wanted, timeout_ms = tuple(attrs["component_types"]), attrs["timeout_ms"]
    if timeout_ms != -1:
        return partial(
            _dequeue, np, component_types=attrs["component_types"], timeout_ms=timeout_ms
        )

    def dequeue(handle: Any) -> Any:
        queue = handle if isinstance(handle, Queue) else queue_of(handle)
        if queue.spec.component_types != wanted:
            _checked(queue, wanted)
        element = queue.dequeue_now()
        return queue.dequeue() if element is None else element

    return dequeue


def _prompt_batch(kind: str) -> Callable[[dict[str, Any], tuple[bool, ...]], Kernel]:
    def prompt(attrs: dict[str, Any], owned: tuple[bool, ...]) -> Kernel:
        wanted, timeout_ms = tuple(attrs["component_types"]), attrs["timeout_ms"]
        waiting = partial(_batch(kind), np, component_types=wanted, timeout_ms=timeout_ms)
        if timeout_ms != -1:
            return waiting

        def dequeue_batch(handle: Any, n: Any) -> Any:
            queue = handle if isinstance(handle, Queue) else queue_of(handle)
            if queue.spec.component_types != wanted:
                _checked(queue, wanted)
            batch = queue.dequeue_many_now(_count(n), kind)
            return waiting(handle, n) if batch is None else batch

        return dequeue_batch

    return prompt


def _close(ctx: KernelContext, handle: Any, *, cancel_pending_enqueues: bool) -> Pending[None]:
    """No more enqueues; those that wait are finished first, or cancelled."""
    return queue_of(handle).close(cancel_pending_enqueues, close_reason_of(ctx.scope))


def _size(xp: Any, handle: Any) -> Any:
    """How many elements are there."""
    return np.int32(queue_of(handle).size())


def _is_closed(xp: Any, handle: Any) -> Any:
    """Whether it is closed."""
    return np.bool_(queue_of(handle).is_closed())


def _batches(c: ShapeContext) -> Shape | list[Shape]:
    c.with_rank("n", 0)
    count = c.value("n")
    if count is not None and count < 0:
        raise ValueError(f"Input 'n' must be >= 0, but is {int(count)}")
    return unknown(c)


_PUT = "Tcomponents: list(type) >= 1; timeout_ms: int = -1"
_TAKE = "component_types: list(type) >= 1; timeout_ms: int = -1"


def _user(
    name: str,
    kernel: Kernel,
    more: str = "",
    *,
    prompt: Prompt | None = None,
    traits: Traits = NONE,
    **block: Any,
) -> tuple[OpSpec, OpSpec]:
    """Both generations of an op that uses a queue."""
    block["differentiable"] = False
    old_inputs, inputs = "handle: Ref(string)" + more, "handle: resource" + more
    old = op(name, inputs=old_inputs, traits=traits, **block)(kernel)
    new = op(name + "V2", inputs=inputs, traits={STATEFUL, *traits}, **block)(kernel)
    if prompt is not None:
        old.prompt(prompt)
        new.prompt(prompt)
    return old, new


_take: dict[str, Any] = {
    "outputs": "components: component_types",
    "attrs": _TAKE,
    "traits": {MAY_WAIT, DEQUEUES},
}
_take_many: dict[str, Any] = {**_take, "shape": _batches}
_ELEMENT = "; components: Tcomponents"

queue_enqueue, queue_enqueue_v2 = _user(
    "QueueEnqueue",
    _enqueue,
    _ELEMENT,
    attrs=_PUT,
    prompt=_prompt_enqueue,
    traits={ENQUEUES, ENQUEUES_ONE, MAY_WAIT},
)
queue_enqueue_many, queue_enqueue_many_v2 = _user(
    "QueueEnqueueMany",
    _enqueue_many,
    _ELEMENT,
    attrs=_PUT,
    prompt=_prompt_enqueue_many,
    traits={ENQUEUES, MAY_WAIT, KEEPS_INPUTS},
)
queue_dequeue, queue_dequeue_v2 = _user(
    "QueueDequeue", _dequeue, shape=unknown, prompt=_prompt_dequeue, **_take
)
queue_dequeue_many, queue_dequeue_many_v2 = _user(
    "QueueDequeueMany",
    _batch("dequeue_many"),
    "; n: int32",
    prompt=_prompt_batch("dequeue_many"),
    **_take_many,
)
queue_dequeue_up_to, queue_dequeue_up_to_v2 = _user(
    "QueueDequeueUpTo",
    _batch("dequeue_up_to"),
    "; n: int32",
    prompt=_prompt_batch("dequeue_up_to"),
    **_take_many,
)
queue_close, queue_close_v2 = _user(
    "QueueClose", _close, attrs="cancel_pending_enqueues: bool = false", traits={MAY_WAIT}
)
queue_size, queue_size_v2 = _user("QueueSize", _size, outputs="size: int32", shape=scalar)
queue_is_closed, queue_is_closed_v2 = _user(
    "QueueIsClosed", _is_closed, outputs="is_closed: bool", shape=scalar
)
