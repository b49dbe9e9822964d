"""Decoders that run in a loop until they are finished: tf.contrib.seq2seq's Decoder, BasicDecoder, dynamic_decode.

Called by: library.contrib.beam_search, programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/seq2seq/python/ops/{decoder,basic_decoder}.py)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.contrib.decoding_helpers import Helper
from headrace.library.contrib.rnn_stacks import transpose_batch_time
from headrace.library.rnn.cells import check_is_cell, joined_sizes
from headrace.library.rnn.loops import cached
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import constant, fill, zeros, zeros_like
from headrace.ops.array.gathering import where
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import while_loop
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import logical_not, logical_or
from headrace.ops.math.reductions import reduce_all

__all__ = ["BasicDecoder", "BasicDecoderOutput", "Decoder", "dynamic_decode", "size_after"]


class Decoder:
    """Base of decoders: what is finished, what is next."""

    @property
    def batch_size(self) -> Any:
        """How many sequences."""
        raise NotImplementedError(f"{type(self).__name__} has no batch_size")

    @property
    def output_size(self) -> Any:
        """Size of the outputs of a step: an int, a TensorShape or a nest of them."""
        raise NotImplementedError(f"{type(self).__name__} has no output_size")

    @property
    def output_dtype(self) -> Any:
        """Dtypes, nested as output_size."""
        raise NotImplementedError(f"{type(self).__name__} has no output_dtype")

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """(finished, first inputs, first state)."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize")

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """(outputs, next state, next inputs, finished)."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """(outputs, last state), made of those of all steps, time first."""
        raise NotImplementedError(f"{type(self).__name__} has no finalize")

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `finished` of a step is all that counts; else what is finished stays so."""
        return False


def size_after(layer: Any, size: Any) -> Any:
    """What `layer` makes of outputs of that size.  Raises ValueError where it does not say."""
    if layer is None:
        return size
    if hasattr(layer, "compute_output_shape"):
        shape = TensorShape([None]).concatenate(_shape(size))
        return layer.compute_output_shape(shape)[1:]
    units = getattr(layer, "__dict__", {}).get("_arguments", {}).get("units")
    if units is None:
        raise ValueError(
            f"output_layer must be a tf.layers.Dense or have compute_output_shape: {layer!r}"
        )
    return TensorShape([units])


def _shape(size: Any) -> TensorShape:
    return size if isinstance(size, TensorShape) else TensorShape([size])


class BasicDecoderOutput(NamedTuple):
    """Outputs of a `BasicDecoder`."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell whose inputs a helper makes."""

    def __init__(
        self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None
    ) -> None:
        """output_layer: applied to the cell's outputs before they are sampled.  Raises TypeError."""
        check_is_cell(cell, "cell")
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        if output_layer is not None and not callable(output_layer):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        """See `Decoder`."""
        return self._helper.batch_size

    def _rnn_output_size(self) -> Any:
        size = self._cell.output_size
        if self._output_layer is None:
            return size
        return nest.map_structure(lambda each: size_after(self._output_layer, each), size)

    @property
    def output_size(self) -> Any:
        """See `Decoder`."""
        return BasicDecoderOutput(self._rnn_output_size(), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """See `Decoder`."""
        kind = nest.flatten(self._initial_state)[0].dtype
        size = self._rnn_output_size()
        return BasicDecoderOutput(
            nest.map_structure(lambda _: kind, size), self._helper.sample_ids_dtype
        )

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """See `Decoder`."""
        finished, inputs = self._helper.initialize()
        return finished, inputs, self._initial_state

    def step(
        self, time: Any, inputs: Any, state: Any, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """See `Decoder`."""
        with name_scope(name, "BasicDecoderStep", [time]):
            outputs, new_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            sampled = self._helper.sample(time=time, outputs=outputs, state=new_state)
            finished, following, new_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=new_state, sample_ids=sampled
            )
        return BasicDecoderOutput(outputs, sampled), new_state, following, finished


class _Loop:
    """The body of dynamic_decode's loop."""

    def __init__(self, decoder: Decoder, zero: Any, impute: bool) -> None:
        self._decoder, self._zero, self._impute = decoder, zero, impute

    def __call__(
        self, time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any
    ) -> Any:
        outputs, new_state, following, ended = self._decoder.step(time, inputs, state)
        known = None
        if self._decoder.tracks_own_finished:
            known = getattr(new_state, "lengths", None)
        else:
            ended = logical_or(ended, finished)
        if known is None:
            new_lengths = where(logical_not(finished), fill(shape_of(lengths), time + 1), lengths)
        else:
            new_lengths = cast(known, dtypes.int32)
        for one, other in ((state, new_state), (arrays, outputs), (inputs, following)):
            nest.assert_same_structure(one, other)
        if self._impute:
            outputs = nest.map_structure(
                lambda new, zero: where(finished, zero, new), outputs, self._zero
            )
            new_state = nest.map_structure(
                lambda new, old: _kept(finished, new, old), new_state, state
            )
        arrays = nest.map_structure(lambda array, each: array.write(time, each), arrays, outputs)
        return time + 1, arrays, new_state, following, ended, new_lengths


def _kept(finished: Any, new: Any, old: Any) -> Any:
    if isinstance(old, TensorArray):
        return new
    new.set_shape(old.shape)
    return new if new.shape.ndims == 0 else where(finished, old, new)


def _zeros(sizes: Any, kinds: Any, batch_size: Any) -> Any:
    def one(size: Any, kind: Any) -> Any:
        made = zeros(joined_sizes(batch_size, size), kind)
        made.set_shape(TensorShape([constant_value(convert(batch_size))]).concatenate(_shape(size)))
        return made

    return nest.pack_sequence_as(
        sizes,
        [one(*pair) for pair in zip(nest.flatten(sizes), nest.flatten(kinds), strict=True)],
    )


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
    **kwargs: Any,
) -> tuple[Any, Any, Any]:
    """Steps of `decoder` until all is finished, or there were maximum_iterations: (outputs, last state, lengths).

    Outputs are [batch, time, ...], or [time, batch, ...] if output_time_major.  impute_finished: what is finished keeps
    its state and gives zeros.  kwargs are not heeded.  Raises TypeError, ValueError.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope, "decoder") as current:
        cached(current)
        if maximum_iterations is not None:
            maximum_iterations = convert(maximum_iterations, name="maximum_iterations")
            if maximum_iterations.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
            maximum_iterations = cast(maximum_iterations, dtypes.int32)
        finished, inputs, state = decoder.initialize()
        zero = _zeros(decoder.output_size, decoder.output_dtype, decoder.batch_size)
        if maximum_iterations is not None:
            finished = logical_or(finished, maximum_iterations <= 0)
        batch = constant_value(convert(decoder.batch_size))
        arrays = nest.map_structure(
            lambda each, size: TensorArray(
                each.dtype,
                size=0,
                dynamic_size=True,
                element_shape=TensorShape([batch]).concatenate(_shape(size)),
            ),
            zero,
            decoder.output_size,
        )
        found = while_loop(
            lambda time, arrays, state, inputs, finished, lengths: logical_not(
                reduce_all(finished)
            ),
            _Loop(decoder, zero, impute_finished),
            (
                constant(0, dtype=dtypes.int32),
                arrays,
                state,
                inputs,
                finished,
                zeros_like(finished, dtype=dtypes.int32),
            ),
            parallel_iterations=parallel_iterations,
            maximum_iterations=maximum_iterations,
            swap_memory=swap_memory,
        )
        outputs = nest.map_structure(lambda array: array.stack(), found[1])
        last, lengths = found[2], found[5]
        if type(decoder).finalize is not Decoder.finalize:
            outputs, last = decoder.finalize(outputs, last, lengths)
        if not output_time_major:
            outputs = nest.map_structure(
                lambda x: x if isinstance(x, TensorArray) else transpose_batch_time(x), outputs
            )
    return outputs, last, lengths
