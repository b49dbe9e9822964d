"""Shape nodes: what follows from the shapes of tensors alone is computed when they change, and else remembered.

Gradients of graphs with an unknown batch ask for shapes again and again: how many elements a mean was made of, along
which axes a broadcast is to be summed.  All of that is the same in a step as in the one before, as long as shapes are.
So a node that others want such a value of runs as one instruction with all it is made of: it looks at the shapes of
the tensors behind it, and gives what it gave for those last time.  The nodes in between do not run at all.
Not for traced steps, which list every node.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import OF_SHAPE, SNAPSHOTS, TAKES_REFS
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.program import Instruction, Registers

_REMEMBERED = 1024  # elements; what is larger is made anew


class ShapeGroup:
    """A node and all it is made of, from the nodes that ask for shapes on; `ops` in order, the last one is wanted.

    asked: the tensors whose shapes matter.  inputs: those, and the constants that take part.
    """

    def __init__(
        self, ops: Sequence[Operation], asked: Iterable[Tensor], constants: Iterable[Tensor]
    ) -> None:
        self.ops = ops
        self.root = ops[-1]
        self.asked = list(dict.fromkeys(asked))
        self.inputs = list(dict.fromkeys([*self.asked, *constants]))


def shape_groups(
    ops: Sequence[Operation], controls: Mapping[Operation, Sequence[Operation]], fed: set[Tensor],
    returned: Iterable[Tensor], same: Mapping[Tensor, Tensor], changing: AbstractSet[Tensor],
    constant: Collection[Operation],
) -> tuple[set[Operation], list[ShapeGroup]]:  # fmt: skip
    """The nodes whose values follow from shapes, and a group for each that others want; ops: inputs first.

    same: which tensors are others, made before.  changing: tensors whose value depends on when one looks.
    constant: nodes that follow from constants.
    """
    if not any(OF_SHAPE in op.traits for op in ops):
        return set(), []
    asked: dict[Operation, list[Tensor]] = {}
    behind: dict[Operation, list[Operation]] = {}
    constants: dict[Operation, list[Tensor]] = {}
    used = {same.get(tensor, tensor).op for op in ops for tensor in op.inputs}
    wanted = {same.get(tensor, tensor).op for tensor in returned}
    wanted.update(op for op in ops if op not in used)
    for op in ops:
        if op.outputs and op.outputs[0] in same:
            continue
        inputs = [same.get(tensor, tensor) for tensor in op.inputs]
        if op in constant or not _only_computes(op, controls, fed):
            wanted.update(tensor.op for tensor in inputs)
            continue
        if OF_SHAPE in op.traits and changing.isdisjoint(inputs) and all(map(_has_shape, inputs)):
            asked[op], behind[op], constants[op] = inputs, [op], []
            wanted.update(tensor.op for tensor in inputs)
            continue
        known = [tensor for tensor in inputs if tensor.op in asked]
        others = [tensor for tensor in inputs if tensor.op not in asked]
        if not known or not all(t.op in constant and t not in fed for t in others):
            wanted.update(tensor.op for tensor in inputs)
            continue
        asked[op] = [each for tensor in known for each in asked[tensor.op]]
        made = dict.fromkeys(each for tensor in known for each in behind[tensor.op])
        behind[op] = [*made, op]
        constants[op] = [*others, *(each for tensor in known for each in constants[tensor.op])]
    position = {op: number for number, op in enumerate(ops)}
    groups = [
        ShapeGroup(sorted(behind[op], key=position.__getitem__), asked[op], constants[op])
        for op in ops
        if op in asked and op in wanted
    ]
    return set(asked), groups


def _has_shape(tensor: Tensor) -> bool:
    """Whether the value is an array, not a handle."""
    return tensor._dtype._base not in (dtypes.resource, dtypes.variant)


def _only_computes(
    op: Operation, controls: Mapping[Operation, Sequence[Operation]], fed: set[Tensor]
) -> bool:
    spec = op.spec
    if spec is None or spec.kernel is None or not spec.foldable or not op.inputs or not op.outputs:
        return False
    if (
        spec.takes_ctx
        or spec.takes_ref
        or TAKES_REFS in spec.traits
        or SNAPSHOTS in spec.traits
        or controls.get(op)
    ):
        return False
    if not fed.isdisjoint(op.outputs):
        return False
    return all(t._dtype._base.np.kind in "biuf" for t in op.outputs)


def instruction(
    group: ShapeGroup, registers: Sequence[int], outputs: Sequence[int],
    nodes: Sequence[NodeInfo], same: Mapping[Tensor, Tensor],
) -> Instruction:  # fmt: skip
    """registers[outputs] = the values of the group's last node.  registers: of the group's inputs."""
    at = dict(zip(group.inputs, range(len(registers)), strict=True))
    looks = list(registers[: len(group.asked)])
    steps: list[tuple[Any, list[int], bool]] = []
    place = len(registers)
    for op in group.ops:
        assert op.spec is not None
        kernel, single = bound_kernel(op, op.spec, np), op.spec.single_output
        if check.enabled:
            kernel = check.checked_kernel(kernel, op, single)
        steps.append((kernel, [at[same.get(tensor, tensor)] for tensor in op.inputs], single))
        for tensor in op.outputs:
            at[tensor], place = place, place + 1
    last: tuple[Any, list[Any]] | None = None
    count = len(outputs)
    out = outputs[0]

    def made(r: Registers) -> list[Any]:
        values = [r[register] for register in registers]
        node, given = nodes[0], values
        try:
            for node, (kernel, inputs, single) in zip(nodes, steps):  # noqa: B007, B905
                given = [values[place] for place in inputs]
                found = kernel(*given)
                if single:
                    values.append(found)
                else:
                    values.extend(found)
        except Exception as error:  # becomes an error that names its node, as in run.program
            raise explain(error, node, given, r[0]) from cause(error)
        return values[-count:]

    def run(r: Registers) -> None:
        nonlocal last
        shapes = [r[register].shape for register in looks]
        before = last
        if before is not None and before[0] == shapes:
            found = before[1]
        else:
            found = made(r)
            if sum(value.size for value in found) <= _REMEMBERED:
                found = [_kept(value) for value in found]
                last = shapes, found
        if count == 1:
            r[out] = found[0]
        else:
            for register, value in zip(outputs, found, strict=True):
                r[register] = value

    return run


def _kept(value: Any) -> Any:
    """A value that nobody can change."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
