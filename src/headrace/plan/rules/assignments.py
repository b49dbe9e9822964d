"""Assignments: elementwise nodes whose result only an assignment wants make it in the variable's own memory.

``x.assign(x * 0.5)`` op by op makes an array as large as the variable, in fresh pages, and copies it: four passes over
memory where one that reads and one that writes will do.  An elementwise group that ends in Assign, AssignAdd or
AssignSub goes from the variable's array into that same array, a block at a time on the task's threads; into another
one while somebody reads the variable (`State.rewrite`), so nobody sees a torn value.
What is assigned first, when a variable is initialized, is made in the array that the variable then has; that is the
array of the random numbers of which it is made, where there are such.
Each element is made of elements at its own place, before that is written.  Where that is not so (a row of the variable
itself is subtracted from all rows), or where shapes differ, the nodes run one by one.
Called by: plan.passes.  Threads: any; the variable's lock is held while its group runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.base import shapes
from headrace.base.traits import ASSIGNS, DRAWS
from headrace.graph.graph import Operation
from headrace.ops._kernels.blocks import LARGE
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.elementwise import (
    Blocked,
    Step,
    is_elementwise,
    is_surely_large,
    maybe_large,
    row_of,
    steps_of,
    wanted_by,
    writes_into,
)
from headrace.plan.rules.group import Group, Having, Match, Rule
from headrace.run.devices.device import HOST
from headrace.run.exec.instructions import Kernel
from headrace.run.state.aligned import aligned
from headrace.run.state.variable import State

Array = np.ndarray[Any, Any]


def _match(root: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The assignment of numbers, which may be large, and the nodes before it that only it wants."""
    result = root.op.outputs[0]
    if result._dtype._base.np.kind not in "fiub" or not maybe_large(result):
        return None
    members = wanted_by(root, facts, taken, _never_refuses)
    if len(members) == 1 and not is_surely_large(root.op):
        return None
    drawn = [value for member in members for value in member.inputs]
    drawn = [value for value in drawn if _is_drawn(value, facts, members)]
    return Match(members, partial(_build, drawn[:1]))


def _is_drawn(value: int, facts: Facts, members: AbstractSet[Instr]) -> bool:
    """Whether it is made of random numbers, for the group alone."""
    maker = facts.maker(value)
    if maker is None or maker.what != NODE or maker.body or DRAWS not in maker.op.traits:
        return False
    return value not in facts.results and all(user in members for user in facts.uses(value))


def _never_refuses(op: Operation) -> bool:
    """Whether the kernel takes any floats: one that refused some would leave a variable changed in part."""
    if not is_elementwise(op) or writes_into(op) is None:
        return False
    return all(tensor._dtype._base.np.kind == "f" for tensor in (*op.inputs, *op.outputs))


def _build(drawn: Sequence[int], group: Group) -> Kernel:
    """drawn: a value that is nobody else's, if there is one."""
    *before, assign = group.members
    assert group.root.spec is not None
    ufunc = group.root.spec.into_fn
    target_at, value_at = group.inputs_of(assign)[:2]
    steps = steps_of(group, before)
    dtype = group.values.tensor(assign.inputs[0])._dtype._base.np
    place = len(group.inputs) + len(steps)
    if ufunc is not None:
        # What stands for the variable is its own array.
        steps.append(Step(ufunc, ufunc, [target_at, value_at], place, dtype))
    elif not steps or not isinstance(steps[-1].ufunc, np.ufunc):
        # A copy at the end: what is no ufunc may look at its input after it has written.
        steps.append(Step(_copied, _copied, [value_at], place, dtype))
    blocked = Blocked(steps, len(group.inputs), group)
    taken_at = group.places[drawn[0]] if drawn else -1

    def first(values: Sequence[Any], shape: tuple[int, ...]) -> Sequence[Any] | None:
        variable: State = values[target_at]
        if math.prod(shape) < LARGE or not shapes.compatible(variable.shape, shape):
            return None
        others = [value for at, value in enumerate(values) if at != target_at]
        array = values[taken_at] if taken_at >= 0 else None
        if array is None or not _may_be_had(array, shape, dtype):
            array = aligned(shape, dtype)
        row = row_of([*others, array], shape)
        if row is None:
            return None
        if before or array is not values[value_at]:
            given = [array if at == target_at else value for at, value in enumerate(values)]
            blocked.run(given, shape, row, array)
        variable.adopt(array, group.root.attrs["validate_shape"])
        return (variable,)

    def change(values: Sequence[Any]) -> Sequence[Any] | None:
        variable: State = values[target_at]
        others = [value for at, value in enumerate(values) if at != target_at]
        shape = max(others, key=lambda value: value.size).shape
        if ufunc is None and variable.array is None and variable.device is HOST:
            return first(values, shape)
        with variable.lock:
            before = variable.array
            if before is None or before.shape != shape or before.size < LARGE:
                return None
            row = row_of([*others, before], shape)
            if row is None or any(_reads_elsewhere(value, before) for value in others):
                return None

            def rewritten(old: Array, new: Array) -> None:
                given = [old if at == target_at else value for at, value in enumerate(values)]
                blocked.run(given, shape, row, new)

            variable.rewrite(rewritten)
        return (variable,)

    return group.kernel(change)


RULE: Final = Rule("assignment", Having(ASSIGNS), _match)


def _may_be_had(array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether an array that is nobody else's may be a variable's."""
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        return False
    return array.flags.c_contiguous and array.flags.writeable


def _copied(value: Any, out: Any) -> Any:
    np.copyto(out, value)
    return out


def _reads_elsewhere(value: Any, array: Array) -> bool:
    """Whether a value has elements in the memory of `array` at other places than their own."""
    if value is array or not isinstance(value, np.ndarray):
        return False
    if value.shape == array.shape and value.ctypes.data == array.ctypes.data:
        return False
    return bool(np.may_share_memory(value, array))
