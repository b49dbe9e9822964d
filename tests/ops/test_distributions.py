"""tf.distributions: densities against quadrature and formulas, draws against their moments, classes of one's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import headrace as tf

d = tf.distributions
POSITIVE, REAL, UNIT = (1e-6, 60.0), (-60.0, 60.0), (1e-6, 1 - 1e-6)
CONTINUOUS: dict[str, tuple[Any, tuple[float, float]]] = {
    "Normal": (lambda: d.Normal(np.float64(0.7), np.float64(1.6)), REAL),
    "Uniform": (lambda: d.Uniform(np.float64(-1.0), np.float64(2.0)), REAL),
    "Laplace": (lambda: d.Laplace(np.float64(0.7), np.float64(1.6)), REAL),
    "StudentT": (lambda: d.StudentT(np.float64(7.0), np.float64(0.7), np.float64(1.6)), REAL),
    "Gamma": (lambda: d.Gamma(np.float64(2.5), np.float64(1.5)), POSITIVE),
    "Exponential": (lambda: d.Exponential(np.float64(1.5)), POSITIVE),
    "Beta": (lambda: d.Beta(np.float64(2.5), np.float64(1.5)), UNIT),
}


def values(*fetched: Any) -> Any:
    with tf.Session() as session:
        return session.run(list(fetched))


def integral(y: Any, x: Any) -> float:
    return float(np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_density_has_its_moments_its_entropy_and_its_draws(name: str) -> None:
    make, (low, high) = CONTINUOUS[name]
    x = np.linspace(low, high, 400_001)
    with tf.Graph().as_default():
        made = make()
        p, log_p, below, above = values(
            made.prob(x), made.log_prob(x[::9]), made.cdf(x[::9]), made.survival_function(x[::9])
        )
        mean, variance, entropy = values(made.mean(), made.variance(), made.entropy())
        drawn = values(made.sample([20_000], seed=3))[0]
    assert integral(p, x) == pytest.approx(1, abs=2e-4)
    assert integral(p * x, x) == pytest.approx(mean, abs=2e-3)
    assert integral(p * (x - mean) ** 2, x) == pytest.approx(variance, abs=2e-2)
    logs = np.log(np.where(p > 0, p, 1))
    assert integral(-p * logs, x) == pytest.approx(entropy, abs=2e-3)
    np.testing.assert_allclose(np.exp(log_p), p[::9], atol=1e-12)
    np.testing.assert_allclose(below + above, 1, atol=1e-9)
    summed = np.cumsum(p) * (x[1] - x[0])
    np.testing.assert_allclose(below, summed[::9], atol=1e-3)
    assert drawn.mean() == pytest.approx(mean, abs=0.08)
    assert drawn.var() == pytest.approx(variance, rel=0.1)


def test_counts_sum_to_what_is_drawn_and_their_masses_to_one() -> None:
    counts = np.array([[n, 3 - n] for n in range(4)], np.float32)
    with tf.Graph().as_default():
        for made in (d.Multinomial(3.0, probs=[0.2, 0.8]), d.DirichletMultinomial(3.0, [2.0, 1.5])):
            p, mean, covariance, drawn = values(
                made.prob(counts), made.mean(), made.covariance(), made.sample(4000, seed=1)
            )
            assert p.sum() == pytest.approx(1, rel=1e-5)
            np.testing.assert_allclose(p @ counts, mean, rtol=1e-5)
            apart = counts - mean
            np.testing.assert_allclose((p[:, None] * apart).T @ apart, covariance, rtol=1e-4)
            assert (drawn.sum(-1) == 3).all()
            np.testing.assert_allclose(drawn.mean(0), mean, atol=0.08)


def test_logs_of_small_probabilities_lose_nothing() -> None:
    x = np.array([-8.0, -25.0, -40.0, -100.0, 9.0])
    with tf.Graph().as_default():
        normal = d.Normal(np.float64(0.0), np.float64(1.0))
        found = values(normal.log_cdf(x), normal.log_survival_function(-x))
    wanted = [math.log(0.5 * math.erfc(-at / math.sqrt(2))) for at in (-8.0, -25.0)]
    np.testing.assert_allclose(found[0][:2], wanted, rtol=1e-9)
    np.testing.assert_allclose(found[0][2:4], [-804.608442, -5005.5242087], rtol=1e-8)
    np.testing.assert_allclose(found[0], found[1])


class Triangle(d.Distribution):
    """A class of a program's own, with little but a density and draws."""

    def __init__(self, width: Any, name: str = "Triangle") -> None:
        with tf.name_scope(name) as scope:
            self.width = tf.convert_to_tensor(width, name="width")
        super().__init__(
            tf.float32,
            d.FULLY_REPARAMETERIZED,
            False,
            True,
            parameters={"width": width, "name": name},
            graph_parents=[self.width],
            name=scope,
        )

    def _batch_shape(self) -> Any:
        return self.width.shape

    def _event_shape(self) -> Any:
        return tf.TensorShape([])

    def _prob(self, value: Any) -> Any:
        return tf.maximum(0.0, 1.0 - tf.abs(value / self.width)) / self.width

    def _cdf(self, value: Any) -> Any:
        side = 0.5 * tf.square(1.0 - tf.abs(value / self.width))
        return tf.where(value < 0.0, side, 1.0 - side)

    def _variance(self) -> Any:
        return tf.square(self.width) / 6.0

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        return self.width * (tf.random_uniform([n], seed=seed) - tf.random_uniform([n], seed=4))


def test_what_follows_from_what_a_class_defines() -> None:
    with tf.Graph().as_default():
        made = Triangle(2.0)
        log_p, above, width, drawn = values(
            made.log_prob(0.5), made.survival_function(-1.0), made.stddev(), made.sample([2, 3])
        )
        assert made.log_prob(0.5).op.name.startswith("Triangle/log_prob_1/")
        assert str(made.copy(width=3.0)).startswith('tfp.distributions.Triangle("Triangle_1/"')
        with pytest.raises(NotImplementedError, match="entropy is not implemented: Triangle"):
            made.entropy()
        with pytest.raises(NotImplementedError, match=r"No KL.*Triangle"):
            d.kl_divergence(made, made)
    assert log_p == pytest.approx(math.log(0.375))
    assert above == pytest.approx(0.875)
    assert width == pytest.approx(2 / math.sqrt(6))
    assert drawn.shape == (2, 3)


def test_the_divergence_of_the_nearest_bases_is_taken() -> None:
    class Wide(d.Normal):
        pass

    with tf.Graph().as_default():
        a, b = Wide(0.0, 1.0), d.Normal(1.0, 2.0)
        (found,) = values(d.kl_divergence(a, b))
        assert found == pytest.approx(math.log(2) + 2 / 8 - 0.5)
        d.RegisterKL(Wide, d.Normal)(lambda a, b, name=None: tf.constant(np.nan))
        assert np.isnan(values(a.kl_divergence(b))[0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="returned NaN values"):
            values(d.kl_divergence(a, b, allow_nan_stats=False))
        with pytest.raises(ValueError, match="already been registered"):
            d.RegisterKL(d.Normal, d.Normal)(len)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: d.Normal(0.0, -1.0, validate_args=True).mean(), "x > 0"),
        (lambda: d.Bernoulli(probs=0.5, validate_args=True).prob(2), "cannot exceed 1"),
        (lambda: d.Beta(0.5, 0.5, allow_nan_stats=False).mode(), "Mode undefined"),
        (lambda: d.Multinomial(2.0, [0.1, 0.2], validate_args=True).prob([1.0, 2.0]), "must sum"),
    ],
)
def test_what_is_not_valid_is_said(make: Any, says: str) -> None:
    with tf.Graph().as_default(), pytest.raises(tf.errors.InvalidArgumentError, match=says):
        values(make())
