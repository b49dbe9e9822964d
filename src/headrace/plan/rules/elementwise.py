"""Elementwise groups: nodes whose results only each other wants run together, a block of elements at a time.

Op by op, every intermediate of a large array goes out to memory and comes back; in a group it stays in the cache, in a
buffer that the next block uses again, and the blocks are shared by the task's threads.  A group ends in one node, which
may be the sum or mean of all elements.  Its kernels are those of the nodes, called with blocks, so every element has
the bits that it has op by op; sums are made of the same blocks (`ops.blocks`).  What is small, or broadcast in another
way than a scalar or along the first dimensions, runs op by op.
What only the group wants, and was made by a product or by arithmetic, is where its result is made: fresh memory is in
no cache, and of arrays of a megabyte it takes as long to find as the arithmetic.
A group may end in an assignment: then its result is made in the variable's own memory (`plan.rules.assignments`).
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from threading import get_ident
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.traits import ALIASES, ELEMENTWISE
from headrace.graph.const_value import folded
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import BLOCK, LARGE, over_blocks
from headrace.ops._kernels.scratch import scratch
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import NODE, SHAPES, Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_SUMS = frozenset(("Sum", "Mean"))
_FIRST_SLOT = 16  # of scratch memory; kernels number theirs from 0
_LEAST = 1 << 14  # elements of what is written over; of less new memory is as quick
_MIDDLING = 1 << 17  # elements from which several nodes are shared by threads, too
_SEVERAL = 3
_HALVES = 2  # blocks of these: at every call of a smaller one threads wait for the interpreter
_LONE = 4  # blocks at a time of what makes nothing in between


def _match(root: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The nodes before `root` that only it wants, or what only it wants; itself alone if it is surely large."""
    sums = root.op.type in _SUMS
    if not (_sums_all(root.op) if sums else is_elementwise(root.op)):
        return None
    members = wanted_by(root, facts, taken, is_elementwise)
    if len(members) == 1 and (sums or not is_surely_large(root.op)):
        return None
    own = [] if sums else _own(members, facts)
    return Match(members, partial(_build, own))


def _own(members: AbstractSet[Instr], facts: Facts) -> list[int]:
    """Values from outside that the group may write over, all of whose nodes write into arrays and refuse no floats."""
    if not all(_writes_floats(member.op) for member in members):
        return []
    found = []
    for value in dict.fromkeys(value for member in members for value in member.inputs):
        maker = facts.maker(value)
        if maker is None or maker in members or not _is_new(maker) or value in facts.results:
            continue
        # Who asks for its shape may do so before and after.
        if all(user in members or user.what == SHAPES for user in facts.uses(value)):
            found.append(value)
    return found


def _writes_floats(op: Operation) -> bool:
    if writes_into(op) is None:
        return False
    return all(tensor._dtype._base.np.kind == "f" for tensor in (*op.inputs, *op.outputs))


def _is_new(maker: Instr) -> bool:
    """Whether what it gives is an array that nobody else has."""
    if maker.body or maker.what != NODE or maker.controls:
        return False
    op = maker.op
    if any(tensor._dtype._is_ref_dtype for tensor in op.outputs) or ALIASES in op.traits:
        return False
    return op.type == "MatMul" or (works_by_elements(op) and _writes_floats(op))


def wanted_by(
    root: Instr, facts: Facts, taken: AbstractSet[Instr], joins: Callable[[Operation], bool]
) -> set[Instr]:
    """`root` and the nodes before it whose values only it wants, or others among them."""
    members = {root}
    frontier = [root]
    while frontier:
        for value in frontier.pop().inputs:
            maker = facts.maker(value)
            if maker is None or maker in members or maker in taken or value in facts.results:
                continue
            if maker.body or maker.what != NODE or maker.op in facts.awaited or not joins(maker.op):
                continue
            if facts.may_run_at(maker, root) and members.issuperset(facts.uses(value)):
                members.add(maker)
                frontier.append(maker)
    return members


def is_elementwise(op: Operation) -> bool:
    """Whether each element of the result, which may be many, is made of one of each input."""
    return len(op.outputs) == 1 and maybe_large(op.outputs[0]) and works_by_elements(op)


def works_by_elements(op: Operation) -> bool:
    """Whether each element of the only result is made of one of each input, of numbers."""
    spec = op.spec
    if len(op.outputs) != 1:
        return False
    if spec is None or not spec.foldable or spec.kernel is None or not op.inputs:
        return False
    if spec.bare is None and ELEMENTWISE not in spec.traits:
        return False
    if op.attrs.get("data_format", b"NHWC") != b"NHWC":
        return False
    return all(t._dtype._base.np.kind in "fiub" for t in (*op.inputs, *op.outputs))


def maybe_large(tensor: Tensor) -> bool:
    """Whether it may have so many elements that groups are cut into blocks, as far as is known."""
    raw = tensor._raw
    return raw is None or None in raw or math.prod(raw) >= min(_MIDDLING, LARGE)  # type: ignore[arg-type]


def is_surely_large(op: Operation) -> bool:
    """Whether it is known to have so many elements."""
    raw = op.outputs[0]._raw
    return raw is not None and None not in raw and math.prod(raw) >= LARGE  # type: ignore[arg-type]


def _sums_all(op: Operation) -> bool:
    value, axes = op.inputs
    kind = value._dtype._base.np
    if kind.kind != "f" or kind.itemsize < 4 or value._raw is None:
        return False
    known = folded(axes)
    rank = len(value._raw)
    return known is not None and {int(a) % rank if rank else 0 for a in known.reshape(-1)} == set(
        range(rank)
    )


# -- running ----------------------------------------------------------------------------------


class Step:
    """One node of a group: which values it takes and gives, by place."""

    __slots__ = ("dtype", "inputs", "kernel", "output", "slot", "ufunc")

    def __init__(
        self,
        kernel: Callable[..., Any],
        ufunc: Callable[..., Any] | None,
        inputs: list[int],
        output: int,
        dtype: np.dtype[Any],
    ) -> None:
        """ufunc: the same function, if it takes `out`."""
        self.kernel, self.ufunc = kernel, ufunc
        self.inputs, self.output = inputs, output
        self.dtype = dtype
        self.slot = -1  # of scratch memory


def steps_of(group: Group, members: Iterable[Instr]) -> list[Step]:
    """A step for each of these nodes of the group."""
    steps = []
    for member in members:
        op = member.op
        assert op.spec is not None
        kernel, dtype = bound_kernel(op, op.spec), op.outputs[0]._dtype._base.np
        place = group.places[member.outputs[0]]
        steps.append(Step(kernel, writes_into(op), group.inputs_of(member), place, dtype))
    return steps


def writes_into(op: Operation) -> Callable[..., Any] | None:
    """The function that takes `out`, if the kernel of this elementwise node is one."""
    spec = op.spec
    assert spec is not None
    if spec.into_fn is not None:
        return spec.into_fn
    function = getattr(np, spec.bare) if spec.bare is not None else None
    return function if isinstance(function, np.ufunc) and function.nout == 1 else None


def _allot(steps: Sequence[Step]) -> None:
    """Give intermediates their slots: one whose value nobody wants any more, of the same type, if there is one."""
    last = {place: number for number, step in enumerate(steps) for place in step.inputs}
    free: dict[Any, list[int]] = {}
    slots: dict[int, tuple[int, Any]] = {}
    count = 0
    for number, step in enumerate(steps):
        if step.ufunc is None or number == len(steps) - 1:
            continue
        for place in set(step.inputs):
            if last[place] == number and place in slots:
                slot, dtype = slots.pop(place)
                free.setdefault(dtype, []).append(slot)
        known = free.get(step.dtype)
        if known:
            step.slot = known.pop()
        else:
            step.slot, count = _FIRST_SLOT + count, count + 1
        slots[step.output] = (step.slot, step.dtype)


def _build(own: Sequence[int], group: Group) -> Kernel:
    """The kernel of a group that gives its result.  own: values that it may write over."""
    steps = steps_of(group, group.members)
    sums = group.root.type in _SUMS
    places = [group.places[value] for value in own]
    over = _overwritten(steps, places, group) if own else []
    blocked = Blocked(steps[:-1] if sums else steps, len(group.inputs), group)

    several = len(steps) >= _SEVERAL and blocked.writes
    least = min(_MIDDLING, LARGE) if several else LARGE

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        for value in values:
            if value.size >= least:
                found = blocked.result(values)
                return None if found is None else (found,)
        return None

    kernel = group.kernel(at_once, refuses=True)
    if not any(each >= 0 for each in over):
        return kernel
    calls = [
        _Call(
            step.ufunc or step.kernel, step.inputs, taken, step.dtype, member.op.type == "BiasAdd"
        )
        for step, taken, member in zip(steps, over, group.members, strict=True)
    ]

    first, *more = places

    def run(step: Any, *values: Any) -> Any:
        middling = _LEAST <= values[first].size < LARGE
        if middling and all(values[place].size < LARGE for place in more):
            found = _in_place(calls, [*values])
            if found is not None:
                return found
        return kernel(step, *values)

    return run


def _overwritten(steps: Sequence[Step], own: Sequence[int], group: Group) -> list[int]:
    """For each step the place of a value whose memory its result may take, since nobody wants it any more; -1: none."""
    last = {place: number for number, step in enumerate(steps) for place in step.inputs}
    kinds = {
        group.places[value]: group.values.tensor(value)._dtype._base.np for value in group.inputs
    }
    mine, found = {*own}, []
    for number, step in enumerate(steps):
        free = [at for at in step.inputs if at in mine and last[at] == number]
        found.append(next((at for at in free if kinds[at] == step.dtype), -1))
        kinds[step.output] = step.dtype
        mine.add(step.output)
    return found


class _Call(NamedTuple):
    """function: which takes `out`.  over: the place of what it may write over; -1: none.  bias: it is BiasAdd's."""

    function: Callable[..., Any]
    places: Sequence[int]
    over: int
    dtype: np.dtype[Any]
    bias: bool


def _in_place(calls: Sequence[_Call], values: list[Any]) -> Any:
    """The result of the last call; None, and nothing has changed, where the nodes have to say themselves what fits."""
    shapes = [value.shape for value in values]
    for call in calls:
        made = _shape_made(call, [shapes[place] for place in call.places])
        if made is None:
            return None
        shapes.append(made)
    for call, shape in zip(calls, shapes[len(values) :], strict=True):
        given = [values[place] for place in call.places]
        over = call.over
        fits = over >= 0 and shapes[over] == shape and _may_be_written(values[over])
        target = values[over] if fits else np.empty(shape, call.dtype)
        values.append(call.function(*given, out=target))
    return values[-1]


def _shape_made(call: _Call, given: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of the result; None where the function would raise, or the kernel would and the function not."""
    first = given[0]
    if all(each == first for each in given[1:]):
        return None if call.bias else first
    if isinstance(call.function, np.ufunc):
        try:
            return np.broadcast_shapes(*given)
        except ValueError:
            return None
    return first if call.bias and first[-1:] == given[1] else None


def _may_be_written(array: Any) -> bool:
    return bool(array.flags.c_contiguous and array.flags.writeable and array.base is None)


RULE: Final = Rule("elementwise", None, _match)


def _call(step: Step) -> tuple[Any, Any, int, int, Sequence[int]]:
    """(function that takes `out` or None, kernel, place of the first of one or two inputs, of the second, all)"""
    places = step.inputs
    few = 1 <= len(places) <= 2
    first, second = places[0] if few else -1, places[1] if len(places) == 2 else -1
    return step.ufunc, step.kernel, first, second, places


class Blocked:
    """Steps that run by blocks, the last of which gives the result."""

    def __init__(self, steps: Sequence[Step], outside: int, group: Group) -> None:
        """steps: those of `group`, without the sum at its end; outside: how many values come from outside."""
        _allot(steps)
        self._steps, self._outside = steps, outside
        self._calls = [_call(step) for step in steps]
        self._dtype = group.root.outputs[0]._dtype._base.np
        self._sums = group.root.type in _SUMS
        self._mean = group.root.type == "Mean"
        self._keeps = bool(self._sums and group.root.attrs["keep_dims"])
        self._axes = _only_axes(group, steps) if self._sums else -1
        self._lone = len(steps) == 1 and not self._sums  # nothing that the cache could keep
        self.writes = not self._sums and all(step.ufunc is not None for step in steps)
        """Whether an element depends on no block, and all is written into arrays."""

    def result(self, values: Sequence[Any]) -> Any:
        """The group's result; None where it has to run op by op.  Raises what a kernel does."""
        shape = max(values, key=lambda value: value.size).shape
        elements = [value for at, value in enumerate(values) if at != self._axes]
        row = row_of(elements, shape)
        if row is None or (self._sums and (row > 1 or all(map(_is_alike, elements)))):
            return None
        count = -(-math.prod(shape) // self._each(row, math.prod(shape)))
        out = np.empty(count if self._sums else shape, self._dtype)
        self.run(values, shape, row, out)
        return self._summed(out, shape) if self._sums else out

    def _each(self, row: int, size: int) -> int:
        """Elements of a block, of `size` in all."""
        if size < LARGE:
            return -(-size // (_HALVES * row)) * row
        return max((_LONE * BLOCK if self._lone else BLOCK) // row, 1) * row

    def run(self, values: Sequence[Any], shape: tuple[int, ...], row: int, out: Any) -> None:
        """Fill `out` with the result, which has this shape, or with the sums of its blocks.

        row: `row_of(values, shape)`.  Raises what a kernel does.
        """
        size = math.prod(shape)
        each = self._each(row, size)
        count = -(-size // each)
        values = [value[(0,) * value.ndim] if _is_alike(value) else value for value in values]
        moving = [value.shape == shape for value in values]
        # As rows, if there are such; blocks of what moves are cut from the first dimension.
        whole = (size,) if row == 1 else (size // row, row)
        flat = [
            value.reshape(whole) if moves else value.reshape(-1 if value.size > 1 else ())
            for value, moves in zip(values, moving, strict=True)
        ]
        height = each // row
        lengths = {height, whole[0] - (count - 1) * height}
        shapes = {length: self._shapes(flat, moving, (length, *whole[1:])) for length in lengths}
        into = out if self._sums else out.reshape(whole)

        rooms_of: dict[tuple[int, int], list[Any]] = {}  # by thread and length

        def one(number: int) -> None:
            part = slice(number * height, min((number + 1) * height, whole[0]))
            length = part.stop - part.start
            mine = get_ident(), length
            rooms = rooms_of.get(mine)
            if rooms is None:
                rooms = rooms_of[mine] = self._rooms(shapes[length])
            given = [value[part] if moves else value for value, moves in zip(flat, moving)]  # noqa: B905
            if self._sums:
                into[number] = np.add.reduce(self._block(given, rooms, None), axis=None)
                return
            target = into[part]
            made = self._block(given, rooms, target)
            if made is not target:
                target[...] = made

        over_blocks(count, one)

    def _shapes(
        self, flat: Sequence[Any], moving: Sequence[bool], block: tuple[int, ...]
    ) -> list[tuple[int, ...]]:
        """What each step makes of a block."""
        known = [block if moves else value.shape for value, moves in zip(flat, moving, strict=True)]
        for step in self._steps:
            given = [known[place] for place in step.inputs]
            known.append(block if block in given else np.broadcast_shapes(*given))
        return known[self._outside :]

    def _rooms(self, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        """Where each step writes its result: in this thread's scratch memory, if its kernel writes into arrays.

        None for the last step, unless what it makes is summed.
        """
        return [
            scratch(max(step.slot, _FIRST_SLOT - 1), shape, step.dtype)
            if step.ufunc is not None and (step.slot >= 0 or self._sums)
            else None
            for step, shape in zip(self._steps, shapes, strict=True)
        ]

    def _block(self, values: list[Any], rooms: Sequence[Any], target: Any) -> Any:
        """The chain's result for a block, in `target` if its last kernel writes into arrays."""
        for (function, kernel, first, second, inputs), room in zip(self._calls, rooms):  # noqa: B905
            into = target if room is None else room
            if function is None or into is None:
                values.append(kernel(*[values[place] for place in inputs]))
            elif second >= 0:
                values.append(function(values[first], values[second], out=into))
            elif first >= 0:
                values.append(function(values[first], out=into))
            else:
                values.append(function(*[values[place] for place in inputs], out=into))
        return values[-1]

    def _summed(self, sums: Any, shape: tuple[int, ...]) -> Any:
        found = np.add.reduce(sums)
        if self._mean:
            found = np.divide(found, math.prod(shape)).astype(found.dtype)
        return found.reshape((1,) * len(shape)) if self._keeps else found


def _only_axes(group: Group, steps: Sequence[Step]) -> int:
    """The place of what comes from outside and says along which axes the sum at the end goes, which are all; or -1."""
    axes = group.inputs_of(group.members[-1])[1]
    outside = axes < len(group.inputs) and not any(axes in step.inputs for step in steps)
    return axes if outside else -1


def _is_alike(value: Any) -> bool:
    """Whether all elements are one in memory."""
    return value.size == 1 or not any(value.strides)


def row_of(values: Sequence[Any], shape: tuple[int, ...]) -> int | None:
    """1 if all values have `shape` or are scalars; the size of those that have its last dimensions; None for others.

    What has `shape` lies in one piece, or has one element in memory for all.
    """
    row = 1
    for value in values:
        if value.shape == shape:
            if not value.flags.c_contiguous and not _is_alike(value):
                return None
        elif value.size != 1:
            rank = value.ndim
            if not rank or value.shape != shape[len(shape) - rank :] or row not in (1, value.size):
                return None
            if not value.flags.c_contiguous:
                return None
            row = value.size
        elif value.ndim > len(shape):
            return None
    return row
