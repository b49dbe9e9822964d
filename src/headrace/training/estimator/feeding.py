"""Queues that threads fill with rows of arrays in memory.

Called by: training.estimator.inputs.  Threads: one a thread of the runner, each with rows of its own to hand out.
Source: TF 1.15 behaviour; nodes, order and ends of epochs are compared with the oracle
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.graph.names import name_scope
from headrace.ops.array.placeholders import placeholder
from headrace.ops.data.queues import FIFOQueue, RandomShuffleQueue
from headrace.ops.io.summaries import add_scalar
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.training.coordinator import Coordinator
from headrace.training.queue_runner import QueueRunner, add_queue_runner

__all__ = ["FeedingQueueRunner", "Rows", "filled_queue"]


class Rows:
    """Hands out rows, some at a time: their numbers, and each column's; a thread calls it.

    Rows follow each other, the first after the last; from a random one on, if so wished.
    """

    def __init__(
        self,
        columns: Sequence[np.ndarray[Any, Any]],
        at_once: int,
        num_epochs: int | None,
        random_start: bool,
    ) -> None:
        """num_epochs: how often each row is handed out; None: there is no end."""
        self._columns = columns
        self._count = len(columns[0])
        self._at_once = at_once
        self._at = random.randrange(self._count) if random_start and self._count else 0
        self._left = None if num_epochs is None else num_epochs * self._count

    def __call__(self) -> list[np.ndarray[Any, Any]]:
        """Raises OutOfRangeError at the end."""
        size = self._at_once if self._count else 0
        if self._left is not None:
            size = min(size, self._left)
            self._left -= size
        if size <= 0:
            raise errors.OutOfRangeError(None, None, "Already emitted all epochs.")
        numbers = np.arange(self._at, self._at + size, dtype=np.int64) % self._count
        self._at = (self._at + size) % self._count
        return [numbers, *(column[numbers] for column in self._columns)]


class FeedingQueueRunner(QueueRunner):
    """A QueueRunner whose enqueue ops are fed what functions give, which a meta graph does not have."""

    def __init__(
        self,
        queue: Any,
        enqueue_ops: Sequence[Any],
        fed: Sequence[Sequence[Any]],
        feed_fns: Sequence[Callable[[], Sequence[Any]]],
    ) -> None:
        """fed: the placeholders of each op; feed_fns: what gives their values, or raises OutOfRangeError."""
        super().__init__(
            queue,
            enqueue_ops,
            queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError),
        )
        feeds = zip(fed, feed_fns, strict=True)
        self._feeds = dict(zip(enqueue_ops, feeds, strict=True))

    def _enqueuing(
        self, sess: Any, enqueue_op: Any, coord: Coordinator | None
    ) -> Callable[[], object]:
        fed, feed_fn = self._feeds[enqueue_op]
        enqueue = sess.make_callable(enqueue_op, feed_list=list(fed))
        return lambda: enqueue(*feed_fn())


def filled_queue(
    arrays: Sequence[np.ndarray[Any, Any]],
    capacity: int,
    shuffle: bool,
    threads: int,
    at_once: int,
    num_epochs: int | None,
) -> Any:
    """A queue of rows of arrays, each behind its number (int64), that a runner of the default graph fills.

    shuffle: a RandomShuffleQueue, a quarter of whose capacity stays in it.
    """
    with name_scope("enqueue_input"):
        types = [dtypes.int64, *(dtypes.as_dtype(each.dtype) for each in arrays)]
        shapes = [(), *(each.shape[1:] for each in arrays)]
        kept = 0
        if shuffle:
            kept = int(capacity / 4)
            queue: Any = RandomShuffleQueue(capacity, kept, types, shapes)
        else:
            queue = FIFOQueue(capacity, types, shapes)
        ops, fed, feed_fns = [], [], []
        for _ in range(threads):
            placeholders = [placeholder(each) for each in types]
            fed.append(placeholders)
            ops.append(queue.enqueue_many(placeholders))
            feed_fns.append(Rows(arrays, at_once, num_epochs, random_start=shuffle))
        add_queue_runner(FeedingQueueRunner(queue, ops, fed, feed_fns))
        room = capacity - kept
        full = cast(maximum(0, queue.size() - kept), dtypes.float32) * (1.0 / room)
        add_scalar(f"queue/{queue.name}fraction_over_{kept}_of_{room}_full", full)
        return queue
