"""Common subexpressions: nodes that compute what an earlier node of the same step computes.

Two nodes are equal if they are of one op that only computes, with equal attrs and equal inputs, and wait for nothing
else.  An Identity is equal to what it is of.  What depends on when it runs is left alone: what reads variables or may
look into them, state, random numbers.  So only a trace could tell (traced steps have every node), and an error, which
the earlier node raises for both: it would have been the first to raise it anyway.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import CONST, KEEPS_REFS, SNAPSHOTS, TAKES_REFS
from headrace.graph.const_value import const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor

_OF_REFERENCES = frozenset((KEEPS_REFS, TAKES_REFS, SNAPSHOTS))
_LARGEST_CONSTANT = 64  # bytes; larger ones are not worth comparing


def equal_tensors(
    ops: Sequence[Operation],
    controls: Mapping[Operation, Sequence[Operation]],
    fed: Set[Tensor],
    changing: Set[Tensor],
) -> dict[Tensor, Tensor]:
    """For the outputs of nodes that need not run, the earlier tensor that is the same.

    ops: inputs first.  changing: tensors whose value depends on when one looks.
    """
    same: dict[Tensor, Tensor] = {}
    known: dict[Any, Operation] = {}
    for op in ops:
        spec = op.spec
        if (
            KEEPS_REFS in op.traits
            and _is_value(op.inputs[0], changing)
            and op.outputs[0] not in fed
        ):
            same[op.outputs[0]] = same.get(op.inputs[0], op.inputs[0])
            continue
        if spec is None or not spec.foldable or controls.get(op):
            continue
        key = _constant(op) if CONST in spec.traits else _computation(op, spec, same, changing)
        if key is None or not fed.isdisjoint(op.outputs):
            continue
        first = known.setdefault(key, op)
        if first is not op:
            same.update(zip(op.outputs, first.outputs, strict=True))
    return same


def follow_from_constants(
    ops: Sequence[Operation], controls: Mapping[Operation, Sequence[Operation]]
) -> set[Operation]:
    """Nodes that follow from constants."""
    found: set[Operation] = set()
    for op in ops:
        if CONST in op.traits or (
            op.inputs and not controls.get(op) and all(t.op in found for t in op.inputs)
        ):
            found.add(op)
    return found


def _constant(op: Operation) -> Any:
    value = const_array(op)
    if value.nbytes > _LARGEST_CONSTANT or value.dtype.hasobject:
        return None
    return value.dtype.str, op.attrs["dtype"], value.shape, value.tobytes()


def _computation(
    op: Operation, spec: OpSpec, same: Mapping[Tensor, Tensor], changing: Set[Tensor]
) -> Any:
    if spec.kernel is None or not op.inputs or not op.outputs:
        return None
    if spec.takes_ref or spec.takes_ctx or not spec.traits.isdisjoint(_OF_REFERENCES):
        return None
    for tensor in op.inputs:
        if not _is_value(tensor, changing):
            return None
    try:
        key = (
            spec.name,
            *[same.get(tensor, tensor) for tensor in op.inputs],
            *[_hashable(op.attrs[name]) for name in spec.kernel_attrs],
        )
        hash(key)
    except TypeError:
        return None
    return key


def _is_value(tensor: Tensor, changing: Set[Tensor]) -> bool:
    """Whether it is an array that nobody changes."""
    kind = tensor._dtype
    if kind._is_ref_dtype or kind is dtypes.resource or kind is dtypes.variant:
        return False
    return tensor not in changing


def _hashable(value: Any) -> Any:
    """For comparison: True is not 1, and 0.0 not -0.0."""
    if isinstance(value, list):
        return tuple([_hashable(item) for item in value])
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)
