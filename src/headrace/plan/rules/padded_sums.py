"""Sums of padded tensors that lie side by side: they are put where they belong, and nothing is added.

The gradient of each of several slices is padded with zeros to what was sliced, and all of these are summed.  Where each
element comes from one of them, it is that one and zeros: only the sign of a zero may change, as it does in the sum.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

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


class _Part(NamedTuple):
    """Places of what is padded and of its paddings, which are known where they are constant."""

    part: int
    paddings: int
    known: _Rows | None


class _Rows(NamedTuple):
    """Rows of zeros before and after what is padded, which has that rank."""

    before: int
    after: int
    rank: int


def _rows(paddings: Any) -> _Rows | None:
    """None if there is anything but rows."""
    if paddings.ndim != 2 or paddings.shape[1] != 2 or not len(paddings):
        return None
    (before, after), *others = paddings.tolist()
    if before < 0 or after < 0 or any(sizes != [0, 0] for sizes in others):
        return None
    return _Rows(before, after, len(paddings))


def _build(group: Group) -> Kernel:
    total = group.members[-1]
    pads = {member.outputs[0]: member for member in group.members[:-1]}
    constants = group.values.constants
    parts = []
    for value in total.inputs:
        paddings = constants.get(pads[value].inputs[1])
        known = None if paddings is None else _rows(paddings)
        part, given = group.inputs_of(pads[value])
        parts.append(_Part(part, given, known))
    dtype = group.values.tensor(total.outputs[0])._dtype._base.np
    nothing = np.zeros((), dtype)

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        rest = values[parts[0].part].shape[1:]
        found: list[tuple[int, Any]] = []
        end = -1
        for part_at, paddings_at, known in parts:
            part, rows = values[part_at], known or _rows(values[paddings_at])
            if rows is None or part.ndim != rows.rank or part.shape[1:] != rest:
                return None
            whole = rows.before + len(part) + rows.after
            if end not in (-1, whole):
                return None
            end = whole
            found.append((rows.before, part))
        found.sort(key=_first)
        start = 0
        for before, part in found:
            if before != start:
                return None
            start += len(part)
        if start != end:
            return None
        out = np.empty((end, *rest), dtype)
        for before, part in found:
            np.add(part, nothing, out[before : before + len(part)])
        return (out,)

    return group.kernel(at_once)


_first: Final = operator.itemgetter(0)
