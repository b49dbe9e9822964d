"""The arithmetic of convolutions, of any number of spatial dimensions, and of their two gradients.

All three are products of matrices (`ops._kernels.layouts`), made for a few images at a time; such parts run side by
side (`run.exec.worker_pool`).  Which parts there are depends on shapes alone, and so does every rounding.
Called by: ops.nn.convolution, ops.nn.fused.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text
from headrace.ops._kernels.flat import Flat
from headrace.ops._kernels.layouts import layout
from headrace.ops._kernels.line_tiles import BothGradients, LineTiles
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import (
    Array,
    Geometry,
    check_gradient,
    from_last,
    geometry,
    laid_last,
    parts,
    to_last,
)
from headrace.run.exec.worker_pool import hold_blas, parallel_for

__all__: list[str] = []

PART_BYTES = (
    2 << 20
)  # laid out at a time; measured: 1 to 4 MB differ little, 8 MB are a fifth slower
ROWS_AT_LEAST = 256  # of a product
_SUMS = 8  # partial sums of a filter's gradient
_PRODUCT, _ROWS, _TOTAL = 3, 4, 5  # slots of scratch memory beside those of ops.layouts
_UNEVEN = (
    "input depth must be evenly divisible by filter depth",
    "input and filter must have the same depth",
)
Then = Callable[[slice, Array], object]
Multiply = Callable[[slice, Array, Array], None]
"""(images, the gradient of the output, where that of the filters goes)"""


def check_ranks(x: Array, filters: Array, data_format: bytes) -> None:
    """Raise InvalidArgument unless both have a dimension for each letter of `data_format`."""
    rank = len(data_format)
    if x.ndim != rank or filters.ndim != rank:
        raise errors.invalid_argument(
            f"{'input' if x.ndim != rank else 'filter'} must be {rank}-dimensional: they have shapes "
            f"{text(x.shape)} and "
            f"{text(filters.shape)}"
        )


def _parts(count: int, bytes_each: int, where: Geometry) -> list[slice]:
    """Slices of `count` images.  Each product lays out the whole filter anew, so it should have some rows."""
    return parts(count, bytes_each, PART_BYTES, -(-ROWS_AT_LEAST // max(math.prod(where.out), 1)))


def convolved(
    x: Array,
    filters: Array,
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
    then: Then | None = None,
    first: Callable[[slice], object] | None = None,
) -> Array:
    """x [n, *size, c] (or channels second) with filters [*window, c, m]: [n, *out, m] likewise.

    c may be a multiple of the filter's channels: then that many groups of channels each have their share of the m.
    then: called with images and what was made of them, channels last, which it may change; while it is in the cache.
    first: called with images before they are read.
    Raises InvalidArgument if ranks, channels or attrs do not fit.
    """
    check_ranks(x, filters, data_format)
    given, weights = to_last(single(x), data_format), single(filters)
    if not filters.size:
        raise errors.invalid_argument(f"the filter {text(filters.shape)} has no elements")
    taken, made = filters.shape[-2:]
    groups = given.shape[-1] // taken if taken else 0
    if not taken or given.shape[-1] % taken or (made % groups if groups else made):
        raise errors.invalid_argument(
            f"{_UNEVEN[x.ndim == 5]}: {given.shape[-1]} vs {taken}, that of {text(x.shape)} "
            f"({data_format.decode()}) and "
            f"of the filter {text(filters.shape)}"
        )
    where = geometry(
        given.shape[1:-1], filters.shape[:-2], strides, padding, data_format, dilations, explicit
    )
    out = np.empty((len(x), *where.out, made), weights.dtype)
    share = made // max(groups, 1)
    if first is not None and (groups != 1 or not out.size):
        first(slice(len(x)))
        first = None
    for group in range(groups):
        of_inputs = slice(group * taken, (group + 1) * taken)
        of_outputs = slice(group * share, (group + 1) * share)
        one = then if groups == 1 else None
        _convolve(
            given[..., of_inputs], weights[..., of_outputs], where, out[..., of_outputs], one, first
        )
    if then is not None and groups != 1:
        then(slice(len(x)), out)
    return from_last(out.astype(x.dtype, copy=False), data_format)


def _convolve(
    x: Array,
    filters: Array,
    where: Geometry,
    out: Array,
    then: Then | None = None,
    first: Callable[[slice], object] | None = None,
) -> None:
    if not out.size:
        return
    hold_blas()  # what it makes of the filters is a product, too
    how = layout(where, filters.shape[-2], filters.shape[-1], len(x), x.dtype)
    matrix = how.matrix(filters)

    def part(images: slice) -> None:
        made = out[images]
        if first is not None:
            first(images)
        how.convolve(x[images], matrix, made)
        if then is not None:
            then(images, made)

    parallel_for(part, _parts(len(x), how.elements * x.itemsize, where), products=True)


def backprop_input(
    sizes: Sequence[int],
    filters: Array,
    dout: Array,
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
) -> Array:
    """The gradient of `convolved` with respect to its input, of shape `sizes` (as data_format says).

    Raises InvalidArgument if dout is not what the convolution gives for that shape.
    """
    check_ranks(dout, filters, data_format)
    if len(sizes) != len(data_format) or min(sizes) < 0:
        raise errors.invalid_argument(
            f"input_sizes must be {len(data_format)} sizes ({data_format.decode()}), not {list(sizes)}"
        )
    weights, dy = single(filters), laid_last(single(dout), data_format)
    like = to_last(np.broadcast_to(np.zeros((), weights.dtype), list(sizes)), data_format)
    where = geometry(
        like.shape[1:-1], filters.shape[:-2], strides, padding, data_format, dilations, explicit
    )
    check_gradient(dy, where, len(like), filters.shape[-1])
    if like.shape[-1] != filters.shape[-2]:
        raise errors.invalid_argument(
            f"input_sizes {list(sizes)} have {like.shape[-1]} channels, the filter {text(filters.shape)} takes "
            f"{filters.shape[-2]}"
        )
    dx = np.empty(like.shape, weights.dtype)
    input_gradient(dy, weights, where, dx)
    return from_last(dx.astype(dout.dtype, copy=False), data_format)


def _flipped(filters: Array) -> Array:
    """What the outputs' gradient is convolved with, where strides are 1."""
    spatial = tuple(range(filters.ndim - 2))
    return np.ascontiguousarray(np.flip(filters, spatial).swapaxes(-1, -2))


def input_gradient(dy: Array, filters: Array, where: Geometry, dx: Array) -> None:
    """dx [n, *size, c] = the gradient of the input, for dy [n, *out, m] of the output."""
    back = where.reversed()
    if back is not None:
        _convolve(dy, _flipped(filters), back, dx)
    else:
        _scatter(dy, filters, where, dx)


def _scatter(dy: Array, filters: Array, where: Geometry, dx: Array) -> None:
    """dx = what every output gives back to the inputs in its window."""
    matrix = filters.reshape(-1, filters.shape[-1]).T

    def part(images: slice) -> None:
        chosen, into = dy[images].reshape(-1, dy.shape[-1]), dx[images]
        rows = scratch(_ROWS, (len(chosen), matrix.shape[1]), dx.dtype)
        np.matmul(chosen, matrix, out=rows)
        _gather(rows, where, into)

    elements = math.prod(where.out) * matrix.shape[1]
    parallel_for(part, _parts(len(dx), elements * dx.itemsize, where), products=True)


def _gather(rows: Array, where: Geometry, into: Array) -> None:
    """into [n, *size, c] = the sum of what `rows`, the windows of it, have for each place."""
    n, c = len(into), into.shape[-1]
    values = rows.reshape(n, *where.out, *where.window, c)
    total = into
    if where.has_pads:
        total = scratch(_TOTAL, (n, *where.padded_size, c), rows.dtype)
    total[...] = 0
    spatial = len(where.window)
    for at, view in where.positions():
        total[view] += values[(slice(None),) * (1 + spatial) + at]
    if where.has_pads:
        into[...] = where.inside(total)


def backprop_filter(
    x: Array,
    sizes: Sequence[int],
    dout: Array,
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
) -> Array:
    """The gradient of `convolved` with respect to its filter, of shape `sizes`.  Raises InvalidArgument as above."""
    rank = len(data_format)
    if x.ndim != rank or dout.ndim != rank or len(sizes) != rank or min(sizes) < 0:
        raise errors.invalid_argument(
            f"the input, the gradient and filter_sizes must have {rank} dimensions, not {text(x.shape)}, "
            f"{text(dout.shape)} and {list(sizes)}"
        )
    given, dy = (laid_last(single(a), data_format) for a in (x, dout))
    where = geometry(
        given.shape[1:-1], sizes[:-2], strides, padding, data_format, dilations, explicit
    )
    check_gradient(dy, where, len(given), sizes[-1])
    if given.shape[-1] != sizes[-2]:
        raise errors.invalid_argument(
            f"the input {text(x.shape)} ({data_format.decode()}) has {given.shape[-1]} channels, filter_sizes "
            f"{list(sizes)} say {sizes[-2]}"
        )
    gradient = FilterGradient(where, sizes[-2], sizes[-1], len(given), dy.dtype)
    parallel_for(
        lambda number: gradient.add(number, given, lambda images: dy[images]),
        range(len(gradient.shares)),
        products=True,
    )
    return gradient.result().astype(dout.dtype, copy=False)


class FilterGradient:
    """The gradient of a filter [*window, c, m], made of shares that may be added side by side, each once."""

    def __init__(
        self, where: Geometry, channels: int, made: int, count: int, dtype: np.dtype[Any]
    ) -> None:
        """count: images."""
        self._where = where
        self._how = layout(where, channels, made, count, dtype, gradient=True)
        self.parts = _parts(count, self._how.elements * dtype.itemsize, where)
        self.shares = [self.parts[first::_SUMS] for first in range(min(_SUMS, len(self.parts)))]
        room = np.empty if self.shares else np.zeros
        self._sums = room((max(len(self.shares), 1), *self._how.shape), dtype)

    def add(
        self, number: int, x: Array, dy: Callable[[slice], Array], multiply: Multiply | None = None
    ) -> None:
        """Add a share of what x [n, *size, c] and the gradient of the output give.

        dy: asked for [images, *out, m], each part of the images once.  multiply: see `with_input`.
        """
        total = self._sums[number]
        for place, images in enumerate(self.shares[number]):
            gradient = dy(images)
            product = total
            if place:
                product = scratch(_PRODUCT, self._how.shape, total.dtype)
            if multiply is None:
                self._how.multiply(x[images], gradient, product)
            else:
                multiply(images, gradient, product)
            if place:
                total += product

    def with_input(
        self, x: Array, filters: Array, dx: Array, then: Callable[[slice], object] | None
    ) -> Multiply | None:
        """What `add` may multiply with, so that it makes of each part of the images dx, too, the input's gradient.

        To the bit what `input_gradient` makes.  then: called with images whose dx is there.  None where it depends on
        which images are made together.
        """
        back = self._where.reversed()
        if back is None:
            return None
        channels, made = filters.shape[-2:]
        how = layout(back, made, channels, len(x), x.dtype)
        if not isinstance(how, Flat) or not how.alone:
            return None
        hold_blas()
        matrix = how.matrix(_flipped(filters))
        after = then or (lambda _: None)
        own = self._how
        if (
            isinstance(own, LineTiles)
            and isinstance(how, LineTiles)
            and BothGradients.fit(own, how, x.dtype)
        ):
            both = BothGradients(own, how)
            return lambda images, dy, out: both.gradients(
                x[images], dy, matrix, dx[images], partial(after, images), out
            )

        def one_by_one(images: slice, dy: Array, out: Array) -> None:
            how.convolve(dy, matrix, dx[images])
            after(images)
            own.multiply(x[images], dy, out)

        return one_by_one

    def result(self) -> Array:
        """All shares together."""
        hold_blas()
        total: Array = self._sums[0] if len(self._sums) == 1 else self._sums.sum(axis=0)
        return np.ascontiguousarray(self._how.filters(total))
