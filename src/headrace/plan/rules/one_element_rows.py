"""Categories of examples, of which nearly every one has one: what is done to a matrix of them is one instruction.

| rule | nodes |
|---|---|
| sparse-inputs | a matrix as a sparse tensor without the elements that are to be ignored: NotEqual, Where, GatherNd |
| indicators | a sparse tensor of numbers as how often each is in a row: SparseToDense, OneHot, Sum |

Where each row has its one element nothing is searched for, and rows of one element are neither filled up nor added up.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final

import numpy as np

from headrace.plan.binding import bound_kernel
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_MOST_PLACES: Final = 1 << 14  # elements of matrices whose places are remembered


def _maker(value: int, kind: str, facts: Facts, taken: AbstractSet[Instr]) -> Instr | None:
    """The node of that type that gives it, if it may join a group."""
    found = facts.maker(value)
    if found is None or found.op.type != kind or not _may_join(found, facts, taken):
        return None
    return found


def _may_join(instr: Instr, facts: Facts, taken: AbstractSet[Instr]) -> bool:
    if instr.what != NODE or instr.body or instr.controls or instr in taken:
        return False
    return instr.op not in facts.awaited and facts.values.changing.isdisjoint(instr.inputs)


# -- matrices as sparse tensors ---------------------------------------------------------------


def _match_input(gather: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The elements of a matrix at the places where it is not what is to be ignored."""
    where = _maker(gather.inputs[1], "Where", facts, taken)
    test = None if where is None else _maker(where.inputs[0], "NotEqual", facts, taken)
    if where is None or test is None or not _may_join(gather, facts, taken):
        return None
    if test.inputs[0] != gather.inputs[0] or not facts.is_for_one(test.outputs[0]):
        return None
    (places,) = where.outputs
    others = places in facts.results or any(user is not gather for user in facts.users(places))
    return Match((test, where, gather), _build_input, [places] if others else (), test)


SPARSE_INPUTS: Final = Rule("sparse-inputs", ("GatherNd",), _match_input)


def _build_input(group: Group) -> Kernel:
    by_type = {member.op.type: member for member in group.members}
    matrix_at, ignored_at = group.inputs_of(by_type["NotEqual"])
    test = by_type["NotEqual"].op
    assert test.spec is not None
    differ = bound_kernel(test, test.spec)
    order = [*by_type["GatherNd"].outputs, *by_type["Where"].outputs]
    wanted = [order.index(value) for value in group.outputs]

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        matrix, ignored = values[matrix_at], values[ignored_at]
        if matrix.ndim != 2 or np.ndim(ignored):
            return None
        there = None
        if matrix.dtype != object or np.asarray(ignored).item() in matrix.ravel().tolist():
            there = differ(matrix, ignored)
        if matrix.size <= _MOST_PLACES and (there is None or there.all()):
            found = matrix.flatten(), _places(matrix.shape).copy()
        else:
            there = differ(matrix, ignored) if there is None else there
            found = matrix[there], np.argwhere(there)
        return [found[at] for at in wanted]

    return group.kernel(at_once, refuses=True)


@lru_cache(maxsize=32)
def _places(shape: tuple[int, int]) -> Any:
    """Of all elements of a matrix, row by row."""
    return np.argwhere(np.ones(shape, bool))


@lru_cache(maxsize=32)
def _bytes_of_places(height: int) -> bytes:
    """Those of a matrix with one column, as they lie in memory."""
    found: bytes = _places((height, 1)).tobytes()
    return found


# -- indicators -------------------------------------------------------------------------------


def _match_indicator(total: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The sums of vectors that are 1 at one place each, of each row."""
    hot = _maker(total.inputs[0], "OneHot", facts, taken)
    dense = None if hot is None else _maker(hot.inputs[0], "SparseToDense", facts, taken)
    if hot is None or dense is None or not _may_join(total, facts, taken):
        return None
    axes = facts.values.constants.get(total.inputs[1])
    if axes is None or axes.tolist() not in ([-2], [1], -2, 1) or total.op.attrs["keep_dims"]:
        return None
    if hot.op.attrs["axis"] != -1:
        return None
    if not facts.is_for_one(hot.outputs[0]) or not facts.is_for_one(dense.outputs[0]):
        return None
    return Match((dense, hot, total), _build_indicator)


INDICATORS: Final = Rule("indicators", ("Sum",), _match_indicator)


def _build_indicator(group: Group) -> Kernel:
    by_type = {member.op.type: member for member in group.members}
    indices_at, shape_at, numbers_at, _ = group.inputs_of(by_type["SparseToDense"])
    _, depth_at, on_at, off_at = group.inputs_of(by_type["OneHot"])

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        indices, shape, numbers = values[indices_at], values[shape_at], values[numbers_at]
        if indices.ndim != 2 or shape.shape != (2,) or numbers.shape != indices.shape[:1]:
            return None
        height, width = shape.tolist()
        if width != 1 or height > _MOST_PLACES or indices.shape != (height, 2):
            return None
        if indices.tobytes() != _bytes_of_places(height):
            return None
        depth, on, off = values[depth_at], values[on_at], values[off_at]
        if np.ndim(depth) or np.ndim(on) or np.ndim(off) or depth < 0 or on.dtype.kind not in "fiu":
            return None
        found = np.empty((height, int(depth)), on.dtype)
        found[...] = off + on.dtype.type(0)  # as a sum begins with 0
        on = on + on.dtype.type(0)
        if height and numbers.min() >= 0 and numbers.max() < depth:
            found[_places((height, 1))[:, 0], numbers] = on
        else:
            (there,) = np.nonzero((numbers >= 0) & (numbers < depth))
            found[there, numbers[there]] = on
        return (found,)

    return group.kernel(at_once, refuses=True)
