"""Batches of segments of sequences, with states that go on from segment to segment: batch_sequences_with_states.

A sequence is cut into segments of num_unroll steps, all of which go into a barrier at once.  A segment can be taken
when its state is there: that of the first one from the beginning, of every other when the one before it was done and
its state saved.  So a batch has segments of different sequences, each in its order.
Called by: programs.  Threads: as graph; a queue runner fills the barrier.
Source: behaviour of TF 1.15 (contrib/training/python/training/sequence_queueing_state_saver.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.base import dtypes, errors
from headrace.base.arguments import check_mapping
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, fill
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.padding import pad as with_zeros
from headrace.ops.array.ranges import range as numbers
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.data.barriers import GIVES_REST, Barrier
from headrace.ops.data.queues import FIFOQueue
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group, identity, no_op
from headrace.ops.io.summaries import scalar
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.reductions import reduce_any, reduce_sum
from headrace.ops.random.draws import random_uniform
from headrace.ops.string.strings import as_string, string_join
from headrace.ops.tables import make
from headrace.training.queue_runner import QueueRunner, add_queue_runner

__all__ = ["NextQueuedSequenceBatch", "SequenceQueueingStateSaver", "batch_sequences_with_states"]

_FIXED: Final = (
    ("total_length", dtypes.int32),
    ("length", dtypes.int32),
    ("sequence", dtypes.int32),
    ("sequence_count", dtypes.int32),
    ("next_key", dtypes.string),
)
_STOP: Final = "STOP:"
_DIGITS: Final = 5

Named = Mapping[str, Any]


class SequenceQueueingStateSaver:
    """The barrier that segments wait in; `next_batch` takes some, `prefetch_op` puts those of one sequence in."""

    def __init__(
        self,
        batch_size: Any,
        num_unroll: int,
        input_length: Any,
        input_key: Any,
        input_sequences: Named,
        input_context: Named,
        initial_states: Named,
        capacity: int | None = None,
        allow_small_batch: bool = False,
        name: str | None = None,
    ) -> None:
        """num_unroll: steps of a segment.  input_length: steps of the sequence, without what pads it.

        input_key: a string that no other sequence has while this one is under way.  input_sequences: by name, each
        [steps, ...], steps a multiple of num_unroll.  input_context: by name, the same for all segments.
        initial_states: by name, of the first segment.  capacity: sequences under way.  allow_small_batch: at the end.
        Raises ValueError (shapes that are not known, nothing to keep), NotImplementedError (sparse tensors).
        """
        if not initial_states:
            raise ValueError("initial_states must have at least one state variable")
        if num_unroll < 1:
            raise ValueError(f"num_unroll must be at least 1, and is {num_unroll}")
        if capacity is not None and isinstance(batch_size, int) and capacity < batch_size:
            raise ValueError(
                f"capacity is {capacity}, and a batch has segments of {batch_size} sequences: so many must be under way"
            )
        with name_scope(name, "InputQueueingStateSaver") as self._name:
            self._sequences = _tensors(input_sequences, "input_sequences")
            self._context = _tensors(input_context, "input_context")
            self._states = _tensors(initial_states, "initial_states")
            self.num_unroll = num_unroll
            self.batch_size = convert(batch_size, dtypes.int32, "batch_size")
            self._length = convert(input_length, dtypes.int32, "input_length")
            self._key = convert(input_key, dtypes.string, "input_key")
            self._small = allow_small_batch
            self._components = self._described()
            self.barrier = Barrier(
                [kind for _, kind, _ in self._components],
                [shape for _, _, shape in self._components],
                name="barrier",
            )
            self._tokens = None
            if capacity is not None:
                self._tokens = FIFOQueue(capacity, [dtypes.int32], [[]], name="capacity_queue")
            self._next: NextQueuedSequenceBatch | None = None
            self.prefetch_op = self._prefetched()

    def _described(self) -> list[tuple[str, Any, list[int]]]:
        """Name, dtype and shape of each component of a segment."""
        found: list[tuple[str, Any, list[int]]] = [(name, kind, []) for name, kind in _FIXED]
        for kind, tensors in (
            ("context", self._context),
            ("sequences", self._sequences),
            ("state", self._states),
        ):
            for name, tensor in tensors.items():
                shape = tensor.shape[1:] if kind == "sequences" else tensor.shape
                if not shape.is_fully_defined():
                    raise ValueError(
                        f"the shape of {kind} {name!r} must be known but for the number of steps: {tensor.name} has "
                        f"{tensor.shape}"
                    )
                sizes = shape.as_list()
                whole = [self.num_unroll, *sizes] if kind == "sequences" else sizes
                found.append((f"{kind}/{name}", tensor.dtype.base_dtype, whole))
        return found

    @property
    def name(self) -> str:
        """Of the barrier."""
        return self.barrier.name

    def component(self, name: str) -> int:
        """The number of a component.  Raises KeyError."""
        return [each for each, _, _ in self._components].index(name)

    # -- in -------------------------------------------------------------------------------------

    def _prefetched(self) -> Operation:
        """The operation that puts the segments of a sequence in, the first with its state."""
        steps = self._steps()
        with control_dependencies(self._checks(steps)):
            count = make.FloorDiv(steps, self.num_unroll)
            numbered = numbers(count)
        begins = [] if self._tokens is None else [self._tokens.enqueue(0)]
        with control_dependencies(begins):
            keys = _segment_keys(numbered, count, self._key)
            following = concat([keys[1:], expand_dims(string_join([_STOP, self._key]), 0)], 0)
            left = self._length - numbered * self.num_unroll
            values = {
                "total_length": _repeated(self._length, count),
                "length": clip_by_value(left, 0, self.num_unroll),
                "sequence": numbered,
                "sequence_count": _repeated(count, count),
                "next_key": following,
            }
            for name, tensor in self._context.items():
                values[f"context/{name}"] = _repeated(tensor, count)
            for name, tensor in self._sequences.items():
                cut = concat([[count, self.num_unroll], shape_of(tensor)[1:]], 0)
                values[f"sequences/{name}"] = reshape(tensor, cut)
            puts = [self._put(name, keys, value) for name, value in values.items()]
            puts += [
                self._put(f"state/{name}", keys[:1], expand_dims(tensor, 0))
                for name, tensor in self._states.items()
            ]
            made: Operation = group(*puts, name="prefetch")
        return made

    def _put(self, name: str, keys: Any, values: Any) -> Operation:
        return self.barrier.insert_many(self.component(name), keys, values)

    def _steps(self) -> Any:
        """How many the sequences have, what pads them included."""
        if not self._sequences:
            return (
                make.FloorDiv(self._length + (self.num_unroll - 1), self.num_unroll)
                * self.num_unroll
            )
        return shape_of(next(iter(self._sequences.values())))[0]

    def _checks(self, steps: Any) -> list[Operation]:
        lengths = {name: shape_of(each)[0] for name, each in self._sequences.items()}
        checks = [
            Assert(
                make.Equal(make.FloorMod(steps, self.num_unroll), 0),
                ["the steps of the sequences are no multiple of num_unroll; pad them:", steps],
            ),
            Assert(
                make.LessEqual(self._length, steps),
                ["input_length is larger than the steps of the sequences:", self._length, steps],
            ),
        ]
        for name, length in lengths.items():
            checks.append(
                Assert(
                    make.Equal(length, steps),
                    [f"Dimension 0 of the sequences differs, that of {name}:", length, steps],
                )
            )
        return checks

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No more sequences; cancelling, what is in is dropped."""
        closed = [self.barrier.close(cancel_pending_enqueues)]
        if self._tokens is not None:
            closed.append(self._tokens.close(cancel_pending_enqueues))
        made: Operation = group(
            *closed, name=name or f"{self.name.rpartition('/')[2]}_BarrierClose"
        )
        return made

    # -- out ------------------------------------------------------------------------------------

    @property
    def next_batch(self) -> NextQueuedSequenceBatch:
        """The batch that a step takes: always the same one."""
        if self._next is None:
            with name_scope(f"{self._name}next_batch/"):
                self._next = NextQueuedSequenceBatch(self)
        return self._next

    def _taken(self) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        found = self.barrier.take_many(self.batch_size, self._small)
        found.indices.op._set_attr(GIVES_REST, True)
        values = dict(zip([name for name, _, _ in self._components], found.values, strict=True))
        if self._tokens is None:
            return found.indices, found.keys, values
        last = make.Equal(values["sequence"] + 1, values["sequence_count"])
        ended = self._tokens.dequeue_many(reduce_sum(cast(last, dtypes.int32)))
        with control_dependencies([ended]):
            return found.indices, identity(found.keys), values


class NextQueuedSequenceBatch:
    """Segments, one of each of batch_size sequences, and the states that they begin with.

    A step that takes them has to run what `save_state` gives for each state, else those sequences do not go on.
    """

    def __init__(self, state_saver: SequenceQueueingStateSaver) -> None:
        self._saver = state_saver
        self.insertion_index, self.key, values = state_saver._taken()
        self._values = values
        self.total_length, self.length = values["total_length"], values["length"]
        self.sequence, self.sequence_count = values["sequence"], values["sequence_count"]
        self.next_key = values["next_key"]
        self.context = self._named("context")
        self.sequences = self._named("sequences")

    def _named(self, kind: str) -> dict[str, Tensor]:
        start = f"{kind}/"
        return {
            name.removeprefix(start): each
            for name, each in self._values.items()
            if name.startswith(start)
        }

    @property
    def batch_size(self) -> Tensor:
        """How many segments there are: fewer at the end, where that is allowed."""
        return shape_of(self.total_length)[0]

    def state(self, state_name: str) -> Tensor:
        """The state that the segments begin with, [batch, ...].  Raises KeyError."""
        found = self._values.get(f"state/{state_name}")
        if found is None:
            raise KeyError(
                f"state was not declared: {state_name}; there is {', '.join(self._named('state'))}"
            )
        return found

    def save_state(self, state_name: str, value: Any, name: str | None = None) -> Operation:
        """The operation that gives the segments which follow these their state, [batch, ...].  Raises KeyError."""
        begun = self.state(state_name)
        with name_scope(name, "save_state"):
            value = convert(value, begun.dtype)
            value.set_shape(begun.shape)
            goes_on = make.Less(self.sequence + 1, self.sequence_count)
            rows = reshape(make.Where(goes_on), [-1])
            keys, kept = gather(self.next_key, rows), gather(value, rows)
            saved: Operation = cond(
                reduce_any(goes_on),
                lambda: self._saver._put(f"state/{state_name}", keys, kept),
                no_op,  # a barrier that is closed, and has nothing to be completed, takes nothing
            )
            return saved


def _segment_keys(numbered: Any, count: Any, key: Any) -> Tensor:
    """00000_of_00003:key, …"""
    at, of = (as_string(each, width=_DIGITS, fill="0") for each in (numbered, count))
    made: Tensor = string_join([at, "_of_", of, ":", key])
    return made


def _repeated(value: Any, count: Any) -> Any:
    """[count, ...]"""
    ones = fill(expand_dims(make.Rank(value), 0), 1)
    return make.Tile(expand_dims(value, 0), concat([[count], ones], 0))


def _tensors(given: Named, what: str) -> dict[str, Any]:
    """In the order of their names."""
    check_mapping("batch_sequences_with_states", what, given, "tensors by names")
    found = {}
    for name in sorted(given):
        if isinstance(given[name], SparseTensor):
            raise NotImplementedError(
                f"{what}[{name!r}] is a SparseTensor; give it as a dense tensor (tf.sparse.to_dense), whose rows can "
                "be cut"
            )
        found[name] = convert(given[name], None, name)
    return found


def batch_sequences_with_states(
    input_key: Any,
    input_sequences: Named,
    input_context: Named,
    input_length: Any,
    initial_states: Named,
    num_unroll: int,
    batch_size: Any,
    num_threads: int = 3,
    capacity: int = 1000,
    allow_small_batch: bool = True,
    pad: bool = True,
    make_keys_unique: bool = False,
    make_keys_unique_seed: int | None = None,
    name: str | None = None,
) -> NextQueuedSequenceBatch:
    """Batches of segments of sequences; a queue runner of num_threads threads puts sequences in.

    See `SequenceQueueingStateSaver`.  input_length: of the sequence; None: all that there is.  pad: fill sequences up
    to a multiple of num_unroll, with zeros.  make_keys_unique: put a number behind each key, drawn at random.
    """
    with name_scope(name, "batch_sequences_with_states"):
        sequences = _tensors(input_sequences, "input_sequences")
        if not sequences:
            raise ValueError("input_sequences must have at least one sequence")
        if input_length is None:
            input_length = shape_of(next(iter(sequences.values())))[0]
        if pad:
            sequences = {each: _padded(tensor, num_unroll) for each, tensor in sequences.items()}
        if make_keys_unique:
            number = random_uniform([], 0, 100_000_000, dtypes.int32, seed=make_keys_unique_seed)
            input_key = string_join([input_key, as_string(number)], "_")
        reader = SequenceQueueingStateSaver(
            batch_size,
            num_unroll,
            input_length,
            input_key,
            sequences,
            input_context,
            initial_states,
            capacity,
            allow_small_batch,
        )
        ready = cast(reader.barrier.ready_size(), dtypes.float32)
        scalar(f"queue/{reader.name}/ready_segment_batches_", ready)
        add_queue_runner(
            QueueRunner(
                reader,
                [reader.prefetch_op] * num_threads,
                queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError),
            )
        )
        return reader.next_batch


def _padded(tensor: Any, num_unroll: int) -> Any:
    """With zeros behind its steps."""
    missing = make.FloorMod(-shape_of(tensor)[0], num_unroll)
    rank = tensor.shape.ndims
    if rank is None:
        raise ValueError(f"the rank of {tensor.name} must be known, so that it can be padded")
    rows = [constant([0, 0]) for _ in range(rank - 1)]
    padded = with_zeros(tensor, make.Pack([make.Pack([constant(0), missing]), *rows]))
    padded.set_shape([None, *tensor.shape[1:]])
    return padded
