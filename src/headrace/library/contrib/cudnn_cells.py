"""Cells of tf.contrib.cudnn_rnn: with the weights that cuDNN trains, on any device.

Called by: programs.  Threads: as graph.
Source: the papers that each class names; names of variables: behaviour of TF 1.15 (contrib/cudnn_rnn)
"""

from __future__ import annotations

from typing import Any

from headrace.library.contrib.block_cells import LSTMBlockCell
from headrace.library.contrib.cell_bases import UnitCell
from headrace.library.variables.initializers import (
    constant_initializer,
)
from headrace.ops.array.joining import concat, split
from headrace.ops.linalg.products import matmul
from headrace.ops.math.elementwise import sigmoid
from headrace.ops.nn.bias import bias_add

__all__ = [
    "CudnnCompatibleGRUCell",
    "CudnnCompatibleLSTMCell",
]


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


class CudnnCompatibleGRUCell(UnitCell):
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
