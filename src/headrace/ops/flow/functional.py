"""Ops that call functions of the graph: calls, branches, loops, gradients.

But for calls of a function within itself none is run: each says what stands for it (`OpSpec.expand`), which is nodes
of its functions, with Switch and Merge or a loop's frame around them, as `cond` and `while_loop` would have built them.
So functions are placed, divided among tasks and planned node by node, and cost what the same graph without functions
costs.
Source: TF 1.15 core/ops/functional_ops.cc; what is made of them as core/common_runtime/lower_if_op.cc,
lower_while_op.cc and lower_case_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.base.traits import CALLS_FUNCTION, CONST, STATEFUL
from headrace.codec import protos as pb
from headrace.graph.const_value import const_array
from headrace.graph.expansion import Replaced, Site, called, symbolic_gradient
from headrace.graph.function_gradients import gradient_of
from headrace.graph.function_library import Body, Function
from headrace.graph.graph import Operation
from headrace.graph.handles import behind
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.graph.tensor import Tensor
from headrace.ops.flow.step_calls import call

__all__ = [
    "case_op",
    "for_op",
    "if_op",
    "partitioned_call_op",
    "remote_call_op",
    "stateful_partitioned_call_op",
    "stateless_case_op",
    "stateless_if_op",
    "stateless_while_op",
    "symbolic_gradient_op",
    "to_bool_op",
    "while_op",
]


def _replaced(xp: Any, *inputs: Any, **attrs: Any) -> Any:
    """Never called: the functions' nodes are run instead."""
    raise errors.internal("a node that calls functions was run by itself")


def _listed_shapes(c: ShapeContext) -> list[Shape]:
    """As the attr `output_shapes` says, if it does."""
    listed = c.attr("output_shapes")
    count = len(c.op.outputs)
    if len(listed) != count:
        return [None] * count
    return [shape._raw for shape in listed]


def _unknown(c: ShapeContext) -> list[Shape]:
    return [None] * len(c.op.outputs)


# -- calls ------------------------------------------------------------------------------------

_CALL = "config: string = ''; config_proto: string = ''; executor_type: string = ''"

partitioned_call_op = op(
    "PartitionedCall",
    inputs="args: Tin",
    outputs="output: Tout",
    attrs=f"Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; {_CALL}",
    shape=_unknown,
    traits={CALLS_FUNCTION},
)(call)

stateful_partitioned_call_op = op(
    "StatefulPartitionedCall",
    inputs="args: Tin",
    outputs="output: Tout",
    attrs=f"Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; {_CALL}",
    shape=_unknown,
    traits={CALLS_FUNCTION, STATEFUL},
)(call)


def _expand_call(to: Site, node: Operation) -> Replaced:
    return to.body(called(node, "f"), to.inputs)


def _call_gradient(op: Operation, *grads: Any) -> Any:
    return symbolic_gradient(op, grads)


for _call in (partitioned_call_op, stateful_partitioned_call_op):
    _call.expand(_expand_call)
    _call.gradient(_call_gradient)


@op(
    "RemoteCall",
    inputs="target: string; args: Tin",
    outputs="output: Tout",
    attrs="Tin: list(type) >= 1; Tout: list(type) >= 1; f: func",
    shape=_unknown,
    traits={CALLS_FUNCTION, STATEFUL},
)
def remote_call_op(xp: Any, target: Any, *args: Any) -> Any:
    """The function's results, computed on the device `target`, which is known when the step is planned."""
    raise errors.internal("a node that calls functions was run by itself")


@remote_call_op.expand
def _(to: Site, node: Operation) -> Replaced:
    target = const_array(to.inputs[0].op) if CONST in to.inputs[0].op.traits else None
    if target is None:
        raise errors.unimplemented(
            f"the target of {node.name!r} (RemoteCall) is computed by {to.inputs[0].op.name!r}; headrace places nodes "
            "before a step runs, so give it as a constant",
            node=node.name,
            op_type=node.type,
            built_at=node.built_at,
        )
    to.device = np.asarray(target).item().decode()
    return to.body(called(node, "f"), to.inputs[1:])


# -- gradients of functions ------------------------------------------------------------------


def _of_arguments(c: ShapeContext) -> list[Shape]:
    """A gradient has the shape of its argument."""
    found: list[Shape] = []
    for tensor, _ in zip(c.op.inputs, c.op.outputs, strict=False):
        known = behind(tensor)
        found.append(tensor._raw if known is None else known[1])
    return found + [None] * (len(c.op.outputs) - len(found))


symbolic_gradient_op = op(
    "SymbolicGradient",
    inputs="input: Tin",
    outputs="output: Tout",
    attrs="Tin: list(type) >= 1; Tout: list(type) >= 1; f: func",
    shape=_of_arguments,
    traits={CALLS_FUNCTION},
)(_replaced)


@symbolic_gradient_op.expand
def _(to: Site, node: Operation) -> Replaced:
    return to.body(gradient_of(called(node, "f")), to.inputs)


# -- branches ---------------------------------------------------------------------------------


_HAVE_TRUTH = frozenset(
    map(np.dtype, ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"))
)


@op("ToBool", inputs="input: T", outputs="output: bool", attrs="T: type", shape=scalar)
def to_bool_op(xp: Any, input: Any) -> Any:
    """Whether a scalar is not zero, or a string not empty; of another shape, whether there are elements.

    input: any shape.  output: [].  Raises InvalidArgument for a scalar of a type that has no truth.
    """
    array = np.asarray(input)
    if array.ndim:
        return np.bool_(array.size > 0)
    if array.dtype != object and array.dtype not in _HAVE_TRUTH:
        kind = dtypes.spelled(dtypes.from_numpy(array.dtype))
        raise errors.invalid_argument(f"{kind} cannot be converted to a boolean; compare it with 0")
    value = array[()]
    return np.bool_(len(value) > 0 if isinstance(value, (bytes, str)) else value != 0)


if_op, stateless_if_op = [
    op(
        name,
        inputs="cond: Tcond; input: Tin",
        outputs="output: Tout",
        attrs="Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; "
        "output_shapes: list(shape) = []",
        shape=_listed_shapes,
        traits=traits,
    )(_replaced)
    for name, traits in (
        ("If", {CALLS_FUNCTION, STATEFUL}),
        ("StatelessIf", {CALLS_FUNCTION}),
    )
]


def _expand_if(to: Site, node: Operation) -> Replaced:
    then, otherwise = called(node, "then_branch"), called(node, "else_branch")
    return _branches(to, to.inputs[0], to.inputs[1:], then, otherwise)


if_op.expand(_expand_if)
stateless_if_op.expand(_expand_if)


def _truth(to: Site, value: Tensor) -> Tensor:
    if value.dtype.base_dtype is dtypes.bool and value._raw == ():
        return value
    return to.node("ToBool", [value], "ToBool", T=value.dtype.base_dtype).outputs[0]


def _branches(
    to: Site, cond: Tensor, inputs: Sequence[Tensor], then: Function, otherwise: Function
) -> Replaced:
    """`then` or `otherwise` of `inputs`, as `cond` has it."""

    def take(way: bool, site: Site, given: Sequence[Tensor]) -> Replaced:
        return site.body(then if way else otherwise, given)

    return _selected(to, _truth(to, cond), inputs, take)


def _selected(to: Site, pred: Tensor, inputs: Sequence[Tensor], take: Any) -> Replaced:
    """What ``take(way, where, inputs)`` gives in the branch that runs."""
    base = pred.dtype.base_dtype
    split = to.node("Switch", [pred, pred], "switch_pred", T=base)
    ways = []
    pairs = [
        to.node(
            "Switch",
            [tensor, pred],
            "switch",
            beside=tensor.op,
            T=tensor.dtype.base_dtype,
        ).outputs
        for tensor in inputs
    ]
    for way, part in ((False, "else"), (True, "then")):
        pivot = to.node("Identity", [split.outputs[way]], f"pivot_{part}", to.controls, T=base)
        site = to.inside(part, [pivot], pivot)
        found = take(way, site, [pair[way] for pair in pairs])
        if found.done:
            pivot = to.node("Identity", [split.outputs[way]], f"{part}_done", found.done, T=base)
        ways.append((found, pivot))
    (no, no_pivot), (yes, yes_pivot) = ways
    outputs = []
    for one, other in zip(no.outputs, yes.outputs, strict=True):
        kind = one.dtype.base_dtype
        merged = to.node("Merge", [one, other], "output", T=kind, N=2)
        outputs.append(merged.outputs[0])
    done = to.node(
        "Merge", [no_pivot.outputs[0], yes_pivot.outputs[0]], "branch_executed", T=base, N=2
    )
    return Replaced(outputs, [done])


case_op, stateless_case_op = [
    op(
        name,
        inputs="branch_index: int32; input: Tin",
        outputs="output: Tout",
        attrs="Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
        shape=_listed_shapes,
        traits=traits,
    )(_replaced)
    for name, traits in (
        ("Case", {CALLS_FUNCTION, STATEFUL}),
        ("StatelessCase", {CALLS_FUNCTION}),
    )
]


def _expand_case(to: Site, node: Operation) -> Replaced:
    library = node.graph.library
    branches = [library.find(each, node.name) for each in node.attrs["branches"]]
    index = to.inputs[0]

    def chosen(site: Site, first: int, inputs: Sequence[Tensor]) -> Replaced:
        """The branch `index - first` of those from `first` on; the last one for whatever is left."""
        if first == len(branches) - 1:
            return site.body(branches[first], inputs[1:])
        number = site.node("Const", [], "number", dtype=dtypes.int32, value=np.int32(first))
        pred = site.node("Equal", [inputs[0], number.outputs[0]], "is_it", T=dtypes.int32).outputs[
            0
        ]

        def take(way: bool, inner: Site, given: Sequence[Tensor]) -> Replaced:
            if not way:
                return chosen(inner, first + 1, given)
            return inner.body(branches[first], given[1:])

        return _selected(site, pred, inputs, take)

    return chosen(to, 0, [index, *to.inputs[1:]])


case_op.expand(_expand_case)
stateless_case_op.expand(_expand_case)


# -- loops ------------------------------------------------------------------------------------


def _loop_shapes(c: ShapeContext) -> list[Shape]:
    """As the attr says; else those of the inputs, as in TensorFlow, whatever the body makes of them."""
    listed = c.attr("output_shapes")
    if len(listed) == len(c.op.outputs):
        return [shape._raw for shape in listed]
    return list(c.shapes)


while_op, stateless_while_op = [
    op(
        name,
        inputs="input: T",
        outputs="output: T",
        attrs="T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; "
        "parallel_iterations: int = 10",
        shape=_loop_shapes,
        traits=traits,
    )(_replaced)
    for name, traits in (
        ("While", {CALLS_FUNCTION, STATEFUL}),
        ("StatelessWhile", {CALLS_FUNCTION}),
    )
]


def _expand_while(to: Site, node: Operation) -> Replaced:
    cond, body = called(node, "cond"), called(node, "body")
    variables, following = body.body.inputs, body.body.outputs
    return _Loop(to, node["parallel_iterations"]).around(
        to.inputs,
        [tensor._raw for tensor in variables],
        [one is other for one, other in zip(variables, following, strict=True)],
        _read_by(cond.body),
        lambda site, inputs: site.body(cond, inputs),
        lambda site, inputs: site.body(body, inputs),
    )


while_op.expand(_expand_while)
stateless_while_op.expand(_expand_while)


def _read_by(cond: Body) -> list[int]:
    """Which of its arguments a condition depends on."""
    seen = {tensor.op for tensor in cond.outputs}
    waiting = list(seen)
    while waiting:
        for tensor in waiting.pop().inputs:
            if tensor.op not in seen:
                seen.add(tensor.op)
                waiting.append(tensor.op)
    return [at for at, tensor in enumerate(cond.inputs) if tensor.op in seen]


class _Loop:
    """A frame around a condition and a body."""

    def __init__(self, to: Site, parallel_iterations: int) -> None:
        self._to = to
        self._frame: dict[str, Any] = {
            "frame_name": to.name.encode(),
            "parallel_iterations": parallel_iterations,
        }

    def around(
        self,
        inputs: Sequence[Tensor],
        shapes: Sequence[Shape],
        constant: Sequence[bool],
        read: Sequence[int],
        condition: Any,
        body: Any,
    ) -> Replaced:
        """shapes: that they have in every iteration.  constant: which of them the body hands on as they are.

        read: those that the condition depends on; nodes without inputs wait for one of them, so that variables that
        nobody needs, such as a count of the iterations, need not be there.

        condition, body: (where, values) -> Replaced.
        """
        to = self._to
        if not inputs:
            raise errors.invalid_argument(
                f"the loop {to.name!r} has no variables, so nothing can end it: a condition needs one",
                node=to.name,
            )
        varying = [at for at, same in enumerate(constant) if not same] or [0]
        inside = [
            self._enter(tensor, at not in varying, shapes[at]) for at, tensor in enumerate(inputs)
        ]
        merges = {}
        for at in varying:
            kind = inside[at].dtype.base_dtype
            merges[at] = to.node("Merge", [inside[at], inside[at]], "merge", T=kind, N=2)
            inside[at] = merges[at].outputs[0]
        leading = next((at for at in read if at in merges), varying[0])
        first = merges[leading]
        decided = condition(to.inside("cond", [first], first), inside)
        going = _truth(to, decided.outputs[0])
        pred = to.node("LoopCond", [going], "LoopCond", decided.done).outputs[0]
        given, exits = list(inside), list(inputs)
        for at, merge in merges.items():
            kind = merge.outputs[0].dtype.base_dtype
            split = to.node(
                "Switch",
                [merge.outputs[0], pred],
                "switch",
                beside=merge,
                T=kind,
            )
            given[at] = split.outputs[1]
            exits[at] = to.node("Exit", [split.outputs[0]], "exit", T=kind).outputs[0]
        of_first = given[leading]
        pivot = to.node("Identity", [of_first], "pivot", T=of_first.dtype.base_dtype)
        made = body(to.inside("body", [pivot], pivot), given)
        for at, merge in merges.items():
            self._close(merge, made.outputs[at], made.done)
        done = [exits[at].op for at in varying]
        return Replaced(exits, done)

    def _enter(self, tensor: Tensor, is_constant: bool, shape: Shape) -> Tensor:
        to = self._to
        entered = to.node(
            "Enter",
            [tensor],
            "enter",
            to.controls,
            T=tensor.dtype.base_dtype,
            is_constant=is_constant,
            **self._frame,
        )
        entered.outputs[0]._raw = tensor._raw if is_constant else shape
        return entered.outputs[0]

    def _close(self, merge: Operation, value: Tensor, done: Sequence[Operation]) -> None:
        kind = value.dtype.base_dtype
        if done:
            value = self._to.node("Identity", [value], "next", done, T=kind).outputs[0]
        following = self._to.node("NextIteration", [value], "next_iteration", T=kind)
        merge._set_input(1, following.outputs[0])


@op(
    "For",
    inputs="start: int32; limit: int32; delta: int32; input: T",
    outputs="output: T",
    attrs="T: list(type) >= 0; body: func",
    shape=_unknown,
    traits={CALLS_FUNCTION},
)
def for_op(xp: Any, start: Any, limit: Any, delta: Any, *input: Any) -> Any:
    """body(i, *input) again and again, for i from start below limit (above it, if delta is negative) by delta."""
    raise errors.internal("a node that calls functions was run by itself")


@for_op.expand
def _(to: Site, node: Operation) -> Replaced:
    body = called(node, "body")
    start, limit, delta, *inputs = to.inputs

    def goes_on(site: Site, values: Sequence[Tensor]) -> Replaced:
        i, end, step = values[:3]
        zero = site.node("Const", [], "zero", dtype=dtypes.int32, value=np.int32(0)).outputs[0]
        up = site.node("GreaterEqual", [step, zero], "up", T=dtypes.int32).outputs[0]
        below = site.node("Less", [i, end], "below", T=dtypes.int32).outputs[0]
        above = site.node("Greater", [i, end], "above", T=dtypes.int32).outputs[0]
        either = site.node("Select", [up, below, above], "goes_on", T=dtypes.bool)
        return Replaced([either.outputs[0]])

    def again(site: Site, values: Sequence[Tensor]) -> Replaced:
        i, end, step, *given = values
        found = site.body(body, [i, *given])
        following = site.node("AddV2", [i, step], "i", T=dtypes.int32).outputs[0]
        return Replaced([following, end, step, *found.outputs], found.done)

    constant = [False, True, True, *[False] * len(inputs)]
    shapes: list[Shape] = [(), (), (), *[tensor._raw for tensor in body.body.inputs[1:]]]
    found = _Loop(to, 10).around(
        [start, limit, delta, *inputs], shapes, constant, [0], goes_on, again
    )
    return Replaced(found.outputs[3:], found.done)


def reference(name: str) -> pb.NameAttrList:
    """How an attr names a function."""
    return pb.NameAttrList(name=name)
