"""Cells whose step, or whole sequence, is one op: LSTMBlockCell, LSTMBlockFusedCell, GRUBlockCell and adaptors.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn/python/ops/{lstm,gru}_ops.py, fused_rnn_cell.py)
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.library.rnn.cells import LSTMStateTuple, RNNCell
from headrace.library.rnn.loops import dynamic_rnn, static_rnn
from headrace.library.variables.initializers import constant_initializer
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import zeros
from headrace.ops.array.gathering import gather_nd
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack, unstack
from headrace.ops.array.padding import reverse, reverse_sequence
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_max
from headrace.ops.nn.gated_recurrent import gru_block_cell_op
from headrace.ops.nn.recurrent import block_lstm_op, lstm_block_cell_op

__all__ = [
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMBlockWrapper",
    "TimeReversedFusedRNN",
]


class _LayerCell(RNNCell):
    """A cell whose variables lie in its own scope beneath the one in force."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        return self._stepped(convert(inputs), state, scope)


class LSTMBlockCell(_LayerCell):
    """BasicLSTMCell as one op a step; faster, with the same variables: kernel, bias."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Any = None,
        name: str = "lstm_cell",
    ) -> None:
        """use_peephole: gates see c (w_i_diag, w_f_diag, w_o_diag).  cell_clip: c stays in [-cell_clip, cell_clip]."""
        super().__init__(name=name, dtype=dtype, reuse=reuse)
        self._num_units, self._forget_bias = num_units, forget_bias
        self._cell_clip = -1.0 if cell_clip is None else cell_clip
        self._use_peephole = use_peephole

    @property
    def state_size(self) -> Any:
        """Units of c and h."""
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> Any:
        """Units."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        depth = _known_depth(inputs_shape)
        n = self._num_units
        self._kernel = self.add_variable("kernel", [depth + n, 4 * n])
        self._bias = self.add_variable("bias", [4 * n], initializer=constant_initializer(0.0))
        if self._use_peephole:
            self._peepholes = [
                self.add_variable(name, [n]) for name in ("w_i_diag", "w_f_diag", "w_o_diag")
            ]

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        if len(state) != 2:
            raise ValueError(
                f"Expecting state to be a tuple with length 2, c and h, and not {state!r:.80}"
            )
        if self._use_peephole:
            peepholes = self._peepholes
        else:
            peepholes = [zeros([self._num_units], inputs.dtype)] * 3
        made = lstm_block_cell_op(
            inputs,
            state[0],
            state[1],
            self._kernel,
            *peepholes,
            self._bias,
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
        )
        return made[6], LSTMStateTuple(made[1], made[6])


def _known_depth(shape: Any) -> int:
    depth: int | None = shape[-1].value
    if depth is None:
        raise ValueError(f"Expecting inputs_shape[-1] to be set: {shape}")
    return depth


class FusedRNNCell:
    """What runs along inputs [time, batch, depth] as a whole: base of such, for programs that derive their own."""

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        """(outputs [time, batch, size], last state)."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class LSTMBlockWrapper(RNNCell):
    """Base of LSTMs that are run along time as one op: `num_units` and `_call_cell`."""

    @property
    def num_units(self) -> int:
        """Units of c and h."""
        raise NotImplementedError(f"{type(self).__name__} has no num_units")

    def _call_cell(
        self,
        inputs: Any,
        initial_cell_state: Any,
        initial_output: Any,
        dtype: Any,
        sequence_length: Any,
    ) -> Any:
        """(states c, outputs h), [time, batch, units] each."""
        raise NotImplementedError(f"{type(self).__name__} has no _call_cell")


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """LSTMBlockCell along time as one op, the fastest LSTM; the same variables: kernel, bias."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        """As `LSTMBlockCell`."""
        super().__init__(name=name, dtype=dtype, reuse=reuse)
        self._num_units, self._forget_bias = num_units, forget_bias
        self._cell_clip = -1.0 if cell_clip is None else cell_clip
        self._use_peephole = use_peephole

    @property
    def num_units(self) -> int:
        """Units of c and h."""
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        """Make the variables.  Raises ValueError."""
        depth, n = _known_depth(inputs_shape), self._num_units
        self._kernel = self.add_variable("kernel", [depth + n, 4 * n])
        self._bias = self.add_variable("bias", [4 * n], initializer=constant_initializer(0.0))
        if self._use_peephole:
            self._peepholes = [
                self.add_variable(name, [n]) for name in ("w_i_diag", "w_f_diag", "w_o_diag")
            ]

    def __call__(  # type: ignore[override]
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        """(outputs [time, batch, units], last state) of inputs [time, batch, depth], or lists of [batch, …].

        sequence_length [batch]: from there on outputs are zero, and the state is that of the last step before.
        Raises ValueError.
        """
        listed = isinstance(inputs, list)
        given = stack(inputs) if listed else convert(inputs)
        outputs, state = self._stepped(given, (initial_state, dtype, sequence_length), scope)
        return (unstack(outputs) if listed else outputs), state

    def call(self, inputs: Any, state: Any) -> Any:
        """See `__call__`; inputs are one tensor, state the other arguments."""
        initial_state, dtype, sequence_length = state
        shape = inputs.shape.with_rank(3)
        time = shape[0].value if shape[0].value is not None else shape_of(inputs)[0]
        batch = shape[1].value if shape[1].value is not None else shape_of(inputs)[1]
        if initial_state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified")
            zero = zeros(stack([batch, self.num_units]), dtype)
            initial_state = LSTMStateTuple(zero, zero)
        elif len(initial_state) != 2:
            raise ValueError(
                f"Expecting initial_state to be a tuple with length 2 or None, not {initial_state!r:.80}"
            )
        kind = initial_state[0].dtype if dtype is None else dtypes.as_dtype(dtype)
        if sequence_length is not None:
            sequence_length = convert(sequence_length)
        cs, h = self._call_cell(inputs, initial_state[0], initial_state[1], kind, sequence_length)
        if sequence_length is None:
            return h, LSTMStateTuple(cs[-1], h[-1])
        inside = transpose(sequence_mask(sequence_length, time, dtype=kind))
        h = h * expand_dims(inside, -1)
        last = [
            _state_at(concat([expand_dims(first, 0), each], 0), sequence_length)
            for first, each in zip(initial_state, (cs, h), strict=True)
        ]
        return h, LSTMStateTuple(*last)

    def _call_cell(
        self,
        inputs: Any,
        initial_cell_state: Any,
        initial_output: Any,
        dtype: Any,
        sequence_length: Any,
    ) -> Any:
        """See `LSTMBlockWrapper`."""
        if self._use_peephole:
            peepholes = self._peepholes
        else:
            peepholes = [zeros([self._num_units], dtype)] * 3
        if sequence_length is None:
            longest = cast(shape_of(inputs)[0], dtypes.int64)
        else:
            longest = cast(reduce_max(sequence_length), dtypes.int64)
        made = block_lstm_op(
            longest,
            inputs,
            initial_cell_state,
            initial_output,
            self._kernel,
            *peepholes,
            self._bias,
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
        )
        return made[1], made[6]


def _state_at(states: Any, lengths: Any) -> Any:
    """Row lengths[b] of column b of [time, batch, units]."""
    lengths = cast(lengths, dtypes.int32)
    return gather_nd(states, stack([lengths, range_of(shape_of(lengths)[0])], axis=1))


class GRUBlockCell(_LayerCell):
    """GRUCell as one op a step.  Variables: w_ru, b_ru, w_c, b_c."""

    _names = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: Any = None,
        name: str = "gru_cell",
    ) -> None:
        """cell_size: an older name of num_units.  Raises ValueError."""
        super().__init__(name=name, reuse=reuse)
        if (num_units is None) == (cell_size is None):
            raise ValueError("GRUBlockCell requires either num_units or cell_size, and not both")
        self._cell_size: Any = cell_size if num_units is None else num_units

    @property
    def state_size(self) -> Any:
        """Units."""
        return self._cell_size

    @property
    def output_size(self) -> Any:
        """Units."""
        return self._cell_size

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`.  Raises ValueError."""
        n = self._cell_size
        depth = _known_depth(inputs_shape) + n
        gates, gates_bias, candidate, candidate_bias = self._names
        self._w_ru = self.add_variable(gates, [depth, 2 * n])
        self._b_ru = self.add_variable(gates_bias, [2 * n], initializer=constant_initializer(1.0))
        self._w_c = self.add_variable(candidate, [depth, n])
        self._b_c = self.add_variable(candidate_bias, [n], initializer=constant_initializer(0.0))

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`."""
        made = gru_block_cell_op(inputs, state, self._w_ru, self._w_c, self._b_ru, self._b_c)
        return made[3], made[3]


class GRUBlockCellV2(GRUBlockCell):
    """GRUBlockCell with the variables of GRUCell: gates/kernel, gates/bias, candidate/kernel, candidate/bias."""

    _names = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")


class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell as a `FusedRNNCell`."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        """use_dynamic_rnn: run it in a loop; else the graph has every step."""
        self._cell, self._dynamic = cell, use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        """See `FusedRNNCell`."""
        listed = isinstance(inputs, list)
        if self._dynamic:
            outputs, state = dynamic_rnn(
                self._cell,
                stack(inputs) if listed else inputs,
                sequence_length=sequence_length,
                initial_state=initial_state,
                dtype=dtype,
                time_major=True,
                scope=scope,
            )
            return (unstack(outputs, axis=0) if listed else outputs), state
        steps, state = static_rnn(
            self._cell,
            inputs if listed else unstack(inputs),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
        )
        return (steps if listed else stack(steps)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A `FusedRNNCell` that is run from the last step to the first."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        """See `FusedRNNCell`; outputs are in the order of the inputs."""
        outputs, state = self._cell(
            _turned(inputs, sequence_length),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
        )
        return _turned(outputs, sequence_length), state


def _turned(values: Any, lengths: Any) -> Any:
    listed = isinstance(values, list)
    if lengths is None:
        return list(reversed(values)) if listed else reverse(values, [0])
    found = reverse_sequence(stack(values) if listed else values, lengths, seq_axis=0, batch_axis=1)
    return unstack(found) if listed else found
