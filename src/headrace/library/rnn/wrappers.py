"""Cells around cells: stacks, dropout, residual connections, a device.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/rnn_cell_impl.py); GraphDefs checked against the oracle
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import nest
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import device, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.rnn.cells import LSTMStateTuple, RNNCell, check_is_cell
from headrace.library.tracking.trackable import Trackable
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.joining import concat
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.arithmetic import divide
from headrace.ops.nn.basics import dropout
from headrace.ops.random.draws import random_uniform
from headrace.ops.tables import make

__all__ = ["DeviceWrapper", "DropoutWrapper", "MultiRNNCell", "ResidualWrapper"]


class _Wrapper(RNNCell):
    """A cell that does something around another; it has no variables and no scope of its own."""

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_is_cell(cell, "cell")
        self._cell = cell
        if isinstance(cell, Trackable):
            self._track_trackable(cell, "cell")

    @property
    def cell(self) -> Any:
        """What is wrapped."""
        return self._cell

    wrapped_cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    @property
    def variables(self) -> list[Any]:
        found: list[Any] = self._cell.variables
        return found

    weights = variables

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with name_scope(None, type(self).__name__ + "ZeroState", [batch_size]):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        raise NotImplementedError


def _drops(substate: Any) -> Any:
    """Which parts of a state dropout touches: not what an LSTM keeps in c."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(False, True)
    return not isinstance(substate, TensorArray)


class DropoutWrapper(_Wrapper):
    """Dropout of a cell's inputs, outputs and new state."""

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Shares in [0, 1] to keep, numbers or scalars.

        variational_recurrent: the same elements are dropped in each step of a run; needs dtype, and input_size where
        inputs are dropped.  dropout_state_filter_visitor: says of a part of the state whether it is dropped, or of
        which of its parts; by default all but the c of LSTMs.  Raises ValueError, TypeError.
        """
        super().__init__(cell, dtype=dtype, **kwargs)
        visitor = dropout_state_filter_visitor
        if visitor is not None and not callable(visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._drops = visitor or _drops
        self._seed, self._variational = seed, variational_recurrent
        with name_scope(None, "DropoutWrapperInit"):
            self._keep_input = _share(input_keep_prob, "input_keep_prob")
            self._keep_state = _share(state_keep_prob, "state_keep_prob")
            self._keep_output = _share(output_keep_prob, "output_keep_prob")
        if variational_recurrent:
            self._make_noise(input_size)

    def _make_noise(self, input_size: Any) -> None:
        kind = self._dtype
        if kind is None:
            raise ValueError(
                "When variational_recurrent=True, dtype must be provided: the masks are of it"
            )

        def noise(sizes: Any, salt: str) -> Any:
            made = [
                random_uniform(
                    concat([[1], TensorShape(size).as_list()], 0),
                    seed=self._salted(salt, at),
                    dtype=kind,
                )
                for at, size in enumerate(nest.flatten(sizes))
            ]
            return nest.pack_sequence_as(sizes, made)

        self._noise: dict[str, Any] = {}
        if _is_dropped(self._keep_input):
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be "
                    "provided, the size of their mask"
                )
            self._noise["input"] = noise(input_size, "input")
        self._noise["state"] = noise(self._cell.state_size, "state")
        self._noise["output"] = noise(self._cell.output_size, "output")

    def _salted(self, salt: str, number: int) -> int | None:
        if self._seed is None:
            return None
        text = f"{self._seed}{salt}_{number}".encode()
        return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        inputs = self._dropped(inputs, "input", self._keep_input)
        outputs, new_state = self._cell(inputs, state, scope)
        new_state = self._dropped(new_state, "state", self._keep_state, self._drops)
        return self._dropped(outputs, "output", self._keep_output), new_state

    def _dropped(self, values: Any, salt: str, keep: Any, visitor: Any = None) -> Any:
        if not _is_dropped(keep):
            return values
        flat = nest.flatten(values)
        touched = [True] * len(flat) if visitor is None else _leaves(visitor, values)
        noises = nest.flatten(self._noise[salt]) if self._variational else [None] * len(flat)
        found = []
        for at, (value, touch, noise) in enumerate(zip(flat, touched, noises, strict=True)):
            if not touch or isinstance(value, TensorArray):
                found.append(value)
            elif self._variational:
                found.append(_with_noise(value, noise, keep))
            else:
                found.append(dropout(value, rate=1.0 - keep, seed=self._salted(salt, at)))
        return nest.pack_sequence_as(values, found)


def _leaves(visitor: Callable[[Any], Any], state: Any) -> list[bool]:
    """What `visitor` says of each leaf of `state`, asked of a tuple before its parts."""
    if isinstance(state, LSTMStateTuple) or not nest.is_nested(state):
        said = visitor(state)
        if nest.is_nested(said):
            return [bool(each) for each in nest.flatten(said)]
        return [bool(said)] * len(nest.flatten(state))
    parts = state.values() if isinstance(state, dict) else state
    return [leaf for part in parts for leaf in _leaves(visitor, part)]


def _share(value: Any, name: str) -> Any:
    """A number in [0, 1], or a tensor whose value is not known.  Raises ValueError."""
    tensor = convert(value)
    known = constant_value(tensor)
    if known is None:
        return tensor
    if not 0 <= float(known) <= 1:
        raise ValueError(f"Parameter {name} must be between 0 and 1, and is {float(known)}")
    return float(known)


def _is_dropped(keep: Any) -> bool:
    return not isinstance(keep, float) or keep < 1


def _with_noise(value: Any, noise: Tensor, keep: Any) -> Tensor:
    """Elements whose noise, in [0, 1), plus `keep` is 1 or more, scaled."""
    chosen = make.Floor(keep + noise)
    kept: Tensor = divide(value, keep) * chosen
    kept.set_shape(value.shape)
    return kept


class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs."""

    def __init__(
        self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any
    ) -> None:
        """residual_fn: of (inputs, outputs), in the place of the sum."""
        super().__init__(cell, **kwargs)
        self._residual = residual_fn or _sums

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        outputs, new_state = self._cell(inputs, state, scope)
        return self._residual(inputs, outputs), new_state


def _sums(inputs: Any, outputs: Any) -> Any:
    nest.assert_same_structure(inputs, outputs)
    for one, other in zip(nest.flatten(inputs), nest.flatten(outputs), strict=True):
        one.shape.assert_is_compatible_with(other.shape)
    return nest.map_structure(lambda one, other: one + other, inputs, outputs)


class DeviceWrapper(_Wrapper):
    """A cell on a device."""

    def __init__(self, cell: Any, device: Any, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """See `RNNCell.zero_state`; its nodes are on the device, too."""
        with (
            name_scope(None, type(self).__name__ + "ZeroState", [batch_size]),
            device(self._device),
        ):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        with device(self._device):
            return self._cell(inputs, state, scope)


class MultiRNNCell(RNNCell):
    """Cells one above the other: each takes the outputs of the one below."""

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        """state_is_tuple: else the states are one tensor, side by side.  Raises TypeError, ValueError."""
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell: there is none")
        if not isinstance(cells, (list, tuple)):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells!r:.80}")
        for number, cell in enumerate(cells):
            check_is_cell(cell, f"cells[{number}]")
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set: "
                f"{[cell.state_size for cell in cells]}"
            )
        self._cells, self._state_is_tuple = list(cells), state_is_tuple
        for number, cell in enumerate(cells):
            if isinstance(cell, Trackable):
                self._track_trackable(cell, f"cell-{number}")

    @property
    def cells(self) -> list[Any]:
        """From the bottom to the top."""
        return list(self._cells)

    @property
    def state_size(self) -> Any:
        """Units in each part of the state; a sum where the parts lie side by side."""
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """Units in the output of a step."""
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """States of zeros, [batch_size, units] each, as `state_size` is nested."""
        with name_scope(None, type(self).__name__ + "ZeroState", [batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`: inputs [batch, depth] and a state to outputs [batch, output_size] and the next state."""
        new, at = [], 0
        if self._state_is_tuple and (not nest.is_nested(state) or len(state) != len(self._cells)):
            raise ValueError(
                f"Expected state to be a tuple of length {len(self._cells)}, but received: {state!r:.80}"
            )
        for number, cell in enumerate(self._cells):
            with variable_scope(f"cell_{number}"):
                if self._state_is_tuple:
                    current = state[number]
                else:
                    current = slice_of(state, [0, at], [-1, cell.state_size])
                    at += cell.state_size
                inputs, after = cell(inputs, current)
                new.append(after)
        return inputs, tuple(new) if self._state_is_tuple else concat(new, 1)
