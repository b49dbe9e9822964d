"""Distributions of positive numbers and of shares: Gamma, Exponential, Beta, Dirichlet.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.checks.ranks import assert_rank_at_least
from headrace.library.checks.types import assert_same_float_dtype
from headrace.library.checks.values import assert_near
from headrace.library.distributions.base import FULLY_REPARAMETERIZED, Distribution
from headrace.library.distributions.divergence import RegisterKL
from headrace.library.distributions.support import after, below, defined, kept, salted
from headrace.library.small_functions import lbeta
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_static_shape
from headrace.ops.array.constants import constant, ones, ones_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_positive
from headrace.ops.linalg.diagonals import matrix_set_diag
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_all, reduce_sum
from headrace.ops.random.draws import random_uniform
from headrace.ops.random.gamma import random_gamma
from headrace.ops.tables import make

__all__ = ["Beta", "Dirichlet", "Exponential", "Gamma"]

POSITIVE = "Concentration parameter must be positive."


class _Pair(Distribution):
    """What two parameters of the batch's shape define."""

    _first_one: Tensor
    _second_one: Tensor

    def _batch_shape(self) -> Any:
        return broadcast_static_shape(self._first_one.shape, self._second_one.shape)

    def _batch_shape_tensor(self) -> Any:
        return broadcast_dynamic_shape(shape_of(self._first_one), shape_of(self._second_one))

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Tensor:
        return constant([], "int32")


class Gamma(_Pair):
    """Of shape `concentration` and inverse scale `rate`, which broadcast."""

    _PARAMETERS: ClassVar[tuple[str, ...]] = ("concentration", "rate")

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[concentration, rate]) as scope:
            checks = (
                [assert_positive(concentration), assert_positive(rate)] if validate_args else []
            )
            with control_dependencies(checks):
                self._concentration = kept(concentration, "concentration")
                self._rate = kept(rate, "rate")
                assert_same_float_dtype([self._concentration, self._rate])
        self._first_one, self._second_one = self._concentration, self._rate
        super().__init__(
            self._concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._concentration, self._rate],
            scope,
        )

    @property
    def concentration(self) -> Tensor:
        """The shape parameter."""
        return self._concentration

    @property
    def rate(self) -> Tensor:
        """The inverse of the scale."""
        return self._rate

    def _checked(self, x: Tensor) -> Any:
        if not self.validate_args:
            return x
        assert_same_float_dtype([x], self.dtype)
        return after([assert_positive(x)], x)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return random_gamma([n], self.concentration, beta=self.rate, dtype=self.dtype, seed=seed)

    def _log_prob(self, value: Tensor) -> Any:
        x = self._checked(value)
        bare = make.Xlogy(self.concentration - 1.0, x) - self.rate * x
        return bare - (make.Lgamma(self.concentration) - self.concentration * make.Log(self.rate))

    def _cdf(self, value: Tensor) -> Any:
        return make.Igamma(self.concentration, self.rate * self._checked(value))

    def _entropy(self) -> Any:
        shape = self.concentration
        found = shape - make.Log(self.rate) + make.Lgamma(shape)
        return found + (1.0 - shape) * make.Digamma(shape)

    def _mean(self) -> Any:
        return self.concentration / self.rate

    def _variance(self) -> Any:
        return self.concentration / make.Square(self.rate)

    def _stddev(self) -> Any:
        return make.Sqrt(self.concentration) / self.rate

    def _mode(self) -> Any:
        says = "mode not defined when any concentration <= 1"
        return defined(
            self,
            lambda: make.Greater(self.concentration, 1.0),
            (self.concentration - 1.0) / self.rate,
            self.batch_shape_tensor,
            lambda: [below(ones([], self.dtype), self.concentration, says)],
        )


class Exponential(Gamma):
    """Of the rate `rate`: Gamma of shape 1."""

    _PARAMETERS = ("rate",)

    def __init__(
        self,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[rate]) as scope:
            self._rate = convert(rate, name="rate")
        super().__init__(
            ones([], self._rate.dtype), self._rate, validate_args, allow_nan_stats, scope
        )
        self._parameters = given
        self._graph_parents = [self._rate]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = concat([[n], shape_of(self._rate)], 0)
        least = np.finfo(self.dtype.np).tiny  # 0 has no logarithm
        drawn = random_uniform(shape, minval=least, maxval=1.0, seed=seed, dtype=self.dtype)
        return -make.Log(drawn) / self._rate

    def _log_survival_function(self, value: Tensor) -> Any:
        return self._log_prob(value) - make.Log(self._rate)


class Beta(_Pair):
    """Of shapes `concentration1` (of successes) and `concentration0`, which broadcast."""

    _PARAMETERS = ("concentration1", "concentration0")

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}

        def parameter(value: Any, called: str) -> Tensor:
            made = convert(value, name=called)
            checks = [assert_positive(made, message=POSITIVE)] if validate_args else []
            return after(checks, made)

        with name_scope(name, values=[concentration1, concentration0]) as scope:
            self._concentration1 = parameter(concentration1, "concentration1")
            self._concentration0 = parameter(concentration0, "concentration0")
            assert_same_float_dtype([self._concentration1, self._concentration0])
            self._total = self._concentration1 + self._concentration0
        self._first_one = self._second_one = self._total
        super().__init__(
            self._total.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._concentration1, self._concentration0, self._total],
            scope,
        )

    @property
    def concentration1(self) -> Tensor:
        """Of successes: draws near 1."""
        return self._concentration1

    @property
    def concentration0(self) -> Tensor:
        """Of failures: draws near 0."""
        return self._concentration0

    @property
    def total_concentration(self) -> Tensor:
        """Both together."""
        return self._total

    def _batch_shape(self) -> Any:
        return self._total.shape

    def _batch_shape_tensor(self) -> Any:
        return shape_of(self._total)

    def _checked(self, x: Tensor) -> Any:
        if not self.validate_args:
            return x
        above = assert_positive(x, message="sample must be positive")
        return after([above, below(x, ones([], self.dtype), "sample must be less than `1`.")], x)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        of_one = ones_like(self._total, dtype=self.dtype) * self.concentration1
        of_zero = ones_like(self._total, dtype=self.dtype) * self.concentration0
        first = random_gamma([n], of_one, dtype=self.dtype, seed=seed)
        second = random_gamma([n], of_zero, dtype=self.dtype, seed=salted(seed, "beta"))
        return first / (first + second)

    def _log_norm(self) -> Any:
        both = make.Lgamma(self.concentration1) + make.Lgamma(self.concentration0)
        return both - make.Lgamma(self._total)

    def _log_prob(self, value: Tensor) -> Any:
        x = self._checked(value)
        ones_part = make.Xlogy(self.concentration1 - 1.0, x)
        return ones_part + (self.concentration0 - 1.0) * make.Log1p(-x) - self._log_norm()

    def _cdf(self, value: Tensor) -> Any:
        return make.Betainc(self.concentration1, self.concentration0, value)

    def _entropy(self) -> Any:
        one, zero, total = self.concentration1, self.concentration0, self._total
        found = self._log_norm() - (one - 1.0) * make.Digamma(one)
        found = found - (zero - 1.0) * make.Digamma(zero)
        return found + (total - 2.0) * make.Digamma(total)

    def _mean(self) -> Any:
        return self.concentration1 / self._total

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self._total)

    def _mode(self) -> Any:
        one, zero = self.concentration1, self.concentration0
        says = "Mode undefined for concentration{} <= 1."

        def above() -> Any:
            return make.LogicalAnd(make.Greater(one, 1.0), make.Greater(zero, 1.0))

        return defined(
            self,
            above,
            (one - 1.0) / (self._total - 2.0),
            self.batch_shape_tensor,
            lambda: [
                below(ones([], self.dtype), one, says.format(1)),
                below(ones([], self.dtype), zero, says.format(0)),
            ],
        )


class Dirichlet(Distribution):
    """Of shares that sum to 1, [..., classes]; concentration [..., classes]."""

    _PARAMETERS = ()

    def __init__(
        self,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[concentration]) as scope:
            self._concentration = _checked_concentration(
                convert(concentration, name="concentration"), validate_args
            )
            self._total: Tensor = reduce_sum(self._concentration, -1)
        super().__init__(
            self._concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._concentration, self._total],
            scope,
        )

    @property
    def concentration(self) -> Tensor:
        """Of each class."""
        return self._concentration

    @property
    def total_concentration(self) -> Tensor:
        """The sum over classes."""
        return self._total

    def _batch_shape(self) -> Any:
        return self._total.shape

    def _batch_shape_tensor(self) -> Any:
        return shape_of(self._total)

    def _event_shape(self) -> Any:
        return self._concentration.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return shape_of(self._concentration)[-1:]

    def _checked(self, x: Tensor) -> Any:
        if not self.validate_args:
            return x
        positive = assert_positive(x, message="samples must be positive")
        whole = ones([], self.dtype)
        says = "sample last-dimension must sum to `1`"
        return after([positive, assert_near(whole, reduce_sum(x, -1), message=says)], x)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_gamma([n], self._concentration, dtype=self.dtype, seed=seed)
        return drawn / reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, value: Tensor) -> Any:
        x = self._checked(value)
        bare = reduce_sum(make.Xlogy(self._concentration - 1.0, x), -1)
        return bare - lbeta(self._concentration)

    def _classes(self) -> Any:
        return cast(self.event_shape_tensor()[0], self.dtype)

    def _entropy(self) -> Any:
        classes, total = self._classes(), self._total
        found = lbeta(self._concentration) + (total - classes) * make.Digamma(total)
        each = (self._concentration - 1.0) * make.Digamma(self._concentration)
        return found - reduce_sum(each, -1)

    def _mean(self) -> Any:
        return self._concentration / self._total[..., None]

    def _scaled(self) -> tuple[Any, Any]:
        """1 / √(1 + total), and the mean times that."""
        factor = make.Rsqrt(1.0 + self._total[..., None])
        return factor, factor * self._mean()

    def _variance(self) -> Any:
        factor, x = self._scaled()
        return x * (factor - x)

    def _covariance(self) -> Any:
        _, x = self._scaled()
        product = -matmul(x[..., None], x[..., None, :])
        return matrix_set_diag(product, self._variance())

    def _mode(self) -> Any:
        classes = self._classes()
        x = (self._concentration - 1.0) / (self._total[..., None] - classes)
        says = "Mode undefined when any concentration <= 1"
        return defined(
            self,
            lambda: reduce_all(make.Greater(self._concentration, 1.0), -1, keepdims=True),
            x,
            lambda: shape_of(x),
            lambda: [below(ones([], self.dtype), self._concentration, says)],
        )


def _checked_concentration(concentration: Tensor, validate: bool) -> Tensor:
    """The parameter of Dirichlet distributions: positive, and of two classes at least."""
    if not validate:
        return concentration
    checks = [
        assert_positive(concentration, message=POSITIVE),
        assert_rank_at_least(
            concentration, 1, message="Concentration parameter must have >=1 dimensions."
        ),
        below(
            1,
            shape_of(concentration)[-1],
            "Concentration parameter must have event_size >= 2.",
        ),
    ]
    return after(checks, concentration)


@RegisterKL(Gamma, Gamma)
def _(a: Gamma, b: Gamma, name: str | None = None) -> Any:
    with name_scope(name, "kl_gamma_gamma", [a.concentration, b.concentration]):
        found = (a.concentration - b.concentration) * make.Digamma(a.concentration)
        found = found + make.Lgamma(b.concentration) - make.Lgamma(a.concentration)
        found = found + b.concentration * make.Log(a.rate) - b.concentration * make.Log(b.rate)
        return found + a.concentration * (b.rate / a.rate - 1.0)


@RegisterKL(Beta, Beta)
def _(a: Beta, b: Beta, name: str | None = None) -> Any:
    with name_scope(name, "kl_beta_beta", [a.concentration1, b.concentration1]):
        found = b._log_norm() - a._log_norm()
        one, zero, total = a.concentration1, a.concentration0, a.total_concentration
        found = found - make.Digamma(one) * (b.concentration1 - one)
        found = found - make.Digamma(zero) * (b.concentration0 - zero)
        return found + make.Digamma(total) * (b.total_concentration - total)


@RegisterKL(Dirichlet, Dirichlet)
def _(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Any:
    with name_scope(name, "kl_dirichlet_dirichlet", [a.concentration, b.concentration]):
        total = make.Digamma(reduce_sum(a.concentration, -1, keepdims=True))
        means = make.Digamma(a.concentration) - total
        found = reduce_sum((a.concentration - b.concentration) * means, -1)
        return found - lbeta(a.concentration) + lbeta(b.concentration)
