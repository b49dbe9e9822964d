"""What a transport is: how servers listen over it, how their peers connect, and what either gives it.

A server listens at its own address over one transport, gRPC, and may listen over another one beside that, the lane, for
peers of ours: where, it offers in its status.  Both are a `Transport`, and so is the tests' own, which passes messages
within a process: nothing outside of serve.lane and serve.grpc knows more of them than this, and serve.rpc.step_channel.
Called by: the transports, serve.connect.transports (chooses), serve.connect, serve.server.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.rpc.cancelled_calls import Calls, CancelledCalls
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.traffic import Traffic

Told = dict[int, str]
"""By step, the key of the last value that was sent for it without a reply."""

Lost = Callable[[errors.OpError], object]


class Unreachable(OSError):
    """No connection can be made and nothing has been sent: the caller may try another way."""


class Outstanding(Protocol):
    """Calls to one server that have no reply yet: see serve.connect.liveness, which finds out whether it lives.

    calls: since when (time.monotonic), and whom to tell that it is lost.  observed: somebody checks it; who adds
    to `calls` without `add` sees to that.
    """

    calls: dict[object, tuple[float, Lost]]
    observed: bool

    def add(self, what: object, lost: Lost) -> None:
        """`what` is outstanding from now on; `lost(error)` is called if the server is found not to live."""

    def settle(self, what: object) -> None:
        """`what` is not outstanding any more, if it was."""

    def answered(self) -> None:
        """The server has been heard of."""

    def observe(self) -> None:
        """See to it that somebody checks."""


def _ignore(_: Any) -> None:
    return None


class Nearby(Protocol):
    """A connection to where a server of this host can be found by its address alone."""

    def offer(self, within_s: float) -> pb.LaneAddress | None:
        """What the server would offer; None if it does not say in time who it is, or is none for this process."""

    def close(self) -> None:
        """It is not wanted."""


@dataclass(slots=True)
class Destination:
    """A server, for whoever connects to it.

    name: what errors call it.  outstanding: None if nobody is to see whether it lives.  cancelled_calls: of it.
    offer: where it listens beside its address, for a transport that needs that.
    connect_within_s: how long one attempt may take; None: as the transport likes.
    lost: called, from any thread, with what was told over a connection that has broken since.
    gave_up: called, from any thread, with the number of a call that was given up.
    nearby: what has made the offer, for the first connection.  traffic: of all connections to it.
    """

    address: str
    name: str
    security: Security
    outstanding: Outstanding | None = None
    cancelled_calls: CancelledCalls = field(default_factory=CancelledCalls)
    offer: pb.LaneAddress | None = None
    connect_within_s: float | None = None
    lost: Callable[[Told], object] = _ignore
    gave_up: Callable[[int], object] = _ignore
    nearby: Nearby | None = None
    traffic: Traffic = field(default_factory=Traffic)


class Channel(Protocol):
    """A service at a destination, over one transport.  Its methods are those of `serve.rpc.peer.Peer`.

    A transport beside another raises Unreachable, and never waits for a server to be ready.
    """

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
    ) -> Pending[Any]:
        """See `Peer`.  Where values of a step can pass beside it, the result is a `step_channel.ChannelCall`."""

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """See `Peer`."""

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """See `Peer`."""

    def close(self) -> None:
        """See `Peer`."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server, for the transports over which it is reached.

    services: each with its methods.  start: a number of this start of the server.  calls: of all its transports.
    host, port: where it listens; port 0 for one that the transport chooses.  task: whom errors name.
    """

    services: Sequence[tuple[Any, Sequence[Method]]]
    pool: GrowingPool
    start: int
    security: Security
    calls: Calls
    host: str
    port: int
    task: str
    max_message_bytes: int


class Listener(Protocol):
    """What has been bound for a server.

    port: of its address.  offer: what peers need to know to connect beside it; None: nothing.
    """

    port: int
    offer: pb.LaneAddress | None

    def start(self, address: str) -> None:
        """Begin to serve.  address: the server's, by which peers of this host may look for it; "" if none may."""

    def stop(self, last_words_s: float = 0.0) -> None:
        """Stop listening and wait for the end; calls under way are cancelled, and get as long to tell their callers."""


class Transport(Protocol):
    """See the module header.  on: whether it is used at all, as the environment says."""

    @property
    def on(self) -> bool:
        """See above.  Raises InvalidArgument for settings that mean nothing."""

    def leads_to(self, offer: pb.LaneAddress) -> bool:
        """Whether a server that offers this may be reached from here."""

    def connect(self, to: Destination) -> Channel:
        """A service of it.  Connections are made when they are needed."""

    def nearby(self, address: str, security: Security) -> Nearby | None:
        """The server at an address, if it can be found without being asked where it listens.  Takes no time."""

    def listens(self, address: str, scope: Scope) -> bool:
        """Whether somebody takes connections there, found out by trying.  Raises the scope's error."""

    def why_silent(self, address: str, security: Security, scope: Scope) -> str:
        """Why nothing comes of asking the server there, found out by trying; "" if it answers.

        Raises Unauthenticated if one side does not take the other's credentials, and the scope's error.
        """

    def listen(self, serving: Serving) -> Listener | None:
        """Bind; None if it is not on.  Raises RuntimeError (the address is taken), OpError."""
