"""Cells that tf.contrib.rnn has beside tf.nn.rnn_cell's.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn/python/ops/rnn_cell.py)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.library.contrib.cell_bases import CarryCell, projected
from headrace.library.contrib.rnn_weights import clean_scope, depth_of, linear, normalized, sharded
from headrace.library.rnn.cells import LSTMStateTuple
from headrace.library.variables.initializers import (
    Initializer,
    constant_initializer,
    random_uniform_initializer,
    zeros_initializer,
)
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat, split
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import exp, sigmoid, tanh
from headrace.ops.nn.activations import relu
from headrace.ops.nn.bias import bias_add
from headrace.ops.random.draws import random_uniform

__all__ = [
    "CoupledInputForgetGateLSTMCell",
    "IntersectionRNNCell",
    "NASCell",
    "PhasedLSTMCell",
    "UGRNNCell",
]


class CoupledInputForgetGateLSTMCell(CarryCell):
    """An LSTM that takes in as much as it forgets (http://arxiv.org/abs/1503.04069)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = tanh,
        reuse: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        """Arguments as of LSTMCell.  Variables: W_0, …, B, W_F_diag, W_O_diag, W_P_0, …."""
        super().__init__(reuse=reuse)
        self._num_units, self._use_peepholes, self._initializer = (
            num_units,
            use_peepholes,
            initializer,
        )
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._state_is_tuple, self._activation = (
            forget_bias,
            state_is_tuple,
            activation,
        )
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift

    def _normal(self, x: Any, scope: str) -> Any:
        return normalized(x, scope, self._gain, self._shift) if self._layer_norm else x

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        n, kind = self._num_units, inputs.dtype
        c, h = self._parts(state)
        with clean_scope(self._initializer):
            depth = depth_of(inputs) + self.output_size
            kernel = sharded("W", [depth, 3 * n], kind, self._num_unit_shards)
            bias = get_variable("B", [3 * n], kind, zeros_initializer(dtype=kind))
            made = bias_add(matmul(concat([inputs, h], 1), kernel), bias)
            candidate, forget, leave = split(made, 3, 1)
            candidate = self._normal(candidate, "transform")
            forget, leave = self._normal(forget, "forget"), self._normal(leave, "output")
            forget = forget + self._forget_bias
            if self._use_peepholes:
                forget = forget + get_variable("W_F_diag", [n], kind) * c
                to_leave = get_variable("W_O_diag", [n], kind)
            kept = sigmoid(forget)
            c = self._normal(kept * c + (1.0 - kept) * self._activation(candidate), "state")
            if self._use_peepholes:
                leave = leave + to_leave * c
            h = sigmoid(leave) * self._activation(c)
            if self._num_proj is not None:
                by = sharded("W_P", [n, self._num_proj], kind, self._num_proj_shards)
                h = projected(h, by, self._proj_clip)
        return h, self._state(c, h)


class NASCell(CarryCell):
    """The cell that neural architecture search found (https://arxiv.org/abs/1611.01578)."""

    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_bias: bool = False,
        reuse: Any = None,
        **kwargs: Any,
    ) -> None:
        """Variables: kernel, recurrent_kernel, bias if use_bias, projection_weights if num_proj."""
        super().__init__(reuse=reuse, **kwargs)
        self._num_units, self._num_proj, self._use_bias = num_units, num_proj, use_bias

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n, depth = self._num_units, inputs_shape[-1].value
        if depth is None:
            raise ValueError(
                f"Could not infer input size from inputs.get_shape()[-1]: {inputs_shape}"
            )
        self._recurrent = self.add_variable("recurrent_kernel", [self.output_size, 8 * n])
        self._kernel = self.add_variable("kernel", [depth, 8 * n])
        if self._use_bias:
            self._bias = self.add_variable("bias", [8 * n], initializer=zeros_initializer())
        if self._num_proj is not None:
            self._projection = self.add_variable("projection_weights", [n, self._num_proj])

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        c, h = state
        by_state, by_inputs = matmul(h, self._recurrent), matmul(inputs, self._kernel)
        if self._use_bias:
            by_state = bias_add(by_state, self._bias)
        x, m = split(by_inputs, 8, 1), split(by_state, 8, 1)
        first = tanh(sigmoid(x[0] + m[0]) * relu(x[1] + m[1]))
        second = tanh(sigmoid(x[2] + m[2]) + relu(x[3] * m[3]))
        third = tanh(tanh(x[4] + m[4]) * sigmoid(x[5] + m[5]))
        fourth = sigmoid(tanh(x[6] + m[6]) + sigmoid(x[7] + m[7]))
        c = tanh(first + c) * second
        h = tanh(c * tanh(third + fourth))
        if self._num_proj is not None:
            h = matmul(h, self._projection)
        return h, LSTMStateTuple(c, h)


class UGRNNCell(CarryCell):
    """Update gate RNN (https://arxiv.org/abs/1611.09913): one gate between state and candidate."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Any = tanh,
        reuse: Any = None,
    ) -> None:
        """Variables: kernel [depth + num_units, 2 num_units], bias."""
        super().__init__(reuse=reuse)
        self._num_units, self._initializer = num_units, initializer
        self._forget_bias, self._activation = forget_bias, activation

    @property
    def state_size(self) -> Any:
        """Units."""
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        depth_of(inputs)
        with clean_scope(self._initializer):
            made = linear(concat([inputs, state], 1), 2 * self._num_units)
            gate, candidate = split(made, 2, 1)
            kept = sigmoid(gate + self._forget_bias)
            new = kept * state + (1.0 - kept) * self._activation(candidate)
        return new, new


class IntersectionRNNCell(CarryCell):
    """Intersection RNN (https://arxiv.org/abs/1611.09913): gates along time and along depth; for stacks of cells."""

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Any = relu,
        reuse: Any = None,
    ) -> None:
        """num_in_proj: num_units, where the inputs are of another depth.  Variables: kernel, bias, in_projection/…."""
        super().__init__(reuse=reuse)
        self._num_units, self._initializer = num_units, initializer
        self._forget_bias, self._num_in_proj, self._y_activation = (
            forget_bias,
            num_in_proj,
            y_activation,
        )

    @property
    def state_size(self) -> Any:
        """Units."""
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`.  Raises ValueError."""
        depth = depth_of(inputs)
        with clean_scope(self._initializer):
            if depth != self._num_units:
                if not self._num_in_proj:
                    raise ValueError(
                        "Must have input size == output size for Intersection RNN. To fix, num_in_proj should be set "
                        f"to num_units at cell init: {depth} and {self._num_units}"
                    )
                with variable_scope("in_projection"):
                    inputs = linear(inputs, self._num_in_proj)
            made = linear(concat([inputs, state], 1), 4 * self._num_units)
            by_time, candidate, by_depth, output = split(made, 4, 1)
            kept = sigmoid(by_time + self._forget_bias)
            passed = sigmoid(by_depth + self._forget_bias)
            new = kept * state + (1.0 - kept) * tanh(candidate)
            found = passed * inputs + (1.0 - passed) * self._y_activation(output)
        return found, new


class _Exponential(Initializer):
    """Values whose logarithms are spread evenly between those of two numbers."""

    def __init__(self, minimum: float, maximum: float, seed: int | None = None) -> None:
        self._limits, self._seed = (float(np.log(minimum)), float(np.log(maximum))), seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        """See `Initializer`."""
        return exp(
            random_uniform(shape, *self._limits, dtype=dtype or dtypes.float32, seed=self._seed)
        )


class PhasedLSTMCell(CarryCell):
    """An LSTM whose units are open in phases (https://arxiv.org/abs/1610.09513); inputs are (time [batch, 1], x)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        leak: float = 0.001,
        ratio_on: float = 0.1,
        trainable_ratio_on: bool = True,
        period_init_min: float = 1.0,
        period_init_max: float = 1000.0,
        reuse: Any = None,
    ) -> None:
        """leak: how open a closed unit is.  ratio_on: the share of a period in which a unit is open.

        Variables: kernel and bias of mask_gates, new_input, output_gate; period, phase, ratio_on.
        """
        super().__init__(reuse=reuse)
        self._num_units, self._use_peepholes, self._leak = num_units, use_peepholes, leak
        self._ratio_on, self._trainable_ratio_on = ratio_on, trainable_ratio_on
        self._period = _Exponential(period_init_min, period_init_max)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        old_c, old_h = state
        time, x = inputs
        n, seen = self._num_units, [x, old_h]
        with variable_scope("mask_gates"):
            gates = linear([*seen, old_c] if self._use_peepholes else seen, 2 * n)
            enter, forget = split(sigmoid(gates), 2, 1)
        with variable_scope("new_input"):
            candidate = tanh(linear(seen, n))
        c = old_c * forget + enter * candidate
        with variable_scope("output_gate"):
            leave = sigmoid(linear([*seen, c] if self._use_peepholes else seen, n))
        h = tanh(c) * leave
        opened = self._opened(time, x.dtype)
        c, h = opened * c + (1 - opened) * old_c, opened * h + (1 - opened) * old_h
        return h, LSTMStateTuple(c, h)

    def _opened(self, time: Any, kind: Any) -> Any:
        """How open each unit is at `time`, [batch, units]."""
        n = self._num_units
        period = get_variable("period", [n], kind, self._period)
        start = random_uniform_initializer(0.0, getattr(period, "initial_value", 1.0))
        phase = get_variable("phase", [n], kind, start)
        share = get_variable(
            "ratio_on",
            [n],
            kind,
            constant_initializer(self._ratio_on),
            trainable=self._trainable_ratio_on,
        )
        length = cast(period, time.dtype)
        at = cast(((time - cast(phase, time.dtype)) % length) / length, kind)
        rising = 2 * at / share
        opened = where(at < share, 2 - rising, self._leak * at)
        return where(at < 0.5 * share, rising, opened)
