"""What a graph knows of a resource handle: the dtype and shape of the variable it stands for.

Nothing is stored with tensors; the node that makes a handle says it all, and is found by going back.
Called by: ops.state.resources, graph.const_value.  Threads: as graph.
"""

from __future__ import annotations

from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.base.traits import ENTER, EXIT, KEEPS_REFS, MERGE, NEXT_ITERATION, SWITCH, VAR_HANDLE
from headrace.graph.tensor import Tensor

_PASSING = frozenset((KEEPS_REFS, SWITCH, MERGE, ENTER, EXIT, NEXT_ITERATION))


def behind(handle: Tensor) -> tuple[DType, Shape] | None:
    """Dtype and shape of the variable that `handle` stands for, if the graph says."""
    op = handle.op
    while True:
        if op._captured is not None:
            handle = op._captured
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
