"""The other end of the round trips that floors measure.

    python -m benchmarks.echo tcp|each|frames|bulk|grpc
    python -m benchmarks.echo relay PORT...

Writes its port on a line, sends back what it receives (bulk: so many bytes as it is asked for; frames: a scalar in a
frame, for each frame; relay: what all those at these ports of the loopback answer to it), and ends with its stdin.
"""

from __future__ import annotations

import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from benchmarks.lifeline import end_with_stdin

MOST_OF_A_FRAME = 1 << 30  # bytes
GRPC_METHOD = "/benchmarks.Echo/Echo"


def tcp() -> None:
    """One connection, on the thread that reads it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    _echo(connection)


def _echo(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while message := connection.recv(65536):
            connection.sendall(message)


def each() -> None:
    """As many connections as come, a thread each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def relay(*ports: str) -> None:
    """One connection; a message goes to all before an answer of any is read."""
    others = [socket.create_connection(("127.0.0.1", int(port))) for port in ports]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    for each in (connection, *others):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while message := connection.recv(65536):
        for other in others:
            other.sendall(message)
        connection.sendall(b"".join([other.recv(65536) for other in others]))


def frames() -> None:
    """One connection, on the thread that reads it; frames are taken apart and answered as the lane does it."""
    import numpy as np

    from headrace.codec.frame_parser import Parser
    from headrace.codec.frames import Kind, pack, whole

    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    parser, value = Parser(MOST_OF_A_FRAME), np.zeros((), np.float32)
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while count := connection.recv_into(parser.buffer()):
            frame = parser.take(count)
            if frame is not None:
                values = [value.copy()]
                data = whole(Kind.REPLY, frame.method, b"", values)
                connection.sendall(data or b"".join(pack(Kind.REPLY, frame.method, 0, b"", values)))


def bulk() -> None:
    """One connection; a request is a number of eight bytes, the answer so many bytes out of one buffer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    content = memoryview(b"")
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while request := connection.recv(8):
            wanted = int.from_bytes(request, "little")
            if wanted != len(content):
                content = memoryview(bytes(wanted))
            connection.sendall(content)


def grpc() -> None:
    """grpcio's server with its smallest handler: bytes in, the same bytes out."""
    import grpc as grpcio

    echo = grpcio.unary_unary_rpc_method_handler(lambda message, context: message)
    service, method = GRPC_METHOD.strip("/").split("/")
    server = grpcio.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpcio.method_handlers_generic_handler(service, {method: echo}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    end_with_stdin()
    kinds = {"tcp": tcp, "each": each, "frames": frames, "bulk": bulk, "grpc": grpc, "relay": relay}
    kinds[sys.argv[1]](*sys.argv[2:])
