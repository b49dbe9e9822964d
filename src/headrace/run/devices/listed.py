"""Devices as they are listed to whoever asks for them.

Called by: client.local, serve.worker.worker.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.codec import protos as pb
from headrace.run.devices.table import of_name


def attributes(names: Iterable[str], incarnation: int) -> list[pb.DeviceAttributes]:
    """The devices of those full names, of this process.  incarnation: of their task's start."""
    found = []
    for name in names:
        device = of_name(name)
        found.append(
            pb.DeviceAttributes(
                name=name,
                device_type=device.type,
                memory_limit=device.memory_bytes,
                incarnation=incarnation,
                physical_device_desc=device.description,
            )
        )
    return found
