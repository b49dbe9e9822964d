"""Convolutions: what follows one is done with a few images at a time, as soon as these are convolved.

`plan.rules.convolution_gradients` has the way back.

A convolution, what is done with each element of its result (a bias, an activation) and the max pooling of that run as
one instruction: a few images are convolved, changed where they lie and pooled, while they are in the cache.  Op by op
each of those results goes out to memory and comes back.  Parts are those of the convolution, and the kernels those of
the nodes, so every element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.graph.graph import Operation
from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.convolving import convolved
from headrace.ops._kernels.windows import geometry
from headrace.ops.nn.pooling import largest, pool_windows
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.elementwise import is_elementwise, writes_into
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

Array = np.ndarray[Any, Any]
Change = tuple[Callable[..., Any], list[int | None]]
"""What writes into arrays, and which of the group's inputs it takes; None: the elements at hand."""
_KINDS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def may_join(instr: Instr, taken: AbstractSet[Instr]) -> bool:
    """Whether it may be in a group of images: of floats, channels last."""
    return (
        not instr.body
        and instr not in taken
        and bool(instr.op.outputs)
        and instr.op.outputs[0]._dtype._base.np in _KINDS
        and instr.op.attrs.get("data_format", b"NHWC") == b"NHWC"
    )


def may_wait(value: int, root: Instr, facts: Facts) -> bool:
    """Whether `value` is wanted by nobody before `root`."""
    return all(facts.place[user] >= facts.place[root] for user in facts.users(value))


def match_of(
    members: Sequence[Instr], kept: Sequence[int], facts: Facts, build: Callable[[Group], Kernel]
) -> Match | None:
    """None if something that may change what a member reads stands between it and the last one, where all run."""
    root = max(members, key=facts.place.__getitem__)
    if not all(facts.may_run_at(member, root) for member in members):
        return None
    return Match(members, build, kept)


def _match(convolution: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The convolution, what follows it as long as nobody else wants that, and a pooling."""
    if not may_join(convolution, taken):
        return None
    members = [convolution]
    while True:
        value = members[-1].outputs[0]
        users = facts.users(value)
        if len(users) != 1 or value in facts.results:
            break
        if not continues(users[0], value, facts, taken):
            break
        members.append(users[0])
    for user in users:
        if user.op.type == "MaxPool" and may_join(user, taken) and may_wait(value, user, facts):
            wanted = len(users) > 1 or value in facts.results
            return match_of([*members, user], [value] if wanted else [], facts, _build)
    return match_of(members, [], facts, _build) if len(members) > 1 else None


def continues(
    instr: Instr,
    value: int,
    facts: Facts,
    taken: AbstractSet[Instr],
    beside: Sequence[int] = (0, 1),
    joins: Callable[[Operation], bool] = is_elementwise,
) -> bool:
    """Whether it makes of each element of `value` and at most one thing beside it one of the same type.

    beside: how many dimensions that may have, if it is known.  joins: which nodes do so.
    """
    op = instr.op
    if not may_join(instr, taken) or not joins(op) or writes_into(op) is None:
        return False
    kinds = {tensor._dtype._base for tensor in (*op.inputs, op.outputs[0])}
    if instr.inputs.count(value) != 1 or len(instr.inputs) > 2 or len(kinds) != 1:
        return False
    others = [facts.values.tensor(other)._raw for other in instr.inputs if other != value]
    return all(raw is None or len(raw) in beside for raw in others)


def _build(group: Group) -> Kernel:
    return group.kernel(_Together(group).results, refuses=True)


RULE: Final = Rule("convolution", ("Conv2D",), _match)


# -- running ----------------------------------------------------------------------------------------------------------


class _Together:
    """A group run a few images at a time."""

    def __init__(self, group: Group) -> None:
        inputs = {value: place for place, value in enumerate(group.inputs)}
        first, *others = group.members
        attrs = first.op.attrs
        self._convolve = (
            attrs["strides"],
            attrs["padding"],
            b"NHWC",
            attrs["dilations"],
            attrs["explicit_paddings"],
        )
        self._x, self._filters = group.inputs_of(first)
        self._pool = group.root.attrs.copy() if group.root.type == "MaxPool" else None
        self._steps: list[Change] = []
        for member in others[:-1] if self._pool is not None else others:
            function = writes_into(member.op)
            assert function is not None
            self._steps.append((function, [inputs.get(value) for value in member.inputs]))
        self._keeps = len(group.outputs) > 1

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, or None where it has to run op by op."""
        x, filters = values[self._x], values[self._filters]
        if x.ndim != 4 or filters.ndim != 4 or not filters.size or x.shape[-1] != filters.shape[2]:
            return None
        made = filters.shape[-1]
        if math.prod(x.shape[:-1]) * made < LARGE:
            return None
        for _, inputs in self._steps:
            if any(at is not None and values[at].shape not in ((), (made,)) for at in inputs):
                return None
        return self._found(x, filters, values)

    def _found(self, x: Array, filters: Array, values: Sequence[Any]) -> list[Any]:
        pool, steps = self._pool, self._steps
        if pool is None:
            then = lambda images, part: _change(part, steps, values)  # noqa: E731
            return [convolved(x, filters, *self._convolve, then=then)]
        size = geometry(x.shape[1:3], filters.shape[:2], *self._convolve).out
        where = pool_windows(
            size,
            pool["ksize"],
            pool["strides"],
            pool["padding"],
            b"NHWC",
            pool["explicit_paddings"],
        )
        pooled = np.empty((len(x), *where.out, filters.shape[-1]), x.dtype)

        def change_and_pool(images: slice, part: Array) -> None:
            _change(part, steps, values)
            largest(part, where, pooled[images])

        whole = convolved(x, filters, *self._convolve, then=change_and_pool)
        return [pooled, whole] if self._keeps else [pooled]


def _change(part: Array, steps: Sequence[Change], values: Sequence[Any]) -> None:
    """Do what the elementwise nodes do, in place.  part [n, h, w, m]."""
    for function, inputs in steps:
        function(*[part if at is None else values[at] for at in inputs], out=part)
