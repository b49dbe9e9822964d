"""Arrays of a device among values of the host's, such as those of a staging area.

Called by: plan.staged, ops.data.staging.  Threads: any; nobody changes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.run.devices.device import Device


class There:
    """An array of a device, which whoever wants it elsewhere copies."""

    __slots__ = ("device", "dtype", "nbytes", "shape", "value")

    def __init__(self, device: Device, value: Any, dtype: np.dtype[Any]) -> None:
        self.device, self.value, self.dtype = device, value, dtype
        self.shape = tuple(value.shape)
        self.nbytes = int(value.size) * dtype.itemsize


def here(value: Any) -> Any:
    """The value as the host has it."""
    return value.device.get(value.value) if isinstance(value, There) else value


def on(device: Device, value: Any) -> Any:
    """The value as an array of the device."""
    if isinstance(value, There) and value.device is device:
        return value.value
    return device.put(here(value))
