"""Rows that are cut out of a tensor for arithmetic alone are looked at where they lie.

A slice is a copy, since whoever has it may keep it, send it or be given its memory.  What only goes into arithmetic, in
this step, needs none where the rows are one piece of memory that nobody changes.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from headrace.base.traits import ALIASES
from headrace.plan.ir import BRANCH, LOOP, Facts, Instr
from headrace.plan.registers import ROW_VIEWS, is_fresh
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_FEWEST = 2048  # elements; fewer are copied as soon as a view is made


def _match(cut: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """A slice of some rows of a tensor of this step, all columns of them."""
    given, (made,) = cut.inputs[0], cut.outputs
    constants = [facts.values.constants.get(value) for value in cut.inputs[1:]]
    if cut.controls or cut in taken or any(each is None for each in constants):
        return None
    whole, part = (facts.values.tensor(value)._raw for value in (given, made))
    if not whole or not part or None in whole or None in part or whole[1:] != part[1:]:
        return None
    if any(constants[0].tolist()[1:]) or math.prod(part) < _FEWEST:  # type: ignore[union-attr, arg-type]
        return None
    if not is_fresh(given, facts) or given in facts.results or not _is_looked_at(made, facts):
        return None
    return Match((cut,), _build)


RULE: Final = Rule(ROW_VIEWS, ("Slice",), _match)


def _is_looked_at(value: int, facts: Facts) -> bool:
    """Whether all who take it, or a view of it, compute something else of it in this step."""
    if value in facts.results:
        return False
    for user in facts.users(value):
        if user.effects or user.what in (BRANCH, LOOP):
            return False
        if user.body or ALIASES not in user.op.traits:
            continue
        if user.op.type != "Reshape" or not _is_looked_at(user.outputs[0], facts):
            return False
    return True


def _build(group: Group) -> Kernel:
    (cut,) = group.members
    given_at = group.inputs_of(cut)[0]
    first = int(group.values.constants[cut.inputs[1]][0])
    shape = group.values.tensor(cut.outputs[0])._raw
    assert shape is not None
    rows = shape[0]
    assert rows is not None

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        given = values[given_at]
        if first < 0 or not given.flags.c_contiguous:
            return None
        found = given[first : first + rows]
        return (found,) if found.shape == shape else None

    return group.kernel(at_once)
