"""Joint updates: what an optimizer does to several small variables is one instruction.

A model has a bias for each layer and a table for each column of categories, and an update of a few numbers takes as
many calls as one of thousands.  Updates by the same rule, with the same rates, run together where the last one stands,
the sums of embeddings' gradients with them (`plan.rules.embedding_updates`).  Until then nobody reads what an earlier
one changes, nothing else has an effect, and all come after the same waiters, so nobody can tell.
Called by: plan.passes.  Threads: any; the update takes the locks of all variables (`ops.training.joint_updates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.traits import UPDATES, VARIABLE
from headrace.ops.state.resources import variable_behind
from headrace.ops.training.joint_updates import JointUpdate, Part
from headrace.ops.training.update_rules import Inputs, inputs_of, names_of
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.embedding_updates import RowNodes, rows_before, summing
from headrace.plan.rules.group import Group, Having, Match, Rule
from headrace.run.exec.instructions import Kernel

_LARGEST: Final = 4096  # elements of a variable all of which are updated
_BESIDE_INPUTS: Final = frozenset(
    {"T", "Tindices", "use_locking"}
)  # attrs that change nothing here


class _Update(NamedTuple):
    """One of them.  rows: what its gradient is made of, if it is one of an embedding.  members: what runs with it."""

    instr: Instr
    rows: RowNodes | None
    members: AbstractSet[Instr]


def _match(last: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The updates that may run where the last one stands."""
    first = _update(last, facts, taken)
    if first is None:
        return None
    found, alike = [first], _alike(last, facts, taken)
    code, changed = facts.step.code, set[object]()
    read: set[object] = set()  # between an update and the last one
    at = facts.place[last]
    while alike:
        at -= 1
        instr = code[at]
        other = None
        if instr in alike:
            alike.remove(instr)
            other = _update(instr, facts, taken)
        if other is not None:
            names = _variables(instr, facts)
            if names is not None and read.isdisjoint(names) and changed.isdisjoint(names):
                found.append(other)
                changed.update(names)
                continue
        if instr.waiter >= 0 or instr.body or (instr.effects and inputs_of(instr.op) is None):
            break
        if not facts.values.changing.isdisjoint(instr.inputs):
            names = _read(instr, facts)
            if names is None:
                break
            read.update(names)
    found = [each for each in found if each.rows is not None or len(found) > 1]
    if not found:
        return None
    members = {member for each in found for member in each.members}
    return Match(members, partial(_build, found[::-1]))


RULE: Final = Rule("joint-updates", Having(UPDATES), _match)


def _update(instr: Instr, facts: Facts, taken: AbstractSet[Instr]) -> _Update | None:
    """An update that may run with others; of all elements only if they are few."""
    known = inputs_of(instr.op)
    if known is None or instr.what != NODE or instr.body or instr.waiter >= 0:
        return None
    if known.indices_at >= 0:
        before = rows_before(instr, facts, taken)
        return None if before is None else _Update(instr, *before)
    raw = instr.op.inputs[0]._raw if not known.resource else instr.op.inputs[known.grad_at]._raw
    if raw is None or None in raw or math.prod(raw) > _LARGEST:  # type: ignore[arg-type]
        return None
    return _Update(instr, None, {instr})


def _kind(instr: Instr) -> tuple[Any, ...]:
    """What is alike of updates that run together: rule, attrs, scalars, and where and after what they run."""
    op, known = instr.op, inputs_of(instr.op)
    assert known is not None
    attrs = [(k, v) for k, v in sorted(op.attrs.items()) if k not in _BESIDE_INPUTS]
    shown = [(k, repr(v)) for k, v in attrs if not k.startswith("_")]
    scalars = {name: instr.inputs[place] for name, place in known.scalars}
    return (known.rule, op.attrs["T"], shown, scalars, instr.device, known.resource)


def _alike(last: Instr, facts: Facts, taken: AbstractSet[Instr]) -> set[Instr]:
    """Updates of its kind before it, which wait for what it waits for, and give nothing that anybody takes."""
    known, like = inputs_of(last.op), _kind(last)
    assert known is not None
    return {
        instr
        for name in names_of(known.rule)
        for instr in facts.step.by_type.get(name, ())
        if facts.place[instr] < facts.place[last]
        and instr not in taken
        and _kind(instr) == like
        and not any(value in facts.results or facts.uses(value) for value in instr.outputs)
        and facts.waits[instr] == facts.waits[last]
    }


def _variables(instr: Instr, facts: Facts) -> list[object] | None:
    """What the variables of an update are told apart by; None if that is not known."""
    known = inputs_of(instr.op)
    assert known is not None
    names = [_name(value, facts) for value in instr.inputs[: known.variables]]
    return None if None in names else names


def _read(instr: Instr, facts: Facts) -> list[object] | None:
    """The variables that an instruction may look at; None if one is not known."""
    changing = facts.values.changing
    names = [_name(value, facts) for value in instr.inputs if value in changing]
    return None if None in names else names


def _name(value: int, facts: Facts) -> object | None:
    """Of a variable, or of what hands one on; the same for nodes that may stand for the same variable."""
    maker = facts.maker(value)
    while maker is not None and VARIABLE not in maker.op.traits:
        changing = [each for each in maker.inputs if each in facts.values.changing]
        if len(changing) != 1 or maker.body:
            break
        maker = facts.maker(changing[0])
    if maker is None or VARIABLE not in maker.op.traits:
        return value if facts.values.tensor(value).op.type == "VarHandleOp" else None
    shared = maker.op.attrs.get("shared_name") or maker.op.name.encode()
    return maker.op.attrs.get("container"), shared, maker.device


# -- running ----------------------------------------------------------------------------------


def _build(updates: Sequence[_Update], group: Group) -> Kernel:
    by_op = {member.op: member for member in group.members}
    first = inputs_of(updates[0].instr.op)
    assert first is not None
    rule, resource, gives = first.rule, first.resource, bool(group.outputs)
    inputs = group.inputs_of(by_op[updates[0].instr.op])
    scalars = [(name, inputs[place]) for name, place in first.scalars]
    attrs = {name: updates[0].instr.op.attrs[name] for name in rule.attrs}
    last = group.inputs_of(by_op[updates[-1].instr.op])[0]
    parts = [_part(each, group, by_op[each.instr.op]) for each in updates]
    update = JointUpdate(rule).run

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        more = dict(attrs)
        for name, place in scalars:
            value = values[place]
            if value.__class__ is np.ndarray:
                if value.ndim:
                    return None
                value = value[()]
            more[name] = value
        made = []
        for part in parts:
            each = part(values)
            if each is None:
                return None
            made.append(each)
        if not update(made, more):
            return None
        return (values[last],) if gives else ()

    return group.kernel(at_once, refuses=resource)


def _part(update: _Update, group: Group, member: Instr) -> Callable[[Sequence[Any]], Part | None]:
    """A function of the group's inputs: the part of one update; None where the nodes have to run one by one."""
    known: Inputs | None = inputs_of(member.op)
    assert known is not None
    inputs = group.inputs_of(member)
    variables_at, grad_at = inputs[: known.variables], inputs[known.grad_at]
    sums = None if update.rows is None else summing(update.rows, group)

    def part(values: Sequence[Any]) -> Part | None:
        variables = [values[at] for at in variables_at]
        if known.resource:
            variables = [variable_behind(handle) for handle in variables]
        if sums is None:
            return Part(variables, values[grad_at], None)
        found = sums(values)
        return None if found is None else Part(variables, *found)

    return part
