"""Broadcasting as ops: tensors repeated to fill a shape, shapes that others broadcast to, sequence masks.

Called by: users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/broadcast_to_op.cc, bcast_ops.cc, python/ops/array_ops.py),
GraphDefs as 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import OF_COUNTS, SHARES
from headrace.graph.const_value import as_shape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.operation import Operation
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import BLOCK, LARGE
from headrace.ops._kernels.windows import parts
from headrace.ops.array.constants import checked_sizes, constant
from headrace.ops.array.ranges import all_axes
from headrace.ops.array.shapes import expand_dims, reshape, shape
from headrace.run.exec.worker_pool import parallel_for

__all__ = ["broadcast_dynamic_shape", "broadcast_static_shape", "broadcast_to", "sequence_mask"]


def _broadcast_to_shape(c: ShapeContext) -> Shape:
    whole, wanted = c.shape("input"), c.shape_value("shape")
    if whole is None or wanted is None:
        return wanted
    if len(whole) > len(wanted):
        raise ValueError(
            f"Shape must be at most rank {len(wanted)} but is rank {len(whole)}: "
            f"{text(whole)} does not broadcast to {text(wanted)}"
        )
    extra = len(wanted) - len(whole)
    for have, want in zip(whole, wanted[extra:], strict=True):
        if have is not None and want is not None and have not in (1, want):
            raise ValueError(
                f"Dimensions must be equal, but are {have} and {want}: "
                f"{text(whole)} does not broadcast to {text(wanted)}"
            )
    known = [
        have if want is None and have != 1 else want
        for have, want in zip(whole, wanted[extra:], strict=True)
    ]
    return (*wanted[:extra], *known)


@op(
    "BroadcastTo",
    inputs="input: T; shape: Tidx",
    outputs="output: T",
    attrs="T: type; Tidx: {int32, int64} = int32",
    shape=_broadcast_to_shape,
    traits={SHARES},
)
def broadcast_to_op(xp: Any, input: Any, shape: Any) -> Any:
    """The input repeated along dimensions of size 1 and new leading ones.

    shape [r].  Raises InvalidArgument if the input does not broadcast to it.
    Source: TF 1.15 core/kernels/broadcast_to_op.cc
    """
    sizes = checked_sizes(shape, "shape")
    try:
        stretched = xp.broadcast_to(input, sizes)
    except ValueError:
        raise errors.invalid_argument(
            f"Rank of input ({np.ndim(input)}) must be no greater than rank of output shape ({len(sizes)}): "
            f"{text(np.shape(input))} does not broadcast to {text(sizes)}"
            if np.ndim(input) > len(sizes)
            else f"Incompatible shapes: {text(np.shape(input))} vs. {text(sizes)}: the first does not broadcast to it"
        ) from None
    if stretched.size < LARGE or len(stretched) < 2 or stretched.dtype == object:
        return stretched.copy()
    found = xp.empty(stretched.shape, stretched.dtype)
    parallel_for(
        lambda part: xp.copyto(found[part], stretched[part]),
        parts(len(found), found.nbytes // len(found), BLOCK * found.itemsize),
    )
    return found


@broadcast_to_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    wanted = op.inputs[1]
    kind = wanted.dtype.base_dtype
    own = shape(op.inputs[0], out_type=kind)
    known = as_shape(wanted)
    if shape_rules.is_fully_defined(known):
        wanted = constant(list(known or ()), kind)
    _, axes = get("BroadcastGradientArgs")(wanted, own)
    return reshape(get("Sum")(dout, axes, keep_dims=True), own), None


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """`input` repeated to fill `shape`."""
    made: Tensor = broadcast_to_op(input, shape, name=name)
    return made


def _broadcast_args_shape(c: ShapeContext) -> Shape:
    first, second = c.with_rank("s0", 1), c.with_rank("s1", 1)
    assert first is not None
    assert second is not None
    if first[0] is None or second[0] is None:
        return (None,)
    return (max(first[0], second[0]),)


@op(
    "BroadcastArgs",
    inputs="s0: T; s1: T",
    outputs="r0: T",
    attrs="T: {int32, int64} = int32",
    shape=_broadcast_args_shape,
    traits={OF_COUNTS},
    differentiable=False,
)
def broadcast_args_op(xp: Any, s0: Any, s1: Any) -> Any:
    """The shape that tensors of shapes s0 and s1 broadcast to.

    Raises InvalidArgument if they do not.
    Source: TF 1.15 core/kernels/bcast_ops.cc
    """
    if np.ndim(s0) != 1 or np.ndim(s1) != 1:
        raise errors.invalid_argument(
            f"shapes are vectors, not of shapes {np.shape(s0)} and {np.shape(s1)}"
        )
    try:
        return np.array(shape_rules.broadcast(tuple(s0.tolist()), tuple(s1.tolist())), s0.dtype)
    except ValueError as error:
        raise errors.invalid_argument(
            f"Incompatible shapes: {text(s0)} vs. {text(s1)}: {error}"
        ) from None


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that tensors of these shapes broadcast to, computed in the step."""
    made: Tensor = broadcast_args_op(shape_x, shape_y)
    return made


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The TensorShape that tensors of these static shapes broadcast to.  Raises ValueError."""
    x, y = TensorShape(shape_x), TensorShape(shape_y)
    try:
        return TensorShape(shape_rules.broadcast(x._raw, y._raw))
    except ValueError as error:
        raise ValueError(f"Incompatible shapes for broadcasting: {x} and {y}: {error}") from None


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None
) -> Tensor:
    """out[..., j] = j < lengths[...]: [..., maxlen], where maxlen is the longest if not given."""
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert(lengths)
        if maxlen is None:
            longest = get("Max")(lengths, all_axes(lengths))
            maxlen = get("Maximum")(constant(0, longest.dtype), longest)
        else:
            maxlen = convert(maxlen)
        if maxlen.raw_shape not in (None, ()):
            raise ValueError(
                f"Argument `maxlen` must be scalar for sequence_mask, and {maxlen.name} has shape {maxlen.shape}"
            )
        kind = maxlen.dtype.base_dtype
        row = get("Range")(constant(0, kind), maxlen, constant(1, kind))
        column = get("Cast")(expand_dims(lengths, -1), DstT=kind)
        mask: Tensor = row < column
        wanted = dtypes.as_dtype(dtype)
        if wanted is not dtypes.bool:
            mask = get("Cast")(mask, DstT=wanted)
        return mask
