"""The lane, server side: the requests of one connection that come again and again, in one step after the other.

They are recognized by their bytes; of those that only read, the reply's bytes but for the values are known too.
Called by: serve.lane.served.  Threads: the one that reads the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.codec.frames import Kind, pack
from headrace.serve.lane.wire import Answer, KnownAnswers
from headrace.serve.rpc.again import AtOnce, Binder, Bound, ChangesAgain, ReadsAgain, RunsAgain
from headrace.serve.rpc.brief import STEP_BYTES

MOST = 16  # requests of a connection that are remembered

Running = Callable[[int, RunsAgain | ChangesAgain], Answer]
"""What answers a request for a method, by its number, that is run, or that changes something."""


class Repeated:
    """See the module header."""

    __slots__ = ("_bound", "at_once", "known")

    def __init__(self) -> None:
        """known: what may wait, or last; at_once: what does not."""
        self.known: KnownAnswers = {}
        self.at_once: KnownAnswers = {}
        self._bound: dict[bytes, Bound | None] = {}  # what was made of requests, by their headers

    def note(
        self, number: int, header: bytes, request: Any, binder: Binder, running: Running
    ) -> None:
        """A request without values has been answered."""
        same = header[:-STEP_BYTES]
        if same in self._bound:
            bound = self._bound[same]
            if not isinstance(bound, AtOnce) or bound.holds():
                return
        elif len(self._bound) >= MOST:
            self.forget()
        bound = self._bound[same] = binder(request)
        frame = b"".join(pack(Kind.REQUEST, number, 0, header))[:-STEP_BYTES]
        self.known.pop(frame, None)
        self.at_once.pop(frame, None)
        if isinstance(bound, ReadsAgain):
            self.at_once[frame] = _reading(number, bound)
        elif isinstance(bound, ChangesAgain):
            self.at_once[frame] = running(number, bound)
        elif bound is not None:
            self.known[frame] = running(number, bound)

    def forget(self) -> None:
        """What answers its requests holds the connection: not any more."""
        self.known.clear()
        self.at_once.clear()
        self._bound.clear()


def beginning(number: int, values: Sequence[Any]) -> bytes:
    """The frame of a reply with such values, as far as those themselves."""
    reply = b"".join(pack(Kind.REPLY, number, 0, b"", values))
    return reply[: len(reply) - sum([value.nbytes for value in values])]


def _reading(number: int, bound: ReadsAgain) -> Answer:
    """What answers by the reply that `bound` has given before, with the values of now."""
    begins, contents = beginning(number, bound.values), bound.contents

    def answer(request: bytes) -> bytes | None:
        values = contents()
        return None if values is None else begins + values

    return answer
