"""Joint updates: one step of an optimizer on several small variables, which takes little more than on one.

What an update of a few numbers takes is the calls, not the arithmetic.  So the values of all variables stand in a row,
as do those of each slot and the gradients, are updated by one call of the rule, and go back.  Every element has the
bits that it has by itself.
Called by: plan.rules.joint_updates.  Threads: any step's; all locks are held for the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.ops.training.update_rules import Array, Rule, fit_rows, room_like
from headrace.run.state.variable import Locked, State
from headrace.run.uninterrupted import changes

__all__: list[str] = []

_MOST: Final = 1 << 14  # elements of a slot at a time


class Part(NamedTuple):
    """One update.  variables: the variable and its slots.  rows: whose the gradient is, which differ; None: of all."""

    variables: Sequence[State]
    grad: Array
    rows: Array | None


@changes
class JointUpdate:
    """An update by a rule of as many variables each time."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._known: tuple[list[State], Locked] | None = None  # those of last time, and their locks

    def run(self, parts: Sequence[Part], more: dict[str, Any]) -> bool:
        """One step on all of them.  False, and nothing has changed, where one does not fit or may not be done.

        more: scalars and attrs of the rule.
        """
        variables = [variable for part in parts for variable in part.variables]
        known = self._known
        if known is None or known[0] != variables:
            if len({*variables}) != len(variables):
                return False
            known = self._known = variables, Locked(variables)
        with known[1]:
            arrays = _arrays(parts)
            if arrays is None:
                return False
            try:
                self._change(parts, arrays, more)
            except (
                errors.OpError
            ):  # of scalars, so it is the first call that fails; the node says so
                return False
        return True

    def _change(
        self, parts: Sequence[Part], arrays: Sequence[list[Array]], more: dict[str, Any]
    ) -> None:
        start = 0
        while start < len(parts):
            end = _chunk(parts, start)
            if end - start == 1:
                only = parts[start]
                self._rule.change(only.variables, only.grad, only.rows, more)
            else:
                chosen = parts[start:end]
                values = zip(*arrays[start:end], strict=True)
                flat = [np.concatenate(of_one, axis=None) for of_one in values]
                grad = np.concatenate([part.grad for part in chosen], axis=None)
                self._rule.step(room_like(grad), *flat, grad, **more)
                _put_back(flat, chosen)
            start = end


def _chunk(parts: Sequence[Part], start: int) -> int:
    """Up to where parts run together from `start` on, so that all they hold stays in the cache."""
    total, end = 0, start
    while end < len(parts) and (end == start or total + parts[end].grad.size <= _MOST):
        total += parts[end].grad.size
        end += 1
    return end


def _arrays(parts: Sequence[Part]) -> list[list[Array]] | None:
    """What is updated of each variable of each part; None unless it fits."""
    kind, found = parts[0].grad.dtype, []
    for variables, grad, rows in parts:
        arrays: list[Array] = []
        for variable in variables:
            array = variable.array
            if array is None:
                return None
            arrays.append(array)
        if grad.dtype != kind:
            return None
        if rows is not None:
            if not fit_rows(arrays, grad, rows):
                return None
            found.append([array.take(rows, axis=0) for array in arrays])
            continue
        shape = grad.shape
        for array in arrays:
            if array.shape != shape or array.dtype != kind:
                return None
        found.append(arrays)
    return found


def _put_back(flat: Sequence[Array], parts: Sequence[Part]) -> None:
    start = 0
    for variables, grad, rows in parts:
        end, shape = start + grad.size, grad.shape
        sparse = rows is not None
        into = rows if sparse else ...
        for variable, values in zip(variables, flat, strict=True):
            variable.writable(sparse)[into] = values[start:end].reshape(shape)
        start = end
