"""Training ops that pull weights to zero on the way: proximal rules, Adagrad with dual averaging, FTRL.

Called by: training's optimizers, programs that name these ops.  Threads: see ops.training.update_rules.
Source: TF 1.15 core/kernels/training_ops.cc, for the formulas; values checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.ops.training.update_rules import Array, Temporaries, rule

__all__: list[str] = []


def _shrunk(temporary: Temporaries, value: Array, amount: Any) -> None:
    """value = sign(value) * max(|value| - amount, 0), in place; uses scratch 3."""
    if not np.ndim(amount) and not amount:
        np.add(value, 0, out=value)  # of a zero below zero the sign would go, too
        return
    sign = temporary(3)
    np.sign(value, out=sign)
    np.abs(value, out=value)
    np.subtract(value, amount, out=value)
    np.maximum(value, 0, out=value)
    np.multiply(value, sign, out=value)


@rule(
    "ProximalGradientDescent",
    slots="",
    dense="alpha l1 l2 delta",
    sparse="alpha l1 l2 grad indices",
)
def proximal_gradient_descent(
    temporary: Temporaries, var: Array, delta: Array, *, alpha: Any, l1: Any, l2: Any
) -> None:
    """var -= alpha * delta, then shrunk by alpha * l1 and divided by 1 + alpha * l2."""
    step = temporary(0)
    np.multiply(delta, alpha, out=step)
    np.subtract(var, step, out=var)
    if l1 > 0:
        _shrunk(temporary, var, alpha * l1)
    np.divide(var, alpha * l2 + alpha.dtype.type(1), out=var)


@rule("ProximalAdagrad", slots="accum", dense="lr l1 l2 grad", sparse="lr l1 l2 grad indices")
def proximal_adagrad(
    temporary: Temporaries, var: Array, accum: Array, grad: Array, *, lr: Any, l1: Any, l2: Any
) -> None:
    """accum += grad^2; as ProximalGradientDescent with alpha = lr / sqrt(accum) for each element."""
    if not (lr > 0 and l1 >= 0 and l2 >= 0):
        raise errors.invalid_argument(
            f"lr must be positive, l1 and l2 must not be negative, but they are {lr}, {l1} and {l2}"
        )
    step, rate = temporary(0), temporary(1)
    np.multiply(grad, grad, out=step)
    np.add(accum, step, out=accum)
    np.sqrt(accum, out=rate)
    np.divide(lr, rate, out=rate)
    np.multiply(grad, rate, out=step)
    np.subtract(var, step, out=var)
    if l1 > 0:
        np.multiply(rate, l1, out=step)
        _shrunk(temporary, var, step)
    np.multiply(rate, l2, out=rate)
    np.add(rate, 1, out=rate)
    np.divide(var, rate, out=var)


@rule(
    "AdagradDA",
    slots="gradient_accumulator gradient_squared_accumulator",
    dense="grad lr l1 l2 global_step",
    sparse="grad indices lr l1 l2 global_step",
)
def adagrad_da(
    temporary: Temporaries,
    var: Array,
    gradient_accumulator: Array,
    gradient_squared_accumulator: Array,
    grad: Array,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    global_step: Any,
) -> None:
    """The accumulators add up grad and grad^2; var is computed anew from them.

    var = -lr * (sum of grad, shrunk by l1 * global_step) / (l2 * global_step * lr + sqrt(sum of grad^2)).
    """
    square, scale = temporary(0), temporary(1)
    np.add(gradient_accumulator, grad, out=gradient_accumulator)
    np.multiply(grad, grad, out=square)
    np.add(gradient_squared_accumulator, square, out=gradient_squared_accumulator)
    steps = lr.dtype.type(global_step)
    np.sqrt(gradient_squared_accumulator, out=scale)
    np.add(scale, l2 * steps * lr, out=scale)
    var[...] = gradient_accumulator
    if l1 > 0:
        _shrunk(temporary, var, l1 * steps)
    np.multiply(var, -lr, out=var)
    np.divide(var, scale, out=var)


# -- FTRL -------------------------------------------------------------------------------------


def _power(temporary: Array, base: Array, lr_power: Any) -> Array:
    """base ^ -lr_power, in `temporary`."""
    if lr_power == -0.5:
        return np.sqrt(base, out=temporary)
    np.power(base, -lr_power, out=temporary)
    return temporary


def _ftrl(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    lr: Any,
    l1: Any,
    l2: Any,
    lr_power: Any,
    shrinkage: Any,
    multiply_linear_by_lr: bool,
) -> None:
    by_lr = lr if multiply_linear_by_lr else 1
    step, before = temporary(0), temporary(1)
    _power(before, accum, lr_power)
    np.multiply(grad, grad, out=step)
    np.add(accum, step, out=accum)
    after = _power(temporary(2), accum, lr_power)
    # linear += grad (shrunk) - (after - before) / lr * var
    np.subtract(before, after, out=before)
    if not multiply_linear_by_lr:
        np.divide(before, lr, out=before)
    np.multiply(before, var, out=before)
    np.add(linear, before, out=linear)
    if shrinkage is not None:
        np.multiply(var, 2 * shrinkage, out=step)
        np.add(step, grad, out=step)
        np.multiply(step, by_lr, out=step)
    else:
        step = np.multiply(grad, lr, out=step) if multiply_linear_by_lr else grad
    np.add(linear, step, out=linear)
    # var = (-linear, shrunk by l1) / (after / lr + 2 * l2)
    if not multiply_linear_by_lr:
        np.divide(after, lr, out=after)
    np.add(after, 2 * l2 * by_lr, out=after)
    np.negative(linear, out=var)
    _shrunk(temporary, var, l1 * by_lr)
    np.divide(var, after, out=var)


@rule(
    "Ftrl",
    slots="accum linear",
    dense="grad lr l1 l2 lr_power",
    sparse="grad indices lr l1 l2 lr_power",
    attrs="multiply_linear_by_lr: bool = false",
)
def ftrl(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    lr_power: Any,
    multiply_linear_by_lr: bool,
) -> None:
    """Follow the regularized leader: accum adds up grad^2, linear the gradients, and var follows from them."""
    _ftrl(temporary, var, accum, linear, grad, lr, l1, l2, lr_power, None, multiply_linear_by_lr)


@rule(
    "FtrlV2",
    slots="accum linear",
    dense="grad lr l1 l2 l2_shrinkage lr_power",
    sparse="grad indices lr l1 l2 l2_shrinkage lr_power",
    attrs="multiply_linear_by_lr: bool = false",
)
def ftrl_v2(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    l2_shrinkage: Any,
    lr_power: Any,
    multiply_linear_by_lr: bool,
) -> None:
    """As Ftrl, with 2 * l2_shrinkage * var added to the gradients that linear adds up."""
    _ftrl(
        temporary,
        var,
        accum,
        linear,
        grad,
        lr,
        l1,
        l2,
        lr_power,
        l2_shrinkage,
        multiply_linear_by_lr,
    )
