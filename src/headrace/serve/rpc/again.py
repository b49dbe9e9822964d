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

from headrace.run.scope import Scope


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


Bound = ReadsAgain | ChangesAgain | RunsAgain
Binder = Callable[[Any], Bound | None]
"""What answers a request when it comes again; None: nothing but its handler does."""
