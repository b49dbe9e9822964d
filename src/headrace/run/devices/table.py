"""The table of device types, and the devices of this process.

A type of devices is a row: how many there are, and how one is made.  Those of one type and number are the same for all
tasks of a process.
Called by: client, plan, serve.worker.  Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from headrace.base import errors
from headrace.base.device import DeviceSpec
from headrace.codec import protos as pb
from headrace.run.devices import gpus
from headrace.run.devices.device import HOST, Device


class Kind(NamedTuple):
    """A row of the table.

    how_many: how many there are; it is asked whenever a session or server begins, and should be cheap where there are
    none.  make: the device of a number, called once each.
    """

    type: str
    how_many: Callable[[], int]
    make: Callable[[int], Device]


_kinds: dict[str, Kind] = {"GPU": Kind("GPU", gpus.count, gpus.make)}
_made: dict[tuple[str, int], Device] = {}
_lock = threading.Lock()


def register(kind: Kind) -> Kind | None:
    """Add a type, or replace it; the one before.  Its devices are there for sessions and servers that begin later."""
    with _lock:
        before = _kinds.get(kind.type)
        _kinds[kind.type] = kind
        _forget(kind.type)
    return before


def unregister(type: str) -> None:
    """Take out one that was added."""
    with _lock:
        _kinds.pop(type, None)
        _forget(type)


def _forget(type: str) -> None:
    for key in [key for key in _made if key[0] == type]:
        del _made[key]
    of_name.cache_clear()


def configured(task: str, config: pb.ConfigProto) -> list[str]:
    """As `names`, of a session's or server's ConfigProto, whose gpu_options are heeded.

    Raises InvalidArgument (gpu_options that say nothing that there is).
    """
    options = config.gpu_options
    if options.ByteSize():
        fraction = options.per_process_gpu_memory_fraction
        gpus.configure(options.visible_device_list, fraction, options.allow_growth)
    return names(task, config.device_count)


def names(task: str, counts: Mapping[str, int]) -> list[str]:
    """Full names of the devices of a task: its CPUs, then the others.

    counts: how many ConfigProto.device_count allows of a type; 0 is as good as not said for CPUs, of which there is one
    then, and means none of the others.
    """
    found = [f"{task}/device:CPU:{index}" for index in range(counts.get("CPU", 0) or 1)]
    for kind in list(_kinds.values()):
        count = kind.how_many()
        if kind.type in counts:
            count = min(count, counts[kind.type])
        found += [f"{task}/device:{kind.type}:{index}" for index in range(count)]
    return found


@lru_cache(maxsize=1024)
def of_name(name: str) -> Device:
    """The device of a full name, or of a partial one; the host's where that says nothing else.

    Raises InvalidArgument if there are no such devices here.
    """
    spec = DeviceSpec.from_string(name)
    type, index = spec.device_type or "CPU", spec.device_index or 0
    if type == "CPU":
        return HOST
    with _lock:
        kind = _kinds.get(type)
        if kind is None or index >= kind.how_many():
            raise errors.invalid_argument(
                f"this process has no device {name}; it has {', '.join(_own_names())}"
            )
        made = _made.get((type, index))
        if made is None:
            made = _made[type, index] = kind.make(index)
            made.name = f"{type}:{index}"
    return made


def in_use() -> list[Device]:
    """Those that are not the host's and have been asked for."""
    with _lock:
        return [device for _, device in sorted(_made.items(), key=lambda each: each[0])]


def _own_names() -> Iterator[str]:
    yield "CPU:0"
    for kind in _kinds.values():
        for index in range(kind.how_many()):
            yield f"{kind.type}:{index}"
