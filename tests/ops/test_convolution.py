"""Convolutions, pooling and what belongs to them: kernels against the definition written out, gradients, refusals."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.base import errors
from headrace.graph.registry import OPS
from headrace.ops._kernels import convolving, layouts, line_tiles, windows, winograd
from headrace.ops._kernels.windows import Geometry, geometry
from headrace.run.exec.worker_pool import WorkerPool
from tests.ops.places import ops_of

Array = np.ndarray[Any, Any]
FAMILIES = (
    "nn/convolution",
    "nn/depthwise",
    "nn/pooling",
    "nn/pooling_calls",
    "nn/response_norm",
    "array/space_batch",
)


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    """The kernel with defaults for the attrs that it asks for and that are not given."""
    spec = OPS[name]
    assert spec.kernel is not None
    chosen = {key: attrs.get(key, spec.attrs[key].default) for key in spec.kernel_attrs}
    with np.errstate(all="ignore"):
        return spec.kernel(np, *inputs, **chosen)


def integers(rng: np.random.Generator, *shape: int) -> Array:
    """Small whole numbers as floats: sums of their products are exact, in any order."""
    return rng.integers(-4, 5, shape).astype(np.float32)


@st.composite
def cases(draw: st.DrawFn, dilated: bool = True) -> dict[str, Any]:
    """Sizes, attrs and an output size of a window over images, and numbers to fill arrays with."""
    size = [draw(st.integers(1, 7)) for _ in range(2)]
    window = [draw(st.integers(1, 4)) for _ in range(2)]
    strides = [draw(st.integers(1, 3)) for _ in range(2)]
    dilations = [draw(st.integers(1, 2)) if dilated else 1 for _ in range(2)]
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
    padding = draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    pads = []
    for n, span, s in zip(size, spans, strides, strict=True):
        if padding == "SAME":
            total = max((-(-n // s) - 1) * s + span - n, 0)
            pads.append((total // 2, total - total // 2))
        elif padding == "EXPLICIT":
            pads.append((draw(st.integers(0, 3)), draw(st.integers(max(span - n, 0), 6))))
        else:
            pads.append((0, 0))
    size = [max(n, span) if padding == "VALID" else n for n, span in zip(size, spans, strict=True)]
    return {
        "n": draw(st.integers(0, 3)), "size": size, "window": window, "strides": strides,
        "dilations": dilations, "padding": padding, "pads": pads, "c": draw(st.integers(1, 3)),
        "m": draw(st.integers(1, 3)), "nchw": draw(st.booleans()), "seed": draw(st.integers(0, 999)),
    }  # fmt: skip


def attrs_of(case: dict[str, Any]) -> dict[str, Any]:
    """The node's attrs."""

    def whole(pair: Any, other: Any = 1) -> list[Any]:
        return [other, other, *pair] if case["nchw"] else [other, *pair, other]

    explicit = case["padding"] == "EXPLICIT"
    return {
        "strides": whole(case["strides"]), "dilations": whole(case["dilations"]),
        "padding": case["padding"].encode(), "data_format": b"NCHW" if case["nchw"] else b"NHWC",
        "explicit_paddings": list(itertools.chain(*whole(case["pads"], (0, 0)))) if explicit else [],
    }  # fmt: skip


def first(x: Array, case: dict[str, Any]) -> Array:
    """x [n, h, w, c] as the case wants it."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if case["nchw"] else x


def last(x: Array, case: dict[str, Any]) -> Array:
    return np.moveaxis(x, 1, -1) if case["nchw"] else x


def terms(case: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    """(place in the output, place in the window, place in the input) of every product of the definition."""
    found = []
    outs = [
        range((n + sum(pad) - (w - 1) * d - 1) // s + 1)
        for n, pad, w, d, s in zip(
            case["size"], case["pads"], case["window"], case["dilations"], case["strides"], strict=True
        )
    ]  # fmt: skip
    for out in itertools.product(*outs):
        for at in itertools.product(*map(range, case["window"])):
            place = [
                o * s + a * d - pad[0]
                for o, s, a, d, pad in zip(
                    out, case["strides"], at, case["dilations"], case["pads"], strict=True
                )
            ]
            if all(0 <= p < n for p, n in zip(place, case["size"], strict=True)):
                found.append((out, at, tuple(place)))
    return found


def out_size(case: dict[str, Any]) -> list[int]:
    return [
        (n + sum(pad) - (w - 1) * d - 1) // s + 1
        for n, pad, w, d, s in zip(
            case["size"], case["pads"], case["window"], case["dilations"], case["strides"], strict=True
        )
    ]  # fmt: skip


LAYOUTS: list[Any] = [layouts.Rows, layouts.Columns, layouts.Bands, layouts.Flat]


@given(cases(), st.sampled_from(LAYOUTS))
def test_a_convolution_and_its_gradients_are_the_sums_of_the_definition(
    case: dict[str, Any], kind: Any
) -> None:
    """However windows are laid out; bands and flat lines are for strides of 1."""

    def chosen(where: Geometry, channels: int, made: int, *_: Any, **__: Any) -> Any:
        fits = kind is not layouts.Bands or (where.strides[0] == 1 and 0 not in where.out)
        if kind is layouts.Flat:
            fits = kind.fit(where)
        return (kind if fits else layouts.Rows)(where, channels, made)

    rng = np.random.default_rng(case["seed"])
    n, c, m = case["n"], case["c"], case["m"]
    x, w = integers(rng, n, *case["size"], c), integers(rng, *case["window"], c, m)
    dy = integers(rng, n, *out_size(case), m)
    y, dx, dw = np.zeros_like(dy), np.zeros_like(x), np.zeros_like(w)
    for out, at, place in terms(case):
        o, p = (slice(None), *out), (slice(None), *place)
        y[o] += x[p] @ w[at]
        dx[p] += dy[o] @ w[at].T
        dw[at] += x[p].T @ dy[o]
    attrs = attrs_of(case)
    given_x, given_dy = first(x, case), first(dy, case)
    sizes = [np.array(each.shape, np.int32) for each in (given_x, w)]
    with mock.patch.object(convolving, "layout", chosen):
        found = [
            last(run("Conv2D", given_x, w, **attrs), case),
            last(run("Conv2DBackpropInput", sizes[0], w, given_dy, **attrs), case),
            run("Conv2DBackpropFilter", given_x, sizes[1], given_dy, **attrs),
        ]
    for made, wanted in zip(found, (y, dx, dw), strict=True):
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize(
    ("size", "window", "strides", "channels", "made", "count", "kind"),
    [
        ((28, 28), (5, 5), (1, 1), 1, 32, 50, layouts.LineTiles),
        ((28, 28), (3, 3), (1, 1), 1, 32, 50, layouts.Columns),
        ((112, 112), (3, 3), (1, 1), 3, 64, 8, layouts.LineTiles),
        ((14, 14), (5, 5), (1, 1), 64, 64, 50, layouts.LineTiles),
        ((14, 14), (5, 5), (1, 1), 32, 64, 50, layouts.LineTiles),
        ((14, 14), (3, 3), (1, 1), 64, 64, 50, layouts.LineTiles),
        ((14, 14), (3, 3), (1, 1), 128, 128, 50, layouts.Tiles),
        ((28, 28), (3, 3), (1, 1), 128, 128, 8, layouts.Tiles),
        ((56, 56), (3, 3), (1, 1), 64, 64, 1, layouts.LineTiles),
        ((14, 14), (3, 3), (1, 1), 256, 256, 50, layouts.LineTiles),
        ((28, 28), (3, 3), (1, 1), 16, 16, 50, layouts.LineTiles),
        ((28, 28), (5, 3), (1, 1), 24, 32, 50, layouts.LineTiles),
        ((28, 28), (4, 2), (1, 1), 24, 32, 50, layouts.LineTiles),
        ((28, 28), (8, 8), (1, 1), 16, 16, 50, layouts.Bands),
        ((28, 28), (1, 3), (1, 1), 16, 16, 50, layouts.Flat),
        ((28, 28), (3, 3), (1, 2), 16, 16, 50, layouts.Bands),
        ((56, 56), (3, 3), (1, 1), 64, 64, 0, layouts.Rows),
        ((14, 14), (1, 5), (1, 1), 32, 64, 50, layouts.Rows),
        ((14, 14), (5, 5), (1, 1), 32, 64, 1, layouts.LineTiles),
        ((7, 7), (3, 3), (1, 1), 512, 512, 32, layouts.Rows),
        ((14, 14), (5, 5), (2, 2), 32, 64, 50, layouts.Rows),
        ((14, 14), (1, 1), (1, 1), 32, 64, 50, layouts.Rows),
        ((8, 8), (3, 3), (1, 1), 2, 3, 50, layouts.Columns),
    ],
)
def test_windows_are_laid_out_as_takes_least(
    size: Any, window: Any, strides: Any, channels: int, made: int, count: int, kind: Any
) -> None:
    where = geometry(size, window, (1, *strides, 1), b"SAME", b"NHWC", (1,) * 4)
    assert chosen_by(True, where, channels, made, count) is kind


def chosen_by(
    as_they_lie: bool, where: Geometry, channels: int, made: int, count: int, gradient: bool = False
) -> type:
    """as_they_lie: whether BLAS multiplies so, and does not copy matrices first."""
    blas = mock.patch.object(line_tiles, "multiplies_as_they_lie", return_value=as_they_lie)
    fresh = mock.patch.object(layouts, "_layout", layouts._layout.__wrapped__)
    with blas, fresh:
        return type(
            layouts.layout(where, channels, made, count, np.dtype(np.float32), gradient=gradient)
        )


@pytest.mark.parametrize(
    ("size", "window", "channels", "made", "count", "forward", "back"),
    [
        (32, 3, 3, 16, 128, layouts.Columns, layouts.Columns),
        (112, 3, 3, 64, 8, layouts.Columns, layouts.Columns),
        (32, 5, 3, 32, 50, layouts.LineTiles, layouts.LineTiles),
        (28, 5, 1, 32, 50, layouts.Columns, layouts.Columns),
        (28, 3, 8, 8, 50, layouts.LineTiles, layouts.LineTiles),
        (32, 3, 16, 16, 128, layouts.LineTiles, layouts.LineTiles),
    ],
)
def test_few_channels_are_laid_out_where_blas_copies_what_it_multiplies(
    size: int, window: int, channels: int, made: int, count: int, forward: type, back: type
) -> None:
    """Measured on an EPYC of the first generation, whose kernels are Haswell's."""
    where = geometry((size, size), (window, window), (1,) * 4, b"SAME", b"NHWC", (1,) * 4)
    assert chosen_by(False, where, channels, made, count) is forward
    assert chosen_by(False, where, channels, made, count, gradient=True) is back


@given(
    st.integers(0, 300),
    st.integers(0, 1 << 22),
    st.integers(1, 1 << 22),
    st.integers(1, 40),
)
def test_parts_are_of_one_size_and_an_even_number_of_them(
    count: int, bytes_each: int, most: int, least: int
) -> None:
    found = windows.parts(count, bytes_each, most, least)
    assert [each for part in found for each in range(part.start, part.stop)] == [*range(count)]
    sizes = [part.stop - part.start for part in found]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(sizes) in (0, 1, count) or not len(sizes) % 2


@pytest.mark.parametrize("padding", [b"SAME", b"VALID", b"EXPLICIT"])
@pytest.mark.parametrize(
    ("tiling", "window"),
    [(layouts.Tiles, window) for window in ((3, 3), (5, 5), (3, 5))]
    + [(layouts.LineTiles, window) for window in ((2, 4), (3, 3), (4, 2), (5, 5), (3, 5), (7, 4))],
)
@pytest.mark.parametrize(("kind", "error"), [(np.float32, 4e-6), (np.float64, 1e-14)])
def test_tiles_give_the_sums_of_the_definition_but_for_rounding(
    tiling: Any, window: tuple[int, int], padding: bytes, kind: Any, error: float
) -> None:
    """Images of all sizes that a tile may end at, a few at a time."""
    rng = np.random.default_rng(0)
    c, m = 3, 5
    pads = (1, 2, 0, window[1] - 2)
    explicit = [0, 0, *pads, 0, 0] if padding == b"EXPLICIT" else []
    for size in itertools.product(range(7, 11), range(7, 11)):
        where = geometry(size, window, (1,) * 4, padding, b"NHWC", (1,) * 4, explicit)
        assert tiling.fit(where)
        x = rng.standard_normal((5, *size, c)).astype(kind)
        dy = rng.standard_normal((5, *where.out, m)).astype(kind)
        w = rng.standard_normal((*window, c, m)).astype(kind)
        plain, tiles = layouts.Rows(where, c, m), tiling(where, c, m)
        with (
            mock.patch.object(winograd, "AT_ONCE", 2 * tiles.elements * x.itemsize),
            mock.patch.object(line_tiles, "SMALL", 64 * c * m),
        ):
            for how in (plain, tiles):
                y, sums = np.empty_like(dy), np.full(how.shape, np.nan, kind)
                how.convolve(x, how.matrix(w), y)
                how.multiply(x, dy, sums)
                if how is plain:
                    wanted = y, how.filters(sums)
        for made, sure in zip((y, tiles.filters(sums)), wanted, strict=True):
            np.testing.assert_allclose(made, sure, rtol=0, atol=error * np.abs(sure).max())


@pytest.mark.parametrize("tiling", [layouts.Tiles, layouts.LineTiles])
@pytest.mark.parametrize("window", [3, 5])
def test_tiles_round_little_more_than_sums_of_products(tiling: Any, window: int) -> None:
    """Errors of many terms, and their root mean squares beside those of adding up one product after the other.

    BLAS has smaller errors than that; how much smaller differs from kernel to kernel.
    """
    rng = np.random.default_rng(0)
    where = geometry((14, 14), (window, window), (1,) * 4, b"SAME", b"NHWC", (1,) * 4)
    x, dy = (rng.standard_normal((4, 14, 14, n)) for n in (32, 64))
    w = rng.standard_normal((window, window, 32, 64))
    pads = (window // 2, window // 2)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x.astype(np.float32), ((0, 0), pads, pads, (0, 0))), (window, window), (1, 2)
    )
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, window * window * 32)
    plain = [
        one_by_one(rows, w.reshape(-1, 64)).reshape(dy.shape),
        one_by_one(rows.T, dy.reshape(-1, 64)).reshape(w.shape),
    ]
    exact, tiles = [], []
    for found, kind, how in (
        (exact, np.float64, layouts.Rows(where, 32, 64)),
        (tiles, np.float32, tiling(where, 32, 64)),
    ):
        given_x, given_dy = x.astype(kind), dy.astype(kind)
        y, sums = np.empty(dy.shape, kind), np.empty(how.shape, kind)
        how.convolve(given_x, how.matrix(w.astype(kind)), y)
        how.multiply(given_x, given_dy, sums)
        found += [y, how.filters(sums)]
    for sure, added, made, factor in zip(exact, plain, tiles, (2.5, 4), strict=True):
        print(
            tiling,
            window,
            np.std(made - sure) / np.std(added - sure),
            np.abs(made - sure).max() / np.abs(sure).max(),
        )
        assert np.std(made - sure) < factor * np.std(added - sure)
        assert np.abs(made - sure).max() < 3e-6 * np.abs(sure).max()


def one_by_one(a: Array, b: Array) -> Array:
    """The product of two matrices in single precision, whose sums are made in order."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for column, row in zip(a.T.astype(np.float32), b.astype(np.float32), strict=True):
        total += column[:, None] * row
    return total


@pytest.mark.parametrize(("channels", "kind"), [(64, layouts.LineTiles), (128, layouts.Tiles)])
def test_integers_are_not_made_in_tiles(channels: int, kind: Any) -> None:
    where = geometry((28, 28), (3, 3), (1,) * 4, b"SAME", b"NHWC", (1,) * 4)
    types = [np.dtype(name) for name in ("f4", "f8", "i4")]
    found = [type(layouts.layout(where, channels, channels, 8, each)) for each in types]
    assert found[:2] == [kind, kind]
    assert found[2] in (layouts.Bands, layouts.Rows)


@given(cases())
def test_a_depthwise_one_is_too(case: dict[str, Any]) -> None:
    rng = np.random.default_rng(case["seed"])
    n, c, m = case["n"], case["c"], case["m"]
    x, w = integers(rng, n, *case["size"], c), integers(rng, *case["window"], c, m)
    dy = integers(rng, n, *out_size(case), c, m)
    y, dx, dw = np.zeros_like(dy), np.zeros_like(x), np.zeros_like(w)
    for out, at, place in terms(case):
        o, p = (slice(None), *out), (slice(None), *place)
        y[o] += x[p][..., None] * w[at]
        dx[p] += (dy[o] * w[at]).sum(-1)
        dw[at] += (x[p][..., None] * dy[o]).sum(0)
    attrs = attrs_of(case)
    flat = dy.reshape(*dy.shape[:-2], c * m)
    given_x, given_dy = first(x, case), first(flat, case)
    sizes = [np.array(each.shape, np.int32) for each in (given_x, w)]
    found = last(run("DepthwiseConv2dNative", given_x, w, **attrs), case)
    np.testing.assert_array_equal(found, y.reshape(flat.shape))
    found = run("DepthwiseConv2dNativeBackpropInput", sizes[0], w, given_dy, **attrs)
    np.testing.assert_array_equal(last(found, case), dx)
    found = run("DepthwiseConv2dNativeBackpropFilter", given_x, sizes[1], given_dy, **attrs)
    np.testing.assert_array_equal(found, dw)


@given(cases(dilated=False))
def test_pooling_and_its_gradients_follow_the_definition(case: dict[str, Any]) -> None:
    rng = np.random.default_rng(case["seed"])
    n, c = case["n"], case["c"]
    x, dy = integers(rng, n, *case["size"], c), integers(rng, n, *out_size(case), c)
    largest, dx = np.full(dy.shape, -np.inf, np.float32), np.zeros_like(x)
    total, count, mean_dx = np.zeros(dy.shape), np.zeros(dy.shape), np.zeros(x.shape)
    for out, _, place in terms(case):
        o, p = (slice(None), *out), (slice(None), *place)
        largest[o] = np.maximum(largest[o], x[p])
        total[o] += x[p]
        count[o] += 1
    left, ddx = np.ones(dy.shape, bool), np.zeros(dy.shape, np.float32)
    for out, _, place in terms(case):
        o, p = (slice(None), *out), (slice(None), *place)
        here = left[o] & (x[p] == largest[o])
        dx[p] += np.where(here, dy[o], 0)
        ddx[o] += np.where(here, x[p], 0)  # the input stands for the gradient of the gradient
        left[o] &= ~here
        mean_dx[p] += dy[o] / count[o]
    attrs = attrs_of(case)
    attrs["ksize"] = [1, 1, *case["window"]] if case["nchw"] else [1, *case["window"], 1]
    given_x, given_y, given_dy = (first(each, case) for each in (x, largest, dy))
    np.testing.assert_array_equal(last(run("MaxPool", given_x, **attrs), case), largest)
    found = run("MaxPoolGrad", given_x, given_y, given_dy, **attrs)
    np.testing.assert_array_equal(last(found, case), dx)
    if case["padding"] == "EXPLICIT":
        return
    found = run("MaxPoolGradGrad", given_x, given_y, given_x, **attrs)
    np.testing.assert_array_equal(last(found, case), ddx)
    if n and count.all():
        found = last(run("AvgPool", given_x, **attrs), case)
        np.testing.assert_allclose(found, total / count, rtol=1e-6, atol=1e-6)
        found = run("AvgPoolGrad", np.array(given_x.shape, np.int32), given_dy, **attrs)
        np.testing.assert_allclose(last(found, case), mean_dx, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [b"SAME", b"VALID"])
def test_volumes_are_the_same_with_one_dimension_more(padding: bytes) -> None:
    rng = np.random.default_rng(5)
    x, w = integers(rng, 2, 4, 5, 3), integers(rng, 3, 2, 3, 4)
    flat = {"strides": [1, 2, 1, 1], "padding": padding}
    deep = {"strides": [1, 1, 2, 1, 1], "padding": padding}
    y = run("Conv2D", x, w, **flat)
    np.testing.assert_array_equal(run("Conv3D", x[:, None], w[None], **deep)[:, 0], y)
    sizes = [np.array(each.shape, np.int32) for each in (x[:, None], w[None])]
    found = run("Conv3DBackpropInputV2", sizes[0], w[None], y[:, None], **deep)[:, 0]
    expected = run("Conv2DBackpropInput", np.array(x.shape, np.int32), w, y, **flat)
    np.testing.assert_array_equal(found, expected)
    found = run("Conv3DBackpropFilterV2", x[:, None], sizes[1], y[:, None], **deep)[0]
    expected = run("Conv2DBackpropFilter", x, np.array(w.shape, np.int32), y, **flat)
    np.testing.assert_array_equal(found, expected)
    flat["ksize"], deep["ksize"] = [1, 2, 2, 1], [1, 1, 2, 2, 1]
    y = run("MaxPool", x, **flat)
    np.testing.assert_array_equal(run("MaxPool3D", x[:, None], **deep)[:, 0], y)
    for name, other, last_input in (
        ("MaxPoolGrad", "MaxPool3DGrad", y), ("MaxPoolGradGrad", "MaxPool3DGradGrad", x),
    ):  # fmt: skip
        expected = run(name, x, y, last_input, **flat)
        found = run(other, x[:, None], y[:, None], last_input[:, None], **deep)
        np.testing.assert_array_equal(found[:, 0], expected)
    y = run("AvgPool", x, **flat)
    np.testing.assert_array_equal(run("AvgPool3D", x[:, None], **deep)[:, 0], y)
    expected = run("AvgPoolGrad", np.array(x.shape, np.int32), y, **flat)
    np.testing.assert_array_equal(
        run("AvgPool3DGrad", sizes[0], y[:, None], **deep)[:, 0], expected
    )


def test_where_the_largest_value_is() -> None:
    x = np.float32([[3, 1, 4], [1, 5, 9], [2, 6, 5]]).reshape(1, 3, 3, 1).repeat(2, 0)
    attrs = {
        "ksize": [1, 2, 2, 1],
        "strides": [1, 1, 1, 1],
        "padding": b"SAME",
        "Targmax": tf.int32,
    }
    y, at = run("MaxPoolWithArgmax", x, include_batch_in_index=False, **attrs)
    np.testing.assert_array_equal(y[0, ..., 0], [[5, 9, 9], [6, 9, 9], [6, 6, 5]])
    np.testing.assert_array_equal(at[1, ..., 0], [[4, 5, 5], [7, 5, 5], [7, 7, 8]])
    assert at.dtype == np.int32
    _, within = run("MaxPoolWithArgmax", x, include_batch_in_index=True, **attrs)
    np.testing.assert_array_equal(within, at + np.array([0, 9]).reshape(2, 1, 1, 1))
    for places, batched in ((at, False), (within, True)):
        dx = run(
            "MaxPoolGradWithArgmax", x, np.ones_like(y), places, include_batch_in_index=batched, **attrs
        )  # fmt: skip
        np.testing.assert_array_equal(dx[1, ..., 0], [[0, 0, 0], [0, 1, 4], [0, 3, 1]])
    assert run("MaxPoolWithArgmax", x[:0], include_batch_in_index=True, **attrs)[1].shape == (
        0,
        3,
        3,
        1,
    )
    with pytest.raises(errors.InvalidArgumentError, match="argmax"):
        run("MaxPoolGradWithArgmax", x, y, within + 9, include_batch_in_index=True, **attrs)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types_are_computed_wide_and_rounded_once(kind: Any) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(1, 5, 5, 8)).astype(kind), rng.normal(size=(3, 3, 8, 2)).astype(kind)
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    wide = run("Conv2D", x.astype(np.float32), w.astype(np.float32), **attrs)
    found = run("Conv2D", x, w, **attrs)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, wide.astype(kind))


def test_groups_of_channels() -> None:
    rng = np.random.default_rng(1)
    x, w = integers(rng, 2, 4, 4, 6), integers(rng, 3, 3, 2, 9)
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    each = [
        run("Conv2D", x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], **attrs)
        for g in range(3)
    ]
    np.testing.assert_array_equal(run("Conv2D", x, w, **attrs), np.concatenate(each, -1))


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolving, "PART_BYTES", 5000)  # many parts
    monkeypatch.setattr(windows, "SMALL", 1)
    monkeypatch.setattr(convolving, "ROWS_AT_LEAST", 1)
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(13, 9, 9, 3)), rng.normal(size=(3, 3, 3, 4))
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    pool = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": b"VALID"}

    def everything() -> list[Array]:
        y = run("Conv2D", x, w, **attrs)
        p = run("MaxPool", y, **pool)
        return [
            y, p, run("MaxPoolGrad", y, p, p, **pool), run("AvgPool", y, **pool),
            run("Conv2DBackpropInput", np.array(x.shape), w, y, **attrs),
            run("Conv2DBackpropFilter", x, np.array(w.shape), y, **attrs),
            run("DepthwiseConv2dNative", x, w, **attrs),
            run("Conv2D", x[..., :1], w[:, :, :1], **attrs),
            run("Conv2D", x, w, strides=[1, 2, 2, 1], padding=b"SAME"),
        ]  # fmt: skip

    alone = everything()
    workers = WorkerPool(3)
    try:
        with workers:
            together = everything()
        assert workers.started == 2
    finally:
        workers.close()
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_responses_are_divided_by_those_of_their_neighbours() -> None:
    x = np.arange(10, dtype=np.float32).reshape(1, 1, 2, 5)
    attrs = {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75}
    expected = np.empty_like(x)
    for place, row in enumerate(x[0, 0]):
        for c, value in enumerate(row):
            around = row[max(c - 1, 0) : c + 2]
            expected[0, 0, place, c] = value / (2 + 0.5 * (around**2).sum()) ** 0.75
    y = run("LRN", x, **attrs)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    dy, step = np.cos(x), np.float32(1e-2) * np.sin(3 * x)
    dx = run("LRNGrad", dy, x, y, **attrs)
    slope = (run("LRN", x + step, **attrs) - run("LRN", x - step, **attrs)) / 2
    np.testing.assert_allclose((slope * dy).sum(), (dx * step).sum(), rtol=1e-3)


@pytest.mark.parametrize("training", [True, False])
def test_the_gradient_of_a_batch_norm_is_the_slope(training: bool) -> None:
    rng = np.random.default_rng(4)
    values = [rng.normal(size=s).astype(np.float32) for s in ((3, 2, 2, 2), (2,), (2,))]
    weights = rng.normal(size=(3, 2, 2, 2)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        xs = [tf.placeholder(tf.float32, value.shape) for value in values]
        given_statistics = {} if training else {"mean": [0.1, 0.2], "variance": [1.5, 0.7]}
        y, _, _ = tf.nn.fused_batch_norm(*xs, is_training=training, epsilon=0.1, **given_statistics)
        loss = tf.reduce_sum(y * weights)
        found = session.run(tf.gradients(loss, xs), dict(zip(xs, values, strict=True)))
        for which, gradient in enumerate(found):
            step = 1e-2 * rng.normal(size=gradient.shape).astype(np.float32)
            ends = []
            for sign in (1, -1):
                moved = list(values)
                moved[which] = values[which] + sign * step
                ends.append(session.run(loss, dict(zip(xs, moved, strict=True))))
            np.testing.assert_allclose(
                (ends[0] - ends[1]) / 2, (gradient * step).sum(), rtol=1e-2, atol=1e-3
            )


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [1, 2], [3, 0], [0, 0]]])
@pytest.mark.parametrize("known", [True, False])
def test_dilated_windows_where_channels_are_second(padding: Any, known: bool) -> None:
    rng = np.random.default_rng(7)
    x, w = integers(rng, 2, 7, 8, 3), integers(rng, 3, 2, 3, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        turned = tf.placeholder_with_default(
            np.moveaxis(x, -1, 1), [2, 3, 7, 8] if known else [None, 3, None, None]
        )
        second = padding if isinstance(padding, str) else [padding[at] for at in (0, 3, 1, 2)]
        found = tf.nn.depthwise_conv2d(
            turned, w, [1, 1, 1, 1], second, rate=[2, 3], data_format="NCHW"
        )
        wanted = tf.nn.depthwise_conv2d_native(x, w, [1, 1, 1, 1], padding, dilations=[1, 2, 3, 1])
        values = session.run([found, wanted])
        np.testing.assert_array_equal(np.moveaxis(values[0], 1, -1), values[1])
        assert found.shape.is_compatible_with(values[0].shape)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_dilated_convolution_is_undone_for_a_shape_that_the_step_knows(padding: str) -> None:
    rng = np.random.default_rng(7)
    w, y = integers(rng, 3, 2, 3, 4), integers(rng, 2, 7, 8, 3)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.nn.atrous_conv2d(y, w, 2, padding)
        size = tf.placeholder_with_default([2, 7, 8, 3], [4])
        found = tf.nn.atrous_conv2d_transpose(tf.ones_like(x), w, size, 2, padding)
        fixed = tf.nn.atrous_conv2d_transpose(tf.ones_like(x), w, [2, 7, 8, 3], 2, padding)
        image = tf.constant(y)
        (wanted,) = tf.gradients(tf.nn.atrous_conv2d(image, w, 2, padding), image)
        values = session.run([found, fixed, wanted])
        np.testing.assert_array_equal(values[0], values[2])
        np.testing.assert_array_equal(values[1], values[2])


def test_blocks_move_into_the_batch_and_back() -> None:
    x = np.arange(2 * 4 * 6).reshape(2, 4, 6, 1)
    block = np.array([2, 3])
    y = run("SpaceToBatchND", x, block, np.zeros((2, 2), int))
    assert y.shape == (12, 2, 2, 1)
    for i, j in itertools.product(range(2), range(3)):
        at = 2 * (3 * i + j)
        np.testing.assert_array_equal(y[at : at + 2], x[:, i::2, j::3])
    np.testing.assert_array_equal(run("BatchToSpaceND", y, block, np.zeros((2, 2), int)), x)
    cut = run("BatchToSpaceND", y, block, np.array([[1, 0], [2, 1]]))
    np.testing.assert_array_equal(cut, x[:, 1:, 2:5])
    wider = run("SpaceToBatchND", x, block, np.array([[1, 1], [0, 3]]))
    back = run("BatchToSpaceND", wider, block, np.array([[1, 1], [0, 3]]))
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("data_format", [b"NHWC", b"NCHW"])
def test_blocks_move_into_the_channels_and_back(data_format: bytes) -> None:
    x = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    given_x = x if data_format == b"NHWC" else np.moveaxis(x, -1, 1)
    y = run("SpaceToDepth", given_x, block_size=2, data_format=data_format)
    places = y if data_format == b"NHWC" else np.moveaxis(y, 1, -1)
    np.testing.assert_array_equal(places[1, 1, 2, :3], x[1, 2, 4])
    np.testing.assert_array_equal(places[1, 1, 2, 3:6], x[1, 2, 5])
    np.testing.assert_array_equal(places[1, 1, 2, 6:9], x[1, 3, 4])
    back = run("DepthToSpace", y, block_size=2, data_format=data_format)
    np.testing.assert_array_equal(back, given_x)


ONE = [1, 1, 1, 1]
Z = np.zeros
REFUSED = [
    ("Conv2D", [Z((1, 3, 3)), Z((1, 1, 3, 1))], {"strides": ONE, "padding": b"SAME"}),
    ("Conv2D", [Z((1, 3, 3, 2)), Z((1, 1, 3, 1))], {"strides": ONE, "padding": b"SAME"}),
    ("Conv2D", [Z((1, 3, 3, 2)), Z((5, 1, 2, 1))], {"strides": ONE, "padding": b"VALID"}),
    ("Conv2D", [Z((1, 3, 3, 2)), Z((1, 1, 2, 1))], {"strides": [1, 0, 1, 1], "padding": b"SAME"}),
    ("Conv2D", [Z((1, 3, 3, 2)), Z((1, 1, 2, 1))], {"strides": [2, 1, 1, 1], "padding": b"SAME"}),
    ("Conv2D", [Z((1, 3, 3, 2)), Z((1, 1, 2, 1))],
     {"strides": ONE, "padding": b"EXPLICIT", "explicit_paddings": [1, 0, 0, 0, 0, 0, 0, 0]}),
    ("Conv2DBackpropInput", [np.array([1, 3, 3, 2]), Z((1, 1, 2, 1)), Z((1, 2, 3, 1))],
     {"strides": ONE, "padding": b"SAME"}),
    ("Conv2DBackpropInput", [np.array([1, 3, 3]), Z((1, 1, 2, 1)), Z((1, 3, 3, 1))],
     {"strides": ONE, "padding": b"SAME"}),
    ("Conv2DBackpropInput", [np.array([1, 3, 3, 4]), Z((1, 1, 2, 1)), Z((1, 3, 3, 1))],
     {"strides": ONE, "padding": b"SAME"}),
    ("Conv2DBackpropFilter", [Z((1, 3, 3, 2)), np.array([1, 1, 3, 1]), Z((1, 3, 3, 1))],
     {"strides": ONE, "padding": b"SAME"}),
    ("DepthwiseConv2dNative", [Z((1, 3, 3, 2)), Z((1, 1, 3, 1))], {"strides": ONE, "padding": b"SAME"}),
    ("MaxPool", [Z((3, 3, 2))], {"ksize": ONE, "strides": ONE, "padding": b"SAME"}),
    ("MaxPool", [Z((1, 3, 3, 2))], {"ksize": [1, 0, 1, 1], "strides": ONE, "padding": b"SAME"}),
    ("MaxPoolGrad", [Z((1, 3, 3, 2)), Z((1, 3, 3, 2)), Z((1, 3, 2, 2))],
     {"ksize": ONE, "strides": ONE, "padding": b"SAME"}),
    ("MaxPoolGradGrad", [Z((1, 3, 3, 2)), Z((1, 3, 3, 2)), Z((1, 3, 2, 2))],
     {"ksize": ONE, "strides": ONE, "padding": b"SAME"}),
    ("AvgPool", [Z((3, 3, 2))], {"ksize": ONE, "strides": ONE, "padding": b"SAME"}),
    ("AvgPoolGrad", [np.array([1, 3, 3]), Z((1, 3, 3, 2))], {"ksize": ONE, "strides": ONE, "padding": b"SAME"}),
    ("LRN", [Z((3, 3, 2), np.float32)], {}),
    ("LRNGrad", [Z((1, 3, 3, 2), np.float32)] * 2 + [Z((1, 3, 3, 1), np.float32)], {}),
    ("SpaceToBatchND", [Z((1, 3, 3, 2)), np.array([2, 2]), Z((2, 2), int)], {}),
    ("BatchToSpaceND", [Z((3, 3, 3, 2)), np.array([2, 2]), Z((2, 2), int)], {}),
    ("BatchToSpaceND", [Z((4, 1, 1, 2)), np.array([2, 2]), np.full((2, 2), 2)], {}),
    ("SpaceToDepth", [Z((1, 3, 4, 2))], {"block_size": 2}),
    ("DepthToSpace", [Z((1, 3, 4, 2))], {"block_size": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "attrs"), REFUSED)
def test_a_kernel_refuses(name: str, inputs: list[Any], attrs: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        run(name, *inputs, **attrs)


def test_pooling_over_the_batch_or_the_channels_says_what_to_do_instead() -> None:
    for name in ("MaxPool", "AvgPool"):
        with pytest.raises(errors.UnimplementedError, match="reshape"):
            run(name, Z((2, 3, 3, 4)), ksize=[1, 1, 1, 2], strides=ONE, padding=b"VALID")


def test_every_op_of_these_families_is_run_here() -> None:
    source = Path(__file__).read_text()
    ours = ops_of(FAMILIES)
    assert {name for name in ours if f'"{name}"' not in source} == set()
    assert len(ours) > 25


@pytest.mark.parametrize("padding", [b"SAME", b"VALID", b"EXPLICIT"])
@pytest.mark.parametrize("size", [(1, 5), (2, 4), (3, 3), (6, 9), (7, 8)])
def test_tiles_of_lines_give_the_sums_of_the_definition_but_for_rounding(
    size: tuple[int, int], padding: bytes
) -> None:
    """Pictures of few lines, and lines that are padding alone."""
    explicit = [0, 0, 2, 3, 1, 2, 0, 0] if padding == b"EXPLICIT" else []
    if padding == b"VALID" and size[0] < 3:
        size = (size[0] + 2, size[1])
    rng = np.random.default_rng(0)
    where = geometry(size, (3, 3), (1,) * 4, padding, b"NHWC", (1,) * 4, explicit)
    x = rng.standard_normal((4, *size, 5)).astype(np.float32)
    dy = rng.standard_normal((4, *where.out, 6)).astype(np.float32)
    w = rng.standard_normal((3, 3, 5, 6)).astype(np.float32)
    found = []
    for how in (layouts.Rows(where, 5, 6), layouts.LineTiles(where, 5, 6)):
        y, sums = np.full_like(dy, np.nan), np.full(how.shape, np.nan, np.float32)
        how.convolve(x, how.matrix(w), y)
        how.multiply(x, dy, sums)
        found.append((y, how.filters(sums)))
    for sure, made in zip(*found, strict=True):
        np.testing.assert_allclose(made, sure, rtol=0, atol=2e-6 * np.abs(sure).max())


@pytest.mark.parametrize("padding", [b"SAME", b"VALID"])
@pytest.mark.parametrize("window", [(3, 3), (1, 3), (5, 2)])
@pytest.mark.parametrize("kind", [layouts.Flat, layouts.LineTiles])
def test_flat_lines_give_each_picture_its_bits_whatever_is_beside_it(
    window: tuple[int, int], padding: bytes, kind: Any
) -> None:
    rng = np.random.default_rng(0)
    where = geometry((32, 31), window, (1,) * 4, padding, b"NHWC", (1,) * 4)
    how = (kind if kind.fit(where) else layouts.Flat)(where, 4, 6)
    assert how.alone
    x = rng.standard_normal((5, 32, 31, 4)).astype(np.float32)
    matrix = how.matrix(rng.standard_normal((*window, 4, 6)).astype(np.float32))
    together = np.full((5, *where.out, 6), np.nan, np.float32)
    how.convolve(x, matrix, together)
    for at, picture in enumerate(x):
        alone = np.full((1, *where.out, 6), np.nan, np.float32)
        how.convolve(picture[None], matrix, alone)
        np.testing.assert_array_equal(alone[0], together[at])


def test_small_pictures_in_tiles_of_lines_are_multiplied_together() -> None:
    where = geometry((14, 14), (5, 5), (1,) * 4, b"SAME", b"NHWC", (1,) * 4)
    assert not layouts.LineTiles(where, 32, 64).alone


def test_large_pictures_lie_flat_some_lines_at_a_time() -> None:
    where = geometry((112, 112), (3, 3), (1,) * 4, b"SAME", b"NHWC", (1,) * 4)
    rng = np.random.default_rng(0)
    x = integers(rng, 2, 112, 112, 16)
    w, dy = integers(rng, 3, 3, 16, 8), integers(rng, 2, 112, 112, 8)
    found = []
    for kind in (layouts.Flat, layouts.Rows, layouts.LineTiles):
        how = kind(where, 16, 8)
        y, sums = np.empty_like(dy), np.empty(how.shape, np.float32)
        how.convolve(x, how.matrix(w), y)
        how.multiply(x, dy, sums)
        found.append((y, how.filters(sums)))
    for flat, sure, tiles in zip(*found, strict=True):
        np.testing.assert_array_equal(flat, sure)
        np.testing.assert_allclose(tiles, sure, rtol=0, atol=2e-6 * np.abs(sure).max())


def test_parts_that_are_kept_follow_from_what_a_part_has_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = windows.parts(64, 1000, 4000)
    monkeypatch.setattr(windows, "SMALL", 2000)
    assert len(windows.parts(64, 1000, 4000)) == 16 > len(before)


def test_a_geometry_is_the_same_whatever_holds_its_numbers() -> None:
    """Attrs of a node may come as lists or tuples, and sizes as what a shape is made of."""
    lists: Any = ([9, 8], [3, 2], [1, 2, 1, 1], b"EXPLICIT", b"NHWC", [1, 1, 2, 1])
    pads = [0, 0, 1, 2, 0, 1, 0, 0]
    first = geometry(*lists, pads)
    tuples = [tuple(each) if isinstance(each, list) else each for each in lists]
    assert geometry(*tuples, tuple(pads)) is first
    assert (first.strides, first.dilations, first.pads) == ((2, 1), (1, 2), ((1, 2), (0, 1)))
    for wrong, says in (([1, 0, 1, 1], "[1, 0, 1, 1] must be positive"), ([2, 1, 1, 1], "entries")):
        for each in (list, tuple):
            with pytest.raises(errors.InvalidArgumentError, match=re.escape(says)):
                geometry([9, 8], [3, 2], each(wrong), b"SAME", b"NHWC", [1] * 4)
