"""Datasets made of datasets, without functions: batch, shuffle, repeat, take, zip, cache, prefetch and their kin.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_of,
    dataset_op,
    dataset_scalar,
    made,
    raw_shapes,
    scalar_of,
    value_of,
    vector_of,
)
from headrace.run.data.batching import Batch, PaddedBatch, SparseBatch, Unbatch
from headrace.run.data.caching import Cache, FileCache, MemoryCache
from headrace.run.data.counting import Concatenate, Repeat, Shard, Skip, Take, Zip
from headrace.run.data.mixing import Directed, Unique, WithoutFailures
from headrace.run.data.prefetching import AUTOTUNE, Prefetch
from headrace.run.data.shuffling import SeedGenerator, Shuffle
from headrace.run.data.stage import INFINITE, UNKNOWN, Dataset, Iteration, Made, Stage
from headrace.run.data.windowing import Window
from headrace.run.exec.kernel import KernelContext

__all__: list[str] = []

_SOURCE: Final = "input_dataset: variant"
Types = list[DType]
Shapes = list[TensorShape]


# -- how many elements there are ----------------------------------------------------------------


def _least(*counts: int) -> int:
    if UNKNOWN in counts:
        return UNKNOWN
    finite = [count for count in counts if count != INFINITE]
    return min(finite) if finite else INFINITE


def _sum(*counts: int) -> int:
    if INFINITE in counts:
        return INFINITE
    return UNKNOWN if UNKNOWN in counts else sum(counts)


def _known(function: Callable[[int], int]) -> Callable[[int], int]:
    """Where the count of the input is a number, what is made of it; else the same."""
    return lambda count: function(count) if count >= 0 else count


def _repeated(times: int) -> Callable[[int], int]:
    def count(of_input: int) -> int:
        if times < 0:
            return 0 if of_input == 0 else INFINITE
        if times == 0:
            return 0
        return of_input * times if of_input >= 0 else of_input

    return count


def _taken(most: int) -> Callable[[int], int]:
    def count(of_input: int) -> int:
        if most < 0 or of_input == UNKNOWN:
            return of_input
        return most if of_input == INFINITE else min(most, of_input)

    return count


def _skipped(count: int) -> Callable[[int], int]:
    if count < 0:
        return lambda of_input: 0
    return _known(lambda of_input: max(0, of_input - count))


# -- counting -------------------------------------------------------------------------------------

_COUNTED: Final = _SOURCE + "; count: int64"


@dataset_op("TakeDataset", _COUNTED, ELEMENTS + METADATA)
def take_dataset_op(
    xp: Any, input_dataset: Any, count: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """The first `count` elements; all, if it is negative."""
    most = int(scalar_of("count", count))
    return made(
        "Take",
        output_types,
        output_shapes,
        lambda run, source: Take(run, source, most),
        dataset_of(input_dataset),
        cardinality=_taken(most),
    )


@dataset_op("SkipDataset", _COUNTED, ELEMENTS + METADATA)
def skip_dataset_op(
    xp: Any, input_dataset: Any, count: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """What comes after the first `count` elements; nothing, if it is negative."""
    first = int(scalar_of("count", count))
    return made(
        "Skip",
        output_types,
        output_shapes,
        lambda run, source: Skip(run, source, first),
        dataset_of(input_dataset),
        cardinality=_skipped(first),
    )


@dataset_op(
    "ShardDataset",
    _SOURCE + "; num_shards: int64; index: int64",
    "require_non_empty: bool = false; " + ELEMENTS + METADATA,
)
def shard_dataset_op(
    xp: Any,
    input_dataset: Any,
    num_shards: Any,
    index: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """Every num_shards-th element, from the one numbered `index` on.  Raises InvalidArgument."""
    shards, at = int(scalar_of("num_shards", num_shards)), int(scalar_of("index", index))
    if shards <= 0:
        raise errors.invalid_argument(
            f"Number of shards must be greater than zero (currently num_shards = {shards})."
        )
    if not 0 <= at < shards:
        raise errors.invalid_argument(
            f"Index must be between 0 and {shards - 1} (currently index = {at})."
        )
    return made(
        "Shard",
        output_types,
        output_shapes,
        lambda run, source: Shard(run, source, shards, at),
        dataset_of(input_dataset),
        cardinality=_known(lambda count: count // shards + (at < count % shards)),
    )


class Passes(Dataset):
    """A dataset whose stage iterates its inputs itself: make(run, *inputs)."""

    def __init__(
        self,
        kind: str,
        types: Types,
        shapes: Shapes,
        make: Callable[..., Stage],
        inputs: list[Dataset],
        cardinality: Callable[..., int],
    ) -> None:
        super().__init__(types, raw_shapes(shapes), inputs)
        self.kind = kind
        self._make = make
        self._cardinality = cardinality

    def stage(self, run: Iteration) -> Stage:
        """See `Dataset`."""
        stage = self._make(run, *self.inputs)
        stage.label = self.kind
        return stage

    def cardinality(self) -> int:
        """See `Dataset`."""
        return self._cardinality(*[each.cardinality() for each in self.inputs])


@dataset_op("RepeatDataset", _COUNTED, ELEMENTS + METADATA)
def repeat_dataset_op(
    xp: Any, input_dataset: Any, count: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """The dataset `count` times; for ever, if it is negative."""
    times = int(scalar_of("count", count))
    return value_of(
        Passes(
            "Repeat",
            output_types,
            output_shapes,
            lambda run, source: Repeat(run, source, times),
            [dataset_of(input_dataset)],
            _repeated(times),
        )
    )


@dataset_op("ConcatenateDataset", _SOURCE + "; another_dataset: variant", ELEMENTS + METADATA)
def concatenate_dataset_op(
    xp: Any, input_dataset: Any, another_dataset: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """One dataset after the other.  Raises InvalidArgument (types)."""
    both = [dataset_of(input_dataset), dataset_of(another_dataset)]
    if both[0].types != both[1].types:
        raise errors.invalid_argument(
            "input dataset and dataset to concatenate have different output_types "
            f"{_names(both[0])} and {_names(both[1])}"
        )
    return value_of(
        Passes(
            "Concatenate",
            output_types,
            output_shapes,
            lambda run, *sources: Concatenate(run, sources),
            both,
            _sum,
        )
    )


def _names(dataset: Dataset) -> str:
    return f"({', '.join(each.name for each in dataset.types)})"


@dataset_op("ZipDataset", "input_datasets: N * variant", ELEMENTS + "; N: int >= 1" + METADATA)
def zip_dataset_op(
    xp: Any, *input_datasets: Any, output_types: Types, output_shapes: Shapes
) -> Any:
    """The components of all, side by side, until one has no more elements."""
    return made(
        "Zip",
        output_types,
        output_shapes,
        Zip,
        *map(dataset_of, input_datasets),
        cardinality=_least,
    )


# -- joining and cutting --------------------------------------------------------------------------


def _batch_size(value: Any) -> int:
    size = int(scalar_of("batch_size", value))
    if size <= 0:
        raise errors.invalid_argument("Batch size must be greater than zero.")
    return size


def _batches(size: int, drop: bool) -> Callable[[int], int]:
    return _known(lambda count: count // size if drop else -(-count // size))


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
    """As BatchDatasetV2, the last batch with what is left."""
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
    """As PaddedBatchDatasetV2, the last batch with what is left."""
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
    """The rows of each element, one by one."""
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


# -- order ----------------------------------------------------------------------------------------


def _shuffled(
    kind: str,
    source: Any,
    buffer_size: Any,
    seeds: SeedGenerator,
    types: Types,
    shapes: Shapes,
    passes: int = 1,
) -> Any:
    size = int(scalar_of("buffer_size", buffer_size))
    if size < 1 and size != UNKNOWN:
        raise errors.invalid_argument(
            "buffer_size must be greater than zero or UNKNOWN_CARDINALITY"
        )
    most = size if size > 0 else 2**62
    return value_of(
        Passes(
            kind,
            types,
            shapes,
            lambda run, source: Shuffle(run, source, most, seeds, passes),
            [dataset_of(source)],
            _repeated(passes),
        )
    )


_SHUFFLED: Final = _SOURCE + "; buffer_size: int64; seed: int64; seed2: int64"
_RESHUFFLES: Final = "reshuffle_each_iteration: bool = true; "


def _seeds(seed: Any, seed2: Any, reshuffle: bool) -> SeedGenerator:
    return SeedGenerator(int(scalar_of("seed", seed)), int(scalar_of("seed2", seed2)), reshuffle)


@dataset_op("ShuffleDataset", _SHUFFLED, _RESHUFFLES + ELEMENTS + METADATA)
def shuffle_dataset_op(
    xp: Any,
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    *,
    reshuffle_each_iteration: bool,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """The elements in random order, each drawn among buffer_size.  Raises InvalidArgument (a size below 1)."""
    seeds = _seeds(seed, seed2, reshuffle_each_iteration)
    return _shuffled("Shuffle", input_dataset, buffer_size, seeds, output_types, output_shapes)


@dataset_op(
    "ShuffleAndRepeatDataset",
    _SHUFFLED + "; count: int64",
    ELEMENTS + "; reshuffle_each_iteration: bool = true" + METADATA,
)
def shuffle_and_repeat_dataset_op(
    xp: Any,
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    count: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
    reshuffle_each_iteration: bool,
) -> Any:
    """ShuffleDataset, `count` times (negative: for ever), the next pass read while the last ends."""
    passes = int(scalar_of("count", count))
    if passes == 0 or passes < -1:
        raise errors.invalid_argument(
            f"count must be greater than zero or equal to -1. It is {passes}"
        )
    seeds = _seeds(seed, seed2, reshuffle_each_iteration)
    return _shuffled(
        "ShuffleAndRepeat", input_dataset, buffer_size, seeds, output_types, output_shapes, passes
    )


# -- keeping --------------------------------------------------------------------------------------


@dataset_op("CacheDataset", _SOURCE + "; filename: string", ELEMENTS + METADATA)
def cache_dataset_op(
    ctx: KernelContext,
    input_dataset: Any,
    filename: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """The elements, kept after the first pass: in memory, or in files if there is a name for them."""
    name = scalar_of("filename", filename)
    types = output_types
    make: Callable[[Iteration, Dataset], Stage]
    if name:
        make = lambda run, source: FileCache(run, source, name, types)  # noqa: E731
    else:
        cache = Cache()
        make = lambda run, source: MemoryCache(run, source, cache)  # noqa: E731
    return value_of(
        Passes(
            "FileCache" if name else "MemoryCache",
            output_types,
            output_shapes,
            make,
            [dataset_of(input_dataset)],
            lambda count: count,
        )
    )


@dataset_op(
    "PrefetchDataset",
    _SOURCE + "; buffer_size: int64",
    ELEMENTS
    + "; slack_period: int = 0; legacy_autotune: bool = true; buffer_size_min: int = 0"
    + METADATA,
)
def prefetch_dataset_op(
    xp: Any, input_dataset: Any, buffer_size: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """The elements, up to buffer_size of them made ahead; -1: as many as fit into some memory.

    Raises InvalidArgument.
    """
    size = int(scalar_of("buffer_size", buffer_size))
    if size < AUTOTUNE:
        raise errors.invalid_argument(
            "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning"
        )
    return value_of(
        Passes(
            "Prefetch",
            output_types,
            output_shapes,
            lambda run, source: Prefetch.over(run, source, size),
            [dataset_of(input_dataset)],
            lambda count: count,
        )
    )


# -- as they are ----------------------------------------------------------------------------------


def _as_is(kind: str) -> Callable[..., Any]:
    def kernel(
        xp: Any, input_dataset: Any, *rest: Any, output_types: Types, output_shapes: Shapes
    ) -> Any:
        source = dataset_of(input_dataset)
        return value_of(
            Made(
                kind,
                output_types,
                raw_shapes(output_shapes),
                lambda run, stage: stage,
                [source],
                lambda count: count,
            )
        )

    kernel.__doc__ = "The elements as they are: what it says is about how TensorFlow computes them."
    return kernel


dataset_op("OptionsDataset", _SOURCE, "serialized_options: string; " + ELEMENTS + METADATA)(
    _as_is("Options")
)
dataset_op(
    "ModelDataset",
    _SOURCE,
    "algorithm: int = 0; cpu_budget: int = 0; ram_budget: int = 0; " + ELEMENTS,
)(_as_is("Model"))
dataset_op(
    "OptimizeDataset",
    _SOURCE + "; optimizations: string",
    ELEMENTS + "; optimization_configs: list(string) = []",
    shape=dataset_scalar,
)(_as_is("Optimize"))
dataset_op(
    "OptimizeDatasetV2",
    _SOURCE
    + "; optimizations_enabled: string; optimizations_disabled: string; optimizations_default: string",
    ELEMENTS + "; optimization_configs: list(string) = []",
    shape=dataset_scalar,
)(_as_is("Optimize"))
dataset_op("FinalizeDataset", _SOURCE, "has_captured_ref: bool = false; " + ELEMENTS)(
    _as_is("Finalize")
)
dataset_op("RewriteDataset", _SOURCE + "; rewrite_name: string", ELEMENTS)(_as_is("Rewrite"))
for _name in ("MaxIntraOpParallelism", "PrivateThreadPool"):
    _input = "max_intra_op_parallelism" if _name[0] == "M" else "num_threads"
    for _prefix in ("", "Experimental"):
        dataset_op(f"{_prefix}{_name}Dataset", f"{_SOURCE}; {_input}: int64", ELEMENTS)(
            _as_is(_name)
        )
for _prefix in ("", "Experimental"):
    dataset_op(f"{_prefix}NonSerializableDataset", _SOURCE, ELEMENTS)(_as_is("NonSerializable"))


# -- choosing -------------------------------------------------------------------------------------


def _directed(
    xp: Any,
    selector_input_dataset: Any,
    *data_input_datasets: Any,
    output_types: Types,
    output_shapes: Shapes,
    stop_on_empty_dataset: bool = False,
) -> Any:
    """The next element of the dataset that the selector numbers.  Raises InvalidArgument (the selector's type)."""
    selector = dataset_of(selector_input_dataset)
    if selector.types != (dtypes.int64,):
        raise errors.invalid_argument(
            "The selector input must be a dataset of scalar int64 elements."
        )
    return made(
        "DirectedInterleave",
        output_types,
        output_shapes,
        lambda run, *stages: Directed(run, *stages, stop_on_empty=stop_on_empty_dataset),
        selector,
        *map(dataset_of, data_input_datasets),
    )


_CHOSEN: Final = "selector_input_dataset: variant; data_input_datasets: N * variant"
dataset_op(
    "DirectedInterleaveDataset",
    _CHOSEN,
    ELEMENTS + "; N: int >= 1; stop_on_empty_dataset: bool = false",
)(_directed)


@dataset_op("ExperimentalDirectedInterleaveDataset", _CHOSEN, ELEMENTS + "; N: int >= 1")
def experimental_directed_interleave_dataset_op(
    xp: Any, *datasets: Any, output_types: Types, output_shapes: Shapes
) -> Any:
    """As DirectedInterleaveDataset."""
    return _directed(xp, *datasets, output_types=output_types, output_shapes=output_shapes)


def _unique(xp: Any, input_dataset: Any, *, output_types: Types, output_shapes: Shapes) -> Any:
    """Each value of scalars when it comes for the first time.  Raises InvalidArgument (other elements)."""
    source = dataset_of(input_dataset)
    if len(source.types) != 1:
        raise errors.invalid_argument("UniqueDataset only supports inputs with a single component.")
    if source.types[0] not in (dtypes.int32, dtypes.int64, dtypes.string):
        raise errors.invalid_argument(
            "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component."
        )
    return made("Unique", output_types, output_shapes, Unique, source)


dataset_op("UniqueDataset", _SOURCE, ELEMENTS + METADATA)(_unique)
dataset_op("ExperimentalUniqueDataset", _SOURCE, ELEMENTS)(_unique)


def _ignore_errors(
    xp: Any,
    input_dataset: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
    log_warning: bool,
) -> Any:
    """The elements that do not fail."""
    return made(
        "IgnoreErrors",
        output_types,
        output_shapes,
        lambda run, source: WithoutFailures(run, source, log_warning),
        dataset_of(input_dataset),
    )


for _prefix in ("", "Experimental"):
    dataset_op(f"{_prefix}IgnoreErrorsDataset", _SOURCE, ELEMENTS + "; log_warning: bool = false")(
        _ignore_errors
    )
