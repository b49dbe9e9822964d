"""GridLSTMCell and BidirectionalGridLSTMCell: LSTMs over blocks of frequencies and over time at once.

Called by: programs.  Threads: as graph.
Source: N. Kalchbrenner, I. Danihelka, A. Graves, Grid Long Short-Term Memory, 2015; T. Sainath, B. Li, Modeling
time-frequency patterns with LSTM vs. convolutional architectures, 2016; names and arguments as TF 1.15
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.library.contrib.rnn_weights import clean_scope, sharded
from headrace.library.rnn.cells import RNNCell
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat, split
from headrace.ops.array.padding import pad
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.linalg.products import matmul
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.nn.bias import bias_add

__all__ = ["BidirectionalGridLSTMCell", "GridLSTMCell"]


class GridLSTMCell(RNNCell):
    """Windows of feature_size inputs, frequency_skip apart, in blocks; a window has two LSTMs.

    One goes on from the window before (frequency), one from the step before (time); both see both.  The output has
    for each window the m of the time LSTM and that of the frequency LSTM, the state c and m of the time LSTM.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int | None = None,
        num_frequency_blocks: Sequence[int] | None = None,
        start_freqindex_list: Sequence[int] | None = None,
        end_freqindex_list: Sequence[int] | None = None,
        couple_input_forget_gates: bool = False,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        """num_frequency_blocks: windows of each block.  start_freqindex_list, end_freqindex_list: the inputs that a
        block begins with and ends before; without them there is one block, of all inputs.

        share_time_frequency_weights: both LSTMs have the same weights.  couple_input_forget_gates: what is not let
        in is kept.  state_is_tuple: else the state is [batch, 2 * units * windows].  Variables of block 0: W_f_0_0,
        B_f_0, W_t_0_0, B_t_0, W_F_diag_freqf_0, ….  Raises ValueError.
        """
        super().__init__(reuse=reuse)
        if num_frequency_blocks is None:
            raise ValueError("Must specify num_frequency_blocks")
        self._blocks = list(num_frequency_blocks)
        self._bounds = _bounds(self._blocks, start_freqindex_list, end_freqindex_list)
        self._num_units, self._use_peepholes = num_units, use_peepholes
        self._shared, self._coupled = share_time_frequency_weights, couple_input_forget_gates
        self._cell_clip, self._initializer, self._shards = cell_clip, initializer, num_unit_shards
        self._forget_bias = forget_bias
        self._feature_size, self._frequency_skip = feature_size, frequency_skip
        self._state_is_tuple = state_is_tuple
        names = _state_names(self._blocks)
        self._state_tuple_type = _named("GridLSTMStateTuple", names)

    @property
    def output_size(self) -> Any:
        """Units of both LSTMs of all windows."""
        return 2 * self._num_units * sum(self._blocks)

    @property
    def state_size(self) -> Any:
        """Of c and m of each window; their sum, if the state is no tuple."""
        sizes = [self._num_units] * (2 * sum(self._blocks))
        return self._state_tuple_type(*sizes) if self._state_is_tuple else sum(sizes)

    @property
    def state_tuple_type(self) -> Any:
        """A named tuple: state_f00_b00_c, state_f00_b00_m, … by window and block."""
        return self._state_tuple_type

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`.  Raises ValueError: the inputs have other windows."""
        with clean_scope(self._initializer):
            found = [
                self._over(windows, block, given)
                for block, (windows, given) in enumerate(
                    zip(self._windows(inputs), self._states(state), strict=True)
                )
            ]
        outputs = [each for made, _ in found for each in made]
        states = [each for _, kept in found for each in kept]
        if self._state_is_tuple:
            return concat(outputs, 1), self._state_tuple_type(*states)
        return concat(outputs, 1), concat(states, 1)

    # -- what goes in ---------------------------------------------------------------------------

    def _states(self, state: Any, first: int = 0) -> list[list[Any]]:
        """The (c, m) of each window of each block."""
        n, at, found = self._num_units, first, []
        for count in self._blocks:
            if self._state_is_tuple:
                parts = list(state[at : at + 2 * count])
            else:
                parts = [state[:, each * n : (each + 1) * n] for each in range(at, at + 2 * count)]
            found.append(list(zip(parts[::2], parts[1::2], strict=True)))
            at += 2 * count
        return found

    def _windows(self, inputs: Any, offset: int = 0) -> list[list[Any]]:
        """Those of each block, all `offset` further on; beyond the inputs there are zeros."""
        depth = inputs.shape.with_rank(2)[1].value
        if depth is None:
            raise ValueError("Cannot infer input_size from static shape inference.")
        if self._feature_size is None or self._frequency_skip is None:
            raise ValueError("feature_size and frequency_skip must be given")
        if offset:
            inputs = pad(inputs, [[0, 0], [max(0, -offset), max(0, offset)]])
        found = []
        for count, bounds in zip(self._blocks, self._bounds, strict=True):
            start, stop = bounds or (0, depth)
            fit = (stop - start - self._feature_size) // self._frequency_skip + 1
            if fit != count:
                raise ValueError(
                    f"Invalid num_frequency_blocks, requires {fit} but gets {count}, please check the input size and "
                    "filter config are correct."
                )
            starts = [start + max(0, offset) + at * self._frequency_skip for at in range(count)]
            found.append([inputs[:, each : each + self._feature_size] for each in starts])
        return found

    # -- a block --------------------------------------------------------------------------------

    def _over(self, windows: Sequence[Any], block: int, states: Sequence[Any]) -> Any:
        """(outputs, states) of one block: [m of time, m of frequency, …], [c, m, …]."""
        n, kind = self._num_units, windows[0].dtype
        depth = windows[0].shape[1].value + 2 * n
        weights = self._weights("f", block, depth, kind)
        of_time = weights if self._shared else self._weights("t", block, depth, kind)
        peepholes = dict(self._peepholes(block, kind)) if self._use_peepholes else {}
        c_freq = m_freq = zeros([sizes_of(windows[0])[0], n], kind)
        outputs: list[Any] = []
        kept: list[Any] = []
        for window, (c_time, m_time) in zip(windows, states, strict=True):
            given = concat([window, m_time, m_freq], 1)
            cells = c_freq, c_time
            freq = self._opened(given, weights, cells, c_freq, peepholes, "freq")
            time = self._opened(given, of_time, cells, c_time, peepholes, "time")
            (c_freq, leave_freq), (c_time, leave_time) = freq, time
            cells = c_freq, c_time
            m_freq = sigmoid(leave_freq + _seen(peepholes, "O", "freq", cells)) * tanh(c_freq)
            m_time = sigmoid(leave_time + _seen(peepholes, "O", "time", cells)) * tanh(c_time)
            outputs += [m_time, m_freq]
            kept += [c_time, m_time]
        return outputs, kept

    def _weights(self, which: str, block: int, depth: int, kind: Any) -> tuple[Any, Any]:
        gates = (3 if self._coupled else 4) * self._num_units
        kernel = sharded(f"W_{which}_{block}", [depth, gates], kind, self._shards)
        bias = get_variable(f"B_{which}_{block}", [gates], kind, zeros_initializer(dtype=kind))
        return kernel, bias

    def _peepholes(self, block: int, kind: Any) -> Iterator[tuple[Any, Any]]:
        """By gate and LSTM: what it sees of the c of frequency, and of that of time."""
        for name in ("freq",) if self._shared else ("freq", "time"):
            for gate in "IO" if self._coupled else "FIO":
                pair = [
                    get_variable(f"W_{gate}_diag_{name}{of}_{block}", [self._num_units], kind)
                    for of in "ft"
                ]
                yield (gate, name), pair
                if self._shared:
                    yield (gate, "time"), pair

    def _opened(
        self, given: Any, weights: Any, cells: Any, c: Any, peepholes: Any, name: str
    ) -> tuple[Any, Any]:
        """(the new c of one of the LSTMs, its output gate without what it sees of them)."""
        kernel, bias = weights
        gates = split(bias_add(matmul(given, kernel), bias), 3 if self._coupled else 4, 1)
        enter = sigmoid(gates[0] + _seen(peepholes, "I", name, cells))
        if self._coupled:
            kept = 1.0 - enter
        else:
            kept = sigmoid(gates[2] + self._forget_bias + _seen(peepholes, "F", name, cells))
        c = kept * c + enter * tanh(gates[1])
        if self._cell_clip is not None:
            c = clip_by_value(c, -self._cell_clip, self._cell_clip)
        return c, gates[-1]


def _seen(peepholes: Any, gate: str, name: str, cells: tuple[Any, Any]) -> Any:
    """What a gate sees of both cells."""
    if not peepholes:
        return 0.0
    (of_freq, of_time), (c_freq, c_time) = peepholes[gate, name], cells
    return of_freq * c_freq + of_time * c_time


def _named(kind: str, names: Sequence[str]) -> Any:
    return namedtuple(kind, names)


def _state_names(blocks: Sequence[int], prefix: str = "state") -> list[str]:
    return [
        f"{prefix}_f{window:02}_b{block:02}_{part}"
        for block, count in enumerate(blocks)
        for window in range(count)
        for part in "cm"
    ]


def _bounds(blocks: Sequence[int], starts: Any, ends: Any) -> list[tuple[int, int] | None]:
    """The inputs of each block; None for all of them.  Raises ValueError."""
    if starts is None and ends is None:
        if len(blocks) != 1:
            raise ValueError(
                "Length of num_frequency_blocks should be 1 if start_freqindex_list and end_freqindex_list are None: "
                f"it is {len(blocks)}"
            )
        return [None]
    if starts is None or ends is None or not len(starts) == len(ends) == len(blocks):
        raise ValueError(
            "start_freqindex_list, end_freqindex_list and num_frequency_blocks must have one element for each block: "
            f"they are {starts}, {ends} and {list(blocks)}"
        )
    return list(zip(starts, ends, strict=True))


class BidirectionalGridLSTMCell(GridLSTMCell):
    """Two grids, of which the second, `bwd`, goes through the windows from the last to the first."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int | None = None,
        num_frequency_blocks: Sequence[int] | None = None,
        start_freqindex_list: Sequence[int] | None = None,
        end_freqindex_list: Sequence[int] | None = None,
        couple_input_forget_gates: bool = False,
        backward_slice_offset: int = 0,
        reuse: Any = None,
    ) -> None:
        """backward_slice_offset: the windows of the second grid are so many inputs further on.

        The rest is as of GridLSTMCell; the variables are in the scopes fwd and bwd.
        """
        super().__init__(
            num_units,
            use_peepholes,
            share_time_frequency_weights,
            cell_clip,
            initializer,
            num_unit_shards,
            forget_bias,
            feature_size,
            frequency_skip,
            num_frequency_blocks,
            start_freqindex_list,
            end_freqindex_list,
            couple_input_forget_gates,
            reuse=reuse,
        )
        self._offset = backward_slice_offset
        names = [
            name for way in ("fwd", "bwd") for name in _state_names(self._blocks, f"{way}_state")
        ]
        self._state_tuple_type = _named("BidirectionalGridLSTMStateTuple", names)

    @property
    def output_size(self) -> Any:
        """Units of both LSTMs of all windows, both ways."""
        return 2 * super().output_size

    @property
    def state_size(self) -> Any:
        """Of c and m of each window, both ways."""
        return self._state_tuple_type(*[self._num_units] * (4 * sum(self._blocks)))

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`.  Raises ValueError: the inputs have other windows."""
        outputs: list[Any] = []
        states: list[Any] = []
        with clean_scope(self._initializer):
            for way, offset in (("fwd", 0), ("bwd", self._offset)):
                windows = self._windows(inputs, offset)
                given = self._states(state, len(states))
                with variable_scope(way):
                    for block in range(len(self._blocks)):
                        here = windows[block] if way == "fwd" else windows[block][::-1]
                        made, kept = self._over(here, block, given[block])
                        outputs += made
                        states += kept
        return concat(outputs, 1), self._state_tuple_type(*states)
