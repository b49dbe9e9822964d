"""What several distributions need: parameters, checks, seeds, the normal distribution's functions.

Called by: library.distributions.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21; Moro and Cody's error functions are the ops' own
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.checks.ranks import assert_rank_at_least
from headrace.library.checks.values import assert_near
from headrace.ops.array.constants import constant, fill, zeros_like
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import (
    assert_equal,
    assert_less,
    assert_less_equal,
    assert_non_negative,
)
from headrace.ops.flow.identities import identity, with_dependencies
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.elementwise import sigmoid
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.nn.softmax import softmax
from headrace.ops.tables import make

__all__: list[str] = []

_LOWER: Final = {"float32": -10.0, "float64": -20.0}
_UPPER: Final = {"float32": 5.0, "float64": 8.0}


def salted(seed: int | None, salt: str) -> int | None:
    """Another seed, for the second random operation of a draw."""
    if seed is None:
        return None
    return int(hashlib.md5(f"{seed}{salt}".encode()).hexdigest()[:8], 16) & 0x7FFFFFFF


def after(checks: Sequence[Any], value: Tensor) -> Tensor:
    """`value`, once the checks are made."""
    if not checks:
        return value
    made: Tensor = with_dependencies(checks, value)
    return made


def kept(value: Any, name: str) -> Tensor:
    """A parameter under its name."""
    made: Tensor = identity(value, name=name)
    return made


def defined(
    owner: Any,
    condition: Callable[[], Tensor],
    value: Tensor,
    shape: Callable[[], Tensor],
    checks: Callable[[], Sequence[Any]],
    condition_first: bool = False,
) -> Tensor:
    """`value` where the condition holds.  Elsewhere NaN, or an error of the step if the owner allows no NaN.

    shape: of the NaNs.  checks: makes the assertions for that.  condition_first: its nodes come before the NaNs'.
    """
    if not owner.allow_nan_stats:
        return after(checks(), value)
    holds = condition() if condition_first else None
    nan = fill(shape(), np.array(np.nan, owner.dtype.np), name="nan")
    return where_v2(condition() if holds is None else holds, value, nan)


# -- checks -----------------------------------------------------------------------------------


def assert_integer_form(x: Tensor, message: str, int_dtype: Any = None) -> Any:
    """That the elements are whole numbers."""
    with name_scope("assert_integer_form", values=[x]):
        if x.dtype.is_integer:
            return make.NoOp()
        kinds = {"float16": dtypes.int16, "float32": dtypes.int32, "float64": dtypes.int64}
        whole = int_dtype or kinds[x.dtype.base_dtype.name]
        whole_parts = cast(cast(x, whole), x.dtype)
        return assert_equal(x, whole_parts, message=message, name="assert_integer_form")


def checked_counts(x: Tensor, name: str = "embed_check_nonnegative_integer_form") -> Tensor:
    """x, which is not negative and, if it is of floats, whole."""
    with name_scope(name, values=[x]):
        checks = [assert_non_negative(x, message=f"'{x}' must be non-negative.")]
        if not x.dtype.is_integer:
            checks.append(assert_integer_form(x, f"'{x}' cannot contain fractional components."))
        return after(checks, x)


def checked_truth(x: Tensor) -> Tensor:
    """x, all of whose elements are 0 or 1."""
    with name_scope("embed_check_casting_closed", values=[x]):
        checks = []
        if x.dtype.base_dtype not in (dtypes.bool, dtypes.uint8, dtypes.uint16):
            checks.append(assert_non_negative(x, message="Elements must be non-negative."))
        if not x.dtype.is_integer:
            checks.append(assert_integer_form(x, "Elements must be bool-equivalent.", dtypes.bool))
        elif x.dtype.base_dtype != dtypes.bool:
            checks.append(assert_less_equal(x, 1, message="Elements cannot exceed 1."))
        return after(checks, x)


def checked_classes(x: Tensor) -> Tensor:
    """x, whose elements are whole numbers from 0 on."""
    with name_scope("embed_check_casting_closed", values=[x]):
        checks = [assert_non_negative(x, message="Elements must be non-negative.")]
        if not x.dtype.is_integer:
            checks.append(assert_integer_form(x, "Elements must be int32-equivalent."))
        return after(checks, x)


def checked_event(x: Tensor) -> Tensor:
    """x [..., classes], of two classes or more.

    Raises ValueError if that is known not to be so; the step checks what is not known.
    """
    with name_scope("embed_check_categorical_event_shape", values=[x]):
        says = "A categorical-distribution parameter must have at least {}."
        shape = x.shape
        if shape.ndims == 0:
            raise ValueError(says.format("1 dimension"))
        size = None if shape.ndims is None else shape[-1].value
        if size is not None:
            if size < 2:
                raise ValueError(says.format("2 events"))
            return x
        checks = [
            assert_rank_at_least(x, 1, message=says.format("1 dimension")),
            assert_less_equal(2, shape_of(x)[-1:], message=says.format("2 events")),
        ]
        return after(checks, x)


def logits_and_probs(
    logits: Any, probs: Any, several: bool, validate: bool
) -> tuple[Tensor, Tensor]:
    """Both, of which one is given.  several: a vector of classes each, not one probability.

    Raises ValueError unless exactly one is given, TypeError for what is not of floats.
    """
    if (probs is None) == (logits is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if probs is None:
        logits = convert(logits, name="logits")
        if not logits.dtype.is_floating:
            raise TypeError("logits must having floating type.")
        if several:
            logits = checked_event(logits) if validate else logits
            return logits, softmax(logits, name="probs")
        return logits, sigmoid(logits, name="probs")
    probs = convert(probs, name="probs")
    if not probs.dtype.is_floating:
        raise TypeError("probs must having floating type.")
    if validate:
        with name_scope("validate_probs"):
            one = constant(1.0, probs.dtype)
            checks = [assert_non_negative(probs)]
            if several:
                says = "probs does not sum to 1."
                checks.append(assert_near(reduce_sum(probs, -1), one, message=says))
            else:
                says = "probs has components greater than 1."
                checks.append(assert_less_equal(probs, one, message=says))
            probs = after(checks, probs)
    with name_scope("logits"):
        if several:
            return make.Log(probs), probs
        return make.Log(probs) - make.Log1p(-1.0 * probs), probs


def log_combinations(n: Any, counts: Any) -> Tensor:
    """The logarithm of the number of ways to share n among classes of these counts [..., classes]."""
    with name_scope("log_combinations", values=[n, counts]):
        n, counts = convert(n, name="n"), convert(counts, name="counts")
        whole = make.Lgamma(n + 1)
        made: Tensor = whole - reduce_sum(make.Lgamma(counts + 1), axis=[-1])
        return made


def below(x: Any, y: Any, message: str) -> Any:
    """assert_less, under the argument order that these distributions use."""
    return assert_less(x, y, message=message)


# -- the normal distribution ------------------------------------------------------------------


def normal_cdf(x: Tensor) -> Tensor:
    """The probability of a standard normal draw not above x."""
    with name_scope("ndtr", values=[x]):
        return _normal_cdf(x)


def _normal_cdf(x: Tensor) -> Tensor:
    half_root = constant(0.5 * math.sqrt(2.0), x.dtype, name="half_sqrt_2")
    scaled = x * half_root
    size = make.Abs(scaled)
    near = make.Less(size, half_root)
    inner = 1.0 + make.Erf(scaled)
    outer = where_v2(make.Greater(scaled, 0.0), 2.0 - make.Erfc(size), make.Erfc(size))
    made: Tensor = 0.5 * where_v2(near, inner, outer)
    return made


def log_normal_cdf(x: Tensor) -> Tensor:
    """The logarithm of `normal_cdf`; far below 0 by its asymptotic series, so that nothing is lost."""
    with name_scope("log_ndtr", values=[x]):
        kind = x.dtype.base_dtype.name
        if kind not in _LOWER:
            raise TypeError(f"x.dtype={kind} is not supported.")
        lower, upper = _LOWER[kind], _UPPER[kind]
        return where_v2(
            make.Greater(x, upper),
            -_normal_cdf(-x),
            where_v2(
                make.Greater(x, lower),
                make.Log(_normal_cdf(make.Maximum(x, lower))),
                _log_of_tail(make.Minimum(x, lower)),
            ),
        )


def _log_of_tail(x: Tensor) -> Any:
    return _tail_scale(x) + make.Log(_tail_series(x))


def _tail_scale(x: Tensor) -> Any:
    return -0.5 * make.Square(x) - make.Log(-x) - 0.5 * math.log(2.0 * math.pi)


def _tail_series(x: Tensor) -> Any:
    """1 - 1/x² + 3/x⁴ - 15/x⁶, even terms and odd ones apart."""
    square = make.Square(x)
    even, odd = zeros_like(x), zeros_like(x)
    power, factor = square, 1.0
    for order in range(1, 4):
        factor *= 2 * order - 1
        term = factor / power
        even, odd = (even, odd + term) if order % 2 else (even + term, odd)
        power = power * square
    return 1.0 + even - odd
