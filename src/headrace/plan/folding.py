"""Folding: constants are loaded, and what follows from them is computed, when the plan is made.

Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base.traits import CONST, CONTROL_FLOW, KEEPS_REFS
from headrace.graph.const_value import KERNEL_FAILURES, const_array
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import Instr, Step, Values

LARGEST = 1 << 20  # elements; more would hold memory for a value that is soon made


def fold(step: Step) -> Step:
    """Constants, and unless every node is listed what follows from them, become known values."""
    constants, optimize = step.values.constants, step.request.optimize
    code: list[Instr] = []
    loaded = []
    for instr in step.code:
        if CONST in instr.op.traits:
            found: list[Any] | None = [const_array(instr.op)]
        elif optimize and instr.inputs and instr.inputs[0] in constants and not instr.controls:
            found = from_constants(instr, step)
        else:
            found = None
        if found is None:
            code.append(instr)
            continue
        loaded.append((instr.op, instr.outputs))
        keep(instr, found, step.values)
    if not loaded:
        return step
    made = step.with_code(code)
    made.loaded = loaded
    return made


def keep(instr: Instr, found: Sequence[Any], values: Values) -> None:
    """What an instruction gives is known from now on."""
    for value, given in zip(instr.outputs, found, strict=True):
        array = np.asarray(given).view()
        if array.dtype != object:
            array.flags.writeable = False
        values.constants[value] = array


def from_constants(instr: Instr, step: Step) -> list[Any] | None:
    """The outputs of a node if they follow from constants, else None.

    A kernel that fails is left to the step, which reports it.
    """
    spec = instr.op.spec
    if spec is None or not spec.foldable or spec.kernel is None:
        return None
    if spec.takes_ctx or KEEPS_REFS in spec.traits or CONTROL_FLOW in spec.traits:
        return None
    values = [step.values.constants.get(value) for value in instr.inputs]
    if any(value is None or value.size > LARGEST for value in values):
        return None
    try:
        with np.errstate(all="ignore"):
            result = bound_kernel(instr.op, spec)(*values)
    except KERNEL_FAILURES:
        return None
    found = [result] if spec.single_output else list(result)
    if any(np.size(value) > LARGEST for value in found):
        return None
    return found
