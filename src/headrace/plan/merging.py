"""Merging: nodes that compute what an earlier node of the same step computes do not run.

Two nodes are equal if they are of one op that only computes, with equal attrs and equal inputs, and wait for nothing
else.  An Identity is equal to what it is of.  What depends on when it runs is left alone: what reads variables or may
alias them, state, random numbers.  So only a trace could tell (traced steps have every node), and an error, which the
earlier node raises for both: it would have been the first to raise it anyway.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.base.traits import CONST, KEEPS_REFS, SNAPSHOTS, TAKES_REFS
from headrace.graph.const_value import const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.plan.ir import Instr, Step, Values

_OF_REFERENCES = frozenset((KEEPS_REFS, TAKES_REFS, SNAPSHOTS))
_LARGEST_CONSTANT = 64  # bytes; larger ones are not worth comparing


def merge(step: Step) -> Step:
    """Equal nodes become one, under the name of the first."""
    values = step.values
    same: dict[int, int] = {}
    known: dict[Any, int] = {}
    comparable: dict[str, OpSpec | None] = {}
    code: list[Instr] = []
    place: dict[int, int] = {}  # of who gives a value
    others: dict[int, list[Operation]] = {}  # nodes that one stands for beside its own, by place
    for instr in step.code:
        if same and not same.keys().isdisjoint(instr.inputs):
            instr = instr.changed(inputs=tuple([same.get(v, v) for v in instr.inputs]))
        op = instr.op
        if KEEPS_REFS in op.traits and _is_value(instr.inputs[0], values):
            same[instr.outputs[0]] = instr.inputs[0]
            if instr.inputs[0] in place:
                others.setdefault(place[instr.inputs[0]], []).append(op)
            continue
        if op.type not in comparable:
            comparable[op.type] = op.spec if _is_comparable(op.spec) else None
        spec = comparable[op.type]
        key = None
        if spec is not None and not instr.controls:
            key = _constant(op) if CONST in op.traits else _computation(instr, spec, step)
        if key is not None:
            first = known.setdefault(key, len(code))
            if first < len(code):
                same.update(zip(instr.outputs, code[first].outputs, strict=True))
                others.setdefault(first, []).append(op)
                continue
        if instr.outputs:
            place[instr.outputs[0]] = len(code)
        code.append(instr)
    if not same:
        return step
    for at, ops in others.items():
        code[at] = code[at].changed(nodes=(*code[at].nodes, *ops))
    return step.with_code(code, [same.get(value, value) for value in step.results])


def _is_comparable(spec: OpSpec | None) -> bool:
    if spec is None or not spec.foldable:
        return False
    if CONST in spec.traits:
        return True
    if spec.kernel is None or spec.takes_ref or spec.takes_ctx:
        return False
    return spec.traits.isdisjoint(_OF_REFERENCES)


def _constant(op: Operation) -> Any:
    value = const_array(op)
    if value.nbytes > _LARGEST_CONSTANT or value.dtype.hasobject:
        return None
    return value.dtype.str, op.attrs["dtype"], value.shape, value.tobytes()


def _computation(instr: Instr, spec: OpSpec, step: Step) -> Any:
    if not instr.inputs or not instr.outputs:
        return None
    for value in instr.inputs:
        if not _is_value(value, step.values):
            return None
    where = step.request.placed.get(instr.op)
    if not spec.kernel_attrs:
        return spec.name, where, instr.inputs
    attrs = instr.op.attrs
    try:
        key = (
            spec.name,
            where,
            instr.inputs,
            *[_hashable(attrs[name]) for name in spec.kernel_attrs],
        )
        hash(key)
    except TypeError:
        return None
    return key


def _is_value(value: int, values: Values) -> bool:
    """Whether it is an array that nobody changes."""
    kind = values.tensor(value)._dtype
    if kind._is_ref_dtype or kind is dtypes.resource or kind is dtypes.variant:
        return False
    return value not in values.changing


def _hashable(value: Any) -> Any:
    """For comparison: True is not 1, and 0.0 not -0.0."""
    if isinstance(value, list):
        return tuple([_hashable(item) for item in value])
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)
