"""A partial run on one task: a program that runs by itself, and takes feeds and gives fetches as
somebody has them or asks for them.

Feeds and fetches are nodes of the program (`_Recv` and `_Send` of the step's rendezvous).
Called by: client.local, serve.worker.worker.  Threads: any; the program runs in one of its own.
Ends by: the program's end; cancelling its Scope ends it early, and so does a step that fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.exec.kernel import RendezvousLike
from headrace.run.exec.keys import tensor_name
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope

_END_WITHIN_S = 5.0  # a program that computes for long is left to end by itself

Start = Callable[[Callable[[], None]], object]
"""Runs a function in a thread; raises RuntimeError if there is none."""


class PartialRun:
    """See the module header."""

    def __init__(
        self,
        rendezvous: RendezvousLike,
        run: Callable[[], object],
        start: Start,
        stop: Callable[[errors.OpError], object],
    ) -> None:
        """`run` runs the program; an error it raises is that of everything asked for later.  stop(error) ends it.

        Raises Unavailable if there is no thread to run it.
        """
        self._rendezvous = rendezvous
        self._run = run
        self._stop = stop
        self._over: Pending[None] = Pending(WaitInfo("partial run", "its program"), lambda _: False)
        try:
            start(self._work)
        except RuntimeError as error:
            raise errors.unavailable(f"no thread for a partial run: {error}") from error

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as error:  # whoever asks for a fetch gets it
            found = (
                error
                if isinstance(error, errors.OpError)
                else errors.internal(f"{type(error).__name__} in a partial run: {error}")
            )
            self._rendezvous.abort(found)
            self._over.reject(found)
        else:
            self._over.resolve(None)

    def step(
        self,
        feeds: Iterable[tuple[str, Any]],
        fetches: Iterable[str],
        last: bool,
        scope: Scope,
    ) -> list[Any]:
        """Feed values by rendezvous key, wait for the fetches of these keys; the caller's own.

        last: wait for the program's end too.  Raises what the program raised, the scope's error; then the program
        has ended, and what it waited for is withdrawn.
        """
        try:
            for key, value in feeds:
                self._rendezvous.send(key, value)
            found = [_owned(key, self._rendezvous.recv(key).wait(scope)) for key in fetches]
            if last:
                self.wait(scope)
        except BaseException as error:
            given_up = errors.cancelled("the partial run was given up")
            self._stop(error if isinstance(error, errors.OpError) else given_up)
            with contextlib.suppress(errors.OpError):
                self.wait(Scope(_END_WITHIN_S))
            raise
        return found

    def wait(self, scope: Scope) -> None:
        """Wait for the program's end.  Raises what it raised, or the scope's error."""
        waiting: Pending[None] = Pending(self._over.wait_info, lambda _: True)

        def ended(over: Pending[None]) -> None:
            if over.error is not None:
                waiting.reject(over.error)
            else:
                waiting.resolve(None)

        self._over.on_done(ended)
        waiting.wait(scope)


def _owned(key: str, delivery: tuple[Any, bool]) -> Any:
    value, dead = delivery
    if dead:
        raise errors.invalid_argument(
            f"the tensor {tensor_name(key)} was not computed: it is on the side of a conditional that was not taken"
        )
    return np.array(value) if isinstance(value, np.ndarray) else value
