"""Devices in a plan: what computes where, and the copies between.

A node on a device that is not the host computes there if its op has an array kernel (`ops._portable`) for its dtypes.
Else it is done on the host in the device's name, as in TensorFlow most of what has int32 or a variable is; nodes that
cannot be on such a device at all are the placer's to refuse (`may_be_on`).  What steps keep, feed, fetch and hand from
one branch or loop to the next is with the host.
Called by: plan.place, plan.compile, plan.passes, plan.kernels, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.base.device import DeviceSpec
from headrace.base.dtypes import DType
from headrace.base.traits import (
    ALLOWS_UNINITIALIZED,
    ASSIGNS,
    CALLS_FUNCTION,
    CALLS_USER,
    CONST,
    CONTROL_FLOW,
    DRAWS,
    ENTER,
    EXIT,
    HANDLE,
    IDENTITY,
    ITERATES,
    KEEPS_REFS,
    MAY_WAIT,
    MERGE,
    OF_COUNTS,
    OF_SHAPE,
    PLACEHOLDER,
    QUANTIZED,
    READS_HANDLE,
    READS_VARIABLE,
    RECEIVE,
    SEND,
    SIZED_BY_VALUES,
    STAGES,
    STATEFUL,
    STORES,
    SWITCH,
    UPDATES,
    VAR_HANDLE,
    VARIABLE,
)
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.ops._portable.table import ArrayKernel, StateKernel, array_kernels, state_kernels
from headrace.plan.binding import bound_kernel
from headrace.plan.device_state import state_kernel_on
from headrace.plan.ir import FUSED, Instr, Values
from headrace.plan.staged import KEEPS_ASIDE, keeps_any, kept
from headrace.run.devices.device import HOST, IN_HOST_MEMORY, NUMBERS, Device
from headrace.run.devices.memory import naming
from headrace.run.devices.table import of_name
from headrace.run.devices.there import There, here, on
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
        STORES,
        UPDATES,
        VAR_HANDLE,
        VARIABLE,
    )
)
"""Traits of ops that are on every device, though the host does their work."""
_WITH_LISTS = frozenset((CONTROL_FLOW, IDENTITY, STORES))
"""Traits of ops whose variants may be lists of tensors, which are on every device."""
_HAND_ON = frozenset((IDENTITY, ENTER, EXIT, MERGE, SWITCH))
_OF_TRUTHS = IN_HOST_MEMORY | {"bool"}
_DOES_MORE = frozenset((STATEFUL, MAY_WAIT, CALLS_USER))
_NOTHING_COMPUTED = frozenset(
    (
        ALLOWS_UNINITIALIZED,
        CONST,
        HANDLE,
        IDENTITY,
        KEEPS_REFS,
        MAY_WAIT,
        PLACEHOLDER,
        READS_HANDLE,
        STATEFUL,
    )
)
_NEITHER = {dtypes.resource, dtypes.bool}
_ANY_NUMBER = NUMBERS | {"bfloat16", "resource"}


def may_be_on(op: Operation, device: str, asked: bool) -> bool:
    """Whether a node can be on a device, by name, or is to be there unasked.

    Asked for, the host does in the name of the device what that has no array kernel for, of numbers.
    """
    type = DeviceSpec.from_string(device).device_type
    if type in (None, "CPU"):
        return True
    kinds = _dtypes(op)
    if "variant" in kinds and (not _WITH_LISTS.isdisjoint(op.traits) or kernel_of(op) is not None):
        kinds.discard("variant")
    if not kinds <= _ANY_NUMBER:
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


_REASONS: Final = {
    SIZED_BY_VALUES: "how much it gives depends on values, at which the host has to look",
    ITERATES: "goes on from one value to the next, as far as these say: a processor's work",
    OF_COUNTS: "computes sizes, places and counts, which are with the host",
    QUANTIZED: "of quantized integers, which the arrays of devices have not",
    STAGES: "puts values aside, or gives them back: they stay where they are",
    STORES: "keeps values of a step, or gives them back: they stay where they are",
    CALLS_FUNCTION: "stands for what it calls, which is placed node by node",
}
_NO_ARITHMETIC: Final = "hands something on, or looks at what there is: nothing is computed"
_NARROW: Final = "of numbers of 32 bits, which are with the host"
_NO_NUMBERS: Final = "of text or of variants, which the arrays of devices have not"


def why_on_host(spec: OpSpec) -> str:
    """Why there is no kernel for devices of an op, so that the host does its work in their name; else empty."""
    for trait, reason in _REASONS.items():
        if trait in spec.traits:
            return reason
    kinds = _types_of(spec)
    of_state = any(arg.is_ref for arg in spec.inputs)
    if of_state or not _NOTHING_COMPUTED.isdisjoint(spec.traits) or kinds <= _NEITHER:
        return _NO_ARITHMETIC
    if any(kind.is_quantized for kind in kinds):
        return _REASONS[QUANTIZED]
    if not kinds.isdisjoint((dtypes.string, dtypes.variant)):
        return _NO_NUMBERS
    if {kind.name for kind in kinds} <= IN_HOST_MEMORY:
        return _NARROW
    return ""


def _types_of(spec: OpSpec) -> set[DType]:
    """Dtypes that inputs and outputs may have, as far as the schema lists them."""
    found: set[DType] = set()
    for arg in (*spec.inputs, *spec.outputs):
        if arg.type is not None:
            found.add(arg.type.base_dtype)
        elif arg.type_attr is not None:
            found.update(spec.attrs[arg.type_attr].allowed or ())
    return found


def placed(ops: Iterable[Operation], devices: Mapping[Operation, str]) -> Placed:
    """Which nodes compute elsewhere than on the host.

    devices: the name of each node's.  Raises InvalidArgument if there is no such device here.
    """
    others = {name: of_name(name) for name in set(devices.values())}
    others = {name: device for name, device in others.items() if device is not HOST}
    if not others:
        return {}
    found: dict[Operation, Device] = {}
    for op in ops:
        device = others.get(devices.get(op, ""))
        if device is not None and _computes(op, device) and not _is_only_truths(op, found):
            found[op] = device
    return found


def _is_only_truths(op: Operation, found: Placed) -> bool:
    """Whether a node makes truths of the host's numbers and truths, as conditions of loops are: so does the host.

    One truth is made there if any of what it is made of is.
    """
    if not op.inputs or not _dtypes(op) <= _OF_TRUTHS or not KEEPS_ASIDE.isdisjoint(op.traits):
        return False
    made = [_source(each).op in found for each in op.inputs if each._dtype._base is dtypes.bool]
    return not any(made) or (not all(made) and op.outputs[0]._raw == ())


def _source(tensor: Tensor) -> Tensor:
    """What is handed on to it, by way of loops and branches as by Identity."""
    while not _HAND_ON.isdisjoint(tensor.op.traits) and tensor.op.inputs:
        tensor = tensor.op.inputs[0]
    return tensor


def _computes(op: Operation, device: Device) -> bool:
    """Whether a node that is on a device is computed there."""
    if KEEPS_ASIDE & op.traits:
        return keeps_any(op, device)
    if OF_SHAPE in op.traits:  # wherever what it is of is
        return False
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
    count = _taken_by(op)
    here, single = bound_kernel(op, op.spec), op.spec.single_output
    if op.spec.ahead_fn is not None:
        here = functools.partial(here, None)  # it asks nothing of the runtime
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


def _taken_by(op: Operation) -> int:
    """How many inputs its kernel has elsewhere: what it takes of the runtime is one more (`plan.draws`)."""
    assert op.spec is not None
    return len(op.inputs) + (op.spec.ahead_fn is not None)


def kernel_there(op: Operation, device: Device) -> Callable[..., Any]:
    """As `kernel_on`, of variables, arrays of the host, and those of the device as `There`.

    What it gives is so, too, but for truths.
    """
    kernel, count, spec = kernel_of(op), _taken_by(op), op.spec
    assert kernel is not None
    assert spec is not None
    if isinstance(kernel, ArrayKernel) and kernel.passes:
        bound = bound_kernel(op, spec)
        hands_on = IDENTITY in op.traits

        def passed(*inputs: Any) -> Any:
            return inputs[0] if hands_on and isinstance(inputs[0], There) else bound(*inputs)

        return passed if hands_on else kernel_here(op, bound)
    taken_here = here if isinstance(kernel, StateKernel) else _read_here
    takes = [
        taken_here if kernel.on_host(place, count) else _putting(device) for place in range(count)
    ]
    there = kernel_on(op, device)
    single, stay = spec.single_output, kernel.stays(0)
    dtypes_there = [
        tensor._dtype._base.np if device.keeps(tensor._dtype._base.name) else None
        for tensor in op.outputs
    ]

    def given(value: Any, dtype: Any) -> Any:
        if dtype is None or dtype.kind == "b":
            return device.get(value)
        return There(device, value, dtype)

    def run(*inputs: Any) -> Any:
        found = there(*[take(value) for take, value in zip(takes, inputs, strict=True)])
        if stay:
            return found
        if single:
            return given(found, dtypes_there[0])
        return [given(*each) for each in zip(found, dtypes_there, strict=True)]

    return run


def _read_here(value: Any) -> Any:
    return value.require() if isinstance(value, Variable) else here(value)


def _putting(device: Device) -> Callable[[Any], Any]:
    """What gives a value as an array of the device; a constant, which nobody may change, is put there once."""
    last: tuple[Any, Any] = (None, None)

    def put(value: Any) -> Any:
        nonlocal last
        if isinstance(value, Variable):
            return value_on(device, value)
        if not isinstance(value, np.ndarray) or value.flags.writeable:
            return on(device, value)
        known, array = last
        if known is not value:
            array = on(device, value)
            last = value, array
        return array

    return put


def kernel_here(op: Operation, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of the host's, of what may be on a device; one that asks for shapes only need not have it here."""
    take = _of_its_shape if OF_SHAPE in op.traits else here

    def run(*inputs: Any, **more: Any) -> Any:
        given = [take(value) if isinstance(value, There) else value for value in inputs]
        return kernel(*given, **more)

    return run


def _of_its_shape(value: There) -> Any:
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)


def kernel_storing(op: Operation, device: Device) -> Callable[..., Any]:
    """That of a node that keeps values, of what may be on a device (`STORES`)."""
    spec = op.spec
    assert spec is not None
    assert spec.kernel is not None
    attrs = {name: op.attrs[name] for name in spec.kernel_attrs}
    takes_ctx = spec.takes_ctx
    kernel = functools.partial(spec.kernel, *([] if takes_ctx else [device.xp]), **attrs)
    stays = [*[True] * takes_ctx, *[not each for each in kept(op, op.inputs, device)]]

    def run(*inputs: Any) -> Any:
        return kernel(
            *[
                here(value) if with_host else value
                for value, with_host in zip(inputs, stays, strict=True)
            ]
        )

    return run


def kernel_apart_from(
    member: Instr, device: Device, values: Values, shapes: AbstractSet[int]
) -> Callable[..., Any]:
    """As `kernel_on`, for a node of a group: constants of the step and what follows from shapes are with the host, and
    variables may stand for what they hold.
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
    follow = {place for place, value in free if value in shapes}
    if not there and not refer and not follow:
        return run

    def taken(place: int, value: Any) -> Any:
        if place in refer and isinstance(value, Variable):
            return value_on(device, value)
        if place in follow:
            return device.put(value)
        return there.get(place, value)

    return lambda *inputs: run(*[taken(place, value) for place, value in enumerate(inputs)])


def gives_here(instr: Instr, place: int, device: Device) -> bool:
    """Whether an output of what is on a device is with the host."""
    op = instr.op
    if instr.what == FUSED:
        return instr.outputs[place] in instr.body[0].values.references
    if KEEPS_ASIDE & op.traits:
        return not kept(op, op.outputs, device)[place]
    kernel = kernel_of(op)
    return kernel is not None and kernel.stays(place)


def value_on(device: Device, value: Any) -> Any:
    """What a variable holds, or another value, as an array of the device."""
    if isinstance(value, OnDevice) and value.device is device:
        return value.there()
    return device.put(value.require() if isinstance(value, Variable) else value)
