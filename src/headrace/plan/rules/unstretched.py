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

from headrace.base.traits import ALIASES
from headrace.plan.ir import BRANCH, LOOP, Facts, Instr
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
    given, axes = total.inputs
    known = facts.values.constants.get(axes)
    if known is not None and known.size:
        return None
    if not facts.values.changing.isdisjoint(total.inputs):
        return None
    if not facts.is_for_one(given) and not _only_looked_at(given, reshape.outputs[0], facts):
        return None
    return Match((total, reshape), _build) if is_fresh(given, facts) else None


def _only_looked_at(given: int, handed_on: int, facts: Facts) -> bool:
    """Whether both may be one array: who takes them computes, and neither keeps nor changes what it gets."""
    if given in facts.results or handed_on in facts.results:
        return False
    of_given = [user for user in facts.users(given) if user.op.type != "Sum"]
    return all(map(_computes, [*of_given, *facts.users(handed_on)]))


def _computes(instr: Instr) -> bool:
    if instr.effects or instr.op.type == "Sum":
        return False
    if instr.body:
        return instr.what not in (BRANCH, LOOP)
    return ALIASES not in instr.op.traits or (instr.op.type == "AddN" and len(instr.inputs) > 1)


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
