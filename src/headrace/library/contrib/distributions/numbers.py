"""Distributions of numbers that tf.distributions has not: Logistic, Cauchy, HalfNormal, InverseGamma, Deterministic, …

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15; densities are the textbooks'
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.contrib.distributions.given import initial
from headrace.library.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
)
from headrace.library.distributions.positive import Beta, Gamma
from headrace.library.distributions.real import Laplace, LocScale, Normal, Placed, StudentT
from headrace.library.distributions.support import below, defined, kept, salted
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_static_shape
from headrace.ops.array.constants import constant, fill, ones_like, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_non_negative, assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.elementwise import floor, sigmoid
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.math.reductions import reduce_all
from headrace.ops.nn.activations import softplus
from headrace.ops.random.draws import random_normal, random_uniform
from headrace.ops.random.gamma import random_gamma
from headrace.ops.tables import make

__all__ = [
    "BetaWithSoftplusConcentration",
    "Cauchy",
    "Chi2",
    "Chi2WithAbsDf",
    "Deterministic",
    "GammaWithSoftplusConcentrationRate",
    "HalfNormal",
    "InverseGamma",
    "LaplaceWithSoftplusScale",
    "Logistic",
    "NormalWithSoftplusScale",
    "StudentTWithAbsDfSoftplusScale",
    "VectorDeterministic",
]


def open_uniform(shape: Any, dtype: Any, seed: int | None) -> Tensor:
    """Numbers above 0 and below 1."""
    least = float(np.finfo(dtype.as_numpy_dtype).tiny)
    made: Tensor = random_uniform(shape, minval=least, maxval=1.0, dtype=dtype, seed=seed)
    return made


class _Wide(LocScale):
    """What a place and a width say of every such distribution."""

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def _both(self, value: Any) -> Any:
        """value, of the batch's shape."""
        return value + zeros_like(self.loc) + zeros_like(self.scale)

    def _mean(self) -> Any:
        return self.loc + zeros_like(self.scale)

    def _mode(self) -> Any:
        return self._mean()


class Logistic(_Wide):
    """Of the distribution function 1 / (1 + exp(-(x - loc) / scale))."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Logistic",
    ) -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, initial(locals()))

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        u = open_uniform(self._shape_of_draws(n), self.dtype, seed)
        return self.loc + self.scale * (make.Log(u) - make.Log1p(-u))

    def _log_prob(self, value: Tensor) -> Any:
        z = self._z(value)
        return -z - 2.0 * softplus(-z) - make.Log(self.scale)

    def _cdf(self, value: Tensor) -> Any:
        return sigmoid(self._z(value))

    def _log_cdf(self, value: Tensor) -> Any:
        return -softplus(-self._z(value))

    def _survival_function(self, value: Tensor) -> Any:
        return sigmoid(-self._z(value))

    def _log_survival_function(self, value: Tensor) -> Any:
        return -softplus(self._z(value))

    def _entropy(self) -> Any:
        return self._both(2.0 + make.Log(self.scale))

    def _stddev(self) -> Any:
        return self._both(self.scale * math.pi / math.sqrt(3.0))


class Cauchy(_Wide):
    """Of the density 1 / (π · scale · (1 + z²)), z = (x - loc) / scale; it has neither mean nor variance."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Cauchy",
    ) -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, initial(locals()))

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_uniform(self._shape_of_draws(n), dtype=self.dtype, seed=seed)
        return self._quantile(drawn)

    def _log_prob(self, value: Tensor) -> Any:
        return -make.Log1p(self._z(value) ** 2) - math.log(math.pi) - make.Log(self.scale)

    def _cdf(self, value: Tensor) -> Any:
        return make.Atan(self._z(value)) / math.pi + 0.5

    def _quantile(self, value: Tensor) -> Any:
        return self.loc + self.scale * make.Tan(math.pi * (value - 0.5))

    def _entropy(self) -> Any:
        return self._both(math.log(4 * math.pi) + make.Log(self.scale))

    def _undefined(self, what: str) -> Any:
        if not self.allow_nan_stats:
            raise ValueError(f"`{what}` is undefined for Cauchy distribution.")
        return fill(self.batch_shape_tensor(), np.array(np.nan, self.dtype.np))

    def _mean(self) -> Any:
        return self._undefined("mean")

    def _stddev(self) -> Any:
        return self._undefined("stddev")

    def _mode(self) -> Any:
        return self.loc + zeros_like(self.scale)


class HalfNormal(Distribution):
    """The size of normal draws of mean 0 and standard deviation `scale`."""

    _PARAMETERS = ("scale",)

    def __init__(
        self,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "HalfNormal",
    ) -> None:
        given = initial(locals())
        with (
            name_scope(name, values=[scale]) as scope,
            control_dependencies([assert_positive(scale)] if validate_args else []),
        ):
            self._scale = kept(scale, "scale")
        super().__init__(
            self._scale.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._scale],
            scope,
        )

    @property
    def scale(self) -> Tensor:
        """Of the normal distribution."""
        return self._scale

    def _batch_shape(self) -> Any:
        return self._scale.shape

    def _batch_shape_tensor(self) -> Any:
        return sizes_of(self._scale)

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Any:
        return constant([], dtypes.int32)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = concat([[n], self.batch_shape_tensor()], 0)
        return modulus(self._scale * random_normal(shape, dtype=self.dtype, seed=seed))

    def _log_prob(self, value: Tensor) -> Any:
        density = 0.5 * math.log(2.0 / math.pi) - make.Log(self._scale)
        density = density - 0.5 * (value / self._scale) ** 2
        return where_v2(make.Less(value, 0.0), np.array(-np.inf, self.dtype.np), density)

    def _cdf(self, value: Tensor) -> Any:
        return make.Erf(make.Maximum(value, 0.0) / (self._scale * math.sqrt(2.0)))

    def _quantile(self, value: Tensor) -> Any:
        return math.sqrt(2.0) * self._scale * make.Erfinv(value)

    def _entropy(self) -> Any:
        return 0.5 * math.log(math.pi / 2.0) + make.Log(self._scale) + 0.5

    def _mean(self) -> Any:
        return self._scale * math.sqrt(2.0 / math.pi)

    def _mode(self) -> Any:
        return zeros_like(self._scale)

    def _variance(self) -> Any:
        return self._scale**2 * (1.0 - 2.0 / math.pi)


class InverseGamma(Placed):
    """1 over draws of a gamma distribution of this concentration and rate."""

    _PARAMETERS = ("concentration", "rate")

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "InverseGamma",
    ) -> None:
        given = initial(locals())
        with name_scope(name, values=[concentration, rate]) as scope:
            checks = (
                [assert_positive(concentration), assert_positive(rate)] if validate_args else []
            )
            with control_dependencies(checks):
                self._first_one = kept(concentration, "concentration")
                self._second_one = kept(rate, "rate")
        super().__init__(
            self._first_one.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._first_one, self._second_one],
            scope,
        )

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        return self._first_one

    @property
    def rate(self) -> Tensor:
        """The width."""
        return self._second_one

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_gamma(
            [n], self.concentration, self.rate, self.dtype, salted(seed, "inverse_gamma")
        )
        return 1.0 / drawn

    def _log_prob(self, value: Tensor) -> Any:
        a, b = self.concentration, self.rate
        return -(1.0 + a) * make.Log(value) - b / value + a * make.Log(b) - make.Lgamma(a)

    def _cdf(self, value: Tensor) -> Any:
        wide = zeros_like(value) + self.concentration + zeros_like(self.rate)
        return make.Igammac(wide, self.rate / value + zeros_like(wide))

    def _entropy(self) -> Any:
        a = self.concentration
        found = a + make.Log(self.rate) + make.Lgamma(a)
        return found - (1.0 + a) * make.Digamma(a)

    def _over(self, least: float, value: Any, what: str) -> Any:
        a = self.concentration + zeros_like(self.rate)
        says = f"{what} undefined when any concentration <= {least:g}"
        return defined(
            self,
            lambda: make.Greater(a, least),
            value,
            self.batch_shape_tensor,
            lambda: [below(np.array(least, self.dtype.np), a, says)],
        )

    def _mean(self) -> Any:
        return self._over(1.0, self.rate / (self.concentration - 1.0), "mean")

    def _variance(self) -> Any:
        a = self.concentration
        return self._over(2.0, self.rate**2 / ((a - 1.0) ** 2 * (a - 2.0)), "variance")

    def _mode(self) -> Any:
        return self.rate / (1.0 + self.concentration)


class _At(Distribution):
    """All probability at one place, or as near to it as the tolerances say."""

    _PARAMETERS = ("loc",)
    _RANK = 0

    def __init__(
        self,
        loc: Any,
        atol: Any,
        rtol: Any,
        validate_args: bool,
        allow_nan_stats: bool,
        name: str,
        given: dict[str, Any],
    ) -> None:
        with name_scope(name, values=[loc, atol, rtol]) as scope:
            self._loc = kept(loc, "loc")
            if self._RANK and self._loc.shape.ndims == 0:
                raise ValueError("Argument loc must be at least rank 1.")
            self._atol, self._rtol = (
                constant(0, self._loc.dtype) if each is None else convert(each, self._loc.dtype)
                for each in (atol, rtol)
            )
            if validate_args:
                checks = [
                    assert_non_negative(each, message=f'Argument "{what}" must be non-negative')
                    for each, what in ((self._atol, "atol"), (self._rtol, "rtol"))
                ]
                with control_dependencies(checks):
                    self._loc = identity(self._loc)
        parents = [self._loc, self._atol, self._rtol]
        super().__init__(
            self._loc.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            parents,
            scope,
        )

    @property
    def loc(self) -> Tensor:
        """The place."""
        return self._loc

    @property
    def atol(self) -> Tensor:
        """How far from the place a value may be."""
        return self._atol

    @property
    def rtol(self) -> Tensor:
        """The same, as a share of the place's size."""
        return self._rtol

    def _entropy(self) -> Any:
        return make.Log(ones_like(self._one()))

    def _one(self) -> Any:
        """One number an event, of any value."""
        return self._loc[..., 0] if self._RANK else self._loc

    def _mean(self) -> Any:
        return identity(self._loc)

    def _mode(self) -> Any:
        return identity(self._loc)

    def _variance(self) -> Any:
        return zeros_like(self._loc)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = concat([[n], sizes_of(self._loc)], 0)
        return fill(shape, np.array(0, self.dtype.np)) + self._loc

    def _slack(self) -> Any:
        return self._atol + self._rtol * modulus(self._loc)

    def _batch_shape(self) -> Any:
        whole = self._joint()
        return whole[: -self._RANK] if self._RANK else whole

    def _event_shape(self) -> Any:
        return self._loc.shape[-self._RANK :] if self._RANK else []

    def _joint(self) -> Any:
        found = broadcast_static_shape(self._loc.shape, self._atol.shape)
        return broadcast_static_shape(found, self._rtol.shape)

    def _joint_tensor(self) -> Any:
        found = broadcast_dynamic_shape(sizes_of(self._loc), sizes_of(self._atol))
        return broadcast_dynamic_shape(found, sizes_of(self._rtol))

    def _batch_shape_tensor(self) -> Any:
        whole = self._joint_tensor()
        return whole[: -self._RANK] if self._RANK else whole

    def _event_shape_tensor(self) -> Any:
        return sizes_of(self._loc)[-self._RANK :] if self._RANK else constant([], dtypes.int32)

    def _near(self, value: Tensor) -> Any:
        return make.LessEqual(modulus(value - self._loc), self._slack())


class Deterministic(_At):
    """Always `loc`, number by number."""

    def __init__(
        self,
        loc: Any,
        atol: Any = None,
        rtol: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Deterministic",
    ) -> None:
        """atol, rtol: how far from it a value may be to have probability 1."""
        super().__init__(loc, atol, rtol, validate_args, allow_nan_stats, name, initial(locals()))

    def _prob(self, value: Tensor) -> Any:
        return cast(self._near(value), self.dtype)

    def _cdf(self, value: Tensor) -> Any:
        return cast(make.GreaterEqual(value, self._loc - self._slack()), self.dtype)


class VectorDeterministic(_At):
    """Always `loc`, vector by vector."""

    _RANK = 1

    def __init__(
        self,
        loc: Any,
        atol: Any = None,
        rtol: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "VectorDeterministic",
    ) -> None:
        """loc [B1, …, Bb, n].  Raises ValueError for a scalar."""
        super().__init__(loc, atol, rtol, validate_args, allow_nan_stats, name, initial(locals()))

    def _prob(self, value: Tensor) -> Any:
        return cast(reduce_all(self._near(value), axis=-1), self.dtype)


# -- other parameters ---------------------------------------------------------------------------


class NormalWithSoftplusScale(Normal):
    """Normal, of standard deviation softplus(scale)."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "NormalWithSoftplusScale",
    ) -> None:
        given = initial(locals())
        super().__init__(loc, softplus(scale), validate_args, allow_nan_stats, name)
        self._parameters = given


class LaplaceWithSoftplusScale(Laplace):
    """Laplace, of width softplus(scale)."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LaplaceWithSoftplusScale",
    ) -> None:
        given = initial(locals())
        super().__init__(loc, softplus(scale), validate_args, allow_nan_stats, name)
        self._parameters = given


class StudentTWithAbsDfSoftplusScale(StudentT):
    """StudentT, of floor(|df|) degrees of freedom and width softplus(scale)."""

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentTWithAbsDfSoftplusScale",
    ) -> None:
        given = initial(locals())
        df = floor(modulus(convert(df)))
        super().__init__(df, loc, softplus(scale), validate_args, allow_nan_stats, name)
        self._parameters = given


class GammaWithSoftplusConcentrationRate(Gamma):
    """Gamma, of softplus(concentration) and softplus(rate)."""

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "GammaWithSoftplusConcentrationRate",
    ) -> None:
        given = initial(locals())
        a, b = softplus(concentration), softplus(rate)
        super().__init__(a, b, validate_args, allow_nan_stats, name)
        self._parameters = given


class BetaWithSoftplusConcentration(Beta):
    """Beta, of the softplus of both concentrations."""

    def __init__(
        self,
        concentration1: Any,
        concentration0: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "BetaWithSoftplusConcentration",
    ) -> None:
        given = initial(locals())
        a, b = softplus(concentration1), softplus(concentration0)
        super().__init__(a, b, validate_args, allow_nan_stats, name)
        self._parameters = given


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal draws."""

    def __init__(
        self,
        df: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Chi2",
    ) -> None:
        given = initial(locals())
        with name_scope(name, values=[df]):
            self._df = convert(df, name="df")
        rate = constant(0.5, self._df.dtype)
        super().__init__(0.5 * self._df, rate, validate_args, allow_nan_stats, name)
        self._parameters = given

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self._df


class Chi2WithAbsDf(Chi2):
    """Chi2, of floor(|df|) degrees of freedom."""

    def __init__(
        self,
        df: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Chi2WithAbsDf",
    ) -> None:
        given = initial(locals())
        super().__init__(floor(modulus(convert(df))), validate_args, allow_nan_stats, name)
        self._parameters = given
