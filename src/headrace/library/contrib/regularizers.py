"""Penalties of weights: `tf.contrib.layers.l2_regularizer` and kin.

Called by: programs, layers.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any

from headrace.base.arguments import check_function, several
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import get_collection, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.ops.flow.identities import identity
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.sums import add_n
from headrace.ops.tables import make

__all__ = [
    "apply_regularization",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "sum_regularizer",
]

Regularizer = Callable[..., Any]
"""From weights (and a name) to a scalar, or None."""


def _check_scale(name: str, scale: Any) -> None:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"{name} cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"Setting a {name} less than 0 on a regularizer: {scale}")


def _none(weights: Any, name: str | None = None) -> None:
    return None


def _scaled(
    default: str, scale: Any, size: Callable[[Tensor], Tensor], scope: str | None
) -> Regularizer:
    def penalty(weights: Any, name: str | None = None) -> Tensor:
        with name_scope(scope, default, [weights]) as inner:
            weights = convert(weights)
            factor = convert(scale, weights.dtype.base_dtype, name="scale")
            found: Tensor = make.Mul(factor, size(weights), name=inner)
            return found

    return penalty


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """From weights to scale * the sum of their absolute values; to None if the scale is 0.

    Raises ValueError: a scale that is an integer, or negative.
    """
    _check_scale("scale", scale)
    if scale == 0.0:
        return _none
    return _scaled("l1_regularizer", scale, lambda weights: reduce_sum(make.Abs(weights)), scope)


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """From weights to scale / 2 * the sum of their squares; to None if the scale is 0.

    Raises ValueError: a scale that is an integer, or negative.
    """
    _check_scale("scale", scale)
    if scale == 0.0:
        return _none
    return _scaled("l2_regularizer", scale, make.L2Loss, scope)


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
    """The sum of both.  Raises ValueError: a scale that is an integer, or negative."""
    _check_scale("scale_l1", scale_l1)
    _check_scale("scale_l2", scale_l2)
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    both = sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)
    assert both is not None
    return both


def sum_regularizer(
    regularizer_list: Iterable[Regularizer | None], scope: str | None = None
) -> Regularizer | None:
    """The sum of what several give; None if there are none."""
    listed = several("sum_regularizer", "regularizer_list", regularizer_list, "regularizers")
    present = [each for each in listed if each is not None]
    for each in present:
        check_function("sum_regularizer", "each of regularizer_list", each, "l2_regularizer(0.1)")
    if not present:
        return None

    def penalty(weights: Any) -> Tensor | None:
        with name_scope(scope, "sum_regularizer", [weights]) as inner:
            found = [value for value in (each(weights) for each in present) if value is not None]
            return _sum(found, inner) if found else None

    return penalty


def _sum(values: list[Any], name: str) -> Tensor:
    return identity(values[0], name=name) if len(values) == 1 else add_n(values, name=name)


def apply_regularization(
    regularizer: Regularizer, weights_list: Iterable[Any] | None = None
) -> Tensor:
    """The sum of the penalties of several weights, which is put into REGULARIZATION_LOSSES.

    weights_list: what the collection WEIGHTS has if None.  Raises ValueError: no weights, a penalty that is no scalar.
    """
    check_function("apply_regularization", "regularizer", regularizer, "l2_regularizer(0.1)")
    given = () if weights_list is None else weights_list
    weights = several("apply_regularization", "weights_list", given, "variables")
    weights = weights or get_collection(GraphKeys.WEIGHTS)
    if not weights:
        raise ValueError("No weights to regularize.")
    with name_scope(None, "get_regularization_penalty", weights) as scope:
        found = [regularizer(each) for each in weights]
        found = [value if value is not None else convert(0.0) for value in found]
        for value, each in zip(found, weights, strict=True):
            if value.get_shape().ndims != 0:
                raise ValueError(
                    f"regularizer must return a scalar Tensor, and of {each.name} it returns one of shape "
                    f"{value.get_shape()}"
                )
        total = _sum(found, scope)
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
        return total
