"""Fuse: elementwise nodes whose results only each other wants run together, a block of elements at a time.

Op by op, every intermediate of a large array goes out to memory and comes back; in a group it stays in the cache, in a
buffer that the next block uses again, and the blocks are shared by the task's threads.  A group ends in one node, which
may be the sum or mean of all elements.  Its kernels are those of the nodes, called with blocks, so every element has
the bits that it has op by op; sums are made of the same blocks (`ops._kernels.blocks`).  What is small, or broadcast in
another way than a scalar or along the first dimensions, runs op by op. A group may end in an assignment: then its
result is made in the variable's own memory (`plan.assigned`). Not for traced steps, which list every node.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from threading import get_ident
from typing import Any

import numpy as np

from headrace.base.traits import ELEMENTWISE, HANDLE, STATEFUL
from headrace.graph.const_value import folded
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import BLOCK, LARGE, over_blocks
from headrace.ops._kernels.scratch import scratch
from headrace.ops.state.references import ASSIGNS
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.plan.op_by_op import op_by_op
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.program import Instruction, Registers

_SUMS = frozenset(("Sum", "Mean"))
_FIRST_SLOT = 16  # of scratch memory; kernels number theirs from 0
_LONE = 4  # blocks at a time of what makes nothing in between


class Group:
    """Nodes that run as one instruction; `ops` in order, the last one gives the result.

    inputs: values that come from outside; target: the reference that the last node assigns to, if it does.
    """

    def __init__(self, ops: Sequence[Operation], same: Mapping[Tensor, Tensor]) -> None:
        made = {op.outputs[0] for op in ops}
        self.ops = ops
        self.root = ops[-1]
        self.target: Tensor | None = None
        self.wiring = [[same.get(t, t) for t in op.inputs] for op in ops]
        if self.root.type in ASSIGNS:
            self.target = self.wiring[-1].pop(0)
        outside = [t for op_inputs in self.wiring for t in op_inputs if t not in made]
        self.inputs = list(dict.fromkeys(outside))
        self.sums = self.root.type in _SUMS


def groups(
    ops: Sequence[Operation], controls: Mapping[Operation, Sequence[Operation]], fed: set[Tensor],
    returned: Iterable[Tensor], same: Mapping[Tensor, Tensor], changing: AbstractSet[Tensor],
    apart: AbstractSet[Operation],
) -> list[Group]:  # fmt: skip
    """The groups among `ops`, which have inputs first.  same: which tensors are others, made before.

    changing: references, and what may alias a variable; a node that reads them joins a group only if nothing that
    may change a variable stands between it and the group's last node, where the group runs.  apart: nodes that
    stay out.
    """
    if not any(op.type in ASSIGNS or is_elementwise(op) for op in ops):
        return []
    users: dict[Tensor, list[Operation]] = {}
    for op in ops:
        for tensor in op.inputs:
            users.setdefault(same.get(tensor, tensor), []).append(op)
    kept = {control for found in controls.values() for control in found}
    kept |= {same.get(tensor, tensor).op for tensor in returned}
    kept |= {tensor.op for tensor in same.values()} | {tensor.op for tensor in same}
    fits = {
        op for op in ops
        if op not in apart and op.outputs and op.outputs[0] not in fed and op.outputs[0] not in same
        and is_elementwise(op)
    }  # fmt: skip
    writers = 0
    writers_before: dict[Operation, int] = {}
    for op in ops:
        writers_before[op] = writers
        writers += may_write(op)
    found: list[Group] = []
    taken: set[Operation] = set()
    for root in reversed(ops):
        assigns = _assigns(root, fed, same)
        if root in taken or not (root in fits or assigns or _sums_all(root, fed, same)):
            continue
        members = {root}
        frontier = [root]
        while frontier:
            for tensor in frontier.pop().inputs:
                maker = same.get(tensor, tensor).op
                if maker not in fits or maker in kept or maker in members or maker in taken:
                    continue
                if assigns and not _never_refuses(maker):
                    continue
                if (
                    writers_before[maker] != writers_before[root]
                    and not changing.isdisjoint(maker.inputs)
                ):  # fmt: skip
                    continue
                if all(user in members for user in users[maker.outputs[0]]):
                    members.add(maker)
                    frontier.append(maker)
        if len(members) > 1 or ((root in fits or assigns) and _surely_large(root)):
            taken |= members
            found.append(Group([op for op in ops if op in members], same))
    return found


def alike(
    ops: Iterable[Operation], group_of: Mapping[Operation, Any], returned: Iterable[Tensor],
    same: Mapping[Tensor, Tensor],
) -> set[Operation]:  # fmt: skip
    """Nodes that give equal elements, which only groups look at: one in memory will do for those."""
    found = {op for op in ops if op.spec is not None and op.spec.alike_fn is not None}
    if found:
        looked_at = set(returned)
        for op in ops:
            if not isinstance(group_of.get(op), Group):
                looked_at.update(op.inputs)
        found -= {same.get(tensor, tensor).op for tensor in looked_at}
    return found


def is_elementwise(op: Operation) -> bool:
    """Whether each element of the result, which may be many, is made of one of each input."""
    spec = op.spec
    if spec is None or not spec.foldable or spec.kernel is None or not op.inputs:
        return False
    if spec.bare is None and ELEMENTWISE not in spec.traits:
        return False
    if op.attrs.get("data_format", b"NHWC") != b"NHWC":
        return False
    numbers = all(t._dtype._base.np.kind in "fiub" for t in (*op.inputs, *op.outputs))
    return numbers and len(op.outputs) == 1 and _maybe_large(op.outputs[0])


def may_write(op: Operation) -> bool:
    """Whether the node may change a variable, or lets others do so meanwhile; one that only names it does not."""
    spec = op.spec
    if HANDLE in op.traits and not op.inputs:
        return False
    return (
        spec is None
        or STATEFUL in spec.traits
        or any(definition.is_ref for definition in spec.inputs)
    )


def _assigns(op: Operation, fed: set[Tensor], same: Mapping[Tensor, Tensor]) -> bool:
    """Whether the node changes all of a variable of numbers, which may be large."""
    if op.type not in ASSIGNS or op.outputs[0] in fed or op.outputs[0] in same:
        return False
    return op.outputs[0]._dtype._base.np.kind in "fiub" and _maybe_large(op.outputs[0])


def _never_refuses(op: Operation) -> bool:
    """Whether the kernel takes any floats: one that refused some would leave a variable changed in part."""
    floats = all(t._dtype._base.np.kind == "f" for t in (*op.inputs, *op.outputs))
    return floats and writes_into(op) is not None


def _maybe_large(tensor: Tensor) -> bool:
    raw = tensor._raw
    return raw is None or None in raw or math.prod(raw) >= LARGE  # type: ignore[arg-type]


def _surely_large(op: Operation) -> bool:
    raw = op.outputs[0]._raw
    return raw is not None and None not in raw and math.prod(raw) >= LARGE  # type: ignore[arg-type]


def _sums_all(op: Operation, fed: set[Tensor], same: Mapping[Tensor, Tensor]) -> bool:
    if op.type not in _SUMS or op.outputs[0] in fed or op.outputs[0] in same:
        return False
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
        self, kernel: Callable[..., Any], ufunc: Callable[..., Any] | None, inputs: list[int],
        output: int, dtype: np.dtype[Any],
    ) -> None:  # fmt: skip
        """ufunc: the same function, if it takes `out`."""
        self.kernel, self.ufunc = kernel, ufunc
        self.inputs, self.output = inputs, output
        self.dtype = dtype
        self.slot = -1  # of scratch memory


def steps_of(
    ops: Iterable[Operation], wiring: Iterable[Sequence[Tensor]], places: dict[Tensor, int]
) -> list[Step]:
    """A step for each node; their places follow those of `places`, to which they are added."""
    steps = []
    for op, inputs in zip(ops, wiring, strict=True):
        assert op.spec is not None
        out = op.outputs[0]
        given = [places[tensor] for tensor in inputs]
        places[out] = len(places)
        kernel = bound_kernel(op, op.spec, np)
        steps.append(Step(kernel, writes_into(op), given, places[out], out._dtype._base.np))
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


def instruction(
    group: Group, registers: Sequence[int], out: int, nodes: Sequence[NodeInfo]
) -> Instruction:
    """registers[out] = the group's result.  registers: of the group's inputs."""
    places = {tensor: place for place, tensor in enumerate(group.inputs)}
    steps = steps_of(group.ops, group.wiring, places)
    blocked = Blocked(steps[:-1] if group.sums else steps, len(group.inputs), group)
    confirm = None
    if check.enabled:
        confirm = check.checked_kernel(lambda value: value, group.root, True)
    work = [(op, step.kernel, step.inputs) for op, step in zip(group.ops, steps, strict=True)]
    plain = op_by_op(work, nodes)

    def run(r: Registers) -> None:
        values = [r[register] for register in registers]
        for value in values:
            if value.size >= LARGE:
                found = blocked.result(values)
                if found is None:
                    break
                r[out] = found if confirm is None else confirm(found)
                return
        plain(values, r[0])
        r[out] = values[-1]

    return run


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
        self._sums = group.sums
        self._mean = group.root.type == "Mean"
        self._keeps = bool(group.sums and group.root.attrs["keep_dims"])
        self._lone = len(steps) == 1 and not group.sums  # nothing that the cache could keep

    def result(self, values: Sequence[Any]) -> Any:
        """The group's result; None where it has to run op by op."""
        shape = max(values, key=lambda value: value.size).shape
        row = row_of(values, shape)
        if row is None or (self._sums and (row > 1 or all(map(_is_alike, values)))):
            return None
        count = -(-math.prod(shape) // self._each(row))
        out = np.empty(count if self._sums else shape, self._dtype)
        try:
            self.run(values, shape, row, out)
        except Exception:  # a kernel that refuses says so of whole arrays, op by op
            return None
        return self._summed(out, shape) if self._sums else out

    def _each(self, row: int) -> int:
        """Elements of a block."""
        return max((_LONE * BLOCK if self._lone else BLOCK) // row, 1) * row

    def run(self, values: Sequence[Any], shape: tuple[int, ...], row: int, out: Any) -> None:
        """Fill `out` with the result, which has this shape, or with the sums of its blocks.

        row: `row_of(values, shape)`.  Raises what a kernel does.
        """
        size = math.prod(shape)
        each = self._each(row)
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
