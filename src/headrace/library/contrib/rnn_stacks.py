"""Recurrent networks in both directions, one above the other.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn/python/ops/rnn.py)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.graph.convert import convert
from headrace.library.rnn.loops import (
    bidirectional_dynamic_rnn,
    static_bidirectional_rnn,
    time_first,
)
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.joining import concat

__all__ = ["stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn", "transpose_batch_time"]


def transpose_batch_time(x: Any) -> Any:
    """[batch, time, ...] as [time, batch, ...], and back; what has fewer dimensions stays as it is."""
    x = convert(x)
    return x if x.raw_shape is not None and len(x.raw_shape) < 2 else time_first(x)


def _checked(
    cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Cells and initial states of each layer.  Raises ValueError."""
    for cells, which in ((cells_fw, "cells_fw"), (cells_bw, "cells_bw")):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"Must specify at least one cell in {which}, a list of them")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(
            f"Forward and Backward cells must have the same depth: {len(cells_fw)} and {len(cells_bw)}"
        )
    for states, cells, which in (
        (states_fw, cells_fw, "initial_states_fw"),
        (states_bw, cells_bw, "initial_states_bw"),
    ):
        if states is not None and (not isinstance(states, list) or len(states) != len(cells)):
            raise ValueError(f"{which} must be a list of states (one per layer): {states!r:.80}")
    none = [None] * len(cells_fw)
    return zip(cells_fw, cells_bw, states_fw or none, states_bw or none, strict=True)


def stack_bidirectional_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: list[Any] | None = None,
    initial_states_bw: list[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """`static_bidirectional_rnn`, layer above layer: (outputs of the last, last states forward, and backward).

    Each layer takes the outputs of the one below, both directions side by side.  Raises TypeError, ValueError.
    """
    layers = _checked(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    forward, backward = [], []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw, start_fw, start_bw) in enumerate(layers):
            with variable_scope(f"cell_{number}"):
                inputs, last_fw, last_bw = static_bidirectional_rnn(
                    fw, bw, inputs, start_fw, start_bw, dtype, sequence_length
                )
            forward.append(last_fw)
            backward.append(last_bw)
    return inputs, tuple(forward), tuple(backward)


def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: list[Any] | None = None,
    initial_states_bw: list[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """`bidirectional_dynamic_rnn`, layer above layer; as `stack_bidirectional_rnn`."""
    layers = _checked(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    forward, backward = [], []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw, start_fw, start_bw) in enumerate(layers):
            with variable_scope(f"cell_{number}"):
                outputs, (last_fw, last_bw) = bidirectional_dynamic_rnn(
                    fw,
                    bw,
                    inputs,
                    sequence_length,
                    start_fw,
                    start_bw,
                    dtype,
                    parallel_iterations,
                    swap_memory,
                    time_major,
                )
                inputs = concat(list(outputs), 2)
            forward.append(last_fw)
            backward.append(last_bw)
    return inputs, tuple(forward), tuple(backward)
