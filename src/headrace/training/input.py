"""Input producers: queues of file names, numbers or slices, kept full by a QueueRunner.

Called by: programs.  Threads: as graph; the runners' threads start with `start_queue_runners`.
Source: TF 1.15 python/training/input.py, for behaviour; node names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import constant
from headrace.ops.array.ranges import range as range_
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size
from headrace.ops.data.queues import FIFOQueue
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.io.files import matching_files
from headrace.ops.io.summaries import add_scalar
from headrace.ops.math.casting import cast
from headrace.ops.random.draws import random_shuffle
from headrace.training.queue_runner import QueueRunner, add_queue_runner

__all__ = [
    "input_producer",
    "limit_epochs",
    "match_filenames_once",
    "range_input_producer",
    "slice_input_producer",
    "string_input_producer",
]

_EMPTY = "string_input_producer requires a non-null input tensor"


def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """A local variable that holds the names of the files that match, from its initialization on."""
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return Variable(
            name=scope,
            initial_value=matching_files(pattern),
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """`tensor`, which can be evaluated `num_epochs` times; then it raises OutOfRangeError.

    The count is a local variable.  None: no limit.  Raises ValueError.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = Variable(
            constant(0, dtype=dtypes.int64),
            name="epochs",
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return identity(tensor, name=scope)


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of the rows of `input_tensor`, over and over, or `num_epochs` times.

    shuffle: in a new order each time.  element_shape: of a row, where it is not known statically.
    Raises ValueError.
    """
    with name_scope(name, "input_producer", [input_tensor]):
        rows = convert(input_tensor, None, "input_tensor")
        shape = rows.get_shape().with_rank_at_least(1)[1:].merge_with(TensorShape(element_shape))
        if not shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified: "
                f"{rows.name} has shape {rows.get_shape()}"
            )
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(
            capacity=capacity,
            dtypes=[rows.dtype.base_dtype],
            shapes=[shape],
            shared_name=shared_name,
            name=name,  # type: ignore[arg-type]  # None: the op's own name, as in TensorFlow
        )
        enqueue = queue.enqueue_many([rows])
        add_queue_runner(QueueRunner(queue, [enqueue], cancel_op=cancel_op))
        if summary_name is not None:
            add_scalar(summary_name, cast(queue.size(), dtypes.float32) * (1.0 / capacity))
        return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of strings such as file names; see `input_producer`.

    Raises ValueError for an empty list; in a step, InvalidArgumentError for an empty tensor.
    """
    if not isinstance(string_tensor, (Tensor, Variable)) and not len(string_tensor):
        raise ValueError(_EMPTY)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        strings = convert(string_tensor, dtypes.string)
        some = get("Greater")(size(strings), 0, name="Greater")
        with control_dependencies([Assert(some, [_EMPTY])]):
            strings = identity(strings)
        return input_producer(
            strings,
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            name=scope,
            summary_name=f"fraction_of_{capacity}_full",
            cancel_op=cancel_op,
        )


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue of the integers from 0 to before `limit`; see `input_producer`."""
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            range_(limit),
            [],
            num_epochs,
            shuffle,
            seed,
            capacity,
            shared_name,
            f"fraction_of_{capacity}_full",
            scope,
        )


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """One slice of each tensor at an index that a queue gives; see `input_producer`.

    Raises ValueError for an empty list.
    """
    with name_scope(name, "input_producer", list(tensor_list)):
        tensors = [convert(value) for value in tensor_list]
        if not tensors:
            raise ValueError(
                "Expected at least one tensor in slice_input_producer(), to take slices of"
            )
        queue = range_input_producer(
            shape_of(tensors[0])[0],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
        )
        index = queue.dequeue()
        return [get("GatherV2")(tensor, index, 0) for tensor in tensors]
