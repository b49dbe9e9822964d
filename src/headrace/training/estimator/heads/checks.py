"""Logits, labels, weights and losses of heads: shapes and types that fit, or what does not.

Called by: training.estimator.heads.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.features import TransformedFeatures, checked_features
from headrace.library.feature_column.numeric import NumericColumn, numeric_column
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal, assert_less_equal, assert_non_negative
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast

__all__ = [
    "check_loss_fn",
    "check_vocabulary",
    "checked_labels",
    "checked_logits",
    "in_range",
    "loss_by",
    "weights_of",
]

_LOSS_FN_ARGUMENTS = {"labels", "logits", "features", "loss_reduction"}


def checked_logits(logits: Any, dimension: int) -> Tensor:
    """Logits as float32 [batch, …, dimension].  Raises ValueError; a step that finds others: InvalidArgument."""
    if logits is None:
        raise ValueError("logits cannot be None")
    with name_scope(None, "logits", (logits,)):
        found: Tensor = cast(convert(logits), dtypes.float32)
        known = found.shape
        wanted = "logits shape must be [D0, D1, ... DN, logits_dimension]"
        if known.ndims is not None:
            if known.ndims < 2:
                raise ValueError(
                    f"{wanted}.  Tensor {found.name} must have rank at least 2.  Received rank {known.ndims}, "
                    f"shape {known}"
                )
            last = known[-1].value
            if last is not None and last != dimension:
                raise ValueError(f"{wanted}, got {known}: logits_dimension is {dimension}.")
            if last is not None:
                return found
        check = assert_equal(dimension, shape_of(found)[-1], message=wanted)
        with control_dependencies([check]):
            kept: Tensor = identity(found)
            return kept


def checked_labels(labels: Any, logits: Tensor, dimension: int) -> Tensor:
    """Labels [batch, …, dimension]; of dimension 1, the last may have been left out.  Raises ValueError."""
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your data "
            "contains your label feature. Check that your input_fn properly parses and returns labels."
        )
    if isinstance(labels, SparseTensor):
        raise ValueError(
            "SparseTensor labels are not supported. Labels must be a Tensor of shape [D0, D1, ..., DN, "
            f"{dimension}], e.g. [batch_size, {dimension}]. Each example must have {dimension} value(s); make them "
            "dense with tf.sparse.to_dense in the input_fn"
        )
    with name_scope(None, "labels", (labels, logits)):
        found: Tensor = convert(labels)
        rank = found.shape.ndims
        if dimension == 1 and rank is not None and rank == (logits.shape.ndims or 0) - 1:
            found = expand_dims(found, -1)
            rank = rank + 1
        if rank is not None:
            if rank < 2:
                raise ValueError(
                    f"labels shape must be [D0, D1, ... DN, {dimension}]. Tensor {found.name} must have rank at least "
                    f"2. Received rank {rank}, shape {found.shape}"
                )
            last = found.shape[-1].value
            if last is not None and last != dimension:
                raise ValueError(
                    f"Mismatched label shape. Expected labels dimension={dimension}.  Received {last}. Suggested Fix: "
                    "If your classifier expects one-hot encoding label, check your n_classes argument to the estimator "
                    "and/or the shape of your label. Otherwise, check the shape of your label."
                )
            _check_alike(found, logits, dimension)
        wanted = concat([shape_of(logits)[:-1], [dimension]], axis=0)
        check = assert_equal(
            wanted,
            shape_of(found),
            message="labels must have the shape of logits but for the last dimension",
        )
        with control_dependencies([check]):
            kept: Tensor = identity(found)
            return kept


def _check_alike(labels: Tensor, logits: Tensor, dimension: int) -> None:
    """Raises ValueError: a size that is known to differ."""
    if logits.shape.ndims is None:
        return
    ours, theirs = labels.shape[:-1], logits.shape[:-1]
    if not ours.is_compatible_with(theirs):
        raise ValueError(
            f"`logits` and `labels` must have the same shape but for the last dimension, received ({logits.shape} vs "
            f"{labels.shape}); labels are wanted as [D0, D1, ... DN, {dimension}]"
        )


def weights_of(features: Any, weight_column: Any, logits: Tensor) -> Any:
    """The weight of each example, [batch, …, 1] floats; 1.0 without a column.

    weight_column: the name of a feature, or a numeric column.  Raises TypeError, ValueError.
    """
    if weight_column is None:
        return 1.0
    if isinstance(weight_column, str):
        weight_column = numeric_column(weight_column, shape=(1,))
    if not isinstance(weight_column, NumericColumn):
        raise TypeError(
            f"Weight column must be either a string or NumericColumn. Given type: {type(weight_column)}."
        )
    with name_scope(None, "weights"):
        found: Any = TransformedFeatures(checked_features(features)).get(weight_column)
        if not (found.dtype.is_floating or found.dtype.is_integer):
            raise ValueError(
                f"Weight column should be castable to float. Given dtype: {found.dtype}"
            )
        found = cast(found, dtypes.float32)
        if found.shape.ndims is not None and found.shape.ndims == (logits.shape.ndims or 0) - 1:
            found = expand_dims(found, -1)
        return found


def in_range(labels: Tensor, n_classes: int, classic: bool) -> Tensor:
    """Labels that a step finds to be classes.  Otherwise the step is InvalidArgument."""
    must = "Labels must" if classic else "Labels must be"
    with name_scope(None, "check_label_range", (labels,)):
        high = cast(n_classes - 1, labels.dtype)
        checks = [
            assert_less_equal(labels, high, message=f"{must} <= n_classes - 1 = {n_classes - 1}"),
            assert_non_negative(labels, message=f"{must} >= 0"),
        ]
        with control_dependencies(checks):
            kept: Tensor = identity(labels)
            return kept


def check_vocabulary(vocabulary: Any, n_classes: int | None = None) -> None:
    """Raises ValueError: not a list, or not of so many words."""
    if vocabulary is None:
        return
    if not isinstance(vocabulary, (list, tuple)):
        raise ValueError(
            f"label_vocabulary should be a list or a tuple. Given type: {type(vocabulary)}"
        )
    if n_classes is not None and len(vocabulary) != n_classes:
        raise ValueError(
            f'"label_vocabulary" does not have "n_classes" items. len(label_vocabulary)={len(vocabulary)}, '
            f"n_classes={n_classes}, label_vocabulary={vocabulary}"
        )


def check_loss_fn(loss_fn: Any) -> None:
    """Raises ValueError: it does not take labels and logits, or takes what it cannot get."""
    if loss_fn is None:
        return
    names = tuple(inspect.signature(loss_fn).parameters)
    for wanted in ("labels", "logits"):
        if wanted not in names:
            raise ValueError(f"loss_fn must contain argument: {wanted}. Given arguments: {names}")
    surplus = sorted(set(names) - _LOSS_FN_ARGUMENTS)
    if surplus:
        raise ValueError(f"loss_fn has unexpected args: {surplus}")


def loss_by(
    loss_fn: Callable[..., Any],
    labels: Any,
    logits: Tensor,
    features: Any,
    reduction: str,
    dimension: int = 1,
) -> Tensor:
    """What a loss_fn gives: [batch, …, dimension].  A step that finds another shape is InvalidArgument."""
    known: Sequence[str] = tuple(inspect.signature(loss_fn).parameters)
    more = {"features": features, "loss_reduction": reduction}
    given = {name: value for name, value in more.items() if name in known}
    with name_scope(None, "call_loss_fn"):
        loss: Tensor = convert(loss_fn(labels=labels, logits=logits, **given))
        wanted = concat([shape_of(logits)[:-1], [dimension]], axis=0)
        says = f"loss_fn must return Tensor of shape [D0, D1, ... DN, {dimension}]"
        with control_dependencies([_same_shape(wanted, loss, says)]):
            kept: Tensor = identity(loss)
            return kept


def _same_shape(wanted: Any, loss: Tensor, says: str) -> Any:
    with name_scope(None, "check_loss_shape"):
        return assert_equal(
            wanted,
            concat([shape_of(loss)], axis=0),
            message=f"{says}; loss is {loss.name} of shape {loss.shape}",
        )
