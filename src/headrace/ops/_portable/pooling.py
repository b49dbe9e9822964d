"""Array kernels of pooling, and of its gradients.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.ops._kernels.windows import Geometry
from headrace.ops._portable.table import arrays, check, device_of
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


@arrays("AvgPoolGrad", "AvgPool3DGrad", host=(0,), attrs=_ATTRS)
def _avg_pool_grad(xp: Any, sizes: Any, dy: Any, **attrs: Any) -> Any:
    slope = to_last(xp, dy, attrs["data_format"])
    batch, *size, channels = sizes_last(sizes, attrs["data_format"])
    where = _where(size, attrs)
    check_out(slope, where, batch, channels)
    share = slope / _counts(xp, slope, where)
    shares = zip(itertools.product(*map(range, where.window)), itertools.repeat(share))
    return from_last(xp, spread(xp, shares, where), attrs["data_format"])
