"""Learning rates that fall with the global step.

Called by: programs; what they return goes into an optimizer.  Threads: as graph.
Source: TF 1.15 python/training/learning_rate_decay.py, for the formulas; names checked against the
oracle
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.cases import case
from headrace.ops.array.constants import constant
from headrace.ops.flow.control_flow import cond
from headrace.ops.math.casting import cast
from headrace.ops.random.draws import random_normal

__all__ = [
    "cosine_decay",
    "cosine_decay_restarts",
    "exponential_decay",
    "inverse_time_decay",
    "linear_cosine_decay",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
]


def _step_of(global_step: Any) -> Any:
    if global_step is None:
        raise ValueError(
            "None values not supported: a decaying learning rate needs the global_step it decays with"
        )
    return global_step


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ^ (global_step / decay_steps); `staircase`: the exponent's floor."""
    step = _step_of(global_step)
    with name_scope(name, "ExponentialDecay", [learning_rate, step, decay_steps]) as scope:
        rate = convert(learning_rate, None, "initial_learning_rate")
        steps, base = cast(decay_steps, rate.dtype), cast(decay_rate, rate.dtype)
        power = cast(step, rate.dtype) / steps
        if staircase:
            power = get("Floor")(power)
        decayed: Tensor = get("Mul")(rate, get("Pow")(base, power), name=scope)
    return decayed


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * exp(-decay_rate * global_step / decay_steps)."""
    base = get("Exp")(get("Neg")(decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, base, staircase, name)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    step = _step_of(global_step)
    with name_scope(name, "InverseTimeDecay", [learning_rate, step, decay_rate]) as scope:
        rate = convert(learning_rate, None, "initial_learning_rate")
        steps, factor = cast(decay_steps, rate.dtype), cast(decay_rate, rate.dtype)
        passed = cast(step, rate.dtype) / steps
        if staircase:
            passed = get("Floor")(passed)
        one = cast(constant(1), rate.dtype)
        divisor = get("AddV2")(one, get("Mul")(factor, passed), name="Add")
        decayed: Tensor = get("RealDiv")(rate, divisor, name=scope)
    return decayed


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """From learning_rate to end_learning_rate in decay_steps, along (1 - progress) ^ power.

    cycle: past the end it starts again from above, with twice, thrice, … the decay_steps.
    """
    step = _step_of(global_step)
    values = [learning_rate, step, decay_steps, end_learning_rate, power]
    with name_scope(name, "PolynomialDecay", values) as scope:
        rate = convert(learning_rate, None, "initial_learning_rate")
        end, exponent = cast(end_learning_rate, rate.dtype), cast(power, rate.dtype)
        at = cast(step, rate.dtype)
        steps = cast(decay_steps, rate.dtype)
        if cycle:
            at_start = get("Equal")(at, 0)
            rounds = get("SelectV2")(at_start, 1.0, get("Ceil")(at / decay_steps))
            steps = get("Mul")(steps, rounds)
        else:
            at = get("Minimum")(at, steps)
        progress = at / steps
        fallen = get("Mul")(rate - end, get("Pow")(1 - progress, exponent))
        decayed: Tensor = get("AddV2")(fallen, end, name=scope)
    return decayed


def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Half a cosine from learning_rate down to alpha * learning_rate in decay_steps."""
    step = _step_of(global_step)
    with name_scope(name, "CosineDecay", [learning_rate, step]):
        rate = convert(learning_rate, None, "initial_learning_rate")
        steps = cast(decay_steps, rate.dtype)
        progress = get("Minimum")(cast(step, rate.dtype), steps) / steps
        wave = 0.5 * (1.0 + get("Cos")(_pi(rate) * progress))
        decayed: Tensor = get("Mul")(rate, (1 - alpha) * wave + alpha)
    return decayed


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cosine decay that starts again at its end, t_mul times longer and m_mul times lower each time."""
    step = _step_of(global_step)
    with name_scope(name, "SGDRDecay", [learning_rate, step]) as scope:
        rate = convert(learning_rate, None, "initial_learning_rate")
        first, least, longer, lower, at = (
            cast(value, rate.dtype) for value in (first_decay_steps, alpha, t_mul, m_mul, step)
        )
        passed = at / first  # in lengths of the first period
        restarts, progress = cond(
            get("Equal")(longer, 1.0),
            lambda: _equal_periods(passed),
            lambda: _growing_periods(passed, longer),
        )
        wave = 0.5 * lower**restarts * (1.0 + get("Cos")(_pi(rate) * progress))
        decayed: Tensor = get("Mul")(rate, (1 - least) * wave + least, name=scope)
    return decayed


def _equal_periods(passed: Tensor) -> tuple[Tensor, Tensor]:
    """How many periods are over, and what part of the next one."""
    restarts = get("Floor")(passed)
    return restarts, passed - restarts


def _growing_periods(passed: Tensor, longer: Tensor) -> tuple[Tensor, Tensor]:
    """As `_equal_periods`, where the n-th period is longer^n: n of them are (1 - longer^n) / (1 - longer)."""
    log = get("Log")
    restarts = get("Floor")(log(1.0 - passed * (1.0 - longer)) / log(longer))
    over = (1.0 - longer**restarts) / (1.0 - longer)
    return restarts, (passed - over) / longer**restarts


def _pi(rate: Tensor) -> Tensor:
    return constant(math.pi, dtype=rate.dtype)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """learning_rate * ((alpha + what is left of decay_steps) * a cosine of num_periods + beta)."""
    step = _step_of(global_step)
    with name_scope(name, "LinearCosineDecay", [learning_rate, step]) as scope:
        rate = convert(learning_rate, None, "initial_learning_rate")
        steps, periods, alpha, beta, at = (
            cast(value, rate.dtype) for value in (decay_steps, num_periods, alpha, beta, step)
        )
        at = get("Minimum")(at, steps)
        left = (steps - at) / steps
        wave = _wave(rate, periods, at / steps)
        decayed: Tensor = get("Mul")(rate, (alpha + left) * wave + beta, name=scope)
    return decayed


def _wave(rate: Tensor, periods: Tensor, progress: Tensor) -> Tensor:
    """A cosine between 1 and 0."""
    wave: Tensor = 0.5 * (1.0 + get("Cos")(_pi(rate) * (2.0 * periods * progress)))
    return wave


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """Linear cosine decay with normal noise, of variance initial_variance / (1 + step) ^ variance_decay."""
    step = _step_of(global_step)
    with name_scope(name, "NoisyLinearCosineDecay", [learning_rate, step]) as scope:
        rate = convert(learning_rate, None, "initial_learning_rate")
        values = decay_steps, initial_variance, variance_decay, num_periods, alpha, beta, step
        steps, variance, fading, periods, alpha, beta, at = (
            cast(value, rate.dtype) for value in values
        )
        at = get("Minimum")(at, steps)
        left = (steps - at) / steps
        spread = get("Sqrt")(variance / get("Pow")(1.0 + at, fading))
        noisy = left + random_normal(left.shape, stddev=spread, dtype=rate.dtype)
        wave = _wave(rate, periods, at / steps)
        decayed: Tensor = get("Mul")(rate, (alpha + noisy) * wave + beta, name=scope)
    return decayed


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Any:
    """values[0] up to and including boundaries[0], then values[1], …

    Raises ValueError (numbers that do not fit, boundaries of another type than x, values of several types).
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values, and they are "
            f"{len(boundaries)} and {len(values)}"
        )
    limits = [convert(boundary) for boundary in boundaries]
    rates = [convert(value) for value in values]
    for rate in rates[1:]:
        if rate.dtype.base_dtype != rates[0].dtype.base_dtype:
            raise ValueError(
                f"Values must have elements all with the same dtype ({rates[0].dtype.base_dtype} vs "
                f"{rate.dtype.base_dtype}): they are the learning rates"
            )
    kind = convert(x).dtype.base_dtype
    for number, limit in enumerate(limits):
        if limit.dtype.base_dtype != kind:
            if not (limit.dtype.base_dtype == dtypes.int32 and kind == dtypes.int64):
                raise ValueError(
                    f"Boundaries ({limit.dtype.base_dtype}) must have the same dtype as x ({kind}); tf.cast converts"
                )
            limits[number] = cast(limit, kind)
    with name_scope(name, "PiecewiseConstant", [x, *boundaries, *values]):
        at = convert(x)
        choices = [(at <= limits[0], lambda: rates[0]), (at > limits[-1], lambda: rates[-1])]
        for low, high, rate in zip(limits, limits[1:], rates[1:], strict=False):
            within = get("LogicalAnd")(at > low, at <= high, name="and")
            choices.append((within, partial(_given, rate)))
        return case(choices, default=lambda: rates[0], exclusive=True)


def _given(rate: Tensor) -> Tensor:
    return rate


piecewise_constant_decay = piecewise_constant
