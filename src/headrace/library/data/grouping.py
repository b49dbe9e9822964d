"""`tf.data.experimental` with functions of groups: windows, reductions, buckets of sequences alike in length.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/grouping.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.datasets import Dataset
from headrace.library.data.padding import shapes_of
from headrace.library.data.specs import DatasetSpec
from headrace.library.data.structured_functions import (
    StateFunction,
    StructuredFunction,
    dataset_given,
    scalar_of,
)
from headrace.library.data.structures import (
    DatasetLeaf,
    TensorLeaf,
    flat_shapes,
    flat_types,
    specs_of,
)
from headrace.ops.array.constants import constant
from headrace.ops.flow.checks import assert_less
from headrace.ops.math.reductions import reduce_min

__all__ = ["Reducer", "bucket_by_sequence_length", "group_by_reducer", "group_by_window"]

Function = Callable[..., Any]
Transformation = Callable[[Dataset], Dataset]


def _keyed(func: Function, name: str, user: str, structure: Any) -> StructuredFunction:
    """A function that gives a scalar int64.  Raises ValueError."""
    made = StructuredFunction(func, user, structure)
    if not scalar_of(made, dtypes.int64):
        raise ValueError(
            f"Invalid `{name}`. `{name}` must return a single `tf.int64` scalar tensor, but its return type is "
            f"{made.structure!r}."
        )
    return made


def _int64_of(func: Function, name: str) -> Function:
    def wrapper(*args: Any) -> Tensor:
        return convert(func(*args), dtypes.int64)

    wrapper.__name__ = name
    return wrapper


def group_by_window(
    key_func: Function,
    reduce_func: Function,
    window_size: Any = None,
    window_size_func: Function | None = None,
) -> Transformation:
    """Windows of `window_size` elements with the same key, each made another dataset by reduce_func(key, window).

    key_func: of an element, its key, int64 [].  window_size_func: the size of the windows of a key.  Raises ValueError.
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError(
            "Either the `window_size` argument or the `window_size_func` argument must be specified, and not both."
        )

    def constant_window_size_func(unused_key: Any) -> Any:
        return window_size

    size_of = constant_window_size_func if window_size_func is None else window_size_func
    user = "Dataset.group_by_window()"

    def apply(dataset: Dataset) -> Dataset:
        structure, key = dataset._structure, TensorLeaf(dtypes.int64, [])
        of_key = _keyed(_int64_of(key_func, "key_func_wrapper"), "key_func", user, structure)
        of_window = StructuredFunction(
            reduce_func, user, (key, DatasetLeaf(DatasetSpec(specs_of(structure))))
        )
        inner = dataset_given(of_window, "reduce_func").elements
        sized = _int64_of(size_of, "window_size_func_wrapper")
        of_size = _keyed(sized, "window_size_func", user, key)
        made = get("GroupByWindowDataset")(
            dataset._variant_tensor,
            list(of_key.captured),
            list(of_window.captured),
            list(of_size.captured),
            key_func=of_key.reference,
            reduce_func=of_window.reference,
            window_size_func=of_size.reference,
            output_types=flat_types(inner),
            output_shapes=flat_shapes(inner),
        )
        return Dataset(made, inner, [dataset])

    return apply


class Reducer:
    """How to make one element of those with the same key: see `group_by_reducer`."""

    def __init__(self, init_func: Function, reduce_func: Function, finalize_func: Function) -> None:
        """init_func: the state that a key begins with; reduce_func: the next state, of a state and an element;
        finalize_func: the element, of the last state.
        """
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


def group_by_reducer(key_func: Function, reducer: Reducer) -> Transformation:
    """One element for each key, in the order of the keys, that `reducer` makes of the elements with that key.

    key_func: of an element, its key, int64 [].  Raises ValueError, TypeError.
    """
    user = "tf.data.experimental.group_by_reducer()"

    def apply(dataset: Dataset) -> Dataset:
        structure, key = dataset._structure, TensorLeaf(dtypes.int64, [])
        of_key = _keyed(key_func, "key_func", user, structure)
        first = StructuredFunction(reducer.init_func, user, key)
        reduce = StateFunction(reducer.reduce_func, user, first.structure, structure, False)
        last = StructuredFunction(reducer.finalize_func, user, reduce.state)
        functions = (of_key, first, reduce, last)
        made = get("ExperimentalGroupByReducerDataset")(
            dataset._variant_tensor,
            *[list(each.captured) for each in functions],
            key_func=of_key.reference,
            init_func=first.reference,
            reduce_func=reduce.reference,
            finalize_func=last.reference,
            output_types=flat_types(last.structure),
            output_shapes=flat_shapes(last.structure),
        )
        return Dataset(made, last.structure, [dataset])

    return apply


def bucket_by_sequence_length(
    element_length_func: Function,
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Padded batches of elements that are alike in length, as many of them as bucket_batch_sizes says for it.

    element_length_func: the length of an element, int32 [].  bucket_boundaries: the lengths below which elements are in
    one bucket, rising; one less than sizes.  pad_to_bucket_boundary: to the longest of the bucket, and not of the
    batch.  no_padding: elements of a batch have one shape.  Raises ValueError.
    """
    boundaries = list(bucket_boundaries)
    if len(bucket_batch_sizes) != len(boundaries) + 1:
        raise ValueError(
            f"`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but `len(bucket_batch_sizes)="
            f"{len(bucket_batch_sizes)}` and `len(bucket_boundaries)={len(boundaries)}`."
        )
    limits = np.iinfo(np.int32)

    def element_to_bucket_id(*args: Any) -> Any:
        length = element_length_func(*args)
        lowest = get("LessEqual")([limits.min, *boundaries], length)
        fits = get("LogicalAnd")(lowest, get("Less")(length, [*boundaries, limits.max]))
        places = get("Where")(fits)
        return reduce_min(places)

    def most(bucket_id: Any) -> Any:
        """The greatest length of a bucket; the last has none."""
        message = (
            "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."
        )
        with control_dependencies(
            [assert_less(bucket_id, constant(len(boundaries), dtypes.int64), message=message)]
        ):
            return constant(boundaries, dtypes.int64)[bucket_id] - 1

    def apply(dataset: Dataset) -> Dataset:
        sizes = constant(list(bucket_batch_sizes), dtypes.int64)

        def window_size_fn(bucket_id: Any) -> Any:
            return sizes[bucket_id]

        def batching_fn(bucket_id: Any, grouped: Dataset) -> Dataset:
            size = window_size_fn(bucket_id)
            if no_padding:
                return grouped.batch(size, drop_remainder)
            filler = most(bucket_id) if pad_to_bucket_boundary else None
            given = grouped.output_shapes if padded_shapes is None else padded_shapes
            structure = grouped._structure
            filled = [_filled(shape, filler) for shape in shapes_of(structure, given)]
            shapes = nest.pack_sequence_as(structure, filled)
            return grouped.padded_batch(size, shapes, padding_values, drop_remainder)

        return group_by_window(element_to_bucket_id, batching_fn, window_size_func=window_size_fn)(
            dataset
        )

    return apply


def _filled(shape: Any, filler: Any) -> Any:
    sizes = TensorShape(shape).as_list()
    if filler is None or None not in sizes:
        return sizes
    parts = [filler if size is None else np.int64(size) for size in sizes]
    return get("Pack")(parts, name="packed")
