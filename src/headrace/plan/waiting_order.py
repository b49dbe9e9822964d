"""Which nodes may keep a step's thread: those during which nothing else of the step could begin or end.

A node that runs a user's function is called in the step's own thread if every node that may wait comes before it or
after it; otherwise in one of its own (`run.exec.callback_threads`), because two such nodes may wait for each other.  So
it is with what waits in a loop, whose iterations run one after the other in the step's thread.
Called by: plan.compile_dataflow, plan.infos, plan.nesting.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from typing import TypeVar

from headrace.base.traits import CALLS_USER, MAY_WAIT
from headrace.graph.graph import Operation
from headrace.graph.operation import traits_among
from headrace.graph.tensor import Tensor

Controls = Mapping[Operation, Sequence[Operation]]
U = TypeVar("U", bound=Hashable)


def inline_callbacks(ops: Sequence[Operation], controls: Controls) -> set[Operation]:
    """Those of `ops` (a whole program, inputs before users) that run a user's function and may keep the thread."""
    if CALLS_USER not in traits_among(ops):
        return set()
    if not any(MAY_WAIT in op.traits and CALLS_USER in op.traits for op in ops):
        return set()
    return {op for op in ordered(ops, lambda op: (op,), controls) if CALLS_USER in op.traits}


def ordered(
    units: Sequence[U],
    nodes_of: Callable[[U], Sequence[Operation]],
    controls: Controls,
    fed: Container[Tensor] = (),
    never_both: Callable[[U, U], bool] | None = None,
) -> set[U]:
    """Those of `units` that may wait, where all others that may come before or after.

    units: nodes, or loops, in an order in which they can run.  never_both: whether at most one of two runs.
    """
    before = _needs(units, nodes_of, controls, fed, {})
    waiting = list(before)
    after = [0] * len(waiting)
    for other, needs in enumerate(before.values()):
        for at in range(other):
            if needs >> at & 1:
                after[at] |= 1 << other
    everything = (1 << len(waiting)) - 1
    alone = set()
    for at, unit in enumerate(waiting):
        beside = everything & ~(before[unit] | after[at] | 1 << at)
        if beside and never_both is not None:
            others = [other for each, other in enumerate(waiting) if beside >> each & 1]
            beside = not all(never_both(unit, other) for other in others)
        if not beside:
            alone.add(unit)
    return alone


def in_turn(
    units: Sequence[U],
    nodes_of: Callable[[U], Sequence[Operation]],
    controls: Controls,
    fed: Container[Tensor],
) -> set[U]:
    """Those of a loop's `units` that may wait, and do not begin before they have been done an iteration earlier."""
    reached: dict[Operation, int] = {}
    while True:
        known = dict(reached)
        needs = _needs(units, nodes_of, controls, fed, reached)
        if reached == known:
            return {unit for at, unit in enumerate(needs) if needs[unit] >> at & 1}


def _needs(
    units: Sequence[U],
    nodes_of: Callable[[U], Sequence[Operation]],
    controls: Controls,
    fed: Container[Tensor],
    reached: dict[Operation, int],
) -> dict[U, int]:
    """Of those that may wait the ones that each needs, as bits.

    reached: what each node is and needs, as bits; what is known of it goes round a loop.
    """
    before: dict[U, int] = {}
    for unit in units:
        nodes, needs = nodes_of(unit), 0
        for op in nodes:
            for source in (*(t.op for t in op.inputs if t not in fed), *controls.get(op, ())):
                needs |= reached.get(source, 0)
        found = needs
        if any(MAY_WAIT in op.traits for op in nodes):
            found |= 1 << len(before)
            before[unit] = needs
        reached.update(dict.fromkeys(nodes, found))
    return before
