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
from typing import Final, NamedTuple

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


class Options(NamedTuple):
    """What a ConfigProto's gpu_options say: see there.  They are the process's, as in TensorFlow: the first that say
    something before a GPU is used hold.
    """

    visible: tuple[int, ...] | None = None
    memory_fraction: float = 0.0
    allow_growth: bool = False


_options = Options()


def configure(visible_device_list: str, memory_fraction: float, allow_growth: bool) -> None:
    """Have these options; what comes too late is a warning that says what to set instead.

    Raises InvalidArgument (a list that is none).
    """
    global _options
    visible = None
    if visible_device_list.strip():
        try:
            visible = tuple([int(each) for each in visible_device_list.split(",")])
        except ValueError:
            raise errors.invalid_argument(
                f"Could not parse entry in 'visible_device_list': '{visible_device_list}': it is numbers of GPUs, "
                "separated by commas"
            ) from None
    wanted = Options(visible, memory_fraction, allow_growth)
    if wanted in (Options(), _options):
        return
    from headrace.run.devices import xla

    if xla.in_use():
        import logging  # which few processes need for this

        logging.getLogger("headrace").warning(
            "GPUs are in use, so gpu_options come too late: give them to the first session or server, or set "
            "CUDA_VISIBLE_DEVICES, XLA_PYTHON_CLIENT_MEM_FRACTION and XLA_PYTHON_CLIENT_PREALLOCATE"
        )
        return
    _options = wanted
    if memory_fraction:
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{memory_fraction:.3f}")
    if allow_growth:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def count() -> int:
    """How many this process has; none without JAX."""
    wanted = stand_ins()
    if not wanted and not any(map(_has_entries, _DRIVERS)):
        return 0
    if not _has_jax():
        return 0
    from headrace.run.devices import xla

    return xla.count(wanted, _options.visible)


def make(number: int) -> Device:
    """The GPU of that number."""
    from headrace.run.devices import xla

    return xla.gpu(stand_ins(), _options.visible, number)


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
