"""Op by op: how a group of nodes runs where it cannot run as one.

Called by: plan.fuse, plan.images.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from headrace.graph.graph import Operation
from headrace.plan import check
from headrace.run.exec.kernel import NodeInfo, StepState
from headrace.run.exec.outcome import cause, explain

Work = tuple[Operation, Callable[..., Any], Sequence[int]]
"""A node, its kernel and the places of what that takes: those of the group's inputs come first, then the results."""


def op_by_op(
    work: Iterable[Work], nodes: Sequence[NodeInfo]
) -> Callable[[list[Any], StepState], None]:
    """A function of (the group's inputs, the step), which appends the nodes' results to the inputs.

    It raises what a kernel raises, as an error that names its node.
    """
    plain = [
        (check.checked_kernel(kernel, op, True) if check.enabled else kernel, _picking(places))
        for op, kernel, places in work
    ]

    def run(values: list[Any], step: StepState) -> None:
        outside = len(values)
        given: Sequence[Any] = ()
        try:
            for kernel, picked in plain:
                given = picked(values)
                values.append(kernel(*given))
        except Exception as error:  # becomes an error that names its node, as in run.program
            raise explain(error, nodes[len(values) - outside], given, step) from cause(error)

    return run


def _picking(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """A function that takes the values at `places`, of which there are some."""
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)
