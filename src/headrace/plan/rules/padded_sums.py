"""Sums of padded tensors that lie side by side: they are put where they belong, and nothing is added.

The gradient of each of several slices is padded with zeros to what was sliced, and all of these are summed.  Where each
element comes from one of them, it is that one and zeros: only the sign of a zero may change, as it does in the sum.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel


def _match(total: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The sum, and the paddings that are its inputs and nothing else."""
    members = [total]
    if len(total.inputs) < 2:
        return None
    for value in total.inputs:
        pad = facts.maker(value)
        if pad is None or pad.op.type != "Pad" or pad.what != NODE or pad.body or pad in taken:
            return None
        if pad.controls or pad.op in facts.awaited or not facts.is_for_one(value):
            return None
        if not facts.values.changing.isdisjoint(pad.inputs):
            return None
        if facts.values.tensor(value)._dtype._base.np.kind not in "fiu":
            return None
        members.append(pad)
    return Match(members, _build)


RULE: Final = Rule("padded-sums", ("AddN",), _match)


def _build(group: Group) -> Kernel:
    total = group.members[-1]
    pads = {member.outputs[0]: member for member in group.members[:-1]}
    places = [group.inputs_of(pads[value]) for value in total.inputs]

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        parts = []
        end = 0
        rest = values[places[0][0]].shape[1:]
        for part_at, paddings_at in places:
            part, paddings = values[part_at], values[paddings_at]
            if paddings.shape != (part.ndim, 2) or not part.ndim or part.shape[1:] != rest:
                return None
            (before, after), *others = paddings.tolist()
            if before < 0 or after < 0 or any(sizes != [0, 0] for sizes in others):
                return None
            parts.append((before, len(part), part))
            whole = before + len(part) + after
            if end and whole != end:
                return None
            end = whole
        parts.sort(key=lambda each: each[0])
        out = np.empty((end, *rest), parts[0][2].dtype)
        start = 0
        for before, count, part in parts:
            if before != start:
                return None
            start += count
            np.add(part, 0, out[before:start])
        return (out,) if start == end else None

    return group.kernel(at_once)
