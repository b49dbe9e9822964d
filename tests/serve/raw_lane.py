"""The lane in its parts: connections that say what a test wants, and its client alone."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frame_parser import Parser
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.server import LaneServer
from headrace.serve.lane.unix_socket import address_of
from headrace.serve.rpc.security import Security
from tests.serve.clusters import Cluster


def lane_of(cluster: Cluster) -> pb.LaneAddress:
    """Where the lane of ps:0 is."""
    found = cluster.servers["ps:0"].worker.lane
    assert found is not None
    return found


def shell_of(cluster: Cluster) -> LaneServer:
    """What listens there."""
    listener: Any = cluster.servers["ps:0"]._listeners[0]
    transport: LaneServer = listener._transport
    return transport


def connected(lane: pb.LaneAddress) -> socket.socket:
    """A new connection."""
    if lane.tcp_port:
        return socket.create_connection(("127.0.0.1", lane.tcp_port), 30)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    with address_of(lane.unix_path) as where:
        sock.connect(where)
    return sock


def frames_from(sock: socket.socket) -> Iterator[frames.Frame]:
    """What the server says, to the end of the connection."""
    parser = Parser(1 << 20)
    while True:
        while (frame := parser.next()) is not None:
            yield frame
        count = 0
        with contextlib.suppress(ConnectionResetError):
            count = sock.recv_into(parser.buffer())
        if not count:
            return
        parser.received(count)


@contextlib.contextmanager
def lane_peer(lane: pb.LaneAddress, security: Security) -> Iterator[LanePeer]:
    """The lane's client, without a way back to gRPC."""
    rpcs = OutstandingRpcs("", pytest.fail)
    with contextlib.closing(rpcs):
        peer = LanePeer(lane, "127.0.0.1", "the server", 1 << 20, rpcs, security)
        with contextlib.closing(peer):
            yield peer
