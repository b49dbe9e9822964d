"""Stacks of shapes: a gradient loop that gets a tensor back need not get its shape back, too.

What the gradient of a loop needs of an iteration is pushed on stacks in the one loop and popped in the other
(`graph.loop_gradients`); of a product that is both factors, and, while sizes are unknown, their shapes.  Where a shape
is pushed in each iteration, and so is the tensor that it is of, the gradient loop asks the tensor: then nobody needs
the stack, and what follows from shapes can be remembered there (`plan.memoization`).  Nor does anybody need one whose
values nobody reads, such as the flows of a TensorArray.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from headrace.plan.ir import BRANCH, LOOP, NODE, Instr, Step, instrs
from headrace.plan.nesting import closed


class _Stack(NamedTuple):
    """A stack that one instruction makes, one pushes on and one pops from, both in every iteration of their loops."""

    maker: Instr
    forward: Instr
    push: Instr
    backward: Instr
    pop: Instr


def drop_stacked_shapes(step: Step) -> Step:
    """The step without stacks of shapes that follow from what is on others, and of what nobody reads."""
    stacks = _stacks(step)
    if not stacks:
        return step
    bodies = [each.body[1] for each in step.code if each.what == LOOP]
    makers = {value: instr for body in bodies for instr in body.code for value in instr.outputs}
    by_content = {(each.push.inputs[1], each.backward): each for each in stacks}
    gone: set[Instr] = set()
    shapes: dict[Instr, list[Instr]] = {}  # by the pop of what they are of
    read = _read(step)
    for each in stacks:
        if read.isdisjoint(each.pop.outputs):
            continue
        shape = makers.get(each.push.inputs[1])
        if shape is None or not _is_shape(shape):
            continue
        of = by_content.get((shape.inputs[0], each.backward))
        if of is None or of.forward is not each.forward:
            continue
        beside = shapes.setdefault(of.pop, [])
        if any(other.op is shape.op for other in beside):
            continue
        beside.append(shape.changed(inputs=of.pop.outputs, outputs=each.pop.outputs, controls=()))
        gone.update((each.maker, each.push, each.pop))
    for each in stacks:
        if each.pop not in shapes and read.isdisjoint(each.pop.outputs):
            gone.update((each.maker, each.push, each.pop))
    if not gone:
        return step
    code = []
    for instr in step.code:
        if instr.what == LOOP:
            instr = _rewritten(instr, gone, shapes)
        if instr not in gone:
            code.append(instr)
    return step.with_code(code)


def _stacks(step: Step) -> list[_Stack]:
    """Those whose loops are in the step's own code."""
    made = {i.outputs[0]: i for i in step.code if i.what == NODE and i.op.type == "StackV2"}
    if not made:
        return []
    uses = Counter(
        value
        for instr in instrs(step.code)
        if instr.what not in (BRANCH, LOOP)
        for value in instr.inputs
        if value in made
    )
    pushes: dict[int, tuple[Instr, Instr]] = {}
    pops: dict[int, tuple[Instr, Instr]] = {}
    for loop in step.code:
        if loop.what != LOOP:
            continue
        read = {value for part in loop.body for value in part.results}
        read.update(value for part in loop.body for each in part.code for value in each.inputs)
        for instr in loop.body[1].code:
            if instr.what != NODE or not instr.inputs or instr.inputs[0] not in made:
                continue
            if instr.op.type == "StackPushV2" and read.isdisjoint(instr.outputs):
                pushes[instr.inputs[0]] = loop, instr
            elif instr.op.type == "StackPopV2":
                pops[instr.inputs[0]] = loop, instr
    return [
        _Stack(maker, *pushes[value], *pops[value])
        for value, maker in made.items()
        if value in pushes and value in pops and uses[value] == 2 and value not in step.results
    ]


def _read(step: Step) -> set[int]:
    """Values that are wanted by anything."""
    found = {*step.results}
    for instr in instrs(step.code):
        found.update(instr.inputs)
        if instr.what in (BRANCH, LOOP):
            found.update(value for part in instr.body for value in part.results)
    return found


def _is_shape(instr: Instr) -> bool:
    """Whether it gives the shape of its one input."""
    single = len(instr.inputs) == 1 and len(instr.outputs) == 1
    return instr.what == NODE and single and instr.op.type == "Shape"


def _rewritten(loop: Instr, gone: set[Instr], shapes: dict[Instr, list[Instr]]) -> Instr:
    """The loop with `shapes` for what is gone; what they are of is popped where the first pop of these stood."""
    head, body, tail = loop.body
    if gone.isdisjoint(body.code):
        return loop
    first = {each.outputs[0]: pop for pop, beside in shapes.items() for each in beside}
    code: list[Any] = []
    moved: set[Instr] = set()
    for instr in body.code:
        pop = instr if instr in shapes else None
        if instr in gone and instr.outputs[0] in first:
            pop = first[instr.outputs[0]]
        if pop is not None and pop not in moved:
            moved.add(pop)
            code += [pop, *shapes[pop]]
        if instr not in gone and instr not in moved:
            code.append(instr)
    return closed(loop.changed(body=(head, body.with_code(code), tail)))
