"""Ids of embeddings: what is done to them before rows are looked up is done in one instruction.

`safe_embedding_lookup_sparse` drops ids below 0, gives rows that have none a default, and names each id once.  That is
nine nodes for each column of categories, all of short vectors, and where every example has one id that counts, as it
nearly always is, few of them change anything.
Where all of the lookup is as that function makes it, it is in one group with them (`plan.rules.safe_lookups`).
Called by: plan.passes, plan.rules.safe_lookups.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.ops._kernels.sparse_keys import is_counting
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_FIRST_COLUMN = [1, 1, 0, 0, 2]  # those of [:, 0]

Sorted = tuple[bool, Any, Any, Any]
"""(whether each row has one id, the ids, which rows had none, the row of each id)"""


class IdNodes(NamedTuple):
    """What a group is made of: indices and values are gathers of those whose id is 0 or more.

    sizes: what makes of the shape of a matrix the same again, [product of all sizes but the last, the last].
    """

    test: Instr
    where: Instr
    flat: Instr
    indices: Instr
    values: Instr
    fill: Instr
    rows: Instr
    unique: Instr
    reshape: Instr | None
    sizes: tuple[Instr, ...]

    @property
    def all(self) -> list[Instr]:
        """Each of them."""
        return [*self[:8], *self.sizes, *([] if self.reshape is None else [self.reshape])]


def _match(unique: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The ids that are made different, and all that is done to them before."""
    nodes = IdSearch(facts, taken).nodes(unique)
    if nodes is None:
        return None
    members = nodes.all
    if any(not facts.values.changing.isdisjoint(member.inputs) for member in members):
        return None
    given = {nodes.fill.outputs[2], nodes.rows.outputs[0], *unique.outputs}
    kept = kept_of(members, given, facts)
    if kept is None:
        return None
    # What comes after `fill` takes nothing else.
    return Match(members, partial(_build, nodes), kept, nodes.fill)


RULE: Final = Rule("embedding-ids", ("Unique",), _match)


def kept_of(members: Sequence[Instr], given: AbstractSet[int], facts: Facts) -> list[int] | None:
    """What others want of these nodes; None if that is more than what can be given."""
    kept = []
    for member in members:
        for value in member.outputs:
            if value in facts.results or not all(user in members for user in facts.users(value)):
                if value not in given:
                    return None
                kept.append(value)
    return kept


class IdSearch:
    """Finds the nodes of a safe lookup that may join a group."""

    def __init__(self, facts: Facts, taken: AbstractSet[Instr]) -> None:
        self._facts, self._taken = facts, taken

    def nodes(self, unique: Instr) -> IdNodes | None:
        """The nodes before `unique`, if they are those of a safe lookup."""
        fill = self.maker(unique.inputs[0], "SparseFillEmptyRows")
        if not self.may_join(unique) or fill is None or fill.outputs[1] != unique.inputs[0]:
            return None
        indices = self.gather(fill.inputs[0])
        values = self.gather(fill.inputs[1])
        if indices is None or values is None or indices.inputs[1] != values.inputs[1]:
            return None
        flat = self.maker(values.inputs[1], "Reshape")
        where = None if flat is None else self.maker(flat.inputs[0], "Where")
        test = None if where is None else self.maker(where.inputs[0], "GreaterEqual")
        rows = self._rows(fill.outputs[0])
        if flat is None or where is None or test is None or rows is None:
            return None
        if test.inputs[0] != values.inputs[0] or self.known(test.inputs[1]) != 0:
            return None
        reshape = self.maker(indices.inputs[0], "SparseReshape")
        if reshape is not None and not self._only_between(reshape, indices, fill):
            reshape = None
        sizes = () if reshape is None else self._sizes(reshape)
        return IdNodes(test, where, flat, indices, values, fill, rows, unique, reshape, sizes)

    def maker(self, value: int, *kinds: str) -> Instr | None:
        """The node of such a type that gives it, if it may join."""
        found = self._facts.maker(value)
        if found is None or found.op.type not in kinds or not self.may_join(found):
            return None
        return found

    def may_join(self, instr: Instr) -> bool:
        """Whether it is a node that nobody waits for, and that is in no group."""
        if instr.what != NODE or instr.body or instr.controls or instr in self._taken:
            return False
        return instr.op not in self._facts.awaited

    def known(self, value: int) -> Any:
        """A constant, as numbers and lists; None if it is none."""
        found = self._facts.values.constants.get(value)
        return None if found is None else found.tolist()

    def gather(self, value: int) -> Instr | None:
        """The gather of rows that gives it."""
        found = self.maker(value, "GatherV2")
        if found is None or found.op.attrs["batch_dims"] or self.known(found.inputs[2]) != 0:
            return None
        return found

    def _rows(self, value: int) -> Instr | None:
        """The only user of indices: it takes the first column."""
        users = self._facts.users(value)
        if len(users) != 1 or users[0].op.type != "StridedSlice" or not self.may_join(users[0]):
            return None
        (found,) = users
        begin, strides = self.known(found.inputs[1]), self.known(found.inputs[3])
        if (
            begin is None
            or strides is None
            or [found.op.attrs[mask] for mask in _MASKS] != _FIRST_COLUMN
        ):
            return None
        return (
            found if len(begin) == len(strides) == 2 and begin[1] == 0 and strides[0] == 1 else None
        )

    def _sizes(self, reshape: Instr) -> tuple[Instr, ...]:
        """The nodes that make the new shape, if they are for matrices and for nobody else; else none."""
        shape, new = reshape.inputs[1:]
        pack = self.maker(new, "Pack")
        if pack is None or len(pack.inputs) != 2:
            return ()
        product, last = self.maker(pack.inputs[0], "Prod"), self.maker(pack.inputs[1], "GatherV2")
        first = None if product is None else self.maker(product.inputs[0], "Slice")
        if product is None or last is None or first is None:
            return ()
        known = (*first.inputs[1:], product.inputs[1], *last.inputs[1:])
        if [self.known(value) for value in known] != [[0], [1], [0], 1, 0]:
            return ()
        if not first.inputs[0] == last.inputs[0] == shape or product.op.attrs["keep_dims"]:
            return ()
        found = (first, product, last, pack)
        alone = all(self._facts.is_for_one(value) for each in found for value in each.outputs)
        return found if alone else ()

    def _only_between(self, reshape: Instr, indices: Instr, fill: Instr) -> bool:
        """Whether nobody else wants what it gives."""
        results = self._facts.results
        users = [self._facts.users(value) for value in reshape.outputs]
        return (
            reshape.outputs == (indices.inputs[0], fill.inputs[2])
            and users == [[indices], [fill]]
            and results.isdisjoint(reshape.outputs)
        )


def _build(nodes: IdNodes, group: Group) -> Kernel:
    sorted_ids, distinct = sorting(nodes, group), kernel_of(nodes.unique)
    order = [nodes.fill.outputs[2], nodes.rows.outputs[0], *nodes.unique.outputs]
    wanted = [order.index(value) for value in group.outputs]

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        known = sorted_ids(values)
        if known is None:
            return None
        _, ids, empty, rows = known
        found = (empty, rows.copy(), *distinct(ids))
        return [found[at] for at in wanted]

    return group.kernel(at_once, refuses=True)


def sorting(nodes: IdNodes, group: Group) -> Callable[[Sequence[Any]], Sorted | None]:
    """A function of the group's inputs; None where the nodes have to run one by one, and fails where one may."""
    by_op = {member.op: member for member in group.members}
    fill, reshape = by_op[nodes.fill.op], nodes.reshape
    same_shape = bool(nodes.sizes)
    (ids_at, _) = group.inputs_of(by_op[nodes.test.op])
    default_at = group.inputs_of(fill)[3]
    new_shape_at = -1
    if reshape is not None:
        taken = group.inputs_of(by_op[reshape.op])
        indices_at, shape_at = taken[:2]
        new_shape_at = -1 if same_shape else taken[2]
        reshaped = kernel_of(reshape)
    else:
        indices_at = group.inputs_of(by_op[nodes.indices.op])[0]
        shape_at = group.inputs_of(fill)[2]
    filled = kernel_of(fill)

    def found(values: Sequence[Any]) -> Sorted | None:
        indices, sizes, ids = values[indices_at], values[shape_at], values[ids_at]
        if indices.ndim != 2 or ids.shape != indices.shape[:1] or sizes.shape != indices.shape[1:]:
            return None
        if same_shape:
            height, width = sizes.tolist()
            if height < 0 or width < 0 or height * width >= 1 << 63:
                return None
        elif reshape is not None:
            indices, sizes = reshaped(indices, sizes, values[new_shape_at])
        if len(ids) and np.minimum.reduce(ids) < 0:
            good = ids >= 0
            indices, ids = indices[good], ids[good]
        rows = indices[:, 0]
        if is_counting(rows, int(sizes[0])):  # each has one, as the node would find, too
            return True, ids, np.zeros(len(rows), bool), rows
        indices, ids, empty, _ = filled(indices, ids, sizes, values[default_at])
        return False, ids, empty, indices[:, 0]

    return found


def kernel_of(member: Instr) -> Any:
    """The kernel of a node, bound to its attrs."""
    assert member.op.spec is not None
    return bound_kernel(member.op, member.op.spec)
