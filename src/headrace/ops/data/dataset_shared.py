"""Datasets whose seeds or caches are resources beside them, as TensorFlow 2's functions build them.

Such a resource has no name: it lives as long as a step or a dataset has it, so nothing is left to be deleted.
Called by: programs and graphs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 2.21's ops of these names, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.base import errors
from headrace.base.traits import STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.data.dataset_ops import Shapes, Types, cached, count_of_passes, seeds_of, shuffled
from headrace.ops.data.dataset_values import ELEMENTS, METADATA, dataset_op, scalar_of
from headrace.run.data.caching import Cache
from headrace.run.data.chunks import boxed
from headrace.run.data.shuffling import SeedGenerator
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes

__all__: list[str] = []


@changes
class Seeds(Resource):
    """A generator of seeds that datasets share.  None: each that is given it has its own."""

    def __init__(self, name: str, generator: SeedGenerator | None) -> None:
        super().__init__(name)
        self.generator = generator


@changes
class Kept(Resource):
    """A cache in memory that datasets share.  None: each that is given it has its own."""

    def __init__(self, name: str, cache: Cache | None) -> None:
        super().__init__(name)
        self.cache = cache


def _seeds(handle: Any) -> SeedGenerator | None:
    if isinstance(handle, Seeds):
        return handle.generator
    raise errors.invalid_argument(
        f"seed_generator must be the handle of a generator of seeds, and not that of a {type(handle).__name__}"
    )


def _cache(handle: Any) -> Cache | None:
    if isinstance(handle, Kept):
        return handle.cache
    raise errors.invalid_argument(
        f"cache must be the handle of a cache, and not that of a {type(handle).__name__}"
    )


# -- resources ------------------------------------------------------------------------------------


def _scalars(c: ShapeContext) -> Any:
    for number in range(len(c.op.inputs)):
        c.with_rank(number, 0)
    return [()] * c.num_outputs if c.num_outputs > 1 else ()


_MADE: Final[dict[str, Any]] = {"shape": _scalars, "traits": {STATEFUL}, "differentiable": False}


@op(
    "AnonymousSeedGenerator",
    inputs="seed: int64; seed2: int64; reshuffle: bool",
    outputs="handle: resource; deleter: variant",
    **_MADE,
)
def anonymous_seed_generator_op(ctx: KernelContext, seed: Any, seed2: Any, reshuffle: Any) -> Any:
    """A generator of seeds, and what deletes it.  Raises InvalidArgument."""
    again = bool(scalar_of("reshuffle", reshuffle))
    made = Seeds(ctx.node.name, seeds_of(seed, seed2, again))
    return made, boxed(made)


@op(
    "AnonymousRandomSeedGenerator",
    inputs="seed: int64; seed2: int64",
    outputs="handle: resource; deleter: variant",
    **_MADE,
)
def anonymous_random_seed_generator_op(ctx: KernelContext, seed: Any, seed2: Any) -> Any:
    """A generator of other seeds for each pass, and what deletes it.  Raises InvalidArgument."""
    made = Seeds(ctx.node.name, seeds_of(seed, seed2, True))
    return made, boxed(made)


@op("DummySeedGenerator", outputs="handle: resource", **_MADE)
def dummy_seed_generator_op(ctx: KernelContext) -> Any:
    """Stands for a generator of the dataset's own."""
    return Seeds(ctx.node.name, None)


@op("AnonymousMemoryCache", outputs="handle: resource; deleter: variant", **_MADE)
def anonymous_memory_cache_op(ctx: KernelContext) -> Any:
    """A cache, and what deletes it."""
    made = Kept(ctx.node.name, Cache())
    return made, boxed(made)


@op("DummyMemoryCache", outputs="handle: resource", **_MADE)
def dummy_memory_cache_op(ctx: KernelContext) -> Any:
    """Stands for a cache of the dataset's own."""
    return Kept(ctx.node.name, None)


def _deletes(check: Callable[[Any], object]) -> Callable[..., None]:
    def kernel(ctx: KernelContext, handle: Any, deleter: Any) -> None:
        """Nothing is left to be done: what has the resource keeps it, and else it is gone.

        Raises InvalidArgument (another handle).
        """
        check(handle)

    return kernel


for _name, _check in (
    ("DeleteSeedGenerator", _seeds),
    ("DeleteRandomSeedGenerator", _seeds),
    ("DeleteMemoryCache", _cache),
):
    op(
        _name,
        inputs="handle: resource; deleter: variant",
        traits={STATEFUL},
        differentiable=False,
    )(_deletes(_check))


# -- datasets -------------------------------------------------------------------------------------


@dataset_op(
    "ShuffleDatasetV2",
    "input_dataset: variant; buffer_size: int64; seed_generator: resource",
    ELEMENTS + METADATA,
    stateful=True,
)
def shuffle_dataset_v2_op(
    ctx: KernelContext,
    input_dataset: Any,
    buffer_size: Any,
    seed_generator: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """ShuffleDataset with the seeds of a generator.  Raises InvalidArgument."""
    seeds = _seeds(seed_generator) or SeedGenerator(0, 0, True)
    return shuffled("Shuffle", input_dataset, buffer_size, seeds, output_types, output_shapes)


_SHUFFLED: Final = "input_dataset: variant; buffer_size: int64; seed: int64; seed2: int64"
_AGAIN: Final = "reshuffle_each_iteration: bool = true"


@dataset_op(
    "ShuffleDatasetV3",
    _SHUFFLED + "; seed_generator: resource",
    f"{_AGAIN}; {ELEMENTS}{METADATA}",
    stateful=True,
)
def shuffle_dataset_v3_op(
    ctx: KernelContext,
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    seed_generator: Any,
    *,
    reshuffle_each_iteration: bool,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """ShuffleDataset, with the seeds of a generator if that is one.  Raises InvalidArgument."""
    seeds = _seeds(seed_generator) or seeds_of(seed, seed2, reshuffle_each_iteration)
    return shuffled("Shuffle", input_dataset, buffer_size, seeds, output_types, output_shapes)


@dataset_op(
    "ShuffleAndRepeatDatasetV2",
    _SHUFFLED + "; count: int64; seed_generator: resource",
    f"{_AGAIN}; {ELEMENTS}{METADATA}",
    stateful=True,
)
def shuffle_and_repeat_dataset_v2_op(
    ctx: KernelContext,
    input_dataset: Any,
    buffer_size: Any,
    seed: Any,
    seed2: Any,
    count: Any,
    seed_generator: Any,
    *,
    reshuffle_each_iteration: bool,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """ShuffleAndRepeatDataset, with the seeds of a generator if that is one.  Raises InvalidArgument."""
    passes = count_of_passes(count)
    seeds = _seeds(seed_generator) or seeds_of(seed, seed2, reshuffle_each_iteration)
    return shuffled(
        "ShuffleAndRepeat", input_dataset, buffer_size, seeds, output_types, output_shapes, passes
    )


@dataset_op(
    "CacheDatasetV2",
    "input_dataset: variant; filename: string; cache: resource",
    ELEMENTS + METADATA,
    stateful=True,
)
def cache_dataset_v2_op(
    ctx: KernelContext,
    input_dataset: Any,
    filename: Any,
    cache: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """CacheDataset; in memory, in a cache that others may have, too.  Raises InvalidArgument."""
    kept = _cache(cache) or Cache()
    return cached(input_dataset, filename, kept, output_types, output_shapes)
