"""Variables that live on a device: its array is the value, and the host has a copy only while somebody asks for one.

The value may be in two places: as the device's array, which nobody ever changes, and as the host's, which counts as
`State.array` does.  At least one of them is the value of now.  What asks for `array` (a consumer on the host, a saver,
a send) has it copied here once, until the value changes; `there` gives the device's, which costs nothing.  An update on
the device puts another array in the place of the old one (`have`), so that whoever has read that keeps it.  An update
on the host, for which every other operation counts that has no kernel for devices, changes the host's, and the next
read on the device puts that there.

A program may write its results over the arrays that they replace: it takes them (`take`), and nobody can read them
until it has given others (`have`).  An array that anybody has read since it became the value is not taken, but a copy
of it: who has read it may have it still.

Called by: ops.state (makes them), plan.device_state (kernels), run's executor.
Threads: any; `lock` is held for the time of one update, as of all variables; both places are looked at together,
without it, unless a program has taken the device's array: then whoever wants that waits for `lock`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import Shape
from headrace.run.devices.device import HOST, Device
from headrace.run.devices.table import of_name
from headrace.run.pending import announce_all
from headrace.run.state.unread import Unread
from headrace.run.state.variable import Array, Lease, ResourceVariable, State, Variable
from headrace.run.uninterrupted import changes

S = TypeVar("S", bound=State)


class Taken(NamedTuple):
    """What stands for a device's array that a program is about to replace."""

    shape: tuple[int, ...]
    dtype: Any
    size: int

    @property
    def ndim(self) -> int:
        """As arrays have it."""
        return len(self.shape)


@changes
class OnDevice(State):
    """A variable that lives on a device."""

    def __init__(
        self, name: str, dtype: dtypes.DType, shape: Shape, device: Device, container: str = ""
    ) -> None:
        """See `State`."""
        self.device = device
        self._places = threading.Lock()  # held for an exchange of the next two, and nothing else
        self._both: tuple[Array | None, Any] = (None, None)  # here, there
        self._was_read = False  # the one there, so that somebody else may have it
        super().__init__(name, dtype, shape, container)
        device.settle(self)

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def array(self) -> Array | None:
        """The value in the host's memory, copied there if it is not yet; None before the first assignment."""
        here, there = self._both
        if here is not None or there is None:
            return here
        seen = here, there = self._read()
        if here is not None or there is None:
            return here
        copy: Array = self.device.get(there)
        with self._places:
            if self._both is seen:
                self._both = (copy, there)
        return copy

    @array.setter
    def array(self, array: Array | None) -> None:
        with self._places:
            self._both = (array, None)
            self._was_read = False

    def _read(self) -> tuple[Array | None, Any]:
        """Both places, of which the device's is not taken any more while it is the value."""
        with self._places:
            seen = self._both
            if not isinstance(seen[1], Taken):
                self._was_read = True
                return seen
        with self.lock:  # nobody takes it who does not hold that
            return self._read()

    def held(self) -> Any:
        """See `State`."""
        here, there = self._both
        return here if there is None else there

    def here(self) -> Array | None:
        """See `State`."""
        return self._both[0]

    def require_value(self) -> None:
        """See `State`."""
        if self.held() is None:
            raise self.uninitialized()

    def bytes_there(self) -> int:
        """What it takes of the device's memory."""
        there = self._both[1]
        return 0 if there is None else int(there.size) * self.dtype.np.itemsize

    def there(self) -> Any:
        """The value as an array of the device, which no update changes.  Raises FailedPrecondition."""
        there = self._read()[1]
        if there is not None:
            return there
        with self.lock:
            self.placed()
            return self._read()[1]

    def placed(self) -> Any:
        """As `there`, for who keeps it no longer than `lock`, which is held."""
        here, there = self._both
        if there is None:
            if here is None:
                raise self.uninitialized()
            there = self.device.put(here)
            with self._places:
                self._both = (here, there)
                self._was_read = False
        return there

    def snapshot(self) -> Array:
        """See `State`."""
        there = self._read()[1]
        return super().snapshot() if there is None else self.device.get(there)

    def fetched(self) -> Any:
        """See `State`."""
        there = self._read()[1]
        if there is None:
            return super().fetched()
        found = self.device.get(there)
        return found if found.ndim else found[()]

    # -- changing -----------------------------------------------------------------------------------------------

    def have(self, there: Any, others_do: bool = False) -> None:
        """Have an array of the device for its value; whoever reads the old one keeps that.  `lock` is held,
        and the caller counts it among `updates`.

        others_do: somebody else may have it, too.
        """
        with self._places:
            self._was_read = others_do or (self._was_read and there is self._both[1])
            self._both = (None, there)
        self._buffers = None
        self._let_go()

    def take(self) -> Any:
        """The value as an array of the device that may be written over: `have` or `give_back` comes next.

        `lock` is held.  Raises FailedPrecondition.
        """
        there = self.placed()
        with self._places:
            here, _ = self._both
            if not self._was_read:
                self._both = (here, Taken(tuple(there.shape), there.dtype, int(there.size)))
                return there
        return self.device.copied(there)

    def give_back(self, there: Any) -> bool:
        """What was taken is the value still.  Whether it is: if the device has lost it, there is none.

        `lock` is held.
        """
        with self._places:
            here, now = self._both
            if not isinstance(now, Taken):
                return True
            lost = self.device.has_lost(there)
            self._both = (here, None if lost else there)
            return here is not None or not lost

    def assign_there(self, value: Any, validate_shape: bool = True) -> None:
        """As `assign`, of an array of the device, which nobody will change.  Raises InvalidArgument."""
        with self.lock:
            if validate_shape:
                self.check_shape(tuple(value.shape))
            self.have(value, others_do=True)
            self.updates += 1
            awaited = self._settled()
        if awaited:
            announce_all(awaited)

    def assign_unread(self, value: Any, validate_shape: bool = True) -> None:
        """See `State`."""
        if isinstance(value, Unread):
            array = np.empty(value.shape, self.dtype.np)
            value.read_into(array)
            value = array
        self.assign(value, validate_shape)

    def _put(self, value: Any, validate_shape: bool) -> None:
        if not self.device.keeps(
            self.dtype.base_dtype.name
        ):  # who assigned first has said what it holds
            super()._put(value, validate_shape)
            return
        array = np.asarray(value, self.dtype.np)
        if validate_shape:
            self.check_shape(array.shape)
        self.have(self.device.put(array))

    def writable(self, sparse: bool = False) -> Array:
        """See `State`: the host's array, which is the value from now on."""
        self._is_here()
        return super().writable(sparse)

    def rewrite(self, change: Callable[[Array, Array], object]) -> None:
        """See `State`."""
        self._is_here()
        super().rewrite(change)

    def as_number(self) -> memoryview | None:
        """See `State`."""
        return None

    def move(self, lease: Lease) -> None:
        """See `State`: it lives elsewhere."""

    def _is_here(self) -> None:
        """The host's array is about to be changed; `lock` is held."""
        array = self.array
        with self._places:
            here, _ = self._both  # another thread may have copied it, too
            self._both = (array if here is None else here, None)


@changes
class VariableOnDevice(OnDevice, Variable):
    """What reference edges carry."""


@changes
class ResourceVariableOnDevice(OnDevice, ResourceVariable):
    """What a handle stands for."""


_KINDS: Final[dict[type[State], type[OnDevice]]] = {
    Variable: VariableOnDevice,
    ResourceVariable: ResourceVariableOnDevice,
}


def made_at(kind: type[S], place: str, name: str, dtype: dtypes.DType, shape: Shape) -> S:
    """A variable of that kind that lives on the device of a name, if that keeps such, else with the host.

    Raises InvalidArgument if there is no such device here.
    """
    device = of_name(place)
    if device is HOST or not device.keeps(dtype.base_dtype.name):
        return kind(name, dtype, shape)
    made: Any = _KINDS[kind](name, dtype, shape, device)
    found: S = made
    return found
