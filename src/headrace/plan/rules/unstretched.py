"""Gradients of what broadcasting may have stretched: where it has not, they are handed on as they are.

While shapes are unknown the gradient of each input of ``x * y`` is summed along the axes that it was stretched along,
and brought into its shape.  Nearly always there are none: then the sum is a copy and the shape the same.  What nobody
else has may be given on itself, with the bits that both would give.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from headrace.plan.ir import Facts, Instr
from headrace.plan.registers import is_fresh
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel


def _match(reshape: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The reshape, and the sum before it, of a value that is new and nobody else's."""
    value = reshape.inputs[0]
    total = facts.maker(value)
    if total is None or total.op.type != "Sum" or total.body or total in taken or total.controls:
        return None
    if total.op in facts.awaited or not facts.is_for_one(value):
        return None
    given = total.inputs[0]
    if not facts.values.changing.isdisjoint(total.inputs) or not facts.is_for_one(given):
        return None
    return Match((total, reshape), _build) if is_fresh(given, facts) else None


RULE: Final = Rule("unstretched", ("Reshape",), _match)


def _build(group: Group) -> Kernel:
    total, reshape = group.members
    given_at, axes_at = group.inputs_of(total)
    shape_at = group.inputs_of(reshape)[1]

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        given, axes = values[given_at], values[axes_at]
        if axes.size or values[shape_at].tolist() != list(given.shape):
            return None
        return (given,)

    return group.kernel(at_once)
