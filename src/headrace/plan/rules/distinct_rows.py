"""Rows whose numbers are known to differ: nobody looks for equal ones among them again.

A sparse update adds up the rows of its gradient that have one number.  What an embedding looks up it names once each
(`Unique`), so the rows of its gradient differ already: they are found in order, and their sums are they themselves.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel


def _match(instr: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """A search among numbers that differ, or sums by the places that it gives."""
    if not facts.values.changing.isdisjoint(instr.inputs):
        return None
    if instr.op.type == "Unique":
        return Match((instr,), _build_search) if _differ(instr.inputs[0], facts) else None
    places = facts.values.tensor(instr.inputs[1])
    if places.op.type != "Unique" or places.value_index != 1:
        return None
    search = facts.maker(instr.inputs[1])
    if search is None or not _differ(search.inputs[0], facts) or search.op is not places.op:
        return None
    return Match((instr,), _build_sums)


RULE: Final = Rule("distinct-rows", ("Unique", "UnsortedSegmentSum"), _match)


def _differ(value: int, facts: Facts) -> bool:
    """Whether the elements are what a `Unique` gave, in any shape."""
    maker = facts.maker(value)
    if maker is not None and maker.op.type == "Reshape" and not maker.body:
        value = maker.inputs[0]
        maker = facts.maker(value)
    if maker is None:  # fed in its place, perhaps
        return False
    tensor = facts.values.tensor(value)
    return tensor.op.type == "Unique" and tensor.value_index == 0


def _build_search(group: Group) -> Kernel:
    (search,) = group.members
    (given,) = group.inputs_of(search)
    kind = search.op.attrs["out_idx"].np

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        numbers = values[given]
        if numbers.ndim != 1:
            return None
        return numbers.copy(), np.arange(len(numbers), dtype=kind)

    return group.kernel(at_once)


def _build_sums(group: Group) -> Kernel:
    rows_at, places_at, count_at = group.inputs_of(group.members[0])

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        rows, places, count = values[rows_at], values[places_at], values[count_at]
        if np.ndim(count) or rows.shape[:1] != places.shape or len(places) != count:
            return None
        return (rows.copy(),)

    return group.kernel(at_once)
