"""Incomplete gamma and beta functions, and modified Bessel functions, of float64 arrays that broadcast already.

Called by: ops of special functions, draws from gamma distributions.  Threads: any.
Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.5.29, 6.5.31 (incomplete gamma), 26.5.8 (incomplete
beta), 9.6.10, 9.7.1 (Bessel); continued fractions by Lentz's method, Applied Optics 15, 1976; derivatives by
differentiating series and fractions term by term, as Moore, "Algorithm AS 187", 1982
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
_EPSILON: Final = 2.0**-53
_TINY: Final = 1e-300
_MOST_TERMS: Final = 20_000
_SETTLED: Final = 1e-15
_SLOPE_SETTLED: Final = 1e-13
_BIG: Final = 2.0**52
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_FROM: Final = 10.0  # where Stirling's series of that length is exact


def _lgamma(x: Array) -> Array:
    return np.asarray(np.frompyfunc(_lgamma_of_one, 1, 1)(x), np.float64)


def _lgamma_of_one(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def _log_power(a: Array, x: Array) -> Array:
    """log of x^a exp(-x) / Γ(a + 1), without the difference of large numbers where a is large."""
    small = a < _FROM
    plain = a * np.log(x) - x - _lgamma(np.where(small, a, 1.0) + 1)
    large = np.where(small, _FROM, a)
    off = (x - large) / large
    inverse = 1 / large
    series = np.zeros_like(large)
    for coefficient in reversed(_STIRLING):
        series = series * (inverse * inverse) + coefficient
    near = large * (np.log1p(off) - off) - 0.5 * np.log(2 * np.pi * large) - series * inverse
    return np.where(small, plain, near)


def _series(a: Array, x: Array) -> tuple[Array, Array]:
    """Σ x^n / ((a + 1) … (a + n)), and its derivative by a."""
    term, total = np.ones_like(a), np.ones_like(a)
    dterm, dtotal = np.zeros_like(a), np.zeros_like(a)
    r = a.copy()
    for _ in range(_MOST_TERMS):
        r = r + 1
        dterm = (dterm - term / r) * (x / r)
        term = term * (x / r)
        total = total + term
        dtotal = dtotal + dterm
        done = (term <= _EPSILON * total) & (np.abs(dterm) <= _EPSILON * np.abs(dtotal))
        if np.all(done | ~np.isfinite(term)):
            break
    return total, dtotal


def _fraction(a: Array, x: Array) -> tuple[Array, Array]:
    """Γ(a, x) / (x^a exp(-x)) as a continued fraction, and its derivative by a."""
    y, z, c = 1 - a, x + 1 - a + 1, 0.0
    p2, q2, p1, q1 = np.ones_like(x), x.copy(), x + 1, z * x
    dp2, dq2, dp1, dq1 = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), -x
    found = p1 / q1
    dfound = (dp1 - found * dq1) / q1
    for _ in range(_MOST_TERMS):
        c += 1
        y = y + 1
        z = z + 2
        yc = y * c
        p, q = p1 * z - p2 * yc, q1 * z - q2 * yc
        dp = dp1 * z - p1 - dp2 * yc + p2 * c
        dq = dq1 * z - q1 - dq2 * yc + q2 * c
        new = p / q
        dnew = (dp - new * dq) / q
        change = np.abs(new - found) <= _SETTLED * np.abs(new)
        dchange = np.abs(dnew - dfound) <= _SLOPE_SETTLED * np.abs(dnew)
        found, dfound = new, dnew
        if np.all((change & dchange) | ~np.isfinite(new)):
            break
        p2, p1, q2, q1 = p1, p, q1, q
        dp2, dp1, dq2, dq1 = dp1, dp, dq1, dq
        large = np.abs(p) > _BIG
        if large.any():
            scale = np.where(large, 1 / _BIG, 1.0)
            p2, p1, q2, q1 = p2 * scale, p1 * scale, q2 * scale, q1 * scale
            dp2, dp1, dq2, dq1 = dp2 * scale, dp1 * scale, dq2 * scale, dq1 * scale
    return found, dfound


class _Parts:
    """What incomplete gamma functions are made of, where they are made of anything."""

    def __init__(self, a: Array, x: Array) -> None:
        self.bad = ~((a > 0) & (x >= 0)) | np.isnan(a) | np.isnan(x)
        self.zero = ~self.bad & (x == 0)
        self.full = ~self.bad & (np.isinf(x))
        self.none = ~self.bad & np.isinf(a) & ~self.full
        proper = ~(self.bad | self.zero | self.full | self.none)
        self.a, self.x = np.where(proper, a, 1.0), np.where(proper, x, 1.0)
        self.by_series = (self.x <= 1) | (self.x <= self.a)
        self.log_power = _log_power(self.a, self.x)

    def chosen(self, index: int) -> tuple[Array, Array]:
        """(series, fraction) or, for 1, their derivatives; each of what it is for, else of something harmless."""
        with np.errstate(all="ignore"):
            series = _series(
                np.where(self.by_series, self.a, 1.0), np.where(self.by_series, self.x, 0.5)
            )
            fraction = _fraction(
                np.where(self.by_series, 0.5, self.a), np.where(self.by_series, 2.0, self.x)
            )
        return series[index], fraction[index]


def gamma_p(a: Array, x: Array, upper: bool = False) -> Array:
    """The regularized lower incomplete gamma function P(a, x), or the upper one, Q = 1 - P."""
    parts = _Parts(a, x)
    series, fraction = parts.chosen(0)
    with np.errstate(all="ignore"):
        power = np.exp(parts.log_power)
        lower = power * series
        rest = power * parts.a * fraction
        if upper:
            found = np.where(parts.by_series, 1 - lower, rest)
        else:
            found = np.where(parts.by_series, lower, 1 - rest)
    found = np.where((x == 0) | parts.none, 1.0 if upper else 0.0, found)
    found = np.where(parts.full, 0.0 if upper else 1.0, found)
    return np.where(parts.bad & (upper | (x != 0)), np.nan, found)


def _digamma(x: Array) -> Array:
    total, y = np.zeros_like(x), x.copy()
    for _ in range(int(_FROM)):
        small = y < _FROM
        total -= np.where(small, 1 / y, 0)
        y = np.where(small, y + 1, y)
    square = 1 / (y * y)
    series = np.zeros_like(x)
    for coefficient in reversed(
        (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    ):
        series = (series + coefficient) * square
    return total + np.log(y) - 0.5 / y - series


def _slopes(parts: _Parts) -> tuple[Array, Array]:
    """dP/da over the power x^a exp(-x) / Γ(a + 1): by the series, and by the fraction."""
    series, fraction = parts.chosen(0)
    dseries, dfraction = parts.chosen(1)
    log = np.log(parts.x)
    psi = _digamma(parts.a)
    by_series = dseries + series * (log - psi - 1 / parts.a)
    by_fraction = -parts.a * (dfraction + fraction * (log - psi))
    return by_series, by_fraction


def gamma_p_slope(a: Array, x: Array) -> Array:
    """The derivative of P(a, x) by a."""
    parts = _Parts(a, x)
    with np.errstate(all="ignore"):
        by_series, by_fraction = _slopes(parts)
        found = np.exp(parts.log_power) * np.where(parts.by_series, by_series, by_fraction)
    found = np.where((x == 0) | parts.full | parts.none, 0.0, found)
    return np.where(parts.bad & (x != 0), np.nan, found)


def gamma_sample_slope(a: Array, sample: Array) -> Array:
    """How a number drawn from a gamma distribution changes with its shape a: -(dP/da) / (dP/dx)."""
    parts = _Parts(a, sample)
    with np.errstate(all="ignore"):
        by_series, by_fraction = _slopes(parts)
        found = -np.where(parts.by_series, by_series, by_fraction) * parts.x / parts.a
    found = np.where(parts.bad | parts.full | parts.none, np.nan, found)
    return np.where(sample == 0, 0.0, found)


# -- beta -------------------------------------------------------------------------------------


def beta_i(a: Array, b: Array, x: Array) -> Array:
    """The regularized incomplete beta function."""
    bad = ~((a > 0) & (b > 0) & (x >= 0) & (x <= 1))
    zero, one = ~bad & (x == 0), ~bad & (x == 1)
    bad |= ~(zero | one) & ~(np.isfinite(a) & np.isfinite(b))
    proper = ~(bad | zero | one)
    a, b, x = (np.where(proper, each, other) for each, other in ((a, 1.0), (b, 1.0), (x, 0.5)))
    turned = x > (a + 1) / (a + b + 2)
    p, q = np.where(turned, b, a), np.where(turned, a, b)
    y = np.where(turned, 1 - x, x)
    with np.errstate(all="ignore"):
        log = p * np.log(y) + q * np.log1p(-y) + _lgamma(p + q) - _lgamma(p) - _lgamma(q)
        found = np.exp(log) * _beta_fraction(p, q, y) / p
        found = np.where(turned, 1 - found, found)
    found = np.where(zero, 0.0, np.where(one, 1.0, found))
    return np.where(bad, np.nan, found)


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    c = np.ones_like(x)
    d = 1 / _off_zero(1 - (a + b) * x / (a + 1))
    found = d.copy()
    for m in range(1, _MOST_TERMS):
        last = np.ones_like(x)
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _off_zero(1 + factor * d)
            c = _off_zero(1 + factor / c)
            last = c * d
            found = found * last
        if np.all((np.abs(last - 1) <= _SETTLED) | ~np.isfinite(found)):
            break
    return found


def _off_zero(x: Array) -> Array:
    return np.where(np.abs(x) < _TINY, _TINY, x)


# -- Bessel -----------------------------------------------------------------------------------

_ASYMPTOTIC: Final = 30.0  # from where the series in 1/x is exact


def bessel_ie(order: int, x: Array) -> Array:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 0 or 1."""
    size = np.abs(x)
    with np.errstate(all="ignore"):
        near = np.minimum(size, _ASYMPTOTIC)
        square = near * near / 4
        term = np.ones_like(size) if order == 0 else near / 2
        total = term.copy()
        for k in range(1, 90):
            term = term * square / (k * (k + order))
            total = total + term
        far = np.maximum(size, _ASYMPTOTIC)
        part, series = np.ones_like(size), np.ones_like(size)
        for k in range(1, 30):
            part = part * -(4 * order - (2 * k - 1) ** 2) / (8 * k * far)
            series = series + part
        found = np.where(
            size <= _ASYMPTOTIC, np.exp(-near) * total, series / np.sqrt(2 * np.pi * far)
        )
    found = np.where(np.isinf(x), 0.0, np.where(np.isnan(x), np.nan, found))
    return np.copysign(found, x) if order else found


def bessel_i(order: int, x: Array) -> Array:
    """The modified Bessel function of the first kind, of order 0 or 1."""
    with np.errstate(all="ignore"):
        size = np.abs(x)
        half = np.exp(size / 2)  # twice, so that it does not overflow before the function does
        found = bessel_ie(order, np.where(np.isinf(x), 1.0, x)) * half * half
    infinite = np.copysign(np.inf, x) if order else np.full_like(x, np.inf)
    return np.where(np.isinf(x), infinite, found)
