"""Aliases: tensors that may be a variable's own array, or a view of it, so that an update shows in them.

A reference is none: it is the variable itself.  What a plain op makes of a reference is an alias if the op may
hand on its input's buffer (Reshape, say), and so is what such ops make of that.
Called by: plan.lifting, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from headrace.base.traits import (
    ALIASES,
    ENTER,
    EXIT,
    KEEPS_REFS,
    MERGE,
    NEXT_ITERATION,
    SWITCH,
    Trait,
)
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor

_PASSING = frozenset((KEEPS_REFS, SWITCH, MERGE, ENTER, EXIT, NEXT_ITERATION))


def references_in(ops: Sequence[Operation]) -> set[Tensor]:
    """Tensors that may be references, those that a loop hands to its next iteration included."""
    found = {tensor for op in ops for tensor in op.outputs if tensor._dtype._is_ref_dtype}
    passing = [op for op in ops if _passes(op.traits)] if found else []
    known = 0
    while known != len(found):
        known = len(found)
        for op in passing:
            if not found.isdisjoint(op.inputs):
                found.update(op.outputs)
    return found


def aliases_in(ops: Sequence[Operation], references: set[Tensor] | None = None) -> set[Tensor]:
    """The outputs of `ops` that are aliases.  Loops may go around: it looks until it finds no more.

    references: `references_in(ops)`, if it is known.
    """
    if references is None:
        references = references_in(ops)
    found: set[Tensor] = set()
    if not references:
        return found
    giving = [(op, _passes(op.traits)) for op in ops if _may_give(op.traits)]
    known = -1
    while known != len(found):
        known = len(found)
        for op, passes in giving:
            looks = not found.isdisjoint(op.inputs)
            if looks or (not passes and not references.isdisjoint(op.inputs)):
                found.update(op.outputs)
    return found


@cache
def _passes(traits: frozenset[Trait]) -> bool:
    """Whether a reference goes through an op."""
    return not _PASSING.isdisjoint(traits)


@cache
def _may_give(traits: frozenset[Trait]) -> bool:
    """Whether what an op makes of a reference or an alias may be an alias."""
    return ALIASES in traits or _passes(traits)
