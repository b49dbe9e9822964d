"""Images: what follows a convolution is done with a few images at a time, as soon as these are convolved.

`plan.image_gradients` has the way back.

A convolution, what is done with each element of its result (a bias, an activation) and the max pooling of that run as
one instruction: a few images are convolved, changed where they lie and pooled, while they are in the cache.  Op by op
each of those results goes out to memory and comes back.  Parts are those of the convolution, and the kernels those of
the nodes, so every element has the bits that it has op by op.
Not for traced steps, which list every node.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Protocol

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.convolving import convolved
from headrace.ops._kernels.windows import geometry
from headrace.ops.nn.pooling import largest, pool_windows
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.plan.fuse import is_elementwise, may_write, writes_into
from headrace.plan.op_by_op import Work, op_by_op
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.program import Instruction, Registers

Array = np.ndarray[Any, Any]
_Change = tuple[Callable[..., Any], list[int | None]]
"""What writes into arrays, and which of the group's inputs it takes; None: the elements at hand."""
_KINDS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class ImageGroup:
    """Nodes that run as one instruction, where the last one stands; `ops` in order.

    inputs: what comes from outside.  outputs: what others want, that of the last node first.  together: of how they
    run a few images at a time.
    """

    def __init__(
        self, ops: Sequence[Operation], kept: Iterable[Tensor], same: Mapping[Tensor, Tensor],
        together: Callable[[ImageGroup], Together],
    ) -> None:  # fmt: skip
        made = {op.outputs[0] for op in ops}
        self.ops = ops
        self.root = ops[-1]
        self.wiring = [[same.get(t, t) for t in op.inputs] for op in ops]
        outside = [t for op_inputs in self.wiring for t in op_inputs if t not in made]
        self.inputs = list(dict.fromkeys(outside))
        self.outputs = list(dict.fromkeys([self.root.outputs[0], *kept]))
        self.together = together(self)


class Together(Protocol):
    """How a group runs."""

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, for values of its inputs; None or an error where it has to run op by op."""


class Search:
    """Finds groups, and knows of the nodes around them; `around`: of what type each group has one node."""

    around: ClassVar[str]

    def __init__(
        self, ops: Sequence[Operation], fed: set[Tensor], returned: Iterable[Tensor],
        same: Mapping[Tensor, Tensor], changing: AbstractSet[Tensor], apart: AbstractSet[Operation],
    ) -> None:  # fmt: skip
        self._fed, self._same = fed, same
        self._changing, self._apart = changing, set(apart)
        self.returned = {same.get(tensor, tensor) for tensor in returned}
        self._users: dict[Tensor, list[Operation]] = {}
        self.place: dict[Operation, int] = {}
        self._writers: dict[Operation, int] = {}
        writers = 0
        for place, op in enumerate(ops):
            self.place[op], self._writers[op] = place, writers
            writers += may_write(op)
            if op.outputs and op.outputs[0] in same:
                continue  # it does not run
            for tensor in dict.fromkeys(same.get(t, t) for t in op.inputs):
                self._users.setdefault(tensor, []).append(op)

    @classmethod
    def groups(
        cls, ops: Sequence[Operation], fed: set[Tensor], returned: Iterable[Tensor],
        same: Mapping[Tensor, Tensor], changing: AbstractSet[Tensor], apart: AbstractSet[Operation],
    ) -> list[ImageGroup]:  # fmt: skip
        """The groups among `ops`, which have inputs first.  Arguments as those of `fuse.groups`."""
        if not any(op.type == cls.around for op in ops):
            return []
        search = cls(ops, fed, returned, same, changing, apart)
        found = []
        for op in ops:
            group = search.of(op) if op.type == cls.around else None
            if group is not None:
                found.append(group)
                search._apart.update(group.ops)
        return found

    def of(self, op: Operation) -> ImageGroup | None:
        """The group that this node, of the type `around`, belongs to."""
        raise NotImplementedError

    def first(self, tensor: Tensor) -> Tensor:
        """The tensor that it is the same as."""
        return self._same.get(tensor, tensor)

    def users(self, value: Tensor) -> list[Operation]:
        """The nodes that run and take it."""
        return self._users.get(value, [])

    def group(
        self,
        members: list[Operation],
        kept: list[Tensor],
        together: Callable[[ImageGroup], Together],
    ) -> ImageGroup | None:
        """None if something that may change what a member reads stands between it and the last one, where all run."""
        root = members[-1]
        for op in members:
            if self._writers[op] != self._writers[root] and not self._changing.isdisjoint(
                op.inputs
            ):
                return None
        return ImageGroup(members, kept, self._same, together)

    def may_join(self, op: Operation) -> bool:
        """Whether it may be in a group: of floats, channels last, not fed, and it runs."""
        result = op.outputs[0]
        return (
            op not in self._apart
            and result not in self._fed
            and result not in self._same
            and result._dtype._base.np in _KINDS
            and op.attrs.get("data_format", b"NHWC") == b"NHWC"
        )

    def may_wait(self, value: Tensor, root: Operation) -> bool:
        """Whether `value` is wanted by nobody before `root`, under no name."""
        place = self.place
        users = all(place[user] >= place[root] for user in self.users(value))
        return users and all(
            place[other.op] > place[root] for other, first in self._same.items() if first is value
        )


class Images(Search):
    """Groups that begin with a convolution."""

    around = "Conv2D"

    def of(self, convolution: Operation) -> ImageGroup | None:
        if not self.may_join(convolution):
            return None
        members = [convolution]
        while True:
            value = members[-1].outputs[0]
            users = self.users(value)
            if len(users) != 1 or value in self.returned or not self._continues(users[0], value):
                break
            members.append(users[0])
        for user in users:
            if user.type == "MaxPool" and self.may_join(user) and self.may_wait(value, user):
                wanted = len(users) > 1 or value in self.returned
                members.append(user)
                return self.group(members, [value] if wanted else [], _Together)
        return self.group(members, [], _Together) if len(members) > 1 else None

    def _continues(self, op: Operation, value: Tensor) -> bool:
        """Whether it makes of each element of `value` and at most one thing beside it, a number for all or one for each
        channel, one of the same type.
        """
        if not self.may_join(op) or not is_elementwise(op) or writes_into(op) is None:
            return False
        given = [self._same.get(t, t) for t in op.inputs]
        kinds = {t._dtype._base for t in (*given, op.outputs[0])}
        if given.count(value) != 1 or len(given) > 2 or len(kinds) != 1:
            return False
        return all(t is value or t._raw is None or len(t._raw) <= 1 for t in given)


# -- running ----------------------------------------------------------------------------------


def instruction(
    group: ImageGroup, registers: Sequence[int], outs: Sequence[int], nodes: Sequence[NodeInfo]
) -> Instruction:
    """registers[outs] = the group's outputs.  registers: of the group's inputs."""
    together = group.together
    places = {tensor: place for place, tensor in enumerate(group.inputs)}
    work: list[Work] = []
    confirm = []
    for op, inputs in zip(group.ops, group.wiring, strict=True):
        assert op.spec is not None
        work.append((op, bound_kernel(op, op.spec, np), [places[tensor] for tensor in inputs]))
        places[op.outputs[0]] = len(places)
    plain = op_by_op(work, nodes)
    wanted = [places[tensor] for tensor in group.outputs]
    if check.enabled:
        confirm = [
            check.checked_kernel(lambda value: value, tensor.op, True) for tensor in group.outputs
        ]

    def run(r: Registers) -> None:
        values = [r[register] for register in registers]
        try:
            found = together.results(values)
        except Exception:  # a kernel that refuses says so of whole arrays, op by op
            found = None
        if found is not None:
            for check_one, value in zip(confirm, found):  # noqa: B905
                check_one(value)
            for out, value in zip(outs, found):  # noqa: B905
                r[out] = value
            return
        plain(values, r[0])
        for out, place in zip(outs, wanted):  # noqa: B905
            r[out] = values[place]

    return run


class _Together:
    """A group run a few images at a time."""

    def __init__(self, group: ImageGroup) -> None:
        places = {tensor: place for place, tensor in enumerate(group.inputs)}
        attrs = group.ops[0].attrs
        self._convolve = (
            attrs["strides"], attrs["padding"], b"NHWC", attrs["dilations"], attrs["explicit_paddings"],
        )  # fmt: skip
        self._x, self._filters = (places[tensor] for tensor in group.wiring[0])
        self._pool = group.root.attrs if group.root.type == "MaxPool" else None
        tail = group.ops[1:-1] if self._pool is not None else group.ops[1:]
        self._steps: list[_Change] = []
        for op, inputs in zip(tail, group.wiring[1:], strict=False):
            function = writes_into(op)
            assert function is not None
            self._steps.append((function, [places.get(tensor) for tensor in inputs]))
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
            size, pool["ksize"], pool["strides"], pool["padding"], b"NHWC", pool["explicit_paddings"]
        )  # fmt: skip
        pooled = np.empty((len(x), *where.out, filters.shape[-1]), x.dtype)

        def change_and_pool(images: slice, part: Array) -> None:
            _change(part, steps, values)
            largest(part, where, pooled[images])

        whole = convolved(x, filters, *self._convolve, then=change_and_pool)
        return [pooled, whole] if self._keeps else [pooled]


def _change(part: Array, steps: Sequence[_Change], values: Sequence[Any]) -> None:
    """Do what the elementwise nodes do, in place.  part [n, h, w, m]."""
    for function, inputs in steps:
        function(*[part if at is None else values[at] for at in inputs], out=part)
