"""Metrics of rankings: which of the k best guesses are among the labels.

Labels are class numbers, [D1, ..., DN, number of labels] (dense, -1 is none; or sparse), or [D1, ..., DN] of one label
each; predictions are scores [D1, ..., DN, classes], or the classes guessed, [D1, ..., DN, k], best first.
Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes are the oracle's where they say what is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.base.arguments import whole_number
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.metrics.streams import Metric, Names, collected, metric_variable
from headrace.library.nn.weights_broadcast import assert_broadcastable
from headrace.library.variables.assigning import assign_add
from headrace.ops.array.constants import fill, ones_like
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, rank, size
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.unique import top_k
from headrace.ops.flow.control_flow import cond
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_max, reduce_sum
from headrace.ops.math.scans import cumsum
from headrace.ops.sparse.calls import sparse_retain
from headrace.ops.sparse.dense import sparse_tensor_to_dense
from headrace.ops.sparse.set_ops import set_difference, set_intersection, set_size
from headrace.ops.tables import make

__all__ = [
    "average_precision_at_k",
    "precision_at_k",
    "precision_at_top_k",
    "recall_at_k",
    "recall_at_top_k",
    "sparse_average_precision_at_k",
    "sparse_precision_at_k",
]


def _named(name: str, k: int | None = None, class_id: int | None = None) -> str:
    found = f"{name}_at_{k}" if k is not None else f"{name}_at_k"
    return found if class_id is None else f"{found}_class{class_id}"


def _with_lists(labels: Any, predictions: Tensor) -> Any:
    """Labels with a last dimension for several, if they have one label each."""
    with name_scope(None, "expand_labels", [labels, predictions]) as scope:
        if isinstance(labels, SparseTensor):
            return labels
        labels = convert(labels)
        ours, theirs = labels.shape.ndims, predictions.shape.ndims
        if ours is not None and theirs is not None:
            return expand_dims(labels, -1, name=scope) if ours == theirs - 1 else labels
        wider = make.Equal(rank(predictions), rank(labels) + 1)
        return cond(wider, lambda: expand_dims(labels, -1, name=scope), lambda: labels)


def _of_class(labels: Any, guesses: Any, class_id: int | None) -> tuple[Any, Any]:
    """Both, of one class only if there is one."""
    if class_id is None:
        return labels, guesses
    return _selected(labels, class_id), _selected(guesses, class_id)


def _selected(ids: Any, class_id: int) -> SparseTensor:
    """Of each row its one element that is this class, if it has it."""
    with name_scope(None, "select_id", [ids, class_id]):
        wanted = convert(class_id, dtypes.int64)
        if isinstance(ids, SparseTensor):
            return sparse_retain(ids, make.Equal(ids.values, wanted))
        shape = shape_of(ids, out_type=dtypes.int64)
        rows = concat([shape[:-1], [1]], 0)
        filled = fill(rows, wanted)
        return set_intersection(ids, filled)


def _count_of(kind: str, labels: Any, guesses: Any, class_id: int | None, weights: Any) -> Tensor:
    """How many there are in each row, float64."""
    with name_scope(None, f"{kind}s", [guesses, labels, weights]):
        labels, guesses = _of_class(labels, guesses, class_id)
        if kind == "true_positive":
            found = set_intersection(guesses, labels)
        elif kind == "false_positive":
            found = set_difference(guesses, labels, aminusb=True)
        else:
            found = set_difference(guesses, labels, aminusb=False)
        count: Tensor = cast(set_size(found), dtypes.float64)
        if weights is not None:
            check = assert_broadcastable(weights, count)
            with scopes.get_default_graph().control_dependencies([check]):
                weights = cast(weights, dtypes.float64)
                count = make.Mul(count, weights)
        return count


def _stream(
    kind: str, k: int | None, labels: Any, guesses: Any, class_id: int | None, weights: Any
) -> Metric:
    """The variable that counts, and it after the batch was added."""
    default = _named(kind, k, class_id)
    with name_scope(None, default, [guesses, labels, weights]) as scope:
        batch = reduce_sum(_count_of(kind, labels, guesses, class_id, weights))
        variable = metric_variable([], dtypes.float64, name=scope)
        return variable, assign_add(variable, batch, name="update")


def _share_at_top_k(
    kind: str,
    other: str,
    labels: Any,
    guesses: Any,
    k: int | None,
    class_id: int | None,
    weights: Any,
    collections: tuple[Names, Names],
    name: str | None,
) -> Metric:
    with name_scope(name, _named(kind, k, class_id), [guesses, labels, weights]) as scope:
        labels = _with_lists(labels, convert(guesses))
        best = cast(guesses, dtypes.int64)
        right, more_right = _stream("true_positive", k, labels, best, class_id, weights)
        wrong, more_wrong = _stream(other, k, labels, best, class_id, weights)
        value = make.RealDiv(right, make.AddV2(right, wrong, name="Add"), name=scope)
        update = make.RealDiv(
            more_right, make.AddV2(more_right, more_wrong, name="Add"), name="update"
        )
        return collected((value, update), *collections)


def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How many of the labels are among the guesses: a scalar float64, NaN before the first.

    class_id: of this class only.  weights: what broadcasts to [D1, ..., DN].  k: for names only.
    """
    collections = metrics_collections, updates_collections
    return _share_at_top_k(
        "recall", "false_negative", labels, predictions_idx, k, class_id, weights, collections, name
    )


def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How many of the guesses are among the labels: a scalar float64, NaN before the first.  As `recall_at_top_k`."""
    collections = metrics_collections, updates_collections
    return _share_at_top_k(
        "precision",
        "false_positive",
        labels,
        predictions_idx,
        k,
        class_id,
        weights,
        collections,
        name,
    )


def _at_k(
    kind: str,
    share: Callable[..., Metric],
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None,
    weights: Any,
    collections: tuple[Names, Names],
    name: str | None,
) -> Metric:
    k = whole_number(f"{kind}_at_k", "k", k)
    with name_scope(name, _named(kind, k, class_id), [predictions, labels, weights]) as scope:
        best = top_k(predictions, k).indices
        return share(labels, best, k, class_id, weights, *collections, name=scope)


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """`recall_at_top_k` of the k classes with the highest scores."""
    collections = metrics_collections, updates_collections
    return _at_k(
        "recall", recall_at_top_k, labels, predictions, k, class_id, weights, collections, name
    )


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """`precision_at_top_k` of the k classes with the highest scores."""
    collections = metrics_collections, updates_collections
    return _at_k(
        "precision",
        precision_at_top_k,
        labels,
        predictions,
        k,
        class_id,
        weights,
        collections,
        name,
    )


def sparse_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Old name of `precision_at_k`."""
    return precision_at_k(
        labels, predictions, k, class_id, weights, metrics_collections, updates_collections, name
    )


def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean over rows of the average precision of the k best guesses: a scalar float64.

    That is the mean, over the places of right guesses, of the precision up to there.  Raises ValueError: k < 1.
    """
    if k < 1:
        raise ValueError(f"Invalid k={k}.")
    with name_scope(name, _named("average_precision", k), [predictions, labels, weights]) as scope:
        predictions = convert(predictions)
        best = top_k(predictions, k).indices
        labels = _with_lists(labels, predictions)
        labels = _cleaned(labels, cast(shape_of(predictions)[-1], dtypes.int64))
        found = _average_precision(best, labels)
        if weights is not None:
            check = assert_broadcastable(weights, found)
            with scopes.get_default_graph().control_dependencies([check]):
                weights = cast(weights, dtypes.float64)
                found = make.Mul(found, weights)
        most, more = _most(found, weights)
        total, added = _total(found)
        value = make.DivNoNan(total, most, name="mean")
        update = make.DivNoNan(added, more, name=scope)
        return collected((value, update), metrics_collections, updates_collections)


def _most(found: Tensor, weights: Any) -> Metric:
    """How many rows there were, by weight."""
    with name_scope(None, "max") as scope:
        variable = metric_variable([], dtypes.float64, name=scope)
        if weights is None:
            batch = cast(size(found, name="batch_max"), dtypes.float64)
        else:
            whole = make.Mul(cast(weights, dtypes.float64), ones_like(found))
            batch = reduce_sum(whole, name="batch_max")
        return variable, assign_add(variable, batch, name="update")


def _total(found: Tensor) -> Metric:
    with name_scope(None, "total") as scope:
        variable = metric_variable([], dtypes.float64, name=scope)
        return variable, assign_add(variable, reduce_sum(found, name="batch_total"), name="update")


def _cleaned(labels: Any, classes: Tensor) -> Any:
    """Labels that are no class of the predictions become -1, which is none."""
    values = labels.values if isinstance(labels, SparseTensor) else labels
    limit = cast(classes, values.dtype)

    def some_are_none() -> Tensor:
        none = convert(-1, values.dtype) * ones_like(values)
        return where(make.GreaterEqual(values, limit), none, values)

    clean = cond(make.GreaterEqual(reduce_max(values), limit), some_are_none, lambda: values)
    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, clean, labels.dense_shape)
    return clean


def _average_precision(best: Tensor, labels: Any) -> Tensor:
    """Of each row, [D1, ..., DN] float64."""
    with name_scope(None, "average_precision", [best, labels]) as scope:
        guesses = expand_dims(
            cast(best, dtypes.int64, name="predictions_idx"), -1, name="predictions_idx_per_k"
        )
        sizes = best.raw_shape
        if sizes is None:
            raise ValueError(f"the rank of predictions must be known: {best.name} is <unknown>")
        k = sizes[-1]
        dense = _dense(labels)
        several = expand_dims(dense, -2, name="labels_per_k")
        copies: Any = [1] * (len(several.raw_shape or ()) - 2) + [k, 1]
        if several.raw_shape is None:
            copies = concat([fill(expand_dims(rank(several) - 2, 0), 1), [k, 1]], 0)
        relevant = cast(
            set_size(set_intersection(guesses, make.Tile(several, copies))), dtypes.float64
        )
        right = cumsum(relevant, -1, name="tp_per_k")
        places = cumsum(ones_like(relevant), -1, name="retrieved_per_k")
        precisions = make.RealDiv(right, places, name="precision_per_k")
        summed = reduce_sum(
            make.Mul(precisions, relevant, name="relevant_precision_per_k"),
            [-1],
            name="precision_sum",
        )
        there = cast(make.GreaterEqual(dense, convert(0, dense.dtype)), dense.dtype)
        number = make.Minimum(reduce_sum(there, -1), convert(k, dense.dtype), name="num_relevant")
        found: Tensor = make.RealDiv(summed, cast(number, dtypes.float64), name=scope)
        return found


def _dense(labels: Any) -> Tensor:
    """Sparse labels as rows that -1 fills."""
    if not isinstance(labels, SparseTensor):
        found: Tensor = convert(labels)
        return found
    return sparse_tensor_to_dense(labels, convert(-1, labels.dtype), validate_indices=False)


def sparse_average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Old name of `average_precision_at_k`."""
    return average_precision_at_k(
        labels, predictions, k, weights, metrics_collections, updates_collections, name
    )
