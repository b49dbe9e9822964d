"""Batching: tensors into a queue by the threads of a QueueRunner, batches out of it.

`batch` runs one set of tensors in several threads; the `_join` kinds one thread for each set; the `shuffle_` kinds mix;
the `maybe_` kinds leave out what `keep_input` says.  Sparse tensors travel as handles (training.sparse_batches).
Called by: programs.  Threads: as graph; the runners' threads start with `start_queue_runners`.
Source: TF 1.15 python/training/input.py, for behaviour; graphs checked against the oracle.  On purpose otherwise: lists
of different lengths are refused by the `_join` kinds (TensorFlow drops what the shortest does not have).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor, convert_to_tensor_or_sparse_tensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.partitioning import dynamic_partition
from headrace.ops.data.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from headrace.ops.flow.control_flow import smart_cond
from headrace.ops.flow.identities import no_op
from headrace.ops.io.summaries import add_scalar
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.training.queue_runner import QueueRunner, add_queue_runner
from headrace.training.sparse_batches import SparseInfo, restored, stored

__all__ = [
    "batch",
    "batch_join",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "shuffle_batch",
    "shuffle_batch_join",
]

MakeQueue = Callable[[list[dtypes.DType], Any], QueueBase]
"""(component types, shapes) -> queue"""


@dataclass(frozen=True, slots=True)
class _Way:
    """How batches are made: the queue, who fills it, and what is said of it."""

    make: MakeQueue
    batch_size: Any
    enqueue_many: bool
    shapes: Any
    smaller: bool
    joined: bool
    threads: int
    capacity: int
    kept_back: int | None = None
    """min_after_dequeue of a shuffle queue"""


# -- what is given, as lists of tensors -------------------------------------------------------


def _listed(tensors: Any) -> list[Any]:
    """The values of a dict by sorted keys, or the items."""
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors, key=str)]
    return list(tensors)


def _like(original: Any, found: Any) -> Any:
    """What came out of the queue, in the form in which it was given."""
    if not isinstance(original, dict):
        return found
    items = found if isinstance(found, (list, tuple)) else [found]
    return dict(zip(sorted(original, key=str), items, strict=True))


def _lists(tensors_list: Any) -> list[list[Any]]:
    """One list for each set of tensors.  Raises ValueError."""
    sets = list(tensors_list)
    if not sets:
        raise ValueError("Expected at least one set of tensors to join, and the list is empty")
    if isinstance(sets[0], dict) and any(
        not isinstance(each, dict) or set(each) != set(sets[0]) for each in sets
    ):
        raise ValueError("all dictionaries in tensors_list must have the same keys")
    lists = [_listed(each) for each in sets]
    if len({len(each) for each in lists}) > 1:
        raise ValueError(
            f"the sets of tensors to join have different lengths: {[len(each) for each in lists]}"
        )
    return lists


def _converted(value: Any) -> Any:
    if isinstance(value, IndexedSlices):
        return convert(value)
    return convert_to_tensor_or_sparse_tensor(value)


def _checked_keep(keep_input: Any, enqueue_many: bool) -> Tensor:
    """`keep_input` as a tensor [] or, with enqueue_many, [n].  Raises ValueError."""
    keep = convert(keep_input)
    rank = keep.get_shape().ndims
    if rank is None:
        raise ValueError(
            f"keep_input must have a known rank when the graph is built; {keep.name} has none"
        )
    if rank > 1:
        raise ValueError(f"keep_input must be a scalar or a vector, and has shape {keep.shape}")
    if rank == 1 and not enqueue_many:
        raise ValueError("keep_input must be a scalar when enqueue_many is False")
    return keep


def _types(lists: Sequence[Sequence[Tensor]]) -> list[dtypes.DType]:
    """The components' types.  Raises TypeError when the lists differ."""
    types = [tensor.dtype.base_dtype for tensor in lists[0]]
    for other in lists[1:]:
        for kind, tensor in zip(types, other, strict=True):
            if tensor.dtype.base_dtype != kind:
                raise TypeError(
                    f"Expected types to be consistent: {kind.name} vs. {tensor.dtype.base_dtype.name}, "
                    f"that of {tensor.name}"
                )
    return types


def _shapes(lists: Sequence[Sequence[Tensor]], shapes: Any, enqueue_many: bool) -> Any:
    """The components' shapes: those given, or what is true of all the lists.  Raises ValueError."""
    if shapes is not None:
        return shapes
    found = []
    for same in zip(*lists, strict=True):
        merged = TensorShape(None)
        for tensor in same:
            shape = tensor.get_shape()
            if shape.ndims is None:
                raise ValueError(
                    f"Cannot infer Tensor's rank: {tensor}; it is not known when the graph is built; give `shapes`"
                )
            merged = merged.merge_with(shape.with_rank_at_least(1)[1:] if enqueue_many else shape)
        found.append(merged)
    return found


# -- through the queue ------------------------------------------------------------------------


def _batches(lists: list[list[Any]], keep_input: Any, way: _Way, scope: str) -> Any:
    """The batch: a tensor, or a list of several.  Call it within the name scope `scope`."""
    if not lists[0]:
        raise ValueError("Expected at least one tensor in batch(), to make batches of")
    sets = [[_converted(value) for value in each] for each in lists]
    keep = _checked_keep(keep_input, way.enqueue_many)
    sources = [
        item.values.dtype if isinstance(item, SparseTensor) else item.dtype for item in sets[0]
    ]
    handles, infos = stored(sets[0], keep, way.enqueue_many)
    through = [handles]
    for each in sets[1:]:
        through.append(stored(each, keep, way.enqueue_many, infos)[0])
    _check_sparse_types(sets, infos)
    queue = way.make(_types(through), _shapes(through, way.shapes, way.enqueue_many))
    _fill(queue, through, keep, way)
    _summarize(queue, way)
    take = queue.dequeue_up_to if way.smaller else queue.dequeue_many
    return restored(take(way.batch_size, name=scope), infos, sources)


def _check_sparse_types(sets: list[list[Any]], infos: Sequence[SparseInfo | None]) -> None:
    for at, info in enumerate(infos):
        types = {each[at].dtype.name for each in sets} if info is not None else set()
        if len(types) > 1:
            raise TypeError(f"the sparse tensors to join differ in type: {sorted(types)}")


def _fill(queue: QueueBase, lists: list[list[Tensor]], keep: Tensor, way: _Way) -> None:
    """A QueueRunner that enqueues, with a thread for each list, or several for the only one."""
    put = queue.enqueue_many if way.enqueue_many else queue.enqueue

    def enqueue(tensors: list[Tensor]) -> Any:
        if keep.get_shape().ndims != 1:
            return smart_cond(keep, lambda: put(tensors), no_op)
        chosen = cast(keep, dtypes.int32)
        return put([dynamic_partition(tensor, chosen, 2)[1] for tensor in tensors])

    enqueues = [enqueue(each) for each in lists]
    if not way.joined:
        enqueues *= way.threads
    add_queue_runner(QueueRunner(queue, enqueues))


def _summarize(queue: QueueBase, way: _Way) -> None:
    """How full it is, as a summary."""
    if way.kept_back is None:
        full = cast(queue.size(), dtypes.float32) * (1.0 / way.capacity)
        add_scalar(f"fraction_of_{way.capacity}_full", full)
        return
    room = way.capacity - way.kept_back
    full = cast(maximum(0, queue.size() - way.kept_back), dtypes.float32) * (1.0 / room)
    add_scalar(f"fraction_over_{way.kept_back}_of_{room}_full", full)


def _fifo(capacity: int, dynamic_pad: bool, shared_name: str | None) -> MakeQueue:
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue

    def make(types: list[dtypes.DType], shapes: Any) -> QueueBase:
        return kind(capacity=capacity, dtypes=types, shapes=shapes, shared_name=shared_name)

    return make


def _shuffle(capacity: int, kept_back: int, seed: int | None, shared_name: str | None) -> MakeQueue:
    """Raises ValueError."""
    if capacity <= kept_back:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {kept_back}: "
            "a full queue would have nothing to give"
        )

    def make(types: list[dtypes.DType], shapes: Any) -> QueueBase:
        return RandomShuffleQueue(
            capacity=capacity,
            min_after_dequeue=kept_back,
            dtypes=types,
            shapes=shapes,
            seed=seed,
            shared_name=shared_name,
        )

    return make


def _one(tensors: Any, keep_input: Any, way: _Way, name: str | None, default: str) -> Any:
    items = _listed(tensors)
    with name_scope(name, default, [*items, keep_input]) as scope:
        return _like(tensors, _batches([items], keep_input, way, scope))


def _joined(tensors_list: Any, keep_input: Any, way: _Way, name: str | None, default: str) -> Any:
    lists = _lists(tensors_list)
    everything = [item for each in lists for item in each]
    with name_scope(name, default, [*everything, keep_input]) as scope:
        return _like(next(iter(tensors_list)), _batches(lists, keep_input, way, scope))


# -- the public ones --------------------------------------------------------------------------


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of `tensors`, a list or a dict: each with a new dimension 0 of `batch_size`.

    enqueue_many: `tensors` have many elements along dimension 0 already.  shapes: of the elements, where they are not
    known statically.  dynamic_pad: elements that differ in size are filled up with zeros.
    allow_smaller_final_batch: the last batch may be shorter; else what is left over is dropped.
    Running it blocks until a batch is there; it needs `start_queue_runners`; OutOfRangeError at the end.
    Raises ValueError.
    """
    return maybe_batch(
        tensors,
        True,
        batch_size,
        num_threads,
        capacity,
        enqueue_many,
        shapes,
        dynamic_pad,
        allow_smaller_final_batch,
        shared_name,
        name,
    )


def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of what `keep_input` is true of: bool [], or with enqueue_many [n]."""
    way = _Way(
        _fifo(capacity, dynamic_pad, shared_name),
        batch_size,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        False,
        num_threads,
        capacity,
    )
    return _one(tensors, keep_input, way, name, "batch")


def batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of several lists or dicts of tensors, with a thread for each.  Raises ValueError, TypeError."""
    return maybe_batch_join(
        tensors_list,
        True,
        batch_size,
        capacity,
        enqueue_many,
        shapes,
        dynamic_pad,
        allow_smaller_final_batch,
        shared_name,
        name,
    )


def maybe_batch_join(
    tensors_list: Any,
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch_join`, of what `keep_input` is true of: bool [], or with enqueue_many [n]."""
    way = _Way(
        _fifo(capacity, dynamic_pad, shared_name),
        batch_size,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        True,
        1,
        capacity,
    )
    return _joined(tensors_list, keep_input, way, name, "batch_join")


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, in random order: `min_after_dequeue` elements stay behind to be mixed with.

    Raises ValueError.
    """
    return maybe_shuffle_batch(
        tensors,
        batch_size,
        capacity,
        min_after_dequeue,
        True,
        num_threads,
        seed,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        shared_name,
        name,
    )


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of what `keep_input` is true of: bool [], or with enqueue_many [n]."""
    way = _Way(
        _shuffle(capacity, min_after_dequeue, seed, shared_name),
        batch_size,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        False,
        num_threads,
        capacity,
        min_after_dequeue,
    )
    return _one(tensors, keep_input, way, name, "shuffle_batch")


def shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of several lists or dicts of tensors, with a thread for each."""
    return maybe_shuffle_batch_join(
        tensors_list,
        batch_size,
        capacity,
        min_after_dequeue,
        True,
        seed,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        shared_name,
        name,
    )


def maybe_shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch_join`, of what `keep_input` is true of: bool [], or with enqueue_many [n]."""
    way = _Way(
        _shuffle(capacity, min_after_dequeue, seed, shared_name),
        batch_size,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        True,
        1,
        capacity,
        min_after_dequeue,
    )
    return _joined(tensors_list, keep_input, way, name, "shuffle_batch_join")
