"""Gradients of the reductions, which spread out again what was summed; and of Fill, which is a sum.

Called by: graph.gradients.  Threads: as graph.
Source: node names and structure as TF 2.21 makes them, down to nodes whose values nobody uses
"""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import colocate_with, device
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, fill_op, ones
from headrace.ops.array.ranges import range as arange
from headrace.ops.array.shapes import rank, shape, size, transpose
from headrace.ops.math.arithmetic import mul, truediv
from headrace.ops.math.casting import cast, conj
from headrace.ops.math.reductions import (
    euclidean_norm_op,
    max_op,
    mean_op,
    min_op,
    prod_op,
    reduce_prod,
    reduce_sum,
    sum_op,
)
from headrace.ops.math.scans import cumprod
from headrace.ops.tables import make

Kept = Tensor | np.ndarray[Any, Any]


def _static(tensor: Tensor) -> tuple[int, ...] | None:
    raw = tensor.raw_shape
    return None if raw is None or None in raw else raw  # type: ignore[return-value]


def _counted_from_front(axes: Tensor, rank: Tensor) -> Tensor:
    made: Tensor = make.FloorMod(make.AddV2(axes, rank, name="add"), rank, name="mod")
    return made


def kept_shape(input_shape: Tensor, axes: Tensor) -> Kept:
    """`input_shape` with 1 at `axes`: an array if both are known, else nodes that compute it."""
    known, known_axes = constant_value(input_shape), constant_value(axes)
    if known is not None and known_axes is not None:
        kept = np.array(known, np.int32)
        kept[known_axes] = 1
        return kept
    axes = cast(axes, dtypes.int32)
    count = size(input_shape)
    axes = _counted_from_front(axes, count)
    how_many = shape(axes)
    positions = arange(0, count)
    filler = ones(how_many, input_shape.dtype)
    made: Tensor = make.DynamicStitch([positions, axes], [input_shape, filler])
    return made


def _spread(op: Operation, dout: Any) -> Tensor:
    """The gradient of a sum: dout repeated along the axes that were summed."""
    x, axes = op.inputs
    spread: Tensor
    if x.raw_shape is not None:
        known = constant_value(axes)
        if known is not None:
            if np.array_equal(known, np.arange(len(x.raw_shape))):
                return _spread_everywhere(x, dout)
            sizes = _static(x)
            if sizes is not None:
                return _tiled(sizes, known, dout)
    input_shape = shape(x)
    if not op["keep_dims"]:
        with colocate_with(input_shape.op):
            kept = kept_shape(input_shape, axes)
        dout = make.Reshape(dout, kept)
    spread = make.BroadcastTo(dout, input_shape)
    return spread


def _spread_everywhere(x: Tensor, dout: Any) -> Tensor:
    assert x.raw_shape is not None
    dout = make.Reshape(dout, [1] * len(x.raw_shape))
    sizes = _static(x)
    repeats = shape(x) if sizes is None else constant(np.array(sizes, np.int32))
    spread: Tensor = make.Tile(dout, repeats)
    return spread


_COMPUTED: WeakKeyDictionary[Graph, set[Any]] = WeakKeyDictionary()


def _tiled(sizes: tuple[int, ...], axes: Any, dout: Any) -> Tensor:
    whole = np.array(sizes, np.int32)
    kept = whole.copy()
    kept[axes] = 1
    # TensorFlow computes this in the graph, once for each shape and axes, and then folds it.
    seen = _COMPUTED.setdefault(dout.graph, set())
    key = (sizes, tuple(np.ravel(axes).tolist()))
    if key not in seen:
        seen.add(key)
        divisor = make.Maximum(kept, 1)
        make.FloorDiv(whole, divisor, name="floordiv")
    spread: Tensor = make.Tile(make.Reshape(dout, kept), whole // np.maximum(kept, 1))
    return spread


@sum_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    return _spread(op, dout), None


@mean_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    spread = _spread(op, dout)
    x, axes = op.inputs
    sizes, out_sizes = _static(x), _static(op.outputs[0])
    kind = spread.dtype.base_dtype
    if sizes is not None and out_sizes is not None:
        count = math.prod(sizes) // max(math.prod(out_sizes), 1)
        return truediv(spread, constant(count, kind)), None
    input_shape = shape(x)
    axes = _counted_from_front(cast(axes, dtypes.int32), size(input_shape))
    return truediv(spread, cast(reduce_prod(make.GatherV2(input_shape, axes, 0)), kind)), None


def _extreme_gradient(op: Operation, dout: Any) -> tuple[Tensor, None]:
    """dout, shared by the elements that are the extreme."""
    x, axes = op.inputs
    input_shape = shape(x)
    y = op.outputs[0]
    kept: Kept
    if op["keep_dims"]:
        kept = shape(y)
    else:
        kept = kept_shape(input_shape, axes)
        y = make.Reshape(y, kept)
        dout = make.Reshape(dout, kept)
    chosen = cast(make.Equal(y, x), dout.dtype)
    sharers = make.Reshape(reduce_sum(chosen, axes), kept)
    return mul(truediv(chosen, sharers), dout, name="mul"), None


max_op.gradient(_extreme_gradient)
min_op.gradient(_extreme_gradient)


@prod_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    """The product of all others, by exclusive products from both ends: zeros need no care."""
    x, axes = op.inputs
    input_shape = shape(x)
    flat_axes = make.Reshape(axes, [-1])
    if not op["keep_dims"]:
        dout = make.Reshape(dout, kept_shape(input_shape, axes))
    dout = make.BroadcastTo(dout, input_shape)
    with device("/cpu:0"):
        count = rank(x)
        reduced = _counted_from_front(cast(flat_axes, dtypes.int32), count)
        others = make.ListDiff(arange(0, count), reduced)[0]
        order = make.ConcatV2([reduced, others], 0, name="concat")
        reduced_size = reduce_prod(make.GatherV2(input_shape, reduced, 0))
        other_size = reduce_prod(make.GatherV2(input_shape, others, 0))
    permuted = transpose(x, order)
    permuted_shape = shape(permuted)
    columns = make.Reshape(permuted, [reduced_size, other_size])
    before = cumprod(columns, axis=0, exclusive=True)
    after = cumprod(columns, axis=0, exclusive=True, reverse=True)
    product = mul(conj(before), conj(after), name="mul")
    rows = transpose(make.Reshape(product, permuted_shape), make.InvertPermutation(order))
    return make.Reshape(mul(dout, rows, name="mul"), input_shape), None


@euclidean_norm_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    x, axes = op.inputs
    y = op.outputs[0]
    if not op["keep_dims"]:
        kept = kept_shape(shape(x), axes)
        y = make.Reshape(y, kept)
        dout = make.Reshape(dout, kept)
    return truediv(x, truediv(y, dout)), None


@fill_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[None, Tensor]:
    """The value stands in every place."""
    return None, reduce_sum(dout)
