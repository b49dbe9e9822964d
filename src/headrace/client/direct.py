"""Direct steps: a step whose parts exchange nothing is asked of its task, or of all its tasks, without its master.

The master offers that beside the number of a step (DirectStep).  Tasks are reached in the background (`reaching`);
until all are, and where one cannot be, steps go to their master as ever.  A step that was to go to its tasks goes to
the master after all only if it certainly was not begun: nothing could be sent, or no task knows it.
Here is the way to one task; `scattered` has that to several.
Called by: client.routes, client.scattered, client.remote.  Threads: any.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.base import errors
from headrace.client.reaching import Task
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.status import ForgottenStepError
from headrace.serve.rpc.transport import Channel, Unreachable

_step_ids = random.Random(secrets.randbits(64))


class Route(Protocol):
    """The way of a step to its tasks without the master.

    timeout_ms: of steps without a limit of their own; 0: none.
    """

    timeout_ms: int

    def ways(self, times: int) -> Any:
        """What `run` takes; None where the step has to go to its master.  times: see `Task.settled`.

        Raises ForgottenStepError: a task was started anew, and the master knows a way to it.
        """

    def run(self, ways: Any, values: Sequence[Any], scope: Scope) -> list[Any]:
        """The fetches.  Raises ForgottenStepError, for which nothing was begun; else as a step does."""

    def settle(self, times: int) -> None:
        """A step has gone there by way of its master."""

    def lost(self) -> dict[str, int]:
        """The starts of the tasks that steps have lost and not found again, unless they are known not to live."""


class Part(NamedTuple):
    """What one task is asked for in every step.

    makes: which of the step's fetches.  feeds: which of the step's.  direct: see `RunPartRequest`.
    """

    task: str
    makes: Sequence[str]
    to: Task
    handle: str
    feeds: Sequence[int]
    direct: int


class RouteToOne:
    """To the one task of a step.  See `Route`."""

    __slots__ = ("_as_they_are", "_fetches", "_parts", "timeout_ms", "to")

    def __init__(self, offer: pb.DirectStep, parts: Sequence[Part]) -> None:
        self.timeout_ms = offer.timeout_ms
        self._parts = parts
        self.to = parts[0].to
        self._fetches = list(offer.fetch)
        self._as_they_are = self._fetches == list(range(len(self._fetches)))

    def ways(self, times: int) -> Channel | None:
        """See `Route`."""
        to = self.to
        channel = to.channel
        if channel is None:
            to.look()
            return None
        return channel if to.settled == times else None

    def settle(self, times: int) -> None:
        """See `Route`."""
        self.to.settled = times

    def run(self, ways: Channel, values: Sequence[Any], scope: Scope) -> list[Any]:
        """See `Route`."""
        (part,) = self._parts
        feeds = [values[index] for index in part.feeds] if part.feeds else []
        step_id = new_step_id()
        request = m.RunPartRequest(part.handle, step_id, feeds, part.direct)
        outstanding = self.to.outstanding
        outstanding[step_id] = self._parts, time.monotonic()
        try:
            found: list[Any] = ways.call_now(methods.RUN_PART, request, scope)
        except Unreachable as error:
            self.to.leave()
            raise ForgottenStepError.of(str(error)) from error
        except errors.UnavailableError:
            self.to.leave()
            raise
        finally:
            del outstanding[step_id]
        if self._as_they_are and len(found) == len(self._fetches):
            return [*found]
        return [found[index] for index in self._fetches]

    def lost(self) -> dict[str, int]:
        """See `Route`."""
        return starts_of_lost(self._parts)


def starts_of_lost(parts: Sequence[Part]) -> dict[str, int]:
    """See `Route.lost`."""
    return {
        part.task: part.to.start for part in parts if part.to.channel is None and not part.to.silent
    }


def new_step_id() -> int:
    """For one step, of any session."""
    return _step_ids.getrandbits(56) | 1
