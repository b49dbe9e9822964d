"""Distributions of real numbers: Normal, Uniform, Laplace, StudentT.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.checks.types import assert_same_float_dtype
from headrace.library.distributions.base import FULLY_REPARAMETERIZED, Distribution
from headrace.library.distributions.divergence import RegisterKL
from headrace.library.distributions.support import (
    below,
    defined,
    kept,
    log_normal_cdf,
    normal_cdf,
    salted,
)
from headrace.library.small_functions import lbeta
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_static_shape
from headrace.ops.array.constants import constant, fill, ones, ones_like, zeros, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.special import ndtri
from headrace.ops.random.draws import random_normal, random_uniform
from headrace.ops.random.gamma import random_gamma
from headrace.ops.tables import make

__all__ = ["Laplace", "Normal", "StudentT", "Uniform"]

_LOG_ROOT_2_PI: Final = 0.5 * math.log(2.0 * math.pi)


class Placed(Distribution):
    """What two parameters of the batch's shape define."""

    _first_one: Tensor
    _second_one: Tensor

    def _batch_shape(self) -> Any:
        return broadcast_static_shape(self._first_one.shape, self._second_one.shape)

    def _batch_shape_tensor(self) -> Tensor:
        return broadcast_dynamic_shape(shape_of(self._first_one), shape_of(self._second_one))

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Tensor:
        return constant([], "int32")

    def _shape_of_draws(self, n: Any) -> Tensor:
        return concat([[n], self.batch_shape_tensor()], 0)


class LocScale(Placed):
    """With a place and a width above 0."""

    _PARAMETERS = ("loc", "scale")

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool,
        allow_nan_stats: bool,
        name: str,
        given: dict[str, Any],
    ) -> None:
        with (
            name_scope(name, values=[loc, scale]) as scope,
            control_dependencies([assert_positive(scale)] if validate_args else []),
        ):
            self._loc = kept(loc, "loc")
            self._scale = kept(scale, "scale")
            assert_same_float_dtype([self._loc, self._scale])
        self._first_one, self._second_one = self._loc, self._scale
        super().__init__(
            self._scale.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._loc, self._scale],
            scope,
        )

    @property
    def loc(self) -> Tensor:
        """The place of the middle."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """The width."""
        return self._scale


class Normal(LocScale):
    """Of mean `loc` and standard deviation `scale`, which broadcast."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, given)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = self._shape_of_draws(n)
        drawn = random_normal(shape, mean=0.0, stddev=1.0, dtype=self.loc.dtype, seed=seed)
        return drawn * self.scale + self.loc

    def _z(self, x: Any) -> Any:
        with name_scope("standardize", values=[x]):
            return (x - self.loc) / self.scale

    def _log_prob(self, value: Tensor) -> Any:
        return -0.5 * make.Square(self._z(value)) - (_LOG_ROOT_2_PI + make.Log(self.scale))

    def _cdf(self, value: Tensor) -> Any:
        return normal_cdf(self._z(value))

    def _log_cdf(self, value: Tensor) -> Any:
        return log_normal_cdf(self._z(value))

    def _survival_function(self, value: Tensor) -> Any:
        return normal_cdf(-self._z(value))

    def _log_survival_function(self, value: Tensor) -> Any:
        return log_normal_cdf(-self._z(value))

    def _quantile(self, value: Tensor) -> Any:
        z = ndtri(value)
        with name_scope("reconstruct"):
            return z * self.scale + self.loc

    def _entropy(self) -> Any:
        wide = self.scale * ones_like(self.loc)
        return 0.5 + _LOG_ROOT_2_PI + make.Log(wide)

    def _mean(self) -> Any:
        return self.loc * ones_like(self.scale)

    def _mode(self) -> Any:
        return self._mean()

    def _stddev(self) -> Any:
        return self.scale * ones_like(self.loc)


class Uniform(Placed):
    """Between `low`, inclusive, and `high`, which broadcast."""

    _PARAMETERS = ("low", "high")

    def __init__(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with name_scope(name, values=[low, high]) as scope:
            says = "uniform not defined when low >= high."
            with control_dependencies([below(low, high, says)] if validate_args else []):
                self._low = kept(low, "low")
                self._high = kept(high, "high")
                assert_same_float_dtype([self._low, self._high])
        self._first_one, self._second_one = self._low, self._high
        parents = [self._low, self._high]
        super().__init__(
            self._low.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            parents,
            scope,
        )

    @property
    def low(self) -> Tensor:
        """The lower end."""
        return self._low

    @property
    def high(self) -> Tensor:
        """The upper end."""
        return self._high

    def range(self, name: str = "range") -> Any:
        """high - low."""
        with self._scope(name):
            return self.high - self.low

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_uniform(self._shape_of_draws(n), dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _prob(self, value: Tensor) -> Any:
        x = value * ones(self.batch_shape_tensor(), dtype=value.dtype)
        unknown = make.IsNan(x)
        outside = make.LogicalOr(make.Less(x, self.low), make.GreaterEqual(x, self.high))
        inside = where_v2(outside, zeros_like(x), ones_like(x) / self.range())
        return where_v2(unknown, x, inside)

    def _cdf(self, value: Tensor) -> Any:
        whole = broadcast_dynamic_shape(shape_of(value), self.batch_shape_tensor())
        nothing, all_ = zeros(whole, dtype=self.dtype), ones(whole, dtype=self.dtype)
        x = value * all_
        below_it = make.Less(value, self.low)
        found = where_v2(below_it, nothing, (x - self.low) / self.range())
        return where_v2(make.GreaterEqual(value, self.high), all_, found)

    def _entropy(self) -> Any:
        return make.Log(self.range())

    def _mean(self) -> Any:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Any:
        return make.Square(self.range()) / 12.0

    def _stddev(self) -> Any:
        return self.range() / math.sqrt(12.0)


class Laplace(LocScale):
    """Two exponential distributions, back to back at `loc`; `scale` is the mean distance from there."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, given)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        least = np.nextafter(
            np.array(-1.0, self.dtype.np), np.array(0.0, self.dtype.np)
        )  # -1 itself has no logarithm
        drawn = random_uniform(
            self._shape_of_draws(n), minval=least, maxval=1.0, dtype=self.dtype, seed=seed
        )
        return self.loc - self.scale * make.Sign(drawn) * make.Log1p(-make.Abs(drawn))

    def _z(self, x: Tensor) -> Any:
        return (x - self.loc) / self.scale

    def _log_prob(self, value: Tensor) -> Any:
        return -make.Abs(self._z(value)) - (math.log(2.0) + make.Log(self.scale))

    def _cdf(self, value: Tensor) -> Any:
        z = self._z(value)
        return 0.5 + 0.5 * make.Sign(z) * (1.0 - make.Exp(-make.Abs(z)))

    def _log_cdf(self, value: Tensor) -> Any:
        return _log_laplace_cdf(self._z(value))

    def _log_survival_function(self, value: Tensor) -> Any:
        return _log_laplace_cdf(-self._z(value))

    def _entropy(self) -> Any:
        wide = self.scale + zeros_like(self.loc)
        return math.log(2.0) + 1.0 + make.Log(wide)

    def _mean(self) -> Any:
        return self.loc + zeros_like(self.scale)

    def _mode(self) -> Any:
        return self._mean()

    def _stddev(self) -> Any:
        return math.sqrt(2.0) * self.scale + zeros_like(self.loc)


def _log_laplace_cdf(x: Any) -> Any:
    with name_scope("log_cdf_laplace", values=[x]):
        low = -math.log(2.0) + x
        high = make.Log1p(-0.5 * make.Exp(-make.Abs(x)))
        return where_v2(make.Less(x, 0.0), low, high)


class StudentT(Distribution):
    """Student's t of `df` degrees of freedom, moved to `loc` and as wide as `scale` says."""

    _PARAMETERS = ("df", "loc", "scale")

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and key[0] != "_"}
        with (
            name_scope(name, values=[df, loc, scale]) as scope,
            control_dependencies([assert_positive(df)] if validate_args else []),
        ):
            self._df = kept(df, "df")
            self._loc = kept(loc, "loc")
            self._scale = kept(scale, "scale")
            parents = [self._df, self._loc, self._scale]
            assert_same_float_dtype(parents)
        super().__init__(
            self._scale.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            parents,
            scope,
        )

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self._df

    @property
    def loc(self) -> Tensor:
        """The place of the middle."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """The width."""
        return self._scale

    def _batch_shape(self) -> Any:
        with_loc = broadcast_static_shape(self.df.shape, self.loc.shape)
        return broadcast_static_shape(with_loc, self.scale.shape)

    def _batch_shape_tensor(self) -> Tensor:
        rest = broadcast_dynamic_shape(shape_of(self.loc), shape_of(self.scale))
        return broadcast_dynamic_shape(shape_of(self.df), rest)

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Tensor:
        return constant([], "int32")

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = concat([[n], self.batch_shape_tensor()], 0)
        normal = random_normal(shape, dtype=self.dtype, seed=seed)
        df = self.df * ones(self.batch_shape_tensor(), dtype=self.dtype)
        squares = random_gamma(
            [n], 0.5 * df, beta=0.5, dtype=self.dtype, seed=salted(seed, "student_t")
        )
        return normal * make.Rsqrt(squares / df) * self.scale + self.loc

    def _log_prob(self, value: Tensor) -> Any:
        z = (value - self.loc) / self.scale
        bare = -0.5 * (self.df + 1.0) * make.Log1p(z**2.0 / self.df)
        norm = make.Log(make.Abs(self.scale)) + 0.5 * make.Log(self.df) + 0.5 * math.log(math.pi)
        norm = norm + make.Lgamma(0.5 * self.df) - make.Lgamma(0.5 * (self.df + 1.0))
        return bare - norm

    def _cdf(self, value: Tensor) -> Any:
        z = (value - self.loc) / make.Abs(self.scale)
        at = self.df / (z**2.0 + self.df)
        tail = 0.5 * make.Betainc(0.5 * self.df, 0.5, at)
        return where_v2(make.Less(z, 0.0), tail, 1.0 - tail)

    def _entropy(self) -> Any:
        one = ones(self.batch_shape_tensor(), dtype=self.dtype)[..., None]
        halves = concat([one * self.df[..., None], one], -1) / 2.0
        found = make.Log(make.Abs(self.scale)) + 0.5 * make.Log(self.df) + lbeta(halves)
        half = 0.5 * (self.df + 1.0)
        slope = make.Digamma(0.5 * (self.df + 1.0)) - make.Digamma(0.5 * self.df)
        return found + half * slope

    def _mean(self) -> Any:
        mean = self.loc * ones(self.batch_shape_tensor(), dtype=self.dtype)
        return self._from_one_on(mean, "mean not defined for components of df <= 1")

    def _from_one_on(self, value: Tensor, says: str) -> Tensor:
        """`value`, which is not defined for df of 1 and below."""

        def one() -> Tensor:
            return ones(self.batch_shape_tensor(), dtype=self.dtype)

        return defined(
            self,
            lambda: make.Greater(self.df, one()),
            value,
            self.batch_shape_tensor,
            lambda: [below(ones([], dtype=self.dtype), self.df, says)],
            condition_first=True,
        )

    def _mode(self) -> Any:
        return identity(self.loc)

    def _variance(self) -> Any:
        divided = where_v2(make.Greater(self.df, 2.0), self.df - 2.0, ones_like(self.df))
        whole = ones(self.batch_shape_tensor(), dtype=self.dtype)
        finite = whole * make.Square(self.scale) * self.df / divided
        two = fill(self.batch_shape_tensor(), np.array(2.0, self.dtype.np))
        has_one = make.Greater(self.df, two)
        infinite = fill(self.batch_shape_tensor(), np.array(np.inf, self.dtype.np), name="inf")
        found = where_v2(has_one, finite, infinite)
        return self._from_one_on(found, "variance not defined for components of df <= 1")


@RegisterKL(Normal, Normal)
def _(a: Normal, b: Normal, name: str | None = None) -> Any:
    with name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        one, two, half = (constant(value, a.dtype) for value in (1.0, 2.0, 0.5))
        a_squared, b_squared = make.Square(a.scale), make.Square(b.scale)
        ratio = a_squared / b_squared
        apart = make.SquaredDifference(a.loc, b.loc) / (two * b_squared)
        return apart + half * (ratio - one - make.Log(ratio))
