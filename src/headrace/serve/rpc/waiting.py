"""Ways to wait for a Pending that others have a say in too.

Called by: the transports' clients, serve.connect.cluster_view, serve.master.master_session, client.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from headrace.run.pending import Pending
from headrace.run.scope import Scope

T = TypeVar("T")


@contextmanager
def patient(scope: Scope, extra_s: float) -> Iterator[Scope]:
    """A scope that ends as `scope` does, but `extra_s` after its deadline.

    For whoever waits for another task's word: that task keeps the deadline itself, and its error
    says what it was waiting for.
    """
    if scope.deadline is None:
        yield scope
        return
    late = scope.later(extra_s)

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
