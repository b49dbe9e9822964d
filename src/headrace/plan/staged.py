"""Staging areas in a plan: what is put aside on a device stays there until it is taken.

The nodes run on the host.  Values of dtypes that the device keeps go in and come out as its arrays; keys, indices and
whole numbers of 32 bits are the host's.  Whoever takes them elsewhere gets a copy.
Called by: plan.devices, plan.kernels, plan.emit.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.graph import Operation
from headrace.graph.registry import ArgDef
from headrace.graph.tensor import Tensor
from headrace.run.devices.device import Device
from headrace.run.devices.there import There, here, on


def kept(op: Operation, tensors: Sequence[Tensor], device: Device) -> list[bool]:
    """Which of a node's inputs or outputs are arrays of the device."""
    assert op.spec is not None
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


def taking(op: Operation, device: Device) -> Callable[[Any], Any]:
    """What makes the outputs of what was put aside."""
    there = kept(op, op.outputs, device)

    def finish(found: Any) -> Any:
        return [
            on(device, value) if is_kept else here(value)
            for value, is_kept in zip(found, there, strict=True)
        ]

    return finish
