"""Batches of what belongs together: tf.contrib.training.bucket and bucket_by_sequence_length.

Called by: programs.  Threads: as graph; queue runners fill the queues.
Source: behaviour of TF 1.15 (contrib/training/python/training/bucket_ops.py)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes, errors, nest
from headrace.base.arguments import whole_number
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.ops.array.constants import constant
from headrace.ops.data.queues import FIFOQueue, PaddingFIFOQueue
from headrace.ops.flow.checks import assert_less
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group, identity, no_op
from headrace.ops.io.summaries import scalar
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, less, logical_not
from headrace.ops.math.reductions import reduce_sum
from headrace.training.queue_runner import QueueRunner, add_queue_runner

__all__ = ["bucket", "bucket_by_sequence_length"]


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Batches of `tensors`, all of one bucket each: (its number, the batch), nested as tensors are.

    which_bucket: a scalar in [0, num_buckets), of this step's element.  batch_size: one, or one a bucket.
    shapes: of the elements, where they are not known.  dynamic_pad: pad each batch to its longest.
    capacity: of batches, and of elements in a bucket unless bucket_capacities says otherwise.
    keep_input: whether to take the element.  Queue runners are added to the graph.  Raises ValueError.
    """
    num_buckets = whole_number("bucket", "num_buckets", num_buckets)
    if num_buckets < 1:
        raise ValueError(f"bucket: num_buckets must be 1 or more, and is {num_buckets}")
    sizes = (
        list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    )
    capacities = [capacity] * num_buckets if bucket_capacities is None else list(bucket_capacities)
    _check_counts(num_buckets, sizes, capacities)
    flat = [convert(each) for each in nest.flatten(tensors)]
    with name_scope(name, "bucket", flat):
        known = [TensorShape(each) for each in shapes] if shapes else [each.shape for each in flat]
        if not dynamic_pad and not all(each.is_fully_defined() for each in known):
            raise ValueError(
                f"All shapes must be fully defined: {known}; dynamic_pad pads what is not"
            )
        kinds = [each.dtype.base_dtype for each in flat]
        make: Any = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queues = [
            make(
                capacity=room,
                dtypes=kinds,
                shapes=known,
                shared_name=shared_name and f"{shared_name}_{at}",
                name=f"bucket_queue_{at}",
            )
            for at, room in enumerate(capacities)
        ]
        static = sizes[0] if all(each is sizes[0] for each in sizes) else None
        if allow_smaller_final_batch or not isinstance(static, int):
            static = None
        top = PaddingFIFOQueue(
            capacity=capacity,
            dtypes=[dtypes.int32, *kinds],
            shapes=[TensorShape([]), *(TensorShape([static]).concatenate(each) for each in known)],
            shared_name=shared_name,
            name="top_queue",
        )
        _fill(queues, flat, which_bucket, keep_input, num_threads)
        _gather(top, queues, sizes, allow_smaller_final_batch)
        number, *found = top.dequeue(name="dequeue_top")
        return number, nest.pack_sequence_as(tensors, found)


def _check_counts(buckets: int, sizes: list[Any], capacities: list[int]) -> None:
    if len(sizes) != buckets:
        raise ValueError(
            f"If batch_size is a list it must have num_buckets elements: {len(sizes)} and {buckets}"
        )
    if len(capacities) != buckets:
        raise ValueError(
            f"The list bucket_capacities ({capacities}) must have exactly num_buckets ({buckets}) elements."
        )


def _gather(top: Any, queues: list[Any], sizes: list[Any], smaller: bool) -> None:
    """Add the runner that puts batches of all buckets into `top`."""
    moves = [
        top.enqueue([constant(at), *_taken(queue, size, smaller)], name=f"read_bucket_{at}")
        for at, (queue, size) in enumerate(zip(queues, sizes, strict=True))
    ]
    add_queue_runner(
        QueueRunner(
            top,
            moves,
            close_op=top.close(),
            cancel_op=top.close(cancel_pending_enqueues=True),
            queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError),
        )
    )
    for queue in (top, *queues):
        scalar(f"bucket/{queue.name}/size", cast(queue.size(), dtypes.float32))


def _taken(queue: Any, size: Any, smaller: bool) -> list[Any]:
    """A batch of a bucket."""
    found = queue.dequeue_up_to(size) if smaller else queue.dequeue_many(size)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _fill(queues: list[Any], flat: list[Any], which: Any, keep_input: Any, threads: int) -> None:
    """Add the runner that puts elements into their buckets."""
    which = convert(which, name="which_bucket")
    keep = convert(keep_input, name="keep_input")

    def put(queue: Any) -> Any:
        return lambda: queue.enqueue(flat)

    def choose() -> Any:
        with control_dependencies(
            [assert_less(which, len(queues), message="which_bucket is no bucket")]
        ):
            at = identity(which)
        return group(
            *[cond(equal(at, number), put(queue), no_op) for number, queue in enumerate(queues)]
        )

    enqueue = cond(keep, choose, no_op)
    closes = [queue.close() for queue in queues]
    cancels = [queue.close(cancel_pending_enqueues=True) for queue in queues]
    add_queue_runner(
        QueueRunner(
            queues[0],
            [enqueue] * threads,
            close_op=group(*closes),
            cancel_op=group(*cancels),
            queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError),
        )
    )


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Sequence[int],
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`bucket`, by the length of an element: (lengths [batch], the batch).

    input_length: an int32 scalar.  bucket_boundaries: ascending; a bucket takes lengths from one boundary to below the
    next, the first all below, the last all others.  Raises TypeError, ValueError.
    """
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError(
            f"bucket_boundaries must be a list or tuple, but received: {bucket_boundaries}"
        )
    if not bucket_boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    for one, other in itertools.pairwise(bucket_boundaries):
        if not isinstance(one, int) or not isinstance(other, int):
            raise TypeError(f"bucket boundaries must be integers, but saw: {one} and {other}")
        if one >= other:
            raise ValueError(
                f"Buckets must contain sequential increasing lengths, but saw: {one} before {other}"
            )
    with name_scope(name, "bucket_by_sequence_length", [input_length]):
        length = convert(input_length, name="input_length")
        inside = logical_not(less(length, constant(list(bucket_boundaries), length.dtype)))
        which = reduce_sum(cast(inside, dtypes.int32))
        _, (lengths, found) = bucket(
            (length, tensors),
            which_bucket=which,
            batch_size=batch_size,
            num_buckets=len(bucket_boundaries) + 1,
            num_threads=num_threads,
            capacity=capacity,
            bucket_capacities=bucket_capacities,
            shapes=None if shapes is None else [TensorShape([]), *shapes],
            dynamic_pad=dynamic_pad,
            allow_smaller_final_batch=allow_smaller_final_batch,
            keep_input=keep_input,
            shared_name=shared_name,
        )
        return lengths, found
