"""Array kernels of diagonals: elements by a map of places that the host makes.

Called by: ops._portable.table.  Threads: any.
Source: as ops.linalg.diagonals and bands
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.ops._portable.table import arrays, check, device_of
from headrace.ops.linalg.diagonals import Band, band_of, limits_of, sizes_of

_FIRST_ALIGN = b"LEFT_LEFT"


def _at(xp: Any, x: Any, places: Any) -> Any:
    """x [..., n] at places [...], numbers of the last dimension."""
    flat = xp.asarray(np.ascontiguousarray(places.reshape(-1)), device=device_of(x))
    return xp.reshape(xp.take(x, flat, axis=-1), (*x.shape[:-1], *places.shape))


def _with_filler(xp: Any, x: Any, filler: Any) -> Any:
    """x [..., n] with one more element."""
    if filler is None:
        more = xp.zeros((*x.shape[:-1], 1), dtype=x.dtype, device=device_of(x))
    else:
        check(filler.ndim == 0)
        more = xp.broadcast_to(filler, (*x.shape[:-1], 1))
    return xp.concat([x, more], axis=-1)


def _flat(xp: Any, x: Any, dims: int) -> Any:
    """The last dimensions as one."""
    return xp.reshape(x, (*x.shape[: x.ndim - dims], math.prod(x.shape[x.ndim - dims :])))


def _part(xp: Any, input: Any, k: Any, filler: Any, align: bytes) -> Any:
    check(math.prod(input.shape) > 0)
    band = band_of(input.shape, k)
    places = np.full((band.high - band.low + 1, band.longest), band.rows * band.cols)
    m, n, i, j = band.places(align)
    places[m, n] = i * band.cols + j
    if len(places) == 1:
        (places,) = places
    return _at(xp, _with_filler(xp, _flat(xp, input, 2), filler), places)


@arrays("MatrixDiagPart")
def _main_part(xp: Any, input: Any) -> Any:
    return _part(xp, input, 0, None, _FIRST_ALIGN)


@arrays("MatrixDiagPartV2", host=(1,))
def _older_part(xp: Any, input: Any, k: Any, padding_value: Any) -> Any:
    return _part(xp, input, k, padding_value, _FIRST_ALIGN)


@arrays("MatrixDiagPartV3", host=(1,))
def _band_part(xp: Any, input: Any, k: Any, padding_value: Any, *, align: bytes) -> Any:
    return _part(xp, input, k, padding_value, align)


@arrays("MatrixDiagV3", host=(1, 2, 3))
def _matrices(
    xp: Any,
    diagonal: Any,
    k: Any,
    num_rows: Any,
    num_cols: Any,
    padding_value: Any,
    *,
    align: bytes = _FIRST_ALIGN,
) -> Any:
    low, high = limits_of(k)
    dims = 1 if low == high else 2
    check(diagonal.ndim >= dims and math.prod(diagonal.shape) > 0)
    check(dims == 1 or diagonal.shape[-2] == high - low + 1)
    check(np.ndim(num_rows) == np.ndim(num_cols) == 0)
    longest = diagonal.shape[-1]
    rows, cols = sizes_of(longest, low, high, int(num_rows), int(num_cols))
    places = np.full((rows, cols), (high - low + 1) * longest)
    m, n, i, j = Band(rows, cols, low, high).places(align)
    places[i, j] = m * longest + n
    return _at(xp, _with_filler(xp, _flat(xp, diagonal, dims), padding_value), places)


arrays("MatrixDiagV2", host=(1, 2, 3), attrs=("T",))(
    lambda xp, *inputs, **attrs: _matrices(xp, *inputs)
)


@arrays("MatrixSetDiagV3", host=(2,))
def _with_diagonals(
    xp: Any, input: Any, diagonal: Any, k: Any, *, align: bytes = _FIRST_ALIGN
) -> Any:
    check(math.prod(input.shape) > 0)
    band = band_of(input.shape, k)
    count = band.high - band.low + 1
    middle = (count,) if count > 1 else ()
    check(diagonal.shape == (*input.shape[:-2], *middle, band.longest))
    places = np.arange(band.rows * band.cols).reshape(band.rows, band.cols)
    m, n, i, j = band.places(align)
    places[i, j] = band.rows * band.cols + m * band.longest + n
    stored = _flat(xp, diagonal, 1 + len(middle))
    return _at(xp, xp.concat([_flat(xp, input, 2), stored], axis=-1), places)


arrays("MatrixSetDiagV2", host=(2,), attrs=("T",))(
    lambda xp, *inputs, **attrs: _with_diagonals(xp, *inputs)
)


@arrays("Diag")
def _diag(xp: Any, diagonal: Any) -> Any:
    count = math.prod(diagonal.shape)
    check(diagonal.ndim > 0 and count > 0)
    places = np.full((count, count), count)
    np.fill_diagonal(places, np.arange(count))
    found = _at(xp, _with_filler(xp, xp.reshape(diagonal, (-1,)), None), places)
    return xp.reshape(found, diagonal.shape * 2)


@arrays("DiagPart")
def _diag_part(xp: Any, input: Any) -> Any:
    middle = input.ndim // 2
    sizes = input.shape[:middle]
    check(input.ndim == 2 * middle and sizes == input.shape[middle:] and math.prod(sizes) > 0)
    places = np.arange(math.prod(sizes)) * (math.prod(sizes) + 1)
    return xp.reshape(_at(xp, xp.reshape(input, (-1,)), places), sizes)
