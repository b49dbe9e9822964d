"""Kernels of activations, bias, softmax, cross entropies, dropout: tables of values worked out by hand."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.graph.registry import OPS, get
from headrace.ops._kernels import exponentials
from headrace.ops.nn import activations
from headrace.run.exec.worker_pool import WorkerPool

E = math.e
LN2 = math.log(2)
X = [-math.inf, -1.0, 0.0, 0.5, 7.0, math.nan]
NAN = math.nan
SCALE, ALPHA = 1.0507009873554805, 1.7580993408473766

# op -> outputs at X
ACTIVATIONS = {
    "Relu": [0, 0, 0, 0.5, 7, NAN],
    "Relu6": [0, 0, 0, 0.5, 6, NAN],
    "Elu": [-1, 1 / E - 1, 0, 0.5, 7, NAN],
    "Selu": [-ALPHA, ALPHA * (1 / E - 1), 0, SCALE / 2, SCALE * 7, NAN],
    "LeakyRelu": [-math.inf, -0.2, 0, 0.5, 7, NAN],
    "Softplus": [0, math.log(1 + 1 / E), LN2, math.log(1 + E**0.5), math.log(1 + E**7), NAN],
    "Softsign": [NAN, -0.5, 0, 1 / 3, 7 / 8, NAN],
}
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
TOLERANCES = dict(zip(FLOATS, [1e-6, 1e-7, 2e-3, 2e-2], strict=True))


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    spec = OPS[name]
    defaults = {k: spec.attrs[k].default for k in spec.kernel_attrs}
    with np.errstate(all="ignore"):
        return spec.kernel(np, *inputs, **{**defaults, **attrs})


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, kind: Any) -> None:
    found = run(name, np.array(X, kind))
    assert found.dtype == kind
    tolerance = TOLERANCES[kind]
    wide, expected = found.astype(np.float64), np.array(ACTIVATIONS[name])
    np.testing.assert_allclose(wide, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["Relu", "Relu6"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint16])
def test_relus_of_integers_stay_integers(name: str, kind: Any) -> None:
    found = run(name, np.array([0, 1, 100]).astype(kind))
    assert found.dtype == kind
    assert found.tolist() == [0, 1, 100 if name == "Relu" else 6]


@pytest.mark.parametrize("name", ["Relu", "Relu6", "Elu", "ReluGrad", "Relu6Grad", "EluGrad"])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_large_arrays_get_what_small_ones_get(name: str, kind: Any, monkeypatch: Any) -> None:
    count = 2 if name.endswith("Grad") else 1
    rng = np.random.default_rng(5)
    arrays = [rng.choice([*X, -0.5, 3.0, 6.0], 10_000).astype(kind) for _ in range(count)]
    small = np.concatenate(
        [run(name, *(x[at : at + 7] for x in arrays)) for at in range(0, 10_000, 7)]
    )
    for block in (1 << 16, 3000):  # compared as a whole, and in parts by two threads
        for module in (activations, exponentials):
            monkeypatch.setattr(module, "BLOCK", block)
            monkeypatch.setattr(module, "LARGE", 2 * block)
        with contextlib.closing(WorkerPool(2)) as workers, workers:
            for shape in ((10_000,), (100, 100)):
                found = run(name, *(x.reshape(shape) for x in arrays))
                np.testing.assert_array_equal(found.reshape(-1), small)
                assert found.dtype == kind
            assert workers.started == (block == 3000)


@pytest.mark.parametrize("channels", [1, 3, 32, 700])
@pytest.mark.parametrize("count", [0, 5, 3000])
def test_the_gradient_of_a_bias_is_the_sum_of_all_rows(channels: int, count: int) -> None:
    values = np.random.default_rng(1).integers(-9, 9, (count, channels)).astype(np.float32)
    expected = values.astype(np.int64).sum(axis=0)
    np.testing.assert_array_equal(run("BiasAddGrad", values, data_format=b"NHWC"), expected)


@pytest.mark.parametrize("beta", [1.0, 2.5])
def test_silu_and_its_gradient(beta: float) -> None:
    x = np.linspace(-4, 4, 9)
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x)
        y = tf.nn.silu(given, beta) if beta != 1 else tf.nn.swish(given)
        found, slope = session.run([y, tf.gradients(y, given)[0]])
    sigmoid = 1 / (1 + np.exp(-beta * x))
    np.testing.assert_allclose(found, x * sigmoid)
    np.testing.assert_allclose(slope, sigmoid + beta * x * sigmoid * (1 - sigmoid))


def test_scalars_stay_scalars() -> None:
    for name in ACTIVATIONS:
        found = run(name, np.float32(0.5))
        assert (np.shape(found), found.dtype) == ((), np.float32)


@pytest.mark.parametrize(
    "name", ["ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"]
)
def test_gradient_ops_want_two_equal_shapes(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"\[2\].*\[3\]"):
        run(name, np.zeros(2, np.float32), np.zeros(3, np.float32))


def test_bias_goes_along_the_channels() -> None:
    value, bias = np.zeros((1, 2, 2, 3), np.float32), np.float32([1, 2, 3])
    assert run("BiasAdd", value, bias)[0, 1, 1].tolist() == [1, 2, 3]
    first = run("BiasAdd", value.transpose(0, 3, 1, 2), bias, data_format=b"NCHW")
    assert first[0, :, 1, 1].tolist() == [1, 2, 3]
    grad = run("BiasAddGrad", np.ones((4, 3, 2, 2), np.float32), data_format=b"NCHW")
    assert grad.tolist() == [16, 16, 16]
    assert run("BiasAddGrad", np.ones((4, 3), np.int32)).tolist() == [4, 4, 4]


BIAS_REFUSED = [((3,), (3,)), ((2, 3), (2,)), ((2, 3), (3, 1))]


@pytest.mark.parametrize(("value", "bias"), BIAS_REFUSED)
def test_bias_that_does_not_fit(value: Any, bias: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        run("BiasAdd", np.zeros(value, np.float32), np.zeros(bias, np.float32))


@pytest.mark.parametrize("kind", FLOATS)
def test_softmax_is_safe_from_overflow_and_sums_to_one(kind: Any) -> None:
    logits = np.array([[1000.0, 1000.0, -math.inf], [0.0, 0.0, LN2]], kind)
    found = run("Softmax", logits)
    assert found.dtype == kind
    expected = np.array([[0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    np.testing.assert_allclose(found.astype(float), expected, rtol=TOLERANCES[kind])
    logs = run("LogSoftmax", logits).astype(float)
    np.testing.assert_allclose(np.exp(logs), expected, rtol=5 * TOLERANCES[kind])


def test_softmax_of_nothing_is_nothing() -> None:
    assert run("Softmax", np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert run("Softmax", np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_cross_entropies_agree_on_one_hot_labels() -> None:
    logits = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    classes = np.array([0, 3, 1, 1, 2])
    dense = run("SoftmaxCrossEntropyWithLogits", logits, np.eye(4, dtype=np.float32)[classes])
    sparse = run("SparseSoftmaxCrossEntropyWithLogits", logits, classes)
    for a, b in zip(dense, sparse, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(dense[0], -np.log(probabilities[range(5), classes]), rtol=1e-5)


def test_cross_entropy_does_not_change_the_logits() -> None:
    logits = np.ones((2, 3), np.float32)
    logits.flags.writeable = False  # a kernel that wrote there would raise
    loss, _ = run("SparseSoftmaxCrossEntropyWithLogits", logits, np.array([0, 1]))
    np.testing.assert_allclose(loss, np.log([3.0, 3.0]), rtol=1e-6)
    loss, _ = run("SoftmaxCrossEntropyWithLogits", logits, logits)
    np.testing.assert_allclose(loss, 3 * np.log([3.0, 3.0]), rtol=1e-6)


LABELS_REFUSED = [[0, 3], [0, -1], [0], [[0, 1]]]


@pytest.mark.parametrize("labels", LABELS_REFUSED)
def test_labels_that_are_no_classes(labels: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        run("SparseSoftmaxCrossEntropyWithLogits", np.zeros((2, 3), np.float32), np.array(labels))


def test_in_top_k_counts_ties_for_the_target() -> None:
    predictions = np.float32([[1, 3, 2], [1, 1, 5], [NAN, 1, 2], [1, 2, 3], [2, 2, 2]])
    targets = np.array([2, 0, 1, 5, 1])
    assert run("InTopK", predictions, targets, k=2).tolist() == [True, True, False, False, True]
    assert run("InTopKV2", predictions, targets, np.int64(0)).tolist() == [False] * 5


def test_float_attrs_are_those_of_a_graphdef() -> None:
    with tf.Graph().as_default():
        assert tf.nn.leaky_relu(tf.zeros([1])).op.get_attr("alpha") == float(np.float32(0.2))


def value(tensor: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensor)


def test_dropout_keeps_the_expectation_and_drops_the_share() -> None:
    with tf.Graph().as_default():
        found = value(tf.nn.dropout(tf.ones([100, 100]), rate=0.25, seed=3))
        assert set(np.unique(found).tolist()) == {0, np.float32(1 / 0.75)}
        assert abs(found.mean() - 1) < 0.02
        together = value(tf.nn.dropout(tf.ones([100, 10]), rate=0.5, noise_shape=[100, 1], seed=3))
        assert all(len(set(row.tolist())) == 1 for row in together)


def test_moments_normalization_and_zero_fraction() -> None:
    with tf.Graph().as_default():
        x = tf.constant([[1.0, 2.0], [3.0, 6.0]])
        mean, variance = tf.nn.moments(x, [0])
        assert (value(mean).tolist(), value(variance).tolist()) == ([2, 4], [1, 4])
        assert value(tf.nn.zero_fraction([0.0, 1.0, 0.0, 0.0])) == 0.75
        unit = value(tf.nn.l2_normalize([3.0, 4.0], 0))
        np.testing.assert_allclose(unit, [0.6, 0.8], rtol=1e-6)
        normal = value(tf.nn.batch_normalization(x, mean, tf.constant([1.0, 4.0]), 10.0, 2.0, 0.0))
        np.testing.assert_allclose(normal, [[8, 8], [12, 12]], rtol=1e-6)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_embeddings_are_found_in_whichever_part_they_lie(parts: int, strategy: str) -> None:
    table = np.arange(14.0, dtype=np.float32).reshape(7, 2)
    order = np.arange(7)
    pieces = (
        [order[i::parts] for i in range(parts)]
        if strategy == "mod"
        else np.array_split(order, parts)
    )
    with tf.Graph().as_default():
        params = [tf.constant(table[piece]) for piece in pieces]
        ids = [[0, 6, 3], [1, 5, 5]]
        found = value(tf.nn.embedding_lookup(params, ids, strategy))
    np.testing.assert_array_equal(found, table[ids])


def test_every_nn_op_takes_an_unknown_shape() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32)
        for name in [*ACTIVATIONS, "Softmax", "LogSoftmax", "L2Loss"]:
            assert get(name)(x).shape.ndims in (None, 0)
