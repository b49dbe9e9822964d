"""LSTM cells of tf.contrib.rnn with normalized gates or weights.

Called by: programs.  Threads: as graph.
Source: the papers that each class names; names of variables: behaviour of TF 1.15 (contrib/rnn)
"""

from __future__ import annotations

from typing import Any

from headrace.graph.names import control_dependencies
from headrace.library.contrib.cell_bases import CarryCell, UnitCell, projected
from headrace.library.contrib.rnn_weights import clean_scope, depth_of, linear, normalized
from headrace.library.rnn.cells import LSTMStateTuple
from headrace.library.variables.initializers import (
    zeros_initializer,
)
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.joining import concat, split
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.linalg.products import matmul
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.nn.basics import dropout, l2_normalize
from headrace.ops.nn.bias import bias_add

__all__ = [
    "LayerNormBasicLSTMCell",
    "LayerNormLSTMCell",
    "WeightNormLSTMCell",
]


class LayerNormBasicLSTMCell(CarryCell):
    """An LSTM with layer norm (http://arxiv.org/abs/1607.06450) and dropout of what it takes in."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Any = tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        """norm_gain, norm_shift: first values of gamma and beta.  dropout_keep_prob: number or scalar.

        Variables: kernel, bias without layer_norm; with it gamma and beta of input, transform, forget, output, state.
        """
        super().__init__(reuse=reuse)
        self._num_units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    def _normal(self, x: Any, scope: str) -> Any:
        return normalized(x, scope, self._gain, self._shift) if self._layer_norm else x

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        c, h = state
        made = linear([inputs, h], 4 * self._num_units, bias=not self._layer_norm)
        enter, candidate, forget, leave = (
            self._normal(gate, name)
            for gate, name in zip(
                split(made, 4, 1), ("input", "transform", "forget", "output"), strict=True
            )
        )
        taken = self._activation(candidate)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            taken = dropout(taken, self._keep_prob, seed=self._seed)
        c = c * sigmoid(forget + self._forget_bias) + sigmoid(enter) * taken
        c = self._normal(c, "state")
        h = self._activation(c) * sigmoid(leave)
        return h, LSTMStateTuple(c, h)


class LayerNormLSTMCell(UnitCell):
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


class WeightNormLSTMCell(CarryCell):
    """An LSTM whose kernel's columns have a length of their own (https://arxiv.org/abs/1602.07868)."""

    def __init__(
        self,
        num_units: int,
        norm: bool = True,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        """norm: without, it is an LSTM.  Variables: wn/kernel, wn/norm_0, wn/norm_1, wn/bias and LSTMCell's others."""
        super().__init__(reuse=reuse)
        self._num_units, self._norm, self._use_peepholes = num_units, norm, use_peepholes
        self._cell_clip, self._initializer = cell_clip, initializer
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._forget_bias, self._activation = forget_bias, activation or tanh

    def _linear(self, args: list[Any], size: int) -> Any:
        kind, depths = args[0].dtype, [depth_of(each) for each in args]
        kernel = get_variable("kernel", [sum(depths), size], kind)
        if self._norm:
            parts, at = [], 0
            with control_dependencies(None):
                for number, depth in enumerate(depths):
                    length = get_variable(f"norm_{number}", [size], kind)
                    part = slice_of(kernel, [at, 0], [depth, size])
                    parts.append(l2_normalize(part, axis=0) * length)
                    at += depth
                kernel = concat(parts, 0)
        bias = get_variable("bias", [size], kind, zeros_initializer(dtype=kind))
        return bias_add(matmul(concat(args, 1), kernel), bias)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        n, kind = self._num_units, inputs.dtype
        c, h = state
        with clean_scope(self._initializer):
            with variable_scope("wn"):
                made = self._linear([inputs, h], 4 * n)
            enter, candidate, forget, leave = split(made, 4, 1)
            forget = forget + self._forget_bias
            if self._use_peepholes:
                to_forget, to_enter, to_leave = (
                    get_variable(name, [n], kind) for name in ("w_f_diag", "w_i_diag", "w_o_diag")
                )
                forget, enter = forget + to_forget * c, enter + to_enter * c
            c = sigmoid(forget) * c + sigmoid(enter) * self._activation(candidate)
            if self._cell_clip is not None:
                c = clip_by_value(c, -self._cell_clip, self._cell_clip)
            if self._use_peepholes:
                leave = leave + to_leave * c
            h = sigmoid(leave) * self._activation(c)
            if self._num_proj is not None:
                with variable_scope("projection"):
                    kernel = get_variable("kernel", [n, self._num_proj], kind)
                    h = projected(h, kernel, self._proj_clip)
        return h, LSTMStateTuple(c, h)
