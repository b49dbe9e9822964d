"""Traffic: how many bytes have passed between this process and one server, over the connections that it has made.

Called by: the transports' clients (count), serve.connect.peers (tells).  Threads: any.  It takes no lock: where the
interpreter has one an addition of a number that is known is never torn, and elsewhere a lost one is no harm.
"""

from __future__ import annotations


class Traffic:
    """Bytes of messages, tensors in shared memory included; what the system adds on the way is not."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
