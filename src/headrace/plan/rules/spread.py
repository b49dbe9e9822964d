"""Values that are spread over more elements, and then changed by numbers: they are changed before.

The gradient of a mean is what came, repeated for all that was added up, and divided by how many that were.  Divided
first, it is small, and each element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.plan.binding import bound_kernel
from headrace.plan.ir import NODE, Facts, Instr, Values
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
        if not _changes_by_numbers(users[0], value, facts.values, taken):
            break
        members.append(users[0])
    if len(members) == 1 or not all(facts.may_run_at(each, members[-1]) for each in members):
        return None
    return Match(members, _build)


def _changes_by_numbers(instr: Instr, value: int, values: Values, taken: Container[Instr]) -> bool:
    if instr.what != NODE or instr.body or instr in taken or not is_elementwise(instr.op):
        return False
    others = [values.tensor(other) for other in instr.inputs if other != value]
    return len(others) == len(instr.inputs) - 1 and all(other._raw == () for other in others)


SPREADS: Final = ("BroadcastTo", "Tile")
RULE: Final = Rule("spread", SPREADS, _match)


def ending_at(value: int, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr]:
    """What spreads, and what changes that by numbers, if this gives `value` for one user; else nothing."""
    found: list[Instr] = []
    while True:
        maker = facts.maker(value)
        if maker is None or maker.what != NODE or maker.body or maker in taken:
            return []
        if maker.op in facts.awaited or not facts.is_for_one(value):
            return []
        found.insert(0, maker)
        if maker.op.type in SPREADS:
            return found
        given = [at for at in maker.inputs if _changes_by_numbers(maker, at, facts.values, taken)]
        if len(given) != 1:
            return []
        value = given[0]


def beginning(group: Group, members: Sequence[Instr]) -> int:
    """How many of members, which follow each other, are what spreads, and what changes that by numbers."""
    if not members or members[0].op.type not in SPREADS:
        return 0
    value = members[0].outputs[0]
    for count, member in enumerate(members[1:], 1):
        if not _changes_by_numbers(member, value, group.values, ()):
            return count
        value = member.outputs[0]
    return len(members)


class Spreading:
    """What is spread, changed by numbers."""

    def __init__(self, group: Group, members: Sequence[Instr]) -> None:
        """members: those of `beginning`."""
        spread, *rest = members
        self._given, self._sizes = group.inputs_of(spread)
        self._tiles = spread.op.type == "Tile"
        value = spread.outputs[0]
        self._changes = []
        for member in rest:
            assert member.op.spec is not None
            places = [
                None if given == value else place
                for given, place in zip(member.inputs, group.inputs_of(member), strict=True)
            ]
            self._changes.append((bound_kernel(member.op, member.op.spec), places))
            value = member.outputs[0]
        assert spread.op.spec is not None
        self._repeat = bound_kernel(spread.op, spread.op.spec)

    def before(self, values: Sequence[Any]) -> Any:
        """What is to be spread, changed; None where it is changed by something that is no number.

        values: of the group, by place.
        """
        made = values[self._given]
        for change, places in self._changes:
            given = [made if at is None else values[at] for at in places]
            if any(np.ndim(each) for each, at in zip(given, places, strict=True) if at is not None):
                return None
            made = change(*given)
        return made

    def shape(self, made: Any, values: Sequence[Any]) -> tuple[int, ...]:
        """Of what `made` is spread to, if it has as many dimensions."""
        sizes = tuple(np.ravel(values[self._sizes]).tolist())
        if not self._tiles:
            return sizes
        return tuple([n * size for n, size in zip(made.shape, sizes, strict=False)])

    def all(self, values: Sequence[Any]) -> Any:
        """What is spread and changed; None as `before`."""
        made = self.before(values)
        return None if made is None else self._repeat(made, values[self._sizes])


def _build(group: Group) -> Kernel:
    spreading = Spreading(group, group.members)

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        made = spreading.all(values)
        return None if made is None else (made,)

    return group.kernel(at_once, refuses=True)
