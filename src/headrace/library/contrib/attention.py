"""Attention to a memory, and cells that attend: tf.contrib.seq2seq's mechanisms and AttentionWrapper.

Called by: library.contrib.beam_search, programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/seq2seq/python/ops/attention_wrapper.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.contrib.decoding import size_after
from headrace.library.layers.classes import Dense
from headrace.library.rnn.cells import RNNCell, check_is_cell, zero_state
from headrace.library.variables.initializers import (
    constant_initializer,
    ones_initializer,
    zeros_initializer,
)
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import ones_like, zeros
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.shapes import expand_dims, reshape, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal, assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.linalg.products import matmul
from headrace.ops.math.elementwise import rsqrt, tanh
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.scans import argmax
from headrace.ops.nn.softmax import softmax

__all__ = [
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "LuongAttention",
    "Mechanism",
    "bahdanau_score",
    "compute_attention",
    "hardmax",
    "luong_score",
    "maybe_mask_score",
    "prepare_memory",
]


def hardmax(logits: Any, name: str | None = None) -> Any:
    """1 for the largest logit, 0 for all others."""
    with name_scope(name, "Hardmax", [logits]):
        logits = convert(logits, name="logits")
        if logits.shape.ndims == 0:
            raise ValueError("hardmax: logits must have one dimension at least, and is a scalar")
        depth = logits.shape[-1].value
        return one_hot(
            argmax(logits, -1),
            shape_of(logits)[-1] if depth is None else depth,
            dtype=logits.dtype,
        )


class AttentionMechanism:
    """Base of mechanisms, also of programs' own: called with (query, state), one gives (alignments, state)."""

    @property
    def alignments_size(self) -> Any:
        """How many entries the memory has."""
        raise NotImplementedError(f"{type(self).__name__} has no alignments_size")

    @property
    def state_size(self) -> Any:
        """Size of the mechanism's state."""
        raise NotImplementedError(f"{type(self).__name__} has no state_size")


def prepare_memory(
    memory: Any, memory_sequence_length: Any = None, check_inner_dims_defined: bool = True
) -> Any:
    """The memory [batch, time, ...], 0 where sequences have ended.  Raises ValueError: an inner size is not known."""
    memory = convert(memory, name="memory")
    if check_inner_dims_defined and not memory.shape[2:].is_fully_defined():
        raise ValueError(
            f"Expected memory {memory.name} to have fully defined inner dims, but saw shape: {memory.shape}"
        )
    if memory_sequence_length is None:
        return memory
    inside = sequence_mask(memory_sequence_length, shape_of(memory)[1], dtype=memory.dtype)
    rest = len(memory.shape) - 2
    return memory * reshape(inside, concat([shape_of(inside), [1] * rest], 0))


def maybe_mask_score(score: Any, memory_sequence_length: Any, score_mask_value: Any) -> Any:
    """Scores [batch, entries], those beyond the lengths masked; as they are if there are no lengths."""
    if memory_sequence_length is None:
        return score
    says = "All values in memory_sequence_length must greater than zero."
    with control_dependencies([assert_positive(memory_sequence_length, message=says)]):
        inside = sequence_mask(memory_sequence_length, shape_of(score)[1])
        return where(inside, score, score_mask_value * ones_like(score))


class Mechanism(AttentionMechanism):
    """What mechanisms share: a masked memory [batch, time, depth], keys of it, and a distribution over time.

    Programs that subclass it, or a mechanism below, call ``self._probability_fn(score, state)``.
    """

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Callable[[Any, Any], Any],
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        check_inner_dims_defined: bool = True,
        score_mask_value: Any = None,
        custom_key_value_fn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        name: str | None = None,
    ) -> None:
        """probability_fn: alignments of scores, masked as said, and of the state before.

        Raises TypeError; ValueError: an inner size of the memory is not known.
        """
        for what, layer in (("query_layer", query_layer), ("memory_layer", memory_layer)):
            if layer is not None and not callable(layer):
                raise TypeError(f"{what} is not a Layer: {type(layer).__name__}")
        if not callable(probability_fn):
            raise TypeError(f"probability_fn must be callable, saw type: {type(probability_fn)}")
        self._query_layer, self._memory_layer = query_layer, memory_layer
        masked = float("-inf") if score_mask_value is None else score_mask_value
        with name_scope(name, "BaseAttentionMechanismInit"):
            lengths = None
            memory = convert(memory, name="memory")
            if memory_sequence_length is not None:
                lengths = convert(memory_sequence_length, name="memory_sequence_length")
            self._values = prepare_memory(memory, lengths, check_inner_dims_defined)
            self._keys = self._values if memory_layer is None else memory_layer(self._values)
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
        self._probability_fn: Callable[[Any, Any], Any] = lambda score, state: probability_fn(
            maybe_mask_score(score, lengths, masked), state
        )

    @property
    def memory_layer(self) -> Any:
        """What makes keys of the memory."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """What queries pass."""
        return self._query_layer

    @property
    def values(self) -> Any:
        """The memory, 0 where sequences have ended."""
        return self._values

    @property
    def keys(self) -> Any:
        """What queries are compared with."""
        return self._keys

    def _size(self, axis: int) -> Any:
        known = self._keys.shape[axis].value
        return shape_of(self._keys)[axis] if known is None else known

    @property
    def batch_size(self) -> Any:
        """How many sequences."""
        return self._size(0)

    @property
    def alignments_size(self) -> Any:
        """How many entries the memory has."""
        return self._size(1)

    @property
    def _batch_size(self) -> Any:
        return self.batch_size

    @property
    def _alignments_size(self) -> Any:
        return self.alignments_size

    @property
    def state_size(self) -> Any:
        """That of the alignments."""
        return self.alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros [batch, entries]."""
        return zero_state(self.alignments_size, batch_size, dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """As `initial_alignments`."""
        return self.initial_alignments(batch_size, dtype)

    def _aligned(self, score: Any, state: Any = None) -> tuple[Any, Any]:
        alignments = self._probability_fn(score, state)
        return alignments, alignments

    def _probability_of(self, given: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any]:
        """Of scores and state, from what a mechanism was given, a function of scores alone."""
        chosen = softmax if given is None else given
        if not callable(chosen):
            raise TypeError(f"probability_fn must be callable, saw type: {type(chosen)}")
        return lambda score, state: chosen(score)


def _check_depths(query: Any, keys: Any) -> None:
    depth, units = query.shape[-1].value, keys.shape[-1].value
    if depth != units:
        raise ValueError(
            f"Incompatible or unknown inner dimensions between query and keys. Query ({query.name}) has units: "
            f"{depth}. Keys ({keys.name}) have units: {units}. Perhaps you need to set num_units to the "
            f"keys' dimension ({units})?"
        )


def luong_score(query: Any, keys: Any, scale: Any) -> Any:
    """Products [batch, entries] of a query [batch, units] and keys.  Raises ValueError: their depths differ.

    scale: what they are multiplied by; True for the variable attention_g.
    """
    _check_depths(query, keys)
    score = squeeze(matmul(expand_dims(query, 1), keys, transpose_b=True), [1])
    if scale is None or scale is False:
        return score
    if scale is True:
        scale = get_variable("attention_g", [], query.dtype, ones_initializer())
    return score * scale


class LuongAttention(Mechanism):
    """Scores are products of query and keys (https://arxiv.org/abs/1508.04025)."""

    _scope = "luong_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        name: str = "LuongAttention",
    ) -> None:
        """num_units: of the keys, and of queries.  scale: scores are multiplied by the variable attention_g.

        memory [batch, time, depth], masked by memory_sequence_length [batch].  probability_fn: of scores, softmax by
        default.  Variables: memory_layer/kernel.  Raises ValueError.
        """
        layer = Dense(num_units, name="memory_layer", use_bias=False)
        super().__init__(
            None,
            memory,
            self._probability_of(probability_fn),
            memory_sequence_length,
            layer,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
        )
        self._num_units, self._scale, self._name = num_units, scale, name

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """(alignments [batch, entries], next state) of a query [batch, num_units].  Raises ValueError."""
        _check_depths(query, self._keys)
        with variable_scope(None, self._scope, [query]):
            return self._aligned(luong_score(query, self._keys, self._scale), state)


def bahdanau_score(
    processed_query: Any,
    keys: Any,
    attention_v: Any,
    attention_g: Any = None,
    attention_b: Any = None,
) -> Any:
    """Scores [batch, entries]: sums over attention_v times the tanh of queries [batch, units] and keys.

    With attention_g and attention_b attention_v has the length of the one, and the other is added within.
    attention_v: a tensor, or as until TensorFlow 1.13 whether to normalize, with variables of these names.
    """
    asked = expand_dims(processed_query, 1)
    if isinstance(attention_v, bool):
        units, kind, normalize = keys.shape[2].value, processed_query.dtype, attention_v
        attention_v = get_variable("attention_v", [units], kind)
        if normalize:
            start = constant_initializer(math.sqrt(1.0 / units))
            attention_g = get_variable("attention_g", [], kind, start)
            attention_b = get_variable("attention_b", [units], kind, zeros_initializer())
    if attention_g is None or attention_b is None:
        return reduce_sum(attention_v * tanh(keys + asked), [2])
    weights = attention_g * attention_v * rsqrt(reduce_sum(attention_v * attention_v))
    return reduce_sum(weights * tanh(keys + asked + attention_b), [2])


class BahdanauAttention(Mechanism):
    """Scores are sums over tanh of query and keys (https://arxiv.org/abs/1409.0473)."""

    _scope = "bahdanau_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        name: str = "BahdanauAttention",
    ) -> None:
        """normalize: the length of attention_v is a variable, attention_g, and there is attention_b.

        Variables: memory_layer/kernel, query_layer/kernel, attention_v.  Otherwise as `LuongAttention`.
        """
        super().__init__(
            Dense(num_units, name="query_layer", use_bias=False),
            memory,
            self._probability_of(probability_fn),
            memory_sequence_length,
            Dense(num_units, name="memory_layer", use_bias=False),
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
        )
        self._num_units, self._normalize, self._name = num_units, normalize, name

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """(alignments [batch, entries], next state) of a query [batch, depth]."""
        with variable_scope(None, self._scope, [query]):
            asked = self._query_layer(query)
            return self._aligned(bahdanau_score(asked, self._keys, self._normalize), state)


class AttentionWrapperState(NamedTuple):
    """State of an `AttentionWrapper`; tuples where there are several mechanisms."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """With other parts, of the same structure and compatible shapes.  Raises ValueError, TypeError."""
        made = self._replace(**kwargs)
        nest.assert_same_structure(self, made)
        for old, new in zip(nest.flatten(self), nest.flatten(made), strict=True):
            if isinstance(old, Tensor) and isinstance(new, Tensor):
                new.set_shape(old.shape)
        return made


def compute_attention(
    attention_mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any
) -> tuple[Any, Any, Any]:
    """(attention, alignments, next state of the mechanism)."""
    alignments, new_state = attention_mechanism(cell_output, state=attention_state)
    context = squeeze(matmul(expand_dims(alignments, 1), attention_mechanism.values), [1])
    if attention_layer is not None:
        context = attention_layer(concat([cell_output, context], 1))
    return context, alignments, new_state


class AttentionWrapper(RNNCell):
    """A cell that attends to memories with what it gives, and takes what it attended to with its next inputs."""

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Callable[..., Any] | None = None,
        dtype: Any = None,
    ) -> None:
        """attention_mechanism: one, or a list.  attention_layer_size: of a layer over outputs and context.

        attention_layer: in its place, a layer of the program's.  alignment_history: keep all alignments in a
        TensorArray.  output_attention: outputs are the attention, else the cell's.  Raises TypeError, ValueError.
        """
        super().__init__(name=name, dtype=dtype)
        check_is_cell(cell, "cell")
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = (
            tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        )
        for each in self._attention_mechanisms:
            if not isinstance(each, AttentionMechanism):
                raise TypeError(
                    f"attention_mechanism must be an AttentionMechanism or list of them, saw type: {type(each)}"
                )
        self._cell, self._output_attention = cell, output_attention
        self._alignment_history = alignment_history
        self._cell_input_fn = cell_input_fn or (
            lambda inputs, attention: concat([inputs, attention], -1)
        )
        self._attention_fn = attention_fn or compute_attention
        self._attention_layers, self._attention_layer_size = self._layers_of(
            attention_layer_size, attention_layer
        )
        self._initial_cell_state = initial_cell_state

    def _layers_of(self, sizes: Any, layers: Any) -> tuple[Any, int]:
        if sizes is not None and layers is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        count = len(self._attention_mechanisms)
        if sizes is not None:
            sizes = tuple(sizes) if isinstance(sizes, (list, tuple)) else (sizes,)
            _check_count("attention_layer_size", sizes, count)
            names = (
                ["attention_layer"]
                if count == 1
                else [f"attention_layer_{at}" for at in range(count)]
            )
            made = [
                Dense(size, name=name, use_bias=False)
                for size, name in zip(sizes, names, strict=True)
            ]
            return made, sum(sizes)
        if layers is not None:
            layers = tuple(layers) if isinstance(layers, (list, tuple)) else (layers,)
            _check_count("attention_layer", layers, count)
            size = 0
            for layer, each in zip(layers, self._attention_mechanisms, strict=True):
                depth = self._cell.output_size + each.values.shape[-1].value
                size += size_after(layer, depth)[-1].value
            return list(layers), size
        return None, sum(each.values.shape[-1].value for each in self._attention_mechanisms)

    def _item_or_tuple(self, parts: Any) -> Any:
        parts = tuple(parts)
        return parts if self._is_multi else parts[0]

    def _listed(self, parts: Any) -> Any:
        return parts if self._is_multi else [parts]

    @property
    def output_size(self) -> Any:
        """Of the attention, or the cell."""
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        """An `AttentionWrapperState` of sizes."""
        aligned = [each.alignments_size for each in self._attention_mechanisms]
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_layer_size,
            time=TensorShape([]),
            alignments=self._item_or_tuple(aligned),
            alignment_history=self._item_or_tuple(
                aligned if self._alignment_history else [()] * len(aligned)
            ),
            attention_state=self._item_or_tuple(
                each.state_size for each in self._attention_mechanisms
            ),
        )

    def _batch_size_checks(self, batch_size: Any, error_message: str | None = None) -> list[Any]:
        says = error_message or (
            "the memories of an AttentionWrapper must be of as many sequences as its cell; with a BeamSearchDecoder, "
            "memory, lengths and initial state are to be made by tile_batch"
        )
        return [
            assert_equal(batch_size, each.batch_size, message=says)
            for each in self._attention_mechanisms
        ]

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """An `AttentionWrapperState` of zeros, and of initial_cell_state if that was given."""
        with name_scope(None, type(self).__name__ + "ZeroState", [batch_size]):
            state = self._initial_cell_state
            if state is None:
                state = self._cell.zero_state(batch_size, dtype)
            with control_dependencies(self._batch_size_checks(batch_size)):
                state = nest.map_structure(lambda x: identity(x, name="checked_cell_state"), state)
            aligned = [
                each.initial_alignments(batch_size, dtype) for each in self._attention_mechanisms
            ]
            history = [
                TensorArray(dtype, size=0, dynamic_size=True, element_shape=each.shape)
                if self._alignment_history
                else ()
                for each in aligned
            ]
            return AttentionWrapperState(
                cell_state=state,
                attention=zero_state(self._attention_layer_size, batch_size, dtype),
                time=zeros([], dtypes.int32),
                alignments=self._item_or_tuple(aligned),
                alignment_history=self._item_or_tuple(history),
                attention_state=self._item_or_tuple(
                    each.initial_state(batch_size, dtype) for each in self._attention_mechanisms
                ),
            )

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`.  Raises TypeError."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                f"Expected state to be instance of AttentionWrapperState. Received type {type(state)} instead."
            )
        given = self._cell_input_fn(inputs, state.attention)
        output, cell_state = self._cell(given, state.cell_state)
        known = output.shape[0].value
        with control_dependencies(
            self._batch_size_checks(shape_of(output)[0] if known is None else known)
        ):
            output = identity(output, name="checked_cell_output")
        found = [
            self._attention_fn(
                each,
                output,
                before,
                self._attention_layers[at] if self._attention_layers is not None else None,
            )
            for at, (each, before) in enumerate(
                zip(self._attention_mechanisms, self._listed(state.attention_state), strict=True)
            )
        ]
        attention = concat([one for one, _, _ in found], 1)
        history = [
            kept.write(state.time, aligned) if self._alignment_history else ()
            for kept, (_, aligned, _) in zip(
                self._listed(state.alignment_history), found, strict=True
            )
        ]
        new = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._item_or_tuple(aligned for _, aligned, _ in found),
            alignment_history=self._item_or_tuple(history),
            attention_state=self._item_or_tuple(after for _, _, after in found),
        )
        return attention if self._output_attention else output, new


def _check_count(name: str, given: Any, count: int) -> None:
    if len(given) != count:
        raise ValueError(
            f"If provided, {name} must contain exactly one entry per attention_mechanism, saw: {len(given)} vs {count}"
        )
