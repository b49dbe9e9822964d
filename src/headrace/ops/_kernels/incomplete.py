"""Incomplete gamma and beta functions, and modified Bessel functions, of float64 arrays that broadcast already.

Called by: ops of special functions, draws from gamma distributions.  Threads: any.
Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.5.29, 6.5.31 (incomplete gamma), 26.5.8 (incomplete
beta), 9.6.10, 9.7.1 (Bessel); continued fractions by Lentz's method, Applied Optics 15, 1976; derivatives by
differentiating series and fractions term by term, as Moore, "Algorithm AS 187", 1982
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
_LOOK_AFTER: Final = 8  # terms, until it is worth a look which numbers have settled
_TOGETHER: Final = (
    1 << 15
)  # numbers; fewer take more calls for those that settle last, which threads would wait for
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
    found = np.empty_like(a)
    (small,), (large,) = (a < _FROM).nonzero(), (a >= _FROM).nonzero()
    if small.size:
        low, at = a[small], x[small]
        of_low = np.array([*map(math.lgamma, (low + 1).tolist())])
        found[small] = low * np.log(at) - at - of_low
    if large.size:
        high = a[large]
        off = (x[large] - high) / high
        inverse = 1 / high
        series = np.zeros_like(high)
        for coefficient in reversed(_STIRLING):
            series = series * (inverse * inverse) + coefficient
        found[large] = (
            high * (np.log1p(off) - off) - 0.5 * np.log(2 * np.pi * high) - series * inverse
        )
    return found


def _until_settled(
    state: list[Array], step: Callable[[list[Array], int], Array], kept: int
) -> None:
    """step(state, number) for number 1, 2, … until it has settled everywhere: it gives where it has, and changes state.

    What has settled is left out of state's arrays [n] now and then; the first `kept` of them have all results at last.
    """
    results, at = [each.copy() for each in state[:kept]], np.arange(len(state[0]))
    for number in range(1, _MOST_TERMS + 1):
        done = step(state, number)
        left = len(at) - np.count_nonzero(done)
        if not left:
            break
        if number % _LOOK_AFTER == 0 and 4 * left < 3 * len(at):
            going_on = ~done
            for result, each in zip(results, state[:kept], strict=True):
                result[at] = each
            at = at[going_on]
            state[:] = [each[going_on] for each in state]
    for place, (result, each) in enumerate(zip(results, state[:kept], strict=True)):
        result[at] = each
        state[place] = result


def _series(a: Array, x: Array, slopes: bool) -> list[Array]:
    """Σ x^n / ((a + 1) … (a + n)), and its derivative by a if there are to be slopes."""
    total, dtotal = np.ones_like(a), np.zeros_like(a)
    state = [total, dtotal, a.copy(), x, np.ones_like(a), np.zeros_like(a)]

    def step(state: list[Array], _: int) -> Array:
        total, dtotal, r, x, term, dterm = state
        r += 1
        ratio = x / r
        if slopes:
            dterm -= term / r
            dterm *= ratio
            dtotal += dterm
        term *= ratio
        total += term
        done = term <= _EPSILON * total
        if slopes:
            done &= np.abs(dterm) <= _EPSILON * np.abs(dtotal)
        return done | ~np.isfinite(term)

    _until_settled(state, step, 2)
    return state[:2]


def _fraction(a: Array, x: Array, slopes: bool) -> list[Array]:
    """Γ(a, x) / (x^a exp(-x)) as a continued fraction, and its derivative by a if there are to be slopes."""
    z = x + 1 - a + 1
    numbers = [np.ones_like(x), x + 1, x.copy(), z * x]
    changes = [np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), -x]
    found = numbers[1] / numbers[3]
    dfound = (changes[1] - found * changes[3]) / numbers[3]
    state = [found, dfound, 1 - a, z, *numbers, *changes]

    def step(state: list[Array], c: int) -> Array:
        found, dfound, y, z, p2, p1, q2, q1, dp2, dp1, dq2, dq1 = state
        y += 1
        z += 2
        yc = y * c
        p, q = p1 * z - p2 * yc, q1 * z - q2 * yc
        new = p / q
        done = np.abs(new - found) <= _SETTLED * np.abs(new)
        values = [p1, p, q1, q]
        if slopes:
            dp = dp1 * z - p1 - dp2 * yc + p2 * c
            dq = dq1 * z - q1 - dq2 * yc + q2 * c
            dnew = (dp - new * dq) / q
            done &= np.abs(dnew - dfound) <= _SLOPE_SETTLED * np.abs(dnew)
            values += [dp1, dp, dq1, dq]
            state[1] = dnew
        (large,) = (np.abs(p) > _BIG).nonzero()
        if large.size:
            for each in values:
                each[large] *= 1 / _BIG
        state[0] = new
        state[4 : 4 + len(values)] = values
        settled: Array = done | ~np.isfinite(new)
        return settled

    _until_settled(state, step, 2)
    return state[:2]


class _Parts:
    """What incomplete gamma functions of a and x [n] are made of, where they are made of anything."""

    def __init__(self, a: Array, x: Array, slopes: bool) -> None:
        self.bad = ~((a > 0) & (x >= 0)) | np.isnan(a) | np.isnan(x)
        self.zero = ~self.bad & (x == 0)
        self.full = ~self.bad & (np.isinf(x))
        self.none = ~self.bad & np.isinf(a) & ~self.full
        proper = ~(self.bad | self.zero | self.full | self.none)
        self.a, self.x = np.where(proper, a, 1.0), np.where(proper, x, 1.0)
        self.by_series = (self.x <= 1) | (self.x <= self.a)
        with np.errstate(all="ignore"):
            self.log_power = _log_power(self.a, self.x)
            # Of the series or the fraction, and the derivative of that.
            self.value, self.slope = self._made(slopes)

    def _made(self, slopes: bool) -> tuple[Array, Array]:
        made = np.empty_like(self.a), np.empty_like(self.a)
        for function, which in ((_series, self.by_series), (_fraction, ~self.by_series)):
            (at,) = which.nonzero()
            if at.size:
                for into, found in zip(made, function(self.a[at], self.x[at], slopes), strict=True):
                    into[at] = found
        return made


def _in_pieces(function: Callable[[Array, Array], Array], a: Array, x: Array) -> Array:
    """function(a, x) of some numbers after the others."""
    first, second = (np.ascontiguousarray(each).reshape(-1) for each in (a, x))
    out = np.empty(first.shape)

    for begin in range(0, len(out), _TOGETHER):
        which = slice(begin, begin + _TOGETHER)
        out[which] = function(first[which], second[which])
    return out.reshape(a.shape)


def gamma_p(a: Array, x: Array, upper: bool = False) -> Array:
    """The regularized lower incomplete gamma function P(a, x), or the upper one, Q = 1 - P."""
    return _in_pieces(lambda a, x: _gamma_p(a, x, upper), a, x)


def _gamma_p(a: Array, x: Array, upper: bool) -> Array:
    parts = _Parts(a, x, False)
    with np.errstate(all="ignore"):
        found = np.exp(parts.log_power)
        found *= np.where(parts.by_series, 1.0, parts.a)
        found *= parts.value
        other = ~parts.by_series ^ upper
        found[other] = 1 - found[other]
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


def _slopes(parts: _Parts) -> Array:
    """dP/da over the power x^a exp(-x) / Γ(a + 1)."""
    log_x = np.log(parts.x)
    # Of digamma(a + 1) = digamma(a) + 1 / a the sum would leave nothing where a is tiny.
    by_series = parts.slope + parts.value * (log_x - _digamma(parts.a + 1))
    by_fraction = -parts.a * (parts.slope + parts.value * (log_x - _digamma(parts.a)))
    slopes: Array = np.where(parts.by_series, by_series, by_fraction)
    return slopes


def gamma_p_slope(a: Array, x: Array) -> Array:
    """The derivative of P(a, x) by a."""
    return _in_pieces(_gamma_p_slope, a, x)


def _gamma_p_slope(a: Array, x: Array) -> Array:
    parts = _Parts(a, x, True)
    with np.errstate(all="ignore"):
        found = np.exp(parts.log_power) * _slopes(parts)
    found = np.where((x == 0) | parts.full | parts.none, 0.0, found)
    return np.where(parts.bad & (x != 0), np.nan, found)


def gamma_sample_slope(a: Array, sample: Array) -> Array:
    """How a number drawn from a gamma distribution changes with its shape a: -(dP/da) / (dP/dx)."""
    return _in_pieces(_gamma_sample_slope, a, sample)


def _gamma_sample_slope(a: Array, sample: Array) -> Array:
    parts = _Parts(a, sample, True)
    with np.errstate(all="ignore"):
        found = -_slopes(parts) * parts.x / parts.a
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
