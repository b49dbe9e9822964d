"""Recurrent networks: a cell run along time, in a loop (dynamic_rnn) or unrolled (static_rnn), one way or both.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/rnn.py); GraphDefs checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import colocate_with, control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.rnn.cells import check_is_cell, joined_sizes, static_sizes
from headrace.library.variables.variable_scope import VariableScope, variable_scope
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack, unstack
from headrace.ops.array.padding import reverse, reverse_sequence
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import rank, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.control_flow import cond, while_loop
from headrace.ops.flow.identities import identity
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.arithmetic import maximum, minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal
from headrace.ops.math.reductions import reduce_all, reduce_max, reduce_min

__all__ = [
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
]


def time_first(x: Tensor) -> Tensor:
    """[batch, time, ...] as [time, batch, ...], and back."""
    raw = x.raw_shape
    if raw is not None and len(raw) < 2:
        raise ValueError(f"{x.name} must be [batch, time, ...], and has shape {x.shape}")
    turned = transpose(x, concat([[1, 0], range_of(2, rank(x))], axis=0))
    if raw is not None:
        turned.set_shape((raw[1], raw[0], *raw[2:]))
    return turned


def _size_at(flat: Sequence[Tensor], axis: int) -> Any:
    """What is known of that axis' size, or the size of the first as a tensor."""
    for x in flat:
        if x.raw_shape is not None and x.raw_shape[axis] is not None:
            return x.raw_shape[axis]
    return shape_of(flat[0])[axis]


def cached(scope: VariableScope) -> None:
    """Variables are read where they are used, once: not in every step of a loop."""
    if scope.caching_device is None:
        scope.set_caching_device(lambda op: op.device)


def _start(cell: Any, initial_state: Any, batch_size: Any, dtype: Any) -> Any:
    if initial_state is not None:
        return initial_state
    if not dtype:
        raise ValueError(
            "If no initial_state is provided, argument `dtype` must be specified: the state is of it"
        )
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def _checked_lengths(sequence_length: Any) -> Tensor:
    """One length a sequence.  Raises ValueError."""
    lengths: Tensor = cast(sequence_length, dtypes.int32)
    if lengths.raw_shape is not None and len(lengths.raw_shape) != 1:
        raise ValueError(
            f"Argument sequence_length must be a vector of length batch_size, and has shape {lengths.shape}"
        )
    return lengths


class _Step:
    """One step of a cell; sequences that have ended keep their state and give zeros."""

    def __init__(self, lengths: Tensor | None, zero_outputs: list[Tensor]) -> None:
        self._lengths, self._zero_outputs = lengths, zero_outputs
        self.first = self.last = None
        if lengths is not None:
            self.first, self.last = reduce_min(lengths), reduce_max(lengths)

    def __call__(self, time: Any, state: Any, run: Callable[[], Any], skips: bool) -> Any:
        """(flat outputs, new state).  skips: the cell is not run in steps that no sequence has."""
        if self._lengths is None:
            outputs, new_state = run()
            nest.assert_same_structure(state, new_state)
            return nest.flatten(outputs), new_state
        flat = nest.flatten(state)
        ended = time >= self._lengths
        count = len(self._zero_outputs)

        def run_flat() -> list[Any]:
            outputs, new_state = run()
            nest.assert_same_structure(state, new_state)
            return nest.flatten(outputs) + nest.flatten(new_state)

        def kept(new: list[Any]) -> list[Any]:
            return [
                _kept(ended, old, one)
                for old, one in zip(self._zero_outputs + flat, new, strict=True)
            ]

        def run_some() -> Any:
            new = run_flat()
            return cond(time < self.first, lambda: new, lambda: kept(new))

        if skips:
            found = cond(time >= self.last, lambda: self._zero_outputs + flat, run_some)
        else:
            found = kept(run_flat())
        for one, like in zip(found, self._zero_outputs + flat, strict=True):
            if isinstance(one, Tensor):
                one.set_shape(like.shape)
        return found[:count], nest.pack_sequence_as(state, found[count:])


def _kept(ended: Tensor, old: Any, new: Any) -> Any:
    """Rows of `old` where the sequence has ended; what has no rows is new."""
    if isinstance(old, TensorArray) or old.shape.ndims == 0:  # it may be a variable
        return new
    with colocate_with(new):
        return where(ended, old, new)


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Run `cell` along the time of `inputs`, in a while loop: (outputs, last state).

    inputs: [batch, time, depth, ...], or [time, batch, ...] if time_major; or a nest of such; outputs likewise.
    sequence_length [batch]: from there on outputs are zero and the state stays.  initial_state, or dtype for zeros.
    swap_memory is accepted.  scope: of the variables, "rnn" by default.  Raises TypeError, ValueError.
    """
    check_is_cell(cell, "cell")
    with variable_scope(scope or "rnn") as current:
        cached(current)
        flat = [convert(x) for x in nest.flatten(inputs)]
        if not time_major:
            flat = [time_first(x) for x in flat]
        lengths = None
        if sequence_length is not None:
            lengths = identity(_checked_lengths(sequence_length), name="sequence_length")
        for x in flat:
            if x.raw_shape is None:
                raise ValueError(f"the rank of {x.name} must be known")
        batch_size = _size_at(flat, 1)
        state = _start(cell, initial_state, batch_size, dtype)
        if lengths is not None:
            with control_dependencies([_has_length(lengths, batch_size)]):
                lengths = identity(lengths, name="CheckSeqLen")
        loop = {"parallel_iterations": parallel_iterations or 32, "swap_memory": swap_memory}
        outputs, last = _loop(cell, inputs, flat, state, lengths, dtype, loop)
        if not time_major:
            outputs = nest.map_structure(time_first, outputs)
        return outputs, last


def _has_length(x: Tensor, length: Any) -> Any:
    """An operation that fails unless x is a vector of `length`."""
    found, wanted = shape_of(x), stack([length])
    return Assert(
        reduce_all(equal(found, wanted)),
        [f"Expected shape for Tensor {x.name} is ", wanted, " but saw shape: ", found],
    )


def _checked_inputs(flat: Sequence[Tensor]) -> tuple[int | None, int | None]:
    """What is known of the number of steps and of sequences.  Raises ValueError."""
    steps: int | None = None
    batch: int | None = None
    for x in flat:
        shape = x.shape.with_rank_at_least(3)
        if not shape[2:].is_fully_defined():
            raise ValueError(
                "Input size (depth of inputs) must be accessible via shape inference, but saw value None: "
                f"{x.name} has shape {x.shape} with time first"
            )
        says = "Time steps is not the same for all the elements in the input in a batch"
        steps = _agreed(steps, shape[0].value, "steps", says)
        batch = _agreed(batch, shape[1].value, "sequences")
    return steps, batch


def _agreed(one: int | None, other: int | None, what: str, says: str | None = None) -> int | None:
    if one is not None and other is not None and one != other:
        first = says or f"Dimensions {one} and {other} are not compatible"
        raise ValueError(f"{first}: the inputs have {one} and {other} {what}")
    return other if one is None else one


def _loop(
    cell: Any,
    like: Any,
    flat: list[Tensor],
    state: Any,
    lengths: Tensor | None,
    dtype: Any,
    loop: dict[str, Any],
) -> tuple[Any, Any]:
    """The while loop of dynamic_rnn, time first."""
    steps, batch = _checked_inputs(flat)
    count = shape_of(flat[0])[0]
    batch_size = _size_at(flat, 1)
    sizes = cell.output_size
    flat_sizes = nest.flatten(sizes)
    kind = dtype or _kind_of(state)
    kinds = [kind] * len(flat_sizes) if not nest.is_nested(kind) else nest.flatten(kind)
    zero_outputs = [
        zeros(joined_sizes(batch_size, size), each)
        for size, each in zip(flat_sizes, kinds, strict=True)
    ]
    step = _Step(lengths, zero_outputs)
    last = count if lengths is None else step.last
    time = constant(0, dtypes.int32, name="time")
    with name_scope(None, "dynamic_rnn") as base:
        pass

    def array(name: str, kind: Any, shape: TensorShape) -> TensorArray:
        return TensorArray(kind, size=count, element_shape=shape, tensor_array_name=base + name)

    outputs = [
        array(f"output_{at}", each, TensorShape([batch]).concatenate(TensorShape(size)))
        for at, (size, each) in enumerate(zip(flat_sizes, kinds, strict=True))
    ]
    arrays = [array(f"input_{at}", x.dtype, x.shape[1:]).unstack(x) for at, x in enumerate(flat)]
    end = minimum(count, maximum(1, last))

    def body(time: Tensor, written: Any, state: Any) -> Any:
        rows = [each.read(time) for each in arrays]
        for row, x in zip(rows, flat, strict=True):
            row.set_shape(x.shape[1:])
        given = nest.pack_sequence_as(like, rows)
        made, new_state = step(time, state, lambda: cell(given, state), skips=False)
        filled = [each.write(time, value) for each, value in zip(written, made, strict=True)]
        return time + 1, tuple(filled), new_state

    _, written, final = while_loop(
        lambda time, *_: time < end,
        body,
        (time, tuple(outputs), state),
        maximum_iterations=count,
        **loop,
    )
    found = [each.stack() for each in written]
    for one, size in zip(found, flat_sizes, strict=True):
        one.set_shape(static_sizes([steps, batch], size))
    return nest.pack_sequence_as(sizes, found), final


def _kind_of(state: Any) -> Any:
    """The dtype of a state.  Raises ValueError if it has none or several."""
    kinds = {x.dtype for x in nest.flatten(state)}
    if len(kinds) != 1:
        raise ValueError(
            f"the state is of {len(kinds)} dtypes; say by dtype what the outputs are of"
        )
    return kinds.pop()


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run `cell` along `inputs`, a list of [batch, depth, ...] or nests of such: (list of outputs, last state).

    The graph has every step.  sequence_length [batch]: from there on outputs are zero and the state stays; steps
    that no sequence has are not run.  initial_state, or dtype for zeros.  Raises TypeError, ValueError.
    """
    check_is_cell(cell, "cell")
    _check_steps(inputs)
    outputs = []
    with variable_scope(scope or "rnn") as current:
        cached(current)
        first = nest.flatten(inputs[0])
        batch = _checked_depths(inputs)
        batch_size = shape_of(first[0])[0] if batch is None else batch
        state = _start(cell, initial_state, batch_size, dtype)
        step = _Step(None, [])
        if sequence_length is not None:
            lengths = _checked_lengths(convert(sequence_length, name="sequence_length"))
            zero_outputs = []
            for size in nest.flatten(cell.output_size):
                made = zeros(joined_sizes(batch_size, size), dtype or _kind_of(state))
                made.set_shape(static_sizes(batch, size))
                zero_outputs.append(made)
            step = _Step(lengths, zero_outputs)
        for time, given in enumerate(inputs):
            if time > 0:
                current.reuse_variables()
            found, state = step(time, state, lambda: cell(given, state), skips=True)  # noqa: B023
            outputs.append(nest.pack_sequence_as(cell.output_size, found))
    return outputs, state


def _checked_depths(inputs: Sequence[Any]) -> int | None:
    """What is known of the number of sequences.  Raises ValueError if a depth is not known."""
    batch: int | None = None
    for each in nest.flatten(inputs):
        x = convert(each)
        if x.raw_shape is None:
            continue
        if not x.raw_shape or None in x.raw_shape[1:]:
            unknown = x.raw_shape[1:].index(None) if x.raw_shape else 0
            raise ValueError(
                f"Input size (dimension {unknown} of input {x}) must be accessible via shape inference, but saw value "
                "None: the depth of inputs is known when the graph is built"
            )
        batch = _agreed(batch, x.raw_shape[0], "sequences")
    return batch


def _check_steps(inputs: Any) -> None:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Argument `inputs` must be a sequence, one a step, and not {inputs!r:.80}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty: it holds one a step")


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """`dynamic_rnn` from the first step to the last and from the last to the first.

    Returns (outputs forward, outputs backward), both in the order of the inputs, and (last states).
    """
    check_is_cell(cell_fw, "cell_fw")
    check_is_cell(cell_bw, "cell_bw")
    along, across = (0, 1) if time_major else (1, 0)

    def turned(x: Any) -> Tensor:
        if sequence_length is None:
            return reverse(x, axis=[along])
        return reverse_sequence(x, sequence_length, seq_axis=along, batch_axis=across)

    more = {
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw:
            forward, last_fw = dynamic_rnn(
                cell_fw, inputs, sequence_length, initial_state_fw, scope=fw, **more
            )
        with variable_scope("bw") as bw:
            backward, last_bw = dynamic_rnn(
                cell_bw,
                nest.map_structure(turned, inputs),
                sequence_length,
                initial_state_bw,
                scope=bw,
                **more,
            )
    return (forward, nest.map_structure(turned, backward)), (last_fw, last_bw)


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """`static_rnn` in both directions: (list of outputs, forward and backward side by side, and both last states)."""
    check_is_cell(cell_fw, "cell_fw")
    check_is_cell(cell_bw, "cell_bw")
    _check_steps(inputs)
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw:
            forward, last_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, fw
            )
        with variable_scope("bw") as bw:
            turned = _turned(inputs, sequence_length)
            found, last_bw = static_rnn(
                cell_bw, turned, initial_state_bw, dtype, sequence_length, bw
            )
    backward = _turned(found, sequence_length)
    pairs = zip(nest.flatten(forward), nest.flatten(backward), strict=True)
    outputs = nest.pack_sequence_as(forward, [concat([one, other], 1) for one, other in pairs])
    return outputs, last_fw, last_bw


def _turned(steps: Sequence[Any], lengths: Any) -> list[Any]:
    """The steps from the last to the first; each sequence by its own length, if lengths are given."""
    if lengths is None:
        return list(reversed(steps))
    columns = []
    for column in zip(*(nest.flatten(step) for step in steps), strict=True):
        shape = TensorShape(None)
        for x in column:
            shape = shape.merge_with(x.shape)
            x.set_shape(shape)
        joined = reverse_sequence(stack(column), lengths, seq_axis=0, batch_axis=1)
        rows = unstack(joined)
        for row in rows:
            row.set_shape(shape)
        columns.append(rows)
    return [nest.pack_sequence_as(steps[0], list(row)) for row in zip(*columns, strict=True)]
