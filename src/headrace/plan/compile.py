"""Compile: nodes in order → a Program.

Constants are loaded into registers once; every other node becomes one instruction with its kernel
and attrs bound, or, where it may block, a waiter.  References stay references until a plain
consumer runs (DESIGN: state).
Called by: client.local, serve.worker.worker.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import (
    ALIASES,
    CONST,
    CONTROL_FLOW,
    HANDLE,
    KEEPS_INPUTS,
    KEEPS_REFS,
    MAY_WAIT,
    POLLS,
    SHARES,
    SNAPSHOTS,
    TAKES_REFS,
)
from headrace.graph.const_value import const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.plan import assigned, check, fuse, sending
from headrace.plan.alone import alone
from headrace.plan.binding import (
    SCALAR_KINDS,
    bound_kernel,
    input_names,
    quick_scalar,
    wants_reference,
)
from headrace.plan.common import equal_tensors, follow_from_constants
from headrace.plan.compile_dataflow import compile_dataflow
from headrace.plan.effort import Pace, is_large
from headrace.plan.folding import from_constants
from headrace.plan.image_gradients import ImageGradients
from headrace.plan.images import ImageGroup, Images
from headrace.plan.images import instruction as image_instruction
from headrace.plan.live import live_tensors, references_in
from headrace.plan.ordering import items_in_order
from headrace.plan.overwriting import over_input, overwritable
from headrace.plan.prune import Pruned
from headrace.plan.shape_nodes import ShapeGroup, shape_groups
from headrace.plan.shape_nodes import instruction as shape_instruction
from headrace.plan.updates import UpdateGroup, update_groups
from headrace.plan.updates import instruction as update_instruction
from headrace.run.exec import instructions as make
from headrace.run.exec.dataflow import DataflowProgram
from headrace.run.exec.kernel import Memos, NodeInfo
from headrace.run.exec.program import Instruction, Program, Return, Segment, Waiter
from headrace.run.exec.straight import Recipe

Compiled = Program | DataflowProgram
Group = fuse.Group | ShapeGroup | UpdateGroup | ImageGroup
_NOTHING: frozenset[int] = frozenset()


def compile_program(
    pruned: Pruned,
    args: Sequence[Tensor],
    returns: Sequence[Tensor],
    *,
    devices: Mapping[Operation, str],
    memos: Memos,
    xp: Any = np,
    dataflow: bool = False,
    fold: bool = True,
) -> Compiled:
    """The program of what was pruned that takes `args` and gives `returns`.

    devices: full device name of each node.  memos: what nodes remember between steps, by node name;
    a session passes the same dict for all its programs.  dataflow: values may arrive dead though no
    node here is control flow.  fold: what follows from constants is computed now (not for
    traced steps, which list every node).
    Raises: Unimplemented (a node whose op has no kernel here).
    """
    if not dataflow and not any(CONTROL_FLOW in op.traits for op in pruned.ops):
        return Compiler(pruned, args, returns, devices, memos, xp, fold).program()
    if fold and not dataflow:
        from headrace.plan.compile_flow import compile_flow

        program = compile_flow(pruned, args, returns, devices, memos, xp)
        if program is not None:
            return program
    return compile_dataflow(pruned, args, returns, devices, memos, xp)


class Compiler:
    """Compiles nodes in order; `plan.compile_flow` adds branches and loops."""

    _fuses = True
    _repeats = False  # what is being compiled may run several times in a step

    def __init__(
        self,
        pruned: Pruned,
        args: Sequence[Tensor],
        returns: Sequence[Tensor],
        devices: Mapping[Operation, str],
        memos: Memos,
        xp: Any,
        fold: bool,
        merge: bool = True,
    ) -> None:
        """merge: nodes that compute the same run once."""
        self._ops = pruned.ops
        self._controls = pruned.controls
        self._args = args
        self._returned = returns
        self._devices = devices
        self._memos = memos
        self._xp = xp
        self._template: list[Any] = [None]
        self._register: dict[Tensor, int] = {}
        self._references: set[Tensor] = set()
        self._fresh: set[Tensor] = set()
        self._preloaded: list[tuple[NodeInfo, tuple[int, ...]]] = []
        self._segments: dict[frozenset[int], Segment] = {}
        self._waiters: list[tuple[Waiter, frozenset[int]]] = []
        self._after: dict[Operation, frozenset[int]] = {}
        self._last_use: dict[Tensor, Operation] = {}
        self._fold = fold
        self._constants: dict[Tensor, Any] = {}
        self._used_elsewhere: set[Tensor] = set()  # by another segment, or by a waiter
        self._free: dict[
            frozenset[int], list[int]
        ] = {}  # registers, by the segment that may have them
        self._fed = set(args)
        self._shares = False
        self._polls = False
        self._pace = Pace()
        self._alone = alone(pruned.ops, pruned.controls)
        self._group_of: dict[Operation, Group] = {}  # of the nodes that run together
        self._shapes: set[Operation] = set()  # nodes that run in groups of those that want them
        self._overwritable: set[Tensor] = set()
        self._alike: set[Operation] = set()
        references = references_in(pruned.ops)
        self._live = live_tensors(pruned.ops, references)
        self._changing = self._live | references
        self._same: dict[Tensor, Tensor] = {}
        if fold and merge:
            self._same = equal_tensors(pruned.ops, pruned.controls, self._fed, self._changing)

    def program(self) -> Program:
        for tensor in self._args:
            self._register[tensor] = self._new_register()
        if self._fold and self._fuses and self._xp is np:
            self._find_groups()
            self._alike = fuse.alike(self._ops, self._group_of, self._returned, self._same)
            self._overwritable = overwritable(
                self._ops,
                self._group_of.keys() | self._shapes,
                self._returned,
                self._fed,
                self._same,
            )
        self._find_last_uses()
        self._add_all()
        returns = [self._return(tensor) for tensor in self._returned]
        scalars = [
            self._register[tensor] for tensor in self._args
            if tensor._raw == () and tensor._dtype._base.np.kind in SCALAR_KINDS
        ]  # fmt: skip
        items = items_in_order(self._segments, self._waiters)
        return Program(
            self._template, len(self._args), items, returns, self._preloaded, scalars,
            self._shares, self._polls,
        )  # fmt: skip

    def _add_all(self) -> None:
        for op in self._ops:
            self._add(op)

    def _new_register(self, value: Any = None) -> int:
        self._template.append(value)
        return len(self._template) - 1

    def _find_last_uses(self) -> None:
        for op in self._ops:
            if op in self._group_of or op in self._shapes:
                continue
            for tensor in op.inputs:
                self._last_use[self._same.get(tensor, tensor)] = op
        self._find_last_uses_of_groups()
        for tensor in self._returned:
            self._last_use.pop(self._same.get(tensor, tensor), None)

    def _return(self, tensor: Tensor) -> Return:
        register = self._register[tensor]
        first = self._same.get(tensor, tensor)
        wanted = sum(first is self._same.get(other, other) for other in self._returned)
        shared = first not in self._fresh or wanted > 1
        return Return(register, shared, tensor in self._live, self._info(tensor.op))

    # -- one node ---------------------------------------------------------------------------

    def _info(self, op: Operation) -> NodeInfo:
        spec = op.spec
        controls = self._controls.get(op, ())
        remembers = spec is None or spec.takes_ctx
        return NodeInfo(
            op.name, op.type, self._devices.get(op, op.device), op.attrs, op._where,
            self._memos.setdefault(op.name, {}) if remembers else {},
            partial(input_names, op, controls), op in self._alone, op.traits,
        )  # fmt: skip

    def _add(self, op: Operation) -> None:
        if self._same and op.outputs and op.outputs[0] in self._same:
            self._merge_with_earlier(op)
            return
        if op in self._group_of:
            self._add_of_group(op, self._group_of[op])
            return
        if op in self._shapes:
            self._after[op] = self._dependencies(op)
            return
        spec = op.spec
        node = self._info(op)
        after = self._dependencies(op)
        if CONST in op.traits:
            self._preload(op, node, after, [const_array(op)])
            return
        if not self._fold or self._controls[op]:
            folded = None
        else:
            folded = from_constants(op, self._constants, self._xp)
        if folded is not None:
            self._preload(op, node, after, folded)
            return
        if spec is None or spec.kernel is None:
            raise errors.unimplemented(
                f"node {op.name!r}: headrace has no kernel for op {op.type}",
                node=op.name, op_type=op.type, built_at=op.built_at,
            )  # fmt: skip
        self._shares = self._shares or SHARES in spec.traits
        self._polls = self._polls or POLLS in spec.traits
        if MAY_WAIT in spec.traits:
            outputs = tuple(self._output(tensor) for tensor in op.outputs)
            self._add_waiter(op, spec, node, after, outputs)
            return
        outputs = self._outputs(op, after)
        self._after[op] = after
        if self._waiters:
            self._use_elsewhere(op.inputs, after)
        segment = self._segments.setdefault(after, Segment())
        self._look_before((op,), segment, after, node)
        inputs = self._inputs(op, spec, node, segment)
        if KEEPS_REFS in spec.traits and op.inputs and op.inputs[0] in self._references:
            self._references.add(op.outputs[0])
            passed = make.pass_reference(inputs[0], outputs[0])
            self._append(segment, passed, node, inputs, outputs)
            return
        for tensor in op.outputs:
            if tensor._dtype._is_ref_dtype:
                self._references.add(tensor)
            elif ALIASES not in spec.traits and KEEPS_REFS not in spec.traits:
                self._fresh.add(tensor)
        segment.computes |= HANDLE not in spec.traits
        work, recipe = self._instruction(op, spec, node, inputs, outputs)
        if recipe is not None and self._overwritable:
            gone = self._gone(op, op.inputs)
            recipe = over_input(recipe, op, gone, self._overwritable, self._same)
        self._append(segment, work, node, inputs, outputs, recipe)
        self._release(op, op.inputs, segment, node)

    # -- nodes that run together --------------------------------------------------------------

    def _find_groups(self) -> None:
        constant = follow_from_constants(self._ops, self._controls)
        self._shapes, about_shapes = shape_groups(
            self._ops, self._controls, self._fed, self._returned, self._same, self._changing, constant
        )  # fmt: skip
        apart = constant | self._shapes
        of_images: list[ImageGroup] = []
        taken: set[Operation] = apart
        for search in (ImageGradients, Images):
            of_images += search.groups(
                self._ops, self._fed, self._returned, self._same, self._changing, taken
            )
            taken = apart | {op for group in of_images for op in group.ops}
        found = fuse.groups(
            self._ops, self._controls, self._fed, self._returned, self._same, self._changing, taken
        )  # fmt: skip
        updates = update_groups(
            self._ops, self._controls, self._fed, self._returned, self._same, self._changing,
            apart,
        )  # fmt: skip
        together: list[Group] = [*found, *updates, *of_images]
        for group in together:
            self._group_of.update(dict.fromkeys(group.ops, group))
        self._group_of.update((group.root, group) for group in about_shapes)

    def _find_last_uses_of_groups(self) -> None:
        if not self._group_of:
            return
        position = {op: number for number, op in enumerate(self._ops)}
        for group in dict.fromkeys(self._group_of.values()):
            for tensor in group.inputs:
                last = self._last_use.get(tensor)
                if last is None or position[last] < position[group.root]:
                    self._last_use[tensor] = group.root

    def _add_of_group(self, op: Operation, group: Group) -> None:
        """The last node of a group stands for all of it; what the others wait for, it waits for."""
        after = self._dependencies(op)
        self._after[op] = after
        if op is not group.root:
            return
        node = self._info(op)
        outputs = self._outputs(op, after)
        if isinstance(group, ImageGroup):
            self._after.update(dict.fromkeys(group.ops, after))
            outputs += tuple(self._output(tensor) for tensor in group.outputs[1:])
        if self._waiters:
            self._use_elsewhere(group.inputs, after)
        segment = self._segments.setdefault(after, Segment())
        if not isinstance(group, ShapeGroup):
            self._look_before(group.ops, segment, after, node)
        registers = []
        loads = self._references
        if isinstance(group, UpdateGroup):
            loads = loads - group.refers
        for tensor in group.inputs:
            register = self._register[tensor]
            if tensor in loads:
                loaded = self._new_register()
                self._append(segment, make.dereference(register, loaded), node, (register,))
                register = loaded
            registers.append(register)
        nodes = [self._info(member) for member in group.ops]
        segment.computes = True
        if isinstance(group, ShapeGroup):
            work = shape_instruction(group, registers, outputs, nodes, self._same)
        elif isinstance(group, UpdateGroup):
            self._references.update(op.outputs)
            self._shares = True
            work = update_instruction(group, registers, outputs[0] if outputs else None, nodes)
        elif isinstance(group, ImageGroup):
            self._fresh.update(group.outputs)
            self._shares = True
            work = image_instruction(group, registers, outputs, nodes)
        elif group.target is not None:
            self._references.update(op.outputs)
            self._shares = True
            registers = [*registers, self._register[group.target]]
            work = assigned.instruction(group, registers, outputs[0], nodes)
        else:
            self._fresh.add(op.outputs[0])
            self._shares = True
            work = fuse.instruction(group, registers, outputs[0], nodes)
        self._append(segment, work, node, tuple(registers), outputs)
        self._release(op, group.inputs, segment, node)

    def _look_before(
        self, ops: Iterable[Operation], segment: Segment, after: frozenset[int], node: NodeInfo
    ) -> None:
        """See whether the step is to go on, if much may have been done before these nodes."""
        if self._pace.look_before(ops, after, self._repeats):
            self._append(segment, make.look(node), node, ())

    def _merge_with_earlier(self, op: Operation) -> None:
        """The outputs of `op` are there already."""
        for tensor in op.outputs:
            first = self._same[tensor]
            if first not in self._register and (
                first.op in self._shapes or first.op in self._group_of
            ):
                continue  # only nodes that run together with it look at it
            self._register[tensor] = self._register[first]
            if first in self._constants:
                self._constants[tensor] = self._constants[first]
        # Not that of the tensor's own node: it may be fed, and an Identity may wait for more.
        self._after[op] = self._dependencies(op)

    def _use_elsewhere(
        self, tensors: Iterable[Tensor], after: frozenset[int] | None = None
    ) -> None:
        """These tensors are looked at by the segment `after`, or by a waiter: note those that another segment makes.

        Which one does counts, not which one has the Identity of it that is wanted: that may wait for more.
        """
        made = (self._same.get(tensor, tensor) for tensor in tensors)
        self._used_elsewhere.update(
            t for t in made if after is None or self._after.get(t.op) != after
        )

    def _outputs(self, op: Operation, after: frozenset[int]) -> tuple[int, ...]:
        """The registers of the outputs: one whose value nobody wants any more, for a single output."""
        if len(op.outputs) == 1 and (free := self._free.get(after)):
            return (self._output(op.outputs[0], free.pop()),)
        return tuple(self._output(tensor) for tensor in op.outputs)

    def _output(self, tensor: Tensor, register: int | None = None) -> int:
        """The register of an output; a fed tensor's own result goes where nobody looks."""
        register = self._new_register() if register is None else register
        if tensor not in self._fed:
            self._register[tensor] = register
        return register

    def _preload(
        self, op: Operation, node: NodeInfo, after: frozenset[int], values: Sequence[Any]
    ) -> None:
        """The outputs of `op` are known now; they stand in the template, read-only."""
        self._after[op] = after
        registers = []
        for tensor, value in zip(op.outputs, values, strict=True):
            array = np.asarray(value).view()
            if array.dtype != object:
                array.flags.writeable = False
            registers.append(self._new_register(quick_scalar(array)))
            if tensor not in self._fed:
                self._register[tensor] = registers[-1]
                self._constants[tensor] = array
        self._preloaded.append((node, tuple(registers)))

    def _dependencies(self, op: Operation) -> frozenset[int]:
        if not self._waiters:
            return _NOTHING
        found: set[int] = set()
        for tensor in op.inputs:
            if tensor not in self._fed:
                found |= self._after[tensor.op]
        for control in self._controls[op]:
            found |= self._after.get(control, frozenset())
        return frozenset(found)

    def _inputs(
        self, op: Operation, spec: OpSpec, node: NodeInfo, segment: Segment
    ) -> tuple[int, ...]:
        """The input registers of a node; references that it does not ask for are loaded first."""
        if SNAPSHOTS not in spec.traits and self._references.isdisjoint(op.inputs):
            return tuple([self._register[tensor] for tensor in op.inputs])
        wanted = wants_reference(op, spec)
        passes = KEEPS_REFS in spec.traits or TAKES_REFS in spec.traits
        registers = []
        for index, tensor in enumerate(op.inputs):
            register = self._register[tensor]
            load = None
            if SNAPSHOTS in spec.traits and tensor in self._live:
                load = make.copied
            elif tensor in self._references and not (wanted[index] or passes):
                load = make.snapshot if SNAPSHOTS in spec.traits else make.dereference
            if load is not None:
                loaded = self._new_register()
                self._append(segment, load(register, loaded), node, (register,))
                register = loaded
            registers.append(register)
        return tuple(registers)

    def _instruction(
        self,
        op: Operation,
        spec: OpSpec,
        node: NodeInfo,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> tuple[Instruction, Recipe | None]:
        if sending.is_sent(op, self._returned, self._same) and self._xp is np:
            return sending.instruction(op, inputs, outputs[0]), None
        kernel = bound_kernel(op, spec, self._xp)
        if spec.knowing_fn is not None:
            kernel = spec.knowing_fn(op, [self._constants.get(t) for t in op.inputs]) or kernel
        single = spec.single_output
        if op in self._alike and spec.alike_fn is not None:
            kernel = spec.alike_fn
        if HANDLE in spec.traits and not inputs:
            return make.handle(kernel, node, outputs[0]), None
        if check.enabled:
            kernel = check.checked_kernel(kernel, op, single)
        if spec.takes_ctx:
            return make.with_context(kernel, node, inputs, outputs, single), None
        recipe = (kernel, inputs, outputs) if single else None
        return make.call(kernel, inputs, outputs, single), recipe

    def _append(
        self,
        segment: Segment,
        instruction: Instruction,
        node: NodeInfo,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...] = (),
        recipe: Recipe | None = None,
    ) -> None:
        segment.instructions.append(instruction)
        segment.nodes.append(node)
        segment.inputs.append(inputs)
        segment.outputs.append(outputs)
        segment.recipes.append(recipe)

    def _release(
        self, op: Operation, inputs: Sequence[Tensor], segment: Segment, node: NodeInfo
    ) -> None:
        """Let later results have the registers of inputs that nobody uses any more; forget large ones at once.

        Only what was made in the same segment: other segments may run in another order.  What was fed is forgotten by
        the only segment that there is so far: other tasks may wait for its memory.
        """
        after = self._after[op]
        if gone := self._gone(op, inputs):
            large = tuple(self._register[tensor] for tensor in gone if is_large(tensor))
            if large:
                self._append(segment, make.release(large), node, (), (), (None, large, ()))
            self._free.setdefault(after, []).extend(self._register[tensor] for tensor in gone)

    def _gone(self, op: Operation, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The inputs that nobody uses after this node, made in the same segment."""
        after = self._after[op]
        nothing_waits = self._fuses and not self._waiters
        return [
            tensor
            for tensor in dict.fromkeys([self._same.get(tensor, tensor) for tensor in inputs])
            if self._last_use.get(tensor) is op
            and tensor not in self._used_elsewhere
            and tensor not in self._references
            and tensor not in self._constants
            and (nothing_waits if tensor in self._fed else self._after.get(tensor.op) == after)
        ]

    # -- waiting ----------------------------------------------------------------------------

    def _add_waiter(
        self,
        op: Operation,
        spec: OpSpec,
        node: NodeInfo,
        after: frozenset[int],
        outputs: tuple[int, ...],
    ) -> None:
        wanted = wants_reference(op, spec)
        kernel = bound_kernel(op, spec, self._xp)
        keeps = [KEEPS_INPUTS in spec.traits and self._is_nobody_elses(t) for t in op.inputs]
        registers = []
        for index, tensor in enumerate(op.inputs):
            register = self._register[tensor]
            refers = tensor in self._references and not wanted[index]
            if refers or tensor in self._live:
                segment = self._segments.setdefault(after, Segment())
                loaded = self._new_register()
                load = make.lent if KEEPS_INPUTS in spec.traits else make.snapshot
                load = make.copied if tensor in self._live else load
                self._append(segment, load(register, loaded), node, (register,))
                register = loaded
                keeps[index] = True
            registers.append(register)
        inputs = tuple(registers)
        if spec.prompt_fn is not None:
            kernel = spec.prompt_fn(op.attrs, tuple(keeps))
        self._use_elsewhere(op.inputs)
        number = len(self._waiters)
        single = spec.single_output
        store = make.storing(outputs, single)
        if check.enabled:
            store = check.checked_store(store, op, single)
        if spec.finish_fn is not None:
            store = make.finishing(spec.finish_fn, store)
        waiter = Waiter(
            node,
            make.starting(kernel, node, inputs, spec.takes_ctx),
            store,
            inputs,
            outputs,
            computes=spec.prompt_fn is None,
        )
        self._waiters.append((waiter, after))
        self._after[op] = after | {number}
        self._fresh.update(op.outputs)

    def _is_nobody_elses(self, tensor: Tensor) -> bool:
        """Whether a value was made in this step for one node alone."""
        same = self._same
        first = same.get(tensor, tensor)
        if first not in self._fresh or tensor in self._fed:
            return False
        used = [*self._returned, *(each for op in self._ops for each in op.inputs)]
        return sum(first is same.get(each, each) for each in used) == 1
