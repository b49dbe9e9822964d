"""State kernels of updates of single rows: scattering, and the optimizers' sparse updates.

A row that is named twice is left to the host where the order counts.
Called by: ops._portable.table.  Threads: any.
Source: TF 1.15 core/kernels/scatter_op.cc, training_ops.cc, for the formulas, which are those of ops.training
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.ops._portable.scattering import belongs, sum_of_lines
from headrace.ops._portable.table import UPDATE, check, is_jax, of_state, require

# -- rows -------------------------------------------------------------------------------------------------------------


def _lines(xp: Any, var: Any, indices: Any) -> Any:
    """Indices [n] of rows of `var`.  Raises IndexError unless they are in it."""
    check(var.ndim > 0 and math.prod(var.shape) > 0 and math.prod(indices.shape) > 0)
    lines = xp.reshape(indices, (-1,))
    inside = xp.logical_and(lines >= 0, lines < var.shape[0])
    require(xp, inside, f"not all in [0, {var.shape[0]})")
    return lines


def _differ(xp: Any, lines: Any) -> None:
    """Raise IndexError unless no row is named twice."""
    ordered = xp.sort(lines)
    require(xp, ordered[1:] != ordered[:-1], "not all different")


def _rows(xp: Any, var: Any, values: Any, count: int) -> Any:
    """Values [n, …] for as many rows of `var`; one number stands for all."""
    if values.ndim == 0:
        return xp.broadcast_to(values, (count, *var.shape[1:]))
    shape = (count, *var.shape[1:])
    check(math.prod(values.shape) == math.prod(shape))
    return xp.reshape(values, shape)


def _sums(xp: Any, var: Any, lines: Any, rows: Any) -> Any:
    """Of the shape of `var`: the sums of the rows that belong to each of its own."""
    flat = sum_of_lines(xp, xp.reshape(rows, (rows.shape[0], -1)), lines, var.shape[0])
    return xp.reshape(flat, var.shape)


def _plus(xp: Any, var: Any, lines: Any, rows: Any) -> Any:
    if is_jax(xp):
        return var.at[lines].add(rows)
    return var + _sums(xp, var, lines, rows)


def _with(xp: Any, var: Any, lines: Any, rows: Any) -> Any:
    """`var` with other rows, which are named once each."""
    if is_jax(xp):
        return var.at[lines].set(rows)
    is_row = belongs(xp, lines, var.shape[0])
    named = xp.reshape(xp.any(is_row, axis=1), (var.shape[0], *(1,) * (var.ndim - 1)))
    places = xp.argmax(xp.astype(is_row, xp.int32), axis=1)
    return xp.where(named, xp.take(rows, places, axis=0), var)


# -- scattering -------------------------------------------------------------------------------------------------------


def _given(xp: Any, var: Any, indices: Any, updates: Any) -> tuple[Any, Any]:
    check(updates.ndim == 0 or updates.shape == (*indices.shape, *var.shape[1:]))
    check(xp.isdtype(var.dtype, "real floating"))
    lines = _lines(xp, var, indices)
    return lines, _rows(xp, var, updates, lines.shape[0])


@of_state("ScatterAdd", "ResourceScatterAdd", does=UPDATE)
def _scatter_add(xp: Any, var: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
    return (_plus(xp, var, *_given(xp, var, indices, updates)),)


@of_state("ScatterSub", "ResourceScatterSub", does=UPDATE)
def _scatter_sub(xp: Any, var: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
    lines, rows = _given(xp, var, indices, updates)
    return (_plus(xp, var, lines, -rows),)


@of_state("ScatterUpdate", "ResourceScatterUpdate", does=UPDATE)
def _scatter_update(xp: Any, var: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
    lines, rows = _given(xp, var, indices, updates)
    _differ(xp, lines)
    return (_with(xp, var, lines, rows),)


# -- optimizers -------------------------------------------------------------------------------------------------------


def _sparsely(
    xp: Any,
    variables: tuple[Any, ...],
    grad: Any,
    indices: Any,
    scalars: tuple[Any, ...],
    step: Callable[..., tuple[Any, ...]],
) -> tuple[Any, ...]:
    """step(rows of each variable…, gradient) gives the next rows of each."""
    var = variables[0]
    check(len({each.shape for each in variables}) == 1 and indices.ndim == 1)
    check(all(each.shape == () for each in scalars))
    check(grad.shape == (*indices.shape, *var.shape[1:]))
    lines = _lines(xp, var, indices)
    _differ(xp, lines)
    before = [xp.take(each, lines, axis=0) for each in variables]
    after = step(*before, grad)
    return tuple(
        [_with(xp, each, lines, rows) for each, rows in zip(variables, after, strict=True)]
    )


@of_state("SparseApplyAdagrad", "ResourceSparseApplyAdagrad", does=UPDATE, variables=2)
def _adagrad(
    xp: Any, var: Any, accum: Any, lr: Any, grad: Any, indices: Any, *, update_slots: bool
) -> tuple[Any, ...]:
    def step(rows: Any, sums: Any, slope: Any) -> tuple[Any, ...]:
        if update_slots:
            sums = sums + xp.square(slope)
        return rows - slope * lr / xp.sqrt(sums), sums

    return _sparsely(xp, (var, accum), grad, indices, (lr,), step)


@of_state("SparseApplyAdagradV2", "ResourceSparseApplyAdagradV2", does=UPDATE, variables=2)
def _adagrad_v2(
    xp: Any,
    var: Any,
    accum: Any,
    lr: Any,
    epsilon: Any,
    grad: Any,
    indices: Any,
    *,
    update_slots: bool,
) -> tuple[Any, ...]:
    def step(rows: Any, sums: Any, slope: Any) -> tuple[Any, ...]:
        if update_slots:
            sums = sums + xp.square(slope)
        return rows - slope * lr / (xp.sqrt(sums) + epsilon), sums

    return _sparsely(xp, (var, accum), grad, indices, (lr, epsilon), step)


@of_state("SparseApplyMomentum", "ResourceSparseApplyMomentum", does=UPDATE, variables=2)
def _momentum(
    xp: Any,
    var: Any,
    accum: Any,
    lr: Any,
    grad: Any,
    indices: Any,
    momentum: Any,
    *,
    use_nesterov: bool,
) -> tuple[Any, ...]:
    def step(rows: Any, sums: Any, slope: Any) -> tuple[Any, ...]:
        sums = sums * momentum + slope
        off = slope * lr + sums * momentum * lr if use_nesterov else sums * lr
        return rows - off, sums

    return _sparsely(xp, (var, accum), grad, indices, (lr, momentum), step)
