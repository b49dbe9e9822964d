"""Direct steps on several tasks: all are asked for their parts before any answer is read.

Called by: client.routes.  Threads: any number of steps at once, each the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.base import errors
from headrace.client.direct import Part, new_step_id, starts_of_lost
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.uninterrupted import takes
from headrace.serve.rpc import methods
from headrace.serve.rpc.brief import part_of
from headrace.serve.rpc.gather import Begun, Gather, says_most
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.status import ForgottenStepError
from headrace.serve.rpc.transport import Channel, Unreachable
from headrace.serve.rpc.waiting import passed_deadline

Asked = list[Begun | Pending[Any]]


class ScatteredRoute:
    """To several tasks.  See `client.direct.Route`."""

    __slots__ = ("_parts", "_places", "_tasks", "timeout_ms")

    def __init__(self, offer: pb.DirectStep, parts: Sequence[Part]) -> None:
        self.timeout_ms = offer.timeout_ms
        self._parts = parts
        self._tasks = [part.to for part in parts]
        owners = [
            (number, place) for number, part in enumerate(offer.part) for place in range(part.gives)
        ]
        self._places = [owners[fetch] for fetch in offer.fetch]

    def ways(self, times: int) -> list[Channel] | None:
        """See `Route`."""
        found = []
        for task in self._tasks:
            channel = task.channel
            if channel is not None and task.settled == times:
                found.append(channel)
        if len(found) == len(self._tasks):
            return found
        for task in self._tasks:
            if task.channel is None:
                task.look()
        return None

    def settle(self, times: int) -> None:
        """See `Route`."""
        for task in self._tasks:
            task.settled = times

    def lost(self) -> dict[str, int]:
        """See `Route`."""
        return starts_of_lost(self._parts)

    def run(self, ways: Sequence[Channel], values: Sequence[Any], scope: Scope) -> list[Any]:
        """See `Route`."""
        parts, step_id = self._parts, new_step_id()
        outstanding = self._tasks[0].outstanding
        outstanding[step_id] = parts, time.monotonic()
        asked: Asked = []
        try:
            with Gather(scope, LIMITS.call_patience_s) as gather:
                self._ask(gather, asked, ways, step_id, values, scope)
                replies = gather.replies()
        except errors.OpError as error:
            failure = errors.detached(self._failure(asked, gather.failed, scope, error))
            raise errors.copied(failure) from failure.__cause__
        finally:
            del outstanding[step_id]
        return [replies[number][place] for number, place in self._places]

    @takes
    def _ask(
        self,
        gather: Gather,
        asked: Asked,
        ways: Sequence[Channel],
        step_id: int,
        values: Sequence[Any],
        scope: Scope,
    ) -> None:
        """Have requests for all parts sent, as long as none has failed."""
        for part, channel in zip(self._parts, ways, strict=True):
            feeds = [values[index] for index in part.feeds] if part.feeds else []
            request = part_of((part.handle, step_id, feeds, part.direct))
            try:
                begun = channel.begin(methods.RUN_PART, request, scope)
            except Unreachable as error:
                begun = Pending.failed_with(_NotBegunError.of(str(error)))
            asked.append(begun)
            gather.add(begun)
            if gather.failed:
                return

    def _failure(
        self,
        asked: Asked,
        failed: Sequence[errors.OpError],
        scope: Scope,
        error: errors.OpError,
    ) -> errors.OpError:
        """What to raise of a step that failed with `error`; the tasks that were lost are asked no more."""
        for part, each in zip(self._parts, asked, strict=False):
            if isinstance(each.error, errors.UnavailableError):
                part.to.leave()
        if all(isinstance(each.error, _NOT_BEGUN) for each in asked):
            return ForgottenStepError.of(error.message)
        if passed_deadline(scope):
            return says_most(scope, error, failed)
        if not isinstance(error, ForgottenStepError):
            return error
        others = (each for each in failed if not isinstance(each, ForgottenStepError))
        return scope.error or next(others, errors.unavailable(f"{error.message}; others do"))


class _NotBegunError(errors.UnavailableError):
    """Nothing could be sent."""


_NOT_BEGUN = (ForgottenStepError, _NotBegunError)
