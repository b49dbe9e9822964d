"""Both gradients of an operation of two tensors, where neither of these was stretched: they are handed on.

While sizes are unknown each of the two is summed along the axes that `BroadcastGradientArgs` finds, and brought into
the shape of the tensor.  Where all four have one shape, neither has to be done, and the gradients are those that came.
In a loop this is done in each iteration; outside of loops what follows from shapes is remembered before this is looked
for (`plan.memoization`), and `plan.rules.unstretched` finds the sums.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.registers import UNSTRETCHED
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel


class _Side(NamedTuple):
    """One of the two: who asks for the shape, if that is for nobody else; the sum and the reshape."""

    shape: Instr | None
    total: Instr
    reshape: Instr


def _match(axes: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The axes, and both sums and reshapes; shapes that only these want."""
    sides = []
    for at in (0, 1):
        side = _side(axes, at, facts, taken)
        if side is None:
            return None
        sides.append(side)
    members = {axes, *[each for side in sides for each in side if each is not None]}
    if len(members) < 1 + 2 * len(sides):
        return None
    last = max(facts.place[each] for each in members)
    given = [value for each in members for value in each.inputs]
    if not facts.values.changing.isdisjoint(given):
        return None
    results = [side.reshape.outputs[0] for side in sides]
    for value in results:
        if any(facts.place[user] < last for user in facts.users(value)):
            return None
    return Match(members, _build, results)


RULE: Final = Rule(UNSTRETCHED, ("BroadcastGradientArgs",), _match)


def _side(axes: Instr, at: int, facts: Facts, taken: AbstractSet[Instr]) -> _Side | None:
    shape_value, axes_value = axes.inputs[at], axes.outputs[at]
    total = _only_user(axes_value, facts)
    if total is None or not _may_join(total, "Sum", taken) or total.inputs[1] != axes_value:
        return None
    reshape = _only_user(total.outputs[0], facts)
    if reshape is None or not _may_join(reshape, "Reshape", taken):
        return None
    if reshape.inputs != (total.outputs[0], shape_value):
        return None
    shape = facts.maker(shape_value)
    wants = [*facts.users(shape_value), *([None] if shape_value in facts.results else ())]
    alone = all(user is axes or user is reshape for user in wants)
    if shape is None or not alone or not _may_join(shape, "Shape", taken):
        shape = None
    return _Side(shape, total, reshape)


def _only_user(value: int, facts: Facts) -> Instr | None:
    return facts.uses(value)[0] if facts.is_for_one(value) and facts.uses(value) else None


def _may_join(instr: Instr, kind: str, taken: AbstractSet[Instr]) -> bool:
    plain = instr.what == NODE and not instr.body and not instr.controls
    return plain and instr.op.type == kind and instr not in taken


def _build(group: Group) -> Kernel:
    (axes,) = (each for each in group.members if each.op.type == "BroadcastGradientArgs")
    makers = {each.outputs[0]: each for each in group.members}
    totals = {each.inputs[1]: each for each in group.members if each.op.type == "Sum"}
    reshapes = {each.inputs[0]: each for each in group.members if each.op.type == "Reshape"}
    given_at: list[int] = []
    of_at: list[
        tuple[int, bool]
    ] = []  # a place, and whether the shape is that of what stands there
    order = []
    for shape_value, axes_value in zip(axes.inputs, axes.outputs, strict=True):
        total = totals[axes_value]
        given_at.append(group.places[total.inputs[0]])
        order.append(reshapes[total.outputs[0]].outputs[0])
        shape = makers.get(shape_value)
        of_at.append(
            (group.places[shape_value], False)
            if shape is None
            else (group.places[shape.inputs[0]], True)
        )
    first, second = given_at
    (one_at, of_one), (other_at, of_other) = of_at
    turned = order != list(group.outputs)

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        x, y, one, other = values[first], values[second], values[one_at], values[other_at]
        shape = x.shape
        if y.shape != shape:
            return None
        if (one.shape if of_one else (*one.tolist(),)) != shape:
            return None
        if (other.shape if of_other else (*other.tolist(),)) != shape:
            return None
        return (y, x) if turned else (x, y)

    return group.kernel(at_once)
