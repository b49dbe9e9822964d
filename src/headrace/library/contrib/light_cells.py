"""Cells of tf.contrib.rnn of few products: simple, minimal, without chaos, in groups.

Called by: programs.  Threads: as graph.
Source: the papers that each class names; names of variables: behaviour of TF 1.15 (contrib/rnn)
"""

from __future__ import annotations

from typing import Any

from headrace.base.arguments import whole_number
from headrace.library.contrib.cell_bases import UnitCell
from headrace.library.contrib.rnn_weights import clean_scope, depth_of, linear
from headrace.library.rnn.cells import LSTMStateTuple
from headrace.library.variables.initializers import (
    constant_initializer,
    glorot_uniform_initializer,
    ones_initializer,
)
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.joining import concat, split
from headrace.ops.linalg.products import matmul
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.nn.bias import bias_add

__all__ = [
    "CFNCell",
    "GLSTMCell",
    "MinimalRNNCell",
    "SRUCell",
]


class SRUCell(UnitCell):
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


class MinimalRNNCell(UnitCell):
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


class CFNCell(UnitCell):
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


class GLSTMCell(UnitCell):
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
        num_units = whole_number("GLSTMCell", "num_units", num_units)
        number_of_groups = whole_number("GLSTMCell", "number_of_groups", number_of_groups)
        if number_of_groups < 1:
            raise ValueError(
                f"GLSTMCell: number_of_groups must be 1 or more, and is {number_of_groups}"
            )
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
