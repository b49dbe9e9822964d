"""Assigned: elementwise nodes whose result only an assignment wants make it in the variable's own memory.

``x.assign(x * 0.5)`` op by op makes an array as large as the variable, in fresh pages, and copies it: four passes over
memory where one that reads and one that writes will do.  A group of `plan.fuse` that ends in Assign, AssignAdd or
AssignSub goes from the variable's array into that same array, a block at a time on the task's threads; into another
one while somebody reads the variable (`State.rewrite`), so nobody sees a torn value.
Each element is made of elements at its own place, before that is written.  Where that is not so (a row of the variable
itself is subtracted from all rows), where shapes differ, or nothing was assigned before, the nodes run one by one.
Called by: plan.compile.  Threads: any; the variable's lock is held while its group runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops.state.references import ASSIGNS
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.plan.fuse import Blocked, Group, Step, row_of, steps_of
from headrace.plan.op_by_op import op_by_op
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.program import Instruction, Registers
from headrace.run.state.variable import State

Array = np.ndarray[Any, Any]


def instruction(
    group: Group, registers: Sequence[int], out: int, nodes: Sequence[NodeInfo]
) -> Instruction:
    """Assign; registers[out] = the reference.  registers: of the group's inputs, then of the reference."""
    *given_at, target = registers
    update = group.root
    assert update.spec is not None
    *chain, node = nodes
    change = _changing(group)
    assign = bound_kernel(update, update.spec, np)
    if check.enabled:
        assign = check.checked_kernel(assign, update, True)
    places = {tensor: place for place, tensor in enumerate(group.inputs)}
    steps = steps_of(group.ops[:-1], group.wiring[:-1], places)
    pairs = zip(group.ops, steps, strict=False)
    plain = op_by_op([(op, step.kernel, step.inputs) for op, step in pairs], chain)
    value_at = places[group.wiring[-1][0]]

    def run(r: Registers) -> None:
        variable: State = r[target]
        values = [r[register] for register in given_at]
        if not change(variable, values):
            plain(values, r[0])
            try:
                assign(variable, values[value_at])
            except Exception as error:  # becomes an error that names its node, as in run.program
                given = [variable, values[value_at]]
                raise explain(error, node, given, r[0]) from cause(error)
        r[out] = variable

    return run


def _changing(group: Group) -> Callable[[State, list[Any]], bool]:
    """A function that assigns the group's result, made of `values`, to a variable; False: it has done nothing."""
    ufunc = ASSIGNS[group.root.type]
    ref = group.target
    assert ref is not None
    dtype = ref._dtype._base.np
    # The variable's own array is one more value from outside, of no tensor.
    places: dict[Any, int] = {tensor: place for place, tensor in enumerate(group.inputs)}
    before_at = places.setdefault(None, len(places))
    steps = steps_of(group.ops[:-1], group.wiring[:-1], places)
    value_at = places[group.wiring[-1][0]]
    if ufunc is not None:
        steps.append(Step(ufunc, ufunc, [before_at, value_at], len(places), dtype))
    elif not steps or not isinstance(steps[-1].ufunc, np.ufunc):
        # A copy at the end: what is no ufunc may look at its input after it has written.
        steps.append(Step(_copied, _copied, [value_at], len(places), dtype))
    blocked = Blocked(steps, before_at + 1, group)

    def change(variable: State, values: list[Any]) -> bool:
        shape = max(values, key=lambda value: value.size).shape
        with variable.lock:
            before = variable.array
            if before is None or before.shape != shape or before.size < LARGE:
                return False
            row = row_of([*values, before], shape)
            if row is None or any(_looks_elsewhere(value, before) for value in values):
                return False
            variable.rewrite(lambda old, new: blocked.run([*values, old], shape, row, new))
        return True

    return change


def _copied(value: Any, out: Any) -> Any:
    np.copyto(out, value)
    return out


def _looks_elsewhere(value: Any, array: Array) -> bool:
    """Whether a value has elements in the memory of `array` at other places than their own."""
    if value is array or not isinstance(value, np.ndarray):
        return False
    if value.shape == array.shape and value.ctypes.data == array.ctypes.data:
        return False
    return bool(np.may_share_memory(value, array))
