"""State kernels: what ops that read or change variables are in terms of the array API standard.

A variable that lives on a device is not changed in place: an update gives the arrays that are the variables' next
values.  What does not fit (`check`) is done on the host, which says why.
Called by: ops._portable.table, by way of `state_kernels`.  Threads: any.
Source: TF 1.15 core/kernels/training_ops.cc, for the formulas, which are those of ops.training
"""

from __future__ import annotations

from typing import Any

from headrace.ops._portable.shapes import taken
from headrace.ops._portable.table import ASSIGN, READ, UPDATE, check, of_state

# -- reading and assigning --------------------------------------------------------------------------------------------


@of_state("ReadVariableOp", does=READ)
def _read(xp: Any, var: Any) -> Any:
    return var


@of_state("ResourceGather", does=READ)
def _gather(xp: Any, var: Any, indices: Any, *, batch_dims: int) -> Any:
    check(not batch_dims)
    return taken(xp, var, indices, 0)


@of_state("Assign", "AssignVariableOp", does=ASSIGN)
def _assign(xp: Any, value: Any) -> Any:
    return value


# -- arithmetic -------------------------------------------------------------------------------------------------------


@of_state("AssignAdd", "AssignAddVariableOp", does=UPDATE)
def _add(xp: Any, var: Any, value: Any) -> tuple[Any, ...]:
    check(var.shape == value.shape)
    return (var + value,)


@of_state("AssignSub", "AssignSubVariableOp", does=UPDATE)
def _subtract(xp: Any, var: Any, value: Any) -> tuple[Any, ...]:
    check(var.shape == value.shape)
    return (var - value,)


# -- optimizers -------------------------------------------------------------------------------------------------------


def fit(arrays: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
    """The variables and the gradient have one shape, and the hyperparameters none."""
    check(len({each.shape for each in arrays}) == 1)
    check(all(each.shape == () for each in scalars))


@of_state("ApplyGradientDescent", "ResourceApplyGradientDescent", does=UPDATE)
def _gradient_descent(xp: Any, var: Any, alpha: Any, delta: Any) -> tuple[Any, ...]:
    fit((var, delta), (alpha,))
    return (var - delta * alpha,)


@of_state("ApplyMomentum", "ResourceApplyMomentum", does=UPDATE, variables=2)
def _momentum(
    xp: Any, var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, *, use_nesterov: bool
) -> tuple[Any, ...]:
    fit((var, accum, grad), (lr, momentum))
    accum = accum * momentum + grad
    step = grad * lr + accum * momentum * lr if use_nesterov else accum * lr
    return var - step, accum


@of_state("ResourceApplyKerasMomentum", does=UPDATE, variables=2)
def _keras_momentum(
    xp: Any, var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, *, use_nesterov: bool
) -> tuple[Any, ...]:
    fit((var, accum, grad), (lr, momentum))
    step = grad * lr
    accum = accum * momentum - step
    return (var - step + accum * momentum if use_nesterov else var + accum), accum


@of_state("ApplyAdagrad", "ResourceApplyAdagrad", does=UPDATE, variables=2)
def _adagrad(
    xp: Any, var: Any, accum: Any, lr: Any, grad: Any, *, update_slots: bool
) -> tuple[Any, ...]:
    fit((var, accum, grad), (lr,))
    if update_slots:
        accum = accum + xp.square(grad)
    return var - grad * lr / xp.sqrt(accum), accum


@of_state("ApplyAdagradV2", "ResourceApplyAdagradV2", does=UPDATE, variables=2)
def _adagrad_v2(
    xp: Any, var: Any, accum: Any, lr: Any, epsilon: Any, grad: Any, *, update_slots: bool
) -> tuple[Any, ...]:
    fit((var, accum, grad), (lr, epsilon))
    if update_slots:
        accum = accum + xp.square(grad)
    return var - grad * lr / (xp.sqrt(accum) + epsilon), accum


@of_state("ApplyAdadelta", "ResourceApplyAdadelta", does=UPDATE, variables=3)
def _adadelta(
    xp: Any,
    var: Any,
    accum: Any,
    accum_update: Any,
    lr: Any,
    rho: Any,
    epsilon: Any,
    grad: Any,
) -> tuple[Any, ...]:
    fit((var, accum, accum_update, grad), (lr, rho, epsilon))
    accum = towards(accum, xp.square(grad), rho)
    step = grad * (xp.sqrt(accum_update + epsilon) / xp.sqrt(accum + epsilon))
    accum_update = towards(accum_update, xp.square(step), rho)
    return var - step * lr, accum, accum_update


def towards(mean: Any, value: Any, kept: Any) -> Any:
    """The mean, of which so much is kept, with the value."""
    return mean + (value - mean) * (1 - kept)


@of_state("ApplyAdam", "ResourceApplyAdam", does=UPDATE, variables=3)
def _adam(
    xp: Any,
    var: Any,
    m: Any,
    v: Any,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    *,
    use_nesterov: bool,
) -> tuple[Any, ...]:
    fit((var, m, v, grad), (beta1_power, beta2_power, lr, beta1, beta2, epsilon))
    rate = lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = towards(m, grad, beta1)
    v = towards(v, xp.square(grad), beta2)
    ahead = m * beta1 + grad * (1 - beta1) if use_nesterov else m
    return var - ahead * rate / (xp.sqrt(v) + epsilon), m, v


@of_state("ResourceApplyAdamWithAmsgrad", does=UPDATE, variables=4)
def _adam_with_amsgrad(
    xp: Any,
    var: Any,
    m: Any,
    v: Any,
    vhat: Any,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
) -> tuple[Any, ...]:
    fit((var, m, v, vhat, grad), (beta1_power, beta2_power, lr, beta1, beta2, epsilon))
    rate = lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = towards(m, grad, beta1)
    v = towards(v, xp.square(grad), beta2)
    vhat = xp.maximum(vhat, v)
    return var - m * rate / (xp.sqrt(vhat) + epsilon), m, v, vhat


@of_state("ApplyAdaMax", "ResourceApplyAdaMax", does=UPDATE, variables=3)
def _ada_max(
    xp: Any,
    var: Any,
    m: Any,
    v: Any,
    beta1_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
) -> tuple[Any, ...]:
    fit((var, m, v, grad), (beta1_power, lr, beta1, beta2, epsilon))
    m = towards(m, grad, beta1)
    v = xp.maximum(v * beta2, xp.abs(grad))
    return var - m * (lr / (1 - beta1_power)) / (v + epsilon), m, v


@of_state("ApplyRMSProp", "ResourceApplyRMSProp", does=UPDATE, variables=3)
def _rms_prop(
    xp: Any,
    var: Any,
    ms: Any,
    mom: Any,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
    grad: Any,
) -> tuple[Any, ...]:
    fit((var, ms, mom, grad), (lr, rho, momentum, epsilon))
    ms = towards(ms, xp.square(grad), rho)
    mom = mom * momentum + grad * lr / xp.sqrt(ms + epsilon)
    return var - mom, ms, mom


@of_state("ApplyCenteredRMSProp", "ResourceApplyCenteredRMSProp", does=UPDATE, variables=4)
def _centered_rms_prop(
    xp: Any,
    var: Any,
    mg: Any,
    ms: Any,
    mom: Any,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
    grad: Any,
) -> tuple[Any, ...]:
    fit((var, mg, ms, mom, grad), (lr, rho, momentum, epsilon))
    ms = towards(ms, xp.square(grad), rho)
    mg = towards(mg, grad, rho)
    mom = mom * momentum + grad * lr / xp.sqrt(ms - xp.square(mg) + epsilon)
    return var - mom, mg, ms, mom
