"""What the environment says of messages, whatever the transport: ``HEADRACE_MAX_MESSAGE_BYTES``.

Called by: serve.server, serve.connect, the transports.
"""

from __future__ import annotations

import os

from headrace.base import errors

_MAX_MESSAGE_BYTES = 1 << 34


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
