"""Reads of variables that may not be initialized, which are written as a branch.

``variable.initialized_value()`` is a cond: the variable if IsVariableInitialized says so, else what it begins with.
What hooks of a session under supervision fetch of the global step goes through one.  Nothing outside is ever dead
because of it, so it is no control flow to who prunes; `plan.reading` makes one instruction of it.
Called by: plan.prune, plan.reading.  Threads: any; the graph must not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from headrace.base.traits import CONTROL_FLOW, KEEPS_REFS, MERGE, SWITCH
from headrace.graph.graph import Operation
from headrace.graph.operation import traits_among

ASKS: Final = "IsVariableInitialized"


def has_branches(ops: Collection[Operation], wanted: Collection[Operation]) -> bool:
    """Whether there is control flow among the nodes of a step beside such reads.  wanted: nodes that are fetched."""
    if CONTROL_FLOW not in traits_among(ops):
        return False
    flows = {op for op in ops if CONTROL_FLOW in op.traits}
    if flows and any(op.type == ASKS for op in ops):
        for members in reads_in(ops, wanted):
            flows.difference_update(members)
    return bool(flows)


def reads_in(ops: Collection[Operation], wanted: Collection[Operation]) -> list[list[Operation]]:
    """The nodes of each read, inputs first: what asks, the variable's Switch third from the end, the Merge last."""
    found = [each for op in ops if MERGE in op.traits and (each := _read(op)) is not None]
    users: dict[Operation, set[Operation]] = {}
    for op in ops if found else ():
        for source in (*[tensor.op for tensor in op.inputs], *op.control_inputs):
            users.setdefault(source, set()).add(op)
    known = set(ops)
    return [each for each in found if known.issuperset(each) and _is_closed(each, users, wanted)]


def _read(merge: Operation) -> list[Operation] | None:
    """The read that ends with this Merge; None if it is another one.

    Merge(Switch(default, asked):0, Identity(RefSwitch(variable, asked):1)), where asked is
    Identity(IsVariableInitialized(variable)).
    """
    if len(merge.inputs) != 2:
        return None
    default, identity = (tensor.op for tensor in merge.inputs)
    if SWITCH not in default.traits or KEEPS_REFS not in identity.traits:
        return None
    variable = identity.inputs[0].op
    if SWITCH not in variable.traits or default.inputs[1] is not variable.inputs[1]:
        return None
    if merge.inputs[0] is not default.outputs[0] or identity.inputs[0] is not variable.outputs[1]:
        return None
    asked = [default.inputs[1].op]
    while KEEPS_REFS in asked[0].traits and asked[0].inputs:
        asked.insert(0, asked[0].inputs[0].op)
    if asked[0].type != ASKS or asked[0].inputs[0] is not variable.inputs[0]:
        return None
    return [*asked, default, variable, identity, merge]


def _is_closed(
    members: list[Operation],
    users: Mapping[Operation, AbstractSet[Operation]],
    wanted: Collection[Operation],
) -> bool:
    """Whether nobody uses anything inside, or waits for it, and nothing inside waits for others."""
    inside = set(members)
    if any(member.control_inputs for member in members):
        return False
    return all(
        member not in wanted and inside.issuperset(users.get(member, ())) for member in members[:-1]
    )
