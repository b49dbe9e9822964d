"""Control flow primitives: Switch, Merge, and the frames of loops.

Their semantics are the executor's (run.exec.dataflow).  The functions that users call (cond, while_loop) build graphs
of these.  Gradients: a Switch's is a Merge and the other way round, an Enter's an Exit and the other way round; those
of loops go on in graph.loop_gradients.
Source: TF 1.15 core/kernels/control_flow_ops.cc; gradients as GraphDefs of 2.21 with control flow v1
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.base.traits import (
    ALIASES,
    ALLOWS_UNINITIALIZED,
    AT_ONCE,
    CONTROL_FLOW,
    CONTROL_TRIGGER,
    ENTER,
    EXIT,
    LOOP_COND,
    MERGE,
    NEVER_FOLDED,
    NEXT_ITERATION,
    SWITCH,
    SWITCH_N,
)
from headrace.graph import flow_nodes as nodes
from headrace.graph.control_flow import CondContext, context_of, output_context
from headrace.graph.graph import Operation
from headrace.graph.loop_gradients import LoopGradient
from headrace.graph.registry import OpSpec, get, op
from headrace.graph.shape_fns import ShapeContext, scalar, unchanged
from headrace.graph.tensor import Tensor
from headrace.graph.while_context import WhileContext, add_back_edge


def _executor_only(xp: Any, *values: Any) -> Any:
    """Never called: the dataflow executor moves the values itself."""
    raise errors.internal("a control-flow node was run outside the dataflow executor")


def _entered(c: ShapeContext) -> Shape:
    # A loop variable may change its shape; while_loop says what it knows when it builds the node.
    return c.shape(0) if c.attr("is_constant") else None


def _both_unchanged(c: ShapeContext) -> list[Shape]:
    c.with_rank(1, 0)
    return [c.shape(0), c.shape(0)]


def _merged(c: ShapeContext) -> list[Shape]:
    if any(tensor is None for tensor in c.op.inputs):  # a loop that is being imported
        return [None, ()]
    found = c.shape(0)
    for shape in c.shapes[1:]:
        found = shape_rules.common(found, shape)
    return [found, ()]


def _rows(prefix: str, ref: str) -> tuple[OpSpec, ...]:
    """The five primitives, for values and for references."""
    value = f"{ref}(T)" if ref else "T"
    traits = {CONTROL_FLOW, NEVER_FOLDED, ALIASES}
    uninitialized = {ALLOWS_UNINITIALIZED} if ref else set()
    frame = "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10"
    return (
        op(
            f"{prefix}Switch",
            inputs=f"data: {value}; pred: bool",
            outputs=f"output_false: {value}; output_true: {value}",
            attrs="T: type",
            shape=_both_unchanged,
            traits={SWITCH, *traits, *uninitialized},
        )(_executor_only),
        op(
            f"{prefix}Merge",
            inputs=f"inputs: N * {value}",
            outputs=f"output: {value}; value_index: int32",
            attrs="T: type; N: int >= 1",
            shape=_merged,
            traits={MERGE, *traits},
        )(_executor_only),
        op(
            f"{prefix}Enter",
            inputs=f"data: {value}",
            outputs=f"output: {value}",
            attrs=frame,
            shape=_entered,
            traits={ENTER, *traits},
        )(_executor_only),
        op(
            f"{prefix}Exit",
            inputs=f"data: {value}",
            outputs=f"output: {value}",
            attrs="T: type",
            shape=unchanged,
            traits={EXIT, *traits},
        )(_executor_only),
        op(
            f"{prefix}NextIteration",
            inputs=f"data: {value}",
            outputs=f"output: {value}",
            attrs="T: type",
            shape=unchanged,
            traits={NEXT_ITERATION, *traits},
        )(_executor_only),
    )


switch_op, merge_op, enter_op, exit_op, next_iteration_op = _rows("", "")
ref_switch_op, ref_merge_op, ref_enter_op, ref_exit_op, ref_next_iteration_op = _rows("Ref", "Ref")


def _ways_unchanged(c: ShapeContext) -> list[Shape]:
    c.with_rank(1, 0)
    return [c.shape(0)] * len(c.op.outputs)


switch_n_op = op(
    "_SwitchN",
    inputs="data: T; output_index: int32",
    outputs="outputs: num_outs * T",
    attrs="num_outs: int >= 1; T: type",
    shape=_ways_unchanged,
    traits={SWITCH_N, CONTROL_FLOW, NEVER_FOLDED, ALIASES},
)(_executor_only)
"""What a TensorFlow master makes of Case: data leaves by the output of that number, or by the last one.

It has no gradient, as there: who asks for that of a graph that TensorFlow lowered gets a LookupError."""


def _predicate(c: ShapeContext) -> Any:
    c.with_rank(0, 0)
    return scalar(c)


@op(
    "LoopCond",
    inputs="input: bool",
    outputs="output: bool",
    shape=_predicate,
    traits={AT_ONCE, LOOP_COND, CONTROL_FLOW, NEVER_FOLDED},
    differentiable=False,
)
def loop_cond_op(xp: Any, input: Any) -> Any:
    """The loop's predicate, by which its Switches are found."""
    return input


@op("ControlTrigger", traits={CONTROL_TRIGGER, NEVER_FOLDED}, differentiable=False)
def control_trigger_op(xp: Any) -> None:
    """Nothing; runs even when its control inputs are dead."""


# -- gradients ------------------------------------------------------------------------------------


def _current(op: Operation) -> LoopGradient | None:
    """The gradient loop that is being built."""
    context = op.graph._control_flow_context
    return None if context is None else context.gradient


def _switch_gradient(op: Operation, false: Any, true: Any) -> tuple[Any, None]:
    context = context_of(op)
    if isinstance(context, WhileContext):
        loop = _current(op)
        assert loop is not None
        return _loop_switch_gradient(loop, op, false, true), None
    if isinstance(context, CondContext):
        if (false, true)[1 - context.branch] is None:  # of a type that has no gradient
            if op.inputs[0].dtype is not dtypes.resource:
                return None, None
            return nodes.merge([(false, true)[context.branch]] * 2, "cond_resource_grad")[0], None
        return nodes.merge([false, true], "cond_grad")[0], None
    pred = op.inputs[1]
    taken = [nodes.switch(false, pred)[0], nodes.switch(true, pred)[1]]
    return nodes.merge(taken)[0], None


def _loop_switch_gradient(loop: LoopGradient, op: Operation, ended: Any, going: Any) -> Any:
    """A loop variable's Switch is visited twice: from its Exit, and when the body has been gone through."""
    merged = loop.switches.get(op)
    if merged is not None:
        if going is not None:
            add_back_edge(merged, going, check_shape=False)
        return None
    if ended is None:
        return None  # the loop's result is not differentiable
    merged = loop.switches[op] = nodes.merge([ended, ended], "b_switch")[0]
    return merged


def _merge_gradient(op: Operation, grad: Any, index_grad: Any) -> Any:
    context = output_context(op.inputs[0].op)
    here = op.graph._control_flow_context
    if isinstance(context, WhileContext):
        return nodes.switch_beside(grad, here.pivot)
    if isinstance(context, CondContext):
        loop = _current(op)
        pred = context.pred if loop is None else loop.branch_pred(context.pred)
        return nodes.switch_beside(grad, pred, "cond_grad")
    chosen = [get("Equal")(op.outputs[1], index) for index in range(len(op.inputs))]
    return [nodes.switch_beside(grad, pred)[1] for pred in chosen]


def _exit_gradient(op: Operation, grad: Any) -> Any:
    here = op.graph._control_flow_context
    loop = _current(op)
    if loop is None or not here.back_prop:
        return None
    if loop.forward.gradient is not None:
        raise TypeError(
            f"second-order gradients through while loops are not supported, and {op.name!r} belongs to a gradient; "
            "unroll the loop in Python"
        )
    here.know(grad)
    entered = here.enter(grad, name="b_exit")
    here.enters.append(entered)
    return entered


def _enter_gradient(op: Operation, grad: Any) -> Any:
    here = op.graph._control_flow_context
    loop = _current(op)
    if loop is None or not here.back_prop:
        return grad
    return loop.summed(op, grad) if op["is_constant"] else loop.finished(grad)


def _same(op: Operation, grad: Tensor) -> Tensor:
    return grad


for _spec, _gradient in (
    (switch_op, _switch_gradient),
    (ref_switch_op, _switch_gradient),
    (merge_op, _merge_gradient),
    (ref_merge_op, _merge_gradient),
    (exit_op, _exit_gradient),
    (ref_exit_op, _exit_gradient),
    (enter_op, _enter_gradient),
    (ref_enter_op, _enter_gradient),
    (next_iteration_op, _same),
    (ref_next_iteration_op, _same),
):
    _spec.gradient(_gradient)
