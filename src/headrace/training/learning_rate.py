"""Learning rates that fall with the global step.

Called by: programs; what they return goes into an optimizer.  Threads: as graph.
Source: TF 1.15 python/training/learning_rate_decay.py, for the formulas; names checked against the
oracle (but for piecewise_constant, which needs no control flow here)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.ops.casting import cast
from headrace.ops.constants import constant

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "inverse_time_decay",
    "natural_exp_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
]


def _step_of(global_step: Any) -> Any:
    if global_step is None:
        raise ValueError("a decaying learning rate needs the global_step it decays with")
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
        wave = 0.5 * (1.0 + get("Cos")(constant(math.pi, dtype=rate.dtype) * progress))
        decayed: Tensor = get("Mul")(rate, (1 - alpha) * wave + alpha)
    return decayed


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Tensor:
    """values[0] up to and including boundaries[0], then values[1], …

    Raises ValueError (numbers that do not fit, boundaries of another type than x).
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            f"there must be one boundary less than values, and there are {len(boundaries)} and "
            f"{len(values)}"
        )
    with name_scope(name, "PiecewiseConstant", [x, *boundaries, *values]) as scope:
        at = convert(x)
        chosen = convert(values[0])
        kind = at.dtype.base_dtype
        for number, (boundary, value) in enumerate(zip(boundaries, values[1:], strict=True)):
            limit = convert(boundary)
            if limit.dtype.base_dtype != kind:
                if not (limit.dtype.base_dtype == dtypes.int32 and kind == dtypes.int64):
                    raise ValueError(
                        f"boundaries must be of the type of x, {kind.name}, not "
                        f"{limit.dtype.base_dtype.name}"
                    )
                limit = cast(limit, kind)
            last = number == len(boundaries) - 1
            chosen = get("SelectV2")(
                get("Greater")(at, limit), value, chosen, name=scope if last else None
            )
    return chosen


piecewise_constant_decay = piecewise_constant
