"""State kernels of updates of single rows: scattering, and the optimizers' sparse updates.

A row that is named twice is left to the host where the order counts.
Called by: ops._portable.table.  Threads: any.
Source: TF 1.15 core/kernels/scatter_op.cc, training_ops.cc, for the formulas, which are those of ops.training
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.ops._portable.scattering import (
    is_usual,
    lines_of,
    put_lines,
    reduced_lines,
    require_different,
    sum_of_lines,
    taken_at,
)
from headrace.ops._portable.table import READ, UPDATE, check, is_jax, of_state, require

# -- rows -------------------------------------------------------------------------------------------------------------


def _lines(xp: Any, var: Any, indices: Any) -> Any:
    """Indices [n] of rows of `var`.  Raises IndexError unless they are in it."""
    check(var.ndim > 0 and math.prod(var.shape) > 0 and math.prod(indices.shape) > 0)
    lines = xp.reshape(indices, (-1,))
    inside = xp.logical_and(lines >= 0, lines < var.shape[0])
    require(xp, inside, f"not all in [0, {var.shape[0]})")
    return lines


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
    require_different(xp, lines)
    return (put_lines(xp, var, lines, rows),)


def _scatter(how: str) -> Callable[..., tuple[Any, ...]]:
    def kernel(xp: Any, var: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
        lines, rows = _given(xp, var, indices, updates)
        if how == "divide":
            require_different(xp, lines)
            return (put_lines(xp, var, lines, xp.take(var, lines, axis=0) / rows),)
        flat = xp.reshape(var, (var.shape[0], -1))
        found = reduced_lines(xp, how, flat, xp.reshape(rows, (lines.shape[0], -1)), lines)
        return (xp.reshape(found, var.shape),)

    return kernel


for _suffix, _how in {
    "Mul": "multiply",
    "Div": "divide",
    "Min": "minimum",
    "Max": "maximum",
}.items():
    of_state(f"Scatter{_suffix}", f"ResourceScatter{_suffix}", does=UPDATE)(_scatter(_how))


# -- slices at coordinates --------------------------------------------------------------------------------------------


def _slices(how: str) -> Callable[..., tuple[Any, ...]]:
    def kernel(
        xp: Any, var: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b""
    ) -> tuple[Any, ...]:
        check(is_usual({"bad_indices_policy": bad_indices_policy}) and indices.ndim > 1)
        check(xp.isdtype(var.dtype, "real floating") and math.prod(updates.shape) > 0)
        deep = indices.shape[-1]
        check(0 < deep <= var.ndim and math.prod(var.shape) > 0)
        check(updates.shape == (*indices.shape[:-1], *var.shape[deep:]))
        sizes = var.shape[:deep]
        lines = xp.reshape(lines_of(xp, indices, sizes), (-1,))
        whole = xp.reshape(var, (math.prod(sizes), -1))
        rows = xp.reshape(updates, (lines.shape[0], -1))
        if how == "put":
            require_different(xp, lines)
            return (xp.reshape(put_lines(xp, whole, lines, rows), var.shape),)
        if how == "subtract":
            found = reduced_lines(xp, "add", whole, -rows, lines)
        else:
            found = reduced_lines(xp, how, whole, rows, lines)
        return (xp.reshape(found, var.shape),)

    return kernel


for _suffix, _how in {
    "Update": "put",
    "Add": "add",
    "Sub": "subtract",
    "Min": "minimum",
    "Max": "maximum",
}.items():
    of_state(f"ScatterNd{_suffix}", f"ResourceScatterNd{_suffix}", does=UPDATE)(_slices(_how))


@of_state("ResourceGatherNd", does=READ)
def _gather_nd(xp: Any, var: Any, indices: Any) -> Any:
    return taken_at(xp, var, indices)


# -- optimizers -------------------------------------------------------------------------------------------------------


def sparsely(
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
    require_different(xp, lines)
    before = [xp.take(each, lines, axis=0) for each in variables]
    after = step(*before, grad)
    return tuple(
        [put_lines(xp, each, lines, rows) for each, rows in zip(variables, after, strict=True)]
    )


@of_state("SparseApplyAdagrad", "ResourceSparseApplyAdagrad", does=UPDATE, variables=2)
def _adagrad(
    xp: Any, var: Any, accum: Any, lr: Any, grad: Any, indices: Any, *, update_slots: bool
) -> tuple[Any, ...]:
    def step(rows: Any, sums: Any, slope: Any) -> tuple[Any, ...]:
        if update_slots:
            sums = sums + xp.square(slope)
        return rows - slope * lr / xp.sqrt(sums), sums

    return sparsely(xp, (var, accum), grad, indices, (lr,), step)


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

    return sparsely(xp, (var, accum), grad, indices, (lr, epsilon), step)


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

    return sparsely(xp, (var, accum), grad, indices, (lr, momentum), step)
