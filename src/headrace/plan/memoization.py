"""Memoization: what follows from the shapes of tensors alone is computed when they change, and else remembered.

Gradients of graphs with an unknown batch ask for shapes again and again: how many elements a mean was made of, along
which axes a broadcast is to be summed.  All of that is the same in a step as in the one before, as long as shapes are.
So a node that others want such a value of runs as one instruction with all it is made of: it looks at the shapes of
the tensors behind it, and gives what it gave for those last time.  The nodes in between do not run at all; one that
several such values are made of is in all of their groups.  What has the shape of something that is there anyway is not
looked at, and does not run if nobody wants more of it than its shape.
Of a large value whose elements are all the same (the gradient of a mean is such) that element is remembered.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import LIKE_FIRST, OF_SHAPE, SNAPSHOTS, TAKES_REFS
from headrace.graph.tensor import Tensor
from headrace.plan.ir import BRANCH, LOOP, NODE, SHAPES, SIZES, Facts, Instr, Step
from headrace.plan.nesting import closed
from headrace.plan.rules.elementwise import works_by_elements
from headrace.plan.rules.group import Group, Match, joined, replaced
from headrace.run.exec.instructions import Kernel

_MOST_MEMOIZED = 1024  # elements; what is larger is made anew


def memoize_in_loops(step: Step) -> Step:
    """As `memoize_shapes`, of what is in loops, in each part of one for itself."""
    code = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([memoize_in_loops(body) for body in instr.body])
            if instr.what == LOOP:
                bodies = tuple([memoize_shapes(body) for body in bodies])
            if any(new is not old for new, old in zip(bodies, instr.body, strict=True)):
                instr = closed(instr.changed(body=bodies))
        code.append(instr)
    changed = any(new is not old for new, old in zip(code, step.code, strict=True))
    return step.with_code(code) if changed else step


def memoize_shapes(step: Step) -> Step:
    """A group for each value that follows from shapes and that something else wants."""
    if not any(OF_SHAPE in instr.op.traits or instr.what == SIZES for instr in step.code):
        return step
    step = _looking_further(step)
    values, facts = step.values, step.facts
    behind: dict[Instr, dict[Instr, None]] = {}  # of each node that follows from shapes
    asked: dict[Instr, dict[int, None]] = {}
    follows: dict[int, Instr] = {}  # of their values, who makes them
    wanted: set[Instr | None] = {facts.maker(value) for value in step.results}
    for instr in step.code:
        known: Sequence[Instr] = ()
        if not follows.keys().isdisjoint(instr.inputs):
            known = [follows[value] for value in instr.inputs if value in follows]
        of_shape = OF_SHAPE in instr.op.traits
        if instr.what == SIZES:
            alone = True
        elif not (of_shape or known) or not _only_computes(instr):
            wanted.update(known)
            continue
        else:
            alone = of_shape and _have_shapes(instr, step)
        if alone:
            wanted.update(known)
            behind[instr], asked[instr] = {instr: None}, dict.fromkeys(instr.inputs)
        elif known and all(value in values.constants or value in follows for value in instr.inputs):
            behind[instr] = {each: None for maker in known for each in behind[maker]} | {
                instr: None
            }
            asked[instr] = {each: None for maker in known for each in asked[maker]}
        else:
            wanted.update(known)
            continue
        follows.update(dict.fromkeys(instr.outputs, instr))
    taken = set[int]().union(*[instr.inputs for instr in step.code])
    wanted.update(instr for instr in behind if taken.isdisjoint(instr.outputs))
    groups = [
        joined(SHAPES, Match(behind[instr], _memoized(tuple(asked[instr]))), step)
        for instr in behind
        if instr in wanted and instr.what != SIZES  # which remembers by itself
    ]
    gone = {instr for instr in behind if instr.what != SIZES or instr not in wanted}
    return replaced(step, groups, gone) if behind else step


def _looking_further(step: Step) -> Step:
    """The step where shapes are those of what has the same shape, and is there anyway: nodes that make one of the other
    may run together, and one that is wanted for its shape alone does not run.
    """
    facts, changed = step.facts, False
    code = []
    for instr in step.code:
        if OF_SHAPE in instr.op.traits and instr.what == NODE:
            inputs = tuple([_alike_earlier(value, instr, facts) for value in instr.inputs])
            if inputs != instr.inputs:
                instr, changed = instr.changed(inputs=inputs), True
        code.append(instr)
    return _without_unread(step.with_code(code) if changed else step)


def _alike_earlier(value: int, instr: Instr, facts: Facts) -> int:
    """An input of what makes it that has its shape, and is there anyway."""
    while True:
        maker = facts.maker(value)
        first = None if maker is None else _of_same_shape(maker, value)
        if maker is None or first is None or first in facts.values.changing:
            return value
        if not any(facts.place[user] > facts.place[instr] for user in facts.users(first)):
            return value
        value = first


def _of_same_shape(maker: Instr, value: int) -> int | None:
    """The input that has the shape of `value`, whatever that is."""
    if LIKE_FIRST in maker.op.traits:
        return maker.inputs[0] if maker.outputs[0] == value else None
    if maker.what != NODE or maker.body or not works_by_elements(maker.op):
        return None
    stretched = [
        given
        for given, tensor in zip(maker.inputs, maker.op.inputs, strict=True)
        if tensor._raw != ()
    ]
    return stretched[0] if len(stretched) == 1 else None


def _without_unread(step: Step) -> Step:
    """Without nodes that nobody reads any more, since shapes are made of others: of one tensor and numbers, they cannot
    fail.
    """
    facts = step.facts
    read, code = {*facts.results}, list[Instr]()
    for instr in reversed(step.code):
        if read.isdisjoint(instr.outputs) and _cannot_fail(instr, facts):
            continue
        read.update(instr.inputs)
        code.append(instr)
    return step.with_code(code[::-1]) if len(code) < len(step.code) else step


def _cannot_fail(instr: Instr, facts: Facts) -> bool:
    if instr.what != NODE or instr.controls or instr.op in facts.awaited or not instr.outputs:
        return False
    if LIKE_FIRST in instr.op.traits or _of_same_shape(instr, instr.outputs[0]) is None:
        return False
    return all(tensor._dtype._base.np.kind == "f" for tensor in instr.op.inputs)


def _have_shapes(instr: Instr, step: Step) -> bool:
    """Whether the inputs are arrays, not handles, whose shapes do not depend on when one looks."""
    return step.values.changing.isdisjoint(instr.inputs) and all(
        step.values.tensor(value)._dtype._base not in (dtypes.resource, dtypes.variant)
        for value in instr.inputs
    )


def _only_computes(instr: Instr) -> bool:
    spec = instr.op.spec
    if instr.what != NODE or spec is None or spec.kernel is None or not spec.foldable:
        return False
    if instr.controls:
        return False
    if not instr.inputs or not instr.outputs or spec.takes_ctx or spec.takes_ref:
        return False
    if TAKES_REFS in spec.traits or SNAPSHOTS in spec.traits:
        return False
    return all(_is_number(tensor) for tensor in instr.op.outputs)


def _is_number(tensor: Tensor) -> bool:
    return tensor._dtype._base.np.kind in "biuf"


# -- running ----------------------------------------------------------------------------------------------------------


def _memoized(asked: tuple[int, ...]) -> Callable[[Group], Kernel]:
    """asked: the values whose shapes matter."""

    def build(group: Group) -> Kernel:
        plain, single = group.plain(), len(group.outputs) == 1
        # The shape of what is made inside follows from the others.
        looks = [group.places[value] for value in asked if value in group.inputs]
        last: tuple[Any, Any] | None = None

        only = looks[0] if len(looks) == 1 else -1

        def run(step: Any, *values: Any) -> Any:
            nonlocal last
            shapes: Any
            if only >= 0:
                shapes = values[only].shape
            else:
                shapes = [values[place].shape for place in looks]
            before = last
            if before is not None and before[0] == shapes:
                return before[1]
            made = plain(step, values)
            made = [_alike(value) for value in made]
            if sum(_elements(value) for value in made) <= _MOST_MEMOIZED:
                made = [_kept(value) for value in made]
                last = shapes, made[0] if single else made
            return made[0] if single else made

        return run

    return build


def _alike(value: Any) -> Any:
    """A large array whose elements have the same bits as a view of one; others as they are."""
    if value.size <= _MOST_MEMOIZED or not value.flags.c_contiguous:
        return value
    flat = value.reshape(-1)
    bits = flat.view(f"u{value.itemsize}")
    if bits[0] != bits[-1] or (bits != bits[0]).any():
        return value
    return np.broadcast_to(flat[0].copy(), value.shape)


def _elements(value: Any) -> int:
    """How many of them are in memory."""
    return int(value.size) if any(value.strides) or not value.ndim else 1


def _kept(value: Any) -> Any:
    """A value that nobody can change."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
