"""Cells of tf.contrib.rnn whose units know of no other: independent ones.

Called by: programs.  Threads: as graph.
Source: the papers that each class names; names of variables: behaviour of TF 1.15 (contrib/rnn)
"""

from __future__ import annotations

from typing import Any

from headrace.library.contrib.cell_bases import UnitCell
from headrace.library.rnn.cells import LSTMStateTuple
from headrace.library.variables.initializers import (
    constant_initializer,
    random_uniform_initializer,
)
from headrace.ops.array.joining import concat, split
from headrace.ops.array.padding import tile
from headrace.ops.linalg.products import matmul
from headrace.ops.math.elementwise import sigmoid
from headrace.ops.nn.bias import bias_add

__all__ = [
    "IndRNNCell",
    "IndyGRUCell",
    "IndyLSTMCell",
]


class IndRNNCell(UnitCell):
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


class IndyGRUCell(UnitCell):
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


class IndyLSTMCell(UnitCell):
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
