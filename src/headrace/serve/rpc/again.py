"""Requests that come again and again, and differ in the number at their end alone, that of a step or of a signature:
bound by whoever answers them.

What a request costs where many processes share a machine is memory that is touched, since each finds the caches full of
the others: 0.13 µs a page, whatever is done with it.  So a transport may recognize a request by its bytes, and asks for
no more than what can have changed.
Called by: serve.worker, serve.master (bind), the transports.  Threads: the one that reads the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.run.pending import Pending
from headrace.run.scope import Scope

Array = np.ndarray[Any, Any]


class AtOnce(ABC):
    """A request whose step does not wait, and takes no time in which it could be ended.

    values: of its reply, arrays of numbers, each of the dtype and shape that it has the next time.
    """

    values: Sequence[Any]

    @abstractmethod
    def contents(self) -> bytes | None:
        """The bytes of all values as they are now, row-major, one after the other.

        None: something is not as it was, and nothing has been done; the request is to be answered as any other is,
        which may fail.
        """

    @abstractmethod
    def holds(self) -> bool:
        """Whether what it was bound to is still what the request means."""


class ReadsAgain(AtOnce):
    """One whose step changes nothing: a caller that has gone away since need not be looked for."""

    def holds(self) -> bool:
        """See `AtOnce`."""
        return self.contents() is not None


class ChangesAgain(AtOnce):
    """One whose step changes something."""


class CopiesAgain(ABC):
    """One whose step gives one large value, and changes nothing: it is copied to where its caller will have it.

    dtype, shape: of the value.  otherwise: what runs it where there is no such place.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    otherwise: RunsAgain

    @abstractmethod
    def copy_to(self, target: Array) -> bool:
        """Fill an array of that dtype and shape.

        False: something is not as it was, and nothing has been copied; the request is to be answered as any other is.
        """

    @abstractmethod
    def holds(self) -> bool:
        """Whether what it was bound to is still what the request means."""


class RunsAgain(ABC):
    """A request whose step is run.

    values: as of `AtOnce`, where `run` gives bytes.
    """

    values: Sequence[Any] = ()

    @abstractmethod
    def run(self, number: int, scope: Scope) -> Sequence[Any] | bytes | None:
        """The values of its reply, of which some may be leases, or the bytes of all.  Raises what the step does.

        None: nothing has been done; the request is to be answered as any other is.
        """


class WaitsAgain(ABC):
    """A request whose step does nothing but wait for one thing, if it has to, and give what has come of it.

    otherwise: what runs it where a thread may wait.
    """

    otherwise: RunsAgain

    @property
    @abstractmethod
    def values(self) -> Sequence[Any]:
        """Of its reply, as of `AtOnce`; others when their form changes."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it need not wait, as it seems."""

    @abstractmethod
    def begin(self, scope: Scope) -> bytes | Pending[Any] | None:
        """The bytes of all values; or what they wait for, the step being booked until `end`.

        None: as of `AtOnce.contents`.  The scope's end abandons what it waits for.
        """

    @abstractmethod
    def keeps_place(self, pending: Pending[Any]) -> bool:
        """Whether others count on its turn: then it is to be waited for as it is, and not asked for anew."""

    @abstractmethod
    def end(self, pending: Pending[Any], scope: Scope) -> bytes | None:
        """The bytes of all values when what they waited for is done.

        None: that has failed, or was abandoned; nothing has been done, and the request is to be answered as any other.
        """

    @abstractmethod
    def holds(self) -> bool:
        """Whether what it was bound to is still what the request means."""


AtOnceOrLater = ReadsAgain | ChangesAgain | CopiesAgain | WaitsAgain
"""What answers requests without a thread that waits."""


class RunsByNumber(RunsAgain):
    """One whose requests come again with the same number, that of a signature."""

    @abstractmethod
    def at_once(self, number: int) -> AtOnceOrLater | None:
        """What answers the request with that number, which has been answered before; None: `run` does."""


Bound = AtOnceOrLater | RunsAgain
Binder = Callable[[Any], Bound | None]
"""What answers a request when it comes again; None: nothing but its handler does."""
