"""Datasets with functions: map, filter, flat_map, interleave, scan, reductions.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.base.traits import NEVER_FOLDED, POLLS, STATEFUL
from headrace.codec import protos as pb
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_of,
    dataset_scalar,
    made,
    raw_shapes,
    scalar_of,
)
from headrace.ops.data.iterator_ops import elements_at_once
from headrace.run.data.batching import BatchOfMapped
from headrace.run.data.functions import Function
from headrace.run.data.mapping import Filter, Map, ParallelMap, Scan, TakeWhile
from headrace.run.data.nesting import FlatMap, Interleave, default_ahead
from headrace.run.data.stage import UNKNOWN, Iteration, Stage
from headrace.run.exec.kernel import KernelContext

__all__: list[str] = []

_SOURCE: Final = "input_dataset: variant; other_arguments: Targuments"
_ARGUMENTS: Final = "Targuments: list(type) >= 0; "
_SEVERAL: Final = 8
"""Calls at a time of a parallel map that is to find out by itself how many."""

Types = list[DType]
Shapes = list[TensorShape]
Ref = pb.NameAttrList


def function_op(
    name: str, inputs: str, attrs: str, *, stateful: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of the kernel of an op that gives a dataset with functions."""
    return op(
        name,
        inputs=inputs,
        outputs="handle: variant",
        attrs=attrs,
        shape=dataset_scalar,
        traits={NEVER_FOLDED, STATEFUL} if stateful else {NEVER_FOLDED},
        differentiable=False,
    )


def function_of(ctx: KernelContext, reference: Ref, captured: Sequence[Any]) -> Function:
    """What an attr names, ready to be called."""
    return Function(ctx.function(reference), captured, ctx.runtime, ctx.step.owner)


def _same(count: int) -> int:
    return count


# -- one element for each -------------------------------------------------------------------------


@function_op(
    "MapDataset",
    _SOURCE,
    f"f: func; {_ARGUMENTS}{ELEMENTS}; use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; "
    "force_synchronous: bool = false" + METADATA,
)
def map_dataset_op(
    ctx: KernelContext,
    input_dataset: Any,
    *other_arguments: Any,
    f: Ref,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Any:
    """f of each element."""
    function = function_of(ctx, f, other_arguments)
    return made(
        "Map",
        output_types,
        output_shapes,
        lambda run, source: Map(run, source, function, preserve_cardinality),
        dataset_of(input_dataset),
        cardinality=_same if preserve_cardinality else UNKNOWN,
    )


def _mapped(
    ctx: KernelContext,
    inputs: Sequence[Any],
    f: Ref,
    types: Types,
    shapes: Shapes,
    keeps_count: bool,
    in_order: bool,
) -> Any:
    """f of each element, several at a time if it takes long."""
    source, *captured, calls = inputs
    count = int(scalar_of("num_parallel_calls", calls))
    if count < 1 and count != -1:
        raise errors.invalid_argument("num_parallel_calls must be greater than zero.")
    function = function_of(ctx, f, captured)

    def stage(run: Iteration, source: Stage) -> Stage:
        if function.by_columns or run.threads is None:
            return Map(run, source, function, keeps_count)
        several = _SEVERAL if count == -1 else count
        return ParallelMap(run, source, function, several, keeps_count, in_order)

    count_of = _same if keeps_count else UNKNOWN
    return made("ParallelMap", types, shapes, stage, dataset_of(source), cardinality=count_of)


@function_op(
    "ParallelMapDataset",
    _SOURCE + "; num_parallel_calls: int32",
    f"f: func; {_ARGUMENTS}{ELEMENTS}; use_inter_op_parallelism: bool = true; sloppy: bool = false; "
    "preserve_cardinality: bool = false" + METADATA,
)
def parallel_map_dataset_op(
    ctx: KernelContext,
    *inputs: Any,
    f: Ref,
    output_types: Types,
    output_shapes: Shapes,
    sloppy: bool,
    preserve_cardinality: bool,
) -> Any:
    """f of each element, several at a time; in any order if `sloppy`."""
    return _mapped(ctx, inputs, f, output_types, output_shapes, preserve_cardinality, not sloppy)


@function_op(
    "ParallelMapDatasetV2",
    _SOURCE + "; num_parallel_calls: int64",
    f"f: func; {_ARGUMENTS}{ELEMENTS}; use_inter_op_parallelism: bool = true; deterministic: string = 'default'; "
    "preserve_cardinality: bool = false; use_unbounded_threadpool: bool = false" + METADATA,
)
def parallel_map_dataset_v2_op(
    ctx: KernelContext,
    *inputs: Any,
    f: Ref,
    output_types: Types,
    output_shapes: Shapes,
    deterministic: bytes,
    preserve_cardinality: bool,
) -> Any:
    """f of each element, several at a time; in any order if `deterministic` is "false"."""
    in_order = deterministic != b"false"
    return _mapped(ctx, inputs, f, output_types, output_shapes, preserve_cardinality, in_order)


def _map_and_batch(
    ctx: KernelContext,
    *inputs: Any,
    f: Ref,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Any:
    """f of each element, several at a time, and `batch_size` of them along a new first axis."""
    source, *captured, batch_size, calls, drop = inputs
    size = int(scalar_of("batch_size", batch_size))
    if size <= 0:
        raise errors.invalid_argument("batch_size must be greater than zero.")
    drops = bool(scalar_of("drop_remainder", drop))
    inner = [TensorShape(None if each.ndims is None else each[1:]) for each in output_shapes]
    mapped = dataset_of(
        _mapped(ctx, [source, *captured, calls], f, output_types, inner, preserve_cardinality, True)
    )

    def count(of_input: int) -> int:
        if of_input < 0:
            return of_input
        return of_input // size if drops else -(-of_input // size)

    return made(
        "MapAndBatch",
        output_types,
        output_shapes,
        lambda run, stage: BatchOfMapped(run, stage, size, drops),
        mapped,
        cardinality=count,
    )


for _name, _more in (("MapAndBatchDataset", METADATA), ("ExperimentalMapAndBatchDataset", "")):
    function_op(
        _name,
        _SOURCE + "; batch_size: int64; num_parallel_calls: int64; drop_remainder: bool",
        f"f: func; {_ARGUMENTS}{ELEMENTS}; preserve_cardinality: bool = false" + _more,
    )(_map_and_batch)


# -- some of them ---------------------------------------------------------------------------------


def _chosen(kind: str, made_of: Callable[[Iteration, Stage, Function], Stage]) -> Any:
    """The kernel of an op that gives some of the elements, as `predicate` says."""

    def kernel(
        ctx: KernelContext,
        input_dataset: Any,
        *other_arguments: Any,
        predicate: Ref,
        output_types: Types,
        output_shapes: Shapes,
    ) -> Any:
        """Elements of which the predicate is true: all such, or those before the first of which it is false."""
        function = function_of(ctx, predicate, other_arguments)
        return made(
            kind,
            output_types,
            output_shapes,
            lambda run, source: made_of(run, source, function),
            dataset_of(input_dataset),
        )

    return kernel


_OF_PREDICATE: Final = f"predicate: func; {_ARGUMENTS}{ELEMENTS}"
function_op("FilterDataset", _SOURCE, _OF_PREDICATE + METADATA)(_chosen("Filter", Filter))
for _name, _more in (("TakeWhileDataset", METADATA), ("ExperimentalTakeWhileDataset", "")):
    function_op(_name, _SOURCE, _OF_PREDICATE + _more)(_chosen("TakeWhile", TakeWhile))


# -- datasets of each -----------------------------------------------------------------------------


@function_op("FlatMapDataset", _SOURCE, f"f: func; {_ARGUMENTS}{ELEMENTS}" + METADATA)
def flat_map_dataset_op(
    ctx: KernelContext,
    input_dataset: Any,
    *other_arguments: Any,
    f: Ref,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """The elements of the dataset that f gives for each element, one dataset after the other."""
    function = function_of(ctx, f, other_arguments)
    return made(
        "FlatMap",
        output_types,
        output_shapes,
        lambda run, source: FlatMap(run, source, function, dataset_of),
        dataset_of(input_dataset),
    )


def _interleaved(
    ctx: KernelContext,
    kind: str,
    source: Any,
    captured: Sequence[Any],
    cycle_length: Any,
    block_length: Any,
    f: Ref,
    types: Types,
    shapes: Shapes,
    ahead: int = 0,
) -> Any:
    cycle = int(scalar_of("cycle_length", cycle_length))
    block = int(scalar_of("block_length", block_length))
    if cycle == -1:
        cycle = _SEVERAL
    if cycle <= 0:
        raise errors.invalid_argument("`cycle_length` must be > 0")
    if block <= 0:
        raise errors.invalid_argument("`block_length` must be > 0")
    function = function_of(ctx, f, captured)
    return made(
        kind,
        types,
        shapes,
        lambda run, stage: Interleave(run, stage, function, dataset_of, cycle, block, ahead),
        dataset_of(source),
    )


@function_op(
    "InterleaveDataset",
    _SOURCE + "; cycle_length: int64; block_length: int64",
    f"f: func; {_ARGUMENTS}{ELEMENTS}" + METADATA,
)
def interleave_dataset_op(
    ctx: KernelContext, *inputs: Any, f: Ref, output_types: Types, output_shapes: Shapes
) -> Any:
    """As FlatMapDataset, `block_length` elements of each of `cycle_length` datasets in turn."""
    source, *captured, cycle, block = inputs
    return _interleaved(
        ctx, "Interleave", source, captured, cycle, block, f, output_types, output_shapes
    )


def _parallel(numbers: int, ahead_at: int | None) -> Callable[..., Any]:
    """Of the versions of ParallelInterleaveDataset: cycle and block are the first of so many numbers at the end."""

    def kernel(
        ctx: KernelContext, *inputs: Any, f: Ref, output_types: Types, output_shapes: Shapes
    ) -> Any:
        """As InterleaveDataset, in the same order; elements of the datasets are made ahead by threads."""
        source, *captured = inputs[: len(inputs) - numbers]
        last = inputs[len(inputs) - numbers :]
        ahead = (
            -1 if ahead_at is None else int(scalar_of("prefetch_input_elements", last[ahead_at]))
        )
        calls = last[-1] if ahead_at is None or numbers == 5 else None
        if calls is not None and np.asarray(calls).dtype == np.int64:
            count = int(scalar_of("num_parallel_calls", calls))
            if count < 1 and count != -1:
                raise errors.invalid_argument("num_parallel_calls must be greater than zero.")
            cycle = int(scalar_of("cycle_length", last[0]))
            if count > cycle != -1:
                raise errors.invalid_argument(
                    "If `cycle_length` is set to a fixed value, `num_parallel_calls` must be either `tf.data.AUTOTUNE` "
                    f"or a value less than or equal to `cycle_length`. However, `num_parallel_calls` is {count} and "
                    f"`cycle_length` is {cycle}"
                )
        return _interleaved(
            ctx,
            "ParallelInterleave",
            source,
            captured,
            last[0],
            last[1],
            f,
            output_types,
            output_shapes,
            default_ahead(ahead) or -1,
        )

    return kernel


_CYCLES: Final = _SOURCE + "; cycle_length: int64; block_length: int64"
_OF_F: Final = f"f: func; {_ARGUMENTS}{ELEMENTS}"
_SLOPPY: Final = "; sloppy: bool; buffer_output_elements: int64; prefetch_input_elements: int64"
_AHEAD: Final = "; buffer_output_elements: int64; prefetch_input_elements: int64"
_ORDERED: Final = f"f: func; deterministic: string = 'default'; {_ARGUMENTS}{ELEMENTS}"

function_op(
    "ParallelInterleaveDatasetV2",
    _CYCLES + "; num_parallel_calls: int64",
    _OF_F + "; sloppy: bool = false" + METADATA,
)(_parallel(3, None))
function_op(
    "ParallelInterleaveDatasetV3", _CYCLES + "; num_parallel_calls: int64", _ORDERED + METADATA
)(_parallel(3, None))
function_op(
    "ParallelInterleaveDatasetV4",
    _CYCLES + _AHEAD + "; num_parallel_calls: int64",
    _ORDERED + METADATA,
)(_parallel(5, 3))
function_op("LegacyParallelInterleaveDatasetV2", _CYCLES + _AHEAD, _ORDERED + METADATA)(
    _parallel(4, 3)
)
function_op("ParallelInterleaveDataset", _CYCLES + _SLOPPY, _OF_F + METADATA)(_parallel(5, 4))
function_op("ExperimentalParallelInterleaveDataset", _CYCLES + _SLOPPY, _OF_F)(_parallel(5, 4))


# -- states ---------------------------------------------------------------------------------------


def _scan(
    ctx: KernelContext,
    input_dataset: Any,
    *inputs: Any,
    f: Ref,
    Tstate: Types,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Any:
    """f of a state and each element gives the next state and an element."""
    state = tuple(_kept(value) for value in inputs[: len(Tstate)])
    function = function_of(ctx, f, inputs[len(Tstate) :])
    return made(
        "Scan",
        output_types,
        output_shapes,
        lambda run, source: Scan(run, source, function, state, preserve_cardinality),
        dataset_of(input_dataset),
        cardinality=_same if preserve_cardinality else UNKNOWN,
    )


def _kept(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


_STATES: Final = "input_dataset: variant; initial_state: Tstate; other_arguments: Targuments"
_OF_STATES: Final = f"f: func; Tstate: list(type) >= 1; {_ARGUMENTS}{ELEMENTS}"

for _name, _more in (
    ("ScanDataset", "; use_default_device: bool = true" + METADATA),
    ("ExperimentalScanDataset", ""),
):
    function_op(_name, _STATES, f"{_OF_STATES}; preserve_cardinality: bool = false" + _more)(_scan)


def _of_elements(c: ShapeContext) -> Any:
    found = raw_shapes(c.attr("output_shapes"))
    return found[0] if c.num_outputs == 1 else found


@op(
    "ReduceDataset",
    inputs=_STATES,
    outputs="components: output_types",
    attrs=f"{_OF_STATES}; use_inter_op_parallelism: bool = true" + METADATA,
    shape=_of_elements,
    traits={STATEFUL, POLLS},
    differentiable=False,
)
def reduce_dataset_op(
    ctx: KernelContext, input_dataset: Any, *inputs: Any, f: Ref, Tstate: Types
) -> Any:
    """The state after all elements: f of a state and each element gives the next state."""
    state = tuple(inputs[: len(Tstate)])
    function = function_of(ctx, f, inputs[len(Tstate) :])
    with elements_at_once(ctx, dataset_of(input_dataset)) as elements:
        for element in elements:
            state = function.one((*state, *element), ctx.scope)
    return state
