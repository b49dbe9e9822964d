"""Datasets of groups and of generators, whose functions are several; one-shot iterators.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base.traits import HANDLE, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar
from headrace.ops.data.dataset_functions import Ref, Shapes, Types, function_of, function_op
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_of,
    made,
    raw_shapes,
    value_of,
)
from headrace.ops.data.iterator_ops import check_elements
from headrace.run.data.grouping import Generated, GroupByReducer, GroupByWindow
from headrace.run.data.iterator import DataIterator
from headrace.run.data.stage import Dataset, Iteration, Stage
from headrace.run.exec.kernel import KernelContext

__all__: list[str] = []


# -- groups ---------------------------------------------------------------------------------------


def _captured(inputs: Sequence[Any], *types: Types) -> list[list[Any]]:
    """The inputs of several functions, one list after the other."""
    found, at = [], 0
    for each in types:
        found.append(list(inputs[at : at + len(each)]))
        at += len(each)
    return found


def _group_by_window(
    ctx: KernelContext,
    input_dataset: Any,
    *inputs: Any,
    key_func: Ref,
    reduce_func: Ref,
    window_size_func: Ref,
    Tkey_func_other_arguments: Types,
    Treduce_func_other_arguments: Types,
    Twindow_size_func_other_arguments: Types,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """Windows of elements with the same key, each a dataset that reduce_func makes another one of."""
    of_key, of_reduce, of_size = _captured(
        inputs,
        Tkey_func_other_arguments,
        Treduce_func_other_arguments,
        Twindow_size_func_other_arguments,
    )
    source = dataset_of(input_dataset)
    key = function_of(ctx, key_func, of_key)
    reduce = function_of(ctx, reduce_func, of_reduce)
    size = function_of(ctx, window_size_func, of_size)

    def stage(run: Iteration, of_source: Stage) -> Stage:
        return GroupByWindow(
            run, of_source, source.types, source.shapes, key, size, reduce, dataset_of, value_of
        )

    return made("GroupByWindow", output_types, output_shapes, stage, source)


for _name, _more in (("GroupByWindowDataset", METADATA), ("ExperimentalGroupByWindowDataset", "")):
    function_op(
        _name,
        "input_dataset: variant; key_func_other_arguments: Tkey_func_other_arguments; "
        "reduce_func_other_arguments: Treduce_func_other_arguments; "
        "window_size_func_other_arguments: Twindow_size_func_other_arguments",
        "key_func: func; reduce_func: func; window_size_func: func; Tkey_func_other_arguments: list(type) >= 0; "
        "Treduce_func_other_arguments: list(type) >= 0; Twindow_size_func_other_arguments: list(type) >= 0; "
        + ELEMENTS
        + _more,
    )(_group_by_window)


def _group_by_reducer(
    ctx: KernelContext,
    input_dataset: Any,
    *inputs: Any,
    key_func: Ref,
    init_func: Ref,
    reduce_func: Ref,
    finalize_func: Ref,
    Tkey_func_other_arguments: Types,
    Tinit_func_other_arguments: Types,
    Treduce_func_other_arguments: Types,
    Tfinalize_func_other_arguments: Types,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """One element for each key: finalize_func of what reduce_func makes of init_func's state and its elements."""
    captured = _captured(
        inputs,
        Tkey_func_other_arguments,
        Tinit_func_other_arguments,
        Treduce_func_other_arguments,
        Tfinalize_func_other_arguments,
    )
    references = (key_func, init_func, reduce_func, finalize_func)
    functions = [
        function_of(ctx, each, values) for each, values in zip(references, captured, strict=True)
    ]
    return made(
        "GroupByReducer",
        output_types,
        output_shapes,
        lambda run, source: GroupByReducer(run, source, *functions),
        dataset_of(input_dataset),
    )


for _name in ("GroupByReducerDataset", "ExperimentalGroupByReducerDataset"):
    _kinds = ("key_func", "init_func", "reduce_func", "finalize_func")
    function_op(
        _name,
        "input_dataset: variant; "
        + "; ".join(f"{each}_other_arguments: T{each}_other_arguments" for each in _kinds),
        "; ".join(f"{each}: func" for each in _kinds)
        + "; "
        + "; ".join(f"T{each}_other_arguments: list(type) >= 0" for each in _kinds)
        + "; "
        + ELEMENTS,
        stateful=True,
    )(_group_by_reducer)


# -- generators -----------------------------------------------------------------------------------


@function_op(
    "GeneratorDataset",
    "init_func_other_args: Tinit_func_args; next_func_other_args: Tnext_func_args; "
    "finalize_func_other_args: Tfinalize_func_args",
    "init_func: func; next_func: func; finalize_func: func; Tinit_func_args: list(type) >= 0; "
    "Tnext_func_args: list(type) >= 0; Tfinalize_func_args: list(type) >= 0; "
    + ELEMENTS
    + METADATA,
    stateful=True,
)
def generator_dataset_op(
    ctx: KernelContext,
    *inputs: Any,
    init_func: Ref,
    next_func: Ref,
    finalize_func: Ref,
    Tinit_func_args: Types,
    Tnext_func_args: Types,
    Tfinalize_func_args: Types,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """What next_func gives of the state that init_func makes, until it raises OutOfRange; then finalize_func."""
    captured = _captured(inputs, Tinit_func_args, Tnext_func_args, Tfinalize_func_args)
    references = (init_func, next_func, finalize_func)
    functions = [
        function_of(ctx, each, values) for each, values in zip(references, captured, strict=True)
    ]
    return made(
        "Generator",
        output_types,
        output_shapes,
        lambda run: Generated(run, *[each.anew(run) for each in functions]),
    )


# -- one-shot iterators ---------------------------------------------------------------------------


@op(
    "OneShotIterator",
    outputs="handle: resource",
    attrs="dataset_factory: func; "
    + ELEMENTS
    + "; container: string = ''; shared_name: string = ''",
    shape=scalar,
    traits={STATEFUL, HANDLE},
    differentiable=False,
)
def one_shot_iterator_op(
    ctx: KernelContext,
    *,
    dataset_factory: Ref,
    output_types: Types,
    output_shapes: Shapes,
    container: bytes,
    shared_name: bytes,
) -> Any:
    """An iterator that begins by itself, over the dataset that dataset_factory makes."""
    shapes = raw_shapes(output_shapes)

    def begun() -> DataIterator:
        (variant,) = function_of(ctx, dataset_factory, ()).one((), ctx.scope)
        found = DataIterator(ctx.node.name, output_types, shapes)
        dataset: Dataset = dataset_of(variant)
        found.initialize(dataset, ctx.runtime.files)
        return found

    found = ctx.private_resource(DataIterator, begun, container, shared_name)
    check_elements(found, output_types, shapes)
    return found
