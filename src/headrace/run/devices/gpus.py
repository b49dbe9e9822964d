"""GPUs: how many there are, found out without loading what computes on them.

The driver is asked by the files that it has, and JAX (the extra `xla`) is imported by the first node that is placed on
one.  ``HEADRACE_GPUS=2`` makes two stand-ins of this host's processors: devices of XLA's own, with memory of their own,
whose description says what they are.
Called by: run.devices.table.  Threads: any.
"""

from __future__ import annotations

import importlib.util
import os
import re
from functools import cache
from typing import Final

from headrace.base import errors
from headrace.run.devices.device import Device

STAND_INS: Final = "HEADRACE_GPUS"
_DRIVERS: Final = ("/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes")


def stand_ins() -> int:
    """How many the environment asks for.  Raises InvalidArgument."""
    said = os.environ.get(STAND_INS, "").strip()
    if not said:
        return 0
    if not re.fullmatch(r"\d{1,2}", said):
        raise errors.invalid_argument(
            f"{STAND_INS}={said!r}: it is how many stand-ins for GPUs to make, a number below 100"
        )
    return int(said)


def count() -> int:
    """How many this process has; none without JAX."""
    wanted = stand_ins()
    if not wanted and not any(map(_has_entries, _DRIVERS)):
        return 0
    if not _has_jax():
        return 0
    from headrace.run.devices import xla

    return xla.count(wanted)


def make(number: int) -> Device:
    """The GPU of that number."""
    from headrace.run.devices import xla

    return xla.gpu(stand_ins(), number)


def _has_entries(place: str) -> bool:
    try:
        return any(True for _ in os.scandir(place))
    except OSError:
        return False


@cache
def _has_jax() -> bool:
    found = importlib.util.find_spec("jax") is not None
    if not found:
        import logging  # which few processes need for this

        level = logging.WARNING if os.environ.get(STAND_INS) else logging.INFO
        logging.getLogger("headrace").log(
            level,
            "there is no JAX for GPUs: pip install 'headrace[xla]' (on hosts with CUDA jax[cuda12], too); until then "
            "there are CPUs only",
        )
    return found
