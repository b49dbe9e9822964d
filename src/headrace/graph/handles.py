"""What a graph knows of a resource handle: the dtype and shape of the variable it stands for.

Nothing is stored with tensors but what an argument of a function stands for; the node that makes a handle says it
all, and is found by going back.
Called by: ops.state.resources, graph.const_value, graph.func_graph.  Threads: as graph.
"""

from __future__ import annotations

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.base.traits import ENTER, EXIT, KEEPS_REFS, MERGE, NEXT_ITERATION, SWITCH, VAR_HANDLE
from headrace.graph.tensor import Tensor

_PASSING = frozenset((KEEPS_REFS, SWITCH, MERGE, ENTER, EXIT, NEXT_ITERATION))


def stands_for(inside: Tensor, outside: Tensor) -> None:
    """Note that the handle `inside` is the handle `outside`: of a function's body, or of a call's result."""
    if inside._dtype in (dtypes.resource, dtypes.variant):
        inside.__dict__["_stands_for"] = outside


def standing_for(handle: Tensor) -> Tensor | None:
    """What `stands_for` noted."""
    found: Tensor | None = handle.__dict__.get("_stands_for")
    return found


def behind(handle: Tensor) -> tuple[DType, Shape] | None:
    """Dtype and shape of the variable that `handle` stands for, if the graph says."""
    op = handle.op
    while True:
        outside = standing_for(handle)
        if outside is not None:
            handle = outside
        elif not _PASSING.isdisjoint(op.traits) and op.inputs and op.inputs[0] is not None:
            handle = op.inputs[0]
        else:
            break
        op = handle.op
    if VAR_HANDLE in op.traits:
        return op["dtype"], op["shape"]._raw
    if op.type == "_VarHandlesOp":
        index = handle.value_index
        return op["dtypes"][index], op["shapes"][index]._raw
    return None
