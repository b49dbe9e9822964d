"""Draws: nodes that take random numbers, and compute elsewhere than on the host or are to be compiled, in two.

What such a node takes of its stream is the host's to say, in every step, and is an instruction of its own; the numbers
are made of that, which is a few words, wherever the node is, alone or in a group.  So they are those that the host
would make, and the next ones follow them wherever those are made.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from headrace.base.traits import DRAWS_BY_SHAPE
from headrace.graph.graph import Operation
from headrace.plan.copies import asks_for_shapes
from headrace.plan.devices import array_kernel
from headrace.plan.ir import AHEAD, BRANCH, LOOP, NODE, Instr, Step, Values, instrs
from headrace.plan.nesting import closed
from headrace.run.devices.device import HOST, IN_HOST_MEMORY, NUMBERS


def draw_ahead(step: Step) -> Step:
    """The pass."""
    told = {value for each in instrs(step.code) if asks_for_shapes(each) for value in each.outputs}
    return _divided(step, told)


def _divided(step: Step, told: AbstractSet[int]) -> Step:
    """told: what is known of shapes before a group begins."""
    if not any(_is_for_two(instr, step, told) for instr in instrs(step.code)):
        return step
    code: list[Instr] = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_divided(body, told) for body in instr.body])
            instr = closed(instr.changed(body=bodies))
        elif _is_for_two(instr, step, told):
            taken, shown = step.values.new(None), _shown(instr, step.values)
            code.append(
                Instr(
                    instr.op,
                    (),
                    shown,
                    (taken,),
                    device=instr.device,
                    after=instr.after,
                    what=AHEAD,
                )
            )
            instr = instr.changed(inputs=(*instr.inputs, taken), effects=0)
        code.append(instr)
    return step.with_code(code)


def is_whole(instr: Instr) -> bool:
    """Whether a node takes random numbers by itself, so that only the host can do it."""
    spec = instr.op.spec
    return (
        spec is not None
        and spec.ahead_fn is not None
        and instr.what == NODE
        and len(instr.inputs) == len(instr.op.inputs)
    )


def _is_for_two(instr: Instr, step: Step, told: AbstractSet[int]) -> bool:
    """On the host it is one, unless it may be part of a group: there its kernel may have quicker numbers."""
    spec = instr.op.spec
    if instr.what != NODE or instr.body or instr.kernel is not None:
        return False
    if spec is None or spec.ahead_fn is None or array_kernel(instr.op) is None:
        return False
    if instr.op in step.request.placed:
        return True
    if not step.request.fuses or not HOST.compiles or not _numeric(instr.op):
        return False
    constants = step.values.constants
    return all(
        by_shape or value in constants or value in told
        for value, by_shape in zip(instr.inputs, _by_shape(instr, constants), strict=True)
    )


def _numeric(op: Operation) -> bool:
    return all(each._dtype._base.name in NUMBERS for each in (*op.inputs, *op.outputs))


def _by_shape(instr: Instr, constants: Mapping[int, Any]) -> list[bool]:
    """Of each input whether only its shape matters, and the graph knows that."""
    if DRAWS_BY_SHAPE not in instr.op.traits:
        return [False] * len(instr.inputs)
    return [
        value not in constants
        and tensor._dtype._base.name not in IN_HOST_MEMORY
        and tensor._raw is not None
        and None not in tensor._raw
        for value, tensor in zip(instr.inputs, instr.op.inputs, strict=True)
    ]


def _shown(instr: Instr, values: Values) -> tuple[int, ...]:
    """What it looks at to say how much it takes: it need not wait for what the graph knows the shape of."""
    found = []
    by_shape = _by_shape(instr, values.constants)
    for value, tensor, alone in zip(instr.inputs, instr.op.inputs, by_shape, strict=True):
        if alone:
            value = values.new(tensor)
            nothing: Any = np.zeros((), tensor._dtype._base.np)
            values.constants[value] = np.broadcast_to(nothing, tensor._raw)  # type: ignore[arg-type]
        found.append(value)
    return tuple(found)
