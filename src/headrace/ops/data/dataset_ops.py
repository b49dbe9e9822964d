"""Datasets made of datasets, without functions: batch, shuffle, repeat, take, zip, cache, prefetch and their kin.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/{dataset_ops,experimental_dataset_ops}.cc; what 2.21 added is accepted, too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    Passes,
    dataset_of,
    dataset_op,
    known,
    made,
    scalar_of,
    value_of,
)
from headrace.run.data.caching import Cache, FileCache, MemoryCache
from headrace.run.data.counting import Concatenate, Repeat, Shard, Skip, Take, Zip
from headrace.run.data.prefetching import AUTOTUNE, Prefetch
from headrace.run.data.shuffling import SeedGenerator, Shuffle
from headrace.run.data.stage import INFINITE, UNKNOWN, Dataset, Iteration, Stage
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
    return known(lambda of_input: max(0, of_input - count))


# -- counting -------------------------------------------------------------------------------------

_COUNTED: Final = _SOURCE + "; count: int64"


@dataset_op("TakeDataset", _COUNTED, ELEMENTS + METADATA)
def take_dataset_op(
    xp: Any, input_dataset: Any, count: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """The first `count` elements; all, if it is negative.  Raises InvalidArgument."""
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
    """What comes after the first `count` elements; nothing, if it is negative.  Raises InvalidArgument."""
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
        cardinality=known(lambda count: count // shards + (at < count % shards)),
    )


@dataset_op("RepeatDataset", _COUNTED, ELEMENTS + METADATA)
def repeat_dataset_op(
    xp: Any, input_dataset: Any, count: Any, *, output_types: Types, output_shapes: Shapes
) -> Any:
    """The dataset `count` times; for ever, if it is negative.  Raises InvalidArgument."""
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
    """The components of all, side by side, until one has no more elements.  Raises InvalidArgument."""
    return made(
        "Zip",
        output_types,
        output_shapes,
        Zip,
        *map(dataset_of, input_datasets),
        cardinality=_least,
    )


# -- order ----------------------------------------------------------------------------------------


def shuffled(
    kind: str,
    source: Any,
    buffer_size: Any,
    seeds: SeedGenerator,
    types: Types,
    shapes: Shapes,
    passes: int = 1,
) -> Any:
    """The variant of a shuffled dataset.  Raises InvalidArgument."""
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


def seeds_of(seed: Any, seed2: Any, reshuffle: bool, apart: bool = False) -> SeedGenerator:
    """What two scalar inputs begin.  Raises InvalidArgument."""
    numbers = int(scalar_of("seed", seed)), int(scalar_of("seed2", seed2))
    return SeedGenerator(*numbers, reshuffle, apart)


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
    seeds = seeds_of(seed, seed2, reshuffle_each_iteration, apart=True)
    return shuffled("Shuffle", input_dataset, buffer_size, seeds, output_types, output_shapes)


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
    """ShuffleDataset, `count` times (negative: for ever), the next pass read while the last ends.

    Raises InvalidArgument.
    """
    passes = count_of_passes(count)
    seeds = seeds_of(seed, seed2, reshuffle_each_iteration, apart=True)
    return shuffled(
        "ShuffleAndRepeat", input_dataset, buffer_size, seeds, output_types, output_shapes, passes
    )


def count_of_passes(count: Any) -> int:
    """Raises InvalidArgument."""
    passes = int(scalar_of("count", count))
    if passes == 0 or passes < -1:
        raise errors.invalid_argument(
            f"count must be greater than zero or equal to -1. It is {passes}"
        )
    return passes


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
    """The elements, kept after the first pass: in memory, or in files if there is a name for them.

    Raises InvalidArgument.
    """
    return cached(input_dataset, filename, Cache(), output_types, output_shapes)


def cached(source: Any, filename: Any, cache: Cache, types: Types, shapes: Shapes) -> Any:
    """The variant of a dataset that is kept: in `cache`, or in files if there is a name.  Raises InvalidArgument."""
    name = scalar_of("filename", filename)
    make: Callable[[Iteration, Dataset], Stage]
    if name:
        make = lambda run, source: FileCache(run, source, name, types)  # noqa: E731
    else:
        make = lambda run, source: MemoryCache(run, source, cache)  # noqa: E731
    return value_of(
        Passes(
            "FileCache" if name else "MemoryCache",
            types,
            shapes,
            make,
            [dataset_of(source)],
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
