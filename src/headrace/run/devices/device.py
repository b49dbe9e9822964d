"""Device: where arrays are, and the array namespace that computes with them.

What steps feed, fetch, send and hand on is in the host's memory, as NumPy's arrays.  A device that is not the host
has arrays of its own: `put` makes one of a host's, `get` a host's of one.  An array of a device is never changed, so
that who has it may keep it; variables that live there have another one after each update (`run.state.on_device`).
Called by: plan (places nodes, inserts copies), run.devices.table, run.state.  Threads: any.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

NUMBERS: Final[frozenset[str]] = frozenset(
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
)
"""Names of the dtypes that the array API standard has, and half."""
IN_HOST_MEMORY: Final[frozenset[str]] = frozenset(("int32", "string", "resource", "variant"))
"""Names of dtypes that stay with the host wherever their nodes are placed: shapes, counts, text and handles."""


Updating = Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any], Any]]
"""(arrays that are replaced, others) -> (what replaces them, results, whether they hold; None: they do)"""


class Resident(Protocol):
    """What lives on a device: a variable."""

    name: str

    def bytes_there(self) -> int:
        """What it takes of the device's memory."""


class Held(NamedTuple):
    """What a variable holds of a device's memory."""

    name: str
    nbytes: int


class Device(ABC):
    """One device of this process.

    type: as in device names; name: such as GPU:0, once it is in the table.  xp: its array namespace.  memory_bytes: as
    reported to whoever lists devices.  description: of the hardware, likewise.  dtypes: names of
    those that its arrays may have.
    transfers: how many arrays were "put" there and "got" from there so far, and how many bytes ("put bytes", …).
    """

    type: str
    name: str = ""
    xp: Any
    memory_bytes: int = 256 << 20
    description: str = ""
    dtypes: Set[str] = NUMBERS

    def __init__(self) -> None:
        self.transfers: Counter[str] = Counter()
        self._residents: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the residents

    def put(self, value: Any) -> Any:
        """An array of the device that holds what one of the host does now; a copy."""
        found = self._put(value)
        self.transfers["put"] += 1
        self.transfers["put bytes"] += getattr(value, "nbytes", 0)
        return found

    def get(self, value: Any) -> Any:
        """An array of the host that holds what one of the device does; the caller's own."""
        found = self._get(value)
        self.transfers["got"] += 1
        self.transfers["got bytes"] += found.nbytes
        return found

    @abstractmethod
    def _put(self, value: Any) -> Any:
        """See `put`."""

    @abstractmethod
    def _get(self, value: Any) -> Any:
        """See `get`."""

    def is_final(self, error: Exception) -> bool:
        """Whether a kernel's failure is the device's, so that the host is not to be asked."""
        return False

    def bound(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """`kernel`, a function of the device's arrays, so that it computes here."""
        return kernel

    compiles = False
    """Whether it has `compiled`."""

    def compiled(self, function: Callable[..., Any]) -> Callable[[Sequence[Any]], list[Any] | None]:
        """A function of (namespace, arrays…), compiled for arrays of the device, of which it gives some.

        function: gives (results, whether they hold; None: they do).  What comes back gives None where they do not hold.
        """
        raise NotImplementedError

    def updating(self, function: Callable[..., Any]) -> Updating:
        """As `compiled`, of a function of (namespace, arrays that are replaced, others).

        function: gives (what replaces them, results, whether they hold; None: they do).  So does what comes back, which
        may have written over the arrays that are replaced.
        """
        raise NotImplementedError

    def program(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of (namespace, lists of arrays…) that gives lists of arrays, compiled.

        What comes back takes arrays of the device, and the host's, which are put there.
        """
        raise NotImplementedError

    def copied(self, value: Any) -> Any:
        """Another array of the device that holds what one does."""
        raise NotImplementedError

    def has_lost(self, value: Any) -> bool:
        """Whether an array of the device is written over."""
        return False

    def keeps(self, dtype: str) -> bool:
        """Whether variables of a dtype, by name, that are placed here live here."""
        return dtype in self.dtypes and dtype not in IN_HOST_MEMORY

    def bytes_held(self) -> int | None:
        """What the arrays of this process take of its memory; None: nobody counts."""
        return None

    def settle(self, resident: Resident) -> None:
        """It lives here, as long as there is anybody else who knows it."""
        with self._lock:
            self._residents.add(resident)

    def holders(self) -> list[Held]:
        """What lives here and has a value here, the largest first."""
        with self._lock:
            residents = list(self._residents)
        found = [Held(each.name, each.bytes_there()) for each in residents]
        return sorted([each for each in found if each.nbytes], key=lambda each: -each.nbytes)


class Host(Device):
    """The processors of this host, which is what every node can run on."""

    type = "CPU"
    name = "CPU:0"
    xp = np

    def put(self, value: Any) -> Any:
        """See `Device`."""
        return value

    def get(self, value: Any) -> Any:
        """See `Device`."""
        return value

    _put = put
    _get = get
    compiles = True  # by `run.exec.fused`

    def keeps(self, dtype: str) -> bool:
        """See `Device`."""
        return True


HOST: Final = Host()
