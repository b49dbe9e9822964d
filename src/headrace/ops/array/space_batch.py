"""Moving blocks of space into the batch or into the channels, and back.

Called by: ops.nn.convolution_calls (dilated windows), programs.  Threads: any; gradients as graph.
Source: TF 1.15 core/kernels/spacetobatch_op.cc, batchtospace_op.cc, spacetodepth_op.cc; gradient nodes as 2.21
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, merge, text
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.windows import Array, channels_last, from_last, to_last
from headrace.ops.array.constants import constant

__all__ = [
    "batch_to_space",
    "batch_to_space_nd",
    "depth_to_space",
    "space_to_batch",
    "space_to_batch_nd",
    "space_to_depth",
]


def _checked(x: Array, block: Array, pairs: Array, what: str) -> tuple[list[int], Any]:
    """The block's sizes and the pairs.  Raises InvalidArgument."""
    if block.ndim != 1 or x.ndim < 1 + len(block) or not (block > 0).all():
        raise errors.invalid_argument(
            f"block_shape {block.tolist()} must have a positive size for each of the dimensions after the first "
            f"that are moved, and the input has shape {text(x.shape)}"
        )
    if pairs.shape != (len(block), 2) or (pairs < 0).any():
        raise errors.invalid_argument(
            f"{what} must be {[len(block), 2]} numbers that are not negative, not {pairs.tolist()}"
        )
    return [int(n) for n in block], [(int(a), int(b)) for a, b in pairs]


def _known_pairs(c: ShapeContext, name: str, count: int) -> Sequence[Any]:
    """The pairs that are added to or cut off each dimension, None where they are not known."""
    found = c.value(name)
    return [None] * count if found is None else found.tolist()


def _check_values(c: ShapeContext, pairs: str) -> None:
    block, known = c.value("block_shape"), c.value(pairs)
    if block is not None and (block <= 0).any():
        raise ValueError(f"block_shape must be positive, and is {block.tolist()}")
    if known is not None and (known < 0).any():
        raise ValueError(f"{pairs} cannot be negative, and are {known.tolist()}")


def _check_ranks(c: ShapeContext, pairs: str) -> None:
    block = c.shape("block_shape")
    if block is not None and len(block) != 1:
        raise ValueError(f"block_shape must have rank 1.: its shape is {text(block)}")
    if block is not None and block[0] is not None:
        c.with_rank_at_least("input", 1 + block[0])
        merge(c.shape(pairs), (block[0], 2))  # raises


def _of_unknown_blocks(c: ShapeContext, x: tuple[int | None, ...]) -> Shape:
    """The dimensions that no block cuts are as they are."""
    (count,) = c.shape("block_shape") or (None,)
    kept = len(x) if count is None else count + 1
    return (*(None,) * kept, *x[kept:])


def _space_to_batch_shape(c: ShapeContext) -> Shape:
    _check_ranks(c, "paddings")
    _check_values(c, "paddings")
    x, block = c.shape("input"), c.value("block_shape")
    if x is None or block is None:
        return None if x is None else _of_unknown_blocks(c, x)
    sizes: list[int | None] = []
    for n, b, pair in zip(
        x[1:], block.tolist(), _known_pairs(c, "paddings", len(block)), strict=False
    ):
        if n is None or pair is None:
            sizes.append(None)
            continue
        if (n + sum(pair)) % b:
            raise ValueError(
                f"Dimension size must be evenly divisible by {b} but is {n + sum(pair)}: "
                "a padded size is a multiple of the block's"
            )
        sizes.append((n + sum(pair)) // b)
    count = None if x[0] is None else x[0] * math.prod(block.tolist())
    return (count, *sizes, *x[1 + len(block) :])


@op(
    "SpaceToBatchND",
    inputs="input: T; block_shape: Tblock_shape; paddings: Tpaddings",
    outputs="output: T",
    attrs="T: type; Tblock_shape: {int32, int64} = int32; Tpaddings: {int32, int64} = int32",
    shape=_space_to_batch_shape,
)
def space_to_batch_nd(xp: Any, input: Array, block_shape: Array, paddings: Array) -> Any:
    """Pad the dimensions after the first, then move every block_shape[i]-th place of them into the batch.

    input [n, *space, *rest]; output [n · prod(block_shape), *(padded space / block_shape), *rest].
    Raises InvalidArgument if the padded sizes are no multiples.
    """
    block, pads = _checked(input, block_shape, paddings, "paddings")
    rest = [(0, 0)] * (input.ndim - 1 - len(block))
    padded = np.pad(input, [(0, 0), *pads, *rest]) if any(map(any, pads)) else input
    space = padded.shape[1 : 1 + len(block)]
    over = [at for at, (n, b) in enumerate(zip(space, block, strict=True)) if n % b]
    if over:
        at = over[0]
        raise errors.invalid_argument(
            f"padded_shape[{at}]={space[at]} is not divisible by block_shape[{at}]={block[at]}: the padded sizes "
            f"{list(space)} must be multiples of {block}"
        )
    shape = [len(input)]
    for n, b in zip(space, block, strict=True):
        shape += [n // b, b]
    split = padded.reshape(*shape, *input.shape[1 + len(block) :])
    outer, inner = range(1, 2 * len(block), 2), range(2, 2 * len(block) + 1, 2)
    order = (*inner, 0, *outer, *range(1 + 2 * len(block), split.ndim))
    moved = split.transpose(order)
    count = math.prod(block) * len(input)
    return np.array(moved, order="C").reshape(count, *moved.shape[1 + len(block) :])


def _batch_to_space_shape(c: ShapeContext) -> Shape:
    _check_ranks(c, "crops")
    _check_values(c, "crops")
    x, block = c.shape("input"), c.value("block_shape")
    if x is None or block is None:
        return None if x is None else _of_unknown_blocks(c, x)
    sizes: list[int | None] = []
    pairs = _known_pairs(c, "crops", len(block))
    for n, b, pair in zip(x[1:], block.tolist(), pairs, strict=False):
        if n is not None and pair is not None and n * b < sum(pair):
            raise ValueError(
                f"Negative dimension size caused by subtracting {sum(pair)} from {n * b}: crops leave nothing"
            )
        sizes.append(None if n is None or pair is None else n * b - sum(pair))
    total = math.prod(block.tolist())
    if x[0] is not None and x[0] % total:
        raise ValueError(
            f"Dimension size must be evenly divisible by {total} but is {x[0]}: "
            f"the batch is a multiple of the {total} places of a block"
        )
    return (None if x[0] is None else x[0] // total, *sizes, *x[1 + len(block) :])


@op(
    "BatchToSpaceND",
    inputs="input: T; block_shape: Tblock_shape; crops: Tcrops",
    outputs="output: T",
    attrs="T: type; Tblock_shape: {int32, int64} = int32; Tcrops: {int32, int64} = int32",
    shape=_batch_to_space_shape,
)
def batch_to_space_nd(xp: Any, input: Array, block_shape: Array, crops: Array) -> Any:
    """The inverse of SpaceToBatchND; crops: what is then cut off before and after.

    Raises InvalidArgument if the batch is no multiple of the block, or nothing is left.
    """
    block, cuts = _checked(input, block_shape, crops, "crops")
    total = math.prod(block)
    if len(input) % total:
        raise errors.invalid_argument(
            f"Input batch dimension ({len(input)}) is not divisible by product of block sizes ({total}), which "
            f"are {block}"
        )
    count = len(block)
    split = input.reshape(*block, len(input) // total, *input.shape[1:])
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(2 * count + 1, split.ndim)
    sizes = [n * b for n, b in zip(input.shape[1:], block, strict=False)]
    whole = split.transpose(order).reshape(len(input) // total, *sizes, *input.shape[1 + count :])
    kept = [slice(a, n - b) for n, (a, b) in zip(sizes, cuts, strict=True)]
    if any(cut.stop < cut.start for cut in kept):
        raise errors.invalid_argument(f"crops {cuts} leave nothing of sizes {sizes}")
    return np.array(whole[(slice(None), *kept)], order="C")


@space_to_batch_nd.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None, None]:
    return batch_to_space_nd(dout, op.inputs[1], op.inputs[2]), None, None


@batch_to_space_nd.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None, None]:
    return space_to_batch_nd(dout, op.inputs[1], op.inputs[2]), None, None


# -- channels ---------------------------------------------------------------------------------

_DEPTH = "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'"


def _depth_shape(into_depth: bool) -> Any:
    def shape(c: ShapeContext) -> Shape:
        last, b = channels_last(c.attr("data_format")), c.attr("block_size")
        n, *others = c.with_rank("input", 4)  # type: ignore[misc]
        (h, w, depth) = others if last else (*others[1:], others[0])
        if into_depth:
            for size in (h, w):
                if size is not None and size % b:
                    raise ValueError(
                        f"Dimension size must be evenly divisible by {b} but is {size}: "
                        f"height {h} and width {w} must be multiples of block_size"
                    )
            space = [None if size is None else size // b for size in (h, w)]
            depth = None if depth is None else depth * b * b
        else:
            if depth is not None and depth % (b * b):
                raise ValueError(
                    f"Dimension size must be evenly divisible by {b * b} but is {depth}: "
                    "the channels are a multiple of block_size²"
                )
            space = [None if size is None else size * b for size in (h, w)]
            depth = None if depth is None else depth // (b * b)
        return (n, *space, depth) if last else (n, depth, *space)

    return shape


def _four(x: Array, data_format: bytes) -> Array:
    if x.ndim != 4 or data_format == b"NCHW_VECT_C":
        raise errors.invalid_argument(
            f"Input rank should be: 4 instead of: {x.ndim}; a {data_format.decode()} of shape {text(x.shape)} is none"
        )
    return to_last(x, data_format)


@op(
    "SpaceToDepth",
    inputs="input: T",
    outputs="output: T",
    attrs=_DEPTH,
    shape=_depth_shape(True),
)
def space_to_depth_op(xp: Any, input: Array, *, block_size: int, data_format: bytes) -> Any:
    """[n, h, w, c] as [n, h / b, w / b, b · b · c]: every block of b × b places becomes channels.

    Raises InvalidArgument if height or width is no multiple of b = block_size.
    """
    x, b = _four(input, data_format), block_size
    n, h, w, c = x.shape
    if h % b or w % b:
        raise errors.invalid_argument(
            f"Image width {w} and height {h} should be divisible by block_size: {b}"
        )
    split = x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
    return from_last(np.array(split, order="C").reshape(n, h // b, w // b, b * b * c), data_format)


@op(
    "DepthToSpace",
    inputs="input: T",
    outputs="output: T",
    attrs=_DEPTH,
    shape=_depth_shape(False),
)
def depth_to_space_op(xp: Any, input: Array, *, block_size: int, data_format: bytes) -> Any:
    """The inverse of SpaceToDepth.  Raises InvalidArgument if the channels are no multiple of block_size²."""
    x, b = _four(input, data_format), block_size
    n, h, w, c = x.shape
    if c % (b * b):
        raise errors.invalid_argument(
            f"Input depth dimension {c} should be divisible by: {b * b}, the block_size²"
        )
    split = x.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
    return from_last(np.array(split, order="C").reshape(n, h * b, w * b, c // (b * b)), data_format)


@space_to_depth_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return depth_to_space_op(dout, block_size=op["block_size"], data_format=op["data_format"])


@depth_to_space_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return space_to_depth_op(dout, block_size=op["block_size"], data_format=op["data_format"])


def space_to_depth(
    input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Blocks of block_size² places as channels."""
    made: Tensor = space_to_depth_op(
        input, block_size=block_size, data_format=data_format, name=name
    )
    return made


def depth_to_space(
    input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Channels as blocks of block_size² places."""
    made: Tensor = depth_to_space_op(
        input, block_size=block_size, data_format=data_format, name=name
    )
    return made


def space_to_batch(
    input: Any,
    paddings: Any,
    block_size: Any = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Tensor:
    """`space_to_batch_nd`; block_size: one number for both dimensions of images."""
    with name_scope(name, "SpaceToBatchND", [input, paddings]) as scope:
        block = _block(block_size, block_shape)
        return _of_rank_four(space_to_batch_nd(input, block, paddings, name=scope), block_size)


def batch_to_space(
    input: Any, crops: Any, block_size: Any, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """`batch_to_space_nd`; block_size: one number for both dimensions of images."""
    with name_scope(name, "BatchToSpaceND", [input, crops]) as scope:
        block = _block(block_size, block_shape)
        return _of_rank_four(batch_to_space_nd(input, block, crops, name=scope), block_size)


def _of_rank_four(made: Tensor, block_size: Any) -> Tensor:
    """`made`; if there is one number for both dimensions, of images."""
    if block_size is not None and made.shape.ndims is None:
        made.set_shape([None] * 4)
    return made


def _block(size: Any, shape: Any) -> Any:
    if (size is None) == (shape is None):
        raise ValueError("block_size and block_shape mean the same: give one")
    if isinstance(size, (int, np.integer)):
        return constant([size, size], dtypes.int64, name="block_shape")
    return shape if size is None else size
