"""WhileContext: a loop in the graph, from its Enters to its Exits.

A loop is built in three steps, inside `entered`: `open` makes the loop variables, `test` takes the predicate and gives
what the body starts from, `close` takes what the body made and gives the results:

    Enter -> Merge -> Switch -> (false) Exit
               ^        | (true)
               |        v
      NextIteration <- body

Called by: ops.flow.control_flow, graph.loop_gradients.  Threads: as graph.
Source of names and wiring: GraphDefs of TensorFlow 2.21 with control flow v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.base.traits import EXIT, OF_SHAPE
from headrace.graph import flow_nodes as nodes
from headrace.graph.control_flow import Context, context_of, loop_of, output_context
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.loop_gradients import LoopGradient


class WhileContext(Context):
    """A loop.  `name` is its frame's; `gradient` says what it is the gradient of, if it is one."""

    def __init__(
        self,
        graph: Graph,
        *,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        maximum_iterations: Any = None,
        name: str = "while_context",
        imported_name: str | None = None,
        gradient: LoopGradient | None = None,
    ) -> None:
        """imported_name: as another graph named it, instead of one that is new."""
        super().__init__(graph, imported_name or graph.unique_name(name))
        self.parallel_iterations = parallel_iterations
        self.swap_memory = swap_memory
        self.maximum_iterations = maximum_iterations
        self.pivot: Tensor | None = None  # the LoopCond
        self.pivot_for_pred: Tensor | None = None
        self.pivot_for_body: Tensor | None = None
        self.enters: list[Any] = []
        self.exits: list[Any] = []
        self._back_prop = back_prop
        self._gradient = gradient
        self._merges: list[Tensor] = []
        self._switches: list[tuple[Tensor, Tensor]] = []

    @property
    def enclosing_loop(self) -> WhileContext:
        """Itself."""
        return self

    @property
    def back_prop(self) -> bool:
        """Whether gradients go through it: then what they need of each iteration is kept."""
        return self._back_prop

    @property
    def gradient(self) -> LoopGradient | None:
        """The loop of whose gradient this is a part; None for a loop of the program."""
        return self._gradient

    @property
    def control_pivot(self) -> Tensor | None:
        """What runs once an iteration: in the body if one is begun, else beside the predicate."""
        return self.pivot_for_pred if self.pivot_for_body is None else self.pivot_for_body

    # -- building -----------------------------------------------------------------------------

    def open(self, values: Sequence[Tensor], invariants: Sequence[Shape] | None) -> list[Tensor]:
        """The loop variables at the start of an iteration; `values` are what they start from.

        invariants: a shape for each that all iterations keep to; None: that of the value.
        Raises ValueError if a value does not have its invariant's shape.
        """
        self._known.clear()
        self.know(*values)
        if self.outer is not None:
            values = [self.outer.add_value(value) for value in values]
        with self.graph.control_dependencies(None):
            self.enters = [self.enter(value, keep_shape=invariants is None) for value in values]
        if invariants is not None:
            for value, entered, shape in zip(values, self.enters, invariants, strict=True):
                _set_invariant(value, entered, shape)
        for entered in self.enters:
            self.graph.prevent_feeding(entered)
        self._order_invariants(self.enters)
        self._settle(self.enters)
        self._known.clear()
        self.know(*self.enters)
        self._merges = [nodes.merge([value, value])[0] for value in self.enters]
        self.pivot_for_pred = self._merges[0]
        return self._merges

    def test(self, pred: Tensor) -> list[Tensor]:
        """The loop variables where the body starts: after `pred`, whether there is one more iteration."""
        self.pivot = nodes.loop_cond(pred, "LoopCond")
        self._switches = [nodes.switch_beside(value, self.pivot) for value in self._merges]
        inside = [nodes.identity(pair[1]) for pair in self._switches]
        self.pivot_for_body = inside[0]
        return inside

    def close(self, results: Sequence[Tensor]) -> list[Tensor]:
        """The loop variables after the last iteration; `results` are what the body makes of them.

        Raises ValueError (a shape that changes), TypeError (a dtype that does).
        """
        for merged, result in zip(self._merges, results, strict=True):
            add_back_edge(merged, result)
        self.exits = [nodes.leave(pair[0]) for pair in self._switches]
        self.know_outside(*self.exits)
        return self.exits

    def enter(
        self,
        value: Any,
        *,
        keep_shape: bool = True,
        is_constant: bool = False,
        name: str | None = None,
    ) -> Any:
        """An Enter of this loop."""
        return nodes.enter(
            value,
            self.name,
            is_constant=is_constant,
            parallel_iterations=self.parallel_iterations,
            keep_shape=keep_shape,
            name=name,
        )

    def _order_invariants(self, entered: Sequence[Tensor]) -> None:
        """A loop variable that starts from an invariant of the loop around starts once an iteration of that."""
        pivot, context = None, self.outer
        while context is not None and pivot is None:
            pivot, context = context.control_pivot, context.outer
        if pivot is not None:
            for tensor in entered:
                if nodes.is_constant_enter(tensor.op.inputs[0].op):
                    tensor.op._add_control_input(pivot.op)

    def _settle(self, entered: Sequence[Tensor]) -> None:
        """Enters belong to this loop, and wait for control inputs in force that are in no loop between."""
        for tensor in entered:
            wanted = self.graph._scope_controls(list(tensor.op.inputs))
            tensor.op._add_control_inputs([op for op in wanted if self._is_around(op)])
            tensor.op._control_flow_context = self
            self.graph._seen_by_controls(tensor.op)

    def _is_around(self, op: Operation) -> bool:
        target = output_context(op)
        boundary = None if self.outer is None else self.outer.enclosing_loop
        context = self.outer
        while context is not target:
            if context is None or context is boundary:
                return False
            context = context.outer
        return True

    # -- nodes made inside ----------------------------------------------------------------------

    def add_op(self, op: Operation) -> None:
        """See `Context.add_op`."""
        home = self._forward_home(op)
        if home is None:
            self.adopt(op)
        else:
            op._control_flow_context = home
            home.adopt(op)

    def _forward_home(self, op: Operation) -> Context | None:
        """In a gradient, the shape of a value of the forward loop is taken there: it is less to remember."""
        if OF_SHAPE not in op.traits or op.spec is None or not op.spec.single_inputs:
            return None
        gradient = self._current_gradient()
        if gradient is None or loop_of(op.inputs[0].op) is not gradient.forward:
            return None
        return context_of(op.inputs[0].op)

    def _current_gradient(self) -> LoopGradient | None:
        context: Context | None = self.graph._control_flow_context
        return None if context is None else context.gradient

    def adopt(self, op: Operation) -> None:
        """Make `op` a node of this loop."""
        self._replace_inputs(op)
        outside = self._drop_outside_controls(op)
        if not op.control_inputs and all(
            nodes.is_constant_enter(tensor.op) for tensor in op.inputs
        ):
            # What hangs on invariants alone would run once more, after the last iteration.
            assert self.control_pivot is not None
            op._add_control_input(self.control_pivot.op)
        self._known.update(op.outputs)
        if outside:
            op._add_control_inputs(list(self._brought_in(outside)))
        self._hide(op)
        if self.outer is not None or EXIT not in op.traits:
            for tensor in op.outputs:
                self.graph.prevent_feeding(tensor)

    def _brought_in(self, outside: Sequence[Operation]) -> Iterator[Operation]:
        """Control inputs from outside become data inputs; those without outputs cannot, and are dropped."""
        with self.graph.control_dependencies(None), self.entered():
            for control in outside:
                if control.outputs:
                    yield nodes.identity(control.outputs[0]).op

    def add_value(self, value: Tensor) -> Tensor:
        """See `Context.add_value`: an Enter per invariant, or in a gradient what the forward loop remembers."""
        if value in self._known or context_of(value.op) is self:
            return self._inside.get(value, value)
        self._known.add(value)
        gradient = self._current_gradient()
        if gradient is not None and _loop_of_output(value) is gradient.forward:
            real = gradient.real_value(value)
            self._inside[value] = real
            return real
        outside = value if self.outer is None else self.outer.add_value(value)
        with self.graph.control_dependencies(None):
            entered: Tensor = self.enter(outside, is_constant=True)
        self.graph.prevent_feeding(entered)
        self._settle([entered])
        self._known.add(entered)
        self._inside[value] = entered
        return entered


def _loop_of_output(tensor: Tensor) -> WhileContext | None:
    context = output_context(tensor.op)
    return None if context is None else context.enclosing_loop


def add_back_edge(merged: Any, result: Any, *, check_shape: bool = True) -> None:
    """From the end of an iteration to the start of the next, for one loop variable."""
    following = nodes.next_iteration(result)
    for start, end in zip(nodes.tensors_of(merged), nodes.tensors_of(following), strict=True):
        if check_shape:
            _check_kept(start, end)
        start.op._set_input(1, end)


def _check_kept(start: Tensor, end: Tensor) -> None:
    entered = start.op.inputs[0].op.inputs[0]
    if start.dtype.base_dtype != end.dtype.base_dtype:
        raise TypeError(
            f"the loop variable {entered.name} enters the loop as {start.dtype.base_dtype.name} and is "
            f"{end.dtype.base_dtype.name} after one iteration; tf.cast converts"
        )
    if not within(end.raw_shape, start.raw_shape):
        raise ValueError(
            f"Input tensor {entered.name!r} enters the loop with shape {start.shape}, but has shape {end.shape} "
            "after one iteration: say with shape_invariants how the loop variable may vary"
        )


def within(shape: Shape, limit: Shape) -> bool:
    """Whether all that `limit` says of a shape is known of `shape`."""
    if limit is None:
        return True
    if shape is None or len(shape) != len(limit):
        return False
    return all(wanted is None or wanted == size for size, wanted in zip(shape, limit, strict=True))


def check_start(outside: Tensor, shape: Shape) -> None:
    """Raises ValueError: a loop variable begins with what `shape`, that it is to have, does not allow."""
    if not within(outside.raw_shape, shape):
        raise ValueError(
            f"The shape invariant specified for {outside.name} is not compatible with the initial shape of the loop "
            f"variable: it starts with {shape_rules.text(outside.raw_shape)}, not within {shape_rules.text(shape)}"
        )


def _set_invariant(outside: Tensor, inside: Tensor, shape: Shape) -> None:
    check_start(outside, shape)
    inside._raw = shape
