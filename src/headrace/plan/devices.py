"""Devices in a plan: what computes where, and the copies between.

A node on a device that is not the host computes there if its op has an array kernel (`ops._portable`) for its dtypes.
Else it is done on the host in the device's name, as in TensorFlow most of what has int32 or a variable is; nodes that
cannot be on such a device at all are the placer's to refuse (`may_be_on`).  What steps keep, feed, fetch and hand from
one branch or loop to the next is with the host.
Called by: plan.place, plan.compile, plan.passes, plan.kernels, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.base.device import DeviceSpec
from headrace.base.dtypes import DType
from headrace.base.traits import (
    ASSIGNS,
    CALLS_USER,
    CONST,
    CONTROL_FLOW,
    DRAWS,
    IDENTITY,
    MAY_WAIT,
    OF_SHAPE,
    PLACEHOLDER,
    READS_VARIABLE,
    RECEIVE,
    SEND,
    STAGES,
    STATEFUL,
    UPDATES,
    VAR_HANDLE,
    VARIABLE,
)
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.ops._portable.table import ArrayKernel, StateKernel, array_kernels, state_kernels
from headrace.plan.binding import bound_kernel
from headrace.plan.device_state import state_kernel_on
from headrace.plan.ir import BRANCH, COPY, FUSED, LOAD, LOOP, NODE, Instr, Step, Values
from headrace.plan.nesting import closed
from headrace.plan.staged import keeps_any, kept
from headrace.run.devices.device import HOST, IN_HOST_MEMORY, NUMBERS, Device
from headrace.run.devices.memory import naming
from headrace.run.devices.table import of_name
from headrace.run.exec.instructions import dereference
from headrace.run.state.on_device import OnDevice
from headrace.run.state.variable import Variable

Placed = Mapping[Operation, Device]
"""The device of each node that does not compute on the host."""

_ANYWHERE = frozenset(
    (
        ASSIGNS,
        CONST,
        CONTROL_FLOW,
        IDENTITY,
        OF_SHAPE,
        PLACEHOLDER,
        READS_VARIABLE,
        RECEIVE,
        SEND,
        STAGES,
        UPDATES,
        VAR_HANDLE,
        VARIABLE,
    )
)
"""Traits of ops that are on every device, though the host does their work."""
_DOES_MORE = frozenset((STATEFUL, MAY_WAIT, CALLS_USER))
_ANY_NUMBER = NUMBERS | {"bfloat16", "resource"}


def may_be_on(op: Operation, device: str, asked: bool) -> bool:
    """Whether a node can be on a device, by name, or is to be there unasked.

    Asked for, the host does in the name of the device what that has no array kernel for, of numbers.
    """
    type = DeviceSpec.from_string(device).device_type
    if type in (None, "CPU"):
        return True
    if not _dtypes(op) <= _ANY_NUMBER:
        return False
    if kernel_of(op) is not None or not _ANYWHERE.isdisjoint(op.traits):
        return True
    if any(_is_of_state(tensor._dtype) for tensor in op.inputs):  # it is where that is
        return True
    if not (op.inputs or op.outputs or STATEFUL in op.traits):  # it is waited for, and no more
        return True
    return asked and on_any_device(op)


def _is_of_state(kind: DType) -> bool:
    return kind._is_ref_dtype or kind is dtypes.resource


def on_any_device(what: Operation | OpSpec) -> bool:
    """Whether nodes of numbers may be on any device, where the host does their work if nobody else can."""
    traits = what.traits
    return DRAWS in traits or not _ANYWHERE.isdisjoint(traits) or _DOES_MORE.isdisjoint(traits)


def placed(ops: Iterable[Operation], devices: Mapping[Operation, str]) -> Placed:
    """Which nodes compute elsewhere than on the host.

    devices: the name of each node's.  Raises InvalidArgument if there is no such device here.
    """
    others = {name: of_name(name) for name in set(devices.values())}
    others = {name: device for name, device in others.items() if device is not HOST}
    if not others:
        return {}
    found = {}
    for op in ops:
        device = others.get(devices.get(op, ""))
        if device is not None and _computes(op, device):
            found[op] = device
    return found


def _computes(op: Operation, device: Device) -> bool:
    """Whether a node that is on a device is computed there."""
    if STAGES in op.traits:
        return keeps_any(op, device)
    kernel = kernel_of(op)
    if kernel is None or MAY_WAIT in op.traits:
        return False
    if isinstance(kernel, ArrayKernel) and kernel.function_for(device.xp) is None:
        return False
    kinds = _dtypes(op)
    if isinstance(kernel, StateKernel):
        kinds.discard("resource")
        return kinds <= device.dtypes and device.keeps(_held(op))
    return kinds <= device.dtypes and not kinds <= IN_HOST_MEMORY


def _held(op: Operation) -> str:
    """The name of the dtype that the variables of a node hold."""
    kind: str = (op.attrs.get("T") or op.attrs["dtype"]).base_dtype.name
    return kind


def kernel_of(op: Operation) -> ArrayKernel | StateKernel | None:
    """What a device does for a node, if it does anything."""
    return state_kernels().get(op.type) or array_kernel(op)


def array_kernel(op: Operation) -> ArrayKernel | None:
    """The array kernel of a node, if it has one for its dtype."""
    kernel = array_kernels().get(op.type)
    if kernel is None or (kernel.passes and any(each.dtype._is_ref_dtype for each in op.inputs)):
        return None
    if kernel.reals:
        count = len(op.inputs)
        value = next((op.inputs[at] for at in range(count) if not kernel.on_host(at, count)), None)
        if value is None or not (value.dtype.is_floating or value.dtype.is_complex):
            return None
    return kernel


def _dtypes(op: Operation) -> set[str]:
    return {tensor._dtype._base.name for tensor in (*op.inputs, *op.outputs)}


# -- kernels ----------------------------------------------------------------------------------------------------------


def kernel_on(op: Operation, device: Device) -> Callable[..., Any]:
    """The node's kernel, of arrays of the device, but for what stays with the host.

    What fails there is done again on the host, which knows what to say of it; but for memory that is missing there.
    """
    return naming(_described(op), device, _kernel_on(op, device))


def _described(op: Operation) -> str:
    """For an error: what a node is to give."""
    kinds = [f"{tensor._dtype._base.name}{shape_rules.text(tensor._raw)}" for tensor in op.outputs]
    return f"{op.type} {op.name!r} was to give {', '.join(kinds) or 'nothing'}"


def _kernel_on(op: Operation, device: Device) -> Callable[..., Any]:
    kernel = kernel_of(op)
    assert kernel is not None
    assert op.spec is not None
    if isinstance(kernel, StateKernel):
        return state_kernel_on(op, kernel, device, bound_kernel(op, op.spec))
    attrs = {name: op.attrs[name] for name in kernel.attrs if name in op.attrs}
    function = kernel.function_for(device.xp)
    assert function is not None
    there = device.bound(functools.partial(function, device.xp, **attrs))
    count = len(op.inputs)
    here, single = bound_kernel(op, op.spec), op.spec.single_output
    stays = [kernel.on_host(place, count) for place in range(count)]

    def run(*inputs: Any) -> Any:
        try:
            return there(*inputs)
        except Exception as error:
            if device.is_final(error):
                raise
        given = [
            value if with_host else device.get(value)
            for value, with_host in zip(inputs, stays, strict=True)
        ]
        found = here(*given)
        return device.put(found) if single else [device.put(each) for each in found]

    return run


def kernel_apart(op: Operation, device: Device) -> Callable[..., Any]:
    """As `kernel_on`, of arrays of the host, which it gives, too."""
    kernel, count = kernel_of(op), len(op.inputs)
    assert kernel is not None
    assert op.spec is not None
    if isinstance(kernel, ArrayKernel) and kernel.passes:
        return bound_kernel(op, op.spec)
    stays = [kernel.on_host(place, count) for place in range(count)]
    there = kernel_on(op, device)
    single, stay = op.spec.single_output, kernel.stays(0)

    def run(*inputs: Any) -> Any:
        found = there(
            *[
                value if with_host else device.put(value)
                for value, with_host in zip(inputs, stays, strict=True)
            ]
        )
        if stay:
            return found
        return device.get(found) if single else [device.get(each) for each in found]

    return run


def kernel_apart_from(member: Instr, device: Device, values: Values) -> Callable[..., Any]:
    """As `kernel_on`, for a node of a group: constants of the step are with the host, and variables may stand for what
    they hold.
    """
    kernel, run, constants = kernel_of(member.op), kernel_on(member.op, device), values.constants
    assert kernel is not None
    free = [
        (place, value)
        for place, value in enumerate(member.inputs)
        if not kernel.on_host(place, len(member.inputs))
    ]
    there = {place: device.put(constants[value]) for place, value in free if value in constants}
    refer = {place for place, value in free if value in values.references}
    if not there and not refer:
        return run

    def taken(place: int, value: Any) -> Any:
        if place in refer and isinstance(value, Variable):
            return _value_on(device, value)
        return there.get(place, value)

    return lambda *inputs: run(*[taken(place, value) for place, value in enumerate(inputs)])


# -- copies -----------------------------------------------------------------------------------------------------------


def copy_between(step: Step) -> Step:
    """The pass: copies stand where a value is made on one device and wanted on another."""
    if not step.request.placed:
        return step
    return _Copying(step.values, step.request.placed).done(step)


class _Copying:
    def __init__(self, values: Values, placed: Placed) -> None:
        self._values, self._placed = values, placed
        self._constants: dict[tuple[int, Device], int] = {}

    def done(self, step: Step) -> Step:
        """The step, or one inside it, with copies; what goes from one to the other is with the host."""
        elsewhere = self._wanted_elsewhere(step)
        loads = self._loads_elsewhere(step)
        here: dict[tuple[int, Device], int] = {}
        code: list[Instr] = []
        for instr in step.code:
            if instr in loads:
                code.append(self._load(instr, loads[instr], here))
                continue
            device = self._device(instr)
            if device is not HOST:
                instr, copies = self._moved(instr, device, here, code, elsewhere)
                code += (instr, *copies)
                continue
            if instr.what in (BRANCH, LOOP):
                instr = closed(
                    instr.changed(body=tuple([self.done(inner) for inner in instr.body]))
                )
            code.append(instr)
        return step.with_code(code)

    def _device(self, instr: Instr) -> Device:
        computes = instr.what == FUSED or (instr.what == NODE and not instr.body)
        return self._placed.get(instr.op, HOST) if computes else HOST

    def _wanted_elsewhere(self, step: Step) -> set[int]:
        """Values that somebody wants who is not where they are made."""
        made: dict[int, Device] = {}
        found = set(step.results)
        for instr in step.code:
            device = self._device(instr)
            for place, value in enumerate(instr.outputs):
                if device is not HOST and not gives_here(instr, place, device):
                    made[value] = device
            for place, value in enumerate(instr.inputs):
                at = HOST if device is HOST or self._stays(instr, place) else device
                if made.get(value, HOST) is not at:
                    found.add(value)
        return found

    def _stays(self, instr: Instr, place: int) -> bool:
        if instr.what == FUSED:  # in whose program they are constants, or variables
            value = instr.inputs[place]
            tensor = self._values.tensors[value]
            is_handle = tensor is not None and tensor._dtype is dtypes.resource
            return value in self._values.constants or place in instr.refers or is_handle
        if STAGES in instr.op.traits:
            return not kept(instr.op, instr.op.inputs, self._device(instr))[place]
        kernel = kernel_of(instr.op)
        assert kernel is not None
        return kernel.on_host(place, len(instr.inputs))

    def _loads_elsewhere(self, step: Step) -> dict[Instr, Device]:
        """What reads a variable for a node that computes elsewhere: it is read there."""
        found: dict[Instr, Device] = {}
        for instr in step.code:
            if instr.what != LOAD or instr.kernel is not dereference:
                continue
            (value,) = instr.outputs
            for user in step.facts.users(value):
                device = self._device(user)
                if device is not HOST and not self._stays(user, user.inputs.index(value)):
                    found[instr] = device
        return found

    def _load(self, instr: Instr, device: Device, here: dict[tuple[int, Device], int]) -> Instr:
        (value,) = instr.outputs
        there = here[value, device] = self._values.new(None)
        return instr.changed(
            outputs=(there,),
            kernel=naming(
                f"the value for {instr.op.type} {instr.op.name!r} was to be put",
                device,
                functools.partial(_value_on, device),
            ),
            detail=device,
        )

    def _moved(
        self,
        instr: Instr,
        device: Device,
        here: dict[tuple[int, Device], int],
        code: list[Instr],
        elsewhere: set[int],
    ) -> tuple[Instr, Sequence[Instr]]:
        """The instruction with arrays of its device, and copies of what others want of it."""
        values = self._values
        inputs = [
            value if self._stays(instr, place) else self._on(value, device, instr, here, code)
            for place, value in enumerate(instr.inputs)
        ]
        outputs: list[int] = []
        copies: list[Instr] = []
        for place, value in enumerate(instr.outputs):
            if gives_here(instr, place, device):
                outputs.append(value)
                continue
            there = here[value, device] = values.new(values.tensors[value])
            outputs.append(there)
            if value in elsewhere:
                copies.append(_copy(instr, there, value, device.get))
        return instr.changed(inputs=tuple(inputs), outputs=tuple(outputs)), copies

    def _on(
        self,
        value: int,
        device: Device,
        instr: Instr,
        here: dict[tuple[int, Device], int],
        code: list[Instr],
    ) -> int:
        """The value on the device."""
        values, key = self._values, (value, device)
        known = here.get(key) or self._constants.get(key)
        if known is not None:
            return known
        there = values.new(values.tensors[value])
        if value in values.constants:
            values.constants[there] = device.put(values.constants[value])
            self._constants[key] = there
            return there
        if value not in values.changing:
            here[key] = there
        what = f"the value for {instr.op.type} {instr.op.name!r} was to be put"
        code.append(_copy(instr, value, there, naming(what, device, device.put)))
        return there


def gives_here(instr: Instr, place: int, device: Device) -> bool:
    """Whether an output of what is on a device is with the host."""
    op = instr.op
    if instr.what == FUSED:
        return instr.outputs[place] in instr.body[0].values.references
    if STAGES in op.traits:
        return not kept(op, op.outputs, device)[place]
    kernel = kernel_of(op)
    return kernel is not None and kernel.stays(place)


def _value_on(device: Device, value: Any) -> Any:
    """What a variable holds, or another value, as an array of the device."""
    if isinstance(value, OnDevice) and value.device is device:
        return value.there()
    return device.put(value.require() if isinstance(value, Variable) else value)


def _copy(instr: Instr, given: int, made: int, kernel: Callable[[Any], Any]) -> Instr:
    return Instr(
        instr.op,
        (),
        (given,),
        (made,),
        device=instr.device,
        after=instr.after,
        what=COPY,
        kernel=kernel,
    )
