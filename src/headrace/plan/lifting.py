"""Lifting: the nodes that pruning has left become the first version of a step.

Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.aliases import aliases_in, references_in
from headrace.plan.ir import NOTHING, WAITS, Instr, Request, Step, Values, effects_of


def lift(request: Request, nests: bool) -> Step:
    """An instruction for each node, in order; nests: there are branches or loops among them."""
    values, ops = Values(request.args), request.pruned.ops
    number, tensors = values.number, values.tensors
    fed = set(number)
    results = [tensor for op in ops for tensor in op.outputs if tensor not in fed]
    number.update(zip(results, range(len(tensors), len(tensors) + len(results)), strict=True))
    tensors += results
    controls, devices = request.pruned.controls, request.devices
    effects: dict[tuple[str, bool], int] = {}
    after: dict[Operation, frozenset[int]] | None = None
    waiters = 0
    code: list[Instr] = []
    for op in ops:
        inputs, outputs = op.inputs, op.outputs
        kind = op.type, not inputs
        known = effects.get(kind)
        if known is None:
            known = effects[kind] = effects_of(op)
        if fed.isdisjoint(outputs):
            made = tuple(map(number.__getitem__, outputs))
        else:  # a fed one's own result goes where nobody looks
            made = tuple([number[t] if t not in fed else values.new(t) for t in outputs])
        instr = Instr(
            op,
            (op,),
            tuple(map(number.__getitem__, inputs)),
            made,
            known,
            devices.get(op, op.device),
            controls[op],
        )
        if after is None and known & WAITS:
            after = dict.fromkeys([each.op for each in code], NOTHING)
        if after is not None:
            instr.after = after[op] = _after(op, fed, after, instr.controls)
            if known & WAITS:
                instr.waiter, waiters = waiters, waiters + 1
                after[op] = instr.after | {instr.waiter}
        code.append(instr)
    references = references_in(ops)
    if references:
        values.references.update(number[t] for t in references if t in number)
        aliases = aliases_in(ops, references)
        values.aliases.update(number[t] for t in aliases if t in number)
    step = Step(request, values, code, [number[tensor] for tensor in request.returns])
    step.nests = nests
    return step


def _after(
    op: Operation,
    fed: set[Tensor],
    after: dict[Operation, frozenset[int]],
    controls: Sequence[Operation],
) -> frozenset[int]:
    """The waiters that a node comes after."""
    found: set[int] = set()
    for tensor in op.inputs:
        if tensor not in fed:
            found |= after.get(tensor.op, NOTHING)
    for control in controls:
        found |= after.get(control, NOTHING)
    return frozenset(found)
