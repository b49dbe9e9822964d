"""Device: where arrays are, and the array namespace that computes with them.

What steps share, feed, fetch, send and keep is in the host's memory, as NumPy's arrays.  A device that is not the host
has arrays of its own: `put` makes one of a host's, `get` a host's of one.
Called by: plan (places nodes, inserts copies), run.devices.table.  Threads: any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from typing import Any, Final

import numpy as np

NUMBERS: Final[frozenset[str]] = frozenset(
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
)
"""Names of the dtypes that the array API standard has, and half."""


class Device(ABC):
    """One device of this process.

    type: as in device names.  xp: its array namespace.  memory_bytes: as reported to whoever lists devices.
    description: of the hardware, likewise.  dtypes: names of those that its arrays may have.
    """

    type: str
    xp: Any
    memory_bytes: int = 256 << 20
    description: str = ""
    dtypes: Set[str] = NUMBERS

    @abstractmethod
    def put(self, value: Any) -> Any:
        """An array of the device that holds what one of the host does now; a copy."""

    @abstractmethod
    def get(self, value: Any) -> Any:
        """An array of the host that holds what one of the device does; the caller's own."""

    def is_final(self, error: Exception) -> bool:
        """Whether a kernel's failure is the device's, so that the host is not to be asked."""
        return False

    def bound(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """`kernel`, a function of the device's arrays, so that it computes here."""
        return kernel


class Host(Device):
    """The processors of this host, which is what every node can run on."""

    type = "CPU"
    xp = np

    def put(self, value: Any) -> Any:
        """See `Device`."""
        return value

    def get(self, value: Any) -> Any:
        """See `Device`."""
        return value


HOST: Final = Host()
