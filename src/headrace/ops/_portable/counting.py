"""Array kernels that count, search and sort: histograms, bounds, permutations, what is true or distinct.

How much some of them give depends on values: those are computed one by one, never as part of a program of XLA's.
Called by: ops._portable.table.  Threads: any.
Source: as ops.array.searching, ops.array.unique and ops.math.order_statistics
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.ops._portable.scattering import sum_of_lines
from headrace.ops._portable.table import arrays, check, device_of, require, with_jax

# -- counts -----------------------------------------------------------------------------------------------------------


_LARGEST = 1 << 31


def _number(value: Any) -> int:
    """Of a scalar of the host's."""
    check(np.ndim(value) == 0)
    return int(value)


def _counted(xp: Any, lines: Any, weights: Any, count: int) -> Any:
    """[count]: sums of weights [n] by lines [n], of which those that are too large count nowhere."""
    kept = xp.where(lines < count, lines, xp.full_like(lines, -1))
    return xp.reshape(sum_of_lines(xp, xp.expand_dims(weights, axis=1), kept, count), (count,))


def _weights(xp: Any, arr: Any, weights: Any) -> Any:
    """[n] for the numbers: ones, where there are none."""
    if math.prod(weights.shape):
        check(math.prod(weights.shape) == math.prod(arr.shape))
        return xp.reshape(weights, (-1,))
    return xp.ones((math.prod(arr.shape),), dtype=weights.dtype, device=device_of(weights))


@arrays("Bincount", host=(1,))
def _bincount(xp: Any, arr: Any, size: Any, weights: Any) -> Any:
    count = _number(size)
    check(count > 0 and math.prod(arr.shape) > 0)
    require(xp, arr >= 0, "not all positive")
    return _counted(xp, xp.reshape(arr, (-1,)), _weights(xp, arr, weights), count)


@arrays("DenseBincount", host=(1,))
def _dense_bincount(xp: Any, input: Any, size: Any, weights: Any, *, binary_output: bool) -> Any:
    count = _number(size)
    check(input.ndim <= 2 and count > 0 and math.prod(input.shape) > 0)
    check(weights.shape == input.shape or not math.prod(weights.shape))
    require(xp, input >= 0, "not all positive")
    rows = input.shape[0] if input.ndim == 2 else 1
    check(rows * count < _LARGEST)
    first = xp.arange(rows, dtype=input.dtype, device=device_of(input))
    per_row = xp.reshape(input, (rows, -1))
    beyond = xp.full_like(per_row, rows * count)
    places = xp.where(per_row < count, per_row + xp.expand_dims(first, axis=1) * count, beyond)
    if binary_output:
        ones = xp.ones((math.prod(input.shape),), dtype=xp.float32, device=device_of(weights))
        found = _counted(xp, xp.reshape(places, (-1,)), ones, rows * count)
        found = xp.astype(found > 0, weights.dtype)
    else:
        each = _weights(xp, input, weights)
        found = _counted(xp, xp.reshape(places, (-1,)), each, rows * count)
    return xp.reshape(found, (rows, count) if input.ndim == 2 else (count,))


@arrays("HistogramFixedWidth", host=(2,))
def _histogram(xp: Any, values: Any, value_range: Any, nbins: Any, *, dtype: Any) -> Any:
    count = _number(nbins)
    check(value_range.shape == (2,) and count > 0 and math.prod(values.shape) > 0)
    low, high = value_range[0], value_range[1]
    require(xp, low < high, "no range")
    step = (xp.astype(high, xp.float64) - xp.astype(low, xp.float64)) / count
    above = xp.astype(xp.maximum(xp.reshape(values, (-1,)), low) - low, xp.float64) / step
    require(xp, xp.logical_not(xp.any(xp.isnan(above))), "not a number")
    place = xp.astype(xp.minimum(above, xp.full_like(above, count - 1)), xp.int64)
    ones = xp.ones(place.shape, dtype=getattr(xp, dtype.name), device=device_of(values))
    return _counted(xp, place, ones, count)


# -- bounds -----------------------------------------------------------------------------------------------------------


def _is_nan(xp: Any, x: Any) -> Any:
    return x != x


@arrays("Bucketize")
def _buckets(xp: Any, input: Any, *, boundaries: Sequence[float]) -> Any:
    limits = np.array(boundaries, np.float32)
    check(bool((limits[1:] >= limits[:-1]).all()))
    is_real = xp.isdtype(input.dtype, "real floating")
    given = input if is_real else xp.astype(input, xp.float32)
    if not len(limits):
        return xp.zeros(input.shape, dtype=xp.int32, device=device_of(input))
    sorted_ = xp.asarray(limits, dtype=given.dtype, device=device_of(input))
    places = xp.searchsorted(sorted_, xp.reshape(given, (-1,)), side="right")
    found = xp.astype(xp.reshape(places, input.shape), xp.int32)
    return xp.where(_is_nan(xp, given), xp.full_like(found, len(limits)), found)


def _bound(side: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def fit(xp: Any, rows: Any, values: Any) -> None:
        check(rows.ndim == values.ndim == 2 and rows.shape[0] == values.shape[0] > 0)
        check(xp.isdtype(values.dtype, ("real floating", "integral")))

    def kernel(xp: Any, sorted_inputs: Any, values: Any, *, out_type: Any) -> Any:
        fit(xp, sorted_inputs, values)
        found = [
            xp.searchsorted(sorted_inputs[at, ...], values[at, ...], side=side)
            for at in range(values.shape[0])
        ]
        return xp.astype(xp.stack(found), getattr(xp, out_type.name))

    def of_jax(xp: Any, sorted_inputs: Any, values: Any, *, out_type: Any) -> Any:
        import jax

        fit(xp, sorted_inputs, values)
        found = jax.vmap(partial(xp.searchsorted, side=side))(sorted_inputs, values)
        return xp.astype(found, getattr(xp, out_type.name))

    return kernel, of_jax


for _name, _side in {"LowerBound": "left", "UpperBound": "right"}.items():
    _kernel, _of_jax = _bound(_side)
    arrays(_name)(_kernel)
    with_jax(_name)(_of_jax)


@arrays("NthElement", host=(1,))
def _nth(xp: Any, input: Any, n: Any, *, reverse: bool) -> Any:
    place = _number(n)
    check(input.ndim > 0 and 0 <= place < input.shape[-1])
    check(xp.isdtype(input.dtype, ("real floating", "integral")))
    ordered = xp.sort(input, axis=-1)
    return ordered[..., input.shape[-1] - 1 - place if reverse else place]


# -- places -----------------------------------------------------------------------------------------------------------


@arrays("InvertPermutation")
def _inverse(xp: Any, x: Any) -> Any:
    check(x.ndim == 1 and x.shape[0] > 0)
    every = xp.arange(x.shape[0], dtype=x.dtype, device=device_of(x))
    require(xp, xp.sort(x) == every, "no permutation")
    return xp.astype(xp.argsort(x), x.dtype)


@arrays("UnravelIndex", host=(1,))
def _coordinates(xp: Any, indices: Any, dims: Any) -> Any:
    sizes = [int(size) for size in np.ravel(dims)]
    check(indices.ndim <= 1 and np.ndim(dims) == 1 and min(sizes, default=0) > 0)
    total = math.prod(sizes)
    check(total <= np.iinfo(dims.dtype).max and math.prod(indices.shape) > 0)
    require(xp, xp.logical_and(indices >= 0, indices < total), f"not all in [0, {total})")
    found, stride = [], total
    for size in sizes:
        stride //= size
        found.append(
            xp.remainder(
                xp.floor_divide(indices, _like(xp, indices, stride)), _like(xp, indices, size)
            )
        )
    return xp.stack(found)


def _like(xp: Any, like: Any, value: int) -> Any:
    return xp.full_like(like, value)


@arrays("LinSpace", host=(2,))
def _line(xp: Any, start: Any, stop: Any, num: Any) -> Any:
    count = _number(num)
    check(start.ndim == stop.ndim == 0 < count)
    first, last = xp.astype(start, xp.float64), xp.astype(stop, xp.float64)
    if count == 1:
        return xp.reshape(start, (1,))
    places = xp.arange(count - 1, dtype=xp.float64, device=device_of(start))
    inner = places * ((last - first) / (count - 1)) + first
    return xp.astype(xp.concat([inner, xp.reshape(last, (1,))]), start.dtype)


# -- as many as there are ---------------------------------------------------------------------------------------------


@arrays("Where", alone=True)
def _where(xp: Any, input: Any) -> Any:
    check(input.ndim > 0)
    found = xp.nonzero(input)
    return xp.astype(xp.stack(found, axis=1), xp.int64)


@arrays("DynamicPartition", host=(1,))
def _partitions(xp: Any, data: Any, partitions: Any, *, num_partitions: int) -> list[Any]:
    """The host has the partitions, which say how many rows there are of each; rows stay where they are."""
    check(data.shape[: np.ndim(partitions)] == np.shape(partitions))
    which = np.ravel(partitions)
    check(bool(((which >= 0) & (which < num_partitions)).all()))
    rows = xp.reshape(data, (len(which), *data.shape[np.ndim(partitions) :]))
    found = []
    for number in range(num_partitions):
        places = np.flatnonzero(which == number)
        at = xp.asarray(places, device=device_of(data))
        found.append(xp.take(rows, at, axis=0) if len(places) else rows[:0, ...])
    return found


def _distinct(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """The distinct numbers of x [n] in the order in which they occur, which each is, and how often they occur."""
    check(x.ndim == 1 and x.shape[0] > 0)
    require(xp, xp.logical_not(_is_nan(xp, x)), "not all numbers")
    values, first, which, counts = xp.unique_all(x)
    order = xp.argsort(first)
    which = xp.take(xp.argsort(order), xp.reshape(which, (-1,)))
    return xp.take(values, order), which, xp.take(counts, order)


@arrays("Unique", alone=True)
def _unique(xp: Any, x: Any, *, out_idx: Any) -> tuple[Any, ...]:
    y, which, _ = _distinct(xp, x)
    return y, xp.astype(which, getattr(xp, out_idx.name))


@arrays("UniqueWithCounts", alone=True)
def _unique_with_counts(xp: Any, x: Any, *, out_idx: Any) -> tuple[Any, ...]:
    y, which, counts = _distinct(xp, x)
    kind = getattr(xp, out_idx.name)
    return y, xp.astype(which, kind), xp.astype(counts, kind)
