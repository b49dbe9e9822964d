"""Simple programs: those that do nothing but one thing, and what that is.

Variables of references and those behind handles are alike here, but that a handle's are read by an operation.
Called by: serve.worker, which answers such steps without entering them.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headrace.base.traits import CALLS_USER, HANDLE, READS_VARIABLE, UPDATES
from headrace.run.exec.instructions import CALL, CONTENTS, MANY, RELEASE, Instruction, Kernel
from headrace.run.exec.program import Program, Waiter, exchanges


class Change(NamedTuple):
    """An assignment that a program consists of.

    kernel: takes the variable and `operand`, a constant.  ufunc: what makes its new value of both; None: the operand is
    that itself.  gives: whether the variable leaves.
    """

    kernel: Kernel
    operand: Any
    ufunc: Callable[..., Any] | None
    gives: bool


class Wait(NamedTuple):
    """An operation that may wait, on a resource, with constants beside it, that a program consists of.

    kernel: takes the resource and `constants`; gives a Pending, or the result.  given: what leaves, of its result.
    """

    kernel: Kernel
    constants: Sequence[Any]
    given: Callable[[Any], list[Any]]


def finders(program: Program) -> list[Kernel] | None:
    """For each value that leaves, what finds the variable whose contents it is, in a step.

    It raises what the step would, where there is none that can be read.  None if anything else is computed, taken or
    left on the way.
    """
    if program.flat is None or program.num_args:
        return None
    found: dict[int, Kernel] = {}
    for each in program.flat.code.instructions:
        if each.kind == RELEASE:
            continue
        if HANDLE in each.node.traits and each.kind == CALL and each.inputs == (0,):
            found[each.outputs[0]] = each.kernel
        elif each.kernel in CONTENTS and each.inputs[0] in found:
            found[each.outputs[0]] = found[each.inputs[0]]
        elif _reads_variable(each) and each.inputs[0] in found:
            found[each.outputs[0]] = partial(_read_first, found[each.inputs[0]], each.kernel)
        else:
            return None
    if any(each.register not in found for each in program.returns):
        return None
    return [found[each.register] for each in program.returns]


def change(program: Program) -> tuple[Kernel, Change] | None:
    """Of a program that changes one variable by a number: what finds the variable in a step, and the change.

    None if anything else is computed, taken or left on the way.
    """
    if program.flat is None or program.num_args or program.shares or program.polls:
        return None
    finder, changed, read = None, None, None
    for each in program.flat.code.instructions:
        if each.kind == RELEASE:
            continue
        if HANDLE in each.node.traits and each.kind == CALL and each.inputs == (0,):
            finder = each if finder is None else None
        elif finder and changed and read is None and _reads_variable(each):
            read = each
            if each.inputs != finder.outputs:
                return None
        elif finder is None or changed is not None or UPDATES not in each.node.traits:
            return None
        else:
            changed = each
    if finder is None or changed is None or changed.kind > MANY or len(changed.inputs) != 2:
        return None
    reference, operand = changed.inputs
    given = [each.register for each in program.returns]
    value = program.template[operand]
    if reference != finder.outputs[0] or not isinstance(value, np.ndarray | np.generic):
        return None
    after = read.outputs if read is not None else changed.outputs[:1]
    if value.ndim or given not in ([], [*after]):
        return None
    return finder.kernel, Change(changed.kernel, value, program.into, bool(given))


def constants(program: Program) -> list[Any] | None:
    """What leaves, of a program that has nothing to do; None of any other."""
    if program.items or program.num_args:
        return None
    return [program.template[each.register] for each in program.returns]


def wait(program: Program) -> tuple[Kernel, Wait] | None:
    """Of a program that does nothing but one thing that may wait: what finds the resource in a step, and that.

    None if anything else is computed, taken or left on the way, or the step is needed for it.
    """
    if program.straight is None or program.num_args or program.shares or program.polls:
        return None
    finder, waits = None, None
    for item in program.items:
        work = item.work
        if isinstance(work, Waiter):
            if waits is not None:
                return None
            waits = work
            continue
        for each in work.code.instructions:
            if each.kind == RELEASE:
                continue
            if HANDLE not in each.node.traits or each.kind != CALL or each.inputs != (0,):
                return None
            if finder is not None or waits is not None:
                return None
            finder = each
    if finder is None or waits is None or waits.inputs[:1] != finder.outputs:
        return None
    if CALLS_USER in waits.node.traits or exchanges(waits):
        return None
    constants = [program.template[register] for register in waits.inputs[1:]]
    if not all(isinstance(value, np.ndarray | np.generic) for value in constants):
        return None
    if any(each.register not in waits.outputs for each in program.returns):
        return None
    template, store = program.template, waits.store
    leaving = [each.register for each in program.returns]

    def given(result: Any) -> list[Any]:
        registers = template.copy()
        store(registers, result)
        return [registers[each] for each in leaving]

    return finder.kernel, Wait(waits.kernel, constants, given)


def _reads_variable(instruction: Instruction) -> bool:
    """Whether it gives the value of the variable behind a handle."""
    return instruction.kind == CALL and READS_VARIABLE in instruction.node.traits


def _read_first(find: Kernel, read: Kernel, step: Any) -> Any:
    """The variable, which it has been possible to read."""
    variable = find(step)
    read(variable)
    return variable
