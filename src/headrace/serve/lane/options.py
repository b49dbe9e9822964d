"""What the environment says of transports: ``HEADRACE_LANE``, ``HEADRACE_LANE_PORT``, ``HEADRACE_DIRECT``,
``HEADRACE_MAX_MESSAGE_BYTES``.

Called by: serve.server, serve.lane.client, serve.master.master, client.remote.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.base import errors
from headrace.serve.lane import event_loop

_MAX_MESSAGE_BYTES = 1 << 34
_KINDS = {"": "unix tcp", "on": "unix tcp", "unix": "unix", "tcp": "tcp", "off": ""}


def max_message_bytes() -> int:
    """The most that one message may hold: ``HEADRACE_MAX_MESSAGE_BYTES``, else 16 GiB (gRPC itself: 2).

    Raises InvalidArgument.
    """
    text = os.environ.get("HEADRACE_MAX_MESSAGE_BYTES", "").strip() or str(_MAX_MESSAGE_BYTES)
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise errors.invalid_argument(
            f"HEADRACE_MAX_MESSAGE_BYTES={text!r} is not a number of bytes above 0"
        )
    return int(text)


def direct_steps() -> bool:
    """Whether clients ask tasks for steps without their master: ``HEADRACE_DIRECT``, on or off.

    Not without a lane.  Raises InvalidArgument.
    """
    text = os.environ.get("HEADRACE_DIRECT", "").strip().lower() or "on"
    if text not in ("on", "off"):
        raise errors.invalid_argument(f"HEADRACE_DIRECT={text!r} is not understood: say on or off")
    return text == "on" and lane_options().on


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
