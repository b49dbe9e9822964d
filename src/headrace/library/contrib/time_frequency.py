"""TimeFreqLSTMCell: an LSTM over the frequencies of each step, and over time.

Called by: programs.  Threads: as graph.
Source: Li et al., "LSTM time and frequency recurrence for automatic speech recognition", 2015; names and arguments as
TF 1.15
"""

from __future__ import annotations

from typing import Any

from headrace.library.contrib.rnn_weights import clean_scope, depth_of, sharded
from headrace.library.rnn.cells import RNNCell
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat, split
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.linalg.products import matmul
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.nn.bias import bias_add

__all__ = ["TimeFreqLSTMCell"]


class TimeFreqLSTMCell(RNNCell):
    """Windows of feature_size inputs, frequency_skip apart: each has a c and an h, and sees the h of the one before.

    The state is c and h of all windows, [batch, windows * 2 * num_units]; state_size is what one of them has.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int = 1,
        reuse: Any = None,
    ) -> None:
        """cell_clip: the most that c may be, either way.  feature_size: inputs of a window.

        frequency_skip: inputs from the beginning of one window to that of the next.  Variables: W_0, …, B, W_F_diag,
        W_I_diag, W_O_diag.
        """
        super().__init__(reuse=reuse)
        self._num_units, self._use_peepholes = num_units, use_peepholes
        self._cell_clip, self._initializer, self._shards = cell_clip, initializer, num_unit_shards
        self._forget_bias = forget_bias
        self._feature_size, self._frequency_skip = feature_size, frequency_skip

    @property
    def output_size(self) -> Any:
        """Units."""
        return self._num_units

    @property
    def state_size(self) -> Any:
        """Of c and h of one window."""
        return 2 * self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`.  Raises ValueError for inputs narrower than a window."""
        n, kind = self._num_units, inputs.dtype
        windows = self._windows(inputs)
        with clean_scope(self._initializer):
            depth = depth_of(windows[0]) + 2 * n
            kernel = sharded("W", [depth, 4 * n], kind, self._shards)
            bias = get_variable("B", [4 * n], kind, zeros_initializer(dtype=kind))
            peepholes = [
                get_variable(f"W_{gate}_diag", [n], kind) if self._use_peepholes else 0.0
                for gate in "FIO"
            ]
            h: Any = zeros([sizes_of(inputs)[0], n], kind)
            kept = []
            for at, window in enumerate(windows):
                c, before = (state[:, (2 * at + k) * n : (2 * at + k + 1) * n] for k in (0, 1))
                made = bias_add(matmul(concat([window, before, h], 1), kernel), bias)
                c, h = self._step(split(made, 4, 1), c, peepholes)
                kept += [c, h]
            return concat(kept[1::2], 1), concat(kept, 1)

    def _step(self, gates: Any, c: Any, peepholes: Any) -> tuple[Any, Any]:
        enter, candidate, forget, leave = gates
        of_forget, of_enter, of_leave = peepholes
        kept = sigmoid(forget + self._forget_bias + of_forget * c) * c
        c = kept + sigmoid(enter + of_enter * c) * tanh(candidate)
        if self._cell_clip is not None:
            c = clip_by_value(c, -self._cell_clip, self._cell_clip)
        return c, sigmoid(leave + of_leave * c) * tanh(c)

    def _windows(self, inputs: Any) -> list[Any]:
        depth, wide = depth_of(inputs), self._feature_size
        if wide is None or not 0 < wide <= depth:
            raise ValueError(
                f"feature_size must be above 0 and at most the inputs' {depth}, and is {wide}"
            )
        count = (depth - wide) // self._frequency_skip + 1
        starts = [at * self._frequency_skip for at in range(count)]
        return [inputs[:, start : start + wide] for start in starts]
