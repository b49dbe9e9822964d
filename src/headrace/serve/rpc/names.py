"""Names of hosts, looked up whenever a connection is made, so that a task that has moved is found.

``HEADRACE_NAME_SERVER=IP:PORT`` names a server of DNS that is asked for names beneath ``.headrace``, and for no others:
where tasks move and the system's name server knows nothing of them, as under Ray.
Called by: serve.rpc.tcp, serve.lane.connect, serve.grpc.client.  Threads: any; each question is bounded in time.
Source: RFC 1035
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from typing import Any

from headrace.base import errors

ZONE = ".headrace"
VARIABLE = "HEADRACE_NAME_SERVER"

_TRIES = 3
_ANSWER_WITHIN_S = 1.0
_KINDS = {1: (socket.AF_INET, 4), 28: (socket.AF_INET6, 16)}  # A and AAAA
_MOST_BYTES = 512
_RECORD = struct.Struct(">HHIH")


def name_server() -> tuple[str, int] | None:
    """Where it is asked; None if nothing says that.  Raises InvalidArgument."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    host, _, port = text.rpartition(":")
    try:
        socket.inet_aton(host)
        if 0 < int(port) < 65536:
            return host, int(port)
    except (OSError, ValueError):
        pass
    raise errors.invalid_argument(f"{VARIABLE}={text!r} is not IP:PORT of a name server (IPv4)")


def grpc_target(address: str) -> str:
    """What gRPC is to connect to, which looks names up itself."""
    server = name_server() if _is_ours(address.rpartition(":")[0]) else None
    return address if server is None else f"dns://{server[0]}:{server[1]}/{address}"


def resolved(host: str, port: int) -> list[tuple[int, Any]]:
    """Families and addresses, as for `socket.connect`.  Raises OSError."""
    server = name_server() if _is_ours(host) else None
    if server is not None:
        return [(family, (ip, port)) for family, ip in _asked(host, server)]
    found = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM)
    return [(int(family), where) for family, _, _, _, where in found]


def _is_ours(host: str) -> bool:
    return host.lower().endswith(ZONE)


def _asked(host: str, server: tuple[str, int]) -> list[tuple[int, str]]:
    """Families and IP addresses that the server says; it may answer a question late, when it has been asked again."""
    labels = b"".join(bytes([len(part)]) + part for part in host.encode("idna").split(b"."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_ANSWER_WITHIN_S)
        asking.connect(server)
        head = struct.pack(">HHHHHH", secrets.randbits(16), 0x100, 1, 0, 0, 0)
        for _ in range(_TRIES):
            try:
                asking.send(head + labels + struct.pack(">BHH", 0, 1, 1))
                answer = asking.recv(_MOST_BYTES)
            except (TimeoutError, ConnectionRefusedError):
                continue
            if answer[:2] == head[:2]:
                found = _addresses(answer)
                if found:
                    return found
                raise socket.gaierror(socket.EAI_NONAME, f"{server[0]} does not know the name")
    raise socket.gaierror(socket.EAI_AGAIN, f"the name server {server[0]}:{server[1]} is silent")


def _addresses(answer: bytes) -> list[tuple[int, str]]:
    """Those that a message has; it may be any bytes."""
    found = []
    try:
        questions, records = struct.unpack_from(">HH", answer, 4)
        at = 12
        for _ in range(questions):
            at = _after_name(answer, at) + 4
        for _ in range(records):
            at = _after_name(answer, at)
            kind, _, _, size = _RECORD.unpack_from(answer, at)
            at += _RECORD.size + size
            family, length = _KINDS.get(kind, (socket.AF_UNSPEC, -1))
            if size == length:
                found.append((int(family), socket.inet_ntop(family, answer[at - size : at])))
    except (struct.error, IndexError, ValueError):
        pass
    return found


def _after_name(answer: bytes, at: int) -> int:
    while length := answer[at]:
        if length >= 0xC0:  # the rest stands elsewhere
            return at + 2
        at += 1 + length
    return at + 1
