"""Arithmetic that several kernels share: sums of rows, lines of pixels, the C library's logarithms and sines."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as tf
from headrace.ops._kernels import channels, libm_floats
from headrace.ops._kernels.normalizing import Back, Moments, is_near
from headrace.ops._kernels.row_sums import sums_of_rows
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops.nn.batch_norm import batch_norm, fused_batch_norm_grad_v3_op
from headrace.run.exec.float_warnings import BUFFER, restore_warnings, suppress_warnings

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("height", "count", "width", "skewed"),
    [
        (1, 1, 1, False),
        (10, 0, 3, False),
        (5, 100, 3, False),
        (3, 30_000, 1, False),
        (2, 7_000, 70, False),  # finished one by one, in pieces
        (70_000, 2_000, 2, False),  # more sums than 16 bits have numbers
        (50, 3_000, 16, True),
        (2_000, 20_000, 64, True),  # several blocks, on threads where there are any
    ],
)
@pytest.mark.parametrize("ordered", [True, False])
def test_rows_are_added_in_their_order(
    height: int, count: int, width: int, skewed: bool, ordered: bool
) -> None:
    ids = rng.zipf(1.5, count) % height if skewed else rng.integers(0, height, count)
    ids = np.sort(ids) if ordered else ids
    data = rng.standard_normal((count, width)).astype(np.float32)
    wanted = np.zeros((height, width), np.float32)
    for at, row in zip(ids, data, strict=True):
        wanted[at] += row
    found = sums_of_rows(
        ids, height, width, data.dtype, lambda at, out: data.take(at, 0, out, "clip")
    )
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("known", [True, False])
def test_logarithms_and_waves_are_those_of_the_c_library(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = libm_floats._library()
    if not known:
        monkeypatch.setattr(libm_floats, "_is_known", lambda: False)
    x = np.maximum(rng.random(20_000, np.float32), np.float32(1e-7))
    angles = x * np.float32(2 * np.pi)
    found = (libm_floats.logarithms(x), *libm_floats.sines_and_cosines(angles))
    for name, given, mine in zip(("logf", "sinf", "cosf"), (x, angles, angles), found, strict=True):
        assert np.array_equal(libm_floats._values(library[name], given), mine), name


def test_a_number_that_is_rounded_on_a_knifes_edge_is_the_librarys() -> None:
    between = np.array([1 + 2.0**-24, 1 + 2.0**-23 + 2.0**-50], np.float64)
    asked = np.array([0.25, 0.5], np.float32)
    made = libm_floats._rounded("logf", between, asked)
    assert made[1] == np.float32(1 + 2.0**-23)
    if "logf" in libm_floats._library():
        assert made[0] == np.float32(np.log(0.25))


@pytest.mark.parametrize(
    ("n", "pixels", "channels_each"),
    [(5, 1, 3), (7, 49, 64), (128, 1024, 16), (3, 13, 2048), (2, 200_000, 1), (1, 150_001, 1)],
)
def test_units_cover_every_pixel_once(n: int, pixels: int, channels_each: int) -> None:
    x = rng.standard_normal((n, pixels, channels_each))
    units = channels.Units(n, pixels, channels_each)
    assert units.count * units.pixels == n * pixels
    assert units.in_picture in (0, pixels / units.pixels)
    y = rng.standard_normal(x.shape)
    sums, with_y = units.sums_with(units.lines(x), units.lines(y))
    assert sums.shape == with_y.shape == (units.count, channels_each)
    of_units = [each.reshape(units.count, -1, channels_each) for each in (x, y)]
    assert np.allclose(sums, of_units[0].sum(1))
    assert np.allclose(with_y, (of_units[0] * of_units[1]).sum(1))
    seen = [at for block in units.blocks() for at in range(block.start, block.stop)]
    assert seen == list(range(units.count))
    repeated = units.repeated(x[0, 0])
    assert np.array_equal(repeated, np.tile(x[0, 0], len(repeated) // channels_each))


def test_channels_of_which_some_are_far_from_0_are_measured_unit_by_unit() -> None:
    """One that is far, one that is the same everywhere, one that is 0, in some units only."""
    x = rng.standard_normal((6, 32, 32, 4)).astype(np.float32)
    x[2, ..., 0] += 500
    x[3:5, ..., 1] = 7
    x[..., 2] = 0
    units = channels.Units(6, 1024, 4)
    found = []
    for cuts in ([slice(0, 6)], [slice(at, at + 1) for at in range(6)]):
        moments = Moments(units, x.dtype)
        for at in cuts:
            moments.look(at, units.lines(x)[at])
        found.append(moments.found())
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found[0][0], wide.mean((0, 1, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0][1], wide.var((0, 1, 2)), rtol=1e-5, atol=1e-12)
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("elements", [0, 16, 300, 512, 1000, 5000])
def test_rows_as_they_lie_leave_numpys_buffers_as_they_were(elements: int) -> None:
    was = np.getbufsize()
    with as_they_lie(elements):
        assert np.getbufsize() == (elements // 16 * 16 if 256 <= elements < 1024 else was)
    assert np.getbufsize() == was


def test_a_step_has_short_buffers_and_gives_the_setting_back() -> None:
    was = np.getbufsize()
    kept = suppress_warnings()
    try:
        assert np.getbufsize() == BUFFER
        assert np.float32(3e38) * np.float32(10) == np.inf  # a warning is an error here
    finally:
        restore_warnings(kept)
    assert np.getbufsize() == was
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [3])
        session.run(x * 2.0, {x: [1, 2, 3]})
    assert np.getbufsize() == was


def test_variances_of_pictures_far_from_0_keep_their_digits() -> None:
    x = (rng.standard_normal((4, 32, 32, 16)) + 1000).astype(np.float32)
    units = channels.Units(4, 1024, 16)
    moments = Moments(units, x.dtype)
    units.each(lambda at: moments.look(at, units.lines(x)[at]))
    mean, variance = moments.found()
    wide = x.astype(np.float64)
    assert np.allclose(mean, wide.mean((0, 1, 2)), rtol=1e-6)
    assert np.allclose(variance, wide.var((0, 1, 2)), rtol=1e-4)


@pytest.mark.parametrize("mean", [3, 30])  # as near to 0 as the numbers are to it, and far from it
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 1, 1, 1), (8, 33, 33, 64), (0, 2, 2, 3)])
def test_batch_norm_in_lines_agrees_with_double_precision(
    shape: tuple[int, ...], mean: float
) -> None:
    means = (
        mean,
        3 if mean == 3 else 0,
    )  # the mean has seven digits, and counts as often as that of dy says
    x, dy = (rng.standard_normal(shape).astype(np.float32) * 2 + each for each in means)
    scale, offset = (rng.standard_normal(shape[-1]).astype(np.float32) for _ in range(2))
    nothing = np.empty(0, np.float32)
    y, mean, variance, *_ = batch_norm(
        x, scale, offset, nothing, nothing, 0.001, 1.0, b"NHWC", True
    )
    count = max(x.size // max(shape[-1], 1), 1)
    rows, grads = (each.reshape(-1, shape[-1]).astype(np.float64) for each in (x, dy))
    middle = rows.sum(0) / count
    spread = np.square(rows - middle).sum(0) / count
    inverse = 1 / np.sqrt(spread + 0.001)
    standard = (rows - middle) * inverse
    near = {"rtol": 1e-4, "atol": 1e-4}
    assert np.allclose(y.reshape(rows.shape), standard * scale + offset, **near)
    lost = 0.0 if x.size else np.nan  # TensorFlow's statistics of nothing
    assert np.allclose(mean, middle + lost, equal_nan=True, **near)
    unbiased = spread * count / max(count - 1, 1)
    assert np.allclose(variance, unbiased + lost, equal_nan=True, **near)
    made = fused_batch_norm_grad_v3_op.kernel(
        np,
        dy,
        x,
        scale,
        middle.astype(np.float32),
        spread.astype(np.float32),
        nothing,
        epsilon=0.001,
        data_format=b"NHWC",
        is_training=True,
    )
    to_scale, to_offset = (grads * standard).sum(0), grads.sum(0)
    to_x = (grads - (to_offset + standard * to_scale) / count) * scale * inverse
    for found, wanted in zip(made, (to_x, to_scale, to_offset), strict=False):
        assert np.allclose(found.reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("slope", [0, 1, 1000])  # mean of dy, in its deviations
@pytest.mark.parametrize("spread", [1, 1e-3, 0])
@pytest.mark.parametrize(
    "middle", [0, 1.98, 2.02, 3]
)  # in deviations: on both sides of what is near
def test_gradients_of_scale_keep_their_digits_where_means_are_near_0_and_where_not(
    middle: float, spread: float, slope: float
) -> None:
    shape, epsilon = (16, 24, 24, 6), 1e-4
    deviation = np.sqrt(spread**2 + epsilon)
    x, dy = (rng.standard_normal(shape) for _ in range(2))
    x = (x - x.mean((0, 1, 2))) / x.std((0, 1, 2))
    x = (x * spread + middle * deviation).astype(np.float32)
    dy = (dy + slope).astype(np.float32)
    wide, grads = (each.astype(np.float64).reshape(-1, 6) for each in (x, dy))
    mean, variance = wide.mean(0), wide.var(0)
    units = channels.Units(16, 24 * 24, 6)
    ones = np.ones(6, np.float32)
    given = mean.astype(np.float32), variance.astype(np.float32)
    assert is_near(*given, epsilon) == (middle < 2)
    back = Back(units, ones, *given, epsilon)
    units.each(lambda at: back.look(at, units.lines(dy)[at], units.lines(x)[at]))
    to_scale, to_offset = back.found()
    inverse = 1 / np.sqrt(variance + epsilon)
    off = np.abs(to_scale - (grads * (wide - mean) * inverse).sum(0))
    # What a float32 says of a mean, and no more.
    assert (off <= np.abs(grads).sum(0) * max(middle, 1) * 3e-7).all()
    assert np.allclose(to_offset, grads.sum(0), rtol=1e-6, atol=np.abs(grads).sum() * 1e-7)


@pytest.mark.parametrize("format_", [b"NHWC", b"NCHW"])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_keeps_the_digits_in_which_what_is_far_from_0_differs(
    training: bool, format_: bytes
) -> None:
    x = (1024 + rng.integers(-8, 8, (4, 8, 8, 8)) / 64).astype(np.float32)
    x[2:] = 2048 - x[:2]  # the mean is 1024, exactly
    one = np.ones(8, np.float32)
    given = one * 1024, one / 64
    y, *_ = batch_norm(x, one, one * 3, *given, 1e-5, 1.0, format_, training)
    wide = x.astype(np.float64) - 1024
    at = (0, 1, 2) if format_ == b"NHWC" else (0, 2, 3)
    variance = np.square(wide).mean(at, keepdims=True) if training else 1 / 64
    assert np.allclose(y, wide / np.sqrt(variance + 1e-5) + 3, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["scatter_add", "scatter_sub"])
@pytest.mark.parametrize("words", [1, 3, 200])
def test_rows_that_come_again_are_changed_in_their_order(name: str, words: int) -> None:
    where = rng.integers(0, words, (2, 64))
    start = rng.standard_normal((200, 4, 32)).astype(np.float32)
    changes = rng.standard_normal((2, 64, 4, 32)).astype(np.float32)
    wanted, change = start.copy(), {"scatter_add": np.add, "scatter_sub": np.subtract}[name]
    change.at(wanted, where, changes)
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable(start)
        changed = getattr(tf, name)(variable, where, changes)
        session.run(variable.initializer)
        assert np.array_equal(session.run(changed), wanted)
