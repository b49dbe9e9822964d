"""Columns: nodes whose work is done for many elements at once, register by register.

What varies from element to element is a column: an array with an element along axis 0, or a list with one value for
each.  Of each node there is a `Work`, which does it together for all elements where a rule says how
(`plan.rules.batching_rules`), or else calls its kernel for each; what does not vary is done once.
Of a `tf.cond` each branch is run for the elements that take it (`run.queues.column_branches`): what is fed into a
branch comes through Switches, so it is known of each node which conditions it stands under.  Random numbers are those
that the elements would get one by one: what has drawn more than was used gives back the rest.
Called by: plan.batch_dequeuer, plan.functions.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from headrace.base.traits import (
    ASSERTS,
    CONST,
    IDENTITY,
    MAY_WAIT,
    MERGE,
    PER_RECORD,
    STATEFUL,
    SWITCH,
    TOGETHER,
)
from headrace.graph.const_value import KERNEL_FAILURES, const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.ops.random.drawn_rows import draw_rows, is_drawn
from headrace.ops.random.draws import stream_in
from headrace.plan import check
from headrace.plan.binding import bound_kernel, returns_value
from headrace.plan.rules.batching_rules import ALWAYS_TOGETHER, Node, batched
from headrace.plan.rules.resized_casts import uncast
from headrace.plan.wanted import Wanted
from headrace.run.exec.kernel import Memos
from headrace.run.queues.column_branches import Asserted, Fork, InBranch, Joined, Taken
from headrace.run.queues.column_work import Column, Draw, Runs, Work, as_column

When = frozenset[tuple[Tensor, bool]]
"""The conditions under which a node runs, and as what: where it is none of the branches, there are none."""
_ALWAYS: When = frozenset()


class Unknown(Exception):
    """A node that is not run for many elements."""


class ColumnCompiler:
    """Gives registers to tensors, and a `Work` to each node that is added.

    long: whether one of them takes long.
    """

    def __init__(
        self,
        controls: Mapping[Operation, Sequence[Operation]],
        memos: Memos,
        may_take_long: bool = False,
        uncast: AbstractSet[Tensor] = frozenset(),
    ) -> None:
        """controls: what nodes wait for beside their inputs.  memos: see `plan.compile.compile_program`.
        may_take_long: nodes of the trait TOGETHER may be added, too.  uncast: see `plan.rules.resized_casts`.
        """
        self.long = False
        self._controls, self._memos = controls, memos
        self._when: dict[Tensor | Operation, When] = {}
        self._places: dict[When, int] = {}
        self._branches: dict[When, tuple[int, ...]] = {_ALWAYS: ()}  # from the outermost: places
        self._uncast = uncast
        self._may_take_long = may_take_long
        self.template: list[Any] = [None]
        self.register: dict[Tensor, int] = {}
        self.columns: set[Tensor] = set()
        self.work: list[Runs] = []
        self.draws: list[Draw] = []
        self.used: set[Tensor] = set()
        self._known: dict[Tensor, Any] = {}

    def new_register(self, tensor: Tensor, value: Any = None) -> int:
        """Of one more tensor."""
        self.register[tensor] = register = self._new_register(value)
        return register

    def _new_register(self, value: Any = None) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def input(self, tensor: Tensor) -> int:
        """The register of a plain value.  Raises Unknown."""
        found = self.register.get(tensor)
        if found is None:
            raise Unknown
        return found

    def is_in_branch(self, tensor: Tensor) -> bool:
        """Whether not all elements have it."""
        return bool(self._when.get(tensor))

    def add(self, op: Operation) -> None:
        """A node that is a constant, or only computes, asserts, draws or is part of a `cond`.  Raises Unknown."""
        spec, traits = op.spec, op.traits
        if MERGE in traits:
            when = self._join(op)
        else:
            when = self._conditions(op, op.inputs)
            if SWITCH in traits:
                self._switch(op, when)
            elif ASSERTS in traits:
                condition = op.inputs[0]
                asserted = Asserted(self.input(condition), condition in self.columns)
                self.used.add(condition)
                self._add_work(asserted, when)
            elif CONST in traits:
                self._know(op, [const_array(op)])
            elif spec is None or spec.kernel is None:
                raise Unknown
            elif is_drawn(op):
                self._draw(op, when)
            elif PER_RECORD in traits:
                self._compute(op, spec, when)
            elif TOGETHER in traits and self._may_take_long:
                self._compute(op, spec, when)
                self.long = True
            elif op.outputs or op.inputs or STATEFUL in traits:
                raise Unknown
        self._when[op] = when
        if SWITCH not in traits:
            for tensor in op.outputs:
                self._when[tensor] = when

    def _add_work(self, work: Runs, when: When) -> None:
        self.work.append(InBranch(work, self._places[when]) if when else work)

    # -- branches -------------------------------------------------------------------------------------------------

    def _conditions(self, op: Operation, inputs: Sequence[Tensor]) -> When:
        """Under which a node runs.  Raises Unknown where a column comes into a branch by no Switch."""
        before: list[Tensor | Operation] = [*inputs, *self._controls.get(op, ())]
        found = _ALWAYS.union(*[self._when.get(each, _ALWAYS) for each in before])
        # Otherwise it never runs, or under two conditions that do not enclose each other.
        if found and found not in self._places:
            raise Unknown
        if any(t in self.columns and self._when.get(t, _ALWAYS) != found for t in inputs):
            raise Unknown
        return found

    def _switch(self, op: Operation, when: When) -> None:
        data, condition = op.inputs
        while IDENTITY in condition.op.traits:
            condition = condition.op.inputs[0]
        at = self.input(condition)
        if data._dtype._is_ref_dtype:
            raise Unknown
        branches = [when | {(condition, False)}, when | {(condition, True)}]
        if len(branches[0]) == len(when) or len(branches[1]) == len(when):
            raise Unknown
        if branches[0] not in self._places:
            fails, holds = self._new_register(), self._new_register()
            self._add_work(Fork(at, condition in self.columns, holds, fails), when)
            for branch, place in zip(branches, (fails, holds), strict=True):
                self._places[branch] = place
                self._branches[branch] = (*self._branches[when], place)
        given = self.input(data)
        for tensor, branch in zip(op.outputs, branches, strict=True):
            self._when[tensor] = branch
            if data in self.columns:
                taken = Taken(given, self._places[branch], self.new_register(tensor))
                self._add_work(taken, when)
                self.columns.add(tensor)
            else:
                self.register[tensor] = given
                if data in self._known:
                    self._known[tensor] = self._known[data]
        self.used.update(op.inputs)

    def _join(self, op: Operation) -> When:
        """A Merge: under which conditions it runs.  Raises Unknown."""
        if len(op.inputs) != 2 or any(t._dtype._is_ref_dtype for t in op.inputs):
            raise Unknown
        registers = [self.input(tensor) for tensor in op.inputs]
        one, other = [self._when.get(tensor, _ALWAYS) for tensor in op.inputs]
        when, between = one & other, one ^ other
        conditions = {condition for condition, _ in between}
        if len(between) != 2 or len(conditions) != 1 or len(one) != len(other):
            raise Unknown
        if not when.issuperset(self._conditions_of_controls(op)):
            raise Unknown
        places = (self._places[one], self._places[other])
        rows = [tensor in self.columns for tensor in op.inputs]
        first, second = zip(places, registers, rows, strict=True)
        value, number = [self.new_register(tensor) for tensor in op.outputs]
        self._add_work(Joined((first, second), value, number), when)
        self.columns.update(op.outputs)
        self.used.update(op.inputs)
        return when

    def _conditions_of_controls(self, op: Operation) -> When:
        return _ALWAYS.union(*[self._when.get(c, _ALWAYS) for c in self._controls.get(op, ())])

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _draw(self, op: Operation, when: When) -> None:
        make = draw_rows(op, [tensor in self.columns for tensor in op.inputs])
        if make is None:
            raise Unknown
        inputs = tuple(self.input(tensor) for tensor in op.inputs)
        self.used.update(op.inputs)
        seeds = op.attrs["seed"], op.attrs["seed2"]
        stream = partial(stream_in, self._memos.setdefault(op.name, {}), *seeds)
        outputs = tuple(self.new_register(tensor) for tensor in op.outputs)
        taken = self._new_register()
        draw = Draw(stream, make, inputs, outputs, taken, self._branches[when])
        self._add_work(draw, when)
        self.draws.append(draw)
        self.columns.update(op.outputs)

    def _know(self, op: Operation, values: Sequence[Any]) -> None:
        for tensor, value in zip(op.outputs, values, strict=True):
            self._known[tensor] = value
            self.new_register(tensor, value)

    def _compute(self, op: Operation, spec: OpSpec, when: When) -> None:
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
        # A kernel that asks a reader would wait for its lock.
        if spec.takes_ctx or op.type in ALWAYS_TOGETHER:
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
        self._add_work(Work(kernel, together, rows, inputs, outputs, single), when)

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
        work: Sequence[Runs],
        draws: Sequence[Draw],
        results: Sequence[tuple[int, bool]],
        long: bool,
    ) -> None:
        """arguments: registers.  draws: those of the work.  results: registers, and whether they are columns."""
        self._template, self._arguments = list(template), arguments
        self._work, self._draws, self._results = work, draws, results
        self.long = long

    def __call__(self, arguments: Sequence[Any], count: int) -> list[Column]:
        """The results for `count` elements, a column each; none of them is an argument's own memory's to change.

        arguments: columns for what varies, else values.  Raises whatever a kernel does, and ValueError; then elements
        are to be done one by one, and the one that fails says so.
        """
        registers = self._template.copy()
        for register, value in zip(self._arguments, arguments, strict=True):
            registers[register] = value
        try:
            with np.errstate(all="ignore"):
                for work in self._work:
                    work.run(registers, count)
        except BaseException:
            for draw in self._draws:
                draw.give_back(registers, 0)
            raise
        return [as_column(registers[register], is_row, count) for register, is_row in self._results]


def column_function(wanted: Wanted, memos: Memos, varying: int) -> ColumnFunction | None:
    """The function for many elements, of which the first `varying` arguments vary; None if it is not run so."""
    pruned = wanted.pruned
    compiler = ColumnCompiler(pruned.controls, memos, True, uncast(pruned.ops, wanted.fetches))
    arguments = [compiler.new_register(tensor) for tensor in wanted.feeds]
    compiler.columns.update(wanted.feeds[:varying])
    fed = {tensor.op for tensor in wanted.feeds}
    try:
        for op in pruned.ops:
            if op not in fed:
                compiler.add(op)
        if any(compiler.is_in_branch(tensor) for tensor in wanted.fetches):
            return None
        results = [(compiler.input(t), t in compiler.columns) for t in wanted.fetches]
    except Unknown:
        return None
    return ColumnFunction(
        compiler.template, arguments, compiler.work, compiler.draws, results, compiler.long
    )
