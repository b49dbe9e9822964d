"""Transformations that are learned, beside Jacobians in NumPy; vectors as triangles; percentiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

ds = tf.contrib.distributions
bs = ds.bijectors
X = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
JACOBIAN: dict[str, Callable[[], Any]] = {
    "masked autoregressive": lambda: bs.MaskedAutoregressiveFlow(
        bs.masked_autoregressive_default_template([16, 16], activation=tf.tanh)
    ),
    "unrolled": lambda: bs.MaskedAutoregressiveFlow(
        bs.masked_autoregressive_default_template([12]), unroll_loop=True
    ),
    "shift alone": lambda: bs.MaskedAutoregressiveFlow(
        bs.masked_autoregressive_default_template([12], shift_only=True), is_constant_jacobian=True
    ),
    "inverse autoregressive": lambda: bs.Invert(
        bs.MaskedAutoregressiveFlow(bs.masked_autoregressive_default_template([16]))
    ),
    "real nvp": lambda: bs.RealNVP(2, bs.real_nvp_default_template([16, 16])),
    "real nvp, shift alone": lambda: bs.RealNVP(
        1, bs.real_nvp_default_template([8], shift_only=True)
    ),
    "a chain": lambda: bs.Chain(
        [
            bs.RealNVP(2, bs.real_nvp_default_template([8])),
            bs.Permute([3, 1, 0, 2]),
            bs.MaskedAutoregressiveFlow(bs.masked_autoregressive_default_template([8])),
        ]
    ),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        tf.set_random_seed(5)
        yield made


def values(*fetched: Any) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetched))


@pytest.mark.parametrize("case", JACOBIAN)
def test_logarithms_of_determinants_are_those_of_the_jacobian(case: str) -> None:
    flow = JACOBIAN[case]()
    x = tf.constant(X)
    y = flow.forward(x)
    assert y.shape == (5, 4)
    again = flow.inverse(tf.identity(y))
    rows = [tf.gradients(y[:, at], x)[0] for at in range(4)]
    log = flow.forward_log_det_jacobian(x, event_ndims=1) + tf.zeros([5])
    back = flow.inverse_log_det_jacobian(tf.identity(y), event_ndims=1) + tf.zeros([5])
    jacobian, log, back, again = values(tf.stack(rows, 1), log, back, again)
    np.testing.assert_allclose(again, X, atol=1e-4)
    wanted = np.log(np.abs(np.linalg.det(jacobian.astype(np.float64))))
    np.testing.assert_allclose(log, wanted, atol=1e-3)
    np.testing.assert_allclose(back, -wanted, atol=1e-3)
    if "autoregressive" in case:
        assert np.abs(np.triu(jacobian, 1)).max() < 1e-6


def test_units_see_inputs_of_earlier_blocks_alone() -> None:
    x = tf.constant(X)
    seen = bs.masked_dense(x, 8, num_blocks=2, exclusive=False)
    before = bs.masked_dense(x, 8, num_blocks=4, exclusive=True)
    first, second = values(
        tf.stack([tf.gradients(seen[:, at], x)[0][0] for at in range(8)]),
        tf.stack([tf.gradients(before[:, at], x)[0][0] for at in range(8)]),
    )
    assert (first != 0).tolist() == [[True, True, False, False]] * 4 + [[True] * 4] * 4
    assert (second != 0).tolist() == [[at < unit // 2 for at in range(4)] for unit in range(8)]


def test_training_keeps_masks_and_finds_a_density() -> None:
    data = np.random.default_rng(1).normal(size=(256, 2)).astype(np.float32)
    data[:, 1] = 0.5 * data[:, 1] + data[:, 0] ** 2
    flow = ds.TransformedDistribution(
        ds.MultivariateNormalDiag(tf.zeros([2])),
        bs.MaskedAutoregressiveFlow(bs.masked_autoregressive_default_template([32, 32])),
    )
    loss = -tf.reduce_mean(flow.log_prob(tf.constant(data)))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    kernel = next(v for v in tf.trainable_variables() if "kernel" in v.name)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(150):
            session.run(step)
        after, kernel = session.run([loss, kernel])
    assert after < before - 0.5
    assert not kernel[1].any()
    assert kernel[0].any()


def test_a_batch_is_normalized_backwards_and_made_wide_again_forwards() -> None:
    norm = bs.BatchNormalization()
    x = tf.constant(X * 3 + 2)
    normal = norm.inverse(x)
    log = norm.inverse_log_det_jacobian(x, event_ndims=1)
    forward = norm.forward(tf.constant(X))
    forward_log = norm.forward_log_det_jacobian(tf.constant(X), event_ndims=1)
    normal, log, forward, forward_log = values(normal, log, forward, forward_log)
    np.testing.assert_allclose(normal.mean(0), np.zeros(4), atol=1e-5)
    variance = (X * 3 + 2).var(0)
    np.testing.assert_allclose(log, -0.5 * np.log(variance + 1e-3).sum(), rtol=1e-4)
    np.testing.assert_allclose(forward, X * np.sqrt(1 + 1e-3), rtol=1e-5)  # by what has moved: 0, 1
    np.testing.assert_allclose(forward_log, 2 * np.log(1 + 1e-3), rtol=1e-3)


def test_vectors_become_triangles_and_vectors_again() -> None:
    x = tf.constant(np.arange(1.0, 7.0, dtype=np.float32))
    lower, upper = ds.fill_triangular(x), ds.fill_triangular(x, upper=True)
    backs = [ds.fill_triangular_inverse(lower), ds.fill_triangular_inverse(upper, upper=True)]
    batch = bs.FillTriangular().forward(tf.constant(np.ones((2, 3), np.float32)))
    assert batch.shape == (2, 2, 2)
    lower, upper, *backs = values(lower, upper, *backs)
    assert lower.tolist() == [[4, 0, 0], [6, 5, 0], [3, 2, 1]]
    assert upper.tolist() == [[1, 2, 3], [0, 5, 6], [0, 0, 4]]
    assert [each.tolist() for each in backs] == [[1, 2, 3, 4, 5, 6]] * 2
    with pytest.raises(ValueError, match="does not correspond to a triangular matrix"):
        ds.fill_triangular([1.0, 2.0])


def test_scales_of_normal_distributions_have_a_positive_diagonal() -> None:
    x = np.array([-3.0, 0.5, -1.0], np.float32)
    scale = bs.ScaleTriL(diag_shift=0.1)
    made = scale.forward(tf.constant(x))
    log = scale.forward_log_det_jacobian(tf.constant(x), event_ndims=1)
    made, back, log = values(made, scale.inverse(tf.identity(made)), log)
    triangle = np.array([[-1.0, 0], [0.5, -3.0]])
    soft = np.log1p(np.exp(np.diag(triangle)))
    np.testing.assert_allclose(made, np.tril(triangle, -1) + np.diag(soft + 0.1), rtol=1e-5)
    np.testing.assert_allclose(back, x, rtol=1e-4)
    np.testing.assert_allclose(log, np.log(1 - np.exp(-soft)).sum(), rtol=1e-4)


@pytest.mark.parametrize("how", ["nearest", "lower", "higher"])
@pytest.mark.parametrize(("axis", "keep"), [(None, False), (0, True), ([1, 2], True), (-1, False)])
def test_percentiles_are_numpys(how: str, axis: Any, keep: bool) -> None:
    x = np.random.default_rng(2).normal(size=(3, 4, 5)).astype(np.float32)
    found = [
        ds.percentile(x, q, axis=axis, interpolation=how, keep_dims=keep)
        for q in (0, 30.0, 51, 100)
    ]
    axes = tuple(axis) if isinstance(axis, list) else axis
    wanted = [np.percentile(x, q, axis=axes, method=how, keepdims=keep) for q in (0, 30, 51, 100)]
    for mine, other in zip(values(*found), wanted, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_what_a_flow_cannot_take_is_said() -> None:
    flow = bs.RealNVP(4, bs.real_nvp_default_template([8]))
    with pytest.raises(ValueError, match="must be smaller than the event size: 4 of 4"):
        flow.forward(tf.constant(X))
    with pytest.raises(NotImplementedError, match="Rightmost dimension must be known"):
        bs.masked_dense(tf.placeholder(tf.float32, [2, None]), 4)
    with pytest.raises(ValueError, match="must be in"):
        ds.percentile(X, 30.0, interpolation="linear")
