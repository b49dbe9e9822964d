"""Where numbers, queues and arrays are kept that processes share: how each is served, and what a client of it does.

A client has a number, which it reads and adds to, a queue of numbers, and a large array; they are the same for all
clients of a server.  Every store does the same logical work, and gives what `Client` says.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.libraries import HEADRACE, TENSORFLOW, Library
from benchmarks.processes import START_WITHIN_S, cluster, free_ports, process

LARGE_BYTES = 1_000_000
CAPACITY = 1000  # of the queue, where it has one
MESSAGE = bytes(64)


class Client(ABC):
    """A client that is connected.  Threads: one."""

    @abstractmethod
    def read(self) -> int:
        """The number."""

    @abstractmethod
    def add(self) -> int:
        """The number, after 1 was added to it."""

    @abstractmethod
    def put(self) -> None:
        """Put a 7 into the queue; may wait for room."""

    @abstractmethod
    def get(self) -> int:
        """An element of the queue; waits for one."""

    @abstractmethod
    def store(self, array: np.ndarray[Any, Any]) -> None:
        """Have this large array."""

    @abstractmethod
    def large(self) -> np.ndarray[Any, Any]:
        """It."""


@dataclass(frozen=True)
class Store:
    """One column of the table.

    serve: a server for as long as a block lasts, its address and process.  python: of clients.  missing: why it cannot
    be measured here; "" if it can.  is_floor: whether it only echoes.
    """

    name: str
    serve: Callable[[], Any]
    client: Callable[[str], Client]
    python: Callable[[], str]
    missing: Callable[[], str]
    is_floor: bool = False


# -- headrace and TensorFlow ------------------------------------------------------------------


class _Graph(Client):
    def __init__(self, library: Library, address: str) -> None:
        tf = library.load()
        with tf.device("/job:ps/task:0"):
            number = tf.Variable(0, dtype=tf.int64, name="number")
            large = tf.Variable(np.zeros(LARGE_BYTES // 4, np.float32), name="large")
            queue = tf.FIFOQueue(CAPACITY, [tf.int64], shapes=[[]], shared_name="queue")
            element = tf.constant(7, tf.int64)
            self._number, self._large = number, large
            self._more = number.assign_add(1, use_locking=True)
            self._put, self._get = queue.enqueue(element), queue.dequeue()
            self._array = tf.placeholder(tf.float32, [LARGE_BYTES // 4])
            self._store = large.assign(self._array).op
            begin = tf.group(number.initializer, large.initializer)
            begun = tf.is_variable_initialized(large)
        self._session = tf.Session(f"grpc://{address}")
        if not self._session.run(begun):
            self._session.run(begin)

    def read(self) -> int:
        return int(self._session.run(self._number))

    def add(self) -> int:
        return int(self._session.run(self._more))

    def put(self) -> None:
        self._session.run(self._put)

    def get(self) -> int:
        return int(self._session.run(self._get))

    def store(self, array: np.ndarray[Any, Any]) -> None:
        self._session.run(self._store, {self._array: array})

    def large(self) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = self._session.run(self._large)
        return found


def _of_library(library: Library) -> Store:
    @contextmanager
    def serve() -> Iterator[tuple[str, int]]:
        with cluster(library, {"ps": 1}) as servers:
            yield servers.addresses["ps"][0], servers.pids["ps"][0]

    def missing() -> str:
        try:
            library.python()
        except LookupError as error:
            return str(error)
        return ""

    return Store(
        library.name, serve, lambda address: _Graph(library, address), library.python, missing
    )


# -- Redis ------------------------------------------------------------------------------------


class _Redis(Client):
    def __init__(self, address: str) -> None:
        import redis

        host, _, port = address.rpartition(":")
        self._redis: Any = (
            redis.Redis(unix_socket_path=address) if not host else redis.Redis(host, int(port))
        )
        self._redis.setnx("number", 0)

    def read(self) -> int:
        return int(self._redis.get("number"))

    def add(self) -> int:
        return int(self._redis.incrby("number", 1))

    def put(self) -> None:
        self._redis.rpush("queue", 7)

    def get(self) -> int:
        return int(self._redis.blpop("queue")[1])

    def store(self, array: np.ndarray[Any, Any]) -> None:
        self._redis.set("large", array.tobytes())

    def large(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(self._redis.get("large"), np.float32)


def _no_redis() -> str:
    if shutil.which("redis-server") is None:
        return "there is no redis-server (Debian's package of that name has it)"
    try:
        import redis  # noqa: F401
    except ImportError:
        return "there is no redis-py; `make bench-neighbours` installs it"
    return ""


def _redis(unix: bool) -> Store:
    @contextmanager
    def serve() -> Iterator[tuple[str, int]]:
        with tempfile.TemporaryDirectory(prefix="redis-") as folder:
            path, (port,) = os.path.join(folder, "socket"), free_ports(1)
            server = ["redis-server", "--save", "", "--appendonly", "no", "--dir", folder]
            server += ["--bind", "127.0.0.1", "--port", str(port), "--unixsocket", path]
            with process(server) as started:
                _listens(path)
                yield path if unix else f"127.0.0.1:{port}", started.popen.pid

    name = "Redis, unix socket" if unix else "Redis, TCP"
    return Store(name, serve, _Redis, HEADRACE.python, _no_redis)


def _listens(path: str) -> None:
    """Return when a server takes connections there.  Raises TimeoutError."""
    end = time.monotonic() + START_WITHIN_S
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as sock:
            if sock.connect_ex(path) == 0:
                return
        time.sleep(0.01)
    raise TimeoutError(f"no server at {path} within {START_WITHIN_S:g} s")


# -- multiprocessing's managers ---------------------------------------------------------------


class _Managed(Client):
    def __init__(self, address: str) -> None:
        from benchmarks.neighbours.managed import KEY, Manager

        manager: Any = Manager(address, KEY)
        manager.connect()
        self._number, self._queue = manager.number(), manager.queue()
        self._large = manager.large()

    def read(self) -> int:
        found: int = self._number.read()
        return found

    def add(self) -> int:
        found: int = self._number.add(1)
        return found

    def put(self) -> None:
        self._queue.put(7)

    def get(self) -> int:
        found: int = self._queue.get()
        return found

    def store(self, array: np.ndarray[Any, Any]) -> None:
        self._large.store(array.tobytes())

    def large(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(self._large.read(), np.float32)


def _own_server(*command: str) -> Callable[[], Any]:
    """One that writes its address, or its port of the loopback, on a line."""

    @contextmanager
    def serve() -> Iterator[tuple[str, int]]:
        with process([HEADRACE.python(), "-m", *command]) as started:
            yield started.first_line(START_WITHIN_S), started.popen.pid

    return serve


# -- the floors -------------------------------------------------------------------------------


class _Echoed(Client):
    """Messages of 64 bytes that come back, whatever is asked; the large array is another's."""

    def __init__(self, address: str) -> None:
        self._sock = socket.create_connection(("127.0.0.1", int(address)))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 0
        self._stored = np.zeros(0, np.float32)

    def _echo(self) -> None:
        self._sock.sendall(MESSAGE)
        if len(self._sock.recv(len(MESSAGE), socket.MSG_WAITALL)) != len(MESSAGE):
            raise EOFError("the echo is gone")

    def read(self) -> int:
        self._echo()
        return self._number

    def add(self) -> int:
        self._echo()
        self._number += 1
        return self._number

    def put(self) -> None:
        self._echo()

    def get(self) -> int:
        self._echo()
        return 7

    def store(self, array: np.ndarray[Any, Any]) -> None:
        self._stored = array

    def large(self) -> np.ndarray[Any, Any]:
        self._sock.sendall(self._stored)
        view, got = np.empty_like(self._stored), 0
        into = memoryview(view).cast("B")
        while got < len(into):
            got += self._sock.recv_into(into[got:])
        return view


class _Copied(Client):
    """Messages of 64 bytes that come back over a unix socket; the large array is copied into memory that is shared."""

    def __init__(self, address: str) -> None:
        from benchmarks.neighbours import copied

        self._client = copied.Client(address)
        self._echo = copied.ECHO
        self._number = 0

    def read(self) -> int:
        self._client.ask(self._echo)
        return self._number

    def add(self) -> int:
        self._client.ask(self._echo)
        self._number += 1
        return self._number

    def put(self) -> None:
        self._client.ask(self._echo)

    def get(self) -> int:
        self._client.ask(self._echo)
        return 7

    def store(self, array: np.ndarray[Any, Any]) -> None:
        self._client.store(array.data)

    def large(self) -> np.ndarray[Any, Any]:
        return self._client.large().view(np.float32)


def _always() -> str:
    return ""


STORES = {
    store.name: store
    for store in (
        _of_library(HEADRACE),
        _of_library(TENSORFLOW),
        _redis(unix=False),
        _redis(unix=True),
        Store(
            "multiprocessing", _own_server("benchmarks.neighbours.managed"), _Managed,
            HEADRACE.python, _always,
        ),
        Store(
            "echo", _own_server("benchmarks.echo", "each"), _Echoed,
            HEADRACE.python, _always, is_floor=True,
        ),
        Store(
            "echo, unix socket", _own_server("benchmarks.neighbours.copied"), _Copied,
            HEADRACE.python, _always, is_floor=True,
        ),
    )
}  # fmt: skip
