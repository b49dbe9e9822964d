"""Hosts that vanish without a word (power off, a cable, a firewall): connections to them end though nothing is sent.

Who waits for a reply asks (serve.connect.liveness).  Who waits for requests, a server with its clients, has the
transports ask: TCP keepalive on the lane, which the other side's kernel answers, HTTP/2 pings of gRPC servers, which
the other process answers.  Clients of gRPC send no pings: TensorFlow's servers count those, and end the connection
(too_many_pings).
Called by: serve.grpc.server, serve.lane.socket.
"""

from __future__ import annotations

import socket

from headrace.serve.rpc.env_seconds import seconds_of

_VANISHED_AFTER_S = 20.0
_PROBES = 4  # within that time
_LEAST_PING_MS = 1000  # gRPC's own

Options = list[tuple[str, int]]


def vanished_after_s() -> float | None:
    """After how long a connection on which nothing is acknowledged has ended; None: never.

    The environment's HEADRACE_VANISHED_AFTER_S, else 20; 0 there means never.  Raises InvalidArgument.
    """
    return seconds_of(
        "HEADRACE_VANISHED_AFTER_S", _VANISHED_AFTER_S, "connections may be silent for ever"
    )


def server_options() -> Options:
    """What has a gRPC server notice.  Raises InvalidArgument."""
    seconds = vanished_after_s()
    if seconds is None:
        return []
    half_ms = max(_LEAST_PING_MS, round(seconds * 500))
    return [
        ("grpc.keepalive_time_ms", half_ms),
        ("grpc.keepalive_timeout_ms", half_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def set_keepalive(sock: socket.socket) -> None:
    """Have the system notice, on a TCP socket.  Raises InvalidArgument."""
    seconds = vanished_after_s()
    if seconds is None:
        return
    every_s = max(1, round(seconds / _PROBES))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, every_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES - 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))
