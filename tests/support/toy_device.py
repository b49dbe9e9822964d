"""A device that is no host: arrays of array-api-strict, which NumPy refuses, as /device:TOY:0 and so on.

It counts what is copied to and from it, and what it computes.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import array_api_strict
import numpy as np

from headrace.base import errors
from headrace.run.devices import table
from headrace.run.devices.device import NUMBERS, Device

LARGE = 4
DEVICES = ("device1", "device2")
HOST_PLACE = array_api_strict.Device("CPU_DEVICE")


class ToyDevice(Device):
    """One of two; `counts` has "put", "get" and "kernel", `large` the copies of more than LARGE elements."""

    xp = array_api_strict
    dtypes = NUMBERS - {"float16"}
    description = "array-api-strict"
    memory_bytes = 1 << 20

    def __init__(self, number: int, type: str = "TOY") -> None:
        super().__init__()
        self.type = type
        self.counts: Counter[str] = Counter()
        self.large: Counter[str] = Counter()
        self._held: dict[int, int] = {}  # bytes of each array, by its id
        self._place = array_api_strict.Device(DEVICES[number])

    def _put(self, value: Any) -> Any:
        """See `Device`."""
        assert isinstance(value, np.ndarray | np.generic), type(value)
        self._make_room(value.nbytes)
        self.counts["put"] += 1
        self.large["put"] += np.size(value) > LARGE
        return self._kept(array_api_strict.asarray(np.array(value), device=self._place))

    def is_final(self, error: Exception) -> bool:
        """See `Device`."""
        return isinstance(error, errors.ResourceExhaustedError)

    def bytes_held(self) -> int | None:
        """See `Device`."""
        return sum([*self._held.values()])

    def _make_room(self, nbytes: int) -> None:
        if sum([*self._held.values()]) + nbytes > self.memory_bytes:
            raise errors.resource_exhausted(f"OOM: no memory for {nbytes} bytes more")

    def _kept(self, value: Any) -> Any:
        """Counted, as long as anybody has it."""
        if id(value) not in self._held:
            self._held[id(value)] = _nbytes(value)
            weakref.finalize(value, self._held.pop, id(value), None)
        return value

    def _get(self, value: Any) -> Any:
        """See `Device`."""
        assert value.device == self._place
        self.counts["get"] += 1
        self.large["get"] += math.prod(value.shape) > LARGE
        return np.array(np.asarray(value.to_device(HOST_PLACE)))

    def bound(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """See `Device`."""

        def run(*inputs: Any) -> Any:
            found = kernel(*inputs)
            values = found if isinstance(found, list | tuple) else [found]
            for value in values:
                assert value.device == self._place, "a result is not where it was computed"
                if id(value) not in self._held:
                    self._make_room(_nbytes(value))
                    self._kept(value)
            self.counts["kernel"] += 1
            return found

        return run


def _nbytes(value: Any) -> int:
    return np.asarray(value.to_device(HOST_PLACE)).nbytes


@contextmanager
def toy_devices(count: int = 2, type: str = "TOY") -> Iterator[list[ToyDevice]]:
    """Have so many of them, in sessions and servers that begin meanwhile."""
    devices = [ToyDevice(number, type) for number in range(count)]
    before = table.register(table.Kind(type, lambda: count, devices.__getitem__))
    try:
        yield devices
    finally:
        if before is None:
            table.unregister(type)
        else:
            table.register(before)
