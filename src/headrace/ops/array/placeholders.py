"""Placeholders: values that the caller feeds.

Called by: users.  Threads: any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import ALIASES, NEVER_FOLDED, PLACEHOLDER
from headrace.graph.const_value import as_shape
from headrace.graph.convert import convert
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, from_attr
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor

__all__ = ["placeholder", "placeholder_with_default", "sparse_placeholder"]


def _unfed(ctx: Any, dtype: DType, shape: TensorShape) -> errors.OpError:
    known = "" if shape._raw is None else f" and shape {shape_rules.text(shape._raw)}"
    return errors.invalid_argument(
        f"You must feed a value for placeholder tensor {ctx.node.name!r} with dtype {dtypes.spelled(dtype)}{known}: "
        f"pass feed_dict={{'{ctx.node.name}:0': ...}} to this run"
    )


@op(
    "Placeholder",
    outputs="output: dtype",
    attrs="dtype: type; shape: shape = unknown_shape",
    shape=from_attr("shape"),
    traits={PLACEHOLDER, NEVER_FOLDED},
    differentiable=False,
)
def placeholder_op(ctx: Any, *, dtype: DType, shape: TensorShape) -> Any:
    """Runs only when nothing was fed for it.

    Raises InvalidArgument naming the placeholder, its dtype and its shape.
    Source: TF 1.15 core/kernels/constant_op.cc
    """
    raise _unfed(ctx, dtype, shape)


@op(
    "PlaceholderV2",
    outputs="output: dtype",
    attrs="dtype: type; shape: shape",
    shape=from_attr("shape"),
    traits={PLACEHOLDER, NEVER_FOLDED},
    differentiable=False,
)
def placeholder_v2_op(ctx: Any, *, dtype: DType, shape: TensorShape) -> Any:
    """As Placeholder; graphs of old producers have it."""
    raise _unfed(ctx, dtype, shape)


def _default_shape(c: ShapeContext) -> Shape:
    wanted: Shape = c.attr("shape")._raw
    shape_rules.merge(c.shape("input"), wanted)  # raises where the default can never fit
    return wanted


@op(
    "PlaceholderWithDefault",
    inputs="input: dtype",
    outputs="output: dtype",
    attrs="dtype: type; shape: shape",
    shape=_default_shape,
    traits={ALIASES, NEVER_FOLDED},
)
def placeholder_with_default_op(xp: Any, input: Any) -> Any:
    """`input` where nothing was fed.

    Source: TF 1.15 core/kernels/identity_op.cc
    """
    return input


@placeholder_with_default_op.gradient
def _(op: Any, dout: Tensor) -> Tensor:
    return dout


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor that each run must be fed.  shape: None for any."""
    made: Tensor = placeholder_op(dtype=dtype, shape=_static(shape), name=name)
    return made


def _static(shape: Any) -> TensorShape:
    try:
        return TensorShape(shape)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Error converting shape to a TensorShape: {error}") from None


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """`input`, unless the run feeds something else of `shape`."""
    made: Tensor = placeholder_with_default_op(input, shape=_static(shape), name=name)
    return made


def _open(shape: Any) -> Any:
    """`shape` with None where it says -1."""
    if isinstance(shape, (list, tuple, np.ndarray)):
        return [None if size in (None, -1) else size for size in shape]
    return shape


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A SparseTensor that each run must be fed, with a SparseTensorValue or a triple.

    shape: None for any, of any rank; a size that is None (or -1) may be any.  Or a tensor: what it is if it is not fed.
    """

    def part(what: str) -> str | None:
        return None if name is None else f"{name}/{what}"

    given = shape if isinstance(shape, Tensor) else None
    raw = (
        None
        if shape is None
        else TensorShape(as_shape(given) if given is not None else _open(shape))._raw
    )
    rank = None if raw is None else len(raw)
    if given is not None:
        dense_shape = placeholder_with_default(given, given.shape, part("shape"))
    elif raw is None:
        dense_shape = placeholder(dtypes.int64, [None], part("shape"))
    else:
        sizes = np.array([-1 if size is None else size for size in raw], np.int64)
        default = convert(sizes, dtypes.int64, part("shape_default") or "Const")
        dense_shape = placeholder_with_default(default, [rank], part("shape"))
    values = placeholder(dtype, [None], part("values"))
    indices = placeholder(dtypes.int64, [None, rank], part("indices"))
    made = SparseTensor(indices, values, dense_shape)
    made._known = TensorShape(raw)
    return made
