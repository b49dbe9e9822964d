"""State kernels of optimizers that pull weights to zero, or go by signs: whole variables, and single rows of others.

A rule is one function of the rows of each variable, whether they are all or some.
Called by: ops._portable.table.  Threads: any.
Source: TF 1.15 core/kernels/training_ops.cc, for the formulas, which are those of ops.training
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.ops._portable.rows_of_state import sparsely
from headrace.ops._portable.state import fit, towards
from headrace.ops._portable.table import UPDATE, of_state, require

Rows = tuple[Any, ...]
Given = dict[str, Any]
Rule = Callable[[Any, Rows, Any, Given], Rows]
"""(xp, rows of the variables, of the gradient, hyperparameters and attrs by name) -> the next rows."""


def _rule(
    name: str, variables: int, dense: str = "", sparse: str = "", references: bool = True
) -> Callable[[Rule], Rule]:
    """dense, sparse: names of the inputs behind the variables, of the ops that there are."""

    def names(prefix: str) -> list[str]:
        kinds = (prefix, f"Resource{prefix}") if references else (f"Resource{prefix}",)
        return [f"{each}{name}" for each in kinds]

    def decorate(step: Rule) -> Rule:
        if dense:
            of_state(*names("Apply"), does=UPDATE, variables=variables)(
                _dense(step, variables, dense.split())
            )
        if sparse:
            of_state(*names("SparseApply"), does=UPDATE, variables=variables)(
                _sparse(step, variables, sparse.split())
            )
        return step

    return decorate


def _dense(step: Rule, variables: int, order: list[str]) -> Callable[..., Rows]:
    def kernel(
        xp: Any, *inputs: Any, multiply_linear_by_lr: bool = False, use_nesterov: bool = False
    ) -> Rows:
        held, given = inputs[:variables], dict(zip(order, inputs[variables:], strict=True))
        grad = given.pop("delta" if "delta" in given else "grad")
        fit((*held, grad), tuple(given.values()))
        given.update(multiply_linear_by_lr=multiply_linear_by_lr, use_nesterov=use_nesterov)
        return step(xp, held, grad, given)

    return kernel


def _sparse(step: Rule, variables: int, order: list[str]) -> Callable[..., Rows]:
    def kernel(
        xp: Any, *inputs: Any, multiply_linear_by_lr: bool = False, use_nesterov: bool = False
    ) -> Rows:
        held, given = inputs[:variables], dict(zip(order, inputs[variables:], strict=True))
        grad, indices = given.pop("grad"), given.pop("indices")
        scalars = tuple(given.values())
        given.update(multiply_linear_by_lr=multiply_linear_by_lr, use_nesterov=use_nesterov)
        return sparsely(
            xp, held, grad, indices, scalars, lambda *rows: step(xp, rows[:-1], rows[-1], given)
        )

    return kernel


# -- towards zero -----------------------------------------------------------------------------------------------------


def _shrunk(xp: Any, value: Any, amount: Any) -> Any:
    """sign(value) * max(|value| - amount, 0)."""
    left = xp.abs(value) - amount
    return xp.maximum(left, xp.zeros_like(left)) * xp.sign(value)


def _shrunk_if(xp: Any, value: Any, l1: Any, amount: Any) -> Any:
    return xp.where(l1 > 0, _shrunk(xp, value, amount), value)


@_rule("ProximalGradientDescent", 1, "alpha l1 l2 delta", "alpha l1 l2 grad indices")
def _proximal_descent(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    alpha, l1, l2 = given["alpha"], given["l1"], given["l2"]
    (var,) = rows
    var = _shrunk_if(xp, var - grad * alpha, l1, alpha * l1)
    return (var / (alpha * l2 + 1),)


@_rule("ProximalAdagrad", 2, "lr l1 l2 grad", "lr l1 l2 grad indices")
def _proximal_adagrad(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    lr, l1, l2 = given["lr"], given["l1"], given["l2"]
    fits = xp.logical_and(lr > 0, xp.logical_and(l1 >= 0, l2 >= 0))
    require(xp, fits, "hyperparameters are below 0")
    var, accum = rows
    accum = accum + grad * grad
    rate = lr / xp.sqrt(accum)
    var = _shrunk_if(xp, var - grad * rate, l1, rate * l1)
    return var / (rate * l2 + 1), accum


@_rule("AdagradDA", 3, "grad lr l1 l2 global_step", "grad indices lr l1 l2 global_step")
def _adagrad_da(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    lr, l1, l2 = given["lr"], given["l1"], given["l2"]
    _, total, squares = rows
    steps = xp.astype(given["global_step"], lr.dtype)
    total, squares = total + grad, squares + grad * grad
    var = _shrunk_if(xp, total, l1, l1 * steps) * -lr
    return var / (xp.sqrt(squares) + l2 * steps * lr), total, squares


def _ftrl(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    lr, power, by_lr = given["lr"], given["lr_power"], given["multiply_linear_by_lr"]
    var, accum, linear = rows
    shrinkage = given.get("l2_shrinkage")
    factor = lr if by_lr else 1

    def raised(base: Any) -> Any:
        return xp.where(power == -0.5, xp.sqrt(base), xp.pow(base, -power))

    before, accum = raised(accum), accum + grad * grad
    after = raised(accum)
    change = before - after
    linear = linear + (change if by_lr else change / lr) * var
    slope = grad if shrinkage is None else var * (2 * shrinkage) + grad
    linear = linear + (slope * lr if by_lr else slope)
    scale = (after if by_lr else after / lr) + 2 * given["l2"] * factor
    return _shrunk(xp, -linear, given["l1"] * factor) / scale, accum, linear


_rule("Ftrl", 3, "grad lr l1 l2 lr_power", "grad indices lr l1 l2 lr_power")(_ftrl)
_rule(
    "FtrlV2",
    3,
    "grad lr l1 l2 l2_shrinkage lr_power",
    "grad indices lr l1 l2 l2_shrinkage lr_power",
)(_ftrl)


# -- by signs ---------------------------------------------------------------------------------------------------------


@_rule("AddSign", 2, "lr alpha sign_decay beta grad")
def _add_sign(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    var, m = rows
    m = towards(m, grad, given["beta"])
    agree = xp.sign(m) * xp.sign(grad)
    return var - (agree * given["sign_decay"] + given["alpha"]) * given["lr"] * grad, m


@_rule("PowerSign", 2, "lr logbase sign_decay beta grad")
def _power_sign(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    var, m = rows
    m = towards(m, grad, given["beta"])
    agree = xp.sign(m) * xp.sign(grad)
    scale = xp.exp(agree * (given["logbase"] * given["sign_decay"])) * given["lr"]
    return var - scale * grad, m


# -- single rows, of rules whose whole variables are in ops._portable.state -------------------------------------------


@_rule("Adadelta", 3, sparse="lr rho epsilon grad indices")
def _adadelta(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    var, accum, accum_update = rows
    epsilon, rho = given["epsilon"], given["rho"]
    accum = towards(accum, grad * grad, rho)
    step = grad * (xp.sqrt(accum_update + epsilon) / xp.sqrt(accum + epsilon))
    return var - step * given["lr"], accum, towards(accum_update, step * step, rho)


@_rule("RMSProp", 3, sparse="lr rho momentum epsilon grad indices")
def _rms_prop(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    var, ms, mom = rows
    ms = towards(ms, grad * grad, given["rho"])
    mom = mom * given["momentum"] + grad * given["lr"] / xp.sqrt(ms + given["epsilon"])
    return var - mom, ms, mom


@_rule("CenteredRMSProp", 4, sparse="lr rho momentum epsilon grad indices")
def _centered_rms_prop(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    var, mg, ms, mom = rows
    ms = towards(ms, grad * grad, given["rho"])
    mg = towards(mg, grad, given["rho"])
    scale = xp.sqrt(ms - mg * mg + given["epsilon"])
    mom = mom * given["momentum"] + grad * given["lr"] / scale
    return var - mom, mg, ms, mom


@_rule("KerasMomentum", 2, sparse="lr grad indices momentum", references=False)
def _keras_momentum(xp: Any, rows: Rows, grad: Any, given: Given) -> Rows:
    var, accum = rows
    momentum, step = given["momentum"], grad * given["lr"]
    accum = accum * momentum - step
    return (var - step + accum * momentum if given["use_nesterov"] else var + accum), accum
