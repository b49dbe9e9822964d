"""What the environment says of the lane: ``HEADRACE_LANE``, ``HEADRACE_LANE_PORT``.

Called by: serve.lane.transport.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.base import errors
from headrace.serve.lane import event_loop

_KINDS = {"": "unix tcp", "on": "unix tcp", "unix": "unix", "tcp": "tcp", "off": ""}


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """Which sockets are used beside gRPC: none of them, and everything goes over gRPC."""

    unix: bool
    tcp: bool
    tcp_port: int = 0

    @property
    def on(self) -> bool:
        """Whether there is a lane at all."""
        return self.unix or self.tcp


def lane_options() -> LaneOptions:
    """Raises InvalidArgument for a value that means nothing."""
    text = os.environ.get("HEADRACE_LANE", "").strip().lower()
    kinds = _KINDS.get(text)
    if kinds is None:
        raise errors.invalid_argument(
            f"HEADRACE_LANE={text!r} is not understood: say on, unix, tcp or off"
        )
    port = os.environ.get("HEADRACE_LANE_PORT", "").strip() or "0"
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise errors.invalid_argument(f"HEADRACE_LANE_PORT={port!r} is not a port from 0 to 65535")
    there = event_loop.available()
    return LaneOptions(there and "unix" in kinds, there and "tcp" in kinds, int(port))
