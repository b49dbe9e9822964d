"""Cells around cells that tf.contrib.rnn has beside tf.nn.rnn_cell's, and cells over space.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn/python/ops/{core_rnn_cell,rnn_cell}.py)
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from headrace.base import nest
from headrace.base.arguments import several
from headrace.base.shapes import TensorShape
from headrace.graph.names import device, name_scope
from headrace.library.contrib.rnn_weights import linear
from headrace.library.nn.embedding import embedding_lookup
from headrace.library.rnn.cells import LSTMStateTuple, RNNCell, check_is_cell
from headrace.library.variables.initializers import constant_initializer, random_uniform_initializer
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.ops.array.joining import concat, split
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.nn.bias import xw_plus_b
from headrace.ops.nn.convolution_calls import conv1d, conv2d, conv3d
from headrace.ops.nn.softmax import softmax

__all__ = [
    "AttentionCellWrapper",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "EmbeddingWrapper",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "OutputProjectionWrapper",
]


class _Around(RNNCell):
    """A cell around `cell`, with variables of its own beside that one's."""

    def __init__(self, cell: Any, reuse: Any = None) -> None:
        super().__init__(reuse=reuse)
        check_is_cell(cell, "cell")
        self._cell = cell

    @property
    def state_size(self) -> Any:
        """That of the cell inside."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """That of the cell inside."""
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """See `RNNCell.zero_state`."""
        with name_scope(None, type(self).__name__ + "ZeroState", [batch_size]):
            return self._cell.zero_state(batch_size, dtype)


class InputProjectionWrapper(_Around):
    """A cell whose inputs are projected to another depth.  Variables: kernel, bias."""

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Any = None,
        input_size: Any = None,
        reuse: Any = None,
    ) -> None:
        """num_proj: the depth.  activation: of what is projected.  input_size is not heeded."""
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        projected = linear(inputs, self._num_proj)
        return self._cell(self._activation(projected) if self._activation else projected, state)


class OutputProjectionWrapper(_Around):
    """A cell whose outputs are projected to another size.  Variables: kernel, bias."""

    def __init__(
        self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None
    ) -> None:
        """activation: of what is projected.  Raises ValueError, TypeError."""
        super().__init__(cell, reuse)
        if not isinstance(output_size, (int, numbers.Integral)) or output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._output_size, self._activation = output_size, activation

    @property
    def output_size(self) -> Any:
        """The size that outputs are projected to."""
        return self._output_size

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        outputs, new_state = self._cell(inputs, state)
        projected = linear(outputs, self._output_size)
        return (self._activation(projected) if self._activation else projected), new_state


class EmbeddingWrapper(_Around):
    """A cell whose inputs are ids [batch, 1] or [batch], looked up in the variable `embedding`."""

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: Any = None,
    ) -> None:
        """initializer: the scope's by default, else even between ±sqrt(3).  Raises ValueError, TypeError."""
        super().__init__(cell, reuse)
        sizes = (embedding_classes, embedding_size)
        if not all(isinstance(size, (int, numbers.Integral)) and size > 0 for size in sizes):
            raise ValueError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}."
            )
        self._shape, self._initializer = [embedding_classes, embedding_size], initializer

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        with device("/cpu:0"):
            start = self._initializer or get_variable_scope().initializer
            if start is None:
                start = random_uniform_initializer(-math.sqrt(3), math.sqrt(3))
            kind = nest.flatten(state)[0].dtype
            embedding = get_variable("embedding", self._shape, kind, start)
            found = embedding_lookup(embedding, reshape(inputs, [-1]))
        return self._cell(found, state)


class HighwayWrapper(_Around):
    """A cell beside which its inputs are carried to its outputs (https://arxiv.org/abs/1505.00387)."""

    def __init__(
        self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0
    ) -> None:
        """couple_carry_transform_gates: outputs count as much as inputs are not carried; else by a gate of their own.

        Variables: carry_w, carry_b, transform_w, transform_b.
        """
        super().__init__(cell)
        self._coupled, self._carry_bias = couple_carry_transform_gates, carry_bias_init

    def _gate(self, x: Any, name: str, bias: float) -> Any:
        size = x.shape.with_rank(2)[1].value
        kernel = get_variable(f"{name}_w", [size, size])
        shift = get_variable(f"{name}_b", [size], initializer=constant_initializer(bias))
        return sigmoid(xw_plus_b(x, kernel, shift))

    def _highway(self, inputs: Any, outputs: Any) -> Any:
        carry = self._gate(inputs, "carry", self._carry_bias)
        if self._coupled:
            passed = 1 - carry
        else:
            passed = self._gate(inputs, "transform", -self._carry_bias)
        return inputs * carry + outputs * passed

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """See `RNNCell.__call__`.  Raises ValueError unless outputs are of the inputs' shape."""
        outputs, new_state = self._cell(inputs, state, scope=scope)
        nest.assert_same_structure(inputs, outputs)
        for one, other in zip(nest.flatten(inputs), nest.flatten(outputs), strict=True):
            one.shape.assert_is_compatible_with(other.shape)
        return nest.map_structure(self._highway, inputs, outputs), new_state


class AttentionCellWrapper(RNNCell):
    """A cell that attends to its own last outputs (https://arxiv.org/abs/1409.0473)."""

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        """attn_length: how many outputs.  attn_size: of one.  attn_vec_size: of what they are compared by.

        Variables: kernel, bias; attention/attn_w, attn_v, kernel, bias; attn_output_projection/kernel, bias.
        Raises ValueError, TypeError.
        """
        super().__init__(reuse=reuse)
        check_is_cell(cell, "cell")
        if nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. "
                f"State size is: {cell.state_size}"
            )
        if not isinstance(attn_length, (int, numbers.Integral)) or attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._cell, self._state_is_tuple = cell, state_is_tuple
        self._length, self._input_size = attn_length, input_size
        self._size = cell.output_size if attn_size is None else attn_size
        self._vec_size = self._size if attn_vec_size is None else attn_vec_size

    @property
    def state_size(self) -> Any:
        """Of the cell, of what was attended to, and of the outputs to attend to."""
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """Size of the outputs."""
        return self._size

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        if self._state_is_tuple:
            inner, attended, kept = state
        else:
            size = self._cell.state_size
            inner = slice_of(state, [0, 0], [-1, size])
            attended = slice_of(state, [0, size], [-1, self._size])
            kept = slice_of(state, [0, size + self._size], [-1, self._size * self._length])
        kept = reshape(kept, [-1, self._length, self._size])
        inputs = linear([inputs, attended], self._input_size or inputs.shape.as_list()[1])
        output, inner = self._cell(inputs, inner)
        query = concat(nest.flatten(inner), 1) if nest.is_nested(inner) else inner
        attended = self._attention(query, kept)
        with variable_scope("attn_output_projection"):
            output = linear([output, attended], self._size)
        kept = concat([slice_of(kept, [0, 1, 0], [-1, -1, -1]), expand_dims(output, 1)], 1)
        kept = reshape(kept, [-1, self._length * self._size])
        new = (inner, attended, kept)
        return output, new if self._state_is_tuple else concat(list(new), 1)

    def _attention(self, query: Any, kept: Any) -> Any:
        """The outputs `kept` [batch, length, size], weighed by how they answer `query`."""
        with variable_scope("attention"):
            kernel = get_variable("attn_w", [1, 1, self._size, self._vec_size])
            weights = get_variable("attn_v", [self._vec_size])
            hidden = reshape(kept, [-1, self._length, 1, self._size])
            features = conv2d(hidden, kernel, [1, 1, 1, 1], "SAME")
            asked = reshape(linear(query, self._vec_size), [-1, 1, 1, self._vec_size])
            score = softmax(reduce_sum(weights * tanh(features + asked), [2, 3]))
            found = reduce_sum(reshape(score, [-1, self._length, 1, 1]) * hidden, [1, 2])
            return reshape(found, [-1, self._size])


class ConvLSTMCell(RNNCell):
    """An LSTM of images or volumes whose products are convolutions (https://arxiv.org/abs/1506.04214)."""

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Any,
        output_channels: int,
        kernel_shape: Any,
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        """conv_ndims: 1, 2 or 3.  input_shape: sizes and channels of one input.  skip_connection: outputs have them.

        Variables: kernel [*kernel_shape, channels, 4 output_channels], biases.  Raises ValueError.
        """
        super().__init__(name=name)
        input_shape = several("ConvLSTMCell", "input_shape", input_shape, "sizes and channels")
        kernel_shape = several("ConvLSTMCell", "kernel_shape", kernel_shape, "sizes")
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(
                f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}: it has the channels at its end"
            )
        self._ndims, self._channels = conv_ndims, output_channels
        self._input_shape, self._kernel_shape = list(input_shape), list(kernel_shape)
        self._use_bias, self._skip, self._forget_bias = use_bias, skip_connection, forget_bias

    @property
    def state_size(self) -> Any:
        """Shapes of c and h of one input."""
        shape = TensorShape([*self._input_shape[:-1], self._channels])
        return LSTMStateTuple(shape, shape)

    @property
    def output_size(self) -> Any:
        """Shape of one output."""
        more = self._input_shape[-1] if self._skip else 0
        return TensorShape([*self._input_shape[:-1], self._channels + more])

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`; inputs [batch, *input_shape]."""
        c, h = state
        gates = split(self._convolved([inputs, h]), 4, self._ndims + 1)
        enter, candidate, forget, leave = gates
        c = sigmoid(forget + self._forget_bias) * c + sigmoid(enter) * tanh(candidate)
        h = tanh(c) * sigmoid(leave)
        outputs = concat([h, inputs], -1) if self._skip else h
        return outputs, LSTMStateTuple(c, h)

    def _convolved(self, args: list[Any]) -> Any:
        kind, axis, size = args[0].dtype, self._ndims + 1, 4 * self._channels
        depth = sum(each.shape.as_list()[axis] for each in args)
        kernel = get_variable("kernel", [*self._kernel_shape, depth, size], kind)
        strides = 1 if self._ndims == 1 else [1] * (self._ndims + 2)
        by: Any = {1: conv1d, 2: conv2d, 3: conv3d}[self._ndims]
        made = by(concat(args, axis), kernel, strides, "SAME")
        if not self._use_bias:
            return made
        start = constant_initializer(0.0, dtype=kind)
        return made + get_variable("biases", [size], kind, start)


class Conv1DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` of sequences."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` of images."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` of volumes."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(3, name=name, **kwargs)
