"""`tf.contrib.data`: spellings of transformations that `tf.data.experimental` has no more.

Called by: programs (tf.contrib.data).  Threads: building as graph.
Source: TF 1.15 contrib/data, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.library.contrib.tensor_checks import with_shape
from headrace.library.data import nest
from headrace.library.data.datasets import Dataset
from headrace.library.data.experimental import Transformation
from headrace.library.data.grouping import Reducer
from headrace.library.data.options import Options
from headrace.library.data.record_batches import make_batched_features_dataset
from headrace.library.data.stats import StatsAggregator
from headrace.library.data.transformations import parallel_interleave

__all__ = [
    "assert_element_shape",
    "batch_and_drop_remainder",
    "padded_batch_and_drop_remainder",
    "read_batch_features",
    "reduce_dataset",
    "set_stats_aggregator",
    "sliding_window_batch",
    "sloppy_interleave",
]


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """As `Dataset.batch(batch_size, drop_remainder=True)`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """As `Dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)`."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sliding_window_batch(
    window_size: Any, stride: Any = None, window_shift: Any = None, window_stride: Any = 1
) -> Transformation:
    """Batches of `window_size` elements that are `window_stride` apart, each begun `window_shift` after the one before.

    window_shift: 1 unless it is given; `stride` is its older name.  Only whole windows come.
    Raises ValueError if both are given.
    """
    if stride is not None and window_shift is not None:
        raise ValueError(
            "Cannot specify both `stride` and `window_shift`: they are two names of one number"
        )
    shift = next((each for each in (stride, window_shift) if each is not None), 1)

    def joined(*windows: Any) -> Any:
        parts = windows if len(windows) > 1 else windows[0]
        batches = nest.map_structure(lambda window: window.batch(window_size), parts)
        return Dataset.zip(batches) if nest.is_nested(batches) else batches

    return lambda dataset: dataset.window(
        window_size, shift, window_stride, drop_remainder=True
    ).flat_map(joined)


def assert_element_shape(expected_shapes: Any) -> Transformation:
    """The same elements, of these shapes: checked now as far as they are known, else when they come.

    expected_shapes: a structure of shapes like that of an element; None in a shape is any size.
    Raises ValueError, TypeError; a step raises InvalidArgumentError.
    """

    def apply(dataset: Dataset) -> Dataset:
        nest.assert_same_structure(dataset.output_types, expected_shapes)
        shapes = nest.flatten(expected_shapes)

        def checked(*element: Any) -> Any:
            given = element if len(element) > 1 else element[0]
            pairs = zip(shapes, nest.flatten(given), strict=True)
            return nest.pack_sequence_as(given, [with_shape(*pair) for pair in pairs])

        return dataset.map(checked)

    return apply


def reduce_dataset(dataset: Dataset, reducer: Reducer) -> Any:
    """What the reducer's functions make of all elements: tensors.  Raises TypeError."""
    state = dataset.reduce(reducer.init_func(np.int64(0)), reducer.reduce_func)
    return reducer.finalize_func(state)


def set_stats_aggregator(
    stats_aggregator: StatsAggregator, prefix: str = "", counter_prefix: str = ""
) -> Transformation:
    """The same elements; what `latency_stats` and its kin measure of them goes to the aggregator.

    prefix: what tags begin with.  counter_prefix: TensorFlow's, and changes nothing.
    """

    def apply(dataset: Dataset) -> Dataset:
        options = Options()
        options.experimental_stats.aggregator = stats_aggregator
        options.experimental_stats.prefix = prefix
        return dataset.with_options(options)

    return apply


def sloppy_interleave(
    map_func: Callable[..., Any], cycle_length: Any, block_length: Any = 1
) -> Transformation:
    """As `tf.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)`."""
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def read_batch_features(
    file_pattern: Any,
    batch_size: Any,
    features: Any,
    reader: Any = None,
    reader_args: Sequence[Any] | None = None,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    capacity: Any = 10000,
) -> Any:
    """The next batch of parsed Examples, a dict: `make_batched_features_dataset` with a one-shot iterator.

    capacity: how many elements are shuffled, if randomize_input.  Raises ValueError.
    """
    dataset = make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader=reader,
        reader_args=reader_args,
        shuffle=randomize_input,
        num_epochs=num_epochs,
        shuffle_buffer_size=capacity,
    )
    return dataset.make_one_shot_iterator().get_next()
