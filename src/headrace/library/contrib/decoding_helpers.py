"""Where a decoder's inputs come from: tf.contrib.seq2seq's helpers.

Called by: library.contrib.decoding, programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/seq2seq/python/ops/helper.py)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.contrib.rnn_stacks import transpose_batch_time
from headrace.library.nn.embedding import embedding_lookup
from headrace.ops.array.constants import fill, zeros_like
from headrace.ops.array.gathering import gather_nd, scatter_nd, where
from headrace.ops.array.joining import concat
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, logical_not, logical_or
from headrace.ops.math.reductions import reduce_all, reduce_any
from headrace.ops.math.scans import argmax
from headrace.ops.random.draws import multinomial, random_uniform

__all__ = [
    "CustomHelper",
    "GreedyEmbeddingHelper",
    "Helper",
    "InferenceHelper",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "TrainingHelper",
    "embedding_function",
]


class Helper:
    """Base of helpers; samples are scalars of int32 a sequence unless it says otherwise."""

    _batch_size: Any = None

    @property
    def batch_size(self) -> Any:
        """How many sequences."""
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> TensorShape:
        """Shape of what is sampled of a sequence."""
        return TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """Dtype of what is sampled."""
        return dtypes.int32

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """(finished, first inputs)."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize")

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """What is sampled of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} has no sample")

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """(finished, next inputs, next state)."""
        raise NotImplementedError(f"{type(self).__name__} has no next_inputs")


class CustomHelper(Helper):
    """A helper of the program's functions."""

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        """Functions as of `Helper`, with arguments by name.  sample_ids_shape: scalars by default."""
        self._initialize_fn, self._sample_fn, self._next_fn = (
            initialize_fn,
            sample_fn,
            next_inputs_fn,
        )
        self._shape, self._dtype = (
            TensorShape(sample_ids_shape or []),
            sample_ids_dtype or dtypes.int32,
        )

    @property
    def sample_ids_shape(self) -> TensorShape:
        """See `Helper`."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """See `Helper`."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        with name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = size_of(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        with name_scope(name, "CustomHelperSample", [time]):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        with name_scope(name, "CustomHelperNextInputs", [time]):
            found: tuple[Any, Any, Any] = self._next_fn(
                time=time, outputs=outputs, state=state, sample_ids=sample_ids
            )
            return found


def _likeliest(outputs: Any) -> Any:
    if not hasattr(outputs, "dtype"):
        raise TypeError(f"Expected outputs to be a single Tensor, got: {type(outputs)}")
    return cast(argmax(outputs, axis=-1), dtypes.int32)


def _drawn(logits: Any, seed: int | None) -> Any:
    """A class of each row of logits [batch, classes], by chance."""
    if not hasattr(logits, "dtype"):
        raise TypeError(f"Expected outputs to be a single Tensor, got: {type(logits)}")
    found = multinomial(logits, 1, seed=seed, output_dtype=dtypes.int32)
    return reshape(found, [-1])


class TrainingHelper(Helper):
    """Inputs that are given: [batch, time, ...], or a nest of such."""

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
    ) -> None:
        """sequence_length [batch]; time_major: inputs are [time, batch, ...].  Raises ValueError."""
        with name_scope(name, "TrainingHelper", [sequence_length]):
            inputs = nest.map_structure(convert, inputs)
            self._inputs = inputs
            if not time_major:
                inputs = nest.map_structure(transpose_batch_time, inputs)
            self._arrays = nest.map_structure(
                lambda x: TensorArray(
                    x.dtype, size=shape_of(x)[0], element_shape=x.shape[1:]
                ).unstack(x),
                inputs,
            )
            self._sequence_length = convert(sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise ValueError(
                    "Expected sequence_length to be a vector, but received shape: "
                    f"{self._sequence_length.shape}"
                )
            self._sequence_length = cast(self._sequence_length, dtypes.int32)
            self._zero = nest.map_structure(lambda x: zeros_like(x[0]), inputs)
            self._batch_size = size_of(sequence_length)

    @property
    def inputs(self) -> Any:
        """As they were given."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """As it was given."""
        return self._sequence_length

    def _read(self, time: Any, finished: Any) -> Any:
        def read(array: Any, zero: Any) -> Any:
            return cond(reduce_all(finished), lambda: zero, lambda: array.read(time))

        found = [
            read(*pair)
            for pair in zip(nest.flatten(self._arrays), nest.flatten(self._zero), strict=True)
        ]
        for one, zero in zip(found, nest.flatten(self._zero), strict=True):
            one.set_shape(zero.shape)
        return nest.pack_sequence_as(self._zero, found)

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        with name_scope(name, "TrainingHelperInitialize"):
            finished = equal(0, self._sequence_length)
            return finished, self._read(0, finished)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`: the likeliest."""
        with name_scope(name, "TrainingHelperSample", [time, outputs]):
            return _likeliest(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        with name_scope(name, "TrainingHelperNextInputs", [time, outputs]):
            finished = time + 1 >= self._sequence_length
            return finished, self._read(time + 1, finished), state


def embedding_function(embedding: Any) -> Callable[[Any], Any]:
    """A function of ids: itself, or a lookup in variables."""
    if callable(embedding) and not hasattr(embedding, "dtype"):
        return embedding  # type: ignore[no-any-return]
    return lambda ids: embedding_lookup(embedding, ids)


def _mixed(chosen: Any, given: Any, make: Callable[[Any], Any]) -> Any:
    """Rows of make(indices of the chosen), and of `given` where nothing is chosen."""
    sampling = cast(where(chosen), dtypes.int32)
    others = cast(where(logical_not(chosen)), dtypes.int32)
    shape = shape_of(given)
    return scatter_nd(sampling, make(sampling), shape) + scatter_nd(
        others, gather_nd(given, others), shape
    )


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Inputs that are given, or by chance the embedding of what was sampled (https://arxiv.org/abs/1506.03099)."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        """sampling_probability: of the latter, a number, a scalar or [batch].  Raises ValueError."""
        super().__init__(inputs, sequence_length, time_major=time_major, name=name)
        with name_scope(name, "ScheduledEmbeddingSamplingWrapper", [sampling_probability]):
            self._embedding_fn = embedding_function(embedding)
            self._probability = _probability(sampling_probability)
            self._seed, self._scheduling_seed = seed, scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`: drawn by the outputs' softmax, or -1."""
        with name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time, outputs]):
            chosen = (
                random_uniform([self.batch_size], seed=self._scheduling_seed) < self._probability
            )
            return where(chosen, _drawn(outputs, self._seed), fill([self.batch_size], -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        with name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs", [time, outputs]):
            finished, given, state = super().next_inputs(time, outputs, state, sample_ids)

            def mixed() -> Any:
                return _mixed(
                    sample_ids > -1,
                    given,
                    lambda at: self._embedding_fn(gather_nd(sample_ids, at)),
                )

            found = cond(reduce_all(finished), lambda: given, mixed)
            found.set_shape(given.shape)
            return finished, found, state


def _probability(value: Any) -> Any:
    tensor = convert(value, name="sampling_probability")
    if tensor.shape.ndims not in (0, 1):
        raise ValueError(
            f"sampling_probability must be either a scalar or a vector. saw shape: {tensor.shape}"
        )
    return tensor


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Inputs that are given, or by chance the last outputs."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Any], Any] | None = None,
        auxiliary_inputs: Any = None,
        name: str | None = None,
    ) -> None:
        """next_inputs_fn: of the outputs.  auxiliary_inputs: put beside them in any case.  Raises ValueError."""
        self._more = auxiliary_inputs is not None
        if auxiliary_inputs is not None:
            depth = convert(inputs).shape[-1].value
            if depth is None:
                raise ValueError("the depth of inputs must be known beside auxiliary_inputs")
            self._depth = depth
            inputs = concat([inputs, auxiliary_inputs], axis=-1)
        super().__init__(inputs, sequence_length, time_major=time_major, name=name)
        self._probability, self._seed = _probability(sampling_probability), seed
        self._next_inputs_fn = next_inputs_fn

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`: whether the outputs are taken."""
        with name_scope(name, "ScheduledOutputTrainingHelperSample", [time, outputs]):
            chosen = random_uniform([self.batch_size], seed=self._seed) < self._probability
            return cast(chosen, dtypes.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        with name_scope(name, "ScheduledOutputTrainingHelperNextInputs", [time, outputs]):
            finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
            chosen = cast(sample_ids, dtypes.bool)

            def fed(at: Any) -> Any:
                taken = gather_nd(outputs, at)
                if self._next_inputs_fn is not None:
                    taken = self._next_inputs_fn(taken)
                if self._more:
                    taken = concat([taken, gather_nd(given, at)[:, self._depth :]], axis=-1)
                return taken

            skipped = logical_or(reduce_all(finished), logical_not(reduce_any(chosen)))
            found = cond(skipped, lambda: given, lambda: _mixed(chosen, given, fed))
            found.set_shape(given.shape)
            return finished, found, state


class GreedyEmbeddingHelper(Helper):
    """The embedding of the likeliest symbol of the last outputs."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        """embedding: a function of ids, or what embedding_lookup takes.  start_tokens [batch], end_token a scalar.

        Raises ValueError.
        """
        self._embedding_fn = embedding_function(embedding)
        self._start_tokens = cast(convert(start_tokens, name="start_tokens"), dtypes.int32)
        self._end_token = cast(convert(end_token, name="end_token"), dtypes.int32)
        if self._start_tokens.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        self._batch_size = size_of(start_tokens)
        if self._end_token.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._start_inputs = self._embedding_fn(self._start_tokens)

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        return tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        return _likeliest(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`: a sequence is finished at its end_token."""
        finished = equal(sample_ids, self._end_token)
        found = cond(
            reduce_all(finished),
            lambda: self._start_inputs,
            lambda: self._embedding_fn(sample_ids),
        )
        found.set_shape(self._start_inputs.shape)
        return finished, found, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """The embedding of a symbol that is drawn by the softmax of the last outputs."""

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        """softmax_temperature: what outputs are divided by.  Raises ValueError."""
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        return _drawn(
            outputs if self._temperature is None else outputs / self._temperature, self._seed
        )


class InferenceHelper(Helper):
    """Inputs by the program's functions of what was sampled."""

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        """sample_fn: of outputs.  end_fn: of samples, whether sequences are finished.  next_inputs_fn: of samples."""
        self._sample_fn, self._end_fn, self._next_fn = sample_fn, end_fn, next_inputs_fn
        self._shape, self._dtype = TensorShape(sample_shape), sample_dtype
        self._start_inputs = convert(start_inputs, name="start_inputs")
        self._batch_size = shape_of(start_inputs)[0]

    @property
    def sample_ids_shape(self) -> TensorShape:
        """See `Helper`."""
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        """See `Helper`."""
        return self._dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """See `Helper`."""
        return tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """See `Helper`."""
        following = sample_ids if self._next_fn is None else self._next_fn(sample_ids)
        return self._end_fn(sample_ids), following, state
