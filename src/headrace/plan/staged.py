"""Staging areas, and what loops keep, in a plan: what is put aside on a device stays there until it is taken.

The nodes run on the host.  Values of dtypes that the device keeps go in and come out as its arrays; keys, indices,
handles and whole numbers of 32 bits are the host's.  Whoever takes them elsewhere gets a copy.
Called by: plan.devices, plan.kernels, plan.emit.  Threads: any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import STAGES, STORES
from headrace.graph.graph import Operation
from headrace.graph.schemas import ArgDef
from headrace.graph.tensor import Tensor
from headrace.run.devices.device import Device
from headrace.run.devices.there import There, here, on

KEEPS_ASIDE = frozenset((STAGES, STORES))
"""Traits of nodes that put values aside, or take them back."""


_OF_SHAPES = frozenset(("shape_type", "Tshape"))
"""Attrs that say the dtype of a shape."""


def kept(op: Operation, tensors: Sequence[Tensor], device: Device) -> list[bool]:
    """Which of a node's inputs or outputs are arrays of the device."""
    assert op.spec is not None
    if STORES in op.traits:
        arguments = op.spec.inputs if tensors is op.inputs else op.spec.outputs
        return [
            (argument.type_attr is not None or _is_flow(argument))
            and argument.type_attr not in _OF_SHAPES
            and device.keeps(tensor._dtype._base.name)
            for argument, tensor in zip(arguments, tensors, strict=True)
        ]
    defined = op.spec.inputs if tensors is op.inputs else op.spec.outputs
    first = sum([not _is_list(each) for each in defined])
    return [
        place >= first and device.keeps(tensor._dtype._base.name)
        for place, tensor in enumerate(tensors)
    ]


def _is_list(argument: ArgDef) -> bool:
    return argument.type_list_attr is not None


def keeps_any(op: Operation, device: Device) -> bool:
    """Whether there is any."""
    return any(kept(op, op.inputs, device)) or any(kept(op, op.outputs, device))


def putting(op: Operation, device: Device, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, a function of the runtime and the inputs, that takes arrays of the device."""
    there = [
        tensor._dtype._base.np if is_kept else None
        for tensor, is_kept in zip(op.inputs, kept(op, op.inputs, device), strict=True)
    ]

    def run(ctx: Any, *inputs: Any) -> Any:
        return kernel(
            ctx,
            *[
                value if dtype is None else There(device, value, dtype)
                for value, dtype in zip(inputs, there, strict=True)
            ],
        )

    return run


def storing(op: Operation, device: Device) -> Callable[..., Any]:
    """The kernel, a function of the inputs, of a node that keeps values within a step: of arrays of the device.

    It takes the runtime first where the host's does.
    """
    spec = op.spec
    assert spec is not None
    assert spec.kernel is not None
    attrs = {name: op.attrs[name] for name in spec.kernel_attrs}
    kernel = functools.partial(spec.kernel, **attrs)
    if not spec.takes_ctx:
        kernel = functools.partial(spec.kernel, device.xp, **attrs)
    there = [
        tensor._dtype._base.np if is_kept and not _is_flow(argument) else None
        for argument, tensor, is_kept in zip(
            spec.inputs, op.inputs, kept(op, op.inputs, device), strict=True
        )
    ]
    single, gives = spec.single_output, kept(op, op.outputs, device)
    flows = [_is_flow(argument) for argument in spec.outputs]

    def given(value: Any, is_kept: bool, is_flow: bool) -> Any:
        if is_flow and is_kept:
            return _flow(device) if isinstance(value, np.generic) else value
        return on(device, value) if is_kept else here(value)

    def run(*inputs: Any) -> Any:
        first = inputs[: spec.takes_ctx]
        found = kernel(
            *first,
            *[
                value if dtype is None else There(device, value, dtype)
                for value, dtype in zip(inputs[spec.takes_ctx :], there, strict=True)
            ],
        )
        if single:
            return given(found, gives[0], flows[0])
        return [given(*each) for each in zip(found, gives, flows, strict=True)]

    return run


def _is_flow(argument: ArgDef) -> bool:
    """Whether it is a number of no meaning that orders what is done to an array of tensors."""
    return argument.type is dtypes.float32


@functools.lru_cache(maxsize=64)
def _flow(device: Device) -> Any:
    """One there."""
    return device.put(np.float32(0.0))


def taking(op: Operation, device: Device) -> Callable[[Any], Any]:
    """What makes the outputs of what was put aside."""
    there = kept(op, op.outputs, device)

    def finish(found: Any) -> Any:
        return [
            on(device, value) if is_kept else here(value)
            for value, is_kept in zip(found, there, strict=True)
        ]

    return finish
