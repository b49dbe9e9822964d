"""Datasets of what is in memory: tensors, their slices, ranges, random numbers.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_op,
    dataset_scalar,
    made,
    raw_shapes,
    scalar_of,
    value_of,
)
from headrace.run.data.sources import RandomNumbers, Range, Slices, SparseSlices, Tensors
from headrace.run.data.stage import INFINITE, Dataset, Made
from headrace.run.exec.kernel import KernelContext
from headrace.run.queues.philox import Philox

__all__: list[str] = []

_COMPONENTS = "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1"


def _check_shapes(output_shapes: list[TensorShape], found: list[tuple[int, ...]]) -> None:
    for number, (shape, has) in enumerate(zip(output_shapes, found, strict=False)):
        if not shape_rules.compatible(shape._raw, has):
            raise errors.invalid_argument(
                f"Incompatible shapes at component {number}: expected {shape_rules.text(has)} but got "
                f"{shape_rules.text(shape._raw)}: the attr output_shapes says what elements have"
            )


def _kept(value: Any) -> Any:
    """A component as nobody else can change it.  Raises InvalidArgument."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _datasets_among(components: Sequence[Any]) -> list[Dataset]:
    """Those that are variants of datasets, in their order."""
    arrays = [each for each in components if isinstance(each, np.ndarray) and each.dtype.hasobject]
    return [held for each in arrays for held in each.reshape(-1) if isinstance(held, Dataset)]


@dataset_op(
    "TensorDataset",
    "components: Toutput_types",
    _COMPONENTS + METADATA,
    stateful=True,
    shape=dataset_scalar,
)
def tensor_dataset_op(
    ctx: KernelContext,
    *components: Any,
    Toutput_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """A dataset of one element.  Raises InvalidArgument (other shapes)."""
    _check_shapes(output_shapes, [np.shape(component) for component in components])
    kept = tuple(map(_kept, components))
    dataset = Made(
        "Tensor",
        Toutput_types,
        raw_shapes(output_shapes),
        lambda run: Tensors(run, kept),
        cardinality=1,
    )
    dataset.held = _datasets_among(kept)
    return value_of(dataset)


@dataset_op(
    "TensorSliceDataset",
    "components: Toutput_types",
    _COMPONENTS
    + "; is_files: bool = false; metadata: string = ''; replicate_on_split: bool = false",
    stateful=True,
    shape=dataset_scalar,
)
def tensor_slice_dataset_op(
    ctx: KernelContext,
    *components: Any,
    Toutput_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """A dataset of the rows of components [n, ...].  Raises InvalidArgument (scalars, different n)."""
    for component in components:
        if not np.ndim(component):
            raise errors.invalid_argument("All components must be at least 1-dimensional")
    if len({len(component) for component in components}) != 1:
        raise errors.invalid_argument(
            "All components must have the same size in the 0th dimension: they have "
            f"{', '.join(str(len(component)) for component in components)}"
        )
    _check_shapes(output_shapes, [np.shape(component)[1:] for component in components])
    kept = tuple(map(_kept, components))
    dataset = Made(
        "TensorSlice",
        Toutput_types,
        raw_shapes(output_shapes),
        lambda run: Slices(run, kept),
        cardinality=len(kept[0]),
    )
    dataset.held = _datasets_among(kept)
    return value_of(dataset)


@dataset_op(
    "SparseTensorSliceDataset",
    "indices: int64; values: Tvalues; dense_shape: int64",
    "Tvalues: type",
    stateful=True,
    shape=dataset_scalar,
)
def sparse_tensor_slice_dataset_op(
    ctx: KernelContext, indices: Any, values: Any, dense_shape: Any, *, Tvalues: DType
) -> Any:
    """A dataset of the rows of a sparse tensor, as (indices, values, shape).

    indices [n, rank], in order; values [n]; dense_shape [rank].  Raises InvalidArgument, Unimplemented (order).
    """
    if np.ndim(indices) != 2:
        raise errors.invalid_argument(
            f"Input indices must be a matrix. Got: {list(np.shape(indices))}"
        )
    if np.ndim(values) != 1:
        raise errors.invalid_argument(
            f"Input values must be a vector. Got: {list(np.shape(values))}"
        )
    if np.ndim(dense_shape) != 1:
        raise errors.invalid_argument(
            f"Input shape must be a vector. Got: {list(np.shape(dense_shape))}"
        )
    if len(indices) != len(values):
        raise errors.invalid_argument(
            f"Number of values must match first dimension of indices. Got {len(values)} values, indices shape: "
            f"{list(indices.shape)}"
        )
    if indices.shape[1] != len(dense_shape) or not len(dense_shape):
        raise errors.invalid_argument(
            f"Number of dimensions must match second dimension of indices. Got {len(dense_shape)} dimensions, "
            f"indices shape: {list(indices.shape)}"
        )
    first = indices[:, 0]
    if np.any(first[1:] < first[:-1]):
        raise errors.unimplemented(
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not "
            "currently supported: call tf.sparse.reorder before"
        )
    if len(first) and (first[0] < 0 or first[-1] >= dense_shape[0]):
        raise errors.invalid_argument(
            f"indices of the rows {first[0]} to {first[-1]} are not in a tensor of {dense_shape[0]} rows"
        )
    kept = indices.copy(), values.copy(), dense_shape.copy()
    rank = len(dense_shape) - 1
    shapes = [(None, rank), (None,), (rank,)]
    types = [dtypes.int64, Tvalues, dtypes.int64]
    return value_of(
        Made(
            "SparseTensorSlice",
            types,
            shapes,
            lambda run: SparseSlices(run, *kept),
            cardinality=max(0, int(dense_shape[0])),
        )
    )


@dataset_op(
    "RangeDataset",
    "start: int64; stop: int64; step: int64",
    ELEMENTS + METADATA + "; replicate_on_split: bool = false",
    stateful=True,
)
def range_dataset_op(
    ctx: KernelContext,
    start: Any,
    stop: Any,
    step: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """start, start + step, … before stop.  Raises InvalidArgument (a step of 0)."""
    first, last, by = (
        scalar_of(name, value) for name, value in (("start", start), ("stop", stop), ("step", step))
    )
    if by == 0:
        raise errors.invalid_argument("step must be a non-zero integer.")
    dtype = output_types[0].np
    return made(
        "Range",
        output_types,
        output_shapes,
        lambda run: Range(run, first, last, by, dtype),
        cardinality=len(range(first, last, by)),
    )


def _random(
    ctx: KernelContext,
    seed: Any,
    seed2: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Numbers below 2**32 without end, the same in each pass; two zeros are seeds that nobody knows.

    Raises InvalidArgument.
    """
    seeds = int(scalar_of("seed", seed)), int(scalar_of("seed2", seed2))
    if seeds == (0, 0):
        dice = Philox(0, 0)
        seeds = dice.next(), dice.next()
    return made(
        "Random",
        output_types,
        output_shapes,
        lambda run: RandomNumbers(run, *seeds),
        cardinality=INFINITE,
    )


_SEEDS = "seed: int64; seed2: int64"
random_dataset_op = dataset_op("RandomDataset", _SEEDS, ELEMENTS + METADATA, stateful=True)(_random)
dataset_op("ExperimentalRandomDataset", _SEEDS, ELEMENTS, stateful=True)(_random)
