"""Peers: the services of other tasks, whatever transport reaches them.

Called by: serve.connect (makes them), serve.master, serve.worker, client (ask them).  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.rpc.cancelled_calls import CancelledCalls
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.methods import Method


class Peer(Protocol):
    """A service that can be asked.

    name: what errors call it.  remote: it runs a call under a scope of its own, not the caller's.
    cancelled_calls: what it hears of before the next step that it is asked for.
    """

    name: str
    remote: bool
    cancelled_calls: CancelledCalls

    @property
    def stale(self) -> bool:
        """Whether it has ended for good; its successor at the same address wants a new Peer."""

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
    ) -> Pending[Any]:
        """Send a request; the reply comes later.  Abandoning the result cancels the call.

        wait_for_ready: for a server that is not up yet, else that is Unavailable.
        watched: false if the result need not complete before somebody waits for it, or watches it.
        """

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """Send a request whose reply this thread will read, with those of others: see serve.rpc.gather.

        Where that is not possible it is a `call`.
        """

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """Send a request and wait for the reply, in this thread where that is quicker."""

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """Send a request that needs no reply, if that is possible here; else `call` it.

        May block while the other side is behind with reading.  Raises what the scope ends with, or
        Unavailable.
        """

    def prepare(self, start: int = 0) -> None:
        """It will be asked soon: have the best way there looked for, behind the caller's back.

        start: its incarnation, if that is known: what leads to an earlier one is given up.
        """

    def listens(self, scope: Scope) -> bool:
        """Whether somebody takes connections at its address, found out by trying; false if it is known not to live.

        Raises the scope's error.
        """

    def why_silent(self, scope: Scope) -> str:
        """Why it does not answer, found out by trying; "" if it does.

        Raises Unauthenticated if no time will mend it: see serve.grpc.unreachable; and the scope's error.
        """

    def close(self) -> None:
        """Release what is held."""


def peer_name(address: str, name: str) -> str:
    """What errors call a peer."""
    return f"{name} at {address}" if name else address


Handler = TypeVar("Handler", bound=Callable[..., Any])


def gives_pending(handler: Handler) -> Handler:
    """Decorator: the handler never blocks; it returns a Pending instead of a reply."""
    handler.gives_pending = True  # type: ignore[attr-defined]
    return handler
