"""Live tensors: those that may be a variable's own array, or look into it, so that an update shows in them.

A reference is no such tensor: it is the variable itself.  What a plain op makes of a reference is live if the op may
hand on its input's buffer (Reshape, say), and so is what such ops make of that.
Called by: plan.compile, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.graph.flow_nodes import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor

_PASSING = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS


def live_tensors(ops: Sequence[Operation]) -> set[Tensor]:
    """The outputs of `ops` that are live.  Loops may go around: it looks until it finds no more."""
    references = {tensor for op in ops for tensor in op.outputs if tensor._dtype._is_ref_dtype}
    live: set[Tensor] = set()
    known = -1
    while references and known != len(references) + len(live):
        known = len(references) + len(live)
        for op in ops:
            spec = op.spec
            refers = not references.isdisjoint(op.inputs)
            lives = not live.isdisjoint(op.inputs)
            if op.type in _PASSING or (spec is not None and spec.keeps_refs):
                references.update(op.outputs if refers else ())
                live.update(op.outputs if lives else ())
            elif spec is not None and spec.aliases and (refers or lives):
                live.update(op.outputs)
    return live
