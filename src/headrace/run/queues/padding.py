"""PaddingFIFOQueue: first in, first out, with sizes that vary from element to element.

A batch is as large as its largest element along each size that varies; what an element lacks is
filled with zeros, empty strings or False behind it.
Called by: ops (the PaddingFIFOQueue kernels make it).  Threads, waiting and closing: run.queues.queue.
Source: TF 1.15 core/kernels/padding_fifo_queue.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.run.queues.columns import Array, Batch, ElementList, Oldest, Store, ring_or_chunks
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.uninterrupted import changes


@changes
class PaddingFIFOQueue(Queue):
    """First in, first out; batches are padded."""

    @classmethod
    def make_store(cls, spec: QueueSpec) -> Store:
        """Rows in arrays when no size varies."""
        if spec.shapes is None:
            raise errors.invalid_argument(
                f"a PaddingFIFOQueue of {len(spec.component_types)} components was given no "
                "shapes; give one for each component, with None for sizes that vary"
            )
        fixed = spec.fixed_shapes
        if fixed is not None:
            return ring_or_chunks(spec.component_types, fixed)
        return PaddedList(spec.component_types)

    def shapes_agree(self, wanted: QueueSpec) -> bool:
        """Compatible ones will do, as in TensorFlow: each node checks what it has declared."""
        mine, theirs = self.spec.shapes, wanted.shapes
        if mine is None or theirs is None or len(mine) != len(theirs):
            return mine == theirs
        return all(map(shape_rules.compatible, mine, theirs))


class PaddedList(Oldest, ElementList):
    """Elements one by one, batched with padding."""

    __slots__ = ("_types",)

    def __init__(self, component_types: Sequence[dtypes.DType]) -> None:
        super().__init__()
        self._types = tuple(component_types)
        for dtype in self._types:
            if dtype.np.hasobject and dtype is not dtypes.string:
                raise errors.unimplemented(
                    f"a PaddingFIFOQueue cannot pad components of type {dtype.name}; "
                    "give fully defined shapes, or use a FIFOQueue"
                )

    def take_many(self, count: int) -> Batch:
        """Remove the oldest elements.  Only while nothing is gathered."""
        oldest = [self._elements[at] for at in range(count)]
        batch = tuple(
            [
                padded([element[number] for element in oldest], dtype)
                for number, dtype in enumerate(self._types)
            ]
        )
        for _ in oldest:  # now that no allocation can fail
            self._elements.popleft()
        self.size -= count
        return batch


def padded(values: Sequence[Any], dtype: dtypes.DType) -> Array:
    """Values of one rank stacked along a new axis 0, each filled up behind to the largest sizes."""
    sizes = [max(along) for along in zip(*[value.shape for value in values], strict=True)]
    shape = (len(values), *sizes)
    batch: Array
    if dtype is dtypes.string:
        batch = np.full(shape, b"", object)
    else:
        batch = np.zeros(shape, dtype.np)
    for at, value in enumerate(values):
        if sizes:
            batch[at][tuple(slice(size) for size in value.shape)] = value
        else:
            batch[at] = value[()]
    return batch
