"""Training ops of Adadelta, RMSProp and the sign rules: steps scaled by what gradients were like lately.

Called by: training's optimizers, programs that name these ops.  Threads: see ops.training.update_rules.
Source: TF 1.15 core/kernels/training_ops.cc, for the formulas; values checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops.training.descent import approach, approach_square, rest
from headrace.ops.training.update_rules import Array, Temporaries, rule

__all__: list[str] = []


@rule(
    "Adadelta",
    slots="accum accum_update",
    dense="lr rho epsilon grad",
    sparse="lr rho epsilon grad indices",
)
def adadelta(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    accum_update: Array,
    grad: Array,
    *,
    lr: Any,
    rho: Any,
    epsilon: Any,
) -> None:
    """accum moves towards grad^2, accum_update towards step^2, both by 1 - rho; var -= lr * step.

    step = grad * sqrt(accum_update + epsilon) / sqrt(accum + epsilon).
    """
    approach_square(temporary, accum, grad, rest(rho))
    root, step = temporary(1), temporary(2)
    np.add(accum, epsilon, out=root)
    np.sqrt(root, out=root)
    np.add(accum_update, epsilon, out=step)
    np.sqrt(step, out=step)
    np.divide(step, root, out=step)
    np.multiply(step, grad, out=step)
    approach_square(temporary, accum_update, step, rest(rho))
    np.multiply(step, lr, out=step)
    np.subtract(var, step, out=var)


def _with_momentum(
    temporary: Temporaries,
    var: Array,
    mom: Array,
    scale: Array,
    grad: Array,
    lr: Any,
    momentum: Any,
) -> None:
    """mom = momentum * mom + lr * grad / sqrt(scale); var -= mom; uses scratch 1 and overwrites `scale`.

    Of a momentum of 0, as it mostly is, it does not matter what `mom` was, nor whether that was finite.
    """
    np.sqrt(scale, out=scale)
    if momentum == 0:
        np.multiply(grad, lr, out=mom)
        np.divide(mom, scale, out=mom)
    else:
        step = temporary(1)
        np.multiply(grad, lr, out=step)
        np.divide(step, scale, out=step)
        np.multiply(mom, momentum, out=mom)
        np.add(mom, step, out=mom)
    np.subtract(var, mom, out=var)


@rule(
    "RMSProp",
    slots="ms mom",
    dense="lr rho momentum epsilon grad",
    sparse="lr rho momentum epsilon grad indices",
)
def rms_prop(
    temporary: Temporaries,
    var: Array,
    ms: Array,
    mom: Array,
    grad: Array,
    *,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
) -> None:
    """ms moves towards grad^2 by 1 - rho; mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom."""
    approach_square(temporary, ms, grad, rest(rho))
    scale = temporary(0)  # what is in a cache: large updates wait for memory
    np.add(ms, epsilon, out=scale)
    _with_momentum(temporary, var, mom, scale, grad, lr, momentum)


@rule(
    "CenteredRMSProp",
    slots="mg ms mom",
    dense="lr rho momentum epsilon grad",
    sparse="lr rho momentum epsilon grad indices",
)
def centered_rms_prop(
    temporary: Temporaries,
    var: Array,
    mg: Array,
    ms: Array,
    mom: Array,
    grad: Array,
    *,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
) -> None:
    """As RMSProp, scaled by the variance: ms - mg^2, where mg moves towards grad by 1 - rho."""
    approach_square(temporary, ms, grad, rest(rho))
    approach(temporary, mg, grad, rest(rho))
    scale = temporary(0)
    np.multiply(mg, mg, out=scale)
    np.subtract(ms, scale, out=scale)
    np.add(scale, epsilon, out=scale)
    _with_momentum(temporary, var, mom, scale, grad, lr, momentum)


def _agreement(temporary: Temporaries, m: Array, grad: Array, beta: Any) -> Array:
    """m moves towards grad by 1 - beta; sign(grad) * sign(m), in scratch 1."""
    approach(temporary, m, grad, rest(beta))
    sign, agreement = temporary(0), temporary(1)
    np.sign(grad, out=sign)
    np.sign(m, out=agreement)
    np.multiply(agreement, sign, out=agreement)
    return agreement


@rule("AddSign", slots="m", dense="lr alpha sign_decay beta grad")
def add_sign(
    temporary: Temporaries,
    var: Array,
    m: Array,
    grad: Array,
    *,
    lr: Any,
    alpha: Any,
    sign_decay: Any,
    beta: Any,
) -> None:
    """var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad; m moves towards grad by 1 - beta."""
    scale = _agreement(temporary, m, grad, beta)
    np.multiply(scale, sign_decay, out=scale)
    np.add(scale, alpha, out=scale)
    np.multiply(scale, lr, out=scale)
    np.multiply(scale, grad, out=scale)
    np.subtract(var, scale, out=var)


@rule("PowerSign", slots="m", dense="lr logbase sign_decay beta grad")
def power_sign(
    temporary: Temporaries,
    var: Array,
    m: Array,
    grad: Array,
    *,
    lr: Any,
    logbase: Any,
    sign_decay: Any,
    beta: Any,
) -> None:
    """var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad; m moves towards grad by 1 - beta."""
    scale = _agreement(temporary, m, grad, beta)
    np.multiply(scale, logbase * sign_decay, out=scale)
    np.exp(scale, out=scale)
    np.multiply(scale, lr, out=scale)
    np.multiply(scale, grad, out=scale)
    np.subtract(var, scale, out=var)
