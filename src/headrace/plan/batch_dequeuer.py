"""Recognise a step that reads a record, computes on it and enqueues it, and make a BatchDequeuer of it.

What it may compute is in plan.rules.batching_rules.  Anything else, a control edge, a variable, a second read: no batch
dequeuer.
Called by: client.local.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.base.traits import ENQUEUES_ONE, HANDLE, READS_ONE
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import bound_kernel, input_names
from headrace.plan.columns import ColumnCompiler, Unknown
from headrace.plan.devices import placed
from headrace.plan.prune import Pruned
from headrace.run.exec import instructions as make
from headrace.run.exec.kernel import Memos, NodeInfo
from headrace.run.queues.batch_dequeuer import BatchDequeuer, Handle


def compile_batch_dequeuer(
    pruned: Pruned,
    target: Operation,
    devices: Mapping[Operation, str],
    memos: Memos,
) -> BatchDequeuer | None:
    """The batch dequeuer of the step that runs `target`; None if it does anything else than a batch dequeuer can.

    devices, memos: as for plan.compile.compile_program.
    """
    if ENQUEUES_ONE not in target.traits or placed(pruned.ops, devices):
        return None
    return _Compiler(devices, memos, pruned.controls).dequeuer(pruned.ops, target)


class _Compiler(ColumnCompiler):
    def __init__(
        self,
        devices: Mapping[Operation, str],
        memos: Memos,
        controls: Mapping[Operation, Sequence[Operation]],
    ) -> None:
        super().__init__(controls, memos, may_take_long=True)
        self._devices = devices
        self._handles: list[Handle] = []
        self._handle_tensors: set[Tensor] = set()
        self._read: Operation | None = None

    def dequeuer(self, ops: Sequence[Operation], target: Operation) -> BatchDequeuer | None:
        try:
            for op in ops:
                if op is not target:
                    self.add(op)
            if self._conditions(target, target.inputs):
                raise Unknown
            return self._finished(target)
        except Unknown:
            return None

    def _finished(self, target: Operation) -> BatchDequeuer | None:
        read = self._read
        handle, *components = target.inputs
        if read is None or handle not in self._handle_tensors or target.attrs["timeout_ms"] != -1:
            return None
        key, value = read.outputs
        self.used.update(components)
        return BatchDequeuer(
            self.template,
            self._handles,
            self.register[read.inputs[0]],
            self.register[read.inputs[1]],
            self.register[key] if key in self.used else None,
            self.register[value],
            self.work,
            self.draws,
            self.register[handle],
            [(self.input(tensor), tensor in self.columns) for tensor in components],
            self.long,
        )

    def input(self, tensor: Tensor) -> int:
        """The register of a plain value, which no handle is."""
        if tensor in self._handle_tensors:
            raise Unknown
        return super().input(tensor)

    def add(self, op: Operation) -> None:
        """A node that looks up a reader or queue, reads, is a constant, or only computes."""
        spec = op.spec
        if spec is not None and HANDLE in spec.traits and not op.inputs:
            register = self.new_register(op.outputs[0])
            self._handles.append((make.handle(bound_kernel(op, spec), self._info(op)), register))
            self._handle_tensors.add(op.outputs[0])
        elif READS_ONE in op.traits:
            if self._read is not None or not self._handle_tensors.issuperset(op.inputs):
                raise Unknown
            if self._conditions(op, op.inputs):
                raise Unknown
            self._read = op
            for tensor in op.outputs:
                self.new_register(tensor)
                self.columns.add(tensor)
        else:
            super().add(op)

    def _info(self, op: Operation) -> NodeInfo:
        return NodeInfo(
            op.name,
            op.type,
            self._devices.get(op, op.device),
            op.attrs,
            op.built_at,
            self._memos.setdefault(op.name, {}),
            input_names(op, ()),
            traits=op.traits,
        )
