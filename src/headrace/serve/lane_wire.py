"""What the lane's two ends agree on: numbers of methods, tensors beside messages, who may speak.

Called by: serve.lane_server, serve.lane_client.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.serve.wire import MASTER_METHODS, WORKER_METHODS

METHODS = (*MASTER_METHODS, *WORKER_METHODS)
NUMBERS = {method.path: number for number, method in enumerate(METHODS)}
BETWEEN_TASKS = range(len(MASTER_METHODS), len(METHODS))
"""Numbers of methods whose caller is a task, which only reads the values that it is sent."""

_REVISION = "3"  # of messages that are not protobuf's, see serve.wire
VERSION = (frames.VERSION << 32) | zlib.crc32(" ".join([_REVISION, *NUMBERS]).encode())
"""Of frames, messages and the table of methods; peers of different versions talk gRPC."""

GREETING = 0xFFFF
"""The number of the frame that a server sends first, a LaneAddress that says who it is; and of the error
that it sends last.
"""

HELLO = 0xFFFE
"""The number of the frames that prove to either side that the other knows the secret."""

UNTRUSTED_BYTES = 4096
"""The most that a frame may announce before that."""


class Beside:
    """Tensors beside the message (see `wire.Tensors`)."""

    __slots__ = ("_taken", "values")

    inline = False

    def __init__(self, values: list[Any] | None = None) -> None:
        self.values: list[Any] = [] if values is None else values
        self._taken = 0

    def put(self, value: Any, into: pb.TensorProto) -> None:
        """Put it beside, if it is a Lease as that; its place in the message stays empty."""
        self.values.append(value)

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        """The next ones.  Raises InvalidArgument if there are fewer than the message says."""
        start, end = self._taken, self._taken + len(protos)
        if end > len(self.values):
            raise errors.invalid_argument("a message has more places for tensors than came with it")
        self._taken = end
        return self.values[start:end]

    def rest(self) -> list[Any]:
        """The ones that are left."""
        return self.values[self._taken :] if self._taken else self.values


def greeting(server: int, nonce: bytes) -> bytes:
    """The frame that a server sends first.  nonce: empty if it takes everybody."""
    header = pb.LaneAddress(version=VERSION, server=server, nonce=nonce).SerializeToString()
    return b"".join(frames.pack(Kind.REPLY, GREETING, 0, header))


def greeted(frame: Frame, server: int) -> bytes:
    """The nonce in the greeting of that server.  Raises ConnectionRefusedError for any other frame."""
    if frame.kind is Kind.REPLY and frame.method == GREETING:
        with contextlib.suppress(DecodeError):
            found = pb.LaneAddress.FromString(frame.header)
            if found.version == VERSION and found.server == server:
                return found.nonce
    raise ConnectionRefusedError("what listens there is not the server's lane")


def host_id() -> str:
    """A name for this machine's present run, the same for all its processes; "" if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
