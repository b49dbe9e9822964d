"""while_loop as one node, While, whose condition and body are functions; and its gradient, another one.

What an iteration of the gradient needs of its forward iteration goes into lists, which are more variables of the
forward loop: each iteration pushes a value, the gradient's pop them, last one first.  Nothing is computed twice.
Called by: ops.flow.control_flow, graph.gradients.  Threads: as graph.
Source: TF 1.15 python/ops/while_v2.py, for behaviour; node and function names as 2.21, compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import CONST, IDENTITY
from headrace.graph import flow_nodes as nodes
from headrace.graph import registry, scopes
from headrace.graph.build import apply_op
from headrace.graph.const_value import const_array
from headrace.graph.convert import convert
from headrace.graph.flow_graphs import (
    READ_ONLY,
    FlowGraph,
    after_captures,
    function_graph,
    function_name,
    is_stateful,
    tells_sizes,
    trace,
)
from headrace.graph.gradients import UnconnectedGradients, gradients, is_trainable
from headrace.graph.graph import Graph, Operation
from headrace.graph.handles import stands_for
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.graph.while_context import check_start, within
from headrace.ops.data.tensor_list_calls import empty_tensor_list
from headrace.ops.flow.functional import stateless_while_op, while_op
from headrace.ops.flow.functional_cond import squeezed
from headrace.ops.flow.identities import identity
from headrace.ops.math.comparisons import less, logical_and

Function = Callable[..., Any]
_COUNTERS = 2  # variables of its own that a loop has before the caller's: the count, the most that it may be


def functional_while(
    cond: Function,
    body: Function,
    tensors: Sequence[Tensor],
    shapes: Sequence[Shape],
    *,
    parallel_iterations: int,
    maximum_iterations: Any,
    name: str | None,
) -> list[Tensor]:
    """What the loop variables are in the end.

    cond, body: of tensors; body returns as many.  shapes: that variables have in every iteration.
    """
    graph = scopes.get_default_graph()
    for tensor, shape in zip(tensors, shapes, strict=True):
        check_start(tensor, shape)
    with name_scope(name or "while", None, []) as scope:
        cond_name = function_name(scope, "cond", graph)
        body_name = function_name(scope, "body", graph)
        limited = maximum_iterations is not None
        most = convert(maximum_iterations if limited else -1, dtypes.int32, "maximum_iterations")
        count = nodes.constant(0, dtypes.int32, name="loop_counter")
        variables = [count, most, *tensors]
        known = [(), (), *shapes]
        automatic = getattr(graph, "automatic_dependencies", False)
        conditions = _with_arguments(FlowGraph(cond_name), variables, known)

        def goes_on(count: Tensor, most: Tensor, *values: Tensor) -> Tensor:
            pred = squeezed(cond(*values))
            return logical_and(count < most, pred) if limited else pred

        trace(conditions, goes_on, conditions.arguments, automatic=automatic)
        bodies = _with_arguments(FlowGraph(body_name), variables, known)
        bodies.is_loop_body = True

        def again(count: Tensor, most: Tensor, *values: Tensor) -> list[Tensor]:
            for tensor in conditions.external_captures:
                bodies.capture(tensor)
            found = body(*values)
            return [count + 1, most, *found]

        trace(bodies, again, bodies.arguments, automatic=automatic)
        _check(tensors, shapes, bodies.outputs[_COUNTERS:])
        variables += bodies.external_captures
        bodies.outputs.extend(bodies.internal_captures)
        _take_the_same(conditions, bodies)
        op = _node(variables, conditions, bodies, [*known], parallel_iterations, scope)
        results = list(op.outputs)
        if not graph.building_function:
            results = [identity(tensor) for tensor in results]
        return results[_COUNTERS : _COUNTERS + len(tensors)]


def _with_arguments(
    graph: FlowGraph, variables: Sequence[Tensor], shapes: Sequence[Shape]
) -> FlowGraph:
    """The graph with an argument for each loop variable."""
    for at, (tensor, shape) in enumerate(zip(variables, shapes, strict=True)):
        own = tensor.op.name if at < _COUNTERS else None
        argument = graph.add_argument(
            tensor.dtype.base_dtype, TensorShape(shape), own or "Placeholder"
        )
        if own:
            argument.op.attrs["_user_specified_name"] = own.encode()
        stands_for(argument, tensor)
    return graph


def _check(tensors: Sequence[Tensor], shapes: Sequence[Shape], results: Sequence[Tensor]) -> None:
    """Raises TypeError, ValueError: after an iteration a variable is of another dtype, or has another shape."""
    for tensor, shape, result in zip(tensors, shapes, results, strict=True):
        if not within(result.raw_shape, shape):
            raise ValueError(
                f"Input tensor `{tensor.name}` enters the loop with shape {shape_rules.text(shape)}, but has shape "
                f"{result.shape} after one iteration. shape_invariants says how it may vary"
            )
    for tensor, result in zip(tensors, results, strict=True):
        if tensor.dtype.base_dtype is not result.dtype.base_dtype:
            raise TypeError(
                f"Loop var {tensor.name} enters the loop with type {tensor.dtype.base_dtype!r} but has type "
                f"{result.dtype.base_dtype!r} after 1 iteration. {tensor.name} type should remain constant; tf.cast "
                "converts"
            )


def _take_the_same(conditions: FlowGraph, bodies: FlowGraph) -> None:
    """Give the condition an argument for all that the body takes from outside."""
    prefix = conditions.unique_name(f"{conditions.name}___redundant_placeholder", False)
    missing = [tensor for tensor in bodies.external_captures if tensor not in conditions.captured]
    for at, tensor in enumerate(missing):
        inside = conditions._placeholder(
            tensor.dtype.base_dtype, TensorShape(None), f"{prefix}{at}"
        )
        conditions.captured[tensor] = inside


def _node(
    variables: Sequence[Tensor],
    conditions: FlowGraph,
    bodies: FlowGraph,
    shapes: Sequence[Shape],
    parallel_iterations: int,
    name: str,
) -> Operation:
    spec = while_op if is_stateful((conditions, bodies)) else stateless_while_op
    rest = [tensor._raw for tensor in bodies.outputs[len(shapes) :]]
    read_only = conditions.read_only_inputs() & bodies.read_only_inputs()
    with after_captures((conditions, bodies)):
        op = apply_op(
            spec,
            (list(variables),),
            {
                "cond": conditions.add_function(),
                "body": bodies.add_function(),
                "output_shapes": [TensorShape(shape) for shape in [*shapes, *rest]],
                "parallel_iterations": parallel_iterations,
                "_lower_using_switch_merge": True,
                READ_ONLY: sorted(read_only),
                "_num_original_outputs": len(variables),
            },
            name,
        )
    op._flow_graphs = [conditions, bodies]
    for tensor, outside in zip(op.outputs, op.inputs, strict=True):
        stands_for(tensor, outside)
    return op


# -- gradients --------------------------------------------------------------------------------


def _loop_graphs(op: Operation) -> tuple[FlowGraph, FlowGraph]:
    if op._flow_graphs is None:
        shapes = op.attrs["output_shapes"] or [TensorShape(None) for _ in op.inputs]
        op._flow_graphs = [
            function_graph(op, op.attrs[part], op.inputs, shapes=shapes)
            for part in ("cond", "body")
        ]
    conditions, bodies = op._flow_graphs
    bodies.is_loop_body = True
    return conditions, bodies


def _gradient(op: Operation, *grads: Any) -> list[Any]:
    conditions, bodies = _loop_graphs(op)
    for each in (conditions, bodies):
        function = op.graph.library.get(each.name)
        if function is not None:
            function.freeze()
    count = len(bodies.outputs)
    original = op.attrs.get("_num_original_outputs", len(op.outputs))
    given: list[Any] = [
        _initial(grad, result, outside, op.inputs[at])
        for at, (grad, result, outside) in enumerate(
            zip(grads[:original], bodies.outputs[:original], op.outputs[:original], strict=True)
        )
    ]
    given += [None] * (len(op.outputs) - original)
    wanted = [at for at, grad in enumerate(given) if grad is not None]
    backward, arguments = _body_gradient(op, conditions, bodies, given, wanted)
    if backward.extra_inputs:
        _hand_out(op, conditions, bodies, backward, count)
    op._set_attr("_num_original_outputs", len(op.outputs))
    captured = [_outside(op, bodies, tensor) for tensor in backward.external_captures]
    variables = [*arguments, *captured]
    ends = FlowGraph(function_name(f"{conditions.name}_", "grad", scopes.get_default_graph()))
    for tensor in variables:
        stands_for(ends.add_argument(tensor.dtype, tensor.shape, "Placeholder"), tensor)
    trace(ends, lambda at, most, end, *rest: less(at, end), ends.arguments, automatic=True)
    made = _node(
        variables,
        ends,
        backward,
        [tensor._raw for tensor in backward.outputs],
        op["parallel_iterations"],
        f"{op.name}_grad",
    )
    results = [identity(tensor) for tensor in made.outputs]
    found: list[Any] = [None] * len(given)
    for number, at in enumerate(wanted):
        found[at] = results[3 + number]
    return found


while_op.gradient(_gradient)
stateless_while_op.gradient(_gradient)


def _initial(grad: Any, result: Tensor, outside: Tensor, start: Tensor) -> Any:
    """What arrives at a variable's last value, as a tensor; None where no gradient goes through."""
    if not is_trainable(result) or _holds_no_floats(result):
        return None
    if isinstance(grad, IndexedSlices):
        return convert(grad)
    if grad is None and result.dtype in (dtypes.resource, dtypes.variant):
        return nodes.zeros_like(start if result.dtype == dtypes.resource else outside)
    return grad


def _holds_no_floats(tensor: Tensor) -> bool:
    """Whether it is a list, of which the last element was taken, of what has no gradient."""
    kind = tensor.op.attrs.get("element_dtype")
    if tensor.dtype != dtypes.variant or not isinstance(kind, dtypes.DType):
        return False
    return not (kind.is_floating or kind.is_complex or kind in (dtypes.resource, dtypes.variant))


def _body_gradient(
    op: Operation,
    conditions: FlowGraph,
    bodies: FlowGraph,
    given: Sequence[Any],
    wanted: Sequence[int],
) -> tuple[WhileGradient, list[Tensor]]:
    """The body of the gradient's loop, and what its variables begin with."""
    ys = [bodies.outputs[at] for at in wanted]
    xs = [bodies.inputs[at] for at in wanted]
    counter = nodes.constant(0, dtypes.int32, name="grad_counter")
    arguments = [counter, op.inputs[1], op.outputs[0], *(given[at] for at in wanted)]
    name = function_name(f"{bodies.name}_", "grad", scopes.get_default_graph())
    graph = WhileGradient(name, op, conditions, bodies)
    for tensor in arguments:
        stands_for(graph.add_argument(tensor.dtype, tensor.shape, "Placeholder"), tensor)

    def step(at: Tensor, most: Tensor, end: Tensor, *dys: Tensor) -> list[Any]:
        found = gradients(ys, xs, list(dys), unconnected_gradients=UnconnectedGradients.ZERO)
        return [at + 1, most, end, *found]

    trace(graph, step, graph.arguments, automatic=True)
    with graph.as_default():
        graph.outputs = [graph.capture(convert(each)) for each in graph.structured_outputs]
    graph.outputs.extend(graph.passed_on[inside] for inside in graph.internal_captures)
    return graph, arguments


class WhileGradient(FlowGraph):
    """The body of a gradient's loop.

    extra_inputs: lists that begin empty, which the forward loop is to fill.
    passed_on: what the next iteration has in the place of each argument that was captured.
    """

    def __init__(
        self, name: str, forward_op: Operation, conditions: FlowGraph, bodies: FlowGraph
    ) -> None:
        super().__init__(name)
        self.is_loop_body = True
        self._op, self._conditions, self._forward = forward_op, conditions, bodies
        self._found: dict[Tensor, Tensor] = {}
        self._inputs, self._outputs = set(bodies.inputs), set(bodies.outputs)
        self.extra_inputs: list[Tensor] = []
        self.passed_on: dict[Tensor, Tensor] = {}

    def add_operation(
        self, name: str, op_type: str, spec: Any, inputs: Any, *args: Any, **kwargs: Any
    ) -> Operation:
        """As a FuncGraph's; but shapes of forward values are taken in the forward loop: they need less memory."""
        if tells_sizes(spec, inputs, self._forward) and not any(
            tensor in self._forward.handed_out for tensor in inputs
        ):
            forward = self._forward
            with forward.as_default():
                return forward.add_operation(
                    forward._free_name(name, True), op_type, spec, inputs, *args, **kwargs
                )
        return super().add_operation(name, op_type, spec, inputs, *args, **kwargs)

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """As a FuncGraph's; of what is inside the forward body, the value of the same iteration."""
        if tensor.graph is self:
            return tensor
        known = self._found.get(tensor)
        if known is None:
            known = self._found[tensor] = self._captured(tensor, name)
        return known

    def _captured(self, tensor: Tensor, name: str | None) -> Tensor:
        if tensor.graph is not self._forward:
            return self._constant(tensor, name)
        name = name or tensor.op.name
        while IDENTITY in tensor.op.traits:
            tensor = tensor.op.inputs[0]
        if tensor in self._found:
            return self._found[tensor]
        if tensor in self._inputs and tensor in self._outputs:
            found = self._constant(tensor, name)
        elif CONST in tensor.op.traits:
            with self.as_default():
                found = convert(const_array(tensor.op), tensor.dtype.base_dtype, "Const")
        elif tensor.dtype == dtypes.resource:
            found = self.capture(self._handle_outside(tensor))
        else:
            found = self._popped(tensor, name)
        self._found[tensor] = found
        return found

    def _constant(self, tensor: Tensor, name: str | None) -> Tensor:
        """What is the same in all iterations."""
        found = super().capture(tensor, name)
        self.passed_on[found] = found
        return found

    def _handle_outside(self, tensor: Tensor) -> Tensor:
        """The handle that one inside the forward body is."""
        inputs = self._forward.inputs
        while tensor not in self._inputs:
            op = tensor.op
            if IDENTITY not in op.traits and op._flow_graphs is None:
                raise ValueError(
                    "Taking gradient of a while loop which creates a resource in its body is not supported: "
                    f"{tensor.name} ({op.type}); make it outside"
                )
            tensor = op.inputs[tensor.value_index]
        at = next(at for at, each in enumerate(inputs) if each is tensor)
        return self._op.inputs[at]

    def _popped(self, tensor: Tensor, name: str) -> Tensor:
        filled = self._forward.handed_out.get(tensor)
        if filled is None:
            filled = self._pushed(tensor)
        inside = super().capture(filled, name)
        kind = tensor.dtype.base_dtype
        with self.as_default():
            rest, value = registry.get("TensorListPopBack")(
                inside, -1, element_dtype=kind, name="TensorListPopBack"
            )
        if value.raw_shape is None:
            value._raw = tensor._raw
        stands_for(value, tensor)
        stands_for(rest, inside)
        self.passed_on[inside] = rest
        found: Tensor = value
        return found

    def _pushed(self, tensor: Tensor) -> Tensor:
        """The list that the forward loop fills with the values of a tensor, one an iteration."""
        outer = self._forward.outer_graph
        label = f"{tensor.name}/accumulator".replace(":", "_")
        with outer.as_default(), _beside(outer, self._op):
            empty = empty_tensor_list(
                tensor.shape, tensor.dtype.base_dtype, self._op.inputs[1], name=label
            )
        self.extra_inputs.append(empty)
        with self._forward.as_default():
            filled = registry.get("TensorListPushBack")(empty, tensor, name="TensorListPushBack")
        self._forward.outputs.append(filled)
        self._forward.handed_out[tensor] = filled
        self._conditions.capture(empty)
        found: Tensor = filled
        return found


@contextmanager
def _beside(graph: Graph, op: Operation) -> Any:
    """Nodes made inside are where `op` is, and wait for nothing."""
    with graph.control_dependencies(None):
        graph._control_flow_context = op._control_flow_context
        yield


def _hand_out(
    op: Operation, conditions: FlowGraph, bodies: FlowGraph, backward: WhileGradient, count: int
) -> None:
    """More variables of the forward loop: the lists that its iterations fill."""
    op._set_attr("cond", conditions.rewritten())
    op._set_attr("body", bodies.rewritten())
    op._set_attr("T", [tensor.dtype.base_dtype for tensor in bodies.outputs])
    op._set_attr("output_shapes", [tensor.shape for tensor in bodies.outputs])
    op._add_inputs(backward.extra_inputs)
    op._add_outputs(bodies.outputs[count:])
    for tensor, outside in zip(op.outputs[count:], op.inputs[count:], strict=True):
        stands_for(tensor, outside)


def _outside(op: Operation, bodies: FlowGraph, tensor: Tensor) -> Tensor:
    """What a result of the forward body is in the graph of the loop."""
    if tensor.graph is not bodies:
        return tensor
    return next(op.outputs[at] for at, each in enumerate(bodies.outputs) if each is tensor)
