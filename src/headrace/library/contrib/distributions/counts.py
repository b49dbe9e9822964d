"""Distributions of counts that tf.distributions has not: Poisson, Geometric, Binomial, NegativeBinomial.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.contrib.distributions.given import initial
from headrace.library.contrib.distributions.numbers import open_uniform
from headrace.library.distributions.base import NOT_REPARAMETERIZED, Distribution
from headrace.library.distributions.real import Placed
from headrace.library.distributions.support import checked_counts, logits_and_probs, salted
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_non_negative, assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.elementwise import floor
from headrace.ops.math.incomplete import betainc
from headrace.ops.nn.activations import softplus
from headrace.ops.random.draws import random_poisson
from headrace.ops.random.gamma import random_gamma
from headrace.ops.tables import make

__all__ = ["Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def _xlogy(x: Any, y: Any) -> Any:
    """x · log(y), 0 where x is 0."""
    return make.Xlogy(x + zeros_like(y), y + zeros_like(x))


class _Single(Distribution):
    """Of numbers, with one parameter of the batch's shape."""

    _one: Tensor

    def _batch_shape(self) -> Any:
        return self._one.shape

    def _batch_shape_tensor(self) -> Any:
        return sizes_of(self._one)

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Any:
        return constant([], dtypes.int32)

    def _counts(self, value: Tensor) -> Tensor:
        return checked_counts(value) if self.validate_args else value


class Poisson(_Single):
    """Of mean and variance `rate`, or exp(log_rate)."""

    _PARAMETERS = ("rate",)

    def __init__(
        self,
        rate: Any = None,
        log_rate: Any = None,
        interpolate_nondiscrete: bool = True,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Poisson",
    ) -> None:
        """interpolate_nondiscrete: between whole numbers the probability is not 0.

        Raises ValueError unless one of the rates is given, TypeError for rates that are not of floats.
        """
        given = initial(locals())
        with name_scope(name, values=[rate]) as scope:
            if (rate is None) == (log_rate is None):
                raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
            if rate is None:
                self._log_rate = convert(log_rate, name="log_rate")
                self._check_floats(self._log_rate, "log_rate")
                self._one = make.Exp(self._log_rate)
            else:
                self._one = convert(rate, name="rate")
                self._check_floats(self._one, "rate")
                with control_dependencies([assert_positive(self._one)] if validate_args else []):
                    self._one = identity(self._one)
                    self._log_rate = make.Log(self._one)
        self._interpolates = interpolate_nondiscrete
        super().__init__(
            self._one.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._one],
            scope,
        )

    def _check_floats(self, x: Tensor, what: str) -> None:
        if not x.dtype.is_floating:
            raise TypeError(f"{what}.dtype ({x.dtype.name}) is a not a float-type.")

    @property
    def rate(self) -> Tensor:
        """The mean."""
        return self._one

    @property
    def log_rate(self) -> Tensor:
        """Its logarithm."""
        return self._log_rate

    @property
    def interpolate_nondiscrete(self) -> bool:
        """As it was given."""
        return self._interpolates

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return random_poisson(self._one, [n], dtype=self.dtype, seed=seed)

    def _log_prob(self, value: Tensor) -> Any:
        value = self._counts(value)
        found = _xlogy(value, self._one) - make.Lgamma(1.0 + value) - self._one
        if self._interpolates:
            return found
        never = np.array(-np.inf, self.dtype.np)
        whole = make.LogicalAnd(make.Equal(value, floor(value)), make.GreaterEqual(value, 0.0))
        return where_v2(whole, found, never)

    def _cdf(self, value: Tensor) -> Any:
        x = self._counts(value) if self._interpolates else floor(value)
        wide = x + zeros_like(self._one)
        found = make.Igammac(1.0 + make.Maximum(wide, 0.0), self._one + zeros_like(wide))
        return where_v2(make.Less(wide, 0.0), zeros_like(found), found)

    def _mean(self) -> Any:
        return identity(self._one)

    def _variance(self) -> Any:
        return identity(self._one)

    def _mode(self) -> Any:
        return floor(self._one)


class Geometric(_Single):
    """How often a trial of probability `probs`, or sigmoid(logits), fails before it succeeds."""

    _PARAMETERS = ("logits",)

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Geometric",
    ) -> None:
        """Raises ValueError unless one of both is given."""
        given = initial(locals())
        with name_scope(name, values=[logits, probs]) as scope:
            self._logits, self._one = logits_and_probs(logits, probs, False, validate_args)
            if validate_args:
                with control_dependencies([assert_positive(self._one)]):
                    self._one = identity(self._one)
        super().__init__(
            self._one.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._one, self._logits],
            scope,
        )

    @property
    def logits(self) -> Tensor:
        """Log-odds of success."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """The probability of success."""
        return self._one

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        u = open_uniform(concat([[n], sizes_of(self._one)], 0), self.dtype, seed)
        return floor(make.Log(u) / make.Log1p(-self._one))

    def _cdf(self, value: Tensor) -> Any:
        value = self._counts(value) if self.validate_args else floor(value)
        wide = value + zeros_like(self._one)
        found = -make.Expm1((1.0 + wide) * make.Log1p(-self._one))
        return where_v2(make.Less(wide, 0.0), zeros_like(found), found)

    def _log_prob(self, value: Tensor) -> Any:
        value = self._counts(value)
        return _xlogy(value, 1.0 - self._one) + make.Log(self._one)

    def _entropy(self) -> Any:
        other = 1.0 - self._one
        return (-_xlogy(other, other) - _xlogy(self._one, self._one)) / self._one

    def _mean(self) -> Any:
        return make.Exp(-self._logits)

    def _variance(self) -> Any:
        return self._mean() / self._one

    def _mode(self) -> Any:
        return zeros_like(self._one)


class _OfTrials(Placed):
    """With a number of trials, and the probability of one."""

    _PARAMETERS = ("total_count", "logits")

    def __init__(
        self,
        total_count: Any,
        logits: Any,
        probs: Any,
        validate_args: bool,
        allow_nan_stats: bool,
        name: str,
        given: dict[str, Any],
    ) -> None:
        with name_scope(name, values=[total_count, logits, probs]) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args)
            count = convert(total_count, self._probs.dtype, name="total_count")
            if validate_args:
                with control_dependencies([assert_non_negative(count)]):
                    count = identity(count)
        self._first_one, self._second_one = count, self._probs
        super().__init__(
            self._probs.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [count, self._logits, self._probs],
            scope,
        )

    @property
    def total_count(self) -> Tensor:
        """The number of trials, or of failures."""
        return self._first_one

    @property
    def logits(self) -> Tensor:
        """Log-odds of success."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """The probability of success."""
        return self._probs

    def _counts(self, value: Tensor) -> Tensor:
        return checked_counts(value) if self.validate_args else value


class Binomial(_OfTrials):
    """How many of `total_count` trials succeed; what has no formula here is a draw."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Binomial",
    ) -> None:
        """Raises ValueError unless one of logits and probs is given."""
        given = initial(locals())
        super().__init__(total_count, logits, probs, validate_args, allow_nan_stats, name, given)

    def _log_prob(self, value: Tensor) -> Any:
        value = self._counts(value)
        n = self.total_count
        ways = make.Lgamma(1.0 + n) - make.Lgamma(1.0 + value) - make.Lgamma(1.0 + n - value)
        return ways + _xlogy(value, self._probs) + _xlogy(n - value, 1.0 - self._probs)

    def _cdf(self, value: Tensor) -> Any:
        value = self._counts(value)
        n = self.total_count + zeros_like(self._probs) + zeros_like(value)
        k, p = value + zeros_like(n), self._probs + zeros_like(n)
        whole = make.GreaterEqual(k, n)
        rest = where_v2(whole, n + 1.0, n) - k  # betainc knows no 0
        found = betainc(rest, k + 1.0, 1.0 - p)
        return where_v2(whole, found * 0.0 + 1.0, found)

    def _mean(self) -> Any:
        return self.total_count * self._probs

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self._probs)

    def _mode(self) -> Any:
        return floor((1.0 + self.total_count) * self._probs)


class NegativeBinomial(_OfTrials):
    """How often trials succeed before `total_count` of them fail."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "NegativeBinomial",
    ) -> None:
        """Raises ValueError unless one of logits and probs is given."""
        given = initial(locals())
        super().__init__(total_count, logits, probs, validate_args, allow_nan_stats, name, given)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        rate = random_gamma([n], self.total_count, make.Exp(-self._logits), self.dtype, seed)
        return random_poisson(rate, [], dtype=self.dtype, seed=salted(seed, "negative_binom"))

    def _cdf(self, value: Tensor) -> Any:
        value = self._counts(value)
        n = self.total_count + zeros_like(self._probs) + zeros_like(value)
        return betainc(n, 1.0 + value + zeros_like(n), 1.0 - self._probs + zeros_like(n))

    def _log_prob(self, value: Tensor) -> Any:
        value = self._counts(value)
        n = self.total_count
        ways = make.Lgamma(n + value) - make.Lgamma(1.0 + value) - make.Lgamma(n)
        return ways - n * softplus(self._logits) - value * softplus(-self._logits)

    def _mean(self) -> Any:
        return self.total_count * make.Exp(self._logits)

    def _variance(self) -> Any:
        return self._mean() / (1.0 - self._probs)

    def _mode(self) -> Any:
        adjusted = (self.total_count - 1.0) * make.Exp(self._logits)
        return where_v2(make.Greater(self.total_count, 1.0), floor(adjusted), zeros_like(adjusted))
