"""Array kernels that move elements between batches, images and channels, along axes and diagonals.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from headrace.ops._portable.reductions import axes_of
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops._portable.windows import from_last, padded, to_last


def _pairs(value: Any, count: int) -> list[tuple[int, int]]:
    check(value.shape == (count, 2) and (value >= 0).all())
    return [(int(before), int(after)) for before, after in value]


def _blocks(value: Any) -> list[int]:
    check(value.ndim == 1 and (value > 0).all())
    return [int(size) for size in value]


# -- batches, images and channels -------------------------------------------------------------------------------------


@arrays("SpaceToBatchND", host=(1, 2))
def _space_to_batch(xp: Any, input: Any, block_shape: Any, paddings: Any) -> Any:
    blocks = _blocks(block_shape)
    rank = len(blocks)
    pads = _pairs(paddings, rank)
    check(input.ndim > rank)
    x = padded(xp, xp.reshape(input, (*input.shape, 1)), pads)
    x = xp.reshape(x, x.shape[:-1])
    batch, sizes, rest = x.shape[0], x.shape[1 : rank + 1], x.shape[rank + 1 :]
    check(all(size % block == 0 for size, block in zip(sizes, blocks, strict=True)))
    split = [(n // b, b) for n, b in zip(sizes, blocks, strict=True)]
    x = xp.reshape(x, (batch, *itertools.chain(*split), *rest))
    inner = [2 * at + 2 for at in range(rank)]
    outer = [2 * at + 1 for at in range(rank)]
    others = range(2 * rank + 1, x.ndim)
    x = xp.permute_dims(x, (*inner, 0, *outer, *others))
    return xp.reshape(x, (batch * math.prod(blocks), *[n for n, _ in split], *rest))


@arrays("BatchToSpaceND", host=(1, 2))
def _batch_to_space(xp: Any, input: Any, block_shape: Any, crops: Any) -> Any:
    blocks = _blocks(block_shape)
    rank, many = len(blocks), math.prod(blocks)
    cuts = _pairs(crops, rank)
    check(input.ndim > rank and input.shape[0] % many == 0)
    batch, sizes, rest = input.shape[0] // many, input.shape[1 : rank + 1], input.shape[rank + 1 :]
    x = xp.reshape(input, (*blocks, batch, *sizes, *rest))
    axes = [rank, *itertools.chain(*[(rank + 1 + at, at) for at in range(rank)])]
    x = xp.permute_dims(x, (*axes, *range(2 * rank + 1, x.ndim)))
    whole = [n * b for n, b in zip(sizes, blocks, strict=True)]
    check(all(before + after <= n for (before, after), n in zip(cuts, whole, strict=True)))
    x = xp.reshape(x, (batch, *whole, *rest, 1))
    x = padded(xp, x, [(-before, -after) for before, after in cuts])
    return xp.reshape(x, x.shape[:-1])


@arrays("SpaceToDepth")
def _space_to_depth(xp: Any, input: Any, *, block_size: int, data_format: bytes) -> Any:
    check(data_format in (b"NHWC", b"NCHW"))
    x = to_last(xp, input, data_format)
    batch, height, width, channels = x.shape
    check(height % block_size == 0 and width % block_size == 0)
    x = xp.reshape(
        x, (batch, height // block_size, block_size, width // block_size, block_size, channels)
    )
    x = xp.permute_dims(x, (0, 1, 3, 2, 4, 5))
    return from_last(xp, xp.reshape(x, (*x.shape[:3], block_size**2 * channels)), data_format)


@arrays("DepthToSpace")
def _depth_to_space(xp: Any, input: Any, *, block_size: int, data_format: bytes) -> Any:
    check(data_format in (b"NHWC", b"NCHW"))
    x = to_last(xp, input, data_format)
    batch, height, width, channels = x.shape
    check(channels % block_size**2 == 0)
    left = channels // block_size**2
    x = xp.reshape(x, (batch, height, width, block_size, block_size, left))
    x = xp.permute_dims(x, (0, 1, 3, 2, 4, 5))
    shape = (batch, height * block_size, width * block_size, left)
    return from_last(xp, xp.reshape(x, shape), data_format)


# -- along axes -------------------------------------------------------------------------------------------------------


def _along(x: Any, axis: int, cut: slice) -> Any:
    return x[(*(slice(None),) * axis, cut, *(slice(None),) * (x.ndim - axis - 1))]


@arrays("MirrorPad", host=(1,))
def _mirror_pad(xp: Any, input: Any, paddings: Any, *, mode: bytes) -> Any:
    edge = 1 if mode == b"REFLECT" else 0
    x = input
    for axis, (before, after) in enumerate(_pairs(paddings, input.ndim)):
        size = x.shape[axis]
        check(max(before, after) <= size - edge)
        first = xp.flip(_along(x, axis, slice(edge, edge + before)), axis=axis)
        last = xp.flip(_along(x, axis, slice(size - edge - after, size - edge)), axis=axis)
        x = xp.concat([first, x, last], axis=axis)
    return x


@arrays("MirrorPadGrad", host=(1,), reals=True)
def _mirror_pad_grad(xp: Any, input: Any, paddings: Any, *, mode: bytes) -> Any:
    pairs = _pairs(paddings, input.ndim)
    sizes = [n - before - after for n, (before, after) in zip(input.shape, pairs, strict=True)]
    check(min(sizes, default=1) > 0)
    edge = 1 if mode == b"REFLECT" else 0
    x = input
    for axis, ((before, after), size) in enumerate(zip(pairs, sizes, strict=True)):
        check(max(before, after) <= size - edge)
        found = _along(x, axis, slice(before, before + size))
        parts = ((slice(0, before), edge), (slice(before + size, None), size - edge - after))
        for cut, first in parts:
            mirrored = xp.flip(_along(x, axis, cut), axis=axis)
            rest = size - first - mirrored.shape[axis]
            pads = [(0, 0)] * axis + [(first, rest)]
            spread = padded(xp, xp.reshape(mirrored, (1, *mirrored.shape, 1)), pads)
            found = found + xp.reshape(spread, found.shape)
        x = found
    return xp.asarray(x, copy=True)


@arrays("Reverse", host=(1,))
def _reverse(xp: Any, tensor: Any, dims: Any) -> Any:
    check(dims.shape == (tensor.ndim,))
    return xp.flip(tensor, axis=tuple([at for at, turned in enumerate(dims) if turned]))


@arrays("ReverseSequence")
def _reverse_sequence(
    xp: Any, input: Any, seq_lengths: Any, *, seq_dim: int, batch_dim: int
) -> Any:
    check(0 <= seq_dim < input.ndim and 0 <= batch_dim < input.ndim and seq_dim != batch_dim)
    check(seq_lengths.shape == (input.shape[batch_dim],) and math.prod(input.shape) > 0)
    longest = input.shape[seq_dim]
    fits = xp.logical_and(seq_lengths >= 0, seq_lengths <= longest)
    require(xp, fits, f"not all in [0, {longest}]")
    every = xp.arange(longest, dtype=seq_lengths.dtype, device=device_of(input))
    every, lengths = xp.expand_dims(every, axis=0), xp.expand_dims(seq_lengths, axis=1)
    places = xp.where(every < lengths, lengths - every - 1, every)  # [batch, time]
    rows = xp.moveaxis(input, (batch_dim, seq_dim), (0, 1))
    places = xp.reshape(places, (*rows.shape[:2], *(1,) * (rows.ndim - 2)))
    found = xp.take_along_axis(rows, xp.broadcast_to(places, rows.shape), axis=1)
    return xp.moveaxis(found, (0, 1), (batch_dim, seq_dim))


@arrays("Roll", host=(1, 2))
def _roll(xp: Any, input: Any, shift: Any, axis: Any) -> Any:
    check(input.ndim > 0 and shift.shape == axis.shape and shift.ndim <= 1)
    for by, along in zip(shift.reshape(-1).tolist(), axis.reshape(-1).tolist(), strict=True):
        check(-input.ndim <= along < input.ndim)
        input = xp.roll(input, by, axis=along)
    return input


@arrays("ConjugateTranspose", host=(1,))
def _conjugate_transpose(xp: Any, x: Any, perm: Any) -> Any:
    check(perm.shape == (x.ndim,))
    turned = xp.permute_dims(x, axes_of(perm, x.ndim))
    return xp.conj(turned) if xp.isdtype(x.dtype, "complex floating") else turned


@arrays("TopKV2", host=(1,), reals=True)
def _top_k(xp: Any, input: Any, k: Any, *, index_type: Any) -> tuple[Any, Any]:
    return _largest(xp, input, int(k), getattr(xp, index_type.name))


def _largest(xp: Any, input: Any, count: int, kind: Any) -> tuple[Any, Any]:
    check(
        input.ndim > 0
        and 0 <= count <= input.shape[-1]
        and xp.isdtype(input.dtype, "real floating")
    )
    places = xp.argsort(input, axis=-1, descending=True, stable=True)[..., :count]
    return xp.take_along_axis(input, places, axis=-1), xp.astype(places, kind)


@arrays("TopK", reals=True)
def _older_top_k(xp: Any, input: Any, *, k: int) -> tuple[Any, Any]:
    return _largest(xp, input, k, xp.int32)


@arrays("InTopK", reals=True)
def _in_top_k(xp: Any, predictions: Any, targets: Any, *, k: int) -> Any:
    check(predictions.ndim == 2 and targets.shape == predictions.shape[:1])
    classes = predictions.shape[1]
    check(math.prod(predictions.shape) > 0)
    valid = xp.logical_and(targets >= 0, targets < classes)
    place = xp.expand_dims(xp.where(valid, targets, xp.zeros_like(targets)), axis=1)
    chosen = xp.take_along_axis(predictions, place, axis=1)
    larger = xp.sum(xp.astype(predictions > chosen, xp.int64), axis=1)
    usual = xp.logical_and(valid, xp.all(xp.isfinite(predictions), axis=1))
    return xp.logical_and(usual, larger < k)


@arrays("InTopKV2", host=(2,), reals=True)
def _in_top_k_of(xp: Any, predictions: Any, targets: Any, k: Any) -> Any:
    check(k.ndim == 0)
    return _in_top_k(xp, predictions, targets, k=int(k))


# -- diagonals --------------------------------------------------------------------------------------------------------


def _distances(xp: Any, x: Any) -> Any:
    """[m, n]: how far to the right of the diagonal the elements of x [..., m, n] are."""
    rows = xp.arange(x.shape[-2], device=device_of(x))
    columns = xp.arange(x.shape[-1], device=device_of(x))
    return xp.expand_dims(columns, axis=0) - xp.expand_dims(rows, axis=1)


@arrays("MatrixBandPart", "BatchMatrixBandPart", host=(1, 2))
def _band(xp: Any, input: Any, num_lower: Any, num_upper: Any) -> Any:
    check(input.ndim >= 2 and num_lower.ndim == num_upper.ndim == 0)
    below, above = int(num_lower), int(num_upper)
    check(below <= input.shape[-2] and above <= input.shape[-1])
    off = _distances(xp, input)
    inside = xp.ones_like(off, dtype=xp.bool)
    if below >= 0:
        inside = xp.logical_and(inside, off >= -below)
    if above >= 0:
        inside = xp.logical_and(inside, off <= above)
    return xp.where(inside, input, xp.zeros_like(input))


@arrays("MatrixDiag")
def _matrix_diag(xp: Any, diagonal: Any) -> Any:
    check(diagonal.ndim > 0)
    rows = xp.expand_dims(diagonal, axis=-1)
    wide = xp.broadcast_to(rows, (*diagonal.shape, diagonal.shape[-1]))
    return xp.where(_distances(xp, wide) == 0, wide, xp.zeros_like(wide))


@arrays("MatrixSetDiag")
def _matrix_set_diag(xp: Any, input: Any, diagonal: Any) -> Any:
    check(input.ndim >= 2 and diagonal.shape == (*input.shape[:-2], min(input.shape[-2:])))
    rows = xp.expand_dims(diagonal, axis=-1)
    missing = input.shape[-2] - diagonal.shape[-1]
    if missing:
        none = xp.zeros((*rows.shape[:-2], missing, 1), dtype=rows.dtype, device=device_of(rows))
        rows = xp.concat([rows, none], axis=-2)
    return xp.where(_distances(xp, input) == 0, xp.broadcast_to(rows, input.shape), input)
