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


class ReadsAgain(ABC):
    """A request whose step neither waits nor changes anything, and takes no time in which it could be ended.

    values: of its reply, arrays of numbers, each of the dtype and shape that it has the next time.
    """

    values: Sequence[Any]

    @abstractmethod
    def contents(self) -> bytes | None:
        """The bytes of all values as they are now, row-major, one after the other.

        None: something is not as it was; the request is to be answered as any other is, which may fail.
        """


class RunsAgain(ABC):
    """A request whose step is run.

    values: as of `ReadsAgain`, where `run` gives bytes.  at_once: it takes no time in which it could be ended, and
    leaves its scope alone.
    """

    values: Sequence[Any] = ()
    at_once = False

    @abstractmethod
    def run(self, number: int, scope: Scope) -> Sequence[Any] | bytes | None:
        """The values of its reply, of which some may be leases, or the bytes of all.  Raises what the step does.

        None: nothing has been done; the request is to be answered as any other is.
        """


Bound = ReadsAgain | RunsAgain
Binder = Callable[[Any], Bound | None]
"""What answers a request when it comes again; None: nothing but its handler does."""
