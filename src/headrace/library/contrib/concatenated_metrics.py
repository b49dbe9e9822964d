"""Metrics of tf.contrib that keep all values: their concatenation, and the exact area under a curve.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare values with tf-slim's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.library.metrics.streams import (
    Metric,
    Names,
    as_floats,
    collected,
    metric_variable,
)
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.assigning import assign
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import ones_like
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.py_functions import py_func
from headrace.ops.math.casting import cast

__all__ = [
    "streaming_concat",
    "streaming_dynamic_auc",
]


def streaming_concat(
    values: Any,
    axis: int = 0,
    max_size: int | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """All values so far, one behind the other along `axis`; at most max_size of them.  Memory grows with them.

    The update gives how many there are then.

    Other dimensions have to be known.  Raises ValueError.
    """
    with variable_scope(name, "streaming_concat", (values,)):
        found = convert(values)
        if found.shape.ndims is None:
            raise ValueError("`values` must have known rank")
        rank = found.shape.ndims
        if not -rank <= axis < rank:
            raise ValueError(f"`axis = {axis}` not in [0, {rank})")
        axis %= rank
        sizes = found.shape.as_list()
        if any(n is None for at, n in enumerate(sizes) if at != axis):
            raise ValueError(
                "all dimensions of `values` other than the dimension to concatenate along must be known"
            )
        order = [axis, *(at for at in range(rank) if at != axis)]
        back = [order.index(at) for at in range(rank)]
        others = [sizes[at] for at in order[1:]]
        kept = metric_variable([0, *others], found.dtype, validate_shape=False, name="array")
        kept.set_shape([None, *others])
        count = metric_variable([], dtypes.int32, name="size")
        held = kept.read_value()[: count.read_value()]
        more = concat([held, transpose(found, order)], 0)[:max_size]
        update = assign(kept, more, validate_shape=False)
        with control_dependencies([update]):
            updated = assign(count, shape_of(more)[0])
        metric = transpose(held, back), updated
        return collected(metric, metrics_collections, updates_collections)


def streaming_dynamic_auc(
    labels: Any,
    predictions: Any,
    curve: str = "ROC",
    metrics_collections: Names = (),
    updates_collections: Names = (),
    name: str | None = None,
    weights: Any = None,
) -> tuple[Any, Any]:
    """The area under the curve of all predictions so far, without thresholds: a scalar float32.

    All of them are kept.  labels: 0 or 1.  -1 where there are no positives; of "ROC" also where there are no negatives.
    Raises ValueError: another curve.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    with variable_scope(name, "dynamic_auc"):
        guesses = reshape(as_floats(predictions), [-1])
        truth = reshape(cast(labels, dtypes.float32), [-1])
        share = (
            ones_like(guesses)
            if weights is None
            else reshape(broadcast_weights(as_floats(weights), guesses), [-1])
        )
        rows = streaming_concat(stack([guesses, truth, share], axis=1))

        def area(kept: Any) -> Any:
            found = py_func(_area_of_roc if curve == "ROC" else _area_of_pr, [kept], dtypes.float32)
            found.set_shape([])
            return found

        metric = area(rows[0]), rows[1].op
        return collected(metric, metrics_collections or None, updates_collections or None)


def _steps(rows: Any) -> tuple[Any, Any]:
    """Weights of positives and of negatives at or above each prediction, from the largest on."""
    scores, labels, weights = rows[np.argsort(-rows[:, 0], kind="stable")].astype(np.float64).T
    ends = (
        np.flatnonzero(np.append(np.diff(scores) != 0, True)) if len(scores) else np.zeros(0, int)
    )
    return np.cumsum(labels * weights)[ends], np.cumsum((1 - labels) * weights)[ends]


def _area_of_roc(rows: Any) -> Any:
    tp, fp = _steps(rows)
    if not len(tp) or tp[-1] == 0 or fp[-1] == 0:
        return np.float32(-1)
    return np.float32(np.trapezoid(np.append(0, tp), np.append(0, fp)) / (tp[-1] * fp[-1]))


def _area_of_pr(rows: Any) -> Any:
    tp, fp = _steps(rows)
    if not len(tp) or tp[-1] == 0:
        return np.float32(-1)
    return np.float32(np.sum(np.diff(tp, prepend=0) * tp / (tp + fp)) / tp[-1])
