"""The lane, client side: a peer that hears, ahead of each request for a step, of which span its caller is in.

Requests themselves are what they are without spans, and so is how they are answered when they come again; what comes
behind a context is answered as any other (`serve.lane.served`).
Called by: serve.lane.transport, where somebody wants spans.  Threads: any.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.codec.frames import Kind, pack
from headrace.run import spans
from headrace.run.scope import Scope
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.connection import Connection
from headrace.serve.lane.wire import CONTEXT, METHODS, NUMBERS, Codec

_RUN: Final = {NUMBERS[method.path] for method in METHODS if method.runs_steps}


class TracedLanePeer(LanePeer):
    """See the module header."""

    def _send(
        self, connection: Connection, codec: Codec, request: Any, scope: Scope, kind: Kind
    ) -> bytes | None:
        if codec.number in _RUN:
            context = spans.outgoing()
            if context:
                connection.socket.hold(b"".join(pack(Kind.ONE_WAY, CONTEXT, 0, context)))
        super()._send(connection, codec, request, scope, kind)
        return None  # a frame that was kept would go without a context the next time
