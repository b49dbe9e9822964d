"""Updates of embeddings: from the gradient of what was looked up to the sums of its rows, all at once.

The gradient of a safe lookup is masked, its rows are added up by the number of what each was looked up for, and the
optimizer adds up what has one number once more, which differ already (`Unique`): twenty nodes, of which two do
something where every example has one id.  The sums are those that the nodes make, in the same order.
Called by: plan.rules.joint_updates.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.ops._kernels.sparse_keys import is_counting
from headrace.ops.sparse.segments import sums_by_number
from headrace.ops.training.update_rules import inputs_of
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.group import Group

_GRADIENTS: Final = ("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
_SELECTS: Final = ("Select", "SelectV2")
_MASKS: Final = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_ONLY_FIRST: Final = [0, 0, 0, 0, 1]  # those of [0]


class RowNodes(NamedTuple):
    """Those of an update, beside what follows from shapes alone.

    flat: the numbers as a vector; unique: the same once more; rows: the sums as rows; looked_up: what is as long as
    there are numbers; tail: the shape of a row; mask: zeros where nothing was looked up.
    """

    update: Instr
    sums: Instr
    unique: Instr
    flat: Instr | None
    rows: Instr
    tail: int
    slope: Instr
    looked_up: int
    mask: Instr | None


def rows_before(
    update: Instr, facts: Facts, taken: AbstractSet[Instr]
) -> tuple[RowNodes, set[Instr]] | None:
    """The nodes that the gradient of an update of rows is made of since the lookup's own gradient, if it is one.

    Also all that may run with it: nobody else wants what they give.
    """
    search = _Search(facts, taken)
    nodes = search.nodes(update)
    if nodes is None:
        return None
    core = {nodes.update, nodes.sums, nodes.rows, nodes.slope}
    core.update([] if nodes.mask is None else [nodes.mask])
    inside = {*core, *search.beside}
    while True:  # what others want, too, stays outside, if the group can do without
        out = [each for each in inside if each is not update and _is_wanted(each, inside, facts)]
        if not out:
            break
        if not core.isdisjoint(out):
            return None
        inside.difference_update(out)
    for member in inside:
        if member is not update and not facts.values.changing.isdisjoint(member.inputs):
            return None
    return nodes, inside


def _is_wanted(instr: Instr, members: AbstractSet[Instr], facts: Facts) -> bool:
    """Whether others than the members want what it gives."""
    return any(
        value in facts.results or not all(user in members for user in facts.uses(value))
        for value in instr.outputs
    )


class _Search:
    """beside: nodes whose values the group needs only where its nodes run one by one."""

    def __init__(self, facts: Facts, taken: AbstractSet[Instr]) -> None:
        self._facts, self._taken = facts, taken
        self.beside: set[Instr] = set()

    def nodes(self, update: Instr) -> RowNodes | None:
        """The nodes before `update`, if it is one of rows of an embedding."""
        known = inputs_of(update.op)
        if known is None or known.indices_at < 0:
            return None
        sums = self._maker(update.inputs[known.grad_at], "UnsortedSegmentSum")
        unique = self._maker(update.inputs[known.indices_at], "Unique")
        if sums is None or unique is None or sums.inputs[1] != unique.outputs[1]:
            return None
        if update.inputs[known.indices_at] != unique.outputs[0]:
            return None
        flat, numbers = self._maker(unique.inputs[0], "Reshape"), unique.inputs[0]
        if flat is not None:
            numbers = flat.inputs[0]
        rows = self._maker(sums.inputs[0], "Reshape")
        slope = None if rows is None else self._maker(rows.inputs[0], *_GRADIENTS)
        if rows is None or slope is None or not self._differ(numbers, slope.inputs[1]):
            return None
        if not self._is_first_size(sums.inputs[2], unique.outputs[0]):
            return None
        if flat is not None and self._size(flat.inputs[1]) != numbers:
            return None
        both = self._maker(rows.inputs[1], "ConcatV2")
        if both is None or len(both.inputs) != 3 or self._known(both.inputs[2]) != 0:
            return None
        if self._size(both.inputs[0]) != numbers:
            return None
        looked_up = self._first_size_of(slope.inputs[3])
        if looked_up is None:
            return None
        self.beside.update((both, unique) if flat is None else (both, unique, flat))
        mask = self._mask(slope.inputs[0])
        return RowNodes(update, sums, unique, flat, rows, both.inputs[1], slope, looked_up, mask)

    def _maker(self, value: int, *kinds: str) -> Instr | None:
        found = self._facts.maker(value)
        if found is None or found.op.type not in kinds or found.what != NODE or found.body:
            return None
        if found.controls or found in self._taken or found.op in self._facts.awaited:
            return None
        return found

    def _known(self, value: int) -> Any:
        found = self._facts.values.constants.get(value)
        return None if found is None else found.tolist()

    def _differ(self, numbers: int, places: int) -> bool:
        """Whether these are the two outputs of one `Unique`, so that places are those of numbers."""
        facts = self._facts
        maker = facts.maker(numbers)
        if maker is None or facts.maker(places) is not maker:  # one of them is fed, perhaps
            return False
        one, other = facts.values.tensor(numbers), facts.values.tensor(places)
        if one.op is not other.op or (one.value_index, other.value_index) != (0, 1):
            return False
        return one.op.type == "Unique"

    def _size(self, value: int) -> int | None:
        """That of which it is [the size]."""
        outer = self._maker(value, "ExpandDims")
        size = None if outer is None else self._maker(outer.inputs[0], "Size")
        if outer is None or size is None or self._known(outer.inputs[1]) != 0:
            return None
        self.beside.update((outer, size))
        return size.inputs[0]

    def _is_first_size(self, value: int, of: int) -> bool:
        return self._first_size_of(value) == of

    def _first_size_of(self, value: int) -> int | None:
        """That of which it is the first size."""
        first = self._maker(value, "StridedSlice")
        shape = None if first is None else self._maker(first.inputs[0], "Shape")
        if first is None or shape is None:
            return None
        if [self._known(each) for each in first.inputs[1:]] != [[0], [1], [1]]:
            return None
        if [first.op.attrs[mask] for mask in _MASKS] != _ONLY_FIRST:
            return None
        self.beside.update((first, shape))
        return shape.inputs[0]

    def _mask(self, value: int) -> Instr | None:
        """What puts zeros where nothing was looked up, if nobody else wants what it gives."""
        mask = self._maker(value, *_SELECTS)
        if mask is None or not self._facts.is_for_one(value):
            return None
        zeros = self._maker(mask.inputs[1], "ZerosLike")
        if zeros is None:
            return None
        self.beside.add(zeros)
        return mask


# -- running ----------------------------------------------------------------------------------


def _maker_in(group: Group, value: int) -> Instr:
    """The member that gives it."""
    return next(member for member in group.members if value in member.outputs)


def summing(nodes: RowNodes, group: Group) -> Callable[[Sequence[Any]], tuple[Any, Any] | None]:
    """A function of the group's inputs: the sums, and the rows that they are of; None where the nodes have to run."""
    by_op = {member.op: member for member in group.members}
    places = group.places
    slope_at, places_at, segments_at, count_at = group.inputs_of(by_op[nodes.slope.op])
    numbers_at = places[nodes.unique.outputs[0]]
    if nodes.unique.op in by_op:
        first = nodes.unique if nodes.flat is None or nodes.flat.op not in by_op else nodes.flat
        numbers_at = places[first.inputs[0]]
    # Of shapes there are either the numbers, made outside, or what they are made of.
    outside = len(group.inputs)
    looked_up_at = places[nodes.looked_up] if count_at >= outside else -1
    whole_at = group.inputs_of(by_op[nodes.rows.op])[1]
    tail_at = places[nodes.tail] if whole_at >= outside else -1
    mask_at = like_at = -1
    if nodes.mask is not None:
        mask_at, like_at, slope_at = group.inputs_of(by_op[nodes.mask.op])
        if like_at >= outside:
            like_at = places[_maker_in(group, nodes.mask.inputs[1]).inputs[0]]

    def found(values: Sequence[Any]) -> tuple[Any, Any] | None:
        slope, numbers = values[slope_at], values[numbers_at]
        at, segments = values[places_at], values[segments_at]
        count = len(segments)
        if numbers.ndim != 1 or slope.ndim < 1 or at.shape != segments.shape:
            return None
        if len(slope) < count or not is_counting(segments, count):
            return None
        made = values[count_at] if looked_up_at < 0 else len(values[looked_up_at])
        if made != len(numbers):
            return None
        tail = values[whole_at][1:] if tail_at < 0 else values[tail_at]
        if tail.tolist() != [*slope.shape[1:]]:
            return None
        if mask_at >= 0:
            mask = values[mask_at]
            if not mask.shape == values[like_at].shape == slope.shape:
                return None
            if b"\1" in mask.tobytes():
                slope = np.where(mask, slope.dtype.type(0), slope)
        parts = slope if len(slope) == count else slope[:count]
        return sums_by_number(parts, at, len(numbers)), numbers

    return found
