"""Safe lookups: the rows of an embedding for categories that may be missing, in one instruction.

`safe_embedding_lookup_sparse` sorts out the ids (`plan.rules.embedding_ids`), looks each different one up once,
combines the rows of each example, puts zeros where there was no id, and gives the result the dimensions of the ids: two
dozen nodes for each column of categories.  Where every example has one id that counts, and all are rows of the table,
that is two gathers; where not, the nodes' kernels run one after the other.
The group stands where the first of its nodes stood for which all is there.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.ops.array.unique import are_close, distinct_close
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.embedding_ids import IdNodes, IdSearch, kept_of, kernel_of, sorting
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_COMBINERS: Final = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
_ONLY_SECOND: Final = [0, 0, 0, 0, 1]  # masks of [1]
_MASKS: Final = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


class _Nodes(NamedTuple):
    """Those of a lookup.  width: what makes of the result's shape how often the marks of empty rows are repeated.

    shaped: what gives the result the dimensions of the ids, [shape, its end, both together, reshape], or nothing.
    """

    ids: IdNodes
    gather: Instr
    combine: Instr
    zeros: Instr
    column: Instr
    width: tuple[Instr, Instr, Instr]
    marks: Instr
    select: Instr
    shaped: tuple[Instr, ...]

    @property
    def all(self) -> list[Instr]:
        """Each of them."""
        return [
            *self.ids.all,
            *(self.gather, self.combine, self.zeros, self.column, *self.width),
            *(self.marks, self.select, *self.shaped),
        ]


def _match(select: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """All of the lookup, whose last node but those for the dimensions puts zeros into the empty rows."""
    nodes = _Search(facts, taken).all_of(select)
    if nodes is None:
        return None
    found = _placed(nodes, facts)
    if found is None and nodes.shaped:
        found = _placed(nodes._replace(shaped=()), facts)
    return found


RULE: Final = Rule("safe-lookups", ("Select", "SelectV2"), _match)


def _placed(nodes: _Nodes, facts: Facts) -> Match | None:
    """The group, where all that it takes is there, and nobody has wanted what it gives."""
    ids, members = nodes.ids, nodes.all
    for member in members:
        if member is not nodes.gather and not facts.values.changing.isdisjoint(member.inputs):
            return None
    given = {ids.fill.outputs[2], ids.rows.outputs[0], *ids.unique.outputs}
    for each in (nodes.gather, nodes.combine, nodes.zeros, nodes.marks, nodes.select):
        given.update(each.outputs)
    for each in nodes.shaped[3:]:
        given.update(each.outputs)
    kept = kept_of(members, given, facts)
    if kept is None:
        return None
    place, inside = facts.place, set(members)
    makers = (facts.maker(value) for member in members for value in member.inputs)
    ready = max((place[m] for m in makers if m is not None and m not in inside), default=-1)
    users = (user for value in kept for user in facts.users(value) if user not in inside)
    wanted = min((place[user] for user in users), default=len(place))
    for member in sorted(members, key=place.__getitem__):
        if ready < place[member] < wanted:
            return (
                Match(members, partial(_build, nodes), kept, member)
                if _reads_alike(nodes.gather, member, facts)
                else None
            )
    return None


def _reads_alike(gather: Instr, other: Instr, facts: Facts) -> bool:
    """Whether what it reads is the same at another node, neither of which has effects."""
    apart = facts.writers[facts.place[gather]] != facts.writers[facts.place[other]]
    return not apart or facts.values.changing.isdisjoint(gather.inputs)


class _Search(IdSearch):
    def all_of(self, select: Instr) -> _Nodes | None:
        """The lookup that ends in `select`."""
        if not self.may_join(select):
            return None
        marks, zeros = (
            self.maker(select.inputs[0], "Tile"),
            self.maker(select.inputs[1], "ZerosLike"),
        )
        combine = self.maker(select.inputs[2], *_COMBINERS)
        if marks is None or zeros is None or combine is None or zeros.inputs[0] != select.inputs[2]:
            return None
        gather, column = self.gather(combine.inputs[0]), self.maker(marks.inputs[0], "Reshape")
        unique = self.maker(combine.inputs[1], "Unique")
        if gather is None or column is None or unique is None:
            return None
        if gather.inputs[1] != unique.outputs[0] or combine.inputs[1] != unique.outputs[1]:
            return None
        ids, width = self.nodes(unique), self._width(marks.inputs[1], select.inputs[2])
        if ids is None or width is None or combine.inputs[2] != ids.rows.outputs[0]:
            return None
        if column.inputs[0] != ids.fill.outputs[2] or self.known(column.inputs[1]) != [-1, 1]:
            return None
        shaped = self._shaped(select)
        return _Nodes(ids, gather, combine, zeros, column, width, marks, select, shaped)

    def _width(self, repeats: int, result: int) -> tuple[Instr, Instr, Instr] | None:
        """The nodes that make [1, the width of the result] of the result."""
        pack = self.maker(repeats, "Pack")
        if pack is None or len(pack.inputs) != 2 or self.known(pack.inputs[0]) != 1:
            return None
        only = self.maker(pack.inputs[1], "StridedSlice")
        shape = None if only is None else self.maker(only.inputs[0], "Shape")
        if only is None or shape is None or shape.inputs[0] != result:
            return None
        if [self.known(value) for value in only.inputs[1:]] != [[1], [2], [1]]:
            return None
        if [only.op.attrs[mask] for mask in _MASKS] != _ONLY_SECOND:
            return None
        return shape, only, pack

    def _shaped(self, select: Instr) -> tuple[Instr, ...]:
        """The nodes that give it other first dimensions, if there are any."""
        (result,) = select.outputs
        for reshape in self._facts.users(result):
            both = (
                self.maker(reshape.inputs[1], "ConcatV2") if reshape.op.type == "Reshape" else None
            )
            if both is None or len(both.inputs) != 3 or self.known(both.inputs[2]) != 0:
                continue
            end = self.maker(both.inputs[1], "Slice")
            shape = None if end is None else self.maker(end.inputs[0], "Shape")
            if end is None or shape is None or shape.inputs[0] != result:
                continue
            if [self.known(value) for value in end.inputs[1:]] != [[1], [-1]]:
                continue
            inside = (shape, end, both)
            alone = all(self._facts.is_for_one(value) for each in inside for value in each.outputs)
            if alone and self.may_join(reshape):
                return (*inside, reshape)
        return ()


# -- running ----------------------------------------------------------------------------------


def _build(nodes: _Nodes, group: Group) -> Kernel:
    by_op = {member.op: member for member in group.members}
    ids = nodes.ids
    sorted_ids, distinct = sorting(ids, group), kernel_of(ids.unique)
    params_at = group.inputs_of(by_op[nodes.gather.op])[0]
    look_up, combine = kernel_of(nodes.gather), kernel_of(nodes.combine)
    marked, chosen = kernel_of(nodes.marks), kernel_of(nodes.select)
    kind = ids.unique.op.attrs["out_idx"].np
    outer_at = group.inputs_of(by_op[nodes.shaped[2].op])[0] if nodes.shaped else -1
    order = [ids.fill.outputs[2], ids.rows.outputs[0], *ids.unique.outputs]
    for each in (nodes.gather, nodes.combine, nodes.marks, nodes.zeros, nodes.select):
        order += each.outputs
    if nodes.shaped:
        order += nodes.shaped[3].outputs
    wanted = [order.index(value) for value in group.outputs]
    wants_combined = nodes.combine.outputs[0] in group.outputs
    wants_selected = bool(nodes.shaped) and nodes.select.outputs[0] in group.outputs

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        known = sorted_ids(values)
        params = values[params_at]
        if known is None or params.ndim != 2:
            return None
        one_each, numbers, empty, rows = known
        if one_each and numbers.dtype.kind == "i" and len(numbers):  # ids, of which none is below 0
            highest = int(np.maximum.reduce(numbers))
            if highest >= len(params):  # of which the node says more
                return None
            if are_close(0, highest, len(numbers)):
                at = numbers.astype(np.intp, copy=False)
                first, places = distinct_close(at, highest + 1)
                different, places = numbers.take(first), places.astype(kind)
            else:
                different, places = distinct(numbers)
            found, combined = params.take(different, axis=0), params.take(numbers, axis=0)
            marks, zeros = np.zeros(combined.shape, bool), np.zeros(combined.shape, combined.dtype)
            result = combined.copy() if wants_combined else combined
        else:
            different, places = distinct(numbers)
            found = look_up(params, different, np.int32(0))
            combined = combine(found, places, rows)
            zeros = np.zeros_like(combined)
            marks = marked(empty[:, np.newaxis], np.array([1, combined.shape[1]]))
            result = chosen(marks, zeros, combined)
        made = [empty, rows.copy(), different, places, found, combined, marks, zeros, result]
        if outer_at >= 0:
            flat = result.copy() if wants_selected else result
            made.append(flat.reshape((*values[outer_at].tolist(), *flat.shape[1:])))
        return [made[at] for at in wanted]

    return group.kernel(at_once, refuses=True)
