"""Sequences to sequences, unrolled: tf.contrib.legacy_seq2seq.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/legacy_seq2seq/python/ops/seq2seq.py)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes, nest
from headrace.base.arguments import check_function, several
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.contrib.rnn_weights import depth_of, linear
from headrace.library.contrib.rnn_wrappers import EmbeddingWrapper, OutputProjectionWrapper
from headrace.library.contrib.sequence_losses import (
    check_steps,
    legacy_sequence_loss,
    sequence_loss_by_example,
)
from headrace.library.nn.embedding import embedding_lookup
from headrace.library.rnn.cells import check_is_cell
from headrace.library.rnn.loops import static_rnn
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import tanh
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.scans import argmax
from headrace.ops.nn.bias import xw_plus_b
from headrace.ops.nn.convolution_calls import conv2d
from headrace.ops.nn.softmax import softmax

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "feeding",
    "model_with_buckets",
    "one2many_rnn_seq2seq",
    "rnn_decoder",
    "tied_rnn_seq2seq",
]

LoopFunction = Callable[[Any, int], Any]
Decoded = tuple[list[Any], Any]
"""Outputs, one a step, and the last state."""


def rnn_decoder(
    decoder_inputs: Iterable[Any],
    initial_state: Any,
    cell: Any,
    loop_function: LoopFunction | None = None,
    scope: Any = None,
) -> Decoded:
    """Run `cell` on [batch, depth] a step: (outputs, last state).

    loop_function(output, step): makes the next input of the last output, in the place of decoder_inputs but the first.
    """
    if decoder_inputs is None:
        raise TypeError("decoder_inputs must be a list of tensors, one for each step, and is None")
    decoder_inputs = several("rnn_decoder", "decoder_inputs", decoder_inputs, "tensors")
    check_function("rnn_decoder", "cell", cell, "BasicLSTMCell(4)")
    state, outputs, last = initial_state, [], None
    with variable_scope(scope or "rnn_decoder"):
        for step, given in enumerate(decoder_inputs):
            if loop_function is not None and last is not None:
                with variable_scope("loop_function", reuse=True):
                    given = loop_function(last, step)
            if step > 0:
                get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
            last = output
    return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: list[Any],
    decoder_inputs: list[Any],
    cell: Any,
    dtype: Any = dtypes.float32,
    scope: Any = None,
) -> Decoded:
    """A copy of `cell` reads [batch, depth] a step, and `cell` goes on from its last state."""
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: list[Any],
    decoder_inputs: list[Any],
    cell: Any,
    loop_function: LoopFunction | None = None,
    dtype: Any = dtypes.float32,
    scope: Any = None,
) -> Decoded:
    """`cell` reads, and goes on from its last state; one set of variables."""
    with variable_scope("combined_tied_rnn_seq2seq"):
        inner = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=inner)
        get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope=inner)


def feeding(
    embedding: Any, output_projection: Any = None, update_embedding: bool = True
) -> LoopFunction:
    """The likeliest symbol of the last output, embedded.  update_embedding: gradients go on to the embedding."""

    def loop_function(last: Any, step: int) -> Any:
        if output_projection is not None:
            last = xw_plus_b(last, output_projection[0], output_projection[1])
        found = embedding_lookup(embedding, argmax(last, 1))
        return found if update_embedding else stop_gradient(found)

    return loop_function


def _check_projection(projection: Any, size: Any, symbols: int, dtype: Any) -> None:
    """Raises ValueError."""
    weights, biases = (convert(each, dtype=dtype) for each in projection)
    weights.shape.assert_is_compatible_with([size, symbols])
    biases.shape.assert_is_compatible_with([symbols])


def embedding_rnn_decoder(
    decoder_inputs: list[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> Decoded:
    """`rnn_decoder` of ids [batch] a step, looked up in the variable `embedding`.

    output_projection: (weights, biases) from outputs to symbols, for what is fed back.  feed_previous: each step takes
    the likeliest symbol of the last, and only the first of decoder_inputs counts.  Raises ValueError.
    """
    with variable_scope(scope or "embedding_rnn_decoder") as current:
        if output_projection is not None:
            _check_projection(output_projection, None, num_symbols, current.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        function = None
        if feed_previous:
            function = feeding(embedding, output_projection, update_embedding_for_previous)
        inputs = (embedding_lookup(embedding, each) for each in decoder_inputs)
        return rnn_decoder(inputs, initial_state, cell, loop_function=function)


def _either(feed_previous: Any, count: int, decode: Callable[[bool], Decoded]) -> Decoded:
    """decode(feed_previous), which is known when the graph is built or a tensor; `count` outputs."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)
    structure: list[Any] = []

    def flat(fed: bool) -> list[Any]:
        with variable_scope(get_variable_scope(), reuse=None if fed else True):
            outputs, state = decode(fed)
        structure.append(state)
        return [*outputs, *nest.flatten(state)]

    found = cond(feed_previous, lambda: flat(True), lambda: flat(False))
    return list(found[:count]), nest.pack_sequence_as(structure[0], list(found[count:]))


def embedding_rnn_seq2seq(
    encoder_inputs: list[Any],
    decoder_inputs: list[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """`basic_rnn_seq2seq` of ids [batch] a step; outputs are of symbols unless there is an output_projection.

    feed_previous: see `embedding_rnn_decoder`; may be a boolean tensor.
    """
    check_steps(encoder_inputs=encoder_inputs, decoder_inputs=decoder_inputs)
    with variable_scope(scope or "embedding_rnn_seq2seq") as current:
        kind = _kind_of(current, dtype)
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=kind)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(fed: bool) -> Decoded:
            return embedding_rnn_decoder(
                decoder_inputs,
                state,
                cell,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=fed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
            )

        return _either(feed_previous, len(decoder_inputs), decode)


def _kind_of(scope: Any, dtype: Any) -> Any:
    if dtype is not None:
        scope.set_dtype(dtype)
    return scope.dtype


def embedding_tied_rnn_seq2seq(
    encoder_inputs: list[Any],
    decoder_inputs: list[Any],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """`tied_rnn_seq2seq` of ids [batch] a step: one embedding, one cell.  See `embedding_rnn_seq2seq`."""
    with variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as current:
        symbols = num_symbols if num_decoder_symbols is None else num_decoder_symbols
        if output_projection is not None:
            _check_projection(output_projection, None, symbols, current.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size], current.dtype)
        read = [embedding_lookup(embedding, each) for each in encoder_inputs]
        given = [embedding_lookup(embedding, each) for each in decoder_inputs]
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, symbols)

        def decode(fed: bool) -> Decoded:
            trained = isinstance(feed_previous, bool)
            function = feeding(embedding, output_projection, trained) if fed else None
            return tied_rnn_seq2seq(read, given, cell, loop_function=function, dtype=current.dtype)

        return _either(feed_previous, len(decoder_inputs), decode)


class _Heads:
    """What attention asks: states [batch, length, size], and variables AttnW_0, AttnV_0, … a head."""

    def __init__(self, states: Any, heads: int, dtype: Any) -> None:
        self.size: int = states.shape[2].value
        length = states.shape[1].value
        self._length = shape_of(states)[1] if length is None else length
        self._hidden = reshape(states, [-1, self._length, 1, self.size])
        self._dtype = dtype
        self._features, self._weights = [], []
        for head in range(heads):
            kernel = get_variable(f"AttnW_{head}", [1, 1, self.size, self.size])
            self._features.append(conv2d(self._hidden, kernel, [1, 1, 1, 1], "SAME"))
            self._weights.append(get_variable(f"AttnV_{head}", [self.size]))

    def __call__(self, query: Any) -> list[Any]:
        """What the states of a decoder attend to, [batch, size] a head."""
        parts = nest.flatten(query)
        for part in parts:
            if part.raw_shape is not None and len(part.raw_shape) != 2:
                raise ValueError(
                    f"attention asks by matrices, and {part.name} has shape {part.shape}"
                )
        joined = concat(parts, 1) if nest.is_nested(query) else query
        found = []
        for head, (features, weights) in enumerate(zip(self._features, self._weights, strict=True)):
            with variable_scope(f"Attention_{head}"):
                asked = reshape(linear(joined, self.size), [-1, 1, 1, self.size])
                asked = cast(asked, self._dtype)
                score = reduce_sum(weights * tanh(features + asked), [2, 3])
                share = cast(softmax(cast(score, dtypes.float32)), self._dtype)
                weighed = reshape(share, [-1, self._length, 1, 1]) * self._hidden
                found.append(reshape(reduce_sum(weighed, [1, 2]), [-1, self.size]))
        return found


def attention_decoder(
    decoder_inputs: Iterable[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: LoopFunction | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`rnn_decoder` whose cell also takes what its state attends to in attention_states [batch, length, size].

    Outputs are projected to output_size, the cell's by default.  initial_state_attention: attend before the first step;
    else it takes zeros.  Variables: AttnW_i, AttnV_i, kernel, bias, Attention_i/…, AttnOutputProjection/….
    Raises ValueError.
    """
    given = () if decoder_inputs is None else decoder_inputs
    inputs = several("attention_decoder", "decoder_inputs", given, "tensors")
    if not inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    attention_states = convert(attention_states)
    check_is_cell(cell, "cell")
    if attention_states.shape.ndims != 3:
        raise ValueError(
            f"attention_states are [batch, length, size], and have shape {attention_states.shape}"
        )
    if not isinstance(num_heads, int) or num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape[2].value is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    size = cell.output_size if output_size is None else output_size
    with variable_scope(scope or "attention_decoder", dtype=dtype) as current:
        heads = _Heads(attention_states, num_heads, current.dtype)
        state, outputs, last = initial_state, [], None
        batch = shape_of(inputs[0])[0]
        attended = [zeros(stack([batch, heads.size]), current.dtype) for _ in range(num_heads)]
        for each in attended:
            each.set_shape([None, heads.size])
        if initial_state_attention:
            attended = heads(initial_state)
        for step, given in enumerate(inputs):
            if step > 0:
                get_variable_scope().reuse_variables()
            if loop_function is not None and last is not None:
                with variable_scope("loop_function", reuse=True):
                    given = loop_function(last, step)
            made, state = cell(linear([given, *attended], depth_of(given)), state)
            reuse = True if step == 0 and initial_state_attention else None
            with variable_scope(get_variable_scope(), reuse=reuse):
                attended = heads(state)
            with variable_scope("AttnOutputProjection"):
                last = linear([made, *attended], size)
            outputs.append(last)
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: list[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`attention_decoder` of ids [batch] a step; see `embedding_rnn_decoder`.  Raises ValueError."""
    size = cell.output_size if output_size is None else output_size
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype) as current:
        if output_projection is not None:
            _check_projection(output_projection, size, num_symbols, current.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        function = None
        if feed_previous:
            function = feeding(embedding, output_projection, update_embedding_for_previous)
        return attention_decoder(
            [embedding_lookup(embedding, each) for each in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size=size,
            num_heads=num_heads,
            loop_function=function,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: list[Any],
    decoder_inputs: list[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """`embedding_rnn_seq2seq` whose decoder attends to the encoder's outputs."""
    check_steps(encoder_inputs=encoder_inputs, decoder_inputs=decoder_inputs)
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as current:
        kind = current.dtype
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        read, state = static_rnn(encoder, encoder_inputs, dtype=kind)
        states = concat([reshape(each, [-1, 1, cell.output_size]) for each in read], 1)
        size = None
        if output_projection is None:
            cell, size = OutputProjectionWrapper(cell, num_decoder_symbols), num_decoder_symbols

        def decode(fed: bool) -> Decoded:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                states,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=size,
                output_projection=output_projection,
                feed_previous=fed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
                initial_state_attention=initial_state_attention,
            )

        return _either(feed_previous, len(decoder_inputs), decode)


def one2many_rnn_seq2seq(
    encoder_inputs: list[Any],
    decoder_inputs_dict: Mapping[str, list[Any]],
    enc_cell: Any,
    dec_cells_dict: Mapping[str, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: Mapping[str, int],
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """`embedding_rnn_seq2seq` with several decoders: outputs and last states by the decoders' names."""
    outputs, states = {}, {}
    with variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as current:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=current.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)

                def decode(
                    fed: bool, given: Any = inputs, cell: Any = cell, symbols: int = symbols
                ) -> Decoded:
                    return embedding_rnn_decoder(
                        given,
                        state,
                        cell,
                        symbols,
                        embedding_size,
                        feed_previous=fed,
                        update_embedding_for_previous=isinstance(feed_previous, bool),
                    )

                outputs[name], states[name] = _either(feed_previous, len(inputs), decode)
    return outputs, states


def model_with_buckets(
    encoder_inputs: list[Any],
    decoder_inputs: list[Any],
    targets: list[Any],
    weights: list[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[list[Any], list[Any]], Decoded],
    softmax_loss_function: Any = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[list[Any]], list[Any]]:
    """One model for each bucket, (steps of the encoder, of the decoder), of the same variables: (outputs, losses).

    per_example_loss: losses are [batch], else scalars.  Raises ValueError.
    """
    check_steps(encoder_inputs=encoder_inputs, decoder_inputs=decoder_inputs)
    check_steps(targets=targets, weights=weights, buckets=buckets)
    check_function("model_with_buckets", "seq2seq", seq2seq, "basic_rnn_seq2seq")
    if not buckets or not all(
        isinstance(each, (list, tuple)) and len(each) == 2 for each in buckets
    ):
        raise ValueError(
            f"model_with_buckets: buckets must be pairs (steps read, steps written), and are {buckets!r:.200}"
        )
    for given, at, what in (
        (encoder_inputs, 0, "encoder_inputs"),
        (targets, 1, "targets"),
        (weights, 1, "weights"),
    ):
        if len(given) < buckets[-1][at]:
            raise ValueError(
                f"Length of {what} ({len(given)}) must be at least that of last bucket ({buckets[-1][at]})."
            )
    loss = sequence_loss_by_example if per_example_loss else legacy_sequence_loss
    outputs, losses = [], []
    with name_scope(
        name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]
    ):
        for number, (read, written) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if number else None):
                found, _ = seq2seq(encoder_inputs[:read], decoder_inputs[:written])
                outputs.append(found)
                losses.append(
                    loss(
                        found,
                        targets[:written],
                        weights[:written],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses
