"""The naive interpreter: what a run means, with nothing clever in it.  Every plan must agree with it.

Runs every node that the fetches and targets lead to, one after the other as they were built, each with its kernel.
It knows no devices, no loops, and no waiting: whatever a node waits for must be there already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import bound_kernel, returns_value, wants_reference
from headrace.run.kernel import KernelContext, NodeInfo, Runtime, StepState
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.variable import Variable

Feeds = Mapping[Tensor, Any]


class Naive:
    """Variables and queues of its own; `run` as often as you like."""

    def __init__(self) -> None:
        self._runtime = Runtime("/job:naive/replica:0/task:0/device:CPU:0")
        self._memos: dict[str, dict[str, Any]] = {}

    def run(
        self, fetches: Sequence[Tensor], feeds: Feeds, targets: Sequence[Operation]
    ) -> list[Any]:
        """Values of the fetches."""
        step = StepState(self._runtime, Scope(), 1)
        values: dict[Tensor, Any] = dict(feeds)
        needed: set[Operation] = set()
        waiting = [*targets, *(tensor.op for tensor in fetches if tensor not in feeds)]
        while waiting:
            op = waiting.pop()
            if op not in needed:
                needed.add(op)
                waiting += [t.op for t in op.inputs if t not in feeds]
                waiting += [c for c in op.control_inputs if not _is_fed_placeholder(c, feeds)]
        for op in sorted(needed, key=lambda op: op.id):
            for tensor, value in zip(op.outputs, self._outputs(op, values, step), strict=True):
                values.setdefault(tensor, value)
        return [np.copy(_array(values[tensor])) for tensor in fetches]

    def _outputs(self, op: Operation, values: Feeds, step: StepState) -> Sequence[Any]:
        spec = op.spec
        assert spec is not None
        given = [values[tensor] for tensor in op.inputs]
        if spec.keeps_refs and isinstance(given[0], Variable):
            return given  # a reference, passed on
        wanted = wants_reference(op, spec)
        inputs = [g if w else np.copy(_array(g)) for g, w in zip(given, wanted, strict=True)]
        if spec.takes_ctx:
            memo = self._memos.setdefault(op.name, {})
            node = NodeInfo(op.name, op.type, "", op.attrs, None, memo)
            inputs.insert(0, KernelContext(node, step))
        result = bound_kernel(op, spec, np)(*inputs)
        result = result.result() if isinstance(result, Pending) else result
        return [result] if returns_value(spec) else list(result or ())


def _array(value: Any) -> Any:
    return value.require() if isinstance(value, Variable) else value


def _is_fed_placeholder(op: Operation, feeds: Feeds) -> bool:
    return op.type == "Placeholder" and op.outputs[0] in feeds
