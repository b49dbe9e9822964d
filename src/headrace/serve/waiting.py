"""Ways to wait for a Pending that others have a say in too.

Called by: the shells' clients, serve.cluster_view, serve.master_session, client.  Threads: any.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope

T = TypeVar("T")

_log = logging.getLogger("headrace")
_FIRST_NOTICE_S = 5.0
_LAST_NOTICE_S = 60.0
_CONNECT_TIMEOUT_S = 300.0


@contextmanager
def patient(scope: Scope, extra_s: float) -> Iterator[Scope]:
    """A scope that ends as `scope` does, but `extra_s` after its deadline.

    For whoever waits for another task's word: that task keeps the deadline itself, and its error
    says what it was waiting for.
    """
    remaining = scope.remaining()
    if remaining is None:
        yield scope
        return
    late = Scope(remaining + extra_s)

    def follow_suit() -> None:
        error = scope.error
        if error is not None and not passed_deadline(scope):
            late.cancel(error)

    unregister = scope.on_cancel(follow_suit)
    try:
        yield late
    finally:
        unregister()


def passed_deadline(scope: Scope) -> bool:
    """Whether the scope's own deadline is behind us."""
    return scope.deadline is not None and scope.remaining() == 0.0


def follow(shared: Pending[T]) -> Pending[T]:
    """A Pending of one's own for a result that several wait for: giving up leaves the others be."""
    own: Pending[T] = Pending(shared.wait_info, lambda _: True)

    def arrived(done: Pending[T]) -> None:
        error = done.error
        if error is not None:
            own.reject(error)
        else:
            own.resolve(done.result())

    shared.on_done(arrived)
    return own


def connect_timeout_s() -> float | None:
    """How long to wait for a server that is not up yet; None: no limit.

    The environment's HEADRACE_CONNECT_TIMEOUT_S, else 300 s; 0 there means no limit.
    """
    text = os.environ.get("HEADRACE_CONNECT_TIMEOUT_S", "")
    seconds = float(text) if text else _CONNECT_TIMEOUT_S
    return seconds if seconds > 0 else None


def wait_for_server(reply: Pending[T], who: str, scope: Scope) -> T:
    """Wait for the first reply of a server that may not be up yet, saying so if it takes long.

    `reply` itself goes on when this gives up.  Raises Unavailable that names `who` at the scope's
    deadline, or without one after `connect_timeout_s`; else the reply's error or the scope's.
    """
    started = time.monotonic()
    notice_s = _FIRST_NOTICE_S
    with Scope(None if scope.deadline is not None else connect_timeout_s(), scope) as whole:
        while True:
            with Scope(notice_s, whole) as part:
                try:
                    return follow(reply).wait(part)
                except errors.DeadlineExceededError as error:
                    if reply.done:
                        return reply.result()
                    waited_s = time.monotonic() - started
                    if passed_deadline(whole):
                        raise errors.unavailable(
                            f"{who} has not answered for {waited_s:.1f} s: check the address, and that a server "
                            "was started there (tf.train.Server or `headrace serve`)"
                        ) from error
            _log.warning("still waiting for %s to answer, for %.0f s", who, waited_s)
            notice_s = min(notice_s * 2, _LAST_NOTICE_S)
