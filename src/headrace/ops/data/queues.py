"""tf.FIFOQueue, tf.RandomShuffleQueue and their kin: queues as the graph's author holds them.

A queue object is a handle's tensor with what is known of the components: types, static shapes,
names.  Its methods add nodes; nothing runs here.
Called by: programs, training's input producers.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/data_flow_ops.py); node names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes as types
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import device, get_seed, init_scope, name_scope
from headrace.graph.registry import OpSpec, get
from headrace.graph.tensor import Tensor
from headrace.ops.data import queue_ops

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue"]

_INT64 = types.int64


class QueueBase:
    """A queue behind a handle; the subclasses make one."""

    def __init__(
        self,
        dtypes: Any,
        shapes: Sequence[TensorShape] | None,
        names: Sequence[str] | None,
        queue_ref: Tensor,
    ) -> None:
        """`shapes` of the components (None: unknown); with `names`, elements are dicts.

        Raises ValueError when their numbers differ.
        """
        self._dtypes = _type_list(dtypes)
        if shapes is None:
            self._shapes = [TensorShape(None)] * len(self._dtypes)
        else:
            if len(shapes) != len(self._dtypes):
                raise ValueError(_unequal("shapes", len(shapes), len(self._dtypes)))
            self._shapes = [TensorShape(shape) for shape in shapes]
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError(_unequal("names", len(names), len(self._dtypes)))
        self._names = None if names is None else list(names)
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rpartition("/")[2]

    @staticmethod
    def from_list(index: Any, queues: Sequence[QueueBase]) -> QueueBase:
        """The queue `queues[index]`, chosen when the step runs.

        Raises TypeError unless all have the same component types and names.
        """
        if not queues or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError(f"A list of queues expected, and not {queues!r:.80}")
        first = queues[0]
        if any(queue.dtypes != first.dtypes for queue in queues):
            raise TypeError(
                f"Queues do not have matching component dtypes: {[queue.dtypes for queue in queues]}"
            )
        if any(queue.names != first.names for queue in queues):
            raise TypeError(
                f"Queues do not have matching component names: {[queue.names for queue in queues]}"
            )
        shapes = [
            _common_shape([queue._shapes[number] for queue in queues])
            for number in range(len(first.dtypes))
        ]
        handles = get("Pack")([queue.queue_ref for queue in queues], axis=0, name="stack")
        chosen = get("GatherV2")(handles, index, 0)
        return QueueBase(first.dtypes, shapes, first.names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """Name of the node that gives the handle."""
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[types.DType]:
        """Of the components of an element, in order."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """Of the components of an element, in order; unknown where none were given."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """Of the components, if elements are dictionaries."""
        return self._names

    # -- in -----------------------------------------------------------------------------------

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Add one element: a value, a list or tuple of components, or a dict by `names`.

        Running it blocks while the queue is full; CancelledError once it is closed.
        Raises ValueError, TypeError.
        """
        with name_scope(name, f"{self._name}_enqueue", _values(vals)) as scope:
            tensors = self._components(vals)
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                tensor.get_shape().assert_is_compatible_with(shape)
            added: Operation = self._spec("QueueEnqueue")(self._queue_ref, tensors, name=scope)
        return added

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Add the elements that lie along dimension 0 of each component.

        Running it blocks until all are in; CancelledError once the queue is closed.
        Raises ValueError (sizes of dimension 0 that differ), TypeError.
        """
        with name_scope(name, f"{self._name}_EnqueueMany", _values(vals)) as scope:
            tensors = self._components(vals)
            count = tensors[0].get_shape().with_rank_at_least(1)[0]
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                whole = tensor.get_shape().with_rank_at_least(1)
                count = count.merge_with(whole[0])
                whole[1:].assert_is_compatible_with(shape)
            added: Operation = self._spec("QueueEnqueueMany")(self._queue_ref, tensors, name=scope)
        return added

    def _components(self, vals: Any) -> list[Tensor]:
        """One tensor per component, of its type."""
        if isinstance(vals, dict):
            if self._names is None:
                raise ValueError(
                    f"Queue must have names to enqueue a dictionary, and {self.name!r} has none"
                )
            if set(self._names) != set(vals):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue: {sorted(vals)}, and the names of "
                    f"{self.name!r} are {sorted(self._names)}"
                )
            vals = [vals[name] for name in self._names]
        elif self._names is not None:
            raise ValueError(
                f"You must enqueue a dictionary in a Queue with names: those of {self.name!r} are {self._names}"
            )
        elif not isinstance(vals, (list, tuple)):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(
                f"Unable to enqueue {len(vals)} values: queue {self.name!r} has {len(self._dtypes)} components"
            )
        return [
            convert(value, dtype, f"component_{number}")
            for number, (value, dtype) in enumerate(zip(vals, self._dtypes, strict=True))
        ]

    # -- out ----------------------------------------------------------------------------------

    def dequeue(self, name: str | None = None) -> Any:
        """Remove one element: a tensor, a list of components, or a dict by `names`.

        Running it blocks while the queue is empty; OutOfRangeError once it is closed and empty.
        """
        found = self._spec("QueueDequeue")(
            self._queue_ref, component_types=self._dtypes, name=name or f"{self._name}_Dequeue"
        )
        for tensor, shape in zip(found, self._shapes, strict=True):
            tensor.set_shape(shape)
        return self._element(found)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Remove `n` elements, stacked along a new dimension 0.

        Running it blocks until there are so many; OutOfRangeError when it is closed with fewer.
        """
        return self._batch("QueueDequeueMany", n, name or f"{self._name}_DequeueMany", exact=True)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """As `dequeue_many`, but a closed queue gives what is left: 1 to `n` elements."""
        return self._batch("QueueDequeueUpTo", n, name or f"{self._name}_DequeueUpTo", exact=False)

    def _batch(self, op_name: str, n: Any, name: str, exact: bool) -> Any:
        found = self._spec(op_name)(self._queue_ref, n, component_types=self._dtypes, name=name)
        size = constant_value(found[0].op.inputs[1]) if exact else None
        count = TensorShape([None if size is None else int(size)])
        for tensor, shape in zip(found, self._shapes, strict=True):
            tensor.set_shape(count.concatenate(shape))
        return self._element(found)

    def _element(self, tensors: list[Tensor]) -> Any:
        if self._names is not None:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    # -- the queue itself ---------------------------------------------------------------------

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Close: later enqueues fail, dequeues go on until it is empty."""
        closed: Operation = self._spec("QueueClose")(
            self._queue_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_Close",
        )
        return closed

    def is_closed(self, name: str | None = None) -> Tensor:
        """bool []: whether it is closed."""
        closed: Tensor = self._spec("QueueIsClosed")(
            self._queue_ref, name=name or f"{self._name}_Is_Closed"
        )
        return closed

    def size(self, name: str | None = None) -> Tensor:
        """int32 []: the number of elements."""
        size: Tensor = self._spec("QueueSize")(self._queue_ref, name=name or f"{self._name}_Size")
        return size

    def _spec(self, op_name: str) -> OpSpec:
        """The op of the generation of this handle."""
        return get(op_name + "V2" if self._queue_ref.dtype == types.resource else op_name)


class FIFOQueue(QueueBase):
    """Elements leave in the order in which they came."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        """At most `capacity` elements with components of `dtypes`.

        shapes: one per component, or None for elements of any shape (no dequeue_many then).
        shared_name: sessions of one server that use it share the queue.
        """
        dtypes = _type_list(dtypes)
        shapes = _shape_list(shapes, dtypes)
        names = _name_list(names, dtypes)
        with init_scope(), device("CPU"):
            handle = queue_ops.fifo_queue_v2(
                component_types=dtypes,
                shapes=shapes or [],
                capacity=capacity,
                shared_name=shared_name or "",
                name=name,
            )
        super().__init__(dtypes, shapes, names, handle)


class RandomShuffleQueue(QueueBase):
    """Elements leave in random order."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        """As FIFOQueue; while open, `min_after_dequeue` elements stay behind to be mixed with."""
        dtypes = _type_list(dtypes)
        shapes = _shape_list(shapes, dtypes)
        names = _name_list(names, dtypes)
        seed1, seed2 = _seeds(seed, shared_name)
        handle = queue_ops.random_shuffle_queue_v2(
            component_types=dtypes,
            shapes=shapes or [],
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(dtypes, shapes, names, handle)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; sizes may vary from element to element, and batches are padded."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        """As FIFOQueue, but `shapes` must be a list of shapes of known rank; sizes may be None.

        A batch is as large as its largest element, the others filled up with zeros, "" or False.
        """
        dtypes = _type_list(dtypes)
        if shapes is None or isinstance(shapes, TensorShape):
            raise ValueError(
                "When providing partial shapes, a list of shapes must be provided, one for each component"
            )
        shapes = _shape_list(list(shapes), dtypes, sizes_vary=True)
        names = _name_list(names, dtypes)
        handle = queue_ops.padding_fifo_queue_v2(
            component_types=dtypes,
            shapes=shapes,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(dtypes, shapes, names, handle)


class PriorityQueue(QueueBase):
    """The element of the smallest priority leaves first, of equal ones the first to come."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        """At most `capacity` elements; each begins with its priority, int64 [].

        types, shapes: of the other components; shapes must be given.  names: of all components.
        dequeue_up_to gives no smaller last batch: it is the same as dequeue_many.
        """
        types = _type_list(types)
        shapes = _shape_list(shapes, types)
        if shapes is None:
            raise TypeError("a PriorityQueue needs a list with a shape for each component")
        handle = queue_ops.priority_queue_v2(
            component_types=types,
            shapes=shapes,
            capacity=capacity,
            shared_name=shared_name or "",
            name=name,
        )
        all_types = [_INT64, *types]
        super().__init__(
            all_types, [TensorShape([]), *shapes], _name_list(names, all_types), handle
        )


def _seeds(seed: int | None, shared_name: str | None) -> tuple[int, int]:
    """The node's seeds.  Graphs that share a queue by name and a graph-level seed agree on them."""
    seed1, seed2 = get_seed(seed)
    if seed is None and seed1 is not None and shared_name is not None:
        import hashlib  # takes its time to load

        digest = hashlib.md5(f"{seed1}{shared_name}".encode(), usedforsecurity=False).hexdigest()
        seed2 = int(digest[:8], 16) & 0x7FFFFFFF
    return seed1 or 0, seed2 or 0


def _type_list(dtypes: Any) -> list[types.DType]:
    if not isinstance(dtypes, (list, tuple)):
        dtypes = [dtypes]
    try:
        return [types.as_dtype(dtype) for dtype in dtypes]
    except TypeError as error:
        raise TypeError(
            f"Expected DataType for argument 'component_types' not {dtypes[0]!r}: {error}"
        ) from None


def _shape_list(
    shapes: Any, dtypes: list[types.DType], sizes_vary: bool = False
) -> list[TensorShape] | None:
    """One fully defined shape per component; a single shape may stand without a list.

    With `sizes_vary` only the ranks must be known, and there must be a list.
    """
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (list, tuple)):
        raise TypeError(
            f"shapes must be a TensorShape, or a list or tuple of shapes, not {shapes!r}"
        )
    if all(size is None or isinstance(size, int) for size in shapes):
        if sizes_vary:
            raise ValueError(f"sizes that vary need a list of shapes, not the shape {shapes}")
        shapes = [shapes]
    known = [TensorShape(shape) for shape in shapes]
    if sizes_vary and any(shape._raw is None for shape in known):
        raise ValueError(f"all shapes of a queue that pads must have a known rank, not {known}")
    if not sizes_vary and not all(shape.is_fully_defined() for shape in known):
        raise ValueError(f"All shapes must be fully defined: those of a queue are {known}")
    if len(known) != len(dtypes):
        if sizes_vary:
            raise ValueError(
                f"Shapes must be provided for all components, but received {len(dtypes)} dtypes and {len(known)} shapes"
            )
        raise ValueError(_unequal("shapes", len(known), len(dtypes)))
    return known


def _unequal(what: str, given: int, components: int) -> str:
    first = (
        "Queue shapes must have the same length as dtypes"
        if what == "shapes"
        else "List of names must have the same length as the list of dtypes"
    )
    return f"{first}: a queue of {components} components was given {given} {what}"


def _name_list(names: Any, dtypes: list[types.DType]) -> list[str] | None:
    if names is None:
        return None
    if not isinstance(names, (list, tuple)):
        names = [names]
    if len(names) != len(dtypes):
        raise ValueError(_unequal("names", len(names), len(dtypes)))
    return list(names)


def _values(vals: Any) -> list[Any]:
    """The values among which the graph is looked for."""
    if isinstance(vals, (list, tuple)):
        return list(vals)
    return list(vals.values()) if isinstance(vals, dict) else [vals]


def _common_shape(shapes: Sequence[TensorShape]) -> TensorShape:
    """What is true of all of them."""
    first = shapes[0]._raw
    for shape in shapes[1:]:
        raw = shape._raw
        if first is None or raw is None or len(raw) != len(first):
            return TensorShape(None)
        first = tuple(a if a == b else None for a, b in zip(first, raw, strict=True))
    return TensorShape(first)
