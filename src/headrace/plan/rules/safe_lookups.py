"""Safe lookups: the rows of an embedding for categories that may be missing, in one instruction.

`safe_embedding_lookup_sparse` sorts out the ids (`plan.rules.embedding_ids`), looks each different one up once,
combines the rows of each example, puts zeros where there was no id, and gives the result the dimensions of the ids: two
dozen nodes for each column of categories.  Where every example has one id that counts, and all are rows of the table,
that is two gathers; where not, the nodes' kernels run one after the other.
The group stands where ids get their defaults, so all that it takes has to be there by then.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

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
    ids, place = nodes.ids, nodes.ids.fill
    members = nodes.all
    made = {value for member in members for value in member.outputs}
    for member in members:
        if member is nodes.gather:
            if not _may_read_at(member, place, facts):
                return None
        elif not facts.values.changing.isdisjoint(member.inputs):
            return None
        if not all(value in made or _is_there(value, place, facts) for value in member.inputs):
            return None
    given = {ids.fill.outputs[2], ids.rows.outputs[0], *ids.unique.outputs}
    for each in (nodes.gather, nodes.combine, nodes.zeros, nodes.marks, select, *nodes.shaped[3:]):
        given.update(each.outputs)
    kept = kept_of(members, given, facts)
    return None if kept is None else Match(members, partial(_build, nodes), kept, place)


RULE: Final = Rule("safe-lookups", ("Select", "SelectV2"), _match)


def _is_there(value: int, place: Instr, facts: Facts) -> bool:
    """Whether it is made before an instruction."""
    maker = facts.maker(value)
    return maker is None or facts.place[maker] < facts.place[place]


def _may_read_at(member: Instr, place: Instr, facts: Facts) -> bool:
    """Whether what a node reads is the same at an instruction before it."""
    apart = facts.writers[facts.place[member]] != facts.writers[facts.place[place]]
    return not (apart or place.effects) or facts.values.changing.isdisjoint(member.inputs)


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
        shaped = self._shaped(select, ids.fill)
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

    def _shaped(self, select: Instr, place: Instr) -> tuple[Instr, ...]:
        """The nodes that give it other first dimensions, if those are known by then; else none."""
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
            if alone and self.may_join(reshape) and _is_there(both.inputs[0], place, self._facts):
                return (*inside, reshape)
        return ()


# -- running ----------------------------------------------------------------------------------


def _build(nodes: _Nodes, group: Group) -> Kernel:
    by_op = {member.op: member for member in group.members}
    ids = nodes.ids
    sorted_ids, distinct = sorting(ids, group), kernel_of(ids.unique)
    params_at = group.inputs_of(by_op[nodes.gather.op])[0]
    combine, marked, chosen = (kernel_of(n) for n in (nodes.combine, nodes.marks, nodes.select))
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
        different, places = distinct(numbers)
        if len(different) and different.min() < 0:  # a default that is no row
            return None
        try:
            found = params.take(different, axis=0)
        except IndexError:  # of which the node says more
            return None
        if one_each:
            combined = params.take(numbers, axis=0)
            marks, zeros = np.zeros(combined.shape, bool), np.zeros(combined.shape, combined.dtype)
            result = combined.copy() if wants_combined else combined
        else:
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
