"""Training ops of gradient descent, momentum, Adagrad and Adam: ops.training.update_rules makes four ops of each rule.

Called by: training's optimizers, programs that name these ops.  Threads: see ops.training.update_rules.
Source: TF 1.15 core/kernels/training_ops.cc, for the formulas; values checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops.training.update_rules import Array, Temporaries, rule

__all__: list[str] = []


def rest(part: Any) -> Any:
    """1 - part, in its own type."""
    return part.dtype.type(1) - part


def approach(temporary: Temporaries, mean: Array, value: Array, rate: Any) -> None:
    """mean += (value - mean) * rate; uses scratch 0, which may be `value` itself."""
    scratch = temporary(0)
    np.subtract(value, mean, out=scratch)
    np.multiply(scratch, rate, out=scratch)
    np.add(mean, scratch, out=mean)


def approach_square(temporary: Temporaries, mean: Array, value: Array, rate: Any) -> None:
    """mean += (value^2 - mean) * rate; uses scratch 0."""
    scratch = temporary(0)
    np.multiply(value, value, out=scratch)
    approach(temporary, mean, scratch, rate)


@rule("GradientDescent", slots="", dense="alpha delta", rewrites=True)
def gradient_descent(scratch: Array, var: Array, after: Array, delta: Array, *, alpha: Any) -> None:
    """var -= alpha * delta."""
    np.multiply(delta, alpha, scratch)
    np.subtract(var, scratch, after)


@rule(
    "Momentum",
    slots="accum",
    dense="lr grad momentum",
    sparse="lr grad indices momentum",
    attrs="use_nesterov: bool = false",
)
def momentum(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    grad: Array,
    *,
    lr: Any,
    momentum: Any,
    use_nesterov: bool,
) -> None:
    """accum = momentum * accum + grad; var -= lr * accum (Nesterov: looking one step ahead)."""
    step = temporary(0)
    np.multiply(accum, momentum, out=accum)
    np.add(accum, grad, out=accum)
    if use_nesterov:
        ahead = temporary(1)
        np.multiply(accum, momentum, out=ahead)
        np.multiply(ahead, lr, out=ahead)
        np.multiply(grad, lr, out=step)
        np.add(step, ahead, out=step)
    else:
        np.multiply(accum, lr, out=step)
    np.subtract(var, step, out=var)


@rule(
    "KerasMomentum",
    slots="accum",
    dense="lr grad momentum",
    sparse="lr grad indices momentum",
    attrs="use_nesterov: bool = false",
    refs=False,
)
def keras_momentum(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    grad: Array,
    *,
    lr: Any,
    momentum: Any,
    use_nesterov: bool,
) -> None:
    """accum = momentum * accum - lr * grad; var += accum (Nesterov: looking one step ahead)."""
    step = temporary(0)
    np.multiply(grad, lr, out=step)
    np.multiply(accum, momentum, out=accum)
    np.subtract(accum, step, out=accum)
    if use_nesterov:
        np.subtract(var, step, out=var)
        np.multiply(accum, momentum, out=step)
        np.add(var, step, out=var)
    else:
        np.add(var, accum, out=var)


# -- Adagrad ----------------------------------------------------------------------------------


def _adagrad(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    grad: Array,
    lr: Any,
    update_slots: bool,
    epsilon: Any,
) -> None:
    step, root = temporary(0), temporary(1)
    if update_slots:
        np.multiply(grad, grad, out=step)
        np.add(accum, step, out=accum)
    np.sqrt(accum, out=root)
    if epsilon is not None:
        np.add(root, epsilon, out=root)
    np.multiply(grad, lr, out=step)
    np.divide(step, root, out=step)
    np.subtract(var, step, out=var)


@rule(
    "Adagrad",
    slots="accum",
    dense="lr grad",
    sparse="lr grad indices",
    attrs="update_slots: bool = true",
)
def adagrad(
    temporary: Temporaries, var: Array, accum: Array, grad: Array, *, lr: Any, update_slots: bool
) -> None:
    """accum += grad^2; var -= lr * grad / sqrt(accum)."""
    _adagrad(temporary, var, accum, grad, lr, update_slots, None)


@rule(
    "AdagradV2",
    slots="accum",
    dense="lr epsilon grad",
    sparse="lr epsilon grad indices",
    attrs="update_slots: bool = true",
)
def adagrad_v2(
    temporary: Temporaries,
    var: Array,
    accum: Array,
    grad: Array,
    *,
    lr: Any,
    epsilon: Any,
    update_slots: bool,
) -> None:
    """accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)."""
    _adagrad(temporary, var, accum, grad, lr, update_slots, epsilon)


# -- Adam -------------------------------------------------------------------------------------


@rule(
    "Adam",
    slots="m v",
    dense="beta1_power beta2_power lr beta1 beta2 epsilon grad",
    attrs="use_nesterov: bool = false",
)
def adam(
    temporary: Temporaries,
    var: Array,
    m: Array,
    v: Array,
    grad: Array,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    use_nesterov: bool,
) -> None:
    """One step of Adam.

    rate = lr * sqrt(1 - beta2_power) / (1 - beta1_power); m and v move towards grad and grad^2 by
    1 - beta1 and 1 - beta2; var -= rate * m / (sqrt(v) + epsilon).
    """
    rate = lr * np.sqrt(rest(beta2_power)) / rest(beta1_power)
    approach(temporary, m, grad, rest(beta1))
    approach_square(temporary, v, grad, rest(beta2))
    step, root = temporary(0), temporary(1)
    np.sqrt(v, out=root)
    np.add(root, epsilon, out=root)
    if use_nesterov:
        np.multiply(m, beta1, out=step)
        np.add(step, grad * rest(beta1), out=step)
        np.multiply(step, rate, out=step)
    else:
        np.multiply(m, rate, out=step)
    np.divide(step, root, out=step)
    np.subtract(var, step, out=var)


@rule(
    "AdamWithAmsgrad",
    slots="m v vhat",
    dense="beta1_power beta2_power lr beta1 beta2 epsilon grad",
    refs=False,
)
def adam_with_amsgrad(
    temporary: Temporaries,
    var: Array,
    m: Array,
    v: Array,
    vhat: Array,
    grad: Array,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> None:
    """One step of Adam in which the scale is the largest v so far: vhat = max(vhat, v)."""
    rate = lr * np.sqrt(rest(beta2_power)) / rest(beta1_power)
    approach(temporary, m, grad, rest(beta1))
    approach_square(temporary, v, grad, rest(beta2))
    np.maximum(vhat, v, out=vhat)
    step, root = temporary(0), temporary(1)
    np.sqrt(vhat, out=root)
    np.add(root, epsilon, out=root)
    np.multiply(m, rate, out=step)
    np.divide(step, root, out=step)
    np.subtract(var, step, out=var)


@rule("AdaMax", slots="m v", dense="beta1_power lr beta1 beta2 epsilon grad")
def ada_max(
    temporary: Temporaries,
    var: Array,
    m: Array,
    v: Array,
    grad: Array,
    *,
    beta1_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> None:
    """Adam with the largest gradient so far, fading, for a scale: v = max(beta2 * v, |grad|)."""
    approach(temporary, m, grad, rest(beta1))
    step, scale = temporary(0), temporary(1)
    np.multiply(v, beta2, out=v)
    np.abs(grad, out=step)
    np.maximum(v, step, out=v)
    np.add(v, epsilon, out=scale)
    np.multiply(m, lr / rest(beta1_power), out=step)
    np.divide(step, scale, out=step)
    np.subtract(var, step, out=var)
