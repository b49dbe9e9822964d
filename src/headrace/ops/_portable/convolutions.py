"""Array kernels of convolutions and their gradients: a product of matrices for each place of the window.

XLA has convolutions of its own, which stand beside them.
Called by: ops._portable.table.  Threads: any.
Source: https://docs.jax.dev/en/latest/_autosummary/jax.lax.conv_general_dilated.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headrace.ops._kernels.windows import Geometry, geometry
from headrace.ops._portable.table import arrays, check, with_jax
from headrace.ops._portable.windows import (
    apart,
    check_out,
    from_last,
    padded,
    sizes_last,
    spread,
    to_last,
)

_ATTRS = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


def _where(size: Sequence[int], window: Sequence[int], attrs: dict[str, Any]) -> Geometry:
    """As `geometry`, of a node's attrs.  Raises ValueError where nothing comes out."""
    where = geometry(
        size,
        window,
        attrs["strides"],
        attrs["padding"],
        attrs["data_format"],
        attrs["dilations"],
        attrs.get("explicit_paddings", ()),
    )
    check(min(where.out) > 0)
    return where


def _groups(channels: int, filters: Sequence[int]) -> int:
    """How many groups of channels have filters of their own.  Raises ValueError where they do not fit."""
    taken, made = filters[-2:]
    check(math.prod(filters) > 0 and channels > 0 and channels % taken == 0)
    groups = channels // taken
    check(made % groups == 0)
    return groups


def _product(xp: Any, a: Any, b: Any) -> Any:
    """[..., c] by [c, m]."""
    rows = xp.reshape(a, (-1, a.shape[-1]))
    return xp.reshape(xp.matmul(rows, b), (*a.shape[:-1], b.shape[-1]))


def _filter_at(filters: Any, at: tuple[int, ...]) -> Any:
    return filters[(*at, slice(None), slice(None))]


def _of_channels(x: Any, number: int, size: int) -> Any:
    """Those of one group, of `size` each."""
    lines = slice(number * size, (number + 1) * size)
    return x[(*(slice(None),) * (x.ndim - 1), lines)]


def _convolved(xp: Any, x: Any, filters: Any, where: Geometry) -> Any:
    around, total = padded(xp, x, where.pads), None
    for at, view in where.positions():
        share = _product(xp, around[view], _filter_at(filters, at))
        total = share if total is None else total + share
    return total


@arrays("Conv2D", "Conv3D", reals=True, alone=True, attrs=_ATTRS)
def _forward(xp: Any, x: Any, filters: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    check(filters.ndim == x.ndim)
    where = _where(given.shape[1:-1], filters.shape[:-2], attrs)
    groups, taken = _groups(given.shape[-1], filters.shape), filters.shape[-2]
    share = filters.shape[-1] // groups
    made = [
        _convolved(
            xp, _of_channels(given, number, taken), _of_channels(filters, number, share), where
        )
        for number in range(groups)
    ]
    out = made[0] if groups == 1 else xp.concat(made, axis=-1)
    return from_last(xp, out, attrs["data_format"])


@arrays(
    "Conv2DBackpropInput",
    "Conv3DBackpropInputV2",
    host=(0,),
    reals=True,
    alone=True,
    attrs=_ATTRS,
)
def _to_input(xp: Any, sizes: Any, filters: Any, dout: Any, **attrs: Any) -> Any:
    batch, *size, channels = sizes_last(sizes, attrs["data_format"])
    dy = to_last(xp, dout, attrs["data_format"])
    check(filters.ndim == dout.ndim and channels == filters.shape[-2])
    where = _where(size, filters.shape[:-2], attrs)
    check_out(dy, where, batch, filters.shape[-1])
    # What every place gets is a convolution of dy, spread as the windows are, with the filter turned round.
    spans = [(w - 1) * d for w, d in zip(where.window, where.dilations, strict=True)]
    wide = apart(xp, dy, where.strides)
    pads = [
        (span - before, length + before - used)
        for span, (before, _), length, used in zip(
            spans, where.pads, where.size, wide.shape[1:-1], strict=True
        )
    ]
    around = padded(xp, wide, pads)
    ones = [1] * len(size)
    turned = Geometry(around.shape[1:-1], where.window, ones, where.dilations, [(0, 0)] * len(size))
    total = None
    for at, view in turned.positions():
        place = tuple([w - 1 - a for w, a in zip(where.window, at, strict=True)])
        share = _product(xp, around[view], xp.matrix_transpose(_filter_at(filters, place)))
        total = share if total is None else total + share
    return from_last(xp, total, attrs["data_format"])


@arrays(
    "Conv2DBackpropFilter",
    "Conv3DBackpropFilterV2",
    host=(1,),
    reals=True,
    alone=True,
    attrs=_ATTRS,
)
def _to_filter(xp: Any, x: Any, sizes: Any, dout: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    dy = to_last(xp, dout, attrs["data_format"])
    filters = sizes_last(sizes, b"C" * x.ndim)
    check(given.shape[-1] == filters[-2])
    where = _where(given.shape[1:-1], filters[:-2], attrs)
    check_out(dy, where, given.shape[0], filters[-1])
    around = padded(xp, given, where.pads)
    rows = xp.reshape(dy, (-1, filters[-1]))
    found = [
        xp.matmul(xp.matrix_transpose(xp.reshape(around[view], (-1, filters[-2]))), rows)
        for _, view in where.positions()
    ]
    return xp.reshape(xp.stack(found), filters)


# -- each channel by itself -------------------------------------------------------------------------------------------


def _where_apart(size: Sequence[int], filters: Sequence[int], attrs: dict[str, Any]) -> Geometry:
    check(len(filters) == 4 and math.prod(filters) > 0)
    return _where(size, filters[:-2], attrs)


@arrays("DepthwiseConv2dNative", reals=True, alone=True, attrs=_ATTRS)
def _apart_forward(xp: Any, x: Any, filters: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    where = _where_apart(given.shape[1:-1], filters.shape, attrs)
    check(given.shape[-1] == filters.shape[-2])
    around, total = padded(xp, given, where.pads), None
    for at, view in where.positions():
        share = xp.expand_dims(around[view], axis=-1) * _filter_at(filters, at)
        total = share if total is None else total + share
    return from_last(xp, _joined(xp, total), attrs["data_format"])


def _joined(xp: Any, x: Any) -> Any:
    """[..., c, m] as [..., c * m]."""
    return xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))


@arrays("DepthwiseConv2dNativeBackpropInput", host=(0,), reals=True, alone=True, attrs=_ATTRS)
def _apart_to_input(xp: Any, sizes: Any, filters: Any, dout: Any, **attrs: Any) -> Any:
    batch, *size, channels = sizes_last(sizes, attrs["data_format"])
    dy = to_last(xp, dout, attrs["data_format"])
    where = _where_apart(size, filters.shape, attrs)
    check(channels == filters.shape[-2])
    check_out(dy, where, batch, channels * filters.shape[-1])
    each = xp.reshape(dy, (*dy.shape[:-1], *filters.shape[-2:]))
    shares = ((at, xp.sum(each * _filter_at(filters, at), axis=-1)) for at, _ in where.positions())
    return from_last(xp, spread(xp, shares, where), attrs["data_format"])


@arrays("DepthwiseConv2dNativeBackpropFilter", host=(1,), reals=True, alone=True, attrs=_ATTRS)
def _apart_to_filter(xp: Any, x: Any, sizes: Any, dout: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    dy = to_last(xp, dout, attrs["data_format"])
    filters = sizes_last(sizes, b"C" * x.ndim)
    where = _where_apart(given.shape[1:-1], filters, attrs)
    check(given.shape[-1] == filters[-2])
    check_out(dy, where, given.shape[0], filters[-2] * filters[-1])
    each = xp.reshape(dy, (*dy.shape[:-1], *filters[-2:]))
    around = padded(xp, given, where.pads)
    found = [
        xp.sum(xp.expand_dims(around[view], axis=-1) * each, axis=(0, 1, 2))
        for _, view in where.positions()
    ]
    return xp.reshape(xp.stack(found), filters)


# -- XLA's own --------------------------------------------------------------------------------------------------------


def _by_xla(x: Any, filters: Any, where: Geometry, groups: int) -> Any:
    from jax import lax

    letters = "DHW"[3 - len(where.size) :]
    return lax.conv_general_dilated(
        x,
        filters,
        where.strides,
        where.pads,
        rhs_dilation=where.dilations,
        feature_group_count=groups,
        dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
    )


def _turned(filters: Any, groups: int) -> Any:
    """The filters of a depthwise convolution as those of so many groups."""
    return filters.reshape(*filters.shape[:-2], 1, groups * filters.shape[-1])


@with_jax("Conv2D", "Conv3D")
def _xla_forward(xp: Any, x: Any, filters: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    check(filters.ndim == x.ndim)
    where = _where(given.shape[1:-1], filters.shape[:-2], attrs)
    made = _by_xla(given, filters, where, _groups(given.shape[-1], filters.shape))
    return from_last(xp, made, attrs["data_format"])


@with_jax("DepthwiseConv2dNative")
def _xla_apart(xp: Any, x: Any, filters: Any, **attrs: Any) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    where = _where_apart(given.shape[1:-1], filters.shape, attrs)
    check(given.shape[-1] == filters.shape[-2])
    groups = given.shape[-1]
    made = _by_xla(given, _turned(filters, groups), where, groups)
    return from_last(xp, made, attrs["data_format"])


def _transposed(function: Any, like: tuple[int, ...], dy: Any) -> Any:
    """The gradient, of that shape, of what a linear function of it gives."""
    import jax

    (found,) = jax.linear_transpose(function, jax.ShapeDtypeStruct(like, dy.dtype))(dy)
    return found


def _xla_to_input(
    xp: Any, sizes: Any, filters: Any, dout: Any, groups: int, attrs: dict[str, Any]
) -> Any:
    like = sizes_last(sizes, attrs["data_format"])
    dy = to_last(xp, dout, attrs["data_format"])
    check(filters.ndim == dout.ndim and like[-1] == groups * filters.shape[-2])
    where = _where(like[1:-1], filters.shape[:-2], attrs)
    check_out(dy, where, like[0], filters.shape[-1])
    found = _transposed(lambda x: _by_xla(x, filters, where, groups), like, dy)
    return from_last(xp, found, attrs["data_format"])


def _xla_to_filter(
    xp: Any, x: Any, like: tuple[int, ...], dout: Any, groups: int, attrs: dict[str, Any]
) -> Any:
    given = to_last(xp, x, attrs["data_format"])
    dy = to_last(xp, dout, attrs["data_format"])
    check(given.shape[-1] == groups * like[-2])
    where = _where(given.shape[1:-1], like[:-2], attrs)
    check_out(dy, where, given.shape[0], like[-1])
    return _transposed(lambda filters: _by_xla(given, filters, where, groups), like, dy)


@with_jax("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _xla_conv_to_input(xp: Any, sizes: Any, filters: Any, dout: Any, **attrs: Any) -> Any:
    return _xla_to_input(xp, sizes, filters, dout, 1, attrs)


@with_jax("Conv2DBackpropFilter", "Conv3DBackpropFilterV2")
def _xla_conv_to_filter(xp: Any, x: Any, sizes: Any, dout: Any, **attrs: Any) -> Any:
    return _xla_to_filter(xp, x, sizes_last(sizes, b"C" * x.ndim), dout, 1, attrs)


@with_jax("DepthwiseConv2dNativeBackpropInput")
def _xla_apart_to_input(xp: Any, sizes: Any, filters: Any, dout: Any, **attrs: Any) -> Any:
    check(filters.ndim == 4)
    channels = filters.shape[-2]
    return _xla_to_input(xp, sizes, _turned(filters, channels), dout, channels, attrs)


@with_jax("DepthwiseConv2dNativeBackpropFilter")
def _xla_apart_to_filter(xp: Any, x: Any, sizes: Any, dout: Any, **attrs: Any) -> Any:
    filters = sizes_last(sizes, b"C" * x.ndim)
    check(len(filters) == 4)
    *window, channels, times = filters
    like = (*window, 1, channels * times)
    return _xla_to_filter(xp, x, like, dout, channels, attrs).reshape(filters)
