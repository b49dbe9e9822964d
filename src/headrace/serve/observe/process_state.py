"""What this process takes: memory, processor time, threads, memory of devices.

Called by: serve.worker.worker.  Threads: any.  Source: proc(5) statm
"""

from __future__ import annotations

import os
import threading
import time

from headrace.codec import protos as pb
from headrace.run.devices.table import in_use


def process_state() -> pb.ProcessState:
    """What it takes now, all servers of the process together."""
    return pb.ProcessState(
        memory_bytes=_resident(), cpu_s=time.process_time(), threads=threading.active_count()
    )


def device_states() -> list[pb.DeviceState]:
    """Devices with memory of their own that have been used."""
    return [
        pb.DeviceState(
            name=device.name,
            held=device.bytes_held() or 0,
            variables=sum([each.nbytes for each in device.holders()]),
            limit=device.memory_bytes,
        )
        for device in in_use()
    ]


def _resident(statm: str = "/proc/self/statm") -> int:
    """Bytes of resident memory; 0 where the system does not say."""
    try:
        with open(statm, "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
