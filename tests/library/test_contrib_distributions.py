"""tf.contrib.distributions: densities beside formulas in NumPy, everything else beside sums over these densities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

ds = tf.contrib.distributions
bs = ds.bijectors
lgamma = np.vectorize(math.lgamma)
REALS = np.linspace(-60, 60, 240_001)
POSITIVE = np.linspace(1e-4, 120, 600_001)
COUNTS = np.arange(0.0, 400.0)
SHARES = np.linspace(1e-5, 1 - 1e-5, 400_001)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def value_of(tensor: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensor)


def normal(x: Any, loc: float, scale: float) -> Any:
    return np.exp(-0.5 * ((x - loc) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))


def logistic(x: Any, loc: float, scale: float) -> Any:
    e = np.exp(-np.abs(x - loc) / scale)
    return e / (scale * (1 + e) ** 2)


def of_counts(logs: Any) -> Any:
    return np.exp(logs)


def gamma(x: Any, a: float, b: float) -> Any:
    return np.exp(a * math.log(b) + (a - 1) * np.log(x) - b * x - math.lgamma(a))


def negative_binomial(k: Any, r: float, p: float) -> Any:
    ways = lgamma(k + r) - lgamma(k + 1) - math.lgamma(r)
    return np.exp(ways + r * math.log(1 - p) + k * math.log(p))


def binomial(k: Any, n: float, p: float) -> Any:
    ways = math.lgamma(n + 1) - lgamma(k + 1) - lgamma(np.maximum(n - k, 0) + 1)
    found = np.exp(ways + k * math.log(p) + (n - k) * math.log(1 - p))
    return np.where(k <= n, found, 0.0)


def relaxed(x: Any, heat: float, logit: float) -> Any:
    """Maddison, Mnih, Teh: the density of a binary Concrete variable."""
    alpha = math.exp(logit)
    top = heat * alpha * x ** (-heat - 1) * (1 - x) ** (-heat - 1)
    return top / (alpha * x**-heat + (1 - x) ** -heat) ** 2


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


# name: (distribution, its density, where it is more than nothing)
ONE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any]] = {
    "logistic": (lambda: ds.Logistic(F64(1), F64(0.7)), lambda x: logistic(x, 1, 0.7), REALS),
    "half normal": (lambda: ds.HalfNormal(F64(1.5)), lambda x: 2 * normal(x, 0, 1.5), POSITIVE),
    "inverse gamma": (
        lambda: ds.InverseGamma(F64(9.0), F64(5.0)),
        lambda x: gamma(1 / x, 9.0, 5.0) / x**2,
        POSITIVE,
    ),
    "chi2": (lambda: ds.Chi2(F64(5)), lambda x: gamma(x, 2.5, 0.5), POSITIVE),
    "chi2 abs": (lambda: ds.Chi2WithAbsDf(F64(-5.5)), lambda x: gamma(x, 2.5, 0.5), POSITIVE),
    "softplus normal": (
        lambda: ds.NormalWithSoftplusScale(F64(1), F64(0.3)),
        lambda x: normal(x, 1, softplus(0.3)),
        REALS,
    ),
    "softplus gamma": (
        lambda: ds.GammaWithSoftplusConcentrationRate(F64(3), F64(0.5)),
        lambda x: gamma(x, softplus(3), softplus(0.5)),
        POSITIVE,
    ),
    "poisson": (
        lambda: ds.Poisson(F64(4.3)),
        lambda k: np.exp(k * math.log(4.3) - 4.3 - lgamma(k + 1)),
        COUNTS,
    ),
    "poisson of logs": (
        lambda: ds.Poisson(log_rate=F64(1.2), interpolate_nondiscrete=False),
        lambda k: np.exp(k * 1.2 - math.exp(1.2) - lgamma(k + 1)),
        COUNTS,
    ),
    "geometric": (lambda: ds.Geometric(probs=F64(0.3)), lambda k: 0.7**k * 0.3, COUNTS),
    "negative binomial": (
        lambda: ds.NegativeBinomial(F64(3.5), probs=F64(0.4)),
        lambda k: negative_binomial(k, 3.5, 0.4),
        COUNTS,
    ),
    "binomial": (
        lambda: ds.Binomial(F64(12), probs=F64(0.4)),
        lambda k: binomial(k, 12, 0.4),
        np.arange(0.0, 13.0),
    ),
    "relaxed bernoulli": (
        lambda: ds.RelaxedBernoulli(F64(0.8), logits=F64(0.4)),
        lambda x: relaxed(x, 0.8, 0.4),
        SHARES,
    ),
    "mixture": (
        lambda: ds.Mixture(
            ds.Categorical(probs=F64([0.3, 0.7])),
            [ds.Normal(F64(-1), F64(0.5)), ds.Normal(F64(2), F64(1))],
        ),
        lambda x: 0.3 * normal(x, -1, 0.5) + 0.7 * normal(x, 2, 1),
        REALS,
    ),
    "mixture of a family": (
        lambda: ds.MixtureSameFamily(
            ds.Categorical(probs=F64([0.3, 0.7])), ds.Normal(F64([-1, 2]), F64([0.5, 1]))
        ),
        lambda x: 0.3 * normal(x, -1, 0.5) + 0.7 * normal(x, 2, 1),
        REALS,
    ),
    "log normal": (
        lambda: ds.TransformedDistribution(ds.Normal(F64(0.2), F64(0.4)), bs.Exp()),
        lambda x: normal(np.log(x), 0.2, 0.4) / x,
        POSITIVE,
    ),
    "gumbel": (
        lambda: ds.TransformedDistribution(
            ds.Uniform(F64(0), F64(1)), bs.Invert(bs.Gumbel(F64(1), F64(2)))
        ),
        lambda x: np.exp(-(x - 1) / 2 - np.exp(-(x - 1) / 2)) / 2,
        np.linspace(-9, 50, 200_001),
    ),
    "weibull": (
        lambda: ds.TransformedDistribution(
            ds.Uniform(F64(0), F64(1)), bs.Invert(bs.Weibull(F64(2), F64(1.5)))
        ),
        lambda x: 0.75 * (x / 2) ** 0.5 * np.exp(-((x / 2) ** 1.5)),
        np.linspace(1e-4, 12, 200_001),
    ),
    "folded": (
        lambda: ds.TransformedDistribution(ds.Normal(F64(0.5), F64(1)), bs.AbsoluteValue()),
        lambda x: normal(x, 0.5, 1) + normal(-x, 0.5, 1),
        POSITIVE,
    ),
}


def F64(value: Any) -> Any:
    return tf.constant(value, tf.float64)


def summed(values: Any, x: Any) -> float:
    """Over counts, or by trapezoids."""
    return float(values.sum() if x is COUNTS or len(x) < 100 else np.trapezoid(values, x))


@pytest.mark.parametrize("name", ONE)
def test_densities_are_the_formulas(name: str) -> None:
    build, density, x = ONE[name]
    some = x[:: max(len(x) // 40, 1)]
    found = value_of([build().prob(some), build().log_prob(some)])
    np.testing.assert_allclose(found[0], density(some), rtol=1e-7, atol=1e-12)
    likely = density(some) > 1e-300
    np.testing.assert_allclose(found[1][likely], np.log(density(some)[likely]), rtol=1e-6)


@pytest.mark.parametrize("name", ONE)
def test_what_follows_from_a_density_does(name: str) -> None:
    build, density, x = ONE[name]
    p = density(x)
    mean = summed(p * x, x)
    logs = np.log(np.where(p > 0, p, 1.0))
    wanted = {
        "mean": mean,
        "variance": summed(p * (x - mean) ** 2, x),
        "stddev": math.sqrt(summed(p * (x - mean) ** 2, x)),
        "entropy": -summed(p * logs, x),
        "mode": x[np.argmax(p)],
    }
    for what, want in wanted.items():
        try:
            found = getattr(build(), what)()
        except NotImplementedError:
            continue
        np.testing.assert_allclose(value_of(found), want, rtol=2e-3, atol=2e-3, err_msg=what)
    at = x[np.searchsorted(np.cumsum(p) / p.sum(), [0.1, 0.5, 0.9])]
    below = [summed(np.where(x <= each, p, 0.0), x) for each in at]
    for what, change in (
        ("cdf", lambda v: v),
        ("log_cdf", np.log),
        ("survival_function", lambda v: 1 - np.array(v)),
        ("log_survival_function", lambda v: np.log(1 - np.array(v))),
    ):
        try:
            found = getattr(build(), what)(at)
        except NotImplementedError:
            continue
        np.testing.assert_allclose(value_of(found), change(below), rtol=2e-3, err_msg=what)
    try:
        found = build().quantile(np.array([0.25, 0.75]))
        np.testing.assert_allclose(value_of(build().cdf(found)), [0.25, 0.75], rtol=1e-6)
    except NotImplementedError:
        pass


@pytest.mark.parametrize("name", [each for each in ONE if each != "binomial"])
def test_draws_have_the_mean_and_the_spread(name: str) -> None:
    build, density, x = ONE[name]
    drawn = value_of(build().sample([200, 300], seed=11))
    assert drawn.shape == (200, 300)
    p = density(x)
    mean = summed(p * x, x)
    spread = math.sqrt(summed(p * (x - mean) ** 2, x))
    assert abs(drawn.mean() - mean) < 5 * spread / math.sqrt(drawn.size)
    assert abs(drawn.std() / spread - 1) < 0.05


def test_cauchys_distribution_has_no_mean() -> None:
    made = ds.Cauchy(F64(1), F64(2))
    x = np.array([-3.0, 0.0, 1.0, 9.0])
    np.testing.assert_allclose(value_of(made.prob(x)), 1 / (2 * math.pi * (1 + ((x - 1) / 2) ** 2)))
    np.testing.assert_allclose(value_of(made.cdf(x)), np.arctan((x - 1) / 2) / math.pi + 0.5)
    np.testing.assert_allclose(value_of(made.quantile(F64(0.75))), 3.0)
    np.testing.assert_allclose(value_of(made.entropy()), math.log(8 * math.pi))
    assert np.isnan(value_of(made.mean()))
    assert abs(np.median(value_of(made.sample(100_001, seed=3))) - 1) < 0.05
    with pytest.raises(ValueError, match="`mean` is undefined"):
        ds.Cauchy(F64(1), F64(2), allow_nan_stats=False).mean()


def test_what_is_always_the_same() -> None:
    made = ds.Deterministic(F64([1.0, 2.0]), atol=0.1)
    assert value_of(made.prob(F64([1.05, 2.2]))).tolist() == [1.0, 0.0]
    assert value_of(made.cdf(F64([0.95, 1.0]))).tolist() == [1.0, 0.0]
    assert value_of(made.sample(3)).tolist() == [[1.0, 2.0]] * 3
    assert value_of([made.entropy(), made.variance()])[0].tolist() == [0.0, 0.0]
    vector = ds.VectorDeterministic(F64([[1.0, 2.0], [3.0, 4.0]]))
    assert (vector.batch_shape, vector.event_shape) == ([2], [2])
    assert value_of(vector.prob(F64([1.0, 2.0]))).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="at least rank 1"):
        ds.VectorDeterministic(1.0)


# -- vectors --------------------------------------------------------------------------------------

COVARIANCE = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 0.8]])
LOC = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, -3.0]])
SLIM = np.array([[0.5], [-0.3], [0.8]])


def many_normal(x: Any, loc: Any, covariance: Any) -> Any:
    apart = x - loc
    inner = np.einsum("...i,ij,...j->...", apart, np.linalg.inv(covariance), apart)
    return -0.5 * (inner + len(covariance) * math.log(2 * math.pi)) - 0.5 * np.log(
        np.linalg.det(covariance)
    )


def slim_scale() -> Any:
    return np.diag([1.0, 2.0, 0.5]) + SLIM @ SLIM.T


NORMALS: dict[str, tuple[Callable[[], Any], Any]] = {
    "diag": (
        lambda: ds.MultivariateNormalDiag(LOC, np.array([1.0, 2.0, 0.5])),
        np.diag([1.0, 4.0, 0.25]),
    ),
    "identity": (
        lambda: ds.MultivariateNormalDiag(LOC, scale_identity_multiplier=F64(1.5)),
        np.eye(3) * 2.25,
    ),
    "softplus": (
        lambda: ds.MultivariateNormalDiagWithSoftplusScale(LOC, np.zeros(3)),
        np.eye(3) * math.log(2) ** 2,
    ),
    "triangle": (
        lambda: ds.MultivariateNormalTriL(LOC, np.linalg.cholesky(COVARIANCE)),
        COVARIANCE,
    ),
    "covariance": (lambda: ds.MultivariateNormalFullCovariance(LOC, COVARIANCE), COVARIANCE),
    "slim": (
        lambda: ds.MultivariateNormalDiagPlusLowRank(
            LOC, scale_diag=np.array([1.0, 2.0, 0.5]), scale_perturb_factor=SLIM
        ),
        slim_scale() @ slim_scale(),
    ),
}


@pytest.mark.parametrize("name", NORMALS)
def test_normal_vectors(name: str) -> None:
    build, covariance = NORMALS[name]
    made = build()
    assert (made.batch_shape, made.event_shape) == ([2], [3])
    x = np.random.RandomState(3).randn(5, 2, 3)
    np.testing.assert_allclose(value_of(made.log_prob(x)), many_normal(x, LOC, covariance))
    mean, spread, variance, entropy = value_of(
        [made.mean(), made.covariance(), made.variance(), made.entropy()]
    )
    np.testing.assert_allclose(mean, LOC)
    np.testing.assert_allclose(spread, [covariance] * 2)
    np.testing.assert_allclose(variance, [np.diag(covariance)] * 2)
    want = 0.5 * math.log(np.linalg.det(2 * math.pi * math.e * covariance))
    np.testing.assert_allclose(entropy, [want] * 2)
    drawn = value_of(made.sample(40_000, seed=5))
    np.testing.assert_allclose(drawn.mean(0), LOC, atol=0.06)
    np.testing.assert_allclose(np.cov(drawn[:, 0].T), covariance, atol=0.15)


def test_normal_vectors_are_so_far_apart() -> None:
    a, b = (NORMALS[each] for each in ("triangle", "diag"))
    found = value_of(ds.kl_divergence(a[0](), b[0]()))
    ratio = np.linalg.inv(b[1]) @ a[1]
    want = 0.5 * (np.trace(ratio) - 3 - math.log(np.linalg.det(ratio)))
    np.testing.assert_allclose(found, [want] * 2)


def test_independent_coordinates_are_one_event() -> None:
    made = ds.Independent(ds.Normal(LOC, np.ones(3)), reinterpreted_batch_ndims=1)
    other = ds.Independent(ds.Normal(LOC + 1, np.ones(3)), reinterpreted_batch_ndims=1)
    assert (made.batch_shape, made.event_shape) == ([2], [3])
    x = np.random.RandomState(3).randn(2, 3)
    np.testing.assert_allclose(value_of(made.log_prob(x)), many_normal(x, LOC, np.eye(3)))
    np.testing.assert_allclose(value_of(ds.kl_divergence(made, other)), [1.5, 1.5])
    with pytest.raises(ValueError, match="cannot exceed"):
        ds.Independent(ds.Normal(0.0, 1.0), reinterpreted_batch_ndims=1)


def test_vectors_of_a_mixture_are_of_one_component_each() -> None:
    parts = [
        ds.MultivariateNormalDiag(F64([0.0, 0.0]), F64([0.1, 0.1])),
        ds.MultivariateNormalDiag(F64([9.0, -9.0]), F64([0.1, 0.1])),
    ]
    made = ds.Mixture(ds.Categorical(probs=F64([0.25, 0.75])), parts)
    drawn = value_of(made.sample(4000, seed=1))
    near = np.abs(drawn[:, 0]) < 2
    assert np.array_equal(near, np.abs(drawn[:, 1]) < 2)
    assert abs(near.mean() - 0.25) < 0.03
    np.testing.assert_allclose(value_of(made.mean()), [6.75, -6.75])
    family = ds.MixtureSameFamily(
        ds.Categorical(probs=F64([0.25, 0.75])),
        ds.MultivariateNormalDiag(F64([[0, 0], [9, -9]]), F64([[0.1, 0.1]] * 2)),
    )
    x = drawn[:5]
    np.testing.assert_allclose(*value_of([made.log_prob(x), family.log_prob(x)]))
    np.testing.assert_allclose(
        value_of(family.sample(4000, seed=1)).mean(0), [6.75, -6.75], atol=0.5
    )
    np.testing.assert_allclose(*value_of([made.variance(), family.variance()]))


def test_chosen_classes_as_vectors() -> None:
    probs = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    made = ds.OneHotCategorical(probs=probs)
    drawn = value_of(made.sample(20_000, seed=7))
    assert drawn.shape == (20_000, 2, 3)
    assert (drawn.sum(-1) == 1).all()
    np.testing.assert_allclose(drawn.mean(0), probs, atol=0.02)
    one = np.array([[0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(value_of(made.prob(one)), [0.5, 0.6])
    np.testing.assert_allclose(value_of(made.entropy()), -(probs * np.log(probs)).sum(-1))
    assert value_of(made.mode()).tolist() == one.tolist()
    np.testing.assert_allclose(
        value_of(made.covariance())[0], np.diag(probs[0]) - np.outer(probs[0], probs[0])
    )
    other = ds.OneHotCategorical(probs=probs[::-1].copy())
    np.testing.assert_allclose(
        value_of(ds.kl_divergence(made, other)), (probs * np.log(probs / probs[::-1])).sum(-1)
    )


def test_relaxed_classes_have_the_density_of_the_paper() -> None:
    logits, heat = np.array([0.2, -0.4, 0.7]), 0.6
    made = ds.RelaxedOneHotCategorical(F64(heat), logits=logits)
    x = np.array([[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]])
    alpha = np.exp(logits)
    top = math.gamma(3) * heat**2 * np.prod(alpha * x ** (-heat - 1), -1)
    want = top / np.sum(alpha * x**-heat, -1) ** 3
    np.testing.assert_allclose(value_of(made.prob(x)), want)
    drawn = made.sample(2000, seed=1)
    values, gradient = value_of([drawn, tf.gradients(made.log_prob(drawn), drawn)[0]])
    np.testing.assert_allclose(values.sum(-1), 1.0)
    assert np.isfinite(gradient).all()
    shares = np.bincount(values.argmax(-1), minlength=3) / 2000
    np.testing.assert_allclose(shares, alpha / alpha.sum(), atol=0.05)


# -- transformations ------------------------------------------------------------------------------

TRANSFORMS: dict[str, tuple[Callable[[], Any], Any]] = {
    "Identity": (lambda: bs.Identity(), [0.3, -1.2]),
    "Exp": (lambda: bs.Exp(), [0.3, -1.2]),
    "Sigmoid": (lambda: bs.Sigmoid(), [0.3, -1.2]),
    "Softplus": (lambda: bs.Softplus(), [0.3, -1.2]),
    "soft Softplus": (lambda: bs.Softplus(hinge_softness=F64(0.5)), [0.3, -1.2]),
    "Softsign": (lambda: bs.Softsign(), [0.3, -1.2]),
    "Reciprocal": (lambda: bs.Reciprocal(), [0.3, -1.2]),
    "Square": (lambda: bs.Square(), [0.3, 1.2]),
    "PowerTransform": (lambda: bs.PowerTransform(0.4), [0.3, 1.2]),
    "Gumbel": (lambda: bs.Gumbel(F64(0.1), F64(1.5)), [0.3, -1.2]),
    "Weibull": (lambda: bs.Weibull(F64(1.3), F64(1.5)), [0.3, 1.2]),
    "AffineScalar": (lambda: bs.AffineScalar(F64(1), F64(-2)), [0.3, -1.2]),
    "Affine": (
        lambda: bs.Affine(F64([1, 2]), scale_tril=F64([[1, 0], [3, -2]])),
        [0.3, -1.2],
    ),
    "Affine of a diagonal": (lambda: bs.Affine(F64([1, 2]), scale_diag=F64([2, -3])), [0.3, -1.2]),
    "Affine of a multiple": (
        lambda: bs.Affine(F64([1, 2]), scale_identity_multiplier=F64(3)),
        [0.3, -1.2],
    ),
    "Affine of a perturbed diagonal": (
        lambda: bs.Affine(
            F64([1, 2]), scale_diag=F64([2, 3]), scale_perturb_factor=F64([[1], [0.5]])
        ),
        [0.3, -1.2],
    ),
    "AffineLinearOperator": (
        lambda: bs.AffineLinearOperator(
            F64([1, 2]), tf.linalg.LinearOperatorFullMatrix(F64([[1, 2], [3, 4]])), adjoint=True
        ),
        [0.3, -1.2],
    ),
    "Permute": (lambda: bs.Permute([1, 0]), [0.3, -1.2]),
    "Invert": (lambda: bs.Invert(bs.Exp()), [0.3, 1.2]),
    "Chain": (lambda: bs.Chain([bs.Exp(), bs.AffineScalar(F64(1), F64(0.5))]), [0.3, -1.2]),
    "Chain of vectors": (
        lambda: bs.Chain([bs.Sigmoid(), bs.Affine(F64([1, 2]), scale_diag=F64([2, 3]))]),
        [0.3, -1.2],
    ),
    "Inline": (
        lambda: bs.Inline(tf.exp, tf.log, lambda y: -tf.log(y), forward_min_event_ndims=0),
        [0.3, -1.2],
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transformation_is_inverted_and_has_its_jacobian(name: str) -> None:
    build, point = TRANSFORMS[name]
    x = F64(point)
    y = build().forward(x)
    back = build().inverse(y)  # of another object, which remembers nothing
    rows = tf.stack([tf.gradients(y[at], x)[0] for at in range(2)])
    forth = build().forward_log_det_jacobian(x, event_ndims=1)
    backward = build().inverse_log_det_jacobian(y, event_ndims=1)
    found = value_of([back, rows, forth, backward])
    np.testing.assert_allclose(found[0], point)
    want = np.log(np.abs(np.linalg.det(found[1])))
    np.testing.assert_allclose(found[2], want, atol=1e-12)
    np.testing.assert_allclose(found[3], -want, atol=1e-12)


def test_softmax_with_a_last_class_of_0() -> None:
    x = F64([0.3, -1.2])
    made = bs.SoftmaxCentered()
    y = made.forward(x)
    rows = tf.stack([tf.gradients(y[at], x)[0] for at in range(2)])
    back, jacobian, forth, backward, whole = value_of(
        [
            bs.SoftmaxCentered().inverse(y),
            rows,
            made.forward_log_det_jacobian(x, 1),
            made.inverse_log_det_jacobian(y, 1),
            y,
        ]
    )
    np.testing.assert_allclose(back, [0.3, -1.2])
    np.testing.assert_allclose(whole, np.exp([0.3, -1.2, 0]) / np.exp([0.3, -1.2, 0]).sum())
    np.testing.assert_allclose(forth, math.log(abs(np.linalg.det(jacobian))))
    np.testing.assert_allclose(backward, -forth)
    assert (made.forward_event_shape([2]), made.inverse_event_shape([3])) == ([3], [2])


def test_the_inverse_of_a_draw_is_what_was_drawn() -> None:
    made = bs.Sigmoid()
    x = tf.constant([40.0])  # 1 when squashed, of which nothing could be found again
    y = made.forward(x)
    assert value_of(made.inverse(y)).tolist() == [40.0]
    with pytest.raises(ValueError, match="event_ndims"):
        bs.Affine(scale_diag=[1.0]).forward_log_det_jacobian([1.0], event_ndims=0)


def test_a_transformed_scalar_makes_vectors() -> None:
    made = ds.TransformedDistribution(
        ds.Normal(F64(0), F64(1)),
        bs.Affine(F64([1, 2, 3]), scale_tril=np.linalg.cholesky(COVARIANCE)),
        event_shape=[3],
    )
    assert made.event_shape == [3]
    x = np.random.RandomState(3).randn(4, 3)
    np.testing.assert_allclose(value_of(made.log_prob(x)), many_normal(x, [1, 2, 3], COVARIANCE))
    mean, entropy = value_of([made.mean(), made.entropy()])
    np.testing.assert_allclose(mean, [1, 2, 3])
    np.testing.assert_allclose(
        entropy, 0.5 * math.log(np.linalg.det(2 * math.pi * math.e * COVARIANCE))
    )
    drawn = value_of(made.sample(40_000, seed=4))
    np.testing.assert_allclose(np.cov(drawn.T), COVARIANCE, atol=0.1)


def test_softplus_is_inverted_far_from_0() -> None:
    x = np.array([1e-12, 1e-3, 1.0, 40.0, 700.0])
    found = value_of(ds.softplus_inverse(F64(x)))
    np.testing.assert_allclose(found, x + np.log(-np.expm1(-x)), rtol=1e-6)


def test_parameters_make_another_one() -> None:
    made = ds.Logistic(1.0, 2.0, name="one")
    assert set(made.parameters) == {"loc", "scale", "validate_args", "allow_nan_stats", "name"}
    assert value_of(made.copy(loc=5.0).mean()) == 5.0
    chosen = ds.NormalWithSoftplusScale(1.0, 0.0)
    np.testing.assert_allclose(value_of(chosen.copy(loc=2.0).stddev()), math.log(2), rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: ds.Poisson(), "exactly one"),
        (lambda: ds.Geometric(), "logits, but not both"),
        (lambda: ds.MultivariateNormalDiag(scale_identity_multiplier=1.0), "Cannot infer"),
        (lambda: ds.MultivariateNormalTriL(), "`scale`"),
        (lambda: ds.Mixture(ds.Categorical([0.0, 0.0]), []), "non-empty"),
        (lambda: ds.Mixture(ds.Categorical([0.0, 0.0]), [ds.Normal(0.0, 1.0)]), "2 vs. 1"),
        (lambda: bs.PowerTransform(-1.0), "non-negative"),
        (lambda: bs.Bijector(), "Must specify"),
    ],
)
def test_what_does_not_fit_is_refused(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: ds.HalfNormal(-1.0, validate_args=True).mean(),
        lambda: ds.Poisson(-1.0, validate_args=True).mean(),
        lambda: ds.Poisson(1.0, validate_args=True).prob(-1.0),
        lambda: ds.InverseGamma(-1.0, 1.0, validate_args=True).mode(),
        lambda: ds.MultivariateNormalFullCovariance(
            [0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], validate_args=True
        ).variance(),
    ],
)
def test_arguments_are_checked_where_that_is_asked_for(build: Callable[[], Any]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        value_of(build())
