"""Recurrent networks whose loop the program writes itself (raw_rnn), or whose state is kept between steps.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/rnn.py); GraphDefs checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import colocate_with, control_dependencies
from headrace.graph.tensor import Tensor
from headrace.library.rnn.cells import check_is_cell, joined_sizes
from headrace.library.rnn.loops import cached, static_rnn
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.gathering import where
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import while_loop
from headrace.ops.flow.identities import identity
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.comparisons import logical_not, logical_or
from headrace.ops.math.reductions import reduce_all

__all__ = ["raw_rnn", "static_state_saving_rnn"]

LoopFunction = Callable[[Any, Any, Any, Any], Any]


def raw_rnn(
    cell: Any,
    loop_fn: LoopFunction,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run `cell` in a while loop on what `loop_fn` makes of each step: (TensorArrays, last state, last loop state).

    loop_fn(time, cell_output, cell_state, loop_state) gives (finished [batch], next input, next state, what to emit,
    next loop state).  It is first called with None for all but `time`: state and loop state are the initial ones then,
    and what to emit is of the shapes and dtypes of what will be; None for the cell's outputs.  A sequence that is
    finished keeps its state and emits zeros.  Raises TypeError, ValueError.
    """
    check_is_cell(cell, "cell")
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with variable_scope(scope or "rnn") as current:
        cached(current)
        time = constant(0, dtype=dtypes.int32)
        finished, given, state, emitted, loop_state = loop_fn(time, None, None, None)
        flat = [convert(x) for x in nest.flatten(given)]
        kept_loop_state = loop_state is not None
        if not kept_loop_state:
            loop_state = constant(0, dtype=dtypes.int32)
        batch = _known_batch(flat)
        batch_size = shape_of(flat[0])[0] if batch is None else batch
        nest.assert_same_structure(state, cell.state_size)
        state = nest.map_structure(lambda x: x if isinstance(x, TensorArray) else convert(x), state)
        like, sizes, kinds = _emitted(cell, emitted, state)
        arrays = [
            TensorArray(
                kind,
                size=0,
                dynamic_size=True,
                element_shape=TensorShape([batch]).concatenate(_known_shape(size)),
                name=f"rnn_output_{at}",
            )
            for at, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
        ]
        zero = nest.pack_sequence_as(
            like,
            [
                zeros(joined_sizes(batch_size, size), kind)
                for size, kind in zip(sizes, kinds, strict=True)
            ],
        )
        body = _Body(cell, loop_fn, zero, nest.pack_sequence_as(given, flat))
        found = while_loop(
            lambda time, finished, *_: logical_not(reduce_all(finished)),
            body,
            (
                time,
                convert(finished),
                nest.pack_sequence_as(given, flat),
                nest.pack_sequence_as(like, arrays),
                state,
                loop_state,
            ),
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
        return found[3], found[4], found[5] if kept_loop_state else None


class _Body:
    """One step of raw_rnn's loop."""

    def __init__(self, cell: Any, loop_fn: LoopFunction, zero: Any, given: Any) -> None:
        self._cell, self._loop_fn, self._zero, self._like = cell, loop_fn, zero, given

    def __call__(
        self, time: Any, finished: Any, given: Any, arrays: Any, state: Any, loop_state: Any
    ) -> Any:
        output, cell_state = self._cell(given, state)
        nest.assert_same_structure(state, cell_state)
        next_time = time + 1
        ended, given, new_state, emitted, new_loop_state = self._loop_fn(
            next_time, output, cell_state, loop_state
        )
        nest.assert_same_structure(state, new_state)
        nest.assert_same_structure(self._like, given)
        nest.assert_same_structure(arrays, emitted)

        def kept(old: Any, new: Any) -> Any:
            if isinstance(old, TensorArray) or getattr(new, "raw_shape", None) == ():
                return new
            with colocate_with(new):
                return where(finished, old, new)

        emitted = nest.map_structure(kept, self._zero, emitted)
        new_state = nest.map_structure(kept, state, new_state)
        arrays = nest.map_structure(lambda array, x: array.write(time, x), arrays, emitted)
        if new_loop_state is None:
            new_loop_state = loop_state
        return next_time, logical_or(finished, ended), given, arrays, new_state, new_loop_state


def _known_batch(flat: list[Any]) -> int | None:
    batch: int | None = None
    for x in flat:
        size = None if not x.raw_shape else x.raw_shape[0]
        if None not in (batch, size) and batch != size:
            raise ValueError(f"the inputs have {batch} and {size} sequences")
        batch = size if batch is None else batch
    return batch


def _emitted(cell: Any, emitted: Any, state: Any) -> tuple[Any, list[Any], list[Any]]:
    """What is emitted a sequence: its structure, sizes and dtypes."""
    if emitted is None:
        sizes = nest.flatten(cell.output_size)
        kind = nest.flatten(state)[0].dtype
        return cell.output_size, sizes, [kind] * len(sizes)
    tensors = [convert(x) for x in nest.flatten(emitted)]
    sizes = [x.shape if x.shape.is_fully_defined() else shape_of(x) for x in tensors]
    return emitted, sizes, [x.dtype for x in tensors]


def _known_shape(size: Any) -> TensorShape:
    if isinstance(size, Tensor):
        value = constant_value(size)
        return TensorShape(None if value is None else np.atleast_1d(value).tolist())
    return TensorShape([size] if isinstance(size, int) else size)


def static_state_saving_rnn(
    cell: Any,
    inputs: Sequence[Any],
    state_saver: Any,
    state_name: Any,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """`static_rnn` that begins with a state that `state_saver` has, and gives it the last one: (outputs, last state).

    state_saver: has ``state(name)`` and ``save_state(name, value)``, which is an operation.
    state_name: a name, or names nested like the cell's state.  Raises TypeError, ValueError.
    """
    if not hasattr(cell, "state_size"):
        raise TypeError(f"static_state_saving_rnn: cell must be an RNNCell, and is {cell!r:.200}")
    sizes, nested = cell.state_size, nest.is_nested(cell.state_size)
    if nest.is_nested(state_name) != nested:
        raise ValueError(
            "state_name should be the same type as cell.state_size: "
            f"state_name is {state_name!r}, cell.state_size {sizes!r}"
        )
    if nested and len(nest.flatten(sizes)) != len(nest.flatten(state_name)):
        raise ValueError(
            f"Number of elements in state_name and state_size mismatch: {state_name!r} and {sizes!r}"
        )
    names = nest.flatten(state_name)
    state = nest.pack_sequence_as(sizes, [state_saver.state(name) for name in names])
    outputs, last = static_rnn(
        cell, inputs, initial_state=state, sequence_length=sequence_length, scope=scope
    )
    saved = [
        state_saver.save_state(name, part)
        for name, part in zip(names, nest.flatten(last), strict=True)
    ]
    with control_dependencies(saved):
        outputs[-1] = nest.map_structure(identity, outputs[-1])
        last = nest.map_structure(identity, last)
    return outputs, last
