"""Weights of losses: scalars, or of the values' rank with each size 1 or the values' size.

Called by: losses, metrics.  Threads: as graph.
Source: TF 1.15 behaviour.  Nodes are the oracle's where shapes are known; the check at run time, for
shapes that are not, asks the same with other nodes.
"""

from __future__ import annotations

from typing import Any

from headrace.base import shapes
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones_like
from headrace.ops.array.shapes import rank
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import no_op
from headrace.ops.math.reductions import reduce_all
from headrace.ops.tables import make

__all__: list[str] = []


def assert_broadcastable(weights: Any, values: Any) -> Any:
    """An operation that fails unless `weights` broadcast to `values` as losses want it.

    Raises ValueError if it is known already that they do not.
    """
    with name_scope(None, "assert_broadcastable", [weights, values]):
        with name_scope(None, "weights", [weights]) as scope:
            weights = convert(weights, name=scope)
            weights_shape = shape_of(weights, name="shape")
            weights_rank = rank(weights, name="rank")
        with name_scope(None, "values", [values]) as scope:
            values = convert(values, name=scope)
            values_shape = shape_of(values, name="shape")
            values_rank = rank(values, name="rank")
        ours, theirs = weights.raw_shape, values.raw_shape
        if ours == ():
            return no_op(name="static_scalar_check_success")
        if ours is not None and theirs is not None:
            _check_sizes(weights, values)
            if shapes.is_fully_defined(ours) and shapes.is_fully_defined(theirs):
                return no_op(name="static_dims_check_success")
        with scopes.get_default_graph().name_scope("is_valid_shape"):
            fits = reduce_all(
                make.Equal(make.BroadcastArgs(weights_shape, values_shape), values_shape)
            )
            alike = make.LogicalOr(
                make.Equal(weights_rank, 0), make.Equal(weights_rank, values_rank)
            )
            valid = make.LogicalAnd(fits, alike)
        return Assert(
            valid,
            [
                "weights can not be broadcast to values.",
                "weights.shape=",
                weights.name,
                weights_shape,
                "values.shape=",
                values.name,
                values_shape,
            ],
            name="AssertGuard",
        )


def _check_sizes(weights: Tensor, values: Tensor) -> None:
    ours, theirs = weights.raw_shape or (), values.raw_shape or ()
    alike = len(ours) == len(theirs) and all(
        w in (None, 1) or v is None or w == v for w, v in zip(ours, theirs, strict=True)
    )
    if not alike:
        raise ValueError(
            f"weights can not be broadcast to values: {weights.name} has shape {weights.shape}, {values.name} has "
            f"{values.shape}; weights must be a scalar, or have the same rank and sizes that are 1 or equal"
        )


def broadcast_weights(weights: Any, values: Any) -> Tensor:
    """`weights` in the shape of `values`."""
    with name_scope(None, "broadcast_weights", [weights, values]) as scope:
        values = convert(values, name="values")
        weights = convert(weights, name="weights")
        known = shapes.is_fully_defined(weights.raw_shape)
        if known and weights.raw_shape == values.raw_shape:
            same: Tensor = weights
            return same
        check = assert_broadcastable(weights, values)
        with scopes.get_default_graph().control_dependencies([check]):
            whole: Tensor = make.Mul(weights, ones_like(values), name=scope)
            return whole
