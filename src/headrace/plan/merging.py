"""Merging: nodes that compute what an earlier node of the same step computes do not run.

Two nodes are equal if they are of one op that only computes, with equal attrs and equal inputs, and wait for nothing
else.  An Identity is equal to what it is of, and so is a product with 1 (`OpSpec.same`).  What depends on when it runs
is left alone: what reads variables or may alias them, state, random numbers.  So only a trace could tell (traced steps
have every node), and an error, which the earlier node raises for both: it would have been the first to raise it anyway.
In a step with branches and loops this is done once these are instructions, to what is outside of them: values that they
take keep their numbers.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from headrace.base.dtypes import DType
from headrace.base.traits import CONST, KEEPS_REFS, SNAPSHOTS, TAKES_REFS
from headrace.graph.const_value import const_array, folded
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, Same
from headrace.plan.ir import BRANCH, DECIDE, LOOP, NOTHING, Instr, Step, Values

_OF_REFERENCES = frozenset((KEEPS_REFS, TAKES_REFS, SNAPSHOTS))
_OPAQUE = frozenset((BRANCH, LOOP, DECIDE))
_LARGEST_CONSTANT = 64  # bytes; larger ones are not worth comparing


class _Kind(NamedTuple):
    """What is known of all nodes of an op.

    hands_on: it gives what it gets; same: see `OpSpec.same`.  spec: of one whose nodes may be equal.
    """

    hands_on: bool
    same: Same | None
    spec: OpSpec | None
    constant: bool


def merge(step: Step) -> Step:
    """Equal nodes become one, under the name of the first; in a step with branches and loops, those outside of them."""
    fixed = _fixed(step) if step.nests else NOTHING
    changing = _no_arrays(step.values)
    alike: dict[Any, int] = {}  # constants that were loaded, by what they are
    same: dict[int, int] = {}
    known: dict[Any, int] = {}
    kinds: dict[str, _Kind] = {}
    code: list[Instr] = []
    place: dict[int, int] = {}  # of who gives a value
    others: dict[int, list[Operation]] = {}  # nodes that one stands for beside its own, by place
    for instr in step.code:
        if instr.what in _OPAQUE:
            code.append(instr)
            continue
        if same and not same.keys().isdisjoint(instr.inputs):
            instr = instr.changed(inputs=tuple(map(same.get, instr.inputs, instr.inputs)))
        op = instr.op
        kind = kinds.get(op.type)
        if kind is None:
            kind = kinds[op.type] = _kind(op)
        hands_on, same_fn, spec, constant = kind
        free = not fixed or fixed.isdisjoint(instr.outputs)
        if (hands_on or same_fn is not None) and free:
            given = _handed_on(instr, kind, code, place, changing)
            if given is not None:
                same[instr.outputs[0]] = given
                if given in place:
                    others.setdefault(place[given], []).append(op)
                continue
        key = None
        if spec is not None and not instr.controls:
            if constant:
                key = _content(const_array(op), op.attrs["dtype"])
            elif instr.inputs and instr.outputs and changing.isdisjoint(instr.inputs):
                key = _computation(instr, spec, step, alike)
        if key is not None:
            first = known.setdefault(key, len(code))
            if first < len(code) and free:
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


def _kind(op: Operation) -> _Kind:
    spec, traits = op.spec, op.traits
    comparable = spec if _is_comparable(spec) else None
    return _Kind(
        KEEPS_REFS in traits, None if spec is None else spec.same_fn, comparable, CONST in traits
    )


def _handed_on(
    instr: Instr,
    kind: _Kind,
    code: Sequence[Instr],
    place: Mapping[int, int],
    changing: AbstractSet[int],
) -> int | None:
    """The input that a node gives as it is: an Identity, a product with 1, a reshape to the shape that is there."""
    if kind.hands_on and instr.inputs[0] not in changing:
        return instr.inputs[0]
    if kind.same is None or instr.controls:
        return None
    at = kind.same(instr.op, [_known(value, code, place) for value in instr.inputs])
    return None if at is None or instr.inputs[at] in changing else instr.inputs[at]


def _known(value: int, code: Sequence[Instr], place: Mapping[int, int]) -> Any:
    """What a constant is, or a number that is made of constants; None for others."""
    if value not in place:
        return None
    instr = code[place[value]]
    if CONST in instr.op.traits:
        return const_array(instr.op)
    made = instr.op.outputs[0]
    spec = instr.op.spec
    if made._raw != () or not instr.inputs or spec is None or not spec.foldable:
        return None
    if all(each in place and CONST in code[place[each]].op.traits for each in instr.inputs):
        return folded(made)
    return None


def _is_comparable(spec: OpSpec | None) -> bool:
    if spec is None or not spec.foldable:
        return False
    if CONST in spec.traits:
        return True
    if spec.kernel is None or spec.takes_ref or spec.takes_ctx:
        return False
    return spec.traits.isdisjoint(_OF_REFERENCES)


def _content(value: Any, dtype: DType) -> Any:
    """What tells a constant from others; None for one that is too large."""
    if value.nbytes > _LARGEST_CONSTANT:
        return None
    held: Any = value.tobytes()
    if value.dtype.hasobject:
        held = tuple(value.reshape(-1).tolist())
        if sum(map(len, held)) > _LARGEST_CONSTANT:
            return None
    return value.dtype.str, dtype, value.shape, held


def _first_alike(value: int, values: Values, alike: dict[Any, int]) -> int:
    """The first of the constants that are what this one is; other values as they are."""
    known = values.constants.get(value)
    content = None if known is None else _content(known, values.tensor(value).dtype)
    return value if content is None else alike.setdefault(content, value)


def _fixed(step: Step) -> frozenset[int]:
    """What branches, loops and decisions take: steps inside of them know it by its number."""
    return NOTHING.union(*[instr.inputs for instr in step.code if instr.what in _OPAQUE])


def _computation(instr: Instr, spec: OpSpec, step: Step, alike: dict[Any, int]) -> Any:
    values = step.values
    where, inputs = step.request.placed.get(instr.op), instr.inputs
    if not values.constants.keys().isdisjoint(inputs):
        inputs = tuple([_first_alike(value, values, alike) for value in inputs])
    if not spec.kernel_attrs:
        return spec.name, where, inputs
    attrs = instr.op.attrs
    try:
        key = spec.name, where, inputs, *[_hashable(attrs[name]) for name in spec.kernel_attrs]
        hash(key)
    except TypeError:
        return None
    return key


def _no_arrays(values: Values) -> AbstractSet[int]:
    """Values that are no arrays, or such that somebody may change."""
    found = {
        value
        for value, tensor in enumerate(values.tensors)
        if tensor is not None and (tensor._dtype._is_ref_dtype or tensor._dtype._kind == "h")
    }
    return found | values.changing


def _hashable(value: Any) -> Any:
    """For comparison: True is not 1, and 0.0 not -0.0."""
    if isinstance(value, list):
        return tuple([_hashable(item) for item in value])
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)
