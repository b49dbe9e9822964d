"""Recognise a step that reads a record, computes on it and enqueues it, and make a BatchDequeuer of it.

What it may compute is in plan.rules.batching_rules.  Anything else, a control edge, a variable, a second read: no batch
dequeuer.
Called by: client.local.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.base.traits import (
    CONST,
    ENQUEUES_ONE,
    HANDLE,
    MAY_WAIT,
    PER_RECORD,
    READS_ONE,
    STATEFUL,
)
from headrace.graph.const_value import KERNEL_FAILURES, const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.binding import bound_kernel, input_names, returns_value
from headrace.plan.prune import Pruned
from headrace.plan.rules.batching_rules import Node, batched
from headrace.run.exec import instructions as make
from headrace.run.exec.kernel import Memos, NodeInfo
from headrace.run.queues.batch_dequeuer import BatchDequeuer, Handle, Work


def compile_batch_dequeuer(
    pruned: Pruned,
    target: Operation,
    devices: Mapping[Operation, str],
    memos: Memos,
    xp: Any = np,
) -> BatchDequeuer | None:
    """The batch dequeuer of the step that runs `target`; None if it does anything else than a batch dequeuer can.

    devices, memos: as for plan.compile.compile_program.
    """
    if any(pruned.controls.get(op) for op in pruned.ops) or ENQUEUES_ONE not in target.traits:
        return None
    return _Compiler(devices, memos, xp).dequeuer(pruned.ops, target)


class _Unknown(Exception):
    """A node that no batch dequeuer has."""


class _Compiler:
    def __init__(self, devices: Mapping[Operation, str], memos: Memos, xp: Any) -> None:
        self._devices = devices
        self._memos = memos
        self._xp = xp
        self._template: list[Any] = [None]
        self._register: dict[Tensor, int] = {}
        self._known: dict[Tensor, Any] = {}
        self._columns: set[Tensor] = set()
        self._handles: list[Handle] = []
        self._handle_tensors: set[Tensor] = set()
        self._work: list[Work] = []
        self._used: set[Tensor] = set()
        self._read: Operation | None = None

    def dequeuer(self, ops: Sequence[Operation], target: Operation) -> BatchDequeuer | None:
        try:
            for op in ops:
                if op is not target:
                    self._add(op)
            return self._finished(target)
        except _Unknown:
            return None

    def _finished(self, target: Operation) -> BatchDequeuer | None:
        read = self._read
        handle, *components = target.inputs
        if read is None or handle not in self._handle_tensors or target.attrs["timeout_ms"] != -1:
            return None
        key, value = read.outputs
        self._used.update(components)
        return BatchDequeuer(
            self._template,
            self._handles,
            self._register[read.inputs[0]],
            self._register[key] if key in self._used else None,
            self._register[value],
            self._work,
            self._register[handle],
            [(self._input(tensor), tensor in self._columns) for tensor in components],
        )

    def _new_register(self, tensor: Tensor, value: Any = None) -> int:
        self._template.append(value)
        self._register[tensor] = len(self._template) - 1
        return len(self._template) - 1

    def _input(self, tensor: Tensor) -> int:
        """The register of a plain value."""
        if tensor in self._handle_tensors:
            raise _Unknown
        return self._register[tensor]

    def _add(self, op: Operation) -> None:
        spec = op.spec
        if spec is None or spec.kernel is None:
            raise _Unknown
        if CONST in op.traits:
            self._know(op, [const_array(op)])
        elif HANDLE in spec.traits and not op.inputs:
            register = self._new_register(op.outputs[0])
            self._handles.append(
                (make.handle(bound_kernel(op, spec, self._xp), self._info(op)), register)
            )
            self._handle_tensors.add(op.outputs[0])
        elif READS_ONE in op.traits:
            if self._read is not None or not self._handle_tensors.issuperset(op.inputs):
                raise _Unknown
            self._read = op
            for tensor in op.outputs:
                self._new_register(tensor)
                self._columns.add(tensor)
        elif PER_RECORD in op.traits:
            self._compute(op, spec)
        else:
            raise _Unknown

    def _know(self, op: Operation, values: Sequence[Any]) -> None:
        for tensor, value in zip(op.outputs, values, strict=True):
            self._known[tensor] = value
            self._new_register(tensor, value)

    def _compute(self, op: Operation, spec: OpSpec) -> None:
        tensors = [*op.inputs, *op.outputs]
        if (
            MAY_WAIT in spec.traits
            or STATEFUL in spec.traits
            or any(t._dtype._is_ref_dtype for t in tensors)
        ):
            raise _Unknown
        inputs = tuple(self._input(tensor) for tensor in op.inputs)
        rows = tuple(tensor in self._columns for tensor in op.inputs)
        self._used.update(op.inputs)
        single = returns_value(spec)
        if not any(rows):
            self._fold(op, spec, single)
            return
        kernel: Callable[..., Any] | None = bound_kernel(op, spec, self._xp)
        ranks = [None if tensor._raw is None else len(tensor._raw) for tensor in op.inputs]
        known = [self._known.get(tensor) for tensor in op.inputs]
        together = batched(Node(op, bound_kernel(op, spec, self._xp), rows, known, ranks))
        if spec.takes_ctx:  # a kernel that asks a reader would wait for its lock
            kernel = None
            if together is None:
                raise _Unknown
        if check.enabled:
            kernel = kernel and check.checked_kernel(kernel, op, single)
            together = together and check.checked_rows(together, op, single)
        outputs = tuple(self._new_register(tensor) for tensor in op.outputs)
        self._columns.update(op.outputs)
        self._work.append(Work(kernel, together, rows, inputs, outputs, single))

    def _fold(self, op: Operation, spec: OpSpec, single: bool) -> None:
        """What follows from constants is the same for every record."""
        if spec.takes_ctx or not spec.foldable:
            raise _Unknown
        try:
            with np.errstate(all="ignore"):
                result = bound_kernel(op, spec, self._xp)(*[self._known[t] for t in op.inputs])
        except KERNEL_FAILURES:
            raise _Unknown from None
        self._know(op, [result] if single else list(result))

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
