"""`tf.data.experimental`: transformations for `Dataset.apply`, and datasets of numbers.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.library.data import nest
from headrace.library.data.datasets import Dataset, _int64, replicated, seed_tensors
from headrace.library.data.structures import SparseLeaf, TensorLeaf

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Counter",
    "RandomDataset",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "ignore_errors",
    "prefetch_to_device",
    "shuffle_and_repeat",
    "unbatch",
    "unique",
]

AUTOTUNE: Final = -1
INFINITE_CARDINALITY: Final = -1
UNKNOWN_CARDINALITY: Final = -2

Transformation = Callable[[Dataset], Dataset]


class RandomDataset(Dataset):
    """Numbers below 2**32, int64, without end; the same in each pass."""

    def __init__(self, seed: Any = None) -> None:
        first, second = seed_tensors(seed)
        structure = TensorLeaf(dtypes.int64, [])
        made = get("RandomDataset")(
            first, second, output_types=[dtypes.int64], output_shapes=[TensorShape([])]
        )
        super().__init__(made, structure)


def Counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Dataset:
    """start, start + step, … without end."""
    with name_scope("counter"):
        first = convert(start, dtype, "start")
        by = convert(step, dtype, "step")
        return (
            Dataset.from_tensors(0).repeat(None).scan(first, lambda state, _: (state + by, state))
        )


def unique() -> Transformation:
    """Each value of scalars (int32, int64, string) when it comes for the first time."""

    def apply(dataset: Dataset) -> Dataset:
        leaves = nest.flatten(dataset._structure)
        if [leaf.dtype for leaf in leaves] not in ([dtypes.int32], [dtypes.int64], [dtypes.string]):
            raise TypeError(
                "`tf.data.Dataset.unique()` only supports a single `tf.int32`, `tf.int64`, or `tf.string` component, "
                f"and the elements are {dataset._structure!r}"
            )
        return dataset._like("UniqueDataset")

    return apply


def ignore_errors(log_warning: bool = False) -> Transformation:
    """The elements that do not fail."""
    return lambda dataset: dataset._like("IgnoreErrorsDataset", log_warning=log_warning)


def unbatch() -> Transformation:
    """As `Dataset.unbatch`."""
    return lambda dataset: dataset.unbatch()


def enumerate_dataset(start: Any = 0) -> Transformation:
    """As `Dataset.enumerate`."""
    return lambda dataset: dataset.enumerate(start)


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """Batches of arrays that differ in their sizes as sparse tensors [batch_size, *row_shape]; -1: as the largest."""

    def apply(dataset: Dataset) -> Dataset:
        (leaf,) = nest.flatten(dataset._structure)
        if not isinstance(leaf, TensorLeaf):
            raise TypeError(
                f"`dense_to_sparse_batch` takes datasets of one dense tensor, and the elements are {leaf!r}"
            )
        known = TensorShape(
            [None if size in (-1, None) else size for size in TensorShape(row_shape).as_list()]
        )
        sizes = [-1 if size is None else size for size in known.as_list()]
        row = convert(sizes, dtypes.int64, "Const")
        made = get("DenseToSparseBatchDataset")(
            dataset._variant_tensor,
            batch_size,
            row,
            output_types=[dtypes.variant],
            output_shapes=[TensorShape(None)],
        )
        return Dataset(
            made, SparseLeaf(leaf.dtype, TensorShape([None]).concatenate(known)), [dataset]
        )

    return apply


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """`shuffle` and `repeat` as one: the next pass is read while the last elements of this one leave."""

    def apply(dataset: Dataset) -> Dataset:
        size = _int64(buffer_size, "buffer_size")
        times = _int64(-1 if count is None else count, "count")
        first, second = seed_tensors(seed)
        return dataset._like("ShuffleAndRepeatDataset", size, first, second, times)

    return apply


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """The next element of the dataset whose number `choice_dataset` (int64 scalars) gives.

    Raises TypeError, ValueError.
    """
    leaves = nest.flatten(choice_dataset._structure)
    if (
        len(leaves) != 1
        or leaves[0].dtype is not dtypes.int64
        or leaves[0].shape.ndims not in (None, 0)
    ):
        raise TypeError(
            f"Expected a `choice_dataset` with elements that are scalar `tf.int64` tensors, and they are {leaves!r}"
        )
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    return directed(replicated(choice_dataset), datasets, stop_on_empty_dataset)


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """As `Dataset.prefetch`: elements are in the memory of their task, which has no other."""
    return lambda dataset: dataset.prefetch(buffer_size)


def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Transformation:
    """The same dataset: see `prefetch_to_device`."""
    return lambda dataset: dataset


def directed(selector: Dataset, datasets: Sequence[Dataset], stop: bool) -> Dataset:
    """Elements of `datasets`, of which `selector` names the next one.  Raises TypeError if they differ in structure.

    stop: the first dataset that ends, ends it; else others go on.
    """
    structure = datasets[0]._structure
    for number, each in enumerate(datasets[1:], 1):
        try:
            nest.assert_same_structure(structure, each._structure)
            pairs = zip(nest.flatten(structure), nest.flatten(each._structure), strict=True)
            found = [one.widest(other) for one, other in pairs]
        except (TypeError, ValueError):
            found = [None]
        if None in found:
            raise TypeError(
                f"Invalid `datasets`. `datasets` must have compatible element specs: dataset 0 has {structure!r}, and "
                f"dataset {number} {each._structure!r}"
            )
        structure = nest.pack_sequence_as(structure, found)
    made = selector._like(
        "DirectedInterleaveDataset",
        [each._variant_tensor for each in datasets],
        structure=structure,
        stop_on_empty_dataset=stop,
    )
    made._inputs = (selector, *datasets)
    return made
