"""Cost model: how much nodes may have to do, and where a step polls.

Nothing is cut short: a step ends before a kernel (`plan.scheduling` says which), and in one only if that polls
(`run.polling`).
Called by: plan.scheduling, plan.registers, plan.compile_dataflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from headrace.base.shapes import num_elements
from headrace.base.traits import ALIASES, AT_ONCE, CALLS_USER, ELEMENTWISE, HANDLE, OF_SHAPE, SHARES
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor

MUCH = 1 << 16  # elements: 10 µs of the quickest kernels, some milliseconds of a product
_SMALL = 1024  # elements
_UNKNOWN = 256  # elements along a dimension
_UNKNOWN_RANK = 1 << 12
_SHARED = 1 << 12  # elements; of three matrices of so many the product has 2^18 multiplications
_HARDLY_ANYTHING = frozenset((ALIASES, HANDLE, OF_SHAPE, AT_ONCE))


def cost(op: Operation) -> int:
    """Elements that the node looks at or makes, some more where each is worked on several times; 0: hardly anything.

    From `MUCH` on there may be more than it says.
    """
    spec = op.spec
    if spec is None or not _HARDLY_ANYTHING.isdisjoint(op.traits):
        return 0
    if CALLS_USER in op.traits:
        return MUCH
    elementwise = ELEMENTWISE in spec.traits or spec.bare is not None
    most = _most(op.inputs, op.outputs, _UNKNOWN_RANK if elementwise else MUCH)
    return most * 8 if SHARES in spec.traits and not elementwise else most


def _most(inputs: Sequence[Tensor], outputs: Sequence[Tensor], unknown: int) -> int:
    """Elements of the largest of them, at least 1, or of one that has `MUCH`.

    unknown: of one of which not even the rank is known.
    """
    most = 1
    for tensor in (*inputs, *outputs):
        raw = tensor._raw
        if raw:
            known = [_UNKNOWN if size is None else size for size in raw] if None in raw else raw
            most = max(most, math.prod(known))  # type: ignore[arg-type]
            if most >= MUCH:
                break
        elif raw is None:
            most = max(most, unknown)
    return most


def may_share(op: Operation) -> bool:
    """Whether the node may have work for several threads: not where all inputs and outputs are known to be small.

    Their product, if it is one, has fewer multiplications than BLAS has threads for.
    """
    if SHARES not in op.traits:
        return False
    sizes = [num_elements(tensor._raw) for tensor in (*op.inputs, *op.outputs)]
    return any(size is None or size >= _SHARED for size in sizes)


class PollSchedule:
    """The polls of a program, segment by segment."""

    def __init__(self) -> None:
        self._done: dict[object, int] = {}  # since the last poll, by segment

    def poll_before(self, ops: Iterable[Operation], segment: object, again: bool) -> bool:
        """Whether to poll before these nodes, which come next in the segment and run as one.

        again: what comes next may have been done before, and will be again.
        """
        comes = 0
        for op in ops:
            comes = max(comes, cost(op))
            if comes >= MUCH:
                break
        if not comes:
            return False
        done = self._done.get(segment, 0)
        if done + comes < MUCH or not (done or again):
            self._done[segment] = done + comes
            return False
        self._done[segment] = comes
        return True


def is_large(tensor: Tensor) -> bool:
    """Whether a value is worth an instruction that forgets it."""
    raw = tensor._raw
    return raw is None or None in raw or math.prod(raw) > _SMALL  # type: ignore[arg-type]
