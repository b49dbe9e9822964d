"""`rejection_resample`: datasets whose classes come as often as one wants.

With r[i] what is wanted of class i over what there is of it, an element is drawn with probability min r from the
dataset as it is, else from what a filter lets through, which keeps (r[i] - min r) / (max r - min r) of class i.
Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/resampling.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data.datasets import Dataset
from headrace.library.data.experimental import Transformation
from headrace.library.data.structured_functions import StructuredFunction
from headrace.library.data.transformations import drawn_from
from headrace.ops.array.constants import fill
from headrace.ops.array.gathering import gather
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.printing import Print
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_max, reduce_min, reduce_sum
from headrace.ops.random.draws import random_uniform

__all__ = ["rejection_resample"]

_AT_A_TIME: Final = 32
"""Elements that are counted before the estimate changes."""

_SEEN_BEFORE: Final = 10
"""Elements of each class that count as seen at the start."""

_TINY: Final = np.finfo(np.float32).tiny


def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: Any = None
) -> Transformation:
    """Pairs of a class and an element, so that classes come as `target_dist` says: some are left out, some come again.

    class_func: of an element, its class, int32 [], from 0 on.  target_dist: how often each class is wanted, [n].
    initial_dist: how often each one comes, [n]; None: it is estimated as elements pass.  seed: of what is drawn.
    Raises ValueError and TypeError where these do not fit each other, or target_dist has no known size and there is no
    initial_dist.
    """

    def apply(dataset: Dataset) -> Dataset:
        target, wanted = _distribution(target_dist, "target_dist")
        there: Any = None
        if initial_dist is not None:
            initial, there = _distribution(initial_dist, "initial_dist")
            accepted, original = _probabilities(initial, target)
            found, kept, plain = (
                Dataset.from_tensors(each).repeat() for each in (initial, accepted, original)
            )
        else:
            found = _estimates(target, dataset.map(class_func))
            both = _map(found, lambda initial: _probabilities(initial, target))
            kept = _map(both, lambda accepted, _: accepted)
            plain = _map(both, lambda _, original: original)
        filtered = _filtered(dataset, kept, found, class_func, seed).prefetch(3)
        share = _known_share(there, wanted)

        def add_class_value(*element: Any) -> Any:
            return class_func(*element), element[0] if len(element) == 1 else element

        if share == 1:
            return dataset.map(add_class_value)
        if share == 0:
            return filtered
        mapped = dataset.map(add_class_value)
        weights = _map(plain, lambda share: [(share, 1.0 - share)])
        return drawn_from([mapped, filtered], weights, seed, True, _map)

    return apply


def _map(dataset: Dataset, map_func: Callable[..., Any]) -> Dataset:
    """As `Dataset.map`, with a node that says that there are as many elements as before."""
    function = StructuredFunction(map_func, "Dataset.map()", dataset._structure)
    return dataset._made("MapDataset", function, f=function.reference, preserve_cardinality=True)


def _distribution(given: Any, name: str) -> tuple[Tensor, Any]:
    """Numbers as floats, and as they are if they are constants."""
    tensor = convert(given, name=name)
    return cast(tensor, dtypes.float32), constant_value(tensor)


def _known_share(there: Any, wanted: Any) -> Any:
    """How much comes from the dataset as it is, if that is a constant."""
    if there is None or wanted is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.min(wanted.astype(np.float32) / there.astype(np.float32))


def _probabilities(initial: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(which part of each class the filter keeps, [n]; how much comes from the dataset as it is, [])."""
    ratio = target / (initial + _TINY)
    most, least = reduce_max(ratio), reduce_min(ratio)
    return (ratio - least) / (most - least), least


def _filtered(
    dataset: Dataset, kept: Dataset, found: Dataset, class_func: Callable[..., Any], seed: Any
) -> Dataset:
    """Pairs of a class and an element, of those that are kept.  kept, found: datasets of vectors [n]."""

    def maybe_warn_on_large_rejection(accepted: Tensor, initial: Tensor) -> Any:
        rejected = reduce_sum((1 - accepted) * initial)
        message = "Proportion of examples rejected by sampler is high: "
        return cond(
            get("Less")(rejected, 0.5),
            lambda: accepted,
            lambda: Print(
                accepted, [rejected, initial, accepted], message, first_n=10, summarize=100
            ),
        )

    def _gather_and_copy(accepted: Tensor, element: Any) -> Any:
        number = class_func(*element) if isinstance(element, tuple) else class_func(element)
        return number, gather(accepted, number), element

    def _reject(number: Any, probability: Tensor, element: Any) -> Any:
        return random_uniform([], seed=seed, dtype=probability.dtype) < probability

    watched = _map(Dataset.zip((kept, found)), maybe_warn_on_large_rejection)
    several = _map(Dataset.zip((watched, dataset)), _gather_and_copy).filter(_reject)
    return _map(several, lambda number, _, element: (number, element))


def _estimates(target: Tensor, classes: Dataset) -> Dataset:
    """How often each class has come so far, a vector [n] for each element.  Raises ValueError: nobody knows n."""
    size = None if target.shape.ndims is None else target.shape.as_list()[0]
    count = fill([shape_of(target)[0] if size is None else size], np.int64(_SEEN_BEFORE))

    def update_estimate_and_tile(seen: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        if size is None:
            raise ValueError(
                "Tried to convert 'depth' to a tensor and failed: how many classes there are must be known when the "
                f"graph is built, and target_dist has shape {target.shape}"
            )
        summed = reduce_sum(one_hot(numbers, size, dtype=dtypes.int64), 0)
        seen = get("AddV2")(seen, summed, name="Add")
        estimate = cast(seen / reduce_sum(seen), dtypes.float32)
        return seen, get("Tile")(expand_dims(estimate, 0), [_AT_A_TIME, 1])

    def normalize(estimate: Tensor) -> Tensor:
        return estimate

    scanned = classes.batch(_AT_A_TIME).scan(count, update_estimate_and_tile)
    return _map(scanned, normalize).unbatch()
