"""A proxy before a server that breaks what passes through it, by a seeded plan for every connection."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import pytest

from headrace.codec import protos as pb
from headrace.serve.server import Server
from tests.serve.clusters import ATTEMPTS, Cluster, Jobs, addresses, in_process


@dataclass(frozen=True)
class Fate:
    """What becomes of a connection.

    cut_up, cut_down: it ends after so many bytes from the client, or from the server; None: it lasts.
    piece: at most so many bytes pass at once.  delay_s: how long each is kept.
    hold_up: after so many bytes from the client no more come, and the connection stays.
    """

    cut_up: int | None = None
    cut_down: int | None = None
    piece: int = 1 << 16
    delay_s: float = 0.0
    hold_up: int | None = None


WHOLE = Fate()

ENDS = ("closed", "reset", "half")
"""How a fault ends a connection: either side finds an orderly end after half a message; either side finds that it was
reset; the receiver finds an orderly end, and the sender goes on as if nothing had happened.
"""


class Faults:
    """Moments out of a seed at which connections end, counted in bytes over all proxies that share them.

    At each, the connection over which the byte would have passed is ended by the proxy, as one of `ENDS`.
    """

    def __init__(self, seed: int, most_apart: int, most: int = 3) -> None:
        """most_apart: bytes between two faults, at most.  most: faults, at most."""
        source = random.Random(seed)
        self._plan = [
            (source.randrange(most_apart), source.choice(ENDS))
            for _ in range(1 + source.randrange(most))
        ]
        self._lock = threading.Lock()
        self._on = False
        self.done: list[str] = []

    def begin(self) -> None:
        """Count from here."""
        self._on = True

    def end(self) -> None:
        """From now on connections last."""
        self._on = False

    def reached(self, count: int) -> tuple[int, str]:
        """How many of `count` bytes pass, and how their connection ends then; "": it does not."""
        with self._lock:
            if not self._on or not self._plan:
                return count, ""
            left, how = self._plan[0]
            if count <= left:
                self._plan[0] = left - count, how
                return count, ""
            del self._plan[0]
            self.done.append(how)
            return left, how


class Passage:
    """A connection through a proxy: its two sockets, and whether it was ended here."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._sockets = client, server
        self._lock = threading.Lock()
        self._ways = 2
        self.ended = False

    def end(self, how: str) -> None:
        """Either side finds an end, or a reset; of which it is told when nobody uses the sockets here any more."""
        self.ended = True
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                if how == "reset":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RD)
                else:
                    sock.shutdown(socket.SHUT_RDWR)

    def left(self) -> None:
        """One of the two ways is not used any more; after both the sockets are closed."""
        with self._lock:
            self._ways -= 1
            if self._ways:
                return
        for sock in self._sockets:
            sock.close()


@dataclass(eq=False)
class Proxy:
    """A TCP listener before `target`; fate() is asked once per connection.  A context manager."""

    target: tuple[str, int]
    fate: Callable[[], Fate] = lambda: WHOLE
    listens: tuple[str, int] = ("127.0.0.1", 0)
    faults: Faults | None = None
    connections: int = 0
    cuts: int = 0
    _sockets: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Proxy:
        self._listener = socket.create_server(self.listens, backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def _start(self, call: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=call, args=args, daemon=True, name="proxy")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self.connections += 1
                fate = self.fate()
                try:
                    server = socket.create_connection(self.target)
                except OSError:
                    client.close()
                    continue
                self._sockets.append(server)
                for sock in (client, server):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                passage = Passage(client, server)
                up = fate.cut_up if fate.hold_up is None else fate.hold_up
                self._start(self._pass_on, passage, client, server, up, fate)
                self._start(
                    self._pass_on,
                    passage,
                    server,
                    client,
                    fate.cut_down,
                    replace(fate, hold_up=None),
                )

    def _pass_on(
        self,
        passage: Passage,
        source: socket.socket,
        sink: socket.socket,
        left: int | None,
        fate: Fate,
    ) -> None:
        """Forward; at the end of the source end the sink's input, at a cut both."""
        try:
            how = self._forward(source, sink, left, fate)
            if how == "held":
                return
            if how == "over" and not passage.ended:
                sink.shutdown(socket.SHUT_WR)
            elif how == "half":
                sink.shutdown(socket.SHUT_WR)
                while source.recv(1 << 16):
                    pass
            elif how in ENDS:
                passage.end(how)
        except OSError:
            passage.end("closed")
        passage.left()

    def _forward(
        self, source: socket.socket, sink: socket.socket, left: int | None, fate: Fate
    ) -> str:
        """Pass on what comes until the source ends ("over"), no more is let through ("held"), or the connection is to
        end: one of `ENDS`.
        """
        while left is None or left > 0:
            content = source.recv(fate.piece if left is None else min(fate.piece, left))
            if not content:
                return "over"
            if fate.delay_s:
                self._ended.wait(fate.delay_s)
            passing, how = (
                (len(content), "") if self.faults is None else self.faults.reached(len(content))
            )
            sink.sendall(content[:passing])
            if how:
                return how
            if left is not None:
                left -= len(content)
        if fate.hold_up is not None:
            return "held"
        self.cuts += 1
        return "closed"

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for sock in self._sockets:
            sock.close()

    def stand_before(self, server: Server) -> None:
        """Have the server tell its peers that its lane is here."""
        lane = server.worker.lane
        server.worker.lane = pb.LaneAddress(
            version=lane.version, server=lane.server, tcp_port=self.port
        )


def before(server: Server, fate: Callable[[], Fate] = lambda: WHOLE) -> Proxy:
    """A proxy for the server's lane, which must have a TCP port; see `Proxy.stand_before`."""
    return Proxy(("127.0.0.1", server.worker.lane.tcp_port), fate)


PROXIED = "127.0.0.2"
"""Where tasks are, says their cluster spec; a proxy is there, and the task has the same port of 127.0.0.1."""


def _with_proxies(
    stack: ExitStack, jobs: Jobs, fates: Callable[[int], Callable[[], Fate]], faults: Faults | None
) -> dict[str, list[str]]:
    """The spec of a cluster of PROXIED addresses, at each of which is a proxy.

    A port that is free of one address may be taken of another: then other ports are tried.
    """
    for attempt in range(ATTEMPTS):
        spec = addresses(jobs)
        with ExitStack() as trying:
            try:
                for number, address in enumerate(each for tasks in spec.values() for each in tasks):
                    host, _, port = address.partition(":")
                    listens = PROXIED, int(port)
                    trying.enter_context(Proxy((host, int(port)), fates(number), listens, faults))
            except OSError:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            stack.push(trying.pop_all())
            break
    return {job: [f"{PROXIED}:{each.partition(':')[2]}" for each in spec[job]] for job in spec}


@contextmanager
def behind_proxies(
    jobs: Jobs, fates: Callable[[int], Callable[[], Fate]], faults: Faults | None = None
) -> Iterator[Cluster]:
    """A cluster of servers in this process with a proxy before each one's gRPC port.

    fates(n) is for the proxy of the nth task.  faults: of all of them.
    """
    with ExitStack() as stack, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADRACE_BIND", "127.0.0.1")
        cluster = Cluster(_with_proxies(stack, jobs, fates, faults))
        stack.callback(cluster.stop)
        yield cluster


@contextmanager
def breaking(transport: str, jobs: Jobs, faults: Faults, seed: int) -> Iterator[Cluster]:
    """A cluster of servers in this process with proxies before all their ports, gRPC's and TCP's.

    Some connections dawdle; and at the moments of `faults` they end.
    """
    with (
        behind_proxies(jobs, lambda number: unlike(seed + number), faults) as cluster,
        ExitStack() as stack,
    ):
        if transport != "grpc":
            for number, server in enumerate(cluster.servers.values()):
                lane = ("127.0.0.1", server.worker.lane.tcp_port)
                proxy = Proxy(lane, unlike(seed - 1 - number), (PROXIED, 0), faults)
                stack.enter_context(proxy).stand_before(server)
        yield cluster


def unlike(seed: int) -> Callable[[], Fate]:
    """Fates out of a seed that cut nothing: most connections are as they were, some dawdle or pass crumbs."""
    source = random.Random(seed)
    return lambda: source.choice([WHOLE, WHOLE, WHOLE, Fate(piece=7), Fate(delay_s=0.001)])


def dawdling(seed: int) -> Callable[[], Fate]:
    """Fates out of a seed that cut nothing: connections dawdle, or what they carry comes in crumbs."""
    source = random.Random(seed)
    return lambda: source.choice(
        [Fate(piece=7), Fate(piece=1000), Fate(delay_s=0.001), Fate(piece=5000, delay_s=0.003)]
    )


@contextmanager
def proxied(
    transport: str, jobs: Jobs, fates: Callable[[int], Callable[[], Fate]]
) -> Iterator[Cluster]:
    """A cluster of servers in this process with a proxy before each one's port of that transport, gRPC or TCP.

    fates(n) is for the proxy of the nth task.
    """
    if transport == "grpc":
        with behind_proxies(jobs, fates) as cluster:
            yield cluster
        return
    with in_process(jobs) as cluster, ExitStack() as stack:
        for number, server in enumerate(cluster.servers.values()):
            stack.enter_context(before(server, fates(number))).stand_before(server)
        yield cluster


def seeded(seed: int, most: int) -> Callable[[], Fate]:
    """Fates out of a seed: some connections last, others are cut within `most` bytes; some pass crumbs, some dawdle."""
    source = random.Random(seed)

    def fate() -> Fate:
        kind = source.randrange(5)
        piece = source.choice([7, 1 << 16])
        cut = int(most ** source.random())  # every order of magnitude is as likely
        delay_s = source.choice([0.0, 0.0, 0.002]) if piece > 7 else 0.0
        if kind == 0:
            return Fate(None, None, piece, delay_s)
        return Fate(cut, None, piece, delay_s) if kind < 3 else Fate(None, cut + 60, piece, delay_s)

    return fate
