"""Floors: what this machine needs at least, measured in the same run as the rows that are compared to them.

A floor is a function of a Bench, as a row is, and verifies its result as a row does.
"""

from __future__ import annotations

import collections
import socket
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.echo import GRPC_METHOD, MOST_OF_A_FRAME
from benchmarks.processes import START_WITHIN_S, process
from benchmarks.row import TIMES, Bench, Floor

if TYPE_CHECKING:
    from headrace.codec.frame_parser import Parser

MESSAGE = bytes(64)
FRAME_HEADER_BYTES = 25  # of a request for a part of a step


def _array_copy(bench: Bench) -> None:
    value = np.float32(42.0) + np.zeros((), np.float32)
    stored = np.asarray(value)
    bench.expect(stored.copy(), 42.0)
    bench.time(lambda: stored.copy())


ARRAY_COPY = Floor("copy of a scalar array", _array_copy)


def _array_add(bench: Bench) -> None:
    stored, one = np.zeros((), np.float32), np.float32(1.0)

    def step() -> np.ndarray:
        np.add(stored, one, out=stored)
        return stored.copy()

    bench.expect(step(), 1.0)
    bench.expect(stored, 1.0 + bench.time(step))


ARRAY_ADD = Floor("np.add in place and a copy", _array_add)


def _counting(bench: Bench) -> None:
    limit, one = np.int32(LOOPS), np.int32(1)

    def step() -> np.int32:
        count = np.int32(0)
        while np.less(count, limit):
            count = np.add(count, one)
        return count

    bench.expect(step(), LOOPS)
    bench.time(step)


LOOPS = 10_000
COUNTING = Floor("the same in Python and NumPy", _counting)


def _deque_under_a_lock(bench: Bench) -> None:
    items: collections.deque[np.float32] = collections.deque()
    changed, item = threading.Condition(), np.float32(42.0)

    def step() -> np.float32:
        with changed:
            items.append(item)
            changed.notify()
        with changed:
            return items.popleft()

    bench.expect(step(), 42.0)
    bench.time(step)


LOCKED_DEQUE = Floor("deque under a Condition", _deque_under_a_lock)


def _tcp_round_trip(bench: Bench) -> None:
    with process([sys.executable, "-m", "benchmarks.echo", "tcp"]) as server:
        port = int(server.first_line(START_WITHIN_S))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def step() -> bytes:
                connection.sendall(MESSAGE)
                return connection.recv(len(MESSAGE))

            bench.expect(step(), MESSAGE)
            bench.time(step)


def _servers(stack: ExitStack, count: int, *kind: str) -> list[int]:
    """The ports of so many servers of a kind of `benchmarks.echo`, a process each."""
    command = [sys.executable, "-m", "benchmarks.echo", *kind]
    servers = [stack.enter_context(process(command)) for _ in range(count)]
    return [int(server.first_line(START_WITHIN_S)) for server in servers]


def _connected(stack: ExitStack, port: int) -> socket.socket:
    """A connection to such a server."""
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _echoing(stack: ExitStack, kind: str, count: int) -> list[socket.socket]:
    """Connections to so many servers of a kind of `benchmarks.echo`, a process each."""
    return [_connected(stack, port) for port in _servers(stack, count, kind)]


def _scatter(bench: Bench, count: int) -> None:
    with ExitStack() as stack:
        connections = _echoing(stack, "tcp", count)

        def step() -> list[bytes]:
            for connection in connections:
                connection.sendall(MESSAGE)
            return [connection.recv(len(MESSAGE)) for connection in connections]

        bench.expect(step(), [MESSAGE] * count)
        bench.time(step)


def scattered(count: int) -> Floor:
    """A 64-byte message to each of so many processes, and then its reply from each."""
    return Floor(f"TCP to {count} at once", lambda bench: _scatter(bench, count))


def _relay(bench: Bench, count: int) -> None:
    with ExitStack() as stack:
        ports = map(str, _servers(stack, count, "tcp"))
        (relay,) = _servers(stack, 1, "relay", *ports)
        connection = _connected(stack, relay)
        size = count * len(MESSAGE)

        def step() -> bytes:
            connection.sendall(MESSAGE)
            return connection.recv(size, socket.MSG_WAITALL)

        bench.expect(step(), MESSAGE * count)
        bench.time(step)


def relayed(count: int) -> Floor:
    """A 64-byte message to a process that sends it to so many others, and then all their replies in one."""
    return Floor(f"TCP to {count} at once by way of another", lambda bench: _relay(bench, count))


def _scatter_frames(bench: Bench, count: int) -> None:
    from headrace.codec.frame_parser import Parser
    from headrace.codec.frames import Kind, pack

    request = b"".join(pack(Kind.REQUEST, 1, 0, bytes(FRAME_HEADER_BYTES)))
    with ExitStack() as stack:
        connections = _echoing(stack, "frames", count)
        ends = [(connection, Parser(MOST_OF_A_FRAME)) for connection in connections]

        def step() -> list[np.ndarray]:
            for connection in connections:
                connection.sendall(request)
            return [_scalar(connection, parser) for connection, parser in ends]

        bench.expect(step(), [0.0] * count)
        bench.time(step)


def _scalar(connection: socket.socket, parser: Parser) -> np.ndarray:
    """What the next frame holds."""
    frame = None
    while frame is None:
        frame = parser.take(connection.recv_into(parser.buffer()))
    (value,) = frame.values
    return value


def framed(count: int) -> Floor:
    """A frame of headrace's lane to each of so many processes of Python, and then one with a scalar from each."""
    return Floor(f"frames to {count} at once", lambda bench: _scatter_frames(bench, count))


def _grpc_round_trip(bench: Bench) -> None:
    import grpc

    with process([sys.executable, "-m", "benchmarks.echo", "grpc"]) as server:
        port = int(server.first_line(START_WITHIN_S))
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(GRPC_METHOD)
            bench.expect(call(MESSAGE), MESSAGE)
            bench.time(lambda: call(MESSAGE))


def _bulk_round_trip(bench: Bench, nbytes: int) -> None:
    with process([sys.executable, "-m", "benchmarks.echo", "bulk"]) as server:
        port = int(server.first_line(START_WITHIN_S))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request, into = nbytes.to_bytes(8, "little"), memoryview(bytearray(nbytes))

            def step() -> int:
                connection.sendall(request)
                return connection.recv_into(into, nbytes, socket.MSG_WAITALL)

            bench.expect(step(), nbytes)
            bench.time(step)


def bulk(nbytes: int) -> Floor:
    """So many bytes from one process to another, received into memory that is there, and 8 bytes that ask for them."""
    return Floor(f"{nbytes / 1e6:g} MB over TCP", lambda bench: _bulk_round_trip(bench, nbytes))


def memcpy(nbytes: int) -> Floor:
    """So many bytes copied to memory that is there."""

    def measure(bench: Bench) -> None:
        source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)

        def step() -> None:
            np.copyto(target, source)

        step()
        bench.expect(target.min(), 1)
        bench.time(step)

    return Floor(f"memcpy of {nbytes / 1e6:g} MB", measure)


def summed(nbytes: int) -> Floor:
    """The sum of so many bytes of floats, on one thread."""

    def measure(bench: Bench) -> None:
        values = np.ones(nbytes // 4, np.float32)
        bench.expect(values.sum(), np.float32(len(values)))
        bench.time(values.sum)

    return Floor(f"sum of {nbytes / 1e6:g} MB", measure)


def added(nbytes: int, then_summed: bool = False) -> Floor:
    """So many bytes of floats added to others where they are, on one thread; and the sum of them."""

    def measure(bench: Bench) -> None:
        values, more = np.zeros(nbytes // 4, np.float32), np.ones(nbytes // 4, np.float32)

        def step() -> object:
            np.add(values, more, out=values)
            return values.sum() if then_summed else None

        step()
        bench.expect((values.min(), values.max()), (1, 1))
        bench.time(step)

    what = f"{nbytes / 1e6:g} MB added to {nbytes / 1e6:g} MB"
    return Floor(f"{what} and summed" if then_summed else what, measure)


def round_trips(count: int) -> tuple[Floor, Floor]:
    """So many 64-byte messages and their replies between two processes: over a raw socket, over grpcio."""
    return (
        Floor(f"TCP {TIMES}{count}", _tcp_round_trip, count),
        Floor(f"grpcio {TIMES}{count}", _grpc_round_trip, count),
    )
