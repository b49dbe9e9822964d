"""Gradients through loops: a loop that runs as often as the forward one, backwards.

The forward loop gets a counter, the gradient loop counts down from what it reached.  Values of the forward loop that
the gradient needs are pushed on a stack in every iteration and popped in the gradient's, which so sees them last to
first; invariants come in as invariants, constants are made again.  Gradients of invariants add up over the iterations.
Pushes and pops are kept in the order of iterations by control edges to the counters.
Called by: graph.gradients, ops.control_flow_gradients, graph.while_context.  Threads: as graph.
Source of names and wiring: GraphDefs of TensorFlow 2.21 with control flow v1.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import is_fully_defined
from headrace.base.traits import CONST, SWITCH
from headrace.graph import flow_nodes as nodes
from headrace.graph import registry
from headrace.graph.control_flow import (
    CondContext,
    Context,
    context_of,
    is_loop_switch,
    loop_of,
    output_context,
)
from headrace.graph.graph import Graph, Operation
from headrace.graph.handles import behind
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.graph.while_context import WhileContext


def inside(context: Context | None) -> AbstractContextManager[None]:
    """Nodes made inside belong to `context`, if there is one."""
    return _ANYWHERE if context is None else context.entered()


_ANYWHERE: Final = nullcontext()


class LoopGradient:
    """One loop of the forward pass and the loop that is its gradient, for one call of `gradients`.

    history: what stands in the gradient loop for a tensor of the forward loop.  switches: the start of an
    iteration of the gradient loop, by the Switch of the forward loop's variable.
    """

    def __init__(self, forward: WhileContext, outer: LoopGradient | None) -> None:
        """outer: the same for the loop around `forward`."""
        self.forward = forward
        self.outer = outer
        self.history: dict[Tensor, Tensor] = {}
        self.switches: dict[Operation, Any] = {}
        self.exits = list(forward.exits)
        self.unused_exits: list[Tensor] = []
        self.deferred_exits: list[Tensor] = []
        self.pending_exits = len(self.exits)
        self._forward_sync: Operation | None = None
        self._sync: Operation | None = None
        around = forward.outer if outer is None else outer.forward
        with inside(around):
            count = self._count_forward()
        if outer is None:
            with inside(around):
                self.context = self._new_context()
                self._count_back(count)
        else:  # the forward loop runs several times, each time as often as it likes
            outer.forward.know(count)
            stack = outer.remember(count)
            with outer.context.entered():
                self.context = self._new_context()
                self._count_back(outer.recall(stack, count))

    def _new_context(self) -> WhileContext:
        forward = self.forward
        return WhileContext(
            forward.graph,
            parallel_iterations=forward.parallel_iterations,
            back_prop=forward.back_prop,
            swap_memory=forward.swap_memory,
            maximum_iterations=forward.maximum_iterations,
            name=forward.name,
            gradient=self,
        )

    # -- counters -------------------------------------------------------------------------------

    def _count_forward(self) -> Tensor:
        """Count the iterations of the forward loop; the result is there when it is over."""
        forward = self.forward
        start = nodes.constant(0, dtypes.int32, name="f_count")
        if (
            self.outer is not None
        ):  # the inner loop's pushes of one outer iteration after those of the one before
            start.op._add_control_input(self.outer.forward_step)
        assert forward.pivot is not None
        with forward.entered():
            forward.know(start)
            entered = forward.enter(start, name="f_count")
            forward.enters.append(entered)
            merged = nodes.merge([entered, entered])[0]
            ended, going = nodes.switch(merged, forward.pivot)
            self.forward_index: Tensor = nodes.next_iteration(
                registry.get("AddV2")(going, 1, name="Add")
            )
            merged.op._set_input(1, self.forward_index)
            total: Tensor = nodes.leave(ended, "f_count")
            forward.exits.append(total)
            forward.know_outside(total)
        return total

    @property
    def forward_step(self) -> Operation:
        """The node that counts an iteration of the forward loop."""
        return self.forward_index.op.inputs[0].op

    def _count_back(self, count: Tensor) -> None:
        """Count down from `count`; that is what the gradient loop's predicate says."""
        context = self.context
        one = nodes.constant(1, dtypes.int32, name="b_count")
        with context.entered():
            context.know(count)
            entered = context.enter(count, name="b_count")
            context.enters.append(entered)
            merged = nodes.merge([entered, entered])[0]
            context.pivot_for_pred = merged
            pred = registry.get("GreaterEqual")(merged, one)
            context.pivot = nodes.loop_cond(pred, "b_count")
            ended, going = nodes.switch(merged, context.pivot)
            left: Tensor = registry.get("Sub")(going, one)
            context.pivot_for_body = left
            self.index: Tensor = nodes.next_iteration(left)
            merged.op._set_input(1, self.index)
            zero: Tensor = nodes.leave(ended, "b_count")
            context.exits.append(zero)
            if self.outer is not None:  # the inner loop's pops likewise
                self.outer.sync._add_control_input(zero.op)
            context.know_outside(zero)

    @property
    def forward_sync(self) -> Operation:
        """A node that an iteration of the forward loop ends after, even if some of what it waits for is dead."""
        if self._forward_sync is None:
            self._forward_sync = self._trigger("f_sync", self.forward, self.forward_index)
        return self._forward_sync

    @property
    def sync(self) -> Operation:
        """The same in the gradient loop."""
        if self._sync is None:
            self._sync = self._trigger("b_sync", self.context, self.index)
        return self._sync

    def _trigger(self, name: str, context: WhileContext, index: Tensor) -> Operation:
        with context.graph.control_dependencies(None):
            trigger: Operation = registry.get("ControlTrigger")(name=name)
        trigger._control_flow_context = context
        index.op._add_control_input(trigger)
        return trigger

    # -- values of the forward loop -----------------------------------------------------------------

    def real_value(self, value: Tensor) -> Tensor:
        """What stands in the gradient loop for `value`, a tensor of the forward loop."""
        found = self.history.get(value)
        if found is None:
            found = self.history[value] = self._brought_back(value)
        return found

    def _brought_back(self, value: Tensor) -> Tensor:
        level: LoopGradient = self
        while True:
            enter = nodes.constant_enter(value)
            if enter is None:
                break
            value = enter.inputs[0]
            if level.outer is None:  # an invariant of all the loops
                return self.context.add_value(value)
            level = level.outer
        if CONST in value.op.traits:
            again: Tensor = registry.get("Const")(
                value=value.op["value"], dtype=value.dtype.base_dtype
            )
            return again
        with self.context.left():
            stack = level.remember(value)
        popped = level.recall(stack, value)
        return popped if level is self else self.context.add_value(popped)

    def remember(self, value: Tensor, dead_branch: bool = False) -> Tensor:
        """A stack on which each iteration of the forward loop pushes `value`; returns its handle.

        dead_branch: `value` was made where the other branch of the cond around it runs.
        """
        graph: Graph = self.forward.graph
        here: Context | None = graph._control_flow_context
        with graph.control_dependencies(None):
            with inside(here), graph.colocate_with(value.op):
                size = nodes.constant(-1, dtypes.int32)
                stack: Tensor = registry.get("StackV2")(
                    size, elem_type=value.dtype.base_dtype, name="f_acc"
                )
            handle = self.forward.add_value(stack)
            push = self._pushed(handle, value, dead_branch)
            push._add_control_input(self.forward_step)
        return stack

    def _pushed(self, handle: Tensor, value: Tensor, dead_branch: bool) -> Operation:
        home = output_context(value.op)
        if home is self.forward:
            with self.forward.entered():
                push = self._push(handle, value)
            self.forward_index.op._add_control_input(push)
            return push
        if not isinstance(home, CondContext):
            raise TypeError(
                f"{value.name} is neither in the loop {self.forward.name!r} nor in a branch of it"
            )
        with inside(home.outer if dead_branch else home):
            push = self._push(handle, value)
        if dead_branch:
            push._control_flow_context = home
        self.forward_sync._add_control_input(push)
        return push

    def _push(self, handle: Tensor, value: Tensor) -> Operation:
        pushed: Tensor = registry.get("StackPushV2")(
            handle, value, swap_memory=self.forward.swap_memory
        )
        return pushed.op

    def recall(self, stack: Tensor, value: Tensor, dead_branch: bool = False) -> Tensor:
        """In the gradient loop, what `remember(value)` pushed last and nobody popped yet."""
        branch = _branch_between(value, context_of(stack.op))
        with self.context.graph.control_dependencies(None), self.context.entered():
            handle = stack
            if branch is not None:
                side = 1 - branch.branch if dead_branch else branch.branch
                handle = nodes.switch_beside(stack, self._recalled_pred(branch))[side]
            popped: Tensor = registry.get("StackPopV2")(handle, elem_type=value.dtype.base_dtype)
            popped.set_shape(value.raw_shape)
        if self.context.parallel_iterations > 1:
            self.sync._add_control_input(popped.op)
        return popped

    def _recalled_pred(self, branch: CondContext) -> Tensor:
        level: LoopGradient | None = self
        while level is not None:
            if branch.pred in level.history:
                return level.history[branch.pred]
            level = level.outer
        return branch.pred

    def branch_pred(self, pred: Tensor) -> Tensor:
        """The predicate of a cond of the forward loop, as it was in the iteration that is differentiated."""
        real = self.history.get(pred)
        if real is None:
            with self.context.left():
                stack = self.remember(pred)
            real = self.history[pred] = self.recall(stack, pred)
        return real

    # -- sums over the iterations ---------------------------------------------------------------------

    def summed(self, enter: Operation, grad: Any) -> Any:
        """The sum over all iterations of `grad`, the gradient of the invariant that `enter` brings in."""
        if isinstance(grad, IndexedSlices):
            return self._summed_slices(enter, grad)
        context = self.context
        with context.left():
            start = self._zeros_of(enter.inputs[0], grad)
        assert context.pivot is not None
        context.know(start)
        entered = context.enter(start, name="b_acc")
        context.enters.append(entered)
        merged = nodes.merge([entered, entered], "b_acc")[0]
        ended, going = nodes.switch(merged, context.pivot)
        total = nodes.next_iteration(registry.get("AddV2")(going, grad, name="Add"))
        merged.op._set_input(1, total)
        return self._left(ended, "b_acc")

    def _left(self, ended: Tensor, name: str | None = None) -> Tensor:
        result: Tensor = nodes.leave(ended, name)
        self.context.exits.append(result)
        self.context.know_outside(result)
        return result

    def finished(self, grad: Tensor) -> Tensor:
        """The gradient of what a loop variable started from."""
        result: Tensor = nodes.leave(grad)
        self.context.exits.append(result)
        self.context.know_outside(*nodes.tensors_of(result))
        return result

    def _zeros_of(self, value: Tensor, grad: Tensor) -> Tensor:
        """What a sum of `grad`, the gradient of `value`, starts from."""
        context = self.context
        shape = nodes.known_shape(grad)
        if shape is not None:
            with inside(context.outer):
                return nodes.constant(0, grad.dtype, shape, "b_acc")
        if self.outer is not None and context.outer is self.outer.context:
            with inside(self.forward.outer):
                sizes = nodes.shape_of(value)
            stack = self.outer.remember(sizes)
            with inside(context.outer):
                return nodes.zeros(self.outer.recall(stack, sizes), grad.dtype)
        with inside(context.outer):
            return nodes.zeros(nodes.shape_of(value), grad.dtype)

    def _summed_slices(self, enter: Operation, grad: IndexedSlices) -> IndexedSlices:
        """The rows of all iterations, one after another, behind a row of zeros."""
        context = self.context
        with context.left():
            start = self._empty_slices(enter.inputs[0], grad)
        parts = [start.indices, start.values]
        news = [grad.indices, grad.values]
        if start.dense_shape is not None:
            parts.append(start.dense_shape)
            news.append(grad.dense_shape)  # type: ignore[arg-type]
        assert context.pivot is not None
        context.know(*parts)
        entered = [context.enter(part, keep_shape=False, name="b_acc") for part in parts]
        entered[0].set_shape([None])
        if start.values.raw_shape is not None:
            entered[1].set_shape([None, *start.values.raw_shape[1:]])
        context.enters.extend(entered)
        merged = [nodes.merge([part, part], "b_acc")[0] for part in entered]
        switched = [nodes.switch(part, context.pivot) for part in merged]
        grown = [
            registry.get("ConcatV2")([pair[1], new], 0, name="concat")
            for pair, new in zip(switched[:2], news[:2], strict=True)
        ]
        if len(news) > 2:
            grown.append(registry.get("Maximum")(news[2], switched[2][1]))
        following = [nodes.next_iteration(part) for part in grown]
        for start_of, end in zip(merged, following, strict=True):
            start_of.op._set_input(1, end)
        left = [nodes.leave(pair[0], "b_acc") for pair in switched]
        context.exits.extend(left)
        context.know_outside(*left)
        return IndexedSlices(left[1], left[0], left[2] if len(left) > 2 else None)

    def _empty_slices(self, value: Tensor, grad: IndexedSlices) -> IndexedSlices:
        with inside(self.context.outer):
            shape = nodes.known_shape(grad.values)
            if shape is not None:
                with inside(self.context.outer):
                    values = nodes.constant(0, grad.values.dtype, (1, *shape[1:]), "b_acc")
            else:
                held = behind(value)
                sizes: Any
                if held is not None and is_fully_defined(held[1]):
                    assert held[1] is not None
                    sizes = np.array(held[1][1:], np.int32)
                else:
                    sizes = nodes.shape_of(value)[1:]
                sizes = registry.get("ConcatV2")([[1], sizes], 0, name="concat")
                values = nodes.zeros(sizes, grad.values.dtype)
            indices = nodes.constant(0, grad.indices.dtype, (1,))
            dense = None
            if grad.dense_shape is not None:
                size = nodes.known_shape(grad.dense_shape)
                if size is not None:
                    dense = nodes.constant(0, grad.dense_shape.dtype, size)
                else:
                    dense = nodes.zeros_like(nodes.shape_of(value, grad.dense_shape.dtype))
        return IndexedSlices(values, indices, dense)


def _branch_between(value: Tensor, around: Context | None) -> CondContext | None:
    """The innermost branch that `value` is in and `around` is not."""
    context = context_of(value.op)
    while context is not None and context is not around:
        if isinstance(context, CondContext):
            return context
        context = context.outer
    return None


class LoopGradients:
    """All loops that one call of `gradients` goes through."""

    def __init__(self) -> None:
        self._by_loop: dict[WhileContext, LoopGradient] = {}

    def __bool__(self) -> bool:
        return bool(self._by_loop)

    def of_exit(self, op: Operation) -> LoopGradient:
        """That of the loop that the Exit `op` leaves."""
        loop = loop_of(op)
        assert loop is not None
        return self._by_loop[loop]

    def add_loop(self, op: Operation) -> list[Operation]:
        """Take in the loop that the Exit `op` leaves; returns all its Exits if it is new."""
        forward = loop_of(op)
        if forward is None:
            raise ValueError(
                f"the loop that {op.name!r} leaves came from a GraphDef, which does not say enough of loops to "
                "differentiate them; build it with tf.while_loop"
            )
        if forward in self._by_loop:
            return []
        around = None if forward.outer is None else forward.outer.enclosing_loop
        outer = None if around is None else self._by_loop.get(around)
        made = self._by_loop[forward] = LoopGradient(forward, outer)
        return [tensor.op for tensor in made.exits]

    def unused_exits(self, pending: dict[Operation, int], ys: Iterable[Operation]) -> list[Tensor]:
        """Exits that no y depends on, of loops of which all other Exits are ys; counts the others off."""
        targets = set(ys)
        found: list[Tensor] = []
        for loop in self._by_loop.values():
            for exit_ in loop.exits:
                if not pending.get(exit_.op):
                    loop.pending_exits -= 1
                    if exit_.op not in targets:
                        loop.unused_exits.append(exit_)
                    if loop.pending_exits == 0:
                        found.extend(loop.unused_exits)
            for entered in (t for value in loop.forward.enters for t in nodes.tensors_of(value)):
                if not pending.get(entered.op):
                    pending[entered.op] = 1
        return found

    def _around(self, op: Operation, *, outputs: bool) -> LoopGradient | None:
        if outputs:
            context = output_context(op)
            loop = None if context is None else context.enclosing_loop
        else:
            loop = loop_of(op)
        return None if loop is None else self._by_loop.get(loop)

    def entered(self, op: Operation, *, outputs: bool = False) -> AbstractContextManager[None]:
        """In the gradient of the loop around `op`, or around its outputs; nowhere if it is in none."""
        found = self._around(op, outputs=outputs)
        return inside(None if found is None else found.context)

    # -- zeros ------------------------------------------------------------------------------------

    def zeros_for_exit(self, value: Tensor) -> Tensor:
        """Zeros for an Exit that no gradient arrives at, in the gradient of the loop around its loop."""
        forward = loop_of(value.op)
        assert forward is not None
        around = None if forward.outer is None else forward.outer.enclosing_loop
        outer = None if around is None else self._by_loop.get(around)
        shape = nodes.known_shape(value)
        if outer is None:
            return nodes.zeros_like(value) if shape is None else nodes.zeros(shape, value.dtype)
        if shape is not None:
            with outer.context.entered():
                return nodes.zeros(shape, value.dtype)
        with inside(forward.outer):
            sizes = nodes.shape_of(value)
        stack = outer.remember(sizes)
        with outer.context.entered():
            return nodes.zeros(outer.recall(stack, sizes), value.dtype)

    def zeros_for_output(self, op: Operation, index: int) -> Tensor | None:
        """Zeros for an output that no gradient arrives at; None if there is no need for any.

        (A Switch of a loop needs none, nor does a handle whose variable is unknown.)
        """
        value = op.outputs[index]
        if is_loop_switch(op) or (value.dtype is dtypes.resource and behind(value) is None):
            return None
        loop = loop_of(op)
        found = None if loop is None else self._by_loop.get(loop)
        if found is None:
            return zeros_for(op, index)
        branch = context_of(op) if SWITCH in op.traits else None
        shape = nodes.known_shape(value)
        if shape is not None:
            of_variable = value.dtype is dtypes.resource
            zero = nodes.zeros_like(value) if of_variable else nodes.constant(0, value.dtype, shape)
            if isinstance(branch, CondContext):
                pred = found.history[branch.pred]
                zero = nodes.switch_beside(zero, pred)[1 - branch.branch]
            return zero
        sizes = self._recorded_shape(op, value, branch)
        with found.context.left():
            stack = found.remember(sizes, dead_branch=branch is not None)
        return nodes.zeros(found.recall(stack, sizes, dead_branch=branch is not None), value.dtype)

    def _recorded_shape(self, op: Operation, value: Tensor, branch: Context | None) -> Tensor:
        """The shape of `value` as a node of the forward loop; of a Switch, where the other branch runs."""
        if not isinstance(branch, CondContext):
            with inside(context_of(op)):
                return nodes.shape_of(value)
        with inside(branch.outer):
            other = nodes.switch_beside(op.inputs[0], branch.pred)[1 - branch.branch]
            sizes = nodes.shape_of(other)
        other.op._control_flow_context = branch
        sizes.op._control_flow_context = branch
        return sizes

    def finish(self) -> None:
        """Close what is left open: variables whose next value does not depend on their value."""
        for loop in self._by_loop.values():
            for merged in loop.switches.values():
                for tensor in nodes.tensors_of(merged):
                    if tensor.op.inputs[0] is tensor.op.inputs[1]:
                        self._close(loop, tensor)

    def _close(self, loop: LoopGradient, merged: Tensor) -> None:
        """The gradient is zero in all iterations but the last."""
        entered = merged.op.inputs[0]
        shape = nodes.known_shape(entered)
        if shape is None:
            with inside(loop.context.outer):
                zero = nodes.zeros(nodes.shape_of(entered.op.inputs[0]), entered.dtype)
            with loop.context.entered():
                following = nodes.next_iteration(zero)
        else:
            with loop.context.entered():
                following = nodes.next_iteration(nodes.constant(0, entered.dtype, shape))
        merged.op._set_input(1, following)


def zeros_for(op: Operation, index: int) -> Tensor:
    """Zeros for an output that no gradient arrives at, outside loops."""
    value = op.outputs[index]
    branch = context_of(op)
    if SWITCH not in op.traits:
        return _zeros_outside_branches(value)
    if not isinstance(branch, CondContext):
        return nodes.zeros_like(value)
    other = nodes.switch(op.inputs[0], branch.pred)[1 - branch.branch]
    pivot = nodes.identity(other)
    known = behind(value)
    if known is not None:
        with op.graph.control_dependencies([pivot]):
            return nodes.zeros(nodes.shape_of(other), known[0])
    sizes = nodes.shape_of(other)
    with op.graph.control_dependencies([pivot]):
        return nodes.zeros(sizes, value.dtype)


def _zeros_outside_branches(value: Tensor) -> Tensor:
    """Zeros for `value`; where those would be kept for every iteration, of its shape alone."""
    known = behind(value)
    if known is not None:
        return nodes.zeros(nodes.shape_of(value), known[0])
    if not value.graph.is_loop_body or value.dtype is dtypes.variant:
        return nodes.zeros_like(value)
    shape = nodes.known_shape(value)
    if shape is not None:
        return nodes.constant(0, value.dtype, shape)
    return nodes.zeros(nodes.shape_of(value), value.dtype)
