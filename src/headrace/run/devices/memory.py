"""A device whose memory is full: the error that says who wanted what, and who holds the most.

Called by: plan.devices.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.base import errors
from headrace.run.devices.device import Device

_MOST: Final = 3
"""Holders that are named."""


def naming(what: str, device: Device, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, whose ResourceExhausted says for what there was no memory.  what: the node, and what it gives."""

    def run(*inputs: Any) -> Any:
        try:
            return kernel(*inputs)
        except errors.ResourceExhaustedError as error:
            raise _exhausted(error, what, device, inputs) from error

    return run


def _exhausted(
    error: errors.OpError, what: str, device: Device, inputs: Iterable[Any]
) -> errors.OpError:
    given = ", ".join([_shown(each) for each in inputs if hasattr(each, "shape")]) or "none"
    held, holders = device.bytes_held(), device.holders()
    said = f"{error.message}; {what} on {device.name}, its inputs were {given}"
    if held is not None:
        said += f"; arrays of this process hold {_amount(held)} of {_amount(device.memory_bytes)}"
    if holders:
        largest = ", ".join(
            [f"variable {name} {_amount(nbytes)}" for name, nbytes in holders[:_MOST]]
        )
        more = f" and {len(holders) - _MOST} more" if len(holders) > _MOST else ""
        said += f"; the largest holders: {largest}{more}"
    return errors.resource_exhausted(
        f"{said}. Take smaller batches, place parts of the model on other devices, or keep large variables on the CPU"
    )


def _shown(value: Any) -> str:
    kind = getattr(value.dtype, "name", None) or str(value.dtype).rpartition(".")[2]
    return f"{kind}[{','.join(map(str, value.shape or ()))}]"


def _amount(nbytes: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} bytes"
