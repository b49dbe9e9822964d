"""Convolutions, pooling, batch norms, and what optimizers fuse: kernels against definitions written out."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.graph.registry import OPS
from tests.ops.places import ops_of

Array = np.ndarray[Any, Any]
FAMILIES = ("nn/batch_norm", "nn/fused", "array/parallel_concat")


def values(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def singles(*shape: int, seed: int = 1) -> Array:
    return values(*shape, seed=seed).astype(np.float32)


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    """The kernel with defaults for the attrs that it asks for and that are not given."""
    spec = OPS[name]
    assert spec.kernel is not None
    given = {key: attrs.get(key, spec.attrs[key].default) for key in spec.kernel_attrs}
    with np.errstate(all="ignore"):
        return spec.kernel(np, *inputs, **given)


# (size, window, strides, dilations, padding, explicit)
GEOMETRIES = [
    ((5, 6), (3, 3), (1, 1), (1, 1), b"SAME", ()),
    ((5, 6), (3, 3), (1, 1), (1, 1), b"VALID", ()),
    ((6, 7), (2, 3), (2, 3), (1, 1), b"SAME", ()),
    ((7, 5), (4, 1), (3, 1), (1, 1), b"VALID", ()),
    ((7, 8), (3, 2), (1, 1), (2, 3), b"SAME", ()),
    ((5, 5), (3, 3), (2, 1), (1, 1), b"EXPLICIT", ((0, 0), (2, 1), (0, 2), (0, 0))),
    ((3, 3), (1, 1), (2, 2), (1, 1), b"SAME", ()),
]


def padding_of(geometry: Any) -> list[tuple[int, int]]:
    """Before and after, per spatial dimension, from the definition of each scheme."""
    size, window, strides, dilations, padding, explicit = geometry
    if padding == b"EXPLICIT":
        return list(explicit[1:3])
    if padding == b"VALID":
        return [(0, 0)] * len(size)
    found = []
    for n, w, s, d in zip(size, window, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + d * (w - 1) + 1 - n, 0)
        found.append((total // 2, (total + 1) // 2))
    return found


def windows(x: Array, geometry: Any, pad: float = 0.0) -> Any:
    """(output position, window [n, *window, c]) for every output position."""
    _, window, strides, dilations, _, _ = geometry
    padded = np.pad(x, [(0, 0), *padding_of(geometry), (0, 0)], constant_values=pad)
    spans = [d * (w - 1) + 1 for w, d in zip(window, dilations, strict=True)]
    firsts = [
        range(0, n - span + 1, s)
        for n, span, s in zip(padded.shape[1:-1], spans, strides, strict=True)
    ]
    for at in itertools.product(*map(range, map(len, firsts))):
        where = [firsts[i][p] for i, p in enumerate(at)]
        cut = [slice(f, f + span, d) for f, span, d in zip(where, spans, dilations, strict=True)]
        yield at, padded[(slice(None), *cut, slice(None))]


def defined(x: Array, geometry: Any, channels: int, of_window: Any, pad: float = 0.0) -> Array:
    """The output whose value at each position is of_window(window)."""
    made = {at: of_window(window) for at, window in windows(x, geometry, pad)}
    last = max(made)
    out = np.empty((len(x), *(p + 1 for p in last), channels))
    for at, value in made.items():
        out[(slice(None), *at)] = value
    return out


def attrs_of(geometry: Any, nchw: bool = False) -> dict[str, Any]:
    _, _, strides, dilations, padding, explicit = geometry
    pads = list(explicit)

    def full(pair: Any) -> list[int]:
        return [1, 1, *pair] if nchw else [1, *pair, 1]

    if nchw and pads:
        pads = [pads[0], pads[3], *pads[1:3]]
    return {
        "strides": full(strides), "dilations": full(dilations), "padding": padding,
        "explicit_paddings": [p for pair in pads for p in pair],
        "data_format": b"NCHW" if nchw else b"NHWC",
    }  # fmt: skip


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("nchw", [False, True], ids=["NHWC", "NCHW"])
class TestConvolutions:
    def test_conv2d_is_the_sum_over_its_window(self, geometry: Any, nchw: bool) -> None:
        x, w = values(2, *geometry[0], 3), values(*geometry[1], 3, 4, seed=2)
        expected = defined(x, geometry, 4, lambda window: np.tensordot(window, w, 3))
        given = np.moveaxis(x, -1, 1) if nchw else x
        found = run("Conv2D", given, w, **attrs_of(geometry, nchw))
        np.testing.assert_allclose(
            np.moveaxis(found, 1, -1) if nchw else found, expected, atol=1e-12
        )

    def test_the_depthwise_one_keeps_channels_apart(self, geometry: Any, nchw: bool) -> None:
        x, w = values(2, *geometry[0], 3), values(*geometry[1], 3, 2, seed=2)
        expected = defined(
            x, geometry, 6, lambda window: np.einsum("nhwc,hwcm->ncm", window, w).reshape(2, 6)
        )
        given = np.moveaxis(x, -1, 1) if nchw else x
        found = run("DepthwiseConv2dNative", given, w, **attrs_of(geometry, nchw))
        np.testing.assert_allclose(
            np.moveaxis(found, 1, -1) if nchw else found, expected, atol=1e-12
        )

    def test_the_gradients_are_the_adjoints(self, geometry: Any, nchw: bool) -> None:
        x, w = values(2, *geometry[0], 3), values(*geometry[1], 3, 4, seed=2)
        x = np.moveaxis(x, -1, 1) if nchw else x
        attrs = attrs_of(geometry, nchw)
        y = run("Conv2D", x, w, **attrs)
        dy = values(*y.shape, seed=3)
        sizes = [np.array(a.shape, np.int32) for a in (x, w)]
        dx = run("Conv2DBackpropInput", sizes[0], w, dy, **attrs)
        dw = run("Conv2DBackpropFilter", x, sizes[1], dy, **attrs)
        # A convolution is linear in both: the product with dy is the same on either side.
        assert dx.shape == x.shape
        assert dw.shape == w.shape
        np.testing.assert_allclose([np.vdot(x, dx), np.vdot(w, dw)], np.vdot(y, dy), rtol=1e-10)
        other = values(*x.shape, seed=4)
        np.testing.assert_allclose(
            np.vdot(other, dx), np.vdot(run("Conv2D", other, w, **attrs), dy), rtol=1e-9, atol=1e-9
        )


def test_conv3d_is_the_sum_over_its_window() -> None:
    geometry = ((4, 5, 3), (2, 3, 2), (1, 2, 1), (1, 1, 1), b"SAME", ())
    x, w = values(2, 4, 5, 3, 2), values(2, 3, 2, 2, 3, seed=2)
    expected = defined(x, geometry, 3, lambda window: np.tensordot(window, w, 4))
    attrs = {"strides": [1, 1, 2, 1, 1], "padding": b"SAME"}
    np.testing.assert_allclose(run("Conv3D", x, w, **attrs), expected, atol=1e-12)
    second = run(
        "Conv3D",
        np.moveaxis(x, -1, 1),
        w,
        strides=[1, 1, 1, 2, 1],
        padding=b"SAME",
        data_format=b"NCDHW",
    )
    np.testing.assert_allclose(np.moveaxis(second, 1, -1), expected, atol=1e-12)


UNDILATED = [g for g in GEOMETRIES if g[3] == (1, 1)]


def pool_attrs(geometry: Any) -> dict[str, Any]:
    attrs = attrs_of(geometry)
    return {**attrs, "ksize": [1, *geometry[1], 1]}


@pytest.mark.parametrize("geometry", UNDILATED)
def test_max_pool_and_its_gradient(geometry: Any) -> None:
    x = values(2, *geometry[0], 3)
    attrs = pool_attrs(geometry)
    y = run("MaxPool", x, **attrs)
    expected = defined(x, geometry, 3, lambda window: window.max((1, 2)), -np.inf)
    np.testing.assert_array_equal(y, expected)
    dy = values(*y.shape, seed=2)
    dx = run("MaxPoolGrad", x, y, dy, **attrs)
    nudge = 1e-6 * values(*x.shape, seed=3)  # moves no maximum to another place
    slope = (run("MaxPool", x + nudge, **attrs) - y) * dy
    np.testing.assert_allclose(slope.sum(), np.vdot(nudge, dx), rtol=1e-3)


@pytest.mark.parametrize("geometry", [g for g in UNDILATED if g[4] != b"EXPLICIT"])
def test_avg_pool_does_not_count_padding(geometry: Any) -> None:
    x = values(2, *geometry[0], 3)
    attrs = pool_attrs(geometry)
    y = run("AvgPool", x, **attrs)
    np.testing.assert_allclose(y, defined(x, geometry, 3, lambda w: np.nanmean(w, (1, 2)), np.nan))
    dy = values(*y.shape, seed=2)
    dx = run("AvgPoolGrad", np.array(x.shape, np.int32), dy, **attrs)
    np.testing.assert_allclose(np.vdot(x, dx), np.vdot(y, dy))


def test_equal_values_under_a_window_pass_the_gradient_to_the_first() -> None:
    x = np.ones((1, 2, 2, 1), np.float32)
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": b"VALID"}
    dx = run(
        "MaxPoolGrad",
        x,
        np.ones((1, 1, 1, 1), np.float32),
        np.full((1, 1, 1, 1), 5, np.float32),
        **attrs,
    )
    assert dx.ravel().tolist() == [5, 0, 0, 0]


@pytest.mark.parametrize("data_format", [b"NHWC", b"NCHW"])
def test_batch_norm_takes_the_statistics_of_the_batch_out(data_format: bytes) -> None:
    x, axes = singles(4, 3, 5, 2), (0, 1, 2)
    given = x if data_format == b"NHWC" else np.moveaxis(x, -1, 1)
    ones, zeros, none = np.ones(2, np.float32), np.zeros(2, np.float32), np.zeros(0, np.float32)
    y, mean, variance, kept_mean, kept_variance, _ = run(
        "FusedBatchNormV3", given, 2 * ones, ones, none, none, data_format=data_format, epsilon=0.0
    )
    y = y if data_format == b"NHWC" else np.moveaxis(y, 1, -1)
    np.testing.assert_allclose(y.mean(axes), [1, 1], atol=1e-5)
    np.testing.assert_allclose(y.std(axes), [2, 2], atol=1e-5)
    np.testing.assert_allclose(mean, x.mean(axes), atol=1e-6)
    np.testing.assert_allclose(variance, x.var(axes, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(kept_variance, x.var(axes), rtol=1e-5)
    moved = run(
        "FusedBatchNormV3", given, ones, zeros, 3 * ones, 4 * ones, data_format=data_format,
        exponential_avg_factor=0.25,
    )  # fmt: skip
    np.testing.assert_allclose(moved[1], 0.75 * 3 + 0.25 * x.mean(axes), rtol=1e-5)
    np.testing.assert_allclose(moved[2], 0.75 * 4 + 0.25 * x.var(axes, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(moved[3], kept_mean, rtol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_the_gradient_of_a_batch_norm_is_its_slope(training: bool) -> None:
    x, dy = values(3, 2, 2, 2), singles(3, 2, 2, 2, seed=2)
    scale, offset = singles(2, seed=3), singles(2, seed=4)
    mean, variance = singles(2, seed=5), abs(singles(2, seed=6))

    def loss(x: Array, scale: Array, offset: Array) -> float:
        y = run(
            "FusedBatchNormV3", x, scale, offset, mean, variance, is_training=training, epsilon=1e-3
        )[0]
        return float(np.vdot(y, dy))

    kept = run(
        "FusedBatchNormV3", x.astype(np.float32), scale, offset, mean, variance, is_training=training,
        epsilon=1e-3,
    )  # fmt: skip
    found = run(
        "FusedBatchNormGradV3",
        dy,
        x.astype(np.float32),
        scale,
        *kept[3:],
        is_training=training,
        epsilon=1e-3,
    )
    at = [x, scale.astype(float), offset.astype(float)]
    for index, gradient in enumerate(found[:3]):
        step = 1e-5 * values(*at[index].shape, seed=7)
        there = [a + step if i == index else a for i, a in enumerate(at)]
        back = [a - step if i == index else a for i, a in enumerate(at)]
        slope = (loss(*there) - loss(*back)) / 2
        np.testing.assert_allclose(np.vdot(gradient, step), slope, rtol=5e-3, atol=1e-9)


def elu(x: Array) -> Array:
    return np.where(x < 0, np.expm1(x), x)


EPILOGUES = [
    ([b"BiasAdd"], lambda y: y),
    ([b"BiasAdd", b"Relu"], lambda y: np.maximum(y, 0)),
    ([b"BiasAdd", b"Relu6"], lambda y: np.clip(y, 0, 6)),
    ([b"BiasAdd", b"Elu"], elu),
    ([b"BiasAdd", b"Tanh"], np.tanh),
    ([b"BiasAdd", b"Sigmoid"], lambda y: 1 / (1 + np.exp(-y))),
    ([b"BiasAdd", b"LeakyRelu"], lambda y: np.where(y < 0, 0.3 * y, y)),
]


@pytest.mark.parametrize(("fused", "function"), EPILOGUES)
def test_an_epilogue_follows_the_product(fused: list[bytes], function: Any) -> None:
    a, b, bias = singles(4, 3), singles(3, 5, seed=2), singles(5, seed=3)
    found = run("_FusedMatMul", a, b, bias, fused_ops=fused, leakyrelu_alpha=0.3)
    np.testing.assert_allclose(found, function(a @ b + bias), rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32
    x, w = singles(2, 5, 5, 3), singles(2, 2, 3, 5, seed=2)
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    found = run("_FusedConv2D", x, w, bias, fused_ops=fused, leakyrelu_alpha=0.3, **attrs)
    plain = run("Conv2D", x, w, **attrs)
    np.testing.assert_allclose(found, function(plain + bias), rtol=1e-5, atol=1e-6)


def test_other_convolutions_have_epilogues_too() -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME"}
    x, w, bias = singles(2, 4, 4, 3), singles(2, 2, 3, 2, seed=2), singles(6, seed=3)
    found = run("_FusedDepthwiseConv2dNative", x, w, bias, fused_ops=[b"BiasAdd", b"Relu"], **attrs)
    plain = run("DepthwiseConv2dNative", x, w, **attrs)
    np.testing.assert_allclose(found, np.maximum(plain + bias, 0), rtol=1e-5)
    attrs = {"strides": [1, 1, 1, 1, 1], "padding": b"VALID"}
    x, w = singles(1, 4, 4, 4, 2), singles(2, 2, 2, 2, 6, seed=2)
    found = run("_FusedConv3D", x, w, bias, fused_ops=[b"BiasAdd"], **attrs)
    np.testing.assert_allclose(found, run("Conv3D", x, w, **attrs) + bias, rtol=1e-5)
    padded = run(
        "_FusedConv3D",
        x,
        w,
        bias,
        fused_ops=[b"BiasAdd"],
        padding_list=[0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        **attrs,
    )
    np.testing.assert_allclose(padded[:, 1:], found, rtol=1e-5)


def test_channels_that_come_second_get_their_own_bias() -> None:
    x, w, bias = singles(2, 3, 5, 4), singles(2, 2, 3, 6, seed=2), singles(6, seed=3)
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME", "data_format": b"NCHW"}
    found = run("_FusedConv2D", x, w, bias, fused_ops=[b"BiasAdd"], **attrs)
    np.testing.assert_allclose(found, run("Conv2D", x, w, **attrs) + bias[:, None, None], rtol=1e-5)


def test_a_batch_norm_and_sums_are_epilogues_too() -> None:
    a, b, other = singles(4, 3), singles(3, 5, seed=2), singles(4, 5, seed=3)
    scale, offset, mean, variance = (abs(singles(5, seed=seed)) for seed in (4, 5, 6, 7))
    found = run(
        "_FusedMatMul", a, b, scale, offset, mean, variance, other, fused_ops=[b"FusedBatchNorm", b"Add"],
        epsilon=1e-3,
    )  # fmt: skip
    expected = (a @ b - mean) / np.sqrt(variance + 1e-3) * scale + offset + other
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_batch_of_products_is_scaled_and_masked() -> None:
    x, y, mask = singles(2, 3, 4), singles(2, 4, 3, seed=2), singles(1, 3, 3, seed=3)
    half = np.float32(0.5)
    found = run("_MklFusedBatchMatMulV2", x, y, half, mask, fused_ops=[b"Mul", b"Add"])
    np.testing.assert_allclose(found, x @ y * half + mask, rtol=1e-5, atol=1e-6)


def test_an_activation_follows_a_batch_norm_and_its_side_input() -> None:
    x, side = singles(2, 3, 3, 2), singles(2, 3, 3, 2, seed=2)
    statistics = [abs(singles(2, seed=seed)) for seed in (3, 4, 5, 6)]
    plain = run("FusedBatchNormV3", x, *statistics, is_training=False)
    found = run(
        "_FusedBatchNormEx", x, *statistics, side, is_training=False, activation_mode=b"Relu"
    )
    np.testing.assert_allclose(found[0], np.maximum(plain[0] + side, 0), rtol=1e-5, atol=1e-6)
    for a, b in zip(found[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("axes", "channels"), [([1, 2], -1), ([2, 3], 1)])
def test_instance_norm_is_per_image_and_channel(axes: list[int], channels: int) -> None:
    x = singles(2, 4, 5, 3)
    gamma, beta = (singles(x.shape[channels], seed=seed) for seed in (2, 3))
    shape = [1, 1, 1, -1] if channels == -1 else [1, -1, 1, 1]
    mean, variance = x.mean(tuple(axes), keepdims=True), x.var(tuple(axes), keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-3) * gamma.reshape(shape) + beta.reshape(shape)
    found = run(
        "_MklFusedInstanceNorm",
        x,
        gamma,
        beta,
        reduction_axes=axes,
        epsilon=1e-3,
        fused_ops=[b"Relu"],
    )
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


def test_layer_norm_is_along_the_last_axis() -> None:
    x, scale, offset = singles(3, 6), singles(6, seed=2), singles(6, seed=3)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + 1e-3
    ) * scale + offset
    np.testing.assert_allclose(
        run("_MklLayerNorm", x, scale, offset), expected, rtol=1e-4, atol=1e-5
    )


def test_functions_of_single_elements() -> None:
    x = np.array([-200, -1, 0, 1, 200], np.float32)
    np.testing.assert_allclose(run("_MklSwish", x), [0, -0.26894143, 0, 0.7310586, 200], rtol=1e-6)
    np.testing.assert_allclose(
        run("_MklFusedMish", x), [0, -0.30340147, 0, 0.865098, 200], rtol=1e-6
    )
    chain = run("_UnaryOpsComposition", x, op_names=[b"Abs", b"Sqrt", b"Neg"])
    np.testing.assert_allclose(chain, -np.sqrt(abs(x)))
    copied = run("Snapshot", x)
    assert copied.tolist() == x.tolist()
    assert not np.shares_memory(copied, x)


IMAGE, FILTER = singles(1, 4, 4, 3), singles(2, 2, 3, 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("_MklSwish", [-0.26894142, 0, 3.9280552]), ("_FusedHardSwish", [-1 / 3, 0, 4])],
)
def test_an_epilogue_may_be_a_chain(name: str, expected: Any) -> None:
    x, w = np.array([[-1, 0, 4]], np.float32), np.eye(3, dtype=np.float32)
    found = run(
        "_FusedMatMul", x, w, np.zeros(3, np.float32), fused_ops=[b"BiasAdd", name.encode()]
    )
    np.testing.assert_allclose(found, [expected], rtol=1e-6)


def test_rows_are_stacked_whole_or_one_by_one() -> None:
    rows = [singles(1, 2, seed=seed) for seed in range(3)]
    whole = run("ParallelConcat", *rows)
    made = run("_ParallelConcatStart", shape=[3, 2], dtype=dtypes.float32)
    for place in (2, 0, -2):
        made = run("_ParallelConcatUpdate", made, rows[place], loc=place)
    np.testing.assert_array_equal(whole, np.concatenate(rows))
    np.testing.assert_array_equal(made, whole)
    words = run("_ParallelConcatStart", shape=[1], dtype=dtypes.string)
    assert run("_ParallelConcatUpdate", words, np.array([b"x"], object), loc=0).tolist() == [b"x"]


FLAT = {"strides": [1, 1, 1, 1], "padding": b"VALID"}
REFUSED = [
    ("_FusedMatMul", (IMAGE[0, 0], IMAGE[0, 0].T), {"fused_ops": [b"Quantize"]}, "Quantize in fused_ops"),
    ("_FusedMatMul", (IMAGE[0, 0], IMAGE[0, 0].T), {"fused_ops": [b"BiasAdd"]}, "take 1 args, not 0"),
    ("_UnaryOpsComposition", (IMAGE,), {"op_names": [b"Softmax"]}, "Softmax"),
    ("Conv2D", (IMAGE, singles(2, 2, 4, 1)), FLAT, "evenly divisible by filter depth: 3 vs 4"),
    ("Conv2D", (IMAGE[0], FILTER), FLAT, "must be 4-dimensional"),
    ("Conv2D", (IMAGE, singles(6, 2, 3, 1)), FLAT, "larger than the padded input"),
    ("Conv2D", (IMAGE, FILTER), {**FLAT, "strides": [2, 1, 1, 1]}, "1 for the batch"),
    ("Conv2DBackpropInput", (np.array(IMAGE.shape), FILTER, singles(1, 4, 4, 1)), FLAT, "must have the shape"),
    ("MaxPool", (IMAGE,), {**FLAT, "ksize": [1, 1, 1, 3]}, "reshape first"),
    ("AvgPoolGrad", (np.array(IMAGE.shape), IMAGE), {**FLAT, "ksize": [1, 2, 2, 1]}, "shape of the output"),
    ("FusedBatchNormV3", (IMAGE, *[singles(4)] * 4), {}, "got 4 and 3"),
    ("_FusedConv2D", (IMAGE, FILTER), {**FLAT, "filter_format": b"OIHW"}, "HWIO"),
    ("ParallelConcat", (IMAGE, IMAGE[:, :2]), {}, "of one shape"),
    ("_ParallelConcatUpdate", (FILTER, FILTER), {"loc": 0}, "does not fit"),
    ("_ParallelConcatUpdate", (FILTER, FILTER[:1]), {"loc": 9}, "no row 9"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "attrs", "text"), REFUSED)
def test_a_kernel_refuses(name: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(errors.OpError, match=text):
        run(name, *inputs, **attrs)


def test_half_precision_is_computed_in_single() -> None:
    x, w = singles(1, 4, 4, 3).astype(np.float16), singles(2, 2, 3, 1).astype(np.float16)
    found = run("Conv2D", x, w, **FLAT)
    expected = run("Conv2D", x.astype(np.float32), w.astype(np.float32), **FLAT)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, expected.astype(np.float16))


def test_every_op_of_these_families_is_run_here() -> None:
    source = Path(__file__).read_text()
    ours = ops_of(FAMILIES)
    assert {name for name in ours if f'"{name}"' not in source} == set()
    assert len(ours) > 15
