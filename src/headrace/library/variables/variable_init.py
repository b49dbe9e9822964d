"""Initial values that use other variables: read those only if they are initialized already.

The initializers of all variables run at once, in no order.  So an initial value that uses variable
`a` gets nodes of its own in which `a` is replaced by "a if it is initialized, else a's initial value".
Called by: variables.  Threads: as graph.
Source: TF 1.15 behaviour; node names checked against the oracle
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.base.traits import IDENTITY, MERGE, SWITCH, VARIABLE
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.graph.names import init_scope
from headrace.graph.tensor import Tensor
from headrace.ops.flow.control_flow import cond
from headrace.ops.state import references as state

if TYPE_CHECKING:
    from headrace.library.variables.variables import Variable

_OF_VALUES_TOO = frozenset((SWITCH, MERGE, IDENTITY))  # whose namesakes take references


def initialized_value(variable: Variable) -> Tensor:
    """The variable's value if it is initialized, else its initial value.

    The nodes are those of tf.cond: a reference is read only on the branch where there is a value.
    """
    # What its initializer assigns: the initial value, itself computed from initialized variables only.
    # (TensorFlow takes the initial value as given here, and fails on a third variable in a row.)
    initial = variable.initializer.inputs[1]
    with init_scope():
        ready = state.is_variable_initialized_op(variable._ref())
        result: Tensor = cond(ready, variable.read_value, lambda: initial)
    return result


def guarded(value: Tensor, scope: str) -> Tensor:
    """`value` computed from initialized variables only; `value` itself if it uses none.

    scope: the new variable's name with a trailing '/'; copies of nodes get it as a suffix.
    """
    if not value.op.inputs and VARIABLE not in value.op.traits:
        return value
    order = _ancestors(value.op)
    if order is None or not any(VARIABLE in op.traits for op in order):
        return value
    safe: dict[Operation, Operation] = {}
    for op in order:
        safe[op] = _safe(op, safe, scope)
    return safe[value.op].outputs[value.value_index]


def _ancestors(last: Operation) -> list[Operation] | None:
    """What `last` is computed from, inputs first, and `last`; None if there is a loop among them."""
    order: list[Operation] = []
    open_ops: set[Operation] = set()
    done: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(last, False)]
    while stack:
        op, leaving = stack.pop()
        if leaving:
            open_ops.discard(op)
            done.add(op)
            order.append(op)
            continue
        if op in done:
            continue
        if op in open_ops:
            return None
        open_ops.add(op)
        stack.append((op, True))
        if op.spec is not state.is_variable_initialized_op:
            for tensor in reversed(op.inputs):
                if tensor.op in open_ops:
                    return None
                if tensor.op not in done:
                    stack.append((tensor.op, False))
    return order


def _safe(op: Operation, safe: dict[Operation, Operation], scope: str) -> Operation:
    if op.spec is state.is_variable_initialized_op:
        return op
    if VARIABLE in op.traits:
        variable = _variable_of(op)
        return op if variable is None else variable.initialized_value().op
    inputs = [safe[tensor.op].outputs[tensor.value_index] for tensor in op.inputs]
    if inputs == op.inputs:
        return op
    return _copy(op, inputs, f"{op.name}_{scope}".rstrip("/").replace(":", "_"))


def _copy(op: Operation, inputs: list[Tensor], name: str) -> Operation:
    kind, spec = op.type, op.spec
    if kind.startswith("Ref") and not _OF_VALUES_TOO.isdisjoint(op.traits):
        from headrace.graph.registry import get  # what stands for a reference now is a value

        kind = kind.removeprefix("Ref")
        spec = get(kind)
    types = [t.dtype.base_dtype if kind != op.type else t.dtype for t in op.outputs]
    graph = op.graph
    attrs = dict(op.attrs)
    return graph.add_operation(name, kind, spec, inputs, attrs, types)


def _variable_of(op: Operation) -> Any:
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in op.graph.get_collection_ref(key):
            if getattr(variable, "name", None) in (op.name, f"{op.name}:0"):
                return variable
    return None
