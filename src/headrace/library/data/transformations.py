"""`tf.data.experimental` with functions of elements: for `Dataset.apply`, and datasets that are drawn from.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/{batching,interleave_ops,scan_ops,take_while_ops}.py, for behaviour; nodes
compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.datasets import Dataset, _batch_dimension
from headrace.library.data.experimental import RandomDataset, directed
from headrace.library.data.structured_functions import StructuredFunction

__all__ = [
    "map_and_batch",
    "map_and_batch_with_legacy_function",
    "parallel_interleave",
    "sample_from_datasets",
    "scan",
    "take_while",
]

Function = Callable[..., Any]
Transformation = Callable[[Dataset], Dataset]


def map_and_batch(
    map_func: Function,
    batch_size: Any,
    num_parallel_batches: int | None = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """`map` and `batch` as one.

    num_parallel_calls: so many calls at a time, if they take long; else as many as are in num_parallel_batches batches,
    or in one.  Raises ValueError for both, TypeError.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch()` allows only one of `num_parallel_batches` and `num_parallel_calls` to be set, but both "
            "were set."
        )
    if num_parallel_calls is None:
        num_parallel_calls = batch_size * (num_parallel_batches or 1)

    def apply(dataset: Dataset) -> Dataset:
        user = "tf.data.experimental.map_and_batch()"
        function = StructuredFunction(map_func, user, dataset._structure)
        size = convert(batch_size, dtypes.int64, "batch_size")
        calls = convert(num_parallel_calls, dtypes.int64, "num_parallel_calls")
        drop = convert(drop_remainder, dtypes.bool, "drop_remainder")
        known = _batch_dimension(size, drop)
        return dataset._made(
            "MapAndBatchDataset",
            function,
            size,
            calls,
            drop,
            structure=nest.map_structure(lambda leaf: leaf.batched(known), function.structure),
            f=function.reference,
            preserve_cardinality=True,
        )

    return apply


map_and_batch_with_legacy_function = map_and_batch


def scan(initial_state: Any, scan_func: Function) -> Transformation:
    """scan_func(state, element) gives (the next state, an element) each time."""
    return lambda dataset: dataset.scan(initial_state, scan_func)


def take_while(predicate: Function) -> Transformation:
    """The elements before the first of which the predicate, a scalar tf.bool, is false."""
    return lambda dataset: dataset.take_while(predicate)


def parallel_interleave(
    map_func: Function,
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: bool | None = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """As `Dataset.interleave`, with elements of the datasets made ahead by threads.

    sloppy: True lets elements come in another order; here they come in the same.  buffer_output_elements: made ahead of
    each dataset.  prefetch_input_elements: datasets that are begun ahead.  Raises TypeError.
    """

    def apply(dataset: Dataset) -> Dataset:
        function = StructuredFunction(
            map_func, "tf.data.experimental.parallel_interleave()", dataset._structure
        )
        several = 2 * block_length if buffer_output_elements is None else buffer_output_elements
        ahead = 2 * cycle_length if prefetch_input_elements is None else prefetch_input_elements
        given = {
            "cycle_length": cycle_length,
            "block_length": block_length,
            "buffer_output_elements": several,
            "prefetch_input_elements": ahead,
        }
        numbers = [convert(value, dtypes.int64, name) for name, value in given.items()]
        order = "default" if sloppy is None else str(not sloppy).lower()
        return dataset._nested(
            "LegacyParallelInterleaveDatasetV2", function, numbers, deterministic=order
        )

    return apply


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Any = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Elements of several datasets, each time of one that is drawn.

    weights: how likely each is, a list, a vector of floats or a dataset of such; None: all alike.
    Raises ValueError, TypeError.
    """
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    if isinstance(weights, Dataset):
        return drawn_from(datasets, weights, seed, stop_on_empty_dataset, Dataset.map)
    datasets, logits = _fixed(list(datasets), weights)
    if len(datasets) == 1:
        return datasets[0]

    def select_dataset_constant_logits(seed: Any) -> Tensor:
        return _drawn(logits, seed)

    draws = mapped_at_once(RandomDataset(seed).batch(2), select_dataset_constant_logits)
    return directed(draws, datasets, stop_on_empty_dataset)


def drawn_from(
    datasets: Sequence[Dataset], weights: Dataset, seed: Any, stop: bool, mapped: Function
) -> Dataset:
    """See `sample_from_datasets`.  mapped: `Dataset.map`, or what stands for it."""
    logits_of = mapped(weights, lambda *parts: _logits(convert(parts, name="logits/x")))
    both = Dataset.zip((logits_of, RandomDataset(seed).batch(2)))
    return directed(mapped_at_once(both, select_dataset_varying_logits), datasets, stop)


def mapped_at_once(dataset: Dataset, map_func: Function) -> Dataset:
    """As `Dataset.map`, by a function that TensorFlow runs without handing it to other threads."""
    function = StructuredFunction(map_func, "Dataset.map()", dataset._structure)
    return dataset._made(
        "MapDataset",
        function,
        f=function.reference,
        use_inter_op_parallelism=False,
        preserve_cardinality=True,
    )


def _fixed(datasets: list[Dataset], weights: Any) -> tuple[list[Dataset], Any]:
    """Datasets that are ever drawn, and the logarithms of how likely, [1, n]."""
    if weights is None:
        return datasets, [[1.0] * len(datasets)]
    if isinstance(weights, Tensor):
        fits = weights.shape.is_compatible_with([len(datasets)])
    else:
        fits = len(weights) == len(datasets)
    if not fits:
        raise ValueError(
            f"Invalid `weights`. The shape of `weights` should be compatible with `[len(datasets)]` = "
            f"[{len(datasets)}] but was {weights!r}."
        )
    if not isinstance(weights, Tensor) and not any(isinstance(each, Tensor) for each in weights):
        pairs = [pair for pair in zip(datasets, weights, strict=True) if pair[1]] or [
            (datasets[0], 1.0)
        ]
        datasets, weights = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    tensor = convert(weights, name="weights")
    if tensor.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(
            f"Invalid `weights`. `weights` type must be either `tf.float32` or `tf.float64` but is {tensor.dtype}."
        )
    return datasets, get("ExpandDims")(_logits(tensor), 0)


def _logits(weights: Any) -> Tensor:
    made: Tensor = get("Log")(weights, name="logits")
    return made


def select_dataset_varying_logits(logits: Any, seed: Any) -> Tensor:
    """As `_drawn`; functions of graphs have its name."""
    return _drawn(logits, seed)


def _drawn(logits: Any, seed: Any) -> Tensor:
    """A place, by its logits [1, n]."""
    number = get("StatelessMultinomial")(logits, np.int32(1), seed, output_dtype=dtypes.int64)
    made: Tensor = get("Squeeze")(number, squeeze_dims=[0, 1])
    return made
