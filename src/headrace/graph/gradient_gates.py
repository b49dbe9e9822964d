"""Gates of gradients: none of an operation's is there before all of them are.

Called by: graph.gradients.  Threads: as the graph.
Source: TF 1.15 python/ops/control_flow_ops.py, for the names of nodes; compared with the oracle
"""

from __future__ import annotations

from headrace.graph import registry
from headrace.graph.graph import Graph, Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor

__all__: list[str] = []

Grad = Tensor | IndexedSlices


def gated(graph: Graph, grads: list[Grad | None]) -> list[Grad | None]:
    """The same gradients, none of which is there before all are."""
    with (
        graph.device(None),
        graph.colocate_with(None, ignore_existing=True),
        graph.name_scope("tuple"),
    ):
        ops = {_tensor_of(grad).op for grad in grads if grad is not None}
        gate = _joined(graph, sorted(ops, key=lambda op: op.id))
        return [None if grad is None else _after(graph, gate, grad) for grad in grads]


def _tensor_of(grad: Grad) -> Tensor:
    return grad.values if isinstance(grad, IndexedSlices) else grad


def _after(graph: Graph, gate: Operation, grad: Grad) -> Grad:
    tensor = _tensor_of(grad)
    with (
        graph.name_scope("control_dependency") as scope,
        graph.colocate_with(tensor.op),
        graph.control_dependencies([gate]),
    ):
        passed: Tensor = registry.get("Identity")(tensor, name=scope)
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(passed, grad.indices, grad.dense_shape)
    return passed


def _joined(graph: Graph, ops: list[Operation]) -> Operation:
    """A node that runs after all of `ops`, by way of one per device."""
    no_op = registry.get("NoOp")
    by_device: dict[str, list[Operation]] = {}
    for op in ops:
        by_device.setdefault(op.device, []).append(op)
    with graph.name_scope("group_deps") as scope:
        if len(by_device) == 1:
            ((device, group),) = by_device.items()
            with graph.control_dependencies(group), graph.device(device):
                single: Operation = no_op(name=scope)
            return single
        parts = []
        for device in sorted(by_device):
            with graph.control_dependencies(by_device[device]), graph.device(device):
                parts.append(no_op())
        with graph.control_dependencies(parts):
            joined: Operation = no_op(name=scope)
        return joined
