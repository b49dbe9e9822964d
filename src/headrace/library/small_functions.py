"""Functions that a few operations make: lbeta, polyval, hessians, paddings for blocks, crops, and their kin.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.custom_gradient import custom_gradient
from headrace.graph.gradients import AggregationMethod, gradients
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, zeros, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import expand_dims, reshape, shape, size
from headrace.ops.flow.control_flow import while_loop
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = [
    "grad_pass_through",
    "hessians",
    "lbeta",
    "op_scope",
    "parallel_stack",
    "polyval",
    "reciprocal_no_nan",
    "required_space_to_batch_paddings",
]


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """The logarithm of the multivariate beta function of x [..., k]: Σ log Γ(x) - log Γ(Σ x)."""
    with name_scope(name, "lbeta", [x]):
        x = convert(x, name="x")
        parts = reduce_sum(make.Lgamma(x), axis=[-1])
        made: Tensor = parts - make.Lgamma(reduce_sum(x, axis=[-1]))
        return made


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """A polynomial at x, by Horner's rule; coeffs: a list, that of the highest power first.  Raises ValueError."""
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval", [*coeffs, x]) as scope:
        x = convert(x, name="x")
        if not coeffs:
            return zeros_like(x, name=scope)
        parts = [
            convert(
                each, x.dtype.base_dtype if not isinstance(each, Tensor) else None, f"coeff_{at}"
            )
            for at, each in enumerate(coeffs)
        ]
        total = parts[0]
        for each in parts[1:]:
            total = each + total * x
        return total


@of_ragged
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert(x, name="x")
        one = constant(1, x.dtype.base_dtype, name="one")
        made: Tensor = make.DivNoNan(one, x, name=scope)
        return made


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """Of each x the second derivatives [*shape, *shape] of the sum of ys.

    Raises ValueError where ys do not depend on x, LookupError where a gradient has none.
    """
    xs = list(xs) if isinstance(xs, list | tuple) else [xs]
    how: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method or AggregationMethod.DEFAULT,
    }
    slopes = gradients(ys, xs, **how)
    found: list[Tensor] = []
    for slope, x in zip(slopes, xs, strict=True):
        if slope is None:
            raise ValueError(f"{name}: ys do not depend on {x}, which has no second derivatives")
        flat = reshape(slope, [-1])
        count = size(x)

        def one(at: Any, rows: Any, flat: Tensor = flat, x: Any = x) -> Any:
            return at + 1, rows.write(at, gradients(flat[at], x)[0])

        _, rows = while_loop(
            lambda at, _, count=count: make.Less(at, count),
            one,
            [constant(0, dtypes.int32), TensorArray(x.dtype.base_dtype, count)],
        )
        sizes = shape(x)
        found.append(reshape(rows.stack(), concat((sizes, sizes), 0)))
    return found


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(paddings, crops), both [n, 2], with which sizes [n] are multiples of block_shape [n], and that undo it."""
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        sizes = convert(input_shape, dtypes.int32, "input_shape")
        blocks = convert(block_shape, dtypes.int32, "block_shape")
        blocks.shape.assert_is_fully_defined()
        blocks.shape.assert_has_rank(1)
        count: int = blocks.shape.as_list()[0] or 0
        if count == 0:
            nothing = zeros([0, 2], dtypes.int32)
            return nothing, nothing
        sizes.shape.assert_is_compatible_with([count])
        if base_paddings is not None:
            base = convert(base_paddings, dtypes.int32, "base_paddings")
            base.shape.assert_is_compatible_with([count, 2])
        else:
            base = zeros([count, 2], dtypes.int32)
        known = [constant_value(each) for each in (sizes, blocks, base)]
        if all(each is not None for each in known):
            have, wanted, before = (np.asarray(each) for each in known)
            more = -(have + before.sum(axis=1)) % wanted
            behind = before[:, 1] + more
            return (
                constant(np.stack([before[:, 0], behind], 1).astype(np.int32), name="paddings"),
                constant(np.stack([0 * more, more], 1).astype(np.int32), name="crops"),
            )
        start, end = base[:, 0], base[:, 1]
        whole = sizes + start + end
        extra = (blocks - whole % blocks) % blocks
        last = end + extra
        return (
            stack([[start[at], last[at]] for at in range(count)], name="paddings"),
            stack([[0, extra[at]] for at in range(count)], name="crops"),
        )


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    """[n, …] of n tensors of one shape, which has to be known.  Raises ValueError."""
    with name_scope(name):
        first = convert(values[0])
        sizes = first.shape
        rows = [expand_dims(each, 0) for each in values]
        row = sizes
        for each in rows:
            if not each.shape.is_fully_defined():
                raise ValueError(
                    f"All input shapes must be fully defined (shape attr must be fully defined): {each.name} has shape "
                    f"{each.shape}"
                )
            row = row.merge_with(each.shape[1:])
        made: Tensor = make.ParallelConcat(rows, shape=[len(values), *row.as_list()])
        return made


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, whose gradient is that of its argument: as if it were the identity."""

    @custom_gradient
    def through(*args: Any, **kwargs: Any) -> Any:
        def gradient(*douts: Any, **more: Any) -> Any:
            variables = more.get("variables")
            if variables is not None:
                return douts if len(douts) > 1 else douts[0], [None] * len(variables)
            return douts if len(douts) > 1 else douts[0]

        return f(*args, **kwargs), gradient

    return through


@contextmanager
def op_scope(
    values: Sequence[Any], name: str | None, default_name: str | None = None
) -> Iterator[str]:
    """The older form of tf.name_scope: values first."""
    with name_scope(name, default_name=default_name, values=values) as scope:
        yield scope
