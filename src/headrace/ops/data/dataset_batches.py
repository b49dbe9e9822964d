"""Datasets whose elements are joined or cut: batch, padded batch, unbatch, dense to sparse, windows.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_of,
    dataset_op,
    dataset_scalar,
    known,
    made,
    scalar_of,
    vector_of,
)
from headrace.run.data.batching import Batch, PaddedBatch, SparseBatch, Unbatch
from headrace.run.data.windowing import Window

__all__: list[str] = []

_SOURCE: Final = "input_dataset: variant"
Types = list[DType]
Shapes = list[TensorShape]


def _batch_size(value: Any) -> int:
    size = int(scalar_of("batch_size", value))
    if size <= 0:
        raise errors.invalid_argument("Batch size must be greater than zero.")
    return size


def _batches(size: int, drop: bool) -> Callable[[int], int]:
    return known(lambda count: count // size if drop else -(-count // size))


def _batch(source: Any, batch_size: Any, drop: bool, types: Types, shapes: Shapes) -> Any:
    size = _batch_size(batch_size)
    return made(
        "Batch",
        types,
        shapes,
        lambda run, source: Batch(run, source, size, drop),
        dataset_of(source),
        cardinality=_batches(size, drop),
    )


@dataset_op("BatchDataset", _SOURCE + "; batch_size: int64", ELEMENTS + METADATA)
def batch_dataset_op(
    xp: Any, input_dataset: Any, batch_size: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """As BatchDatasetV2, the last batch with what is left.  Raises InvalidArgument."""
    return _batch(input_dataset, batch_size, False, output_types, output_shapes)


@dataset_op(
    "BatchDatasetV2",
    _SOURCE + "; batch_size: int64; drop_remainder: bool",
    "parallel_copy: bool = false; " + ELEMENTS + METADATA,
)
def batch_dataset_v2_op(
    xp: Any,
    input_dataset: Any,
    batch_size: Any,
    drop_remainder: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """`batch_size` elements along a new first axis.  Raises InvalidArgument (a size below 1)."""
    drop = bool(scalar_of("drop_remainder", drop_remainder))
    return _batch(input_dataset, batch_size, drop, output_types, output_shapes)


def _padded(
    source: Any,
    batch_size: Any,
    padded_shapes: Any,
    padding_values: Any,
    drop: bool,
    types: Types,
    shapes: Shapes,
) -> Any:
    size = _batch_size(batch_size)
    inner = []
    for shape in padded_shapes:
        sizes = tuple(vector_of("All padded_shapes", shape))
        if any(each < -1 for each in sizes):
            raise errors.invalid_argument(
                f"padded_shapes must be -1 or at least 0, and are {sizes}"
            )
        inner.append(sizes)
    for value in padding_values:
        if np.ndim(value):
            raise errors.invalid_argument("All padding values must be scalars")
    fills = [np.asarray(value) for value in padding_values]
    return made(
        "PaddedBatch",
        types,
        shapes,
        lambda run, source: PaddedBatch(run, source, size, drop, inner, fills),
        dataset_of(source),
        cardinality=_batches(size, drop),
    )


_PADDED: Final = "padded_shapes: N * int64; padding_values: Toutput_types"
_PADDED_ATTRS: Final = (
    "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1"
)


@dataset_op(
    "PaddedBatchDataset",
    f"{_SOURCE}; batch_size: int64; {_PADDED}",
    _PADDED_ATTRS + METADATA,
    shape=dataset_scalar,
)
def padded_batch_dataset_op(
    xp: Any,
    input_dataset: Any,
    batch_size: Any,
    *shapes_and_values: Any,
    Toutput_types: Types,
    output_shapes: Shapes,
    N: int,
) -> Any:
    """As PaddedBatchDatasetV2, the last batch with what is left.  Raises InvalidArgument."""
    shapes, values = shapes_and_values[:N], shapes_and_values[N:]
    return _padded(input_dataset, batch_size, shapes, values, False, Toutput_types, output_shapes)


@dataset_op(
    "PaddedBatchDatasetV2",
    f"{_SOURCE}; batch_size: int64; {_PADDED}; drop_remainder: bool",
    "parallel_copy: bool = false; " + _PADDED_ATTRS + METADATA,
    shape=dataset_scalar,
)
def padded_batch_dataset_v2_op(
    xp: Any,
    input_dataset: Any,
    batch_size: Any,
    *rest: Any,
    Toutput_types: Types,
    output_shapes: Shapes,
    N: int,
) -> Any:
    """`batch_size` elements along a new first axis, each padded to padded_shapes (-1: as the largest).

    Raises InvalidArgument.
    """
    drop = bool(scalar_of("drop_remainder", rest[-1]))
    shapes, values = rest[:N], rest[N:-1]
    return _padded(input_dataset, batch_size, shapes, values, drop, Toutput_types, output_shapes)


def _unbatch(xp: Any, input_dataset: Any, *, output_types: Types, output_shapes: Shapes) -> Any:
    """The rows of each element, one by one.  Raises InvalidArgument."""
    return made("Unbatch", output_types, output_shapes, Unbatch, dataset_of(input_dataset))


dataset_op("UnbatchDataset", _SOURCE, ELEMENTS + METADATA)(_unbatch)
dataset_op("ExperimentalUnbatchDataset", _SOURCE, ELEMENTS)(_unbatch)


def _dense_to_sparse(
    xp: Any,
    input_dataset: Any,
    batch_size: Any,
    row_shape: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """`batch_size` arrays as one sparse tensor [batch_size, *row_shape], -1 in it: as the largest.

    Raises InvalidArgument (several components).
    """
    source = dataset_of(input_dataset)
    if len(source.types) != 1:
        raise errors.invalid_argument(
            "DenseToSparseBatchDataset only supports inputs with a single component."
        )
    size, row = _batch_size(batch_size), tuple(vector_of("row_shape", row_shape))
    return made(
        "DenseToSparseBatch",
        output_types,
        output_shapes,
        lambda run, source: SparseBatch(run, source, size, row),
        source,
        cardinality=_batches(size, False),
    )


_ROWS: Final = _SOURCE + "; batch_size: int64; row_shape: int64"
dataset_op("DenseToSparseBatchDataset", _ROWS, ELEMENTS, shape=dataset_scalar)(_dense_to_sparse)
dataset_op("ExperimentalDenseToSparseBatchDataset", _ROWS, ELEMENTS, shape=dataset_scalar)(
    _dense_to_sparse
)


@dataset_op(
    "WindowDataset",
    _SOURCE + "; size: int64; shift: int64; stride: int64; drop_remainder: bool",
    ELEMENTS + METADATA,
)
def window_dataset_op(
    xp: Any,
    input_dataset: Any,
    size: Any,
    shift: Any,
    stride: Any,
    drop_remainder: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """Datasets of `size` elements, `stride` apart, each `shift` after the one before.  Raises InvalidArgument."""
    numbers = []
    for name, value in (("size", size), ("shift", shift), ("stride", stride)):
        number = int(scalar_of(name, value))
        if number <= 0:
            said = "Window " + name
            raise errors.invalid_argument(f"{said} must be greater than zero.")
        numbers.append(number)
    drop = bool(scalar_of("drop_remainder", drop_remainder))
    source = dataset_of(input_dataset)

    def count(of_input: int) -> int:
        if of_input < 0:
            return of_input
        reach = (numbers[0] - 1) * numbers[2]
        last = of_input - reach if drop else of_input
        return max(0, -(-last // numbers[1]))

    return made(
        "Window",
        output_types,
        output_shapes,
        lambda run, stage: Window(run, stage, source, numbers, drop),
        source,
        cardinality=count,
    )
