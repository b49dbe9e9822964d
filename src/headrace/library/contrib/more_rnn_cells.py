"""Cells of tf.contrib.rnn: simple, independent, minimal and grouped ones, and those with the weights of cuDNN.

Called by: programs.  Threads: as graph.
Source: the papers that each class names; names of variables: behaviour of TF 1.15 (contrib/rnn, contrib/cudnn_rnn)
"""

from __future__ import annotations

from typing import Any

from headrace.library.contrib.block_cells import LSTMBlockCell
from headrace.library.contrib.rnn_weights import clean_scope, depth_of, linear, normalized
from headrace.library.rnn.cells import LSTMStateTuple, RNNCell
from headrace.library.variables.initializers import (
    constant_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    random_uniform_initializer,
    zeros_initializer,
)
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.joining import concat, split
from headrace.ops.array.padding import tile
from headrace.ops.linalg.products import matmul
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.nn.bias import bias_add

__all__ = [
    "CFNCell",
    "CudnnCompatibleGRUCell",
    "CudnnCompatibleLSTMCell",
    "GLSTMCell",
    "IndRNNCell",
    "IndyGRUCell",
    "IndyLSTMCell",
    "LayerNormLSTMCell",
    "LayerRNNCell",
    "MinimalRNNCell",
    "SRUCell",
]

LayerRNNCell = RNNCell
"""Base of cells that make their variables in `build`; here every cell may."""


class _Cell(RNNCell):
    """A cell of `_num_units` whose state is its output, with first values of kernels and biases."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(reuse=reuse, name=name, dtype=dtype)
        self._num_units, self._activation = num_units, activation or tanh
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

    @property
    def state_size(self) -> Any:
        """Units."""
        return self._num_units

    @property
    def output_size(self) -> Any:
        """Units."""
        return self._num_units

    def _depth(self, inputs_shape: Any) -> int:
        depth: int | None = inputs_shape[-1].value
        if depth is None:
            raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {inputs_shape}")
        return depth

    def _weights(self, name: str, shape: list[int]) -> Any:
        return self.add_variable(name, shape, initializer=self._kernel_initializer)

    def _bias(self, name: str, size: int, value: Any = None) -> Any:
        start = self._bias_initializer or value or zeros_initializer(dtype=self.dtype)
        return self.add_variable(name, [size], initializer=start)


class IndRNNCell(_Cell):
    """h = activation(x W + u * h + b): units that know of no other (https://arxiv.org/abs/1803.04831)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        """Variables: kernel_w, kernel_u, bias."""
        super().__init__(num_units, activation, reuse=reuse, name=name, dtype=dtype)

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n = self._num_units
        self._kernel_w = self._weights("kernel_w", [self._depth(inputs_shape), n])
        start = random_uniform_initializer(-1, 1, dtype=self.dtype)
        self._kernel_u = self.add_variable("kernel_u", [1, n], initializer=start)
        self._b = self._bias("bias", n)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        made = matmul(inputs, self._kernel_w) + state * self._kernel_u
        output = self._activation(bias_add(made, self._b))
        return output, output


class IndyGRUCell(_Cell):
    """A GRU whose units know of no other's state.  Variables: gates/…, candidate/… of kernel_w, kernel_u, bias."""

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n, depth = self._num_units, self._depth(inputs_shape)
        start = random_uniform_initializer(-1, 1, dtype=self.dtype)
        made = []
        for part, size, bias in (
            ("gates", 2 * n, constant_initializer(1.0, dtype=self.dtype)),
            ("candidate", n, None),
        ):
            kernel = self._weights(f"{part}/kernel_w", [depth, size])
            own = self.add_variable(f"{part}/kernel_u", [1, size], initializer=start)
            made.append((kernel, own, self._bias(f"{part}/bias", size, bias)))
        self._gates, self._candidate = made

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        kernel, own, bias = self._gates
        both = matmul(inputs, kernel) + concat([state, state], 1) * own
        reset, update = split(sigmoid(bias_add(both, bias)), 2, 1)
        kernel, own, bias = self._candidate
        new = self._activation(bias_add(matmul(inputs, kernel) + reset * state * own, bias))
        output = update * state + (1 - update) * new
        return output, output


class IndyLSTMCell(_Cell):
    """An LSTM whose units know of no other's state (https://arxiv.org/abs/1903.08023)."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        """Variables: kernel_w [depth, 4 num_units], kernel_u [1, 4 num_units], bias."""
        super().__init__(
            num_units, activation, kernel_initializer, bias_initializer, reuse, name, dtype
        )
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> Any:
        """Units of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n = self._num_units
        self._kernel_w = self._weights("kernel_w", [self._depth(inputs_shape), 4 * n])
        start = random_uniform_initializer(-1, 1, dtype=self.dtype)
        self._kernel_u = self.add_variable("kernel_u", [1, 4 * n], initializer=start)
        self._b = self._bias("bias", 4 * n)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        c, h = state
        made = matmul(inputs, self._kernel_w) + tile(h, [1, 4]) * self._kernel_u
        enter, new, forget, leave = split(bias_add(made, self._b), 4, 1)
        c = c * sigmoid(forget + self._forget_bias) + sigmoid(enter) * self._activation(new)
        h = self._activation(c) * sigmoid(leave)
        return h, LSTMStateTuple(c, h)


class SRUCell(_Cell):
    """A simple recurrent unit (https://arxiv.org/abs/1709.02755): its one product is of inputs [batch, num_units]."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Variables: kernel [num_units, 4 num_units], bias [2 num_units]."""
        super().__init__(num_units, activation, reuse=reuse, name=name, **kwargs)

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n = self._num_units
        self._kernel = self._weights("kernel", [self._depth(inputs_shape), 4 * n])
        self._b = self._bias("bias", 2 * n, constant_initializer(0.0, dtype=self.dtype))

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        x, forget, reset, direct = split(matmul(inputs, self._kernel), 4, 1)
        gates = sigmoid(bias_add(concat([forget, reset], 1), self._b))
        forget, reset = split(gates, 2, 1)
        c = forget * state + (1.0 - forget) * x
        return reset * self._activation(c) + (1.0 - reset) * direct, c


class MinimalRNNCell(_Cell):
    """h moves towards one function of the inputs (https://arxiv.org/abs/1711.06788)."""

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "ones",
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """activation, kernel_initializer, bias_initializer: functions, or these names.

        Variables: kernel [depth, units], recurrent_kernel [2 units, units], bias [units].
        """
        super().__init__(
            units,
            tanh if activation == "tanh" else activation,
            glorot_uniform_initializer()
            if kernel_initializer == "glorot_uniform"
            else kernel_initializer,
            ones_initializer() if bias_initializer == "ones" else bias_initializer,
            kwargs.pop("reuse", None),
            name,
            dtype,
        )

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n = self._num_units
        self._kernel = self._weights("kernel", [self._depth(inputs_shape), n])
        self._recurrent = self._weights("recurrent_kernel", [2 * n, n])
        self._b = self._bias("bias", n)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        new = self._activation(matmul(inputs, self._kernel))
        kept = sigmoid(bias_add(matmul(concat([state, new], 1), self._recurrent), self._b))
        output = kept * state + (1.0 - kept) * new
        return output, output


class CFNCell(_Cell):
    """A chaos free network (https://arxiv.org/abs/1612.06212): without inputs its state dies away."""

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "ones",
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """Arguments as of MinimalRNNCell.  Variables: kernel [depth, 3 units], recurrent_kernel, bias [2 units]."""
        super().__init__(
            units,
            tanh if activation == "tanh" else activation,
            glorot_uniform_initializer()
            if kernel_initializer == "glorot_uniform"
            else kernel_initializer,
            ones_initializer() if bias_initializer == "ones" else bias_initializer,
            kwargs.pop("reuse", None),
            name,
            dtype,
        )

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n = self._num_units
        self._kernel = self._weights("kernel", [self._depth(inputs_shape), 3 * n])
        self._recurrent = self._weights("recurrent_kernel", [n, 2 * n])
        self._b = self._bias("bias", 2 * n)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        new, gates = split(matmul(inputs, self._kernel), [self._num_units, 2 * self._num_units], 1)
        gates = sigmoid(bias_add(gates + matmul(state, self._recurrent), self._b))
        forget, enter = split(gates, 2, 1)
        output = forget * self._activation(state) + enter * self._activation(new)
        return output, output


class GLSTMCell(_Cell):
    """An LSTM in groups, each with its part of inputs and state (https://arxiv.org/abs/1703.10722)."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        num_proj: int | None = None,
        number_of_groups: int = 1,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        """Variables: group0/kernel, group0/bias, …; projection/kernel.  Raises ValueError."""
        super().__init__(num_units, activation, reuse=reuse)
        self._initializer, self._num_proj = initializer, num_proj
        self._groups, self._forget_bias = number_of_groups, forget_bias
        if num_units % number_of_groups or (num_proj or 0) % number_of_groups:
            raise ValueError(
                f"num_units and num_proj must be divisible by number_of_groups: {num_units}, {num_proj}, "
                f"{number_of_groups}"
            )

    @property
    def state_size(self) -> Any:
        """Units of c and h."""
        return LSTMStateTuple(self._num_units, self._num_proj or self._num_units)

    @property
    def output_size(self) -> Any:
        """Units of h."""
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`.  Raises ValueError."""
        c, h = state
        depth = depth_of(inputs)
        if depth % self._groups:
            raise ValueError(
                f"input size must be divisible by number_of_groups: {depth}, {self._groups}"
            )
        parts = zip(split(inputs, self._groups, 1), split(h, self._groups, 1), strict=True)
        gates: list[Any] = []
        with clean_scope(self._initializer):
            for group_of, (x, past) in enumerate(parts):
                with variable_scope(f"group{group_of}"):
                    made = linear([x, past], 4 * self._num_units // self._groups)
                gates.append(split(made, 4, 1))
            enter, new, forget, leave = (concat(list(each), 1) for each in zip(*gates, strict=True))
            c = sigmoid(forget + self._forget_bias) * c + sigmoid(enter) * self._activation(new)
            h = sigmoid(leave) * self._activation(c)
            if self._num_proj is not None:
                with variable_scope("projection"):
                    h = linear(h, self._num_proj, bias=False)
        return h, LSTMStateTuple(c, h)


class LayerNormLSTMCell(_Cell):
    """LSTMCell with layer norm of gates and state (https://arxiv.org/abs/1607.06450)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1.0,
        activation: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        reuse: Any = None,
    ) -> None:
        """Variables: kernel, bias, gamma and beta of input, transform, forget, output, state; LSTMCell's others."""
        super().__init__(num_units, activation, reuse=reuse)
        self._use_peepholes, self._cell_clip, self._initializer = (
            use_peepholes,
            cell_clip,
            initializer,
        )
        self._num_proj, self._proj_clip, self._forget_bias = num_proj, proj_clip, forget_bias
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift

    @property
    def state_size(self) -> Any:
        """Units of c and h."""
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> Any:
        """Units of h."""
        return self._num_proj or self._num_units

    def _normal(self, x: Any, scope: str) -> Any:
        return normalized(x, scope, self._gain, self._shift) if self._layer_norm else x

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        c, h = state
        n, kind = self._num_units, inputs.dtype
        with clean_scope(self._initializer):
            made = split(linear([inputs, h], 4 * n, bias=not self._layer_norm), 4, 1)
            names = "input", "transform", "forget", "output"
            enter, new, forget, leave = map(self._normal, made, names)
            peep = {}
            if self._use_peepholes:
                peep = {each: get_variable(f"w_{each}_diag", [n], kind) for each in "fio"}
                forget, enter = forget + peep["f"] * c, enter + peep["i"] * c
            c = sigmoid(forget + self._forget_bias) * c + sigmoid(enter) * self._activation(new)
            c = self._normal(c, "state")
            if self._cell_clip is not None:
                c = clip_by_value(c, -self._cell_clip, self._cell_clip)
            if peep:
                leave = leave + peep["o"] * c
            h = sigmoid(leave) * self._activation(c)
            if self._num_proj is not None:
                with variable_scope("projection"):
                    h = linear(h, self._num_proj, bias=False)
                if self._proj_clip is not None:
                    h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, LSTMStateTuple(c, h)


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """LSTMBlockCell with the weights of cuDNN's LSTM: nothing is added to the forget gate, nothing is clipped."""

    def __init__(self, num_units: int, reuse: Any = None) -> None:
        """Variables: kernel, bias, of the scope cudnn_compatible_lstm_cell."""
        super().__init__(
            num_units,
            forget_bias=0,
            cell_clip=None,
            use_peephole=False,
            reuse=reuse,
            name="cudnn_compatible_lstm_cell",
        )


class CudnnCompatibleGRUCell(_Cell):
    """A GRU with the weights of cuDNN's: the reset gate is applied after the product with the state."""

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None) -> None:
        """Variables: gates/kernel, gates/bias, candidate/{input,hidden}_projection/{kernel,bias}."""
        super().__init__(num_units, None, kernel_initializer, reuse=reuse)

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n, depth = self._num_units, self._depth(inputs_shape)
        self._gate_kernel = self._weights("gates/kernel", [depth + n, 2 * n])
        self._gate_bias = self._bias(
            "gates/bias", 2 * n, constant_initializer(1.0, dtype=self.dtype)
        )
        made = []
        for part, rows in (("input", depth), ("hidden", n)):
            kernel = self._weights(f"candidate/{part}_projection/kernel", [rows, n])
            made.append((kernel, self._bias(f"candidate/{part}_projection/bias", n)))
        self._by_inputs, self._by_state = made

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        gates = bias_add(matmul(concat([inputs, state], 1), self._gate_kernel), self._gate_bias)
        reset, update = split(sigmoid(gates), 2, 1)
        from_inputs, from_state = (
            bias_add(matmul(each, kernel), bias)
            for each, (kernel, bias) in ((inputs, self._by_inputs), (state, self._by_state))
        )
        new = self._activation(from_inputs + reset * from_state)
        output = (1 - update) * new + update * state
        return output, output
