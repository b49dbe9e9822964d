"""The lane, server side: the requests of one connection that come again and again, in one step after the other.

They are recognized by their bytes; of those that only read, the reply's bytes but for the values are known too.
Called by: serve.lane.served.  Threads: the one that reads the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from headrace.base import errors
from headrace.codec.frames import Kind, pack
from headrace.serve.lane.wire import Answer, KnownAnswers
from headrace.serve.rpc.again import (
    AtOnceOrLater,
    Binder,
    Bound,
    ChangesAgain,
    CopiesAgain,
    ReadsAgain,
    RunsAgain,
    RunsByNumber,
    WaitsAgain,
)
from headrace.serve.rpc.brief import STEP_BYTES

MOST = 16  # requests of a connection that are remembered
MOST_NUMBERS = 4096  # numbers in those, where they come again


class Answering(ABC):
    """What makes the answers to requests for a method, by its number."""

    @abstractmethod
    def copies(self, number: int) -> bool:
        """Whether a large value is copied to memory that the other side has: not where that may see the value."""

    @abstractmethod
    def running(self, number: int, bound: RunsAgain) -> Answer:
        """Of what is run."""

    @abstractmethod
    def changing(self, number: int, bound: ChangesAgain) -> Answer:
        """Of what changes something."""

    @abstractmethod
    def copying(self, number: int, bound: CopiesAgain) -> Answer:
        """Of what copies a large value."""

    @abstractmethod
    def waiting(self, number: int, bound: WaitsAgain) -> Answer:
        """Of what may have to wait."""


class Repeated:
    """See the module header."""

    __slots__ = ("_bound", "_numbered", "at_once", "known")

    def __init__(self) -> None:
        """known: what may wait, or last, by their bytes without the number; at_once: what needs no thread that waits,
        by those, or by all their bytes.
        """
        self.known: KnownAnswers = {}
        self.at_once: KnownAnswers = {}
        self._bound: dict[bytes, Bound | None] = {}  # what was made of requests, by their headers
        self._numbered: dict[bytes, AtOnceOrLater | None] = {}  # by their bytes

    def note(
        self, number: int, header: bytes, request: Any, binder: Binder, answering: Answering
    ) -> None:
        """A request without values has been answered."""
        same = header[:-STEP_BYTES]
        if same in self._bound:
            before = self._bound[same]
            if isinstance(before, RunsByNumber):
                self._note_number(number, header, before, answering)
                return
            if before is None or isinstance(before, RunsAgain) or before.holds():
                return
        elif len(self._bound) >= MOST:
            self.forget()
        bound: Bound | None = _unless_gone(binder, request)
        if isinstance(bound, CopiesAgain) and not answering.copies(number):
            bound = bound.otherwise
        self._bound[same] = bound
        frame = _frame(number, header)[:-STEP_BYTES]
        self.known.pop(frame, None)
        self.at_once.pop(frame, None)
        if isinstance(bound, RunsAgain):
            self.known[frame] = answering.running(number, bound)
            if isinstance(bound, RunsByNumber):
                self._note_number(number, header, bound, answering)
        elif bound is not None:
            self.at_once[frame] = _at_once(number, bound, answering)

    def _note_number(
        self, number: int, header: bytes, bound: RunsByNumber, answering: Answering
    ) -> None:
        """As `note`, of a request whose number comes again."""
        frame = _frame(number, header)
        if frame in self._numbered:
            before = self._numbered[frame]
            if before is None or before.holds():
                return
        elif len(self._numbered) >= MOST_NUMBERS:
            self.forget()
            return
        found: AtOnceOrLater | None = _unless_gone(
            bound.at_once, int.from_bytes(header[-STEP_BYTES:], "little")
        )
        if isinstance(found, CopiesAgain) and not answering.copies(number):
            found = None
        self._numbered[frame] = found
        self.at_once.pop(frame, None)
        if found is not None:
            self.at_once[frame] = _at_once(number, found, answering)

    def forget(self) -> None:
        """What answers its requests holds the connection: not any more."""
        self.known.clear()
        self.at_once.clear()
        self._bound.clear()
        self._numbered.clear()


def _unless_gone(bind: Callable[[Any], Any], request: Any) -> Any:
    """What `bind` makes of a request that has been answered; None if what that needs has gone since, or is another
    thing now: the answer must not suffer for it.
    """
    try:
        return bind(request)
    except errors.OpError:
        return None


def _frame(number: int, header: bytes) -> bytes:
    return b"".join(pack(Kind.REQUEST, number, 0, header))


def beginning(number: int, values: Any) -> bytes:
    """The frame of a reply with such values, as far as those themselves."""
    reply = b"".join(pack(Kind.REPLY, number, 0, b"", values))
    return reply[: len(reply) - sum([value.nbytes for value in values])]


def _at_once(number: int, bound: AtOnceOrLater, answering: Answering) -> Answer:
    if isinstance(bound, ReadsAgain):
        return _reading(number, bound)
    if isinstance(bound, ChangesAgain):
        return answering.changing(number, bound)
    if isinstance(bound, CopiesAgain):
        return answering.copying(number, bound)
    return answering.waiting(number, bound)


def _reading(number: int, bound: ReadsAgain) -> Answer:
    """What answers by the reply that `bound` has given before, with the values of now."""
    begins, contents = beginning(number, bound.values), bound.contents

    def answer(request: bytes) -> bytes | None:
        values = contents()
        return None if values is None else begins + values

    return answer
