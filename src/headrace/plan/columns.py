"""Columns: nodes whose work is done for many elements at once, register by register.

What varies from element to element is a column: an array with an element along axis 0, or a list with one value for
each.  Of each node there is a `Work`, which does it together for all elements where a rule says how
(`plan.rules.batching_rules`), or else calls its kernel for each; what does not vary is done once.
Called by: plan.batch_dequeuer, plan.functions.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from headrace.base.traits import CONST, MAY_WAIT, PER_RECORD, STATEFUL, TOGETHER
from headrace.graph.const_value import KERNEL_FAILURES, const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.binding import bound_kernel, returns_value
from headrace.plan.rules.batching_rules import Node, batched
from headrace.plan.rules.resized_casts import uncast
from headrace.plan.wanted import Wanted
from headrace.run.queues.column_work import Column, Work, as_column


class Unknown(Exception):
    """A node that is not run for many elements."""


class ColumnCompiler:
    """Gives registers to tensors, and a `Work` to each node that is added.

    long: whether one of them takes long.
    """

    def __init__(
        self, may_take_long: bool = False, uncast: AbstractSet[Tensor] = frozenset()
    ) -> None:
        """may_take_long: nodes of the trait TOGETHER may be added, too.  uncast: see `plan.rules.resized_casts`."""
        self.long = False
        self._uncast = uncast
        self._may_take_long = may_take_long
        self.template: list[Any] = [None]
        self.register: dict[Tensor, int] = {}
        self.columns: set[Tensor] = set()
        self.work: list[Work] = []
        self.used: set[Tensor] = set()
        self._known: dict[Tensor, Any] = {}

    def new_register(self, tensor: Tensor, value: Any = None) -> int:
        """Of one more tensor."""
        self.template.append(value)
        self.register[tensor] = len(self.template) - 1
        return len(self.template) - 1

    def input(self, tensor: Tensor) -> int:
        """The register of a plain value.  Raises Unknown."""
        found = self.register.get(tensor)
        if found is None:
            raise Unknown
        return found

    def add(self, op: Operation) -> None:
        """A node that is a constant, or only computes.  Raises Unknown."""
        spec = op.spec
        if spec is None or spec.kernel is None:
            raise Unknown
        if CONST in op.traits:
            self._know(op, [const_array(op)])
        elif PER_RECORD in op.traits:
            self._compute(op, spec)
        elif TOGETHER in op.traits and self._may_take_long:
            self._compute(op, spec)
            self.long = True
        else:
            raise Unknown

    def _know(self, op: Operation, values: Sequence[Any]) -> None:
        for tensor, value in zip(op.outputs, values, strict=True):
            self._known[tensor] = value
            self.new_register(tensor, value)

    def _compute(self, op: Operation, spec: OpSpec) -> None:
        tensors = [*op.inputs, *op.outputs]
        if (
            MAY_WAIT in spec.traits
            or STATEFUL in spec.traits
            or any(t._dtype._is_ref_dtype for t in tensors)
        ):
            raise Unknown
        inputs = tuple(self.input(tensor) for tensor in op.inputs)
        rows = tuple(tensor in self.columns for tensor in op.inputs)
        self.used.update(op.inputs)
        single = returns_value(spec)
        known = [self._known.get(tensor) for tensor in op.inputs]
        if not any(rows) and all(tensor in self._known for tensor in op.inputs):
            self._fold(op, spec, single)
            return
        kernel: Callable[..., Any] | None = bound_kernel(op, spec)
        together = None
        if any(rows):
            ranks = [None if tensor._raw is None else len(tensor._raw) for tensor in op.inputs]
            together = batched(Node(op, bound_kernel(op, spec), rows, known, ranks))
        if spec.takes_ctx:  # a kernel that asks a reader would wait for its lock
            kernel = None
            if together is None:
                raise Unknown
        if op.outputs[0] in self._uncast and op.inputs[0] not in self._uncast:
            self.register[op.outputs[0]] = inputs[0]
            self.columns.update(op.outputs if rows[0] else ())
            return
        if check.enabled and self._uncast.isdisjoint(op.outputs):
            kernel = kernel and check.checked_kernel(kernel, op, single)
            together = together and check.checked_rows(together, op, single)
        outputs = tuple(self.new_register(tensor) for tensor in op.outputs)
        if any(rows):
            self.columns.update(op.outputs)
        self.work.append(Work(kernel, together, rows, inputs, outputs, single))

    def _fold(self, op: Operation, spec: OpSpec, single: bool) -> None:
        """What follows from constants is the same for every element."""
        if spec.takes_ctx or not spec.foldable:
            raise Unknown
        try:
            with np.errstate(all="ignore"):
                result = bound_kernel(op, spec)(*[self._known[t] for t in op.inputs])
        except KERNEL_FAILURES:
            raise Unknown from None
        self._know(op, [result] if single else list(result))


class ColumnFunction:
    """A function, for many elements at once.  long: whether that takes long (see the trait TOGETHER)."""

    def __init__(
        self,
        template: Sequence[Any],
        arguments: Sequence[int],
        work: Sequence[Work],
        results: Sequence[tuple[int, bool]],
        long: bool,
    ) -> None:
        """arguments: registers.  results: registers, and whether they are columns."""
        self._template, self._arguments = list(template), arguments
        self._work, self._results = work, results
        self.long = long

    def __call__(self, arguments: Sequence[Any], count: int) -> list[Column]:
        """The results for `count` elements, a column each; none of them is an argument's own memory's to change.

        arguments: columns for what varies, else values.  Raises whatever a kernel does, and ValueError; then elements
        are to be done one by one, and the one that fails says so.
        """
        registers = self._template.copy()
        for register, value in zip(self._arguments, arguments, strict=True):
            registers[register] = value
        with np.errstate(all="ignore"):
            for work in self._work:
                work.run(registers, count)
        return [as_column(registers[register], is_row, count) for register, is_row in self._results]


def column_function(wanted: Wanted, varying: int) -> ColumnFunction | None:
    """The function for many elements, of which the first `varying` arguments vary; None if it is not run so."""
    if any(wanted.pruned.controls.get(op) for op in wanted.pruned.ops):
        return None
    compiler = ColumnCompiler(True, uncast(wanted.pruned.ops, wanted.fetches))
    arguments = [compiler.new_register(tensor) for tensor in wanted.feeds]
    compiler.columns.update(wanted.feeds[:varying])
    fed = {tensor.op for tensor in wanted.feeds}
    try:
        for op in wanted.pruned.ops:
            if op not in fed:
                compiler.add(op)
        results = [(compiler.input(t), t in compiler.columns) for t in wanted.fetches]
    except Unknown:
        return None
    return ColumnFunction(compiler.template, arguments, compiler.work, results, compiler.long)
