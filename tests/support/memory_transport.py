"""A transport within this process: messages pass through memory, as late as one likes, and are counted.

It shows what a transport has to do and no more (`serve.rpc.transport`, `serve.rpc.step_channel`), and lets hundreds of
servers talk in one process without a socket.  A `Network` joins them.  Over it a message takes `latency_s`, and a
server can be killed, so that all its connections break, or frozen, so that it takes what it is sent and says nothing.

    network = Network()
    with network.used():
        servers = [tf.train.Server(spec, "ps", task) for task in range(512)]

As gRPC does, it carries everything to a server's address; as the lane does beside it (`beside`), it carries direct
steps, values without a reply, and values of steps beside their calls.
Threads: a call runs on one of its server's pool; replies are completed there too, or on the network's clock.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.run.state.variable import Lease
from headrace.serve.connect import local_servers
from headrace.serve.connect.transports import Transports, using
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.cancelled_calls import CancelledCalls, new_number
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import GIVE_UP, Method
from headrace.serve.rpc.peer import peer_name
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import as_op_error, from_detail, to_detail
from headrace.serve.rpc.step_channel import ChannelCall, Deliver, PlainCaller, StepChannel
from headrace.serve.rpc.transport import Destination, Serving, Told, Unreachable
from headrace.serve.rpc.waiting import passed_deadline, patient

VERSION = 1
_FIRST_PORT = 20_000
_LARGEST = 1 << 15  # bytes of a value that passes beside a call


class Copies:
    """Tensors beside a message (`serve.rpc.encoding.Tensors`): copies, as if they had gone over a wire."""

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values = list(values)
        self.nbytes = 0
        self._taken = 0

    def put(self, value: Any, into: pb.TensorProto) -> None:
        """A copy of it."""
        array = value.array if isinstance(value, Lease) else value
        self.values.append(array.copy())
        self.nbytes += array.nbytes

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        """The next ones.  Raises InvalidArgument if there are fewer."""
        start, self._taken = self._taken, self._taken + len(protos)
        if self._taken > len(self.values):
            raise errors.invalid_argument("a message has more places for tensors than came with it")
        return self.values[start : self._taken]


class Network:
    """Servers of this process that reach each other through memory.

    messages: requests, replies and values that have been sent, by method.  bytes: of all of them.
    opened: connections that were ever made.
    """

    def __init__(self, latency_s: float = 0.0, beside: bool = True) -> None:
        """beside: whether servers offer the better way, too."""
        self.latency_s = latency_s
        self.lock = threading.RLock()
        self.messages: Counter[str] = Counter()
        self.bytes = 0
        self.opened = 0
        self._connections: Counter[MemoryChannel] = Counter()
        self._ports = itertools.count(_FIRST_PORT)
        self._listeners: dict[str, _Listener] = {}  # by address
        self._beside: dict[int, _Listener] = {}  # by the server's start
        self._waiting: dict[str, list[Callable[[], object]]] = {}
        self._frozen: set[int] = set()
        self._killed: set[int] = set()
        self._clock = _Clock()
        self.transports = Transports(
            _Memory(self, main=True), _Memory(self, main=False) if beside else None, local=False
        )

    @contextmanager
    def used(self) -> Iterator[Network]:
        """Servers and sessions that are made inside talk over it; they end inside, too."""
        with using(self.transports):
            try:
                yield self
            finally:
                self._clock.stop()

    @property
    def connected(self) -> set[str]:
        """Addresses to which, or beside which, there are connections now."""
        with self.lock:
            return {channel.to.address for channel in self._connections}

    def reset_counts(self) -> None:
        """Count messages from here on."""
        with self.lock:
            self.messages.clear()
            self.bytes = 0

    def kill(self, address: str) -> None:
        """A server is gone without a word: nobody listens there, and all calls to it have lost their connection."""
        with self.lock:
            listener = self._listeners.pop(local_servers.normal(address))
            beside = self._beside.pop(listener.serving.start, None)
            self._frozen.add(listener.serving.start)
            self._killed.add(listener.serving.start)
            calls: list[_Call] = []
            for each in filter(None, (listener, beside)):
                calls += each.calls
                each.calls.clear()
        for call in calls:
            call.broken()

    def freeze(self, address: str) -> None:
        """A server takes what it is sent from now on and says nothing."""
        with self.lock:
            self._frozen.add(self._listeners[local_servers.normal(address)].serving.start)

    def thaw(self, address: str) -> None:
        """It goes on; what it was sent meanwhile is lost."""
        with self.lock:
            self._frozen.discard(self._listeners[local_servers.normal(address)].serving.start)

    # -- what the transport asks for ------------------------------------------------------------

    def is_mute(self, start: int) -> bool:
        """Whether nothing comes of what that server is sent, or does."""
        return start in self._frozen

    def is_gone(self, start: int) -> bool:
        """Whether that server was killed: connections to it are broken, also for what was on its way."""
        return start in self._killed

    def carry(self, method: str, count: int, do: Callable[[], object]) -> None:
        """Send a message of `count` bytes: `do` is called when it has arrived."""
        with self.lock:
            self.messages[method] += 1
            self.bytes += count
        self.soon(do)

    def soon(self, do: Callable[[], object]) -> None:
        """Have `do` called after the latency; at once if there is none."""
        if self.latency_s:
            self._clock.at(time.monotonic() + self.latency_s, do)
        else:
            do()

    def connect(self, owner: MemoryChannel, most: int) -> None:
        """`owner` needs another connection, unless it has so many."""
        with self.lock:
            if self._connections[owner] < most:
                self._connections[owner] += 1
                self.opened += 1

    def disconnect(self, owner: MemoryChannel) -> None:
        """`owner` has none any more."""
        with self.lock:
            self._connections.pop(owner, None)

    def bind(self, listener: _Listener, port: int) -> int:
        """Listen at an address; the port.  Raises RuntimeError: it is taken."""
        host = listener.serving.host
        with self.lock:
            port = port or next(p for p in self._ports if self._key(host, p) not in self._listeners)
            if self._key(host, port) in self._listeners:
                raise RuntimeError(f"{host}:{port} is taken")
            self._listeners[self._key(host, port)] = listener
        return port

    @staticmethod
    def _key(host: str, port: int) -> str:
        return local_servers.normal(f"{host}:{port}")

    def offer(self, listener: _Listener) -> pb.LaneAddress:
        """Listen beside an address."""
        start = listener.serving.start
        with self.lock:
            self._beside[start] = listener
        return pb.LaneAddress(version=VERSION, server=start)

    def started(self, listener: _Listener) -> None:
        """Whoever waits for that address need not wait any more."""
        with self.lock:
            found = next((at for at, each in self._listeners.items() if each is listener), None)
            waiting = self._waiting.pop(found, []) if found is not None else []
        for do in waiting:
            self.soon(do)

    def leave(self, listener: _Listener) -> None:
        """It listens no more."""
        with self.lock:
            self._listeners = {
                at: each for at, each in self._listeners.items() if each is not listener
            }
            self._beside = {at: each for at, each in self._beside.items() if each is not listener}

    def listener_at(self, address: str) -> _Listener | None:
        """Who listens there."""
        found = self._listeners.get(local_servers.normal(address))
        return found if found is not None and found.serves else None

    def listener_of(self, start: int) -> _Listener | None:
        """Who listens beside the address of that start of a server."""
        return self._beside.get(start)

    def when_listening(self, address: str, do: Callable[[], object]) -> None:
        """Have `do` called as soon as somebody listens there."""
        with self.lock:
            if self.listener_at(address) is None:
                self._waiting.setdefault(local_servers.normal(address), []).append(do)
                return
        do()


class _Clock:
    """Calls things when they are due, in order, on a thread that is there while there is something."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def at(self, when: float, do: Callable[[], object]) -> None:
        """Call it then."""
        with self._changed:
            if not self._stopped:
                heapq.heappush(self._due, (when, next(self._numbers), do))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="network", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
                return
        do()

    def stop(self) -> None:
        """What is still due is called at once, and so is all that comes later: somebody may wait for it."""
        with self._changed:
            self._stopped = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        for _, _, do in sorted(self._due, key=lambda due: due[:2]):
            do()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (not self._due or self._due[0][0] > time.monotonic()):
                    left = self._due[0][0] - time.monotonic() if self._due else None
                    self._changed.wait(left if left is None else max(left, 0.0))
                if self._stopped:
                    return
                _, _, do = heapq.heappop(self._due)
            do()


class _Memory:
    """A `Transport`.  main: at servers' addresses; else beside them."""

    on = True

    def __init__(self, network: Network, main: bool) -> None:
        self._network = network
        self.main = main

    def leads_to(self, offer: pb.LaneAddress) -> bool:
        """See `Transport`."""
        return not self.main and offer.version == VERSION and bool(offer.server)

    def connect(self, to: Destination) -> MemoryChannel:
        """See `Transport`."""
        return MemoryChannel(self._network, to, self.main)

    def nearby(self, address: str, security: Security) -> None:
        """See `Transport`.  Everybody asks at the address."""

    def listens(self, address: str, scope: Scope) -> bool:
        """See `Transport`."""
        scope.check()
        return self._network.listener_at(address) is not None

    def why_silent(self, address: str, security: Security, scope: Scope) -> str:
        """See `Transport`."""
        listener = self._network.listener_at(address)
        if listener is None:
            return "connection refused: nothing listens there"
        return "it takes what it is sent and says nothing" if listener.mute else ""

    def listen(self, serving: Serving) -> _Listener:
        """See `Transport`."""
        return _Listener(self._network, serving, self.main)


class _Listener:
    """A `Listener`."""

    offer: pb.LaneAddress | None = None

    def __init__(self, network: Network, serving: Serving, main: bool) -> None:
        self.network = network
        self.serving = serving
        self.serves = False
        self.handlers = {
            method.path: (getattr(service, method.handler), method)
            for service, table in serving.services
            for method in table
        }
        give_up = next(service for service, table in serving.services if GIVE_UP in table)
        self.give_up: Callable[[pb.GiveUpRequest, Scope], Any] = give_up.give_up
        self.calls: dict[_Call, None] = {}
        self._empty = threading.Condition(network.lock)
        self.port = serving.port
        if main:
            self.port = network.bind(self, serving.port)
        else:
            self.offer = network.offer(self)

    @property
    def mute(self) -> bool:
        """Whether it takes what it is sent and says nothing."""
        return self.network.is_mute(self.serving.start)

    @property
    def gone(self) -> bool:
        """Whether it was killed."""
        return self.network.is_gone(self.serving.start)

    def start(self, address: str) -> None:
        """See `Listener`."""
        self.serves = True
        self.network.started(self)

    def begin(self, call: _Call) -> bool:
        """A call is under way; False if this listens no more."""
        with self._empty:
            if not self.serves or self.gone:
                return False
            self.calls[call] = None
            return True

    def end(self, call: _Call) -> None:
        """It is no more."""
        with self._empty:
            self.calls.pop(call, None)
            if not self.calls:
                self._empty.notify_all()

    def stop(self, last_words_s: float = 0.0) -> None:
        """See `Listener`."""
        with self._empty:
            self.serves = False
            calls = list(self.calls)
        self.network.leave(self)
        stopped = errors.unavailable(f"the server at {self.serving.host}:{self.port} was stopped")
        for call in calls:
            call.stop(stopped)
        with self._empty:
            self._empty.wait_for(lambda: not self.calls, last_words_s)
            calls = list(self.calls)
        for call in calls:
            call.broken()


class MemoryChannel:
    """A `Channel`, and a `Peer` for who needs no more than one way."""

    remote = True
    stale = False

    def __init__(self, network: Network, to: Destination, main: bool) -> None:
        self.name = peer_name(to.address, to.name) if main else to.name
        self.to = to
        self.cancelled_calls: CancelledCalls = to.cancelled_calls
        self.network = network
        self.main = main
        self.told: Told = {}
        self._calls: dict[_Call, None] = {}

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
    ) -> Pending[Any]:
        """See `Peer`."""
        error = scope.error
        if error is not None:
            return Pending.failed_with(error)
        listener = self._listener()
        call = _Call(self, method, scope)
        call.encode(request)
        if listener is None and not wait_for_ready:
            return Pending.failed_with(self.unreachable(method))
        call.begin(wait_for_ready)
        if listener is not None:
            call.send(listener)
        else:
            self.network.when_listening(self.to.address, call.send_again)
        return call

    def begin(self, method: Method, request: Any, scope: Scope) -> Pending[Any]:
        """See `Peer`.  Replies are completed by themselves."""
        return self.call(method, request, scope)

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""
        scope.check()
        pending = self.call(method, request, scope)
        with patient(scope, LIMITS.call_patience_s + 2 * self.network.latency_s) as late:
            return pending.wait(late)

    def tell(self, method: Method, request: m.SendTensorRequest, scope: Scope) -> bool:
        """See `Peer`.  Only beside the address."""
        if self.main:
            return False
        scope.check()
        listener = self._listener()
        assert listener is not None
        copies = Copies()
        data = method.encode_request(request, copies)
        handle, _ = listener.handlers[method.path]

        def arrived() -> None:
            if not listener.mute:
                listener.serving.pool.submit(
                    handle, method.decode_request(data, Copies(copies.values)), Scope()
                )

        self.network.connect(self, 1)
        self.network.carry(method.name, len(data) + copies.nbytes, arrived)
        return True

    def _listener(self) -> _Listener | None:
        """Who is meant.  Raises Unreachable: nobody is there beside the address."""
        if self.main:
            return self.network.listener_at(self.to.address)
        assert self.to.offer is not None
        found = self.network.listener_of(self.to.offer.server)
        if found is None or not found.serves:
            raise Unreachable(f"nobody listens for {self.name} any more")
        return found

    def unreachable(self, method: Method) -> errors.OpError:
        """The error of a call to nobody."""
        return errors.unavailable(
            f"{self.name} cannot be reached ({method.name}): nobody listens there; is a server running there?"
        )

    def note(self, call: _Call) -> None:
        """It is under way: an address needs one connection, what is beside it one for each call."""
        with self.network.lock:
            self._calls[call] = None
            self.network.connect(self, 1 if self.main else len(self._calls))

    def end(self, call: _Call) -> None:
        """It is over."""
        with self.network.lock:
            self._calls.pop(call, None)

    def prepare(self, start: int = 0) -> None:
        """See `Peer`."""

    def listens(self, scope: Scope) -> bool:
        """See `Peer`."""
        return self.network.listener_at(self.to.address) is not None

    def why_silent(self, scope: Scope) -> str:
        """See `Peer`."""
        return ""

    def close(self) -> None:
        """See `Peer`.  As over gRPC, calls to an address end with it; those beside it end by themselves."""
        calls = list(self._calls) if self.main else []
        for call in calls:
            call.abandon(errors.cancelled(f"{self.name} has been closed"))
        self.network.disconnect(self)


class _Call(ChannelCall):
    """A call under way, as both sides see it."""

    def __init__(self, peer: MemoryChannel, method: Method, scope: Scope) -> None:
        super().__init__(WaitInfo(method.name, peer.name))
        self._peer = peer
        self._network = peer.network
        self._method = method
        self._scope = scope
        self._number = new_number() if method.runs_steps else 0
        self._told: pb.GiveUpRequest | None = None
        self._data = b""
        self._copies = Copies()
        self._until = scope.deadline
        self._listener: _Listener | None = None
        self._running: Scope | None = None  # there
        self._answering: Pending[Any] | None = None  # there, if it has no thread
        self._refused: errors.OpError | None = None
        self._unregister: Callable[[], object] = lambda: None
        self._ends: tuple[_End, _End] | None = None

    # -- the caller's side -----------------------------------------------------------------------

    def encode(self, request: Any) -> None:
        """Make bytes of the request."""
        self._data = self._method.encode_request(request, self._copies)

    def begin(self, wait_for_ready: bool) -> None:
        """From now on it is under way."""
        peer, scope = self._peer, self._scope
        outstanding = None if wait_for_ready else peer.to.outstanding
        if outstanding is not None:
            outstanding.add(self, self._lost)

        def ended() -> None:
            if not passed_deadline(scope):
                self.abandon(scope.error or errors.cancelled("the call was cancelled"))

        self._unregister = scope.on_cancel(ended)
        self.on_done(lambda _: self._over())
        peer.note(self)

    def _over(self) -> None:
        self._unregister()
        self._peer.end(self)
        if self._peer.to.outstanding is not None:
            self._peer.to.outstanding.settle(self)

    def send_again(self) -> None:
        """Somebody listens there now."""
        listener = self._network.listener_at(self._peer.to.address)
        if listener is None:
            self._network.when_listening(self._peer.to.address, self.send_again)
        elif not self.done:
            self.send(listener)

    def send(self, listener: _Listener) -> None:
        """Send the request."""
        self._listener = listener
        if self._number and self._peer.cancelled_calls.any:
            self._told = self._peer.cancelled_calls.request()
        count = len(self._data) + self._copies.nbytes
        self._network.carry(self._method.name, count, self._arrived)

    def give_up(self) -> None:
        """See `PeerCall`."""
        self._gave_up()
        self._network.soon(lambda: self._stop(errors.cancelled("the caller is gone")))

    def _gave_up(self) -> None:
        if self._number:
            self._peer.cancelled_calls.add(calls=(self._number,))
            self._peer.to.gave_up(self._number)

    def _lost(self, error: errors.OpError) -> None:
        """The server does not live."""
        self._gave_up()
        self.failed(error)

    def broken(self) -> None:
        """The connection is, and nobody knows what became of the call."""
        if not self.done:
            self._gave_up()
        name, method = self._peer.name, self._method.name
        self.failed(
            errors.unavailable(
                f"the connection to {name} broke while {method} was under way: its process has ended, or the network "
                "between"
            )
        )

    def _replied(self, data: bytes, copies: Copies) -> None:
        """The reply has come."""
        self._answered()
        try:
            value = self._method.decode_reply(data, copies)
        except Exception as error:
            self.failed(as_op_error(error, self._method.name))
        else:
            self.replied(value)

    def _failed(self, detail: bytes) -> None:
        """An error has come."""
        self._answered()
        self.failed(from_detail(pb.ErrorDetail.FromString(detail)))

    def _answered(self) -> None:
        self._peer.end(self)  # before the caller, who may have another call to make, hears of it
        if self._peer.to.outstanding is not None:
            self._peer.to.outstanding.answered()
        if self._told is not None:
            self._peer.cancelled_calls.heard(self._told)

    # -- the server's side -----------------------------------------------------------------------

    def _arrived(self) -> None:
        listener = self._listener
        assert listener is not None
        if listener.mute and not listener.gone:
            return
        if not listener.begin(self):
            self.broken()
            return
        try:
            listener.serving.pool.submit(self._serve, listener)
        except RuntimeError:
            listener.end(self)
            self.broken()

    def _serve(self, listener: _Listener) -> None:
        handle, method = listener.handlers[self._method.path]
        calls = listener.serving.calls
        left_s = None if self._until is None else max(0.0, self._until - time.monotonic())
        scope = self._running = Scope(left_s)
        reply: Any = None
        try:
            if self._number and not calls.add(self._number, self._end_here):
                self._end_here()
            if self._told is not None:
                listener.give_up(self._told, scope)
            if self._refused is not None:
                scope.cancel(self._refused)
            scope.check()
            request = method.decode_request(self._data, Copies(self._copies.values))
            self._data, self._copies = b"", Copies()
            more = (self._caller(),) if getattr(handle, "takes_caller", False) else ()
            reply = handle(request, scope, *more)
            del request
        except Exception as error:
            reply = Pending.failed_with(as_op_error(error, method.name))
        if not isinstance(reply, Pending):
            reply = Pending.done_with(reply)
        if not reply.done:
            self._answering = reply
            scope.on_cancel(lambda: reply.abandon(scope.error or errors.cancelled("it has ended")))
            if self._until is not None:  # nobody else looks at the clock
                self._wait(reply, scope)
        reply.on_done(lambda done: self._reply(done, listener))

    @staticmethod
    def _wait(reply: Pending[Any], scope: Scope) -> None:
        try:
            reply.wait(scope)
        except errors.OpError:
            return

    def _caller(self) -> PlainCaller:
        return _Beside(self) if not self._peer.main else PlainCaller(lends=True)

    def _reply(self, done: Pending[Any], listener: _Listener) -> None:
        """Send the reply, or the error."""
        method, value, failed = self._method, None, False
        copies = Copies()
        try:
            value = done.result()
            data = method.encode_reply(value, copies)
        except Exception as error:
            data, failed = to_detail(as_op_error(error, method.name)).SerializeToString(), True
        finally:
            m.release(value)
        if self._number:
            listener.serving.calls.forget(self._number)
        listener.end(self)
        if listener.gone:
            self.broken()
        elif not listener.mute:
            values = Copies(copies.values)
            self._network.carry(
                f"{method.name} reply",
                len(data) + copies.nbytes,
                lambda: self._failed(data) if failed else self._replied(data, values),
            )

    def _end_here(self) -> bool:
        self._stop(errors.cancelled("the caller has given up the call"))
        return True

    def _stop(self, error: errors.OpError) -> None:
        self._refused = error
        if self._running is not None:
            self._running.cancel(error)

    def stop(self, error: errors.OpError) -> None:
        """The server is stopped."""
        self._stop(error)

    # -- values beside it ------------------------------------------------------------------------

    def ends(self) -> tuple[_End, _End]:
        """The caller's and the called one's."""
        with self._network.lock:
            if self._ends is None:
                there, here = _End(self, self._network), _End(self, self._network)
                there.other, here.other = here, there
                self._ends = here, there
            return self._ends

    def channel(self) -> StepChannel:
        """See `ChannelCall`."""
        return self.ends()[0]

    def receive(self) -> None:
        """See `ChannelCall`.  What comes is delivered by itself."""

    def leave(self) -> None:
        """See `ChannelCall`."""


class _Beside(PlainCaller):
    """A caller to whom values pass beside the reply."""

    __slots__ = ("_call",)

    def __init__(self, call: _Call) -> None:
        super().__init__(lends=True)
        self._call = call

    def channel(self) -> StepChannel | None:
        """See `Caller`."""
        return self._call.ends()[1]


class _End:
    """A `StepChannel`."""

    other: _End

    def __init__(self, call: _Call, network: Network) -> None:
        self._call = call
        self._network = network
        self._deliver: Deliver | None = None
        self._early: list[m.SendTensorRequest] = []

    @property
    def over(self) -> bool:
        """See `StepChannel`."""
        return self._call.done

    def deliver_to(self, deliver: Deliver) -> None:
        """See `StepChannel`."""
        with self._network.lock:
            self._deliver = deliver
            early, self._early = self._early, []
        for request in early:
            deliver(request)

    def send(self, request: m.SendTensorRequest, hold: bool) -> bool:
        """See `StepChannel`."""
        value = request.value
        if self.over or isinstance(value, Lease) or (value is not None and value.nbytes > _LARGEST):
            return False
        if value is not None:
            value = value.copy()
        sent = m.SendTensorRequest(request.step_id, request.rendezvous_key, value, request.is_dead)
        count = len(request.rendezvous_key) + (0 if value is None else value.nbytes)
        self._network.carry("beside a call", count, lambda: self.other.take(sent))
        return True

    def take(self, request: m.SendTensorRequest) -> None:
        """What the other end has sent."""
        with self._network.lock:
            deliver = self._deliver
            if deliver is None:
                self._early.append(request)
        if deliver is not None:
            deliver(request)

    def flush(self) -> None:
        """See `StepChannel`.  Nothing is held."""

    def receive(self) -> None:
        """See `StepChannel`.  Nothing needs it."""

    def fileno(self) -> int:
        """See `StepChannel`."""
        return -1
