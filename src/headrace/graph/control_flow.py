"""Where a node is made: in a branch of a cond, in a loop, in one inside the other.

While a context is in force (`Context.entered`), the graph hands it every new node (`add_op`).  The context sees to it
that the node runs where it belongs: inputs from outside get a Switch (branches) or an Enter (loops), nodes without
inputs wait for the context's pivot, and control inputs from outside a loop are replaced.
Called by: Graph.add_operation, graph.while_context, graph.loop_gradients, graph.gradients, ops.flow.control_flow.
Threads: as graph.
Source of the rules: GraphDefs of TensorFlow 2.21 with control flow v1, node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.base.traits import ENTER, EXIT, SWITCH
from headrace.graph import flow_nodes as nodes
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.loop_gradients import LoopGradient
    from headrace.graph.while_context import WhileContext


class Context:
    """A branch or a loop: the tensors that can be used in it, and what stands in it for tensors from outside.

    nested: the contexts directly inside.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.outer: Context | None = graph._control_flow_context
        self.nested: list[Context] = []
        if self.outer is not None:
            self.outer.nested.append(self)
        self._known: set[Tensor] = set()
        self._inside: dict[Tensor, Tensor] = {}
        self._came_from: list[Context | None] = []

    @property
    def enclosing_loop(self) -> WhileContext | None:
        """The innermost loop that this is in, itself if it is one."""
        return None if self.outer is None else self.outer.enclosing_loop

    @property
    def back_prop(self) -> bool:
        """Whether gradients may be asked of the loop around."""
        loop = self.enclosing_loop
        return loop is not None and loop.back_prop

    @property
    def gradient(self) -> LoopGradient | None:
        """What this context's loop is the gradient of; None for what users wrote."""
        loop = self.enclosing_loop
        return None if loop is None else loop.gradient

    @property
    def control_pivot(self) -> Tensor | None:
        """What nodes without inputs wait for."""
        raise NotImplementedError

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Nodes made inside belong to this context."""
        self._came_from.append(self.graph._control_flow_context)
        self.graph._control_flow_context = self
        try:
            yield
        finally:
            self.graph._control_flow_context = self._came_from.pop()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Nodes made inside belong to where this context was entered from."""
        here = self.graph._control_flow_context
        self.graph._control_flow_context = self._came_from[-1]
        try:
            yield
        finally:
            self.graph._control_flow_context = here

    def know(self, *values: Any) -> None:
        """These can be used here as they are."""
        for value in values:
            self._known.update(nodes.tensors_of(value))

    def know_outside(self, *values: Any) -> None:
        """The results of this context can be used in the one around it."""
        if self.outer is not None:
            self.outer.know(*values)

    def values(self) -> tuple[set[Tensor], dict[Tensor, Tensor]]:
        """What can be used here, and what stands here for tensors from outside."""
        return self._known, self._inside

    def recall(self, known: Iterable[Tensor], inside: Mapping[Tensor, Tensor]) -> None:
        """Be the context that `values` told these of, in a graph that has its nodes already."""
        self._known.update(known)
        self._inside.update(inside)
        for tensor in self._known:
            if tensor not in inside:
                tensor.op._control_flow_context = self

    def add_op(self, op: Operation) -> None:
        """Make `op`, which is new, a node of this context or of one that it belongs to."""
        self.adopt(op)

    def adopt(self, op: Operation) -> None:
        """Make `op` a node of this context."""
        raise NotImplementedError

    def add_value(self, value: Tensor) -> Tensor:
        """What to use here for `value`, which may be from outside."""
        raise NotImplementedError

    def _replace_inputs(self, op: Operation) -> None:
        for index, tensor in enumerate(op.inputs):
            # The way back of a loop that is imported here comes later, and from inside.
            if tensor is None:
                continue
            inside = self.add_value(tensor)
            if inside is not tensor:
                op._set_input(index, inside)

    def _drop_outside_controls(self, op: Operation) -> list[Operation]:
        """Take away control inputs from outside the loop around; returns them."""
        loop = self.enclosing_loop
        if loop is None:
            return []
        inside: list[Operation] = []
        outside: list[Operation] = []
        for control in op.control_inputs:
            context = output_context(control)
            here = context is not None and context.enclosing_loop is loop
            (inside if here else outside).append(control)
        if outside:
            op._remove_all_control_inputs()
            op._add_control_inputs(inside)
        return outside

    def _hide(self, op: Operation) -> None:
        """What is inside cannot be fetched; the results of an outermost loop can."""
        if self.outer is not None or EXIT not in op.traits:
            self.graph.prevent_fetching(op)


class CondContext(Context):
    """One branch of a cond: `branch` 1 runs where `pred` is true, 0 where it is false."""

    def __init__(
        self,
        graph: Graph,
        pred: Tensor,
        pivot: Tensor,
        branch: int,
        imported_name: str | None = None,
    ) -> None:
        """`pivot`: a tensor that is alive when the branch is.  imported_name: as another graph named it."""
        super().__init__(graph, imported_name or graph.unique_name("cond_text"))
        self.pred = pred
        self.pivot = pivot
        self.branch = branch
        self.know(pred, pivot)
        self._inside[pred] = pred
        pivot.op._control_flow_context = self

    @property
    def control_pivot(self) -> Tensor:
        """What runs if, and only if, this branch is taken."""
        return self.pivot

    def adopt(self, op: Operation) -> None:
        """See `Context.adopt`."""
        if op.inputs:
            self._replace_inputs(op)
            self._drop_outside_controls(op)
        else:
            self._drop_outside_controls(op)
            if not any(is_in(control, self) for control in op.control_inputs):
                op._add_control_input(self.pivot.op)
        self._know_everywhere(op.outputs)
        self._hide(op)

    def _know_everywhere(self, tensors: list[Tensor]) -> None:
        context: Context | None = self
        while context is not None:
            context._known.update(tensors)
            context = context.outer

    def add_value(self, value: Tensor) -> Tensor:
        """See `Context.add_value`: a Switch per value from outside and branch."""
        if value in self._known:
            return self._inside.get(value, value)
        self._known.add(value)
        outside = self._from_outer(value)
        with self.graph.control_dependencies(None):
            inside: Tensor = nodes.switch_beside(outside, self.pred)[self.branch]
        self.graph.prevent_fetching(inside.op)
        inside.op._control_flow_context = self
        self._know_everywhere([inside])
        self._inside[value] = inside
        return inside

    def _from_outer(self, value: Tensor) -> Tensor:
        if self.outer is None:
            return value
        outside = self.outer.add_value(value)
        self._known.add(outside)
        self._inside[outside] = outside
        return outside

    def result(self, value: Tensor) -> Tensor:
        """`value` as the branch's result: through a Switch if it is from outside."""
        if value in self._known:
            return self._inside.get(value, value)
        self._known.add(value)
        switched: Tensor = nodes.switch_beside(self._from_outer(value), self.pred)[self.branch]
        self._inside[value] = switched
        return switched


# -- where a node is ----------------------------------------------------------------------------


def context_of(op: Operation) -> Context | None:
    """The context that `op` was made in."""
    found: Context | None = op._control_flow_context
    return found


def output_context(op: Operation) -> Context | None:
    """The context in which the outputs of `op` can be used: of an Exit, the one around its loop."""
    context = context_of(op)
    return context.outer if context is not None and EXIT in op.traits else context


def loop_of(op: Operation) -> WhileContext | None:
    """The innermost loop that `op` is in."""
    context = context_of(op)
    return None if context is None else context.enclosing_loop


def is_in(op: Operation, context: Context) -> bool:
    """Whether the outputs of `op` belong to `context` or to one inside it."""
    found = output_context(op)
    while found is not None and found is not context:
        found = found.outer
    return found is context


def encloses(outer: Context | None, inner: Context | None) -> bool:
    """Whether `inner` is `outer` or in it; None is everywhere around."""
    while inner is not outer:
        if inner is None:
            return False
        inner = inner.outer
    return True


def is_loop_switch(op: Operation) -> bool:
    """Whether `op` is the Switch of a loop variable."""
    if SWITCH not in op.traits:
        return False
    context = context_of(op)
    return context is not None and context is context.enclosing_loop and not is_cond_switch(op)


def is_cond_switch(op: Operation) -> bool:
    """Whether `op` brings a value into a branch: all who use it are in branches."""
    if SWITCH not in op.traits:
        return False
    for user in (user for tensor in op.outputs for user in tensor._consumers):
        context = context_of(user)
        if context is not None and ENTER in user.traits:
            context = context.outer
        if not isinstance(context, CondContext):
            return False
    return True


def check_inputs(op: Operation) -> None:
    """Raise ValueError if `op` takes a value out of a loop that it is not in."""
    for tensor in op.inputs:
        if (
            tensor is not None
            and tensor.op._control_flow_context is not None
            and not _can_use(op, tensor.op)
        ):
            loop = output_context(tensor.op).enclosing_loop  # type: ignore[union-attr]
            here = context_of(op)
            apart = here is not None and here.enclosing_loop is not None
            why = (
                "they are in different while loops"
                if apart
                else f"{tensor.op.name!r} is in a while loop"
            )
            raise ValueError(
                f"Cannot use {tensor.op.name!r} as input to {op.name!r} because {why}, {loop.name!r}; "  # type: ignore[union-attr]
                "make it a loop variable and use what tf.while_loop returns"
            )


def _can_use(op: Operation, source: Operation) -> bool:
    here, there = context_of(op), output_context(source)
    if there is None or here is there:
        return True
    mine = None if here is None else here.enclosing_loop
    theirs = there.enclosing_loop
    if mine is None:
        # A value of a branch: the step says so if that branch is not taken.
        return theirs is None or ENTER in op.traits or SWITCH in op.traits
    if encloses(theirs, mine):
        return True
    forward = None if mine.gradient is None else mine.gradient.forward
    if forward is not None and (encloses(theirs, forward) or theirs.outer is forward):  # type: ignore[union-attr]
        return True
    return _is_gradient_of(theirs, mine)


def _is_gradient_of(theirs: WhileContext | None, mine: WhileContext) -> bool:
    """Whether `theirs` is the gradient of `mine`, or the gradient of its gradient."""
    for _ in range(2):
        if theirs is None or theirs.gradient is None:
            return False
        theirs = theirs.gradient.forward
        if theirs is mine:
            return True
    return False
