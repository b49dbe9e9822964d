"""What cells of tf.contrib.rnn are made of: a number of units, a state, first values.

Called by: library.contrib's cells.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn)
"""

from __future__ import annotations

from typing import Any

from headrace.library.rnn.cells import LSTMStateTuple, RNNCell
from headrace.library.variables.initializers import (
    zeros_initializer,
)
from headrace.ops.array.joining import concat
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.linalg.products import matmul
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import tanh

__all__ = [
    "LayerRNNCell",
]


LayerRNNCell = RNNCell
"""Base of cells that make their variables in `build`; here every cell may."""


class UnitCell(RNNCell):
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


class CarryCell(RNNCell):
    """A cell of `_num_units`, whose state is c and h unless it says otherwise."""

    _num_units: int
    _num_proj: int | None = None
    _state_is_tuple = True

    @property
    def state_size(self) -> Any:
        """Units of c and h; a sum where they lie side by side."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """Units of the outputs."""
        return self._num_proj or self._num_units

    def _parts(self, state: Any) -> Any:
        if self._state_is_tuple:
            return state
        c = slice_of(state, [0, 0], [-1, self._num_units])
        return c, slice_of(state, [0, self._num_units], [-1, self.output_size])

    def _state(self, c: Any, h: Any) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else concat([c, h], 1)


def projected(h: Any, kernel: Any, limit: float | None) -> Any:
    """h times `kernel`, kept within ±limit."""
    h = matmul(h, kernel)
    return h if limit is None else clip_by_value(h, -limit, limit)
