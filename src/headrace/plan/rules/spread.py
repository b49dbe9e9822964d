"""Values that are spread over more elements, and then changed by numbers: they are changed before.

The gradient of a mean is what came, repeated for all that was added up, and divided by how many that were.  Divided
first, it is small, and each element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.plan.binding import bound_kernel
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.elementwise import is_elementwise
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel


def _match(spread: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """What spreads, and what changes each element of that by numbers, as long as nobody else wants it."""
    members = [spread]
    while facts.is_for_one(members[-1].outputs[0]):
        value = members[-1].outputs[0]
        users = facts.uses(value)
        if not users or members[-1].op in facts.awaited:
            break
        if not _changes_by_numbers(users[0], value, facts, taken):
            break
        members.append(users[0])
    if len(members) == 1 or not all(facts.may_run_at(each, members[-1]) for each in members):
        return None
    return Match(members, _build)


def _changes_by_numbers(instr: Instr, value: int, facts: Facts, taken: AbstractSet[Instr]) -> bool:
    if instr.what != NODE or instr.body or instr in taken or not is_elementwise(instr.op):
        return False
    others = [facts.values.tensor(other) for other in instr.inputs if other != value]
    return len(others) == len(instr.inputs) - 1 and all(other._raw == () for other in others)


RULE: Final = Rule("spread", ("BroadcastTo", "Tile"), _match)


def _build(group: Group) -> Kernel:
    spread, *rest = group.members
    given_at, sizes_at = group.inputs_of(spread)
    value = spread.outputs[0]
    changes = []
    for member in rest:
        assert member.op.spec is not None
        places = [
            None if given == value else place
            for given, place in zip(member.inputs, group.inputs_of(member), strict=True)
        ]
        changes.append((bound_kernel(member.op, member.op.spec), places))
        value = member.outputs[0]
    assert spread.op.spec is not None
    repeat = bound_kernel(spread.op, spread.op.spec)

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        made = values[given_at]
        for change, places in changes:
            given = [made if at is None else values[at] for at in places]
            if any(np.ndim(each) for each, at in zip(given, places, strict=True) if at is not None):
                return None
            made = change(*given)
        return (repeat(made, values[sizes_at]),)

    return group.kernel(at_once, refuses=True)
