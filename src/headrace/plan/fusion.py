"""Fusion: nodes that only compute, one after the other, become one program of XLA's.

A group is what comes in a row on one device and depends on nothing outside that depends on it; what it is given are
arrays of that device, and shapes and axes that are known when the step is planned.  Each branch and loop is looked at
for itself.
Whether a fused step pays is measured (`run.exec.tuning`): this is how it is made.
Called by: plan.passes, plan.compile.  Threads: any.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any, Final

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.traits import CONST, MAY_WAIT
from headrace.graph.graph import Operation
from headrace.ops._portable.table import ArrayKernel, array_kernels, tracing
from headrace.plan.devices import array_kernel
from headrace.plan.ir import BRANCH, FUSED, LOOP, NODE, Instr, Request, Step
from headrace.plan.nesting import closed
from headrace.plan.rules.group import Group, Match, joined
from headrace.run.devices.device import HOST, NUMBERS, Device
from headrace.run.exec.fused import FusedKernel
from headrace.run.exec.instructions import Kernel

FEWEST: Final = 6
"""Nodes; fewer cost less than calling a program of XLA's."""
_FEWEST_THERE: Final = 2
"""On another device, where each node by itself is such a call."""
SETTING: Final = "HEADRACE_XLA"


def setting() -> str:
    """How steps are fused: "off", "on", or "auto", where that is measured to pay.  Raises InvalidArgument."""
    said = os.environ.get(SETTING, "").strip().lower() or "auto"
    if said not in ("on", "off", "auto"):
        raise errors.invalid_argument(f"{SETTING}={said!r}: it is on, off or auto")
    return said if said == "off" or _has_jax() else "off"


@cache
def _has_jax() -> bool:
    return importlib.util.find_spec("jax") is not None


def may_pay(ops: Iterable[Operation]) -> bool:
    """Whether there are nodes enough that a group may be made of."""
    kernels = array_kernels()
    return sum([_may_join(kernels.get(op.type), op) for op in ops]) >= FEWEST


def _may_join(kernel: ArrayKernel | None, op: Operation) -> bool:
    return kernel is not None and not kernel.alone and CONST not in op.traits


def identity(request: Request) -> str:
    """What tells a step from others, whatever its nodes are called; the same in every process."""
    ops = request.pruned.ops
    number = {tensor: f"a{at}" for at, tensor in enumerate(request.args)}
    hashed = hashlib.sha256()
    for at, op in enumerate(ops):
        device = request.placed.get(op, HOST)
        made = [(tensor._dtype.name, tensor._raw) for tensor in op.outputs]
        taken = [number.get(tensor, "") for tensor in op.inputs]
        for tensor in op.outputs:
            number.setdefault(tensor, f"{at}:{tensor.value_index}")
        attrs = [(name, repr(value)) for name, value in op.attrs.items() if _is_plain(name, value)]
        said = (op.type, device.description, taken, made, sorted(attrs))
        hashed.update(repr(said).encode())
    hashed.update(repr([number.get(tensor, "") for tensor in request.returns]).encode())
    return hashed.hexdigest()


def _is_plain(name: str, value: Any) -> bool:
    """Whether an attr says how something is computed, not what it is called."""
    if isinstance(value, list):
        return all(_is_plain(name, each) for each in value)
    return isinstance(value, (bool, int, float, DType)) and not name.startswith("_")


def fuse(step: Step) -> Step:
    """The pass."""
    code = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            instr = closed(instr.changed(body=tuple([fuse(body) for body in instr.body])))
        code.append(instr)
    return _Fusing(step.with_code(code)).done()


class _Fusing:
    """members: of the group that is being made; late: what depends on them and is to come after them.

    looks: some of them read variables, which may not change before the group runs.  where: the device of all.
    """

    def __init__(self, step: Step) -> None:
        self._step, self._facts = step, step.facts
        self._values = step.values
        self._code: list[Instr] = []
        self._begin()

    def _begin(self) -> None:
        self._members: list[Instr] = []
        self._late: list[Instr] = []
        self._pending: list[Instr] = []  # both, in their order
        self._made: set[int] = set()
        self._made_late: set[int] = set()
        self._ops: set[Operation] = set()
        self._late_ops: set[Operation] = set()
        self._looks = False
        self._where: Device = HOST

    def done(self) -> Step:
        for instr in self._step.code:
            self._add(instr)
        self._end()
        return self._step.with_code(self._code)

    def _add(self, instr: Instr) -> None:
        if self._members and self._device(instr) not in (HOST, self._where) and self._fits(instr):
            self._end()  # another device's begins; the host's beside a device's wait, or come before
        late = not self._made_late.isdisjoint(instr.inputs)
        late = late or not self._late_ops.isdisjoint(instr.controls)
        depends = late or not self._made.isdisjoint(instr.inputs)
        depends = depends or not self._ops.isdisjoint(instr.controls)
        if not late and self._joins(instr):
            self._where = self._device(instr)
            self._members.append(instr)
            self._pending.append(instr)
            self._made.update(instr.outputs)
            self._ops.add(instr.op)
            self._looks = self._looks or not self._values.changing.isdisjoint(instr.inputs)
        elif instr.effects or instr.waiter >= 0 or instr.what in (BRANCH, LOOP):
            if depends or self._late or self._looks:
                self._end()
            self._code.append(instr)
        elif depends:
            self._late.append(instr)
            self._pending.append(instr)
            self._made_late.update(instr.outputs)
            self._late_ops.add(instr.op)
        else:
            self._code.append(instr)

    def _end(self) -> None:
        """The group is as large as it can be."""
        inside = set(self._members)
        kept = [
            value
            for member in self._members
            for value in member.outputs
            if value in self._facts.results or not inside.issuperset(self._facts.uses(value))
        ]
        fewest = FEWEST if self._where is HOST else _FEWEST_THERE
        if len(inside) >= fewest and kept:
            self._code.append(joined(FUSED, Match(inside, _build, kept), self._step))
            self._code += self._late
        else:
            self._code += self._pending
        self._begin()

    def _joins(self, instr: Instr) -> bool:
        return self._fits(instr) and (not self._members or self._is_beside(instr))

    def _fits(self, instr: Instr) -> bool:
        """Whether it may be in a group."""
        if instr.what != NODE or instr.body or instr.kernel is not None or instr.detail is not None:
            return False
        op, values = instr.op, self._values
        kernel = array_kernel(op)
        if kernel is None or MAY_WAIT in op.traits or not self._device(instr).compiles:
            return False
        if kernel.alone and self._device(instr) is HOST:
            return False
        if not _numeric(op):
            return False
        return all(
            value in values.constants
            for place, value in enumerate(instr.inputs)
            if kernel.on_host(place, len(instr.inputs))
        )

    def _is_beside(self, instr: Instr) -> bool:
        """Whether it runs when and where the others do."""
        return instr.after == self._members[0].after and self._device(instr) is self._where

    def _device(self, instr: Instr) -> Device:
        return self._step.request.placed.get(instr.op, HOST)


def _numeric(op: Operation) -> bool:
    return all(tensor._dtype.name in NUMBERS for tensor in (*op.inputs, *op.outputs))


def _build(group: Group) -> Kernel:
    """The kernel of a group: (step, what it is given) -> its results."""
    constants = group.values.constants
    known = {
        place: constants[value] for place, value in enumerate(group.inputs) if value in constants
    }
    steps = []
    for member in group.members:
        kernel = array_kernels()[member.op.type]
        attrs = {name: member.op.attrs[name] for name in kernel.attrs if name in member.op.attrs}
        stays = [kernel.on_host(place, len(member.inputs)) for place in range(len(member.inputs))]
        steps.append(
            (
                kernel,
                attrs,
                list(zip(group.inputs_of(member), stays, strict=True)),
                len(member.outputs) == 1 and member.op.spec.single_output,  # type: ignore[union-attr]
            )
        )
    wanted = [group.places[value] for value in group.outputs]
    given = [place for place in range(len(group.inputs)) if place not in known]
    fused = FusedKernel(partial(_traced, steps, wanted, known, given), given, group.device)
    plain, single = group.plain(), len(wanted) == 1

    def run(step: Any, *values: Any) -> Any:
        found: Sequence[Any] | None = None
        try:
            found = fused(values)
        except errors.ResourceExhaustedError:  # one by one they may take less, or say which it is
            fused.fell_back += 1
        if found is None:
            found = plain(step, values)
        return found[0] if single else found

    run.fused = fused  # type: ignore[attr-defined]  # for `run.exec.tuning`
    return run


Steps = Sequence[tuple[ArrayKernel, dict[str, Any], Sequence[tuple[int, bool]], bool]]


def _traced(
    steps: Steps,
    wanted: Sequence[int],
    known: dict[int, Any],
    given: Sequence[int],
    xp: Any,
    *arrays: Any,
) -> tuple[list[Any], Any]:
    """The results of a group, and whether all holds that its kernels require; None if they require nothing."""
    values: dict[int, Any] = dict(zip(given, arrays, strict=True))
    count = len(given) + len(known)
    with tracing() as required:
        for kernel, attrs, inputs, single in steps:
            taken = [
                known[place] if place in known and stays else _array(xp, place, values, known)
                for place, stays in inputs
            ]
            function = kernel.function_for(xp)
            assert function is not None
            found = function(xp, *taken, **attrs)
            for value in [found] if single else found:
                values[count] = value
                count += 1
        holds = None
        for condition in required:
            holds = condition if holds is None else xp.logical_and(holds, condition)
    return [_array(xp, place, values, known) for place in wanted], holds


def _array(xp: Any, place: int, values: dict[int, Any], known: dict[int, Any]) -> Any:
    found = values.get(place)
    if found is None:
        found = values[place] = xp.asarray(known[place])
    return found
