"""Array kernels of pooling, and of its gradients.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from headrace.ops._kernels.windows import Geometry, geometry
from headrace.ops._portable.scattering import sum_of_lines
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops._portable.windows import (
    check_out,
    from_last,
    padded,
    sizes_last,
    spread,
    to_last,
)
from headrace.ops.nn.pooling import pool_windows

_ATTRS = ("ksize", "strides", "padding", "data_format", "explicit_paddings")


def _where(size: Sequence[int], attrs: dict[str, Any]) -> Geometry:
    where = pool_windows(
        size,
        attrs["ksize"],
        attrs["strides"],
        attrs["padding"],
        attrs["data_format"],
        attrs.get("explicit_paddings", ()),
    )
    check(min(where.out) > 0)
    return where


# -- the largest ------------------------------------------------------------------------------------------------------


def _around(xp: Any, x: Any, where: Geometry) -> Any:
    return padded(xp, x, where.pads, -xp.inf)


@arrays("MaxPool", "MaxPool3D", reals=True, attrs=_ATTRS)
def _max_pool(xp: Any, x: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    where = _where(given.shape[1:-1], attrs)
    around, found = _around(xp, given, where), None
    for _, view in where.positions():
        found = around[view] if found is None else xp.maximum(found, around[view])
    return from_last(xp, found, attrs["data_format"])


Place = tuple[tuple[int, ...], tuple[slice, ...], Any]


def _first_places(xp: Any, x: Any, y: Any, where: Geometry) -> Iterator[Place]:
    """(place in the window, view, where it is the first that has the largest value) for each place."""
    around, left = _around(xp, x, where), None
    for at, view in where.positions():
        here = around[view] == y
        if left is not None:
            here = xp.logical_and(here, left)
        others = xp.logical_not(here)
        left = others if left is None else xp.logical_and(left, others)
        yield at, view, here


@arrays("MaxPoolGrad", "MaxPool3DGrad", reals=True, attrs=_ATTRS)
def _max_pool_grad(xp: Any, x: Any, y: Any, dy: Any, **attrs: Any) -> Any:
    given, out, slope = (to_last(xp, each, attrs["data_format"]) for each in (x, y, dy))
    where = _where(given.shape[1:-1], attrs)
    for each in (out, slope):
        check_out(each, where, given.shape[0], given.shape[-1])
    nothing = xp.zeros_like(slope)
    shares = (
        (at, xp.where(here, slope, nothing)) for at, _, here in _first_places(xp, given, out, where)
    )
    return from_last(xp, spread(xp, shares, where), attrs["data_format"])


@arrays("MaxPoolGradGrad", "MaxPool3DGradGrad", reals=True, attrs=_ATTRS)
def _max_pool_grad_grad(xp: Any, x: Any, y: Any, slope: Any, **attrs: Any) -> Any:
    given, out, ddx = (to_last(xp, each, attrs["data_format"]) for each in (x, y, slope))
    where = _where(given.shape[1:-1], attrs)
    check_out(out, where, given.shape[0], given.shape[-1])
    check(ddx.shape == given.shape)
    around, found = padded(xp, ddx, where.pads), xp.zeros_like(out)
    for _, view, here in _first_places(xp, given, out, where):
        found = xp.where(here, around[view], found)
    return from_last(xp, found, attrs["data_format"])


def _by_inputs(kernel: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A kernel of so many arrays, then the window's size and steps."""

    def run(xp: Any, *inputs: Any, **attrs: Any) -> Any:
        *given, ksize, strides = inputs
        check(ksize.shape == strides.shape == (4,) and min(*ksize, *strides) > 0)
        check(len(given) == count)
        return kernel(xp, *given, ksize=ksize.tolist(), strides=strides.tolist(), **attrs)

    return run


for _name, _kernel, _count in (
    ("MaxPoolV2", _max_pool, 1),
    ("MaxPoolGradV2", _max_pool_grad, 3),
    ("MaxPoolGradGradV2", _max_pool_grad_grad, 3),
):
    arrays(_name, host=(-1, -2), reals=True, attrs=("padding", "data_format"))(
        _by_inputs(_kernel, _count)
    )


# -- where the largest is ---------------------------------------------------------------------------------------------


def _batches(xp: Any, x: Any) -> Any:
    """[n, 1, 1, 1]: the number of the first element of each image."""
    first = np.arange(x.shape[0]) * math.prod(x.shape[1:])
    return xp.asarray(first.reshape(-1, 1, 1, 1), device=device_of(x))


@arrays("MaxPoolWithArgmax", reals=True)
def _max_pool_places(
    xp: Any,
    x: Any,
    *,
    ksize: Any,
    strides: Any,
    padding: bytes,
    include_batch_in_index: bool,
    Targmax: Any,
) -> tuple[Any, Any]:
    check(x.ndim == 4 and math.prod(x.shape) > 0)
    where = pool_windows(x.shape[1:3], ksize, strides, padding, b"NHWC")
    check(min(where.out) > 0)
    every = np.arange(math.prod(x.shape[1:])).reshape(1, *x.shape[1:])
    places = where.padded(every, 0)
    around, largest, found = _around(xp, x, where), None, None
    for _, view in where.positions():
        here = around[view]
        at = xp.asarray(np.ascontiguousarray(places[view]), device=device_of(x))
        at = xp.broadcast_to(at, here.shape)
        if largest is None:
            largest, found = here, at
        else:
            better = here > largest
            largest, found = xp.where(better, here, largest), xp.where(better, at, found)
    if include_batch_in_index:
        found = found + _batches(xp, x)
    return xp.asarray(largest, copy=True), xp.astype(found, getattr(xp, Targmax.name))


@arrays("MaxPoolGradWithArgmax", reals=True)
def _max_pool_places_grad(
    xp: Any,
    x: Any,
    dy: Any,
    argmax: Any,
    *,
    ksize: Any,
    strides: Any,
    padding: bytes,
    include_batch_in_index: bool,
) -> Any:
    check(x.ndim == 4 and math.prod(x.shape) > 0)
    where = pool_windows(x.shape[1:3], ksize, strides, padding, b"NHWC")
    for each in (dy, argmax):
        check_out(each, where, x.shape[0], x.shape[3])
    places = xp.astype(argmax, xp.int64)
    if not include_batch_in_index:
        places = places + _batches(xp, x)
    count = math.prod(x.shape)
    require(xp, xp.logical_and(places >= 0, places < count), f"not all in [0, {count})")
    lines, values = xp.reshape(places, (-1,)), xp.reshape(dy, (-1, 1))
    return xp.reshape(sum_of_lines(xp, values, lines, count), x.shape)


# -- dilation ---------------------------------------------------------------------------------------------------------


def _dilated(xp: Any, x: Any, window: Any, strides: Any, rates: Any, padding: bytes) -> Any:
    """(where windows lie, the largest sums, at which place of the window each is, -1: nowhere)."""
    check(x.ndim == 4 and window.ndim == 3 and window.shape[2] == x.shape[3])
    check(math.prod(x.shape) > 0 and math.prod(window.shape) > 0)
    check(len(strides) == len(rates) == 4 and min(*strides, *rates) > 0)
    check(strides[0] == strides[3] == rates[0] == rates[3] == 1)
    where = geometry(x.shape[1:3], window.shape[:2], strides, padding, b"NHWC", rates)
    check(min(where.out) > 0)
    around = padded(xp, x, where.pads, float(xp.finfo(x.dtype).min))
    inside = where.padded(np.ones((1, *x.shape[1:3], 1), bool), False)
    best = xp.full(
        (x.shape[0], *where.out, x.shape[3]),
        float(xp.finfo(x.dtype).min),
        dtype=x.dtype,
        device=device_of(x),
    )
    at = xp.full(best.shape, -1, dtype=xp.int64, device=device_of(x))
    for number, (place, view) in enumerate(where.positions()):
        sums = around[view] + window[(*place, slice(None))]
        there = xp.asarray(np.ascontiguousarray(inside[view]), device=device_of(x))
        better = xp.logical_and(sums > best, there)
        best = xp.where(better, sums, best)
        at = xp.where(better, xp.full_like(at, number), at)
    return where, best, at


_DILATED = ("strides", "rates", "padding")


@arrays("Dilation2D", reals=True, attrs=_DILATED)
def _dilation(xp: Any, x: Any, window: Any, **attrs: Any) -> Any:
    return _dilated(xp, x, window, **attrs)[1]


@arrays("Dilation2DBackpropInput", reals=True, attrs=_DILATED)
def _dilation_to_input(xp: Any, x: Any, window: Any, dy: Any, **attrs: Any) -> Any:
    where, _, at = _dilated(xp, x, window, **attrs)
    check_out(dy, where, x.shape[0], x.shape[3])
    nothing = xp.zeros_like(dy)
    shares = (
        (place, xp.where(at == number, dy, nothing))
        for number, (place, _) in enumerate(where.positions())
    )
    return spread(xp, shares, where)


@arrays("Dilation2DBackpropFilter", reals=True, attrs=_DILATED)
def _dilation_to_filter(xp: Any, x: Any, window: Any, dy: Any, **attrs: Any) -> Any:
    where, _, at = _dilated(xp, x, window, **attrs)
    check_out(dy, where, x.shape[0], x.shape[3])
    nothing = xp.zeros_like(dy)
    sums = [
        xp.sum(xp.where(at == number, dy, nothing), axis=(0, 1, 2))
        for number, _ in enumerate(where.positions())
    ]
    return xp.reshape(xp.stack(sums), window.shape)


# -- the mean ---------------------------------------------------------------------------------------------------------


def _counts(xp: Any, like: Any, where: Geometry) -> Any:
    """How many places of each window are not padding, [1, *out, 1]."""
    total = xp.ones((1,) * like.ndim, dtype=like.dtype, device=device_of(like))
    each = zip(where.out, where.strides, where.window, where.pads, where.size, strict=True)
    for axis, (out, step, places, (before, _), size) in enumerate(each, 1):
        counts = [
            float(sum(0 <= at * step - before + place < size for place in range(places)))
            for at in range(out)
        ]
        along = xp.asarray(counts, dtype=like.dtype, device=device_of(like))
        total = total * xp.reshape(along, (*(1,) * axis, out, *(1,) * (like.ndim - axis - 1)))
    return total


@arrays("AvgPool", "AvgPool3D", reals=True, attrs=_ATTRS)
def _avg_pool(xp: Any, x: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    where = _where(given.shape[1:-1], attrs)
    around, total = padded(xp, given, where.pads), None
    for _, view in where.positions():
        total = around[view] if total is None else total + around[view]
    return from_last(xp, total / _counts(xp, given, where), attrs["data_format"])


@arrays("AvgPoolGrad", "AvgPool3DGrad", host=(0,), reals=True, attrs=_ATTRS)
def _avg_pool_grad(xp: Any, sizes: Any, dy: Any, **attrs: Any) -> Any:
    slope = to_last(xp, dy, attrs["data_format"])
    batch, *size, channels = sizes_last(sizes, attrs["data_format"])
    where = _where(size, attrs)
    check_out(slope, where, batch, channels)
    share = slope / _counts(xp, slope, where)
    shares = zip(itertools.product(*map(range, where.window)), itertools.repeat(share))
    return from_last(xp, spread(xp, shares, where), attrs["data_format"])
